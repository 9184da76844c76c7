"""The server in memory without sockets: links that end, clients that do not read, TLS, several clients, restarts."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import anyio
import pytest
import trio
import trustme

import jsproto_io.asyncio
import jsproto_io.trio
from jsproto import StreamConfig
from jsproto.errors import ConnectionLostError, Error, NoServersError, TimeoutError
from jsproto.server import Server
from jsproto_io import sync
from jsproto_io.dialer import use_dialer
from jsproto_io.testing import in_process
from jsproto_io.testing.pipes.server import CAPACITY, InProcessServer
from tests.drivers.conftest import limited
from tests.marks import promise

pytestmark = pytest.mark.anyio

PATIENCE = 60.0  # seconds after which a test that hangs is failed
LOOPS = pytest.mark.parametrize("driver", ["asyncio", "trio"])


def idle(server: InProcessServer, **options: Any) -> sync.Connection:
    """A client that reads nothing while nobody waits."""
    return sync.connect(server.url, dialer=server.dialer, reader_thread=False, **options)


# -- what it is --------------------------------------------------------------------------------------------------------


@promise("`connect` of all three drivers takes its `dialer`.")
async def test_a_client_publishes_and_reads_back(driver: str) -> None:
    with in_process() as server:
        async with limited(driver, dialer=server.dialer)(server.url) as nc:
            js = nc.jetstream()
            await js.create_stream("EVENTS", subjects=["events.>"], allow_batched=True, allow_direct=True)
            async with js.fast_publisher() as batch:
                await batch.publish_many([("events.a", b"%d" % number) for number in range(1000)])
                assert (await batch.commit()).seq == 1000
            assert [message.data async for message in js.get_batch("EVENTS", seq=999)] == [b"998", b"999"]
            assert server.role.stream("EVENTS").last_seq == 1000
        assert server.peers == {}


@promise("The block of `use_dialer` captures each `connect()` in it and in its tasks.")
def test_an_application_that_knows_no_dialer_is_reached() -> None:
    def application() -> int:
        with sync.connect("nats://db.example:4222") as nc:
            js = nc.jetstream()
            js.create_stream("S", subjects=["s"])
            return js.publish("s").seq

    with in_process(domain="hub") as server, use_dialer(server.dialer):
        assert application() == 1
        assert server.role.context.domain == "hub"


@promise("The block of `use_dialer` captures each `connect()` in it and in its tasks.")
@LOOPS
def test_tasks_of_an_application_that_knows_no_dialer_are_reached(driver: str) -> None:
    module = {"asyncio": jsproto_io.asyncio, "trio": jsproto_io.trio}[driver]

    async def application() -> int:
        seqs: list[int] = []

        async def task() -> None:
            async with module.connect() as nc:
                seqs.append((await nc.jetstream().publish("s")).seq)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task)
            tasks.start_soon(task)
        return sum(seqs)

    with in_process() as server, use_dialer(server.dialer):
        server.call(lambda role, now: role.add_stream(StreamConfig("S", subjects=("s",)), now))
        assert anyio.run(application, backend=driver) == 3


@promise("`in_process()` needs no socket")
def test_no_socket_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object) -> None:
        raise AssertionError

    monkeypatch.setattr("socket.socket", refused)
    monkeypatch.setattr("socket.socketpair", refused)
    with in_process() as server, sync.connect(server.url, dialer=server.dialer) as nc:
        assert nc.flush() >= 0


@promise("Threads that it starts are not captured, unless it has `threads=True`.")
def test_threads_that_the_block_starts_are_captured_if_they_are_to_be(closed_port: int) -> None:
    url = f"nats://127.0.0.1:{closed_port}"
    with in_process() as server, ThreadPoolExecutor(1) as pool:
        with use_dialer(server.dialer), pytest.raises(NoServersError):
            pool.submit(sync.connect, url).result()
        with use_dialer(server.dialer, threads=True):
            pool.submit(sync.connect, url).result().close()
        with pytest.raises(NoServersError):
            sync.connect(url)


def test_nobody_is_reached_before_the_block_and_after_it() -> None:
    server = in_process()
    for _ in range(2):
        with pytest.raises(NoServersError, match="refused"):
            idle(server)
        with server, idle(server):
            pass


async def test_tls(driver: str, authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("in-process").configure_cert(context)
    with in_process(tls=context) as server:
        assert server.url == "tls://in-process:4222"
        async with limited(driver, dialer=server.dialer)(server.url, tls=trusting) as nc:
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s"], allow_direct=True)
            assert (await js.publish("s", bytes(900_000))).seq == 1
            assert len((await js.get_msg("S", 1)).data) == 900_000


# -- links that end ----------------------------------------------------------------------------------------------------


async def test_clients_that_are_disconnected_come_again(driver: str) -> None:
    with in_process() as server:
        async with limited(driver, dialer=server.dialer)(server.url, reconnect_time_wait=0) as nc:
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


async def test_a_link_ends_from_another_thread_and_without_a_server(driver: str) -> None:
    with in_process() as server:
        async with limited(driver, dialer=server.dialer)(server.url, max_reconnect_attempts=0) as nc:
            sub = await nc.subscribe("a")
            threading.Thread(target=server.close).start()
            with pytest.raises(ConnectionLostError):
                await sub.next_msg()


async def test_a_deadline_of_the_server_comes_though_no_client_does_anything(driver: str) -> None:
    came = threading.Event()
    with in_process(ping_interval=0.2) as server:
        async with limited(driver, dialer=server.dialer)(server.url):
            server.call(lambda role, now: watch(role, came, lambda: True))
            assert await anyio.to_thread.run_sync(came.wait, PATIENCE)


async def test_a_client_that_does_nothing_answers_the_server(driver: str) -> None:
    with in_process() as server:
        async with limited(driver, dialer=server.dialer)(server.url) as nc:
            sub = await nc.subscribe("a")
            for _ in range(3):
                assert server.call(ask_all) == 1
                while server.call(lambda role, now: role.sessions[0].outstanding_pings):
                    with pytest.raises(TimeoutError):
                        await sub.next_msg(timeout=0.01)


def test_a_client_that_answers_no_ping_is_cut_off() -> None:
    with in_process(ping_interval=0.01) as server, idle(server, max_reconnect_attempts=0) as nc:
        until_gone(server)
        with pytest.raises(ConnectionLostError, match="Stale"):
            nc.flush()


def ask_all(role: Server, now: float) -> int:
    """Let the server send a PING to each client. Returns how many are not answered."""
    due = role.deadline()
    assert due is not None
    role.handle_timeout(due)
    return sum(session.outstanding_pings for session in role.sessions)


def until_gone(server: InProcessServer) -> None:
    """Wait until the server has cut off its client."""
    gone = threading.Event()
    server.call(lambda role, now: watch(role, gone, lambda: not role.sessions))
    assert gone.wait(PATIENCE)


def watch(role: Any, seen: threading.Event, condition: Callable[[], bool]) -> None:
    """Set ``seen`` when ``condition`` holds after a deadline of the role."""
    handle_timeout = role.handle_timeout

    def watched(now: float) -> None:
        handle_timeout(now)
        if condition():
            seen.set()

    role.handle_timeout = watched


def test_the_end_of_a_client_that_has_seen_the_end_does_not_wait() -> None:
    with in_process() as server:
        nc = idle(server, max_reconnect_attempts=0, timeout=2 * PATIENCE)
        server.disconnect()
        with pytest.raises(ConnectionLostError):
            nc.flush()
        began = monotonic()
        nc.close()
        assert monotonic() - began < PATIENCE


def test_a_link_that_ends_while_the_server_is_at_work_has_an_end() -> None:
    with in_process() as server:
        end, told = server._connect(), threading.Event()
        end.on_ready = told.set
        while end.take() is not None:
            pass
        with server._lock:  # as its thread or another client does
            end.end()
            assert end.take() is None
        assert told.wait(PATIENCE)
        assert end.take() == b""
        assert server.peers == {}


def test_a_connection_that_is_dropped_frees_its_link() -> None:
    with in_process() as server:
        nc: Any = idle(server)
        nc.flush()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del nc
            gc.collect()
        assert [warning.category for warning in caught] == [ResourceWarning]
        assert server.call(lambda role, now: role.sessions) == []


# -- clients that do not read ------------------------------------------------------------------------------------------


@promise("The rest counts for `max_pending`.")
def test_a_client_that_does_not_read_is_cut_off_and_memory_is_bounded() -> None:
    limit, size, count = 2_000_000, 50_000, 1_000  # 50 MB are sent to who does not read
    with in_process(max_pending=limit) as server, idle(server) as publisher:
        lazy = idle(server, max_reconnect_attempts=0)
        subs = [lazy.subscribe("flood") for _ in range(2)]
        lazy.flush()
        tracemalloc.start()
        payload = bytes(size)
        for _ in range(count):
            publisher.publish("flood", payload)
        publisher.flush()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(server.role.sessions) == 1
        assert peak < 5 * (limit + CAPACITY)
        with pytest.raises(ConnectionLostError):
            sum(1 for _ in subs[1])
        lazy.close()


@promise("The rest counts for `max_pending`.")
async def test_a_client_that_reads_late_gets_all(driver: str) -> None:
    size, count = 50_000, 200  # 10 MB are more than a link holds
    with in_process() as server, idle(server) as publisher:
        async with limited(driver, dialer=server.dialer)(server.url) as nc:
            sub = await nc.subscribe("flood")
            await nc.flush()
            for number in range(count):
                publisher.publish("flood", b"%d " % number + bytes(size))
            publisher.flush()
            assert all([(await sub.next_msg(timeout=PATIENCE)).data.startswith(b"%d " % n) for n in range(count)])


# -- several clients, and the whole server -----------------------------------------------------------------------------


def test_threads_asyncio_and_trio_share_one_server() -> None:
    each = 300

    def blocking(number: int) -> None:
        with sync.connect(server.url, dialer=server.dialer) as nc:
            js = nc.jetstream()
            for _ in range(each):
                js.publish(f"s.{number}")

    async def awaited(module: Any) -> None:
        async with module.connect(server.url, dialer=server.dialer) as nc:
            js = nc.jetstream()
            for _ in range(each):
                await js.publish("s.loop")

    with in_process() as server, ThreadPoolExecutor(5) as pool:
        server.call(lambda role, now: role.add_stream(StreamConfig("S", subjects=("s.>",)), now))
        done = [pool.submit(blocking, number) for number in range(3)]
        done.append(pool.submit(lambda: asyncio.run(awaited(jsproto_io.asyncio))))
        done.append(pool.submit(trio.run, awaited, jsproto_io.trio))
        for each_done in done:
            each_done.result(PATIENCE)
        assert server.role.stream("S").last_seq == 5 * each


def test_a_call_changes_what_the_server_does() -> None:
    with in_process() as server, idle(server) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s"])
        server.call(lambda role, now: role.lose_leader("S"))
        with pytest.raises(Error, match="no|nobody"):
            js.publish("s", b"1", timeout=0.2)
        server.call(lambda role, now: role.elect_leader("S", now))
        assert js.publish("s", b"2").stream == "S"


def test_streams_outlive_a_block() -> None:
    server = in_process()
    server.start()
    server.start()  # no effect
    server.call(lambda role, now: role.add_stream(StreamConfig("S"), now))
    server.close()
    server.close()  # no effect
    with server, idle(server) as nc:
        assert nc.jetstream().stream_info("S").config.name == "S"


def test_the_end_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with in_process() as server, sync.connect(server.url, dialer=server.dialer) as nc:
        nc.flush()
        assert len(set(threading.enumerate()) - before) == 2
    assert set(threading.enumerate()) <= before


def test_a_defect_ends_the_server_and_the_block_raises_it(caplog: pytest.LogCaptureFixture) -> None:
    def run() -> None:
        with in_process() as server, idle(server, max_reconnect_attempts=0) as nc:
            server.call(lambda role, now: setattr(role, "publish_from", lambda *args: 1 / 0))
            nc.publish("a")
            with pytest.raises(ConnectionLostError):
                nc.flush()
            with pytest.raises(NoServersError):
                idle(server)

    with pytest.raises(ZeroDivisionError):
        run()
    assert "the server in memory failed: ZeroDivisionError" in caplog.text


@promise("That ends the server.")
def test_ctrl_c_within_the_server_reaches_the_caller_and_ends_it() -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    server = in_process()
    server.start()
    nc = idle(server, max_reconnect_attempts=0)
    server.call(lambda role, now: setattr(role, "publish_from", interrupted))
    with pytest.raises(KeyboardInterrupt):
        nc.publish("a")
    nc.close()
    with pytest.raises(KeyboardInterrupt):
        server.close()
