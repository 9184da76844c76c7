"""The seam of the three drivers: a dialer makes the links and gives entropy, and where it is looked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio

import jsproto_io.asyncio
import jsproto_io.trio
from jsproto import Error
from jsproto.errors import NoServersError
from jsproto_io import sync
from jsproto_io._aio.trio_link import Link
from jsproto_io._threads.sockets import SystemDialer
from jsproto_io.dialer import SystemEntropy, use_dialer


class Dialer(SystemDialer, SystemEntropy):
    """The operating system under the names of all three drivers, with entropy that is known."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def entropy(self, size: int) -> bytes:
        self.asked.append(size)
        return bytes(size)

    async def create_connection(self, factory: Callable[[], Any], host: str, port: int) -> object:
        raise ConnectionRefusedError(111, f"no way to {host}")

    async def open_link(self, host: str, port: int) -> Link:
        raise ConnectionRefusedError(111, f"no way to {host}")


def inbox_on_threads(url: str, **options: Any) -> str:
    with sync.connect(url, reader_thread=False, **options) as nc:
        return nc.new_inbox()


def test_entropy_is_asked_of_the_dialer_once(server: Any) -> None:
    dialer = Dialer()
    inboxes = {inbox_on_threads(server.url, dialer=dialer) for _ in range(2)}
    assert (len(inboxes), dialer.asked) == (1, [16, 16])


def test_a_block_of_use_dialer_reaches_code_that_does_not_know_of_it(server: Any) -> None:
    dialer, other = Dialer(), Dialer()
    with use_dialer(other), use_dialer(dialer):
        inbox_on_threads(server.url)
    inbox_on_threads(server.url)
    assert (len(dialer.asked), len(other.asked)) == (1, 0)
    with use_dialer(other):
        inbox_on_threads(server.url, dialer=dialer)
    assert (len(dialer.asked), len(other.asked)) == (2, 0)


@pytest.mark.parametrize("name", ["asyncio", "trio"])
def test_a_loop_s_links_are_made_by_the_dialer(name: str) -> None:
    module = {"asyncio": jsproto_io.asyncio, "trio": jsproto_io.trio}[name]
    dialer = Dialer()

    async def main() -> Error | None:
        try:
            async with module.connect("nats://nowhere:1"):
                return None
        except NoServersError as error:
            return error

    with use_dialer(dialer):
        error = anyio.run(main, backend=name)
    assert isinstance(error, NoServersError)
    assert error.attempts == (("nats://nowhere:1", os.strerror(111)),)
    assert dialer.asked == [16]


def test_a_link_that_comes_too_late_is_closed() -> None:
    """The connection was given up while its link was made."""
    closed: list[str] = []

    class Late(Link):
        async def receive(self) -> bytes:
            raise AssertionError

        def send(self) -> None:
            raise AssertionError

        async def wait_writable(self) -> None:
            raise AssertionError

        def end(self) -> None:
            raise AssertionError

        def close(self) -> None:
            closed.append("once")

    class Slow(Dialer):
        async def open_link(self, host: str, port: int) -> Link:
            try:
                scope.cancel()
                await trio.sleep_forever()
            except trio.Cancelled:
                return Late()
            raise AssertionError

    scope = trio.CancelScope()

    async def main() -> None:
        with scope:
            async with jsproto_io.trio.connect("nats://nowhere:1", dialer=Slow()):
                raise AssertionError

    trio.run(main)
    assert closed == ["once"]
