"""How long a call may wait: one look, then the deadline counts.

A program that was stopped wakes up late, and what came meanwhile waits in its socket. ``epoll`` ends with EINTR then,
and Python answers that nothing came. A driver that counted its deadline at once would blame the server.

Rules

* A wait whose deadline has passed looks once at what the socket has. Then the deadline counts.
* The deadline of the session has one look, too, before ``handle_timeout``.
* A look is one read. What waits behind more of other data than that may come too late.

Not here: how a driver looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jsproto.errors import TimeoutError
from jsproto.ticket import Ticket

LOOK: Final = 0.002  # seconds that a driver waits for what it may find
LONGEST: Final = 0.2  # seconds that a thread waits for another one to look, which may be kept from it


class Limit:
    """How long one call may wait, in all its waits together.

    Others may take what ends a wait. Then the call waits again, after its limit once.

    Args:
        seconds: of the limit. 0: the call ends without a look.
        now: when the call begins.

    Attributes:
        until: when the limit has passed.
    """

    __slots__ = ("_has_looked", "_has_waited", "seconds", "until")

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds, self.until = seconds, now + seconds
        self._has_waited = self._has_looked = False

    def begin_wait(self, ticket: Ticket[Any], clock: Callable[[], float]) -> None:
        """The call is to wait for ``ticket``, unless that is complete.

        Raises:
            TimeoutError: it has waited before, and begun another wait after its limit.
        """
        if ticket.done:
            return
        if self._has_waited and clock() >= self.until:
            if self._has_looked:
                raise self.error()
            self._has_looked = True
        self._has_waited = True

    def check_look(self, since: float, last_read: float, now: float) -> None:
        """A wait goes on after the limit, for a look. ``since``: when that has begun, ``inf`` before it does.

        ``last_read``: when bytes could last be put in. ``inf``: there is nothing to look at.

        Raises:
            TimeoutError: the look is over.
        """
        if since <= last_read or now >= since + LONGEST or not self.seconds:
            raise self.error()

    def error(self) -> TimeoutError:
        """What the call ends with."""
        return TimeoutError(f"nothing came within {self.seconds:g} s")
