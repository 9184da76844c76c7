"""Durations as Go writes and reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.grammar.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0), ("600ms", 600_000_000), ("1.5h", 5_400_000_000_000), ("1h2m3.5s", 3_723_500_000_000),
        ("-2us", -2_000), ("+.5s", 500_000_000), ("1.s", 1_000_000_000), ("3µs", 3_000), ("7ns", 7),
    ],
)  # fmt: skip
def test_durations_are_read(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "s", ".s", "1x", "1 s", "9999999h", "--1s", "1s "])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, "0s"), (1, "1ns"), (1_500, "1.5µs"), (2_000_000, "2ms"), (1_000_000_000, "1s"), (1_001_000_000, "1.001s"),
        (60_000_000_000, "1m0s"), (3_600_000_000_000, "1h0m0s"), (5_430_000_000_000, "1h30m30s"),
    ],
)  # fmt: skip
def test_durations_are_written(duration: int, expected: str) -> None:
    assert format_duration(duration) == expected


@given(st.integers(0, 2**63 - 1))
def test_what_is_written_is_read(duration: int) -> None:
    assert parse_duration(format_duration(duration)) == duration
