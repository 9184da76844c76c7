"""What every driver must do with callbacks that drain the connection, or that fail in ways that are no Exception."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import outcome
import pytest
import trio

import jsproto_io.asyncio
import jsproto_io.trio
from jsproto.errors import ConnectionClosedError
from jsproto.events import CallbackFailed, Event, SubscriptionFailed
from jsproto_io import sync
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream
from tests.drivers.test_subscribing import consumers, fill, until
from tests.marks import promise

pytestmark = pytest.mark.anyio


def failures(events: list[Event]) -> list[CallbackFailed | SubscriptionFailed]:
    return [event for event in events if isinstance(event, CallbackFailed | SubscriptionFailed)]


# -- draining from within ----------------------------------------------------------------------------------------------


class Draining:
    """The callback of a subscription: it drains ``nc`` at message ``at``, when all 100 have come, to ``peers`` too.

    ``own``: the connection of the subscription, where that is another one.
    """

    def __init__(self, driver: str, nc: Any, at: int | None, own: Any = None) -> None:
        self.nc = nc
        self.own = own or nc
        self.at = at
        self.got: list[int] = []
        self.after_draining = 0  # how many it had got when drain() returned
        self.subscription: Any = None
        self.peers = [self]
        self.callback = self.threaded if driver.startswith("sync") else self.looping

    def is_due(self, message: Any) -> bool:
        self.got.append(int(message.data))
        return self.got[-1] == self.at

    @property
    def is_all_there(self) -> bool:
        return all(
            each.subscription is not None and len(each.got) + each.subscription.pending_msgs == 100
            for each in self.peers
        )

    def threaded(self, message: Any) -> None:
        if self.is_due(message):
            while not self.is_all_there:
                self.own._target.flush()
            self.nc._target.drain()
            self.after_draining = len(self.got)

    async def looping(self, message: Any) -> None:
        if self.is_due(message):
            while not self.is_all_there:
                await self.own.flush()
            await self.nc.drain()
            self.after_draining = len(self.got)


@promise("`drain` delivers what is buffered first")
async def test_a_callback_that_drains_the_connection_gets_the_rest(server: Any, connect: Connect, driver: str) -> None:
    events: list[Event] = []
    async with connect(server.url) as other:
        js, name = await make_stream(other, retention="workqueue")
        await fill(js, name, 100)
        async with connect(server.url, event_cb=events.append) as nc:
            one = Draining(driver, nc, 10)
            one.subscription = await nc.jetstream().subscribe(
                f"{name}.a", durable="D", cb=one.callback, delete_consumer=False
            )
            await until(lambda: nc.is_closed)
            assert one.got == list(range(100))
            assert one.after_draining == 11  # it has not waited for itself
        assert failures(events) == []
        while (await js.stream_info(name)).state.messages:  # all were acknowledged
            pass


@pytest.mark.parametrize("at", [10, 99])
async def test_callbacks_that_drain_the_connection_do_not_wait_for_each_other(
    server: Any, connect: Connect, driver: str, at: int
) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append, timeout=60) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 100)
        ones = [Draining(driver, nc, at), Draining(driver, nc, at), Draining(driver, nc, None)]
        for one in ones:
            one.peers = ones
            one.subscription = await js.subscribe(f"{name}.a", cb=one.callback)
        await until(lambda: all(len(one.got) == 100 for one in ones))
        await until(lambda: nc.is_closed)
    assert [one.got for one in ones] == [list(range(100))] * 3
    assert failures(events) == []


async def test_draining_another_connection_from_a_callback_waits_for_that_ones(
    server: Any, connect: Connect, driver: str
) -> None:
    async with connect(server.url) as mine, connect(server.url) as other:
        js, name = await make_stream(mine)
        await fill(js, name, 100)
        theirs = Draining(driver, other, None)
        theirs.subscription = await other.jetstream().subscribe(f"{name}.a", cb=theirs.callback)
        await until(lambda: theirs.is_all_there)
        one = Draining(driver, other, 5, own=mine)
        one.subscription = await js.subscribe(f"{name}.a", cb=one.callback)
        await until(lambda: one.after_draining)
        assert theirs.got == list(range(100))
        assert other.is_closed
        assert not mine.is_closed


# -- what is no Exception ----------------------------------------------------------------------------------------------


async def foreign(message: Any) -> None:
    """Await what somebody else has cancelled."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def foreign_to_trio(message: Any) -> None:
    """Get, as what another task came to, that it was cancelled: no scope of the callback's own catches that."""
    outcomes: list[outcome.Outcome[Any]] = []

    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            outcomes.append(await outcome.acapture(trio.sleep_forever))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled)
    outcomes[0].unwrap()


class Odd(BaseException):
    """What is neither an Exception nor an end of the program."""


def raising(error: BaseException) -> Callable[[Any], None]:
    def callback(message: Any) -> None:
        raise error

    return callback


