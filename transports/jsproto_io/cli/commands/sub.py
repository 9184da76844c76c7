"""``jsproto sub``: print the messages of a subject as they come, without JetStream.

Not here: the messages of a stream (``consume``).
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.connecting import LinkNotes
from jsproto_io.cli.messages import Printer, Shown, raw_end
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.terminal import running

app = typer.Typer(rich_markup_mode=None, add_completion=False)

Raw = Annotated[bool, typer.Option("--raw", help="Print payloads alone, with a line end after each.")]
Null = Annotated[bool, typer.Option("--null", "-0", help="With --raw: a null byte after each, no line end.")]
Count = Annotated[int | None, typer.Option(min=1, help="End after so many messages.", metavar="N")]


@app.command(
    "sub",
    epilog="Example: jsproto sub 'orders.>' --json | jq .subject",
)
@with_common
def sub(
    common: Common,
    subject: Annotated[
        str, typer.Argument(help="What to receive, wildcards allowed.", metavar="SUBJECT", show_default=False)
    ],
    queue: Annotated[str | None, typer.Option(help="Share the messages in this group.", metavar="NAME")] = None,
    count: Count = None,
    headers_only: Annotated[bool, typer.Option("--headers-only", help="Print no payloads.")] = False,
    raw: Raw = False,
    null: Null = False,
) -> None:
    """Print the messages of a subject as they come, until Ctrl-C or --count. What came before is gone."""
    screen = common.screen()
    taken = 0

    with running(screen, note=lambda: f"; {taken:,} received" if taken else "", data=lambda: {"received": taken}):
        check_raw(raw, null, common.as_json)
        if raw and headers_only:
            raise BadUsage("give --raw or --headers-only, not both")
        printer = Printer(screen, raw, raw_end(null), headers_only=headers_only)
        options: dict[str, Any] = {"event_cb": LinkNotes(screen), "max_reconnect_attempts": -1}
        with common.connected("sub", **options) as (nc, _), nc.subscribe(subject, queue=queue) as subscription:
            nc.flush()
            screen.note(f"waiting for messages of {subject}; Ctrl-C ends it")
            for message in subscription:
                printer.show(Shown(message.subject, message.data, message.headers, reply=message.reply))
                taken += 1
                printer.flush()
                if taken == count:
                    break


def check_raw(raw: bool, null: bool, as_json: bool) -> None:
    """BadUsage where the options of printing contradict each other."""
    if null and not raw:
        raise BadUsage("--null needs --raw")
    if raw and as_json:
        raise BadUsage("give --raw or --json, not both")
