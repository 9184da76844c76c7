"""Following one message from server to server (ADR-41), for whoever published it.

Each server that a traced message passes reports once, with a message to the subject of one ``TraceCollector``. Reports
come in any order. The first server says how many others it has sent the message to, and so does each of those.

Rules
 * Reports are core NATS messages, sent once. So the collector subscribes before the message is published.
 * All are here when each server that was told of has reported. A server too old for traces stays silent: wait with a
   timeout.
 * Another message, or a second report of a server, is an event and is passed over: anybody may publish there.

Not here: what reports say (``grammar.trace``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import (
    ConnectionClosedError,
    Error,
    PermissionsViolationError,
    RemoteProtocolError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.publish_headers import TRACE_SINCE
from jsproto.grammar.trace import Path, Trace, TraceEvent, is_complete, parse_trace, trace_of
from jsproto.outbox import Conversation, Outbox
from jsproto.ticket import Readable, Ticket
from jsproto.wire.frames import Msg

MAX_EVENTS: Final = 10_000  # servers that one trace may have


class TraceCollector(Conversation):
    """The reports of one message.

    Attributes:
     * ``subject``: where they arrive, for the header ``Nats-Trace-Dest``.
     * ``error``: why reports have ended. None while they may.
    """

    __slots__ = ("_events", "_outbox", "_ready", "_sid", "error", "subject")

    def __init__(self, outbox: Outbox, *, inbox: str, server: ServerInfo | None = None) -> None:
        """Listen from now on. ``inbox``: a subject of this client alone. ``server``: None when it is unknown.

        Raises:
         * UnsupportedByServerError: the server is older than 2.11.
         * OutboundBufferLimitError, ConnectionClosedError: the outbox refuses the subscription.
        """
        if server is not None and server.is_before(TRACE_SINCE):
            raise UnsupportedByServerError("following a message", TRACE_SINCE, server.version)
        self.subject = inbox
        self.error: Error | None = None
        self._outbox = outbox
        self._events: dict[Path, TraceEvent] = {}
        self._ready = Readable(outbox.completed)
        self._sid = outbox.subscribe(inbox, self)
        outbox.flush()

    @property
    def trace(self) -> Trace:
        """What was reported until now."""
        return trace_of(self._events)

    def complete(self) -> Ticket[None]:
        """A ticket that is completed when all servers have reported, and fails with why reports have ended."""
        return self._ready.ticket(is_complete(self._events), self.error)

    def receive(self, message: Msg, now: float) -> None:
        """A report."""
        try:
            found = parse_trace(message.payload)
        except RemoteProtocolError as error:
            self._outbox.emit(UnexpectedMessage(self.subject, str(error)))
            return
        if found.path in self._events or len(self._events) >= MAX_EVENTS:
            self._outbox.emit(UnexpectedMessage(self.subject, "a server has reported twice"))
            return
        self._events[found.path] = found
        if is_complete(self._events):
            self._ready.notify()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """A refused subscription ends it. It only listens, so a dropped message is another's."""
        if violation.operation == "subscribe":
            self._outbox.unsubscribe(self._sid)
            self._end(violation)

    def crashed(self, error: Error, now: float) -> None:
        """It ends with ``error``."""
        self._end(error)

    def link_lost(self, error: Error, now: float) -> None:
        """Reports on the lost link are gone with it."""
        self._outbox.unsubscribe(self._sid)
        self._end(error)

    def close(self) -> None:
        """Stop listening. No effect after the end."""
        if self.error is None:
            self._outbox.unsubscribe(self._sid)
            self._end(ConnectionClosedError("the trace was closed"))

    def _end(self, error: Error) -> None:
        self.error = error
        self._ready.fail(error)
