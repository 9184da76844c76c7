"""How fast a push consumer may deliver: ``rate_limit_bps`` of its configuration.

Rules, those of nats-server: a bucket of bytes fills at the rate, and is full at first. A message that finds too few
bytes waits for them. The bucket holds as much as a message of the stream may have.

Not here: which message is next (``consumer``).
"""

from __future__ import annotations

_BITS = 8


class RateLimit:
    """The bucket of one consumer. Times are seconds, sizes bytes."""

    __slots__ = ("_at", "_bytes", "_capacity", "_rate")

    def __init__(self, bits_per_second: float, capacity: int, now: float) -> None:
        """A full bucket. Without ``bits_per_second`` nothing waits."""
        self._rate = bits_per_second // _BITS
        self._capacity = capacity
        self._bytes: float = capacity
        self._at = now

    def free_at(self, size: int, now: float) -> float:
        """When a message of that size may be delivered, ``now`` or later."""
        if not self._rate:
            return now
        self._bytes = min(self._capacity, self._bytes + (now - self._at) * self._rate)
        self._at = now
        return now + max(0.0, min(size, self._capacity) - self._bytes) / self._rate

    def delivered(self, size: int) -> None:
        """A message was delivered."""
        self._bytes -= size
