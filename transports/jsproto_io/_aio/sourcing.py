"""The facade for event loops, continued: the sourcing end of a consumer.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack

from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.client.consume.consume_options import SourceOptions
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.errors import ConnectionClosedError, Error, LocalProtocolError
from jsproto.grammar.options import explained, named
from jsproto.grammar.times import seconds
from jsproto_io._aio.asking import Asks
from jsproto_io._aio.consuming import ConsumerSubscription, JSMsg
from jsproto_io._aio.extras import call_back
from jsproto_io._aio.taking import Iterates
from jsproto_io._state.common import MAX_POP, Timeout
from jsproto_io._state.sourcing import SourcingSubscriptionBase, leave

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class Sources(Asks):
    """The verb of ``JetStream`` that sources."""

    @explained(SourceOptions, BufferOptions)
    async def source(
        self,
        stream: str,
        consumer: str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[SourceOptions],
    ) -> SourcingSubscription:
        """Be the sourcing end of a consumer with ``ack_policy="flow_control"``, from server 2.14 on.

        Its deliver subject is changed, so that it delivers here. While another program is at work the server refuses
        that, and it is tried again. Events of the connection tell what happens: SourceBusy, SourceReset, SourceSkipped,
        StreamRecreated, SchedulePassedOver.

        Args:
            stream: the stream's name.
            consumer: the consumer's name.
            timeout: seconds, or a timedelta, in which the consumer must deliver here. None: that of ``jetstream()``.

        Raises:
            ConsumerNotFoundError: there is no such consumer, and no ``config``.
            SourceBusyError: another program is at work until the time is over.
            SourcePositionError: the stream came back shorter, and has other messages up to the position. Two answers,
                4 s apart, are to say so, however short ``timeout`` is. A user who may not ask is not told.
            ConfigMismatchError: the consumer has another ack policy, or a deliver group.
            APIError: the server refuses.
            TimeoutError: the server does not answer.
        """
        limit, connection = seconds(timeout, default=self._core.timeout), self._connection
        asked = named(SourceOptions, options)
        core = await connection._call_with_room(
            lambda now: self._core.source(
                stream, consumer, within=limit, now=now, message_class=JSMsg, facade=connection, **asked
            ),
            limit=limit,
        )
        subscription = SourcingSubscription(core, self._core, connection)
        try:
            await connection._wait(core.ready())
        except BaseException:
            connection._release(partial(leave, core))
            raise
        return subscription


class SourcingSubscription(SourcingSubscriptionBase, Iterates[JSMsg], ConsumerSubscription):
    """What a stream has, in its order, for a sink that says what it has stored. Made by ``JetStream.source()``.

    Take messages, store them, and ``confirm`` the last one. The server forgets, and deletes from a work queue, what is
    confirmed. What is not confirmed comes again next time. As a context manager it unsubscribes at the end.
    """

    _connection: Connection

    def __init__(self, core: SourcingConsumer[JSMsg], js: CoreJetStream, connection: Connection) -> None:
        super().__init__(core)
        self._js = js
        self._connection = connection

    async def next_msg(self, *, timeout: Timeout | None = None) -> JSMsg:
        """Wait for the next message and take it.

        Args:
            timeout: seconds, or a timedelta. None: for ever.

        Raises:
            TimeoutError: no message came in time.
            ConnectionClosedError: this has ended, and its last message was taken.
            ConnectionLostError: the connection has failed.
            ConsumerNotFoundError: the consumer was deleted, and there is no ``config`` to create it with.
        """
        return await self._next(seconds(timeout))

    async def next_msgs(self, most: int = MAX_POP, *, timeout: Timeout | None = None) -> list[JSMsg]:
        """Wait for a message, and take up to ``most`` of those that are there. Errors: as ``next_msg``."""
        messages = [await self._next(seconds(timeout))]
        with suppress(IndexError):
            while len(messages) < most:
                messages.append(self._taken.popleft())
        return messages

    async def consume(self, store: Callable[[list[JSMsg]], object], *, most: int = MAX_POP) -> None:
        """Hand on what comes to ``store``, and confirm it when that returns. Ends when the subscription does.

        Args:
            store: is called with a list of messages. What it raises ends this call. Its messages are not confirmed,
                and are handed out again.
            most: the messages of one list, at most.

        Raises:
            Error: why the subscription has failed. Errors: as ``next_msg``.
        """
        if most < 1:
            raise LocalProtocolError("a list has at least one message")
        while True:
            try:
                messages = await self.next_msgs(most)
            except ConnectionClosedError:
                return
            try:
                await call_back(store, messages)
            except BaseException:
                with suppress(Error):
                    self._connection._call(lambda now: self._restart(self.position, now))
                raise
            await self.confirm(messages[-1].metadata.sequence.stream)

    async def confirm(self, seq: int) -> None:
        """All messages up to stream sequence ``seq`` are stored. The server is told when it asks.

        Raises:
            LocalProtocolError: ``seq`` is below ``position``, or beyond what was handed out.
        """
        await self._connection._call_with_room(lambda now: self._confirm(seq, now))

    async def restart(self, position: int) -> None:
        """The sink has lost some of what it took: what comes after ``position`` is handed out again.

        Raises:
            LocalProtocolError: ``position`` is below what was confirmed, or beyond what was handed out.
            ConnectionClosedError: this has ended.
        """
        await self._connection._call_with_room(lambda now: self._restart(position, now))

    async def unsubscribe(self) -> None:
        """End it, so that another program can go on. The consumer stays."""
        self._connection._takers.pop(self, None)
        if not self._connection.is_closed:
            self._connection._release(partial(leave, self._core))
