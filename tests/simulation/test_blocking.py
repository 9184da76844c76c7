"""Blocking programs in simulated time, in one thread: time passes in waits, what hangs is an error."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import Any

import pytest

from jsproto.errors import ConnectionLostError, Error, LocalProtocolError, NoServersError, TimeoutError
from jsproto.events import Connected, Disconnected, Event
from jsproto.testing import Fault, NetworkConditions, StuckError
from jsproto_io.sync import connect
from jsproto_io.testing.simulation import NotSimulatedError, Report, current, search, simulate
from tests.marks import promise
from tests.simulation.both import first_failing, report_of
from tests.simulation.shop_blocking import check, check_progress, shop

URL = "nats://somewhere"
HERE = NetworkConditions()
READERS = pytest.mark.parametrize("reader_thread", [True, False])


def run(main: Callable[[], Any], *, faults: Any = (), conditions: Any = HERE, **options: Any) -> Report:
    return report_of(main, faults=faults, conditions=conditions, **options)


def calm(main: Callable[[], Any], **options: Any) -> Any:
    """The result of a simulation without faults."""
    report = run(main, **options)
    if report.error is not None:
        raise report.error
    return report.result


# -- time --------------------------------------------------------------------------------------------------------------


def test_time_passes_at_once_and_is_the_same_everywhere() -> None:
    def main() -> list[float]:
        time.sleep(86_400)
        sleep(10)  # taken by name when this module was imported
        return [time.monotonic(), monotonic(), time.perf_counter()]

    began = monotonic()
    seen = calm(main, until=100_000.0)
    assert seen == [seen[0]] * 3
    assert 86_410 <= seen[0] < 86_411
    assert monotonic() - began < 10


def test_threading_and_queue_let_time_pass() -> None:
    def main() -> list[Any]:
        seen: list[Any] = [threading.Event().wait(5), monotonic()]
        with pytest.raises(queue.Empty):
            queue.Queue[int]().get(timeout=10)
        condition = threading.Condition()
        with condition:
            seen.append(condition.wait_for(lambda: monotonic() > 100, timeout=20))
        with pytest.raises(ValueError, match="non-negative"):
            time.sleep(-1)
        return [*seen, monotonic()]

    assert calm(main) == [False, pytest.approx(5, abs=0.001), False, pytest.approx(35, abs=0.001)]


def test_other_threads_have_the_real_time() -> None:
    began, go_on = monotonic(), threading.Event()
    seen: list[float] = []

    def other() -> None:
        go_on.wait(10)
        seen.append(monotonic())

    thread = threading.Thread(target=other)
    thread.start()

    def main() -> None:
        time.sleep(1_000_000)
        go_on.set()
        thread.join()

    run(main, until=2e6)
    assert began <= seen[0] < began + 100


# -- clients -----------------------------------------------------------------------------------------------------------


@READERS
def test_a_client_that_knows_nothing_of_it(reader_thread: bool) -> None:
    def main() -> list[bytes]:
        with connect(URL, reader_thread=reader_thread) as nc:
            js = nc.jetstream()
            js.create_stream("S", subjects=["s"], allow_direct=True)
            for number in range(3):
                js.publish("s", b"%d" % number)
            return [js.get_msg("S", seq).data for seq in (1, 2, 3)]

    report = run(main, conditions=NetworkConditions(latency=0.1))
    assert report.error is None, report
    assert report.result == [b"0", b"1", b"2"]
    assert report.server.stream("S").last_seq == 3
    assert 1.8 < report.now < 2.5  # the handshake takes five ways, each request two
    assert report.clients == "blocking"


@READERS
def test_two_connections_of_one_thread(reader_thread: bool) -> None:
    def main() -> bytes:
        with connect(URL, reader_thread=reader_thread) as one, connect(URL, reader_thread=reader_thread) as two:
            sub = one.subscribe("a")
            one.flush()
            two.publish("a", b"x")
            two.flush()
            return sub.next_msg(timeout=1).data

    assert calm(main) == b"x"


@READERS
def test_links_that_break_and_servers_that_are_down(reader_thread: bool) -> None:
    def main() -> list[str]:
        seen = []
        try:
            with connect(URL, max_reconnect_attempts=0, reader_thread=reader_thread) as nc:
                time.sleep(2)
                nc.flush()
        except Error as error:
            seen.append(str(error))
        try:
            connect(URL)
        except NoServersError as error:
            seen.append(str(error))
        return seen

    report = run(main, faults=[Fault("cut", 1.0), Fault("restart", 1.5, 5.0)])
    assert report.error is None, report
    assert "reset" in report.result[0]
    assert "refused" in report.result[1]


def test_the_reader_thread_is_there_while_the_program_sleeps() -> None:
    """It answers PINGs, dials again, and calls the callback of events."""

    def main() -> list[str]:
        seen: list[str] = []
        is_back = threading.Event()

        def on_event(event: Event) -> None:
            seen.append(type(event).__name__)
            if seen.count("Connected") == 2:
                is_back.set()
                nc.flush()  # a callback may wait

        with connect(URL, event_cb=on_event) as nc:
            time.sleep(1_000)  # the server would have cut off who answers no PING
            assert nc.is_connected
            assert is_back.wait(100)
        return seen

    report = run(main, faults=[Fault("cut", 1_010.0)])
    assert report.error is None, report
    assert report.result[:3] == [Connected.__name__, Disconnected.__name__, Connected.__name__]


def test_without_a_reader_thread_nobody_is_there() -> None:
    def main() -> None:
        with connect(URL, reader_thread=False, max_reconnect_attempts=0) as nc:
            time.sleep(1_000)
            with pytest.raises(ConnectionLostError):
                nc.flush()

    assert calm(main) is None


def test_a_callback_that_fails_ends_its_connection_alone() -> None:
    def main() -> list[bool]:
        with connect(URL) as one, connect(URL) as two:
            one._session.receive_data = lambda data, now: 1 / 0  # type: ignore[assignment,method-assign]
            time.sleep(300)
            return [one._failure is None, two.is_connected]

    assert calm(main) == [False, True]


def test_a_connection_that_was_dropped_is_served_no_more() -> None:
    def main() -> int:
        nc: Any = connect(URL)
        del nc
        time.sleep(1)
        return len(current().server.sessions)

    with pytest.warns(ResourceWarning):
        assert calm(main) == 0


# -- what is refused, and what hangs -----------------------------------------------------------------------------------


def start_thread() -> None:
    threading.Thread(target=print).start()


def consume() -> None:
    with connect(URL) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s"])
        js.subscribe("s", cb=print)


@promise("Threads, and so callbacks of subscriptions, are refused, and there are no hosts.")
@pytest.mark.parametrize("wrong", [start_thread, consume])
def test_threads_are_refused(wrong: Callable[[], object]) -> None:
    assert isinstance(run(wrong).error, NotSimulatedError)


@promise("Threads, and so callbacks of subscriptions, are refused, and there are no hosts.")
def test_hosts_are_refused() -> None:
    error = run(lambda: None, hosts={"one": lambda: None}).error
    assert isinstance(error, NotSimulatedError)
    assert "one thread" in str(error)


def test_an_asynchronous_function_is_refused() -> None:
    async def main() -> None:
        pass

    error = run(lambda: main()).error
    assert isinstance(error, LocalProtocolError)
    assert "clients='asyncio'" in str(error)


def test_unknown_clients_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="one of asyncio, trio, blocking, threads"):
        simulate(lambda: None, clients="gevent")  # type: ignore[arg-type]


def nobody() -> None:
    threading.Event().wait()


def stubborn() -> None:
    with connect(URL) as nc:
        sub = nc.subscribe("a")
        while True:
            try:
                sub.next_msg()
            except Exception:
                continue


def busy() -> None:
    with connect(URL) as nc:
        while True:
            try:
                nc.flush(timeout=0)
            except TimeoutError:
                continue


@pytest.mark.parametrize(
    ("main", "words"),
    [(nobody, "nothing will ever happen again"), (stubborn, "no end within 100 s"), (busy, "no end after")],
)
def test_what_hangs_is_an_error(main: Callable[[], None], words: str) -> None:
    error = run(main, until=100.0, most_turns=10_000).error
    assert isinstance(error, StuckError)
    assert words in str(error)


def test_a_defect_of_the_server_is_the_error() -> None:
    def main() -> None:
        with connect(URL) as nc:
            current().server.publish_from = lambda *args: 1 / 0  # type: ignore[assignment,method-assign]
            nc.publish("a")
            nc.flush()

    assert isinstance(run(main).error, ZeroDivisionError)


# -- a bug, and its control --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_acknowledges_first_is_found_and_the_right_one_passes() -> None:
    wrong = partial(shop, acks_first=True)
    found = first_failing(wrong, check=check, seeds=range(500))
    assert found is not None
    assert "an order was acknowledged" in str(found.error)
    again = report_of(wrong, check=check, seed=found.seed, faults=found.faults, conditions=found.conditions)
    assert again.digest == found.digest
    right = partial(shop, acks_first=False)
    search(right, check=check_progress, seeds=range(found.seed + 20))
