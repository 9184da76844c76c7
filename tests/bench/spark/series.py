"""The runs: one nats-server, one Spark in local mode, and each contender in its turn.

Rules: as of ``tests.bench.series``: a run counts only when nothing was lost, and anything else is a BenchError.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from jsproto_io import sync
from jsproto_io.nats_server import NatsServer
from pyspark_jetstream import JetStreamDataSource
from tests.bench.core import calibration
from tests.bench.series import BenchError, rotated
from tests.bench.spark import processes, tuples
from tests.bench.spark.plain import SUBJECTS
from tests.bench.spark.processes import Spent
from tests.bench.spark.report import CALIBRATION, CONTENDERS, JOBS, Measured
from tests.bench.task import FLOW, WARM_UP_STREAM, Sample, subject_of

PARALLEL: Final = 2  # tasks at a time
STORED: Final = "STORED"
SMALL: Final = 1  # rows of the job that shows what a job costs before its first row
WARM: Final = 4  # runs of each kind that are not measured: while they are new to it a JVM spends its time compiling
JOBS_AT_ONCE: Final = 10  # of one row: the system counts CPU in hundredths of a second, and such a job takes few
PASSES: Final = 1_000_000  # of the calibration loop
RUN_WITHIN: Final = 600.0  # seconds
_FORMATS: Final = {"spark": JetStreamDataSource.name(), "tuples": tuples.NAME}


@dataclass(frozen=True)
class Plan:
    """What to run: ``rounds`` of ``rows`` by each contender, then ``sizes`` by Spark alone."""

    rows: int
    size: int
    rounds: int
    sizes: tuple[int, ...]
    tuples: bool = True

    @property
    def most(self) -> int:
        """Rows in the stream that is read."""
        return max((self.rows, *self.sizes))


def runs_of(plan: Plan, tell: Callable[[str], None]) -> list[Measured]:
    """Run the plan."""
    with NatsServer() as server, sync.connect(server.url) as nc, _spark() as spark:
        bench = _Bench(server, nc.jetstream(), spark, plan.size)
        tell(f"filling a stream with {plan.most:,} messages")
        bench.fill(plan.most)
        tell("warming up")
        contenders = [name for name in CONTENDERS if plan.tuples or name != "tuples"]
        for name in contenders:
            if name != "plain":
                for job in [*JOBS] * WARM:
                    bench.measured(job, name, plan.rows)
        found = []
        for number in range(plan.rounds):
            tell(f"round {number + 1} of {plan.rounds}")
            for job in JOBS:
                found.append(calibrated(plan.size))
                found += [bench.measured(job, name, plan.rows) for name in rotated(contenders, number)]
                found += [bench.measured(job, name, SMALL, JOBS_AT_ONCE) for name in contenders if name != "plain"]
        for rows in plan.sizes:
            if rows != plan.rows:
                tell(f"{rows:,} rows")
                for _ in range(plan.rounds if rows < plan.rows else 1):
                    found += [bench.measured(job, "spark", rows, max(1, plan.rows // rows)) for job in JOBS]
        return found


def calibrated(size: int) -> Measured:
    """How fast this machine is just now."""
    loop = calibration(PASSES, size)
    before, started = time.process_time(), time.perf_counter()
    loop()
    seconds, cpu = time.perf_counter() - started, time.process_time() - before
    return Measured(CALIBRATION, "python", PASSES, seconds, cpu, 0.0, 0.0, 0.0)


@contextmanager
def _spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    spark = (
        SparkSession.builder.master(f"local[{PARALLEL}]")
        .appName("tests.bench.spark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    try:
        spark.sparkContext.setLogLevel("ERROR")
        for source in (JetStreamDataSource, tuples.TuplesSource):
            spark.dataSource.register(source)
        yield spark
    finally:
        spark.stop()


class _Bench:
    """Server and Spark, and what is done with them."""

    def __init__(self, server: NatsServer, js: sync.JetStream, spark: SparkSession, size: int) -> None:
        self._server = server
        self._js = js
        self._spark = spark
        self._size = size
        jvm: Any = spark._jvm
        self._jvm = int(jvm.java.lang.ProcessHandle.current().pid())

    def fill(self, rows: int) -> None:
        """Make the streams that are read."""
        for stream, count in ((STORED, rows), (WARM_UP_STREAM, 10_000)):
            self._create(stream)
            subjects = [f"{subject_of(stream)}.{number}" for number in range(SUBJECTS)]
            payload = bytes(self._size)
            with self._js.fast_publisher() as batch:
                batch.publish_many((subjects[number % SUBJECTS], payload) for number in range(count))
                batch.commit()

    def measured(self, job: str, name: str, rows: int, times: int = 1) -> Measured:
        """One run, checked. With ``times``, so many in a row, and what each of them took on average."""
        stream = STORED if job == "read" else "DATA"
        if job == "write":
            self._create(stream)
        found = self._plain(job, stream, rows) if name == "plain" else self._by_spark(job, name, rows, times)
        if job == "write":
            stored = self._js.stream_info(stream).state.messages
            self._js.delete_stream(stream)
            if stored != rows * times:
                raise BenchError(f"{name}: {stored} of {rows * times} messages are stored")
        return found

    def _create(self, stream: str) -> None:
        self._js.create_stream(stream, subjects=[f"{subject_of(stream)}.*"], allow_batched=True, allow_direct=True)

    def _plain(self, job: str, stream: str, rows: int) -> Measured:
        command = [
            sys.executable, "-m", "tests.bench.spark.plain", job, self._server.url, stream, str(rows), str(self._size),
            str(self._server.pid),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_WITHIN, check=False)
        if done.returncode:
            raise BenchError(f"plain {job} failed:\n{done.stderr}")
        found = json.loads(done.stdout)
        sample = Sample(**found["sample"])
        if job == "read" and (sample.received, sample.received_bytes) != (rows, rows * self._size):
            raise BenchError(f"plain: {sample.received} of {rows} messages were read")
        return Measured(job, "plain", rows, sample.elapsed, sample.cpu, 0.0, found["server"], found["peak"])

    def _by_spark(self, job: str, name: str, rows: int, times: int) -> Measured:
        run = self._read if job == "read" else self._write
        processes.forget_peak(self._workers())
        before, started = self._spent(), time.perf_counter()
        for _ in range(times):
            run(_FORMATS[name], rows)
        seconds, spent = time.perf_counter() - started, self._spent() - before
        peak = processes.peak(self._workers())
        python, jvm, server = (cpu / times for cpu in (spent.python, spent.jvm, spent.server))
        return Measured(job, name, rows, seconds / times, python, jvm, server, peak)

    def _spent(self) -> Spent:
        return processes.spent(os.getpid(), self._jvm, self._server.pid, processes.processes())

    def _workers(self) -> list[int]:
        return [process.pid for process in processes.descendants(self._jvm, processes.processes())]

    def _read(self, source: str, rows: int) -> None:
        """All five columns get to the JVM, which then looks at two of them."""
        options = {"servers": self._server.url, "stream": STORED, "endingOffsets": json.dumps({STORED: rows + 1})}
        frame = self._spark.read.format(source).options(**options).load()
        found = frame.agg(f.count("*"), f.sum(f.length("data")), f.min("seq"), f.max("seq")).collect()[0]
        if tuple(found) != (rows, rows * self._size, 1, rows):
            raise BenchError(f"{source}: {found} of {rows} messages were read")

    def _write(self, source: str, rows: int) -> None:
        """From numbers that the JVM makes up, in as many partitions as there are tasks at a time."""
        options: dict[str, Any] = {"servers": self._server.url, "stream": "DATA", "flow": FLOW}
        self._made(rows).write.format(source).options(**options).mode("append").save()

    def _made(self, rows: int) -> DataFrame:
        subject = f.concat(f.lit(f"{subject_of('DATA')}."), (f.col("id") % SUBJECTS).cast("string"))
        numbers = self._spark.range(0, rows, 1, PARALLEL)
        return numbers.select(subject.alias("subject"), f.lit(bytes(self._size)).alias("data"))
