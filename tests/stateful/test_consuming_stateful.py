"""Both roles consume, while what passes between the link and the consumer is lost, late, doubled and out of order, the
link breaks and the stream changes its leader. In both versions of the ack subjects.

Pulling with explicit acknowledgements, by fetches or as a stream of messages: the server counts a message as settled
only if the application acknowledged it, every fetch ends, and once the faults stop, every message of the stream comes
and is acknowledged. An ordered consumer:
what the application takes is the stream from its beginning, each message once and in order, whatever happens; and once
the faults stop, all of it.
"""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.errors import Error
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.store.stream import Publication
from tests.effort import examples
from tests.marks import known_fault, promise, requirement
from tests.stateful.test_pair_stateful import Faults

VERSIONS = st.sampled_from([1, 2])
ACK_WAIT = 5.0


class ConsumingFaults(Faults):
    """A stream that grows, and a consumer of it."""

    def prepare(self, ack_version: Literal[1, 2], stored: int) -> None:
        self.start("released", ack_version=ack_version)
        self.publish(stored)

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for number in range(len(self.stream), len(self.stream) + count):
            self.stream.append(Publication(b"s.a", None, b"%d" % (number + 1)), self.pair.now)
        self.settle()

    @rule()
    def the_leader_changes(self) -> None:
        self.pair.server.elect_leader("S", self.pair.now)
        self.settle()

    @rule(seconds=st.sampled_from([0.0, 1.0, 4.0]))
    def nobody_leads_for_a_while(self, seconds: float) -> None:
        self.pair.server.lose_leader("S")
        self.everything_arrives()
        self.pair.advance(seconds)
        self.pair.server.elect_leader("S", self.pair.now)
        self.settle()


class AcknowledgingFaults(ConsumingFaults):
    """Explicit acknowledgements of what was pulled."""

    def create(self, **options: Any) -> None:
        """The consumer."""
        wanted = ConsumerConfig.from_options(durable_name="C", ack_wait=ACK_WAIT, **options)
        self.found = self.pair.server.api.consumers.create("S", wanted, self.pair.now)
        self.kept: list[JSMsg] = []
        self.acknowledged: set[int] = set()

    @precondition(lambda self: self.kept)
    @rule(count=st.integers(1, 6))
    def acknowledge(self, count: int) -> None:
        for message in self.kept[:count]:
            self.acknowledged.add(int(message.data))
            message.ack()
        del self.kept[:count]
        self.settle()

    @precondition(lambda self: self.kept)
    @rule(which=st.integers(0, 9), verb=st.sampled_from(["nak", "in_progress", "forget"]))
    def do_something_else(self, which: int, verb: str) -> None:
        message = self.kept.pop(min(which, len(self.kept) - 1))
        if verb != "forget":
            getattr(message, verb)()
        self.settle()

    @invariant()
    def nothing_is_settled_that_was_not_acknowledged(self) -> None:
        if hasattr(self, "found"):
            state = self.found.info(self.pair.now)
            assert set(range(1, state.ack_floor.stream_seq + 1)) <= self.acknowledged
            outstanding = state.num_ack_pending + state.num_pending
            assert len(self.stream) - outstanding <= len(self.acknowledged)


@promise("every message at least once, until it is acknowledged or `max_deliver` is reached")
@promise("every message at least once: again and again until it is acknowledged")
@known_fault("a fetch hangs, or times out with messages waiting")
class FetchingFaults(AcknowledgingFaults):
    """Fetches."""

    consumer: PullConsumer[JSMsg]

    @initialize(ack_version=VERSIONS, stored=st.integers(0, 10), at_most=st.sampled_from([-1, 2, 5]))
    def begin(self, ack_version: Literal[1, 2], stored: int, at_most: int) -> None:
        self.prepare(ack_version, stored)
        self.create(max_ack_pending=at_most)
        self.consumer = self.pair.js.pull_consumer(self.found.info(self.pair.now), JSMsg)
        self.fetches: list[Fetch] = []
        self.settle()

    @rule(batch=st.integers(1, 6), expires=st.sampled_from([0.5, 3.0]))
    def fetch(self, batch: int, expires: float) -> None:
        self.fetches.append(self.consumer.fetch(batch, now=self.pair.now, expires=expires))
        self.settle()

    @rule(batch=st.integers(1, 6))
    def fetch_what_is_there(self, batch: int) -> None:
        self.fetches.append(self.consumer.fetch_no_wait(batch, now=self.pair.now, patience=1.0))
        self.settle()

    @precondition(lambda self: self.fetches)
    @rule(which=st.integers(0, 3))
    def give_a_fetch_up(self, which: int) -> None:
        self.consumer.give_back(self.fetches.pop(min(which, len(self.fetches) - 1)), self.pair.now)
        self.settle()

    @rule()
    def take(self) -> None:
        """All that fetches brought; a fetch that failed brought nothing."""
        for fetch in [fetch for fetch in self.fetches if fetch.done.done]:
            self.fetches.remove(fetch)
            messages = self.consumer.take(fetch)
            assert fetch.done.error is None or messages == []
            self.kept += messages

    def teardown(self) -> None:
        """The faults stop: every fetch ends, every message comes and is acknowledged."""
        if not hasattr(self, "found"):
            return
        self.everything_arrives()
        self.pair.advance(15.0)
        self.everything_arrives()
        assert all(fetch.done.done for fetch in self.fetches)
        for _ in range(20 + 2 * len(self.stream)):
            self.take()
            self.acknowledge(len(self.kept))
            self.everything_arrives()
            state = self.found.info(self.pair.now)
            if not state.num_pending + state.num_ack_pending:
                break
            self.fetch(50, 1.0)
            self.everything_arrives()
            self.pair.advance(ACK_WAIT / 2)
            self.everything_arrives()
        assert self.acknowledged == {stored.seq for stored in self.stream}
        assert self.found.info(self.pair.now).ack_floor.stream_seq == len(self.stream)


