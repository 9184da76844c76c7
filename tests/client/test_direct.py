"""Direct Get in batches against a scripted server; the bytes are those of released servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.direct import DirectBatch
from jsproto.errors import (
    BadRequestError,
    BadSubjectError,
    ConnectionLostError,
    IncompleteBatchError,
    LocalProtocolError,
    NoRespondersError,
    RemoteProtocolError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.wire.frames import Pub, Unsub
from tests.harness import Harness

NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"


def stored(seq: int, *, last: int, pending: int, subject: str = "foo.A", user: str = "") -> bytes:
    return (
        f"NATS/1.0\r\n{user}Nats-Stream: DG\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
        f"Nats-Time-Stamp: 2026-11-20T20:36:46.910548879Z\r\nNats-Num-Pending: {pending}\r\n"
        f"Nats-Last-Sequence: {last}\r\n\r\n"
    ).encode()


def end(*, last: int, pending: int) -> bytes:
    return f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n\r\n".encode()


class Read:
    """A read and the server's side of it."""

    def __init__(self, page_messages: int = 10, harness: Harness | None = None, **options: Any) -> None:
        self.h = harness or Harness()
        js = self.h.js
        self.direct = DirectBatch(
            self.h.session, "DG", api_subject=js.api.direct_get("DG"), inbox=self.h.session.new_inbox(),
            now=self.h.now, page_messages=page_messages, **options,
        )  # fmt: skip
        self.reply = b""

    def requests(self) -> list[dict[str, Any]]:
        pubs = [frame for frame in self.h.sent() if isinstance(frame, Pub)]
        for pub in pubs:
            assert pub.subject == b"$JS.API.DIRECT.GET.DG"
            assert pub.reply is not None
            self.reply = pub.reply
        return [json.loads(pub.payload) for pub in pubs]

    def message(self, seq: int, last: int, pending: int, payload: bytes = b"x", **fields: Any) -> None:
        self.h.deliver(self.reply, payload, stored(seq, last=last, pending=pending, **fields))

    def status(self, header: bytes) -> None:
        self.h.deliver(self.reply, b"", header)

    def take(self, most: int = 1000) -> list[int]:
        return [message.seq for message in self.direct.pop_many(most, self.h.now)]


def test_one_page_is_all() -> None:
    read = Read(seq=1, subject="foo.>", batch=3, page_bytes=500)
    assert read.requests() == [{"seq": 1, "batch": 3, "max_bytes": 500, "next_by_subj": "foo.>"}]
    readable = read.direct.readable()
    assert read.direct.readable() is readable
    read.message(1, 0, 6, b"one", user="Nats-Sequence: 99\r\nX: mine\r\n")
    assert readable.done
    read.message(3, 1, 5)
    read.message(4, 3, 4)
    assert not read.direct.finished
    read.status(end(last=4, pending=3))
    assert read.direct.finished
    assert (read.direct.last_seq, read.direct.num_pending) == (4, 3)
    assert read.direct.readable().done
    first, *rest = read.direct.pop_many(9, read.h.now)
    assert (first.seq, first.data, first.subject, first.stream, first.num_pending) == (1, b"one", "foo.A", "DG", 6)
    assert list(first.headers.items()) == [("Nats-Sequence", "99"), ("X", "mine")]
    assert [message.seq for message in rest] == [3, 4]
    assert read.direct.readable().result() is None
    assert read.take() == []
    assert [type(frame) for frame in read.h.sent()] == [Unsub]


def test_pages_follow_each_other_without_a_hole() -> None:
    read = Read(page_messages=4)
    assert read.requests() == [{"seq": 1, "batch": 4, "max_bytes": 8_388_608}]
    for seq in range(1, 5):
        read.message(seq, seq - 1, 10 - seq)
    read.status(end(last=4, pending=6))
    assert read.requests() == []  # the reader is slow: nothing more is asked for
    assert read.take(1) == [1]
    assert read.requests() == []
    assert read.take(1) == [2]
    assert read.requests() == [{"seq": 5, "batch": 4, "max_bytes": 8_388_608}]
    read.message(7, 0, 3)
    read.status(end(last=7, pending=3))
    assert read.requests() == []
    assert read.take() == [3, 4, 7]
    assert read.requests() == [{"seq": 8, "batch": 4, "max_bytes": 8_388_608}]
    read.status(NOT_FOUND)  # what was pending was deleted meanwhile
    assert read.direct.finished
    assert read.direct.num_pending == 0


