"""Retry: when a read asks again, and when it gives up.

Rules:

* A read of pages gives up after ``timeout`` seconds in which only mirrors, or replicas that lag, answered.
* Chance chooses which server answers. So the first two answers of a mirror are asked for again at once.
* A replica usually catches up within milliseconds. So the first answer of one that lags is asked for again at once.
* Each further one is followed by a pause, which doubles (``jsproto.backoff``).
* A page of which nothing came is asked for again once, not twice in a row.
* A single read of a consistent session asks replicas ``DIRECT_TRIES`` times, with pauses that double, then the leader.

Not here: what is asked (``direct``), which answers of a consistent read prove enough (``consistency``).
"""

from __future__ import annotations

from typing import Final

from jsproto.backoff import Backoff

ASK_AGAIN: Final = 0.02  # seconds until a request is repeated that found no room, or a replica that lags
LONGEST_LAG_PAUSE: Final = 0.5  # seconds between two requests to replicas that lag
MIRROR_PAUSE: Final = 0.001  # seconds after the third answer of a mirror in a row
LONGEST_MIRROR_PAUSE: Final = 0.05  # seconds
DIRECT_TRIES: Final = 3  # answers to a consistent read that prove too little, before the leader is asked
TRY_FOR: Final = 0.25  # of a consistent read's time: a server that has not answered by then is passed over
CONSISTENT_PAUSE: Final = 0.004  # seconds, since replicas usually lag by milliseconds
LONGEST_CONSISTENT_PAUSE: Final = 0.25  # seconds
_MIRRORS_AT_ONCE: Final = 2
_LAGS_AT_ONCE: Final = 1


def consistent_backoff() -> Backoff:
    """The pauses of one single read of a consistent session."""
    return Backoff(CONSISTENT_PAUSE, LONGEST_CONSISTENT_PAUSE)


class Retries:
    """How often a read of pages failed in a row, and how long it may go on.

    Attributes:

    * ``mirrors``: answers of mirrors in a row.
    * ``lags``: answers in a row of replicas that lag behind the leader, or of a stream without a leader.
    * ``until``: seconds on the caller's clock. The read gives up at the first failure from then on.
    * ``page_was_empty``: nothing came of the last page.
    """

    __slots__ = ("_lag_backoff", "_mirror_backoff", "_timeout", "lags", "mirrors", "page_was_empty", "until")

    def __init__(self, timeout: float, now: float) -> None:
        """``timeout``: seconds without an answer that is believed."""
        self._timeout = timeout
        self._mirror_backoff: Backoff | None = None  # made when it is needed: most reads never fail
        self._lag_backoff: Backoff | None = None
        self.mirrors = self.lags = 0
        self.until = now + timeout
        self.page_was_empty = False

    def asked(self, now: float) -> None:
        """A page is asked for. Without failures before it, ``timeout`` starts anew."""
        if not self.mirrors and not self.lags:
            self.until = now + self._timeout

    def extend(self, now: float) -> None:
        """The leader gave a message: ``timeout`` starts anew."""
        self.until = now + self._timeout

    def mirror_answered(self, now: float) -> float | None:
        """Seconds until the page is asked for again, None to give up."""
        self.mirrors += 1
        if now >= self.until:
            return None
        if self.mirrors <= _MIRRORS_AT_ONCE:
            return 0.0
        if self._mirror_backoff is None:
            self._mirror_backoff = Backoff(MIRROR_PAUSE, LONGEST_MIRROR_PAUSE)
        return self._mirror_backoff.failed(now)

    def replica_lagged(self, now: float) -> float | None:
        """Seconds until the page is asked for again, None to give up."""
        if now >= self.until:
            return None
        self.lags += 1
        if self.lags <= _LAGS_AT_ONCE:
            return 0.0
        if self._lag_backoff is None:
            self._lag_backoff = Backoff(ASK_AGAIN, LONGEST_LAG_PAUSE)
        return self._lag_backoff.failed(now)

    def stream_answered(self) -> None:
        """The stream itself answered, not a mirror."""
        self.mirrors = 0
        self._mirror_backoff = None

    def page_arrived(self) -> None:
        """A page with messages arrived whole."""
        self.page_was_empty = False
        self.lags = 0
        self._lag_backoff = None
