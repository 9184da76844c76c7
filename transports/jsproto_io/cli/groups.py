"""How the commands are found: each one's module is imported when it is called, and wrong usage is one line.

Rules
 * ``jsproto --version``, ``--help`` and each command import what they need themselves, and that alone.
 * What typer says of wrong options becomes one line on standard error, and exit code 2.

Not here: which commands there are (``app``), and failures while a command runs (``terminal``).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from jsproto_io.cli.terminal import Screen, one_line

COMMANDS: Final = {
    "stream": ("streams", "List, look at, make, change, empty and delete streams."),
    "consumer": ("consumers", "List, look at, make, delete, pause and reset consumers."),
    "pub": ("pub", "Publish a message, lines of standard input, or files."),
    "sub": ("sub", "Print the messages of a subject as they come."),
    "request": ("request", "Send a request, and print what answers."),
    "reply": ("reply", "Answer requests with a text, an echo, or a program."),
    "consume": ("consume", "Print the messages of a stream, or of a consumer."),
    "get": ("get", "Print stored messages: one, a range, last ones, a snapshot."),
    "kv": ("kv", "Keep keys and values in buckets, and watch them."),
    "object": ("objects", "Keep objects of any size in buckets: files, for example."),
    "ingest": ("ingest", "Publish the records of a file, or of standard input."),
    "mirror": ("mirror", "Copy a stream into another one, each message once."),
    "account": ("account", "Show the limits of the account, and what it uses."),
    "context": ("context", "Add, select, list and remove contexts: where to connect, as whom."),
    "tap": ("tap", "Print what a client and its server say to each other."),
    "rtt": ("rtt", "Measure the round trip to the server."),
    "server": ("server", "Check servers, streams and consumers, for monitors."),
    "bench": ("bench", "Measure publishing and reading on your server."),
    "serve": ("serve", "Run a JetStream server in memory, for tests."),
    "demo": ("demo", "Send real flight records in, read them back, compare."),
}
"""Each command, its module in ``jsproto_io.cli.commands``, and its line in the help."""
ALIASES: Final = {
    "str": ["stream"], "con": ["consumer"], "publish": ["pub"], "subscribe": ["sub"],
    "req": ["request"], "ctx": ["context"], "obj": ["object"], "save": ["add"],
    "add": ["create"], "new": ["add", "create"], "list": ["ls"], "nfo": ["info"], "status": ["info"],
    "rm": ["del"], "del": ["rm"], "delete": ["rm", "del"],
}  # fmt: skip
"""Further names that users of ``nats`` type, and the commands that they may stand for in a group."""
_CLICK_ERROR: Final = cast(
    "type[Exception]", typer.BadParameter.__mro__[2]
)  # of click, or of the copy of it that typer has


class CommandGroup(TyperGroup):
    """A group whose commands have the further names of ``ALIASES``, which the help leaves out."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command. None: there is none of this name."""
        names = [cmd_name, *ALIASES.get(cmd_name, ())]
        return next((found for name in names if (found := self.found(ctx, name)) is not None), None)

    def found(self, ctx: Any, name: str) -> Any:
        """The command of this very name."""
        return super().get_command(ctx, name)


class LazyGroup(CommandGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return [*COMMANDS]

    def found(self, ctx: Any, name: str) -> Any:
        """The command of this very name, imported now."""
        if name not in COMMANDS:
            return None
        module, about = COMMANDS[name]
        command = get_command(import_module(f"jsproto_io.cli.commands.{module}").app)
        command.name, command.short_help = name, about
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The part of the help that lists the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line. It ends the process, unless ``standalone_mode`` is False."""
        standalone = extra.get("standalone_mode", True)
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            if not standalone:
                return code
            sys.exit(code)
        except _CLICK_ERROR as error:
            if not standalone:
                raise
            complain(error)
            sys.exit(3 if " server check" in command_path(error) else 2)  # monitors read 2 as an alarm


def complain(error: Any) -> None:
    """Say in one line what is wrong with the options, or show the help where none were given."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    text = (
        error.format_message().partition(", unable to parse")[0].replace("Input should be", "it should be").rstrip(".")
    )
    Screen().complain(one_line(f"{text}: see {command_path(error)} --help"))


def command_path(error: Any) -> str:
    """The command that was used in a wrong way."""
    return str(error.ctx.command_path) if getattr(error, "ctx", None) is not None else "jsproto"
