"""The engine of the driver on threads, as the facade sees it.

Not here: how it works (``_threads.engine``), moving bytes (``_threads``), the verbs (``connection``).
"""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self, TypeVar

from jsproto.ticket import Ticket
from jsproto_io._state.last_look import Limit
from jsproto_io._state.shared import ConnectionBase

T = TypeVar("T")


class Engine(ConnectionBase):
    """The half of a connection below its verbs."""

    @abstractmethod
    def _wait(self, ticket: Ticket[T], timeout: float | None = None, *, limit: Limit | None = None) -> T:
        """Park until ``ticket`` has its answer.

        Args:
            timeout: in seconds, from now on. None: that of ``limit``. 0: only what is here by now.
            limit: that of the whole call, which may wait several times. None: there is none.

        Raises:
            TimeoutError: the limit has passed, and what had come by then is not the answer.
        """

    @abstractmethod
    def _close(self) -> None:
        """See ``close``."""

    @abstractmethod
    def close(self) -> None:
        """Send what is pending, then close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
