"""``jsproto serve``: a server in memory.

Not here: what it does (``jsproto_io.serve``).
"""

from __future__ import annotations

import typer

from jsproto_io import serve as serves
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.terminal import Screen, running

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def serve_command(context: typer.Context) -> None:
    """Run a JetStream server in memory, for tests of any client. It is for tests.

    The flags are those of "python -m jsproto_io.serve", and --memory.
    """
    arguments = list(context.args)
    with running(Screen()):
        if not {"--memory", "--help", "-h"} & set(arguments):
            raise BadUsage("this server keeps all in memory and is no database: say so with --memory")
        code = serves.main([each for each in arguments if each != "--memory"], program="jsproto serve --memory")
    raise typer.Exit(code)
