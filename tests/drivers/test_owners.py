"""A caller goes away at any step of a verb that brings something live: nothing of it is left, and the server says so.

The caller is cancelled, or gets Ctrl-C, before and after each input of the connection, until the verb is quick enough.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.request import urlopen

import anyio
import pytest

import jsproto_io.asyncio
import jsproto_io.sync
import jsproto_io.trio
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.sourcing_consumer import sourcing_consumer
from jsproto_io.nats_server import NatsServer
from tests.drivers.test_facade import unique
from tests.marks import promise

pytestmark = [pytest.mark.anyio, pytest.mark.server]

LOOPS: dict[str, Any] = {"asyncio": jsproto_io.asyncio.connect, "trio": jsproto_io.trio.connect}
VERBS: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "push": lambda js, name: js.subscribe(f"{name}.*"),
    "queue": lambda js, name: js.subscribe(f"{name}.*", queue="workers"),
    "durable": lambda js, name: js.subscribe(f"{name}.*", durable="mine"),
    "bound": lambda js, name: js.subscribe(stream=name, consumer="there"),
    "ordered": lambda js, name: js.subscribe(f"{name}.*", ordered=True),
    "pull": lambda js, name: js.pull_subscribe(f"{name}.*"),
    "source": lambda js, name: js.source(name, "copied"),
    "snapshot": lambda js, name: js.snapshot(name, f"{name}.>"),
    "copy": lambda js, name: js.copy(name, "copied", f"{name}-COPY", prefix="copy.").run(until_caught_up=True),
    "dead letters": lambda js, name: js.dead_letters(name, "there", to=f"{name}-DEAD"),
}
OF_THE_DRIVERS = ["source", "copy", "dead letters"]
"""Verbs whose steps are the drivers' own. The core's are cancelled in ``jsproto_io.testing.conformance``."""
LOOKS = 500
"""Round trips, at most, until the server has worked off what was asked of it."""
GIVEN = {"workers", "mine", "there", "copied"}
"""Names that the application gives: a consumer that has one is not the caller's alone."""


class Watched:
    """A real server, and what it says of its clients."""

    def __init__(self, url: str, pages: str) -> None:
        self.url = url
        self._pages = pages

    def subscriptions(self, name: str) -> int:
        """How many the client ``name`` has."""
        with urlopen(f"{self._pages}/connz") as page:
            found = [each["subscriptions"] for each in json.load(page)["connections"] if each.get("name") == name]
        return int(found[0])


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    with NatsServer(config=f"http: 127.0.0.1:{port}") as server:
        yield Watched(server.url, f"http://127.0.0.1:{port}")


@pytest.fixture(params=[*LOOPS])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def fill(url: str) -> str:
    """A stream with some messages, consumers and streams to copy to. Its name."""
    name = unique("S")
    with jsproto_io.sync.connect(url) as nc:
        js = nc.jetstream()
        js.create_stream(name, subjects=[f"{name}.*"], allow_direct=True, storage="memory", retention="limits")
        js.create_stream(f"{name}-COPY", subjects=[f"copy.{name}.*"], allow_direct=True, storage="memory",
                         allow_batched=True)  # fmt: skip
        js.create_stream(f"{name}-DEAD", subjects=[f"dead.{name}.>"], storage="memory")
        js.create_consumer(name, ConsumerConfig(durable_name="there", deliver_subject=f"to.{name}"))
        js.create_consumer(name, sourcing_consumer("copied", deliver_subject=f"to.copy.{name}"))
        for number in range(5):
            js.publish(f"{name}.{number}", b"x")
    return name


class Steps:
    """Calls ``strike`` before or after the input with this number, of those that a connection gets from now on."""

    def __init__(self, nc: Any, number: int, strike: Callable[[], object], *, before: bool) -> None:
        self._session = nc._session
        self._receive = self._session.receive_data
        self._left = number
        self._strike = strike
        self._before = before
        self._session.receive_data = self._receive_data

    def _receive_data(self, data: bytes, now: float) -> None:
        self._left -= 1
        if self._before and not self._left:
            self._strike()
        self._receive(data, now)
        if not self._before and not self._left:
            self._strike()

    def end(self) -> None:
        self._session.receive_data = self._receive


