"""Work on the messages of a pull consumer: which one a worker takes next, and what becomes of it (ADR-37, Consume).

A worker is a thread or a task of the driver. It calls ``take``, and waits for the ticket or works on the job. Then it
calls ``finish``, or ``finish_and_take``.

Rules:

* What a callback returned from is acknowledged, unless it has settled the message itself.
* What it raised from is terminated or asked for again (``FailureRule``), unless it has settled the message itself.
* A message whose callback was cancelled stays unacknowledged: it comes again after the consumer's ``ack_wait``.
* Messages are taken from the buffer when a worker is free, one at a time. With keys some more wait for their turn.
* A message that is late to come again may be kept off by those that wait, so more of them may wait.
* One idle worker watches the buffer, and wakes the next one. A busy worker takes the next message itself.
* ``stop`` gives back what is not worked on, by a nak. With keys it does so after the last callback has ended.
* ``drain`` works off what has come. A message whose key waits for an earlier one is given back.
* Both end the interest in messages, and wait for a PONG: so what was under way is given back, or worked off, too.

Not here: keys and slots (``schedule``), pulling (``pull``), threads and tasks (the drivers).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from jsproto.client.consume.consume_options import ConsumeOptions, PrefetchOptions, TermOn
from jsproto.client.consume.message import (
    ACK,
    DEFAULT_ACK_WAIT,
    ConsumerMsg,
    WorkAcker,
    nak,
    nak_delay,
    send_ack,
    term,
)
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.schedule import NO_KEY, Job, WorkSchedule
from jsproto.enums import IdentityEnum
from jsproto.errors import ConnectionClosedError, Error, LocalProtocolError
from jsproto.events import CallbackFailed, SubscriptionFailed
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.jsack import jsack_sequences
from jsproto.grammar.options import split
from jsproto.outbox import Conversation
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session

D = TypeVar("D", bound=ConsumerMsg)

DEFAULT_RETRY_DELAY: Final = 1.0  # seconds, for consumers without a backoff
MIN_BUFFER: Final = 16  # messages, when the caller does not say how many
BUFFER_PER_WORKER: Final = 4
LATE: Final = 0.05  # seconds after which a message that was due to come again may be kept off
LATE_AGAIN: Final = 1.0
MAX_REASON: Final = 200  # characters of a reason for the server's advisory
_EVERYTHING: Final = 1_000_000  # messages: more than a buffer has


class WorkPhase(IdentityEnum):
    """How far the work is."""

    OPEN = "messages are asked for"
    DRAINING = "what has come is worked off"
    STOPPING = "nothing is started any more"
    ENDED = "nothing is under way any more"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """What becomes of a message whose callback raised.

    Attributes:

    * ``delays``: seconds until the second delivery, the third and so on. The last one is for all that follow.
    * ``max_deliver``: deliveries after which the server gives up. 0 or less: it never does.
    * ``ack_wait``: seconds after which the server delivers again by itself, at most.
    * ``term_on``: classes of exceptions after which the message is not delivered again.
    """

    delays: tuple[float, ...]
    max_deliver: int = 0
    ack_wait: float = DEFAULT_ACK_WAIT
    term_on: TermOn = ()

    @classmethod
    def of(
        cls,
        config: ConsumerConfig,
        retry_delay: float | None,
        term_on: TermOn,
    ) -> FailureRule:
        """The rule for this consumer. ``retry_delay``: seconds, None for the consumer's ``backoff``, else a second."""
        backoff = tuple(config.backoff or ())
        delays = (backoff or (DEFAULT_RETRY_DELAY,)) if retry_delay is None else (retry_delay,)
        ack_wait = max(config.ack_wait or DEFAULT_ACK_WAIT, *backoff, 0.0)
        return cls(delays, config.max_deliver or 0, ack_wait, term_on)

    def answer(self, error: BaseException, delivered: int) -> bytes:
        """The payload of the acknowledgement, after this many deliveries."""
        if isinstance(error, self.term_on):
            return term(_one_line(error))
        return nak(self.delays[min(delivered, len(self.delays)) - 1])

    def again_within(self, payload: bytes | None, delivered: int) -> float | None:
        """Within how many seconds the message comes again, after this nak. None: it does not come.

        No ``payload``: there was no acknowledgement.
        """
        if 0 < self.max_deliver <= delivered:
            return None
        return (self.ack_wait if payload is None else nak_delay(payload)) + self.ack_wait


