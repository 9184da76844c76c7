"""Whom a Direct Get in batches believes: the stream and its leader, a page that goes on with the last, no mirror."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import (
    Error,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    MessagesDroppedError,
    MirrorAnswerError,
    PermissionsViolationError,
    RemoteProtocolError,
    StreamRecreatedError,
    StreamRolledBackError,
)
from jsproto.events import UnexpectedMessage
from jsproto.rules.position import ELECTION
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import MsgRun
from tests.client.replicas import DIRECT, LEADER, NOT_FOUND
from tests.client.test_direct import CREATED, Read, end, stored
from tests.harness import Harness
from tests.marks import promise

# -- messages that limits dropped --------------------------------------------------------------------------------------


class Strict(Read):
    """A read that is to miss nothing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(if_dropped="error", **options)
        self.requests()


def test_nothing_was_dropped_when_the_first_one_comes() -> None:
    read = Strict(seq=4)
    read.message(4, 0, 0)
    assert read.h.published() == []
    assert read.take() == [4]


def test_a_hole_at_the_start_is_looked_into() -> None:
    read = Strict(seq=4)
    readable = read.direct.readable()
    read.message(6, 0, 1)
    read.message(7, 6, 0)
    assert not readable.done
    assert read.take() == []
    read.state(first_seq=4)
    assert readable.done
    assert read.take() == [6, 7]
    read.message(8, 7, 0)
    read.status(end(last=8, pending=0))
    assert read.take() == [8]
    assert read.direct.finished


def test_the_page_ends_before_the_stream_tells_its_state() -> None:
    read = Strict(seq=4)
    read.message(6, 0, 0)
    read.status(end(last=6, pending=0))
    assert not read.direct.finished
    read.state(first_seq=2)
    assert read.direct.finished
    assert read.take() == [6]


@promise("What was deleted inside the range is passed over.")
@pytest.mark.parametrize("nothing", [True, False])
def test_what_was_dropped_is_told(nothing: bool) -> None:
    read = Strict(seq=4)
    if nothing:
        read.status(NOT_FOUND)
    else:
        read.message(6, 0, 0)
    read.state(first_seq=5)
    with pytest.raises(MessagesDroppedError, match="message 4 is not in the stream any more") as caught:
        read.direct.readable().result()
    assert (caught.value.wanted, caught.value.first_seq, read.direct.last_seq) == (4, 5, 0)
    assert read.take() == []


@pytest.mark.parametrize("first_seq", [4, 10])
def test_what_is_dropped_while_the_leader_is_asked(first_seq: int) -> None:
    """It had messages, then none: it is asked once more what it dropped."""
    read = Strict(seq=4)
    read.status(NOT_FOUND)
    read.state(first_seq=4, last_seq=9)
    assert read.leader(None) == {"seq": 4, "next_by_subj": ">"}
    assert not read.direct.finished
    read.state(first_seq=first_seq, last_seq=9)
    assert isinstance(read.direct.error, MessagesDroppedError) == (first_seq == 10)
    assert read.direct.finished == (first_seq == 4)


def test_what_is_dropped_while_the_leader_has_the_next_message() -> None:
    read = Strict(seq=4)
    for _ in range(3):
        read.status(NOT_FOUND)
        read.state(first_seq=4, last_seq=9)
        read.leader(4)
        wait_for_page(read)
    read.status(NOT_FOUND)
    read.state(first_seq=4, last_seq=9)
    read.leader(10)
    read.state(first_seq=10, last_seq=10)
    assert isinstance(read.direct.error, MessagesDroppedError)
    assert read.take() == []


def test_the_end_of_a_stream_is_not_dropped() -> None:
    read = Strict(seq=4)
    read.status(NOT_FOUND)
    read.state(first_seq=4)
    assert read.direct.finished


def test_a_time_says_nothing_of_what_was_before_but_the_next_page_does() -> None:
    read = Strict(start_time=0, page_messages=1)
    read.message(6, 0, 9)
    read.status(end(last=6, pending=9))
    assert read.take() == [6]
    (pub,) = read.h.published()
    read.reply = pub.reply or b""
    read.message(9, 0, 7)  # without the anchor: it is gone
    read.state(first_seq=9)
    with pytest.raises(MessagesDroppedError, match="messages 7 to 8 are"):
        read.direct.readable().result()


