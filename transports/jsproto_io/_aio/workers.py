"""The tasks that call the callbacks of ``consume``. Each facade has this module written by hand.

Rules
 * A worker is a task of the connection, which ends it. It calls one callback after the other.
 * A callback may be a coroutine function.

Not here: what a worker does, which both facades do in the same way (``consume_context``).
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from jsproto_io._state.subscribing import is_program_exit

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

_WORKS_FOR: Final[ContextVar[object]] = ContextVar("_WORKS_FOR", default=None)


class Workers:
    """Begins the workers of one call of ``consume``."""

    _connection: Connection

    @abstractmethod
    async def _work(self) -> None:
        """What one worker does."""

    @property
    def _is_calling(self) -> bool:
        """Whether the present task runs one of the callbacks."""
        return _WORKS_FOR.get() is self

    def _start_worker(self) -> None:
        self._connection._start_task(self._work_in_task)

    async def _work_in_task(self) -> None:
        _WORKS_FOR.set(self)
        await self._work()

    def _ends_worker(self, error: BaseException) -> bool:
        """Whether ``error``, which a callback raised, ends the worker too."""
        return is_program_exit(error) or self._connection._is_cancelled(error)

    async def _call_callback(self, callback: Callable[..., object], *arguments: Any) -> None:
        done = callback(*arguments)
        if done is not None and inspect.isawaitable(done):
            await done
