"""20,000 rows from one stream into another, by a streaming query that has faults.

Not here: the faults (``failing``), what must be stored then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.spark.conftest import data_of, fill, started
from tests.spark.failing import ROW, Failing

ROWS: Final = 20_000
CHUNK: Final = 100  # rows of an Arrow batch: by default a task would store all of its rows at once
SOON: Final = 0.05  # seconds


def copy_with_faults(
    spark: SparkSession,
    server: NatsServer,
    origin: str,
    target: str,
    delivery: str,
    folder: Path,
    faults: str,
    batches: int,
) -> Counter[int]:
    """How often each row is stored in the end. Each micro-batch has two partitions. ``faults``: see Failing."""
    a_batch = ROWS // batches
    spark.dataSource.register(Failing)
    seen = folder / "seen"
    seen.mkdir()
    read = spark.readStream.format("jetstream").options(servers=server.url, minPartitions="2")
    read = read.option("startingOffsets", "earliest").option("minOffsetsPerTrigger", str(a_batch))
    rows = read.option("includeOrigin", "true").load(origin)
    rows = rows.selectExpr(f"concat('{target}.', seq % 7) subject", "data", "origin")
    writer = rows.writeStream.format("failing").options(servers=server.url, stream=target, delivery=delivery)
    writer = writer.options(markerSubject=target, faults=faults, seen=str(seen))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    with small_chunks(spark), restarting(server, seen):
        query: Any = None
        try:
            for batch in range(batches):
                with connect(server.url) as nc:
                    fill(nc.jetstream(), origin, batch * a_batch + 1, (batch + 1) * a_batch)
                query = query or started(writer)  # with something to read: else the first micro-batch may be empty
                if f"commit@{batch}" in faults.split():
                    with pytest.raises(StreamingQueryException, match="the driver dies between the write and its"):
                        query.processAllAvailable()
                    query = started(writer)
                query.processAllAvailable()
        finally:
            if query is not None:
                query.stop()
    happened = {path.name for path in seen.iterdir()} - {"restarted"}
    assert happened == {fault.partition("@")[0] for fault in faults.split()}
    with connect(server.url) as nc:
        return data_of(nc.jetstream(), target)


def check_copies(stored: Counter[int], delivery: str, faults: str, batches: int) -> int:
    """Each row is there, and as often as ``delivery`` promises. How many are there more often than once."""
    assert sorted(stored) == [*range(1, ROWS + 1)]
    twice = stored.total() - ROWS
    if delivery != "fast":
        assert twice == 0
    elif "commit" in faults:  # all of that micro-batch, and what a failed task had stored
        a_batch = ROWS // batches
        assert a_batch <= twice <= a_batch + faults.count("@") * (ROW + 2 * CHUNK)
    return twice


@contextmanager
def small_chunks(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, CHUNK)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


@contextmanager
def restarting(server: NatsServer, seen: Path) -> Iterator[None]:
    """The server is killed, and started again, when a task waits for that."""
    over = Event()

    def restart() -> None:
        while not (seen / "server").exists():
            if over.wait(SOON):
                return
        server.kill()
        server.start()
        (seen / "restarted").touch()

    thread = Thread(target=restart)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
