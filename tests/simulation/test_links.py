"""Links in simulated time: the first one that is waited for, one that is left, one whose server is about to go."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import trio

import jsproto_io.asyncio
import jsproto_io.sync
import jsproto_io.trio
from jsproto.errors import NoServersError
from jsproto.events import Connected, Disconnected, Event, LameDuckMode
from jsproto.testing import Fault, NetworkConditions
from jsproto_io.testing.simulation import Report, current, simulate
from tests.effort import first
from tests.marks import promise
from tests.simulation.both import report_of

CALM = NetworkConditions()
SERVERS = "nats://one,nats://two"
DOWN = Fault("restart", 0.0, 100.0)


def result(report: Report) -> Any:
    if report.error is not None:
        raise report.error
    return report.result


def run(main: Any, clients: Any, *, seed: int = 0, faults: Any = ()) -> Any:
    return result(simulate(main, clients=clients, seed=seed, conditions=CALM, faults=faults, until=1000.0))


# -- one program for each driver ---------------------------------------------------------------------------------------


class Programs:
    """The programs, written for one driver. ``event_cb`` has the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def options(self, **options: Any) -> dict[str, Any]:
        return {"event_cb": self.events.append, **options}


WAITING: dict[str, Any] = {"retry_on_first_connect": True, "max_reconnect_attempts": -1}


async def waits_asyncio(**options: Any) -> float:
    async with jsproto_io.asyncio.connect(SERVERS, **WAITING, **options):
        return asyncio.get_running_loop().time()


async def waits_trio(**options: Any) -> float:
    async with jsproto_io.trio.connect(SERVERS, **WAITING, **options):
        return trio.current_time()


def waits_blocking(**options: Any) -> float:
    with jsproto_io.sync.connect(SERVERS, **WAITING, **options):
        return time.monotonic()


WAITS: Any = {"asyncio": waits_asyncio, "trio": waits_trio, "blocking": waits_blocking}


def calling(program: Any, clients: str, **options: Any) -> Any:
    if clients == "blocking":
        return lambda: program(**options)

    async def main() -> Any:
        return await program(**options)

    return main


@promise("`connect` waits for a server, with the same attempts and pauses")
@pytest.mark.parametrize("clients", WAITS)
def test_connect_waits_until_the_server_is_there(clients: str) -> None:
    connected = run(calling(WAITS[clients], clients), clients, faults=[DOWN])
    assert 100.0 <= connected < 103.0  # at the first attempt after it
    assert connected == run(calling(WAITS[clients], clients), clients, faults=[DOWN])


@pytest.mark.parametrize("clients", WAITS)
def test_connect_waits_no_longer_than_it_may(clients: Any) -> None:
    report = report_of(
        calling(WAITS[clients], clients, first_connect_timeout=30),
        clients=clients,
        conditions=CALM,
        faults=[DOWN],
    )
    assert isinstance(report.error, NoServersError)
    assert "the time for the first connection is over" in str(report.error)
    assert report.now is not None
    assert 30.0 <= report.now < 31.0


async def leaves_asyncio(events: list[Event]) -> tuple[int, bytes, float]:
    async with jsproto_io.asyncio.connect(SERVERS, event_cb=events.append) as nc:
        subscription = await nc.subscribe("a")
        before = asyncio.get_running_loop().time()
        await nc.force_reconnect()
        await nc.flush()
        await nc.publish("a", b"after")
        message = await subscription.next_msg(timeout=5)
        return nc.stats["reconnects"], message.data, asyncio.get_running_loop().time() - before


async def leaves_trio(events: list[Event]) -> tuple[int, bytes, float]:
    async with jsproto_io.trio.connect(SERVERS, event_cb=events.append) as nc:
        subscription = await nc.subscribe("a")
        before = trio.current_time()
        await nc.force_reconnect()
        await nc.flush()
        await nc.publish("a", b"after")
        message = await subscription.next_msg(timeout=5)
        return nc.stats["reconnects"], message.data, trio.current_time() - before


def leaves_blocking(events: list[Event]) -> tuple[int, bytes, float]:
    with jsproto_io.sync.connect(SERVERS, event_cb=events.append) as nc:
        subscription = nc.subscribe("a")
        before = time.monotonic()
        nc.force_reconnect()
        nc.flush()
        nc.publish("a", b"after")
        message = subscription.next_msg(timeout=5)
        return nc.stats["reconnects"], message.data, time.monotonic() - before


LEAVES: Any = {"asyncio": leaves_asyncio, "trio": leaves_trio, "blocking": leaves_blocking}


@pytest.mark.parametrize("clients", LEAVES)
def test_a_link_is_left_at_once(clients: str) -> None:
    events: list[Event] = []
    reconnects, data, took = run(calling(LEAVES[clients], clients, events=events), clients)
    assert (reconnects, data) == (1, b"after")
    assert took < 1.0
    assert [type(event) for event in events[:3]] == [Connected, Disconnected, Connected]
    urls = [event.url for event in events if isinstance(event, Connected)]
    assert sorted(urls) == ["nats://one:4222", "nats://two:4222"]


async def moves_asyncio(events: list[Event]) -> list[int]:
    async with jsproto_io.asyncio.connect(SERVERS, event_cb=events.append) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"], allow_batched=True)
        current().server.lame_duck()
        seqs = [(await js.publish("s")).seq for _ in range(500)]
        await asyncio.sleep(5)
        return seqs


async def moves_trio(events: list[Event]) -> list[int]:
    async with jsproto_io.trio.connect(SERVERS, event_cb=events.append) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"], allow_batched=True)
        current().server.lame_duck()
        seqs = [(await js.publish("s")).seq for _ in range(500)]
        await trio.sleep(5)
        return seqs


def moves_blocking(events: list[Event]) -> list[int]:
    with jsproto_io.sync.connect(SERVERS, event_cb=events.append) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s"], allow_batched=True)
        current().server.lame_duck()
        seqs = [js.publish("s").seq for _ in range(500)]
        time.sleep(5)
        return seqs


MOVES: Any = {"asyncio": moves_asyncio, "trio": moves_trio, "blocking": moves_blocking}


@promise("If there is another server, the connection moves there at a moment when no request")
@pytest.mark.parametrize("seed", first(range(5), 2))
@pytest.mark.parametrize("clients", MOVES)
def test_the_link_moves_between_two_publishes(clients: str, seed: int) -> None:
    events: list[Event] = []
    seqs = run(calling(MOVES[clients], clients, events=events), clients, seed=seed)
    assert seqs == list(range(1, 501))  # no publish was cut off
    kinds = [type(event) for event in events]
    assert kinds.count(LameDuckMode) == 1
    assert kinds.count(Disconnected) == 2  # the move, and the end
    moved = kinds.index(Disconnected)
    assert kinds.index(LameDuckMode) < moved
    assert kinds[moved + 1] is Connected
