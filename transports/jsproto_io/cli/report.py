"""The output of the commands: tables, the plot, and the JSON object.

Rules: pure functions from results to renderables or dictionaries. Nothing here prints. Tables have measured values
only.

Not here: progress and error lines (``app``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import floor, log10
from typing import Any, TypeAlias

import plotille  # type: ignore[import-untyped]
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from jsproto_io.cli.demo import Demo
from jsproto_io.cli.ingesting import Ingest, Meter
from jsproto_io.cli.mirroring import Mirrored
from jsproto_io.cli.tapping import BatchSeen
from jsproto_io.cli.terminal import one_line

Samples = Sequence[tuple[float, int]]


def per_second(count: int, seconds: float) -> int:
    """A rate. 0 when no time has passed."""
    return round(count / seconds) if seconds > 0 else 0


def throughput(samples: Samples, slices: int) -> list[tuple[float, float]]:
    """Messages per second in ``slices`` equal slices of the time: (middle of the slice in seconds, rate).

    ``samples`` are (seconds, messages until then), ascending. Between two of them the rate counts as constant.
    """
    if not samples or samples[-1][0] <= samples[0][0]:
        return []
    start, width = samples[0][0], (samples[-1][0] - samples[0][0]) / slices
    edges = [start + width * index for index in range(slices + 1)]
    edges[-1] = samples[-1][0]
    counts = []
    steps = pairwise(samples)
    (t0, n0), (t1, n1) = next(steps)
    for edge in edges:
        while t1 < edge:
            (t0, n0), (t1, n1) = next(steps)
        counts.append(n1 if t1 <= t0 else n0 + (n1 - n0) * (edge - t0) / (t1 - t0))
    return [(a + width / 2, (m - n) / width) for a, (n, m) in zip(edges, pairwise(counts), strict=False)]


def compact(number: float) -> str:
    """``250k`` for 250,000: short enough for an axis."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def round_up(number: float) -> tuple[float, int]:
    """The next round number, for the end of an axis, and the number of its round steps."""
    power = 10.0 ** floor(log10(number)) if number > 0 else 1.0
    steps = ((1, 5), (1.5, 6), (2, 8), (3, 6), (4, 8), (5, 5), (6, 6), (8, 8), (10, 5))
    return next((power * factor, count) for factor, count in steps if number <= power * factor)


