"""The pauses between attempts that fail one after the other. This is the only back-off of the library.

Reconnection has a constant pause instead (``client.connection.server_pool``). Attempts that fail because others are
faster have random ones (``full_jitter``).

Rules: a pause is in seconds. The first is ``first``, each further one ``factor`` times the one before, up to ``most``.
A series of failures ends with ``reset``, or by itself ``lapse`` seconds after its last failure.

Not here: what is tried again, and the timer that waits (``timers``).
"""

from __future__ import annotations

from typing import Final

_INFINITE: Final = float("inf")  # seconds
_DOUBLINGS: Final = 64  # more of them change nothing


def full_jitter(failures: int, first: float, most: float, chance: float) -> float:
    """The seconds until the next try, after so many that met others: from 0 up to ``first``, then twice as long each.

    ``most``: seconds, the longest. ``chance``: a number of 0 or more and below 1, another one for each pause.
    """
    return chance * min(first * 2.0 ** min(failures - 1, _DOUBLINGS), most)


class Backoff:
    """The pauses of one kind of attempt.

    Attributes: ``next_pause`` (seconds, what ``failed`` would return within the series).
    """

    __slots__ = ("_factor", "_failed_at", "_first", "_give_up", "_lapse", "_most", "_since", "next_pause")

    def __init__(
        self, first: float, most: float, *, factor: float = 2.0, give_up: float = _INFINITE, lapse: float = _INFINITE
    ) -> None:
        """``first``, ``most``, ``give_up`` and ``lapse`` are seconds. ``give_up``: how long a series may last."""
        self._first = first
        self._most = most
        self._factor = factor
        self._give_up = give_up
        self._lapse = lapse
        self._since: float | None = None
        self._failed_at = -_INFINITE
        self.next_pause = first

    def failed(self, now: float) -> float | None:
        """An attempt failed at ``now``: the seconds until the next one, or None once the series has lasted too long."""
        if self._since is None or now - self._failed_at > self._lapse:
            self._since, self.next_pause = now, self._first
        self._failed_at = now
        if now - self._since >= self._give_up:
            return None
        pause, self.next_pause = self.next_pause, min(self._factor * self.next_pause, self._most)
        return pause

    def reset(self) -> None:
        """An attempt succeeded: the next failure begins a new series."""
        self._since = None
        self.next_pause = self._first
