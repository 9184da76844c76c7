"""``jsproto get``: print stored messages: one, a range, the last ones of subjects, or a snapshot.

Rules
 * It saves a consumer, and leaves the stream as it is.
 * One message comes from the leader where the stream forbids Direct Get. More of them need one.
 * The payload of one message alone is printed by --raw as it is, without a line end.

Not here: waiting for messages (``consume``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import typer

from jsproto.errors import NoRespondersError
from jsproto.grammar.times import as_datetime
from jsproto_io.cli import values
from jsproto_io.cli.commands.sub import Count, Null, Raw, check_raw
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.messages import Printer, Shown, raw_end
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.starting import ago, start_time
from jsproto_io.cli.terminal import Failure, running

if TYPE_CHECKING:
    from jsproto.grammar.stored import StoredMsg
    from jsproto_io.sync import JetStream

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_RANGE: Final = re.compile(r"(\d+)-(\d*)", re.ASCII)


@attrs.frozen(kw_only=True)
class GetPlan:
    """What ``jsproto get`` is asked to read. BadUsage where it contradicts itself.

    Attributes:
        stream: the stream.
        first: the first sequence. None: that of the stream.
        until: the last sequence. None: that of the stream.
        one: ``first`` alone.
        since: begin at this time, or so long ago.
        subjects: subjects, wildcards allowed.
        last: the last message of each of ``subjects``.
        snapshot: the last message of each subject at one sequence, as far as ``subjects`` match.
        at: the sequence or time of the snapshot, or of the last messages.
        leader: ask the stream's leader for the one message.
        count: the most messages.
    """

    stream: str
    first: int | None = None
    until: int | None = None
    one: bool = False
    since: str | None = None
    subjects: list[str]
    last: bool = False
    snapshot: bool = False
    at: str | None = None
    leader: bool = False
    count: int | None = None

    def __attrs_post_init__(self) -> None:
        by_range = self.first is not None or self.since is not None
        if sum([self.first is not None, self.since is not None, self.last, self.snapshot]) > 1:
            raise BadUsage("give one of SEQ, --since, --last and --snapshot")
        if not (by_range or self.last or self.snapshot):
            raise BadUsage("what to read? Give SEQ, FIRST-LAST, --since, --last or --snapshot")
        if self.until is not None and self.first is not None and self.until < self.first:
            raise BadUsage(f"the range {self.first}-{self.until} has nothing in it")
        if self.at is not None and not self.snapshot:
            raise BadUsage("--at needs --snapshot")
        if self.last and not self.subjects:
            raise BadUsage("--last needs --subject; all subjects are a --snapshot")
        if by_range and len(self.subjects) > 1:
            raise BadUsage("a range takes one --subject")
        if self.leader and not self.single:
            raise BadUsage("--leader is for one message")

    @property
    def single(self) -> bool:
        """Whether there can be one message at most."""
        return self.one or (self.last and len(self.subjects) == 1 and not {"*", ">"} & {*self.subjects[0].split(".")})


@app.command(
    "get",
    epilog="Example: jsproto get ORDERS --last --subject 'orders.*' --json",
)
@with_common
def get(
    common: Common,
    stream: Annotated[str, typer.Argument(help="The stream.", metavar="STREAM", show_default=False)],
    seq: Annotated[
        str | None, typer.Argument(help="A sequence; 10-20 and 10- are ranges.", metavar="SEQ", show_default=False)
    ] = None,
    since: Annotated[str | None, typer.Option(help="From a time on, or from a duration ago.", metavar="TIME")] = None,
    last: Annotated[bool, typer.Option("--last", help="The last message of each --subject.")] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="The last message of every subject, at one sequence.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(help="With --snapshot: at this sequence, before this time, or so long ago.", metavar="POINT"),
    ] = None,
    subject: Annotated[
        list[str] | None, typer.Option(help="Wildcards allowed. May be given again.", metavar="SUBJECT")
    ] = None,
    leader: Annotated[bool, typer.Option("--leader", help="Ask the stream's leader, which has all.")] = False,
    count: Count = None,
    raw: Raw = False,
    null: Null = False,
) -> None:
    """Print stored messages. More than one needs a stream with --allow-direct."""
    screen = common.screen()
    printed = 0
    with running(screen, note=lambda: f"; {printed:,} printed" if printed else "", data=lambda: {"printed": printed}):
        check_raw(raw, null, common.as_json)
        first, until, one = _sequences(seq)
        point = None if at is None else values.point(at, "--at")
        if since is not None:
            values.moment_or_duration(since, "--since")
        plan = GetPlan(
            stream=stream, first=first, until=until, one=one, since=since, subjects=subject or [], last=last,
            snapshot=snapshot, at=at, leader=leader, count=count,
        )  # fmt: skip
        printer = Printer(screen, raw, b"" if plan.single and not null else raw_end(null))
        with common.connected("get") as (_, js):
            for message in islice(_read(js, plan, point), count):
                printer.show(_shown(message))
                printed += 1
        if not printed and not common.as_json:
            screen.note("no such messages")


def _sequences(text: str | None) -> tuple[int | None, int | None, bool]:
    """The first sequence, the last one, and whether it is the first alone. BadUsage: they are none."""
    if text is None:
        return None, None, False
    found = _RANGE.fullmatch(text)
    if found is None:
        return values.sequence(text, "SEQ"), None, True
    return values.sequence(found[1], "SEQ"), values.sequence(found[2], "SEQ") if found[2] else None, False


def _read(js: JetStream, plan: GetPlan, point: Any) -> Iterator[StoredMsg]:
    """What the plan wants.

    Raises:
        Failure: the stream allows no Direct Get, and more than one message is wanted.
    """
    if plan.single:
        yield _read_one(js, plan)
        return
    try:
        yield from _read_many(js, plan, point)
    except NoRespondersError:
        js.stream_info(plan.stream)  # which raises if the stream is not there
        raise Failure(
            f"stream {plan.stream} allows no Direct Get: jsproto stream edit {plan.stream} --allow-direct"
        ) from None


def _read_one(js: JetStream, plan: GetPlan) -> StoredMsg:
    """One message, of the leader where the stream forbids Direct Get."""
    if plan.last:
        return js.get_last_msg(plan.stream, plan.subjects[0], level="leader" if plan.leader else None)
    if not plan.leader:
        with suppress(NoRespondersError):
            return js.get_msg(plan.stream, plan.first)
    return js.get_msg(plan.stream, plan.first, level="leader")


def _read_many(js: JetStream, plan: GetPlan, point: Any) -> Iterable[StoredMsg]:
    if plan.last:
        return js.get_last_msgs_for(plan.stream, plan.subjects, batch=plan.count)
    if plan.snapshot:
        if isinstance(point, timedelta):
            point = as_datetime(ago(js, plan.stream, point, "--at"))
        return js.snapshot(plan.stream, plan.subjects or ">", at=point)
    return _range(js, plan)


def _range(js: JetStream, plan: GetPlan) -> Iterator[StoredMsg]:
    subject = plan.subjects[0] if plan.subjects else None
    start = None if plan.since is None else start_time(js, plan.stream, plan.since)
    reader = js.get_batch(plan.stream, seq=plan.first, start_time=start, subject=subject, batch=plan.count)
    until = plan.until
    with reader:
        yield from reader if until is None else takewhile(lambda message: message.seq <= until, reader)


def _shown(message: StoredMsg) -> Shown:
    return Shown(message.subject, message.data, message.headers, message.seq, message.timestamp)
