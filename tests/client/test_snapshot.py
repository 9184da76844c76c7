"""Snapshots against replicas that are behind, mirrors and a stream that goes on: as of one sequence, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.read.snapshot import Snapshot
from jsproto.client.read.subject_list import GROUP, TIMES_LISTED
from jsproto.errors import (
    IncompleteBatchError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MirrorAnswerError,
    NoRespondersError,
    RemoteProtocolError,
    SnapshotError,
    StreamRecreatedError,
    TooManyResultsError,
)
from jsproto.ticket import Ticket
from tests.client.replicas import DIRECT, LEADER, NO_RESULTS, NOT_FOUND, STATE, Stream, read_through
from tests.harness import Harness
from tests.marks import promise, requirement

OLD = {"version": "2.11.9"}
TOO_MANY = b"NATS/1.0 413 Too Many Results\r\n\r\n"


class Take:
    """A snapshot and the servers' side of it. The leader answers at once; Direct Gets are for the test to answer."""

    def __init__(self, stream: Stream, subjects: Any = ">", *, harness: Harness | None = None, **options: Any) -> None:
        self.h, self.stream = harness or Harness(), stream
        self.direct: list[tuple[bytes, dict[str, Any]]] = []
        self.asked: list[tuple[bytes, dict[str, Any]]] = []
        self.begin(subjects, options)
        self.settle()

    def begin(self, subjects: Any, options: dict[str, Any]) -> None:
        self.ticket: Ticket[Snapshot] = self.h.js.snapshot("DG", subjects, now=self.h.now, **options)

    @property
    def read(self) -> Snapshot:
        return self.ticket.result()

    def settle(self) -> None:
        """Let the leader answer until it is asked no more."""
        while pubs := self.h.published():
            for pub in pubs:
                if pub.subject == DIRECT:
                    self.direct.append((pub.reply or b"", json.loads(pub.payload)))
                else:
                    self.asked.append((pub.subject, json.loads(pub.payload) if pub.payload else {}))
                    self.h.deliver(pub.reply or b"", json.dumps(self.stream.leader(pub)).encode())

    def answer(self, applied: int | None = None, most: int = 9999, **options: Any) -> dict[str, Any]:
        """Answer the oldest Direct Get; returns what it asked."""
        reply, request = self.direct.pop(0)
        applied = self.stream.last_seq if applied is None else applied
        for block in self.stream.page(request, applied, most, **options):
            self.h.session.flush()
            self.h.drain()
            if any(reply.startswith(subject[:-1]) for subject in self.h.subs.values()):  # it has not given up
                self.h.deliver(reply, b"" if b"1.0 " in block else b"x", block)
        self.settle()
        return request

    def status(self, block: bytes) -> None:
        """Answer the oldest Direct Get with a status."""
        self.h.deliver(self.direct.pop(0)[0], b"", block)
        self.settle()

    def finish(self, most: int = 9999, applied: int | None = None, **options: Any) -> int:
        """Answer Direct Gets as ``answer`` does until it has ended; returns how many they were."""
        count = 0
        while not self.ticket.done:
            if not self.direct:
                self.h.advance(0.05)
                self.settle()
            else:
                count += 1
                self.answer(applied, most, **options)
        return count

    def take(self) -> list[int]:
        messages = [message.seq for message in self.read.pop_many(9999, self.h.now)]
        self.settle()
        return messages


class Now(Take):
    """The last messages as whoever answers has them, without asking the leader first."""

    def begin(self, subjects: Any, options: dict[str, Any]) -> None:
        self.got = self.h.js.get_last_msgs_for("DG", subjects, now=self.h.now, **options)
        assert isinstance(self.got, Snapshot)
        self.ticket = self.h.session.run(self.got.whole())


# -- as of now ---------------------------------------------------------------------------------------------------------


def test_a_small_one() -> None:
    take = Take(Stream(["k.1", "k.2", "j.1", "k.1"]), "k.*")
    assert not take.ticket.done
    assert take.answer() == {"multi_last": ["k.*"], "batch": 1025, "max_bytes": 8_388_608}
    read = take.read
    assert (read.up_to_seq, read.num_pending, read.last_seq, read.finished) == (4, 2, 4, False)
    assert read.readable().done
    assert take.take() == [2, 4]
    assert (read.finished, read.num_pending, read.last_seq, read.error) == (True, 0, 4, None)
    assert take.asked == [(STATE, {})]


