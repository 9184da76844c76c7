"""``python -m tests.bench.spark``: see the package's text. Exit status: 0 however slow it is, 1 when a run failed."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from jsproto_io.nats_server import NatsServerError
from tests.bench.series import BenchError
from tests.bench.spark import report
from tests.bench.spark.series import SMALL, Plan, runs_of


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.spark", description="Measure the Spark source and sink of jsproto."
    )
    parser.add_argument("--quick", action="store_true", help="100,000 rows, one round, no other sizes")
    parser.add_argument("--rows", type=int, metavar="N", help="rows of each run (1,000,000)")
    parser.add_argument("--size", type=int, default=100, metavar="BYTES", help="payload of each row (100)")
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each contender (5)")
    parser.add_argument(
        "--sizes", metavar="N,N", help="numbers of rows by Spark alone (100000,5000000); nothing for none"
    )
    parser.add_argument("--no-tuples", action="store_true", help="without the yardstick")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the runs to FILE")
    given = parser.parse_args(arguments)
    rows = given.rows or (100_000 if given.quick else 1_000_000)
    rounds = given.rounds or (1 if given.quick else 5)
    sizes = given.sizes if given.sizes is not None else "" if given.quick else "100000,5000000"
    plan = Plan(rows, given.size, rounds, tuple(int(each) for each in sizes.split(",") if each), not given.no_tuples)
    try:
        runs = runs_of(plan, lambda text: print(text, file=sys.stderr))
    except (BenchError, NatsServerError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print("\n".join(report.lines(runs, rows, given.size, SMALL)))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
