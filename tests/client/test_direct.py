"""Direct Get in batches against a scripted server; the bytes are those of released servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.direct import DirectBatch
from jsproto.errors import (
    BadRequestError,
    BadSubjectError,
    ConnectionLostError,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessagesDroppedError,
    MirrorAnswerError,
    NoRespondersError,
    PermissionsViolationError,
    RemoteProtocolError,
    StatusError,
    StreamRecreatedError,
    TooManyResultsError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.columns import _found, stored_columns
from jsproto.grammar.stored import next_sequences
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Msg, Pub, Row, Unsub
from tests.client.replicas import DIRECT, LEADER, NOT_FOUND, STATE, TIME, Stream, read_through
from tests.harness import Harness

END_OF_API = b'{"error":{"code":404,"err_code":10037,"description":"no message found"}}'
CREATED = "2026-01-01T00:00:00Z"


def stored(
    seq: int, *, last: int, pending: int, subject: str = "foo.A", user: str = "", stream: str = "DG", time: int = 46
) -> bytes:
    return (
        f"NATS/1.0\r\n{user}Nats-Stream: {stream}\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
        f"Nats-Time-Stamp: 2026-11-20T20:36:{time}.910548879Z\r\nNats-Num-Pending: {pending}\r\n"
        f"Nats-Last-Sequence: {last}\r\n\r\n"
    ).encode()


def end(*, last: int, pending: int) -> bytes:
    return f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n\r\n".encode()


class Read:
    """A read and the server's side of it.

    A page after the first is asked for together with the last message received, the anchor. The server's side here
    sends it at once, the same as it was, so a test sees no difference between pages; ``anchored=False`` leaves that
    to the test.
    """

    def __init__(
        self, page_messages: int = 10, harness: Harness | None = None, anchored: bool = True, **options: Any
    ) -> None:
        self.h = harness or Harness()
        self.direct = self.make(page_messages=page_messages, **options)
        self.reply = b""
        self.anchor = 0  # the anchor of the page, if it was sent
        self._anchored = anchored
        self._sent: dict[int, bytes] = {}

    def make(self, **options: Any) -> DirectBatch:
        return DirectBatch(
            self.h.session, "DG", api=self.h.js.api, inbox=self.h.session.new_inbox(),
            now=self.h.now, **options,
        )  # fmt: skip

    def requests(self) -> list[dict[str, Any]]:
        """The pages that were asked for; nothing else was. Without the anchor, when that is sent at once."""
        pubs = [frame for frame in self.h.sent() if isinstance(frame, Pub)]
        requests = []
        for pub in pubs:
            assert pub.subject == DIRECT
            assert pub.reply is not None
            self.reply, self.anchor = pub.reply, 0
            requests.append(self._begun(json.loads(pub.payload)) if self._anchored else json.loads(pub.payload))
        return requests

    def _begun(self, request: dict[str, Any]) -> dict[str, Any]:
        anchor = request.get("seq", 0)
        if anchor and anchor == self.direct.last_seq:
            header = self._sent.get(anchor) or stored(anchor, last=0, pending=1)
            header = header[: header.rindex(b"Last-Sequence: ")] + b"Last-Sequence: 0\r\n\r\n"
            self.h.deliver(self.reply, b"x", header)
            self.anchor = anchor
            request["seq"] += 1
            request["batch"] -= 1
            request["max_bytes"] -= len(header) + 1
        return request

    def message(self, seq: int, last: int, pending: int, payload: bytes = b"x", **fields: Any) -> None:
        """A message of the page; ``last`` is 0 for the first one that it asked for."""
        header = stored(seq, last=last or self.anchor, pending=pending, **fields)
        self._sent[seq] = header
        self.h.deliver(self.reply, payload, header)

    def status(self, header: bytes) -> None:
        self.h.deliver(self.reply, b"", header)

    def nothing(self) -> None:
        """Whoever answers has no more."""
        self.status(end(last=self.anchor, pending=0) if self.anchor else NOT_FOUND)

    def take(self, most: int = 1000) -> list[int]:
        return [message.seq for message in self.direct.pop_many(most, self.h.now)]

    # -- the leader ----------------------------------------------------------------------------------------------------

    def question(self) -> Pub:
        """What the leader was asked; nothing else was."""
        (pub,) = self.h.published()
        assert pub.subject in (STATE, LEADER)
        return pub

    def state(self, first_seq: int = 1, last_seq: int = 0, **fields: Any) -> None:
        """The leader is asked for the stream's state, and has it."""
        pub = self.question()
        assert (pub.subject, pub.payload) == (STATE, b"")
        state = {"first_seq": first_seq, "last_seq": last_seq, "messages": max(last_seq - first_seq + 1, 0)}
        body: dict[str, Any] = {"config": {"name": "DG"}, "created": CREATED, "state": state, **fields}
        self.h.deliver(pub.reply or b"", json.dumps(body).encode())

    def leader(self, seq: int | None, subject: str = "foo.A") -> dict[str, Any]:
        """The leader is asked for a message, and has this one, or none; returns how it was asked."""
        pub = self.question()
        assert pub.subject == LEADER
        found = {"message": {"subject": subject, "seq": seq, "time": TIME}}
        self.h.deliver(pub.reply or b"", END_OF_API if seq is None else json.dumps(found).encode())
        request: dict[str, Any] = json.loads(pub.payload)
        return request


