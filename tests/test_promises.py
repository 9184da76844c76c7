"""The page of promises is whole: it has what READMEs and docstrings guarantee, word for word.

Not here: that tests attack each promise (``test_marks``).
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from types import ModuleType
from typing import Final

import pytest

import jsproto
import jsproto_io
import jsproto_io.nats_server
import jsproto_io.sync
from tests.marks import described, lines_of
from tests.readmes import READMES
from tests.sentences import STRONG_WORDS, docstrings, documented, fold, guarantees, sections, sentences

SECTIONS: Final = {title: fold(text) for readme in READMES.values() for title, text in sections(readme).items()}
SOUNDING: Final = [found for readme in READMES.values() for found in guarantees(readme)]
PROMISED: Final = lines_of("promise")
DESCRIBED: Final = described()
EXPORTS: Final = [
    *((jsproto_io.sync, name) for name in jsproto_io.sync.__all__),
    *((jsproto_io, name) for name in ("ConnectKeywords", "DurabilityWarning")),
    (jsproto_io.nats_server, "NatsServer"),
    *((jsproto, name) for name in jsproto.__all__ if not isinstance(getattr(jsproto, name), ModuleType | str)),
]
if find_spec("pyspark") is not None:
    import pyspark_jetstream

    EXPORTS.extend((pyspark_jetstream, name) for name in pyspark_jetstream.__all__)


def is_place(section: str) -> bool:
    """Whether it is ``module:name``, where docstrings are."""
    return re.fullmatch(r"[\w.]+:\w+", section) is not None


def is_covered(sentence: str, pieces: list[str]) -> bool:
    """A piece of it is quoted, or it is a part of what is quoted."""
    return any(piece in sentence or sentence in piece for piece in pieces)


def test_it_is_promised() -> None:
    """Word for word, in the section of a README or in the docstrings of a place."""
    for section, words, _ in PROMISED:
        assert words in (docstrings(section) if is_place(section) else SECTIONS[section])


def test_the_page_goes_by_titles() -> None:
    """No two sections of the READMEs have the same."""
    assert len(SECTIONS) == sum(len(sections(readme)) for readme in READMES.values())


def quoted(section: str) -> list[str]:
    return [line.words for line in PROMISED if line.section == section]


def unquoted(readme: str) -> list[str]:
    """The guarantees that are no line of their section."""
    return [
        sentence
        for section, sentence in guarantees(readme)
        if not is_covered(sentence, [*quoted(section), *(line.words for line in DESCRIBED if line.section == section)])
    ]


@pytest.mark.parametrize("folder", READMES)
def test_every_guarantee_of_a_readme_has_a_line(folder: str) -> None:
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


def test_what_is_only_described_is_there_and_sounds_like_a_guarantee() -> None:
    """So there is as little of it as can be."""
    for section, piece, _ in DESCRIBED:
        if not is_place(section):
            found = [sentence for title, sentence in SOUNDING if title == section and piece in sentence]
            assert found, piece
            assert not all(is_covered(sentence, quoted(section)) for sentence in found), piece


def test_every_guarantee_of_a_docstring_has_a_line() -> None:
    pieces = [line.words for line in [*PROMISED, *DESCRIBED] if is_place(line.section)]
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
