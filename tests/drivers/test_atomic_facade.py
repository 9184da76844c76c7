"""What every driver must do on a real nats-server with atomic batches."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import anyio
import pytest

from jsproto.api_errors import (
    AtomicPublishDisabledError,
    AtomicPublishIncompleteBatchError,
    AtomicPublishTooLargeBatchError,
    StreamWrongLastSequenceError,
)
from jsproto.errors import (
    BadSubjectError,
    BatchClosedError,
    BatchFullError,
    BatchLostError,
    BatchMessageError,
    BatchStalledError,
    LocalProtocolError,
    MaxPayloadError,
    NoStreamResponseError,
    UnsupportedByServerError,
)
from jsproto.grammar.columns import MessageColumns
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Pub, Sub
from tests.drivers.conftest import LIMIT, PATIENCE, Connect
from tests.drivers.fake import FakeServer, Hangup, Peer
from tests.drivers.test_facade import read_all
from tests.marks import known_fault, promise

pytestmark = pytest.mark.anyio

EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence"


async def make_stream(nc: Any, **options: Any) -> tuple[Any, str]:
    js, name = nc.jetstream(), f"A{uuid4().hex[:12]}"
    wanted = {"allow_atomic": True, "allow_direct": True, **options}
    await js.create_stream(name, subjects=[f"{name}.>"], storage="memory", **wanted)
    return js, name


async def stored(js: Any, stream: str) -> list[bytes]:
    return [message.data for message in await read_all(js.get_batch(stream))]


@known_fault("headers are lost")
@known_fault("revisions of several keys stored at once")
async def test_a_batch_is_stored_whole_at_the_commit(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        await js.publish(f"{stream}.before", b"0")
        async with js.atomic_batch() as batch:
            assert (batch.sequence, batch.acked, batch.error) == (0, 0, None)
            assert await batch.add(f"{stream}.a", b"1", headers={"K": "v"}) == 1
            assert batch.acked == 1
            assert await batch.add(f"{stream}.b", b"2") == 2
            assert (await js.stream_info(stream)).state.messages == 1  # nothing of it can be seen
            assert batch.sequences == range(0)
            ack = await batch.commit(f"{stream}.c", b"3")
        assert (ack.stream, ack.seq, ack.batch, ack.count) == (stream, 4, batch.batch_id, 3)
        assert list(ack.sequences) == list(batch.sequences) == [2, 3, 4]
        messages = await read_all(js.get_batch(stream))
        assert [(m.seq, m.subject, m.data) for m in messages[1:]] == [
            (2, f"{stream}.a", b"1"), (3, f"{stream}.b", b"2"), (4, f"{stream}.c", b"3")
        ]  # fmt: skip
        assert messages[1].headers["K"] == "v"


@known_fault("one name for a commit without a message")
async def test_a_commit_needs_no_message(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        for verb in ("commit", "commit_eob"):
            async with js.atomic_batch(batch_id=f"by-{verb}") as batch:
                await batch.add(f"{stream}.a", b"1")
                await batch.add(f"{stream}.a", b"2")
                ack = await getattr(batch, verb)()
            assert (ack.batch, ack.count) == (f"by-{verb}", 2)
        assert await stored(js, stream) == [b"1", b"2"] * 2
        async with js.atomic_batch() as batch:
            with pytest.raises(LocalProtocolError, match="nothing was added"):
                await batch.commit()
            with pytest.raises(LocalProtocolError, match="needs a subject"):
                await batch.commit(payload=b"x")
            assert (await batch.commit(f"{stream}.a", b"alone")).count == 1


@promise("all messages are stored or none")
@promise("leaving the `with` block without a commit commits nothing silently")
@promise("Leaving a batch's `with` block without a commit abandons it, by an error or a cancelled task too.")
@promise("An abandoned atomic batch stores nothing.")
@promise("it discards the batch when the block is left without a commit: nothing is stored")
@promise("End the batch without a commit: nothing is stored.")
@known_fault("leaving a block is no commit, least of all by an error")
async def test_a_batch_without_commit_stores_nothing(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        async with js.atomic_batch() as batch:
            await batch.add(f"{stream}.a", b"1")
        with pytest.raises(BatchClosedError, match="discarded"):
            await batch.add(f"{stream}.a", b"2")
        with suppress(ZeroDivisionError):
            async with js.atomic_batch() as batch:
                await batch.add(f"{stream}.a", b"1")
                await batch.add(f"{stream}.a", b"%d" % (1 // 0))
        with pytest.raises(BatchClosedError, match="discarded"):
            await batch.commit()
        await batch.discard()
        assert await stored(js, stream) == []


@promise("Atomic batches have at most 1,000 messages (`BatchFullError`)")
@known_fault("the guard of 1000 messages, and how the true limit becomes known")
async def test_a_thousand_messages(server: Any, connect: Connect) -> None:
    """All that a server takes at once. The marker that commits is not one of them (FACTS.md F1.7)."""
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        async with js.atomic_batch(ack_every=300) as batch:
            for n in range(1_000):
                await batch.add(f"{stream}.a", b"%d" % n)
            assert batch.acked == 900
            with pytest.raises(BatchFullError):
                await batch.add(f"{stream}.a", b"one more")
            assert (await batch.commit()).count == 1_000
        assert await stored(js, stream) == [b"%d" % n for n in range(1_000)]
        async with js.atomic_batch(max_messages=None) as batch:
            for n in range(1_001):
                await batch.add(f"{stream}.a", b"%d" % n)
            with pytest.raises(AtomicPublishTooLargeBatchError) as caught:
                await batch.commit()
        assert caught.value.details == {"size": "1000"}


@promise("Store all of ``messages`` in one atomic batch, or none of them")
async def test_an_iterable_in_one_call(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        ack = await js.publish_batch((f"{stream}.{n % 7}", b"%d" % n, {"N": str(n)}) for n in range(1_000))
        assert (ack.count, ack.sequences) == (1_000, range(1, 1_001))
        assert await stored(js, stream) == [b"%d" % n for n in range(1_000)]
        ack = await js.publish_batch([(f"{stream}.a", b"alone")], batch_id="mine", ack_timeout=timedelta(seconds=5))
        assert (ack.batch, ack.count, list(ack.sequences)) == ("mine", 1, [1_001])
        columns = MessageColumns([f"{stream}.{n % 7}" for n in range(1_001)], [b"%d" % n for n in range(1_001)])
        assert (await js.publish_batch(columns[:1_000])).sequences == range(1_002, 2_002)
        with pytest.raises(BatchFullError):
            await js.publish_batch(columns)
        assert (await stored(js, stream))[1_001:] == [b"%d" % n for n in range(1_000)]


@promise("all messages are stored or none")
@promise("`js.publish_batch([(subject, payload), ...])` is an atomic batch in one call")
@promise("Store all of ``messages`` in one atomic batch, or none of them")
async def test_an_iterable_that_cannot_be_a_batch_stores_nothing(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        pulled: list[int] = []

        def endless() -> Iterator[tuple[str, bytes]]:
            while True:
                pulled.append(1)
                yield f"{stream}.a", b""

        with pytest.raises(BatchFullError):
            await js.publish_batch(endless())
        assert len(pulled) == 1_001
        with pytest.raises(LocalProtocolError, match="at least one"):
            await js.publish_batch([])
        with pytest.raises(BadSubjectError):
            await js.publish_batch([(f"{stream}.a", b""), ("a b", b""), (f"{stream}.a", b"")])
        with pytest.raises(LocalProtocolError, match="message 2 cannot be sent"):
            await js.publish_batch([(f"{stream}.a", b""), (f"{stream}.a", "text"), (f"{stream}.a", b"")])
        with pytest.raises(ZeroDivisionError):
            await js.publish_batch((f"{stream}.a", b"%d" % (1 // (3 - n))) for n in range(5))
        assert await stored(js, stream) == []
        assert (await js.publish_batch([(f"{stream}.a", b"fine")])).count == 1


async def test_an_asynchronous_iterable(server: Any, connect: Connect, driver: str) -> None:
    if driver.startswith("sync"):
        pytest.skip("threads have no asynchronous iterables")

    async def messages(count: int) -> AsyncIterator[tuple[str, bytes]]:
        for n in range(count):
            await anyio.lowlevel.checkpoint()
            yield f"{stream}.a", b"%d" % n

    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        assert (await js.publish_batch(messages(100))).count == 100
        assert (await js.publish_batch(messages(5), max_messages=None)).count == 5
        with pytest.raises(BatchFullError):
            await js.publish_batch(messages(1_001))
        assert len(await stored(js, stream)) == 105


async def test_more_bytes_than_may_wait_at_once(server: Any, connect: Connect) -> None:
    async with connect(server.url, pending_size=100_000, flush_at=50_000) as nc:
        js, stream = await make_stream(nc)
        payload = bytes(10_000)
        assert (await js.publish_batch([(f"{stream}.a", payload)] * 300)).count == 300
        async with js.atomic_batch() as batch:
            for _ in range(200):
                await batch.add(f"{stream}.a", payload)
            assert (await batch.commit()).count == 200
        assert (await js.stream_info(stream)).state.messages == 500


async def test_what_is_wrong_is_named_at_once(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc, allow_atomic=False)
        async with js.atomic_batch() as batch:
            with pytest.raises(AtomicPublishDisabledError):
                await batch.add(f"{stream}.a", b"1")
            for verb in (batch.add, batch.commit):
                with pytest.raises(AtomicPublishDisabledError):
                    await verb(f"{stream}.a", b"2")
            assert isinstance(batch.error, AtomicPublishDisabledError)
        async with js.atomic_batch() as batch:
            with pytest.raises(NoStreamResponseError):
                await batch.add(f"nowhere.{stream}", b"1")
        async with js.atomic_batch(ack_first=False) as batch:
            await batch.add(f"{stream}.a", b"1")
            await batch.add(f"{stream}.a", b"2")
            with pytest.raises(AtomicPublishDisabledError):
                await batch.commit()
        with pytest.raises(AtomicPublishDisabledError):
            await js.publish_batch([(f"{stream}.a", b"1")] * 3)
        with pytest.raises(BadSubjectError):
            js.atomic_batch(batch_id="a.b")
        with pytest.raises(LocalProtocolError):
            js.atomic_batch(ack_timeout=-1)
        assert (await js.stream_info(stream)).state.messages == 0


@promise("APIError: the server refuses the batch, and nothing is stored.")
@known_fault("a server's error at the commit shows as a wrong count")
async def test_a_check_that_fails_refuses_all(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        await js.publish(f"{stream}.a", b"0")
        async with js.atomic_batch() as batch:
            await batch.add(f"{stream}.b", b"1")
            await batch.add(f"{stream}.a", b"2", headers={EXPECTED_SUBJECT: "7"})
            with pytest.raises(LocalProtocolError, match="already"):
                await batch.add(f"{stream}.b", b"3", headers={EXPECTED_SUBJECT: "0"})
            with pytest.raises(StreamWrongLastSequenceError):
                await batch.commit()
        assert await stored(js, stream) == [b"0"]
        ack = await js.publish_batch(
            [(f"{stream}.a", b"1", {EXPECTED_SUBJECT: "1"}), (f"{stream}.c", b"2", {EXPECTED_SUBJECT: "0"})]
        )
        assert list(ack.sequences) == [2, 3]


async def test_a_message_that_is_not_taken_leaves_the_batch_open(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc, max_msg_size=500)
        async with js.atomic_batch(ack_every=2) as batch:
            await batch.add(f"{stream}.a", b"1")
            with pytest.raises(BatchMessageError, match="is open"):
                await batch.add(f"{stream}.a", bytes(600))
            with pytest.raises(BatchMessageError) as caught:
                await batch.add(f"nowhere.{stream}", b"x")
            assert isinstance(caught.value.__cause__, NoStreamResponseError)
            with pytest.raises(MaxPayloadError):
                await batch.add(f"{stream}.a", bytes(nc.max_payload + 1))
            assert (batch.sequence, batch.error) == (1, None)
            assert await batch.add(f"{stream}.a", b"2") == 2
            with pytest.raises(BatchMessageError):
                await batch.commit(f"{stream}.a", bytes(600))
            assert (await batch.commit(f"{stream}.a", b"3")).count == 3
        assert await stored(js, stream) == [b"1", b"2", b"3"]


async def test_many_use_one_batch(server: Any, connect: Connect) -> None:
    """Each message is in the batch once, with a sequence of its own, in the order of the calls."""
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        given: dict[int, bytes] = {}

        async def add(who: int) -> None:
            for n in range(20):
                data = b"%d-%d" % (who, n)
                given[await batch.add(f"{stream}.a", data)] = data

        async with js.atomic_batch(ack_every=3) as batch:
            async with anyio.create_task_group() as tasks:
                for who in range(8):
                    tasks.start_soon(add, who)
            assert sorted(given) == list(range(1, 161))
            assert (await batch.commit()).count == 160
        assert await stored(js, stream) == [given[n] for n in range(1, 161)]


async def test_two_batches_at_once_do_not_mix(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, stream = await make_stream(nc)
        async with js.atomic_batch() as one, js.atomic_batch() as two:
            for n in range(10):
                await one.add(f"{stream}.a", b"one %d" % n)
                await two.add(f"{stream}.a", b"two %d" % n)
            await two.commit()
            ack = await one.commit()
        assert list(ack.sequences) == list(range(11, 21))
        assert await stored(js, stream) == [b"%b %d" % (who, n) for who in (b"two", b"one") for n in range(10)]


# -- a scripted server: what a real one does not do on request ---------------------------------------------------------


def answer(peer: Peer, publish: Pub, body: dict[str, Any] | None = None) -> None:
    (sid,) = peer.subs.values()
    assert publish.reply is not None
    payload = b"" if body is None else json.dumps(body).encode()
    peer.send(encode_msg(publish.reply, sid, None, None, payload))


def accept_first(peer: Peer) -> None:
    peer.handshake()
    peer.expect(Sub)
    answer(peer, peer.expect(Pub))


@promise("It is not known whether all of it is stored or nothing.")
async def test_a_commit_without_an_answer(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        accept_first(peer)
        peer.serve()

    with FakeServer(script) as fake:
        async with connect(fake.url) as nc, nc.jetstream().atomic_batch(ack_timeout=LIMIT) as batch:
            await batch.add("e.a")
            with pytest.raises(BatchStalledError, match="not known"):
                await batch.commit("e.a")


@promise("asking again (after a wait that was given up) gives the same answer")
@pytest.mark.parametrize("eob", [False, True], ids=["a message", "eob"])
async def test_a_commit_can_be_asked_for_again(connect: Connect, eob: bool) -> None:
    """Whoever gave up waiting for its acknowledgement still gets it, and nothing is sent twice."""
    asked = threading.Event()
    commits: list[Pub] = []

    def script(peer: Peer) -> None:
        accept_first(peer)
        commits.append(peer.expect(Pub))
        assert asked.wait(10)
        answer(peer, commits[0], {"stream": "S", "seq": 2, "batch": "b1", "count": 2 - eob})
        with suppress(Hangup):
            commits.append(peer.expect(Pub))

    with FakeServer(script) as fake:
        async with connect(fake.url) as nc:
            batch = nc.jetstream().atomic_batch(batch_id="b1")
            await batch.add("e.a")
            assert batch.ack is None
            with anyio.move_on_after(PATIENCE) as scope:
                async with anyio.create_task_group() as tasks:

                    async def give_up() -> None:
                        while batch._core.phase.name != "COMMITTING":
                            await anyio.sleep(0.001)
                        scope.cancel()

                    tasks.start_soon(give_up)
                    await (batch.commit() if eob else batch.commit("e.a"))
            assert scope.cancelled_caught
            with pytest.raises(BatchClosedError):
                await batch.commit("e.a")
            asked.set()
            assert (await batch.commit()).count == 2 - eob
            assert (await batch.commit_eob()) == batch.ack
            with pytest.raises(BatchClosedError):
                await batch.commit("e.a")
    assert len(commits) == 1


@promise('Atomic batches and lossless fast-ingest batches (`gap="fail"`) end with `BatchLostError`')
@promise("An atomic batch stores nothing of what was given to it before it failed.")
async def test_a_connection_that_is_lost_ends_the_batch(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        accept_first(peer)
        assert peer.expect(Pub).reply is not None
        peer.reset()

    with FakeServer(script) as fake:
        async with connect(fake.url, max_reconnect_attempts=0) as nc, nc.jetstream().atomic_batch() as batch:
            await batch.add("e.a")
            with pytest.raises(BatchLostError, match="not known"):
                await batch.commit("e.a")
            with pytest.raises(BatchLostError):
                await batch.add("e.a")


async def test_a_server_without_a_commit_that_is_no_message(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.handshake(version="2.12.8", api_lvl=3)
        peer.expect(Sub)
        answer(peer, peer.expect(Pub))
        commit = peer.expect(Pub)
        answer(peer, commit, {"stream": "S", "seq": 2, "batch": "b1", "count": 2})
        peer.serve()

    with FakeServer(script) as fake:
        async with connect(fake.url) as nc, nc.jetstream().atomic_batch(batch_id="b1") as batch:
            await batch.add("e.a")
            with pytest.raises(UnsupportedByServerError, match=r"2\.14"):
                await batch.commit()
            assert (await batch.commit("e.a")).count == 2


async def test_an_error_of_a_message_that_was_waited_for_by_others(connect: Connect) -> None:
    """Whoever waits for room is not told that the message of another was refused, only that the batch has ended."""

    def script(peer: Peer) -> None:
        accept_first(peer)
        second = peer.expect(Pub)
        error = {"code": 400, "err_code": 10054, "description": "message size exceeds maximum allowed"}
        answer(peer, second, {"error": error, "stream": "S", "seq": 0})
        again = peer.expect(Pub)
        error = {"code": 400, "err_code": 10176, "description": "atomic publish batch is incomplete"}
        answer(peer, again, {"error": error, "stream": "S", "seq": 0})
        peer.serve()

    with FakeServer(script) as fake:
        async with connect(fake.url) as nc, nc.jetstream().atomic_batch(ack_every=2) as batch:
            await batch.add("e.a")
            seen: list[type] = []

            async def add() -> None:
                try:
                    await batch.add("e.a")
                except Exception as error:
                    seen.append(type(error))

            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(add)
            # Which of the two threads gets to note its error first is the scheduler's business.
            assert len(seen) == 2
            assert set(seen) == {BatchMessageError, AtomicPublishIncompleteBatchError}
