"""How the commands show results, progress and errors, and how they end.

| code    | meaning |
|---------|---------|
| 0       | done |
| 1       | it failed, or the output differs from the input |
| 2       | wrong usage |
| 130 143 | ended by Ctrl-C or SIGTERM |
| 141     | whoever reads standard output has closed it |

Rules
 * Results go to standard output, everything else to standard error.
 * With ``--json`` standard output has JSON objects alone, one a line. After a failure the last one says so.
 * A progress bar shows on a terminal alone.
 * A reader that goes away ends the command without a word, as SIGPIPE ends other programs.
 * Each failure by input, server or user becomes one line, which also says what was acknowledged. A traceback is a
   defect.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from jsproto.api_errors import (
    BatchPublishDisabledError,
    ConsumerWQRequiresExplicitAckError,
    MessageSchedulesDisabledError,
    MessageTTLDisabledError,
)
from jsproto.errors import ConnectionClosedError, Error, LocalProtocolError, NoStreamResponseError
from jsproto_io.cli.records import BadInput, BadUsage
from jsproto_io.nats_server import NatsServerNotFoundError


class Failure(Exception):
    """A command has failed. The text says why, and what to do."""


BROKEN_PIPE: Final = 128 + 13  # SIGPIPE, which Windows does not have
FAILURES: Final = (BadUsage, BadInput, Failure, Error, OSError, KeyboardInterrupt)


def one_line(text: str) -> str:
    """``text`` on one line, freed of control characters for the terminal: it may come from a peer."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))


def check_somebody_can_be_asked() -> None:
    """BadUsage where standard input is something other than a terminal, which leaves nobody to ask."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadUsage("there is no terminal to ask at: add --force")


def explain(error: BaseException) -> str:
    """The text for ``error``."""
    if isinstance(error, BatchPublishDisabledError):
        return "the stream has allow_batched off: add --allow-batched to switch it on"
    if isinstance(error, NoStreamResponseError):
        return f"{error}; --create-stream makes one"
    if isinstance(error, ConsumerWQRequiresExplicitAckError):
        return f"{error}; --ack takes the messages, and jsproto get leaves them there"
    if isinstance(error, (MessageTTLDisabledError, MessageSchedulesDisabledError)):
        option = "--allow-msg-ttl" if isinstance(error, MessageTTLDisabledError) else "--allow-msg-schedules"
        return f"{error.description}: jsproto stream edit STREAM {option}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def exit_code(error: BaseException, sent: int) -> int:
    """The exit code for ``error``. A mistake in the options shows before anything is sent."""
    mistake = isinstance(error, LocalProtocolError) and not isinstance(error, ConnectionClosedError)
    return 2 if isinstance(error, (BadUsage, NatsServerNotFoundError)) or (mistake and not sent) else 1


class _Console(Console):
    """A console that leaves a closed pipe to ``running``."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise it again: rich would end the process by itself."""
        raise BrokenPipeError


class Screen:
    """Standard output and standard error.

    With ``quiet`` there are no notes, and of results only what a command says is needed.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        # No markup: names come from files and peers.
        self.out = _Console(highlight=False, markup=False, emoji=False)
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def dump(self, data: dict[str, Any]) -> None:
        """Print one JSON object for a program."""
        self.write(json.dumps(data).encode() + b"\n")

    def say(self, line: str) -> None:
        """Print a line for people, unless they want none."""
        if not self.quiet:
            self.out.print(Text(one_line(line)), soft_wrap=True)

    def write(self, raw: bytes) -> None:
        """Print bytes as they are."""
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)

    def flush(self) -> None:
        """Wait until everything is with whoever reads it. BrokenPipeError: nobody does."""
        sys.stdout.flush()
        sys.stdout.buffer.flush()

    def confirm(self, question: str) -> None:
        """Ask a person at the terminal.

        Raises:
            Failure: the answer is not yes.
        """
        self.err.print(Text(f"{one_line(question)} [y/N] "), end="", soft_wrap=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Failure("not confirmed: nothing was changed")

    def complain(self, line: str) -> None:
        """Print one line on standard error."""
        self.err.print(Text.assemble(("jsproto: ", "bold red"), line), soft_wrap=True)

    def note(self, line: str) -> None:
        """Print one line on standard error that is no error, unless nobody wants notes."""
        if not self.quiet:  # not by rich, which prints again what an interruption follows at once
            print(f"jsproto: {one_line(line)}", file=sys.stderr, flush=True)

    def progress(self, *columns: ProgressColumn) -> Progress:
        """A progress display that disappears at the end. It shows on a terminal alone."""
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *columns,
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
            disable=self.quiet or not self.err.is_terminal,
        )


@contextmanager
def bytes_shown(
    screen: Screen, what: str, total: Callable[[], int | None] = lambda: None
) -> Iterator[Callable[[int], None]]:
    """Show how many bytes went over the link: a block, with what to call with their number so far.

    ``total``: how many there will be, asked where somebody looks. None: that is unknown.
    """
    with screen.progress(BarColumn(20), DownloadColumn(binary_units=True), TransferSpeedColumn()) as progress:
        task = progress.add_task(one_line(what), total=None if progress.disable else total())
        yield lambda size: progress.update(task, completed=size)


class Stop:
    """A handler of signals: the first one raises KeyboardInterrupt, the second one ends the process.

    ``signum`` is the number of the first signal, 0 before.
    """

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
        """A block that holds signals back. KeyboardInterrupt follows after it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.signum:
            raise KeyboardInterrupt


def _nothing() -> str:
    return ""


@contextmanager
def running(
    screen: Screen,
    sent: Callable[[], int] = int,
    note: Callable[[], str] = _nothing,
    data: Callable[[], dict[str, Any]] = dict,
) -> Iterator[Stop]:
    """Run a command. A failure becomes a line, the JSON object with ``--json``, and an exit code.

    Args:
        screen: where to print.
        sent: returns how many records were sent.
        note: returns what to add to the error line.
        data: returns the JSON object so far.
    """
    stop = Stop()
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
        screen.flush()
    except BrokenPipeError:  # of standard output: a lost connection is a ConnectionLostError
        _give_up_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except FAILURES as error:
        # After a signal the work may fail in its own way: the line reports the signal. And a handler of another
        # module may have raised the KeyboardInterrupt.
        if isinstance(error, KeyboardInterrupt) and not stop.signum:
            stop.signum = signal.SIGINT
        line = one_line(("interrupted" if stop.signum else explain(error)) + note())
        screen.complain(line)
        try:
            if screen.as_json:
                screen.dump({**data(), "ok": False, "error": line})
            screen.flush()
        except OSError:  # nobody reads it, or there is no room where it goes
            _give_up_output()
        raise typer.Exit(128 + stop.signum if stop.signum else exit_code(error, sent())) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _give_up_output() -> None:
    """Lead standard output nowhere, which keeps the interpreter quiet when it ends."""
    with suppress(OSError, ValueError):
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)
