"""Storing the rows of one task, with one of three promises.

``fast``        fast ingest. Every row is stored at least once: a task that Spark runs again stores its rows again.
``fastDedup``   the same with a message id for each row, made of query, micro-batch, partition and the row's
                content (``message_ids``). The stream drops an id that it has seen. So a row is stored once, as long as
                the second try comes within the stream's duplicate window, to the same partition.
``atomic``      atomic batches of rows, each with a marker that says how far the partition has got (``atomic_batches``).

Rules: a lost connection, or a leader that is not there, is waited for a few times before the task fails.

Not here: what Spark calls (``sink``), columns (``rows``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jsproto.errors import APIError, BatchError, BatchMessageError
from jsproto.grammar.batch import BATCH_ID, BATCH_SEQUENCE
from jsproto.grammar.publish_headers import MSG_ID
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.atomic_batches import BATCH_ID_SIZE, BATCH_ROWS, Stored, store_atomic
from pyspark_jetstream.connecting import TRANSIENT, Retries, is_transient
from pyspark_jetstream.markers import TaskId, WriteError
from pyspark_jetstream.message_ids import identified, longest_id
from pyspark_jetstream.messages import Row
from pyspark_jetstream.options import Delivery, WriteOptions


def store(
    nc: Connection,
    js: JetStream,
    chunks: Iterable[Sequence[Row]],
    task: TaskId,
    options: WriteOptions,
    *,
    is_named: bool = False,
) -> Stored:
    """Store chunks of rows, in order, as ``options.delivery`` promises. ``is_named``: rows are to have names."""
    if options.delivery == Delivery.ATOMIC:
        return store_atomic(nc, js, chunks, task, options, is_named)
    if options.delivery == Delivery.FAST_DEDUP:
        chunks = identified(chunks, _prefix(task, options), task)
    sender, rows = _FastSender(nc, js, task, options), 0
    for chunk in chunks:
        sender.send(chunk, rows)
        rows += len(chunk)
    return Stored(rows, rows)


def added_headers(task: TaskId, options: WriteOptions) -> Mapping[str, str]:
    """The headers that the delivery adds to each row, with values as long as they get."""
    if options.delivery == Delivery.ATOMIC:
        return {BATCH_ID: "x" * BATCH_ID_SIZE, BATCH_SEQUENCE: str(BATCH_ROWS)}
    return {MSG_ID: longest_id(_prefix(task, options), task)} if options.delivery == Delivery.FAST_DEDUP else {}


def _prefix(task: TaskId, options: WriteOptions) -> str:
    return options.msg_id_prefix or task.query


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
                except (BatchError, APIError, *TRANSIENT) as error:
                    refused = error.__cause__ if isinstance(error, BatchMessageError) else error
                    if isinstance(refused, APIError) and not is_transient(refused):  # this row, or the first one
                        at = error.message_sequence - 1 if isinstance(error, BatchMessageError) else 0
                        raise self._not_stored(before + len(chunk) - len(todo) + at, refused) from error
                    if not retries.left or not (isinstance(error, BatchError) or is_transient(error)):
                        raise WriteError(f"rows of {self._task} were not stored: {error}") from error
                    todo = batch.unacknowledged
                    if batch.acked:
                        retries.reset()
                    retries.wait(self._nc)

    def _not_stored(self, at: int, why: object) -> WriteError:
        return WriteError(f"row {at} of partition {self._task.partition} was not stored: {why}")
