"""The sourcing end against a model of a server, over a network that loses, swaps and doubles, with meddlers.

Whatever happens: what the sink takes is the stream, every sequence once and in order. No answer acknowledges what is
not stored. None acknowledges what was not delivered, but for one that leaves while somebody else's reset is under way:
it has the old numbers, and the server ignores the next ones until a reset. As soon as the faults stop all of it
arrives, and all of it is acknowledged.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import Headers
from jsproto.wire.frames import Pub
from tests.client.pushing import ack_subject, heartbeat, info
from tests.effort import examples
from tests.stateful.pushed import Pushed

WINDOW = 4  # deliveries without an answer after which the model asks for one
FLOW = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


class Sourcing(Pushed):
    """The machine under test, its session, and the server's consumer of a work queue."""

    @initialize(limit=st.integers(2, 12), stored=st.integers(0, 10), holes=st.booleans())
    def start(self, limit: int, stored: int, holes: bool) -> None:
        self.begin()
        self.limit = limit
        self.step = 2 if holes else 1
        self.last = 0
        self.pending: dict[int, int] = {}  # consumer sequence by stream sequence, 0 for not delivered
        self.consumer_seq = self.delivered_to = self.requests = 0
        self.floor = 0  # the highest consumer sequence that was acknowledged: what is not above it is ignored
        self.asked: str | None = None
        self.deliver = b"somebody"
        self.is_fragile = False  # somebody has reset the consumer, and its first delivery after that is under way
        self.starts = 0
        self.start_at(0)
        self.publish(stored)

    def start_at(self, position: int) -> None:
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
            self.pending[self.last] = 0

    @rule(count=st.integers(1, 8))
    def push(self, count: int) -> None:
        for seq in [seq for seq, number in self.pending.items() if not number][:count]:
            waiting = sum(number > 0 for number in self.pending.values())
            if self.deliver not in self.wires or waiting >= WINDOW:
                return
            self.consumer_seq += 1
            self.pending[seq] = self.consumer_seq
            self.delivered_to = seq
            reply = ack_subject("C", self.consumer_seq, seq)
            self.send(b"s.a", reply, b"%d" % seq, via=self.deliver)
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
        self.reader.confirm(data.draw(st.sampled_from([s for s in self.taken if s >= position])), self.h.now)
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

    @rule()
    def begin_again(self) -> None:
        """The process ends, and another one begins at what the sink has: all that it took."""
        if self.taken and self.reader.phase.name != "ENDED":
            self.reader.unsubscribe(self.h.now)
            self.serve()
            self.start_at(self.taken[-1])

    def reconnect(self) -> None:
        if self.h.session.connect_to is not None and not self.linked:
            self.linked = True
            self.h.connect()

    @invariant()
    def in_order_and_once(self) -> None:
        if hasattr(self, "taken"):
            assert self.taken == list(range(self.step, self.last + 1, self.step))[: len(self.taken)]

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
            if self.taken and self.taken[-1] > self.reader.position:
                self.reader.confirm(self.taken[-1], self.h.now)
                self.serve()
            if not self.pending:
                break
        self.in_order_and_once()
        assert len(self.taken) * self.step == self.last
        assert not self.pending, (self.reader.phase, self.asked)


Sourcing.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestSourcing = Sourcing.TestCase
