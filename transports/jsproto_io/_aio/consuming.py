"""The facade for event loops, continued: consumers, pulling from them, acknowledging their messages.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack

from jsproto._lend import lend
from jsproto.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.consume.consume_options import (
    ConsumeOptions,
    FetchOptions,
    PrefetchOptions,
    PriorityOptions,
    PullBindOptions,
    PullSubscribeOptions,
    SilenceOptions,
)
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.message import ACK, Acker, ConsumerMsg, ack_sync, nak, send_ack, term
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.errors import Error
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, ConsumerOptions, ConsumerPause, ConsumerReset
from jsproto.grammar.options import checked, explained, of_call, split
from jsproto.grammar.times import Until, seconds
from jsproto_io._aio.asking import Asks
from jsproto_io._aio.consume_context import ConsumeContext, ErrorCallback, JobCallback
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.engine import ends
from jsproto_io._aio.managing import InfoLister
from jsproto_io._aio.taking import Iterates
from jsproto_io._state.common import Timeout
from jsproto_io._state.consuming import ConsumerNames, PullMessagesBase, PullSubscriptionBase, consumer_config

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class ConnectionAcker(Acker["JSMsg"]):
    """What a connection has given its ``facade``."""

    facade: Connection


class JSMsg(ConsumerMsg):
    """A message of a consumer. Acknowledge it when it is processed, or the server delivers it again.

    Example:

        for order in await sub.fetch(10, timeout=1):
            if order.data:
                await order.ack_sync()
            else:
                order.term("an order of nothing")

    The first of ``ack``, ``nak`` and ``term`` settles it: later acknowledgements are ignored silently. All are ignored
    when the consumer has the acknowledgement policy "none".
    """

    __slots__ = ()

    _acker: ConnectionAcker | None

    async def ack(self) -> None:
        """Acknowledge the message: it is processed. The server sends no answer.

        See ``ack_sync`` for an answer, and ``ack_many`` for many messages at once.
        """
        await self._send_ack(ACK)

    async def nak(self, delay: Timeout | None = None) -> None:
        """Ask for another delivery.

        Args:
            delay: after how long, in seconds or as a timedelta. None: at once.
        """
        await self._send_ack(nak(delay))

    async def term(self, reason: str | None = None) -> None:
        """End the deliveries of the message, though it is not processed. A server that is killed may forget that.

        Args:
            reason: a text for the advisory that the server publishes.
        """
        await self._send_ack(term(reason))

    async def in_progress(self) -> None:
        """Extend the time for the acknowledgement: it begins anew."""
        acker = self._acker
        if acker is not None:
            await acker.facade._call_with_room(lambda now: acker.in_progress(self))

    async def ack_sync(self, *, timeout: Timeout | None = None) -> None:
        """Acknowledge the message and wait until the server confirms it.

        The server writes the acknowledgement to its disk a little later. After a crash of the server the message may
        come again.

        Args:
            timeout: seconds, or a timedelta. None: the connection's ``timeout``.

        Raises:
            TimeoutError: no confirmation came in time. It may be tried again.
            NoRespondersError: in all that time nobody took it: the consumer has no leader, or does not exist any more.
            PermissionsViolationError: the user may not acknowledge.
        """
        limit, acker = seconds(timeout), self._acker
        if acker is not None:
            connection = acker.facade
            wait = connection._session.options.timeout if limit is None else limit
            await connection._ask(lambda now: ack_sync(self, now, wait), wait)

    def working(self) -> Working:
        """A context manager that sends ``in_progress`` while its block runs, as often as the consumer needs it."""
        return Working(self)

    async def _send_ack(self, payload: bytes) -> None:
        acker = self._acker
        if acker is not None:
            await acker.facade._call_with_room(lambda now: send_ack(self, payload), coalesce=True)


class Working:
    """Sends ``in_progress`` for a message. Made by ``JSMsg.working()``."""

    def __init__(self, message: JSMsg) -> None:
        self._message = message
        self._acker = message._acker

    async def __aenter__(self) -> JSMsg:
        acker = self._acker
        if acker is not None:
            await acker.facade._call_with_room(partial(acker.start_working, self._message))
        return self._message

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        acker = self._acker
        if acker is not None:
            acker.facade._release(lambda now: acker.stop_working(self._message))


class ConsumerSubscription(ConsumerNames, Managed):
    """What subscriptions to consumers have in common, pulled or pushed."""

    _js: CoreJetStream
    _connection: Connection

    @abstractmethod
    async def unsubscribe(self) -> None:
        """End it, and delete its consumer if the subscription owns it."""

    async def _leave_block(self, error: BaseException | None) -> None:
        try:
            await self.unsubscribe()
        except Error:
            if error is None and not self._connection.is_closed:
                raise

    async def consumer_info(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """The configuration and state of the consumer.

        Raises:
            ConsumerNotFoundError: the consumer is gone.
        """
        limit = seconds(timeout, default=self._js.timeout)
        return await self._connection._ask(
            lambda now: self._js.consumer_info(self.stream, self.consumer, now=now, timeout=limit), limit
        )


class PullSubscription(PullSubscriptionBase[JSMsg], ConsumerSubscription):
    """A pull consumer. Made by ``JetStream.pull_subscribe()``.

    Example:

        async with await js.pull_subscribe("orders.>", durable="bar", ack_wait=30) as sub:
            for order in await sub.fetch(10, timeout=1):
                print(order.subject, order.data)
                await order.ack_sync()

    Call ``fetch()``, or iterate over ``messages()``. As a context manager it unsubscribes at the end. Messages of a
    fetch that was interrupted are for the next fetch.
    """

    _connection: Connection

    def __init__(
        self,
        core: PullConsumer[JSMsg],
        config: ConsumerConfig,
        js: CoreJetStream,
        connection: Connection,
        *,
        owned: bool = False,
    ) -> None:
        super().__init__(core, js.timeout)
        self._config = config
        self._js = js
        self._owned = owned
        self._connection = connection

    @explained(FetchOptions)
    async def fetch(
        self,
        batch: int = 1,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[FetchOptions],
    ) -> list[JSMsg]:
        """Wait for messages and take them.

        When something was received it is returned, and the error comes with the next fetch.

        Args:
            batch: the most messages to return.
            timeout: seconds, or a timedelta. None: the ``timeout`` of ``jetstream()``.

        Returns:
            The messages, none when nothing came in time.

        Raises, when nothing was received:
            ConflictError: the server ended the request. Subclasses are ConsumerDeletedError, PullLimitError and
                MessageSizeError.
            BadPullError: the server does not understand the request.
            NoRespondersError: in all that time nobody answered: the consumer has no leader, or is not known to exist.
            ConsumerNotFoundError: nobody answered, and the consumer does not exist.
            StreamNotFoundError: the same, and its stream does not exist.
            PermissionsViolationError: the user may not ask for messages, not receive them or not acknowledge them.
            ConsumerSilentError: heartbeats stayed away.
            TimeoutError: the server does not answer.
            ConnectionLostError: the connection is lost, or was lost and was not back within ``timeout``.
        """
        limit = seconds(timeout, default=self._timeout)
        verb = self._begin(batch, limit, options)
        return await self._collect(await self._connection._call_with_room(verb, limit=limit))

    async def fetch_no_wait(
        self, batch: int = 1, *, timeout: Timeout | None = None, max_bytes: int | None = None
    ) -> list[JSMsg]:
        """Take the messages that are there already. Otherwise as ``fetch``.

        Args:
            batch: the most messages to return.
            timeout: how long to wait for the server's statement that there are no more, in seconds or as a timedelta.
                None: a second. The server makes none while ``max_ack_pending`` messages are without an acknowledgement.
            max_bytes: the most bytes of the messages together. None: no limit.
        """
        limit = seconds(timeout, default=min(self._timeout, 1.0))
        verb = self._begin_no_wait(batch, limit, max_bytes)
        return await self._collect(await self._connection._call_with_room(verb, limit=limit))

    @explained(PrefetchOptions)
    def messages(
        self,
        **options: Unpack[PrefetchOptions],
    ) -> PullMessages:
        """Take messages as they come, without end. Tasks that each call this share the messages.

        More messages are requested when those that are buffered or requested have fallen to ``threshold``.

        Args:
            options: those below.

        Raises:
            LocalProtocolError: a fetch is under way, or others share the messages with other values.
        """
        started = self._connection._call(self._start(options))
        return PullMessages(self, options.get("max_msgs"), started)

    @explained(ConsumeOptions, PrefetchOptions)
    def consume(
        self,
        callback: JobCallback,
        *,
        on_error: ErrorCallback | None = None,
        **options: Unpack[ConsumeOptions],
    ) -> ConsumeContext:
        """Call ``callback`` with messages as they come, without end (ADR-37). It returns at once.

        A message is acknowledged when its callback returns, unless the callback has settled it. When the callback
        raises, the message comes again after a delay (nak), and the event CallbackFailed reports it. When the callback
        is cancelled, the message is not acknowledged, and comes again after the consumer's ``ack_wait``.

        Args:
            callback: called with a message, in a task of the connection.
            on_error: called with the message and the exception after the callback has raised. It may settle the message
                itself.
            options: as many messages again as ``max_msgs`` may wait for their keys.

        Raises:
            LocalProtocolError: an argument is impossible, a fetch is under way, or ``messages()`` or ``consume()`` is
                at work.
        """
        of_call("callback", callback)
        if on_error is not None:
            of_call("on_error", on_error)
        core = self._connection._call(self._consume(self._js, self._config, options))
        context = ConsumeContext(self, core, callback, on_error)
        self._connection._serving.add(context)
        context._start_worker()
        return context

    async def ack_many(self, messages: Iterable[JSMsg]) -> int:
        """Acknowledge all of ``messages`` in one write.

        Returns:
            How many of them were not settled before.
        """
        return await self._connection._call_with_room(self._acknowledge(messages))

    @ends
    async def unsubscribe(self) -> None:
        """End the subscription, and delete its consumer if the subscription owns it.

        Buffered messages are dropped. The server delivers them again, to the next client that pulls.

        Raises:
            APIError: the server does not delete the consumer.
            TimeoutError: the server does not answer.
            ConnectionLostError: the link broke before the answer came.
        """
        self._connection._release(self._core.unsubscribe)
        if self._owned and not self._connection.is_closed:
            self._owned = False
            core = self._core
            with suppress(ConsumerNotFoundError, StreamNotFoundError):
                await self._connection._ask(
                    lambda now: self._js.delete_consumer(core.stream, core.consumer, now=now), self._js.timeout
                )

    @ends
    async def drain(self) -> None:
        """Request no more messages, and wait until all that is under way is buffered. It can still be fetched.

        Unsubscribe afterwards, if the consumer is to be deleted.

        Raises:
            TimeoutError: the connection's ``timeout`` has passed.
            ConnectionLostError: the link broke meanwhile.
        """
        connection = self._connection
        await connection._wait(
            connection._call(lambda now: connection._session.drain(now, [self._core])),
            connection._session.options.timeout,
        )

    async def _collect(self, fetch: Fetch) -> list[JSMsg]:
        try:
            await self._connection._wait(fetch.done)
        except BaseException:
            self._connection._release(partial(self._core.give_back, fetch))
            raise
        return self._core.take(fetch)


class PullMessages(PullMessagesBase[JSMsg], Iterates[JSMsg], Managed):
    """Messages of a consumer as they come. Made by ``PullSubscription.messages()``.

    Iterate over it, or call ``next_msg()``. The iteration ends when the subscription ends or this is closed. Several of
    one subscription share its messages: each message goes to one of them. As a context manager it closes at the end. A
    loop that is left closes it too, unless there are other references. What was not taken is for the next fetch, or for
    the others.

    It continues through elections of a new leader. It requests again from a silent consumer (event ConsumerSilent).

    The iteration raises:
        ConflictError: the server ended a request, as in ``fetch``.
        ConsumerNotFoundError: there is no such consumer any more.
        StreamNotFoundError: there is no such stream any more.
        ConnectionLostError: the connection has failed.
    """

    def __init__(self, subscription: PullSubscription, max_msgs: int | None, started: int) -> None:
        super().__init__(subscription, max_msgs, started)
        self._connection = subscription._connection
        self._subscription = subscription  # keeps the subscription alive

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.close()

    async def next_msg(self, *, timeout: Timeout | None = None) -> JSMsg:
        """Wait for the next message and take it.

        Args:
            timeout: seconds, or a timedelta. None: for ever.

        Raises:
            TimeoutError: no message came in time.
            ConnectionClosedError: this, or the subscription, was closed.
            Error: otherwise as in the iteration.
        """
        return await self._next(seconds(timeout))

    async def close(self) -> None:
        """Request no more messages. No effect the second time."""
        self._connection._takers.pop(self, None)
        self._connection._release(self._stop)


class Consuming(Asks):
    """The verbs of ``JetStream`` that are about consumers."""

    async def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        durable: str | None = None,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> ConsumerInfo:
        """Create a consumer, or find it with the same configuration.

        Args:
            stream: the stream's name.
            config: the configuration. None: that of ``options`` alone. Without a name the server chooses one, and
                deletes the consumer when nobody uses it.
            durable: its name, as ``durable_name``.
            pedantic: the server refuses values that it would replace otherwise.
            required_api_level: the API level that the server must have, or refuse the request.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.
            options: fields of ConsumerConfig. Durations are seconds or timedeltas.

        Raises:
            ConsumerAlreadyExistsError: the consumer exists with another configuration.
            StreamNotFoundError: there is no such stream.
            PedanticError, APIRequiredApiLevelError, UnsupportedByServerError: as in ``create_stream``.
        """
        wanted = consumer_config(config, options, durable)
        return await self._asked(
            self._core.create_consumer, stream, wanted, pedantic=pedantic, required_api_level=required_api_level,
            timeout=timeout,
        )  # fmt: skip

    async def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | str,
        *,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> ConsumerInfo:
        """Change a consumer's configuration.

        With the consumer's name only what ``options`` say changes. Fields of a newer server, which this library does
        not know, stay as they are. Of two such changes at the same time the last one wins.

        Args:
            stream: the stream's name.
            config: the whole new configuration. Or the consumer's name: the present configuration is fetched then, and
                ``options`` change it.
            pedantic: the server refuses values that it would replace otherwise.
            required_api_level: the API level that the server must have, or refuse the request.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.
            options: fields of ConsumerConfig. Durations are seconds or timedeltas.

        Raises:
            ConsumerNotFoundError: there is no such consumer.
            APIError: a field cannot be changed.
            PedanticError, APIRequiredApiLevelError, UnsupportedByServerError: as in ``create_stream``.
        """
        if isinstance(config, str):
            return await self._asked(
                self._core.change_consumer, stream, config, dict(options), pedantic=pedantic,
                required_api_level=required_api_level, timeout=timeout,
            )  # fmt: skip
        return await self._asked(
            self._core.update_consumer, stream, consumer_config(config, options), pedantic=pedantic,
            required_api_level=required_api_level, timeout=timeout,
        )  # fmt: skip

    async def consumer_info(self, stream: str, consumer: str, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """The configuration and state of a consumer.

        Raises:
            ConsumerNotFoundError: there is no such consumer.
            StreamNotFoundError: there is no such stream.
        """
        return await self._asked(self._core.consumer_info, stream, consumer, timeout=timeout)

    async def delete_consumer(self, stream: str, consumer: str, *, timeout: Timeout | None = None) -> bool:
        """Delete a consumer. Returns the server's ``success``.

        Raises:
            ConsumerNotFoundError: there is no such consumer.
            StreamNotFoundError: there is no such stream.
        """
        return await self._asked(self._core.delete_consumer, stream, consumer, timeout=timeout)

    async def consumer_names(self, stream: str, *, timeout: Timeout | None = None) -> list[str]:
        """The names of a stream's consumers. ``timeout`` is that of each page of the list.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return await self._asked(self._core.consumer_names, stream, timeout=timeout)

    def consumers(self, stream: str, *, timeout: Timeout | None = None) -> InfoLister[ConsumerInfo]:
        """The configurations and states of a stream's consumers, sorted by name: an iterator that fetches page by page.

        Args:
            stream: the stream's name.
            timeout: of each page, in seconds or as a timedelta. None: that of ``jetstream()``.
        """
        limit = seconds(timeout, default=self._core.timeout)
        return InfoLister(self._core.consumers(stream, timeout=limit), self._connection)

    async def consumers_info(self, stream: str, *, timeout: Timeout | None = None) -> list[ConsumerInfo]:
        """The configurations and states of a stream's consumers. ``timeout`` is that of each page of the list.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return await self._asked(self._core.consumers_info, stream, timeout=timeout)

    async def pause_consumer(
        self, stream: str, consumer: str, until: Until, *, timeout: Timeout | None = None
    ) -> ConsumerPause:
        """Pause the deliveries of a consumer.

        Args:
            stream: the stream's name.
            consumer: the consumer's name.
            until: when the deliveries continue: a datetime with a time zone, or nanoseconds since the epoch. A
                timedelta counts from now on, by the server's clock.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Raises:
            ConsumerNotFoundError: there is no such consumer.
            StreamNotFoundError: there is no such stream.
            UnsupportedByServerError: the server is older than 2.11.
        """
        return await self._asked(self._core.pause_consumer, stream, consumer, until, timeout=timeout)

    async def resume_consumer(self, stream: str, consumer: str, *, timeout: Timeout | None = None) -> ConsumerPause:
        """End a pause. Raises as ``pause_consumer``."""
        return await self._asked(self._core.resume_consumer, stream, consumer, timeout=timeout)

    async def reset_consumer(
        self, stream: str, consumer: str, seq: int | None = None, *, timeout: Timeout | None = None
    ) -> ConsumerReset:
        """Set a consumer back, or ahead. Its deliveries are counted from 1 again.

        Args:
            stream: the stream's name.
            consumer: the consumer's name.
            seq: the first stream sequence that it may deliver next. None: the one after its ack floor.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Raises:
            ConsumerNotFoundError: there is no such consumer.
            StreamNotFoundError: there is no such stream.
            ConsumerInvalidResetError: the consumer's deliver policy does not allow ``seq``.
            UnsupportedByServerError: the server is older than 2.14.
        """
        return await self._asked(self._core.reset_consumer, stream, consumer, seq, timeout=timeout)

    async def unpin_consumer(self, stream: str, consumer: str, group: str, *, timeout: Timeout | None = None) -> None:
        """Unpin the client of a priority group. The next client that pulls is pinned.

        Args:
            stream: the stream's name.
            consumer: the consumer's name.
            group: one of the consumer's priority groups.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Raises:
            ConsumerNotFoundError: there is no such consumer.
            ConsumerInvalidPriorityGroupError: the consumer has no such group.
            UnsupportedByServerError: the server is older than 2.11.
        """
        await self._asked(self._core.unpin_consumer, stream, consumer, group, timeout=timeout)

    @explained(PriorityOptions, SilenceOptions)
    async def pull_subscribe(
        self,
        subject: str | None = None,
        durable: str | None = None,
        *,
        stream: str | None = None,
        config: ConsumerConfig | None = None,
        delete_consumer: bool | None = None,
        **options: Unpack[PullSubscribeOptions],
    ) -> PullSubscription:
        """Pull from a consumer, which is found or created (ADR-15).

        ``group``, ``min_pending``, ``min_ack_pending`` and ``priority`` are for consumers with priority groups. Under
        the policy "pinned_client" one client gets all messages until it has not pulled for the consumer's
        ``priority_timeout``. ``messages()`` pulls in time.

        Args:
            subject: what to receive. Wildcards are allowed.
            durable: the name of a consumer, which is created where there is none. None: a new consumer for this
                subscription alone. A user who may neither look it up nor create it can pull from it all the same.
            stream: the stream's name. None: the stream of ``subject``.
            config: the configuration of a new consumer. A consumer that exists must have it.
            delete_consumer: whether the end of the subscription deletes a consumer that it created. None: unless it is
                durable.
            options: those below, and fields of ConsumerConfig, as ``config``. Durations are seconds or timedeltas.

        Raises:
            NoMatchingStreamError: no stream, or more than one, has ``subject``.
            BindError: the consumer that exists is another one than asked for. Most differences have a subclass.
        """
        place, others = split(PriorityOptions, options)
        silence, fields = split(SilenceOptions, others)
        wanted = SubscriptionSpec(
            subject, stream, durable, pull=True, options=fields, base=config, place=Priority(**place)
        )
        silence = checked(SilenceOptions, silence)
        bound = await self._connection._ask(lambda now: self._core.bind_pull(wanted, now=now), self._core.timeout)
        owned = bound.created and (wanted.durable is None if delete_consumer is None else delete_consumer)
        return self._pull(bound.info, wanted.place, silence, owned=owned)

    @explained(PriorityOptions, SilenceOptions)
    async def pull_subscribe_bind(
        self,
        consumer: str,
        stream: str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[PullBindOptions],
    ) -> PullSubscription:
        """Pull from a consumer that exists.

        A user who may not look it up can pull from it all the same. So can everybody while nobody answers the look-up.

        Args:
            consumer: the consumer's name.
            stream: the stream's name.
            timeout: of the look-up, in seconds or as a timedelta.

        Raises:
            ConsumerNotFoundError: there is no such consumer.
            PushBasedError: it is a push consumer.
            ConfigMismatchError: the consumer has no such group.
        """
        place, others = split(PriorityOptions, options)
        taken, silence = Priority(**place), checked(SilenceOptions, others)
        info = await self._asked(self._core.find_pull, stream, consumer, taken, timeout=timeout)
        return self._pull(info, taken, silence)

    def _pull(
        self, info: ConsumerInfo, place: Priority, silence: SilenceOptions, *, owned: bool = False
    ) -> PullSubscription:
        core = self._connection._call(
            lambda now: self._core.pull_consumer(info, JSMsg, facade=self._connection, priority=place, **silence)
        )
        return PullSubscription(core, info.config, self._core, self._connection, owned=owned)


lend(JSMsg, PullSubscription, to=__package__)
