"""What every driver must do when its server goes and comes back."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest

from jsproto.errors import (
    BatchLostError,
    BatchUnknownError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    NoServersError,
    TimeoutError,
)
from jsproto.events import Connected, Disconnected, Event, MessageTooLarge
from jsproto.wire.frames import Ping, Pub, Sub
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import LIMIT, PATIENCE, Connect
from tests.drivers.fake import FakeServer, Peer, ack
from tests.marks import known_fault, promise

pytestmark = pytest.mark.anyio

SOON = 0.02  # seconds between two rounds of attempts


async def run(call: Callable[[], object]) -> None:
    await anyio.to_thread.run_sync(call)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells of."""
    while not condition():
        await anyio.sleep(0.002)


async def make_stream(nc: Any) -> tuple[Any, str]:
    js, name = nc.jetstream(), f"S{uuid4().hex[:12]}"
    await js.create_stream(name, subjects=[f"{name}.>"], storage="file", allow_batched=True, allow_direct=True)
    return js, name


# -- with a real server ------------------------------------------------------------------------------------------------


@promise("A connection outlives its links.")
@promise("Subscriptions go on, and so do readers of Direct Get")
@known_fault("subscriptions, those for acknowledgements too, are dead after a reconnect")
async def test_subscriptions_live_on(own_server: NatsServer, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(own_server.url, event_cb=events.append, reconnect_time_wait=SOON) as nc:
        sub = await nc.subscribe("a")
        queued = await nc.subscribe("a", queue="q")
        limited = await nc.subscribe("b")
        await limited.unsubscribe(1)
        await nc.publish("a", b"before")
        assert (await sub.next_msg()).data == b"before"
        assert (await queued.next_msg()).data == b"before"
        assert nc.is_connected
        await run(own_server.kill)
        async with anyio.create_task_group() as tasks:
            got: list[bytes] = []

            async def take() -> None:
                got.append((await sub.next_msg()).data)

            tasks.start_soon(take)
            tasks.start_soon(run, own_server.start)
            await until(lambda: len(events) >= 3)
            await nc.publish("a", b"after")
        assert got == [b"after"]
        assert (await queued.next_msg()).data == b"after"
        await nc.publish("b", b"the only one")
        await nc.publish("b", b"one too many")
        assert [message.data async for message in limited] == [b"the only one"]
        assert nc.is_connected
        assert not nc.is_closed
    assert not nc.is_connected
    assert [type(event) for event in events] == [Connected, Disconnected, Connected, Disconnected]


@promise("a message that was under way when the link was lost may be stored or not")
@promise("Requests and publishes that were under way end with `ConnectionLostError` or `TimeoutError`.")
async def test_requests_under_way_fail_and_later_ones_are_answered(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        listener = await nc.subscribe("silence")
        async with anyio.create_task_group() as tasks:
            errors: list[Error] = []

            async def ask() -> None:
                with pytest.raises(Error) as caught:
                    await nc.request("silence", timeout=20)
                errors.append(caught.value)

            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await until(lambda: len(nc._session.requests) == 2)
            await nc.flush()
            await run(own_server.restart)
        assert [type(error) for error in errors] == [ConnectionLostError] * 2
        assert (await nc.jetstream().account_info()).streams == 0
        assert listener.subject == "silence"


@promise("Plain publishes are kept and leave with the next link.")
@known_fault("what is published meanwhile grows without bound, or vanishes")
async def test_what_is_published_meanwhile_arrives(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        sub = await nc.subscribe("a")
        await nc.flush()
        await run(own_server.kill)
        with pytest.raises(TimeoutError):
            await sub.next_msg(timeout=0.05)  # so that the loss is noticed, whoever reads
        for number in range(100):
            await nc.publish("a", b"%d" % number)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, own_server.start)
            assert await nc.flush(timeout=20) >= 0
        assert [(await sub.next_msg()).data for _ in range(100)] == [b"%d" % number for number in range(100)]


@promise("Plain publishes are kept and leave with the next link.")
async def test_a_server_that_takes_less_gets_what_it_takes(own_server: NatsServer, connect: Connect) -> None:
    """The message after one that is too large is not lost with it, and who sent that one hears of it."""
    events: list[Event] = []
    with NatsServer(jetstream=False, config="max_payload: 1000") as narrow:
        async with connect(
            [own_server.url, narrow.url], event_cb=events.append, reconnect_time_wait=SOON, max_reconnect_attempts=-1
        ) as nc:
            sub = await nc.subscribe("a")
            await nc.flush()
            await run(narrow.stop)
            await run(own_server.kill)
            with pytest.raises(TimeoutError):
                await sub.next_msg(timeout=0.05)  # so that the loss is noticed, whoever reads
            for size in (10, 1_001, 1_000):
                await nc.publish("a", bytes(size))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, narrow.start)
                assert await nc.flush(timeout=20) >= 0
            assert [len((await sub.next_msg()).data) for _ in range(2)] == [10, 1_000]
            assert nc.stats["reconnects"] == 1
    assert [event for event in events if isinstance(event, MessageTooLarge)] == [MessageTooLarge("a", 1_001, 1_000)]


async def test_a_request_during_the_outage_ends_in_time(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=60) as nc:
        sub = await nc.subscribe("a")
        await nc.flush()
        await run(own_server.kill)
        with pytest.raises(TimeoutError):
            await sub.next_msg(timeout=0.05)
        with pytest.raises(TimeoutError):
            await nc.request("a", timeout=0.05)
        with pytest.raises(TimeoutError):
            await nc.flush(timeout=0.05)


@promise('Atomic batches and lossless fast-ingest batches (`gap="fail"`) end with `BatchLostError`')
@promise("Another batch begins with `batch.unacknowledged`")
@promise("The messages that are not known to be stored, in order", of="jsproto_io.sync:FastPublisher")
@known_fault("messages lost, or blocked, at a reconnect")
async def test_a_lossless_batch_ends_with_the_link_and_is_published_again(
    own_server: NatsServer, connect: Connect
) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        js, name = await make_stream(nc)
        todo: list[Any] = [(f"{name}.a", b"%d" % number, {"Nats-Msg-Id": f"{number}"}) for number in range(4_000)]
        first = js.fast_publisher(flow=50)
        assert await first.publish_many(todo[:2_000]) == 2_000
        await run(own_server.kill)  # stopped in order, it would answer once more: that it knows no batch
        await run(own_server.start)
        with pytest.raises(BatchLostError) as caught:
            await first.publish_many(todo[2_000:])
        assert 2_000 - 100 <= caught.value.acked == first.acked <= 2_000
        assert first.unacknowledged == todo[first.acked :]
        await nc.flush(timeout=20)
        async with js.fast_publisher() as second:
            await second.publish_many(first.unacknowledged)
            await second.commit()
        assert [int(message.data) async for message in js.get_batch(name)] == list(range(4_000))


@promise('With `gap="ok"` losses are events')
@promise('With `gap="ok"` a fast-ingest batch asks the server for its position')
async def test_a_batch_that_may_lose_is_forgotten_by_a_restarted_server(
    own_server: NatsServer, connect: Connect
) -> None:
    """A stream with one replica keeps its batches in the memory of its server."""
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        js, name = await make_stream(nc)
        batch = js.fast_publisher(gap="ok", flow=10)
        assert await batch.publish_many([(f"{name}.a", b"%d" % number) for number in range(5)]) == 5
        await batch.ping()
        await until_acked(nc, batch, 0)
        await run(own_server.restart)
        with pytest.raises(BatchUnknownError):
            await batch.publish_many((f"{name}.a", b"more") for _ in range(10_000))


@pytest.mark.parametrize("commits", [False, True])
async def test_a_batch_that_may_lose_does_not_wait_for_ever_for_a_server_that_is_gone(
    own_server: NatsServer, connect: Connect, commits: bool
) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON, max_reconnect_attempts=-1) as nc:
        js, name = await make_stream(nc)
        batch = js.fast_publisher(gap="ok", flow=10, ack_timeout=LIMIT)
        await batch.publish(f"{name}.a", b"1")
        await run(own_server.kill)
        with pytest.raises(BatchLostError, match="the connection was lost"):
            await (batch.commit() if commits else batch.publish_many((f"{name}.a", b"more") for _ in range(10_000)))


