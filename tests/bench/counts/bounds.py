"""The bounds: what each row may need for a message, by measure and Python. They are kept in ``bounds.csv``.

Rules
 * A column is a minor version of Python. An empty cell says the same as the cell to its left.
 * A row is worse when it is above its bound by more than ``SLACK`` of it and by more than ``CRUMB``. One call for a
   whole run must not fail it. Blocks depend a little on where in memory objects are. All else is the same in each run.
 * A row that has become cheaper passes. ``--write`` makes its new figure the bound.
"""

from __future__ import annotations

import csv
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tests.bench.counts.rows import Row

FILE: Final = Path(__file__).with_name("bounds.csv")
SLACK: Final = {"calls": 0.01, "c_calls": 0.01, "bytecodes": 0.01, "blocks": 0.03}
CRUMB: Final = {"calls": 0.05, "c_calls": 0.05, "bytecodes": 0.5, "blocks": 0.2}

Counts: TypeAlias = Mapping[Row, Mapping[str, float]]
"""For a message, by row and measure."""
Table: TypeAlias = dict[tuple[str, str, str], dict[str, float]]
"""Bounds by Python, by job, client and measure."""


class Finding(NamedTuple):
    """A measure of a row that is not what its bound says."""

    job: str
    client: str
    measure: str
    bound: float
    counted: float

    @property
    def is_worse(self) -> bool:
        """Whether it needs more."""
        return self.counted > self.bound

    def __str__(self) -> str:
        change = self.counted - self.bound
        share = f" ({change / self.bound:+.0%})" if self.bound else ""
        counted = f"{self.counted:g} {self.measure} a message"
        return f"{self.job} {self.client}: {counted}, {change:+.2f} to its bound of {self.bound:g}{share}"


def this_python() -> str:
    """The column of the Python that runs. Implementations other than CPython have none."""
    return ".".join(platform.python_version_tuple()[:2]) if platform.python_implementation() == "CPython" else ""


def read(file: Path = FILE) -> Table:
    """The bounds that are kept, with no cell left empty."""
    table: Table = {}
    if file.exists():
        with file.open(newline="") as lines:
            for line in csv.DictReader(lines):
                pythons = [name for name in line if name not in ("job", "client", "measure")]
                last, bounds = "", {}
                for python in pythons:
                    last = line[python] or last
                    if last not in ("", "-"):
                        bounds[python] = float(last)
                table[line["job"], line["client"], line["measure"]] = bounds
    return table


def write(table: Table, file: Path = FILE) -> None:
    """Keep these bounds."""
    pythons = sorted({python for bounds in table.values() for python in bounds}, key=version)
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["job", "client", "measure", *pythons])
        for key, bounds in table.items():
            cells = [f"{bounds[python]:g}" if python in bounds else "-" for python in pythons]
            shown = [cell if at == 0 or cell != cells[at - 1] else "" for at, cell in enumerate(cells)]
            writer.writerow([*key, *shown])


def version(python: str) -> tuple[int, ...]:
    """A column's name as a number, to sort by."""
    return tuple(map(int, python.split(".")))


def replaced(table: Table, counts: Counts, python: str, rows: Mapping[Row, object]) -> Table:
    """``table`` with the bounds of one Python made anew, in the order of ``rows``. Rows that are no longer go."""
    new: Table = {}
    for job, client in rows:
        old = {key: bounds for key, bounds in table.items() if key[:2] == (job, client)}
        for measure, counted in counts.get((job, client), {}).items():
            old.setdefault((job, client, measure), {})[python] = counted
        new.update(old)
    return new


def findings(table: Table, counts: Counts, python: str) -> Iterator[Finding]:
    """Where ``counts`` are not what ``table`` says for that Python. A row without a bound is worse than none."""
    for (job, client), measures in counts.items():
        for measure, counted in measures.items():
            bound = table.get((job, client, measure), {}).get(python, 0.0)
            if abs(counted - bound) > max(SLACK[measure] * bound, CRUMB[measure]):
                yield Finding(job, client, measure, bound, counted)
