"""A program that waits in several ways: run as ``standing_still.py DRIVER URL STREAM``.

Before each wait it prints the time by its monotonic clock, and then what came. Its parent stops it meanwhile, for
longer than it would wait.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from jsproto.errors import TimeoutError
from tests.drivers.conftest import DRIVERS, LIMIT

HEARTBEAT = LIMIT / 3  # seconds. Three of them in a row may be missing


async def use(driver: str, url: str, stream: str) -> None:
    async with DRIVERS[driver](url) as nc:
        flood, pushed = await nc.subscribe(f"{stream}.flood"), await nc.subscribe(f"{stream}.pushed")
        await nc.flush()
        async with anyio.create_task_group() as tasks:  # on threads, another wait reads, and one more ends before
            for limit in (60, 0.9 * LIMIT):
                tasks.start_soon(wait_in_vain, await nc.subscribe(f"{stream}.silent"), limit)
            print(monotonic(), flush=True)
            print((await nc.request(f"{stream}.ask", timeout=LIMIT)).data.decode(), flush=True)
            tasks.cancel_scope.cancel()
        print(monotonic(), flush=True)
        print((await pushed.next_msg(timeout=LIMIT)).data.decode(), flush=True)
        async with await nc.jetstream().pull_subscribe_bind("C", stream) as sub:
            print(monotonic(), flush=True)
            (message,) = await sub.fetch(1, timeout=60, heartbeat=HEARTBEAT)
            print(message.data.decode(), flood.pending_msgs, flush=True)


async def wait_in_vain(silent: Any, limit: float) -> None:
    with suppress(TimeoutError):
        await silent.next_msg(timeout=limit)


if __name__ == "__main__":
    _, driver, url, stream = sys.argv
    anyio.run(use, driver, url, stream, backend="trio" if driver == "trio" else "asyncio")
