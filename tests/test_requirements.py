"""The tables of requirements are whole, and name only tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests import requirements, requirements_consistency, requirements_direct, requirements_subscribe

TESTS: Final = Path(__file__).resolve().parent
TABLES: Final = {
    requirements: range(1, 107),
    requirements_direct: range(107, 148),
    requirements_subscribe: range(180, 243),
    requirements_consistency: range(243, 259),
}
SHOWN: Final = {number: shown for table in TABLES for number, shown in table.SHOWN.items()}


@cache
def named_in(file: Path) -> frozenset[str]:
    """What pytest finds in ``file``: functions, and state machines of hypothesis."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(name for name in names if name.lower().startswith("test"))


def check_exists(node: str) -> None:
    """A pytest's node id below this folder names a test; a record that it is for is there."""
    path, _, name = node.partition("::")
    file = TESTS / path
    assert file.is_file(), node
    function, _, scenario = name.partition("[")
    assert function in named_in(file), node
    if scenario:
        record, _, release = scenario.removesuffix("]").partition("@")
        files = [*(TESTS / "transcripts").glob(f"{record}@{release}.json")]
        assert files or [*(TESTS / "transcripts").glob(f"{record}.c0@{release}.json")], node


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_row_is_shown(table: ModuleType) -> None:
    assert sorted(table.SHOWN) == list(TABLES[table])


@pytest.mark.parametrize("number", list(SHOWN))
def test_a_row_names_tests_that_exist(number: int) -> None:
    words, tests = SHOWN[number]
    assert words
    assert len(set(tests)) == len(tests) >= 1
    for node in tests:
        check_exists(node)


def test_a_test_that_is_gone_would_be_noticed() -> None:
    assert "test_every_row_is_shown" in named_in(Path(__file__))
    assert "test_no_such_thing" not in named_in(Path(__file__))
    assert "TestFastBatch" in named_in(TESTS / "stateful" / "test_fast_stateful.py")
