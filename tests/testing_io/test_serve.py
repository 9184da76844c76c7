"""The server in memory on sockets, for its three drivers: links that end, clients that do not read, TLS, restarts."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import struct
import threading
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import trustme

import jsproto_io.asyncio
import jsproto_io.testing.asyncio
import jsproto_io.testing.trio
import jsproto_io.trio
from jsproto import StreamConfig
from jsproto.api_errors import StreamInvalidConfigError
from jsproto.errors import AuthorizationError, ConnectionLostError, LocalProtocolError, TimeoutError
from jsproto.server import Access, BatchLimits, Permissions, User
from jsproto_io.nats_server import NatsServer
from jsproto_io.testing import serve
from tests.drivers.threaded import connect as connect_with_threads
from tests.marks import promise
from tests.testing_io.conftest import Serving

pytestmark = pytest.mark.anyio

SEED = "SUAGCIDLMV4SA5DIMF2CA2LTEBVW433XNYQHI3ZAMV3GK4TZEBXW4ZJZ4U"  # of a key that everybody knows
NKEY = "UCHALUQYLJGPDZGU3F44YWQLTJ7XNALLG3N3DF4EDAOCBHB3NN4FSW3M"
PATIENCE = 60.0  # seconds after which a test that hangs is failed
HELLO = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n'


@pytest.fixture
def connect(host: str) -> Any:
    """A client's driver that runs beside the server's."""
    return {
        "threads": connect_with_threads,
        "asyncio": jsproto_io.asyncio.connect,
        "trio": jsproto_io.trio.connect,
    }[host]


class Raw:
    """A client that writes what a test says."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self.socket: socket.socket = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        self.unread = b""
        self.info: dict[str, Any] = {}

    async def read_until(self, words: bytes) -> bytes:
        """All up to these words, which come sooner or later."""
        while words not in self.unread:
            self.unread += await self.stream.receive()
        read, _, self.unread = self.unread.partition(words)
        return read + words

    async def read_all(self) -> bytes:
        """All that comes before the link ends."""
        try:
            while True:
                self.unread += await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return self.unread


@asynccontextmanager
async def raw(server: Any) -> AsyncIterator[Raw]:
    """A link whose handshake is done. ``info`` has the fields of INFO."""
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp(server.host, server.port) as stream:
            client = Raw(stream)
            await client.read_until(b"INFO ")
            await stream.send(HELLO)
            client.info = json.loads((await client.read_until(b"\r\n")).strip())
            await client.read_until(b"PONG\r\n")
            yield client


