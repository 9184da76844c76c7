"""A part of the campaign of ``soak_objects``: a few puts, each of which meets faults."""

from __future__ import annotations

import pytest

from tests.integration.soak_objects import KINDS, soak
from tests.marks import promise


@promise("A put goes on after lost links and restarts for `resume_for` seconds")
@pytest.mark.parametrize("kind", KINDS)
def test_objects_are_whole_whatever_happens_while_they_are_put(kind: str) -> None:
    outcome = soak(6, 1_000_000, 7, [kind])
    assert outcome.violations == []
    assert outcome.faults[kind] >= outcome.puts[kind] == 6
