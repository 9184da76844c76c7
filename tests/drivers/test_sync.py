"""The driver on threads: many threads on one client, no thread at all, Ctrl-C, close from anywhere, its own defects."""

from __future__ import annotations

import builtins
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest

from jsproto.errors import BatchMessageError, ConnectionClosedError, ConnectionLostError, Error, TimeoutError
from jsproto.events import Connected, Event, ServerInfoChanged
from jsproto.rules.fast_batch import FastPhase
from jsproto.wire.encoder import PONG
from jsproto.wire.frames import Ping, Pub, Sub
from jsproto_io._threads import leadership
from jsproto_io._threads.sockets import TcpSocket
from jsproto_io.sync import Connection, FastPublisher, connect
from tests.drivers import threaded
from tests.drivers.fake import FakeServer, Peer, ack
from tests.marks import known_fault, promise

# Python swallows a signal that strikes in the callback of a weak reference, say of a thread that has ended.
SWALLOWED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
MODES = pytest.mark.parametrize("reader_thread", [True, False], ids=["reader", "no-reader"])


def unique() -> str:
    return f"t{uuid4().hex[:12]}"


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread to get somewhere that no event tells of."""
    tick = threading.Event()
    for _ in range(10_000):
        if condition():
            return
        tick.wait(0.001)
    raise AssertionError("it never came about")


def waiting(nc: Connection, threads: list[threading.Thread]) -> bool:
    """Whether all of ``threads`` do, one of them perhaps as the leader."""
    return {thread.ident for thread in threads} <= {nc._leadership.leader, *nc._leadership.parked}


def serve(peer: Peer) -> None:
    peer.handshake()
    peer.serve()


# -- many threads ------------------------------------------------------------------------------------------------------


@promise("A connection, and everything made from it, may be used by many threads at once")
@known_fault("threads and event loops get in each other's way")
@MODES
def test_threads_share_a_connection(server: Any, reader_thread: bool) -> None:
    with connect(server.url, reader_thread=reader_thread) as nc, connect(server.url) as answerer:
        subject = unique()
        questions = answerer.subscribe(subject)
        answerer.flush()

        def answer() -> None:
            for message in questions:
                message.respond(message.data * 2)

        thread = threading.Thread(target=answer)
        thread.start()

        def ask(number: int) -> list[bytes]:
            return [nc.request(subject, b"%d." % number, timeout=10).data for _ in range(25)]

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(8))) == [[b"%d.%d." % (number, number)] * 25 for number in range(8)]
        questions.unsubscribe()
        thread.join(10)
        assert not thread.is_alive()


@promise("A connection, and everything made from it, may be used by many threads at once")
@known_fault("threads and event loops get in each other's way")
@MODES
def test_threads_share_a_batch(server: Any, reader_thread: bool) -> None:
    with connect(server.url, reader_thread=reader_thread) as nc:
        js, name = nc.jetstream(), unique()
        js.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_batched=True, allow_direct=True)
        with js.fast_publisher(flow=100) as batch:

            def many(start: int) -> int:
                return batch.publish_many((f"{name}.a", b"%d" % number) for number in range(start, start + 1000))

            def single(start: int) -> list[int]:
                return [batch.publish(f"{name}.b", b"%d" % number) for number in range(start, start + 200)]

            with ThreadPoolExecutor(4) as pool:
                lots = [pool.submit(many, start) for start in (0, 1000)]
                singles = [pool.submit(single, start) for start in (2000, 2200)]
                sequences = [sequence for future in singles for sequence in future.result()]
            assert max(future.result() for future in lots) <= 2400
            assert len(set(sequences)) == 400
            assert batch.commit().count == 2400
        assert sorted(int(message.data) for message in js.get_batch(name)) == list(range(2400))


def test_without_a_reader_whoever_waits_longer_takes_over() -> None:
    """Two threads wait, and one of them leads. When it has its answer the other must go on by itself."""
    parked = threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        first = peer.expect(Pub)
        second = peer.expect(Pub)
        assert parked.wait(10)
        for request in (first, second):
            assert request.reply is not None
            peer.deliver(request.reply, request.subject, sid=next(iter(peer.subs.values())))
            peer.expect(Ping)
            peer.send(PONG)
        peer.serve()

    with FakeServer(script) as server, connect(server.url, reader_thread=False) as nc, ThreadPoolExecutor(2) as pool:

        def ask(subject: str) -> bytes:
            data = nc.request(subject, timeout=10).data
            nc.publish("done")
            nc.flush(timeout=10)
            return data

        first = pool.submit(ask, "first")
        until(lambda: nc._leadership.leader is not None and nc._poller.asleep_until > 0)
        second = pool.submit(ask, "second")
        until(lambda: len(nc._leadership.parked) == 1)
        parked.set()
        assert first.result(10) == b"first"
        assert second.result(10) == b"second"


@MODES
def test_what_another_thread_ends_is_heard_of_at_once(server: Any, reader_thread: bool) -> None:
    with connect(server.url, reader_thread=reader_thread) as nc, ThreadPoolExecutor(1) as pool:
        subscription = nc.subscribe(unique())
        nc.flush()
        waiting = pool.submit(list, subscription)
        until(lambda: nc._leadership.leader is not None and nc._poller.asleep_until > monotonic() + 5)
        subscription.unsubscribe()
        assert waiting.result(2) == []


def test_the_reader_is_roused_once_for_a_linger(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(server.url, linger=30) as nc:
        woken: list[bool] = []
        wakeup = nc._poller.wakeup

        def counted() -> None:
            woken.append(True)
            wakeup()

        monkeypatch.setattr(nc._poller, "wakeup", counted)
        until(lambda: nc._poller.asleep_until > 0)
        for _ in range(100):
            nc.publish("a", b"x")
        assert len(woken) <= 1
        assert nc.flush() > 0


# -- close -------------------------------------------------------------------------------------------------------------


@MODES
def test_close_ends_the_waits_of_other_threads(reader_thread: bool) -> None:
    with FakeServer(serve) as server, connect(server.url, reader_thread=reader_thread) as nc:
        sub = nc.subscribe("a")
        errors: list[Error] = []

        def wait() -> None:
            with pytest.raises(Error) as caught:
                sub.next_msg()
            errors.append(caught.value)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: waiting(nc, threads))
        nc.close()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert [type(error) for error in errors] == [ConnectionClosedError] * 3
        assert nc._thread is None or not nc._thread.is_alive()


@promise("A connection, and everything made from it, may be used by many threads at once")
@MODES
def test_threads_may_close_at_once(reader_thread: bool) -> None:
    with FakeServer(serve) as server:
        nc = connect(server.url, reader_thread=reader_thread)
        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(nc.close) for _ in range(4)]:
                future.result(10)
        assert nc.is_closed


def test_the_event_callback_may_use_and_close_the_connection() -> None:
    """It runs in the reader thread here, which then has to move the bytes itself."""
    box: list[Connection] = []
    seen: list[str] = []
    closed = threading.Event()

    def on_event(event: Event) -> None:
        seen.append(type(event).__name__)
        if box and seen[-1] == "ServerInfoChanged":
            seen.append(f"flushed {box[0].flush(timeout=5) >= 0} in {threading.current_thread().name}")
            box[0].close()
            closed.set()

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Pub)
        peer.info(max_payload=1000)
        peer.serve()

    with FakeServer(script) as server:
        nc = connect(server.url, event_cb=on_event)
        box.append(nc)
        nc.publish("go")
        assert closed.wait(10)
        nc.close()
        assert nc._thread is not None
        assert not nc._thread.is_alive()
    assert seen == ["Connected", "ServerInfoChanged", "flushed True in jsproto-reader", "Disconnected"]


def test_an_event_callback_that_exits_its_thread_hangs_nobody() -> None:
    """SystemExit in the reader thread ends that thread, and so the connection."""

    def leave(event: Event) -> None:
        if isinstance(event, ServerInfoChanged):
            raise SystemExit

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Pub)
        peer.info(ldm=True)
        peer.serve(answer_pings=False)

    with FakeServer(script) as server, connect(server.url, event_cb=leave) as nc:
        nc.publish("go")
        until(lambda: nc._ended.done)
        with pytest.raises(ConnectionLostError):
            nc.flush(timeout=10)


def test_a_batch_that_breaks_before_its_commit_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was room when ``commit()`` looked, and a refusal came after that."""
    looked, told = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        start = peer.expect(Pub)
        assert start.reply is not None
        inbox = next(iter(peer.subs.values()))
        peer.deliver(start.reply, ack(start, 0, 10), sid=inbox)
        second = peer.expect(Pub)
        assert second.reply is not None
        assert looked.wait(10)
        refusal = b'{"type":"err","seq":2,"error":{"code":503,"err_code":10077,"description":"full"}}'
        peer.deliver(second.reply, refusal, sid=inbox)
        assert told.wait(10)
        peer.deliver(second.reply, b'{"stream":"S","seq":1,"batch":"b","count":1}', sid=inbox)
        peer.serve()

    make_room = FastPublisher._make_room

    def late(batch: FastPublisher) -> None:
        if looked.is_set():
            told.set()
            make_room(batch)
        else:
            make_room(batch)
            looked.set()
            until(lambda: batch._core.phase is FastPhase.BROKEN)

    with FakeServer(script) as server, connect(server.url, reader_thread=True) as nc:
        batch = nc.jetstream().fast_publisher(batch_id="b")
        batch.publish_many([("s.a", b"1"), ("s.a", b"2")])
        monkeypatch.setattr(FastPublisher, "_make_room", late)
        with pytest.raises(BatchMessageError, match="message 2 of the batch"):
            batch.commit()