async def until_acked(nc: Any, batch: Any, sequence: int) -> None:
    while batch.acked < sequence:
        await nc.flush()


async def test_another_server_of_the_list_is_used(own_server: NatsServer, connect: Connect) -> None:
    with NatsServer() as other:
        async with connect([own_server.url, other.url]) as nc:
            sub = await nc.subscribe("a")
            await nc.flush()
            assert nc.connected_url == own_server.url
            await run(own_server.kill)
            await until_lost(nc, sub, own_server.url)
            await nc.publish("a", b"there")
            assert (await sub.next_msg()).data == b"there"
            assert nc.connected_url == other.url


async def until_lost(nc: Any, sub: Any, url: str) -> None:
    """Whoever has no reader must wait for something to notice."""
    while nc.connected_url == url:
        with pytest.raises(TimeoutError):
            await sub.next_msg(timeout=0.01)
    await nc.flush()


@known_fault("unclear options and errors of connecting and reconnecting")
async def test_attempts_come_to_an_end(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, max_reconnect_attempts=3, reconnect_time_wait=SOON) as nc:
        sub = await nc.subscribe("a")
        await nc.flush()
        await run(own_server.kill)
        with pytest.raises(NoServersError) as caught:
            await sub.next_msg()
        assert [url for url, _ in caught.value.attempts] == [own_server.url] * 3
        assert nc.is_closed
        with pytest.raises(ConnectionClosedError):
            await nc.publish("a")


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on no host's name is known, which shows at once, without a socket."""

    def unknown(*args: object, **keywords: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    return lambda: monkeypatch.setattr(socket, "getaddrinfo", unknown)


async def test_a_name_that_is_not_known(connect: Connect, no_names: Callable[[], None]) -> None:
    no_names()
    with pytest.raises(NoServersError, match="nats://nowhere:4222: Name or service not known"):
        async with connect("nats://nowhere"):
            pass


async def test_attempts_that_fail_at_once_come_to_an_end(
    own_server: NatsServer, connect: Connect, no_names: Callable[[], None]
) -> None:
    url = own_server.url.replace("127.0.0.1", "localhost")
    async with connect(url, max_reconnect_attempts=3, reconnect_time_wait=SOON) as nc:
        sub = await nc.subscribe("a")
        await nc.flush()
        no_names()
        await run(own_server.kill)
        with pytest.raises(NoServersError):
            await sub.next_msg(timeout=PATIENCE / 2)
        assert nc.is_closed


async def test_a_defect_without_a_link_does_not_keep_it_from_closing(
    own_server: NatsServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(now: float) -> None:
        raise ZeroDivisionError("a defect")

    async with connect(own_server.url, reconnect_time_wait=SOON, timeout=0.1) as nc:
        sub = await nc.subscribe("a")
        await nc.flush(timeout=PATIENCE)
        await run(own_server.kill)
        monkeypatch.setattr(nc._session, "handle_timeout", bug)
        with pytest.raises((ConnectionLostError, ZeroDivisionError)):
            await sub.next_msg(timeout=PATIENCE / 2)
        await until(lambda: nc.is_closed)


@known_fault("closing hangs, or hangs who publishes")
@pytest.mark.parametrize("pause", [60, 0.001], ids=["pausing", "dialling"])
async def test_closing_during_the_outage(own_server: NatsServer, connect: Connect, pause: float) -> None:
    """It ends whoever waits, and takes no time."""
    options = {"max_reconnect_attempts": -1, "reconnect_time_wait": pause, "timeout": 60}
    async with connect(own_server.url, **options) as nc:
        sub = await nc.subscribe("a")
        await nc.flush()
        await run(own_server.kill)
        with pytest.raises(TimeoutError):
            await sub.next_msg(timeout=0.05)
        async with anyio.create_task_group() as tasks:

            async def wait(verb: Callable[[], Any]) -> None:
                with pytest.raises(ConnectionClosedError):
                    await verb()

            tasks.start_soon(wait, sub.next_msg)
            tasks.start_soon(wait, nc.flush)
            tasks.start_soon(wait, lambda: nc.request("a"))
            await until(lambda: len(nc._session.requests) == 1)
            await nc.close()
        assert nc.is_closed


async def test_closing_while_dialling_is_not_answered(own_server: NatsServer, connect: Connect, mute_port: int) -> None:
    """It ends at once whoever waits for the link, and the verbs that need none go on until then."""
    servers = [own_server.url, f"nats://127.0.0.1:{mute_port}"]
    async with connect(servers, connect_timeout=60, timeout=60, reconnect_time_wait=SOON) as nc:
        sub = await nc.subscribe("a")
        await nc.flush()
        await run(own_server.kill)
        with pytest.raises(TimeoutError):
            await sub.next_msg(timeout=0.2)
        await nc.publish("a", b"kept for the next link")
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(ConnectionClosedError):
                    await sub.next_msg()

            tasks.start_soon(wait)
            await nc.close()
        assert nc.is_closed


async def test_a_server_that_does_not_answer_is_passed_over(
    own_server: NatsServer, connect: Connect, mute_port: int
) -> None:
    async with connect([f"nats://127.0.0.1:{mute_port}", own_server.url], connect_timeout=LIMIT) as nc:
        assert nc.connected_url == own_server.url


# -- with a scripted one -----------------------------------------------------------------------------------------------


@promise('With `gap="ok"` losses are events')
@promise('With `gap="ok"` a fast-ingest batch asks the server for its position')
@known_fault("subscriptions, those for acknowledgements too, are dead after a reconnect")
async def test_a_batch_that_may_lose_goes_on(connect: Connect) -> None:
    """The server (one of a cluster, say) still knows it: the answer to a ping on the new link opens the window."""

    def reply_to(peer: Peer, frame: Pub, payload: bytes) -> None:
        assert frame.reply is not None
        peer.deliver(frame.reply, payload, sid=next(iter(peer.subs.values())))

    def first(peer: Peer) -> None:
        peer.handshake()
        start = peer.expect(Pub)
        reply_to(peer, start, ack(start, 0, 2))
        for _ in range(2):
            peer.expect(Pub)
        peer.expect(Ping)

    def second(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Sub)
        ping = peer.expect(Pub)
        assert ping.reply is not None
        assert ping.reply.endswith(b".3.4.$FI")
        reply_to(peer, ping, ack(ping, 3, 2))
        more = peer.expect(Pub)
        assert more.payload == b"later"
        commit = peer.expect(Pub)
        reply_to(peer, commit, b'{"stream":"S","seq":4,"batch":"b","count":4}')
        peer.serve()

    with FakeServer(first, second) as server:
        async with connect(server.url, reconnect_time_wait=SOON) as nc:
            batch = nc.jetstream().fast_publisher(gap="ok", flow=2, batch_id="b")
            for number in range(3):
                await batch.publish("s.a", b"%d" % number)
            with pytest.raises(ConnectionLostError):
                await nc.flush()
            await batch.publish("s.a", b"later")
            assert (await batch.commit()).count == 4


@promise("A connection outlives its links.")
async def test_a_dead_link_is_replaced(connect: Connect) -> None:
    """One that does not answer PINGs, one that talks nonsense: both are closed, and the next one is dialled."""

    def silent(peer: Peer) -> None:
        peer.handshake()
        peer.serve(answer_pings=False)

    def babbling(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Sub)
        peer.send(b"MSG a 1 banana\r\n")
        peer.serve()

    def good(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Sub)
        peer.deliver(b"a", b"alive")
        peer.serve()

    with FakeServer(silent, babbling, good) as server:
        async with connect(
            server.url, ping_interval=LIMIT / 2, max_outstanding_pings=1, reconnect_time_wait=SOON
        ) as nc:
            sub = await nc.subscribe("a")
            assert (await sub.next_msg()).data == b"alive"


async def test_a_handshake_on_the_new_link_that_does_not_end(connect: Connect) -> None:
    """It counts as an attempt. Closing meanwhile does not wait for it."""

    attempts: list[Peer] = []

    def first(peer: Peer) -> None:
        peer.handshake()

    def silent(peer: Peer) -> None:
        attempts.append(peer)
        peer.serve()

    with FakeServer(first, silent, silent) as server:
        async with connect(server.url, connect_timeout=LIMIT, reconnect_time_wait=SOON) as nc:
            sub = await nc.subscribe("a")
            with pytest.raises(TimeoutError):
                await sub.next_msg(timeout=0.05)  # so that the loss is noticed
            while len(attempts) < 2:
                with pytest.raises((TimeoutError, ConnectionLostError)):
                    await nc.flush(timeout=0.2)
