"""Draining a connection: who iterates can take and acknowledge what is there, up to a limit. Traffic delays no end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

import jsproto_io.asyncio
import jsproto_io.trio
from jsproto.errors import ConnectionClosedError, Error
from jsproto_io import sync
from tests.drivers.conftest import LIMIT, PATIENCE, Connect
from tests.drivers.test_facade import make_stream, unique
from tests.marks import promise

pytestmark = [pytest.mark.anyio, pytest.mark.server]

COUNT = 300
LOOPS: dict[str, Any] = {"asyncio": jsproto_io.asyncio.connect, "trio": jsproto_io.trio.connect}


@pytest.fixture(params=[*LOOPS])
def loop(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Of the tests with the fixture ``loop``, and of those with ``driver``."""
    if "loop" in request.fixturenames:
        name: str = request.getfixturevalue("loop")
        return name
    return "trio" if request.getfixturevalue("driver") == "trio" else "asyncio"


def filled(url: str) -> str:
    name = unique("S")
    with sync.connect(url) as nc:
        js = nc.jetstream()
        js.create_stream(name, subjects=[f"{name}.>"], allow_batched=True, storage="memory", retention="workqueue")
        with js.fast_publisher() as batch:
            batch.publish_many((f"{name}.a", b"x") for _ in range(COUNT))
            batch.commit()
    return name


def left(url: str, name: str) -> int:
    """How many messages of a work queue were not acknowledged."""
    with sync.connect(url) as nc:
        found = nc.jetstream().stream_info(name).state.messages
        nc.jetstream().delete_stream(name)
        return found


async def take(nc: Any, name: str, kind: str, counts: list[int]) -> None:
    """Take messages and acknowledge each, until the end. ``counts``: of those that were taken."""
    js = nc.jetstream()
    if kind == "fetch":
        sub = await js.pull_subscribe(f"{name}.>", durable="w")
        with suppress(ConnectionClosedError):
            while True:
                for msg in await sub.fetch(COUNT * 2):
                    counts[0] += 1
                    await anyio.sleep(0.0005)
                    await msg.ack()
        return
    if kind == "pull":
        messages = (await js.pull_subscribe(f"{name}.>", durable="w")).messages()
    else:
        messages = await js.subscribe(f"{name}.>", durable="w", delete_consumer=False)
    if kind == "next":
        with suppress(ConnectionClosedError):
            while True:
                msg = await messages.next_msg()
                counts[0] += 1
                await anyio.sleep(0.0005)
                await msg.ack()
        return
    async for msg in messages:
        counts[0] += 1
        await anyio.sleep(0.0005)
        await msg.ack()


@promise("`nc.drain()` waits, up to the connection's `timeout`")
@pytest.mark.parametrize("kind", ["pull", "push", "next", "fetch"])
async def test_what_is_buffered_can_be_acknowledged(server: Any, loop: str, kind: str) -> None:
    name = filled(server.url)
    counts = [0]
    async with LOOPS[loop](server.url, timeout=PATIENCE) as nc, anyio.create_task_group() as tasks:
        tasks.start_soon(take, nc, name, kind, counts)
        while counts[0] < (0 if kind == "fetch" else 20):
            await anyio.sleep(0.001)
        if kind == "fetch":
            await anyio.sleep(0.1)
        await nc.drain()
        assert nc.is_closed
    assert counts[0] > 20
    assert left(server.url, name) == COUNT - counts[0]


@promise("`nc.drain()` waits, up to the connection's `timeout`")
@pytest.mark.parametrize("kind", ["pull", "push"])
@pytest.mark.parametrize("reader_thread", [True, False], ids=["reader", "no reader"])
def test_threads_too(server: Any, kind: str, reader_thread: bool) -> None:
    name, taken = filled(server.url), 0
    with sync.connect(server.url, timeout=PATIENCE, reader_thread=reader_thread) as nc:
        js = nc.jetstream()
        pulled = None if kind == "push" else js.pull_subscribe(f"{name}.>", durable="w")
        messages: Any = pulled.messages() if pulled is not None else None
        if messages is None:
            messages = js.subscribe(f"{name}.>", durable="w", delete_consumer=False)
        draining = threading.Thread(target=nc.drain)
        for msg in messages:
            taken += 1
            if taken == 20:
                draining.start()
            time.sleep(0.0005)
            msg.ack()
        draining.join(PATIENCE)
        assert nc.is_closed
    assert left(server.url, name) == COUNT - taken


@promise("`nc.drain()` waits, up to the connection's `timeout`")
async def test_who_takes_no_more_delays_it_up_to_the_limit(server: Any, loop: str) -> None:
    name = filled(server.url)
    async with LOOPS[loop](server.url, timeout=LIMIT) as nc, anyio.create_task_group() as tasks:
        sub = await nc.jetstream().subscribe(f"{name}.>")
        has_one = anyio.Event()

        async def take_one() -> None:
            await sub.next_msg()
            has_one.set()
            await anyio.sleep_forever()

        tasks.start_soon(take_one)
        await has_one.wait()
        began = anyio.current_time()
        await nc.drain()
        assert LIMIT <= anyio.current_time() - began < PATIENCE
        assert nc.is_closed
        tasks.cancel_scope.cancel()
    left(server.url, name)


