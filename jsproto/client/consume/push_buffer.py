"""What a consumer pushes to us: buffered until the application takes it, with the statuses among it managed (ADR-15).

Rules:

* The application sees messages only, unless it asks for everything (``raw``).
* The buffer is bounded by messages and bytes, but one message always fits.
* After the end what is buffered can still be taken. Then ``readable()`` fails with why it ended.

Where to look: flow control (``flow_control``), missed heartbeats (``heartbeats``), gaps in the deliveries
(``rules.sequence_gaps``).

Not here: what a gap, a silence or a full buffer leads to (``push``, ``ordered``), acknowledgements (``message``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from jsproto.client.connection.message_buffer import BufferOptions, MessageBuffer, size_of
from jsproto.client.connection.subscription import Drainable
from jsproto.client.consume.flow_control import FlowControl
from jsproto.client.consume.heartbeats import SilenceWatch
from jsproto.client.consume.message import Acker, ConsumerMsg
from jsproto.errors import Error, RemoteProtocolError
from jsproto.events import SlowConsumer, UnexpectedMessage
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import STATUS_START, last_value, status_line
from jsproto.grammar.jsack import ACK_PREFIX
from jsproto.outbox import Outbox, bulk
from jsproto.rules.sequence_gaps import DeliverySequence, SequenceGap
from jsproto.rules.status import CONTROL, Meaning, classify
from jsproto.ticket import Readable, Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, RawMsg

D = TypeVar("D", bound=ConsumerMsg)


class PushBuffer(Drainable, Generic[D]):
    """The deliveries of one consumer.

    Attributes:

    * ``stream`` and ``consumer``: their names.
    * ``subject``: what was subscribed to, for events.
    * ``acker``: makes and acknowledges the messages.
    * ``dropped``: how many messages a full buffer did not take.
    * ``error``: why it ended, None while it lives.

    ``now`` is monotonic seconds in every method.
    """

    __slots__ = (
        "_buffer", "_flow", "_full", "_outbox", "_patience", "_raw", "_readable", "_seen", "_timers", "_watch", "acker",
        "consumer", "dropped", "error", "stream", "subject",
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
        limits: BufferOptions,
        raw: bool = False,
    ) -> None:
        """``patience``: seconds of silence until it is an alarm, 0 for never. ``raw``: keep statuses as messages.

        ``limits``: a value of ``BufferOptions`` (``checked``).
        """
        self._buffer = MessageBuffer(limits["pending_msgs_limit"], limits["pending_bytes_limit"])
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
        self._flow = FlowControl(outbox, subject)
        self._seen = None if raw else DeliverySequence()  # None: gaps are not looked for
        self._timers = Timers()
        self._watch = SilenceWatch(self._timers, now)
        self._readable = Readable(outbox.completed)

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
        """Take up to ``most`` buffered messages, oldest first. Empty when there are none.

        To call it again reports that the messages taken before are dealt with: flow control is answered then.
        """
        messages = self.acker.messages(self._take(most, now))
        if self._raw:
            for message in messages:
                if not message._raw[1].startswith(ACK_PREFIX):
                    message._acker = None  # a status has nothing to acknowledge
        return messages

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken.

        The ticket fails with:
            Error: why the subscription ended. No message will come.
        """
        return self._readable.ticket(bool(self._buffer), self.error)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """A message of the stream, or a status."""
        header = message.header
        self._watch.heard_at = now
        size = len(message.payload)
        if header is not None:
            if header.startswith(STATUS_START) and not self._raw:
                self._receive_status(message, header, now)
                return
            size += len(header)
        seen = self._seen
        reply = message.reply or b""
        if seen is not None and reply.startswith(seen.expected_prefix):
            seen.advance()
        elif not (self._raw or self._inspect(message, reply, now)):
            return
        if not self._buffer.has_room(1, size):
            self._overflow(size, now)
            return
        self._buffer.add(((message.subject, reply, header, message.payload),), size)
        self._readable.notify()

    def receive_many(self, raws: Sequence[RawMsg], size: int, now: float) -> int:
        """Messages of the stream: those that are simply the next ones, if there is room for all.

        The reply subjects prove the order: in a run each starts with the prefix that the one before predicts
        (``DeliverySequence.count_in_sequence``). The first that does not is left to ``receive``. The buffer changes
        once for the run.

        Benchmark rows: ``ordered-push``, ``ordered-push-mixed``.
        """
        if not self._buffer.has_room(len(raws), size):
            return 0
        self._watch.heard_at = now
        count = self._follow(raws)
        if count < len(raws):
            raws = raws[:count]
            size = size_of(raws)
        self._buffer.add(raws, size)
        if raws:
            self._readable.notify()
        return count

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            if timer is not Timer.HEARTBEAT:
                self._handle_timer(timer, now)
            elif self._watch.is_silent(now, self._patience):
                self._silent(self._watch.is_new_silence(), now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in monotonic seconds. None: no timer runs."""
        return self._timers.next()

    # -- what a subclass decides ---------------------------------------------------------------------------------------

    def _follow(self, raws: Sequence[RawMsg]) -> int:
        """How many of these, from the front, are simply the next ones. They count as delivered."""
        return len(raws) if self._seen is None else self._seen.count_in_sequence([raw[1] for raw in raws])

    def _inspect(self, message: Msg, reply: bytes, now: float) -> bool:
        """Whether to keep a message that is not simply the next one. ``reply``: its reply subject."""
        raise NotImplementedError

    def _broken(self, broken: SequenceGap, now: float) -> None:
        """A heartbeat has shown that deliveries were lost, or that the consumer counts anew."""
        raise NotImplementedError

    def _silent(self, first: bool, now: float) -> None:
        """Nothing has come for ``patience`` seconds. ``first``: it is the first alarm of this silence."""
        raise NotImplementedError

    def _refused(self, error: Error, now: float) -> None:
        """A status came that ends the subscription, or this consumer: ``error`` says why."""
        raise NotImplementedError

    def _overflow(self, size: int, now: float) -> None:
        """A message of ``size`` bytes found no room in the buffer."""
        self.dropped += 1
        if not self._full:
            self._full = True
            self._outbox.emit(SlowConsumer(self.subject, self.dropped))

    def _after_taking(self, taken: list[RawMsg], now: float) -> None:
        """The application has asked for messages, and got those that were ``taken``."""
        self._full = False

    def _handle_timer(self, timer: Timer, now: float) -> None:
        """A timer of the subclass is due."""

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _take(self, most: int, now: float) -> list[RawMsg]:
        """Take up to ``most`` buffered messages, oldest first."""
        flow = self._flow
        if flow.markers:
            most = flow.answer_reached(most)
        raws = self._buffer.take(most)
        flow.taken += len(raws)
        self._after_taking(raws, now)
        return raws

    def _listen(self, now: float) -> None:
        """From now on silence counts."""
        self._flow.link_restored()
        if self._patience:
            self._watch.start(now, self._patience)
        self._outbox.rearm(self)

    def _ignore(self, reason: str) -> None:
        self._outbox.emit(UnexpectedMessage(self.subject, reason))

    def _finish(self, error: Error) -> None:
        """No message will come any more."""
        if self.error is not None:
            return
        self.error = error
        self._watch.stop()
        self._outbox.rearm(self)
        self._readable.fail(error)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _receive_status(self, message: Msg, header: bytes, now: float) -> None:
        try:
            status = status_line(header)
            assert status is not None  # ``receive`` has seen that the block has one
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
        self._compare_heartbeat(header, now)

    def _compare_heartbeat(self, header: bytes, now: float) -> None:
        """Whether all deliveries that a heartbeat counts have come."""
        last = last_value(header, b"Nats-Last-Consumer")
        if last is not None and self._seen is not None:
            if not last.isdigit() or len(last) > MAX_DIGITS:
                raise RemoteProtocolError("a heartbeat whose Nats-Last-Consumer is no number", last)
            broken = self._seen.heartbeat(int(last))
            if broken is not None:
                self._broken(broken, now)

    def _mark(self, subject: bytes) -> None:
        self._flow.mark(subject, len(self._buffer))
        if self._flow.markers and self._readable.pending is not None:  # the reader waits
            self._flow.answer_reached(0)
