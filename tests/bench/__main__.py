"""``python -m tests.bench``: see the package's text. Exit status: 0 however slow things are, 1 when a run failed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import attrs

from jsproto_io.nats_server import NatsServerError
from tests.bench import page, report
from tests.bench.series import BenchError, Plan, core_rows, installed, rows_of
from tests.bench.table import JOBS, SIZE

CLIENTS: Final = sorted({client for job in JOBS.values() for client in job.clients})


@dataclass(frozen=True)
class Effort:
    """How much is run: ``scale`` is the share of each job's messages, ``budget`` the seconds in which rounds begin."""

    rounds: int
    scale: float
    budget: float
    core_count: int
    core_repeats: int


FULL: Final = Effort(rounds=7, scale=1.0, budget=1_800.0, core_count=30_000, core_repeats=9)
QUICK = Effort(rounds=3, scale=0.3, budget=25.0, core_count=10_000, core_repeats=5)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure jsproto beside its peers.")
    parser.add_argument("--quick", action="store_true", help="fewer messages and rounds: under a minute")
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each client (7, or 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots to FILE")
    parser.add_argument("--job", action="append", choices=list(JOBS), help="only this job; may be repeated")
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this client; may be repeated")
    options = parser.parse_args(arguments)
    effort = QUICK if options.quick else FULL
    try:
        plan = Plan(
            jobs=options.job or list(JOBS),
            clients=[client for client in options.client or CLIENTS if installed(client)],
            rounds=effort.rounds if options.rounds is None else options.rounds,
            scale=effort.scale,
            size=SIZE,
            budget=effort.budget,
        )
    except ValueError as error:
        parser.error(str(error.args[0]))
    for file in (options.json, options.html):
        if file is not None and (reason := why_not(file)):
            print(f"bench: {file} cannot be written: {reason}", file=sys.stderr)
            return 1
    if options.html is not None and find_spec("matplotlib") is None:
        print("bench: --html needs matplotlib: pip install 'jsproto[bench]'", file=sys.stderr)
        return 1
    began = datetime.now(UTC)
    try:
        rows = rows_of(plan, lambda text: print(text, file=sys.stderr))
    except (BenchError, NatsServerError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    rows += core_rows(effort.core_count, SIZE, effort.core_repeats)
    print("\n".join(report.lines(rows)))
    if options.json is not None:
        options.json.write_text(json.dumps([attrs.asdict(row) for row in rows], indent=1) + "\n")
    if options.html is not None:
        options.html.write_text(page.page(rows, began), encoding="utf-8")
    return 0


def why_not(file: Path) -> str:
    """Why a file cannot be written, which is better known before an hour of measuring than after it. Empty: it can."""
    if file.is_dir():
        return "it is a folder"
    if not file.parent.is_dir():
        return f"there is no folder {file.parent}"
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        return "no permission"
    return ""


if __name__ == "__main__":
    sys.exit(main())
