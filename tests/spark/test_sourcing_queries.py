"""Queries that empty a work queue: what is stored, and what is left, when they are stopped, or fail."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tests.marks import promise
from tests.spark.conftest import Made, data_of, fill, started
from tests.spark.failing import Failing
from tests.spark.test_streaming import limited

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import JetStream

pytestmark = [pytest.mark.spark, limited]
RESTARTS = 2


class Drain:
    """A query from a work queue into a stream, by ``atomic``, with its checkpoint."""

    def __init__(self, spark: SparkSession, server: NatsServer, folder: Path, queue: str, target: str) -> None:
        reader = spark.readStream.format("jetstream").options(servers=server.url, minPartitions="2")
        self.rows = reader.options(readMode="sourcing", consumer="C", maxOffsetsPerTrigger="300").load(queue)
        self._options = {"servers": server.url, "stream": target, "delivery": "atomic", "markerSubject": target}
        self._options["checkpointLocation"] = str(folder / "checkpoint")
        self._target = target

    def writer(self, rows: DataFrame | None = None, form: str = "jetstream", **options: str) -> Any:
        copies = (self.rows if rows is None else rows).selectExpr(f"concat('{self._target}.', seq % 7) subject", "data")
        return copies.writeStream.format(form).options(**self._options, **options)

    def finish(self) -> None:
        """A run to the end of the queue."""
        query = started(self.writer().trigger(availableNow=True))
        query.awaitTermination()
        assert not query.isActive


@promise("Into the sink `atomic` each message is stored once.")
@promise("What a query has committed last may stay in the stream when it is stopped.")
@promise("A work queue that `mirror` has emptied by `atomic` is in the target once.")
def test_queries_stop_at_random_moments(
    spark: SparkSession, js: JetStream, server: NatsServer, stream: Made, tmp_path: Path
) -> None:
    """Each message is stored once, and goes, whatever a query was doing when it was stopped."""
    queue, target = stream(retention="workqueue"), stream()
    drain = Drain(spark, server, tmp_path, queue, target)
    random = Random(18)
    last = 0
    for moment in (random.random() for _ in range(RESTARTS)):
        first, last = last + 1, last + random.randint(150, 350)
        fill(js, queue, first, last)
        query = started(drain.writer())
        try:
            query.awaitTermination(moment)
        finally:
            query.stop()
    fill(js, queue, last + 1, last + 10)
    drain.finish()
    assert data_of(js, target) == Counter(range(1, last + 11))
    assert js.stream_info(queue).state.messages == 0


@promise("**Only what Spark has committed is acknowledged.** A task")
@promise("Into the sink `atomic` each message is stored once.")
def test_a_task_and_a_driver_die(
    spark: SparkSession, js: JetStream, server: NatsServer, stream: Made, tmp_path: Path
) -> None:
    """What is in a micro-batch stays in the queue until that is committed."""
    queue, target = stream(400, retention="workqueue"), stream()
    spark.dataSource.register(Failing)
    seen = tmp_path / "seen"
    seen.mkdir()
    died = tmp_path / "died"

    def dies_once(data: bytes) -> bytes:
        if data == b"200" and not died.exists():
            died.touch()
            raise RuntimeError("a task dies")
        return data

    drain = Drain(spark, server, tmp_path, queue, target)
    rows = drain.rows.withColumn("data", udf(dies_once, "binary", useArrow=False)("data"))
    query = started(drain.writer(rows, "failing", faults="commit@0", seen=str(seen)))
    with pytest.raises(StreamingQueryException, match="the driver dies between the write and its commit"):
        query.awaitTermination()
    assert js.stream_info(queue).state.messages == 400
    started(
        drain.writer(rows, "failing", faults="commit@0", seen=str(seen)).trigger(availableNow=True)
    ).awaitTermination()
    assert died.exists()
    assert data_of(js, target) == Counter(range(1, 401))
    assert js.stream_info(queue).state.messages == 0


@promise("A consumer has one query at a time.")
def test_a_second_query_has_to_wait(
    spark: SparkSession, js: JetStream, server: NatsServer, stream: Made, tmp_path: Path
) -> None:
    queue, target = stream(20, retention="workqueue"), stream()
    first = started(Drain(spark, server, tmp_path / "1", queue, target).writer())
    try:
        first.processAllAvailable()
        second = Drain(spark, server, tmp_path / "2", queue, target)
        second.rows = second.rows.sparkSession.readStream.format("jetstream").options(
            servers=server.url, readMode="sourcing", consumer="C", requestTimeout="300ms"
        ).load(queue)  # fmt: skip
        with pytest.raises(StreamingQueryException, match=f"SourceBusyError: consumer C of stream {queue} is sourced"):
            started(second.writer()).awaitTermination()
        fill(js, queue, 21, 30)
        first.processAllAvailable()
        while js.stream_info(queue).state.messages:  # an idle query acknowledges all
            pass
    finally:
        first.stop()
    assert data_of(js, target) == Counter(range(1, 31))
