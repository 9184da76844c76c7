"""Programs with threads against the simulated server and its faults, in real time. Nothing here is reproducible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jsproto.errors import ConnectionLostError, Error, TimeoutError
from jsproto.testing import Fault, NetworkConditions, StuckError
from jsproto_io.dialer import ambient_dialer
from jsproto_io.sync import Connection, connect
from jsproto_io.testing.simulation import Report, current
from tests.marks import promise
from tests.simulation.both import first_failing, report_of

URL = "nats://somewhere"
NEAR = NetworkConditions(latency=0.001)


def run(main: Callable[[], Any], *, faults: Any = (), **options: Any) -> Report:
    return report_of(main, clients="threads", faults=faults, conditions=NEAR, **options)


def until_stored(js: Any, subject: str) -> None:
    """Publish once more until it is acknowledged."""
    while True:
        try:
            js.publish(subject, msg_id=subject, timeout=5)
            return
        except (ConnectionLostError, TimeoutError):
            continue


@promise("anything that uses `jsproto_io.sync` | real | no")
def test_threads_of_a_program_reach_the_server_through_its_faults() -> None:
    def main() -> int:
        with connect(URL, reconnect_time_wait=0.01) as nc:
            nc.jetstream().create_stream("S", subjects=["s.>"])
            publish = nc.jetstream()

            def work(number: int) -> None:
                with connect(URL, reconnect_time_wait=0.01) as own:
                    for each in range(10):
                        until_stored(own.jetstream(), f"s.{number}.{each}")
                        until_stored(publish, f"s.shared.{number}.{each}")

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(work, range(4)))
            return nc.jetstream().stream_info("S").state.messages

    cuts = [
        Fault("cut_after", link=1, byte=2_500, direction="down"),
        Fault("cut_after", link=3, byte=1_000, direction="up"),
    ]
    before = threading.enumerate()  # other tests' servers too
    report = run(main, faults=cuts)
    assert report.error is None, report
    assert report.result == 80
    assert "clients='threads'" in report.replay
    assert "breaks" in str(report.world.timeline())
    assert ambient_dialer() is None
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in left if thread.name.startswith("jsproto")]


@pytest.mark.slow
def test_hosts_are_threads_and_a_killed_one_is_cut_off() -> None:
    began: list[Connection] = []
    is_back = threading.Event()

    def worker() -> None:
        with connect(URL, max_reconnect_attempts=0) as nc:
            began.append(nc)
            if len(began) > 1:
                is_back.set()
            nc.subscribe("never").next_msg()

    def main() -> None:
        assert is_back.wait(60)

    report = run(main, hosts={"one": worker}, faults=[Fault("kill", 1.0, 0.2, host="one")])
    assert report.error is None, report
    assert len(began) == 2
    assert began[0].is_closed


@pytest.mark.slow
def test_a_host_that_fails_is_started_again() -> None:
    began: list[int] = []
    twice = threading.Event()

    def worker() -> None:
        began.append(1)
        if len(began) == 2:
            twice.set()
        else:
            raise ZeroDivisionError

    report = run(lambda: twice.wait(60), hosts={"one": worker})
    assert report.result is True
    assert [type(error) for _, error in report.failures] == [ZeroDivisionError]


@pytest.mark.slow
def test_what_is_healed_works() -> None:
    def main() -> bool:
        current().healed()
        with connect(URL) as nc:
            return nc.flush(timeout=60) >= 0

    assert run(main, faults=[Fault("restart", 0.0, 0.1)]).result is True


def test_after_its_bound_the_server_is_gone() -> None:
    def main() -> None:
        with connect(URL, max_reconnect_attempts=0) as nc:
            nc.subscribe("never").next_msg()

    error = run(main, until=0.2).error
    assert isinstance(error, StuckError)
    assert "no end within 0.2 s" in str(error)


def test_a_defect_of_the_server_is_the_error() -> None:
    def main() -> None:
        with connect(URL, max_reconnect_attempts=0) as nc:
            current().server.publish_from = lambda *args: 1 / 0  # type: ignore[assignment,method-assign]
            nc.publish("a")
            nc.flush()

    assert isinstance(run(main).error, ZeroDivisionError)


@promise("The same seed may fail once and pass once, so nothing is shrunk.")
def test_a_failure_is_not_shrunk() -> None:
    def main() -> None:
        with connect(URL):
            raise LookupError

    faults = [Fault("cut", 30.0)]
    found = first_failing(main, clients="threads", conditions=NEAR, faults=lambda seed: faults, seeds=range(3))
    assert found is not None
    assert (found.seed, list(found.faults)) == (0, faults)
    assert isinstance(found.error, LookupError)


def test_an_error_of_the_program_is_the_error() -> None:
    def main() -> None:
        with connect(URL):
            raise Error("this")

    assert str(run(main).error) == "this"