def test_the_last_messages_as_of_now() -> None:
    take = Now(Stream(["k.1", "k.2", "j.1", "k.1"]), ["k.1", "k.2"], batch=1)
    assert (take.got.up_to_seq, take.got.num_pending, take.got.last_seq) == (None, None, 0)
    assert take.asked == []
    assert take.answer() == {"multi_last": ["k.1", "k.2"], "batch": 1, "max_bytes": 8_388_608}
    assert take.take() == [2]
    assert take.read.up_to_seq == 4
    assert take.asked == []


@pytest.mark.parametrize("options", [{"batch": 0}, {"max_bytes": 0}, {"timeout": 0.0}])
def test_impossible_reads_are_refused(options: dict[str, Any]) -> None:
    h = Harness()
    with pytest.raises(LocalProtocolError):
        h.js.get_last_msgs_for("DG", "k.*", now=h.now, **options)
    assert h.published() == []


def test_a_replica_that_is_behind_is_asked_again() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1"]), "k.*")
    for applied in (1, 2):
        take.answer(applied=applied)
        assert not take.ticket.done
        take.h.advance(0.05)
        take.settle()
    take.answer()
    assert take.take() == [2, 3]


def test_replicas_that_stay_behind() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1"]), timeout=1.0)
    take.finish(applied=2)
    with pytest.raises(IncompleteBatchError, match="has come to sequence 2 only, not to 3"):
        take.ticket.result()


@pytest.mark.parametrize("make", [Take, Now])
def test_an_empty_one(make: Callable[..., Take]) -> None:
    take = make(Stream([]), ["k.*", "k.1"])
    take.answer()
    assert take.take() == []
    assert take.read.finished
    assert take.read.up_to_seq == 0


@pytest.mark.parametrize("make", [Take, Now])
def test_nothing_matches(make: Callable[..., Take]) -> None:
    take = make(Stream(["k.1"]), "j.*")
    take.answer()
    assert take.asked[-1] == (LEADER, {"seq": 1, "next_by_subj": ">"})
    assert take.answer()["multi_last"] == ["j.*", "k.1"]
    assert take.take() == []
    assert take.read.up_to_seq == 1


def test_only_the_witness_fitted_into_an_answer() -> None:
    take = Now(Stream(["j.1"]), "k.*", max_bytes=1)
    take.answer()
    take.stream.add("k.1")
    take.answer(most=1)
    take.finish()
    assert take.take() == [2]


def test_an_answer_with_a_witness_and_no_more_than_was_wanted() -> None:
    take = Now(Stream(["k.1", "k.2", "k.3"]), "k.*", batch=2)
    take.stream.kept = set()
    take.status(NO_RESULTS)  # of a mirror
    assert take.answer()["batch"] == 3
    assert take.take() == [1, 2]


def test_a_mirror_does_not_answer_for_the_stream() -> None:
    stream = Stream(["k.1", "k.2", "k.1"])
    stream.kept = {2}
    take = Now(stream, "k.*", timeout=1.0)
    take.answer(mirrored=True)
    take.answer()
    assert take.take() == [2, 3]
    take = Now(stream, "k.*", timeout=1.0)
    take.finish(mirrored=True)
    assert isinstance(take.ticket.error, MirrorAnswerError)


def test_a_message_was_overwritten_while_the_server_looked_for_it() -> None:
    take = Now(Stream(["k.1"]), "k.*")
    take.status(NOT_FOUND)
    take.answer()
    assert take.take() == [1]


def test_an_answer_that_breaks_off_again_and_again() -> None:
    take = Now(Stream(["k.1", "k.2"]), timeout=1.0)
    for _ in range(2):
        assert not take.ticket.done
        reply, request = take.direct.pop()
        take.h.deliver(reply, b"", take.stream.page(request, 2)[0])
        take.h.advance(1.0)
        take.settle()
    assert isinstance(take.ticket.error, IncompleteBatchError)


def test_an_answer_that_breaks_off_begins_anew() -> None:
    take = Now(Stream(["k.1", "k.2"]), timeout=1.0)
    reply, request = take.direct.pop()
    take.h.deliver(reply, b"", take.stream.page(request, 2)[0])
    take.h.advance(1.0)
    take.settle()
    assert take.answer() == request
    assert take.take() == [1, 2]


