"""A fast-ingest publisher against a model server over a network that loses, repeats and reorders what it carries.

Whatever happens: nothing is sent beyond the window, acknowledgements never run backwards, a successful commit in gap
mode ``fail`` means that every message is stored in order, and with time every wait ends. In gap mode ``ok`` a batch
whose messages are refused goes on as long as the answers arrive.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsproto.client.publish.fast import FastPublisher
from jsproto.errors import BatchClosedError, Error
from jsproto.grammar.acks import PubAck
from jsproto.grammar.fast import FastOp, FastReply, parse_fast_reply
from jsproto.rules.fast_batch import ENDED, FastPhase
from jsproto.ticket import Ticket
from tests.effort import examples
from tests.harness import Harness
from tests.marks import known_fault, requirement

REFUSED = {"code": 503, "err_code": 10077, "description": "maximum messages exceeded"}


class ModelServer:
    """One batch as released servers keep it: gaps, refusals, flow, ping, commit."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.refuses = False
        self.expected = 0  # the next sequence; 0: no batch
        self.last_ack = 0
        self.stored: list[int] = []
        self.known = False

    def answers(self, reply: FastReply) -> list[dict[str, Any]]:
        sequence, operation = reply.sequence, reply.operation
        if operation is FastOp.START or (operation is FastOp.COMMIT and sequence == 1):
            self.known, self.expected, self.last_ack, self.stored = True, 1, 0, []
        elif not self.known:
            return [{"error": {"code": 400, "err_code": 10208, "description": "unknown"}, "stream": "S", "seq": 0}]
        said: list[dict[str, Any]] = []
        arrived = sequence + 1 if operation is FastOp.PING else sequence
        if arrived > self.expected or (arrived < self.expected and operation is not FastOp.PING):
            said.append({"type": "gap", "last_seq": self.expected, "seq": arrived})
            if reply.gap == "fail" or arrived < self.expected:
                return [*said, self.terminal()]
            self.expected = arrived
        if operation is FastOp.PING:
            return [*said, {"type": "ack", "seq": self.last_ack, "msgs": self.rate}]
        if self.refuses and operation in (FastOp.START, FastOp.APPEND):
            if operation is FastOp.START:
                said.append({"type": "ack", "seq": 0, "msgs": self.rate})
            if reply.gap == "fail" and sequence == 1:
                self.known = False
                return [*said, {"error": REFUSED, "stream": "S", "seq": 0}]
            said.append({"type": "err", "seq": sequence, "error": REFUSED})
            if reply.gap == "fail":
                return [*said, self.terminal()]
            self.expected = sequence + 1
            return said
        if operation is not FastOp.COMMIT_EOB:
            self.stored.append(sequence)
            self.expected = sequence + 1
        if operation in (FastOp.COMMIT, FastOp.COMMIT_EOB):
            return [*said, self.terminal()]
        if operation is FastOp.START:
            said.append({"type": "ack", "seq": 0, "msgs": self.rate})
        if sequence >= self.last_ack + self.rate:  # only now: what is refused is never acknowledged by itself
            self.last_ack = sequence
            said.append({"type": "ack", "seq": sequence, "msgs": self.rate})
        return said

    def terminal(self) -> dict[str, Any]:
        self.known = False
        return {"stream": "S", "seq": len(self.stored), "batch": "b1", "count": max(self.expected - 1, 0)}