def test_messages_as_columns() -> None:
    read = Read(seq=1, page_messages=4)
    read.requests()
    for seq in range(1, 5):
        read.message(seq, seq - 1, 6 - seq, b"%d" % seq)
    read.status(end(last=4, pending=2))
    assert [*read.direct.pop_columns(1, read.h.now).data] == [b"1"]
    assert read.requests() == []
    columns = read.direct.pop_columns(10, read.h.now)
    assert ([*columns.seqs], [*columns.subjects]) == ([2, 3, 4], [b"foo.A"] * 3)
    assert [request["seq"] for request in read.requests()] == [5]
    assert read.direct.pop_columns(10, read.h.now).seqs == ()


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


def test_how_much_is_left_may_be_no_number() -> None:
    read = Read(seq=1)
    read.requests()
    read.message(1, 0, 6)
    read.h.deliver(read.reply, b"x", stored(2, last=1, pending=5).replace(b"Pending: 5", b"Pending: five"))
    assert read.direct.num_pending is None
    read.h.advance(6.0)
    assert [request["seq"] for request in read.requests()] == [3]


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
    read.message(9, 0, 0)  # what was pending besides was deleted meanwhile
    read.status(end(last=9, pending=0))
    assert not read.direct.finished
    read.state(last_seq=10)
    assert read.leader(None) == {"seq": 10, "next_by_subj": ">"}
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
    assert not readable.done  # that names nobody
    read.state(last_seq=0)
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


# -- rows of messages --------------------------------------------------------------------------------------------------

SPOOFED = "Nats-Sequence: 99\r\nNats-Time-Stamp: x\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: {}\r\n"


@st.composite
def replies(draw: st.DrawFn) -> list[tuple[bytes | None, bytes]]:
    """Header blocks and payloads of a page, in which things may be wrong."""
    page: list[tuple[bytes | None, bytes]] = []
    seq = 0
    for _ in range(draw(st.integers(0, 12))):
        last, seq = seq, seq + draw(st.sampled_from([1, 1, 1, 3]))
        user = draw(st.sampled_from(["", "", "X: mine\r\n", SPOOFED.format(last), "\r\n"]))
        header: bytes | None = stored(seq, last=last, pending=draw(st.sampled_from([0, 5])), user=user)
        strange: list[bytes | None] = [
            None, b"", b"NATS/1.0\r\n\r\n", NOT_FOUND, end(last=last, pending=3), end(last=seq, pending=0),
            stored(seq, last=last + 1, pending=1), stored(last, last=last, pending=1), stored(0, last=last, pending=1),
            stored(seq, last=last, pending=1).replace(b"Sequence: ", b"Sequence: +"),
            stored(seq, last=last, pending=1).replace(b"Nats-Time", b"Time"),
            stored(seq, last=last, pending=1)[:-1], stored(seq, last=last, pending=1, stream="M"),
            stored(seq, last=0, pending=1), stored(seq, last=0, pending=1, stream="M"),
        ]  # fmt: skip
        if not draw(st.integers(0, 9)):
            header = draw(st.sampled_from(strange))
        page.append((header, draw(st.sampled_from([b"", b"x", b"xyz", b"\r\n"]))))
        if not draw(st.integers(0, 9)):
            page.append(page[-1])
    return [*page, (end(last=seq, pending=draw(st.sampled_from([0, 5]))), b"")]


