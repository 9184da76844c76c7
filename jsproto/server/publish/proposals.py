"""What the leader of a stream has accepted, and stores when its replicas have agreed.

A stream of one replica stores at once. One of several takes ``ServerContext.apply_delay`` for it.

Rules (FACTS.md F1.36)

* What waits is stored and acknowledged in the order in which it was accepted. Until then no read sees it.
* Later messages are checked against what is stored and against what waits (``checks.Staged``).
* What waits is lost with the leader: none of it is stored, and nobody is told.

Not here: copies that lag behind the leader (``replication.replicas``). Fast batches, which let all that waits be stored
first, and are stored at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jsproto.server.publish.checks import Staged
from jsproto.server.store.stream import Publication, Stream


class _Proposal(NamedTuple):
    """``messages`` are stored at ``due``, and ``stored`` gets the last sequence. ``staged``: what they change."""

    due: float
    staged: Staged
    messages: Sequence[Publication]
    stored: Callable[[int], None]


class Proposals:
    """What one stream has accepted and has not stored."""

    __slots__ = ("_stream", "_waiting")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._waiting: deque[_Proposal] = deque()

    @property
    def delay(self) -> float:
        """The seconds until what is accepted now is stored."""
        return self._stream.context.apply_delay if (self._stream.config.num_replicas or 1) > 1 else 0.0

    def stage(self) -> Staged:
        """The checks of a message or a batch that comes after all that waits."""
        return Staged(self._stream, [proposal.staged for proposal in self._waiting])

    def propose(
        self, staged: Staged, messages: Sequence[Publication], stored: Callable[[int], None], now: float
    ) -> None:
        """Accept ``messages``, which ``staged`` has checked. ``now``: seconds.

        ``stored``: called with the sequence of the last one when they are stored.
        """
        self._waiting.append(_Proposal(now + self.delay, staged, messages, stored))
        self.handle_timeout(now)

    def handle_timeout(self, now: float) -> None:
        """Store what has waited long enough, and all of it where nothing has to wait any more."""
        while self._waiting and (self._waiting[0].due <= now or not self.delay):
            self._store_first(now)

    def settle(self, now: float) -> None:
        """Store all that waits."""
        while self._waiting:
            self._store_first(now)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` has something to store, in seconds. None: nothing waits."""
        return self._waiting[0].due if self._waiting else None

    def forget(self) -> None:
        """Lose all that waits."""
        self._waiting.clear()

    def _store_first(self, now: float) -> None:
        first = self._waiting.popleft()
        for message in first.messages:
            self._stream.append(message, now, has_room=True)
        first.stored(self._stream.last_seq)
