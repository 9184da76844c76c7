"""Both roles: a work queue is copied into another stream, whatever happens, and each message is there once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.client.copy.copier import LINGER, MAX_ATOMIC, Copier, CopyRetry, CopyStep, Taken
from jsproto.client.publish.fast import FastPublisher
from jsproto.errors import CopyFencedError, Error, OutboundBufferLimitError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.server import Server
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from jsproto.ticket import Ticket
from tests.effort import examples
from tests.marks import promise
from tests.server.harness import config

CALM: Final = NetworkConditions()
STORMY: Final = NetworkConditions(latency=0.001, jitter=0.003, loss=0.01, duplication=0.01, reordering=0.01)
STORMIER: Final = replace(STORMY, loss=0.05, duplication=0.05, reordering=0.05)
WINDOW: Final = 20  # messages that the consumer delivers without an answer
PATIENCE: Final = 2_000  # steps of 0.1 s
TARGET: Final = StreamConfig.from_options(
    "T", subjects=["copy.>", "pos"], storage="memory", allow_atomic=True, allow_batched=True, allow_direct=True
)
Delivery = Literal["fast", "atomic"]


class Process:
    """A copy, as a driver runs it: each ``step`` does what can be done without waiting."""

    def __init__(self, pair: Pair, number: int, delivery: Delivery, flow: int) -> None:
        self.pair = pair
        self.number = number
        self.marker = "pos" if delivery == "atomic" else None
        self.flow = flow
        self.retry = CopyRetry("T")
        self.begun = 0
        self.again_at = 0.0
        self.copier: Copier | None = None
        self.machine: SourcingConsumer[JSMsg] | None = None
        self.error: Error | None = None
        self.begin()

    def begin(self) -> None:
        """Look the target up."""
        self.begun += 1
        self.batch: FastPublisher | None = None
        self.commit: Ticket[PubAck] | None = None
        self.held = Taken([], None)
        self.columns: Any = ()
        self.quiet_since = self.pair.now
        self.looked = self.pair.js.copy_target("T", "S", marker=self.marker, now=self.pair.now)

    def step(self) -> None:
        if self.error is not None or self.pair.now < self.again_at:
            return
        try:
            self._step()
        except OutboundBufferLimitError:
            return
        except Error as error:
            self.end()
            try:
                position = 0 if self.copier is None else self.copier.position
                self.again_at = self.pair.now + self.retry.failed(error, position, self.pair.now)
            except Error as final:
                self.error = final
            else:
                self.begin()

    def end(self) -> None:
        """What a process leaves when it goes."""
        if self.batch is not None:
            self.batch.abandon(self.pair.now)
        if self.machine is not None:
            self.machine.unsubscribe(self.pair.now)
        self.machine = self.batch = None

    def _step(self) -> None:
        now = self.pair.now
        if self.machine is None:
            if not self.looked.done:
                return
            self.copier = Copier("S", self.looked.result(), "copy.")
            client = self.pair.client
            self.machine = SourcingConsumer(
                client, Acker(client, client.requests, JSMsg, wants_acks=False), api=self.pair.js.api,
                inbox=f"_INBOX.copy{self.number}-{self.begun}", consumer="C", stream="S", subject="S",
                config=ConsumerConfig(ack_policy="flow_control", max_ack_pending=WINDOW), position=self.copier.position,
                identity=self.copier.identity, within=5.0, now=now,
            )  # fmt: skip
        copier, machine = self.copier, self.machine
        assert copier is not None
        if machine.error is not None:
            raise machine.error
        if self.commit is not None:
            if not self.commit.done:
                return
            ack, self.commit = self.commit.result(), None
            if self.marker is None:
                copier.committed(ack.count or 0)
            else:
                copier.committed_marker(ack.seq)
            self.batch = None
        if self.batch is not None:
            copier.acknowledged(self.batch.acked)
        if copier.position > machine.position:
            machine.confirm(copier.position, now)
        if self.marker is None:
            self._fast(copier, machine)
        elif raws := machine.pop_raws(MAX_ATOMIC, now):
            self.commit = self.pair.js.publish_batch(copier.batch(Taken(raws, machine.identity), self.marker), now=now)

    def _fast(self, copier: Copier, machine: SourcingConsumer[JSMsg]) -> None:
        now = self.pair.now
        if not len(self.columns) and (raws := machine.pop_raws(1_000, now)):
            if self.batch is None:
                copier.begin_batch()
                self.batch = self.pair.js.fast_publisher(flow=self.flow)
            self.columns = copier.columns(Taken(raws, machine.identity))
        if self.batch is None:
            return
        if self.batch.error is not None:
            raise self.batch.error
        if len(self.columns):
            self.columns = self.columns[self.batch.publish_many(self.columns, now) :]
            self.quiet_since = now
            return
        waited = now - self.quiet_since > LINGER
        step = copier.next_step(self.batch.acked, self.batch.flow, awaits_confirm=machine.awaits_confirm, waited=waited)
        if step is CopyStep.COMMIT:
            self.commit = self.batch.commit(now)


class Copying:
    """A server with a work queue, and processes that copy it into ``T``."""

    def __init__(self, count: int = 0, *, seed: int = 1, delivery: Delivery = "fast", flow: int = 4) -> None:
        network = Network(seed, CALM)
        options = connect_options(max_reconnect_attempts=-1, reconnect_time_wait=0.01)
        self.pair = Pair(options, network=network, server=Server(token=TOKEN, bus=network.cluster))
        self.delivery, self.flow = delivery, flow
        self.published = 0
        self.processes: list[Process] = []
        self.pair.server.add_stream(config({"retention": "workqueue"}), self.pair.now)
        self.pair.server.add_stream(TARGET, self.pair.now)
        self.pair.connect()
        self.publish(count)
        self.start()

    def start(self) -> Process:
        process = Process(self.pair, len(self.processes), self.delivery, self.flow)
        self.processes.append(process)
        return process

    def publish(self, count: int) -> None:
        """Somebody publishes, on a way without faults."""
        cluster, stream = self.pair.network.cluster, self.pair.server.stream("S")
        conditions, cluster.conditions = cluster.conditions, CALM
        last = stream.state().last_seq + count
        for _ in range(count):
            self.published += 1
            self.pair.server.publish("s.a", b"%d" % self.published)
        cluster.conditions = conditions
        self.pair.run(lambda: stream.state().last_seq == last)

    def advance(self, seconds: float) -> None:
        end = self.pair.now + seconds
        while self.pair.now < end:
            for process in self.processes:
                process.step()
            self.pair.exchange()
            deadline = self.pair.deadline()
            self.pair.advance(min(0.02, end - self.pair.now, max((deadline or end) - self.pair.now, 0.001)))

    def copied(self) -> list[int]:
        """The payloads in the target, in its order."""
        stream = self.pair.server.stream("T")
        found = (stream.get(seq) for seq in range(1, stream.state().last_seq + 1))
        return [int(stored.payload) for stored in found if stored is not None and stored.subject != b"pos"]

    def finish(self) -> None:
        """Go on until all is copied, and the queue is empty."""
        for _ in range(PATIENCE):
            if all(process.error is not None for process in self.processes):
                self.start()
            if not self.pair.server.stream("S").state().messages and len(self.copied()) >= self.published:
                break
            self.advance(0.1)
        assert self.copied() == [*range(1, self.published + 1)]
        assert self.pair.server.stream("S").state().messages == 0


@pytest.mark.parametrize("delivery", ["fast", "atomic"])
@pytest.mark.parametrize("seed", range(3))
def test_a_work_queue_is_copied_once(delivery: Delivery, seed: int) -> None:
    copying = Copying(100, seed=seed, delivery=delivery)
    copying.pair.network.cluster.conditions = STORMY if seed else CALM
    copying.finish()
    if not seed:
        assert copying.processes[0].begun == 1


@promise("Each message is in the target once and in order")
@pytest.mark.parametrize("delivery", ["fast", "atomic"])
def test_another_process_goes_on(delivery: Delivery) -> None:
    copying = Copying(100, delivery=delivery)
    for _ in range(5):
        copying.advance(0.05)
        copying.processes[-1].end()
        copying.processes[-1].error = Error("killed")
        copying.start()
    copying.finish()


@promise('With `delivery="fast"` the target has no other writer.')
def test_somebody_else_writes_to_the_target() -> None:
    copying = Copying(100)
    copying.advance(0.02)
    for _ in range(600):
        copying.pair.server.publish("copy.s.a", b"0")
        copying.advance(0.02)
        if copying.processes[0].error is not None:
            break
    error = copying.processes[0].error
    assert error is not None
    assert isinstance(error, CopyFencedError) or "is not from a copy" in str(error)


@promise("Each message is in the target once and in order")
class Stormy(RuleBasedStateMachine):
    """Messages are lost, late, doubled and out of order, processes end and begin, somebody else resets the consumer."""

    @initialize(
        seed=st.integers(0, 2**32), count=st.integers(0, 60), delivery=st.sampled_from(["fast", "atomic"]),
        flow=st.integers(1, 12),
    )  # fmt: skip
    def begin(self, seed: int, count: int, delivery: Delivery, flow: int) -> None:
        self.copying = Copying(count, seed=seed, delivery=delivery, flow=flow)
        self.pair = self.copying.pair
        self.cluster = self.pair.network.cluster
        self.cluster.conditions = STORMIER

    @rule(count=st.integers(1, 30))
    def publish(self, count: int) -> None:
        self.copying.publish(count)

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.1, 1.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.copying.advance(seconds)

    @rule()
    def a_process_is_killed(self) -> None:
        """Its link breaks with what is under way on it. It is the link of all processes here."""
        process = self.copying.processes[-1]
        process.end()
        process.error = Error("killed")
        self.pair.lose_link()
        self.copying.start()

    @precondition(lambda self: len(self.copying.processes) < 8)
    @rule()
    def a_second_process_begins(self) -> None:
        self.copying.start()

    @rule()
    def the_link_is_lost(self) -> None:
        self.pair.lose_link()

    @rule(name=st.sampled_from(["S", "T"]), seconds=st.sampled_from([0.1, 4.0]))
    def the_leader_changes(self, name: str, seconds: float) -> None:
        self.pair.server.lose_leader(name)
        self.copying.advance(seconds)
        self.pair.server.elect_leader(name, self.pair.now)

    @rule(seq=st.none() | st.just(1))
    def somebody_else_resets_the_consumer(self, seq: int | None) -> None:
        """On a calm network: deliveries that are lost together with a reset nobody can see."""
        self.cluster.conditions = CALM
        self.pair.run(lambda: self.pair.is_linked)
        self.copying.advance(1.0)
        ticket = self.pair.js.reset_consumer("S", "C", seq, now=self.pair.now)
        self.pair.run(lambda: ticket.done)
        self.copying.advance(1.5)
        self.cluster.conditions = STORMIER

    @invariant()
    def each_message_once_and_in_order(self) -> None:
        if hasattr(self, "copying"):
            copied = self.copying.copied()
            assert copied == [*range(1, len(copied) + 1)]

    def teardown(self) -> None:
        if hasattr(self, "copying"):
            self.cluster.conditions = CALM
            self.copying.finish()


TestStormy = Stormy.TestCase
TestStormy.settings = settings(max_examples=examples(60), stateful_step_count=20, deadline=None)
