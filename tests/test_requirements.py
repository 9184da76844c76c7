"""The tables of requirements are whole, and name only tests that exist."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests import requirements, requirements_consistency, requirements_direct, requirements_subscribe
from tests.node_ids import TESTS, check_exist, named_in

TABLES: Final = {
    requirements: range(1, 107),
    requirements_direct: range(107, 148),
    requirements_subscribe: range(180, 243),
    requirements_consistency: range(243, 259),
}
SHOWN: Final = {number: shown for table in TABLES for number, shown in table.SHOWN.items()}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_row_is_shown(table: ModuleType) -> None:
    assert sorted(table.SHOWN) == list(TABLES[table])


@pytest.mark.parametrize("number", list(SHOWN))
def test_a_row_names_tests_that_exist(number: int) -> None:
    words, tests = SHOWN[number]
    assert words
    check_exist(tests)


def test_a_test_that_is_gone_would_be_noticed() -> None:
    assert "test_every_row_is_shown" in named_in(Path(__file__))
    assert "test_no_such_thing" not in named_in(Path(__file__))
    assert "TestFastBatch" in named_in(TESTS / "stateful" / "test_fast_stateful.py")
