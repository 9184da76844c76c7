"""Snapshots and what may be wrong with an answer: holes between two replicas, names, groups, times, witnesses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from jsproto.client.read.subject_list import GROUP_BYTES
from jsproto.errors import LocalProtocolError, RemoteProtocolError, SnapshotError, StaleReadError, TimeoutError
from tests.client.lagging import Replicas, Stored
from tests.client.replicas import STATE, Stream
from tests.client.test_consistency import Reader
from tests.client.test_snapshot import TOO_MANY, Now, Overwritten, Take
from tests.harness import Harness
from tests.marks import promise

# -- two replicas, of which one is behind ------------------------------------------------------------------------------


@promise("It is exactly the state at its `up_to_seq`, while others overwrite.")
def test_two_pages_with_a_deletion_between_them_do_not_end_the_catching_up() -> None:
    """The first replica shows a hole where k.1 was overwritten; the second has not come to what overwrote it."""
    stream = Overwritten(["k.1", "k.2"])
    take = Take(stream, "k.*", max_bytes=1)
    take.answer(most=1)
    take.answer()
    for subject in ("k.2", "k.1", "k.3", "k.4", "k.5", "k.1"):
        stream.add(subject)
    take.answer(applied=8, most=2)
    del stream.log[7]
    take.finish(applied=7)
    shown = {message.subject: message.seq for message in take.read.pop_many(99, take.h.now)}
    assert shown["k.1"] == 8


class KeepsLast(Replicas):
    """Each replica has the last message of each subject, as of its position."""

    def _seen(self, position: int) -> list[Stored]:
        last = {message.subject: message for message in self.log if message.seq <= position}
        return sorted(last.values())


def test_a_session_reads_its_own_write_or_what_overwrote_it() -> None:
    replicas = KeepsLast("k.1", "k.2", "k.1", "k.3", "k.4", "k.1", positions=(2, 5))
    replicas.turns = iter([0, *[1] * 99])
    reader = Reader(replicas).knows(3)
    assert reader.all("get_batch")[-1] == 6


def test_a_leader_that_is_behind_the_session_is_stale() -> None:
    replicas = KeepsLast("k.1", "k.2", positions=(1,))
    replicas.leader = 1
    with pytest.raises(StaleReadError) as caught:
        Reader(replicas).knows(2).all("get_batch", timeout=0.2)
    assert (caught.value.wanted, caught.value.found) == (2, 1)


# -- names -------------------------------------------------------------------------------------------------------------


class NotUtf8(Stream):
    """The leader lists a subject that is not UTF-8 as servers do."""

    def info(self, request: dict[str, Any]) -> dict[str, Any]:
        body = super().info(request)
        if "subjects" in body["state"]:
            body["state"]["subjects"]["k.\ufffd"] = 1
            body["total"] += 1
        return body


@promise("Subjects outside UTF-8 are a `SnapshotError` where several answers are needed")
@pytest.mark.parametrize("at", [None, 3])
def test_a_subject_that_is_not_utf_8_cannot_be_asked_for_by_name(at: int | None) -> None:
    take = Take(NotUtf8(["k.1", "k.2", "k.3"]), "k.*", at=at)
    if at is None:
        take.answer(most=1)
    with pytest.raises(SnapshotError, match="is not UTF-8"):
        take.ticket.result()


def test_a_subject_that_is_not_utf_8_in_a_later_page_of_the_list() -> None:
    stream = Stream([f"k.{n:02d}" for n in range(12)])
    listed = stream.info

    def info(request: dict[str, Any]) -> dict[str, Any]:
        body = listed(request)
        if request.get("offset"):
            body["state"]["subjects"]["k.\ufffd"] = 1
        return body

    stream.info = info  # type: ignore[method-assign]
    take = Take(stream, "k.*")
    take.answer(most=1)
    with pytest.raises(SnapshotError, match="is not UTF-8"):
        take.ticket.result()


def test_a_request_is_no_larger_than_the_server_takes() -> None:
    names = [f"k.{n}." + "x" * 200 for n in range(9)]
    take = Take(Stream(names), names, harness=Harness(info={"max_payload": 1_024}))
    sizes = []
    while not take.ticket.done:
        sizes.append(len(json.dumps(take.answer())))
    assert max(sizes) <= 1_024
    assert len(take.take()) == 9


def test_what_counts_is_the_size_as_json() -> None:
    names = [f"k.{n}." + "\u4e2d" * 300 for n in range(300)]
    take = Take(Stream(names), names)
    sizes = []
    while not take.ticket.done:
        request = take.answer()
        sizes.append(len(json.dumps(request)))
    assert GROUP_BYTES // 2 < max(sizes) <= GROUP_BYTES + 200
    assert len(take.take()) == 300


def test_the_first_few_of_more_names_than_fit_into_one_request() -> None:
    names = [f"k.{n}.{'x' * 1_500}" for n in range(300)]
    take = Now(Overwritten(names), names, batch=2)
    take.answer()
    for name in names[:2]:
        take.stream.add(name)
    take.finish()
    assert take.take() == [3, 4]


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [None, 1])
def test_an_answer_about_another_subject(at: int | None) -> None:
    take = Take(stream := Stream(["k.1"]), "k.*", at=at)
    stream.messages = {1: "j.1"}
    stream.last_of_each = lambda patterns, up_to, held=None: [1]  # type: ignore[method-assign]
    take.answer()
    with pytest.raises(RemoteProtocolError, match=r"the last message of j\.1, which was not asked for"):
        take.ticket.result()


def test_answers_that_show_nothing_and_say_that_there_is_more_come_to_an_end() -> None:
    take = Now(Stream(["j.1"]), "k.1")
    rooms = set()
    while not take.ticket.done:
        if not take.direct:
            take.h.advance(0.05)
            take.settle()
        elif len(take.direct[0][1]["multi_last"]) == 1:
            take.answer()  # nothing matches: the next one is asked for together with a witness
        else:
            reply, request = take.direct.pop(0)
            rooms.add(request["max_bytes"])
            for block in take.stream.page(request, 1):
                lie = block.replace(b"Pending: 0", b"Pending: 1")
                take.h.deliver(reply, b"" if b"1.0 " in block else b"x", lie)
            take.settle()
    assert len(rooms) < 64
    with pytest.raises(RemoteProtocolError, match="shows nothing, and says that 1 are left"):
        take.ticket.result()


def test_an_end_alone_says_nothing_of_a_sequence() -> None:
    take = Now(Stream(["k.1"]), timeout=1.0)
    take.status(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\nNats-UpTo-Sequence: 7\r\n\r\n")
    take.answer()
    assert take.take() == [1]
    assert take.read.up_to_seq == 1


# -- as of an earlier sequence -----------------------------------------------------------------------------------------


def in_memory(**config: Any) -> Take:
    """A snapshot as of 3, where message 3 is gone, of which a replica shows something that has not come so far."""
    stream = Overwritten(["g.1", "w.1", "g.1", "g.1"])
    stream.config = {"storage": "memory", "num_replicas": 3, **config}
    take = Take(stream, at=3)
    if take.direct:
        take.answer(applied=2)
    return take


@promise("With `at` it is exactly the state at an earlier sequence or time")
@pytest.mark.parametrize("config", [{"max_msgs_per_subject": 1}, {"allow_rollup_hdrs": True}])
def test_a_replica_in_memory_does_not_say_how_far_it_has_come(config: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError, match="message 3 is gone"):
        in_memory(**config).ticket.result()


@pytest.mark.parametrize("config", [{"num_replicas": 1, "max_msgs_per_subject": 1}, {"storage": "file"}, {}])
def test_where_that_cannot_be_or_nothing_is_overwritten_it_is_asked_for(config: dict[str, Any]) -> None:
    assert in_memory(**config).asked


# -- time --------------------------------------------------------------------------------------------------------------


def test_each_step_has_its_timeout() -> None:
    """Twelve steps of the leader that take 0.9 s each, of a snapshot with a timeout of 1 s."""
    h, stream = Harness(), Stream([f"k.{n}" for n in range(40)])
    for seq in range(2, 40):
        del stream.messages[seq]
    ticket = h.js.snapshot("DG", "k.*", at=39, now=h.now, timeout=1.0)
    steps = 0
    while not ticket.done:
        (pub,) = h.published()
        h.advance(0.9)
        if pub.subject == STATE or b"next_by_subj" in pub.payload:
            steps += 1
            h.deliver(pub.reply or b"", json.dumps(stream.leader(pub)).encode())
        else:
            for block in stream.page(json.loads(pub.payload), 40):
                h.deliver(pub.reply or b"", b"" if b"1.0 " in block else b"x", block)
    assert steps > 3
    assert [message.seq for message in ticket.result().pop_many(9, h.now)] == [1]


def test_a_step_that_takes_longer_fails() -> None:
    h = Harness()
    ticket = h.js.snapshot("DG", "k.*", now=h.now, timeout=1.0)
    h.advance(1.1)
    with pytest.raises(TimeoutError):
        ticket.result()


def test_a_server_that_always_finds_too_many_is_asked_no_more() -> None:
    take = Take(Stream(["k.1"]), "k.*")
    count = 0
    while not take.ticket.done:
        count += 1
        take.status(TOO_MANY)
    assert count < 20


# -- rollups of the whole stream, and a time to come -------------------------------------------------------------------


@promise("A rollup of the whole stream is followed during the read.")
@pytest.mark.parametrize("subjects", ["k.*", ["k.1", "k.2", "j.1"], ">"])
def test_a_rollup_of_all_is_followed_while_it_is_read(subjects: Any) -> None:
    stream = Stream(["k.1", "k.2", "j.1"])
    stream.config = {"allow_rollup_hdrs": True}
    take = Take(stream, subjects)
    take.answer(most=1)
    stream.roll_up_all("ctl")
    stream.add("k.2")
    take.finish()
    shown = {message.subject: message.seq for message in take.read.pop_many(99, take.h.now)}
    assert shown == {"k.2": 5} | ({"ctl": 4} if subjects == ">" else {})
    assert take.read.up_to_seq == 5


@promise("A rollup of the whole stream is followed during the read.")
@pytest.mark.parametrize("again", [[], ["k.1"]])
def test_a_rollup_of_all_fails_a_snapshot_of_before(again: list[str]) -> None:
    stream = Stream(["k.1", "k.2"])
    stream.config = {"allow_rollup_hdrs": True}
    stream.roll_up_all("ctl")
    for subject in again:
        stream.add(subject)
    take = Take(stream, "k.*", at=2)
    with pytest.raises(SnapshotError, match="message 3 has replaced all messages before it"):
        take.ticket.result()


def test_a_rollup_of_all_that_is_older_says_nothing() -> None:
    stream = Stream(["k.1"])
    stream.config = {"allow_rollup_hdrs": True}
    stream.roll_up_all("ctl")
    stream.add("k.1")
    take = Take(stream, "k.*", at=3)
    take.finish()
    assert take.take() == [3]


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_first_message_that_is_no_rollup_of_all_says_nothing(is_dropped: bool) -> None:
    stream = Stream(["k.1", "k.2"])
    stream.config = {"allow_rollup_hdrs": True}
    del stream.messages[1]

    class Dropped(Stream):
        def message(self, asked: bytes, request: dict[str, Any]) -> dict[str, Any]:
            if is_dropped and request == {"seq": 2}:
                return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
            return super().message(asked, request)

    dropped = Dropped([])
    dropped.__dict__.update(stream.__dict__)
    take = Take(dropped, "k.*", at=1)
    take.finish()
    assert take.take() == []


def test_a_time_to_come_is_refused() -> None:
    class Clock(Stream):
        def info(self, request: dict[str, Any]) -> dict[str, Any]:
            return super().info(request) | {"ts": "2026-11-20T20:36:46.91Z"}

    late = datetime(2026, 11, 20, 20, 36, 47, tzinfo=UTC)
    with pytest.raises(LocalProtocolError, match="later than the server's clock"):
        Take(Clock(["k.1"]), at=late).ticket.result()
