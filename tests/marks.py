"""Marks on tests: the requirement that a test shows, the promise that it attacks, the known fault that it fails on.

* ``@requirement(13, 14)``: rows of ``REQUIREMENTS.md``, by their numbers.
* ``@promise("Only a `msg_id` makes it safe")``: a line of ``PROMISES.md``, or a piece that no other line has.
* ``@known_fault("two heartbeats missed")``: a line of ``FAULTS.md``, likewise.
* ``case`` is one case of a parametrised test, as in its id. ``of`` is the section of a promise that two have.
* The class of a state machine has the marks of the ``TestCase`` that is made of it.

A mark changes nothing of its test. Marks are read from the source of all tests, so no test is imported for them.
``python -m tests.marks 90 heartbeats`` prints the tests of row 90, and of each line that has the word.

Not here: whether each line has a test (``test_marks``), and whether the pages are whole (``test_promises``).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

TESTS: Final = Path(__file__).resolve().parent
PAGES: Final = {
    "requirement": TESTS / "REQUIREMENTS.md",
    "promise": TESTS / "PROMISES.md",
    "known_fault": TESTS / "FAULTS.md",
}
_MARKED: Final = re.compile(rf"^\s*@(?:{'|'.join(PAGES)})\(", re.MULTILINE)
_ROW: Final = re.compile(r"\| (\d+) \| (.*?) \|")
_NO_PROMISE: Final = "(no promise) "

T = TypeVar("T")


def requirement(*rows: int, case: str = "") -> Callable[[T], T]:
    """The test fails without what these rows of ``REQUIREMENTS.md`` ask for."""
    return _unchanged


def promise(words: str, *, of: str = "", case: str = "") -> Callable[[T], T]:
    """The test tries to break this promise of ``PROMISES.md``."""
    return _unchanged


def known_fault(words: str, *, case: str = "") -> Callable[[T], T]:
    """The test fails on this fault of other clients, which is in ``FAULTS.md``."""
    return _unchanged


def _unchanged(test: T) -> T:
    return test


class Line(NamedTuple):
    """What a page says that tests are marked with. Only a row of a table has a number."""

    section: str
    words: str
    number: int | None = None


class Mark(NamedTuple):
    """A mark with its test, which is a pytest node id below ``tests/``."""

    kind: str
    name: int | str
    section: str
    test: str


def lines(page: str) -> Iterator[Line]:
    """The items of a page, and the rows with a number, below their headings. Each is on a line of its own."""
    section = ""
    for text in page.splitlines():
        if text.startswith("## "):
            section = text.removeprefix("## ")
        elif row := _ROW.match(text):
            yield Line(section, row[2], int(row[1]))
        elif text.startswith("- "):
            yield Line(section, text.removeprefix("- "))


@cache
def lines_of(kind: str) -> tuple[Line, ...]:
    """What there is to be marked with."""
    page = PAGES[kind].read_text(encoding="utf-8")
    return tuple(line for line in lines(page) if not line.words.startswith(_NO_PROMISE))


def described() -> list[Line]:
    """What sounds like a promise, and describes something."""
    found = lines(PAGES["promise"].read_text(encoding="utf-8"))
    return [
        line._replace(words=line.words.removeprefix(_NO_PROMISE))
        for line in found
        if line.words.startswith(_NO_PROMISE)
    ]


def marks_in(source: str, file: str) -> Iterator[Mark]:
    """The marks in a module. ValueError: what has one is no test, or its words are no literals."""
    tree = ast.parse(source)
    tests: dict[str, str] = {}  # by the name of a function, or of a state machine
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                tests[name] = name
            case ast.Assign([ast.Name(name)], ast.Attribute(ast.Name(machine), "TestCase")):
                tests[machine] = name
    methods = (method for statement in tree.body if isinstance(statement, ast.ClassDef) for method in statement.body)
    for node in chain(tree.body, methods):
        for decorator in getattr(node, "decorator_list", ()):
            match decorator:
                case ast.Call(ast.Name(kind), names, options) if kind in PAGES:
                    test = tests.get(getattr(node, "name", "")) if node in tree.body else None
                    if test is None:
                        raise ValueError(f"{file}:{decorator.lineno}: what is marked is no test")
                    given = {option.arg: ast.literal_eval(option.value) for option in options}
                    case = f"[{given['case']}]" if "case" in given else ""
                    for each in map(ast.literal_eval, names):
                        yield Mark(kind, each, given.get("of", ""), f"{file}::{test}{case}")


@cache
def marks() -> tuple[Mark, ...]:
    """Those of all tests."""
    found: list[Mark] = []
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if _MARKED.search(source):
            found += marks_in(source, path.relative_to(TESTS).as_posix())
    return tuple(found)


def named(mark: Mark, among: Sequence[Line]) -> Line:
    """The line that a mark names: by its number, by all of its words, or by a piece. ValueError: none, or several."""
    if isinstance(mark.name, int):
        found = [line for line in among if line.number == mark.name]
    else:
        within = [line for line in among if mark.section in ("", line.section)]
        found = [line for line in within if line.words == mark.name]
        found = found or [line for line in within if mark.name in line.words]
    if len(found) != 1:
        raise ValueError(f"{mark.test}: {len(found)} lines are meant by {mark.name!r}")
    return found[0]


@cache
def marked(kind: str) -> dict[Line, list[str]]:
    """The tests of each line, in the order of the lines. ValueError: a mark of what is not there."""
    among = lines_of(kind)
    found: dict[Line, list[str]] = {line: [] for line in among}
    for mark in marks():
        if mark.kind == kind:
            found[named(mark, among)].append(mark.test)
    return found


def main(asked: Sequence[str]) -> None:
    """Print the tests of rows and of lines."""
    for line, tests in [pair for kind in PAGES for pair in marked(kind).items()]:
        if any(str(line.number) == each or (not each.isdecimal() and each in line.words) for each in asked):
            print(f"{line.number or line.section}: {line.words}", *tests, sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
