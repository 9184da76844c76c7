"""Both roles: a work queue is copied by the sourcing end, whatever happens to it, and is empty after that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.errors import Error, SourcePositionError
from jsproto.events import ConsumerRestarted, Disconnected, SourceBusy, SourceReset, SourceSkipped, StreamRecreated
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.position import StreamPosition
from jsproto.rules.sourcing_phases import SourcingPhase
from jsproto.server.server import Server
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from tests.effort import examples
from tests.marks import promise
from tests.server.harness import config

CALM: Final = NetworkConditions()
STORMY: Final = NetworkConditions(latency=0.001, jitter=0.003, loss=0.02, duplication=0.02, reordering=0.02)
STORMIER: Final = replace(STORMY, loss=0.1, duplication=0.1, reordering=0.1)
WINDOW: Final = 10  # messages that the consumer delivers without an answer
COUNT: Final = 100
PATIENCE: Final = 1_000  # steps of 0.25 s


class Copying:
    """A server with a work queue, the sourcing end of its consumer, and a sink that remembers where it is.

    ``stored``: the payloads that the sink has, which are sequences of the stream.
    """

    def __init__(self, count: int = 0, *, seed: int = 1, buffer: int = 1_000) -> None:
        network = Network(seed, CALM)
        options = connect_options(max_reconnect_attempts=-1, reconnect_time_wait=0.01)
        self.pair = Pair(options, network=network, server=Server(token=TOKEN, bus=network.cluster))
        self.buffer = buffer
        self.published = 0
        self.starts = 0
        self.stored: list[int] = []
        self.position: StreamPosition | int = 0
        self.make_stream()
        self.pair.connect()
        self.publish(count)
        self.machine = self.begin()

    def make_stream(self) -> None:
        self.pair.server.add_stream(config({"retention": "workqueue"}), self.pair.now)

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

    def begin(self, identity: str | None = None) -> SourcingConsumer[JSMsg]:
        """A process begins where the sink is."""
        self.starts += 1
        client = self.pair.client
        return SourcingConsumer(
            client, Acker(client, client.requests, JSMsg, wants_acks=False), api=self.pair.js.api,
            inbox=f"_INBOX.copy{self.starts}", consumer="C", stream="S", subject="S", position=self.position,
            config=ConsumerConfig(ack_policy="flow_control", max_ack_pending=WINDOW), identity=identity,
            now=self.pair.now, pending_msgs_limit=self.buffer,
        )  # fmt: skip

    def take(self, most: int = COUNT) -> None:
        """The sink takes messages and stores them."""
        messages = self.machine.pop_many(most, self.pair.now)
        self.stored += [int(message.data) for message in messages]
        if messages:
            self.position = self.machine.position_of(messages[-1])

    def confirm(self) -> None:
        """The sink says what it has stored."""
        if isinstance(self.position, StreamPosition) and self.position.seq > self.machine.position:
            self.machine.confirm(self.position.seq, self.pair.now)

    def time_of(self, seq: int) -> int:
        """When a message was stored."""
        return self.pair.run_until(self.pair.js.get_msg("S", seq, level="leader", now=self.pair.now)).timestamp

    def left(self) -> int:
        """Messages in the queue."""
        return self.pair.server.stream("S").state().messages

    def copy(self, until: int) -> None:
        """Go on until the sink has ``until`` messages."""
        for _ in range(PATIENCE):
            self.take()
            self.confirm()
            if len(self.stored) >= until:
                return
            self.pair.advance(0.25)
        raise AssertionError(f"{self.machine.phase}: {len(self.stored)} of {until}")

    def finish(self) -> None:
        """Go on until the queue is empty."""
        for _ in range(PATIENCE):
            self.take()
            self.confirm()
            if not self.left():
                return
            self.pair.advance(0.25)
        raise AssertionError(f"{self.machine.phase}: {self.left()} are left")

    def reset(self, seq: int | None = None) -> None:
        """Somebody else resets the consumer."""
        self.pair.run_until(self.pair.js.reset_consumer("S", "C", seq, now=self.pair.now))

    def told(self, *kinds: type) -> list[Any]:
        return [event for event in self.pair.events if isinstance(event, kinds)]


@pytest.mark.parametrize("seed", range(4))
def test_a_work_queue_is_copied_whole(seed: int) -> None:
    copying = Copying(COUNT, seed=seed)
    copying.pair.network.cluster.conditions = STORMY if seed else CALM
    copying.finish()
    assert copying.stored == list(range(1, COUNT + 1))
    assert bool(copying.told(SourceReset)) == bool(seed)


def test_it_stops_and_resumes() -> None:
    copying = Copying(COUNT)
    for most in (7, 2, WINDOW):
        copying.pair.advance(0.5)
        copying.take(most)
        copying.machine.unsubscribe(copying.pair.now)  # all is stored, and the server does not know
        copying.machine = copying.begin(copying.machine.identity)
    assert (len(copying.stored), copying.left()) == (WINDOW, COUNT)
    copying.finish()
    assert copying.stored == list(range(1, COUNT + 1))
    assert not copying.told(SourceBusy)


@pytest.mark.parametrize("seq", [None, 1, 20])
def test_somebody_else_resets_the_consumer_back(seq: int | None) -> None:
    copying = Copying(COUNT)
    copying.copy(30)
    copying.reset(seq)
    copying.finish()
    assert copying.stored == list(range(1, COUNT + 1))
    assert len(copying.told(ConsumerRestarted)) == 1
    assert copying.machine.resets == 0


def test_somebody_else_resets_the_consumer_ahead() -> None:
    copying = Copying(COUNT)
    copying.pair.advance(0.1)
    copying.take(10)
    copying.reset(60)
    copying.copy(WINDOW + COUNT - 59)
    assert copying.stored == [*range(1, WINDOW + 1), *range(60, COUNT + 1)]
    copying.pair.advance(5.0)
    assert copying.machine.resets == 0
    # What was left out is in the queue. It goes when the consumer is set back: the sink is beyond it.
    assert copying.left() == 59
    copying.reset(1)
    copying.finish()
    assert copying.stored == [*range(1, WINDOW + 1), *range(60, COUNT + 1)]


def test_the_leader_changes() -> None:
    copying = Copying(COUNT)
    for until in (10, 40, 70):
        copying.copy(until)
        copying.pair.server.lose_leader("S")
        copying.pair.advance(1.5 if until == 10 else 6.0)
        copying.pair.server.elect_leader("S", copying.pair.now)
    copying.finish()
    assert copying.stored == list(range(1, COUNT + 1))


def test_the_link_is_lost() -> None:
    copying = Copying(COUNT)
    for until in (10, 40, 70):
        copying.copy(until)
        copying.pair.lose_link()
    copying.finish()
    assert len(copying.told(Disconnected)) == 3
    assert copying.stored == list(range(1, COUNT + 1))


@pytest.mark.parametrize("taken", [10, COUNT])
def test_the_stream_is_made_anew(taken: int) -> None:
    copying = Copying(COUNT)
    copying.pair.advance(0.1)
    copying.take(taken)
    received = copying.machine.received
    copying.pair.run_until(copying.pair.js.delete_stream("S", now=copying.pair.now))
    copying.make_stream()
    copying.published = 1_000
    copying.publish(COUNT)
    for _ in range(40):  # what came of the old stream is not confirmed
        copying.pair.advance(0.25)
    assert copying.machine.phase is SourcingPhase.HOLDING
    copying.finish()
    assert copying.stored == [*range(1, received + 1), *range(1_001, 1_001 + COUNT)]
    assert copying.told(StreamRecreated) == [StreamRecreated("S", received)]


def test_deletes_inside() -> None:
    copying = Copying(COUNT)
    stream = copying.pair.server.stream("S")
    gone = [1, 2, 30, *range(40, 60), COUNT]
    for seq in gone[1:]:
        stream.remove(seq)
    copying.pair.advance(0.1)
    stream.remove(1)  # it was delivered
    copying.finish()
    assert copying.stored == [seq for seq in range(1, COUNT + 1) if seq not in gone[1:]]


def test_a_second_one_is_told_that_the_consumer_is_busy() -> None:
    copying = Copying(COUNT)
    copying.copy(10)
    second = copying.begin(copying.machine.identity)
    copying.finish()
    assert copying.told(SourceBusy) == [SourceBusy("S", "C")]
    assert copying.machine.resets == second.resets == 0
    copying.machine.unsubscribe(copying.pair.now)
    copying.machine, copying.position = second, second.position
    copying.publish(COUNT)
    copying.finish()
    assert copying.stored == list(range(1, 2 * COUNT + 1))
    assert copying.told(SourceSkipped) == [SourceSkipped("S", "C", 11, COUNT)]


class Shrinking(Copying):
    """A stream that a crash shortens to ``COUNT`` messages, after ``more`` others were stored."""

    def __init__(self, more: int) -> None:
        super().__init__(COUNT)
        self.pair.advance(1.0)
        self.since = self.pair.now
        self.pair.advance(1.0)
        self.publish(more)

    def make_stream(self) -> None:
        stream = config({"persist_mode": "async", "storage": "file", "allow_atomic": False})
        self.pair.server.add_stream(stream, self.pair.now)

    def floor(self) -> int:
        """Up to which sequence all is acknowledged."""
        return self.pair.server.api.consumers.find("S", "C").info(self.pair.now).ack_floor.stream_seq

    def crash(self, new: int) -> None:
        """Come back shorter, and take new messages."""
        self.pair.server.restart(self.pair.now, unsynced_since=self.since)
        self.pair.run(lambda: self.pair.is_linked)
        self.pair.advance(1.0)
        self.published = 1_000
        self.publish(new)


@promise("Nothing is acknowledged that the target does not have.")
@pytest.mark.parametrize("new", [0, 5, 20, 50])
@pytest.mark.parametrize("is_new_process", [False, True])
def test_a_stream_that_comes_back_shorter_is_not_read_on(new: int, is_new_process: bool) -> None:
    copying = Shrinking(20)
    copying.copy(COUNT + 20)
    copying.pair.advance(5.0)
    if is_new_process:
        copying.machine.unsubscribe(copying.pair.now)
    copying.crash(new)
    if is_new_process:
        copying.machine = copying.begin()
    copying.pair.advance(30.0)
    assert isinstance(copying.machine.error, SourcePositionError)
    assert copying.floor() == COUNT  # nothing new was acknowledged
    copying.take()
    assert copying.stored == [*range(1, COUNT + 21)]


def test_a_stream_that_comes_back_shorter_behind_the_position_is_read_on() -> None:
    copying = Shrinking(20)
    copying.copy(COUNT)
    copying.machine.unsubscribe(copying.pair.now)
    copying.stored = copying.stored[:COUNT]
    copying.position = StreamPosition("S", COUNT, copying.machine.identity, copying.time_of(COUNT))
    copying.crash(50)
    copying.machine = copying.begin()
    copying.copy(COUNT + 50)
    assert copying.stored == [*range(1, COUNT + 1), *range(1_001, 1_051)]
    assert copying.machine.error is None


class Stormy(RuleBasedStateMachine):
    """Messages are lost, late, doubled and out of order, and somebody else resets the consumer.

    A reset finds the network calm, until the consumer has shown that it counts anew: no subscriber can see deliveries
    that are lost together with a reset.
    """

    @initialize(seed=st.integers(0, 2**32), count=st.integers(0, 60), buffer=st.sampled_from([8, 1_000]))
    def start(self, seed: int, count: int, buffer: int) -> None:
        self.copying = Copying(count, seed=seed, buffer=buffer)
        self.pair = self.copying.pair
        self.cluster = self.pair.network.cluster
        self.cluster.conditions = STORMIER
        self.removed: set[int] = set()

    @rule(count=st.integers(1, 12))
    def publish(self, count: int) -> None:
        self.copying.publish(count)

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.1, 1.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.pair.advance(seconds)

    @rule(most=st.integers(1, 40))
    def take(self, most: int) -> None:
        self.copying.take(most)

    @rule()
    def confirm(self) -> None:
        self.copying.confirm()

    @precondition(lambda self: self.copying.machine.info is not None)
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        self.cluster.conditions = CALM
        self.pair.run(lambda: self.pair.is_linked)
        self.pair.advance(1.0)
        floor = self.pair.server.api.consumers.find("S", "C").info(self.pair.now).ack_floor.stream_seq
        self.copying.reset(data.draw(st.none() | st.integers(1, floor + 1)))
        self.pair.advance(1.5)
        self.cluster.conditions = STORMIER

    @rule()
    def the_link_is_lost(self) -> None:
        self.pair.lose_link()

    @rule(seconds=st.sampled_from([0.1, 4.0]))
    def the_leader_changes(self, seconds: float) -> None:
        self.pair.server.lose_leader("S")
        self.pair.advance(seconds)
        self.pair.server.elect_leader("S", self.pair.now)

    @precondition(lambda self: self.copying.published)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(1, self.copying.published))
        if self.pair.server.stream("S").remove(seq):
            self.removed.add(seq)

    @rule()
    def begin_again(self) -> None:
        self.copying.machine.unsubscribe(self.pair.now)
        self.copying.machine = self.copying.begin(self.copying.machine.identity)

    @invariant()
    def in_order_and_once(self) -> None:
        if hasattr(self, "removed"):
            stored = self.copying.stored
            assert stored == sorted(set(stored))
            due = {*range(1, stored[-1] + 1)} - self.removed if stored else set()
            assert due <= set(stored), "left out"

    def teardown(self) -> None:
        if not hasattr(self, "removed"):
            return
        self.cluster.conditions = CALM
        self.copying.finish()
        self.in_order_and_once()
        assert {*range(1, self.copying.published + 1)} - self.removed <= set(self.copying.stored), "left out"
        assert not isinstance(self.copying.machine.error, Error)


TestStormy = Stormy.TestCase
TestStormy.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
