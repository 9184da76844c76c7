"""Time: integer nanoseconds on the wire, exactly. Durations are seconds wherever people read or write them.

Rules: a time stamp is nanoseconds since the epoch. ``datetime`` lacks them, so all arithmetic is on integers, in Go's
calendar: proleptic Gregorian, and free of leap seconds. A duration is converted once, at the edge. A float is too
coarse for some numbers of nanoseconds, so one that a server said is ``Seconds``, which remembers it. Two forms of time
stamps are read: RFC 3339, which servers write, and that of the Direct Get draft (ADR-31), ``2022-08-06
00:29:27.587861324 +0000 UTC``.

Not here: clocks. Nothing in the core knows what time it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, overload

from jsproto.errors import LocalProtocolError, RemoteProtocolError

Duration: TypeAlias = float | timedelta
"""A duration as callers give it: seconds (a float, an int, ``Seconds``), or a timedelta."""

Moment: TypeAlias = datetime
"""A moment as people read it: a datetime in UTC."""

Instant: TypeAlias = int | datetime
"""A moment as callers give it: nanoseconds since the epoch, or a datetime that knows its zone."""

Until: TypeAlias = int | datetime | timedelta
"""An end as callers give it: a moment, or after how long from now on."""

Point: TypeAlias = int | datetime
"""A point of a stream as callers give it: a sequence, or a moment as a datetime that knows its zone."""

MAX_DURATION: Final = 2**63 - 1
"""The longest duration of a server, in nanoseconds (Go's ``time.Duration``): 292 years."""

MAX_SECONDS: Final = MAX_DURATION // 10**9
"""The same in seconds."""

_Z: Final = ord("Z")
_UNITS: Final[tuple[int, ...]] = tuple(10 ** (9 - digits) for digits in range(10))  # ns in a fraction of so many digits
SECOND: Final = 1_000_000_000
"""A second, in nanoseconds."""

_DAY: Final = 86_400
_INFINITE: Final = float("inf")
_MOST_WHOLES: Final = 64
_wholes: Final[dict[bytes | str, int]] = {}  # nanoseconds, by the text of a time stamp up to the point, if it was bytes
_EPOCH_MOMENT: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL: Final = 719_163  # what date.toordinal() says of 1970-01-01
_STAMP: Final = re.compile(
    rb"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]++))?"
    rb"(?:Z| ?([+-])([01][0-9]|2[0-3]):?([0-5][0-9])(?: [A-Z]{1,5})?)"
)


class Seconds(float):
    """A duration in seconds that came from nanoseconds, and knows them: a float, the nearest there is.

    It compares, computes and prints as the float. Wherever a duration is taken it stands for its ``nanoseconds``, so
    what is read and written back is the same to the nanosecond.
    """

    __slots__ = ("nanoseconds",)

    nanoseconds: int

    def __new__(cls, duration: Duration) -> Seconds:
        """The duration to the nanosecond. LocalProtocolError as of ``nanoseconds``."""
        return cls.from_nanoseconds(nanoseconds(duration))

    @classmethod
    def from_nanoseconds(cls, count: int) -> Seconds:
        """The duration of so many nanoseconds, which a server may say as a negative number for "never"."""
        made = float.__new__(cls, count / SECOND)
        made.nanoseconds = count
        return made

    def __reduce__(self) -> tuple[Callable[[int], Seconds], tuple[int]]:
        return Seconds.from_nanoseconds, (self.nanoseconds,)


def nanoseconds(duration: Duration, name: str = "a duration", least: int = 0) -> int:
    """The duration in nanoseconds. A float is rounded once, to the nearest. ``Seconds`` are exact.

    Never to 0, which servers read as "no limit". LocalProtocolError, with the ``name`` of what it is for: it is
    something other than a number or a timedelta, is less than ``least`` (0 or SECOND), infinite, NaN, or more than
    MAX_DURATION.
    """
    if isinstance(duration, Seconds) and (not least or duration.nanoseconds >= least):
        return duration.nanoseconds
    if isinstance(duration, timedelta):
        exact = (duration.days * _DAY + duration.seconds) * SECOND + duration.microseconds * 1_000
    elif type(duration) is not bool and _is_finite(duration):
        numerator, denominator = duration.as_integer_ratio()
        exact = max((2 * numerator * SECOND + denominator) // (2 * denominator), 1) if numerator > 0 else numerator
    else:
        raise LocalProtocolError(f"{name} must be a number of seconds or a timedelta, not {duration!r:.100}")
    if not least <= exact <= MAX_DURATION:
        shortest = "1 second" if least else "0 seconds"
        given = f", not {duration!r:.100}" if abs(exact) < 10**400 else ""  # Python writes no more than 4,300 digits
        raise LocalProtocolError(f"{name} must be {shortest} to 292 years (seconds, not nanoseconds){given}")
    return exact


def unchecked_seconds(duration: Duration) -> float:
    """The duration in float seconds. Anything but a timedelta is given back as it is."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


@overload
def seconds(duration: Duration, name: str = ...) -> float: ...
@overload
def seconds(duration: Duration | None, name: str = ..., *, default: float) -> float: ...
@overload
def seconds(duration: Duration | None, name: str = ..., *, default: None = ...) -> float | None: ...
def seconds(duration: Duration | None, name: str = "timeout", *, default: float | None = None) -> float | None:
    """The duration in float seconds. ``default`` when it is None.

    Raises:
        LocalProtocolError: it is negative or no number. The text has its ``name``.
    """
    if duration is None:
        return default
    value: object = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise LocalProtocolError(f"{name} is a number of seconds, 0 or more, or a timedelta, not {duration!r:.100}")
    return value


def _is_finite(number: object) -> bool:
    """Whether it is a finite number. NaN, with which every comparison fails, is refused."""
    return isinstance(number, int | float) and abs(number) < _INFINITE


def instant(moment: Instant) -> int:
    """The moment in nanoseconds since the epoch, exactly.

    Raises LocalProtocolError for another type, for a datetime that lacks a zone, and for one beyond 292 years from the
    epoch. A zone makes it unambiguous (``datetime.now(UTC)`` has one). Servers compute with 64 bits and take the year
    9999 for one long ago.
    """
    if isinstance(moment, datetime):
        ahead = moment.utcoffset()
        if ahead is None:
            raise LocalProtocolError(f"a datetime must have a time zone: {moment!r}")
        days = moment.toordinal() - _EPOCH_ORDINAL - ahead.days
        seconds = days * _DAY + moment.hour * 3_600 + moment.minute * 60 + moment.second - ahead.seconds
        exact = seconds * SECOND + (moment.microsecond - ahead.microseconds) * 1_000
    elif type(moment) is int:
        exact = moment
    else:
        raise LocalProtocolError(f"a moment must be nanoseconds since the epoch or a datetime, not {moment!r:.100}")
    if not -MAX_DURATION <= exact <= MAX_DURATION:
        raise LocalProtocolError(f"a moment must be in the years 1678 to 2261, not {moment!r:.100}")
    return exact


def as_datetime(stamp: int) -> Moment:
    """The moment of so many nanoseconds since the epoch, in UTC. A datetime has microseconds: the rest is dropped.

    RemoteProtocolError before the year 1, where datetimes begin.
    """
    try:
        return _EPOCH_MOMENT + timedelta(microseconds=stamp // 1_000)
    except OverflowError:
        raise RemoteProtocolError(f"a time that no datetime has: {stamp} ns from 1970") from None


def as_stamp(moment: Instant, path: str) -> str:
    """A moment that a caller gives, in RFC 3339. LocalProtocolError, or ValueError with ``path``, for anything else."""
    if not isinstance(moment, datetime) and type(moment) is not int:
        raise ValueError(f"{path} must be nanoseconds since the epoch or a datetime, not {moment!r:.100}")
    return format_timestamp(instant(moment) if isinstance(moment, datetime) else moment)


def end_of(until: Until) -> tuple[int, bool]:
    """Nanoseconds, and whether they count from now on (a timedelta) or from the epoch (a moment).

    LocalProtocolError for a timedelta of zero or less, and as of ``instant``.
    """
    if not isinstance(until, timedelta):
        return instant(until), False
    if until <= timedelta():
        raise LocalProtocolError(f"the end must be ahead, not {until} from now on")
    return nanoseconds(until), True


def parse_timestamp(text: bytes | str) -> int:
    """A time stamp of either form as nanoseconds since the epoch. ValueError for anything else.

    Digits of the fraction after the ninth are dropped, as Go does.

    How it works: servers write nine digits nine times in ten, and messages read together often share the second, which
    is looked up. Pays: ``direct-get-fields``.
    """
    fraction = text[20:-1]
    if len(fraction) == 9 and text[-1] == _Z and fraction.isdigit() and (whole := _wholes.get(text[:20])) is not None:
        return whole + int(fraction)
    raw = text.encode("ascii", "replace") if isinstance(text, str) else text
    fraction = raw[20:-1]
    if fraction.isdigit() and raw[-1] == _Z and len(fraction) < 10:
        try:
            return _whole_second(raw[:20]) + int(fraction) * _UNITS[len(fraction)]
        except ValueError:
            pass
    return _parse(raw)


def parse_timestamps(texts: Sequence[bytes]) -> list[int] | None:
    """``parse_timestamp`` of each, of which there is one. None: some are outside a second, or written otherwise than
    servers do.

    How it works: messages read together were mostly stored within one second, at which the text of all is split. What
    is left of each are digits, so each time stamp began and ended there. Pays: ``direct-get-fields``.
    """
    second = texts[0][:20]
    if not texts[-1].startswith(second):
        return None
    text = b"\n".join((*texts, b""))
    fractions = text[20:-2].split(b"Z\n" + second)
    lengths = [*map(len, fractions)]
    if len(fractions) != len(texts) or not min(lengths) or max(lengths) > 9:
        return None
    if not text.endswith(b"Z\n") or not b"".join(fractions).isdigit():
        return None
    try:
        whole = _whole_second(second)
    except ValueError:
        return None
    return [whole + int(fraction) * _UNITS[length] for fraction, length in zip(fractions, lengths, strict=True)]


def _parse(raw: bytes) -> int:
    found = _STAMP.fullmatch(raw)
    if found is None:
        raise ValueError(f"not a time stamp: {raw[:64]!r}")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    days = _days(year, month, day)
    if _date(days) != (year, month, day):
        raise ValueError(f"not a day of the calendar: {raw[:64]!r}")
    fraction, sign, ahead_hours, ahead_minutes = found.groups(b"0")[6:]
    ahead = int(ahead_hours) * 3_600 + int(ahead_minutes) * 60
    seconds = days * _DAY + hour * 3_600 + minute * 60 + second + (ahead if sign == b"-" else -ahead)
    return seconds * SECOND + int(fraction[:9].ljust(9, b"0"))


def _whole_second(raw: bytes) -> int:
    """The nanoseconds of the seconds in front of a fraction, with the point between them."""
    whole = _wholes.get(raw)
    if whole is None:
        if not raw.endswith(b"."):
            raise ValueError
        whole = _parse(raw[:-1] + b"Z")
        if len(_wholes) >= _MOST_WHOLES:
            _wholes.clear()
        _wholes[raw] = whole
    return whole


def format_timestamp(stamp: int, ahead: int = 0) -> str:
    """RFC 3339 with as few digits as it takes, as servers write it. ``ahead``: seconds of the zone, 0 for UTC.

    LocalProtocolError outside the years 0 to 9999, which is all that RFC 3339 has.
    """
    seconds, fraction = divmod(stamp, SECOND)
    year, month, day, hour, minute, second = civil_time(seconds + ahead)
    if not 0 <= year <= 9999:
        raise LocalProtocolError(f"a time stamp must be in the years 0 to 9999, not {stamp} ns from 1970")
    tail = f".{fraction:09d}".rstrip("0") if fraction else ""
    hours, minutes = divmod(abs(ahead) // 60, 60)
    zone = f"{'-' if ahead < 0 else '+'}{hours:02d}:{minutes:02d}" if ahead else "Z"
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{tail}{zone}"


def civil_time(seconds: int) -> tuple[int, int, int, int, int, int]:
    """Year, month, day, hour, minute and second of so many ``seconds`` since 1970, in UTC."""
    days, rest = divmod(seconds, _DAY)
    hour, rest = divmod(rest, 3_600)
    return *_date(days), hour, rest // 60, rest % 60


def seconds_at(year: int, month: int, day: int) -> int:
    """Seconds from 1970 to the beginning of a day, in UTC. ``day`` may be after the end of the month."""
    return _days(year, month, day) * _DAY


# Years that begin in March end in the leap day, so that days of a month and of a year follow from integer divisions.
_EPOCH: Final = 719_468  # days from 0000-03-01 to 1970-01-01


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01."""
    era, year_of_era = divmod(year - (month <= 2), 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _EPOCH


def _date(days: int) -> tuple[int, int, int]:
    """Year, month and day: the inverse of ``_days``."""
    era, day_of_era = divmod(days + _EPOCH, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return era * 400 + year_of_era + (month <= 2), month, day_of_year - (153 * from_march + 2) // 5 + 1
