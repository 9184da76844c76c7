"""The configuration of a consumer as options of a command.

Rules: those of ``configuring``. Besides:

* A start implies its ``deliver_policy``.
* ``--sourcing`` is for a consumer from which a stream copies: it settles what such a consumer needs.

Not here: what a configuration means (``jsproto.ConsumerConfig``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.sourcing_consumer import sourcing_consumer
from jsproto_io.cli import values
from jsproto_io.cli.common import adding
from jsproto_io.cli.configuring import Fields, File, Flag, Given, Metadata, Number, Text, by_commas
from jsproto_io.cli.records import BadUsage

_DURATIONS: Final = ("ack_wait", "idle_heartbeat", "inactive_threshold", "max_expires")
_OTHERS: Final = ("filter_subject", "backoff", "sourcing", "opt_start_time")


def _options(
    filter_subject: Annotated[
        list[str] | None, typer.Option(help="What it delivers; several by commas, or again.", metavar="SUBJECT")
    ] = None,
    description: Annotated[Text, typer.Option(help="What it is for.", metavar="TEXT")] = None,
    deliver_policy: Annotated[
        Text, typer.Option(help="all, last, new or last_per_subject: where it begins.", metavar="WORD")
    ] = None,
    opt_start_seq: Annotated[Number, typer.Option(min=1, help="Begin at this sequence.", metavar="N")] = None,
    opt_start_time: Annotated[
        Text, typer.Option(help="Begin at this time, such as 2026-11-25T16:31:00Z.", metavar="TIME")
    ] = None,
    ack_policy: Annotated[Text, typer.Option(help="explicit, all or none.", metavar="WORD")] = None,
    ack_wait: Annotated[Text, typer.Option(help="Such as 30s: deliver again after it.", metavar="DURATION")] = None,
    max_deliver: Annotated[Number, typer.Option(min=-1, help="-1: no limit.", metavar="N")] = None,
    backoff: Annotated[
        Text, typer.Option(help="When to deliver again, such as 1s,30s,5m.", metavar="DURATIONS")
    ] = None,
    max_ack_pending: Annotated[
        Number, typer.Option(min=-1, help="How many wait for their ack; -1: no limit.", metavar="N")
    ] = None,
    replay_policy: Annotated[Text, typer.Option(help="instant or original: how fast.", metavar="WORD")] = None,
    headers_only: Annotated[Flag, typer.Option(help="No payloads.")] = None,
    inactive_threshold: Annotated[
        Text, typer.Option(help="Such as 1h: it goes when nobody uses it so long.", metavar="DURATION")
    ] = None,
    max_waiting: Annotated[Number, typer.Option(min=1, help="Pull requests at once.", metavar="N")] = None,
    max_batch: Annotated[Number, typer.Option(min=0, help="Messages of a pull request.", metavar="N")] = None,
    max_expires: Annotated[Text, typer.Option(help="How long one may wait.", metavar="DURATION")] = None,
    deliver_subject: Annotated[Text, typer.Option(help="Push to this subject.", metavar="SUBJECT")] = None,
    deliver_group: Annotated[Text, typer.Option(help="The queue group that it pushes to.", metavar="NAME")] = None,
    flow_control: Annotated[Flag, typer.Option(help="Ask before much is pushed.")] = None,
    idle_heartbeat: Annotated[Text, typer.Option(help="Such as 5s, of a push consumer.", metavar="DURATION")] = None,
    rate_limit_bps: Annotated[Number, typer.Option(min=0, help="Bits a second that it pushes.", metavar="N")] = None,
    replicas: Annotated[Number, typer.Option(min=0, help="0: those of the stream.", metavar="N")] = None,
    mem_storage: Annotated[Flag, typer.Option(help="Its state is kept in memory.")] = None,
    metadata: Metadata = None,
    fields: Fields = None,
    config: File = None,
    sourcing: Annotated[
        bool, typer.Option("--sourcing", help="For a stream that copies from it. Needs --deliver-subject.")
    ] = False,
) -> None:
    """The parameters, of which typer reads names, types, defaults and help."""


@dataclass(frozen=True, slots=True)
class ConsumerConfiguration(Given):
    """The options of ``with_consumer``, as the command line has them. None: not given."""

    filter_subject: list[str] | None
    description: str | None
    deliver_policy: str | None
    opt_start_seq: int | None
    opt_start_time: str | None
    ack_policy: str | None
    ack_wait: str | None
    max_deliver: int | None
    backoff: str | None
    max_ack_pending: int | None
    replay_policy: str | None
    headers_only: bool | None
    inactive_threshold: str | None
    max_waiting: int | None
    max_batch: int | None
    max_expires: str | None
    deliver_subject: str | None
    deliver_group: str | None
    flow_control: bool | None
    idle_heartbeat: str | None
    rate_limit_bps: int | None
    mem_storage: bool | None
    sourcing: bool

    def of(self, name: str) -> ConsumerConfig:
        """The configuration of a new durable consumer.

        Raises:
            BadUsage: a value cannot be one, or the file cannot be read.
            LocalProtocolError: the fields cannot stand together.
        """
        changes = self.changes()
        if other := {"name", "durable_name"} & changes.keys():
            raise BadUsage(f"the consumer is named {name}: leave out --set {min(other)}")
        if self.sourcing:
            deliver_subject = changes.pop("deliver_subject", None)
            if not deliver_subject:
                raise BadUsage("--sourcing needs --deliver-subject: where the stream that copies listens")
            return sourcing_consumer(name, deliver_subject, **changes)
        return ConsumerConfig.from_options(**changes, durable_name=name)

    def changes(self) -> dict[str, Any]:
        """The fields of ConsumerConfig that the options give, and those of the file.

        Raises:
            BadUsage: a value cannot be one, or the file cannot be read.
        """
        options = self.plain(_OTHERS, durations=_DURATIONS)
        if self.backoff is not None:
            options["backoff"] = [values.duration(each, "--backoff") for each in self.backoff.split(",")]
        if self.opt_start_time is not None:
            options["opt_start_time"] = values.moment(self.opt_start_time, "--opt-start-time")
        for start, policy in (("opt_start_seq", "by_start_sequence"), ("opt_start_time", "by_start_time")):
            if start in options:
                options.setdefault("deliver_policy", policy)
        if self.filter_subject:
            found = by_commas(self.filter_subject)
            options |= {"filter_subject": found[0]} if len(found) == 1 else {"filter_subjects": found}
        return self.over_file(options, ConsumerConfig, "consumer")


with_consumer = adding(_options, ConsumerConfiguration, "configuration")
