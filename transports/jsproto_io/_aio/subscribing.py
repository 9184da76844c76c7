"""The facade for event loops, continued: subscribing to consumers that push.

Rules: as of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from jsproto.client.connection.subscription import DEFAULT_PENDING_BYTES, DEFAULT_PENDING_MSGS
from jsproto.client.consume.heartbeats import HEARTBEATS_MISSED
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.errors import Error, LocalProtocolError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, ConsumerOptions
from jsproto.ticket import Ticket
from jsproto_io._aio.consuming import JSMsg
from jsproto_io._aio.extras import MessageCallback, PushIterator
from jsproto_io._state.common import Timeout, seconds
from jsproto_io._state.subscribing import Pushed

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream as CoreJetStream
    from jsproto_io._aio.connection import Connection


class Subscribes:
    """The verb of JetStream that subscribes."""

    _core: CoreJetStream
    _connection: Connection

    async def subscribe(
        self,
        subject: str | None = None,
        *,
        queue: str | None = None,
        durable: str | None = None,
        stream: str | None = None,
        consumer: str | None = None,
        config: ConsumerConfig | None = None,
        ordered: bool = False,
        cb: MessageCallback | None = None,
        manual_ack: bool = False,
        delete_consumer: bool | None = None,
        heartbeats_missed: float = HEARTBEATS_MISSED,
        raw: bool = False,
        pending_msgs_limit: int = DEFAULT_PENDING_MSGS,
        pending_bytes_limit: int = DEFAULT_PENDING_BYTES,
        **options: Unpack[ConsumerOptions],
    ) -> PushSubscription:
        """Subscribe to what a consumer pushes; the consumer is found, or created (ADR-15).

        ``subject``: what to receive; wildcards are allowed. ``stream``: its name; None finds it by the subject.
        ``durable``: the name of a consumer that is created where there is none. ``consumer``: the name of one that must
        be there. ``queue``: a group whose members share the messages; without a name for the consumer it has the
        group's. Without all three the consumer is for this subscription alone. ``config``, and ``options``, which are
        fields of ConsumerConfig with durations in seconds or timedelta, are for a new consumer, and one that is there
        must have them.

        ``ordered``: every message once and in order, whatever happens, without acknowledgements; a stream that is
        deleted and made again is read from its first message, and the event StreamRecreated says so. ``cb``: is called
        with each message, which is acknowledged when it returns unless ``manual_ack``; what it raises is the event
        CallbackFailed, and the next message is given to it. ``delete_consumer``: whether the end of the subscription
        deletes a consumer that it created; None: unless it is for a queue group. ``heartbeats_missed``: how many
        intervals of silence are an alarm, the event ConsumerSilent. ``raw``: heartbeats, flow control and other
        statuses are given out as messages, and nothing is done about them. The limits are those of
        ``Connection.subscribe``.

        NoMatchingStreamError, BindError (or the subclass that fits) for a consumer that is not as asked for,
        ConsumerNotFoundError.
        """
        if ordered and (queue or durable or consumer or delete_consumer is not None or raw):
            raise LocalProtocolError("an ordered subscription has a consumer of its own: leave out what names it")
        core, connection = self._core, self._connection
        wanted = SubscriptionSpec(subject, stream, durable, consumer, queue, options=options, base=config)
        keywords: dict[str, Any] = {
            "message_class": JSMsg,
            "facade": connection,
            "heartbeats_missed": heartbeats_missed,
            "pending_msgs_limit": pending_msgs_limit,
            "pending_bytes_limit": pending_bytes_limit,
        }

        def ask(now: float) -> Ticket[Any]:
            if ordered:
                return core.subscribe_ordered(wanted, now=now, **keywords)
            return core.subscribe(wanted, now=now, delete_consumer=delete_consumer, raw=raw, **keywords)

        subscription = PushSubscription(await connection._ask(ask, core.timeout), core, connection)
        if cb is not None:
            subscription._serve(cb, acknowledge=not manual_ack)
        return subscription


class PushSubscription(PushIterator):
    """Messages of a consumer, in the order in which it pushes them. Made by ``JetStream.subscribe()``.

    Iterate over it, or call ``next_msg()``, unless it has a callback. The iteration ends when the subscription does;
    it raises when the connection was lost, or the consumer. As a context manager it unsubscribes at the end.
    """

    def __init__(self, core: Pushed[JSMsg], js: CoreJetStream, connection: Connection) -> None:
        super().__init__(core)
        self._js = js
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.unsubscribe()
        except Error:
            if error is None and not self._connection.is_closed:
                raise

    async def next_msg(self, *, timeout: Timeout | None = None) -> JSMsg:
        """Take the next message, waiting for it for ``timeout``: seconds, or a timedelta; for ever when None.

        TimeoutError. ConnectionClosedError when the subscription has ended and all is taken, ConnectionLostError when
        the connection has failed, ConsumerNotFoundError when the consumer was deleted, which is noticed by its silence:
        after the alarm, or 15 s where there are no heartbeats. LocalProtocolError when it has a callback.
        """
        self._check_free()
        try:
            return self._taken.popleft()  # type: ignore[no-any-return]
        except IndexError:
            return await self._next(seconds(timeout))

    async def _next(self, limit: float | None) -> JSMsg:
        connection = self._connection
        until = None if limit is None else connection._now() + limit
        while True:
            try:
                return self._taken.popleft()  # type: ignore[no-any-return]
            except IndexError:
                readable = connection._call(self._take_ready)
            if readable is not None:
                await connection._wait(readable, None if until is None else max(until - connection._now(), 0))

    async def ack_many(self, messages: Iterable[JSMsg]) -> int:
        """Acknowledge all of these that are not settled, in one write; returns how many that were."""
        wanted = list(messages)
        return await self._connection._call_with_room(lambda now: self._core.acker.ack_many(wanted))

    async def consumer_info(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Configuration and state of the consumer. ConsumerNotFoundError."""
        limit, core = seconds(timeout, default=self._js.timeout), self._core
        return await self._connection._ask(
            lambda now: self._js.consumer_info(core.stream, core.consumer, now=now, timeout=limit), limit
        )

    async def unsubscribe(self) -> None:
        """End it at once, and delete its consumer if that is its own. What has come can still be taken, but
        a callback gets no more.

        APIError, TimeoutError or ConnectionLostError when the consumer cannot be deleted.
        """
        self._stopped = True
        if not self._connection.is_closed:
            await self._connection._ask(self._core.unsubscribe, self._js.timeout)

    async def drain(self) -> None:
        """End it so that all that is under way is still delivered. TimeoutError, ConnectionLostError.

        A consumer of its own is deleted when the last message was dealt with; when it cannot be, the event
        ConsumerNotDeleted says so. With a callback this waits until that has had the last message, except in the
        callback itself.
        """
        connection = self._connection
        await connection._wait(connection._call(self._core.drain), connection._session.options.timeout)
        await self._callback_ended()

    async def _callback_ended(self) -> None:
        """Wait until the callback has had the last message, unless it is the one who asks."""
        if self._served is not None and not self._is_calling:
            await self._connection._wait(self._served, self._connection._session.options.timeout)
