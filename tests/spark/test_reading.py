"""Batch reads, in a Spark of our own, from a real server."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.options import read_options
from pyspark_jetstream.source import JetStreamReader
from tests.marks import promise
from tests.spark.conftest import Made, fill

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import Connection, JetStream

pytestmark = pytest.mark.spark


@pytest.fixture
def load(spark: SparkSession, server: NatsServer) -> Any:
    def load(stream: str, schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("jetstream").option("servers", server.url).options(**options)
        return (reader.schema(schema) if schema else reader).load(stream)

    return load


def numbers(df: DataFrame) -> list[int]:
    return sorted(int(row.data) for row in df.select("data").collect())


@promise("A schema of your own with some of these columns (and `timestamp_ns`) reads just them.")
def test_columns(js: JetStream, stream: Made, load: Any) -> None:
    name = stream()
    js.publish(f"{name}.é", b"\x00\xff", headers={"A": ["1", "2"], "Nats-Sequence": "9"})
    js.publish(f"{name}.b", b"")
    first, second = (js.get_msg(name, seq) for seq in (1, 2))
    df = load(name)
    assert df.columns == ["subject", "data", "stream", "seq", "timestamp"]
    rows = sorted(df.collect(), key=lambda row: row.seq)
    assert [(row.subject, bytes(row.data), row.stream, row.seq) for row in rows] == [
        (f"{name}.é", b"\x00\xff", name, 1),
        (f"{name}.b", b"", name, 2),
    ]
    df = load(
        name, "timestamp_ns bigint, headers array<struct<key:string,value:binary>>, timestamp timestamp, seq long"
    )
    rows = sorted(df.collect(), key=lambda row: row.seq)
    assert [row.timestamp_ns for row in rows] == [first.timestamp, second.timestamp]
    assert [[(key, bytes(value)) for key, value in row.headers or ()] for row in rows] == [
        [("A", b"1"), ("A", b"2"), ("Nats-Sequence", b"9")],
        [],
    ]
    micros = df.selectExpr("unix_micros(timestamp) t").collect()
    assert sorted(row.t for row in micros) == [first.timestamp // 1_000, second.timestamp // 1_000]
    assert load(name, includeHeaders="true").columns[-1] == "headers"


@promise("exclusive. What is not there yet is not waited for")
@promise("The end is for `read` only, and exclusive")
def test_ranges(js: JetStream, stream: Made, load: Any) -> None:
    name = stream(1_000)
    assert numbers(load(name)) == [*range(1, 1_001)]
    assert load(name, minPartitions="3", maxRecordsPerPartition="10").rdd.getNumPartitions() == 100
    assert numbers(load(name, startingOffsets=f'{{"{name}": 990}}', endingOffsets=f'{{"{name}": 995}}')) == [
        990, 991, 992, 993, 994,
    ]  # fmt: skip
    assert numbers(load(name, startingOffsets="latest")) == []
    time = js.get_msg(name, 500).timestamp
    later = numbers(load(name, startingTimestamp=datetime.fromtimestamp(time // 10**9 - 1, UTC).isoformat()))
    assert later == [*range(1, 1_001)]
    assert numbers(load(name, startingTimestamp="4102444800000")) == []
    assert numbers(load(name, endingTimestamp="0")) == []
    assert len(load(name).limit(1).collect()) == 1


@promise("only what matches this one subject or pattern")
def test_filters(js: JetStream, stream: Made, load: Any) -> None:
    name = stream(2_000)
    js.publish(f"{name}.rare.1", b"-1")
    fill(js, name, 2_001, 4_000)
    assert numbers(load(name, subject=f"{name}.7", minPartitions="3")) == [*range(7, 4_000, 10)]  # a literal one
    assert numbers(load(name, subject=f"{name}.rare.*", minPartitions="3")) == [-1]  # sparse: the server looks
    dense = load(name, subject=f"{name}.*", batchSize="300", minPartitions="3")  # the task looks
    assert numbers(dense) == [*range(1, 4_001)]
    assert len(numbers(load(name, subject=f"{name}.>"))) == 4_001  # covers the stream
    assert numbers(load(name, subject="nowhere.>")) == []


def test_several_streams(js: JetStream, stream: Made, load: Any) -> None:
    one, two, empty = stream(100), stream(50), stream()
    df = load(f"{one}, {two},{empty}", startingOffsets=f'{{"{two}": 41, "{empty}": -1}}')
    counts = {row.stream: row["count"] for row in df.groupBy("stream").count().collect()}
    assert counts == {one: 100, two: 10}


@promise("Single messages that were deleted")
def test_holes(js: JetStream, stream: Made, load: Any) -> None:
    name = stream(300, max_msgs_per_subject=3)
    assert numbers(load(name, minPartitions="7", batchSize="4")) == [*range(271, 301)]
    assert numbers(load(stream())) == []


@promise("What the stream has dropped before it was read ends the query with `DataLossError`.")
def test_what_was_wanted_has_gone(nc: Connection, stream: Made, load: Any) -> None:
    name = stream(200)
    early = load(name, startingOffsets=f'{{"{name}": 1}}')
    nc.request(f"$JS.API.STREAM.PURGE.{name}", b'{"seq": 101}')
    with pytest.raises(PySparkException, match="begins at sequence 101, but 1 was to be read next; set failOnDataLoss"):
        early.collect()
    with pytest.raises(PySparkException, match="ends at sequence 200, but 900"):
        load(name, startingOffsets=f'{{"{name}": 900}}').collect()
    assert numbers(load(name, startingOffsets=f'{{"{name}": 1}}', failOnDataLoss="false")) == [*range(101, 201)]
    assert numbers(load(name)) == [*range(101, 201)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "NOWHERE"}, "OptionError: there is no stream NOWHERE\n"),
        ({}, "OptionError: option stream is missing"),
        ({"path": "A", "servers": ""}, "OptionError: option servers is missing"),
        (
            {"path": "A", "maxOffsetPerTrigger": "1"},
            "there is no option 'maxoffsetpertrigger' for a read; did you mean",
        ),
        (
            {"path": "A", "batchSize": "many"},
            "OptionError: option batchSize cannot be 'many': a number from 1 to 1000000\n",
        ),
        ({"path": "A", "servers": "nats://127.0.0.1:1"}, "NoServersError: .*127.0.0.1:1"),
    ],
)
def test_what_cannot_be(load: Any, options: dict[str, str], message: str) -> None:
    path = options.pop("path", None)
    with pytest.raises(PySparkException, match=message):
        load(path, **options).collect()


def test_what_a_stream_does_not_permit(stream: Made, load: Any) -> None:
    name = stream(allow_direct=False)
    with pytest.raises(
        PySparkException, match=f"stream {name} does not answer Direct Gets: update it with allow_direct"
    ):
        load(name).collect()
    for schema, message in (("seq int", "column seq is bigint, not int"), ("x int", "there is no column 'x'")):
        with pytest.raises(PySparkException, match=message):
            load(name, schema).collect()


def test_payloads_that_are_no_json(js: JetStream, stream: Made, load: Any) -> None:
    """As the README reads them."""
    name = stream()
    for payload in (b'{"id": 1, "price": 0.5}', b"no"):
        js.publish(f"{name}.x", payload)
    schema = "id BIGINT, price DOUBLE, _corrupt_record STRING"
    rows = load(name, minPartitions="1").selectExpr(f"from_json(cast(data AS string), '{schema}') row", "data")
    assert [(*row.row, bytes(row.data)) for row in rows.collect()] == [
        (1, 0.5, None, b'{"id": 1, "price": 0.5}'),
        (None, None, "no", b"no"),
    ]


def test_sql(spark: SparkSession, server: NatsServer, stream: Made) -> None:
    name = stream(10)
    view = f"CREATE TEMPORARY VIEW events USING jetstream OPTIONS (stream '{name}', servers '{server.url}')"
    spark.sql(view)
    assert spark.sql("SELECT max(seq) FROM events WHERE seq < 9").collect() == [(8,)]
    spark.sql("DROP VIEW events")


class Frozen(JetStreamReader):
    """Gives how many objects the garbage collector does not look at in a worker that has read."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert [*super().read(partition)]
        yield pa.record_batch({"data": [b"%d" % gc.get_freeze_count()]})


class FrozenSource(JetStreamDataSource):
    """Named ``frozen``."""

    @classmethod
    def name(cls) -> str:
        return "frozen"

    def reader(self, schema: StructType) -> DataSourceReader:
        return Frozen(schema, read_options(dict(self.options)))


def test_workers_do_not_look_at_what_they_imported_again(spark: SparkSession, server: NatsServer, stream: Made) -> None:
    spark.dataSource.register(FrozenSource)
    reader = spark.read.format("frozen").schema("data binary").option("servers", server.url)
    assert numbers(reader.load(stream(10)))[0] > 10_000
