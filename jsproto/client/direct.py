"""Direct Get in batches (ADR-31), the client's side: reading a stream by sequence and subject, page by page.

The server sends a page without flow control, so a page is bounded by messages and bytes, and the next one is asked
for only when most of the last was taken: memory stays bounded however slow the reader is. A page ends with a status
``204 EOB`` that says what is left; a page that does not is an error, never a short result.

Rules: each page has a reply subject of its own, so a late message of an earlier page changes nothing. Sequences rise,
and every message names the one before it: a message lost on the way is found when the next one arrives. Deleted and
purged messages are holes in the numbers and normal.

Not here: single gets, multi-subject and point-in-time reads, resuming after a replica died in the middle of a page.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from jsproto.errors import (
    Error,
    IncompleteBatchError,
    LocalProtocolError,
    MessageNotFoundError,
    NoRespondersError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    StatusError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.bodies import dumps
from jsproto.grammar.headers import status_line
from jsproto.grammar.stored import ENDING, StoredMsg, next_sequence, number, paging, stored_messages
from jsproto.grammar.subjects import check_subject
from jsproto.outbox import Conversation, Outbox
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg

PAGE_MESSAGES: Final = 32_768
PAGE_BYTES: Final = 8 * 1024 * 1024  # the server's count leaves out about 230 bytes of headers a message
ASK_AGAIN: Final = 0.02  # seconds; when the outbox has no room for a request
END_OF_BATCH: Final = 204
NO_RESPONDERS: Final = 503
_PLAIN: Final = b"NATS/1.0\r\n"
_NOTHING_LEFT: Final = b"NATS/1.0\r\nNats-Num-Pending: 0\r\n\r\n"


class DirectBatch(Conversation):
    """One read of a stream from a sequence on.

    Attributes: ``stream``; ``error`` (why the read broke off); ``finished`` (all that was asked for has been received).
    """

    __slots__ = (
        "_api", "_buffer", "_ending", "_first", "_floor", "_inbox", "_last_header", "_left", "_outbox",
        "_page_asked", "_page_bytes", "_page_count", "_page_messages", "_page_room", "_pages", "_progress_at",
        "_readable", "_reply", "_sid", "_subject", "_timeout", "_timers", "_waiting", "error", "finished",
        "stream",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        *,
        api_subject: str,
        inbox: str,
        now: float,
        seq: int = 1,
        subject: str | None = None,
        batch: int | None = None,
        page_messages: int = PAGE_MESSAGES,
        page_bytes: int = PAGE_BYTES,
        timeout: float = 5.0,
    ) -> None:
        """Ask ``api_subject`` for the messages of ``stream`` from sequence ``seq`` on.

        ``subject``: only what matches it (wildcards allowed). ``batch``: at most so many; None reads to the end of
        the stream. ``page_messages`` and ``page_bytes`` bound what is under way and buffered. ``timeout``: seconds of
        silence inside a page after which it counts as cut off. LocalProtocolError for impossible values.
        """
        if seq < 1:
            raise LocalProtocolError(f"stream sequences start at 1, not {seq!r}")
        if batch is not None and batch < 1:
            raise LocalProtocolError(f"batch must be at least 1, not {batch!r}")
        if page_messages < 1 or page_bytes < 1 or not timeout > 0:
            raise LocalProtocolError("page_messages, page_bytes and timeout must be greater than 0")
        if subject is not None:
            check_subject(subject, wildcards=True)
        self.stream = stream
        self._last_header: bytes | None = None
        self._ending = b""
        self.error: Error | None = None
        self.finished = False
        self._outbox = outbox
        self._api = api_subject
        self._inbox = inbox
        self._first = seq
        self._floor = seq - 1  # what comes has a higher sequence
        self._subject = subject
        self._left = batch
        self._page_messages = page_messages
        self._page_bytes = page_bytes
        self._timeout = timeout
        self._timers = Timers()
        # Tuples, because the garbage collector leaves them alone: a page would be walked again and again.
        self._buffer: deque[tuple[bytes, bytes, int]] = deque()
        self._readable: Ticket[None] | None = None
        self._pages = 0
        self._page_asked = 0
        self._page_count = 0
        self._page_room = 0
        self._reply = b""
        self._progress_at = now
        self._waiting = False
        self._sid = outbox.subscribe(f"{inbox}.*", self)
        self._ask(now)

    @property
    def last_seq(self) -> int:
        """The sequence of the last message received; 0 before the first."""
        return self._floor if self._floor >= self._first else 0

    @property
    def _page_seq(self) -> int:
        """The same of this page."""
        return self._floor if self._page_count else 0

    @property
    def num_pending(self) -> int | None:
        """Messages that match and were not received yet, as the server said last; None when it said nothing."""
        return None if self._last_header is None else number(self._last_header, b"Nats-Num-Pending")

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` received messages, in order; asks for the next page when few are left."""
        buffer = self._buffer
        messages = stored_messages([buffer.popleft() for _ in range(min(most, len(buffer)))])
        if self._waiting and len(buffer) <= self._page_messages // 2:
            self._ask(now)
        return messages

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken or none will come any more; fails with why the read broke off."""
        if self._readable is not None:
            return self._readable
        ticket: Ticket[None] = Ticket()
        if self._buffer or self.finished:
            ticket.succeed(None)
        elif self.error is not None:
            ticket.fail(self.error)
        else:
            self._readable = ticket
        return ticket

    def close(self, now: float) -> None:
        """Stop reading: what is buffered is dropped, what is under way is ignored."""
        self._buffer.clear()
        self._finish()

    def receive(self, message: Msg, now: float) -> None:
        """A message of the page, or its end."""
        if message.subject != self._reply:
            self._ignore(message, "a message of an earlier page")
            return
        header = message.header
        self._progress_at = now
        try:
            if header is None:
                raise RemoteProtocolError("a Direct Get reply without headers", message.payload)
            sequence = next_sequence(header, self._ending)
            if sequence <= self._floor:  # not what must come next, or not written as servers do
                if not header.startswith(_PLAIN):
                    self._receive_status(header, now)
                    return
                sequence = self._look_again(header)
            if self._page_count == self._page_asked or self._page_room < 0:
                raise RemoteProtocolError(f"more than the {self._page_asked} messages, or the bytes, asked for")
            self._page_room -= len(message.payload)
            self._page_count += 1
            self._buffer.append((header, message.payload, sequence))
            self._floor = sequence
            self._ending = ENDING % sequence
            self._last_header = header
            if self._readable is not None:
                self._tell()
        except Error as error:
            self._fail(error)

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            silent_until = self._progress_at + self._timeout
            if timer is Timer.ASK_AGAIN:
                self._ask(now)
            elif now < silent_until:
                self._timers.set(Timer.PAGE, silent_until)
            else:
                self._fail(IncompleteBatchError(f"no message within {self._timeout:g} s", self.last_seq))
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        return self._timers.next()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The question was dropped, or its answers may not be received."""
        if violation.operation == "subscribe" or violation.subject == self._api:
            self._fail(violation)

    def link_lost(self, error: Error, now: float) -> None:
        """The rest of the page will not come; a new link may bring it, unless the session has ended."""
        if self.finished or self.error is not None:
            return
        if self._outbox.closed_error is None:
            if not self._waiting:
                self._reply = b""
                self._timers.clear()
            return
        lost = IncompleteBatchError(f"the connection was lost: {error}", self.last_seq)
        lost.__cause__ = error
        self._fail(lost)

    def link_restored(self, now: float) -> None:
        """Go on behind the last message that arrived."""
        if not self._reply:
            if self._left is not None:
                self._left -= self._page_count
            self._ask(now)

    def _ask(self, now: float) -> None:
        """Ask for the next page."""
        self._timers.stop(Timer.ASK_AGAIN)
        self._waiting = False
        self._pages += 1
        self._page_count = 0
        self._page_room = self._page_bytes
        self._ending = ENDING % 0
        self._reply = f"{self._inbox}.{self._pages}".encode()
        asked = self._page_messages if self._left is None else min(self._page_messages, self._left)
        self._page_asked = asked
        body: dict[str, object] = {"seq": self._floor + 1, "batch": asked, "max_bytes": self._page_bytes}
        if self._subject is not None:
            body["next_by_subj"] = self._subject
        try:
            self._outbox.publish(self._api, dumps(body), self._reply)
        except OutboundBufferLimitError:
            self._waiting = True
            self._timers.set(Timer.ASK_AGAIN, now + ASK_AGAIN)
            self._outbox.rearm(self)
            return
        self._outbox.flush()
        self._progress_at = now
        self._timers.set(Timer.PAGE, now + self._timeout)
        self._outbox.rearm(self)

    def _look_again(self, header: bytes) -> int:
        """The sequence of a message that may be the next one all the same; raises when it is not."""
        sequence, pending, previous = paging(header)
        if pending is None or previous is None:
            server = self._outbox.server
            found = None if server is None else server.version
            raise UnsupportedByServerError("Direct Get in batches", "2.11", found)
        if previous != self._page_seq or sequence <= self._floor:
            text = f"message {sequence} follows {previous}, but {self._page_seq} was the last to arrive"
            raise IncompleteBatchError(text, self.last_seq)
        return sequence

    def _receive_status(self, header: bytes, now: float) -> None:
        status = status_line(header)
        assert status is not None  # a plain block was told apart before
        code, description = status
        if code == NO_RESPONDERS:
            raise NoRespondersError(
                self._api, f"stream {self.stream} does not exist, or its allow_direct is off (update it to true)"
            )
        if code == MessageNotFoundError.code and not self._page_seq:
            self._last_header = _NOTHING_LEFT
            self._finish()
            return
        if code != END_OF_BATCH:
            raise StatusError.from_status(code, description)
        pending, last = number(header, b"Nats-Num-Pending"), number(header, b"Nats-Last-Sequence")
        if pending is None or last != self._page_seq:
            raise IncompleteBatchError(f"the page ended at {last}, but {self._page_seq} arrived last", self.last_seq)
        self._last_header = header
        self._timers.clear()
        if self._left is not None:
            self._left -= self._page_count
        if not pending or self._left == 0:
            self._finish()
        elif not self._page_seq:
            raise IncompleteBatchError(f"the server sent an empty page with {pending} messages left", self.last_seq)
        elif len(self._buffer) <= self._page_messages // 2:
            self._ask(now)
        else:
            self._waiting = True

    def _finish(self) -> None:
        self.finished = True
        self._end()

    def _fail(self, error: Error) -> None:
        self.error = error
        self._end()

    def _end(self) -> None:
        self._waiting = False
        self._reply = b""
        self._timers.clear()
        self._outbox.unsubscribe(self._sid)
        self._outbox.rearm(self)
        if self._readable is not None:
            self._tell()

    def _tell(self) -> None:
        ticket, self._readable = self._readable, None
        assert ticket is not None
        if self.error is not None and not self._buffer:
            ticket.fail(self.error)
        else:
            ticket.succeed(None)
        self._outbox.completed(ticket)

    def _ignore(self, message: Msg, reason: str) -> None:
        self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), reason))
