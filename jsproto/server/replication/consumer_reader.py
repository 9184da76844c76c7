"""Reading a stream by a durable consumer of it: asked for, followed, and acknowledged by flow control.

Rules, those of nats-server 2.15.1 (FACTS.md F4.32, F4.34):

* First the consumer is asked for, then its deliver subject is subscribed to.
* What is stored is acknowledged when the consumer asks for flow control.
* Messages up to the position are not copied again. They count as delivered.
* Consumer sequences have no gap. After one, nothing is taken until the consumer was asked for again. What was stored
  before is acknowledged.
* A heartbeat that names another consumer sequence is a gap too.
* The consumer is asked for at most once in ``RETRY_DELAY``, plus a pause that grows with failures.
* After ``SILENCE`` without a message or a heartbeat it is asked for again, which makes a deleted one anew.
* A consumer of the user's that does not answer is asked again as soon as it delivers something.

Not here: what stores the copies (``progress``), the requests (``consumer_requests``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import APIError, LocalProtocolError, NotJSMessageError, RemoteProtocolError
from jsproto.grammar.api import decode_response
from jsproto.grammar.consumer import ConsumerInfo
from jsproto.grammar.decimals import NO_NUMBER, saturated
from jsproto.grammar.headers import STATUS_START, STREAM_IDENTITY, encode_headers, first_value
from jsproto.grammar.jsack import JSAck, parse_jsack
from jsproto.outbox import Conversation, Outbox
from jsproto.server.replication.consumer_requests import ConsumerRequests
from jsproto.server.replication.progress import RETRY_DELAY, SETUP_DELAY, Progress, Writer
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Stored
from jsproto.wire.frames import Msg

FAILURE_DELAY: Final = 10.0
LONGEST_DELAY: Final = 120.0
"""Seconds by which each failure delays the next request, and by how much they do at most."""
SILENCE: Final = 10.0
"""Seconds without a sign of life after which the consumer is asked for again."""
CREATION_TIME: Final = 30.0
RESET_TIME: Final = 5.0
"""Seconds in which the answer to a request has to come."""

_SECOND: Final = 1_000_000_000
_STALLED: Final = b"Nats-Consumer-Stalled"
_CONTROL: Final = STATUS_START + b"100 "


class ConsumerReader(Conversation):
    """Copies what a durable consumer of one stream delivers.

    Attributes: ``consumer`` (the name of the consumer that answered last, None before that).
    """

    __slots__ = (
        "_asked_at",
        "_consumer_seq",
        "_context",
        "_failures",
        "_inbox",
        "_outbox",
        "_probe",
        "_progress",
        "_requests",
        "_sid",
        "_writer",
        "consumer",
    )  # fmt: skip

    def __init__(
        self, requests: ConsumerRequests, progress: Progress, writer: Writer, context: ServerContext, outbox: Outbox
    ) -> None:
        """Read from ``begin`` on. ``progress`` is kept up to date, ``writer`` stores the copies."""
        self.consumer: str | None = None
        self._requests = requests
        self._progress = progress
        self._writer = writer
        self._context = context
        self._outbox = outbox
        self._asked_at = 0.0
        self._consumer_seq = 0
        self._failures = 0
        # The subscriptions, 0 for none: to the answer, to the messages, to a sign of life of a silent consumer.
        self._inbox = self._sid = self._probe = 0

    @property
    def is_idle(self) -> bool:
        """Whether it neither waits for an answer nor follows a consumer."""
        return not (self._inbox or self._sid)

    def begin(self, now: float) -> None:
        """Ask for the consumer. ``now``: seconds, as in every method here."""
        self.stop()
        self._asked_at = now
        request = self._requests.begin(self._progress.position, self._progress.identity)
        reply = f"$JSC.R.{self._context.next_id()[:8]}"
        self._inbox = self._outbox.subscribe(reply, self)
        self._outbox.publish(request.subject, request.payload, reply.encode(), request.header)

    def stop(self) -> None:
        """Follow nothing any more. The consumer stays, and so does the position."""
        for sid in (self._inbox, self._sid, self._probe):
            self._outbox.unsubscribe(sid)
        self._inbox = self._sid = self._probe = 0

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: nothing is due by time alone."""
        if self._inbox:
            return self._asked_at + (CREATION_TIME if self._requests.deliver_subject is None else RESET_TIME)
        if self._sid and self._progress.due_at is None:
            return (self._progress.heard_at or 0.0) + SILENCE
        return None

    def handle_timeout(self, now: float) -> None:
        """Give up waiting for an answer, or for a sign of life. Extra calls are harmless."""
        when = self.deadline()
        if when is None or when > now:
            return
        if self._inbox:
            self.stop()
            self._fail(None, now)
            if self._requests.deliver_subject is not None:
                self._probe = self._outbox.subscribe(self._requests.deliver_subject, self)
        else:
            self._ask_later(now)

    def receive(self, message: Msg, now: float) -> None:
        """Take an answer, a message of the consumer, or a sign of life of one."""
        sid = int(message.sid)
        if sid == self._inbox:
            self._receive_answer(message, now)
        elif sid == self._probe:
            self._failures = 0
            self._outbox.unsubscribe(sid)
            self._probe = 0
            self._ask_later(now)
        elif sid == self._sid:
            self._progress.heard_at = now
            is_control = not message.payload and (message.header or b"").startswith(_CONTROL)
            if self._progress.due_at is not None:
                if is_control and self._consumer_seq:
                    self._acknowledge(message)
            elif not is_control:
                self._receive_message(message, now)
            elif message.reply is not None:
                self._acknowledge(message)
            else:
                self._receive_heartbeat(message.header or b"", now)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _ask_later(self, now: float) -> None:
        """Ask for the consumer again, when that is due."""
        pause = min(self._failures * FAILURE_DELAY, LONGEST_DELAY)
        self._progress.due_at = max(now, self._asked_at + RETRY_DELAY) + pause + SETUP_DELAY

    def _fail(self, error: APIError | None, now: float) -> None:
        self._failures += 1
        self._progress.error = error
        self._ask_later(now)

    def _receive_answer(self, message: Msg, now: float) -> None:
        """Follow the consumer, or find out why not. An answer that is none is ignored."""
        progress, requests = self._progress, self._requests
        try:
            info = ConsumerInfo.from_json(decode_response(message.payload))
            deliver_subject = requests.deliver_subject or info.config.deliver_subject or ""
            if info.config.ack_policy != "flow_control":
                raise refusal(10214 if requests.is_mirror else 10217)
            sid = self._outbox.subscribe(deliver_subject, self)
        except APIError as error:
            self.stop()
            if error.err_code == 10225:  # another stream has the name now
                progress.position, progress.identity = 0, ""
                self._ask_later(now)
            else:
                self._fail(error, now)
            return
        except (LocalProtocolError, RemoteProtocolError):
            return
        self._outbox.unsubscribe(self._inbox)
        self._inbox, self._sid = 0, sid
        self._failures = 0
        self._consumer_seq = 0
        self.consumer = info.name
        identity = (first_value(message.header or b"", STREAM_IDENTITY.encode()) or b"").decode("utf-8", "replace")
        if identity and progress.identity not in ("", identity):
            progress.position = 0
        progress.identity = identity
        progress.position = self._writer.prepare(max(progress.position, info.delivered.stream_seq))
        progress.heard_at = now

    def _acknowledge(self, message: Msg) -> None:
        """Say what is stored, if a request for flow control, or a heartbeat, asks for it."""
        subject = message.reply or first_value(message.header or b"", _STALLED)
        pair = {"Nats-Last-Consumer": str(self._consumer_seq), "Nats-Last-Stream": str(self._progress.position)}
        if subject:
            self._answer(subject, encode_headers(pair))

    def _receive_heartbeat(self, header: bytes, now: float) -> None:
        """Compare a heartbeat with what came, and let a stalled consumer go on."""
        if saturated(first_value(header, b"Nats-Last-Consumer")) not in (0, NO_NUMBER, self._consumer_seq):
            self._ask_later(now)
            return
        stalled = first_value(header, _STALLED)
        if stalled:
            self._answer(stalled, None)

    def _answer(self, subject: bytes, header: bytes | None) -> None:
        """Answer flow control. What is no subject is dropped."""
        try:
            self._outbox.publish(subject.decode("utf-8", "surrogateescape"), b"", None, header)
        except LocalProtocolError:
            return

    def _receive_message(self, message: Msg, now: float) -> None:
        """Copy a message that is the next one."""
        try:
            ack = parse_jsack(message.reply or b"")
        except NotJSMessageError:
            return
        progress = self._progress
        seq, consumer_seq = ack.sequence.stream, ack.sequence.consumer
        is_next = consumer_seq == self._consumer_seq + 1
        if ack.consumer != self.consumer or ack.num_delivered > 1:
            return
        if seq <= progress.position:
            self._consumer_seq += is_next
            return
        if not is_next and not (self._requests.is_mirror and seq == progress.position + 1):
            self._ask_later(now)
            return
        progress.lag = max(0, ack.num_pending - 1)
        if not self._writer.write(self._stored(message, ack), now):
            self._ask_later(now)
            return
        self._consumer_seq = consumer_seq
        progress.position = progress.copied = seq

    def _stored(self, message: Msg, ack: JSAck) -> Stored:
        """The message as its origin has it."""
        arrived = (ack.timestamp - self._context.epoch) / _SECOND
        return Stored(ack.sequence.stream, message.subject, message.header, message.payload, ack.timestamp, arrived)
