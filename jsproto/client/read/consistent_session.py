"""Consistent sessions: read your writes, and monotonic reads, though any replica may answer.

What the levels of reading promise by themselves, strongest first:

* ``leader``: the stream's leader answers. It has every acknowledged message, with one exception: after a change of
  leaders, or in a split network, an old leader may still answer. Each request goes to all servers, so this level
  costs most.
* ``direct``: any replica answers, or a mirror with ``mirror_direct``. A message just written may be missing, and of two
  reads the second may be the older one. A mirror may hold a part of the stream.
* ``mirror``: a mirror answers. It may lag by any distance while the way to its origin is cut.

What a session adds. Its token holds the highest sequence that it wrote and read of each stream. A last message, a next
message and the end of a batch show the stream at that sequence or later, or the read fails with StaleReadError.

What a session does not promise:

* No linearizable reads: a session knows what it has seen itself, and the tokens that were merged into it.
* A message that is read by its sequence, or inside a batch, may be one that a later write has replaced.
* Purges and deletions, also by limits, have no sequence. A session may read a deleted message until the replica that
  answers has deleted it too. A message that says "deleted" is covered.
* Consumers deliver in order but may start late. ``observe`` adds a message that a consumer delivered to the token.
* A stream that comes back shorter is noticed by what was read. A write alone has no witness, so it is noticed only
  while the stream ends before it. A stream that does so while the link lives may be noticed late.

Not here: how an answer proves that it is fresh (``consistency``), reads of many messages (``consistent_batch``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Unpack, get_args

from jsproto.client.read.consistency import ConsistentReads
from jsproto.client.read.consistent_batch import SessionBatch, SessionLastMsgs
from jsproto.client.read.read_options import BatchOptions, PageOptions
from jsproto.client.read.single import direct_request, selection
from jsproto.errors import LocalProtocolError, WrongTypeError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.bodies import dumps
from jsproto.grammar.fields import checked_word
from jsproto.grammar.options import explained
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import check_name
from jsproto.grammar.times import Instant, seconds
from jsproto.rules.consistent_read import ReadPhase
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.client.publish.publish_options import AcknowledgedOptions

SessionLevel: TypeAlias = Literal["direct", "leader", "mirror"]
"""Which server a session asks first: any replica, the stream's leader, or a mirror of the stream."""

BATCH_READS: Final = "2.11"  # the first server whose reply to multi_last has Nats-UpTo-Sequence


