"""What every driver must do with callbacks of core subscriptions, and with payloads that should be JSON."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from jsproto.errors import ConnectionClosedError, LocalProtocolError, NotJSONError
from jsproto.events import CallbackFailed, Event, SubscriptionFailed
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import PATIENCE, Connect
from tests.drivers.test_facade import make_stream
from tests.drivers.test_reconnect import run, until

pytestmark = pytest.mark.anyio


async def publish(nc: Any, subject: str, count: int) -> None:
    for number in range(count):
        await nc.publish(subject, b"%d" % number)
    await nc.flush()


def numbers(count: int) -> list[int]:
    return list(range(count))


async def test_messages_come_one_by_one_and_in_order(server: Any, driver: str, connect: Connect) -> None:
    got: list[int] = []
    running = 0

    def take(message: Any) -> None:
        nonlocal running
        running += 1
        assert running == 1
        got.append(int(message.data))
        running -= 1

    async def take_slowly(message: Any) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await anyio.sleep(0)
        got.append(int(message.data))
        running -= 1

    for callback in (take,) if driver.startswith("sync") else (take, take_slowly):
        got.clear()
        async with connect(server.url) as nc:
            subscription = await nc.subscribe("a", cb=callback)
            await publish(nc, "a", 500)
            await until(lambda: len(got) == 500)
            assert got == numbers(500)
            assert subscription.pending_msgs == 0
            with pytest.raises(LocalProtocolError, match="this subscription has a callback"):
                await subscription.next_msg(timeout=0)
            with pytest.raises(LocalProtocolError, match="this subscription has a callback"):
                async for _ in subscription:
                    pass


async def test_a_callback_may_answer(server: Any, driver: str, connect: Connect) -> None:
    def answer(message: Any) -> None:
        message.respond(message.data.upper())

    async def answer_on_a_loop(message: Any) -> None:
        await message.respond(message.data.upper())

    async with connect(server.url) as nc:
        service = await nc.subscribe("service", cb=answer if driver.startswith("sync") else answer_on_a_loop)
        assert (await nc.request("service", b"text", timeout=PATIENCE)).data == b"TEXT"
        assert service.subject == "service"


async def test_an_error_is_reported_and_the_next_message_follows(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    got: list[bytes] = []

    def fail(message: Any) -> None:
        got.append(message.data)
        if len(got) == 2:
            raise ValueError("no")

    async with connect(server.url, event_cb=events.append) as nc:
        await nc.subscribe("a", cb=fail)  # nobody holds it: the callback does
        await publish(nc, "a", 4)
        await until(lambda: len(got) == 4)
    (failed,) = [event for event in events if isinstance(event, CallbackFailed)]
    assert failed.subject == "a"
    assert isinstance(failed.error, ValueError)
    assert not any(isinstance(event, SubscriptionFailed) for event in events)


async def test_what_is_no_callback_is_refused(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        with pytest.raises(LocalProtocolError, match="^cb must be callable, or None, not int$"):
            await nc.subscribe("a", cb=5)
        assert not nc._session._subscribed


@pytest.mark.parametrize("how", ["subscription", "connection"])
async def test_draining_waits_for_the_callback(server: Any, connect: Connect, how: str) -> None:
    got: list[int] = []
    async with connect(server.url) as nc:
        subscription = await nc.subscribe("a", cb=lambda message: got.append(int(message.data)))
        await publish(nc, "a", 300)
        await (subscription if how == "subscription" else nc).drain()
        assert got == numbers(300)
        if how == "connection":
            assert nc.is_closed


async def test_a_callback_may_drain_its_connection(server: Any, driver: str, connect: Connect) -> None:
    got: list[int] = []
    async with connect(server.url) as other, connect(server.url) as nc:
        subscription: Any = None

        def is_due(message: Any) -> bool:
            got.append(int(message.data))
            return len(got) == 3

        def take(message: Any) -> None:
            if is_due(message):
                nc._target.drain()

        async def take_on_a_loop(message: Any) -> None:
            if is_due(message):
                await nc.drain()

        subscription = await nc.subscribe("a", cb=take if driver.startswith("sync") else take_on_a_loop)
        await nc.flush()
        await publish(other, "a", 100)
        await until(lambda: nc.is_closed)
        assert got == numbers(len(got))
        assert len(got) >= 3
        assert subscription.pending_msgs == 0


async def test_unsubscribing_ends_the_callback(server: Any, connect: Connect) -> None:
    got: list[int] = []
    async with connect(server.url) as nc:
        subscription = await nc.subscribe("a", cb=lambda message: got.append(int(message.data)))
        await publish(nc, "a", 3)
        await until(lambda: len(got) == 3)
        await subscription.unsubscribe()
        await publish(nc, "a", 3)
        await until(lambda: not nc._serving)
        assert len(got) == 3
        limited = await nc.subscribe("b", cb=lambda message: got.append(int(message.data)))
        await limited.unsubscribe(2)
        await publish(nc, "b", 5)
        await until(lambda: not nc._serving)
        assert got == [0, 1, 2, 0, 1]


async def test_a_callback_goes_on_after_a_lost_link(own_server: NatsServer, connect: Connect) -> None:
    got: list[bytes] = []
    async with connect(own_server.url, reconnect_time_wait=0.02, max_reconnect_attempts=-1) as nc:
        await nc.subscribe("a", cb=lambda message: got.append(message.data))
        await nc.publish("a", b"before")
        await until(lambda: len(got) == 1)
        await run(own_server.restart)
        await nc.flush(timeout=PATIENCE)
        await nc.publish("a", b"after")
        await until(lambda: got == [b"before", b"after"])


async def test_closing_ends_a_callback_quietly(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        subscription = await nc.subscribe("a", cb=lambda message: None)
    assert not [event for event in events if isinstance(event, SubscriptionFailed | CallbackFailed)]
    await subscription.unsubscribe()
    with pytest.raises(ConnectionClosedError):
        await nc.subscribe("a", cb=lambda message: None)


# -- JSON --------------------------------------------------------------------------------------------------------------


VALUES: list[tuple[bytes, Any]] = [(b'{"a": [1, 2.5, null, true, "\xc3\xa4"]}', {"a": [1, 2.5, None, True, "\u00e4"]}),
                                   (b"5", 5), (b'"text"', "text"), (b"[]", [])]  # fmt: skip
BAD: list[tuple[bytes, str]] = [
    (b"", "Expecting value: line 1 column 1"),
    (b'{"secret": }', "Expecting value: line 1 column 12"),
    (b"\xff\xfe", "it is not in UTF-8"),
    (b"1" * 5_000, "a number is too long"),
    (b"[" * 100_000, "it is nested too deeply"),
]


async def test_payloads_as_json(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        subject = f"{name}.a"
        subscription = await nc.subscribe(subject)
        async with await js.pull_subscribe(subject) as pulled:
            for payload in [payload for payload, _ in (*VALUES, *BAD)]:
                seq = (await js.publish(subject, payload)).seq
                messages = [
                    await subscription.next_msg(timeout=PATIENCE), (await pulled.fetch(1, timeout=PATIENCE))[0],
                    await js.get_msg(name, seq),
                ]  # fmt: skip
                for message in messages:
                    await check(message, payload, subject)


async def check(message: Any, payload: bytes, subject: str) -> None:
    good = dict(VALUES)
    if payload in good:
        assert message.json() == good[payload]
        return
    with pytest.raises(NotJSONError) as caught:
        message.json()
    assert str(caught.value).startswith(f"the message on {subject!r} is no JSON: {dict(BAD)[payload]}")
    assert caught.value.subject == subject
    assert isinstance(caught.value, ValueError)
    assert "secret" not in str(caught.value)