def descriptors() -> int:
    """How many files and sockets this process has open."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


# -- what it is --------------------------------------------------------------------------------------------------------


async def test_a_client_publishes_and_reads_back(serving: Serving, connect: Any) -> None:
    async with serving() as server, connect(server.url) as nc:
        js = nc.jetstream()
        await js.create_stream("EVENTS", subjects=["events.>"], allow_batched=True, allow_direct=True)
        async with js.fast_publisher() as batch:
            await batch.publish_many([("events.a", b"%d" % number) for number in range(1000)])
            assert (await batch.commit()).seq == 1000
        assert [message.data async for message in js.get_batch("EVENTS", seq=999)] == [b"998", b"999"]
        assert server.role.stream("EVENTS").last_seq == 1000


async def test_its_options_reach_the_role(serving: Serving) -> None:
    limits = BatchLimits(idle=1.5)
    options: dict[str, Any] = {"domain": "hub", "release": (2, 12, 8), "max_payload": 1000, "limits": limits}
    async with serving(ack_version=2, dialect="draft", **options) as server, raw(server) as client:
        assert (client.info["domain"], client.info["version"], client.info["max_payload"]) == ("hub", "2.12.8", 1000)
        context = server.role.context
        assert (context.ack_version, context.dialect, context.limits.idle) == (2, "draft", 1.5)
        await client.stream.send(b"PUB a 1001\r\n")
        assert b"-ERR 'Maximum Payload Violation'" in await client.read_all()


def test_the_drivers_have_the_same_names() -> None:
    modules = (jsproto_io.testing.threads, jsproto_io.testing.asyncio, jsproto_io.testing.trio)
    assert len({str(signature(module.serve)) for module in modules}) == 1
    threads, *loops = [{name for name in dir(module.MemoryServer) if name[0] != "_"} for module in modules]
    assert loops == [{"call", "disconnect", "url"}] * 2
    assert threads == loops[0] | {"close", "start", "wait"}


# -- links that end ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_many_connections(serving: Serving) -> None:
    async with serving() as server:
        clients = []
        async with anyio.create_task_group() as tasks:
            done = anyio.Event()

            async def stay(number: int) -> None:
                async with raw(server) as client:
                    await client.stream.send(b"SUB all 1\r\nPING\r\n")
                    await client.read_until(b"PONG\r\n")
                    clients.append(client)
                    if len(clients) == 200:
                        await client.stream.send(b"PUB all 2\r\nhi\r\n")
                    await client.read_until(b"MSG all 1 2\r\nhi\r\n")
                    if number == 0:
                        done.set()
                    await done.wait()

            for number in range(200):
                tasks.start_soon(stay, number)


async def test_links_that_break_in_the_middle_of_a_message(serving: Serving) -> None:
    async with serving() as server, raw(server) as witness:
        for piece in (b"PUB", b"PUB a 10\r\nhalf", b"SUB > 1\r\nPUB a 0\r\n\r\n"):
            async with raw(server) as client:
                await client.stream.send(piece)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        while len(server.peers) > 1:  # each turn is an answer of the server
            await witness.stream.send(b"PING\r\n")
            await witness.read_until(b"PONG\r\n")
        assert len(server.role.sessions) == 1


async def test_a_breach_of_the_protocol_ends_the_link_with_its_reason(serving: Serving) -> None:
    async with serving() as server, raw(server) as client:
        await client.stream.send(b"NONSENSE\r\n")
        assert await client.read_all() == b"-ERR 'Unknown Protocol Operation'\r\n"


async def test_a_client_that_answers_no_ping_is_cut_off(serving: Serving) -> None:
    async with serving(ping_interval=0.2) as server, raw(server) as client:
        assert (await client.read_all()).endswith(b"PING\r\n-ERR 'Stale Connection'\r\n")


@promise("A client that leaves more than `max_pending` bytes unread is cut off without a word")
@pytest.mark.slow
async def test_a_client_that_does_not_read_is_cut_off_and_memory_is_bounded(serving: Serving) -> None:
    limit, size, count = 2_000_000, 50_000, 1_000  # 50 MB are sent to who does not read
    async with serving(max_pending=limit) as server, raw(server) as publisher, raw(server) as lazy:
        await lazy.stream.send(b"SUB flood 1\r\nPING\r\n")
        await lazy.read_until(b"PONG\r\n")
        tracemalloc.start()
        message = b"PUB flood %d\r\n%b\r\n" % (size, bytes(size))
        for _ in range(count):
            await publisher.stream.send(message)
        await publisher.stream.send(b"PING\r\n")
        await publisher.read_until(b"PONG\r\n")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(server.role.sessions) == 1
        assert peak < 10 * limit
        assert b"-ERR" not in await lazy.read_all()  # as nats-server, it says nothing to who does not read


@pytest.mark.server
async def test_a_real_server_says_nothing_either_to_a_client_that_does_not_read(anyio_backend: str) -> None:
    with NatsServer(config="max_pending: 2000000") as server:
        place = SimpleNamespace(host="127.0.0.1", port=server.port)
        async with raw(place) as publisher, raw(place) as lazy:
            await lazy.stream.send(b"SUB flood 1\r\nPING\r\n")
            await lazy.read_until(b"PONG\r\n")
            for _ in range(1_000):
                await publisher.stream.send(b"PUB flood 50000\r\n%b\r\n" % bytes(50_000))
            await publisher.stream.send(b"PING\r\n")
            await publisher.read_until(b"PONG\r\n")
            assert b"-ERR" not in await lazy.read_all()


async def test_a_client_that_reads_late_gets_all(serving: Serving) -> None:
    size, count = 50_000, 400  # 20 MB are more than sockets buffer
    async with serving() as server, raw(server) as publisher, raw(server) as late:
        await late.stream.send(b"SUB flood 1\r\nPING\r\n")
        await late.read_until(b"PONG\r\n")
        message = b"PUB flood %d\r\n%b\r\n" % (size, bytes(size))
        await publisher.stream.send(message * count + b"PUB flood 3\r\nend\r\nPING\r\n")
        await publisher.read_until(b"PONG\r\n")
        received = 0
        tail = b""
        while not tail.endswith(b"end\r\n"):
            piece = await late.stream.receive()
            received += len(piece)
            tail = (tail + piece)[-5:]
        assert received == count * len(b"MSG flood 1 50000\r\n" + bytes(size) + b"\r\n") + len(
            "MSG flood 1 3\r\nend\r\n"
        )


@promise("`server.disconnect()` cuts the links of all clients.")
async def test_clients_that_are_disconnected_come_again(serving: Serving, connect: Any) -> None:
    async with serving() as server, connect(server.url, reconnect_time_wait=0) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"])
        server.disconnect()
        with anyio.fail_after(PATIENCE):
            while True:
                try:
                    assert (await js.publish("s", b"after")).seq >= 1
                    break
                except (ConnectionLostError, TimeoutError):  # it was under way when the link broke
                    continue


@promise("calls `verb(role, now)` between two inputs")
async def test_a_call_changes_what_the_server_does(serving: Serving, connect: Any) -> None:
    async with serving() as server, connect(server.url) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"])
        server.call(lambda role, now: role.lose_leader("S"))
        with pytest.raises(Exception, match="no|nobody"):
            await js.publish("s", b"1", timeout=0.2)
        server.call(lambda role, now: role.elect_leader("S", now))
        assert (await js.publish("s", b"2")).stream == "S"


# -- the whole server --------------------------------------------------------------------------------------------------


async def test_a_port_is_free_again_at_once(serving: Serving) -> None:
    async with serving() as server, raw(server):
        port = server.port
        with pytest.raises(OSError, match="in use"):
            async with serving(port=port):
                pass
    for _ in range(3):
        async with serving(port=port) as server, raw(server):
            assert server.port == port
            assert server.url == f"nats://127.0.0.1:{port}"


@promise("A second `with server:` listens on the same port, and they are there again.")
async def test_streams_outlive_a_block(serving: Serving, host: str) -> None:
    if host == "threads":
        server: Any = serve()
        server.start()
        server.start()  # no effect
        port = server.port
        server.call(lambda role, now: role.add_stream(StreamConfig("S"), now))
        server.close()
        server.close()  # no effect
        with server:
            assert (server.port, server.role.stream("S").config.name) == (port, "S")
        return
    server = serving()
    async with server:
        port = server.port
        server.call(lambda role, now: role.add_stream(StreamConfig("S"), now))
    async with server, raw(server):
        assert (server.port, server.role.stream("S").config.name) == (port, "S")


@promise("Links, tasks and the thread end with the block.")
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open sockets cannot be counted here")
async def test_the_end_leaves_no_thread_no_socket_and_no_task(serving: Serving, host: str) -> None:
    async def run() -> None:
        async with serving() as server, raw(server) as client, raw(server) as other:
            await client.stream.send(b"SUB a 1\r\nPING\r\n")
            await client.read_until(b"PONG\r\n")
            await other.stream.send(b"PUB a 1\r\nx\r\n")
            await client.read_until(b"MSG a 1 1\r\nx\r\n")

    await run()
    threads, files = threading.active_count(), descriptors()
    tasks = len(asyncio.all_tasks()) if host != "trio" else 0
    await run()
    assert descriptors() == files
    assert threading.active_count() <= threads  # one of a test before may have ended meanwhile
    assert host == "trio" or len(asyncio.all_tasks()) == tasks


@promise("Links, tasks and the thread end with the block.")
async def test_the_end_does_not_wait_for_a_client_that_does_not_read(serving: Serving) -> None:
    async with serving() as server, raw(server) as lazy, raw(server) as publisher:
        await lazy.stream.send(b"SUB flood 1\r\nPING\r\n")
        await lazy.read_until(b"PONG\r\n")
        await publisher.stream.send(b"PUB flood 500000\r\n%b\r\n" % bytes(500_000) * 40 + b"PING\r\n")
        await publisher.read_until(b"PONG\r\n")
        stays = lazy.socket.dup()
    stays.close()
    assert server.peers == {}


async def test_an_exception_of_the_block_leaves_it_as_it_is(serving: Serving) -> None:
    with pytest.raises(ZeroDivisionError):
        async with serving() as server, raw(server):
            raise ZeroDivisionError
    assert server.peers == {}


@promise("A defect of the server is logged, and the block raises it at its end.")
async def test_a_defect_ends_the_server_and_the_block_raises_it(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with serving() as server, raw(server) as client:
            server.role.publish_from = lambda *args: 1 / 0
            await client.stream.send(b"PUB a 0\r\n\r\n")
            assert await client.read_all() == b""

    with pytest.raises(ZeroDivisionError):
        await run()
    assert "the server in memory failed: ZeroDivisionError" in caplog.text


@promise("accept a configuration that asks for what is not done")
@pytest.mark.parametrize("lenient", [False, True])
async def test_what_is_not_done_is_refused_or_not(serving: Serving, connect: Any, lenient: bool) -> None:
    own = {"name": "A", "external": {"api": "$JS.API"}}
    async with serving(lenient=lenient) as server, connect(server.url) as nc:
        refused = nullcontext() if lenient else pytest.raises(StreamInvalidConfigError, match="lenient=True")
        with refused:
            await nc.jetstream().create_stream("B", sources=[own])


@promise("What their permissions do not allow is refused with the words of nats-server")
async def test_users_have_permissions(serving: Serving, connect: Any) -> None:
    """By a password or by an nkey. What is not allowed ends neither the link nor what else it does."""
    shop = User("shop", "secret", permissions=Permissions(publish=["orders.>"]))
    async with serving(access=Access([shop, User(nkey=NKEY)])) as server:
        with pytest.raises(AuthorizationError):
            async with connect(server.url, user="shop", password="guess"):
                pass
        with pytest.raises(AuthorizationError):
            async with connect(server.url, nkey=NKEY, signature_cb=lambda nonce: b"AAAA"):
                pass
        async with connect(server.url, nkeys_seed_str=SEED) as admin:
            got = await admin.subscribe(">")
            await admin.flush()
            async with connect(server.url, user="shop", password="secret") as nc:
                await nc.publish("secret", b"x")
                await nc.publish("orders.a", b"x")
                await nc.flush()
            assert (await got.next_msg(timeout=PATIENCE)).subject == "orders.a"


async def test_tls(serving: Serving, connect: Any, authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving(tls=context) as server:
        assert server.url.startswith("tls://")
        async with connect(server.url, tls=trusting) as nc:
            assert nc.server_info.tls_required
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s"], allow_direct=True)
            assert (await js.publish("s", bytes(900_000))).seq == 1
            assert len((await js.get_msg("S", 1)).data) == 900_000
        with pytest.raises(Exception, match="certificate"):
            async with connect(server.url, tls=ssl.create_default_context()):
                pass
        async with connect(server.url, tls=trusting) as nc:
            assert nc.is_connected


def test_a_stopped_thread_is_waited_for() -> None:
    server = serve()
    server.wait()  # no effect: it does not run
    with server:
        closer = threading.Thread(target=server.close)
        closer.start()
        server.wait()
        closer.join()
    assert server.peers == {}


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_there_is_not(port: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"port is a number of 0 to 65535, not {port}"), serve(port=port):
        pass
