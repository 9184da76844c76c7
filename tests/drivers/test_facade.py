"""What every driver must do on a real nats-server: core NATS, streams, batches in and out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import anyio
import pytest
from anyio import to_thread

from jsproto.errors import (
    APIError,
    BadSubjectError,
    BatchClosedError,
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
    MaxPayloadError,
    NoRespondersError,
    NoServersError,
    NoStreamResponseError,
    TimeoutError,
)
from jsproto.events import Connected, Disconnected, Event, ServerInfoChanged, SlowConsumer
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import PATIENCE, Connect
from tests.drivers.threaded import Awaitable
from tests.marks import known_fault, promise, requirement

pytestmark = pytest.mark.anyio


def unique(prefix: str = "t") -> str:
    return f"{prefix}{uuid4().hex[:12]}"


async def read_all(reader: Any) -> list[Any]:
    """All messages of a reader. Threads take them in one go, not in one hop for each message."""
    if isinstance(reader, Awaitable):
        everything: list[Any] = await to_thread.run_sync(list, reader._target)
        return everything
    return [message async for message in reader]


async def make_stream(nc: Any, **options: Any) -> tuple[Any, str]:
    js, name = nc.jetstream(), unique("S")
    defaults: dict[str, Any] = {"storage": "memory", "allow_batched": True, "allow_direct": True}
    await js.create_stream(name, subjects=[f"{name}.>"], **defaults | options)
    return js, name


# -- core NATS ---------------------------------------------------------------------------------------------------------


async def test_a_message_arrives_as_it_was_sent(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        subject, inbox = unique(), nc.new_inbox()
        sub = await nc.subscribe(f"{subject}.*")
        await nc.publish(f"{subject}.a", b"payload \r\n \0", reply=inbox, headers={"Key": "Value", "Many": ["1", "2"]})
        message = await sub.next_msg(timeout=5)
        assert message.subject == f"{subject}.a"
        assert message.data == b"payload \r\n \0"
        assert message.reply == inbox
        assert message.headers.get_all("Many") == ["1", "2"]
        assert message.headers["Key"] == "Value"


async def test_a_request_is_answered(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc, connect(server.url) as other, anyio.create_task_group() as tasks:
        subject = unique()
        sub = await other.subscribe(subject)
        await other.flush()

        async def answer() -> None:
            message = await sub.next_msg(timeout=timedelta(seconds=5))
            await message.respond(message.data.upper(), headers={"A": "b"})

        tasks.start_soon(answer)
        response = await nc.request(subject, b"question", timeout=5)
        assert response.data == b"QUESTION"
        assert response.headers["A"] == "b"
        with pytest.raises(LocalProtocolError):
            await response.respond(b"nobody asked")


async def test_many_requests_at_once(server: Any, connect: Connect) -> None:
    answers: dict[int, bytes] = {}
    async with connect(server.url) as nc, connect(server.url) as other, anyio.create_task_group() as tasks:
        subject = unique()
        sub = await other.subscribe(subject)
        await other.flush()

        async def ask(number: int) -> None:
            answers[number] = (await nc.request(subject, b"%d" % number, timeout=PATIENCE)).data

        for number in range(20):
            tasks.start_soon(ask, number)
        for _ in range(20):
            message = await sub.next_msg(timeout=PATIENCE)
            await message.respond(b"re " + message.data)
    assert answers == {number: b"re %d" % number for number in range(20)}


async def test_a_request_fails_as_it_should(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        with pytest.raises(NoRespondersError) as caught:
            await nc.request(unique("nobody"), b"")
        assert caught.value.subject.startswith("nobody")
        silent = unique()
        listener = await nc.subscribe(silent)
        with pytest.raises(TimeoutError):
            await nc.request(silent, b"", timeout=0.05)
        with pytest.raises(LocalProtocolError):
            await nc.request(silent, b"", timeout=-1)
        assert await nc.flush() >= 0
        assert listener.subject == silent


@promise("a caller's mistake raises `LocalProtocolError`, with nothing written")
@promise("A caller's mistake raises `LocalProtocolError` at the call.")
@promise("Raises, with nothing sent:", of="jsproto_io.sync:Connection")
async def test_a_bad_message_is_refused_and_changes_nothing(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        for subject in ("", "a b", "a\r\nPUB b 0\r\n", "a..b", "a.*"):
            with pytest.raises(BadSubjectError):
                await nc.publish(subject, b"x")
        with pytest.raises(MaxPayloadError) as caught:
            await nc.publish("big", bytes(nc.max_payload + 1))
        assert caught.value.limit == nc.max_payload
        subject = unique()
        sub = await nc.subscribe(subject)
        await nc.publish(subject, b"still here")
        assert (await sub.next_msg(timeout=5)).data == b"still here"


@promise('A payload that is not bytes raises `TypeError` ("the payload must be bytes, not str: encode it")')
async def test_a_payload_that_is_not_bytes_is_refused(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        subject = unique()
        sub = await nc.subscribe(subject)
        for bad in ("text", "text" * 1000, None, 7):
            with pytest.raises(TypeError, match="^the payload must be bytes, not "):
                await nc.publish(subject, bad)
        changing = bytearray(b"before" * 1000)
        await nc.publish(subject, changing)
        changing[:] = b"later!" * 1000
        assert (await sub.next_msg(timeout=5)).data == b"before" * 1000


async def test_a_queue_group_gets_each_message_once(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        subject = unique()
        members = [await nc.subscribe(subject, queue="workers") for _ in range(3)]
        for number in range(60):
            await nc.publish(subject, b"%d" % number)
        await nc.flush()
        got = []
        for member in members:
            for _ in range(member.pending_msgs):
                got.append(int((await member.next_msg(timeout=5)).data))
        assert sorted(got) == list(range(60))


async def test_an_iteration_ends_with_the_subscription(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        subject = unique()
        async with await nc.subscribe(subject) as sub:
            await sub.unsubscribe(max_msgs=3)
            for number in range(5):
                await nc.publish(subject, b"%d" % number)
            assert [message.data async for message in sub] == [b"0", b"1", b"2"]
        with pytest.raises(ConnectionClosedError):
            await sub.next_msg()


async def test_waiting_for_a_message_can_time_out(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        subject = unique()
        sub = await nc.subscribe(subject)
        for timeout in (0, 0.01, timedelta(milliseconds=5)):
            with pytest.raises(TimeoutError):
                await sub.next_msg(timeout=timeout)
        await nc.publish(subject, b"late")
        assert (await sub.next_msg(timeout=1e10)).data == b"late"


async def test_two_consumers_of_one_subscription_share_its_messages(server: Any, connect: Connect) -> None:
    got: list[int] = []
    async with connect(server.url) as nc:
        subject = unique()
        sub = await nc.subscribe(subject)
        await sub.unsubscribe(max_msgs=300)

        async def consume() -> None:
            async for message in sub:
                got.append(int(message.data))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(consume)
            for number in range(300):
                await nc.publish(subject, b"%d" % number)
    assert sorted(got) == list(range(300))


async def test_drain_delivers_what_was_under_way(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc, connect(server.url) as other:
        one, two = unique(), unique()
        first, second = await nc.subscribe(one), await nc.subscribe(two)
        await nc.flush()
        for number in range(500):
            await other.publish(one, b"%d" % number)
            await other.publish(two, b"%d" % number)
        await other.flush()
        await first.drain()
        assert [int(message.data) async for message in first] == list(range(500))
        await nc.drain()
        assert nc.is_closed
        assert [int(message.data) async for message in second] == list(range(500))


async def test_drain_without_a_link_waits_and_leaves_the_rest_to_the_caller(
    own_server: NatsServer, connect: Connect
) -> None:
    events: list[Event] = []
    async with connect(own_server.url, timeout=0.2, max_reconnect_attempts=-1, event_cb=events.append) as nc:
        subject = unique()
        sub = await nc.subscribe(subject)
        await nc.publish(subject, b"1")
        await nc.flush(timeout=10)
        await to_thread.run_sync(own_server.kill)
        while not any(isinstance(event, Disconnected) for event in events):
            with suppress(ConnectionLostError, TimeoutError):
                await nc.flush(timeout=0.01)  # without a reader thread, whoever waits notices it
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await nc.drain()
            assert not nc.is_closed
        await nc.close()
        assert [message.data async for message in sub] == [b"1"]


@known_fault("slow consumers are counted wrongly, or not told")
async def test_a_full_subscription_drops_and_says_so(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        subject = unique()
        sub = await nc.subscribe(subject, pending_msgs_limit=10)
        for _ in range(50):
            await nc.publish(subject, b"x")
        await nc.flush()
        while not any(isinstance(event, SlowConsumer) for event in events):
            await nc.flush()  # events are told behind the answer
        assert (sub.pending_msgs, sub.pending_bytes, sub.dropped) == (10, 10, 40)
        assert [event.dropped for event in events if isinstance(event, SlowConsumer)] == [1]


async def test_many_large_messages_at_once_wait_for_each_other(server: Any, connect: Connect) -> None:
    async with connect(server.url, pending_size=1_000_000) as nc, connect(server.url) as other:
        subject = unique()
        sub = await other.subscribe(subject)
        await other.flush()

        async def publish_all() -> None:
            async with anyio.create_task_group() as publishers:
                for number in range(40):
                    publishers.start_soon(nc.publish, subject, bytes([number]) * 500_000)
            await nc.flush()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish_all)
            got = {(await sub.next_msg(timeout=10)).data[0] for _ in range(40)}
        assert got == set(range(40))
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(NoRespondersError):
                    await nc.request("nobody", bytes(500_000))

            for _ in range(20):
                tasks.start_soon(ask)


async def test_leaving_the_block_sends_what_is_pending(server: Any, connect: Connect) -> None:
    async with connect(server.url) as reader:
        subject = unique()
        sub = await reader.subscribe(subject)
        await sub.unsubscribe(max_msgs=500)
        await reader.flush()
        # A subscription of its own: what is still unread when the connection closes must not cost what was sent.
        async with connect(server.url, linger=60, flush_at=1 << 20) as nc:
            listener = await nc.subscribe(subject)
            for number in range(500):
                await nc.publish(subject, b"%d" % number)
            assert listener.subject == subject
        assert [int(message.data) async for message in sub] == list(range(500))


async def test_a_small_message_leaves_by_itself(server: Any, connect: Connect) -> None:
    async with connect(server.url) as reader, connect(server.url) as nc:
        subject = unique()
        sub = await reader.subscribe(subject)
        await reader.flush()
        await nc.publish(subject, b"small")
        assert (await sub.next_msg(timeout=5)).data == b"small"


# -- the connection ----------------------------------------------------------------------------------------------------


async def test_what_the_connection_knows(server: Any, connect: Connect) -> None:
    async with connect(server.url, name="tester", ping_interval=1e9) as nc:
        assert nc.connected_url == server.url
        assert nc.server_info.version.startswith("2.")
        assert nc.max_payload == nc.server_info.max_payload == 1048576
        assert not nc.is_closed
        assert nc.new_inbox() != nc.new_inbox()
        assert await nc.flush(timeout=5) >= 0
    assert nc.is_closed


async def test_events_are_told_and_a_failing_callback_does_no_harm(server: Any, connect: Connect) -> None:
    events: list[Event] = []

    def fail(event: Event) -> None:
        events.append(event)
        raise ValueError("the application's own mistake")

    async with connect(server.url, event_cb=fail) as nc:
        assert await nc.flush() >= 0
    assert [type(event) for event in events if not isinstance(event, ServerInfoChanged)] == [Connected, Disconnected]
    assert isinstance(events[-1], Disconnected)
    assert events[-1].error is None


@promise("Every verb raises, besides what it lists itself")
async def test_after_close_every_verb_refuses(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        sub = await nc.subscribe(unique())
        batch = js.fast_publisher()
        await batch.publish(f"{name}.a")
        await nc.close()
        await nc.close()
        for verb in (
            lambda: nc.publish("a"), lambda: nc.request("a"), lambda: nc.subscribe("a"), lambda: nc.flush(),
            lambda: js.stream_info(name), lambda: js.publish(f"{name}.a"), sub.next_msg,
        ):  # fmt: skip
            with pytest.raises(ConnectionClosedError):
                await verb()
        with pytest.raises(ConnectionClosedError):
            js.get_batch(name)
        with pytest.raises(Exception, match="closed"):
            await batch.publish(f"{name}.a")
        assert [message async for message in sub] == []


@known_fault("unclear options and errors of connecting and reconnecting")
async def test_an_address_that_refuses_is_passed_over(server: Any, connect: Connect, closed_port: int) -> None:
    dead = f"nats://127.0.0.1:{closed_port}"
    async with connect([dead, server.url]) as nc:
        assert nc.connected_url == server.url
    with pytest.raises(NoServersError) as caught:
        async with connect(f"{dead},nats://user:secret@localhost:{closed_port}"):
            raise AssertionError("connected to nobody")
    assert [url for url, _ in caught.value.attempts] == [dead, f"nats://localhost:{closed_port}"]
    assert caught.value.attempts[0][1] == "Connection refused"
    assert "secret" not in str(caught.value)


@known_fault("unclear options and errors of connecting and reconnecting")
async def test_impossible_options_are_refused(connect: Connect) -> None:
    for servers, options in (
        ("http://x", {}),
        ("nats://a..b", {}),
        ("nats://h", {"timeout": 0}),
        ("nats://h", {"colour": "red"}),
    ):
        with pytest.raises(LocalProtocolError):
            async with connect(servers, **options):
                raise AssertionError("connected to nobody")


# -- streams -----------------------------------------------------------------------------------------------------------


async def test_streams_are_made_changed_and_deleted(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, max_age=timedelta(hours=1))
        info = await js.stream_info(name)
        assert info.config.subjects == [f"{name}.>"]
        assert info.config.max_age == 3600
        changed = await js.update_stream(name, max_msgs=7, max_age=600)
        assert (changed.config.max_msgs, changed.config.max_age) == (7, 600)
        assert changed.config.allow_batched is True
        whole = await js.update_stream(changed.config, max_msgs=8)
        assert whole.config.max_msgs == 8
        with pytest.raises(APIError) as caught:
            await js.create_stream(name, subjects=["other"])
        assert caught.value.err_code == 10058
        assert (await js.account_info()).streams >= 1
        assert await js.delete_stream(name) is True
        for verb in (js.stream_info, js.delete_stream, js.update_stream):
            with pytest.raises(APIError) as caught:
                await verb(name)
            assert caught.value.err_code == 10059


async def test_a_publish_is_acknowledged(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        subject = f"{name}.a"
        assert (await js.publish(subject, b"1", msg_id="one")).seq == 1
        again = await js.publish(subject, b"1", msg_id="one")
        assert (again.seq, again.duplicate) == (1, True)
        assert (await js.publish(subject, b"2", headers={"K": "v"}, expected_last_seq=1, expected_stream=name)).seq == 2
        with pytest.raises(APIError) as caught:
            await js.publish(subject, b"3", expected_last_seq=1)
        assert caught.value.err_code == 10071
        with pytest.raises(NoStreamResponseError):
            await js.publish(unique("nostream"), b"")
        stored = await read_all(js.get_batch(name))
        assert [(message.seq, message.data, message.subject) for message in stored] == [
            (1, b"1", subject),
            (2, b"2", subject),
        ]
        assert stored[1].headers["K"] == "v"


# -- batches -----------------------------------------------------------------------------------------------------------

COUNT = 20_000


def rows(name: str, count: int = COUNT) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        yield f"{name}.{number % 7}", b"row %d" % number


@requirement(42, 85, 92)
@promise("every workflow behaves the same on all of them")
@promise("Atomic batches have at most 1,000 messages (`BatchFullError`)")
@known_fault("no client for threads")
@known_fault("fast ingest, all of it")
async def test_the_main_job(server: Any, connect: Connect) -> None:
    """20,000 messages in by fast ingest, and all of them back by Direct Get."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            assert await batch.publish_many(rows(name)) == COUNT
            assert batch.sequence == COUNT
            ack = await batch.commit()
        assert (ack.stream, ack.seq, ack.count, ack.batch) == (name, COUNT, COUNT, batch.batch_id)
        assert (batch.acked, batch.error) == (COUNT, None)
        assert batch.acks >= COUNT // 500
        assert (await js.stream_info(name)).state.messages == COUNT
        stored = await read_all(js.get_batch(name))
        assert [(message.subject, message.data) for message in stored] == list(rows(name))
        assert [message.seq for message in stored] == list(range(1, COUNT + 1))
        assert stored[-1].num_pending == 0


