"""Bugs planted into the library are found by simulation, and without them the first of these seeds pass."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from jsproto_io.testing.simulation import Report, search
from jsproto_io.testing.simulation.search import plan
from tests.effort import examples, first
from tests.simulation import workloads
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.workloads import Workload

WORKLOADS = {name: value for name, value in vars(workloads).items() if isinstance(value, Workload)}
MIXED = [mutation for start in range(4) for mutation in MUTATIONS[start::4]]
"""In an order in which the first ones are of different workloads."""
SEEDS = range(300)
"""Within these each planted bug has to be found, and the library as it is has to pass a share of them."""


class FoundError(Exception):
    """A seed failed. To shrink it takes longer than to find it, and is tested elsewhere."""


def end_where_it_fails(report: Report) -> None:
    if report.error is not None:
        raise FoundError


@cache
def options_of(name: str) -> dict[str, Any]:
    """The options of a workload, with faults that were planned without any bug."""
    wanted = WORKLOADS[name]
    options = wanted.options | {"check": wanted.check}
    return options if "faults" in options else options | {"faults": plan(wanted.main, **options)}


@pytest.mark.parametrize("mutation", first(MIXED, 6), ids=[mutation.name for mutation in MIXED])
def test_a_planted_bug_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(name for name, value in WORKLOADS.items() if value is mutation.workload)
    options = options_of(name)
    mutation.plant(monkeypatch)
    with pytest.raises(FoundError):
        search(mutation.workload.main, seeds=SEEDS, on_report=end_where_it_fails, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_library_passes_the_same_seeds(name: str) -> None:
    search(WORKLOADS[name].main, seeds=SEEDS[: examples(len(SEEDS))], **options_of(name))


def test_there_are_enough_of_them() -> None:
    assert len(MUTATIONS) >= 12
    assert {id(mutation.workload) for mutation in MUTATIONS} == {id(workload) for workload in WORKLOADS.values()}
