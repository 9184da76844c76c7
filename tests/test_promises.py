"""The tables of promises are whole: what READMEs and docstrings guarantee is quoted, with tests that exist."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType
from typing import Final

import pytest

import jsproto
import jsproto_io
import jsproto_io.nats_server
import jsproto_io.sync
from tests import (
    promises,
    promises_consuming,
    promises_docstrings,
    promises_managing,
    promises_publishing,
    promises_spark,
    promises_testing,
    promises_workers,
)
from tests.node_ids import check_exist
from tests.promises import Promise
from tests.readmes import READMES
from tests.sentences import STRONG_WORDS, docstrings, documented, fold, guarantees, sections, sentences

SECTIONS: Final = {title: fold(text) for readme in READMES.values() for title, text in sections(readme).items()}
SOUNDING: Final = [found for readme in READMES.values() for found in guarantees(readme)]
PARTS: Final = (
    promises,
    promises_consuming,
    promises_managing,
    promises_publishing,
    promises_spark,
    promises_testing,
    promises_workers,
)
PROMISED: Final = {section: rows for part in PARTS for section, rows in part.QUOTED.items()}
DESCRIBED: Final = {section: rows for part in PARTS for section, rows in part.DESCRIBED.items()}
QUOTED: Final = [(section, promise) for section, rows in PROMISED.items() for promise in rows]
DOCUMENTED: Final = [(place, promise) for place, table in promises_docstrings.QUOTED.items() for promise in table]
EXPORTS: Final = [
    *((jsproto_io.sync, name) for name in jsproto_io.sync.__all__),
    *((jsproto_io, name) for name in ("ConnectKeywords", "DurabilityWarning")),
    (jsproto_io.nats_server, "NatsServer"),
    *((jsproto, name) for name in jsproto.__all__ if not isinstance(getattr(jsproto, name), ModuleType | str)),
]
if find_spec("pyspark") is not None:
    import pyspark_jetstream

    EXPORTS.extend((pyspark_jetstream, name) for name in pyspark_jetstream.__all__)


def is_covered(sentence: str, pieces: list[str]) -> bool:
    """A piece of it is quoted, or it is a part of what is quoted."""
    return any(piece in sentence or sentence in piece for piece in pieces)


def words(row: tuple[str, Promise]) -> str:
    return row[1].words


@pytest.mark.parametrize(("section", "promise"), QUOTED, ids=[words(row) for row in QUOTED])
def test_a_readme_promises_it(section: str, promise: Promise) -> None:
    assert promise.words in SECTIONS[section]
    check_exist(promise.tests)


@pytest.mark.parametrize(("place", "promise"), DOCUMENTED, ids=[words(row) for row in DOCUMENTED])
def test_a_docstring_promises_it(place: str, promise: Promise) -> None:
    assert promise.words in docstrings(place)
    check_exist(promise.tests)


def quoted(section: str) -> list[str]:
    return [promise.words for promise in PROMISED.get(section, ())]


def unquoted(readme: str) -> list[str]:
    """The guarantees that are in neither table, at their section."""
    return [
        sentence
        for section, sentence in guarantees(readme)
        if not is_covered(sentence, [*quoted(section), *DESCRIBED.get(section, ())])
    ]


@pytest.mark.parametrize("folder", READMES)
def test_every_guarantee_of_a_readme_is_attacked(folder: str) -> None:
    assert unquoted(READMES[folder]) == []


@pytest.mark.parametrize("folder", READMES)
def test_a_new_guarantee_would_be_noticed(folder: str) -> None:
    new = "It never loses a message, whatever happens."
    assert unquoted(f"{READMES[folder]}\n{new}") == [new]


def test_a_new_rule_and_a_new_row_would_be_noticed() -> None:
    rules = "## Rules the core keeps\n"
    assert unquoted(READMES["jsproto"].replace(rules, f"{rules}\n* Bytes go in.\n")) == ["Bytes go in."]
    row = "| `delivery` | what is promised | what it needs |\n|---|---|---|\n"
    spark = READMES["transports/pyspark_jetstream"]
    new = "| `slow` | rows, slowly | time |"
    assert unquoted(spark.replace(row, f"{row}{new}\n")) == [new]


def test_a_section_has_one_table() -> None:
    """The tables go by titles: no two sections have the same, and no two parts the same section."""
    assert len(SECTIONS) == sum(len(sections(readme)) for readme in READMES.values())
    assert len(PROMISED) == sum(len(part.QUOTED) for part in PARTS)
    assert len(DESCRIBED) == sum(len(part.DESCRIBED) for part in PARTS)


def test_what_is_only_described_is_there_and_sounds_like_a_guarantee() -> None:
    """So the list stays as short as it can be."""
    for section, table in DESCRIBED.items():
        sounding = [sentence for title, sentence in SOUNDING if title == section]
        for piece in table:
            found = [sentence for sentence in sounding if piece in sentence]
            assert found, piece
            assert not all(is_covered(sentence, quoted(section)) for sentence in found), piece


def test_every_guarantee_of_a_docstring_is_attacked() -> None:
    pieces = [promise.words for _, promise in DOCUMENTED]
    pieces += [piece for table in promises_docstrings.DESCRIBED.values() for piece in table]
    missing = {}
    for module, name in EXPORTS:
        for text in documented(module, name):
            for sentence in sentences(text):
                if STRONG_WORDS.search(sentence) and not is_covered(sentence, pieces):
                    missing[sentence] = f"{module.__name__}:{name}"
    assert missing == {}


def test_sentences_are_those_of_the_text() -> None:
    readme = "# One\n\nFirst. Second,\ngoes on:\n\n* item `a`. More\n* other\n\n"
    readme += "```python\nx = 1  # ever\n```\n\n| a | b |\n|---|---|\n"
    assert list(sections(readme)) == ["One"]
    assert [*sentences(sections(readme)["One"])] == [
        "First.", "Second, goes on:", "item `a`.", "More", "other", "ever", "| a | b |", "|---|---|",
    ]  # fmt: skip