def test_the_stream_does_not_tell_its_state() -> None:
    read = Strict(seq=4, timeout=1.0)
    read.message(6, 0, 1)
    read.h.published()
    read.h.advance(1.0)
    assert [request["seq"] for request in read.requests()] == [4]
    read.message(6, 0, 1)
    read.h.deliver(read.question().reply or b"", b'{"error":{"code":404,"err_code":10059}}')
    with pytest.raises(StreamNotFoundError):
        read.direct.readable().result()


@pytest.mark.parametrize("nothing", [True, False])
def test_no_room_to_ask_for_the_state(nothing: bool) -> None:
    h = Harness(pending_size=100, linger=9.0)
    read = Strict(harness=h, seq=4)
    h.session.publish_message("x", b"x" * 200)
    h.session.receive_data(
        encode_msg(read.reply, b"1", None, NOT_FOUND if nothing else stored(6, last=0, pending=0), b""), h.now
    )
    assert [pub.subject for pub in h.published()] == [b"x"]
    h.advance(0.02)
    assert [request["seq"] for request in read.requests()] == [4]
    read.message(6, 0, 0)
    assert read.take() == []
    read.state(first_seq=4)
    assert read.take() == [6]


def test_an_answer_about_the_state_while_somebody_waits() -> None:
    read = Strict(seq=4)
    read.message(6, 0, 0)
    readable = read.direct.readable()
    read.state(first_seq=4)
    assert readable.done
    assert read.direct.readable().done


