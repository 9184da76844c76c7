"""Proving a position against the server role: what a crash gave out again is not what was published."""

from __future__ import annotations

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.read.proof import prove
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.position import StreamPosition
from jsproto.rules.position import ELECTION, PositionCheck, StreamFacts, Verdict
from jsproto.testing.pair import Pair


def paired() -> Pair:
    pair = Pair(connect_options(reconnect_time_wait=0.1))
    pair.server.add_stream(StreamConfig("S", subjects=["s.>"], persist_mode="async"), 0.0)
    pair.connect()
    return pair


def publish(pair: Pair, count: int) -> None:
    for number in range(count):
        pair.advance(0.01)
        pair.run_until(pair.js.publish(f"s.{number}", b"x", now=pair.now))


def position(pair: Pair, seq: int) -> StreamPosition:
    facts = StreamFacts.of(pair.run_until(pair.js.stream_info("S", now=pair.now)))
    time = pair.run_until(pair.js.get_msg("S", seq, level="leader", now=pair.now)).timestamp
    return StreamPosition("S", seq, facts.identity, time)


def ask(pair: Pair, check: PositionCheck) -> Verdict:
    return pair.run_until(pair.client.run(prove(pair.js, check, now=pair.now)))


def crash(pair: Pair, since: float) -> None:
    pair.server.restart(pair.now, unsynced_since=since)
    pair.advance(1.0)


@pytest.mark.parametrize("seq", [1, 4, 10])
def test_the_same(seq: int) -> None:
    pair = paired()
    publish(pair, 10)
    check = PositionCheck(position(pair, seq))
    assert ask(pair, check) is Verdict.SAME
    publish(pair, 5)
    assert ask(pair, check) is Verdict.SAME


def test_deleted() -> None:
    pair = paired()
    publish(pair, 10)
    check = PositionCheck(position(pair, 6))
    pair.run_until(pair.js.delete_msg("S", 6, now=pair.now))
    assert ask(pair, check) is Verdict.GONE


def test_deleted_of_several_of_one_moment() -> None:
    pair = paired()
    for ticket in [pair.js.publish("s.x", b"x", now=pair.now) for _ in range(3)]:
        pair.run_until(ticket)
    check = PositionCheck(position(pair, 2))
    assert position(pair, 1).witness == check.position.witness
    pair.run_until(pair.js.delete_msg("S", 2, now=pair.now))
    assert ask(pair, check) is Verdict.GONE


def test_a_state_that_is_known_is_not_asked_for() -> None:
    pair = paired()
    publish(pair, 2)
    check = PositionCheck(position(pair, 2))
    info = pair.run_until(pair.js.stream_info("S", now=pair.now))
    publish(pair, 1)
    pair.run_until(pair.js.delete_msg("S", 2, now=pair.now))
    assert pair.run_until(pair.client.run(prove(pair.js, check, info=info, now=pair.now))) is Verdict.SAME


def test_purged() -> None:
    pair = paired()
    publish(pair, 10)
    check = PositionCheck(position(pair, 6))
    pair.run_until(pair.js.purge_stream("S", seq=9, now=pair.now))
    assert ask(pair, check) is Verdict.DROPPED
    assert check.facts is not None
    assert check.facts.missing(check.position) == 2


@pytest.mark.parametrize("again", [0, 3, 5, 12])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_given_out_again(again: int, is_deleted: bool) -> None:
    pair = paired()
    publish(pair, 5)
    lost_since = pair.now + 0.005
    publish(pair, 5)
    check = PositionCheck(position(pair, 10))
    crash(pair, lost_since)
    publish(pair, again)
    if is_deleted and again >= 5:
        pair.run_until(pair.js.delete_msg("S", 10, now=pair.now))
    assert ask(pair, check) is Verdict.ASK_AGAIN
    pair.advance(ELECTION)
    assert ask(pair, check) is Verdict.ROLLED_BACK


def test_made_anew() -> None:
    pair = paired()
    publish(pair, 5)
    check = PositionCheck(position(pair, 5))
    pair.run_until(pair.js.delete_stream("S", now=pair.now))
    pair.advance(1.0)
    pair.server.add_stream(StreamConfig("S", subjects=["s.>"]), pair.now)
    publish(pair, 8)
    assert ask(pair, check) is Verdict.ASK_AGAIN
    pair.advance(ELECTION)
    assert ask(pair, check) is Verdict.RECREATED
