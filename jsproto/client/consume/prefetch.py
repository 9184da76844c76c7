"""How a stream of messages keeps itself filled: how much is asked for, when, and how long refusals are put up with.

Rules: what is buffered and under way together never exceeds the most that was wanted, in messages or in bytes; more is
asked for when it has fallen to the threshold. One request asks for no more than the consumer allows, and waits no
longer. A message that did not fit into what was left gets all the room there is. Refusals that follow each other are
answered by pauses that double, and end the stream after ``RETRY_FOR`` seconds: an election takes less.

Not here: the requests under way, and what becomes of them (``pull``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from jsproto.client.consume.heartbeats import DEFAULT_HEARTBEAT
from jsproto.errors import LocalProtocolError
from jsproto.grammar.times import MAX_SECONDS, nanoseconds

RETRY_FIRST: Final = 0.05  # seconds until a refused request is sent again, doubled each time
RETRY_MOST: Final = 1.0
RETRY_FOR: Final = 10.0  # seconds
BATCH_BY_BYTES: Final = 1_000_000  # messages asked for where only bytes are to count
DEFAULT_MAX_MSGS: Final = 500
DEFAULT_EXPIRES: Final = 30.0  # seconds


@dataclass(slots=True, frozen=True)
class Limits:
    """What one request may ask for: messages, seconds and bytes (0 for any number)."""

    batch: int = BATCH_BY_BYTES
    expires: float = float("inf")
    max_bytes: int = 0


class Prefetch:
    """One stream of messages.

    ``max_bytes`` is 0 where messages count; ``whole``: the next one needs all the room; ``settings``: what was asked
    for, to compare.
    """

    __slots__ = (
        "_again", "_batch", "_max_msgs", "_refused_at", "_refused_from", "_threshold", "expires", "heartbeat",
        "max_bytes", "settings", "whole",
    )  # fmt: skip

    def __init__(
        self,
        max_msgs: int | None,
        max_bytes: int | None,
        threshold: int | None,
        expires: float,
        heartbeat: float | None,
        limits: Limits,
    ) -> None:
        """As of ``PullConsumer.start``; LocalProtocolError for what cannot be."""
        if max_msgs is not None and max_bytes is not None:
            raise LocalProtocolError("give max_msgs or max_bytes, not both")
        most = DEFAULT_MAX_MSGS if max_msgs is None and max_bytes is None else max_msgs or max_bytes or 0
        wanted = most // 2 if threshold is None else threshold
        if most < 1 or not 0 <= wanted < most:
            raise LocalProtocolError(f"the buffer must hold 1 or more, and its threshold be below: {most}, {wanted}")
        expires = min(expires, limits.expires)
        if not 0 < expires <= MAX_SECONDS:
            raise LocalProtocolError(f"a request must expire after some seconds, not {expires!r}")
        beat = min(DEFAULT_HEARTBEAT, expires / 2) if heartbeat is None else heartbeat
        if not 0 <= beat <= expires / 2:
            raise LocalProtocolError(f"heartbeats must come twice in {expires:g} s at least, not each {heartbeat!r}")
        self.max_bytes = 0 if max_bytes is None else min(most, limits.max_bytes or most)
        self.expires = expires
        self.heartbeat = beat
        self.whole = False
        self._max_msgs = BATCH_BY_BYTES if self.max_bytes else most
        self._threshold = min(wanted, self.max_bytes // 2) if self.max_bytes else wanted
        self._batch = limits.batch
        self.settings = (self._max_msgs, self.max_bytes, self._threshold, expires, beat)
        self._again = RETRY_FIRST
        self._refused_from: float | None = None  # when the refusals that follow each other began
        self._refused_at = 0.0  # when the last one came

    def wants_more(self, held: int) -> bool:
        """Whether to ask, with so many messages or bytes buffered and under way."""
        return held <= (0 if self.whole else self._threshold)

    def request(self, held: int) -> dict[str, Any]:
        """What to ask for then."""
        self.whole = False
        body: dict[str, Any] = {"batch": min(self._max_msgs - (0 if self.max_bytes else held), self._batch)}
        if self.max_bytes:
            body["max_bytes"] = self.max_bytes - held
        body["expires"] = nanoseconds(self.expires)
        if self.heartbeat:
            body["idle_heartbeat"] = nanoseconds(self.heartbeat)
        return body

    def refused(self, now: float) -> float | None:
        """A request was refused: seconds until another may be served, None when that has gone on for too long."""
        if self._refused_from is None or now - self._refused_at > 2 * RETRY_MOST:  # between them one was served
            self._again, self._refused_from = RETRY_FIRST, now
        self._refused_at = now
        if now - self._refused_from >= RETRY_FOR:
            return None
        pause, self._again = self._again, min(2 * self._again, RETRY_MOST)
        return pause

    def served(self) -> None:
        """A request ended well."""
        self._refused_from = None
