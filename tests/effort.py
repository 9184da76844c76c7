"""How hard a run searches: the environment variable EFFORT scales the number of examples of every search.

1 is a thorough search. Without the variable a run does a tenth of that, so that it takes minutes, and leaves slow tests
out. ``EFFORT=10 pytest tests/stateful`` is a long search.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

import pytest

T = TypeVar("T")

EFFORT: Final = float(os.environ.get("EFFORT") or "0.1")
FEWEST: Final = 5
QUICK_DRIVERS: Final = ("sync", "asyncio", "trio")
"""The drivers that a quick run has: each other one shares all but a loop, or who reads, with one of them."""


def examples(most: int) -> int:
    """The number of examples where ``most`` are a thorough search."""
    return max(round(most * EFFORT), min(most, FEWEST))


def share(cases: Sequence[T], which: int, whole_at: float = 1) -> Sequence[T]:
    """A part of these cases, another one for each ``which``: all of them from an effort of ``whole_at`` on."""
    stride = max(round(whole_at / EFFORT), 1)
    return cases[which % stride :: stride]


def first(cases: Iterable[object], quick: int) -> list[Any]:
    """Cases for ``parametrize``, of which the first ``quick`` are for every run, and the others are slow."""
    return [case if number < quick else pytest.param(case, marks=pytest.mark.slow) for number, case in enumerate(cases)]


def own_driver(test: str) -> str:
    """On which driver a run has a test for which one is enough. Another name has another one."""
    return QUICK_DRIVERS[crc32(test.encode()) % len(QUICK_DRIVERS)]
