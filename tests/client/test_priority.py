"""Pulling in a priority group: what is said, whose pin it is, what a consumer does not do."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.client.consume.priority import Priority
from jsproto.errors import ConfigMismatchError, LocalProtocolError, PinnedError
from tests.client.pulling import TIMED_OUT, Pulling, failed

LEADER = "409 Leadership Change\r\nNats-Pending-Messages: 3\r\nNats-Pending-Bytes: 0"


class Pinned(Pulling):
    """Pulling from a consumer that pins clients."""

    def __init__(self) -> None:
        config: dict[str, Any] = {"priority_groups": ["g"], "priority_policy": "pinned_client"}
        super().__init__(priority=Priority("g"), priority_timeout=40, **config)

    def pinned(self, pin: bytes, *payloads: bytes) -> None:
        self.messages(*payloads, header=b"NATS/1.0\r\nNats-Pin-Id: %b\r\n\r\n" % pin)


WRONG_PIN = "423 Nats-Wrong-Pin-Id\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: 0"


def test_a_pinned_client_says_its_pin() -> None:
    pulling = Pinned()
    fetch = pulling.fetch(3)
    request = pulling.request()
    assert request["group"] == "g"
    assert "id" not in request
    pulling.pinned(b"abc", b"1")
    pulling.pinned(b"", b"2")  # of a request without a group
    pulling.messages(b"3")
    assert pulling.taken(fetch) == [b"1", b"2", b"3"]
    fetch = pulling.fetch(1)
    request = pulling.request()
    assert request["id"] == "abc"
    pulling.status(request, LEADER)
    pulling.advance(0.05)
    assert pulling.request()["id"] == "abc"


def test_the_pin_is_looked_for_in_each_of_many_messages_at_once() -> None:
    pulling = Pinned()
    fetch = pulling.fetch(20)
    pulling.at_once(*[b"0"] * 10)
    pulling.at_once(*[b"1"] * 10, header=b"NATS/1.0\r\nNats-Pin-Id: abc\r\n\r\n")
    assert pulling.taken(fetch) == [b"0"] * 10 + [b"1"] * 10
    pulling.published()
    pulling.fetch(1)
    assert pulling.request()["id"] == "abc"


@pytest.mark.parametrize("waits", [True, False])
def test_a_pin_that_is_lost_is_not_said_again(waits: bool) -> None:
    pulling = Pinned()
    fetch = pulling.fetch(1)
    pulling.pinned(b"abc", b"1")
    pulling.taken(fetch)
    pulling.published()
    fetch = pulling.fetch(1) if waits else pulling.no_wait(1)
    request = pulling.request()
    assert request["id"] == "abc"
    pulling.status(request, "423 Nats-Pin-Id mismatch")
    request = pulling.request()  # at once
    assert "id" not in request
    pulling.status(request, "423 Nats-Pin-Id mismatch")  # which no server does
    pulling.advance(0.05)
    assert len(pulling.requests()) == waits
    assert isinstance(failed(fetch), type(None) if waits else PinnedError)


def test_a_fetch_that_loses_its_pin_when_its_time_is_over() -> None:
    pulling = Pinned()
    fetch = pulling.fetch(2, 5)
    pulling.pinned(b"abc", b"1")
    pulling.status(pulling.request(), TIMED_OUT % (1, 0))
    assert pulling.taken(fetch) == [b"1"]
    fetch = pulling.fetch(2, 5)
    pulling.advance(5)
    pulling.status(pulling.request(), WRONG_PIN % 2)
    assert isinstance(failed(fetch), PinnedError)
    assert pulling.requests() == []


def test_a_newer_pin_is_kept_when_an_older_one_is_refused() -> None:
    pulling = Pinned()
    fetch = pulling.fetch(1)
    pulling.pinned(b"old", b"1")
    pulling.taken(fetch)
    pulling.published()
    fetch = pulling.fetch(2)
    request = pulling.request()
    pulling.pinned(b"new", b"2")
    pulling.status(request, WRONG_PIN % 1)
    assert pulling.request()["id"] == "new"
    pulling.pinned(b"new", b"3")
    assert pulling.taken(fetch) == [b"2", b"3"]


def test_fetches_after_the_one_that_was_pinned_say_the_pin_too() -> None:
    pulling = Pinned()
    first, second, third = pulling.fetch(1), pulling.fetch(2), pulling.fetch(3)
    requests = pulling.requests()
    assert [request.get("id") for request in requests] == [None] * 3
    pulling.pinned(b"abc", b"1")
    again = pulling.requests()
    assert [(request["id"], request["batch"]) for request in again] == [("abc", 2), ("abc", 3)]
    assert pulling.consumer.under_way == 5
    pulling.status(requests[1], TIMED_OUT % (2, 0))  # of nobody any more
    pulling.pinned(b"abc", b"2", b"3", b"4", b"5", b"6")
    assert [pulling.taken(fetch) for fetch in (first, second, third)] == [[b"1"], [b"2", b"3"], [b"4", b"5", b"6"]]


def test_a_stream_of_messages_keeps_its_pin() -> None:
    pulling = Pinned()
    pulling.consumer.start(now=pulling.now, max_msgs=10)
    request = pulling.request()
    assert request["expires"] == 20_000_000_000  # half of the time in which it must ask
    pulling.pinned(b"abc", b"1")
    pulling.status(request, TIMED_OUT % (9, 0))
    request = pulling.request()
    assert request["id"] == "abc"
    pulling.status(request, WRONG_PIN % 9)
    assert "id" not in pulling.request()  # at once
    assert pulling.events() == []


@pytest.mark.parametrize("policy", ["overflow", "prioritized"])
def test_where_nobody_is_pinned_a_message_that_says_a_pin_was_published_so(policy: str) -> None:
    pulling = Pulling(priority=Priority("g"), priority_groups=["g"], priority_policy=policy)
    fetch = pulling.fetch(1)
    pulling.messages(b"1", header=b"NATS/1.0\r\nNats-Pin-Id: abc\r\n\r\n")
    assert pulling.taken(fetch) == [b"1"]
    pulling.published()
    pulling.fetch(1)
    assert "id" not in pulling.request()  # which the server would refuse


def test_how_long_a_request_may_wait() -> None:
    overflow = {"priority_policy": "overflow", "priority_groups": ["g"], "priority_timeout": 5}
    for config, expires in (({}, 60), ({"max_expires": 50}, 50), (overflow, 60)):
        pulling = Pulling(priority=Priority("g" if config is overflow else None), **config)
        pulling.consumer.start(now=pulling.now, expires=60)
        assert pulling.request()["expires"] == expires * 1_000_000_000


def test_what_an_overflow_client_and_one_with_a_priority_say() -> None:
    pulling = Pulling(priority=Priority("g", 5, 7), priority_groups=["g"], priority_policy="overflow")
    pulling.fetch(1)
    request = pulling.request()
    assert (request["group"], request["min_pending"], request["min_ack_pending"]) == ("g", 5, 7)
    pulling = Pulling(priority=Priority("g", priority=0), priority_groups=["g"], priority_policy="prioritized")
    pulling.consumer.start(now=pulling.now)
    request = pulling.request()
    assert (request["group"], request["priority"]) == ("g", 0)


@pytest.mark.parametrize(
    "place",
    [
        {"min_pending": 1},
        {"priority": 0},
        {"group": ""},
        {"group": "g", "min_pending": 0},
        {"group": "g", "min_ack_pending": 1.5},
        {"group": "g", "priority": 10},
        {"group": "g", "priority": True},
    ],
)
def test_places_that_cannot_be(place: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Priority(**place)


@pytest.mark.parametrize(
    ("place", "policy", "words"),
    [
        (Priority(), "overflow", "is pulled from in a priority group: g, h"),
        (Priority("x"), "overflow", "has no priority group x"),
        (Priority("g", 1), "pinned_client", "are for overflow, not pinned_client"),
        (Priority("g", None, 1), "prioritized", "are for overflow, not prioritized"),
        (Priority("g", priority=1), "overflow", "is for prioritized, not overflow"),
    ],
)
def test_places_that_a_consumer_does_not_have(place: Priority, policy: str, words: str) -> None:
    with pytest.raises(ConfigMismatchError, match=words):
        Pulling(priority=place, priority_groups=["g", "h"], priority_policy=policy)
