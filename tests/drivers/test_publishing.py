"""What every driver must do on a real nats-server: publish ahead of acknowledgements, watch for abandoned batches."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.errors import (
    AsyncPublishError,
    BadSubjectError,
    ConnectionClosedError,
    ConnectionLostError,
    NoStreamResponseError,
    TimeoutError,
)
from jsproto.grammar.columns import MessageColumns
from jsproto.wire.frames import Pub
from tests.drivers.conftest import LIMIT, PATIENCE, Connect
from tests.drivers.fake import FakeServer, Peer
from tests.drivers.test_facade import make_stream, read_all, unique
from tests.marks import known_fault, promise, requirement

pytestmark = pytest.mark.anyio

COUNT = 3_000


# -- many messages, counted --------------------------------------------------------------------------------------------


async def test_many_messages_are_acknowledged_and_in_order(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.async_publisher(max_pending=100) as publisher:
            assert await publisher.publish_many((f"{name}.a", b"%d" % n) for n in range(COUNT)) == COUNT
            assert publisher.pending <= 100
            await publisher.flush()
            assert (publisher.sequence, publisher.acked, publisher.failed, publisher.pending) == (COUNT, COUNT, 0, 0)
        assert isinstance(publisher.error, ConnectionClosedError)
        stored = await read_all(js.get_batch(name))
        assert [message.data for message in stored] == [b"%d" % n for n in range(COUNT)]


async def test_large_messages_go_through_a_small_window_and_a_small_buffer(server: Any, connect: Connect) -> None:
    async with connect(server.url, pending_size=100_000) as nc:
        js, name = await make_stream(nc)
        async with js.async_publisher(max_pending_bytes=300_000) as publisher:
            await publisher.publish_many([(f"{name}.a", bytes(60_000), {"N": str(n)}) for n in range(100)])
        assert (await js.stream_info(name)).state.messages == 100


@known_fault("errors of asynchronous publishes are lost")
async def test_messages_that_fail_are_handed_back_at_the_flush(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        nowhere, refused = unique("nowhere"), {"Nats-Expected-Last-Sequence": "9"}
        messages: list[Any] = [(f"{name}.a", b"1"), (nowhere, b"2"), (f"{name}.a", b"3", refused), (f"{name}.a", b"4")]
        async with js.async_publisher() as publisher:
            await publisher.publish_many(messages)
            with pytest.raises(AsyncPublishError, match="acknowledgement: 2") as caught:
                await publisher.flush()
            assert {message[1]: type(error) for message, error in caught.value.failures} == {
                b"2": NoStreamResponseError,
                b"3": StreamWrongLastSequenceError,
            }
            assert caught.value.failed == publisher.failed == 2
            assert caught.value.__cause__ is caught.value.failures[0][1]
            await publisher.flush()  # they were handed back
            await publisher.publish_many(messages[1:2])
            await anyio.sleep(0)
            while publisher.pending:
                await nc.flush()
            ((message, error),) = publisher.take_failures()
            assert message == messages[1]
            assert isinstance(error, NoStreamResponseError)


@known_fault("errors of asynchronous publishes are lost")
async def test_leaving_the_block_tells_of_failures_but_not_over_an_error(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js = nc.jetstream()
        with pytest.raises(AsyncPublishError):
            async with js.async_publisher() as publisher:
                await publisher.publish_many([(unique("nowhere"), b"")])
        with pytest.raises(ConnectionClosedError):
            await publisher.publish("a")
        with pytest.raises(KeyError):
            async with js.async_publisher() as publisher:
                raise KeyError(await publisher.publish_many([(unique("nowhere"), b"")]))
        assert publisher.pending == 0
        assert publisher.failed == 1


async def test_messages_in_columns_are_published_as_a_list_of_them(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        messages = MessageColumns(
            [f"{name}.{n % 7}" for n in range(1_300)], [b"%d" % n + bytes(n % 1_200) for n in range(1_300)]
        )
        async with js.fast_publisher() as batch:
            assert await batch.publish_many(messages) == 1_300
            await batch.commit()
        async with js.async_publisher() as publisher:
            assert await publisher.publish_many(messages[1_200:]) == 100
        stored = [(message.subject, message.data) for message in await read_all(js.get_batch(name))]
        assert stored == [*messages, *messages[1_200:]]


async def test_messages_with_headers_are_published_at_once(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        traces = [f"t{n}" for n in range(700)]
        columns = MessageColumns([f"{name}.a"] * 700, [b"%d" % n for n in range(700)], {"Trace": traces, "Kind": "ä"})
        async with js.fast_publisher() as batch:
            await batch.publish_many(columns)
            await batch.publish_many([(f"{name}.a", b"x"), (f"{name}.a", b"x", {"Kind": "other"})])
            await batch.commit()
        await js.publish_batch(columns)
        async with js.async_publisher() as publisher:
            await publisher.publish_many(columns)
        found = [[*message.headers.items()] for message in await read_all(js.get_batch(name))]
        each = [[("Trace", trace), ("Kind", "ä")] for trace in traces]
        assert found[:702] == [*each, [], [("Kind", "other")]]
        assert [pairs[-2:] for pairs in found[702:1402]] == each  # after those of the batch
        assert found[1402:] == each


async def test_an_iterable_that_raises_leaves_what_it_gave_published(server: Any, connect: Connect) -> None:
    def broken() -> Iterator[Any]:
        yield from ((f"{name}.a", b"x") for _ in range(7))
        raise KeyError

    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.async_publisher() as publisher:
            with pytest.raises(KeyError):
                await publisher.publish_many(broken())
            with pytest.raises(BadSubjectError):
                await publisher.publish_many([(f"{name}.a", b"x"), ("a b", b"x")])
            await publisher.flush()
            assert publisher.acked == 8


async def test_an_asynchronous_iterable(server: Any, connect: Connect, driver: str) -> None:
    if driver.startswith("sync"):
        pytest.skip("only a loop can advance one")

    async def messages() -> AsyncIterator[Any]:
        for n in range(20):
            await anyio.sleep(0)
            yield f"{name}.a", b"%d" % n

    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.async_publisher(max_pending=3) as publisher:
            assert await publisher.publish_many(messages()) == 20
        assert (await js.stream_info(name)).state.messages == 20


# -- a promise for each ------------------------------------------------------------------------------------------------


async def test_each_message_has_its_own_acknowledgement(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, name = await make_stream(nc)
        js = nc.jetstream(publish_async_max_pending=10)
        promised = [await js.publish_async(f"{name}.a", b"%d" % n, headers={"K": "v"}) for n in range(50)]
        assert js.publish_async_pending() <= 10
        await js.publish_async_completed(timeout=5)
        assert js.publish_async_pending() == 0
        assert all(pending.done for pending in promised)
        acks = [await pending.result() for pending in promised]
        assert [(ack.stream, ack.seq) for ack in acks] == [(name, n + 1) for n in range(50)]


@known_fault("a server's error never reaches the future of publish_async")
async def test_one_at_a_time(server: Any, connect: Connect) -> None:
    async with connect(server.url, linger=30.0) as nc:  # waiting for an answer pushes the message out
        js, name = await make_stream(nc)
        for n in range(3):
            pending = await js.publish_async(f"{name}.a", msg_id=f"m{n % 2}", expected_stream=name)
            ack = await pending.result(timeout=5)
            assert (ack.seq, ack.duplicate) == ((n % 2) + 1, n == 2)
        stale = await js.publish_async(f"{name}.a", expected_last_seq=7)
        with pytest.raises(StreamWrongLastSequenceError):
            await stale.result()
        with pytest.raises(StreamWrongLastSequenceError):
            await (await js.publish_async(f"{name}.a", expected_last_subject_seq=7)).result()
        with pytest.raises(NoStreamResponseError):
            await (await js.publish_async(unique("nowhere"))).result()
        await js.publish_async_completed()  # who published knows already
        with pytest.raises(BadSubjectError):
            await js.publish_async("a b")


async def test_a_promise_can_be_awaited(server: Any, connect: Connect, driver: str) -> None:
    if driver.startswith("sync"):
        pytest.skip("only under a loop")
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        pending = await js.publish_async(f"{name}.a")
        assert (await pending).seq == 1
        assert (await pending).seq == 1


@promise("Raises, with nothing sent: TimeoutError: there was no room within ``wait_stall``.")
@promise("TimeoutError: there was no room within ``wait_stall``. Nothing was sent.")
async def test_no_room_and_no_answers(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        silent = unique("silent")
        listener = await nc.subscribe(silent)  # who listens there never answers
        js = nc.jetstream(publish_async_max_pending=1, timeout=LIMIT)
        pending = await js.publish_async(silent)
        with pytest.raises(TimeoutError):
            await js.publish_async(silent, wait_stall=0.01)
        with pytest.raises(TimeoutError):
            await pending.result(timeout=0.01)
        with pytest.raises(TimeoutError):
            await js.publish_async_completed(timeout=0.01)
        assert (await js.publish_async(silent, wait_stall=10)).done is False  # the first one was given up
        with pytest.raises(TimeoutError, match="no acknowledgement for a message to"):
            await pending.result()
        assert listener.subject == silent


@promise("Wait until every message of ``publish_async()`` is acknowledged or has failed.")
@known_fault("closing hangs, or hangs who publishes")
async def test_promises_end_with_the_connection(server: Any, connect: Connect) -> None:
    async with connect(server.url, max_reconnect_attempts=0) as nc:
        silent = unique("silent")
        listener = await nc.subscribe(silent)
        js = nc.jetstream(publish_async_max_pending=1)
        pending = await js.publish_async(silent)
        await nc.close()
        with pytest.raises((ConnectionClosedError, ConnectionLostError)):
            await pending.result()
        with pytest.raises((ConnectionClosedError, ConnectionLostError)):
            await js.publish_async(silent)
        assert listener.subject == silent


# -- one that is waited for, one that is not stored -------------------------------------------------------------------


@known_fault("cancelling loses messages, or leaves acknowledgements hanging")
async def test_a_publish_that_is_given_up_hurts_nobody(connect: Connect) -> None:
    """It may be stored all the same. No other message takes its late answer."""
    given_up = [threading.Event() for _ in range(20)]
    stored: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        for event in given_up:
            publishes = [peer.expect(Pub), peer.expect(Pub)]
            assert event.wait(PATIENCE)
            for publish in publishes:
                assert publish.reply is not None
                stored.append(publish.payload)
                inbox = publish.reply.rpartition(b".")[0] + b".*"
                peer.deliver(publish.reply, b'{"stream":"S","seq":%d}' % len(stored), sid=peer.subs[inbox])
        peer.serve()

    with FakeServer(script) as slow:
        async with connect(slow.url) as nc:
            js = nc.jetstream()
            for number, event in enumerate(given_up):
                with pytest.raises(TimeoutError):
                    await js.publish("s.a", b"%d" % number, timeout=0)
                promised = await js.publish_async("s.b", b"%d" % number)
                with pytest.raises(TimeoutError):
                    await promised.result(timeout=0)
                event.set()
                assert (await promised.result()).seq == 2 * number + 2
            assert js.publish_async_pending() == 0
    assert stored == [b"%d" % (n // 2) for n in range(40)]


@known_fault("where a ping goes, and that the caller may send one")
async def test_a_ping_goes_where_the_batch_began(server: Any, connect: Connect) -> None:
    """Any subject of the stream would do. It carries the highest sequence and is not stored."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        spy = await nc.subscribe(f"{name}.>")
        async with js.fast_publisher() as batch:
            await batch.publish(f"{name}.first", b"1")
            await batch.publish(f"{name}.second", b"2")
            await batch.ping()
            sent = [await spy.next_msg() for _ in range(3)]
            assert [message.subject.rpartition(".")[2] for message in sent] == ["first", "second", "first"]
            assert [message.reply.split(".")[-3:] for message in sent] == [
                ["1", "0", "$FI"], ["2", "1", "$FI"], ["2", "4", "$FI"]
            ]  # fmt: skip
            assert (await batch.commit()).count == 2
        assert (await js.stream_info(name)).state.messages == 2


