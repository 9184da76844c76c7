"""A caller gives up a verb that brings something live, at any step: the server role has nothing of it in the end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.drain import end
from jsproto.client.connection.subscription import Subscription
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.jetstream import JetStream
from jsproto.errors import ConnectionClosedError, LocalProtocolError, TimeoutError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.ticket import Live, Ticket

Verb = Callable[[Pair], Ticket[Any]]
DELAY = 0.01  # seconds from one side to the other


def push(pair: Pair, **wanted: Any) -> Ticket[Any]:
    return pair.js.subscribe(SubscriptionSpec("s.*", **wanted), now=pair.now, message_class=JSMsg)


VERBS: dict[str, Verb] = {
    "push": push,
    "queue": lambda pair: push(pair, queue="workers"),
    "durable": lambda pair: push(pair, durable="mine"),
    "found": lambda pair: push(pair, queue="there"),
    "ordered": lambda pair: pair.js.subscribe_ordered(SubscriptionSpec("s.*"), now=pair.now, message_class=JSMsg),
    "pull": lambda pair: pair.js.bind_pull(SubscriptionSpec("s.*", pull=True), now=pair.now),
    "pull durable": lambda pair: pair.js.bind_pull(SubscriptionSpec("s.*", durable="mine", pull=True), now=pair.now),
    "snapshot": lambda pair: pair.js.snapshot("S", "s.>", now=pair.now),
}
GIVEN = {"workers", "mine", "there"}


def paired() -> Pair:
    pair = Pair(connect_options(), network=Network(0, NetworkConditions(latency=DELAY)))
    pair.server.add_stream(StreamConfig("S", subjects=["s.*"], allow_direct=True), 0.0)
    pair.connect()
    pair.run_until(
        pair.js.create_consumer(
            "S", ConsumerConfig(durable_name="there", deliver_subject="to", deliver_group="there"), now=pair.now
        )
    )
    for number in range(3):
        pair.run_until(pair.js.publish(f"s.{number}", b"x", now=pair.now))
    return pair


def interests(pair: Pair) -> int:
    """How many subscriptions of the client the server has."""
    return sum(len(session.interests) for session in pair.server.sessions)


def consumers(pair: Pair) -> set[str]:
    """The consumers without a given name."""
    return {*pair.run_until(pair.js.consumer_names("S", now=pair.now))} - GIVEN


@pytest.mark.parametrize("verb", [*VERBS])
def test_nothing_is_left_at_any_step(verb: str) -> None:
    ended, steps = False, 0
    while not ended:
        pair = paired()
        had = interests(pair)
        ticket = VERBS[verb](pair)
        for _ in range(steps):
            ended = ticket.done
            pair.advance(DELAY)
        pair.client.abandon(ticket, pair.now)
        if not ended:
            assert ticket.done  # with an error, or with what is ended now
        pair.advance(1.0)
        assert interests(pair) == had, steps
        assert not consumers(pair), steps
        steps += 1
    assert steps > 3


def test_another_try_of_a_name_is_not_disturbed() -> None:
    """The first try is given up while it creates the consumer: that one is there for the second try, and stays."""
    for steps in range(1, 12):
        pair = paired()
        ticket = push(pair, durable="mine")
        pair.advance(steps * DELAY / 2)
        pair.client.abandon(ticket, pair.now)
        second = pair.run_until(push(pair, durable="mine"))
        pair.advance(1.0)
        assert second.error is None
        assert pair.run_until(pair.js.consumer_info("S", "mine", now=pair.now)).push_bound


def test_a_member_that_is_given_up_gives_back_what_has_come() -> None:
    pair = paired()
    first = pair.run_until(push(pair, queue="there"))
    pair.advance(1.0)
    assert first.pending_msgs == 3
    pair.client.abandon(first, pair.now)
    second = pair.run_until(push(pair, queue="there"))
    pair.advance(1.0)
    assert second.pending_msgs == 3


def test_a_consumer_whose_creation_was_not_answered_in_time_is_deleted() -> None:
    pair = paired()
    hasty = JetStream(pair.client, timeout=1.5 * DELAY)
    ticket = hasty.subscribe(SubscriptionSpec("s.*", "S"), now=pair.now, message_class=JSMsg)
    pair.advance(1.1 * DELAY)
    assert len(pair.server.api.streams["S"].consumers) == 2
    with pytest.raises(TimeoutError):
        pair.run_until(ticket)
    pair.advance(1.0)
    assert len(pair.server.api.streams["S"].consumers) == 1


def test_what_is_not_live_goes_on() -> None:
    pair = paired()
    ticket = pair.js.update_stream(StreamConfig("S", subjects=["s.*"], description="new"), now=pair.now)
    pair.client.abandon(ticket, pair.now)
    pair.client.abandon(None, pair.now)
    assert pair.run_until(ticket).config.description == "new"
    pair.client.abandon(ticket, pair.now)


def test_a_ticket_that_was_given_up_fails() -> None:
    pair = paired()
    ticket = push(pair)
    pair.client.abandon(ticket, pair.now)
    with pytest.raises(LocalProtocolError, match="has gone"):
        ticket.result()
    assert ticket in pair.client.take_completed()
    pair.client.abandon(ticket, pair.now)


def test_each_live_thing_has_its_end() -> None:
    pair = paired()
    had, js = interests(pair), pair.js
    pulled = js.pull_consumer(pair.run_until(VERBS["pull durable"](pair)).info, JSMsg)
    live: list[Live] = [
        Subscription(pair.client, "a"),
        pulled,
        js.batch_advisories("S"),
        js.get_batch("S", now=pair.now),
    ]
    pair.advance(DELAY)
    assert interests(pair) > had
    for each in live:
        pair.client.abandon(each, pair.now)
    pair.advance(1.0)
    assert interests(pair) == had
    with pytest.raises(NotImplementedError):
        Live().abandon(0.0)


def test_a_drain_that_lets_others_take_deletes_in_the_end() -> None:
    pair = paired()
    subscribed = pair.run_until(push(pair))
    pair.advance(1.0)
    drained = pair.client.drainable
    assert subscribed in drained
    pair.run_until(pair.client.drain(pair.now, drained))
    assert len(consumers(pair)) == 1
    for message in subscribed.pop_many(10, pair.now):
        message.ack()
    pair.run_until(pair.client.run(end(drained, pair.now)))
    assert not consumers(pair)
    assert not subscribed.is_awaited


def test_a_fetch_that_a_drain_ends_is_awaited_until_it_is_asked_again() -> None:
    pair = paired()
    js = pair.js
    pulled = js.pull_consumer(pair.run_until(VERBS["pull durable"](pair)).info, JSMsg)
    waiting = pulled.fetch(10, now=pair.now, expires=5.0)
    pair.advance(1.0)
    pair.run_until(pair.client.drain(pair.now, [pulled]))
    assert waiting.done.done
    assert pulled.is_awaited
    assert len(pulled.take(waiting)) == 3
    with pytest.raises(ConnectionClosedError):
        pulled.fetch(10, now=pair.now, expires=5.0)
    assert not pulled.is_awaited


def test_a_fetch_that_has_nothing_is_not_awaited_after_its_end() -> None:
    pair = paired()
    pulled = pair.js.pull_consumer(pair.run_until(VERBS["pull durable"](pair)).info, JSMsg)
    first = pulled.fetch(3, now=pair.now, expires=5.0)
    pair.run(lambda: first.done.done)
    waiting = pulled.fetch(10, now=pair.now, expires=5.0)
    pair.run_until(pair.client.drain(pair.now, [pulled]))
    assert isinstance(waiting.done.error, ConnectionClosedError)
    assert not pulled.is_awaited


def test_a_member_that_is_given_up_after_the_end_gives_nothing_back() -> None:
    pair = paired()
    first = pair.run_until(push(pair, queue="there"))
    pair.advance(1.0)
    pair.client.close(pair.now)
    pair.client.abandon(first, pair.now)
    assert first.pending_msgs == 0


def test_a_script_that_waits_for_nothing_has_nothing_to_end() -> None:
    pair = paired()

    def script() -> Generator[Ticket[Any], Any, int]:
        return 7
        yield  # which makes it a generator

    ticket = pair.client.scripts.bring(script())
    pair.client.abandon(ticket, pair.now)
    assert ticket.result() == 7
