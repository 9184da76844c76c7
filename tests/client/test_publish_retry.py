"""Publishing again what no stream took (ADR-22): how often, when, and how it ends otherwise."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from jsproto.api_errors import StreamDuplicateMessageConflictError
from jsproto.client.jetstream import JetStream
from jsproto.client.publish.pipelined import PipelinedPublisher
from jsproto.errors import (
    ConnectionLostError,
    LocalProtocolError,
    MaxPayloadError,
    NoStreamResponseError,
    PermissionsViolationError,
    TimeoutError,
)
from jsproto.grammar.acks import PubAck
from jsproto.wire.encoder import encode_err, encode_info
from jsproto.wire.frames import Pub
from tests.harness import INFO, Harness
from tests.marks import promise

ACK = b'{"stream":"S","seq":7}'
NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"
DENIED = encode_err(b"'Permissions Violation for Publish to \"s.a\"'")


def nobody(harness: Harness) -> Pub:
    """Answer the message that was published that nobody is there."""
    (pub,) = harness.published()
    assert pub.reply is not None
    harness.deliver(pub.reply, b"", NO_RESPONDERS)
    return pub


def take(harness: Harness) -> None:
    """Acknowledge the message that was published."""
    (pub,) = harness.published()
    assert pub.reply is not None
    harness.deliver(pub.reply, ACK)


# -- one at a time -----------------------------------------------------------------------------------------------------


@promise("Nothing is stored twice by it: the server says that nobody had it.")
@promise("A `publish` that is cancelled may still be sent again.")
def test_a_message_that_no_stream_took_is_sent_again() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now, msg_id="1", expected_last_seq=6)
    first = nobody(harness)
    harness.advance(0.249)
    assert harness.published() == []
    harness.advance(0.001)
    assert nobody(harness) == first
    harness.advance(0.25)
    take(harness)
    assert ticket.result() == PubAck("S", 7)
    harness.advance(10)
    assert harness.published() == []


@promise("A message that no stream takes")
def test_after_the_last_attempt_it_fails() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now)
    for _ in range(2):
        nobody(harness)
        assert not ticket.done
        harness.advance(0.25)
    nobody(harness)
    assert isinstance(ticket.error, NoStreamResponseError)
    assert ticket in harness.completed


@promise("A `publish` that is cancelled may still be sent again.")
@pytest.mark.parametrize(
    "options", [{"retry_attempts": 0}, {"timeout": 0.25}, {"timeout": 3.0, "retry_attempts": -1, "retry_wait": 3.5}]
)
def test_it_fails_at_once_without_attempts_or_time_for_one(options: Any) -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now, **options)
    nobody(harness)
    assert isinstance(ticket.error, NoStreamResponseError)


def test_attempts_without_a_limit_end_with_the_time() -> None:
    harness = Harness()
    js = JetStream(harness.session, retry_attempts=-1, retry_wait=0.1)
    ticket = js.publish("s.a", b"x", now=harness.now, timeout=1.05)
    attempts = 0
    while not ticket.done:
        nobody(harness)
        attempts += 1
        harness.advance(0.1)
    assert attempts == 10  # an eleventh would have no time for its answer
    assert isinstance(ticket.error, NoStreamResponseError)


def test_a_pause_may_be_a_timedelta() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now, retry_wait=timedelta(milliseconds=50))
    nobody(harness)
    harness.advance(0.05)
    assert not ticket.done
    take(harness)
    assert ticket.result() == PubAck("S", 7)


def test_the_time_may_be_a_timedelta() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now, timeout=timedelta(milliseconds=300))
    harness.advance(0.29)
    assert not ticket.done
    harness.advance(0.02)
    assert isinstance(ticket.error, TimeoutError)
    with pytest.raises(LocalProtocolError, match="timeout is a number of seconds"):
        harness.js.publish("s.a", b"x", now=harness.now, timeout=timedelta(-1))


def test_the_time_is_that_of_all_attempts() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now, timeout=0.51)
    nobody(harness)
    harness.advance(0.25)
    assert len(harness.published()) == 1
    harness.advance(0.26)
    assert isinstance(ticket.error, TimeoutError)


def test_an_attempt_has_as_long_for_its_answer_as_the_pause_before_it() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now, timeout=0.5)
    nobody(harness)
    assert isinstance(ticket.error, NoStreamResponseError)


def test_a_lost_link_ends_it() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now)
    nobody(harness)
    harness.lose()
    assert isinstance(ticket.error, ConnectionLostError)
    harness.advance(1.0)
    assert harness.published() == []


def test_a_subject_that_is_denied_meanwhile_ends_it() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now)
    nobody(harness)
    harness.feed(DENIED)
    assert isinstance(ticket.error, PermissionsViolationError)
    harness.advance(1.0)
    assert harness.published() == []


def test_a_message_that_cannot_be_sent_again_fails() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"four", now=harness.now)
    nobody(harness)
    harness.feed(encode_info(json.dumps({**INFO, "max_payload": 3}).encode()))
    harness.advance(0.25)
    assert isinstance(ticket.error, MaxPayloadError)


@pytest.mark.parametrize(
    "options", [{"retry_attempts": -2}, {"retry_attempts": True}, {"retry_wait": 0}, {"retry_wait": -1}]
)
def test_values_that_cannot_be(options: Any) -> None:
    harness = Harness()
    with pytest.raises(LocalProtocolError, match=next(iter(options))):
        harness.js.publish("s.a", now=harness.now, **options)
    with pytest.raises(LocalProtocolError, match=next(iter(options))):
        JetStream(harness.session, **options)
    assert harness.published() == []


# -- many at a time ----------------------------------------------------------------------------------------------------


def pipelined(harness: Harness, **options: Any) -> PipelinedPublisher:
    return JetStream(harness.session, **options).async_publisher(max_pending=2, timeout=5.0)


@promise("A message that no stream takes")
def test_one_of_many_is_sent_again_as_the_newest() -> None:
    harness = Harness()
    publisher = pipelined(harness)
    ticket = publisher.publish("s.a", b"first", {"K": "v"}, now=harness.now)
    first = nobody(harness)
    assert (publisher.pending, publisher.pending_bytes, publisher.room) == (1, 5, 1)
    other = publisher.publish("s.a", b"other", now=harness.now)
    with pytest.raises(LocalProtocolError, match="too many messages"):
        publisher.publish("s.a", now=harness.now)
    answered = publisher.answered()
    take(harness)
    assert (other.done, answered.done) == (True, False)
    harness.advance(0.25)
    (again,) = harness.published()
    assert (again.subject, again.header, again.payload) == (first.subject, first.header, first.payload)
    assert again.reply is not None
    assert again.reply != first.reply
    harness.deliver(again.reply, ACK)
    assert ticket.result() == PubAck("S", 7)
    assert answered.done
    assert (publisher.sequence, publisher.acked, publisher.failed, publisher.pending_bytes) == (2, 2, 0, 0)
    publisher.publish("s.a", b"x", now=harness.now)
    take(harness)


def test_one_of_many_fails_after_its_attempts_or_its_time() -> None:
    for options, attempts in (({}, 3), ({"retry_attempts": 0}, 1), ({"retry_attempts": -1, "retry_wait": 2.0}, 3)):
        harness = Harness()
        publisher = pipelined(harness, **options)
        ticket = publisher.publish("s.a", b"x", now=harness.now)
        for _ in range(attempts):
            assert not ticket.done
            nobody(harness)
            harness.advance(2.0)
        assert isinstance(ticket.error, NoStreamResponseError)
        assert (publisher.failed, publisher.pending, publisher.pending_bytes) == (1, 0, 0)


def test_each_attempt_of_one_of_many_has_its_time() -> None:
    harness = Harness()
    publisher = pipelined(harness, retry_wait=1.0)
    first = publisher.publish("s.a", b"x", now=harness.now)
    harness.advance(1.0)
    late = publisher.publish("s.a", b"y", now=harness.now)
    pubs = harness.published()
    assert pubs[0].reply is not None
    harness.deliver(pubs[0].reply, b"", NO_RESPONDERS)
    harness.advance(1.0)
    assert len(harness.published()) == 1
    harness.advance(4.5)
    assert isinstance(late.error, TimeoutError)
    assert not first.done
    harness.advance(1.0)
    assert isinstance(first.error, TimeoutError)


def test_what_waits_to_be_sent_again_is_under_way() -> None:
    harness = Harness()
    publisher = pipelined(harness)
    publisher.publish("s.a", b"x", now=harness.now)
    nobody(harness)
    assert publisher.is_busy
    harness.advance(0.25)
    take(harness)
    assert not publisher.is_busy


def test_a_window_that_is_full_with_what_waits_leaves_at_once() -> None:
    harness = Harness()
    publisher = pipelined(harness)
    harness.begin_burst()
    publisher.publish("s.a", b"x", now=harness.now)
    assert not harness.session.wants_send(harness.now)
    nobody(harness)
    publisher.publish("s.a", b"y", now=harness.now)
    assert publisher.room == 0
    assert harness.session.wants_send(harness.now)


def test_what_waits_to_be_sent_again_ends_with_the_link() -> None:
    harness = Harness()
    publisher = pipelined(harness)
    ticket = publisher.publish("s.a", b"x", now=harness.now)
    nobody(harness)
    harness.lose()
    assert isinstance(ticket.error, ConnectionLostError)
    assert (publisher.pending, publisher.pending_bytes) == (0, 0)


def test_one_of_many_that_cannot_be_sent_again_fails() -> None:
    harness = Harness()
    publisher = pipelined(harness)
    ticket = publisher.publish("s.a", b"four", now=harness.now)
    nobody(harness)
    harness.feed(encode_info(json.dumps({**INFO, "max_payload": 3}).encode()))
    harness.advance(0.25)
    assert isinstance(ticket.error, MaxPayloadError)
    assert (publisher.pending, publisher.pending_bytes, publisher.failed) == (0, 0, 1)


@promise("Those of `publish_many` are handed back at once.")
def test_messages_that_are_counted_are_handed_back_at_once() -> None:
    harness = Harness()
    publisher = pipelined(harness)
    publisher.publish_many([("s.a", b"x")], harness.now)
    nobody(harness)
    assert [type(error) for _, error in publisher.take_failures()] == [NoStreamResponseError]


def test_a_request_with_less_time_than_those_before_it_ends_in_time() -> None:
    """The session knows the deadline of a request that has ended, and asks too early rather than too late."""
    harness = Harness()
    for timeout in (5.0, 3.0, 4.0):
        ticket = harness.js.publish("s.a", b"x", now=harness.now, timeout=timeout)
        take(harness)
        assert ticket.done
    asked = harness.now
    tickets = [harness.js.publish("s.a", b"x", now=asked, timeout=timeout) for timeout in (9.0, 6.0, 7.0)]
    harness.sent()
    for seconds, done in ((5.9, 0), (0.1, 1), (1.0, 2), (2.0, 3)):
        harness.advance(seconds)
        assert [ticket.done for ticket in tickets].count(True) == done
    assert all(isinstance(ticket.error, TimeoutError) for ticket in tickets)


# -- a message whose id is in process on another link ------------------------------------------------------------------

IN_PROCESS = b'{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}'


def in_process(harness: Harness) -> Pub:
    (pub,) = harness.published()
    assert pub.reply is not None
    harness.deliver(pub.reply, IN_PROCESS)
    return pub


def test_a_message_whose_id_is_in_process_is_sent_again() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now, msg_id="1")
    first = in_process(harness)
    assert not ticket.done
    harness.advance(0.25)
    assert in_process(harness) == first
    harness.advance(0.25)
    take(harness)
    assert ticket.result() == PubAck("S", 7)
    ticket = harness.js.publish("s.a", b"x", now=harness.now, msg_id="1", retry_attempts=0)
    in_process(harness)
    assert isinstance(ticket.error, StreamDuplicateMessageConflictError)


def test_one_of_many_whose_id_is_in_process_is_sent_again() -> None:
    harness = Harness()
    publisher = harness.js.async_publisher()
    ticket = publisher.publish("s.a", b"x", now=harness.now)
    harness.session.flush()
    in_process(harness)
    assert not ticket.done
    harness.advance(0.25)
    take(harness)
    assert ticket.result() == PubAck("S", 7)
