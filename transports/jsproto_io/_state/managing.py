"""The part of the facade that lists streams and consumers, for threads and for event loops.

Rules: those of ``shared``.

Not here: waiting for a page (``_blocking.managing`` and ``_aio.managing``).
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from jsproto.client.manage.pages import Pages
from jsproto.ticket import Ticket

T = TypeVar("T")


class InfoListerBase(Generic[T]):
    """The entries of a list that were received."""

    def __init__(self, core: Pages[T]) -> None:
        self._core = core
        self._taken: deque[T] = deque()

    def __repr__(self) -> str:
        total = "an unknown number" if self.total is None else self.total
        return f"<InfoLister {self._core.shown - len(self._taken)} of {total}>"

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take the received entries. Without any, a ticket to wait for. None at the end, too."""
        self._taken.extend(self._core.take())
        return None if self._taken or self._core.finished else self._core.readable(now)

    @property
    def total(self) -> int | None:
        """How many entries the server has, by its last page. None: there was none yet."""
        return self._core.total

    @property
    def missing(self) -> list[str]:
        """The names of entries that the server could not show, because no leader answered it. Empty in most cases."""
        return self._core.missing