@given(replies(), st.sampled_from([3, 100]), st.sampled_from([4, 10_000]), st.integers(0, 2_000))
def test_a_page_at_once_is_read_as_message_by_message(
    page: list[tuple[bytes | None, bytes]], messages: int, size: int, cut_at: int
) -> None:
    outcomes = []
    for at_once, in_columns in ((False, False), (True, False), (True, True)):
        read = Read(page_messages=messages, page_bytes=size)
        if in_columns:
            read.direct.pop_columns(1, read.h.now)  # from then on they are made when messages come
        read.requests()
        (sid,) = [sid for sid, subject in read.h.subs.items() if read.reply.startswith(subject[:-1])]
        frames = [encode_msg(read.reply, sid, None, header, payload) for header, payload in page]
        sent = b"".join(frames)
        readable = read.direct.readable()
        for piece in (sent[:cut_at], sent[cut_at:]) if at_once else frames:
            read.h.feed(piece)
        taken = [(each.seq, each.data, each.raw_headers) for each in read.direct.pop_many(1000, read.h.now)]
        direct = read.direct
        outcomes.append(
            (taken, readable.done, direct.finished, repr(direct.error), direct.last_seq, direct.num_pending,
             direct.deadline(), read.h.published(), read.h.events())
        )  # fmt: skip
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize(
    ("in_columns", "user"), [(False, "X: mine\r\n"), (True, "X: mine\r\n"), (False, ""), (True, "")]
)
def test_a_row_that_is_in_order_is_taken_at_once(monkeypatch: pytest.MonkeyPatch, in_columns: bool, user: str) -> None:
    one_by_one: list[Msg] = []
    receive = DirectBatch.receive

    def watched(batch: DirectBatch, message: Msg, now: float) -> None:
        one_by_one.append(message)
        receive(batch, message, now)

    monkeypatch.setattr(DirectBatch, "receive", watched)
    read = Read(page_messages=2000)
    read.requests()
    headers = [stored(seq, last=seq - 1, pending=1000 - seq, user=user) for seq in range(1, 1001)]
    headers.append(end(last=1000, pending=0))
    if in_columns:
        read.direct.pop_columns(1, read.h.now)
    read.h.feed(b"".join(encode_msg(read.reply, b"1", None, header, b"x") for header in headers))
    if in_columns:
        columns = read.direct.pop_columns(1000, read.h.now)
        assert [*map(list, columns[:2])] == [[b"foo.A"] * 1000, list(range(1, 1001))]
    else:
        assert read.take() == list(range(1, 1001))
    assert read.direct.finished
    assert len(one_by_one) == 2  # the first one, and the end


def test_columns_of_what_comes_in_rows() -> None:
    """Whether the fields were found with the frames or not, on this link or the next one."""
    sequences = [*range(1, 10), *range(11, 20)]
    before = dict(zip(sequences, [0, *sequences], strict=False))
    outcomes = []
    for user in ("", "X: mine\r\n"):
        read = Read(page_messages=20)
        read.requests()
        read.direct.pop_columns(1, read.h.now)
        headers = [stored(seq, last=before[seq], pending=30 - seq, user=user) for seq in sequences]
        headers.append(stored(21, last=20, pending=9, user=user))  # 20 is missing
        read.h.feed(
            b"".join(encode_msg(read.reply, b"1", None, header, b"%d" % at) for at, header in enumerate(headers))
        )
        columns = read.direct.pop_columns(1000, read.h.now)
        outcomes.append((*map(list, columns[:3]), [request["seq"] for request in read.requests()]))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1] == sequences
    assert outcomes[0][3] == [20]


