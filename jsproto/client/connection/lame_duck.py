"""Leaving a server in lame-duck mode for another one, before it closes the connection.

Rules:

* The link is left when it is idle: requests and batches have ended, and the write buffer is empty.
* It is left for another server only: the last one of a cluster stays in use until it goes.
* It begins at a random moment, so that the clients of a server arrive at the next one apart.
* What was published must have been processed. An answer to the last message shows it, or else the answer to a PING.
* Under a steady stream of plain messages the link is left after ``MAX_PINGS`` PINGs: those messages may be lost.
* While requests or batches are always under way the link stays, until the server ends it.

Not here: which server is next (``server_pool``), what is lost with a link (``session``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jsproto.outbox import Conversation
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session

CHECK_EVERY: Final = 0.1  # seconds: what is given up without an answer is noticed then
MAX_PINGS: Final = 20


class LameDuckMove(Conversation):
    """The move away from the present server. It lives without subscriptions."""

    __slots__ = ("_begins_at", "_ping", "_pinged_at", "_pings", "_session", "_timers")

    def __init__(self, session: Session, begins_at: float) -> None:
        """``begins_at``: the earliest time, in monotonic seconds."""
        self._session = session
        self._begins_at = begins_at
        self._timers = Timers()
        self._timers.set(Timer.LAME_DUCK, begins_at)
        self._ping: Ticket[float] | None = None
        self._pinged_at = 0  # how many messages were published before the last PING
        self._pings = 0

    def deadline(self) -> float | None:
        """When to look again. None: it has ended."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Look again."""
        self._timers.set(Timer.LAME_DUCK, now + CHECK_EVERY)
        self.check(now)

    def end(self) -> None:
        """The link has gone, one way or the other."""
        self._timers.clear()

    def check(self, now: float) -> None:
        """Leave the link if it is idle."""
        session, ping = self._session, self._ping
        if now < self._begins_at or not session.has_other_servers or session.is_busy:
            return
        if ping is not None and not ping.done:
            return
        published = session.published
        processed = published == session.requests.last_message or (ping is not None and published == self._pinged_at)
        if processed or self._pings == MAX_PINGS:
            session.leave_link("the server is in lame duck mode", now)
        else:
            self._pinged_at = published
            self._pings += 1
            self._ping = session.ping(now)
