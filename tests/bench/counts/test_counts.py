"""The guard itself, and that it would notice: nothing costs more calls, bytecodes or blocks than it may."""

from __future__ import annotations

from pathlib import Path

import pytest

import jsproto
from jsproto_io.sync import FastPublisher
from tests.bench.counts import __main__ as counts
from tests.bench.counts import bounds, worker
from tests.bench.counts.bounds import Finding
from tests.bench.counts.rows import ROWS, Row
from tests.bench.table import CORE, JOBS

ROW: Row = ("fast-ingest-single", "jsproto-sync")
WASTE = """
def publish(self, *arguments, **keywords):
    for number in range(3):
        number.bit_length()
    return real(self, *arguments, **keywords)
"""


@pytest.mark.slow
def test_nothing_costs_more_than_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """When this fails, it names the rows. What is meant to be is made the bound by ``--write``."""
    status = counts.main([])
    told = capsys.readouterr()
    if "there are no bounds for Python" in told.out:
        pytest.skip(told.out.splitlines()[-1])
    assert status == 0, told.out + told.err


def test_the_rows_are_of_the_table_and_all_have_bounds() -> None:
    for job, client in ROWS:
        assert job in CORE or client in JOBS[job].clients
    table = bounds.read()
    assert {key[:2] for key in table} == set(ROWS)
    pythons = {python for cells in table.values() for python in cells}
    for job, client in ROWS:
        for python in pythons:
            assert {
                measure for *row, measure in table if row == [job, client] and python in table[job, client, measure]
            }


@pytest.mark.slow
def test_a_planted_regression_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A call more for each message, and three of C, as if the driver's own code made them."""
    file, python = tmp_path / "bounds.csv", bounds.this_python()
    before, again = worker.counted(*ROW), worker.counted(*ROW)
    assert [again[name] for name in ("calls", "c_calls")] == [before[name] for name in ("calls", "c_calls")]
    bounds.write(bounds.replaced({}, {ROW: before}, python, {ROW: None}), file)
    namespace = {"real": FastPublisher.publish}
    exec(compile(WASTE, jsproto.__file__, "exec"), namespace)
    monkeypatch.setattr(FastPublisher, "publish", namespace["publish"])
    monkeypatch.setattr(counts, "count", lambda rows: {row: worker.counted(*row) for row in rows})
    assert counts.main(["--bounds", str(file), "--job", ROW[0], "--client", ROW[1]]) == 1
    told = capsys.readouterr().out
    worse = next(line for line in told.splitlines() if line.startswith("WORSE") and " calls a message" in line)
    assert worse.startswith(f"WORSE  {ROW[0]} {ROW[1]}: ")
    assert f", +1.00 to its bound of {before['calls']:g} (+" in worse
    assert "c_calls a message, +" in told
    monkeypatch.undo()
    monkeypatch.setattr(counts, "count", lambda rows: dict.fromkeys(rows, before))
    assert counts.main(["--bounds", str(file), "--job", ROW[0], "--client", ROW[1]]) == 0


def test_a_bound_is_exceeded_by_more_than_a_crumb() -> None:
    table = {(*ROW, "calls"): {"3.12": 10.0}, (*ROW, "blocks"): {"3.12": 100.0}}
    found = {
        counted: [finding.is_worse for finding in bounds.findings(table, {ROW: {"calls": counted}}, "3.12")]
        for counted in (9.0, 9.95, 10.0, 10.1, 10.11)
    }
    assert found == {9.0: [False], 9.95: [], 10.0: [], 10.1: [], 10.11: [True]}
    assert not list(bounds.findings(table, {ROW: {"blocks": 103.0}}, "3.12"))
    (unknown,) = bounds.findings(table, {ROW: {"calls": 10.0}}, "3.13")
    assert str(unknown) == "fast-ingest-single jsproto-sync: 10 calls a message, +10.00 to its bound of 0"
    assert str(Finding(*ROW, "calls", 10.0, 12.5)).endswith("12.5 calls a message, +2.50 to its bound of 10 (+25%)")


def test_equal_bounds_are_written_once(tmp_path: Path) -> None:
    file = tmp_path / "bounds.csv"
    table = {
        ("a", "sync", "calls"): {"3.9": 2.0, "3.11": 2.0, "3.12": 1.5},
        ("a", "sync", "bytecodes"): {"3.11": 7.25, "3.12": 7.25},
    }
    bounds.write(table, file)
    assert file.read_text().splitlines() == [
        "job,client,measure,3.9,3.11,3.12",
        "a,sync,calls,2,,1.5",
        "a,sync,bytecodes,-,7.25,",
    ]
    assert bounds.read(file) == table


def test_new_bounds_leave_those_of_other_pythons() -> None:
    table = {(*ROW, "calls"): {"3.11": 2.0, "3.12": 3.0}, ("gone", "sync", "calls"): {"3.12": 1.0}}
    new = bounds.replaced(table, {ROW: {"calls": 4.0, "blocks": 1.0}}, "3.12", dict.fromkeys([ROW, ("b", "c")]))
    assert new == {(*ROW, "calls"): {"3.11": 2.0, "3.12": 4.0}, (*ROW, "blocks"): {"3.12": 1.0}}


def test_bounds_are_written_on_demand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, python = tmp_path / "bounds.csv", bounds.this_python()
    monkeypatch.setattr(counts, "count", lambda rows: {row: {"calls": 2.0} for row in rows})
    arguments = ["--bounds", str(file), "--job", ROW[0]]
    assert counts.main(arguments) == 0
    assert f"no bounds for Python {python}" in capsys.readouterr().out
    assert counts.main([*arguments, "--write"]) == 0
    assert {key[0] for key in bounds.read(file)} == {ROW[0]}
    assert counts.main(arguments) == 0
    assert "3 rows, 0 measures worse than their bounds, 0 better" in capsys.readouterr().out


def test_bounds_that_cannot_be_written_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(counts, "count", lambda rows: {row: {"calls": 2.0} for row in rows})
    assert counts.main(["--bounds", str(tmp_path / "nowhere" / "bounds.csv"), "--write"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("counts: ")
    assert "nowhere" in told
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_job_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(counts, "ROWS", (("no-such-job", "jsproto-sync"),))
    assert counts.main([]) == 1
    assert "'no-such-job'" in capsys.readouterr().err
