"""A name with several addresses: whichever of them answers is reached, and nothing is left of the others."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import NoServersError
from jsproto_io import sync
from jsproto_io._aio import asyncio_dial, trio_link
from jsproto_io._state.dialling import ALL_WITHIN, HEAD_START, AddressInfo, AddressRace
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import LIMIT, PATIENCE, Connect

pytestmark = pytest.mark.anyio

DESCRIPTORS = Path("/proc/self/fd")
V4, V6 = socket.AF_INET, socket.AF_INET6


def info(number: int, family: Any = V4) -> AddressInfo:
    return (family, socket.SOCK_STREAM, 6, "", ("address", number))


def numbers(race: AddressRace, now: float) -> list[int]:
    """The addresses that are due."""
    found = []
    while (address := race.take(now)) is not None:
        found.append(address[4][1])
    return found


# -- the rule ----------------------------------------------------------------------------------------------------------


def test_each_address_has_a_head_start() -> None:
    race = AddressRace([info(0), info(1), info(2)], 100.0)
    assert numbers(race, 100.0) == [0]
    assert race.next_at == 100.0 + HEAD_START
    assert numbers(race, 100.0 + 0.9 * HEAD_START) == []
    assert numbers(race, 100.0 + HEAD_START) == [1]
    assert numbers(race, 100.0 + 2 * HEAD_START) == [2]
    assert (race.next_at, numbers(race, 1e9)) == (inf, [])


def test_after_a_failure_the_next_one_is_due_at_once() -> None:
    race = AddressRace([info(0), info(1)], 100.0)
    assert numbers(race, 100.0) == [0]
    race.failed(OSError("first"))
    assert race.error is None
    assert numbers(race, 100.0) == [1]
    race.failed(OSError("second"))
    assert str(race.error) == "first"


def test_the_families_take_turns() -> None:
    race = AddressRace([info(0, V6), info(1, V6), info(2, V6), info(3), info(4)], 0.0)
    tried = []
    for tick in range(100):
        tried += numbers(race, tick * HEAD_START)
    assert tried == [0, 3, 1, 4, 2]


@given(
    st.lists(st.sampled_from([V4, V6]), min_size=1, max_size=30),
    st.lists(st.tuples(st.floats(0.001, 0.5), st.booleans()), max_size=100),
)
def test_every_address_is_dialled_once_and_in_time(families: list[Any], steps: list[tuple[float, bool]]) -> None:
    race = AddressRace([info(number, family) for number, family in enumerate(families)], 0.0)
    now, tried, failed = 0.0, numbers(race, 0.0), 0
    for pause, fails in steps:
        if fails and failed < len(tried):
            assert race.error is None
            race.failed(OSError(str(failed)))
            failed += 1
        else:
            now = min(now + pause, race.next_at) if race.next_at < inf else now + pause
        tried += numbers(race, now)
        assert (race.error is None) == (failed < len(families))
        assert race.next_at <= now + HEAD_START or len(tried) == len(families)
    assert len(set(tried)) == len(tried)
    assert now < ALL_WITHIN or len(tried) == len(families)


# -- the drivers -------------------------------------------------------------------------------------------------------


async def test_an_address_that_swallows_packets_is_passed_over(
    server: Any, connect: Connect, names: dict[str, list[int]], mute_port: int
) -> None:
    names["nats.internal"] = [mute_port, server.port]
    began = time.monotonic()
    async with connect("nats://nats.internal") as nc:  # it may take long to dial
        await nc.flush()
    assert time.monotonic() - began < PATIENCE / 4


async def test_an_address_that_refuses_is_passed_over_at_once(
    server: Any, connect: Connect, names: dict[str, list[int]], closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsproto_io._state.dialling.HEAD_START", PATIENCE)
    monkeypatch.setattr("jsproto_io._state.dialling.ALL_WITHIN", 10 * PATIENCE)
    names["nats.internal"] = [closed_port, closed_port, server.port]
    async with connect("nats://nats.internal") as nc:
        await nc.flush()


async def test_the_time_to_dial_bounds_all_addresses(
    connect: Connect, names: dict[str, list[int]], mute_port: int
) -> None:
    names["nats.internal"] = [mute_port] * 20
    began = time.monotonic()
    with pytest.raises(NoServersError) as caught:
        async with connect("nats://nats.internal", connect_timeout=LIMIT):
            raise AssertionError("connected")
    assert LIMIT <= time.monotonic() - began < 10 * LIMIT
    assert caught.value.attempts == (("nats://nats.internal:4222", "timed out"),)


async def test_when_all_refuse_it_says_so(connect: Connect, names: dict[str, list[int]], closed_port: int) -> None:
    names["nats.internal"] = [closed_port, closed_port]
    with pytest.raises(NoServersError) as caught:
        async with connect("nats://nats.internal"):
            raise AssertionError("connected")
    assert caught.value.attempts == (("nats://nats.internal:4222", os.strerror(111)),)


async def test_after_a_lost_link_the_addresses_race_again(
    own_server: NatsServer, connect: Connect, names: dict[str, list[int]], mute_port: int
) -> None:
    names["nats.internal"] = [mute_port, own_server.port]
    async with connect("nats://nats.internal", max_reconnect_attempts=-1, reconnect_time_wait=0.01) as nc:
        await nc.force_reconnect()
        await nc.flush()
        assert nc.stats["reconnects"] == 1


# -- what is left of the others ----------------------------------------------------------------------------------------


async def settle(count: int) -> None:
    """Until no more than ``count`` descriptors are open."""
    with anyio.fail_after(PATIENCE / 4):
        while len(os.listdir(DESCRIPTORS)) > count:
            await anyio.sleep(0.01)


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="descriptors cannot be counted here")
@pytest.mark.parametrize("ports", ["mute live", "live live", "mute mute mute live live", "mute mute"])
async def test_no_socket_is_left(
    server: Any, connect: Connect, names: dict[str, list[int]], mute_port: int, ports: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("jsproto_io._state.dialling.HEAD_START", 0.0)  # all at once: several may be connected

    async def once(timeout: float, linked: int = 1_000_000) -> int:
        """The descriptors that are open while there is a link, which are soon no more than ``linked``."""
        with suppress(NoServersError):
            async with connect("nats://nats.internal", connect_timeout=timeout) as nc:
                await nc.flush()
                await settle(linked)
                return len(os.listdir(DESCRIPTORS))
        return 0

    names["nats.internal"] = [server.port]
    await once(PATIENCE / 2)  # what the driver keeps open for good is open from now on
    linked = await once(PATIENCE / 2)
    before = len(os.listdir(DESCRIPTORS))
    names["nats.internal"] = [server.port if port == "live" else mute_port for port in ports.split()]
    for _ in range(3):
        await once(PATIENCE / 2 if "live" in ports else 0.05, linked)
    await settle(before)


DIALS: dict[str, Callable[[str, int], Awaitable[socket.socket]]] = {
    "asyncio": asyncio_dial.dial,
    "trio": trio_link.dial,
}


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="descriptors cannot be counted here")
@pytest.mark.parametrize("name", list(DIALS))
def test_dialling_that_is_cancelled_at_any_moment_leaves_no_socket(
    name: str, server: Any, names: dict[str, list[int]], mute_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsproto_io._state.dialling.HEAD_START", 0.0)
    names["nats.internal"] = [mute_port, server.port, server.port]

    async def cancelled_after(turns: int | None) -> bool:
        made: list[socket.socket] = []

        async def dial() -> None:
            made.append(await DIALS[name]("nats.internal", 4222))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dial)
            if turns is not None:
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        for sock in made:
            sock.close()
        return bool(made)

    async def main() -> None:
        await cancelled_after(0)
        before = len(os.listdir(DESCRIPTORS))
        ends = set()
        for turns in range(60):
            ends.add(await cancelled_after(turns))
            await settle(before)
        ends.add(await cancelled_after(None))
        assert ends == {False, True}

    anyio.run(main, backend=name)


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="descriptors cannot be counted here")
def test_closing_while_addresses_race_leaves_no_socket(
    own_server: NatsServer, names: dict[str, list[int]], mute_port: int
) -> None:
    before = len(os.listdir(DESCRIPTORS))
    names["nats.internal"] = [own_server.port]
    options: dict[str, Any] = {"max_reconnect_attempts": -1, "connect_timeout": PATIENCE}
    with sync.connect("nats://nats.internal", **options) as nc:
        names["nats.internal"] = [mute_port] * 3
        nc.force_reconnect()
        until = time.monotonic() + PATIENCE / 4
        while nc._poller.link is None or len(nc._poller.link._attempts) < 3:  # type: ignore[attr-defined]
            assert time.monotonic() < until
            time.sleep(0.01)
    assert len(os.listdir(DESCRIPTORS)) == before
