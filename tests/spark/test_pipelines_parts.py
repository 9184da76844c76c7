"""What the programs on Spark are made of, without Spark and without real servers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from pyspark.sql import SparkSession

from jsproto.grammar.config import StreamConfig, StreamInfo, StreamState
from jsproto_io.cli.records import BadUsage
from jsproto_io.sync import connect
from pyspark_jetstream import pipelines
from pyspark_jetstream.options import Delivery
from pyspark_jetstream.pipelines.jobs.arguments import Access, Bound, SourceAccess, bounds, pairs
from pyspark_jetstream.pipelines.jobs.export import Data, ExportArguments, Format, Layout, Mode, Plan
from pyspark_jetstream.pipelines.jobs.findings import OTHERS, Findings, Gap, Share
from pyspark_jetstream.pipelines.jobs.pacing import paced
from pyspark_jetstream.pipelines.jobs.page import _over_time, page
from pyspark_jetstream.pipelines.jobs.running import Place, _new_session, one_line_of
from pyspark_jetstream.pipelines.jobs.sinks import Sink
from pyspark_jetstream.pipelines.jobs.summary import Summary
from tests.client.lagging import Replicas
from tests.drivers.fake import FakeServer
from tests.drivers.replicated import replicated
from tests.marks import promise

pytestmark = pytest.mark.spark


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.at += seconds


def batches(times: list[list[float]]) -> Iterator[pa.RecordBatch]:
    for some in times:
        stamps = pa.array([round(each * 1e6) for each in some], pa.int64()).cast(pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([stamps], names=["timestamp"])


@promise("a stretch of time once more, in order, at its own pace, faster, or at full speed")
@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_a_row_leaves_when_it_is_due(speed: float) -> None:
    clock = Clock()
    left = [
        (clock.at - 100.0, piece.num_rows)
        for piece in paced(batches([[50.0, 50.0, 50.5], [50.5, 60.0]]), speed, clock.now, clock.sleep)
    ]
    assert [rows for _, rows in left] == [2, 1, 1, 1]
    assert [at for at, _ in left] == pytest.approx([0.0, 0.5 / speed, 0.5 / speed, 10.0 / speed], abs=0.003)


def test_who_is_late_does_not_wait() -> None:
    clock = Clock()
    pieces = paced(batches([[1.0], [1.5, 2.0, 9.0]]), 1.0, clock.now, clock.sleep)
    assert next(pieces).num_rows == 1
    clock.at += 5.0
    assert next(pieces).num_rows == 2
    assert (next(pieces).num_rows, round(clock.at - 100.0, 2)) == (1, 8.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21", 0),
        ("2026-11-21T08:30", 30_600),
        ("2026-11-21 08:30:15Z", 30_615),
        ("2026-11-21T08:30:15.5+01:00", 27_015.5),
    ],
)
def test_times(text: str, seconds: float) -> None:
    midnight = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp())
    assert Bound.of(text, "--from") == Bound(time=int((midnight + seconds) * 1e9))


def test_places_in_a_stream() -> None:
    assert bounds("S", Bound.of("7", "--from"), Bound.of("1970-01-01", "--until")) == {
        "startingOffsets": '{"S": 7}',
        "endingTimestamp": "1970-01-01T00:00:00Z",
    }
    for wrong in ("0", "-1", "noon", "2026-02-30", "²"):
        with pytest.raises(BadUsage, match="--until takes a sequence, or a time"):
            Bound.of(wrong, "--until")


def test_how_to_reach_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "nats://there")
    access = Access(user="me", nats={"jsDomain": "hub"})
    assert (access.urls, access.options) == ("nats://there", {"nats.user": "me", "nats.jsDomain": "hub"})
    assert SourceAccess(servers="nats://here").urls == "nats://here"
    assert SourceAccess(store="folder").urls is None
    with pytest.raises(BadUsage, match="exclude each other"):
        Access(servers="nats://here", store="folder")
    monkeypatch.delenv("NATS_URL")
    assert Access().urls is None
    with pytest.raises(BadUsage, match="where from"):
        SourceAccess()
    assert pairs(["a=b=c"], "--option") == {"a": "b=c"}


def wanted(*names: str, **given: Any) -> ExportArguments:
    """As the command line has it."""
    return ExportArguments(names=[*names], **given)


def test_a_plan_of_an_export(tmp_path: Path) -> None:
    plan = Plan.of(wanted("S", str(tmp_path / "out"), until="7"), Layout(kind=Format.CSV))
    assert (plan.exported.stream, plan.exported.kind, plan.data, plan.by) == ("S", "stream", "text", ["subject", "day"])
    assert plan.exported.options == {"stream": "S", "endingOffsets": '{"S": 7}'}
    assert plan.mode is Mode.ERROR
    (tmp_path / "_temporary").mkdir()  # a run that failed left it
    plan = Plan.of(wanted(str(tmp_path), bucket="B", keys="a.>", at="9"), Layout(tokens=2))
    assert (plan.exported.stream, plan.mode, plan.data, plan.by) == ("KV_B", Mode.OVERWRITE, "binary", ["subject"])
    assert plan.exported.options == {"kvBucket": "B", "kvKeys": "a.>", "endingOffsets": '{"KV_B": 9}'}
    assert Plan.of(ExportArguments(names=["s3://x"], bucket="B"), Layout()).target == "s3://x"
    few = StreamInfo(StreamConfig(name="S"), state=StreamState(num_subjects=2_000))
    many = StreamInfo(StreamConfig(name="S"), state=StreamState(num_subjects=2_001))
    plan = Plan.of(ExportArguments(names=["S", "out"]), Layout())
    assert plan.for_stream(few) is plan
    with pytest.raises(BadUsage, match="S has 2,001 subjects, and each would be a folder: add --tokens N or --by day"):
        plan.for_stream(many)


@pytest.mark.parametrize(
    ("given", "layout", "message"),
    [
        ({"names": ["S"]}, {}, "give a stream and a folder"),
        ({"names": ["S", "out"], "keys": "a"}, {}, "--at and --keys are for --bucket"),
        ({"names": ["S", "out"], "bucket": "B"}, {}, "with --bucket give the folder alone"),
        ({"names": ["out"], "bucket": "B", "subject": "a"}, {}, "a bucket is exported as of one moment"),
        ({"names": ["out"], "bucket": "B", "headers": True}, {}, "a bucket is exported as of one moment"),
        ({"names": ["S", "out"]}, {"kind": Format.JSON, "data": Data.BINARY}, "--format json has no binary"),
        ({"names": ["S", "out"], "headers": True}, {"kind": Format.CSV}, "--format csv has no place for --headers"),
        ({"names": ["S", "out"]}, {"by": "day", "tokens": 1}, "--tokens needs --by subject"),
        ({"names": ["S", "/"]}, {}, "/ is there already: choose another folder, or --mode append or overwrite"),
        ({"names": ["S", "out"]}, {"by": "week"}, "--by takes subject, hour, day, month, year or none, not 'week'"),
    ],
)
def test_an_export_that_cannot_be(given: dict[str, Any], layout: dict[str, Any], message: str) -> None:
    with pytest.raises(BadUsage, match=message):
        Plan.of(ExportArguments(**given), Layout(**layout))


@promise("ends with a summary (`--json` for programs) or with one line that says what is wrong")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03\nmore", "[NOT_FOUND] Path does not exist: /x."),
        (
            "Job aborted due to stage failure: Task 0 failed: org.apache.spark.x.PythonException: Traceback\n  File\n"
            "pyspark_jetstream.rows.RowError: row 0 has no subject\n SQLSTATE: 38000\n\tat org.apache",
            "row 0 has no subject",
        ),
        ("An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Task failed\n\tat", "Task failed"),
        ("x [USER_RAISED_EXCEPTION] column 'a' holds nothing SQLSTATE: P0001\n\tat", "column 'a' holds nothing"),
        ("[X] Failed: Traceback (most recent call last):\n  File x\n    at y\nOSError: no\n\tat org", "OSError: no"),
        (
            "[X] Task failed. SQLSTATE: 58030\n\tat a\nCaused by: a.B: outer\n\tat b\nCaused by: java.io.IOException: "
            "Mkdirs failed\n\tat c",
            "[X] Task failed: IOException: Mkdirs failed",
        ),
        ("[X] At /y.\nCaused by: a.DeniedException: /y\n\tat", "[X] At /y: DeniedException: /y"),
        ("Aborted: \nCaused by: a.b.Outer$Inner\n\tat", "Aborted: Inner"),
        ("[X] No. SQLSTATE: 58030\nCaused by: x.Y: [X] No. SQLSTATE: 58030\n\tat", "[X] No."),
        ("[X] No. SQLSTATE: 58030\nCaused by: x.Y: [Z] By zero. SQLSTATE: 22012\n\tat", "[X] No: Y: [Z] By zero."),
        ("", "Spark failed, and did not say why"),
    ],
)  # fmt: skip
def test_one_line_of_an_error(text: str, line: str) -> None:
    assert one_line_of(text) == line


@promise("The numbers of a summary are right as long")
@pytest.mark.parametrize("position", [3, 6, 8], ids=["behind", "level", "ahead"])
def test_what_is_stored_is_told_by_the_leader(position: int) -> None:
    """Markers that a replica does not have yet are no messages that were stored twice, and later ones do not count."""
    marker = "m.$spark.query.0"
    replicas = Replicas("s.a", "s.a", marker, "s.a", "s.a", marker, marker, "s.a", positions=(position,))
    replicas.leader = 6  # when it is asked; what else the replica has is stored a moment later
    with FakeServer(replicated(replicas)) as server, connect(server.url, max_reconnect_attempts=0) as nc:
        sink, summary = Sink(Place(nc, nc.jetstream(), {}, ""), "S", Delivery.ATOMIC, "m"), Summary("ingest")
        sink.account(summary, rows=4, before=0)
    assert summary.data == {"stored": 4, "sequences": [1, 6], "stored_twice": 0}


def test_a_page_of_strange_subjects() -> None:
    shares = [Share(subject, 2, 10, 5, 5, 0, 4_000_000) for subject in ("$KV.a_b$", "_private", "<i>", "\\")]
    found = Findings(
        messages=8, bytes=40, with_id=8, subjects=4, last=4_000_000, missing=3, gaps=1, largest_gaps=[Gap(2, 4)],
        shares=shares, bins={"$KV.a_b$": [(2, 10)], "_private": [(2, 10)], OTHERS: [(4, 20)]}, sizes=[(3, 8)],
    )  # fmt: skip
    text = page("Audit of <x>", [("server", "a & b")], found)
    assert "Audit of &lt;x&gt;" in text
    assert "a &amp; b" in text
    assert "&lt;i&gt;" in text
    assert "<i>" not in text
    assert "No message id comes twice (8 messages have one)." in text
    assert "data:image" not in page("Audit of nothing", [], Findings(missing=0))


def test_an_axis_that_an_outlier_would_squeeze_ends_before_it() -> None:
    usual = [(100 + 3 * place, 10_000) for place in range(80)]
    outlier = [*usual[:40], (1_000_000, 10_000), *usual[41:]]
    for values, highest, title in (
        (usual, 337 * 1.05, "messages per second"),
        (outlier, 1.2 * 319, "messages per second (outliers up to 1M are cut off)"),
        ([(5, 5), (5_000, 5)], 5_000 * 1.05, "messages per second"),
    ):
        axes = Figure().subplots()
        _over_time(axes, Findings(bins={"a": values}, last=80_000_000), 0, "messages per second")
        assert axes.get_ylim() == pytest.approx((0, highest))
        assert axes.get_title(loc="left") == title


def test_what_is_missing_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None if name in ("rich", "matplotlib") else sys)
    for program, missing in (("export", "rich"), ("audit", "rich, matplotlib")):
        with pytest.raises(SystemExit) as ended:
            pipelines.main(program)
        assert ended.value.code == 2
        assert capsys.readouterr().err == f"{program}: {missing} not installed: pip install 'jsproto[pipelines]'\n"


@pytest.mark.spark
def test_py4j_does_not_speak_before_the_line_of_an_interrupt(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ctrl-C breaks off what Spark is asked. py4j logs that, and how its connection ends, with tracebacks."""
    quiet, root = logging.getLogger("py4j"), logging.getLogger()
    monkeypatch.setattr(quiet, "level", quiet.level)
    monkeypatch.setattr(root, "filters", [])
    for verbose, records in ((True, 2), (False, 0)):
        caplog.clear()
        _new_session("test", verbose)
        logging.getLogger("py4j.clientserver").error("Exception occurred while shutting down connection")
        logging.error("KeyboardInterrupt while sending command.")  # as py4j does
        assert len(caplog.records) == records
    quiet.setLevel(logging.NOTSET)