def test_fields_are_found_on_every_link_once_columns_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []
    monkeypatch.setattr(DirectBatch, "receive_row", lambda self, row, now: rows.append(row))
    read = Read(harness=Harness(max_reconnect_attempts=-1))
    sent = b"".join(encode_msg(b"r", b"1", None, stored(seq, last=seq - 1, pending=0), b"") for seq in (1, 2))
    read.h.feed(sent)
    read.direct.pop_columns(1, read.h.now)
    read.h.feed(sent)
    read.h.lose()
    read.h.connect()
    read.h.feed(sent)
    other = Read(harness=Harness(connected=False))
    other.direct.pop_columns(1, other.h.now)
    other.h.connect()
    other.h.feed(sent)
    assert [row.fields is not None for row in rows] == [False, True, True, True]


def test_a_row_of_an_earlier_page_changes_nothing() -> None:
    read = Read(page_messages=1)
    read.requests()
    early = read.reply
    read.message(1, 0, 2)
    read.status(end(last=1, pending=2))
    assert read.take() == [1]
    assert [request["seq"] for request in read.requests()] == [2]
    headers = [stored(seq, last=seq - 1, pending=3 - seq) for seq in (2, 3)]
    read.direct.receive_row(Row(early, b"1", None, [*headers], [b"x", b"x"]), read.h.now)
    assert [type(event) for event in read.h.events()] == [UnexpectedMessage]
    assert read.take() == []
    read.message(2, 0, 1)
    read.direct.receive_row(Row(early, b"1", None, [*headers], [b"x", b"x"]), read.h.now)
    read.status(end(last=2, pending=1))
    assert read.take() == [2]


def test_a_row_of_an_earlier_page_is_not_taken_for_this_one() -> None:
    """Though it would go on where this page is."""
    read = Read(page_messages=4)
    read.requests()
    early = read.reply
    read.message(1, 0, 9)
    read.message(3, 2, 7)
    assert [request["seq"] for request in read.requests()] == [2]
    read.message(2, 0, 8)
    late = [stored(seq, last=seq - 1, pending=9 - seq) for seq in (3, 4)]
    read.direct.receive_row(Row(early, b"1", None, late, [b"x", b"x"]), read.h.now)
    assert read.direct.last_seq == 2
    assert [type(event) for event in read.h.events()] == [UnexpectedMessage]


def test_the_read_fails_in_the_middle_of_a_row() -> None:
    read = Read()
    read.requests()
    headers = [stored(1, last=0, pending=9), b"NATS/1.0 408 Bad Request\r\n\r\n", stored(2, last=1, pending=8)]
    read.direct.receive_row(Row(read.reply, b"1", None, headers, [b"x"] * 3), read.h.now)
    assert isinstance(read.direct.error, BadRequestError)
    assert read.take() == [1]
    assert read.h.events() == []


def test_a_row_is_a_sign_of_life() -> None:
    read = Read(timeout=5.0)
    read.requests()
    read.message(1, 0, 9)
    read.h.advance(4.0)
    headers = [stored(seq, last=seq - 1, pending=9 - seq) for seq in (2, 3)]
    read.direct.receive_row(Row(read.reply, b"1", None, headers, [b"x", b"x"]), read.h.now)
    read.h.advance(4.0)
    assert read.requests() == []
    read.h.advance(1.1)
    assert [request["seq"] for request in read.requests()] == [4]


@pytest.mark.parametrize("user", ["", "X: mine\r\n"])
def test_a_row_in_columns_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    looks: list[tuple[str, int]] = []

    def watch(name: str, real: Callable[..., Any]) -> None:
        def watched(blocks: list[bytes], *rest: Any) -> Any:
            looks.append((name, len(blocks)))
            return real(blocks, *rest)

        monkeypatch.setattr(f"jsproto.{name}", watched)

    watch("grammar.columns._found", _found)
    watch("client.direct.next_sequences", next_sequences)
    read = Read(page_messages=200)
    read.requests()
    read.direct.pop_columns(1, read.h.now)
    headers = [stored(seq, last=seq - 1, pending=100 - seq, user=user) for seq in range(1, 101)]
    headers.append(end(last=100, pending=0))
    for some in (headers[:50], headers[50:]):
        read.h.feed(b"".join(encode_msg(read.reply, b"1", None, header, b"x") for header in some))
    assert read.direct.finished
    once = [49, 50] if user else []  # else the fields came with the frames
    assert [look for look in looks if look[1] > 1] == [("grammar.columns._found", count) for count in once]


