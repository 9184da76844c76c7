"""How the commands talk to people and how they end: results, progress, error lines, signals.

Exit codes: 0 done; 1 it failed, or what came out is not what went in; 2 it cannot be asked for like that; 130
and 143 stopped by Ctrl-C and SIGTERM.

Rules: results go to standard output, everything else to standard error; with ``--json`` standard output is
one JSON object, also after a failure. No progress bar where nobody watches it. A traceback is a bug of this
program: whatever the input, the server or the user can do becomes one line that also says what was
acknowledged.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from jsproto.api_errors import BatchPublishDisabledError
from jsproto.errors import ConnectionClosedError, Error, LocalProtocolError, NoStreamResponseError
from jsproto_io.cli.records import BadInput, BadUsage
from jsproto_io.nats_server import NatsServerNotFoundError

FAILURES: Final = (BadUsage, BadInput, Error, OSError, KeyboardInterrupt)


def one_line(text: str) -> str:
    """``text`` on one line, without anything a terminal would obey: it may come from a peer."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))


def explain(error: BaseException) -> str:
    """What to tell people about ``error``."""
    if isinstance(error, BatchPublishDisabledError):
        return "the stream has allow_batched off: add --allow-batched to switch it on"
    if isinstance(error, NoStreamResponseError):
        return f"{error}; --create-stream makes one"
    return str(error) or type(error).__name__


def exit_code(error: BaseException, sent: int) -> int:
    """The exit code for ``error``; a mistake in what was asked for shows before anything is sent."""
    mistake = isinstance(error, LocalProtocolError) and not isinstance(error, ConnectionClosedError)
    return 2 if isinstance(error, (BadUsage, NatsServerNotFoundError)) or (mistake and not sent) else 1


class Screen:
    """Standard output and standard error."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        # No markup: names come from files and peers.
        self.out = Console(highlight=False, markup=False, emoji=False)
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def dump(self, data: dict[str, Any]) -> None:
        """One JSON object for a program."""
        self.out.print(json.dumps(data), soft_wrap=True)

    def complain(self, line: str) -> None:
        """One line on standard error."""
        self.err.print(Text.assemble(("jsproto: ", "bold red"), line), soft_wrap=True)

    def progress(self, *columns: ProgressColumn) -> Progress:
        """A progress display that disappears at the end, and is not there at all where nobody watches."""
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *columns,
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
            disable=not self.err.is_terminal,
        )


class Stop:
    """The first Ctrl-C or SIGTERM raises KeyboardInterrupt, the second ends the process; ``signum`` keeps the first."""

    def __init__(self) -> None:
        self.signum = 0
        self._held = False

    def __call__(self, signum: int, _: FrameType | None) -> None:
        if self.signum:
            os._exit(128 + signum)
        self.signum = signum
        if not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block that the first one does not break into: KeyboardInterrupt is raised behind it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.signum:
            raise KeyboardInterrupt


@contextmanager
def running(
    screen: Screen, sent: Callable[[], int], note: Callable[[], str], data: Callable[[], dict[str, Any]]
) -> Iterator[Stop]:
    """Run a command: its failures become a line, the JSON object if asked for, and an exit code.

    ``sent()`` tells how many records were sent, ``note()`` what to add to the line, ``data()`` the JSON so far.
    """
    stop = Stop()
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except FAILURES as error:
        # After a signal the work may fail in its own way: the line reports the signal. And a handler of another
        # module may have raised the KeyboardInterrupt.
        if isinstance(error, KeyboardInterrupt) and not stop.signum:
            stop.signum = signal.SIGINT
        line = one_line(("interrupted" if stop.signum else explain(error)) + note())
        screen.complain(line)
        if screen.as_json:
            screen.dump({**data(), "ok": False, "error": line})
        raise typer.Exit(128 + stop.signum if stop.signum else exit_code(error, sent())) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
