"""The leader/followers pattern for the driver on threads: which thread moves the bytes.

How it works
 * One thread at a time is the leader. It sleeps in ``select``, receives, and wakes the followers whose tickets are
   complete.
 * A thread that waits becomes the leader when there is none (``try_lead``). Otherwise it is a follower, and sleeps on
   an event (``park``).
 * At the end of its wait the leader hands over to a follower, by waking it up (``leave``).
 * The reader thread leads while no thread waits (``wait_for_turn``). Every ``GRACE`` seconds it checks whether a
   waiting thread has become the leader since.
 * While one wait lasts longer than that, the reader thread sleeps until the end of that wait.
 * The reader thread gives up the lead when it completes the ticket of a single follower (``hand_over``). The next wait
   of that thread leads at once.

A waiting thread is the better leader: to be woken by another thread costs more than most reads (benchmark row
fetch-ack).

Rules: all but ``wait_for_turn`` is called with the lock held. Threads are known by their idents.

Not here: what the leader does (``engine``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from jsproto.ticket import Ticket
from jsproto_io._threads.reentry import Lock, Wakeup

GRACE: Final = 0.01  # seconds without a new leader among the waiting threads, after which the reader thread leads


class Leadership:
    """Which thread leads, and which follow.

    Attributes:
        leader: the thread that moves the bytes. None: there is none.
        parked: the followers' events, by thread.
        reader: the reader thread. None: there is none.
        ended: completed when nothing will be received any more.
    """

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self.leader: int | None = None
        self.parked: dict[int, Wakeup] = {}
        self.reader: int | None = None
        self.ended: Ticket[None] = Ticket()
        self._waiters_elected = 0  # how often a waiting thread has become the leader
        self._wakeup = threading.Lock()  # the reader thread sleeps in acquire(): released to wake it up
        self._wakeup.acquire()
        self._in_long_wait = False  # the reader thread sleeps until the end of one long wait
        self._reader_requested = False  # the reader thread is to lead at once

    def try_lead(self, me: int, *, linked: bool) -> bool:
        """Whether the waiting thread ``me`` leads now. Without a link (``linked``) the reader thread is to lead, if
        there is one.
        """
        linked = linked or self.reader in (None, me)
        if self.leader is None and linked:
            self.leader = me
            self._waiters_elected += 1
            if (event := self.parked.pop(me, None)) is not None:
                event.set()  # a signal handler may wait, which has interrupted this follower
        elif self.leader == me and not linked:
            self.leader = None
        if self.leader is None:
            self.request_reader()
        return self.leader == me

    def park(self, me: int, ticket: Ticket[Any]) -> Wakeup:
        """The event on which the follower ``me`` sleeps. It is set when ``ticket`` is complete, or to make it try to
        lead.
        """
        event = ticket.event
        if not isinstance(event, Wakeup) or event.is_set():  # it was set to make a thread try to lead
            ticket.event = event = Wakeup()
        outer = self.parked.get(me)
        if outer is not None and outer is not event:
            outer.set()  # as in ``try_lead``
        self.parked[me] = event
        return event

    def leave(self, me: int) -> None:
        """The wait of ``me`` has ended. If it was the leader, a follower is next, or else the reader thread before
        long.
        """
        self.parked.pop(me, None)
        if self.leader == me:
            self.leader = None
        if self.leader is None:
            if self.parked:
                next(iter(self.parked.values())).set()
            if self._in_long_wait:
                self._wake_reader()

    def hand_over(self, completed: Iterable[Ticket[Any]]) -> None:
        """Give up the lead of the reader thread, if it has completed the ticket of the only follower."""
        if self.leader == self.reader == threading.get_ident() and len(self.parked) == 1:
            (event,) = self.parked.values()
            if any(ticket.event is event for ticket in completed):
                self.leader = None

    def request_reader(self) -> None:
        """The reader thread is to lead as soon as no other thread does."""
        self._reader_requested = True
        self._wake_reader()
        if self.reader in self.parked:  # an event's callback waits, which the reader thread has called
            self.parked[self.reader].set()

    def end(self) -> None:
        """Nothing will be received any more: wake up all threads."""
        if not self.ended.done:
            self.ended.succeed(None)
        for event in self.parked.values():
            event.set()
        self._wake_reader()

    def wait_for_turn(self) -> bool:
        """The reader thread sleeps until it is the leader (True), or until the end (False)."""
        while not self.ended.done:
            elected = self._waiters_elected
            woken = self._wakeup.acquire(timeout=-1 if self._in_long_wait else GRACE)
            with self._lock:
                requested, self._reader_requested = self._reader_requested, False
                idle = elected == self._waiters_elected
                self._in_long_wait = self.leader is not None and idle  # one long wait, whose end wakes this thread up
                if self.leader is None and (requested or (idle and not woken)):
                    self.leader = self.reader
                    return True
        return False

    def _wake_reader(self) -> None:
        if self._wakeup.locked():  # else it is awake, or about to be
            self._wakeup.release()
