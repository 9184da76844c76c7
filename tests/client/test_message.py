"""Acknowledgements: the right bytes, once, in one write, and never an exception for a message that is settled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jsproto.client.consume.message import Acker, JSMsg
from jsproto.errors import (
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
    MaxPayloadError,
    NoRespondersError,
    NotJSMessageError,
    NotJSONError,
    OutboundBufferLimitError,
    RemoteProtocolError,
    TimeoutError,
)
from jsproto.grammar.jsack import JSAck, Sequences
from jsproto.wire.frames import Msg
from tests.client.pulling import Pulling
from tests.marks import known_fault, promise, requirement


@requirement(206, 213, 214, 215)
@promise("The first `ack`, `nak` or `term` settles a message, and the rest are ignored.")
@promise("The first of ``ack``, ``nak`` and ``term`` settles it: later acknowledgements are ignored silently.")
@known_fault("a second acknowledgement raises")
@known_fault("a message is acknowledged again and again")
@pytest.mark.parametrize(
    ("verb", "payload"),
    [
        (lambda message: message.ack(), b"+ACK"),
        (lambda message: message.nak(), b"-NAK"),
        (lambda message: message.nak(0), b"-NAK"),
        (lambda message: message.nak(timedelta(0)), b"-NAK"),
        (lambda message: message.nak(1.5), b'-NAK {"delay":1500000000}'),
        (lambda message: message.nak(timedelta(milliseconds=1)), b'-NAK {"delay":1000000}'),
        (lambda message: message.term(), b"+TERM"),
        (lambda message: message.term(""), b"+TERM"),
        (lambda message: message.term("no such order"), b"+TERM no such order"),
    ],
)
def test_terminal_acknowledgements_are_sent_once(verb: Any, payload: bytes) -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    assert not message.settled
    verb(message)
    assert pulling.acks() == [(b"1", payload)]
    assert message.settled
    verb(message)
    message.ack()
    message.nak()
    message.term()
    message.in_progress()
    assert message.ack_sync(now=pulling.now, timeout=1).result() is None
    pulling.consumer.acker.start_working(message, pulling.now)
    assert pulling.consumer.acker.ack_many([message]) == 0
    pulling.advance(60)
    assert pulling.acks() == []


def test_a_reason_that_the_server_would_not_take_is_refused() -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    with pytest.raises(MaxPayloadError):
        message.term("x" * (pulling.session.max_payload + 1))
    assert not message.settled
    message.term("x" * 1_000)
    assert pulling.acks() == [(b"1", b"+TERM " + b"x" * 1_000)]


@requirement(213)
def test_progress_is_not_terminal() -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    message.in_progress()
    message.in_progress()
    message.ack()
    assert [payload for _, payload in pulling.acks()] == [b"+WPI", b"+WPI", b"+ACK"]


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 1e10, "1", "", True, False, [], timedelta(-1)])
def test_delays_that_are_none(delay: Any) -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    with pytest.raises(LocalProtocolError, match="delay must be"):
        message.nak(delay)
    assert not message.settled
    assert pulling.acks() == []


@promise("Queue one small ``payload`` to each of these subjects")
def test_many_at_once_in_one_write() -> None:
    pulling = Pulling()
    messages = pulling.some(5)
    messages[1].ack()
    pulling.acks()
    assert pulling.consumer.acker.ack_many(iter(messages)) == 4
    assert len(pulling.session._write_buffer._frames) == 1
    assert pulling.acks() == [(b"1", b"+ACK"), (b"3", b"+ACK"), (b"4", b"+ACK"), (b"5", b"+ACK")]
    assert pulling.consumer.acker.ack_many(messages) == 0
    assert pulling.acks() == []


@requirement(216, 218)
@promise("Queue one small ``payload`` to each of these subjects")
def test_what_cannot_be_sent_is_not_settled() -> None:
    pulling = Pulling()
    messages = pulling.some(2)
    pulling.session._write_buffer.size, pending = 10**9, pulling.session._write_buffer.size
    for verb in (messages[0].ack, lambda: pulling.consumer.acker.ack_many(messages)):
        with pytest.raises(OutboundBufferLimitError):
            verb()
    pulling.session._write_buffer.size = pending
    assert pulling.consumer.acker.ack_many(messages) == 2
    pulling.session.close(pulling.now)


@requirement(218)
def test_after_the_end() -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    pulling.session.close(pulling.now)
    with pytest.raises(ConnectionClosedError):
        message.ack()
    with pytest.raises(ConnectionClosedError):
        message.ack_sync(now=pulling.now, timeout=1)


@requirement(219)
@promise("returns when the server has it")
def test_an_acknowledgement_that_is_answered() -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    ticket = message.ack_sync(now=pulling.now, timeout=1)
    (request,) = pulling.published()
    assert (request.payload, request.subject) == (b"+ACK", message.reply.encode())
    assert not message.settled
    assert request.reply is not None
    pulling.deliver(request.reply)
    assert ticket.result() is None
    assert message.settled


@promise("`ack_sync` is sent again in an election until its time is over.")
def test_an_acknowledgement_that_nobody_takes_is_sent_again() -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    ticket = message.ack_sync(now=pulling.now, timeout=5)
    for _ in range(20):
        (request,) = pulling.published()
        assert request.reply is not None
        pulling.deliver(request.reply, header=b"NATS/1.0 503\r\n\r\n")
        assert not ticket.done
        pulling.advance(0.1)
    (request,) = pulling.published()
    assert request.reply is not None
    pulling.deliver(request.reply)
    assert ticket.result() is None
    assert message.settled


@requirement(216)
@pytest.mark.parametrize("problem", ["timeout", "nobody", "lost"])
def test_an_acknowledgement_that_is_not_answered_may_be_tried_again(problem: str) -> None:
    pulling = Pulling()
    (message,) = pulling.some()
    ticket = message.ack_sync(now=pulling.now, timeout=1)
    (request,) = pulling.published()
    if problem == "timeout":
        pulling.advance(1)
        assert isinstance(ticket.error, TimeoutError)
    elif problem == "nobody":
        while not ticket.done:
            assert (request.payload, request.subject) == (b"+ACK", message.reply.encode())
            assert request.reply is not None
            pulling.deliver(request.reply, header=b"NATS/1.0 503\r\n\r\n")
            pulling.advance(0.1)
            request = next(iter(pulling.published()), request)
        assert pulling.now > 100.8
        assert isinstance(ticket.error, NoRespondersError)
        assert "no leader now, or does not exist any more" in str(ticket.error)
    else:
        pulling.lose()
        assert isinstance(ticket.error, ConnectionLostError)
        pulling.advance(1)
        pulling.connect()
        pulling.published()
    assert not message.settled
    message.ack()
    assert pulling.acks() == [(b"1", b"+ACK")]


@requirement(217)
@promise("The first of ``ack``, ``nak`` and ``term`` settles it: later acknowledgements are ignored silently.")
def test_under_the_policy_none_nothing_is_sent() -> None:
    pulling = Pulling(ack_policy="none")
    (message,) = pulling.some()
    assert message.settled
    message.ack()
    message.nak(1)
    message.term("x")
    message.in_progress()
    pulling.consumer.acker.ack_many([message])
    message.ack_sync(now=pulling.now, timeout=1).result()
    assert pulling.published() == []


# -- work in progress --------------------------------------------------------------------------------------------------


@promise("during this block it is not delivered again")
@known_fault("long work is delivered again")
@pytest.mark.parametrize(
    ("config", "interval"),
    [
        ({}, 10.0),
        ({"ack_wait": 3}, 1.0),
        ({"ack_wait": 9, "backoff": [6]}, 2.0),
        ({"ack_wait": 3, "backoff": [6]}, 1.0),
    ],
)
def test_work_is_reported_at_a_third_of_the_ack_wait(config: dict[str, Any], interval: float) -> None:
    pulling = Pulling(**config)
    (message,) = pulling.some()
    acker = pulling.consumer.acker
    acker.start_working(message, pulling.now)
    assert [payload for _, payload in pulling.acks()] == [b"+WPI"]
    assert acker.deadline() == pulling.now + interval


@requirement(220)
@known_fault("long work is delivered again")
def test_work_is_reported_until_it_stops() -> None:
    pulling = Pulling(ack_wait=3)
    first, second = pulling.some(2)
    acker = pulling.consumer.acker
    acker.start_working(first, pulling.now)
    acker.start_working(second, pulling.now)
    pulling.advance(2)
    assert len(pulling.acks()) == 6
    acker.stop_working(first)
    pulling.advance(1)
    assert pulling.acks() == [(b"2", b"+WPI")]
    second.ack()
    pulling.acks()
    pulling.advance(60)
    assert pulling.acks() == []
    assert acker.deadline() is None


@promise("during this block it is not delivered again")
def test_work_is_reported_when_there_is_room_again() -> None:
    pulling = Pulling(ack_wait=3)
    (message,) = pulling.some()
    acker = pulling.consumer.acker
    acker.start_working(message, pulling.now)
    pulling.acks()
    pulling.session._write_buffer.size, pending = 10**9, pulling.session._write_buffer.size
    acker.handle_timeout(pulling.now + 1)
    pulling.session._write_buffer.size = pending
    acker.handle_timeout(pulling.now + 1.02)
    assert [payload for _, payload in pulling.acks()] == [b"+WPI"]
    pulling.session.close(pulling.now)
    acker.handle_timeout(pulling.now + 3)
    assert acker.deadline() is None


# -- what a message says -----------------------------------------------------------------------------------------------


def test_a_message() -> None:
    pulling = Pulling(v2=True)
    (message,) = pulling.some(header=b"NATS/1.0\r\nA: b\r\n\r\n")
    assert (message.subject, message.data, message.headers["A"]) == ("s.a", b"x", "b")
    assert message.metadata == JSAck(None, "abcdefgh", "S", "C", 1, Sequences(1, 1), 1_000, 0)
    assert repr(message) == "<JSMsg 's.a' 1 bytes>"
    (message,) = pulling.some()
    assert len(message.headers) == 0
    with pytest.raises(NotJSONError, match="^the message on 's.a' is no JSON: Expecting value: line 1 column 1"):
        message.json()


@requirement(206, 210)
@known_fault("metadata is made up for what is no message of a stream")
@pytest.mark.parametrize("reply", [b"$JS.ACK.S.C.1.1.1.1", b"$JS.ACK.a.b.S.C.1.1.1.1", b"$JS.ACK.S.C.x.1.1.1.1"])
def test_a_reply_that_says_nothing(reply: bytes) -> None:
    pulling = Pulling()
    (message,) = pulling.some(reply=reply)
    with pytest.raises(NotJSMessageError):
        _ = message.metadata
    message.ack()  # as it came, unchanged
    assert [pub.subject for pub in pulling.published()] == [reply]


def test_a_header_block_that_is_none() -> None:
    pulling = Pulling()
    (message,) = pulling.some(header=b"NATS/1.0\r\nnonsense\r\n\r\n")
    with pytest.raises(RemoteProtocolError):
        _ = message.headers


class Embedded:
    """The outbox of another client: it has only what every outbox has."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        self.sent.append((subject, payload))

    def flush(self) -> None:
        self.sent.append(("", b""))


def test_in_another_client() -> None:
    outbox: Any = Embedded()
    acker = Acker(outbox, Pulling().session.requests, JSMsg)
    reply = b"$JS.ACK.S.C.1.1.1.1.1"
    acker.receive(Msg(b"a", b"1", None, None, b""), 0.0)
    messages = [acker.message(Msg(b"a", b"1", reply, None, b"")) for _ in range(2)]
    assert acker.ack_many(messages) == 2
    assert outbox.sent == [*[(reply.decode(), b"+ACK")] * 2, ("", b"")]  # together, and at once
