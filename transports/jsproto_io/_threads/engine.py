"""The engine of the driver on threads: one input in, then all its outputs out.

How it works
 * One lock guards the session. It is held for changes of state, and released during ``send``, iterators and callbacks.
 * ``_call`` puts one input in, and ``_drive`` drains: send, wake the waiting threads, dispatch events.
 * The thread that causes output sends it, one thread at a time. The leader sends what the socket did not take.
 * ``_lead`` is one turn of the leader: plan the sleep, sleep in ``select``, put in what came, drain.
 * A deadline that was due before the sleep counts: that sleep was the one look at the socket (``_state.limit``).
 * A drain that moves the deadline before the leader's wake-up time wakes the leader up.

Not here: which thread leads (``leadership``), how a thread waits, how a connection begins and ends (``sync``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from queue import Empty

from jsproto.client.connection.session import Session
from jsproto_io._blocking import connection as facade
from jsproto_io._blocking.connection import T
from jsproto_io._state.common import EventCallback, log_crash
from jsproto_io._state.forks import register
from jsproto_io._threads.leadership import Leadership
from jsproto_io._threads.poller import Link
from jsproto_io._threads.reentry import InterruptingVerbError, interrupts, is_of_gate, new_locks
from jsproto_io.dialer import SyncDialer


class ThreadEngine(facade.Connection):
    """The session of a connection, and the link below it."""

    def __init__(self, session: Session, event_cb: EventCallback | None, dialer: SyncDialer) -> None:
        super().__init__(session, event_cb, dialer.now)
        self._lock, self._gate = new_locks()  # guards the session and all that follows; verbs enter by the gate
        self._poller = dialer.poller()
        self._sender: int | None = None  # the thread that is in send(): it alone may touch ``unsent``
        self._last_turn = -inf  # when the leader last put in what came
        self._leadership = Leadership(self._lock)
        self._ended = self._leadership.ended
        register(self)

    def _call(self, verb: Callable[[float], T], *, coalesce: bool = False) -> T:
        session, drive = self._session, True
        try:
            with self._gate:
                if self._failure is not None:
                    self._refuse()
                now = self._now()
                try:
                    result = verb(now)
                    if coalesce:
                        wakes_at = self._poller.asleep_until
                        drive = session.wants_send(now) or (
                            wakes_at > now + session.options.linger and session.is_late(wakes_at)
                        )
                except BaseException as error:
                    if not isinstance(error, Exception):
                        self._crash(error)
                    raise
        except BaseException as error:
            is_late = isinstance(error, Empty) and is_of_gate(error)
            if self._is_interrupted:  # that verb drains
                if is_late:
                    raise InterruptingVerbError from None
                raise
            if is_late:
                return self._call(verb, coalesce=coalesce)
            self._drive()
            raise
        if drive:
            try:
                self._drive()
            except BaseException:  # a signal handler's, or that of an event's callback
                self._release(partial(session.abandon, result))
                raise
        return result

    def _release(self, verb: Callable[[float], None]) -> None:
        try:
            self._call(verb)
        except InterruptingVerbError:  # the next drain closes it
            self._pending_closes.append(verb)
            self._poller.wakeup()
        except Exception:
            if self._failure is None:
                raise

    def _who_calls(self) -> object:
        return threading.get_ident()

    def _is_at_work(self, who: object) -> bool:
        return who in sys._current_frames()

    @property
    def _is_interrupted(self) -> bool:
        """Whether the caller is a signal handler, or a finalizer, that has interrupted a verb of this connection."""
        return interrupts((self, self._leadership))

    def _check_sender(self) -> None:
        """A wait: this thread must not have been interrupted while it sends, since nothing leaves until it goes on."""
        if self._sender == threading.get_ident() and self._failure is None:
            raise InterruptingVerbError

    def _lead(self, until: float = inf) -> None:
        """One turn of the leader: sleep until there is input, put it in, drain."""
        self._plan(until)
        self._poller.sleep()
        self._process_input()

    def _plan(self, until: float = inf) -> None:
        """Prepare the sleep. Without a link, dial when the session asks for it."""
        session, poller = self._session, self._poller
        with self._lock:
            link = poller.link
            if session.wants_close and link is not None and not (session.closed or link.dialling or self._sender):
                poller.drop()
        if poller.link is None and (address := session.connect_to) is not None:
            self._call(partial(poller.dial, session, poller.look_up(address)))
        with self._lock:
            try:
                poller.plan(session, until, ended=self._ended.done)
            except BaseException as bug:
                self._crash(bug)
                raise

    def _process_input(self) -> None:
        """Put in what came during the sleep, and drain."""
        session, poller = self._session, self._poller
        try:
            with self._lock:
                now, poller.asleep_until, link = self._now(), -inf, poller.link
                if link is not None and link.dialling:
                    poller.finish_dialling(link, session, now)
                data = None if link is None else link.take_received()
                if data:
                    session.receive_data(data, now)
                elif data is not None and link is not None:
                    session.receive_eof(now, link.why)
                    if session.closed:
                        self._leadership.end()
                if poller.deadline <= (now if link is None else self._last_turn):  # due before the sleep
                    session.handle_timeout(now)
                self._last_turn = now
        except BaseException as bug:
            with self._lock:
                self._crash(bug)
            raise
        finally:
            self._drive()

    def _drive(self) -> None:
        """Drain: send, wake the waiting threads, dispatch events, and wake the leader up if it would sleep too long."""
        more: object = True
        interrupt: BaseException | None = None
        try:
            while more and (link := self._drain_outputs()) is not None:
                try:
                    link.send()
                except BaseException as error:  # a signal handler's: the count of sent bytes is known
                    if interrupt is not None:
                        raise
                    interrupt = error
                with self._lock:
                    link.note_sent()
                    self._sender = None
                    more = link.unsent or self._session.closed or self._session.wants_send(self._now())
        except BaseException as bug:
            with self._lock:
                self._crash(bug)
            raise
        if interrupt is not None:
            raise interrupt
        if self._dispatcher.waiting:
            self._dispatcher.dispatch()

    def _drain_outputs(self) -> Link | None:
        """Drain all but the bytes. Returns the link when this thread is to send its ``unsent`` bytes now."""
        session, leadership, poller = self._session, self._leadership, self._poller
        if self._failure is not None:
            return None
        with self._lock:
            link, sends = poller.link, None
            if self._pending_closes:
                self._run_pending_closes()
            if link is not None and self._sender is None:
                if not link.unsent and (session.wants_close or session.wants_send(self._now())):
                    link.unsent = memoryview(b"".join(session.data_to_send()))
                if link.unsent and not link.blocked:
                    self._sender, sends = threading.get_ident(), link
            completed = session.take_completed()
            if events := session.events():
                self._dispatcher.add(events)
            if session.closed:
                self._end_link(link)
            wakeup = poller.asleep_until > -inf and self._end_sleep(link, has_completed=bool(completed))
            if not wakeup and link is not None and link.blocked and leadership.leader is None:
                leadership.request_reader()
            if completed:
                leadership.hand_over(completed)
        for ticket in completed:
            ticket.wake()
        if wakeup:
            poller.wakeup()
        return sends

    def _end_link(self, link: Link | None) -> None:
        """The session is closed: hang up once all is sent. The lock is held."""
        if link is None or link.dialling:
            self._leadership.end()
        elif self._sender is None and (self._must_abort or not link.unsent):
            link.hang_up(abruptly=self._must_abort)

    def _end_sleep(self, link: Link | None, *, has_completed: bool) -> bool:
        """Whether the leader, which sleeps, is to be woken up. The lock is held."""
        session, leadership, poller = self._session, self._leadership, self._poller
        deadline = session.deadline()
        dials = session.connect_to is not None and (link is None or not link.dialling)
        sleeps_too_long = self._ended.done or dials or (deadline is not None and deadline < poller.asleep_until)
        awaited = has_completed and leadership.leader != leadership.reader  # perhaps by the leader
        if sleeps_too_long or awaited or (link is not None and link.blocked > link.watching):
            poller.asleep_until = -inf
        return poller.asleep_until == -inf

    def _crash(self, bug: BaseException) -> None:
        """The state may be half changed: fail all waits, and all later calls. The lock is held."""
        if self._failure is None:
            self._failure = bug
            log_crash(bug)
        with suppress(Exception):
            self._session.abort(f"interrupted by {type(bug).__name__}", self._now())
        self._leadership.end()
        self._poller.hang_up()
