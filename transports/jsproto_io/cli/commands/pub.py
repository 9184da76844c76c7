"""``jsproto pub``: publish a message, the lines of standard input, or files.

Rules
 * One after the other: a message leaves when the one before it is stored. So what an error leaves stored is known.
 * All options are checked before the first message.

Not here: many records (``ingest``, which is quicker).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Annotated, Any

import typer

from jsproto.errors import MaxPayloadError, NoStreamResponseError
from jsproto.events import Event, ServerReportedError
from jsproto.grammar.acks import PubAck
from jsproto_io.cli import values
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.records import BadInput, BadUsage, open_source, read_lines
from jsproto_io.cli.terminal import Failure, running

app = typer.Typer(rich_markup_mode=None, add_completion=False)

Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", help="May be given again.", metavar="'NAME: VALUE'")
]


@app.command(
    "pub",
    epilog="Example: seq 10 | jsproto pub orders.new --header 'Origin: test'",
)
@with_common
def pub(
    common: Common,
    subject: Annotated[str, typer.Argument(help="Where to publish.", metavar="SUBJECT", show_default=False)],
    body: Annotated[
        str | None, typer.Argument(help="The payload; each line of standard input if not given.", metavar="BODY")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", help="Each file is a message; - is all of standard input.", metavar="FILE"),
    ] = None,
    header: Header = None,
    msg_id: Annotated[
        str | None, typer.Option(help="Store it once. Of several, {n} is the number.", metavar="TEXT")
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(
            help="Delete it after that time, or never. With --delay: after it was delivered.", metavar="DURATION"
        ),
    ] = None,
    delay: Annotated[
        str | None, typer.Option(help="The stream publishes it to --target after that time.", metavar="DURATION")
    ] = None,
    target: Annotated[str | None, typer.Option(help="With --delay: where to.", metavar="SUBJECT")] = None,
    count: Annotated[int, typer.Option(min=1, help="Publish the BODY so often.", metavar="N")] = 1,
    core: Annotated[bool, typer.Option("--core", help="No stream has to store it.")] = False,
) -> None:
    """Publish, and wait until a stream has stored it.

    Each line of standard input is one message, without its line end.
    """
    screen = common.screen()
    stored = 0
    refusals: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, ServerReportedError):
            refusals.append(event.text)

    done = "published" if core else "stored"

    def note() -> str:
        return f"; {values.counted(stored, 'message')} {done} before" if stored else ""

    with running(screen, lambda: stored, note, lambda: {done: stored}):
        many = count > 1 or (body is None and len(file or ()) != 1)
        _check_stored(core, many, msg_id, ttl, delay, target)
        options = _options(header, ttl, delay, target)
        payloads = _payloads(body, file, count)
        with common.connected("pub", event_cb=on_event) as (nc, js):
            ack, duplicates = None, 0
            for number, payload in enumerate(payloads, 1):
                if msg_id is not None:
                    options["msg_id"] = msg_id.replace("{n}", str(number)) if many else msg_id
                with _explained(number):
                    if core:
                        nc.publish(subject, payload, **options)
                    else:
                        ack = js.publish(subject, payload, **options)
                stored += 1
                if ack is not None:
                    duplicates += ack.duplicate
                    if common.as_json:
                        screen.dump({"stream": ack.stream, "seq": ack.seq, "duplicate": ack.duplicate})
                        screen.flush()
            if core:
                nc.flush()
        if core and refusals:  # which come without saying of which message
            stored = 0
            raise Failure(refusals[0])
        if common.as_json:
            if core:
                screen.dump({"ok": True, "published": stored})
            return
        screen.say(_outcome(stored, ack, duplicates))


@contextmanager
def _explained(number: int) -> Iterator[None]:
    """Say of which message an error is, and what is left to try."""
    try:
        yield
    except MaxPayloadError as error:
        raise BadInput(f"message {number:,}: {error}") from None
    except NoStreamResponseError as error:
        raise Failure(f"{error}; --core publishes without one") from None


def _check_stored(
    core: bool, many: bool, msg_id: str | None, ttl: str | None, delay: str | None, target: str | None
) -> None:
    """Check what is for streams. ``many``: there may be several messages. BadUsage: it does not fit."""
    if core and any(each is not None for each in (msg_id, ttl, delay, target)):
        raise BadUsage("--core goes without --msg-id, --ttl, --delay and --target, which are for streams")
    if msg_id is not None and many and "{n}" not in msg_id:
        raise BadUsage("several messages with one --msg-id would be stored as one: write {n} for the number")
    if (delay is None) != (target is None):
        raise BadUsage("--delay and --target go together: SUBJECT keeps the message until --target gets it")
    if delay is not None and many:
        raise BadUsage("--delay is for one message, a BODY or one --file: the next one would replace it")


def _outcome(number: int, last: PubAck | None, duplicates: int) -> str:
    """What is said at the end. ``last``: the acknowledgement of the last message, None without a stream."""
    if not number:
        return "no lines: nothing was published"
    if last is None:
        return f"{values.counted(number, 'message')} published"
    what = f"{values.counted(number, 'message')} stored, the last" if number > 1 else "stored"
    again = f", {duplicates:,} there before" if duplicates else ""
    return f"{what} as {last.seq:,} of stream {last.stream}{again}"


def _options(header: list[str] | None, ttl: str | None, delay: str | None, target: str | None) -> dict[str, Any]:
    """The keywords of a publish. BadUsage: a value is impossible."""
    options: dict[str, Any] = {}
    if header:
        options["headers"] = values.headers(header)
    if ttl is not None:  # of what is delivered: what waits for its time has none
        name = "ttl" if delay is None else "schedule_ttl"
        options[name] = ttl if ttl == "never" else values.duration(ttl, "--ttl").total_seconds()
    if delay is not None:
        options |= {"delay": values.duration(delay, "--delay"), "target": target}
    return options


def _payloads(body: str | None, files: list[str] | None, count: int) -> Iterator[bytes]:
    """What to publish. Files are read at once, so that a missing one is reported before anything is sent.

    Raises:
        BadUsage: there are none, or one cannot be read.
    """
    if body is not None:
        if files:
            raise BadUsage("give a BODY or --file, not both")
        return repeat(body.encode(errors="surrogateescape"), count)
    if count > 1:
        raise BadUsage("--count needs a BODY")
    if files:
        return iter([_content(path) for path in files])
    if sys.stdin is None or sys.stdin.isatty():
        raise BadUsage("nothing to publish: give a BODY, --file, or lines on standard input")
    return _lines()


def read_body(given: str | None) -> bytes:
    """A payload: what is given, or else all of standard input. At a terminal it is empty."""
    if given is not None:
        return given.encode(errors="surrogateescape")
    return b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()


def _content(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadUsage(f"cannot read {path}: {error.strerror}") from None


def _lines() -> Iterator[bytes]:
    with open_source("-") as source:
        for line in read_lines(source):
            yield line.removesuffix(b"\n").removesuffix(b"\r")
