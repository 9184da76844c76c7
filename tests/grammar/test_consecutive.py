"""Numbers by the thousand are the numbers one by one. And digits become numbers."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jsproto.grammar.consecutive import by_thousands, count_up, joined, side_by_side
from jsproto.grammar.decimals import NO_NUMBER, saturated

firsts = st.integers(0, 3_000) | st.integers(10**20 - 3_000, 10**20 + 10) | st.integers(998_000, 1_001_000)
counts = st.integers(0, 3_000)


@given(firsts, counts)
def test_numbers_by_thousands(first: int, count: int) -> None:
    numbers: list[bytes] = []
    for run, high, lows in by_thousands(first, count):
        assert run == slice(len(numbers), len(numbers) + len(lows))
        assert len(set(map(len, lows))) == 1
        numbers += [high + low for low in lows]
    assert numbers == [b"%d" % number for number in range(first, first + count)]


@given(st.lists(firsts, min_size=1, max_size=3), counts)
def test_columns_of_numbers(first_ones: list[int], count: int) -> None:
    columns: list[list[bytes]] = [[] for _ in first_ones]
    for run, found in side_by_side(first_ones, count):
        for column, (high, lows) in zip(columns, found, strict=True):
            assert run == slice(len(column), len(column) + len(lows))
            assert len(set(map(len, lows))) == 1
            column += [high + low for low in lows]
    assert columns == [[b"%d" % number for number in range(first, first + count)] for first in first_ones]


@given(firsts, counts)
def test_numbers_are_joined(first: int, count: int) -> None:
    numbers = range(first, first + count)
    assert joined(b"<", numbers, b"1>\n") == b"".join(b"<%d1>\n" % number for number in numbers)
    assert joined(b"", numbers, b"") == b"".join(b"%d" % number for number in numbers)


@given(firsts, st.integers(1, 3_000), st.integers(0, 3))
def test_records_are_numbered(first: int, count: int, after: int) -> None:
    digits = len(b"%d" % first)
    count = min(count, 10**digits - first)
    record = b"<%d>" % first + b"x" * after
    records = bytearray(record * count)
    count_up(records, 1 + digits, len(record), first, count)
    assert records == b"".join(b"<%d>" % number + b"x" * after for number in range(first, first + count))


@pytest.mark.parametrize(
    ("token", "number"),
    [
        (b"0", 0),
        (b"007", 7),
        (b"9" * 20, 10**20 - 1),
        (b"0" * 30 + b"1", 1),
        (b"1" * 21, 2**64),
        (b"9" * 5_000, 2**64),
        (b"", NO_NUMBER),
        (None, NO_NUMBER),
        (b"-1", NO_NUMBER),
        (b"1_0", NO_NUMBER),
        ("²".encode(), NO_NUMBER),
    ],
)
def test_digits_as_a_number(token: bytes | None, number: int) -> None:
    assert saturated(token) == number
