"""Session guarantees over reads that any replica may answer: read your writes, and monotonic reads.

What the levels of reading promise by themselves, strongest first (consistency models, "Read Consistencies"):

* ``leader``: the stream's leader answers. It has everything that was acknowledged, unless it is a leader no more and
  does not know it yet: after a change of leaders, or while the network is split, an old one may still answer first.
  Every request goes to every server, so it is the dearest way too.
* ``direct``: whoever has the stream answers, a follower too, or a mirror with ``mirror_direct``. What was just written
  may be missing, and of two reads the second may be the older one. A mirror may hold a part of the stream.
* ``mirror``: a mirror answers. It may be any distance behind, for as long as the way to its origin is cut.

What a session adds. Its token knows the highest sequence that it wrote and read of each stream. A read shows the stream
as it was at that sequence or later, or it fails with StaleReadError: it is never silently older.

Rules, of what is believed:

* At level ``direct`` only the stream itself is: replies name who answered, and where it was a mirror others are asked.
* The last message of a subject may well be older than the stream's last one. So it is asked for in the form whose end
  says up to where the answer holds (``multi_last``, ``Nats-UpTo-Sequence``).
* A message by its sequence, or the next one after it, is the same in every replica that has it.
* A mirror's end proves nothing, since limits, a filter or a start of its own may have left out what goes before. A
  mirror is believed when it shows what cannot be older than the token: a message at its sequence or later, or the one
  with the sequence that was asked for. So at level ``mirror`` one message is read at a time, never many.
* That there is *no* message is believed only of the leader, after it said that it stands at the token or beyond.
* What proves too little is asked for again after a short, growing pause. After ``DIRECT_TRIES`` of them the leader is
  asked, and so in turn until the time is over.

What it does not promise. It is about what this session, and those whose tokens it merged, have seen: not the newest
value anywhere (no linearizable reads). Purges and deletions, also by limits, have no sequence: a session may read what
it has deleted, until the replica deletes it too; a message that says "deleted" is covered. One gap is left to the
leader: two servers that both take themselves for it, where the good one tells how far it is and the other one answers
the read. Consumers deliver in order but may start late: a message taken from one can be told to the session
(``observe``).

Not here: the token itself (``grammar.position``), reads of many messages (``consistent_batch``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from jsproto.client.connection.requests import is_no_responders
from jsproto.client.read.consistent_batch import SessionBatch, SessionLastMsgs
from jsproto.client.read.single import direct_message, direct_request, leader_message, no_direct_get, selection
from jsproto.errors import (
    APIError,
    ConnectionClosedError,
    Error,
    IncompleteBatchError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessageNotFoundError,
    MirrorAnswerError,
    OutboundBufferLimitError,
    RemoteProtocolError,
    StaleReadError,
    StatusError,
    TimeoutError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.acks import PubAck
from jsproto.grammar.api import decode_response
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.headers import status_line
from jsproto.grammar.position import SessionToken
from jsproto.grammar.stored import StoredMsg, answerer, number, paging
from jsproto.grammar.subjects import check_name
from jsproto.grammar.times import Instant
from jsproto.outbox import Conversation
from jsproto.rules.status import END_OF_BATCH
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines
from jsproto.wire.frames import Msg

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream

SessionLevel: TypeAlias = Literal["direct", "leader", "mirror"]
"""Who is asked first; see the module's text."""

DIRECT_TRIES: Final = 3  # answers of replicas that prove too little, before the leader is asked
TRY_FOR: Final = 0.25  # of a read's time: who has not answered by then is passed over
FIRST_PAUSE: Final = 0.004  # seconds; replicas are usually milliseconds behind
LONGEST_PAUSE: Final = 0.25
MAX_DOUBLINGS: Final = 6  # of the pause, until it is the longest
BATCH_READS: Final = "2.11"  # the server that brought the form whose end says up to where it holds
UNAVAILABLE: Final = 503


class Phase(Enum):
    """What a read waits for."""

    DIRECT = "the answer of whoever has the stream"
    STATE = "the leader, to say how far it is"
    LEADER = "the leader's answer"
    PAUSE = "the time to ask again"


