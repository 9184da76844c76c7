"""NATS JetStream on blocking sockets and threads.

    from jsproto_io.sync import connect

    with connect("nats://localhost:4222") as nc:
        js = nc.jetstream()

How an application uses it
 * A connection and all its objects may be used from any thread.
 * By default a reader thread serves PINGs and timers, and dials again after a lost link, while no thread waits.
 * With ``reader_thread=False`` nothing is read while no thread waits. A server cuts off a client that stays away for
   minutes. Small messages leave at once then, unless ``linger`` is given.
 * What the socket does not take leaves with the next wait, such as ``flush()``, or from the reader thread.

How it works: the leader/followers pattern (``_threads.leadership``)
 * The leader is the one thread that sleeps in ``select`` and receives. The other waiting threads are followers, and
   sleep on an event each.
 * A waiting thread is preferred as the leader. The reader thread takes over a moment after the last wait.
 * With a reader thread, only that one dials: the look-up of a name may take longer than a caller wants to wait.
 * Lingering bytes may linger up to that moment longer.

Signals
 * Ctrl-C during a wait, or in the application's own code, leaves the connection usable (``_threads.interrupts``).
 * So does any exception of a signal handler while bytes are sent or received.
 * What an interrupted verb was to bring is ended: a subscription, or a read.
 * A signal handler, or a finalizer, may end things: ``drain``, ``close``, ``unsubscribe`` and ``stop``. Where it has
   interrupted another verb of the connection, a thread of its own does that, and the handler returns at once
   (``_threads.reentry``).
 * Any other verb may raise LocalProtocolError there. It does not hang.
 * An exception that interrupts a change of the state ends the connection with an error.

A connection that is dropped without ``close()`` ends with a ResourceWarning, and pending bytes are lost. After a fork
it belongs to the parent process: every verb of the child raises ForkedError.

Not here: protocol.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Unpack

from jsproto.client.connection.connect_options import DEFAULT_URL
from jsproto.errors import Error, ForkedError, NoServersError, TimeoutError
from jsproto.ticket import Ticket
from jsproto_io._blocking.atomic import AtomicBatch
from jsproto_io._blocking.bucket_keys import BucketSession
from jsproto_io._blocking.buckets import Bucket, KeyWatcher
from jsproto_io._blocking.connection import FastPublisher, JetStream, Message, Subscription, T
from jsproto_io._blocking.consume_context import ConsumeContext
from jsproto_io._blocking.consuming import JSMsg, PullMessages, PullSubscription
from jsproto_io._blocking.coordination import Election, Lock
from jsproto_io._blocking.copying import StreamCopy
from jsproto_io._blocking.counting import Counter
from jsproto_io._blocking.managing import InfoLister
from jsproto_io._blocking.objects import ObjectReader, ObjectStore, ObjectWatcher
from jsproto_io._blocking.publishing import BatchAdvisories, PendingAck, PipelinedPublisher
from jsproto_io._blocking.reading import BatchReader
from jsproto_io._blocking.sessions import ConsistentSession
from jsproto_io._blocking.sourcing import SourcingSubscription
from jsproto_io._blocking.subscribing import PushSubscription
from jsproto_io._blocking.tracing import TraceCollector
from jsproto_io._blocking.transactions import Transaction
from jsproto_io._state.common import EventCallback, clamp_sleep, new_session, reason, warn_unclosed
from jsproto_io._state.connecting import ConnectKeywords
from jsproto_io._state.limit import LOOK, Limit
from jsproto_io._threads.engine import ThreadEngine
from jsproto_io._threads.interrupts import DeferredSigint
from jsproto_io._threads.leadership import Leadership
from jsproto_io._threads.reentry import Wakeup, new_locks
from jsproto_io._threads.sockets import SystemDialer
from jsproto_io.dialer import SyncDialer as Dialer
from jsproto_io.dialer import ambient_dialer

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
    reader_thread: bool = True,
    **options: Unpack[ConnectKeywords],
) -> Connection:
    """Connect to the first server that answers.

    Use it as a context manager: leaving it sends what is pending, then closes.

    Args:
        servers: a URL, several URLs separated by commas, or a sequence of URLs.
        event_cb: called with each event (``jsproto.events``), between other work of the connection. It should return
            soon: see EventsDropped.
        dialer: makes the links, and gives entropy and time. None: that of ``jsproto_io.dialer.use_dialer``, or else the
            operating system.
        reader_thread: False for no reader thread. See the module's text.
        options: see ``jsproto.ConnectOptions``. For files of credentials: ``jsproto_io.ConnectKeywords``.

    Raises:
        LocalProtocolError: an option is impossible.
        NoServersError: no server could be reached, or too many files are open. It lists each address and its failure.
        AuthorizationError: the server refused the credentials.
        TLSError: TLS failed.
        ConnectionLostError: otherwise the handshake failed.
    """
    if not reader_thread:
        options.setdefault("linger", 0.0)
    dialer = dialer or ambient_dialer() or SystemDialer()
    session = new_session(servers, options, dialer.entropy)
    try:
        connection = Connection(session, event_cb, dialer)
    except OSError as error:  # no file descriptors are left for what it sleeps on
        raise NoServersError(tuple((each.url, reason(error)) for each in session.options.servers)) from error
    connection._open(reader_thread)
    return connection


class Connection(ThreadEngine):
    """A connection to NATS. Made by ``connect()``.

    Example:

        with connect("nats://localhost:4222") as nc:
            nc.publish("greet.joe", b"hello")
    """

    _thread: threading.Thread | None = None

    def __del__(self) -> None:
        poller = getattr(self, "_poller", None)  # none when it could not be made
        if poller is None or poller.closed:
            return
        warn_unclosed(f"connection to {self._session.url}", self)
        self._leadership.end()
        if self._thread is not None and self._thread.is_alive():
            poller.wakeup()  # the reader thread may sleep in it, and closes it
        else:
            poller.close()

    def _disown(self, error: ForkedError) -> None:
        self._lock, self._gate = new_locks()  # the thread that held the other one is not in this process
        self._leadership, self._thread = Leadership(self._lock), None
        self._ended = self._leadership.ended
        super()._disown(error)
        self._leadership.end()
        self._poller.disown()

    def _wait(self, ticket: Ticket[T], timeout: float | None = None, *, limit: Limit | None = None) -> T:
        """As in ``Engine``: as the leader, or as a follower on an event while another thread leads.

        When the limit has passed, a follower wakes the leader up, for it to look.
        """
        if limit is not None:
            limit.begin_wait(ticket, self._now)
        elif timeout is not None:
            limit = Limit(timeout, self._now())
        until = inf if limit is None else limit.until
        waited, looks_since = False, inf
        me, leadership = threading.get_ident(), self._leadership
        nested = leadership.leader == me  # an event's callback waits, which the leader has called, or a signal handler
        if self._sender is not None:
            self._check_sender()
        try:
            with DeferredSigint(self._poller.wakeup) as deferred:
                try:
                    while True:
                        event: Wakeup | None = None
                        with self._lock:
                            if ticket.done:
                                return ticket.result()
                            if self._ended.done:
                                self._refuse()
                            linked = self._poller.has_link(self._session)
                            if waited and limit is not None and (now := self._now()) >= until:
                                limit.check_look(looks_since, self._last_turn if linked else inf, now)
                                looks_since, until = min(looks_since, now), now + LOOK
                                self._poller.wakeup()  # whoever leads is to look
                            waited, due = True, until
                            if not leadership.try_lead(me, linked=linked):
                                event = leadership.park(me, ticket)
                                if not linked and (deadline := self._session.deadline()) is not None:
                                    due = min(until, deadline)
                        if event is not None:
                            deferred.end()  # only the leader sleeps in the poller
                            if not event.wait(clamp_sleep(due - self._now())) and due < until:
                                self._call(self._time_out_unlinked)  # the leader may be looking up a name
                        else:
                            deferred.begin()
                            self._lead(until)
                            deferred.check()
                finally:
                    self._leave(me, nested=nested)
        except BaseException as error:
            if not isinstance(error, Error):  # the caller goes, by Ctrl-C for example
                self._release(partial(self._session.abandon, ticket))
            raise

    def _time_out_unlinked(self, now: float) -> None:
        """``handle_timeout`` without a link. With one, the leader looks first."""
        if not self._poller.has_link(self._session):
            self._session.handle_timeout(now)

    def _leave(self, me: int, *, nested: bool = False) -> None:
        """The end of a wait, or of the reader thread. ``nested``: an outer wait of this thread goes on."""
        leadership = self._leadership
        if nested and leadership.leader == me:
            self._poller.wakeup()  # it may be asleep for longer than it should by now
        elif leadership.leader == me or me in leadership.parked or self._ended.done:
            with self._lock:
                leadership.leave(me)
                if leadership.leader is None and self._ended.done:
                    self._poller.close()

    def _open(self, reader_thread: bool) -> None:
        """Lead until the session is connected."""
        session, leadership = self._session, self._leadership
        leadership.leader = threading.get_ident()
        session.handle_timeout(self._now())  # from now on the time for the first connection counts
        try:
            while not session.connected.done:
                self._lead()
            session.connected.result()
        except BaseException:
            self._poller.close()
            raise
        leadership.leader = None
        if reader_thread:
            self._thread = self._poller.start_reader(self, leadership)

    def _close(self) -> None:
        limit = self._session.options.timeout
        self._release(self._session.close)
        with suppress(TimeoutError):
            self._wait(self._ended, limit)
        if not self._ended.done:
            self._poller.hang_up()
            with suppress(TimeoutError):
                self._wait(self._ended, limit)
        with self._lock:
            if self._leadership.leader is None:  # else the leader does it when it leaves
                self._poller.close()
        if self._thread is not None and self._thread.ident != threading.get_ident():
            self._thread.join(clamp_sleep(limit))
