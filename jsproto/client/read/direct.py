"""Direct Get in batches (ADR-31), the client's side: reading a stream by sequence and subject, page by page.

The server sends a page without flow control. So a page is bounded by messages and bytes, and the next one is asked
for only when half of the last was taken: memory stays bounded however slow the reader is. A page ends with a status
``204 EOB`` that says what is left. A page that does not is asked for again from where it broke off.

Rules:

* A page has a reply subject of its own: a late message of an earlier page changes nothing.
* Sequences rise, and every message names the one before it: a message that was lost on the way is found when the next
  one arrives. None is missing between two numbers in a row. Deleted messages are holes in the numbers, and normal.
* Only the stream itself is believed. A mirror answers in the name of its origin and may hold a part of it, by limits,
  a filter or a start of its own; its replies name the mirror. Such a page is dropped and asked for again.
* A page continues one stream: it begins with the last message received, which has to be the same still. Where that
  message is gone, the leader says when the stream was made.
* An empty answer names nobody. A replica may be behind another one: it has neither what that one showed nor what left a
  hole there. So "there is nothing more" is believed of whoever showed everything himself, else of the stream's leader.
* What the leader has, and no replica shows in time, is taken of the leader.
* A read that cannot go on is an error, never a short result.

Not here: single gets (``single``), multi-subject reads (``multi``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

from jsproto.client.connection.requests import is_no_responders
from jsproto.client.read.read_buffer import NONE, ReadBuffer
from jsproto.client.read.single import NO_MESSAGE_FOUND, check_seq, leader_message, no_direct_get
from jsproto.errors import (
    APIError,
    Error,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessageNotFoundError,
    MessagesDroppedError,
    MirrorAnswerError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    StatusError,
    StreamRecreatedError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.grammar.bodies import dumps
from jsproto.grammar.columns import Fields, StoredColumns, next_columns
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.headers import status_line
from jsproto.grammar.stored import END, StoredMsg, answerer, next_sequences, number, paging, stored_at
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Instant, format_timestamp, instant
from jsproto.outbox import BulkConversation, Outbox, bulk
from jsproto.rules.status import NO_RESPONDERS
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, MsgRun

IfDropped: TypeAlias = Literal["skip", "error"]
"""What a read does about messages that limits, or a purge, took from where it was to begin, or to go on."""

PAGE_MESSAGES: Final = 32_768
PAGE_BYTES: Final = 8 * 1024 * 1024  # the server's count leaves out about 230 bytes of headers a message
ASK_AGAIN: Final = 0.02  # seconds; when the outbox has no room for a request, or a replica is behind: then doubled
LONGEST_WAIT: Final = 0.5  # seconds between two questions to replicas that are behind
TIMES_BEHIND: Final = 3  # so often in a row a replica has not what the leader has: then it is taken of the leader
MIRRORED: Final = 0.001  # seconds; after a third answer of a mirror in a row: then doubled
LONGEST_MIRRORED: Final = 0.05
ANCHOR_SHARE: Final = 32  # a page begins with the message before it, where that is at most this part of a page,
ANCHOR_SIZE: Final = 8192  # or that many bytes
END_OF_BATCH: Final = 204
UNAVAILABLE: Final = 503
_STATUS: Final = b"NATS/1.0 "
_PENDING: Final = b"\r\nNats-Num-Pending: "


class DirectBatch(BulkConversation):
    """One read of a stream from a sequence, or a time, on.

    Attributes: ``stream``; ``error`` (why the read broke off); ``finished`` (all that was asked for has been received).
    """

    __slots__ = (
        "_anchor",
        "_announced",
        "_api",
        "_at_least",
        "_behind",
        "_buffer",
        "_draw",
        "_empty_attempt",
        "_floor",
        "_heard",
        "_if_dropped",
        "_inbox",
        "_instead_of_anchor",
        "_is_last_look",
        "_last_header",
        "_left",
        "_open",
        "_outbox",
        "_page_asked",
        "_page_bytes",
        "_page_count",
        "_page_end",
        "_page_floor",
        "_page_messages",
        "_page_room",
        "_page_tail",
        "_parts",
        "_question",
        "_readable",
        "_ready",
        "_replies",
        "_reply",
        "_sid",
        "_start",
        "_start_time",
        "_strangers",
        "_subject",
        "_tail",
        "_taken",
        "_timeout",
        "_timers",
        "_until",
        "_waiting",
        "_wants_columns",
        "error",
        "finished",
        "stream",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        *,
        api: ApiSubjects,
        inbox: str,
        draw: Callable[[], bytes] = bytes,
        now: float,
        seq: int | None = None,
        start_time: Instant | None = None,
        subject: str | None = None,
        batch: int | None = None,
        if_dropped: IfDropped = "skip",
        at_least: int = 0,
        page_messages: int = PAGE_MESSAGES,
        page_bytes: int = PAGE_BYTES,
        timeout: float = 5.0,
    ) -> None:
        """Ask for the messages of ``stream`` from sequence ``seq`` on, or from ``start_time`` on.

        Without both from the first one. ``api``: the subjects of the API that knows the stream. ``inbox``: a subject
        that nobody else uses. ``draw``: makes text that nobody can compute (``Session.draw``), so that who sees where
        one page is to go does not know where the next one is. ``subject``: only what matches it (wildcards allowed).
        ``batch``: at most so many messages; None reads to the end of the stream. ``if_dropped="error"``:
        MessagesDroppedError when what is wanted next lies before the stream's first message. ``at_least``: a sequence
        before which the end is believed only of the stream's leader. ``page_messages`` and ``page_bytes`` bound what is
        under way and buffered, to about twice that.

        ``timeout``: seconds of silence inside a page after which the rest is asked for again; the second time in a row
        that nothing comes, the read fails. It fails as well after ``timeout`` seconds in which only mirrors answer, or
        replicas that are behind. LocalProtocolError for impossible values.
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
        self._outbox = bulk(outbox)
        self._api = api
        self._inbox = inbox
        self._draw = draw
        self._start_time = None if start_time is None else format_timestamp(instant(start_time))
        self._floor = self._start = 0 if seq is None else seq - 1  # what comes has a higher sequence
        self._subject = subject
        self._left = batch
        self._if_dropped = if_dropped
        self._at_least = at_least
        self._page_messages = page_messages
        self._page_bytes = page_bytes
        self._timeout = timeout
        self._timers = Timers()
        self._ready = ReadBuffer()  # may be taken
        self._buffer = self._ready  # where a page goes: the same, unless it is to be approved first
        self._readable: Ticket[None] | None = None
        self._last_header: bytes | None = None
        self._tail: StoredColumns | None = None  # what was received last: its last message is the anchor
        self._replies = 0
        self._instead_of_anchor = False  # the page begins with another message
        self._taken: StoredMsg | None = None  # of the leader, if nothing that goes before it was dropped
        self._is_last_look = False  # the leader had nothing, and is asked once more what it dropped
        self._open = False  # whoever sends this page is the stream itself, and goes on where the last one ended
        self._anchor = b""  # how the header block of the message before this page begins, if it is asked for as well
        self._page_asked = 0
        self._page_count = 0
        self._page_floor = self._floor
        self._page_tail: StoredColumns | None = None
        self._page_room = 0
        self._parts = 0  # answers that showed something since the leader said where it is
        self._behind = 0  # how often in a row a replica did not have them
        self._strangers = 0  # how often in a row a mirror answered
        self._until = now + timeout  # somebody who can be believed has to have answered by then
        self._empty_attempt = False  # nothing came of the last page
        self._question = b""  # where the leader's answer is to arrive
        self._page_end: bytes | None = None  # the end of a page that waits for that
        self._reply = b""
        self._announced = b""  # the last earlier page whose late messages were reported
        self._heard = now
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
            self._outbox.want_fields(self._sid)
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
        self._heard = now
        if self._page_end is not None:
            return  # the page waits for the leader, and is whole
        try:
            if header is None:
                raise RemoteProtocolError("a Direct Get reply without headers", message.payload)
            if self._take([header], [message.payload]):
                return
            sequence = self._look_again(header, now)
            if not sequence:
                return
            if self._page_count == self._page_asked and self._instead_of_anchor:
                assert self._last_header is not None
                self._end_page(self._last_header, now)
                return
            if self._page_count == self._page_asked or self._page_room < 0:
                raise RemoteProtocolError(f"more than the {self._page_asked} messages, or the bytes, asked for")
            self._keep(StoredColumns(NONE, [sequence], NONE, [message.payload], [header]), len(message.payload))
        except Error as error:
            self._fail(error)

    def receive_run(self, row: MsgRun, now: float) -> None:
        """Messages of the page; all that is in order is taken at once. The first one of a page is looked at closely."""
        start = 0
        if not self._open or row.subject != self._reply:
            self.receive(row.message(0), now)
            start = 1
        if row.subject == self._reply and self._open:
            self._heard = now
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
            is_late = row.subject != self._reply
            self.receive(row.message(place), now)
            if is_late:
                break  # to tell one of an earlier page is enough

    def _take(self, headers: list[bytes], payloads: list[bytes], fields: Fields | None = None) -> int:
        """Keep the messages that continue the page, and return how many they are; none if not all of them may come.

        ``fields``: what the headers say, if it is known.
        """
        columns: StoredColumns | None = None
        sequences: Sequence[int] = ()
        if self._open:
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
        self._tail = columns
        self._last_header = columns.raw_headers[-1]
        if self._readable is not None:
            self._tell()

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            silent_until = self._heard + self._timeout
            if timer is Timer.ASK_AGAIN:
                self._ask(now)
            elif now < silent_until:
                self._timers.set(Timer.PAGE, silent_until)
            else:
                self._retry_page(f"no message within {self._timeout:g} s", now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        return self._timers.next()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The question was dropped, or its answers may not be received."""
        api, stream = self._api, self.stream
        asked = [api.direct_get(stream)]
        if self._question:
            asked += api.stream_info(stream), api.stream_msg_get(stream)
        if violation.operation == "subscribe" or violation.subject in asked:
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
        lost = self._incomplete(f"the connection was lost: {error}")
        lost.__cause__ = error
        self._fail(lost)

    def link_restored(self, now: float) -> None:
        """Go on behind the last message that arrived."""
        if not self._reply and not self._waiting:
            self._resume(now)

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Any]:
        """What the next page is to hold."""
        body = self._beginning(self._floor if self._anchor else self._floor + 1)
        body["batch"] = self._page_asked + bool(self._anchor)
        body["max_bytes"] = self._page_room
        if self._subject is not None:
            body["next_by_subj"] = self._subject
        return body

    def _beginning(self, seq: int) -> dict[str, Any]:
        """Where a page begins."""
        return {"start_time": self._start_time} if self._by_time else {"seq": seq}

    @property
    def _by_time(self) -> bool:
        return self._start_time is not None and not self._floor

    def _ask(self, now: float) -> None:
        """Ask for the next page."""
        self._timers.stop(Timer.ASK_AGAIN)
        self._waiting = False
        if not self._strangers and not self._behind:
            self._until = now + self._timeout
        self._begin_page()
        self._reply = self._new_reply()
        try:
            self._outbox.publish(self._api.direct_get(self.stream), dumps(self._fields()), self._reply)
        except OutboundBufferLimitError:
            self._ask_at(now + ASK_AGAIN)
            return
        self._outbox.flush()
        self._heard = now
        self._timers.set(Timer.PAGE, now + self._timeout)
        self._outbox.rearm(self)

    def _new_reply(self) -> bytes:
        self._replies += 1
        return b"%b.%d-%b" % (self._inbox.encode(), self._replies, self._draw())

    def _begin_page(self) -> None:
        self._open = False
        self._page_count = 0
        self._page_floor, self._page_tail = self._floor, self._tail
        asked = self._page_messages if self._left is None else min(self._page_messages, self._left)
        thrift = 2 * self._strangers  # of what a mirror sends again, nothing is of use
        self._page_asked = max(1, asked >> thrift)
        self._page_room = max(1, self._page_bytes >> thrift)
        self._question, self._page_end = b"", None
        self._instead_of_anchor = self._is_last_look = False
        self._taken = None
        self._set_anchor()

    def _set_anchor(self) -> None:
        """The last message received is asked for again, unless it is large: it shows that the stream is the same."""
        self._anchor = b""
        if self._tail is not None:
            header = self._tail.raw_headers[-1]
            size = len(header) + len(self._tail.data[-1])
            if size <= max(self._page_bytes // ANCHOR_SHARE, ANCHOR_SIZE):
                paged = header.rfind(_PENDING)
                self._anchor = header[:paged] if paged >= 0 else header.removesuffix(END)
                self._page_room += size

    def _ask_at(self, when: float) -> None:
        self._reply = b""
        self._waiting = True
        self._timers.clear()
        self._timers.set(Timer.ASK_AGAIN, when)
        self._outbox.rearm(self)

    @property
    def _has_room(self) -> bool:
        """Whether the reader has taken so much that another page may come."""
        return Timer.ASK_AGAIN not in self._timers and len(self._ready) <= self._page_count // 2

    def _retry_page(self, text: str, now: float) -> None:
        """The page broke off: ask for the rest, but not for the second time in a row that nothing came of it."""
        is_vain = not self._page_count or self._buffer is not self._ready
        if self._empty_attempt and is_vain:
            self._fail(self._incomplete(text))
        else:
            self._empty_attempt = is_vain
            self._resume(now)

    def _resume(self, now: float) -> None:
        """Ask for what is left of the page."""
        if self._question or self._buffer is not self._ready:  # it was not approved
            self._drop_page()
        elif self._page_count:
            self._count_part(self.num_pending or 0)
        if self._left == 0:
            self._finish()
        else:
            self._ask(now)

    def _count_part(self, pending: int) -> None:
        """A page, or a part of it, has come; ``pending``: how much is left, as its sender said."""
        self._parts += 1
        if self._left is not None:
            self._left -= self._page_count

    def _drop_page(self) -> None:
        self._buffer = self._ready
        self._floor, self._tail = self._page_floor, self._page_tail

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
        if not self._open:
            return self._open_page(header, sequence, previous, now)
        if sequence <= self._floor:
            return 0  # it came twice
        if previous != self._floor and sequence != self._floor + 1:  # else nothing can be missing
            self._retry_page(f"message {sequence} follows {previous}, but {self._floor} was the last to arrive", now)
            return 0
        return sequence

    def _open_page(self, header: bytes, sequence: int, previous: int, now: float) -> int:
        """The first message of a page: its sequence if it is to be kept, else 0."""
        if previous:
            self._retry_page(f"message {sequence} follows {previous}, and nothing had arrived", now)
            return 0
        name = answerer(header)
        if name != self.stream:
            self._mirrored(name, now)
            return 0
        self._strangers = 0
        if sequence == self._floor and self._anchor:
            if not header.startswith(self._anchor):
                raise StreamRecreatedError(self.stream)
            self._open = True
            return 0
        if sequence <= self._floor:
            raise RemoteProtocolError(f"message {sequence} where those after {self._floor} were asked for", header)
        self._instead_of_anchor = bool(self._anchor)
        if not self._may_begin_with(sequence):
            self._buffer = ReadBuffer()
            if not self._ask_leader(self._api.stream_info(self.stream), b"", now):
                return 0
        self._open = True
        return sequence

    def _may_begin_with(self, sequence: int) -> bool:
        """Whether nothing can be wrong with the message that a page begins with."""
        if self._tail is not None:
            return False
        return self._if_dropped == "skip" or self._by_time or sequence == self._floor + 1

    def _mirrored(self, mirror: str, now: float) -> None:
        """A mirror answered: ask again, since chance chooses who answers."""
        self._strangers += 1
        self._announced = self._reply  # the rest of its page is no news
        if now >= self._until:
            raise MirrorAnswerError(self.stream, mirror)
        if self._strangers <= 2:
            self._ask(now)
        else:
            self._ask_at(now + min(MIRRORED * 2 ** min(self._strangers - 3, 10), LONGEST_MIRRORED))

    def _receive_status(self, header: bytes, code: int, description: str, now: float) -> None:
        if code == NO_RESPONDERS:
            raise no_direct_get(self.stream, self._api.direct_get(self.stream))
        if code == MessageNotFoundError.code:
            self._receive_nothing(description, now)
            return
        if code != END_OF_BATCH:
            raise StatusError.from_status(code, description)
        if number(header, b"Nats-Num-Pending") is None:
            raise RemoteProtocolError("the end of a page does not say how much is left", header)
        arrived = self._floor if self._open else 0
        if (last := number(header, b"Nats-Last-Sequence")) != arrived:
            self._retry_page(f"the page ended at {last}, but {arrived} arrived last", now)
        else:
            self._end_page(header, now)

    def _end_page(self, header: bytes, now: float) -> None:
        """No more of the page is to come; ``header`` says how much is left."""
        if self._question:
            self._page_end = header
        else:
            self._page_over(header, now)

    def _receive_nothing(self, description: str, now: float) -> None:
        """Whoever answered has no such message."""
        if self._open:
            self._retry_page(f"the page ended with {description!r}", now)
        else:
            self._close_page(now)
            self._ask_whether_over(now)

    def _page_over(self, header: bytes, now: float) -> None:
        """The page is whole: go on, later or never."""
        pending, count = self._pending(header), self._page_count
        is_full = count == self._page_asked  # a message that came while it was sent may not be counted
        was_open = self._open
        showed_everything = was_open and self._parts == 0
        self._last_header = header
        self._close_page(now)
        if count:
            self._empty_attempt = False
            self._behind = 0
        if was_open:
            self._count_part(pending)
        if self._left == 0:
            self._finish()
        elif (count and pending) or (is_full and was_open):
            if self._has_room:
                self._ask(now)
            else:
                self._waiting = True
        elif was_open and self._is_end(showed_everything):
            self._finish()
        else:
            self._ask_whether_over(now)

    def _is_end(self, showed_everything: bool) -> bool:
        """Whether the end that a page names is believed.

        ``showed_everything``: nobody else showed anything, unless the leader was asked after that.
        """
        return showed_everything and self._floor >= self._must_reach()

    def _must_reach(self) -> int:
        """The sequence before which nobody but the leader is believed that there is nothing more."""
        return self._at_least

    def _close_page(self, now: float) -> None:
        """What came of the page is in order, and no more will come of it."""
        self._open = False
        self._timers.clear()
        self._reply = b""
        self._page_floor, self._page_tail = self._floor, self._tail

    def _pending(self, header: bytes) -> int:
        """What is left after a page, as its end says."""
        return number(header, b"Nats-Num-Pending") or 0

    # -- what the leader says ------------------------------------------------------------------------------------------

    def _ask_leader(self, subject: str, payload: bytes, now: float) -> bool:
        """Ask the leader, whose answer ``_receive_other`` gets: what is in the buffer waits for it.

        False when there is no room for the question: then the page is asked for again.
        """
        question = self._new_reply()
        try:
            self._outbox.publish(subject, payload, question)
        except OutboundBufferLimitError:
            self._drop_page()
            self._ask_at(now + ASK_AGAIN)
            return False
        self._outbox.flush()
        self._question = question
        self._heard = now
        self._timers.set(Timer.PAGE, now + self._timeout)
        self._outbox.rearm(self)
        return True

    def _ask_whether_over(self, now: float) -> None:
        """Ask the leader whether there is really nothing more: for its state, and if that has more, for a message."""
        self._ask_leader(self._api.stream_info(self.stream), b"", now)

    def _ask_next(self, now: float) -> None:
        body = self._beginning(self._floor + 1) | {"next_by_subj": self._subject or ">"}
        self._ask_leader(self._api.stream_msg_get(self.stream), dumps(body), now)

    def _receive_other(self, message: Msg, now: float) -> None:
        if not self._question or message.subject != self._question:
            self._ignore(message, "a message of an earlier page")
            return
        self._heard = now
        try:
            if is_no_responders(message):
                raise JetStreamNotAvailableError(self._api.stream_info(self.stream))
            self._receive_of_leader(decode_response(message.payload), message, now)
        except APIError as error:
            self._drop_page()
            if error.err_code == NO_MESSAGE_FOUND:
                self._receive_no_next(now)
            elif error.code == UNAVAILABLE:  # no leader just now
                self._retry(str(error), now)
            else:
                self._fail(error)
        except Error as error:
            self._drop_page()
            self._fail(error)

    def _receive_of_leader(self, body: dict[str, Any], message: Msg, now: float) -> None:
        if "config" not in body:
            self._receive_next(leader_message(message, self.stream), now)
            return
        info = StreamInfo.from_json(body)
        received = self._page_tail
        if received is not None and is_younger(info, stored_at(received.raw_headers[-1])):
            raise StreamRecreatedError(self.stream)
        wanted, by_time = self._page_floor + 1, self._start_time is not None and not self._page_floor
        if self._if_dropped == "error" and not by_time and info.state.first_seq > wanted:
            raise MessagesDroppedError(wanted, info.state.first_seq)
        last_seq = info.state.last_seq
        if last_seq < self._must_reach():
            self._drop_page()
            reason = f"the leader is at sequence {last_seq}, and the read has to come to {self._must_reach()}"
            self._retry(reason, now, self._stale(last_seq))
            return
        self._at_least, self._parts = last_seq, 0
        if self._taken is not None:
            self._take_of_leader(self._taken, now)
        elif self._open:
            self._approve(now)
        elif self._is_last_look or info.state.last_seq <= self._floor or not info.state.messages:
            self._finish()
        else:
            self._ask_next(now)

    def _stale(self, last_seq: int) -> Error | None:
        """The error of a read whose leader stays at ``last_seq``, if it has one of its own."""
        return None

    def _incomplete(self, reason: str) -> IncompleteBatchError:
        return IncompleteBatchError(reason, self.last_seq)

    def _receive_no_next(self, now: float) -> None:
        """The leader has nothing more; where nothing may have been dropped, it may have been so just now."""
        if self._if_dropped == "skip":
            self._finish()
        else:
            self._is_last_look = True
            self._ask_whether_over(now)

    def _receive_next(self, message: StoredMsg, now: float) -> None:
        """The leader has a message that whoever answered has not: replicas will show it soon, or it is the leader's."""
        if message.seq <= self._floor:
            raise RemoteProtocolError(f"message {message.seq} where those after {self._floor} were asked for")
        if self._behind < TIMES_BEHIND:
            self._retry(f"message {message.seq} is with the leader, and nobody else shows it", now)
            return
        self._taken = message
        self._ask_whether_over(now)  # once more: what was to come before it may have been dropped meanwhile

    def _take_of_leader(self, message: StoredMsg, now: float) -> None:
        self._keep(StoredColumns(NONE, [message.seq], NONE, [message.data], [message.raw_headers]), 0)
        self._count_part(0)
        self._close_page(now)
        self._question = b""
        self._until = now + self._timeout
        if self._left == 0:
            self._finish()
        elif self._has_room:
            self._ask(now)
        else:
            self._waiting = True

    def _retry(self, reason: str, now: float, error: Error | None = None) -> None:
        """Ask again a little later, as long as there is time: replicas are behind, or there is no leader."""
        if now >= self._until:
            self._fail(error or self._incomplete(reason))
            return
        self._behind += 1
        if self._behind == 1:
            self._ask(now)
        else:
            self._ask_at(now + min(ASK_AGAIN * 2 ** min(self._behind - 2, 10), LONGEST_WAIT))

    def _approve(self, now: float) -> None:
        """The page may be given out."""
        self._question = b""
        self._ready.add_all(self._buffer)
        self._buffer = self._ready
        if self._page_end is not None:
            self._page_over(self._page_end, now)
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
        self._reply = self._question = b""
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
        if message.subject != self._announced:  # once is enough for a page that was given up in the middle
            self._announced = message.subject
            self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), reason))


def is_younger(info: StreamInfo, stored: int) -> bool:
    """Whether the stream was made after a message of it was stored: then it is another one under the same name.

    ``stored``: in nanoseconds since the epoch. Where the stream holds older messages than itself, as a mirror or a
    restored one does, that proves nothing.
    """
    created, first = info.created, info.state.first_ts
    return created is not None and created > stored and (first is None or first >= created)
