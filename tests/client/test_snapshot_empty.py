"""Snapshots of a stream that is empty, or that somebody shows as empty: what is believed, and up to which sequence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import NoMessageFoundError
from jsproto.client.read.multi import LastAnswer
from jsproto.client.read.snapshot import Snapshot
from jsproto.client.read.subject_list import GROUP
from jsproto.errors import IncompleteBatchError, StaleReadError, StreamRecreatedError
from jsproto.grammar.acks import PubAck
from jsproto.wire.frames import Pub
from tests.client.replicas import DIRECT, LEADER, NO_RESULTS, NOT_FOUND, STATE, Stream, read_through
from tests.client.test_snapshot import OLD, Now, Take
from tests.harness import Harness

BOTH = pytest.mark.parametrize("version", ["2.11.9", "2.12.0"])
NO_MESSAGE = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
LATER = "2026-12-01T00:00:00Z"
THREE = ["k.1", "k.2", "k.3"]


class Led(Stream):
    """Who answers as the leader has come to what ``at`` gives: an old leader at first, maybe."""

    def __init__(self, subjects: list[str], at: Callable[[Led], int]) -> None:
        super().__init__(subjects)
        self.at = at

    def leader(self, pub: Pub) -> dict[str, Any]:
        seen = Stream([])
        seen.last_seq = self.at(self)
        seen.messages = {seq: subject for seq, subject in self.messages.items() if seq <= seen.last_seq}
        return seen.leader(pub)


def led(*positions: int) -> Led:
    """Three messages, and leaders that have come to ``positions``, one after the other. The last one stays."""
    left = [*positions]
    return Led(THREE, lambda stream: left.pop(0) if len(left) > 1 else left[0])


class InSession(Take):
    """The last messages in a session that knows of message 3."""

    def begin(self, subjects: Any, options: dict[str, Any]) -> None:
        session = self.h.js.consistent_session(timeout=1.0)
        session.record(PubAck("DG", 3))
        self.ticket = self.h.session.run(session.get_last_msgs_for("DG", subjects, now=self.h.now).whole())


def at(version: str) -> Harness:
    return Harness(info={"version": version})


def notices_a_new_stream(take: Take, subjects: list[str], **times: str) -> None:
    """The stream is deleted and created anew now. Without ``first_ts`` only the time of its creation shows that."""
    take.stream.__dict__.update(Stream(subjects).__dict__, created=LATER, **times)
    take.finish()
    with pytest.raises(StreamRecreatedError):
        take.ticket.result()


@BOTH
@pytest.mark.parametrize("make", [Take, Now, InSession])
def test_a_purged_one_is_empty_at_its_last_sequence(make: Callable[..., Take], version: str) -> None:
    stream = Stream(THREE)
    stream.messages.clear()
    take = make(stream, "k.*", harness=at(version))
    take.finish()
    assert take.take() == []
    assert take.read.up_to_seq == 3


def test_an_empty_one_takes_two_questions() -> None:
    take = Now(Stream([]), "k.*")
    take.answer()
    assert take.asked == [(LEADER, {"seq": 1, "next_by_subj": ">"}), (STATE, {})]
    assert take.read.up_to_seq == 0


@BOTH
@pytest.mark.parametrize("make", [Take, InSession])
@pytest.mark.parametrize("later", [[], ["k.2"]])
def test_an_old_leader_without_messages_is_not_believed(
    make: Callable[..., Take], later: list[str], version: str
) -> None:
    take = make(led(0, 3) if make is InSession else led(3, 0, 3), "k.*", harness=at(version))
    take.answer(applied=0)
    for subject in later:
        take.stream.add(subject)
        take.stream.at = lambda stream: stream.last_seq  # type: ignore[attr-defined]
    take.finish()
    assert take.take() == take.stream.last_of_each(["k.*"], 9)
    assert take.read.up_to_seq == 3 + len(later)


@BOTH
def test_a_new_stream_that_is_short_of_the_session(version: str) -> None:
    take = InSession(Stream(["k.1"]), "k.*", harness=at(version))
    take.stream.messages.clear()
    take.stream.created = LATER
    take.finish()
    with pytest.raises(StaleReadError) as stale:
        take.ticket.result()
    assert (stale.value.wanted, stale.value.found) == (3, 1)


@BOTH
def test_a_new_stream_that_has_come_to_the_session(version: str) -> None:
    take = InSession(Stream([]), "k.*", harness=at(version))
    take.answer()
    for subject in [*THREE, "k.4"]:
        take.stream.add(subject)
    take.finish()
    assert take.take() == [1, 2, 3, 4]
    assert take.read.up_to_seq == 4


@BOTH
def test_a_stream_made_anew_after_the_first_question(version: str) -> None:
    take = Take(Stream(THREE), "k.*", harness=at(version))
    notices_a_new_stream(take, [])


@BOTH
def test_a_list_of_an_old_leader_is_caught_up(version: str) -> None:
    long = "x" * 1_000
    names = [f"k.{number}.{long}" for number in range(300)]
    positions = [1, 3]
    stream = Led(["j.1", "w.1", names[0]], lambda stream: positions.pop(0) if len(positions) > 1 else stream.last_seq)
    take = InSession(stream, [*names[1:], "w.*"], harness=at(version))
    assert take.asked[0][1]["subjects_filter"] == "w.*"
    take.finish()
    assert take.take() == [2]
    assert take.read.up_to_seq == 3


@BOTH
def test_a_list_of_nothing_is_caught_up(version: str) -> None:
    take = Take(Stream(["j.1"]), [f"k.{number}.*" for number in range(GROUP + 2)], harness=at(version))
    take.stream.add("k.7.a")
    take.finish()
    assert take.take() == [2]
    assert take.read.up_to_seq == 2


def test_the_servers_of_a_session_never_come_to_what_was_listed() -> None:
    """Nothing matches at an old leader, and no newer one comes."""
    stream = Led(THREE, lambda stream: 1)
    long = "x" * 2_000
    take = InSession(stream, [f"w.{number}.{long}.*" for number in range(300)], harness=Harness(info=OLD))
    take.finish(applied=1)
    with pytest.raises(StaleReadError) as stale:
        take.ticket.result()
    assert (stale.value.wanted, stale.value.found) == (3, 1)


def test_a_stream_made_anew_before_it_was_caught_up() -> None:
    take = Now(Stream(THREE), "k.*", harness=Harness(info=OLD))
    take.stream.messages.clear()
    take.answer()
    notices_a_new_stream(take, [*THREE, "k.4"])


def test_a_stream_made_anew_after_an_answer_with_its_witness_alone() -> None:
    take = Now(Stream(["j.1"] * 3), "k.*", harness=Harness(info=OLD))
    take.answer()
    take.answer()
    notices_a_new_stream(take, [*THREE, "k.4"], first_ts=LATER)


@BOTH
@pytest.mark.parametrize("make", [Now, InSession])
def test_a_stream_made_anew_after_its_list(make: Callable[..., Take], version: str) -> None:
    names = [f"k.{number}.{'x' * 1_000}" for number in range(300)]
    take = make(Stream(["w.1"] * 3), ["w.*", *names], harness=at(version))
    notices_a_new_stream(take, ["w.2", "w.3", "w.4", "w.1"])


@BOTH
@pytest.mark.parametrize("make", [Now, InSession])
def test_a_stream_made_anew_after_a_list_of_nothing(make: Callable[..., Take], version: str) -> None:
    patterns = [f"k.{number}.{'x' * 1_000}.*" for number in range(300)]
    take = make(Stream(["w.1"] * 3), patterns, harness=at(version))
    made = [pattern.replace("*", "a") for pattern in patterns[:4]]
    notices_a_new_stream(take, made)


@BOTH
def test_a_stream_made_anew_has_no_past(version: str) -> None:
    take = Take(Stream(THREE), "k.*", at=3, harness=at(version))
    notices_a_new_stream(take, [], first_ts=LATER)


@BOTH
def test_an_old_leader_without_messages_is_no_past(version: str) -> None:
    """The state at 3 is asked for, and neither a replica nor an old leader has come so far."""
    take = Take(led(3, 3, 3, 0, 0, 3), "k.*", at=3, harness=at(version))
    assert take.direct
    take.answer(applied=0)
    take.finish()
    assert take.take() == [1, 2, 3]


@BOTH
def test_the_best_of_those_that_lag_is_named(version: str) -> None:
    take = InSession(led(0, 2, 0, 1, 0), "k.*", harness=at(version))
    take.finish(applied=0)
    with pytest.raises(StaleReadError) as stale:
        take.ticket.result()
    assert (stale.value.wanted, stale.value.found) == (3, 2)


@BOTH
def test_servers_that_have_come_to_the_session_and_no_further_are_not_stale(version: str) -> None:
    """A leader that has come to 5 lists the subjects. After it one comes that is at 3, as far as the session knows."""
    positions = [5, 3]
    stream = Led([*THREE, "k.4", "k.5"], lambda stream: positions.pop(0) if len(positions) > 1 else positions[0])
    take = InSession(stream, [*(f"k.{number}.{'x' * 1_000}" for number in range(300)), "w.*"], harness=at(version))
    take.finish(applied=3)
    with pytest.raises(IncompleteBatchError, match="the leader is at sequence 3, and the read has to come to 5"):
        take.ticket.result()


@BOTH
def test_a_connection_that_ends_while_servers_lag_is_no_stale_read(version: str) -> None:
    take = InSession(led(0), "k.*", harness=at(version))
    take.answer(applied=0)
    assert not take.ticket.done
    take.h.lose()
    with pytest.raises(IncompleteBatchError, match="the connection was lost"):
        take.ticket.result()


def test_an_answer_about_the_past_is_as_of_then() -> None:
    stream, h = Stream(THREE), Harness()
    stream.messages.clear()
    answer = LastAnswer(
        h.session, "DG", ["k.*"], api=h.js.api, inbox=h.session.new_inbox(), now=h.now, up_to_seq=2
    )  # fmt: skip
    while asked := h.published():
        for pub in asked:
            if pub.subject == DIRECT:
                h.deliver(pub.reply or b"", b"", NO_RESULTS)
            else:
                h.deliver(pub.reply or b"", json.dumps(stream.leader(pub)).encode())
    assert answer.finished
    assert answer.up_to_seq == 2


@BOTH
def test_a_connection_that_ends_takes_no_past_away(version: str) -> None:
    take = Take(Stream(THREE), "k.*", at=3, harness=at(version))
    take.h.lose()
    with pytest.raises(IncompleteBatchError, match="the connection was lost"):
        take.ticket.result()


def test_closing_takes_no_past_away() -> None:
    h = Harness()
    read = Snapshot(h.js, "DG", "k.*", now=h.now, at=3)
    take = Take.__new__(Take)
    take.h, take.stream, take.direct, take.asked = h, Stream(THREE), [], []
    take.settle()
    assert len(take.direct) == 1
    read.close(h.now)
    with pytest.raises(IncompleteBatchError, match="the reader was closed"):
        read.readable().result()


class Gone(Stream):
    """A stream whose leader may be missing, or be behind by ``lag``."""

    is_missing = False
    lag = 0

    def leader(self, pub: Pub) -> dict[str, Any]:
        if self.is_missing:
            return {
                "error": {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}
            }
        seen = Stream([])
        seen.last_seq = self.last_seq - self.lag
        seen.messages = {seq: subject for seq, subject in self.messages.items() if seq <= seen.last_seq}
        return seen.leader(pub)


@pytest.mark.parametrize("missing", [False, True])
def test_a_session_that_was_shown_more_than_it_knows_is_not_stale(missing: bool) -> None:
    """The leader is behind once, and so are those after it, or none comes. In between 4 and 5 were shown."""
    stream = Gone(THREE)
    take = InSession(stream, "k.*", harness=Harness(info=OLD))
    take.answer()
    stream.lag = 1
    take.answer()
    stream.lag = 0
    for _ in range(4):
        stream.add("k.1")
    take.h.advance(0.05)
    take.settle()
    take.answer(most=2, old=True)
    stream.is_missing, stream.lag = missing, 5
    while not take.ticket.done:
        if take.direct:
            take.status(NOT_FOUND)
        take.h.advance(0.05)
        take.settle()
    with pytest.raises(IncompleteBatchError, match="received up to sequence 5"):
        take.ticket.result()


@BOTH
def test_a_list_leaves_no_room_for_a_limit(version: str) -> None:
    """The first of three is overwritten after it came. Then the first one is another."""
    patterns = ["*.1", *(f"w.{number}.{'x' * 1_000}.*" for number in range(300))]
    take = Now(Stream(["a.1", "b.1", "c.1"]), patterns, batch=1, harness=at(version))
    take.answer()
    take.stream.add("a.1")
    take.finish()
    assert take.take() == [2]


def test_a_leader_whose_state_is_that_there_is_no_message() -> None:
    take = Now(Stream([]), "k.*")
    take.stream.info = lambda request: NO_MESSAGE  # type: ignore[method-assign]
    take.answer()
    with pytest.raises(NoMessageFoundError):
        take.ticket.result()


@given(
    log=st.lists(st.sampled_from([*THREE, "j.1"]), max_size=6), later=st.lists(st.sampled_from(THREE), max_size=6),
    purged=st.integers(0, 6), kind=st.sampled_from(["now", "snapshot", "session"]),
    version=st.sampled_from(["2.11.9", "2.12.0"]), data=st.data(),
)  # fmt: skip
def test_old_leaders_and_replicas_that_lag_hide_nothing(
    log: list[str], later: list[str], purged: int, kind: str, version: str, data: st.DataObject
) -> None:
    """Leaders follow one another, each as far as the one before it or further. Some of them have lost nothing yet."""
    newest = 0

    def position(stream: Stream) -> int:
        nonlocal newest
        newest = data.draw(st.integers(newest, stream.last_seq))
        return newest

    stream = Led(log, position)
    for seq in range(1, min(purged, len(log)) + 1):
        del stream.messages[seq]
    h = at(version)
    least = 0
    if kind == "session":
        least = data.draw(st.integers(1, len(log))) if log else 0
        session = h.js.consistent_session(timeout=0.5)
        if least:
            session.record(PubAck("DG", least))
        read: Snapshot = session.get_last_msgs_for("DG", ["k.1", "k.2", "k.3"], now=h.now)
    else:
        read = Snapshot(h.js, "DG", THREE, now=h.now, at_once=kind == "now", timeout=0.5)

    def write() -> None:
        is_written: bool = data.draw(st.booleans())
        if later and is_written:
            stream.add(later.pop())

    got = read_through(
        h, stream, read, data.draw, applied=lambda: data.draw(st.integers(0, stream.last_seq)), between=write,
        old=version == "2.11.9",
    )  # fmt: skip
    if read.error is None:
        assert read.up_to_seq is not None
        assert read.up_to_seq >= least
        assert got == stream.last_of_each(THREE, read.up_to_seq)
    else:
        assert got == []
