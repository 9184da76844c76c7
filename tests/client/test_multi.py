"""Reading the last messages of many subjects, against a scripted server; the bytes are those of released servers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.multi import LastMessages
from jsproto.errors import IncompleteBatchError, LocalProtocolError, TooManyResultsError, UnsupportedByServerError
from tests.client.replicas import Stream, read_through
from tests.client.test_direct import Read
from tests.harness import Harness

keys = st.lists(st.sampled_from([f"k.{n}" for n in range(12)]), max_size=30)
SUBJECTS = ["foo.A", "foo.>"]
NO_RESULTS = b"NATS/1.0 404 No Results\r\n\r\n"


def end(*, last: int, pending: int, up_to: int | None = 6) -> bytes:
    own = "" if up_to is None else f"Nats-UpTo-Sequence: {up_to}\r\n"
    return f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n{own}\r\n".encode()


class ReadLast(Read):
    """A read and the server's side of it."""

    direct: LastMessages

    def make(self, subjects: Any = SUBJECTS, **options: Any) -> LastMessages:
        return LastMessages(
            self.h.session, "DG", subjects, api=ApiSubjects(), inbox=self.h.session.new_inbox(),
            now=self.h.now, **options,
        )  # fmt: skip


def test_pages_are_all_up_to_the_same_sequence() -> None:
    read = ReadLast(page_messages=2)
    assert read.requests() == [{"multi_last": SUBJECTS, "batch": 2, "max_bytes": 8_388_608}]
    assert read.direct.up_to_seq is None
    read.message(3, 0, 3)
    read.message(4, 3, 2)
    read.status(end(last=4, pending=2))
    assert read.direct.up_to_seq == 6
    assert read.take() == [3, 4]
    assert read.requests() == [
        {"multi_last": SUBJECTS, "batch": 2, "max_bytes": 8_388_608, "seq": 5, "up_to_seq": 6}
    ]  # fmt: skip
    read.message(5, 0, 1)
    read.message(6, 5, 0)
    read.status(end(last=6, pending=0))
    assert read.take() == [5, 6]
    assert (read.direct.finished, read.direct.num_pending, read.direct.last_seq) == (True, 0, 6)


@pytest.mark.parametrize(
    ("options", "field"),
    [({"up_to_seq": 23}, {"up_to_seq": 23}), ({"up_to_time": 0}, {"up_to_time": "1970-01-01T00:00:00Z"})],
)
def test_as_of_a_sequence_or_a_time(options: dict[str, Any], field: dict[str, Any]) -> None:
    read = ReadLast(subjects="foo.*", batch=3, page_messages=2, **options)
    assert read.requests() == [{"multi_last": ["foo.*"], "batch": 2, "max_bytes": 8_388_608, **field}]
    read.message(3, 0, 2)
    read.h.advance(5.0)  # that replica is dead; the point is the same
    assert read.requests() == [{"multi_last": ["foo.*"], "batch": 2, "max_bytes": 8_388_608, "seq": 4, **field}]
    read.message(4, 0, 9)
    read.message(5, 4, 8)
    read.status(end(last=5, pending=8, up_to=23))
    assert read.direct.finished
    assert read.direct.up_to_seq == 23


def test_nothing_matches() -> None:
    read = ReadLast()
    read.requests()
    read.status(NO_RESULTS)
    assert read.direct.finished
    assert read.take() == []


def test_more_than_a_server_answers_for() -> None:
    read = ReadLast()
    read.requests()
    read.status(b"NATS/1.0 413 Too Many Results\r\n\r\n")
    with pytest.raises(TooManyResultsError):
        read.direct.readable().result()


def test_a_first_page_without_its_point_is_not_continued() -> None:
    read = ReadLast()
    read.requests()
    read.h.advance(5.0)
    assert len(read.requests()) == 1  # of nothing anything can be asked again
    read.message(3, 0, 3)
    read.h.advance(5.0)
    assert read.take() == [3]
    with pytest.raises(IncompleteBatchError, match="before the server had said"):
        read.direct.readable().result()


def test_an_end_without_its_point() -> None:
    read = ReadLast()
    read.requests()
    read.message(3, 0, 3)
    read.status(end(last=3, pending=1, up_to=None))
    assert isinstance(read.direct.error, IncompleteBatchError)


def test_one_too_few_pending_at_the_end_of_a_page_of_2_11() -> None:
    read = ReadLast(page_messages=1)
    for seq, pending, said in ((3, 2, 1), (4, 1, 0), (5, 0, 0)):
        assert len(read.requests()) == 1
        read.message(seq, 0, pending)
        read.status(end(last=seq, pending=said))
        assert read.take() == [seq]
    assert read.direct.finished


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subjects": []}, "at least one subject"),
        ({"subjects": [f"a.{n}" for n in range(1025)]}, "1024 subjects at once, not 1025"),
        ({"subjects": ["a b"]}, "a b"),
        ({"up_to_seq": 0}, "up_to_seq"),
        ({"up_to_seq": 1, "up_to_time": 1}, "not both"),
        ({"batch": 0}, "batch"),
    ],
)
def test_what_no_server_would_answer_is_not_asked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        ReadLast(**options)


def test_the_verb() -> None:
    h = Harness()
    read = h.js.get_last_msgs_for("DG", ["a", "a", "b"], now=h.now, up_to_seq=7, max_bytes=100, batch=3)
    (pub,) = h.published()
    assert pub.subject == b"$JS.API.DIRECT.GET.DG"
    assert pub.payload == b'{"multi_last":["a","b"],"batch":3,"max_bytes":100,"up_to_seq":7}'
    read.close(h.now)


@pytest.mark.parametrize("verb", ["get_batch", "get_last_msgs_for", "snapshot"])
def test_servers_without_batches_are_not_asked(verb: str) -> None:
    h = Harness(info={"version": "2.10.29"})
    arguments = ["DG"] if verb == "get_batch" else ["DG", "a"]
    with pytest.raises(UnsupportedByServerError, match=r"2\.11.*2\.10\.29"):
        getattr(h.js, verb)(*arguments, now=h.now)
    assert h.published() == []


@given(log=keys, later=keys, deleted=st.sets(st.integers(1, 40)), old=st.booleans(), data=st.data())
def test_each_subject_once_as_of_the_point(
    log: list[str], later: list[str], deleted: set[int], old: bool, data: st.DataObject
) -> None:
    """Somebody goes on writing, and replies get lost, come twice and late."""
    stream = Stream(log)
    for seq in deleted:
        stream.messages.pop(seq, None)
    up_to = data.draw(st.none() | st.integers(1, len(log))) if log else None
    h = Harness()
    read = LastMessages(
        h.session, "DG", "k.*", api=ApiSubjects(), inbox=h.session.new_inbox(), now=h.now,
        page_messages=data.draw(st.integers(1, 5)), up_to_seq=up_to, timeout=0.5,
    )  # fmt: skip

    def write() -> None:
        if later:
            stream.add(later.pop())

    got = read_through(h, stream, read, data.draw, applied=lambda: stream.last_seq, old=old, between=write)
    point = read.up_to_seq
    assert point is not None or read.error is not None or got == []
    if point is not None:
        expected = stream.last_of_each(["k.*"], point)
        assert got == (expected if read.error is None else expected[: len(got)])
