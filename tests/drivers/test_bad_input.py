"""What every driver must do with bad input while it publishes to a real nats-server: of the caller, of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import pytest

from jsproto import strip_batch_headers
from jsproto.errors import (
    APIError,
    BadSubjectError,
    BatchClosedError,
    BatchMessageError,
    LocalProtocolError,
    MaxPayloadError,
)
from jsproto.events import Event, GapReported, MessageRefused, UnexpectedMessage
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, read_all, rows
from tests.marks import known_fault, promise

pytestmark = pytest.mark.anyio

TOO_LARGE = 10054


async def stored(js: Any, name: str) -> list[bytes]:
    return [message.data for message in await read_all(js.get_batch(name))]


# -- of the caller -----------------------------------------------------------------------------------------------------


@promise('with `gap="fail"` an error carries what was acknowledged')
@promise("A `BatchError` carries the last acknowledged sequence.")
@known_fault("a gap in mode fail is not acted on")
async def test_a_message_over_max_msg_size_ends_a_lossless_batch_with_what_was_stored(
    server: Any, connect: Connect
) -> None:
    """The server keeps the batch open, and would report a gap after the message. So the test asks what was stored."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, max_msg_size=500)
        batch = js.fast_publisher()
        for payload in (b"1", b"2", bytes(600)):
            await batch.publish(f"{name}.a", payload)
        with pytest.raises(BatchMessageError) as caught:
            await batch.publish_many(rows(name))
        error = caught.value
        assert (error.message_sequence, error.ack and error.ack.count) == (3, 2)
        assert isinstance(error.__cause__, APIError)
        assert error.__cause__.err_code == TOO_LARGE
        assert await stored(js, name) == [b"1", b"2"]
        assert batch.unacknowledged[0] == (f"{name}.a", bytes(600), None)


@known_fault("a refused message ends the batch in mode ok")
async def test_a_message_over_max_msg_size_is_a_gap_that_may_be_tolerated(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc, max_msg_size=500)
        batch = js.fast_publisher(gap="ok", batch_id="b")
        for payload in (b"1", b"2", bytes(600), b"4"):
            await batch.publish(f"{name}.a", payload)
        ack = await batch.commit(f"{name}.a", b"5")
        assert (ack.count, batch.sequence) == (5, 5)
        assert await stored(js, name) == [b"1", b"2", b"4", b"5"]
    refused = [event for event in events if isinstance(event, MessageRefused)]
    assert [(event.sequence, event.error.err_code) for event in refused] == [(3, TOO_LARGE)]
    assert GapReported("b", 3, 3) in events