def test_nobody_tells_the_state() -> None:
    read = Strict(seq=4)
    read.message(6, 0, 1)
    (pub,) = read.h.published()
    read.h.deliver(pub.reply or b"", b"", b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(JetStreamNotAvailableError):
        read.direct.readable().result()


# -- is there nothing more? the leader is asked ------------------------------------------------------------------------


def emptied(**options: Any) -> Read:
    """A read whose first page was empty; the leader is asked for the stream's state."""
    read = Read(**options)
    read.requests()
    read.nothing()
    return read


def wait_for_page(read: Read) -> float:
    """Let time pass until a page is asked for; returns how long it took."""
    since = read.h.now
    while not read.requests():
        read.h.advance(0.01)
    return round(read.h.now - since, 2)


def test_a_replica_that_is_behind_is_asked_again() -> None:
    read = Read(page_messages=2)
    read.requests()
    read.message(1, 0, 4)
    read.message(2, 1, 3)
    read.status(end(last=2, pending=3))
    assert read.take() == [1, 2]
    read.requests()
    read.message(3, 0, 0)
    read.status(end(last=3, pending=0))  # though there were 5
    assert read.take() == [3]
    read.state(last_seq=5)
    assert read.leader(4) == {"seq": 4, "next_by_subj": ">"}
    assert [request["seq"] for request in read.requests()] == [4]  # at once: chance chooses who answers
    read.nothing()
    read.state(last_seq=5)
    read.leader(4)
    read.h.advance(0.019)
    assert read.requests() == []
    read.h.advance(0.002)
    assert [request["seq"] for request in read.requests()] == [4]
    read.message(4, 0, 1)
    read.message(5, 4, 0)
    read.status(end(last=5, pending=0))
    assert read.take() == [4, 5]
    assert [request["seq"] for request in read.requests()] == [6]  # the page was full: something may have come since
    read.nothing()
    read.state(last_seq=5)  # whoever says so may be behind those who showed messages
    assert read.direct.finished


def test_what_no_replica_shows_is_taken_of_the_leader() -> None:
    read = emptied(seq=2, subject="foo.*", page_messages=5, anchored=False)
    waited = []
    for _ in range(3):
        read.state(last_seq=5)
        assert read.leader(4) == {"seq": 2, "next_by_subj": "foo.*"}
        waited.append(wait_for_page(read))
        read.nothing()
    assert waited == [0.0, 0.02, 0.04]
    read.state(last_seq=5)
    readable = read.direct.readable()
    read.leader(2, subject="foo.B")
    assert not readable.done
    read.state(last_seq=5)  # nothing that comes before it was dropped meanwhile
    assert readable.done
    (message,) = read.direct.pop_many(9, read.h.now)
    assert (message.seq, message.subject, message.stream) == (2, "foo.B", "DG")
    assert read.direct.num_pending is None
    assert [(request["seq"], request["batch"]) for request in read.requests()] == [(2, 6)]
    read.message(2, 0, 1, subject="foo.B")  # it is the anchor now
    read.message(4, 2, 0)
    read.status(end(last=4, pending=0))
    assert read.take() == [4]


def test_what_is_taken_of_the_leader_may_be_all() -> None:
    read = emptied(batch=1)
    for _ in range(3):
        read.state(last_seq=5)
        read.leader(1)
        wait_for_page(read)
        read.nothing()
    read.state(last_seq=5)
    read.leader(1)
    read.state(last_seq=5)
    assert read.direct.finished
    assert read.take() == [1]


def test_a_slow_reader_is_waited_for_before_more_is_taken_of_the_leader() -> None:
    read = Read(page_messages=1)
    read.requests()
    read.message(1, 0, 4)
    read.status(end(last=1, pending=4))
    assert read.take() == [1]
    read.requests()
    for _ in range(3):
        read.nothing()
        read.state(last_seq=5)
        read.leader(2)
        wait_for_page(read)
    read.nothing()
    read.state(last_seq=5)
    read.leader(2)
    read.state(last_seq=5)
    readable = read.direct.readable()
    assert readable.done
    assert read.take() == [2]
    assert [request["seq"] for request in read.requests()] == [3]


def test_replicas_that_stay_behind() -> None:
    """They show nothing, and there is no leader to take it of."""
    read = emptied(timeout=1.0)
    waited = []
    while read.direct.error is None:
        no_leader = {"error": {"code": 503, "err_code": 10008, "description": "temporarily unavailable"}}
        read.h.deliver(read.question().reply or b"", json.dumps(no_leader).encode())
        if read.direct.error is None:
            waited.append(wait_for_page(read))
            read.nothing()
    assert waited == [0.0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5]
    with pytest.raises(IncompleteBatchError, match="temporarily unavailable"):
        read.direct.readable().result()


def test_there_is_no_leader_just_now() -> None:
    read = emptied()
    read.h.deliver(read.question().reply or b"", b'{"error":{"code":503,"err_code":10008}}')
    assert [request["seq"] for request in read.requests()] == [1]
    read.message(1, 0, 0)
    read.status(end(last=1, pending=0))
    assert read.direct.finished
    assert read.take() == [1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b'{"error":{"code":404,"err_code":10059}}', StreamNotFoundError),
        (b'{"config":{"name":"DG"},"state":[]}', RemoteProtocolError),
        (b"{", RemoteProtocolError),
        (b'{"message":7}', RemoteProtocolError),
    ],
)
def test_what_the_leader_says_ends_the_read(answer: bytes, error: type[Exception]) -> None:
    read = emptied()
    read.h.deliver(read.question().reply or b"", answer)
    assert isinstance(read.direct.error, error)


def test_an_answer_of_the_leader_that_comes_late_or_twice() -> None:
    read = emptied(timeout=1.0)
    first = read.question().reply or b""
    read.h.advance(1.0)
    assert len(read.requests()) == 1
    read.h.deliver(first, b"{")
    assert [type(event) for event in read.h.events()] == [UnexpectedMessage]
    read.nothing()
    second = read.question().reply or b""
    info = json.dumps({"config": {"name": "DG"}, "state": {"messages": 9, "first_seq": 1, "last_seq": 9}}).encode()
    read.h.deliver(second, info)
    asked = read.question()
    assert asked.subject == LEADER
    read.h.deliver(second, info)
    assert read.h.published() == []
    assert [type(event) for event in read.h.events()] == [UnexpectedMessage]


