"""Ctrl-C while a waiting thread moves bytes: it ends the sleep, and KeyboardInterrupt follows when the state is whole.

How it works: for the wait, a handler of SIGINT that only notes the signal takes the place of Python's own. The C
functions below those of ``signal`` put it there, and back. Those of ``signal`` try to make a member of an enumeration
of each handler. Pays: 3 instead of 10 us of CPU for each wait (``shared-publish``).

Rules
 * Only Python's own handler is replaced, only in the main thread, and only until the end of the wait.
 * The handler of an application, or of a debugger, stays.
 * A wait within an event's callback ends by Ctrl-C too: its handler replaces that of the outer wait.

Not here: other signals, Ctrl-C outside of waits.
"""

from __future__ import annotations

import threading
from _signal import default_int_handler, getsignal, signal  # type: ignore[import-not-found]  # CPython and PyPy have it
from collections.abc import Callable
from contextlib import suppress
from signal import SIGINT
from types import FrameType
from typing import Any, Self


class DeferredSigint:
    """Ctrl-C, deferred from ``begin`` until ``check`` or ``end``. ``wakeup`` ends the sleep that it interrupts."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._wakeup = wakeup
        self._arrived = False
        self._before: Any = None  # the handler that it replaces; None: it replaces none

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Defer Ctrl-C from now on. A handler of an outer wait is replaced as well."""
        if self._before is None and threading.get_ident() == threading.main_thread().ident:
            with suppress(ValueError):  # a main thread of another interpreter gets no signals
                before = getsignal(SIGINT)
                held = isinstance(getattr(before, "__self__", None), DeferredSigint)
                if held or before is default_int_handler:
                    signal(SIGINT, self._on_sigint)
                    self._before = before

    def check(self) -> None:
        """KeyboardInterrupt if Ctrl-C has arrived."""
        if self._arrived:
            self._arrived = False
            raise KeyboardInterrupt

    def end(self, *error: object) -> None:
        """Put the former handler back. KeyboardInterrupt if Ctrl-C has arrived meanwhile."""
        if self._before is not None:
            handler = signal(SIGINT, self._before)
            self._before = None
            if handler != self._on_sigint:  # an event's callback has changed it
                signal(SIGINT, handler)
        self.check()

    __exit__ = end

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        self._arrived = True
        self._wakeup()