def test_a_limit_over_several_pages() -> None:
    read = Read(page_messages=2, batch=3)
    (request,) = read.requests()
    assert request["batch"] == 2
    read.message(1, 0, 9)
    read.message(2, 1, 8)
    read.take()
    read.status(end(last=2, pending=8))
    (request,) = read.requests()
    assert (request["seq"], request["batch"]) == (3, 1)
    read.message(3, 0, 7)
    read.status(end(last=3, pending=7))
    assert read.direct.finished
    assert read.take() == [3]


def test_nothing_matches() -> None:
    read = Read()
    read.requests()
    readable = read.direct.readable()
    read.status(NOT_FOUND)
    assert readable.result() is None
    assert read.take() == []
    assert read.direct.finished


def test_draft_time_format_and_unusual_header_order() -> None:
    read = Read()
    read.requests()
    header = (
        b"NATS/1.0\r\nNats-Stream: DG\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\nNats-Sequence: 3\r\n"
        b"Nats-Subject: a\r\nNats-Time-Stamp: 2022-08-06 00:29:27.587861324 +0000 UTC\r\n\r\n"
    )
    read.h.deliver(read.reply, b"x", header)
    (message,) = read.direct.pop_many(1, read.h.now)
    assert (message.seq, message.timestamp) == (3, 1_659_745_767_587_861_324)
    assert message.raw_headers == header
    assert repr(message) == "<StoredMsg 3 'a' 1 bytes>"


# -- pages that break --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        [stored(1, last=0, pending=5), stored(3, last=2, pending=3)],  # 2 is missing
        [stored(5, last=0, pending=5), stored(4, last=5, pending=3)],  # backwards
        [stored(1, last=0, pending=5), end(last=2, pending=3)],  # the last one is missing
        [stored(1, last=0, pending=5), b"NATS/1.0 204 EOB\r\n\r\n"],  # an end without numbers
        [end(last=0, pending=3)],  # nothing came though something is there
    ],
)
def test_a_lost_message_is_noticed(headers: list[bytes]) -> None:
    read = Read()
    read.requests()
    for header in headers:
        read.h.deliver(read.reply, b"", header)
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert not read.direct.finished
    if read.direct.last_seq:
        assert read.direct.error.last_seq == read.direct.last_seq
        assert read.direct.readable().done
        assert len(read.take()) == 1
    with pytest.raises(IncompleteBatchError):
        read.direct.readable().result()


