"""Ctrl-C while a thread moves bytes: it is noticed at once, and raised when the state is whole again.

Rules: only Python's own handler is stood in for, only in the main thread, where signals are handled, and only until the
end of the wait. An application's own handler, or that of a debugger, is left alone.

Not here: other signals; Ctrl-C outside of waits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType


class Postponed:
    """Ctrl-C, held back from now on until ``check`` or ``end``. ``rouse`` ends the sleep it may strike in."""

    def __init__(self, rouse: Callable[[], None]) -> None:
        self._rouse = rouse
        self._struck = False
        self._stands_in = False
        if threading.get_ident() == threading.main_thread().ident:
            with suppress(ValueError):  # what is the main thread here is none to the signals: another interpreter's
                if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                    signal.signal(signal.SIGINT, self._strike)
                    self._stands_in = True

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self._struck = True
        self._rouse()

    def check(self) -> None:
        """KeyboardInterrupt if it has struck."""
        if self._struck:
            self._struck = False
            raise KeyboardInterrupt

    def end(self) -> None:
        """Hold it back no more. KeyboardInterrupt if it has struck meanwhile."""
        if self._stands_in:
            handler = signal.signal(signal.SIGINT, signal.default_int_handler)
            if handler != self._strike:  # an event's callback has changed it
                signal.signal(signal.SIGINT, handler)
        self.check()