class ConsumerWork(Conversation, Generic[D]):
    """What the workers of one call of ``consume`` share.

    Attributes:

    * ``closed``: completes when nothing is under way any more.
    * ``error``: why it ended by itself. None: it was ended, or works.
    * ``finished``, ``failed``, ``given_back``: how many callbacks returned, raised, and how many messages were naked
      without having been worked on.
    * ``workers``: how many there are.

    ``now`` is monotonic seconds in every method.
    """

    __slots__ = (
        "_acker", "_again_by", "_concurrency", "_due", "_idle", "_interest_ended", "_key", "_limit", "_limit_now",
        "_phase", "_pull", "_rule", "_schedule", "_session", "_watch", "_working", "closed", "error", "failed",
        "finished", "given_back", "workers",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        pull: PullConsumer[D],
        acker: WorkAcker[D],
        rule: FailureRule,
        *,
        now: float,
        asked: ConsumeOptions,
    ) -> None:
        """Begin to ask for messages, as ``PullConsumer.start``. ``asked``: a value (``checked``).

        Raises:
            LocalProtocolError: the options contradict each other, or the consumer is in use.
            Error: why the consumer ended, if it has.
        """
        if asked["max_msgs"] is None and asked["max_bytes"] is None:
            asked["max_msgs"] = max(MIN_BUFFER, BUFFER_PER_WORKER * asked["concurrency"])
        if pull.is_streaming:
            raise LocalProtocolError("this subscription streams messages already: use another one")
        prefetch, _ = split(PrefetchOptions, asked)
        pull.start(now=now, **prefetch)
        self.closed: Ticket[None] = Ticket()
        self.error: Error | None = None
        self.finished = self.failed = self.given_back = 0
        self.workers = 1
        self._concurrency = asked["concurrency"]
        self._session = session
        self._pull = pull
        self._acker = acker
        self._rule = rule
        self._key = asked["key"]
        self._working = asked["working"]
        self._limit = self._limit_now = asked["max_msgs"] or MIN_BUFFER  # messages that may wait for their keys
        self._due: Deadlines[int] = Deadlines()  # by sequence: when a message is late that comes again
        self._again_by: dict[int, float] = {}  # by sequence: when nobody waits for it any longer
        self._phase = WorkPhase.OPEN
        self._interest_ended = False
        self._schedule: WorkSchedule[D] = WorkSchedule(self._concurrency)
        self._idle: deque[Ticket[None]] = deque()
        self._watch: Ticket[None] | None = None  # what the worker that watches the buffer waits for

    @property
    def running(self) -> int:
        """How many callbacks are under way."""
        return self._schedule.running

    @property
    def pending_msgs(self) -> int:
        """How many messages were received and wait."""
        return self._schedule.waiting + (0 if self.closed.done else self._pull.pending_msgs)

    # -- what workers do -----------------------------------------------------------------------------------------------

    def take(self, now: float) -> Job[D] | Ticket[None] | None:
        """The next job, else the ticket to wait for before the next call. None: the worker is not needed any more.

        Where the job ``brings_worker``, another worker is to begin first. It counts already.
        """
        job = self._next(now)
        if job is not None:
            if self._schedule.has_slot and (self._schedule.can_start or (self._has_more and not self._is_watched)):
                self._call_worker(job)
            return job
        self._look_for_end(now)
        if self._phase is WorkPhase.ENDED:
            return None
        if self._may_watch:
            ticket = self._pull.readable()
            if ticket.error is None:
                self._watch = ticket
                return ticket
            self._source_ended(ticket.error, now)
            return self.take(now)
        ticket = Ticket()
        self._idle.append(ticket)
        return ticket

    def finish(self, job: Job[D], now: float, error: BaseException | None = None) -> None:
        """The callback has returned, or raised ``error``: acknowledge the message, and let others go on.

        Raises, with nothing changed:
            OutboundBufferLimitError: the outbox has no room.
            ConnectionClosedError: the connection has ended. ``abandon`` ends the job then.
        """
        message, reply = job.message, job.message._raw[1]
        if error is None:
            send_ack(message, ACK)
            self.finished += 1
        else:
            if not message.settled:
                send_ack(message, self._rule.answer(error, message.metadata.num_delivered))
            self.failed += 1
        naks = self._acker.naks
        payload = naks.pop(reply, None) if naks else None
        self._end(job, payload, payload is not None, now)

    def finish_and_take(
        self, job: Job[D], now: float, error: BaseException | None = None
    ) -> Job[D] | Ticket[None] | None:
        """``finish``, then ``take``: what a worker does after each callback, in one input. Raises: as ``finish``."""
        self.finish(job, now, error)
        return self.take(now)

    def abandon(self, job: Job[D], now: float) -> None:
        """The callback was cancelled, or its message cannot be acknowledged: the message comes again."""
        message = job.message
        payload = self._acker.naks.pop(message._raw[1], None)
        self._end(job, payload, payload is not None or not message.settled, now)

    def leave(self, ticket: Ticket[None] | None, now: float) -> None:
        """A worker ends. ``ticket``: what it waited for, None if it did not wait. The last one ends the work."""
        self.workers -= 1
        if ticket in self._idle:
            self._idle = deque(each for each in self._idle if each is not ticket)
        else:
            if ticket is self._watch:
                self._watch = None
            self._wake_one()
        if not self.workers:
            self.stop(now)

    # -- the end -------------------------------------------------------------------------------------------------------

    def stop(self, now: float) -> None:
        """Start nothing more, and give back what is not worked on. ``closed`` completes after the last callback."""
        self._begin_end(WorkPhase.STOPPING, now)

    def drain(self, now: float) -> None:
        """Ask for nothing more, and work off what has come. ``closed`` completes after the last callback."""
        self._begin_end(WorkPhase.DRAINING, now)

    def _begin_end(self, phase: WorkPhase, now: float) -> None:
        before = self._phase
        if before in (WorkPhase.STOPPING, WorkPhase.ENDED, phase):
            return
        self._phase = phase
        if before is WorkPhase.OPEN:
            self._session.run(self._end_interest(now))
        self._look_for_end(now)
        self._wake_all()

    def _end_interest(self, now: float) -> Generator[Ticket[Any], Any, None]:
        """Make sure that nothing comes any more. The consumer can be used again afterwards."""
        pull = self._pull
        if pull.error is None:
            pull.end_interest()
            try:
                if pull.is_linked:
                    yield self._session.ping(now)
            except Error:  # with the link, what was under way is lost
                pass
            if not self._session.closed:
                pull.renew_interest(now)
        self._interest_ended = True
        self._look_for_end(now)
        self._wake_all()

    def _source_ended(self, error: Error, now: float) -> None:
        """Nothing comes any more, because the subscription, the consumer or the connection has ended."""
        self._interest_ended = True
        if self._phase is WorkPhase.OPEN:
            is_orderly = isinstance(error, ConnectionClosedError)
            self._phase = WorkPhase.DRAINING if is_orderly else WorkPhase.STOPPING
            if not is_orderly:
                self.error = error
                self._session.emit(SubscriptionFailed(self._pull.stream, error))
        self._look_for_end(now)
        self._wake_all()

    def _look_for_end(self, now: float) -> None:
        """Give back what is to be given back, and end when nothing is left to be done."""
        if self._session.closed and self._phase is not WorkPhase.ENDED:
            self._phase, self._interest_ended = WorkPhase.STOPPING, True
        schedule = self._schedule
        if self._phase is WorkPhase.STOPPING:
            if self._key is None or not schedule.running:
                self._give_back([*schedule.take_waiting(), *self._pull.pop_many(_EVERYTHING, now)])
        elif self._phase is not WorkPhase.DRAINING or self._has_more:
            return
        if self._interest_ended and not schedule.running:
            self._give_back([*schedule.take_waiting(), *self._pull.pop_many(_EVERYTHING, now)])
            self._phase = WorkPhase.ENDED
            self.closed.succeed(None)
            self._session.completed(self.closed)
            self._session.rearm(self)
            self._wake_all()

    def _give_back(self, messages: list[D]) -> None:
        try:
            count = self._acker.nak_many(messages)
        except LocalProtocolError:  # without room, or link, the server delivers them after their ack_wait
            count = 0
        self.given_back += count

    # -- time ----------------------------------------------------------------------------------------------------------

    def handle_timeout(self, now: float) -> None:
        """Time has passed: messages that come again are late, and keys may go on whose message has not come."""
        self._schedule.expire(now)
        for seq in self._due.due(now):
            if now < self._again_by[seq]:
                self._due.set(seq, min(now + LATE_AGAIN, self._again_by[seq]))
                self._limit_now = self._schedule.waiting + 2 * self._limit  # what is buffered, and the next request
            else:
                self._has_come(seq)
        self._session.rearm(self)
        if self._schedule.can_start or (self._has_room and (self._pull.pending_msgs or not self._is_watched)):
            if self._idle:
                self._wake_one()
            else:
                self._pull.wake_readers()

    def deadline(self) -> float | None:
        """When a message is late, or a key need not wait any longer, in monotonic seconds."""
        if self._phase is WorkPhase.ENDED:
            return None
        return min([when for when in (self._schedule.deadline(), self._due.next()) if when is not None], default=None)

    def crashed(self, error: Error, now: float) -> None:
        """Nothing more is started."""
        self._source_ended(error, now)

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def _is_watched(self) -> bool:
        return self._watch is not None and not self._watch.done

    @property
    def _may_watch(self) -> bool:
        return not (self._is_watched or self._interest_ended or self._phase is WorkPhase.STOPPING) and self._has_room

    @property
    def _has_room(self) -> bool:
        """Whether a message may be taken from the buffer."""
        return self._schedule.has_room(self._limit_now)

    @property
    def _has_more(self) -> bool:
        """Whether a worker that is free finds something to do: to start a job, or to watch the buffer."""
        if self._schedule.can_start:
            return True
        return self._has_room and (self._pull.pending_msgs > 0 or not self._interest_ended)

    def _next(self, now: float) -> Job[D] | None:
        """Start the next job, if there is one."""
        if self._session.closed or self._phase in (WorkPhase.STOPPING, WorkPhase.ENDED):
            return None
        schedule, pull = self._schedule, self._pull
        while schedule.has_room(self._limit_now) and (messages := pull.pop_many(1, now)):
            self._add(messages[0], now)
        return schedule.start()

    def _add(self, message: D, now: float) -> None:
        self._acker.adopt(message)
        try:
            seq, _ = jsack_sequences(message._raw[1])
            key: Hashable = NO_KEY if self._key is None else self._key(message)
            self._schedule.add(message, seq, key)
            if self._again_by:
                self._has_come(seq)
        except Exception as error:  # of the caller's function, or a key that is not hashable
            self._refuse(message, error)
            return
        if self._working:
            self._acker.report_from(message, now)

    def _refuse(self, message: D, error: Exception) -> None:
        """``message`` has no key, because of ``error``."""
        self.failed += 1
        self._session.emit(CallbackFailed(message.subject, error))
        try:
            send_ack(message, self._rule.answer(error, message.metadata.num_delivered))
        except Error:  # without room it comes after its ack_wait
            return

    def _end(self, job: Job[D], payload: bytes | None, comes_again: bool, now: float) -> None:
        """``payload``: of the nak that was sent, if one was."""
        if self._working:
            self._acker.stop_working(job.message)
        again_by: float | None = None
        if comes_again and self._key is not None:
            within = self._rule.again_within(payload, job.message.metadata.num_delivered)
            if within is not None:
                again_by = self._again_by[job.seq] = now + within
                self._due.set(job.seq, again_by - self._rule.ack_wait + LATE)
        self._schedule.end(job, again_by)
        if again_by is not None:
            self._session.rearm(self)
        self._look_for_end(now)

    def _has_come(self, seq: int) -> None:
        """The message with this sequence has come again, or nobody waits for it any longer."""
        if self._again_by.pop(seq, None) is not None:
            self._due.set(seq, None)
            if not self._again_by:
                self._limit_now = self._limit

    def _call_worker(self, job: Job[D]) -> None:
        """Another worker finds something to do: wake one, or let ``job`` bring one."""
        if self._idle:
            self._wake_one()
        elif self.workers < self._concurrency:
            self.workers += 1
            job.brings_worker = True
        else:
            self._pull.wake_readers()

    def _wake_one(self) -> None:
        if self._idle:
            ticket = self._idle.popleft()
            ticket.succeed(None)
            self._session.completed(ticket)

    def _wake_all(self) -> None:
        while self._idle:
            self._wake_one()
        self._pull.wake_readers()


def _one_line(error: BaseException) -> str:
    """An exception in a line that can be sent as the reason of a ``term``."""
    text = f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:MAX_REASON].encode("utf-8", "replace").decode()
