"""The machine of reads of many messages: it steps the table of ``rules.belief``, page by page.

* *A reply subject* belongs to one page, or to one question. A late message of an earlier page, and a second answer,
  change nothing.
* *Messages in order* are kept without a step (``feed``). Whatever else comes is made a fact (``facts``, ``leader``).
* *A page is closed in two steps*: it is counted, then what comes next is judged.
* *An error on the way* is a fact as well: the read fails with it.

What a read wants, and what an end must show, is its plan (``plans``). What a session demands is its guard.

Not here: who makes such a read (``direct``, ``multi``, ``consistent_batch``), pauses and time limits (``retry``), the
reader's side (``buffered_read``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from jsproto.client.read.buffered_read import BufferedRead
from jsproto.client.read.facts import Finding, replied
from jsproto.client.read.feed import PAGE_BYTES, Feed, check_bounds
from jsproto.client.read.leader import Guard, Leader
from jsproto.client.read.plans import Plan
from jsproto.client.read.read_buffer import NONE
from jsproto.client.read.retry import ASK_AGAIN, Retries
from jsproto.client.read.single import no_direct_get
from jsproto.errors import (
    Error,
    IncompleteBatchError,
    MirrorAnswerError,
    OutboundBufferLimitError,
    PermissionsViolationError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.bodies import dumps
from jsproto.grammar.columns import Fields, StoredColumns
from jsproto.grammar.headers import STATUS_START
from jsproto.grammar.stored import FieldsAsked, StoredMsg, page_end
from jsproto.outbox import Outbox
from jsproto.rules.belief import BELIEF, LEADS_TO, Fact, Phase, Verdict
from jsproto.ticket import Live
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, MsgRun

_ALL: Final = Finding(Fact.ALL)
_REST: Final = Finding(Fact.REST)
_MORE: Final = Finding(Fact.MORE)
_DUE: Final = Finding(Fact.DUE)
_ROOM: Final = Finding(Fact.ROOM)
_OWED: Final = Finding(Fact.OWED)
_PROVED: Final = Finding(Fact.PROVED)
_BLOCKED: Final = Finding(Fact.BLOCKED)
_LINK_LOST: Final = Finding(Fact.LINK_LOST)
_LINK_RESTORED: Final = Finding(Fact.LINK_RESTORED)


class PagedRead(BufferedRead, Live):
    """A read of many messages. Attributes, besides those of ``BufferedRead``:

    * ``phase``: what it waits for.
    * ``come_to``: where the read failed since a server had not come far enough, the highest sequence that one of them
      had come to, or that was received. Else None.
    """

    __slots__ = (
        "_announced", "_api", "_copy", "_draw", "_feed", "_guard", "_inbox", "_last_heard", "_leader", "_max_bytes",
        "_on_end", "_page_messages", "_plan", "_question", "_replies", "_reply", "_retries", "_timeout", "_timers",
        "come_to", "phase",
    )  # fmt: skip

    def __init__(
        self, outbox: Outbox, stream: str, plan: Plan, *, api: ApiSubjects, inbox: str, draw: Callable[[], bytes],
        now: float, page_messages: int, max_bytes: int | None, timeout: float, after: int = 0, batch: int | None = None,
        at_least: int = 0, guard: Guard | None = None, created: int | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Read what ``plan`` wants, of the sequences after ``after``. Keywords are those of ``DirectBatch``.

        ``created``: when the stream was created, if that is known. ``on_end``: called once, when the read has
        finished, failed or was closed. Raises: as ``DirectBatch``.
        """
        check_bounds(batch, max_bytes, timeout)
        super().__init__(outbox, stream)
        self.phase = Phase.ASKED
        self.come_to: int | None = None
        self._asked = FieldsAsked() if plan.parses_ahead else None
        self._plan = plan
        self._guard = guard
        self._on_end = on_end
        self._api = api
        self._inbox = inbox
        self._draw = draw
        self._page_messages = page_messages
        self._max_bytes = PAGE_BYTES if max_bytes is None else max_bytes
        self._timeout = timeout
        self._feed = Feed(after, batch, self._ready)
        self._leader = Leader(stream, api, at_least, guard, created)
        self._timers = Timers()
        self._retries = Retries(timeout, now)
        self._copy: StoredMsg | None = None  # the leader's message, kept if nothing that goes before it was dropped
        self._replies = 0
        self._reply = b""  # where the page is to arrive
        self._question = b""  # where the leader's answer is to arrive
        self._announced = b""  # the last earlier page whose late messages were reported
        self._last_heard = now
        self._sid = outbox.subscribe(f"{inbox}.*", self)
        self._ask(_REST, now)

    @property
    def last_seq(self) -> int:
        """The sequence of the last message received. 0 before the first."""
        return self._feed.last_seq

    @property
    def up_to_seq(self) -> int | None:
        """Of a multi-subject read: the sequence of the stream that it shows. None while unknown."""
        return self._plan.up_to_seq

    # -- the reader ----------------------------------------------------------------------------------------------------

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` received messages, in order. The next page is requested when few are left."""
        messages = super().pop_many(most, now)
        if self.phase is Phase.FULL:
            self._go_on(_ROOM, now)
        return messages

    def pop_columns(self, most: int, now: float) -> StoredColumns:
        """``pop_many`` as columns, at a third of the price where every field is wanted.

        Raises:
            RemoteProtocolError: a message has no subject or no time.
        """
        columns = super().pop_columns(most, now)
        if self.phase is Phase.FULL:
            self._go_on(_ROOM, now)
        return columns

    def close(self, now: float) -> None:
        """Stop reading: buffered messages are dropped, and those under way are ignored."""
        self._ready.clear()
        self._end(None)

    def abandon(self, now: float) -> None:
        self.close(now)

    # -- what happens --------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """A message of the page, or its end, or the leader's answer."""
        if message.subject == self._reply:
            self._receive_page(message.header, message.payload, now)
        else:
            self._receive_other(message, now)

    def _receive_page(self, header: bytes | None, payload: bytes, now: float) -> None:
        self._last_heard = now
        if self._feed.end is not None:
            return  # the page waits for the leader, and is whole
        if header and self._feed.is_open and not header.startswith(STATUS_START) and self._take([header], [payload]):
            return
        try:
            found = replied(header, payload, self._feed, self._plan, self.stream, self._outbox)
        except Error as error:
            found = Finding(Fact.WRONG, error=error)
        if found is not None:
            self._step(found, now)

    def receive_run(self, row: MsgRun, now: float) -> None:
        """Messages of the page. The first one of a page is checked alone, and all that is in order is taken at once."""
        start = 0
        if row.subject != self._reply:
            self._receive_other(row.message(0), now)
            start = 1
        elif not self._feed.is_open:
            self._receive_page(row.headers[0], row.payloads[0], now)
            start = 1
        if row.subject == self._reply and self._feed.is_open:
            self._last_heard = now
            headers, payloads, fields = row.headers, row.payloads, row.fields
            stop = len(headers) - headers[-1].startswith(STATUS_START)  # the end of the page continues nothing
            if start or stop < len(headers):
                headers, payloads = headers[start:stop], payloads[start:stop]
            if start and fields is not None:  # then it does not end here
                fields = fields[0][start:], fields[1][start:], fields[2][start:]
            start += self._take(headers, payloads, fields)
        for place in range(start, len(row.headers)):
            if self.phase is Phase.ENDED:
                break
            if row.subject != self._reply:
                self._receive_other(row.message(place), now)
                break  # to tell one of an earlier page is enough
            self._receive_page(row.headers[place], row.payloads[place], now)

    def _take(self, headers: list[bytes], payloads: list[bytes], fields: Fields | None = None) -> int:
        """Keep the messages that continue the page, and return how many: all of those, or none (``Feed.take``)."""
        columns = self._feed.take(headers, payloads, fields, self._wants_columns)
        if columns is None:
            return 0
        self._last_header = columns.raw_headers[-1]
        if self._readable.pending is not None:
            self._wake_reader()
        return len(columns.seqs)

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            silent_until = self._last_heard + self._timeout
            if timer is Timer.ASK_AGAIN:
                self._step(_DUE, now)
            elif now < silent_until:
                self._timers.set(Timer.PAGE, silent_until)
            else:
                self._step(Finding(Fact.SILENCE, f"no message within {self._timeout:g} s"), now)
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
            self._end(violation)

    def crashed(self, error: Error, now: float) -> None:
        """The read ends with ``error``."""
        self._end(error)

    def link_lost(self, error: Error, now: float) -> None:
        """The rest of the page will not come. A new link may bring it, unless the session has ended."""
        if self._outbox.closed_error is None:
            self._step(_LINK_LOST, now)
        else:
            lost = self._incomplete(f"the connection was lost: {error}")
            lost.__cause__ = error
            self._end(lost)

    def link_restored(self, now: float) -> None:
        """Go on after the last message that arrived."""
        self._retries.extend(now)
        self._step(_LINK_RESTORED, now)

    def proved(self, error: Error | None, now: float) -> None:
        """The session's position is proved, or could not be."""
        self._step(_PROVED if error is None else Finding(Fact.UNPROVED, error=error), now)

    def _receive_other(self, message: Msg, now: float) -> None:
        """The leader's answer, which comes once. Or what is late."""
        if not self._question or message.subject != self._question:
            if message.subject != self._announced:  # once is enough for a page that was given up in the middle
                self._announced = message.subject
                subject = message.subject.decode("utf-8", "replace")
                self._outbox.emit(UnexpectedMessage(subject, "a message of an earlier page"))
            return
        self._last_heard = now
        self._question = b""
        self._step(self._leader.answered(message, self.phase, self._feed, self._plan, self._retries.lags, now), now)

    def _step(self, found: Finding, now: float) -> None:
        """Do what the table says."""
        verdict = BELIEF[self.phase, found.fact]
        if verdict is None:
            return
        self.phase = LEADS_TO[verdict]
        try:
            _DO[verdict](self, found, now)
        except Error as error:  # of the outbox, or of a page's end
            self._step(Finding(Fact.WRONG, error=error), now)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ask(self, found: Finding, now: float) -> None:
        """Ask for the next page."""
        self._question = b""
        if self._guard is not None and self._guard.owes():
            self._step(_OWED, now)
            return
        self._retries.asked(now)
        feed = self._feed
        asked = self._page_messages if feed.left is None else min(self._page_messages, feed.left)
        thrift = 2 * self._retries.mirrors  # of what a mirror sends again, nothing is of use
        feed.begin(max(1, asked >> thrift), max(1, self._max_bytes >> thrift))
        self._plan.begin(feed, self._max_bytes)
        self._reply = self._send(self._api.direct_get(self.stream), dumps(self._plan.fields(feed)), now)

    def _send(self, subject: str, payload: bytes, now: float) -> bytes:
        """Send a request. Returns where its answer is to arrive, empty if there was no room."""
        self._replies += 1
        reply = b"%b.%d-%b" % (self._inbox.encode(), self._replies, self._draw())
        try:
            self._outbox.publish(subject, payload, reply)
        except OutboundBufferLimitError:
            self._step(_BLOCKED, now)
            return b""
        self._outbox.flush()
        self._last_heard = now
        self._timers.set(Timer.PAGE, now + self._timeout)
        self._outbox.rearm(self)
        return reply

    def _prove(self, found: Finding, now: float) -> None:
        assert self._guard is not None  # it owes a proof
        self._timers.clear()
        self._reply = b""
        self._guard.prove(self, now)

    def _ask_state(self, found: Finding, now: float) -> None:
        self._question = self._send(self._api.stream_info(self.stream), b"", now)

    def _ask_next(self, found: Finding, now: float) -> None:
        body = dumps(self._plan.next_fields(self._feed))
        self._question = self._send(self._api.stream_msg_get(self.stream), body, now)

    def _ask_copy(self, found: Finding, now: float) -> None:
        self._copy = found.copy
        self._ask_state(found, now)  # what was to come before it may have been dropped meanwhile

    def _ask_why(self, found: Finding, now: float) -> None:
        self._settle()
        self._ask_state(found, now)

    def _ask_other(self, found: Finding, now: float) -> None:
        self._retries.stream_answered()
        self._announced = self._reply  # the rest of the page is no news
        self._close_page()
        self._ask_state(found, now)

    # -- a page --------------------------------------------------------------------------------------------------------

    def _begin(self, found: Finding, now: float) -> None:
        """The stream itself sends the page. If it does not begin with its anchor, this message is the first of it."""
        self._retries.stream_answered()
        self._feed.is_open = True
        if found.columns is not None:
            self._feed.lost_anchor = self._feed.is_anchored
            self._keep(found, now)

    def _hold(self, found: Finding, now: float) -> None:
        self._feed.hold()
        self._begin(found, now)
        self._ask_state(found, now)

    def _keep(self, found: Finding, now: float) -> None:
        assert found.columns is not None  # a message to be kept
        self._feed.keep(found.columns, len(found.columns.data[0]))
        self._last_header = found.columns.raw_headers[-1]
        if self._readable.pending is not None and self._feed.into is self._ready:
            self._wake_reader()

    def _keep_end(self, found: Finding, now: float) -> None:
        self._feed.end = found.header

    def _ask_whole(self, found: Finding, now: float) -> None:
        self._feed.end = found.header
        self._ask_state(found, now)

    def _release(self, found: Finding, now: float) -> None:
        """The page begins where it should. Where its middle is doubted, it has to be whole."""
        if not self._plan.holds_pages:
            self._feed.release()
            if self._readable.pending is not None:
                self._wake_reader()

    def _count(self, found: Finding, now: float) -> None:
        """The page is whole: give it out, and go on, later or never."""
        feed, plan, leader = self._feed, self._plan, self._leader
        header, last = feed.end or found.header, self._last_header
        end = page_end(header)
        refused = plan.refuses(feed, end, last)
        if refused is not None:
            if refused.come_to is not None:
                refused = leader.lags(refused.come_to, refused.text, feed.last_seq)
            self._close_page()
            self._step(refused, now)
            return
        showed, proves = feed.is_open, leader.parts == 0 and feed.seq >= leader.must_reach
        pending = plan.release(feed, end, last)
        self._last_header = header
        self._close_page()
        if feed.count:
            self._retries.page_arrived()
        if showed:
            self._count_part(pending)
        self._step(plan.ended(feed, pending, showed, proves), now)
        if self._readable.pending is not None:
            self._wake_reader()

    def _count_part(self, pending: int) -> None:
        """A page, or a part of it, has come. ``pending``: the messages left, as its sender said."""
        self._leader.parts += 1
        feed = self._feed
        self._plan.counted(feed, pending)
        if feed.left is not None:
            feed.left -= feed.count

    def _empty(self, found: Finding, now: float) -> None:
        self._settle()
        self._step(self._plan.emptied(self._feed, found.text), now)

    def _rest(self, found: Finding, now: float) -> None:
        """The page broke off: ask for the rest, but not for the second time in a row that nothing came of it."""
        is_empty = not self._feed.count or self._feed.is_held
        was_empty, self._retries.page_was_empty = self._retries.page_was_empty, is_empty
        if was_empty and is_empty:
            self._step(Finding(Fact.EMPTY_TWICE, found.text), now)
        else:
            self._resume(found, now)

    def _resume(self, found: Finding, now: float) -> None:
        self._settle()
        self._step(_ALL if self._feed.left == 0 else _REST, now)

    def _settle(self) -> None:
        """No more will come of the page: what is held is dropped, and what was given out has come."""
        feed = self._feed
        if feed.is_held:
            feed.drop()
        elif feed.is_open and feed.count:
            self._count_part(self.num_pending or 0)
        self._close_page()

    def _close_page(self) -> None:
        self._feed.close()
        self._timers.clear()
        self._reply = b""

    def _take_copy(self, found: Finding, now: float) -> None:
        copy, feed = self._copy, self._feed
        assert copy is not None  # it is why the leader was asked
        columns = StoredColumns(NONE, [copy.seq], NONE, [copy.data], [copy.raw_headers])
        self._keep(Finding(Fact.MESSAGE, columns=columns), now)
        self._count_part(0)
        self._close_page()
        self._retries.extend(now)
        self._step(_ALL if feed.left == 0 else _MORE, now)

    def _mirrored(self, found: Finding, now: float) -> None:
        """A mirror answered: ask again, since chance chooses which server answers."""
        self._announced = self._reply  # the rest of its page is no news
        self._pause(self._retries.mirror_answered(now), MirrorAnswerError(self.stream, found.text), now)

    def _later(self, found: Finding, now: float) -> None:
        """Ask again a little later, while there is time: replicas lag, or there is no leader."""
        self._feed.drop()
        pause = self._retries.replica_lagged(now)
        if pause is None:
            self.come_to = found.come_to
        error = self._no_direct_get() if found.fact is Fact.ALLOWED else found.error
        self._pause(pause, error or self._incomplete(found.text), now)

    def _briefly(self, found: Finding, now: float) -> None:
        self._feed.drop()
        self._pause(ASK_AGAIN, None, now)

    def _pause(self, pause: float | None, error: Error | None, now: float) -> None:
        """Ask for the next page in ``pause`` seconds. 0 is at once, None is too late: ``error``."""
        self._reply = b""
        self._timers.clear()
        if pause is None:
            self._step(Finding(Fact.TIME_OVER, error=error), now)
        elif not pause:
            self._step(_DUE, now)
        else:
            self._timers.set(Timer.ASK_AGAIN, now + pause)
            self._outbox.rearm(self)

    def _go_on(self, found: Finding, now: float) -> None:
        """Ask for the next page as soon as the reader has room."""
        if self._feed.has_room:
            self._step(_ROOM, now)

    def _break(self, found: Finding, now: float) -> None:
        self._timers.clear()
        self._reply = self._question = b""

    # -- the end -------------------------------------------------------------------------------------------------------

    def _finish(self, found: Finding, now: float) -> None:
        self._end(None)

    def _refuse(self, found: Finding, now: float) -> None:
        self._end(self._no_direct_get())

    def _fail(self, found: Finding, now: float) -> None:
        self._feed.drop()
        self._end(found.error or self._incomplete(found.text))

    def _end(self, error: Error | None) -> None:
        """The read has its end, or has failed."""
        if self.finished or self.error is not None:
            return
        self.phase = Phase.ENDED
        self._reply = self._question = b""
        self._timers.clear()
        self._outbox.unsubscribe(self._sid)
        self._outbox.rearm(self)
        self._ended(error)
        on_end, self._on_end = self._on_end, None  # it may lead back here
        if on_end is not None:
            on_end()

    def _no_direct_get(self) -> Error:
        return no_direct_get(self.stream, self._api.direct_get(self.stream))

    def _incomplete(self, reason: str) -> IncompleteBatchError:
        return IncompleteBatchError(reason, self.last_seq)


_DO: Final[Mapping[Verdict, Callable[[PagedRead, Finding, float], None]]] = {
    Verdict.ASK: PagedRead._ask,
    Verdict.PROVE: PagedRead._prove,
    Verdict.OPEN: PagedRead._begin,
    Verdict.BEGIN: PagedRead._begin,
    Verdict.HOLD: PagedRead._hold,
    Verdict.GIVE: PagedRead._keep,
    Verdict.KEEP: PagedRead._keep,
    Verdict.KEEP_END: PagedRead._keep_end,
    Verdict.RELEASE: PagedRead._release,
    Verdict.ASK_WHOLE: PagedRead._ask_whole,
    Verdict.COUNT: PagedRead._count,
    Verdict.EMPTY: PagedRead._empty,
    Verdict.REST: PagedRead._rest,
    Verdict.RESUME: PagedRead._resume,
    Verdict.ASK_WHY: PagedRead._ask_why,
    Verdict.ASK_OTHER: PagedRead._ask_other,
    Verdict.ASK_STATE: PagedRead._ask_state,
    Verdict.ASK_NEXT: PagedRead._ask_next,
    Verdict.ASK_LAST: PagedRead._ask_state,
    Verdict.ASK_COPY: PagedRead._ask_copy,
    Verdict.TAKE_COPY: PagedRead._take_copy,
    Verdict.MIRRORED: PagedRead._mirrored,
    Verdict.LATER: PagedRead._later,
    Verdict.BRIEFLY: PagedRead._briefly,
    Verdict.WAIT: PagedRead._go_on,
    Verdict.BREAK: PagedRead._break,
    Verdict.REST_IDLE: PagedRead._break,
    Verdict.FINISH: PagedRead._finish,
    Verdict.REFUSE: PagedRead._refuse,
    Verdict.FAIL: PagedRead._fail,
}
