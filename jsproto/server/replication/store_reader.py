"""Reading a stream that keeps its messages: straight from the store, without a consumer.

Rules, those of nats-server 2.15.1 (FACTS.md F4.25, F4.26):

* Copies follow the stores of the origin at once.
* A copy that is not taken stops the reader, which tries again after ``RETRY_DELAY``.
* An origin that is made anew has another identity. From 2.15 it is copied from its start.

Not here: the hidden consumer that real servers have for it, growing pauses, the later start of a source that an update
adds.
"""

from __future__ import annotations

from math import fmod
from typing import Final

from jsproto.grammar.config import StreamSource
from jsproto.grammar.sources import IDENTITY_LEVEL
from jsproto.server.replication.progress import RETRY_DELAY, SETUP_DELAY, Progress, Writer
from jsproto.server.store.context import ServerContext
from jsproto.server.store.origin import Taking
from jsproto.server.store.stream import Stored, Stream

_HEARTBEAT: Final = 1.0  # seconds


class StoreReader:
    """Copies what one stream stores, as a follower of it."""

    __slots__ = ("_context", "_origin", "_progress", "_read", "_taking", "_writer")

    def __init__(self, source: StreamSource, progress: Progress, writer: Writer, context: ServerContext) -> None:
        """Read ``source`` from ``begin`` on. ``progress`` is kept up to date, ``writer`` stores the copies."""
        self._context = context
        self._progress = progress
        self._writer = writer
        self._taking = Taking(source, is_source=True)
        self._origin: Stream | None = None
        self._read = 0

    def stored(self, message: Stored, now: float) -> None:
        """The origin stored ``message``."""
        if self._progress.due_at is None:  # else it stopped at an earlier message
            self._context.in_turn(self._catch_up, now)

    def removed(self, message: Stored, now: float) -> None:
        """The origin removed ``message``. The copy stays."""

    def begin(self, origin: Stream, now: float) -> None:
        """Follow ``origin`` after the position. ``now``: seconds."""
        progress = self._progress
        if progress.identity not in ("", origin.identity):
            progress.position = 0
        if self._context.api_level >= IDENTITY_LEVEL:
            progress.identity = origin.identity
        self._read = progress.position
        self._origin = origin
        progress.heard_at = now
        origin.followers.append(self)
        self._context.in_turn(self._catch_up, now)

    def stop(self, now: float) -> None:
        """Follow nothing any more. The position stays."""
        if self._origin is not None:
            self._progress.heard_at = now - (self.active(now) or 0.0)
            self._origin.followers.remove(self)
            self._origin = None

    def active(self, now: float) -> float | None:
        """The seconds since the origin was heard of, which sends a heartbeat every second. None: it was not yet."""
        if self._progress.heard_at is None:
            return None
        silent = now - self._progress.heard_at
        return silent if self._origin is None else fmod(silent, _HEARTBEAT)

    def _catch_up(self, now: float) -> None:
        """Copy what the origin has after the position."""
        progress = self._progress
        new = [] if self._origin is None else self._origin.after(self._read)
        waiting = [one for one in new if self._taking.subject_of(one) is not None]
        for number, stored in enumerate(waiting):
            progress.heard_at = now
            if not self._writer.write(stored, now):
                progress.lag = max(0, len(waiting) - number - 2)
                progress.due_at = now + RETRY_DELAY + SETUP_DELAY
                return
            progress.position = progress.copied = self._read = stored.seq
        progress.lag = 0
        if new:
            self._read = new[-1].seq
