"""Docstrings and READMEs stay plain: few semicolons, long sentences and negations, and "after" instead of "behind".

``python -m tests.tools.words FILE`` prints each sentence that counts here.

Not here: comments in code, the changelog.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.readmes import FOLDERS, ROOT
from tests.tools.words import LONG, Words, counted, files

SEMICOLONS: Final = 5.0  # of 100 sentences: there have to be fewer
LONG_SENTENCES: Final = 2.0  # of 100 sentences: there may be as many
NEGATED: Final = 18.0  # of 100 sentences of docstrings: there have to be fewer
PASSIVE: Final = 24.0  # as NEGATED
PAGES: Final = [ROOT / folder / "README.md" for folder in FOLDERS]
MODULES: Final = [path for path in files(["jsproto", "transports"]) if path.suffix == ".py"]


counted_once = cache(counted)


def words_of(paths: list[Path]) -> Words:
    total = Words()
    for path in paths:
        total.add(counted_once(path))
    return total


@pytest.mark.parametrize("paths", [PAGES, MODULES, [*PAGES, *MODULES]], ids=["READMEs", "docstrings", "both"])
def test_they_are_plain(paths: list[Path]) -> None:
    found = words_of(paths)
    assert found.semicolons_in_100 < SEMICOLONS
    assert 100 * len(found.long) / found.sentences <= LONG_SENTENCES, f"more than {LONG} words: {found.long[:5]}"


def test_docstrings_say_what_is() -> None:
    """A reader wants to know what happens, and who does it. ``--show negated`` of the tool lists the others."""
    found = words_of(MODULES)
    assert found.negated_in_100 < NEGATED
    assert found.passive_in_100 < PASSIVE


@pytest.mark.parametrize(
    ("text", "negated", "passive"),
    [
        ("The server sends it.", 0, 0),
        ("It is not there.", 1, 0),
        ("Nothing is left, and nobody can't.", 1, 1),
        ("It was not yet read.", 1, 1),
        ("It has been sent.", 0, 1),
        ("It is red. The notes are another matter.", 0, 0),
        ("``not`` is a word, as `is sent` is.", 0, 0),
        ("Not here: what was sent, and ``X``. No word of it.", 0, 0),
        ("It ends. Not here: what was sent.", 1, 1),
    ],
)
def test_what_is_negated_and_passive(tmp_path: Path, text: str, negated: int, passive: int) -> None:
    module = tmp_path / "module.py"
    module.write_text(f'"""{text}"""\n', encoding="utf-8")
    found = counted(module)
    assert (len(found.negated), len(found.passive)) == (negated, passive)


def test_what_is_left_out_counts_no_sentence(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""It is not here.\n\nNot here: that.\n"""\n', encoding="utf-8")
    assert (counted(module).negated_in_100, counted(module).passive_in_100) == (100.0, 0.0)


def test_readmes_say_after() -> None:
    """A replica may lag behind; all else is after."""
    assert words_of(PAGES).behind == []


def test_a_page_that_is_not_plain_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"# Page\n\nIt waits; it goes on behind the gap. {'It is so long ' * 8}.\n", encoding="utf-8")
    found = counted(page)
    assert (found.semicolons_in_100, len(found.long), len(found.behind)) == (50.0, 1, 1)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("A replica lags behind.", 0),
        ("Replicas that lag behind, or lagged behind, or are lagging behind.", 0),
        ("It says how far behind the replica is.", 0),
        ("A replica lags behind the gap, and the message behind it waits.", 1),
        ("It is far behind.", 1),
    ],
)
def test_a_replica_may_lag_behind(tmp_path: Path, text: str, count: int) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"# Page\n\n{text}\n", encoding="utf-8")
    assert len(counted(page).behind) == count
