"""Finding and shrinking: a bug that one fault brings out, its control, and the same result each time."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import Any, get_args

import pytest

from jsproto.errors import Error, LocalProtocolError
from jsproto.testing import Fault, NetworkConditions
from jsproto_io import DurabilityWarning
from jsproto_io.asyncio import connect
from jsproto_io.testing.simulation import NotDeterministicError, Report, SimulationFailedError, search, simulate
from jsproto_io.testing.simulation.engine import Clients
from jsproto_io.testing.simulation.search import plan
from tests.effort import examples
from tests.marks import promise
from tests.simulation import scenes
from tests.simulation.both import first_failing, report_of

URL = "nats://somewhere"


@pytest.mark.slow
def test_a_worker_that_acknowledges_first_is_caught_and_the_right_one_passes() -> None:
    """Within 500 seeds, shrunk to one fault, replayed. The control has as many, and makes progress too."""
    found = first_failing(scenes.main, seeds=range(500), hosts=scenes.wrong, check=scenes.check)
    assert found is not None
    assert "were acknowledged, and have no bill" in str(found.error)
    assert len(found.faults) == 1
    again = report_of(
        scenes.main, seed=found.seed, faults=found.faults, conditions=found.conditions, hosts=scenes.wrong,
        check=scenes.check,
    )  # fmt: skip
    assert (again.digest, str(again.error)) == (found.digest, str(found.error))
    search(scenes.main, seeds=range(examples(500)), hosts=scenes.right, check=scenes.check_progress)


async def fragile() -> None:
    """It does not survive the loss of its link."""
    async with connect(URL, max_reconnect_attempts=0) as nc:
        for _ in range(10):
            await asyncio.sleep(0.1)
            await nc.flush()


def test_a_failure_is_shrunk_to_what_it_takes() -> None:
    reports: list[Report] = []
    found = first_failing(fragile, seeds=range(50), on_report=reports.append)
    assert found is not None
    assert found is not reports[-1]
    assert [report.error for report in reports[:-1]] == [None] * (len(reports) - 1)
    assert len(found.faults) == 1 <= len(reports[-1].faults)
    assert found.conditions.jitter == 0.0
    assert type(found.error) is type(reports[-1].error)


def test_durations_become_shorter() -> None:
    async def main() -> None:
        async with connect(URL, timeout=1) as nc:
            await asyncio.sleep(1)
            await nc.flush()

    faults = [Fault("pause", 0.9, 32.0), Fault("partition", 40.0, 1.0), Fault("cut", 80.0)]
    found = first_failing(main, seeds=[1], faults=faults)
    assert found is not None
    (fault,) = found.faults
    assert (fault.kind, fault.lasts) == ("pause", 4.0)
    assert found.conditions == NetworkConditions()


def test_a_program_that_fails_without_faults_is_not_searched() -> None:
    async def main() -> None:
        raise LookupError("always")

    with pytest.raises(AssertionError, match=r"(?s)fails without any fault.*LookupError: always"):
        search(main)


def test_a_host_with_a_defect_is_not_searched() -> None:
    async def worker() -> None:
        raise TypeError("a defect")

    async def main() -> None:
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="the host worker fails without any fault"):
        search(main, hosts={"worker": worker})


@promise("A program that is not deterministic is reported as that: each failure is run three times.")
def test_a_program_that_is_not_deterministic_is_an_error() -> None:
    calls = itertools.count()

    async def main() -> None:
        async with connect(URL) as nc:
            for _ in range(next(calls)):
                await nc.flush()
        raise LookupError

    with pytest.raises(NotDeterministicError, match="not deterministic"):
        search(main, seeds=[1], faults=[Fault("cut", 9.0)])


def test_the_plan_says_what_there_is_to_disturb() -> None:
    async def main() -> None:
        async with connect(URL) as nc:
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s"], num_replicas=3)
            with pytest.warns(DurabilityWarning):
                await js.create_stream("A", subjects=["a"], storage="file", persist_mode="async")
            for _ in range(50):
                await js.publish("s", b"x" * 100)
        await asyncio.sleep(1000)

    async def worker() -> None:
        pass

    made = plan(main, hosts={"worker": worker})
    assert made.seconds < 2
    assert made.links == 3
    assert made.size > 5000
    assert (made.streams, made.replicated, made.hosts, made.crashes) == (("S", "A"), ("S",), ("worker",), True)
    kinds = {fault.kind for seed in range(200) for fault in made(seed)}
    assert kinds >= {"cut", "cut_after", "partition", "pause", "restart", "crash", "leaderless", "lag", "kill"}


def test_errors_are_the_same_but_for_numbers() -> None:
    async def main() -> None:
        async with connect(URL) as nc:
            await asyncio.sleep(5)
            await nc.flush()
        raise LookupError(f"at {asyncio.get_running_loop().time()} s")

    found = first_failing(main, seeds=[1], faults=[Fault("cut", 1.0), Fault("pause", 2.0, 1.0)])
    assert found is not None
    assert found.faults == ()


async def stores_twice() -> None:
    """A lost answer makes it store a message once more."""
    async with connect(URL) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"])
        await asyncio.sleep(1)
        while True:
            try:
                await js.publish("s")
                return
            except Error:
                await asyncio.sleep(0.1)


def cut_later(seed: int) -> list[Fault]:
    return [Fault("cut", 1 + seed / 1000), Fault("pause", 50.0, 1.0)]


def check_once(report: Report) -> None:
    """Where it fails, pytest adds lines with the addresses of objects, which differ from run to run."""
    assert len(list(report.server.stream("S"))) == 1, "stored twice"


@promise("A failure raises `SimulationFailedError`, an `AssertionError` with the `report`.")
def test_what_a_search_finds_is_raised_with_its_report() -> None:
    with pytest.raises(SimulationFailedError, match="stored twice") as caught:
        search(stores_twice, check=check_once, faults=cut_later)
    found = caught.value.report
    assert str(caught.value) == str(found)
    assert caught.value.__cause__ is found.error
    assert [fault.kind for fault in found.faults] == ["cut"]  # it is shrunk
    with pytest.raises(AssertionError, match="stored twice"):
        simulate(stores_twice, check=check_once, seed=found.seed, faults=found.faults, conditions=found.conditions)
    returned = search(stores_twice, check=check_once, faults=cut_later, must_pass=False)
    assert returned is not None
    assert (str(returned.error)[:12], returned.digest) == ("stored twice", found.digest)


@promise("A failure raises `SimulationFailedError`, an `AssertionError` with the `report`.")
def test_what_passes_is_returned() -> None:
    assert search(stores_twice, check=check_once, seeds=[1], faults=()) is None
    assert simulate(stores_twice, check=check_once, faults=()).error is None


async def fails() -> None:
    raise LookupError("here")


def fails_blocking() -> None:
    raise LookupError("here")


@promise("A failure raises `SimulationFailedError`, an `AssertionError` with the `report`.")
@pytest.mark.parametrize("clients", get_args(Clients))
def test_a_failure_is_raised_with_each_kind_of_clients(clients: Clients) -> None:
    program = fails if clients in ("asyncio", "trio") else fails_blocking
    for run in (simulate, partial(search, seeds=[0])):
        with pytest.raises(SimulationFailedError, match="LookupError: here") as caught:
            run(program, clients=clients, faults=())
        assert isinstance(caught.value.report.error, LookupError)
        report = run(program, clients=clients, faults=(), must_pass=False)
        assert report is not None
        assert repr(report.error) == "LookupError('here')"


def test_random_faults_by_default() -> None:
    async def main() -> None:
        pass

    seen: set[Any] = {len(simulate(main, seed=seed).faults) for seed in range(30)}
    assert seen >= {0, 1, 2, 3}


def test_no_seed_is_no_proof() -> None:
    async def main() -> None:
        pass

    with pytest.raises(LocalProtocolError, match="no seeds"):
        search(main, seeds=())
