"""The yardstick: a data source that reads and writes row by row.

It plans the same ranges, asks the same connection for the same messages and fills the same fast-ingest batches as the
one of this library. What Spark gets, and gives, is a tuple for each row instead of Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceReader, DataSourceWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from jsproto_io.sync import JetStream
from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.connecting import in_task
from pyspark_jetstream.options import WriteOptions, read_options, write_options
from pyspark_jetstream.source import JetStreamReader, RangePartition

NAME: Final = "jetstream_tuples"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TuplesSource(JetStreamDataSource):
    """Named ``jetstream_tuples``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        return TuplesReader(schema, read_options(dict(self.options)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return TuplesWriter(write_options(dict(self.options)))


class TuplesReader(JetStreamReader):
    """The five columns."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        wanted = partition.wanted
        if wanted.hi > wanted.lo:
            with in_task(self.options.connection, wanted.stream) as (_, js):
                yield from self._tuples(js, wanted.stream, wanted.lo, wanted.hi - wanted.lo)

    def _tuples(self, js: JetStream, stream: str, first: int, count: int) -> Iterator[tuple[Any, ...]]:
        for message in js.get_batch(stream, seq=first, batch=count, max_bytes=self.options.max_bytes):
            stored_at = _EPOCH + timedelta(microseconds=message.timestamp // 1_000)
            yield message.subject, message.data, stream, message.seq, stored_at


class TuplesWriter(DataSourceWriter):
    """Columns ``subject`` and ``data``."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        options = self.options
        with in_task(options.connection, options.stream, reader_thread=True) as (_, js):
            batch = js.fast_publisher(flow=options.flow, max_outstanding_acks=options.max_outstanding_acks)
            batch.publish_many((row.subject, bytes(row.data)) for row in iterator)
            if batch.sequence:
                batch.commit()
        return WriterCommitMessage()
