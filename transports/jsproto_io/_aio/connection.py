"""The facade for event loops: what an application awaits under asyncio and trio.

Rules
 * ``_blocking``, the facade for threads, is generated from this folder: ``python -m tests.tools.generate_blocking``.
 * A verb puts one input into the core and waits for its ticket. It knows neither loops nor sockets.
 * What is taken from a buffer of the core is stored without an ``await`` in between. So a cancelled wait loses no
   message.
 * Verbs that do not wait do not yield to the loop.
 * A connection belongs to the loop, and so to the thread, in which it was made.

Not here: how a task waits (``engine``), what is written by hand for both facades (``extras``), moving bytes
(``asyncio`` and ``trio``), protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, Unpack

from jsproto._lend import lend
from jsproto.client.connection.drain import end
from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.client.connection.subscription import Subscription as CoreSubscription
from jsproto.client.copy.target import CopyDelivery
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.client.publish.fast import FastPublisher as CoreFastPublisher
from jsproto.client.publish.publish_options import (
    DEFAULT_MAX_PENDING,
    AtomicBatchOptions,
    AtomicOptions,
    BatchIdOptions,
    FastBatchOptions,
    FastOptions,
    PipelinedOptions,
)
from jsproto.client.publish.tracing import TraceCollector as CoreTraceCollector
from jsproto.errors import (
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    OutboundBufferLimitError,
    TimeoutError,
)
from jsproto.grammar.acks import PubAck
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.options import checked, explained, named, of_count
from jsproto.grammar.publish_headers import PublishOptions
from jsproto.grammar.subjects import check_name
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg
from jsproto_io._aio.atomic import AtomicBatch
from jsproto_io._aio.buckets import HasBuckets
from jsproto_io._aio.consuming import Consuming
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.copying import StreamCopy
from jsproto_io._aio.counting import Counts
from jsproto_io._aio.dead_letters import KeepsDeadLetters
from jsproto_io._aio.engine import Engine, ends
from jsproto_io._aio.extras import CallsBack, Messages, collect_messages
from jsproto_io._aio.managing import Managing
from jsproto_io._aio.objects import HasObjectStores
from jsproto_io._aio.publishing import BatchAdvisories, PendingAck, PipelinedPublisher, PublishesMany
from jsproto_io._aio.reading import Reads
from jsproto_io._aio.sessions import Sessions
from jsproto_io._aio.sourcing import Sources
from jsproto_io._aio.subscribing import Subscribes
from jsproto_io._aio.tracing import TraceCollector
from jsproto_io._state.common import MAX_POP, Timeout, check_iterable
from jsproto_io._state.hints import NamesOfNatsPy
from jsproto_io._state.keywords import PublishKeywords, merged_headers, publish_options
from jsproto_io._state.limit import Limit
from jsproto_io._state.shared import FastPublisherBase, MessageBase, SubscriptionBase

T = TypeVar("T")
LOOK_AGAIN: Final = 0.01  # seconds between two looks whether what was drained is taken


class Connection(Engine):
    """A connection to NATS. Made by ``connect()``."""

    # -- inputs and waits ----------------------------------------------------------------------------------------------

    async def _ask(self, verb: Callable[[float], Ticket[T]], limit: float | None = None) -> T:
        """Put ``verb`` in as soon as there is room, and wait for its answer. ``limit``: see ``_call_with_room``."""
        return await self._wait(await self._call_with_room(verb, limit=limit))

    async def _call_with_room(
        self, verb: Callable[[float], T], *, coalesce: bool = False, limit: float | None = None
    ) -> T:
        """``_call``, as soon as there is room for what it queues.

        With a ``limit`` in seconds, ``verb`` gets the time at which this was called: waiting for room is a part of its
        time.

        Raises:
            TimeoutError: there was no room for ``limit`` seconds.
        """
        if not self._session.congested:
            try:
                return self._call(verb, coalesce=coalesce)
            except OutboundBufferLimitError:
                pass  # other callers took the room first
        began = self._now()
        whole = None if limit is None else Limit(limit, began)
        while True:
            await self._make_room(whole)
            try:
                return self._call(verb if limit is None else lambda now: verb(began), coalesce=coalesce)
            except OutboundBufferLimitError:
                pass

    async def _make_room(self, limit: Limit | None = None) -> None:
        """Back-pressure: wait while too many bytes are queued."""
        if self._session.congested:
            try:
                await self._wait(self._call(lambda now: self._session.sendable()), limit=limit)
            except TimeoutError:
                raise TimeoutError("it found no room in time: too much waits to be written") from None

    # -- verbs ---------------------------------------------------------------------------------------------------------

    async def publish(
        self, subject: str, payload: bytes = b"", *, reply: str | None = None, headers: HeadersLike | None = None
    ) -> None:
        """Publish a message without an acknowledgement.

        The bytes leave at once, in a burst within ``linger`` seconds, with ``jsproto_io.sync`` up to 0.02 s later.
        Without a link they leave with the next link. What was under way on a link that broke is lost. The call waits
        while more than half of ``pending_size`` bytes are queued.

        Args:
            subject: where to publish, without wildcards.
            payload: the bytes of the message.
            reply: the subject on which answers are expected.
            headers: a mapping of names to a value, or to several.

        Raises, with nothing sent:
            BadSubjectError: ``subject`` or ``reply`` cannot be published to.
            BadHeaderError: a header cannot be sent.
            MaxPayloadError: headers and payload have more than ``max_payload`` bytes together.
            ConnectionClosedError: the connection has ended.
        """
        await self._call_with_room(
            lambda now: self._session.publish_message(subject, payload, reply=reply, headers=headers), coalesce=True
        )

    async def request(
        self, subject: str, payload: bytes = b"", *, timeout: Timeout | None = None, headers: HeadersLike | None = None
    ) -> Message:
        """Publish a message and wait for the first answer.

        Args:
            subject: where to publish, without wildcards.
            payload: the bytes of the message.
            timeout: seconds, or a timedelta. None: the connection's ``timeout``.
            headers: a mapping of names to a value, or to several.

        Raises:
            NoRespondersError: nobody subscribes to ``subject``.
            PermissionsViolationError: this user may not publish to ``subject``.
            TimeoutError: no answer came in time.
            ConnectionLostError: the link broke before the answer came.
            LocalProtocolError: as in ``publish``.
        """
        limit = seconds(timeout, default=self._session.options.timeout)
        return Message(
            await self._ask(
                lambda now: self._session.request(subject, payload, now=now, timeout=limit, headers=headers), limit
            ),
            self,
        )

    @explained(BufferOptions)
    async def subscribe(
        self,
        subject: str,
        *,
        queue: str | None = None,
        cb: Callable[[Message], object] | None = None,
        **options: Unpack[BufferOptions],
    ) -> Subscription:
        """Subscribe to the messages of a subject.

        Messages that find the buffer full are dropped and counted, and the event SlowConsumer reports them. Keep the
        returned object, unless it has a callback: a subscription without references ends.

        Args:
            subject: what to receive. Wildcards are allowed.
            queue: the name of a queue group. Each message goes to one of its members.
            cb: called with each message, one at a time and in their order. An exception is the event CallbackFailed,
                and the next message follows.

        Raises:
            BadSubjectError: ``subject`` or ``queue`` cannot be sent.
            ConnectionClosedError: the connection has ended.
        """
        if cb is not None and not callable(cb):
            raise LocalProtocolError(f"cb must be callable, or None, not {type(cb).__name__}")
        limits = named(BufferOptions, options)
        subscription = Subscription(
            self._call(lambda now: CoreSubscription(self._session, subject, queue=queue, **limits)), self
        )
        if cb is not None:
            subscription._serve(cb)
        return subscription

    async def flush(self, *, timeout: Timeout | None = None) -> float:
        """Wait until the server has processed all that was published before.

        Args:
            timeout: seconds, or a timedelta. None: the connection's ``timeout``.

        Returns:
            The round trip of a PING, in seconds.

        Raises:
            TimeoutError: no PONG came in time.
            ConnectionLostError: the link broke before the PONG came.
            ConnectionClosedError: the connection has ended.
        """
        limit = seconds(timeout)
        return await self._wait(
            self._call(self._session.ping), self._session.options.timeout if limit is None else limit
        )

    async def rtt(self, *, timeout: Timeout | None = None) -> float:
        """The round trip of a PING, in seconds, as ``flush`` measures it.

        Args:
            timeout: seconds, or a timedelta. None: the connection's ``timeout``.

        Raises:
            TimeoutError: no PONG came in time.
            ConnectionLostError: the link broke before the PONG came.
            ConnectionClosedError: the connection has ended.
        """
        return await self.flush(timeout=timeout)

    async def force_reconnect(self) -> None:
        """Leave the server for the next one, or the same if there is one alone. Without a link, dial at once.

        It sends what the socket takes, and waits for nothing. What was under way is lost as with any link: call
        ``flush()`` before, where that matters. The events Disconnected and Connected follow.

        Raises:
            ConnectionClosedError: the connection has ended.
            LocalProtocolError: ``max_reconnect_attempts`` is 0.
        """
        self._call(lambda now: self._session.flush())
        self._call(self._session.force_reconnect)

    @ends
    async def drain(self) -> None:
        """End all subscriptions, wait for what was under way, then close.

        Callbacks have had all that was received by then. Other tasks that iterate, or call ``next_msg()``, have until
        the connection's ``timeout`` to take what is buffered and to acknowledge it: the connection is closed when each
        has asked for more after its last message, or has ended. A ``fetch()`` that was under way counts as well. What
        is left then can be taken afterwards, but not acknowledged.

        A callback may call this too: it does not wait for callbacks then, and the connection closes after their last
        message. Without a link it waits for the next one.

        Raises:
            TimeoutError: the connection's ``timeout`` has passed before all was received, or a callback had the last
                message. The connection stays open, to be drained again or closed.
            ConnectionLostError: the link broke meanwhile.
        """
        session, limit = self._session, self._session.options.timeout
        drained = self._call(lambda now: session.drainable)
        await self._wait(self._call(lambda now: session.drain(now, drained)), limit)
        serving = tuple(self._serving)
        if any(subscription._is_calling for subscription in serving):
            self._closes_when_served = True
            return
        for subscription in serving:
            await subscription._callback_ended()
        until = self._now() + limit
        while self._has_takers(drained) and not session.closed and self._now() < until:
            with suppress(TimeoutError):
                await self._wait(Ticket[None](), LOOK_AGAIN)
        if not session.closed:
            with suppress(Error):  # a consumer that cannot be deleted is reported by an event
                await self._wait(self._call(lambda now: session.run(end(drained, now))), limit)
        await self.close()

    @ends
    async def close(self) -> None:
        """Send what is pending and close. No effect the second time.

        Waits that are under way end with ConnectionClosedError. A server that takes no more bytes delays it by no more
        than twice the ``timeout`` of the connection.
        """
        await self._close()

    def trace(self) -> TraceCollector:
        """Follow one message from server to server (ADR-41), from server 2.11 on. See ``TraceCollector``.

        Raises:
            UnsupportedByServerError: the server is older.
        """
        session = self._session
        core = self._call(lambda now: CoreTraceCollector(session, inbox=session.new_inbox(), server=session.server))
        return TraceCollector(core, self)

    def jetstream(
        self,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: Timeout | None = None,
        publish_async_max_pending: int = DEFAULT_MAX_PENDING,
        retry_attempts: int | None = None,
        retry_wait: Timeout | None = None,
    ) -> JetStream:
        """JetStream on this connection.

        All JetStreams of a connection with the same ``timeout``, retries and ``publish_async_max_pending`` share that
        window. So ``publish_async_completed()`` waits for the messages of all of them.

        Args:
            domain: the JetStream domain, whose API subject is ``$JS.<domain>.API``.
            prefix: another API subject than ``$JS.API``.
            timeout: of each request, in seconds or as a timedelta. None: the connection's ``timeout``.
            publish_async_max_pending: messages of ``publish_async()`` that may be without an acknowledgement.
            retry_attempts: how often ``publish()`` and ``publish_async()`` send a message again that no stream takes,
                as during an election (ADR-22). None: 2. -1: until its timeout.
            retry_wait: the pause before each of them, in seconds or as a timedelta. None: 0.25.
        """
        of_count("publish_async_max_pending", publish_async_max_pending)
        core = CoreJetStream(
            self._session, domain=domain, prefix=prefix, timeout=seconds(timeout), retry_attempts=retry_attempts,
            retry_wait=seconds(retry_wait, "retry_wait"),
        )  # fmt: skip
        return JetStream(core, self, self._shared_publisher(core, publish_async_max_pending))

    def _shared_publisher(self, core: CoreJetStream, max_pending: int) -> PipelinedPublisher:
        """What ``publish_async()`` uses: one inbox for all JetStreams with the same options."""

        def publisher(now: float) -> PipelinedPublisher:
            key = core.timeout, core.retry, max_pending
            pipelined: PipelinedPublisher | None = self._pipelined.get(key)
            if pipelined is None:
                pipelined = self._pipelined[key] = PipelinedPublisher(
                    core.async_publisher(max_pending=max_pending), self
                )
            return pipelined

        return self._call(publisher)


class Message(MessageBase):
    """A received message, decoded on demand."""

    __slots__ = ("_connection",)

    def __init__(self, raw: Msg, connection: Connection) -> None:
        super().__init__(raw)
        self._connection = connection

    async def respond(self, payload: bytes = b"", *, headers: HeadersLike | None = None) -> None:
        """Publish an answer to ``reply``.

        Args:
            payload: the bytes of the answer.
            headers: a mapping of names to a value, or to several.

        Raises:
            LocalProtocolError: the message has no ``reply``, or as in ``Connection.publish``.
        """
        if self.reply is None:
            raise LocalProtocolError("the sender of this message expects no answer")
        await self._connection.publish(self.reply, payload, headers=headers)


class Subscription(CallsBack, SubscriptionBase, Managed):
    """Messages of a subject, in the order of arrival. Made by ``Connection.subscribe()``.

    Example:

        async with await nc.subscribe("greet.*") as greetings:
            await nc.publish("greet.joe", b"hello")
            greeting = await greetings.next_msg(timeout=1)
            print(greeting.data)

    Iterate over it, or call ``next_msg()``, unless it has a callback. The iteration ends when the subscription does,
    and raises when the connection was lost. As a context manager it unsubscribes at the end.
    """

    def __init__(self, core: CoreSubscription, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.unsubscribe()

    def _take_ready(self, now: float) -> Ticket[None] | None:
        messages = self._core.pop_many(MAX_POP)
        connection = self._connection
        self._taken.extend(messages if self._served is None else [Message(raw, connection) for raw in messages])
        return None if self._taken else self._core.readable()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        self._check_no_callback()
        try:
            return Message(await self._next(None), self._connection)
        except ConnectionClosedError:
            raise StopAsyncIteration from None

    async def next_msg(self, *, timeout: Timeout | None = None) -> Message:
        """Wait for the next message and take it.

        Args:
            timeout: seconds, or a timedelta. None: for ever.

        Raises:
            TimeoutError: no message came in time.
            ConnectionClosedError: the subscription has ended and its last message was taken.
            ConnectionLostError: the connection has failed.
            LocalProtocolError: the subscription has a callback.
        """
        self._check_no_callback()
        return Message(await self._next(seconds(timeout)), self._connection)

    async def unsubscribe(self, max_msgs: int | None = None) -> None:
        """End the subscription. What was received can still be taken, but a callback gets no more.

        Args:
            max_msgs: messages, counted from the first one, after which it ends. None: it ends at once.
        """
        self._stopped = max_msgs is None
        if self._stopped:
            self._connection._takers.pop(self, None)
        self._connection._release(lambda now: self._core.unsubscribe(max_msgs))

    @ends
    async def drain(self) -> None:
        """End the subscription after all that is under way was received. It can still be taken.

        With a callback this waits until the callback has had the last message, unless the callback itself calls it.

        Raises:
            TimeoutError: the connection's ``timeout`` has passed.
            ConnectionLostError: the link broke meanwhile.
        """
        connection = self._connection
        await connection._wait(connection._call(self._core.drain), connection._session.options.timeout)
        await self._callback_ended()


class JetStream(
    Counts,
    Managing,
    Reads,
    Sessions,
    Consuming,
    KeepsDeadLetters,
    Subscribes,
    Sources,
    HasBuckets,
    HasObjectStores,
    NamesOfNatsPy,
):
    """Streams, their messages and their consumers. Made by ``Connection.jetstream()``.

    Example:

        js = nc.jetstream()
        await js.create_stream("ORDERS", subjects=["orders.>"])
        ack = await js.publish("orders.anna", b"tea")
        stored = await js.get_msg("ORDERS", ack.seq)
        print(ack.stream, ack.seq, stored.data)

    Timeouts are seconds, or a timedelta. None is the ``timeout`` of ``jetstream()``.

    Every verb raises, besides what it lists itself:
        TimeoutError: no answer came in time.
        ConnectionLostError: the connection was lost.
        ConnectionClosedError: the connection was closed.
        APIError: the server refused the request. Most of its codes have a subclass.
        JetStreamNotAvailableError: nobody answers the JetStream API.
        PermissionsViolationError: this user may not use the API subject.
        LocalProtocolError: the arguments are impossible. Nothing was sent.
    """

    def __init__(self, core: CoreJetStream, connection: Connection, pipelined: PipelinedPublisher) -> None:
        self._core = core
        self._connection = connection
        self._pipelined = pipelined

    def __repr__(self) -> str:
        return f"<JetStream {self._core.api.prefix} on {self._connection!r}>"

    def copy(
        self,
        stream: str,
        consumer: str,
        target: str,
        *,
        to: JetStream | None = None,
        config: ConsumerConfig | None = None,
        delivery: CopyDelivery = "fast",
        marker: str | None = None,
        prefix: str = "",
        timeout: Timeout | None = None,
    ) -> StreamCopy:
        """A copy of what a consumer with ``ack_policy="flow_control"`` delivers, in another stream. ``run()`` copies.

        What is stored in the target is acknowledged to the consumer, so a work queue is emptied. Each copy has the
        header ``Jsproto-Copy-Source``, or each atomic batch a marker, from which the next copy goes on.

        Args:
            stream: the name of the source. Its server must be 2.14 or later.
            consumer: the name of the consumer.
            target: the name of the stream to copy to. It takes the subjects of the source, after ``prefix``.
            to: the JetStream of the target. None: this one.
            config: the configuration to create the consumer with, if it is not there. None: it must be there.
            delivery: "fast" is quickest, and ``target`` has no other writer. "atomic" stores batches of up to 999 with
                a marker, beside other writers.
            marker: for "atomic", the subject of the markers. ``target`` takes it.
            prefix: text before each subject of a copy, such as ``"copies."``.
            timeout: seconds, or a timedelta, in which the consumer must deliver here, and for an answer of the target.
                None: that of ``jetstream()``.

        Raises:
            LocalProtocolError: the arguments contradict each other.
        """
        limit = seconds(timeout, default=self._core.timeout)
        check_name(stream)
        check_name(consumer, "consumer")
        if to is not None and not isinstance(to, JetStream):
            raise LocalProtocolError(f"to is the JetStream of the target, such as other.jetstream(), not {to!r:.100}")
        return StreamCopy(self, to or self, (stream, consumer, target), config, delivery, marker, prefix, limit)

    @explained(PublishOptions, PublishKeywords)
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
        """Publish a message and wait until the stream has stored it.

        A message that no stream takes has reached nobody, so it is sent again, even if the wait was given up meanwhile.

        Args:
            subject: where to publish, without wildcards.
            payload: the bytes of the message.
            headers: a mapping of names to a value, or to several.
            timeout: seconds, or a timedelta, for all attempts. None: that of ``jetstream()``.
            retry_attempts: how often it is sent again, -1 for until the timeout. None: that of ``jetstream()``.
            retry_wait: the pause before that, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            StreamWrongLastSequenceError: an expected sequence is another one. Other checks have errors of their own.
            NoStreamResponseError: no stream listens to ``subject``.
            TimeoutError: no acknowledgement came in time. The message may be stored, or be stored later.
            LocalProtocolError: a keyword has a value that it does not take. Nothing was sent.
            UnsupportedByServerError: the server is too old for a keyword. Nothing was sent.
        """
        limit = seconds(timeout, default=self._core.timeout)
        wait, keywords = seconds(retry_wait, "retry_wait"), publish_options(options)
        return await self._connection._ask(
            lambda now: self._core.publish(
                subject, payload, now=now, headers=headers, timeout=limit, retry_attempts=retry_attempts,
                retry_wait=wait, **keywords,
            ),
            limit,
        )  # fmt: skip

    async def publish_async(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        wait_stall: Timeout | None = None,
        **options: Unpack[PublishKeywords],
    ) -> PendingAck:
        """Publish a message without waiting for its acknowledgement.

        The other keywords are those of ``publish``. The acknowledgement counts as missing after the ``timeout`` of
        ``jetstream()``. The call waits while ``publish_async_max_pending`` messages are without an acknowledgement. For
        many messages ``async_publisher()`` is cheaper, and ``fast_publisher()`` cheapest.

        Args:
            wait_stall: how long to wait for room, in seconds or as a timedelta. None: for ever.

        Returns:
            The promise of the acknowledgement.

        Raises:
            TimeoutError: there was no room within ``wait_stall``. Nothing was sent.
        """
        if wait_stall is not None:
            seconds(wait_stall, "wait_stall")
        if options:
            headers = merged_headers(self._connection._session, subject, payload, headers, options)
        pending = self._pipelined._publish_at_once(subject, payload, headers)
        return pending or await self._pipelined._publish_with_room(subject, payload, headers, wait_stall)

    def publish_async_pending(self) -> int:
        """How many messages of ``publish_async()`` are without an answer."""
        return self._pipelined.pending

    async def publish_async_completed(self, *, timeout: Timeout | None = None) -> None:
        """Wait until every message of ``publish_async()`` is acknowledged or has failed. Each ``PendingAck`` has the
        result.

        Args:
            timeout: of this wait, in seconds or as a timedelta. None: until the messages' own timeouts.

        Raises:
            TimeoutError: messages were without an answer after ``timeout``.
        """
        await self._pipelined.flush(timeout=timeout)

    @explained(PipelinedOptions)
    def async_publisher(
        self,
        **options: Unpack[PipelinedOptions],
    ) -> PipelinedPublisher:
        """Publish with an acknowledgement for each message, many of them under way.

        It works with any stream and server. With ``allow_batched`` streams, ``fast_publisher()`` is cheaper for both
        sides.

        Args:
            options: those below.
        """
        asked = named(PipelinedOptions, options)
        core = self._connection._call(lambda now: self._core.async_publisher(**asked))
        return PipelinedPublisher(core, self._connection)

    def batch_advisories(self, stream: str, batch_id: str | None = None) -> BatchAdvisories:
        """Watch a stream for atomic batches that the server abandons, from now on (ADR-50).

        The server publishes why it abandoned a batch: "timeout", "incomplete", "unsupported" or "large". Nobody else
        reports it: its publisher may never hear of it.

        Args:
            stream: the stream's name.
            batch_id: one batch alone. None: all of the stream.

        Raises:
            BadSubjectError: a name cannot be sent.
            ConnectionClosedError: the connection has ended.
        """
        core = self._connection._call(lambda now: self._core.batch_advisories(stream, batch_id))
        return BatchAdvisories(core, self._connection)

    @explained(FastOptions, BatchIdOptions)
    def fast_publisher(
        self,
        **options: Unpack[FastBatchOptions],
    ) -> FastPublisher:
        """A new fast-ingest batch (ADR-50). The stream needs ``allow_batched``, the server must be 2.14 or later.

        Args:
            options: those below.

        Raises:
            LocalProtocolError: an argument is out of its range. The verbs raise what ``FastPublisher`` lists.
        """
        core = self._connection._call(lambda now: self._core.fast_publisher(**options))
        return FastPublisher(core, self._connection)

    @explained(AtomicOptions, BatchIdOptions)
    def atomic_batch(self, **options: Unpack[AtomicBatchOptions]) -> AtomicBatch:
        """A new atomic batch (ADR-50). The stream needs ``allow_atomic``, the server must be 2.12 or later.

        Args:
            options: those below.

        Raises:
            LocalProtocolError: an argument is out of its range. The verbs raise what ``AtomicBatch`` lists.
        """
        core = self._connection._call(lambda now: self._core.atomic_batch(**options))
        return AtomicBatch(core, self._connection)

    @explained(AtomicOptions, BatchIdOptions)
    async def publish_batch(
        self,
        messages: Messages,
        **options: Unpack[AtomicBatchOptions],
    ) -> PubAck:
        """Store all of ``messages`` in one atomic batch, or none of them (ADR-50).

        All are collected before the first is sent, and the last one commits. An iterator is read up to one message more
        than ``max_messages``. To try a second time after an error, give a list.

        Args:
            messages: each is ``(subject, payload)`` or ``(subject, payload, headers)``. ``MessageColumns`` are cheaper.

        Returns:
            The acknowledgement of the commit. Its ``sequences`` are those of the messages in the stream.

        Raises:
            BatchFullError: there are more than ``max_messages``. Nothing was sent.
            LocalProtocolError: the messages cannot be a batch. Nothing is stored.
            Error: otherwise as in ``AtomicBatch.commit``.
        """
        most = checked(AtomicBatchOptions, options)["max_messages"]
        check_iterable(messages)
        collected = await collect_messages(messages, most)
        return await self._connection._ask(lambda now: self._core.publish_batch(collected, now=now, **options))


class FastPublisher(FastPublisherBase, PublishesMany, Managed):
    """One fast-ingest batch (ADR-50). Made by ``JetStream.fast_publisher()``.

    Example:

        async with js.fast_publisher() as batch:
            await batch.publish_many(("orders.new", b"%d" % n) for n in range(10_000))
            ack = await batch.commit()
        print(ack.count)

    Messages run ahead of the server's acknowledgements by a bounded window. A verb waits while the window is closed. As
    a context manager it abandons the batch when the block is left without ``commit()``. Tasks may share it: a call
    returns the sequence of its own message.

    Every verb raises:
        BatchError: the batch has failed. The error, or its subclass, says what is known to be stored.
        BatchClosedError: the batch was committed or abandoned.
    """

    _connection: Connection

    def __init__(self, core: CoreFastPublisher, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.abandon()

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishKeywords],
    ) -> int:
        """Publish one message of the batch. It is stored when ``acked`` has reached its sequence.

        All subjects must be of one stream, that of the first message. A message to another stream, or to none, is lost
        to the batch or ends it. The other keywords are those of ``JetStream.publish``.

        Args:
            subject: where to publish, without wildcards.
            payload: the bytes of the message.
            headers: a mapping of names to a value, or to several.

        Returns:
            The sequence of the message in the batch, from 1 on.

        Raises, with nothing sent and no sequence spent:
            BadSubjectError: ``subject`` cannot be published to.
            BadHeaderError: a header cannot be sent.
            MaxPayloadError: headers and payload have more than ``max_payload`` bytes together.
            LocalProtocolError: a keyword has a value that it does not take.
        """
        if options:
            headers = merged_headers(self._connection._session, subject, payload, headers, options)
        verb = partial(self._publish_one, subject, payload, headers)
        while (sequence := self._connection._call(verb, coalesce=True)) is None:
            await self._make_room()
        return sequence

    async def ping(self) -> None:
        """Keep the batch alive and ask for the latest acknowledgement. It is sent automatically when it is needed."""
        self._connection._call(self._core.ping)

    async def commit(
        self,
        subject: str | None = None,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishKeywords],
    ) -> PubAck:
        """End the batch and wait for its acknowledgement.

        The other keywords are those of ``publish``, for the last message.

        Args:
            subject: where to publish a last message. None: nothing more is stored, and asking again (after a wait that
                was given up) gives the same answer.
            payload: the bytes of the last message.
            headers: the headers of the last message.

        Returns:
            The acknowledgement: ``count`` messages are stored, the last one as ``seq``.

        Raises:
            BatchTruncatedError: fewer messages were stored than published.
            LocalProtocolError: ``publish_many`` was interrupted. ``take_unpublished()`` gives back what it took.
        """
        if self._hands and self._core.error is None:
            self._check_hands()
        headers = merged_headers(self._connection._session, subject, payload, headers, options)
        verb = partial(self._commit, subject, payload, headers)
        while True:
            if subject is not None or not self._is_committing:
                await self._make_room()
            ticket = await self._connection._call_with_room(verb)
            if ticket is not None:
                return await self._connection._wait(ticket)

    async def abandon(self) -> None:
        """End the batch without a commit, and wait for nothing. What was published may be stored. No effect after the
        end.
        """
        self._connection._release(self._core.abandon)

    async def _make_room(self) -> None:
        """Wait for the connection, and for the window."""
        connection = self._connection
        if connection._session.congested and not self._is_over:
            await connection._make_room()
        await connection._wait(connection._call(lambda now: self._core.ready(), coalesce=True))


lend(Connection, FastPublisher, JetStream, to=__package__)
