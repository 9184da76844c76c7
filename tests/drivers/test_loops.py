"""What is particular to event loops: cancelled waits, the loop's own timers, exceptions that leave the block."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from errno import ENOBUFS
from typing import Any, cast
from uuid import uuid4

import anyio
import pytest
import trio

import jsproto_io.asyncio
import jsproto_io.trio
from jsproto.errors import ConnectionClosedError, ConnectionLostError, LocalProtocolError, NoServersError
from jsproto.wire.encoder import PONG
from jsproto.wire.frames import Ping, Pub, Sub
from jsproto_io._state.common import READ_SIZE
from tests.drivers.fake import FakeServer, Peer, ack
from tests.drivers.test_reconnect import until
from tests.marks import known_fault

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def connect(anyio_backend: str) -> Any:
    return {"asyncio": jsproto_io.asyncio.connect, "trio": jsproto_io.trio.connect}[anyio_backend]


def serve(peer: Peer) -> None:
    peer.handshake()
    peer.serve()


@known_fault("cancelling a fetch, or a wait for a message, loses messages")
async def test_cancelled_waits_lose_no_message(server: Any, connect: Any) -> None:
    """Waits are given up at every turn while messages come in. Each message is taken exactly once."""
    async with connect(server.url) as nc, connect(server.url) as other:
        subject = f"t{uuid4().hex}"
        sub = await nc.subscribe(subject)
        await nc.flush()
        got: list[int] = []

        async def publish() -> None:
            for number in range(500):
                await other.publish(subject, b"%d" % number)
                if number % 10 == 0:
                    await other.flush()

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(publish)
                while len(got) < 500:
                    with anyio.CancelScope() as scope:
                        async with anyio.create_task_group() as race:
                            race.start_soon(other.flush)  # any round trip will do for a moment to give up at

                            async def take() -> None:
                                got.append(int((await sub.next_msg()).data))

                            race.start_soon(take)
                            await nc.flush()
                            scope.cancel()
    assert got == list(range(500))


@known_fault("cancelling loses messages, or leaves acknowledgements hanging")
async def test_a_cancelled_request_hurts_nobody(connect: Any) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        first, second = peer.expect(Pub), peer.expect(Pub)
        for request in (first, second):
            assert request.reply is not None
            peer.deliver(request.reply, request.payload, sid=next(iter(peer.subs.values())))
        peer.serve()

    with FakeServer(script) as server, anyio.fail_after(30):
        async with connect(server.url) as nc, anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(anyio.lowlevel.checkpoint)
                async with anyio.create_task_group() as inner:
                    inner.start_soon(nc.request, "a", b"given up")
                    await anyio.lowlevel.checkpoint()
                    scope.cancel()
            assert (await nc.request("a", b"wanted")).data == b"wanted"


@known_fault("cancelling loses messages, or leaves acknowledgements hanging")
async def test_cancelling_a_publisher_cuts_no_message(connect: Any) -> None:
    """A task is cancelled while the socket takes nothing. The server then reads whole messages."""
    go = threading.Event()
    got: list[int] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        assert go.wait(10)
        frame = peer.next()
        while isinstance(frame, Pub):
            got.append(len(frame.payload))
            frame = peer.next()
        assert isinstance(frame, Ping)
        peer.send(PONG)
        peer.serve()

    with FakeServer(script, receive_buffer=16_384) as server, anyio.fail_after(30):
        async with connect(server.url, pending_size=100_000) as nc:
            sent = 0
            with anyio.move_on_after(0.1):
                while True:
                    await nc.publish("a", bytes(30_000))
                    sent += 1
            go.set()
            await nc.flush()
    assert got == [30_000] * sent


class Socket:
    """A socket whose ``send`` is another one."""

    def __init__(self, real: Any, send: Callable[[Any, memoryview], int]) -> None:
        self._real = real
        self._send = send

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send(self, data: memoryview) -> int:
        return self._send(self._real, data)


@pytest.mark.parametrize("anyio_backend", ["trio"], indirect=True)  # asyncio has a transport of its own
async def test_nothing_follows_a_message_that_was_cut(connect: Any) -> None:
    """The system fails for a moment after the first bytes. The next message leaves with the next link."""
    sends = 0
    rest: list[bytes] = []

    def send(real: Any, data: memoryview) -> int:
        nonlocal sends
        sends += 1
        if sends == 2:
            raise OSError(ENOBUFS, "No buffer space available")
        sent: int = real.send(data[:20] if sends == 1 else data)
        return sent

    def script(peer: Peer) -> None:
        peer.handshake()
        while data := peer.socket.recv(65536):
            rest.append(data)

    with FakeServer(script, serve) as server, anyio.fail_after(30):
        async with connect(server.url, reconnect_time_wait=0) as nc:
            nc._link._socket = Socket(nc._link._socket, send)
            await nc.publish("a", bytes(100))
            with pytest.raises(ConnectionLostError):
                await nc.flush()
            await nc.flush()
    assert b"".join(rest) == b"PUB a 100\r\n" + bytes(9)


class Transport:
    """A transport that takes everything, and sends it nowhere."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def write(self, data: bytes) -> None: ...