# -- pages that break --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "arrived"),
    [
        ([stored(1, last=0, pending=1), stored(3, last=2, pending=0)], 1),  # 2 is missing
        ([stored(5, last=0, pending=1), stored(7, last=4, pending=0)], 5),  # it follows another
        ([stored(1, last=0, pending=1), end(last=2, pending=0)], 1),  # the last one is missing
        ([stored(3, last=2, pending=5)], 0),  # the first one is
        ([end(last=2, pending=3)], 0),  # all are
    ],
)
def test_a_lost_message_is_asked_for_again(headers: list[bytes], arrived: int) -> None:
    read = Read()
    read.requests()
    lost = read.reply
    for header in headers:
        read.h.deliver(read.reply, b"", header)
    assert [request["seq"] for request in read.requests()] == [arrived + 1]
    for _ in range(3):  # what is left of the page comes late
        read.h.deliver(lost, b"", stored(99, last=98, pending=1))
    assert len(read.h.events()) == 1
    read.message(arrived + 1, 0, 0)
    read.status(end(last=arrived + 1, pending=0))
    assert read.take() == [arrived, arrived + 1] if arrived else [arrived + 1]
    assert read.direct.finished


@pytest.mark.parametrize("columns", [False, True])
def test_nothing_is_missing_between_sequences_that_rise_by_one(columns: bool) -> None:
    read = Read()
    read.requests()
    if columns:
        assert not read.direct.pop_columns(9, read.h.now).seqs
    reply = read.reply
    headers = [stored(seq, last=last, pending=9) for seq, last in ((5, 0), (6, 4), (7, 6), (9, 7))]
    read.direct.receive_row(Row(reply, b"1", None, headers, [b"x"] * 4), read.h.now)
    read.h.deliver(read.reply, b"", stored(10, last=3, pending=9))
    read.h.deliver(read.reply, b"", stored(11, last=3, pending=9).replace(b"Nats-Sequence: ", b"Nats-Sequence:"))
    assert read.take() == [5, 6, 7, 9, 10, 11]


@pytest.mark.parametrize("columns", [False, True])
def test_a_row_is_as_it_was(columns: bool) -> None:
    read = Read()
    read.requests()
    if columns:
        assert not read.direct.pop_columns(9, read.h.now).seqs
    read.message(1, 0, 9)
    row = Row(read.reply, b"1", None, [stored(2, last=1, pending=8), stored(4, last=3, pending=8)], [b"a", b"b"])
    before = [*row.headers], [*row.payloads]
    read.direct.receive_row(row, read.h.now)
    assert (row.headers, row.payloads) == before
    assert read.take() == [1, 2]


def test_columns_of_a_page_that_goes_on() -> None:
    read = Read()
    read.requests()
    assert not read.direct.pop_columns(9, read.h.now).seqs
    blocks = [
        stored(seq, last=seq - 1, pending=9, subject=f"s.{seq}").replace(b"879Z", b"87%dZ" % seq) for seq in range(1, 5)
    ]
    (sid,) = [sid for sid, subject in read.h.subs.items() if read.reply.startswith(subject[:-1])]
    read.h.feed(b"".join(encode_msg(read.reply, sid, None, header, header[-9:]) for header in blocks))
    columns = read.direct.pop_columns(9, read.h.now)
    parts = [(header, header[-9:], seq) for seq, header in enumerate(blocks, 1)]
    assert [*map(list, columns)] == [*map(list, stored_columns(parts))]


def test_messages_that_are_lost_again_and_again() -> None:
    read = Read()
    read.requests()
    read.message(1, 0, 9)
    read.message(3, 2, 8)
    read.requests()
    read.message(2, 0, 8)
    read.message(4, 3, 6)
    for _ in range(2):
        assert read.direct.error is None
        assert [request["seq"] for request in read.requests()] == [3]
        read.message(4, 3, 6)
    assert read.take() == [1, 2]
    with pytest.raises(IncompleteBatchError, match="4 follows 3") as caught:
        read.direct.readable().result()
    assert caught.value.last_seq == 2


