"""Core subscriptions: order, bounds, ends, drain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.connection.subscription import Subscription
from jsproto.errors import ConnectionClosedError
from jsproto.events import SlowConsumer
from jsproto.wire.encoder import PONG, encode_msg
from jsproto.wire.frames import Msg, Ping, Sub, Unsub
from tests.harness import Harness


def test_messages_in_order() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a.>", queue="workers")
    assert harness.sent() == [Sub(b"a.>", b"workers", b"1")]
    readable = subscription.readable()
    assert subscription.readable() is readable
    for n in range(5):
        harness.deliver(b"a.%d" % n, b"%d" % n)
    assert readable.result() is None
    assert subscription.readable().done
    assert (subscription.pending_msgs, subscription.pending_bytes) == (5, 5)
    harness.deliver(b"a.5", b"5", b"NATS/1.0\r\nK: v\r\n\r\n")  # headers count
    assert subscription.pending_bytes == 6 + 18
    assert [message.payload for message in subscription.pop_many(2)] == [b"0", b"1"]
    assert subscription.pending_bytes == 4 + 18
    assert [message.payload for message in subscription.pop_many(9)] == [b"2", b"3", b"4", b"5"]
    assert subscription.pop_many(9) == []
    assert not subscription.readable().done


def test_a_slow_reader_loses_messages_and_is_told() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a", pending_msgs_limit=2)
    for n in range(5):
        harness.deliver(b"a", b"%d" % n)
    assert subscription.dropped == 3
    assert harness.events() == [SlowConsumer("a", 1)]
    assert [message.payload for message in subscription.pop_many(9)] == [b"0", b"1"]
    for _ in range(3):
        harness.deliver(b"a", b"x")
    assert harness.events() == [SlowConsumer("a", 4)]


@given(
    st.lists(st.sampled_from([b"", b"x", b"xyz"]), max_size=40),
    st.sampled_from([5, 100]),
    st.sampled_from([20, 1_000]),
    st.sampled_from([None, 7, 100]),
)
def test_messages_in_one_read_are_those_one_by_one(
    payloads: list[bytes], max_msgs: int, max_bytes: int, limit: int | None
) -> None:
    outcomes = []
    for at_once in (True, False):
        harness = Harness()
        subscription = Subscription(harness.session, "a", pending_msgs_limit=max_msgs, pending_bytes_limit=max_bytes)
        if limit is not None:
            subscription.unsubscribe(limit)
        readable = subscription.readable()
        texts = [encode_msg(b"a", b"1", None, None, payload) for payload in payloads]
        for text in [b"".join(texts)] if at_once else texts:
            harness.feed(text)
        state = (subscription.pending_msgs, subscription.pending_bytes, subscription.dropped, readable.done)
        messages = subscription.pop_many(100)
        ended = type(subscription.error)
        outcomes.append((state, messages, ended, harness.events(), harness.session.stats["in_msgs"]))
    assert outcomes[0] == outcomes[1]


def test_plain_messages_at_once_and_no_more_than_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a", pending_msgs_limit=60)
    row = b"".join(encode_msg(b"a", b"1", None, None, b"%d" % n) for n in range(40))
    with monkeypatch.context() as patch:
        patch.setattr(Subscription, "receive", None)  # nothing comes by itself
        harness.feed(row)
    assert (subscription.pending_msgs, subscription.pending_bytes) == (40, 10 + 60)
    harness.feed(row)  # some find no room
    assert subscription.dropped == 20
    assert harness.events() == [SlowConsumer("a", 1)]
    assert subscription.pop_many(60)[59] == Msg(b"a", b"1", None, None, b"19")
    subscription.unsubscribe(90)
    harness.feed(row)
    assert [message.payload for message in subscription.pop_many(60)] == [b"%d" % n for n in range(10)]
    assert isinstance(subscription.error, ConnectionClosedError)
    harness.feed(row)  # for nobody
    assert subscription.pending_msgs == 0
    assert harness.session.stats["in_msgs"] == 160


def test_messages_at_once_and_no_more_than_were_asked_for() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a")
    row = b"".join(encode_msg(b"a", b"1", b"r", b"NATS/1.0\r\n\r\n", b"%d" % n) for n in range(5))
    harness.feed(row)
    messages = subscription.pop_many(9)
    assert [message.payload for message in messages] == [b"0", b"1", b"2", b"3", b"4"]
    assert messages[0] == Msg(b"a", b"1", b"r", b"NATS/1.0\r\n\r\n", b"0")
    subscription.unsubscribe(8)
    for _ in range(2):
        harness.feed(row)
    assert [message.payload for message in subscription.pop_many(9)] == [b"0", b"1", b"2"]
    harness.feed(row)  # for nobody
    assert subscription.pop_many(9) == []
    assert isinstance(subscription.error, ConnectionClosedError)


@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(1, 60))
def test_the_buffer_is_bounded_by_both_limits(sizes: list[int], most: int, most_bytes: int) -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a", pending_msgs_limit=most, pending_bytes_limit=most_bytes)
    for size in sizes:
        harness.deliver(b"a", b"x" * size)
    kept = subscription.pop_many(1000)
    assert len(kept) + subscription.dropped == len(sizes)
    assert len(kept) <= most
    assert sum(len(message.payload) for message in kept) <= most_bytes


def test_unsubscribing() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a")
    readable = subscription.readable()
    harness.sent()
    subscription.unsubscribe()
    subscription.unsubscribe()
    assert harness.sent() == [Unsub(b"1", None)]
    assert isinstance(readable.error, ConnectionClosedError)
    with pytest.raises(ConnectionClosedError):
        subscription.readable().result()


def test_unsubscribing_after_so_many() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a")
    harness.deliver(b"a")
    subscription.unsubscribe(3)
    assert harness.sent(Unsub) == [Unsub(b"1", 3)]
    harness.deliver(b"a")
    assert subscription.error is None
    harness.deliver(b"a")
    assert isinstance(subscription.error, ConnectionClosedError)
    assert len(subscription.pop_many(9)) == 3
    late = Subscription(harness.session, "b")
    harness.deliver(b"b")
    late.unsubscribe(1)
    assert isinstance(late.error, ConnectionClosedError)


def test_draining_delivers_what_was_under_way() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a")
    closed = Subscription(harness.session, "b")
    closed.unsubscribe()
    harness.sent()
    ticket = harness.session.drain(harness.now)
    subs = dict(harness.subs)
    assert harness.sent() == [Unsub(b"1", None), Ping()]
    harness.subs = subs
    harness.deliver(b"a", b"under way")
    assert not ticket.done
    harness.feed(PONG)
    assert ticket.result() is None
    assert [message.payload for message in subscription.pop_many(9)] == [b"under way"]
    assert isinstance(subscription.readable().error, ConnectionClosedError)
    subscription.end_interest()
    assert harness.sent() == []


def test_closing_while_draining() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a")
    ticket = subscription.drain(harness.now)
    subscription.unsubscribe()
    harness.sent()
    harness.feed(PONG)
    assert ticket.done
    assert "closed" in str(subscription.error)


def test_draining_one_leaves_the_others() -> None:
    harness = Harness()
    one, other = Subscription(harness.session, "a"), Subscription(harness.session, "b")
    ticket = one.drain(harness.now)
    assert harness.sent(Unsub) == [Unsub(b"1", None)]
    harness.feed(PONG)
    assert ticket.done
    assert one.error is not None
    assert other.error is None
