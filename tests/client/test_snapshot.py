"""Snapshots against replicas that are behind and a stream that goes on: the state at one sequence, or an error."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.snapshot import GROUP, Snapshot
from jsproto.errors import (
    IncompleteBatchError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    NoRespondersError,
    SnapshotError,
)
from jsproto.grammar.subjects import matches
from jsproto.ticket import Ticket
from jsproto.wire.encoder import encode_msg
from tests.client.replicas import DIRECT, NOT_FOUND, Stream, read_through
from tests.harness import Harness


class Take:
    """A snapshot and the servers' side of it. The leader answers at once; Direct Gets are for the test to answer."""

    def __init__(self, stream: Stream, subjects: Any = ">", *, harness: Harness | None = None, **options: Any) -> None:
        self.h, self.stream = harness or Harness(), stream
        self.ticket: Ticket[Snapshot] = self.h.js.snapshot("DG", subjects, now=self.h.now, **options)
        self.direct: list[tuple[bytes, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.settle()

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
                    self.asked.append(json.loads(pub.payload) if pub.payload else {})
                    self.h.deliver(pub.reply or b"", json.dumps(self.stream.leader(pub)).encode())

    def answer(self, applied: int | None = None, most: int = 9999) -> dict[str, Any]:
        """Answer the oldest Direct Get; returns what it asked."""
        reply, request = self.direct.pop(0)
        for block in self.stream.page(request, self.stream.last_seq if applied is None else applied, most, False):
            self.h.deliver(reply, b"" if b"1.0 " in block else b"x", block)
        self.settle()
        return request

    def take(self) -> list[int]:
        messages = [message.seq for message in self.read.pop_many(9999, self.h.now)]
        self.settle()
        return messages


def test_a_small_one() -> None:
    take = Take(Stream(["k.1", "k.2", "j.1", "k.1"]), "k.*")
    assert take.read.up_to_seq == 4
    assert take.read.num_pending == 2
    readable = take.read.readable()
    request = take.answer()
    assert request == {"multi_last": ["k.1", "k.2"], "up_to_seq": 4, "max_bytes": 8_388_608}
    assert readable.done
    assert take.take() == [2, 4]
    assert (take.read.finished, take.read.num_pending) == (True, 0)


def test_the_witness_is_not_given_out_unless_it_was_asked_for() -> None:
    take = Take(Stream(["k.1", "k.2", "j.1"]), ["k.*", "nowhere"])
    assert take.answer()["multi_last"] == ["k.1", "k.2", "nowhere", "j.1"]
    assert take.take() == [1, 2]
    assert take.read.finished


def test_what_is_published_meanwhile_does_not_show() -> None:
    take = Take(Stream(["k.1", "k.2"]))
    for subject in ("k.2", "k.3"):
        take.stream.add(subject)
    take.answer()
    assert take.take() == [1, 2]
    assert take.read.finished


def test_more_subjects_than_a_server_answers_for() -> None:
    count = 2 * GROUP + 5
    take = Take(Stream([f"k.{n}" for n in range(count)]), [f"k.{n}" for n in range(count)])
    got, sizes = [], []
    while not take.read.finished:
        sizes.append(len(take.answer()["multi_last"]))
        got += take.take()
    assert sorted(got) == list(range(1, count + 1))
    assert sizes == [GROUP + 1, GROUP + 1, 5]


def test_the_next_group_waits_for_a_slow_reader() -> None:
    take = Take(Stream([f"k.{n}" for n in range(GROUP + 10)]), [f"k.{n}" for n in range(GROUP + 10)])
    take.answer()
    assert take.direct == []
    assert len(take.read.pop_many(GROUP // 2 + 1, take.h.now)) == GROUP // 2 + 1
    take.settle()
    assert len(take.direct) == 1


def test_long_subjects_make_small_groups() -> None:
    take = Take(Stream([f"k.{n}." + "x" * 100_000 for n in range(3)]))
    assert len(take.direct[0][1]["multi_last"]) == 3  # two and the witness
    take.answer()
    assert len(take.take()) == 2


def test_a_group_that_does_not_fit_is_split() -> None:
    take = Take(Stream([f"k.{n}" for n in range(8)]), max_bytes=100)
    sizes, got = [], []
    while not take.read.finished:
        request = take.answer(most=3)
        sizes.append(len(request["multi_last"]))
        got += take.take()
    assert got == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sizes[:3] == [8, 2, 3]


def test_one_message_that_the_server_does_not_send_whole() -> None:
    take = Take(Stream(["k.1", "k.2"]), "k.1")
    reply, _ = take.direct[0]
    blocks = take.stream.page({"multi_last": ["k.*"], "max_bytes": 1}, 2, 1, False)
    for block in blocks:
        take.h.deliver(reply, b"", block)
    assert isinstance(take.read.error, IncompleteBatchError)


def test_a_replica_that_is_behind_is_asked_again() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1"]), "k.*")
    for applied in (0, 1, 2):
        take.answer(applied=applied)
        assert take.take() == []
        assert not take.read.readable().done
        assert take.direct == []
        take.h.advance(0.1)
        take.settle()
    take.answer()
    assert take.take() == [2, 3]


def test_replicas_that_stay_behind() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1"]), timeout=1.0)
    for _ in range(20):
        if take.read.error is None:
            take.answer(applied=2)
            take.h.advance(0.5)
            take.settle()
    with pytest.raises(SnapshotError, match=r"message 3 of k\.1 was not shown within 1 s") as caught:
        take.read.readable().result()
    assert caught.value.up_to_seq == 3


def test_a_message_that_is_gone_before_it_is_read() -> None:
    take = Take(Stream(["k.1", "k.2", "k.3"]))
    del take.stream.messages[1]
    take.stream.add("k.1")
    take.answer()
    with pytest.raises(SnapshotError, match=r"k\.1 was overwritten"):
        take.read.readable().result()


def listed_late(*subjects: str, harness: Harness | None = None) -> Take:
    """The leader states its last sequence, then these subjects are written, and then it lists all of them."""
    stream = Stream(["k.1", "k.2"])

    def write() -> None:
        for subject in subjects:
            stream.add(subject)

    stream.while_listing = write
    return Take(stream, harness=harness, timeout=1.0)


def test_a_subject_that_was_written_before_it_was_listed_but_after_the_sequence() -> None:
    take = listed_late("k.1", "k.3")
    assert take.read.up_to_seq == 2
    assert take.answer()["multi_last"] == ["k.1", "k.2", "k.3"]
    assert take.take() == [1, 2]
    assert take.read.finished


def test_such_a_subject_in_a_stream_that_has_removed_messages_meanwhile() -> None:
    take = listed_late("k.3")
    del take.stream.messages[1]
    take.answer()
    with pytest.raises(SnapshotError, match=r"k\.1 was overwritten"):
        take.read.readable().result()


def test_the_leader_does_not_say_whether_messages_were_removed() -> None:
    take = listed_late("k.3")
    reply, request = take.direct[0]
    for block in take.stream.page(request, 3, 9, False):
        take.h.deliver(reply, b"x", block)
    (question,) = take.h.published()
    assert question.subject == b"$JS.API.STREAM.INFO.DG"
    take.direct.clear()
    take.h.advance(1.0)
    take.settle()
    take.h.deliver(question.reply or b"", b"{}")  # too late
    assert take.take() == []
    take.answer()  # the group is asked for once more, and the leader answers now
    assert take.take() == [1, 2]
    assert take.read.finished


def test_there_is_no_room_to_ask_whether_messages_were_removed() -> None:
    take = listed_late("k.3", harness=Harness(pending_size=100, linger=9.0))
    reply, request = take.direct.pop()
    take.h.session.publish_message("x", b"x" * 200)
    (sid,) = (sid for sid, pattern in take.h.subs.items() if matches(pattern.decode(), reply.decode()))
    blocks = take.stream.page(request, 3, 9, False)
    take.h.session.receive_data(b"".join(encode_msg(reply, sid, None, block, b"x") for block in blocks), take.h.now)
    assert [pub.subject for pub in take.h.published()] == [b"x"]
    take.h.advance(0.02)
    take.settle()
    take.answer()
    assert take.take() == [1, 2]


def test_an_answer_that_breaks_off_again_and_again() -> None:
    take = Take(Stream(["k.1", "k.2"]), timeout=1.0)
    for _ in range(4):
        reply, request = take.direct.pop()
        assert take.read.error is None
        take.h.deliver(reply, b"", take.stream.page(request, 2, 9, False)[0])
        take.h.advance(1.0)
        take.settle()
    assert isinstance(take.read.error, IncompleteBatchError)
    assert take.take() == []


def test_a_new_link() -> None:
    take = Take.__new__(Take)
    take.h, take.stream = Harness(max_reconnect_attempts=-1), Stream(["k.1", "k.2"])
    take.direct, take.asked = [], []
    take.ticket = take.h.js.snapshot("DG", ">", now=take.h.now)
    take.settle()
    take.h.lose()
    take.h.connect()
    take.direct.clear()
    take.settle()
    take.answer()
    assert take.take() == [1, 2]


@pytest.mark.parametrize("stream", [Stream([]), Stream(["k.1"])])
def test_an_empty_one(stream: Stream) -> None:
    stream.messages.clear()
    take = Take(stream, ["k.*", "k.1"])
    assert take.read.finished
    assert take.read.readable().done
    assert take.direct == []


def test_nothing_matches() -> None:
    take = Take(Stream(["k.1"]), "j.*")
    assert take.read.finished


# -- the sequence ------------------------------------------------------------------------------------------------------


def test_at_a_sequence() -> None:
    take = Take(Stream(["k.1", "k.2", "k.1", "k.3"]), at=2)
    take.answer()
    assert take.take() == [1, 2]
    assert take.read.up_to_seq == 2


@pytest.mark.parametrize(("at", "words"), [(0, "start at 1"), (True, "at must be"), (5, "ends at sequence 4")])
def test_a_sequence_that_cannot_be(at: int, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        _ = Take(Stream(["k.1", "k.2", "k.1", "k.3"]), at=at).read


@pytest.mark.parametrize("found", [3, None])
def test_at_a_time(found: int | None) -> None:
    stream = Stream(["k.1", "k.2", "k.1", "k.3"])

    class AtTime(Stream):
        def leader(self, pub: Any) -> dict[str, Any]:
            request = json.loads(pub.payload) if pub.payload else {}
            if "start_time" not in request:
                return stream.leader(pub)
            assert request == {"start_time": "2026-01-02T00:00:00Z"}
            if found is None:
                return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
            return {"message": {"subject": "k.1", "seq": found, "time": "2026-01-02T00:00:00Z"}}

    take = Take(AtTime(["k.1", "k.2", "k.1", "k.3"]), at=datetime(2026, 1, 2, tzinfo=UTC))
    take.answer()
    assert take.take() == ([1, 2] if found else [2, 3, 4])


@given(gone=st.sets(st.integers(1, 40)), at=st.integers(1, 40))
def test_the_witness_is_the_last_message_that_is_there(gone: set[int], at: int) -> None:
    stream = Stream([f"k.{n}" for n in range(40)])
    for seq in gone:
        del stream.messages[seq]
    take = Take(stream, "other", at=at)
    last = max((seq for seq in stream.messages if seq <= at), default=0)
    assert take.read._witness[1] == last
    assert len(take.asked) <= 14


# -- the list of subjects ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [None, "added", "deleted"])
def test_a_list_in_pages(change: str | None) -> None:
    stream = Stream([f"k.{n:02d}" for n in range(20)])

    class Changing(Stream):
        lists = 0

        def leader(self, pub: Any) -> dict[str, Any]:
            answer = stream.leader(pub)
            if b"subjects_filter" in pub.payload:
                self.lists += 1
                if self.lists == 1 and change == "added":
                    stream.add("k.000")
                if self.lists == 1 and change == "deleted":
                    del stream.messages[1]
            return answer

    take = Take(changing := Changing([]))
    assert changing.lists == {None: 4, "added": 4, "deleted": 5}[change]
    changing.messages, changing.last_seq = stream.messages, stream.last_seq
    take.answer()
    assert take.take() == list(range(2 if change == "deleted" else 1, 21))
    assert take.read.up_to_seq == 20


def test_the_leader_is_not_there() -> None:
    h = Harness()
    ticket = h.js.snapshot("DG", ">", now=h.now)
    (pub,) = h.published()
    h.deliver(pub.reply or b"", b"", b"NATS/1.0 503\r\n\r\n")
    assert isinstance(ticket.error, JetStreamNotAvailableError)


def test_direct_gets_are_off() -> None:
    take = Take(Stream(["k.1"]))
    take.h.deliver(take.direct[0][0], b"", b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(NoRespondersError, match="allow_direct=True"):
        take.read.readable().result()


@given(
    log=st.lists(st.sampled_from([f"k.{n}" for n in range(12)] + ["j.1"]), max_size=30),
    deleted=st.sets(st.integers(1, 30)), later=st.lists(st.sampled_from(["k.1", "k.2", "k.99", "j.1"]), max_size=20),
    at=st.integers(1, 30), data=st.data(),
)  # fmt: skip
def test_it_is_the_state_at_its_sequence(
    log: list[str], deleted: set[int], later: list[str], at: int, data: st.DataObject
) -> None:
    """Whoever answers, however far behind, whatever gets lost, and while somebody writes."""
    stream = Stream(log)
    for seq in deleted:
        stream.messages.pop(seq, None)
    point = at if at < stream.last_seq and data.draw(st.booleans()) else None
    take = Take(stream, data.draw(st.sampled_from(["k.*", ["k.1", "k.2", "k.3"], ["k.1", "k.*"]])), at=point)
    expected = stream.last_of_each([*take.read._subjects], take.read.up_to_seq) if take.read._subjects else []

    def write() -> None:
        if later:
            stream.add(later.pop())

    for reply, request in take.direct:  # the first one was taken already
        for block in stream.page(request, 0, 1, False):
            assert block == NOT_FOUND
            take.h.deliver(reply, b"", block)
    behind = st.one_of(st.just(0), st.integers(0, 20))
    got = read_through(
        take.h, stream, take.read, data.draw, applied=lambda: max(stream.last_seq - data.draw(behind), 0),
        between=write,
    )  # fmt: skip
    if take.read.error is None:
        assert sorted(got) == expected
    assert take.read.error is None or set(got) <= set(expected)
