"""``jsproto rtt``: measure the round trip to the server.

Not here: whether it is good enough (``server check connection``).
"""

from __future__ import annotations

from statistics import fmean
from typing import Annotated

import typer

from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.terminal import running

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("rtt", epilog="Example: jsproto rtt 20")
@with_common
def rtt(
    common: Common,
    iterations: Annotated[int, typer.Argument(min=1, help="How many round trips.", metavar="N")] = 5,
) -> None:
    """Measure the round trip to the server that takes the connection."""
    screen = common.screen()
    with running(screen), common.connected("rtt") as (nc, _):
        times = [nc.rtt() for _ in range(iterations)]
        url, mean = nc.connected_url or "", fmean(times)
        if common.as_json:
            screen.dump({"url": url, "seconds": mean, "all": times})
        else:
            low, high = min(times) * 1_000, max(times) * 1_000
            screen.out.print(f"{url}: {mean * 1_000:.3g} ms, mean of {iterations:,} ({low:.3g} to {high:.3g} ms)")
