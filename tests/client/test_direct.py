"""Direct Get in batches against a scripted server; the bytes are those of released servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.read.direct import DirectBatch
from jsproto.errors import (
    BadRequestError,
    BadSubjectError,
    ConnectionLostError,
    IncompleteBatchError,
    LocalProtocolError,
    MirrorAnswerError,
    RemoteProtocolError,
    StatusError,
    TooManyResultsError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.columns import _found, stored_columns
from jsproto.grammar.stored import StoredMsg, next_sequences
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import MsgRun, Pub, Unsub
from tests.client.replicas import DIRECT, LEADER, NOT_FOUND, STATE, TIME, Stream, read_through
from tests.harness import Harness
from tests.marks import promise, requirement

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


@promise("The messages as columns instead, up to ``most`` at a time")
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


@requirement(119, 122, 126, 127)
@promise("`finished` says that all has been received.")
def test_one_page_is_all() -> None:
    read = Read(seq=1, subject="foo.>", batch=3, max_bytes=500)
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


@requirement(120)
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


@requirement(138)
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


@requirement(141)
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


def looked_at(message: StoredMsg) -> list[object]:
    """What the fields of a message are, or why they cannot be read."""
    found: list[object] = []
    for name in ("subject", "timestamp", "stream", "headers"):
        try:
            found.append(getattr(message, name))
        except RemoteProtocolError as error:
            found.append(str(error))
    return found


@promise("all that is in order is taken at once")
@given(replies(), st.sampled_from([3, 100]), st.sampled_from([4, 10_000]), st.integers(0, 2_000))
def test_a_page_at_once_is_read_as_message_by_message(
    page: list[tuple[bytes | None, bytes]], messages: int, size: int, cut_at: int
) -> None:
    outcomes = []
    for at_once, in_columns in ((False, False), (True, False), (True, True)):
        read = Read(page_messages=messages, max_bytes=size)
        if in_columns:
            read.direct.pop_columns(1, read.h.now)  # from then on they are made when messages come
        read.requests()
        (sid,) = [sid for sid, subject in read.h.subs.items() if read.reply.startswith(subject[:-1])]
        frames = [encode_msg(read.reply, sid, None, header, payload) for header, payload in page]
        sent = b"".join(frames)
        readable = read.direct.readable()
        for piece in (sent[:cut_at], sent[cut_at:]) if at_once else frames:
            read.h.feed(piece)
        popped = read.direct.pop_many(1000, read.h.now)
        taken = [(each.seq, each.data, each.raw_headers, *looked_at(each)) for each in popped]
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
    one_by_one: list[bytes | None] = []
    receive = DirectBatch._receive_page

    def watched(batch: DirectBatch, header: bytes | None, payload: bytes, now: float) -> None:
        one_by_one.append(header)
        receive(batch, header, payload, now)

    monkeypatch.setattr(DirectBatch, "_receive_page", watched)
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
    rows: list[MsgRun] = []
    monkeypatch.setattr(DirectBatch, "receive_run", lambda self, row, now: rows.append(row))
    read = Read(harness=Harness(max_reconnect_attempts=-1))
    sent = b"".join(encode_msg(b"r", b"1", None, stored(seq, last=seq - 1, pending=0), b"") for seq in (1, 2, 3))
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


def test_fields_are_found_for_the_reader_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[MsgRun] = []
    monkeypatch.setattr(DirectBatch, "receive_run", lambda self, run, now: runs.append(run))
    h = Harness()
    readers = [Read(harness=h) for _ in range(2)]
    readers[1].direct.pop_columns(1, h.now)
    sent = b"".join(
        encode_msg(b"r", sid, None, stored(seq, last=seq - 1, pending=0), b"") for sid in (b"1", b"2") for seq in (1, 2)
    )
    h.feed(sent)
    assert [run.fields is not None for run in runs] == [False, True]
    for reader in readers:
        reader.direct.close(h.now)
    readers[0].direct.pop_columns(1, h.now)  # its subscription has ended
    assert not h.session._with_fields


def test_a_row_of_an_earlier_page_changes_nothing() -> None:
    read = Read(page_messages=1)
    read.requests()
    early = read.reply
    read.message(1, 0, 2)
    read.status(end(last=1, pending=2))
    assert read.take() == [1]
    assert [request["seq"] for request in read.requests()] == [2]
    headers = [stored(seq, last=seq - 1, pending=3 - seq) for seq in (2, 3)]
    read.direct.receive_run(MsgRun(early, b"1", None, [*headers], [b"x", b"x"]), read.h.now)
    assert [type(event) for event in read.h.events()] == [UnexpectedMessage]
    assert read.take() == []
    read.message(2, 0, 1)
    read.direct.receive_run(MsgRun(early, b"1", None, [*headers], [b"x", b"x"]), read.h.now)
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
    read.direct.receive_run(MsgRun(early, b"1", None, late, [b"x", b"x"]), read.h.now)
    assert read.direct.last_seq == 2
    assert [type(event) for event in read.h.events()] == [UnexpectedMessage]


def test_the_read_fails_in_the_middle_of_a_row() -> None:
    read = Read()
    read.requests()
    headers = [stored(1, last=0, pending=9), b"NATS/1.0 408 Bad Request\r\n\r\n", stored(2, last=1, pending=8)]
    read.direct.receive_run(MsgRun(read.reply, b"1", None, headers, [b"x"] * 3), read.h.now)
    assert isinstance(read.direct.error, BadRequestError)
    assert read.take() == [1]
    assert read.h.events() == []


def test_a_row_is_a_sign_of_life() -> None:
    read = Read(timeout=5.0)
    read.requests()
    read.message(1, 0, 9)
    read.h.advance(4.0)
    headers = [stored(seq, last=seq - 1, pending=9 - seq) for seq in (2, 3)]
    read.direct.receive_run(MsgRun(read.reply, b"1", None, headers, [b"x", b"x"]), read.h.now)
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
    watch("client.read.feed.next_sequences", next_sequences)
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


@requirement(143)
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
    if arrived:  # somebody else may have shown it
        read.state(last_seq=arrived + 1)
    assert read.direct.finished


@pytest.mark.parametrize("columns", [False, True])
def test_nothing_is_missing_between_sequences_that_rise_by_one(columns: bool) -> None:
    read = Read()
    read.requests()
    if columns:
        assert not read.direct.pop_columns(9, read.h.now).seqs
    reply = read.reply
    headers = [stored(seq, last=last, pending=9) for seq, last in ((5, 0), (6, 4), (7, 6), (9, 7))]
    read.direct.receive_run(MsgRun(reply, b"1", None, headers, [b"x"] * 4), read.h.now)
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
    row = MsgRun(read.reply, b"1", None, [stored(2, last=1, pending=8), stored(4, last=3, pending=8)], [b"a", b"b"])
    before = [*row.headers], [*row.payloads]
    read.direct.receive_run(row, read.h.now)
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


@requirement(143)
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


@requirement(126)
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


@requirement(125)
@promise("Memory is bounded whatever the peer sends.")
@promise("It asks for the next page only as messages are taken")
def test_the_memory_is_bounded_however_few_messages_a_page_has() -> None:
    read = Read(page_messages=1000, max_bytes=10)
    read.requests()
    read.message(1, 0, 9, b"x" * 10)
    read.message(2, 1, 8, b"x")
    read.status(end(last=2, pending=8))
    assert read.requests() == []
    assert read.take(1) == [1]
    assert [request["seq"] for request in read.requests()] == [3]


# -- from a time on ----------------------------------------------------------------------------------------------------


@requirement(121)
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


# -- answers that end a read -------------------------------------------------------------------------------------------


@requirement(112, 128, 140)
@pytest.mark.parametrize(
    ("header", "error", "text"),
    [
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


@requirement(144)
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


@requirement(144)
def test_the_link_is_lost_in_the_middle() -> None:
    read = Read()
    read.requests()
    read.message(1, 0, 5)
    read.h.session.receive_eof(read.h.now)
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert isinstance(read.direct.error.__cause__, ConnectionLostError)
    assert read.take() == [1]


def test_a_request_that_finds_no_room_is_made_later() -> None:
    h = Harness(pending_size=100, linger=9.0)
    h.begin_burst()
    h.session.publish_message("x", b"x" * 200)
    read = Read(harness=h, page_messages=2)
    assert h.session.deadline() == h.now + 0.02
    h.drain()
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
    read = Read(batch=batch, max_bytes=100)
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


@requirement(123, 129)
@pytest.mark.parametrize(
    "options",
    [
        {"seq": 0},
        {"batch": 0},
        {"max_bytes": 0},
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


@requirement(125)
@promise("Take up to ``most`` received messages, in order")
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


@promise("what is in the stream all the time is not left out")
@promise("`get_batch`, `get_last_msgs_for` and `snapshot` read the stream itself.")
@promise("No message is left out that is there from beginning to end")
@promise("Take up to ``most`` received messages, in order")
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
    if_dropped=st.sampled_from(["skip", "error"]), seq=st.sampled_from([None, 1]),
)  # fmt: skip
def test_what_is_dropped_from_the_front_while_it_is_read(
    log: list[str], later: int, if_dropped: Any, seq: int | None, data: st.DataObject
) -> None:
    """Whatever is there from the beginning to the end is given. "error" misses nothing after its start, or says so."""
    stream = Stream(log)
    h = Harness()
    read = DirectBatch(
        h.session, "DG", api=h.js.api, inbox=h.session.new_inbox(), now=h.now, if_dropped=if_dropped,
        page_messages=data.draw(st.integers(1, 4)), timeout=0.5, seq=seq,
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
        first = 1 if seq == 1 else got[0] if got else len(log) + 1  # without a start, what is there first
        assert got == list(range(first, first + len(got)))
        assert first + len(got) > len(log)
