"""Flow control of one push consumer: how much is under way, when the client is asked, when delivery stalls.

Rules (nats-server's): half a window of bytes makes the server ask, by a message with a reply subject of its own; a
whole window unanswered stalls the delivery. Each answer opens the window twice as wide, up to a limit, and counts what
had been delivered when the server asked as received. Only the newest subject is listened to.

Not here: the messages (``consumer``).
"""

from __future__ import annotations

from typing import Final

FIRST_WINDOW: Final = 2 * 1024 * 1024
WIDEST_WINDOW: Final = 32 * 1024 * 1024


class FlowControl:
    """The window. ``asked``: the subject whose answer is missing."""

    __slots__ = ("_bytes", "_marked", "_window", "asked")

    def __init__(self) -> None:
        self.asked: bytes | None = None
        self._window = FIRST_WINDOW
        self._bytes = 0
        self._marked = 0

    @property
    def is_stalled(self) -> bool:
        """Whether nothing may be delivered before an answer."""
        return self._bytes > self._window

    def delivered(self, size: int) -> bool:
        """So many bytes were delivered; True when it is time to ask."""
        self._bytes += size
        return self.asked is None and self._bytes > self._window // 2

    def ask(self, subject: bytes) -> None:
        """The client was asked to answer to ``subject``."""
        self.asked = subject
        self._marked = self._bytes

    def answered(self, subject: bytes) -> bool:
        """The client answered; False when it was not asked there."""
        if subject != self.asked:
            return False
        self.asked = None
        self._window = min(2 * self._window, WIDEST_WINDOW)
        self._bytes -= self._marked
        return True