def test_a_leader_that_is_silent() -> None:
    read = emptied(timeout=1.0)
    read.question()
    read.h.advance(1.0)
    assert len(read.requests()) == 1
    read.nothing()
    read.question()
    read.h.advance(1.0)
    assert isinstance(read.direct.error, IncompleteBatchError)


def test_a_leader_that_is_silent_about_what_came() -> None:
    read = Strict(seq=4, timeout=1.0)
    for _ in range(2):
        assert read.direct.error is None
        read.message(6, 0, 1)
        read.question()
        read.h.advance(1.0)
        read.h.drain()
        pages = [pub for pub in read.h.published() if pub.subject == DIRECT]
        read.reply = pages[0].reply or b"" if pages else b""
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert read.take() == []


def test_no_room_to_ask_the_leader_whether_it_is_over() -> None:
    h = Harness(pending_size=100, linger=9.0)
    read = Read(harness=h)
    read.requests()
    h.session.publish_message("x", b"x" * 200)
    h.session.receive_data(encode_msg(read.reply, b"1", None, NOT_FOUND, b""), h.now)
    assert [pub.subject for pub in h.published()] == [b"x"]
    h.advance(0.02)
    assert [request["seq"] for request in read.requests()] == [1]
    read.nothing()
    read.state()
    assert read.direct.finished


@pytest.mark.parametrize("asked", [1, 2])
def test_the_link_is_lost_while_the_leader_is_asked(asked: int) -> None:
    read = Read(harness=Harness(max_reconnect_attempts=-1))
    read.requests()
    read.nothing()
    if asked == 2:
        read.state(last_seq=1)
    read.question()
    read.h.lose()
    read.h.connect()
    assert [request["seq"] for request in read.requests()] == [1]
    read.message(1, 0, 0)
    read.status(end(last=1, pending=0))
    assert read.take() == [1]
    assert read.direct.finished


def test_the_link_is_lost_while_a_page_waits_for_the_leader() -> None:
    read = Strict(seq=4, harness=Harness(max_reconnect_attempts=-1), batch=2)
    read.message(6, 0, 1)
    read.question()
    read.h.lose()
    read.h.connect()
    assert [(request["seq"], request["batch"]) for request in read.requests()] == [(4, 2)]
    read.message(6, 0, 1)
    read.state(first_seq=1)
    read.message(7, 6, 0)
    read.status(end(last=7, pending=0))
    assert read.take() == [6, 7]
    assert read.direct.finished


@pytest.mark.parametrize("subject", ["STREAM.INFO", "STREAM.MSG.GET"])
def test_the_leader_may_not_be_asked(subject: str) -> None:
    read = Read()
    read.requests()
    violation = f"-ERR 'Permissions Violation for Publish to \"$JS.API.{subject}.DG\"'\r\n".encode()
    read.h.feed(violation)
    assert read.direct.error is None  # it was somebody else who asked
    read.nothing()
    if subject == "STREAM.MSG.GET":
        read.state(last_seq=9)
    read.h.feed(violation)
    assert isinstance(read.direct.error, PermissionsViolationError)


def test_the_end_is_believed_of_the_leader_alone_before_a_sequence() -> None:
    read = Read(at_least=3)
    read.requests()
    read.message(1, 0, 0)
    read.status(end(last=1, pending=0))
    assert not read.direct.finished
    read.state(last_seq=3)
    read.leader(3)
    read.requests()
    read.message(3, 0, 0)
    read.status(end(last=3, pending=0))
    assert read.take() == [1, 3]
    assert read.direct.finished


# -- a page continues one stream ---------------------------------------------------------------------------------------


def second_page(size: int = 1, **options: Any) -> Read:
    """A read of which message 2 came last, asked for its second page."""
    read = Read(**{"page_messages": 2, "anchored": False, **options})
    read.requests()
    read.message(1, 0, 9)
    read.message(2, 1, 8, b"x" * size, user="X: mine\r\n")
    read.status(end(last=2, pending=8))
    assert read.take() == [1, 2]
    return read


