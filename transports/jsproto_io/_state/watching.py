"""The part of watchers of buckets that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.

Not here: the verbs that wait (``_blocking.watching`` and ``_aio.watching``).
"""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

from jsproto.errors import Error
from jsproto.ticket import Ticket
from jsproto_io._state.common import MAX_POP, ended, waiting, warn_unclosed
from jsproto_io._state.shared import ConnectionBase

T = TypeVar("T")


class CoreWatch(Protocol[T]):
    """What a watcher is on: ``Watch`` or ``ObjectWatch``."""

    bucket: str

    def pop_many(self, most: int, now: float) -> list[T | None]: ...

    def readable(self) -> Ticket[None]: ...

    def unsubscribe(self, now: float) -> None: ...

    @property
    def error(self) -> Error | None: ...

    @property
    def pending_msgs(self) -> int: ...


class WatcherBase(Generic[T]):
    """The state of a watcher."""

    _connection: ConnectionBase
    _stopped = False
    _ends_later = False  # a finalizer has begun to end it, while it is dropped

    def __init__(self, core: CoreWatch[T]) -> None:
        self._core = core
        self._taken: deque[T | None] = deque()

    def __repr__(self) -> str:
        core = self._core
        return f"<{type(self).__name__} of bucket {core.bucket}: {waiting(self.pending)}{ended(core.error)}>"

    def __del__(self) -> None:
        # A dropped watcher would fill its buffer for ever. See BatchReaderBase.
        if self._ends_later:
            return
        if self._core.error is None and not self._stopped:
            warn_unclosed(f"watcher of bucket {self._core.bucket!r}", self)
        self._connection._pending_closes.append(self._core.unsubscribe)

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take what was received. Without anything, a ticket to wait for."""
        self._taken.extend(self._core.pop_many(MAX_POP, now))
        return None if self._taken else self._core.readable()

    @property
    def pending(self) -> int:
        """How many of them were received and not yet taken."""
        return self._core.pending_msgs + len(self._taken)

    @property
    def error(self) -> Error | None:
        """Why the watcher ended. None: it lives."""
        return self._core.error
