"""The shop in simulations: what the command and the tests run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jsproto_io.asyncio import connect
from jsproto_io.testing.simulation import Report, current
from tests.simulation import shop

ALL = {b"%d" % number for number in range(shop.ORDERS)}
right: dict[str, Callable[[], Awaitable[object]]] = {"one": shop.worker, "two": shop.worker}
wrong: dict[str, Callable[[], Awaitable[object]]] = {
    "one": shop.worker_that_acks_first,
    "two": shop.worker_that_acks_first,
}
hosts = wrong


async def main() -> None:
    """All orders are placed, the faults end, and the workers have time."""
    await shop.shop()
    await current().healed()
    await asyncio.sleep(30)


def check(report: Report) -> None:
    """Safety: asked of the server. An order is in the queue, or has its bill."""
    bills = {message.payload for message in report.server.stream("BILLS")}
    left = {message.payload for message in report.server.stream("ORDERS")}
    lost = ALL - bills - left
    assert not lost, f"{len(lost)} orders were acknowledged, and have no bill"


def check_progress(report: Report) -> None:
    """Liveness: after everything is healed the queue becomes empty."""
    check(report)
    assert len(report.server.stream("ORDERS")) == 0, "the workers are stuck"


async def hundred_messages() -> int:
    """Connect, create, store 100 messages by fast ingest, and read them back. Returns how many were read."""
    async with connect(shop.URL) as nc:
        js = nc.jetstream()
        await js.create_stream("EVENTS", subjects=["events.>"], allow_batched=True, allow_direct=True)
        async with js.fast_publisher() as batch:
            for number in range(100):
                await batch.publish("events.click", b"%d" % number)
        return len([message async for message in js.get_batch("EVENTS", seq=1, batch=100)])
