"""What an update of a stream may change: field by field as a real server does, and several fields at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.server.sides import OnARealServer, OnTheRole, Side, without_times
from tests.server.test_faithful_streams import make
from tests.servers import STORE_NOT_CREATED

SECOND: Final = 10**9
BODY: Final[dict[str, Any]] = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    "name": ("S", "T"), "subjects": (["s.>"], ["s.a"], ["s.a", "t"], [], ["x.>"], None, ["o.>"], ["$JS.API.>"]),
    "retention": ("limits", "interest", "workqueue", None, "x"), "max_consumers": (-1, 5, 0, 1),
    "max_msgs": (-1, 5, 1, -2, 0), "max_bytes": (-1, 500, 50), "max_age": (0, 60 * SECOND, SECOND, 10**7),
    "max_msgs_per_subject": (-1, 1, 2, 0), "max_msg_size": (-1, 100, 5), "discard": ("old", "new"),
    "storage": ("memory", "file"), "num_replicas": (1, 0, -1), "no_ack": (False, True),
    "duplicate_window": (120 * SECOND, 60 * SECOND, SECOND, 0, None), "description": ("a", "b", None),
    "sealed": (False, True), "deny_delete": (False, True), "deny_purge": (False, True),
    "allow_rollup_hdrs": (False, True), "allow_direct": (False, True), "mirror_direct": (False, True),
    "first_seq": (None, 5, 10), "compression": ("none", "s2"),
    "subject_transform": (None, {"src": "s.>", "dest": "u.>"}, {"src": "s.*", "dest": "w.$1"}),
    "republish": (None, {"src": "s.>", "dest": "r.>"}, {"src": "s.a", "dest": "r"}),
    "mirror": (None, {"name": "O"}, {"name": "P"}), "sources": (None, [{"name": "O"}], [{"name": "P"}]),
    "discard_new_per_subject": (False, True), "allow_msg_ttl": (False, True),
    "consumer_limits": ({}, {"max_ack_pending": 5}, {"inactive_threshold": SECOND}, {"max_ack_pending": 2}),
    "subject_delete_marker_ttl": (None, SECOND, 2 * SECOND), "allow_atomic": (False, True),
    "allow_batched": (False, True), "allow_msg_counter": (False, True), "allow_msg_schedules": (False, True),
    "persist_mode": (None, "default", "async"), "metadata": (None, {"a": "b"}, {"_nats.x": "y"}),
    "placement": (None, {"cluster": "c"}, {"tags": ["t"]}),
}  # fmt: skip
# What a field needs beside it.
BESIDE: Final[dict[str, dict[str, Any]]] = {
    "mirror": {"subjects": None}, "persist_mode": {"storage": "file"},
    "discard_new_per_subject": {"discard": "new", "max_msgs_per_subject": 3},
}  # fmt: skip
# Those to which nothing is published here. A server can find the files of the stream that had the name before.
UNREAD: Final = frozenset({"mirror", "no_ack", "max_msg_size", "subjects", "storage", "persist_mode"})


def asked(side: Side, verb: str, config: dict[str, Any]) -> Any:
    """The answer to a configuration. None leaves a field out. Servers remove the files of a stream a moment later."""
    while True:
        answer = side.api(f"STREAM.{verb}.S", {name: value for name, value in config.items() if value is not None})
        if answer.get("error", {}).get("err_code") != STORE_NOT_CREATED:
            for source in (*answer.get("sources", ()), answer.get("mirror", {})):
                source.pop("active", None)  # when a server has begun to copy, which it does in its own time
            return without_times(answer)


def one_field(side: Side) -> Iterator[Any]:
    for name in ("O", "P"):
        make(side, name)
    for field, values in FIELDS.items():
        for before in values:
            for after in values:
                side.api("STREAM.DELETE.S")
                beside = BODY | BESIDE.get(field, {})
                made = asked(side, "CREATE", beside | {field: before})
                if "error" in made:
                    yield field, before, "create", made["error"]
                    continue
                for token in "ab" if field not in UNREAD else "":
                    side.ask(f"s.{token}", b"x" * 10)
                yield field, before, after, asked(side, "UPDATE", beside | {field: after})
    side.api("STREAM.DELETE.S")


def some_fields(side: Side) -> Iterator[Any]:
    for name in ("O", "P"):
        make(side, name)
    dice, names = random.Random(7), [name for name in FIELDS if name != "name"]
    for _ in range(400):
        side.api("STREAM.DELETE.S")
        before = BODY | {name: dice.choice(FIELDS[name]) for name in dice.sample(names, 3)}
        after = before | {name: dice.choice(FIELDS[name]) for name in dice.sample(names, 2)}
        made = asked(side, "CREATE", before)
        yield before, made
        if "error" not in made:
            yield before, after, asked(side, "UPDATE", after)
    side.api("STREAM.DELETE.S")


def consumers(side: Side) -> Iterator[Any]:
    """Consumers have to keep the limits that an update sets, and keep messages when it sets ``interest``."""
    for limits in ({"max_ack_pending": 50}, {"inactive_threshold": 60 * SECOND}, {"max_ack_pending": 500}, {}):
        side.api("STREAM.DELETE.S")
        asked(side, "CREATE", BODY)
        for name, options in (("c1", {"max_ack_pending": 100}), ("c2", {"inactive_threshold": 90 * SECOND})):
            config = {"name": name, "ack_policy": "explicit", "max_ack_pending": 10, **options}
            side.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
        yield limits, asked(side, "UPDATE", BODY | {"consumer_limits": limits})
        yield limits, asked(side, "UPDATE", BODY | {"consumer_limits": limits, "description": "again"})
    side.api("STREAM.DELETE.S")
    asked(side, "CREATE", BODY)
    config = {"name": "c", "ack_policy": "explicit", "filter_subject": "s.a"}
    side.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    for subject in ("s.a", "s.b"):
        side.ask(subject, b"x")
    yield asked(side, "UPDATE", BODY | {"retention": "interest"})["state"]
    yield asked(side, "UPDATE", BODY)["state"]


STEPS: Final[tuple[Callable[[Side], Iterator[Any]], ...]] = (one_field, some_fields, consumers)


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("steps", STEPS)
def test_both_change_the_same(steps: Callable[[Side], Iterator[Any]], real: OnARealServer) -> None:
    for here, there in zip(steps(OnTheRole()), steps(real), strict=True):
        assert here == there


def test_what_an_update_refuses() -> None:
    refused: dict[str, set[int]] = {}
    for field, *_, said in one_field(OnTheRole()):
        if "error" in said:
            refused.setdefault(field, set()).add(said["error"]["err_code"])
    assert refused == {
        "name": {10056}, "subjects": {10052, 10065}, "retention": {10025, 10052}, "max_age": {10052},
        "storage": {10052}, "num_replicas": {10133}, "deny_delete": {10052}, "deny_purge": {10052}, "mirror": {10055},
        "allow_msg_ttl": {10052}, "subject_delete_marker_ttl": {10052}, "allow_msg_counter": {10052},
        "allow_msg_schedules": {10052}, "persist_mode": {10052},
    }  # fmt: skip


def test_a_sealed_stream_takes_nothing_and_loses_nothing() -> None:
    side = OnTheRole()
    make(side, max_age=SECOND, allow_rollup_hdrs=True)
    config = asked(side, "UPDATE", BODY | {"sealed": True, "max_age": SECOND, "allow_rollup_hdrs": True})["config"]
    assert [config[name] for name in ("sealed", "deny_delete", "deny_purge", "discard")] == [True, True, True, "new"]
    assert [config[name] for name in ("max_age", "allow_rollup_hdrs")] == [0, False]
    said = asked(side, "CREATE", BODY | {"sealed": True})["error"]
    assert said["description"] == "stream configuration for create can not be sealed"


def test_consumers_have_to_keep_new_limits() -> None:
    said = list(consumers(OnTheRole()))
    assert [each[1].get("error", {}).get("description") for each in said[:8]] == [
        *["change to limits violates consumers: c1"] * 2, *["change to limits violates consumers: c2"] * 2, *[None] * 4,
    ]  # fmt: skip
    assert [state["messages"] for state in said[8:]] == [2, 2]


@pytest.mark.slow
def test_several_fields_at_once() -> None:
    assert sum(1 for _ in some_fields(OnTheRole())) > 400
