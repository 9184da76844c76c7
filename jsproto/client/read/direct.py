"""Direct Get in batches (ADR-31), the client's side: a stream by sequence or time, page by page.

The server sends a page without flow control. So a page is bounded by messages and bytes, and the next one is requested
only when half of the last was taken. Memory stays bounded however slow the reader is. A page ends with a status
``204 EOB``, which says how many messages are left.

What a read believes, and of which server:

* *A reply subject* belongs to one page. A late message of an earlier page changes nothing.
* *Nothing was lost on the way*: sequences rise, and each message names the sequence before it. After a lost message
  the rest of the page is requested again. Deleted messages are holes in the sequences.
* *Only the stream itself*: each message names the stream that sent it. A mirror may hold a part of its origin, so a
  page of a mirror is dropped and requested again.
* *Still the same stream*: a page begins with the last message received (``page``), which has the same time. Where that
  message is gone, the leader says when the stream was created. A mirror that was created anew has the same messages:
  this shows only when the leader was asked before.
* *Not shorter than before*: a leader that ends before what was given out is asked again. The second time, ``ELECTION``
  later, the stream came back shorter.
* *Without an answer from any server* the leader says whether the stream exists and allows Direct Gets. If so, the page
  is requested again: the server that had the stream has died, or is about to stop.
* *Holes before 2.12*: such a server may lose messages to limits in the middle of a page without a word. So with
  ``if_dropped="error"`` a page with a hole is given out only after the leader said that its start is still there.
* *The end*: an empty answer does not say which server sent it, and a replica may lag behind another one. "There is
  nothing more" is believed of one server that showed all messages, else of the stream's leader.
* *A message that only the leader has*: after ``LAGS_ALLOWED`` answers without it the leader's copy is taken.

A read that cannot go on fails with an error. It is never short without one.

Not here: single gets (``single``), reads of many subjects (``multi``), pauses and time limits (``retry``), the reader's
side (``buffered_read``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from jsproto.api_errors import NoMessageFoundError, StreamNotFoundError, StreamOfflineError
from jsproto.client.connection.requests import is_no_responders
from jsproto.client.read.buffered_read import BufferedRead
from jsproto.client.read.page import PAGE_BYTES, PAGE_MESSAGES, Page, check_bounds
from jsproto.client.read.read_buffer import NONE, ReadBuffer
from jsproto.client.read.retry import ASK_AGAIN, Retries
from jsproto.client.read.single import (
    UNAVAILABLE,
    leader_message,
    no_direct_get,
)
from jsproto.errors import (
    APIError,
    Error,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessageNotFoundError,
    MessagesDroppedError,
    MirrorAnswerError,
    NoRespondersError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    StatusError,
    StreamRecreatedError,
    StreamRolledBackError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.grammar.bodies import dumps
from jsproto.grammar.columns import Fields, StoredColumns, next_columns
from jsproto.grammar.config import StreamInfo, StreamState
from jsproto.grammar.fields import check_count, checked_word
from jsproto.grammar.headers import STATUS_START, status_line
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import (
    FieldsAsked,
    StoredMsg,
    answerer,
    check_seq,
    next_sequences,
    number,
    paging,
    stored_at,
)
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Instant, format_timestamp, instant
from jsproto.outbox import Outbox
from jsproto.rules.position import PositionCheck, StreamFacts, Verdict, is_other, judge
from jsproto.rules.status import END_OF_BATCH, NO_RESPONDERS
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, MsgRun

IfDropped: TypeAlias = Literal["skip", "error"]
IF_DROPPED: Final = get_args(IfDropped)
"""What a read does about messages that limits, or a purge, took from where it was to begin, or to go on."""

LAGS_ALLOWED: Final = 3  # answers in a row without a message of the leader: then its copy is taken
HOLDS_MESSAGES_BACK: Final = "2.12"  # the first server whose limits drop nothing of a page while it is sent


class DirectBatch(BufferedRead):
    """One read of a stream from a sequence, or a time, on.

    Attributes:

    * ``stream``: its name.
    * ``error``: why the read broke off, None without an error.
    * ``finished``: all that was asked for has been received. That is not "taken": ``pop_many`` may
      give more.
    * ``come_to``: where the read failed since a server had not come far enough, the highest sequence that one of them
      had come to, or that was received. Else None.
    """

    __slots__ = (
        "_announced", "_api", "_at_least", "_began_at_first", "_check", "_created", "_doubts_holes", "_draw", "_floor",
        "_from_leader", "_furthest", "_if_dropped", "_inbox", "_incoming", "_is_last_check", "_is_linked",
        "_is_unanswered", "_last_heard", "_left", "_max_bytes", "_page", "_page_messages", "_parts_since_leader",
        "_question", "_replies", "_reply", "_retries", "_start", "_start_time", "_subject", "_tail", "_timeout",
        "_timers", "_waiting", "_wants_message", "come_to",
    )  # fmt: skip

    _PARSES_AHEAD = True
    """Many messages come in a row, so it is cheaper to parse fields of all of them at once than of each."""

    _COUNTS_LATE = True
    """A message that came while a page was sent may not be counted by its end."""

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
        max_bytes: int | None = None,
        timeout: float = 5.0,
    ) -> None:
        """Ask for the messages of ``stream`` from ``seq`` or ``start_time`` on, else from the first one on.

        * ``api``: the subjects of the API that knows the stream.
        * ``inbox``: a subject that nobody else uses. ``draw`` makes text that cannot be computed from others
          (``Session.draw``): the reply subject of one page does not give away that of the next.
        * ``subject``: only messages that match it (wildcards allowed).
        * ``batch``: at most so many messages. None reads to the end of the stream.
        * ``if_dropped="error"``: the read fails when the next message wanted lies before the stream's first one.
        * ``at_least``: a sequence. Before it the end is believed of the stream's leader alone.
        * ``page_messages`` and ``max_bytes`` (8 MiB when None) bound one page. At most about two pages are under way
          and buffered.
        * ``timeout``: seconds of silence in a page after which the rest is requested again.

        The read fails with:
            IncompleteBatchError: a page brought nothing twice in a row, replicas lagged for ``timeout`` seconds, or the
                connection has ended.
            MirrorAnswerError: only mirrors answered for ``timeout`` seconds.
            MessagesDroppedError: see ``if_dropped``.
            StreamRecreatedError: the stream was deleted and created anew meanwhile.
            StreamRolledBackError: the stream came back shorter than what was given out.
            NoRespondersError, JetStreamNotAvailableError: the stream allows no Direct Get, or no API answers.
            PermissionsViolationError, StatusError, APIError: the server refused a request.
            UnsupportedByServerError: the server is older than 2.11.
            RemoteProtocolError: a reply is not as the protocol has it.

        Raises:
            LocalProtocolError: an argument is out of its range, or ``seq`` and ``start_time`` are both given.
            ConnectionClosedError: the connection has ended.
        """
        if seq is not None:
            check_seq(seq)
            if start_time is not None:
                raise LocalProtocolError("give seq or start_time, not both")
        check_bounds(batch, max_bytes, timeout)
        check_count("page_messages", page_messages)
        if subject is not None:
            check_subject(subject, wildcards=True)
        checked_word("if_dropped", if_dropped, IF_DROPPED)
        super().__init__(outbox, stream)
        self._asked = FieldsAsked() if self._PARSES_AHEAD else None
        self._api = api
        self._inbox = inbox
        self._draw = draw
        self._start_time = None if start_time is None else format_timestamp(instant(start_time))
        self._floor = self._start = 0 if seq is None else seq - 1  # what comes has a higher sequence
        self._subject = subject
        self._left = batch
        self._if_dropped = if_dropped
        self._began_at_first = seq is None
        server = outbox.server
        self._doubts_holes = if_dropped == "error" and server is not None and server.is_before(HOLDS_MESSAGES_BACK)
        self._at_least = at_least
        self._furthest = 0  # of the servers that had not come far enough
        self.come_to: int | None = None
        self._page_messages = page_messages
        self._max_bytes = PAGE_BYTES if max_bytes is None else max_bytes
        self._timeout = timeout
        self._timers = Timers()
        self._retries = Retries(timeout, now)
        self._incoming = self._ready  # where a page goes: the same, unless it is to be approved first
        self._tail: StoredColumns | None = None  # what was received last: its last message is the next anchor
        self._page = Page(0, 0, self._floor, None)
        self._replies = 0
        self._from_leader: StoredMsg | None = None  # its copy, kept if nothing that goes before it was dropped
        self._is_last_check = False  # the leader had nothing, and is asked once more what it dropped
        self._parts_since_leader = 0  # answers that showed something since the leader said where it is
        self._check = PositionCheck(StreamPosition(stream, 0))  # of what was given out, at the leader
        self._created: int | None = None  # when the stream was created, as its leader said
        self._is_linked = True
        self._is_unanswered = False  # no server answered the page: the leader is asked why
        self._question = b""  # where the leader's answer is to arrive
        self._wants_message = False  # it is asked for a message, not for its state
        self._reply = b""  # where the page is to arrive
        self._announced = b""  # the last earlier page whose late messages were reported
        self._last_heard = now
        self._waiting = False
        self._sid = outbox.subscribe(f"{inbox}.*", self)
        self._ask(now)

    @property
    def last_seq(self) -> int:
        """The sequence of the last message received. 0 before the first."""
        return self._floor if self._floor > self._start else 0

    @property
    def up_to_seq(self) -> int | None:
        """Of a multi-subject read: the sequence of the stream that it shows. None while unknown."""
        return None

    def receive(self, message: Msg, now: float) -> None:
        """A message of the page, or its end."""
        if message.subject != self._reply:
            self._receive_other(message, now)
            return
        header = message.header
        self._last_heard = now
        if self._page.end is not None:
            return  # the page waits for the leader, and is whole
        try:
            if header is None:
                raise RemoteProtocolError("a Direct Get reply without headers", message.payload)
            if self._take_in_sequence([header], [message.payload]):
                return
            sequence = self._check_message(header, now)
            if not sequence:
                return
            if self._page.is_full and self._page.lost_anchor:
                assert self._last_header is not None
                self._receive_end(self._last_header, now)
                return
            if self._page.is_full or self._page.room < 0:
                raise RemoteProtocolError(f"more than the {self._page.asked} messages, or the bytes, asked for")
            self._keep(StoredColumns(NONE, [sequence], NONE, [message.payload], [header]), len(message.payload))
        except Error as error:
            self._fail(error)

    def receive_run(self, row: MsgRun, now: float) -> None:
        """Messages of the page. The first one of a page is checked alone, and all that is in order is taken at once."""
        start = 0
        if not self._page.is_open or row.subject != self._reply:
            self.receive(row.message(0), now)
            start = 1
        if row.subject == self._reply and self._page.is_open:
            self._last_heard = now
            headers, payloads, fields = row.headers, row.payloads, row.fields
            stop = len(headers) - headers[-1].startswith(STATUS_START)  # the end of the page continues nothing
            if start or stop < len(headers):
                headers, payloads = headers[start:stop], payloads[start:stop]
            if start and fields is not None:  # then it does not end here
                fields = fields[0][start:], fields[1][start:], fields[2][start:]
            start += self._take_in_sequence(headers, payloads, fields)
        for place in range(start, len(row.headers)):
            if self.finished or self.error is not None:
                break
            is_late = row.subject != self._reply
            self.receive(row.message(place), now)
            if is_late:
                break  # to tell one of an earlier page is enough

    def _take_in_sequence(self, headers: list[bytes], payloads: list[bytes], fields: Fields | None = None) -> int:
        """Keep the messages that continue the page, and return how many. None is kept if not all of them may come.

        ``fields``: the fields of the headers, if they are known.
        """
        columns: StoredColumns | None = None
        sequences: Sequence[int] = ()
        if self._page.is_open:
            if self._wants_columns and len(headers) > 1:
                columns = next_columns(headers, payloads, self._floor, fields)
            sequences = next_sequences(headers, self._floor) if columns is None else columns.seqs
        count = len(sequences)
        if not count or self._page.count + count > self._page.asked:
            return 0
        if count < len(headers):
            headers, payloads = headers[:count], payloads[:count]
        size = sum(map(len, payloads))
        if self._page.room < size - len(payloads[-1]):
            return 0
        self._keep(columns or StoredColumns(NONE, sequences, NONE, payloads, headers), size)
        return count

    def _keep(self, columns: StoredColumns, size: int) -> None:
        """These are the next messages of the page, with ``size`` bytes of payload."""
        self._page.room -= size
        self._page.count += len(columns.seqs)
        self._incoming.add(columns)
        self._floor = columns.seqs[-1]
        self._tail = columns
        self._last_header = columns.raw_headers[-1]
        if self._readable.pending is not None:
            self._wake_reader()

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            silent_until = self._last_heard + self._timeout
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

    def crashed(self, error: Error, now: float) -> None:
        """The read ends with ``error``."""
        self._fail(error)

    def link_lost(self, error: Error, now: float) -> None:
        """The rest of the page will not come. A new link may bring it, unless the session has ended."""
        if self.finished or self.error is not None:
            return
        if self._outbox.closed_error is None:
            self._is_linked = False
            self._timers.clear()
            if not self._waiting:
                self._reply = b""
            return
        lost = self._incomplete(f"the connection was lost: {error}")
        lost.__cause__ = error
        self._fail(lost)

    def link_restored(self, now: float) -> None:
        """Go on after the last message that arrived."""
        self._is_linked = True
        self._retries.extend(now)
        if not self._reply and not self._waiting:
            self._resume(now)
        elif self._waiting and self._has_room:
            self._ask(now)

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Any]:
        """What the next page is to hold."""
        body = self._beginning(self._floor if self._page.is_anchored else self._floor + 1)
        body["batch"] = self._page.asked + self._page.is_anchored
        body["max_bytes"] = self._page.room
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
        """Ask for the next page; without a link once there is one."""
        self._timers.stop(Timer.ASK_AGAIN)
        self._waiting = not self._is_linked
        if self._waiting:
            return
        self._retries.asked(now)
        self._begin_page()
        self._reply = self._new_reply()
        try:
            self._outbox.publish(self._api.direct_get(self.stream), dumps(self._fields()), self._reply)
        except OutboundBufferLimitError:
            self._ask_at(now + ASK_AGAIN)
            return
        self._outbox.flush()
        self._last_heard = now
        self._timers.set(Timer.PAGE, now + self._timeout)
        self._outbox.rearm(self)

    def _new_reply(self) -> bytes:
        self._replies += 1
        return b"%b.%d-%b" % (self._inbox.encode(), self._replies, self._draw())

    def _begin_page(self) -> None:
        asked = self._page_messages if self._left is None else min(self._page_messages, self._left)
        thrift = 2 * self._retries.mirrors  # of what a mirror sends again, nothing is of use
        self._page = Page(max(1, asked >> thrift), max(1, self._max_bytes >> thrift), self._floor, self._tail)
        self._question = b""
        self._is_last_check = self._is_unanswered = False
        if self._doubts_holes:
            self._incoming = ReadBuffer()
        self._from_leader = None
        self._set_anchor()

    def _set_anchor(self) -> None:
        self._page.set_anchor(self._max_bytes)

    def _ask_after(self, pause: float, now: float) -> None:
        """Ask for the next page in ``pause`` seconds. 0 is at once."""
        if pause:
            self._ask_at(now + pause)
        else:
            self._ask(now)

    def _ask_at(self, when: float) -> None:
        self._reply = b""
        self._waiting = True
        self._timers.clear()
        self._timers.set(Timer.ASK_AGAIN, when)
        self._outbox.rearm(self)

    @property
    def _has_room(self) -> bool:
        """Whether the reader has taken so much that another page may come."""
        return Timer.ASK_AGAIN not in self._timers and len(self._ready) <= self._page.count // 2

    def _retry_page(self, text: str, now: float) -> None:
        """The page broke off: ask for the rest, but not for the second time in a row that nothing came of it."""
        is_empty = not self._page.count or self._incoming is not self._ready
        if self._retries.page_was_empty and is_empty:
            self._fail(self._incomplete(text))
        else:
            self._retries.page_was_empty = is_empty
            self._resume(now)

    def _resume(self, now: float) -> None:
        """Ask for what is left of the page."""
        if self._question or self._incoming is not self._ready:  # it was not approved
            self._drop_page()
        elif self._page.count:
            self._count_page(self.num_pending or 0)
        if self._left == 0:
            self._finish()
        else:
            self._ask(now)

    def _count_page(self, pending: int) -> None:
        """A page, or a part of it, has come. ``pending``: the messages left, as its sender said."""
        self._parts_since_leader += 1
        if self._left is not None:
            self._left -= self._page.count

    def _drop_page(self) -> None:
        self._incoming = self._ready
        self._floor, self._tail = self._page.seq_before, self._page.before

    def _check_message(self, header: bytes, now: float) -> int:
        """Check a message that was not taken in sequence: its sequence if it is to be kept, else 0."""
        if number(header, b"Nats-Sequence") is None and (status := status_line(header)) is not None:
            self._receive_status(header, *status, now)
            return 0
        sequence, pending, previous = paging(header)
        if pending is None or previous is None:
            server = self._outbox.server
            found = None if server is None else server.version
            raise UnsupportedByServerError("Direct Get in batches", "2.11", found)
        if not self._page.is_open:
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
            self._receive_from_mirror(name, now)
            return 0
        self._retries.stream_answered()
        if sequence == self._floor and self._page.is_anchored:
            if is_other(self._given_out(), stored_at(header)):
                self._announced = self._reply  # the rest of the page is no news
                self._close_page(now)
                self._page.is_of_another = self._ask_leader(self._api.stream_info(self.stream), b"", now)
                return 0
            self._page.is_open = True
            return 0
        if sequence <= self._floor:
            raise RemoteProtocolError(f"message {sequence} where those after {self._floor} were asked for", header)
        self._page.lost_anchor = self._page.is_anchored
        if not self._may_begin_with(sequence):
            self._incoming = ReadBuffer()
            if not self._ask_leader(self._api.stream_info(self.stream), b"", now):
                return 0
        self._page.is_open = True
        return sequence

    def _may_begin_with(self, sequence: int) -> bool:
        """Whether nothing can be wrong with the message that a page begins with."""
        if self._tail is not None:
            return False
        return self._if_dropped == "skip" or self._by_time or self._began_at_first or sequence == self._floor + 1

    def _receive_from_mirror(self, mirror: str, now: float) -> None:
        """A mirror answered: ask again, since chance chooses which server answers."""
        self._announced = self._reply  # the rest of its page is no news
        pause = self._retries.mirror_answered(now)
        if pause is None:
            raise MirrorAnswerError(self.stream, mirror)
        self._ask_after(pause, now)

    def _receive_status(self, header: bytes, code: int, description: str, now: float) -> None:
        if code == NO_RESPONDERS:
            self._close_page(now)
            self._is_unanswered = self._ask_leader(self._api.stream_info(self.stream), b"", now)
            return
        if code == MessageNotFoundError.code:
            self._receive_no_message(description, now)
            return
        if code != END_OF_BATCH:
            raise StatusError.from_status(code, description, f"a batch of stream {self.stream}")
        if number(header, b"Nats-Num-Pending") is None:
            raise RemoteProtocolError("the end of a page does not say how much is left", header)
        arrived = self._floor if self._page.is_open else 0
        if (last := number(header, b"Nats-Last-Sequence")) != arrived:
            self._retry_page(f"the page ended at {last}, but {arrived} arrived last", now)
        else:
            self._receive_end(header, now)

    def _receive_end(self, header: bytes, now: float) -> None:
        """No more of the page is to come. ``header`` says how many messages are left."""
        if self._question:
            self._page.end = header
        elif not self._doubts_holes:
            self._page_ended(header, now)
        elif self._subject is None and self._page.count == self._floor - self._page.seq_before:
            self._page.end = header  # without a hole
            self._approve(now)
        elif self._ask_leader(self._api.stream_info(self.stream), b"", now):
            self._page.end = header

    def _receive_no_message(self, description: str, now: float) -> None:
        """The server that answered has no such message."""
        if self._page.is_open:
            self._retry_page(f"the page ended with {description!r}", now)
        else:
            self._close_page(now)
            self._ask_whether_ended(now)

    def _page_ended(self, header: bytes, now: float) -> None:
        """The page is whole: go on, later or never."""
        pending, count = self._pending_after(header), self._page.count
        is_full = self._COUNTS_LATE and self._page.is_full
        was_open = self._page.is_open
        showed_everything = was_open and self._parts_since_leader == 0
        self._last_header = header
        self._close_page(now)
        if count:
            self._retries.page_arrived()
        if was_open:
            self._count_page(pending)
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
            self._ask_whether_ended(now)

    def _is_end(self, showed_everything: bool) -> bool:
        """Whether the end that a page names is believed.

        ``showed_everything``: no other server showed a message, unless the leader was asked after that.
        """
        return showed_everything and self._floor >= self._must_reach()

    def _must_reach(self) -> int:
        """The sequence before which the end is believed of the leader alone."""
        return self._at_least

    def _close_page(self, now: float) -> None:
        """What came of the page is in order, and no more will come of it."""
        self._page.close(self._floor, self._tail)
        self._timers.clear()
        self._reply = b""

    def _pending_after(self, header: bytes) -> int:
        """What is left after a page, as its end says."""
        return number(header, b"Nats-Num-Pending") or 0

    # -- what the leader says ------------------------------------------------------------------------------------------

    def _ask_leader(self, subject: str, payload: bytes, now: float) -> bool:
        """Ask the leader, whose answer ``_receive_other`` gets. The messages in ``_incoming`` wait for it.

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
        self._question, self._wants_message = question, bool(payload)
        self._last_heard = now
        self._timers.set(Timer.PAGE, now + self._timeout)
        self._outbox.rearm(self)
        return True

    def _ask_whether_ended(self, now: float) -> None:
        """Ask the leader for its state, and if that has more messages, for the next one."""
        self._ask_leader(self._api.stream_info(self.stream), b"", now)

    def _ask_next(self, now: float) -> None:
        body = self._beginning(self._floor + 1) | {"next_by_subj": self._subject or ">"}
        self._ask_leader(self._api.stream_msg_get(self.stream), dumps(body), now)

    def _receive_other(self, message: Msg, now: float) -> None:
        if not self._question or message.subject != self._question:
            self._ignore(message, "a message of an earlier page")
            return
        self._last_heard = now
        try:
            if is_no_responders(message):
                self._receive_no_api(now)
            else:
                self._receive_from_leader(decode_response(message.payload, about=f"stream {self.stream}"), message, now)
        except APIError as error:
            self._drop_page()
            if self._wants_message and isinstance(error, NoMessageFoundError):
                self._receive_no_next(now)
            elif error.code == UNAVAILABLE or isinstance(error, StreamOfflineError):  # no leader just now
                self._retry_later(str(error), now)
            elif self._is_unanswered and isinstance(error, StreamNotFoundError):
                self._fail(self._no_direct_get())
            else:
                self._fail(error)
        except Error as error:
            self._drop_page()
            self._fail(error)

    def _receive_from_leader(self, body: dict[str, Any], message: Msg, now: float) -> None:
        if "config" not in body:
            self._receive_leaders_copy(leader_message(self.stream, {}, message), now)
            return
        info = StreamInfo.from_json(body)
        received = self._page.before
        verdict, position = self._judge(info, now)
        if verdict is Verdict.RECREATED:
            raise StreamRecreatedError(self.stream)
        if verdict is Verdict.ROLLED_BACK or self._page.is_of_another:
            raise StreamRolledBackError(self.stream, position.seq)
        self._created = info.created
        if self._is_unanswered:
            if not info.config.allow_direct:
                raise self._no_direct_get()
            self._drop_page()
            self._retry_later("nobody answers Direct Gets of the stream", now, self._no_direct_get())
            return
        wanted = self._page.seq_before + 1
        begins_anywhere = received is None and (self._by_time or self._began_at_first)
        if self._if_dropped == "error" and not begins_anywhere and info.state.first_seq > wanted:
            raise MessagesDroppedError(wanted, info.state.first_seq)
        last_seq, wanted = info.state.last_seq, max(self._must_reach(), position.seq)
        if last_seq < wanted or verdict is Verdict.ASK_AGAIN:
            self._drop_page()
            reason = f"the leader is at sequence {last_seq}, and the read has to come to {wanted}"
            self._retry_lagging(last_seq, reason, now)
            return
        self._at_least, self._parts_since_leader = last_seq, 0
        self._receive_state(info.state, now)

    def _judge(self, info: StreamInfo, now: float) -> tuple[Verdict, StreamPosition]:
        """What the leader's state says about a position, which is that of what was given out.

        A stream that was made anew is none to wait for: one answer is enough.
        """
        facts = StreamFacts.of(info)
        position = self._check.position = self._given_out()
        verdict = self._check.state(facts, now)
        return Verdict.RECREATED if judge(position, facts) is Verdict.RECREATED else verdict, position

    def _given_out(self) -> StreamPosition:
        """The last message before the page under way, or of the read up to now where there is none."""
        identity = None if self._created is None else str(self._created)
        before = self._page.before
        if before is None:
            return StreamPosition(self.stream, 0, identity)
        return StreamPosition(self.stream, self._page.seq_before, identity, stored_at(before.raw_headers[-1]))

    def _receive_state(self, state: StreamState, now: float) -> None:
        """The leader's state. It has come as far as the read has to."""
        if self._from_leader is not None:
            self._keep_from_leader(self._from_leader, now)
        elif self._page.is_open:
            self._approve(now)
        elif self._is_last_check or state.last_seq <= self._floor or not state.messages:
            self._finish()
        else:
            self._ask_next(now)

    def _no_direct_get(self) -> NoRespondersError:
        return no_direct_get(self.stream, self._api.direct_get(self.stream))

    def _receive_no_api(self, now: float) -> None:
        """No API answers: a server that stops, if one has answered before."""
        error = JetStreamNotAvailableError(self._api.stream_info(self.stream))
        if self._page.seq_before == self._start and self._created is None:
            raise error
        self._drop_page()
        self._retry_later(str(error), now, error)

    def _stale_error(self, last_seq: int) -> Error | None:
        """The error of a read whose leader stays at ``last_seq``, if it has one of its own."""
        return None

    def _incomplete(self, reason: str) -> IncompleteBatchError:
        return IncompleteBatchError(reason, self.last_seq)

    def _receive_no_next(self, now: float) -> None:
        """The leader has nothing more. With ``if_dropped="error"`` it is asked once more what it dropped."""
        if self._if_dropped == "skip":
            self._finish()
        else:
            self._is_last_check = True
            self._ask_whether_ended(now)

    def _receive_leaders_copy(self, message: StoredMsg, now: float) -> None:
        """The leader has a message that the replica did not show. Replicas will soon, else the copy is taken."""
        if message.seq <= self._floor:
            raise RemoteProtocolError(f"message {message.seq} where those after {self._floor} were asked for")
        if self._retries.lags < LAGS_ALLOWED:
            self._retry_later(f"message {message.seq} is with the leader, and nobody else shows it", now)
            return
        self._from_leader = message
        self._ask_whether_ended(now)  # once more: what was to come before it may have been dropped meanwhile

    def _keep_from_leader(self, message: StoredMsg, now: float) -> None:
        self._keep(StoredColumns(NONE, [message.seq], NONE, [message.data], [message.raw_headers]), 0)
        self._count_page(0)
        self._close_page(now)
        self._question = b""
        self._retries.extend(now)
        if self._left == 0:
            self._finish()
        elif self._has_room:
            self._ask(now)
        else:
            self._waiting = True

    def _retry_later(self, reason: str, now: float, error: Error | None = None, *, come_to: int | None = None) -> None:
        """Ask again a little later, while there is time: replicas lag, or there is no leader."""
        pause = self._retries.replica_lagged(now)
        if pause is None:
            self.come_to = come_to
            self._fail(error or self._incomplete(reason))
        else:
            self._ask_after(pause, now)

    def _retry_lagging(self, last_seq: int, reason: str, now: float) -> None:
        """Whoever answered has come to ``last_seq`` only: ask again a little later."""
        self._furthest = furthest = max(last_seq, self._furthest, self.last_seq)
        self._retry_later(reason, now, self._stale_error(furthest), come_to=furthest)

    def _approve(self, now: float) -> None:
        """The page may be given out. Where holes are doubted, it has to be whole."""
        self._question = b""
        if self._doubts_holes and self._page.end is None:
            return
        self._ready.add_all(self._incoming)
        self._incoming = self._ready
        if self._page.end is not None:
            self._page_ended(self._page.end, now)
        if self._readable.pending is not None:
            self._wake_reader()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _after_pop(self, now: float) -> None:
        if self._waiting and self._has_room:
            self._ask(now)

    def _release(self) -> None:
        self._waiting = False
        self._reply = self._question = b""
        self._timers.clear()
        self._outbox.unsubscribe(self._sid)
        self._outbox.rearm(self)

    def _ignore(self, message: Msg, reason: str) -> None:
        if message.subject != self._announced:  # once is enough for a page that was given up in the middle
            self._announced = message.subject
            self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), reason))
