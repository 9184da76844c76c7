"""The keywords of a publish: what they write, what they refuse, and what the server role reads of it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import BadHeaderError, BadSubjectError, LocalProtocolError, UnsupportedByServerError
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.cron import next_due
from jsproto.grammar.headers import Headers, encode_headers, first_value
from jsproto.grammar.publish_headers import NEVER, PublishOptions, check_releases, publish_headers, time_to_live
from jsproto.grammar.times import Seconds
from tests.marks import promise

OLD = ServerInfo.from_json(b'{"version":"2.10.29"}')
NEW = ServerInfo.from_json(b'{"version":"2.15.1"}')


def pairs(**options: Any) -> list[tuple[str, str]]:
    return list(Headers.of(publish_headers("own", **options)).items())


def test_each_keyword_stands_for_a_header() -> None:
    assert pairs(
        headers={"K": ["1", "2"]}, msg_id="m", expected_stream="S", expected_last_seq=0, expected_last_subject_seq=7,
        expected_last_subject_seq_subject="a.*", expected_last_msg_id="l", ttl=60, rollup="sub",
    ) == [
        ("K", "1"), ("K", "2"), ("Nats-Msg-Id", "m"), ("Nats-Expected-Stream", "S"),
        ("Nats-Expected-Last-Sequence", "0"), ("Nats-Expected-Last-Subject-Sequence", "7"),
        ("Nats-Expected-Last-Subject-Sequence-Subject", "a.*"), ("Nats-Expected-Last-Msg-Id", "l"), ("Nats-TTL", "60"),
        ("Nats-Rollup", "sub"),
    ]  # fmt: skip


def test_without_keywords_the_headers_are_as_they_were() -> None:
    headers = {"K": "v"}
    assert publish_headers("own") is None
    assert publish_headers("own", headers=headers, msg_id=None, ttl=None) is headers


@pytest.mark.parametrize(
    ("ttl", "written"),
    [
        (1, "1"), (1.0, "1"), (1.2, "2"), (timedelta(minutes=1), "60"), (timedelta(milliseconds=1_001), "2"),
        ("never", "never"),
    ],
)  # fmt: skip
def test_times_to_live_are_whole_seconds_rounded_up(ttl: Any, written: str) -> None:
    assert pairs(ttl=ttl) == [("Nats-TTL", written)]


@promise("Raises, with nothing sent: LocalProtocolError")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"msg_id": ""}, "msg_id must be a text"),
        ({"msg_id": 7}, "msg_id must be a text"),
        ({"expected_stream": b"S"}, "expected_stream must be a text"),
        ({"expected_last_msg_id": ""}, "expected_last_msg_id must be a text"),
        ({"expected_last_seq": -1}, "expected_last_seq must be a sequence"),
        ({"expected_last_seq": True}, "expected_last_seq must be a sequence"),
        ({"expected_last_seq": "1"}, "expected_last_seq must be a sequence"),
        ({"expected_last_subject_seq": 2**64}, "expected_last_subject_seq must be a sequence"),
        ({"expected_last_subject_seq_subject": "a"}, "needs expected_last_subject_seq beside it"),
        ({"ttl": 0}, "ttl must be 1 second to 292 years"),
        ({"ttl": 0.999}, "ttl must be 1 second to 292 years"),
        ({"ttl": Seconds.from_nanoseconds(-5 * 10**9)}, "ttl must be 1 second to 292 years"),
        ({"ttl": -1}, "ttl must be 1 second to 292 years"),
        ({"ttl": timedelta(seconds=-5)}, "ttl must be 1 second to 292 years"),
        ({"ttl": float("nan")}, "ttl must be a number of seconds"),
        ({"ttl": "1h"}, "ttl must be seconds, a timedelta or 'never'"),
        ({"ttl": True}, "ttl must be a number of seconds"),
        ({"rollup": "SUB"}, "rollup is 'sub' or 'all', not 'SUB': did you mean 'sub'"),
        ({"rollup": ["sub"]}, "rollup is 'sub' or 'all'"),
        ({"headers": {"Nats-TTL": "1h"}, "ttl": 5}, "Nats-TTL is given twice"),
        ({"at": 0}, "at needs a target"),
        ({"every": 5, "cron": "@daily", "target": "t"}, "one schedule, not cron and every"),
        ({"at": datetime(2026, 1, 1), "target": "t"}, "must have a time zone"),
        ({"every": 0.5, "target": "t"}, "every must be 1 second to 292 years"),
        ({"every": -1, "target": "t"}, "every must be 1 second to 292 years"),
        ({"cron": "@reboot", "target": "t"}, "cron: a schedule has six fields"),
        ({"cron": "* * * * *", "target": "t"}, "cron: a schedule has six fields"),
        ({"cron": "60 * * * * *", "target": "t"}, "cron: not a range"),
        ({"cron": "0 0 0 30 2 *", "target": "t"}, "cron: nothing is due"),
        ({"cron": "@every 5s", "target": "t"}, "cron: a schedule has six fields"),
        ({"cron": "", "target": "t"}, "cron must be a text"),
        ({"at": 0, "target": "own"}, "must not be the subject of the schedule"),
        ({"at": 0, "target": "t.*"}, "target: .*wildcard"),
        ({"at": 0, "target": "t", "source": "t"}, "must not be its target"),
        ({"at": 0, "target": "t", "source": "own"}, "must not be its target"),
        ({"at": 0, "target": "t", "time_zone": "UTC"}, "time_zone is of cron, and at has none"),
        ({"at": 0, "target": "t", "rollup": "all"}, "rollup is 'sub'"),
        ({"at": 0, "target": "t", "schedule_rollup": "all"}, "schedule_rollup must be 'sub'"),
        ({"at": 0, "target": "t", "schedule_ttl": 0.5}, "schedule_ttl must be 1 second to 292 years"),
        ({"target": "t"}, "target is of a schedule"),
        ({"source": "t", "msg_id": "m"}, "source is of a schedule"),
        ({"schedule_ttl": 5}, "schedule_ttl is of a schedule"),
        ({"incr": 1.0}, "incr must be an int of at most 1000 digits, not 1.0"),
        ({"incr": True}, "not True"),
        ({"incr": 10**1_000}, "not one of more"),
        ({"incr": 1, "payload": b"x"}, "has no payload"),
        ({"incr": 1, "rollup": "sub"}, "cannot have rollup"),
        ({"incr": 1, "expected_last_seq": 0}, "cannot have expected_last_seq"),
        ({"trace": "a.*"}, "trace: .*wildcard"),
    ],
)
def test_values_that_servers_would_refuse_or_not_heed(options: Any, words: str) -> None:
    payload = options.pop("payload", b"")
    with pytest.raises(LocalProtocolError, match=words):
        publish_headers("own", payload, **options)


def test_values_that_cannot_be_sent() -> None:
    with pytest.raises(BadHeaderError):
        publish_headers("own", msg_id="a\r\nInjected: 1")
    with pytest.raises(BadSubjectError, match="expected_last_subject_seq_subject: "):
        publish_headers("own", expected_last_subject_seq=1, expected_last_subject_seq_subject="a b")
    with pytest.raises(TypeError, match="no keyword 'msgid': did you mean 'msg_id'"):
        publish_headers("own", msgid="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "options", [{"ttl": 5}, {"expected_last_subject_seq": 1, "expected_last_subject_seq_subject": "a"}]
)
def test_servers_that_would_not_heed_a_keyword(options: PublishOptions) -> None:
    with pytest.raises(UnsupportedByServerError, match=r"needs nats-server 2\.11; the server is 2\.10\.29"):
        publish_headers("own", b"", OLD, **options)
    assert publish_headers("own", b"", NEW, **options) == publish_headers("own", **options)
    assert publish_headers("own", b"", OLD, msg_id="m", ttl=None) == Headers({"Nats-Msg-Id": "m"})


@promise("Raises, with nothing sent: LocalProtocolError")
@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"at": 0, "target": "t"}, "2.12"), ({"incr": 1}, "2.12"), ({"every": 1, "target": "t"}, "2.14"),
        ({"cron": "@daily", "target": "t"}, "2.14"), ({"at": 0, "target": "t", "source": "s"}, "2.14"),
        ({"cron": "@daily", "target": "t", "time_zone": "UTC"}, "2.14"),
        ({"at": 0, "target": "t", "schedule_rollup": "sub"}, "2.14"), ({"trace": "t"}, "2.11"),
    ],
)  # fmt: skip
def test_the_first_release_that_knows_a_keyword(options: PublishOptions, needed: str) -> None:
    major, minor = needed.split(".")
    before = ServerInfo.from_json(json.dumps({"version": f"{major}.{int(minor) - 1}.9"}).encode())
    with pytest.raises(UnsupportedByServerError, match=rf"needs nats-server {major}\.{minor}"):
        publish_headers("own", b"", before, **options)
    assert publish_headers("own", b"", ServerInfo.from_json(json.dumps({"version": f"{needed}.0"}).encode()), **options)


def test_names_alone_are_compared_with_a_release() -> None:
    check_releases(["data", "msg_id", "ttl"], NEW)
    check_releases(["ttl"], None)
    with pytest.raises(UnsupportedByServerError, match="the keyword ttl"):
        check_releases(["data", "msg_id", "ttl"], OLD)


NOON = datetime(2026, 11, 25, 12, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({"at": NOON}, "@at 2026-11-25T11:00:00Z"), ({"at": 1_500_000_000}, "@at 1970-01-01T00:00:01.5Z"),
        ({"every": 90}, "@every 1m30s"), ({"every": timedelta(hours=2)}, "@every 2h0m0s"),
        ({"every": 1.5}, "@every 1.5s"), ({"cron": "@hourly"}, "@hourly"), ({"cron": "0 0 9 * * mon"}, "0 0 9 * * mon"),
    ],
)  # fmt: skip
def test_schedules(options: Any, written: str) -> None:
    assert pairs(target="t", **options) == [("Nats-Schedule-Target", "t"), ("Nats-Schedule", written)]
    assert next_due(written, None, 0, 0)


def test_what_goes_with_a_schedule() -> None:
    assert pairs(
        cron="@daily", target="t", source="s", time_zone="Europe/Berlin", schedule_ttl=60, schedule_rollup="sub",
        rollup="sub",
    ) == [
        ("Nats-Schedule", "@daily"), ("Nats-Schedule-Target", "t"), ("Nats-Schedule-Source", "s"),
        ("Nats-Schedule-Time-Zone", "Europe/Berlin"), ("Nats-Schedule-TTL", "60"), ("Nats-Schedule-Rollup", "sub"),
        ("Nats-Rollup", "sub"),
    ]  # fmt: skip


@pytest.mark.parametrize(("incr", "written"), [(1, "+1"), (0, "+0"), (-7, "-7"), (10**40, f"+{10**40}")])
def test_increments(incr: int, written: str) -> None:
    assert pairs(incr=incr, msg_id="m") == [("Nats-Incr", written), ("Nats-Msg-Id", "m")]


def test_a_trace() -> None:
    assert pairs(trace="_INBOX.t") == [("Nats-Trace-Dest", "_INBOX.t")]


LIVES = st.timedeltas(timedelta(seconds=1), timedelta(days=36_500))


@given(st.one_of(st.integers(1, 2**33), st.floats(1, 2**33), LIVES, st.just("never")))
def test_what_is_written_as_a_time_to_live_is_read_as_at_least_that(ttl: Any) -> None:
    block = encode_headers(publish_headers("own", ttl=ttl) or {})
    read = time_to_live(first_value(block, b"Nats-TTL"))
    wanted = NEVER if ttl == "never" else ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    assert read is not None
    assert (read == NEVER) if ttl == "never" else wanted - 1e-6 <= read < wanted + 1


@given(st.text(min_size=1), st.integers(0, 2**64 - 1))
def test_texts_arrive_as_they_were_given_or_are_refused(text: str, sequence: int) -> None:
    try:
        block = encode_headers(publish_headers("own", msg_id=text, expected_last_seq=sequence) or {})
    except BadHeaderError:
        return
    assert Headers.parse(block).get("Nats-Msg-Id") == text
    assert first_value(block, b"Nats-Expected-Last-Sequence") == b"%d" % sequence
