"""A pause between two steps of a script.

Not here: how long it is (``jsproto.backoff``).
"""

from __future__ import annotations

from jsproto.errors import Error
from jsproto.outbox import Conversation, Outbox
from jsproto.ticket import Ticket


class Pause(Conversation):
    """One pause. Attribute: ``over`` (a ticket that is completed at its end, and fails with the session)."""

    __slots__ = ("_outbox", "_until", "over")

    def __init__(self, outbox: Outbox, until: float) -> None:
        """``until``: monotonic seconds."""
        self._outbox = outbox
        self._until = until
        self.over: Ticket[None] = Ticket()
        if outbox.closed_error is None:
            outbox.rearm(self)
        else:
            self.over.fail(outbox.closed_error)

    def deadline(self) -> float | None:
        """Its end. None: that was."""
        return None if self.over.done else self._until

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        if now >= self._until and not self.over.done:
            self.over.succeed(None)
            self._outbox.completed(self.over)
        self._outbox.rearm(self)

    def link_lost(self, error: Error, now: float) -> None:
        """The session has ended."""
        if not self.over.done:
            self.over.fail(error)
            self._outbox.completed(self.over)