def test_a_message_that_comes_twice() -> None:
    read = Read()
    read.requests()
    for seq, last in ((1, 0), (1, 0), (2, 1), (1, 0), (2, 1)):
        read.message(seq, last, 9)
    read.status(end(last=2, pending=0))
    assert read.take() == [1, 2]
    assert read.direct.finished


def test_an_end_that_comes_twice() -> None:
    read = Read(page_messages=2, batch=9)
    read.requests()
    read.message(1, 0, 9)
    read.message(2, 1, 8)
    for _ in range(2):
        read.status(end(last=2, pending=8))
    assert read.take() == [1, 2]
    (request,) = read.requests()
    assert (request["seq"], request["batch"]) == (3, 2)


@pytest.mark.parametrize("pending", [0, 3])
def test_an_empty_page(pending: int) -> None:
    read = Read()
    read.requests()
    read.status(end(last=0, pending=pending))
    read.state(last_seq=0)
    assert read.direct.finished


def test_the_memory_is_bounded_however_few_messages_a_page_has() -> None:
    read = Read(page_messages=1000, page_bytes=10)
    read.requests()
    read.message(1, 0, 9, b"x" * 10)
    read.message(2, 1, 8, b"x")
    read.status(end(last=2, pending=8))
    assert read.requests() == []
    assert read.take(1) == [1]
    assert [request["seq"] for request in read.requests()] == [3]


# -- from a time on ----------------------------------------------------------------------------------------------------


def test_from_a_time_on() -> None:
    read = Read(page_messages=2, start_time=1_795_207_006_910_548_879)
    assert read.requests() == [{"start_time": "2026-11-20T20:36:46.910548879Z", "batch": 2, "max_bytes": 8_388_608}]
    read.message(8, 0, 9)
    read.status(end(last=8, pending=9))
    assert read.take() == [8]
    assert [(request["seq"], "start_time" in request) for request in read.requests()] == [(9, False)]
    assert read.direct.up_to_seq is None


def test_from_a_time_on_once_more() -> None:
    read = Read(start_time=0, timeout=1.0)
    read.requests()
    read.h.advance(1.0)
    assert [request["start_time"] for request in read.requests()] == ["1970-01-01T00:00:00Z"]


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
    read.h.sent()
    read.reply = b"%b.2" % read.reply.rpartition(b".")[0]
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
        read.state(last_seq=9)
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
    read.direct.receive_row(Row(read.reply, b"1", None, headers, [b"x", b"x", b""]), read.h.now)
    assert read.take() == [3]


@pytest.mark.parametrize("fields", [{"time": 47}, {"subject": "foo.B"}, {"user": "X: yours\r\n"}])
def test_another_message_under_the_same_sequence(fields: dict[str, Any]) -> None:
    read = second_page()
    read.requests()
    read.message(2, 0, 9, **{"user": "X: mine\r\n", **fields})
    with pytest.raises(StreamRecreatedError, match="DG was deleted and made anew") as caught:
        read.direct.readable().result()
    assert caught.value.stream == "DG"


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
    read.message(2, 0, 8)
    read.state(last_seq=9)
    with pytest.raises(RemoteProtocolError, match="Time-Stamp"):
        read.direct.readable().result()


def test_a_large_message_is_not_asked_for_again() -> None:
    read = second_page(size=9_000, page_bytes=100_000)
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
    read = Read(page_messages=400, page_bytes=64_000)
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