@pytest.mark.parametrize("who", ["the caller", "ended", "unsubscribed", "closed"])
async def test_who_will_take_no_more_delays_nothing(server: Any, loop: str, who: str) -> None:
    name = filled(server.url)
    async with LOOPS[loop](server.url, timeout=PATIENCE) as nc, anyio.create_task_group() as tasks:
        js = nc.jetstream()
        pulled = await js.pull_subscribe(f"{name}.>", durable="w") if who == "closed" else None
        sub = pulled.messages() if pulled is not None else await js.subscribe(f"{name}.>")
        ready = anyio.Event()

        async def take_one(ends: bool) -> None:
            await sub.next_msg()
            if who == "unsubscribed":
                await sub.unsubscribe()
            elif who == "closed":
                await sub.close()
            ready.set()
            if not ends:
                await anyio.sleep_forever()

        if who == "the caller":
            await take_one(True)
        else:
            tasks.start_soon(take_one, who == "ended")
        await ready.wait()
        await anyio.sleep(0)
        with anyio.fail_after(PATIENCE / 4):
            await nc.drain()
        assert nc.is_closed
        tasks.cancel_scope.cancel()
    left(server.url, name)


# -- beside constant traffic -------------------------------------------------------------------------------------------

ENDS: dict[str, Callable[[Any, Any, str], Awaitable[object]]] = {}


def an_end(verb: Callable[[Any, Any, str], Awaitable[object]]) -> Callable[[Any, Any, str], Awaitable[object]]:
    ENDS[verb.__name__] = verb
    return verb


@an_end
async def core_drain(nc: Any, js: Any, name: str) -> None:
    await (await nc.subscribe(f"{name}.>")).drain()


@an_end
async def callback_drain(nc: Any, js: Any, name: str) -> None:
    await (await nc.subscribe(f"{name}.>", cb=lambda msg: None)).drain()


@an_end
async def push_drain(nc: Any, js: Any, name: str) -> None:
    await (await js.subscribe(f"{name}.>", cb=lambda msg: None)).drain()


@an_end
async def push_unsubscribe(nc: Any, js: Any, name: str) -> None:
    await (await js.subscribe(f"{name}.>")).unsubscribe()


@an_end
async def ordered_drain(nc: Any, js: Any, name: str) -> None:
    await (await js.subscribe(f"{name}.>", ordered=True)).drain()


@an_end
async def pull_drain(nc: Any, js: Any, name: str) -> None:
    sub = await js.pull_subscribe(f"{name}.>")
    async with sub.messages() as messages:
        await messages.next_msg()
        await sub.drain()


@an_end
async def pull_unsubscribe(nc: Any, js: Any, name: str) -> None:
    sub = await js.pull_subscribe(f"{name}.>")
    await sub.fetch(10)
    await sub.unsubscribe()


@an_end
async def connection_drain(nc: Any, js: Any, name: str) -> None:
    kept = [
        await js.subscribe(f"{name}.>", cb=lambda msg: None),
        await nc.subscribe(f"{name}.>", cb=lambda msg: None),
        await js.pull_subscribe(f"{name}.>"),
    ]
    await nc.drain()
    del kept


@pytest.mark.parametrize("end", [*ENDS])
async def test_an_end_comes_beside_constant_traffic(server: Any, connect: Connect, end: str) -> None:
    stop = threading.Event()

    def publish(name: str) -> None:
        with sync.connect(server.url) as nc:
            while not stop.is_set():
                for _ in range(100):
                    nc.publish(f"{name}.a", b"x" * 100)
                nc.flush()

    async with connect(server.url) as nc:
        js, name = await make_stream(nc, max_msgs=10_000)
        thread = threading.Thread(target=publish, args=(name,))
        thread.start()
        try:
            with anyio.fail_after(PATIENCE / 2):
                await ENDS[end](nc, js, name)
        finally:
            stop.set()
            thread.join()
        with suppress(Error):
            await js.delete_stream(name)


def test_a_task_that_ends_without_asking_again_delays_nothing(server: Any) -> None:
    """Its last message was acknowledged, and its loop left."""
    name = filled(server.url)

    async def main() -> None:
        async with jsproto_io.asyncio.connect(server.url, timeout=PATIENCE) as nc:
            sub = await nc.jetstream().subscribe(f"{name}.>", durable="w", delete_consumer=False)

            async def work() -> None:
                async for msg in sub:
                    await msg.ack()
                    await asyncio.sleep(0.1)
                    return

            task = asyncio.create_task(work())
            await asyncio.sleep(0.05)
            async with asyncio.timeout(PATIENCE / 4):
                await nc.drain()
            await task

    asyncio.run(main())
    assert left(server.url, name) == COUNT - 1
