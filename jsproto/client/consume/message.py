"""Messages of consumers, and how they are acknowledged (ADR-15).

Rules:

* An acknowledgement goes to the ack reply subject as it came, whatever its version.
* The subject is parsed when its parts are asked for. Delivery compares its start only.
* The first terminal acknowledgement that was sent (``ack``, ``nak``, ``term``) settles a message.
* An acknowledgement of a settled message, or under the policy "none", is passed over.
* An acknowledgement raises only if it is unsendable.
* Many messages are acknowledged in one write.
* Work in progress (``start_working``) is reported three times within the ack wait, so that the server does not
  deliver the message again.

Not here: how messages come (``pull``, ``push``), which of them were lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from jsproto.client.connection.requests import Requests, RetryPolicy
from jsproto.client.consume.retry import PROGRESS_ROOM
from jsproto.errors import (
    Error,
    LocalProtocolError,
    NoRespondersError,
    NotJSMessageError,
    OutboundBufferLimitError,
    WrongTypeError,
)
from jsproto.grammar.bodies import decode_json
from jsproto.grammar.headers import NO_HEADERS, Headers
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
DEFAULT_ACK_WAIT: Final = 30.0  # seconds, the default of nats-server
PROGRESSES: Final = 3  # reports of work in progress within one ack wait
ACK_AGAIN: Final = RetryPolicy(-1, 0.1)
"""An acknowledgement that nobody takes is sent again: an election is the likely reason, and takes a second or so."""
SMALL: Final = 256  # bytes that no server refuses as too large, unlike a reason of any length


class ConsumerMsg:
    """A message as a consumer delivered it. ``metadata`` and ``headers`` are parsed at each access."""

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
        """The subject that acknowledgements go to. Streams drop a publisher's reply subject."""
        return self._raw[1].decode("utf-8", "surrogateescape")

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._raw[3]

    def json(self) -> Any:
        """The payload as JSON.

        Raises:
            NotJSONError: it is none.
        """
        return decode_json(self.data, self.subject)

    @property
    def headers(self) -> Headers:
        """The headers, empty for a plain message.

        Raises:
            RemoteProtocolError: the header block is malformed.
        """
        header = self._raw[2]
        return NO_HEADERS if header is None else Headers.parse(header)

    @property
    def metadata(self) -> JSAck:
        """What the ack reply subject says: stream, consumer, sequences, time, how often it was delivered.

        Raises:
            NotJSMessageError: the message did not come from JetStream.
        """
        return parse_jsack(self._raw[1])

    @property
    def settled(self) -> bool:
        """Whether further acknowledgements are passed over: a terminal one was sent, or the policy is "none"."""
        return self._acker is None


D = TypeVar("D", bound=ConsumerMsg)


class JSMsg(ConsumerMsg):
    """A message of a consumer, with the verbs that acknowledge it, for programs that drive the core themselves.

    Each verb skips a settled message.

    Raises, in each verb:
        OutboundBufferLimitError: the outbox has no room.
        ConnectionClosedError: the connection has ended.
        LocalProtocolError: an argument is out of range.
    """

    __slots__ = ()

    def ack(self) -> None:
        """Acknowledge: the message is done."""
        send_ack(self, ACK)

    def nak(self, delay: Duration | None = None) -> None:
        """Ask for another delivery, at once or after ``delay`` (seconds, or a timedelta)."""
        send_ack(self, nak(delay))

    def term(self, reason: str | None = None) -> None:
        """End the deliveries of a message that stays undone. A server that is killed may forget that.

        ``reason``: a text for the server's advisory.
        """
        send_ack(self, term(reason))

    def in_progress(self) -> None:
        """Report work in progress: the server waits another ack wait before it delivers the message again."""
        if self._acker is not None:
            self._acker.in_progress(self)

    def ack_sync(self, *, now: float, timeout: float) -> Ticket[None]:
        """Acknowledge, and wait up to ``timeout`` seconds for the server's confirmation (``message.ack_sync``)."""
        return ack_sync(self, now, timeout)


