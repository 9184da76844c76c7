"""The facade for event loops, continued: publishing ahead of the acknowledgements, and watching for abandoned batches.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, Generator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from jsproto.client.publish.advisories import BatchAdvisories as CoreBatchAdvisories
from jsproto.client.publish.pipelined import PipelinedPublisher as CoreAsyncPublisher
from jsproto.grammar.acks import PubAck
from jsproto.grammar.advisory import BatchAbandoned
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.times import seconds
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.extras import Messages
from jsproto_io._aio.taking import Iterates
from jsproto_io._state.common import MAX_CHUNK, OutgoingMessage, Timeout, next_chunk
from jsproto_io._state.keywords import PublishKeywords, merged_headers
from jsproto_io._state.limit import Limit
from jsproto_io._state.publishing import (
    BatchAdvisoriesBase,
    Hand,
    PendingAckBase,
    PipelinedPublisherBase,
    PublishesSome,
)

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class PublishesMany(PublishesSome):
    """Publishes the messages of an iterable, no faster than the server takes them."""

    _connection: Connection

    async def publish_many(self, messages: Messages) -> int:
        """Publish all of ``messages``, no faster than the server takes them.

        An iterator is read in chunks of up to 512 messages. What it gave, and was not published when the call ended
        with an error, is at the end of ``unacknowledged``. So is the rest of a list, a tuple or columns. The rest of an
        iterator is in the iterator. This holds for any error, for a cancellation and for Ctrl-C.

        The publisher stays usable after a LocalProtocolError, a cancellation, and an exception of the iterator. The
        messages before that exception are published. ``take_unpublished()`` gives back the others, to go on with.

        Args:
            messages: each is ``(subject, payload)`` or ``(subject, payload, headers)``. ``MessageColumns`` are cheaper
                than a list. Headers cost least where all messages have the same names in the same order.

        Returns:
            The sequence of the last message.

        Raises:
            LocalProtocolError: a message cannot be sent. The messages before it are published.
            AsyncPublishError: a publisher of ``async_publisher()`` has as many failed messages as its window holds. The
                error holds them.
        """
        hand = self._take_in_hand(messages)
        try:
            # -- for event loops alone
            if isinstance(messages, AsyncIterable):
                async for message in messages:
                    hand.messages = (message,)
                    if not self._offer(hand):
                        await self._publish_later(hand)
                return self.sequence
            # -- for threads as well
            if hand.rest is not None:
                while hand.place < len(hand.rest):
                    stop = hand.place + min(MAX_CHUNK, self._chunk_limit)
                    hand.messages = hand.rest[hand.place : stop]
                    hand.place = stop
                    if not self._offer(hand):
                        await self._publish_later(hand)
                return self.sequence
            pull, now = iter(messages), self._connection._now
            size = 1
            while True:
                chunk: list[OutgoingMessage] = []
                hand.messages = chunk
                wanted = min(size, self._chunk_limit)
                started = now()
                try:
                    chunk.extend(islice(pull, wanted))  # keeps the messages before an exception of the iterable
                except Exception:
                    if not self._offer(hand):
                        await self._publish_later(hand)
                    raise
                took = now() - started
                whole = self._offer(hand) or await self._publish_later(hand)
                if len(chunk) < wanted:
                    return self.sequence
                size = next_chunk(size, took, whole)
        finally:
            self._put_down(hand)

    def _offer(self, hand: Hand) -> bool:
        """Publish of ``hand.messages`` what finds room. Returns whether that is all."""
        if hand.messages and not self._is_full:
            self._connection._call(partial(self._publish_some, hand), coalesce=True)
        return not hand.messages

    async def _publish_later(self, hand: Hand) -> bool:
        """Publish ``hand.messages``, which found no room. Returns whether their bytes would have found it."""
        whole = True
        while True:
            whole = whole and not self._connection._session.congested
            await self._make_room()
            if self._offer(hand):
                return whole

    @abstractmethod
    async def _make_room(self) -> None:
        """Wait until some of what was not taken may be."""


class PendingAck(PendingAckBase):
    """The promised acknowledgement of one message. Made by ``publish_async()``."""

    __slots__ = ()

    _publisher: PipelinedPublisher

    # -- for event loops alone
    def __await__(self) -> Generator[Any, Any, PubAck]:
        """The same as ``result()``."""
        return self.result().__await__()

    # -- for threads as well
    async def result(self, *, timeout: Timeout | None = None) -> PubAck:
        """Wait for the acknowledgement.

        Args:
            timeout: of this wait alone, in seconds or as a timedelta. None: until the message's own timeout.

        Raises:
            APIError: the server refused the message. Most of its codes have a subclass.
            NoStreamResponseError: no stream listens to the subject.
            TimeoutError: no acknowledgement came in time, or not within ``timeout``.
            ConnectionLostError: the link broke before the acknowledgement came.
        """
        limit = seconds(timeout)
        if self._ticket.done:
            return self._ticket.result()
        connection = self._publisher._connection
        connection._call(lambda now: connection._session.flush())
        return await connection._wait(self._ticket, limit)


class PipelinedPublisher(PipelinedPublisherBase, PublishesMany, Managed):
    """Publishes ahead of the acknowledgements. Made by ``JetStream.async_publisher()``.

    Example:

        async with js.async_publisher() as publisher:
            pending = await publisher.publish("orders.anna", b"tea")
            await publisher.publish_many(("orders.new", b"%d" % n) for n in range(100))
        ack = await pending.result()
        print(ack.seq)

    A verb waits while too many messages are without an acknowledgement. A message of ``publish`` reports to its
    ``PendingAck``. Messages of ``publish_many`` are counted, and kept if they fail. As a context manager it flushes at
    the end, and raises AsyncPublishError as ``flush`` does. After an error of the block it only closes.
    """

    _connection: Connection
    _core: CoreAsyncPublisher

    def __init__(self, core: CoreAsyncPublisher, connection: Connection) -> None:
        super().__init__(core, connection)

    async def _leave_block(self, error: BaseException | None) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            await self.close()

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        wait_stall: Timeout | None = None,
        **options: Unpack[PublishKeywords],
    ) -> PendingAck:
        """Publish a message without waiting for its acknowledgement.

        The other keywords are those of ``JetStream.publish``.

        Args:
            wait_stall: how long to wait for room, in seconds or as a timedelta. None: for ever.

        Returns:
            The promise of the acknowledgement.

        Raises, with nothing sent:
            TimeoutError: there was no room within ``wait_stall``.
            BadSubjectError: ``subject`` cannot be published to.
            BadHeaderError: a header cannot be sent.
            MaxPayloadError: headers and payload have more than ``max_payload`` bytes together.
            LocalProtocolError: a keyword has a value that it does not take.
            UnsupportedByServerError: the server is too old for a keyword.
        """
        if options:
            headers = merged_headers(self._connection._session, subject, payload, headers, options)
        if wait_stall is not None:
            seconds(wait_stall, "wait_stall")
        pending = self._publish_at_once(subject, payload, headers)
        return pending or await self._publish_with_room(subject, payload, headers, wait_stall)

    def _publish_at_once(self, subject: str, payload: bytes, headers: HeadersLike | None) -> PendingAck | None:
        """Publish. None: there is no room."""
        ticket = self._connection._call(partial(self._publish_one, subject, payload, headers), coalesce=True)
        return None if ticket is None else PendingAck(ticket, self)

    async def _publish_with_room(
        self, subject: str, payload: bytes, headers: HeadersLike | None, wait_stall: Timeout | None
    ) -> PendingAck:
        """Publish as soon as there is room. TimeoutError when there is none within ``wait_stall``."""
        timeout = seconds(wait_stall, "wait_stall")
        limit = None if timeout is None else Limit(timeout, self._connection._now())
        pending: PendingAck | None = None
        while pending is None:
            await self._make_room(limit)
            pending = self._publish_at_once(subject, payload, headers)
        return pending

    async def flush(self, *, timeout: Timeout | None = None) -> None:
        """Wait until every message has its acknowledgement or has failed.

        Args:
            timeout: of this wait, in seconds or as a timedelta. None: until the messages' own timeouts.

        Raises:
            AsyncPublishError: messages of ``publish_many`` have failed since the last flush. It holds them, for another
                try.
            TimeoutError: messages were without an answer after ``timeout``.
            LocalProtocolError: ``publish_many`` was interrupted. ``take_unpublished()`` gives back what it took.
        """
        await self._wait_for_all(seconds(timeout))
        self._connection._call(lambda now: self._core.raise_failures())
        self._check_hands()

    async def close(self) -> None:
        """Stop. Messages without an acknowledgement fail with ConnectionClosedError, whether they are stored or not."""
        self._connection._release(self._core.close)

    async def _wait_for_all(self, limit: float | None) -> None:
        await self._connection._wait(self._connection._call(lambda now: self._core.answered()), limit)

    async def _make_room(self, limit: Limit | None = None) -> None:
        """Wait for the connection, then for the window."""
        connection = self._connection
        ticket = connection._call(self._room_ticket, coalesce=True)
        if ticket is not None:
            await connection._wait(ticket, limit=limit)


class BatchAdvisories(BatchAdvisoriesBase, Iterates[BatchAbandoned], Managed):
    """Reports of abandoned batches (ADR-50). Made by ``JetStream.batch_advisories()``.

    Iterate over it, or call ``next_advisory()``. The iteration ends when it is closed, and raises when the connection
    was lost. As a context manager it closes at the end.
    """

    def __init__(self, core: CoreBatchAdvisories, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.close()

    async def next_advisory(self, *, timeout: Timeout | None = None) -> BatchAbandoned:
        """Wait for the next advisory and take it.

        Args:
            timeout: seconds, or a timedelta. None: for ever.

        Raises:
            TimeoutError: no advisory came in time.
            ConnectionClosedError: it was closed and the last advisory was taken.
            ConnectionLostError: the connection has failed.
        """
        return await self._next(seconds(timeout))

    async def close(self) -> None:
        """Watch no more. What was received can still be taken."""
        self._connection._takers.pop(self, None)
        self._connection._release(lambda now: self._core.close())
