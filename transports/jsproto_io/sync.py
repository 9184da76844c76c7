"""NATS JetStream on blocking sockets and threads.

    from jsproto_io.sync import connect

    with connect("nats://localhost:4222") as nc:
        js = nc.jetstream()

A connection and everything made from it may be used from any thread. Whoever waits moves the bytes. By default a reader
thread does, as soon as nobody has waited for a moment: it serves the server's PINGs and timers, and dials again after a
lost link, while the application is busy elsewhere. With ``reader_thread=False`` there is none: while nobody waits
nothing is read then, so an application that stays away for minutes is cut off by the server. Small messages leave at
once, unless ``linger`` is given; what the socket does not take at once leaves with the next wait, such as ``flush()``.

How it works. One lock guards the session. It is held for changes of state only: never in ``send``, never while the
application's iterator or callback runs. Whoever causes output sends it, one thread at a time; what the socket does not
take is left to the pump. The pump is the one thread that sleeps in ``select``: one that waits, or the reader thread, a
moment after the last wait (``_turns``); until then, what lingers may linger as long as that. The reader thread alone
dials: to look up a name may take longer than anybody wants to wait.

Ctrl-C while waiting, or in the application's own code, changes nothing (``_interrupts``); nor does what any signal's
handler raises while bytes leave or come. If it strikes in the instant in which a verb changes the state, nobody can
tell how far that got: the connection then ends with an error.

Not here: protocol. Forking with an open connection is not supported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic
from typing import Unpack

from jsproto.client.options import DEFAULT_URL
from jsproto.client.session import Session
from jsproto.errors import TimeoutError
from jsproto.ticket import Ticket
from jsproto_io import ConnectKeywords, _blocking
from jsproto_io._blocking import FastPublisher, JetStream, Message, Subscription, T
from jsproto_io._blocking_atomic import AtomicBatch
from jsproto_io._blocking_consuming import JSMsg, PullMessages, PullSubscription
from jsproto_io._blocking_publishing import AsyncPublisher, BatchAdvisories, PendingAck
from jsproto_io._blocking_reading import BatchReader
from jsproto_io._blocking_sessions import ConsistentSession
from jsproto_io._blocking_subscribing import PushSubscription
from jsproto_io._common import EventCallback, log_crash, nap, new_session
from jsproto_io._interrupts import Postponed
from jsproto_io._turns import Turns
from jsproto_io._wire import Sleeper, Wire, look_up

__all__ = [
    "AsyncPublisher", "AtomicBatch", "BatchAdvisories", "BatchReader", "Connection", "ConsistentSession",
    "FastPublisher", "JSMsg", "JetStream", "Message", "PendingAck", "PullMessages", "PullSubscription",
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


class Connection(_blocking.Connection):
    """A connection to NATS. Made by ``connect()``."""

    def __init__(self, session: Session, event_cb: EventCallback | None) -> None:
        super().__init__(session, event_cb, monotonic)
        self._lock = threading.Lock()  # guards the session and all that follows
        self._sleeper = Sleeper()
        self._sender: int | None = None  # the thread that is in send(): what is unsent is its alone
        self._turns = Turns(self._lock)
        self._ended = self._turns.ended
        self._thread: threading.Thread | None = None

    def _call(self, verb: Callable[[float], T], *, lazily: bool = False) -> T:
        session, drive = self._session, True
        try:
            with self._lock:
                if self._bug is not None:
                    self._refuse()
                now = monotonic()
                try:
                    result = verb(now)
                    if lazily:
                        drive = session.wants_send(now) or self._sleeper.asleep_until > now + session.options.linger
                except BaseException as error:
                    if not isinstance(error, Exception):
                        self._crash(error)
                    raise
        finally:
            if drive:
                self._drive()
        return result

    def _wait(self, ticket: Ticket[T], timeout: float | None = None) -> T:
        """Park: asleep on an event, or as the pump when nobody else is."""
        until = inf if timeout is None else monotonic() + timeout
        me, turns = threading.get_ident(), self._turns
        nested = turns.pump == me  # already: an event's callback waits, which the pump has called
        with Postponed(self._sleeper.rouse) as postponed:
            try:
                while True:
                    event: threading.Event | None = None
                    with self._lock:
                        if ticket.done:
                            return ticket.result()
                        if self._ended.done:
                            self._refuse()
                        if not turns.take(me, may=self._sleeper.has_link(self._session)):
                            event = turns.park(me, ticket)
                    if event is not None:
                        postponed.end()  # only who pumps can be roused
                        event.wait(nap(until - monotonic()))
                    else:
                        postponed.begin()
                        self._pump(until)
                        postponed.check()
                    if monotonic() >= until and not ticket.done:
                        raise TimeoutError(f"nothing came within {timeout:g} s")
            finally:
                if not nested or turns.pump != me:  # else it goes on as the pump that it was
                    self._leave(me)

    def _leave(self, me: int) -> None:
        """The end of a wait, or of the reader thread."""
        turns = self._turns
        if turns.pump == me or me in turns.parked or self._ended.done:
            with self._lock:
                turns.leave(me)
                if turns.pump is None and self._ended.done:
                    self._sleeper.close()

    def _open(self, reader_thread: bool) -> None:
        """Pump until the session is connected."""
        session, turns = self._session, self._turns
        turns.pump = threading.get_ident()
        try:
            while not session.connected.done:
                self._pump()
            session.connected.result()
        except BaseException:
            self._sleeper.close()
            raise
        turns.pump = None
        if reader_thread:
            self._thread = threading.Thread(target=self._read, name="jsproto-reader", daemon=True)
            self._thread.start()

    def _read(self) -> None:
        turns = self._turns
        me = turns.reader = threading.get_ident()
        try:
            while turns.stand_by():
                while turns.pump == me and not self._ended.done:
                    self._pump()
        except BaseException as bug:  # a callback's SystemExit, too
            with self._lock:
                self._crash(bug)
        finally:
            turns.reader = None
            self._leave(me)

    def _close(self) -> None:
        limit = self._session.options.timeout
        self._release(self._session.close)
        with suppress(TimeoutError):
            self._wait(self._ended, limit)
        if not self._ended.done:
            self._sleeper.hang_up()
            with suppress(TimeoutError):
                self._wait(self._ended, limit)
        with self._lock:
            if self._turns.pump is None:  # else the pump does it when it leaves
                self._sleeper.close()
        if self._thread is not None and self._thread.ident != threading.get_ident():
            self._thread.join(limit)

    def _pump(self, until: float = inf) -> None:
        """Sleep until there is something to do, put it in, drain. Without a link: dial when the session says so."""
        session, sleeper = self._session, self._sleeper
        with self._lock:
            if sleeper.wire is not None and not (sleeper.wire.dialling or self._sender or sleeper.has_link(session)):
                sleeper.drop()
        if sleeper.wire is None and (address := session.connect_to) is not None:
            self._call(partial(sleeper.dial, session, look_up(address)))
        with self._lock:
            wire, deadline = sleeper.wire, session.deadline()
            try:
                sleeper.plan(session, min(until, inf if deadline is None else deadline), over=self._ended.done)
            except BaseException as bug:
                self._crash(bug)
                raise
        sleeper.sleep(nap(sleeper.asleep_until - monotonic()))
        try:
            with self._lock:
                now, sleeper.asleep_until = monotonic(), -inf
                sleeper.see_to_dialling(session, now)
                data = None if wire is None else wire.take_received()
                if data:
                    session.receive_data(data, now)
                elif data is not None and wire is not None:
                    session.receive_eof(now, wire.why)
                    if session.closed:
                        self._turns.end()
                if deadline is not None and deadline <= now:
                    session.handle_timeout(now)
        except BaseException as bug:
            with self._lock:
                self._crash(bug)
            raise
        finally:
            self._drive()

    def _drive(self) -> None:
        """Drain: send, wake, tell, and rouse the pump if it would sleep too long."""
        struck: BaseException | None = None
        try:
            while (wire := self._settle()) is not None:
                try:
                    wire.send()
                except BaseException as error:  # a signal's handler's: how much has left is known all the same
                    if struck is not None:
                        raise
                    struck = error
                with self._lock:
                    wire.note_sent()
                    self._sender = None
        except BaseException as bug:
            with self._lock:
                self._crash(bug)
            raise
        if struck is not None:
            raise struck
        self._teller.tell()

    def _settle(self) -> Wire | None:
        """Drain all but the bytes; those this thread is to send now are ``unsent`` on the wire that it returns."""
        session, turns, sleeper = self._session, self._turns, self._sleeper
        if self._bug is not None:
            return None
        with self._lock:
            wire = sleeper.wire
            send = rouse = False
            self._end_orphans()
            if wire is not None and self._sender is None:
                if not wire.unsent and (session.wants_close or session.wants_send(monotonic())):
                    wire.unsent = memoryview(b"".join(session.data_to_send()))
                if wire.unsent and not wire.blocked:
                    self._sender = threading.get_ident()
                    send = True
                elif session.closed and not wire.dialling and (self._abruptly or not wire.unsent):
                    wire.hang_up(abruptly=self._abruptly)
            completed = session.take_completed()
            self._teller.add(session.events())
            if session.closed and (wire is None or wire.dialling):
                self._turns.end()
            if sleeper.asleep_until > -inf:
                deadline = session.deadline()
                sleeps_too_long = self._ended.done or (deadline is not None and deadline < sleeper.asleep_until)
                awaited = completed and turns.pump != turns.reader  # the pump waits, perhaps for one of these
                if sleeps_too_long or awaited or (wire is not None and wire.blocked > wire.watching):
                    sleeper.asleep_until, rouse = -inf, True
            elif wire is not None and wire.blocked and turns.pump is None:
                turns.call_reader()
            turns.yield_to(completed)
        for ticket in completed:
            ticket.wake()
        if rouse:
            sleeper.rouse()
        return wire if send else None

    def _crash(self, bug: BaseException) -> None:
        """Nobody can tell how far the state got: fail those who wait, and all who come. The lock is held."""
        if self._bug is None:
            self._bug = bug
            log_crash(bug)
        with suppress(Exception):
            self._session.abort(f"interrupted by {type(bug).__name__}", monotonic())
        self._turns.end()
        self._sleeper.hang_up()
