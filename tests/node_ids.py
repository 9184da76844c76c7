"""The tests that tables name: pytest's node ids below ``tests/``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parent


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


def check_exist(nodes: Sequence[str]) -> None:
    """These are tests, at least one, none of them twice."""
    assert len(set(nodes)) == len(nodes) >= 1
    for node in nodes:
        check_exists(node)
