"""A push consumer's subscriber: what it delivers, an eye on the consumer, and its end (ADR-15).

Rules:

* A gap in the consumer's count, a restart of the count, and a silence of three heartbeats are events.
* A lost message that wants an acknowledgement is delivered again by the server.
* A member of a queue group is blind to what is missing, so gaps count outside of groups alone.
* A push consumer that is deleted falls silent. So the server is asked for a silent consumer.
* The subscription ends when the consumer is gone, or delivers to another subject.
* Where heartbeats are off, as in queue groups, silence is normal. The consumer is asked for after ``CHECK_AFTER``
  seconds.
* The end of a subscription deletes the consumer if the subscription created it and has it to itself.
* A drained subscription deletes it after the application has taken all and asks for more.

Not here: finding or creating the consumer (``subscribe``), the buffer and the statuses (``push_buffer``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeVar, Unpack

from jsproto.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.consume.consume_options import PushOptions
from jsproto.client.consume.consumers import Consumers
from jsproto.client.consume.message import NAK, Acker, ConsumerMsg, is_ack_of, send_ack
from jsproto.client.consume.push_buffer import PushBuffer
from jsproto.errors import (
    ConfigMismatchError,
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    NotJSMessageError,
    PermissionsViolationError,
)
from jsproto.events import ConsumerNotDeleted, ConsumerRestarted, ConsumerSilent, DeliveriesLost
from jsproto.grammar.consumer import ConsumerInfo
from jsproto.grammar.jsack import ACK_PREFIX
from jsproto.grammar.options import checked
from jsproto.rules.sequence_gaps import UNKNOWN, DeliverySequence, SequenceGap
from jsproto.ticket import Ticket
from jsproto.timers import Timer
from jsproto.wire.frames import Msg, RawMsg

D = TypeVar("D", bound=ConsumerMsg)

CHECK_AFTER: Final = 15.0  # seconds of silence until a consumer without heartbeats is asked for
DRAIN_TIMEOUT: Final = 30.0  # seconds in which what a drained subscription has buffered is to be taken


class PushConsumer(PushBuffer[D]):
    """One subscription to a push consumer. Made by ``JetStream.subscribe``.

    Attributes, besides those of ``PushBuffer``:

    * ``owned``: its end deletes the consumer.
    * ``info``: the consumer as the server described it when the subscription was made. None before.
    """

    __slots__ = ("_deletion", "_deliver_subject", "_draining", "_is_alarm", "_js", "_session", "_sid", "info", "owned")

    def __init__(
        self,
        js: Consumers,
        acker: Acker[D],
        *,
        deliver_subject: str,
        queue: str | None,
        created: bool,
        stream: str,
        consumer: str,
        subject: str,
        idle_heartbeat: float,
        now: float,
        **options: Unpack[PushOptions],
    ) -> None:
        """Subscribe to ``deliver_subject``, in the group ``queue`` if given.

        ``created``: the consumer is new, so its first delivery is number 1. ``idle_heartbeat``: seconds, 0 for none.
        """
        asked = checked(PushOptions, options)
        super().__init__(
            js.session, acker, stream=stream, consumer=consumer, subject=subject,
            patience=idle_heartbeat * asked["heartbeats_missed"], now=now, limits=asked, raw=asked["raw"],
        )  # fmt: skip
        self.owned = False
        self.info: ConsumerInfo | None = None
        self._deliver_subject = deliver_subject
        self._is_alarm = self._patience > 0  # silence is an event
        if not (self._patience or self._raw):
            self._patience = CHECK_AFTER
        self._js = js
        self._session = js.session
        self._draining = False
        self._deletion: Ticket[None] | None = None
        if queue is not None:
            self._seen = None
        elif not created and self._seen is not None:
            self._seen = DeliverySequence(UNKNOWN)
        self._sid = js.session.subscribe(deliver_subject, self, queue)

    def bound(self, info: ConsumerInfo, *, owned: bool, now: float) -> None:
        """The consumer exists, as ``info`` describes it. ``owned``: the end of the subscription deletes it."""
        self.info = info
        self.consumer = info.name
        self.owned = owned
        if self.error is None:
            self._listen(now)

    # -- its end -------------------------------------------------------------------------------------------------------

    def unsubscribe(self, now: float) -> Ticket[None]:
        """End it at once. What is buffered can still be taken.

        The ticket completes when the consumer is deleted, or at once if somebody else owns it. A consumer that is gone
        already counts as deleted.

        The ticket fails with:
            Error: why the consumer cannot be deleted.
        """
        self._leave(ConnectionClosedError("the subscription was closed"))
        if self._deletion is None:
            self._deletion = self._session.run(self._delete(now))
        return self._deletion

    def abandon(self, now: float) -> None:
        """As in ``Live``. A consumer with a given name stays, and what has come is given back to it by naks."""
        self.owned = self.owned and self.info is not None and self.info.config.durable_name is None
        try:
            for message in self.acker.messages(self._buffer.take(self.pending_msgs)):
                send_ack(message, NAK)
        except LocalProtocolError:
            pass  # no room, or the connection has ended: the server waits for ``ack_wait``
        self.unsubscribe(now)

    def drain(self, now: float) -> Ticket[None]:
        """End it. The ticket completes when all the server had sent is buffered, and can be taken.

        An owned consumer is deleted when the application asks for more after the last message. That is done
        no later than ``DRAIN_TIMEOUT`` seconds from now. If it cannot be deleted, ConsumerNotDeleted is emitted.
        """
        if self.error is None:
            self._timers.set(Timer.DRAINED, now + DRAIN_TIMEOUT)
            self._session.rearm(self)
        return self._session.drain(now, [self])

    def end_interest(self) -> None:
        """First half of a drain: the server is to stop sending."""
        self._session.end_interest(self._sid)

    def end_drain(self, now: float, closing: bool) -> Ticket[None] | None:
        """Second half of a drain. ``closing``: the consumer is deleted now or never. Returns the ticket of that."""
        asked = self._readable.pending is not None
        self._session.forget(self._sid)
        self._draining = True
        self._finish(ConnectionClosedError("the subscription was drained"))
        if closing or (asked and not self._buffer):
            self._delete_quietly(now)
        return self._deletion

    # -- inputs --------------------------------------------------------------------------------------------------------

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The user is forbidden to receive, to acknowledge, or to answer flow control: the subscription ends."""
        subject = violation.subject
        is_ours = self._flow.has_answered(subject) or is_ack_of(subject, self.stream, self.consumer)
        if violation.operation == "subscribe" or is_ours:
            self._leave(violation)

    def link_lost(self, error: Error, now: float) -> None:
        """The next message comes on a new link. If the session has ended, the subscription ends."""
        if self._session.closed:
            self._finish(error)
        else:
            self._watch.stop()
            self._session.rearm(self)

    def crashed(self, error: Error, now: float) -> None:
        """The subscription ends with ``error``."""
        self._finish(error)

    def link_restored(self, now: float) -> None:
        """Expect heartbeats again. What was lost is seen in the next message or heartbeat."""
        if self.info is not None and self.error is None:
            self._listen(now)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _inspect(self, message: Msg, reply: bytes, now: float) -> bool:
        seen = self._seen
        try:
            if seen is None:
                if not reply.startswith(ACK_PREFIX):
                    raise NotJSMessageError(f"not an ack reply subject of JetStream: {reply[:256]!r}")
            elif (broken := seen.delivered(reply)) is not None:
                self._broken(broken, now)
        except NotJSMessageError as error:
            self._ignore(str(error))
            return False
        return True

    def _broken(self, broken: SequenceGap, now: float) -> None:
        stream, consumer, expected, found = self.stream, self.consumer, broken.expected, broken.found
        if broken.restarted:
            self._session.emit(ConsumerRestarted(stream, consumer, expected, found))
        else:
            self._session.emit(DeliveriesLost(stream, consumer, expected, found - 1))

    def _silent(self, first: bool, now: float) -> None:
        if first and self._is_alarm:
            self._session.emit(ConsumerSilent(self.stream, self.consumer, now - self._watch.heard_at))
        self._session.run(self._check_consumer(now))

    def _refused(self, error: Error, now: float) -> None:
        self._leave(error)

    def _after_taking(self, taken: list[RawMsg], now: float) -> None:
        super()._after_taking(taken, now)
        if self._draining and not taken:
            self._delete_quietly(now)

    def _handle_timer(self, timer: Timer, now: float) -> None:
        self._delete_quietly(now)

    def _leave(self, error: Error) -> None:
        if self.error is None:
            self._session.unsubscribe(self._sid)
            self._finish(error)

    def _delete_quietly(self, now: float) -> None:
        if self._deletion is None:
            self._deletion = self._session.run(self._delete_or_report(now))

    # -- scripts -------------------------------------------------------------------------------------------------------

    def _check_consumer(self, now: float) -> Generator[Ticket[Any], Any, None]:
        """Ask whether the consumer is still there, and delivers to this subscription."""
        try:
            info = yield self._js.consumer_info(self.stream, self.consumer, now=now)
            if info.config.deliver_subject != self._deliver_subject:
                self.owned = False
                self._leave(ConfigMismatchError(self.stream, self.consumer, ["deliver_subject"]))
        except (ConsumerNotFoundError, StreamNotFoundError) as gone:
            self.owned = False
            self._leave(gone)
        except PermissionsViolationError:
            if not self._is_alarm:  # each attempt would be refused, and reported
                self._patience = 0.0
                self._watch.stop()
        except Error:  # nobody can say: it will be asked again
            pass

    def _delete(self, now: float) -> Generator[Ticket[Any], Any, None]:
        if not self.owned or self._session.closed:
            return
        self._timers.stop(Timer.DRAINED)
        self._session.rearm(self)
        try:
            yield self._js.delete_consumer(self.stream, self.consumer, now=now)
        except (ConsumerNotFoundError, StreamNotFoundError):
            return  # somebody else was quicker

    def _delete_or_report(self, now: float) -> Generator[Ticket[Any], Any, None]:
        try:
            yield from self._delete(now)
        except Error as error:
            self._session.emit(ConsumerNotDeleted(self.stream, self.consumer, error))
