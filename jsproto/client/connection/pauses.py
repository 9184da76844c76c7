"""Pauses: how a script waits for a time.

Rules: a pause outlives the links. It ends at its time, or fails with why the session ended.

Not here: how long (``jsproto.backoff``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jsproto.outbox import Conversation
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session


class Pauses(Conversation):
    """All pauses of one session."""

    __slots__ = ("_deadlines", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deadlines: Deadlines[Ticket[None]] = Deadlines()

    def begin(self, seconds: float, now: float) -> Ticket[None]:
        """Completed after so many seconds. It fails with why the session ended.

        Raises:
            ConnectionClosedError: the session has ended.
        """
        closed = self._session.closed_error
        if closed is not None:
            raise closed
        ticket: Ticket[None] = Ticket()
        self._deadlines.set(ticket, now + seconds)
        self._session.rearm(self)
        return ticket

    def handle_timeout(self, now: float) -> None:
        """End the pauses that are over."""
        for ticket in self._deadlines.due(now):
            ticket.succeed(None)
            self._session.completed(ticket)

    def deadline(self) -> float | None:
        """When the next pause is over."""
        return self._deadlines.next()

    def end(self) -> list[Ticket[None]]:
        """The session has ended: the tickets of all pauses, to be failed."""
        return self._deadlines.due(float("inf"))
