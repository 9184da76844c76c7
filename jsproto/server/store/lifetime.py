"""How long single messages live, by their header ``Nats-TTL``, and the markers that tell of the last one of a subject.

Rules (FACTS.md F10):

* What never expires outlives ``max_age`` too.
* A stream with markers lets no message live shorter than a marker, unless it keeps one message of each subject.

Not here: how a time to live is written (``grammar.publish_headers``), what a stream does at its end (``stream``).
"""

from __future__ import annotations

import heapq
from typing import Final

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.durations import format_duration
from jsproto.grammar.headers import appended, first_value, without
from jsproto.grammar.publish_headers import NEVER, TTL, time_to_live

_SECOND: Final = 1_000_000_000
_REASON: Final = b"Nats-Marker-Reason"
_MARKER: Final = "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: {}\r\nNats-Rollup: sub\r\n\r\n"


def lengthened(header: bytes | None, config: StreamConfig) -> bytes | None:
    """``header`` with the time to live that a stream with markers gives a message at least."""
    least = int(config.subject_delete_marker_ttl or 0)
    if header is None or not least or config.max_msgs_per_subject == 1:
        return header
    if not 0 < (time_to_live(first_value(header, TTL.encode())) or 0) < least:
        return header
    return appended(without(header, TTL.encode()), TTL.encode(), b"%d" % least)


def marker(config: StreamConfig) -> bytes:
    """The header block of the message that tells that the last message of its subject grew too old."""
    seconds = int(config.subject_delete_marker_ttl or 0)
    return _MARKER.format(format_duration(seconds * _SECOND)).encode()


def is_marker(header: bytes | None) -> bool:
    """Whether a message tells of others that have gone. After it no marker follows."""
    return header is not None and (
        first_value(header, _REASON) is not None or first_value(header, b"KV-Operation") == b"PURGE"
    )


class Lifetimes:
    """The messages of one stream that end by themselves, by their sequences."""

    __slots__ = ("_ends", "_never")

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []
        self._never: set[int] = set()

    def add(self, seq: int, header: bytes | None, now: float) -> None:
        """A message was stored at ``now`` (seconds)."""
        seconds = 0 if header is None else time_to_live(first_value(header, TTL.encode()))
        if seconds == NEVER:
            self._never.add(seq)
        elif seconds:
            heapq.heappush(self._ends, (now + seconds, seq))

    def is_endless(self, seq: int) -> bool:
        """Whether a message outlives every age."""
        return seq in self._never

    def forget(self, seq: int) -> None:
        """A message has gone. Its end, if it has one, comes and finds nothing."""
        self._never.discard(seq)

    def next(self) -> float | None:
        """When the next message ends, in seconds. None: none does."""
        return self._ends[0][0] if self._ends else None

    def due(self, now: float) -> list[int]:
        """The sequences of messages that have ended at ``now``. Some of them may have gone before."""
        ended: list[int] = []
        while self._ends and self._ends[0][0] <= now:
            ended.append(heapq.heappop(self._ends)[1])
        return ended
