"""The shop on trio: a worker that acknowledges an order before it has stored the bill, and the right one."""

from __future__ import annotations

import trio

from jsproto.errors import Error
from jsproto_io.testing.simulation import Report, current
from jsproto_io.trio import JetStream, JSMsg, connect

URL = "nats://somewhere"
ORDERS = {b"%d" % number for number in range(12)}


async def shop() -> None:
    while True:
        try:
            async with connect(URL, max_reconnect_attempts=-1) as nc:
                js = nc.jetstream()
                await js.create_stream("ORDERS", subjects=["orders.*"], storage="file", retention="workqueue")
                await js.create_stream("BILLS", subjects=["bills.*"], storage="file")
                for order in sorted(ORDERS):
                    await js.publish("orders.new", order, msg_id=order.decode())
                break
        except (Error, OSError):
            await trio.sleep(1)
    await current().healed()
    await trio.sleep(30)


async def bill(js: JetStream, order: JSMsg) -> None:
    await js.publish("bills.new", order.data, msg_id=order.data.decode())


async def worker(*, acks_first: bool) -> None:
    async with connect(URL, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        async with await js.pull_subscribe("orders.*", durable="workers", ack_wait=5) as orders:
            async for order in orders.messages():
                if acks_first:
                    await order.ack()
                await bill(js, order)
                if not acks_first:
                    await order.ack()


def check(report: Report) -> None:
    stored: list[set[object]] = [
        {message.payload for message in report.server.stream(name)} for name in ("BILLS", "ORDERS")
    ]
    assert not ORDERS - set.union(*stored), "an order was acknowledged, and has no bill"


def check_progress(report: Report) -> None:
    check(report)
    assert len(report.server.stream("ORDERS")) == 0, "the workers are stuck"
