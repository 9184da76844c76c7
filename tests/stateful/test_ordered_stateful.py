"""An ordered consumer against a model of a server, over a network that loses, swaps and delays, with meddlers.

Whatever happens: what the application takes is the stream, every message once and in order, and as soon as the faults
stop all that the stream has arrives. A stream that is made again is read from its first message. One that comes back
shorter, and gives its sequences out again, is read on from what is new. What is dropped between two consumers is told.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.events import MessagesMissed, OrderedConsumerRecreated, StreamRolledBack
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.times import format_timestamp, parse_timestamp
from jsproto.wire.frames import Pub
from tests.client.pushing import CREATED, ack_subject, heartbeat, info
from tests.effort import examples
from tests.marks import promise, requirement
from tests.stateful.pushed import Pushed

HEARTBEAT = 1.0
WINDOW = 6  # deliveries after which the model wants flow control to be answered


class Stored(NamedTuple):
    """A message: its sequence, and its number among all that ever were stored, which is in its payload."""

    seq: int
    number: int

    @property
    def time(self) -> int:
        return CREATED + 1_000 * self.number


class Dropped(NamedTuple):
    """The sequence of a message that was dropped, and how often it was told until then that the stream came back."""

    seq: int
    told_back: int


class Model:
    """One consumer of the model server."""

    def __init__(self, name: str, config: dict[str, Any], stream: list[Stored]) -> None:
        self.name = name
        self.deliver = config["deliver_subject"].encode()
        since = parse_timestamp(config.get("opt_start_time", "1970-01-01T00:00:00Z"))
        first = next((each.seq for each in stream if each.time >= since), stream[-1].seq + 1 if stream else 1)
        self.next_seq = self.start = config.get("opt_start_seq", first if since else 1)
        self.consumer_seq = 0
        self.stalled: str | None = None
        self.sent_since = 0


@requirement(230)
@promise("every message once and in order, as long as the stream holds it. What limits took is told")
@promise("every message once and in order, as long as the stream holds it until its turn")
@promise("What limits or a purge took before its turn is the event `MessagesMissed`")
@promise("is read on from the first message that is newer than the last one read (event `StreamRolledBack`)")
@promise("ordered: every message once and in order")
@promise("Read what ``wanted`` names once and in order.")
class OrderedReading(Pushed):
    """The machine under test, its session, and the server."""

    @initialize(
        limit=st.integers(2, 12),
        v2=st.booleans(),
        stored=st.integers(0, 10),
        gaps=st.booleans(),
        again=st.lists(st.sampled_from(["asked", "known", "created"]), unique=True),
    )
    def start(self, limit: int, v2: bool, stored: int, gaps: bool, again: list[str]) -> None:
        """``again``: when the stream is made again, before the first consumer is followed."""
        self.begin()
        self.v2 = v2
        self.step = 2 if gaps else 1  # a filter leaves holes in the stream's numbers
        self.stream: list[Stored] = []
        self.stored = self.first_seq = 0
        self.age = 0  # how often the stream was made again
        self.last_seq = 0
        self.times: dict[int, int] = {}  # of the last message that had a sequence
        self.dropped: dict[int, Dropped] = {}  # while no consumer was there, by number
        self.is_stale = False  # the next answer about the stream is an old one
        self.was_stale = False
        self.consumers: dict[str, Model] = {}
        self.refusing = 0
        self.late: list[Pub] = []  # questions for the stream, which servers answer after other requests
        for _ in range(stored):
            self.store()
        session = self.h.session
        self.reader = OrderedConsumer(
            session, Acker(session, session.requests, JSMsg, wants_acks=False), api=self.h.js.api, inbox="_INBOX.o",
            config=ConsumerConfig(), timeout=2.0, now=self.h.now, stream="S", subject="S", idle_heartbeat=HEARTBEAT,
            pending_msgs_limit=limit,
        )  # fmt: skip
        self.serve()
        for moment in ("asked", "known", "created"):
            if moment in again:
                self.make_the_stream_again(stored)
            if self.late:
                self.tell_identity()
            self.arrive(100)
        while self.late:  # one more consumer, of the next stream
            self.tell_identity()
            self.arrive(100)
        assert self.reader.ready().done

    # -- the server ----------------------------------------------------------------------------------------------------

    def store(self) -> None:
        self.stored += 1
        self.last_seq = self.last_seq + self.step if self.last_seq else 1
        self.stream.append(Stored(self.last_seq, self.stored))
        self.times[self.last_seq] = self.stream[-1].time

    def answer(self, pub: Pub) -> None:
        subject = pub.subject.decode()
        if subject.startswith("$JS.FC."):
            for consumer in self.consumers.values():
                if consumer.stalled == subject:
                    consumer.stalled, consumer.sent_since = None, 0
            return
        if subject == "$JS.API.STREAM.INFO.S":
            self.late.append(pub)
            return
        if subject == "$JS.API.STREAM.MSG.GET.S":
            self.tell_message(pub)
            return
        verb, _, name = subject.removeprefix("$JS.API.CONSUMER.").partition(".S.")
        if verb == "DELETE":
            self.consumers.pop(name, None)
            return
        assert verb == "CREATE", subject
        config = json.loads(pub.payload)["config"]
        body: dict[str, Any] = {"error": {"code": 503, "err_code": 10008, "description": "not now"}}
        if self.refusing:
            self.refusing -= 1
        else:
            consumer = self.consumers[name] = Model(name, config, self.stream)
            consumer.next_seq = consumer.start = max(consumer.start, self.first_seq)
            at = {"consumer_seq": 0, "stream_seq": consumer.next_seq - 1}
            body = info(name, config, delivered=at)
        self.reply(pub, body)

    def tell_identity(self) -> None:
        pub = self.late.pop(0)
        self.was_stale, self.is_stale = self.is_stale, False
        last_seq = max(self.last_seq - 3, 0) if self.was_stale else self.last_seq
        last_ts = format_timestamp(self.times.get(last_seq, CREATED))
        state = {"first_seq": self.first_seq, "last_seq": last_seq, "last_ts": last_ts}
        body: dict[str, Any] = {"config": {"name": "S"}, "created": self.created, "state": state}
        if self.refusing:
            self.refusing -= 1
            body = {"error": {"code": 503, "err_code": 10008, "description": "not now"}}
        self.reply(pub, body)

    @property
    def created(self) -> str:
        return f"2026-11-20T21:06:{self.age % 60:02}.{self.age}Z"

    def tell_message(self, pub: Pub) -> None:
        wanted = json.loads(pub.payload)
        since = parse_timestamp(wanted.get("start_time", "1970-01-01T00:00:00Z"))
        found = [each for each in self.stream if each.seq == wanted.get("seq", each.seq) and each.time >= since]
        body: dict[str, Any] = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        if found:
            body = {"message": {"subject": "s.a", "seq": found[0].seq, "time": format_timestamp(found[0].time)}}
        self.reply(pub, body)

    def push(self, consumer: Model) -> bool:
        """Deliver the next message, if there is one and the window is open."""
        waiting = [each for each in self.stream if each.seq >= consumer.next_seq]
        if not waiting or consumer.stalled is not None or consumer.deliver not in self.wires:
            return False
        each = waiting[0]
        consumer.next_seq = each.seq + 1
        consumer.consumer_seq += 1
        pending = len(waiting) - 1
        reply = ack_subject(consumer.name, consumer.consumer_seq, each.seq, pending=pending, v2=self.v2, time=each.time)
        self.send(b"s.a", reply, b"%d" % each.number, via=consumer.deliver)
        consumer.sent_since += 1
        if consumer.sent_since == WINDOW:
            consumer.stalled = f"$JS.FC.S.{consumer.name}.{consumer.consumer_seq}"
            status = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
            self.send(consumer.deliver, consumer.stalled.encode(), b"", status, via=consumer.deliver)
        return True

    def beat(self, consumer: Model) -> None:
        header = heartbeat(consumer.consumer_seq, consumer.next_seq - 1, consumer.stalled)
        self.send(consumer.deliver, None, b"", header, via=consumer.deliver)

    # -- what happens --------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.store()

    @rule(count=st.integers(1, 8))
    def deliver(self, count: int) -> None:
        for consumer in list(self.consumers.values()):
            for _ in range(count):
                self.push(consumer)

    @rule()
    def heartbeats(self) -> None:
        for consumer in self.consumers.values():
            self.beat(consumer)

    @precondition(lambda self: self.late)
    @rule()
    def answer_late(self) -> None:
        self.tell_identity()

    @rule(seconds=st.floats(0.0, 4.0))
    def time_passes(self, seconds: float) -> None:
        self.h.advance(seconds)
        self.reconnect()
        self.serve()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def lose_one(self, data: st.DataObject) -> None:
        del self.under_way[data.draw(st.integers(0, len(self.under_way) - 1))]

    @precondition(lambda self: len(self.under_way) > 1)
    @rule(data=st.data())
    def swap(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.under_way) - 2))
        self.under_way[at], self.under_way[at + 1] = self.under_way[at + 1], self.under_way[at]

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def double(self, data: st.DataObject) -> None:
        self.under_way.append(self.under_way[data.draw(st.integers(0, len(self.under_way) - 1))])

    @rule(data=st.data())
    def meddle(self, data: st.DataObject) -> None:
        """Somebody deletes a consumer, or sets it back to its start (forwards would be a loss that nobody can see)."""
        if self.consumers:
            name = data.draw(st.sampled_from(sorted(self.consumers)))
            if data.draw(st.booleans()):
                del self.consumers[name]
            else:
                self.consumers[name].consumer_seq = 0
                self.consumers[name].next_seq = self.consumers[name].start

    @rule(count=st.integers(0, 8))
    def make_the_stream_again(self, count: int) -> None:
        """It is deleted, and so are its consumers, who say nothing; it has messages again before anybody knows."""
        self.consumers.clear()
        self.age += 1
        self.stream = []
        self.first_seq = self.last_seq = 0
        self.dropped.clear()
        for _ in range(count):
            self.store()

    @rule(lost=st.integers(1, 8), count=st.integers(0, 12))
    def come_back_shorter(self, lost: int, count: int) -> None:
        """A restored volume: consumers are gone, and other messages get the last sequences."""
        self.consumers.clear()
        del self.stream[len(self.stream) - lost :]
        self.last_seq = self.stream[-1].seq if self.stream else max(self.first_seq - 1, 0)
        for _ in range(count):
            self.store()

    @rule(count=st.integers(1, 6))
    def drop(self, count: int) -> None:
        """Limits drop the oldest messages, while no consumer is there."""
        self.consumers.clear()
        dropped, self.stream = self.stream[:count], self.stream[count:]
        if dropped and self.reader._identity == str(parse_timestamp(self.created)):  # else it begins where it begins
            for each in dropped:
                if each.seq > self.reader.last_seq:  # others had come, or nobody can know that there were others
                    self.dropped[each.number] = Dropped(each.seq, self.told_back())
        self.first_seq = self.stream[0].seq if self.stream else self.last_seq + 1

    @precondition(lambda self: not self.was_stale)
    @rule()
    def an_old_leader_answers(self) -> None:
        self.is_stale = True

    @rule(times=st.integers(1, 3))
    def refuse(self, times: int) -> None:
        """The API is not available for so many requests."""
        self.refusing = times

    @rule()
    def lose_the_link(self) -> None:
        self.lose()

    def reconnect(self) -> None:
        if not self.linked:
            for _ in range(100):
                if self.h.session.connect_to is not None:
                    break
                self.h.advance(0.1)
            self.h.connect()
            self.linked = True
            self.serve()

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def what_was_taken_is_in_order(self) -> None:
        if hasattr(self, "taken"):
            assert all(one < two for one, two in pairwise(self.taken))
            assert self.reader.error is None
            assert self.reader.pending_msgs <= self.reader._buffer._max_msgs

    def all_has_come(self) -> bool:
        return {each.number for each in self.stream} <= set(self.taken)

    def all_is_told(self) -> bool:
        missed = [event for event in self.h.all_events if isinstance(event, MessagesMissed)]
        told = {seq for event in missed for seq in range(event.first, event.last + 1)}
        back = self.told_back()
        return all(
            number in self.taken or each.seq in told or each.told_back < back for number, each in self.dropped.items()
        )

    def told_back(self) -> int:
        return sum(isinstance(event, StreamRolledBack) for event in self.h.all_events)

    def teardown(self) -> None:
        """The faults stop: everything arrives."""
        if not hasattr(self, "taken"):
            return
        self.refusing = 0
        self.reconnect()
        for _ in range(400):
            self.serve()
            self.arrive(1000)
            while self.late:
                self.tell_identity()
            self.arrive(1000)
            for consumer in list(self.consumers.values()):
                while self.push(consumer):
                    pass
                self.beat(consumer)
            self.arrive(1000)
            self.take(5)
            if self.all_has_come() and self.all_is_told():
                break
            self.h.advance(HEARTBEAT / 2)
            self.serve()
        assert self.all_has_come()
        assert self.all_is_told()
        recreated = [event for event in self.h.events() if isinstance(event, OrderedConsumerRecreated)]
        assert len(recreated) <= self.reader.recreated


TestOrderedReading = OrderedReading.TestCase
TestOrderedReading.settings = settings(max_examples=examples(150), stateful_step_count=60, deadline=None)
