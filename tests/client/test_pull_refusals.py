"""Pulling: what cannot be asked for or sent, and messages and statuses that nobody asked for."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.pull import PullConsumer
from jsproto.errors import LocalProtocolError, MaxPayloadError, OutboundBufferLimitError
from jsproto.events import SlowConsumer, UnexpectedMessage
from tests.client.pulling import Pulling, failed
from tests.client.test_pull import DELETED, LEADER
from tests.marks import known_fault, promise, requirement


@requirement(205)
@known_fault("metadata is made up for what is no message of a stream")
@pytest.mark.parametrize("reply", [None, b"somewhere", b"$JS.ACKS.C", b"$JS.FC.S.C.x"])
@pytest.mark.parametrize("header", [None, b"NATS/1.0\r\nA: b\r\n\r\n"])
def test_what_is_no_message_of_a_stream(reply: bytes | None, header: bytes | None) -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1)
    pulling.messages(b"x", header=header, reply=reply or b"plain")
    (event,) = pulling.events()
    assert isinstance(event, UnexpectedMessage)
    assert not fetch.done.done


@requirement(221)
def test_statuses_that_are_broken_or_for_nobody() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1)
    request = pulling.request()
    pulling.status(request, "4xx")
    pulling.status(request, "408 Request Timeout\r\nNats-Pending-Messages: many")
    assert [type(event) for event in pulling.events()] == [UnexpectedMessage] * 2
    pulling.status(b"_INBOX.other", DELETED)
    assert not fetch.done.done
    pulling.status(request, "408 Request Timeout")  # without counts
    assert pulling.taken(fetch) == []


def test_a_status_of_a_fetch_that_was_given_up() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(2)
    request = pulling.request()
    pulling.consumer.give_back(fetch, pulling.now)
    pulling.status(request, DELETED)
    assert pulling.consumer.under_way == 0


@promise("Memory is bounded whatever the peer sends.")
@promise("A subscriber that pulls gets no more than it asked for.")
@known_fault("slow consumers are counted wrongly, or not told")
def test_messages_nobody_asked_for_are_bounded() -> None:
    pulling = Pulling()
    consumer = pulling.consumer
    consumer._buffer._max_msgs = 2
    pulling.numbered(5)
    assert (consumer.pending_msgs, consumer.dropped) == (2, 3)
    (event,) = pulling.events()
    assert isinstance(event, SlowConsumer)
    assert pulling.popped() == [b"1", b"2"]
    pulling.numbered(3)
    assert (consumer.dropped, len(pulling.events())) == (4, 1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda pulling: pulling.fetch(0),
        lambda pulling: pulling.fetch(1, expires=0),
        lambda pulling: pulling.fetch(1, expires=float("inf")),
        lambda pulling: pulling.fetch(1, expires=1e10),
        lambda pulling: pulling.fetch(1, expires=float("nan")),
        lambda pulling: pulling.fetch(1, max_bytes=0),
        lambda pulling: pulling.fetch(1, heartbeat=3),
        lambda pulling: pulling.fetch(1, heartbeat=-1),
        lambda pulling: pulling.no_wait(0),
        lambda pulling: pulling.no_wait(1, patience=0),
        lambda pulling: pulling.consumer.start(now=0, max_msgs=5, max_bytes=5),
        lambda pulling: pulling.consumer.start(now=0, max_msgs=-1),
        lambda pulling: pulling.consumer.start(now=0, max_msgs=5, threshold=5),
        lambda pulling: pulling.consumer.start(now=0, max_msgs=5, threshold=-1),
        lambda pulling: pulling.consumer.start(now=0, expires=0),
        lambda pulling: pulling.consumer.start(now=0, expires=1e10),
        lambda pulling: pulling.consumer.start(now=0, expires=4, heartbeat=3),
        lambda pulling: pulling.js.pull_consumer(pulling.info_of_consumer, JSMsg, heartbeats_missed=0),
    ],
)
def test_what_cannot_be_asked_for(ask: Any) -> None:
    pulling = Pulling()
    with pytest.raises(LocalProtocolError):
        ask(pulling)
    assert pulling.requests() == []
    assert pulling.consumer.under_way == 0
    assert pulling.consumer.start(now=pulling.now) == 1  # it has not begun


def test_what_lasts_too_long_is_refused_without_a_link_too() -> None:
    pulling = Pulling()
    pulling.lose()
    with pytest.raises(LocalProtocolError, match="must expire"):
        pulling.fetch(1, expires=1e10)
    with pytest.raises(LocalProtocolError, match="must expire"):
        pulling.consumer.start(now=pulling.now, expires=1e10)
    pulling.connect()
    assert pulling.requests() == []


def test_the_limits_of_a_buffer() -> None:
    pulling = Pulling()
    acker = pulling.consumer.acker
    with pytest.raises(LocalProtocolError):
        PullConsumer(pulling.session, acker, "S", "C", api_subject="a", inbox="b", pending_msgs_limit=0)


@promise("OutboundBufferLimitError: the outbox has no room. Nothing is changed.")
def test_a_fetch_that_cannot_be_sent_changes_nothing() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(2), pulling.now)
    pulling.numbered(1)
    pulling.session._write_buffer.size, pending = 10**9, pulling.session._write_buffer.size
    with pytest.raises(OutboundBufferLimitError):
        pulling.fetch(2)
    pulling.session._write_buffer.size = pending
    assert pulling.consumer.pending_msgs == 1
    assert pulling.taken(pulling.fetch(1)) == [b"1"]


def test_a_request_without_room_is_sent_later() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1)
    pulling.status(pulling.request(), LEADER)
    pulling.session._write_buffer.size, pending = 10**9, pulling.session._write_buffer.size
    pulling.now += 0.05
    pulling.session.handle_timeout(pulling.now)
    pulling.session._write_buffer.size = pending
    assert pulling.requests() == []
    pulling.advance(0.05)
    pulling.request()
    pulling.numbered(1)
    assert pulling.taken(fetch) == [b"1"]


def test_a_request_that_is_too_large_for_the_server() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1)
    request = pulling.request()
    pulling.session._write_buffer.max_payload = 10
    pulling.status(request, LEADER)
    pulling.advance(0.05)
    assert isinstance(failed(fetch), MaxPayloadError)
    with pytest.raises(MaxPayloadError):
        pulling.fetch(1)
    pulling.consumer.start(now=pulling.now)
    with pytest.raises(MaxPayloadError):
        pulling.consumer.readable().result()
