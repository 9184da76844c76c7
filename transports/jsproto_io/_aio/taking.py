"""The facade for event loops, continued: taking what was received, and waiting for it.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, TypeVar

from jsproto.errors import ConnectionClosedError, Error, TimeoutError
from jsproto.ticket import Ticket
from jsproto_io._state.limit import Limit
from jsproto_io._state.subscribing import ServedBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

M = TypeVar("M")


class Takes(Generic[M]):
    """Waits for messages that the core has buffered."""

    _connection: Connection
    _taken: deque[M]
    _is_known = False  # its caller may acknowledge before the connection is drained

    @abstractmethod
    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take the received messages. Without any, a ticket to wait for."""

    async def _next(self, timeout: float | None) -> M:
        """Wait up to ``timeout`` seconds for the next message, and take it. Others may take what ends a wait."""
        connection = self._connection
        limit = None if timeout is None else Limit(timeout, connection._now())
        if not self._is_known:
            self._is_known = True
            connection._takers[self] = connection._who_calls()
        try:
            while True:
                try:
                    return self._taken.popleft()
                except IndexError:
                    readable = connection._call(self._take_ready)
                if readable is not None:
                    await connection._wait(readable, limit=limit)
        except Error as error:
            if not isinstance(error, TimeoutError):  # it asks for more after the last message
                connection._takers.pop(self, None)
            raise


class Served(ServedBase):
    """Waits for the end of a callback."""

    _connection: Connection

    @property
    @abstractmethod
    def _is_calling(self) -> bool:
        """Whether the present task runs its callback."""

    async def _callback_ended(self) -> None:
        """Wait until the callback has had the last message, unless the callback itself calls this."""
        if self._served is not None and not self._is_calling:
            await self._connection._wait(self._served, self._connection._session.options.timeout)


class Iterates(Takes[M]):
    """An iterator that ends when the subscription does."""

    def __aiter__(self) -> AsyncIterator[M]:
        return self

    async def __anext__(self) -> M:
        try:
            return self._taken.popleft()
        except IndexError:
            pass
        try:
            return await self._next(None)
        except ConnectionClosedError:
            raise StopAsyncIteration from None
