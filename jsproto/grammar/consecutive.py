"""Consecutive decimals by the thousand: cheaper than one format for each.

How it works: the numbers from 123,000 to 123,999 begin with the same digits, and their last three come out of a table.
So a thousand of them take one format, and one join. Where two numbers stand in each record, the digits of one place are
written into all records at once.

Pays: 17 instead of 105 ns of CPU for a number among 300 (``core-publish-many``, ``core-direct-get``, ``core-deliver``).

Not here: single numbers (``decimals``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

_SMALL: Final = [b"%d" % number for number in range(1_000)]
_LAST_THREE: Final = [b"%03d" % number for number in range(1_000)]  # digits of larger numbers
_DIGITS: Final = b"0123456789"


def by_thousands(first: int, count: int) -> Iterator[tuple[slice, bytes, Sequence[bytes]]]:
    """``count`` numbers from ``first`` on, in groups that have one length and share all but their last three digits.

    Yields for each group its places among the ``count`` (counted from 0), the digits that it shares, and the other
    digits of each number.
    """
    at = 0
    while at < count:
        high, low = divmod(first + at, 1_000)
        table, end = (_LAST_THREE, 1_000) if high else (_SMALL, 10 ** len(_SMALL[low]))
        stop = min(at + end - low, count)
        yield slice(at, stop), b"%d" % high if high else b"", table[low : low + stop - at]
        at = stop


def side_by_side(firsts: Sequence[int], count: int) -> Iterator[tuple[slice, list[tuple[bytes, Sequence[bytes]]]]]:
    """``by_thousands`` for several columns of numbers, each counting up from its own first one.

    Yields for each group its places, and for each column the digits that are shared and the others of each number.
    """
    at = 0
    while at < count:
        stop, columns = count, []
        for first in firsts:
            high, low = divmod(first + at, 1_000)
            table, end = (_LAST_THREE, 1_000) if high else (_SMALL, 10 ** len(_SMALL[low]))
            stop = min(at + end - low, stop)
            columns.append((b"%d" % high if high else b"", table, low))
        yield slice(at, stop), [(high, table[low : low + stop - at]) for high, table, low in columns]
        at = stop


def joined(before: bytes, numbers: range, after: bytes) -> bytes:
    """``before``, the number and ``after`` for each of ``numbers``, which rise by one from 0 or more."""
    parts: list[bytes] = []
    for _, high, lows in by_thousands(numbers.start, len(numbers)):
        between = b"%b%b%b" % (after, before, high)
        parts += (between, between.join(lows))
    return b"".join(parts)[len(after) :] + after if parts else b""


def count_up(records: bytearray, end: int, length: int, first: int, count: int) -> None:
    """Number ``count`` equal records of ``length`` bytes, from ``first`` on.

    Each has the number ``first`` before its place ``end``. All numbers must have as many digits.
    """
    place, last = 1, first + count - 1
    records[end - 1 :: length] = (_DIGITS * (count // 10 + 2))[first % 10 :][:count]
    while first // (10 * place) != last // (10 * place):  # this digit changes, too
        place *= 10
        end -= 1
        values = range(first // place, last // place + 1)
        column = b"".join([_DIGITS[value % 10 : value % 10 + 1] * place for value in values])
        records[end - 1 :: length] = column[first % place :][:count]
