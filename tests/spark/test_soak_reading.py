"""The soak of a streaming read judges what it sees. It runs a Spark of its own, so nothing here does."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark import soak_reading
from tests.spark.soak_reading import Reading, growth, main


def frame(*found: int) -> Any:
    """A micro-batch: rows, bytes, first and last sequence."""
    return SimpleNamespace(selectExpr=lambda *_: SimpleNamespace(head=lambda: found))


def test_memory_that_grows() -> None:
    assert growth([500.0, 100.0, 104.0, 102.0, 103.0]) == pytest.approx(103 / 104)
    assert growth([100.0, 100.0, 100.0, 100.0, 120.0]) == pytest.approx(1.2)
    assert growth([]) == growth([1.0, 2.0]) == 1.0


@pytest.mark.parametrize(
    ("second", "peaks", "verdict"),
    [
        ((5, 50, 11, 15), [9.0, 1.0, 1.0], 0),
        ((5, 50, 11, 15), [9.0, 1.0, 1.2], 1),
        ((5, 50, 12, 16), [9.0, 1.0, 1.0], 1),
        ((4, 40, 11, 15), [9.0, 1.0, 1.0], 1),
        ((5, 49, 11, 15), [9.0, 1.0, 1.0], 1),
    ],
)
def test_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    second: tuple[int, int, int, int],
    peaks: list[float],
    verdict: int,
) -> None:
    def run(minutes: float, rows: int, size: int) -> Reading:
        reading = Reading(os.getpid(), size)
        reading.take(frame(10, 100, 1, 10), 0)
        reading.take(frame(*second), 1)
        reading.peaks = peaks
        return reading

    monkeypatch.setattr(soak_reading, "run", run)
    assert main(["--size", "10"]) == verdict
    assert ("VIOLATION micro-batch 1" in capsys.readouterr().out) == (second != (5, 50, 11, 15))
