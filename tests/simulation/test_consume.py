"""Callbacks and dead letters in simulated time: what holds with any faults, and planted bugs that are found."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from jsproto.client.consume import dead_letters
from jsproto.client.consume.message import ACK, JSMsg, send_ack
from jsproto.client.consume.schedule import Job
from jsproto.client.consume.work import ConsumerWork, FailureRule
from jsproto.testing import NetworkConditions
from jsproto_io.testing.simulation import Report, search
from tests.effort import examples
from tests.marks import promise
from tests.simulation import consuming, scenes
from tests.simulation.both import first_failing, report_of

SEEDS = range(200)
JITTER = NetworkConditions(latency=0.003, jitter=0.02)


def first_out_of_order(seeds: range) -> Report | None:
    """The first of the seeds with which orders of a customer change places."""
    for seed in seeds:
        report = report_of(consuming.in_order, seed=seed, faults=[], conditions=JITTER, check=consuming.check_order)
        if report.error is not None:
            return report
    return None


@promise("| returns | it is acknowledged, unless the callback has settled it |")
@promise("a lost link do not end it.")
@pytest.mark.slow
def test_nothing_is_acknowledged_before_its_callback_has_returned() -> None:
    search(scenes.main, seeds=SEEDS[: examples(200)], hosts=consuming.workers, check=scenes.check_progress)


@promise("| returns | it is acknowledged, unless the callback has settled it |")
@pytest.mark.slow
def test_an_early_acknowledgement_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = ConsumerWork.take

    def hasty(self: ConsumerWork[JSMsg], now: float) -> Any:
        found = take(self, now)
        if isinstance(found, Job):
            send_ack(found.message, ACK)
        return found

    monkeypatch.setattr(ConsumerWork, "take", hasty)
    found = first_failing(scenes.main, seeds=SEEDS, hosts=consuming.workers, check=scenes.check)
    assert found is not None
    assert "were acknowledged, and have no bill" in str(found.error)


@promise("messages of one key are worked on one after the other, in the order of the stream.")
def test_order_is_kept_within_a_key() -> None:
    found = first_out_of_order(range(examples(200)))
    assert found is None, found


@promise("messages of one key are worked on one after the other, in the order of the stream.")
def test_a_key_that_does_not_wait_for_what_comes_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailureRule, "again_within", lambda *_: None)
    found = first_out_of_order(SEEDS)
    assert found is not None
    assert "out of order" in str(found.error)


@promise("Several programs may keep the same dead letters.")
@promise("Each dead letter is stored once")
@pytest.mark.slow
def test_dead_letters_are_stored_once() -> None:
    seeds = SEEDS[: examples(200)]
    search(consuming.dead_letters, seeds=seeds, hosts=consuming.undertakers, check=consuming.check_dead_letters)


@promise("Each dead letter is stored once")
@pytest.mark.slow
def test_a_dead_letter_that_is_stored_without_a_look_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(js: Any, plan: Any, letter: Any, now: float, *_: Any, **__: Any) -> Generator[Any, Any, Any]:
        return (yield js.publish(f"dead.{letter.seq}", letter.message.data, now=now))

    monkeypatch.setattr(dead_letters, "_store", careless)
    found = first_failing(
        consuming.dead_letters, seeds=SEEDS, hosts=consuming.undertakers, check=consuming.check_dead_letters
    )
    assert found is not None
    assert "is there twice" in str(found.error)
