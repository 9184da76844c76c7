"""Single gets: what is asked of whom, and that both ways of reading give the same message."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from jsproto.api_errors import APIBadRequestError
from jsproto.errors import (
    BadRequestError,
    BadSubjectError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessageNotFoundError,
    NoRespondersError,
    OutboundBufferLimitError,
    RemoteProtocolError,
    RequiredApiLevelError,
    StatusError,
    TimeoutError,
    TooManyResultsError,
)
from jsproto.grammar.stored import StoredMsg
from jsproto.ticket import Ticket
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Pub
from tests.harness import Harness
from tests.marks import promise, requirement

TIME = "2026-11-20T20:36:46.910548879Z"
NANOSECONDS = 1_795_207_006_910_548_879
DIRECT = b"$JS.API.DIRECT.GET.DG"
LEADER = b"$JS.API.STREAM.MSG.GET.DG"
STORED = (
    b"NATS/1.0\r\nNats-Sequence: 99\r\nX: mine\r\nNats-Stream: DG\r\nNats-Subject: foo.A\r\nNats-Sequence: 4\r\n"
    b"Nats-Time-Stamp: 2026-11-20T20:36:46.910548879Z\r\n\r\n"
)
IN_JSON: dict[str, Any] = {
    "subject": "foo.A", "seq": 4, "time": TIME, "data": b64encode(b"\0a2").decode(),
    "hdrs": b64encode(b"NATS/1.0\r\nNats-Sequence: 99\r\nX: mine\r\n\r\n").decode(),
}  # fmt: skip


class Get:
    """One get, and the server's side of it."""

    def __init__(self, *args: Any, verb: str = "get_msg", **options: Any) -> None:
        self.h = Harness()
        self.ticket: Ticket[Any] = getattr(self.h.js, verb)("DG", *args, now=self.h.now, **options)
        (pub,) = self.h.published()
        assert pub.reply is not None
        self.reply = pub.reply
        self.asked = (pub.subject, json.loads(pub.payload) if pub.payload else None)

    def answer(self, payload: bytes, header: bytes | None = None) -> Get:
        self.h.deliver(self.reply, payload, header)
        assert self.ticket.done
        return self

    def answer_json(self, body: dict[str, Any]) -> Get:
        return self.answer(json.dumps(body).encode())


@requirement(113, 114, 115, 116)
@pytest.mark.parametrize(
    ("options", "body"),
    [
        ({"seq": 3}, {"seq": 3}),
        ({"subject": "foo.*"}, {"last_by_subj": "foo.*"}),
        ({"subject": "foo.A", "next": True}, {"next_by_subj": "foo.A"}),
        ({"subject": "foo.>", "next": True, "seq": 3}, {"seq": 3, "next_by_subj": "foo.>"}),
        ({"seq": 3, "next": True}, {"seq": 3, "next_by_subj": ">"}),
        ({"next": True}, {"next_by_subj": ">"}),
        ({"start_time": NANOSECONDS}, {"start_time": TIME}),
        ({"start_time": NANOSECONDS, "next": True, "subject": "a"}, {"start_time": TIME, "next_by_subj": "a"}),
        (
            {"start_time": datetime(2026, 11, 20, 20, 36, 46, 5, timezone(timedelta(hours=-1)))},
            {"start_time": "2026-11-20T21:36:46.000005Z"},
        ),
    ],
)
def test_what_is_asked(options: dict[str, Any], body: dict[str, Any]) -> None:
    assert Get(**options).asked == (DIRECT, body)
    assert Get(**options, level="leader").asked == (LEADER, body)
    assert Get(**options, verb="get_data").asked == (DIRECT, {**body, "no_hdr": True})


@requirement(117)
def test_the_last_message_of_a_subject_is_asked_for_below_it() -> None:
    assert Get(subject="foo.A").asked == (DIRECT + b".foo.A", None)
    assert Get("foo.A", verb="get_last_msg").asked == (DIRECT + b".foo.A", None)
    assert Get("foo.A", verb="get_last_msg", level="leader").asked == (LEADER, {"last_by_subj": "foo.A"})
    assert Get(subject="foo.A", verb="get_data").asked == (DIRECT, {"last_by_subj": "foo.A", "no_hdr": True})


@requirement(121, 129, 257)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "say which message"),
        ({"seq": 0}, "start at 1"),
        ({"seq": -1}, "start at 1"),
        ({"seq": 2**64}, "sequence"),
        ({"seq": True}, "sequence"),
        ({"seq": "1"}, "sequence"),
        ({"seq": 1, "start_time": NANOSECONDS}, "not both"),
        ({"seq": 1, "subject": "a"}, "next=True"),
        ({"start_time": 1, "subject": "a"}, "next=True"),
        ({"start_time": datetime(2026, 1, 1)}, "time zone"),
        ({"start_time": "noon"}, "nanoseconds"),
        ({"start_time": 10**21}, "years 1678 to 2261"),
        ({"subject": "a..b"}, "a..b"),
        ({"seq": 1, "level": "mirror"}, "'direct' or 'leader'"),
        ({"seq": 1, "level": "linearizable"}, "level is 'direct' or 'leader', not 'linearizable'"),
    ],
)
def test_what_no_server_would_answer_is_not_asked(options: dict[str, Any], words: str) -> None:
    h = Harness()
    with pytest.raises(LocalProtocolError, match=words):
        h.js.get_msg("DG", now=h.now, **options)
    assert h.published() == []


