"""What every driver must do with links that are waited for, left, counted, or whose server is about to go."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from jsproto.errors import (
    AuthorizationError,
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
    NoServersError,
)
from jsproto.events import Connected, Disconnected, Event, LameDuckMode
from jsproto_io.nats_server import NatsServer
from tests import servers
from tests.drivers.conftest import DRIVERS, LIMIT, PATIENCE, Connect
from tests.drivers.test_facade import make_stream
from tests.drivers.test_reconnect import run, until
from tests.marks import promise

pytestmark = [pytest.mark.anyio, pytest.mark.server]

SOON = 0.02  # seconds between two rounds of attempts
GRACE = 'lame_duck_grace_period: "20s"\nlame_duck_duration: "31s"\n'  # it closes nothing before


READ = pytest.mark.parametrize("driver", [name for name in DRIVERS if name != "sync-no-reader"])
"""Without a reader thread nothing is noticed while no thread waits."""


@pytest.fixture
def other_server() -> Iterator[NatsServer]:
    """Another one, which knows nothing of the first."""
    with NatsServer(config=servers.config()) as running:
        yield running


@pytest.fixture
def lame_server() -> Iterator[NatsServer]:
    """A server that may go into lame-duck mode."""
    with NatsServer(config=f"{servers.config()}\n{GRACE}") as running:
        yield running
        running.kill()  # in that mode it does not end when it is asked to


# -- the first connection ----------------------------------------------------------------------------------------------


@promise("`connect` waits for a server, with the same attempts and pauses")
async def test_connect_waits_for_a_server(own_server: NatsServer, connect: Connect) -> None:
    await run(own_server.stop)
    ready = anyio.Event()

    async def use() -> None:
        events: list[Event] = []
        async with connect(
            own_server.url, event_cb=events.append, retry_on_first_connect=True, max_reconnect_attempts=-1,
            reconnect_time_wait=SOON, reconnect_jitter=0,
        ) as nc:  # fmt: skip
            assert await nc.flush() > 0
            assert [type(event) for event in events] == [Connected]
            assert nc.stats["reconnects"] == 0
        ready.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use)
        await anyio.sleep(0)
        await run(own_server.start)
    assert ready.is_set()


@promise("`connect` waits for a server, with the same attempts and pauses")
async def test_connect_waits_no_longer_than_it_may(closed_port: int, connect: Connect) -> None:
    url = f"nats://127.0.0.1:{closed_port}"
    with pytest.raises(NoServersError, match=r"Connection refused \(\d+ times\); .*first connection is over$"):
        async with connect(
            url, retry_on_first_connect=True, max_reconnect_attempts=-1, first_connect_timeout=LIMIT,
            reconnect_time_wait=SOON,
        ):  # fmt: skip
            pass
    with pytest.raises(NoServersError, match=r"Connection refused \(3 times\)$"):
        async with connect(url, retry_on_first_connect=True, max_reconnect_attempts=3, reconnect_time_wait=SOON):
            pass


async def test_a_connect_that_waits_can_be_cancelled(closed_port: int, driver: str, connect: Connect) -> None:
    if driver.startswith("sync"):
        pytest.skip("threads cannot be cancelled: first_connect_timeout bounds the time")
    with anyio.move_on_after(0.1) as scope:
        async with connect(f"nats://127.0.0.1:{closed_port}", retry_on_first_connect=True, max_reconnect_attempts=-1):
            raise AssertionError
    assert scope.cancelled_caught


@promise("So do credentials that were refused twice by one server.")
async def test_credentials_that_are_refused_end_the_wait(connect: Connect) -> None:
    options: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": SOON, "token": "wrong"}
    with (
        NatsServer(jetstream=False, config="authorization { token: right }") as server,
        pytest.raises(AuthorizationError),
    ):
        async with connect(server.url, retry_on_first_connect=True, **options):
            pass


# -- force_reconnect ---------------------------------------------------------------------------------------------------


@promise("to the next server, or to the same if there is one alone")
async def test_a_link_is_left(own_server: NatsServer, other_server: NatsServer, connect: Connect) -> None:
    events: list[Event] = []
    urls = [own_server.url, other_server.url]
    async with connect(urls, event_cb=events.append, dont_randomize=True) as nc:
        subscription = await nc.subscribe("a")
        assert nc.connected_url == own_server.url
        for number, expected in enumerate([other_server.url, own_server.url, other_server.url], 1):
            await nc.force_reconnect()
            await until(lambda number=number: len(events) >= 2 * number + 1 or nc._session._link is None)  # type: ignore[misc]
            await nc.flush()
            assert nc.connected_url == expected
            await nc.publish("a", b"%d" % number)
            assert (await subscription.next_msg(timeout=PATIENCE)).data == b"%d" % number
            assert nc.stats["reconnects"] == number
        disconnected = [event for event in events if isinstance(event, Disconnected)]
        assert [str(event.error) for event in disconnected] == [
            "this side left the link: force_reconnect() was called"
        ] * 3


@promise("to the next server, or to the same if there is one alone")
async def test_requests_under_way_fail_when_the_link_is_left(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url) as nc:
        service = await nc.subscribe("service")
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(ConnectionLostError, match="this side left the link"):
                    await nc.request("service", timeout=PATIENCE)

            tasks.start_soon(ask)
            await service.next_msg(timeout=PATIENCE)
            await nc.force_reconnect()
        assert await nc.rtt(timeout=PATIENCE) > 0


@READ
async def test_a_pause_is_ended(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=10 * PATIENCE, max_reconnect_attempts=-1) as nc:
        await run(own_server.kill)
        await until(
            lambda: nc._session.deadline() is not None and not nc.is_connected and nc._session.connect_to is None
        )
        await run(own_server.start)
        await nc.force_reconnect()
        await nc.flush(timeout=PATIENCE)


async def test_a_link_without_a_next_one_is_not_left(server: Any, connect: Connect) -> None:
    async with connect(server.url, max_reconnect_attempts=0) as nc:
        with pytest.raises(LocalProtocolError, match="max_reconnect_attempts is 0"):
            await nc.force_reconnect()
        await nc.flush()
    with pytest.raises(ConnectionClosedError):
        await nc.force_reconnect()


# -- lame-duck mode ----------------------------------------------------------------------------------------------------


@promise("If there is another server, the connection moves there at a moment when no request")
@READ
async def test_a_server_that_goes_is_left(lame_server: NatsServer, other_server: NatsServer, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(
        [lame_server.url, other_server.url], event_cb=events.append, dont_randomize=True, reconnect_time_wait=SOON
    ) as nc:
        subscription = await nc.subscribe("a")
        service = await nc.subscribe("service")
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                assert (await nc.request("service", timeout=PATIENCE)).data == b"answer"

            tasks.start_soon(ask)
            question = await service.next_msg(timeout=PATIENCE)
            os.kill(lame_server.pid, signal.SIGUSR2)
            await until(lambda: any(isinstance(event, LameDuckMode) for event in events))
            await nc.flush()
            assert nc.connected_url == lame_server.url  # the answer is missing
            await question.respond(b"answer")
        await until(lambda: nc.connected_url == other_server.url and nc.is_connected)
        await nc.publish("a", b"after")
        assert (await subscription.next_msg(timeout=PATIENCE)).data == b"after"
    kinds = [type(event) for event in events]
    assert kinds.count(LameDuckMode) == 1
    (lost, _) = [event for event in events if isinstance(event, Disconnected)]
    assert str(lost.error) == "this side left the link: the server is in lame duck mode"


@promise("If there is another server, the connection moves there at a moment when no request")
@READ
async def test_the_only_server_is_not_left(lame_server: NatsServer, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(lame_server.url, event_cb=events.append, reconnect_time_wait=SOON) as nc:
        os.kill(lame_server.pid, signal.SIGUSR2)
        await until(lambda: any(isinstance(event, LameDuckMode) for event in events))
        for _ in range(20):
            await nc.flush()
        assert nc.is_connected
        assert not any(isinstance(event, Disconnected) for event in events)


# -- statistics and round trips ----------------------------------------------------------------------------------------


async def test_messages_and_bytes_are_counted(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        subscription = await nc.subscribe(f"{name}.core")
        await nc.flush()
        before = nc.stats
        for number in range(10):
            await nc.publish(f"{name}.core", b"%d" % number)
        await nc.flush()
        for _ in range(10):
            await subscription.next_msg(timeout=PATIENCE)
        after = nc.stats
        assert after["out_msgs"] - before["out_msgs"] == 10
        assert after["in_msgs"] - before["in_msgs"] == 10
        assert after["out_bytes"] - before["out_bytes"] == 10 * len(f"PUB {name}.core 1\r\nx\r\n")
        assert after["in_bytes"] > before["in_bytes"]
        assert (after["pending_bytes"], after["reconnects"], after["errors_received"]) == (0, 0, 0)
        async with js.fast_publisher() as batch:
            await batch.publish_many((f"{name}.a", b"x") for _ in range(1_000))
            await batch.commit()
        assert nc.stats["out_msgs"] - after["out_msgs"] >= 1_000
        read = nc.stats
        assert len([msg async for msg in js.get_batch(name)]) == 1_010
        assert nc.stats["in_msgs"] - read["in_msgs"] >= 1_010


async def test_a_round_trip_in_seconds(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        assert 0 < await nc.rtt() < PATIENCE
        assert 0 < await nc.rtt(timeout=PATIENCE) < PATIENCE
    with pytest.raises(ConnectionClosedError):
        await nc.rtt()
