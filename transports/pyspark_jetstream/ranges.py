"""Reading one range of a stream, in a task: pages of Direct Gets, as columns.

Rules: a range is read to its end or the task fails. A read that breaks off is resumed behind the last message it gave,
a few times. A page may end early because a replica lags behind, so the end of the stream is believed only when its
leader says the same. What has gone from the front of what is still to be read is data loss; what was deleted inside of
it leaves no trace.

Not here: which ranges there are (``planning``), Arrow (``schema``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from jsproto.errors import IncompleteBatchError, MessagesDroppedError
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.subjects import matches
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.connecting import PASSING, wait_for
from pyspark_jetstream.options import MARKER, ReadOptions
from pyspark_jetstream.planning import HOW_TO_GO_ON, DataLossError, Range, created, next_at_leader

_MARKER: Final = f".{MARKER}.".encode()


class ReadError(RuntimeError):
    """A task could not read its range; the message says which one and why."""


def read_range(nc: Connection, js: JetStream, wanted: Range, options: ReadOptions) -> Iterator[StoredColumns]:
    """The messages of a range, in order, in pieces of at most ``batchSize``. DataLossError, ReadError."""
    tries = options.retries
    if options.fail_on_data_loss and created(js.stream_info(wanted.stream)) != wanted.created:
        raise DataLossError(f"stream {wanted.stream} was made anew while it was read; {HOW_TO_GO_ON}")
    at = wanted.lo
    while at < wanted.hi:
        try:
            for columns in _pages(js, wanted, at, options):
                if columns.seqs[-1] >= wanted.hi:
                    inside = columns.first(bisect_left(columns.seqs, wanted.hi))
                    at = wanted.hi
                    yield inside
                    break
                at = columns.seqs[-1] + 1
                yield columns
            if at >= wanted.hi:
                return
            found = next_at_leader(js, wanted.stream, wanted.subject, at)
            if found is None or found >= wanted.hi:
                return
            reason: str | Exception = "a replica lags behind"
        except (*PASSING, IncompleteBatchError) as error:
            reason = error
            wait_for(nc)
        except MessagesDroppedError as error:
            raise DataLossError(f"stream {wanted.stream}: {error}; {HOW_TO_GO_ON}") from None
        if not tries:
            raise ReadError(f"stream {wanted.stream}, sequences {at} to {wanted.hi - 1}: {reason}")
        tries -= 1


def _pages(js: JetStream, wanted: Range, at: int, options: ReadOptions) -> Iterator[StoredColumns]:
    reader = js.get_batch(
        wanted.stream,
        seq=at,
        subject=None if wanted.local else wanted.subject,
        batch=wanted.hi - at,
        max_bytes=options.page_bytes,
        if_dropped="error" if options.fail_on_data_loss else "skip",
    )
    with reader:
        yield from reader.columns(options.rows)


def visible(columns: StoredColumns, wanted: Range, options: ReadOptions) -> StoredColumns:
    """The rows that the filter takes, without the markers of our own sink unless they are wanted."""
    markers = not options.include_bookkeeping and _MARKER in b" ".join(columns.subjects)
    if not markers and not wanted.local:
        return columns
    subjects = set(columns.subjects)
    hidden = {subject for subject in subjects if markers and _MARKER in subject}
    if wanted.local and wanted.subject is not None:
        hidden |= {each for each in subjects if not matches(wanted.subject, each.decode("utf-8", "surrogateescape"))}
    return columns.where([subject not in hidden for subject in columns.subjects]) if hidden else columns
