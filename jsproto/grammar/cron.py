"""When a schedule is due next: at one moment, after an interval, or as six fields of cron say.

Rules, those of nats-server 2.15.1 (FACTS.md F13):

* ``@at`` has a time stamp of RFC 3339, ``@every`` a Go duration of a second or more.
* The fields of cron are second, minute, hour, day of the month, month and day of the week, which is 0 to 6 from Sunday.
* A field has ``*`` or ``?``, numbers, ranges, steps and commas. Months and days of the week have names.
* Two restricted fields of days match a day of either. If one of them is free, both have to match.
* A schedule is due within five years.
* Only cron has a time zone.

Not here: clocks, and the rules of time zones, which the caller brings (``Zone``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from jsproto.grammar.durations import parse_duration
from jsproto.grammar.times import civil_time, parse_timestamp, seconds_at

Zone: TypeAlias = Callable[[int], int]
"""Maps a moment, in seconds since 1970, to how many seconds the clocks of a time zone are ahead of UTC then."""

AT: Final = "@at "
EVERY: Final = "@every "
_SECOND: Final = 1_000_000_000
_YEARS: Final = 5
_NEVER: Final = "nothing is due within five years"
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_NUMBER: Final = re.compile(r"\+?[0-9]{1,18}", re.ASCII)
_NAMED: Final = {
    "@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}  # fmt: skip
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class Due(NamedTuple):
    """When a schedule is due next: ``when`` in nanoseconds since 1970. ``repeats``: and later again."""

    when: int
    repeats: bool


class _Field(NamedTuple):
    """What one field matches. ``is_free``: it has a star, so it is free by itself."""

    values: frozenset[int]
    is_free: bool


class _Bounds(NamedTuple):
    least: int
    most: int
    names: dict[str, int]


_FIELDS: Final = (
    _Bounds(0, 59, {}), _Bounds(0, 59, {}), _Bounds(0, 23, {}), _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)  # fmt: skip


def next_due(pattern: str, zone: Zone | None, after: int, now: int) -> Due:
    """When the schedule ``pattern`` is due after the moment ``after``. What was missed until ``now`` is left out.

    Moments are nanoseconds since 1970. ``zone``: None for UTC, and for a schedule that lacks a time zone.

    Raises:
        ValueError: it is no schedule.
    """
    if pattern.startswith((AT, EVERY)) and zone is not None:
        raise ValueError("only cron has a time zone")
    if pattern.startswith(AT):
        text = pattern.removeprefix(AT)
        if _STAMP.fullmatch(text) is None:
            raise ValueError(f"not a time stamp: {text[:64]!r}")
        return Due(parse_timestamp(text.replace(",", ".")), repeats=False)
    if pattern.startswith(EVERY):
        interval = parse_duration(pattern.removeprefix(EVERY))
        if interval < _SECOND:
            raise ValueError("an interval has a second or more")
        when = _rounded(after) + interval
        return Due(when if when >= now else _rounded(now) + interval, repeats=True)
    cron = _Cron(_NAMED.get(pattern, pattern), zone)
    when = cron.after(after // _SECOND) * _SECOND
    return Due(when if when >= now else cron.after(_rounded(now) // _SECOND) * _SECOND, repeats=True)


def check_cron(pattern: str) -> None:
    """Check that ``pattern`` is six fields of cron, or a name such as ``@daily``, and is due at some time.

    Raises:
        ValueError: it is not. The text says why.
    """
    _Cron(_NAMED.get(pattern, pattern), None).after(0)


def _rounded(moment: int) -> int:
    """The nearest whole second."""
    return (moment + _SECOND // 2) // _SECOND * _SECOND


class _Cron:
    """Six fields of cron, in a time zone."""

    def __init__(self, pattern: str, zone: Zone | None) -> None:
        fields = pattern.split()
        if len(fields) != len(_FIELDS):
            raise ValueError(f"a schedule has six fields: {pattern[:64]!r}")
        read = [_read_field(text, bounds) for text, bounds in zip(fields, _FIELDS, strict=True)]
        self._seconds, self._minutes, self._hours, self._days, self._months, self._weekdays = read
        self._zone = zone
        if not all(field.values for field in (self._seconds, self._minutes, self._hours, self._months)):
            raise ValueError(_NEVER)  # as if five years were looked at, second by second

    def after(self, moment: int) -> int:
        """The first moment after ``moment`` that matches, in seconds since 1970.

        Raises:
            ValueError: there is none within five years.
        """
        moment += 1
        last = self._local(moment)[0] + _YEARS
        while True:
            year, month, day, hour, minute, second = self._local(moment)
            if year > last:
                raise ValueError(_NEVER)
            into_hour = minute * 60 + second
            if month not in self._months.values:
                moment = max(moment + 1, self._at(year + month // 12, month % 12 + 1, 1))
            elif not self._matches_day(year, month, day):
                moment = max(moment + 1, self._at(year, month, day + 1))
            elif hour not in self._hours.values:
                moment += 3_600 - into_hour
            elif minute not in self._minutes.values:
                moment += 60 - second
            elif second not in self._seconds.values:
                moment += 1
            else:
                return moment

    def _matches_day(self, year: int, month: int, day: int) -> bool:
        weekday = (seconds_at(year, month, day) // 86_400 + 4) % 7  # 1970 began with a Thursday
        in_month, in_week = day in self._days.values, weekday in self._weekdays.values
        if self._days.is_free or self._weekdays.is_free:
            return in_month and in_week
        return in_month or in_week

    def _local(self, moment: int) -> tuple[int, int, int, int, int, int]:
        return civil_time(moment if self._zone is None else moment + self._zone(moment))

    def _at(self, year: int, month: int, day: int) -> int:
        """The moment at which a day begins in the zone."""
        civil = seconds_at(year, month, day)
        return civil if self._zone is None else civil - self._zone(civil - self._zone(civil))


def _read_field(text: str, bounds: _Bounds) -> _Field:
    ranges = [_read_range(each, bounds) for each in text.split(",") if each]
    values = frozenset(value for each in ranges for value in each.values)
    return _Field(values, any(each.is_free for each in ranges))


def _read_range(text: str, bounds: _Bounds) -> _Field:
    """``5``, ``1-5``, ``*/10``, ``5/10`` or ``mon-fri``."""
    span, *steps = text.split("/")
    first, *rest = span.split("-")
    is_free = first in ("*", "?")
    start, end = (bounds.least, bounds.most) if is_free else (_number(first, bounds), 0)
    if len(steps) > 1 or (not is_free and len(rest) > 1):
        raise ValueError(f"not a range: {text[:64]!r}")
    if not is_free:
        end = _number(rest[0], bounds) if rest else start
    step = _number(steps[0], _Bounds(0, 0, {})) if steps else 1
    if steps and not rest:
        end = bounds.most
    if not (bounds.least <= start <= end <= bounds.most and step > 0):
        raise ValueError(f"not a range: {text[:64]!r}")
    return _Field(frozenset(range(start, end + 1, step)), is_free and step == 1)


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    if named is not None:
        return named
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"not a number: {text[:64]!r}")
    return int(text)
