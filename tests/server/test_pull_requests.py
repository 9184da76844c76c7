"""Pull requests that wait: a request that changes nothing for the others makes nobody look at them."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.consume.advisories import Advisories
from jsproto.server.consume.priority import Priorities
from jsproto.server.consume.pull_requests import PullRequests, read_request
from jsproto.server.routing import MAX_REMOVALS, Removals
from jsproto.server.store.context import ServerContext
from jsproto.timers import earliest
from jsproto.wire.encoder import encode_pub, encode_sub, encode_unsub
from tests.effort import examples
from tests.server.consuming import Post, Shop
from tests.server.harness import Reader

MAX_WAITING = 512
SECOND = 1_000_000_000
BEATING = {"expires": 4 * SECOND, "idle_heartbeat": SECOND}


# -- how many looks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{}, {"expires": 10**10}, {"expires": 10**10, "no_wait": True}], ids=str)
def test_a_refused_request_looks_at_no_other(body: dict[str, Any]) -> None:
    shop = Shop()
    for _ in range(MAX_WAITING):
        assert shop.pull(body) == []
    shop.post.asked.clear()
    for _ in range(1_000):
        assert shop.pull(body) == ["409 Exceeded MaxWaiting"]
    assert shop.consumer.info(shop.now).num_waiting == MAX_WAITING
    assert shop.post.asked == []


def test_a_request_asks_for_its_own_subscriber_alone() -> None:
    shop = Shop()
    for number in range(MAX_WAITING):
        shop.post.listening.add((f"in.{number}", None))
        assert shop.pull({"expires": 10**10}, f"in.{number}") == []
    assert shop.post.asked == [f"in.{number}" for number in range(MAX_WAITING)]


def test_subscriptions_of_others_that_end_are_no_reason_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when each of many clients subscribes, asks, is refused and goes."""
    reader = Reader()
    reader.make()
    reader.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "max_waiting": 5}})
    asked: list[str] = []
    has_interest = type(reader.server).has_interest

    def note(server: Any, subject: str) -> bool:
        asked.append(subject)
        return has_interest(server, subject)

    monkeypatch.setattr(type(reader.server), "has_interest", note)

    def pull(number: int) -> int:
        inbox = b"in.%d" % number
        reader.say(encode_sub(inbox, None, b"s%d" % number))
        return len(reader.say(encode_pub(b"$JS.API.CONSUMER.MSG.NEXT.S.C", inbox, None, b'{"expires":10000000000}')))

    for number in range(5):
        assert pull(number) == 0
    asked.clear()
    for number in range(5, 105):
        assert pull(number) == 1
        reader.say(encode_unsub(b"s%d" % number))
    assert [subject for subject in asked if subject.startswith("in.")] == []
    reader.say(encode_unsub(b"s3"))
    assert pull(105) == 0
    assert reader.server.api.streams["S"].consumers["C"].info(reader.now).num_waiting == 5


@pytest.mark.parametrize("how", ["unsubscribe", "wildcard", "stream", "link", "leader"])
def test_whoever_ends_the_interest_ends_the_request(how: str) -> None:
    reader, asking = Reader(), b"$JS.API.CONSUMER.MSG.NEXT.S.C"
    reader.make()
    reader.make("IN")
    reader.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "max_waiting": 1}})
    reader.api("CONSUMER.DURABLE.CREATE.IN.C", {"stream_name": "IN", "config": {"durable_name": "C"}})
    other = reader.server.connect(0.0)
    other.receive_data(b"CONNECT {}\r\n" + encode_sub(b"link.1", None, b"1"), 0.0)
    reader.say(encode_sub(b"one.1", None, b"2") + encode_sub(b"wild.*", None, b"3"))
    inbox = {
        "unsubscribe": b"one.1", "wildcard": b"wild.1", "stream": b"in.1", "link": b"link.1",
        "leader": b"$JS.API.CONSUMER.MSG.NEXT.IN.C",
    }[how]  # fmt: skip
    assert reader.say(encode_pub(asking, inbox, None, b"")) == []
    (refused,) = reader.say(encode_pub(asking, b"i", None, b""))
    assert b"Exceeded MaxWaiting" in (refused.header or b"")
    if how == "unsubscribe":
        reader.say(encode_unsub(b"2"))
    elif how == "wildcard":
        reader.say(encode_unsub(b"3"))
    elif how == "stream":
        reader.api("STREAM.DELETE.IN")
    elif how == "link":
        other.receive_eof()
    else:
        reader.server.lose_leader("IN")
    assert reader.say(encode_pub(asking, b"i", None, b"")) == []
    (stored,) = [message for message in reader.say(encode_pub(b"s.1", None, None, b"x")) if message.subject == b"s.1"]
    assert stored.payload == b"x"


