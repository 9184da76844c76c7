"""Streams that copy by durable consumers: the role does, step by step, what a real server does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.marks import promise, requirement
from tests.server.sides import OnARealServer, OnTheRole, Side, consumers, copies, messages, sources

FC: Final = {"durable_name": "D", "deliver_subject": "to.d", "ack_policy": "flow_control"}
USED: Final = {"consumer": {"name": "D", "deliver_subject": "to.d"}}
RELEASES: Final = ("2.15.1", "2.14.6")
IN_2099: Final = "2099-01-01T00:00:00Z"


def make(side: Side, name: str, **options: Any) -> Any:
    return side.api(f"STREAM.CREATE.{name}", {"name": name, "storage": "memory", **options})


def origin(side: Side, retention: str = "workqueue", name: str = "S", **options: Any) -> None:
    make(side, name, subjects=[f"{name.lower()}.>"], retention=retention, **options)


def consumer(side: Side, stream: str = "S", **options: Any) -> Any:
    config = {**FC, **options}
    return side.api(f"CONSUMER.CREATE.{stream}.{config['durable_name']}", {"stream_name": stream, "config": config})


def publish(side: Side, *payloads: bytes, subject: str = "s.a") -> None:
    for payload in payloads:
        side.publish(subject, payload)


def are_bound(side: Side, *streams: str) -> bool:
    """Whether each of the streams has consumers, and all of them are followed."""
    found = [consumers(side, stream) for stream in streams]
    return all(found) and all(one.get("push_bound") for stream in found for one in stream)


def follow(side: Side, name: str = "T", *origins: str, **options: Any) -> None:
    """Make a stream that copies, and wait until it follows."""
    make(side, name, **options)
    side.until(lambda: are_bound(side, *(origins or ("S",))))


def settle(side: Side, count: int, *, left: int = 0, name: str = "T", stream: str = "S") -> None:
    """Wait until the copy has ``count`` messages, and ``left`` are in the origin."""
    side.until(lambda: (messages(side, name), messages(side, stream)) == (count, left))


def said(side: Side, name: str = "T", *origins: str) -> Any:
    return copies(side, name), sources(side, name), [consumers(side, stream) for stream in origins or ("S",)]


def a_work_queue_is_drained(side: Side) -> Any:
    origin(side)
    publish(side, b"1", b"2")
    follow(side, sources=[{"name": "S"}])
    publish(side, b"3")
    settle(side, 3)
    return said(side)


def a_work_queue_is_mirrored(side: Side) -> Any:
    origin(side)
    publish(side, b"1", b"2", b"3")
    side.api("STREAM.MSG.DELETE.S", {"seq": 2})
    follow(side, "M", mirror={"name": "S", "subject_transforms": [{"src": "s.*", "dest": "m.$1"}]})
    publish(side, b"4")
    settle(side, 3, name="M")
    return said(side, "M")


def a_mirror_begins_where_its_origin_does(side: Side) -> Any:
    origin(side, "interest")
    publish(side, b"1", b"2")
    follow(side, "M", mirror={"name": "S"})
    before = side.api("STREAM.INFO.M")["state"]
    publish(side, b"3")
    settle(side, 1, name="M")
    return before["first_seq"], before["last_seq"], said(side, "M"), side.api("STREAM.INFO.M")["state"]["first_seq"]


def interest_begins_with_the_consumer(side: Side) -> Any:
    origin(side, "interest")
    publish(side, b"1", b"2")
    follow(side, sources=[{"name": "S"}])
    before = said(side)
    publish(side, b"3")
    settle(side, 1)
    return before, said(side)


def each_source_has_a_consumer(side: Side) -> Any:
    origin(side)
    origin(side, "interest", "I")
    moved = {"subject_transforms": [{"src": "s.b", "dest": "b"}, {"src": "s.c", "dest": ""}]}
    wild = {"subject_transforms": [{"src": "i.*", "dest": "j.$1"}]}
    follow(
        side,
        "T",
        "S",
        "I",
        sources=[{"name": "S", "filter_subject": "s.a"}, {"name": "S", **moved}, {"name": "I", **wild}],
    )
    for number, subject in enumerate(("s.a", "s.b", "s.c", "s.d", "i.a")):
        publish(side, b"%d" % number, subject=subject)
    settle(side, 4, left=1)
    settle(side, 4, stream="I")
    made, found, there = said(side, "T", "S", "I")
    return sorted(one[1:] for one in made), found, there


def a_start_is_a_start_of_the_consumer(side: Side) -> Any:
    origin(side)
    publish(side, b"1", b"2", b"3")
    follow(side, sources=[{"name": "S", "opt_start_seq": 3}])
    settle(side, 1, left=2)
    return said(side)


def a_consumer_of_the_user_is_followed(side: Side) -> Any:
    origin(side)
    publish(side, b"1", b"2", b"3")
    publish(side, b"4", subject="s.b")
    publish(side, b"5", subject="s.c")
    consumer(side, filter_subjects=["s.a", "s.b"])
    follow(side, sources=[{"name": "S", **USED, "subject_transforms": [{"src": "s.a", "dest": "x"}]}])
    settle(side, 4, left=1)
    return said(side)


def a_consumer_of_the_user_feeds_a_mirror(side: Side) -> Any:
    origin(side, "limits")
    publish(side, b"1", b"2", b"3")
    consumer(side, deliver_policy="last")
    follow(side, "M", mirror={"name": "S", **USED})
    publish(side, b"4")
    settle(side, 2, left=4, name="M")
    side.until(lambda: consumers(side, "S")[0]["num_ack_pending"] == 0)
    return said(side, "M"), side.api("STREAM.INFO.M")["state"]["first_seq"]


def a_missing_consumer_is_waited_for(side: Side) -> Any:
    origin(side)
    publish(side, b"1")
    make(side, "T", sources=[{"name": "S", **USED}])
    before = sources(side)
    consumer(side)
    settle(side, 1)
    return before, said(side)


def the_ack_policy_is_checked(side: Side) -> Any:
    origin(side, "limits")
    consumer(side, ack_policy="all")
    make(side, "T", sources=[{"name": "S", **USED}])
    make(side, "M", mirror={"name": "S", **USED})
    make(side, "N", mirror={"name": "NONE"})
    side.until(lambda: all("error" in sources(side, name)[0] for name in "TMN"))
    publish(side, b"1")
    return [said(side, name) for name in "TMN"]


def two_sources_of_one_consumer(side: Side) -> Any:
    origin(side)
    twice = [{"name": "S", **USED}, {"name": "S", **USED, "subject_transforms": [{"src": "s.a", "dest": "x"}]}]
    return make(side, "T", sources=twice)


def a_start_beside_a_consumer(side: Side) -> Any:
    return [
        make(side, "T", **({"sources": [block]} if field == "sources" else {"mirror": block}))
        for block in (
            {"name": "S", **USED, "opt_start_seq": 1},
            {"name": "S", **USED, "filter_subject": "s.a"},
            {"name": "S", "consumer": {"name": "D"}},
            {"name": "S", "consumer": {"name": "D", "server_managed": True}},
        )
        for field in ("sources", "mirror")
    ]


def a_pause_is_obeyed(side: Side) -> Any:
    origin(side)
    follow(side, sources=[{"name": "S"}])
    publish(side, b"1")
    settle(side, 1)
    name = consumers(side, "S")[0]["name"]
    side.api(f"CONSUMER.PAUSE.S.{name}", {"pause_until": IN_2099})
    publish(side, b"2", b"3")
    side.until(lambda: consumers(side, "S")[0]["num_pending"] == 2)  # servers tell consumers after the acknowledgement
    paused, (source,) = consumers(side, "S")[0], sources(side)
    lacking = paused["num_pending"], paused["paused"], source["lag"], source.get("seq")
    side.api(f"CONSUMER.PAUSE.S.{name}")
    settle(side, 3)
    return lacking, copies(side)


def resets_repeat_nothing(side: Side) -> Any:
    origin(side, "limits")
    consumer(side)
    publish(side, b"1", b"2", b"3")
    follow(side, sources=[{"name": "S", **USED}])
    side.until(lambda: messages(side, "T") == 3)
    for number, body in enumerate((b"", {"seq": 1}, {"seq": 3})):
        side.api("CONSUMER.RESET.S.D", body)
        publish(side, b"%d" % (number + 4))
        side.until(lambda count=number + 4: messages(side, "T") == count)  # type: ignore[misc]
    return copies(side)


def a_reset_ahead_passes_messages_over(side: Side) -> Any:
    origin(side, "limits")
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}])
    publish(side, b"1", b"2", b"3")
    side.until(lambda: messages(side, "T") == 3)
    side.api("CONSUMER.PAUSE.S.D", {"pause_until": IN_2099})
    publish(side, b"4", b"5", b"6")
    side.api("CONSUMER.RESET.S.D", {"seq": 6})
    side.api("CONSUMER.PAUSE.S.D")
    side.until(lambda: messages(side, "T") == 4)
    publish(side, b"7")
    side.until(lambda: messages(side, "T") == 5)
    return copies(side)


def a_puller_shares_the_queue(side: Side) -> Any:
    origin(side, max_consumers=1)
    follow(side, sources=[{"name": "S"}])
    made = consumer(side, durable_name="P", ack_policy="none", deliver_subject=None)["error"]
    puller: dict[str, Any] = {
        "durable_name": "P",
        "deliver_subject": None,
        "ack_policy": "explicit",
        "ack_wait": 3_600_000_000_000,
    }
    consumer(side, **puller)
    full = consumer(side, **{**puller, "durable_name": "Q"})["error"]
    publish(side, b"1")
    side.until(lambda: consumers(side, "S")[0]["ack_floor"]["stream_seq"] == 1)
    return made, full, said(side), messages(side, "S")


def the_consumer_goes_with_the_copy(side: Side) -> Any:
    origin(side)
    origin(side, "interest", "I")
    follow(side, "T", "S", "I", sources=[{"name": "S"}, {"name": "I"}])
    there = [one["name"] for stream in ("S", "I") for one in consumers(side, stream)]
    side.api("STREAM.DELETE.T")
    side.until(lambda: not consumers(side, "S") and not consumers(side, "I"))
    follow(side, "M", mirror={"name": "S"})
    there += [one["name"] for one in consumers(side, "S")]
    side.api("STREAM.UPDATE.M", {"name": "M", "storage": "memory", "subjects": ["m"]})
    side.until(lambda: not consumers(side, "S"))
    consumer(side)
    follow(side, "T", sources=[{"name": "S", **USED}])
    side.api("STREAM.DELETE.T")
    side.until(lambda: not are_bound(side, "S"))
    return there, consumers(side, "S")


def a_consumer_that_is_asked_for_again_is_reset(side: Side) -> Any:
    origin(side, "limits")
    hidden = {
        "name": "H", "deliver_subject": "to.h", "ack_policy": "none", "max_deliver": 1, "flow_control": True,
        "idle_heartbeat": 1_000_000_000, "direct": True, "sourcing": True, "inactive_threshold": 10_000_000_000,
    }  # fmt: skip
    origin(side, name="W")
    upgraded = side.api("CONSUMER.CREATE.W", {"stream_name": "W", "config": hidden})
    publish(side, b"1", b"2")
    consumer(side, sourcing=True)
    follow(side, sources=[{"name": "S", **USED}])
    side.until(lambda: consumers(side, "S")[0]["ack_floor"]["stream_seq"] == 2)
    later = consumer(side, sourcing=True, deliver_policy="by_start_sequence", opt_start_seq=2)
    return upgraded["config"]["durable_name"], upgraded["config"]["ack_policy"], later["config"], later["delivered"]


def a_filter_that_changes_keeps_the_consumer(side: Side) -> Any:
    origin(side, "interest")
    follow(side, sources=[{"name": "S", "filter_subject": "s.a"}], subjects=["t"])
    publish(side, b"1")
    settle(side, 1)
    changed = {"name": "T", "storage": "memory", "subjects": ["t"], "sources": [{"name": "S", "filter_subject": "s.b"}]}
    side.api("STREAM.UPDATE.T", changed)
    side.until(lambda: consumers(side, "S")[0]["config"]["filter_subject"] == "s.b")
    publish(side, b"2", subject="s.b")
    settle(side, 2)
    return said(side)


def a_deleted_consumer_is_made_anew(side: Side) -> Any:
    origin(side)
    origin(side, "interest", "I")
    make(side, "M", mirror={"name": "S"})
    follow(side, "T", "S", "I", sources=[{"name": "S"}, {"name": "I"}])
    side.until(lambda: len(consumers(side, "S")) == 2)
    publish(side, b"1")
    publish(side, b"1", subject="i.a")
    settle(side, 2)
    settle(side, 2, stream="I")
    names = [(stream, one["name"]) for stream in ("S", "I") for one in consumers(side, stream)]
    for stream, name in names:
        side.api(f"CONSUMER.DELETE.{stream}.{name}")
    publish(side, b"2", b"3")
    publish(side, b"2", b"3", subject="i.a")
    side.until(lambda: are_bound(side, "S", "I") and len(consumers(side, "S")) == 2)
    publish(side, b"4")
    publish(side, b"4", subject="i.a")
    settle(side, 6)
    settle(side, 4, name="M")
    made = sorted(one[1:] for one in copies(side))
    return names, made, copies(side, "M"), [consumers(side, stream) for stream in ("S", "I")]


def an_origin_that_is_made_anew_is_copied_from_its_start(side: Side) -> Any:
    origin(side)
    follow(side, sources=[{"name": "S"}])
    publish(side, b"1", b"2")
    settle(side, 2)
    side.api("STREAM.DELETE.S")
    origin(side)
    publish(side, b"3")
    settle(side, 3)
    return said(side)


def one_source_of_two_that_goes_takes_both_consumers(side: Side) -> Any:
    origin(side)
    pair = [{"name": "S", "filter_subject": f"s.{letter}"} for letter in "ab"]
    follow(side, sources=pair, subjects=["t"])
    side.until(lambda: len(consumers(side, "S")) == 2)
    publish(side, b"1")
    settle(side, 1)
    side.api("STREAM.UPDATE.T", {"name": "T", "storage": "memory", "subjects": ["t"], "sources": pair[:1]})
    side.until(lambda: not consumers(side, "S"))
    publish(side, b"2")
    settle(side, 2)
    return said(side)


SLOW: Final[list[Callable[[Side], Any]]] = [
    a_deleted_consumer_is_made_anew,
    an_origin_that_is_made_anew_is_copied_from_its_start,
    one_source_of_two_that_goes_takes_both_consumers,
]
SINCE_2_15: Final = (an_origin_that_is_made_anew_is_copied_from_its_start,)
QUICK: Final[list[Callable[[Side], Any]]] = [
    a_work_queue_is_drained,
    a_work_queue_is_mirrored,
    a_mirror_begins_where_its_origin_does,
    interest_begins_with_the_consumer,
    each_source_has_a_consumer,
    a_start_is_a_start_of_the_consumer,
    a_consumer_of_the_user_is_followed,
    a_consumer_of_the_user_feeds_a_mirror,
    a_missing_consumer_is_waited_for,
    the_ack_policy_is_checked,
    two_sources_of_one_consumer,
    a_start_beside_a_consumer,
    a_pause_is_obeyed,
    resets_repeat_nothing,
    a_reset_ahead_passes_messages_over,
    a_puller_shares_the_queue,
    the_consumer_goes_with_the_copy,
    a_consumer_that_is_asked_for_again_is_reset,
    a_filter_that_changes_keeps_the_consumer,
]


def cases() -> Iterator[Any]:
    """Each scenario on the newest release, and on one of 2.14 what is the same there."""
    for scenario in (*QUICK, *SLOW):
        is_slow = (scenario in SLOW, True)
        for number, release in enumerate(RELEASES if scenario not in SINCE_2_15 else RELEASES[:1]):
            marks = [pytest.mark.slow] if is_slow[number] else []
            yield pytest.param(scenario, release, marks=marks, id=f"{scenario.__name__}@{release}")


@requirement(162, 163, 164, 259)
@promise("Streams with retention `workqueue` and `interest` need no such steps.")
@pytest.mark.parametrize(("scenario", "release"), [*cases()])
def test_the_role_does_what_a_real_server_does(
    scenario: Callable[[Side], Any], release: str, server_for: Callable[..., NatsServer]
) -> None:
    major, minor, patch = map(int, release.split("."))
    wanted = scenario(OnTheRole(release=(major, minor, patch)))
    with connect(server_for(release).url) as nc:
        assert scenario(OnARealServer(nc)) == wanted
