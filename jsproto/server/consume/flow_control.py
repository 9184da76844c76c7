"""Flow control of one push consumer: how many bytes are under way, when the client is asked, when delivery stalls.

Rules, those of nats-server (FACTS.md F5.9):

* Half a window of bytes makes the server ask, by a message with a reply subject of its own.
* A whole window without an answer stalls the delivery.
* An answer counts as received what was delivered when the server asked. It doubles the window, up to a limit.
* Only the newest reply subject counts.

Not here: the messages (``consumer``).
"""

from __future__ import annotations

from typing import Final

FIRST_WINDOW: Final = 2 * 1024 * 1024  # bytes
WIDEST_WINDOW: Final = 32 * 1024 * 1024  # bytes


class FlowControl:
    """The window. ``asked`` is the reply subject that is not answered yet, else None."""

    __slots__ = ("_bytes", "_marked", "_window", "asked")

    def __init__(self) -> None:
        """Nothing is under way, and the window is ``FIRST_WINDOW`` bytes."""
        self.asked: bytes | None = None
        self._window = FIRST_WINDOW
        self._bytes = 0
        self._marked = 0

    @property
    def is_stalled(self) -> bool:
        """Whether the delivery has to wait for an answer."""
        return self._bytes > self._window

    def delivered(self, size: int) -> bool:
        """Count ``size`` delivered bytes. Returns whether the server has to ask now."""
        self._bytes += size
        return self.asked is None and self._bytes > self._window // 2

    def ask(self, subject: bytes) -> None:
        """The server asked the client to answer to ``subject``."""
        self.asked = subject
        self._marked = self._bytes

    def answered(self, subject: bytes) -> bool:
        """The client answered to ``subject``. Returns False, with nothing changed, if that is not ``asked``."""
        if subject != self.asked:
            return False
        self.asked = None
        self._window = min(2 * self._window, WIDEST_WINDOW)
        self._bytes -= self._marked
        return True
