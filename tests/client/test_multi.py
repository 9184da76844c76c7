"""Reading the last messages of many subjects, against a scripted server; the bytes are those of released servers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.read.multi import LastMessages
from jsproto.errors import (
    IncompleteBatchError,
    LocalProtocolError,
    RemoteProtocolError,
    StreamRecreatedError,
    TooManyResultsError,
    UnsupportedByServerError,
)
from jsproto.grammar.times import parse_timestamp
from tests.client.replicas import NO_RESULTS, NOT_FOUND, TIME, Stream, read_through
from tests.client.test_direct import Read
from tests.harness import Harness
from tests.marks import promise, requirement

keys = st.lists(st.sampled_from([f"k.{n}" for n in range(12)]), max_size=30)
SUBJECTS = ["foo.A", "foo.>"]
TIME_THEN = parse_timestamp(TIME.encode())


def end(*, last: int, pending: int, up_to: int | None = 6) -> bytes:
    own = "" if up_to is None else f"Nats-UpTo-Sequence: {up_to}\r\n"
    return f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n{own}\r\n".encode()


class ReadLast(Read):
    """A read and the server's side of it."""

    direct: LastMessages

    def make(self, subjects: Any = SUBJECTS, **options: Any) -> LastMessages:
        if "up_to_time" not in options:
            options.setdefault("up_to_seq", 6)
        return LastMessages(
            self.h.session, "DG", subjects, api=self.h.js.api, inbox=self.h.session.new_inbox(),
            now=self.h.now, **options,
        )  # fmt: skip


@requirement(130, 135)
def test_pages_are_all_up_to_the_same_sequence() -> None:
    read = ReadLast(page_messages=2, up_to_time=TIME_THEN)
    assert read.requests() == [{"multi_last": SUBJECTS, "batch": 2, "max_bytes": 8_388_608, "up_to_time": TIME}]
    assert read.direct.up_to_seq is None
    read.message(3, 0, 3)
    read.message(4, 3, 2)
    read.status(end(last=4, pending=2))
    assert read.direct.up_to_seq == 6
    assert read.take() == [3, 4]
    assert read.requests() == [
        {"multi_last": SUBJECTS, "batch": 2, "max_bytes": 8_388_608, "seq": 5, "up_to_seq": 6}
    ]  # fmt: skip
    read.message(5, 0, 0)
    read.status(end(last=5, pending=0))
    assert read.take() == []
    read.state(last_seq=6)  # the stream is the same still
    assert read.take() == [5]
    assert not read.direct.finished  # one more was known
    assert len(read.requests()) == 1
    read.message(6, 0, 0)
    read.state(last_seq=6)
    read.status(end(last=6, pending=0))
    assert read.take() == [6]
    assert (read.direct.finished, read.direct.num_pending, read.direct.last_seq) == (True, 0, 6)


@requirement(131, 132, 133)
@pytest.mark.parametrize(
    ("options", "field"),
    [({"up_to_seq": 23}, {"up_to_seq": 23}), ({"up_to_time": 0}, {"up_to_time": "1970-01-01T00:00:00Z"})],
)
def test_as_of_a_sequence_or_a_time(options: dict[str, Any], field: dict[str, Any]) -> None:
    read = ReadLast(subjects=["foo.*"], batch=3, page_messages=2, **options)
    assert read.requests() == [{"multi_last": ["foo.*"], "batch": 2, "max_bytes": 8_388_608, **field}]
    read.message(3, 0, 2)
    read.h.advance(5.0)  # that replica is dead; the point is the same
    assert read.requests() == [{"multi_last": ["foo.*"], "batch": 2, "max_bytes": 8_388_608, "seq": 4, **field}]
    read.message(4, 0, 9)
    read.state(last_seq=30)
    read.message(5, 4, 8)
    read.status(end(last=5, pending=8, up_to=23))
    assert read.direct.finished
    assert read.direct.up_to_seq == 23


@requirement(132, 138)
def test_nothing_matches() -> None:
    """Whoever says so has to show another message first."""
    read = ReadLast()
    read.requests()
    read.status(NO_RESULTS)
    assert not read.direct.finished
    assert read.leader(3, subject="j.1") == {"seq": 1, "next_by_subj": ">"}
    assert read.requests() == [{"multi_last": [*SUBJECTS, "j.1"], "batch": 11, "max_bytes": 8_388_608, "up_to_seq": 6}]
    read.message(3, 0, 0, subject="j.1")
    read.status(end(last=3, pending=0))
    assert read.take() == []
    assert read.direct.up_to_seq == 6
    assert read.direct.finished


def test_a_stream_without_a_message() -> None:
    read = ReadLast()
    read.requests()
    read.status(NO_RESULTS)
    read.leader(None)
    assert read.direct.finished
    assert read.take() == []


@pytest.mark.parametrize("options", [{"up_to_seq": 2}, {"up_to_time": TIME_THEN}])
def test_nothing_was_there_yet(options: dict[str, Any]) -> None:
    read = ReadLast(**options)
    read.requests()
    read.status(NO_RESULTS)
    read.leader(3)
    assert read.direct.finished
    assert read.direct.error is None