async def test_others_have_their_turn_while_a_task_publishes_without_end(connect: Any) -> None:
    leadership = 0

    async def take_turns() -> None:
        nonlocal leadership
        while True:
            await anyio.lowlevel.checkpoint()
            leadership += 1

    with FakeServer(serve) as server, anyio.fail_after(30):
        async with connect(server.url) as nc, anyio.create_task_group() as tasks:
            if hasattr(nc._link, "_transport"):  # it never has to wait
                nc._link._transport = Transport(nc._link._transport)
            else:
                nc._link._socket = Socket(nc._link._socket, lambda real, data: len(data))
            tasks.start_soon(take_turns)
            for _ in range(100):
                await nc.publish("a", bytes(100_000))
            assert leadership
            tasks.cancel_scope.cancel()


@known_fault("cancelling loses messages, or leaves acknowledgements hanging")
async def test_a_batch_survives_a_wait_that_was_given_up(connect: Any) -> None:
    """The window is closed and the task gives up. The next one continues there."""
    go = threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        first = peer.expect(Pub)
        assert first.reply is not None
        sid = next(iter(peer.subs.values()))
        assert go.wait(10)
        peer.deliver(first.reply, ack(first, 0, 10), sid=sid)
        second = peer.expect(Pub)
        assert second.payload == b"third"
        commit = peer.expect(Pub)
        assert commit.reply is not None
        peer.deliver(commit.reply, b'{"stream":"S","seq":2,"batch":"b","count":2}', sid=sid)
        peer.serve()

    with FakeServer(script) as server:
        async with connect(server.url) as nc:
            batch = nc.jetstream().fast_publisher(batch_id="b")
            assert await batch.publish("s.a", b"first") == 1
            with anyio.move_on_after(0.01) as scope:
                await batch.publish("s.a", b"second")
            assert scope.cancelled_caught
            assert batch.sequence == 1
            go.set()
            assert await batch.publish("s.a", b"third") == 2
            assert (await batch.commit()).count == 2


async def test_an_async_iterable_is_published_too(server: Any, connect: Any) -> None:
    name = f"S{uuid4().hex}"

    async def source() -> AsyncIterator[tuple[str, bytes]]:
        for number in range(500):
            yield f"{name}.a", b"%d" % number
        raise ValueError("the source broke")

    async with connect(server.url) as nc:
        js = nc.jetstream()
        await js.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_batched=True, allow_direct=True)
        async with js.fast_publisher(flow=20) as batch:
            with pytest.raises(ValueError, match="the source broke"):
                await batch.publish_many(source())
            assert (await batch.commit()).count == 500
        assert [int(message.data) async for message in js.get_batch(name)] == list(range(500))


