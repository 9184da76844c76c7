"""Each requirement, promise and known fault has a test that is marked with it, and each mark names one of them.

Not here: whether the pages are whole (``test_promises``, ``test_requirements``).
"""

from __future__ import annotations

import re
from importlib import import_module
from itertools import chain
from textwrap import dedent
from typing import Any, Final

import pytest

from tests.marks import PAGES, TESTS, Line, Mark, lines, lines_of, main, marked, marks, marks_in, named

PAGE: Final = """
# Page

## One

- every message once
- every message once and in order

## Two

- every message once

| # | requirement |
|---|---|
| 7 | It counts. | ADR-50 |
"""
LINES: Final = [
    Line("One", "every message once"),
    Line("One", "every message once and in order"),
    Line("Two", "every message once"),
    Line("Two", "It counts.", 7),
]


def mark(name: int | str, section: str = "") -> Mark:
    return Mark("promise", name, section, "test_it.py::test_it")


def test_lines_of_a_page() -> None:
    assert [*lines(PAGE)] == LINES


def test_marks_of_a_module() -> None:
    source = """
        @requirement(13, 14)
        @requirement(15, case="a@2.15.1")
        @pytest.mark.slow
        def test_function(): pass

        @promise("once", of="One")
        async def test_coroutine(): pass

        @known_fault("it hangs")
        class Walk(RuleBasedStateMachine): pass

        TestWalk = Walk.TestCase
    """
    assert [*marks_in(dedent(source), "a/test_it.py")] == [
        Mark("requirement", 13, "", "a/test_it.py::test_function"),
        Mark("requirement", 14, "", "a/test_it.py::test_function"),
        Mark("requirement", 15, "", "a/test_it.py::test_function[a@2.15.1]"),
        Mark("promise", "once", "One", "a/test_it.py::test_coroutine"),
        Mark("known_fault", "it hangs", "", "a/test_it.py::TestWalk"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "@promise('a')\ndef helper(): pass",
        "@promise('a')\nclass Walk: pass",
        "def test_it(): pass\nclass TestAll:\n    @promise('a')\n    def test_it(self): pass",
        "@promise(WORDS)\ndef test_it(): pass",
        "@promise('a', case=CASE)\ndef test_it(): pass",
    ],
)
def test_a_mark_of_no_test_is_an_error(source: str) -> None:
    with pytest.raises(ValueError, match=r"no test|malformed"):
        [*marks_in(source, "test_it.py")]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (mark(7), LINES[3]),
        (mark("in order"), LINES[1]),
        (mark("every message once and in order"), LINES[1]),
        (mark("every message once", "One"), LINES[0]),
        (mark("every message", "Two"), LINES[2]),
    ],
)
def test_the_line_that_a_mark_names(given: Mark, line: Line) -> None:
    assert named(given, LINES) == line


@pytest.mark.parametrize(
    "given", [mark(8), mark("every message twice"), mark("every message once"), mark("every", "One"), mark("in", "Two")]
)
def test_a_mark_that_names_no_line_or_several_is_an_error(given: Mark) -> None:
    with pytest.raises(ValueError, match="test_it: [0-9] lines"):
        named(given, LINES)


@pytest.mark.parametrize("kind", PAGES)
def test_every_line_has_a_test(kind: str) -> None:
    tests = marked(kind)
    assert [line.words for line in tests if not tests[line]] == []
    assert [line.words for line in tests if len({*tests[line]}) < len(tests[line])] == [], "marked twice"


@pytest.mark.parametrize("kind", PAGES)
def test_nothing_is_there_twice(kind: str) -> None:
    assert len(set(lines_of(kind))) == len(lines_of(kind)) > 0


def cases(test: Any) -> list[str]:
    """The ids of a test that is parametrised once, by names."""
    (given,) = [each for each in test.pytestmark if each.name == "parametrize"]
    _, values = given.args
    return [given.kwargs.get("ids", str)(value) for value in values]


def test_a_case_is_one_of_its_test() -> None:
    for test in {mark.test for mark in marks() if mark.test.endswith("]")}:
        file, function, case = re.fullmatch(r"(.*)\.py::(\w+)\[(.*)\]", test).groups()  # type: ignore[union-attr]
        module = import_module(f"tests.{file.replace('/', '.')}")
        assert case in cases(getattr(module, function)), test


def test_tests_of_each_page_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for line in chain.from_iterable(lines_of(kind)[:1] for kind in PAGES):
        main([str(line.number or line.words)])
        title, test, *_ = capsys.readouterr().out.splitlines()
        assert line.words in title
        assert (TESTS / test.strip().partition("::")[0]).is_file()
