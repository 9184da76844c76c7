"""``jsproto reply``: answer the requests of a subject, with a text, with what they say, or by a program.

Rules: a program gets the payload as its standard input, and the subject as ``NATS_REQUEST_SUBJECT``. No shell runs it.

Not here: asking (``request``).
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jsproto_io.cli import values
from jsproto_io.cli.commands.pub import Header
from jsproto_io.cli.commands.sub import Count
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.connecting import LinkNotes
from jsproto_io.cli.messages import Printer, Shown
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.terminal import Screen, running

if TYPE_CHECKING:
    from jsproto_io.sync import Message

app = typer.Typer(rich_markup_mode=None, add_completion=False)

QUEUE = "NATS-RPLY-22"  # that of the command nats: both share the requests


@app.command("reply", epilog="Example: jsproto reply 'words.*' --command 'wc -w'")
@with_common
def reply(
    common: Common,
    subject: Annotated[
        str, typer.Argument(help="What to answer, wildcards allowed.", metavar="SUBJECT", show_default=False)
    ],
    body: Annotated[str | None, typer.Argument(help="The answer.", metavar="BODY", show_default=False)] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Answer with the request's payload and headers.")] = False,
    command: Annotated[
        str | None, typer.Option(help="Answer with what this program makes of the payload.", metavar="COMMAND")
    ] = None,
    header: Header = None,
    queue: Annotated[str, typer.Option("--queue", help="Share the requests in this group.", metavar="NAME")] = QUEUE,
    count: Count = None,
) -> None:
    """Print the requests of a subject as they come, and answer each, until Ctrl-C or --count."""
    screen = common.screen()
    taken = 0
    with running(screen, note=lambda: f"; {taken:,} received" if taken else "", data=lambda: {"received": taken}):
        if sum([body is not None, echo, command is not None]) != 1:
            raise BadUsage("what to answer? Give one of BODY, --echo and --command")
        own: dict[str, Any] = {"headers": values.headers(header)} if header else {}
        answer = _answer(screen, body, command, own)
        printer = Printer(screen)
        options: dict[str, Any] = {"event_cb": LinkNotes(screen), "max_reconnect_attempts": -1}
        with common.connected("reply", **options) as (nc, _), nc.subscribe(subject, queue=queue) as subscription:
            nc.flush()
            screen.note(f"waiting for requests of {subject}; Ctrl-C ends it")
            for message in subscription:
                printer.show(Shown(message.subject, message.data, message.headers, reply=message.reply))
                printer.flush()
                if message.reply:
                    answer(message)
                taken += 1
                if taken == count:
                    break
            nc.flush()


def _answer(screen: Screen, body: str | None, command: str | None, own: dict[str, Any]) -> Callable[[Message], None]:
    """How a request is answered. BadUsage: the program cannot be run."""
    if body is not None:
        payload = body.encode(errors="surrogateescape")
        return lambda message: message.respond(payload, **own)
    if command is None:
        return lambda message: message.respond(message.data, headers={**_fields(message), **own.get("headers", {})})
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadUsage(f"--command: {error}") from None
    if not words:
        raise BadUsage("--command: it names no program")

    def run(message: Message) -> None:
        environment = {**os.environ, "NATS_REQUEST_SUBJECT": message.subject}
        done = subprocess.run(words, input=message.data, stdout=subprocess.PIPE, env=environment, check=False)
        if done.returncode:
            screen.note(f"{words[0]} ended with {done.returncode}: no answer was sent")
        else:
            message.respond(done.stdout, **own)

    return run


def _fields(message: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in message.headers.items():
        found.setdefault(name, []).append(value)
    return found
