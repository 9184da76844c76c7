"""An atomic batch against a model server over a network that loses, delays, repeats and reorders its answers.

Rules that hold whatever happens:

* Sequences on the wire have no hole that the network did not make.
* Nothing is sent while an answer is awaited.
* After a commit that succeeds, the whole batch is stored, in order.
* After a commit that fails with an error of the server, nothing of it is stored.
* A batch that was discarded, or that failed before its commit, is never stored.
* With time every wait ends.
"""

from __future__ import annotations

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsproto.client.publish.atomic import AtomicBatch
from jsproto.errors import (
    APIError,
    BatchClosedError,
    BatchError,
    BatchExpiredError,
    BatchFullError,
    BatchMessageError,
    Error,
    LocalProtocolError,
)
from jsproto.grammar.acks import PubAck
from jsproto.grammar.batch import BatchCommit, parse_batch_headers
from jsproto.rules.atomic_batch import ENDED, AtomicPhase
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub
from tests.effort import examples
from tests.harness import Harness

IDLE = 10.0
TOO_LARGE = b"too large"
LIMIT = 12


def refusal(code: int, description: str) -> bytes:
    error = {"code": 400, "err_code": code, "description": description}
    return json.dumps({"error": error, "stream": "S", "seq": 0}).encode()


class ModelServer:
    """One stream with atomic batches as released servers keep them: staging, gaps, size, silence, commit."""

    def __init__(self, before: int) -> None:
        self.stored: list[bytes] = [b"before"] * before
        self.staged: list[bytes] | None = None
        self.heard_at = 0.0

    def answer(self, message: Pub, now: float) -> bytes | None:
        """What a message is answered; None when it asked for nothing."""
        said = self.take(message, now)
        return said if message.reply is not None else None

    def take(self, message: Pub, now: float) -> bytes:
        headers = parse_batch_headers(message.header)
        assert headers is not None
        assert headers.problem is None
        if self.staged is not None and now - self.heard_at >= IDLE:
            self.staged = None
        if message.payload == TOO_LARGE:
            return refusal(10054, "message size exceeds maximum allowed")
        if self.staged is None and headers.sequence == 1:
            self.staged = []
        if self.staged is None or headers.sequence != len(self.staged) + 1:
            self.staged = None
            return refusal(10176, "atomic publish batch is incomplete")
        self.heard_at = now
        if headers.commit is not BatchCommit.EOB:
            self.staged.append(message.payload)
        if len(self.staged) > LIMIT:
            self.staged = None
            return refusal(10199, f"atomic publish batch is too large: {LIMIT}")
        if headers.commit is BatchCommit.NONE:
            return b""
        count, self.stored, self.staged = len(self.staged), self.stored + self.staged, None
        return json.dumps({"stream": "S", "seq": len(self.stored), "batch": headers.batch_id, "count": count}).encode()


