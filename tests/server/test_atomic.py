"""Atomic batches in the server role, beyond the recordings (``tests/transcripts/test_server_role.py``)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.grammar.advisory import parse_batch_abandoned
from jsproto.grammar.headers import Headers
from jsproto.server.publish.staged import AtomicBatches
from jsproto.server.store.context import BatchLimits, Release, ServerContext
from jsproto.wire.frames import Msg
from tests.marks import promise, requirement
from tests.server.harness import Inlet

STAGED = [None]  # the answer without a byte


def member(sequence: int | str, commit: str | None = None, batch: str = "b1", **headers: str) -> dict[str, str]:
    ends = {} if commit is None else {"Nats-Batch-Commit": commit}
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(sequence), **ends, **more}


def opened(count: int = 1, batch: str = "b1", **options: Any) -> Inlet:
    inlet = Inlet(**options)
    for sequence in range(1, count + 1):
        assert inlet.publish(payload=b"%d" % sequence, headers=member(sequence, batch=batch)) == STAGED
    return inlet


def header(inlet: Inlet, seq: int) -> dict[str, str]:
    return dict(Headers.parse(inlet.stored(seq).header or b"").items())


# -- commits -----------------------------------------------------------------------------------------------------------


def test_nothing_is_stored_before_the_commit() -> None:
    inlet = opened(2)
    assert len(inlet.stream) == 0
    assert len(inlet.inlet.atomic) == inlet.context.atomic_open == 1
    assert inlet.publish(payload=b"3", headers=member(3, "1")) == [{"seq": 3, "batch": "b1", "count": 3}]
    assert inlet.payloads == [b"1", b"2", b"3"]
    assert len(inlet.inlet.atomic) == inlet.context.atomic_open == 0
    assert header(inlet, 2) == member(2)
    assert header(inlet, 3) == member(3, "1")


@requirement(8, 9)
def test_an_end_that_is_not_stored_marks_the_last_message() -> None:
    inlet = opened(2)
    assert inlet.publish(payload=b"3", headers=member(3, "eob")) == [{"seq": 2, "batch": "b1", "count": 2}]
    assert inlet.payloads == [b"1", b"2"]
    assert header(inlet, 1) == member(1)
    assert list(header(inlet, 2).items()) == [*member(2).items(), ("Nats-Batch-Commit", "1")]


def test_an_end_alone_is_incomplete() -> None:
    assert Inlet().publish(headers=member(1, "eob")) == [10176, "incomplete b1"]


@requirement(35)
@promise("Atomic batches have at most 1,000 messages (`BatchFullError`)")
@pytest.mark.parametrize("mine", [True, False])
def test_the_largest_batch(mine: bool) -> None:
    """The storing commit counts, the other does not."""
    inlet = opened(999 if mine else 1000)
    answer = inlet.publish(headers=member(1000, "1") if mine else member(1001, "eob"))
    assert answer == [{"seq": 1000, "batch": "b1", "count": 1000}]


@requirement(35)
@pytest.mark.parametrize("commit", [None, "1"])
def test_a_batch_that_is_too_large(commit: str | None) -> None:
    inlet = opened(2, limits=BatchLimits(atomic_messages=2))
    assert inlet.publish(headers=member(3, commit)) == [10199, "large b1"]
    assert inlet.publish(headers=member(4, commit)) == [10199]
    assert inlet.publish(headers=member(3, "eob")) == [10176]
    assert inlet.stream.last_seq == 0


@requirement(24)
def test_a_member_in_the_way_of_the_commit_fails_all() -> None:
    inlet = opened(1)
    inlet.publish(headers=member(2, Nats_Expected_Stream="T"))
    assert inlet.publish(headers=member(3, "1")) == [10060]
    assert (len(inlet.stream), len(inlet.inlet.atomic)) == (0, 0)


def test_a_full_stream_takes_the_whole_batch_or_nothing() -> None:
    inlet = opened(2, discard="new", max_msgs=2)
    assert inlet.publish(headers=member(3, "1")) == [10077]
    assert len(inlet.stream) == 0
    inlet.publish(headers=member(1))
    assert inlet.publish(headers=member(2, "1")) == [{"seq": 2, "batch": "b1", "count": 2}]


@requirement(38)
def test_ids_of_a_batch_are_remembered() -> None:
    inlet = opened(0)
    inlet.publish(headers=member(1, Nats_Msg_Id="one"))
    inlet.publish(headers=member(2, "1", Nats_Msg_Id="two"))
    assert inlet.publish(headers={"Nats-Msg-Id": "one"}) == [{"seq": 1, "duplicate": True}]


@requirement(22)
def test_batches_do_not_mix() -> None:
    inlet = opened(1, "a")
    assert inlet.publish(payload=b"b", headers=member(1, batch="b")) == STAGED
    assert inlet.publish(payload=b"plain") == [{"seq": 1}]
    assert inlet.publish(payload=b"b2", headers=member(2, "1", "b")) == [{"seq": 3, "batch": "b", "count": 2}]
    assert inlet.publish(payload=b"2", headers=member(2, "1", "a")) == [{"seq": 5, "batch": "a", "count": 2}]
    assert inlet.payloads == [b"plain", b"b", b"b2", b"1", b"2"]


# -- refusals ----------------------------------------------------------------------------------------------------------


@requirement(11)
def test_the_required_level_is_checked_and_not_stored() -> None:
    inlet = Inlet()
    level = {"Nats-Required-Api-Level": "2"}
    assert inlet.publish(headers=level | member(1)) == STAGED
    assert inlet.publish(headers=member(2) | level) == STAGED
    assert inlet.publish(headers=member(3) | {"Nats-Required-Api-Level": "6"}) == [10185, "unsupported b1"]
    inlet.publish(headers=level | member(1))
    inlet.publish(headers=member(2, "1") | level)
    assert [header(inlet, seq) for seq in (1, 2)] == [member(1), member(2, "1")]


# -- older releases (FACTS.md F1) --------------------------------------------------------------------------------------

LEVEL = {"Nats-Required-Api-Level": "99"}


@pytest.mark.parametrize(
    ("release", "answer"),
    [((2, 12, 0), STAGED), ((2, 12, 8), [10185]), ((2, 14, 0), [10185, "unsupported b1"])],
)
def test_a_level_in_older_releases(release: Release, answer: list[object]) -> None:
    assert Inlet(release=release, allow_batched=None).publish(headers=member(1) | LEVEL) == answer


@pytest.mark.parametrize(
    ("release", "answer"), [((2, 14, 0), [10199, "large b1"]), ((2, 14, 1), [{"seq": 2, "batch": "b1", "count": 2}])]
)
def test_an_end_that_is_not_stored_counts_in_2_14_0(release: Release, answer: list[object]) -> None:
    inlet = opened(2, release=release, limits=BatchLimits(atomic_messages=2))
    assert inlet.publish(headers=member(3, "eob")) == answer


def test_there_are_no_batches_before_2_12() -> None:
    inlet = Inlet(release=(2, 11, 11))
    assert inlet.publish(headers=member(1)) == [{"seq": 1}]
    assert header(inlet, 1) == member(1)


def test_there_is_no_fast_ingest_before_2_14() -> None:
    inlet = Inlet(release=(2, 12, 8), allow_batched=None)
    inlet.inlet.receive(Msg(b"s.a", b"", b"in.b1.10.ok.1.0.$FI", None, b"x"), inlet.now)
    assert inlet.payloads == [b"x"]


def test_the_first_release_takes_any_commit_and_no_ids() -> None:
    inlet = opened(1, release=(2, 12, 0), allow_batched=None)
    assert inlet.publish(headers=member(2, "")) == STAGED
    assert inlet.publish(headers=member(3, "eob")) == [{"seq": 3, "batch": "b1", "count": 3}]
    assert inlet.publish(headers=member(1, "1", Nats_Msg_Id="A")) == [10177]


def test_what_is_no_sequence_is_too_large_up_to_2_14_0() -> None:
    for release, error in (((2, 14, 0), 10199), ((2, 14, 3), 10175)):
        assert Inlet(release=release).publish(headers=member("abc")) == [error]


def test_the_same_sequence_again_ends_the_batch() -> None:
    inlet = opened(2)
    assert inlet.publish(headers=member(2)) == [10176, "incomplete b1"]
    assert inlet.publish(headers=member(1)) == STAGED


@requirement(100)
def test_switched_off_and_sealed() -> None:
    assert Inlet(allow_atomic=False).publish(headers=member(1)) == [10174]
    assert Inlet(allow_atomic=None, persist_mode="async", storage="file").publish(headers=member(1)) == [10174]
    assert Inlet(sealed=True).publish(headers=member(1)) == [10109]


@requirement(33, 34)
def test_the_limits_are_those_of_the_stream_and_of_the_server() -> None:
    limits = BatchLimits(atomic_per_stream=1, atomic_total=2)
    inlet = opened(1, limits=limits)
    assert inlet.publish(headers=member(1, batch="b2")) == [10210]
    other, third = Inlet(context=inlet.context), Inlet(context=inlet.context)
    assert other.publish(headers=member(1)) == STAGED
    assert third.publish(headers=member(1, "1")) == [10210]
    other.publish(headers=member(2, "1"))
    assert third.publish(headers=member(1, "1")) == [{"seq": 1, "batch": "b1", "count": 1}]


def test_a_stream_that_does_not_acknowledge() -> None:
    inlet = Inlet(no_ack=True)
    assert inlet.publish(headers=member(1)) == []
    assert inlet.publish(headers=member(2, "1")) == []
    assert inlet.publish(headers=member(7)) == []
    assert len(inlet.stream) == 2


def test_messages_that_are_no_members_are_not_looked_at() -> None:
    inlet = Inlet()
    batches = AtomicBatches(inlet.stream, inlet.context, inlet.outbox, inlet.inlet.proposals)
    batches.receive(Msg(b"s.a", b"", b"r", None, b""), 1.0)
    assert inlet.answers() == []


# -- silence -----------------------------------------------------------------------------------------------------------


@requirement(27)
@promise("nothing is stored, the server forgets the batch")
def test_a_silent_batch_is_given_up() -> None:
    inlet = opened(1)
    assert inlet.advance(9.9) == []
    assert inlet.publish(headers=member(2)) == STAGED
    assert inlet.advance(9.9) == []
    assert inlet.advance(0.2) == ["timeout b1"]
    assert inlet.inlet.deadline() is None
    assert inlet.publish(headers=member(3)) == [10176]


def test_a_message_that_comes_too_late_finds_nothing_even_if_nobody_woke_the_server() -> None:
    inlet = opened(1)
    inlet.now += 10.0
    assert inlet.publish(headers=member(2, "1")) == ["timeout b1", 10176]
    assert inlet.context.atomic_open == 0


@requirement(95)
def test_the_advisory() -> None:
    inlet = opened(1, context=ServerContext(b"token", domain="hub", epoch=1_000_000_000))
    inlet.now = 150.0
    inlet.inlet.handle_timeout(150.0)
    ((_, payload),) = inlet.outbox.answers
    advisory = parse_batch_abandoned(payload)
    assert (advisory.stream, advisory.domain, advisory.batch_id, advisory.reason) == ("S", "hub", "b1", "timeout")
    assert (advisory.timestamp, len(advisory.id)) == (151_000_000_000, 22)


def test_the_advisory_of_the_draft() -> None:
    inlet = opened(1, dialect="draft")
    inlet.now = 150.0
    inlet.inlet.handle_timeout(150.0)
    ((_, payload),) = inlet.outbox.answers
    assert payload.startswith(b'{"type":"io.nats.jetstream.advisory.v1.batch_abandoned",')


def test_batches_are_forgotten_without_a_word() -> None:
    inlet = opened(1)
    inlet.inlet.atomic.forget()
    assert (inlet.inlet.deadline(), inlet.context.atomic_open, inlet.answers()) == (None, 0, [])
    assert inlet.publish(headers=member(2)) == [10176]


# -- whatever comes ----------------------------------------------------------------------------------------------------


@promise("One atomic batch (ADR-50): stored whole, or not at all.")
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.sampled_from([None, None, "1", "eob", "no"]))))
def test_a_batch_is_stored_whole_or_not_at_all(messages: list[tuple[str, int, str | None]]) -> None:
    inlet = Inlet()
    model: dict[str, list[int]] = {}
    stored: list[int] = []
    for number, (batch, sequence, commit) in enumerate(messages):
        answers = inlet.publish(payload=b"%d" % number, headers=member(sequence, commit, batch))
        fits = sequence == len(model.get(batch, ())) + 1 and not (commit == "eob" and sequence == 1)
        if commit == "no" or not fits:
            model.pop(batch, None)
            assert answers[0] in (10176, 10199, 10200)
            continue
        staged = model.setdefault(batch, [])
        if commit != "eob":
            staged.append(number)
        if commit is None:
            assert answers == STAGED
            continue
        stored += model.pop(batch)
        assert answers == [{"seq": len(stored), "batch": batch, "count": len(staged)}]
    assert inlet.payloads == [b"%d" % number for number in stored]
    assert len(inlet.inlet.atomic) == inlet.context.atomic_open == len(model)


# -- releases that check guards wrongly --------------------------------------------------------------------------------

ELSEWHERE = "Nats-Expected-Last-Subject-Sequence-Subject"


def guarded(inlet: Inlet, *expected: tuple[str, int], own: int | None = None) -> Any:
    """The answer to a batch whose members expect these last sequences of other subjects."""
    for sequence, (subject, last) in enumerate(expected, 1):
        fields = member(sequence) | {"Nats-Expected-Last-Subject-Sequence": str(last), ELSEWHERE: subject}
        assert inlet.publish(f"s.new{sequence}", headers=fields) == STAGED
    fields = {} if own is None else {"Nats-Expected-Last-Subject-Sequence": str(own)}
    (answer,) = inlet.publish("s.last", headers=member(len(expected) + 1, "1") | fields)
    return answer


def confused(release: Release = (2, 12, 8)) -> tuple[Inlet, list[int]]:
    """A server that takes the first guard of a batch for each later one, and how many there were before each."""
    asked: list[int] = []

    def wrong_guards(count: int) -> int:
        asked.append(count)
        return 0

    context = ServerContext(b"token", release=release, wrong_guards=wrong_guards)
    inlet = Inlet(context=context, allow_batched=False)
    for subject in ("s.a", "s.b"):
        inlet.publish(subject)
    return inlet, asked


@pytest.mark.parametrize("release", [(2, 12, 8), (2, 14, 0), (2, 14, 3)])
def test_an_old_release_refuses_and_stores_what_it_should_not(release: Release) -> None:
    inlet, asked = confused(release)
    assert guarded(inlet, ("s.a", 1), ("s.b", 2)) == 10071  # right
    assert guarded(inlet, ("s.x", 0), ("s.b", 0)) == {"seq": 5, "batch": "b1", "count": 3}  # wrong
    assert asked == [1, 1]


@pytest.mark.parametrize("release", [(2, 14, 4), (2, 15, 1)])
def test_a_newer_release_is_never_wrong(release: Release) -> None:
    inlet, asked = confused(release)
    assert guarded(inlet, ("s.x", 0), ("s.b", 0)) == 10071
    assert guarded(inlet, ("s.a", 1), ("s.b", 2)) == {"seq": 5, "batch": "b1", "count": 3}
    assert asked == []


def test_one_guard_and_own_checks_are_right_in_every_release() -> None:
    inlet, asked = confused()
    assert guarded(inlet, ("s.a", 1), own=0) == {"seq": 4, "batch": "b1", "count": 2}
    assert guarded(inlet, ("s.a", 1), own=0) == 10071
    assert guarded(inlet, ("s.a", 2)) == 10071
    assert asked == []
    plain = Inlet(release=(2, 12, 8), allow_batched=False)
    plain.publish("s.a")
    assert guarded(plain, ("s.x", 0), ("s.a", 0)) == 10071  # no fault was asked for


def test_a_guard_is_mistaken_for_the_one_that_is_chosen() -> None:
    chosen = iter([None, 1, 0])
    context = ServerContext(b"token", release=(2, 12, 8), wrong_guards=lambda count: next(chosen))
    inlet = Inlet(context=context, allow_batched=False)
    for subject in ("s.a", "s.b", "s.c"):
        inlet.publish(subject)
    guards = ("s.a", 1), ("s.b", 2), ("s.x", 2), ("s.y", 1)
    assert guarded(inlet, *guards) == {"seq": 8, "batch": "b1", "count": 5}
