"""What a read covers, decided once in the driver: from which sequence to which, and how that is split into tasks.

Rules:
* Both ends are fixed when the read is planned, so a task that runs twice reads the same twice.
* Ranges are half open: ``[lo, hi)``.
* A position proves itself before anything is read from it (``rules.position``). What the stream has dropped after it
  is data loss. So is a stream that was made anew, or came back shorter, since the position was taken.
* ``failOnDataLoss=false`` turns these into a warning. A stream that came back shorter is then read from the first
  message stored after the position, a recreated one from its first message.
* One answer proves no loss. A second one, after an election, has to say the same.
* Tasks of all streams count together, and short ranges of several streams are one task.
* A range is split as it was when it was first planned. A front that has moved since moves only where reading begins.
* Messages deleted inside of a range leave no trace, so they are not noticed.

Not here: the rule (``rules.position``), reading a range (``ranges``).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import sleep
from typing import Any, Final

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.read.proof import prove
from jsproto.client.read.single import ReadLevel
from jsproto.errors import MessageNotFoundError, PermissionsViolationError
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import format_timestamp
from jsproto.rules import position as rule
from jsproto.rules.position import PositionCheck, StreamFacts, Verdict, identity_of
from jsproto.ticket import Ticket
from jsproto_io.sync import JetStream
from pyspark_jetstream.offsets import SplitPlan
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import EARLIEST, LATEST, Offsets, ReadOptions, Strategy, Times
from pyspark_jetstream.schema import MAX_RUNS

FROM_EARLIEST: Final = -2
FROM_LATEST: Final = -1
RECOVERY_HINT: Final = "set failOnDataLoss to false to go on with what is there"


class DataLossError(RuntimeError):
    """Messages of a wanted range are gone, or the stream is another one of the same name. One line says which."""


@dataclass(frozen=True)
class Range:
    """One task: the messages with sequences ``lo`` to ``hi - 1``.

    ``end``: the last position of the read that the range is a part of, which proves that the stream is still as it was
    planned. ``subject``: only what matches it. The task filters if the range is ``local``, otherwise the server does.
    ``count``: how many messages it has. None: that is not known. ``matches``: about how many. ``begin``: what is before
    that is not read, because it is gone, or nothing. ``since``: nothing of the read was stored earlier, in nanoseconds
    since the epoch. None: unknown.
    """

    lo: int
    hi: int
    end: StreamPosition
    subject: str | None = None
    local: bool = False
    count: int | None = None
    begin: int = 0
    matches: int | None = None
    since: int | None = None

    @property
    def first(self) -> int:
        """The sequence with which reading begins."""
        return max(self.lo, self.begin)

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self.end.stream

    def __str__(self) -> str:
        """For errors."""
        return f"stream {self.stream}, sequences {self.lo} to {self.hi - 1}"


def look_up(js: JetStream, stream: str) -> StreamInfo:
    """The stream, which must answer Direct Gets. OptionError with one line when it does not."""
    found = _look_up_all(js, [stream])
    if not found:
        raise _no_stream(stream)
    return found[stream]


def _no_stream(stream: str) -> OptionError:
    return OptionError(f"there is no stream {stream}")


def wanted_streams(
    js: JetStream, options: ReadOptions, known: Collection[str] = (), *, is_begin: bool = True
) -> dict[str, StreamInfo]:
    """The streams that are read: those that the options name, or those that match a pattern now. OptionError.

    ``known``: those that a query has read. One that is gone is left out. Those that the options name must be there when
    it begins (``is_begin``).
    """
    names: Sequence[str] = options.streams
    if options.stream_pattern is not None:
        listed = {*js.stream_names(), *known}
        names = sorted(name for name in listed if re.fullmatch(options.stream_pattern, name))
    found = look_up_all(js, names, known)
    missing = [name for name in names if name not in found]
    if missing and options.stream_pattern is None and is_begin:
        raise _no_stream(missing[0])
    return found


def look_up_all(js: JetStream, streams: Sequence[str], known: Collection[str]) -> dict[str, StreamInfo]:
    """The states of those streams that are there, all asked at once. OptionError when one does not answer Direct Gets.

    A ``known`` one is gone when a second answer, after an election, says so, too.
    """
    found = _look_up_all(js, streams)
    if {*streams}.intersection(known) - found.keys():
        sleep(rule.ELECTION)
        found = _look_up_all(js, streams)
    return found


def _look_up_all(js: JetStream, streams: Sequence[str]) -> dict[str, StreamInfo]:
    core, connection = js._core, js._connection

    def ask(now: float) -> list[Ticket[StreamInfo]]:
        return [core.stream_info(stream, now=now, timeout=core.timeout) for stream in streams]

    tickets = connection._call_with_room(ask, limit=core.timeout)
    answers = {stream: _readable(stream, connection, each) for stream, each in zip(streams, tickets, strict=True)}
    return {stream: info for stream, info in answers.items() if info is not None}


def _readable(stream: str, connection: Any, asked: Ticket[StreamInfo]) -> StreamInfo | None:
    try:
        info: StreamInfo = connection._wait(asked)
    except StreamNotFoundError:
        return None
    if not info.config.allow_direct:  # mirror_direct alone answers for the origin's name
        raise OptionError(f"stream {stream} does not answer Direct Gets: update it with allow_direct=True")
    return info


def end_of(info: StreamInfo) -> int:
    """The sequence after the last message."""
    return info.state.last_seq + 1


def first_of(info: StreamInfo) -> int:
    """The sequence of the first message, or of where it would be."""
    return max(info.state.first_seq, 1)


def begin_of(js: JetStream, info: StreamInfo, options: ReadOptions, default: str) -> int:
    """The sequence with which a read of the stream begins. OptionError: none is of the wanted time."""
    time = _time_of(info, options.starting_timestamp)
    found = resolve(js, info, options.starting_offsets, time, default)
    if time is not None and found >= end_of(info) and options.starting_timestamp_strategy is Strategy.ERROR:
        raise OptionError(
            f"stream {info.config.name} has no message from {format_timestamp(time)} on, which is startingTimestamp"
        )
    return found


def end_before(js: JetStream, info: StreamInfo, options: ReadOptions) -> int:
    """The sequence before which a read of the stream ends."""
    return resolve(js, info, options.ending_offsets, _time_of(info, options.ending_timestamp), LATEST)


def _time_of(info: StreamInfo, times: Times | None) -> int | None:
    return times.get(info.config.name) if isinstance(times, dict) else times


def resolve(js: JetStream, info: StreamInfo, offsets: Offsets | None, time: int | None, default: str) -> int:
    """The sequence that offsets or a time stand for."""
    if time is not None:
        return first_at(js, info, time)
    stream = info.config.name
    wanted = offsets.get(stream, default) if isinstance(offsets, dict) else offsets or default
    if wanted in (EARLIEST, FROM_EARLIEST):
        return first_of(info)
    if wanted in (LATEST, FROM_LATEST):
        return end_of(info)
    assert isinstance(wanted, int)
    return wanted


def first_at(js: JetStream, info: StreamInfo, time: int) -> int:
    """The sequence of the first message stored at ``time`` or later, or the end when there is none.

    The leader is asked, because a lagging replica may have none yet. OptionError: as ``next_at_leader``.
    """
    found = _next(js, info.config.name, subject=">", start_time=time)
    return end_of(info) if found is None else found.seq


def end_position(info: StreamInfo) -> StreamPosition:
    """The position at the end of the stream, which needs no question for its witness."""
    return StreamFacts.of(info).position(info.config.name)


def ended_at(info: StreamInfo) -> int | None:
    """What follows was stored later than this. None: unknown, as in a mirror, whose messages are older.

    A leader that was replaced may have told its past.
    """
    if info.ts is None or info.config.mirror is not None:
        return None
    return info.ts - round(rule.ELECTION * 1e9)


def position_at(js: JetStream, info: StreamInfo, seq: int) -> StreamPosition:
    """The position of which ``seq`` is the last message: 0 or more.

    Within the stream the leader is asked for the witness. A message that is gone has the moment before the next one
    for a witness: whatever takes its place later comes later. A user who may not ask gets a position without.
    """
    end, first_ts = end_position(info), info.state.first_ts
    if seq == end.seq:
        return end
    if seq == first_of(info) - 1 and first_ts is not None:
        return replace(end, seq=seq, witness=first_ts - 1)
    witness = None
    if seq > 0:
        try:
            found = js.get_msg(end.stream, seq, subject=">", next=True, level="leader")
        except MessageNotFoundError:
            witness = end.witness
        except PermissionsViolationError:
            pass
        else:
            witness = found.timestamp - (found.seq > seq)
    return replace(end, seq=seq, witness=witness)


def proved(js: JetStream, info: StreamInfo, position: StreamPosition) -> tuple[Verdict, StreamInfo]:
    """What the leader of a stream, with this state, says of a position, and the state by which it does.

    A verdict that one answer does not prove takes as long as an election. The errors are those of requests.
    """
    check = PositionCheck(position)
    while True:
        try:
            verdict = _asked(js, info, check)
        except PermissionsViolationError:
            verdict = check.unanswered()
        if verdict is not Verdict.ASK_AGAIN:
            return verdict, info
        sleep(rule.ELECTION)
        info = look_up(js, position.stream)


def _asked(js: JetStream, info: StreamInfo, check: PositionCheck) -> Verdict:
    core = js._core
    return js._connection._ask(lambda now: core.session.run(prove(core, check, info=info, now=now)), core.timeout)


def begin_at(
    js: JetStream,
    info: StreamInfo,
    since: StreamPosition,
    options: ReadOptions,
    *,
    front: bool = True,
    ended_at: int | None = None,
) -> tuple[StreamPosition, StreamInfo]:
    """After which position to begin, when ``since`` was wanted, and the state of the stream by which that is decided.

    DataLossError when messages after it are gone, or it means others now, unless loss may be passed over. ``front``:
    the stream keeps all from there on, so that a first message after it is a loss. ``ended_at``: a time at which the
    stream ended there, in nanoseconds since the epoch. None: unknown.
    """
    verdict, info = proved(js, info, since)
    first, where = first_of(info), f"stream {info.config.name}"
    if verdict is Verdict.RECREATED:
        report_loss(options, _made_anew(info, since))
        return position_at(js, info, first - 1), info
    if verdict is Verdict.ROLLED_BACK:
        report_loss(options, _set_back(info, since))
        return position_at(js, info, first_after(js, info, since) - 1), info
    if verdict is Verdict.DROPPED and front and not StreamFacts.of(info).spares(ended_at):
        report_loss(options, f"{where} begins at sequence {first}, but {since.seq + 1} was to be read next")
        return position_at(js, info, first - 1), info
    if verdict is Verdict.UNPROVEN and since.identity is not None:
        what = f"nothing proves that sequence {since.seq} is still the message that the checkpoint means"
        warnings.warn(f"{where}: {what}", stacklevel=2)
    return replace(since, identity=identity_of(info)), info


def _made_anew(info: StreamInfo, since: StreamPosition) -> str:
    was, now = (format_timestamp(int(created or 0)) for created in (since.identity, info.created))
    return f"stream {info.config.name} was made anew: the offset is of {was}, the stream of {now}"


def _set_back(info: StreamInfo, since: StreamPosition) -> str:
    where, last = f"stream {info.config.name}", info.state.last_seq
    if last < since.seq:
        return f"{where} ends at sequence {last}, but {since.seq + 1} was to be read next"
    return f"{where} was set back: sequence {since.seq} is not the message that was read"


def first_after(js: JetStream, info: StreamInfo, position: StreamPosition) -> int:
    """The sequence to go on with in a stream that came back shorter: of the first message stored after the witness.

    Without a witness that is not known, and it is the end.
    """
    return end_of(info) if position.witness is None else first_at(js, info, position.witness + 1)


def report_gone(options: ReadOptions, streams: Collection[str]) -> None:
    """DataLossError that these streams are gone, or a warning for each if loss may be passed over."""
    more = "" if options.stream_pattern is None else ", or does not match streamPattern any more"
    for stream in sorted(streams):
        report_loss(options, f"stream {stream} is gone{more}")


def report_loss(options: ReadOptions, what: str) -> None:
    """DataLossError that says ``what``, or a warning if loss may be passed over."""
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}; {RECOVERY_HINT}")
    warnings.warn(what, stacklevel=3)


def next_at_leader(js: JetStream, stream: str, subject: str | None, seq: int) -> StoredMsg | None:
    """The leader's next message from ``seq`` on that matches. None: there is none.

    Where the user may not ask the leader, a single replica is asked (``check_single``). OptionError: it cannot be.
    """
    return _next(js, stream, seq=seq, subject=subject or ">")


def _next(js: JetStream, stream: str, level: ReadLevel = "leader", **wanted: Any) -> StoredMsg | None:
    try:
        return js.get_msg(stream, level=level, next=True, **wanted)
    except MessageNotFoundError:
        return None
    except PermissionsViolationError as error:
        check_single(js, stream, error)
    return _next(js, stream, "direct", **wanted)


def check_single(js: JetStream, stream: str, error: PermissionsViolationError) -> None:
    """Warn that the user may not ask the leader, so that a Direct Get is believed that has nothing more.

    OptionError: one of several replicas may lag, and rows would be left out, or another right is missing.
    """
    if ".STREAM.MSG.GET." not in error.subject:
        raise OptionError(f"stream {stream} cannot be read: {error}") from None
    replicas = js.stream_info(stream).config.num_replicas or 1
    right = f"the right to publish to {error.subject}"
    if replicas > 1:
        text = f"stream {stream} has {replicas} replicas, and only its leader knows that there is nothing more"
        raise OptionError(f"{text}: give the user {right}") from None
    what = "a mirror of it that answers Direct Gets is believed when it has nothing more"
    warnings.warn(f"stream {stream}: without {right} {what}", stacklevel=1)


def split(wholes: Sequence[Range], plan: SplitPlan) -> list[list[Range]]:
    """Each of the ranges as pieces of about equal length, none of them empty."""
    total = sum(max(whole.hi - whole.lo, 0) for whole in wholes)
    found = []
    for whole in wholes:
        span = max(whole.hi - whole.lo, 0)
        least = -(-plan.min_partitions * span // total) if plan.in_all and total else plan.min_partitions
        parts = min(max(least, -(-span // plan.max_records_per_partition)), span)
        edges = [whole.lo + span * number // parts for number in range(parts + 1)] if parts else []
        found.append([replace(whole, lo=lo, hi=hi, matches=None) for lo, hi in pairwise(edges)])
    return found


def grouped(pieces: Sequence[Range], plan: SplitPlan) -> list[list[Range]]:
    """The pieces of a read as tasks, in their order. A task has one, or some that are short, of several streams."""
    total = sum(piece.hi - piece.lo for piece in pieces)
    room = min(total // plan.min_partitions, plan.max_records_per_partition) if plan.in_all else 0
    found: list[list[Range]] = []
    used = 0
    for piece in pieces:
        span = piece.hi - piece.lo
        if found and used + span <= room and len(found[-1]) < MAX_RUNS:
            found[-1].append(piece)
            used += span
        else:
            found.append([piece])
            used = span
    return found


def later(wanted: Range, begin: int) -> Range:
    """The range, to be read from ``begin`` on. It may be empty, and stays a task: sinks know a row by its task."""
    return wanted if begin <= wanted.lo else replace(wanted, begin=begin)


def takes_all(info: StreamInfo, subject: str | None) -> bool:
    """Whether a filter takes all messages of the stream's subjects, as they are now."""
    if subject is None or subject == ">":
        return True
    return bool(info.config.subjects) and all(covers(subject, each) for each in info.config.subjects or ())


def covers(pattern: str, subject: str) -> bool:
    """Whether ``pattern`` takes all that ``subject``, which may have wildcards itself, takes."""
    left, right = pattern.split("."), subject.split(".")
    for number, token in enumerate(left):
        if token == ">":
            return len(right) > number
        if number >= len(right) or right[number] == ">" or (token != "*" and token != right[number]):
            return False
    return len(left) == len(right)
