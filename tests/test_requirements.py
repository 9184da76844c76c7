"""The tables of requirements have every row of REQUIREMENTS.md, and name only tests that exist."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests import (
    requirements,
    requirements_consistency,
    requirements_direct,
    requirements_migration,
    requirements_sourcing,
    requirements_subscribe,
)
from tests.citations import REQUIREMENTS, rows
from tests.node_ids import TESTS, check_exist, named_in
from tests.sentences import sections

TABLES: Final = {
    requirements: range(1, 107),
    requirements_direct: range(107, 149),
    requirements_sourcing: range(149, 180),
    requirements_subscribe: range(180, 243),
    requirements_consistency: range(243, 259),
    requirements_migration: range(259, 268),
}
SECTIONS: Final = sections(REQUIREMENTS.read_text(encoding="utf-8"))
ROWS: Final = [row for text in SECTIONS.values() for row in rows(text)]
SHOWN: Final = {number: shown for table in TABLES for number, shown in table.SHOWN.items()}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_row_is_shown(table: ModuleType) -> None:
    assert sorted(table.SHOWN) == list(TABLES[table])


def test_the_tables_and_the_page_have_the_same_rows() -> None:
    assert list(chain.from_iterable(TABLES.values())) == ROWS == [*range(1, max(ROWS) + 1)]


def test_a_row_is_in_one_table() -> None:
    assert len(SHOWN) == sum(len(table.SHOWN) for table in TABLES)


def test_every_row_has_a_source() -> None:
    lines = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if rows(line)]
    assert len(lines) == len(ROWS)
    assert [line for line in lines if not all(cell.strip() for cell in line.strip("|").split("|"))] == []
    assert [line for line in lines if line.count("|") != 4] == []


@pytest.mark.parametrize("number", list(SHOWN))
def test_a_row_names_tests_that_exist(number: int) -> None:
    words, tests = SHOWN[number]
    assert words
    check_exist(tests)


def test_a_test_that_is_gone_would_be_noticed() -> None:
    assert "test_every_row_is_shown" in named_in(Path(__file__))
    assert "test_no_such_thing" not in named_in(Path(__file__))
    assert "TestFastBatch" in named_in(TESTS / "stateful" / "test_fast_stateful.py")