class Acker(Conversation, Generic[D]):
    """Makes the messages of one consumer and sends their acknowledgements.

    Attributes:

    * ``message_class``: the class of the messages.
    * ``facade``: an object of the driver that the methods of that class need. The core hands it on.
    * ``wants_acks``: whether the consumer wants acknowledgements.
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
        facade: object = None,
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
        """Make a message of each of ``raws``: subject, reply subject, header block, payload.

        An ``__init__`` would double the cost of a message, so the two fields are set from here.

        Benchmark rows: ``fetch-ack``, ``ordered-push``.
        """
        kind: type[D] = self.message_class
        acker = self if self.wants_acks else None
        made: list[D] = []
        append = made.append
        for raw in raws:
            message = kind()
            message._raw = raw
            message._acker = acker
            append(message)
        return made

    def message(self, raw: Msg) -> D:
        """Make a message of one that another client library has received."""
        return self.messages([(raw.subject, raw.reply or b"", raw.header, raw.payload)])[0]

    def ack_many(self, messages: Iterable[ConsumerMsg]) -> int:
        """Acknowledge the unsettled ones among these, in one write. Returns how many that were.

        Raises, with nothing sent and no message settled:
            WrongTypeError: one is no message of a consumer.
            OutboundBufferLimitError: the outbox has no room.
            ConnectionClosedError: the connection has ended.
        """
        messages = list(messages)
        try:
            replies = [message._raw[1] for message in messages if message._acker is not None]
        except AttributeError:
            raise WrongTypeError(f"messages must be some messages of a consumer, not {messages!r:.100}") from None
        if replies:
            self._send(replies, ACK)
            self._outbox.flush()
            for message in messages:
                message._acker = None
        return len(replies)

    def in_progress(self, message: ConsumerMsg) -> None:
        """Report once that ``message`` is being worked on.

        Raises:
            OutboundBufferLimitError: the outbox has no room.
            ConnectionClosedError: the connection has ended.
        """
        self._send([message._raw[1]], PROGRESS)
        self._outbox.flush()

    def start_working(self, message: ConsumerMsg, now: float) -> None:
        """Report that ``message`` is being worked on, now and repeatedly, until it is settled or ``stop_working``.

        Raises:
            OutboundBufferLimitError: the outbox has no room for the first report.
            ConnectionClosedError: the connection has ended.
        """
        if message._acker is not None:
            self.in_progress(message)
            self._working.set(message, now + self._interval)
            self._outbox.rearm(self)

    def stop_working(self, message: ConsumerMsg) -> None:
        """End the reports about ``message``."""
        self._working.set(message, None)
        self._outbox.rearm(self)

    def report_from(self, message: ConsumerMsg, when: float) -> None:
        """``start_working``, with the first report at ``when``, in monotonic seconds."""
        if message._acker is not None:
            self._working.set(message, when)
            self._outbox.rearm(self)

    def receive(self, message: Msg, now: float) -> None:
        """An acker lives without subscriptions: this stays unused."""

    def handle_timeout(self, now: float) -> None:
        """Report the messages that are being worked on, if their time has come."""
        for message in self._working.due(now):
            if message._acker is None:
                continue
            try:
                self.in_progress(message)
            except OutboundBufferLimitError:
                self._working.set(message, now + min(PROGRESS_ROOM, self._interval))
            except LocalProtocolError:  # the connection has ended: no report can be sent
                continue
            else:
                self._working.set(message, now + self._interval)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When the next report is due, in monotonic seconds. None: no message is being worked on."""
        return self._working.next()

    def _send(self, replies: Sequence[bytes], payload: bytes) -> None:
        if len(payload) <= SMALL:
            self._outbox.publish_replies(replies, payload)
        else:
            for reply in replies:
                self._outbox.publish(reply.decode("utf-8", "surrogateescape"), payload)


