"""A server in memory has no file descriptors left: it accepts nothing for a while, and does not turn in vain."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from jsproto_io.testing import serve, sockets
from jsproto_io.testing.monitoring import Monitoring
from tests.descriptors import next_descriptors, no_descriptors, open_descriptors
from tests.testing_io.conftest import Serving

pytestmark = pytest.mark.anyio

PAUSE = 0.1  # seconds
MOMENT = 0.5  # seconds
PATIENCE = 60.0  # seconds
BACKLOG = 100
"""How often asyncio's loop tries to accept before it pauses for a second."""


class Accepting:
    """How often ``accept`` was called."""

    def __init__(self) -> None:
        self.calls = 0
        self.called = threading.Event()


@pytest.fixture
def accepting(monkeypatch: pytest.MonkeyPatch) -> Accepting:
    found, accept = Accepting(), socket.socket.accept

    def counted(listener: socket.socket) -> Any:
        found.calls += 1
        found.called.set()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", counted)
    monkeypatch.setattr(sockets, "ACCEPT_PAUSE", PAUSE)
    return found


@pytest.fixture
def caller() -> Iterator[socket.socket]:
    """A socket that may still connect once there are no descriptors."""
    with socket.socket() as found:
        yield found


async def test_it_pauses_and_accepts_later(
    serving: Serving, host: str, accepting: Accepting, caller: socket.socket
) -> None:
    if host == "asyncio":
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # it is told of each attempt
    async with serving() as server:
        with no_descriptors():
            caller.connect((server.host, server.port))
            began = anyio.current_time()
            await anyio.sleep(MOMENT)
            calls, pauses = accepting.calls, (anyio.current_time() - began) / PAUSE
        assert 1 <= calls <= (BACKLOG * (1 + pauses * PAUSE) if host == "asyncio" else 1 + pauses)
        caller.setblocking(False)
        await anyio.wait_readable(caller)
        assert caller.recv(5) == b"INFO "


async def test_what_is_under_way_goes_on_meanwhile(serving: Serving, host: str, accepting: Accepting) -> None:
    if host == "asyncio":
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # it is told of each attempt
    async with serving() as server, await anyio.connect_tcp(server.host, server.port) as link:
        await link.receive()
        with socket.socket() as caller, no_descriptors():
            caller.connect((server.host, server.port))
            await link.send(b'CONNECT {"verbose":false}\r\n' + b"PING\r\n")
            assert await link.receive() == b"PONG\r\n"


def test_the_monitoring_port_pauses_too(accepting: Accepting, caller: socket.socket) -> None:
    with serve() as server, Monitoring(server, server.host, 0) as monitoring:
        with no_descriptors(*next_descriptors(1)):  # poll() refuses a limit of 0
            caller.connect((server.host, monitoring.port))
            assert accepting.called.wait(PATIENCE)
            threading.Event().wait(MOMENT)
            assert 1 <= accepting.calls <= 2 + MOMENT / PAUSE
        caller.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert caller.recv(100).startswith(b"HTTP/1.0 200")


def test_a_start_that_lacks_some_keeps_none() -> None:
    before, free = open_descriptors(), next_descriptors(4)
    server = serve()
    for first_missing in free:
        with no_descriptors(first_missing), pytest.raises(OSError, match="Too many open files"):
            server.start()
        assert open_descriptors() == before
    with no_descriptors(free[-1] + 1), server:
        pass
    assert open_descriptors() == before
