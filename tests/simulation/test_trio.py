"""Trio programs in simulated time: time passes at once, what has no simulation is refused, what hangs is an error."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
import trio

from jsproto.testing import Fault, NetworkConditions, StuckError
from jsproto_io.testing.simulation import NotSimulatedError, Report, current, search
from jsproto_io.trio import connect
from tests.marks import promise
from tests.simulation.both import check_that_it_knows_nothing, check_that_it_sees_breaks, first_failing, report_of
from tests.simulation.shop_trio import check, check_progress, shop, worker

URL = "nats://somewhere"
HERE = NetworkConditions()


def run(main: Callable[[], Awaitable[Any]], *, faults: Any = (), conditions: Any = HERE, **options: Any) -> Report:
    return report_of(main, clients="trio", faults=faults, conditions=conditions, **options)


def calm(main: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    """The result of a simulation without faults."""
    report = run(main, **options)
    if report.error is not None:
        raise report.error
    return report.result


def test_time_passes_at_once_and_is_the_same_everywhere() -> None:
    async def main() -> list[float]:
        await trio.sleep(86_400)
        with trio.move_on_after(10):
            await trio.sleep_forever()
        return [trio.current_time(), time.monotonic(), time.perf_counter()]

    began = time.monotonic()
    seen = calm(main, until=100_000.0)
    assert seen == [seen[0]] * 3
    assert 86_410 <= seen[0] < 86_411
    assert time.monotonic() - began < 10


def test_time_passes_for_a_task_that_only_looks_at_it() -> None:
    async def main() -> None:
        async with connect(URL) as nc:
            before = trio.current_time()
            while trio.current_time() < before + 0.001:
                await trio.sleep(0)
            assert nc.is_connected

    assert calm(main) is None


def test_a_client_that_knows_nothing_of_it() -> None:
    assert "clients='trio'" in check_that_it_knows_nothing(run, connect).replay


def test_links_that_break_and_servers_that_are_down() -> None:
    check_that_it_sees_breaks(run, connect, trio.sleep)


@promise("A killed host is cut off at once, and its tasks are cancelled")
def test_a_host_that_is_killed_is_not_heard_of_until_it_is_started_again() -> None:
    began: list[float] = []

    async def worker() -> None:
        began.append(trio.current_time())
        async with connect(URL) as nc:
            try:
                while True:
                    await trio.sleep(1)
                    await nc.publish("alive")
                    await nc.flush()
            finally:
                await nc.publish("last words")

    async def main() -> list[str]:
        async with connect(URL) as nc:
            heard = await nc.subscribe(">")
            await trio.sleep(10)
            return [(await heard.next_msg()).subject for _ in range(heard.pending_msgs)]

    report = run(main, hosts={"one": worker}, faults=[Fault("kill", 2.5, 3.0, host="one")])
    assert report.error is None, report
    assert [round(when, 1) for when in began] == [0.0, 5.5]
    assert report.result == ["alive"] * 6


def test_a_host_that_fails_is_started_again_and_one_that_returns_is_not() -> None:
    began: list[str] = []

    async def fails() -> None:
        began.append("fails")
        await trio.sleep(1)
        raise ZeroDivisionError

    async def returns() -> None:
        began.append("returns")

    async def main() -> None:
        current().start("late", returns)
        await trio.sleep(3)

    report = run(main, hosts={"one": fails})
    assert report.error is None
    assert sorted(began) == ["fails", "fails", "returns"]
    assert [name for name, _ in report.failures] == ["one"]


@pytest.mark.parametrize(
    "wrong",
    [
        partial(trio.to_thread.run_sync, print), partial(trio.open_file, __file__), partial(trio.run_process, ["true"]),
        partial(trio.open_tcp_listeners, 0), partial(trio.open_tcp_stream, "localhost", 4222),
        partial(trio.socket.getaddrinfo, "localhost", 4222), partial(anyio.to_thread.run_sync, print),
        partial(anyio.connect_tcp, "127.0.0.1", 1),
    ],
)  # fmt: skip
def test_what_has_no_simulation_is_refused(wrong: Callable[[], Awaitable[object]]) -> None:
    async def idle_thread() -> None:
        await trio.to_thread.run_sync(print)  # which trio keeps for the next one that asks

    trio.run(idle_thread)

    async def main() -> None:
        await wrong()

    error: Any = run(main).error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, NotSimulatedError) or isinstance(error.__cause__, NotSimulatedError), repr(error)


@pytest.mark.parametrize(
    "wrong",
    [lambda: socket.create_connection(("127.0.0.1", 1)), lambda: subprocess.run(["true"]), lambda: time.sleep(1)],
)
def test_what_is_real_below_the_loop_is_refused(wrong: Callable[[], object]) -> None:
    async def main() -> None:
        wrong()

    assert isinstance(run(main).error, NotSimulatedError)


async def nobody() -> None:
    await trio.sleep_forever()


async def busy() -> None:
    while True:
        await trio.sleep(0)


async def connected() -> None:
    async with connect(URL):
        await trio.sleep_forever()


async def shielded() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (nobody, "nothing will ever happen again"), (busy, "no end after"), (connected, "no end within 100 s"),
        (shielded, "nothing will ever happen again"),
    ],
)  # fmt: skip
def test_what_hangs_is_an_error(main: Callable[[], Awaitable[None]], words: str) -> None:
    error = run(main, until=100.0, most_turns=10_000).error
    assert isinstance(error, StuckError)
    assert words in str(error)


def test_a_defect_of_the_server_is_the_error() -> None:
    async def main() -> None:
        async with connect(URL) as nc:
            current().server.publish_from = lambda *args: 1 / 0  # type: ignore[assignment,method-assign]
            await nc.publish("a")
            await nc.flush()

    assert isinstance(run(main).error, ZeroDivisionError)


def test_an_error_of_the_program_is_the_error_and_not_in_a_group() -> None:
    async def main() -> None:
        async with connect(URL):
            raise LookupError

    assert type(run(main).error) is LookupError


def test_who_waits_until_all_are_blocked_comes_before_time_passes() -> None:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 10)
            await trio.testing.wait_all_tasks_blocked()
            return trio.current_time()

    assert calm(main) < 1


def test_the_order_of_tasks_is_the_seed_s_and_trio_is_as_before() -> None:
    async def main() -> list[int]:
        event, seen = trio.Event(), []

        async def one(number: int) -> None:
            await event.wait()
            seen.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(24):
                nursery.start_soon(one, number)
            await trio.testing.wait_all_tasks_blocked()
            event.set()
        return seen

    internals: Any = trio._core._run
    before = internals._r.getstate(), internals._ALLOW_DETERMINISTIC_SCHEDULING
    orders = [calm(main, seed=seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(24))
    assert (internals._r.getstate(), internals._ALLOW_DETERMINISTIC_SCHEDULING) == before


def test_entropy_is_the_seed_s() -> None:
    async def main() -> tuple[float, str]:
        async with connect(URL) as nc:
            return random.random(), nc.new_inbox()

    assert calm(main, seed=1) == calm(main, seed=1) != calm(main, seed=2)


# -- a bug, and its control --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_acknowledges_first_is_found_and_the_right_one_passes() -> None:
    wrong = {name: partial(worker, acks_first=True) for name in ("one", "two")}
    found = first_failing(shop, clients="trio", hosts=wrong, check=check, seeds=range(500))
    assert found is not None
    assert "an order was acknowledged" in str(found.error)
    again = report_of(
        shop,
        clients="trio",
        hosts=wrong,
        check=check,
        seed=found.seed,
        faults=found.faults,
        conditions=found.conditions,
    )
    assert again.digest == found.digest
    right = {name: partial(worker, acks_first=False) for name in ("one", "two")}
    seeds = range(found.seed + 20)
    search(shop, clients="trio", hosts=right, check=check_progress, seeds=seeds)
