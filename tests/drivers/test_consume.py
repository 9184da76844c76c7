"""What every driver must do with callbacks on the messages of a pull consumer, on a real nats-server."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from jsproto.errors import ConnectionClosedError, ConsumerDeletedError, LocalProtocolError, TimeoutError
from jsproto.events import CallbackFailed, Event, SubscriptionFailed
from tests.drivers.conftest import LIMIT, Connect
from tests.drivers.test_facade import make_stream
from tests.drivers.test_subscribing import fill, until
from tests.marks import promise

pytestmark = pytest.mark.anyio


class Callback:
    """Keeps what it is called with. While it is ``held`` it does not return."""

    def __init__(self, driver: str, *, held: bool = False, fails: Callable[[int], bool] = lambda n: False) -> None:
        self.got: list[int] = []
        self.ended: list[int] = []
        self.running = self.most = 0
        self.fails = fails
        self.lock = threading.Lock()
        self.gate: Any = threading.Event() if driver.startswith("sync") else anyio.Event()
        if not held:
            self.gate.set()
        self.call: Any = self.in_thread if driver.startswith("sync") else self.in_task

    def begin(self, message: Any) -> int:
        number = int(message.data)
        with self.lock:
            self.got.append(number)
            self.running += 1
            self.most = max(self.most, self.running)
        return number

    def end(self, number: int) -> None:
        with self.lock:
            self.running -= 1
            self.ended.append(number)
        if self.fails(number):
            raise LookupError(number)

    def in_thread(self, message: Any) -> None:
        number = self.begin(message)
        self.gate.wait(60)
        self.end(number)

    async def in_task(self, message: Any) -> None:
        number = self.begin(message)
        await self.gate.wait()
        self.end(number)


class Scene:
    """A stream, a durable pull consumer, and its subscription."""

    def __init__(self, nc: Any, js: Any, name: str, sub: Any) -> None:
        self.nc, self.js, self.name, self.sub = nc, js, name, sub

    async def unacknowledged(self) -> tuple[int, int]:
        """How many messages wait for an acknowledgement, and for a delivery."""
        info = await self.js.consumer_info(self.name, "C")
        return info.num_ack_pending, info.num_pending

    async def until_acknowledged(self) -> None:
        """Wait until all that is stored now was delivered. The server may count it as pending only a moment later."""
        last = (await self.js.stream_info(self.name)).state.last_seq
        while (await self.js.consumer_info(self.name, "C")).delivered.stream_seq < last:
            await anyio.sleep(0.005)
        while await self.unacknowledged() != (0, 0):
            await anyio.sleep(0.005)


@pytest.fixture
async def scene(server: Any, connect: Connect) -> Any:
    """Makes a scene. Its options are those of the consumer."""
    kept: list[Scene] = []  # until their connections have ended
    async with AsyncExitStack() as stack:

        async def make(count: int, event_cb: Any = None, **options: Any) -> Scene:
            nc = await stack.enter_async_context(connect(server.url, event_cb=event_cb))
            js, name = await make_stream(nc)
            await fill(js, name, count)
            sub = await js.pull_subscribe(f"{name}.a", durable="C", **options)
            kept.append(Scene(nc, js, name, sub))
            return kept[-1]

        yield make


@promise("| returns | it is acknowledged, unless the callback has settled it |")
async def test_callbacks_get_all_and_acknowledge(scene: Any, driver: str) -> None:
    here = await scene(200)
    callback = Callback(driver)
    async with here.sub.consume(callback.call, concurrency=4) as work:
        await here.until_acknowledged()
        assert (work.finished, work.failed, work.is_closed) == (200, 0, False)
    assert sorted(callback.got) == list(range(200))
    assert work.is_closed
    assert (work.running, work.pending_msgs, work.error) == (0, 0, None)


async def test_an_acknowledgement_does_not_wait_for_the_next_callback(scene: Any, driver: str) -> None:
    here = await scene(2)
    gate: Any = threading.Event() if driver.startswith("sync") else anyio.Event()

    def in_thread(message: Any) -> None:
        if message.data == b"1":
            gate.wait(60)

    async def in_task(message: Any) -> None:
        if message.data == b"1":
            await gate.wait()

    async with here.sub.consume(in_thread if driver.startswith("sync") else in_task):
        while await here.unacknowledged() != (1, 0):
            await anyio.sleep(0.005)
        gate.set()


@promise("calls a function with each message, several at once, in order within a key.")
@promise("It returns at once")
async def test_no_more_callbacks_run_than_wanted(scene: Any, driver: str) -> None:
    here = await scene(20)
    callback = Callback(driver, held=True)
    async with here.sub.consume(callback.call, concurrency=3) as work:
        await until(lambda: callback.running == 3)
        assert work.running == 3
        callback.gate.set()
        await here.until_acknowledged()
    assert callback.most == 3


@promise("calls a function with each message, several at once, in order within a key.")
@promise("messages of one key are worked on one after the other, in the order of the stream.")
async def test_messages_of_a_key_follow_each_other_after_a_failure_too(scene: Any, driver: str) -> None:
    events: list[Event] = []
    here = await scene(40, events.append)
    failed: set[int] = set()

    def fails(number: int) -> bool:
        if number % 5 or number in failed:
            return False
        failed.add(number)
        return True

    callback = Callback(driver, fails=fails)
    async with here.sub.consume(
        callback.call, concurrency=4, key=lambda message: int(message.data) % 4, retry_delay=0.02
    ) as work:
        await here.until_acknowledged()
    assert (work.finished, work.failed) == (40, 8)
    assert isinstance(work.last_failure, LookupError)
    assert len([event for event in events if isinstance(event, CallbackFailed)]) == 8
    for lane in range(4):
        expected = [number for each in range(lane, 40, 4) for number in ([each] * (1 if each % 5 else 2))]
        assert [number for number in callback.ended if number % 4 == lane] == expected


@promise("| raises an exception of `term_on` | it does not come again.")
async def test_a_failure_can_end_the_deliveries(scene: Any, driver: str) -> None:
    here = await scene(3)
    seen = []

    def on_error(message: Any, error: BaseException) -> None:
        seen.append((int(message.data), type(error)))
        raise ValueError("of on_error")

    callback = Callback(driver, fails=lambda number: True)
    async with here.sub.consume(callback.call, term_on=LookupError, on_error=on_error) as work:
        await here.until_acknowledged()
    assert callback.got == [0, 1, 2]
    assert seen == [(0, LookupError), (1, LookupError), (2, LookupError)]
    assert isinstance(work.last_failure, ValueError)


@promise("given back by a nak, so that another client gets them at once.")
@promise("Afterwards the subscription can be used again.")
async def test_stop_waits_for_callbacks_and_gives_back_the_rest(scene: Any, driver: str) -> None:
    here = await scene(30)
    callback = Callback(driver, held=True)
    work = here.sub.consume(callback.call, concurrency=2)
    await until(lambda: callback.running == 2 and work.pending_msgs >= 14)
    with pytest.raises(TimeoutError):
        await work.stop(timeout=0.05)
    callback.gate.set()
    await work.stop()
    assert sorted(callback.ended) == [0, 1]
    assert work.given_back >= 14
    other = Callback(driver)
    async with here.sub.consume(other.call, concurrency=2):  # at once, long before ack_wait
        await here.until_acknowledged()
    assert sorted(other.got) == list(range(2, 30))


@promise("| `work.drain()` | worked off | waited for |")
async def test_drain_works_off_what_has_come(scene: Any, driver: str) -> None:
    here = await scene(30)
    callback = Callback(driver, held=True)
    work = here.sub.consume(callback.call, concurrency=2, max_msgs=10)
    await until(lambda: callback.running == 2 and work.pending_msgs >= 5)
    with pytest.raises(TimeoutError):
        await work.drain(timeout=0.05)
    callback.gate.set()
    await work.drain()
    assert work.is_closed
    assert work.given_back == 0
    while (await here.unacknowledged())[0]:
        await anyio.sleep(0.005)
    assert 7 <= len(callback.ended) < 30


@promise("| `nc.drain()` | worked off, up to the connection's `timeout` | waited for, up to that |")
async def test_draining_the_connection_waits_for_callbacks(scene: Any, driver: str) -> None:
    here = await scene(10)
    callback = Callback(driver)
    work = here.sub.consume(callback.call, concurrency=2)
    await until(lambda: callback.got)
    await here.nc.drain()
    assert here.nc.is_closed
    assert work.is_closed
    assert sorted(callback.ended) == list(range(10))


async def test_a_callback_may_stop_its_own_work(scene: Any, driver: str) -> None:
    here = await scene(5)
    work: Any = None
    refused: list[BaseException] = []

    def in_thread(message: Any) -> None:
        ready.wait(60)
        try:
            work._target.wait_closed()
        except LocalProtocolError as error:
            refused.append(error)
        work._target.stop()

    async def in_task(message: Any) -> None:
        await ready.wait()
        try:
            await work.wait_closed()
        except LocalProtocolError as error:
            refused.append(error)
        await work.stop()

    is_threaded = driver.startswith("sync")
    ready: Any = threading.Event() if is_threaded else anyio.Event()
    work = here.sub.consume(in_thread if is_threaded else in_task)
    ready.set()
    await work.wait_closed()
    assert (work.finished, len(refused)) == (1, 1)


async def test_a_callback_may_drain_the_connection(scene: Any, driver: str) -> None:
    here = await scene(5)
    got: list[int] = []

    def in_thread(message: Any) -> None:
        got.append(int(message.data))
        if len(got) == 1:
            here.nc._target.drain()

    async def in_task(message: Any) -> None:
        got.append(int(message.data))
        if len(got) == 1:
            await here.nc.drain()

    here.sub.consume(in_thread if driver.startswith("sync") else in_task)
    await until(lambda: here.nc.is_closed)
    assert got == list(range(5))


@promise("With `working=True` reports of progress keep it")
async def test_work_in_progress_outlasts_the_ack_wait(scene: Any, driver: str) -> None:
    here = await scene(1, ack_wait=LIMIT)
    callback = Callback(driver, held=True)
    async with here.sub.consume(callback.call, working=True, concurrency=2):
        await until(lambda: callback.running)
        await anyio.sleep(2.2 * LIMIT)  # what is measured: more than two ack waits
        assert (await here.js.consumer_info(here.name, "C")).num_redelivered == 0
        callback.gate.set()
        await here.until_acknowledged()
    assert callback.got == [0]


@promise("It is not worked on twice at once in one program.")
async def test_a_callback_that_hangs_does_not_get_its_message_twice(scene: Any, driver: str) -> None:
    """The server delivers it again, and here it is under way already. Its acknowledgement counts all the same."""
    here = await scene(1, ack_wait=LIMIT)
    callback = Callback(driver, held=True)
    async with here.sub.consume(callback.call, concurrency=2):
        await until(lambda: callback.running)
        come, answers = here.nc.stats["in_msgs"], 1
        while not (await here.js.consumer_info(here.name, "C")).num_redelivered:
            answers += 1
            await anyio.sleep(0.01)
        await until(lambda: here.nc.stats["in_msgs"] > come + answers)  # the server may count it before it sends it
        callback.gate.set()
        await here.until_acknowledged()
    assert callback.got == [0]


@promise("| is cancelled | it is not acknowledged")
async def test_a_callback_that_is_cancelled_acknowledges_nothing(scene: Any, server: Any, driver: str) -> None:
    """The connection ends while it runs. On threads nothing can end a callback: it cannot acknowledge any more."""
    here = await scene(1, ack_wait=LIMIT)
    callback = Callback(driver, held=True)
    work = here.sub.consume(callback.call)
    await until(lambda: callback.running)
    await here.nc.close()
    callback.gate.set()
    await until(lambda: work.is_closed)
    other = await scene(0)
    info = await other.js.consumer_info(here.name, "C")
    assert (info.num_ack_pending, info.ack_floor.consumer_seq) == (1, 0)
    assert work.finished == 0
    again = await other.js.pull_subscribe_bind("C", here.name)
    other.sub = (other.sub, again)  # until the connection has ended
    (message,) = await again.fetch(1, timeout=60)
    assert message.metadata.num_delivered == 2


async def test_the_end_of_the_consumer_ends_the_work(scene: Any, driver: str) -> None:
    events: list[Event] = []
    here = await scene(1, events.append)
    callback = Callback(driver)
    work = here.sub.consume(callback.call, concurrency=2)
    await here.until_acknowledged()
    await here.js.delete_consumer(here.name, "C")
    with pytest.raises(ConsumerDeletedError):
        await work.wait_closed()
    assert isinstance(work.error, ConsumerDeletedError)
    await until(lambda: any(isinstance(event, SubscriptionFailed) for event in events))  # another thread may tell it
    assert [type(event) for event in events if isinstance(event, SubscriptionFailed)] == [SubscriptionFailed]
    await work.stop()  # nothing is left to be done


async def test_the_end_of_the_subscription_ends_the_work(scene: Any, driver: str) -> None:
    here = await scene(1)
    callback = Callback(driver)
    work = here.sub.consume(callback.call)
    await here.until_acknowledged()
    await here.sub.unsubscribe()
    await work.wait_closed(timeout=60)
    with pytest.raises(ConnectionClosedError):
        here.sub.consume(callback.call)


async def test_a_dropped_context_goes_on(scene: Any, driver: str) -> None:
    here = await scene(0)
    callback = Callback(driver)
    here.sub.consume(callback.call)
    here.sub = None
    gc.collect()
    await fill(here.js, here.name, 3)
    await here.until_acknowledged()
    assert callback.got == [0, 1, 2]


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"key": 1}, "key must be callable"),
        ({"on_error": 1}, "on_error must be callable"),
        ({"retry_delay": -1}, "retry_delay"),
        ({"term_on": "ValueError"}, "term_on"),
        ({"expires": 0}, "expire"),
    ],
)
async def test_bad_input_is_refused(scene: Any, driver: str, keywords: dict[str, Any], text: str) -> None:
    here = await scene(0)
    with pytest.raises(LocalProtocolError, match=text):
        here.sub.consume(print, **keywords)
    with pytest.raises(LocalProtocolError, match="callback must be callable, not NoneType"):
        here.sub.consume(None)
    async with here.sub.consume(print):
        with pytest.raises(LocalProtocolError, match="streams messages already"):
            here.sub.consume(print)
        with pytest.raises(LocalProtocolError, match="streams messages already"):
            await here.sub.fetch()