class WorkAcker(Acker[D]):
    """An acker for messages that are worked on in the order of their keys: it knows which of them come again.

    Attribute: ``naks`` (by ack reply subject: the payload of the nak that was sent).
    """

    __slots__ = ("naks",)

    def __init__(
        self,
        outbox: Outbox,
        requests: Requests,
        message_class: type[D],
        *,
        wants_acks: bool = True,
        ack_wait: float = DEFAULT_ACK_WAIT,
        facade: object = None,
    ) -> None:
        super().__init__(outbox, requests, message_class, wants_acks=wants_acks, ack_wait=ack_wait, facade=facade)
        self.naks: dict[bytes, bytes] = {}

    def adopt(self, message: ConsumerMsg) -> None:
        """Acknowledgements of ``message`` go through this acker from now on."""
        if message._acker is not None:
            message._acker = self

    def nak_many(self, messages: Iterable[ConsumerMsg]) -> int:
        """Ask for another delivery of the unsettled ones among these, in one write. Their work has yet to begin.

        Returns how many that were. Raises: as ``ack_many``.
        """
        messages = [message for message in messages if message._acker is not None]
        if messages:
            super()._send([message._raw[1] for message in messages], NAK)
            self._outbox.flush()
            for message in messages:
                message._acker = None
        return len(messages)

    def _send(self, replies: Sequence[bytes], payload: bytes) -> None:
        if payload is ACK:  # most of them
            self._outbox.publish_replies(replies, payload)
            return
        super()._send(replies, payload)
        if payload.startswith(NAK):
            self.naks.update(dict.fromkeys(replies, payload))


def nak(delay: Duration | None = None) -> bytes:
    """The payload that asks for another delivery after ``delay`` (seconds, or a timedelta).

    Raises:
        LocalProtocolError: ``delay`` is negative, or no duration.
    """
    wait = 0 if delay is None else nanoseconds(delay, "delay")
    return b'-NAK {"delay":%d}' % wait if wait else NAK


def nak_delay(payload: bytes) -> float:
    """The seconds of delay in a payload that ``nak`` made."""
    return 0.0 if payload == NAK else int(payload[len(b'-NAK {"delay":') : -1]) / 1e9


def term(reason: str | None = None) -> bytes:
    """The payload that ends the deliveries, with a text for the advisory. WrongTypeError: it is no text."""
    if reason is not None and not isinstance(reason, str):
        raise WrongTypeError(f"reason must be a str, or None, not {reason!r:.100}")
    return TERM if not reason else b"%b %b" % (TERM, reason.encode())


def send_ack(message: ConsumerMsg, payload: bytes) -> None:
    """Send a terminal acknowledgement, unless ``message`` is settled."""
    acker = message._acker
    if acker is not None:
        acker._send([message._raw[1]], payload)
        message._acker = None


def ack_sync(message: ConsumerMsg, now: float, timeout: float) -> Ticket[None]:
    """Acknowledge. The ticket completes when the server has answered, and at once when ``message`` is settled.

    The answer settles the message. ``timeout``: seconds for the answer. Under the policy "none" servers stay silent, so
    the message counts as settled from the start. Where it finds a leaderless consumer, as in an election, it is sent
    again until its time is over.

    The ticket fails with:
        TimeoutError: there was no answer in time.
        NoRespondersError: in all that time nobody took it: the consumer has no leader, or does not exist any more.
        PermissionsViolationError: the user may not acknowledge.
    """
    acker = message._acker
    if acker is None:
        ticket: Ticket[None] = Ticket()
        ticket.succeed(None)
        return ticket

    def answered(_: Msg) -> None:
        message._acker = None

    return acker._requests.request(
        message.reply, ACK, timeout=timeout, now=now, decode=answered, no_responders=_nobody_leads, retry=ACK_AGAIN
    )


def is_ack_of(subject: str, stream: str, consumer: str) -> bool:
    """Whether a message to ``subject`` acknowledges one of ``consumer`` of ``stream``."""
    try:
        said = parse_jsack(subject.encode("utf-8", "surrogateescape"))
    except NotJSMessageError:
        return False
    return (said.stream, said.consumer) == (stream, consumer)


def _nobody_leads(subject: str) -> Error:
    return NoRespondersError(subject, "the consumer has no leader now, or does not exist any more")
