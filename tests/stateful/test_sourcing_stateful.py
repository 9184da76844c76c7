"""The sourcing end against a model of a server, over a network that loses, swaps and doubles, with meddlers.

Whatever happens: what the sink takes is the stream, every message once and in order. No answer acknowledges what is
not stored. None acknowledges what was not delivered, but for one that leaves while somebody else's reset is under way:
it has the old numbers, and the server ignores the next ones until a reset. As soon as the faults stop all of it
arrives, and all of it is acknowledged. A stream that came back shorter than it was received may end the sourcing with a
SourcePositionError instead, and gives its sequences to other messages.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.errors import SourcePositionError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import Headers
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.times import format_timestamp, parse_timestamp
from jsproto.wire.frames import Pub
from tests.client.pushing import CREATED, heartbeat, info
from tests.effort import examples
from tests.marks import promise
from tests.stateful.pushed import Pushed

WINDOW = 4  # deliveries without an answer after which the model asks for one
FLOW = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


def time_of(number: int) -> str:
    """When a message was published."""
    return format_timestamp(CREATED + number)


@promise("Nothing is acknowledged that the target does not have.")
class Sourcing(Pushed):
    """The machine under test, its session, and the server's consumer of a work queue."""

    @initialize(limit=st.integers(2, 12), stored=st.integers(0, 10), holes=st.booleans())
    def start(self, limit: int, stored: int, holes: bool) -> None:
        self.begin()
        self.taken_seqs: list[int] = []
        self.limit = limit
        self.step = 2 if holes else 1
        self.last = self.published = 0
        self.pending: dict[int, int] = {}  # consumer sequence by stream sequence, 0 for not delivered
        self.numbers: dict[int, int] = {}  # of the messages that the stream had, in the order of their publication
        self.rolled_back = False
        self.consumer_seq = self.delivered_to = self.requests = 0
        self.floor = 0  # the highest consumer sequence that was acknowledged: what is not above it is ignored
        self.asked: str | None = None
        self.deliver = b"somebody"
        self.is_fragile = False  # somebody has reset the consumer, and its first delivery after that is under way
        self.starts = 0
        self.start_at(StreamPosition("S", 0))
        self.publish(stored)

    def start_at(self, position: StreamPosition) -> None:
        """A process begins where the sink is."""
        self.starts += 1
        session = self.h.session
        self.reader = SourcingConsumer(
            session, Acker(session, session.requests, JSMsg, wants_acks=False), api=self.h.js.api,
            inbox=f"_INBOX.o{self.starts}", config=ConsumerConfig(ack_policy="flow_control"), consumer="C", stream="S",
            subject="C", position=position, now=self.h.now, pending_msgs_limit=self.limit,
        )  # fmt: skip
        self.serve()

    # -- the server ----------------------------------------------------------------------------------------------------

    def acknowledge(self, pub: Pub) -> None:
        if pub.subject.decode() != self.asked:
            return
        self.asked = None
        if pub.header is None:
            return
        headers = Headers.parse(pub.header)
        consumer, stream = int(headers["Nats-Last-Consumer"]), int(headers["Nats-Last-Stream"])
        assert stream <= self.reader.position, "what is not stored was acknowledged"
        lost = {seq for seq in self.pending if seq <= stream and self.numbers[seq] not in self.taken}
        assert not lost, f"what is not stored was acknowledged: {lost}"
        if not self.is_fragile:
            assert consumer <= self.consumer_seq, "what was not delivered was acknowledged"
            assert stream <= self.delivered_to, "what was not delivered was acknowledged"
        if consumer <= self.floor:
            return
        self.floor = consumer
        self.pending = {seq: number for seq, number in self.pending.items() if seq > stream}

    def answer(self, pub: Pub) -> None:
        if pub.subject.startswith(b"$JS.FC."):
            return self.acknowledge(pub)
        if pub.subject == b"$JS.API.STREAM.INFO.S":
            return self.reply(pub, self.stream_info())
        if pub.subject == b"$JS.API.STREAM.MSG.GET.S":
            return self.reply(pub, self.message(json.loads(pub.payload)))
        verb = pub.subject.decode().removeprefix("$JS.API.CONSUMER.").removesuffix(".S.C")
        if verb == "CREATE":
            wanted = json.loads(pub.payload)["config"]["deliver_subject"].encode()
            if self.deliver in self.wires and wanted != self.deliver:
                body: dict[str, Any] = {"error": {"code": 400, "err_code": 10013, "description": "in use"}}
                return self.reply(pub, body)
            self.deliver = wanted
        elif verb == "RESET":
            self.reset()
        config = {"ack_policy": "flow_control", "deliver_subject": self.deliver.decode()}
        return self.reply(pub, info("C", config))

    def stream_info(self) -> dict[str, Any]:
        first = min(self.pending, default=self.last + 1)
        state: dict[str, Any] = {"messages": len(self.pending), "bytes": 1, "first_seq": first, "last_seq": self.last}
        if self.last:
            state["last_ts"] = time_of(self.numbers[self.last])
        config = {"name": "S", "retention": "workqueue"}
        return {"config": config, "created": "2026-11-20T21:06:13Z", "state": state | {"consumer_count": 1}}

    def message(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "seq" in asked:
            found = [seq for seq in self.pending if seq == asked["seq"]]
        else:
            found = [seq for seq in sorted(self.pending) if time_of(self.numbers[seq]) >= asked["start_time"]]
        if not found:
            return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        return {"message": {"subject": "s.a", "seq": found[0], "time": time_of(self.numbers[found[0]])}}

    def reset(self) -> None:
        self.pending = dict.fromkeys(self.pending, 0)
        self.consumer_seq = self.delivered_to = self.floor = 0

    def arrive(self, most: int) -> None:
        super().arrive(most)
        if not self.under_way:
            self.is_fragile = False

    def ask(self) -> None:
        self.requests += 1
        self.asked = f"$JS.FC.S.C.{self.requests}"
        self.send(self.deliver, self.asked.encode(), b"", FLOW, via=self.deliver)

    # -- what happens --------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.last += self.step
            self.published += 1
            self.pending[self.last] = 0
            self.numbers[self.last] = self.published

    @rule(count=st.integers(1, 8))
    def push(self, count: int) -> None:
        for seq in [seq for seq, number in self.pending.items() if not number][:count]:
            waiting = sum(number > 0 for number in self.pending.values())
            if self.deliver not in self.wires or waiting >= WINDOW:
                return
            self.consumer_seq += 1
            self.pending[seq] = self.consumer_seq
            self.delivered_to = seq
            time = parse_timestamp(time_of(self.numbers[seq]))
            reply = b"$JS.ACK.S.C.1.%d.%d.%d.0" % (seq, self.consumer_seq, time)
            self.send(b"s.a", reply, b"%d" % self.numbers[seq], via=self.deliver)
            if waiting + 1 == WINDOW and self.asked is None:
                self.ask()

    @rule()
    def beat(self) -> None:
        header = heartbeat(self.consumer_seq, self.delivered_to, self.asked)
        self.send(self.deliver, None, b"", header, via=self.deliver)
        if self.asked is None and any(self.pending.values()):
            self.ask()

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        position = self.reader.position
        seqs = [seq for seq in self.taken_seqs if position <= seq <= self.reader.taken]
        if seqs:
            self.reader.confirm(data.draw(st.sampled_from(seqs)), self.h.now)
            self.serve()

    @precondition(lambda self: self.under_way and not self.is_fragile)
    @rule(data=st.data(), what=st.sampled_from(["lose", "double", "swap"]))
    def disturb(self, data: st.DataObject, what: str) -> None:
        at = data.draw(st.integers(0, len(self.under_way) - 1))
        if what == "lose":
            del self.under_way[at]
        elif what == "double":
            self.under_way.append(self.under_way[at])
        else:
            self.under_way[at - 1], self.under_way[at] = self.under_way[at], self.under_way[at - 1]

    @rule(seconds=st.floats(0.0, 6.0))
    def time_passes(self, seconds: float) -> None:
        self.h.advance(seconds)
        self.reconnect()
        self.serve()

    @rule()
    def meddle(self) -> None:
        """Somebody else resets the consumer. What is under way arrives, and so does the next delivery."""
        self.arrive(len(self.under_way))
        self.reset()
        self.is_fragile = True
        self.push(1)

    @rule()
    def lose_link(self) -> None:
        self.lose()
        self.is_fragile = False

    @rule(count=st.integers(0, 6), more=st.integers(0, 8), loses_link=st.booleans())
    def come_back_shorter(self, count: int, more: int, loses_link: bool) -> None:
        """The server ends, and comes back without its last messages, of which the client may have received some.

        ``count``: how many of those. Its consumer goes on counting (FACTS.md F4.41).
        """
        if loses_link:
            self.lose_link()
        self.under_way.clear()
        self.last = max(0, min(self.last, self.reader.received) - count * self.step)
        self.pending = {seq: number for seq, number in self.pending.items() if seq <= self.last}
        self.delivered_to = min(self.delivered_to, self.last)
        self.rolled_back = True
        self.publish(more)

    @rule()
    def begin_again(self) -> None:
        """The process ends, and another one begins at what the sink has: all that it took."""
        if self.taken and self.reader.phase.name != "ENDED":
            self.reader.unsubscribe(self.h.now)
            self.serve()
            seq, number = self.taken_seqs[-1], self.taken[-1]
            self.start_at(StreamPosition("S", seq, None, parse_timestamp(time_of(number))))

    def reconnect(self) -> None:
        if self.h.session.connect_to is not None and not self.linked:
            self.linked = True
            self.h.connect()

    def take(self, most: int) -> None:
        """The sink takes messages, and knows their sequences."""
        messages = self.reader.pop_many(most, self.h.now)
        self.taken += [int(message.data) for message in messages]
        self.taken_seqs += [message.metadata.sequence.stream for message in messages]
        self.serve()

    @rule(most=st.integers(1, 10))
    def take_some(self, most: int) -> None:
        self.take(most)

    @invariant()
    def in_order_and_once(self) -> None:
        if hasattr(self, "taken"):
            assert self.taken == sorted(set(self.taken))
            last = self.taken[-1] if self.taken else 0
            assert self.rolled_back or self.taken == [*range(1, last + 1)]
            held = {self.numbers[seq] for seq in self.pending}
            assert not {number for number in held if number < last}.difference(self.taken), "left out"

    def teardown(self) -> None:
        if not hasattr(self, "taken"):
            return
        for _ in range(200):
            self.time_passes(1.0)
            self.arrive(1000)
            self.push(100)
            self.beat()
            self.arrive(1000)
            self.take(1000)
            if self.taken and self.reader.position < self.reader.taken:
                self.reader.confirm(self.reader.taken, self.h.now)
                self.serve()
            if not self.pending or self.reader.error is not None:
                break
        self.in_order_and_once()
        if self.rolled_back and isinstance(self.reader.error, SourcePositionError):
            return
        assert not self.pending, (self.reader.phase, self.asked)
        assert {self.numbers[seq] for seq in range(self.step, self.last + 1, self.step)} <= {*self.taken}


Sourcing.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestSourcing = Sourcing.TestCase