def test_a_read_that_proves_itself_gives_out_a_page_without_an_anchor() -> None:
    read = second_page(proves_itself=True)
    read.requests()
    read.message(3, 0, 6)
    assert read.take() == [3]
    assert read.requests() == []


def test_the_message_before_a_page_is_asked_for_again() -> None:
    read = second_page()
    size = len(stored(2, last=1, pending=8, user="X: mine\r\n")) + 1
    assert read.requests() == [{"seq": 2, "batch": 3, "max_bytes": 8_388_608 + size}]
    read.message(2, 0, 9, user="X: mine\r\n")
    assert read.take() == []
    read.message(3, 2, 8)
    read.message(4, 3, 7)
    read.status(end(last=4, pending=7))
    assert read.take() == [3, 4]


def test_the_message_before_a_page_in_a_row_with_it() -> None:
    read = second_page()
    read.requests()
    headers = [stored(2, last=0, pending=9, user="X: mine\r\n"), stored(3, last=2, pending=8), end(last=3, pending=0)]
    read.direct.receive_run(MsgRun(read.reply, b"1", None, headers, [b"x", b"x", b""]), read.h.now)
    assert read.take() == [3]


@promise("`StreamRolledBackError` reports a stream that came back shorter between two pages")
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, StreamRolledBackError),
        ({"created": "2026-11-20T20:36:47Z"}, StreamRecreatedError),
        ({"first_seq": 1, "last_seq": 1}, StreamRolledBackError),
    ],
)
def test_another_message_under_the_same_sequence(fields: dict[str, Any], error: type[Error]) -> None:
    """It has another time. The leader says whether the stream is another one, too."""
    read = second_page()
    read.requests()
    late = read.reply
    read.message(2, 0, 9, time=47, user="X: mine\r\n")
    read.h.deliver(late, b"", stored(3, last=2, pending=8))
    assert read.take() == []
    assert read.direct.error is None
    read.state(**{"last_seq": 9, **fields})
    with pytest.raises(error, match="stream DG") as caught:
        read.direct.readable().result()
    assert isinstance(caught.value, (StreamRecreatedError, StreamRolledBackError))
    assert caught.value.stream == "DG"
    assert read.h.events() == []


def test_another_message_under_the_same_sequence_and_no_leader() -> None:
    read = second_page(timeout=1.0)
    for _ in range(2):
        assert len(read.requests()) == 1
        read.message(2, 0, 9, time=47)
        read.question()
        read.h.advance(1.0)
    assert isinstance(read.direct.error, IncompleteBatchError)


# -- a leader that ends before what was given out ----------------------------------------------------------------------


def shorter(timeout: float, *, last_seq: int = 1, seconds: float = 6.0) -> Read:
    """A read after message 2, whose leader ends before it: it is asked for so long."""
    read = second_page(timeout=timeout)
    for _ in range(int(seconds / 0.25)):
        for pub in read.h.published():
            if pub.subject == b"$JS.API.DIRECT.GET.DG":
                read.reply = pub.reply or b""
                read.status(NOT_FOUND)
                read.state(last_seq=last_seq)
        if read.direct.error is not None or read.direct.finished:
            break
        read.h.advance(0.25)
    return read


@promise("`StreamRolledBackError` reports a stream that came back shorter between two pages")
def test_an_end_before_what_was_given_out_is_none() -> None:
    read = shorter(1.0)
    error = read.direct.error
    assert isinstance(error, IncompleteBatchError)
    assert read.direct.come_to == 2


@promise("`StreamRolledBackError` reports a stream that came back shorter between two pages")
def test_the_leader_says_twice_that_the_stream_is_shorter() -> None:
    began = second_page().h.now
    read = shorter(9.0)
    error = read.direct.error
    assert isinstance(error, StreamRolledBackError)
    assert (error.stream, error.seq) == ("DG", 2)
    assert read.h.now - began >= ELECTION


