"""What a stream stores and keeps, with limits, expectations, message ids and purges, as a real server does."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.server.sides import OnARealServer, OnTheRole, Side, without_times
from tests.server.test_faithful_streams import make, state, stored

SECOND: Final = 10**9
MOMENT: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")
BODY: Final[dict[str, Any]] = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "max_msgs": (-1, 3, 5), "max_bytes": (-1, 200, 400), "max_msgs_per_subject": (-1, 1, 2), "discard": ("old", "new"),
    "discard_new_per_subject": (False, True), "allow_rollup_hdrs": (False, True), "max_msg_size": (-1, 60, 200),
    "deny_delete": (False, True), "deny_purge": (False, False, True), "allow_atomic": (False, True),
    "retention": ("limits", "limits", "interest", "workqueue"), "allow_msg_ttl": (False, True),
    "subject_delete_marker_ttl": (None, None, 2 * SECOND), "allow_msg_counter": (False, False, False, True),
    "allow_msg_schedules": (False, False, True), "first_seq": (None, None, 10),
    "subject_transform": (None, None, None, {"src": "s.>", "dest": "s.x.>"}), "duplicate_window": (None, 10 * SECOND),
}  # fmt: skip
HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "Nats-Msg-Id": ("1", "2", "3"), "Nats-Rollup": ("sub", "all", "x"), "Nats-Expected-Stream": ("S", "T"),
    "Nats-Expected-Last-Sequence": ("0", "2", "4"), "Nats-Expected-Last-Subject-Sequence": ("0", "1", "3"),
    "Nats-Expected-Last-Subject-Sequence-Subject": ("s.a",), "Nats-Expected-Last-Msg-Id": ("1", "2"),
    "Nats-TTL": ("1h", "never", "x"), "Nats-Incr": ("1", "-5", "x"), "Nats-Schedule": ("@every 1h",),
    "Nats-Schedule-Target": ("s.t", "s.a"), "Nats-Schedule-Next": ("purge",), "Nats-Scheduler": ("s.a", "s.z"),
    "A": ("", "b" * 30),
}  # fmt: skip
READS: Final[tuple[Any, ...]] = (
    {"seq": 0}, {"seq": 2}, {"seq": 5}, {"last_by_subj": "s.a"}, {"last_by_subj": "s.*"}, {"seq": 2, "no_hdr": True},
    {"next_by_subj": "s.>", "seq": 3}, {"seq": 1, "last_by_subj": "s.a"}, {"batch": 2, "seq": 1},
    {"max_bytes": 5, "seq": 1}, {"multi_last": ["s.a"]}, {"start_time": "1960-01-01T00:00:00Z"}, {},
)  # fmt: skip
PURGES: Final[tuple[Any, ...]] = (
    b"", {"filter": "s.a"}, {"keep": 1}, {"seq": 1}, {"seq": 5}, {"filter": "s.*", "keep": 1}, {"filter": ">"},
    {"filter": ">", "seq": 4}, {"filter": ">", "keep": 1},
)  # fmt: skip
TIGHT: Final[tuple[dict[str, Any], ...]] = (
    {"max_msgs": 2}, {"max_bytes": 150}, {"max_msgs_per_subject": 1}, {"discard": "old"},
)  # fmt: skip
CONSUMER: Final = {"name": "c", "durable_name": "c", "ack_policy": "explicit", "filter_subject": "s.a"}


def program(seed: int) -> Callable[[Side], Iterator[Any]]:
    """A stream with some options, and 25 random requests."""
    dice = random.Random(seed)
    options = {name: dice.choice(values) for name, values in OPTIONS.items() if dice.random() < 0.5}
    options = {name: value for name, value in options.items() if value is not None}
    steps: list[tuple[str, Any, Any]] = []
    for _ in range(25):
        kind = dice.random()
        if kind < 0.75:
            names = dice.sample(sorted(HEADERS), dice.choice((0, 0, 1, 1, 2, 3)))
            payload = b"x" * dice.choice((0, 0, 1, 10, 60, 150))
            steps.append(
                (dice.choice(("s.a", "s.b", "s.c")), payload, {name: dice.choice(HEADERS[name]) for name in names})
            )
        elif kind < 0.8:
            steps.append(("$JS.API.STREAM.PURGE.S", dice.choice(PURGES), None))
        elif kind < 0.86:
            steps.append(("$JS.API.STREAM.MSG.DELETE.S", {"seq": dice.randrange(1, 12)}, None))
        elif kind < 0.95:
            steps.append(("$JS.API.STREAM.MSG.GET.S", dice.choice(READS), None))
        else:
            steps.append(("$JS.API.STREAM.UPDATE.S", BODY | options | dice.choice(TIGHT), None))

    def run(side: Side) -> Iterator[Any]:
        yield options, make(side, **options)
        if "error" in side.api("STREAM.INFO.S"):
            return
        if options.get("retention") in ("interest", "workqueue"):
            side.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": CONSUMER})
        for subject, body, headers in steps:
            if subject.startswith("$JS"):
                answer = side.api(subject.removeprefix("$JS.API."), body)
                answer.get("message", {}).pop("time", None)
                yield subject, body, without_times(answer), state(side)
            else:
                yield subject, body, headers, side.ask(subject, body, headers or None), state(side)
        yield [(seq, subject, MOMENT.sub(b"", header), payload) for seq, subject, header, payload in stored(side)]

    return run


def purges(side: Side) -> Iterator[Any]:
    """Purges of a stream that has nothing, and of one that has one message."""
    number = 0
    for storage in ("memory", "file"):
        for body in PURGES:
            for first in (0, 1, 7):
                number += 1
                name = f"P{number}"
                config = {"name": name, "subjects": [f"{name.lower()}.>"], "storage": storage, "first_seq": first}
                side.api(f"STREAM.CREATE.{name}", config)
                for _ in range(2):
                    yield body, side.api(f"STREAM.PURGE.{name}", body), state(side, name)
                    yield side.ask(f"{name.lower()}.a", b"x"), state(side, name)
                side.api(f"STREAM.DELETE.{name}")


def nobody(side: Side) -> Iterator[Any]:
    """Messages to a stream with retention ``interest`` that no consumer takes."""
    make(side, retention="interest", allow_atomic=True, allow_msg_ttl=True, allow_rollup_hdrs=True)
    for name, value in (
        ("Nats-TTL", "x"), ("Nats-TTL", "1h"), ("Nats-Msg-Id", "1"), ("Nats-Msg-Id", "1"),
        ("Nats-Expected-Last-Sequence", "9"), ("Nats-Rollup", "sub"), ("Nats-Rollup", "x"),
    ):  # fmt: skip
        yield name, side.ask("s.a", b"x", {name: value}), state(side)
    batch = {f"Nats-Batch-{name}": "1" for name in ("Id", "Sequence", "Commit")}
    yield side.ask("s.a", b"x", batch | {"Nats-TTL": "x"}), side.ask("s.a", b"x", batch), state(side)
    for most, size in ((1, -1), (-1, 60)):
        make(side, retention="interest", discard="new", allow_rollup_hdrs=True, max_msgs=most, max_bytes=size)
        side.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": CONSUMER})
        for subject in ("s.b", "s.a", "s.b", "s.b", "s.a", "s.b"):
            yield subject, side.ask(subject, b"x" * 40), state(side)
        yield side.ask("s.a", b"x", {"Nats-TTL": "x"}), side.ask("s.b", b"x", {"Nats-Rollup": "all"}), state(side)


@pytest.mark.server
@pytest.mark.parametrize("steps", [purges, nobody])
def test_both_keep_the_same(steps: Callable[[Side], Iterator[Any]], real: OnARealServer) -> None:
    for here, there in zip(steps(OnTheRole()), steps(real), strict=True):
        assert here == there


@pytest.mark.server
def test_both_do_the_same_in_random_programs(real: OnARealServer) -> None:
    for seed in range(60):
        steps = program(seed)
        for here, there in zip(steps(OnTheRole()), steps(real), strict=True):
            assert (seed, here) == (seed, there)


def test_a_purged_stream_has_a_first_sequence() -> None:
    said = list(purges(OnTheRole()))
    assert [each[2]["first_seq"] for each in said[::12]][:9] == [1, 0, 0, 0, 5, 0, 1, 4, 0]
    assert [each[2]["first_seq"] for each in said[4::12]][:9] == [1, 1, 1, 1, 5, 1, 1, 4, 1]


def test_what_nobody_takes_uses_a_sequence() -> None:
    said = list(nobody(OnTheRole()))
    assert [each[1].get("seq") for each in said[:7]] == [1, 2, 3, 3, 0, 4, 0]
    assert said[6][2] == {"messages": 0, "bytes": 0, "first_seq": 5, "last_seq": 4, "consumer_count": 0}
    assert [each[1].get("error", {}).get("err_code") for each in said[8:14]] == [None, None, None, None, 10077, None]
    assert said[13][2]["num_deleted"] == 3


def test_random_programs_run() -> None:
    assert sum(1 for seed in range(40) for _ in program(seed)(OnTheRole())) > 500
