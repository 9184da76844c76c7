"""Both roles with priority groups: who of several clients gets the messages."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.pull import PullConsumer
from jsproto.events import Connected
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.testing.pair import Pair
from tests.marks import promise
from tests.server.harness import config


class Office:
    """A stream, and a consumer of it with a priority group; members pull from it by one connection."""

    def __init__(self, policy: Any, messages: int = 0, **options: Any) -> None:
        self.pair = Pair()
        self.pair.server.add_stream(config(), 0.0)
        self.stored = 0
        self.store(messages)
        self.pair.connect()
        wanted = ConsumerConfig.from_options(
            durable_name="C", priority_groups=["g"], priority_policy=policy, **options
        )  # fmt: skip
        self.info = self.pair.run_until(self.pair.js.create_consumer("S", wanted, now=self.pair.now))
        self.found = self.pair.server.api.consumers.find("S", "C")

    def store(self, count: int) -> None:
        for _ in range(count):
            self.stored += 1
            self.pair.server.publish("s.a", b"%d" % self.stored)
        self.pair.server.handle_timeout(self.pair.now)

    def member(self, **place: Any) -> PullConsumer[JSMsg]:
        """One more, who gets messages from now on."""
        member = self.pair.js.pull_consumer(self.info, JSMsg, priority=Priority("g", **place))
        member.start(now=self.pair.now, max_msgs=100)
        self.pair.advance(0.01)
        return member

    def leave(self, member: PullConsumer[JSMsg]) -> None:
        """It pulls no more."""
        member.unsubscribe(self.pair.now)
        self.pair.advance(0.01)

    def got(self, *members: PullConsumer[JSMsg]) -> list[list[int]]:
        """What each of them got since the last call; all of it is acknowledged."""
        self.pair.advance(0.01)
        taken = [member.pop_many(100, self.pair.now) for member in members]
        for messages in taken:
            for message in messages:
                message.ack()
        self.pair.advance(0.01)
        return [[int(message.data) for message in messages] for messages in taken]


@promise('With `"pinned_client"` one client gets everything.')
def test_one_client_gets_everything_until_it_is_unpinned() -> None:
    office = Office("pinned_client")
    one, two = office.member(), office.member()
    office.store(3)
    assert office.got(one, two) == [[1, 2, 3], []]
    office.pair.run_until(office.pair.js.unpin_consumer("S", "C", "g", now=office.pair.now))
    office.store(1)  # those who wait come before those who must ask again
    assert office.got(one, two) == [[], [4]]
    office.pair.advance(100)  # all requests have ended, and were made again, time and again
    office.store(2)
    assert office.got(one, two) == [[], [5, 6]]
    assert [type(event) for event in office.pair.events] == [Connected]


@promise('With `"pinned_client"` one client gets everything.')
def test_a_pinned_client_that_leaves_is_followed_by_another() -> None:
    office = Office("pinned_client", priority_timeout=8.0)
    one, two = office.member(), office.member()
    office.store(1)
    assert office.got(one, two) == [[1], []]
    office.pair.advance(30)  # it gets nothing, but it asks in time
    office.store(1)
    assert office.got(one, two) == [[2], []]
    office.leave(one)
    office.store(1)
    assert office.got(two) == [[]]
    office.pair.advance(8)
    assert office.got(two) == [[3]]


@promise('With `"pinned_client"` one client gets everything.')
def test_a_new_leader_pins_anew() -> None:
    office = Office("pinned_client")
    one = office.member()
    office.store(1)
    assert office.got(one) == [[1]]
    office.pair.server.elect_leader("S", office.pair.now)
    office.pair.advance(1)
    office.store(2)
    assert office.got(one) == [[2, 3]]


def test_fetches_at_the_same_time_are_all_served() -> None:
    office = Office("pinned_client")
    member = office.pair.js.pull_consumer(office.info, JSMsg, priority=Priority("g"))
    fetches = [member.fetch(2, now=office.pair.now, expires=5.0) for _ in range(3)]
    office.pair.advance(0.01)
    office.store(6)
    office.pair.advance(0.1)
    payloads = [[message.data for message in member.take(fetch)] for fetch in fetches if fetch.done.done]
    assert payloads == [[b"1", b"2"], [b"3", b"4"], [b"5", b"6"]]


@promise('With `"overflow"` some clients get only what is too much for the rest')
@pytest.mark.parametrize("condition", ["min_pending", "min_ack_pending"])
def test_who_helps_out_gets_what_is_too_much_for_others(condition: str) -> None:
    office = Office("overflow", max_ack_pending=50)
    helper = office.member(**{condition: 3})
    office.store(2)
    assert office.got(helper) == [[]]
    member = office.pair.js.pull_consumer(office.info, JSMsg, priority=Priority("g"))
    kept = member.fetch(2, now=office.pair.now, expires=60.0)
    office.pair.advance(0.01)
    assert len(member.take(kept)) == 2
    office.store(2)
    assert office.got(helper) == [[]]
    office.store(1)
    if condition == "min_pending":
        assert office.got(helper) == [[3]]  # three were waiting, now it is two
    else:
        kept = member.fetch(1, now=office.pair.now, expires=60.0)
        office.pair.advance(0.01)
        assert len(member.take(kept)) == 1
        assert office.got(helper) == [[4, 5]]


@promise("a lower `priority` goes first")
def test_who_goes_first_gets_all_that_it_asks_for() -> None:
    office = Office("prioritized")
    spare, main = office.member(priority=5), office.member(priority=1)
    office.store(3)
    assert office.got(spare, main) == [[], [1, 2, 3]]
    office.leave(main)
    office.store(2)
    assert office.got(spare) == [[4, 5]]
