"""The library without Spark: ``python -m tests.bench.spark.plain JOB URL STREAM COUNT SIZE SERVER``.

``SERVER`` is the process id of nats-server, whose CPU is kept as well. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from jsproto_io.sync import connect
from tests.bench.spark.processes import cpu_of, peak
from tests.bench.task import FLOW, Run, Runner, Task

SUBJECTS: Final = 1_000  # of a stream, used in turn


@dataclass
class Watched(Task):
    """``served``: what the measured run cost the server, CPU seconds."""

    server: int = 0
    served: float = 0.0

    def runs(self) -> Iterator[Run]:
        for run in super().runs():
            before = cpu_of(self.server)
            yield run
            self.served = cpu_of(self.server) - before


def read(task: Task) -> None:
    """Columns of a whole stream."""
    with connect(task.url, reader_thread=False) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for columns in js.get_batch(run.stream, batch=run.count).columns():
                assert columns.seqs[-1] - columns.seqs[0] == len(columns.seqs) - 1
                run.received += len(columns.seqs)
                run.received_bytes += sum(map(len, columns.data))


def write(task: Task) -> None:
    """One fast-ingest batch."""
    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            subjects = [f"{run.subject}.{number}" for number in range(SUBJECTS)]
            with js.fast_publisher(flow=FLOW) as batch:
                batch.publish_many((subjects[number % SUBJECTS], run.payload) for number in range(run.count))
                batch.commit()


JOBS: Final[dict[str, Runner]] = {"read": read, "write": write}


def main(job: str, url: str, stream: str, count: str, size: str, server: str) -> None:
    task = Watched(url, stream, int(count), int(size), server=int(server))
    JOBS[job](task)
    if task.sample is None:
        raise SystemExit(f"{job} ended too early")
    print(json.dumps({"sample": asdict(task.sample), "server": task.served, "peak": peak([os.getpid()])}))


if __name__ == "__main__":
    main(*sys.argv[1:])
