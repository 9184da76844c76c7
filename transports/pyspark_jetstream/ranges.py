"""Reading one range of a stream, in a task: pages of Direct Gets, as columns.

Rules: a range is read to its end or the task fails. A read that breaks off is resumed behind the last message it gave,
a few times. A page may end early because a replica lags behind, so the end of the stream is believed only when its
leader says the same. What is missing at the front of the range is told from what was deleted inside of it by asking for
the stream's first sequence.

Not here: which ranges there are (``planning``), Arrow (``schema``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from jsproto.errors import ConnectionLostError, IncompleteBatchError, MessageNotFoundError, NoRespondersError
from jsproto.errors import TimeoutError as NoAnswerError
from jsproto.grammar.columns import StoredColumns
from jsproto_io.sync import JetStream
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.planning import DataLossError, Range, created

PASSING: Final = (ConnectionLostError, IncompleteBatchError, NoAnswerError, NoRespondersError)


class ReadError(RuntimeError):
    """A task could not read its range; the message says which one and why."""


def read_range(js: JetStream, wanted: Range, options: ReadOptions) -> Iterator[StoredColumns]:
    """The messages of a range, in order, in pieces of about ``batchSize``."""
    at, tries = wanted.lo, options.retries
    check_front(js, wanted, options)
    while at < wanted.hi:
        try:
            for columns in _read(js, wanted, at, options):
                at = columns.seqs[-1] + 1
                yield columns
            found = next_at_leader(js, wanted, at)
            if found is None or found >= wanted.hi:
                return
            at, reason = found, "a replica lags behind"
        except PASSING as error:
            reason = str(error)
        if tries <= 0:
            raise ReadError(f"stream {wanted.stream}, sequences {at} to {wanted.hi - 1}: {reason}")
        tries -= 1


def check_front(js: JetStream, wanted: Range, options: ReadOptions) -> None:
    """DataLossError when the range was purged, or the stream made anew, since it was planned."""
    if not options.fail_on_data_loss:
        return
    info = js.stream_info(wanted.stream)
    if created(info) != wanted.created:
        raise DataLossError(f"stream {wanted.stream} was made anew while it was read")
    if info.state.first_seq > wanted.lo:
        text = (
            f"stream {wanted.stream} begins at sequence {info.state.first_seq} by now, but {wanted.lo} was to be read"
        )
        raise DataLossError(f"{text}; set failOnDataLoss to false to go on with what is there")


def next_at_leader(js: JetStream, wanted: Range, seq: int) -> int | None:
    """The sequence of the next message of the range from ``seq`` on, as the leader knows it; None: there is none."""
    try:
        return js.get_msg(wanted.stream, seq, subject=wanted.subject or ">", next=True, level="leader").seq
    except MessageNotFoundError:
        return None


def _read(js: JetStream, wanted: Range, at: int, options: ReadOptions) -> Iterator[StoredColumns]:
    most = wanted.hi - at
    subject = None if wanted.local else wanted.subject
    with js.get_batch(wanted.stream, seq=at, subject=subject, batch=most, max_bytes=options.page_bytes) as reader:
        for columns in reader.columns(options.page_messages):
            if columns.seqs[-1] < wanted.hi:
                yield columns
                continue
            inside = bisect_left(columns.seqs, wanted.hi)
            if inside:
                yield columns.first(inside)
            return