async def end(thing: Any) -> None:
    """End what a verb has brought, if it has an end."""
    for name in ("unsubscribe", "stop", "close"):
        if hasattr(thing, name):
            await getattr(thing, name)()
            return


async def left_over(nc: Any, name: str, watched: Watched, client: str, had: int) -> tuple[set[str], int]:
    """The consumers of the stream that have no given name, and how many subscriptions the client has beyond ``had``,
    once what it has asked for is worked off.
    """
    js, found, more = nc.jetstream(), {"?"}, 0
    for _ in range(LOOKS):
        await nc.flush()
        found, more = {*await js.consumer_names(name)} - GIVEN, watched.subscriptions(client) - had
        if not (found or more):
            break
    return found, more


@promise("A `subscribe` that is cancelled")
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("verb", OF_THE_DRIVERS)
async def test_a_cancelled_verb_leaves_nothing(watched: Watched, anyio_backend: str, verb: str, before: bool) -> None:
    name, client = fill(watched.url), unique("client")
    async with LOOPS[anyio_backend](watched.url, name=client) as nc:
        js = nc.jetstream()
        await js.account_info()
        await nc.flush()
        had, number = watched.subscriptions(client), 0
        brought: list[Any] = []
        while not brought:
            with anyio.CancelScope() as scope:
                steps = Steps(nc, number, scope.cancel, before=before)
                if not number:
                    scope.cancel()
                try:
                    brought = [await VERBS[verb](js, name)]
                finally:
                    steps.end()
            if not brought:
                assert await left_over(nc, name, watched, client, had) == (set(), 0), number
                number += 1
        await end(brought[0])
        del brought
        assert (await left_over(nc, name, watched, client, had))[0] == set()
        assert number > 1


@promise("A `subscribe` that is cancelled")
@pytest.mark.parametrize("eager", [False, True], ids=["lazy", "eager"])
@pytest.mark.parametrize("verb", ["push", "queue", "ordered", "pull", "snapshot"])
def test_a_task_is_cancelled_at_each_turn_of_its_loop(watched: Watched, verb: str, eager: bool) -> None:
    name, client = fill(watched.url), unique("client")

    async def main() -> None:
        if eager:
            if not hasattr(asyncio, "eager_task_factory"):
                pytest.skip("eager tasks came with Python 3.12")
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        async with jsproto_io.asyncio.connect(watched.url, name=client) as nc:
            js = nc.jetstream()
            await js.account_info()
            await nc.flush()
            had = watched.subscriptions(client)
            for turns in range(40):
                task = asyncio.ensure_future(VERBS[verb](js, name))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await end(await task)
                assert await left_over(nc, name, watched, client, had) == (set(), 0), turns

    asyncio.run(main())


@promise("A `subscribe` that is cancelled")
@pytest.mark.parametrize("reader_thread", [True, False], ids=["reader", "no reader"])
@pytest.mark.parametrize("verb", [*VERBS])
def test_ctrl_c_leaves_nothing(watched: Watched, verb: str, reader_thread: bool) -> None:
    name, client = fill(watched.url), unique("client")
    main = threading.main_thread()

    def strike() -> None:
        if threading.current_thread() is main:
            signal.raise_signal(signal.SIGINT)

    with jsproto_io.sync.connect(watched.url, name=client, reader_thread=reader_thread) as nc:
        js: Any = nc.jetstream()
        js.account_info()
        nc.flush()
        had = watched.subscriptions(client)
        for number in range(1, 100):
            steps = Steps(nc, number, strike, before=number % 2 == 0)
            brought: Any = None
            try:
                brought = VERBS[verb](js, name)
            except KeyboardInterrupt:
                pass
            finally:
                steps.end()
            for each in ("unsubscribe", "stop", "close"):
                if hasattr(brought, each):
                    getattr(brought, each)()
                    break
            found, more = {"?"}, 0
            for _ in range(LOOKS):
                nc.flush()
                found = {*js.consumer_names(name)} - GIVEN
                more = 0 if brought is not None else watched.subscriptions(client) - had
                if not (found or more):
                    break
            assert (found, more) == (set(), 0), number
            if brought is not None:
                break