async def test_exceptions_leave_the_block_as_they_are(connect: Any) -> None:
    with FakeServer(serve, serve) as server:
        for error in (ValueError("the application's"), ExceptionGroup("its own", [KeyError("k")])):

            async def leave(error: Exception = error) -> None:
                async with connect(server.url) as nc:
                    await nc.publish("a")
                    raise error

            with pytest.raises(type(error)) as caught:
                await leave()
            assert caught.value is error


async def test_cancelling_the_block_closes_cleanly(connect: Any) -> None:
    last: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        last.append(peer.expect(Pub).payload)
        peer.serve()

    with FakeServer(script) as server:
        with anyio.CancelScope() as scope:
            async with connect(server.url, linger=10) as nc:
                await nc.publish("a", b"last words")
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert nc.is_closed
    assert last == [b"last words"]


async def test_cancelling_connect_leaves_nothing_behind(connect: Any) -> None:
    accepted, greeted = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        accepted.set()
        assert greeted.wait(60)

    with FakeServer(script) as server:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await until(accepted.is_set)
                tasks.cancel_scope.cancel()

            tasks.start_soon(cancel)
            async with connect(server.url, connect_timeout=60):
                raise AssertionError("connected")
        assert tasks.cancel_scope.cancelled_caught
        greeted.set()


# -- ways to connect ---------------------------------------------------------------------------------------------------


def test_asyncio_reads_as_much_at_once_as_the_other_drivers(server: Any) -> None:
    """A transport of its own reads 256 KiB, which costs large messages twice the CPU (``bench.objects``)."""

    async def main() -> int:
        async with jsproto_io.asyncio.connect(server.url) as nc:
            assert nc._link is not None
            return cast("int", getattr(nc._link._transport, "max_size"))  # noqa: B009 (of asyncio's own alone)

    assert asyncio.run(main()) == READ_SIZE


def test_a_connection_on_asyncio_can_be_awaited(server: Any) -> None:
    async def main() -> None:
        nc = await jsproto_io.asyncio.connect(server.url)
        assert await nc.flush() > 0
        await nc.close()
        assert nc.is_closed
        nc = await asyncio.wait_for(jsproto_io.asyncio.connect(server.url), 60)
        await nc.drain()
        assert nc.is_closed

    asyncio.run(main())


def test_a_connection_that_is_awaited_in_vain_leaves_nothing(closed_port: int) -> None:
    async def main() -> None:
        with pytest.raises(NoServersError):
            await jsproto_io.asyncio.connect(f"nats://127.0.0.1:{closed_port}")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_connection_on_trio_needs_a_block() -> None:
    async def main() -> None:
        with pytest.raises(LocalProtocolError, match=r"async with connect\(...\) as nc"):
            await jsproto_io.trio.connect("nats://nowhere")  # type: ignore[misc]

    trio.run(main)


def test_who_has_no_trio_hears_what_to_install() -> None:
    program = "import sys; sys.modules['trio'] = None; import jsproto_io.trio"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: jsproto_io.trio needs an extra: pip install 'jsproto[trio]'"