@pytest.mark.parametrize(
    ("header", "error", "text"),
    [
        (b"NATS/1.0 503\r\n\r\n", NoRespondersError, "allow_direct"),
        (b"NATS/1.0 408 Bad Request\r\n\r\n", BadRequestError, "Bad Request"),
        (b"NATS/1.0 x\r\n\r\n", RemoteProtocolError, ""),
        (None, RemoteProtocolError, "without headers"),
        (b"NATS/1.0\r\nX: y\r\n\r\n", RemoteProtocolError, "Nats-Sequence"),
        (b"NATS/1.0\r\nNats-Sequence: x\r\n\r\n", RemoteProtocolError, "number"),
        (b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n", UnsupportedByServerError, "2.11"),
        (b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Num-Pending: 1\r\n\r\n", UnsupportedByServerError, "2.15.1"),
    ],
)
def test_answers_that_end_the_read(header: bytes | None, error: type[Exception], text: str) -> None:
    read = Read()
    read.requests()
    readable = read.direct.readable()
    read.h.deliver(read.reply, b"", header)
    assert isinstance(readable.error, error)
    assert text in str(readable.error)
    assert [type(frame) for frame in read.h.sent()] == [Unsub]


def test_not_found_after_messages_of_the_page_is_no_end() -> None:
    read = Read()
    read.requests()
    read.message(1, 0, 5)
    read.status(NOT_FOUND)
    assert read.direct.error is not None


def test_a_page_that_falls_silent() -> None:
    read = Read(timeout=5.0)
    read.requests()
    read.h.advance(4.0)
    read.message(1, 0, 5)
    read.h.advance(4.0)
    assert read.direct.error is None
    read.h.advance(1.1)
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert read.direct.error.last_seq == 1
    read.direct.handle_timeout(read.h.now)
    read.direct.link_lost(ConnectionLostError("later"), read.h.now)
    assert "no message within" in str(read.direct.error)


def test_the_link_is_lost_in_the_middle() -> None:
    read = Read()
    read.requests()
    read.message(1, 0, 5)
    read.h.session.receive_eof(read.h.now)
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert isinstance(read.direct.error.__cause__, ConnectionLostError)
    assert read.take() == [1]


def test_a_new_link_goes_on_behind_the_last_message() -> None:
    read = Read(harness=Harness(max_reconnect_attempts=-1), batch=5, timeout=5.0)
    read.requests()
    read.message(1, 0, 9)
    read.message(4, 1, 8)
    read.h.lose()
    read.h.advance(20.0)  # without a link silence means nothing
    read.h.connect()
    (request,) = read.requests()
    assert (request["seq"], request["batch"]) == (5, 3)
    read.message(5, 0, 7)
    read.status(end(last=5, pending=0))
    assert read.take() == [1, 4, 5]
    read.h.lose()
    read.h.connect()
    assert read.requests() == []


def test_a_new_link_without_a_limit() -> None:
    read = Read(harness=Harness(max_reconnect_attempts=-1))
    read.requests()
    read.h.lose()
    read.h.connect()
    assert [request["seq"] for request in read.requests()] == [1]


def test_a_new_link_while_the_reader_is_slow() -> None:
    read = Read(harness=Harness(max_reconnect_attempts=-1), page_messages=2)
    read.requests()
    read.message(1, 0, 9)
    read.message(2, 1, 8)
    read.status(end(last=2, pending=8))
    read.h.lose()
    read.h.connect()
    assert read.requests() == []
    assert read.take() == [1, 2]
    assert [request["seq"] for request in read.requests()] == [3]


def test_a_request_that_finds_no_room_is_made_later() -> None:
    h = Harness(pending_size=100, linger=9.0)
    h.session.publish_message("x", b"x" * 200)
    read = Read(harness=h, page_messages=2)
    assert h.session.deadline() == h.now + 0.02
    h.advance(0.05)
    assert len(h.published()) == 1
    h.advance(0.05)
    assert [request["seq"] for request in read.requests()] == [1]
    read.message(1, 0, 9)
    read.message(2, 1, 8)
    read.status(end(last=2, pending=8))
    h.session.publish_message("x", b"x" * 200)
    assert read.take() == [1, 2]
    h.published()
    h.advance(0.05)
    assert [request["seq"] for request in read.requests()] == [3]


@pytest.mark.parametrize(("batch", "size"), [(2, 1), (9, 60)])
def test_a_server_that_sends_more_than_was_asked_for(batch: int, size: int) -> None:
    read = Read(batch=batch, page_bytes=100)
    read.requests()
    for seq in range(1, 4):
        read.message(seq, seq - 1, 9 - seq, b"x" * size)
    assert isinstance(read.direct.error, RemoteProtocolError)
    assert read.take() == [1, 2]


def test_messages_of_an_earlier_page_change_nothing() -> None:
    read = Read(page_messages=1)
    read.requests()
    old = read.reply
    read.message(1, 0, 5)
    read.take()
    read.status(end(last=1, pending=5))
    read.requests()
    assert read.reply != old
    read.h.deliver(old, b"", stored(9, last=8, pending=1))
    (event,) = read.h.events()
    assert isinstance(event, UnexpectedMessage)
    assert read.direct.last_seq == 1


def test_closing_drops_what_is_buffered() -> None:
    read = Read()
    read.requests()
    read.message(1, 0, 5)
    read.direct.close(read.h.now)
    assert read.take() == []
    assert read.direct.finished
    read.direct.link_lost(ConnectionLostError("later"), read.h.now)
    assert read.direct.error is None


@pytest.mark.parametrize(
    "options",
    [{"seq": 0}, {"batch": 0}, {"page_bytes": 0}, {"page_messages": 0}, {"timeout": 0.0}, {"subject": "a..b"}],
)
def test_impossible_reads_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Read(**options)
    assert issubclass(BadSubjectError, LocalProtocolError)


@given(
    numbers=st.lists(st.integers(1, 5), max_size=60), page=st.integers(1, 7), taken=st.integers(1, 9),
    limit=st.none() | st.integers(1, 40), pending_off=st.sampled_from([0, 1]),
)  # fmt: skip
def test_every_message_exactly_once_in_order(
    numbers: list[int], page: int, taken: int, limit: int | None, pending_off: int
) -> None:
    """A model server with holes in its numbering (2.11 counts the message itself as pending)."""
    sequences = [sum(numbers[: n + 1]) for n in range(len(numbers))]
    read = Read(page_messages=page, batch=limit)
    got: list[int] = []
    for _ in range(200):
        for request in read.requests():
            matching = [seq for seq in sequences if seq >= request["seq"]]
            last = 0
            for n, seq in enumerate(matching[: request["batch"]], 1):
                read.message(seq, last, len(matching) - n + pending_off)
                last = seq
            sent = min(len(matching), request["batch"])
            read.status(end(last=last, pending=len(matching) - sent) if sent else NOT_FOUND)
            assert read.direct._buffer.__len__() <= page + page // 2
        got += read.take(taken)
        if read.direct.finished and not read.direct.readable().error and not read.direct._buffer:
            break
    assert got == (sequences if limit is None else sequences[:limit])
    assert read.direct.error is None
