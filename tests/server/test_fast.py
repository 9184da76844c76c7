"""Fast ingest in the server role, beyond the recordings (``tests/transcripts/test_server_role.py``)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import APIError
from jsproto.grammar.acks import Dialect, FlowAck, FlowError, FlowGap, PubAck, parse_flow
from jsproto.server.publish.fast import FastBatches
from jsproto.server.store.context import BatchLimits, Release
from jsproto.wire.frames import Msg
from tests.marks import known_fault, requirement
from tests.server.harness import ADVISORY, Inlet

START, APPEND, COMMIT, EOB, PING = range(5)
WRONG = {"Nats-Expected-Last-Sequence": "99"}


class Publisher:
    """The sender of one batch."""

    def __init__(
        self, inlet: Inlet | None = None, *, batch: str = "b", flow: int = 10, gap: str = "ok", **options: Any
    ) -> None:
        self.inlet = inlet or Inlet(**options)
        self.head = f"in.{batch}.{flow}.{gap}"

    def send(self, sequence: int, operation: int = APPEND, headers: dict[str, str] | None = None) -> list[Any]:
        if sequence == 1 and operation == APPEND:
            operation = START
        reply = f"{self.head}.{sequence}.{operation}.$FI"
        return self.inlet.publish("s.a", b"%d" % sequence, headers, reply)

    def run(self, first: int, last: int) -> list[Any]:
        return [answer for sequence in range(first, last + 1) for answer in self.send(sequence)]


def done(seq: int, count: int) -> dict[str, Any]:
    return {"seq": seq, "batch": "b", "count": count}


# -- the rate ----------------------------------------------------------------------------------------------------------


@requirement(61)
def test_a_lone_publisher_gets_what_it_asks_for_up_to_500() -> None:
    batch = Publisher(flow=1000)
    assert batch.run(1, 1500) == [("ack", 0, 500), ("ack", 500, 500), ("ack", 1000, 500), ("ack", 1500, 500)]


@requirement(61)
@known_fault("fast ingest, all of it")
def test_publishers_share() -> None:
    first = Publisher(flow=500)
    assert first.send(1) == [("ack", 0, 500)]
    second = Publisher(first.inlet, batch="b2", flow=500)
    steps = [1, 3, 7, 15, 31, 63, 127, 255, 505]
    rates = [2, 4, 8, 16, 32, 64, 128, 250, 250]
    expected = [("ack", seq, msgs) for seq, msgs in zip(steps, rates, strict=True)]
    assert second.run(1, 505) == [("ack", 0, 1), *expected]
    assert first.run(2, 750) == [("ack", 500, 250), ("ack", 750, 250)]
    third = Publisher(first.inlet, batch="b3")
    assert third.send(1) == [("ack", 0, 1), ("ack", 1, 2)]
    assert first.run(751, 1000) == [("ack", 1000, 166)]
    third.send(2, EOB)
    second.send(506, EOB)
    assert first.run(1001, 1166) == [("ack", 1166, 332)]
    assert first.run(1167, 1498) == [("ack", 1498, 500)]


@requirement(54)
def test_there_is_always_an_acknowledgement_for_one() -> None:
    inlet = Inlet()
    for number in range(501):
        Publisher(inlet, batch=f"b{number}").send(1)
    last = Publisher(inlet, batch="b500")
    assert last.run(2, 3) == [("ack", 2, 1), ("ack", 3, 1)]


# -- gaps --------------------------------------------------------------------------------------------------------------


def test_a_gap_may_carry_the_rate_on() -> None:
    batch = Publisher()
    batch.send(1)
    assert batch.send(35) == [("gap", 2, 35), ("ack", 30, 10)]
    assert batch.send(40) == [("gap", 36, 40), ("ack", 40, 10)]
    assert batch.send(41, COMMIT) == [done(4, 41)]


@pytest.mark.parametrize(
    ("gap", "operation", "answers"),
    [
        ("ok", COMMIT, [("gap", 2, 4), done(2, 4)]),
        ("ok", EOB, [("gap", 2, 4), done(1, 3)]),
        ("fail", COMMIT, [("gap", 2, 4), done(1, 1)]),
        ("fail", EOB, [("gap", 2, 4), done(1, 1)]),
    ],
)
def test_a_gap_in_front_of_the_commit(gap: str, operation: int, answers: list[Any]) -> None:
    batch = Publisher(gap=gap)
    batch.send(1)
    assert batch.send(4, operation) == answers
    assert batch.send(5) == [10208]


def test_a_start_again_ends_the_batch() -> None:
    batch = Publisher()
    batch.run(1, 3)
    assert batch.send(1) == [("gap", 4, 1), done(3, 3)]


def test_after_a_refused_message_a_step_back_ends_the_batch_without_an_answer() -> None:
    batch = Publisher()
    batch.send(1)
    assert batch.send(2, headers=WRONG) == [("err", 2, 10071)]
    assert batch.send(2) == [("gap", 3, 2)]
    assert batch.send(3) == []
    assert batch.send(2, PING) == [("ack", 0, 10)]


def test_the_id_of_the_last_message_is_checked_when_a_message_is_stored() -> None:
    batch = Publisher()
    batch.send(1)
    assert batch.send(2, headers={"Nats-Expected-Last-Msg-Id": "x"}) == [10070]
    assert batch.send(3, EOB) == []
    assert batch.inlet.stream.last_seq == 1


# -- pings -------------------------------------------------------------------------------------------------------------


@requirement(51)
def test_a_ping_is_answered_with_the_latest_acknowledgement() -> None:
    batch = Publisher(flow=2)
    batch.run(1, 5)
    assert batch.send(5, PING) == [("ack", 4, 2)]
    assert batch.send(7, PING) == [("gap", 6, 8), ("ack", 6, 2)]
    assert batch.send(8) == [("ack", 8, 2)]
    assert batch.inlet.stream.last_seq == 6


def test_a_ping_keeps_the_batch_alive() -> None:
    batch = Publisher()
    batch.send(1)
    for _ in range(3):
        batch.inlet.advance(9.0)
        assert batch.send(1, PING) == [("ack", 0, 10)]
    batch.inlet.advance(10.0)
    assert batch.send(1, PING) == [10208]


@requirement(86)
def test_a_silent_batch_is_forgotten_without_a_word() -> None:
    batch = Publisher(limits=BatchLimits(idle=0.3))
    batch.send(1)
    assert batch.inlet.advance(1.0) == []
    assert batch.inlet.context.fast_open == 0
    batch.send(1)
    batch.inlet.now += 0.3
    assert batch.send(2) == [10208]


# -- refused messages and duplicates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap", "answers", "after"),
    [
        ("ok", [("err", 3, 10071), done(2, 2)], [10208]),
        ("fail", [("err", 3, 10071), done(2, 2)], [10208]),
    ],
)
def test_a_refused_commit(gap: str, answers: list[Any], after: list[Any]) -> None:
    batch = Publisher(gap=gap)
    batch.run(1, 2)
    assert batch.send(3, COMMIT, WRONG) == answers
    assert batch.send(4) == after


@pytest.mark.parametrize(
    ("gap", "operation", "answers"),
    [
        ("ok", START, [("ack", 0, 10), ("err", 1, 10071)]),
        ("ok", COMMIT, [("err", 1, 10071), done(0, 0)]),
        ("fail", START, [("ack", 0, 10), 10071]),
        ("fail", COMMIT, [10071]),
    ],
)
def test_a_refused_first_message(gap: str, operation: int, answers: list[Any]) -> None:
    batch = Publisher(gap=gap)
    assert batch.send(1, operation, WRONG) == answers
    assert len(batch.inlet.inlet.fast) == (1 if answers[-1] == ("err", 1, 10071) else 0)


def test_a_full_stream() -> None:
    batch = Publisher(discard="new", max_msgs=1)
    batch.send(1)
    assert batch.send(2) == [("err", 2, 10077)]
    assert batch.send(3, EOB) == [done(1, 2)]


@requirement(88)
def test_duplicates_count_and_are_not_stored() -> None:
    batch = Publisher(flow=2)
    batch.send(1, headers={"Nats-Msg-Id": "A"})
    assert batch.send(2, headers={"Nats-Msg-Id": "A"}) == [("ack", 2, 2)]
    assert batch.send(3, headers={"Nats-Msg-Id": "A"}) == []
    assert batch.send(4, COMMIT, {"Nats-Msg-Id": "A"}) == [("ack", 4, 2), done(1, 4)]
    assert len(batch.inlet.stream) == 1


def test_the_required_level_is_not_stored() -> None:
    batch = Publisher()
    batch.send(1, headers={"Nats-Required-Api-Level": "4", "X": "1"})
    assert batch.inlet.stored(1).header == b"NATS/1.0\r\nX: 1\r\n\r\n"
    assert batch.send(2, headers={"Nats-Required-Api-Level": "6"}) == [10185]
    assert batch.send(3) == [10208]


# -- who may start -----------------------------------------------------------------------------------------------------


@requirement(84)
def test_the_limits_are_those_of_the_stream_and_of_the_server() -> None:
    limits = BatchLimits(fast_per_stream=1, fast_total=2)
    one = Publisher(limits=limits)
    one.send(1)
    assert Publisher(one.inlet, batch="c").send(1) == [10211]
    other, third = Publisher(Inlet(context=one.inlet.context)), Publisher(Inlet(context=one.inlet.context))
    assert other.send(1) == [("ack", 0, 10)]
    assert third.send(1) == [10211]
    other.send(2, EOB)
    assert third.send(1) == [("ack", 0, 10)]


@requirement(100)
def test_switched_off_and_sealed() -> None:
    assert Publisher(allow_batched=False).send(1) == [10205]
    assert Publisher(sealed=True).send(1) == [10109]


def test_messages_that_are_no_fast_ingest_are_not_looked_at() -> None:
    inlet = Inlet()
    batches = FastBatches(inlet.stream, inlet.context, inlet.outbox)
    batches.receive(Msg(b"s.a", b"", b"reply", None, b""), 1.0)
    batches.receive(Msg(b"s.a", b"", None, None, b""), 1.0)
    assert inlet.answers() == []


def test_answers_to_what_is_no_subject_are_dropped() -> None:
    inlet = Inlet()
    assert inlet.publish(reply=b"in.b..ok.1.0.$FI") == []
    assert inlet.publish(reply=b"in.\xff.10.ok.1.0.$FI") == []
    assert inlet.payloads == [b"x"]


def test_a_stream_that_does_not_acknowledge() -> None:
    batch = Publisher(no_ack=True, flow=2, gap="fail")
    assert batch.send(1) == []
    assert batch.send(2) == [("ack", 2, 2)]
    assert batch.send(3, COMMIT) == [done(3, 3)]
    assert batch.send(4) == []


@requirement(71)
def test_a_new_leader_says_how_far_it_is() -> None:
    batch, quiet = Publisher(flow=4), Publisher(batch="quiet")
    quiet.inlet = batch.inlet
    batch.run(1, 6)
    quiet.send(1, headers=WRONG)
    batch.inlet.now += 9.0
    batch.inlet.inlet.lead(batch.inlet.now)
    said = [(subject, json.loads(payload)) for subject, payload in batch.inlet.outbox.answers]
    assert said == [("in.b.4.ok.6.1.$FI", {"type": "ack", "seq": 6, "msgs": 1})]
    batch.inlet.answers()
    batch.inlet.now += 9.0  # the time starts over
    assert batch.send(7) == [("ack", 7, 2)]
    assert batch.send(8, COMMIT) == [done(8, 8)]


# -- dialects and releases ---------------------------------------------------------------------------------------------


def test_the_draft_has_one_form_for_all() -> None:
    batch = Publisher(dialect="draft")
    assert batch.send(1) == [{"ack_msgs": 10}]
    assert batch.send(4) == [{"last_seq": 1, "seq": 4}]
    error = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 2"}
    assert batch.send(5, headers=WRONG) == [{"seq": 5, "error": error}]
    assert batch.send(6, COMMIT) == [done(3, 6)]
    assert batch.send(7) == [10206]


def test_the_draft_puts_the_error_into_the_final_acknowledgement() -> None:
    batch = Publisher(dialect="draft", gap="fail")
    batch.send(1)
    error = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 1"}
    assert batch.send(2, headers=WRONG) == [{"error": error, **done(1, 1)}]
    assert batch.send(1, COMMIT, WRONG) == [{"error": error, **done(0, 0)}]
    assert batch.send(1) == [{"ack_msgs": 10}]
    assert batch.send(1) == [done(2, 1)]


@requirement(86)
def test_the_draft_tells_of_batches_that_are_forgotten() -> None:
    batch = Publisher(dialect="draft")
    batch.send(1)
    assert batch.inlet.advance(10.0) == ["timeout b"]


OLD: Release = (2, 14, 0)


def test_releases_before_2_15_1() -> None:
    batch = Publisher(release=(2, 15, 0))
    assert batch.send(1, PING) == [("gap", 1, 2), ("ack", 0, 10)]
    assert batch.send(1) == [done(0, 1)]
    batch.run(1, 2)
    assert batch.send(2) == [done(2, 2)]


def test_releases_before_2_14_3_leave_a_failing_commit_alone() -> None:
    batch = Publisher(release=OLD)
    batch.run(1, 2)
    assert batch.send(3, COMMIT, WRONG) == [("err", 3, 10071)]
    assert batch.inlet.context.fast_open == 0
    assert Publisher(release=OLD, gap="fail").send(1, COMMIT, WRONG) == []
    assert Publisher(release=OLD, gap="fail").send(1, headers=WRONG) == [("ack", 0, 10), 10071]
    batch = Publisher(release=OLD)
    batch.send(1, headers={"Nats-Msg-Id": "A"})
    assert batch.send(2, COMMIT, {"Nats-Msg-Id": "A"}) == []
    assert Publisher(release=(2, 14, 3)).send(1, COMMIT, WRONG) == [("err", 1, 10071), done(0, 0)]


# -- whatever comes ----------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.sampled_from([APPEND, APPEND, APPEND, COMMIT, EOB, PING]), st.booleans())
    ),
    st.sampled_from(["ok", "fail"]),
    st.integers(1, 5),
    st.sampled_from(["released", "draft"]),
)
def test_what_is_acknowledged_is_stored(
    messages: list[tuple[int, int, bool]], gap: str, flow: int, dialect: Dialect
) -> None:
    """Whatever is lost, repeated, reordered or refused: in gap mode fail what is acknowledged is stored, in order."""
    batch = Publisher(gap=gap, flow=flow, dialect=dialect)
    inlet = batch.inlet
    first = 0  # stream sequence before the batch
    acked = 0
    for sequence, operation, good in messages:
        before = len(inlet.stream)
        if sequence == 1 and operation in (APPEND, COMMIT) and not len(inlet.inlet.fast):
            first, acked = before, 0
        reply = f"{batch.head}.{sequence}.{START if sequence == 1 and operation == APPEND else operation}.$FI"
        header = None if good else b"NATS/1.0\r\nNats-Expected-Last-Sequence: 99\r\n\r\n"
        inlet.inlet.receive(Msg(b"s.a", b"", reply.encode(), header, b"%d" % sequence), inlet.now)
        said, inlet.outbox.answers = inlet.outbox.answers, []
        mine = [int(payload) for payload in inlet.payloads[first:]]
        for subject, payload in said:
            assert subject == reply != ADVISORY
            answer = parse_flow(payload)
            if isinstance(answer, FlowAck):
                assert answer.seq >= acked
                assert 1 <= answer.msgs <= flow
                acked = answer.seq
                assert gap == "ok" or mine[:acked] == list(range(1, acked + 1))
            elif isinstance(answer, PubAck):
                assert answer.count is not None
                assert answer.count >= acked
                assert gap == "ok" or mine == list(range(1, answer.count + 1))
                assert answer.seq == (len(inlet.stream) if mine else 0)
            else:
                assert isinstance(answer, FlowGap | FlowError | APIError)
        terminal = bool(said) and isinstance(parse_flow(said[-1][1]), PubAck)
        assert not terminal or len(inlet.inlet.fast) == 0
        assert inlet.context.fast_open == len(inlet.inlet.fast) <= 1
