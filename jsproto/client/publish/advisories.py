"""Watching a stream for batches that its server gave up (ADR-50, Abandonment Advisories).

A server that abandons a batch leaves its publisher out, and publishes an advisory. One ``BatchAdvisories`` is a
subscription to the advisories of one stream, narrowed to one batch if wanted.

Rules
 * Advisories are core NATS messages, sent once. One that finds no subscriber is gone, so watch before publishing.
 * The buffer is bounded. What is more is dropped and counted, with one event each time the buffer fills up.
 * Another message, or one about another stream, is an event and is passed over: anybody may publish there.
 * After the end what is buffered can still be taken. Then ``readable()`` fails with why it ended.

Not here: what to do about it. Nats-server 2.15.1 sends advisories of atomic batches alone. A fast-ingest batch ends in
silence (FACTS.md F2.10).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from jsproto.errors import (
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    PermissionsViolationError,
    RemoteProtocolError,
)
from jsproto.events import SlowConsumer, UnexpectedMessage
from jsproto.grammar.advisory import BatchAbandoned, batch_abandoned_subject, parse_batch_abandoned
from jsproto.grammar.options import of_text
from jsproto.outbox import Conversation, Outbox
from jsproto.ticket import Live, Readable, Ticket
from jsproto.wire.frames import Msg

DEFAULT_PENDING_ADVISORIES: Final = 8_192


class BatchAdvisories(Conversation, Live):
    """The advisories about abandoned batches of one stream, or about one of its batches.

    Attributes:
     * ``stream``: its name.
     * ``batch_id``: of the one batch. None: all batches.
     * ``dropped``: how many advisories were lost to a full buffer.
     * ``error``: why it ended. None while it lives.
    """

    __slots__ = (
        "_buffer", "_full", "_limit", "_outbox", "_readable", "_sid", "_subject", "batch_id", "dropped", "error",
        "stream",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        batch_id: str | None = None,
        *,
        pending_limit: int = DEFAULT_PENDING_ADVISORIES,
    ) -> None:
        """Listen from now on. ``pending_limit``: how many advisories are buffered, 1 or more.

        Raises:
         * BadSubjectError: ``stream`` is a bad name.
         * LocalProtocolError: ``pending_limit`` is less than 1, or ``batch_id`` is no text.
         * OutboundBufferLimitError, ConnectionClosedError: the outbox refuses the subscription.
        """
        if batch_id is not None:
            of_text("batch_id", batch_id)
        if pending_limit < 1:
            raise LocalProtocolError("the limit of a buffer must be at least 1")
        self.stream = stream
        self.batch_id = batch_id
        self.dropped = 0
        self.error: Error | None = None
        self._outbox = outbox
        self._subject = batch_abandoned_subject(stream)
        self._limit = pending_limit
        self._buffer: deque[BatchAbandoned] = deque()
        self._full = False
        self._readable = Readable(outbox.completed)
        self._sid = outbox.subscribe(self._subject, self)
        outbox.flush()

    @property
    def pending(self) -> int:
        """Advisories in the buffer."""
        return len(self._buffer)

    def receive(self, message: Msg, now: float) -> None:
        """A message on the subject of the advisories."""
        try:
            advisory = parse_batch_abandoned(message.payload)
        except RemoteProtocolError as error:
            self._outbox.emit(UnexpectedMessage(self._subject, str(error)))
            return
        if advisory.stream != self.stream:
            self._outbox.emit(UnexpectedMessage(self._subject, "an advisory about another stream"))
        elif self.batch_id not in (None, advisory.batch_id) or self.error is not None:
            pass  # another batch's, or it was under way when this was closed
        elif len(self._buffer) >= self._limit:
            self.dropped += 1
            if not self._full:
                self._full = True
                self._outbox.emit(SlowConsumer(self._subject, self.dropped))
        else:
            self._buffer.append(advisory)
            self._readable.notify()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """A refused subscription ends it. It only listens, so a dropped message is another's."""
        if violation.operation == "subscribe":
            self._outbox.unsubscribe(self._sid)
            self._end(violation)

    def crashed(self, error: Error, now: float) -> None:
        """It ends with ``error``."""
        self._end(error)

    def link_lost(self, error: Error, now: float) -> None:
        """Advisories are missed until there is a new link. Without one it ends."""
        if self._outbox.closed_error is not None:
            self._end(error)

    def pop_many(self, most: int) -> list[BatchAbandoned]:
        """Take up to ``most`` advisories, oldest first. Empty when there are none."""
        self._full = False
        return [self._buffer.popleft() for _ in range(min(most, len(self._buffer)))]

    def readable(self) -> Ticket[None]:
        """A ticket that is completed when an advisory can be taken, and fails with why advisories have ended."""
        return self._readable.ticket(bool(self._buffer), self.error)

    def close(self) -> None:
        """Stop listening. No effect after the end."""
        if self.error is None:
            self._outbox.unsubscribe(self._sid)
            self._end(ConnectionClosedError("the advisories are watched no more"))

    def abandon(self, now: float) -> None:
        self.close()

    def _end(self, error: Error) -> None:
        self.error = error
        self._readable.fail(error)
