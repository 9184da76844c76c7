"""``jsproto demo``: its options and what it shows.

Not here: what it does (``jsproto_io.cli.demo``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer
from rich.progress import BarColumn, TextColumn
from rich.text import Text

from jsproto_io.cli import demo as demos
from jsproto_io.cli import report
from jsproto_io.cli.commands.ingest import BAR_WIDTH
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.connecting import open_connection
from jsproto_io.cli.demo import Demo
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.terminal import Screen, running
from jsproto_io.cli.values import counted
from jsproto_io.nats_server import NatsServer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("demo")
@with_common
def demo_command(
    common: Common,
    rows: Annotated[int, typer.Option(min=1, help="How many of the flights to send.", metavar="N")] = demos.FLIGHTS,
    stream: Annotated[
        str, typer.Option(help="The stream to make; in lower case it begins the subjects.", metavar="NAME")
    ] = "FLIGHTS",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stream on the server (needs --servers).")] = False,
) -> None:
    """Send 336,776 real flight records into JetStream, read them all back, and compare.

    Starts a nats-server of its own on a free port of this machine, with a temporary store, and removes it at
    the end. NATS_URL is ignored. With --servers or --context it makes a stream on a running server, and deletes it at
    the end.
    """
    screen = common.screen()
    own_server = common.servers is None and common.context is None
    demo = Demo(stream=stream, own_server=own_server)
    sent, note, data = lambda: demo.ingest.sent, lambda: _demo_note(demo), lambda: report.demo_json(demo)
    with running(screen, sent, note, data) as stop:
        if keep and own_server:
            raise BadUsage("--keep needs --servers: the demo's own server is removed together with its store")
        flights = demos.find_flights()
        with ExitStack() as stack:
            on_event = demo.ingest.on_event
            if own_server:
                with stop.held():  # an interrupted start would leave a process
                    url = stack.enter_context(NatsServer()).url
                nc = stack.enter_context(open_connection(url, name="jsproto demo", event_cb=on_event))
            else:
                nc, _ = stack.enter_context(common.connected("demo", event_cb=on_event))
            on_ingested, on_read = stack.enter_context(_demo_progress(screen, min(rows, demos.FLIGHTS)))
            demo.server, demo.url = nc.server_info.version if nc.server_info else "", nc.connected_url or ""
            keep = keep or own_server  # the demo's own server is removed with its store
            demos.run(nc, demo, flights, rows, keep=keep, on_ingested=on_ingested, on_read=on_read)
        if common.as_json:
            screen.dump(report.demo_json(demo))
        else:
            _show_demo(screen, demo)
        if not demo.equal:
            raise typer.Exit(1)


@contextmanager
def _demo_progress(screen: Screen, total: int) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    with screen.progress(BarColumn(BAR_WIDTH), TextColumn("{task.completed:,} of {task.total:,}")) as progress:
        going_in = progress.add_task("in: fast ingest", total=total)
        coming_out = progress.add_task("out: Direct Get", total=total, start=False)

        def on_ingested(count: int) -> None:
            progress.update(going_in, completed=count)

        def on_read(count: int) -> None:
            progress.start_task(coming_out)
            progress.update(coming_out, completed=count)

        yield on_ingested, on_read


def _demo_note(demo: Demo) -> str:
    note = ""
    if demo.ingest.acks:
        note = f"; {demo.ingest.acked:,} of {counted(demo.ingest.sent, 'record')} sent were acknowledged"
    if demo.came_out.count:
        note += f", {demo.came_out.count:,} read back"
    if demo.stream_left:
        note += f"; stream {demo.stream} is left on the server"
    return note


def _show_demo(screen: Screen, demo: Demo) -> None:
    how = "started for this run" if demo.own_server else demo.url
    screen.out.print(Text(f"nats-server {demo.server} ({how}), stream {demo.stream}"))
    screen.out.print(report.demo_table(demo))
    screen.out.print(
        report.Throughput(("in", "green", demo.ingest.meter.samples), ("out", "cyan", demo.reading.samples))
    )
    screen.out.print(Text(report.demo_verdict(demo), style="bold green" if demo.equal else "bold red"))