# -- the same as a look at each ----------------------------------------------------------------------------------------


class Looking(PullRequests):
    """Looks at each request each time."""

    __slots__ = ()

    def tidy(self, *args: Any, **options: Any) -> int:
        self._has_lost = True
        return super().tidy(*args, **options)


class Side:
    """Requests, and what they said."""

    def __init__(self, kind: type[PullRequests]) -> None:
        self.post = Post()
        self.post.listening = {("in.0", None), ("in.1", None)}
        self.said: list[tuple[str, bytes]] = []
        context = ServerContext(b"token")
        config = ConsumerConfig(durable_name="C", ack_policy="explicit", priority_policy="overflow")
        priorities = Priorities(config, Advisories("S", "C", context, self.post), context)
        self.requests = kind(
            5, lambda subject, status: self.said.append((subject, status)), self.post.has_interest, self.post.removals,
            priorities,
        )  # fmt: skip

    def do(self, verb: str, inbox: str, flag: bool, body: dict[str, Any], now: float) -> object:
        requests = self.requests
        if verb == "add" and not requests.is_full:
            requests.add(read_request(inbox, json.dumps(body).encode(), now))
        elif verb == "take":
            found = requests.take(2, int(flag), 0, now)
            return found and (found.reply, found.batch)
        elif verb == "tidy":
            return requests.tidy(now, lambda: b"beat", at_end=flag)
        elif verb == "leave":
            self.post.listening.discard((inbox, None))
            self.post.removals.add(inbox if flag else "in.*")
        elif verb == "come":
            self.post.listening.add((inbox, None))
        elif verb == "end":
            requests.end(b"end")
        return None


BODIES: list[dict[str, Any]] = [
    {"group": "g", "batch": batch, "max_bytes": most, "no_wait": no_wait, "min_pending": pending, **more}
    for batch, most, no_wait, pending, more in product(
        (1, 2, 3), (0, 0, 3, 4), (False, True), (0, 0, 1), ({}, {"expires": 3 * SECOND}, BEATING)
    )
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "take", "take", "tidy", "tidy", "leave", "come", "end", "later", "later"]),
        st.sampled_from(["in.0", "in.1"]),
        st.booleans(),
        st.sampled_from(BODIES),  # in one draw: a test has up to thirty
    ),
    min_size=10,
    max_size=30,
)  # fmt: skip


@settings(max_examples=examples(1_000))
@given(STEPS)
def test_what_is_said_is_what_a_look_at_each_says(steps: list[tuple[str, str, bool, dict[str, Any]]]) -> None:
    sides, now = (Side(PullRequests), Side(Looking)), 0.0
    for verb, inbox, flag, body in steps:
        now += (0.5 if flag else 2.0) if verb == "later" else 0.0
        found = [side.do(verb, inbox, flag, body, now) for side in sides]
        assert found[0] == found[1]
        assert sides[0].said == sides[1].said
        waiting = sides[0].requests._waiting
        assert sides[0].requests.deadline() == earliest([each.deadline() for each in waiting])
        assert len(waiting) == sides[0].requests._replies.total()


# -- which patterns have ended -----------------------------------------------------------------------------------------


def test_removals_tell_what_ended_since() -> None:
    removals = Removals()
    assert not removals.may_reach({"a"}, 0)
    removals.add("b")
    assert not removals.may_reach({"a"}, 0)
    removals.add("a")
    assert removals.may_reach({"a"}, 0)
    assert removals.may_reach({"a"}, 1)
    assert not removals.may_reach({"a"}, 2)
    removals.add("c.*")
    assert removals.may_reach({"a"}, 2)
    for _ in range(MAX_REMOVALS):
        removals.add("d")
    assert not removals.may_reach({"a"}, 3)
    assert removals.may_reach({"a"}, 2)  # it is forgotten what that was