def test_a_bad_stream_name() -> None:
    h = Harness()
    with pytest.raises(BadSubjectError):
        h.js.get_msg("a.b", 1, now=h.now)


def fields(message: StoredMsg) -> tuple[Any, ...]:
    return (message.seq, message.subject, message.stream, message.data, message.timestamp, message.num_pending,
            list(message.headers.items()), message.raw_headers)  # fmt: skip


@requirement(147, 251)
def test_both_ways_give_the_same_message() -> None:
    direct = Get(4).answer(b"\0a2", STORED).ticket.result()
    leader = Get(4, level="leader").answer_json({"type": "t", "message": IN_JSON}).ticket.result()
    assert fields(direct) == fields(leader)
    assert fields(direct)[:6] == (4, "foo.A", "DG", b"\0a2", NANOSECONDS, None)
    assert list(direct.headers.items()) == [("Nats-Sequence", "99"), ("X", "mine")]
    bare = Get(4, level="leader").answer_json({"message": {"subject": "a", "seq": 4, "time": TIME}}).ticket.result()
    assert (bare.data, list(bare.headers.items()), bare.timestamp) == (b"", [], NANOSECONDS)


def test_what_the_leader_says_with_half_of_a_surrogate_pair_is_a_message() -> None:
    """UTF-8 has no form for such a text, and the header block that is made of it must have one."""
    half = {"subject": "a\ud800", "seq": 4, "time": TIME}
    assert Get(4, level="leader").answer_json({"message": half}).ticket.result().subject == "a\ufffd"
    time = Get(4, level="leader").answer_json({"message": {**half, "time": "\udfff"}}).ticket.result()
    with pytest.raises(RemoteProtocolError, match="Nats-Time-Stamp"):
        _ = time.timestamp


@requirement(146)
def test_the_payload_alone() -> None:
    assert Get(4, verb="get_data").answer(b"a2").ticket.result() == b"a2"
    assert Get(4, verb="get_data").answer(b"a2", STORED).ticket.result() == b"a2"  # 2.11 does not know no_hdr
    assert isinstance(Get(4, verb="get_data").answer(b"", b"NATS/1.0 404 x\r\n\r\n").ticket.error, MessageNotFoundError)
    assert Get(4, verb="get_data").answer(b"a2", b"NATS/1.0\r\n\r\n").ticket.result() == b"a2"


@requirement(138, 139, 140)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("404 Message Not Found", MessageNotFoundError),
        ("408 Bad Request", BadRequestError),
        ("412 Required Api Level", RequiredApiLevelError),
        ("413 Too Many Results", TooManyResultsError),
        ("429 Too Many Requests", StatusError),
        ("500", StatusError),
    ],
)
def test_statuses_are_typed(status: str, error: type[StatusError]) -> None:
    caught = Get(4).answer(b"", f"NATS/1.0 {status}\r\n\r\n".encode()).ticket.error
    assert type(caught) is error
    assert f"{caught.code} {caught.description}".strip() == status


