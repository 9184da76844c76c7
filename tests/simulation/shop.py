"""An application that knows nothing of simulations: a shop that puts orders into a work queue, and workers.

``worker_that_acks_first`` has a bug that no test on a healthy network finds: it acknowledges an order before it has
stored the bill. ``worker`` is right.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from jsproto.errors import Error
from jsproto_io.asyncio import JetStream, JSMsg, connect

URL: Final = "nats://localhost:4222"
ORDERS: Final = 12


async def shop() -> None:
    """Create the streams and store all orders, each once, however often the connection is lost."""
    while True:
        try:
            async with connect(URL, max_reconnect_attempts=-1) as nc:
                js = nc.jetstream()
                await js.create_stream("ORDERS", subjects=["orders.*"], storage="file", retention="workqueue")
                await js.create_stream("BILLS", subjects=["bills.*"], storage="file")
                for number in range(ORDERS):
                    await js.publish("orders.new", b"%d" % number, msg_id=f"order-{number}")
                return
        except (Error, OSError):
            await asyncio.sleep(1)


async def bill(js: JetStream, order: JSMsg) -> None:
    """Store the bill of an order, once."""
    await js.publish("bills.new", order.data, msg_id=f"bill-{order.data.decode()}")


async def worker() -> None:
    """Write a bill for each order, then acknowledge it."""
    async with connect(URL, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        async with await js.pull_subscribe("orders.*", durable="workers", ack_wait=5) as orders:
            async for order in orders.messages():
                await bill(js, order)
                await order.ack()


async def worker_that_acks_first() -> None:
    """Acknowledge each order, then write its bill."""
    async with connect(URL, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        async with await js.pull_subscribe("orders.*", durable="workers", ack_wait=5) as orders:
            async for order in orders.messages():
                await order.ack()
                await bill(js, order)


async def dies() -> None:
    """End the process, as one that the system kills."""
    os._exit(9)
