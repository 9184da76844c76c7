"""Buckets as tables, and filters that Spark pushes down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, StringStartsWith
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from jsproto.grammar.columns import StoredColumns, stored_columns
from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.buckets import BucketBuilder, BucketReader, operations_of
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import read_options
from pyspark_jetstream.pushdown import PushdownReader
from pyspark_jetstream.ranges import ReadError
from tests.grammar.test_columns import part
from tests.marks import promise
from tests.spark.conftest import Made
from tests.spark.test_tasks import COLUMNS, read

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import JetStream

pytestmark = pytest.mark.spark

KEYS = StructType(
    [StructField("key", StringType()), StructField("value", BinaryType()), StructField("operation", StringType())]
)


class Bucket:
    """A bucket, made of what it is made of."""

    def __init__(self, js: JetStream, name: str, history: int) -> None:
        self.js = js
        self.name = name
        js.create_stream(
            f"KV_{name}", subjects=[f"$KV.{name}.>"], allow_direct=True, allow_batched=True, allow_rollup_hdrs=True,
            max_msgs_per_subject=history, discard="new",
        )  # fmt: skip

    def put(self, key: str, value: bytes, **headers: str) -> None:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.js.publish(f"$KV.{self.name}.{key}", value, headers=given)


@pytest.fixture
def bucket(js: JetStream, request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[str] = []

    def make(history: int = 1) -> Bucket:
        made.append("".join(filter(str.isalnum, request.node.name)))
        return Bucket(js, made[-1], history)

    yield make
    for name in made:
        js.delete_stream(f"KV_{name}")


def values(reader: BucketReader) -> dict[str, tuple[bytes | None, str]]:
    (partition,) = reader.partitions()
    rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: (row["value"], row["operation"]) for row in rows}


@pytest.mark.parametrize("seqs", [[[1, 9, 2, 4]], [[1, 9], [2, 4]], [[3]]])
def test_revisions_need_not_rise(seqs: list[list[int]]) -> None:
    schema = StructType([StructField("revision", LongType()), StructField("key", StringType())])
    builder = BucketBuilder(schema, "KV_B", read_options({"servers": "nats://x", "kvBucket": "B"}))
    for piece in seqs:
        texts = [b"%d" % seq for seq in piece]
        builder.add(StoredColumns([b"$KV.B.%b" % text for text in texts], piece, texts, texts, texts))
    found = builder.batch().to_pydict()
    assert found["revision"] == [int(key) for key in found["key"]] == [seq for piece in seqs for seq in piece]


@promise("`readStream` has a row for each change that the bucket still keeps when its task reads it.")
def test_a_bucket(spark: SparkSession, server: NatsServer, bucket: Any) -> None:
    kv = bucket(history=5)
    kv.put("a", b"1")
    kv.put("b.c", b"2")
    kv.put("a", b"3")
    kv.put("b.d", b"", KV_Operation="DEL")
    source = spark.read.format("jetstream").options(servers=server.url, kvBucket=kv.name)
    df = source.load()
    assert df.columns == ["bucket", "key", "value", "revision", "timestamp", "operation"]
    rows = sorted(df.collect(), key=lambda row: row.key)
    assert [(row.bucket, row.key, row.value, row.revision, row.operation) for row in rows] == [
        (kv.name, "a", b"3", 3, "PUT"),
        (kv.name, "b.c", b"2", 2, "PUT"),
        (kv.name, "b.d", None, 4, "DEL"),
    ]
    earlier = source.option("endingOffsets", f'{{"KV_{kv.name}": 3}}').load()
    assert sorted((row.key, row.value) for row in earlier.collect()) == [("a", b"1"), ("b.c", b"2")]
    changes = spark.readStream.format("jetstream").options(
        servers=server.url, kvBucket=kv.name, kvKeys="b.>", startingOffsets="earliest"
    )
    query = changes.load().writeStream.format("memory").queryName("changes").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(spark.table("changes").select("key", "revision").collect()) == [("b.c", 2), ("b.d", 4)]


@promise("`read` has the newest row of each key, all at one sequence, while others write.")
def test_a_large_bucket_at_once(js: JetStream, server: NatsServer, bucket: Any) -> None:
    """More keys than a server answers for at once, and writes after the read began do not show."""
    kv = bucket(history=2)
    with js.fast_publisher() as batch:
        batch.publish_many((f"$KV.{kv.name}.{n % 3_000}", b"%d" % n) for n in range(6_000))
        batch.commit()
    options = read_options({"servers": server.url, "kvBucket": kv.name, "batchSize": "500"})
    reader = BucketReader(KEYS, options)
    assert values(reader) == {str(n): (b"%d" % (n + 3_000), "PUT") for n in range(3_000)}
    some = BucketReader(KEYS, read_options({"servers": server.url, "kvBucket": kv.name, "kvKeys": "7"}))
    assert values(some) == {"7": (b"3007", "PUT")}


@promise("With `minPartitions` it has several tasks, each with some of the keys, at a sequence of its own.")
def test_a_large_bucket_in_many_tasks(js: JetStream, server: NatsServer, bucket: Any) -> None:
    kv = bucket(history=2)
    with js.fast_publisher() as batch:
        batch.publish_many((f"$KV.{kv.name}.{n % 3_000}", b"%d" % n) for n in range(6_000))
        batch.commit()
    given = {"servers": server.url, "kvBucket": kv.name, "minPartitions": "4"}
    reader = BucketReader(KEYS, read_options(given))
    partitions = reader.partitions()
    assert len(partitions) == 4
    kv.put("7", b"new")
    kv.put("unplanned", b"new")
    rows = [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]
    wanted = {str(n): b"%d" % (n + 3_000) for n in range(3_000)} | {"7": b"new"}
    assert len(rows) == 3_000
    assert {row["key"]: row["value"] for row in rows} == wanted
    earlier = BucketReader(KEYS, read_options({**given, "endingOffsets": f'{{"{kv.name}": 6001}}', "kvKeys": "*"}))
    found = [row for each in earlier.partitions() for batch in earlier.read(each) for row in batch.to_pylist()]
    assert {row["key"]: row["value"] for row in found} == {**wanted, "7": b"3007"}
    nothing = BucketReader(KEYS, read_options({**given, "kvKeys": "none"}))
    assert [[*nothing.read(each)] for each in nothing.partitions()] == [[]]


def test_what_the_server_removed() -> None:
    marks = [
        b"",
        b"Nats-Marker-Reason: MaxAge\r\n",
        b"Nats-Marker-Reason: Remove\r\n",
        b"KV-Operation: PURGE\r\n",
        b"X: 1\r\n",
    ]
    blocks = [part(seq, b"NATS/1.0\r\n" + mark) for seq, mark in enumerate(marks, 1)]
    assert operations_of(stored_columns(blocks)) == ["PUT", "PURGE", "DEL", "PURGE", "PUT"]
    assert operations_of(stored_columns(blocks[:1])) == ["PUT"]


@promise("The read fails where a key may have been overwritten more often since than the bucket keeps.")
def test_moments_that_a_bucket_does_not_keep(js: JetStream, server: NatsServer, bucket: Any) -> None:
    kv = bucket(history=1)
    given = {"servers": server.url, "kvBucket": kv.name}
    assert values(BucketReader(KEYS, read_options(given))) == {}
    kv.put("a", b"1")
    kv.put("a", b"2")
    with pytest.raises(
        OptionError, match=f"bucket {kv.name} keeps one value of a key: it cannot be read as of earlier"
    ):
        BucketReader(KEYS, read_options({**given, "endingTimestamp": "1"})).partitions()
    for start in ({"startingOffsets": "earliest"}, {"startingTimestamp": "1"}):
        with pytest.raises(OptionError, match="it has no start"):
            BucketReader(KEYS, read_options({**given, **start}))
    with pytest.raises(OptionError, match="there is no stream KV_none"):
        BucketReader(KEYS, read_options({"servers": server.url, "kvBucket": "none"})).partitions()
    wrong = StructType([StructField("seq", LongType())])
    with pytest.raises(OptionError, match="there is no column 'seq'; there are bucket, key"):
        JetStreamDataSource(given).streamReader(wrong)


@promise("`read` has the newest row of each key, all at one sequence, while others write.")
def test_a_bucket_overwritten_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, server: NatsServer, bucket: Any
) -> None:
    kv = bucket(history=1)
    with js.fast_publisher() as batch:
        batch.publish_many((f"$KV.{kv.name}.{n}", b"%d" % n) for n in range(3_000))
        batch.commit()
    reader = BucketReader(KEYS, read_options({"servers": server.url, "kvBucket": kv.name, "batchSize": "100"}))
    task = reader.read(reader.partitions()[0])
    rows = next(task).num_rows
    with js.fast_publisher() as batch:
        batch.publish_many((f"$KV.{kv.name}.{n}", b"new") for n in range(3_000))
        batch.commit()
    assert rows + sum(batch.num_rows for batch in task) == 3_000


@promise("The read fails where a key may have been overwritten more often since than the bucket keeps.")
def test_a_moment_that_was_overwritten_since(js: JetStream, server: NatsServer, bucket: Any) -> None:
    kv = bucket(history=2)
    for value in (b"1", b"2", b"3"):
        kv.put("a", value)
    options = {"servers": server.url, "kvBucket": kv.name, "endingOffsets": f'{{"KV_{kv.name}": 2}}'}
    reader = BucketReader(KEYS, read_options(options))
    with pytest.raises(ReadError, match=f"bucket {kv.name}: .*let it keep more history, or read an earlier moment"):
        list(reader.read(reader.partitions()[0]))


# -- filters that are pushed down --------------------------------------------------------------------------------------


def pushing(server: NatsServer, name: str, **options: str) -> Any:
    reader = JetStreamDataSource({"servers": server.url, "stream": name, "pushFilters": "true", **options}).reader(
        COLUMNS
    )
    assert isinstance(reader, PushdownReader)
    return reader


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThan(("seq",), 90), LessThanOrEqual(("seq",), 95), IsNotNull(("seq",))], range(90, 96)),
        ([EqualTo(("seq",), 7)], range(7, 8)),
        ([In(("seq",), (3, None, 9)), GreaterThan(("seq",), 1)], range(3, 10)),
        ([In(("seq",), (None,))], range(1, 101)),
        ([EqualTo(("seq",), 1_000)], range(0)),
        ([EqualTo(("data",), b"7")], range(1, 101)),
        ([EqualTo(("subject",), "{name}.7")], range(7, 101, 10)),
        ([StringStartsWith(("subject",), "{name}.")], range(1, 101)),
        ([StringStartsWith(("subject",), "{name}")], range(1, 101)),
        ([EqualTo(("subject",), "{name}.*")], range(1, 101)),
        ([EqualTo(("subject",), "a b")], range(1, 101)),
        ([StringStartsWith(("subject",), "nowhere.")], range(0)),
    ],
)
def test_filters_narrow_a_read(stream: Made, server: NatsServer, filters: list[Any], expected: range) -> None:
    name = stream(100)
    named = [
        type(each)(each.attribute, each.value.format(name=name)) if isinstance(getattr(each, "value", 0), str) else each
        for each in filters
    ]
    reader = pushing(server, name)
    assert list(reader.pushFilters(named)) == named
    assert read(reader, reader.partitions()) == [*expected]
    reader = pushing(server, name, subject=f"{name}.7")
    reader.pushFilters(named)
    assert set(read(reader, reader.partitions())) >= set(expected) & set(range(7, 101, 10))


@promise("only what matches this one subject or pattern")
def test_a_filter_never_widens_a_read(js: JetStream, stream: Made, server: NatsServer) -> None:
    name = stream(10)
    js.publish(f"{name}.1.deep", b"11")
    for subject in (f"{name}.*", f"{name}.1"):
        reader = pushing(server, name, subject=subject)
        reader.pushFilters([StringStartsWith(("subject",), f"{name}.")])
        assert read(reader, reader.partitions()) == ([*range(1, 11)] if "*" in subject else [1])


def test_times_are_pushed_with_a_margin(js: JetStream, stream: Made, server: NatsServer) -> None:
    name = stream(100)
    now = datetime.fromtimestamp(js.get_msg(name, 50).timestamp / 1e9, UTC)
    bit, chunk = timedelta(seconds=30), timedelta(minutes=2)
    local = (now - chunk).astimezone().replace(tzinfo=None)
    wanted = [(now, now, 100), (now + bit, None, 100), (now + chunk, None, 0), (None, now - bit, 100), (None, local, 0)]
    for low, high, expected in wanted:
        reader = pushing(server, name)
        reader.pushFilters([GreaterThan(("timestamp",), low)] if low is not None else [])
        reader.pushFilters([LessThanOrEqual(("timestamp",), high)] * 2 if high is not None else [])
        assert len(read(reader, reader.partitions())) == expected


def test_pushing_with_spark(spark: SparkSession, js: JetStream, server: NatsServer, stream: Made) -> None:
    name = stream(1_000)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        df = spark.read.format("jetstream").options(servers=server.url, pushFilters="true").load(name)
        chosen = df.where(f"seq > 500 AND seq IN (501, 777, 999) AND subject LIKE '{name}.%'")
        assert sorted(row.seq for row in chosen.select("seq").collect()) == [501, 777, 999]
        assert chosen.rdd.getNumPartitions() <= 2
        time = js.get_msg(name, 500).timestamp // 1_000
        assert df.where(f"timestamp >= timestamp_micros({time})").count() in range(1, 1_001)
        assert df.where("timestamp >= '2200-01-01'").count() == 0
        assert df.where("timestamp >= '2000-01-01' AND timestamp < '2200-01-01'").count() == 1_000
        plain = spark.read.format("jetstream").options(servers=server.url).load(name)
        assert plain.where("seq = 7").count() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert plain.where("seq = 7").count() == 1
