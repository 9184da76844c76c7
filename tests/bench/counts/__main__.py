"""``python -m tests.bench.counts``: see the package's text. Exit status: 1 when a row needs more than its bound."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.counts import bounds
from tests.bench.counts.bounds import Counts
from tests.bench.counts.rows import ROWS, Row

PROCESSES = 2


class CountError(Exception):
    """A job failed while it was counted."""


def count(rows: Sequence[Row]) -> Counts:
    """Count the rows, in processes of their own.

    Raises:
        CountError: a job failed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    environment |= {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "tests.bench.counts.worker"]
    workers = [
        subprocess.Popen(
            [*command, *(word for row in rows[number::PROCESSES] for word in row)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    outputs = [worker.communicate() for worker in workers]
    found: dict[Row, dict[str, float]] = {}
    for worker, (printed, complaint) in zip(workers, outputs, strict=True):
        if worker.returncode:
            raise CountError(complaint.strip())
        found |= {(job, client): measures for job, client, measures in json.loads(printed)}
    return {row: found[row] for row in rows}


def main(arguments: list[str] | None = None) -> int:
    jobs, clients = sorted({job for job, _ in ROWS}), sorted({client for _, client in ROWS})
    parser = argparse.ArgumentParser(prog="python -m tests.bench.counts", description="Count what a message costs.")
    parser.add_argument("--write", action="store_true", help="make what is counted the bounds of this Python")
    parser.add_argument("--job", action="append", choices=jobs, metavar="JOB", help="only this job; may be repeated")
    parser.add_argument("--client", action="append", choices=clients, help="only this client; may be repeated")
    parser.add_argument(
        "--bounds", type=Path, default=bounds.FILE, metavar="FILE", help="other bounds than the kept ones"
    )
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if row[0] in (options.job or jobs) and row[1] in (options.client or clients)]
    python = bounds.this_python()
    try:
        table = bounds.read(options.bounds)
        counts = count(rows)
        if options.write:
            bounds.write(bounds.replaced(table, counts, python, dict.fromkeys(ROWS)), options.bounds)
    except (CountError, OSError) as error:
        print(f"counts: {error}", file=sys.stderr)
        return 1
    known = {column for cells in table.values() for column in cells}
    for (job, client), measures in counts.items():
        print(f"{job:22}{client:16}" + "".join(f"{number:>10.2f} {measure}" for measure, number in measures.items()))
    if options.write:
        print(f"written for Python {python}: {options.bounds}")
        return 0
    if python not in known:
        print(f"there are no bounds for Python {python}, --write makes them")
        return 0
    found = list(bounds.findings(table, counts, python))
    for finding in found:
        print(f"{'WORSE ' if finding.is_worse else 'better'} {finding}")
    worse = sum(finding.is_worse for finding in found)
    print(f"{len(counts)} rows, {worse} measures worse than their bounds, {len(found) - worse} better")
    if found:
        print("a change that is meant to be: python -m tests.bench.counts --write, with each Python that has bounds")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