@known_fault("no client for threads")
def test_a_connection_works_without_with(server: Any) -> None:
    nc = connect(server.url)
    assert nc.flush() >= 0
    nc.close()
    assert nc.is_closed


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Python's own handler, also where the tests run in the background, which is not to hear of Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@promise("Ctrl-C during a wait leaves the connection usable.")
@MODES
@SWALLOWED
@pytest.mark.parametrize("parked", [False, True], ids=["leader", "parked"])
def test_ctrl_c_during_a_wait_changes_nothing(
    reader_thread: bool, parked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "GRACE", 30.0)  # so who waits first is the leader
    with FakeServer(serve) as server, connect(server.url, reader_thread=reader_thread) as nc:
        sub, other = nc.subscribe("a"), nc.subscribe("b")

        def strike() -> None:
            until(lambda: len(nc._leadership.parked) == parked and nc._poller.asleep_until > 0)
            strike_sleeping(threading.main_thread().ident or 0, noticed)

        noticed = threading.Event()
        with ThreadPoolExecutor(2) as pool:
            if parked:
                pool.submit(list, other)
                until(lambda: nc._leadership.leader is not None and nc._poller.asleep_until > 0)
            struck = pool.submit(strike)
            with pytest.raises(KeyboardInterrupt):
                sub.next_msg()
            noticed.set()
            struck.result()
            assert not nc._leadership.parked
            assert nc.flush() >= 0
            nc.close()


