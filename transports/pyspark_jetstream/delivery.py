"""Storing the rows of one task, with one of three promises.

``fast``        fast ingest. Every row is stored at least once: a task that Spark runs again stores its rows again.
``fastDedup``   the same with a message id for each row, made of query, micro-batch, partition and row. The stream drops
                an id that it has seen. So a row is stored once, as long as the second try comes within the stream's
                duplicate window.
``atomic``      atomic batches of rows, each with a marker that says how far the partition has got. A batch is stored
                only if the marker is still the one its task has read, so rows and progress become visible together.
                A task that runs twice, at any time or at the same time, stores nothing twice.

Rules: ``fastDedup`` and ``atomic`` count rows, so a task that runs again has to get the same rows in the same order,
which a shuffle does not promise. A lost connection or leader is waited for a few times before the task fails.

Not here: what Spark calls (``sink``), columns (``rows``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jsproto.api_errors import (
    AtomicPublishIncompleteBatchError,
    StreamWrongLastSequenceError,
)
from jsproto.backoff import Backoff
from jsproto.errors import (
    APIError,
    BatchError,
    BatchMessageError,
    LocalProtocolError,
    MaxPayloadError,
    MessageNotFoundError,
)
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import Headers
from jsproto.grammar.publish_headers import EXPECTED_LAST_SUBJECT_SEQUENCE, MSG_ID
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.connecting import BUSY, TRIES, Retries, retry_transient, wait_until_back
from pyspark_jetstream.options import MARKER, Delivery, WriteOptions

Row = tuple[Any, ...]  # (subject, payload) or (subject, payload, Headers or None)
Chunks = Iterable[Sequence[Row]]

BATCH_ROWS: Final = 999  # an atomic batch has at most 1000 messages, and the last one is the marker
REFUSED_PAUSE: Final = 0.1  # seconds before a refused batch is tried again, doubled each time
MAX_REFUSED_PAUSE: Final = REFUSED_PAUSE * 2 ** (TRIES - 1)
_TRANSIENT_REFUSALS: Final = (
    AtomicPublishIncompleteBatchError,
    StreamWrongLastSequenceError,  # or a twin's batch is under way
)


class WriteError(RuntimeError):
    """A task could not store its rows. The message says which and why."""


@dataclass(frozen=True)
class TaskId:
    """Which rows these are: of a query (or a job), its micro-batch, and the partition of that."""

    query: str
    batch: int
    partition: int

    def __str__(self) -> str:
        return f"{self.query}.{self.batch}.{self.partition}"


class Stored(NamedTuple):
    """What became of a task's rows: how many there were, and how many of them this run of the task sent.

    What a stream then drops as a duplicate was sent.
    """

    rows: int
    sent: int


def store(
    nc: Connection, js: JetStream, chunks: Iterable[Sequence[Row]], task: TaskId, options: WriteOptions
) -> Stored:
    """Store chunks of rows, in order, with the promise of ``options.delivery``."""
    if options.delivery == Delivery.ATOMIC:
        return _store_atomic(nc, js, chunks, task, options)
    if options.delivery == Delivery.FAST_DEDUP:
        chunks = numbered(chunks, options.msg_id_prefix or task.query, task)
    sender, rows = _FastSender(nc, js, task, options), 0
    for chunk in chunks:
        sender.send(chunk, rows)
        rows += len(chunk)
    return Stored(rows, rows)


def numbered(chunks: Iterable[Sequence[Row]], prefix: str, task: TaskId) -> Iterator[Sequence[Row]]:
    """The rows with message ids."""
    number = 0
    head = f"{prefix}.{task.batch}.{task.partition}."
    for chunk in chunks:
        ids = [f"{head}{place}" for place in range(number, number + len(chunk))]
        if isinstance(chunk, MessageColumns) and chunk.headers is None:
            yield MessageColumns(chunk.subjects, chunk.payloads, {MSG_ID: ids})
        else:
            yield [_with_header(row, MSG_ID, each) for row, each in zip(chunk, ids, strict=True)]
        number += len(chunk)


def _with_header(row: Row, name: str, value: str) -> Row:
    if len(row) == 2 or row[2] is None:
        return row[0], row[1], {name: value}
    others = (pair for pair in row[2].items() if pair[0] != name)  # a server takes the first one
    return row[0], row[1], Headers([*others, (name, value)])


class _FastSender:
    """Fast-ingest batches, one for each chunk: an open one would expire while Spark computes the next chunk.

    Where a batch breaks off, the next one begins with what it left.
    """

    def __init__(self, nc: Connection, js: JetStream, task: TaskId, options: WriteOptions) -> None:
        self._nc = nc
        self._js = js
        self._task = task
        self._options = options

    def send(self, chunk: Sequence[Row], before: int) -> None:
        """Store ``chunk``, which comes after ``before`` rows. WriteError."""
        flow, outstanding = self._options.flow, self._options.max_outstanding_acks
        todo, retries = chunk, Retries()
        while todo:
            with self._js.fast_publisher(flow=flow, max_outstanding_acks=outstanding) as batch:
                try:
                    batch.publish_many(todo)
                    batch.commit()
                    return
                except MaxPayloadError as error:  # with its headers
                    raise self._not_stored(before + len(chunk) - len(todo) + batch.sequence, error) from error
                except BatchMessageError as error:
                    at = before + len(chunk) - len(todo) + error.message_sequence - 1
                    raise self._not_stored(at, error.__cause__) from error
                except APIError as error:  # the answer to the first message
                    raise self._not_stored(before + len(chunk) - len(todo), error) from error
                except BatchError as error:
                    if not retries.left:
                        raise WriteError(f"rows of {self._task} were not stored: {error}") from error
                    todo = batch.unacknowledged
                    if batch.acked:
                        retries.reset()
                    retries.wait(self._nc)

    def _not_stored(self, at: int, why: object) -> WriteError:
        return WriteError(f"row {at} of partition {self._task.partition} was not stored: {why}")


# -- atomic ------------------------------------------------------------------------------------------------------------


@dataclass
class _Progress:
    """How far a partition of a query has got, and the sequence of the marker that says so (0: there is none)."""

    batch: int = -1
    rows: int = 0
    marker: int = 0


def marker_subject(options: WriteOptions, task: TaskId) -> str:
    """Where the markers of a partition are."""
    return f"{options.marker_subject}.{MARKER}.{task.query}.{task.partition}"


def _store_atomic(
    nc: Connection, js: JetStream, chunks: Iterable[Sequence[Row]], task: TaskId, options: WriteOptions
) -> Stored:
    subject = marker_subject(options, task)
    progress = retry_transient(nc, lambda: _read_progress(js, options.stream, subject))
    rows = sent = 0
    for chunk in _chunks(chunks, BATCH_ROWS):
        rows += len(chunk)
        retries = Retries(TRIES, Backoff(REFUSED_PAUSE, MAX_REFUSED_PAUSE))
        while not _is_done(progress, task, rows):
            missing = rows - _done(progress, task)
            if missing > len(chunk):
                raise WriteError(f"rows of {task}: the marker of row {rows - len(chunk)} on {subject} has gone")
            todo = chunk[len(chunk) - missing :]
            marker = json.dumps({"batch": task.batch, "rows": rows}).encode()
            condition = {EXPECTED_LAST_SUBJECT_SEQUENCE: str(progress.marker)}
            refusal = f"rows {rows - missing} to {rows - 1} of partition {task.partition} were not stored"
            try:
                ack = js.publish_batch([*todo, (subject, marker, condition)])
            except LocalProtocolError as error:  # one is too large with its headers, or two have the same message id
                raise WriteError(f"{refusal}: {error}") from error
            except (BatchError, APIError) as error:
                # A twin of this task was faster, or the answer was lost: then the marker has moved. Or it was refused.
                refused = error if isinstance(error, APIError) else error.__cause__
                wait_until_back(nc)
                before, progress = progress, retry_transient(nc, lambda: _read_progress(js, options.stream, subject))
                if progress == before:
                    if not retries.left or (isinstance(refused, APIError) and not _is_transient_refusal(refused)):
                        raise WriteError(f"{refusal}: {error}") from error
                    retries.pause()
            else:
                sent += missing
                progress = _Progress(task.batch, rows, ack.seq)
    return Stored(rows, sent)


def _is_transient_refusal(refusal: APIError) -> bool:
    """Whether the same may be taken a little later."""
    return refusal.code in BUSY or isinstance(refusal, _TRANSIENT_REFUSALS)


def _done(progress: _Progress, task: TaskId) -> int:
    return progress.rows if progress.batch == task.batch else 0


def _is_done(progress: _Progress, task: TaskId, rows: int) -> bool:
    return progress.batch > task.batch or _done(progress, task) >= rows


def _read_progress(js: JetStream, stream: str, subject: str) -> _Progress:
    """The newest marker, from the leader: a replica may not have it yet."""
    try:
        message = js.get_last_msg(stream, subject, level="leader")
    except MessageNotFoundError:
        return _Progress()
    try:
        found = json.loads(message.data)
        return _Progress(int(found["batch"]), int(found["rows"]), message.seq)
    except (ValueError, KeyError, TypeError):
        raise WriteError(f"message {message.seq} on {subject} is no marker: who else writes there?") from None


def _chunks(chunks: Iterable[Sequence[Row]], most: int) -> Iterator[list[Row]]:
    """The rows again, ``most`` at a time but for the last."""
    rest: list[Row] = []
    for chunk in chunks:
        rest += chunk
        at = 0
        while len(rest) - at >= most:
            yield rest[at : at + most]
            at += most
        del rest[:at]
    if rest:
        yield rest
