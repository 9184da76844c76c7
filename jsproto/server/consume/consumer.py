"""One consumer: which messages of its stream go to whom, what is acknowledged, what is delivered again.

Rules: messages go out in the order of the stream, each once until it is due for redelivery, which goes before
everything new; never more than ``max_ack_pending`` are outstanding. A push consumer delivers while somebody subscribes
to its deliver subject, in its queue group if it has one; a pull consumer delivers to requests. What is deleted from the
stream is done with. Acknowledgements are read as nats-server 2.15.1 reads them (server facts, section 5): both versions
of their subjects count, whatever they say is answered, unless the message was not delivered yet.

It is a conversation: subscriptions bring it acknowledgements, flow-control answers and pull requests, the stream tells
it what is stored and removed, and whoever carries it tells (``prompt``) that interest has changed.

Not here: creating and deleting consumers (``api.consumers``), limits of bits per second, sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import loads
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, SequencePair
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.durations import format_duration, parse_duration
from jsproto.grammar.fields import as_integer
from jsproto.grammar.headers import appended, first_value
from jsproto.grammar.jsack import JSAck, Sequences, build_jsack
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Seconds, nanoseconds
from jsproto.outbox import Conversation, Outbox
from jsproto.rules.status import MAX_BATCH, MAX_BYTES, MAX_EXPIRES
from jsproto.server.consume import statuses
from jsproto.server.consume.advisories import Advisories
from jsproto.server.consume.cursor import Cursor
from jsproto.server.consume.flow_control import FlowControl
from jsproto.server.consume.priority import Priorities
from jsproto.server.consume.pull_requests import BadRequestError, PullRequest, PullRequests, read_request
from jsproto.server.consume.redelivery import PendingAcks
from jsproto.server.publish.checks import check_level
from jsproto.server.store.context import ACCOUNT_HASH, NO_DOMAIN, ServerContext
from jsproto.server.store.stream import Publication, Stored, Stream
from jsproto.wire.frames import Msg

_SECOND: Final = 1_000_000_000
_REPLAY_STEP: Final = 1_000_000  # nanoseconds: what is closer together is replayed at once
_ACK: Final = "$JS.ACK."
_FLOW: Final = "$JS.FC."
_DELETED: Final = "Message deleted by stream limits"


class ConsumerOutbox(Outbox, Protocol):
    """What a consumer needs of its server, beyond an outbox."""

    def deliver(self, inbox: str, message: Msg) -> None:
        """Send ``message``, whose subject is another one, to whoever subscribes to ``inbox``. BadSubjectError."""

    def hears(self, subject: str, queue: str | None = None) -> bool:
        """Whether anybody subscribes to ``subject``; with ``queue``, in that group."""

    def prompt(self, conversation: Conversation) -> None:
        """Call its ``handle_timeout`` as soon as what happens now is over."""


class Consumer(Conversation):
    """A consumer of one stream. ``created`` is nanoseconds since 1970; ``config`` is accepted (``settings``).

    Watches its stream. ``close`` ends it.
    """

    __slots__ = (
        "_acked_at",
        "_advisories",
        "_context",
        "_cursor",
        "_deliver_at",
        "_delivered_at",
        "_floor_consumer",
        "_floor_stream",
        "_flow",
        "_forget",
        "_has_more",
        "_heartbeat_at",
        "_is_active",
        "_is_paused",
        "_is_prompted",
        "_outbox",
        "_pending_acks",
        "_priorities",
        "_removed",
        "_replay_until",
        "_replayed",
        "_requests",
        "_seq",
        "_sids",
        "_stream",
        "_used_at",
        "config",
        "created",
        "name",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        stream: Stream,
        context: ServerContext,
        outbox: ConsumerOutbox,
        now: float,
        *,
        prefixes: Sequence[str],
        forget: Callable[[Consumer], None],
    ) -> None:
        """``prefixes``: of the JetStream API, with a dot. ``forget`` is called when it ends for want of use."""
        self.name = name
        self.config = config
        self.created = context.timestamp(now)
        self._stream = stream
        self._context = context
        self._outbox = outbox
        self._forget = forget
        self._advisories = Advisories(stream.config.name, name, context, outbox)
        self._pending_acks = PendingAcks(config.ack_wait or 0, config.backoff or (), config.max_deliver or 0)
        self._priorities = Priorities(config, self._advisories, context)
        self._requests = PullRequests(config.max_waiting or 0, self._say, outbox.hears, self._priorities)
        self._flow = FlowControl()
        self._seq = 0
        self._cursor = Cursor(stream, config)
        self._floor_consumer, self._floor_stream = 0, self._cursor.next_seq - 1
        self._replay_until = stream.last_seq if config.replay_policy == "original" else 0
        self._replayed: int | None = None
        self._delivered_at: float | None = None
        self._acked_at: float | None = None
        self._deliver_at: float | None = None
        self._used_at = now
        self._heartbeat_at = self._after_heartbeat(now)
        self._is_active = self._hears()
        self._is_paused = self._pauses(now)
        self._is_prompted = False
        self._has_more = False
        self._removed: list[int] = []
        self._sids = [outbox.subscribe(subject, self) for subject in self._subjects(prefixes)]
        stream.watchers.append(self)
        self._prompt()

    def _subjects(self, prefixes: Sequence[str]) -> list[str]:
        own = f"{self._stream.config.name}.{self.name}"
        subjects = [f"{prefix}CONSUMER.MSG.NEXT.{own}" for prefix in prefixes]
        account = f"{self._context.domain or NO_DOMAIN}.{ACCOUNT_HASH}"
        if self.config.ack_policy in ("explicit", "all"):
            subjects += [f"{_ACK}{own}.*.*.*.*.*", f"{_ACK}{account}.{own}.>"]
        if self.config.flow_control:
            subjects += [f"{_FLOW}{own}.*", f"{_FLOW}{account}.{own}.*"]
        return subjects

    # -- what others ask -----------------------------------------------------------------------------------------------

    @property
    def stream_name(self) -> str:
        """The stream that it reads."""
        return self._stream.config.name

    @property
    def is_push(self) -> bool:
        """Whether it delivers to a subject of its own."""
        return bool(self.config.deliver_subject)

    def is_bound(self) -> bool:
        """Whether somebody subscribes to its deliver subject."""
        return self.is_push and self._hears()

    def info(self, now: float) -> ConsumerInfo:
        """Configuration and state, as servers say them."""
        delivered = SequencePair(self._seq, self._cursor.next_seq - 1, self._moment(self._delivered_at))
        floor = SequencePair(self._floor_consumer, self._floor_stream, self._moment(self._acked_at))
        return ConsumerInfo(
            self._stream.config.name, self.name, self.config, self.created, delivered, floor, len(self._pending_acks),
            self._pending_acks.redelivered, len(self._requests), self._cursor.pending,
            push_bound=self.is_bound() or None, paused=self._pauses(now) or None,
            pause_remaining=self.pause_remaining(now), ts=self._context.timestamp(now),
            priority_groups=self._priorities.states(),
        )  # fmt: skip

    def pause_remaining(self, now: float) -> Seconds | None:
        """How long it is still paused, in seconds; None when it is not."""
        left = (self.config.pause_until or 0) - self._context.timestamp(now)
        return Seconds.from_nanoseconds(left) if self._pauses(now) else None

    def wants(self, seq: int) -> bool:
        """Whether a message of the stream is still to be delivered or acknowledged."""
        stored = self._stream.get(seq)
        return seq in self._pending_acks or (stored is not None and stored in self._cursor)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """An acknowledgement, an answer to flow control, or a pull request."""
        if not self._sids:
            return
        subject = message.subject.decode("utf-8", "surrogateescape")
        if subject.startswith(_ACK):
            self._acknowledge(subject, message, now)
        elif subject.startswith(_FLOW):
            self._answered(message, now)
        elif message.reply:
            self._request(message.reply.decode("utf-8", "surrogateescape"), message, now)
        self._work(now)

    def handle_timeout(self, now: float) -> None:
        """Time has passed, or something has changed elsewhere."""
        self._work(now)

    def deadline(self) -> float | None:
        """When something is due: a redelivery, a heartbeat, the end of a request, of a pause, of the consumer."""
        if not self._sids:
            return None
        deadlines = [self._pending_acks.check_at, self._requests.deadline(), self._deliver_at, self._gone_at()]
        deadlines.append(self._priorities.deadline())
        deadlines.append(self._heartbeat_at if self._is_active else None)
        deadlines.append(self._resumes_at() if self._is_paused else None)
        return min((when for when in deadlines if when is not None), default=None)

    def stored(self, message: Stored, now: float) -> None:
        """The stream has stored a message."""
        if self._cursor.stored(message):
            self._prompt()

    def removed(self, message: Stored, now: float) -> None:
        """A message is no longer in the stream."""
        self._cursor.removed(message)
        if message.seq in self._pending_acks:
            self._removed.append(message.seq)
            self._prompt()

    def interest_changed(self) -> None:
        """Others subscribe than before."""
        if self.is_push:
            self._prompt()

    def update(self, config: ConsumerConfig, now: float) -> None:
        """Another configuration, accepted and allowed as a change of this one."""
        self.config = self._priorities.config = config
        self._cursor.filter(config.filters)
        self._pending_acks.change(config.ack_wait or 0, config.backoff or (), config.max_deliver or 0)
        self._used_at = now
        self._prompt()

    def pause(self, until: int | None, now: float) -> None:
        """Deliver nothing until then, in nanoseconds since 1970.

        None resumes, as nats-server does it: with whatever happens next, a heartbeat or a message or a request.
        """
        self.config.pause_until = until
        self._is_paused = self._pauses(now)
        self._outbox.rearm(self)

    def unpin(self, group: str, now: float) -> None:
        """Another client may be pinned."""
        self._priorities.unpin(group, now)
        self._prompt()

    def lead(self, now: float) -> None:
        """Another server leads the consumer now. It knows what was delivered, not who is pinned, nor any requests."""
        self._requests.end(statuses.LEADERSHIP_CHANGE)
        self._priorities.forget()
        self._heartbeat_at = self._after_heartbeat(now)
        self._prompt()

    def close(self, now: float) -> None:
        """The consumer, or its stream, is deleted."""
        for sid in self._sids:
            self._outbox.unsubscribe(sid)
        self._sids.clear()
        self._stream.unwatch(self)
        self._requests.end(statuses.CONSUMER_DELETED)
        self._advisories.deleted(now)
        self._outbox.rearm(self)

    # -- where it stands -----------------------------------------------------------------------------------------------

    def _moment(self, when: float | None) -> int | None:
        return None if when is None else self._context.timestamp(when)

    def _hears(self) -> bool:
        return self.is_push and self._outbox.hears(self.config.deliver_subject or "", self.config.deliver_group)

    def _resumes_at(self) -> float:
        return ((self.config.pause_until or 0) - self._context.epoch) / _SECOND

    def _pauses(self, now: float) -> bool:
        return self._resumes_at() > now

    def _after_heartbeat(self, now: float) -> float | None:
        return now + self.config.idle_heartbeat if self.config.idle_heartbeat else None

    def _gone_at(self) -> float | None:
        """When it ends because nobody uses it."""
        if not self.config.inactive_threshold or self._is_active or len(self._requests):
            return None
        return self._used_at + self.config.inactive_threshold

    # -- work ----------------------------------------------------------------------------------------------------------

    def _prompt(self) -> None:
        if not self._is_prompted:
            self._is_prompted = True
            self._outbox.prompt(self)

    def _work(self, now: float) -> None:
        """Do everything that can be done now."""
        self._is_prompted = False
        if not self._sids:
            return
        self._notice(now)
        for seq in self._pending_acks.expire(now):
            self._give_up(seq, now)
        self._deliver_all(now)
        if not self.is_push:
            self._requests.tidy(now, self._heartbeat, at_end=not self._has_more)
        elif self._heartbeat_at is not None and self._heartbeat_at <= now:
            self._beat(now)
        gone_at = self._gone_at()
        if gone_at is not None and gone_at <= now:
            self._forget(self)
            self.close(now)
        self._outbox.rearm(self)

    def _notice(self, now: float) -> None:
        """Take note of what has changed around it."""
        if self._is_paused and not self._pauses(now):
            self._advisories.paused(self.config.pause_until, is_paused=False, now=now)
        self._is_paused = self._pauses(now)
        self._priorities.expire(now)
        is_active = self._hears()
        if is_active or self._is_active or len(self._requests):
            self._used_at = now
        if is_active and not self._is_active:
            self._heartbeat_at = self._after_heartbeat(now)
        self._is_active = is_active
        for seq in self._removed:
            outstanding = self._pending_acks.get(seq)
            if outstanding is not None:
                deliveries = self._pending_acks.deliveries(seq)
                self._remove_acked(seq, outstanding.consumer_seq, now)
                self._advisories.terminated(outstanding.consumer_seq, seq, deliveries, _DELETED, now)
        self._removed.clear()

    def _deliver_all(self, now: float) -> None:
        """Deliver until there is nothing, or nobody, left to deliver."""
        self._deliver_at = None
        self._has_more = False
        while not self._is_paused and self._has_taker() and (found := self._next(now)) is not None:
            stored, deliveries = found
            if self._replays_later(stored, now):
                self._has_more = True
                return
            pending = self._cursor.pending - (deliveries == 1)
            reply = self._reply(stored, deliveries, pending)
            header, payload = stored.header, stored.payload
            if self.config.headers_only:
                header, payload = appended(header, b"Nats-Msg-Size", b"%d" % len(payload)), b""
            size = len(stored.subject) + len(reply) + len(header or b"") + len(payload)
            request: PullRequest | None = None
            if not self.is_push:
                request = self._requests.take(size, self._cursor.pending, len(self._pending_acks), now)
                if request is None:
                    return
                header = self._priorities.marked(header)
            inbox = self.config.deliver_subject or "" if request is None else request.reply
            self._outbox.deliver(inbox, Msg(stored.subject, b"", reply, header, payload))
            self._delivered(stored, deliveries, now)
            if request is None:
                self._heartbeat_at = self._after_heartbeat(now)
                self._control(size)
            elif not request.batch and request.max_bytes:
                self._say(request.reply, statuses.batch_completed(request.max_bytes))

    def _has_taker(self) -> bool:
        if self.is_push:
            return self._is_active and not (self.config.flow_control and self._flow.is_stalled)
        return len(self._requests) > 0

    def _next(self, now: float) -> tuple[Stored, int] | None:
        """The next message, and how often it will have been delivered then; None when there is none now."""
        while (again := self._pending_acks.next_again()) is not None:
            seq = again.stored.seq
            if not self._pending_acks.is_exhausted(seq):
                return again.stored, self._pending_acks.deliveries(seq) + 1
            self._give_up(seq, now)
        if self.config.ack_policy != "none" and 0 < (self.config.max_ack_pending or 0) <= len(self._pending_acks):
            self._has_more = True
            return None
        stored = self._cursor.next()
        return None if stored is None else (stored, 1)

    def _replays_later(self, stored: Stored, now: float) -> bool:
        """Whether it is too early for a message that is replayed at the pace at which it was stored."""
        if stored.seq > self._replay_until or self._replayed is None or self._delivered_at is None:
            return False
        delay = stored.timestamp - self._replayed
        if delay <= _REPLAY_STEP or self._delivered_at + delay / _SECOND <= now:
            return False
        self._deliver_at = self._delivered_at + delay / _SECOND
        return True

    def _delivered(self, stored: Stored, deliveries: int, now: float) -> None:
        """Keep account of a delivery."""
        self._seq += 1
        self._delivered_at = now
        self._replayed = stored.timestamp
        if deliveries > 1:
            self._pending_acks.delivered_again(stored.seq, now)
            return
        self._cursor.delivered(stored)
        if self.config.ack_policy == "none":
            self._floor_consumer, self._floor_stream = self._seq, stored.seq
            self._stream.settled(stored.seq)
        else:
            self._pending_acks.delivered(stored, self._seq, now)

    def _reply(self, stored: Stored, deliveries: int, pending: int) -> bytes:
        context = self._context
        account_hash = ACCOUNT_HASH if context.ack_version == 2 else None
        return build_jsack(
            JSAck(
                context.domain, account_hash, self._stream.config.name, self.name, deliveries,
                Sequences(stored.seq, self._seq + 1), stored.timestamp, pending,
            )
        )  # fmt: skip

    # -- heartbeats and flow control -----------------------------------------------------------------------------------

    def _heartbeat(self) -> bytes:
        return statuses.heartbeat(self._seq, self._cursor.next_seq - 1, self._flow.asked)

    def _beat(self, now: float) -> None:
        """Nothing was delivered for as long as a heartbeat takes."""
        self._heartbeat_at = self._after_heartbeat(now)
        if self._is_active:
            self._say(self.config.deliver_subject or "", self._heartbeat())
            if self.config.ack_policy == "flow_control" and len(self._pending_acks) and self._flow.asked is None:
                self._ask()

    def _control(self, size: int) -> None:
        """A push consumer has delivered so many bytes."""
        if not self.config.flow_control:
            return
        is_time = self._flow.delivered(size)
        if self.config.ack_policy == "flow_control" and 0 < (self.config.max_ack_pending or 0) <= len(
            self._pending_acks
        ):
            is_time = self._flow.asked is None
        if is_time:
            self._ask()

    def _ask(self) -> None:
        """Ask the client to answer when it has come so far."""
        context = self._context
        account = f"{context.domain or NO_DOMAIN}.{ACCOUNT_HASH}." if context.ack_version == 2 else ""
        subject = f"{_FLOW}{account}{self._stream.config.name}.{self.name}.{context.next_id()[:4]}".encode()
        self._flow.ask(subject)
        self._outbox.publish(self.config.deliver_subject or "", b"", subject, statuses.FLOW_CONTROL)

    def _answered(self, message: Msg, now: float) -> None:
        if not self._flow.answered(message.subject) or self.config.ack_policy != "flow_control":
            return
        consumer_seq = _header(message, b"Nats-Last-Consumer")
        stream_seq = _header(message, b"Nats-Last-Stream")
        if 0 < consumer_seq <= self._seq and 0 < stream_seq < self._cursor.next_seq:
            self._settle_up_to(stream_seq, consumer_seq, now)

    # -- pull requests -------------------------------------------------------------------------------------------------

    def _request(self, reply: str, message: Msg, now: float) -> None:
        """A pull request: refuse it, or let it wait. Nobody can listen to a reply that is no subject."""
        try:
            check_subject(reply)
        except LocalProtocolError:
            return
        try:
            check_level(Publication(message.subject, message.header, message.payload), self._context.api_level)
        except APIError:
            self._say(reply, statuses.API_LEVEL)
            return
        if self.is_push:
            self._say(reply, statuses.PUSH_BASED)
            return
        self._used_at = now
        try:
            request = read_request(reply, message.payload, now)
        except BadRequestError as error:
            self._say(reply, statuses.bad_request(str(error)))
            return
        refusal = self._exceeds(request, now) or self._misplaced(request, now) or self._no_room(request, now)
        if refusal is None:
            self._requests.add(request)
        else:
            self._say(reply, refusal)

    def _exceeds(self, request: PullRequest, now: float) -> bytes | None:
        config = self.config
        if config.max_batch and request.batch > config.max_batch:
            return statuses.exceeded(MAX_BATCH, str(config.max_batch))
        if config.max_expires and request.expires is not None and request.expires > now + config.max_expires:
            return statuses.exceeded(MAX_EXPIRES, format_duration(nanoseconds(config.max_expires)))
        if config.max_bytes and request.max_bytes > config.max_bytes:
            return statuses.exceeded(MAX_BYTES, str(config.max_bytes))
        return None

    def _misplaced(self, request: PullRequest, now: float) -> bytes | None:
        """What is wrong with its priority group; None when nothing is."""
        why = self._priorities.refusal(request)
        if why is not None:
            return statuses.bad_request(why)
        return statuses.PIN_MISMATCH if self._priorities.is_stranger(request, now) else None

    def _no_room(self, request: PullRequest, now: float) -> bytes | None:
        """Why a request cannot wait; None when it can."""
        if self._requests.is_full and not self._requests.tidy(now, self._heartbeat, at_end=False):
            return statuses.MAX_WAITING
        if request.no_wait:
            available = self._cursor.pending + self._pending_acks.queued
            if not available and request.expires is None:
                return statuses.NO_MESSAGES
            self._requests.tidy(now, self._heartbeat, at_end=False)
            if 0 < available < self._requests.messages:
                return statuses.REQUESTS_PENDING
        return None

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def _acknowledge(self, subject: str, message: Msg, now: float) -> None:
        """A message on an ack subject, of either version."""
        tokens = subject.split(".")
        numbers = tokens[4:7] if len(tokens) == 9 else tokens[6:9]
        deliveries, stream_seq, consumer_seq = map(_number, [*numbers, "", "", ""][:3])
        self._used_at = now
        word, reply = message.payload, (message.reply or b"").decode("utf-8", "surrogateescape")
        is_answered = stream_seq != 0
        if word in (b"", b"+ACK", b"+OK"):
            is_answered = self._ack(stream_seq, consumer_seq, now)
        elif word.startswith(b"+NXT"):
            self._ack(stream_seq, consumer_seq, now)
            is_answered = False
            if reply:
                self._request(reply, Msg(message.subject, b"", None, None, word[4:]), now)
        elif word.startswith(b"-NAK"):
            self._nak(stream_seq, consumer_seq, deliveries, word[4:].strip(), now)
        elif word == b"+WPI":
            if stream_seq in self._pending_acks:
                self._pending_acks.in_progress(stream_seq, now)
        elif word.startswith(b"+TERM"):
            is_answered = self._ack(stream_seq, consumer_seq, now)
            if is_answered:
                reason = word[5:].strip().decode("utf-8", "replace")
                self._advisories.terminated(consumer_seq, stream_seq, deliveries, reason, now)
        if reply and is_answered:
            self._say(reply, None)

    def _ack(self, stream_seq: int, consumer_seq: int, now: float) -> bool:
        """A message is done with; False when it was not delivered yet."""
        if not 0 < stream_seq < self._cursor.next_seq:
            return False
        if self.config.ack_policy == "all":
            self._settle_up_to(stream_seq, consumer_seq, now)
        else:
            self._remove_acked(stream_seq, consumer_seq, now)
        return True

    def _remove_acked(self, stream_seq: int, consumer_seq: int, now: float) -> None:
        """One message is done with."""
        outstanding = self._pending_acks.remove(stream_seq)
        if outstanding is not None:
            consumer_seq = outstanding.consumer_seq
            self._acked_at = now
            self._stream.settled(stream_seq)
        if not len(self._pending_acks):
            self._floor_consumer, self._floor_stream = self._seq, self._cursor.next_seq - 1
        elif consumer_seq == self._floor_consumer + 1:
            oldest = self._pending_acks.oldest()
            self._floor_consumer, self._floor_stream = oldest.consumer_seq - 1, oldest.stored.seq - 1

    def _settle_up_to(self, stream_seq: int, consumer_seq: int, now: float) -> None:
        """All messages up to this one are done with."""
        if stream_seq <= self._floor_stream or consumer_seq <= self._floor_consumer:
            return
        self._floor_consumer, self._floor_stream = consumer_seq, stream_seq
        self._acked_at = now
        for outstanding in self._pending_acks.remove_up_to(stream_seq):
            self._stream.settled(outstanding.stored.seq)

    def _nak(self, stream_seq: int, consumer_seq: int, deliveries: int, argument: bytes, now: float) -> None:
        """A message is to be delivered again: at once, or after the delay in ``argument``."""
        if stream_seq not in self._pending_acks or not self._floor_consumer < consumer_seq <= self._seq:
            return
        self._advisories.naked(consumer_seq, stream_seq, deliveries, now)
        delay = _delay(argument)
        if delay is None:
            self._pending_acks.queue(stream_seq)
        else:
            self._pending_acks.postpone(stream_seq, now + delay / _SECOND)

    def _give_up(self, seq: int, now: float) -> None:
        """A message was delivered as often as is allowed."""
        self._advisories.exhausted(seq, self._pending_acks.deliveries(seq), now)
        self._pending_acks.give_up(seq)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def _say(self, subject: str, status: bytes | None) -> None:
        """An empty message; what cannot be a subject has no subscriber."""
        try:
            self._outbox.publish(subject, b"", None, status)
        except LocalProtocolError:
            return


def _number(token: str) -> int:
    """A number of an ack subject; -1 when it is none, or one that no server counts to."""
    number = int(token) if token.isascii() and token.isdigit() and len(token) <= MAX_DIGITS else -1
    return number if number < 2**63 else -1


def _header(message: Msg, name: bytes) -> int:
    value = b"" if message.header is None else first_value(message.header, name) or b""
    return _number(value.decode("ascii", "replace"))


def _delay(argument: bytes) -> int | None:
    """The delay that a NAK asks for, in nanoseconds; None when it asks for none, or in no known form."""
    try:
        if argument.startswith(b"{"):
            return as_integer(loads(argument).get("delay", 0), "delay")
        return parse_duration(argument.decode("utf-8", "replace")) if argument else None
    except (RemoteProtocolError, ValueError):
        return None
