"""What both kinds of batch have in common: how the waiters of one that ends hear of it.

Not here: when a batch ends (``fast``, ``atomic``).
"""

from __future__ import annotations

from enum import Enum

from jsproto.errors import BatchClosedError, Error
from jsproto.events import UnexpectedMessage
from jsproto.grammar.acks import PubAck
from jsproto.outbox import BulkOutbox, Conversation
from jsproto.ticket import Readable, Ticket
from jsproto.wire.frames import Msg


class Batch(Conversation):
    """One batch. The classes derived from it set the attributes."""

    __slots__ = ("_commit", "_outbox", "_ready")

    phase: Enum
    _commit: Ticket[PubAck] | None
    _outbox: BulkOutbox
    _ready: Readable

    @property
    def is_busy(self) -> bool:
        """True: an open batch ends with its link. One that has ended unsubscribes."""
        return True

    def _closed(self) -> BatchClosedError:
        return BatchClosedError(f"the batch is {self.phase.name.lower()}: start a new one")

    def _fail_waiters(self, error: Error) -> None:
        """Fail the tickets of ``ready()`` and of the commit, if somebody waits for them."""
        self._ready.fail(error)
        commit, self._commit = self._commit, None
        if commit is not None:
            commit.fail(error)
            self._outbox.completed(commit)

    def _ignore(self, message: Msg, reason: str) -> None:
        self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), reason))