def odd(driver: str) -> list[tuple[type[BaseException], Callable[[Any], Any]]]:
    """What the driver's callbacks may do, and what comes of it."""
    common: list[tuple[type[BaseException], Callable[[Any], Any]]] = [
        (Odd, raising(Odd())), (BaseExceptionGroup, raising(BaseExceptionGroup("odd", [Odd()]))),
    ]  # fmt: skip
    if driver.startswith("sync"):
        ends = (SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
        return [*common, *[(kind, raising(kind())) for kind in ends]]
    if driver.startswith("asyncio"):
        return [*common, (asyncio.CancelledError, foreign)]
    return [*common, (trio.Cancelled, foreign_to_trio), (asyncio.CancelledError, raising(asyncio.CancelledError()))]


@promise("acknowledged as the callbacks return")
async def test_what_a_callback_raises_is_told_and_the_next_message_comes(
    server: Any, connect: Connect, driver: str
) -> None:
    for error, fail in odd(driver):
        events: list[Event] = []
        async with connect(server.url, event_cb=events.append) as nc:
            js, name = await make_stream(nc)
            await fill(js, name, 5)
            got: list[int] = []

            def note(message: Any, got: list[int] = got, fail: Callable[[Any], Any] = fail) -> Any:
                got.append(int(message.data))
                return fail(message) if got[-1] in (1, 3) else None

            subscription = await js.subscribe(f"{name}.a", cb=note)
            await until(lambda got=got: len(got) == 5)
            await subscription.drain()
            assert got == [0, 1, 2, 3, 4]
        told = failures(events)
        assert [type(event) for event in told] == [CallbackFailed] * 2
        assert [type(event.error) for event in told] == [error] * 2


# -- what ends the task of a callback ----------------------------------------------------------------------------------


async def test_a_callback_whose_task_is_cancelled_does_not_fall_silent(
    server: Any, connect: Connect, driver: str
) -> None:
    if not driver.startswith("asyncio"):
        pytest.skip("only asyncio has tasks that anybody may cancel")
    for waits in (False, True):
        events: list[Event] = []
        async with connect(server.url, event_cb=events.append) as nc:
            js, name = await make_stream(nc)
            before = asyncio.all_tasks()
            got: list[int] = []

            async def callback(message: Any, got: list[int] = got, waits: bool = waits) -> None:
                got.append(int(message.data))
                if waits:
                    await anyio.sleep_forever()

            subscription = await js.subscribe(f"{name}.a", cb=callback)
            (task,) = asyncio.all_tasks() - before
            await fill(js, name, 1)
            await until(lambda got=got: bool(got))
            await nc.flush()
            task.cancel()
            await until(lambda events=events: bool(failures(events)))
            await until(lambda subscription=subscription: subscription.error is not None)
            while await consumers(nc, name):  # nothing goes on coming
                pass
        (told,) = failures(events)
        assert isinstance(told, SubscriptionFailed)
        assert isinstance(told.error, asyncio.CancelledError)


def ending(url: str, driver: Any, events: list[Event], error: BaseException) -> Callable[[], Coroutine[Any, Any, None]]:
    """A program whose callback raises ``error``."""

    async def program() -> None:
        async with driver.connect(url, event_cb=events.append) as nc:
            js, name = await make_stream(nc)
            await js.subscribe(f"{name}.a", cb=raising(error))
            await js.publish(f"{name}.a", b"1")
            await anyio.sleep(20)

    return program


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("group", [False, True])
def test_the_end_of_the_program_leaves_the_callback_of_a_loop(
    server: Any, kind: type[BaseException], group: bool
) -> None:
    error = BaseExceptionGroup("both", [kind(), ValueError()]) if group else kind()
    events: list[Event] = []
    if not group:  # asyncio keeps a group of them to itself, as a task's result
        with pytest.raises(kind):
            asyncio.run(ending(server.url, jsproto_io.asyncio, events, error)())
        (told,) = failures(events)
        assert isinstance(told, SubscriptionFailed)
        assert told.error is error
    events.clear()
    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(ending(server.url, jsproto_io.trio, events, error))
    assert caught.value.subgroup(kind) is not None
    (told,) = failures(events)
    assert isinstance(told, SubscriptionFailed)
    assert told.error is error


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_event_callback_that_exits_does_not_end_a_subscription_silently(server: Any) -> None:
    events: list[Event] = []
    told = threading.Event()

    def event_cb(event: Event) -> None:
        events.append(event)
        if isinstance(event, CallbackFailed):
            raise SystemExit
        if isinstance(event, SubscriptionFailed):
            told.set()

    with sync.connect(server.url, event_cb=event_cb) as nc:
        js = nc.jetstream()
        js.create_stream("EXIT", subjects=["exit.>"])
        subscription = js.subscribe("exit.a", cb=raising(ValueError()))
        js.publish("exit.a")
        assert told.wait(20)
        with pytest.raises(ConnectionClosedError):
            raise subscription.error or AssertionError
        js.delete_stream("EXIT")
    for thread in threading.enumerate():  # what it ends with is told here, and not in whichever test comes next
        if thread.name == "jsproto-callback":
            thread.join(20)
