"""The arithmetic of the Spark benchmark; nothing of it needs Spark. How fast anything is, is not tested."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.spark import processes, report
from tests.bench.spark.processes import Process, Spent
from tests.bench.spark.report import Goal, Measured

SMALL = 1


def run(job: str = "read", contender: str = "spark", rows: int = 1_000_000, **changed: float) -> Measured:
    figures = {"seconds": 4.0, "python": 2.0, "jvm": 1.0, "server": 3.0, "peak": 120.0}
    return Measured(job, contender, rows, **{**figures, **changed})


def tiny(job: str, python: float = 0.0) -> Measured:
    return run(job, rows=SMALL, seconds=0.5, python=python, jvm=0.1, server=0.0)


def goals(*runs: Measured, rows: int = 1_000_000) -> dict[str, Goal]:
    return {goal.text: goal for goal in report.goals(report.medians(runs), rows, SMALL)}


def test_figures_are_medians_and_the_most_memory() -> None:
    runs = [run(python=python, peak=peak) for python, peak in ((3.0, 100.0), (1.0, 300.0), (2.0, 200.0))]
    assert report.medians(runs) == {("read", "spark", 1_000_000): run(python=2.0, peak=300.0)}


def test_a_rate_and_the_cost_of_a_million() -> None:
    half = run(rows=500_000, python=0.9)
    assert half.rate == 125_000
    assert half.per_million(half.python) == pytest.approx(1.8)
    assert report.cells(half) == ["125,000", "4.00", "1.80", "2.00", "6.00", "120"]


def test_what_a_job_costs_is_no_cost_of_its_rows() -> None:
    found = report.medians(
        [tiny("read", python=0.25), run(rows=100_000, python=0.5), run(rows=5_000_000, python=10.25)]
    )
    cheap, dear = report.sizes(found, "read", SMALL)
    assert [each.per_million(each.python) for each in (cheap, dear)] == [2.5, 2.0]
    assert (cheap.rows, cheap.seconds, cheap.server) == (100_000, 3.5, 3.0)
    assert report.sizes(found, "write", SMALL) == []


def test_the_goals() -> None:
    found = goals(
        tiny("read"), run(), run(rows=100_000, python=0.25), run(contender="plain", seconds=2.0),
        run(contender="tuples", python=5.0),
    )  # fmt: skip
    rate = found["rate of a read by Spark against the library alone"]
    assert (rate.reached, rate.holds) == (0.5, False)
    assert found["Python CPU seconds for a million rows of a read"].holds
    assert found["a read cheaper in Python CPU than with row tuples"].reached == 2.5
    flat = found["Python CPU for each row of a read from 100,000 to 1,000,000, dearest against cheapest"]
    assert (flat.reached, flat.holds) == (1.25, True)
    assert found["MB of a worker in a read"].holds
    assert len(found) == 10
    assert all(goal.reached is None and not goal.holds for text, goal in found.items() if "write" in text)


@pytest.mark.parametrize(
    ("goal", "line"),
    [
        (Goal("this", 0.8, 0.8, True), "  yes this: at least 0.8: 0.80"),
        (Goal("this", 0.8, 0.799, True), "  no  this: at least 0.8: 0.80"),
        (Goal("this", 2.2, 2.3, False), "  no  this: at most 2.2: 2.30"),
        (Goal("this", 2.2, None, False), "  no  this: at most 2.2: not measured"),
    ],
)
def test_a_goal_is_judged_as_it_is(goal: Goal, line: str) -> None:
    assert str(goal) == line


def test_the_report_shows_every_job_and_contender() -> None:
    runs = [run(job, contender) for job in report.JOBS for contender in report.CONTENDERS]
    text = "\n".join(report.lines([*runs, tiny("read"), tiny("write")], 1_000_000, 100, SMALL))
    for name in report.CONTENDERS.values():
        assert text.count(f"\n  {name} ") == 2
    assert text.count("each job, however few its rows: 0.50 s") == 2
    assert text.endswith(
        "\n".join(map(str, report.goals(report.medians([*runs, tiny("read"), tiny("write")]), 1_000_000, SMALL)))
    )
    assert "\n".join(report.lines([], 1_000_000, 100, SMALL)).count("not measured") == 10


def test_the_report_says_how_fast_the_machine_was() -> None:
    runs = [run(report.CALIBRATION, "python", python=python) for python in (0.25, 0.5, 0.24)]
    lines = [*report.lines(runs, 1_000_000, 100, SMALL)]
    assert lines[1].startswith("a pass of the calibration loop: 0.250 us, 0.240 to 0.500; ")
    assert "calibration" not in "\n".join(lines[2:])


# -- processes ---------------------------------------------------------------------------------------------------------


def stat(pid: int, parent: int, *ticks: int) -> str:
    return f"{pid} (a) (b c) S {parent} " + "0 " * 9 + " ".join(map(str, ticks)) + " 20 0 1 0 99\n"


def test_a_process_is_read_from_its_line() -> None:
    ticks = processes.TICKS
    assert processes.parsed(stat(7, 3, ticks, 2 * ticks, 0, ticks)) == Process(7, 3, 3.0, 1.0)


def test_time_by_kind_of_process(tmp_path: Path) -> None:
    ticks = processes.TICKS
    for pid, parent, own, ended in (
        (1, 0, 9, 9),
        (2, 1, 1, 50),
        (3, 2, 4, 2),
        (4, 3, 8, 16),
        (5, 4, 32, 0),
        (6, 1, 7, 0),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat(pid, parent, own * ticks, 0, ended * ticks, 0))
    (tmp_path / "8").mkdir()  # has just ended
    (tmp_path / "uptime").write_text("")
    found = processes.processes(tmp_path)
    assert [each.pid for each in processes.descendants(3, found)] == [4, 5]
    spent = processes.spent(2, 3, 6, found)  # driver, JVM, server
    assert spent == Spent(1 + 2 + 8 + 16 + 32, 4, 7)
    assert spent - Spent(1.0, 1.0, 1.0) == Spent(58.0, 3.0, 6.0)
    assert processes.cpu_of(5, tmp_path) == 32


def test_the_most_memory_of_several(tmp_path: Path) -> None:
    for pid, pages in ((1, 1_000), (2, 250_000)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "status").write_text(f"Name:\tpython\nVmHWM:\t{pages} kB\nVmRSS:\t1 kB\n")
    assert processes.peak([1, 2, 3], tmp_path) == 256.0
    processes.forget_peak([2, 3], tmp_path)
    assert (tmp_path / "2" / "clear_refs").read_text() == "5"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_this_process() -> None:
    assert processes.cpu_of(os.getpid()) > 0
    assert processes.peak([os.getpid()]) > 1
    assert os.getpid() in processes.processes()
