"""The client role and the server role drive each other while what passes between link and stream is lost, late, doubled
and out of order, the link breaks and the stream changes its leader. In both dialects of the flow messages.

Fast ingest, gap mode ``fail``: every acknowledged message is stored, once, in the order of sending. Gap mode ``ok``:
what is missing below an acknowledged sequence was reported, if the server's reports arrived. Atomic: all or nothing,
and an acknowledged batch is complete. Always: every wait ends, and nothing is sent beyond the window.

One thing is kept out, because servers take it for what it looks like: the doubled message with sequence 1, which opens
its batch a second time once that has ended (see the last test).
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.publish.atomic import AtomicBatch
from jsproto.client.publish.fast import FastPublisher
from jsproto.errors import Error
from jsproto.events import GapReported
from jsproto.grammar.acks import PubAck
from jsproto.grammar.batch import parse_batch_headers
from jsproto.grammar.fast import FastReply, parse_fast_reply
from jsproto.rules.atomic_batch import ENDED as ATOMIC_ENDED
from jsproto.rules.fast_batch import ENDED, FastPhase
from jsproto.server.server import RoutedMessage, Server
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from jsproto.ticket import Ticket
from tests.effort import examples
from tests.marks import known_fault, promise
from tests.server.harness import config

DIALECTS = st.sampled_from(["released", "draft"])
FATES = st.sampled_from(["arrives", "arrives", "arrives", "lost", "twice"])


class Held:
    """A bus that keeps every message until the machine decides its fate."""

    def __init__(self) -> None:
        self.held: list[RoutedMessage] = []
        self.due: list[RoutedMessage] = []

    def carry(self, routed: RoutedMessage, now: float) -> None:
        self.held.append(routed)

    def arrived(self, now: float) -> list[RoutedMessage]:
        due, self.due = self.due, []
        return due

    def deadline(self) -> float | None:
        return 0.0 if self.due else None

    def towards(self, stream: bool) -> list[RoutedMessage]:
        return [routed for routed in self.held if (routed.to is not None) is stream]


def is_first(routed: RoutedMessage) -> bool:
    """Whether a message of a batch has sequence 1."""
    fast = parse_fast_reply(routed.message.reply or b"")
    if isinstance(fast, FastReply):
        return fast.sequence == 1
    atomic = parse_batch_headers(routed.message.header)
    return atomic is not None and atomic.sequence == 1


class Faults(RuleBasedStateMachine):
    """What both machines have in common: the network, the clock, the link, the leader."""

    pair: Pair

    def start(self, dialect: Any, **options: Any) -> None:
        self.held = Held()
        server = Server(token=TOKEN, dialect=dialect, bus=self.held, **options)
        self.stream = server.add_stream(config(), 0.0)
        self.pair = Pair(connect_options(max_reconnect_attempts=-1), server=server)
        self.pair.connect()
        self.answers_changed = False  # the server's words to the client are not complete, or not in order
        self.links_lost = 0

    def settle(self) -> None:
        """The client writes, the server reads; ``Held`` stops everything else."""
        self.pair.client.flush()
        self.pair.exchange()

    def let(self, parcels: list[RoutedMessage]) -> None:
        self.held.due = parcels
        self.settle()

    @precondition(lambda self: self.held.towards(True))
    @rule(which=st.integers(0, 3), fate=FATES)
    def a_message_to_the_stream(self, which: int, fate: str) -> None:
        waiting = self.held.towards(True)
        routed = waiting[min(which, len(waiting) - 1)]
        if fate != "twice" or is_first(routed):
            self.held.held = [kept for kept in self.held.held if kept is not routed]
        if fate != "lost":
            self.let([routed])

    @precondition(lambda self: self.held.towards(False))
    @rule(which=st.integers(0, 2), fate=FATES)
    def an_answer_of_the_stream(self, which: int, fate: str) -> None:
        waiting = self.held.towards(False)
        at = min(which, len(waiting) - 1)
        self.answers_changed |= fate == "lost" or at > 0
        if fate != "twice":
            self.held.held = [kept for kept in self.held.held if kept is not waiting[at]]
        if fate != "lost":
            self.let([waiting[at]])

    @rule()
    def everything_arrives(self) -> None:
        for _ in range(1000):
            if not self.held.held:
                return
            parcels, self.held.held = self.held.held, []
            self.let(parcels)
        raise AssertionError("there is no end to it")

    @precondition(lambda self: self.held.towards(True))
    @rule(which=st.integers(0, 9), fate=st.sampled_from(["lost", "late", "twice"]))
    def everything_arrives_but_one(self, which: int, fate: str) -> None:
        """Everything that waits arrives, but one message to the stream is lost, or the last, or there twice."""
        waiting = self.held.towards(True)
        routed = waiting[min(which, len(waiting) - 1)]
        self.held.held = [kept for kept in self.held.held if kept is not routed]
        if fate != "twice":
            self.everything_arrives()
        if fate != "lost":
            self.let([routed] if fate == "late" or is_first(routed) else [routed, routed])
        self.everything_arrives()

    @rule(seconds=st.sampled_from([0.1, 0.3, 0.9, 3.0, 4.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.pair.advance(seconds)

    @precondition(lambda self: self.held.held or self.answers_changed)
    @rule(seconds=st.sampled_from([0.0, 0.5, 12.0]))
    def the_link_breaks(self, seconds: float) -> None:
        self.answers_changed = True
        self.links_lost += 1
        self.pair.is_reachable = seconds == 0
        self.pair.lose_link()
        self.pair.is_reachable = True
        self.pair.advance(seconds)
        self.settle()

    def stored(self) -> list[int]:
        return [int(message.payload) for message in self.stream]


@promise("Here a batch survives the loss of every hundredth message")
@promise("Another batch begins with `batch.unacknowledged`")
@promise("Messages run ahead of the server's acknowledgements by a bounded window.")
@known_fault("messages lost, or blocked, at a reconnect")
class FastFaults(Faults):
    """One fast-ingest batch."""

    fast: FastPublisher

    @initialize(
        dialect=DIALECTS, gap=st.sampled_from(["ok", "fail"]), flow=st.integers(1, 6), outstanding=st.integers(1, 3),
        calm=st.integers(0, 20),
    )  # fmt: skip
    def begin(self, dialect: Any, gap: Any, flow: int, outstanding: int, calm: int) -> None:
        self.start(dialect)
        self.gap, self.window = gap, flow * outstanding
        self.fast = self.pair.js.fast_publisher(
            gap=gap, flow=flow, max_outstanding_acks=outstanding, batch_id="b", ack_timeout=5.0
        )
        self.commit: Ticket[PubAck] | None = None
        self.while_it_is_calm(calm)

    @rule(count=st.integers(2, 20))
    def while_it_is_calm(self, count: int) -> None:
        """Whatever was wrong before, these messages and the answers to them arrive."""
        end = self.fast.sequence + count
        while self.fast.sequence < end and self.fast.phase not in ENDED:
            before = self.fast.sequence
            self.publish(end - before)
            self.everything_arrives()
            if self.fast.sequence == before:
                break

    @rule(count=st.integers(1, 9))
    def publish(self, count: int) -> None:
        first = self.fast.sequence + 1
        messages = [("s.a", b"%d" % number) for number in range(first, first + count)]
        try:
            self.fast.publish_many(messages, self.pair.now)
        except Error:
            assert self.fast.phase in ENDED or self.fast.phase is FastPhase.COMMITTING
        self.settle()

    @precondition(lambda self: self.commit is None)
    @rule(store=st.booleans())
    def end(self, store: bool) -> None:
        try:
            if store:
                self.commit = self.fast.commit(self.pair.now, "s.a", b"%d" % (self.fast.sequence + 1))
            else:
                self.commit = self.fast.commit(self.pair.now)
        except Error:
            assert self.fast.phase is not FastPhase.OPEN
        self.settle()

    @precondition(lambda self: self.fast.phase not in ENDED and self.fast.sequence)
    @rule()
    def ping(self) -> None:
        self.fast.ping(self.pair.now)
        self.settle()

    @rule()
    def the_leader_changes(self) -> None:
        self.pair.server.elect_leader("S", self.pair.now)
        self.settle()

    @precondition(lambda self: self.fast.sequence)
    @rule(count=st.integers(1, 3))
    def nobody_leads_for_a_while(self, count: int) -> None:
        self.pair.server.lose_leader("S")
        self.publish(count)
        self.pair.server.elect_leader("S", self.pair.now)
        self.settle()

    @invariant()
    def what_is_stored_is_in_order_and_there_once(self) -> None:
        if hasattr(self, "fast"):
            stored = self.stored()
            assert stored == sorted(set(stored))
            if self.gap == "fail":
                assert stored == list(range(1, len(stored) + 1))

    @invariant()
    def what_is_acknowledged_is_stored_or_reported(self) -> None:
        if not hasattr(self, "fast"):
            return
        acked = self.fast.acked if self.fast.ack is None else self.fast.sequence
        missing, reported = set(range(1, acked + 1)) - set(self.stored()), self.reported()
        if self.gap == "fail":
            assert not missing
        elif not self.answers_changed and self.fast.ack is None:
            assert missing <= reported
        if self.fast.ack is not None and not self.answers_changed:
            assert missing <= reported | set(range((self.fast.ack.count or 0) + 1, acked + 1))

    def reported(self) -> set[int]:
        """The messages that the client knows to be lost."""
        return {
            lost
            for event in self.pair.events
            if isinstance(event, GapReported)
            for lost in range(event.first_missing, event.last_missing + 1)
        }

    @invariant()
    def the_window_is_kept(self) -> None:
        """What was said of the messages in it may go with a link: then they make room for a window of others."""
        if hasattr(self, "fast"):
            commits = self.fast.phase is FastPhase.COMMITTING or self.fast.phase in ENDED
            without_answer = set(range(self.fast.acked + 1, self.fast.sequence + 1))
            if self.gap == "ok":
                without_answer -= self.reported()
            assert len(without_answer) <= max(self.window, 1) * (1 + self.links_lost) + commits

    def teardown(self) -> None:
        """Nobody waits for ever, even if nothing arrives any more."""
        if hasattr(self, "fast"):
            ready = self.fast.ready()
            self.pair.advance(40.0)
            assert ready.done
            assert self.commit is None or self.commit.done
            assert len(self.pair.server.api.streams["S"].fast) == 0


@promise("all messages are stored or none")
@promise('Atomic batches and lossless fast-ingest batches (`gap="fail"`) end with `BatchLostError`')
@promise("One atomic batch (ADR-50): stored whole, or not at all.")
@known_fault("messages lost, or blocked, at a reconnect")
class AtomicFaults(Faults):
    """One atomic batch."""

    batch: AtomicBatch

    @initialize(dialect=DIALECTS, ack_first=st.booleans(), ack_every=st.integers(0, 3), calm=st.integers(0, 3))
    def begin(self, dialect: Any, ack_first: bool, ack_every: int, calm: int) -> None:
        self.start(dialect)
        self.batch = self.pair.js.atomic_batch(batch_id="b", ack_first=ack_first, ack_every=ack_every, ack_timeout=5.0)
        self.commit: Ticket[PubAck] | None = None
        self.whole = 0  # messages of the batch, once it is to be stored
        for _ in range(calm):
            self.add(2)
            self.everything_arrives()

    @precondition(lambda self: self.commit is None)
    @rule(count=st.integers(0, 3), eob=st.booleans(), which=st.integers(0, 3), fate=st.sampled_from(["lost", "late"]))
    def add_and_end_with_one_message_astray(self, count: int, eob: bool, which: int, fate: str) -> None:
        self.add(count)
        self.end(eob)
        if self.held.towards(True):
            self.everything_arrives_but_one(which, fate)

    @rule(count=st.integers(1, 5))
    def add(self, count: int) -> None:
        for _ in range(count):
            try:
                self.batch.add("s.a", b"%d" % (self.batch.sequence + 1), now=self.pair.now)
            except Error:
                assert self.batch.waiting or self.commit is not None or self.batch.phase in ATOMIC_ENDED
        self.settle()

    @precondition(lambda self: self.commit is None)
    @rule(eob=st.booleans())
    def end(self, eob: bool) -> None:
        try:
            if eob:
                self.commit = self.batch.commit_eob(self.pair.now)
            else:
                self.commit = self.batch.commit(self.pair.now, "s.a", b"%d" % (self.batch.sequence + 1))
            self.whole = self.batch.sequence
        except Error:
            assert self.batch.waiting or not self.batch.sequence or self.batch.phase in ATOMIC_ENDED
        self.settle()

    @rule()
    def the_leader_changes(self) -> None:
        self.pair.server.elect_leader("S", self.pair.now)
        self.settle()

    @invariant()
    def all_or_nothing(self) -> None:
        if hasattr(self, "batch"):
            stored = self.stored()
            assert stored == [] or stored == list(range(1, self.whole + 1))
            if self.commit is not None and self.commit.done and self.commit.error is None:
                assert stored
                assert self.commit.result().count == len(stored)
                assert self.batch.sequences == range(1, len(stored) + 1)
            elif self.commit is None:
                assert stored == []

    def teardown(self) -> None:
        """Nobody waits for ever, even if nothing arrives any more."""
        if hasattr(self, "batch"):
            ready = self.batch.ready()
            self.pair.advance(40.0)
            assert ready.done
            assert self.commit is None or self.commit.done
            assert len(self.pair.server.api.streams["S"].atomic) == 0


TestFastFaults = FastFaults.TestCase
TestFastFaults.settings = settings(max_examples=examples(200), stateful_step_count=40, deadline=None)
TestAtomicFaults = AtomicFaults.TestCase
TestAtomicFaults.settings = settings(max_examples=examples(300), stateful_step_count=30, deadline=None)


def test_a_doubled_first_message_behind_the_end_of_its_batch_is_stored_again() -> None:
    """What the machines leave out: only message ids keep it out of a stream."""
    machine = FastFaults()
    machine.begin("released", "fail", 5, 2, 0)
    for block in ({}, {"Nats-Msg-Id": "1"}):
        fast = machine.pair.js.fast_publisher()
        commit = fast.commit(machine.pair.now, "s.a", b"1", block)
        machine.settle()
        (routed,) = machine.held.towards(True)
        machine.everything_arrives()
        machine.let([routed])
        machine.everything_arrives()
        assert commit.result().count == 1
    assert machine.stored() == [1, 1, 1]