@pytest.fixture
async def unreachable(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dialling neither succeeds nor fails."""

    async def dial(*args: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(f"jsproto_io.{anyio_backend}.dial", dial)


@pytest.mark.usefixtures("unreachable")
async def test_dialling_can_be_cancelled_and_ends_in_time(connect: Any) -> None:
    with anyio.fail_after(30):
        with anyio.move_on_after(0.01) as scope:
            async with connect("nats://127.0.0.1"):
                raise AssertionError("connected")
        assert scope.cancelled_caught
        with pytest.raises(NoServersError) as caught:
            async with connect("nats://127.0.0.1", connect_timeout=0.01):
                raise AssertionError("connected")
    assert caught.value.attempts == (("nats://127.0.0.1:4222", "timed out"),)


@pytest.mark.parametrize(
    "broken",
    [("receive_data",), ("handle_timeout",), ("data_to_send",), ("deadline",), ("receive_data", "abort")],
    ids=str,
)
async def test_a_defect_fails_everybody_instead_of_hanging_them(
    connect: Any, broken: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*args: object) -> None:
        raise ZeroDivisionError("a defect")

    errors: list[BaseException] = []
    with FakeServer(serve) as server, anyio.fail_after(30):
        async with connect(server.url, ping_interval=0.05, max_outstanding_pings=1_000) as nc:
            sub = await nc.subscribe("a")

            async def wait() -> None:
                with pytest.raises(ConnectionLostError) as caught:
                    await sub.next_msg()
                errors.append(caught.value)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                tasks.start_soon(wait)
                await nc.flush()
                for name in broken:
                    monkeypatch.setattr(nc._session, name, bug)
            with pytest.raises(ConnectionLostError, match="ZeroDivisionError"):
                await nc.publish("a")
    assert len(errors) == 2
    assert "ZeroDivisionError" in caplog.text


async def test_a_defect_found_by_close_leaves_nothing_open(
    connect: Any, anyio_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug() -> None:
        raise ZeroDivisionError("a defect")

    with FakeServer(serve) as server:
        async with connect(server.url, linger=60) as nc:
            await nc.publish("a")
            monkeypatch.setattr(nc._session, "data_to_send", bug)
        assert nc._receive_ended.is_set() if anyio_backend == "trio" else nc._link.lost.is_set()
    assert caplog.text.count("ZeroDivisionError: a defect") == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)  # trio moves the deadline of one scope
async def test_many_small_messages_arm_one_timer(connect: Any) -> None:
    got: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        for _ in range(100):
            got.append(peer.expect(Pub).payload)
        peer.serve()

    with FakeServer(script) as server, anyio.fail_after(30):
        async with connect(server.url) as nc:
            calls = 0
            call_later = nc._loop.call_later

            def counted(*args: Any) -> Any:
                nonlocal calls
                calls += 1
                return call_later(*args)

            nc._loop.call_later = counted
            try:
                for number in range(100):
                    await nc.publish("a", b"%d" % number)
                assert calls == 1
            finally:
                del nc._loop.call_later
    assert got == [b"%d" % number for number in range(100)]


async def test_a_dial_that_fails_as_the_connection_is_closed(
    connect: Any, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session has ended by the time it is told: whoever waits hears of the end, and of nothing else."""
    dialling = anyio.Event()

    async def in_vain(*args: Any, **keywords: Any) -> None:
        dialling.set()
        try:
            await anyio.sleep_forever()
        except BaseException:
            raise ConnectionRefusedError from None

    with FakeServer(Peer.handshake) as server, anyio.fail_after(30):
        async with connect(server.url) as nc:
            monkeypatch.setattr(f"jsproto_io.{anyio_backend}.dial", in_vain)
            await dialling.wait()
            async with anyio.create_task_group() as tasks:

                async def flush() -> None:
                    with pytest.raises(ConnectionClosedError):
                        await nc.flush(timeout=30)

                tasks.start_soon(flush)
                await anyio.lowlevel.checkpoint()
                await nc.close()
            assert nc._failure is None
            monkeypatch.undo()


async def test_the_frames_of_a_subscription_arrive_in_order_with_their_sid(connect: Any) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        first, second = peer.expect(Sub), peer.expect(Sub)
        for number in range(10):
            peer.deliver(b"a", b"%d" % number, sid=(first, second)[number % 2].sid)
        peer.serve()

    with FakeServer(script) as server, anyio.fail_after(30):
        async with connect(server.url) as nc:
            one, two = await nc.subscribe("a"), await nc.subscribe("a")
            assert [(await one.next_msg()).data for _ in range(5)] == [b"0", b"2", b"4", b"6", b"8"]
            assert [(await two.next_msg()).data for _ in range(5)] == [b"1", b"3", b"5", b"7", b"9"]
