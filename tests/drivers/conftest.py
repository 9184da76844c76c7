"""The four ways to run one body of tests: threads with a reader, threads without, asyncio, trio."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

import jsproto_io.asyncio
import jsproto_io.trio
from jsproto_io.nats_server import NatsServer
from tests.drivers import threaded

Connect = Callable[..., AbstractAsyncContextManager[Any]]

DRIVERS: dict[str, Connect] = {
    "sync": threaded.connect,
    "sync-pumped": partial(threaded.connect, reader_thread=False),
    "asyncio": jsproto_io.asyncio.connect,
    "trio": jsproto_io.trio.connect,
}
PATIENCE = 30.0  # seconds after which a test that hangs is failed


@pytest.fixture(params=list(DRIVERS))
def driver(request: pytest.FixtureRequest) -> str:
    """The driver under test."""
    name: str = request.param
    return name


@pytest.fixture
def anyio_backend(driver: str) -> str:
    """The loop the test itself runs in."""
    return "trio" if driver == "trio" else "asyncio"


@pytest.fixture
def connect(driver: str) -> Connect:
    """The driver's ``connect``, under a time limit."""

    @asynccontextmanager
    async def limited(*args: Any, **keywords: Any) -> AsyncIterator[Any]:
        with anyio.fail_after(PATIENCE):
            async with DRIVERS[driver](*args, **keywords) as connection:
                yield connection

    return limited


@pytest.fixture
def own_server() -> Iterator[NatsServer]:
    """A server that the test may stop."""
    with NatsServer() as running:
        yield running


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections: bound, but nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