class ConsistentSession:
    """Reads that are never older than what this session has written and read.

    Attributes: ``js`` (its ``JetStream``) and ``level`` (its ``SessionLevel``, where a verb gives none).
    """

    __slots__ = ("_mirrors", "_reads", "_timeout", "js", "level")

    def __init__(
        self,
        js: JetStream,
        *,
        token: SessionToken | bytes | None = None,
        level: SessionLevel = "direct",
        mirrors: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """A session that knows ``token``: another session's ``token``, or its bytes. None: it knows nothing.

        ``mirrors``: for level ``mirror``, the name of the mirror by the name of its stream. When the leader is asked,
        it is that of the stream. ``timeout``: seconds for each read, those of ``js`` when None.

        Raises:
            BadTokenError: the bytes are no token.
            LocalProtocolError: ``level`` is no level, or a name in ``mirrors`` is no name of a stream.
        """
        self.js = js
        known = SessionToken() if token is None else _known(token)
        if mirrors is not None and not isinstance(mirrors, Mapping):
            raise WrongTypeError(f"mirrors must be a mapping of streams to mirrors, not {mirrors!r:.100}")
        self._mirrors = {check_name(name): check_name(mirror) for name, mirror in (mirrors or {}).items()}
        self.level: SessionLevel = _checked(level)
        self._timeout = seconds(timeout, default=js.timeout)
        self._reads = ConsistentReads(js, known)

    # -- what it knows -------------------------------------------------------------------------------------------------

    @property
    def token(self) -> SessionToken:
        """The highest sequences written and read, by stream: a value that another session can be given at any time."""
        return self._reads.known.token

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, or the connection has ended."""
        return self._reads.closed

    def record(self, ack: PubAck) -> None:
        """Add a publish of this session to the token: the message, or the batch, that ``ack`` acknowledges.

        Raises:
            LocalProtocolError: ``ack.stream`` is no name of a stream.
        """
        if not isinstance(ack, PubAck):
            raise WrongTypeError(f"ack must be the PubAck of a publish, not {ack!r:.100}")
        if ack.seq:
            self._reads.known.token = self.token.after_write(check_name(ack.stream), ack.seq)

    def observe(self, stream: str, seq: int, timestamp: int | None = None) -> None:
        """Add a message that was seen in another way to the token: the message ``seq`` of ``stream``.

        ``timestamp``: when it was stored, in nanoseconds since the epoch (``msg.metadata.timestamp``): the witness of
        the message. None: there is none.

        Raises:
            LocalProtocolError: one of them cannot be.
        """
        check_name(stream)
        seen = [] if timestamp is None else [StreamPosition(stream, seq, None, timestamp)]
        SessionToken({stream: (0, seq)}, seen)  # which checks them
        self._reads.known.saw(stream, seq, timestamp)

    def merge(self, token: SessionToken | bytes) -> None:
        """Add another session's token, perhaps of another process: of each stream the higher sequence counts.

        Raises:
            BadTokenError: the bytes are no token.
        """
        self._reads.known.merge(_known(token))

    def forget(self, stream: str) -> None:
        """Remove ``stream`` from the token: it was deleted and created again, or came back shorter.

        This is the way out of StreamRecreatedError and StreamRolledBackError. Reads show the stream as it is now.
        """
        self._reads.known.forget(check_name(stream))

    def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        now: float,
        **options: Unpack[AcknowledgedOptions],
    ) -> Ticket[PubAck]:
        """``JetStream.publish``, and ``record`` its acknowledgement.

        Raises:
            ConnectionClosedError: the session or its connection was closed.
            LocalProtocolError: see ``JetStream.publish``.
        """
        self._reads.check_open()
        ticket = self.js.publish(subject, payload, now=now, **options)
        return self.js.session.run(self._recorded(ticket))

    def _recorded(self, ticket: Ticket[PubAck]) -> Generator[Ticket[Any], Any, PubAck]:
        ack: PubAck = yield ticket
        self.record(ack)
        return ack

    # -- reads ---------------------------------------------------------------------------------------------------------

    def get_last_msg(
        self, stream: str, subject: str, *, now: float, level: SessionLevel | None = None, timeout: float | None = None
    ) -> Ticket[StoredMsg]:
        """The last message of ``subject``, as ``get_msg`` reads it."""
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
        """One message, chosen as in ``JetStream.get_msg``, of the stream at this session's token or later.

        ``level``: that of the session when None. ``timeout``: seconds, those of the session when None. The ticket fails
        as the drivers' verb does, or with MirrorAnswerError: only mirrors answered.

        Raises, with nothing sent:
            LocalProtocolError: the choice is none or contradicts itself, or level ``mirror`` has no mirror.
            ConnectionClosedError: the session or its connection was closed.
        """
        body = selection(seq, subject, next, start_time)
        wanted = body.get("last_by_subj")
        source = self._source(stream, level)
        direct = direct_request(self.js.api, source, body)
        first = ReadPhase.STATE if self._level(level) == "leader" else ReadPhase.DIRECT
        if wanted is not None and not ("*" in wanted or ">" in wanted):
            server = self.js.session.server
            if server is not None and server.is_before(BATCH_READS):
                first = ReadPhase.STATE
            direct = (self.js.api.direct_get(source), dumps({"multi_last": [wanted]}))
        return self._reads.start(
            stream, source, direct, dumps(body), first=first, proves=direct[1].startswith(b'{"multi_last"'), seq=seq,
            is_next=next or start_time is not None, now=now, timeout=self._timeout if timeout is None else timeout,
        )  # fmt: skip

    @explained(BatchOptions, PageOptions)
    def get_batch(
        self,
        stream: str,
        *,
        now: float,
        level: SessionLevel | None = None,
        timeout: float | None = None,
        **options: Unpack[BatchOptions],
    ) -> SessionBatch:
        """``JetStream.get_batch``, which does not end before this session's token. At level ``direct`` only.

        Raises:
            ConnectionClosedError: the session or its connection was closed.
            LocalProtocolError: the level is not ``direct``, or an argument is out of its range.
            UnsupportedByServerError: the server is older than 2.11.
        """
        self._check_many(level)
        limit = self._timeout if timeout is None else timeout
        return SessionBatch(self._reads, stream, now=now, timeout=limit, **options)

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
        """The last message of each of ``subjects``, as ``SessionLastMsgs`` reads them. At level ``direct`` only.

        Raises: as ``get_batch``.
        """
        self._check_many(level)
        limit = self._timeout if timeout is None else timeout
        return SessionLastMsgs(self._reads, stream, subjects, now=now, max_bytes=max_bytes, timeout=limit)

    def close(self) -> None:
        """End the session: single reads under way fail with ConnectionClosedError. The token can still be taken.

        A ``SessionBatch`` or a ``SessionLastMsgs`` has a ``close`` of its own.
        """
        self._reads.close()

    # -- levels --------------------------------------------------------------------------------------------------------

    def _source(self, stream: str, level: SessionLevel | None) -> str:
        """The stream whose Direct Get is asked."""
        if self._level(level) != "mirror":
            return stream
        if stream not in self._mirrors:
            raise LocalProtocolError(f"level 'mirror' needs a mirror of stream {stream}: mirrors={{{stream!r}: ...}}")
        return self._mirrors[stream]

    def _check_many(self, level: SessionLevel | None) -> None:
        """LocalProtocolError, or UnsupportedByServerError, unless many messages can be read at this level."""
        self._reads.check_open()
        level = self._level(level)
        if level == "leader":
            raise LocalProtocolError("the leader gives one message at a time: read many at level 'direct'")
        if level == "mirror":
            raise LocalProtocolError(
                "a mirror may hold a part of its origin and does not say so: read many at level 'direct', or of the "
                "mirror by its own name"
            )
        self.js.need_batches()

    def _level(self, level: SessionLevel | None) -> SessionLevel:
        return self.level if level is None else _checked(level)


def _known(token: SessionToken | bytes) -> SessionToken:
    if not isinstance(token, SessionToken | bytes):
        raise WrongTypeError(f"token must be a SessionToken, or the bytes of one, not {token!r:.100}")
    return SessionToken.from_bytes(token) if isinstance(token, bytes) else token


def _checked(level: SessionLevel) -> SessionLevel:
    checked_word("level", level, get_args(SessionLevel))
    return level
