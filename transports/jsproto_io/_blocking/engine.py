"""The engine of the driver on threads, as the facade sees it.

Not here: how it works (``_threads.engine``), moving bytes (``_threads``), the verbs (``connection``).
"""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self, TypeVar

from jsproto.ticket import Ticket
from jsproto_io._state.shared import ConnectionBase

T = TypeVar("T")


class Engine(ConnectionBase):
    """The half of a connection below its verbs."""

    @abstractmethod
    def _wait(self, ticket: Ticket[T], timeout: float | None = None, *, since: float | None = None) -> T:
        """Park until ``ticket`` has its answer.

        Raises:
            TimeoutError: ``timeout`` seconds after ``since`` (None: now), and after what had come by then.
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
