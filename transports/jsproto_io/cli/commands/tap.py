"""``jsproto tap``: its options, and what it prints.

Not here: what the bytes mean (``jsproto_io.cli.tapping``), sockets (``relaying``), recordings (``transcripts``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Annotated, Final

import typer

from jsproto.client.connection.connect_options import connect_options
from jsproto.grammar.subjects import check_subject
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.relaying import Piece, Relay
from jsproto_io.cli.report import BatchPlot, batch_table
from jsproto_io.cli.tapping import Seen, Tap
from jsproto_io.cli.terminal import Screen, running
from jsproto_io.cli.transcripts import Recording, recorded

app = typer.Typer(rich_markup_mode=None, add_completion=False)

AGAIN: Final = 0.2  # seconds until it is asked whether Ctrl-C was pressed


@app.command(
    "tap",
    epilog="Example: jsproto tap nats://localhost:4222 --listen 4223 --subject 'orders.>' --save orders.json",
)
def tap_command(
    url: Annotated[str | None, typer.Argument(help="The server.", metavar="URL", show_default=False)] = None,
    listen: Annotated[
        str, typer.Option(help="Where clients connect: a port of this machine, or ADDRESS:PORT. 0: a free port.")
    ] = "0",
    subject: Annotated[
        str | None, typer.Option(help="Print messages of this subject, and their answers. Wildcards are allowed.")
    ] = None,
    batch: Annotated[str | None, typer.Option(help="Print what is about this batch.", metavar="ID")] = None,
    save: Annotated[Path | None, typer.Option(help="Record everything, without credentials.", metavar="FILE")] = None,
    replay: Annotated[Path | None, typer.Option(help="Print a recording, without any server.", metavar="FILE")] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="At the end, draw a fast-ingest batch: that of --batch, or the largest.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """See what is on the wire: pass a client's bytes to a server and back, and print each frame as a line.

    Bytes pass unchanged, and whatever they are. Behind TLS only the server's INFO can be read. Clients that reconnect
    may go to servers that INFO names, past the tap. Ctrl-C ends it, and all links.
    """
    screen = Screen(as_json, quiet)
    tap = Tap()

    def show(seen: Iterable[Seen]) -> None:
        shown = [each for each in seen if each.is_line and each.concerns(subject, batch)]
        screen.write("".join(f"{json.dumps(each.to_json()) if as_json else each}\n" for each in shown).encode())

    def end() -> None:
        screen.flush()
        if plot and not as_json:
            found = tap.batches.get(batch) if batch is not None else max(
                tap.batches.values(), key=lambda each: each.sent.last[1], default=None
            )  # fmt: skip
            if found is None:
                screen.note("there is no fast-ingest batch to draw")
            else:
                screen.out.print(batch_table(found))
                screen.out.print(BatchPlot(found))

    with running(screen, note=lambda: f"; {tap.summary()}", data=lambda: {"frames": sum(tap.frames.values())}) as stop:
        if (url is None) == (replay is None):
            raise BadUsage("give the URL of a server, or --replay FILE")
        if replay is not None and save is not None:
            raise BadUsage("give --save or --replay, not both")
        if subject is not None:
            check_subject(subject, wildcards=True)
        if replay is not None:
            for each in recorded(replay):
                show(tap.received(each.link, each.direction, each.raw, each.when))
            end()
            screen.note(tap.summary())
            return
        (server, *more) = connect_options(url or "").servers
        if more:
            raise BadUsage("give one server")
        with ExitStack() as stack:
            recording = stack.enter_context(Recording(save, f"a tap of {server.url}")) if save is not None else None
            relay = Relay(_address(listen), (server.host, server.port))
            began = monotonic()

            def take(piece: Piece) -> None:
                now = piece.when - began
                if piece.client:
                    seen = tap.opened(piece.link, piece.client, now)
                elif piece.data:
                    seen = tap.received(piece.link, piece.direction, piece.data, now)
                else:
                    seen = tap.ended(piece.link, piece.direction, now, piece.why)
                if recording is not None:
                    recording.add(seen)
                show(seen)

            with stop.held():  # what has been read is shown whole, and nothing is left out before the end
                with relay:
                    where = f"nats://{_address(listen)[0]}:{relay.port}"
                    screen.note(f"connect to {where} instead of {server.url}; Ctrl-C ends it")
                    while not stop.signum:
                        if (piece := relay.take(AGAIN)) is not None:
                            take(piece)
                            screen.flush()
                while (piece := relay.take(0)) is not None:
                    take(piece)
                end()


def _address(text: str) -> tuple[str, int]:
    """``PORT`` or ``ADDRESS:PORT``. BadUsage for anything else."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadUsage(f"--listen is a port, or ADDRESS:PORT, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
