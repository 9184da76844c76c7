"""What the runs show: a table for each job, what a row costs however many there are, and the goals."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.bench.report import aligned

JOBS: Final = {"read": "reading by Direct Get", "write": "writing by fast ingest"}
CALIBRATION: Final = "calibration"  # the job that is none: a fixed loop, which says how fast the machine is meanwhile
CONTENDERS: Final = {"plain": "the library alone", "spark": "Spark", "tuples": "Spark, row tuples"}

RATE: Final = {"read": 0.8, "write": 0.85}  # times that of the library alone, at least
PYTHON: Final = {"read": 2.2, "write": 1.5}  # CPU seconds for a million rows, at most
CHEAPER: Final = 2.5  # times less Python than with row tuples, at least
FLAT: Final = 1.3  # between the cheapest row and the dearest, at most
MEMORY: Final = 400.0  # MB of a worker, at most
MILLION: Final = 1_000_000
_HEADS: Final = ("rows/s", "seconds", "python", "JVM", "server", "worker MB")
_WIDTHS: Final = (10, 9, 8, 8, 8, 11)


@dataclass(frozen=True)
class Measured:
    """One run, or the medians of several: seconds by the clock, CPU seconds by kind of process, and MB of memory."""

    job: str
    contender: str
    rows: int
    seconds: float
    python: float
    jvm: float
    server: float
    peak: float  # of the Python process that needed most

    @property
    def rate(self) -> float:
        """Rows in a second."""
        return self.rows / self.seconds

    def per_million(self, seconds: float) -> float:
        """``seconds`` of this run, for each million rows."""
        return seconds * MILLION / self.rows


@dataclass(frozen=True)
class Goal:
    """What was promised, and what was reached. None when it was not measured."""

    text: str
    limit: float
    reached: float | None
    at_least: bool

    @property
    def holds(self) -> bool:
        return self.reached is not None and (
            self.reached >= self.limit if self.at_least else self.reached <= self.limit
        )

    def __str__(self) -> str:
        bound = "at least" if self.at_least else "at most"
        reached = "not measured" if self.reached is None else f"{self.reached:.2f}"
        return f"  {'yes' if self.holds else 'no':4}{self.text}: {bound} {self.limit:g}: {reached}"


Found = Mapping[tuple[str, str, int], Measured]


def medians(runs: Sequence[Measured]) -> dict[tuple[str, str, int], Measured]:
    """The runs of one job by one contender with as many rows, as one. Of memory it has the most."""
    same: dict[tuple[str, str, int], list[Measured]] = {}
    for run in runs:
        same.setdefault((run.job, run.contender, run.rows), []).append(run)
    return {
        key: Measured(
            *key,
            seconds=median(run.seconds for run in each),
            python=median(run.python for run in each),
            jvm=median(run.jvm for run in each),
            server=median(run.server for run in each),
            peak=max(run.peak for run in each),
        )
        for key, each in same.items()
    }


def lines(runs: Sequence[Measured], rows: int, size: int, small: int) -> Iterator[str]:
    """The whole report: of ``rows`` of ``size`` bytes, and of jobs of ``small`` rows."""
    found = medians(runs)
    yield f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    loops = sorted(run.python / run.rows * MILLION for run in runs if run.job == CALIBRATION)
    if loops:
        span = f"{median(loops):.3f} us, {loops[0]:.3f} to {loops[-1]:.3f}"
        yield f"a pass of the calibration loop: {span}; compare figures only where it says the same"
    for job, title in JOBS.items():
        yield ""
        yield f"{title}: {rows:,} messages of {size} B; CPU seconds for each million"
        yield f"  {'':20}" + aligned(_HEADS, _WIDTHS)
        for contender, name in CONTENDERS.items():
            run = found.get((job, contender, rows))
            if run is not None:
                yield f"  {name:20}" + aligned(cells(run), _WIDTHS)
        tiny = found.get((job, "spark", small))
        if tiny is not None:
            cost = f"python {tiny.python:.2f}, JVM {tiny.jvm:.2f}, server {tiny.server:.2f}"
            yield f"  of that each job, however few its rows: {tiny.seconds:.2f} s, CPU seconds: {cost}"
    for job, title in JOBS.items():
        yield ""
        yield f"{title}: Spark by number of rows; CPU seconds for each million beyond what a job costs"
        yield f"  {'rows':>20}" + aligned(_HEADS, _WIDTHS)
        for run in sizes(found, job, small):
            yield f"  {run.rows:>20,}" + aligned(cells(run), _WIDTHS)
    yield ""
    yield "goals"
    yield from map(str, goals(found, rows, small))


def cells(run: Measured) -> list[str]:
    """One line of a table."""
    cpu = [f"{run.per_million(spent):.2f}" for spent in (run.python, run.jvm, run.server)]
    return [f"{run.rate:,.0f}", f"{run.seconds:.2f}", *cpu, f"{run.peak:.0f}"]


def sizes(found: Found, job: str, small: int) -> list[Measured]:
    """Spark's runs by number of rows, less what a job costs before its first row."""
    tiny = found.get((job, "spark", small))
    if tiny is None:
        return []
    runs = sorted((run for key, run in found.items() if key[:2] == (job, "spark")), key=lambda run: run.rows)
    return [
        Measured(
            run.job, run.contender, run.rows, run.seconds - tiny.seconds, run.python - tiny.python, run.jvm - tiny.jvm,
            run.server - tiny.server, run.peak,
        )
        for run in runs
        if run.rows != small
    ]  # fmt: skip


def goals(found: Found, rows: int, small: int) -> Iterator[Goal]:
    """All of them, in the order of the jobs."""
    for job, verb in (("read", "a read"), ("write", "a write")):
        plain, spark, tuples = (found.get((job, contender, rows)) for contender in CONTENDERS)
        rate = spark.rate / plain.rate if spark is not None and plain is not None else None
        yield Goal(f"rate of {verb} by Spark against the library alone", RATE[job], rate, True)
        python = spark.per_million(spark.python) if spark is not None else None
        yield Goal(f"Python CPU seconds for a million rows of {verb}", PYTHON[job], python, False)
        cheaper = tuples.python / spark.python if spark is not None and tuples is not None else None
        yield Goal(f"{verb} cheaper in Python CPU than with row tuples", CHEAPER, cheaper, True)
        each = [run.per_million(run.python) for run in sizes(found, job, small)]
        span = f" from {min(all_rows):,} to {max(all_rows):,}" if (all_rows := rows_of(found, job, small)) else ""
        flat = max(each) / min(each) if len(each) > 1 and min(each) > 0 else None
        yield Goal(f"Python CPU for each row of {verb}{span}, dearest against cheapest", FLAT, flat, False)
        peaks = [run.peak for key, run in found.items() if key[:2] == (job, "spark")]
        yield Goal(f"MB of a worker in {verb}", MEMORY, max(peaks, default=None), False)


def rows_of(found: Found, job: str, small: int) -> list[int]:
    """How many rows Spark's runs had."""
    return [run.rows for run in sizes(found, job, small)]
