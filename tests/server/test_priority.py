"""Priority groups: who of those who pull gets the next message."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.grammar.consumer import PriorityGroup
from jsproto.grammar.headers import last_value
from jsproto.wire.frames import Msg
from tests.marks import promise
from tests.server.consuming import ADVISORY, Shop

SECOND = 1_000_000_000
FOR_LONG = {"expires": 60 * SECOND, "group": "g"}


def shop(policy: str, messages: int = 0, **options: Any) -> Shop:
    return Shop(messages=messages, priority_policy=policy, priority_groups=["g", "h"], **options)


class Pinning(Shop):
    """A consumer that pins clients. A and B are clients, with an inbox each. Pins are numbered as they appear."""

    def __init__(self, messages: int = 0, timeout: float = 5.0) -> None:
        self.pins: list[bytes] = []
        super().__init__(
            messages=messages, priority_policy="pinned_client", priority_groups=["g", "h"], priority_timeout=timeout
        )
        self.post.listening |= {("A", None), ("B", None)}

    def brief(self, inbox: str, message: Msg) -> str:
        if inbox.startswith(ADVISORY):
            return super().brief(inbox, message)
        pin = last_value(message.header or b"", b"Nats-Pin-Id")
        if not pin:
            return f"{inbox}: {super().brief(inbox, message)}"
        if pin not in self.pins:
            self.pins.append(pin)
        return f"{inbox}: {message.payload.decode()} by pin {self.pins.index(pin)}"

    def ask(self, who: str, batch: int = 1, pin: int | None = None, **more: Any) -> list[str]:
        said = {} if pin is None else {"id": self.pins[pin].decode()}
        return self.pull(FOR_LONG | {"batch": batch} | said | more, who)

    def arrive(self) -> list[str]:
        self.store("s.a")
        return self.heard()


# -- overflow ----------------------------------------------------------------------------------------------------------


def test_overflow_groups_wait_for_a_long_queue() -> None:
    s = shop("overflow", 1)
    assert s.pull({"group": "g", "min_pending": 2, "batch": 2}) == []
    assert s.pull({"group": "g", "min_ack_pending": 1}) == []
    assert s.pull({"group": "h"}) == ["1:1:1:0"]
    s.store("s.a", "s.a")
    assert sorted(s.heard()) == ["2:1:2:1", "3:1:3:0"]


# -- prioritized -------------------------------------------------------------------------------------------------------


@promise("a lower `priority` goes first")
def test_lower_priorities_go_first_and_equal_ones_take_turns() -> None:
    s = shop("prioritized")
    for name, priority in (("d", 2), ("b", 1), ("c", 1), ("a", 0)):
        s.post.listening.add((name, None))
        assert s.pull(FOR_LONG | {"batch": 2, "priority": priority}, name) == []
    assert s.pull(FOR_LONG) == []  # the highest unless it says another, after the one that was there
    assert s.pull(b"2", "r") == []  # without a group: after all
    s.store(*["s.a"] * 11)
    order = "".join(inbox.replace("in", "i") for inbox, _ in s.post.sent)
    assert order == "aiabcbcddrr"


# -- pinned ------------------------------------------------------------------------------------------------------------


def test_the_first_client_to_be_served_is_pinned() -> None:
    p = Pinning()
    assert p.ask("A", 3) == []
    assert p.ask("B", 3) == []
    assert p.arrive() == ["PINNED", "A: x by pin 0"]
    assert p.arrive() == ["A: x by pin 0"]
    pinned = PriorityGroup("g", p.pins[0].decode(), p.context.timestamp(p.now))
    assert p.consumer.info(p.now).priority_groups == [pinned]
    assert p.ask("A", 1, 0) == []
    assert p.arrive() == ["A: x by pin 0"]


def test_a_pinned_client_that_does_not_ask_loses_its_place() -> None:
    p = Pinning()
    p.ask("A", 3)
    assert p.arrive() == ["PINNED", "A: x by pin 0"]
    p.ask("B", 1)
    assert p.advance(4) == []
    assert p.ask("A", 1, 0) == []  # it is still there
    assert p.advance(4.9) == []
    assert p.advance(0.1) == ["UNPINNED timeout"]
    assert p.consumer.info(p.now).priority_groups == [PriorityGroup("g")]
    assert p.arrive() == ["A: 423 Nats-Wrong-Pin-Id 2 0", "PINNED", "B: x by pin 1"]


def test_another_id_is_refused() -> None:
    p = Pinning(1)
    assert p.ask("A") == ["PINNED", "A: x by pin 0"]
    assert p.pull(FOR_LONG | {"id": "nope"}, "B") == ["B: 423 Nats-Pin-Id mismatch"]
    p.consumer.unpin("g", p.now)
    assert p.heard() == ["UNPINNED admin"]
    assert p.ask("A", 1, 0) == []  # nobody is pinned now, so it may come out
    assert p.arrive() == ["A: 423 Nats-Wrong-Pin-Id 1 0"]
    assert p.ask("B") == ["PINNED", "B: x by pin 1"]


def test_who_waits_is_pinned_when_the_other_is_unpinned() -> None:
    p = Pinning(1)
    p.ask("A")
    p.ask("B")
    p.store("s.a")
    assert p.heard() == []
    p.consumer.unpin("g", p.now)
    assert p.heard() == ["UNPINNED admin", "PINNED", "B: x by pin 1"]


def test_a_new_leader_does_not_know_who_was_pinned() -> None:
    p = Pinning(1)
    p.ask("A")
    p.consumer.lead(p.now)
    assert p.consumer.info(p.now).priority_groups == [PriorityGroup("g")]
    assert p.ask("B") == []
    assert p.arrive() == ["PINNED", "B: x by pin 1"]


def test_a_request_without_a_group_is_served_while_nobody_is_pinned() -> None:
    s = shop("pinned_client", 1)
    s.consumer.receive(Msg(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"", b"in", None, b""), s.now)
    ((inbox, message),) = s.post.sent
    assert (inbox, message.header) == ("in", b"NATS/1.0\r\nNats-Pin-Id: \r\n\r\n")


def test_a_client_that_cannot_take_the_message_is_not_pinned() -> None:
    p = Pinning()
    p.ask("A", max_bytes=1)
    p.ask("B")
    assert p.arrive() == ["A: 409 Message Size Exceeds MaxBytes 1 1", "PINNED", "B: x by pin 0"]


@pytest.mark.parametrize(
    ("policy", "body", "why"),
    [
        ("pinned_client", {}, "Priority Group missing"),
        ("pinned_client", {"group": "x"}, "Invalid Priority Group"),
        ("pinned_client", {"group": "g", "min_pending": 1}, "Not a Overflow Priority consumer"),
        ("prioritized", {"group": "g", "min_ack_pending": 1}, "Not a Overflow Priority consumer"),
        ("overflow", {"group": "g", "id": "x"}, "Not a Pinned Client Priority consumer"),
        ("prioritized", {"group": "g", "priority": 10}, "Priority must be between 0 and 9"),
        ("overflow", {"group": "g", "priority": -1}, "Priority must be between 0 and 9"),
    ],
)
def test_requests_that_make_no_sense(policy: str, body: dict[str, Any], why: str) -> None:
    assert shop(policy, 1).pull(body) == [f"400 Bad Request - {why}"]
