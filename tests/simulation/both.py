"""Programs that are the same on asyncio and on trio, and what their reports have to say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from jsproto.errors import ConnectionClosedError, NoServersError
from jsproto.testing import Fault, NetworkConditions
from jsproto_io.testing.simulation import Report, search, simulate

URL: Final = "nats://somewhere"

report_of = partial(simulate, must_pass=False)
"""Simulates a program, and gives the report of a failure, too."""
first_failing = partial(search, must_pass=False)
"""Gives the first report that fails, or None."""

Connect = Callable[..., Any]
Run = Callable[..., Report]


async def _knows_nothing(connect: Connect) -> list[bytes]:
    async with connect(URL) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"], allow_direct=True)
        for number in range(3):
            await js.publish("s", b"%d" % number)
        return [(await js.get_msg("S", seq)).data for seq in (1, 2, 3)]


def check_that_it_knows_nothing(run: Run, connect: Connect) -> Report:
    """A client that knows nothing of the simulation. ``run``: simulates a program. Returns the report."""
    report = run(partial(_knows_nothing, connect), faults=(), conditions=NetworkConditions(latency=0.1))
    assert report.error is None, report
    assert report.result == [b"0", b"1", b"2"]
    assert report.server.stream("S").last_seq == 3
    assert 2.0 < report.now < 2.5  # the handshake takes five ways, each request two
    return report


async def _sees_breaks(connect: Connect, sleep: Callable[[float], Awaitable[object]]) -> list[str]:
    seen = []
    try:
        async with connect(URL, max_reconnect_attempts=0) as nc:
            await sleep(2)
            await nc.flush()
    except ConnectionClosedError as error:
        seen.append(str(error))
    try:
        async with connect(URL):
            pass
    except NoServersError as error:
        seen.append(str(error))
    return seen


def check_that_it_sees_breaks(run: Run, connect: Connect, sleep: Callable[[float], Awaitable[object]]) -> None:
    """Links that break, and servers that are down. ``run``: simulates a program. ``sleep``: that of the loop."""
    faults = [Fault("cut", 1.0), Fault("restart", 1.5, 5.0)]
    report = run(partial(_sees_breaks, connect, sleep), faults=faults, conditions=NetworkConditions())
    assert report.error is None, report
    assert "reset" in report.result[0]
    assert "refused" in report.result[1]
