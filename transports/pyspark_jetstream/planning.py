"""What a read covers, decided once in the driver: from which sequence to which, and how that is split into tasks.

Rules:
* Both ends are fixed when the read is planned, so a task that runs twice reads the same twice.
* Ranges are half open: ``[lo, hi)``.
* What the stream has dropped from the front of a wanted range is data loss. So is a stream that was made anew since the
  offset was taken. ``failOnDataLoss=false`` turns both into a warning.
* Messages deleted inside of a range leave no trace, so they are not noticed.

Not here: reading a range (``ranges``).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import MessageNotFoundError
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import format_timestamp
from jsproto_io.sync import JetStream
from pyspark_jetstream.offsets import Position, SplitPlan
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import EARLIEST, LATEST, Offsets, ReadOptions

FROM_EARLIEST: Final = -2
FROM_LATEST: Final = -1
RECOVERY_HINT: Final = "set failOnDataLoss to false to go on with what is there"
DENSE: Final = 0.1  # of the messages; from there on reading them all is cheaper than a filter with wildcards


class DataLossError(RuntimeError):
    """Messages of a wanted range are gone, or the stream is another one of the same name. One line says which."""


@dataclass(frozen=True)
class Range:
    """One task: the messages of ``stream`` with sequences ``lo`` to ``hi - 1``.

    ``created``: when the stream was made, nanoseconds since the epoch. ``subject``: only what matches it. The task
    filters if the range is ``local``, otherwise the server does. ``count``: how many messages it has. None: that is not
    known.
    """

    stream: str
    created: int
    lo: int
    hi: int
    subject: str | None = None
    local: bool = False
    count: int | None = None


def look_up(js: JetStream, stream: str) -> StreamInfo:
    """The stream, which must answer Direct Gets. OptionError with one line when it does not."""
    try:
        info = js.stream_info(stream)
    except StreamNotFoundError:
        raise OptionError(f"there is no stream {stream}") from None
    if not (info.config.allow_direct or (info.config.mirror is not None and info.config.mirror_direct)):
        raise OptionError(f"stream {stream} does not answer Direct Gets: update it with allow_direct=True")
    return info


def end_of(info: StreamInfo) -> int:
    """The sequence after the last message."""
    return info.state.last_seq + 1


def first_of(info: StreamInfo) -> int:
    """The sequence of the first message, or of where it would be."""
    return max(info.state.first_seq, 1)


def created(info: StreamInfo) -> int:
    """When the stream was made, in nanoseconds since the epoch."""
    return info.created or 0


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

    The leader is asked, because a lagging replica may have none yet.
    """
    try:
        return js.get_msg(info.config.name, subject=">", next=True, start_time=time, level="leader").seq
    except MessageNotFoundError:
        return end_of(info)


def check_loss(info: StreamInfo, since: Position, options: ReadOptions, *, front: bool = True) -> Position:
    """Where to begin, when ``since`` was wanted. DataLossError when that is gone, unless loss may be passed over.

    ``front``: the stream keeps all from there on, so that a first message after it is a loss.
    """
    stream = info.config.name
    if since.created != created(info):
        was, now = format_timestamp(since.created), format_timestamp(created(info))
        report_loss(options, f"stream {stream} was made anew: the offset is of {was}, the stream of {now}")
        return Position(created(info), first_of(info))
    first, end = first_of(info), end_of(info)
    if since.seq > end:
        report_loss(options, f"stream {stream} ends at sequence {end - 1}, but {since.seq} was to be read next")
        return Position(since.created, end)
    if front and since.seq < first:
        report_loss(options, f"stream {stream} begins at sequence {first}, but {since.seq} was to be read next")
        return Position(since.created, first)
    return since


def report_loss(options: ReadOptions, what: str) -> None:
    """DataLossError that says ``what``, or a warning if loss may be passed over."""
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}; {RECOVERY_HINT}")
    warnings.warn(what, stacklevel=3)


def next_at_leader(js: JetStream, stream: str, subject: str | None, seq: int) -> StoredMsg | None:
    """The leader's next message from ``seq`` on that matches. None: there is none."""
    try:
        return js.get_msg(stream, seq, subject=subject or ">", next=True, level="leader")
    except MessageNotFoundError:
        return None


def split(whole: Range, plan: SplitPlan) -> Sequence[Range]:
    """The range as tasks of about equal length, none of them empty."""
    span = whole.hi - whole.lo
    if span <= 0:
        return []
    parts = min(max(plan.min_partitions, -(-span // plan.max_records_per_partition)), span)
    edges = [whole.lo + span * number // parts for number in range(parts + 1)]
    return [replace(whole, lo=lo, hi=hi) for lo, hi in pairwise(edges)]


def filtered(js: JetStream, info: StreamInfo, subject: str | None, whole: Range) -> Range:
    """The range with the filter where it costs least.

    A server looks for wildcards message by message, at several times the price of reading all. So a filter that takes
    much is left to the task. It is not left out, whatever the stream's subjects are: they may have been others once,
    and what comes from sources has subjects of its own.
    """
    if subject is None or subject == ">":
        return whole
    wanted = replace(whole, subject=subject)
    if "*" not in subject and ">" not in subject:
        return wanted
    if info.config.subjects and all(covers(subject, each) for each in info.config.subjects):
        return replace(wanted, local=True)
    return replace(wanted, local=count_of(js, wanted) > (whole.hi - whole.lo) * DENSE)


def count_of(js: JetStream, wanted: Range) -> int:
    """How many messages match from the front of the range to the end of the stream."""
    with js.get_batch(wanted.stream, seq=wanted.lo, subject=wanted.subject, batch=1) as reader:
        for message in reader:
            return 1 + (message.num_pending or 0)
    return 0


def covers(pattern: str, subject: str) -> bool:
    """Whether ``pattern`` takes all that ``subject``, which may have wildcards itself, takes."""
    left, right = pattern.split("."), subject.split(".")
    for number, token in enumerate(left):
        if token == ">":
            return len(right) > number
        if number >= len(right) or right[number] == ">" or (token != "*" and token != right[number]):
            return False
    return len(left) == len(right)
