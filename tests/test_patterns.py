"""Regular expressions of the library mean the same on each Python, also on 3.11.0 to 3.11.4, which Debian 12 has."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
MODULES: Final = sorted(
    ".".join(path.relative_to(folder).with_suffix("").parts)
    for folder, package in ((ROOT, "jsproto"), (ROOT / "transports", "jsproto_io"))
    for path in (folder / package).rglob("*.py")
    if "re.compile(" in path.read_text(encoding="utf-8")
)
LOOKS: Final = {"ASSERT", "ASSERT_NOT"}


def operations(parsed: Any) -> Iterator[tuple[str, Any]]:
    """Each operation of a parsed expression, with its arguments."""
    for name, arguments in parsed:
        yield str(name), arguments
        for part in arguments if isinstance(arguments, tuple | list) else [arguments]:
            for inner in part if isinstance(part, list) else [part]:
                if type(inner).__name__ == "SubPattern":
                    yield from operations(inner)


def possessive_looks(pattern: str | bytes) -> list[str]:
    """The looks ahead or behind in a possessive repetition: before Python 3.11.5 they are ignored."""
    parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]
    repeated = [arguments[2] for name, arguments in operations(parsed) if name == "POSSESSIVE_REPEAT"]
    return [name for body in repeated for name, _ in operations(body) if name in LOOKS]


@pytest.mark.parametrize("module", MODULES)
def test_no_possessive_repetition_looks_ahead(module: str) -> None:
    pytest.importorskip(module)
    patterns = [each for each in vars(importlib.import_module(module)).values() if isinstance(each, re.Pattern)]
    assert {each.pattern for each in patterns if possessive_looks(each.pattern)} == set()


@pytest.mark.parametrize("pattern", [r"(?:(?!b)a)*+", rb"x(?:y|(?:a(?=b))?)++", r"(?:z(?:(?<=z)a)+)*+"])
def test_one_that_does_is_seen(pattern: str | bytes) -> None:
    assert possessive_looks(pattern)


def test_others_are_not() -> None:
    assert not possessive_looks(r"(?!b)[a-z]*+(?:(?=b)b)*(?:cd)++")
