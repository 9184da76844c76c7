"""Direct Get in batches while servers die, links are lost, and limits drop what is being read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.errors import (
    APIError,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    MessagesDroppedError,
    NoRespondersError,
    StreamRecreatedError,
)
from tests.client.test_direct import Read, end
from tests.client.test_direct_belief import Strict
from tests.harness import Harness
from tests.marks import promise

NOBODY = b"NATS/1.0 503\r\n\r\n"
DIRECT_ALLOWED = {"name": "DG", "allow_direct": True}
OLD = {"version": "2.11.11"}


def api_error(read: Read, code: int, err_code: int) -> None:
    """The leader's answer is this error."""
    error = {"error": {"code": code, "err_code": err_code, "description": "no"}}
    read.h.deliver(read.question().reply or b"", json.dumps(error).encode())


def begun(**options: Any) -> Read:
    """A read that got a page of two messages, and asks for the next one."""
    read = Read(page_messages=2, anchored=False, **options)
    read.requests()
    read.message(1, 0, 2)
    read.message(2, 1, 1)
    read.status(end(last=2, pending=1))
    assert read.take() == [1, 2]
    read.requests()
    return read


# -- nobody answers ----------------------------------------------------------------------------------------------------


def test_nobody_answers_because_the_stream_allows_no_direct_gets() -> None:
    read = Read()
    read.requests()
    readable = read.direct.readable()
    read.status(NOBODY)
    read.state(config={"name": "DG"})
    with pytest.raises(NoRespondersError, match="allow_direct=True"):
        readable.result()


def test_nobody_answers_because_there_is_no_stream() -> None:
    read = Read()
    read.requests()
    read.status(NOBODY)
    api_error(read, 404, 10059)
    with pytest.raises(NoRespondersError, match="does not exist or does not allow"):
        read.direct.readable().result()


def test_nobody_answers_because_there_is_no_jetstream() -> None:
    read = Read()
    read.requests()
    read.status(NOBODY)
    read.h.deliver(read.question().reply or b"", b"", NOBODY)
    with pytest.raises(JetStreamNotAvailableError):
        read.direct.readable().result()


def test_another_error_of_the_leader_ends_the_read() -> None:
    read = Read()
    read.requests()
    read.status(NOBODY)
    api_error(read, 400, 10025)
    assert isinstance(read.direct.error, APIError)
    assert read.direct.error.err_code == 10025


@pytest.mark.parametrize("reason", ["no leader", "offline", "no server", "a leader"])
def test_the_server_that_has_the_stream_dies_and_comes_back(reason: str) -> None:
    read = begun()
    for _ in range(3):
        read.status(NOBODY)
        if reason == "no server":
            read.h.deliver(read.question().reply or b"", b"", NOBODY)
        elif reason == "a leader":
            read.state(config=DIRECT_ALLOWED)
        else:
            api_error(read, *((503, 10008) if reason == "no leader" else (500, 10118)))
        read.h.advance(0.5)
        assert [request["seq"] for request in read.requests()] == [2]
    read.message(2, 0, 1)
    read.message(3, 2, 0)
    read.status(end(last=3, pending=0))
    assert read.take() == [3]
    assert read.direct.error is None


@pytest.mark.parametrize("reason", ["no server", "a leader"])
def test_a_server_that_stays_away_ends_the_read(reason: str) -> None:
    read = begun(timeout=1.0)
    while read.direct.error is None:
        read.status(NOBODY)
        if reason == "no server":
            read.h.deliver(read.question().reply or b"", b"", NOBODY)
        else:
            read.state(config=DIRECT_ALLOWED)
        read.h.advance(0.5)
        read.requests()
    assert isinstance(read.direct.error, JetStreamNotAvailableError if reason == "no server" else NoRespondersError)


# -- no link -----------------------------------------------------------------------------------------------------------


@promise("It asks for the next page only as messages are taken")
def test_what_is_buffered_is_taken_while_there_is_no_link() -> None:
    read = Read(page_messages=2, harness=Harness(max_reconnect_attempts=-1, reconnect_time_wait=0), timeout=1.0)
    read.requests()
    read.message(1, 0, 9)
    read.message(2, 1, 8)
    read.status(end(last=2, pending=8))
    read.h.lose()
    assert read.take(1) == [1]
    assert read.take(1) == [2]
    read.h.advance(20.0)
    assert read.direct.error is None
    read.h.connect()
    assert [request["seq"] for request in read.requests()] == [3]


def test_a_pause_ends_with_a_new_link() -> None:
    read = begun(harness=Harness(max_reconnect_attempts=-1, reconnect_time_wait=0), timeout=1.0)
    read.status(NOBODY)
    read.state(last_seq=9, config=DIRECT_ALLOWED)
    read.requests()
    read.status(NOBODY)
    read.state(last_seq=9, config=DIRECT_ALLOWED)
    assert read.requests() == []  # later
    read.h.lose()
    read.h.advance(20.0)
    read.h.connect()
    assert [request["seq"] for request in read.requests()] == [2]
    read.status(NOBODY)
    read.state(last_seq=9, config=DIRECT_ALLOWED)
    assert read.direct.error is None  # the time begins anew


# -- what limits drop --------------------------------------------------------------------------------------------------