# -- answers that end a read -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "error", "text"),
    [
        (b"NATS/1.0 503\r\n\r\n", NoRespondersError, "allow_direct"),
        (b"NATS/1.0 408 Bad Request\r\n\r\n", BadRequestError, "Bad Request"),
        (b"NATS/1.0 413 Too Many Results\r\n\r\n", TooManyResultsError, "413"),
        (b"NATS/1.0 429\r\n\r\n", StatusError, "429"),
        (b"NATS/1.0 204 EOB\r\n\r\n", RemoteProtocolError, "how much is left"),
        (b"NATS/1.0 x\r\n\r\n", RemoteProtocolError, ""),
        (None, RemoteProtocolError, "without headers"),
        (b"NATS/1.0\r\nX: y\r\n\r\n", RemoteProtocolError, "Nats-Sequence"),
        (b"NATS/1.0\r\nNats-Sequence: x\r\n\r\n", RemoteProtocolError, "number"),
        (b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n", UnsupportedByServerError, "2.11"),
        (b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Num-Pending: 1\r\n\r\n", UnsupportedByServerError, "2.15.1"),
        (b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Last-Sequence: 0\r\n\r\n", UnsupportedByServerError, "2.15.1"),
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
    assert read.take() == [1]
    assert [request["seq"] for request in read.requests()] == [2]


def test_a_page_that_falls_silent() -> None:
    read = Read(timeout=5.0)
    read.requests()
    read.h.advance(4.0)
    read.message(1, 0, 5)
    read.h.advance(4.0)
    assert read.requests() == []
    read.h.advance(1.1)  # the replica has died
    for _ in range(2):
        assert [request["seq"] for request in read.requests()] == [2]
        assert read.direct.error is None
        read.h.advance(5.0)
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert read.direct.error.last_seq == 1
    read.direct.handle_timeout(read.h.now)
    read.direct.link_lost(ConnectionLostError("later"), read.h.now)
    assert "no message within" in str(read.direct.error)
    read.direct.close(read.h.now)
    assert not read.direct.finished


def test_the_rest_of_a_page_that_fell_silent_was_all_that_was_wanted() -> None:
    read = Read(timeout=5.0, batch=1)
    read.requests()
    read.message(1, 0, 5)
    read.h.advance(5.0)
    assert read.direct.finished
    assert read.take() == [1]


def test_the_link_is_lost_in_the_middle() -> None:
    read = Read()
    read.requests()
    read.message(1, 0, 5)
    read.h.session.receive_eof(read.h.now)
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert isinstance(read.direct.error.__cause__, ConnectionLostError)
    assert read.take() == [1]


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
    [
        {"seq": 0},
        {"batch": 0},
        {"page_bytes": 0},
        {"page_messages": 0},
        {"timeout": 0.0},
        {"subject": "a..b"},
        {"seq": 1, "start_time": 1},
        {"seq": True},
        {"if_dropped": "maybe"},
        {"start_time": "noon"},
    ],
)
def test_impossible_reads_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Read(**options)
    assert issubclass(BadSubjectError, LocalProtocolError)


@given(
    numbers=st.lists(st.integers(1, 5), max_size=60), page=st.integers(1, 7), taken=st.integers(1, 9),
    limit=st.none() | st.integers(1, 40), old=st.booleans(),
)  # fmt: skip
def test_every_message_exactly_once_in_order(
    numbers: list[int], page: int, taken: int, limit: int | None, old: bool
) -> None:
    """A model server with holes in its numbering (2.11 counts the message itself as pending)."""
    sequences = [sum(numbers[: n + 1]) for n in range(len(numbers))]
    stream = Stream([])
    stream.messages, stream.last_seq = dict.fromkeys(sequences, "k"), sum(numbers)
    read = Read(page_messages=page, batch=limit)
    got: list[int] = []
    for _ in range(200):
        for pub in read.h.published():
            reply = pub.reply or b""
            if pub.subject == DIRECT:
                for block in stream.page(json.loads(pub.payload), stream.last_seq, old=old):
                    read.h.deliver(reply, b"", block)
                assert len(read.direct._ready) <= page + page // 2
            else:
                read.h.deliver(reply, json.dumps(stream.leader(pub)).encode())
        got += read.take(taken)
        if read.direct.finished and not read.direct._ready:
            break
    assert got == (sequences if limit is None else sequences[:limit])
    assert read.direct.error is None


@given(
    log=st.lists(st.sampled_from(["k.1", "k.2", "j"]), max_size=40), deleted=st.sets(st.integers(1, 40)),
    first=st.integers(1, 9), limit=st.none() | st.integers(1, 40), old=st.booleans(),
    kept=st.none() | st.sets(st.integers(1, 40)), data=st.data(),
)  # fmt: skip
def test_whatever_happens_on_the_way_nothing_comes_twice_and_nothing_is_left_out(
    log: list[str], deleted: set[int], first: int, limit: int | None, old: bool, kept: set[int] | None,
    data: st.DataObject,
) -> None:  # fmt: skip
    """Replies get lost, come twice and late, replicas fall silent in the middle of a page, a mirror has a part."""
    stream = Stream(log)
    stream.kept = kept
    for seq in deleted:
        stream.messages.pop(seq, None)
    h = Harness()
    read = DirectBatch(
        h.session, "DG", api=h.js.api, inbox=h.session.new_inbox(), now=h.now, seq=first,
        subject="k.*", batch=limit, page_messages=data.draw(st.integers(1, 6)), timeout=0.5,
    )  # fmt: skip
    got = read_through(h, stream, read, data.draw, applied=lambda: stream.last_seq, old=old)
    expected = [seq for seq, subject in stream.messages.items() if seq >= first and subject != "j"][:limit]
    assert got == (expected if read.error is None else expected[: len(got)])


@given(
    log=st.lists(st.sampled_from(["k.1", "j"]), min_size=1, max_size=30), kept=st.none() | st.sets(st.integers(1, 40)),
    strict=st.booleans(), data=st.data(),
)  # fmt: skip
def test_a_page_of_a_replica_that_is_behind_does_not_end_the_read(
    log: list[str], kept: set[int] | None, strict: bool, data: st.DataObject
) -> None:
    """It is complete up to where it ends, and that is not before the last message of the most lagging one."""
    stream = Stream(log)
    stream.kept = kept
    h = Harness()
    read = DirectBatch(
        h.session, "DG", api=h.js.api, inbox=h.session.new_inbox(), now=h.now, subject="k.*",
        if_dropped="error" if strict else "skip", page_messages=data.draw(st.integers(1, 6)), timeout=0.5,
    )  # fmt: skip
    least = data.draw(st.integers(0, len(log)))
    got = read_through(
        h, stream, read, data.draw, applied=lambda: data.draw(st.integers(least, len(log))),
        events=["fine", "fine", "twice"], pauses=[0.0, 0.03],
    )  # fmt: skip
    expected = [seq for seq, subject in stream.messages.items() if subject == "k.1"]
    assert got == expected[: len(got)]
    if read.error is None:
        assert len(got) >= len([seq for seq in expected if seq <= least])
    else:
        assert isinstance(read.error, MirrorAnswerError)


@given(
    log=st.lists(st.just("k"), min_size=1, max_size=30), later=st.integers(0, 20), data=st.data(),
    if_dropped=st.sampled_from(["skip", "error"]),
)  # fmt: skip
def test_what_is_dropped_from_the_front_while_it_is_read(
    log: list[str], later: int, if_dropped: Any, data: st.DataObject
) -> None:
    """Whatever is there from the beginning to the end is given; "error" misses nothing, or says so."""
    stream = Stream(log)
    h = Harness()
    read = DirectBatch(
        h.session, "DG", api=h.js.api, inbox=h.session.new_inbox(), now=h.now, if_dropped=if_dropped,
        page_messages=data.draw(st.integers(1, 4)), timeout=0.5,
    )  # fmt: skip
    left = [later]

    def change() -> None:
        for _ in range(data.draw(st.integers(0, 3))):
            is_dropped: bool = data.draw(st.booleans())
            if stream.messages and is_dropped:
                del stream.messages[min(stream.messages)]
            elif left[0]:
                left[0] -= 1
                stream.add("k")

    got = read_through(h, stream, read, data.draw, applied=lambda: stream.last_seq, between=change)
    assert got == sorted(set(got))
    reached = max(got, default=0) if read.error is not None else max(len(log), *got, 0)
    assert set(got) >= {seq for seq in stream.messages if seq <= reached}
    if if_dropped == "error" and read.error is None:
        assert got == list(range(1, len(got) + 1))
        assert len(got) >= len(log)
