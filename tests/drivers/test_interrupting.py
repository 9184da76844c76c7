"""Verbs that signal handlers and finalizers call, at each step of another verb: none hangs, the other one goes on."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

import pytest

from jsproto.errors import ConnectionClosedError, ConnectionLostError, Error, TimeoutError
from jsproto_io._threads.reentry import InterruptingVerbError, Wakeup, new_locks
from jsproto_io.sync import connect
from tests.drivers.test_facade import unique
from tests.marks import promise

pytestmark = pytest.mark.server

MODES = pytest.mark.parametrize("reader_thread", [True, False], ids=["reader", "no reader"])
ENGINE = ("sync.py", "_threads/engine.py", "_threads/leadership.py", "_threads/poller.py", "_threads/sockets.py")
WAIT = 20.0  # seconds, on a busy machine


@contextmanager
def interrupted_at(step: int, handler: Callable[[], object]) -> Iterator[list[BaseException | None]]:
    """``handler`` is called before the line ``step`` of the engine that this thread runs, as that of a signal would be.

    Gives what it raised, None for nothing. Empty: there were not as many lines.
    """
    left, seen = [step], list[BaseException | None]()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(ENGINE):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == -1:
                try:
                    handler()
                    seen.append(None)
                except BaseException as error:
                    seen.append(error)
        return trace

    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(None)


@promise("On threads a signal handler may call `nc.drain()`, `nc.close()` and `sub.drain()`.")
@MODES
@pytest.mark.parametrize("verb", ["publish", "flush", "request", "unsubscribe", "sub.drain"])
def test_a_verb_at_each_line_of_another(server: Any, reader_thread: bool, verb: str) -> None:
    with connect(server.url, reader_thread=reader_thread, timeout=WAIT) as nc:
        js = nc.jetstream()
        results: Counter[str] = Counter()
        step, is_done = 0, False
        while not is_done:
            sub = nc.subscribe(unique())
            verbs: dict[str, Callable[[], object]] = {
                "publish": lambda: nc.publish("a", b"x"),
                "flush": nc.flush,
                "request": lambda: nc.request("$JS.API.INFO"),
                "unsubscribe": sub.unsubscribe,
                "sub.drain": sub.drain,
            }
            began = time.monotonic()
            with interrupted_at(step, verbs[verb]) as seen:
                js.account_info()
            assert time.monotonic() - began < WAIT / 2, step
            is_done = not seen
            results.update(type(each).__name__ for each in seen)
            step += 1
            nc.flush()
            if verb in ("unsubscribe", "sub.drain") and not is_done:
                with pytest.raises(ConnectionClosedError):
                    sub.next_msg(timeout=WAIT)
            sub.unsubscribe()
        assert results["NoneType"]
        if verb in ("unsubscribe", "sub.drain"):
            assert set(results) == {"NoneType"}
        else:
            assert set(results) <= {"NoneType", "InterruptingVerbError"}


@promise("On threads a signal handler may call `nc.drain()`, `nc.close()` and `sub.drain()`.")
@MODES
@pytest.mark.parametrize("verb", ["drain", "close"])
def test_the_end_at_each_line_of_another_verb(server: Any, reader_thread: bool, verb: str) -> None:
    step, seen = 0, list[BaseException | None]([None])
    while seen:
        with connect(server.url, reader_thread=reader_thread, timeout=WAIT) as nc:
            js = nc.jetstream()
            js.account_info()
            began = time.monotonic()
            with (
                interrupted_at(step, getattr(nc, verb)) as seen,
                suppress(ConnectionClosedError, ConnectionLostError),
            ):
                js.account_info()
            while seen and not nc.is_closed and time.monotonic() - began < WAIT / 2:
                time.sleep(0.001)  # a thread of its own ends it
            assert nc.is_closed or not seen, step
        assert seen in ([], [None]), step
        step += 1
    assert step > 20


def test_signals_strike_a_busy_thread(server: Any) -> None:
    """Thousands of real ones, in whatever the thread does."""
    results: Counter[str] = Counter()
    with connect(server.url, timeout=WAIT) as nc:
        js = nc.jetstream()
        verbs: list[Callable[[], object]] = [
            lambda: nc.publish("a", b"x"), lambda: nc.subscribe("w").unsubscribe(), nc.flush,
        ]  # fmt: skip
        is_over = False

        def handler(number: int, frame: FrameType | None) -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                verbs[results.total() % 3]()
                results["done"] += 1
            except InterruptingVerbError:
                results["refused"] += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0 if is_over else 0.001)

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        try:
            until = time.monotonic() + 2.0
            while time.monotonic() < until:
                nc.publish("b", b"y")
                js.account_info()
        finally:
            is_over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert nc.flush() >= 0
    assert results["done"]


@pytest.mark.filterwarnings("ignore:unclosed subscription:ResourceWarning")  # its owner may be the later one
@pytest.mark.parametrize("kind", ["core", "push"])
def test_finalizers_end_what_their_objects_have(server: Any, kind: str) -> None:
    """The collector runs them at any moment, in any thread."""
    with connect(server.url, timeout=WAIT) as nc:
        js, name = nc.jetstream(), unique("S")
        js.create_stream(name, subjects=[f"{name}.>"], storage="memory")

        class Owner:
            def __init__(self) -> None:
                self.cycle = self
                self.sub: Any = nc.subscribe("w") if kind == "core" else js.subscribe(f"{name}.>")

            def __del__(self) -> None:
                self.sub.unsubscribe()

        before = gc.get_threshold()
        gc.set_threshold(50, 2, 2)
        try:
            until = time.monotonic() + 2.0
            while time.monotonic() < until:
                Owner()
                js.publish(f"{name}.a", b"1")
                nc.request("$JS.API.INFO")
        finally:
            gc.set_threshold(*before)
        gc.collect()
        until = time.monotonic() + WAIT
        while (left := js.consumer_names(name)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not left
        js.delete_stream(name)


WORKER = """
import os, signal, sys
from jsproto_io.sync import connect
nc = connect(sys.argv[1])
sub = nc.jetstream().pull_subscribe(sys.argv[2] + ".>", durable="w")
ends = {"nc.drain": nc.drain, "sub.drain": sub.drain, "nc.close": nc.close}
signal.signal(signal.SIGTERM, lambda *_: ends[sys.argv[3]]())
print("ready", flush=True)
try:
    for msg in sub.messages():
        msg.ack()
