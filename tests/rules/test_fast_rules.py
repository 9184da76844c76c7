"""The life of a batch as a table: ends are ends, and every phase leads to one."""

from __future__ import annotations

from jsproto.rules.fast_batch import ENDED, FAST, FastPhase, FastStep


def test_nothing_leaves_an_end() -> None:
    assert not [pair for pair in FAST if pair[0] in ENDED]


def test_every_phase_can_be_reached_and_can_end() -> None:
    assert {FastPhase.IDLE, *FAST.values()} == set(FastPhase)
    for phase in set(FastPhase) - ENDED:
        ends = {following for (before, _), following in FAST.items() if before is phase}
        assert ends & ENDED, phase


def test_only_a_commit_finishes_and_only_a_started_batch_is_broken() -> None:
    assert [before for (before, step) in FAST if step is FastStep.FINISH] == [FastPhase.COMMITTING]
    assert {before for (before, step) in FAST if step is FastStep.BREAK} == {FastPhase.OPEN, FastPhase.COMMITTING}
