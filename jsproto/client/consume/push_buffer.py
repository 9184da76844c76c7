"""What a consumer pushes to us: buffered until the application takes it, with the statuses among it managed (ADR-15).

Rules: the application sees messages only, unless it asks for everything (``raw``). Flow control is answered when the
application has taken all that came before it and asks for more, once for each subject; so is what a heartbeat says is
stalled. Silence is noticed after ``patience`` seconds, while there is a link. The buffer is bounded by messages and
bytes, but one message always fits. After the end what is buffered can still be taken; then ``readable()`` fails with
why it ended.

Not here: what a gap, a silence or a full buffer leads to (``push``, ``ordered``), acknowledgements (``message``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from jsproto.client.connection.message_buffer import MessageBuffer, size_of
from jsproto.client.connection.subscription import DEFAULT_PENDING_BYTES, DEFAULT_PENDING_MSGS, Drainable
from jsproto.client.consume.message import Acker, ConsumerMsg
from jsproto.errors import Error, LocalProtocolError, OutboundBufferLimitError, RemoteProtocolError
from jsproto.events import SlowConsumer, UnexpectedMessage
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import last_value, status_line
from jsproto.grammar.jsack import ACK_PREFIX
from jsproto.outbox import Outbox, bulk
from jsproto.rules.sequence_gaps import DeliverySequence, SequenceGap
from jsproto.rules.status import CONTROL, Meaning, classify
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, RawMsg

D = TypeVar("D", bound=ConsumerMsg)

_STATUS: Final = b"NATS/1.0 "  # a header block without status has its first line end before the blank


class PushBuffer(Drainable, Generic[D]):
    """The deliveries of one consumer.

    Attributes: ``stream`` and ``consumer``, their names; ``subject`` (what was subscribed to, for people); ``acker``
    (makes the messages, and acknowledges them); ``dropped`` (messages that a full buffer did not take); ``error`` (why
    it ended, None while it lives).
    """

    __slots__ = (
        "_alarmed_at", "_answered", "_buffer", "_full", "_heard_at", "_markers", "_outbox", "_patience",
        "_raw", "_readable", "_seen", "_taken", "_timers", "acker", "consumer", "dropped", "error", "stream", "subject",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        acker: Acker[D],
        *,
        stream: str,
        consumer: str,
        subject: str,
        patience: float,
        now: float,
        raw: bool = False,
        pending_msgs_limit: int = DEFAULT_PENDING_MSGS,
        pending_bytes_limit: int = DEFAULT_PENDING_BYTES,
    ) -> None:
        """``patience``: seconds of silence until it is an alarm, 0 for never."""
        self._buffer = MessageBuffer(pending_msgs_limit, pending_bytes_limit)
        self.stream = stream
        self.consumer = consumer
        self.subject = subject
        self.dropped = 0
        self.error: Error | None = None
        self.acker = acker
        self._outbox = bulk(outbox)
        self._raw = raw
        self._patience = 0.0 if raw else patience
        self._full = False
        self._taken = 0
        self._markers: deque[tuple[int, bytes]] = deque()  # how many messages go before it, what to answer
        self._answered = b""
        self._seen: DeliverySequence | None = (
            None if raw else DeliverySequence()
        )  # None: nobody looks for what is missing
        self._heard_at = now
        self._alarmed_at: float | None = None  # what the last alarm had heard last
        self._timers = Timers()
        self._readable: Ticket[None] | None = None

    # -- the application's verbs ---------------------------------------------------------------------------------------

    @property
    def pending_msgs(self) -> int:
        """Messages in the buffer."""
        return len(self._buffer)

    @property
    def pending_bytes(self) -> int:
        """Bytes in the buffer."""
        return self._buffer.size

    def pop_many(self, most: int, now: float) -> list[D]:
        """Take up to ``most`` buffered messages, oldest first; empty when there are none.

        To ask again means that those taken before have been dealt with.
        """
        if self._markers:
            most = self._pass_markers(most)
        raws = self._buffer.take(most)
        self._taken += len(raws)
        self._after_taking(bool(raws), now)
        messages = self.acker.messages(raws)
        if self._raw:
            for message in messages:
                if not message._raw[1].startswith(ACK_PREFIX):
                    message._acker = None  # a status: there is nothing to acknowledge
        return messages

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken; fails with why the subscription ended when none ever will."""
        if self._readable is not None:
            return self._readable
        ticket: Ticket[None] = Ticket()
        if self._buffer:
            ticket.succeed(None)
        elif self.error is not None:
            ticket.fail(self.error)
        else:
            self._readable = ticket
        return ticket

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """A message of the stream, or a status."""
        header = message.header
        self._heard_at = now
        size = len(message.payload)
        if header is not None:
            if header.startswith(_STATUS) and not self._raw:
                self._receive_status(message, header, now)
                return
            size += len(header)
        seen = self._seen
        reply = message.reply or b""
        if seen is not None and reply.startswith(seen.expected_prefix):
            seen.advance()
        elif not (self._raw or self._inspect(reply, now)):
            return
        if not self._buffer.has_room(1, size):
            self._overflow(size, now)
            return
        self._buffer.add(((message.subject, reply, header, message.payload),), size)
        if self._readable is not None:
            self._tell()

    def receive_many(self, raws: Sequence[RawMsg], size: int, now: float) -> int:
        """Messages of the stream: those that are simply the next ones, if there is room for all."""
        if not self._buffer.has_room(len(raws), size):
            return 0
        self._heard_at = now
        count = self._follow(raws)
        if count < len(raws):
            raws = raws[:count]
            size = size_of(raws)
        self._buffer.add(raws, size)
        if raws and self._readable is not None:
            self._tell()
        return count

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            if timer is not Timer.HEARTBEAT:
                self._handle_timer(timer, now)
            elif now < self._heard_at + self._patience:
                self._timers.set(Timer.HEARTBEAT, self._heard_at + self._patience)
            else:
                first, self._alarmed_at = self._alarmed_at != self._heard_at, self._heard_at
                self._timers.set(Timer.HEARTBEAT, now + self._patience)
                self._silent(first, now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        return self._timers.next()

    # -- what a subclass decides ---------------------------------------------------------------------------------------

    def _follow(self, raws: Sequence[RawMsg]) -> int:
        """How many of these, from the front, are simply the next ones; they have come now."""
        return len(raws) if self._seen is None else self._seen.count_in_sequence([raw[1] for raw in raws])

    def _inspect(self, reply: bytes, now: float) -> bool:
        """Whether to keep a message that is not simply the next one."""
        raise NotImplementedError

    def _broken(self, broken: SequenceGap, now: float) -> None:
        """A heartbeat has shown that deliveries were lost, or that the consumer counts anew."""
        raise NotImplementedError

    def _silent(self, first: bool, now: float) -> None:
        """Nothing has come for ``patience`` seconds; not for the ``first`` time in this silence."""
        raise NotImplementedError

    def _refused(self, error: Error, now: float) -> None:
        """A status came that is no news of the consumer's."""
        raise NotImplementedError

    def _overflow(self, size: int, now: float) -> None:
        """A message of ``size`` bytes found no room in the buffer."""
        self.dropped += 1
        if not self._full:
            self._full = True
            self._outbox.emit(SlowConsumer(self.subject, self.dropped))

    def _after_taking(self, some: bool, now: float) -> None:
        """The application has asked for messages, and got ``some``."""
        self._full = False

    def _handle_timer(self, timer: Timer, now: float) -> None:
        """A timer of the subclass is due."""

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _listen(self, now: float) -> None:
        """From now on silence counts."""
        self._heard_at = now
        self._answered = b""  # the answer may have been lost with a link
        if self._patience:
            self._alarmed_at = None
            self._timers.set(Timer.HEARTBEAT, now + self._patience)
        self._outbox.rearm(self)

    def _ignore(self, reason: str) -> None:
        self._outbox.emit(UnexpectedMessage(self.subject, reason))

    def _finish(self, error: Error) -> None:
        """No message will come any more."""
        if self.error is not None:
            return
        self.error = error
        self._timers.stop(Timer.HEARTBEAT)
        self._outbox.rearm(self)
        if self._readable is not None:
            self._readable.fail(error)
            self._outbox.completed(self._readable)
            self._readable = None

    # -- inside --------------------------------------------------------------------------------------------------------

    def _receive_status(self, message: Msg, header: bytes, now: float) -> None:
        try:
            status = status_line(header)
            assert status is not None  # a plain block was told apart before
            code, description = status
            if code != CONTROL:
                meaning, error = classify(code, description, self.subject)
                if meaning is not Meaning.HIDDEN:
                    self._refused(error, now)
            elif message.reply:
                self._mark(message.reply)
            else:
                self._receive_heartbeat(header, now)
        except RemoteProtocolError as malformed:
            self._ignore(str(malformed))

    def _receive_heartbeat(self, header: bytes, now: float) -> None:
        stalled = last_value(header, b"Nats-Consumer-Stalled")
        if stalled:
            self._mark(stalled)
        last = last_value(header, b"Nats-Last-Consumer")
        if last is not None and self._seen is not None:
            if not last.isdigit() or len(last) > MAX_DIGITS:
                raise RemoteProtocolError("a heartbeat whose Nats-Last-Consumer is no number", last)
            broken = self._seen.heartbeat(int(last))
            if broken is not None:
                self._broken(broken, now)

    def _mark(self, subject: bytes) -> None:
        """Flow control: answer ``subject`` when the application gets here."""
        if subject != self._answered and all(subject != marked for _, marked in self._markers):
            self._markers.append((self._taken + len(self._buffer), subject))
        if self._markers and self._readable is not None:  # the application is there
            self._pass_markers(0)

    def _pass_markers(self, most: int) -> int:
        """Answer what the application has reached; of ``most`` messages, how many come before the next marker."""
        markers = self._markers
        while markers and markers[0][0] <= self._taken:
            subject = markers[0][1]
            try:
                self._outbox.publish(subject.decode(), b"")
            except OutboundBufferLimitError:
                return min(most, len(self._buffer))  # there will be another time: ask again, or be reminded
            except (LocalProtocolError, UnicodeDecodeError) as error:  # no subject, or nobody to send it to
                self._ignore(f"flow control cannot be answered: {error}")
            else:
                self._outbox.flush()
            self._answered = subject
            markers.popleft()
        return min(most, markers[0][0] - self._taken) if markers else most

    def _tell(self) -> None:
        ticket, self._readable = self._readable, None
        assert ticket is not None
        ticket.succeed(None)
        self._outbox.completed(ticket)