@promise("every message at least once, until it is acknowledged or `max_deliver` is reached")
@promise("every message at least once: again and again until it is acknowledged")
@known_fault("a request that was lost is never made again")
class StreamingFaults(AcknowledgingFaults):
    """Streams of messages that refill themselves: one, or two that share the consumer by turns or by a pin."""

    @initialize(
        ack_version=VERSIONS, stored=st.integers(0, 10), count=st.integers(1, 2), pins=st.booleans(),
        heartbeat=st.sampled_from([0.0, 1.0]),
    )  # fmt: skip
    def begin(self, ack_version: Literal[1, 2], stored: int, count: int, pins: bool, heartbeat: float) -> None:
        self.prepare(ack_version, stored)
        group: dict[str, Any] = {"priority_groups": ["g"], "priority_policy": "pinned_client", "priority_timeout": 8.0}
        self.create(**group if pins else {})
        self.heartbeat = heartbeat
        info, place = self.found.info(self.pair.now), Priority("g" if pins else None)
        self.members = [self.pair.js.pull_consumer(info, JSMsg, priority=place) for _ in range(count)]
        for member in self.members:
            self.begin_again(member)
        self.settle()

    def begin_again(self, member: PullConsumer[JSMsg]) -> None:
        member.start(now=self.pair.now, max_msgs=6, expires=3.0, heartbeat=self.heartbeat)

    @rule(which=st.integers(0, 1), most=st.integers(1, 6))
    def take(self, which: int, most: int) -> None:
        """What has come; who gave up, because there was no leader for long, begins again."""
        member = self.members[which % len(self.members)]
        self.kept += member.pop_many(most, self.pair.now)
        if member.readable().error is not None:
            self.begin_again(member)
        self.settle()

    @precondition(lambda self: len(self.members) == 2)
    @rule()
    def somebody_unpins(self) -> None:
        self.found.unpin("g", self.pair.now)
        self.settle()

    def teardown(self) -> None:
        """The faults stop: every message comes and is acknowledged."""
        if not hasattr(self, "found"):
            return
        for _ in range(20 + 4 * len(self.stream)):
            self.everything_arrives()
            for which in range(2):
                self.take(which, 6)
            self.acknowledge(len(self.kept))
            self.everything_arrives()
            state = self.found.info(self.pair.now)
            if not state.num_pending + state.num_ack_pending:
                break
            self.pair.advance(ACK_WAIT / 2)
        assert self.acknowledged == {stored.seq for stored in self.stream}
        assert self.found.info(self.pair.now).ack_floor.stream_seq == len(self.stream)


@requirement(230)
@promise("every message once and in order, as long as the stream holds it. What limits took is told")
@promise("every message once and in order, as long as the stream holds it until its turn")
@promise("ordered: every message once and in order")
@known_fault("an ordered consumer stalls, or makes one consumer after the other without end")
class OrderedFaults(ConsumingFaults):
    """An ordered consumer, and others who meddle with what it made."""

    ordered: OrderedConsumer[JSMsg]

    @initialize(ack_version=VERSIONS, stored=st.integers(0, 10), limit=st.integers(4, 12))
    def begin(self, ack_version: Literal[1, 2], stored: int, limit: int) -> None:
        self.prepare(ack_version, stored)
        wanted = SubscriptionSpec("s.a", stream="S", options={"idle_heartbeat": 1.0})
        options: dict[str, Any] = {"message_class": JSMsg, "pending_msgs_limit": limit}
        self.ordered = self.pair.run_until(self.pair.js.subscribe_ordered(wanted, now=self.pair.now, **options))
        self.taken: list[int] = []
        self.settle()

    @rule(most=st.integers(1, 10))
    def take(self, most: int) -> None:
        self.taken += [int(message.data) for message in self.ordered.pop_many(most, self.pair.now)]
        self.settle()

    @rule()
    def somebody_deletes_the_consumer(self) -> None:
        consumers = self.pair.server.api.consumers
        try:
            consumers.delete("S", self.ordered.consumer, self.pair.now)
        except Error:
            return  # there is none at the moment
        self.settle()

    @invariant()
    def what_was_taken_is_the_beginning_of_the_stream(self) -> None:
        if hasattr(self, "taken"):
            assert self.taken == list(range(1, len(self.taken) + 1))
            assert self.ordered.error is None

    def teardown(self) -> None:
        """The faults stop: everything arrives."""
        if not hasattr(self, "taken"):
            return
        for _ in range(100 + 2 * len(self.stream)):
            self.everything_arrives()
            self.take(50)
            if len(self.taken) == len(self.stream):
                break
            self.pair.advance(0.5)
        assert self.taken == [stored.seq for stored in self.stream]


TestFetchingFaults = FetchingFaults.TestCase
TestFetchingFaults.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestStreamingFaults = StreamingFaults.TestCase
TestStreamingFaults.settings = settings(max_examples=examples(75), stateful_step_count=40, deadline=None)
TestOrderedFaults = OrderedFaults.TestCase
TestOrderedFaults.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
