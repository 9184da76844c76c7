"""Random programs: the role and a real server answer the same."""

from __future__ import annotations

import pytest

from tests.integration.differential.__main__ import try_seeds
from tests.integration.differential.programs import THEMES, program

SEEDS = range(100)


@pytest.mark.slow
def test_no_program_shows_a_difference() -> None:
    assert try_seeds(SEEDS, 30) == []


def test_a_seed_is_a_program() -> None:
    assert program(7, 30) == program(7, 30) != program(8, 30)
    assert {len(program(seed, 30, theme)) for seed in range(9) for theme in THEMES} == {30}
