"""The single reads of a consistent session: which server is asked, and what proves that an answer is fresh.

How an answer proves it is fresh. The token is the highest sequence of the stream that the session wrote or read.

* *Last message of a subject*: the reply to ``multi_last`` carries ``Nats-UpTo-Sequence``, the last sequence that the
  server has. It must be at least the token's.
* *Message by sequence*: immutable, no proof needed, also where it was replaced since.
* *Next message after a sequence or a time*: it may have been replaced since. It is believed at the token's sequence or
  later, or from the leader.
* *A message at the session's own position with another time*, and a leader that ends before it: not believed. The
  position is proved (``known_streams``). The read goes on, or fails with StreamRolledBackError or StreamRecreatedError.
* *Not found*: believed only from the leader, and only if the leader's last sequence is at least the token's.
* *A mirror*: limits, a filter or a start of its own may have left out messages, so its ``Nats-UpTo-Sequence`` proves
  nothing. It is believed for a message at the token's sequence or later, and for the sequence that was requested. So at
  level ``mirror`` one message is read at a time, never many.

Which server is asked:

* At level ``direct`` any replica. Each reply names the stream that sent it, and a mirror's reply is not believed.
* An answer that proves too little is asked for again after a short, growing pause.
* After ``DIRECT_TRIES`` such answers the leader is asked: its state first, then the message. Then replicas again.
* A stream without a leader, or one that is offline, is asked for again. So is an API that has answered before.
* A read whose time is over fails with StaleReadError, or with the last error.

One gap remains. During a change of leaders two servers may both take themselves for the leader. One may report the
last sequence, and the other may answer the read.

Not here: the verbs and what the levels promise (``consistent_session``), many messages (``consistent_batch``), the
pauses (``retry``), the token itself (``grammar.session_token``), whether it still holds (``known_streams``).
"""

from __future__ import annotations

