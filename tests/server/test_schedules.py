"""Message schedules: the role refuses, keeps and publishes them as a real server does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from jsproto.grammar.headers import encode_headers
from jsproto.server.store.stream import Publication
from jsproto_io._state.zones import time_zone
from tests.server.sides import OnARealServer, OnTheRole, Side, without_times
from tests.server.test_faithful_streams import make, state, stored

Headers = dict[str, str]

HOURLY: Final = {"Nats-Schedule": "@every 1h", "Nats-Schedule-Target": "s.t"}
PAST: Final = "@at 1969-01-01T00:00:00Z"
MOMENT: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+(?=Z|[+-]\d\d:\d\d)")
OFFSET: Final = re.compile(rb"[+-]\d\d:\d\d")
PATTERNS: Final = (
    "x", "", "@every 500ms", "@every 1.5s", "@every x", "@at 2030-01-01T00:00:00Z", "@at 2030-01-01T00:00:00.5+02:00",
    "@at 2030-01-01T00:00:00,5Z", "@at 2030-01-01 00:00:00Z", "@at 2030-02-30T00:00:00Z", "@at", "@daily", "@DAILY",
    "@yearly", "@weekly", "@reboot", "0 0 0 30 2 *", "0 0 0 29 2 *", "* * * * *", "0 */5 * * * *", "0 0 0 * * 7",
    "0 0 0 * jan mon-fri", "0 0 0 ,1,, * *", "0 0 0 , * *", "*-3/2 +1 0 ?/1 * *", "1-2-3 0 0 * * *", "1/2/3 0 0 * * *",
    "5-1 0 0 * * *", "*/0 0 0 * * *", "60 0 0 * * *", "0 0 0 0 * *", "0  0 0 1 * *", "0 0 0 1 january *",
)  # fmt: skip
OTHERS: Final[tuple[Headers, ...]] = (
    {"Nats-Schedule": "@every 1h"}, HOURLY,
    *(HOURLY | {"Nats-Schedule-Target": target} for target in ("s.a", "x.a", "s.*", "s..a", "")),
    *(HOURLY | {"Nats-Schedule-Source": source} for source in ("s.q", "s.a", "s.t", "s.>", "x", "")),
    *(HOURLY | {"Nats-Schedule-TTL": ttl} for ttl in ("5s", "x", "never", "")),
    *(HOURLY | {"Nats-Schedule-Rollup": rollup} for rollup in ("sub", "all", "")),
    *(HOURLY | {"Nats-Rollup": rollup} for rollup in ("sub", "SUB", "all", "x")),
    HOURLY | {"Nats-Schedule-Time-Zone": "UTC"},
    *(HOURLY | {"Nats-Schedule": "@daily", "Nats-Schedule-Time-Zone": zone} for zone in (
        "UTC", "Europe/Berlin", "Nowhere", "", "/etc/passwd",
    )),
    HOURLY | {"Nats-Schedule": PAST, "Nats-Schedule-Time-Zone": "UTC"},
    {"Nats-Schedule-Time-Zone": "Nowhere"}, {"Nats-Schedule-Time-Zone": "UTC"}, {"Nats-Schedule-Next": "purge"},
    *({"Nats-Schedule-Next": "purge", "Nats-Scheduler": scheduler} for scheduler in ("s.z", "s.a", "s.*", "")),
    {"Nats-Schedule-Next": "x", "Nats-Scheduler": "s.z"}, {"Nats-Scheduler": "s.z"}, {"Nats-Schedule-Next": ""},
    {"Nats-Scheduler": ""}, {"Nats-Schedule-Target": "s.q"}, HOURLY | {"Nats-Expected-Last-Sequence": "77"},
    HOURLY | {"Nats-Msg-Id": "1"}, HOURLY | {"Nats-Stream-Source": "x"}, HOURLY | {"Nats-TTL": "x"},
)  # fmt: skip
BODY: Final[dict[str, Any]] = {"name": "S", "subjects": ["s.>"], "storage": "memory"}


def member(number: int, headers: Headers, *, commits: bool) -> Headers:
    ends = {"Nats-Batch-Commit": "1"} if commits else {}
    return headers | {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number)} | ends


def batch(side: Side, *members: tuple[str, Headers]) -> Any:
    """The answer to a batch."""
    for number, (subject, headers) in enumerate(members, 1):
        is_last = number == len(members)
        if is_last:
            return side.ask(subject, b"x", member(number, headers, commits=True))
        side.send(subject, b"x", member(number, headers, commits=False))
    raise AssertionError


def count(side: Side, subject: str) -> int:
    subjects = side.api("STREAM.INFO.S", {"subjects_filter": subject})["state"].get("subjects", {})
    return int(subjects.get(subject, 0))


def last(side: Side) -> int:
    return int(side.api("STREAM.INFO.S")["state"]["last_seq"])


def schedule(side: Side, subject: str, pattern: str, target: str, payload: bytes = b"x", **options: Any) -> Any:
    headers = {f"Nats-Schedule-{name.replace('_', '-').title()}": value for name, value in options.items()}
    return side.ask(subject, payload, {"Nats-Schedule": pattern, "Nats-Schedule-Target": target} | headers)


def shown(side: Side, *subjects: str) -> list[Any]:
    """What is stored under these subjects, without sequences and times."""
    return [
        (subject, OFFSET.sub(b"<zone>", MOMENT.sub(b"<time>", header)), payload)
        for _, subject, header, payload in stored(side)
        if subject in subjects
    ]


def refusals(side: Side) -> Iterator[Any]:
    for options in (
        dict[str, bool](), {"allow_msg_schedules": True}, {"allow_msg_schedules": True, "allow_msg_ttl": True},
    ):  # fmt: skip
        yield make(side, name="S", **options)
        for headers in (*(HOURLY | {"Nats-Schedule": pattern} for pattern in PATTERNS), *OTHERS):
            yield headers, side.ask("s.a", b"x", headers)
        yield stored(side)


def once(side: Side) -> Iterator[Any]:
    make(side, allow_msg_schedules=True, allow_msg_ttl=True)
    beside = {"A": "b", "Nats-Msg-Id": "7", "Nats-TTL": "2h", "Nats-Expected-Stream": "S", "Nats-Schedule-TTL": "1h"}
    yield side.ask("s.a", b"x", {"Nats-Schedule": PAST, "Nats-Schedule-Target": "s.t"} | beside)
    side.until(lambda: (count(side, "s.t"), count(side, "s.a")) == (1, 0))
    yield stored(side), state(side)
    side.ask("s.source", b"data", {"X": "y", "Nats-TTL": "1h"})
    fired: tuple[tuple[str, dict[str, Any]], ...] = (
        ("s.u", {"source": "s.source"}), ("s.v", {"source": "s.source", "rollup": "sub"}),
        ("s.w", {"source": "s.none"}),
    )  # fmt: skip
    for target, options in fired:
        schedule(side, "s.b", PAST, target, b"own", **options)
        side.until(lambda target=target: (count(side, target), count(side, "s.b")) == (1, 0))  # type: ignore[misc]
    yield stored(side)
    for retention in ("interest", "workqueue"):
        make(side, retention=retention, allow_msg_schedules=True)
        schedule(side, "s.a", PAST, "s.t")
        side.wait(0.7)
        yield retention, state(side), stored(side)


def often(side: Side) -> Iterator[Any]:
    make(side, allow_msg_schedules=True)
    repeated: tuple[tuple[str, dict[str, Any]], ...] = (
        ("@every 1s", {}), ("* * * * * *", {}), ("* * * * * *", {"time_zone": "UTC"}),
        ("* * * * * *", {"time_zone": "Europe/Berlin"}),
    )  # fmt: skip
    for pattern, options in repeated:
        schedule(side, "s.a", pattern, "s.t", rollup="sub", **options)
        before = last(side)
        side.until(lambda before=before: last(side) >= before + 2)  # type: ignore[misc]
        yield shown(side, "s.a", "s.t")
    side.ask("s.z", b"", {"Nats-Scheduler": "s.a", "Nats-Schedule-Next": "purge"})
    yield count(side, "s.a")
    yield side.ask("s.y", b"", {"Nats-Scheduler": "s.t", "Nats-Schedule-Next": "purge"})["error"]
    for is_deleted in (False, True):
        schedule(side, "s.a", "@every 1s", "s.t")
        if is_deleted:
            side.api("STREAM.MSG.DELETE.S", {"seq": last(side)})
        else:
            side.ask("s.a", b"plain")
        before = last(side)
        side.wait(1.6)
        yield last(side) - before, count(side, "s.a")


def batches(side: Side) -> Iterator[Any]:
    make(side, allow_msg_schedules=True, allow_atomic=True)
    purge = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.a"}
    for headers in (
        HOURLY, {"Nats-Schedule": "@every 1h"}, purge | {"Nats-Scheduler": "s.z"}, purge,
        {"Nats-Schedule": "x", "Nats-Expected-Last-Subject-Sequence": "9"}, HOURLY | {"Nats-Rollup": "all"},
        {"Nats-Stream-Source": "x", "Nats-Expected-Last-Sequence": "99"},
    ):  # fmt: skip
        yield headers, batch(side, ("s.a", headers))
    yield stored(side)
    yield batch(side, ("s.a", HOURLY), ("s.b", purge))
    yield stored(side)
    for members in ((("s.a", {}), ("s.b", purge)), (("s.a", HOURLY), ("s.a", HOURLY)), (("s.a", {}), ("s.a", HOURLY))):
        yield batch(side, *members)
    yield batch(side, ("s.c", HOURLY), ("s.d", HOURLY), ("s.e", {}))
    yield stored(side)


def updates(side: Side) -> Iterator[Any]:
    """Schedules are there from the beginning, or from an update on, which cannot be taken back."""
    make(side, allow_rollup_hdrs=True)
    yield without_times(side.api("STREAM.UPDATE.S", BODY | {"allow_msg_schedules": True}))
    yield side.api("STREAM.UPDATE.S", BODY)
    for options in ({"discard": "new"}, {"sources": [{"name": "O"}]}, {"allow_msg_counter": True}):
        yield without_times(side.api("STREAM.UPDATE.S", BODY | {"allow_msg_schedules": True} | options))


STEPS: Final[tuple[Callable[[Side], Iterator[Any]], ...]] = (refusals, once, often, batches, updates)


@pytest.mark.server
@pytest.mark.parametrize("steps", STEPS)
def test_both_do_the_same(steps: Callable[[Side], Iterator[Any]], real: OnARealServer) -> None:
    for here, there in zip(steps(OnTheRole(zones=time_zone)), steps(real), strict=True):
        assert here == there


def test_what_is_refused() -> None:
    codes: dict[int | None, int] = {}
    for said in refusals(OnTheRole(zones=time_zone)):
        if isinstance(said, tuple):
            code = said[1].get("error", {}).get("err_code")
            codes[code] = codes.get(code, 0) + 1
    assert codes == {
        10071: 3, 10165: 2, 10166: 2, 10188: 68, 10189: 42, 10190: 12, 10191: 2, 10192: 6,
        10203: 8, 10212: 18, 10223: 8, 10227: 2, None: 67,
    }  # fmt: skip


def test_schedules_in_batches() -> None:
    said = list(batches(OnTheRole()))
    codes = [each[1].get("error", {}).get("err_code") for each in said[:7]]
    assert codes == [None, 10190, None, 10212, 10071, 10192, 10227]
    assert "error" not in said[8]
    assert [each["error"]["err_code"] for each in said[10:13]] == [10212, 10111, 10111]
    assert "error" not in said[13]


def test_a_schedule_is_due_again_until_it_ends() -> None:
    said = list(often(OnTheRole(zones=time_zone)))
    assert [len(each) for each in said[:4]] == [2] * 4
    assert said[4] == 0
    assert said[5]["err_code"] == 10212
    assert said[6:] == [(0, 2), (0, 0)]


def test_what_a_schedule_makes() -> None:
    made = list(once(OnTheRole()))
    assert made[1][0][0][1:] == (
        "s.t",
        b"NATS/1.0\r\nA: b\r\nNats-Scheduler: s.a\r\nNats-Schedule-Next: purge\r\nNats-TTL: 1h\r\n\r\n",
        b"x",
    )
    assert [one[1:2] + one[3:] for one in made[2]][-3:] == [("s.u", b"data"), ("s.v", b"data"), ("s.w", b"own")]


def test_the_next_time_is_in_the_zone_of_the_schedule() -> None:
    side = OnTheRole(zones=time_zone)
    stream = side.reader.make(allow_msg_schedules=True)
    schedule(side, "s.a", "0 0 12 * * *", "s.t", time_zone="Asia/Kolkata")
    side.wait(7 * 3_600)
    assert [one.seq for one in stream if b"Nats-Schedule-Next: 1970-01-02T12:00:00+05:30" in (one.header or b"")] == [2]


def test_schedules_are_missed_once() -> None:
    """A server that was asleep makes one message for all that it has missed."""
    side = OnTheRole()
    stream = side.reader.make(allow_msg_schedules=True)
    for subject, pattern in (("s.a", "@every 1s"), ("s.b", "* * * * * *")):
        schedule(side, subject, pattern, "s.t")
    side.pass_time(100.25)
    assert [(one.header or b"").count(b"Nats-Schedule-Next: 1970-01-01T00:01:41Z") for one in stream] == [0, 0, 1, 1]
    assert side.reader.server.deadline() == 101.0


def test_a_schedule_ends_that_its_stream_does_not_take() -> None:
    side = OnTheRole()
    stream = side.reader.make(allow_msg_schedules=True, max_msg_size=200)
    stream.append(Publication(b"s.a", encode_headers(HOURLY | {"Nats-Schedule": PAST, "A": "b" * 150}), b""), 0.0)
    side.pass_time(1.0)
    assert (len(stream), side.reader.server.deadline()) == (1, 120.0)


def test_what_was_stored_before_schedules_were_allowed() -> None:
    side = OnTheRole()
    stream = side.reader.make(allow_rollup_hdrs=True)
    for subject, pattern in (("s.a", "@every 1h"), ("s.b", "x"), ("s.c", "@daily")):
        zone = {"Nats-Schedule-Time-Zone": "Nowhere"} if subject == "s.c" else {}
        stream.append(
            Publication(subject.encode(), encode_headers(HOURLY | {"Nats-Schedule": pattern} | zone), b""), 0.0
        )
    assert "error" not in side.api("STREAM.UPDATE.S", BODY | {"allow_msg_schedules": True, "allow_direct": True})
    side.wait(3_601)
    assert [one.subject for one in stream] == [b"s.a", b"s.b", b"s.c", b"s.t"]


def test_without_time_zones_only_utc_is_known() -> None:
    side = OnTheRole()
    make(side, allow_msg_schedules=True)
    assert schedule(side, "s.a", "@daily", "s.t", time_zone="UTC") == {"stream": "S", "seq": 1}
    assert schedule(side, "s.a", "@daily", "s.t", time_zone="Europe/Berlin")["error"]["err_code"] == 10223