class Throughput:
    """A plot of messages per second over time, one line for each phase, as wide as the terminal.

    It is empty where braille cannot be shown, in a narrow terminal, and without samples.
    """

    def __init__(self, *phases: tuple[str, str, Samples]) -> None:
        """``phases``: the label, colour and samples of each."""
        self._phases = phases

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ticks = (min(options.max_width, 100) - 20) // 10
        if options.ascii_only or ticks < 3:
            return
        lines, end = [], 0.0
        for label, colour, samples in self._phases:
            points = throughput(samples, max(6, ticks * 5 // len(self._phases)))
            lines.append((label, colour, [end + x for x, _ in points], [y for _, y in points]))
            end += samples[-1][0] if samples else 0.0
        if any(any(rates) for *_, rates in lines):
            yield from drawn(console, ticks, lines, "msgs/s", end)


Line: TypeAlias = tuple[str, str, list[float], list[float]]
"""Label, colour, seconds and heights of a line of a plot."""


def drawn(
    console: Console, ticks: int, lines: Sequence[Line], unit: str, end: float, together: bool = False
) -> RenderResult:
    """A plot of lines over seconds, up to ``end``. ``ticks``: tens of characters that it is wide.

    A label stands in the middle of its line. ``together``: lines share their seconds, so labels are spread.
    """
    top, height = round_up(max((max(heights, default=0.0) for *_, heights in lines), default=0.0))
    figure = plotille.Figure()
    figure.width, figure.height = 10 * ticks, height
    figure.color_mode = "names"
    figure.with_colors = console.color_system is not None and not console.no_color
    figure.origin = False
    figure.x_label, figure.y_label = "s", unit
    figure.set_x_limits(0, round_up(end / ticks)[0] * ticks)
    figure.set_y_limits(0, top)
    figure.x_ticks_fkt = lambda value, _: f"{value:.3g}"
    figure.y_ticks_fkt = lambda value, _: compact(value).rjust(8)
    for place, (label, colour, times, heights) in enumerate(lines, 1):
        figure.plot(times, heights, lc=colour)
        if times:
            share = place / (len(lines) + 1) if together else 0.5
            figure.text([times[int(len(times) * share)]], [top / 2 / height], [label], lc=colour)
    shown = (line.rstrip() for line in figure.show().splitlines())
    yield Text.from_ansi("\n".join(shown), no_wrap=True, overflow="crop")


class BatchPlot:
    """What went by of a fast-ingest batch, over time: sent and acknowledged, the rate of sending, what was in flight.

    It is empty where braille cannot be shown, in a narrow terminal, and without acknowledgements.
    """

    def __init__(self, batch: BatchSeen) -> None:
        self._batch = batch

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ticks = (min(options.max_width, 100) - 20) // 10
        sent, acked = self._batch.sent.all(), self._batch.acked.all()
        if options.ascii_only or ticks < 3 or not sent or not acked:
            return
        began, end = _span(self._batch)
        curves = [self._line("sent", "cyan", sent, began), self._line("acked", "green", acked, began)]
        yield from drawn(console, ticks, curves, "msgs", end - began, together=True)
        yield Throughput(("rate", "cyan", [(0.0, 0), *((when - began, number) for when, number in sent)]))
        waiting = self._line("in flight", "magenta", self._batch.waiting.all(), began)
        if any(waiting[3]):
            yield from drawn(console, ticks, [waiting], "msgs", end - began)

    def _line(self, label: str, colour: str, points: Samples, began: float) -> Line:
        return label, colour, [when - began for when, _ in points], [float(number) for _, number in points]


def _span(batch: BatchSeen) -> tuple[float, float]:
    """When a batch begins and ends, as far as it went by, in seconds."""
    times = [when for curve in (batch.sent.all(), batch.acked.all()) for when, _ in curve] or [0.0]
    return min(times), max(times)


def batch_table(batch: BatchSeen) -> Table:
    """What went by of a fast-ingest batch, in numbers."""
    began, end = _span(batch)
    seconds, sent, acked = end - began, batch.sent.last[1], batch.acked.last[1]
    lost = sum(last - first + 1 for first, last in batch.gaps)
    moves = [str(msgs) for _, msgs in batch.flow]
    table = _table("")
    table.show_header = False
    table.add_row("batch", one_line(batch.batch_id))
    table.add_row("sent", f"{sent:,}")
    table.add_row("acknowledged", f"{acked:,}", style="" if acked >= sent else "yellow")
    table.add_row("time", f"{seconds:.3f} s")
    table.add_row("messages/s", f"{per_second(acked, seconds):,}", style="bold")
    table.add_row("messages per acknowledgement", f"{batch.asked} asked for, {_few(moves, ' then ') or 'none'} granted")
    table.add_row("gaps", _few([f"{first:,} to {last:,}" for first, last in batch.gaps], ", ") or "none")
    if batch.gaps:
        table.add_row("missing", f"{lost:,}", style="yellow")
    if batch.refused:
        table.add_row("refused", f"{batch.refused:,}", style="yellow")
    table.add_row("end", one_line(batch.end) or "not seen")
    return table


def _few(words: Sequence[str], between: str) -> str:
    return between.join(words if len(words) <= 6 else [*words[:4], "...", words[-1]])


def flow_text(result: Ingest) -> str:
    """How the server changed the flow rate: messages for each acknowledgement."""
    if not result.flow:
        return "-"
    moves = [f"{event.msgs} from message {event.sequence:,}" for event in result.flow[1:]]
    granted = str(result.flow[0].msgs)
    if not moves:
        return f"{granted} throughout"
    shown = moves if len(moves) <= 4 else [*moves[:3], f"… {moves[-1]}"]
    return ", ".join([granted, *shown])


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _cost(meter: Meter, count: int) -> str:
    return f"{meter.cpu / count * 1e6:.2f} µs" if count else "-"


def demo_table(demo: Demo) -> Table:
    """Rates and costs of the two directions."""
    (meter_in, rows_in), (meter_out, rows_out) = (
        (demo.ingest.meter, demo.ingest.acked),
        (demo.reading, demo.came_out.count),
    )
    table = _table("in: fast ingest", "out: Direct Get")
    table.add_row("messages", f"{rows_in:,}", f"{rows_out:,}")
    table.add_row("payload", decimal(meter_in.bytes), decimal(meter_out.bytes))
    table.add_row("time", f"{meter_in.seconds:.2f} s", f"{meter_out.seconds:.2f} s")
    table.add_row(
        "messages/s",
        f"{per_second(rows_in, meter_in.seconds):,}",
        f"{per_second(rows_out, meter_out.seconds):,}",
        style="bold",
    )
    table.add_row("client CPU per message", _cost(meter_in, rows_in), _cost(meter_out, rows_out))
    table.add_row("SHA-256", f"{demo.went_in.hexdigest()[:12]}…", f"{demo.came_out.hexdigest()[:12]}…")
    table.add_row("acknowledgements", f"{demo.ingest.acks:,}", "")
    table.add_row("messages per acknowledgement", flow_text(demo.ingest), "")
    table.caption = "client CPU: this process, with reading the file and hashing"
    table.caption_justify = "left"
    return table


def demo_verdict(demo: Demo) -> str:
    """``336,776 in, 336,776 out, digests equal``."""
    same = "equal" if demo.went_in.hexdigest() == demo.came_out.hexdigest() else "DIFFERENT"
    return f"{demo.went_in.count:,} in, {demo.came_out.count:,} out, digests {same}"


def _json_meter(meter: Meter, count: int) -> dict[str, Any]:
    return {
        "messages": count,
        "bytes": meter.bytes,
        "seconds": round(meter.seconds, 6),
        "messages_per_s": per_second(count, meter.seconds),
        "cpu_us_per_message": round(meter.cpu / count * 1e6, 3) if count else None,
    }


def _json_flow(result: Ingest) -> list[dict[str, int]]:
    return [{"from_message": event.sequence, "messages_per_ack": event.msgs} for event in result.flow]


def demo_json(demo: Demo) -> dict[str, Any]:
    """The demo's result for a program."""
    return {
        "ok": demo.equal,
        "server": {"version": demo.server, "url": demo.url, "started_here": demo.own_server},
        "stream": demo.stream,
        "in": {
            **_json_meter(demo.ingest.meter, demo.went_in.count),
            "sha256": demo.went_in.hexdigest(),
            "acked": demo.ingest.acked,
            "acks": demo.ingest.acks,
            "flow": _json_flow(demo.ingest),
        },
        "out": {**_json_meter(demo.reading, demo.came_out.count), "sha256": demo.came_out.hexdigest()},
    }


def ingest_json(result: Ingest, skipped: int) -> dict[str, Any]:
    """The result of an ingest for a program, complete or not. ``resume_at``: the records to skip when continuing."""
    return {
        **_json_meter(result.meter, result.acked),
        "stream": result.ack.stream if result.ack else None,
        "sent": result.sent,
        "acked": result.acked,
        "resume_at": skipped + result.acked,
        "first_stream_seq": result.first_stream_seq,
        "last_stream_seq": result.ack.seq if result.ack else None,
        "acks": result.acks,
        "flow": _json_flow(result),
        "lost": [[gap.first_missing, gap.last_missing] for gap in result.lost],
        "refused": [{"message": refused.sequence, "error": str(refused.error)} for refused in result.refused],
    }


def ingest_table(result: Ingest) -> Table:
    """What was stored, and how fast."""
    table = _table("")
    table.show_header = False
    ack = result.ack
    if ack is not None:
        first = result.first_stream_seq
        table.add_row("stream", ack.stream)
        table.add_row("stream sequences", f"{first:,} to {ack.seq:,}" if first is not None else f"up to {ack.seq:,}")
    table.add_row("acknowledged", f"{result.acked:,} of {result.sent:,} sent")
    if result.missing:
        table.add_row("not stored", f"{result.missing:,}", style="yellow")
    table.add_row("payload", decimal(result.meter.bytes))
    table.add_row("time", f"{result.meter.seconds:.2f} s")
    table.add_row("messages/s", f"{per_second(result.acked, result.meter.seconds):,}", style="bold")
    table.add_row("acknowledgements", f"{result.acks:,}")
    table.add_row("messages per acknowledgement", flow_text(result))
    return table


def mirrored(result: Mirrored) -> str:
    """The part of an error line about what was copied. Empty before the copy began."""
    copy = result.copy
    if copy is None:
        return ""
    if not copy.position:
        return "; nothing is known to be copied"
    return f"; {copy.copied:,} copied, {copy.stream} is stored up to {copy.position:,}; run it again to go on"


def mirror_table(result: Mirrored) -> Table:
    """What was copied, and how fast."""
    copy = result.copy
    assert copy is not None  # it has ended well
    table = _table("")
    table.show_header = False
    table.add_row("copied", f"{copy.copied:,}")
    table.add_row("stored up to", f"{copy.position:,} of stream {copy.stream}")
    table.add_row("time", f"{result.meter.seconds:.2f} s")
    table.add_row("messages/s", f"{per_second(copy.copied, result.meter.seconds):,}", style="bold")
    for first, last in result.skipped:
        table.add_row("not copied", f"{first:,} to {last:,}", style="yellow")
    if copy.restarts:
        table.add_row("begun again", f"{copy.restarts:,} times")
    return table


def mirror_json(result: Mirrored, source: str, target: str) -> dict[str, Any]:
    """A copy for a program, complete or not. ``position``: the sequence of the source up to which all is stored."""
    copy = result.copy
    return {
        "source": source,
        "target": target,
        "copied": result.copied,
        "position": 0 if copy is None else copy.position,
        "stream_identity": None if copy is None else copy.identity,
        "restarts": 0 if copy is None else copy.restarts,
        "skipped": [[*each] for each in result.skipped],
        "seconds": round(result.meter.seconds, 6),
        "messages_per_s": per_second(result.copied, result.meter.seconds),
    }
