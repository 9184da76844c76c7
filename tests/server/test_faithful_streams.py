"""What streams do with messages: the role does as a real server does, step by step."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.server.sides import OnARealServer, OnTheRole, Side, without_times

SECOND: Final = 10**9
MOMENT: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")
TTLS: Final = ("1", "2s", "1500ms", "900ms", "0", "0s", "never", "NEVER", "-1", "x", "1h", "", "00", "01")
PURGES: Final[tuple[Any, ...]] = (
    b"", {"filter": "s.a"}, {"keep": 2}, {"seq": 4}, {"filter": "s.a", "keep": 1}, {"filter": "s.*", "seq": 3},
    {"seq": 99}, {"seq": 1}, {"filter": "t"}, {"seq": 2, "keep": 2}, {"filter": "s.a", "seq": 99},
)  # fmt: skip
DELETIONS: Final[tuple[Any, ...]] = (
    {"seq": 2}, {"seq": 2}, {"seq": 3, "no_erase": True}, {"seq": 0}, {"seq": 77}, {}, b"", {"seq": 5, "x": 1},
)  # fmt: skip
PAGES: Final[tuple[Any, ...]] = (
    b"", {"offset": 1}, {"offset": 9}, {"offset": -1}, {"subject": "a.x"}, {"subject": "*.x"}, {"subject": "z"},
    {"x": 1}, b"junk",
)  # fmt: skip


def make(side: Side, name: str = "S", **options: Any) -> Any:
    """Make a stream anew. Returns the answer, without its configuration when that was taken."""
    side.api(f"STREAM.DELETE.{name}")
    body = {"name": name, "subjects": [f"{name.lower()}.>"], "storage": "memory", **options}
    return without_times(side.api(f"STREAM.CREATE.{name}", body))


def stored(side: Side, name: str = "S") -> list[Any]:
    """Sequence, subject, headers and payload of each message, without times."""
    found: list[Any] = []
    state = side.api(f"STREAM.INFO.{name}")["state"]
    for seq in range(1, state["last_seq"] + 1):
        answer = side.api(f"STREAM.MSG.GET.{name}", {"seq": seq})
        if "message" in answer:
            one = answer["message"]
            header = MOMENT.sub(b"<time>", b64decode(one.get("hdrs", "")))
            found.append((seq, one["subject"], header, b64decode(one.get("data", ""))))
    return found


def state(side: Side, name: str = "S") -> Any:
    return without_times(side.api(f"STREAM.INFO.{name}")["state"])


def transforms(side: Side) -> Iterator[Any]:
    for transform in (
        {"src": "s.*.*", "dest": "t.$2.x.$1"}, {"src": "s.>", "dest": "u.>"}, {"src": "", "dest": "v.>"},
        {"src": "s.a", "dest": "w"}, {"src": "s.*", "dest": "s.{{wildcard(1)}}.{{Wildcard(1)}}"},
        {"src": "s.>", "dest": ""},
    ):  # fmt: skip
        yield transform, make(side, subject_transform=transform, allow_atomic=True)
        yield side.ask("s.a", b"1"), side.ask("s.a.b", b"2")
        yield side.ask("s.a", b"3", {"Nats-Expected-Last-Subject-Sequence": "1"})
        batch = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
        yield side.ask("s.c", b"4", batch)["count"]
        yield stored(side)
    for transform in ({"src": "s..a", "dest": "u"}, {"src": "s.*", "dest": "u.$2"}, {"src": "s.*", "dest": "u.*"}):
        yield transform, make(side, subject_transform=transform)["error"]["err_code"]


def republishing(side: Side) -> Iterator[Any]:
    yield "kept", make(side, "R", subjects=["r.>", "q"])["config"]["name"]
    for republish in (
        {"src": "s.>", "dest": "r.>"}, {"dest": "r.>"}, {"src": "s.*", "dest": "r.$1.y"},
        {"src": "s.a", "dest": "q", "headers_only": True},
    ):  # fmt: skip
        yield republish, make(side, republish=republish)
        for subject, headers in (("s.a", None), ("s.a", {"A": "b"}), ("s.b.c", None), ("s.a", {"Nats-Msg-Id": "1"})):
            yield side.ask(subject, b"payload", headers)
        yield side.ask("s.a", b"again", {"Nats-Msg-Id": "1"})
        side.until(lambda: side.api("STREAM.INFO.R")["state"]["messages"] >= 3)
        yield stored(side, "R")
        side.api("STREAM.PURGE.R")
        side.api("STREAM.DELETE.R")
        make(side, "R", subjects=["r.>", "q"])
    for republish in ({"src": "s.>", "dest": "s.x.>"}, {"src": "*", "dest": "r.$2"}, {"src": "s.>", "dest": "r"}):
        yield republish, make(side, republish=republish)
    yield make(side, republish={"dest": ">"}, subject_transform={"src": "s.>", "dest": "m.>"})
    side.api("STREAM.DELETE.R")


def times_to_live(side: Side) -> Iterator[Any]:
    for options in ({}, {"allow_msg_ttl": True}, {"allow_msg_ttl": True, "subject_delete_marker_ttl": 5 * SECOND}):
        yield options, make(side, **options)
        for ttl in TTLS:
            yield ttl, side.ask("s.a", b"x", {"Nats-TTL": ttl})
        yield stored(side)


def ends(side: Side) -> Iterator[Any]:
    """Messages end by their own time, or by the age of all. Markers take their place, and end as well."""
    make(side, allow_msg_ttl=True)
    for subject, ttl in (("s.a", "1"), ("s.b", "1h"), ("s.c", ""), ("s.d", "never"), ("s.a", "")):
        side.ask(subject, b"x", {"Nats-TTL": ttl} if ttl else None)
    side.until(lambda: side.api("STREAM.INFO.S")["state"]["messages"] == 4)
    yield stored(side), state(side)
    make(side, allow_msg_ttl=True, max_age=SECOND)
    for subject, ttl in (("s.a", ""), ("s.b", "1h"), ("s.d", "never")):
        side.ask(subject, b"x", {"Nats-TTL": ttl} if ttl else None)
    side.until(lambda: side.api("STREAM.INFO.S")["state"]["messages"] == 1)
    yield stored(side), state(side)
    make(side, subject_delete_marker_ttl=2 * SECOND, max_age=SECOND)
    for subject in ("s.a", "s.a", "s.b"):
        side.ask(subject, b"x")
    side.until(lambda: side.api("STREAM.INFO.S")["state"]["last_seq"] == 5)
    side.until(lambda: side.api("STREAM.INFO.S")["state"]["messages"] == 2)
    yield sorted((subject, header, payload) for _, subject, header, payload in stored(side))
    side.until(lambda: side.api("STREAM.INFO.S")["state"]["messages"] == 0)
    yield state(side)
    make(side, subject_delete_marker_ttl=SECOND)
    side.ask("s.a", b"x", {"Nats-TTL": "1"})
    side.ask("s.b", b"x", {"Nats-TTL": "1", "KV-Operation": "PURGE"})
    side.until(lambda: side.api("STREAM.INFO.S")["state"]["last_seq"] == 3)
    side.until(lambda: side.api("STREAM.INFO.S")["state"]["messages"] == 0)
    yield state(side)


def counters(side: Side) -> Iterator[Any]:
    yield make(side, allow_msg_counter=True)
    for subject, increment in (
        ("s.a", "1"), ("s.a", "+41"), ("s.a", "-50"), ("s.b", "0"), ("s.b", "1234567890123456789012345"), ("s.b", "x"),
        ("s.b", "1.5"), ("s.b", ""), ("s.c", "007"), ("s.c", "-0"), ("s.c", "1_000"),
    ):  # fmt: skip
        yield increment, side.ask(subject, b"", {"Nats-Incr": increment, "A": "b"})
    yield side.ask("s.a", b""), side.ask("s.a", b"5", {"Nats-Incr": "1"})
    for name, value in (
        ("Nats-Rollup", "sub"), ("Nats-Expected-Stream", "S"), ("Nats-Expected-Last-Sequence", "0"),
        ("Nats-Expected-Last-Subject-Sequence", "3"), ("Nats-Expected-Last-Msg-Id", "x"), ("Nats-TTL", "1"),
    ):  # fmt: skip
        yield name, side.ask("s.a", b"", {"Nats-Incr": "1", name: value})
    for _ in range(2):
        yield side.ask("s.a", b"", {"Nats-Incr": "5", "Nats-Msg-Id": "1"})
    yield stored(side), state(side)
    body = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
    yield without_times(side.api("STREAM.UPDATE.S", body))
    make(side)
    yield side.ask("s.a", b"", {"Nats-Incr": "1"}), side.ask("s.a", b"", {"Nats-Incr": "x"})


def management(side: Side) -> Iterator[Any]:
    """Purges, deletions, lists, account and rollups."""
    for body in PURGES:
        make(side, max_msgs_per_subject=9)
        for number, subject in enumerate(("s.a", "s.b", "s.a", "s.c", "s.b", "s.a")):
            side.publish(subject, b"%d" % number)
        yield body, side.api("STREAM.PURGE.S", body), state(side), stored(side)
    make(side, allow_rollup_hdrs=True)
    for subject in ("s.a", "s.b", "s.a", "s.b", "s.c"):
        side.publish(subject, b"x")
    for body in DELETIONS:
        yield body, side.api("STREAM.MSG.DELETE.S", body), state(side)
    for subject, how in (("s.a", "sub"), ("s.b", "all"), ("s.b", "some"), ("s.b", "SUB")):
        yield side.ask(subject, b"r", {"Nats-Rollup": how}), state(side), stored(side)
    for name in ("B", "A", "C"):
        make(side, name)
        for consumer in ("c2", "c1"):
            config = {"name": consumer, "durable_name": consumer, "ack_policy": "explicit"}
            side.api(f"CONSUMER.CREATE.{name}.{consumer}", {"stream_name": name, "config": config})
    for body in (
        b"",
        {"offset": 1},
        {"offset": 9},
        {"offset": -1},
        {"subject": "a.x"},
        {"subject": "*.x"},
        {"subject": "z"},
        {"x": 1},
        b"junk",
    ):
        yield body, side.api("STREAM.NAMES", body)
        listed = side.api("STREAM.LIST", body)
        yield body, [one["config"]["name"] for one in listed.pop("streams") or ()], listed
        yield side.api("CONSUMER.NAMES.A", body)
        listed = side.api("CONSUMER.LIST.A", body)
        yield [one["name"] for one in listed.pop("consumers")], listed
    account = side.api("INFO")
    account.pop("api")
    yield account
    for name in ("S", "A", "B", "C"):
        yield side.api(f"STREAM.DELETE.{name}"), side.api(f"STREAM.DELETE.{name}")


STEPS: Final[tuple[Callable[[Side], Iterator[Any]], ...]] = (
    transforms, republishing, times_to_live, ends, counters, management,
)  # fmt: skip


@pytest.mark.parametrize("steps", STEPS)
def test_the_role_goes_through_all_steps(steps: Callable[[Side], Iterator[Any]]) -> None:
    assert sum(1 for _ in steps(OnTheRole())) > 2


@pytest.mark.server
@pytest.mark.parametrize("steps", STEPS)
def test_both_do_the_same(steps: Callable[[Side], Iterator[Any]], real: OnARealServer) -> None:
    for here, there in zip(steps(OnTheRole()), steps(real), strict=True):
        assert here == there
