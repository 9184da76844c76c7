"""One copy: which message has which place, what may be confirmed, what comes next, and when it begins again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import (
    ConsumerNotFoundError,
    StreamMessageExceedsMaximumError,
    StreamStoreFailedError,
    StreamWrongLastSequenceConstantError,
    StreamWrongLastSequenceError,
)
from jsproto.client.copy.copier import (
    MAX_FENCES,
    SETTLE_WITHIN,
    Copier,
    CopyGoal,
    CopyRetry,
    CopyStep,
    Taken,
    is_fence,
)
from jsproto.client.copy.target import CopyTarget
from jsproto.errors import (
    APIError,
    BatchClosedError,
    BatchLostError,
    BatchMessageError,
    ConnectionClosedError,
    ConnectionLostError,
    CopyFencedError,
    CopyTargetError,
    Error,
    JetStreamNotAvailableError,
    SourceBusyError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.grammar.consumer import ConsumerInfo, SequencePair
from jsproto.grammar.copies import CopyOrigin
from jsproto.grammar.headers import Headers
from jsproto.grammar.position import StreamPosition
from jsproto.rules.passing import passes
from jsproto.rules.position import StreamFacts
from tests.client.test_copy_columns import raws_of
from tests.marks import promise

FACTS: dict[str, Any] = {"batch_id": "b", "sequence": 1, "acked": 0, "ack": None}
CONFLICT = StreamWrongLastSequenceError(400, 10071, "wrong last sequence: 7")


def target(last_seq: int = 0, origin: CopyOrigin | None = None) -> CopyTarget:
    return CopyTarget("T", ("s.>", "pos"), last_seq, origin, False)


def taken(first: int, count: int, identity: str | None = "id", step: int = 1) -> Taken:
    messages = [(b"s.a", None, b"%d" % n, 1 if not n else step) for n in range(count)]
    return Taken(raws_of(messages, first), identity)


def refused(cause: APIError) -> BatchMessageError:
    error = BatchMessageError("refused", message_sequence=1, **FACTS)
    error.__cause__ = cause
    return error


def test_it_goes_on_where_the_target_is() -> None:
    copier = Copier("S", target(90, CopyOrigin(StreamPosition("S", 40, "id"), ">")))
    assert (copier.position, copier.identity, copier.under_way) == (40, "id", 0)
    columns = copier.columns(taken(41, 3))
    assert columns[0][2]["Nats-Expected-Last-Sequence"] == "90"
    assert columns[2][2]["Jsproto-Copy-Source"] == "S 43 id 1700000000000000000 >"
    assert copier.columns(taken(44, 2))[1][2]["Nats-Expected-Last-Sequence"] == "94"
    assert [copier.acknowledged(count) for count in range(6)] == [40, 41, 42, 43, 44, 45]
    assert (copier.under_way, copier.take_stored(), copier.take_stored()) == (0, 5, 0)
    assert copier.committed(5) == 45
    copier.begin_batch()
    assert copier.columns(taken(46, 1))[0][2]["Nats-Expected-Last-Sequence"] == "95"


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([1, 1, 5])), min_size=1, max_size=6),
    st.lists(st.integers(0, 9), max_size=9),
)
def test_what_is_acknowledged_is_a_message_that_was_sent(parts: list[tuple[int, int]], more: list[int]) -> None:
    copier, seqs = Copier("S", target()), [0]
    for count, step in parts:
        columns = copier.columns(taken(seqs[-1] + step, count, step=step))
        seqs += columns.seqs
    acked = 0
    for each in (*more, len(seqs)):
        acked = min(acked + each, len(seqs) - 1)
        assert copier.acknowledged(acked) == copier.position == seqs[acked]
        assert copier.under_way == len(seqs) - 1 - acked
    assert copier.take_stored() == len(seqs) - 1


def test_a_stream_that_was_made_anew() -> None:
    copier = Copier("S", target(5, CopyOrigin(StreamPosition("S", 5, "old"), ">")))
    copier.columns(taken(6, 2, "old"))
    assert copier.acknowledged(2) == 7
    copier.columns(taken(1, 2, "new"))
    assert (copier.position, copier.identity) == (7, "old")
    assert copier.acknowledged(3) == 1
    assert (copier.position, copier.identity) == (1, "new")


def test_atomic_batches_have_a_marker() -> None:
    copier = Copier(
        "S", CopyTarget("T", ("copies.>", "pos"), 9, CopyOrigin(StreamPosition("S", 4, "id"), ">"), False), "copies."
    )
    raws = raws_of([(b"s.a", None, b"x", 1), (b"s.b", {"A": "b", "Nats-Msg-Id": "1"}, b"y", 2)], 5)
    plain, headed, marker = copier.batch(Taken(raws, "id"), "pos")
    assert plain == ("copies.s.a", b"x")
    assert headed == ("copies.s.b", b"y", Headers({"A": "b"}))
    assert marker == ("pos", b"S 7 id 1700000000000000000 >", Headers({"Nats-Expected-Last-Subject-Sequence": "9"}))
    assert (copier.position, copier.under_way) == (4, 2)
    assert copier.committed_marker(31) == 7
    assert (copier.under_way, copier.take_stored()) == (0, 2)
    *_, marker = copier.batch(Taken(raws_of([(b"s.a", None, b"", 1)], 8), "id"), "pos")
    assert marker == ("pos", b"S 8 id 1700000000000000000 >", Headers({"Nats-Expected-Last-Subject-Sequence": "31"}))


def test_a_subject_that_the_target_does_not_take() -> None:
    copier = Copier("S", CopyTarget("T", ("s.a", "s.b.*"), 0, None, False))
    bad = Taken(raws_of([(b"s.a", None, b"", 1), (b"s.b", None, b"", 1)], 1), None)
    with pytest.raises(CopyTargetError, match=r"T cannot be copied to: it does not take the subject s\.b"):
        copier.columns(bad).encoded((b"r.", b""), 1, 1_000, 10_000)
    with pytest.raises(CopyTargetError):
        copier.batch(bad, "pos")


@promise("One target, or one marker, is for one filter.")
def test_a_target_of_another_filter() -> None:
    found = CopyTarget("T", ("s.>", "pos"), 9, CopyOrigin(StreamPosition("S", 4, "id"), "s.a"), False)
    for filters in (">", "s.b"):
        with pytest.raises(CopyTargetError, match=rf"copies by the filter s.a, not {filters}: one target is for one"):
            Copier("S", found, filters=filters)
    copier = Copier("S", found, filters="s.a")
    assert copier.columns(taken(5, 1))[0][2]["Jsproto-Copy-Source"] == "S 5 id 1700000000000000000 s.a"
    assert Copier("S", target(), filters="s.b").position == 0


def test_a_copy_with_the_subject_of_the_marker() -> None:
    copier = Copier("S", CopyTarget("T", ("s.>",), 0, None, False))
    with pytest.raises(CopyTargetError, match=r"a copy has the marker's subject s\.b: choose another marker"):
        copier.batch(Taken(raws_of([(b"s.a", None, b"", 1), (b"s.b", None, b"", 1)], 1), None), "s.b")


def test_a_malformed_header_block_is_copied_without_what_is_no_header() -> None:
    raws = [(b"s.a", b"$JS.ACK.S.C.1.1.1.1.0", b"NATS/1.0\r\nbad\r\nA: b\r\n\r\n", b"x")]
    subject, _, headers = Copier("S", target()).columns(Taken(raws, None))[0]
    assert (subject, headers["A"], len(headers)) == ("s.a", "b", 3)
    copy, _ = Copier("S", target()).batch(Taken(raws, None), "pos")
    assert copy == ("s.a", b"x", Headers({"A": "b"}))


def sourcing(last_seq: int | None) -> Any:
    """What a goal asks of a sourcing end."""
    facts = None if last_seq is None else StreamFacts("id", 1, last_seq, None)
    return SimpleNamespace(identity="id", facts=facts, taken=0, received=0, pending_msgs=0, schedule=None)


INFO = ConsumerInfo.from_json({"stream_name": "S", "name": "C", "config": {}, "num_pending": 0, "num_ack_pending": 0})


def heard(seq: int) -> ConsumerInfo:
    """A consumer with traffic, which has heard that all up to ``seq`` is stored."""
    return replace(INFO, num_pending=1, ack_floor=SequencePair(seq, seq))


@promise("`run(until_caught_up=True)` returns when all is stored that the source had")
def test_a_goal_stays_where_it_was_when_the_run_began() -> None:
    goal, source = CopyGoal(), sourcing(10)
    assert not goal.is_reached(source)
    source.facts = StreamFacts("id", 1, 20, None)  # as a claim finds it later
    source.taken = source.received = 9
    assert not goal.is_reached(source)
    assert not goal.is_settled(source, heard(20))
    source.taken = source.received = 12
    assert goal.is_reached(source)
    assert goal.is_settled(source, heard(10))
    assert not goal.is_settled(source, heard(9))


def test_a_goal_of_a_stream_that_was_made_anew() -> None:
    goal, source = CopyGoal(), sourcing(10)
    source.taken = 10
    assert goal.is_reached(source)
    source.identity, source.facts, source.taken = "new", StreamFacts("new", 1, 3, None), 2
    assert not goal.is_reached(source)
    source.taken = 3
    assert goal.is_reached(source)


@pytest.mark.parametrize("last_seq", [None, 10])
def test_a_consumer_with_nothing_left_is_the_end_too(last_seq: int | None) -> None:
    goal, source = CopyGoal(), sourcing(last_seq)
    assert goal.is_settled(source, INFO)
    assert not goal.is_settled(source, replace(INFO, num_pending=1))
    assert not goal.is_settled(source, replace(INFO, num_ack_pending=1))
    source.pending_msgs = 1
    assert not goal.is_settled(source, INFO)


@promise("`run(until_caught_up=True)` returns when all is stored that the source had")
def test_a_consumer_that_does_not_ask_is_waited_for_a_while() -> None:
    goal, source = CopyGoal(), sourcing(10)
    source.taken = source.received = 10
    assert goal.is_reached(source)
    assert not goal.gives_up(source, 100.0)  # without traffic it asks
    assert not goal.gives_up(source, 1_000.0)
    source.received = 11
    assert not goal.gives_up(source, 1_000.0)
    assert not goal.gives_up(source, 1_000.0 + SETTLE_WITHIN / 2)
    assert goal.gives_up(source, 1_000.0 + SETTLE_WITHIN)


@pytest.mark.parametrize(
    ("acked", "flow", "awaits_confirm", "waited", "step"),
    [
        (0, 3, False, False, CopyStep.AWAIT_ACK),
        (0, 3, True, False, CopyStep.AWAIT_ACK),
        (1, 3, False, False, CopyStep.AWAIT_MSGS),
        (1, 3, True, False, CopyStep.COMMIT),
        (3, 3, False, False, CopyStep.AWAIT_MSGS),
        (0, 3, False, True, CopyStep.COMMIT),
        (1, 3, False, True, CopyStep.COMMIT),
    ],
)
def test_the_next_step(acked: int, flow: int, awaits_confirm: bool, waited: bool, step: CopyStep) -> None:
    copier = Copier("S", target())
    copier.columns(taken(1, 3))
    assert copier.next_step(acked, flow, awaits_confirm=awaits_confirm, waited=waited) is step


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (BatchLostError("lost", **FACTS), True),
        (ConnectionLostError("lost"), True),
        (TimeoutError("late"), True),
        (JetStreamNotAvailableError("$JS.API"), True),
        (APIError(503, 10008, "JetStream system temporarily unavailable"), True),
        (StreamStoreFailedError(503, 10077, "maximum messages exceeded"), False),
        (ConsumerNotFoundError(404, 10014, "consumer not found"), False),
        (refused(StreamMessageExceedsMaximumError(400, 10054, "too large")), False),
        (SourceBusyError("S", "C"), False),
        (CopyTargetError("T", "it is a mirror"), False),
        (ConnectionClosedError("closed"), False),
        (BatchClosedError("closed"), False),
        (UnsupportedByServerError("fast ingest", "2.14", "2.12"), False),
    ],
)
def test_what_passes_by_itself(error: Error, again: bool) -> None:
    assert passes(error) is again
    retry = CopyRetry("T")
    if again:
        assert retry.failed(error, 0, 100.0) == 0.1
        assert retry.failed(error, 0, 100.0) == 0.2
        assert retry.failed(error, 5, 100.0) == 0.1  # something was stored meanwhile
        return
    with pytest.raises(type(error)) as raised:
        retry.failed(error, 0, 100.0)
    assert raised.value is error


@pytest.mark.parametrize(
    "error", [CONFLICT, refused(CONFLICT), StreamWrongLastSequenceConstantError(400, 10164, "wrong last sequence")]
)
def test_another_writer_ends_it_in_the_end(error: Error) -> None:
    assert is_fence(error)
    retry = CopyRetry("T")
    for position in (3, 3, 8, 9):
        assert retry.failed(error, position, 100.0) > 0
    for _ in range(MAX_FENCES - 1):
        retry.failed(error, 9, 100.0)
    with pytest.raises(CopyFencedError, match="another program writes to stream T") as raised:
        retry.failed(error, 9, 100.0)
    assert raised.value.target == "T"
    assert raised.value.__cause__ is error


def test_other_refusals_are_no_fence() -> None:
    assert not is_fence(refused(StreamMessageExceedsMaximumError(400, 10054, "too large")))
    assert not is_fence(BatchLostError("lost", **FACTS))
    assert not is_fence(None)


def test_a_goal_is_reached_although_a_schedule_holds_back_its_acknowledgement() -> None:
    source, goal = sourcing(9), CopyGoal()
    source.schedule = (1, "s.later")
    assert not goal.is_settled(source, heard(0))
    source.taken = 9
    assert goal.is_settled(source, heard(0))


def test_a_goal_that_was_deleted_is_settled_beside_a_schedule() -> None:
    """The last message of the source is gone, so nothing reaches the goal, and a schedule stays unacknowledged."""
    source, goal = sourcing(9), CopyGoal()
    source.schedule, source.taken = (1, "s.later"), 7
    assert goal.is_settled(source, replace(INFO, num_ack_pending=7))
    source.schedule = None
    assert not goal.is_settled(source, replace(INFO, num_ack_pending=7))
