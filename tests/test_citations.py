"""Whatever is cited can be looked up in the repository, or is a public document with a number."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.citations import (
    FACTS,
    REQUIREMENTS,
    ROOT,
    cited_documents,
    cited_facts,
    cited_rows,
    documents,
    fact_ids,
    files,
    rows,
    unknown,
    words_of,
)

HERE: Final = Path(__file__).resolve()
FILES: Final = [file for file in files() if file != HERE]
IDS: Final = fact_ids(FACTS.read_text(encoding="utf-8"))
DOCUMENTS: Final = documents(FACTS.read_text(encoding="utf-8"))
ROWS: Final = rows(REQUIREMENTS.read_text(encoding="utf-8"))


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_what_is_cited_is_there() -> None:
    for file in FILES:
        words = words_of(file)
        assert [each for each in cited_facts(words) if each not in IDS] == [], file
        assert [each for each in cited_documents(words) if each not in DOCUMENTS] == [], file
        assert unknown(words) == [], file


# Elsewhere a row is one of a data frame.
ABOUT_REQUIREMENTS: Final = [
    file for file in FILES if (ROOT / "tests") in file.parents and (ROOT / "tests" / "spark") not in file.parents
]


def test_a_cited_row_is_there() -> None:
    for file in ABOUT_REQUIREMENTS:
        assert [each for each in cited_rows(words_of(file)) if each not in ROWS] == [], file


@pytest.mark.parametrize("defined", [IDS, DOCUMENTS, ROWS], ids=["facts", "documents", "rows"])
def test_nothing_is_defined_twice(defined: list[object]) -> None:
    assert defined
    assert [each for each, times in Counter(defined).items() if times > 1] == []


def test_facts_are_numbered_from_1_in_their_sections() -> None:
    text = FACTS.read_text(encoding="utf-8")
    sections = [each for each in IDS if "." not in each]
    assert sections == [f"F{number}" for number in range(len(sections))]
    for section in sections:
        own = [each for each in IDS if each.startswith(f"{section}.")]
        assert own == [f"{section}.{number}" for number in range(1, len(own) + 1)]
        start, end = text.index(f"\n## {section} "), text.index(f"\n- {own[-1]} ")
        assert "\n## " not in text[start + 1 : end], "a fact stands in its section"


def test_the_pages_cite_what_is_there() -> None:
    assert [each for each in cited_facts(words_of(REQUIREMENTS)) if each not in IDS] == []
    for page in (FACTS, REQUIREMENTS):
        text = words_of(page)
        assert set(cited_documents(text)) <= set(DOCUMENTS)
        assert set(cited_rows(text)) <= set(ROWS)


def test_facts_are_cited() -> None:
    """The search finds citations: without one every file would pass."""
    cited = Counter(each for file in FILES for each in cited_facts(words_of(file)))
    assert {"F1.24", "F2", "F2.10", "F6.2"} <= set(cited)
    assert {"ADR-15", "ADR-31", "ADR-50"} <= {each for file in FILES for each in cited_documents(words_of(file))}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as servers do (FACTS.md F2.9, F2.10 and F3)", ["F2.9", "F2.10", "F3"]),
        ("as servers do (FACTS.md\n    F2.9)", ["F2.9"]),
        ("# as servers do (FACTS.md\n# F2.9)", ["F2.9"]),
        ("as servers do (F2.9)", ["F2.9 without FACTS.md"]),
        ("the key F12", []),
    ],
)
def test_citations_of_facts(text: str, found: list[str]) -> None:
    assert cited_facts(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("rows 13 to 15, 20", [13, 14, 15, 20]), ("row 7 and rows 1, 2 and 4", [7, 1, 2, 4]), ("a row of 7", [])],
)
def test_citations_of_rows(text: str, found: list[int]) -> None:
    assert cited_rows(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "(server facts, section 2)", "Server fact: this", "Facts: section 1 and 2.", "see section 4",
        "(sections 5 and 7)", "(consistency models, here)", "see DESIGN.md", "of peers.md", "rows of requirements.md",
    ],
)  # fmt: skip
def test_what_nobody_can_look_up_is_noticed(text: str) -> None:
    assert unknown(text)


@pytest.mark.parametrize("text", ["ADR50", "ADR 50", "ADR#430", "ADR-999"])
def test_a_document_that_is_not_listed_is_noticed(text: str) -> None:
    assert cited_documents(text)
    assert set(cited_documents(text)) - set(DOCUMENTS)


def test_what_is_not_said_to_readers_is_passed_over(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Of F1.1."""\nTEXT = "section 3"  # of F1.2\n\n\ndef run() -> None:\n    """Of F1.3."""\n')
    assert [each in words_of(module) for each in ("F1.1", "section 3", "F1.2", "F1.3")] == [True, False, True, True]
