"""The facade for event loops, continued: reading stored messages.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Unpack

from jsproto.client.read.multi import checked_subjects
from jsproto.client.read.read_options import BatchOptions, LastOptions, PageOptions, SnapshotOptions
from jsproto.client.read.single import ReadLevel
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.fields import check_count
from jsproto.grammar.options import explained, named
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import seconds
from jsproto_io._aio.asking import Asks
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.extras import BatchIterator
from jsproto_io._state.common import Timeout
from jsproto_io._state.keywords import ReadOptions
from jsproto_io._state.sessions import ConsistentSessionBase
from jsproto_io._state.shared import StoredBatch

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class Reads(Asks):
    """The verbs of ``JetStream`` that read."""

    @explained(ReadOptions)
    async def get_msg(
        self,
        stream: str,
        seq: int | None = None,
        *,
        level: ReadLevel | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[ReadOptions],
    ) -> StoredMsg:
        """Read one message of a stream.

        ``level="direct"`` is the fastest (Direct Get, ADR-31). It asks any replica of a stream with ``allow_direct``,
        or a mirror with ``mirror_direct``. A replica may lag, and a mirror may hold a part of the stream.
        ``message.stream`` names the stream that answered. ``level="leader"`` asks the stream's leader, which has all
        that was acknowledged.

        Args:
            stream: the stream's name.
            seq: the sequence of the message.
            level: "direct" or "leader". None: "direct", or "leader" where the stream allows no Direct Get.
            timeout: of each of these questions, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            MessageNotFoundError: there is no such message. A Direct Get says nothing about other replicas.
            StreamNotFoundError: there is no such stream.
            NoRespondersError: with "direct", the stream does not exist, or allows no Direct Get.
        """
        limit = seconds(timeout, default=self._core.timeout)
        verb = partial(self._core.get_msg, stream, seq, level=level, timeout=limit, **named(ReadOptions, options))
        return await self._connection._ask(lambda now: verb(now=now), limit)

    async def get_last_msg(
        self, stream: str, subject: str, *, level: ReadLevel | None = None, timeout: Timeout | None = None
    ) -> StoredMsg:
        """Read the last message of ``subject``, in which wildcards are allowed. Otherwise as ``get_msg``.

        Args:
            stream: the stream's name.
            subject: the last message of this subject.
            level: as in ``get_msg``.
            timeout: as in ``get_msg``.
        """
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(
            lambda now: self._core.get_last_msg(stream, subject, now=now, level=level, timeout=limit), limit
        )

    @explained(ReadOptions)
    async def get_data(
        self,
        stream: str,
        seq: int | None = None,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ReadOptions],
    ) -> bytes:
        """Read the payload of one message alone by Direct Get (ADR-31). The message is chosen as in ``get_msg``.

        From nats-server 2.12 on it sends nothing else. So neither the message's sequence nor the answering replica is
        known.
        """
        limit = seconds(timeout, default=self._core.timeout)
        verb = partial(self._core.get_data, stream, seq, timeout=limit, **named(ReadOptions, options))
        return await self._connection._ask(lambda now: verb(now=now), limit)

    @explained(BatchOptions, PageOptions)
    def get_batch(
        self,
        stream: str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[BatchOptions],
    ) -> BatchReader:
        """Read messages of a stream to its end by Direct Get (ADR-31).

        The stream needs ``allow_direct``, the server must be 2.11 or later. No message is left out that is there from
        beginning to end, up to where the read ends; a replica that lags may end it early. An end is confirmed by the
        stream's leader, unless one replica has shown all messages. Answers of mirrors are not accepted.
        About twice ``max_bytes`` are buffered.

        Args:
            stream: the stream's name.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``. After so long a silence the missing
                messages are requested again, after another one the read fails.

        The iteration raises these errors, and those of ``BatchReader``:
            MessagesDroppedError: see ``if_dropped``.
            MirrorAnswerError: only mirrors answered.
            StreamRecreatedError: the stream was deleted and created again between two pages.
            UnsupportedByServerError: the server is older than 2.11.
        """
        verb = partial(self._core.get_batch, stream, timeout=timeout, **named(BatchOptions, options))
        return BatchReader(self._connection._call(lambda now: verb(now=now)), self._connection)

    @explained(LastOptions, PageOptions)
    def get_last_msgs_for(
        self,
        stream: str,
        subjects: str | Iterable[str],
        *,
        timeout: Timeout | None = None,
        **options: Unpack[LastOptions],
    ) -> BatchReader:
        """Read the last message of each of ``subjects`` by Direct Get (ADR-31), in the order of the stream.

        All answers are of one sequence, the reader's ``up_to_seq``, which the answering replica had reached: no subject
        is left out that is there all the time. A subject that loses a message meanwhile (purged, deleted, expired),
        that one may show, or an older one, or none. Otherwise as ``get_batch``.

        Args:
            stream: the stream's name.
            subjects: one or more. Wildcards are allowed.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        The iteration raises:
            TooManyResultsError: more than 1,024 subjects match.
        """
        few, asked = checked_subjects(subjects), named(LastOptions, options)
        verb = partial(self._core.get_last_msgs_for, stream, few, timeout=timeout, **asked)
        return BatchReader(self._connection._call(lambda now: verb(now=now)), self._connection)

    @explained(SnapshotOptions, PageOptions)
    async def snapshot(
        self,
        stream: str,
        subjects: str | Iterable[str] = ">",
        *,
        timeout: Timeout | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> BatchReader:
        """Read the last message of each of ``subjects``, any number of them, at one sequence of the stream.

        The reader's ``up_to_seq`` is that sequence: the leader's last one at the call, or a later one. Concurrent
        writers only make it take longer. It needs memory for all messages that it shows. When a subject loses a message
        meanwhile (purged, deleted, expired), that one may show, or an older one, or none.

        The stream's leader is asked for its state, and for its subjects where one answer is not enough. Before
        nats-server 2.12 an answer has no sequence, and the server connected to stands for all of them.

        Args:
            stream: the stream's name.
            subjects: one or more. Wildcards are allowed.
            timeout: of each step, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises, here or in the iteration:
            SnapshotError: a million messages were written meanwhile, or a subject is not UTF-8. With ``at``: a subject
                may have been overwritten since, by the present limits of the stream, or no replica shows that sequence.
        """
        limit = seconds(timeout, default=self._core.timeout)
        wanted, asked = checked_subjects(subjects), named(SnapshotOptions, options)
        verb = partial(self._core.snapshot, stream, wanted, timeout=limit, **asked)
        core = await self._connection._ask(lambda now: verb(now=now), limit)
        return BatchReader(core, self._connection)


class BatchReader(BatchIterator, Managed):
    """Stored messages. Made by ``JetStream.get_batch()``, ``get_last_msgs_for()`` and ``snapshot()``.

    Example:

        async for order in js.get_batch("ORDERS", subject="orders.anna"):
            print(order.seq, order.data)

    Iterate over it once. As a context manager it stops reading at the end.

    The iteration raises:
        IncompleteBatchError: the read broke off.
        NoRespondersError: the stream does not answer Direct Gets.
        StatusError: the server refused a request. Most of its codes have a subclass.
    """

    def __init__(self, core: StoredBatch, connection: Connection, session: ConsistentSessionBase | None = None) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection
        self._session = session  # keeps the session alive

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.close()

    async def columns(self, most: int = 10_000) -> AsyncIterator[StoredColumns]:
        """The messages as columns instead, up to ``most`` at a time: what has come, at least one, in order.

        For readers of every field of many messages, such as a table. Use this or the iteration, not both.

        Args:
            most: the most messages in one result.
        """
        check_count("most", most)
        while True:
            found = self._connection._call(partial(self._take_columns, most))
            if isinstance(found, StoredColumns):
                yield found
            elif found is None:
                return
            else:
                await self._connection._wait(found)

    async def close(self) -> None:
        """Stop reading, and drop what was not taken. No effect the second time."""
        self._connection._release(self._close)