class AtomicMachine(RuleBasedStateMachine):
    """Operations of the application, the network and the clock in any order."""

    h: Harness
    batch: AtomicBatch

    @initialize(
        ack_first=st.booleans(), ack_every=st.integers(0, 4), guard=st.sampled_from([LIMIT, LIMIT, 5, None]),
        timeout=st.sampled_from([1.0, 5.0, 20.0]), before=st.integers(0, 3),
    )  # fmt: skip
    def begin(self, ack_first: bool, ack_every: int, guard: int | None, timeout: float, before: int) -> None:
        self.h = Harness()
        self.batch = self.h.js.atomic_batch(
            batch_id="b1", max_messages=guard, ack_first=ack_first, ack_every=ack_every, ack_timeout=timeout
        )
        self.guard = guard
        self.server = ModelServer(before)
        self.before = list(self.server.stored)
        self.messages: list[bytes] = []  # what the application believes to be in the batch
        self.to_server: list[Pub] = []
        self.to_client: list[tuple[bytes, bytes]] = []
        self.ready: Ticket[None] | None = None
        self.commit: Ticket[PubAck] | None = None
        self.last: bytes | None = None

    def carry(self) -> None:
        """What was sent: in order, with the id, and nothing behind a message that asked."""
        for pub in self.h.published():
            headers = parse_batch_headers(pub.header)
            assert headers is not None
            assert headers.batch_id == "b1"
            self.to_server.append(pub)

    def settle(self) -> None:
        """Look at what the answers said."""
        if self.ready is not None and self.ready.done:
            if isinstance(self.ready.error, BatchMessageError):
                assert self.batch.error is None
                assert self.ready.error.message_sequence == len(self.messages)
                self.messages.pop()
            self.ready = None
        if self.commit is not None and self.commit.done and isinstance(self.commit.error, BatchMessageError):
            assert self.batch.phase is AtomicPhase.OPEN
            self.commit = None
        assert self.batch.phase in ENDED or self.commit is not None or self.batch.sequence == len(self.messages)

    @rule(
        count=st.integers(1, 6), large=st.sampled_from([False, False, False, True]), many=st.booleans(),
        arrive=st.sampled_from([True, True, False]),
    )  # fmt: skip
    def add(self, count: int, large: bool, many: bool, arrive: bool) -> None:
        for _ in range(count):
            before, waiting, phase = self.batch.sequence, self.batch.waiting, self.batch.phase
            payload = b"%d" % (before + 1)
            try:
                if many and not waiting:
                    assert self.batch.add_many([("e.a", payload)], self.h.now) == 1
                else:
                    # Only a message that asks for its answer can be refused without anybody losing track of the rest.
                    assert self.batch.add("e.a", payload, now=self.h.now) == before + 1
            except Error as error:
                assert self.batch.sequence == before
                self.why(error, waiting, phase, before + 1)
                break
            assert not waiting
            assert phase in (AtomicPhase.IDLE, AtomicPhase.OPEN)
            self.messages.append(payload)
            self.carry()
            if self.batch.waiting:
                self.ready = self.batch.ready()
                if large and self.messages[1:]:
                    self.to_server[-1] = Pub(b"e.a", self.to_server[-1].reply, self.to_server[-1].header, TOO_LARGE)
                if not arrive:
                    break
                self.everything_arrives()

    def why(self, error: Error, waiting: bool, phase: AtomicPhase, wanted: int) -> None:
        """An error that a verb raised is the right one."""
        if isinstance(error, BatchFullError):
            assert self.guard is not None
            assert wanted > self.guard
        elif isinstance(error, BatchExpiredError):
            assert error is self.batch.error
        elif isinstance(error, BatchClosedError):
            assert self.batch.error is None
            assert phase in (*ENDED, AtomicPhase.COMMITTING)
        elif isinstance(error, LocalProtocolError):
            assert waiting or not self.messages
        else:
            assert error is self.batch.error
        assert self.h.published() == []

    @rule(store=st.booleans(), large=st.sampled_from([False, False, False, True]))
    def end(self, store: bool, large: bool) -> None:
        phase, waiting, before = self.batch.phase, self.batch.waiting, self.batch.sequence
        payload = b"%d" % (before + 1)
        try:
            ticket = self.batch.commit(self.h.now, "e.a", payload) if store else self.batch.commit_eob(self.h.now)
        except Error as error:
            assert self.batch.sequence == before
            self.why(error, waiting, phase, before + 1)
            return
        if phase in (AtomicPhase.COMMITTING, AtomicPhase.COMMITTED):  # asked for again: the same answer, nothing sent
            assert not store
            assert ticket is self.commit or ticket.result() == self.batch.ack
            assert self.h.published() == []
            return
        self.commit, self.last = ticket, payload if store else None
        self.carry()
        if large and store:
            self.to_server[-1] = Pub(b"e.a", self.to_server[-1].reply, self.to_server[-1].header, TOO_LARGE)

    @precondition(lambda self: self.to_server)
    @rule()
    def lose_one(self) -> None:
        self.to_server.pop(0)

    @precondition(lambda self: self.to_server)
    @rule()
    def deliver_to_server(self) -> None:
        message = self.to_server.pop(0)  # a connection keeps the order
        answer = self.server.answer(message, self.h.now)
        if answer is not None:
            assert message.reply is not None
            self.to_client.append((message.reply, answer))

    @precondition(lambda self: self.to_client)
    @rule(which=st.integers(0, 3), lost=st.sampled_from([False, False, False, True]), again=st.booleans())
    def deliver_to_client(self, which: int, lost: bool, again: bool) -> None:
        at = min(which, len(self.to_client) - 1)
        subject, payload = self.to_client[at] if again else self.to_client.pop(at)
        if lost or self.batch.phase in ENDED:
            return
        self.h.deliver(subject, payload)
        self.settle()

    @rule()
    def everything_arrives(self) -> None:
        while self.to_server:
            self.deliver_to_server()
        while self.to_client:
            self.deliver_to_client(0, False, False)

    @rule(seconds=st.sampled_from([0.5, 0.5, 1.5, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.h.advance(seconds)
        self.settle()
        self.carry()

    @rule()
    def discard(self) -> None:
        if self.batch.sequence > 6:  # seldom, or there would be little else
            self.batch.discard(self.h.now)

    @precondition(lambda self: self.batch.waiting or self.batch.phase is AtomicPhase.COMMITTING)
    @rule(body=st.sampled_from([
        b"junk", b'{"stream":"S","seq":9,"batch":"other","count":1}', b"{}", b'{"seq":1}',
        b'{"stream":"S","seq":"1"}',
    ]))  # fmt: skip
    def a_stranger_lies(self, body: bytes) -> None:
        before = (self.batch.sequence, self.batch.phase, self.batch.acked, self.batch.waiting)
        assert self.batch._awaited is not None
        self.h.deliver(self.batch._awaited, body)
        assert (self.batch.sequence, self.batch.phase, self.batch.acked, self.batch.waiting) == before

    @invariant()
    def sequences_fit(self) -> None:
        if hasattr(self, "batch"):
            assert 0 <= self.batch.acked <= self.batch.sequence
            assert self.guard is None or self.batch.sequence <= self.guard
            assert not (self.batch.error is not None and self.batch.phase is not AtomicPhase.FAILED)

    @invariant()
    def all_or_nothing(self) -> None:
        if not hasattr(self, "batch"):
            return
        stored = self.server.stored[len(self.before) :]
        wanted = self.messages + ([] if self.last is None or self.commit is None else [self.last])
        assert stored in ([], wanted)
        committed = self.commit is not None and self.commit.done and self.commit.error is None
        assert committed == (self.batch.phase is AtomicPhase.COMMITTED)
        if committed:
            assert self.commit is not None
            ack = self.commit.result()
            assert stored == wanted
            assert [self.server.stored[seq - 1] for seq in ack.sequences] == wanted
        if self.commit is None or isinstance(self.commit.error, APIError):
            assert stored == []

    def teardown(self) -> None:
        """Nobody waits for ever, even if nothing arrives any more; and then the verbs say why."""
        if not hasattr(self, "batch"):
            return
        ready = self.batch.ready()
        self.h.advance(40.0)
        assert ready.done
        assert self.commit is None or self.commit.done
        assert self.batch.phase in (*ENDED, AtomicPhase.IDLE)
        assert self.batch.deadline() is None
        if self.batch.error is not None:
            assert isinstance(self.batch.error, APIError | BatchError)


TestAtomicBatch = AtomicMachine.TestCase
TestAtomicBatch.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
