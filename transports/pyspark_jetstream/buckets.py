"""Key-value buckets as tables: what a stream holds, read as keys, values and revisions.

Rules:
* A streaming read has a row for each change.
* A batch read has a row for each key, all at one sequence. What is written meanwhile shows for all keys or for none.
* With ``minPartitions`` it has several tasks, each with some of the keys and a sequence of its own. The keys are those
  of when it was planned.
* A batch read of an earlier moment fails where the bucket keeps too little history.
* Deleted keys are rows too, with their operation and without a value, until the bucket forgets them.

Not here: reading itself (``source``, and ``snapshot`` of the JetStream client).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jsproto.errors import SnapshotError
from jsproto.grammar.bucket_keys import STREAM_PREFIX, operation_of
from jsproto.grammar.columns import StoredColumns
from jsproto_io.sync import JetStream
from pyspark_jetstream.arrow import BatchBuilder
from pyspark_jetstream.connecting import ReconnectingClient, in_task
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import ReadOptions, check_read_at_once
from pyspark_jetstream.planning import end_before, end_of, look_up
from pyspark_jetstream.ranges import ReadError
from pyspark_jetstream.schema import ORIGIN, ORIGIN_TYPE, check_columns

COLUMNS: Final = {
    "bucket": "string",
    "key": "string",
    "value": "binary",
    "revision": "bigint",
    "timestamp": "timestamp",
    "operation": "string",
    ORIGIN: ORIGIN_TYPE,
}
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items() if name != ORIGIN)
PUT: Final = "PUT"


class BucketBuilder(BatchBuilder):
    """Arrow batches of a bucket's columns."""

    def _piece(self, name: str, part: StoredColumns) -> Any:
        if name == "key":
            keys = [subject.split(b".", 2)[-1] for subject in part.subjects]
            return pa.array([key.decode("utf-8", "replace") for key in keys], pa.string())
        if name == "operation":
            return pa.array(operations_of(part), pa.string())
        if name == "value":
            kinds = operations_of(part)
            values = [value if kind == PUT else None for value, kind in zip(part.data, kinds, strict=True)]
            return pa.array(values, pa.binary())
        if name == "revision":  # they rise within a group of keys only
            return pa.array(part.seqs, pa.int64())
        return super()._piece(name, part)

    def _column(self, name: str, kind: pa.DataType, pieces: Sequence[Any]) -> pa.Array:
        if name == "bucket":
            return pa.repeat(pa.scalar(self._stream.removeprefix(STREAM_PREFIX), kind), self.rows)
        return super()._column(name, kind, pieces)


def operations_of(part: StoredColumns) -> list[str]:
    """What each message did to its key: PUT, DEL or PURGE."""
    return [operation_of(block) if _is_marked(block) else PUT for block in part.raw_headers]


def _is_marked(block: bytes) -> bool:
    return b"\r\nKV-Operation:" in block or b"\r\nNats-Marker-Reason:" in block


@dataclass
class SnapshotPartition(InputPartition):
    """A task of a batch read.

    ``at``: the sequence to read at (None: the last one when the task runs). ``subjects``: what to read.
    """

    at: int | None
    subjects: Sequence[str]


class BucketReader(DataSourceReader):
    """A batch read of a bucket."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        check_columns(schema, COLUMNS)
        check_read_at_once(options)
        if ORIGIN in schema.names:
            raise OptionError("a bucket that is read at once has no column origin: leave out includeOrigin")
        if options.starting_offsets or options.starting_timestamp is not None:
            raise OptionError("a bucket is read as of its end, or of endingOffsets or endingTimestamp: it has no start")
        self.schema = schema
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks: one, unless more are wanted. OptionError: there is no such bucket, or it cannot be read then."""
        with ReconnectingClient(self.options.connection) as client:
            return client.request(self._planned)

    def _planned(self, js: JetStream) -> list[InputPartition]:
        at, parts = self._moment(js), self.options.min_partitions or 1
        keys = self.options.subject or f"$KV.{self.options.kv_bucket}.>"
        if parts == 1:
            return [SnapshotPartition(at, [keys])]
        subjects = [*js.stream_subjects(self.options.streams[0], keys)]
        size = max(-(-len(subjects) // parts), 1)
        found = [SnapshotPartition(at, subjects[start : start + size]) for start in range(0, len(subjects), size)]
        return [*found] or [SnapshotPartition(at, [keys])]

    def _moment(self, js: JetStream) -> int | None:
        options = self.options
        info = look_up(js, options.streams[0])
        end = end_before(js, info, options)
        if end >= end_of(info):
            return None
        if info.config.max_msgs_per_subject == 1:
            raise OptionError(
                f"bucket {options.kv_bucket} keeps one value of a key: it cannot be read as of earlier on"
            )
        return end - 1

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The newest value of each key. ReadError when it was overwritten while it was read."""
        assert isinstance(partition, SnapshotPartition)
        options = self.options
        if partition.at == 0:
            return
        builder = BucketBuilder(self.schema, options.streams[0], options)
        with in_task(options.connection, f"the keys of bucket {options.kv_bucket}") as (_, js):
            try:
                with js.snapshot(
                    options.streams[0], partition.subjects, at=partition.at, max_bytes=options.max_bytes
                ) as reader:
                    for columns in reader.columns(options.batch_size):
                        builder.add(columns)
                        yield builder.batch()
            except SnapshotError as error:
                text = (
                    f"bucket {options.kv_bucket}: {error}: let it keep more history, or read an earlier moment sooner"
                )
                raise ReadError(text) from None