@requirement(112)
def test_nobody_answers() -> None:
    h = Harness()
    direct, leader = h.js.get_msg("DG", 1, now=h.now, level="direct"), h.js.get_msg("DG", 1, now=h.now, level="leader")
    for pub in h.published():
        assert isinstance(pub, Pub)
        assert pub.reply is not None
        h.deliver(pub.reply, b"", b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(NoRespondersError, match=r"update_stream\('DG', allow_direct=True\)"):
        direct.result()
    with pytest.raises(JetStreamNotAvailableError):
        leader.result()


def test_a_message_stored_with_a_status_is_a_message() -> None:
    for status in (b"404 Message Not Found", b"503"):
        evil = STORED.replace(b"NATS/1.0", b"NATS/1.0 " + status)
        assert Get(4).answer(b"", evil).ticket.result().seq == 4
        assert Get(4, verb="get_data").answer(b"", evil).ticket.result() == b""


@pytest.mark.parametrize("header", [None, b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nNats-Sequence: x\r\n\r\n", b"junk"])
def test_a_direct_answer_that_is_none(header: bytes | None) -> None:
    assert isinstance(Get(4).answer(b"x", header).ticket.error, RemoteProtocolError)


def test_the_leaders_errors() -> None:
    error = {"code": 404, "err_code": 10037, "description": "no message found"}
    with pytest.raises(MessageNotFoundError, match="no message found"):
        Get(4, level="leader").answer_json({"error": error}).ticket.result()
    with pytest.raises(APIBadRequestError):
        Get(4, level="leader").answer_json({"error": {"code": 400, "err_code": 10003}}).ticket.result()


@pytest.mark.parametrize(
    "change",
    [
        {"hdrs": "%"}, {"data": "a"}, {"seq": "4"}, {"subject": None}, {"time": None}, {"subject": "a\r\nb"},
        {"time": "x\n"}, {"hdrs": b64encode(b"NATS/1.0\r\n").decode()}, {"hdrs": b64encode(b"x\r\n\r\n").decode()},
        {"data": 1},
    ],
)  # fmt: skip
def test_a_leaders_answer_that_is_none(change: dict[str, Any]) -> None:
    get = Get(4, level="leader").answer_json({"message": {**IN_JSON, **change}})
    assert isinstance(get.ticket.error, RemoteProtocolError)


def test_a_leaders_answer_without_a_message() -> None:
    assert isinstance(Get(4, level="leader").answer_json({}).ticket.error, RemoteProtocolError)


# -- what was not found ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seq": 4}, "message 4 of stream DG"),
        ({"subject": "foo.*"}, "the last message of 'foo.*' in stream DG"),
        ({"seq": 4, "next": True}, "a message from sequence 4 on in stream DG"),
        ({"next": True}, "a message from sequence 1 on in stream DG"),
        ({"subject": "a", "next": True}, "a message of 'a' from sequence 1 on in stream DG"),
        ({"start_time": NANOSECONDS}, f"a message from {TIME} on in stream DG"),
        ({"start_time": NANOSECONDS, "next": True, "subject": "a"}, f"a message of 'a' from {TIME} on in stream DG"),
    ],
)
def test_an_error_names_what_is_not_there(options: dict[str, Any], words: str) -> None:
    status, error = b"NATS/1.0 404 Message Not Found\r\n\r\n", {"code": 404, "err_code": 10037, "description": "none"}
    found = (
        Get(**options).answer(b"", status),
        Get(**options, verb="get_data").answer(b"", status),
        Get(**options, level="leader").answer_json({"error": error}),
    )
    for get in found:
        assert isinstance(get.ticket.error, MessageNotFoundError)
        assert get.ticket.error.about == words
        assert str(get.ticket.error).endswith(f": {words}")


def test_the_stream_that_is_not_there_is_named() -> None:
    error = {"code": 404, "err_code": 10059, "description": "stream not found"}
    get = Get(4, level="leader").answer_json({"error": error})
    assert str(get.ticket.error) == "stream not found: stream DG (code 404, err_code 10059)"


# -- the last message of a stream without Direct Gets ------------------------------------------------------------------

NOBODY = b"NATS/1.0 503\r\n\r\n"


@promise("Without a `level`, the leader of a stream that allows no Direct Get is asked.")
def test_the_leader_is_asked_where_nobody_answers_a_direct_get() -> None:
    first = Get(4)
    first.h.deliver(first.reply, b"", NOBODY)
    (asked,) = first.h.answer(lambda _: {"message": IN_JSON})
    assert (asked.subject, json.loads(asked.payload)) == (LEADER, {"seq": 4})
    assert first.ticket.result().seq == 4
    get = Get("foo.A", verb="get_last_msg")
    get.h.deliver(get.reply, b"", NOBODY)
    assert not get.ticket.done
    (pub,) = get.h.answer(lambda _: {"message": IN_JSON})
    assert (pub.subject, json.loads(pub.payload)) == (LEADER, {"last_by_subj": "foo.A"})
    assert pub.reply != get.reply
    assert get.ticket.result().seq == 4
    nobody = Get("foo.A", verb="get_last_msg")
    for _ in range(2):
        nobody.h.deliver(nobody.reply, b"", NOBODY)
        nobody.reply = next((pub.reply for pub in nobody.h.published() if pub.reply), b"")
    assert isinstance(nobody.ticket.error, JetStreamNotAvailableError)
    given = Get("foo.A", verb="get_last_msg", level="direct")
    given.answer(b"", NOBODY)
    assert isinstance(given.ticket.error, NoRespondersError)


def test_the_second_question_has_its_own_time() -> None:
    get = Get("foo.A", verb="get_last_msg", timeout=2)
    get.h.advance(1.5)
    get.h.deliver(get.reply, b"", NOBODY)
    get.h.advance(1.5)
    assert not get.ticket.done
    get.h.advance(0.5)
    assert isinstance(get.ticket.error, TimeoutError)
    assert "STREAM.MSG.GET.DG" in str(get.ticket.error)


def test_a_second_question_that_cannot_be_sent() -> None:
    h = Harness(pending_size=100)
    ticket = h.js.get_last_msg("DG", "foo.A", now=h.now)
    (asked,) = h.published()
    while True:
        try:
            h.session.publish("a", bytes(50))
        except OutboundBufferLimitError:
            break
    assert asked.reply is not None
    sid = next(iter(h.subs))
    h.session.receive_data(encode_msg(asked.reply, sid, None, NOBODY, b""), h.now)
    assert isinstance(ticket.error, OutboundBufferLimitError)
