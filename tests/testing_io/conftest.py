"""The three drivers of the server role behind one interface, and the fixtures of the clients' drivers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

import jsproto_io.testing.asyncio
import jsproto_io.testing.trio
from jsproto_io.testing import serve
from jsproto_io.testing.pipes.server import in_process
from tests.drivers.conftest import (  # noqa: F401  # fixtures
    Connect,
    authority,
    closed_port,
    driver,
    limited,
    no_hang,
    real_stderr,
    trusting,
)

Serving = Callable[..., AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def in_a_thread(**options: Any) -> AsyncIterator[Any]:
    with serve(**options) as server:
        yield server


HOSTS: dict[str, Serving] = {
    "threads": in_a_thread,
    "asyncio": jsproto_io.testing.asyncio.serve,
    "trio": jsproto_io.testing.trio.serve,
}


@pytest.fixture(params=list(HOSTS))
def host(request: pytest.FixtureRequest) -> str:
    """The driver of the server role under test."""
    name: str = request.param
    return name


@pytest.fixture
def serving(host: str) -> Serving:
    """The driver's ``serve``, for an ``async with`` block."""
    return HOSTS[host]


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The loop in which the test runs: that of the server's driver, or of the client's."""
    names = [request.getfixturevalue(name) for name in ("host", "driver") if name in request.fixturenames]
    return "trio" if "trio" in names else "asyncio"


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server in memory, with sockets or without, for a test that was written for a real one."""
    with serve() if request.param == "sockets" else in_process() as running:
        yield running


@pytest.fixture
def connect(server: Any, driver: str) -> Connect:  # noqa: F811
    """The driver's ``connect``, to a server that may be without sockets."""
    return limited(driver, dialer=getattr(server, "dialer", None))
