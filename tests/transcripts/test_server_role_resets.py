"""Recorded resets of consumers, answered again by the server role: the same answers, deliveries and silence."""

from __future__ import annotations

import pytest

from tests.marks import requirement
from tests.transcripts.test_server_role_consuming import Replay

SCENARIOS = ("basic", "errors", "old_ack", "policies", "push", "waiting_pull", "workqueue")


def run(replay: Replay, scenario: str) -> None:
    """Replay a scenario, with what happened before it."""
    if scenario == "policies":  # two messages are older than the start of a consumer, three are not
        replay.store_up_to(2)
        replay.advance(13.6)
        replay.server.handle_timeout(replay.now)
        replay.store_up_to(5)
    replay.run({})


@requirement(168, 169, 171, 174, case="basic")
@requirement(171, case="push")
@requirement(172, 173, case="policies")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_server_role_answers_as_the_reference(scenario: str) -> None:
    name = f"source-reset_{scenario}@2.15.1"
    run(Replay(name, f"{name}.json"), scenario)
