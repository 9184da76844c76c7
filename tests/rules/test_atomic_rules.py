"""The life of an atomic batch as a table: ends are ends, and every phase leads to one."""

from __future__ import annotations

from jsproto.rules.atomic_batch import ATOMIC, CLOSED, ENDED, AtomicPhase, AtomicStep
from jsproto.rules.table import IGNORED
from tests.marks import requirement

STEPS = {pair: after for pair, after in ATOMIC.items() if after is not IGNORED}


@requirement(39)
def test_nothing_leaves_an_end() -> None:
    assert not [pair for pair in STEPS if pair[0] in ENDED]


def test_every_phase_can_be_reached_and_can_end() -> None:
    assert {AtomicPhase.IDLE, *STEPS.values()} == set(AtomicPhase)
    for phase in set(AtomicPhase) - ENDED:
        for step, end in ((AtomicStep.FAIL, AtomicPhase.FAILED), (AtomicStep.DISCARD, AtomicPhase.DISCARDED)):
            assert STEPS[phase, step] is end


def test_only_a_commit_finishes() -> None:
    assert [before for (before, step) in STEPS if step is AtomicStep.FINISH] == [AtomicPhase.COMMITTING]
    assert {before for (before, step) in STEPS if step is AtomicStep.COMMIT} == {AtomicPhase.IDLE, AtomicPhase.OPEN}


def test_after_a_commit_only_its_refusal_opens_the_batch_again() -> None:
    opening = {step for (phase, step), after in STEPS.items() if phase in CLOSED and after not in CLOSED}
    assert opening == {AtomicStep.REFUSE}
    assert {after for (_, step), after in STEPS.items() if step is AtomicStep.COMMIT} <= CLOSED


def test_a_refused_message_leaves_the_batch_open() -> None:
    assert {after for (_, step), after in STEPS.items() if step is AtomicStep.REFUSE} == {AtomicPhase.OPEN}
    assert (AtomicPhase.STARTING, AtomicStep.REFUSE) not in STEPS
