"""Atomic batch publishing (ADR-50), the client's side: one ``AtomicBatch`` is one batch, stored whole or dropped whole.

The server stages the members of a batch until the commit. It answers a member only where an answer was asked for. The
first answer tells whether the stream takes batches (``ack_first``). Then every ``ack_every``-th member asks for one.
The others save the round trip. A commit stores with its last message, or with a marker that stays outside the stream.

Rules
 * "May I add?" is one comparison: ``sequence < limit``. The limit is 0 in every phase that forbids adding. Where an
   answer was asked for the next message waits for it.
 * What the server would refuse at the commit, the verb refuses where the client can know it, before it sends or spends
   a sequence. Such are a full batch, a header that is beyond checks inside a batch and a message id that occurs twice.
   So are a server that is too old, and a batch that the server has forgotten.
 * A message that failed to reach the batch (each stream left it, or it is larger than the stream allows) gives its
   sequence back and the batch stays open. Every other error ends it, and then nothing of it is stored.
 * A batch ends exactly once. Only a commit whose answer never came leaves open whether it is stored. Its error is a
   BatchStalledError or BatchLostError and says so. Nothing is ever sent twice.
 * An answer counts only on the reply subject that is waited for, and an acknowledgement only with this batch's id and
   size.

Not here: following a batch's advisories, and trying a whole batch again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Unpack

from jsproto.api_errors import (
    AtomicPublishIncompleteBatchError,
    AtomicPublishInvalidBatchCommitError,
    StreamMessageExceedsMaximumError,
)
from jsproto.client.publish.batch import Batch
from jsproto.client.publish.fast import SERVER_IDLE_LIMIT
from jsproto.client.publish.message import Message, parts
from jsproto.client.publish.publish_options import AtomicOptions
from jsproto.errors import (
    BatchError,
    BatchExpiredError,
    BatchFullError,
    BatchLostError,
    BatchMessageError,
    BatchStalledError,
    BatchTruncatedError,
    Error,
    JetStreamNotAvailableError,
    LocalProtocolError,
    NoRespondersError,
    NoStreamResponseError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    StatusError,
    UnsupportedByServerError,
)
from jsproto.grammar.acks import PubAck, parse_pub_ack
from jsproto.grammar.batch import BATCH_HEADERS, COMMIT_EOB, COMMIT_STORE, CheckedLines, batch_head, behind
from jsproto.grammar.headers import LINE_END, Headers, HeadersLike, encode_headers, status_line
from jsproto.grammar.options import checked
from jsproto.grammar.publish_headers import (
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    MSG_ID,
)
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import seconds
from jsproto.outbox import Outbox, bulk
from jsproto.rules.atomic_batch import ATOMIC, CLOSED, ENDED, AtomicPhase, AtomicStep
from jsproto.rules.status import NO_RESPONDERS
from jsproto.ticket import Readable, Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg

MOST_NAMED: Final = 5  # subjects in a note to an error
MANY: Final = 1_000  # messages offered to the outbox at once
FEW: Final = 32  # the same when it has not taken all of the last ones: what it looks at in vain is looked at again
_NO_LIMIT: Final = 2**64

ATOMIC_SINCE: Final = "2.12"
MSG_IDS_SINCE: Final = "2.12.1"
EOB_SINCE: Final = "2.14"
EOB_UNCOUNTED_SINCE: Final = "2.14.3"  # before, the marker that commits counts as a message
# Errors of a message that the batch never came to know of. The last one: it is larger than the stream's max_msg_size.
NOT_REACHED: Final = (NoRespondersError, PermissionsViolationError, StreamMessageExceedsMaximumError)


class AtomicBatch(Batch):
    """One atomic batch.

    Example:

        batch = js.atomic_batch()
        batch.add("orders.new", b"tea", now=now())
        wait(batch.ready())
        ack = wait(batch.commit(now(), "orders.new", b"cake"))

    Attributes:
     * ``batch_id``: as it was given.
     * ``sequence``: of the last message added. The first one has 1. 0 before it.
     * ``acked``: the highest sequence that the server has answered, staged or (in phase COMMITTED) stored.
     * ``phase``: an ``AtomicPhase``.
     * ``error``: why the batch failed, else None.
    """

    __slots__ = (
        "_ack", "_ack_every", "_ack_first", "_ack_timeout", "_answers", "_awaited", "_commit_sequence",
        "_draw", "_head", "_idle_limit", "_inbox", "_limit", "_max_messages", "_most", "_msg_ids",
        "_sent_at", "_sent_before", "_sid", "_subject", "_subjects", "_timers",
        "_unanswered", "acked", "batch_id", "error", "phase", "sequence",
    )  # fmt: skip

    phase: AtomicPhase

    def __init__(
        self,
        outbox: Outbox,
        *,
        inbox: str,
        batch_id: str,
        idle_limit: float = SERVER_IDLE_LIMIT,
        draw: Callable[[], bytes] = bytes,
        **options: Unpack[AtomicOptions],
    ) -> None:
        """``inbox``: a subject of this client alone. ``batch_id``: up to 64 characters, one subject token.

        * ``idle_limit``: seconds of silence after which the server forgets a batch.
        * ``draw``: makes unpredictable text (``Session.draw``). A reader of one reply subject is unable to answer the
          next.

        Raises: LocalProtocolError: a value is out of range.
        """
        asked = checked(AtomicOptions, options)
        ack_timeout = seconds(asked["ack_timeout"], default=5.0)
        if not (ack_timeout > 0 and idle_limit > 0):
            raise LocalProtocolError("ack_timeout and idle_limit must be greater than 0 seconds")
        check_subject(inbox)
        self.batch_id = batch_id
        self.sequence = 0
        self.acked = 0
        self.phase = AtomicPhase.IDLE
        self.error: Error | None = None
        self._outbox = bulk(outbox)
        self._inbox = inbox
        self._draw = draw
        self._head = batch_head(batch_id, asked["required_api_level"])
        self._max_messages = asked["max_messages"]
        self._ack_first = asked["ack_first"]
        self._ack_every = asked["ack_every"]
        self._ack_timeout = ack_timeout
        self._idle_limit = idle_limit
        self._most = 0
        self._limit = 0
        self._timers = Timers()
        self._sid: int | None = None
        self._subject = ""
        self._subjects: set[str] = set()
        self._msg_ids: set[str] = set()
        self._sent_at = self._sent_before = 0.0
        self._answers = 0
        self._awaited: bytes | None = None
        self._unanswered: tuple[str, str | None] = ("", None)
        self._ready = Readable(outbox.completed)
        self._commit: Ticket[PubAck] | None = None
        self._commit_sequence = 0
        self._ack: PubAck | None = None

    # -- what can be asked ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether the answer to a message is awaited: adding and committing has to wait for ``ready()``."""
        return self._awaited is not None and self.phase is not AtomicPhase.COMMITTING

    @property
    def ack(self) -> PubAck | None:
        """The acknowledgement of the commit, once all is stored."""
        return self._ack if self.phase is AtomicPhase.COMMITTED else None

    @property
    def sequences(self) -> range:
        """The stream sequences of the messages, in their order, once they are stored. Empty before."""
        return range(0) if self.ack is None else self.ack.sequences

    def ready(self) -> Ticket[None]:
        """A ticket that is completed when all answers have come.

        It fails with why the batch ended. It fails with BatchMessageError when the message whose answer was awaited is
        refused and the batch stays open (``error`` is None then).
        """
        error = self.error
        if error is None and self.phase in CLOSED:
            error = self._closed()
        return self._ready.ticket(error is None and self._awaited is None, error)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def add(
        self, subject: str, payload: bytes = b"", headers: HeadersLike | CheckedLines | None = None, *, now: float
    ) -> int:
        """Add one message. Returns its sequence in the batch. All subjects must be of one stream.

        ``now``: monotonic seconds.

        Raises, with nothing sent and no sequence spent:
         * LocalProtocolError: an answer is awaited, or a header is forbidden here. Forbidden are headers of the batch
           itself, Nats-Expected-Last-Msg-Id, and a Nats-Msg-Id that the batch has already. So is
           Nats-Expected-Last-Sequence after the first message, and Nats-Expected-Last-Subject-Sequence for a subject
           that the batch has written already.
         * BatchFullError: the batch has ``max_messages``.
         * BatchExpiredError: the batch was silent for ``idle_limit`` seconds.
         * BatchClosedError: the batch was committed or discarded.
         * UnsupportedByServerError: the server lacks atomic batches, or Nats-Msg-Id in them.
         * The batch's ``error``: it has failed.
         * BadSubjectError, BadHeaderError, MaxPayloadError, OutboundBufferLimitError, ConnectionClosedError: the outbox
           refuses the message.
        """
        sequence = self.sequence + 1
        if sequence > self._limit or now - self._sent_at >= self._idle_limit:
            return self._add_slowly(subject, payload, headers, now)
        if headers is None:
            self._outbox.publish(subject, payload, None, b"%b%d\r\n\r\n" % (self._head, sequence))
        else:
            block, msg_id = self._block(subject, headers, sequence, LINE_END)
            self._outbox.publish(subject, payload, None, block)
            if msg_id is not None:
                self._msg_ids.add(msg_id)
        self._subjects.add(subject)
        self.sequence = sequence
        self._sent_at = now
        return sequence

    def add_many(self, messages: Sequence[Message], now: float, start: int = 0, stop: int | None = None) -> int:
        """Add of ``messages[start:stop]``, from the front, what is possible now. Returns how many were taken.

        They are fewer than all when an answer is awaited or the outbox is full. Wait for ``ready()``, or for the
        outbox, and go on after those that were taken.

        Raises: as ``add``. The messages before a bad one are taken, and ``sequence`` says how many they are.
        """
        at, stop = start, len(messages) if stop is None else stop
        step = MANY
        try:
            while at < stop and not self.waiting:
                room = max(self._limit - self.sequence, 0)  # none after the end, however many were added before
                run = min(stop, at + step, at + room)
                added = self._add_run(messages[at:run], now)
                step = min(2 * step, MANY) if at + added == run else FEW
                if not added:
                    subject, payload, headers = parts(messages[at])
                    self.add(subject, payload, headers, now=now)
                at += added or 1
        except OutboundBufferLimitError:
            if at == start:
                raise
        return at - start

    def commit(
        self, now: float, subject: str, payload: bytes = b"", headers: HeadersLike | CheckedLines | None = None
    ) -> Ticket[PubAck]:
        """Add a last message and store the batch. The ticket takes the acknowledgement: ``count``, the last ``seq``.

        The ticket fails with:
         * APIError: the server refuses the batch, and nothing is stored.
         * BatchMessageError: this message was refused, and the batch is still open.
         * BatchStalledError or BatchLostError: the answer is missing. Whether the batch is stored is unknown.

        Raises: as ``add``.
        """
        self._check_open(now)
        sequence = self.sequence + 1
        if self._max_messages is not None and sequence > self._max_messages:
            raise BatchFullError(self._max_messages)
        block, msg_id = self._block(subject, headers, sequence, COMMIT_STORE)
        commit = self._send_commit(subject, payload, block, msg_id, now)
        self.sequence = sequence
        return commit

    def commit_eob(self, now: float) -> Ticket[PubAck]:
        """Store the batch as it is. Otherwise as ``commit``.

        After either commit it sends nothing: asking again (after a wait that was given up) gives the same answer.

        Raises, besides those of ``add``:
         * LocalProtocolError: the batch is empty.
         * UnsupportedByServerError: the server is older than 2.14. The batch is as it was.
        """
        if self._commit is not None:
            return self._commit
        if self.ack is not None:
            committed: Ticket[PubAck] = Ticket()
            committed.succeed(self.ack)
            return committed
        self._check_open(now)
        if not self.sequence:
            raise LocalProtocolError("nothing was added: an empty batch cannot be committed")
        if self._is_before(EOB_SINCE):
            raise self._unsupported("a commit without a message", EOB_SINCE, "let the last message commit")
        block = b"%b%d%b\r\n" % (self._head, self.sequence + 1, COMMIT_EOB)
        return self._send_commit(self._subject, b"", block, None, now)

    def discard(self, now: float) -> None:
        """Give the batch up: nothing is stored, the server forgets the batch. No effect after the end."""
        if self.phase in ENDED:
            return
        self._step(AtomicStep.DISCARD)
        self._close()
        self._fail_waiters(self._closed())

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """An answer on the batch's inbox."""
        if message.subject != self._awaited:
            self._ignore(message, "an answer that the batch does not wait for")
            return
        try:
            answer = self._read(message)
        except RemoteProtocolError as error:
            self._ignore(message, str(error))
            return
        if isinstance(answer, Error):
            self._receive_error(answer)
        elif answer is None:
            if self.phase is AtomicPhase.COMMITTING:
                self._ignore(message, "an empty answer to a commit")
            else:
                self._accept()
        elif answer.batch is None:
            note = f"messages were stored as plain ones, up to sequence {answer.seq} of stream {answer.stream}"
            self._fail(self._unsupported("an atomic batch", "2.12", note))
        elif answer.batch != self.batch_id or self.phase is not AtomicPhase.COMMITTING:
            self._ignore(message, "an acknowledgement of another batch, or of a commit that was not sent")
        else:
            self._receive_commit_ack(answer, message)

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            if self.phase in ENDED:
                break
            if timer is not Timer.BATCH_IDLE:  # BATCH_START, BATCH_STALLED
                self._stalled()
            elif now < (forgotten := self._sent_at + self._idle_limit):
                self._timers.set(Timer.BATCH_IDLE, forgotten)
            else:
                self._expire(now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in monotonic seconds. None: not yet."""
        return self._timers.next()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """A message was dropped, or the inbox was refused: the batch has a hole.

        Only the message whose answer is awaited, on a subject of its own, can be given back.
        """
        if self.phase in ENDED:
            return
        if violation.operation == "subscribe" or violation.subject in self._subjects:
            self._fail(violation)
        elif self._awaited is not None and violation.subject == self._unanswered[0]:
            self._receive_error(violation)

    def crashed(self, error: Error, now: float) -> None:
        """The batch ends with ``error``."""
        if self.phase not in ENDED:
            self._fail(error)

    def link_lost(self, error: Error, now: float) -> None:
        """The batch ends with its connection: what arrived is unknown then."""
        if self.phase not in ENDED:
            text = f"the connection was lost: {error}"
            lost = BatchLostError(f"{text}; {self._outcome()}", **self._facts())
            lost.__cause__ = error
            self._fail(lost)

    # -- sending -------------------------------------------------------------------------------------------------------

    def _check_open(self, now: float) -> None:
        """Raise why adding and committing is impossible now."""
        if self.waiting:
            raise LocalProtocolError("the server's answer to a message is awaited: wait for ready()")
        if self.phase is AtomicPhase.IDLE:
            self._check_server()
        elif self.phase is AtomicPhase.OPEN and now - self._sent_at >= self._idle_limit:
            self._expire(now)
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self.phase in CLOSED:
            raise self._closed()

    def _check_server(self) -> None:
        """A server older than batches would store the messages as plain ones: ask INFO first."""
        closed = self._outbox.closed_error
        if closed is not None:
            raise closed
        if self._is_before(ATOMIC_SINCE):
            raise self._unsupported("an atomic batch", ATOMIC_SINCE)

    def _add_slowly(self, subject: str, payload: bytes, headers: HeadersLike | CheckedLines | None, now: float) -> int:
        """Add the first message, or one that asks for an answer, or say why that is impossible."""
        self._check_open(now)
        sequence = self.sequence + 1
        most = self._most_messages()
        if sequence > most:
            assert self._max_messages is not None  # else there is no most
            raise BatchFullError(self._max_messages, "" if most == self._max_messages else _LAST_COMMITS)
        block, msg_id = self._block(subject, headers, sequence, LINE_END)
        asks = (sequence == 1 and self._ack_first) or (self._ack_every > 0 and sequence % self._ack_every == 0)
        reply = self._open_inbox(subject) if asks or sequence == 1 else b""
        self._outbox.publish(subject, payload, reply if asks else None, block)
        if sequence == 1:
            self._subject = subject
            self._most = most
            self._step(AtomicStep.START)
            self._timers.set(Timer.BATCH_IDLE, now + self._idle_limit)
            self._outbox.rearm(self)
        self.sequence = sequence
        self._sent_before, self._sent_at = self._sent_at, now
        self._unanswered = (subject, msg_id)
        if asks:
            self._await(reply, Timer.BATCH_START if sequence == 1 else Timer.BATCH_STALLED, now)
        else:
            self._accepted()
        return sequence

    def _add_run(self, run: Sequence[Message], now: float) -> int:
        """Add those at the front whose headers are plain, and return how many. 0 where the outbox is unable to."""
        if not run or now - self._sent_at >= self._idle_limit:
            return 0
        added = self._outbox.publish_numbered(run, (self._head, b"\r\n\r\n"), self.sequence + 1, self._subjects)
        if added:
            self.sequence += added
            self._sent_at = now
        return added

    def _send_commit(
        self, subject: str, payload: bytes, block: bytes, msg_id: str | None, now: float
    ) -> Ticket[PubAck]:
        reply = self._open_inbox(subject)
        self._outbox.publish(subject, payload, reply, block)
        self._commit_sequence = self.sequence + 1
        self._sent_before, self._sent_at = self._sent_at, now
        self._unanswered = (subject, msg_id)
        self._step(AtomicStep.COMMIT)
        self._timers.stop(Timer.BATCH_IDLE)
        self._await(reply, Timer.BATCH_STALLED, now)
        self._commit = Ticket()
        return self._commit

    def _block(
        self, subject: str, headers: HeadersLike | CheckedLines | None, sequence: int, behind_sequence: bytes
    ) -> tuple[bytes, str | None]:
        """The header block of a message, and the message id in it."""
        if headers is None:
            return b"%b%d%b\r\n" % (self._head, sequence, behind_sequence), None
        if isinstance(headers, CheckedLines):
            return b"%b%d%b%b" % (self._head, sequence, behind_sequence, headers), None
        block = encode_headers(headers)
        msg_id = self._check_headers(subject, Headers.of(headers), sequence) if b"\r\nNats-" in block else None
        return b"%b%d%b%b" % (self._head, sequence, behind_sequence, behind(block)), msg_id

    def _check_headers(self, subject: str, headers: Headers, sequence: int) -> str | None:
        """Refuse what the server would refuse when all of the batch is there. Returns the message id."""
        for name in headers:
            if name in BATCH_HEADERS:
                raise LocalProtocolError(f"{name} is written by the batch itself: leave it out (strip_batch_headers)")
        if EXPECTED_LAST_MSG_ID in headers:
            raise LocalProtocolError(f"{EXPECTED_LAST_MSG_ID} is not supported in an atomic batch")
        if EXPECTED_LAST_SEQUENCE in headers and sequence > 1:
            raise LocalProtocolError(f"only the first message of a batch may carry {EXPECTED_LAST_SEQUENCE}")
        if EXPECTED_LAST_SUBJECT_SEQUENCE in headers:
            checked = headers.get(EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, subject)
            if checked in self._subjects:
                text = f"a message before it in the batch has written {checked} already"
                raise LocalProtocolError(f"{EXPECTED_LAST_SUBJECT_SEQUENCE} cannot be checked: {text}")
        msg_id = headers.get(MSG_ID)
        if msg_id is not None and msg_id in self._msg_ids:
            raise LocalProtocolError(f"{MSG_ID} {msg_id!r} is in the batch already")
        if msg_id is not None and self._is_before(MSG_IDS_SINCE):
            raise self._unsupported(f"{MSG_ID} in an atomic batch", MSG_IDS_SINCE)
        return msg_id

    def _most_messages(self) -> int:
        """How many may be added so that a commit is still possible after them."""
        if self._max_messages is None:
            return _NO_LIMIT
        return self._max_messages - self._is_before(EOB_UNCOUNTED_SINCE)

    def _open_inbox(self, subject: str) -> bytes:
        """A fresh, unguessable reply subject. Those before do not tell it."""
        check_subject(subject)
        if self._sid is None:
            self._sid = self._outbox.subscribe(f"{self._inbox}.*", self)
        self._answers += 1
        return b"%b.%d-%b" % (self._inbox.encode(), self._answers, self._draw())

    def _await(self, reply: bytes, timer: Timer, now: float) -> None:
        """The next message waits for the answer: what was sent must leave, and time counts."""
        self._limit = 0
        self._awaited = reply
        self._timers.set(timer, now + self._ack_timeout)
        self._outbox.flush()
        self._outbox.rearm(self)

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _read(self, message: Msg) -> PubAck | Error | None:
        """What an answer says. None: accepted."""
        if message.payload:
            return parse_pub_ack(message.payload)
        status = None if message.header is None else status_line(message.header)
        if status is None:
            return None
        if status[0] != NO_RESPONDERS:
            return StatusError.from_status(*status)
        server = self._outbox.server
        no_jetstream = server is not None and not server.jetstream
        return (JetStreamNotAvailableError if no_jetstream else NoStreamResponseError)(self._unanswered[0])

    def _accept(self) -> None:
        """The message that asked for an answer is staged."""
        self.acked = self.sequence
        self._answered()
        self._accepted()
        self._outbox.rearm(self)
        self._ready.notify()

    def _receive_error(self, error: Error) -> None:
        in_batch = self._commit_sequence != 1 and self.phase is not AtomicPhase.STARTING
        if in_batch and isinstance(error, NOT_REACHED):
            self._give_back(error)
            return
        if self._commit_sequence > self.sequence and isinstance(error, AtomicPublishInvalidBatchCommitError):
            unsupported = self._unsupported("a commit without a message", EOB_SINCE, "nothing is stored")
            unsupported.__cause__ = error
            error = unsupported
        answered = self._unanswered[0]  # whose stream it is that says so
        others = sorted(self._subjects - {answered})
        if others and isinstance(error, AtomicPublishIncompleteBatchError):
            # A message never reached its stream, mostly one before the one that is answered. No server says which.
            named = ", ".join(others[:MOST_NAMED]) + (", ..." if len(others) > MOST_NAMED else "")
            error.add_note(f"does the stream of {answered} take all subjects of the batch? The others are {named}")
        self._fail(error)

    def _give_back(self, error: Error) -> None:
        """The message that was answered failed to reach the batch: everything is as it was before it."""
        stores = self._commit_sequence <= self.sequence
        sequence = self.sequence if stores else self._commit_sequence
        self.sequence = sequence - 1
        self._commit_sequence = 0
        self._sent_at = self._sent_before
        self._step(AtomicStep.REFUSE)
        self._answered()
        self._open_window()
        self._timers.set(Timer.BATCH_IDLE, self._sent_at + self._idle_limit)
        self._outbox.rearm(self)
        text = f"message {sequence} of the batch was refused: {error}; the batch is open and may go on without it"
        refused = BatchMessageError(text, message_sequence=sequence, **self._facts())
        refused.__cause__ = error
        self._fail_waiters(refused)

    def _receive_commit_ack(self, ack: PubAck, message: Msg) -> None:
        """All of the batch is stored, or its acknowledgement is an impossible one."""
        self._ack = ack
        count, marker = ack.count, self._commit_sequence > self.sequence
        assert count is not None  # every acknowledgement of a batch says so
        if marker and count == self._commit_sequence:
            note = f"the marker was stored as a message, {ack.seq}"
            self._fail(self._unsupported("a commit without a message", EOB_SINCE, note))
        elif count < self.sequence:
            text = f"{count} of {self.sequence} messages were stored by the commit"
            self._fail(BatchTruncatedError(text, **self._facts()))
        elif count > self.sequence or ack.seq < count:
            text = f"the commit of {self.sequence} messages was acknowledged as {count}, the last one {ack.seq}"
            self._fail(RemoteProtocolError(text, message.payload))
        else:
            self.acked = self.sequence
            commit, self._commit = self._commit, None
            assert commit is not None  # COMMITTING is entered with it
            self._step(AtomicStep.FINISH)
            self._close()
            commit.succeed(ack)
            self._outbox.completed(commit)

    # -- phases --------------------------------------------------------------------------------------------------------

    def _answered(self) -> None:
        self._awaited = None
        self._timers.stop(Timer.BATCH_START, Timer.BATCH_STALLED)

    def _accepted(self) -> None:
        """The last message is in the batch: remember what later ones are checked against, and go on."""
        subject, msg_id = self._unanswered
        self._subjects.add(subject)
        if msg_id is not None:
            self._msg_ids.add(msg_id)
        self._step(AtomicStep.ACCEPT)
        self._open_window()

    def _open_window(self) -> None:
        """Messages may be added up to the next one that asks for an answer."""
        self._limit = self._most
        if self._ack_every:
            self._limit = min(self._most, (self.sequence // self._ack_every + 1) * self._ack_every - 1)

    def _expire(self, now: float) -> None:
        silent = now - self._sent_at
        text = f"the batch was silent for {silent:.1f} s; servers forget a batch after {self._idle_limit:g} s"
        self._fail(BatchExpiredError(f"{text}; {self._outcome()}", **self._facts()))

    def _stalled(self) -> None:
        text = f"no answer from the server within {self._ack_timeout:g} s"
        self._fail(BatchStalledError(f"{text}; {self._outcome()}", **self._facts()))

    def _outcome(self) -> str:
        """What is known of a batch whose answer is missing."""
        if self.phase is AtomicPhase.COMMITTING:
            return "whether all of the batch is stored or nothing is not known: look at the stream"
        return "nothing of the batch is stored"

    def _fail(self, error: Error) -> None:
        """End with ``error``. A BatchError is brought up to date with what is known now."""
        self._step(AtomicStep.FAIL)
        if isinstance(error, BatchError):
            error.acked, error.sequence, error.ack = self.acked, self.sequence, self._ack
        self.error = error
        self._close()
        self._fail_waiters(error)

    def _close(self) -> None:
        """The batch has ended: drop the inbox."""
        self._limit = 0
        self._awaited = None
        self._timers.clear()
        if self._sid is not None:
            self._outbox.unsubscribe_later(self._sid)
        self._outbox.rearm(self)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {"batch_id": self.batch_id, "sequence": self.sequence, "acked": self.acked, "ack": self._ack}

    def _step(self, step: AtomicStep) -> None:
        self.phase = ATOMIC[self.phase, step] or self.phase

    def _is_before(self, version: str) -> bool:
        """The server is known to be older than ``version``."""
        server = self._outbox.server
        return server is not None and server.is_before(version)

    def _unsupported(self, feature: str, needed: str, note: str = "") -> UnsupportedByServerError:
        server = self._outbox.server
        return UnsupportedByServerError(feature, needed, None if server is None else server.version, note)


_LAST_COMMITS: Final = "this server counts the marker that commits too, so let the last message commit"
