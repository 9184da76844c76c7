"""The facade for event loops: what an application calls, and awaits, under asyncio and under trio alike.

Rules: ``_blocking``, the facade for threads, is made from this folder by ``python -m tests.tools.generate_blocking``.
A verb puts one input into the core and waits for a ticket; it knows nothing of loops or sockets. What is taken from a
buffer of the core is stored without an ``await`` in between, so that a cancelled wait loses no message. Verbs that do
not wait do not yield to the loop. A connection belongs to the loop, and so to the thread, in which it was made.

Not here: how a task waits (``engine``), what is not made but written for both (``extras``), moving bytes (``asyncio``
and ``trio``), protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

from jsproto.client.connection.subscription import DEFAULT_PENDING_BYTES, DEFAULT_PENDING_MSGS
from jsproto.client.connection.subscription import Subscription as CoreSubscription
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.client.publish.atomic import MAX_MESSAGES
from jsproto.client.publish.fast import DEFAULT_FLOW
from jsproto.client.publish.fast import FastPublisher as CoreFastPublisher
from jsproto.client.publish.pipelined import DEFAULT_MAX_PENDING, DEFAULT_MAX_PENDING_BYTES
from jsproto.errors import (
    ConnectionClosedError,
    LocalProtocolError,
    OutboundBufferLimitError,
    TimeoutError,
)
from jsproto.grammar.acks import PubAck
from jsproto.grammar.config import AccountInfo, StreamConfig, StreamInfo, StreamOptions
from jsproto.grammar.fast import GapMode
from jsproto.grammar.headers import HeadersLike
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg
from jsproto_io._aio.atomic import AtomicBatch
from jsproto_io._aio.consuming import Consuming
from jsproto_io._aio.engine import Engine
from jsproto_io._aio.extras import Messages, collected
from jsproto_io._aio.publishing import BatchAdvisories, PendingAck, PipelinedPublisher, PublishesMany
from jsproto_io._aio.reading import Reads
from jsproto_io._aio.sessions import Sessions
from jsproto_io._aio.subscribing import Subscribes
from jsproto_io._state.common import (
    Timeout,
    seconds,
    stream_config,
    warn_of_loss,
)
from jsproto_io._state.shared import FastPublisherBase, MessageBase, SubscriptionBase

T = TypeVar("T")


class Connection(Engine):
    """A connection to NATS. Made by ``connect()``."""

    # -- inputs and waits ----------------------------------------------------------------------------------------------

    async def _ask(self, verb: Callable[[float], Ticket[T]], limit: float | None = None) -> T:
        """The answer; ``limit`` as of ``_call_with_room``, for who tells ``verb`` the same."""
        return await self._wait(await self._call_with_room(verb, limit=limit))

    async def _call_with_room(
        self, verb: Callable[[float], T], *, coalesce: bool = False, limit: float | None = None
    ) -> T:
        """``_call``, as soon as there is room for what it queues.

        TimeoutError when there is none for ``limit`` seconds. They begin now, and so does what ``verb`` is to take.
        """
        began = self._now()
        until = None if limit is None else began + limit
        while True:
            await self._make_room(until)
            try:
                return self._call(verb if limit is None else lambda now: verb(began), coalesce=coalesce)
            except OutboundBufferLimitError:
                pass  # others were quicker

    async def _make_room(self, until: float | None = None) -> None:
        """Back-pressure: wait while too much waits to be written. TimeoutError when it still does ``until`` then."""
        if self._session.congested:
            left = None if until is None else max(until - self._now(), 0)
            try:
                await self._wait(self._call(lambda now: self._session.sendable()), left)
            except TimeoutError:
                raise TimeoutError("it found no room in time: too much waits to be written") from None

    # -- verbs ---------------------------------------------------------------------------------------------------------

    async def publish(
        self, subject: str, payload: bytes = b"", *, reply: str | None = None, headers: HeadersLike | None = None
    ) -> None:
        """Publish a message; nobody acknowledges it.

        It leaves within ``linger`` seconds, on threads perhaps 0.02 s later, or with the next link while there is none;
        what was under way on a link that broke is lost. Waits while more than half of ``pending_size`` bytes wait to be
        written.
        ``reply``: the subject where answers are expected. LocalProtocolError with nothing sent: BadSubjectError,
        BadHeaderError, MaxPayloadError, ConnectionClosedError.
        """
        await self._call_with_room(
            lambda now: self._session.publish_message(subject, payload, reply=reply, headers=headers), coalesce=True
        )

    async def request(
        self, subject: str, payload: bytes = b"", *, timeout: Timeout | None = None, headers: HeadersLike | None = None
    ) -> Message:
        """Publish a message and wait for the first answer.

        ``timeout``: seconds, or a timedelta; the connection's default when None. NoRespondersError when nobody listens
        to ``subject``, PermissionsViolationError when this user may not ask there, TimeoutError, ConnectionLostError;
        LocalProtocolError as of ``publish``.
        """
        limit = seconds(timeout, default=self._session.options.timeout)
        return Message(
            await self._ask(
                lambda now: self._session.request(subject, payload, now=now, timeout=limit, headers=headers), limit
            ),
            self,
        )

    async def subscribe(
        self,
        subject: str,
        *,
        queue: str | None = None,
        pending_msgs_limit: int = DEFAULT_PENDING_MSGS,
        pending_bytes_limit: int = DEFAULT_PENDING_BYTES,
    ) -> Subscription:
        """Subscribe to ``subject``; wildcards are allowed. With ``queue`` each message goes to one of the group.

        Messages that arrive while ``pending_msgs_limit`` messages, or ``pending_bytes_limit`` bytes, wait to be taken
        are dropped and counted; the event SlowConsumer says so. Keep what is returned: a subscription that nobody
        holds ends. BadSubjectError, ConnectionClosedError.
        """
        return Subscription(
            self._call(
                lambda now: CoreSubscription(
                    self._session,
                    subject,
                    queue=queue,
                    pending_msgs_limit=pending_msgs_limit,
                    pending_bytes_limit=pending_bytes_limit,
                )
            ),
            self,
        )

    async def flush(self, *, timeout: Timeout | None = None) -> float:
        """Wait until the server has processed all that was published before; returns the round trip in seconds.

        ``timeout``: seconds, or a timedelta; the connection's default when None. TimeoutError, ConnectionLostError,
        ConnectionClosedError.
        """
        limit = seconds(timeout)
        return await self._wait(
            self._call(self._session.ping), self._session.options.timeout if limit is None else limit
        )

    async def drain(self) -> None:
        """End all subscriptions, wait until what was under way has been taken in, then close.

        What was received can still be taken afterwards; callbacks have had it all by then. Called in a callback it does
        not wait for callbacks: the connection closes when they have had it all. Without a link it waits for the next
        one. TimeoutError after the ``timeout`` of the connection, which stays open then, to be drained again
        or closed; ConnectionLostError.
        """
        await self._wait(self._call(self._session.drain), self._session.options.timeout)
        serving = tuple(self._serving)
        if any(subscription._is_calling for subscription in serving):
            self._closes_when_served = True
            return
        for subscription in serving:
            await subscription._callback_ended()
        await self.close()

    async def close(self) -> None:
        """Send what is pending and close. Nothing happens when it is closed already.

        Whoever waits gets ConnectionClosedError. A server that takes no more bytes delays it by no more than twice the
        ``timeout`` of the connection.
        """
        await self._close()

    def jetstream(
        self,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: Timeout | None = None,
        publish_async_max_pending: int = DEFAULT_MAX_PENDING,
    ) -> JetStream:
        """JetStream on this connection.

        ``domain`` or ``prefix`` choose another API subject than ``$JS.API``. ``timeout``: for each of its requests,
        seconds or a timedelta; the connection's default when None. ``publish_async_max_pending``: how many messages of
        ``publish_async()`` may be without an acknowledgement; whoever has the same ``timeout`` and the same bound on
        this connection shares them, and waits for all of them in ``publish_async_completed()``.
        """
        core = CoreJetStream(self._session, domain=domain, prefix=prefix, timeout=seconds(timeout))
        return JetStream(core, self, self._publisher_ahead(core, publish_async_max_pending))

    def _publisher_ahead(self, core: CoreJetStream, max_pending: int) -> PipelinedPublisher:
        """What ``publish_async()`` uses: one inbox for all that is set up alike, however many JetStreams are made."""

        def publisher(now: float) -> PipelinedPublisher:
            key = core.timeout, max_pending
            ahead: PipelinedPublisher | None = self._ahead.get(key)
            if ahead is None:
                ahead = self._ahead[key] = PipelinedPublisher(core.async_publisher(max_pending=max_pending), self)
            return ahead

        return self._call(publisher)


class Message(MessageBase):
    """A received message, decoded when asked."""

    __slots__ = ("_connection",)

    def __init__(self, raw: Msg, connection: Connection) -> None:
        super().__init__(raw)
        self._connection = connection

    async def respond(self, payload: bytes = b"", *, headers: HeadersLike | None = None) -> None:
        """Publish an answer to ``reply``. LocalProtocolError when the sender expects none."""
        if self.reply is None:
            raise LocalProtocolError("the sender of this message expects no answer")
        await self._connection.publish(self.reply, payload, headers=headers)


class Subscription(SubscriptionBase):
    """Messages of a subject, in the order of arrival. Made by ``Connection.subscribe()``.

    Iterate over it, or call ``next_msg()``. The iteration ends when the subscription does; it raises when the
    connection was lost. As a context manager it unsubscribes at the end.
    """

    def __init__(self, core: CoreSubscription, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.unsubscribe()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.next_msg()
        except ConnectionClosedError:
            raise StopAsyncIteration from None

    async def next_msg(self, *, timeout: Timeout | None = None) -> Message:
        """Take the next message, waiting for it for ``timeout``: seconds, or a timedelta; for ever when None.

        TimeoutError. ConnectionClosedError when the subscription has ended and all is taken, ConnectionLostError when
        the connection has failed.
        """
        limit = seconds(timeout)
        until = None if limit is None else self._connection._now() + limit
        while True:
            try:
                return Message(self._taken.popleft(), self._connection)
            except IndexError:
                readable = self._connection._call(self._take_ready)
            if readable is not None:
                await self._connection._wait(
                    readable, None if until is None else max(until - self._connection._now(), 0)
                )

    async def unsubscribe(self, max_msgs: int | None = None) -> None:
        """End it: at once, or when ``max_msgs`` messages have come in all. What has come can still be taken."""
        self._connection._release(lambda now: self._core.unsubscribe(max_msgs))

    async def drain(self) -> None:
        """End it so that all that is under way is still delivered. TimeoutError, ConnectionLostError."""
        connection = self._connection
        await connection._wait(connection._call(self._core.drain), connection._session.options.timeout)


class JetStream(Reads, Sessions, Consuming, Subscribes):
    """Streams and what is in them. Made by ``Connection.jetstream()``.

    Every verb raises TimeoutError, ConnectionLostError, ConnectionClosedError, APIError (or the subclass that fits)
    when the server says no, JetStreamNotAvailableError when it has no JetStream, PermissionsViolationError when this
    user may not, and LocalProtocolError, with nothing sent, for arguments that cannot be. ``timeout``: seconds, or a
    timedelta; the default of ``jetstream()`` when None.
    """

    def __init__(self, core: CoreJetStream, connection: Connection, ahead: PipelinedPublisher) -> None:
        self._core = core
        self._connection = connection
        self._ahead = ahead

    async def create_stream(
        self, config: StreamConfig | str, *, timeout: Timeout | None = None, **options: Unpack[StreamOptions]
    ) -> StreamInfo:
        """Create a stream, or find it there with the same configuration.

        ``config``: a configuration, or a name; ``options`` are fields of StreamConfig, with durations in seconds or
        timedelta. StreamNameExistError when it is there with another configuration. With ``persist_mode="async"``
        messages are acknowledged before they are on disk, so a crash can lose them: DurabilityWarning says so.
        """
        limit, wanted = seconds(timeout, default=self._core.timeout), stream_config(config, options)
        warn_of_loss(wanted)
        return await self._connection._ask(lambda now: self._core.create_stream(wanted, now=now, timeout=limit), limit)

    async def update_stream(
        self, config: StreamConfig | str, *, timeout: Timeout | None = None, **options: Unpack[StreamOptions]
    ) -> StreamInfo:
        """Change a stream's configuration.

        With a name the configuration is fetched and the fields named in ``options`` are changed; a StreamConfig
        replaces all of it. StreamNotFoundError.
        """
        limit = seconds(timeout, default=self._core.timeout)
        if isinstance(config, str):
            return await self._connection._ask(
                lambda now: self._core.change_stream(config, dict(options), now=now, timeout=limit), limit
            )
        wanted = stream_config(config, options)
        return await self._connection._ask(lambda now: self._core.update_stream(wanted, now=now, timeout=limit), limit)

    async def stream_info(self, name: str, *, timeout: Timeout | None = None) -> StreamInfo:
        """Configuration and state of a stream. StreamNotFoundError."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.stream_info(name, now=now, timeout=limit), limit)

    async def delete_stream(self, name: str, *, timeout: Timeout | None = None) -> bool:
        """Delete a stream and all its messages. StreamNotFoundError."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.delete_stream(name, now=now, timeout=limit), limit)

    async def account_info(self, *, timeout: Timeout | None = None) -> AccountInfo:
        """Limits and use of the account."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.account_info(now=now, timeout=limit), limit)

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
        """Publish a message and wait until the stream has stored it.

        ``msg_id``: duplicates within the stream's window are stored once. ``expected_*``: refuse it
        (WrongLastSequenceError and kin) unless the stream stands there. NoStreamResponseError when no stream listens
        to ``subject``. TimeoutError when no acknowledgement came in time: the message may be stored, or be so later.
        """
        limit = seconds(timeout, default=self._core.timeout)
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

    async def publish_async(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        wait_stall: Timeout | None = None,
    ) -> PendingAck:
        """Publish a message without waiting for its acknowledgement, which is promised.

        The keywords are those of ``publish``; the acknowledgement has the ``timeout`` of ``jetstream()`` to come.
        Waits while ``publish_async_max_pending`` messages are without one; ``wait_stall``: for so long at most,
        seconds or a timedelta, then TimeoutError with nothing sent. A stream of messages is cheaper with
        ``async_publisher()``, cheapest with ``fast_publisher()``.
        """
        return await self._ahead.publish(
            subject,
            payload,
            headers=headers,
            msg_id=msg_id,
            expected_stream=expected_stream,
            expected_last_seq=expected_last_seq,
            expected_last_subject_seq=expected_last_subject_seq,
            wait_stall=wait_stall,
        )

    def publish_async_pending(self) -> int:
        """How many messages of ``publish_async()`` are without an answer."""
        return self._ahead.pending

    async def publish_async_completed(self, *, timeout: Timeout | None = None) -> None:
        """Wait until every message of ``publish_async()`` is acknowledged or has failed, as its ``PendingAck`` knows.

        TimeoutError after ``timeout``, seconds or a timedelta; each message has a time limit of its own anyway.
        """
        await self._ahead.flush(timeout=timeout)

    def async_publisher(
        self,
        *,
        timeout: Timeout | None = None,
        max_pending: int = DEFAULT_MAX_PENDING,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
    ) -> PipelinedPublisher:
        """Publish with an acknowledgement for each message, many on the way at a time.

        ``timeout``: seconds, or a timedelta, after which an acknowledgement counts as missing. ``max_pending``,
        ``max_pending_bytes``: how much may be without one. For any stream and server; where there is ``allow_batched``
        ``fast_publisher()`` is cheaper for both sides.
        """
        limit = seconds(timeout)
        core = self._connection._call(
            lambda now: self._core.async_publisher(
                timeout=limit, max_pending=max_pending, max_pending_bytes=max_pending_bytes
            )
        )
        return PipelinedPublisher(core, self._connection)

    def batch_advisories(self, stream: str, batch_id: str | None = None) -> BatchAdvisories:
        """Watch ``stream`` for batches that the server gives up, or for one of them, from now on (ADR-50).

        Servers tell why an atomic batch was abandoned ("timeout", "incomplete", "unsupported", "large") to whoever
        watches, and its publisher may never hear of it. BadSubjectError, ConnectionClosedError.
        """
        core = self._connection._call(lambda now: self._core.batch_advisories(stream, batch_id))
        return BatchAdvisories(core, self._connection)

    def fast_publisher(
        self,
        *,
        gap: GapMode = "fail",
        flow: int = DEFAULT_FLOW,
        max_outstanding_acks: int = 2,
        batch_id: str | None = None,
        ack_timeout: Timeout | None = None,
    ) -> FastPublisher:
        """A new fast-ingest batch (ADR-50), for a stream with ``allow_batched`` on a server of 2.14 or later.

        ``gap``: "fail" ends the batch at the first lost or refused message, "ok" reports it as an event and goes on.
        ``flow``: the highest rate to ask for, messages for each acknowledgement, 1 to 65535.
        ``max_outstanding_acks``: 1 to 3. ``batch_id``: up to 64 characters without dots; made up when None.
        ``ack_timeout``: seconds, or a timedelta, after which an answer that is due counts as missing.
        """
        limit = seconds(ack_timeout, "ack_timeout")
        core = self._connection._call(
            lambda now: self._core.fast_publisher(
                gap=gap, flow=flow, max_outstanding_acks=max_outstanding_acks, batch_id=batch_id, ack_timeout=limit
            )
        )
        return FastPublisher(core, self._connection)

    def atomic_batch(
        self,
        *,
        batch_id: str | None = None,
        max_messages: int | None = MAX_MESSAGES,
        ack_first: bool = True,
        ack_every: int = 0,
        required_api_level: int | None = None,
        ack_timeout: Timeout | None = None,
    ) -> AtomicBatch:
        """A new atomic batch (ADR-50), for a stream with ``allow_atomic`` on a server of 2.12 or later.

        ``batch_id``: up to 64 characters without dots; made up when None. ``max_messages``: how many the server takes,
        1000 unless it is configured otherwise; None leaves the check to it. ``ack_first``: wait until the server has
        accepted the first message; without, an error shows at the commit. ``ack_every``: wait for the answer to every
        so many messages; 0 for none. ``required_api_level``: what the server must offer, or refuse. ``ack_timeout``:
        seconds, or a timedelta, after which an answer that is due counts as missing.
        """
        limit = seconds(ack_timeout, "ack_timeout")
        core = self._connection._call(
            lambda now: self._core.atomic_batch(
                batch_id=batch_id,
                max_messages=max_messages,
                ack_first=ack_first,
                ack_every=ack_every,
                required_api_level=required_api_level,
                ack_timeout=limit,
            )
        )
        return AtomicBatch(core, self._connection)

    async def publish_batch(
        self,
        messages: Messages,
        *,
        batch_id: str | None = None,
        max_messages: int | None = MAX_MESSAGES,
        ack_first: bool = True,
        ack_every: int = 0,
        required_api_level: int | None = None,
        ack_timeout: Timeout | None = None,
    ) -> PubAck:
        """Store all of ``messages`` in one atomic batch, or none of them; the keywords are those of ``atomic_batch``.

        Each is ``(subject, payload)`` or ``(subject, payload, headers)``; ``MessageColumns`` are cheaper.
        All are collected before the first is sent; the last one commits. The acknowledgement's ``sequences`` are theirs
        in the stream. BatchFullError and LocalProtocolError, with nothing stored, for what cannot be a batch; otherwise
        as ``AtomicBatch.commit``.
        """
        limit = seconds(ack_timeout, "ack_timeout")
        wanted = await collected(messages, max_messages)
        return await self._connection._ask(
            lambda now: self._core.publish_batch(
                wanted,
                now=now,
                batch_id=batch_id,
                max_messages=max_messages,
                ack_first=ack_first,
                ack_every=ack_every,
                required_api_level=required_api_level,
                ack_timeout=limit,
            )
        )


