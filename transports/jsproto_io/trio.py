"""NATS JetStream on trio.

    from jsproto_io.trio import connect

    async with connect("nats://localhost:4222") as nc:
        js = nc.jetstream()

How it works
 * The context manager holds a nursery with the tasks of the connection.
 * One task receives, dials, or waits for the next attempt. It does so within a cancel scope, whose deadline others
   move.
 * A deadline that is due counts after one look at the socket (``_state.limit``).
 * A task that causes output sends what the socket takes at once. The writer task sends the rest.
 * No task of the application waits for the socket, so that cancelling it never cuts a message in half.
 * After 1 MiB in one go the writer task has its turn too. So a task that publishes without end lets others run.

Cancelling a task that waits loses no message. What the wait was to bring is ended: a subscription, or a read. The
application's own exceptions leave the block as they are, not in a group. After a fork every verb of the child raises
ForkedError.

Not here: protocol. Verbs that do not wait are no checkpoints.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from typing import NoReturn, TypeVar, Unpack

try:
    import trio
except ModuleNotFoundError:
    raise ModuleNotFoundError("jsproto_io.trio needs an extra: pip install 'jsproto[trio]'", name="trio") from None

from jsproto.client.connection.connect_options import DEFAULT_URL
from jsproto.client.connection.session import Session
from jsproto.errors import LocalProtocolError
from jsproto_io._aio import connection as facade
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
from jsproto_io._aio.trio_link import Link, TcpLink, dial
from jsproto_io._state.common import DIAL_ERRORS, MAX_BURST, EventCallback, new_session, reason
from jsproto_io._state.connecting import ConnectKeywords
from jsproto_io._state.forks import register
from jsproto_io.dialer import SystemEntropy, ambient_dialer
from jsproto_io.dialer import TrioDialer as Dialer

__all__ = [
    "AtomicBatch", "BatchAdvisories", "BatchReader", "Bucket", "BucketSession", "Connection", "ConsistentSession",
    "ConsumeContext", "Counter", "Election", "FastPublisher", "InfoLister", "JSMsg", "JetStream", "KeyWatcher", "Lock",
    "Message", "ObjectReader", "ObjectStore", "ObjectWatcher", "PendingAck", "PipelinedPublisher", "PullMessages",
    "PullSubscription", "PushSubscription", "SourcingSubscription", "StreamCopy", "Subscription", "TraceCollector",
    "Transaction", "connect",
]  # fmt: skip

T = TypeVar("T")


def connect(
    servers: str | Sequence[str] = DEFAULT_URL,
    *,
    event_cb: EventCallback | None = None,
    dialer: Dialer | None = None,
    **options: Unpack[ConnectKeywords],
) -> AbstractAsyncContextManager[Connection]:
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
    return _Connecting(Connection(new_session(servers, options, dialer.entropy), event_cb, dialer))


class _Connecting(AbstractAsyncContextManager["Connection"]):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._nursery = trio.open_nursery()

    def __await__(self) -> NoReturn:
        raise LocalProtocolError("on trio a connection has tasks, which need a block: async with connect(...) as nc")

    async def __aenter__(self) -> Connection:
        nursery = await self._nursery.__aenter__()
        try:
            await self._connection._open(nursery)
        except BaseException:
            await self._leave()
            raise
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._leave()

    async def _leave(self) -> None:
        # The nursery does not see the exception that leaves the block, so it does not wrap it in a group. Its tasks
        # have ended by then: it waits for nothing that could be cancelled.
        with trio.CancelScope(shield=True):
            await self._connection._close()
        await self._nursery.__aexit__(None, None, None)


class _SystemDialer(SystemEntropy):
    """TCP by trio."""

    async def open_link(self, host: str, port: int) -> Link:
        return TcpLink(await dial(host, port))


class Connection(facade.Connection):
    """A connection to NATS. Made by ``connect()``.

    Example:

        async with connect("nats://localhost:4222") as nc:
            await nc.publish("greet.joe", b"hello")
    """

    def __init__(self, session: Session, event_cb: EventCallback | None, dialer: Dialer) -> None:
        super().__init__(session, event_cb, trio.current_time)
        self._dialer = dialer
        self._link: Link | None = None
        self._sleep_scope = trio.CancelScope()  # the present sleep: its deadline is when it ends by itself
        self._no_link_scope = trio.CancelScope()  # the time in which there is no link
        self._nursery: trio.Nursery | None = None
        self._tasks: dict[trio.lowlevel.Task, trio.CancelScope] = {}
        self._receive_ended = trio.Event()  # nothing will be received any more
        register(self)

    _new_event = staticmethod(trio.Event)
    _call = trio.lowlevel.enable_ki_protection(facade.Connection._call)

    async def _sleep(self, event: AsyncEvent, timeout: float | None) -> bool:
        if timeout is None:
            await event.wait()
            return True
        with trio.move_on_after(timeout) as scope:
            await event.wait()
        return not scope.cancelled_caught

    def _write(self, now: float) -> None:
        session, link = self._session, self._link
        if link is None or link.due.is_set():
            return
        while session.wants_close or session.wants_send(now):  # a publisher that waited for room queues more
            link.unsent = memoryview(b"".join(session.data_to_send()))
            link.ends = session.wants_close
            link.burst += len(link.unsent)
            link.send()
            if link.unsent or link.ends or link.burst > MAX_BURST:
                link.due.set()
                return

    def _rearm(self) -> None:
        session = self._session
        deadline = session.deadline()
        if deadline is not None and deadline < self._sleep_scope.deadline:
            self._sleep_scope.deadline = deadline
        if self._link is None and session.connect_to is not None:
            self._sleep_scope.deadline = min(self._sleep_scope.deadline, self._now())  # dial
        if session.wants_close and self._must_abort:
            self._abort()
        if session.closed:
            self._no_link_scope.cancel()

    def _is_due(self, now: float) -> bool:
        link, session = self._link, self._session
        if link is not None and link.due.is_set():
            return False  # the writer will run, and then drain
        wakes_at = self._sleep_scope.deadline
        return session.wants_send(now) or (wakes_at > now + session.options.linger and session.is_late(wakes_at))

    def _who_calls(self) -> object:
        return trio.lowlevel.current_task()

    def _is_at_work(self, who: object) -> bool:
        return isinstance(who, trio.lowlevel.Task) and inspect.getcoroutinestate(who.coro) != inspect.CORO_CLOSED

    def _abort(self) -> None:
        if self._link is not None:
            self._link.close()

    def _start_task(self, run: Callable[[], Coroutine[None, None, None]]) -> None:
        async def cancellable() -> None:
            task = trio.lowlevel.current_task()
            with trio.CancelScope() as self._tasks[task]:
                await run()
            del self._tasks[task]

        assert self._nursery is not None
        self._nursery.start_soon(cancellable, name="jsproto callback")

    def _is_cancelled(self, error: BaseException) -> bool:
        is_due = trio.current_effective_deadline() <= trio.current_time()
        return isinstance(error, trio.Cancelled | BaseExceptionGroup) and is_due

    async def _open(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._session.handle_timeout(self._now())  # from now on the time for the first connection counts
        nursery.start_soon(self._run, name="jsproto connection")
        await self._wait(self._session.connected)

    async def _close(self) -> None:
        if self._is_disowned:
            return
        self._release(self._session.close)
        self._no_link_scope.cancel()  # in case a defect has left it open
        for task, scope in self._tasks.items():
            if task is not trio.lowlevel.current_task():
                scope.cancel()
        try:
            await self._sleep(self._receive_ended, self._session.options.timeout)
        finally:
            if not self._receive_ended.is_set():
                self._abort()
                with trio.CancelScope(shield=True):
                    await self._receive_ended.wait()

    # -- tasks ---------------------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        """Run one link after the other, as the session asks for them."""
        session = self._session
        # Shielded: when the application's block is cancelled, what is pending is still to be sent, and whole.
        with trio.CancelScope(shield=True):
            try:
                while not session.closed and self._failure is None:
                    link = await self._dial()
                    if link is not None:
                        await self._run_link(link)
            except Exception as bug:
                self._crash(bug)
        self._receive_ended.set()

    @trio.lowlevel.enable_ki_protection
    async def _dial(self) -> Link | None:
        """Wait until an address is due and dial it. None when that fails, or the session ends meanwhile."""
        session, link = self._session, None
        with trio.CancelScope() as self._no_link_scope:
            while (address := session.connect_to) is None:
                await self._tick()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tick_forever)
                try:
                    with trio.fail_after(session.options.connect_timeout):
                        link = await self._dialer.open_link(address.host, address.port)
                except (*DIAL_ERRORS, trio.TooSlowError) as error:
                    why = "timed out" if isinstance(error, trio.TooSlowError) else reason(error)
                    self._call(partial(session.connection_failed, why))
                nursery.cancel_scope.cancel()
        if link is not None and session.closed:
            link.close()
            return None
        return link

    async def _tick_forever(self) -> None:
        while True:
            await self._tick()

    async def _tick(self) -> None:
        """Sleep until the session's deadline, then report the time."""
        deadline = self._session.deadline()
        with trio.CancelScope(deadline=inf if deadline is None else deadline) as self._sleep_scope:
            await trio.sleep_forever()
        self._receive(partial(self._time_out, self._sleep_scope.deadline))

    @trio.lowlevel.enable_ki_protection
    async def _run_link(self, link: Link) -> None:
        """Move the bytes of one link until it ends."""
        self._link = link
        self._receive(self._session.connection_made)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, link)
            await self._read(link)
            nursery.cancel_scope.cancel()
        link.close()
        self._link = None

    @trio.lowlevel.enable_ki_protection
    async def _read(self, link: Link) -> None:
        """Put in one input after the other: bytes, the passing of time, the end of the stream."""
        session = self._session
        why: str | None = None
        is_looking = False  # once more before a deadline counts
        while why is None:
            deadline = session.deadline()
            with trio.CancelScope() as self._sleep_scope:
                if deadline is not None:
                    self._sleep_scope.deadline = deadline  # set here, one that has passed ends no wait before a look
                try:
                    while data := await link.receive():
                        self._receive(partial(session.receive_data, data))
                    why = "the server closed the connection"
                except (OSError, trio.ClosedResourceError) as error:
                    why = reason(error)
            if self._sleep_scope.cancelled_caught:
                slept_until, due = self._sleep_scope.deadline, session.deadline()
                is_looking = not is_looking and due is not None and due <= max(self._now(), slept_until)
                self._receive((lambda now: None) if is_looking else partial(self._time_out, slept_until))
        self._receive(lambda now: session.receive_eof(now, why))

    def _time_out(self, deadline: float, now: float) -> None:
        self._session.handle_timeout(max(now, deadline))

    @trio.lowlevel.enable_ki_protection
    async def _send(self, link: Link) -> None:
        """The writer task: send what the socket did not take at once."""
        try:
            while True:
                await link.due.wait()
                while link.unsent:
                    await link.wait_writable()
                    link.send()
                if link.ends:
                    link.end()
                    return
                link.due, link.burst = trio.Event(), 0
                self._call(lambda now: None)
        except trio.ClosedResourceError:
            pass  # the reader reports the error
        except Exception as bug:
            self._crash(bug)
