"""Values as people write them on the command line: durations, sizes, times, headers, fields of a configuration.

Rules
 * An unfit value raises BadUsage, which names the option and shows a valid value.
 * A time has a time zone. A duration has a unit.

Not here: what a server takes (the library and the server check that).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from jsproto.errors import LocalProtocolError
from jsproto.grammar.times import format_timestamp, instant
from jsproto_io.cli.records import BadUsage

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,19})([KMGT]?)(i?B?)", re.ASCII)
_POWERS: Final = "KMGT"
MAX_SEQ: Final = 2**64 - 1


def duration(text: str, option: str) -> timedelta:
    """``90s``, ``1h30m``, ``7d``: the units are ms, s, m, h, d, w and y (365 days).

    Raises:
        BadUsage: it is none, or too long.
    """
    if not _DURATION.fullmatch(text):
        raise BadUsage(f"{option}: not a duration: {text!r}; write 30s, 1h30m or 7d")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError:
        raise BadUsage(f"{option}: {text!r} is too long") from None


def size(text: str, option: str) -> int:
    """Bytes: ``1000``, ``64K``, ``10MB``, ``1GiB``. A unit stands for a power of 1,024.

    Raises:
        BadUsage: it is none.
    """
    if text == "-1":  # no limit
        return -1
    found = _SIZE.fullmatch(text)
    if found is None:
        raise BadUsage(f"{option}: not a size: {text!r}; write 1000, 64K, 10MB or 1G")
    return int(found[1]) << 10 * (_POWERS.index(found[2]) + 1 if found[2] else 0)


def moment(text: str, option: str) -> datetime:
    """A time with its zone, in ISO 8601: ``2026-11-25T16:31:00Z``.

    Raises:
        BadUsage: it is none, or has no time zone.
    """
    try:
        found = datetime.fromisoformat(text)
        instant(found)
    except (ValueError, LocalProtocolError):
        raise BadUsage(
            f"{option}: not a time with its zone: {text!r}; write 2026-11-25T16:31:00Z, or a duration such as 10m"
        ) from None
    return found


def moment_or_duration(text: str, option: str) -> datetime | timedelta:
    """A time, or a duration. BadUsage: it is neither."""
    return duration(text, option) if _DURATION.fullmatch(text) else moment(text, option)


def sequence(text: str, option: str) -> int:
    """A sequence of a stream, from 1 on. BadUsage: it is none."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:21]) <= MAX_SEQ):
        raise BadUsage(f"{option}: not a sequence: {text!r}; write a number from 1 on")
    return int(text)


def point(text: str, option: str) -> int | datetime | timedelta:
    """A point of a stream: a sequence, a time, or how long ago. BadUsage: it is none of them."""
    return sequence(text, option) if text.isdigit() else moment_or_duration(text, option)


def headers(given: Iterable[str]) -> dict[str, list[str]]:
    """Headers, each as ``Name: value``. A name may come several times.

    Raises:
        BadUsage: one has no colon, or no name.
    """
    found: dict[str, list[str]] = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise BadUsage(f"--header: not a header: {each!r}; write 'Name: value'")
        found.setdefault(name.strip(), []).append(value.strip())
    return found


def metadata(given: Iterable[str]) -> dict[str, str]:
    """Pairs, each as ``key=value``. BadUsage: one has no ``=``, or no key."""
    return dict(_pair(each, "--metadata", "key=value") for each in given)


def fields(given: Iterable[str]) -> dict[str, Any]:
    """Fields of a configuration, each as ``name=value``. A value is JSON, or else the text as it stands."""
    return {name: _json_or_text(value) for name, value in (_pair(each, "--set", "max_msgs=1000") for each in given)}


def stamp(nanoseconds: int | None) -> str:
    """A time for people, to the second and in UTC. ``-``: never."""
    if nanoseconds is None:
        return "-"
    return format_timestamp(nanoseconds // 1_000_000_000 * 1_000_000_000).replace("T", " ")


def counted(count: int, noun: str) -> str:
    """``1 record``, ``2,000 records``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def size_text(count: int) -> str:
    """Bytes for people: ``12 B``, ``1.5 KiB``."""
    number, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= 1024 and len(units) > 1:
        number /= 1024
        del units[0]
    return f"{number:.3g} {units[0]}" if number < 1000 else f"{number:.0f} {units[0]}"


def seconds_text(seconds: float) -> str:
    """A duration for people: ``1h30m``, ``2m``, ``1.5s``. The largest units first, and no more than two."""
    if seconds < 60:
        return f"{seconds:.3g}s"
    parts, left = [], round(seconds)
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, int(_UNITS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadUsage(f"{option}: not a pair: {text!r}; write {example}")
    return name.strip(), value


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
