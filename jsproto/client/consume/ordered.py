"""An ordered consumer: every message of a stream, or of its subjects, once and in order, whatever happens (ADR-15).

It follows a disposable consumer of its own: pushed, in memory, of ack policy "none", under a fresh name and deliver
subject. That consumer is replaced by one that starts after the last message that was kept, when anything is wrong:

* Its count has a gap, or starts again.
* Three heartbeats were missed, or a status came.
* The link was lost, or the buffer was full.

So the application gets each message once and in order:

* Within a consumer deliveries are complete: its own count proves that.
* What limits dropped between two consumers shows in the stream's state: the event MessagesMissed, or the end
  (``IfMissed``). What they dropped while a consumer waited shows as a hole in the sequences, if all is read. Then the
  state is asked for.
* Each message comes once: what is as old as the last message, or older, is dropped.
* A stream with retention "interest" is refused: its server deletes what it has sent, even if that got lost (FACTS.md
  F5.43).

Rules:

* The first attempt at another consumer is made at once. The next ones follow after growing pauses (``retry``).
* A message or heartbeat ends the series of attempts.
* An API error other than a server error (5xx) ends the ordered consumer. So does any error until the first consumer is
  followed.
* After a full buffer the next consumer is created once half of the buffer has been taken.
* Attempts wait for a link.

A position is proved before a consumer is subscribed to (``rules.position``):

* STREAM.INFO is asked for before the first consumer is created, and again once any consumer was created.
* The position is the last message that was kept. Where the stream has later ones, it is looked up there.
* A stream that was made again is read from its first message, or from the start time that was asked for
  (StreamRecreated).
* A stream that came back shorter is read on from the first message that is newer than the last one kept
  (StreamRolledBack).
* Both need two answers, and a pause between them. Reading pauses meanwhile.
* A consumer dies with its stream. So one that was created between two equal answers belongs to the stream that these
  are about.
* Requests go one by one: servers would carry two out in any order (FACTS.md F7.13).
* Where a question is forbidden, or finds no responder, what it would have shown goes unnoticed.
* Until a consumer is subscribed to, the server counts its ``inactive_threshold``, which must be more than a round trip.

A sequence is no start for the policy "last_per_subject". Until the last message of each subject has come, a new
consumer asks for all of them again. A subject that was written to meanwhile shows its newest message only.

Not seen by any subscriber: a consumer that was set forward before its first message arrived. And with a filter, what
limits drop while a consumer waits.

Not here: finding the stream (``subscribe``), the buffer and flow control (``push_buffer``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, Protocol, TypeVar, Unpack

from jsproto.client.connection.requests import is_no_responders
from jsproto.client.consume.consume_options import OrderedOptions
from jsproto.client.consume.heartbeats import DEFAULT_HEARTBEAT
from jsproto.client.consume.message import Acker, ConsumerMsg
from jsproto.client.consume.resuming import ANSWER_WITHIN, ResumingBuffer, stays
from jsproto.errors import (
    Error,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessagesDroppedError,
    NotJSMessageError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RetentionError,
    StreamRecreatedError,
    StreamRolledBackError,
    TimeoutError,
)
from jsproto.events import MessagesMissed, OrderedConsumerRecreated, StreamRecreated, StreamRolledBack
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.bodies import MAX_UINT64, dumps
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
from jsproto.grammar.jsack import jsack_sequences, parse_jsack
from jsproto.grammar.options import checked
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import number
from jsproto.grammar.subjects import contains, has_wildcards
from jsproto.outbox import Outbox
from jsproto.rules.ordered import ORDERED, OrderedPhase, OrderedStep
from jsproto.rules.position import LOOKS, PositionCheck, StreamFacts, Verdict
from jsproto.rules.sequence_gaps import NO_PREFIX, DeliverySequence, SequenceGap
from jsproto.timers import Timer
from jsproto.wire.frames import Msg, RawMsg

D = TypeVar("D", bound=ConsumerMsg)

MAX_HOLES: Final = 1_000
"""More holes that wait for an explanation count as one."""
FORGOTTEN_AFTER: Final = 300.0  # seconds without a subscriber until the server deletes a consumer


class OrderedReader(Protocol):
    """What is built on an ordered consumer."""

    def rested(self) -> None:
        """A consumer has sent all that the stream had when it was followed. It may be told again and again."""

    def ended(self, error: Error) -> Error:
        """It ends with ``error``. Returns what the application is told."""


class OrderedConsumer(ResumingBuffer[D]):
    """One ordered reading of a stream. Made by ``JetStream.subscribe_ordered``.

    Attributes, besides those of ``PushBuffer``: ``phase``, ``recreated`` (how often another consumer was needed) and
    ``reader`` (who wants to hear more than the application, or None).
    """

    __slots__ = (
        "_asked", "_check", "_come_to", "_config", "_count", "_end_seen", "_filter", "_hear", "_holes", "_identity",
        "_if_missed",
        "_is_asked_for", "_is_idle", "_is_placed", "_last_reply", "_left", "_made", "_may_compare", "_may_look",
        "_ready_by", "_requests", "_restating", "_start", "_takes_all", "_timeout", "_token", "phase", "reader",
        "recreated",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        acker: Acker[D],
        *,
        api: ApiSubjects,
        inbox: str,
        config: ConsumerConfig,
        stream: str,
        subject: str,
        timeout: float,
        now: float,
        idle_heartbeat: float = DEFAULT_HEARTBEAT,
        **options: Unpack[OrderedOptions],
    ) -> None:
        """Create the first consumer. ``config``: what to deliver, and from where on. The rest is settled here.

        ``inbox``: a subject of its own. Its last token names the consumers. ``timeout``: seconds until the first
        consumer must be followed. ``idle_heartbeat``: seconds.

        Raises:
            LocalProtocolError: an ordered consumer cannot have this configuration, or a value is out of range.
        """
        if not idle_heartbeat > 0 or not timeout > 0:
            raise LocalProtocolError("an ordered consumer needs heartbeats and a timeout greater than 0")
        asked = checked(OrderedOptions, options)
        super().__init__(
            outbox, acker, api=api, inbox=inbox, stream=stream, consumer="", subject=subject,
            patience=idle_heartbeat * asked["heartbeats_missed"], now=now, limits=asked,
        )  # fmt: skip
        self.phase = OrderedPhase.CREATING
        self.recreated = 0
        self.reader: OrderedReader | None = None
        self._config = settled(config, idle_heartbeat)
        self._timeout = timeout
        self._ready_by = now + timeout
        self._made = 0  # how many consumers were asked for
        if config.deliver_policy == "by_start_sequence":
            self._floor = max((config.opt_start_seq or 0) - 1, 0)
        self._is_placed = False  # from where on to read is known, even if that is the beginning
        self._if_missed = asked["if_missed"]
        self._identity: str | None = None  # of the stream; None while unknown
        self._may_compare = self._may_look = True
        self._takes_all = False  # no message is passed over but what is gone, and limits can drop
        self._holes: list[tuple[int, int]] = []  # the sequences before and after what is gone, until that is explained
        self._check: PositionCheck | None = None  # of the position, until it is proved
        self._last_reply = b""  # of the last message that was taken
        self._left = 0  # how many consumers were made before sequences changed their meaning
        self._end_seen = StreamPosition(self.stream, -1)  # where the stream ended when a consumer was followed
        self._hear: Callable[[Msg, float], None] = self._identified  # what the answer to the present request is for
        self._restating = config.deliver_policy == "last_per_subject"
        self._count = DeliverySequence()
        self._is_asked_for = False  # a consumer was, and was not left
        self._is_idle = False  # a consumer has said that it had delivered all
        self._come_to = 0  # the present consumer has nothing to deliver up to this sequence but what it has sent
        self._start: int | None = None  # after which sequence the present consumer starts, if it said so
        self._token = b""
        self._requests = 0
        self._asked = ""
        api.consumer_create(self.stream, "c", config.filter_subject or None)  # refuses bad names: nothing is sent yet
        is_publishable = self._outbox.takes_patterns or not has_wildcards(config.filter_subject or "")
        self._filter = (is_publishable and config.filter_subject) or None
        self._hold_anchor()
        self._create(now)

    # -- the application's verbs ---------------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        """The stream sequence up to which everything was received. Another consumer would start after it."""
        return max(self._floor, self._count.stream_seq)

    @property
    def end_seen(self) -> int | None:
        """The last stream sequence when a consumer was followed. None: the leader has not told."""
        return self._end_seen.seq if self._end_seen.seq >= 0 else None

    @property
    def is_idle(self) -> bool:
        """Whether all that the stream had was delivered once. ``readable()`` is completed when it becomes True."""
        return self._is_idle

    @property
    def come_to(self) -> int:
        """The sequence up to which the present consumer has sent all, as it said itself. 0 before it did."""
        return self._come_to

    @property
    def generation(self) -> int:
        """Another number once sequences mean other messages (StreamRecreated, StreamRolledBack)."""
        return self._left

    def wake(self) -> None:
        """Complete the ticket of ``readable()``: there is something besides messages."""
        self._readable.notify()

    # -- inputs --------------------------------------------------------------------------------------------------------

    def answered(self, message: Msg, now: float) -> None:
        """The API has answered a request of this consumer."""
        if message.subject != self._answer_to:
            return  # it was late, or is about a consumer that was left
        self._answer_to = b""  # once is enough
        try:
            self._hear(message, now)
        except Error as error:
            if self.phase is OrderedPhase.FOLLOWING:  # only a hole was asked about
                self._timers.stop(Timer.CREATED)
            elif isinstance(error, JetStreamNotAvailableError) and not self._is_asked_for:
                self._ask_for_consumer(now)  # if JetStream is there, STREAM.INFO alone is not
            else:
                self._failed(error, now)

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The user is forbidden to ask for a consumer, to receive its messages, or to compare its stream."""
        is_needed = violation.subject == self._asked or self._flow.has_answered(violation.subject)
        if violation.operation == "subscribe" or is_needed:
            self._end(violation)
        elif violation.subject == self._api.stream_msg_get(self.stream):
            self._may_look = False
            if self.phase is OrderedPhase.COMPARING:
                self._follow_consumer(now)
        elif violation.subject == self._api.stream_info(self.stream):
            self._may_compare, self._identity = False, None
            if self.phase is OrderedPhase.COMPARING:
                self._follow_consumer(now)
            elif self.phase is OrderedPhase.CREATING and not self._is_asked_for:
                self._ask_for_consumer(now)

    def anchor_lost(self, error: Error, now: float) -> None:
        """The link is gone, and the consumer with it."""
        if self._outbox.closed_error is not None or self._ready is not None:
            self._end(error)
        elif self.phase is not OrderedPhase.ENDED:
            self._drop(tell=False)
            self._step(OrderedStep.LOSE)

    def anchor_restored(self, now: float) -> None:
        """There is a new link."""
        if self.phase is OrderedPhase.DOWN:
            self._works()
            self._recreate("the link was lost", now)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _inspect(self, message: Msg, reply: bytes, now: float) -> bool:
        if self._sid is None or self._token not in reply:
            self._ignore("not a delivery of this consumer")
            return False
        last, count = self.last_seq, self._count
        try:
            restating = self._restating and parse_jsack(reply).num_pending > 0
            broken = count.delivered(reply)
        except NotJSMessageError as error:
            self._ignore(str(error))
            return False
        if broken is not None:
            self._floor, count.stream_seq = last, 0
            self._broken(broken, now)
            return False
        self._floor = last
        self._works()
        if self._restating:
            self._restating = restating
            count.expected_prefix = NO_PREFIX
            if not restating and count.stream_seq <= last:  # it came before, and would have told
                self._rests()
        elif self._takes_all and count.stream_seq > last + 1:
            self._found_holes([(last, count.stream_seq)], now)
        return count.stream_seq > last

    def _follow(self, raws: Sequence[RawMsg]) -> int:
        last = self._count.stream_seq
        if self._restating or last < self._floor:  # each one is looked at
            return 0
        taken = super()._follow(raws)
        if self._takes_all and self._count.stream_seq - last != taken:
            seqs = [last, *(jsack_sequences(raw[1])[0] for raw in raws[:taken])]
            self._found_holes([(one, two) for one, two in pairwise(seqs) if two > one + 1], self._watch.heard_at)
        return taken

    def _broken(self, broken: SequenceGap, now: float) -> None:
        what = "it counts anew" if broken.restarted else "deliveries were lost"
        self._recreate(f"{what}: {broken.found} where {broken.expected} was next", now)

    def _receive_heartbeat(self, header: bytes, now: float) -> None:
        super()._receive_heartbeat(header, now)
        if self.phase is OrderedPhase.FOLLOWING:
            self._works()
            if self._takes_all and not self._holes and self._expects_more(header):
                self._found_holes([(self.last_seq, MAX_UINT64)], now)
            self._ask_about_holes(now)
            last = number(header, b"Nats-Last-Stream")
            self._come_to = max(self._come_to, last or 0)
            if last is not None and 0 <= self._end_seen.seq <= last:
                self._rests()

    def _rests(self) -> None:
        """All that there was has been delivered."""
        if not self._is_idle:
            self._is_idle = True
            self._readable.notify()
        if self.reader is not None:
            self.reader.rested()

    def _expects_more(self, header: bytes) -> bool:
        """Whether the last message announced more, and an idle consumer says that this was all."""
        last_reply = self._buffer.raws[-1][1] if self._buffer else self._last_reply
        if not last_reply or self._token not in last_reply or b"Nats-Consumer-Stalled" in header:
            return False
        last = parse_jsack(last_reply)
        return last.num_pending > 0 and last.sequence.stream == self.last_seq

    def _silent(self, first: bool, now: float) -> None:
        self._recreate(f"nothing came for {now - self._watch.heard_at:g} s", now)

    def _refused(self, error: Error, now: float) -> None:
        self._recreate(str(error), now)

    def _overflow(self, size: int, now: float) -> None:
        super()._overflow(size, now)
        last_reply = self._buffer.raws[-1][1]
        if self._token in last_reply:  # else nothing of this consumer is kept
            self._floor = max(self._floor, jsack_sequences(last_reply)[0])  # what was told to be missing stays told
        self._count.stream_seq = 0
        self._recreate("the buffer was full", now)

    def _after_taking(self, taken: list[RawMsg], now: float) -> None:
        if taken:
            self._last_reply = taken[-1][1]
        if self.phase is OrderedPhase.FULL and not self._half_full():
            self._full = False
            self._awaited = 0
            self._try_again(now)

    def _handle_timer(self, timer: Timer, now: float) -> None:
        if self.phase is OrderedPhase.FOLLOWING:
            self._answer_to = b""  # the next heartbeat asks again
        elif timer is Timer.CREATED:
            is_creation = self._is_asked_for and self.phase is OrderedPhase.CREATING
            what = "creating a consumer" if is_creation else "asking for its stream"
            self._failed(TimeoutError(f"no answer to {what} in time"), now)
        else:
            self._create(now)

    # -- one consumer after the other ----------------------------------------------------------------------------------

    def _create(self, now: float) -> None:
        """Ask for a consumer that starts after the last message kept."""
        self._step(OrderedStep.CREATE)
        self._floor = kept = self.last_seq
        # What came after a hole may have found no room: the new consumer starts before that hole, which is told once.
        self._holes = [(last, min(after, kept + 1)) for last, after in self._holes if last < kept]
        self._count = self._seen = DeliverySequence()
        self._start = None
        self._come_to = 0
        self._made += 1
        self.consumer = f"{self._inbox.rpartition('.')[2]}_{self._made}"
        self._token = f".{self.stream}.{self.consumer}.1.".encode()
        self._deliver = f"{self._inbox}.{self._made}.m"
        if self._identity is None and self._may_compare:
            self._ask_for_identity(now)
        else:
            self._ask_for_consumer(now)

    def _ask_for_consumer(self, now: float) -> None:
        """Ask for the present consumer."""
        config = self._config.replaced({"name": self.consumer, "deliver_subject": self._deliver})
        if (self._floor or self._is_placed) and not self._restating:
            config.deliver_policy, config.opt_start_seq = "by_start_sequence", self._floor + 1
            config.opt_start_time = None
        self._asked = self._api.consumer_create(self.stream, self.consumer, self._filter)
        body = {"stream_name": self.stream, "config": config.to_json(), "action": "create"}
        self._is_asked_for = True
        self._hear = self._created
        self._ask(self._outbox.publish_to_pattern, self._asked, dumps(body), now)

    def _ask_for_identity(self, now: float) -> None:
        """Ask for the stream's state."""
        self._hear = self._identified
        self._ask(self._outbox.publish, self._api.stream_info(self.stream), b"", now)

    def _ask(self, publish: Callable[[str, bytes, bytes], None], subject: str, body: bytes, now: float) -> None:
        self._requests += 1
        self._answer_to = f"{self._inbox}.{self._requests}".encode()
        try:
            publish(subject, body, self._answer_to)
        except OutboundBufferLimitError as error:
            self._answer_to = b""
            if self.phase is not OrderedPhase.FOLLOWING:
                self._failed(error, now)
            return
        self._outbox.flush()
        by = now + min(self._timeout, ANSWER_WITHIN) if self._ready is None else self._ready_by
        self._timers.set(Timer.CREATED, by)
        self._outbox.rearm(self)

    def _created(self, answer: Msg, now: float) -> None:
        """The present consumer is there."""
        info = ConsumerInfo.from_json(self._body(answer, f"stream {self.stream}"))
        self._come_to = info.delivered.stream_seq
        if self._restating:
            self._restating = info.num_pending > 0
        elif not info.delivered.consumer_seq:  # nothing was on its way yet: this is where it starts
            self._start = info.delivered.stream_seq
        if not info.num_pending:
            self._rests()
        if self._identity is None:  # there is nothing to compare with
            self._follow_consumer(now)
        else:
            self._step(OrderedStep.COMPARE)
            self._ask_for_identity(now)

    def _identified(self, answer: Msg, now: float) -> None:
        """The stream's leader has told its state."""
        info = StreamInfo.from_json(self._body(answer, f"stream {self.stream}"))
        facts = StreamFacts.of(info)
        if info.config.retention == "interest":
            self._end(RetentionError(self.stream))
        elif self._explain_holes(facts.first_seq) and not self._is_asked_for:
            self._identity = facts.identity
            self._ask_for_consumer(now)
        elif self.phase is OrderedPhase.COMPARING:
            may_miss = facts.drops_front and not self._restating and self._if_missed != "skip"
            self._takes_all = may_miss and takes_all(self._config, info.config)
            if self._check is None:
                self._check = PositionCheck(self._position())
            verdict = self._check.state(facts, now)
            if verdict is Verdict.ASK_AGAIN and self._ready is not None:  # nothing was read: nothing can be mistaken
                verdict = Verdict.UNPROVEN if facts.identity == self._identity else Verdict.RECREATED
            self._believe(self._check, verdict, now)

    def _looked(self, answer: Msg, now: float) -> None:
        """The stream's leader has told a message at the position."""
        assert self._check is not None  # which has asked for it
        heard = self._check.unanswered() if is_no_responders(answer) else self._check.answer(answer.payload, now)
        self._believe(self._check, heard, now)

    def _position(self) -> StreamPosition:
        """The last message that was kept, with its time if that is known."""
        seq = 0 if self._restating else self._floor
        last_reply = self._buffer.raws[-1][1] if self._buffer else self._last_reply
        if last_reply:
            last = parse_jsack(last_reply)
            if last.sequence.stream == seq and int(last.consumer.rpartition("_")[2]) > self._left:
                return StreamPosition(self.stream, seq, self._identity, last.timestamp)
        if self._end_seen.seq == seq:  # nothing has come since the stream told its end
            return self._end_seen
        is_ahead = 0 <= self._end_seen.seq < seq  # nothing has come, and the stream did not go that far
        return StreamPosition(self.stream, 0 if is_ahead else seq, self._identity)

    def _believe(self, check: PositionCheck, verdict: Verdict, now: float) -> None:
        """Go on as the ``verdict`` about the position says."""
        assert check.facts is not None  # they have led to it
        if verdict in LOOKS and self._may_look:
            self._hear = self._looked
            self._ask(self._outbox.publish, self._api.stream_msg_get(self.stream), check.question(), now)
        elif verdict is Verdict.ASK_AGAIN:
            assert check.again_at is not None  # a doubt has begun
            self._drop()
            self._pause_until(check.again_at)
        elif verdict is Verdict.RECREATED:
            config = self._config
            if config.deliver_policy != "by_start_time":  # a time means the same in any stream
                config = config.replaced({"deliver_policy": "all", "opt_start_seq": None})
            self._identity = check.facts.identity
            self._begin_anew(0, config, StreamRecreated(self.stream, self.last_seq), now)
        elif verdict is Verdict.ROLLED_BACK:
            floor, config, witness = check.facts.last_seq, self._config, check.position.witness
            if witness is not None:  # it may have grown again: what is newer is new
                floor, config = 0, config.replaced({"deliver_policy": "by_start_time", "opt_start_time": witness + 1})
                config.opt_start_seq = None
            self._begin_anew(floor, config, StreamRolledBack(self.stream, self.last_seq), now)
        else:
            is_placed = (self._is_placed or check.position.seq > 0) and check.position.seq == self._floor
            first = check.facts.first_seq
            if verdict is Verdict.DROPPED and is_placed:
                if not self._has_missed(check.position.seq, first):
                    return
                self._start = max(self._start or 0, first - 1)  # told once
            self._end_seen = check.facts.position(self.stream)
            self._follow_consumer(now)

    def _has_missed(self, last_seq: int, next_seq: int) -> bool:
        """What lies between was dropped before its turn. Returns whether the reading goes on."""
        if self._if_missed == "error":
            self._end(MessagesDroppedError(last_seq + 1, next_seq))
            return False
        if self._if_missed == "tell":
            self._outbox.emit(MessagesMissed(self.stream, last_seq + 1, next_seq - 1))
        return True

    def _found_holes(self, holes: Sequence[tuple[int, int]], now: float) -> None:
        """The consumer has passed over messages. Those that limits dropped are to be told."""
        self._holes += holes
        if len(self._holes) > MAX_HOLES:
            self._holes = [(self._holes[0][0], self._holes[-1][1])]
        self._ask_about_holes(now)

    def _ask_about_holes(self, now: float) -> None:
        if self._holes and not self._answer_to and self._may_compare:
            self._ask_for_identity(now)

    def _explain_holes(self, first_seq: int) -> bool:
        """The stream begins there. Returns whether the reading goes on."""
        if not self._holes:
            return True
        holes, self._holes = self._holes, []
        if self.phase is OrderedPhase.FOLLOWING:
            self._timers.stop(Timer.CREATED)
            self._floor = max(self._floor, min(first_seq, holes[-1][1]) - 1)  # told once
        return all(self._has_missed(last, min(first_seq, after)) for last, after in holes if first_seq > last + 1)

    def _begin_anew(
        self, floor: int, config: ConsumerConfig, told: StreamRecreated | StreamRolledBack, now: float
    ) -> None:
        """Sequences mean other messages now: read what comes after ``floor``, or what ``config`` says."""
        if self._if_missed == "error" and self._ready is None:
            is_back, stream = isinstance(told, StreamRolledBack), self.stream
            self._end(StreamRolledBackError(stream, told.last_seq) if is_back else StreamRecreatedError(stream))
            return
        self._drop()
        self._outbox.emit(told)
        self._check, self._left, self._end_seen, self._holes = None, self._made, StreamPosition(self.stream, -1), []
        self._restating = self._is_placed = False
        self._floor, self._count.stream_seq = floor, 0
        self._config = config
        self._create(now)

    def _follow_consumer(self, now: float) -> None:
        """What the present consumer delivers is what comes next."""
        self._step(OrderedStep.FOLLOW)
        self._check = None
        self._timers.stop(Timer.CREATED)
        if self._start is not None:
            self._floor = max(self._floor, self._start)
            self._is_placed = True
        self._sid = self._outbox.subscribe(self._deliver, self)
        self._outbox.flush()
        self._listen(now)
        self._is_there()

    def _failed(self, error: Error, now: float) -> None:
        """The present consumer failed to be created, or to be compared."""
        if self._ready is not None or stays(error):
            self._end(error)
        else:
            self._drop()
            self._try_again(now)

    def _recreate(self, reason: str, now: float) -> None:
        """Leave the present consumer for another one."""
        self._drop()
        self.recreated += 1
        self._outbox.emit(OrderedConsumerRecreated(self.stream, self.consumer, self.last_seq, reason))
        self._try_again(now)

    def _try_again(self, now: float) -> None:
        if self._half_full():  # there would soon be no room again
            self._step(OrderedStep.FILL)
            return
        pause = self._backoff.failed(now) if self._has_tried else None
        self._has_tried = True
        if pause is None:
            self._create(now)
        else:
            self._pause_until(now + pause)

    def _pause_until(self, when: float) -> None:
        self._step(OrderedStep.PAUSE)
        self._timers.set(Timer.CREATE, when)
        self._outbox.rearm(self)

    def _drop(self, *, tell: bool = True) -> None:
        """Leave the present consumer. ``tell`` the server that it can be deleted, which it would find out itself."""
        self._flow.clear()
        self._answer_to = b""
        is_asked_for, self._is_asked_for = self._is_asked_for, False
        self._leave()
        if tell and is_asked_for:
            try:
                self._outbox.publish(
                    self._api.consumer_delete(self.stream, self.consumer), b"", f"{self._inbox}.deleted".encode()
                )
            except OutboundBufferLimitError:  # the server will find out itself
                return

    def _end(self, error: Error) -> None:
        if self.phase is OrderedPhase.ENDED:
            return
        self._step(OrderedStep.END)
        self._drop(tell=self._outbox.closed_error is None)
        self._conclude(error if self.reader is None else self.reader.ended(error))

    def _step(self, step: OrderedStep) -> None:
        self.phase = ORDERED[self.phase, step] or self.phase


def takes_all(config: ConsumerConfig, stream: StreamConfig) -> bool:
    """Whether a consumer delivers all messages of a stream: its filter takes each subject that the stream takes."""
    wanted = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [">"])
    if stream.mirror is not None or stream.sources:  # their subjects are those of others
        return ">" in wanted
    return all(any(contains(wide, each) for wide in wanted) for each in stream.subjects or [stream.name])


def settled(config: ConsumerConfig, idle_heartbeat: float) -> ConsumerConfig:
    """``config`` with what every consumer of an ordered reading has."""
    return replace(
        config, durable_name=None, ack_policy="none", ack_wait=None, max_deliver=1, flow_control=True,
        idle_heartbeat=idle_heartbeat, mem_storage=True, num_replicas=1,
        inactive_threshold=config.inactive_threshold or FORGOTTEN_AFTER,
    )  # fmt: skip
