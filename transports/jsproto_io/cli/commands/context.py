"""``jsproto context``: the contexts that ``nats`` and ``jsproto`` share: add, select, list and remove them.

Rules: no secret is printed.

Not here: the files (``context_files``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from jsproto_io.cli import context_files
from jsproto_io.cli.commands.streams import done
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.groups import CommandGroup
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.tables import context_list
from jsproto_io.cli.terminal import Screen, running

app = typer.Typer(
    cls=CommandGroup,
    help="Add, select, list and remove contexts: where to connect, and as whom.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="The context.", metavar="NAME", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print names alone.")]


@app.command("add", epilog="Example: jsproto context add shop --servers nats://shop:4222 --creds shop.creds --select")
@with_common
def add(
    common: Common,
    name: Name,
    description: Annotated[str | None, typer.Option(help="What it is for.", metavar="TEXT")] = None,
    select: Annotated[bool, typer.Option("--select", help="Use it where none is named.")] = False,
) -> None:
    """Write a context, or change one: the options are what it says.

    What it says already stays. A new one begins with what --context says, if that is given.
    """
    screen = common.screen()
    with running(screen):
        given = {
            "description": description, "url": common.servers, "user": common.user, "password": common.password,
            "token": common.token, "creds": common.creds, "nkey": common.nkey, "cert": common.tlscert,
            "key": common.tlskey, "ca": common.tlsca, "tls_first": common.tlsfirst or None,
            "jetstream_domain": common.js_domain,
        }  # fmt: skip
        fields = {field: value for field, value in given.items() if value is not None}
        if not fields and common.context is None:
            raise BadUsage("what does it say? Give --servers, --creds or others")
        path = context_files.save(name, fields, common.context)
        if select:
            context_files.select(name)
        done(common, {"context": name, "path": str(path)}, f"context {name} is in {path}")


@app.command("select", epilog="Example: jsproto context select shop")
def select_context(name: Name, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Use a context where none is named, also in nats."""
    screen = Screen(as_json, quiet)
    with running(screen):
        context_files.select(name)
        done(Common(as_json=as_json, quiet=quiet), {"context": name}, f"context {name} is selected")


@app.command("ls", epilog="Example: jsproto context ls")
def ls(as_json: AsJson = False, quiet: Quiet = False) -> None:
    """List the contexts. A star marks the selected one."""
    screen = Screen(as_json, quiet)
    with running(screen):
        found = context_files.listed()
        if as_json:
            for each in found:
                screen.dump(each._asdict())
        elif quiet:
            for each in found:
                screen.write(f"{each.name}\n".encode(errors="surrogateescape"))
        elif found:
            screen.out.print(context_list(found))
        else:
            screen.say("no contexts")


@app.command("rm", epilog="Example: jsproto context rm shop")
def rm(name: Name, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Remove a context. If it is the selected one, none is selected then."""
    screen = Screen(as_json, quiet)
    with running(screen):
        context_files.remove(name)
        done(Common(as_json=as_json, quiet=quiet), {"context": name}, f"context {name} is removed")
