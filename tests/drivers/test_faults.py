"""What every driver must do when the server does not do what it should."""

from __future__ import annotations

import socket
import threading
from typing import Any

import anyio
import pytest

from jsproto.errors import (
    AuthorizationError,
    BatchClosedError,
    BatchLostError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    IncompleteBatchError,
    NoServersError,
    RemoteProtocolError,
    ServerError,
    StaleConnectionError,
    UnsupportedByServerError,
)
from jsproto.events import Disconnected, Event, ServerReportedError
from jsproto.wire.encoder import PING, PONG
from jsproto.wire.frames import Connect as ConnectFrame
from jsproto.wire.frames import Ping, Pong, Pub, Sub, Unsub
from tests.drivers.conftest import LIMIT, PATIENCE, Connect
from tests.drivers.fake import FakeServer, Hangup, Peer, ack
from tests.marks import known_fault, promise

pytestmark = pytest.mark.anyio


# -- the handshake -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "greeting",
    [b"INFO {oops}\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INFO []\r\n", b"PING\r\n", b"\xff" * 5000],
    ids=["json", "http", "list", "ping", "junk"],
)
async def test_a_malformed_greeting(connect: Connect, greeting: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.send(greeting)
        peer.serve()

    with FakeServer(script) as server:
        with pytest.raises(Error) as caught:
            async with connect(server.url):
                raise AssertionError("connected")
        assert isinstance(caught.value, RemoteProtocolError | NoServersError)


async def test_a_server_that_says_nothing(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.serve()

    with FakeServer(script) as server, pytest.raises((ConnectionLostError, NoServersError), match="time"):
        async with connect(server.url, connect_timeout=0.05):
            raise AssertionError("connected")


async def test_a_server_that_closes_at_once(connect: Connect) -> None:
    with FakeServer(lambda peer: None) as server, pytest.raises((ConnectionLostError, NoServersError)):
        async with connect(server.url):
            raise AssertionError("connected")


async def test_credentials_that_are_refused(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.info(auth_required=True)
        assert b'"user":"joe"' in peer.expect(ConnectFrame).raw
        peer.send(b"-ERR 'Authorization Violation'\r\n")

    with FakeServer(script) as server, pytest.raises(AuthorizationError, match="Authorization Violation"):
        async with connect(server.url, user="joe", password="secret"):
            raise AssertionError("connected")


async def test_a_handshake_that_fails_is_passed_over(connect: Connect) -> None:
    """Silent, talking nonsense, refusing: the next address is tried. After the last one the error lists them all."""

    def refuse(peer: Peer) -> None:
        peer.info()
        peer.expect(ConnectFrame)
        peer.send(b"-ERR 'Authorization Violation'\r\n")
        peer.serve()

    def babble(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.serve()

    def greet(peer: Peer) -> None:
        peer.handshake()
        peer.serve()

    with (
        FakeServer(Peer.serve, Peer.serve) as silent,
        FakeServer(babble, babble) as babbling,
        FakeServer(refuse, refuse) as refusing,
        FakeServer(greet) as good,
    ):
        bad = [silent.url, babbling.url, refusing.url]
        async with connect([*bad, good.url], dont_randomize=True, connect_timeout=LIMIT) as nc:
            assert nc.connected_url == good.url
            assert await nc.flush() >= 0
        with pytest.raises(NoServersError) as caught:
            async with connect(bad, connect_timeout=LIMIT):
                raise AssertionError("connected")
    assert [url for url, _ in caught.value.attempts] == bad
    assert "Authorization Violation" in caught.value.attempts[2][1]


async def test_a_server_that_is_too_old_for_fast_ingest(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.handshake(version="2.12.8")
        peer.serve()

    with FakeServer(script) as server:
        async with connect(server.url) as nc:
            with pytest.raises(UnsupportedByServerError) as caught:
                await nc.jetstream().fast_publisher().publish("a", b"")
            assert (caught.value.needed, caught.value.found) == ("2.14", "2.12.8")


# -- the end in the middle ---------------------------------------------------------------------------------------------


async def test_whoever_waits_when_the_server_goes_is_told(connect: Connect) -> None:
    errors: list[Error] = []
    events: list[Event] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        missing = {b"b", b"stream.a", b"$JS.API.DIRECT.GET.S", b"$JS.API.STREAM.INFO.S"}
        while missing:
            missing.discard(peer.expect(Pub).subject)

    async def expect(verb: Any) -> None:
        with pytest.raises(Error) as caught:
            await verb()
        errors.append(caught.value)

    with FakeServer(script) as server:
        async with connect(server.url, event_cb=events.append, max_reconnect_attempts=0) as nc:
            sub = await nc.subscribe("a")
            js = nc.jetstream()
            batch = js.fast_publisher()
            await batch.publish("stream.a", b"1")
            reader = js.get_batch("S")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(expect, lambda: nc.request("b", b""))
                tasks.start_soon(expect, sub.__anext__)
                tasks.start_soon(expect, sub.next_msg)
                tasks.start_soon(expect, lambda: batch.publish("stream.a", b"2"))
                tasks.start_soon(expect, reader.__anext__)
                tasks.start_soon(expect, lambda: js.stream_info("S"))
            assert sorted(type(error).__name__ for error in errors) == [
                "BatchLostError", "ConnectionLostError", "ConnectionLostError", "ConnectionLostError",
                "ConnectionLostError", "IncompleteBatchError",
            ]  # fmt: skip
            assert nc.is_closed
            with pytest.raises(ConnectionClosedError):
                await nc.publish("a")
            with pytest.raises(BatchLostError):
                await batch.commit()
            with pytest.raises(IncompleteBatchError):
                await reader.__anext__()
            with pytest.raises(ConnectionLostError):
                await sub.next_msg()
    assert isinstance(events[-1], Disconnected)
    assert isinstance(events[-1].error, ConnectionLostError)


async def test_a_reset_is_an_end_too(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Pub)
        peer.reset()

    with FakeServer(script) as server:
        async with connect(server.url, max_reconnect_attempts=0) as nc:
            with pytest.raises(ConnectionLostError):
                await nc.request("a")


async def test_what_came_before_the_end_can_still_be_taken(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Sub)
        for number in range(100):
            peer.deliver(b"a", b"%d" % number)

    got: list[bytes] = []

    async def take_all(nc: Any) -> None:
        async for message in await nc.subscribe("a"):
            got.append(message.data)

    with FakeServer(script) as server:
        async with connect(server.url, max_reconnect_attempts=0) as nc:
            with pytest.raises(ConnectionLostError):
                await take_all(nc)
    assert got == [b"%d" % number for number in range(100)]


async def test_an_error_of_the_server_says_why(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        peer.send(b"-ERR 'Permissions Violation for Publish to \"x\"'\r\nPONG\r\n")
        peer.expect(Ping)
        peer.send(b"-ERR 'Slow Consumer'\r\n")

    events: list[Event] = []
    with FakeServer(script) as server:
        async with connect(server.url, event_cb=events.append, max_reconnect_attempts=0) as nc:
            await nc.flush()
            with pytest.raises(ServerError, match="Slow Consumer"):
                await nc.flush()
    assert [event.fatal for event in events if isinstance(event, ServerReportedError)] == [False, True]


@promise("A peer that breaks the protocol becomes state and a typed error in every open ticket.")
async def test_junk_in_the_middle(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        peer.send(b"MSG a 1 banana\r\n")
        peer.serve()

    with FakeServer(script) as server:
        async with connect(server.url, max_reconnect_attempts=0) as nc:
            with pytest.raises(RemoteProtocolError):
                await nc.flush()


async def test_missed_pongs_end_the_connection(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.serve(answer_pings=False)

    with FakeServer(script) as server:
        async with connect(server.url, ping_interval=0.02, max_reconnect_attempts=0) as nc:
            with pytest.raises((StaleConnectionError, ConnectionClosedError), match="2 PINGs in a row"):
                await (await nc.subscribe("a")).next_msg()


@pytest.mark.slow
async def test_many_who_flush_end_no_healthy_link(server: Any, connect: Connect) -> None:
    """Round trips that are under way whenever the keep-alive is due."""
    events: list[Event] = []
    async with connect(server.url, ping_interval=0.2, max_outstanding_pings=30, event_cb=events.append) as nc:

        async def flush() -> None:
            for _ in range(100):
                assert await nc.flush(timeout=PATIENCE) >= 0

        async with anyio.create_task_group() as tasks:
            for _ in range(36):
                tasks.start_soon(flush)
        assert [event for event in events if isinstance(event, Disconnected)] == []


@pytest.mark.slow
async def test_a_ping_while_much_waits_behind_a_flush_loses_nothing(connect: Connect) -> None:
    """The socket is full. The server asks, and reads only afterwards."""
    blocked = threading.Event()
    got: list[int] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        assert blocked.wait(300)
        peer.send(PING * 3)
        asked = answered = 0
        while (len(got), asked, answered) != (3_000, 2, 3):
            frame = peer.next()
            if isinstance(frame, Pub):
                got.append(int(frame.subject))
            elif isinstance(frame, Ping):
                asked += 1
                peer.send(PONG)
            else:
                answered += isinstance(frame, Pong)
        peer.serve()

    with FakeServer(script, receive_buffer=4096) as server:
        async with connect(server.url, pending_size=100_000_000, max_reconnect_attempts=0) as nc:

            async def flush() -> None:
                assert await nc.flush(timeout=300) >= 0

            for number in range(1_500):
                await nc.publish(f"{number}", bytes(8_000))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(flush)
                tasks.start_soon(flush)
                for number in range(1_500, 3_000):
                    await nc.publish(f"{number}", bytes(8_000))
                    if number % 100 == 0:
                        await anyio.lowlevel.checkpoint()
                blocked.set()
            assert nc.is_connected
    assert got == list(range(3_000))


@pytest.mark.parametrize("driver", ["sync", "asyncio", "trio"], indirect=True)  # pumped: nobody reads meanwhile
async def test_pings_are_answered_while_the_application_is_busy(connect: Connect) -> None:
    answered = threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        for _ in range(3):
            peer.send(PING)
            peer.expect(Pong)
        answered.set()
        peer.serve()

    with FakeServer(script) as server:
        async with connect(server.url, max_reconnect_attempts=0):
            assert await anyio.to_thread.run_sync(answered.wait, 10)


# -- a server that does not read ---------------------------------------------------------------------------------------


async def test_back_pressure(connect: Connect) -> None:
    """Publishing waits while the server takes nothing, nothing is lost, and nothing is cut."""
    go = threading.Event()
    got: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        assert go.wait(10)
        for _ in range(400):
            got.append(peer.expect(Pub).payload)
        peer.serve()

    with FakeServer(script, receive_buffer=16_384) as server:
        async with connect(server.url, pending_size=100_000) as nc:
            async with anyio.create_task_group() as tasks:

                async def publish() -> None:
                    for number in range(400):
                        await nc.publish("a", b"%d" % number + bytes(20_000))

                tasks.start_soon(publish)
                with anyio.move_on_after(0.1):  # long enough for the socket's buffers to fill, as a rule
                    await anyio.sleep_forever()
                go.set()
            await nc.flush()
    assert [int(payload.rstrip(b"\0")) for payload in got] == list(range(400))


@promise("every end has its deadline")
@promise("A server that takes no more bytes delays it by no more than twice the ``timeout`` of the connection.")
@known_fault("closing hangs, or hangs who publishes")
async def test_close_does_not_wait_for_ever(connect: Connect) -> None:
    done = threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        assert done.wait(10)

    with FakeServer(script, receive_buffer=16_384) as server:
        async with connect(server.url, timeout=0.05, pending_size=16_000_000) as nc:
            for _ in range(12):
                await nc.publish("a", bytes(1_000_000))
            await nc.close()
            assert nc.is_closed
        done.set()


@promise("A server that takes no more bytes delays it by no more than twice the ``timeout`` of the connection.")
async def test_a_server_that_takes_the_last_bytes_but_never_closes(connect: Connect) -> None:
    done = threading.Event()
    got: list[Pub] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        got.append(peer.expect(Pub))
        with pytest.raises(Hangup):
            peer.next()
        assert done.wait(10)

    with FakeServer(script) as server:
        async with connect(server.url, timeout=LIMIT) as nc:
            await nc.publish("a", b"last words")
        done.set()
    assert got[0].payload == b"last words"


# -- a batch -----------------------------------------------------------------------------------------------------------


async def test_only_the_first_message_leaves_before_the_server_answered(connect: Connect) -> None:
    seen: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        first = peer.expect(Pub)
        peer.expect(Sub) if not peer.subs else None
        peer.send(PING)
        peer.expect(Pong)  # what was written with the first message has been read by now
        seen.append(first.payload)
        seen.extend(frame.payload for frame in peer._frames if isinstance(frame, Pub))
        assert first.reply is not None
        peer.deliver(first.reply, ack(first, 0, 10), sid=next(iter(peer.subs.values())))
        commit = [peer.expect(Pub) for _ in range(4)][-1]
        assert commit.reply is not None
        peer.deliver(commit.reply, b'{"stream":"S","seq":4,"batch":"b","count":4}', sid=next(iter(peer.subs.values())))
        peer.serve()

    with FakeServer(script) as server:
        async with connect(server.url) as nc:
            batch = nc.jetstream().fast_publisher(batch_id="b")
            assert await batch.publish_many([("s.a", b"%d" % number) for number in range(4)]) == 4
            assert (await batch.commit()).count == 4
    assert seen == [b"0"]


@promise("None: nothing more is stored, and asking again (after a wait that was given up) gives the same answer")
async def test_a_commit_can_be_asked_for_again(connect: Connect) -> None:
    """Whoever gave up waiting for its acknowledgement still gets it, and nothing is sent twice."""
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        start = peer.expect(Pub)
        assert start.reply is not None
        inbox = next(iter(peer.subs.values()))
        peer.deliver(start.reply, ack(start, 0, 10), sid=inbox)
        commit = peer.expect(Pub)
        assert commit.reply is not None
        assert asked.wait(10)
        peer.deliver(commit.reply, b'{"stream":"S","seq":1,"batch":"b","count":1}', sid=inbox)
        peer.expect(Unsub)
        peer.serve()

    with FakeServer(script) as server:
        async with connect(server.url) as nc:
            batch = nc.jetstream().fast_publisher(batch_id="b")
            await batch.publish("s.a", b"1")
            counts: list[int] = []

            async def commit() -> None:
                counts.append((await batch.commit()).count)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(commit)
                while batch._core.phase.name != "COMMITTING":
                    await anyio.sleep(0.001)
                with pytest.raises(BatchClosedError):
                    await batch.commit("s.a", b"2")
                tasks.start_soon(commit)
                await anyio.sleep(0.02)
                asked.set()
            await commit()
            assert counts == [1, 1, 1]


def test_the_fake_server_reports_what_went_wrong() -> None:
    def script(peer: Peer) -> None:
        raise ValueError("the script failed")

    server = FakeServer(script).__enter__()
    socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))).close()
    with pytest.raises(ValueError, match="the script failed"):
        server.__exit__(None, None, None)
