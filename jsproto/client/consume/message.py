"""Messages of consumers, and how they are acknowledged (ADR-15).

Rules: the ack reply subject is used as it came, whatever its version. What it says is parsed when asked: delivery
costs one comparison of its start. The first terminal acknowledgement that was sent (``ack``, ``nak``, ``term``) settles
a message; whatever is asked of it afterwards is passed over silently, and so is every acknowledgement under the policy
"none". Nothing is raised unless the acknowledgement cannot be sent. Many messages are acknowledged in one write.

A message that is being worked on (``start_working``) is reported as such at a third of the time after which the server
would deliver it again.

Not here: how messages come (``pull``, ``push``), which of them were lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from jsproto.client.connection.requests import Requests
from jsproto.errors import Error, LocalProtocolError, NoRespondersError, OutboundBufferLimitError
from jsproto.grammar.headers import Headers
from jsproto.grammar.jsack import JSAck, parse_jsack
from jsproto.grammar.times import Duration, nanoseconds
from jsproto.outbox import Conversation, Outbox, bulk
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines
from jsproto.wire.frames import Msg, RawMsg

ACK: Final = b"+ACK"
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"
TERM: Final = b"+TERM"
DEFAULT_ACK_WAIT: Final = 30.0  # seconds; nats-server's
PROGRESSES: Final = 3  # reports of work in progress within one ack wait
SMALL: Final = 256  # bytes that no server refuses as too large; a reason can be any length
RETRY_PROGRESS: Final = 0.02  # seconds; when the outbox has no room for a report


class ConsumerMsg:
    """A message as a consumer delivered it.

    ``metadata`` and ``headers`` are parsed when asked for; everything else is there.
    """

    __slots__ = ("_acker", "_raw")

    _acker: Acker[Any] | None
    _raw: RawMsg  # subject, reply, header block, payload

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.subject!r} {len(self._raw[3])} bytes>"

    @property
    def subject(self) -> str:
        """The subject it was published to."""
        return self._raw[0].decode("utf-8", "surrogateescape")

    @property
    def reply(self) -> str:
        """Where acknowledgements go. It is not the publisher's reply subject, which streams do not keep."""
        return self._raw[1].decode("utf-8", "surrogateescape")

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._raw[3]

    @property
    def headers(self) -> Headers:
        """The headers, empty when it has none. RemoteProtocolError when the block is malformed."""
        header = self._raw[2]
        return Headers() if header is None else Headers.parse(header)

    @property
    def metadata(self) -> JSAck:
        """What the ack reply subject says: stream, consumer, sequences, time, how often it was delivered.

        NotJSMessageError when it says nothing: the message did not come from JetStream.
        """
        return parse_jsack(self._raw[1])

    @property
    def settled(self) -> bool:
        """Whether acknowledgements are passed over: a terminal one was sent, or the consumer wants none."""
        return self._acker is None


D = TypeVar("D", bound=ConsumerMsg)


class JSMsg(ConsumerMsg):
    """A message of a consumer, with the verbs that acknowledge it; for those who drive the core themselves.

    Each verb raises LocalProtocolError (OutboundBufferLimitError, ConnectionClosedError) when it cannot be sent.
    """

    __slots__ = ()

    def ack(self) -> None:
        """It is done with."""
        send_ack(self, ACK)

    def nak(self, delay: Duration | None = None) -> None:
        """Deliver it again, at once or after ``delay``: seconds, or a timedelta."""
        send_ack(self, nak(delay))

    def term(self, reason: str | None = None) -> None:
        """It is not to be delivered again, though it is not done. A server that is killed may forget that.

        ``reason`` is for the server's advisory.
        """
        send_ack(self, term(reason))

    def in_progress(self) -> None:
        """It is being worked on: do not deliver it again yet."""
        if self._acker is not None:
            self._acker.in_progress(self)

    def ack_sync(self, *, now: float, timeout: float) -> Ticket[None]:
        """Acknowledge, and hear from the server that it knows; see ``Acker.ack_sync``."""
        return ack_sync(self, now, timeout)


