"""Streaming reads: what a checkpoint promises, how much a micro-batch takes, what progress says."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.marks import promise
from tests.servers import recreate_stream
from tests.spark.conftest import Made, data_of, fill, started

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import Connection, JetStream

pytestmark = pytest.mark.spark
RESTARTS = 3
limited = pytest.mark.skipif(
    find_spec("pyspark.sql.streaming.datasource") is None,
    reason="before Spark 4.2 a query's first micro-batch takes everything",
)


class Copying:
    """A query that keeps what it reads in a table of files, and its checkpoint beside that."""

    def __init__(self, spark: SparkSession, server: NatsServer, folder: Path) -> None:
        self._spark = spark
        self._server = server
        self.table = str(folder / "table")
        self.checkpoint = str(folder / "checkpoint")

    def read(self, stream: str, **options: Any) -> DataFrame:
        reader = self._spark.readStream.format("jetstream").option("servers", self._server.url)
        return reader.option("startingOffsets", "earliest").options(**options).load(stream)

    def run(self, stream: str, **options: Any) -> list[dict[str, Any]]:
        """Copy what there is. Returns the progress of each micro-batch that had rows."""
        return self.start(stream, availableNow=True, **options)

    def start(self, stream: str, *, availableNow: bool, **options: Any) -> list[dict[str, Any]]:
        writer = self.read(stream, **options).writeStream.format("parquet").option("path", self.table)
        query = started(writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=availableNow))
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [json.loads(each.json) for each in query.recentProgress if each.numInputRows]

    def rows(self) -> list[int]:
        return sorted(int(row.data) for row in self._spark.read.parquet(self.table).select("data").collect())


@pytest.fixture
def copying(spark: SparkSession, server: NatsServer, tmp_path: Path) -> Copying:
    return Copying(spark, server, tmp_path)


@limited
def test_a_checkpoint_goes_on_where_it_was(js: JetStream, stream: Made, copying: Copying) -> None:
    name = stream(10_000)
    progress = copying.run(name, maxOffsetsPerTrigger="4000")
    assert [each["numInputRows"] for each in progress] == [4_000, 4_000, 2_000]
    ends = [each["sources"][0]["endOffset"]["streams"][name]["seq"] for each in progress]
    known = [each["sources"][0]["latestOffset"]["streams"][name]["seq"] for each in progress]
    assert ends == [4_001, 8_001, 10_001]
    assert known == [10_001] * 3
    assert copying.run(name) == []
    fill(js, name, 10_001, 10_007)
    assert [each["numInputRows"] for each in copying.run(name)] == [7]
    assert copying.rows() == [*range(1, 10_008)]


@limited
def test_several_streams_share_a_limit_and_more_may_come(js: JetStream, stream: Made, copying: Copying) -> None:
    one, two, three = stream(300), stream(100), stream(50)
    progress = copying.run(f"{one},{two}", maxOffsetsPerTrigger="200")
    assert [each["numInputRows"] for each in progress] == [200, 200]
    copying.run(f"{one},{two},{three}", startingOffsets="latest")
    assert len(copying.rows()) == 450
    with pytest.raises(StreamingQueryException, match=f"the checkpoint is of .*, but the query does not read {three}"):
        copying.run(f"{one}, {two}")


@promise("A query whose `subject` matches nothing new makes no micro-batches.")
def test_an_idle_query_waits_for_what_matches(js: JetStream, stream: Made, copying: Copying) -> None:
    """Unrelated messages make no micro-batches. The offset moves with the first one that matches."""
    name = stream(100)
    reading = copying.read(name, subject=f"{name}.rare")
    query = started(reading.writeStream.format("noop").option("checkpointLocation", copying.checkpoint))
    try:
        query.processAllAvailable()
        fill(js, name, 101, 200)
        query.processAllAvailable()
        assert sum(each.numInputRows for each in query.recentProgress) == 0
        assert {each.batchId for each in query.recentProgress} == {0}
        js.publish(f"{name}.rare", b"1")
        query.processAllAvailable()
        assert sum(each.numInputRows for each in query.recentProgress) == 1
    finally:
        query.stop()


@promise("messages for which a micro-batch waits")
@limited
def test_a_micro_batch_waits_for_enough(js: JetStream, stream: Made, copying: Copying) -> None:
    name = stream(10)
    reading = copying.read(name, minOffsetsPerTrigger="15", maxTriggerDelay="1h")
    query = started(reading.writeStream.format("noop").option("checkpointLocation", copying.checkpoint))
    try:
        query.processAllAvailable()
        assert sum(each.numInputRows for each in query.recentProgress) == 0
        fill(js, name, 11, 15)
        query.processAllAvailable()
        assert sum(each.numInputRows for each in query.recentProgress) == 15
    finally:
        query.stop()


@promise("**Apache Spark** reads, streams and writes JetStream")
@promise("the same rows, except those deleted meanwhile")
@promise("An offset has the sequence to read next")
def test_restarts_at_random_moments(js: JetStream, server: NatsServer, stream: Made, copying: Copying) -> None:
    """A query is stopped wherever it is, and what its tasks do meanwhile changes nothing: the copy is the stream.

    ``clusters`` has ten restarts, with drivers that are killed.
    """
    origin, target = stream(), stream()
    random = Random(6)
    rows = copying.read(origin, maxOffsetsPerTrigger="150", minPartitions="2")
    writer = rows.selectExpr(f"concat('{target}.', seq % 7) subject", "data").writeStream.format("jetstream")
    writer = writer.options(servers=server.url, stream=target, delivery="atomic", markerSubject=target)
    writer = writer.option("checkpointLocation", copying.checkpoint)
    last = 0
    for moment in [*(random.random() for _ in range(RESTARTS)), None]:
        first, last = last + 1, last + random.randint(100, 500)
        fill(js, origin, first, last)
        early = moment is not None and moment < 0.2
        query: Any = writer.start() if early else started(writer)
        try:
            if moment is None:
                query.processAllAvailable()
            else:
                query.awaitTermination(moment / 2)
        finally:
            query.stop()
    assert data_of(js, target) == Counter(range(1, last + 1))


@promise("An offset has the sequence to read next")
def test_the_first_micro_batch_comes_again(nc: Connection, stream: Made, copying: Copying) -> None:
    """A query fails in it, its stream drops the front meanwhile, and the query is started again."""
    name = stream(100)

    def dies(rows: DataFrame, batch: int) -> None:
        raise RuntimeError(f"micro-batch {batch} dies")

    writer = copying.read(name).writeStream.foreachBatch(dies).option("checkpointLocation", copying.checkpoint)
    with pytest.raises(StreamingQueryException, match="micro-batch 0 dies"):
        started(writer.trigger(availableNow=True)).awaitTermination()
    nc.request(f"$JS.API.STREAM.PURGE.{name}", b'{"seq": 51}')
    fill(nc.jetstream(), name, 101, 120)
    with pytest.raises(StreamingQueryException, match=f"DataLossError: stream {name} begins at sequence 51, but 1 was"):
        copying.run(name)
    copying.run(name, failOnDataLoss="false")
    assert copying.rows() == [*range(51, 121)]


@promise("every row once, however late it is repeated")
@promise("With `atomic` a checkpoint that is older than the target fails before a row is stored.")
@pytest.mark.parametrize("named", [True, False])
def test_a_checkpoint_that_is_older_than_the_target(
    js: JetStream, server: NatsServer, stream: Made, copying: Copying, tmp_path: Path, named: bool
) -> None:
    """A backup of it comes back. Its next micro-batch has another range than what was stored under its number."""
    origin, target = stream(), stream()
    columns = [f"concat('{target}.', seq % 7) subject", "data", *(["origin"] if named else [])]

    def run(day: int) -> None:
        fill(js, origin, day * 100 + 1, day * 100 + 100)
        rows = copying.read(origin, minPartitions="1", includeOrigin=str(named).lower()).selectExpr(*columns)
        writer = rows.writeStream.format("jetstream").option("checkpointLocation", copying.checkpoint)
        writer = writer.options(servers=server.url, stream=target, delivery="atomic", markerSubject=target)
        started(writer.trigger(availableNow=True)).awaitTermination()

    run(0)
    shutil.copytree(copying.checkpoint, tmp_path / "backup")
    run(1)
    run(2)
    shutil.rmtree(copying.checkpoint)
    shutil.copytree(tmp_path / "backup", copying.checkpoint)
    with pytest.raises(
        StreamingQueryException, match=r"WriteError: stream \w+: rows of .*: the stream has micro-batch 2 of this query"
    ):
        run(3)
    assert data_of(js, target) == Counter(range(1, 301))
    marker = js.get_last_msg(target, f"{target}.$spark.*.0")
    assert ("runs" in json.loads(marker.data)) is named  # one task of Spark reads and writes


@promise("What the stream has dropped before it was read ends the query with `DataLossError`.")
def test_a_purge_between_two_runs(nc: Connection, stream: Made, copying: Copying) -> None:
    name = stream(100)
    copying.run(name)
    fill(nc.jetstream(), name, 101, 200)
    nc.request(f"$JS.API.STREAM.PURGE.{name}", b'{"seq": 151}')
    with pytest.raises(StreamingQueryException, match=f"DataLossError: stream {name} begins at sequence 151, but 101"):
        copying.run(name)
    copying.run(name, failOnDataLoss="false")
    assert copying.rows() == [*range(1, 101), *range(151, 201)]


@promise("What the stream has dropped before it was read ends the query with `DataLossError`.")
def test_a_stream_made_anew(js: JetStream, stream: Made, copying: Copying) -> None:
    """The numbers would fit, and the messages are others."""
    name = stream(100)
    copying.run(name)
    config = js.stream_info(name).config
    recreate_stream(js, config)
    fill(js, name, 1_001, 1_200)
    with pytest.raises(
        StreamingQueryException, match=f"DataLossError: stream {name} was made anew: the offset is of 2"
    ):
        copying.run(name)
    copying.run(name, failOnDataLoss="false", maxOffsetsPerTrigger="150")
    assert copying.rows() == [*range(1, 101), *range(1_001, 1_201)]


def test_a_checkpoint_of_another_source(stream: Made, copying: Copying) -> None:
    name = stream(10)
    copying.run(name)
    offsets = Path(copying.checkpoint, "offsets", "0")
    lines = offsets.read_text().splitlines()
    offsets.write_text("\n".join([*lines[:-1], '{"topic":{"0":7}}']))
    Path(copying.checkpoint, "commits", "0").unlink()
    for crc in Path(copying.checkpoint).rglob(".*.crc"):
        crc.unlink()
    with pytest.raises(StreamingQueryException, match="OptionError: the checkpoint has offsets of another source"):
        copying.run(name)
