"""The engine of the driver on threads, as the facade sees it.

Not here: how it works (``_threads.engine``), moving bytes (``_threads``), the verbs (``connection``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial, wraps
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from jsproto.ticket import Ticket
from jsproto_io._state.limit import Limit
from jsproto_io._state.shared import ConnectionBase
from jsproto_io._threads.reentry import begin_later

T = TypeVar("T")
V = TypeVar("V", bound=Callable[..., None])


def ends(verb: V) -> V:
    """Mark a verb that ends something. A signal handler, or a finalizer, may call it anywhere.

    When it has interrupted another verb of the connection in this thread, a thread of its own does the work.
    """

    @wraps(verb)
    def begin(self: Any, *args: Any, **keywords: Any) -> None:
        connection: Engine = getattr(self, "_connection", self)
        if connection._is_interrupted:
            self._ends_later = True
            begin_later(partial(verb, self, *args, **keywords))
        else:
            verb(self, *args, **keywords)

    return cast("V", begin)


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

    @property
    @abstractmethod
    def _is_interrupted(self) -> bool:
        """Whether the caller is a signal handler, or a finalizer, that has interrupted a verb of this connection."""

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
