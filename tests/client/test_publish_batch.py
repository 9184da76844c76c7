"""A whole list in one atomic batch, by one call, against a scripted server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from jsproto import api_errors
from jsproto.errors import (
    BadSubjectError,
    BatchFullError,
    BatchLostError,
    BatchMessageError,
    Error,
    LocalProtocolError,
)
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import Headers
from jsproto.wire.frames import Ping, Pub, Sub, Unsub
from tests.client import test_atomic
from tests.harness import Harness
from tests.marks import known_fault, promise, requirement

TOO_LARGE = {"code": 400, "err_code": 10054, "description": "message size exceeds maximum allowed"}


def headers_of(pub: Pub) -> dict[str, str]:
    assert pub.header is not None
    return dict(Headers.parse(pub.header).items())


def serve(h: Harness, seq: int = 100, error: dict[str, Any] | None = None) -> list[Pub]:
    """Answer until nothing is asked any more; what was published."""
    pubs: list[Pub] = []
    while new := h.published():
        pubs += new
        for pub in new:
            headers = headers_of(pub)
            if pub.reply is not None:
                body: dict[str, Any] = {}
                if "Nats-Batch-Commit" in headers:
                    body = {"stream": "S", "seq": seq, "batch": headers["Nats-Batch-Id"], "count": len(pubs)}
                    if error is not None:
                        body = {"error": error, "stream": "S", "seq": 0}
                h.deliver(pub.reply, json.dumps(body).encode() if body else b"")
    return pubs


@requirement(41)
@promise("`js.publish_batch([(subject, payload), ...])` is an atomic batch in one call")
@promise("Store all of ``messages`` in one atomic batch, or none.")
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"ack_first": False}, {"ack_every": 2}])
def test_a_list_is_published_in_one_call(count: int, options: dict[str, Any]) -> None:
    h = Harness()
    messages: list[Any] = [("e.a", b"%d" % n, {"N": str(n)}) for n in range(count - 1)]
    ticket = h.js.publish_batch([*messages, ("e.z", b"last")], now=h.now, batch_id="b1", **options)
    pubs = serve(h)
    assert [pub.payload for pub in pubs] == [*(b"%d" % n for n in range(count - 1)), b"last"]
    assert [headers_of(pub).get("Nats-Batch-Commit") for pub in pubs] == [*[None] * (count - 1), "1"]
    assert [headers_of(pub)["Nats-Batch-Sequence"] for pub in pubs] == [str(n + 1) for n in range(count)]
    assert ticket.result().sequences == range(101 - count, 101)
    assert ticket in h.completed
    assert h.subs == {} or all(b"*" not in sub for sub in h.subs.values())
    assert h.events() == []


def stored_one() -> Harness:
    """A batch of one message has been stored, and nothing was sent since."""
    h = Harness(max_reconnect_attempts=-1)
    first = h.js.publish_batch([("e.a", b"1")], now=h.now, batch_id="b1")
    (commit,) = h.published()
    assert commit.reply is not None
    h.deliver(commit.reply, b'{"stream":"S","seq":1,"batch":"b1","count":1}')
    assert first.result().seq == 1
    return h


def test_that_the_inbox_is_dropped_is_said_with_what_is_sent_next() -> None:
    h = stored_one()
    assert not h.session.wants_send(h.now)
    assert h.session.sendable().done
    assert h.session.deadline() == Harness().session.deadline()  # nobody is woken for it
    h.js.publish_batch([("e.a", b"2")], now=h.now)
    assert [type(frame) for frame in h.sent()] == [Unsub, Sub, Pub]


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (lambda h: h.session.flush(), [Unsub]),
        (lambda h: h.session.ping(h.now), [Unsub, Ping]),
        (lambda h: h.session.close(h.now), [Unsub]),
    ],
)
def test_that_the_inbox_is_dropped_is_said_once(verb: Callable[[Harness], object], said: list[type]) -> None:
    h = stored_one()
    verb(h)
    h.drain()
    assert [type(frame) for frame in h.sent()] == said


def test_a_new_link_knows_nothing_of_an_inbox_that_was_dropped() -> None:
    h = stored_one()
    h.lose()
    h.connect()
    assert h.session.is_connected
    assert h.sent(Sub, Unsub) == []


@pytest.mark.parametrize("others", [0, 1, 5, 6])
def test_an_incomplete_batch_names_the_subjects_that_may_be_the_reason(others: int) -> None:
    h = Harness()
    messages = [*((f"f.{n}", b"") for n in range(others)), ("e.z", b""), ("e.z", b"")]
    ticket = h.js.publish_batch(messages, now=h.now)
    serve(h, error={"code": 400, "err_code": 10176, "description": "atomic publish batch is incomplete"})
    assert isinstance(ticket.error, api_errors.AtomicPublishIncompleteBatchError)
    named = ", ".join([f"f.{n}" for n in range(others)][:5]) + (", ..." if others > 5 else "")
    question = f"does the stream of e.z take all subjects of the batch? The others are {named}"
    assert getattr(ticket.error, "__notes__", []) == [question] * (others > 0)


@known_fault("a message without headers panics in the middle of a list")
def test_headers_may_be_absent_none_or_empty() -> None:
    h = Harness()
    ticket = h.js.publish_batch([("e.a", b"1"), ("e.a", b"2", None), ("e.a", b"3", {}), ("e.a", b"4", None)], now=h.now)
    pubs = serve(h)
    assert [pub.payload for pub in pubs] == [b"1", b"2", b"3", b"4"]
    assert [set(headers_of(pub)) for pub in pubs] == [
        *[{"Nats-Batch-Id", "Nats-Batch-Sequence"}] * 3, {"Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"}
    ]  # fmt: skip
    assert ticket.result().count == 4


@promise("BatchFullError: there are more than ``max_messages``. Nothing was sent.")
@promise("Raises, with nothing sent: BatchFullError")
@pytest.mark.parametrize(
    ("messages", "kind"),
    [([], LocalProtocolError), ([("e.a", b"")] * 4, BatchFullError)],
)
def test_a_list_that_cannot_be_a_batch_is_refused_before_anything_is_sent(messages: Any, kind: type[Error]) -> None:
    h = Harness()
    with pytest.raises(kind, match="at least one message" if not messages else "at most 3 messages: these are more$"):
        h.js.publish_batch(messages, now=h.now, max_messages=3)
    assert h.sent() == []
    h.js.publish_batch(messages or [("e.a", b"")], now=h.now, max_messages=None)
    assert len(h.published()) == 1


@promise("A list for `publish_batch` that holds such a payload is a `LocalProtocolError`")
@promise("The ticket fails, and nothing is stored")
@pytest.mark.parametrize("message", [("e.a",), ("e.a", b"", None, 1), "e.a", None, ("e.a", "text"), ("e.a", None)])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_is_no_message_stores_nothing(message: Any, at: int) -> None:
    h = Harness()
    messages: list[Any] = [("e.a", b"")] * 3
    messages[at] = message
    ticket = h.js.publish_batch(messages, now=h.now)
    pubs = serve(h)
    assert isinstance(ticket.error, LocalProtocolError)
    assert not any("Nats-Batch-Commit" in headers_of(pub) for pub in pubs)
    assert not any(sub.endswith(b".*") for sub in h.subs.values())


def test_payloads_may_be_any_bytes() -> None:
    h = Harness()
    payloads: list[Any] = [bytearray(b"1"), memoryview(b"2"), b"3"]
    ticket = h.js.publish_batch([("e.a", payload) for payload in payloads], now=h.now)
    assert [pub.payload for pub in serve(h)] == [b"1", b"2", b"3"]
    assert ticket.result().count == 3


@requirement(41)
@promise("BatchFullError: there are more than ``max_messages``. Nothing was sent.")
@promise("The ticket fails, and nothing is stored")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_bad_message_in_a_list_stores_nothing(at: int) -> None:
    h = Harness()
    messages = [("e.a", b"0"), ("e.a", b"1"), ("e.a", b"2")]
    messages[at] = ("e a", b"bad")
    ticket = h.js.publish_batch(messages, now=h.now)
    pubs = serve(h)
    assert isinstance(ticket.error, BadSubjectError)
    assert not any("Nats-Batch-Commit" in headers_of(pub) for pub in pubs)
    assert not any(sub.endswith(b".*") for sub in h.subs.values())


def test_a_refused_list_is_an_error() -> None:
    h = Harness()
    ticket = h.js.publish_batch([("e.a", b"")] * 3, now=h.now)
    serve(h, error={"code": 400, "err_code": 10071, "description": "wrong last sequence: 3"})
    assert isinstance(ticket.error, api_errors.StreamWrongLastSequenceError)


def test_a_list_whose_last_message_is_too_large_for_the_stream_stores_nothing() -> None:
    h = Harness()
    ticket = h.js.publish_batch([("e.a", b"")] * 3, now=h.now)
    serve(h, error=TOO_LARGE)
    assert isinstance(ticket.error, BatchMessageError)
    assert str(ticket.error).endswith("; nothing of the batch is stored")  # and nobody has a batch that is open
    assert ticket.error.__cause__ is not None
    assert ticket.error.message_sequence == 3
    assert not any(sub.endswith(b".*") for sub in h.subs.values())


@pytest.mark.parametrize("size", range(9_000, 11_000, 333))
def test_a_list_larger_than_the_outbox_waits_for_it(size: int) -> None:
    h = Harness(pending_size=size)
    h.session.publish("e.a", bytes(6_000))  # half of what may wait does
    ticket = h.js.publish_batch([("e.a", bytes(1_000))] * 100, now=h.now, ack_every=60, max_messages=None)
    congested = 0
    pubs: list[Pub] = []
    while not ticket.done:
        congested += h.session.congested
        new = [pub for pub in h.published() if pub.header is not None]
        pubs += new
        for pub in new:
            if pub.reply is not None:
                commit = "Nats-Batch-Commit" in headers_of(pub)
                body = {"stream": "S", "seq": 100, "batch": headers_of(pub)["Nats-Batch-Id"], "count": 100}
                h.deliver(pub.reply, json.dumps(body).encode() if commit else b"")
    assert ticket.result().count == 100
    assert congested > 5
    assert [headers_of(pub)["Nats-Batch-Sequence"] for pub in pubs] == [str(n) for n in range(1, 101)]


@promise("`js.publish_batch([(subject, payload), ...])` is an atomic batch in one call")
@promise("Store all of ``messages`` in one atomic batch, or none of them")
@promise("Store all of ``messages`` in one atomic batch, or none.")
@pytest.mark.parametrize("end", [lambda h: h.session.close(h.now), lambda h: h.lose()])
def test_a_list_under_way_when_the_link_ends(end: Callable[[Harness], None]) -> None:
    h = Harness(pending_size=10_000)
    waits = h.js.publish_batch([("e.a", b"")] * 3, now=h.now)
    h.published()
    crowded = h.js.publish_batch([("e.a", bytes(1_000))] * 100, now=h.now, ack_first=False)
    end(h)
    h.drain()
    assert isinstance(waits.error, BatchLostError)
    assert isinstance(crowded.error, BatchLostError)


@pytest.mark.parametrize("kind", [list, MessageColumns])
@pytest.mark.parametrize("odd", [1, 40, 1_500])
def test_many_are_published_as_one_by_one(kind: Any, odd: int) -> None:
    """``odd``: every so many is too large for a run."""
    messages = [(f"e.{n % 3}", b"%d" % n + bytes(1_100 if n % odd == odd - 1 else n % 5)) for n in range(1_600)]
    rows = messages if kind is list else MessageColumns(*zip(*messages, strict=True))
    sent = []
    for at_once in (True, False):
        h = Harness()
        batch = h.js.atomic_batch(ack_first=False, max_messages=None)
        if at_once:
            assert batch.add_many(rows, h.now) == len(messages)
        else:
            for subject, payload in messages:
                batch.add(subject, payload, now=h.now)
        sent.append(h.published())
    assert sent[0] == sent[1]
    assert len(sent[0]) == 1_600


def test_add_many_gives_the_carrier_all_between_two_questions_at_once() -> None:
    batch = test_atomic.Batch(ack_every=10)
    messages = [("e.a", b"%d" % n) for n in range(25)]
    assert batch.atomic.add_many(messages, batch.h.now) == 1
    batch.say()
    alone: list[bytes] = []
    publish = batch.h.session.publish

    def one(subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        alone.append(payload)
        publish(subject, payload, reply, headers)

    batch.h.session.publish = one  # type: ignore[method-assign]
    for start, count in ((1, 9), (10, 10), (20, 5)):
        assert batch.atomic.add_many(messages[start:], batch.h.now) == count
        if batch.atomic.waiting:
            batch.say()
    assert alone == [b"9", b"19"]  # those that ask
