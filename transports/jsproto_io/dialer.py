"""What a driver takes from its surroundings: links, entropy, and for threads the clock and the sleep.

    with connect(url, dialer=server.dialer): ...

    with use_dialer(server.dialer):
        application()  # which calls connect(url)

Rules
 * Without ``dialer`` a driver uses that of ``use_dialer``, and else the operating system.
 * One object may serve all drivers: the names of their methods differ.
 * On event loops the clock is the loop's own: ``loop.time()`` and ``trio.current_time()``.

Not here: dialers without sockets (``jsproto_io.testing``), what a link carries (``jsproto``).
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from jsproto_io._aio.trio_link import Link
    from jsproto_io._threads.poller import Poller

__all__ = ["AsyncioDialer", "Dialer", "SyncDialer", "SystemEntropy", "TrioDialer", "use_dialer"]

_ambient: Final[ContextVar[Any]] = ContextVar("jsproto_dialer", default=None)
_of_all_threads: Final[list[Any]] = []


class Dialer(Protocol):
    """What all drivers ask of a dialer."""

    @abstractmethod
    def entropy(self, size: int) -> bytes:
        """``size`` unguessable bytes. Each connection asks once, for its inbox and its jitter."""


class SyncDialer(Dialer, Protocol):
    """The dialer of ``jsproto_io.sync``."""

    @abstractmethod
    def now(self) -> float:
        """The time in seconds, of a monotonic clock."""

    @abstractmethod
    def poller(self) -> Poller:
        """What one connection dials with, and sleeps in."""


class AsyncioDialer(Dialer, Protocol):
    """The dialer of ``jsproto_io.asyncio``."""

    @abstractmethod
    async def create_connection(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> object:
        """Dial, and give the transport to ``factory()``, as ``loop.create_connection`` does.

        Raises:
            OSError: it cannot be reached.
        """


class TrioDialer(Dialer, Protocol):
    """The dialer of ``jsproto_io.trio``."""

    @abstractmethod
    async def open_link(self, host: str, port: int) -> Link:
        """Dial, and return the link.

        Raises:
            OSError: it cannot be reached.
        """


class SystemEntropy:
    """The entropy of the operating system."""

    def entropy(self, size: int) -> bytes:
        """``size`` unguessable bytes."""
        return os.urandom(size)


@contextmanager
def use_dialer(dialer: Dialer, *, threads: bool = False) -> Iterator[None]:
    """Let each ``connect()`` within the block use ``dialer``, unless it is given one itself.

    It holds for the tasks that the block starts, too. With ``threads`` it holds for all threads of the process, as long
    as the block lasts.
    """
    token = _ambient.set(dialer)
    if threads:
        _of_all_threads.append(dialer)
    try:
        yield
    finally:
        _ambient.reset(token)
        if threads:
            _of_all_threads.remove(dialer)


def ambient_dialer() -> Any:
    """The dialer of the innermost ``use_dialer``. None: the operating system."""
    return _ambient.get() or (_of_all_threads[-1] if _of_all_threads else None)
