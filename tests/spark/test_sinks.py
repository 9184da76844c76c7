"""The three deliveries of the sink, and what happens to them when tasks and drivers die."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jsproto_io.sync import JetStream
from pyspark_jetstream import register
from tests.marks import promise
from tests.spark.conftest import Made, data_of, started
from tests.spark.copying import check_copies, copy_with_faults

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer

pytestmark = pytest.mark.spark


@pytest.fixture
def save(server: NatsServer) -> Any:
    def save(df: DataFrame, stream: str, mode: str = "append", **options: Any) -> None:
        writer = df.write.format("jetstream").option("servers", server.url).option("stream", stream)
        writer.options(**options).mode(mode).save()

    return save


def rows_of(spark: SparkSession, name: str, count: int = 100) -> DataFrame:
    return spark.range(1, count + 1, 1, 2).selectExpr(f"concat('{name}.', id % 3) subject", "cast(id as string) data")


@pytest.mark.parametrize("delivery", ["fast", "fastDedup", "atomic"])
def test_a_batch_write(spark: SparkSession, js: JetStream, stream: Made, save: Any, delivery: str) -> None:
    name = stream()
    save(rows_of(spark, name, 3_000), name, delivery=delivery, markerSubject=name)
    assert data_of(js, name) == Counter(range(1, 3_001))


def test_a_thread_without_a_session_registers_before_it_writes(
    spark: SparkSession, js: JetStream, stream: Made, save: Any
) -> None:
    """Spark looks for the format in the session of the thread, and a further Python thread has none at first."""
    name = stream()
    rows = rows_of(spark, name)
    SparkSession._get_j_spark_session_class(spark._jvm).clearActiveSession()
    try:
        with pytest.raises((PySparkException, Py4JError), match="DATA_SOURCE_NOT_FOUND"):
            save(rows, name)
    finally:
        register(spark)
    save(rows, name)
    assert data_of(js, name) == Counter(range(1, 101))


def test_columns_in_another_case(spark: SparkSession, js: JetStream, stream: Made, save: Any) -> None:
    name = stream()
    save(rows_of(spark, name).selectExpr("data AS Data", "subject AS SUBJECT"), name)
    assert data_of(js, name) == Counter(range(1, 101))


def test_all_columns(spark: SparkSession, js: JetStream, stream: Made, save: Any) -> None:
    name = stream(allow_msg_ttl=True)
    rows = spark.sql(
        """SELECT CAST(NULL AS STRING) subject, X'00ff' data, 'id-1' msg_id, '1h' ttl,
           array(named_struct('key', 'A', 'value', X'31'), named_struct('key', 'A', 'value', X'32')) headers"""
    )
    save(rows, name, subject=f"{name}.x")
    save(rows, name, subject=f"{name}.x")  # the same message id
    (message,) = js.get_batch(name)
    assert (message.subject, message.data) == (f"{name}.x", b"\x00\xff")
    assert list(message.headers.items()) == [("A", "1"), ("A", "2"), ("Nats-Msg-Id", "id-1"), ("Nats-TTL", "1h")]
    save(spark.sql("SELECT 'd' data, map('B', array('1', '2')) headers"), name, subject=f"{name}.y")
    assert list(js.get_last_msg(name, f"{name}.y").headers.items()) == [("B", "1"), ("B", "2")]


@pytest.mark.parametrize("delivery", ["fast", "fastDedup", "atomic"])
def test_schedules_and_rollups(spark: SparkSession, js: JetStream, stream: Made, save: Any, delivery: str) -> None:
    name = stream(2, allow_msg_schedules=True, allow_msg_ttl=True, allow_rollup_hdrs=True)
    columns = f"""'{name}.q' subject, 'd' data, TIMESTAMP '2100-01-01 00:00:00' at, CAST(NULL AS STRING) cron,
        '{name}.t' target, 60 schedule_ttl, CAST(NULL AS STRING) rollup"""
    others = f"""'{name}.p', 'e', NULL, '@daily', '{name}.t', NULL, NULL
        UNION ALL SELECT '{name}.1', 'f', NULL, NULL, NULL, NULL, 'sub'"""
    save(
        spark.sql(f"SELECT {columns} UNION ALL SELECT {others}").coalesce(1),
        name,
        delivery=delivery,
        markerSubject=name,
    )
    wanted = {
        "q": {
            "Nats-Schedule": "@at 2100-01-01T00:00:00Z",
            "Nats-Schedule-Target": f"{name}.t",
            "Nats-Schedule-TTL": "60",
        },
        "p": {"Nats-Schedule": "@daily", "Nats-Schedule-Target": f"{name}.t"},
        "1": {"Nats-Rollup": "sub"},
    }
    for last, headers in wanted.items():
        found = dict(js.get_last_msg(name, f"{name}.{last}").headers.items())
        assert headers.items() <= found.items()
    assert len([*js.get_batch(name, subject=f"{name}.1")]) == 1


def test_counters(spark: SparkSession, js: JetStream, stream: Made, save: Any) -> None:
    name = stream(allow_msg_counter=True)
    rows = spark.sql(f"SELECT '{name}.a' subject, CAST(NULL AS STRING) data, id incr FROM range(1, 5)")
    save(rows, name)
    assert js.counter(name).value(f"{name}.a") == 10
    with pytest.raises(PySparkException, match="cannot be stored: a message with incr has no payload"):
        save(spark.sql(f"SELECT '{name}.a' subject, 'x' data, 1L incr"), name)
    plain = stream()
    with pytest.raises(PySparkException, match="takes no column incr: make it with allow_msg_counter=True"):
        save(rows, plain)


@pytest.mark.parametrize("delivery", ["fast", "fastDedup", "atomic"])
def test_headers_of_another_stream_without_what_they_tell_the_server(
    spark: SparkSession, server: NatsServer, js: JetStream, stream: Made, save: Any, delivery: str
) -> None:
    """As the README has it."""
    origin, copy = stream(), stream()
    js.publish(f"{origin}.1", b"1", headers={"A": "1", "Nats-Expected-Last-Subject-Sequence": "0"})
    js.publish(f"{origin}.2", b"2", headers={"Nats-Msg-Id": "x"})
    js.publish(f"{origin}.3", b"3")
    rows = spark.read.format("jetstream").options(servers=server.url, includeHeaders="true").load(origin)
    copied = rows.selectExpr(f"'{copy}.1' subject", "data", "filter(headers, h -> h.key NOT LIKE 'Nats-%') headers")
    for _ in range(2):
        save(copied, copy, delivery=delivery, markerSubject=copy)
    found = [message for message in js.get_batch(copy) if ".$spark." not in message.subject]
    assert Counter(int(message.data) for message in found) == {1: 2, 2: 2, 3: 2}
    own = [(name, value) for each in found for name, value in each.headers.items() if not name.startswith("Nats-")]
    assert own == [("A", "1")] * 2


def test_expected_sequences(spark: SparkSession, js: JetStream, stream: Made, save: Any) -> None:
    name = stream(9)
    rows = spark.sql(f"SELECT '{name}.1' subject, 'new' data, 1L expected_last_subject_seq")
    save(rows, name, delivery="atomic", markerSubject=name)
    with pytest.raises(
        PySparkException,
        match=r"WriteError: stream \w+: rows 0 to 0 of partition 0 were not stored: .*wrong last sequence",
    ):
        save(rows, name, delivery="atomic", markerSubject=name)
    assert [message.data for message in js.get_batch(name, subject=f"{name}.1")] == [b"1", b"new"]


@promise("A row with a message id of its own is dropped if the stream has seen that within its `duplicate_window`")
@promise("then stores nothing twice within the duplicate window")
def test_a_job_again_with_the_same_ids(spark: SparkSession, js: JetStream, stream: Made, save: Any) -> None:
    name = stream()
    for _ in range(2):
        save(rows_of(spark, name), name, delivery="fastDedup", msgIdPrefix="job-7")
    assert data_of(js, name) == Counter(range(1, 101))


@promise("For a batch write the promise holds within one `save()`.")
@pytest.mark.parametrize("delivery", ["fastDedup", "atomic"])
@pytest.mark.parametrize("cached", [True, False])
def test_a_micro_batch_is_written_twice_by_a_function(
    spark: SparkSession, server: NatsServer, js: JetStream, stream: Made, save: Any, tmp_path: Path, delivery: str,
    cached: bool,
) -> None:  # fmt: skip
    """As after a driver that died before Spark had noted that it was done. With names, and once out of a cache."""
    origin, target = stream(2_500), stream()

    def write(rows: DataFrame, number: int) -> None:
        rows = rows.persist() if cached else rows
        for _ in range(2):
            save(rows, target, delivery=delivery, markerSubject=target, txnAppId="orders", txnVersion=number)

    read = spark.readStream.format("jetstream").options(servers=server.url, minPartitions="2", includeOrigin="true")
    rows = read.option("startingOffsets", "earliest").load(origin)
    writer = rows.selectExpr(f"concat('{target}.', seq % 7) subject", "data", "origin").writeStream.foreachBatch(write)
    query = started(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
    query.awaitTermination()
    assert query.exception() is None
    assert data_of(js, target) == Counter(range(1, 2_501))


def test_what_the_sink_leaves_is_not_read(
    spark: SparkSession, server: NatsServer, js: JetStream, stream: Made, save: Any
) -> None:
    name = stream()
    save(rows_of(spark, name, 50), name, delivery="atomic", markerSubject=name)
    read = spark.read.format("jetstream").options(servers=server.url, includeHeaders="true")
    assert [row.headers for row in read.load(name).collect()] == [None] * 50
    everything = read.option("includeBookkeeping", "true").load(name).collect()
    assert len(everything) == js.stream_info(name).state.messages == 52  # a marker of each partition
    assert all(row.headers[0].key == "Nats-Batch-Id" for row in everything)


@promise("**Apache Spark** reads, streams and writes JetStream")
@promise("every row once, however late a task is repeated")
@promise("every row is stored, and stored **again** by each run that is repeated")
@promise("every row once, as long as the repetition comes within the stream's")
@promise("every row once, however late it is repeated")
@promise("`ingest`, `mirror` and `replay` store every row")
@pytest.mark.parametrize("delivery", ["fast", "fastDedup", "atomic"])
def test_tasks_die_and_a_driver_dies(
    spark: SparkSession, server: NatsServer, stream: Made, tmp_path: Path, delivery: str
) -> None:
    """A failed task, a killed process of Python, a failed commit, and a restart from the checkpoint."""
    faults = "task@1 worker@2 commit@3"
    stored = copy_with_faults(spark, server, stream(), stream(), delivery, tmp_path, faults, 4)
    check_copies(stored, delivery, faults, 4)


def test_rows_that_cannot_be_stored(spark: SparkSession, js: JetStream, stream: Made, save: Any) -> None:
    name = stream(max_msg_size=1_000)
    for delivery in ("fast", "atomic"):
        large = spark.sql(f"SELECT '{name}.1' subject, repeat('x', 1001) data")
        with pytest.raises(
            PySparkException, match=f"RowError: row 0 of partition 0 has 1001 bytes of data; stream {name} takes 1000"
        ):
            save(large, name, delivery=delivery, markerSubject=name)
        wrong = spark.sql("SELECT 'elsewhere' subject, 'x' data")
        with pytest.raises(
            PySparkException, match=f"row 0 of partition 0 cannot be stored: stream {name} does not take"
        ):
            save(wrong, name, delivery=delivery, markerSubject=name)
    nowhere = spark.sql("SELECT CAST(NULL AS STRING) subject, 'x' data")
    with pytest.raises(
        PySparkException, match="row 0 of partition 0 has no subject, and the option subject is not set"
    ):
        save(nowhere, name)
    assert js.stream_info(name).state.messages == 0
    huge = spark.sql("SELECT repeat('x', 1048577) data")
    with pytest.raises(PySparkException, match="row 0 of partition 0 has 1048577 bytes of data; .* takes 1048576"):
        save(huge, stream(subjects=["any"]), subject="any")


def test_what_cannot_be_written(spark: SparkSession, stream: Made, save: Any) -> None:
    name = stream()
    one = spark.sql("SELECT 'x' data")
    wrong: list[tuple[DataFrame, dict[str, str], str]] = [
        (one, {"stream": "NOWHERE", "subject": "x"}, "there is no stream NOWHERE"),
        (one, {}, "where to\\? Add a column subject, or set the option subject"),
        (one, {"subject": "x"}, f"subject x is none of stream {name}, which takes {name}.>"),
        (spark.sql("SELECT 1 data"), {"subject": f"{name}.x"}, "column data must be binary or string, not int"),
        (
            spark.sql("SELECT 'x' payload"),
            {"subject": f"{name}.x"},
            "column 'payload' cannot be written .* drop it, or",
        ),
        (spark.sql(f"SELECT '{name}.x' subject"), {}, "column data is missing"),
        (spark.sql(f"SELECT '{name}.x' subject, '' data, '1h' ttl"), {}, f"stream {name} takes no column ttl: update"),
        (one, {"subject": f"{name}.x", "delivery": "atomic"}, "delivery atomic needs option markerSubject"),
        (one, {"subject": f"{name}.x", "delivery": "atomic", "markerSubject": "m"}, "markers go to m.\\$spark.QUERY"),
        (one, {"subject": f"{name}.x", "delivery": "once"}, "option delivery cannot be 'once'"),
        (one, {"subject": f"{name}.x", "mode": "overwrite"}, "a stream is not overwritten: use mode\\('append'\\)"),
    ]
    for df, options, message in wrong:
        mode = options.pop("mode", "append")
        with pytest.raises(PySparkException, match=f"OptionError: {message}"):
            save(df, options.pop("stream", name), mode, **options)
    save(spark.sql("SELECT 'x' data, 7 other"), name, subject=f"{name}.x", ignoreExtraColumns="true")


@pytest.mark.parametrize(
    ("config", "delivery", "message"),
    [
        ({"allow_batched": False}, "fast", "takes no fast-ingest batches: update it with allow_batched=True"),
        ({"allow_atomic": False}, "atomic", "takes no atomic batches: update it with allow_atomic=True"),
    ],
)
def test_what_a_stream_does_not_permit(
    spark: SparkSession, stream: Made, save: Any, config: dict[str, Any], delivery: str, message: str
) -> None:
    name = stream(**config)
    with pytest.raises(PySparkException, match=f"OptionError: stream {name} {message}"):
        save(rows_of(spark, name), name, delivery=delivery, markerSubject=name)
