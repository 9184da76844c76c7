"""NATS JetStream on asyncio.

    from jsproto_io.asyncio import connect

    async with connect("nats://localhost:4222") as nc:
        js = nc.jetstream()

How it works
 * A protocol callback puts what was received straight into the session. There are no streams.
 * What the session has to send leaves in one ``write``.
 * One timer handle serves all deadlines. They move it to an earlier time alone, since a needless call is harmless.
 * A deadline that is due counts after one look at the socket (``_state.limit``), for which the timer is set again.
 * While the transport is full, bytes stay in the session, which counts them: publishers wait.
 * After 1 MiB in one go they wait too, so that a task that publishes without end lets others run.

``nc = await connect(...)`` works as well, with ``await nc.close()`` at the end.

Cancelling a task that waits loses no message. What the wait was to bring is ended: a subscription, or a read.

A connection may be used only in the loop in which it was made, and after a fork only in the parent process. Every verb
of the child raises ForkedError.

Not here: protocol.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Unpack, cast

from jsproto.client.connection.connect_options import DEFAULT_URL, Address
from jsproto.client.connection.session import Session
from jsproto_io._aio import connection as facade
from jsproto_io._aio.asyncio_dial import dial
from jsproto_io._aio.asyncio_timer import Timer, clock_of
from jsproto_io._aio.atomic import AtomicBatch
from jsproto_io._aio.bucket_keys import BucketSession
from jsproto_io._aio.buckets import Bucket, KeyWatcher
from jsproto_io._aio.connection import FastPublisher, JetStream, Message, Subscription
from jsproto_io._aio.consume_context import ConsumeContext
from jsproto_io._aio.consuming import JSMsg, PullMessages, PullSubscription
from jsproto_io._aio.coordination import Election, Lock
from jsproto_io._aio.copying import StreamCopy
from jsproto_io._aio.counting import Counter
from jsproto_io._aio.engine import AsyncEvent
from jsproto_io._aio.managing import InfoLister
from jsproto_io._aio.objects import ObjectReader, ObjectStore, ObjectWatcher
from jsproto_io._aio.publishing import BatchAdvisories, PendingAck, PipelinedPublisher
from jsproto_io._aio.reading import BatchReader
from jsproto_io._aio.sessions import ConsistentSession
from jsproto_io._aio.sourcing import SourcingSubscription
from jsproto_io._aio.subscribing import PushSubscription
from jsproto_io._aio.tracing import TraceCollector
from jsproto_io._aio.transactions import Transaction
from jsproto_io._state.common import DIAL_ERRORS, MAX_BURST, READ_SIZE, EventCallback, new_session, reason
from jsproto_io._state.connecting import ConnectKeywords
from jsproto_io._state.forks import register
from jsproto_io._state.limit import LOOK
from jsproto_io.dialer import AsyncioDialer as Dialer
from jsproto_io.dialer import SystemEntropy, ambient_dialer

__all__ = [
    "AtomicBatch", "BatchAdvisories", "BatchReader", "Bucket", "BucketSession", "Connection", "ConsistentSession",
    "ConsumeContext", "Counter", "Election", "FastPublisher", "InfoLister", "JSMsg", "JetStream", "KeyWatcher", "Lock",
    "Message", "ObjectReader", "ObjectStore", "ObjectWatcher", "PendingAck", "PipelinedPublisher", "PullMessages",
    "PullSubscription", "PushSubscription", "SourcingSubscription", "StreamCopy", "Subscription", "TraceCollector",
    "Transaction", "connect",
]  # fmt: skip


def connect(
    servers: str | Sequence[str] = DEFAULT_URL,
    *,
    event_cb: EventCallback | None = None,
    dialer: Dialer | None = None,
    **options: Unpack[ConnectKeywords],
) -> _Connecting:
    """Connect to the first server that answers.

    Use it as a context manager: leaving it sends what is pending, then closes.

    Args:
        servers: a URL, several URLs separated by commas, or a sequence of URLs.
        event_cb: called with each event (``jsproto.events``), between other work of the connection. It should return
            soon: see EventsDropped.
        dialer: makes the links, and gives entropy and time. None: that of ``jsproto_io.dialer.use_dialer``, or else the
            operating system.
        options: see ``jsproto.ConnectOptions``. For files of credentials: ``jsproto_io.ConnectKeywords``.

    Raises:
        LocalProtocolError: an option is impossible.
        NoServersError: no server could be reached, or too many files are open. It lists each address and its failure.
        AuthorizationError: the server refused the credentials.
        TLSError: TLS failed.
        ConnectionLostError: otherwise the handshake failed.
    """
    dialer = dialer or ambient_dialer() or _SystemDialer()
    return _Connecting(partial(Connection, new_session(servers, options, dialer.entropy), event_cb, dialer))


class _Connecting(AbstractAsyncContextManager["Connection"]):
    """``async with`` it. Or ``await`` it, and await ``close()`` of the connection at the end."""

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make
        self._block = _block(make)

    def __await__(self) -> Generator[Any, None, Connection]:
        return _opened(self._make).__await__()

    async def __aenter__(self) -> Connection:
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._block.__aexit__(kind, error, traceback)


async def _opened(make: Callable[[], Connection]) -> Connection:
    connection = make()
    try:
        await connection._open()
    except BaseException:
        await connection._close()
        raise
    return connection


@asynccontextmanager
async def _block(make: Callable[[], Connection]) -> AsyncIterator[Connection]:
    """A generator, because the loop ends those that are dropped."""
    connection = await _opened(make)
    try:
        yield connection
    finally:
        await connection._close()


class _SystemDialer(SystemEntropy):
    """The loop's own sockets."""

    async def create_connection(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> object:
        sock = await dial(host, port)
        return await asyncio.get_running_loop().create_connection(factory, sock=sock)


class Connection(facade.Connection):
    """A connection to NATS. Made by ``connect()``.

    Example:

        async with connect("nats://localhost:4222") as nc:
            await nc.publish("greet.joe", b"hello")
    """

    def __init__(self, session: Session, event_cb: EventCallback | None, dialer: Dialer) -> None:
        self._loop = asyncio.get_running_loop()
        self._dialer = dialer
        super().__init__(session, event_cb, clock_of(self._loop))
        self._link: _Link | None = None
        self._timer = Timer(self._loop, self._time_out)
        self._is_looking = False  # at the socket, once more before a deadline counts
        self._dialling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        register(self)

    _new_event = staticmethod(asyncio.Event)

    async def _sleep(self, event: AsyncEvent, timeout: float | None) -> bool:
        if timeout is None:
            await event.wait()
            return True
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except builtins.TimeoutError:
            return False
        return True

    def _write(self, now: float) -> None:
        session, link = self._session, self._link
        if link is not None and session.wants_close:
            link.write(session.data_to_send())
        while link is not None and session.wants_send(now) and not link.paused:
            link.write(session.data_to_send())  # a publisher that waited for room queues more

    def _rearm(self) -> None:
        session = self._session
        if not self._is_looking:
            self._timer.bring_forward(session.deadline())
        if self._link is not None:
            if not session.wants_close:
                return  # it lives
            self._link.hang_up(abruptly=self._must_abort)
        if session.connect_to is not None and (self._dialling is None or self._dialling.done()):
            self._dialling = self._loop.create_task(self._dial_all())

    def _is_due(self, now: float) -> bool:
        session, wakes_at = self._session, self._timer.when
        return session.wants_send(now) or (wakes_at > now + session.options.linger and session.is_late(wakes_at))

    def _time_out(self, deadline: float) -> None:
        self._receive(partial(self._look_or_time_out, deadline))

    def _look_or_time_out(self, deadline: float, now: float) -> None:
        now = max(now, deadline)  # the loop's clock may be coarse: the timer would fire early, again and again
        due = self._session.deadline()
        self._is_looking = not self._is_looking and self._link is not None and due is not None and due <= now
        if self._is_looking:
            self._timer.bring_forward(now + LOOK)
        else:
            self._session.handle_timeout(now)

    def _start_task(self, run: Callable[[], Coroutine[None, None, None]]) -> None:
        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _is_cancelled(self, error: BaseException) -> bool:
        task = asyncio.current_task()
        assert task is not None
        return isinstance(error, asyncio.CancelledError) and task.cancelling() > 0

    def _who_calls(self) -> object:
        return asyncio.current_task(self._loop)

    def _is_at_work(self, who: object) -> bool:
        return isinstance(who, asyncio.Task) and not who.done()

    def _abort(self) -> None:
        if self._link is not None:
            self._link.hang_up(abruptly=True)

    async def _open(self) -> None:
        self._call(self._session.handle_timeout)  # from now on the time for the first connection counts
        await self._wait(self._session.connected)

    async def _dial_all(self) -> None:
        """Dial one address after the other, as long as the session has one to dial."""
        session = self._session
        await asyncio.sleep(0)  # an eager task would dial in the call that has started it
        try:
            while (address := session.connect_to) is not None:
                if self._link is not None:
                    await self._link.lost.wait()
                await self._dial(address)
        except Exception as bug:
            self._crash(bug)

    async def _dial(self, address: Address) -> None:
        session, link = self._session, _Link(self)
        try:
            async with asyncio.timeout(session.options.connect_timeout):
                await self._dialer.create_connection(lambda: link, address.host, address.port)
        except BaseException as error:
            link.abandon(error)
            if not isinstance(error, DIAL_ERRORS):
                raise
            if self._link is not link:
                self._call(partial(session.connection_failed, reason(error)))

    async def _close(self) -> None:
        if self._is_disowned:
            return
        limit = self._session.options.timeout
        self._release(self._session.close)
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
        try:
            if self._dialling is not None:
                self._dialling.cancel()
                await asyncio.wait([self._dialling], timeout=limit)
            if self._link is not None:
                await self._sleep(self._link.lost, limit)
        finally:
            self._timer.cancel()
            if self._link is not None and not self._link.lost.is_set():
                self._abort()
                await self._sleep(self._link.lost, limit)


class _Link(asyncio.Protocol):
    """One TCP connection, by the loop's protocol callbacks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection._session
        self._transport: asyncio.Transport | None = None
        self._hung_up = False
        self._transport_full = False  # the transport's buffer is full
        self._burst = 0  # bytes written since other tasks had their turn
        self.lost = asyncio.Event()

    @property
    def paused(self) -> bool:
        return self._transport is None or self._transport_full or self._burst > MAX_BURST

    def write(self, data: list[bytes]) -> None:
        if data and self._transport is not None and not self._hung_up and not self._transport.is_closing():
            joined = b"".join(data)
            self._transport.write(joined)
            if self._burst <= MAX_BURST < self._burst + len(joined):
                self._connection._loop.call_soon(self._end_burst)
            self._burst += len(joined)

    def _end_burst(self) -> None:
        self._burst = 0
        if not self.paused:
            self._connection._receive(lambda now: None)

    def hang_up(self, *, abruptly: bool) -> None:
        """Send what is buffered and end. ``abruptly``: end without sending."""
        if self._transport is None:
            return
        if abruptly:
            self._transport.abort()
        elif not self._hung_up:
            self._transport.write_eof()
        self._hung_up = True

    def abandon(self, error: BaseException) -> None:
        """Its dialling has failed. A loop may close what it has opened until then without a word: uvloop does."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if hasattr(transport, "max_size"):  # asyncio's own would read 256 KiB at once
            transport.max_size = READ_SIZE
        if self.lost.is_set() or self._session.connect_to is None:  # abandoned, or closed meanwhile
            self.hang_up(abruptly=True)
        else:
            self._connection._link = self
            self._connection._receive(self._session.connection_made)

    def data_received(self, data: bytes) -> None:
        self._connection._receive(partial(self._session.receive_data, data))

    def eof_received(self) -> None:
        self._connection._receive(self._session.receive_eof)

    def connection_lost(self, error: BaseException | None) -> None:
        if self.lost.is_set():  # it was abandoned
            return
        self._transport = None
        verb = self._session.receive_eof
        self._connection._receive(verb if error is None else lambda now: verb(now, reason(error)))
        self.lost.set()

    def pause_writing(self) -> None:
        self._transport_full = True

    def resume_writing(self) -> None:
        self._transport_full = False
        self._connection._receive(lambda now: None)
