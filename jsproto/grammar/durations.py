"""Durations as Go writes and reads them: ``1m30s``, ``600ms``, ``1.5h``.

Rules: integer nanoseconds. The units are ``ns``, ``us`` (or ``µs``), ``ms``, ``s``, ``m`` and ``h``. Nothing is raised
but ValueError.

Not here: durations in JSON, which are numbers of nanoseconds.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}  # fmt: skip
_PART: Final = r"(?:([0-9]{0,18})(?:\.([0-9]{0,18}))?)(ns|us|µs|μs|ms|s|m|h)"
_PARTS: Final = re.compile(_PART)
_DURATION: Final = re.compile(rf"([+-]?)((?:{_PART})+)")
_MAX: Final = 2**63 - 1
_SECOND: Final = 1_000_000_000


def parse_duration(text: str) -> int:
    """Nanoseconds. ValueError when it is malformed, or more than 292 years."""
    if text in ("0", "+0", "-0"):
        return 0
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"not a duration: {text[:64]!r}")
    total = 0
    for whole, fraction, unit in _PARTS.findall(found[2]):
        if not whole + fraction:
            raise ValueError(f"a duration without a number: {text[:64]!r}")
        total += int(whole or 0) * _UNITS[unit] + int(fraction or 0) * _UNITS[unit] // 10 ** len(fraction)
    if total > _MAX:
        raise ValueError(f"a duration that is too long: {text[:64]!r}")
    return -total if found[1] == "-" else total


def format_duration(duration: int) -> str:
    """What is zero or more, as Go writes it."""
    if duration == 0:
        return "0s"
    if duration < _SECOND:
        unit = "ms" if duration >= 1_000_000 else "µs" if duration >= 1_000 else "ns"
        return _decimal(duration, _UNITS[unit]) + unit
    minutes, rest = divmod(duration, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    tail = _decimal(rest, _SECOND) + "s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".") if rest else str(whole)
