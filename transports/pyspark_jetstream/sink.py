"""Writing a DataFrame into a stream: what Spark calls.

Rules:
* What cannot work fails in the driver, with one line, before a task starts.
* Spark runs a task again when it fails, and sometimes twice at once, and does not say which of the runs counts. What
  then is stored is what ``delivery`` promises.
* What only a task needs is imported there. Spark plans a write in a process of its own, which starts sooner without it.
* A task of a streaming write has the number of its micro-batch from its local properties. Spark has no other place. A
  batch write has it from its options, if it is to be known when it comes again.
* The commit of ``atomic`` stores that all of a micro-batch is stored.

Not here: storing rows (``delivery``), or keys (``keys``).
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import BucketError, UnsupportedByServerError
from jsproto.grammar.publish_headers import check_releases
from jsproto_io.sync import JetStream
from pyspark_jetstream.connecting import ReconnectingClient, in_task
from pyspark_jetstream.markers import TaskId, WriteError, any_marker, check_keeps_markers
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import MARKER, Delivery, WriteOptions
from pyspark_jetstream.planning import covers
from pyspark_jetstream.schema import ORIGIN, Target, check_write_schema, written_names

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
UNLIMITED: Final = 2**63


@dataclass
class Written(WriterCommitMessage):
    """What one task says of its rows. ``query``: the query or job that it belongs to. ``buried``: dead letters."""

    partition: int
    rows: int
    sent: int
    query: str = ""
    buried: int = 0


class _Writes:
    """What both kinds of writer do."""

    def __init__(self, schema: StructType, options: WriteOptions, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a stream is not overwritten: use mode('append'), and purge the stream yourself")
        self.options = options
        self.names = check_write_schema(schema, options)
        self.columns = written_names(schema.names)
        checked = checked_target if options.kv_bucket is None else checked_bucket
        with ReconnectingClient(options.connection) as client:
            self.target = client.request(lambda js: checked(js, options, self.names))
            try:
                check_releases(self.names, client.server_info)
            except UnsupportedByServerError as error:
                raise OptionError(str(error)) from None

    def store(self, iterator: Iterator[pa.RecordBatch], query: str, batch: int, *, in_turn: bool) -> Written:
        """Store the rows of a task. ``in_turn``: there is a micro-batch for each number.

        Raises: RowError, WriteError, of one line that names the stream.
        """
        from pyspark_jetstream.rows import RowError

        where = f"stream {self.options.stream}"
        try:
            return self._stored(iterator, query, batch, in_turn=in_turn)
        except (RowError, WriteError) as error:
            if where in str(error):
                raise
            raise type(error)(f"{where}: {error}") from error

    def _stored(self, iterator: Iterator[pa.RecordBatch], query: str, batch: int, *, in_turn: bool) -> Written:
        from pyspark_jetstream.buried import Grave
        from pyspark_jetstream.delivery import added_headers, store
        from pyspark_jetstream.origins import attempt_number
        from pyspark_jetstream.rows import chunks_of

        context = TaskContext.get()
        task = TaskId(query, batch, context.partitionId() if context is not None else 0, in_turn)
        attempt = attempt_number(context)
        # Between atomic batches a thread keeps the connection alive, however long Spark needs for the next rows; a fast
        # one that finds it lost is sent again anyway.
        rows = f"partition {task.partition} of the rows for stream {self.options.stream}"
        with in_task(self.options.connection, rows, reader_thread=self.options.delivery == Delivery.ATOMIC) as (nc, js):
            most = min(self.target.max_size, nc.max_payload)
            target = replace(self.target, max_size=most, added=added_headers(task, self.options))
            named = (batch.rename_columns(self.columns) for batch in iterator)
            if self.options.kv_bucket is not None:
                from pyspark_jetstream.keys import store_keys

                stored = store_keys(nc, js, named, target, task.partition)
                return Written(task.partition, stored.rows, stored.sent, query)
            dead = self.options.dead_letter_subject
            grave = None if dead is None else Grave(nc, js, dead, task)
            chunks = chunks_of(named, self.names, self.options.subject, target, task.partition, attempt, grave)
            is_named = ORIGIN in self.names and attempt is not None
            stored = store(nc, js, chunks, task, self.options, is_named=is_named)
        return Written(task.partition, stored.rows, stored.sent, query, 0 if grave is None else grave.count)

    def warn(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say how many rows have become dead letters."""
        buried = sum(each.buried for each in messages if isinstance(each, Written))
        if buried:
            warnings.warn(f"dead letters on {self.options.dead_letter_subject}: {buried} rows", stacklevel=2)

    def mark_whole(self, messages: Sequence[WriterCommitMessage | None], batch: int, *, in_turn: bool) -> None:
        """Store that all tasks of a micro-batch have stored their rows. WriteError, or the error of the connection."""
        from pyspark_jetstream.atomic_batches import mark_whole

        written = next((each for each in messages if isinstance(each, Written)), None)
        if written is None or self.options.delivery != Delivery.ATOMIC:
            return
        task = TaskId(written.query, batch, written.partition, in_turn)
        with ReconnectingClient(self.options.connection) as client:
            client.request(lambda js: mark_whole(js, self.options, task))


