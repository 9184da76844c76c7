"""Messages that come at once are received as those that come one by one: pulled, pushed, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.push import PushConsumer
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.outbox import Conversation
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Msg
from tests.client.ordering import Reading
from tests.client.pulling import Pulling
from tests.client.pushing import ack_subject, heartbeat
from tests.client.test_push import FLOW_CONTROL, Subscribed
from tests.harness import Harness
from tests.marks import promise

STATUSES = (heartbeat(3), b"NATS/1.0 409 Leadership Change\r\n\r\n", b"NATS/1.0 408 x\r\n\r\n")
steps = st.tuples(
    st.sampled_from([1, 1, 1, 1, 1, 1, 1, 1, 0, 2]),  # of the consumer sequence
    st.sampled_from([1, 1, 1, 1, 1, 1, 3, 0, -1]),  # of the stream sequence
    st.sampled_from([1, 1, 1, 1, 1, 2]),  # delivered
    st.sampled_from([None, None, None, b"NATS/1.0\r\nA: b\r\n\r\n"]),
    st.sampled_from([b"", b"x", b"xyz", b"\r\n"]),
)
lots = st.lists(st.lists(steps, max_size=12) | st.sampled_from([*STATUSES, FLOW_CONTROL]), max_size=5)


def frames_of(lots: list[Any], consumer: str, sid: bytes, deliver: bytes) -> list[bytes]:
    """What a server writes."""
    frames: list[bytes] = []
    consumer_seq = stream_seq = 0
    for lot in lots:
        if isinstance(lot, bytes):
            reply = b"$JS.FC.%d" % len(frames) if lot == FLOW_CONTROL else None
            frames.append(encode_msg(deliver, sid, reply, lot, b""))
            continue
        for number, stream, delivered, header, payload in lot:
            consumer_seq, stream_seq = consumer_seq + number, max(stream_seq + stream, 1)
            reply = ack_subject(consumer, consumer_seq, stream_seq, pending=2, delivered=delivered)
            frames.append(encode_msg(b"s.a", sid, reply, header, payload))
    return frames


def state_of(h: Harness, core: PullConsumer[JSMsg] | PushConsumer[JSMsg] | OrderedConsumer[JSMsg]) -> Any:
    """All that a user, or the server, can see of it."""
    held = core.pending_msgs, core.pending_bytes, core.dropped
    taken = [
        [(each.data, each.reply, each._raw[2], each.settled) for each in core.pop_many(most, h.now)] for most in (3, 99)
    ]
    return held, taken, repr(core.error), core.deadline(), h.published(), [repr(event) for event in h.events()]


def both_ways(data: st.DataObject, begin: Callable[[], tuple[Harness, Any, list[bytes]]]) -> None:
    """Feed the frames one by one, and all at once but for where they are cut: the same must come of it."""
    outcomes = []
    for at_once in (False, True):
        h, core, frames = begin()
        readable = core.readable()
        if at_once:
            sent = b"".join(frames)
            place = data.draw(st.integers(0, len(sent)))
            frames = [sent[:place], sent[place:]]
        for piece in frames:
            h.feed(piece)
        outcomes.append((readable.done, state_of(h, core)))
    assert outcomes[0] == outcomes[1]


limits = st.sampled_from([{}, {}, {"pending_msgs_limit": 7}, {"pending_bytes_limit": 9}])


@given(lots, limits, st.booleans(), st.data())
def test_in_order(lots: list[Any], limits: dict[str, Any], restating: bool, data: st.DataObject) -> None:
    def begin() -> tuple[Harness, Any, list[bytes]]:
        policy: Any = "last_per_subject" if restating else None
        reading = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy=policy), **limits)
        deliver = reading.config["deliver_subject"]
        frames = frames_of(lots, reading.config["name"], reading.h.sid(deliver), deliver.encode())
        reading.h.published()
        return reading.h, reading.ordered, frames

    both_ways(data, begin)


@given(lots, limits, st.sampled_from([{}, {"found": True}, {"queue": "Q"}, {"raw": True}]), st.data())
def test_pushed(lots: list[Any], limits: dict[str, Any], kind: dict[str, Any], data: st.DataObject) -> None:
    def begin() -> tuple[Harness, Any, list[bytes]]:
        s = Subscribed(**kind, **limits)
        return s.h, s.push, frames_of(lots, "D", s.h.sid(s.deliver), s.deliver.encode())

    both_ways(data, begin)


@given(
    lots, st.lists(st.integers(1, 9), max_size=3), st.sampled_from([None, None, 200]), st.booleans(), st.booleans(),
    st.data(),
)  # fmt: skip
def test_pulled(
    lots: list[Any], fetches: list[int], size: int | None, streams: bool, grouped: bool, data: st.DataObject
) -> None:
    begun: list[Any] = []

    def begin() -> tuple[Harness, Any, list[bytes]]:
        group: dict[str, Any] = {"priority_groups": ["g"], "priority_policy": "pinned_client"}
        pulling = Pulling(priority=Priority("g"), **group) if grouped else Pulling()
        consumer = pulling.consumer
        begun.append([] if streams else [pulling.fetch(batch, max_bytes=size) for batch in fetches])
        if streams:
            consumer.start(now=pulling.now, max_msgs=None if size else 8, max_bytes=size)
        replies = [request["reply"] for request in pulling.requests()]
        frames = frames_of(lots, "C", str(consumer.sid).encode(), replies[0] if replies else b"gone")
        return pulling, consumer, frames

    both_ways(data, begin)
    outcomes = [[(fetch.done.done, fetch.raws, fetch.room) for fetch in fetches] for fetches in begun]
    assert outcomes[0] == outcomes[1]


class Watched(Conversation):
    """A conversation that takes as many at once as ``at_once`` says each time, and leaves when it has had ``most``."""

    def __init__(self, h: Harness, at_once: list[int], most: int) -> None:
        self.h = h
        self.at_once = [*at_once]
        self.most = most
        self.got: list[bytes] = []
        self.sid = h.session.subscribe("s.>", self)

    def receive_many(self, raws: Any, size: int, now: float) -> int:
        assert size == sum(len(raw[2] or b"") + len(raw[3]) for raw in raws)
        count = self.at_once.pop(0)
        self.got += [raw[3] for raw in raws[:count]]
        return count

    def receive(self, message: Msg, now: float) -> None:
        self.got.append(message.payload)
        if len(self.got) == self.most:
            self.h.session.unsubscribe(self.sid)


@pytest.mark.parametrize(("at_once", "most"), [([0, 0], 5), ([0, 2], 5), ([0, 2], 1), ([2], 5)])
def test_what_a_conversation_leaves_comes_one_by_one_until_it_unsubscribes(at_once: list[int], most: int) -> None:
    h = Harness()
    watched = Watched(h, at_once, most)
    payloads = [b"%d" % number for number in range(9)]
    sent = b"".join(
        encode_msg(b"s.a", b"%d" % watched.sid, ack_subject("C", number), None, payload)
        for number, payload in enumerate(payloads)
    )
    h.feed(sent)
    assert watched.got == payloads[:most]
    h.feed(sent)  # nobody listens any more
    assert watched.got == payloads[:most]


@promise("all that is in order is taken at once")
@pytest.mark.parametrize("kind", ["pull", "push", "ordered"])
def test_what_is_in_order_is_taken_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one: list[Msg] = []
    begin: dict[str, Callable[[], tuple[Harness, Any, bytes, str]]] = {"pull": pulled, "push": pushed, "ordered": read}
    h, core, sid, consumer = begin[kind]()
    receive = type(core).receive

    def watched(core: Any, message: Msg, now: float) -> None:
        one_by_one.append(message)
        receive(core, message, now)

    monkeypatch.setattr(type(core), "receive", watched)
    frames = frames_of([[(1, 1, 1, None, b"x")] * 100], consumer, sid, b"")
    for start in range(0, 100, 20):
        h.feed(b"".join(frames[start : start + 20]))
    assert core.pending_msgs == 100
    assert len(one_by_one) == (0 if kind == "pull" else 1)  # it is looked at, to know what follows


def pulled() -> tuple[Harness, Any, bytes, str]:
    pulling = Pulling()
    pulling.consumer.start(now=pulling.now, max_msgs=100)
    return pulling, pulling.consumer, str(pulling.consumer.sid).encode(), "C"


def pushed() -> tuple[Harness, Any, bytes, str]:
    s = Subscribed()
    return s.h, s.push, s.h.sid(s.deliver), "D"


def read() -> tuple[Harness, Any, bytes, str]:
    reading = Reading()
    return reading.h, reading.ordered, reading.h.sid(reading.config["deliver_subject"]), reading.config["name"]


def test_what_was_not_asked_for_is_not_taken_at_once() -> None:
    pulling = Pulling()
    pulling.consumer.start(now=pulling.now, max_msgs=4)
    sid = str(pulling.consumer.sid).encode()
    pulling.feed(b"".join(encode_msg(b"s.a", sid, pulling.reply(), None, bytes(size)) for size in range(9)))
    assert (pulling.consumer.pending_msgs, pulling.consumer.pending_bytes) == (9, sum(range(9)))
    assert len(pulling.popped(4)) == 4
    assert pulling.consumer.pending_bytes == sum(range(4, 9))