def test_a_leader_that_told_its_past() -> None:
    read = shorter(9.0, seconds=3.0)
    assert read.direct.error is None
    read.h.advance(2.0)
    read.requests()
    read.status(NOT_FOUND)
    read.state(last_seq=2, last_ts="2026-11-20T20:36:46.910548879Z")
    assert read.direct.finished


def test_the_last_message_of_the_leader_has_another_time() -> None:
    read = second_page(timeout=9.0)
    for _ in range(2):
        read.requests()
        read.status(NOT_FOUND)
        pub = read.question()
        state = {"first_seq": 1, "last_seq": 2, "messages": 2, "last_ts": "2026-11-20T20:36:50Z"}
        body = {"config": {"name": "DG"}, "created": CREATED, "state": state}
        assert not read.direct.finished
        read.h.deliver(pub.reply or b"", json.dumps(body).encode())
        for _ in range(20):
            read.h.advance(0.25)
    assert isinstance(read.direct.error, StreamRolledBackError)


def test_a_read_may_begin_beyond_the_end() -> None:
    read = Read(seq=100)
    read.requests()
    read.status(NOT_FOUND)
    read.state(last_seq=50)
    assert read.direct.finished


# -- the message before a page is gone ---------------------------------------------------------------------------------


def test_the_message_before_a_page_is_gone() -> None:
    """More come than a page has: one that was to be the anchor."""
    read = second_page()
    read.requests()
    read.message(4, 0, 8)
    read.message(5, 4, 7)
    assert read.take() == []
    read.message(6, 5, 6)
    read.state(last_seq=9)
    assert read.take() == [4, 5]
    (request,) = read.requests()
    assert (request["seq"], request["batch"]) == (5, 3)


def test_the_end_of_a_page_whose_anchor_is_gone_comes_before_the_leaders_answer() -> None:
    read = second_page(batch=4)
    read.requests()
    read.message(4, 0, 8)
    read.message(5, 4, 7)
    read.message(6, 5, 6)
    read.status(end(last=6, pending=6))
    read.h.deliver(read.reply, b"", b"\r\n")  # whatever else comes of it
    read.state(last_seq=9)
    assert read.take() == [4, 5]
    assert read.direct.finished


@pytest.mark.parametrize("nothing", [True, False])
@pytest.mark.parametrize(
    ("created", "first_ts", "is_another"),
    [
        ("2026-11-20T20:36:47Z", "2026-11-20T20:36:48Z", True),
        ("2026-11-20T20:36:47Z", None, True),  # it is empty
        ("2026-11-20T20:36:47Z", "2026-11-20T20:36:40Z", False),  # it was restored: its messages are older than itself
        ("2026-11-20T20:36:46Z", "2026-11-20T20:36:48Z", False),
        (None, None, False),
    ],
)
def test_the_message_before_a_page_is_gone_with_its_stream(
    created: str | None, first_ts: str | None, is_another: bool, nothing: bool
) -> None:
    read = second_page()
    read.requests()
    if nothing:
        read.status(NOT_FOUND)
    else:
        read.message(4, 0, 8)
    state = {"first_seq": 3, "last_seq": 0 if nothing else 9, "messages": 0 if nothing else 7, "first_ts": first_ts}
    body = {"config": {"name": "DG"}, "created": created, "state": state}
    body = {name: value for name, value in body.items() if value is not None}
    state = {name: value for name, value in state.items() if value is not None}
    body["state"] = state
    read.h.deliver(read.question().reply or b"", json.dumps(body).encode())
    assert isinstance(read.direct.error, StreamRecreatedError) == is_another
    assert read.take() == ([] if is_another or nothing else [4])


def test_a_message_without_a_time_before_a_page() -> None:
    read = Read(page_messages=1, anchored=False)
    read.requests()
    read.h.deliver(read.reply, b"x", stored(1, last=0, pending=9).replace(b"Time-Stamp: 2026", b"Time-Stamp: noon"))
    read.status(end(last=1, pending=8))
    assert read.take() == [1]
    read.requests()
    read.message(1, 0, 8)
    with pytest.raises(RemoteProtocolError, match="Time-Stamp"):
        read.direct.readable().result()


