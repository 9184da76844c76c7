"""The facade for event loops, continued: sessions with consistent reads.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Unpack

from jsproto.client.read.consistent_session import ConsistentSession as CoreConsistentSession
from jsproto.client.read.consistent_session import SessionLevel
from jsproto.client.read.read_options import BatchOptions, PageOptions
from jsproto.grammar.acks import PubAck
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.options import explained, named
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import seconds
from jsproto_io._aio.asking import Asks
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.reading import BatchReader
from jsproto_io._state.common import Timeout
from jsproto_io._state.keywords import PublishKeywords, ReadOptions, publish_options
from jsproto_io._state.sessions import ConsistentSessionBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class Sessions(Asks):
    """The verb of ``JetStream`` that opens a session."""

    def consistent_session(
        self,
        *,
        token: SessionToken | bytes | None = None,
        level: SessionLevel = "direct",
        mirrors: Mapping[str, str] | None = None,
        timeout: Timeout | None = None,
    ) -> ConsistentSession:
        """A session whose reads show what it wrote and read before, whichever replica answers.

        Args:
            token: how far another session got, perhaps in another process: a SessionToken, or its bytes.
            level: "direct", "leader" or "mirror": where reads are sent first. The stream's leader is the last resort.
            mirrors: for the level "mirror", the name of the mirror for each stream.
            timeout: of each read, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            BadTokenError: the bytes are no token.
        """
        limit = seconds(timeout, default=self._core.timeout)
        core = self._connection._call(
            lambda now: self._core.consistent_session(token=token, level=level, mirrors=mirrors, timeout=limit)
        )
        return ConsistentSession(core, self._connection, limit)


class ConsistentSession(ConsistentSessionBase, Managed):
    """Reads and writes of one session. Made by ``JetStream.consistent_session()``.

    Example:

        async with js.consistent_session() as session:
            await session.publish("orders.anna", b"tea")
            order = await session.get_last_msg("ORDERS", "orders.anna")
            print(order.data, session.token)

    A last message, a next message and the end of a batch show the stream as it was at ``token`` or later. An answer
    that could be older is requested again, in the end from the leader. A message that is read by its sequence, or
    inside a batch, may be one that a later write has replaced. The session covers what it knows of, not the newest
    value anywhere. Purges and deletions are not covered. As a context manager it closes at the end.

    The first read with a token from outside, or over a new link, proves at the stream's leader that the message read
    last is still there.

    Its reads raise:
        StaleReadError: no answer was new enough in time.
        StreamRolledBackError: the stream came back shorter than it was, so sequences stand for other messages now.
        StreamRecreatedError: the stream was deleted and created again. ``forget(stream)`` goes on in both cases.
    """

    _connection: Connection

    def __init__(self, core: CoreConsistentSession, connection: Connection, timeout: float) -> None:
        super().__init__(core, timeout)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.close()

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: Timeout | None = None,
        retry_attempts: int | None = None,
        retry_wait: Timeout | None = None,
        **options: Unpack[PublishKeywords],
    ) -> PubAck:
        """As ``JetStream.publish``. Reads of this session show the message from then on."""
        limit = seconds(timeout, default=self._timeout)
        keywords = publish_options(options)
        return await self._connection._ask(
            lambda now: self._core.publish(
                subject, payload, now=now, headers=headers, timeout=limit, retry_attempts=retry_attempts,
                retry_wait=retry_wait, **keywords,
            ),
            limit,
        )  # fmt: skip

    @explained(ReadOptions)
    async def get_msg(
        self,
        stream: str,
        seq: int | None = None,
        *,
        level: SessionLevel | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[ReadOptions],
    ) -> StoredMsg:
        """Read one message, chosen as in ``JetStream.get_msg``.

        Args:
            level: where the read is sent first. None: the session's.

        Raises:
            MessageNotFoundError: the leader has no such message.
            StaleReadError: no answer was new enough in time.
            TimeoutError: no answer came in time.
        """
        limit = seconds(timeout, default=self._timeout)
        verb = partial(self._core.get_msg, stream, seq, level=level, timeout=limit, **named(ReadOptions, options))
        return await self._connection._ask(lambda now: verb(now=now), limit)

    async def get_last_msg(
        self, stream: str, subject: str, *, level: SessionLevel | None = None, timeout: Timeout | None = None
    ) -> StoredMsg:
        """Read the last message of ``subject``, in which wildcards are allowed. Otherwise as ``get_msg``."""
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(
            lambda now: self._core.get_last_msg(stream, subject, now=now, level=level, timeout=limit), limit
        )

    @explained(BatchOptions, PageOptions)
    def get_batch(
        self,
        stream: str,
        *,
        level: SessionLevel | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[BatchOptions],
    ) -> BatchReader:
        """As ``JetStream.get_batch``. It does not end before what this session knows of.

        Args:
            level: "direct". None: the session's, which must be that.

        The iteration raises:
            StaleReadError: no answer was new enough in time.
        """
        limit = seconds(timeout)
        verb = partial(self._core.get_batch, stream, level=level, timeout=limit, **named(BatchOptions, options))
        core = self._connection._call(lambda now: verb(now=now))
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
        """The last message of each of ``subjects``, at one sequence: that of the session's token, or a later one.

        Args:
            stream: the stream's name.
            subjects: one or more. Wildcards are allowed.
            max_bytes: bytes to request at once. None: 8 MiB.
            level: "direct". None: the session's, which must be that.
            timeout: seconds, or a timedelta. None: that of ``consistent_session()``.

        The iteration raises:
            TooManyResultsError: more than 1,024 subjects match.
            StaleReadError: no replica had reached the token in time.
        """
        limit = seconds(timeout)
        core = self._connection._call(
            lambda now: self._core.get_last_msgs_for(
                stream, subjects, now=now, max_bytes=max_bytes, level=level, timeout=limit
            )
        )
        return BatchReader(core, self._connection, self)

    async def close(self) -> None:
        """Send no more requests. ``token`` can still be taken.

        Single reads under way fail with ConnectionClosedError. Readers of many messages are closed by their own
        ``close()``.
        """
        self._connection._release(lambda now: self._core.close())