@promise("Ctrl-C during a wait leaves the connection usable.")
@MODES
def test_ctrl_c_strikes_when_the_state_is_whole(
    server: Any, reader_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while the thread that waits takes in what was received: nothing of that is lost, and all goes on."""
    with connect(server.url, reader_thread=reader_thread) as nc:
        subject = unique()
        sub = nc.subscribe(subject)
        receive_data = nc._session.receive_data

        def interrupted(data: bytes, now: float) -> None:
            if b"MSG" in data and threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGINT)
            receive_data(data, now)

        monkeypatch.setattr(nc._session, "receive_data", interrupted)
        nc.publish(subject, b"x")

        def round_and_round() -> None:
            while True:  # until it is not the reader thread that takes it in
                nc.publish(subject, sub.next_msg().data)

        with pytest.raises(KeyboardInterrupt):
            round_and_round()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert sub.next_msg(timeout=5).data == b"x"
        assert nc.flush() >= 0


def strike_sleeping(thread: int, noticed: threading.Event) -> None:
    """Ctrl-C for a thread that sleeps, or is about to: of one that came just before, Python learns by the next one."""
    signal.pthread_kill(thread, signal.SIGINT)
    while not noticed.wait(5):
        signal.pthread_kill(thread, signal.SIGINT)


@promise("Ctrl-C during a wait leaves the connection usable.")
@SWALLOWED
def test_ctrl_c_ends_a_wait_that_was_the_leader_until_the_link_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "GRACE", 30.0)  # it is the reader's turn only when it is called
    main = threading.get_ident()

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Sub)
        until(lambda: nc._leadership.leader == main and nc._poller.asleep_until > 0)

    def strike() -> None:
        until(lambda: main in nc._leadership.parked and nc._leadership.leader == nc._leadership.reader)
        strike_sleeping(main, noticed)

    noticed = threading.Event()
    with FakeServer(script) as server, connect(server.url) as nc, ThreadPoolExecutor(1) as pool:
        sub = nc.subscribe("a")
        struck = pool.submit(strike)
        began = monotonic()
        with pytest.raises(KeyboardInterrupt):
            sub.next_msg(timeout=60)
        assert monotonic() < began + 55  # it was not the end of the wait that raised it
        noticed.set()
        struck.result()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_the_wait_of_a_callback_in_a_wait() -> None:
    main = threading.get_ident()
    nested = threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, ServerInfoChanged):
            nested.set()
            sub.next_msg(timeout=60)

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        peer.info(ldm=True)
        peer.expect(Ping)
        peer.send(PONG + PONG)
        peer.serve()

    def strike() -> None:
        until(lambda: nested.is_set() and nc._poller.asleep_until > 0)
        strike_sleeping(main, noticed)

    noticed = threading.Event()
    with (
        FakeServer(script) as server,
        connect(server.url, event_cb=on_event, reader_thread=False) as nc,
        ThreadPoolExecutor(1) as pool,
    ):
        sub = nc.subscribe("a")
        struck = pool.submit(strike)
        with pytest.raises(KeyboardInterrupt):
            nc.flush(timeout=60)
        noticed.set()
        struck.result()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert nc.flush() >= 0


class OfAHandler(Exception):
    """What an application's own handler of a signal raises."""


@promise("Ctrl-C during a wait leaves the connection usable.")
@MODES
@pytest.mark.parametrize("raised", [KeyboardInterrupt, OfAHandler, builtins.TimeoutError, SystemExit])
def test_what_a_signal_s_handler_raises_while_bytes_leave_loses_none(
    server: Any, reader_thread: bool, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(number: int, frame: object) -> None:
        raise raised

    class Struck(list[int]):
        def extend(self, counts: Iterable[int]) -> None:
            super().extend(counts)
            if threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGINT)

    with connect(server.url, reader_thread=reader_thread) as nc:
        subject = unique()
        sub = nc.subscribe(subject)
        nc.flush()
        link = nc._poller.link
        assert link is not None

        def publish_on() -> None:
            while True:  # until it is not the reader thread that sends it
                nc.publish(subject, b"x")
                nc.flush()

        with monkeypatch.context() as patched:
            patched.setattr(link, "_sent", Struck())
            signal.signal(signal.SIGINT, handler)
            with pytest.raises(raised):
                publish_on()
            signal.signal(signal.SIGINT, signal.default_int_handler)
        assert sub.next_msg(timeout=5).data == b"x"
        assert nc.flush() >= 0


def test_a_handler_s_timeout_before_bytes_leave_is_none_of_the_socket_s(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(number: int, frame: object) -> None:
        raise builtins.TimeoutError

    def struck(*arguments: Any) -> Any:  # as if the signal came as soon as this has returned
        patched.undo()
        signal.raise_signal(signal.SIGINT)

    with connect(server.url, reader_thread=False) as nc:
        sub = nc.subscribe(subject := unique())
        nc.flush()
        with monkeypatch.context() as patched:
            patched.setattr("jsproto_io._threads.sockets.map", struck, raising=False)
            signal.signal(signal.SIGINT, handler)
            try:
                with pytest.raises(builtins.TimeoutError):
                    nc.publish(subject, b"x")
            finally:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        assert sub.next_msg(timeout=5).data == b"x"


@promise("Ctrl-C during a wait leaves the connection usable.")
@MODES
@pytest.mark.parametrize("raised", [KeyboardInterrupt, OfAHandler, builtins.TimeoutError])
def test_what_a_signal_s_handler_raises_while_bytes_come_loses_none(
    server: Any, reader_thread: bool, raised: type[BaseException]
) -> None:
    class Struck(list[bytes]):
        def extend(self, pieces: Iterable[bytes]) -> None:
            super().extend(pieces)
            if self and threading.current_thread() is threading.main_thread():
                link.received = [*self]
                raise raised

    count = 0
    with connect(server.url, reader_thread=reader_thread) as nc:
        sub = nc.subscribe(subject := unique())
        nc.flush()
        link: Any = nc._poller.link
        link.received = Struck()

        def publish_on() -> None:
            nonlocal count
            while True:  # until it is not the reader thread that receives it
                count += 1
                nc.publish(subject, b"x")
                nc.flush()

        with pytest.raises(raised):
            publish_on()
        assert [sub.next_msg().data for _ in range(count)] == [b"x"] * count


@promise("In other verbs Ctrl-C may interrupt a change of state.")
def test_a_handler_that_raises_while_a_sleep_is_prepared_ends_the_connection(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(link: TcpSocket) -> None:
        link._selector.unregister(link._socket)  # as modify() does then
        raise OfAHandler

    with connect(server.url, reader_thread=False) as nc:
        monkeypatch.setattr(TcpSocket, "watch", struck)
        with pytest.raises(OfAHandler):
            nc.flush()
        with pytest.raises(ConnectionLostError):
            nc.flush()


@promise("In other verbs Ctrl-C may interrupt a change of state.")
def test_a_handler_that_raises_again_and_again_ends_the_connection(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(link: TcpSocket) -> None:
        raise OfAHandler

    with connect(server.url, reader_thread=False) as nc:
        monkeypatch.setattr(TcpSocket, "send", struck)
        with pytest.raises(OfAHandler):
            nc.flush()
        with pytest.raises(ConnectionLostError):
            nc.flush()


@pytest.fixture
def handlers(server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Connection, set[object]]]:
    """A connection, and the handlers of Ctrl-C that are seen while it waits."""
    with connect(server.url, reader_thread=False) as nc:
        seen: set[object] = set()
        leader = nc._lead

        def watched(until: float) -> None:
            seen.add(signal.getsignal(signal.SIGINT))
            leader(until)

        monkeypatch.setattr(nc, "_lead", watched)
        yield nc, seen


def test_an_application_s_handler_of_ctrl_c_is_left_alone(handlers: tuple[Connection, set[object]]) -> None:
    nc, seen = handlers

    def mine(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, mine)
    try:
        nc.flush()
    finally:
        assert signal.signal(signal.SIGINT, before) is mine
    assert seen == {mine}


def test_no_handler_changes_for_another_thread(handlers: tuple[Connection, set[object]]) -> None:
    nc, seen = handlers
    with ThreadPoolExecutor(1) as pool:
        pool.submit(nc.flush).result()
    assert seen == {signal.default_int_handler}


def test_a_handler_that_was_set_during_a_wait_stays(
    handlers: tuple[Connection, set[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    nc, seen = handlers

    def mine(number: int, frame: object) -> None: ...

    seen.clear()
    leader = nc._lead

    def changing(until: float) -> None:
        leader(until)
        signal.signal(signal.SIGINT, mine)

    monkeypatch.setattr(nc, "_lead", changing)
    try:
        nc.flush()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert signal.default_int_handler not in seen


@promise("In other verbs Ctrl-C may interrupt a change of state.")
@MODES
def test_ctrl_c_inside_a_change_of_state_ends_the_connection(
    reader_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer(serve) as server, connect(server.url, reader_thread=reader_thread) as nc:
        sub = nc.subscribe("a")

        def interrupted(*args: object, **keywords: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(nc._session, "publish_message", interrupted)
        with pytest.raises(KeyboardInterrupt), sub, nc.jetstream().fast_publisher(), nc.jetstream().get_batch("S"):
            nc.publish("a")
        with pytest.raises(ConnectionLostError):
            sub.next_msg()
        with pytest.raises(ConnectionLostError):
            nc.publish("a")


@MODES
def test_polling_without_waiting_gets_there(server: Any, reader_thread: bool) -> None:
    """A timeout of 0 looks at what has come, also where nobody but the caller reads the socket."""
    with connect(server.url, reader_thread=reader_thread) as nc:
        subject = unique()
        sub = nc.subscribe(subject)
        nc.publish(subject, b"x")
        got: list[bytes] = []

        def poll() -> bool:
            with suppress(TimeoutError):
                got.append(sub.next_msg(timeout=0).data)
            return bool(got)

        until(poll)
        assert got == [b"x"]


# -- defects -----------------------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize(
    "broken",
    [("receive_data",), ("handle_timeout",), ("data_to_send",), ("wants_send",), ("receive_data", "abort")],
    ids=str,
)
def test_a_defect_fails_everybody_instead_of_hanging_them(
    reader_thread: bool, broken: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.serve()

    with FakeServer(script) as server:
        nc = connect(server.url, reader_thread=reader_thread, ping_interval=0.05, max_outstanding_pings=1_000)
        sub = nc.subscribe("a")

        def bug(*args: object) -> None:
            raise ZeroDivisionError("a defect")

        errors: list[BaseException] = []

        def wait() -> None:
            with pytest.raises((ConnectionLostError, ZeroDivisionError)) as caught:
                sub.next_msg()
            errors.append(caught.value)

        threads = [threading.Thread(target=wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: waiting(nc, threads))
        for name in broken:
            monkeypatch.setattr(nc._session, name, bug)
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert len(errors) == 2
        with pytest.raises(ConnectionLostError, match="ZeroDivisionError"):
            nc.publish("a")
        nc.close()
        assert caplog.text.count("ZeroDivisionError: a defect") == 1


@MODES
def test_a_defect_found_by_close_leaves_nothing_open(
    reader_thread: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeServer(serve) as server:
        nc = connect(server.url, reader_thread=reader_thread, linger=60)
        nc.publish("a")

        def bug() -> None:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr(nc._session, "data_to_send", bug)
        nc.close()
        assert nc._poller.link is None
        nc.close()
    assert caplog.text.count("ZeroDivisionError: a defect") == 1


def test_a_raising_iterable_does_not_hold_the_lock(server: Any) -> None:
    """The application's iterator may use the connection: it never runs while the state is locked."""
    with connect(server.url) as nc:
        js, name = nc.jetstream(), unique()
        js.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_batched=True)

        def rows() -> Iterator[tuple[str, bytes]]:
            for number in range(50):
                nc.flush()
                yield f"{name}.a", b"%d" % number

        with js.fast_publisher() as batch:
            assert batch.publish_many(rows()) == 50
            assert batch.commit().count == 50


def test_connected_is_told_from_the_thread_that_connects() -> None:
    seen: list[tuple[type[Event], str]] = []
    with (
        FakeServer(serve) as server,
        connect(server.url, event_cb=lambda event: seen.append((type(event), threading.current_thread().name))),
    ):
        assert seen == [(Connected, threading.main_thread().name)]


@promise("A connection, and everything made from it, may be used by many threads at once")
@MODES
def test_threads_share_a_reader(server: Any, reader_thread: bool) -> None:
    interval = sys.getswitchinterval()
    with connect(server.url, reader_thread=reader_thread) as nc, ThreadPoolExecutor(4) as pool:
        js, name = nc.jetstream(), unique()
        js.create_stream(name, subjects=[name], allow_direct=True)
        for _ in range(2_000):
            js.publish_async(name)
        js.publish(name)
        sys.setswitchinterval(1e-6)
        try:
            for take in (list, lambda reader: list(iter(partial(next, reader, None), None))):
                reader = js.get_batch(name)
                parts = [pool.submit(take, reader) for _ in range(4)]
                assert sorted(message.seq for part in parts for message in part.result(20)) == [*range(1, 2_002)]
        finally:
            sys.setswitchinterval(interval)


def test_messages_that_another_thread_takes_at_once_are_no_end(server: Any) -> None:
    class Shared(deque[Any]):
        """Another thread has all of it before this one looks."""

        def extend(self, messages: Any) -> None:
            theirs.extend(messages)

    theirs: list[Any] = []
    with connect(server.url) as nc:
        js, name = nc.jetstream(), unique()
        js.create_stream(name, subjects=[name], storage="memory", allow_batched=True, allow_direct=True)
        with js.fast_publisher() as batch:
            batch.publish_many((name, b"") for _ in range(1_000))
            batch.commit()
        reader = js.get_batch(name)
        until(lambda: reader._core.finished)  # so more is buffered than is taken at once
        reader._taken = Shared()
        assert list(reader) == []
        assert [message.seq for message in theirs] == [*range(1, 1_001)]


@MODES
def test_a_loop_that_is_left_gives_its_messages_back(server: Any, reader_thread: bool) -> None:
    with connect(server.url, reader_thread=reader_thread) as nc:
        js, name = nc.jetstream(), unique()
        js.create_stream(name, subjects=[name])
        for number in range(20):
            js.publish(name, b"%d" % number)
        with js.pull_subscribe(name) as subscription:
            got = []
            for _ in range(2):
                for message in subscription.messages():
                    got.append(message)
                    if len(got) % 5 == 0:
                        break
            got += subscription.fetch(10)
        assert [int(message.data) for message in got] == list(range(20))
        assert not any(message.metadata.num_delivered > 1 for message in got)


# -- the tests themselves ----------------------------------------------------------------------------------------------


@MODES
def test_threads_that_a_test_leaves_behind_end(server: Any, reader_thread: bool) -> None:
    """A test that hangs is cancelled: its thread, which cannot be, must not keep the run from ending."""
    waiting: list[threading.Thread] = []

    def hang(connection: Connection) -> None:
        waiting.append(threading.current_thread())
        with suppress(ConnectionClosedError):
            connection.subscribe(unique()).next_msg()

    async def body() -> None:
        with anyio.CancelScope() as scope:
            opened = threaded.connect(server.url, reader_thread=reader_thread)
            async with opened as nc, anyio.create_task_group() as tasks:
                tasks.start_soon(partial(anyio.to_thread.run_sync, hang, nc._target, abandon_on_cancel=True))
                while not waiting:
                    await anyio.sleep(0.001)
                scope.cancel()

    anyio.run(body)
    until(lambda: not waiting[0].is_alive())
