"""A program that waits in three ways: run as ``standing_still.py DRIVER URL STREAM``.

Before each wait it prints the time by its monotonic clock, and then what came. Its parent stops it meanwhile, for
longer than it would wait.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import monotonic

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.drivers.conftest import DRIVERS, LIMIT

HEARTBEAT = LIMIT / 3  # seconds. Three of them in a row may be missing


async def use(driver: str, url: str, stream: str) -> None:
    async with DRIVERS[driver](url) as nc:
        flood, pushed = await nc.subscribe(f"{stream}.flood"), await nc.subscribe(f"{stream}.pushed")
        await nc.flush()
        print(monotonic(), flush=True)
        print((await nc.request(f"{stream}.ask", timeout=LIMIT)).data.decode(), flush=True)
        print(monotonic(), flush=True)
        print((await pushed.next_msg(timeout=LIMIT)).data.decode(), flush=True)
        async with await nc.jetstream().pull_subscribe_bind("C", stream) as sub:
            print(monotonic(), flush=True)
            (message,) = await sub.fetch(1, timeout=60, heartbeat=HEARTBEAT)
            print(message.data.decode(), flood.pending_msgs, flush=True)


if __name__ == "__main__":
    _, driver, url, stream = sys.argv
    anyio.run(use, driver, url, stream, backend="trio" if driver == "trio" else "asyncio")