@requirement(79)
@known_fault("headers are lost")
async def test_messages_one_by_one_with_headers(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher(flow=10, batch_id="one-by-one", ack_timeout=timedelta(seconds=5)) as batch:
            for number in range(100):
                assert await batch.publish(f"{name}.a", b"%d" % number, headers={"N": str(number)}) == number + 1
            await batch.ping()
            ack = await batch.commit(f"{name}.last", b"end", headers={"L": "1"})
            assert (ack.count, ack.batch, batch.batch_id) == (101, "one-by-one", "one-by-one")
            assert (batch.sequence, batch.acked) == (101, 101)
            assert batch.flow == 10
            with pytest.raises(BatchClosedError):
                await batch.publish(f"{name}.a", b"too late")
        stored = await read_all(js.get_batch(name))
        assert [message.headers.get("N") for message in stored[:-1]] == [str(number) for number in range(100)]
        assert (stored[-1].subject, stored[-1].headers["L"]) == (f"{name}.last", "1")


async def test_tasks_may_share_a_batch(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        batch = js.fast_publisher(flow=50)
        sequences: list[int] = []

        async def publish(start: int) -> None:
            for number in range(start, start + 200):
                sequences.append(await batch.publish(f"{name}.a", b"%d" % number))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish, 0)
            tasks.start_soon(publish, 200)
            tasks.start_soon(batch.publish_many, [(f"{name}.b", b"%d" % number) for number in range(400, 1000)])
        assert (await batch.commit()).count == 1000
        assert len(set(sequences)) == 400
        stored = await read_all(js.get_batch(name))
        assert sorted(int(message.data) for message in stored) == list(range(1000))


@requirement(92)
async def test_an_iterable_that_raises_leaves_the_batch_usable(server: Any, connect: Connect) -> None:
    def broken() -> Iterator[tuple[str, bytes]]:
        yield from rows(name, 700)
        raise ValueError("half a file")

    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher(flow=100) as batch:
            with pytest.raises(ValueError, match="half a file"):
                await batch.publish_many(broken())
            assert batch.sequence == 700
            assert await batch.publish_many([]) == 700
            assert await batch.publish_many([(f"{name}.x", b"more", {"H": "1"})]) == 701
            assert (await batch.commit()).count == 701
        assert len(await read_all(js.get_batch(name))) == 701


async def test_a_bad_message_among_many(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            with pytest.raises(BadSubjectError):
                await batch.publish_many([*rows(name, 300), ("a b", b""), *rows(name, 5)])
            assert batch.sequence == 300
            with pytest.raises(MaxPayloadError):
                await batch.publish(f"{name}.a", bytes(nc.max_payload + 1))
            assert (await batch.commit()).count == 300


async def test_large_messages_are_held_back_until_there_is_room(server: Any, connect: Connect) -> None:
    async with connect(server.url, pending_size=200_000) as nc:
        js, name = await make_stream(nc)
        large = [(f"{name}.a", bytes([number]) * 150_000) for number in range(60)]
        async with js.fast_publisher() as batch:
            assert await batch.publish_many(iter(large)) == 60
            assert await batch.publish(f"{name}.a", bytes(150_000)) == 61
            assert (await batch.commit()).count == 61
        stored = await read_all(js.get_batch(name, max_bytes=500_000))
        assert [message.data for message in stored[:60]] == [payload for _, payload in large]


@requirement(91)
@promise("leaving the `with` block without a commit commits nothing silently")
@promise("Leaving a batch's `with` block without a commit abandons it, by an error or a cancelled task too.")
@promise("An abandoned atomic batch stores nothing.")
@known_fault("leaving the block commits")
@known_fault("leaving a block is no commit, least of all by an error")
async def test_leaving_the_block_without_commit_abandons(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            await batch.publish_many(rows(name, 10))
        for verb in (lambda: batch.publish(f"{name}.a"), batch.commit, lambda: batch.publish_many(rows(name, 2))):
            with pytest.raises(BatchClosedError):
                await verb()
        with pytest.raises(LocalProtocolError):
            await js.fast_publisher().commit()
        assert (await js.publish(f"{name}.a", b"goes on")).stream == name


@requirement(91)
@promise("leaving the `with` block without a commit commits nothing silently")
@promise("Leaving a batch's `with` block without a commit abandons it, by an error or a cancelled task too.")
@promise("An abandoned atomic batch stores nothing.")
@known_fault("leaving a block is no commit, least of all by an error")
async def test_leaving_the_block_by_an_error_commits_nothing(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        batch = js.fast_publisher()
        with suppress(ZeroDivisionError):
            async with batch:
                await batch.publish(f"{name}.a", b"1")
                await batch.publish(f"{name}.a", b"%d" % (1 // 0))
        with pytest.raises(BatchClosedError, match="abandoned"):
            await batch.commit()
        assert batch.error is None


@known_fault("a message without headers panics in the middle of a list")
async def test_headers_may_be_absent_none_or_empty(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        messages: list[Any] = [
            (f"{name}.a", b"1"),
            (f"{name}.a", b"2", None),
            (f"{name}.a", b"3", {}),
            (f"{name}.a", b"4"),
        ]
        async with js.fast_publisher() as batch:
            await batch.publish_many(messages)
            assert (await batch.commit(f"{name}.a", b"5", headers=None)).count == 5
        assert (await js.publish_batch(messages)).count == 4
        async with js.async_publisher() as publisher:
            await publisher.publish_many(messages)
        await js.publish(f"{name}.a", headers={})
        assert (await js.stream_info(name)).state.messages == 5 + 4 + 4 + 1


@known_fault("error codes of fast ingest that mean something else by now")
async def test_a_batch_that_the_server_refuses(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_batched=False)
        async with js.fast_publisher() as batch:
            with pytest.raises(APIError) as caught:
                await batch.publish_many(rows(name, 5))
            assert caught.value.err_code == 10205
            assert batch.error is caught.value
        async with js.fast_publisher() as batch:
            with pytest.raises(NoStreamResponseError):
                await batch.publish_many((unique("nostream"), b"") for _ in range(3))


async def test_reading_a_part_of_a_stream(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            await batch.publish_many(rows(name, 700))
            await batch.commit()
        part = await read_all(js.get_batch(name, seq=101, batch=50, timeout=timedelta(seconds=5)))
        assert [message.seq for message in part] == list(range(101, 151))
        filtered = await read_all(js.get_batch(name, subject=f"{name}.3", max_bytes=1000))
        assert [message.seq for message in filtered] == list(range(4, 701, 7))
        assert await read_all(js.get_batch(name, seq=701)) == []
        async with js.get_batch(name) as reader:
            async for message in reader:
                if message.seq == 10:
                    break
            await reader.close()
            assert await read_all(reader) == []
        for bad in ({"seq": 0}, {"batch": 0}, {"subject": "a b"}, {"timeout": 0}):
            with pytest.raises(LocalProtocolError):
                js.get_batch(name, **bad)


async def test_a_stream_without_direct_get(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_direct=False)
        with pytest.raises(NoRespondersError, match="allow_direct"):
            await read_all(js.get_batch(name))


async def test_a_reader_left_in_the_middle_is_closed(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            await batch.publish_many(rows(name, 2000))
            await batch.commit()
        session = nc._session
        before = len(session._routes)
        reader = js.get_batch(name, max_bytes=10_000)
        async for _ in reader:
            break
        assert len(session._routes) == before + 1
        del reader, _
        await nc.flush()
        assert len(session._routes) == before
