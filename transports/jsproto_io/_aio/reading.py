"""The facade for event loops, continued: reading what streams hold.

Rules: as of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.client.read.direct import IfDropped
from jsproto.client.read.single import ReadLevel
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import Instant, Point
from jsproto_io._aio.extras import BatchIterator
from jsproto_io._state.common import Timeout, seconds
from jsproto_io._state.sessions import ConsistentSessionBase
from jsproto_io._state.shared import StoredBatch

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class Reads:
    """The verbs of ``JetStream`` that read."""

    _core: CoreJetStream
    _connection: Connection

    async def get_msg(
        self,
        stream: str,
        seq: int | None = None,
        *,
        subject: str | None = None,
        next: bool = False,
        start_time: Instant | None = None,
        level: ReadLevel = "direct",
        timeout: Timeout | None = None,
    ) -> StoredMsg:
        """Read one message of a stream. MessageNotFoundError when there is none.

        ``seq``: the one with this sequence. ``subject``: the last one of it; wildcards are allowed. ``next``: the first
        one at or behind ``seq`` or ``start_time``, else of all, and of ``subject`` if there is one. ``start_time``: the
        first one stored then or later (nanoseconds since the epoch, or a datetime with a time zone; nats-server 2.11).

        ``level="direct"`` asks any replica of a stream with ``allow_direct``, or a mirror with ``mirror_direct``: the
        quickest. Whoever answers may miss what was stored a moment ago, and a mirror may hold a part of the stream:
        ``message.stream`` names who answered, and MessageNotFoundError says nothing of the others. ``level="leader"``
        asks the stream's leader, which has all that was acknowledged. NoRespondersError when nobody answers.
        """
        limit = seconds(timeout, default=self._core.timeout)
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
        self, stream: str, subject: str, *, level: ReadLevel = "direct", timeout: Timeout | None = None
    ) -> StoredMsg:
        """Read the last message of ``subject``; wildcards are allowed. For the rest see ``get_msg``."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(
            lambda now: self._core.get_last_msg(stream, subject, now=now, level=level, timeout=limit), limit
        )

    async def get_data(
        self,
        stream: str,
        seq: int | None = None,
        *,
        subject: str | None = None,
        next: bool = False,
        start_time: Instant | None = None,
        timeout: Timeout | None = None,
    ) -> bytes:
        """Read the payload of one message alone, chosen as in ``get_msg``, by Direct Get.

        From nats-server 2.12 on nothing else is sent; so nobody can tell which message it was, nor who answered.
        """
        limit = seconds(timeout, default=self._core.timeout)
        verb = partial(
            self._core.get_data,
            stream,
            seq,
            subject=subject,
            next=next,
            start_time=start_time,
            timeout=limit,
        )
        return await self._connection._ask(lambda now: verb(now=now), limit)

    def get_batch(
        self,
        stream: str,
        *,
        seq: int | None = None,
        start_time: Instant | None = None,
        subject: str | None = None,
        batch: int | None = None,
        max_bytes: int | None = None,
        if_dropped: IfDropped = "skip",
        timeout: Timeout | None = None,
    ) -> BatchReader:
        """Read messages of a stream by Direct Get (ADR-31) to its end: from sequence ``seq`` on, or from a time on.

        ``start_time``: nanoseconds since the epoch, or a datetime with a time zone. ``subject``: only what matches it;
        wildcards are allowed. ``batch``: at most so many messages. ``max_bytes``: how much is asked for at once; about
        twice that is buffered. ``if_dropped``: "error" raises MessagesDroppedError when limits, or a purge, took what
        was to come next; "skip" goes on with what is left. ``timeout``: the longest silence, seconds or a timedelta,
        until what is missing is asked for again, and then until the read fails. The stream needs ``allow_direct``, the
        server must be 2.11 or later.

        No message is left out that is there from beginning to end, up to where the read ends; a replica that lags may
        end it early. Answers of mirrors are not taken for the stream's: MirrorAnswerError when only they come. Where
        whoever ends the read has not shown everything himself, the stream's leader is asked. StreamRecreatedError when
        the stream was deleted and made anew between two pages.
        """
        verb = partial(
            self._core.get_batch,
            stream,
            seq=seq,
            start_time=start_time,
            subject=subject,
            batch=batch,
            max_bytes=max_bytes,
            if_dropped=if_dropped,
            timeout=seconds(timeout),
        )
        return BatchReader(self._connection._call(lambda now: verb(now=now)), self._connection)

    def get_last_msgs_for(
        self,
        stream: str,
        subjects: str | Iterable[str],
        *,
        batch: int | None = None,
        up_to_seq: int | None = None,
        up_to_time: Instant | None = None,
        max_bytes: int | None = None,
        timeout: Timeout | None = None,
    ) -> BatchReader:
        """Read the last message of each of ``subjects`` by Direct Get (ADR-31), in the order of the stream.

        Wildcards are allowed; TooManyResultsError when more than 1,024 subjects match. All are as of one sequence, the
        reader's ``up_to_seq``, at which whoever answers had arrived: no subject is left out that is there all the time.
        Of one that loses a message meanwhile (purged, deleted, expired), that one may show, or an older one, or none.
        ``up_to_seq``, ``up_to_time``: as they were at that sequence, or just before that time, as far as whoever
        answers has come there and still has those messages; a ``snapshot`` proves both. ``batch``: at most so many.
        Else as ``get_batch``.
        """
        verb = partial(
            self._core.get_last_msgs_for,
            stream,
            subjects if isinstance(subjects, str) else list(subjects),
            batch=batch,
            up_to_seq=up_to_seq,
            up_to_time=up_to_time,
            max_bytes=max_bytes,
            timeout=seconds(timeout),
        )
        return BatchReader(self._connection._call(lambda now: verb(now=now)), self._connection)

    async def snapshot(
        self,
        stream: str,
        subjects: str | Iterable[str] = ">",
        *,
        at: Point | None = None,
        max_bytes: int | None = None,
        timeout: Timeout | None = None,
    ) -> BatchReader:
        """Read the last message of each of ``subjects``, any number of them, all as of one sequence of the stream.

        Wildcards are allowed. The reader's ``up_to_seq`` says which sequence it is: the leader's last one at the call,
        or a later one. Writers that overwrite meanwhile only make it take longer, until SnapshotError after a million
        messages written meanwhile. It needs memory for all messages that it shows. Of a subject that loses a message
        meanwhile (purged, deleted, expired), that one may show, or an older one, or none.

        ``at``: as of that sequence, or just before that time (a datetime with a time zone). Exactly so, of what the
        stream still held when the read began: what had been purged, deleted or dropped by then is left out.
        SnapshotError when a subject may have been overwritten since, by the limits that the stream has now, or no
        replica shows that sequence.

        The stream's leader is asked for its state, and for subjects where more than one answer is needed: SnapshotError
        when one of those is not UTF-8. Servers before 2.12 show no single moment in an answer, and the one connected to
        stands for all of them. ``timeout``: that of each step. Else as ``get_batch``.
        """
        limit = seconds(timeout, default=self._core.timeout)
        verb = partial(
            self._core.snapshot,
            stream,
            subjects if isinstance(subjects, str) else list(subjects),
            at=at,
            max_bytes=max_bytes,
            timeout=limit,
        )
        core = await self._connection._ask(lambda now: verb(now=now), limit)
        return BatchReader(core, self._connection)


class BatchReader(BatchIterator):
    """Stored messages. Made by ``JetStream.get_batch()``, ``get_last_msgs_for()`` and ``snapshot()``.

    Iterate over it once. The iteration raises IncompleteBatchError when it broke off, NoRespondersError when the stream
    does not answer Direct Gets, StatusError (or the subclass that fits) when the server refuses. As a context manager
    it stops reading at the end.
    """

    def __init__(self, core: StoredBatch, connection: Connection, session: ConsistentSessionBase | None = None) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection
        self._session = session  # which is not dropped while it is read from

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def columns(self, most: int = 10_000) -> AsyncIterator[StoredColumns]:
        """The messages as columns instead, up to ``most`` at a time: what has come, at least one, in order.

        For whoever wants every field of many messages, such as a table. Use this or the iteration, not both.
        """
        while True:
            found = self._connection._call(partial(self._take_columns, most))
            if isinstance(found, StoredColumns):
                yield found
            elif found is None:
                return
            else:
                await self._connection._wait(found)

    async def close(self) -> None:
        """Stop reading; what was not taken is dropped."""
        self._connection._release(self._close)
