"""When a deadline that is due counts: once what had come before it is read.

A program that was stopped wakes up late, and what came meanwhile waits in its socket. ``epoll`` ends with EINTR then,
and Python answers that nothing came. A driver that called ``handle_timeout`` at once would blame the server.

Rules

* A deadline that is due counts once one more look at the socket has found nothing.
* It counts after ``MOST`` reads, or ``CATCH_UP`` seconds, in any case: a flood delays a deadline and does not stop it.
* A wait with a limit of its own ends by a like rule (``LateWait``). A call that waits several times has one of these.

Not here: how a driver looks.
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import TimeoutError

MOST: Final = 32  # reads: 8 MiB on asyncio, where one is the smallest. A socket holds less
CATCH_UP: Final = 0.2  # seconds
LOOK: Final = 0.001  # seconds that a loop waits for what it may find


def nothing_came(limit: float | None) -> TimeoutError:
    """What a wait of ``limit`` seconds ends with."""
    return TimeoutError(f"nothing came within {limit:g} s")


class LastLook:
    """The last look at the socket before a deadline counts.

    Attributes:
        begun: whether the driver is to look. To be reset when the link ends.
        received: how often the driver has received bytes.
    """

    def __init__(self) -> None:
        self.begun = False
        self.received = 0
        self._first = self._seen = 0  # of ``received``
        self._deadline = self._until = 0.0

    def is_over(self, deadline: float | None, now: float) -> bool:
        """Whether the driver is to call ``handle_timeout``. Otherwise it looks at the socket, and asks again.

        ``deadline``: that of the session, in seconds.
        """
        if deadline is None or deadline > now:  # what has come has moved it
            self.begun = False
        elif not self.begun or deadline != self._deadline:
            if not self.begun or deadline >= self._until:  # else a flood of deadlines would delay all of them
                self._until = now + CATCH_UP
            self.begun, self._deadline = True, deadline
            self._first = self._seen = self.received
        elif self._seen == self.received or self.received >= self._first + MOST or now >= self._until:
            self.begun = False
        else:
            self._seen = self.received
        return not self.begun


class LateWait:
    """The last looks of a wait whose limit has passed.

    It is over once ``enough`` looks in a row have found nothing. Two are enough where another thread or task looks, as
    one of them may have begun before the limit. It is over after ``CATCH_UP`` seconds in any case, once it was asked
    ``MOST`` times: a program that stands still again does not ask.

    Args:
        received: how often the driver has received bytes.
        looks: how often it has looked.
        now: the time, in seconds.
    """

    def __init__(self, received: int, looks: int, now: float) -> None:
        self._received, self._looks = received, looks
        self._until, self._asked = now + CATCH_UP, 0

    def is_over(self, received: int, looks: int, now: float, enough: int = 2) -> bool:
        """Whether the wait ends with TimeoutError. The first arguments are those of the constructor, by now."""
        self._asked += 1
        if received != self._received:
            self._received, self._looks = received, looks
        return looks >= self._looks + enough or (now >= self._until and self._asked >= MOST)
