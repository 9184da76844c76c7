"""An audit as a page: one HTML file that needs nothing else, with its plots inside.

Rules: whatever comes from a stream is escaped. Nothing is drawn of nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from io import BytesIO
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from rich.filesize import decimal

from jsproto.grammar.times import format_timestamp
from pyspark_jetstream.pipelines.jobs.findings import OTHERS, Findings

COLOURS: Final = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2"]
GREY: Final = "#9498a0"
BARS: Final = 15
SHOWN: Final = 50  # rows of a table
OUTLIER: Final = 4  # times what nine of ten bins have at most
STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: right; }
td:first-child, th:first-child { text-align: left; } th { border-bottom: 1px solid #bbb; font-weight: 600; }
tr:nth-child(even) td { background: #f6f6f6; } img { max-width: 100%; }
.good { color: #18794e; } .bad { color: #b42318; }
.note { color: #666; }
"""


def time_text(micros: int) -> str:
    """RFC 3339, to the millisecond."""
    return format_timestamp(micros // 1_000 * 1_000_000)


def page(title: str, facts: Iterable[tuple[str, str]], found: Findings) -> str:
    """The whole file."""
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        _table(None, facts),
        _verdicts(found),
    ]
    if found.messages:
        picture = base64.b64encode(plots(found)).decode()
        parts += [f"<h2>Plots</h2><img alt='plots' src='data:image/png;base64,{picture}'>", _subjects(found)]
    parts += [_gaps(found), _duplicates(found), "</html>"]
    return "\n".join(part for part in parts if part)


def _table(head: Sequence[str] | None, rows: Iterable[Sequence[Any]]) -> str:
    shown = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    first = "" if head is None else f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"
    return f"<table>{first}{shown}</table>"


def _verdicts(found: Findings) -> str:
    lines = []
    if found.missing is None:
        lines.append(("note", "Gaps were not looked for: a subject was chosen, so sequences are missing anyway."))
    elif found.missing:
        lines.append(("bad", f"Missing sequences: {found.missing:,}. Gaps: {found.gaps:,}."))
    else:
        lines.append(("good", "No sequence is missing."))
    if not found.with_id:
        lines.append(("note", "No message has an id, so duplicates cannot be told."))
    elif found.repeated:
        lines.append(
            (
                "bad",
                f"Message ids stored more than once: {found.repeated_ids:,}. Messages too many: {found.repeated:,}.",
            )
        )
    else:
        lines.append(("good", f"No message id comes twice ({found.with_id:,} messages have one)."))
    return "".join(f"<p class='{kind}'>{escape(text)}</p>" for kind, text in lines)


def _subjects(found: Findings) -> str:
    head = ["subject", "messages", "bytes", "smallest", "mean", "largest", "messages/s", "first", "last"]
    rows = [
        (
            share.subject, f"{share.messages:,}", decimal(share.bytes), f"{share.smallest:,}",
            f"{share.bytes / share.messages:,.0f}", f"{share.largest:,}", f"{share.rate:,.1f}", time_text(share.first),
            time_text(share.last),
        )
        for share in found.shares[:SHOWN]
    ]  # fmt: skip
    title = f"<h2>{'Subjects' if found.subjects <= SHOWN else f'{SHOWN} busiest of {found.subjects:,} subjects'}</h2>"
    return title + _table(head, rows)


def _gaps(found: Findings) -> str:
    if not found.largest_gaps:
        return ""
    rows = [(f"{gap.first:,}", f"{gap.last:,}", f"{gap.missing:,}") for gap in found.largest_gaps[:SHOWN]]
    title = "Gaps" if found.gaps <= SHOWN else f"{SHOWN} largest of {found.gaps:,} gaps"
    return f"<h2>{title}</h2>" + _table(["first missing", "last missing", "messages"], rows)


def _duplicates(found: Findings) -> str:
    if not found.duplicates:
        return ""
    rows = [
        (each.msg_id, each.times, f"{each.first_seq:,}", f"{each.last_seq:,}", f"{each.seconds:,.3f} s")
        for each in found.duplicates[:SHOWN]
    ]
    title = "Duplicates" if found.repeated_ids <= SHOWN else f"First {SHOWN} of {found.repeated_ids:,} repeated ids"
    head = ["message id", "times stored", "first sequence", "last sequence", "from first to last"]
    return f"<h2>{title}</h2>" + _table(head, rows)


