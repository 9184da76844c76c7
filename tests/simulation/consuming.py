"""Applications with callbacks on a pull consumer, and with dead letters: what simulations run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from jsproto.errors import Error
from jsproto_io.asyncio import JetStream, JSMsg, connect
from jsproto_io.testing.simulation import Report, current
from tests.simulation import shop

KEYS: Final = 3
ORDERS: Final = 15
ALL: Final = {b"%d" % number for number in range(ORDERS)}
FAILING: Final = {b"%d" % number for number in range(0, ORDERS, 2)}
TERMINATED: Final = {b"%d" % number for number in range(0, ORDERS, 4)}

Host = Callable[[], Awaitable[object]]


# -- nothing is acknowledged before its callback has returned ----------------------------------------------------------


async def worker() -> None:
    """Write a bill for each order of the shop."""
    async with connect(shop.URL, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()

        async def bill(order: JSMsg) -> None:
            await asyncio.sleep(0.05)
            await shop.bill(js, order)

        orders = await js.pull_subscribe("orders.*", durable="workers", ack_wait=5)
        await orders.consume(bill, concurrency=3, key=lambda order: order.data[-1]).wait_closed()


workers: dict[str, Host] = {"one": worker, "two": worker}


# -- order within a key ------------------------------------------------------------------------------------------------


async def in_order() -> list[tuple[str, int]]:
    """Work on orders of three customers. Callbacks take any time, and fail. Returns what began, failed and ended."""
    told: list[tuple[str, int]] = []
    async with connect(shop.URL) as nc:
        js = nc.jetstream()
        await js.create_stream("ORDERS", subjects=["orders.*"])
        done = asyncio.Event()

        async def work(order: JSMsg) -> None:
            number = int(order.data)
            told.append(("begins", number))
            await asyncio.sleep(random.choice((0, 0.01, 0.1)))
            if random.random() < 0.2:
                told.append(("fails", number))
                raise LookupError(number)
            told.append(("ends", number))
            if len([each for each in told if each[0] == "ends"]) == ORDERS:
                done.set()

        orders = await js.pull_subscribe("orders.*", durable="W", ack_wait=5)
        async with orders.consume(work, concurrency=4, key=lambda order: order.subject, retry_delay=0.05):
            for number in range(ORDERS):
                await js.publish(f"orders.{number % KEYS}", b"%d" % number)
            await done.wait()
    return told


def check_order(report: Report) -> None:
    """Each order is done once. Those of a customer are done one after the other, in order."""
    assert report.error is None, report.error
    for customer in range(KEYS):
        told = [(what, number) for what, number in report.result if number % KEYS == customer]
        assert [what for what, _ in told[::2]] == ["begins"] * (len(told) // 2), "two of a customer at once"
        assert [number for _, number in told[::2]] == [number for _, number in told[1::2]]
        ended = [number for what, number in told if what == "ends"]
        assert ended == list(range(customer, ORDERS, KEYS)), f"out of order, or twice: {ended}"


# -- dead letters ------------------------------------------------------------------------------------------------------


async def keep(js: JetStream) -> None:
    """Keep dead letters until the end."""
    async with await js.dead_letters("ORDERS", "billing", to="DEAD", retry_delay=0.5) as letters:
        await letters.wait_closed()


async def undertaker() -> None:
    """Keep dead letters until it is killed."""
    async with connect(shop.URL, max_reconnect_attempts=-1) as nc:
        await keep(nc.jetstream())


async def failing_worker() -> None:
    """Bill the orders. Some cannot be billed."""
    async with connect(shop.URL, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()

        async def bill(order: JSMsg) -> None:
            if order.data in TERMINATED:
                raise ValueError("no such thing")
            if order.data in FAILING:
                raise LookupError("not now")
            await js.publish("bills.new", order.data, msg_id=f"bill-{order.data.decode()}")

        orders = await js.pull_subscribe("orders.*", durable="billing", ack_wait=3, max_deliver=3)
        await orders.consume(bill, concurrency=2, retry_delay=0.2, term_on=ValueError).wait_closed()


async def dead_letters() -> None:
    """Place the orders once the advisories are kept, and give all hosts time."""
    while True:
        with suppress(Error, OSError):
            async with connect(shop.URL, max_reconnect_attempts=-1) as nc:
                js = nc.jetstream()
                await js.create_stream("ORDERS", subjects=["orders.*"], storage="file")
                await js.create_stream("BILLS", subjects=["bills.*"], storage="file")
                # Ids are forgotten at once: what is stored twice is stored twice.
                await js.create_stream("DEAD", subjects=["dead.>"], storage="file", duplicate_window=0.1)
                await (await js.dead_letters("ORDERS", "billing", to="DEAD")).stop()
                for number in range(ORDERS):
                    await js.publish("orders.new", b"%d" % number, msg_id=f"order-{number}")
                break
        await asyncio.sleep(1)
    await current().healed()
    await asyncio.sleep(60)


undertakers: dict[str, Host] = {"worker": failing_worker, "one": undertaker, "two": undertaker}


def check_dead_letters(report: Report) -> None:
    """Each dead letter is there once. In the end each order is billed or dead, and those that fail are dead."""
    assert report.error is None, report.error
    letters = [message.payload for message in report.server.stream("DEAD")]
    assert len(letters) == len(set(letters)), f"a dead letter is there twice: {letters}"
    bills = {message.payload for message in report.server.stream("BILLS")}
    if any(fault.kind == "leaderless" and fault.stream == "ORDERS-GIVEN-UP" for fault in report.faults):
        return  # an advisory is sent once, and a stream without a leader does not keep it
    assert bills | set(letters) == ALL, "an order is neither billed nor dead"
    assert set(letters) >= FAILING | TERMINATED, "a dead letter is missing"
