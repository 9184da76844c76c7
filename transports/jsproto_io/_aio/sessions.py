"""The facade for event loops, continued: sessions whose reads never fall behind.

Rules: as of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.client.read.consistent_session import ConsistentSession as CoreConsistentSession
from jsproto.client.read.consistent_session import SessionLevel
from jsproto.grammar.acks import PubAck
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.position import SessionToken
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import Instant
from jsproto_io._aio.reading import BatchReader
from jsproto_io._state.common import Timeout, seconds
from jsproto_io._state.sessions import ConsistentSessionBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class Sessions:
    """The verb of ``JetStream`` that opens a session."""

    _core: CoreJetStream
    _connection: Connection

    def consistent_session(
        self,
        *,
        token: SessionToken | bytes | None = None,
        level: SessionLevel = "direct",
        mirrors: Mapping[str, str] | None = None,
        timeout: Timeout | None = None,
    ) -> ConsistentSession:
        """Reads that show what was written and read before them, whoever answers.

        ``token``: where another session got to, perhaps in another process; BadTokenError when the bytes are none.
        ``level``: who is asked first, as in ``get_msg``; "mirror" asks the mirror that ``mirrors`` names for a stream.
        ``timeout``: for each read, seconds or a timedelta.
        """
        limit = seconds(timeout, default=self._core.timeout)
        core = self._connection._call(
            lambda now: self._core.consistent_session(token=token, level=level, mirrors=mirrors, timeout=limit)
        )
        return ConsistentSession(core, self._connection, limit)


class ConsistentSession(ConsistentSessionBase):
    """Reads and writes of one session. Made by ``JetStream.consistent_session()``.

    A read shows its stream as it was at ``token`` or later: all that this session has written, nothing older than it
    has read. What a replica answers is asked for again when it could be older, then the leader is asked; StaleReadError
    when nobody knew better in time. It is about what this session knows of, not about the newest value anywhere; purges
    and deletions are not covered. As a context manager it closes at the end.
    """

    _connection: Connection

    def __init__(self, core: CoreConsistentSession, connection: Connection, timeout: float) -> None:
        super().__init__(core, timeout)
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        timeout: Timeout | None = None,
    ) -> PubAck:
        """As ``JetStream.publish``; reads of this session show it from then on."""
        limit = seconds(timeout, default=self._timeout)
        verb = partial(
            self._core.publish,
            subject,
            payload,
            headers=headers,
            msg_id=msg_id,
            expected_stream=expected_stream,
            expected_last_seq=expected_last_seq,
            expected_last_subject_seq=expected_last_subject_seq,
            timeout=limit,
        )
        return await self._connection._ask(lambda now: verb(now=now), limit)

    async def get_msg(
        self,
        stream: str,
        seq: int | None = None,
        *,
        subject: str | None = None,
        next: bool = False,
        start_time: Instant | None = None,
        level: SessionLevel | None = None,
        timeout: Timeout | None = None,
    ) -> StoredMsg:
        """Read one message, chosen as in ``JetStream.get_msg``. MessageNotFoundError when the leader has none.

        ``level``: who is asked first, that of the session when None. StaleReadError, TimeoutError.
        """
        limit = seconds(timeout, default=self._timeout)
        verb = partial(
            self._core.get_msg,
            stream,
            seq,
            subject=subject,
            next=next,
            start_time=start_time,
            level=level,
            timeout=limit,
        )
        return await self._connection._ask(lambda now: verb(now=now), limit)

    async def get_last_msg(
        self, stream: str, subject: str, *, level: SessionLevel | None = None, timeout: Timeout | None = None
    ) -> StoredMsg:
        """Read the last message of ``subject``; wildcards are allowed. For the rest see ``get_msg``."""
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(
            lambda now: self._core.get_last_msg(stream, subject, now=now, level=level, timeout=limit), limit
        )

    def get_batch(
        self,
        stream: str,
        *,
        seq: int = 1,
        subject: str | None = None,
        batch: int | None = None,
        max_bytes: int | None = None,
        level: SessionLevel | None = None,
        timeout: Timeout | None = None,
    ) -> BatchReader:
        """As ``JetStream.get_batch``, from sequence ``seq`` on; it does not end before what this session knows of.

        ``level``: "direct", that of the session when None. StaleReadError.
        """
        limit = seconds(timeout)
        core = self._connection._call(
            lambda now: self._core.get_batch(
                stream, now=now, seq=seq, subject=subject, batch=batch, max_bytes=max_bytes, level=level, timeout=limit
            )
        )
        return BatchReader(core, self._connection, self)

    def get_last_msgs_for(
        self,
        stream: str,
        subjects: str | Iterable[str],
        *,
        max_bytes: int | None = None,
        level: SessionLevel | None = None,
        timeout: Timeout | None = None,
    ) -> BatchReader:
        """The last message of each of ``subjects``, as of one sequence: the session's token, or later.

        Wildcards are allowed; TooManyResultsError when more than 1,024 subjects match. ``max_bytes`` bounds what is
        asked for at once. ``level``: "direct", which is that of the session when None. StaleReadError when nobody has
        come as far as the token in time.
        """
        limit = seconds(timeout)
        core = self._connection._call(
            lambda now: self._core.get_last_msgs_for(
                stream, subjects, now=now, max_bytes=max_bytes, level=level, timeout=limit
            )
        )
        return BatchReader(core, self._connection, self)

    async def close(self) -> None:
        """Ask no more: single reads under way fail with ConnectionClosedError. ``token`` can still be taken.

        Whoever reads many messages closes that by itself.
        """
        self._connection._release(lambda now: self._core.close())
