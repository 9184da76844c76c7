"""``jsproto consume``: print the messages of a stream in order, or those of a consumer, and acknowledge them.

Rules
 * A stream named alone is read by an ordered consumer: each message once, and the stream stays as it is.
 * A message is acknowledged after it has been printed, and the reader of standard output has it.
 * Without --follow it ends after what is there.

Not here: messages by their sequence or subject (``get``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from jsproto.errors import TimeoutError
from jsproto_io.cli import values
from jsproto_io.cli.commands.sub import Count, Null, Raw, check_raw
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.connecting import LinkNotes
from jsproto_io.cli.messages import Printer, Shown, raw_end
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.starting import start_time
from jsproto_io.cli.terminal import running

if TYPE_CHECKING:
    from jsproto_io.sync import JetStream, JSMsg, PullSubscription, PushSubscription

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MOST = 500  # messages that are fetched, printed and acknowledged together
AHEAD = 100  # messages that may be delivered before they are printed, with --follow
PATIENCE = 30.0  # seconds that one request for a message waits at the server
SILENCE = 1.0  # seconds without a message, after which an ordered reader looks whether it is at the end


@attrs.frozen(kw_only=True)
class ConsumePlan:
    """What ``jsproto consume`` is asked to do. BadUsage where it contradicts itself.

    Attributes:
        stream: the stream.
        consumer: a consumer that exists. None: one of its own.
        durable: a consumer that is found or created.
        filters: subjects, wildcards allowed. None or empty: all.
        seq: begin at this sequence.
        since: begin at this time, or so long ago.
        last: begin with the last message.
        new: begin with the next message, and go on.
        follow: go on until Ctrl-C.
        ack: acknowledge what was printed.
        count: end after so many messages.
    """

    stream: str
    consumer: str | None = None
    durable: str | None = None
    filters: list[str] | None = None
    seq: int | None = None
    since: str | None = None
    last: bool = False
    new: bool = False
    follow: bool = False
    ack: bool = False
    count: int | None = None

    def __attrs_post_init__(self) -> None:
        starts = [self.seq is not None, self.since is not None, self.last, self.new]
        if sum(starts) > 1:
            raise BadUsage("give one of --seq, --since, --last and --new")
        if self.consumer is not None and (any(starts) or self.filters or self.durable):
            raise BadUsage("a consumer that exists has its own start and subjects: leave those options out")
        if self.since is not None:
            values.moment_or_duration(self.since, "--since")

    @property
    def pulls(self) -> bool:
        """Whether it pulls from a consumer and acknowledges, or reads with an ordered one."""
        return self.ack or self.consumer is not None or self.durable is not None

    def options(self, js: JetStream) -> dict[str, Any]:
        """The configuration of a new consumer."""
        options: dict[str, Any] = {}
        if self.filters and len(self.filters) > 1:
            options["filter_subjects"] = self.filters
        if self.seq is not None:
            options |= {"deliver_policy": "by_start_sequence", "opt_start_seq": self.seq}
        elif self.since is not None:
            options |= {"deliver_policy": "by_start_time", "opt_start_time": start_time(js, self.stream, self.since)}
        elif self.last:
            options["deliver_policy"] = "last"
        elif self.new:
            options["deliver_policy"] = "new"
        return options

    @property
    def subject(self) -> str | None:
        """The one subject to receive, None when there are none or several."""
        return self.filters[0] if self.filters and len(self.filters) == 1 else None


@app.command(
    "consume",
    epilog="Example: jsproto consume ORDERS --since 1h --follow --json",
)
@with_common
def consume(
    common: Common,
    stream: Annotated[str, typer.Argument(help="The stream.", metavar="STREAM", show_default=False)],
    consumer: Annotated[
        str | None, typer.Option(help="Pull from this consumer, which is there.", metavar="NAME")
    ] = None,
    durable: Annotated[
        str | None, typer.Option(help="Pull from this consumer, and create it if need be.", metavar="NAME")
    ] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="This subject alone. May be given again.", metavar="SUBJECT")
    ] = None,
    seq: Annotated[int | None, typer.Option(min=1, help="Begin at this sequence.", metavar="N")] = None,
    since: Annotated[str | None, typer.Option(help="Begin at a time, or a duration ago.", metavar="TIME")] = None,
    last: Annotated[bool, typer.Option("--last", help="Begin with the last message.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Begin with the next message, and follow.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until Ctrl-C.")] = False,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge what was printed.")] = False,
    count: Count = None,
    raw: Raw = False,
    null: Null = False,
) -> None:
    """Print the messages of a stream in order, each once, and leave it as it is.

    With --consumer, --durable or --ack they are pulled from a consumer. Without --ack they are delivered again later.
    """
    screen = common.screen()
    taken = 0
    with running(screen, note=lambda: f"; {taken:,} printed" if taken else "", data=lambda: {"printed": taken}):
        check_raw(raw, null, common.as_json)
        plan = ConsumePlan(
            stream=stream, consumer=consumer, durable=durable, filters=filters, seq=seq, since=since, last=last,
            new=new, follow=follow or new, ack=ack, count=count,
        )  # fmt: skip
        printer = Printer(screen, raw, raw_end(null))
        options: dict[str, Any] = {"event_cb": LinkNotes(screen)} | (
            {"max_reconnect_attempts": -1} if plan.follow else {}
        )
        with common.connected("consume", **options) as (nc, js):
            for messages in _pulled(js, plan) if plan.pulls else _ordered(js, plan):
                for message in messages:
                    printer.show(shown(message))
                    taken += 1
                if plan.follow or plan.pulls:
                    printer.flush()
                if ack:
                    for message in messages:
                        message.ack()
                if taken == count:
                    break
            if ack:
                nc.flush()


def shown(message: JSMsg) -> Shown:
    """A message of a consumer, to print."""
    about = message.metadata
    more = {"stream": about.stream, "delivered": about.num_delivered, "pending": about.num_pending}
    return Shown(message.subject, message.data, message.headers, about.sequence.stream, about.timestamp, more=more)


def _pulled(js: JetStream, plan: ConsumePlan) -> Iterator[list[JSMsg]]:
    left = plan.count
    with _pull(js, plan) as subscription:
        if plan.follow and left is None:
            with subscription.messages(max_msgs=AHEAD) as messages:
                for message in messages:
                    yield [message]
            return
        while plan.follow:  # no more than what is to be printed: the rest is for others
            yield subscription.fetch(1, timeout=PATIENCE)
        while found := subscription.fetch_no_wait(MOST if left is None else min(MOST, left)):
            yield found
            left = None if left is None else left - len(found)


def _pull(js: JetStream, plan: ConsumePlan) -> PullSubscription:
    if plan.consumer is not None:
        return js.pull_subscribe_bind(plan.consumer, plan.stream)
    return js.pull_subscribe(plan.subject, plan.durable, stream=plan.stream, **plan.options(js))


def _ordered(js: JetStream, plan: ConsumePlan) -> Iterator[list[JSMsg]]:
    with js.subscribe(plan.subject, stream=plan.stream, ordered=True, **plan.options(js)) as subscription:
        if not plan.follow and _at_end(subscription, 0):
            return
        seen = 0
        while True:
            try:
                message = subscription.next_msg(timeout=None if plan.follow else SILENCE)
            except TimeoutError:
                if _at_end(subscription, seen):
                    return
                continue
            yield [message]
            about = message.metadata
            seen = about.sequence.consumer
            if not about.num_pending and not plan.follow:
                return


def _at_end(subscription: PushSubscription, seen: int) -> bool:
    """Whether all is delivered, and all that was delivered was seen."""
    info = subscription.consumer_info()
    return not info.num_pending and info.delivered.consumer_seq <= seen
