"""What is true of every table of phases: no hole, no dead end, no phase that is never reached; and it is drawn."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Mapping
from enum import Enum
from itertools import product
from typing import Any

import pytest

import jsproto.rules
from jsproto.rules.table import IGNORED, Table, total
from jsproto.wire.frames import Ping
from tests.tools import draw_tables
from tests.tools.draw_tables import TABLES, Drawn


class Door(Enum):
    OPEN = "it is open"
    SHUT = "it is shut"


class Push(Enum):
    OUT = "away"
    IN = "here"


STEPS: dict[Door, dict[Push, Door]] = {Door.OPEN: {Push.IN: Door.SHUT}, Door.SHUT: {Push.OUT: Door.OPEN}}
IGNORED_PUSHES: dict[Door, set[Push]] = {Door.OPEN: {Push.OUT}, Door.SHUT: {Push.IN}}

every_table = pytest.mark.parametrize("drawn", TABLES, ids=lambda drawn: drawn.title)


def following(table: Table[Any, Any], phase: Enum) -> set[Enum]:
    return {after for (before, _), after in table.items() if before is phase and after is not IGNORED}


def reachable(table: Table[Any, Any], begins: Collection[Enum]) -> set[Enum]:
    found: set[Enum] = set()
    new = set(begins)
    while new:
        found |= new
        new = set().union(*(following(table, phase) for phase in new)) - found
    return found


def test_a_table_has_one_entry_for_each_pair() -> None:
    assert total(Door, Push, STEPS, IGNORED_PUSHES) == {
        (Door.OPEN, Push.OUT): IGNORED, (Door.OPEN, Push.IN): Door.SHUT,
        (Door.SHUT, Push.OUT): Door.OPEN, (Door.SHUT, Push.IN): IGNORED,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "ignored", "pair"),
    [
        (STEPS, {Door.OPEN: {Push.OUT}}, "SHUT and IN"),
        (STEPS, {**IGNORED_PUSHES, Door.OPEN: set(Push)}, "OPEN and IN"),
        ({Door.OPEN: {Push.IN: Door.SHUT}}, IGNORED_PUSHES, "SHUT and OUT"),
    ],
)
def test_a_hole_or_a_pair_that_stands_there_twice_is_refused(
    steps: Mapping[Door, Mapping[Push, Door]], ignored: Mapping[Door, Collection[Push]], pair: str
) -> None:
    with pytest.raises(ValueError, match=f"exactly one entry for {pair}"):
        total(Door, Push, steps, ignored)


def test_an_input_that_is_a_frame_is_named_too() -> None:
    with pytest.raises(ValueError, match="OPEN and Ping"):
        total(Door, [Ping], {}, {})


@every_table
def test_every_pair_is_there(drawn: Drawn) -> None:
    inputs = {given for _, given in drawn.table}
    assert set(drawn.table) == set(product(type(drawn.begins[0]), inputs))
    for kind in {type(given) for given in inputs if isinstance(given, Enum)}:
        assert set(kind) <= inputs


@every_table
def test_every_phase_can_be_reached_and_leads_to_an_end(drawn: Drawn) -> None:
    everything = set(draw_tables.phases(drawn.table))
    assert reachable(drawn.table, drawn.begins) == everything
    for phase in everything:
        assert any(not following(drawn.table, end) for end in reachable(drawn.table, [phase])), phase


@every_table
def test_every_input_is_a_step_somewhere(drawn: Drawn) -> None:
    assert {given for (_, given), after in drawn.table.items() if after is not IGNORED} == {
        given for _, given in drawn.table
    }


def test_every_table_is_drawn() -> None:
    made = []
    for module in pkgutil.iter_modules(jsproto.rules.__path__):
        names = vars(importlib.import_module(f"jsproto.rules.{module.name}")).values()
        made += [id(value) for value in names if isinstance(value, dict) and is_table(value)]
    drawn = [id(each.table) for each in TABLES] + [id(each.verdicts) for each in TABLES if each.verdicts is not None]
    assert sorted(made) == sorted(drawn)


def is_table(value: dict[Any, Any]) -> bool:
    return all(isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], Enum) for key in value)


def test_the_diagrams_are_those_of_the_tables() -> None:
    text = draw_tables.PAGE.read_text(encoding="utf-8")
    assert text == draw_tables.render(text), "run: python -m tests.tools.draw_tables"


@every_table
def test_anything_else_has_one_meaning(drawn: Drawn) -> None:
    for phase in draw_tables.phases(drawn.table):
        arrows = [arrow for arrow in draw_tables.arrows(drawn) if arrow.strip().startswith(f"{phase.name} -->")]
        assert sum("anything else" in arrow for arrow in arrows) <= 1


def test_a_stale_diagram_would_be_noticed() -> None:
    text = draw_tables.PAGE.read_text(encoding="utf-8")
    assert draw_tables.render(text.replace("IDLE --> STARTING: START", "IDLE --> OPEN: START")) == text


def test_without_its_marks_nothing_is_drawn() -> None:
    for text in ("", draw_tables.FIRST, draw_tables.LAST):
        with pytest.raises(ValueError, match="must be there"):
            draw_tables.render(text)
