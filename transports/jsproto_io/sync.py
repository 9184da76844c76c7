"""NATS JetStream on blocking sockets and threads.

    from jsproto_io.sync import connect

    with connect("nats://localhost:4222") as nc:
        js = nc.jetstream()

A connection and everything made from it may be used from any thread. Whoever waits moves the bytes. By default a reader
thread does, as soon as nobody has waited for a moment: it serves the server's PINGs and timers, and dials again after a
lost link, while the application is busy elsewhere. With ``reader_thread=False`` there is none: while nobody waits
nothing is read then, so an application that stays away for minutes is cut off by the server. Small messages leave at
once, unless ``linger`` is given; what the socket does not take at once leaves with the next wait, such as ``flush()``.

How it works. The leader (``_threads.engine``) is the one thread that sleeps in ``select``: one that waits, or the
reader thread, a moment after the last wait (``_threads.leadership``). Until then, what lingers may linger as long as
that. The reader thread alone dials: to look up a name may take longer than anybody wants to wait.

Ctrl-C while waiting, or in the application's own code, changes nothing (``_threads.interrupts``); nor does what any
signal's handler raises while bytes leave or come. If it strikes in the instant in which a verb changes the state,
nobody can tell how far that got: the connection then ends with an error.

Dropped without being closed, a connection ends with a ResourceWarning, and what was pending is lost. After a fork it
is the parent's: every verb of the child raises ForkedError.

Not here: protocol.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Unpack

from jsproto.client.connection.options import DEFAULT_URL
from jsproto.errors import ForkedError, TimeoutError
from jsproto.ticket import Ticket
from jsproto_io import ConnectKeywords
from jsproto_io._blocking.atomic import AtomicBatch
from jsproto_io._blocking.connection import FastPublisher, JetStream, Message, Subscription, T
from jsproto_io._blocking.consuming import JSMsg, PullMessages, PullSubscription
from jsproto_io._blocking.publishing import BatchAdvisories, PendingAck, PipelinedPublisher
from jsproto_io._blocking.reading import BatchReader
from jsproto_io._blocking.sessions import ConsistentSession
from jsproto_io._blocking.subscribing import PushSubscription
from jsproto_io._state.common import EventCallback, clamp_sleep, new_session
from jsproto_io._threads.engine import ThreadEngine
from jsproto_io._threads.interrupts import DeferredSigint
from jsproto_io._threads.leadership import Leadership
from jsproto_io._threads.reader import start_reader

__all__ = [
    "AtomicBatch", "BatchAdvisories", "BatchReader", "Connection", "ConsistentSession", "FastPublisher", "JSMsg",
    "JetStream", "Message", "PendingAck", "PipelinedPublisher", "PullMessages", "PullSubscription",
    "PushSubscription", "Subscription", "connect",
]  # fmt: skip


def connect(
    servers: str | Sequence[str] = DEFAULT_URL,
    *,
    event_cb: EventCallback | None = None,
    reader_thread: bool = True,
    **options: Unpack[ConnectKeywords],
) -> Connection:
    """Connect to the first of ``servers`` that answers: a URL, several separated by commas, or a sequence of URLs.

    Use it as a context manager: leaving it sends what is pending, then closes. ``event_cb`` is called with each event
    (``jsproto.events``) by whoever notices it, and should return soon (see EventsDropped). The options are those of
    ``jsproto_io.ConnectKeywords``. LocalProtocolError for impossible options; NoServersError, with each address tried
    and why, when none can be reached; otherwise the error of the handshake, such as AuthorizationError or TLSError.
    """
    if not reader_thread:
        options.setdefault("linger", 0.0)
    connection = Connection(new_session(servers, options), event_cb)
    connection._open(reader_thread)
    return connection


class Connection(ThreadEngine):
    """A connection to NATS. Made by ``connect()``."""

    _thread: threading.Thread | None = None

    def __del__(self) -> None:
        poller = getattr(self, "_poller", None)  # none when it could not be made
        if poller is None or poller.closed:
            return
        warnings.warn(f"unclosed connection to {self._session.url}", ResourceWarning, source=self, stacklevel=2)
        self._leadership.end()
        if self._thread is not None and self._thread.is_alive():
            poller.wakeup()  # that thread may be asleep in there: it closes it
        else:
            poller.close()

    def _disown(self, error: ForkedError) -> None:
        self._lock = threading.Lock()  # whoever held the other one is not here
        self._leadership, self._thread = Leadership(self._lock), None
        self._ended = self._leadership.ended
        self._leadership.end()
        self._poller.disown()
        super()._disown(error)

    def _wait(self, ticket: Ticket[T], timeout: float | None = None) -> T:
        """Park: asleep on an event, or as the leader when nobody else is."""
        until = inf if timeout is None else monotonic() + timeout
        me, leadership = threading.get_ident(), self._leadership
        nested = leadership.leader == me  # already: an event's callback waits, which the leader has called
        with DeferredSigint(self._poller.wakeup) as deferred:
            try:
                while True:
                    event: threading.Event | None = None
                    due = until
                    with self._lock:
                        if ticket.done:
                            return ticket.result()
                        if self._ended.done:
                            self._refuse()
                        linked = self._poller.has_link(self._session)
                        if not leadership.try_lead(me, linked=linked):
                            event = leadership.park(me, ticket)
                            if not linked and (deadline := self._session.deadline()) is not None:
                                due = min(until, deadline)
                    if event is not None:
                        deferred.end()  # only the leader can be woken
                        if not event.wait(clamp_sleep(due - monotonic())) and due < until:
                            self._call(self._session.handle_timeout)  # the leader may be looking up a name
                    else:
                        deferred.begin()
                        self._lead(until)
                        deferred.check()
                    if monotonic() >= until and not ticket.done:
                        raise TimeoutError(f"nothing came within {timeout:g} s")
            finally:
                if not nested or leadership.leader != me:  # else it goes on as the leader that it was
                    self._leave(me)

    def _leave(self, me: int) -> None:
        """The end of a wait, or of the reader thread."""
        leadership = self._leadership
        if leadership.leader == me or me in leadership.parked or self._ended.done:
            with self._lock:
                leadership.leave(me)
                if leadership.leader is None and self._ended.done:
                    self._poller.close()

    def _open(self, reader_thread: bool) -> None:
        """Lead until the session is connected."""
        session, leadership = self._session, self._leadership
        leadership.leader = threading.get_ident()
        try:
            while not session.connected.done:
                self._lead()
            session.connected.result()
        except BaseException:
            self._poller.close()
            raise
        leadership.leader = None
        if reader_thread:
            self._thread = start_reader(self, leadership, self._poller)

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
