"""How the driver on threads moves bytes: one input in, then all that it causes out.

Rules: one lock guards the session. It is held for changes of state only: never in ``send``, never while the
application's iterator or callback runs. Whoever causes output sends it, one thread at a time; what the socket does not
take is left to the leader, the one thread that sleeps in ``select``.

Not here: who waits, and on what; how a connection begins and ends (``sync``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic

from jsproto.client.connection.session import Session
from jsproto_io._blocking import connection as facade
from jsproto_io._blocking.connection import T
from jsproto_io._state.common import EventCallback, log_crash
from jsproto_io._threads.leadership import Leadership
from jsproto_io._threads.sockets import Poller, TcpSocket, look_up


class ThreadEngine(facade.Connection):
    """The session of a connection, and the socket beneath it."""

    def __init__(self, session: Session, event_cb: EventCallback | None) -> None:
        super().__init__(session, event_cb, monotonic)
        self._lock = threading.Lock()  # guards the session and all that follows
        self._poller = Poller()
        self._sender: int | None = None  # the thread that is in send(): what is unsent is its alone
        self._leadership = Leadership(self._lock)
        self._ended = self._leadership.ended

    def _call(self, verb: Callable[[float], T], *, coalesce: bool = False) -> T:
        session, drive = self._session, True
        try:
            with self._lock:
                if self._bug is not None:
                    self._refuse()
                now = monotonic()
                try:
                    result = verb(now)
                    if coalesce:
                        drive = session.wants_send(now) or self._poller.asleep_until > now + session.options.linger
                except BaseException as error:
                    if not isinstance(error, Exception):
                        self._crash(error)
                    raise
        finally:
            if drive:
                self._drive()
        return result

    def _lead(self, until: float = inf) -> None:
        """Sleep until there is something to do, put it in, drain."""
        self._plan(until)
        self._poller.sleep()
        self._take_in()

    def _plan(self, until: float = inf) -> None:
        """Get ready to sleep. Without a link: dial when the session says so."""
        session, poller = self._session, self._poller
        with self._lock:
            if poller.wire is not None and not (poller.wire.dialling or self._sender or poller.has_link(session)):
                poller.drop()
        if poller.wire is None and (address := session.connect_to) is not None:
            self._call(partial(poller.dial, session, look_up(address)))
        with self._lock:
            try:
                poller.plan(session, until, over=self._ended.done)
            except BaseException as bug:
                self._crash(bug)
                raise

    def _take_in(self) -> None:
        """Put in what the sleep has brought, and drain."""
        session, poller = self._session, self._poller
        try:
            with self._lock:
                now, poller.asleep_until, wire = monotonic(), -inf, poller.wire
                poller.see_to_dialling(session, now)
                data = None if wire is None else wire.take_received()
                if data:
                    session.receive_data(data, now)
                elif data is not None and wire is not None:
                    session.receive_eof(now, wire.why)
                    if session.closed:
                        self._leadership.end()
                if poller.deadline <= now:
                    session.handle_timeout(now)
        except BaseException as bug:
            with self._lock:
                self._crash(bug)
            raise
        finally:
            self._drive()

    def _drive(self) -> None:
        """Drain: send, wake, tell, and wake the leader if it would sleep too long."""
        struck: BaseException | None = None
        try:
            while (wire := self._drain_outputs()) is not None:
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
        self._dispatcher.dispatch()

    def _drain_outputs(self) -> TcpSocket | None:
        """Drain all but the bytes; those this thread is to send now are ``unsent`` on the wire that it returns."""
        session, leadership, poller = self._session, self._leadership, self._poller
        if self._bug is not None:
            return None
        with self._lock:
            wire = poller.wire
            send = wakeup = False
            self._run_pending_closes()
            if wire is not None and self._sender is None:
                if not wire.unsent and (session.wants_close or session.wants_send(monotonic())):
                    wire.unsent = memoryview(b"".join(session.data_to_send()))
                if wire.unsent and not wire.blocked:
                    self._sender = threading.get_ident()
                    send = True
                elif session.closed and not wire.dialling and (self._abruptly or not wire.unsent):
                    wire.hang_up(abruptly=self._abruptly)
            completed = session.take_completed()
            self._dispatcher.add(session.events())
            if session.closed and (wire is None or wire.dialling):
                self._leadership.end()
            if poller.asleep_until > -inf:
                deadline = session.deadline()
                sleeps_too_long = self._ended.done or (deadline is not None and deadline < poller.asleep_until)
                awaited = (
                    completed and leadership.leader != leadership.reader
                )  # the leader waits, perhaps for one of these
                if sleeps_too_long or awaited or (wire is not None and wire.blocked > wire.watching):
                    poller.asleep_until, wakeup = -inf, True
            elif wire is not None and wire.blocked and leadership.leader is None:
                leadership.call_reader()
            leadership.hand_over(completed)
        for ticket in completed:
            ticket.wake()
        if wakeup:
            poller.wakeup()
        return wire if send else None

    def _crash(self, bug: BaseException) -> None:
        """Nobody can tell how far the state got: fail those who wait, and all who come. The lock is held."""
        if self._bug is None:
            self._bug = bug
            log_crash(bug)
        with suppress(Exception):
            self._session.abort(f"interrupted by {type(bug).__name__}", monotonic())
        self._leadership.end()
        self._poller.hang_up()
