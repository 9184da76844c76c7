"""One consumer: which messages of its stream it delivers, to which subscriber or pull request, and when.

Rules, those of nats-server 2.15.1 (FACTS.md F5):

* Messages go out in the order of the stream. A redelivery that is due goes before all new messages.
* At most ``max_ack_pending`` messages are outstanding.
* A push consumer delivers while its deliver subject has a subscriber, in its queue group if it has one.
* A pull consumer delivers to its waiting requests.
* A message that is deleted from the stream counts as acknowledged.
* An acknowledgement is answered, whatever it says, unless its message was not delivered yet.
* It looks for messages only when something wakes it (FACTS.md F5.35).

A consumer is a conversation. Its subscriptions bring acknowledgements, answers to flow control and pull requests. The
stream reports what it stores and removes. The server reports that interest has changed.

Not here: reading acknowledgements (``acks``), the ack floor (``delivery_state``), creating and deleting consumers
(``api.consumers``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from jsproto.errors import APIError, LocalProtocolError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, SequencePair
from jsproto.grammar.headers import appended
from jsproto.grammar.jsack import JSAck, Sequences, build_jsack
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Seconds
from jsproto.outbox import Conversation, Outbox
from jsproto.server.consume import statuses
from jsproto.server.consume.acks import AckKind, Acknowledgement, read_acknowledgement, read_flow_answer
from jsproto.server.consume.advisories import Advisories
from jsproto.server.consume.cursor import Cursor
from jsproto.server.consume.delivery_state import DeliveryState
from jsproto.server.consume.flow_control import FlowControl
from jsproto.server.consume.priority import Priorities
from jsproto.server.consume.pull_requests import (
    BadRequestError,
    PullRequest,
    PullRequests,
    over_limit,
    read_request,
)
from jsproto.server.consume.rate_limit import RateLimit
from jsproto.server.consume.settings import labelled
from jsproto.server.publish.checks import check_level
from jsproto.server.routing import Removals
from jsproto.server.store.context import ACCOUNT_HASH, NO_DOMAIN, ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Publication, Stored, Stream
from jsproto.timers import earliest
from jsproto.wire.frames import Msg

_KNUTH: Final = 2_654_435_761  # of the multiplicative hash
_SECOND: Final = 1_000_000_000
_REPLAY_STEP: Final = 1_000_000  # nanoseconds: what is closer together is replayed at once
_ACK: Final = "$JS.ACK."
_FLOW: Final = "$JS.FC."
_DELETED: Final = "Message deleted by stream limits"


class ConsumerOutbox(Outbox, Protocol):
    """What a consumer needs of its server beyond an outbox."""

    @property
    def removals(self) -> Removals:
        """Which patterns lost a subscriber."""

    def deliver(self, inbox: str, message: Msg) -> None:
        """Send ``message`` under its own subject to the subscribers of ``inbox``.

        Raises:
            BadSubjectError: ``inbox`` is no subject.
        """

    def has_interest(self, subject: str) -> bool:
        """Whether ``subject`` has a subscriber."""

    def is_subscribed(self, subject: str, queue: str | None = None) -> bool:
        """Whether somebody subscribes to ``subject`` itself, not by a wildcard, and in the group ``queue`` alone."""

    def schedule(self, conversation: Conversation) -> None:
        """Call the conversation's ``handle_timeout`` once the current input is handled."""


