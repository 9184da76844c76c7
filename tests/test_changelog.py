"""The changelog begins with what is not released, knows the version, and keeps the order of Keep a Changelog.

Not here: what a line says.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

import pytest

from jsproto import __version__
from tests.readmes import ROOT

CHANGES: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
CHANGELOG: Final = (ROOT / "jsproto" / "CHANGELOG.md").read_text(encoding="utf-8")
TITLES: Final = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)


def faults(changelog: str) -> list[str]:
    """The headings that are unknown, doubled or out of order, and the items that stand below none of CHANGES."""
    found: list[str] = []
    title = ""
    kinds: list[str] = []
    for line in changelog.splitlines():
        if line.startswith("## "):
            title, kinds = line, []
        elif line.startswith("### "):
            kinds.append(line.removeprefix("### "))
            if kinds != [kind for kind in CHANGES if kind in kinds]:
                found.append(f"{title}: {kinds[-1]}")
        elif line.startswith("* ") and not kinds:
            found.append(f"{title}: {line}")
    return found


def test_it_is_in_order() -> None:
    assert faults(CHANGELOG) == []


@pytest.mark.parametrize(
    "text", ["### Fixed\n### Added", "### Added\n### Added", "### News", "* an item", "### Added\n## 0.0.1\n* an item"]
)
def test_disorder_would_be_noticed(text: str) -> None:
    assert len(faults(f"## Unreleased\n{text}\n")) == 1


def test_the_newest_release_is_the_version() -> None:
    first, newest, *_ = TITLES
    assert (first, newest.partition(" - ")[0]) == ("Unreleased", __version__)


def test_each_release_has_a_date_and_they_descend() -> None:
    released = [title.partition(" - ")[::2] for title in TITLES[1:]]
    numbers = [tuple(map(int, version.split("."))) for version, _ in released]
    days = [date.fromisoformat(day) for _, day in released]
    assert numbers == sorted(set(numbers), reverse=True)
    assert days == sorted(days, reverse=True)