@pytest.mark.parametrize("options", [{"up_to_seq": 3}, {"up_to_time": TIME_THEN + 1}])
def test_something_was_there(options: dict[str, Any]) -> None:
    """A mirror that holds other messages said that there was nothing."""
    read = ReadLast(batch=2, **options)
    read.requests()
    read.status(NO_RESULTS)
    read.leader(1, subject="foo.A")
    assert [(request["multi_last"], request["batch"]) for request in read.requests()] == [(SUBJECTS, 3)]
    read.message(1, 0, 2)
    read.message(2, 1, 1, subject="foo.B")
    assert read.take() == []
    read.message(3, 2, 0, subject="foo.C")
    read.status(end(last=3, pending=0))
    assert read.take() == [1, 2]
    assert read.direct.finished


def test_a_page_with_a_witness_that_breaks_off() -> None:
    read = ReadLast(subjects=["k.*"], up_to_seq=9, timeout=1.0)
    read.requests()
    read.status(NO_RESULTS)
    read.leader(1, subject="j.1")
    for _ in range(2):
        assert [(request["multi_last"], request.get("seq")) for request in read.requests()] == [(["k.*", "j.1"], None)]
        read.message(1, 0, 2, subject="j.1")
        read.message(2, 1, 1, subject="k.1")
        if not _:
            read.h.advance(1.0)
    read.message(3, 2, 0, subject="k.2")
    read.status(end(last=3, pending=0, up_to=9))
    assert read.take() == [2, 3]
    assert read.direct.finished


def test_only_the_witness_fitted_into_a_page() -> None:
    read = ReadLast(subjects=["k.*"], up_to_seq=9, page_messages=1)
    read.requests()
    read.status(NO_RESULTS)
    read.leader(1, subject="j.1")
    read.requests()
    read.message(1, 0, 1, subject="j.1")
    read.status(end(last=1, pending=1, up_to=9))
    read.h.advance(0.03)
    assert [request["seq"] for request in read.requests()] == [2]
    read.message(2, 0, 0, subject="k.1")
    read.state(last_seq=9)
    read.status(end(last=2, pending=0, up_to=9))
    assert read.take() == [2]


def test_a_message_was_overwritten_while_the_server_looked_for_it() -> None:
    read = ReadLast(timeout=1.0)
    count = 0
    while read.direct.error is None:
        for request in read.requests():
            assert request["multi_last"] == SUBJECTS
            count += 1
            read.status(NOT_FOUND)
        read.h.advance(0.05)
    assert count > 4
    with pytest.raises(IncompleteBatchError, match="overwritten while the server looked"):
        read.direct.readable().result()


def test_the_rest_of_several_pages_is_not_shown() -> None:
    read = ReadLast(page_messages=1, timeout=1.0)
    read.requests()
    read.message(3, 0, 1)
    read.status(end(last=3, pending=1))
    assert read.take() == [3]
    while read.direct.error is None:
        for _ in read.requests():
            read.status(NO_RESULTS)
        read.h.advance(0.05)
    with pytest.raises(IncompleteBatchError, match="the rest was overwritten or deleted"):
        read.direct.readable().result()


@pytest.mark.parametrize("status", [NO_RESULTS, NOT_FOUND])
def test_an_answer_that_ends_with_nothing(status: bytes) -> None:
    read = ReadLast(up_to_seq=6)
    read.requests()
    read.message(3, 0, 1)
    read.status(status)
    assert [request["seq"] for request in read.requests()] == [4]


def test_the_stream_is_another_one_at_the_second_page() -> None:
    read = ReadLast(page_messages=1)
    read.requests()
    read.message(3, 0, 1)
    read.status(end(last=3, pending=1))
    assert read.take() == [3]
    read.requests()
    read.message(4, 0, 0)
    read.state(last_seq=4, created="2026-12-01T00:00:00Z")
    assert isinstance(read.direct.error, StreamRecreatedError)
    assert read.take() == []


@requirement(134)
def test_more_than_a_server_answers_for() -> None:
    read = ReadLast()
    read.requests()
    read.status(b"NATS/1.0 413 Too Many Results\r\n\r\n")
    with pytest.raises(TooManyResultsError):
        read.direct.readable().result()


def test_an_end_without_its_point() -> None:
    read = ReadLast()
    read.requests()
    read.message(3, 0, 3)
    read.status(end(last=3, pending=1, up_to=None))
    assert isinstance(read.direct.error, RemoteProtocolError)


def test_one_too_few_pending_at_the_end_of_a_page_of_2_11() -> None:
    read = ReadLast(page_messages=1)
    for seq, pending, said in ((3, 2, 1), (4, 1, 0), (5, 0, 0)):
        assert len(read.requests()) == 1
        read.message(seq, 0, pending)
        if seq > 3:
            read.state(last_seq=6)
        read.status(end(last=seq, pending=said))
        assert read.take() == [seq]
    assert read.direct.finished  # though the page was full: nothing can come as of a point that is over


