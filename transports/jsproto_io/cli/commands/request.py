"""``jsproto request``: send a request, and print what answers.

Not here: answering (``reply``).
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from jsproto.client.connection.requests import is_no_responders
from jsproto.errors import NoRespondersError, TimeoutError
from jsproto_io.cli import values
from jsproto_io.cli.commands.pub import Header, read_body
from jsproto_io.cli.commands.sub import check_raw
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.messages import Printer, Shown
from jsproto_io.cli.terminal import running

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("request", epilog="Example: jsproto request prices.tea --replies 0 --json")
@with_common
def request(
    common: Common,
    subject: Annotated[str, typer.Argument(help="Where to send it.", metavar="SUBJECT", show_default=False)],
    body: Annotated[
        str | None, typer.Argument(help="The payload; all of standard input if not given.", metavar="BODY")
    ] = None,
    header: Header = None,
    replies: Annotated[
        int, typer.Option(min=0, help="Wait for so many answers; 0: for all, until --timeout.", metavar="N")
    ] = 1,
    reply_timeout: Annotated[
        str | None, typer.Option(help="Of several answers, wait so long for the next one.", metavar="DURATION")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", "-r", help="Print payloads alone.")] = False,
) -> None:
    """Send a request, and print what answers. Several servers may answer one."""
    screen = common.screen()
    printed = 0
    with running(screen, note=lambda: f"; {printed:,} printed" if printed else "", data=lambda: {"printed": printed}):
        check_raw(raw, False, common.as_json)
        patience = None if reply_timeout is None else values.duration(reply_timeout, "--reply-timeout").total_seconds()
        options: dict[str, Any] = {"headers": values.headers(header)} if header else {}
        payload = read_body(body)
        printer = Printer(screen, raw, b"" if replies == 1 else b"\n")
        with common.connected("request") as (nc, _):
            inbox = nc.new_inbox()
            with nc.subscribe(inbox) as subscription:
                began = time.perf_counter()
                nc.publish(subject, payload, reply=inbox, **options)
                end = began + common.timeout
                while printed != replies or not replies:
                    left = max(0.0, end - time.perf_counter())
                    wait = left if not printed or patience is None else min(left, patience)
                    try:
                        message = subscription.next_msg(timeout=wait)
                    except TimeoutError:
                        if printed:
                            break
                        raise TimeoutError(f"nobody has answered on {subject} within {common.timeout:g} s") from None
                    if is_no_responders(message._raw):
                        raise NoRespondersError(subject)
                    seconds = time.perf_counter() - began
                    about = message.subject if common.as_json else f"answer after {seconds * 1_000:.3g} ms"
                    more = {"seconds": round(seconds, 6)}
                    printer.show(Shown(about, message.data, message.headers, more=more))
                    printed += 1
                    printer.flush()
