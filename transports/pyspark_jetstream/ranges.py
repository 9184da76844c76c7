"""Reading one range of a stream, in a task: pages of Direct Gets, as columns.

Rules:
* A range is read to its end, or the task fails. Before it is read, and after each break, the end of the whole read
  proves itself: a stream that came back shorter, or was made anew, has other messages there.
* A read that breaks off goes on after the last message it gave, a few times in a row.
* A page may end early because a replica lags. So the end of the stream counts only when the leader says the same. If
  not, the leader gives the next messages, and then the replicas are asked again.
* Messages that have gone from the front of the rest are data loss, except in streams that drop them one by one, and
  as long as they are too young for another reason (``StreamFacts.spares``). What was deleted inside of it leaves no
  trace.

Not here: which ranges there are (``planning``), Arrow (``schema``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import inf
from time import monotonic
from typing import Final

from jsproto.client.read.plans import IfDropped
from jsproto.errors import (
    APIError,
    IncompleteBatchError,
    MessagesDroppedError,
    MirrorAnswerError,
    PermissionsViolationError,
    StreamRecreatedError,
)
from jsproto.grammar.columns import StoredColumns, stored_columns
from jsproto.grammar.subjects import matches
from jsproto.rules.position import StreamFacts, Verdict
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.connecting import TRANSIENT, Retries, is_transient
from pyspark_jetstream.options import MARKER, ReadOptions
from pyspark_jetstream.planning import (
    RECOVERY_HINT,
    DataLossError,
    Range,
    check_single,
    first_after,
    first_of,
    look_up_all,
    next_at_leader,
    proved,
    report_gone,
    report_loss,
)

_MARKER: Final = f".{MARKER}.".encode()


OF_LEADER: Final = 100  # messages, until the replicas are asked again


class ReadError(RuntimeError):
    """A task could not read its range. The message says which one and why."""


def read_range(nc: Connection, js: JetStream, wanted: Range, options: ReadOptions) -> Iterator[StoredColumns]:
    """The messages of a range, in order, in pieces of at most ``batchSize``. DataLossError, OptionError, ReadError."""
    retries = Retries(options.num_retries)
    at, hi, is_proved = wanted.first, wanted.hi, False
    if_dropped: IfDropped = "error"
    until = inf
    while at < hi:
        try:
            if not is_proved:
                asked = monotonic()
                hi, spared = _proved_end(js, wanted, options)
                if_dropped, until = ("skip", asked + spared) if spared else ("error", inf)
                is_proved = True
                continue
            for columns in _pages(js, wanted, at, hi, options, if_dropped):
                if monotonic() >= until:
                    break
                if columns.seqs[-1] >= hi:
                    inside = columns.first(bisect_left(columns.seqs, hi))
                    at = hi
                    yield inside
                    break
                at = columns.seqs[-1] + 1
                retries.reset()
                yield columns
            if at >= hi:
                return
            if monotonic() < until:
                columns = _of_leader(js, wanted, at, hi, if_dropped)
            if monotonic() >= until:  # what is gone from here on may have been old enough
                is_proved = False
                continue
            if not columns.seqs:
                return
            at = columns.seqs[-1] + 1
            retries.reset()
            yield columns
        except (*TRANSIENT, IncompleteBatchError, MirrorAnswerError, APIError) as error:
            if not retries.left or (isinstance(error, APIError) and not is_transient(error)):
                text = f"stream {wanted.stream}, sequences {at} to {wanted.hi - 1}: {error}"
                raise ReadError(text) from error
        except (MessagesDroppedError, StreamRecreatedError) as error:
            raise DataLossError(f"stream {wanted.stream}: {error}; {RECOVERY_HINT}") from None
        else:
            continue
        is_proved = False
        retries.wait(nc)


def _proved_end(js: JetStream, wanted: Range, options: ReadOptions) -> tuple[int, float]:
    """The sequence before which messages are those that were planned, and for how many seconds a moved front is no
    loss. DataLossError.
    """
    found = look_up_all(js, [wanted.stream], [wanted.stream])
    if not found:
        report_gone(options, [wanted.stream])
        return wanted.lo, inf
    verdict, info = proved(js, found[wanted.stream], wanted.end)
    spared = StreamFacts.of(info).spares(wanted.since) if options.fail_on_data_loss else inf
    if verdict is Verdict.RECREATED:
        report_loss(options, f"stream {wanted.stream} was made anew while it was read")
        return wanted.lo, spared
    if verdict is Verdict.ROLLED_BACK:
        what = f"it is not the same up to sequence {wanted.end.seq} any more"
        report_loss(options, f"stream {wanted.stream} was set back while it was read: {what}")
        return min(wanted.hi, first_after(js, info, wanted.end)), spared
    return wanted.hi, spared


def _pages(
    js: JetStream, wanted: Range, at: int, hi: int, options: ReadOptions, if_dropped: IfDropped
) -> Iterator[StoredColumns]:
    known = wanted.matches if wanted.count is None else wanted.count
    most = hi - at
    if known is not None and at == wanted.first:  # and one more, by which the end shows
        most = min(most, known + 1)
    reader = js.get_batch(
        wanted.stream,
        seq=at,
        subject=None if wanted.local else wanted.subject,
        batch=most,
        max_bytes=options.max_bytes,
        if_dropped=if_dropped,
    )
    try:
        with reader:
            yield from reader.columns(options.batch_size)
    except PermissionsViolationError as error:  # the leader was to say that there is nothing more
        check_single(js, wanted.stream, error)


def _of_leader(js: JetStream, wanted: Range, at: int, hi: int, if_dropped: IfDropped) -> StoredColumns:
    """The next messages of the range, if there are any: not many, because they come one by one. DataLossError."""
    found: list[tuple[bytes, bytes, int]] = []
    following = at
    while following < hi and len(found) < OF_LEADER:
        message = next_at_leader(js, wanted.stream, wanted.subject, following)
        if message is None or message.seq >= hi:
            break
        found.append((message.raw_headers, message.data, message.seq))
        following = message.seq + 1
    if found and found[0][2] > at and if_dropped == "error":
        first = first_of(js.stream_info(wanted.stream))
        if first > at:
            raise MessagesDroppedError(at, first)
    return stored_columns(found)


def matching(columns: StoredColumns, wanted: Range) -> StoredColumns:
    """The rows that the filter of the range takes."""
    if not wanted.local or wanted.subject is None:
        return columns
    subjects = set(columns.subjects)
    taken = {each for each in subjects if matches(wanted.subject, each.decode("utf-8", "surrogateescape"))}
    return columns if taken == subjects else columns.where([subject in taken for subject in columns.subjects])


def without_markers(columns: StoredColumns) -> StoredColumns:
    """The rows but for the markers of our own sink."""
    if _MARKER not in b" ".join(columns.subjects):
        return columns
    return columns.where([_MARKER not in subject for subject in columns.subjects])


def check_count(found: int, wanted: Range, options: ReadOptions) -> None:
    """DataLossError when a range has another number of messages than it should, unless loss may be passed over."""
    if wanted.count is not None and found != wanted.count:
        report_loss(options, f"{wanted}: {wanted.count} messages were delivered to the driver, and {found} are there")