@requirement(129)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subjects": []}, "at least one subject"),
        ({"subjects": 5}, "subjects are a subject, or several, not 5"),
        ({"subjects": [f"a.{n}" for n in range(1025)]}, "1024 subjects at once, not 1025"),
        ({"subjects": ["a b"]}, "a b"),
        ({"up_to_seq": 0}, "up_to_seq"),
        ({"up_to_seq": 1, "batch": 0}, "batch"),
        ({"up_to_seq": 1, "up_to_time": 1}, "not both"),
        ({"batch": 0}, "batch"),
    ],
)
def test_what_no_server_would_answer_is_not_asked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        Harness().js.get_last_msgs_for("DG", now=0.0, **{"subjects": "a", **options})


def test_without_a_point_pages_would_show_several_states() -> None:
    h = Harness()
    with pytest.raises(LocalProtocolError, match="several states"):
        LastMessages(h.session, "DG", ["a"], api=h.js.api, inbox=h.session.new_inbox(), now=h.now)


def test_the_verb() -> None:
    h = Harness()
    read = h.js.get_last_msgs_for("DG", ["a", "a", "b"], now=h.now, up_to_seq=7, max_bytes=100, batch=3)
    (pub,) = h.published()
    assert pub.subject == b"$JS.API.DIRECT.GET.DG"
    assert pub.payload == b'{"multi_last":["a","b"],"batch":3,"max_bytes":100,"up_to_seq":7}'
    read.close(h.now)


@requirement(128)
@pytest.mark.parametrize("verb", ["get_batch", "get_last_msgs_for", "snapshot"])
def test_servers_without_batches_are_not_asked(verb: str) -> None:
    h = Harness(info={"version": "2.10.29"})
    arguments = ["DG"] if verb == "get_batch" else ["DG", "a"]
    with pytest.raises(UnsupportedByServerError, match=r"2\.11.*2\.10\.29"):
        getattr(h.js, verb)(*arguments, now=h.now)
    assert h.published() == []


@requirement(136)
@promise("no subject is left out that is there all the time.")
@given(
    log=keys.filter(bool), later=keys, deleted=st.sets(st.integers(1, 40)), old=st.booleans(),
    kept=st.none() | st.sets(st.integers(1, 60)), data=st.data(),
)  # fmt: skip
def test_each_subject_once_as_of_the_point(
    log: list[str], later: list[str], deleted: set[int], old: bool, kept: set[int] | None, data: st.DataObject
) -> None:
    """Somebody goes on writing, a mirror has a part, and replies get lost, come twice and late."""
    stream = Stream(log)
    stream.kept = kept
    for seq in deleted:
        stream.messages.pop(seq, None)
    up_to = data.draw(st.integers(1, len(log)))
    h = Harness()
    read = LastMessages(
        h.session, "DG", ["k.*"], api=h.js.api, inbox=h.session.new_inbox(), now=h.now,
        page_messages=data.draw(st.integers(1, 5)), up_to_seq=up_to, timeout=0.5,
    )  # fmt: skip

    def write() -> None:
        if later:
            stream.add(later.pop())

    got = read_through(h, stream, read, data.draw, applied=lambda: stream.last_seq, old=old, between=write)
    assert read.up_to_seq == up_to
    expected = stream.last_of_each(["k.*"], up_to)
    assert got == (expected if read.error is None else expected[: len(got)])


@given(
    log=st.lists(st.sampled_from([f"k.{n}" for n in range(6)] + ["j.1"]), max_size=20), later=keys,
    kept=st.none() | st.sets(st.integers(1, 60)), wanted=st.sampled_from(["k.*", ["k.1", "k.2", "k.9"], ">", "i.1"]),
    most=st.none() | st.integers(1, 4), version=st.sampled_from(["2.11.9", "2.12.0"]), data=st.data(),
)  # fmt: skip
def test_as_of_now_no_subject_is_left_out(
    log: list[str], later: list[str], kept: set[int] | None, wanted: Any, most: int | None, version: str,
    data: st.DataObject,
) -> None:  # fmt: skip
    """Replicas are behind, a mirror has a part, and somebody overwrites: as of its sequence, or a typed error."""
    stream = Stream(log)
    stream.kept = kept
    h = Harness(info={"version": version})
    least = data.draw(st.integers(0, len(log)))
    read = h.js.get_last_msgs_for("DG", wanted, now=h.now, batch=most, timeout=0.5)

    def write() -> None:
        for _ in range(data.draw(st.integers(0, 2))):
            if later:
                stream.add(later.pop())

    got = read_through(
        h, stream, read, data.draw, applied=lambda: data.draw(st.integers(least, stream.last_seq)), between=write,
        old=version == "2.11.9",
    )  # fmt: skip
    if read.error is None:
        point = read.up_to_seq or 0
        assert got == stream.last_of_each([wanted] if isinstance(wanted, str) else wanted, point)[:most]
        assert point >= least or not got
    else:
        assert got == []
