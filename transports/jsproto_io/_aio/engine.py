"""The engine of the drivers for event loops: how a verb's input reaches the core, and how a task waits for its answer.

Rules
 * Each input is followed by a drain: write, wake, dispatch events, set the timer.
 * A ticket has one event, however many tasks wait for it.
 * An exception within the drain ends the connection. All waiting tasks get an error.

Not here: moving bytes (``asyncio`` and ``trio``), the verbs (``connection``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from jsproto.client.connection.session import Session
from jsproto.ticket import Ticket
from jsproto_io._state.common import EventCallback, log_crash, warn_unclosed
from jsproto_io._state.limit import LOOK, Limit
from jsproto_io._state.shared import ConnectionBase

T = TypeVar("T")
V = TypeVar("V", bound=Callable[..., Coroutine[Any, Any, None]])


def ends(verb: V) -> V:
    """Mark a verb that ends something. On threads a signal handler, or a finalizer, may call it anywhere."""
    return verb


class AsyncEvent(Protocol):
    """What the events of asyncio and trio have in common."""

    def set(self) -> None:
        """Wake all tasks that wait."""

    async def wait(self) -> object:
        """Wait until it is set."""


class Engine(ConnectionBase):
    """The half of a connection below its verbs."""

    def __init__(self, session: Session, event_cb: EventCallback | None, now: Callable[[], float]) -> None:
        super().__init__(session, event_cb, now)
        self._parked: Counter[AsyncEvent] = Counter()

    def __del__(self) -> None:
        session: Session | None = getattr(self, "_session", None)  # none when it could not be made
        if session is not None and session.url is not None and not session.closed:
            warn_unclosed(f"connection to {session.url}", self)

    # -- what a driver provides ----------------------------------------------------------------------------------------

    @abstractmethod
    def _new_event(self) -> AsyncEvent:
        """An event of the loop's library."""

    @abstractmethod
    async def _sleep(self, event: AsyncEvent, timeout: float | None) -> bool:
        """Wait until ``event`` is set. False after ``timeout`` seconds."""

    @abstractmethod
    def _write(self, now: float) -> None:
        """Write what is due."""

    @abstractmethod
    def _rearm(self) -> None:
        """Adapt the timer to the session's deadline, and close the link when the session wants that."""

    @abstractmethod
    def _is_due(self, now: float) -> bool:
        """Whether the driver has to drain now: many bytes wait, or something would come too late."""

    @abstractmethod
    def _abort(self) -> None:
        """Close the socket abruptly."""

    @abstractmethod
    def _start_task(self, run: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run this in a task of its own. It is cancelled when another task closes the connection."""

    @abstractmethod
    def _is_cancelled(self, error: BaseException) -> bool:
        """Whether ``error``, which was raised in the present task, is the cancellation of that task."""

    @abstractmethod
    async def _close(self) -> None:
        """See ``close``."""

    # -- inputs, outputs and waits -------------------------------------------------------------------------------------

    def _call(self, verb: Callable[[float], T], *, coalesce: bool = False) -> T:
        if self._failure is not None:
            self._refuse()
        now, drive = self._now(), True
        try:
            result = verb(now)
            drive = not coalesce or self._is_due(now)
        finally:
            if drive:
                self._drive()
        return result

    def _receive(self, verb: Callable[[float], None]) -> None:
        """``_call`` for input from outside. It never raises."""
        try:
            self._call(verb)
        except Exception as bug:
            self._crash(bug)

    def _drive(self) -> None:
        """Drain: write, wake, dispatch events, set the timer."""
        session, now = self._session, self._now()
        if self._failure is None:
            try:
                if self._pending_closes:
                    self._run_pending_closes()
                self._write(now)
                if session.has_news:
                    for ticket in session.take_completed():
                        ticket.wake()
                    if events := session.events():
                        self._dispatcher.add(events)
                self._rearm()
            except Exception as bug:
                self._crash(bug)
                raise
        if self._dispatcher.waiting:
            self._dispatcher.dispatch()

    async def _wait(self, ticket: Ticket[T], timeout: float | None = None, *, limit: Limit | None = None) -> T:
        """Park until ``ticket`` has its answer. When the caller is cancelled, what it brings is ended.

        Args:
            timeout: in seconds, from now on. None: that of ``limit``. 0: only what is here by now.
            limit: that of the whole call, which may wait several times. None: there is none.

        Raises:
            TimeoutError: the limit has passed, and what had come by then is not the answer.
        """
        if not ticket.done:
            if limit is not None:
                limit.begin_wait(ticket, self._now)
            event = cast("AsyncEvent | None", ticket.event)
            if event is None:
                ticket.event = event = self._new_event()
            self._parked[event] += 1
            try:
                left = timeout if limit is None else max(limit.until - self._now(), 0)
                in_time = await self._sleep(event, left)
                if not in_time:
                    limit = limit or Limit(timeout or 0, self._now())
                    in_time = limit.seconds > 0 and await self._sleep(event, LOOK)
            except BaseException:  # the caller goes
                self._release(partial(self._session.abandon, ticket))
                raise
            finally:
                self._parked[event] -= 1
                if not self._parked[event]:
                    del self._parked[event]
            if not ticket.done:
                if limit is None or in_time:
                    self._refuse()
                raise limit.error()
        return ticket.result()

    def _crash(self, bug: Exception) -> None:
        """The state may be half changed: fail all waits, and all later calls."""
        if self._is_disowned:
            return  # the socket is the parent's
        if self._failure is None:
            self._failure = bug
            log_crash(bug)
        with suppress(Exception):
            self._session.abort(f"interrupted by {type(bug).__name__}", self._now())
        for event in self._parked:
            event.set()
        self._abort()
