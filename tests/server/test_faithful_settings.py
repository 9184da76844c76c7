"""Settings: the role takes, completes and refuses configurations as a real server does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.server.sides import OnARealServer, OnTheRole, Side, without_times

SECOND: Final = 10**9
STREAMS: Final[tuple[dict[str, Any], ...]] = (
    {}, {"max_msgs": -2}, {"max_msgs_per_subject": -5}, {"max_bytes": -2}, {"max_msg_size": -2}, {"max_consumers": -2},
    {"max_age": SECOND}, {"duplicate_window": SECOND, "max_age": 10 * SECOND}, {"subject_delete_marker_ttl": SECOND},
    {"subject_delete_marker_ttl": SECOND, "allow_msg_ttl": True}, {"allow_msg_schedules": True},
    {"subject_delete_marker_ttl": SECOND, "allow_msg_ttl": True, "allow_rollup_hdrs": True, "deny_purge": True},
    {"republish": {"dest": "r.>"}}, {"mirror": {"name": "O"}, "subjects": None},
    {"mirror": {"name": "O"}, "subjects": None, "mirror_direct": True},
)  # fmt: skip
CONSUMERS: Final[tuple[dict[str, Any], ...]] = (
    {}, {"max_deliver": -2}, {"max_waiting": -1}, {"max_ack_pending": -2}, {"max_batch": -1}, {"max_expires": -1},
    {"max_bytes": -1}, {"idle_heartbeat": -1}, {"inactive_threshold": -1}, {"priority_timeout": -1},
    {"backoff": [SECOND], "max_deliver": 3}, {"backoff": [SECOND], "ack_wait": SECOND, "max_deliver": 3},
    {"max_ack_pending": 0}, {"inactive_threshold": 0}, {"max_ack_pending": 6}, {"inactive_threshold": 20 * SECOND},
    {"ack_policy": "flow_control", "deliver_subject": "d.x"},
    {"ack_policy": "flow_control", "deliver_subject": "d.x", "flow_control": True, "idle_heartbeat": 5 * SECOND},
    {"ack_policy": "flow_control", "deliver_subject": "d.x", "flow_control": True, "idle_heartbeat": SECOND},
    {"ack_policy": "flow_control", "deliver_subject": "d.x", "idle_heartbeat": SECOND},
)  # fmt: skip
LIMITED: Final = {"max_ack_pending": 5, "inactive_threshold": 10 * SECOND}
VERBS: Final[tuple[tuple[str, Any], ...]] = (
    ("STREAM.SNAPSHOT.O", b""), ("STREAM.SNAPSHOT.NO", {"deliver_subject": "d"}), ("STREAM.SNAPSHOT.O", {}),
    ("STREAM.RESTORE.O", b""), ("STREAM.LEADER.STEPDOWN.O", b""), ("STREAM.PEER.REMOVE.O", {"peer": "x"}),
    ("STREAM.PEER.EVACUATE.O", b""), ("STREAM.CANCEL_MOVE.O", b""), ("CONSUMER.LEADER.STEPDOWN.O.C", b""),
    ("STREAM.CREATE.P", {"name": "P", "pedantic": "yes"}),
)  # fmt: skip


def settled(answer: Any) -> Any:
    """An answer without what differs between any two servers. Only the code of an error in JSON counts."""
    if answer.get("error", {}).get("err_code") == 10025:
        answer["error"]["description"] = "?"
    return without_times(answer)


def streams(side: Side) -> Any:
    side.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "storage": "memory", "allow_direct": True})
    for options in STREAMS:
        body = {"name": "T", "subjects": ["t.>"], "storage": "memory", "pedantic": True, **options}
        yield options, side.api("STREAM.CREATE.T", {name: value for name, value in body.items() if value is not None})
        side.api("STREAM.DELETE.T")
    side.api("STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"], "storage": "memory"})
    changed = {"name": "T", "subjects": ["t.>"], "storage": "memory", "max_msgs": -2}
    for pedantic in (True, False):
        yield "update", side.api("STREAM.UPDATE.T", changed | {"pedantic": pedantic})
    side.api("STREAM.DELETE.T")


def consumers(side: Side) -> Any:
    config = {"name": "T", "subjects": ["t.>"], "storage": "memory", "consumer_limits": LIMITED}
    side.api("STREAM.CREATE.T", config)
    for options in CONSUMERS:
        wanted = {"name": "C", "ack_policy": "explicit", "max_ack_pending": 3, "inactive_threshold": SECOND, **options}
        for pedantic in (True, False):
            asked = {"stream_name": "T", "config": wanted, "pedantic": pedantic}
            yield options, pedantic, side.api("CONSUMER.CREATE.T.C", asked)
            side.api("CONSUMER.DELETE.T.C")
    side.api("STREAM.DELETE.T")


def verbs(side: Side) -> Any:
    side.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "storage": "memory", "allow_direct": True})
    for verb, body in VERBS:
        yield verb, side.api(verb, body)


def interest(side: Side) -> Any:
    """Only a subscription to the deliver subject itself wakes a push consumer: a client's or a stream's."""
    side.api("STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"], "storage": "memory"})
    side.api("STREAM.CREATE.X", {"name": "X", "subjects": ["x.>", "y.a"], "storage": "memory"})
    for subject, queue in (("d.>", None), ("d.b", "q"), ("d.c", None), ("d.k", None)):
        side.listen(subject, queue)
    for subject, group in (
        ("d.a", None), ("d.b", None), ("d.b", "q"), ("d.b", "r"), ("d.c", "q"), ("d.c", None), ("x.a", None),
        ("y.a", None), ("y.a", "q"),
    ):  # fmt: skip
        config = {"name": "C", "ack_policy": "none", "deliver_subject": subject, "deliver_group": group}
        asked = {name: value for name, value in config.items() if value is not None}
        side.api("CONSUMER.CREATE.T.C", {"stream_name": "T", "config": asked})
        control = {"name": "K", "ack_policy": "none", "deliver_subject": "d.k"}
        side.api("CONSUMER.CREATE.T.K", {"stream_name": "T", "config": control})
        side.until(lambda: side.api("CONSUMER.INFO.T.K").get("push_bound"))  # servers notice interest a moment later
        yield subject, group, side.api("CONSUMER.INFO.T.C").get("push_bound")
        side.api("CONSUMER.DELETE.T.C")
        side.api("CONSUMER.DELETE.T.K")
    for name in ("T", "X"):
        side.api(f"STREAM.DELETE.{name}")


@pytest.mark.server
@pytest.mark.parametrize("steps", [streams, consumers, verbs, interest])
def test_both_say_the_same(steps: Callable[[Side], Iterator[Any]], real: OnARealServer) -> None:
    role = OnTheRole()
    for here, there in zip(steps(role), steps(real), strict=True):
        assert [*here[:-1], clean(here[-1])] == [*there[:-1], clean(there[-1])]


def clean(answer: Any) -> Any:
    return settled(answer) if isinstance(answer, dict) else answer