class Consumer(Conversation):
    """A consumer of one stream, which it watches until ``close``.

    Attributes: ``name``, ``created`` (nanoseconds since 1970), ``config`` (as ``settings.accept`` returns it).
    """

    __slots__ = (
        "_advisories",
        "_context",
        "_cursor",
        "_deliver_at",
        "_flow",
        "_forget",
        "_group",
        "_has_more",
        "_heartbeat_at",
        "_interest_changed",
        "_is_active",
        "_is_awake",
        "_is_deaf",
        "_is_paused",
        "_is_scheduled",
        "_outbox",
        "_priorities",
        "_rate_limit",
        "_removed",
        "_replay_until",
        "_replayed",
        "_requests",
        "_sids",
        "_state",
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
        """Subscribe to the consumer's subjects, and begin to deliver.

        ``config``: as ``settings.accept`` returns it. ``now``: seconds, as in every method here. ``prefixes``: those of
        the JetStream API, each with its last dot. ``forget``: called with the consumer when it was not used for
        ``inactive_threshold``.
        """
        self.name = name
        self.config = config
        self.created = context.timestamp(now)
        self._stream = stream
        self._context = context
        self._outbox = outbox
        self._forget = forget
        self._advisories = Advisories(stream.config.name, name, context, outbox)
        self._priorities = Priorities(config, self._advisories, context)
        self._requests = PullRequests(
            config.max_waiting or 0, self._send_status, outbox.has_interest, outbox.removals, self._priorities
        )
        self._flow = FlowControl()
        self._cursor = Cursor(stream, config)
        self._state = DeliveryState(stream, config, self._cursor)
        self._replay_until = stream.last_seq if config.replay_policy == "original" else 0
        self._replayed: int | None = None
        self._deliver_at: float | None = None
        self._rate_limit = self._new_rate_limit(now)
        self._used_at = now
        self._heartbeat_at = self._after_heartbeat(now)
        self._group = config.deliver_group  # of the interest: an update does not change it
        self._interest_changed = False
        self._is_deaf = False
        self._is_active = self._has_interest()
        self._is_paused = self._is_paused_at(now)
        self._is_scheduled = False
        self._is_awake = False  # whether it looks for messages when it works next
        self._has_more = False
        self._removed: list[int] = []
        self._sids = [outbox.subscribe(subject, self) for subject in self._subjects(prefixes)]
        stream.watchers.append(self)
        self._wake()

    def _subjects(self, prefixes: Sequence[str]) -> list[str]:
        own = f"{self._stream.config.name}.{self.name}"
        subjects = [f"{prefix}CONSUMER.MSG.NEXT.{own}" for prefix in prefixes]
        account = f"{self._context.domain or NO_DOMAIN}.{ACCOUNT_HASH}"
        if self.config.ack_policy in ("explicit", "all"):
            subjects += [f"{_ACK}{own}.*.*.*.*.*", f"{_ACK}{account}.{own}.>"]
        if self.config.flow_control:
            subjects += [f"{_FLOW}{own}.*", f"{_FLOW}{account}.{own}.*"]
        return subjects

    # -- queries -------------------------------------------------------------------------------------------------------

    @property
    def stream_name(self) -> str:
        """The name of its stream."""
        return self._stream.config.name

    @property
    def is_push(self) -> bool:
        """Whether it has a deliver subject. Otherwise it serves pull requests."""
        return bool(self.config.deliver_subject)

    def is_bound(self) -> bool:
        """Whether its deliver subject has a subscriber."""
        return self.is_push and self._is_active

    def is_heard(self) -> bool:
        """Whether anybody gets what is sent to its deliver subject, by a wildcard or in a group, too."""
        return self._outbox.has_interest(self.config.deliver_subject or "")

    def info(self, now: float) -> ConsumerInfo:
        """Its configuration and state, as CONSUMER.INFO reports them."""
        state = self._state
        delivered = SequencePair(*state.delivered_pair, self._timestamp(state.delivered_at))
        floor = SequencePair(*state.recorded.floor, self._timestamp(state.acked_at))
        return ConsumerInfo(
            self._stream.config.name, self.name, self.config, self.created, delivered, floor, len(state.pending),
            0 if self.config.max_deliver == 1 else state.pending.redelivered, len(self._requests),
            self._cursor.reported(),
            push_bound=self.is_bound() or None, paused=self._is_paused_at(now) or None,
            pause_remaining=self.pause_remaining(now), ts=self._context.timestamp(now),
            priority_groups=self._priorities.states(),
        )  # fmt: skip

    def pause_remaining(self, now: float) -> Seconds | None:
        """How long it is still paused, in seconds. None: it is not paused."""
        left = (self.config.pause_until or 0) - self._context.timestamp(now)
        return Seconds.from_nanoseconds(left) if self._is_paused_at(now) else None

    def takes(self, subject: bytes) -> bool:
        """Whether its filters take messages under ``subject``."""
        return not self._is_deaf and self._cursor.takes(subject)

    @property
    def floor(self) -> int:
        """The stream sequence up to which everything is acknowledged."""
        return self._state.floor_stream

    def wants(self, seq: int) -> bool:
        """Whether the message with the stream sequence ``seq`` is still to be delivered or acknowledged."""
        return self._state.wants(seq)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """Take an acknowledgement, an answer to flow control, or a pull request, as the subject says."""
        if not self._sids:
            return
        subject = message.subject.decode("utf-8", "surrogateescape")
        if subject.startswith(_ACK):
            self._receive_acknowledgement(subject, message, now)
        elif subject.startswith(_FLOW):
            self._receive_flow_answer(message, now)
        elif message.reply:
            self._receive_pull_request(message.reply.decode("utf-8", "surrogateescape"), message, now)
        if self._is_awake:
            self._process(now)
        else:
            self._outbox.rearm(self)

    def handle_timeout(self, now: float) -> None:
        """Do what is due at ``now``: deliver, redeliver, send heartbeats, end requests. Extra calls are harmless."""
        self._process(now)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: nothing is due by time alone."""
        if not self._sids:
            return None
        deadlines = [self._state.pending.check_at, self._requests.deadline(), self._deliver_at, self._inactive_at()]
        deadlines.append(self._priorities.deadline())
        deadlines.append(self._heartbeat_at if self._is_active else None)
        deadlines.append(self._resumes_at() if self._is_paused else None)
        return earliest(deadlines)

    def stored(self, message: Stored, now: float) -> None:
        """The stream stored ``message``."""
        if not self._is_deaf and self._cursor.stored(message):
            self._wake()

    def removed(self, message: Stored, now: float) -> None:
        """The stream removed ``message``."""
        if not self._is_deaf:
            self._cursor.removed(message)
        if message.seq in self._state.pending:
            self._removed.append(message.seq)
            self._schedule()
        elif self._state.pending.was_repeated(message.seq):
            self._state.forget(message.seq, now)

    def purged(self, subject: str | None, gone: Sequence[int], counted_by: str | None, now: float) -> None:
        """The stream was purged: messages of ``subject``, or all of them."""
        if len(gone) > 1 or (gone and counted_by is None):
            self._state.pending.forget_repeated(self._stream.first_seq)
            self._cursor.purged(gone, None)
        elif not self._is_deaf:
            self._cursor.purged(gone, counted_by)
        self._state.purged(subject, now)
        self._removed.clear()
        self._schedule()

    def interest_changed(self) -> None:
        """Subscriptions have changed, perhaps those of the deliver subject."""
        if self.is_push:
            self._interest_changed = True
            self._schedule()

    def update(self, config: ConsumerConfig, now: float) -> None:
        """Go on with another ``config``, which ``settings.check_change`` allows.

        Without the filters that it had a consumer hears no more of new messages (FACTS.md F5.23).
        """
        if config.filters != self.config.filters:
            self._is_deaf = not config.filters
        self._interest_changed = config.deliver_subject != self.config.deliver_subject
        if self._interest_changed or config.max_ack_pending != self.config.max_ack_pending:
            self._wake()
        self.config = self._priorities.config = config
        self._state.filter(config.filters)
        self._rate_limit = self._new_rate_limit(now)
        self._state.pending.change(config.ack_wait or 0, config.backoff or (), config.max_deliver or 0)
        self._used_at = now
        self._schedule()

    def pause(self, until: int | None, now: float) -> None:
        """Deliver nothing until the moment ``until``, in nanoseconds since 1970.

        None resumes. As in nats-server the next message, heartbeat or request then starts the delivery.
        """
        self.config = labelled(replace(self.config, pause_until=until), self.config, self._context)
        self._is_paused = self._is_paused_at(now)
        self._outbox.rearm(self)

    def reset(self, seq: int | None, now: float) -> int:
        """Count deliveries from 1 again, and go on at the stream sequence ``seq``. Returns that sequence.

        None: after the ack floor. Waiting pull requests stay, and so does flow control that is not answered yet
        (FACTS.md F4.16).

        Raises:
            APIError: the deliver policy does not allow ``seq`` (10204).
        """
        if seq is not None:
            self._check_reset(seq)
        self._state.reset(seq)
        self._replayed = None
        self._used_at = now
        self._wake()
        return self._state.stream_seq + 1

    def go_back(self) -> None:
        """The stream came back shorter: go on after its last message, if the place was beyond (FACTS.md F4.41)."""
        last = self._stream.last_seq
        if self._state.stream_seq > last:
            self._state.reset(min(self._state.floor_stream, last) + 1)

    def _check_reset(self, seq: int) -> None:
        policy = self.config.deliver_policy
        if policy == "by_start_sequence":
            if seq < (self.config.opt_start_seq or 0):
                raise refusal(10204, "below start seq")
        elif policy == "by_start_time":
            stored = next((stored for stored in self._stream if stored.seq >= seq), None)
            if stored is not None and stored.timestamp < (self.config.opt_start_time or 0):
                raise refusal(10204, "below start time")
        elif policy != "all":
            raise refusal(10204, "not allowed")

    def unpin(self, group: str, now: float) -> None:
        """Unpin the client of the priority group ``group``, so that another one can be pinned."""
        self._priorities.unpin(group, now)
        self._wake()

    def lead(self, now: float) -> None:
        """Start anew as the consumer's new leader, which knows the delivery state.

        Requests, pins, outstanding flow control and bytes under way are lost with the old leader.
        """
        self._requests.end(statuses.LEADERSHIP_CHANGE)
        self._flow = FlowControl()
        self._priorities.forget()
        self._heartbeat_at = self._after_heartbeat(now)
        self._is_scheduled = False  # what was due without a leader was dropped
        self._wake()

    def shut_down(self) -> None:
        """Tell the clients whose requests wait that the server ends."""
        self._requests.shut_down()

    def saved(self) -> dict[str, Any]:
        """What it keeps over a restart, as JSON: requests, pins and flow control are forgotten."""
        return {
            "name": self.name,
            "config": self.config.to_json(),
            "created": self.created,
            "replay_until": self._replay_until,
            "replayed": self._replayed,
            "state": self._state.saved(self._context),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on where ``saved`` says. The consumer is new."""
        self.created = saved["created"]
        self._replay_until, self._replayed = saved["replay_until"], saved["replayed"]
        self._state.restore(saved["state"], self._context)

    def close(self, now: float) -> None:
        """End the consumer, because it or its stream is deleted. Waiting requests get a status."""
        for sid in self._sids:
            self._outbox.unsubscribe(sid)
        self._sids.clear()
        self._stream.unwatch(self)
        self._requests.end(statuses.CONSUMER_DELETED)
        self._advisories.deleted(now)
        self._outbox.rearm(self)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _timestamp(self, when: float | None) -> int | None:
        return None if when is None else self._context.timestamp(when)

    def _has_interest(self) -> bool:
        return self.is_push and self._outbox.is_subscribed(self.config.deliver_subject or "", self._group)

    def _resumes_at(self) -> float:
        return ((self.config.pause_until or 0) - self._context.epoch) / _SECOND

    def _is_paused_at(self, now: float) -> bool:
        return self._resumes_at() > now

    def _after_heartbeat(self, now: float) -> float | None:
        return now + self.config.idle_heartbeat if self.config.idle_heartbeat else None

    def _inactive_at(self) -> float | None:
        """When it ends for lack of use, in seconds."""
        if not self.config.inactive_threshold or self._is_active or len(self._requests):
            return None
        return self._used_at + self.config.inactive_threshold

    # -- work ----------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._outbox.schedule(self)

    def _wake(self) -> None:
        """Look for messages once the current input is handled."""
        self._is_awake = True
        self._schedule()

    def _process(self, now: float) -> None:
        """Do everything that is due."""
        self._is_scheduled = False
        if not self._sids:
            return
        self._refresh(now)
        self._expire(now)
        waits_until = self._requests.deadline()
        is_time = waits_until is not None and waits_until <= now
        is_heartbeat = self._is_active and self._heartbeat_at is not None and self._heartbeat_at <= now
        if self._is_awake or is_time or is_heartbeat or (self._deliver_at is not None and self._deliver_at <= now):
            self._is_awake = False
            self._deliver_all(now)
            if not self.is_push:
                # A heartbeat ends requests with no_wait, though unacknowledged messages hold others back.
                self._requests.tidy(now, self._heartbeat_status, at_end=is_time or not self._has_more)
            elif self._heartbeat_at is not None and self._heartbeat_at <= now:
                self._send_heartbeat(now)
        gone_at = self._inactive_at()
        if gone_at is not None and gone_at <= now:
            self._forget(self)
            self.close(now)
        self._outbox.rearm(self)

    def _refresh(self, now: float) -> None:
        """Update what depends on the time, on subscriptions and on removed messages."""
        if self._is_paused and not self._is_paused_at(now):
            self._advisories.paused(self.config.pause_until, is_paused=False, now=now)
            self._is_awake = True
        self._is_paused = self._is_paused_at(now)
        if self._priorities.expire(now):
            self._is_awake = True
        is_active = self._has_interest() if self._interest_changed else self._is_active
        self._interest_changed = False
        if is_active or self._is_active or len(self._requests):
            self._used_at = now
        if is_active and not self._is_active:
            self._heartbeat_at = self._after_heartbeat(now)
            self._is_awake = True
        self._is_active = is_active
        state, was_full = self._state, self._is_full()
        for seq in self._removed:
            outstanding = state.pending.get(seq)
            if outstanding is not None:
                deliveries = state.pending.deliveries(seq)
                state.settle(seq, now)
                self._advisories.terminated(outstanding.consumer_seq, seq, deliveries, _DELETED, now)
        self._removed.clear()
        if was_full and not self._is_full():
            self._is_awake = True

    def _expire(self, now: float) -> None:
        """Queue what was not acknowledged in time, or give it up."""
        pending, was_full = self._state.pending, self._is_full()
        queued = pending.queued
        for seq in pending.expire(now):
            self._give_up(seq, now)
        if pending.queued > queued or (was_full and not self._is_full()):
            self._is_awake = True

    def _deliver_all(self, now: float) -> None:
        """Deliver until no message, or no taker, is left."""
        self._deliver_at = None
        self._has_more = False
        while not self._is_paused and self._has_taker() and (found := self._next_message(now)) is not None:
            stored, deliveries = found
            if self._replays_later(stored, now):
                self._has_more = True
                return
            pending = self._cursor.pending - (deliveries == 1)
            reply = self._ack_subject(stored, deliveries, max(0, pending))
            header, payload = stored.header, stored.payload
            if self.config.headers_only:
                header, payload = appended(header, b"Nats-Msg-Size", b"%d" % len(payload)), b""
            size = len(stored.subject) + len(reply) + len(header or b"") + len(payload)
            if self._is_too_fast(size, now):
                return
            request: PullRequest | None = None
            if not self.is_push:
                request = self._requests.take(size, self._cursor.pending, len(self._state.pending), now)
                if request is None:
                    return
                header = self._priorities.marked(header)
            inbox = self.config.deliver_subject or "" if request is None else request.reply
            self._outbox.deliver(inbox, Msg(stored.subject, b"", reply, header, payload))
            self._state.delivered(stored, deliveries, now)
            self._rate_limit.delivered(size)
            self._replayed = stored.timestamp
            if request is None:
                self._heartbeat_at = self._after_heartbeat(now)
                self._count_for_flow_control(size)
            elif request.batch <= 0 < request.max_bytes:
                self._send_status(request.reply, statuses.batch_completed(request.batch, request.max_bytes))

    def _has_taker(self) -> bool:
        if self.is_push:
            return self._is_active and not (self.config.flow_control and self._flow.is_stalled)
        return len(self._requests) > 0

    def _next_message(self, now: float) -> tuple[Stored, int] | None:
        """The next message, and which delivery of it that is (1 is the first). None: there is none now."""
        pending = self._state.pending
        while (again := pending.next_again()) is not None:
            seq = again.stored.seq
            if self._stream.get(seq) is None:
                pending.put_off(seq, now)
                continue
            if not pending.is_exhausted(seq):
                return again.stored, pending.deliveries(seq) + 1
            self._give_up(seq, now)
        if self.config.ack_policy != "none" and self._is_full():
            self._has_more = True
            return None
        stored = None if self._is_deaf and self.is_push else self._cursor.next()
        return None if stored is None else (stored, 1)

    def _is_full(self) -> bool:
        """Whether as many messages wait for their acknowledgement as may."""
        return 0 < (self.config.max_ack_pending or 0) <= len(self._state.pending)

    def _replays_later(self, stored: Stored, now: float) -> bool:
        """Whether it is too early for a message under the replay policy ``original``."""
        delivered_at = self._state.delivered_at
        if stored.seq > self._replay_until or self._replayed is None or delivered_at is None:
            return False
        delay = stored.timestamp - self._replayed
        if delay <= _REPLAY_STEP or delivered_at + delay / _SECOND <= now:
            return False
        self._deliver_at = delivered_at + delay / _SECOND
        return True

    def _is_too_fast(self, size: int, now: float) -> bool:
        """Whether the rate limit lets a message of that size wait."""
        free_at = self._rate_limit.free_at(size, now)
        if free_at <= now:
            return False
        self._deliver_at = free_at
        self._has_more = True
        return True

    def _new_rate_limit(self, now: float) -> RateLimit:
        most = self._stream.config.max_msg_size or 0
        return RateLimit(self.config.rate_limit_bps or 0, most if most > 0 else self._context.max_payload, now)

    def _ack_subject(self, stored: Stored, deliveries: int, pending: int) -> bytes:
        context = self._context
        account_hash = ACCOUNT_HASH if context.ack_version == 2 else None
        return build_jsack(
            JSAck(
                context.domain, account_hash, self._stream.config.name, self.name, deliveries,
                Sequences(stored.seq, self._state.consumer_seq + 1), stored.timestamp, pending,
            )
        )  # fmt: skip

    # -- heartbeats and flow control -----------------------------------------------------------------------------------

    def _heartbeat_status(self) -> bytes:
        return statuses.heartbeat(self._state.consumer_seq, self._state.stream_seq, self._flow.asked)

    def _send_heartbeat(self, now: float) -> None:
        """Send a heartbeat, because nothing was delivered for its interval."""
        self._heartbeat_at = self._after_heartbeat(now)
        if self._is_active:
            self._send_status(self.config.deliver_subject or "", self._heartbeat_status())
            if self.config.ack_policy == "flow_control" and len(self._state.pending) and self._flow.asked is None:
                self._request_flow_control()

    def _count_for_flow_control(self, size: int) -> None:
        """Count ``size`` delivered bytes of a push consumer, and ask for flow control when that is due."""
        if not self.config.flow_control:
            return
        is_time = self._flow.delivered(size)
        if self.config.ack_policy == "flow_control" and self._is_full():
            is_time = self._flow.asked is None
        if is_time:
            self._request_flow_control()

    def _request_flow_control(self) -> None:
        """Ask the client to answer when it has handled all that was delivered."""
        context = self._context
        account = f"{context.domain or NO_DOMAIN}.{ACCOUNT_HASH}." if context.ack_version == 2 else ""
        subject = f"{_FLOW}{account}{self._stream.config.name}.{self.name}.{context.next_id()[:4]}".encode()
        self._flow.ask(subject)
        self._outbox.publish(self.config.deliver_subject or "", b"", subject, statuses.FLOW_CONTROL)

    def _receive_flow_answer(self, message: Msg, now: float) -> None:
        if not self._flow.answered(message.subject):
            return
        self._is_awake = True
        if self.config.ack_policy == "flow_control":
            self._state.answer_flow_control(*read_flow_answer(message.header), now)

    # -- pull requests -------------------------------------------------------------------------------------------------

    def _receive_pull_request(self, reply: str, message: Msg, now: float) -> None:
        """Refuse a pull request, or let it wait. A request with a malformed reply subject ends at once, as it has no
        subscriber.
        """
        try:
            check_level(Publication(message.subject, message.header, message.payload), self._context.api_level)
        except APIError:
            self._send_status(reply, statuses.API_LEVEL)
            return
        if self.is_push:
            self._send_status(reply, statuses.PUSH_BASED)
            return
        self._used_at = now
        try:
            request = read_request(reply, message.payload, now)
        except BadRequestError as error:
            self._send_status(reply, statuses.bad_request(str(error)))
            return
        why = over_limit(request, self.config, now) or self._group_refusal(request, now)
        why = why or self._waiting_refusal(request, now)
        if why is None:
            self._is_awake = True
            self._let_wait(request)
        elif why:
            self._send_status(reply, why)

    def _let_wait(self, request: PullRequest) -> None:
        try:
            check_subject(request.reply, wildcards=True)
        except LocalProtocolError:
            return
        self._requests.add(request)

    def _group_refusal(self, request: PullRequest, now: float) -> bytes | None:
        """The status that refuses the request's priority group. None: it fits."""
        why = self._priorities.refusal(request)
        if why is not None:
            return statuses.bad_request(why)
        return statuses.PIN_MISMATCH if self._priorities.is_stranger(request, now) else None

    def _waiting_refusal(self, request: PullRequest, now: float) -> bytes | None:
        """The status that refuses to let the request wait, empty for none that is sent. None: it can wait."""
        if request.no_wait:
            available = max(0, self._cursor.pending) + self._state.pending.queued
            if not available and request.expires is None:
                return statuses.NO_MESSAGES
            self._requests.tidy(now, self._heartbeat_status, at_end=False)
            if 0 < available < self._requests.messages % 2**64:  # servers take a negative sum for a large one
                return statuses.REQUESTS_PENDING
        if self._requests.is_full and not self._requests.tidy(now, self._heartbeat_status, at_end=False):
            return b"" if request.heartbeat else statuses.MAX_WAITING
        return None

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def _receive_acknowledgement(self, subject: str, message: Msg, now: float) -> None:
        """Take a message on an ack subject, and answer it if it asks for an answer."""
        ack = read_acknowledgement(subject, message.payload)
        reply = (message.reply or b"").decode("utf-8", "surrogateescape")
        state, was_full = self._state, self._is_full()
        self._used_at = now
        is_answered, reason = ack.stream_seq != 0, None
        if ack.kind in (AckKind.ACK, AckKind.NEXT):
            self._sample(ack, now)
        if ack.kind is AckKind.ACK:
            is_answered = state.acknowledge(ack.stream_seq, ack.consumer_seq, now)
        elif ack.kind is AckKind.NEXT:
            state.acknowledge(ack.stream_seq, ack.consumer_seq, now)
            is_answered = False
            if reply:
                self._receive_pull_request(reply, Msg(message.subject, b"", None, None, ack.argument), now)
        elif ack.kind is AckKind.NAK:
            if state.redeliver(ack, now):
                self._advisories.naked(ack.consumer_seq, ack.stream_seq, ack.deliveries, now)
                self._is_awake |= state.pending.queued > 0  # not if it comes later
        elif ack.kind is AckKind.PROGRESS:
            state.in_progress(ack.stream_seq, now)
        elif ack.kind is AckKind.TERM:
            is_answered = state.acknowledge(ack.stream_seq, ack.consumer_seq, now)
            reason = ack.argument.decode("utf-8", "replace")
        if was_full and not self._is_full():
            self._is_awake = True
        if reply and is_answered:
            self._send_status(reply, None)
        if reason is not None:
            self._advisories.terminated(ack.consumer_seq, ack.stream_seq, ack.deliveries, reason, now)

    def _sample(self, ack: Acknowledgement, now: float) -> None:
        """Tell observers how long an acknowledgement took, if it is one of those that ``sample_freq`` asks for."""
        percent = int((self.config.sample_freq or "0").removesuffix("%"))
        outstanding = self._state.pending.get(ack.stream_seq)
        # The choice looks random, and is the same each time.
        if outstanding is not None and ack.stream_seq * _KNUTH % 2**32 * 100 < percent * 2**32:
            waited = now - outstanding.delivered_at
            self._advisories.sampled(ack.consumer_seq, ack.stream_seq, ack.deliveries, waited, now)

    def _give_up(self, seq: int, now: float) -> None:
        """Stop delivering a message, because ``max_deliver`` is reached."""
        self._advisories.exhausted(seq, self._state.pending.deliveries(seq), now)
        self._state.give_up(seq)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def _send_status(self, subject: str, status: bytes | None) -> None:
        """Send a header block without a payload. A malformed subject has no subscriber, so its status is dropped."""
        try:
            self._outbox.publish(subject, b"", None, status)
        except LocalProtocolError:
            return