finally:
    os._exit(0)
"""


@promise("On threads a signal handler may call `nc.drain()`, `nc.close()` and `sub.drain()`.")
@pytest.mark.slow
@pytest.mark.parametrize("verb", ["nc.drain", "sub.drain", "nc.close"])
def test_a_worker_ends_by_its_handler_of_sigterm(server: Any, verb: str, tmp_path: Path) -> None:
    program = tmp_path / "worker.py"
    program.write_text(WORKER)
    name = unique("S")
    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name, subjects=[f"{name}.>"], allow_batched=True, storage="memory")
        with js.fast_publisher() as batch:
            batch.publish_many((f"{name}.a", b"x") for _ in range(200_000))
            batch.commit()
        for tried in range(10):
            js.create_consumer(name, durable_name="w", max_ack_pending=20_000)
            command = [sys.executable, str(program), server.url, name, verb]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
                assert worker.stdout is not None
                worker.stdout.readline()
                time.sleep(0.03 * tried)  # somewhere in the work
                worker.send_signal(signal.SIGTERM)
                try:
                    assert worker.wait(WAIT) == 0
                finally:
                    worker.kill()
            js.delete_consumer(name, "w")
        js.delete_stream(name)


# -- the parts ---------------------------------------------------------------------------------------------------------


def test_the_lock_is_for_one_thread_at_a_time() -> None:
    lock, gate = new_locks()
    with lock, pytest.raises(Empty), gate:
        pass
    with gate:
        pass
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(1_000):
            with lock:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    with pytest.raises(ZeroDivisionError), lock:
        _ = 1 / 0
    with lock:
        pass


def test_an_event_wakes_all_that_wait() -> None:
    event, woken = Wakeup(), SimpleQueue[bool]()
    assert not event.wait(0.0)
    threads = [threading.Thread(target=lambda: woken.put(event.wait(WAIT))) for _ in range(3)]
    for thread in threads:
        thread.start()
    event.set()
    event.set()
    assert [woken.get(timeout=WAIT) for _ in threads] == [True] * 3
    assert event.is_set()
    assert event.wait(0.0)
    for thread in threads:
        thread.join()


def test_a_verb_waits_for_another_thread_that_is_slow(server: Any) -> None:
    """The lock is held for longer than a verb waits before it looks at the stack: it waits on."""
    with connect(server.url) as nc:
        held = threading.Event()

        def slow(now: float) -> None:
            held.set()
            time.sleep(0.1)

        thread = threading.Thread(target=lambda: nc._call(slow))
        thread.start()
        held.wait()
        nc.publish("a", b"x")
        thread.join()


def test_an_empty_queue_of_the_application_is_its_own_error(server: Any) -> None:
    def verb(now: float) -> None:
        SimpleQueue[None]().get_nowait()

    def outer(now: float) -> None:
        verb(now)

    with connect(server.url) as nc:
        with pytest.raises(Empty):
            nc._call(outer)
        assert nc.flush() >= 0


def test_what_fails_later_is_logged(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A drain that a handler began finds the connection closed by the time that it begins."""
    nc = connect(server.url)

    def verb(now: float) -> None:
        nc.drain()  # as a handler would within the lock
        nc._session.close(now)

    nc._call(verb)
    until = time.monotonic() + WAIT
    while not caplog.records and time.monotonic() < until:
        time.sleep(0.001)
    assert "has failed" in caplog.text
    with suppress(Error, TimeoutError):
        nc.close()
