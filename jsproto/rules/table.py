"""How the tables of phases are written: each pair of a phase and an input has an entry, or is ignored by name.

* A table maps (phase, input) to the phase that follows, or to ``IGNORED``. A table of verdicts (``belief``) maps it to
  what is to be done, and each verdict leads to one phase: ``followed`` has the phases.
* A pair that is ignored leaves the phase as it is: what arrived is stale, duplicate or forged, or a verb that comes too
  late.
* A table with a hole, or with a pair that stands in it twice, raises ValueError when its module is imported.

Not here: the tables, and the machines that step them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final, Never, TypeAlias, TypeVar

P = TypeVar("P", bound=Enum)
I = TypeVar("I")  # noqa: E741 (the input of an automaton)
V = TypeVar("V", bound=Enum)

Table: TypeAlias = dict[tuple[P, I], P | None]
"""The phase that follows, by phase and input; ``IGNORED`` where the input changes nothing."""
Verdicts: TypeAlias = dict[tuple[P, I], V | None]
"""What is to be done, by phase and input; ``IGNORED`` where that is nothing."""

IGNORED: Final = None
"""The entry of a pair that is no step."""


def total(
    phases: type[P],
    inputs: Iterable[I],
    steps: Mapping[P, Mapping[I, V]],
    ignored: Mapping[P, Collection[I]],
) -> Verdicts[P, I, V]:
    """The table of ``steps``, in which the pairs of ``ignored`` are ``IGNORED``.

    ``phases`` and ``inputs``: all that there are. ``steps``: for each phase the phase that follows, or the verdict, by
    input. ``ignored``: for each phase the inputs that leave it as it is.

    Raises: ValueError: a pair is missing from the two, or stands in both.
    """
    table: Verdicts[P, I, V] = {}
    for phase in phases:
        row, nothing = steps.get(phase, {}), ignored.get(phase, ())
        for given in inputs:
            if (given in row) is (given in nothing):
                _refuse(phase, given)
            table[phase, given] = row.get(given, IGNORED)
    return table


def followed(table: Verdicts[P, I, V], leads_to: Mapping[V, P]) -> Table[P, I]:
    """The table of the phases that follow, where ``table`` has verdicts. ``leads_to``: the phase after each verdict.

    Raises: KeyError: a verdict leads nowhere.
    """
    return {pair: IGNORED if verdict is None else leads_to[verdict] for pair, verdict in table.items()}


def _refuse(phase: Enum, given: object) -> Never:
    name = given.name if isinstance(given, Enum) else getattr(given, "__name__", given)
    raise ValueError(f"a table needs exactly one entry for {phase.name} and {name}")
