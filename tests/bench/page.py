"""One page with plots of a series: HTML that stands alone, with the plots inside it as SVG.

It shows the CPU for each message by client and job, the ratios to the hand-written loop and to nats-py, the whole
report, and where it was measured. matplotlib draws. It is in the extra ``bench``.

Not here: what is measured (``series``), the report as text (``report``).
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any, Final

from jsproto_io.nats_server import find_binary
from tests.bench import report
from tests.bench.series import ResultRow
from tests.bench.table import JOBS

COLOURS: Final = {
    "jsproto-sync": "#0b4f8a",
    "jsproto-asyncio": "#2f86c9",
    "jsproto-trio": "#86bde6",
    "jsproto-sync-iterator": "#5a6fb0",
    "nats-py": "#d9651d",
    "nats-py-callback": "#f0a35e",
    "nats-jetstream-extra": "#6a9a3a",
    "raw-socket": "#8a8a8a",
}
OTHERS: Final = "#b03a6f"  # of a client that is new
BASELINES: Final = {"raw-socket": "the hand-written loop", "nats-py": "nats-py"}
COLUMNS: Final = 3  # of plots beside each other
PACKAGES: Final = ("jsproto", "nats-py", "nats-jetstream", "nats-jetstream-extra", "trio", "matplotlib")

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; } td { padding: 2px 16px 2px 0; vertical-align: top; }
td:first-child { color: #666; }
pre { font-size: 12px; line-height: 1.35; overflow-x: auto; background: #f6f6f4; padding: 1em; }
svg { width: 100%; height: auto; }
"""


def page(rows: Sequence[ResultRow], when: datetime) -> str:
    """The whole page. ``rows`` are those of a series, and of the core."""
    plots = [row for row in rows if row.job in JOBS]
    body = [
        "<h1>jsproto: what a message costs</h1>",
        "<p>CPU of the client's process for each message in µs, user and system. Medians. Shorter bars are better.</p>",
        table(facts(plots, when)),
        "<h2>CPU for each message</h2>",
        drawn(bars(plots)),
        "<h2>Times the CPU of others</h2>",
        "<p>Left of the line a driver needs less than the other client does at the same job.</p>",
        drawn(ratios(plots)),
        "<h2>The report</h2>",
        f"<pre>{escape(chr(10).join(report.lines(rows)))}</pre>",
    ]
    head = f'<meta charset="utf-8"><title>jsproto: what a message costs</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


# -- where it was measured ---------------------------------------------------------------------------------------------


def facts(rows: Sequence[ResultRow], when: datetime) -> Iterator[tuple[str, str]]:
    """Names and values: the machine, the versions, the date, the rounds."""
    yield "date", when.strftime("%Y-%m-%d %H:%M %Z").strip()
    rounds = sorted({row.rounds for row in rows})
    yield "rounds", " to ".join(map(str, dict.fromkeys((rounds[0], rounds[-1])))) if rounds else "none"
    yield "machine", f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}"
    yield "server", server_version()
    yield "packages", ", ".join(f"{name} {found}" for name in PACKAGES if (found := package_version(name)))


def processor() -> str:
    """What the processor is called."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def server_version() -> str:
    """What the server says of itself."""
    return subprocess.run([find_binary(None), "--version"], capture_output=True, text=True, check=True).stdout.strip()


def package_version(name: str) -> str:
    """The version that is installed. Empty: none is."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def table(values: Iterator[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>\n" for name, value in values)
    return f"<table>\n{cells}</table>"


# -- plots -------------------------------------------------------------------------------------------------------------


def figure(width: float, height: float) -> Any:
    """An empty figure, in inches. Its words stay words in the SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(
        {"svg.fonttype": "none", "font.sans-serif": "DejaVu Sans", "font.size": 8, "svg.hashsalt": "bench"}
    )
    return Figure(figsize=(width, height), layout="constrained")


def drawn(plot: Any) -> str:
    """A figure as an SVG element."""
    text = StringIO()
    plot.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def bars(rows: Sequence[ResultRow]) -> Any:
    """A plot for each job, with a bar for each client."""
    jobs = [job for job in JOBS if any(row.job == job for row in rows)]
    lines = -(-len(jobs) // COLUMNS)
    most = max((sum(row.job == job for row in rows) for job in jobs), default=1)
    plot = figure(12, 0.4 + 1.6 * max(lines, 1))
    axes = plot.subplots(max(lines, 1), COLUMNS, squeeze=False).flat
    for axis, job in zip(axes, jobs, strict=False):
        mine = {row.client: row for row in rows if row.job == job}
        clients = [client for client in JOBS[job].clients if client in mine]
        costs = [mine[client].cpu_us_per_msg for client in clients]
        drawn_bars = axis.barh(clients, costs, color=[COLOURS.get(client, OTHERS) for client in clients])
        axis.bar_label(drawn_bars, list(map(shown, costs)), padding=2, fontsize=7)
        axis.set_title(f"{job}, {size(mine[clients[0]].size)}", loc="left", fontweight="bold", fontsize=9)
        axis.set_xlim(0, max(costs) * 1.15)
        axis.set_ylim(most - 0.5, -0.5)  # all bars are as thick, and the first is on top
        plain(axis)
    for axis in list(axes)[len(jobs) :]:
        axis.set_axis_off()
    return plot


def shown(cost: float) -> str:
    """Three digits, or as many as there are."""
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"


def size(number: int) -> str:
    """Bytes as people say them."""
    return f"{number // 1024} KiB" if number % 1024 == 0 else f"{number} B"


def ratios(rows: Sequence[ResultRow]) -> Any:
    """For each baseline, how many times its CPU each driver needs, by job."""
    from matplotlib.ticker import LogLocator, NullLocator

    found = {(row.job, row.client): row.cpu_us_per_msg for row in rows}
    ours = [client for client in COLOURS if client.startswith("jsproto-") and any(key[1] == client for key in found)]
    jobs = [job for job in reversed(JOBS) if any((job, client) in found for client in ours)]
    plot = figure(12, 1.2 + 0.26 * max(len(jobs), 1))
    left, right = plot.subplots(1, 2, sharey=True)
    for axis, (baseline, name) in zip((left, right), BASELINES.items(), strict=True):
        for client in ours:
            points = [
                (found[job, client] / found[key], place)
                for place, job in enumerate(jobs)
                if (job, client) in found and (key := baseline_of(job, baseline)) in found
            ]
            axis.scatter(*zip(*points, strict=True), s=34, color=COLOURS[client], label=client) if points else None
        axis.axvline(1, color="#222", linewidth=1)
        axis.set_xscale("log")
        axis.set_xlabel(f"times the CPU of {name}")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.grid(axis="both", color="#e4e4e0")
        axis.set_axisbelow(True)
        plain(axis)
    left.set_yticks(range(len(jobs)), jobs)
    left.set_ylim(-0.6, max(len(jobs), 1) - 0.4)
    if ours:
        handles = [left.scatter([], [], color=COLOURS[client], label=client) for client in ours]
        plot.legend(handles=handles, loc="outside upper center", ncols=len(ours), frameon=False)
    return plot


def baseline_of(job: str, client: str) -> tuple[str, str]:
    """The row that a job is compared with: its own of that client, or the one that the table names."""
    named = [key for key in JOBS[job].against if key[1] == client]
    return named[0] if named and client not in JOBS[job].clients else (job, client)


def plain(axis: Any) -> None:
    """No frame above and to the right."""
    axis.spines[["top", "right"]].set_visible(False)
