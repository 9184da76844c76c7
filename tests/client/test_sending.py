"""What every verb that sends refuses, with nothing sent: what is no text where text must be, and others' batches."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from jsproto import Headers, strip_batch_headers
from jsproto.client.connection.session import Session
from jsproto.errors import BadHeaderError, BadSubjectError, LocalProtocolError
from jsproto.grammar.batch import BATCH_HEADERS
from jsproto.ticket import Ticket
from tests.client import test_atomic, test_fast
from tests.harness import Harness
from tests.marks import promise

Verb: TypeAlias = Callable[[Harness, Any, Any], object]

NO_STR = [1, 1.5, None, True, b"s.a", bytearray(b"s.a"), ["s.a"], ("s.a",), {"s.a": 1}, {"s.a"}, SimpleNamespace()]
NO_HEADERS = [
    {1: "v"}, {b"k": "v"}, {None: "v"}, {("k",): "v"}, {"k": 1}, {"k": None}, {"k": b"v"}, {"k": [1]},
    {"k": ["v", None]}, {"k": {"v"}}, {"k": SimpleNamespace()}, [("k", "v")], ["k"], "k: v", 5, b"NATS/1.0\r\n\r\n",
]  # fmt: skip


def opened_fast(harness: Harness) -> Any:
    return test_fast.Batch(harness).start().fast


def opened_atomic(harness: Harness) -> Any:
    batch = test_atomic.Batch(harness)
    batch.add()
    batch.say()
    return batch.atomic


def answer(harness: Harness, ticket: Ticket[Any]) -> object:
    """The error of what is refused in the answer."""
    if ticket.error is not None:
        raise ticket.error
    return ticket


CORE: dict[str, Verb] = {
    "publish_message": lambda h, subject, headers: h.session.publish_message(subject, b"x", headers=headers),
    "request": lambda h, subject, headers: h.session.request(subject, b"x", headers=headers, now=h.now),
}
JETSTREAM: dict[str, Verb] = {
    "publish": lambda h, subject, headers: h.js.publish(subject, b"x", headers=headers, now=h.now),
    "publish with an id": lambda h, subject, headers: h.js.publish(
        subject, b"x", headers=headers, msg_id="1", now=h.now
    ),
    "ahead": lambda h, subject, headers: h.js.async_publisher().publish(subject, b"x", headers, now=h.now),
    "many ahead": lambda h, subject, headers: h.js.async_publisher().publish_many([(subject, b"x", headers)], h.now),
    "a batch begins": lambda h, subject, headers: h.js.fast_publisher().publish(subject, b"x", headers, now=h.now),
    "a batch begins with many": lambda h, subject, headers: h.js.fast_publisher().publish_many(
        [(subject, b"x", headers)], h.now
    ),
    "a batch of one": lambda h, subject, headers: h.js.fast_publisher().commit(h.now, _named(subject), b"x", headers),
    "a batch": lambda h, subject, headers: opened_fast(h).publish(subject, b"x", headers, now=h.now),
    "a batch of many": lambda h, subject, headers: opened_fast(h).publish_many([(subject, b"x", headers)], h.now),
    "a batch commits": lambda h, subject, headers: opened_fast(h).commit(h.now, _named(subject), b"x", headers),
    "an atomic batch begins": lambda h, subject, headers: h.js.atomic_batch().add(subject, b"x", headers, now=h.now),
    "an atomic batch": lambda h, subject, headers: opened_atomic(h).add(subject, b"x", headers, now=h.now),
    "an atomic batch of many": lambda h, subject, headers: opened_atomic(h).add_many([(subject, b"x", headers)], h.now),
    "an atomic batch commits": lambda h, subject, headers: opened_atomic(h).commit(h.now, subject, b"x", headers),
    "publish_batch": lambda h, subject, headers: answer(
        h, h.js.publish_batch([(subject, b"x", headers), ("s.a", b"y")], now=h.now)
    ),
}
WITHOUT_HEADERS: dict[str, Verb] = {
    "many ahead": lambda h, subject, _: h.js.async_publisher().publish_many([(subject, b"x")], h.now),
    "a batch begins with many": lambda h, subject, _: h.js.fast_publisher().publish_many([(subject, b"x")], h.now),
    "a batch of many": lambda h, subject, _: opened_fast(h).publish_many([(subject, b"x")], h.now),
    "an atomic batch of many": lambda h, subject, _: opened_atomic(h).add_many([(subject, b"x")], h.now),
    "publish_batch": lambda h, subject, _: answer(h, h.js.publish_batch([(subject, b"x")], now=h.now)),
    "reply": lambda h, subject, _: h.session.publish_message("s.a", b"x", reply=_named(subject)),
    "subscribe": lambda h, subject, _: Session.subscribe(h.session, subject, test_fast.Batch(h).fast),
    "queue": lambda h, subject, _: Session.subscribe(h.session, "s.a", test_fast.Batch(h).fast, _named(subject)),
}


def _named(subject: object) -> Any:
    """Where None is no subject, but none."""
    return 1 if subject is None else subject


def refuse(verb: Verb, subject: Any, headers: Any, kind: type[LocalProtocolError]) -> LocalProtocolError:
    """What ``verb`` says: as soon as it is called, and the message is not sent."""
    harness = Harness()
    with pytest.raises(kind) as caught:
        verb(harness, subject, headers)
    assert harness.published() == []
    return caught.value


@promise("a caller's mistake raises `LocalProtocolError`, with nothing written")
@promise("A caller's mistake raises `LocalProtocolError` at the call.")
@promise("Raises, with nothing written:")
@pytest.mark.parametrize("subject", NO_STR, ids=repr)
@pytest.mark.parametrize("name", CORE | JETSTREAM)
def test_what_is_no_str_is_no_subject(name: str, subject: Any) -> None:
    refuse((CORE | JETSTREAM)[name], subject, None, BadSubjectError)


@pytest.mark.parametrize("subject", NO_STR, ids=repr)
@pytest.mark.parametrize("name", WITHOUT_HEADERS)
def test_nor_without_headers(name: str, subject: Any) -> None:
    refuse(WITHOUT_HEADERS[name], subject, None, BadSubjectError)


@promise("Raises, with nothing sent: LocalProtocolError")
@promise("Raises, with nothing written:")
@pytest.mark.parametrize("headers", NO_HEADERS, ids=repr)
@pytest.mark.parametrize("name", CORE | JETSTREAM)
def test_what_is_no_header(name: str, headers: Any) -> None:
    refuse((CORE | JETSTREAM)[name], "s.a", headers, BadHeaderError)


@promise("a caller's mistake raises `LocalProtocolError`, with nothing written")
@promise("A caller's mistake raises `LocalProtocolError` at the call.")
@pytest.mark.parametrize(
    "message",
    [
        None, 5, SimpleNamespace(), "ab", b"ab", {"s.a": b"x", "s.b": b"y"}, pytest.param({"s.a", "s.b"}, id="a set"),
        (), ("s.a",), ("s.a",) * 4,
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize(
    "many",
    [
        lambda h, messages: h.js.async_publisher().publish_many(messages, h.now),
        lambda h, messages: h.js.fast_publisher().publish_many(messages, h.now),
        lambda h, messages: opened_fast(h).publish_many(messages, h.now),
        lambda h, messages: opened_atomic(h).add_many(messages, h.now),
        lambda h, messages: answer(h, h.js.publish_batch(messages, now=h.now)),
    ],
    ids=["ahead", "a batch begins", "a batch", "an atomic batch", "publish_batch"],
)
def test_what_is_no_message(many: Any, message: Any) -> None:
    with pytest.raises(LocalProtocolError, match="a message is|must be a str"):
        many(Harness(), [message])


def test_the_messages_before_one_that_is_none_are_taken() -> None:
    harness = Harness()
    publisher = harness.js.async_publisher()
    with pytest.raises(LocalProtocolError, match="a message is"):
        publisher.publish_many([("s.a", b"1"), ("s.a", b"2"), None, ("s.a", b"3")], harness.now)  # type: ignore[list-item]
    assert (publisher.sequence, publisher.pending) == (2, 2)
    assert [pub.payload for pub in harness.published()] == [b"1", b"2"]


def test_a_payload_that_is_no_bytes_is_told_as_such() -> None:
    publisher = Harness().js.async_publisher()
    with pytest.raises(TypeError, match="the payload must be bytes, not str: encode it"):
        publisher.publish_many([("s.a", b"1"), ("s.a", "text")], 100.0)  # type: ignore[list-item]
    assert publisher.sequence == 1


# -- headers of an atomic batch ----------------------------------------------------------------------------------------


@promise("Every verb of JetStream that publishes refuses headers of an atomic batch (`Nats-Batch-...`)")
@promise("Raises, with nothing sent: LocalProtocolError")
@pytest.mark.parametrize("kind", [dict, Headers])
@pytest.mark.parametrize("header", sorted(BATCH_HEADERS))
@pytest.mark.parametrize("name", JETSTREAM)
def test_nobody_publishes_into_the_batch_of_somebody_else(name: str, header: str, kind: Any) -> None:
    error = refuse(JETSTREAM[name], "s.a", kind({"K": "v", header: "1"}), LocalProtocolError)
    assert header in str(error)
    assert "strip_batch_headers" in str(error)


@promise("A message that is read may have them.")
@pytest.mark.parametrize("name", JETSTREAM)
def test_what_is_left_of_a_message_of_a_batch_can_be_published(name: str) -> None:
    read = Headers(
        [("Nats-Batch-Id", "b"), ("K", "1"), ("Nats-Batch-Sequence", "1"), ("K", "2"), ("Nats-Batch-X", "y")]
    )
    left = strip_batch_headers(read)
    assert left.items() == (("K", "1"), ("K", "2"), ("Nats-Batch-X", "y"))
    JETSTREAM[name](Harness(), "s.a", left)


@promise("A message that is read may have them.")
def test_stripping_takes_whatever_verbs_take() -> None:
    assert strip_batch_headers(None) == Headers()
    assert strip_batch_headers({"Nats-Batch-Commit": "1", "K": ["1", "2"]}).get_all("K") == ["1", "2"]
    assert strip_batch_headers({"nats-batch-id": "b"}).items() == (("nats-batch-id", "b"),)  # servers compare the case
    with pytest.raises(BadHeaderError):
        strip_batch_headers({"K": "a\nb"})


def test_a_value_that_looks_like_one_is_data() -> None:
    harness = Harness()
    harness.js.fast_publisher().publish("s.a", b"x", {"K": "Nats-Batch-Id: b"}, now=harness.now)
    assert len(harness.published()) == 1


@pytest.mark.parametrize("name", CORE)
def test_core_messages_may_have_any_headers(name: str) -> None:
    """Who speaks to a server without these verbs may build a batch of his own."""
    CORE[name](Harness(), "s.a", {"Nats-Batch-Id": "b"})