@promise("a caller's mistake raises `LocalProtocolError`, with nothing written")
@promise("A caller's mistake raises `LocalProtocolError` at the call.")
@promise("Raises, with nothing sent:", of="jsproto_io.sync:PipelinedPublisher")
@promise("nothing sent and no sequence spent:", of="jsproto_io.sync:FastPublisher")
@known_fault("a message that was not sent spends no sequence")
async def test_what_cannot_be_sent_spends_no_sequence(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        for batch, add in ((fast := js.fast_publisher(), fast.publish), (atomic := js.atomic_batch(), atomic.add)):
            for number in (1, 2):
                for subject, payload, kind in (
                    ("a b", b"", BadSubjectError),
                    (f"{name}.*", b"", BadSubjectError),
                    (f"{name}.a", bytes(nc.max_payload + 1), MaxPayloadError),
                ):
                    with pytest.raises(kind):
                        await add(subject, payload)
                    assert batch.sequence == number - 1
                assert await add(f"{name}.a", b"fine") == number
            with pytest.raises(MaxPayloadError):
                await batch.commit(f"{name}.a", bytes(nc.max_payload + 1))
            assert (await batch.commit()).count == 2


@promise("Every verb of JetStream that publishes refuses headers of an atomic batch (`Nats-Batch-...`)")
async def test_a_message_read_from_an_atomic_batch_is_published_without_its_headers(
    server: Any, connect: Connect
) -> None:
    """With them it would wait for the rest of its batch: no answer that says so, and the place of a batch taken."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        subject = f"{name}.a"
        await js.publish_batch([(subject, b"1", {"K": "v"}), (subject, b"2")])
        first, last = await read_all(js.get_batch(name))
        assert {"Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"} <= {*last.headers}
        fast, atomic, ahead = js.fast_publisher(), js.atomic_batch(), js.async_publisher()
        for read in (first, last):
            again: Callable[[Any], Any]
            for again in (
                lambda headers: js.publish(subject, b"x", headers=headers),
                lambda headers: js.publish_async(subject, b"x", headers=headers),
                lambda headers: fast.publish(subject, b"x", headers=headers),
                lambda headers: fast.publish_many([(subject, b"x", headers)]),
                lambda headers: ahead.publish(subject, b"x", headers=headers),
                lambda headers: ahead.publish_many([(subject, b"x", headers)]),
                lambda headers: atomic.add(subject, b"x", headers=headers),
                lambda headers: js.publish_batch([(subject, b"x", headers)]),
            ):
                with pytest.raises(LocalProtocolError, match="Nats-Batch-Id .*strip_batch_headers"):
                    await again(read.headers)
                await again(strip_batch_headers(read.headers))
        await ahead.flush()
        await fast.commit()
        await atomic.commit()
        await nc.flush()
        copies = [message.headers.get("K") for message in await read_all(js.get_batch(name, seq=3))]
        assert sorted(map(str, copies)) == ["None"] * 8 + ["v"] * 8


@promise("a caller's mistake raises `LocalProtocolError`, with nothing written")
@promise("A caller's mistake raises `LocalProtocolError` at the call.")
@promise("Raises, with nothing sent:", of="jsproto_io.sync:PipelinedPublisher")
@promise("Raises, with nothing sent:", of="jsproto_io.sync:Connection")
@pytest.mark.parametrize("bad", [["a list"], {"a": 1}, {"a set"}, bytearray(b"s.a"), b"s.a", 5], ids=repr)
async def test_what_is_no_str_is_no_subject(server: Any, connect: Connect, bad: Any) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        fast, atomic, ahead = js.fast_publisher(), js.atomic_batch(), js.async_publisher()
        for _ in range(2):  # of a batch that is not begun, and of one that is
            for verb, *args in (
                (nc.publish, bad), (nc.request, bad), (js.publish, bad), (js.publish_async, bad), (fast.publish, bad),
                (fast.publish_many, [(bad, b"")]), (fast.commit, bad), (ahead.publish, bad),
                (ahead.publish_many, [(bad, b"")]), (atomic.add, bad), (atomic.commit, bad),
                (js.publish_batch, [(bad, b"")]), (nc.subscribe, bad),
            ):  # fmt: skip
                with pytest.raises(BadSubjectError, match="must be a str, not "):
                    await verb(*args)
            await fast.publish(f"{name}.a", b"fast")
            await atomic.add(f"{name}.a", b"atomic")
        with pytest.raises(BadSubjectError, match="must be a str, not "):
            await nc.publish(f"{name}.a", reply=bad)
        assert (await fast.commit()).count == (await atomic.commit()).count == 2
        assert len(await stored(js, name)) == 4


@promise("A list for `publish_batch` that holds such a payload is a `LocalProtocolError`")
@pytest.mark.parametrize(
    "bad",
    [(), ("s.a",), ("s.a", b"", None, "more"), "s.a", b"bytes", "ab", 5, None, {"s.a": b"", "s.b": b""}],
    ids=repr,
)
async def test_what_is_no_message_is_refused_by_everything_that_takes_many(
    server: Any, connect: Connect, bad: Any
) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        good = (f"{name}.a", b"good")
        fast, ahead = js.fast_publisher(), js.async_publisher()
        for published in range(2):  # the first message goes another way
            for publisher in (fast, ahead):
                with pytest.raises(LocalProtocolError, match="a message is"):
                    await publisher.publish_many([bad, good])
                assert publisher.sequence == published
                assert await publisher.publish_many([good]) == published + 1
        with pytest.raises(LocalProtocolError, match="a message is"):
            await js.publish_batch([bad])
        await ahead.flush()
        assert (await fast.commit()).count == 2
        assert await stored(js, name) == [b"good"] * 4


@known_fault("ids of the caller, and what they may be")
@pytest.mark.parametrize("batch_id", ["", "x" * 65, "a.b", "a b", "*", ">"])
async def test_impossible_ids_are_refused_by_name(server: Any, connect: Connect, batch_id: str) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        with pytest.raises(LocalProtocolError):
            js.fast_publisher(batch_id=batch_id)
        with pytest.raises(LocalProtocolError):
            js.atomic_batch(batch_id=batch_id)
        with pytest.raises(LocalProtocolError):
            await js.publish_batch([(f"{name}.a", b"")], batch_id=batch_id)
        for batch in (js.fast_publisher(batch_id="x" * 64), js.atomic_batch(batch_id="x" * 64)):
            assert (await batch.commit(f"{name}.a")).batch == "x" * 64


@pytest.mark.parametrize("kind", ["fast_publisher", "atomic_batch"])
async def test_behind_a_commit_nothing_is_taken(server: Any, connect: Connect, kind: str) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        batch = getattr(js, kind)()
        add = batch.publish if kind == "fast_publisher" else batch.add
        await add(f"{name}.a", b"1")
        await batch.commit()
        verbs: list[Callable[[], Any]] = [lambda: add(f"{name}.a", b"2"), lambda: batch.commit(f"{name}.a", b"2")]
        for verb in verbs:
            with pytest.raises(BatchClosedError, match="committed"):
                await verb()
        assert await stored(js, name) == [b"1"]


@known_fault("threads and event loops get in each other's way")
@pytest.mark.parametrize("kind", ["fast_publisher", "atomic_batch"])
async def test_a_commit_amid_what_others_add_counts_all_that_was_taken(
    server: Any, connect: Connect, kind: str
) -> None:
    """Threads or tasks share a batch: what a verb has returned is in it, what comes after the commit is refused."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        batch = js.fast_publisher(flow=50) if kind == "fast_publisher" else js.atomic_batch(ack_every=10)
        add = batch.publish if kind == "fast_publisher" else batch.add
        taken: dict[int, bytes] = {}
        refused: list[int] = []
        finished: list[int] = []

        async def publish(who: int) -> None:
            for number in range(200):
                payload = b"%d-%d" % (who, number)
                try:
                    taken[await add(f"{name}.a", payload)] = payload
                except BatchClosedError:
                    refused.append(who)
                    return
            finished.append(who)

        acks: list[Any] = []

        async def commit() -> None:
            while batch.sequence < 100:
                await nc.flush()
            acks.append(await batch.commit())

        async with anyio.create_task_group() as tasks:
            for who in range(4):
                tasks.start_soon(publish, who)
            tasks.start_soon(commit)
        (ack,) = acks
        assert sorted(taken) == list(range(1, ack.count + 1))
        assert await stored(js, name) == [taken[sequence] for sequence in sorted(taken)]
        assert sorted(refused + finished) == list(range(4))


@pytest.mark.parametrize(
    ("servers", "options"),
    [(b"nats://h", {}), (None, {}), ("h", {"name": 5}), ("h", {"event_cb": 5}), ("h", {"timeout": "5"})],
    ids=["servers", "servers", "name", "event_cb", "timeout"],
)
async def test_what_cannot_be_an_option_of_a_connection_is_named(
    connect: Connect, servers: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(LocalProtocolError, match=next(iter(options), "servers")):
        async with connect(servers, **options):
            pass


async def test_what_cannot_be_an_option_is_named(server: Any, connect: Connect) -> None:
    async with connect(server.url, timeout=timedelta(seconds=30)) as nc:
        js, name = await make_stream(nc)
        for verb, option, value in (
            (js.fast_publisher, "flow", "5"),
            (js.fast_publisher, "flow", 5.0),
            (js.fast_publisher, "max_outstanding_acks", "2"),
            (js.fast_publisher, "gap", 1),
            (js.fast_publisher, "batch_id", 5),
            (js.fast_publisher, "ack_timeout", "5"),
            (js.atomic_batch, "batch_id", b"b"),
            (js.atomic_batch, "max_messages", "5"),
            (js.atomic_batch, "ack_every", "5"),
            (js.atomic_batch, "ack_timeout", "5"),
            (js.async_publisher, "timeout", "5"),
            (js.async_publisher, "max_pending", "5"),
            (js.async_publisher, "max_pending_bytes", "5"),
            (nc.jetstream, "timeout", "5"),
            (nc.jetstream, "publish_async_max_pending", "5"),
        ):
            with pytest.raises(LocalProtocolError, match=option.removeprefix("publish_async_")):
                verb(**{option: value})
        for ask, option in (
            (partial(js.create_stream, name), "retention"),
            (partial(js.update_stream, name), "storage"),
            (partial(js.create_consumer, name), "deliver_policy"),
            (partial(js.subscribe, f"{name}.a"), "ack_policy"),
            (partial(js.pull_subscribe, f"{name}.a", "C"), "replay_policy"),
        ):
            with pytest.raises(LocalProtocolError, match=f"{option} is '.*', not 'bogus'"):
                await ask(**{option: "bogus"})
        for call in (js.publish, nc.request):
            with pytest.raises(LocalProtocolError, match="timeout is a number of seconds"):
                await call(f"{name}.a", b"", timeout="5")
        assert (await js.publish(f"{name}.a", b"", timeout=timedelta(seconds=30))).seq == 1


@promise('A payload that is not bytes raises `TypeError` ("the payload must be bytes, not str: encode it")')
async def test_text_is_no_payload(server: Any, connect: Connect) -> None:
    """Whatever publishes says so in the same words, sends nothing and goes on."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        subject, text = f"{name}.a", "text"
        fast, atomic, ahead = js.fast_publisher(), js.atomic_batch(), js.async_publisher()
        for _ in range(2):  # of a batch that is not begun, and of one that is
            for verb, *args in (
                (nc.publish, subject, text),
                (nc.request, subject, text),
                (js.publish, subject, text),
                (js.publish_async, subject, text),
                (fast.publish, subject, text),
                (fast.publish_many, [(subject, text)]),
                (ahead.publish, subject, text),
                (ahead.publish_many, [(subject, text)]),
                (atomic.add, subject, text),
            ):
                with pytest.raises(TypeError, match="^the payload must be bytes, not str: encode it$"):
                    await verb(*args)
            with pytest.raises(LocalProtocolError, match="message 2 .* the payload must be bytes, not str: encode it$"):
                await js.publish_batch([(subject, b"1"), (subject, text)])
            await fast.publish(subject, b"fast")
            await atomic.add(subject, b"atomic")
        for commit in (fast.commit, atomic.commit):
            with pytest.raises(TypeError, match="encode it"):
                await commit(subject, text)
            assert (await commit(subject, b"last")).count == 3
        assert (await js.stream_info(name)).state.messages == 6
        await ahead.close()


# -- of others ---------------------------------------------------------------------------------------------------------

LIES: list[bytes] = [
    b"junk",
    b"[]",
    b"{}",
    b'{"type":"ack"}',
    b'{"type":"ack","seq":1000000,"msgs":10}',  # higher than what was sent
    b'{"type":"ack","seq":1,"msgs":0}',
    b'{"type":"ack","seq":-1,"msgs":10}',
    b'{"type":"gap","last_seq":900,"seq":1000}',
    b'{"type":"err","seq":900,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 4"}}',
    json.dumps({"stream": "S", "seq": 1, "batch": "other", "count": 1}).encode(),
    json.dumps({"stream": "S", "seq": 9, "batch": "b", "count": 900}).encode(),
]


async def test_answers_that_cannot_be_true_change_nothing(server: Any, connect: Connect) -> None:
    """Anybody may publish to an inbox."""
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        spy = await nc.subscribe(f"{name}.>")
        await nc.flush()

        async def lie() -> None:
            message = await spy.next_msg()
            for payload in LIES:
                await nc.publish(message.reply, payload)
            await nc.flush()

        batch = js.fast_publisher(batch_id="b")
        await batch.publish(f"{name}.a", b"1")
        await batch.publish(f"{name}.a", b"2")
        await lie()
        assert batch.error is None
        assert batch.acked <= 2
        await batch.publish(f"{name}.a", b"3")
        assert (await batch.commit()).count == 3
        told = len([event for event in events if isinstance(event, UnexpectedMessage)])
        assert told == len(LIES)

        while (await spy.next_msg()).data != b"":
            pass  # up to the commit, which has no payload
        atomic = js.atomic_batch(batch_id="b")
        await atomic.add(f"{name}.a", b"4")
        await lie()
        assert (atomic.error, atomic.acked) == (None, 1)
        assert (await atomic.commit(f"{name}.a", b"5")).count == 2

        await spy.next_msg()
        promised = await js.publish_async(f"{name}.a", b"6")
        assert (await promised.result()).seq == 6
        await lie()
        assert (await promised.result()).seq == 6
        assert js.publish_async_pending() == 0
        assert await stored(js, name) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert len([event for event in events if isinstance(event, UnexpectedMessage)]) == 3 * len(LIES)