class JetStreamWriter(_Writes, DataSourceArrowWriter):
    """A batch write. Each job is a query of its own: run again as a whole it stores its rows again.

    A job with a name (``txnAppId``) is known by its version when it comes again.
    """

    def __init__(self, schema: StructType, options: WriteOptions, overwrite: bool) -> None:
        super().__init__(schema, options, overwrite)
        self._job = options.txn_app_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Store the rows of a task."""
        return self.store(iterator, self._job, self.options.txn_version or 0, in_turn=False)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Store that a version of a job is stored as a whole. Nobody asks that of a job without a name."""
        self.warn(messages)
        if self.options.txn_version is not None:
            self.mark_whole(messages, self.options.txn_version, in_turn=False)


class JetStreamStreamWriter(_Writes, DataSourceStreamArrowWriter):
    """A streaming write."""

    def __init__(self, schema: StructType, options: WriteOptions, overwrite: bool) -> None:
        if overwrite:
            raise OptionError(
                "a streaming query appends: use outputMode('append'). Rows of an aggregate are stored in foreachBatch, "
                "by store_once of pyspark_jetstream.queries"
            )
        if options.txn_app_id is not None:
            raise OptionError("options txnAppId and txnVersion are for save: a streaming query has its own")
        super().__init__(schema, options, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Store the rows of a task of a micro-batch."""
        context = TaskContext.get()
        batch = context.getLocalProperty(BATCH_ID) if context is not None else None
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        if batch is None or query is None:
            if self.options.delivery != Delivery.FAST:
                raise OptionError(
                    f"delivery {self.options.delivery} needs to know its micro-batch, and Spark does not say"
                )
            batch, query = "0", "unknown"
        return self.store(iterator, query, int(batch), in_turn=True)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Store that a micro-batch is stored as a whole."""
        self.warn(messages)
        self.mark_whole(messages, batchId, in_turn=True)


def checked_bucket(js: JetStream, options: WriteOptions, _: Sequence[str]) -> Target:
    """What the bucket takes. Its subject is what stands before a key. OptionError with one line when there is none."""
    try:
        bucket = js.bucket(str(options.kv_bucket))._core
    except BucketError as error:
        raise OptionError(str(error)) from None
    most = bucket.config.max_value_size
    return Target(options.stream, (bucket.space.target("_").removesuffix("_"),), UNLIMITED if most is None else most)


def _check_dead_letters(js: JetStream, options: WriteOptions) -> None:
    subject = options.dead_letter_subject
    if subject is not None and not js.stream_names(subject):
        raise OptionError(f"no stream takes deadLetterSubject {subject}")


_ALLOWED_BY: Final = {
    "ttl": "allow_msg_ttl", "schedule_ttl": "allow_msg_ttl", "rollup": "allow_rollup_hdrs", "at": "allow_msg_schedules",
    "every": "allow_msg_schedules", "cron": "allow_msg_schedules", "incr": "allow_msg_counter",
}  # fmt: skip
"""What the configuration of the stream must allow, by column."""


def checked_target(js: JetStream, options: WriteOptions, names: Sequence[str]) -> Target:
    """What the stream takes. OptionError with one line when it cannot take the columns ``names``."""
    stream = options.stream
    try:
        config = js.stream_info(stream).config
    except StreamNotFoundError:
        raise OptionError(f"there is no stream {stream}") from None
    if config.mirror is not None:
        raise OptionError(f"stream {stream} is a mirror, which only copies its origin")
    if config.sealed:
        raise OptionError(f"stream {stream} is sealed")
    for name, allowed in _ALLOWED_BY.items():
        if name in names and not getattr(config, allowed):
            how = "make it" if allowed == "allow_msg_counter" else "update it"
            raise OptionError(f"stream {stream} takes no column {name}: {how} with {allowed}=True")
    _check_dead_letters(js, options)
    subjects = config.subjects or [stream]
    if options.subject is not None and not any(covers(each, options.subject) for each in subjects):
        raise OptionError(f"subject {options.subject} is none of stream {stream}, which takes {', '.join(subjects)}")
    if options.delivery == Delivery.ATOMIC:
        if not config.allow_atomic:
            raise OptionError(f"stream {stream} takes no atomic batches: update it with allow_atomic=True")
        if options.marker_subject is None:
            raise OptionError("delivery atomic needs option markerSubject: a subject of the stream for its markers")
        check_keeps_markers(config, options)
        if not any(covers(each, any_marker(options)) for each in subjects):
            text = (
                f"markers go to {options.marker_subject}.{MARKER}.QUERY.PARTITION, which stream {stream} does not take"
            )
            raise OptionError(f"{text}: it takes {', '.join(subjects)}")
    elif not config.allow_batched:
        raise OptionError(f"stream {stream} takes no fast-ingest batches: update it with allow_batched=True")
    most = config.max_msg_size or -1
    return Target(stream, tuple(subjects), most if most > 0 else UNLIMITED)
