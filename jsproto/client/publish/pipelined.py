"""Publishing to streams with an acknowledgement for each message, many under way at a time.

Each message carries an unguessable reply subject of its own below one inbox. At most ``max_pending`` messages, and
about ``max_pending_bytes`` bytes, wait for their answers. Every message ends in exactly one of: its PubAck, the
server's APIError, NoStreamResponseError, RemoteProtocolError (the answer is malformed), TimeoutError, or why the link
was lost.

Rules
 * ``publish`` gives a ticket for its message. ``publish_many`` gives counts, and the failed messages for another try,
   and saves an object for each message.
 * A message is held until it is answered, so memory is bounded by the window plus one message.
 * Failed messages of ``publish_many`` are kept. It refuses to go on while they are as many as the window holds. So
   memory is bounded by two windows.
 * This side sends each message once: an unanswered one may be stored. Only the caller knows whether it may be sent
   again (with a message id the stream stores it once).
 * A message that no stream takes has reached nobody. One of ``publish`` is sent again after a pause (ADR-22), after
   those published meanwhile. Until then it keeps its place in the window.
 * Answers may come in any order. One for a message that is not under way is an event and is passed over.
 * Time is looked at in steps: a message is given up ``timeout`` seconds, or up to a sixteenth more, after it was last
   sent.

Not here: batches, which are cheaper (``fast``) or all-or-nothing (``atomic``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import compress, repeat
from math import inf
from typing import ClassVar, Final, NoReturn, TypeAlias, Unpack

from jsproto.api_errors import StreamDuplicateMessageConflictError
from jsproto.client.connection.requests import NO_RETRY, RetryPolicy, is_no_responders
from jsproto.client.publish.message import Message, parts
from jsproto.client.publish.publish_options import PipelinedOptions
from jsproto.errors import (
    AsyncPublishError,
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    NoStreamResponseError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    TimeoutError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.acks import PubAck, is_plain_ack, parse_plain_acks, parse_pub_ack, plain_runs
from jsproto.grammar.batch import encode_unbatched
from jsproto.grammar.consecutive import by_thousands
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.options import checked
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import seconds
from jsproto.outbox import Conversation, Outbox, bulk
from jsproto.ticket import Readable, Ticket
from jsproto.wire.frames import Msg, PlainRun

STEPS: Final = 16  # how finely a timeout is looked at
_AHEAD: Final = 64  # reply subjects drawn ahead, at most

Failure: TypeAlias = tuple[Message, Error]
"""A message that was not acknowledged, and why. After an APIError or NoStreamResponseError it is not stored; after any
other error it may be."""

_Promised: TypeAlias = tuple[str, bytes, None, Ticket[PubAck], bytes | None]
"""A message whose acknowledgement completes a ticket: the shape of a message without headers, then the ticket and the
header block."""

_Again: TypeAlias = tuple[str, bytes, None, Ticket[PubAck], bytes | None, int, float]
"""The same after no stream took it: how often it may be sent again, and until when (seconds)."""


def _draw_nothing(count: int) -> Sequence[bytes]:
    return [b""] * count


PASSING: Final = (NoStreamResponseError, StreamDuplicateMessageConflictError)
"""Answers after which a message may be sent again: nobody took it, or its id is in process on another link."""


class PipelinedPublisher(Conversation):
    """Publishes ahead of the acknowledgements by a bounded window.

    Attributes, the first three of both kinds of publish:
     * ``sequence``: how many messages were published.
     * ``acked``: how many were acknowledged.
     * ``failed``: how many failed.
     * ``error``: why publishing has ended. None while one can.
    """

    __slots__ = (
        "_answered", "_bytes", "_draw_many", "_drawn", "_failures", "_failures_bytes", "_inbox", "_max_bytes",
        "_max_open", "_max_pending", "_open", "_outbox", "_prefix", "_ready", "_replies", "_retries", "_retry", "_sid",
        "_step_ends", "_steps", "_timeout", "acked", "error", "failed", "sequence",
    )  # fmt: skip

    in_any_order: ClassVar[bool] = True

    @property
    def is_busy(self) -> bool:
        """Whether acknowledgements are missing."""
        return bool(self._open or self._retries)

    def __init__(
        self,
        outbox: Outbox,
        *,
        inbox: str,
        draw_many: Callable[[int], Sequence[bytes]] = _draw_nothing,
        retry: RetryPolicy = NO_RETRY,
        **options: Unpack[PipelinedOptions],
    ) -> None:
        """``inbox``: a subject of this client alone.

        * ``max_pending_bytes``: the message that reaches this may go beyond it.
        * ``draw_many``: makes unpredictable texts (``Session.draw_many``). A reader of one reply subject is unable to
          acknowledge the next message. Without it the reply subjects only count.
        * ``retry``: how often a message of ``publish`` is sent again that no stream takes.

        Raises: LocalProtocolError: a value is out of range.
        """
        asked = checked(PipelinedOptions, options)
        timeout = seconds(asked["timeout"], default=5.0)
        if not timeout > 0:
            raise LocalProtocolError("timeout must be greater than 0 seconds")
        check_subject(inbox)
        self.sequence = 0
        self.acked = 0
        self.failed = 0
        self.error: Error | None = None
        self._outbox = bulk(outbox)
        self._inbox = inbox
        self._draw_many = draw_many
        self._prefix = f"{inbox}.".encode()
        self._replies: list[bytes] = []  # drawn and not used yet, the next one last
        self._drawn = 0  # the number of the last one that was drawn
        self._sid: int | None = None
        self._timeout = timeout
        self._max_pending = asked["max_pending"]
        self._max_bytes = asked["max_pending_bytes"]
        self._bytes = 0
        self._open: dict[bytes, Message | _Promised | _Again] = {}  # by reply subject, oldest first
        self._steps: deque[tuple[float, int]] = deque()  # (when, number): when it began, and what was sent before it
        self._step_ends = -inf  # when a message begins another one
        self._retry = retry
        self._retries: deque[tuple[float, _Again]] = deque()  # (when, message): what is sent again, earliest first
        self._max_open = self._max_pending  # less what waits to be sent again
        self._failures: list[Failure] = []
        self._failures_bytes = 0
        self._ready = Readable(outbox.completed)
        self._answered = Readable(outbox.completed)

    # -- what can be asked ---------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Messages that wait for an answer."""
        return len(self._open) + len(self._retries)

    @property
    def pending_bytes(self) -> int:
        """Bytes of their payloads."""
        return self._bytes

    @property
    def room(self) -> int:
        """How many messages may be published now, if they are small."""
        if self.error is not None or self._bytes >= self._max_bytes:
            return 0
        return self._max_open - len(self._open)

    def ready(self) -> Ticket[None]:
        """A ticket that is completed when there is room, and fails with why publishing has ended.

        Once the window has closed, a quarter of it must be free again, which spares the caller a wake-up for each
        answer.
        """
        return self._ready.ticket(bool(self.room), self.error)

    def answered(self) -> Ticket[None]:
        """A ticket that is completed when each message has its acknowledgement or has failed."""
        if self._open and self._answered.pending is None:
            self._outbox.flush()
        return self._answered.ticket(not self.pending)

    def take_failures(self) -> list[Failure]:
        """The messages of ``publish_many`` that failed since the last call, in the order in which they failed."""
        failures, self._failures = self._failures, []
        self._failures_bytes = 0
        return failures

    def raise_failures(self) -> None:
        """Hand back the messages of ``publish_many`` that failed, if there are any.

        Raises: AsyncPublishError: it holds what ``take_failures()`` would have returned.
        """
        if self._failures:
            failures = self.take_failures()
            raise AsyncPublishError(failures) from failures[0][1]

    @property
    def unacknowledged(self) -> list[Message]:
        """The messages of ``publish_many`` that are not known to be stored: those that failed, then those under way.

        Failures that were handed back are not among them.
        """
        under_way = [sent for sent in self._open.values() if len(sent) < 4]
        return [message for message, _ in self._failures] + under_way

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def publish(
        self, subject: str, payload: bytes = b"", headers: HeadersLike | None = None, *, now: float
    ) -> Ticket[PubAck]:
        """Publish one message. The ticket takes its acknowledgement, or fails with the reason.

        ``now``: monotonic seconds.

        Raises, with nothing sent:
         * LocalProtocolError: ``room`` is 0 (wait for ``ready()``), or the headers are those of an atomic batch.
         * The publisher's ``error``: it has ended.
         * BadSubjectError, BadHeaderError, MaxPayloadError, OutboundBufferLimitError, ConnectionClosedError: the outbox
           refuses the message.
        """
        if self.error is not None or len(self._open) >= self._max_open or self._bytes >= self._max_bytes:
            self._refuse()
        if self._sid is None:
            self._open_inbox()
        block = None if headers is None else encode_unbatched(headers)
        replies, waiting = self._replies, self._open
        if not replies:
            self._draw(1)
        reply = replies[-1]
        self._outbox.publish(subject, payload, reply, block)
        del replies[-1]
        ticket: Ticket[PubAck] = Ticket()
        waiting[reply] = (subject, payload, None, ticket, block)
        self.sequence += 1
        self._bytes += len(payload)
        if now >= self._step_ends:
            self._begin_step(now, 1)
        if len(waiting) >= self._max_open or self._bytes >= self._max_bytes:
            self._outbox.flush()
        return ticket

    def publish_many(self, messages: Sequence[Message], now: float) -> int:
        """Publish from the front of ``messages`` what there is room for. Returns how many were taken.

        They are fewer than all when the window closes or the outbox is full. Wait for ``ready()``, or for the outbox,
        and go on after those that were taken. What fails later is in ``take_failures()``.

        Raises, besides what ``publish`` raises:
         * AsyncPublishError: as many messages have failed as the window holds. It hands them back, and none was taken.

        The messages before a bad one are taken, and ``sequence`` says how many they are.
        """
        if self.error is not None:
            self._refuse()
        if len(self._failures) >= self._max_pending or self._failures_bytes >= self._max_bytes:
            self.raise_failures()
        room = self.room
        if room <= 0 or not messages:
            return 0
        if self._sid is None:
            self._open_inbox()
        waiting, run = self._open, messages[:room]
        before = sequence = self.sequence
        size, most = self._bytes, self._max_bytes
        self._draw(len(run))
        replies = self._replies[: -1 - len(run) : -1]
        total = _total(run)
        try:
            taken = 0
            if total is not None and size + total - len(run[-1][1]) < most:  # the last one finds room, too
                taken = self._outbox.publish_replied(run, replies)
                waiting.update(zip(replies, run[:taken], strict=False))
                size += total if taken == len(run) else sum([len(message[1]) for message in run[:taken]])
                sequence += taken
            for reply, message in zip(replies[taken:], run[taken:], strict=True):
                if size >= most:
                    break
                subject, payload, headers = parts(message)
                block = None if headers is None else encode_unbatched(headers)
                self._outbox.publish(subject, payload, reply, block)
                sequence += 1
                waiting[reply] = message
                size += len(payload)
        except OutboundBufferLimitError:
            if sequence == before:
                raise
        finally:
            del self._replies[len(self._replies) - (sequence - before) :]
            self.sequence = sequence
            self._bytes = size
            if now >= self._step_ends:
                self._begin_step(now, sequence - before)
            if len(waiting) >= self._max_open or size >= most:
                self._outbox.flush()
        return sequence - before

    def close(self, now: float) -> None:
        """End it: what waits for an answer fails with ConnectionClosedError. No effect after the end."""
        if self.error is not None:
            return
        if self._sid is not None:
            self._outbox.unsubscribe(self._sid)
        self._end(ConnectionClosedError("the publisher was closed"))

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """A message on the publisher's inbox."""
        sent = self._open.pop(message.subject, None)
        if sent is None:
            self._report_unexpected(message.subject)
            return
        self._bytes -= len(sent[1])
        if len(sent) < 4 and is_plain_ack(message.payload):
            self.acked += 1
        else:
            answer = _answer(message, sent[0])
            if type(answer) in PASSING and self._may_retry(sent, now):
                return
            self._resolve(sent, answer)
        if self._ready.pending is not None or self._answered.pending is not None:
            self._tell()

    def receive_plain(self, run: PlainRun, now: float) -> int:
        """Many messages on the publisher's inbox."""
        start = 0
        for is_plain, stop in plain_runs(run.payloads):
            if is_plain:
                self._acknowledge(run.subjects[start:stop], run.payloads[start:stop])
            else:
                self.receive(run.message(start), now)
            start = stop
        if self._ready.pending is not None or self._answered.pending is not None:
            self._tell()
        return start

    def handle_timeout(self, now: float) -> None:
        """Give up what was sent too long ago, and send again what no stream took."""
        while self._retries and self._retries[0][0] <= now:
            self._send_retry(self._retries.popleft()[1], now)
        given_up, steps = 0, self._steps
        while steps and self._due(steps[0][0]) <= now:
            steps.popleft()
            given_up = steps[0][1] if steps else self._used
        overdue: list[bytes] = []
        start = len(self._prefix)
        for reply in self._open:
            if int(reply[start:].partition(b"-")[0]) > given_up:
                break
            overdue.append(reply)
        for reply in overdue:
            sent = self._open.pop(reply)
            self._bytes -= len(sent[1])
            late = TimeoutError(f"no acknowledgement for a message to {sent[0]} within {self._timeout:g} s")
            self._resolve(sent, late)
        if not self._open:
            steps.clear()
        if not steps:
            self._step_ends = -inf
        self._outbox.rearm(self)
        self._tell()

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in monotonic seconds. None: not yet."""
        due = self._due(self._steps[0][0]) if self._steps else None
        again = self._retries[0][0] if self._retries else None
        return again if due is None else due if again is None else min(due, again)

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """Fail the messages that were dropped, or all of them, when the refusal is about their answers."""
        if violation.operation == "subscribe":
            assert self._sid is not None  # it is the subscription in question
            self._outbox.unsubscribe(self._sid)
            self._sid = None  # the next message subscribes again
            self._fail_all(violation)
            return
        for reply in [reply for reply, sent in self._open.items() if sent[0] == violation.subject]:
            sent = self._open.pop(reply)
            self._bytes -= len(sent[1])
            self._resolve(sent, violation)
        self._tell()

    def crashed(self, error: Error, now: float) -> None:
        """It ends with ``error``, and so does what waits."""
        self._end(error)

    def link_lost(self, error: Error, now: float) -> None:
        """Fail what waits: the answers are lost with the link. A new link serves what is published later."""
        if self._outbox.closed_error is not None:
            self._end(error)
        else:
            self._fail_all(error)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _may_retry(self, sent: Message | _Promised | _Again, now: float) -> bool:
        """A message reached no stream: send it again after a pause, if it may be. Returns whether it may."""
        if len(sent) == 5:
            sent = (*sent, self._retry.attempts, now + self._timeout)
        when = now + self._retry.wait
        if len(sent) != 7 or not sent[5] or when >= sent[6]:
            return False
        self._bytes += len(sent[1])
        self._max_open -= 1
        self._retries.append((when, sent))
        self._outbox.rearm(self)
        return True

    def _send_retry(self, sent: _Again, now: float) -> None:
        """Send a message again, as the newest one. It counts once."""
        subject, payload, _, ticket, block, left, until = sent
        self._max_open += 1
        self._draw(1)
        reply = self._replies[-1]
        try:
            self._outbox.publish(subject, payload, reply, block)
        except Error as error:  # no room for it, for example
            self._bytes -= len(payload)
            self._resolve(sent, error)
            return
        del self._replies[-1]
        self._open[reply] = (subject, payload, None, ticket, block, left - 1, until)
        if now >= self._step_ends:
            self._begin_step(now, 1)
        self._outbox.flush()

    def _due(self, sent: float) -> float:
        """When to give up what was sent at ``sent`` or within one step of it."""
        return sent + self._timeout * (1 + 1 / STEPS)

    def _begin_step(self, now: float, count: int) -> None:
        """Remember when what is sent from now on was sent: ``count`` messages, which were the last ones, and more."""
        self._steps.append((now, self._used - count))
        self._step_ends = now + self._timeout / STEPS
        if len(self._steps) == 1:
            self._outbox.rearm(self)

    @property
    def _used(self) -> int:
        """The number of the last reply subject that was used."""
        return self._drawn - len(self._replies)

    def _draw(self, count: int) -> None:
        """Have ``count`` unused reply subjects. Some more are drawn, because many at once are cheaper."""
        missing = count - len(self._replies)
        if missing > 0:
            missing = max(missing, min(self.sequence, _AHEAD))
            texts = self._draw_many(missing)
            new: list[bytes] = []
            for run, high, numbers in by_thousands(self._drawn + 1, missing):
                words = zip(repeat(self._prefix + high), numbers, repeat(b"-"), texts[run], strict=False)
                new += map(b"".join, words)
            new.reverse()
            self._replies[:0] = new
            self._drawn += missing

    def _open_inbox(self) -> None:
        self._sid = self._outbox.subscribe(f"{self._inbox}.*", self)

    def _refuse(self) -> NoReturn:
        if self.error is None:
            raise LocalProtocolError("too many messages wait for their acknowledgements: wait for ready()")
        raise self.error.with_traceback(None)

    def _resolve(self, sent: Message | _Promised | _Again, answer: PubAck | Error) -> None:
        """One message has its answer."""
        if isinstance(answer, Error):
            self.failed += 1
        else:
            self.acked += 1
        if len(sent) > 3:
            ticket = sent[3]
            if isinstance(answer, Error):
                ticket.fail(answer)
            else:
                ticket.succeed(answer)
            self._outbox.completed(ticket)
        elif isinstance(answer, Error):
            self._failures.append((sent, answer))
            self._failures_bytes += len(sent[1])

    def _acknowledge(self, replies: Sequence[bytes], payloads: Sequence[bytes]) -> None:
        """``receive`` for plain acknowledgements, all at once. Pays: ``async-publish``."""
        found = [*map(self._open.pop, replies, repeat(None))]
        if not all(found):
            for reply, sent in zip(replies, found, strict=True):
                if sent is None:
                    self._report_unexpected(reply)
            payloads = [*compress(payloads, found)]
        answered = [sent for sent in found if sent is not None]
        self.acked += len(answered)
        self._bytes -= sum([len(sent[1]) for sent in answered])
        if max(map(len, answered), default=0) > 3:
            tickets = []
            for sent, ack in zip(answered, parse_plain_acks(payloads), strict=True):
                if len(sent) > 3:
                    sent[3].succeed(ack)
                    tickets.append(sent[3])
            self._outbox.completed_many(tickets)

    def _report_unexpected(self, reply: bytes) -> None:
        self._outbox.emit(UnexpectedMessage(reply.decode("utf-8", "replace"), "no publish waits for it"))

    def _tell(self) -> None:
        """Complete what waits for room, or for the last answer."""
        waiting = len(self._open) + len(self._retries)
        if 4 * waiting <= 3 * self._max_pending and 4 * self._bytes <= 3 * self._max_bytes:
            self._ready.notify()
        if not waiting:
            self._answered.notify()

    def _fail_all(self, error: Error) -> None:
        waiting, self._open = [*self._open.values(), *(sent for _, sent in self._retries)], {}
        self._retries.clear()
        self._max_open = self._max_pending
        self._bytes = 0
        self._steps.clear()
        self._step_ends = -inf
        for sent in waiting:
            self._resolve(sent, error)
        self._outbox.rearm(self)
        self._tell()

    def _end(self, error: Error) -> None:
        """Publishing has ended."""
        self.error = error
        self._ready.fail(error)
        self._fail_all(error)


def _total(messages: Sequence[Message]) -> int | None:
    """Bytes of the payloads. None: one of them is malformed."""
    try:
        return sum([len(message[1]) for message in messages])
    except (TypeError, LookupError):
        return None


def _answer(message: Msg, subject: str) -> PubAck | Error:
    """What an answer to a message to ``subject`` says."""
    if is_no_responders(message):
        return NoStreamResponseError(subject)
    try:
        return parse_pub_ack(message.payload)
    except RemoteProtocolError as error:
        return error
