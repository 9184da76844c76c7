"""The facade for event loops, continued: consumers, pulling from them, acknowledging their messages.

Rules: as of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from jsproto.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.heartbeats import HEARTBEATS_MISSED
from jsproto.client.consume.message import ACK, ConsumerMsg, ack_sync, nak, send_ack, term
from jsproto.client.consume.prefetch import DEFAULT_EXPIRES
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.errors import ConnectionClosedError, Error
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, ConsumerOptions, ConsumerPause
from jsproto_io._state.common import Timeout, seconds
from jsproto_io._state.consuming import PullMessagesBase, PullSubscriptionBase, consumer_config

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class JSMsg(ConsumerMsg):
    """A message of a consumer. Acknowledge it when it is done with, or the server delivers it again.

    The first of ``ack``, ``nak`` and ``term`` settles it: whatever is asked of it afterwards is passed over silently,
    and so is everything when the consumer wants no acknowledgements.
    """

    __slots__ = ()

    async def ack(self) -> None:
        """It is done with. Nobody answers: see ``ack_sync``. To acknowledge many at once see ``ack_many``."""
        await self._send_ack(ACK)

    async def nak(self, delay: Timeout | None = None) -> None:
        """Deliver it again: at once, or after ``delay``, seconds or a timedelta."""
        await self._send_ack(nak(delay))

    async def term(self, reason: str | None = None) -> None:
        """It is not to be delivered again, though it is not done. A server that is killed may forget that.

        ``reason`` is for the advisory that the server publishes.
        """
        await self._send_ack(term(reason))

    async def in_progress(self) -> None:
        """It is being worked on: the time until it is delivered again begins anew."""
        acker = self._acker
        if acker is not None:
            await acker.facade._call_with_room(lambda now: acker.in_progress(self))

    async def ack_sync(self, *, timeout: Timeout | None = None) -> None:
        """Acknowledge, and wait until the server says that it knows.

        A server writes that to its disk a little later: after a crash of it the message may come again.

        ``timeout``: seconds, or a timedelta; the connection's default when None. TimeoutError; NoRespondersError when
        the consumer is gone. After either it may be tried again.
        """
        limit, acker = seconds(timeout), self._acker
        if acker is not None:
            connection: Connection = acker.facade
            wait = connection._session.options.timeout if limit is None else limit
            await connection._ask(lambda now: ack_sync(self, now, wait), wait)

    def working(self) -> Working:
        """A context manager that says ``in_progress`` while its block runs, as often as the consumer needs it."""
        return Working(self)

    async def _send_ack(self, payload: bytes) -> None:
        acker = self._acker
        if acker is not None:
            await acker.facade._call_with_room(lambda now: send_ack(self, payload), coalesce=True)


class Working:
    """Says that a message is being worked on. Made by ``JSMsg.working()``."""

    def __init__(self, message: JSMsg) -> None:
        self._message = message
        self._acker = message._acker

    async def __aenter__(self) -> JSMsg:
        acker = self._acker
        if acker is not None:
            await acker.facade._call_with_room(partial(acker.start_working, self._message))
        return self._message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        acker = self._acker
        if acker is not None:
            acker.facade._release(lambda now: acker.stop_working(self._message))


class PullSubscription(PullSubscriptionBase[JSMsg]):
    """A consumer that is pulled from. Made by ``JetStream.pull_subscribe()``.

    Fetch, or iterate over ``messages()``. As a context manager it unsubscribes at the end. What comes for a fetch that
    was interrupted is for the next one.
    """

    _connection: Connection

    def __init__(
        self, core: PullConsumer[JSMsg], js: CoreJetStream, connection: Connection, *, owned: bool = False
    ) -> None:
        super().__init__(core, js.timeout)
        self._js = js
        self._owned = owned
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

    async def fetch(
        self,
        batch: int = 1,
        *,
        timeout: Timeout | None = None,
        max_bytes: int | None = None,
        heartbeat: Timeout | None = None,
    ) -> list[JSMsg]:
        """Take up to ``batch`` messages of together ``max_bytes`` at most, waiting for them for ``timeout``.

        An empty list when there are none by then. ``timeout``: seconds, or a timedelta; the default of ``jetstream()``
        when None. ``heartbeat``: how often the server gives a sign of life meanwhile; by itself each 5 s of a fetch of
        10 s or more, 0 for never.

        When nothing has come: ConflictError (ConsumerDeletedError, PullLimitError, MessageSizeError and kin) and
        BadPullError as soon as the server says no, NoRespondersError when there is no such consumer,
        ConsumerSilentError when heartbeats stay away, TimeoutError when the server does not answer at all,
        ConnectionLostError when the connection is lost, or was and is not back within ``timeout``. When something has,
        it is returned, and the error comes next time.
        """
        limit = seconds(timeout, default=self._timeout)
        verb = self._begin(batch, limit, max_bytes, heartbeat)
        return await self._collect(await self._connection._call_with_room(verb, limit=limit))

    async def fetch_no_wait(
        self, batch: int = 1, *, timeout: Timeout | None = None, max_bytes: int | None = None
    ) -> list[JSMsg]:
        """Take up to ``batch`` messages that are there already; the rest is as of ``fetch``.

        ``timeout``: how long to wait for the server to say that there is nothing (more), which it does not while the
        consumer has ``max_ack_pending`` messages out; a second when None.
        """
        limit = seconds(timeout, default=min(self._timeout, 1.0))
        verb = self._begin_no_wait(batch, limit, max_bytes)
        return await self._collect(await self._connection._call_with_room(verb, limit=limit))

    def messages(
        self,
        *,
        max_msgs: int | None = None,
        max_bytes: int | None = None,
        threshold: int | None = None,
        expires: Timeout = DEFAULT_EXPIRES,
        heartbeat: Timeout | None = None,
    ) -> PullMessages:
        """Take messages as they come, for ever. Threads or tasks that each call this share them.

        ``max_msgs`` (500) or ``max_bytes``, not both, bound what is buffered and under way; more is asked for when that
        has fallen to ``threshold``, half of it unless given. ``expires``: how long one request waits at the server,
        ``heartbeat``: how often it gives a sign of life meanwhile; seconds, or a timedelta. With 0 for never, a request
        that was lost is missed, and made again, a second after it must have expired. LocalProtocolError while a fetch
        is under way, or where others share the messages with other values.
        """
        started = self._connection._call(self._start(max_msgs, max_bytes, threshold, expires, heartbeat))
        return PullMessages(self, max_msgs, started)

    async def ack_many(self, messages: Iterable[JSMsg]) -> int:
        """Acknowledge all of ``messages`` in one write; returns how many were not settled before."""
        return await self._connection._call_with_room(self._acknowledge(messages))

    async def consumer_info(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Configuration and state of the consumer. ConsumerNotFoundError."""
        limit, core = seconds(timeout, default=self._js.timeout), self._core
        return await self._connection._ask(
            lambda now: self._js.consumer_info(core.stream, core.consumer, now=now, timeout=limit), limit
        )

    async def unsubscribe(self) -> None:
        """End it, and delete its consumer if that is its own.

        What is buffered is dropped; the server delivers it again, to whoever pulls then. APIError, TimeoutError or
        ConnectionLostError when the consumer cannot be deleted.
        """
        self._connection._release(self._core.unsubscribe)
        if self._owned and not self._connection.is_closed:
            self._owned = False
            core = self._core
            with suppress(ConsumerNotFoundError, StreamNotFoundError):
                await self._connection._ask(
                    lambda now: self._js.delete_consumer(core.stream, core.consumer, now=now), self._js.timeout
                )

    async def drain(self) -> None:
        """Ask for no more, and wait until all that is under way is buffered: it can still be fetched.

        Unsubscribe afterwards, if the consumer is to be deleted. TimeoutError, ConnectionLostError.
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


class PullMessages(PullMessagesBase[JSMsg]):
    """Messages of a consumer as they come. Made by ``PullSubscription.messages()``.

    Iterate over it, or call ``next_msg()``. The iteration ends when the subscription does, or this is closed; it raises
    what the server says (as of ``fetch``), ConsumerNotFoundError or StreamNotFoundError when there is no such consumer
    (any more), ConnectionLostError when the connection has failed. Elections of a new leader are sat out, and
    a consumer that is silent is asked again (event ConsumerSilent). As a context manager it closes at the end, and a
    loop that is left closes what only it has; what was not taken is for the next fetch, or stream of messages, of the
    subscription. Each message goes to one of those that a subscription has at the same time.
    """

    def __init__(self, subscription: PullSubscription, max_msgs: int | None, started: int) -> None:
        super().__init__(subscription, max_msgs, started)
        self._connection = subscription._connection
        self._subscription = subscription  # which is not dropped while it is read from

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[JSMsg]:
        return self

    async def __anext__(self) -> JSMsg:
        try:
            return self._taken.popleft()
        except IndexError:
            pass
        try:
            return await self.next_msg()
        except ConnectionClosedError:
            raise StopAsyncIteration from None

    async def next_msg(self, *, timeout: Timeout | None = None) -> JSMsg:
        """Take the next message, waiting for it for ``timeout``: seconds, or a timedelta; for ever when None.

        TimeoutError. ConnectionClosedError when this, or the subscription, was closed.
        """
        limit = seconds(timeout)
        until = None if limit is None else self._connection._now() + limit
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                readable = self._connection._call(self._take_ready)
            if readable is not None:
                await self._connection._wait(
                    readable, None if until is None else max(until - self._connection._now(), 0)
                )

    async def close(self) -> None:
        """Ask for no more."""
        self._connection._release(self._stop)


class Consuming:
    """The verbs of ``JetStream`` that are about consumers."""

    _core: CoreJetStream
    _connection: Connection

    async def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> ConsumerInfo:
        """Create a consumer, or find it there with the same configuration.

        ``options`` are fields of ConsumerConfig, with durations in seconds or timedelta. Without a name the server
        chooses one, and forgets the consumer when nobody uses it. ConsumerExistsError when it is there with another
        configuration, StreamNotFoundError.
        """
        limit, wanted = seconds(timeout, default=self._core.timeout), consumer_config(config, options)
        return await self._connection._ask(
            lambda now: self._core.create_consumer(stream, wanted, now=now, timeout=limit), limit
        )

    async def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> ConsumerInfo:
        """Change a consumer's configuration.

        With a name the configuration is fetched and the fields named in ``options`` are changed; a ConsumerConfig
        replaces all of it. ConsumerNotFoundError; APIError for fields that cannot be changed.
        """
        limit = seconds(timeout, default=self._core.timeout)
        if isinstance(config, str):
            changes: dict[str, Any] = dict(options)
            return await self._connection._ask(
                lambda now: self._core.change_consumer(stream, config, changes, now=now, timeout=limit), limit
            )
        wanted = consumer_config(config, options)
        return await self._connection._ask(
            lambda now: self._core.update_consumer(stream, wanted, now=now, timeout=limit), limit
        )

    async def consumer_info(self, stream: str, consumer: str, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Configuration and state of a consumer. ConsumerNotFoundError, StreamNotFoundError."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(
            lambda now: self._core.consumer_info(stream, consumer, now=now, timeout=limit), limit
        )

    async def delete_consumer(self, stream: str, consumer: str, *, timeout: Timeout | None = None) -> bool:
        """Delete a consumer. ConsumerNotFoundError, StreamNotFoundError."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(
            lambda now: self._core.delete_consumer(stream, consumer, now=now, timeout=limit), limit
        )

    async def consumer_names(self, stream: str, *, timeout: Timeout | None = None) -> list[str]:
        """The names of a stream's consumers. ``timeout`` is for each page of the list. StreamNotFoundError."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.consumer_names(stream, now=now, timeout=limit), limit)

    async def consumers_info(self, stream: str, *, timeout: Timeout | None = None) -> list[ConsumerInfo]:
        """Configuration and state of a stream's consumers. ``timeout`` as of ``consumer_names``."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.consumers_info(stream, now=now, timeout=limit), limit)

    async def pause_consumer(
        self, stream: str, consumer: str, pause_until: int, *, timeout: Timeout | None = None
    ) -> ConsumerPause:
        """Let a consumer deliver nothing until then, in nanoseconds since the epoch. ConsumerNotFoundError."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(
            lambda now: self._core.pause_consumer(stream, consumer, pause_until, now=now, timeout=limit), limit
        )

    async def resume_consumer(self, stream: str, consumer: str, *, timeout: Timeout | None = None) -> ConsumerPause:
        """End a pause. ConsumerNotFoundError."""
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(
            lambda now: self._core.pause_consumer(stream, consumer, None, now=now, timeout=limit), limit
        )

    async def unpin_consumer(self, stream: str, consumer: str, group: str, *, timeout: Timeout | None = None) -> None:
        """Let another client of a priority group be pinned, the next one to ask.

        ConsumerNotFoundError, ConsumerInvalidPriorityGroupError.
        """
        limit = seconds(timeout, default=self._core.timeout)
        await self._connection._ask(
            lambda now: self._core.unpin_consumer(stream, consumer, group, now=now, timeout=limit), limit
        )

    async def pull_subscribe(
        self,
        subject: str | None = None,
        durable: str | None = None,
        *,
        stream: str | None = None,
        config: ConsumerConfig | None = None,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
        delete_consumer: bool | None = None,
        heartbeats_missed: float = HEARTBEATS_MISSED,
        **options: Unpack[ConsumerOptions],
    ) -> PullSubscription:
        """Pull from a consumer, which is found, or created (ADR-15).

        ``subject``: what to receive; wildcards are allowed. ``stream``: its name; None finds it by the subject.
        ``durable``: the name of a consumer that is created where there is none; None creates one for this subscription
        alone. ``config``, and ``options``, which are fields of ConsumerConfig with durations in seconds or timedelta,
        are for a new consumer, and one that is there must have them. ``delete_consumer``: whether the end of the
        subscription deletes a consumer that it created; None: unless it is durable. ``heartbeats_missed``: after how
        many intervals without a sign of life a consumer counts as silent.

        ``group``: where the consumer has priority groups, the one to pull in. With the policy "overflow" nothing comes
        before ``min_pending`` messages wait to be delivered, or ``min_ack_pending`` to be acknowledged; with
        "prioritized" who has a lower ``priority``, 0 to 9, goes first; with "pinned_client" one of those who pull gets
        everything, until it has not asked for the consumer's ``priority_timeout``. A stream of messages asks in time.

        NoMatchingStreamError, BindError (or the subclass that fits) for a consumer that is not as asked for.
        """
        place = Priority(group, min_pending, min_ack_pending, priority)
        wanted = SubscriptionSpec(subject, stream, durable, pull=True, options=options, base=config, place=place)
        bound = await self._connection._ask(lambda now: self._core.bind_pull(wanted, now=now), self._core.timeout)
        owned = bound.created and (durable is None if delete_consumer is None else delete_consumer)
        return self._pull(bound.info, place, heartbeats_missed, owned=owned)

    async def pull_subscribe_bind(
        self,
        consumer: str,
        stream: str,
        *,
        timeout: Timeout | None = None,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
        heartbeats_missed: float = HEARTBEATS_MISSED,
    ) -> PullSubscription:
        """Pull from a consumer that exists.

        ``group`` and what is about it, and ``heartbeats_missed``, are those of ``pull_subscribe``.
        ConsumerNotFoundError; PushBasedError when it is a push consumer, ConfigMismatchError when it has no such group.
        """
        place = Priority(group, min_pending, min_ack_pending, priority)
        info = await self.consumer_info(stream, consumer, timeout=timeout)
        return self._pull(info, place, heartbeats_missed)

    def _pull(
        self, info: ConsumerInfo, place: Priority, heartbeats_missed: float, *, owned: bool = False
    ) -> PullSubscription:
        core = self._connection._call(
            lambda now: self._core.pull_consumer(
                info, JSMsg, facade=self._connection, priority=place, heartbeats_missed=heartbeats_missed
            )
        )
        return PullSubscription(core, self._core, self._connection, owned=owned)
