"""A position proves itself: in streams with any history the verdict is what has happened to it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from jsproto.errors import APIError, RemoteProtocolError
from jsproto.grammar.config import StreamConfig, StreamInfo, StreamState
from jsproto.grammar.position import StreamPosition
from jsproto.rules.position import (
    ELECTION,
    GONE_AT,
    LOOKS,
    PositionCheck,
    StreamFacts,
    Verdict,
    drops_front,
    identity_of,
    is_other,
    judge,
)
from tests.effort import examples

POSITION = StreamPosition("S", 10, "then", 1_000)
FACTS = StreamFacts("then", 5, 20, 2_000)


@pytest.mark.parametrize(
    ("facts", "at", "first_since", "verdict"),
    [
        (FACTS, None, None, Verdict.LOOK),
        (FACTS, 1_000, None, Verdict.SAME),
        (FACTS, 1_001, None, Verdict.ROLLED_BACK),
        (FACTS, 0, None, Verdict.ROLLED_BACK),  # a clock that begins at the epoch
        (FACTS, GONE_AT, None, Verdict.LOOK_BACK),
        (FACTS, GONE_AT, 11, Verdict.GONE),
        (FACTS, GONE_AT, 0, Verdict.GONE),
        (FACTS, GONE_AT, 9, Verdict.ROLLED_BACK),
        (replace(FACTS, identity="now"), None, None, Verdict.RECREATED),
        (replace(FACTS, identity=None), 1_000, None, Verdict.SAME),
        (replace(FACTS, last_seq=9), None, None, Verdict.ROLLED_BACK),
        (replace(FACTS, last_seq=10, last_time=1_000), None, None, Verdict.SAME),
        (replace(FACTS, last_seq=10, last_time=1_001), None, None, Verdict.ROLLED_BACK),
        (replace(FACTS, last_seq=10, last_time=None), None, None, Verdict.LOOK),
        (replace(FACTS, first_seq=11), None, None, Verdict.GONE),
        (replace(FACTS, first_seq=12), None, None, Verdict.DROPPED),
        (replace(FACTS, first_seq=12, drops_front=False), None, None, Verdict.GONE),
    ],
)
def test_the_verdicts(facts: StreamFacts, at: int | None, first_since: int | None, verdict: Verdict) -> None:
    assert judge(POSITION, facts, at, first_since) is verdict


@pytest.mark.parametrize(
    ("position", "facts", "verdict"),
    [
        (replace(POSITION, witness=None), FACTS, Verdict.UNPROVEN),
        (replace(POSITION, witness=None), replace(FACTS, first_seq=12), Verdict.DROPPED),
        (replace(POSITION, witness=None), replace(FACTS, last_seq=9), Verdict.ROLLED_BACK),
        (replace(POSITION, identity=None), FACTS, Verdict.LOOK),
        (replace(POSITION, seq=0, witness=None), replace(FACTS, first_seq=1), Verdict.SAME),
        (replace(POSITION, seq=0, witness=None), FACTS, Verdict.DROPPED),
        (replace(POSITION, seq=0, witness=None), replace(FACTS, identity="now"), Verdict.RECREATED),
    ],
)
def test_positions_that_prove_less(position: StreamPosition, facts: StreamFacts, verdict: Verdict) -> None:
    assert judge(position, facts) is verdict


def test_how_much_is_missing() -> None:
    assert [replace(FACTS, first_seq=first).missing(POSITION) for first in (0, 10, 11, 12, 20)] == [0, 0, 0, 1, 9]


@pytest.mark.parametrize(
    ("config", "drops"),
    [
        ({}, True),  # only a purge can
        ({"retention": "interest", "max_msgs_per_subject": 1}, True),
        ({"retention": "workqueue", "allow_msg_ttl": True}, True),
        ({"max_age": 60.0, "max_msgs_per_subject": 1}, True),
        ({"max_msgs": 100, "max_msgs_per_subject": 1}, True),
        ({"max_bytes": 100, "allow_msg_ttl": True}, True),
        ({"max_msgs": 100, "max_msgs_per_subject": 1, "discard": "new"}, False),
        ({"max_msgs": -1, "max_bytes": -1, "max_msgs_per_subject": 1}, False),
        ({"allow_msg_ttl": True}, False),
    ],
)
def test_whose_front_is_dropped(config: dict[str, Any], drops: bool) -> None:
    assert drops_front(StreamConfig("S", **{"retention": "limits", **config})) is drops


HOUR = 3_600 * 10**9


@pytest.mark.parametrize(
    ("config", "since", "seconds"),
    [
        ({}, 9 * HOUR, 0.0),
        ({"max_msgs_per_subject": 1}, None, inf),
        ({"max_age": 3_600.0}, 9 * HOUR, 0.0),  # only a purge can, as well
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1}, 9 * HOUR, 3_599.0),
        ({"max_age": 3_600.0, "allow_msg_ttl": True}, 9 * HOUR, 3_599.0),
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1}, 8 * HOUR + 10**9 + 1, 1e-9),
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1}, 8 * HOUR + 10**9, 0.0),
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1}, 7 * HOUR, 0.0),
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1}, None, 1_799.0),  # all are younger than the stream
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1, "mirror": {"name": "O"}}, None, 0.0),
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1, "max_bytes": 100}, 9 * HOUR, 0.0),
        ({"max_age": 3_600.0, "max_msgs_per_subject": 1, "retention": "interest"}, 9 * HOUR, 0.0),
    ],
)
def test_how_long_the_front_is_spared(config: dict[str, Any], since: int | None, seconds: float) -> None:
    wanted = StreamConfig("S", **{"retention": "limits", **config})
    info = StreamInfo(wanted, created=9 * HOUR - HOUR // 2, state=StreamState(first_seq=12, last_seq=20), ts=9 * HOUR)
    facts = replace(StreamFacts.of(info), since=None) if since is not None else StreamFacts.of(info)
    assert facts.spares(since) == seconds
    assert StreamFacts.of(replace(info, ts=None)).spares(since) == (inf if seconds == inf else 0)
    position = StreamPosition("S", 10, facts.identity, since)
    assert judge(position, facts) is not (Verdict.DROPPED if seconds else Verdict.GONE)


def test_the_facts_of_an_answer() -> None:
    info = StreamInfo(StreamConfig("S"), created=77, state=StreamState(first_seq=2, last_seq=9, last_ts=5))
    assert StreamFacts.of(info) == StreamFacts("77", 2, 9, 5, drops_front=True, since=77)
    assert StreamFacts.of(info, "abc").identity == "abc"
    assert StreamFacts.of(info).position("S") == StreamPosition("S", 9, "77", 5)
    assert identity_of(replace(info, created=None)) is None


@pytest.mark.parametrize(
    ("created", "first_ts", "mirror", "since"),
    [
        (77, None, None, 77), (77, 77, None, 77), (77, 76, None, None),  # it was restored
        (77, 80, {"name": "O"}, None), (None, 80, None, None),
    ],
)  # fmt: skip
def test_how_old_messages_are_at_most(
    created: int | None, first_ts: int | None, mirror: Any, since: int | None
) -> None:
    state = StreamState(first_seq=2, last_seq=9, first_ts=first_ts)
    assert StreamFacts.of(StreamInfo(StreamConfig("S", mirror=mirror), created=created, state=state)).since == since


@pytest.mark.parametrize("identity", [None, "then"])
@pytest.mark.parametrize("witness", [None, 999, 1_000])
def test_a_stream_that_is_younger_than_the_message(identity: str | None, witness: int | None) -> None:
    """It is another one, where the identity does not say so already."""
    position, facts = StreamPosition("S", 10, identity, witness), replace(FACTS, since=1_000)
    is_another = identity is None and witness == 999
    assert (judge(position, facts) is Verdict.RECREATED) is is_another


def test_another_time_is_another_message() -> None:
    assert [is_other(POSITION, at) for at in (1_000, 1_001, 999, None)] == [False, True, True, False]
    assert not is_other(replace(POSITION, witness=None), 5)


@pytest.mark.parametrize("bad", [replace(FACTS, last_seq=9), replace(FACTS, identity="now")])
def test_one_answer_proves_nothing(bad: StreamFacts) -> None:
    check = PositionCheck(POSITION)
    assert check.state(bad, 5.0) is Verdict.ASK_AGAIN
    assert check.again_at == 5.0 + ELECTION
    assert check.state(bad, 5.0 + ELECTION / 2) is Verdict.ASK_AGAIN
    assert check.state(bad, 5.0 + ELECTION) is judge(POSITION, bad)


def test_two_answers_of_different_kinds_prove_it() -> None:
    check = PositionCheck(POSITION)
    assert check.state(replace(FACTS, last_seq=9), 0.0) is Verdict.ASK_AGAIN
    assert check.state(FACTS, ELECTION) is Verdict.LOOK
    assert check.message((10, 1_001), ELECTION) is Verdict.ROLLED_BACK


def test_a_good_answer_ends_the_doubt() -> None:
    check = PositionCheck(POSITION)
    assert check.state(replace(FACTS, last_seq=9), 0.0) is Verdict.ASK_AGAIN
    assert check.state(FACTS, 1.0) is Verdict.LOOK
    assert check.message((10, 1_000), 1.0) is Verdict.SAME
    assert check.again_at is None
    assert check.state(replace(FACTS, last_seq=9), ELECTION) is Verdict.ASK_AGAIN


def test_a_doubt_lasts_while_a_look_is_open() -> None:
    check = PositionCheck(POSITION)
    check.state(replace(FACTS, last_seq=9), 0.0)
    check.state(FACTS, 1.0)
    assert check.message(None, 1.0) is Verdict.LOOK_BACK
    assert check.message((9, 3_000), 1.0) is Verdict.ASK_AGAIN
    assert check.again_at == ELECTION


def test_the_questions_and_their_answers() -> None:
    check = PositionCheck(POSITION)
    check.state(FACTS, 0.0)
    assert check.question() == b'{"seq":10}'
    missing = b'{"error":{"code":404,"err_code":10037,"description":"no message found"}}'
    assert check.answer(missing, 0.0) is Verdict.LOOK_BACK
    assert check.question() == b'{"start_time":"1970-01-01T00:00:00.000001001Z","next_by_subj":">"}'
    assert check.answer(b'{"message":{"seq":12,"time":"1970-01-01T00:00:00.000002Z"}}', 0.0) is Verdict.GONE
    check.state(FACTS, 0.0)
    assert check.answer(b'{"message":{"seq":10,"time":"1970-01-01T00:00:00.000001Z"}}', 0.0) is Verdict.SAME


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b'{"error":{"code":503,"err_code":10008,"description":"not now"}}', APIError),
        (b"{}", RemoteProtocolError),
        (b'{"message":{"seq":-1,"time":"1970-01-01T00:00:00Z"}}', RemoteProtocolError),
        (b'{"message":{"seq":1,"time":"yesterday"}}', RemoteProtocolError),
        (b"nonsense", RemoteProtocolError),
    ],
)
def test_answers_that_say_nothing(answer: bytes, error: type[Exception]) -> None:
    check = PositionCheck(POSITION)
    check.state(FACTS, 0.0)
    with pytest.raises(error):
        check.answer(answer, 0.0)


def test_a_check_can_be_made_again() -> None:
    check = PositionCheck(POSITION)
    check.state(FACTS, 0.0)
    assert check.message(None, 0.0) is Verdict.LOOK_BACK
    assert check.state(FACTS, 1.0) is Verdict.LOOK
    assert check.message((10, 1_000), 1.0) is Verdict.SAME


def test_nobody_can_be_asked() -> None:
    check = PositionCheck(POSITION)
    check.state(FACTS, 0.0)
    assert check.unanswered() is Verdict.UNPROVEN


class Histories(RuleBasedStateMachine):
    """A stream with a past, and positions of it. Messages stored at once have one time."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 1
        self.clock = 0
        self.messages: list[int] = []  # the time of the message at each sequence, from 1 on
        self.gone: set[int] = set()
        self.first = 1
        self.backups: list[tuple[int, list[int], set[int], int]] = []
        self.positions: list[tuple[StreamPosition, tuple[int, ...]]] = []  # with what the stream had

    @rule(count=st.integers(1, 4))
    def store(self, count: int) -> None:
        self.clock += 1
        self.messages += [self.clock] * count

    @rule(seq=st.integers(1, 20))
    def delete(self, seq: int) -> None:
        self.gone.add(min(seq, len(self.messages)))

    @rule(count=st.integers(1, 3))
    def drop(self, count: int) -> None:
        self.first = min(self.first + count, len(self.messages) + 1)

    @rule()
    def back_up(self) -> None:
        self.backups.append((self.made, list(self.messages), set(self.gone), self.first))

    @precondition(lambda self: self.backups)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.clock += 1
        made, messages, gone, first = data.draw(st.sampled_from(self.backups))
        self.made, self.messages, self.gone, self.first = made, list(messages), set(gone), first

    @rule()
    def make_anew(self) -> None:
        self.clock += 1
        self.made, self.messages, self.gone, self.first = self.clock + 1_000, [], set(), 1

    @rule(seq=st.integers(0, 20), knows_identity=st.booleans(), has_witness=st.booleans())
    def take_position(self, seq: int, knows_identity: bool, has_witness: bool) -> None:
        seq = min(seq, len(self.messages))
        witness = self.messages[seq - 1] if seq and has_witness else None
        identity = str(self.made) if knows_identity else None
        self.positions.append((StreamPosition("S", seq, identity, witness), (self.made, *self.messages[:seq])))

    @precondition(lambda self: self.positions)
    @rule(data=st.data(), drops=st.booleans())
    def check(self, data: st.DataObject, drops: bool) -> None:
        position, past = data.draw(st.sampled_from(self.positions))
        check = PositionCheck(position)
        assert self.ask(check, drops, 0.0) in (verdict := self.ask(check, drops, ELECTION), Verdict.ASK_AGAIN)
        is_same = past == (self.made, *self.messages[: position.seq])
        has_others = position.seq > len(self.messages) or any(
            self.time(seq) and seq <= position.seq and self.time(seq) != past[seq] for seq in range(1, position.seq + 1)
        )
        if is_same:
            missing = self.first > position.seq + 1 and drops
            good = {Verdict.DROPPED} if missing else {Verdict.SAME, Verdict.GONE, Verdict.UNPROVEN}
            assert verdict in good
        elif position.identity not in (None, str(self.made)):
            assert verdict is Verdict.RECREATED
        elif position.seq > len(self.messages) or (has_others and position.witness is not None):
            assert verdict is Verdict.ROLLED_BACK
        else:
            assert verdict is not Verdict.SAME or not position.seq

    def ask(self, check: PositionCheck, drops: bool, now: float) -> Verdict:
        last = len(self.messages)
        facts = StreamFacts(str(self.made), self.first, last, self.messages[-1] if last else None, drops)
        verdict = check.state(facts, now)
        for _ in range(2):
            if verdict in LOOKS:
                wanted = [check.position.seq] if verdict is Verdict.LOOK else range(1, last + 1)
                least = 1 if verdict is Verdict.LOOK else check.since
                found = [(seq, self.time(seq)) for seq in wanted if self.time(seq) >= least]
                verdict = check.message(found[0] if found else None, now)
        assert verdict not in LOOKS
        return verdict

    def time(self, seq: int) -> int:
        return self.messages[seq - 1] if self.first <= seq <= len(self.messages) and seq not in self.gone else 0


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(200), stateful_step_count=30)


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_end_of_a_stream_proves_itself(first: int, last: int) -> None:
    facts = StreamFacts("then", first, last, 7 if last else None)
    assert judge(facts.position("S"), facts) in (Verdict.SAME, Verdict.GONE, Verdict.DROPPED)
    if first <= last + 1:
        assert judge(facts.position("S"), facts) is Verdict.SAME or not last
