"""The benchmark is held together: its table, its statistics, and one tiny run. How fast anything is, is not tested."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.bench import __main__ as bench
from tests.bench import page, report, series
from tests.bench.series import BenchError, Plan, ResultRow, rotated, row
from tests.bench.table import CORE, CORE_GOALS, COST_GOALS, DISTRIBUTIONS, GOALS, JOBS, PEERS, SIZE, SUM_GOALS, CostGoal
from tests.bench.task import Sample, Task, shares

CLIENTS = {client for job in JOBS.values() for client in job.clients}


def test_the_table_names_only_what_it_has() -> None:
    assert {"fast-ingest", "async-publish", "direct-get"} <= set(JOBS)
    assert set(DISTRIBUTIONS) <= CLIENTS
    assert set(PEERS) <= CLIENTS
    keys = {(name, client) for name, job in JOBS.items() for client in job.clients}
    assert {key for job in JOBS.values() for key in job.against} <= keys
    assert {key for goal in GOALS for key in (goal.ours, goal.theirs)} <= keys
    assert {key for cost in COST_GOALS for key in (cost.ours, cost.theirs)} <= keys
    assert {key for total in SUM_GOALS for key in (total.ours, *total.parts)} <= keys
    assert {goal.job for goal in CORE_GOALS} <= set(CORE)


def test_every_client_begins_in_turn() -> None:
    assert [rotated("abc", number) for number in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]
    assert rotated([], 3) == []
    plan = Plan(["direct-get"], ["raw-socket", "jsproto-sync"], rounds=2, scale=0.5, size=128, budget=1.0)
    assert list(plan.runs(0)) == [("direct-get", "jsproto-sync"), ("direct-get", "raw-socket")]
    assert list(plan.runs(1)) == [("direct-get", "raw-socket"), ("direct-get", "jsproto-sync")]
    assert plan.count("direct-get") == JOBS["direct-get"].count // 2


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"jobs": ["sleep"]}, "jobs"), ({"rounds": 0}, "rounds"), ({"scale": 2.0}, "scale"), ({"size": 0}, "size")],
)
def test_a_plan_that_cannot_be_run_is_refused(wrong: dict[str, Any], why: str) -> None:
    plan = Plan(["direct-get"], ["raw-socket"], rounds=1, scale=1.0, size=128, budget=0.0)
    with pytest.raises(ValueError, match=why):
        attrs.evolve(plan, **wrong)


def test_a_wrong_number_of_rounds_is_a_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(["--rounds", "-1"])
    assert "'rounds' must be >= 1: -1" in capsys.readouterr().err


def test_a_goal_is_about_cpu_or_rate() -> None:
    with pytest.raises(ValueError, match="measure"):
        attrs.evolve(GOALS[0], measure="memory")


def test_a_row_holds_medians_for_each_message() -> None:
    samples = [Sample(cpu, elapsed, 0, 0) for cpu, elapsed in ((0.2, 1.0), (0.1, 4.0), (9.0, 0.5))]
    assert row("job", "client", 128, 1_000, samples) == ResultRow("job", "client", 128, 200.0, 1_000, 3)


def test_a_ratio_above_one_is_better() -> None:
    fast, slow = ResultRow("j", "a", 1, 0.5, 9_000), ResultRow("j", "b", 1, 10.0, 3_000)
    assert report.ratio("cpu", fast, slow) == 20.0
    assert report.ratio("rate", fast, slow) == 3.0


@pytest.mark.parametrize(("cpu", "verdict"), [(1.0, "met"), (1.01, "missed")])
def test_goals_are_judged_as_they_are(cpu: float, verdict: str) -> None:
    goal = GOALS[0]
    rows = [ResultRow(*goal.ours, 128, cpu, 1), ResultRow(*goal.theirs, 128, goal.factor, 1)]
    line = next(line for line in report.lines(rows) if "cpu: at least" in line)
    assert line.split()[0] == verdict


def test_what_was_not_measured_is_no_success() -> None:
    text = "\n".join(report.lines([]))
    assert text.count("not measured") == len(GOALS) + len(COST_GOALS) + len(SUM_GOALS) + len(CORE_GOALS)


@pytest.mark.parametrize(("times", "verdict"), [(1.0, "met"), (1.01, "missed")])
def test_a_cost_is_judged_as_it_is(times: float, verdict: str) -> None:
    goal = COST_GOALS[0]
    rows = [ResultRow(*goal.ours, 128, 2 * goal.most * times, 1), ResultRow(*goal.theirs, 128, 2.0, 1)]
    line = next(line for line in report.lines(rows) if "cpu: at most" in line)
    assert line.split()[0] == verdict
    assert line.endswith(f"{' '.join(goal.ours)}, cpu: at most 1.75 times {' '.join(goal.theirs)}: {1.75 * times:.2f}")


def test_a_header_for_each_message_has_a_goal() -> None:
    assert CostGoal(2.0, ("fast-ingest-headers", "jsproto-sync"), ("fast-ingest", "jsproto-sync")) in COST_GOALS
    assert CostGoal(2.0, ("direct-get-fields", "jsproto-sync"), ("direct-get", "jsproto-sync")) in COST_GOALS


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize(
    ("path", "why"),
    [("", "it is a folder"), ("nowhere/rows", "there is no folder"), ("file/rows", "there is no folder")],
)
def test_a_file_that_cannot_be_written_is_told_before_the_runs(
    option: str, path: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert bench.main([option, str(tmp_path / path)]) == 1
    told = capsys.readouterr()
    assert told.err.startswith(f"bench: {tmp_path / path} cannot be written: {why}")
    assert (told.err.count("\n"), told.out) == (1, "")


def test_a_page_without_matplotlib_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    assert bench.main(["--html", str(tmp_path / "page.html")]) == 1
    assert capsys.readouterr().err == "bench: --html needs matplotlib: pip install 'jsproto[bench]'\n"


def test_a_page_stands_alone() -> None:
    pytest.importorskip("matplotlib")
    rows = [
        ResultRow(job, client, 128, 2.5, 1_000, 7)
        for job in ("fast-ingest", "direct-get-fields", "async-publish", "direct-get")
        for client in JOBS[job].clients
    ]
    text = page.page(
        [*rows, ResultRow("calibration", "python", 128, 0.25, 1)], datetime(2026, 11, 26, 12, 30, tzinfo=UTC)
    )
    assert text.count("<svg") == text.count("</svg>") == 2
    assert not re.search(r"<(script|link|img|iframe)|url\(http|\bsrc=", text)
    for word in ("fast-ingest, 128 B", "nats-py", "times the CPU of the hand-written loop", "2026-11-26 12:30 UTC"):
        assert word in text
    assert "<td>rounds</td><td>7</td>" in text
    assert "nats-server: v" in text
    assert "&lt;" not in page.table(iter([("a", "b")]))
    assert "&lt;b&gt;" in page.table(iter([("a", "<b>")]))


def test_what_stands_for_a_baseline() -> None:
    assert page.baseline_of("fast-ingest", "nats-py") == ("async-publish", "nats-py")
    assert page.baseline_of("fast-ingest", "raw-socket") == ("fast-ingest", "raw-socket")
    assert [page.shown(cost) for cost in (0.12345, 12.345, 1234.5)] == ["0.123", "12.3", "1,234"]
    assert [page.size(number) for number in (16, 128, 1024, 16_384)] == ["16 B", "128 B", "1 KiB", "16 KiB"]


@pytest.mark.parametrize(("cpu", "verdict"), [(3.0, "met"), (3.1, "missed")])
def test_a_sum_is_judged_as_it_is(cpu: float, verdict: str) -> None:
    total = SUM_GOALS[0]
    rows = [ResultRow(*total.ours, 128, cpu, 1), *(ResultRow(*part, 128, 1.5, 1) for part in total.parts)]
    (line,) = (line for line in report.lines(rows) if "together: " in line)
    assert line.split()[0] == verdict
    assert line.endswith(f"{cpu:.2f} of 3.00 us")


def test_the_warm_up_is_not_measured() -> None:
    task = Task("nats://nowhere", "DATA", 1_000, 16)
    runs = task.runs()
    assert next(runs).stream == "WARM"
    run = next(runs)
    assert (run.stream, run.subject, run.count, run.payload) == ("DATA", "bench.data", 1_000, bytes(16))
    run.received = 7
    assert next(runs, None) is None
    assert task.sample is not None
    assert task.sample.received == 7


def test_in_a_bucket_each_message_has_a_key() -> None:
    runs = Task("nats://nowhere", "KV_DATA", 600, 16).runs()
    assert next(runs).stream == "KV_DATA_WARM"
    run = next(runs)
    assert (run.subject, len(run.keys), run.keys[-1]) == ("$KV.DATA", 600, "orders.599")
    plan = Plan(["kv-put", "kv-get"], ["raw-socket"], rounds=1, scale=0.5, size=128, budget=0.0)
    assert [plan.stream_of(job) for job in plan.jobs] == ["KV_DATA", "KV_STORED16"]


def test_shares_are_all_of_it() -> None:
    assert shares(7, 3) == [range(2), range(2, 4), range(4, 7)]
    assert shares(2, 3) == [range(1), range(1, 2)]


def test_the_core_alone_gives_a_row_for_each_job() -> None:
    rows = series.core_rows(600, 16, repeats=1)
    assert [row.job for row in rows] == list(CORE)
    assert all(row.size == 16 and row.cpu_us_per_msg > 0 for row in rows)


def test_a_run_that_loses_messages_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "run_worker", lambda *_: Sample(1.0, 1.0, 599, 599 * 128))
    plan = Plan(["direct-get"], ["jsproto-sync"], rounds=1, scale=0.01, size=128, budget=60.0)
    with pytest.raises(BenchError, match="jsproto-sync at direct-get: 599 of 600 messages were read"):
        series.rows_of(plan, print)
    plan = Plan(["fast-ingest"], ["jsproto-sync"], rounds=1, scale=0.01, size=128, budget=60.0)
    with pytest.raises(BenchError, match="jsproto-sync at fast-ingest: 0 of 1000 messages are stored"):
        series.rows_of(plan, print)


def test_a_failed_run_is_told_in_its_own_words() -> None:
    with pytest.raises(BenchError, match=r"(?s)raw-socket at direct-get failed:.*refused"):
        series.run_worker("direct-get", "raw-socket", "nats://127.0.0.1:1", "STORED", 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, job in JOBS.items() if "jsproto-sync" in job.clients])
def test_the_library_does_each_job(name: str) -> None:
    plan = Plan([name], ["jsproto-sync"], rounds=1, scale=0.01, size=SIZE, budget=60.0)
    (found,) = series.rows_of(plan, print)
    assert (found.job, found.client, found.size) == (name, "jsproto-sync", JOBS[name].size or SIZE)
    assert found.cpu_us_per_msg > 0
    assert found.msgs_per_s > 0


@pytest.mark.slow
def test_a_tiny_run_writes_valid_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "QUICK", bench.Effort(rounds=9, scale=0.01, budget=60.0, core_count=600, core_repeats=1))
    file = tmp_path / "rows.json"
    jobs = ["fast-ingest", "direct-get", "kv-put", "kv-watch"]
    asked = [option for job in jobs for option in ("--job", job)]
    command = ["--quick", "--rounds", "1", "--client", "jsproto-sync", *asked, "--json", str(file)]
    status = bench.main(command)
    told = capsys.readouterr()
    assert status == 0, told.err
    rows = json.loads(file.read_bytes())
    assert [row["job"] for row in rows] == [*jobs, *CORE]
    fields = {"job", "client", "size", "cpu_us_per_msg", "msgs_per_s", "rounds"}
    assert all(set(found) == fields for found in rows)
    assert told.err.count("round ") == 1
    assert "CPython" in told.out
    assert all(f"\n{job}: " in told.out for job in jobs)
