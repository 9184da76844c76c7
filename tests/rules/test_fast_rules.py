"""The life of a batch as a table: ends are ends, and every phase leads to one."""

from __future__ import annotations

from jsproto.rules.fast_batch import CLOSED, ENDED, FAST, FastPhase, FastStep
from jsproto.rules.table import IGNORED

STEPS = {pair: after for pair, after in FAST.items() if after is not IGNORED}


def test_nothing_leaves_an_end() -> None:
    assert not [pair for pair in STEPS if pair[0] in ENDED]


def test_every_phase_that_has_not_ended_can_fail_and_be_abandoned() -> None:
    for phase in set(FastPhase) - ENDED:
        assert STEPS[phase, FastStep.FAIL] is FastPhase.FAILED
        assert STEPS[phase, FastStep.ABANDON] is FastPhase.ABANDONED


def test_after_a_commit_nothing_may_be_published() -> None:
    assert not [phase for (phase, step), after in STEPS.items() if phase in CLOSED and after not in CLOSED]
    assert {after for (_, step), after in STEPS.items() if step is FastStep.COMMIT} <= CLOSED


def test_only_a_commit_finishes_and_only_a_started_batch_is_broken() -> None:
    assert [before for (before, step) in STEPS if step is FastStep.FINISH] == [FastPhase.COMMITTING]
    assert {before for (before, step) in STEPS if step is FastStep.BREAK} == {FastPhase.OPEN, FastPhase.COMMITTING}
