"""``audit``: its options, and the job. What it tells is said in ``pyspark_jetstream.pipelines.audit``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import typer
from pyspark import StorageLevel

from jsproto_io.cli.records import BadInput, BadUsage
from pyspark_jetstream.pipelines.jobs.arguments import Bound, Source, SourceAccess, option, positional, switch
from pyspark_jetstream.pipelines.jobs.findings import find, prepared
from pyspark_jetstream.pipelines.jobs.page import page, time_text
from pyspark_jetstream.pipelines.jobs.running import FORMAT, Place, Run, new_program
from pyspark_jetstream.pipelines.jobs.summary import Summary
from pyspark_jetstream.planning import end_of, first_at, first_of

if TYPE_CHECKING:
    from jsproto.grammar.config import StreamInfo
    from pyspark_jetstream.pipelines.jobs.findings import Findings


@attrs.frozen(kw_only=True)
class Report:
    """What is looked at, and where it is written."""

    report: Path | None = positional("The file to write. Default: STREAM.html.", "REPORT", None, parse=Path)
    tokens: int | None = option("Take subjects together by their first N tokens.", "N", kind=int, min=1)
    top: int = option("How many subjects to show.", "N", 50, kind=int, min=1, max=1_000)
    strict: bool = switch("--strict", "Exit code 1 if there are gaps or duplicates.")


def audit(run: Run, summary: Summary, source: Source, report: Report, access: SourceAccess) -> None:
    """Look for gaps and for duplicates by message id in a stream, and see sizes and rates of its subjects.

    Reads every message that is there now once, and writes one HTML file with tables and plots.
    """
    name = source.source
    target = report.report or Path(f"{name}.html")
    if not target.parent.is_dir() or target.is_dir():
        raise BadUsage(f"cannot write {target}: give a file in a folder that is there")
    place = run.reach(access)
    info = place.info(name)
    lo, hi = _range(place, info, source.begin, source.until)
    whole = attrs.evolve(source, begin=Bound(seq=lo), until=Bound(seq=hi))
    options = {**place.options, **whole.of(name), "includeHeaders": "true", "includeBookkeeping": "true"}
    spark = run.spark()
    summary.begin()
    rows = prepared(spark.read.format(FORMAT).options(**options).load(), report.tokens)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = run.do(f"reading {name}", lambda: find(rows, lo, hi, report.top, gaps=source.subject is None))
    finally:
        rows.unpersist()
    _tell(summary, name, place, info, found, lo, hi)
    text = page(f"Audit of stream {name}", summary.lines, found)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {target}: {error.strerror}") from None
    summary.add("report", os.fspath(target))
    summary.add_rate(found.messages + found.markers)
    run.tell(summary)
    if report.strict and (found.missing or found.repeated):
        raise typer.Exit(1)


app = new_program(audit, "audit ORDERS orders.html --strict")


def _range(place: Place, info: StreamInfo, begin: Bound | None, until: Bound | None) -> tuple[int, int]:
    """From which sequence to before which, by what is there now."""
    first, end = first_of(info), end_of(info)

    def resolved(bound: Bound | None, default: int) -> int:
        if bound is None:
            return default
        at = bound.seq if bound.time is None else first_at(place.js, info, bound.time)
        return min(max(at or first, first), end)

    lo, hi = resolved(begin, first), resolved(until, end)
    return lo, max(lo, hi)


def _tell(summary: Summary, name: str, place: Place, info: StreamInfo, found: Findings, lo: int, hi: int) -> None:
    summary.add("stream", name)
    summary.add("server", place.text)
    summary.add("sequences", [lo, hi - 1], f"{lo:,} to {hi - 1:,}" if hi > lo else "none")
    dropped = first_of(info) - 1
    if dropped:
        summary.add("dropped_from_the_front", dropped)
    summary.add("messages", found.messages)
    if found.markers:
        summary.add("markers", found.markers, label="markers of sinks")
    summary.add_bytes("bytes", found.bytes)
    summary.add("subjects", found.subjects)
    if found.messages:
        seconds = (found.last - found.first) / 1e6
        text = f"{time_text(found.first)} to {time_text(found.last)}"
        summary.add("between", [time_text(found.first), time_text(found.last)], text, label="stored")
        if seconds > 0:
            rate = round(found.messages / seconds, 1)
            summary.add("stored_per_s", rate, f"{rate:,}", label="stored per s")
    if found.missing is not None:
        shown = f"{found.missing:,} sequences in {found.gaps:,} gaps" if found.missing else "none"
        summary.add("missing", found.missing, shown)
        summary.data["gaps"] = found.gaps
    summary.data["with_msg_id"] = found.with_id
    shown = f"{found.repeated:,} messages of {found.repeated_ids:,} ids" if found.repeated else "none"
    summary.add("duplicates", found.repeated, shown if found.with_id else "no message has an id")
