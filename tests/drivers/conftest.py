"""The ways to run one body of tests: threads with a reader, threads without, asyncio on three loops, trio."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from select import select
from typing import Any

import anyio
import pytest
import trustme

import jsproto_io.asyncio
import jsproto_io.trio
from jsproto_io.nats_server import NatsServer
from tests import servers
from tests.drivers import threaded

Connect = Callable[..., AbstractAsyncContextManager[Any]]

DRIVERS: dict[str, Connect] = {
    "sync": threaded.connect,
    "sync-no-reader": partial(threaded.connect, reader_thread=False),
    "asyncio": jsproto_io.asyncio.connect,
    "trio": jsproto_io.trio.connect,
}


def new_eager_loop() -> asyncio.AbstractEventLoop:
    """The standard loop, where a task runs up to its first wait before ``create_task`` returns."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
    return loop


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
"""The loops beside the standard one that are here, by the driver on them."""
if sys.version_info >= (3, 12):
    LOOPS["asyncio-eager"] = new_eager_loop
if find_spec("uvloop"):
    LOOPS["asyncio-uvloop"] = import_module("uvloop").new_event_loop
DRIVERS |= dict.fromkeys(LOOPS, jsproto_io.asyncio.connect)

IN_CI = {"sync-no-reader", *LOOPS}
"""What a quick run leaves out: it shares all but who reads, or the loop, with another one.

``test_other_loops`` has some of it.
"""
PATIENCE = 100.0  # seconds after which a test that hangs is failed
LIMIT = 2.0
"""Seconds of a limit that a test lets pass. It is long for what has to be in time, on a busy machine too."""


@pytest.fixture(scope="session")
def real_stderr(pytestconfig: pytest.Config) -> Iterator[int]:
    """The standard error that somebody can read, while the test's own is captured."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        descriptor = os.dup(2)
    yield descriptor
    os.close(descriptor)


@pytest.fixture(autouse=True)
def no_hang(real_stderr: int) -> Iterator[None]:
    """End the run, saying where each thread stands, when a test hangs where ``fail_after`` cannot reach it."""
    faulthandler.dump_traceback_later(4 * PATIENCE, exit=True, file=real_stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def quick_collections() -> None:
    """Whoever collects garbage in this test looks at what the test has made, not at all that is there."""
    gc.freeze()


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name in IN_CI else name for name in DRIVERS])
def driver(request: pytest.FixtureRequest) -> str:
    """The driver under test."""
    name: str = request.param
    return name


@pytest.fixture
def anyio_backend(driver: str) -> str | tuple[str, dict[str, Any]]:
    """The loop the test itself runs in."""
    if driver in LOOPS:
        return "asyncio", {"loop_factory": LOOPS[driver]}
    return "trio" if driver == "trio" else "asyncio"


def limited(driver: str, **always: Any) -> Connect:
    """The driver's ``connect``, under a time limit. Where a test does not say it, connecting and answers may take long,
    and the servers are dialled in the order given.

    ``always``: options of each connection.
    """

    @asynccontextmanager
    async def connect(*args: Any, **keywords: Any) -> AsyncIterator[Any]:
        keywords.setdefault("connect_timeout", PATIENCE / 2)
        keywords.setdefault("timeout", PATIENCE / 2)
        keywords.setdefault("dont_randomize", True)
        with anyio.fail_after(PATIENCE):
            async with DRIVERS[driver](*args, **always, **keywords) as connection:
                yield connection

    return connect


@pytest.fixture
def connect(driver: str) -> Connect:
    """The driver's ``connect``, under a time limit."""
    return limited(driver)


@pytest.fixture
def own_server() -> Iterator[NatsServer]:
    """A server that the test may stop."""
    with NatsServer(config=servers.config()) as running:
        yield running


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Who vouches for servers and clients that talk TLS."""
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's side of TLS: it trusts the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections: bound, but nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A port where dialling never ends: it has a listener, and no room for one more to wait for it."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        place = listener.getsockname()
        while True:
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(place)
            if not select([], [caller], [], 0.1)[1]:
                break
        yield place[1]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """By name: the ports of this machine that the resolver gives for it, as if they were addresses."""
    known: dict[str, list[int]] = {}
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **keywords: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in known:
            return real(host, port, *args, **keywords)
        return [found for each in known[name] for found in real("127.0.0.1", each, *args, **keywords)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known
