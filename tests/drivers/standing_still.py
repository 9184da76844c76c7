"""A program that asks, and then fetches: run as ``standing_still.py DRIVER URL STREAM``. It prints what comes of both.

Its parent stops it twice for longer than it would wait, while the answers come.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.drivers.conftest import DRIVERS, LIMIT

HEARTBEAT = LIMIT / 3  # seconds. Three of them in a row may be missing


async def use(driver: str, url: str, stream: str) -> None:
    async with DRIVERS[driver](url) as nc:
        response = await nc.request(f"{stream}.ask", timeout=LIMIT)
        print(response.data.decode(), flush=True)
        async with await nc.jetstream().pull_subscribe_bind("C", stream) as sub:
            (message,) = await sub.fetch(1, timeout=60, heartbeat=HEARTBEAT)
            print(message.data.decode(), flush=True)


if __name__ == "__main__":
    _, driver, url, stream = sys.argv
    anyio.run(use, driver, url, stream, backend="trio" if driver == "trio" else "asyncio")
