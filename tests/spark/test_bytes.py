"""What bounds bytes: Arrow batches, and micro-batches. Readers are called as Spark calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.position import StreamPosition
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.arrow import BatchBuilder
from pyspark_jetstream.offsets import decode_offset
from pyspark_jetstream.options import read_options
from pyspark_jetstream.planning import Range
from pyspark_jetstream.source import Limits, Work, batches
from tests import servers
from tests.marks import promise
from tests.spark.conftest import Made
from tests.spark.test_tasks import COLUMNS, read

pytestmark = pytest.mark.spark

MIB = 1024 * 1024
TIME = b"2026-01-01T00:00:00Z"


def pieces(sizes: list[int], count: int) -> Iterator[StoredColumns]:
    """Messages of these sizes, so many at a time."""
    for at in range(0, len(sizes), count):
        some = sizes[at : at + count]
        data = [bytes(size) for size in some]
        yield StoredColumns([b"s"] * len(some), range(at + 1, at + len(some) + 1), [TIME] * len(some), data, data)


@pytest.mark.parametrize("count", [1, 3])
def test_batches_have_few_bytes(count: int) -> None:
    """Messages of none and of seven million bytes in one range: as many at once as fit, and one at least."""
    sizes = [0, 0, 7_000_000, 0, 7_000_000, 7_000_000, 7_000_000, 0, 0] * 4
    options = read_options({"servers": "nats://x", "stream": "S"})
    wanted = Range(1, len(sizes) + 1, StreamPosition("S", len(sizes)))
    found = [*batches(pieces(sizes, count), wanted, BatchBuilder(COLUMNS, "S", options), options)]
    assert [seq for batch in found for seq in batch.column("seq").to_pylist()] == [*range(1, len(sizes) + 1)]
    assert max(batch.nbytes for batch in found) < options.max_bytes + count * 7_000_001 + 1_000
    narrow = StructType([StructField("seq", LongType())])
    assert len([*batches(pieces(sizes, count), wanted, BatchBuilder(narrow, "S", options), options)]) == 1


@pytest.mark.parametrize("delivery", ["fast", "fastDedup", "atomic"])
def test_rows_of_none_and_of_seven_million_bytes(server_for: Callable[..., NatsServer], delivery: str) -> None:
    """Written and read by one task each, from a server that takes such messages."""
    server = server_for(config=servers.config() + "max_payload: 8MB\n")
    sizes = [0, 0, 7_000_000, 0, 7_000_000, 7_000_000, 0]
    with connect(server.url) as nc:
        config: dict[str, Any] = {"allow_direct": True, "allow_batched": True, "allow_atomic": True}
        nc.jetstream().create_stream("S", subjects=["s.>"], **config)
        options = {"servers": server.url, "stream": "S", "delivery": delivery, "markerSubject": "s", "subject": "s.1"}
        writer: Any = JetStreamDataSource(options).writer(StructType([StructField("data", BinaryType())]), False)
        data = pa.array([b"%d" % at * size or None for at, size in enumerate(sizes)], pa.binary())
        assert writer.write(iter([pa.RecordBatch.from_pydict({"data": data})])).rows == len(sizes)
        reader = JetStreamDataSource({"servers": server.url, "stream": "S", "minPartitions": "1"}).reader(COLUMNS)
        (only,) = reader.partitions()
        found = [*reader.read(only)]
        assert [each for batch in found for each in batch.column("data").to_pylist()] == data.fill_null(b"").to_pylist()
        assert max(batch.num_rows for batch in found) > 1  # a large one goes with small ones
        assert max(batch.nbytes for batch in found) < 8 * MIB + 7_001_000


def test_a_limit_in_bytes() -> None:
    works = [Work(100, 100, 100_000.0), Work(900, 300, 30_000.0)]
    assert Limits(None, None).messages(works) is None
    assert Limits(7, None).messages(works) == 7
    assert Limits(None, 13_000).messages(works) == 40  # of 400, which have 130,000 bytes
    assert Limits(7, 13_000).messages(works) == 7
    assert Limits(70, 13_000).messages(works) == 40
    assert Limits(None, 1).messages(works) == 1
    assert Limits(None, 1).messages([Work(0, 0, 0.0)]) is None


@promise("bytes in a micro-batch, about")
def test_micro_batches_of_few_bytes(js: JetStream, stream: Made, source: Any) -> None:
    name = stream()
    with js.fast_publisher() as batch:
        batch.publish_many((f"{name}.x", b"%d" % number + b" " * 100_000) for number in range(50))
        batch.commit()
    reader = source(name, startingOffsets="earliest", maxBytesPerTrigger=MIB).streamReader(COLUMNS)
    if find_spec("pyspark.sql.streaming.datasource") is not None:  # before 4.2 Spark has no limits
        assert reader.getDefaultReadLimit().max_bytes == MIB
    offset, found = reader.initialOffset(), []
    for expected in (10, 20, 30, 40, 50):
        end = reader.latestOffset(offset, SimpleNamespace(max_bytes=MIB))
        assert decode_offset(end)[name].seq == expected
        found += read(reader, reader.partitions(offset, end))
        offset = end
    assert found == [*range(50)]
    both = source(name, startingOffsets="earliest", maxBytesPerTrigger=MIB, maxOffsetsPerTrigger=3).streamReader(
        COLUMNS
    )
    end = both.latestOffset(both.initialOffset(), SimpleNamespace(max_rows=3))
    assert decode_offset(end)[name].seq == 3
    assert decode_offset(both.latestOffset(both.initialOffset(), None))[name].seq == 50
    for each in (reader, both):
        each.stop()
