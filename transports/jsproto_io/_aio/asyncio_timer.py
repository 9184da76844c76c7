"""The clock, and the one timer, of something that runs in an asyncio loop of any make.

Rules
 * The timer moves to an earlier time alone: a needless call is harmless, and to arm a timer costs more than one.
 * When it is due is kept here. A loop need not tell: the handle that uvloop gives has no ``when()``.
 * Loops that are built on the standard one are asked for the time, which may be simulated. Others are not: the time of
   uvloop is that of the beginning of its turn, in whole milliseconds.

Not here: what is due then, timers of trio (a scope's deadline).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from time import monotonic


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """The clock for what runs in ``loop``: it gives monotonic seconds."""
    return loop.time if isinstance(loop, asyncio.BaseEventLoop) else monotonic


class Timer:
    """Calls ``due(when)`` once after ``when``, in seconds of ``clock_of(loop)``, or a little before: its rounding.

    Attributes:
        when: when it calls next. ``inf``: it is not armed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[float], None]) -> None:
        self.when = inf
        self._loop = loop
        self._due = due
        self._now = clock_of(loop)
        self._handle: asyncio.Handle | None = None

    def bring_forward(self, when: float | None) -> None:
        """Call at ``when``, unless it calls before that. None: no effect."""
        if when is not None and when < self.when:
            self.cancel()
            self.when, self._handle = when, self._loop.call_later(max(when - self._now(), 0), self._fire)

    def cancel(self) -> None:
        """Call no more."""
        if self._handle is not None:
            self._handle.cancel()
            self.when, self._handle = inf, None

    def _fire(self) -> None:
        when, self.when, self._handle = self.when, inf, None
        self._due(when)
