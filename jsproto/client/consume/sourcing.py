"""The sourcing end of a flow-control consumer: what a stream has is handed on in order, and acknowledged when stored.

A sink takes the messages, stores them, and says with ``confirm`` up to which stream sequence all is stored. Only that
is acknowledged, by answers to the server's flow control. A sink that remembers its position, and begins from it next
time, stores each message once: the consumer begins after what is acknowledged, and what the sink has is passed over.

Six sequences of the stream, from what the server may delete to what has come::

    -------|-------------|--------------|------------|--------------|----------> stream sequence
        _acked      _log.stored      position      taken        received
           '--- after a reset _log.stream_seq runs here again ----->|--- then ahead, and received with it

    _acked           the server had an acknowledgement of all up to here when the consumer was reset
    _log.stored      the server is told of all up to here when it asks (``_answered``: as the consumer counts)
    position         the sink has stored all up to here (``confirm``)
    taken            the sink was handed all up to here (``pop_many``)
    received         all up to here has come. ``_floor`` keeps it when the consumer's numbers begin again
    _log.stream_seq  the last delivery since the reset

``_log.stored <= position <= taken <= received`` holds all the time. A sink that has less than ``_acked`` has lost
messages: the event ``SourceSkipped`` tells which.

Five automata share this object, each with fields of its own:

* The claim (``phase``, a table in ``rules.sourcing_phases``): whose the consumer is.
* The numbers (``_log``): whether deliveries are complete, and which of them are stored.
* The answer (``_asked``, ``_answered``, ``_stuck``): what the server waits for.
* The proof (``_check``, ``facts``): whether ``position``, or later ``received``, still means the same message.
* The hold (``schedule``, ``_held_by``): the message before which acknowledgements stop.

Where they meet:

* ``_inspect`` and ``_receive_heartbeat`` move the numbers, and may set the hold. A wrong number, a question that stays
  and silence begin another claim (``_begin_again``).
* ``_drop`` leaves a claim. It forgets the question, and gives the proof what was received.
* ``_run`` begins with a proved position. Numbers, answer and hold are new, and the sink's sequences stay.
* ``confirm`` moves the sink. It may answer, and it ends the wait for the last messages of an old stream.

Life:

* The consumer is claimed: it is made to deliver to a subject of this machine alone. The server refuses that while
  another owner is subscribed. Then it is tried again, with growing pauses (``retry``).
* The stream is looked up after a claim, if that is permitted.
* It is reset with an empty body, so that it begins again after what is acknowledged. A reset to the position would
  leave orphans in a work queue. The subscription follows the answer: before it, messages would come twice.
* A server that stops may keep messages in a work queue that were acknowledged (FACTS.md F4.28). The consumer is reset
  to the first of them. They are passed over, and acknowledged again. In a queue that is shared (``sourcing``) others
  may want them, and they are left.
* What is as old as the last message received, or older, is passed over. It counts as stored as far as the sink has
  confirmed it.
* So each claim proves the position first (``rules.position``): at the start that of the sink, later what was received.
  Until that is done there is no subscription, and nothing is acknowledged. A user who may not look goes on unproven.

Answers (FACTS.md F4.5, F4.6):

* An answer has both sequences of the last message that is stored, as the consumer counts since its last reset.
* An answer goes no further than what was delivered, and acknowledges something new.
* A request is answered once, in a request's life and the life of a subscription.
* A consumer that is stalled after its reset, before its first delivery, gets the one bare answer: a reset keeps the
  bytes that the consumer waits for.

What goes wrong:

* A number of the consumer that is missing: the consumer is claimed again, the first time at once and then after a
  pause. So it is after a message that is older than the one before: a stream that came back shorter looks like that.
* Number 1 of a message that was acknowledged before the reset: it is late, and the first one is still to come.
* Number 1, or a heartbeat before it, where another was expected: somebody else has reset it. It stays as it is. The
  numbers begin again, and what was received is passed over. What was skipped is an event.
* Two heartbeats that still wait, although the answer was given or everything is acknowledged: the answer was lost, or
  ignored. The consumer is claimed again.
* Silence for three heartbeats: it is claimed again, which shows whether another owner has it.
* The link is lost: it is claimed on the next link. Requests of the old link are forgotten, and the position stays.
* The stream ends before the position, or has another message there: this ends with SourcePositionError. It came back
  shorter than it was, and what is stored next would be taken for what the sink has. That takes two answers: the stream
  is looked up again after a pause (``ELECTION``), however long the first claim may last.
* Another identity of the stream: it was made anew, and is read from its beginning. Before that, all that was received
  of the old one is to be confirmed, so that a sequence means one message only.
* With ``within``, the first claim has so many seconds. Then this ends, with SourceBusyError if another owner is there.
* A schedule, which is a message that stands for others: it is passed over (SchedulePassedOver). A work queue would
  delete it with the acknowledgement of what comes after it. So nothing from there on is acknowledged until it is gone,
  which the next claim shows. A consumer that stalls because of it is claimed again. The second time this ends with
  SourceScheduleError.
* An API error other than a server error (5xx) ends it. So does ``fail``: the sink is fenced, for example.

Unknown to every subscriber: an answer may cross a reset by somebody else, and then has numbers from before it. A server
takes it, may pass over the right answers that follow, and may keep messages which the sink has.

Invisible to every subscriber: a reset by somebody else that takes deliveries with it, if the next number happens to be
the expected one.

Not here: sinks, and where a position is kept. The buffer is in ``push_buffer``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final, TypeVar, Unpack

from jsproto.api_errors import (
    ConsumerAlreadyExistsError,
    ConsumerDoesNotExistError,
    ConsumerNameExistError,
    ConsumerNotFoundError,
)
from jsproto.client.consume.consume_options import SourceOptions
from jsproto.client.consume.heartbeats import HEARTBEATS_MISSED
from jsproto.client.consume.message import Acker, ConsumerMsg
from jsproto.client.consume.resuming import ANSWER_WITHIN, ResumingBuffer, stays
from jsproto.errors import (
    APIError,
    ConfigMismatchError,
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    NotJSMessageError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    SourceBusyError,
    SourcePositionError,
    SourceScheduleError,
    TimeoutError,
)
from jsproto.events import (
    ConsumerRestarted,
    SchedulePassedOver,
    SourceBusy,
    SourceReset,
    SourceSkipped,
    StreamRecreated,
)
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
from jsproto.grammar.copies import SCHEDULE_LINE
from jsproto.grammar.headers import last_value
from jsproto.grammar.jsack import jsack_sequences, parse_jsack
from jsproto.grammar.options import checked
from jsproto.grammar.position import StreamPosition
from jsproto.outbox import Outbox
from jsproto.rules.delivery_log import DeliveryLog
from jsproto.rules.position import LOOKS, NEGATIVE, PositionCheck, StreamFacts, Verdict
from jsproto.rules.sequence_gaps import NO_PREFIX, SequenceGap
from jsproto.rules.sourcing_phases import SOURCING, SourcingPhase, SourcingStep
from jsproto.ticket import Readable, Ticket
from jsproto.timers import Timer
from jsproto.wire.frames import Msg, RawMsg

D = TypeVar("D", bound=ConsumerMsg)

SOURCE_HEARTBEAT: Final = 1.0  # seconds; servers set it for every flow-control consumer (FACTS.md F4.2)
STUCK_HEARTBEATS: Final = 2  # in a row that ask for what was answered: one may have crossed the answer
DEFAULT_ACK_PENDING: Final = 1_000  # deliveries without an acknowledgement, where the consumer says no other number
IDENTITY: Final = b"Nats-Stream-Identity"
_RACES: Final = (ConsumerNameExistError, ConsumerAlreadyExistsError, ConsumerDoesNotExistError)
_HEADER: Final = itemgetter(2)  # of a message as it came
_ASK_IDENTITY: Final = b"NATS/1.0\r\n%b: \r\n\r\n" % IDENTITY
_ANSWER: Final = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n"


class ReadableWithNews(Readable):
    """``Readable`` with a second one, which hears of more. Attribute: ``news`` (that one)."""

    __slots__ = ("news",)

    def __init__(self, completed: Callable[[Ticket[None]], None]) -> None:
        super().__init__(completed)
        self.news = Readable(completed)

    def notify(self) -> None:
        """There is a message now."""
        super().notify()
        self.news.notify()

    def fail(self, error: Error) -> None:
        """There will be no message any more."""
        super().fail(error)
        self.news.fail(error)


class SourcingConsumer(ResumingBuffer[D]):
    """The sourcing end of one consumer.

    Attributes, besides those of ``PushBuffer``:

    * ``phase``.
    * ``position``: the stream sequence up to which the sink has all.
    * ``identity``: that of the stream, as text of the server. None while unknown, or from servers before 2.15.
    * ``taken``: the stream sequence up to which the sink was handed all.
    * ``resets``: how often something was wrong, so that the consumer had to be claimed again.
    * ``info``: the consumer, as the server described it last. None before.
    * ``facts``: the stream, as it was at the last claim. None before, or if it may not be asked for.
    * ``schedule``: sequence and subject of the first schedule that was passed over since then. None: there is none.
    """

    __slots__ = (
        "_acked", "_answered", "_answered_subject", "_asked", "_check", "_config", "_held_by", "_is_told_busy",
        "_last_taken", "_log", "_look_at", "_look_up", "_next_identity", "_ready_by", "_requested", "_requests",
        "_stuck", "facts", "identity", "info", "phase", "position", "resets", "schedule", "taken",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        acker: Acker[D],
        *,
        api: ApiSubjects,
        inbox: str,
        consumer: str,
        stream: str,
        subject: str,
        within: float | None = None,
        now: float,
        **options: Unpack[SourceOptions],
    ) -> None:
        """Claim ``consumer`` of ``stream``. Events name its ``subject``.

        ``inbox``: a subject that nothing else uses, here and in other programs. ``within``: seconds for the first
        claim, None for no end. ``now``: monotonic seconds.

        Raises:
            LocalProtocolError: ``config`` has another ack policy or a deliver group, ``position`` is no position in
                this stream, or ``identity`` is no text.
        """
        asked = checked(SourceOptions, options)
        config = asked["config"]
        if config is not None and (fields := unfit(config)):
            raise LocalProtocolError(f"a consumer that is sourced cannot have this {' and '.join(fields)}")
        super().__init__(
            outbox, acker, api=api, inbox=inbox, stream=stream, consumer=consumer, subject=subject,
            patience=SOURCE_HEARTBEAT * HEARTBEATS_MISSED, now=now, limits=asked,
        )  # fmt: skip
        self._readable: ReadableWithNews = ReadableWithNews(outbox.completed)
        known = _checked(asked["position"], asked["identity"], self.stream)
        self.phase = SourcingPhase.CLAIMING
        self.position = self.taken = known.seq
        self.identity = known.identity
        self.resets = 0
        self.info: ConsumerInfo | None = None
        self.facts: StreamFacts | None = None
        self._deliver = f"{inbox}.d.m"
        self._look_up = api.stream_info(self.stream)
        self._look_at = api.stream_msg_get(self.stream)
        self._check = PositionCheck(known)  # what the next claim has to prove
        self._last_taken = b""  # the reply subject of the last message that was taken
        self._config = config
        self._floor = known.seq
        self._acked = 0  # stream sequence up to which all was acknowledged when the consumer was reset
        self._log = DeliveryLog()
        self._asked: bytes | None = None  # the request that is to be answered
        self._answered_subject = b""
        self._answered = 0  # consumer sequence
        self._stuck = 0  # heartbeats in a row that ask for what was answered
        self._next_identity: str | None = None  # of the stream that was made anew, while it is not read
        self._is_told_busy = False
        self.schedule: tuple[int, str] | None = None
        self._held_by: tuple[int, str] | None = None  # the schedule for which the consumer was claimed again
        self._requests = 0
        self._requested = ""
        self._ready_by = None if within is None else now + within
        api.consumer_info(self.stream, consumer)  # refuses bad names: nothing is sent yet
        self._hold_anchor()
        self._limit_claim()
        self._claim(now)

    # -- the application's verbs ---------------------------------------------------------------------------------------

    @property
    def received(self) -> int:
        """The stream sequence up to which everything was received, whether it was taken or not."""
        return max(self._floor, self._log.stream_seq)

    @property
    def awaits_confirm(self) -> bool:
        """Whether the server waits for an answer, and what was received is all taken: only ``confirm`` can help."""
        return self._asked is not None and not self.pending_msgs and self.position < self.taken

    @property
    def is_acknowledged(self) -> bool:
        """Whether the server was told of all that is confirmed, as far as it has delivered it since the last reset."""
        return self._answered == self._log.stored[0]

    def position_of(self, message: ConsumerMsg) -> StreamPosition:
        """Up to which message of the stream a sink has all that has stored ``message``."""
        ack = message.metadata
        return StreamPosition(self.stream, ack.sequence.stream, self.identity, ack.timestamp)

    def pop_many(self, most: int, now: float) -> list[D]:
        """Take up to ``most`` messages, oldest first. Then ``confirm`` says that they are stored.

        Schedules are not among them.
        """
        return self.acker.messages(self.pop_raws(most, now))

    def pop_raws(self, most: int, now: float) -> list[RawMsg]:
        """``pop_many``, for a sink that makes no object of each message. They are in the order of their sequences."""
        raws = self._take(most, now)
        if raws:
            self._last_taken = raws[-1][1]
            self.taken, _ = jsack_sequences(self._last_taken)
            if SCHEDULE_LINE in b"".join(filter(None, map(_HEADER, raws))):
                return self._without_schedules(raws)
        return raws

    def news(self) -> Ticket[None]:
        """Completed when a message can be taken, all is acknowledged, or ``wake`` was called. Fails as ``readable``."""
        return self._readable.news.ticket(bool(self._buffer), self.error)

    def wake(self) -> None:
        """Complete the pending ticket of ``news``: whoever waits has something else to do."""
        self._readable.news.notify()

    def confirm(self, seq: int, now: float) -> None:
        """All messages up to stream sequence ``seq`` are stored. The consumer may forget them, and delete them.

        The same number again does nothing. After the end only ``position`` changes.

        Raises:
            LocalProtocolError: ``seq`` is below ``position``, or beyond what was taken.
        """
        if not self.position <= seq <= self.taken:
            raise LocalProtocolError(
                f"{seq} cannot be confirmed: up to {self.position} it was, and up to {self.taken} messages were taken"
            )
        self.position = seq
        self._answer()
        self._end_hold(now)

    def restart(self, position: int, now: float) -> None:
        """The sink has lost some of what it took: hand on again what comes after ``position``.

        What was taken or buffered above ``position`` is forgotten here, and comes again.

        Raises:
            LocalProtocolError: ``position`` is below what was confirmed, or beyond what was taken.
            ConnectionClosedError: this has ended.
        """
        if self.error is not None:
            raise ConnectionClosedError(f"the sourcing of {self.consumer} has ended: {self.error}")
        self.confirm(position, now)
        self._buffer.clear()
        self._floor = self.taken = position
        self._log = self._seen = DeliveryLog()
        if self.phase in (SourcingPhase.RUNNING, SourcingPhase.FULL):
            self._begin_again("the sink begins again", now)
        self._end_hold(now)

    def fail(self, error: Error) -> None:
        """The sink stores no more, because of ``error``: end. Nothing more is acknowledged."""
        self._end(error)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def answered(self, message: Msg, now: float) -> None:
        """The API has answered a request of this machine."""
        if message.subject != self._answer_to:
            return  # to a request that was given up
        self._answer_to = b""
        if self.phase is SourcingPhase.PROVING:
            self._looked_at(message, now)
            return
        if self._requested == self._look_up:
            self._looked(message, now)
            return
        try:
            info = ConsumerInfo.from_json(self._body(message, f"consumer {self.consumer} of stream {self.stream}"))
            if self.phase is SourcingPhase.RESETTING:
                identity = last_value(message.header, IDENTITY) if message.header else None
                self._begun_again(info, None if identity is None else identity.decode("utf-8", "replace"), now)
            else:
                self._found(info, now)
        except ConsumerNotFoundError as missing:
            if self._config is None:
                self._end(missing)
            else:
                durable = self._config.replaced({"name": self.consumer, "durable_name": self.consumer})
                self._ask_for(durable, "create", now)
        except Error as error:
            self._failed(error, now)

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The consumer cannot be asked for, or nothing of it may be received or acknowledged."""
        ours = (self._requested, self._answered_subject.decode("utf-8", "replace"))
        if violation.subject in (self._look_up, self._look_at):
            if self._answer_to and self._requested == violation.subject:
                self._answer_to = b""
                self._go_on_unproven(now)
        elif violation.operation == "subscribe" or violation.subject in ours:
            self._end(violation)

    def anchor_lost(self, error: Error, now: float) -> None:
        """The link is gone, and another owner may come."""
        if self._outbox.closed_error is not None:
            self._end(error)
        elif self.phase is not SourcingPhase.ENDED:
            self._drop()
            self._step(SourcingStep.LOSE)

    def anchor_restored(self, now: float) -> None:
        """There is a new link."""
        if self.phase is SourcingPhase.DOWN:
            self._works()
            self._claim(now)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _inspect(self, message: Msg, reply: bytes, now: float) -> bool:
        log, last = self._log, self.received
        before = log.stream_seq
        try:
            broken = log.delivered(reply)
        except NotJSMessageError as error:
            self._ignore(str(error))
            return False
        self._floor = last
        if broken is None and log.consumer_seq == 1 and log.stream_seq <= self._acked:
            self._log = self._seen = DeliveryLog()  # it is late, and from before the reset
            return False
        if broken is not None and broken.found == 1:
            self._restarted(broken)
            if log.stream_seq > last + 1:
                self._outbox.emit(SourceSkipped(self.stream, self.consumer, last + 1, log.stream_seq - 1))
        elif broken is not None or log.stream_seq <= before:
            found = f"{log.consumer_seq} (message {log.stream_seq})"
            log.stream_seq = 0
            self._begin_again(f"delivery {found} was not expected", now)
            return False
        is_new = log.stream_seq > last
        if is_new:
            self._works()
        elif log.stream_seq < last:
            log.expected_prefix = NO_PREFIX  # look at the next one, too
        if not is_new and message.header is not None and SCHEDULE_LINE in message.header:
            self._hold_back(log.stream_seq, message.subject)
        self._answer()
        return is_new

    def _follow(self, raws: Sequence[RawMsg]) -> int:
        # While what was received comes again, each one is looked at.
        return 0 if self._log.stream_seq < self._floor else super()._follow(raws)

    def _restarted(self, broken: SequenceGap) -> None:
        """Somebody else has reset the consumer: the numbers begin again."""
        self._answered = 0
        self._outbox.emit(ConsumerRestarted(self.stream, self.consumer, broken.expected, broken.found))

    def _broken(self, broken: SequenceGap, now: float) -> None:
        if broken.found == 1:  # and nothing was delivered since
            self._floor = self.received
            self._log.stream_seq = 0
            self._restarted(broken)
        else:
            self._begin_again(f"the last delivery was {broken.found - 1} where {broken.expected - 1} was received", now)

    def _receive_heartbeat(self, header: bytes, now: float) -> None:
        self._compare_heartbeat(header, now)  # first: an answer must count as the consumer does now
        if self.phase is not SourcingPhase.RUNNING:
            return
        stalled = last_value(header, b"Nats-Consumer-Stalled")
        is_held = self.schedule is not None and self.schedule[0] == self._log.open_seq
        if not stalled:
            self._works()
            if not is_held:
                self._stuck = 0
            return
        is_answered = stalled == self._answered_subject
        self._mark(stalled)
        is_stuck = is_answered or (self._asked is not None and self._log.consumer_seq == self._answered)
        if is_held:
            assert self.info is not None  # it was claimed
            limit = self.info.config.max_ack_pending or DEFAULT_ACK_PENDING
            is_stuck = self._log.consumer_seq - self._answered >= limit
        if self._asked is not None and (is_held or not self._log.consumer_seq):
            self._send_answer(None)
        self._stuck = self._stuck + 1 if is_stuck else 0
        if self._stuck < STUCK_HEARTBEATS:
            return
        if self.schedule is not None and self.schedule == self._held_by:
            self._end(SourceScheduleError(self.stream, *self.schedule))
        else:
            self._held_by = self.schedule
            self._begin_again("an answer to flow control had no effect", now)

    def _mark(self, subject: bytes) -> None:
        if subject != self._answered_subject:
            self._asked = subject
            self._answer()

    def _silent(self, first: bool, now: float) -> None:
        self._begin_again(f"nothing came for {now - self._watch.heard_at:g} s", now)

    def _refused(self, error: Error, now: float) -> None:
        self._begin_again(str(error), now)

    def _overflow(self, size: int, now: float) -> None:
        super()._overflow(size, now)
        self._floor, _ = jsack_sequences(self._buffer.raws[-1][1])
        self._log.stream_seq = 0
        self._drop()
        self._step(SourcingStep.FILL)

    def _after_taking(self, taken: list[RawMsg], now: float) -> None:
        if self.phase is SourcingPhase.FULL and not self._half_full():
            self._full = False
            self._begin_again("the buffer was full", now)

    def _handle_timer(self, timer: Timer, now: float) -> None:
        if timer is Timer.SOURCE_CLAIM:
            self._claim(now)
        elif timer is Timer.SOURCE_READY:
            where = (self.stream, self.consumer)
            late = TimeoutError("consumer {1} of stream {0} could not be claimed in time".format(*where))
            self._end(SourceBusyError(*where) if self._is_told_busy else late)
        else:
            self._failed(TimeoutError(f"no answer from {self._requested} within {ANSWER_WITHIN:g} s"), now)

    # -- acknowledging -------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        """Answer the request, if there is one and something new is stored."""
        stored = self._log.store(self.position if self.schedule is None else min(self.position, self.schedule[0] - 1))
        if self._asked is not None and self.phase is SourcingPhase.RUNNING and stored[0] > self._answered:
            self._send_answer(stored)

    def _send_answer(self, stored: tuple[int, int] | None) -> None:
        """Answer the request. ``stored``: consumer and stream sequence, None when nothing was delivered."""
        assert self._asked is not None  # who calls has looked
        try:
            self._outbox.publish(self._asked.decode(), b"", headers=None if stored is None else _ANSWER % stored)
        except OutboundBufferLimitError:
            return  # the sink confirms again, or the server repeats the request
        except (LocalProtocolError, UnicodeDecodeError) as error:  # no subject, or nobody to send it to
            self._ignore(f"flow control cannot be answered: {error}")
        else:
            self._outbox.flush()
            if stored is not None:
                self._answered, _ = stored
                self.wake()
        self._answered_subject, self._asked = self._asked, None

    # -- claims and resets ---------------------------------------------------------------------------------------------

    def _claim(self, now: float) -> None:
        """Look the consumer up, and make it deliver here."""
        self._step(SourcingStep.CLAIM)
        self._request(self._api.consumer_info(self.stream, self.consumer), b"", None, now)

    def _found(self, info: ConsumerInfo, now: float) -> None:
        """The consumer is there."""
        self.info = info
        if fields := unfit(info.config):
            self._end(ConfigMismatchError(self.stream, self.consumer, fields))
        elif info.config.deliver_subject == self._deliver:
            self._is_told_busy = False
            self._request(self._look_up, b"", None, now)
        else:
            self._ask_for(info.config, "update", now)

    def _looked(self, answer: Msg, now: float) -> None:
        """The stream was looked up: reset the consumer, to its first message if that is left over."""
        try:
            found = StreamInfo.from_json(self._body(answer, f"stream {self.stream}"))
        except Error as error:
            self._not_looked(error, now)
            return
        self.facts = StreamFacts.of(found)
        assert self.info is not None  # the stream is looked up after it
        first = found.state.first_seq
        is_left = found.state.messages and first <= self.info.ack_floor.stream_seq
        is_mine = found.config.retention == "workqueue" and not self.info.config.sourcing
        self._reset(now, first if is_left and is_mine else None)

    def _looked_at(self, answer: Msg, now: float) -> None:
        """A message was looked up, for the proof of the position."""
        try:
            verdict = self._check.answer(answer.payload, now)
        except Error as error:
            self._not_looked(error, now)
        else:
            self._judged(verdict, now)

    def _not_looked(self, error: Error, now: float) -> None:
        """There was an answer, and it says nothing of the stream."""
        if isinstance(error, APIError) and not stays(error):
            self._failed(error, now)
        else:
            self._go_on_unproven(now)

    def _go_on_unproven(self, now: float) -> None:
        """Nothing is said about the stream, or about the message at the position."""
        if self.phase is SourcingPhase.PROVING:
            self._judged(self._check.unanswered(), now)
        else:
            self.facts = None
            self._reset(now)

    def _ask_for(self, config: ConsumerConfig, action: str, now: float) -> None:
        wanted = config.replaced({"deliver_subject": self._deliver})
        body = {"stream_name": self.stream, "config": wanted.to_json(), "action": action}
        subject = self._api.consumer_create(self.stream, self.consumer)
        self._request(subject, dumps(body), None, now)

    def _reset(self, now: float, seq: int | None = None) -> None:
        self._step(SourcingStep.RESET)
        body = b"" if seq is None else dumps({"seq": seq})
        self._request(self._api.consumer_reset(self.stream, self.consumer), body, _ASK_IDENTITY, now)

    def _request(self, subject: str, payload: bytes, headers: bytes | None, now: float) -> None:
        self._requests += 1
        self._requested = subject
        self._answer_to = f"{self._inbox}.{self._requests}".encode()
        try:
            self._outbox.publish(subject, payload, self._answer_to, headers)
        except OutboundBufferLimitError as error:
            self._failed(error, now)
            return
        self._outbox.flush()
        self._timers.set(Timer.SOURCE_ANSWER, now + ANSWER_WITHIN)
        self._outbox.rearm(self)

    def _begun_again(self, info: ConsumerInfo, identity: str | None, now: float) -> None:
        """The consumer was reset, and waits for a subscription."""
        self.info = info
        self._timers.stop(Timer.SOURCE_ANSWER)
        if fields := unfit(info.config):  # it was made anew since it was looked up
            self._end(ConfigMismatchError(self.stream, self.consumer, fields))
            return
        if None not in (self.identity, identity) and identity != self.identity:
            self._next_identity = identity
            self._step(SourcingStep.HOLD)
            self._outbox.rearm(self)
            self._end_hold(now)
            return
        self.identity = identity or self.identity
        if self.facts is None:
            self._judged(self._check.unanswered(), now)
        else:
            self._judged(self._check.state(replace(self.facts, identity=identity), now), now)

    def _judged(self, verdict: Verdict, now: float) -> None:
        """The stream's answers say this about the position. Nothing is subscribed to yet."""
        if verdict in LOOKS:
            self._step(SourcingStep.PROVE)
            self._request(self._look_at, self._check.question(), None, now)
        elif verdict is Verdict.ASK_AGAIN:
            self._doubt(now)
        elif verdict in NEGATIVE:
            assert self.facts is not None  # which say so
            self._end(SourcePositionError(self.stream, self._check.position.seq, self.facts.last_seq))
        else:
            self._run(verdict, now)

    def _doubt(self, now: float) -> None:
        """Claim it again later: one answer is not enough to end."""
        again_at = self._check.again_at
        assert again_at is not None  # the verdict says so
        if self._ready_by is not None:
            self._ready_by = max(self._ready_by, again_at + ANSWER_WITHIN)
        self._tell_reset(f"what stream {self.stream} says of message {self._check.position.seq} is to be asked twice")
        self._pause_until(again_at)

    def _run(self, verdict: Verdict, now: float) -> None:
        """The position is proved, or cannot be: subscribe."""
        assert self.info is not None  # the consumer was reset
        self._floor = self.received
        self._acked = gone = self.info.ack_floor.stream_seq
        if verdict is Verdict.DROPPED and self._floor and not self.info.config.filters:
            assert self.facts is not None  # which say so
            gone = max(gone, self.facts.first_seq - 1)
        if gone > self._floor:
            self._outbox.emit(SourceSkipped(self.stream, self.consumer, self._floor + 1, gone))
        self._log = self._seen = DeliveryLog()
        self._answered = self._stuck = 0
        self.schedule = None
        self._sid = self._outbox.subscribe(self._deliver, self)
        self._outbox.flush()
        self._step(SourcingStep.RUN)
        self._ready_by = None
        self._timers.stop(Timer.SOURCE_READY)
        self._listen(now)
        self._is_there()

    def _end_hold(self, now: float) -> None:
        """Once the sink has all of the old stream, read the new one."""
        if self.phase is SourcingPhase.HOLDING and self.position >= self.received:
            self._outbox.emit(StreamRecreated(self.stream, self.received))
            self.identity = self._next_identity
            self.position = self.taken = self._floor = self._log.stream_seq = 0
            self._check, self._last_taken = PositionCheck(StreamPosition(self.stream, 0, self.identity)), b""
            self._claim(now)

    def _begin_again(self, reason: str, now: float) -> None:
        """Claim the consumer again. A second attempt has to wait."""
        self._tell_reset(reason)
        if self._has_tried:
            self._pause(now)
        else:
            self._has_tried = True
            self._claim(now)

    def _tell_reset(self, reason: str) -> None:
        self._drop()
        self.resets += 1
        self._outbox.emit(SourceReset(self.stream, self.consumer, self.position, reason))

    def _failed(self, error: Error, now: float) -> None:
        """A claim or a reset failed."""
        if stays(error) and not isinstance(error, _RACES):
            self._end(error)
            return
        if isinstance(error, ConsumerNameExistError) and not self._is_told_busy:
            self._is_told_busy = True
            self._outbox.emit(SourceBusy(self.stream, self.consumer))
        self._drop()
        self._pause(now)

    def _pause(self, now: float) -> None:
        pause = self._backoff.failed(now)
        assert pause is not None  # this series never gives up
        self._pause_until(now + pause)

    def _pause_until(self, time: float) -> None:
        self._step(SourcingStep.PAUSE)
        self._timers.set(Timer.SOURCE_CLAIM, time)
        self._outbox.rearm(self)

    def _drop(self) -> None:
        """Leave the subscription, and the requests that came by it. The next claim proves what came by it."""
        self._note_received()
        self._answer_to, self._answered_subject, self._asked = b"", b"", None
        self._leave()
        self._limit_claim()

    def _note_received(self) -> None:
        """What was received last is the position from now on, if it has a time."""
        reply = self._buffer.raws[-1][1] if self._buffer else self._last_taken
        try:
            last = parse_jsack(reply)
        except NotJSMessageError:
            return
        if last.sequence.stream > self._check.position.seq:
            self._check = PositionCheck(
                StreamPosition(self.stream, last.sequence.stream, self.identity, last.timestamp)
            )

    def _limit_claim(self) -> None:
        if self._ready_by is not None:
            self._timers.set(Timer.SOURCE_READY, self._ready_by)
            self._outbox.rearm(self)

    def _without_schedules(self, raws: list[RawMsg]) -> list[RawMsg]:
        """Those of the messages that are no schedules."""
        kept = []
        for raw in raws:
            subject, reply, header, _ = raw
            if header is not None and SCHEDULE_LINE in header:
                self._hold_back(jsack_sequences(reply)[0], subject)
            else:
                kept.append(raw)
        return kept

    def _hold_back(self, seq: int, subject: bytes) -> None:
        """This message is a schedule: nothing from here on is acknowledged."""
        name = subject.decode("utf-8", "surrogateescape")
        self._outbox.emit(SchedulePassedOver(self.stream, self.consumer, seq, name))
        if self.schedule is None or seq < self.schedule[0]:
            self.schedule = (seq, name)

    def _end(self, error: Error) -> None:
        if self.phase is SourcingPhase.ENDED:
            return
        self._step(SourcingStep.END)
        self._ready_by = None
        self._drop()
        self._conclude(error)

    def _step(self, step: SourcingStep) -> None:
        self.phase = SOURCING[self.phase, step] or self.phase


def _checked(position: int | StreamPosition, identity: str | None, stream: str) -> StreamPosition:
    """The position of a sink in a stream. LocalProtocolError."""
    if isinstance(position, StreamPosition):
        if position.stream != stream or identity not in (None, position.identity):
            raise LocalProtocolError(f"{bytes(position)!r:.200} is no position in stream {stream}, identity {identity}")
        return position
    if type(position) is not int or position < 0:
        raise LocalProtocolError(f"a position is a StreamPosition or a stream sequence, not {position!r:.100}")
    return StreamPosition(stream, position, identity)


def unfit(config: ConsumerConfig) -> list[str]:
    """The fields because of which a consumer cannot be sourced from.

    Flow control reaches one member of a deliver group, which does not know what the others have.
    """
    fields = ["ack_policy"] if config.ack_policy != "flow_control" else []
    return [*fields, "deliver_group"] if config.deliver_group else fields
