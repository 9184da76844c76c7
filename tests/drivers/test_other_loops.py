"""Loops that are not the standard one: uvloop, and eager tasks.

A quick run has the tests of ``test_facade`` here, each on one of these loops. All others are marked slow on them.

Not here: simulated loops (``tests/simulation``).
"""

from __future__ import annotations

import asyncio
import gc
import inspect
from typing import Any
from zlib import crc32

import anyio
import pytest
import trio

from jsproto.server.server import Server
from jsproto_io.dialer import SystemEntropy
from jsproto_io.testing import serve
from tests.drivers import test_facade
from tests.drivers.conftest import DRIVERS, LOOPS, PATIENCE, Connect, limited
from tests.drivers.fake import FakeServer, Peer
from tests.drivers.test_reconnect import until

pytestmark = pytest.mark.anyio

if LOOPS:
    for _name, _test in list(vars(test_facade).items()):
        if _name.startswith("test_") and "server" in inspect.signature(_test).parameters:
            globals()[f"test_facade__{_name.removeprefix('test_')}"] = _test

ON_ASYNCIO = ["asyncio", *LOOPS]
ON_LOOPS = [*ON_ASYNCIO, "trio"]


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> str:
    """The driver under test."""
    name: str = request.param
    return name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of other modules run on one loop each."""
    name = metafunc.definition.originalname
    if "__" in name:
        loops = list(LOOPS)
        metafunc.parametrize("driver", [loops[crc32(name.encode()) % len(loops)]], indirect=True)


on_asyncio = pytest.mark.parametrize("driver", ON_ASYNCIO, indirect=True)
on_loops = pytest.mark.parametrize("driver", ON_LOOPS, indirect=True)


def tasks_here(driver: str) -> int:
    """How many tasks this loop has."""
    return trio.lowlevel.current_statistics().tasks_living if driver == "trio" else len(asyncio.all_tasks())


def sessions(role: Server, now: float) -> int:
    """How many clients the server has."""
    return len(role.sessions)


@on_loops
async def test_a_connect_that_is_cancelled_at_any_turn_ends_and_leaves_nothing(driver: str) -> None:
    """It is cancelled one turn later each time, until it has connected before."""
    connected = turns = 0

    async def use(url: str) -> None:
        nonlocal connected
        async with DRIVERS[driver](url, connect_timeout=PATIENCE, timeout=PATIENCE):
            connected += 1
            await anyio.lowlevel.checkpoint()

    with serve() as server, anyio.fail_after(PATIENCE):
        before = tasks_here(driver)
        while connected < 3:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(use, server.url)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            gc.collect()  # what is not closed would warn
            await until(lambda: tasks_here(driver) == before)
            await until(lambda: not server.call(sessions))
            turns += 1
    assert turns > 3


class OneAfterTheOther(SystemEntropy):
    """A dialer that notes what is dialled, and by how many at once. The first ones fail, or hang once they are made."""

    def __init__(self, failing: int = 0, hanging: int = 0) -> None:
        self.dialled: list[int] = []
        self.at_once = self.most = 0
        self._failing = failing
        self._hanging = hanging

    async def create_connection(self, factory: Any, host: str, port: int) -> object:
        self.dialled.append(port)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if len(self.dialled) <= self._failing:
                raise ConnectionRefusedError
            made = await asyncio.get_running_loop().create_connection(factory, host, port)
            if len(self.dialled) <= self._hanging:
                await anyio.sleep_forever()
            return made
        finally:
            self.at_once -= 1


@on_asyncio
async def test_one_address_is_dialled_after_the_other(driver: str, connect: Connect) -> None:
    """Each is refused before the task that dials has waited for anything."""
    dialer = OneAfterTheOther(failing=3)
    with serve() as server:
        urls = [*(f"nats://127.0.0.1:{port}" for port in (1, 2, 3)), server.url]
        async with connect(urls, dialer=dialer) as nc:
            await nc.flush()
            assert nc.connected_url == server.url
    assert dialer.dialled == [1, 2, 3, server.port]
    assert dialer.most == 1


@on_asyncio
async def test_a_link_whose_dialling_times_out_is_given_up(driver: str) -> None:
    """It was made, and its loop may say nothing more about it. The next one is dialled."""

    def silent(peer: Peer) -> None:
        assert peer.socket.recv(1) == b""

    def speaking(peer: Peer) -> None:
        peer.handshake()
        peer.serve()

    dialer = OneAfterTheOther(hanging=1)
    with FakeServer(silent, speaking) as server:
        async with limited(driver)(
            server.url, dialer=dialer, connect_timeout=0.3, reconnect_time_wait=0, first_connect_timeout=PATIENCE,
            retry_on_first_connect=True,
        ) as nc:  # fmt: skip
            await nc.flush()
    assert len(dialer.dialled) == 2
    assert dialer.most == 1


@on_asyncio
async def test_times_are_finer_than_a_turn_of_the_loop(driver: str, connect: Connect) -> None:
    with serve() as server:
        async with connect(server.url) as nc:
            for _ in range(20):
                assert 0 < await nc.rtt() < PATIENCE


@on_loops
@pytest.mark.parametrize("linger", [0.0005, 0.0002, 0.01])
async def test_messages_that_wait_for_company_leave_by_themselves(driver: str, connect: Connect, linger: float) -> None:
    """Timers are due within the rounding of the loop's clock."""
    with serve() as server:
        async with connect(server.url, linger=linger) as nc, connect(server.url) as other:
            got: list[int] = []
            sub = await other.subscribe("a")
            await other.flush()
            for number in range(0, 99, 3):
                await nc.publish("a", b"%d" % number)
                await nc.publish("a", b"%d" % (number + 1))  # it follows closely, and sets a timer
                await nc.publish("a", b"%d" % (number + 2))
                got += [int((await sub.next_msg(timeout=PATIENCE)).data) for _ in range(3)]
                await anyio.sleep(0.0004 * (number % 4))
    assert got == list(range(99))
