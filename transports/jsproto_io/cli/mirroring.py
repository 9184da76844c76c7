"""Copying a stream into another one, with what the target has known at every moment.

Rules
 * The consumer is created if it is missing. It stays, and so does what it has acknowledged.
 * The target is created only where that was asked for.
 * After any exception the next run goes on where this one was.

Not here: the copy itself (``JetStream.copy``), and what is shown (``report``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from jsproto.api_errors import (
    ConsumerNotFoundError,
    ConsumerWQConsumerNotUniqueError,
    ConsumerWQMultipleUnfilteredError,
    StreamNotFoundError,
)
from jsproto.client.copy.target import CopyDelivery
from jsproto.errors import APIError
from jsproto.events import CopyRestarted, Event, SourceBusy, SourceSkipped, StreamRecreated
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.subjects import check_name, matches
from jsproto_io.cli.ingesting import Meter
from jsproto_io.cli.records import BadUsage
from jsproto_io.sync import JetStream, StreamCopy

_SUBJECTS_OVERLAP: Final = 10065
_NOT_ALONE: Final = (ConsumerWQConsumerNotUniqueError, ConsumerWQMultipleUnfilteredError)
MAX_ACK_PENDING: Final = 10_000  # messages that may be copied again after a crash: fewer are slower


@attrs.frozen(kw_only=True)
class MirrorPlan:
    """The plan of one ``jsproto mirror``.

    Attributes:
        source: the stream to copy.
        target: the stream to copy to.
        consumer: the name of the consumer of ``source``.
        subject: copy this subject alone, wildcards allowed. None: all.
        prefix: text before each subject of a copy.
        marker: the subject of markers, for atomic batches. None: fast ingest.
        create: create the target if it is not there.
        shared: share a work queue with its other consumers. Only where the consumer is created.
        follow: go on until Ctrl-C.
        wait: seconds in which the consumer must deliver here.
    """

    source: str
    target: str
    consumer: str
    subject: str | None = None
    prefix: str = ""
    marker: str | None = None
    create: bool = False
    shared: bool = False
    follow: bool = False
    wait: float = 10.0

    @property
    def delivery(self) -> CopyDelivery:
        """How copies are stored."""
        return "fast" if self.marker is None else "atomic"


@attrs.define
class Mirrored:
    """What one run has done. ``copy`` is None before it begins.

    ``skipped`` are the first and the last sequences of what was passed over, as far as there were any.
    """

    copy: StreamCopy | None = None
    meter: Meter = attrs.field(factory=Meter)
    skipped: list[tuple[int, int]] = attrs.field(factory=list)

    def on_event(self, event: Event) -> str | None:
        """What to say of an event. None: nothing."""
        match event:
            case SourceSkipped(stream, _, first, last):
                self.skipped.append((first, last))
                return (
                    f"messages {first:,} to {last:,} of {stream} are gone or acknowledged already (limits, or somebody"
                    " else), and are not copied"
                )
            case StreamRecreated(stream, _):
                return f"stream {stream} was created again: it is copied from its beginning"
            case SourceBusy(stream, consumer):
                return f"consumer {consumer} of {stream} is used by another program, which is waited for"
            case CopyRestarted(_, _, position, error):
                return f"the copy begins again after {position:,}: {error}"
        return None

    @property
    def copied(self) -> int:
        """How many copies the target has acknowledged."""
        return 0 if self.copy is None else self.copy.copied


def mirror(
    js: JetStream, to: JetStream, plan: MirrorPlan, result: Mirrored, on_begin: Callable[[StreamCopy], None]
) -> None:
    """Copy by ``plan`` from ``js`` to ``to``. ``on_begin`` gets the copy before it runs.

    Raises:
        BadUsage: the target is missing, or the consumer has another filter.
        Error: otherwise as in ``StreamCopy.run``.
    """
    check_name(plan.target)
    config = js.stream_info(plan.source).config
    _check_filter(js, plan)
    _prepare_target(to, config, plan)
    wanted = ConsumerConfig(
        ack_policy="flow_control", max_ack_pending=MAX_ACK_PENDING, filter_subject=plan.subject,
        sourcing=True if plan.shared else None,
    )  # fmt: skip
    result.copy = copy = js.copy(
        plan.source, plan.consumer, plan.target, to=to, config=wanted, delivery=plan.delivery, marker=plan.marker,
        prefix=plan.prefix, timeout=plan.wait,
    )  # fmt: skip
    on_begin(copy)
    result.meter.start()
    try:
        copy.run(until_caught_up=not plan.follow)
    except _NOT_ALONE as error:
        raise BadUsage(f"{error}; --shared copies a work queue beside its other consumers") from error
    finally:
        result.meter.stop(copy.copied)


def _check_filter(js: JetStream, plan: MirrorPlan) -> None:
    try:
        found = js.consumer_info(plan.source, plan.consumer).config
    except ConsumerNotFoundError:
        return
    wanted = [] if plan.subject is None else [plan.subject]
    if [*found.filters] != wanted:
        filters = ", ".join(found.filters) or "none"
        raise BadUsage(
            f"consumer {plan.consumer} is there with another filter ({filters}): "
            "give that one, or choose another --consumer and another DST"
        )


def _prepare_target(to: JetStream, source: StreamConfig, plan: MirrorPlan) -> None:
    try:
        to.stream_info(plan.target)
    except StreamNotFoundError:
        if not plan.create:
            raise BadUsage(f"there is no stream {plan.target}: add --create-stream to make it") from None
        own = source.subjects
        if not own and (source.mirror is not None or source.sources):  # whatever its origins have
            if not plan.prefix:
                raise BadUsage(
                    f"{plan.source} copies other streams: give a --prefix, or make {plan.target} yourself"
                ) from None
            own = [">"]
        subjects = [plan.prefix + subject for subject in own or [source.name]]
        if plan.marker is not None and not any(matches(subject, plan.marker) for subject in subjects):
            subjects.append(plan.marker)
        try:
            if plan.marker is None:
                to.create_stream(plan.target, subjects=subjects, allow_batched=True, allow_direct=True)
            else:
                to.create_stream(plan.target, subjects=subjects, allow_atomic=True, allow_direct=True)
        except APIError as error:
            if error.err_code != _SUBJECTS_OVERLAP:
                raise
            raise BadUsage(f"{error}: choose a --prefix, or other servers by --to-servers") from error
