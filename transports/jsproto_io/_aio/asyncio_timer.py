"""The one timer of something that runs in an asyncio loop.

Rules
 * It moves to an earlier time alone: a needless call is harmless, and to arm a timer costs more than one.
 * When it is due is kept here. A loop need not tell: the handle that uvloop gives has no ``when()``.

Not here: what is due then, timers of trio (a scope's deadline).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class Timer:
    """Calls ``due(when)`` once after ``when``, in seconds of the loop's clock.

    Attributes:
        when: when it calls next. ``inf``: it is not armed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[float], None]) -> None:
        self.when = inf
        self._loop = loop
        self._due = due
        self._handle: asyncio.Handle | None = None

    def bring_forward(self, when: float | None) -> None:
        """Call at ``when``, unless it calls before that. None: no effect."""
        if when is not None and when < self.when:
            self.cancel()
            self.when, self._handle = when, self._loop.call_at(when, self._fire)

    def cancel(self) -> None:
        """Call no more."""
        if self._handle is not None:
            self._handle.cancel()
            self.when, self._handle = inf, None

    def _fire(self) -> None:
        when, self.when, self._handle = self.when, inf, None
        self._due(when)
