"""The rows of REQUIREMENTS.md have numbers and sources.

Not here: that each has a test (``test_marks``).
"""

from __future__ import annotations

from typing import Final

from tests.citations import REQUIREMENTS, rows
from tests.marks import lines_of

ROWS: Final = lines_of("requirement")


def test_rows_are_numbered_from_1() -> None:
    text = REQUIREMENTS.read_text(encoding="utf-8")
    assert [row.number for row in ROWS] == rows(text) == [*range(1, len(ROWS) + 1)]


def test_every_row_has_a_source() -> None:
    lines = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if rows(line)]
    assert len(lines) == len(ROWS)
    assert [line for line in lines if not all(cell.strip() for cell in line.strip("|").split("|"))] == []
    assert [line for line in lines if line.count("|") != 4] == []
