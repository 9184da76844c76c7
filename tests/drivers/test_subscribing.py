"""What every driver must do on a real nats-server: subscribe to consumers that push, in order if asked."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

from jsproto.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.consume import push
from jsproto.errors import (
    BindError,
    ConfigMismatchError,
    ConnectionClosedError,
    ConnectionLostError,
    DuplicateSubscriptionError,
    FilterMismatchError,
    FlowControlAckError,
    LocalProtocolError,
    MessagesDroppedError,
    NoMatchingStreamError,
    NoQueueError,
    PullConsumerError,
    QueueFlowControlError,
    QueueHeartbeatError,
    QueueRequiredError,
    RetentionError,
    TimeoutError,
    WrongQueueError,
)
from jsproto.events import (
    CallbackFailed,
    ConsumerNotDeleted,
    ConsumerSilent,
    Event,
    MessagesMissed,
    OrderedConsumerRecreated,
    SlowConsumer,
    StreamRecreated,
    StreamRolledBack,
    SubscriptionFailed,
)
from jsproto.grammar.consumer import ConsumerConfig
from tests import volumes
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, unique
from tests.drivers.test_reconnect import run
from tests.marks import known_fault, promise, requirement

pytestmark = pytest.mark.anyio

PATIENCE = 60.0  # seconds for one message


async def fill(js: Any, name: str, count: int, first: int = 0) -> None:
    async with js.async_publisher() as publisher:
        await publisher.publish_many([(f"{name}.a", b"%d" % n) for n in range(first, first + count)])


async def consumers(nc: Any, stream: str) -> list[str]:
    answer = await nc.request(f"$JS.API.CONSUMER.NAMES.{stream}")
    found: list[str] = json.loads(answer.data)["consumers"]
    return found


async def create(nc: Any, stream: str, name: str, **config: Any) -> None:
    body = {"stream_name": stream, "config": {"name": name, "durable_name": name, "ack_policy": "explicit", **config}}
    answer = await nc.request(f"$JS.API.CONSUMER.CREATE.{stream}.{name}", json.dumps(body).encode())
    assert "error" not in json.loads(answer.data), answer.data


async def take(subscription: Any, count: int) -> list[int]:
    return [int((await subscription.next_msg(timeout=PATIENCE)).data) for _ in range(count)]


async def until(condition: Any) -> None:
    """Wait for what other tasks, or threads, bring about."""
    while not condition():
        await anyio.sleep(0.002)


# -- messages and the end ----------------------------------------------------------------------------------------------


@requirement(180)
async def test_an_iterator_gives_messages_until_it_is_drained(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 1500)
        got: list[int] = []
        wanted = ConsumerConfig.from_options(ack_wait=60.0, max_ack_pending=1000)
        async with await js.subscribe(f"{name}.*", config=wanted, max_ack_pending=2000) as subscription:
            config = (await subscription.consumer_info()).config
            assert (config.ack_wait, config.max_ack_pending) == (60, 2000)
            assert (subscription.stream, subscription.subject) == (name, f"{name}.*")
            assert await consumers(nc, name) == [subscription.consumer]
            async for message in subscription:
                got.append(int(message.data))
                await message.ack()
                if len(got) == 1500:
                    await subscription.drain()
        assert got == list(range(1500))
        assert isinstance(subscription.error, ConnectionClosedError)
        assert await consumers(nc, name) == []


@requirement(204)
@promise("`drain` delivers what is buffered first")
@known_fault("a drain hangs, or loses what is buffered")
async def test_draining_delivers_what_is_buffered_and_then_deletes_the_consumer(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 50)
        subscription = await js.subscribe(f"{name}.a", durable="D")
        assert await take(subscription, 1) == [0]
        await nc.flush()
        await subscription.drain()
        assert subscription.pending_msgs > 0
        assert await consumers(nc, name) == ["D"]  # what is to come may have to be acknowledged
        rest = [int(message.data) async for message in subscription]
        assert rest == list(range(1, 1 + len(rest)))
        while await consumers(nc, name):
            pass
        with pytest.raises(ConnectionClosedError):
            await subscription.next_msg()


@requirement(200)
@promise("The end of a subscription deletes the consumer that it created")
async def test_unsubscribing_deletes_what_the_subscription_created(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        first = await js.subscribe(f"{name}.a", durable="D")
        kept = await js.subscribe(f"{name}.a", durable="K", delete_consumer=False)
        await first.unsubscribe()
        await first.unsubscribe()
        await kept.unsubscribe()
        assert await consumers(nc, name) == ["K"]
        again = await js.subscribe(f"{name}.a", durable="K")
        await again.unsubscribe()
        assert await consumers(nc, name) == ["K"]  # it was there before
        gone = await js.subscribe(f"{name}.a")
        await nc.request(f"$JS.API.CONSUMER.DELETE.{name}.{gone.consumer}")
        await gone.unsubscribe()


@requirement(180)
@promise("acknowledged as the callbacks return")
async def test_a_callback_gets_the_same_and_acknowledges_by_returning(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        got: list[int] = []

        def callback(message: Any) -> None:
            got.append(int(message.data))
            if got[-1] == 7:
                raise KeyError("seven")

        await fill(js, name, 100)
        subscription = await js.subscribe(f"{name}.a", durable="D", cb=callback, delete_consumer=False)
        await until(lambda: len(got) == 100)
        await subscription.drain()
        assert got == list(range(100))
        (failed,) = [event for event in events if isinstance(event, CallbackFailed)]
        assert isinstance(failed.error, KeyError)
        while (await js.stream_info(name)).state.messages > 1:  # all were acknowledged but one
            pass
        assert await consumers(nc, name) == ["D"]


async def test_a_callback_may_leave_acknowledging_to_others(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        await fill(js, name, 10)
        got: list[Any] = []
        subscription = await js.subscribe(f"{name}.a", durable="D", cb=got.append, manual_ack=True)
        await until(lambda: len(got) == 10)
        assert (await js.stream_info(name)).state.messages == 10
        assert await subscription.ack_many([]) == 0
        with pytest.raises(LocalProtocolError, match="callback"):
            await subscription.next_msg(timeout=1)
        await subscription.unsubscribe()


async def test_a_coroutine_function_is_a_callback_too(server: Any, connect: Connect, driver: str) -> None:
    if driver.startswith("sync"):
        pytest.skip("only a loop can run one")
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 10)
        got: list[int] = []

        async def callback(message: Any) -> None:
            await anyio.sleep(0)
            got.append(int(message.data))
            if len(got) == 10:
                await subscription.drain()  # from within

        subscription = await js.subscribe(f"{name}.a", cb=callback)
        await until(lambda: subscription.error is not None)
        assert got == list(range(10))


@known_fault("a drain hangs, or loses what is buffered")
async def test_closing_the_connection_ends_callbacks(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        for ordered in (False, True):
            await js.subscribe(f"{name}.a", ordered=ordered, cb=lambda message: None)
    assert not [event for event in events if isinstance(event, SubscriptionFailed | CallbackFailed)]


def slow(driver: str, seconds: float, got: list[int]) -> Any:
    """A callback that needs some time for a message."""

    def threaded(message: Any) -> None:
        got.append(int(message.data))
        time.sleep(seconds)

    async def looping(message: Any) -> None:
        got.append(int(message.data))
        await anyio.sleep(seconds)

    return threaded if driver.startswith("sync") else looping


@promise("`drain` delivers what is buffered first")
async def test_draining_the_connection_waits_for_callbacks(server: Any, connect: Connect, driver: str) -> None:
    events: list[Event] = []
    async with connect(server.url) as other:
        js, name = await make_stream(other, retention="workqueue")
        await fill(js, name, 50)
        async with connect(server.url, event_cb=events.append) as nc:
            got: list[int] = []
            callback = slow(driver, 0.002, got)
            await nc.jetstream().subscribe(f"{name}.a", durable="D", cb=callback, delete_consumer=False)
            await until(lambda: bool(got))
            await nc.drain()
            assert got == list(range(50))
        assert not [event for event in events if isinstance(event, CallbackFailed)]
        while (await js.stream_info(name)).state.messages:  # all were acknowledged
            pass


@pytest.mark.parametrize("ending", ["unsubscribe", "close"])
async def test_a_callback_gets_nothing_after_the_end(server: Any, connect: Connect, driver: str, ending: str) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 50)
        got: list[int] = []
        subscription = await js.subscribe(f"{name}.a", cb=slow(driver, 0.02, got))
        await until(lambda: len(got) > 2)
        await (subscription.unsubscribe() if ending == "unsubscribe" else nc.close())
        had = len(got)
        await anyio.sleep(0.1)
        assert len(got) <= had + 1 < 50
    assert len([event for event in events if isinstance(event, CallbackFailed)]) <= 1  # the one that was under way


@requirement(180, 201)
@promise("The end of a subscription deletes the consumer that it created")
async def test_members_of_a_queue_group_share_one_consumer(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        got: list[list[int]] = [[], []]
        members = [
            await js.subscribe(f"{name}.a", queue="Q", cb=lambda message, own=own: own.append(int(message.data)))
            for own in got
        ]
        assert await consumers(nc, name) == ["Q"]
        await fill(js, name, 200)
        await until(lambda: len(got[0]) + len(got[1]) == 200)
        assert sorted(got[0] + got[1]) == list(range(200))
        for member in members:
            await member.drain()
        assert await consumers(nc, name) == ["Q"]
        last = await js.subscribe(f"{name}.a", queue="W", delete_consumer=True)
        await last.unsubscribe()
        assert await consumers(nc, name) == ["Q"]


@known_fault("cancelling a fetch, or a wait for a message, loses messages")
async def test_waiting_for_a_message_has_its_time(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with await js.subscribe(f"{name}.a") as subscription:
            with pytest.raises(TimeoutError):
                await subscription.next_msg(timeout=0.01)
            await fill(js, name, 1)
            assert await take(subscription, 1) == [0]


# -- what does not fit -------------------------------------------------------------------------------------------------


@requirement(188, 195)
@promise("An existing consumer is never changed.")
async def test_a_consumer_that_does_not_fit_is_refused_with_the_reason(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        inbox = nc.new_inbox()
        await create(nc, name, "PULL")
        await create(nc, name, "PUSH", deliver_subject=inbox, filter_subject=f"{name}.a", ack_wait=7_000_000_000)
        await create(nc, name, "GROUP", deliver_subject=inbox, deliver_group="g")
        await create(nc, name, "HB", deliver_subject=inbox, deliver_group="g", idle_heartbeat=10**9)
        await create(nc, name, "FC", deliver_subject=inbox, deliver_group="g", idle_heartbeat=10**9, flow_control=True)
        bound = await js.subscribe(f"{name}.a", durable="BOUND")
        cases: list[tuple[type[BindError], dict[str, Any]]] = [
            (PullConsumerError, {"consumer": "PULL"}),
            (DuplicateSubscriptionError, {"durable": "BOUND"}),
            (FilterMismatchError, {"durable": "PUSH", "subject": f"{name}.b"}),
            (ConfigMismatchError, {"durable": "PUSH", "ack_wait": 8.0, "max_deliver": 3}),
            (QueueRequiredError, {"consumer": "GROUP"}),
            (WrongQueueError, {"consumer": "GROUP", "queue": "other"}),
            (NoQueueError, {"consumer": "PUSH", "queue": "g"}),
            (QueueHeartbeatError, {"consumer": "HB", "queue": "g"}),
            (QueueFlowControlError, {"consumer": "FC", "queue": "g"}),
        ]
        for error, keywords in cases:
            subject = keywords.pop("subject", f"{name}.a")
            with pytest.raises(error) as caught:
                await js.subscribe(subject, **keywords)
            assert type(caught.value) is error
            if error is ConfigMismatchError:
                assert caught.value.fields == ("ack_wait", "max_deliver")  # type: ignore[attr-defined]
        fits = await js.subscribe(f"{name}.a", durable="PUSH", ack_wait=7.0)
        assert fits.consumer == "PUSH"
        await bound.unsubscribe()


async def test_a_consumer_acknowledged_by_flow_control_is_not_subscribed_to(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await create(nc, name, "FC", deliver_subject=nc.new_inbox(), ack_policy="flow_control", max_ack_pending=10)
        for keywords in ({"consumer": "FC"}, {"durable": "FC"}, {"consumer": "FC", "raw": True}):
            with pytest.raises(FlowControlAckError, match="streams that source"):
                await js.subscribe(f"{name}.a", **keywords)


@requirement(184)
async def test_what_is_not_there(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        nowhere = unique("nowhere")
        with pytest.raises(NoMatchingStreamError):
            await js.subscribe(f"{nowhere}.a")
        with pytest.raises(ConsumerNotFoundError):
            await js.subscribe(f"{name}.a", consumer="none")
        with pytest.raises(StreamNotFoundError):
            await js.subscribe(f"{name}.a", stream=nowhere)
        with pytest.raises(StreamNotFoundError):
            await js.subscribe(stream=nowhere, ordered=True)
        other = unique("T")
        await js.create_stream(other, subjects=[f"{other}.>"])
        with pytest.raises(NoMatchingStreamError, match="several"):
            await js.subscribe(">", ordered=True)
        await js.delete_stream(other)


@pytest.mark.parametrize(
    "keywords",
    [
        {"subject": None},
        {"subject": "a b"},
        {"queue": "q", "idle_heartbeat": 1.0},
        {"queue": "q", "flow_control": True, "idle_heartbeat": 1.0},
        {"flow_control": True, "idle_heartbeat": 0.0},
        {"durable": "a", "consumer": "b"},
        {"durable": "a.b"},
        {"filter_subject": "a"},
        {"max_waiting": 3},
        {"pending_msgs_limit": 0, "stream": "NO"},
        {"ordered": True, "durable": "D"},
        {"ordered": True, "ack_policy": "explicit"},
        {"ack_policy": "flow_control"},
        {"config": ConsumerConfig(ack_policy="flow_control"), "durable": "D"},
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_sent(
    server: Any, connect: Connect, keywords: dict[str, Any]
) -> None:
    async with connect(server.url) as nc:
        asked = {"subject": "a", **keywords}
        with pytest.raises((LocalProtocolError, StreamNotFoundError)) as caught:
            await nc.jetstream().subscribe(asked.pop("subject"), **asked)
        assert isinstance(caught.value, LocalProtocolError) or "pending_msgs_limit" in keywords


# -- statuses ----------------------------------------------------------------------------------------------------------


@requirement(225)
@promise("When it was deleted, each of its subscriptions ends with `ConsumerNotFoundError`.")
async def test_a_consumer_that_is_deleted_ends_its_subscription(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        subscription = await js.subscribe(f"{name}.a", idle_heartbeat=0.1)
        served = await js.subscribe(f"{name}.a", idle_heartbeat=0.1, cb=lambda message: None)
        for each in (subscription, served):
            await nc.request(f"$JS.API.CONSUMER.DELETE.{name}.{each.consumer}")
        with pytest.raises(ConsumerNotFoundError):
            await subscription.next_msg(timeout=PATIENCE)
        await until(lambda: [event for event in events if isinstance(event, SubscriptionFailed)])
        silent = [event for event in events if isinstance(event, ConsumerSilent)]
        assert {event.consumer for event in silent} == {subscription.consumer, served.consumer}


@promise("When it was deleted, each of its subscriptions ends with `ConsumerNotFoundError`.")
@known_fault("whoever waits for a consumer that is not there waits for ever, or for long")
async def test_members_of_a_queue_group_notice_that_their_consumer_is_deleted(
    server: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "CHECK_AFTER", 0.05)
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        members = [await js.subscribe(f"{name}.a", queue="Q") for _ in range(2)]
        await js.delete_consumer(name, "Q")
        for member in members:
            with pytest.raises(ConsumerNotFoundError):
                await member.next_msg(timeout=PATIENCE)
        assert not [event for event in events if isinstance(event, ConsumerSilent)]


@requirement(232)
async def test_flow_control_lets_a_large_stream_through_a_small_buffer(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.async_publisher() as publisher:
            await publisher.publish_many([(f"{name}.a", b"%-60000d" % n) for n in range(200)])
        subscription = await js.subscribe(f"{name}.a", ack_policy="none", flow_control=True, idle_heartbeat=1.0)
        assert await take(subscription, 200) == list(range(200))
        assert subscription.dropped == 0
        await subscription.unsubscribe()


@requirement(222)
async def test_raw_statuses_are_messages(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with await js.subscribe(f"{name}.a", raw=True, idle_heartbeat=0.1) as subscription:
            status = await subscription.next_msg(timeout=PATIENCE)
            assert status.data == b""
            assert status.headers["Nats-Last-Consumer"] == "0"


@promise("A subscriber that is pushed more than `pending_msgs_limit`")
@known_fault("slow consumers are counted wrongly, or not told")
async def test_a_slow_application_is_told_and_what_it_lost_comes_again(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 40)
        subscription = await js.subscribe(f"{name}.a", pending_msgs_limit=10, ack_wait=0.5)
        while subscription.dropped < 30:
            await nc.flush()  # without a reader thread only those who wait move bytes
        seen: set[int] = set()
        while len(seen) < 40:
            message = await subscription.next_msg(timeout=PATIENCE)
            seen.add(int(message.data))
            await message.ack()
        assert any(isinstance(event, SlowConsumer) for event in events)
        assert subscription.pending_bytes < 100
        await subscription.unsubscribe()


# -- ordered -----------------------------------------------------------------------------------------------------------


async def test_an_ordered_subscription_reads_a_stream_as_it_grows(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 1000)
        async with await js.subscribe(f"{name}.>", ordered=True) as subscription:
            assert await take(subscription, 1000) == list(range(1000))
            await fill(js, name, 500, first=1000)
            message = await subscription.next_msg(timeout=PATIENCE)
            await message.ack()  # nobody wants it
            assert message.metadata.sequence.stream == 1001
            assert await take(subscription, 499) == list(range(1001, 1500))
        while await consumers(nc, name):  # the server is told, and nobody waits for it
            await nc.flush()


async def test_an_ordered_subscription_starts_where_it_is_told_to(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 10)
        for options, first in (
            ({"deliver_policy": "by_start_sequence", "opt_start_seq": 4}, 3),
            ({"deliver_policy": "last"}, 9),
            ({"deliver_policy": "last_per_subject"}, 9),
            ({"filter_subjects": [f"{name}.a", f"{name}.b"]}, 0),
        ):
            subject = None if "filter_subjects" in options else f"{name}.a"
            async with await js.subscribe(subject, stream=name, ordered=True, **options) as subscription:
                assert await take(subscription, 10 - first) == list(range(first, 10))
        new = ConsumerConfig(deliver_policy="new")
        async with await js.subscribe(stream=name, ordered=True, config=new) as subscription:
            await fill(js, name, 3, first=10)
            assert await take(subscription, 3) == [10, 11, 12]


@promise("every message once and in order, as long as the stream holds it. What limits took is told")
@promise("every message once and in order, as long as the stream holds it until its turn")
@known_fault("an ordered consumer stalls, or makes one consumer after the other without end")
async def test_an_ordered_subscription_survives_what_others_do_to_its_consumer(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        subscription = await js.subscribe(f"{name}.a", ordered=True, idle_heartbeat=0.1)
        for turn, harm in enumerate(("RESET", "DELETE", "DELETE")):
            await fill(js, name, 20, first=20 * turn)
            assert await take(subscription, 20) == list(range(20 * turn, 20 * turn + 20))
            await nc.request(
                f"$JS.API.CONSUMER.{harm}.{name}.{subscription.consumer}", b'{"seq":1}' if harm == "RESET" else b""
            )
        await fill(js, name, 20, first=60)
        assert await take(subscription, 20) == list(range(60, 80))
        assert sum(isinstance(event, OrderedConsumerRecreated) for event in events) >= 3
        await subscription.unsubscribe()


@promise("A stream that was deleted and created again is read from its first message (event `StreamRecreated`)")
@pytest.mark.parametrize(("policy", "again"), [("all", 50), ("new", 5)])  # more than were read, and less
@pytest.mark.one_driver
async def test_an_ordered_subscription_reads_a_stream_that_was_made_again_from_its_beginning(
    server: Any, connect: Connect, policy: Any, again: int
) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        ordered = await js.subscribe(f"{name}.a", ordered=True, idle_heartbeat=0.5, deliver_policy=policy)
        await fill(js, name, 20)
        assert await take(ordered, 20) == list(range(20))
        await js.delete_stream(name)
        await js.create_stream(name, subjects=[f"{name}.*"], storage="memory")
        await fill(js, name, again)
        assert await take(ordered, again) == list(range(again))
        await ordered.unsubscribe()
    assert [event for event in events if isinstance(event, StreamRecreated)] == [StreamRecreated(name, 20)]


@promise("is read on from the first message that is newer than the last one read (event `StreamRolledBack`)")
@pytest.mark.one_driver
async def test_an_ordered_subscription_reads_on_in_a_stream_that_came_back_shorter(
    server_for: Any, connect: Connect
) -> None:
    events: list[Event] = []
    server = server_for()
    options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.05}
    async with connect(server.url, event_cb=events.append, **options) as nc:
        js, name = await make_stream(nc, storage="file")
        await fill(js, name, 40)
        async with await js.subscribe(f"{name}.a", ordered=True) as ordered:
            assert await take(ordered, 40) == list(range(40))

            backup: Any = []
            await run(lambda: backup.append(volumes.back_up(server)))
            more = [b"%d" % n for n in range(40, 60)]
            await run(partial(volumes.publish, server.url, f"{name}.a", more))
            assert await take(ordered, 20) == list(range(40, 60))
            await run(partial(volumes.put_back, server, backup[0], name))
            new = [b"%d" % n for n in range(100, 150)]
            await run(partial(volumes.publish, server.url, f"{name}.a", new))
            assert await take(ordered, 50) == list(range(100, 150))
    assert StreamRolledBack(name, 60) in events


@promise("every message once and in order, as long as the stream holds it. What limits took is told")
@promise("every message once and in order, as long as the stream holds it until its turn")
@promise("What limits or a purge took before its turn is the event `MessagesMissed`")
@promise("ordered: every message once and in order")
@pytest.mark.parametrize("if_missed", ["tell", "error"])
async def test_an_ordered_subscription_tells_what_was_dropped_before_its_turn(
    server: Any, connect: Connect, if_missed: Any
) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc, max_msgs=100)
        subject = f"{name}.>"
        async with await js.subscribe(subject, ordered=True, pending_msgs_limit=20, if_missed=if_missed) as ordered:
            await fill(js, name, 1000)
            got: list[int] = []
            with suppress(MessagesDroppedError):
                while not got or got[-1] != 999:
                    got.append(int((await ordered.next_msg(timeout=PATIENCE)).data))
    assert got == sorted(set(got))
    if if_missed == "error":
        assert isinstance(ordered.error, MessagesDroppedError)
        assert not {*range(ordered.error.wanted - 1, ordered.error.first_seq - 1)} & {*got}
    else:
        told = [n for event in events if isinstance(event, MessagesMissed) for n in range(event.first - 1, event.last)]
        assert sorted(got + told) == list(range(1000))


async def test_an_ordered_subscription_needs_a_stream_that_keeps_what_it_sends(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="interest")
        with pytest.raises(RetentionError, match="source"):
            await js.subscribe(f"{name}.a", ordered=True)
        with pytest.raises(LocalProtocolError, match="if_missed"):
            await js.subscribe(f"{name}.a", if_missed="error")
        assert await consumers(nc, name) == []


@promise("An ordered reader pauses instead.")
async def test_an_ordered_subscription_keeps_a_small_buffer_and_loses_nothing(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 2000)
        async with await js.subscribe(f"{name}.a", ordered=True, pending_msgs_limit=300) as subscription:
            await nc.flush()  # so that all that was sent by then is here
            assert await take(subscription, 2000) == list(range(2000))
            assert subscription.dropped > 0


async def test_an_ordered_subscription_ends_with_its_stream(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        subscription = await js.subscribe(f"{name}.a", ordered=True, idle_heartbeat=0.1)
        await js.delete_stream(name)
        with pytest.raises(StreamNotFoundError):
            await subscription.next_msg(timeout=PATIENCE)


@promise("Subscriptions go on, and so do readers of Direct Get")
@known_fault("subscriptions, those for acknowledgements too, are dead after a reconnect")
async def test_subscriptions_go_on_after_a_lost_link(server_for: Any, connect: Connect) -> None:
    events: list[Event] = []
    server = server_for()
    async with connect(server.url, event_cb=events.append, reconnect_time_wait=0.05) as nc:
        js, name = nc.jetstream(), unique("S")
        await js.create_stream(name, subjects=[f"{name}.>"])
        await fill(js, name, 100)
        ordered = await js.subscribe(f"{name}.a", ordered=True)
        plain = await js.subscribe(f"{name}.a", durable="D", idle_heartbeat=0.5, ack_wait=PATIENCE)
        assert await take(ordered, 50) == list(range(50))
        for n in range(100):
            message = await plain.next_msg(timeout=PATIENCE)
            assert int(message.data) == n
            await message.ack_sync() if n == 99 else await message.ack()
        await run(server.restart)
        while not any(isinstance(event, OrderedConsumerRecreated) for event in events):
            with suppress(ConnectionLostError):
                await nc.flush()  # without a reader thread only those who wait move bytes
        await fill(js, name, 100, first=100)
        assert await take(ordered, 150) == list(range(50, 200))
        assert set(await take(plain, 100)) == set(range(100, 200))


@known_fault("a drain hangs, or loses what is buffered")
async def test_draining_the_connection_deletes_consumers(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc)
        await fill(js, name, 10)
        subscription = await js.subscribe(f"{name}.a", durable="D")
        ordered = await js.subscribe(f"{name}.a", ordered=True)
        await nc.drain()
        assert isinstance(subscription.error, ConnectionClosedError)
        assert isinstance(ordered.error, ConnectionClosedError)
    async with connect(server.url) as nc:
        while await consumers(nc, name):  # nobody waits for the ordered one's
            await nc.flush()
    assert not [event for event in events if isinstance(event, ConsumerNotDeleted)]


async def test_a_durable_is_named_by_either_keyword(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        assert (await js.create_consumer(name, durable="A")).config.durable_name == "A"
        assert (await js.create_consumer(name, durable_name="A")).name == "A"
        for keywords in ({"durable": "B"}, {"durable_name": "B"}, {"config": ConsumerConfig(durable_name="B")}):
            async with await js.pull_subscribe(f"{name}.a", **keywords) as sub:
                assert sub.consumer == "B"
        for keywords in ({"durable": "C"}, {"durable_name": "C"}):
            async with await js.subscribe(f"{name}.a", delete_consumer=False, **keywords) as sub:
                assert sub.consumer == "C"
        assert sorted(await js.consumer_names(name)) == ["A", "B", "C"]
        with pytest.raises(LocalProtocolError, match="are the same"):
            await js.create_consumer(name, durable="A", durable_name="B")