def test_a_stream_need_not_begin_with_sequence_1() -> None:
    read = Strict()
    read.message(1000, 0, 0)
    assert read.h.published() == []
    read.status(end(last=1000, pending=0))
    assert read.take() == [1000]
    assert read.direct.finished


def test_an_old_server_drops_messages_of_a_page_that_it_sends() -> None:
    read = Strict(seq=4, harness=Harness(info=OLD))
    read.message(4, 0, 9)
    read.message(8, 4, 5)
    read.status(end(last=8, pending=5))
    assert read.take() == []
    read.state(first_seq=7, last_seq=13)
    error = read.direct.error
    assert isinstance(error, MessagesDroppedError)
    assert read.take() == []


@pytest.mark.parametrize("options", [{}, {"subject": "foo.*"}])
def test_an_old_server_sends_a_page_with_a_hole_of_its_own(options: dict[str, Any]) -> None:
    read = Strict(seq=4, harness=Harness(info=OLD), **options)
    read.message(4, 0, 1)
    read.message(8, 4, 0)
    readable = read.direct.readable()
    read.status(end(last=8, pending=0))
    read.state(first_seq=4, last_seq=8)
    assert readable.done
    assert read.take() == [4, 8]
    assert read.direct.finished


def test_an_old_server_sends_a_page_without_a_hole() -> None:
    read = Strict(seq=4, harness=Harness(info=OLD))
    read.message(4, 0, 1)
    read.message(5, 4, 0)
    read.status(end(last=5, pending=0))
    assert read.h.published() == []
    assert read.take() == [4, 5]
    assert read.direct.finished


def test_a_page_of_an_old_server_that_begins_with_a_hole() -> None:
    read = Strict(seq=4, harness=Harness(info=OLD))
    read.message(6, 0, 1)
    read.state(first_seq=4, last_seq=7)
    assert read.take() == []  # what follows may have a hole, too
    read.message(7, 6, 0)
    read.status(end(last=7, pending=0))
    read.state(first_seq=4, last_seq=7)
    assert read.take() == [6, 7]


def test_a_question_without_room_about_an_old_page() -> None:
    read = Strict(seq=4, harness=Harness(info=OLD, pending_size=100, linger=9.0))
    read.message(6, 0, 0)
    read.state(first_seq=4, last_seq=6)
    read.h.session.publish_message("x", b"x" * 200)
    read.direct.receive(read_message(read, end(last=6, pending=0)), read.h.now)
    assert read.take() == []
    assert read.direct.error is None
    assert [pub.subject for pub in read.h.published()] == [b"x"]
    read.h.advance(0.02)
    assert [request["seq"] for request in read.requests()] == [4]


def read_message(read: Read, header: bytes) -> Any:
    """A message for the page under way, past the session."""
    from jsproto.wire.frames import Msg

    return Msg(read.reply, b"1", None, header, b"")


# -- mirrors that are read by their own name ---------------------------------------------------------------------------


@promise("A mirror that was created again holds the same messages")
def test_a_mirror_is_older_than_what_it_holds() -> None:
    read = begun()
    read.message(9, 0, 0)
    read.state(config={"name": "DG", "mirror": {"name": "S"}}, created="2030-01-01T00:00:00Z", first_seq=8, last_seq=9,
               first_ts="2031-01-01T00:00:00Z")  # fmt: skip
    read.status(end(last=9, pending=0))
    assert read.take() == [9]
    assert read.direct.error is None


@promise("`StreamRecreatedError` reports a stream that was deleted and created again between two pages.")
def test_a_mirror_that_was_made_anew_since_the_leader_was_asked() -> None:
    read = begun()
    mirror = {"name": "DG", "mirror": {"name": "S"}}
    read.message(9, 0, 1)
    read.state(config=mirror, created="2030-01-01T00:00:00Z", first_seq=8, last_seq=10)
    read.status(end(last=9, pending=1))
    assert read.take() == [9]
    read.requests()
    read.message(12, 0, 0)
    read.state(config=mirror, created="2030-01-02T00:00:00Z", first_seq=12, last_seq=12)
    assert isinstance(read.direct.error, StreamRecreatedError)


def test_silence_is_an_error_as_before() -> None:
    read = begun(timeout=1.0)
    read.h.advance(2.0)
    assert isinstance(read.direct.error, IncompleteBatchError)


@promise("It asks for the next page only as messages are taken")
def test_a_new_link_goes_on_behind_the_last_message() -> None:
    read = Read(harness=Harness(max_reconnect_attempts=-1, reconnect_time_wait=0), batch=5, timeout=5.0)
    read.requests()
    read.message(1, 0, 9)
    read.message(4, 1, 8)
    read.h.lose()
    read.h.advance(20.0)  # without a link silence means nothing
    read.h.connect()
    (request,) = read.requests()
    assert (request["seq"], request["batch"]) == (5, 3)
    read.message(5, 0, 7)
    read.message(6, 5, 6)
    read.message(7, 6, 5)
    read.status(end(last=7, pending=5))
    assert read.take() == [1, 4, 5, 6, 7]
    read.h.lose()
    read.h.connect()
    assert read.requests() == []


def test_a_new_link_without_a_limit() -> None:
    read = Read(harness=Harness(max_reconnect_attempts=-1))
    read.requests()
    read.h.lose()
    read.h.connect()
    assert [request["seq"] for request in read.requests()] == [1]


@promise("It asks for the next page only as messages are taken")
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
