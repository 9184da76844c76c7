"""The facade for event loops, continued: subscribing to push consumers.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.client.consume.consume_options import (
    BindingOptions,
    MissingOptions,
    OrderedOptions,
    PushOptions,
    SilenceOptions,
    SubscribeOptions,
    SubscriptionOptions,
)
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.errors import LocalProtocolError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.options import explained, split
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto_io._aio.asking import Asks
from jsproto_io._aio.consuming import ConsumerSubscription, JSMsg
from jsproto_io._aio.engine import ends
from jsproto_io._aio.extras import MessageCallback, PushIterator
from jsproto_io._state.common import Timeout
from jsproto_io._state.consuming import listed
from jsproto_io._state.subscribing import Pushed

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class Subscribes(Asks):
    """The verb of ``JetStream`` that subscribes."""

    @explained(MissingOptions, BindingOptions, SilenceOptions, BufferOptions)
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
        **options: Unpack[SubscribeOptions],
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
            cb: called with each message. The message is acknowledged when it returns. An exception is the event
                CallbackFailed, and the next message follows.
            manual_ack: ``cb`` acknowledges the messages itself.
            options: those below, and fields of ConsumerConfig, as ``config``. Durations are seconds or timedeltas.

        Raises:
            NoMatchingStreamError: no stream, or more than one, has ``subject``.
            BindError: the consumer that exists is another one than asked for. Most differences have a subclass.
            ConsumerNotFoundError: there is no ``consumer``.
            StreamNotFoundError: there is no ``stream``, or it was deleted meanwhile.
            RetentionError: an ordered subscription of a stream with retention "interest" would lose messages.
        """
        own = options.get("delete_consumer") is not None or options.get("raw")
        if ordered and (queue or durable or consumer or own):
            raise LocalProtocolError("an ordered subscription has a consumer of its own: leave out what names it")
        if not ordered and options.get("if_missed", "tell") != "tell":
            raise LocalProtocolError("if_missed is for ordered subscriptions: others are told by acknowledgements")
        core, connection = self._core, self._connection
        asked, fields = split(SubscriptionOptions, options)
        wanted = SubscriptionSpec(subject, stream, durable, consumer, queue, options=fields, base=config)

        def ask(now: float) -> Ticket[Any]:
            if ordered:
                reading, _ = split(OrderedOptions, asked)
                return core.subscribe_ordered(wanted, now=now, message_class=JSMsg, facade=connection, **reading)
            pushing, _ = split(PushOptions, asked)
            return core.subscribe(wanted, now=now, message_class=JSMsg, facade=connection, **pushing)

        subscription = PushSubscription(await connection._ask(ask, core.timeout), core, connection)
        if cb is not None:
            subscription._serve(cb, acknowledge=not manual_ack)
        return subscription


class PushSubscription(PushIterator, ConsumerSubscription):
    """Messages of a push consumer, in the order of their arrival. Made by ``JetStream.subscribe()``.

    Example:

        async with await js.subscribe("orders.>", ordered=True) as orders:
            order = await orders.next_msg(timeout=1)
            print(order.data)

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
        wanted = listed(messages)
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
