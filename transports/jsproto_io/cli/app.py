"""The command ``jsproto``: its version, completion for shells, and the group of all commands.

Not here: how commands are found (``groups``), the commands (``commands``), error lines, exit codes and signals
(``terminal``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from jsproto_io.cli.groups import LazyGroup

app = typer.Typer(
    cls=LazyGroup,
    help="Look at NATS JetStream, put messages into it, get them back, and copy streams.",
    epilog="Exit codes: 0 done, 1 failed or mismatch, 2 wrong usage, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the plain help is half as long
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from jsproto import __version__

        print(f"jsproto {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass
