"""An election that has begun before the verb: 503 means "not now". What waits has its time, and nobody says "gone"."""

from __future__ import annotations

import pytest

from jsproto.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.consume.message import JSMsg
from jsproto.errors import Error, NoRespondersError, NoStreamResponseError
from tests.marks import promise
from tests.pair.verbs import VERBS, Wire, prepare, prepared

ELECTION = 2.0  # seconds
TRUTH = "no leader now"
PUBLISHING = ("publish", "fast", "atomic")
ELSEWHERE = (*PUBLISHING, "fetch_no_wait", "ack", "ack_sync")  # in tests of their own


class Electing(Wire):
    """A stream that gets its leader back by itself."""

    back_at = float("inf")

    def exchange(self) -> None:
        if self.now >= self.back_at and "S" in self.server.leaderless:
            self.server.elect_leader("S", self.now)
        super().exchange()

    def deadline(self) -> float | None:
        when = super().deadline()
        if "S" not in self.server.leaderless or self.back_at == float("inf"):
            return when
        return self.back_at if when is None else min(when, self.back_at)


def electing(lasts: float) -> Electing:
    wire = prepare(Electing())
    wire.server.lose_leader("S")
    wire.back_at = wire.now + lasts
    return wire


@promise("A fetch waits through elections and lost links, and so does `messages()`.")
@promise("It waits, too, when it begins in one.")
@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if verb not in (*PUBLISHING, "fetch_no_wait", "ack", "ack_sync")]
)
def test_a_verb_that_begins_in_an_election(verb: str) -> None:
    permitted = repr(VERBS[verb](prepared()))
    wire = electing(ELECTION if verb != "pull" else 1.0)  # its fetch has 2 s
    assert repr(VERBS[verb](wire)) == permitted


@pytest.mark.parametrize("verb", PUBLISHING)
def test_what_is_published_in_an_election(verb: str) -> None:
    """Nothing is stored: a publish says so after the retries of ADR-22, a batch at once. None calls it gone."""
    with pytest.raises(NoStreamResponseError, match=TRUTH):
        VERBS[verb](electing(30.0))
    if verb == "publish":
        VERBS[verb](electing(0.3))


def test_a_fetch_that_does_not_wait() -> None:
    with pytest.raises(NoRespondersError, match=TRUTH):
        VERBS["fetch_no_wait"](electing(ELECTION))


@promise("`ack_sync` is sent again in an election until its time is over.")
@pytest.mark.parametrize("lasts", [ELECTION, 60.0])
def test_acknowledgements(lasts: float) -> None:
    wire = prepare(Electing())
    info = wire.run_until(wire.js.consumer_info("S", "d", now=wire.now))
    pull = wire.js.pull_consumer(info, JSMsg)
    fetch = pull.fetch(3, now=wire.now, expires=2.0)
    wire.run_until(fetch.done)
    messages = pull.take(fetch)
    wire.server.lose_leader("S")
    began = wire.now
    wire.back_at = began + lasts
    ticket = messages[0].ack_sync(now=wire.now, timeout=5.0)
    if lasts < 5.0:
        wire.run_until(ticket)
        assert messages[0].settled
        return
    with pytest.raises(NoRespondersError, match=TRUTH):
        wire.run_until(ticket)
    assert wire.now - began > 4.8
    assert not messages[0].settled


@pytest.mark.parametrize(
    ("gone", "kind"), [("delete_consumer", ConsumerNotFoundError), ("delete_stream", StreamNotFoundError)]
)
def test_what_does_not_exist_is_said_at_once(gone: str, kind: type[Error]) -> None:
    wire = prepared()
    info = wire.run_until(wire.js.consumer_info("S", "d", now=wire.now))
    pull = wire.js.pull_consumer(info, JSMsg)
    VERBS[gone](wire)
    fetch = pull.fetch(3, now=wire.now, expires=30.0)
    began = wire.now
    with pytest.raises(kind):
        wire.run_until(fetch.done)
    assert wire.now - began < 1.0
