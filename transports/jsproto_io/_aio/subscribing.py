"""The facade for event loops, continued: subscribing to push consumers.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from jsproto.client.connection.subscription import DEFAULT_PENDING_BYTES, DEFAULT_PENDING_MSGS
from jsproto.client.consume.heartbeats import HEARTBEATS_MISSED
from jsproto.client.consume.ordered import IfMissed
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.errors import LocalProtocolError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerOptions
from jsproto.ticket import Ticket
from jsproto_io._aio.consuming import ConsumerSubscription, JSMsg
from jsproto_io._aio.engine import ends
from jsproto_io._aio.extras import MessageCallback, PushIterator
from jsproto_io._state.common import Timeout, seconds
from jsproto_io._state.subscribing import Pushed

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream as CoreJetStream
    from jsproto_io._aio.connection import Connection


class Subscribes:
    """The verb of ``JetStream`` that subscribes."""

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
        if_missed: IfMissed = "tell",
        cb: MessageCallback | None = None,
        manual_ack: bool = False,
        delete_consumer: bool | None = None,
        heartbeats_missed: float = HEARTBEATS_MISSED,
        raw: bool = False,
        pending_msgs_limit: int = DEFAULT_PENDING_MSGS,
        pending_bytes_limit: int = DEFAULT_PENDING_BYTES,
        **options: Unpack[ConsumerOptions],
    ) -> PushSubscription:
        """Subscribe to a push consumer, which is found or created (ADR-15).

        Without ``durable``, ``consumer`` and ``queue`` the consumer is for this subscription alone.

        Args:
            subject: what to receive. Wildcards are allowed.
            queue: a queue group, whose members share the messages. It names the consumer too, unless ``durable`` or
                ``consumer`` does.
            durable: the name of a consumer, which is created where there is none.
            stream: the stream's name. None: the stream of ``subject``.
            consumer: the name of a consumer that must exist.
            config: the configuration of a new consumer. A consumer that exists must have it.
            ordered: every message once and in order, without acknowledgements, as long as the stream holds it until
                its turn. A stream that was deleted and created again is read from its first message (event
                StreamRecreated). One that came back shorter is read on from what is new (StreamRolledBack).
            if_missed: what an ordered subscription does when limits took messages before their turn, or the stream is
                another one. "tell" reads on after the event MessagesMissed, StreamRolledBack or StreamRecreated.
                "error" ends with MessagesDroppedError, StreamRolledBackError or StreamRecreatedError.
            cb: called with each message. The message is acknowledged when it returns. An exception is the event
                CallbackFailed, and the next message follows.
            manual_ack: ``cb`` acknowledges the messages itself.
            delete_consumer: whether the end of the subscription deletes a consumer that it created. None: unless it is
                for a queue group.
            heartbeats_missed: after how many intervals without a heartbeat the event ConsumerSilent reports it.
            raw: give out heartbeats, flow control and other statuses as messages, and do not react to them.
            pending_msgs_limit: messages that may wait to be taken, as in ``Connection.subscribe``.
            pending_bytes_limit: bytes that may wait to be taken, as in ``Connection.subscribe``.
            options: fields of ConsumerConfig, as ``config``. Durations are seconds or timedeltas.

        Raises:
            NoMatchingStreamError: no stream, or more than one, has ``subject``.
            BindError: the consumer that exists is another one than asked for. Most differences have a subclass.
            ConsumerNotFoundError: there is no ``consumer``.
            StreamNotFoundError: there is no ``stream``, or it was deleted meanwhile.
            RetentionError: an ordered subscription of a stream with retention "interest" would lose messages.
        """
        if ordered and (queue or durable or consumer or delete_consumer is not None or raw):
            raise LocalProtocolError("an ordered subscription has a consumer of its own: leave out what names it")
        if if_missed != "tell" and not ordered:
            raise LocalProtocolError("if_missed is for ordered subscriptions: others are told by acknowledgements")
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
                return core.subscribe_ordered(wanted, now=now, if_missed=if_missed, **keywords)
            return core.subscribe(wanted, now=now, delete_consumer=delete_consumer, raw=raw, **keywords)

        subscription = PushSubscription(await connection._ask(ask, core.timeout), core, connection)
        if cb is not None:
            subscription._serve(cb, acknowledge=not manual_ack)
        return subscription


class PushSubscription(PushIterator, ConsumerSubscription):
    """Messages of a push consumer, in the order of their arrival. Made by ``JetStream.subscribe()``.

    Iterate over it, or call ``next_msg()``, unless it has a callback. The iteration ends when the subscription does. It
    raises when the connection was lost or the consumer was deleted. As a context manager it unsubscribes at the end.
    """

    def __init__(self, core: Pushed[JSMsg], js: CoreJetStream, connection: Connection) -> None:
        super().__init__(core)
        self._js = js
        self._connection = connection

    async def next_msg(self, *, timeout: Timeout | None = None) -> JSMsg:
        """Wait for the next message and take it.

        Args:
            timeout: seconds, or a timedelta. None: for ever.

        Raises:
            TimeoutError: no message came in time.
            ConnectionClosedError: the subscription has ended and its last message was taken.
            ConnectionLostError: the connection has failed.
            ConsumerNotFoundError: the consumer was deleted. Its silence shows it: after ``heartbeats_missed``
                intervals, or 15 s without heartbeats.
            LocalProtocolError: the subscription has a callback.
        """
        self._check_no_callback()
        try:
            return self._taken.popleft()  # type: ignore[no-any-return]
        except IndexError:
            return await self._next(seconds(timeout))  # type: ignore[no-any-return]

    async def ack_many(self, messages: Iterable[JSMsg]) -> int:
        """Acknowledge all of ``messages`` in one write.

        Returns:
            How many of them were not settled before.
        """
        wanted = list(messages)
        return await self._connection._call_with_room(lambda now: self._core.acker.ack_many(wanted))

    @ends
    async def unsubscribe(self) -> None:
        """End the subscription at once, and delete its consumer if the subscription owns it.

        What was received can still be taken, but a callback gets no more.

        Raises:
            APIError: the server does not delete the consumer.
            TimeoutError: the server does not answer.
            ConnectionLostError: the link broke before the answer came.
        """
        self._stopped = True
        self._connection._takers.pop(self, None)
        if not self._connection.is_closed:
            await self._connection._ask(self._core.unsubscribe, self._js.timeout)

    @ends
    async def drain(self) -> None:
        """End the subscription after all that is under way was received.

        With a callback this waits until the callback has had the last message, unless the callback itself calls it. A
        consumer that the subscription owns is deleted after the last message. If that fails, the event
        ConsumerNotDeleted reports it.

        Raises:
            TimeoutError: the connection's ``timeout`` has passed.
            ConnectionLostError: the link broke meanwhile.
        """
        connection = self._connection
        await connection._wait(connection._call(self._core.drain), connection._session.options.timeout)
        await self._callback_ended()
