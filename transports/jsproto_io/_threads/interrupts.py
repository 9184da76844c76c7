"""Ctrl-C while a thread that waits moves bytes: it is noticed at once, and raised when the state is whole again.

Rules: only Python's own handler is stood in for, only in the main thread, where signals are handled, and only until the
end of the wait. An application's own handler, or that of a debugger, is left alone. A wait in an event's callback is
ended by Ctrl-C, too: it stands in for the wait in which that was called.

Not here: other signals; Ctrl-C outside of waits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self


class DeferredSigint:
    """Ctrl-C, held back from ``begin`` until ``check`` or ``end``. ``wakeup`` ends the sleep it may strike in."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._wakeup = wakeup
        self._arrived = False
        self._before: Any = None  # what it stands in for; None: for nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def begin(self) -> None:
        """Hold it back from now on; where somebody does so already, this one is told first."""
        if self._before is None and threading.get_ident() == threading.main_thread().ident:
            with suppress(ValueError):  # what is the main thread here is none to the signals: another interpreter's
                before = signal.getsignal(signal.SIGINT)
                held = isinstance(getattr(before, "__self__", None), DeferredSigint)
                if held or before is signal.default_int_handler:
                    signal.signal(signal.SIGINT, self._on_sigint)
                    self._before = before

    def check(self) -> None:
        """KeyboardInterrupt if it has struck."""
        if self._arrived:
            self._arrived = False
            raise KeyboardInterrupt

    def end(self) -> None:
        """Hold it back no more. KeyboardInterrupt if it has struck meanwhile."""
        if self._before is not None:
            handler = signal.signal(signal.SIGINT, self._before)
            self._before = None
            if handler != self._on_sigint:  # an event's callback has changed it
                signal.signal(signal.SIGINT, handler)
        self.check()

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        self._arrived = True
        self._wakeup()