class _Read:
    """One read under way."""

    __slots__ = (
        "confirmed", "error", "first", "found", "immutable", "is_stale", "leader", "message", "mirror", "pauses",
        "payload", "phase", "proves", "seq", "source", "stream", "subject", "ticket", "timeout", "token", "tries",
        "until",
    )  # fmt: skip

    def __init__(self, stream: str, source: str, first: Phase, direct: tuple[str, bytes], leader: bytes) -> None:
        self.stream = stream
        self.source = source  # who is believed: the stream itself, or the mirror that is asked instead
        self.first = first
        self.subject, self.payload = direct
        self.leader = leader
        self.ticket: Ticket[StoredMsg] = Ticket()
        self.proves = False  # its direct form says up to where it holds
        self.immutable = False  # what is found cannot be another message later
        self.seq: int | None = None  # nothing at or after it is no news to a session that is not there yet
        self.mirror = ""  # whose answer comes, and is not believed
        self.timeout = self.until = 0.0
        self.phase = first
        self.token = b""
        self.tries = self.pauses = 0
        self.confirmed = 0  # where the leader is
        self.is_stale = False
        self.found: int | None = None
        self.error: Error | None = None
        self.message: StoredMsg | None = None  # of an answer that has not ended yet


class ConsistentSession(Conversation):
    """Reads that never fall behind what this session has written and read.

    Attributes: ``token`` (what it knows; a value that can be handed on at any time), ``js``, ``level``.
    """

    __slots__ = (
        "_count", "_deadlines", "_draw", "_inbox", "_mirrors", "_open", "_outbox", "_prefix", "_reads", "_seed", "_sid",
        "_timeout", "closed", "js", "level", "token",
    )  # fmt: skip

    def __init__(
        self,
        js: JetStream,
        *,
        token: SessionToken | bytes | None = None,
        level: SessionLevel = "direct",
        mirrors: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """``token``: where another session got to; BadTokenError when the bytes are none. ``level``: see the module.

        ``mirrors``: for level ``mirror``, the mirror to ask instead of a stream, by the stream's name; the leader, if
        it comes to that, is the stream's own. ``timeout``: seconds for each read, those of ``js`` when None.
        """
        self.js = js
        self.token = SessionToken.from_bytes(token) if isinstance(token, bytes) else token or SessionToken()
        self._mirrors = {check_name(name): check_name(mirror) for name, mirror in (mirrors or {}).items()}
        self.level: SessionLevel = _checked(level)
        self._timeout = js.timeout if timeout is None else timeout
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

    # -- what it knows -------------------------------------------------------------------------------------------------

    def record(self, ack: PubAck) -> None:
        """What ``ack`` acknowledges, a message or a batch, was written by this session: reads must show it."""
        if ack.seq:
            self.token = self.token.after_write(check_name(ack.stream), ack.seq)

    def observe(self, stream: str, seq: int) -> None:
        """The message ``seq`` of ``stream`` was seen in another way, by a consumer say: reads must not be older."""
        self.token = self.token.merge(SessionToken({stream: (0, seq)}))

    def merge(self, token: SessionToken | bytes) -> None:
        """Know what ``token`` knows as well: another session's, perhaps of another process. BadTokenError."""
        self.token = self.token.merge(SessionToken.from_bytes(token) if isinstance(token, bytes) else token)

    def forget(self, stream: str) -> None:
        """Know nothing of ``stream``: it was deleted and made anew, and its sequences begin again."""
        self.token = self.token.without(stream)

    def publish(self, subject: str, payload: bytes = b"", *, now: float, **options: Any) -> Ticket[PubAck]:
        """As ``JetStream.publish``; the acknowledgement is recorded."""
        self._check_open()
        return self.js.session.run(self._recorded(self.js.publish(subject, payload, now=now, **options)))

    def _recorded(self, ticket: Ticket[PubAck]) -> Generator[Ticket[Any], Any, PubAck]:
        ack: PubAck = yield ticket
        self.record(ack)
        return ack

    # -- reads ---------------------------------------------------------------------------------------------------------

    def get_last_msg(
        self, stream: str, subject: str, *, now: float, level: SessionLevel | None = None, timeout: float | None = None
    ) -> Ticket[StoredMsg]:
        """The last message of ``subject``; see ``get_msg``."""
        return self.get_msg(stream, subject=subject, now=now, level=level, timeout=timeout)

    def get_msg(
        self,
        stream: str,
        seq: int | None = None,
        *,
        now: float,
        subject: str | None = None,
        next: bool = False,
        start_time: Instant | None = None,
        level: SessionLevel | None = None,
        timeout: float | None = None,
    ) -> Ticket[StoredMsg]:
        """One message, chosen as in ``JetStream.get_msg``, of the stream as it was at this session's token or later.

        The ticket fails with MessageNotFoundError when the leader has none, StaleReadError, StatusError, APIError;
        with TimeoutError or NoRespondersError when nobody answered. LocalProtocolError, with nothing sent, for a
        choice that cannot be.
        """
        body = selection(seq, subject, next, start_time)
        wanted = body.get("last_by_subj")
        source = self._source(stream, level)
        direct = direct_request(self.js.api, source, body)
        first = self._first(level)
        if wanted is not None and not ("*" in wanted or ">" in wanted):
            server = self._outbox.server
            if server is not None and server.is_before(BATCH_READS):
                first = Phase.STATE
            direct = (self.js.api.direct_get(source), dumps({"multi_last": [wanted]}))
        read = _Read(stream, source, first, direct, dumps(body))
        read.proves = direct[1].startswith(b'{"multi_last"')
        read.immutable = wanted is None
        read.seq = seq
        return self._start(read, now, timeout)

    def get_batch(
        self,
        stream: str,
        *,
        now: float,
        seq: int = 1,
        subject: str | None = None,
        batch: int | None = None,
        max_bytes: int | None = None,
        level: SessionLevel | None = None,
        timeout: float | None = None,
    ) -> SessionBatch:
        """As ``JetStream.get_batch``; it does not end before this session's token. At level ``direct`` only."""
        self._check_open()
        self._check_many(level)
        self.js.need_batches()
        return SessionBatch(
            self, stream, now=now, seq=seq, subject=subject, batch=batch, max_bytes=max_bytes,
            timeout=self._timeout if timeout is None else timeout,
        )  # fmt: skip

    def get_last_msgs_for(
        self,
        stream: str,
        subjects: str | Iterable[str],
        *,
        now: float,
        max_bytes: int | None = None,
        level: SessionLevel | None = None,
        timeout: float | None = None,
    ) -> SessionLastMsgs:
        """The last message of each of ``subjects``; see ``SessionLastMsgs``. At level ``direct`` only."""
        self._check_open()
        self._check_many(level)
        self.js.need_batches()
        limit = self._timeout if timeout is None else timeout
        return SessionLastMsgs(self, stream, subjects, now=now, max_bytes=max_bytes, timeout=limit)

    def close(self) -> None:
        """Ask no more: single reads under way fail with ConnectionClosedError. The token can still be taken.

        Whoever reads many messages closes that by itself.
        """
        if not self.closed:
            self.closed = True
            for read in list(self._reads):
                self._fail(read, ConnectionClosedError("the session was closed"))
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
            if is_no_responders(message):
                self._nobody(read, now)
            elif read.phase is Phase.STATE:
                self._receive_state(read, message, now)
            elif read.phase is Phase.LEADER:
                self._receive_of_leader(read, message, now)
            elif read.proves:
                self._receive_part(read, message, now)
            else:
                self._receive_direct(read, message, now)
        except IncompleteBatchError as error:
            self._retry_read(read, error, now)
        except APIError as error:
            if error.code == UNAVAILABLE:  # no leader just now
                self._retry_read(read, error, now)
            else:
                self._fail(read, error)
        except Error as error:
            self._fail(read, error)

    def handle_timeout(self, now: float) -> None:
        """Time has passed: ask again, ask others, or give up."""
        for read in self._deadlines.due(now):
            if now >= read.until:
                self._give_up(read)
            elif read.phase is Phase.PAUSE:
                read.phase = read.first
                self._ask(read, now)
            else:
                self._retry_read(read, TimeoutError(f"no answer from stream {read.stream}"), now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        return self._deadlines.next()

    def link_lost(self, error: Error, now: float) -> None:
        """No answer will come on this link: ask on the next one, unless the connection has ended."""
        ended = self._outbox.closed_error is not None
        for read in list(self._reads):
            if ended:
                self._fail(read, error)
            elif read.token:
                self._forget_request(read)
        self.closed = self.closed or ended

    def link_restored(self, now: float) -> None:
        """Ask what was under way when the link was lost."""
        for read in list(self._reads):
            if read.phase is not Phase.PAUSE and not read.token:
                self._ask(read, now)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed or self._outbox.closed_error is not None:
            raise ConnectionClosedError("the session was closed, or its connection")

    def _source(self, stream: str, level: SessionLevel | None) -> str:
        """The stream whose Direct Get is asked."""
        if self._level(level) != "mirror":
            return stream
        if stream not in self._mirrors:
            raise LocalProtocolError(f"level 'mirror' needs a mirror of stream {stream}: mirrors={{{stream!r}: ...}}")
        return self._mirrors[stream]

    def _check_many(self, level: SessionLevel | None) -> None:
        """LocalProtocolError unless many messages can be read at this level."""
        level = self._level(level)
        if level == "leader":
            raise LocalProtocolError("the leader gives one message at a time: read many at level 'direct'")
        if level == "mirror":
            raise LocalProtocolError(
                "a mirror may hold a part of its origin and does not say so: read many at level 'direct', or of the "
                "mirror by its own name"
            )

    def _first(self, level: SessionLevel | None) -> Phase:
        return Phase.STATE if self._level(level) == "leader" else Phase.DIRECT

    def _level(self, level: SessionLevel | None) -> SessionLevel:
        return self.level if level is None else _checked(level)

    def _start(self, read: _Read, now: float, timeout: float | None) -> Ticket[StoredMsg]:
        self._check_open()
        self.js.api.stream_info(read.stream)  # the name is checked before anything is sent
        read.timeout = self._timeout if timeout is None else timeout
        read.until = now + read.timeout
        if self._sid is None:
            self._sid = self._outbox.subscribe(f"{self._inbox}.*", self)
        self._ask(read, now)
        self._reads[read] = None
        return read.ticket

    def _ask(self, read: _Read, now: float) -> None:
        try:
            self._send(read, now)
        except OutboundBufferLimitError as error:
            self._pause(read, error, now)
        self._outbox.rearm(self)

    def _send(self, read: _Read, now: float) -> None:
        """Ask what the phase is for; LocalProtocolError with nothing changed."""
        if read.phase is Phase.STATE and not self._floor(read):
            read.phase = Phase.LEADER  # nothing to be confirmed
        if read.phase is Phase.DIRECT:
            subject, payload = read.subject, read.payload
        elif read.phase is Phase.STATE:
            subject, payload = self.js.api.stream_info(read.stream), b""
        else:
            subject, payload = self.js.api.stream_msg_get(read.stream), read.leader
        token = b"%d-%b" % (self._count + 1, self._draw())
        self._outbox.publish(subject, payload, self._prefix + token)
        self._outbox.flush()
        self._count += 1
        self._forget_request(read)
        read.token = token
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
        read.phase = Phase.PAUSE
        # A linear congruential step (Numerical Recipes) is all the randomness that spreading needs.
        self._seed = (self._seed * 1_664_525 + 1_013_904_223) % 2**32
        pause = min(FIRST_PAUSE * 2**read.pauses, LONGEST_PAUSE) * (0.5 + self._seed / 2**32)
        read.pauses = min(read.pauses + 1, MAX_DOUBLINGS)
        self._deadlines.set(read, min(read.until, now + pause))
        self._outbox.rearm(self)

    def _retry_read(self, read: _Read, error: Error | None, now: float) -> None:
        """That was no answer, or one that proves too little: ask again, or ask the leader."""
        if read.phase is not Phase.DIRECT:
            self._pause(read, error, now)
            return
        read.tries += 1
        if error is not None or not read.tries % DIRECT_TRIES:
            read.error = error or read.error
            read.phase = Phase.STATE
            self._ask(read, now)
        else:
            self._pause(read, error, now)

    def _mirrored(self, read: _Read, mirror: str, now: float) -> None:
        """A mirror answered for the stream: ask again at once, since chance chooses who answers; then the leader."""
        read.tries += 1
        if read.tries % DIRECT_TRIES:
            self._ask(read, now)
        else:
            self._retry_read(read, MirrorAnswerError(read.stream, mirror), now)

    def _floor(self, read: _Read) -> int:
        """The sequence that an answer must not be older than."""
        return self.token[read.stream].floor

    def _stale(self, read: _Read, found: int | None, now: float) -> None:
        read.is_stale = True
        if found is not None:
            read.found = max(found, read.found or 0)
        self._retry_read(read, None, now)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _nobody(self, read: _Read, now: float) -> None:
        if read.phase is not Phase.DIRECT:
            raise JetStreamNotAvailableError(self.js.api.stream_info(read.stream))
        self._retry_read(read, no_direct_get(read.stream, read.subject), now)

    def _receive_direct(self, read: _Read, message: Msg, now: float) -> None:
        try:
            found = direct_message(message)
        except MessageNotFoundError as error:
            self._receive_nothing(read, error, now)
            return
        if found.stream != read.source:
            self._mirrored(read, found.stream, now)
        elif self._is_recent(read, found):
            self._succeed(read, found)
        else:
            self._stale(read, found.seq, now)

    def _is_recent(self, read: _Read, found: StoredMsg) -> bool:
        """Whether a message proves by itself that whoever shows it is not older than the session."""
        floor = self._floor(read)
        if not read.immutable:
            return found.seq >= floor
        return read.source == read.stream or found.seq == read.seq or not floor

    def _receive_part(self, read: _Read, message: Msg, now: float) -> None:
        """Of an answer that ends with up to where it holds."""
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
            error = StatusError.from_status(*status)
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
            self._receive_nothing(read, MessageNotFoundError(*status), now)
            return
        if read.source != read.stream:
            up_to = last  # of a mirror that may have left out what goes before
        if up_to < self._floor(read):
            self._stale(read, up_to, now)
        else:
            self._succeed(read, found)

    def _receive_nothing(self, read: _Read, error: MessageNotFoundError, now: float) -> None:
        """Whoever answered has no such message: only the leader is believed that."""
        floor = self._floor(read)
        if not floor or (read.seq is not None and floor < read.seq):
            read.error = error
            read.phase = Phase.STATE
            self._ask(read, now)
        else:
            self._stale(read, None, now)

    def _receive_state(self, read: _Read, message: Msg, now: float) -> None:
        read.confirmed = StreamInfo.from_json(decode_response(message.payload)).state.last_seq
        if read.confirmed < self._floor(read):
            self._stale(read, read.confirmed, now)
        else:
            read.phase = Phase.LEADER
            self._ask(read, now)

    def _receive_of_leader(self, read: _Read, message: Msg, now: float) -> None:
        found: StoredMsg | None = None
        try:
            found = leader_message(message, read.stream)
        except MessageNotFoundError as error:
            if read.confirmed >= self._floor(read):
                self._fail(read, error)
                return
        floor = self._floor(read)
        if found is not None and (read.confirmed >= floor or found.seq >= floor):
            self._succeed(read, found)
        else:
            self._stale(read, None, now)  # the session wrote, or read, more while the leader was asked

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _succeed(self, read: _Read, message: StoredMsg) -> None:
        self._end(read)
        self.token = self.token.after_read(read.stream, message.seq)
        read.ticket.succeed(message)
        self._outbox.completed(read.ticket)

    def _fail(self, read: _Read, error: Error) -> None:
        self._end(read)
        read.ticket.fail(error)
        self._outbox.completed(read.ticket)

    def _give_up(self, read: _Read) -> None:
        if read.is_stale:
            self._fail(read, StaleReadError(read.stream, self.token[read.stream].floor, read.found))
        else:
            late = TimeoutError(f"no answer from stream {read.stream} within {read.timeout:g} s")
            self._fail(read, read.error or late)

    def _end(self, read: _Read) -> None:
        self._forget_request(read)
        self._reads.pop(read, None)
        self._deadlines.set(read, None)
        self._outbox.rearm(self)


def _checked(level: SessionLevel) -> SessionLevel:
    if level not in ("direct", "leader", "mirror"):
        raise LocalProtocolError(f"a level is 'direct', 'leader' or 'mirror', not {level!r:.50}")
    return level
