"""Fast-ingest batch publishing (ADR-50), the client's side: one ``FastPublisher`` is one batch.

The server answers the first message with a rate: it will acknowledge every so many messages. The publisher runs ahead
of the acknowledgements by a bounded window and follows every change of the rate. All answers arrive on an inbox
of the batch's own, ``<inbox>.<batch id>.>``, which is dropped as soon as the batch has ended.

Rules
 * "May I send?" is one comparison: ``sequence < limit``. The limit is 0 in every phase that forbids sending.
 * Acknowledgements are cumulative and never move backwards. An impossible one (too high, too old, of another batch, or
   lacking a rate) is an event and is passed over: anybody may publish to an inbox.
 * Gap mode ``fail``: the first gap or refused message ends the sending. A commit that is a mere marker asks for the
   terminal acknowledgement, which says how much was stored.
 * Gap mode ``ok``: losses and refusals are events and the batch goes on. Both are acknowledged when another message is
   stored (FACTS.md F2.9), so each makes room for another message.
 * The server forgets a silent batch silently (FACTS.md F2.10), so a quiet batch is pinged. A batch whose ping is too
   late ends with an error.
 * A batch ends exactly once: with the acknowledgement of a commit, with a typed error that carries what is known to be
   stored, or abandoned.
 * A new leader may have missed messages. Gap mode ``ok`` asks with a ping and goes on. Gap mode ``fail`` goes on if the
   leader has everything.
 * A lost link leaves unknown what was under way on it. Gap mode ``ok`` asks with a ping on the next link and goes on.
   Gap mode ``fail`` ends.
 * A lost link may lose refusals. The answer to the ping says that all messages before it have arrived, which ends the
   wait for refusals of them. The batch ends if the new link is too late.
 * No message is sent twice inside a batch, because servers end a batch that goes backwards. Messages are kept until
   they are known to be stored, a window and one more for each lost link. ``unacknowledged`` offers them for another
   batch.

Not here: that other batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn, Unpack

from jsproto.api_errors import BatchPublishUnknownBatchIDError
from jsproto.client.connection.requests import is_no_responders
from jsproto.client.publish.batch import Batch
from jsproto.client.publish.message import Message, parts
from jsproto.client.publish.publish_options import FastOptions
from jsproto.client.publish.sent_log import SentLog
from jsproto.errors import (
    APIError,
    BatchError,
    BatchExpiredError,
    BatchGapError,
    BatchLostError,
    BatchMessageError,
    BatchStalledError,
    BatchTruncatedError,
    BatchUnknownError,
    Error,
    JetStreamNotAvailableError,
    LocalProtocolError,
    NoStreamResponseError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    UnsupportedByServerError,
)
from jsproto.events import FlowRateChanged, GapReported, MessageRefused
from jsproto.grammar.acks import FlowAck, FlowError, FlowGap, PubAck, parse_flow
from jsproto.grammar.batch import encode_unbatched
from jsproto.grammar.columns import in_columns
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.fast import FastOp, check_batch_id, fast_reply_prefix
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.options import checked
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import seconds
from jsproto.outbox import Outbox, bulk
from jsproto.rules.fast_batch import CLOSED, ENDED, FAST, FastPhase, FastStep
from jsproto.rules.window import AckWindow
from jsproto.ticket import Readable, Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg

NEEDED_VERSION: Final = "2.14"
SERVER_IDLE_LIMIT: Final = 10.0  # seconds without traffic after which nats-server forgets a batch
ACK_TIMEOUT: Final = 10.0  # seconds: longer than a cluster takes to elect a leader (measured: 4 to 8)
PINGS_PER_TIMEOUT: Final = 10
COMMITS_ANSWERED_SINCE: Final = "2.14.3"  # before, not if the message of the commit was refused or is a duplicate
# Answers that end a batch whatever message they answer. Any other error refuses one message (FACTS.md F2.13).
# BatchPublish*Error, and APIRequiredApiLevelError (10185).
ENDING_CODES: Final = frozenset({10205, 10206, 10207, 10208, 10211, 10185})


class FastPublisher(Batch):
    """One fast-ingest batch.

    Example:

        batch = js.fast_publisher()
        for n in range(1_000):
            if not batch.room:
                wait(batch.ready())
            batch.publish("orders.new", b"%d" % n, now=now())
        ack = wait(batch.commit(now()))

    Attributes:
     * ``batch_id``: as it was given.
     * ``sequence``: of the last message published. The first one has 1. 0 before it.
     * ``acks``: how many flow acknowledgements came.
     * ``phase``: a ``FastPhase``.
     * ``error``: why the batch failed, else None.
     * ``asks_for_end``: in gap mode ``fail``, whether a batch that breaks asks the server what it has stored, for up to
       ``ack_timeout`` seconds. False is for whoever counts what is stored anyway.
    """

    __slots__ = (
        "_ack_timeout", "_cause", "_commit_sequence", "_ends_with_eob", "_gap", "_idle_limit",
        "_inbox", "_limit", "_link_error", "_ping_every", "_progress", "_reply",
        "_resumption", "_sent", "_sent_at", "_settled", "_sid", "_subject", "_terminal", "_timers", "_window",
        "acks", "asks_for_end", "batch_id", "error", "phase", "sequence",
    )  # fmt: skip

    phase: FastPhase

    def __init__(
        self,
        outbox: Outbox,
        *,
        inbox: str,
        batch_id: str,
        idle_limit: float = SERVER_IDLE_LIMIT,
        **options: Unpack[FastOptions],
    ) -> None:
        """``inbox``: a subject of this client alone. ``batch_id``: up to 64 characters, one subject token.

        ``idle_limit``: seconds of silence after which the server forgets a batch.

        Raises: LocalProtocolError: a value is out of range.
        """
        check_batch_id(batch_id)
        asked = checked(FastOptions, options)
        gap, flow = asked["gap"], asked["flow"]
        ack_timeout = seconds(asked["ack_timeout"], default=ACK_TIMEOUT)
        if not (ack_timeout > 0 and idle_limit > 0):
            raise LocalProtocolError("ack_timeout and idle_limit must be greater than 0 seconds")
        check_subject(inbox)
        self.batch_id = batch_id
        self.sequence = 0
        self.acks = 0
        self.phase = FastPhase.IDLE
        self.error: Error | None = None
        self.asks_for_end = True
        self._outbox = bulk(outbox)
        self._inbox = inbox
        self._reply = fast_reply_prefix(inbox, batch_id, flow, gap)
        self._gap = gap
        self._window = AckWindow(flow, asked["max_outstanding_acks"])
        self._limit = 0
        self._ack_timeout = ack_timeout
        self._ping_every = ack_timeout / PINGS_PER_TIMEOUT
        self._idle_limit = idle_limit
        self._timers = Timers()
        self._sid: int | None = None
        self._subject: str | None = None
        self._sent_at = 0.0
        self._ready = Readable(outbox.completed)
        self._progress = Readable(outbox.completed)
        self._commit: Ticket[PubAck] | None = None
        self._commit_sequence = 0
        self._cause: Error | None = None
        self._terminal: PubAck | None = None
        self._ends_with_eob = False
        self._link_error: Error | None = None  # why there is no link
        self._resumption: bytes | None = None  # where the first ping on a new link is answered
        self._settled = 0  # messages told as refused or lost that are kept all the same
        self._sent = SentLog(self._window.is_settled)

    # -- what can be asked ---------------------------------------------------------------------------------------------

    @property
    def acked(self) -> int:
        """The highest acknowledged sequence. All up to it are stored or, in gap mode ``ok``, stored or reported."""
        return self._window.acked

    @property
    def flow(self) -> int:
        """Messages for each acknowledgement, as the server wants it now."""
        return self._window.every

    @property
    def room(self) -> int:
        """How many messages may be published now."""
        if self.phase is FastPhase.IDLE:
            return 1
        return max(self._limit - self.sequence, 0)

    @property
    def unacknowledged(self) -> list[Message]:
        """The published messages that are not known to be stored, in order: what another batch would begin with.

        Some of them may be stored all the same. Only ``Nats-Msg-Id`` headers keep a second copy out of the stream. In
        gap mode ``ok`` those that were reported as refused or lost while the batch was open are not among them. Each is
        a tuple of two or three, and has None for the headers where it has none and others that came with it do.
        """
        known = self.acked if self._terminal is None else max(self.acked, self._terminal.count or 0)
        return [message for _, message in self._sent.since(known + 1)]

    @property
    def ack(self) -> PubAck | None:
        """The acknowledgement of the commit, once the batch is committed."""
        return self._terminal if self.phase is FastPhase.COMMITTED else None

    def ready(self) -> Ticket[None]:
        """A ticket that is completed when there is room.

        It fails with why the batch ended. After the first message the server's first answer completes it, or fails it.
        """
        error = self.error
        if error is None and self.phase in CLOSED:
            error = self._closed()
        return self._ready.ticket(error is None and bool(self.room), error)

    def progress(self, acked: int) -> Ticket[None]:
        """A ticket that is completed when ``acked`` has changed from this value, or the batch has ended.

        A server acknowledges by itself only as many messages at once as ``flow`` says.
        """
        return self._progress.ticket(self.acked != acked or self.phase in ENDED)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes = b"", headers: HeadersLike | None = None, *, now: float) -> int:
        """Publish one message. Returns its sequence in the batch.

        ``now``: monotonic seconds. No sequence is spent by a message that is refused.

        Raises:
         * LocalProtocolError: ``room`` is 0 (wait for ``ready()``), or the headers are those of an atomic batch.
         * BatchClosedError: the batch was committed or abandoned.
         * UnsupportedByServerError: the server lacks fast ingest. Before the first message alone.
         * BatchExpiredError: the batch was silent for ``idle_limit`` seconds.
         * The batch's ``error``: it has failed.
         * BadSubjectError, BadHeaderError, MaxPayloadError, OutboundBufferLimitError, ConnectionClosedError: the outbox
           refuses the message.
        """
        sequence = self.sequence + 1
        if sequence > self._limit or now - self._sent_at >= self._idle_limit:
            if self.phase is FastPhase.IDLE:
                return self._start(subject, payload, headers, now)
            self._refuse(now)
        block = None if headers is None else encode_unbatched(headers)
        self._outbox.publish(subject, payload, b"%b%d.1.$FI" % (self._reply, sequence), block)
        self._sent.add((sequence, ((subject, payload, headers),)))
        self.sequence = sequence
        self._sent_at = now
        if sequence == self._limit:
            self._window_closed(now)
        return sequence

    def publish_many(self, messages: Sequence[Message], now: float) -> int:
        """Publish from the front of ``messages`` what there is room for. Returns how many were taken.

        They are fewer than all when the window closes or the outbox is full. Wait for ``ready()``, or for the outbox,
        and go on after those that were taken.

        Raises: as ``publish``. The messages before a bad one are taken, and ``sequence`` says how many they are.
        """
        if not messages:
            return 0
        room = self._limit - self.sequence
        if room <= 0 or now - self._sent_at >= self._idle_limit:
            if self.phase is FastPhase.IDLE:
                return self._start(*parts(messages[0]), now)
            if not self._may_wait(now):
                self._refuse(now)
            return 0
        fits = len(messages) <= room and isinstance(messages, list | tuple)  # else a copy is kept: others may change it
        run = messages if fits else messages[:room]
        columns = in_columns(run)
        sequence = before = self.sequence
        try:
            sequence += self._outbox.publish_run(columns, (self._reply, b".1.$FI"), sequence + 1)
            for message in run[sequence - before :]:  # from the first that needs a second look
                subject, payload, headers = parts(message)
                block = None if headers is None else encode_unbatched(headers)
                self._outbox.publish(subject, payload, b"%b%d.1.$FI" % (self._reply, sequence + 1), block)
                sequence += 1
        except OutboundBufferLimitError:
            if sequence == before:
                raise
        finally:  # kept before it is counted, so that an interrupt in between loses nothing
            self._sent.add((sequence, columns if len(run) == sequence - before else columns[: sequence - before]))
            self.sequence = sequence
            self._sent_at = now if sequence > before else self._sent_at
            if sequence == self._limit:
                self._window_closed(now)
        return sequence - before

    def commit(
        self, now: float, subject: str | None = None, payload: bytes = b"", headers: HeadersLike | None = None
    ) -> Ticket[PubAck]:
        """End the batch. The ticket takes the acknowledgement: ``count`` messages, the last one stored as ``seq``.

        With a ``subject`` the message is stored as the last one. Without a ``subject`` no further message is stored,
        and asking again (after a wait that was given up) gives the same answer. In gap mode ``fail`` the ticket fails
        with a BatchError, which carries what was stored, when the acknowledgement counts fewer than were published.

        Raises: LocalProtocolError: the batch is empty and the message is missing. Otherwise as ``publish``.
        """
        if subject is None and self._commit is not None:
            return self._commit
        if subject is None and self.ack is not None:
            committed: Ticket[PubAck] = Ticket()
            committed.succeed(self.ack)
            return committed
        if self.phase is FastPhase.IDLE:
            if subject is None:
                raise LocalProtocolError("nothing was published: an empty batch cannot be committed")
            self._check_server()
        elif self.phase is not FastPhase.OPEN or now - self._sent_at >= self._idle_limit:
            self._refuse(now)
        operation = FastOp.COMMIT_EOB if subject is None else FastOp.COMMIT
        sequence = self.sequence + 1
        block = None if headers is None else encode_unbatched(headers)
        target = self._subject if subject is None else subject
        assert target is not None  # an open batch has had a first message
        self._open_inbox()
        self._outbox.publish(target, payload, b"%b%d.%d.$FI" % (self._reply, sequence, operation), block)
        self._outbox.flush()
        self._commit_sequence = sequence
        self._ends_with_eob = subject is None
        self._subject = target
        if subject is not None:
            self.sequence = sequence
            self._sent.add((sequence, ((subject, payload, headers),)))
        self._sent_at = now
        self._step(FastStep.COMMIT)
        self._limit = 0
        self._fail_waiters(self._closed())  # nothing may be published after the commit
        ticket: Ticket[PubAck] = Ticket()
        self._commit = ticket
        self._timers.stop(Timer.BATCH_IDLE)
        self._await_answers(now)
        return ticket

    def ping(self, now: float) -> None:
        """Keep the batch alive and ask for the latest acknowledgement. Sent automatically when it is needed.

        Raises:
         * LocalProtocolError: the batch is empty.
         * BatchClosedError, or the batch's ``error``: it has ended.
        """
        if self._subject is None:
            raise LocalProtocolError("nothing was published: there is no batch to ping")
        if self.phase in ENDED:
            self._refuse(now)
        self._send_ping(now)

    def abandon(self, now: float) -> None:
        """Give the batch and its acknowledgements up. What was sent may be stored. No effect after the end."""
        if self.phase in ENDED:
            return
        self._step(FastStep.ABANDON)
        self._close()
        self._fail_waiters(self._closed())

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """A message on the batch's inbox."""
        if self.phase in ENDED:
            self._ignore(message, "the batch has ended")
            return
        if self.phase is FastPhase.IDLE:  # the first message was refused here, after the subscription was made
            self._ignore(message, "nothing was published")
            return
        if is_no_responders(message):
            self._receive_no_responders(message, now)
            return
        try:
            answer = parse_flow(message.payload)
        except RemoteProtocolError as error:
            self._ignore(message, str(error))
            return
        match answer:
            case FlowAck():
                self._receive_ack(message, answer, now)
            case PubAck():
                self._receive_pub_ack(message, answer)
            case FlowGap():
                self._receive_gap(message, answer, now)
            case FlowError():
                self._receive_refusal(answer.seq, answer.error, message, now)
            case _:
                self._receive_error(message, answer, now)

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        due = self._timers.expired(now)
        if due and self.phase is FastPhase.OPEN and now - self._sent_at >= self._idle_limit:
            self._expire(now)
        for timer in due:
            if self.phase in ENDED:
                break
            if timer is Timer.BATCH_IDLE:
                self._idle(now)
            elif timer is Timer.BATCH_PING:
                self._send_ping(now)
                self._timers.set(Timer.BATCH_PING, now + self._ping_every)
            else:  # BATCH_START, BATCH_STALLED
                self._stalled()
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in monotonic seconds. None: not yet."""
        return self._timers.next()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """A message was dropped (the first unacknowledged one to that subject), or the inbox was refused.

        Gap mode ``ok`` goes on, and hears of the gap, unless that message alone could have answered.
        """
        if self.phase in ENDED:
            return
        sequence = next((number for number, message in self._sent.since(1) if message[0] == violation.subject), None)
        if violation.operation == "subscribe" or (sequence is not None and self.acks == 0):
            self._fail(violation)  # no answer will come, or there is no batch
        elif sequence is None:
            pass  # somebody else's message
        elif self._gap == "fail":
            self._break(self._refused(sequence, violation), now)
        elif self.phase is FastPhase.COMMITTING and sequence == self._commit_sequence:
            self._fail(self._refused(sequence, violation))

    def crashed(self, error: Error, now: float) -> None:
        """The batch ends with ``error``."""
        if self.phase not in ENDED:
            self._fail(error)

    def link_lost(self, error: Error, now: float) -> None:
        """Gap mode ``ok`` waits for a new link, otherwise the batch ends here: what was under way is unknown.

        The wait lasts ``ack_timeout`` seconds at most, and ends when the server has forgotten the batch.
        """
        if self.phase in ENDED or self.phase is FastPhase.IDLE:
            return
        opened = self.phase is not FastPhase.STARTING and self._commit_sequence != 1
        if self._gap == "ok" and self._outbox.closed_error is None and opened:
            self._link_error = error
            self._limit = 0
            self._timers.clear()
            self._timers.set(Timer.BATCH_STALLED, min(now + self._ack_timeout, self._sent_at + self._idle_limit))
            self._outbox.rearm(self)
        else:
            self._lose(error)

    def link_restored(self, now: float) -> None:
        """A new link carries the inbox again: ask where the server stands."""
        if self._link_error is None or self.phase in ENDED:
            return
        if now - self._sent_at >= self._idle_limit:
            self._expire(now)
            return
        self._link_error = None
        self._resumption = b"%b%d.%d.$FI" % (self._reply, self.sequence, FastOp.PING)
        self._send_ping(now)
        if self.phase is FastPhase.OPEN:
            self._timers.set(Timer.BATCH_IDLE, now + self._idle_limit / 2)
        self._await_answers(now)

    # -- sending -------------------------------------------------------------------------------------------------------

    def _start(self, subject: str, payload: bytes, headers: HeadersLike | None, now: float) -> int:
        self._check_server()
        block = None if headers is None else encode_unbatched(headers)
        check_subject(subject)
        self._open_inbox()
        self._outbox.publish(subject, payload, b"%b1.0.$FI" % self._reply, block)
        self._outbox.flush()
        self._subject = subject
        self.sequence = 1
        self._sent.add((1, ((subject, payload, headers),)))
        self._sent_at = now
        self._step(FastStep.START)
        self._timers.set(Timer.BATCH_START, now + self._ack_timeout)
        self._timers.set(Timer.BATCH_IDLE, now + self._idle_limit / 2)
        self._outbox.rearm(self)
        return 1

    def _check_server(self) -> None:
        """A server older than fast ingest would store the first message as a plain one: ask INFO first."""
        closed = self._outbox.closed_error
        if closed is not None:
            raise closed
        server = self._outbox.server
        if server is not None and server.is_before(NEEDED_VERSION):
            raise UnsupportedByServerError("fast ingest", NEEDED_VERSION, server.version)

    def _open_inbox(self) -> None:
        if self._sid is None:
            self._sid = self._outbox.subscribe(f"{self._inbox}.{self.batch_id}.>", self)

    def _send_ping(self, now: float) -> None:
        """Ask for the latest answer. A ping carries the highest sequence sent, and spends none.

        A commit that is a mere marker is sent again instead. Had the first one been lost, a ping would count it as a
        lost message. A second commit is either the first to arrive or finds the batch gone.

        A commit that is the only message leaves no open batch, so pings would be pointless. The server would answer
        that the batch is unknown, or open one (2.14.0 to 2.15.0).
        """
        if self._commit_sequence == 1 or self._link_error is not None:
            return
        highest = max(self.sequence, self._commit_sequence)
        operation = FastOp.COMMIT_EOB if self._ends_with_eob else FastOp.PING
        assert self._subject is not None
        try:
            self._outbox.publish(self._subject, b"", b"%b%d.%d.$FI" % (self._reply, highest, operation))
        except LocalProtocolError:
            return  # the outbox is full or closed: what waits there keeps the batch alive, or nothing can
        self._outbox.flush()
        self._sent_at = now

    def _window_closed(self, now: float) -> None:
        """The window is full: what was sent must leave, and the time until an acknowledgement counts."""
        self._outbox.flush()
        self._await_answers(now)

    def _await_answers(self, now: float) -> None:
        if self._link_error is not None:
            return  # until there is a link the time that was set when it was lost counts
        self._timers.set(Timer.BATCH_PING, now + self._ping_every)
        self._timers.set(Timer.BATCH_STALLED, now + self._ack_timeout)
        self._outbox.rearm(self)

    def _may_wait(self, now: float) -> bool:
        """There may be room later, or ``ready()`` will fail with the reason."""
        if self.phase is FastPhase.OPEN:
            return now - self._sent_at < self._idle_limit
        return self.phase in (FastPhase.STARTING, FastPhase.BROKEN)

    def _refuse(self, now: float) -> NoReturn:
        """Publishing or committing is impossible now: say why."""
        if self._may_wait(now):
            raise LocalProtocolError("the window of the batch is closed: wait for ready()")
        if self.phase is FastPhase.OPEN:
            self._expire(now)
        raise self.error.with_traceback(None) if self.error is not None else self._closed()

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _receive_ack(self, message: Msg, ack: FlowAck, now: float) -> None:
        window = self._window
        first, acked, every = self.phase is FastPhase.STARTING, window.acked, window.every
        if self._next(FastStep.ACCEPT) is None or not window.adopt(ack.seq, ack.msgs, self.sequence):
            self._ignore(message, "a flow acknowledgement that does not fit what was sent")
            return
        self.acks += 1
        self._step(FastStep.ACCEPT)
        if first:
            self._timers.stop(Timer.BATCH_START)
            self._outbox.emit(FlowRateChanged(self.batch_id, ack.seq, window.every, 0))
        elif every != window.every:
            self._outbox.emit(FlowRateChanged(self.batch_id, ack.seq, window.every, every))
        if window.acked > acked:
            self._sent.forget(window.acked)
            self._progress.notify()
        if message.subject == self._resumption:  # what was said of messages before may have gone with the old link
            self._resumption = None
            self._forget_settled()
            window.reach(self.sequence)
        self._window_moved(now, progress=window.acked > acked)

    def _window_moved(self, now: float, *, progress: bool) -> None:
        """There may be room again. ``progress``: because of the answer to a message."""
        if self.phase is FastPhase.OPEN and self._link_error is None:
            self._limit = self._window.limit
        if self.sequence < self._limit:
            self._timers.stop(Timer.BATCH_PING, Timer.BATCH_STALLED)
            self._ready.notify()
            self._outbox.rearm(self)
        elif progress or Timer.BATCH_STALLED not in self._timers:
            # After progress, or when a lower rate closed the window; the answer to a ping alone is neither.
            self._window_closed(now)

    def _resolve(self, first: int, last: int, now: float) -> None:
        """Gap mode ok: these were reported as refused or lost, so others may take their places."""
        if self.phase is not FastPhase.OPEN:
            return
        self._window.settle(first, last)
        self._settled += last - first + 1
        if self._settled >= self._window.size:  # now and then, so that it costs little for each
            self._forget_settled()
        self._window_moved(now, progress=True)

    def _receive_gap(self, message: Msg, gap: FlowGap, now: float) -> None:
        """The server missed messages. A gap leaves the acknowledged sequence as it is."""
        highest = max(self.sequence, self._commit_sequence)
        last_missing = min(gap.seq - 1, highest)
        if not 0 < gap.first_missing <= last_missing:
            self._ignore(message, "a gap that does not fit what was sent")
            return
        self._outbox.emit(GapReported(self.batch_id, gap.first_missing, last_missing))
        commit_lost = self.phase is FastPhase.COMMITTING and last_missing >= self._commit_sequence
        if self._gap == "fail" or commit_lost:
            several = last_missing > gap.first_missing
            which = f"messages {gap.first_missing} to {last_missing}" if several else f"message {last_missing}"
            lost = BatchGapError(
                f"{which} of the batch {'were' if several else 'was'} lost",
                first_missing=gap.first_missing, last_missing=last_missing, **self._facts(),
            )  # fmt: skip
            self._break(lost, now)
            if commit_lost and self._gap == "ok":  # the batch stays open: nothing is left to wait for
                self._fail(lost)
        else:
            self._resolve(gap.first_missing, last_missing, now)

    def _receive_refusal(self, sequence: int, error: APIError, message: Msg, now: float) -> None:
        """The stream refused one message."""
        if not 1 <= sequence <= self.sequence or self._next(FastStep.BREAK) is None:
            if self.phase is FastPhase.STARTING and sequence == 1:
                self._fail(error)
            else:
                self._ignore(message, "a refusal of a message that was not sent")
            return
        self._outbox.emit(MessageRefused(self.batch_id, sequence, error))
        refused_commit = self.phase is FastPhase.COMMITTING and sequence == self._commit_sequence
        if self._gap == "fail" or refused_commit:
            refused = self._refused(sequence, error)
            if refused_commit and self._leaves_commits_open():
                self._fail(refused)
            else:
                self._break(refused, now)
        else:
            self._resolve(sequence, sequence, now)

    def _receive_error(self, message: Msg, error: APIError, now: float) -> None:
        """An error in the shape of a publish acknowledgement."""
        sequence = self._sequence_of(message)
        starts = self.phase is FastPhase.STARTING or self._commit_sequence == 1
        if sequence is None:
            self._ignore(message, "an error on a subject that is not a reply of this batch")
        elif isinstance(error, BatchPublishUnknownBatchIDError):
            # To a ping, too, while the answer to the first message is awaited.
            unknown = BatchUnknownError("the server does not know the batch any more", **self._facts())
            unknown.__cause__ = error
            self._fail(self._cause or unknown)
        elif starts or error.err_code in ENDING_CODES or (sequence == 1 and self._gap == "fail"):
            self._fail(error)
        elif sequence > self.sequence:  # a commit that stores nothing
            self._fail(self._cause or error)
        else:
            self._receive_refusal(sequence, error, message, now)

    def _receive_pub_ack(self, message: Msg, ack: PubAck) -> None:
        """The terminal acknowledgement: how much of the batch is stored."""
        if ack.batch is None and self.phase in (FastPhase.STARTING, FastPhase.COMMITTING) and self.acks == 0:
            found = None if self._outbox.server is None else self._outbox.server.version
            self._fail(
                UnsupportedByServerError(
                    "fast ingest", NEEDED_VERSION, found, f"the first message was stored as a plain one, {ack.seq}"
                )
            )
            return
        count = ack.count
        if ack.batch != self.batch_id or count is None or count > self.sequence:
            self._ignore(message, "an acknowledgement of another batch")
            return
        self._terminal = ack
        if ack.error is not None and self._cause is None:  # the draft puts into one message what servers say in two
            self._cause = self._refused(self._sequence_of(message) or count + 1, ack.error)
        if self._cause is not None:
            self._fail(self._cause)
        elif self.phase is not FastPhase.COMMITTING:
            self._fail(BatchTruncatedError(f"the server ended the batch after {count} messages", **self._facts()))
        elif count < self.sequence and self._gap == "fail":
            text = f"{count} of {self.sequence} messages were stored before the server ended the batch"
            self._fail(BatchTruncatedError(text, **self._facts()))
        else:
            self._window.acked = max(self._window.acked, count)
            commit, self._commit = self._commit, None
            assert commit is not None  # COMMITTING is entered with it
            self._step(FastStep.FINISH)
            self._close()
            commit.succeed(ack)
            self._outbox.completed(commit)

    def _receive_no_responders(self, message: Msg, now: float) -> None:
        """503: the message reached no stream (it is missing, or has lost its leader at the moment, or JetStream is
        off).
        """
        sequence = self._sequence_of(message)
        if sequence is None:
            self._ignore(message, "no responders, on a subject that is not a reply of this batch")
        elif self.acks == 0:
            assert self._subject is not None
            server = self._outbox.server
            no_jetstream = server is not None and not server.jetstream
            self._fail((JetStreamNotAvailableError if no_jetstream else NoStreamResponseError)(self._subject))
        elif self._gap == "ok" or sequence <= self.acked:
            self._ignore(message, f"message {sequence} of the batch had no responder")
        else:
            lost = BatchGapError(
                f"message {sequence} of the batch had no responder", first_missing=sequence, last_missing=sequence,
                **self._facts(),
            )  # fmt: skip
            self._break(lost, now)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _break(self, cause: Error, now: float) -> None:
        """Gap mode fail: keep the first cause, stop sending and ask for the terminal acknowledgement."""
        if not self.asks_for_end:
            self._fail(cause)
            return
        if self._cause is None:
            self._cause = cause
        if self.phase is not FastPhase.OPEN:
            return
        self._step(FastStep.BREAK)
        self._limit = 0
        # The server may have ended the batch already (its answer is on the way) or wait for the next message.
        self._commit_sequence = self.sequence + 1
        self._ends_with_eob = True
        self._send_ping(now)
        self._timers.stop(Timer.BATCH_IDLE)
        self._await_answers(now)

    def _refused(self, sequence: int, error: Error) -> BatchMessageError:
        refused = BatchMessageError(
            f"message {sequence} of the batch was refused: {error}", message_sequence=sequence, **self._facts()
        )
        refused.__cause__ = error
        return refused

    def _idle(self, now: float) -> None:
        """Ping if half of the server's idle limit has passed, and look again later."""
        if now >= self._sent_at + self._idle_limit / 2:  # in the words of the timer: a difference rounds otherwise
            self._send_ping(now)
        due = self._sent_at + self._idle_limit / 2
        if due <= now:  # there was no room for the ping
            due = now + self._idle_limit / PINGS_PER_TIMEOUT
        self._timers.set(Timer.BATCH_IDLE, due)

    def _expire(self, now: float) -> None:
        silent = now - self._sent_at
        text = f"the batch was silent for {silent:.1f} s; servers forget a batch after {self._idle_limit:g} s"
        if self._link_error is not None:
            self._lose(self._link_error, f"; {text}")
        else:
            self._fail(BatchExpiredError(text, **self._facts()))

    def _lose(self, error: Error, outcome: str = "") -> None:
        lost = BatchLostError(f"the connection was lost: {error}{outcome}", **self._facts())
        lost.__cause__ = error
        self._fail(lost)

    def _stalled(self) -> None:
        if self._link_error is not None:
            self._lose(self._link_error, "; there was no new one in time")
            return
        missing = f"no answer from the server within {self._ack_timeout:g} s"
        text = f"{missing}: what is stored after message {self.acked} is not known"
        if self.phase is FastPhase.COMMITTING and self._leaves_commits_open():
            text += f"; before {COMMITS_ANSWERED_SINCE} nats-server answers no commit whose message is a duplicate"
        self._fail(self._cause or BatchStalledError(text, **self._facts()))

    def _fail(self, error: Error) -> None:
        """End with ``error``. A BatchError is brought up to date with what is known now."""
        self._step(FastStep.FAIL)
        if isinstance(error, BatchError):
            error.acked, error.sequence, error.ack = self.acked, self.sequence, self._terminal
        self.error = error
        self._close()
        self._fail_waiters(error)

    def _close(self) -> None:
        """The batch has ended: drop the inbox, so that the server can skip what it still wanted to say."""
        self._limit = 0
        self._timers.clear()
        self._progress.notify()
        if self._sid is not None:
            self._outbox.unsubscribe(self._sid)
        self._outbox.rearm(self)

    def _forget_settled(self) -> None:
        """What was reported as refused or lost is dropped as well."""
        self._sent.compact(self.acked)
        self._settled = 0

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {
            "batch_id": self.batch_id, "sequence": self.sequence, "acked": self.acked, "ack": self._terminal,
        }  # fmt: skip

    def _leaves_commits_open(self) -> bool:
        """The server keeps a batch open whose last message it left out, and falls silent (gap mode ok)."""
        server = self._outbox.server
        return self._gap == "ok" and server is not None and server.is_before(COMMITS_ANSWERED_SINCE)

    def _next(self, step: FastStep) -> FastPhase | None:
        """The phase that ``step`` leads to; None: it is ignored in this phase."""
        return FAST[self.phase, step]

    def _step(self, step: FastStep) -> None:
        self.phase = FAST[self.phase, step] or self.phase

    def _sequence_of(self, message: Msg) -> int | None:
        """The sequence an answer is for: the server answers on the reply subject of the message (FACTS.md F2.1)."""
        if not message.subject.startswith(self._reply):
            return None
        token = message.subject[len(self._reply) :].partition(b".")[0]
        if not token.isdigit() or len(token) > MAX_DIGITS:
            return None
        sequence = int(token)
        return sequence if 1 <= sequence <= max(self.sequence, self._commit_sequence) else None
