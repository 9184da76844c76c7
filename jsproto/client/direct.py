"""Direct Get in batches (ADR-31), the client's side: reading a stream by sequence and subject, page by page.

The server sends a page without flow control, so a page is bounded by messages and bytes, and the next one is asked
for only when half of the last was taken: memory stays bounded however slow the reader is. A page ends with a status
``204 EOB`` that says what is left; a page that does not is asked for again from where it broke off, and a read that
cannot go on is an error, never a short result.

Rules: each page has a reply subject of its own, so a late message of an earlier page changes nothing. Sequences rise,
and every message names the one before it: a message lost on the way is found when the next one arrives, and none is
between two that have numbers in a row. Deleted and purged messages are holes in the numbers and normal. Any replica or
mirror may answer a page; one that is behind the one that answered before is asked again.

Not here: single gets (``gets``), multi-subject reads (``multi``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from jsproto.client.backlog import NONE, Backlog
from jsproto.client.gets import check_seq, no_direct_get
from jsproto.client.requests import NO_RESPONDERS, is_no_responders
from jsproto.errors import (
    Error,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessageNotFoundError,
    MessagesDroppedError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    StatusError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.api import decode_response
from jsproto.grammar.bodies import dumps
from jsproto.grammar.columns import Fields, StoredColumns, next_columns
from jsproto.grammar.config import StreamInfo, StreamState
from jsproto.grammar.headers import status_line
from jsproto.grammar.stored import StoredMsg, next_sequences, number, paging
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Instant, format_timestamp, instant
from jsproto.outbox import Outbox, RowConversation
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, Row

IfDropped: TypeAlias = Literal["skip", "error"]
"""What a read does about messages that limits, or a purge, took from where it was to begin, or to go on."""

PAGE_MESSAGES: Final = 32_768
PAGE_BYTES: Final = 8 * 1024 * 1024  # the server's count leaves out about 230 bytes of headers a message
ASK_AGAIN: Final = 0.02  # seconds; when the outbox has no room for a request, or a replica is behind: then doubled
TIMES_BEHIND: Final = 5  # so often in a row it is asked again for what it should have; then it was deleted
END_OF_BATCH: Final = 204
_STATUS: Final = b"NATS/1.0 "
_NOTHING_LEFT: Final = b"NATS/1.0\r\nNats-Num-Pending: 0\r\n\r\n"


class DirectBatch(RowConversation):
    """One read of a stream from a sequence, or a time, on.

    Attributes: ``stream``; ``error`` (why the read broke off); ``finished`` (all that was asked for has been received).
    """

    __slots__ = (
        "_api", "_behind", "_buffer", "_checked", "_floor", "_if_dropped", "_inbox", "_info_subject",
        "_known", "_last_header", "_left", "_outbox", "_over", "_page_asked", "_page_bytes", "_page_count",
        "_page_floor", "_page_messages", "_page_room", "_pages", "_progress_at", "_readable", "_ready", "_reply",
        "_sid", "_start", "_start_time", "_subject", "_timeout", "_timers", "_told", "_vain", "_waiting",
        "_wants_columns", "error", "finished", "stream",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        *,
        api_subject: str,
        inbox: str,
        now: float,
        seq: int | None = None,
        start_time: Instant | None = None,
        subject: str | None = None,
        batch: int | None = None,
        if_dropped: IfDropped = "skip",
        info_subject: str | None = None,
        page_messages: int = PAGE_MESSAGES,
        page_bytes: int = PAGE_BYTES,
        timeout: float = 5.0,
    ) -> None:
        """Ask ``api_subject`` for the messages of ``stream`` from sequence ``seq`` on, or from ``start_time`` on.

        Without both from the first one. ``subject``: only what matches it (wildcards allowed). ``batch``: at most so
        many; None reads to the end of the stream. ``if_dropped="error"``: MessagesDroppedError when what is wanted
        next lies before the stream's first message; it needs ``info_subject``, where the stream tells its state.
        ``page_messages`` and ``page_bytes`` bound what is under way and buffered, to about twice that.
        ``timeout``: seconds of silence inside a page after which the rest is asked for again; the second time in a row
        that nothing comes, the read fails. LocalProtocolError for impossible values.
        """
        if seq is not None:
            check_seq(seq)
            if start_time is not None:
                raise LocalProtocolError("give seq or start_time, not both")
        if batch is not None and batch < 1:
            raise LocalProtocolError(f"batch must be at least 1, not {batch!r}")
        if page_messages < 1 or page_bytes < 1 or not timeout > 0:
            raise LocalProtocolError("page_messages, page_bytes and timeout must be greater than 0")
        if subject is not None:
            check_subject(subject, wildcards=True)
        if if_dropped not in ("skip", "error"):
            raise LocalProtocolError(f"if_dropped is 'skip' or 'error', not {if_dropped!r:.100}")
        self.stream = stream
        self.error: Error | None = None
        self.finished = False
        self._outbox = outbox
        self._api = api_subject
        self._inbox = inbox
        self._start_time = None if start_time is None else format_timestamp(instant(start_time))
        self._floor = self._start = 0 if seq is None else seq - 1  # what comes has a higher sequence
        self._subject = subject
        self._left = batch
        self._if_dropped = if_dropped
        self._info_subject = info_subject
        self._page_messages = page_messages
        self._page_bytes = page_bytes
        self._timeout = timeout
        self._timers = Timers()
        self._ready = Backlog()  # may be taken
        self._buffer = self._ready  # where a page goes: the same, unless it is to be approved first
        self._readable: Ticket[None] | None = None
        self._last_header: bytes | None = None
        self._pages = 0
        self._page_asked = 0
        self._page_count = 0
        self._page_floor = self._floor
        self._page_room = 0
        self._known = 0  # messages that some replica said were left
        self._behind = 0  # how often in a row a replica did not have them
        self._vain = False  # nothing came of the last page
        self._checked = b""  # where the answer to whether messages were dropped is to arrive
        self._over: bytes | None = None  # the end of a page that waits for that
        self._reply = b""
        self._told = b""  # the last earlier page whose late messages were reported
        self._progress_at = now
        self._waiting = False
        self._wants_columns = False  # they have been asked for, and will be again
        self._sid = outbox.subscribe(f"{inbox}.*", self)
        self._ask(now)

    @property
    def last_seq(self) -> int:
        """The sequence of the last message received; 0 before the first."""
        return self._floor if self._floor > self._start else 0

    @property
    def up_to_seq(self) -> int | None:
        """Of a multi-subject read: as of which sequence it is, None while unknown."""
        return None

    @property
    def num_pending(self) -> int | None:
        """Messages that match and were not received yet, as the server said last; None when it said no number.

        Inside a page a server of 2.11 counts one too many.
        """
        try:
            return None if self._last_header is None else number(self._last_header, b"Nats-Num-Pending")
        except RemoteProtocolError:  # of a message that was in order otherwise: nobody had looked at this
            return None

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` received messages, in order; asks for the next page when few are left."""
        messages = self._ready.pop_messages(most)
        if self._waiting and self._has_room:
            self._ask(now)
        return messages

    def pop_columns(self, most: int, now: float) -> StoredColumns:
        """``pop_many`` as columns, at a third of the price where every field is wanted.

        RemoteProtocolError when a message has no subject or no time.
        """
        if not self._wants_columns:
            self._wants_columns = True
            getattr(self._outbox, "want_fields", bool)()
        columns = self._ready.pop_columns(most)
        if self._waiting and self._has_room:
            self._ask(now)
        return columns

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken or none will come any more; fails with why the read broke off."""
        if self._readable is not None:
            return self._readable
        ticket: Ticket[None] = Ticket()
        if self._ready or self.finished:
            ticket.succeed(None)
        elif self.error is not None:
            ticket.fail(self.error)
        else:
            self._readable = ticket
        return ticket

    def close(self, now: float) -> None:
        """Stop reading: what is buffered is dropped, what is under way is ignored."""
        self._ready.clear()
        if self.error is None:
            self._finish()

    def receive(self, message: Msg, now: float) -> None:
        """A message of the page, or its end."""
        if message.subject != self._reply:
            self._receive_other(message, now)
            return
        header = message.header
        self._progress_at = now
        try:
            if header is None:
                raise RemoteProtocolError("a Direct Get reply without headers", message.payload)
            if self._take([header], [message.payload]):
                return
            sequence = self._look_again(header, now)
            if not sequence:
                return
            if self._page_count == self._page_asked or self._page_room < 0:
                raise RemoteProtocolError(f"more than the {self._page_asked} messages, or the bytes, asked for")
            self._keep(StoredColumns(NONE, [sequence], NONE, [message.payload], [header]), len(message.payload))
        except Error as error:
            self._fail(error)

    def receive_row(self, row: Row, now: float) -> None:
        """Messages of the page; all that is in order is taken at once. The first one of a page is looked at closely."""
        start = 0 if self._page_count else 1
        if start:
            self.receive(row.message(0), now)
        if row.subject == self._reply and self._page_count:
            self._progress_at = now
            headers, payloads, fields = row.headers, row.payloads, row.fields
            stop = len(headers) - headers[-1].startswith(_STATUS)  # the end of the page continues nothing
            if start or stop < len(headers):
                headers, payloads = headers[start:stop], payloads[start:stop]
            if start and fields is not None:  # then it does not end here
                fields = fields[0][start:], fields[1][start:], fields[2][start:]
            start += self._take(headers, payloads, fields)
        for place in range(start, len(row.headers)):
            if self.finished or self.error is not None:
                break
            self.receive(row.message(place), now)

    def _take(self, headers: list[bytes], payloads: list[bytes], fields: Fields | None = None) -> int:
        """Keep the messages that continue the page, and return how many they are; none if not all of them may come.

        ``fields``: what the headers say, if it is known.
        """
        columns: StoredColumns | None = None
        sequences: Sequence[int] = ()
        if self._page_count:
            if self._wants_columns and len(headers) > 1:
                columns = next_columns(headers, payloads, self._floor, fields)
            sequences = next_sequences(headers, self._floor) if columns is None else columns.seqs
        count = len(sequences)
        if not count or self._page_count + count > self._page_asked:
            return 0
        if count < len(headers):
            headers, payloads = headers[:count], payloads[:count]
        size = sum(map(len, payloads))
        if self._page_room < size - len(payloads[-1]):
            return 0
        self._keep(columns or StoredColumns(NONE, sequences, NONE, payloads, headers), size)
        return count

    def _keep(self, columns: StoredColumns, size: int) -> None:
        """These are the next messages of the page, with ``size`` bytes of payload."""
        self._page_room -= size
        self._page_count += len(columns.seqs)
        self._buffer.add(columns)
        self._floor = columns.seqs[-1]
        self._last_header = columns.raw_headers[-1]
        if self._readable is not None:
            self._tell()

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            silent_until = self._progress_at + self._timeout
            if timer is Timer.ASK_AGAIN:
                self._ask(now)
            elif now < silent_until:
                self._timers.set(Timer.PAGE, silent_until)
            else:
                self._again(f"no message within {self._timeout:g} s", now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        return self._timers.next()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The question was dropped, or its answers may not be received."""
        if violation.operation == "subscribe" or violation.subject in (self._api, self._info_subject):
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
        if not self._reply and not self._waiting:
            self._resume(now)

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Any]:
        """What the next page is to hold."""
        body: dict[str, Any] = {}
        if self._start_time is not None and not self._floor:
            body["start_time"] = self._start_time
        else:
            body["seq"] = self._floor + 1
        body["batch"], body["max_bytes"] = self._page_asked, self._page_bytes
        if self._subject is not None:
            body["next_by_subj"] = self._subject
        return body

    def _ask(self, now: float) -> None:
        """Ask for the next page."""
        self._timers.stop(Timer.ASK_AGAIN)
        self._waiting = False
        self._pages += 1
        self._page_count = 0
        self._page_floor = self._floor
        self._page_room = self._page_bytes
        self._page_asked = self._page_messages if self._left is None else min(self._page_messages, self._left)
        self._checked, self._over = b"", None
        self._reply = f"{self._inbox}.{self._pages}".encode()
        try:
            self._outbox.publish(self._api, dumps(self._fields()), self._reply)
        except OutboundBufferLimitError:
            self._ask_at(now + ASK_AGAIN)
            return
        self._outbox.flush()
        self._progress_at = now
        self._timers.set(Timer.PAGE, now + self._timeout)
        self._outbox.rearm(self)

    def _ask_at(self, when: float) -> None:
        self._reply = b""
        self._waiting = True
        self._timers.set(Timer.ASK_AGAIN, when)
        self._outbox.rearm(self)

    @property
    def _has_room(self) -> bool:
        """Whether the reader has taken so much that another page may come."""
        return Timer.ASK_AGAIN not in self._timers and len(self._ready) <= self._page_count // 2

    @property
    def _page_seq(self) -> int:
        """The sequence of the last message of this page; 0 before the first."""
        return self._floor if self._page_count else 0

    def _again(self, text: str, now: float) -> None:
        """The page broke off: ask for the rest, but not for the second time in a row that nothing came of it."""
        if self._vain and not self._page_count:
            self._fail(IncompleteBatchError(text, self.last_seq))
        else:
            self._vain = not self._page_count
            self._resume(now)

    def _resume(self, now: float) -> None:
        """Ask for what is left of the page."""
        if self._checked:  # it was not approved
            self._drop_page()
        elif self._page_count:
            self._known = max(self.num_pending or 0, self._known - self._page_count)
            if self._left is not None:
                self._left -= self._page_count
        if self._left == 0:
            self._finish()
        else:
            self._ask(now)

    def _drop_page(self) -> None:
        self._buffer = self._ready
        self._floor = self._page_floor

    def _look_again(self, header: bytes, now: float) -> int:
        """The sequence of a message that may be the next one all the same; 0 when there is nothing to keep."""
        if number(header, b"Nats-Sequence") is None and (status := status_line(header)) is not None:
            self._receive_status(header, *status, now)
            return 0
        sequence, pending, previous = paging(header)
        if pending is None or previous is None:
            server = self._outbox.server
            found = None if server is None else server.version
            raise UnsupportedByServerError("Direct Get in batches", "2.11", found)
        if sequence <= self._floor:
            return 0  # it came twice
        if previous != self._page_seq and sequence != self._floor + 1:  # else nothing can be missing
            self._again(f"message {sequence} follows {previous}, but {self._page_seq} was the last to arrive", now)
            return 0
        if not self._page_count and not self._check_start(sequence, now):
            return 0
        return sequence

    def _receive_status(self, header: bytes, code: int, description: str, now: float) -> None:
        if code == NO_RESPONDERS:
            raise no_direct_get(self.stream, self._api)
        if code == MessageNotFoundError.code and not self._page_count:
            header = _NOTHING_LEFT
            if not self._check_start(None, now):
                return
        elif code != END_OF_BATCH:
            raise StatusError.from_status(code, description)
        elif number(header, b"Nats-Num-Pending") is None:
            raise RemoteProtocolError("the end of a page does not say how much is left", header)
        elif (last := number(header, b"Nats-Last-Sequence")) != self._page_seq:
            self._again(f"the page ended at {last}, but {self._page_seq} arrived last", now)
            return
        if self._checked:
            self._over = header
        else:
            self._page_over(header, now)

    def _page_over(self, header: bytes, now: float) -> None:
        """The page is whole: go on, later or never."""
        pending = self._pending(header)
        self._timers.clear()
        self._reply = b""
        self._last_header = header
        self._vain = False
        if self._page_count:
            self._behind = 0
            if self._left is not None:
                self._left -= self._page_count
        elif pending:
            text = f"the server sent an empty page with {pending} messages left"
            raise IncompleteBatchError(text, self.last_seq)
        self._known = max(pending, self._known - self._page_count)
        if self._left == 0 or not self._known or (not pending and self._behind == TIMES_BEHIND):
            self._finish()
        elif not pending:
            self._ask_at(now + ASK_AGAIN * 2**self._behind)
            self._behind += 1
        elif self._has_room:
            self._ask(now)
        else:
            self._waiting = True

    def _pending(self, header: bytes) -> int:
        """What is left behind a page, as its end says."""
        return number(header, b"Nats-Num-Pending") or 0

    # -- whether the start of a page was dropped -----------------------------------------------------------------------

    def _check_start(self, first: int | None, now: float) -> bool:
        """``first`` begins the page: if it is not what was asked for, ask whether that was dropped, and wait.

        False when there is no room for the question: then the page is asked for again.
        """
        by_time = self._start_time is not None and not self._page_floor
        if self._if_dropped == "skip" or first == self._page_floor + 1 or by_time:
            return True
        self._buffer = Backlog()
        return self._ask_state(now)

    def _ask_state(self, now: float) -> bool:
        """Ask the leader for the state of the stream, which ``_approve`` gets: what is in the buffer waits for it.

        False when there is no room for the question: then the page is asked for again.
        """
        assert self._info_subject is not None  # of whoever may want to know
        checked = f"{self._inbox}.s{self._pages}".encode()
        try:
            self._outbox.publish(self._info_subject, b"", checked)
        except OutboundBufferLimitError:
            self._timers.clear()
            self._ask_at(now + ASK_AGAIN)
            return False
        self._outbox.flush()
        self._checked = checked
        return True

    def _receive_other(self, message: Msg, now: float) -> None:
        if not self._checked or message.subject != self._checked:
            self._ignore(message, "a message of an earlier page")
            return
        self._progress_at = now
        try:
            if is_no_responders(message):
                raise JetStreamNotAvailableError(str(self._info_subject))
            self._approve(StreamInfo.from_json(decode_response(message.payload)).state, now)
        except Error as error:
            self._drop_page()
            self._fail(error)

    def _approve(self, state: StreamState, now: float) -> None:
        """The page may be given out, unless what was to come before it was dropped."""
        if state.first_seq > self._page_floor + 1:
            raise MessagesDroppedError(self._page_floor + 1, state.first_seq)
        self._checked = b""
        self._ready.add_all(self._buffer)
        self._buffer = self._ready
        if self._over is not None:
            self._page_over(self._over, now)
        if self._readable is not None:
            self._tell()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self.finished = True
        self._end()

    def _fail(self, error: Error) -> None:
        self.error = error
        self._end()

    def _end(self) -> None:
        self._waiting = False
        self._reply = self._checked = b""
        self._timers.clear()
        self._outbox.unsubscribe(self._sid)
        self._outbox.rearm(self)
        if self._readable is not None:
            self._tell()

    def _tell(self) -> None:
        if not (self._ready or self.finished or self.error is not None):
            return  # what came is to be approved first
        ticket, self._readable = self._readable, None
        assert ticket is not None
        if self.error is not None and not self._ready:
            ticket.fail(self.error)
        else:
            ticket.succeed(None)
        self._outbox.completed(ticket)

    def _ignore(self, message: Msg, reason: str) -> None:
        if message.subject != self._told:  # once is enough for a page that was given up in the middle
            self._told = message.subject
            self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), reason))