class FastPublisher(FastPublisherBase, PublishesMany):
    """One fast-ingest batch. Made by ``JetStream.fast_publisher()``.

    Messages run ahead of the server's acknowledgements by a bounded window; a verb waits while it is closed. As a
    context manager it abandons the batch when the block is left without ``commit()``. Every verb raises BatchError,
    or the subclass that fits, once the batch has failed, with what is known to be stored; BatchClosedError after its
    end. Threads or tasks may share it: a message has the sequence that its call returns, and what is published behind
    a commit raises BatchClosedError.
    """

    _connection: Connection

    def __init__(self, core: CoreFastPublisher, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.abandon()

    async def publish(self, subject: str, payload: bytes = b"", *, headers: HeadersLike | None = None) -> int:
        """Publish one message; returns its sequence in the batch. It is stored when ``acked`` has reached that.

        All subjects must be of one stream, that of the first message: what goes to another one, or to none, is lost to
        the batch or ends it. LocalProtocolError with nothing sent and no sequence spent: BadSubjectError,
        BadHeaderError, MaxPayloadError.
        """
        verb = partial(self._publish_one, subject, payload, headers)
        while (sequence := self._connection._call(verb, coalesce=True)) is None:
            await self._make_room()
        return sequence

    async def ping(self) -> None:
        """Keep the batch alive and ask for the latest acknowledgement. Sent automatically when it is needed."""
        self._connection._call(self._core.ping)

    async def commit(
        self, subject: str | None = None, payload: bytes = b"", *, headers: HeadersLike | None = None
    ) -> PubAck:
        """End the batch and wait for its acknowledgement: ``count`` messages are stored, the last one as ``seq``.

        With a ``subject`` this message is stored as the last one; without, nothing more is stored, and asking again
        (after a wait that was given up) gives the same answer. BatchTruncatedError when fewer were stored than
        published.
        """
        if subject is not None or not self._commits:
            await self._make_room()
        return await self._connection._ask(lambda now: self._core.commit(now, subject, payload, headers))

    async def abandon(self) -> None:
        """Walk away, and wait for nothing. What was published may be stored. Nothing happens when it has ended."""
        self._connection._release(self._core.abandon)

    async def _make_room(self) -> None:
        """Wait for the window, and for the connection."""
        await self._connection._make_room()
        await self._connection._wait(self._connection._call(lambda now: self._core.ready()))
