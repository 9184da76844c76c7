"""Values on the command line: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jsproto_io.cli import values
from jsproto_io.cli.records import BadUsage


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5_400), ("7d", 604_800), ("250ms", 0.25), ("1.5s", 1.5), ("1y", 31_536_000), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert values.duration(text, "--ttl") == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "count"),
    [("1000", 1_000), ("64K", 65_536), ("10MB", 10_485_760), ("1GiB", 2**30), ("2T", 2**41), ("5B", 5), ("-1", -1)],
)
def test_sizes(text: str, count: int) -> None:
    assert values.size(text, "--max-bytes") == count


def test_points_are_sequences_or_times() -> None:
    assert values.point("12", "--at") == 12
    assert values.point("10m", "--at") == timedelta(minutes=10)
    moment = datetime(2026, 11, 25, 16, 31, tzinfo=UTC)
    assert values.point("2026-11-25T16:31:00Z", "--at") == moment
    assert values.moment_or_duration("2026-11-25T17:31:00+01:00", "--since") == moment
    assert values.moment_or_duration("10m", "--since") == timedelta(minutes=10)


def test_headers_metadata_and_fields() -> None:
    assert values.headers(["A: 1", "A:2", "B-c: x: y"]) == {"A": ["1", "2"], "B-c": ["x: y"]}
    assert values.metadata(["owner=me", "note=a=b"]) == {"owner": "me", "note": "a=b"}
    assert values.fields(["max_msgs=5", "republish={}", "description=plain words"]) == {
        "max_msgs": 5, "republish": {}, "description": "plain words",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "text", "why"),
    [
        (values.duration, "90", "--x: not a duration: '90'; write 30s, 1h30m or 7d"),
        (values.duration, "", "not a duration"),
        (values.duration, "-5s", "not a duration"),
        (values.duration, "999999999999y", "too long"),
        (values.size, "10 MB", "not a size"),
        (values.size, "-5", "not a size"),
        (values.moment, "yesterday", "not a time with its zone"),
        (values.moment, "2026-11-25T16:31:00", "not a time with its zone"),
        (values.moment, "0001-01-01T00:00:00Z", "not a time with its zone"),
        (values.sequence, "0", "not a sequence"),
        (values.sequence, "²", "not a sequence"),
        (values.sequence, "18446744073709551616", "not a sequence"),
        (values.point, "x", "not a time with its zone"),
    ],
)
def test_what_is_none_is_told_with_its_option(reader: Callable[[str, str], Any], text: str, why: str) -> None:
    with pytest.raises(BadUsage) as caught:
        reader(text, "--x")
    assert str(caught.value).startswith("--x: ")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("reader", "text", "why"),
    [
        (values.headers, "no colon", "'Name: value'"),
        (values.headers, ": x", "not a header"),
        (values.metadata, "x", "key=value"),
        (values.fields, "=5", "max_msgs=1000"),
    ],
)
def test_what_is_no_pair_is_told(reader: Callable[[list[str]], Any], text: str, why: str) -> None:
    with pytest.raises(BadUsage, match=why):
        reader([text])


def test_values_for_people() -> None:
    assert [values.size_text(count) for count in (0, 999, 1_023, 1_536, 10 * 2**30)] == [
        "0 B", "999 B", "1023 B", "1.5 KiB", "10 GiB",
    ]  # fmt: skip
    assert [values.seconds_text(each) for each in (0.25, 59, 60, 5_400, 90_061)] == [
        "0.25s",
        "59s",
        "1m",
        "1h30m",
        "1d1h",
    ]
    assert [values.counted(count, "record") for count in (0, 1, 2_000)] == ["0 records", "1 record", "2,000 records"]
    assert values.stamp(None) == "-"
    assert values.stamp(1_764_088_289_123_456_789) == "2025-11-25 16:31:29Z"
