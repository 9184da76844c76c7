"""The facade for event loops, continued: watchers of buckets.

Rules: those of ``_aio.connection``.

Not here: what they watch (``buckets``, ``objects``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jsproto.grammar.times import seconds
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.engine import ends
from jsproto_io._aio.taking import Iterates
from jsproto_io._state.common import Timeout
from jsproto_io._state.watching import CoreWatch, WatcherBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

T = TypeVar("T")


class Watcher(WatcherBase[T], Iterates[T | None], Managed):
    """What changes in a bucket."""

    _connection: Connection

    def __init__(self, core: CoreWatch[T], connection: Connection) -> None:
        super().__init__(core)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.stop()

    async def next_update(self, *, timeout: Timeout | None = None) -> T | None:
        """Wait for the next entry, or description, and take it. None: the present ones end here.

        Args:
            timeout: seconds, or a timedelta. None: for ever.

        Raises:
            TimeoutError: nothing came in time.
            ConnectionClosedError: the watcher was stopped, and what it had was taken.
        """
        try:
            return self._taken.popleft()
        except IndexError:
            return await self._next(seconds(timeout))

    @ends
    async def stop(self) -> None:
        """End the watch. What was received can still be taken. No effect the second time."""
        self._stopped = True
        self._connection._takers.pop(self, None)
        self._connection._release(self._core.unsubscribe)
