"""What every driver must do with a ``timeout``: hold it, whatever waits to be written and whether there is a link."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from math import inf
from typing import Any

import anyio
import pytest

from jsproto.errors import TimeoutError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.fake import FakeServer, Peer
from tests.drivers.test_outage import lose
from tests.drivers.test_reconnect import make_stream, until
from tests.marks import promise

pytestmark = pytest.mark.anyio

LIMIT = 0.01  # seconds
ROOM = 1_000  # bytes that may wait

Verb = Callable[[Any, Any], Awaitable[Any]]
VERBS: dict[str, Verb] = {
    "request": lambda nc, js: nc.request("a", timeout=LIMIT),
    "flush": lambda nc, js: nc.flush(timeout=LIMIT),
    "publish": lambda nc, js: js.publish("a", timeout=LIMIT),
    "publish_by_default": lambda nc, js: nc.jetstream(timeout=LIMIT).publish("a"),
    "publish_async": lambda nc, js: js.publish_async("a", wait_stall=LIMIT),
    "account_info": lambda nc, js: js.account_info(timeout=LIMIT),
    "create_stream": lambda nc, js: js.create_stream("S", timeout=LIMIT),
    "update_stream": lambda nc, js: js.update_stream("S", subjects=["a"], timeout=LIMIT),
    "stream_info": lambda nc, js: js.stream_info("S", timeout=LIMIT),
    "delete_stream": lambda nc, js: js.delete_stream("S", timeout=LIMIT),
    "stream_names": lambda nc, js: js.stream_names(timeout=LIMIT),
    "find_stream": lambda nc, js: js.find_stream("a", timeout=LIMIT),
    "stream_subjects": lambda nc, js: js.stream_subjects("S", timeout=LIMIT),
    "purge_stream": lambda nc, js: js.purge_stream("S", timeout=LIMIT),
    "delete_msg": lambda nc, js: js.delete_msg("S", 1, timeout=LIMIT),
    "secure_delete_msg": lambda nc, js: js.secure_delete_msg("S", 1, timeout=LIMIT),
    "get_msg": lambda nc, js: js.get_msg("S", 1, timeout=LIMIT),
    "get_last_msg": lambda nc, js: js.get_last_msg("S", "a", level="leader", timeout=LIMIT),
    "get_data": lambda nc, js: js.get_data("S", 1, timeout=LIMIT),
    "snapshot": lambda nc, js: js.snapshot("S", timeout=LIMIT),
    "session_publish": lambda nc, js: js.consistent_session(timeout=LIMIT).publish("a"),
    "session_get_msg": lambda nc, js: js.consistent_session().get_msg("S", 1, timeout=LIMIT),
    "session_get_last_msg": lambda nc, js: js.consistent_session().get_last_msg("S", "a", timeout=LIMIT),
    "create_consumer": lambda nc, js: js.create_consumer("S", ConsumerConfig(), timeout=LIMIT),
    "update_consumer": lambda nc, js: js.update_consumer("S", "C", description="d", timeout=LIMIT),
    "consumer_info": lambda nc, js: js.consumer_info("S", "C", timeout=LIMIT),
    "consumer_names": lambda nc, js: js.consumer_names("S", timeout=LIMIT),
    "consumers_info": lambda nc, js: js.consumers_info("S", timeout=LIMIT),
    "delete_consumer": lambda nc, js: js.delete_consumer("S", "C", timeout=LIMIT),
    "pause_consumer": lambda nc, js: js.pause_consumer("S", "C", 1, timeout=LIMIT),
    "pause_consumer_for": lambda nc, js: js.pause_consumer("S", "C", timedelta(1), timeout=LIMIT),
    "resume_consumer": lambda nc, js: js.resume_consumer("S", "C", timeout=LIMIT),
    "reset_consumer": lambda nc, js: js.reset_consumer("S", "C", timeout=LIMIT),
    "unpin_consumer": lambda nc, js: js.unpin_consumer("S", "C", "g", timeout=LIMIT),
    "pull_subscribe_bind": lambda nc, js: js.pull_subscribe_bind("C", "S", timeout=LIMIT),
    "subscribe_by_default": lambda nc, js: nc.jetstream(timeout=LIMIT).subscribe("a", stream="S"),
    "pull_subscribe_by_default": lambda nc, js: nc.jetstream(timeout=LIMIT).pull_subscribe("a", stream="S"),
}


@asynccontextmanager
async def without_link(connect: Connect, size: int) -> AsyncIterator[Any]:
    """A connection that has lost its server, with ``size`` bytes and a bit that wait for another one."""
    with FakeServer(Peer.handshake) as server:
        async with connect(server.url, reconnect_time_wait=60, pending_size=ROOM) as nc:
            sub = await nc.subscribe("nothing")
            while nc._session._link is not None:
                with pytest.raises(TimeoutError):
                    await sub.next_msg(timeout=0.01)
            await nc.publish("a", bytes(size))
            yield nc


@promise("Raises, with nothing sent: TimeoutError: there was no room within ``wait_stall``.")
@promise("Every verb raises, besides what it lists itself")
@promise("TimeoutError: there was no room within ``wait_stall``. Nothing was sent.")
@pytest.mark.parametrize("size", [0, ROOM * 2 // 3, 2 * ROOM], ids=["empty", "congested", "full"])
async def test_without_a_link(connect: Connect, size: int) -> None:
    async with without_link(connect, size) as nc:
        assert nc._session.congested == (size > 0)
        js = nc.jetstream(timeout=60)
        for name, verb in VERBS.items():
            if name == "publish_async" and size <= ROOM:
                continue  # it finds room
            with anyio.fail_after(10), pytest.raises(TimeoutError):
                await verb(nc, js)


@promise("Every verb raises, besides what it lists itself")
@pytest.mark.parametrize("name", ["request", "publish", "stream_info"])
async def test_a_server_that_takes_nothing(connect: Connect, name: str) -> None:
    over = threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        over.wait(30)

    with FakeServer(script, receive_buffer=4096) as server:
        async with connect(server.url, pending_size=100_000, timeout=1) as nc:
            async with anyio.create_task_group() as tasks:

                async def publish_for_ever() -> None:
                    while True:
                        await nc.publish("a", bytes(100_000))

                tasks.start_soon(publish_for_ever)
                await until(lambda: nc._session.congested)
                for _ in range(3):
                    with anyio.fail_after(10), pytest.raises(TimeoutError):
                        await VERBS[name](nc, nc.jetstream(timeout=60))
                tasks.cancel_scope.cancel()
            over.set()


async def test_fetching_and_acknowledging_without_a_link(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=60, pending_size=ROOM) as nc:
        js, name = await make_stream(nc)
        await js.publish(f"{name}.a", b"1")
        sub = await js.pull_subscribe(f"{name}.a", durable="C")
        (message,) = await sub.fetch(timeout=10)
        await lose(nc, own_server)
        await nc.publish("a", bytes(2 * ROOM))
        verbs: list[Callable[..., Awaitable[Any]]] = [
            sub.fetch, sub.fetch_no_wait, message.ack_sync, sub.consumer_info
        ]  # fmt: skip
        for verb in verbs:
            with anyio.fail_after(10), pytest.raises(TimeoutError, match="room"):
                await verb(timeout=LIMIT)


async def test_close_after_a_timeout_without_end(server: Any, connect: Connect) -> None:
    async with connect(server.url, timeout=inf) as nc:
        assert await nc.flush() >= 0
        assert await nc.flush(timeout=inf) >= 0
        sub = await nc.subscribe("a")
        await sub.drain()
    assert nc.is_closed
