"""Read a stream that grows, by one streaming query with two tasks, and watch the memory of Spark's Python processes.

    python -m tests.spark.soak_reading [--minutes N] [--rows N] [--size BYTES]

A thread publishes ahead of the query, and the stream drops what is far behind it. Each micro-batch must begin where
the one before it ended, and have each of its rows. A line for each says how far the query has come, and the most
memory that each Python process needed meanwhile: the two workers, the query's planner, and Spark's daemon.

The verdict: no row is missing, and the largest process needs at most a tenth more in the last half than in the first,
whose first micro-batch is left out. The exit status is 0 when that holds, else 1.

The end interrupts a micro-batch. Spark tells that on stderr (BrokenPipeError), and it counts for nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from itertools import count
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.bench.spark.processes import descendants, forget_peak, peak, processes

STREAM: Final = "GROWING"
CHUNK: Final = 50_000  # rows of a fast-ingest batch
AHEAD: Final = 3  # micro-batches that are published ahead of the query
GROWTH: Final = 1.1


class Reading:
    """What the query has read. Attributes: ``rows``, ``peaks`` (MB of the largest process, by micro-batch)."""

    def __init__(self, jvm: int, size: int) -> None:
        self.rows = 0
        self.peaks: list[float] = []
        self.violations: list[str] = []
        self._jvm = jvm
        self._size = size
        self._begun = monotonic()

    def take(self, frame: Any, number: int) -> None:
        """A micro-batch, for ``foreachBatch``."""
        found = frame.selectExpr("count(*)", "sum(length(data))", "min(seq)", "max(seq)").head()
        rows = found[0]
        if tuple(found) != (rows, rows * self._size, self.rows + 1, self.rows + rows):
            self.violations.append(f"micro-batch {number}: {tuple(found)} after {self.rows:,} rows")
        self.rows += rows
        pids = sorted(process.pid for process in descendants(self._jvm, processes()))
        each = sorted((peak([pid]) for pid in pids), reverse=True)
        forget_peak(pids)
        self.peaks.append(max(each, default=0.0))
        seconds = monotonic() - self._begun
        sizes = " ".join(f"{size:.0f}" for size in each if size)
        print(f"{seconds:6.0f} s {self.rows:12,} rows {self.rows / seconds:8,.0f}/s   MB: {sizes}", flush=True)


def growth(peaks: Sequence[float]) -> float:
    """How many times the memory of the first half the last half needs, without the first micro-batch, which imports."""
    warm = peaks[1:]
    if len(warm) < 2:
        return 1.0
    half = len(warm) // 2
    return max(warm[half:]) / max(warm[:half])


def run(minutes: float, rows: int, size: int) -> Reading:
    """Read for so long, ``rows`` in a micro-batch."""
    from pyspark.sql import SparkSession

    from pyspark_jetstream import register

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with NatsServer() as server, connect(server.url) as nc:
        js, ended = nc.jetstream(), Event()
        js.create_stream(
            STREAM, subjects=["growing.*"], allow_direct=True, allow_batched=True, max_msgs=2 * AHEAD * rows
        )
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        register(spark)
        jvm: Any = spark._jvm
        reading = Reading(int(jvm.java.lang.ProcessHandle.current().pid()), size)

        def publish() -> None:
            for number in count():
                while number * CHUNK > reading.rows + AHEAD * rows:
                    if ended.wait(0.05):
                        return
                if ended.is_set():
                    return
                with js.fast_publisher() as batch:
                    batch.publish_many((f"growing.{n % 10}", bytes(size)) for n in range(CHUNK))
                    batch.commit()

        publisher = Thread(target=publish)
        publisher.start()
        options = {"servers": server.url, "stream": STREAM, "startingOffsets": "earliest", "minPartitions": "2"}
        names = ("minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxRecordsPerPartition")
        limits = dict.fromkeys(names, str(rows))
        try:
            read = spark.readStream.format("jetstream").options(**options, **limits).load()
            query = read.writeStream.foreachBatch(reading.take).start()
            query.awaitTermination(int(60 * minutes))
            query.stop()
        finally:
            ended.set()
            publisher.join()
            spark.stop()
    return reading


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.soak_reading")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a micro-batch")
    parser.add_argument("--size", type=int, default=128, help="bytes of a row")
    options = parser.parse_args(arguments)
    reading = run(options.minutes, options.rows, options.size)
    for violation in reading.violations:
        print(f"VIOLATION {violation}")
    grown = growth(reading.peaks)
    print(f"{reading.rows:,} rows; the last half needed {grown:.2f} times the memory of the first")
    failed = bool(reading.violations) or not reading.rows or grown > GROWTH
    print("FAILED" if failed else "each row came once, in flat memory: passed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
