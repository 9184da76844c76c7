"""Rows of keys and values into a bucket. Writers are called as Spark calls them, but for one query."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from jsproto.errors import AsyncPublishError, ConnectionLostError, KeyNotFoundError
from jsproto_io.sync import Bucket, JetStream, PipelinedPublisher
from pyspark_jetstream import JetStreamDataSource, connecting
from pyspark_jetstream.markers import WriteError
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import write_options
from pyspark_jetstream.rows import RowError
from tests.marks import promise
from tests.spark.conftest import started

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer

pytestmark = pytest.mark.spark

KEYS = StructType([StructField("key", StringType()), StructField("value", StringType())])
Pair = tuple[str | None, str | None]


@pytest.fixture
def bucket(js: JetStream, request: pytest.FixtureRequest) -> Iterator[Callable[..., Bucket]]:
    """``bucket(**options)`` makes a bucket of its own, as clients do."""
    made: list[str] = []

    def make(**options: Any) -> Bucket:
        made.append("".join(filter(str.isalnum, request.node.name))[-50:])
        return js.create_bucket(made[-1], **options)

    yield make
    for name in made:
        js.delete_bucket(name)


@pytest.fixture
def writer(server: NatsServer) -> Callable[..., Any]:
    def make(bucket: str, schema: StructType = KEYS, **options: str) -> Any:
        source = JetStreamDataSource({"servers": server.url, "kvBucket": bucket, **options})
        return pickle.loads(pickle.dumps(source.writer(schema, False)))

    return make


def batches(*rows: Pair, size: int = 2) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), size):
        keys, values = zip(*rows[at : at + size], strict=True)
        yield pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})


def name_of(bucket: Bucket) -> str:
    return bucket.status().bucket


@promise("The last row of a key wins, and null deletes the key.")
@promise("A task that runs again writes its keys again")
def test_keys_are_written(bucket: Callable[..., Bucket], writer: Callable[..., Any]) -> None:
    kv = bucket(history=5)
    kv.put("gone", b"x")
    rows: list[Pair] = [("a", "1"), ("b.c", "2"), ("gone", "3"), ("a", "4"), ("gone", None), ("empty", "")]
    for _ in range(2):
        written = writer(name_of(kv)).write(batches(*rows))
        assert (written.rows, written.sent) == (6, 4)
        assert {key: entry.value for key, entry in kv.get_many(kv.keys()).items()} == {
            "a": b"4",
            "b.c": b"2",
            "empty": b"",
        }
        with pytest.raises(KeyNotFoundError):
            kv.get("gone")
    assert [entry.value for entry in kv.history("a")] == [b"4", b"4"]
    assert [entry.operation for entry in kv.history("gone")] == ["PUT", "DEL", "DEL"]


@promise("A row that cannot be stored fails the task, by its number and its column.")
@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([("a", "1"), ("b", "2"), ("x y", "3")], r"row 2 of partition 0 cannot be stored: column key: a key is tokens"),
        ([("a", "1"), (None, "2")], "row 1 of partition 0 cannot be stored: column key: is null"),
        ([("", "1")], "row 0 of partition 0 cannot be stored: column key: a key is tokens of"),
        ([("a.", "1")], "column key: a key is tokens of .* joined by dots, not 'a.'"),
        ([("a.*", "1")], "column key: a key is tokens of .* joined by dots, not 'a.\\*'"),
        ([("a", "x" * 101), ("a", "1")], r"row 0 of partition 0 cannot be stored: column value has 101 bytes; .* 100$"),
    ],
)
def test_rows_that_cannot_be_stored(
    bucket: Callable[..., Bucket], writer: Callable[..., Any], rows: list[Pair], why: str
) -> None:
    kv = bucket(max_value_size=100)
    with pytest.raises(RowError, match=why) as caught:
        writer(name_of(kv)).write(batches(*rows))
    assert str(caught.value).count(f"stream KV_{name_of(kv)}") == 1
    assert "\n" not in str(caught.value)
    assert kv.keys() == []


def test_a_later_chunk_has_numbers_of_the_partition(bucket: Callable[..., Bucket], writer: Callable[..., Any]) -> None:
    kv = bucket()
    rows = [(f"k{n}", "v") for n in range(15)]
    with pytest.raises(RowError, match="row 15 of partition 0 cannot be stored: column key"):
        writer(name_of(kv)).write(batches(*rows, ("?", "v"), size=1))
    assert len(kv.keys()) == 15


def test_what_the_server_refuses(bucket: Callable[..., Bucket], writer: Callable[..., Any]) -> None:
    kv = bucket(max_bytes=1_000)
    with pytest.raises(WriteError, match=r"row 1 of partition 0 was not stored: key b: .*maximum bytes exceeded"):
        writer(name_of(kv)).write(batches(("a", "1"), ("b", "x" * 2_000)))


@promise("A lost connection, or a leader that is not there")
def test_what_was_not_acknowledged_is_sent_again(
    bucket: Callable[..., Bucket], writer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = bucket()
    monkeypatch.setattr(connecting, "sleep", lambda seconds: None)
    flush, gone = PipelinedPublisher.flush, ConnectionLostError("gone")
    faults = [gone, AsyncPublishError([(("s", b""), gone)])]

    def broken(publisher: PipelinedPublisher, **options: Any) -> None:
        flush(publisher, **options)
        if faults:
            raise faults.pop()

    monkeypatch.setattr(PipelinedPublisher, "flush", broken)
    assert writer(name_of(kv)).write(batches(("a", "1"), ("b", "2"))).rows == 2
    assert kv.get("b").value == b"2"
    faults[:] = [gone] * (connecting.TRIES + 1)
    with pytest.raises(WriteError, match="rows 0 to 1 of partition 0: gone"):
        writer(name_of(kv)).write(batches(("a", "1"), ("b", "2")))


def test_a_mirror_is_written_through_its_origin(
    js: JetStream, bucket: Callable[..., Bucket], writer: Callable[..., Any]
) -> None:
    kv = bucket()
    js.create_bucket("mirrored", mirror=name_of(kv))
    try:
        writer("mirrored").write(batches(("a", "1")))
        assert kv.get("a").value == b"1"
    finally:
        js.delete_bucket("mirrored")


def test_what_is_no_bucket_or_no_row_of_one(
    js: JetStream, bucket: Callable[..., Bucket], writer: Callable[..., Any]
) -> None:
    kv = name_of(bucket())
    with pytest.raises(OptionError, match="bucket nobodys: it does not exist"):
        writer("nobodys")
    wrong: dict[str, dict[str, Any]] = {
        "column 'x' cannot be written (there are key, value): drop it": {"key": StringType(), "x": StringType()},
        "column key must be string, not bigint": {"key": LongType(), "value": StringType()},
        "column value is missing: a bucket takes rows of key and value": {"key": StringType()},
        "column 'subject' cannot be written": {"subject": StringType(), "value": StringType()},
    }
    for message, columns in wrong.items():
        with pytest.raises(OptionError) as caught:
            writer(kv, StructType([StructField(name, kind) for name, kind in columns.items()]))
        assert message in str(caught.value)
    more = StructType([*KEYS.fields, StructField("revision", LongType())])
    assert writer(kv, more, ignoreExtraColumns="true").names == ["key", "value"]
    upper = StructType([StructField("KEY", StringType()), StructField("Value", BinaryType())])
    assert writer(kv, upper).names == ["key", "value"]


@pytest.mark.parametrize("name", ["stream", "delivery", "subject", "markerSubject", "txnAppId", "flow"])
def test_options_of_streams(name: str) -> None:
    with pytest.raises(OptionError, match=f"options {name} and kvBucket exclude each other: a bucket takes keys"):
        write_options({"servers": "nats://a", "kvBucket": "B", name: "atomic" if name == "delivery" else "1"})


def test_a_bucket_follows_another(
    spark: SparkSession, server: NatsServer, js: JetStream, bucket: Callable[..., Bucket], tmp_path: Path
) -> None:
    """A streaming copy, deleted keys included, and a batch one."""
    origin = bucket(history=3)
    target = js.create_bucket("target")
    given = {"servers": server.url, "kvBucket": name_of(origin), "startingOffsets": "earliest"}
    for number in range(5):
        origin.put(f"k.{number}", b"%d" % number)
    origin.delete("k.3")
    try:
        rows = spark.readStream.format("jetstream").options(**given).load().select("key", "value")
        sink = rows.writeStream.format("jetstream").options(servers=server.url, kvBucket="target")
        sink = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        started(sink).awaitTermination()
        assert target.get_many([f"k.{n}" for n in range(5)]).keys() == {"k.0", "k.1", "k.2", "k.4"}
        frame = spark.createDataFrame([("k.0", None), ("k.9", "nine")], "key string, value string").coalesce(1)
        frame.write.format("jetstream").options(servers=server.url, kvBucket="target").mode("append").save()
        assert sorted(target.keys()) == ["k.1", "k.2", "k.4", "k.9"]
    finally:
        js.delete_bucket("target")
