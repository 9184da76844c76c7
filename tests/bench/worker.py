"""One process that does one job with one client: ``python -m tests.bench.worker JOB CLIENT URL STREAM COUNT SIZE``.

Prints what it measured as one line of JSON, the fields of ``task.Sample``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tests.bench.table import JOBS
from tests.bench.task import Task


def main(job: str, client: str, url: str, stream: str, count: str, size: str) -> None:
    task = Task(url, stream, int(count), int(size))
    JOBS[job].clients[client](task)
    if task.sample is None:
        raise SystemExit(f"{client} has left {job} before its end")
    print(json.dumps(asdict(task.sample)))


if __name__ == "__main__":
    main(*sys.argv[1:])
