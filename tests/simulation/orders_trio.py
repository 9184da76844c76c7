"""A program on trio that shows the orders that its tasks saw, entropy, and the clocks."""

from __future__ import annotations

import random
import secrets
import time
import uuid

import trio


async def orders() -> list[object]:
    """The order in which tasks are woken and cancelled, entropy, and the clocks."""
    seen: list[object] = []
    event = trio.Event()

    async def one(number: int) -> None:
        try:
            with trio.move_on_after(10 + number % 3):
                await event.wait()
                await trio.sleep_forever()
        finally:
            seen.append(number)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            for number in range(24):
                nursery.start_soon(one, number)
            await trio.sleep(1)
            event.set()
            await trio.sleep(10)
            scope.cancel()
    seen += [random.random(), uuid.uuid4().hex, secrets.token_hex(8), time.time(), time.monotonic()]
    return seen