def test_an_answer_of_an_end_alone() -> None:
    """It names nobody, as "no results" does."""
    take = Now(Stream(["k.1"]), timeout=1.0)
    take.status(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\n\r\n")
    assert take.asked == [(LEADER, {"seq": 1, "next_by_subj": ">"})]
    take.answer()
    assert take.take() == [1]


def test_an_answer_that_does_not_say_as_of_when_it_is() -> None:
    take = Now(Stream(["k.1"]))
    reply, request = take.direct.pop()
    for block in take.stream.page(request, 1):
        take.h.deliver(reply, b"", block.replace(b"Nats-UpTo-Sequence", b"X"))
    with pytest.raises(Exception, match="does not say up to which sequence"):
        take.ticket.result()


# -- in several answers ------------------------------------------------------------------------------------------------


def test_what_does_not_fit_into_one_answer_is_caught_up() -> None:
    """Whatever is overwritten meanwhile comes again."""
    take = Take(Stream(["k.1", "k.2", "k.3", "j.1"]), "k.*")
    take.answer(most=2)
    for subject in ("k.1", "j.1", "k.4"):
        take.stream.add(subject)
    assert take.answer() == {"multi_last": ["k.3"], "batch": 1025, "max_bytes": 8_388_608}
    assert take.direct[0][1] == {"seq": 5, "batch": 32_768, "max_bytes": 8_388_608, "next_by_subj": "k.*"}
    take.stream.add("k.2")
    take.finish()
    assert take.take() == [3, 5, 7, 8]
    assert take.read.up_to_seq == 8


def test_writers_that_never_rest_do_not_make_it_endless() -> None:
    take = Now(Stream(["k.1", "k.2", "k.3"]), "k.*", max_bytes=1)
    for _ in range(3):  # one message fits, and another subject is overwritten each time
        assert "multi_last" in take.direct[0][1]
        take.answer(most=1)
        take.stream.messages = {seq: subject for seq, subject in take.stream.messages.items() if subject != "k.3"}
        take.stream.add("k.3")
    assert "multi_last" not in take.direct[0][1]
    take.finish()
    assert [message.subject for message in take.got.pop_many(9, take.h.now)] == ["k.1", "k.2", "k.3"]


@promise("Purges, deletions and what limits drop have no sequence.")
@promise("loses a message meanwhile (purged, deleted, expired)")
@pytest.mark.parametrize("subjects", ["k.*", ["k.1", "k.2"]])
def test_a_deleted_message_uncovers_an_older_one(subjects: str | list[str]) -> None:
    """Of a subject that did not fit into the first answer the last message is deleted: the one before is shown."""
    take = Take(Stream(["k.2", "k.1", "k.2"]), subjects)
    take.answer(most=1)
    del take.stream.messages[3]
    take.finish()
    assert take.take() == [1, 2]


class Overwritten(Stream):
    """One message of each subject is kept, and each copy is as of a position of its own."""

    def __init__(self, subjects: list[str]) -> None:
        super().__init__(subjects)
        self.log = dict(self.messages)
        self.messages = self.held(self.last_seq)

    def add(self, subject: str) -> None:
        self.last_seq += 1
        self.log[self.last_seq] = subject
        self.messages = self.held(self.last_seq)

    def held(self, position: int) -> dict[int, str]:
        last = {subject: seq for seq, subject in self.log.items() if seq <= position}
        return {seq: subject for subject, seq in sorted(last.items(), key=lambda pair: pair[1])}

    def page(
        self, request: dict[str, Any], applied: int, most: int = 9999, old: bool = False, *, mirrored: bool = False
    ) -> list[bytes]:
        now, self.messages = self.messages, self.held(applied)
        try:
            return super().page(request, applied, most, old, mirrored=mirrored)
        finally:
            self.messages = now


def test_a_replica_that_is_behind_the_leader_does_not_end_the_catching_up() -> None:
    """What the leader gave has a hole where k.1 was overwritten; who comes after it has not come to the newer k.1."""
    take = Take(stream := Overwritten(["k.1", "k.2"]), "k.*", max_bytes=1)
    take.answer(most=1)
    for subject in ("k.1", "k.3"):
        stream.add(subject)
    take.answer()
    for subject in ("k.4", "k.1"):
        stream.add(subject)
    for _ in range(999):
        if take.ticket.done:
            break
        if take.direct:
            take.answer(applied=2 if take.direct[0][1]["seq"] == 3 else 5)
        take.h.advance(0.05)
        take.settle()
    assert take.take() == [2, 4, 5, 6]
    assert take.read.up_to_seq == 6


def test_an_old_leader_does_not_end_the_catching_up() -> None:
    take = Take(stream := Overwritten(["k.1", "k.2"]), "k.*", max_bytes=1, timeout=1.0)
    take.answer(most=1)
    for subject in ("k.1", "j.1", "k.2"):
        stream.add(subject)
    take.answer()
    now = stream.leader

    def old(pub: Any) -> dict[str, Any]:
        body = now(pub)
        return body | {"state": body["state"] | {"last_seq": 2}}

    stream.leader = old  # type: ignore[method-assign]
    take.finish(applied=2)
    with pytest.raises(IncompleteBatchError, match="the leader is at sequence 2"):
        take.ticket.result()


def test_a_server_that_always_finds_too_many() -> None:
    take = Take(Overwritten(["k.1", "k.2"]), ["k.1", "k.2"])
    for _ in range(TIMES_LISTED + 1):
        take.status(TOO_MANY)
    assert isinstance(take.ticket.error, TooManyResultsError)


def test_several_subjects_are_caught_up_without_a_filter() -> None:
    take = Now(Stream(["k.1", "k.2", "j.1"]), ["k.1", "k.2", "i.*"])
    take.answer(most=1)
    for subject in ("k.2", "j.1", "i.1"):
        take.stream.add(subject)
    take.answer()
    assert "next_by_subj" not in take.direct[0][1]
    take.finish()
    assert take.take() == [1, 4, 6]


def test_before_2_12_every_answer_is_caught_up() -> None:
    take = Now(Stream(["k.1", "k.2"]), ">", harness=Harness(info=OLD), batch=1)
    assert take.answer()["batch"] == 1025
    assert take.direct[0][1]["seq"] == 3
    take.stream.add("k.1")
    take.finish()
    assert take.take() == [2]
    assert take.read.up_to_seq == 3


@pytest.mark.parametrize(("subject", "shown"), [("k.1", [1]), ("j.1", [])])
def test_before_2_12_an_empty_answer_is_caught_up(subject: str, shown: list[int]) -> None:
    take = Now(Stream([]), "k.*", harness=Harness(info=OLD))
    take.answer()
    take.stream.add(subject)
    take.finish()
    assert take.take() == shown
    assert take.read.up_to_seq == 1


@promise("all subjects, however many, at one sequence")
def test_more_subjects_than_a_server_answers_for() -> None:
    count = 2 * GROUP + 5
    names = [f"k.{n}" for n in range(count)]
    take = Take(Stream(names), names)
    sizes = []
    for _ in range(3):
        sizes.append(len(take.answer()["multi_last"]))
    assert sizes == [GROUP, GROUP, 5]
    take.finish()
    assert take.take() == list(range(1, count + 1))


def test_more_match_than_a_server_answers_for() -> None:
    take = Take(Stream(["k.1", "k.2", "j.1"]), ["k.*", "k.9"])
    take.status(TOO_MANY)
    take.stream.add("k.3")  # after the list was made
    assert take.answer()["multi_last"] == ["k.1", "k.2", "k.9"]
    take.finish()
    assert take.take() == [1, 2, 4]
    take = Now(Stream(["k.1"]), "k.*")
    take.status(TOO_MANY)
    assert isinstance(take.ticket.error, TooManyResultsError)


def test_a_subject_that_is_written_after_the_list_was_made() -> None:
    stream = Stream([f"k.{n:04d}" for n in range(GROUP + 10)])
    names = [*stream.messages.values()]
    take = Take(stream, [*names, "j.*"])
    stream.add("j.1")
    take.answer()
    stream.add("j.2")
    take.finish()
    assert take.take() == list(range(1, GROUP + 13))


def test_patterns_that_match_nothing_at_all() -> None:
    take = Take(Stream(["j.1"]), [f"k.{n}.*" for n in range(GROUP + 2)])
    take.finish()
    assert take.take() == []
    assert take.read.up_to_seq == 1


def test_a_subject_that_is_written_between_two_answers_with_nothing() -> None:
    names = [f"k.{n}" for n in range(GROUP + 10)]
    take = Take(stream := Stream([]), names)
    take.answer()
    stream.add("k.1")
    stream.add(names[-1])
    take.finish()
    assert (take.take(), take.read.up_to_seq) == ([1, 2], 2)


def test_long_subjects_make_small_groups() -> None:
    names = [f"k.{n}." + "x" * 100_000 for n in range(3)]
    take = Take(Stream(names), ">")
    take.status(TOO_MANY)
    assert len(take.answer()["multi_last"]) == 2
    take.finish()
    assert take.take() == [1, 2, 3]


def test_names_that_do_not_fit_into_one_request() -> None:
    names = [f"k.{n}.{'x' * 1_000}" for n in range(300)]
    take = Take(Stream(names), names)
    assert len(take.direct[0][1]["multi_last"]) < 300
    assert take.finish() == 3  # two groups, and what was written since
    assert take.take() == [*range(1, 301)]


def test_what_no_replica_shows_of_it_is_taken_of_the_leader() -> None:
    take = Now(Stream(["k.1", "k.2"]), "k.*")
    take.answer(most=1)
    take.answer()
    for subject in ("k.1", "k.2"):
        take.stream.add(subject)
    take.finish(applied=2)
    assert take.take() == [3, 4]
    assert take.read.up_to_seq == 4


def test_more_is_written_meanwhile_than_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.client.read.snapshot._AT_ONCE", 2)
    take = Now(Stream(["k.1", "k.2"]), "k.*")
    take.answer(most=1)
    take.answer()
    for n in range(9):
        take.stream.add(f"k.{n % 3}")
    take.finish()
    assert take.take() == [9, 10, 11]


def test_it_is_written_faster_than_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.client.read.snapshot.MOST_WRITTEN", 5)
    take = Now(Stream(["k.1", "k.2"]), "k.*")
    take.answer(most=1)
    take.answer()
    for _ in range(6):
        take.stream.add("k.1")
    take.answer()
    with pytest.raises(SnapshotError, match="written faster than it can be read"):
        take.ticket.result()
    assert take.h.published() == []


@pytest.mark.parametrize("make", [Take, Now])
@pytest.mark.parametrize("created", ["2026-11-20T20:36:46.910548879Z", "2026-12-01T00:00:00Z"])
def test_another_stream_under_the_same_name(make: Callable[..., Take], created: str) -> None:
    take = make(Stream(["k.1", "k.2"]), "k.*")
    take.answer(most=1)
    take.stream.created = take.stream.first_ts = created
    take.finish()
    assert isinstance(take.ticket.error, StreamRecreatedError) == (created == "2026-12-01T00:00:00Z")


@pytest.mark.parametrize("when", ["state", "answer", "second answer", "list", "catch-up", "identity"])
def test_closing_ends_everything(when: str) -> None:
    h = Harness()
    names = [f"k.{n}" for n in range(GROUP + 10)]
    stream = Stream(names)
    take = Take.__new__(Take)
    take.h, take.stream, take.direct, take.asked = h, stream, [], []
    read = Snapshot(h.js, "DG", "k.*" if when == "list" else names, now=h.now)
    if when != "state":
        take.settle()
    if when == "list":
        h.deliver(take.direct.pop()[0], b"", TOO_MANY)
    elif when in ("second answer", "catch-up", "identity"):
        take.answer()
    if when in ("catch-up", "identity"):
        take.answer()
    if when == "identity":
        h.deliver(take.direct.pop()[0], b"", NOT_FOUND)
        (pub,) = h.published()
        h.deliver(pub.reply or b"", json.dumps(stream.leader(pub)).encode())
    take.direct.clear()
    read.close(h.now)
    take.settle()
    assert take.direct == []
    assert read.readable().done
    assert read.finished
    assert read.pop_many(9, h.now) == []


def test_closing_what_was_read() -> None:
    take = Take(Stream(["k.1"]))
    take.answer()
    take.read.close(take.h.now)
    assert take.read.finished
    assert take.take() == []


def test_a_new_link() -> None:
    take = Take(Stream(["k.1", "k.2"]), harness=Harness(max_reconnect_attempts=-1))
    take.h.lose()
    take.h.connect()
    take.direct.clear()
    take.settle()
    take.answer()
    assert take.take() == [1, 2]


# -- as of an earlier sequence -----------------------------------------------------------------------------------------


@requirement(137)
@promise("With `at` it is exactly the state at an earlier sequence or time")
def test_at_a_sequence() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1", "k.3"]), at=2)
    assert take.answer() == {
        "multi_last": ["k.1", "k.2", "k.3"], "batch": 1026, "max_bytes": 8_388_608, "up_to_seq": 2,
    }  # fmt: skip
    assert take.take() == [1, 2]
    assert take.read.up_to_seq == 2


def test_the_witness_is_not_given_out_unless_it_was_asked_for() -> None:
    take = Take(Stream(["k.1", "k.2", "j.1"]), ["k.*", "nowhere"], at=3)
    assert take.answer()["multi_last"] == ["k.1", "k.2", "nowhere", "j.1"]
    assert take.take() == [1, 2]


@pytest.mark.parametrize(("at", "words"), [(0, "start at 1"), (True, "at must be"), (5, "ends at sequence 4")])
def test_a_sequence_that_cannot_be(at: int, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        _ = Take(Stream(["k.1", "k.2", "k.1", "k.3"]), at=at).read


class AtTime(Stream):
    """The message from which on all are of the time asked for."""

    first: int | None = None

    def message(self, asked: bytes, request: dict[str, Any]) -> dict[str, Any]:
        if "start_time" not in request:
            return super().message(asked, request)
        assert request == {"start_time": "2026-01-02T00:00:00Z"}
        if self.first is None:
            return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        return {"message": {"subject": "k.1", "seq": self.first, "time": "2026-01-02T00:00:00Z"}}


@requirement(137)
@promise("With `at` it is exactly the state at an earlier sequence or time")
@pytest.mark.parametrize(("first", "shown"), [(3, [1, 2]), (None, [2, 3, 4]), (1, [])])
def test_at_a_time(first: int | None, shown: list[int]) -> None:
    stream = AtTime(["k.1", "k.2", "k.1", "k.3"])
    stream.first = first
    take = Take(stream, at=datetime(2026, 1, 2, tzinfo=UTC))
    take.finish()
    assert take.take() == shown
    assert take.read.up_to_seq == (4 if first is None else first - 1)


@given(gone=st.sets(st.integers(1, 40)), at=st.integers(1, 40))
def test_the_witness_is_the_last_message_that_is_there(gone: set[int], at: int) -> None:
    stream = Stream([f"k.{n}" for n in range(40)])
    for seq in gone:
        del stream.messages[seq]
    take = Take(stream, "other", at=at)
    last = max((seq for seq in stream.messages if seq <= at), default=0)
    if last:
        (request,) = [request for _, request in take.direct]
        assert request["multi_last"] == ["other", f"k.{last - 1}"]
    else:
        assert take.take() == []
    assert len([asked for asked, _ in take.asked if asked == LEADER]) <= 14


def test_nothing_is_left_between_the_witness_and_the_sequence() -> None:
    stream = Stream(["k.1", "k.2", "k.3"])
    del stream.messages[2], stream.messages[3]
    take = Take(stream, at=3)
    assert take.answer()["multi_last"] == ["k.1"]
    assert take.take() == [1]
    assert take.read.up_to_seq == 3


@promise("`get_last_msgs_for` with `up_to_seq` or `up_to_time` shows what the answering")
def test_a_replica_that_has_not_come_so_far() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1", "j.1"]), "k.*", at=3)
    for applied in (0, 1, 2):
        take.answer(applied=applied)
        assert not take.ticket.done
        take.h.advance(0.2)
        take.settle()
    take.answer()
    assert take.take() == [2, 3]


def test_replicas_that_do_not_come_so_far() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1"]), at=3, timeout=1.0)
    take.finish(applied=2)
    with pytest.raises(SnapshotError, match=r"message 3 of k\.1 is not shown") as caught:
        take.ticket.result()
    assert caught.value.up_to_seq == 3


def test_a_group_that_does_not_fit_is_split() -> None:
    take = Take(Stream([f"k.{n}" for n in range(8)]), max_bytes=100, at=8)
    sizes, rooms = [], []
    while not take.ticket.done:
        request = take.answer(most=3)
        sizes.append(len(request["multi_last"]))
        rooms.append(request["max_bytes"])
    assert take.take() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sizes == [8, 5, 3, 3, 4, 3, 2]
    assert set(rooms) == {100}


def test_a_subject_alone_has_no_limit() -> None:
    take = Take(Stream(["k.1", "k.2"]), "k.1", max_bytes=1, at=2)
    request = take.answer()
    assert request["multi_last"] == ["k.1", "k.2"]
    assert request["max_bytes"] > 1 << 60
    assert take.take() == [1]


def changed(change: Callable[[Stream], None], **config: Any) -> Take:
    """A snapshot of a stream that changes before it is shown."""
    stream = Stream(["j.1", "k.1", "k.2", "k.3", "k.1", "k.1"])
    stream.config = config
    take = Take(stream, at=4, timeout=1.0)
    change(stream)
    take.finish()
    return take


def overwrite(stream: Stream) -> None:
    """One message of each subject is kept."""
    for seq in (2, 5):
        del stream.messages[seq]


def roll_up(stream: Stream) -> None:
    overwrite(stream)
    stream.rollups = {*stream.messages}


def vanish(stream: Stream) -> None:
    """The subject is listed, and then it is gone."""
    overwrite(stream)
    stream.is_gone = True


@pytest.mark.parametrize(
    ("change", "config", "words"),
    [
        (overwrite, {"max_msgs_per_subject": 1}, "; max_msgs_per_subject is 1"),
        (roll_up, {"allow_rollup_hdrs": True}, r" \("),
        (vanish, {"allow_rollup_hdrs": True, "max_msgs_per_subject": 5}, "; max_msgs_per_subject is 5"),
    ],
)
def test_a_message_of_then_may_have_been_overwritten(
    change: Callable[[Stream], None], config: dict[str, Any], words: str
) -> None:
    reason = r"k\.1 may have been overwritten since, or before it was read" + words
    with pytest.raises(SnapshotError, match=reason) as caught:
        changed(change, **config).ticket.result()
    assert caught.value.up_to_seq == 4


def test_a_bucket_takes_rollups_and_had_none() -> None:
    assert changed(overwrite, allow_rollup_hdrs=True, max_msgs_per_subject=5).take() == [1, 3, 4]


def test_what_is_missing_cannot_have_been_overwritten() -> None:
    """As many messages of each subject would be kept, and k.1 has fewer."""
    assert changed(overwrite, max_msgs_per_subject=2).take() == [1, 3, 4]


def test_the_first_messages_were_dropped_meanwhile() -> None:
    def drop(stream: Stream) -> None:
        del stream.messages[1], stream.messages[2]

    with pytest.raises(SnapshotError, match=r"k\.1 may have been overwritten"):
        changed(drop).ticket.result()


def test_what_is_missing_is_gone() -> None:
    def purge(stream: Stream) -> None:
        for seq in (2, 5, 6):
            del stream.messages[seq]

    assert changed(purge, max_msgs_per_subject=1).take() == [1, 3, 4]


def test_what_is_missing_is_newer() -> None:
    stream = Stream(["k.1", "k.2", "k.3"])
    stream.config = {"max_msgs_per_subject": 1}
    take = Take(stream, at=2)
    take.finish()
    assert take.take() == [1, 2]


def test_another_stream_while_it_is_read() -> None:
    def recreate(stream: Stream) -> None:
        stream.created = "2026-12-01T00:00:00Z"

    assert isinstance(changed(recreate).ticket.error, StreamRecreatedError)


def test_nothing_is_left_of_then() -> None:
    stream = Stream(["k.1", "k.2", "k.3", "k.1"])
    stream.config = {"max_msgs_per_subject": 1}
    for seq in (1, 2):
        del stream.messages[seq]
    with pytest.raises(SnapshotError, match=r"k\.1 may have been overwritten"):
        Take(stream, at=2).ticket.result()


def test_it_is_closed_while_it_is_read_as_of_then() -> None:
    h = Harness()
    read = Snapshot(h.js, "DG", ">", now=h.now, at=2)
    take = Take.__new__(Take)
    take.h, take.stream, take.direct, take.asked = h, Stream(["k.1", "k.2", "k.1"]), [], []
    take.settle()
    assert len(take.direct) == 1
    read.close(h.now)
    take.settle()
    assert len(take.direct) == 1
    assert read.finished


# -- the list of subjects ----------------------------------------------------------------------------------------------


def test_a_list_that_is_none() -> None:
    stream = Stream(["k.1"])
    listed = stream.info

    def info(request: dict[str, Any]) -> dict[str, Any]:
        return listed(request) | ({"total": "1"} if "subjects_filter" in request else {})

    stream.info = info  # type: ignore[method-assign]
    with pytest.raises(RemoteProtocolError, match="is no integer, but '1'"):
        Take(stream, at=1).ticket.result()


def test_a_list_that_is_never_whole() -> None:
    stream = Stream(["k.1"])
    listed = stream.info

    def info(request: dict[str, Any]) -> dict[str, Any]:
        return listed(request) | ({"total": 2} if "subjects_filter" in request else {})

    stream.info = info  # type: ignore[method-assign]
    with pytest.raises(SnapshotError, match="changes faster than it can be read"):
        Take(stream, at=1).ticket.result()


def test_a_leader_that_answers_with_what_was_not_asked_for() -> None:
    stream = Stream(["k.1"] * 5)
    answer = {"message": {"subject": "k.1", "seq": 3, "time": "2026-11-20T20:36:46Z"}}
    stream.message = lambda asked, request: answer  # type: ignore[method-assign]
    with pytest.raises(RemoteProtocolError, match="message 3 where the next from 5 on was asked for"):
        Take(stream, at=5).ticket.result()


@pytest.mark.parametrize("change", [None, "added", "deleted", "emptied"])
def test_a_list_in_pages(change: str | None) -> None:
    stream = Stream([f"k.{n:02d}" for n in range(20)])
    lists = 0

    def write() -> None:
        nonlocal lists
        lists += 1
        if lists == 2 and change == "added":
            stream.add("k.000")
        if lists == 2 and change == "deleted":
            del stream.messages[1]
        if lists == 2 and change == "emptied":
            stream.messages.clear()

    stream.while_listing = write
    take = Take(stream, ">", at=20)
    assert lists == {None: 4, "added": 4, "deleted": 5, "emptied": 3}[change]
    take.finish()
    assert take.take() == {"deleted": list(range(2, 21)), "emptied": []}.get(change or "", list(range(1, 21)))


def test_the_leader_is_not_there() -> None:
    h = Harness()
    ticket = h.js.snapshot("DG", ">", now=h.now)
    (pub,) = h.published()
    h.deliver(pub.reply or b"", b"", b"NATS/1.0 503\r\n\r\n")
    assert isinstance(ticket.error, JetStreamNotAvailableError)


@requirement(112)
def test_direct_gets_are_off() -> None:
    take = Take(Stream(["k.1"]))
    take.status(b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(NoRespondersError, match="allow_direct=True"):
        take.ticket.result()


# -- whatever happens --------------------------------------------------------------------------------------------------


@requirement(137)
@promise("It is exactly the state at its `up_to_seq`, while others overwrite.")
@given(
    log=st.lists(st.sampled_from([f"k.{n}" for n in range(12)] + ["j.1"]), max_size=30),
    deleted=st.sets(st.integers(1, 30)), later=st.lists(st.sampled_from(["k.1", "k.2", "k.99", "j.1"]), max_size=20),
    kept=st.none() | st.sets(st.integers(1, 60)), at=st.none() | st.integers(1, 30),
    wanted=st.sampled_from(["k.*", ["k.1", "k.2", "k.3"], ["k.1", "k.*"], ">", "i.1"]),
    version=st.sampled_from(["2.11.9", "2.12.0"]), data=st.data(),
)  # fmt: skip
def test_it_is_the_state_at_its_sequence(
    log: list[str], deleted: set[int], later: list[str], kept: set[int] | None, at: int | None, wanted: Any,
    version: str, data: st.DataObject,
) -> None:  # fmt: skip
    """Whoever answers, however far behind, whatever gets lost, and while somebody writes."""
    stream = Stream(log)
    stream.kept = kept
    for seq in deleted:
        stream.messages.pop(seq, None)
    least = stream.last_seq
    point = at if at is not None and at <= stream.last_seq else None
    h = Harness(info={"version": version})
    read = Snapshot(h.js, "DG", wanted, now=h.now, at=point, timeout=0.5)

    def write() -> None:
        for _ in range(data.draw(st.integers(0, 2))):
            if later:
                stream.add(later.pop())

    behind = st.one_of(st.just(0), st.integers(0, 20))
    got = read_through(
        h, stream, read, data.draw, applied=lambda: max(stream.last_seq - data.draw(behind), 0),
        between=write, old=version == "2.11.9",
    )  # fmt: skip
    if read.error is None:
        assert read.up_to_seq is not None
        assert (read.up_to_seq == point) if point is not None else (read.up_to_seq >= least)
        assert got == stream.last_of_each([wanted] if isinstance(wanted, str) else wanted, read.up_to_seq)
    else:
        assert got == []