def test_a_large_message_is_not_asked_for_again() -> None:
    read = second_page(size=9_000, max_bytes=100_000)
    assert read.requests() == [{"seq": 3, "batch": 2, "max_bytes": 100_000}]
    readable = read.direct.readable()
    read.message(3, 0, 8)
    read.message(4, 3, 7)
    assert not readable.done
    read.state(last_seq=9)
    assert read.take() == [3, 4]


def test_a_page_begins_with_an_earlier_message() -> None:
    read = second_page()
    read.requests()
    read.message(1, 0, 9)
    assert isinstance(read.direct.error, RemoteProtocolError)


# -- a mirror answers --------------------------------------------------------------------------------------------------


def test_pages_of_a_mirror_are_dropped_and_asked_for_again() -> None:
    """In smaller pages, and after the second time in a row with pauses."""
    read = Read(page_messages=400, max_bytes=64_000)
    asked = []
    for pause in (0.0, 0.0, 0.001, 0.002, 0.004):
        (request,) = read.requests()
        asked.append((request["seq"], request["batch"], request["max_bytes"]))
        read.message(7, 0, 0, stream="M")
        if pause:
            read.h.advance(0.99 * pause)
            assert read.requests() == []
            read.h.advance(0.02 * pause)
    assert asked == [(1, 400, 64_000), (1, 100, 16_000), (1, 25, 4_000), (1, 6, 1_000), (1, 1, 250)]
    read.requests()
    read.message(1, 0, 9)
    read.status(end(last=1, pending=9))
    assert read.take() == [1]
    assert [request["batch"] for request in read.requests()] == [400]


def test_only_a_mirror_answers() -> None:
    read = Read(timeout=1.0)
    count = 0
    while read.direct.error is None:
        for _ in read.requests():
            count += 1
            read.message(7, 0, 0, stream="M")
        if read.direct.error is None:
            read.h.advance(0.05)
    assert 20 <= count <= 25
    with pytest.raises(MirrorAnswerError, match="only its mirror M answered") as caught:
        read.direct.readable().result()
    assert (caught.value.stream, caught.value.mirror) == ("DG", "M")
    assert read.take() == []


def test_a_mirror_answers_a_later_page() -> None:
    read = second_page()
    read.requests()
    read.message(2, 0, 9, stream="M")  # the anchor, as the mirror has it
    assert [(request["seq"], request["batch"]) for request in read.requests()] == [(2, 2)]


def test_a_page_whose_sender_is_not_named() -> None:
    read = Read()
    read.requests()
    read.h.deliver(read.reply, b"", stored(1, last=0, pending=1).replace(b"Nats-Stream", b"Nats-Stroem"))
    assert isinstance(read.direct.error, RemoteProtocolError)


def test_where_an_answer_is_to_go_cannot_be_computed() -> None:
    read = Read(page_messages=1, draw=Harness().session.draw)
    read.requests()
    first = read.reply
    read.message(1, 0, 2)
    read.status(end(last=1, pending=2))
    read.take()
    read.requests()
    parts = [reply.rpartition(b"-")[2] for reply in (first, read.reply)]
    assert {len(part) for part in parts} == {16}
    assert parts[0] != parts[1]


def test_a_leader_that_answers_with_what_is_there_already() -> None:
    read = Read(seq=4)
    read.requests()
    read.status(NOT_FOUND)
    read.state(last_seq=9)
    pub = read.question()
    body = {"message": {"subject": "foo.A", "seq": 3, "time": "2026-11-20T20:36:46Z"}}
    read.h.deliver(pub.reply or b"", json.dumps(body).encode())
    assert isinstance(read.direct.error, RemoteProtocolError)


def test_what_a_mirror_goes_on_to_send_is_no_news() -> None:
    read = Read()
    read.requests()
    late = read.reply
    for seq in (1, 2, 3):
        header = stored(seq, last=seq - 1, pending=9).replace(b"Nats-Stream: DG", b"Nats-Stream: M")
        read.h.deliver(late, b"", header)
    assert len(read.requests()) == 1
    assert read.h.events() == []
