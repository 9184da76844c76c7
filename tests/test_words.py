"""Docstrings and READMEs stay plain: few semicolons, few long sentences, and "after" where "behind" would be a riddle.

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