class Acker(Conversation, Generic[D]):
    """Makes the messages of one consumer and sends their acknowledgements.

    ``message_class`` is what messages are; ``facade`` is whatever that class needs to find its way.
    """

    __slots__ = (
        "_interval", "_outbox", "_requests", "_working", "facade", "message_class", "wants_acks",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        requests: Requests,
        message_class: type[D],
        *,
        wants_acks: bool = True,
        ack_wait: float = DEFAULT_ACK_WAIT,
        facade: Any = None,
    ) -> None:
        """``wants_acks``: False under the policy "none". ``ack_wait``: seconds until the server delivers again."""
        self.message_class = message_class
        self.wants_acks = wants_acks
        self.facade = facade
        self._outbox = bulk(outbox)
        self._requests = requests
        self._interval = ack_wait / PROGRESSES
        self._working: Deadlines[ConsumerMsg] = Deadlines()

    def messages(self, raws: Iterable[RawMsg]) -> list[D]:
        """The messages of the consumer that these are."""
        kind: type[D] = self.message_class
        acker = self if self.wants_acks else None
        made: list[D] = []
        append = made.append
        for raw in raws:
            message = kind()  # an __init__ would double the price
            message._raw = raw
            message._acker = acker
            append(message)
        return made

    def message(self, raw: Msg) -> D:
        """The message of the consumer that a client of another kind has received."""
        return self.messages([(raw.subject, raw.reply or b"", raw.header, raw.payload)])[0]

    def ack_many(self, messages: Iterable[ConsumerMsg]) -> int:
        """Acknowledge all of these that are not settled, in one write; returns how many that were.

        OutboundBufferLimitError or ConnectionClosedError with nothing sent and nothing settled.
        """
        messages = list(messages)
        replies = [message._raw[1] for message in messages if message._acker is not None]
        if replies:
            self._send(replies, ACK)
            self._outbox.flush()
            for message in messages:
                message._acker = None
        return len(replies)

    def in_progress(self, message: ConsumerMsg) -> None:
        """Say that ``message`` is being worked on."""
        self._send([message._raw[1]], PROGRESS)
        self._outbox.flush()

    def start_working(self, message: ConsumerMsg, now: float) -> None:
        """Say that ``message`` is being worked on, now and again and again, until it is settled or ``stop_working``."""
        if message._acker is not None:
            self.in_progress(message)
            self._working.set(message, now + self._interval)
            self._outbox.rearm(self)

    def stop_working(self, message: ConsumerMsg) -> None:
        """Say it no more."""
        self._working.set(message, None)
        self._outbox.rearm(self)

    def receive(self, message: Msg, now: float) -> None:
        """Nothing: it subscribes to nothing."""

    def handle_timeout(self, now: float) -> None:
        """Report what is being worked on."""
        for message in self._working.due(now):
            if message._acker is None:
                continue
            try:
                self.in_progress(message)
            except OutboundBufferLimitError:
                self._working.set(message, now + min(RETRY_PROGRESS, self._interval))
            except LocalProtocolError:  # the connection has ended: there is nobody to tell
                continue
            else:
                self._working.set(message, now + self._interval)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When the next report is due."""
        return self._working.next()

    def _send(self, replies: Sequence[bytes], payload: bytes) -> None:
        if len(payload) <= SMALL:
            self._outbox.publish_replies(replies, payload)
        else:
            for reply in replies:
                self._outbox.publish(reply.decode("utf-8", "surrogateescape"), payload)


def nak(delay: Duration | None = None) -> bytes:
    """The payload that asks for another delivery. LocalProtocolError for a delay that is none."""
    wait = 0 if delay is None else nanoseconds(delay, "delay")
    return b'-NAK {"delay":%d}' % wait if wait else NAK


def term(reason: str | None = None) -> bytes:
    """The payload that ends deliveries."""
    return TERM if not reason else b"%b %b" % (TERM, reason.encode())


def send_ack(message: ConsumerMsg, payload: bytes) -> None:
    """Send a terminal acknowledgement, unless ``message`` is settled."""
    acker = message._acker
    if acker is not None:
        acker._send([message._raw[1]], payload)
        message._acker = None


def ack_sync(message: ConsumerMsg, now: float, timeout: float) -> Ticket[None]:
    """Acknowledge; the ticket completes when the server has answered, and at once when ``message`` is settled.

    The message is settled by the answer. TimeoutError; NoRespondersError when the consumer is gone. Under the policy
    "none" there is nobody to ask, so nothing is sent.
    """
    acker = message._acker
    if acker is None:
        ticket: Ticket[None] = Ticket()
        ticket.succeed(None)
        return ticket

    def answered(_: Msg) -> None:
        message._acker = None

    return acker._requests.request(
        message.reply, ACK, timeout=timeout, now=now, decode=answered, no_responders=_consumer_gone
    )


def _consumer_gone(subject: str) -> Error:
    return NoRespondersError(subject, "the consumer of this message does not exist any more")
