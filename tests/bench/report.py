"""What a series shows: tables with ratios, and the goals, met or missed."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from typing import Final

from tests.bench.series import ResultRow, installed
from tests.bench.table import (
    CORE_GOALS,
    COST_GOALS,
    DISTRIBUTIONS,
    GOALS,
    JOBS,
    PEERS,
    SUM_GOALS,
    CostGoal,
    Goal,
    SumGoal,
)

WIDTH: Final = 22  # of a client's or a job's name


def lines(rows: Sequence[ResultRow]) -> Iterator[str]:
    """The whole report."""
    found = {(row.job, row.client): row for row in rows}
    python = f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}"
    yield f"{python}, {platform.system()} {platform.machine()}"
    yield "A ratio is how many times less CPU for each message, then how many times the rate."
    for client, distribution in DISTRIBUTIONS.items():
        if not installed(client):
            yield f"{client}: not installed ({distribution})"
    for job in JOBS:
        if any(row.job == job for row in rows):
            yield from job_lines(job, found)
    yield from core_lines(rows)
    yield ""
    yield "goals"
    for goal in GOALS:
        yield goal_line(goal, found)
    for cost in COST_GOALS:
        yield cost_line(cost, found)
    for total in SUM_GOALS:
        yield sum_line(total, found)
    for limit in CORE_GOALS:
        taken = next((row.cpu_us_per_msg for row in rows if row.job == limit.job), None)
        verdict = "not measured" if taken is None else "met" if taken < limit.limit else "missed"
        shown = "" if taken is None else f": {taken:.2f} us"
        yield f"  {verdict:12} {limit.job} under {limit.limit} us{shown}"


def job_lines(job: str, found: dict[tuple[str, str], ResultRow]) -> Iterator[str]:
    """One job as a table. Each ratio is how many times less CPU, and how many times the rate."""
    mine = [row for row in found.values() if row.job == job]
    others = [*JOBS[job].against, *((job, peer) for peer in PEERS)]
    columns = [found[key] for key in others if key in found]
    yield ""
    yield f"{job}: {JOBS[job].title}, {mine[0].size} B"
    heads = [f"vs {row.client}" if row.job == job else f"vs {row.client} ({row.job})" for row in columns]
    widths = [max(len(head), 12) + 2 for head in heads]
    yield f"  {'client':{WIDTH}}{'CPU us/msg':>11}{'msgs/s':>11}" + aligned(heads, widths)
    for row in sorted(mine, key=lambda row: list(JOBS[job].clients).index(row.client)):
        ratios = ["-" if row is other else f"{ratio('cpu', row, other):.1f}x {ratio('rate', row, other):.1f}x"
                  for other in columns]  # fmt: skip
        yield f"  {row.client:{WIDTH}}{row.cpu_us_per_msg:>11.2f}{row.msgs_per_s:>11,}" + aligned(ratios, widths)


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def core_lines(rows: Sequence[ResultRow]) -> Iterator[str]:
    """The core alone, beside the calibration loop."""
    loop = next((row for row in rows if row.job == "calibration"), None)
    if loop is None:
        return
    yield ""
    yield f"the core alone, no socket, {loop.size} B (a pass of the calibration loop: {loop.cpu_us_per_msg:.3f} us)"
    yield f"  {'job':{WIDTH}}{'CPU us/msg':>11}{'passes':>11}"
    for row in rows:
        if row.job.startswith("core-"):
            passes = row.cpu_us_per_msg / loop.cpu_us_per_msg
            yield f"  {row.job:{WIDTH}}{row.cpu_us_per_msg:>11.2f}{passes:>11.1f}"


def ratio(measure: str, row: ResultRow, other: ResultRow) -> float:
    """How many times better ``row`` is than ``other``: less CPU, or a higher rate."""
    if measure == "cpu":
        return other.cpu_us_per_msg / row.cpu_us_per_msg
    return row.msgs_per_s / other.msgs_per_s


def goal_line(goal: Goal, found: dict[tuple[str, str], ResultRow]) -> str:
    """A goal, and whether it was met."""
    text = f"{' '.join(goal.ours)} against {' '.join(goal.theirs)}, {goal.measure}: at least {goal.factor:g}x"
    if goal.ours not in found or goal.theirs not in found:
        return f"  {'not measured':12} {text}"
    reached = ratio(goal.measure, found[goal.ours], found[goal.theirs])
    return f"  {'met' if reached >= goal.factor else 'missed':12} {text}: {reached:.1f}x"


def cost_line(goal: CostGoal, found: dict[tuple[str, str], ResultRow]) -> str:
    """A goal for the CPU of a row, and whether it was met."""
    text = f"{' '.join(goal.ours)}, cpu: at most {goal.most:g} times {' '.join(goal.theirs)}"
    if not {goal.ours, goal.theirs} <= found.keys():
        return f"  {'not measured':12} {text}"
    taken = found[goal.ours].cpu_us_per_msg / found[goal.theirs].cpu_us_per_msg
    return f"  {'met' if taken <= goal.most else 'missed':12} {text}: {taken:.2f}"


def sum_line(goal: SumGoal, found: dict[tuple[str, str], ResultRow]) -> str:
    """A goal for the sum of several rows, and whether it was met."""
    parts = " and ".join(" ".join(part) for part in goal.parts)
    text = f"{' '.join(goal.ours)}, cpu: at most {parts} together"
    if not {goal.ours, *goal.parts} <= found.keys():
        return f"  {'not measured':12} {text}"
    taken, most = found[goal.ours].cpu_us_per_msg, sum(found[part].cpu_us_per_msg for part in goal.parts)
    return f"  {'met' if taken <= most else 'missed':12} {text}: {taken:.2f} of {most:.2f} us"
