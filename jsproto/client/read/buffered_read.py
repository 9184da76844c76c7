"""The reader's side of a read of many messages: what has arrived, the ticket of the reader that waits, the end.

Rules:

* What has arrived can be taken after the read has failed. Then comes the error.
* A read ends once: it has ``finished``, or it has an ``error``.

Not here: what is asked and what arrives (``direct``), how messages are kept (``read_buffer``).
"""

from __future__ import annotations

from jsproto.client.read.read_buffer import ReadBuffer
from jsproto.errors import Error, RemoteProtocolError
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.stored import FieldsAsked, StoredMsg, number
from jsproto.outbox import BulkConversation, BulkOutbox, Outbox, bulk
from jsproto.ticket import Readable, Ticket


class BufferedRead(BulkConversation):
    """A read whose messages are taken from a buffer.

    Attributes:

    * ``stream``: its name.
    * ``error``: why the read broke off, None without an error.
    * ``finished``: all that was asked for has been received. That is not "taken": ``pop_many`` may
      give more.
    """

    __slots__ = (
        "_asked",
        "_last_header",
        "_outbox",
        "_readable",
        "_ready",
        "_sid",
        "_wants_columns",
        "error",
        "finished",
        "stream",
    )

    def __init__(self, outbox: Outbox, stream: str) -> None:
        self.stream = stream
        self.error: Error | None = None
        self.finished = False
        self._outbox = outbox if isinstance(outbox, BulkOutbox) else bulk(outbox)
        self._ready = ReadBuffer()  # may be taken
        self._readable = Readable(outbox.completed)
        self._sid: int  # set where the read subscribes
        self._last_header: bytes | None = None  # of the last message, or end of a page, that was received
        self._asked: FieldsAsked | None = None  # by the reader, if they could be parsed at once
        self._wants_columns = False  # the reader takes columns, or looks at subjects or times

    @property
    def num_pending(self) -> int | None:
        """Messages that match and were not received yet, as the server said last. None when it said no number.

        Inside a page a server of 2.11 counts one too many.
        """
        try:
            return None if self._last_header is None else number(self._last_header, b"Nats-Num-Pending")
        except RemoteProtocolError:  # the message was in order otherwise, and nothing had read this number
            return None

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` received messages, in order."""
        if self._asked is not None and self._asked.yes:
            self._want_columns()
        return self._ready.pop_messages(most, self._asked)

    def pop_columns(self, most: int, now: float) -> StoredColumns:
        """``pop_many`` as columns, at a third of the price where every field is wanted.

        Raises:
            RemoteProtocolError: a message has no subject or no time.
        """
        self._want_columns()
        return self._ready.pop_columns(most)

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken or the read has finished; fails with why the read broke off."""
        return self._readable.ticket(bool(self._ready) or self.finished, self.error)

    # -- for the read itself -------------------------------------------------------------------------------------------

    def _want_columns(self) -> None:
        """From now on subjects and times are parsed as messages arrive, many at once."""
        if not self._wants_columns:
            self._wants_columns = True
            self._outbox.want_fields(self._sid)

    def _ended(self, error: Error | None) -> None:
        """The read has its end, or has failed with ``error``."""
        self.error = error
        self.finished = error is None
        self._wake_reader()

    def _wake_reader(self) -> None:
        """Complete the ticket of the reader that waits, if there is something to take or an end."""
        if self.error is not None and not self._ready:
            self._readable.fail(self.error)
        elif self._ready or self.finished:  # else what came is to be approved first
            self._readable.notify()
