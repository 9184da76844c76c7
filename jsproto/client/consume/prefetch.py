"""How much a stream of messages asks for, and when (flow control of pulling).

Rules:

* What is buffered and under way together stays within the bound, in messages and in bytes.
* More is asked for when that has fallen to the threshold.
* One request asks for as much, and waits as long, as the consumer allows at most.
* A message larger than what was left gets all the room there is.
* Refusals that pass by themselves are followed by pauses (``retry``). A series that lasts too long ends the stream.

Not here: the requests under way, and what becomes of them (``message_stream``, ``pull_requests``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from jsproto.client.consume.consume_options import PrefetchOptions
from jsproto.client.consume.heartbeats import DEFAULT_HEARTBEAT
from jsproto.client.consume.retry import prefetch_backoff
from jsproto.errors import LocalProtocolError
from jsproto.grammar.times import MAX_SECONDS, nanoseconds, seconds

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
    """The settings of one stream of messages, and its series of refusals.

    Attributes:

    * ``expires`` and ``heartbeat``: seconds.
    * ``max_bytes``: the bound in bytes, 0 where messages count.
    * ``whole``: the next request needs all the room.
    * ``settings``: what was asked for, to compare.
    """

    __slots__ = (
        "_backoff", "_batch", "_max_msgs", "_threshold", "expires", "heartbeat", "max_bytes", "settings", "whole",
    )  # fmt: skip

    def __init__(self, asked: PrefetchOptions, limits: Limits) -> None:
        """``asked``: a value (``checked``). ``limits`` are the consumer's.

        Raises:
            LocalProtocolError: a value is out of range.
        """
        max_msgs, max_bytes, threshold, heartbeat = (
            asked["max_msgs"], asked["max_bytes"], asked["threshold"], asked["heartbeat"],
        )  # fmt: skip
        if max_msgs is not None and max_bytes is not None:
            raise LocalProtocolError("give max_msgs or max_bytes, not both")
        most = max_msgs or max_bytes or DEFAULT_MAX_MSGS
        wanted = most // 2 if threshold is None else threshold
        if wanted >= most:
            raise LocalProtocolError(f"the threshold is a whole number below {most}, not {wanted!r:.100}")
        expires = min(seconds(asked["expires"], "expires", default=DEFAULT_EXPIRES), limits.expires)
        if not 0 < expires <= MAX_SECONDS:
            raise LocalProtocolError(f"a request must expire after some seconds, not {expires!r}")
        beat = seconds(heartbeat, default=min(DEFAULT_HEARTBEAT, expires / 2))
        if beat > expires / 2:
            raise LocalProtocolError(f"heartbeats must come twice in {expires:g} s at least, not each {heartbeat!r}")
        self.max_bytes = 0 if max_bytes is None else min(most, limits.max_bytes or most)
        self.expires = expires
        self.heartbeat = beat
        self.whole = False
        self._max_msgs = BATCH_BY_BYTES if self.max_bytes else most
        self._threshold = min(wanted, self.max_bytes // 2) if self.max_bytes else wanted
        self._batch = limits.batch
        self.settings = (self._max_msgs, self.max_bytes, self._threshold, expires, beat)
        self._backoff = prefetch_backoff()

    def wants_more(self, held: int) -> bool:
        """Whether to ask for more while ``held`` messages, or bytes, are buffered and under way."""
        return held <= (0 if self.whole else self._threshold)

    def request(self, held: int) -> dict[str, Any]:
        """The body of a pull request for the room that is left beside ``held`` messages or bytes."""
        self.whole = False
        body: dict[str, Any] = {"batch": min(self._max_msgs - (0 if self.max_bytes else held), self._batch)}
        if self.max_bytes:
            body["max_bytes"] = self.max_bytes - held
        body["expires"] = nanoseconds(self.expires)
        if self.heartbeat:
            body["idle_heartbeat"] = nanoseconds(self.heartbeat)
        return body

    def refused(self, now: float) -> float | None:
        """A request was refused: seconds until the next one, or None when refusals have gone on for too long."""
        return self._backoff.failed(now)

    def served(self) -> None:
        """A request ended well."""
        self._backoff.reset()
