"""Atomic batches of rows, each with the marker of its partition: delivery ``atomic``.

* A batch is stored only if the marker is still the one that its task has read. So rows and progress show together, and
  where two runs of a task overtake each other, each row is stored by one of them.
* What a task may do with the markers that it finds is ``markers.judge``'s, which rows are stored is ``repetition``'s.
* The leader is asked for markers: a replica may not have the newest yet.
* A batch has at most 999 rows, and 8 MiB of payloads unless one row has more.
* A lost connection, a new leader, or a batch of a twin that is under way is waited for a few times.

Not here: what Spark calls (``sink``), the other deliveries (``delivery``).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Final, NamedTuple

from jsproto.api_errors import AtomicPublishIncompleteBatchError, StreamWrongLastSequenceError
from jsproto.backoff import Backoff
from jsproto.errors import APIError, BatchError, LocalProtocolError, MessageNotFoundError
from jsproto.grammar.columns import message_columns
from jsproto.grammar.publish_headers import EXPECTED_LAST_SUBJECT_SEQUENCE
from jsproto.grammar.stored import StoredMsg
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.connecting import TRANSIENT, TRIES, Retries, is_transient, retry_transient, wait_until_back
from pyspark_jetstream.markers import (
    Found,
    Marker,
    MarkerError,
    TaskId,
    Verdict,
    WriteError,
    any_marker,
    check_keeps_markers,
    decode_marker,
    judge,
    marker_subject,
    refusal,
    whole_subject,
)
from pyspark_jetstream.messages import Row, RowMessages
from pyspark_jetstream.options import WriteOptions
from pyspark_jetstream.repetition import WAYS_OUT, OtherRowsError, Piece, Repetition, pieces_of

BATCH_ID_SIZE: Final = 32  # bytes of the id that ``publish_batch`` makes up
BATCH_ROWS: Final = 999  # an atomic batch has at most 1000 messages, and the last one is the marker
BATCH_BYTES: Final = 8 * 1024 * 1024  # of payloads
REFUSED_PAUSE: Final = 0.1  # seconds before a refused batch is tried again, doubled each time
MARKER_REASON: Final = "Nats-Marker-Reason"  # of a server's own marker, of what it removed
MAX_REFUSED_PAUSE: Final = REFUSED_PAUSE * 2 ** (TRIES - 1)
_TRANSIENT_REFUSALS: Final = (
    AtomicPublishIncompleteBatchError,
    StreamWrongLastSequenceError,  # or a twin's batch is under way
)


class Stored(NamedTuple):
    """What became of a task's rows: how many there were, and how many of them this run of the task sent.

    What a stream then drops as a duplicate was sent.
    """

    rows: int
    sent: int


class _Last(NamedTuple):
    """The newest message on a subject of markers. ``seq`` is 0 if there is none.

    ``marker`` is None then, and where a server has marked that it removed them.
    """

    seq: int = 0
    marker: Marker | None = None

    @property
    def batch(self) -> int | None:
        return None if self.marker is None else self.marker.batch

    def of(self, task: TaskId) -> Marker | None:
        """The marker, if it is of this micro-batch."""
        return self.marker if self.batch == task.batch else None


def store_atomic(
    nc: Connection, js: JetStream, chunks: Iterable[Sequence[Row]], task: TaskId, options: WriteOptions, is_named: bool
) -> Stored:
    """Store chunks of rows, in order, each row once. OptionError, WriteError.

    ``is_named``: rows are to have names, so fewer may come again.
    """
    subject = marker_subject(options, task)
    last = retry_transient(nc, lambda: _read(js, options.stream, subject))
    whole = retry_transient(nc, lambda: _read(js, options.stream, whole_subject(options, task.query)))
    found = retry_transient(nc, lambda: _found(js, task, options, last, whole))
    verdict = judge(task, found)
    if verdict in (Verdict.AHEAD, Verdict.GAP, Verdict.UNPROVED):
        raise WriteError(refusal(verdict, task, found, options))
    at, sent = Repetition(is_named=is_named), 0
    if (marker := last.of(task)) is not None and marker.is_old:
        what = f"the marker on {subject} is of an older release, which counted rows"
        warnings.warn(f"{what}: whether they are the same now is not known", stacklevel=2)
    try:
        for batch in _batches(chunks):
            retries = Retries(TRIES, Backoff(REFUSED_PAUSE, MAX_REFUSED_PAUSE))
            while True:
                after = at.copy()
                missing = after.missing(batch, last.of(task))
                if not missing:
                    break
                count = sum(len(piece.rows) for piece in missing)
                if verdict is Verdict.COMPARE:
                    what = (
                        "the micro-batch is stored as a whole" if task.in_turn else "this version is stored as a whole"
                    )
                    raise OtherRowsError(f"{what}, and row {after.rows - count} is not among its rows")
                marker = after.marker(task.batch, last.of(task))
                condition = {EXPECTED_LAST_SUBJECT_SEQUENCE: str(last.seq)}
                rows = [row for piece in missing for row in _as_tuples(piece.rows)]
                what = f"rows {after.rows - count} to {after.rows - 1} of partition {task.partition} were not stored"
                try:
                    ack = js.publish_batch([*rows, (subject, bytes(marker), condition)])
                except LocalProtocolError as error:  # two have one message id
                    raise WriteError(f"{what}: {error}") from error
                except (BatchError, APIError, *TRANSIENT) as error:
                    # A twin of this task was faster, or the answer was lost: then the marker has moved. Or not.
                    refused = error if isinstance(error, APIError) else error.__cause__
                    wait_until_back(nc)
                    before, last = last, retry_transient(nc, lambda: _read(js, options.stream, subject))
                    _check_moved(before, last, task, subject, at.rows, options)
                    if last == before:
                        if not retries.left or (isinstance(refused, APIError) and not _is_transient(refused)):
                            raise WriteError(f"{what}: {error}") from error
                        retries.pause()
                else:
                    sent += count
                    last = _Last(ack.seq, marker)
                    after.stored(marker)
                    break
            at = after
        at.finish(last.of(task))
    except OtherRowsError as error:
        raise WriteError(f"rows of {task}: {error}. {WAYS_OUT}") from None
    return Stored(at.rows, sent)


def _check_moved(before: _Last, last: _Last, task: TaskId, subject: str, rows: int, options: WriteOptions) -> None:
    """WriteError when the marker has gone, or is of a later micro-batch."""
    if before.of(task) is not None and (last.batch is None or last.batch < task.batch):
        raise WriteError(f"rows of {task}: the marker of row {rows} on {subject} has gone")
    if last.batch is not None and last.batch > task.batch:
        found = Found(last.batch, None, has_older=False)
        raise WriteError(refusal(Verdict.AHEAD, task, found, options))


def _found(js: JetStream, task: TaskId, options: WriteOptions, last: _Last, whole: _Last) -> Found:
    """What the markers say of a stream that keeps them. OptionError for another one."""
    check_keeps_markers(js.stream_info(options.stream).config, options)
    has_older = False
    if last.marker is None and whole.marker is None:
        oldest = _first(js, options.stream, any_marker(options, task.query))
        has_older = oldest.batch is not None and oldest.batch < task.batch
    return Found(last.batch, whole.batch, has_older)


def _read(js: JetStream, stream: str, subject: str) -> _Last:
    """The newest marker. WriteError when the message is none."""
    try:
        return _decoded(js.get_last_msg(stream, subject, level="leader"))
    except MessageNotFoundError:
        return _Last()


def _first(js: JetStream, stream: str, subject: str) -> _Last:
    """The oldest marker. WriteError when a message before it is none."""
    found = _Last()
    try:
        while found.marker is None:
            found = _decoded(js.get_msg(stream, found.seq + 1, subject=subject, next=True, level="leader"))
    except MessageNotFoundError:
        return _Last()
    return found


def _decoded(message: StoredMsg) -> _Last:
    if not message.data and MARKER_REASON in message.headers:
        return _Last(message.seq)
    try:
        return _Last(message.seq, decode_marker(message.data))
    except MarkerError as error:
        raise WriteError(f"message {message.seq} on {message.subject} {error}") from None


def _is_transient(refusal: APIError) -> bool:
    """Whether the same may be taken a little later."""
    return is_transient(refusal) or isinstance(refusal, _TRANSIENT_REFUSALS)


def _batches(chunks: Iterable[Sequence[Row]]) -> Iterator[list[Piece]]:
    """The rows again, as many at a time as a batch may have."""
    batch: list[Piece] = []
    room, space = BATCH_ROWS, BATCH_BYTES
    for chunk in chunks:
        for piece in pieces_of(chunk):
            at, count = 0, len(piece.rows)
            while at < count:
                some = piece.between(at, min(at + room, count))
                fitting, size = _fitting(some.rows, space, is_first=not batch)
                if fitting:
                    batch.append(some.between(0, fitting))
                at, room, space = at + fitting, room - fitting, space - size
                if not room or fitting < len(some.rows):
                    yield batch
                    batch, room, space = [], BATCH_ROWS, BATCH_BYTES
    if batch:
        yield batch


def _fitting(rows: Sequence[Row], space: int, *, is_first: bool) -> tuple[int, int]:
    """How many rows at the front have up to ``space`` bytes of payloads, at least one if ``is_first``, and how many."""
    if isinstance(rows, RowMessages) and rows.longest * len(rows) <= space:
        return len(rows), rows.longest * len(rows)
    sizes = rows.payload_sizes if isinstance(rows, RowMessages) else [len(row[1]) for row in rows]
    ends = [*accumulate(sizes)]
    fitting = sum(end <= space for end in ends) or int(is_first)
    return fitting, ends[fitting - 1] if fitting else 0


def _as_tuples(rows: Sequence[Row]) -> Iterable[Row]:
    """The rows as objects, column by column: one by one costs more."""
    subjects, payloads, headers = message_columns(rows)
    return zip(subjects, payloads, strict=True) if headers is None else zip(subjects, payloads, headers, strict=True)


def mark_whole(js: JetStream, options: WriteOptions, task: TaskId) -> None:
    """Store the marker of the whole, unless it is there. ``task``: any of the micro-batch. WriteError."""
    subject = whole_subject(options, task.query)
    while True:
        last = _read(js, options.stream, subject)
        if last.batch is not None and last.batch >= task.batch:
            break
        with suppress(StreamWrongLastSequenceError):  # another driver stores it as well, or the answer was lost
            js.publish(subject, bytes(Marker(task.batch)), expected_last_subject_seq=last.seq)
    if last.batch > task.batch:
        found = Found(None, last.batch, has_older=False)
        raise WriteError(refusal(Verdict.AHEAD, task, found, options))
