"""Copying a stream into another one, with what the target has known at every moment.

Rules
 * The consumer is created if it is not there. It stays, and so does what it has acknowledged.
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
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto_io.cli.ingest import Meter
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
    """What one run has done. ``copy`` is None before it begins."""

    copy: StreamCopy | None = None
    meter: Meter = attrs.field(factory=Meter)

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
    if plan.subject is not None and [*found.filters] != [plan.subject]:
        filters = ", ".join(found.filters) or "none"
        raise BadUsage(f"consumer {plan.consumer} is there with another filter ({filters}): choose another --consumer")


def _prepare_target(to: JetStream, source: StreamConfig, plan: MirrorPlan) -> None:
    try:
        to.stream_info(plan.target)
    except StreamNotFoundError:
        if not plan.create:
            raise BadUsage(f"there is no stream {plan.target}: add --create-stream to make it") from None
        subjects = [plan.prefix + subject for subject in source.subjects or [source.name]]
        try:
            if plan.marker is None:
                to.create_stream(plan.target, subjects=subjects, allow_batched=True, allow_direct=True)
            else:
                to.create_stream(plan.target, subjects=[*subjects, plan.marker], allow_atomic=True, allow_direct=True)
        except APIError as error:
            if error.err_code != _SUBJECTS_OVERLAP:
                raise
            raise BadUsage(f"{error}: choose a --prefix, or other servers by --to-servers") from error
