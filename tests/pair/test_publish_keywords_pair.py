"""The keywords of a publish between client and server role, on each path of the core, in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jsproto.api_errors import (
    MessageIncrDisabledError,
    MessageSchedulesDisabledError,
    MessageTTLDisabledError,
    StreamRollupFailedError,
    StreamWrongLastSequenceError,
)
from jsproto.errors import BatchMessageError, LocalProtocolError, NoStreamResponseError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.counters import parse_counter, parse_value
from jsproto.grammar.headers import Headers
from jsproto.grammar.publish_headers import publish_headers
from jsproto.testing.pair import Pair
from tests.marks import promise

Send = Callable[..., PubAck]


def connected(**config: Any) -> Pair:
    pair = Pair()
    pair.connect()
    features = {"storage": "memory", "allow_atomic": True, "allow_batched": True, "allow_direct": True, **config}
    pair.run_until(pair.js.create_stream(StreamConfig.from_options("S", subjects=["s.>"], **features), now=pair.now))
    return pair


def plain(pair: Pair, subject: str, payload: bytes = b"", **options: Any) -> PubAck:
    return pair.run_until(pair.js.publish(subject, payload, now=pair.now, **options))


def pipelined(pair: Pair, subject: str, payload: bytes = b"", **options: Any) -> PubAck:
    headers = publish_headers(subject, payload, pair.client.server, **options)
    return pair.run_until(pair.js.async_publisher().publish(subject, payload, headers, now=pair.now))


def fast(pair: Pair, subject: str, payload: bytes = b"", **options: Any) -> PubAck:
    batch = pair.js.fast_publisher()
    headers = publish_headers(subject, payload, pair.client.server, **options)
    return pair.run_until(batch.commit(pair.now, subject, payload, headers))


def atomic(pair: Pair, subject: str, payload: bytes = b"", **options: Any) -> PubAck:
    batch = pair.js.atomic_batch()
    headers = publish_headers(subject, payload, pair.client.server, **options)
    return pair.run_until(batch.commit(pair.now, subject, payload, headers))


@pytest.fixture(params=[plain, pipelined, fast, atomic])
def send(request: pytest.FixtureRequest) -> Send:
    """One way to publish a message."""
    found: Send = request.param
    return found


def stored(pair: Pair) -> list[tuple[bytes, bytes]]:
    return [(message.subject, message.payload) for message in pair.server.stream("S")]


@promise("the message lives so long")
def test_what_a_stream_does_with_each(send: Send) -> None:
    pair = connected(allow_msg_ttl=True, allow_rollup_hdrs=True)
    plain(pair, "s.a", b"1", msg_id="1")
    plain(pair, "s.b", b"2")
    send(
        pair, "s.a", b"3", expected_stream="S", expected_last_seq=2, expected_last_subject_seq=2,
        expected_last_subject_seq_subject="s.b", rollup="sub", ttl=30, msg_id="3",
    )  # fmt: skip
    assert stored(pair) == [(b"s.b", b"2"), (b"s.a", b"3")]
    pair.advance(30.0)
    assert stored(pair) == [(b"s.b", b"2")]
    with pytest.raises(StreamWrongLastSequenceError):
        send(pair, "s.a", expected_last_seq=9)
    send(pair, "s.a", b"4", rollup="all", ttl="never")
    assert stored(pair) == [(b"s.a", b"4")]


@promise("Impossible values raise `LocalProtocolError`")
@pytest.mark.parametrize(
    ("options", "error", "lacks"),
    [
        ({"ttl": 5}, MessageTTLDisabledError, "allow_msg_ttl=True"),
        ({"rollup": "sub"}, StreamRollupFailedError, "allow_rollup_hdrs=True"),
        ({"incr": 5}, MessageIncrDisabledError, "allow_msg_counter=True"),
        ({"at": 0, "target": "s.t"}, MessageSchedulesDisabledError, "allow_msg_schedules=True"),
    ],
)
def test_what_a_stream_does_not_allow(send: Send, options: Any, error: type[Exception], lacks: str) -> None:
    pair = connected()
    with pytest.raises((error, BatchMessageError)) as caught:
        send(pair, "s.a", **options)
    found = caught.value if isinstance(caught.value, error) else caught.value.__cause__
    assert isinstance(found, error)
    assert lacks in str(found)
    assert stored(pair) == []


@promise("the same again and again")
def test_schedules(send: Send) -> None:
    pair = connected(allow_msg_schedules=True, allow_msg_ttl=True)
    plain(pair, "s.s", b"sample")
    send(pair, "s.later.1", b"once", at=round(pair.now * 1e9) + 5_000_000_000, target="s.t", schedule_ttl=60)
    send(pair, "s.later.2", b"else", every=3, target="s.u", source="s.s", schedule_rollup="sub")
    send(pair, "s.later.3", b"each", cron="*/4 * * * * *", target="s.v", time_zone="UTC")
    pair.advance(9.0)
    made = [(subject, payload) for subject, payload in stored(pair) if subject in (b"s.t", b"s.u", b"s.v")]
    assert sorted(set(made)) == [(b"s.t", b"once"), (b"s.u", b"sample"), (b"s.v", b"each")]
    assert made.count((b"s.u", b"sample")) == 1  # each replaces the one before it


def test_counters(send: Send) -> None:
    pair = connected(allow_msg_counter=True)
    first, second = send(pair, "s.c", incr=5, msg_id="1"), send(pair, "s.c", incr=-12)
    if send in (plain, pipelined):
        assert (first.value, second.value) == ("5", "-7")
    assert [parse_value(payload) for _, payload in stored(pair)] == [5, -7]
    found = parse_counter(pair.run_until(pair.js.get_last_msg("S", "s.c", now=pair.now)))
    assert (found.subject, found.value, found.increment, found.sources) == ("s.c", -7, -12, {})


@promise("In an atomic batch there is no `expected_last_msg_id`")
def test_an_atomic_batch_cannot_look_at_message_ids() -> None:
    pair = connected()
    plain(pair, "s.a", msg_id="1")
    for number, send in enumerate((plain, pipelined, fast), 1):
        send(pair, "s.a", expected_last_msg_id=f"{number}", msg_id=f"{number + 1}")
    with pytest.raises(LocalProtocolError, match="Nats-Expected-Last-Msg-Id is not supported in an atomic batch"):
        atomic(pair, "s.a", expected_last_msg_id="1")


def test_bad_values_are_refused_before_anything_is_written(send: Send) -> None:
    pair = connected()
    with pytest.raises(LocalProtocolError):
        send(pair, "s.a", ttl=0.5)
    assert stored(pair) == []


@promise("the message is stored once within `duplicate_window`")
def test_headers_made_alone_go_with_many_messages() -> None:
    pair = connected()
    messages: list[Any] = [("s.a", b"x", publish_headers("s.a", b"x", msg_id=f"{number}")) for number in (1, 2, 1)]
    batch = pair.js.fast_publisher(gap="ok")
    while batch.sequence < len(messages):
        if not batch.publish_many(messages[batch.sequence :], pair.now):
            pair.run_until(batch.ready())
    pair.run_until(batch.commit(pair.now))
    assert [Headers.parse(each.header or b"")["Nats-Msg-Id"] for each in pair.server.stream("S")] == ["1", "2"]


@promise("Nothing is stored twice by it: the server says that nobody had it.")
def test_a_message_that_comes_before_its_stream() -> None:
    pair = Pair()
    pair.connect()
    start = pair.now
    ticket = pair.js.publish("s.a", b"x", now=pair.now)
    pair.run_until(pair.js.create_stream(StreamConfig("S", subjects=["s.>"], storage="memory"), now=pair.now))
    assert pair.run_until(ticket).seq == 1
    assert 0.25 <= pair.now - start < 0.5
    with pytest.raises(NoStreamResponseError):
        pair.run_until(pair.js.publish("t.a", b"x", now=pair.now))