from collections.abc import Generator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from jsproto.client.connection.requests import is_no_responders
from jsproto.client.read.known_streams import KnownStreams, lost, time_of
from jsproto.client.read.leader import Answer, Said, heard
from jsproto.client.read.retry import DIRECT_TRIES, TRY_FOR, consistent_backoff
from jsproto.client.read.single import asked_for, direct_message, no_direct_get
from jsproto.errors import (
    ConnectionClosedError,
    Error,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    MessageNotFoundError,
    MirrorAnswerError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RemoteProtocolError,
    StaleReadError,
    StatusError,
    TimeoutError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.headers import status_line
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.stored import StoredMsg, answerer, number, paging
from jsproto.outbox import Conversation
from jsproto.rules.consistent_read import CONSISTENT_READ, ReadPhase, ReadStep
from jsproto.rules.position import NEGATIVE, Verdict
from jsproto.rules.status import END_OF_BATCH
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines
from jsproto.wire.frames import Msg

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream

_WAITING: Final = {ReadPhase.PAUSE, ReadPhase.PROOF}
_FIRST: Final = {ReadPhase.DIRECT: ReadStep.ASK_REPLICA, ReadPhase.STATE: ReadStep.ASK_LEADER}


class _Read:
    """One read under way."""

    __slots__ = (
        "answered", "asked", "backoff", "confirmed", "error", "first", "found", "is_next", "is_stale", "leader",
        "message", "mirror", "payload", "phase", "proves", "seq", "source", "stream", "subject", "ticket", "timeout",
        "token", "tries", "until",
    )  # fmt: skip

    def __init__(
        self, stream: str, source: str, first: ReadPhase, direct: tuple[str, bytes], leader: bytes, *, proves: bool,
        seq: int | None, is_next: bool, until: float, timeout: float,
    ) -> None:  # fmt: skip
        self.stream = stream
        self.source = source  # the stream that is believed: itself, or the mirror that is asked instead
        self.first = first
        self.subject, self.payload = direct
        self.leader = leader
        self.proves = proves  # the Direct Get is a multi_last, whose end says which sequence the server has reached
        self.seq = seq  # the sequence requested
        self.is_next = is_next  # what is found may have been replaced where the reader cannot see it
        self.until = until
        self.timeout = timeout
        self.ticket: Ticket[StoredMsg] = Ticket()
        self.backoff = consistent_backoff()
        self.phase = first
        self.token = b""
        self.asked = ""  # the subject of the question under way
        self.answered = False  # by somebody, before
        self.tries = 0
        self.confirmed = 0  # the leader's last sequence, after it was asked
        self.is_stale = False  # an answer proved too little
        self.found: int | None = None  # the highest sequence that such an answer showed
        self.error: Error | None = None
        self.message: StoredMsg | None = None  # of an answer whose end has not arrived
        self.mirror = ""  # name of the mirror whose answer arrives

    def step(self, step: ReadStep) -> None:
        """Move on as the table says."""
        self.phase = CONSISTENT_READ[self.phase, step] or self.phase


class ConsistentReads(Conversation):
    """The single reads of one consistent session that are under way.

    Attributes: ``known`` (what the session has written and read, which each read may raise) and ``closed``.
    """

    __slots__ = (
        "_count", "_deadlines", "_draw", "_inbox", "_open", "_outbox", "_prefix", "_reads", "_seed", "_sid", "closed",
        "js", "known",
    )  # fmt: skip

    def __init__(self, js: JetStream, token: SessionToken) -> None:
        self.js = js
        self.known = KnownStreams(js, token)
        self.closed = False
        self._outbox = js.session
        self._inbox = js.session.new_inbox()
        self._draw = js.session.draw
        self._prefix = f"{self._inbox}.".encode()
        self._seed = int.from_bytes(blake2b(self._inbox.encode(), digest_size=4).digest())
        self._sid: int | None = None
        self._count = 0
        self._reads: dict[_Read, None] = {}
        self._open: dict[bytes, _Read] = {}
        self._deadlines: Deadlines[_Read] = Deadlines()

    # -- for the verbs -------------------------------------------------------------------------------------------------

    def start(
        self,
        stream: str,
        source: str,
        direct: tuple[str, bytes],
        leader: bytes,
        *,
        first: ReadPhase,
        proves: bool,
        seq: int | None,
        is_next: bool,
        now: float,
        timeout: float,
    ) -> Ticket[StoredMsg]:
        """Read one message of ``stream``. The ticket takes it, or an error (``ConsistentSession.get_msg``).

        * ``source``: the stream that is believed, which is ``stream`` or a mirror of it.
        * ``direct``: subject and payload of the Direct Get. ``proves``: it is a ``multi_last``.
        * ``leader``: payload of the request to the leader.
        * ``first``: DIRECT or STATE, the phase that each round of questions begins with.
        * ``seq``: the sequence requested, None for another choice. ``is_next``: the next message after it is requested.
        * ``timeout``: seconds.

        Raises, with nothing sent:
            ConnectionClosedError: the session or its connection was closed.
            LocalProtocolError: ``stream`` is no name, or the connection refuses the request.
        """
        read = _Read(
            stream, source, first, direct, leader, proves=proves, seq=seq, is_next=is_next, until=now + timeout,
            timeout=timeout,
        )  # fmt: skip
        self.check_open()
        self.js.api.stream_info(read.stream)  # the name is checked before anything is sent
        self._subscribe()
        self._ask(read, now)
        self._reads[read] = None
        return read.ticket

    def prove(self, stream: str, now: float, timeout: float) -> Ticket[None]:
        """``KnownStreams.prove``, which ends with this session or its connection."""
        self._subscribe()
        return self.known.prove(stream, now, timeout)

    def check_open(self) -> None:
        """Check that reads can be started.

        Raises:
            ConnectionClosedError: the session or its connection was closed.
        """
        if self.closed or self._outbox.closed_error is not None:
            raise ConnectionClosedError("the session was closed, or its connection")

    def close(self) -> None:
        """Reads under way fail with ConnectionClosedError."""
        if not self.closed:
            self.closed = True
            error = ConnectionClosedError("the session was closed")
            for read in list(self._reads):
                self._fail(read, error)
            self.known.close(error)
            if self._sid is not None:
                self._outbox.unsubscribe(self._sid)

    # -- what happens --------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """An answer, or a part of one."""
        read = self._open.get(message.subject[len(self._prefix) :])
        if read is None:
            subject = message.subject.decode("utf-8", "replace")
            self._outbox.emit(UnexpectedMessage(subject, "no read waits for it any more"))
            return
        try:
            if read.phase is ReadPhase.STATE:
                self._heard(read, heard(message, read.stream), now)
            elif read.phase is ReadPhase.LEADER:
                self._heard(read, heard(message, read.stream, read.leader), now)
            elif is_no_responders(message):
                self._retry_read(read, no_direct_get(read.stream, read.subject), now)
            elif read.proves:
                self._receive_part(read, message, now)
            else:
                self._receive_direct(read, message, now)
        except IncompleteBatchError as error:
            self._retry_read(read, error, now)
        except Error as error:
            self._fail(read, error)

    def handle_timeout(self, now: float) -> None:
        """Time has passed: ask again, ask others, or give up."""
        for read in self._deadlines.due(now):
            if now >= read.until:
                self._give_up(read)
            elif read.phase is ReadPhase.PAUSE:
                read.step(_FIRST[read.first])
                self._ask(read, now)
            else:
                self._retry_read(read, TimeoutError(f"no answer from stream {read.stream}"), now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        return self._deadlines.next()

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """A question was dropped, or no answer may be received: the reads that wait for one fail."""
        if violation.operation == "subscribe":
            assert self._sid is not None  # it is the subscription in question
            self._outbox.unsubscribe(self._sid)
            self.crashed(violation, now)
            return
        for read in [read for read in self._reads if read.token and read.asked == violation.subject]:
            self._fail(read, violation)

    def crashed(self, error: Error, now: float) -> None:
        """The reads under way fail with ``error``. The next one subscribes again."""
        self._sid = None
        for read in list(self._reads):
            self._fail(read, error)

    def link_lost(self, error: Error, now: float) -> None:
        """No answer will come on this link: ask on the next one, unless the connection has ended."""
        ended = self._outbox.closed_error is not None
        for read in list(self._reads):
            if ended:
                self._fail(read, error)
            elif read.token:
                self._forget_request(read)
        if ended:
            self.closed = True
            self.known.close(error)

    def link_restored(self, now: float) -> None:
        """Ask what was under way when the link was lost."""
        for read in list(self._reads):
            if read.phase not in _WAITING and not read.token:
                self._ask(read, now)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        if self._sid is None:
            self._sid = self._outbox.subscribe(f"{self._inbox}.*", self)

    def _ask(self, read: _Read, now: float) -> None:
        if self.known.owes(read.stream):
            self._forget_request(read)
            read.step(ReadStep.PROVE)
            self._deadlines.set(read, None)
            self.js.session.run(self._proved(read, self.known.prove(read.stream, now, read.until - now)))
            return
        try:
            self._send(read, now)
        except OutboundBufferLimitError as error:
            self._pause(read, error, now)
        self._outbox.rearm(self)

    def _proved(self, read: _Read, proof: Ticket[None]) -> Generator[Ticket[Any], Any, None]:
        """Go on once the position is proved."""
        try:
            yield proof
            read.step(_FIRST[read.first])
            self._ask(read, self.js.session.now)
        except Error as error:
            if read.phase is not ReadPhase.ENDED:
                self._fail(read, error)

    def _send(self, read: _Read, now: float) -> None:
        """Send the question of the phase.

        Raises, with nothing changed:
            LocalProtocolError: the connection refuses it.
        """
        if read.phase is ReadPhase.STATE and not self._floor(read):
            read.step(ReadStep.CONFIRM)  # nothing to be confirmed
        if read.phase is ReadPhase.DIRECT:
            subject, payload = read.subject, read.payload
        elif read.phase is ReadPhase.STATE:
            subject, payload = self.js.api.stream_info(read.stream), b""
        else:
            subject, payload = self.js.api.stream_msg_get(read.stream), read.leader
        token = b"%d-%b" % (self._count + 1, self._draw())
        self._outbox.publish(subject, payload, self._prefix + token)
        self._outbox.flush()
        self._count += 1
        self._forget_request(read)
        read.token, read.asked = token, subject
        read.message, read.mirror = None, ""
        self._open[token] = read
        self._deadlines.set(read, min(read.until, now + read.timeout * TRY_FOR))

    def _forget_request(self, read: _Read) -> None:
        self._open.pop(read.token, None)
        read.token = b""

    def _pause(self, read: _Read, error: Error | None, now: float) -> None:
        """Ask again from the start, later."""
        self._forget_request(read)
        read.error = error or read.error
        read.step(ReadStep.WAIT)
        # A linear congruential step (Numerical Recipes) is all the randomness that spreading needs.
        self._seed = (self._seed * 1_664_525 + 1_013_904_223) % 2**32
        pause = read.backoff.failed(now)
        assert pause is not None  # the read gives up by its own time
        self._deadlines.set(read, min(read.until, now + pause * (0.5 + self._seed / 2**32)))
        self._outbox.rearm(self)

    def _retry_read(self, read: _Read, error: Error | None, now: float) -> None:
        """That was no answer, or one that proves too little: ask again, or ask the leader."""
        if read.phase is not ReadPhase.DIRECT:
            self._pause(read, error, now)
            return
        read.tries += 1
        if error is not None or not read.tries % DIRECT_TRIES:
            read.error = error or read.error
            read.step(ReadStep.ASK_LEADER)
            self._ask(read, now)
        else:
            self._pause(read, error, now)

    def _mirrored(self, read: _Read, mirror: str, now: float) -> None:
        """A mirror answered. Ask again at once, since chance chooses which server answers, and then the leader."""
        read.tries += 1
        if read.tries % DIRECT_TRIES:
            self._ask(read, now)
        else:
            self._retry_read(read, MirrorAnswerError(read.stream, mirror), now)

    def _floor(self, read: _Read) -> int:
        """The sequence that an answer must not be older than."""
        return self.known.token[read.stream].floor

    def _stale(self, read: _Read, found: int | None, now: float) -> None:
        read.is_stale = True
        if found is not None:
            read.found = max(found, read.found or 0)
        self._retry_read(read, None, now)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _heard(self, read: _Read, answer: Answer, now: float) -> None:
        """The leader's answer.

        Raises:
            Error: the read fails with it.
        """
        said, info, found, error = answer
        if said is Said.NO_API:
            error = JetStreamNotAvailableError(self.js.api.stream_info(read.stream))
        was_answered, read.answered = read.answered, read.answered or said is not Said.NO_API
        if said is Said.NO_LEADER or (said is Said.NO_API and was_answered):
            self._retry_read(read, error, now)
        elif info is not None:
            self._receive_state(read, info, now)
        elif said is Said.MESSAGE or said is Said.NOTHING:
            self._receive_of_leader(read, found, error, now)
        else:
            assert error is not None  # it is no answer
            raise error

    def _receive_direct(self, read: _Read, message: Msg, now: float) -> None:
        read.answered = True
        try:
            found = direct_message(read.stream, read.leader, message)
        except MessageNotFoundError as error:
            self._receive_nothing(read, error, now)
            return
        if found.stream != read.source:
            self._mirrored(read, found.stream, now)
        elif self._is_recent(read, found):
            self._succeed(read, found, now)
        elif read.is_next:  # another replica may show the same, and prove no more
            read.is_stale, read.found = True, max(found.seq, read.found or 0)
            read.step(ReadStep.ASK_LEADER)
            self._ask(read, now)
        else:
            self._stale(read, found.seq, now)

    def _is_recent(self, read: _Read, found: StoredMsg) -> bool:
        """Whether a message proves by itself that the server that shows it is not older than the session."""
        floor = self._floor(read)
        if not read.is_next:
            return found.seq >= floor or found.seq == read.seq
        return found.seq >= floor and (read.source == read.stream or found.seq == read.seq or not floor)

    def _receive_part(self, read: _Read, message: Msg, now: float) -> None:
        """Of an answer that ends with up to where it holds."""
        read.answered = True
        header = message.header
        if header is None:
            raise RemoteProtocolError("a Direct Get reply without headers", message.payload)
        found = read.message
        last = found.seq if found is not None else 0
        if number(header, b"Nats-Sequence") is not None:
            if (name := answerer(header)) != read.source:
                read.mirror = name
                return
            seq, _, previous = paging(header)
            if previous != last or seq <= last:
                raise IncompleteBatchError(f"message {seq} follows {previous}, but {last} was the last to arrive", last)
            read.message = StoredMsg(header, message.payload, seq)
            return
        status = status_line(header)
        if status is None:
            raise RemoteProtocolError("a Direct Get reply without Nats-Sequence", header)
        if read.mirror:
            self._mirrored(read, read.mirror, now)
            return
        if status[0] != END_OF_BATCH:
            error = StatusError.from_status(*status, asked_for(read.stream, read.leader))
            if not isinstance(error, MessageNotFoundError) or found is not None:
                raise error
            self._receive_nothing(read, error, now)
            return
        up_to = number(header, b"Nats-UpTo-Sequence")
        if up_to is None:
            raise RemoteProtocolError("the end of a batch without Nats-UpTo-Sequence", header)
        if number(header, b"Nats-Last-Sequence") != last:
            raise IncompleteBatchError("the end of a batch without all that goes before", last)
        if found is None:
            self._receive_nothing(read, MessageNotFoundError(*status, asked_for(read.stream, read.leader)), now)
            return
        if read.source != read.stream:
            up_to = last  # of a mirror that may have left out what goes before
        if up_to < self._floor(read):
            self._stale(read, up_to, now)
        else:
            self._succeed(read, found, now)

    def _receive_nothing(self, read: _Read, error: MessageNotFoundError, now: float) -> None:
        """The server that answered has no such message. Only the leader is believed that."""
        floor = self._floor(read)
        if not floor or (read.seq is not None and floor < read.seq):
            read.error = error
            read.step(ReadStep.ASK_LEADER)
            self._ask(read, now)
        else:
            self._stale(read, None, now)

    def _receive_state(self, read: _Read, info: StreamInfo, now: float) -> None:
        read.confirmed = last_seq = info.state.last_seq
        verdict = self.known.heard(read.stream, info, now)
        if verdict in NEGATIVE:
            raise lost(read.stream, verdict, self._floor(read))
        if last_seq < self._floor(read):
            self._stale(read, last_seq, now)
        elif verdict is Verdict.ASK_AGAIN:
            self._stale(read, None, now)
        else:
            read.step(ReadStep.CONFIRM)
            self._ask(read, now)

    def _receive_of_leader(self, read: _Read, found: StoredMsg | None, error: Error | None, now: float) -> None:
        """The message, or the error that says that there is none."""
        if error is not None and read.confirmed >= self._floor(read):
            raise error
        floor = self._floor(read)
        if found is not None and (read.confirmed >= floor or found.seq >= floor):
            self._succeed(read, found, now)
        else:
            self._stale(read, None, now)  # the session wrote, or read, more while the leader was asked

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _succeed(self, read: _Read, message: StoredMsg, now: float) -> None:
        known, stream = self.known, read.stream
        if known.is_doubted(stream):
            known.doubt(stream)
        if known.owes(stream) or not known.saw(stream, message.seq, time_of(message.raw_headers)):
            self._stale(read, None, now)  # what comes next is the proof
            return
        self._end(read)
        read.ticket.succeed(message)
        self._outbox.completed(read.ticket)

    def _fail(self, read: _Read, error: Error) -> None:
        self._end(read)
        read.ticket.fail(error)
        self._outbox.completed(read.ticket)

    def _give_up(self, read: _Read) -> None:
        if read.is_stale:
            self._fail(read, StaleReadError(read.stream, self.known.token[read.stream].floor, read.found))
        else:
            late = TimeoutError(f"no answer from stream {read.stream} within {read.timeout:g} s")
            self._fail(read, read.error or late)

    def _end(self, read: _Read) -> None:
        read.step(ReadStep.END)
        self._forget_request(read)
        self._reads.pop(read, None)
        self._deadlines.set(read, None)
        self._outbox.rearm(self)
