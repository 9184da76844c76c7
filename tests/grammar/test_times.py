"""Times: exact to the nanosecond both ways, and junk is refused."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar import times
from jsproto.grammar.advisory import BatchAbandoned, MessageGivenUp
from jsproto.grammar.jsack import parse_jsack
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import (
    MAX_DURATION,
    Seconds,
    as_datetime,
    end_of,
    format_timestamp,
    instant,
    nanoseconds,
    parse_timestamp,
    parse_timestamps,
)
from jsproto.grammar.trace import TraceEvent

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = -62_167_219_200 * 10**9  # 0000-01-01T00:00:00Z
LAST = 253_402_300_800 * 10**9 - 1  # 9999-12-31T23:59:59.999999999Z

stamps = st.integers(FIRST, LAST)


def by_datetime(moment: datetime) -> int:
    delta = moment - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 10**9 + delta.microseconds * 1_000


# -- moments -----------------------------------------------------------------------------------------------------------


@given(
    st.datetimes(
        datetime(1678, 1, 1), datetime(2261, 12, 31),
        timezones=st.timezones() | st.builds(timezone, st.timedeltas(-timedelta(hours=23), timedelta(hours=23))),
    )
)  # fmt: skip
def test_datetimes_are_converted_exactly(moment: datetime) -> None:
    assert instant(moment) == by_datetime(moment)


@given(st.integers(-MAX_DURATION, MAX_DURATION))
def test_nanoseconds_are_taken_as_they_are(stamp: int) -> None:
    assert instant(stamp) == stamp


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 1), datetime(9999, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), 1.0, True, "2026", None,
        -MAX_DURATION - 1, MAX_DURATION + 1,
    ],
)  # fmt: skip
def test_moments_that_are_none(moment: Any) -> None:
    with pytest.raises(LocalProtocolError):
        instant(moment)


@pytest.mark.parametrize(
    "text",
    ["2026-02-30T00:00:00.1Z", "2026-01-01T24:00:00.1Z", "2026-01-01X00:00:00.1Z", "2026-01-01T00:00:00+1Z", "." * 21],
)
def test_what_looks_like_a_time_stamp_but_is_none(text: str) -> None:
    for _ in range(2):  # what is remembered are answers, not errors
        with pytest.raises(ValueError, match="not a"):
            parse_timestamp(text)


# -- time stamps -------------------------------------------------------------------------------------------------------


@given(stamps)
@example(0)
@example(-1)
@example(FIRST)
@example(LAST)
def test_written_stamps_read_back(stamp: int) -> None:
    text = format_timestamp(stamp)
    assert parse_timestamp(text) == stamp
    assert parse_timestamp(text.encode()) == stamp


def test_many_seconds_are_read_once_and_again() -> None:
    """The whole seconds that were read are remembered, up to a number."""
    texts = [format_timestamp(second * 10**9 + 123_456_789).encode() for second in range(200)]
    for _ in range(2):
        assert [parse_timestamp(text) for text in texts] == [n * 10**9 + 123_456_789 for n in range(200)]
        assert parse_timestamp(texts[-1]) == parse_timestamp(texts[-1].decode())
    assert len(times._wholes) <= times._MOST_WHOLES


STAMP = b"2026-11-27T04:01:33."
pieces = st.sampled_from([STAMP, b"2026-13-27T04:01:33.", b"123456789", b"5", b"0", b"123456789012", b"Z", b"\n", b"+"])
regular = st.builds(lambda digits: STAMP + digits + b"Z", st.from_regex(rb"\A[0-9]{1,9}\Z"))
irregular = st.lists(pieces, min_size=1, max_size=6).map(b"".join)


def one_by_one(texts: list[bytes]) -> list[int] | None:
    try:
        return [parse_timestamp(text) for text in texts]
    except ValueError:
        return None


@given(st.lists(st.one_of(regular, irregular), min_size=1, max_size=4))
def test_many_at_once_are_what_each_of_them_is(texts: list[bytes]) -> None:
    at_once = parse_timestamps(texts)
    assert at_once is None or at_once == one_by_one(texts)


def test_what_is_read_at_once() -> None:
    texts = [STAMP + digits + b"Z" for digits in (b"000000001", b"1", b"987654321")]
    assert parse_timestamps(texts) == one_by_one(texts) is not None
    cut_elsewhere = [texts[0] + b"\n" + STAMP, texts[1][20:], texts[2]]
    others = [
        [*texts, STAMP + b"Z"],
        [*texts, STAMP + b"1234567890Z"],
        [*texts, STAMP + b"1+00:00"],
        [*texts, STAMP + b"12"],
        [*texts, STAMP.replace(b"33", b"34") + b"1Z"],
        [text.replace(b"-11-", b"-13-") for text in texts],
        [text.replace(b".", b",") for text in texts],
        [b"2026"],
        cut_elsewhere,
    ]
    assert [*map(parse_timestamps, others)] == [None] * len(others)


@given(st.datetimes())
@example(datetime(1, 1, 1))
@example(datetime(2000, 2, 29))
@example(datetime(1900, 3, 1))
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999))
def test_the_calendar_is_that_of_datetime(naive: datetime) -> None:
    moment = naive.replace(tzinfo=UTC)
    assert parse_timestamp(moment.isoformat()) == by_datetime(moment)
    assert datetime.fromisoformat(format_timestamp(by_datetime(moment))) == moment


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-1439, 1439))
def test_offsets(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_timestamp(moment.isoformat()) == by_datetime(moment)


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("2026-11-20T20:36:46.910548879Z", 1_795_207_006_910_548_879),
        ("2022-08-06 00:29:27.587861324 +0000 UTC", 1_659_745_767_587_861_324),
        ("2022-08-06 02:29:27.587861324 +0200 CEST", 1_659_745_767_587_861_324),
        ("2022-08-06 00:29:27.58 +0000 UTC", 1_659_745_767_580_000_000),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.0000000019Z", 1),
        ("1970-01-01T00:00:00." + "9" * 5000 + "Z", 999_999_999),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * 10**9),  # Go's zero time
    ],
)
def test_both_forms(text: str, stamp: int) -> None:
    assert parse_timestamp(text) == stamp


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (500_000_000, "1970-01-01T00:00:00.5Z"),
        (10 * 10**9, "1970-01-01T00:00:10Z"),
        (1_795_207_006_910_548_879, "2026-11-20T20:36:46.910548879Z"),
        (1_795_207_006_910_548_000, "2026-11-20T20:36:46.910548Z"),
        (FIRST, "0000-01-01T00:00:00Z"),
        (LAST, "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_as_servers_write_it(stamp: int, text: str) -> None:
    assert format_timestamp(stamp) == text


@pytest.mark.parametrize("stamp", [FIRST - 1, LAST + 1, 10**30, -(10**30)])
def test_stamps_without_a_form(stamp: int) -> None:
    with pytest.raises(LocalProtocolError, match="years 0 to 9999"):
        format_timestamp(stamp)


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "now",
        "2026-11-20",
        "2026-11-20T20:36:46",
        "2026-11-20T20:36:46.Z",
        "2026-11-20T20:36:46z",
        "2026-11-20t20:36:46Z",
        "2026-11-20T20:36:46Z\n",
        " 2026-11-20T20:36:46Z",
        "2026-11-20T20:36:60Z",
        "2026-11-20T20:60:46Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T20:36:46+24:00",
        "2026-11-20T20:36:46+01",
        "2026-11-31T20:36:46Z",
        "2026-02-29T20:36:46Z",
        "2100-02-29T20:36:46Z",
        "2026-13-01T20:36:46Z",
        "2026-00-01T20:36:46Z",
        "2026-01-00T20:36:46Z",
        "2026-01-99T20:36:46Z",
        "26-01-01T20:36:46Z",
        "٢٠٢٦-11-20T20:36:46Z",
        "2026-11-20T20:36:46.٣Z",
        "2026-11-20T20:36:46.1_0Z",
    ],
)
def test_junk(junk: str) -> None:
    for text in (junk, junk.encode()):
        with pytest.raises(ValueError, match=r"^not a (time stamp|day of the calendar): "):
            parse_timestamp(text)


@given(st.one_of(st.text(), st.binary(), st.from_regex(r"\A\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d*)?(Z|.*)\Z")))
def test_arbitrary_input_is_read_or_refused(text: str | bytes) -> None:
    try:
        stamp = parse_timestamp(text)
    except ValueError:
        return
    assert FIRST - 86_400 * 10**9 < stamp < LAST + 86_400 * 10**9


# -- durations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (1, 10**9),
        (0.1, 10**8),
        (2.5, 2_500_000_000),
        (1e-9, 1),
        (1e-12, 1),  # 0 would be "no limit"
        (5e-324, 1),
        (9_007_199.254740993, 9_007_199_254_740_993),  # multiplied as a float it would end in 2
        (timedelta(microseconds=1), 1_000),
        (timedelta(days=1, seconds=1, microseconds=1), 86_401_000_001_000),
        (timedelta(0), 0),
        (9_223_372_036, 9_223_372_036 * 10**9),
    ],
)
def test_durations(duration: float | timedelta, expected: int) -> None:
    assert nanoseconds(duration) == expected
    assert type(nanoseconds(duration)) is int


@given(st.integers(0, MAX_DURATION // 1_000))
def test_a_timedelta_is_exact(microseconds: int) -> None:
    assert nanoseconds(timedelta(microseconds=microseconds)) == microseconds * 1_000


@given(st.floats(1e-9, 292 * 365 * 86_400.0))
def test_a_float_is_rounded_once(seconds: float) -> None:
    exact = Fraction(seconds) * 10**9
    assume(exact >= 1)
    assert abs(nanoseconds(seconds) - exact) <= Fraction(1, 2)


@pytest.mark.parametrize("duration", [float("inf"), float("-inf"), float("nan"), True, "5s", None, 1 + 2j])
def test_what_is_no_duration(duration: Any) -> None:
    with pytest.raises(LocalProtocolError, match="a number of seconds or a timedelta"):
        nanoseconds(duration)


@pytest.mark.parametrize(
    "duration",
    [-1, -1e-12, timedelta(microseconds=-1), 1e300, 10**400, 9_223_372_037, timedelta.max],
)
def test_durations_out_of_range(duration: float | timedelta) -> None:
    with pytest.raises(LocalProtocolError, match="0 seconds to 292 years"):
        nanoseconds(duration)


def test_a_number_that_cannot_be_written_is_refused_as_well() -> None:
    for duration in (10**5000, -(10**5000)):
        with pytest.raises(LocalProtocolError, match="0 seconds to 292 years"):
            nanoseconds(duration)


def test_seconds_are_a_float_that_knows_its_nanoseconds() -> None:
    longest = Seconds.from_nanoseconds(MAX_DURATION)
    assert longest == 9_223_372_036.854775807
    assert (nanoseconds(longest), longest.nanoseconds) == (MAX_DURATION, MAX_DURATION)
    assert (repr(Seconds(1.5)), f"{Seconds(90):g}", json.dumps(Seconds(1))) == ("1.5", "90", "1.0")
    assert type(Seconds(1) * 2) is float
    assert Seconds(1) in {1.0}
    assert Seconds(timedelta(minutes=1)).nanoseconds == 60 * 10**9
    assert Seconds(longest).nanoseconds == MAX_DURATION
    for same in (copy.copy(longest), copy.deepcopy(longest), pickle.loads(pickle.dumps(longest))):
        assert (type(same), same.nanoseconds) == (Seconds, MAX_DURATION)
    with pytest.raises(LocalProtocolError, match="a duration must be 0"):
        Seconds(-1)


@given(st.integers(-(2**63), MAX_DURATION))
def test_what_came_from_nanoseconds_goes_back_to_them(count: int) -> None:
    seconds = Seconds.from_nanoseconds(count)
    assert nanoseconds(seconds) == count
    assert seconds == count / 10**9


def test_an_end_is_a_moment_or_a_while() -> None:
    assert end_of(5) == (5, False)
    assert end_of(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == (1_000_000_000, False)
    assert end_of(timedelta(microseconds=1)) == (1_000, True)
    wrong: list[Any] = [timedelta(), timedelta(-1), timedelta.max, datetime(2026, 1, 1), "1h", 1.5, None]
    for until in wrong:
        with pytest.raises(LocalProtocolError):
            end_of(until)


@given(st.datetimes(min_value=datetime(1700, 1, 1), max_value=datetime(2260, 1, 1)), st.integers(0, 999))
def test_a_stamp_as_a_datetime_is_in_utc_and_to_the_microsecond(naive: datetime, rest: int) -> None:
    moment = naive.replace(tzinfo=UTC)
    assert as_datetime(instant(moment) + rest) == moment
    assert as_datetime(instant(moment)).tzinfo is UTC


def test_a_stamp_that_no_datetime_has() -> None:
    with pytest.raises(RemoteProtocolError, match="no datetime has"):
        as_datetime(parse_timestamp("0000-12-31T23:59:59Z"))


def test_whatever_has_a_timestamp_has_the_time() -> None:
    stamp, time = 1_764_088_289_123_456_789, datetime(2025, 11, 25, 16, 31, 29, 123_456, UTC)
    reply = b"$JS.ACK.S.C.1.5.5.%d.0" % stamp
    header = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Time-Stamp: 2025-11-25T16:31:29.123456789Z\r\n\r\n"
    found: list[Any] = [
        parse_jsack(reply), StoredMsg(header, b"", 1), BatchAbandoned("S", "b", "timeout", "id", stamp),
        MessageGivenUp("S", "C", 1, 1, "max_deliver", None, "id", stamp), TraceEvent("n", "", "2", (), 0, stamp, ()),
    ]  # fmt: skip
    assert [(each.timestamp, each.time) for each in found] == [(stamp, time)] * len(found)