# -- plots -------------------------------------------------------------------------------------------------------------


def plots(found: Findings) -> bytes:
    """A picture, PNG: rates over time, the busiest subjects, sizes, gaps."""
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    if found.largest_gaps:
        figure.set_size_inches(13, 11)
        rates, volumes, subjects, sizes, missing = figure.subplot_mosaic("AB;CD;EE", height_ratios=[4, 4, 3]).values()
        _missing(missing, found)
    else:
        rates, volumes, subjects, sizes = figure.subplot_mosaic("AB;CD").values()
    _over_time(rates, found, 0, "messages per second")
    _over_time(volumes, found, 1, "bytes per second")
    _busiest(subjects, found)
    _sizes(sizes, found)
    handles, labels = rates.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 4), frameon=False, fontsize=9)
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)


def _literal(text: str) -> str:
    """A subject as it is: matplotlib reads what is between dollars as mathematics, and hides what begins with _."""
    return text.replace("$", r"\$") if not text.startswith("_") else "\u200b" + text.replace("$", r"\$")


def compact(number: float, _: object = None) -> str:
    """``250k``."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.3g}"


def _over_time(axes: Axes, found: Findings, which: int, title: str) -> None:
    span, unit = 1.0, "s"
    for size, name in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if (found.last - found.first) / 1e6 > 3 * size:
            span, unit = size, name
            break
    series: list[tuple[str, list[float], str]] = []
    colours = iter(COLOURS)
    for name, values in found.bins.items():
        rate = [pair[which] / found.bin_seconds for pair in values]
        series.append((name, rate, GREY if name == OTHERS else next(colours)))
    edges = [place * found.bin_seconds / span for place in range(len(series[0][1]) + 1)]
    bottom = [0.0] * (len(edges) - 1)
    for name, rates, colour in series:
        top = [low + rate for low, rate in zip(bottom, rates, strict=True)]
        axes.stairs(top, edges, baseline=bottom, fill=True, color=colour, label=_literal(name))
        bottom = top
    axes.set_xlim(0, edges[-1])
    highest = _highest(bottom)
    axes.set_ylim(0, highest)
    if highest is not None:
        title = f"{title} (outliers up to {compact(max(bottom))} are cut off)"
    axes.set_xlabel(f"{unit} since {time_text(found.first)}")
    axes.yaxis.set_major_formatter(FuncFormatter(compact))
    _plain(axes, title)


def _highest(rates: Sequence[float]) -> float | None:
    """Where an axis ends if a few outliers would squeeze the rest. None: it shows everything."""
    busy = sorted(rate for rate in rates if rate)
    usual = busy[len(busy) * 9 // 10] if busy else 0.0
    return 1.2 * usual if busy and busy[-1] > OUTLIER * usual else None


def _busiest(axes: Axes, found: Findings) -> None:
    shown = found.shares[:BARS][::-1]
    axes.barh([_literal(share.subject[:40]) for share in shown], [share.messages for share in shown], color=COLOURS[0])
    for place, share in enumerate(shown):
        axes.text(share.messages, place, f" {decimal(share.bytes)}", va="center", fontsize=8, color="#444")
    axes.xaxis.set_major_formatter(FuncFormatter(compact))
    axes.margins(x=0.15)
    _plain(axes, f"messages by subject ({len(shown)} of {found.subjects:,}), and their bytes")
    axes.grid(axis="y", visible=False)


def _sizes(axes: Axes, found: Findings) -> None:
    units = ("", "KiB", "MiB", "GiB")
    labels = [f"< {2 ** (exponent % 10)} {units[exponent // 10]}" for exponent, _ in found.sizes]
    axes.bar(labels, [count for _, count in found.sizes], color=COLOURS[3])
    axes.yaxis.set_major_formatter(FuncFormatter(compact))
    axes.tick_params(axis="x", labelsize=8)
    _plain(axes, "messages by size in bytes")


def _missing(axes: Axes, found: Findings) -> None:
    places, counts = [gap.first for gap in found.largest_gaps], [gap.missing for gap in found.largest_gaps]
    axes.vlines(places, 0, counts, color=COLOURS[2], lw=2)
    axes.plot(places, counts, "o", color=COLOURS[2], markersize=4)
    axes.set_ylim(0, None)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("sequence")
    _plain(axes, "gaps: where, and how many messages")
