"""When a deadline that is due counts: once what had come before it is read.

A program that was stopped wakes up late, and what came meanwhile waits in its socket. ``epoll`` ends with EINTR then,
and Python answers that nothing came. A driver that called ``handle_timeout`` at once would blame the server.

Rules

* A deadline that is due counts once one more look at the socket has found nothing.
* It counts after ``MOST`` reads, or ``CATCH_UP`` seconds, in any case: a flood delays a deadline and does not stop it.
* A call that has a limit of its own ends by a rule like that (``Limit``).

Not here: how a driver looks.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from jsproto.errors import TimeoutError

MOST: Final = 32  # reads: 8 MiB on asyncio, where one is the smallest. A socket holds less
CATCH_UP: Final = 0.2  # seconds
LOOK: Final = 0.001  # seconds that a loop waits for what it may find


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


class Limit:
    """How long one call may wait, in all its waits together.

    When it has passed, what had come by then still counts. A wait ends once ``enough`` looks in a row have found
    nothing. Where another one looks, two are enough: the first may have begun before. ``CATCH_UP`` seconds end it too,
    from the third question on, since a program may stand still once more.

    Others may take what ends a wait. Then the call waits again, for ten times as long as the program was late.

    Args:
        seconds: of the limit. 0: the call ends without a look.
        now: when the call begins.

    Attributes:
        until: when the limit has passed.
        looks: how often a loop has looked for this call.
    """

    __slots__ = ("_asked", "_give_up", "_looks", "_no_more", "_received", "_waited", "looks", "seconds", "until")

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds, self.until = seconds, now + seconds
        self._waited = False
        self.looks = self._looks = self._asked = 0
        self._received = -1
        self._give_up = self._no_more = inf

    def is_over(self, received: int, looks: int, now: float, enough: int = 2) -> bool:
        """Whether a wait ends, now that the limit has passed.

        ``received``: how often the driver has received bytes. ``looks``: how often it has looked at the socket.
        """
        self._begin(now)
        self._asked += 1
        if received != self._received:
            self._received, self._looks = received, looks
        gives_up = now >= self._give_up and self._asked > 2
        return not self.seconds or looks >= self._looks + enough or gives_up

    def begin_wait(self, clock: Callable[[], float]) -> None:
        """The call is to wait.

        Raises:
            TimeoutError: it has waited before, and it is too late to do so again.
        """
        if self._waited and (now := clock()) >= self.until:
            self._begin(now)
            if now >= self._no_more:
                raise self.error()
        self._waited = True

    def error(self) -> TimeoutError:
        """What the call ends with."""
        return TimeoutError(f"nothing came within {self.seconds:g} s")

    def _begin(self, now: float) -> None:
        if self._give_up == inf:
            self._give_up = now + CATCH_UP
            self._no_more = now + min(CATCH_UP, 10 * (now - self.until))
