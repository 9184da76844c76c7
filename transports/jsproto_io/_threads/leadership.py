"""Whose turn it is to move the bytes of the driver on threads: one thread's at a time, which is called the leader.

Rules: best it is one that waits, because to be woken by another thread costs more than what comes with most reads. The
reader thread, if there is one, leaves it at that while there are such waits, and is the leader within twice ``GRACE``
of the last, or when it is called. Everything but ``wait_for_turn`` is called with the lock held.

Not here: what the leader does (``_threads.engine``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from jsproto.ticket import Ticket

GRACE: Final = 0.01  # seconds between two looks in which nobody has begun to wait: then it is the reader thread's turn


class Leadership:
    """Attributes: ``leader`` (the thread whose turn it is; None: nobody's), ``parked`` (by thread: those who wait while
    it is another one's), ``reader`` (the reader thread; None: there is none), ``ended`` (completed when nothing will be
    received any more). Threads are known by their idents.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.leader: int | None = None
        self.parked: dict[int, threading.Event] = {}
        self.reader: int | None = None
        self.ended: Ticket[None] = Ticket()
        self._waiters_elected = 0  # how often somebody who waits has become the leader
        self._wakeup = threading.Lock()  # what the reader thread sleeps on while it is not: released to wake it
        self._wakeup.acquire()
        self._in_long_wait = False  # it sleeps for as long as somebody else is
        self._reader_requested = False  # it is to be the leader at once

    def try_lead(self, me: int, *, linked: bool) -> bool:
        """Whether ``me``, which waits, is the leader now. When it is not to be (``may``), it is the reader's turn."""
        linked = linked or self.reader in (None, me)
        if self.leader is None and linked:
            self.leader = me
            self._waiters_elected += 1
            self.parked.pop(me, None)
        elif self.leader == me and not linked:
            self.leader = None
        if self.leader is None:
            self.request_reader()
        return self.leader == me

    def park(self, me: int, ticket: Ticket[Any]) -> threading.Event:
        """What ``me`` sleeps on until ``ticket`` is complete, or it may be its turn."""
        event = ticket.event
        if not isinstance(event, threading.Event) or event.is_set():  # set without an answer: it was only called
            ticket.event = event = threading.Event()
        self.parked[me] = event
        return event

    def leave(self, me: int) -> None:
        """``me`` waits no more: if it was the leader, somebody else who waits is next, or before long the reader."""
        self.parked.pop(me, None)
        if self.leader == me:
            self.leader = None
        if self.leader is None:
            if self.parked:
                next(iter(self.parked.values())).set()
            if self._in_long_wait:
                self._wake_reader()

    def hand_over(self, completed: Iterable[Ticket[Any]]) -> None:
        """The reader thread, if that is the leader, has completed these: who alone waits for one will be the next."""
        if self.leader == self.reader == threading.get_ident() and len(self.parked) == 1:
            (event,) = self.parked.values()
            if any(ticket.event is event for ticket in completed):
                self.leader = None

    def request_reader(self) -> None:
        """It is the reader thread's turn, as soon as it is nobody else's."""
        self._reader_requested = True
        self._wake_reader()
        if self.reader in self.parked:  # an event's callback waits, which the reader has called
            self.parked[self.reader].set()

    def end(self) -> None:
        """There is nothing to move any more: everybody looks up."""
        if not self.ended.done:
            self.ended.succeed(None)
        for event in self.parked.values():
            event.set()
        self._wake_reader()

    def wait_for_turn(self) -> bool:
        """The reader thread sleeps until it is the leader (True), or there is nothing to move any more."""
        while not self.ended.done:
            elected = self._waiters_elected
            woken = self._wakeup.acquire(timeout=-1 if self._in_long_wait else GRACE)
            with self._lock:
                requested, self._reader_requested = self._reader_requested, False
                idle = elected == self._waiters_elected
                self._in_long_wait = self.leader is not None and idle  # one long wait: its end is told
                if self.leader is None and (requested or (idle and not woken)):
                    self.leader = self.reader
                    return True
        return False

    def _wake_reader(self) -> None:
        if self._wakeup.locked():  # else it is awake, or about to be
            self._wakeup.release()
