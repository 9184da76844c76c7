"""How the commands are found: each one's module is imported when it is called, and wrong usage is one line.

Rules
 * ``jsproto --version`` and each command import what they need themselves, and that alone.
 * What typer says of wrong options becomes one line on standard error, and exit code 2.
 * ``--help`` shows all commands, and so imports them all.

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
    "stream": "streams", "consumer": "consumers", "pub": "pub", "sub": "sub", "consume": "consume", "get": "get",
    "kv": "kv", "ingest": "ingest", "mirror": "mirror", "bench": "bench", "serve": "serve", "demo": "demo",
}  # fmt: skip
"""Each command, and its module in ``jsproto_io.cli.commands``."""
_CLICK_ERROR: Final = cast(
    "type[Exception]", typer.BadParameter.__mro__[2]
)  # of click, or of the copy of it that typer has


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, imported now. None: there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"jsproto_io.cli.commands.{COMMANDS[cmd_name]}")
        command = get_command(module.app)
        command.name = cmd_name
        return command

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
            sys.exit(2)


def complain(error: Any) -> None:
    """Say in one line what is wrong with the options, or show the help where none were given."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    text = error.format_message().rstrip(".")
    path = error.ctx.command_path if getattr(error, "ctx", None) is not None else "jsproto"
    Screen().complain(one_line(f"{text}: see {path} --help"))