@requirement(42)
@known_fault("fast ingest, all of it")
class FastBatch(RuleBasedStateMachine):
    """Operations of the application, the network and the clock in any order."""

    h: Harness
    fast: FastPublisher

    @initialize(
        gap=st.sampled_from(["ok", "fail"]), rate=st.integers(1, 6), flow=st.integers(1, 6),
        outstanding=st.integers(1, 3),
    )  # fmt: skip
    def begin(self, gap: Any, rate: int, flow: int, outstanding: int) -> None:
        self.h = Harness()
        self.gap, self.flow, self.outstanding = gap, flow, outstanding
        self.fast = self.h.js.fast_publisher(
            gap=gap, flow=flow, max_outstanding_acks=outstanding, batch_id="b1", ack_timeout=5.0
        )
        self.server = ModelServer(min(rate, flow))
        self.to_server: list[bytes] = []
        self.to_client: list[tuple[bytes, bytes]] = []
        self.best_ack = 0
        self.settled: set[int] = set()
        self.acked = 0
        self.commit: Ticket[PubAck] | None = None
        self.lost = False  # whether an answer ever was

    def carry(self) -> None:
        for pub in self.h.published():
            assert pub.reply is not None
            reply = parse_fast_reply(pub.reply)
            assert isinstance(reply, FastReply)
            if reply.operation is FastOp.APPEND:
                settled = len([sequence for sequence in self.settled if sequence > self.best_ack])
                limit = self.best_ack + settled + self.flow * self.outstanding
                assert reply.sequence <= limit, "sent beyond the window"
            self.to_server.append(pub.reply)

    @rule(count=st.integers(1, 9))
    def publish(self, count: int) -> None:
        ended = self.fast.phase in ENDED or self.fast.phase is FastPhase.COMMITTING
        raised: Error | None = None
        taken = 0
        try:
            taken = self.fast.publish_many([("e.a", b"")] * count, self.h.now)
        except Error as error:
            raised = error
        assert taken <= count
        assert not (taken and ended)
        assert raised is None or raised is self.fast.error or (ended and isinstance(raised, BatchClosedError))
        self.carry()

    @rule()
    def ping(self) -> None:
        try:
            self.fast.ping(self.h.now)
        except Error:
            assert self.fast.sequence == 0 or self.fast.phase in ENDED
        self.carry()

    @rule(store=st.booleans())
    def end(self, store: bool) -> None:
        try:
            self.commit = self.fast.commit(self.h.now, "e.a" if store else None)
        except Error:
            assert self.fast.phase is not FastPhase.OPEN
        self.carry()

    @precondition(lambda self: self.to_server)
    @rule(lost=st.sampled_from([False, False, False, True]))
    def deliver_to_server(self, lost: bool) -> None:
        subject = self.to_server.pop(0)  # a connection keeps the order
        reply = parse_fast_reply(subject)
        assert isinstance(reply, FastReply)
        if not lost:
            self.to_client += [(subject, json.dumps(body).encode()) for body in self.server.answers(reply)]

    @rule(refuses=st.booleans())
    def the_stream_is_full_or_has_room(self, refuses: bool) -> None:
        self.server.refuses = refuses

    def finds_room(self) -> bool:
        """Whether there is room for a message, after time to ask for what went astray on the way."""
        for _ in range(10):
            if self.fast.room:
                return True
            self.h.advance(0.5)
            self.carry()
            self.everything_arrives()
        return False

    @rule(count=st.integers(1, 40))
    def refused_messages_end_nothing(self, count: int) -> None:
        """As long as the answers arrive."""
        self.everything_arrives()
        if self.gap != "ok" or self.fast.phase is not FastPhase.OPEN:
            return
        self.server.refuses = True
        before = self.fast.sequence
        for _ in range(count):
            if self.finds_room():
                self.publish(1)
                self.everything_arrives()
        assert self.lost or self.fast.sequence == before + count, "the batch stands still"

    @rule()
    def everything_arrives(self) -> None:
        while self.to_server or self.to_client:
            while self.to_server:
                self.deliver_to_server(False)
            if self.to_client:
                self.deliver_to_client(0, False, False)

    @precondition(lambda self: self.to_client)
    @rule(which=st.integers(0, 3), lost=st.sampled_from([False, False, True]), again=st.booleans())
    def deliver_to_client(self, which: int, lost: bool, again: bool) -> None:
        at = min(which, len(self.to_client) - 1)
        subject, payload = self.to_client[at] if again else self.to_client.pop(at)
        self.lost = self.lost or lost
        if lost or self.fast.phase in ENDED:
            return
        body = json.loads(payload)
        if body.get("type") == "ack":
            self.best_ack = max(self.best_ack, body["seq"])
        elif body.get("type") == "gap":
            self.settled.update(range(body["last_seq"], body["seq"]))
        elif body.get("type") == "err":
            self.settled.add(body["seq"])
        self.h.deliver(subject, payload)
        self.carry()

    @rule(seconds=st.sampled_from([0.5, 1.5, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.h.advance(seconds)
        self.carry()

    @rule(body=st.sampled_from([
        {"type": "ack", "seq": 10**6, "msgs": 1}, {"type": "gap", "last_seq": 10**6, "seq": 10**6 + 2}, {"seq": 0},
        {"stream": "S", "seq": 1, "batch": "other", "count": 1}, {"type": "ack", "seq": 0, "msgs": 10**6}, {},
    ]))  # fmt: skip
    @precondition(lambda self: self.fast.phase in (FastPhase.OPEN, FastPhase.COMMITTING))
    def a_stranger_lies(self, body: dict[str, Any]) -> None:
        before = (self.fast.acked, self.fast.room, self.fast.phase)
        subject = self.fast._reply + b"1.1.$FI"
        self.h.deliver(subject, json.dumps(body).encode())
        assert (self.fast.acked, self.fast.room, self.fast.phase) == before

    @invariant()
    def acknowledgements_never_run_backwards(self) -> None:
        if hasattr(self, "fast"):
            assert self.acked <= self.fast.acked <= self.fast.sequence
            self.acked = self.fast.acked

    @invariant()
    def a_commit_that_succeeds_has_stored_everything(self) -> None:
        if hasattr(self, "fast") and self.commit is not None and self.commit.done and self.commit.error is None:
            assert self.commit.result().count is not None
            if self.gap == "fail":
                assert self.server.stored == list(range(1, self.fast.sequence + 1))

    def teardown(self) -> None:
        """Nobody waits for ever, even if nothing arrives any more."""
        if hasattr(self, "fast"):
            ready = self.fast.ready()
            self.h.advance(30.0)
            assert ready.done
            assert self.commit is None or self.commit.done


TestFastBatch = FastBatch.TestCase
TestFastBatch.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