# -- abandoned batches -------------------------------------------------------------------------------------------------


async def abandon(nc: Any, subject: str, batch_id: str) -> None:
    """Leave a hole in an atomic batch."""
    for sequence in ("1", "3"):
        await nc.publish(subject, headers={"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": sequence})


@requirement(97)
@promise("its publisher may never hear of it")
async def test_abandoned_batches_are_told(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        async with js.batch_advisories(name) as advisories, js.batch_advisories(name, "b2") as second:
            assert (advisories.stream, advisories.batch_id, second.batch_id) == (name, None, "b2")
            for batch_id in ("b1", "b2", "b3"):
                await abandon(nc, f"{name}.a", batch_id)
            told = [await advisories.next_advisory(timeout=5) for _ in range(3)]
            assert [(advisory.batch_id, advisory.reason) for advisory in told] == [
                ("b1", "incomplete"), ("b2", "incomplete"), ("b3", "incomplete"),
            ]  # fmt: skip
            assert await second.next_advisory(timeout=5) == told[1]
            assert (second.pending, second.dropped) == (0, 0)
            with pytest.raises(TimeoutError):
                await second.next_advisory(timeout=0.01)
        with pytest.raises(ConnectionClosedError):
            await second.next_advisory()


async def test_advisories_are_iterated_over_until_closed(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        advisories = js.batch_advisories(name)
        for batch_id in ("b1", "b2"):
            await abandon(nc, f"{name}.a", batch_id)
        found = []
        async for advisory in advisories:
            found.append(advisory.batch_id)
            if len(found) == 2:
                await advisories.close()
        assert found == ["b1", "b2"]
        with pytest.raises(BadSubjectError):
            js.batch_advisories("a.b")
