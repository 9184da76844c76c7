"""When a schedule is due next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.grammar.cron import Zone, check_cron, next_due
from jsproto.grammar.times import civil_time, format_timestamp, parse_timestamp, seconds_at

START = "2026-11-25T13:00:00.3Z"  # a Wednesday


def due(pattern: str, start: str = START, zone: Zone | None = None) -> str:
    moment = parse_timestamp(start)
    return format_timestamp(next_due(pattern, zone, moment, moment).when)


@pytest.mark.parametrize(
    ("pattern", "when"),
    [
        ("@at 2026-01-01T00:00:00+02:00", "2025-12-31T22:00:00Z"),
        ("@every 1s", "2026-11-25T13:00:01Z"),
        ("@every 1.5s", "2026-11-25T13:00:01.5Z"),
        ("* * * * * *", "2026-11-25T13:00:01Z"),
        ("30 59 12 * * *", "2026-11-26T12:59:30Z"),
        ("5/20 * * * * *", "2026-11-25T13:00:05Z"),
        ("0 */7 5-9,*/20 * * *", "2026-11-25T20:00:00Z"),
        ("0 0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("0 30 9 * * mon-fri", "2026-11-26T09:30:00Z"),
        ("0 0 0 13 * 5", "2026-11-27T00:00:00Z"),
        ("0 0 0 */2 * 5", "2026-11-27T00:00:00Z"),
        ("0 0 0 ? JAN Sun", "2027-01-03T00:00:00Z"),
        ("0 0 0 1 dec *", "2026-12-01T00:00:00Z"),
        ("@weekly", "2026-11-29T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
    ],
)
def test_the_next_time(pattern: str, when: str) -> None:
    assert due(pattern) == when


@pytest.mark.parametrize(
    "pattern",
    ["0 0 0 30 2 *", "0 0 0 31 feb,apr *", "0 0 0 , * *", ", * * * * *", "0 , * * * *", "0 0 , * * *", "0 0 0 1 , *"],
)
def test_what_is_never_due(pattern: str) -> None:
    """Also where no second would ever match, which takes no look at each of them."""
    with pytest.raises(ValueError, match="within five years"):
        due(pattern)
    with pytest.raises(ValueError, match="within five years"):
        check_cron(pattern)


@pytest.mark.parametrize("pattern", ["@daily", "0 0 0 29 2 *", "*/5 * * * * *"])
def test_patterns_of_cron(pattern: str) -> None:
    check_cron(pattern)
    for other in ("@at 2026-01-01T00:00:00Z", "@every 5s"):
        with pytest.raises(ValueError, match="six fields"):
            check_cron(other)


def test_what_was_missed_is_left_out() -> None:
    start, now = parse_timestamp(START), parse_timestamp("2026-12-01T00:00:00.6Z")
    found = [next_due(pattern, None, start, now).when for pattern in ("@every 10s", "0 0 0 * * *")]
    assert [format_timestamp(when) for when in found] == ["2026-12-01T00:00:11Z", "2026-12-02T00:00:00Z"]
    at = next_due("@at 1969-01-01T00:00:00Z", None, start, now)
    assert (at.when < 0, at.repeats) == (True, False)


def berlin(moment: int) -> int:
    """The rule of Central Europe in 2027: summer time from March 28 to October 31, 01:00 UTC."""
    return 7_200 if seconds_at(2027, 3, 28) + 3_600 <= moment < seconds_at(2027, 10, 31) + 3_600 else 3_600


def test_a_time_zone() -> None:
    assert due("0 0 9 * * *", "2027-03-27T12:00:00Z", berlin) == "2027-03-28T07:00:00Z"
    assert due("0 30 2 * * *", "2027-03-28T00:00:00Z", berlin) == "2027-03-29T00:30:00Z"  # there is no 02:30 that day
    assert due("0 30 2 * * *", "2027-10-30T12:00:00Z", berlin) == "2027-10-31T00:30:00Z"
    assert due("0 0 0 1 11 *", "2027-10-30T12:00:00Z", berlin) == "2027-10-31T23:00:00Z"
    with pytest.raises(ValueError, match="only cron"):
        due("@every 1h", zone=berlin)


@given(st.integers(0, 2**32), st.integers(0, 59), st.integers(0, 23), st.integers(1, 28), st.integers(1, 12))
def test_a_moment_is_found_again(start: int, minute: int, hour: int, day: int, month: int) -> None:
    when = next_due(f"0 {minute} {hour} {day} {month} *", None, start * 10**9, start * 10**9).when // 10**9
    assert civil_time(when)[1:] == (month, day, hour, minute, 0)
    assert 0 < when - start <= 366 * 86_400


def test_a_time_stamp_in_a_zone() -> None:
    assert format_timestamp(0, 5_400) == "1970-01-01T01:30:00+01:30"
    assert format_timestamp(1, -3_600) == "1969-12-31T23:00:00.000000001-01:00"
