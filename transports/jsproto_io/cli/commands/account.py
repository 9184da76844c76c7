"""``jsproto account``: what the account uses of JetStream, and who is connected as what.

Not here: the numbers (``jsproto.grammar.account``), their table (``tables``).
"""

from __future__ import annotations

import typer

from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.groups import CommandGroup
from jsproto_io.cli.tables import account_table
from jsproto_io.cli.terminal import running

app = typer.Typer(
    cls=CommandGroup,
    help="Show the limits of the account, and what it uses.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """Keep ``account info`` a command of a group."""


@app.command("info", epilog="Example: jsproto account info --json")
@with_common
def info(common: Common) -> None:
    """Show limits and use of the account, and the connection."""
    screen = common.screen()
    with running(screen), common.connected("account info") as (nc, js):
        found = js.account_info()
        if common.as_json:
            screen.dump(found.to_json())
        else:
            server = nc.server_info
            about = "" if server is None else f", {server.server_name}, nats-server {server.version}"
            screen.out.print(account_table(found, f"{nc.connected_url}{about}"))
