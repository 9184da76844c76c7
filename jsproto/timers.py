"""Named timers and deadlines, with the time as an argument.

Rules

* A time is a float, the caller's monotonic seconds.
* Every timer of the library is named in ``Timer`` with one sentence.
* A machine keeps its few timers in ``Timers``. A host of many machines keeps their deadlines in ``Deadlines``, a heap.
* Early, late and repeated questions are harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from jsproto.enums import IdentityEnum

K = TypeVar("K")

_COMPACT_AT = 64  # stale heap entries are swept once they outnumber the live ones, and never below this


class Timer(IdentityEnum):
    """Every timer of the library."""

    HANDSHAKE = "the peer must finish INFO, CONNECT, PING, PONG by then"
    KEEP_ALIVE = "a PING is due because the link may have died unnoticed"
    RECONNECT = "no server could be reached: it is time to try them again"
    FIRST_CONNECTION = "some server must have been reached for the first time"
    LAME_DUCK = "the server is about to go: what is under way may have ended, so that the link can move"
    BATCH_START = "the server must have answered the first message of a batch"
    BATCH_PING = "acknowledgements are late: ask for the latest one"
    BATCH_STALLED = "acknowledgements are so late that the batch is given up"
    BATCH_IDLE = "the server would soon forget a silent batch: ping it"
    PAGE = "the next message of a Direct Get page must have come"
    HEARTBEAT = "a consumer must have delivered a message or a heartbeat"
    PULL_AGAIN = "a pull request that was refused may be served now"
    PULL_OVERDUE = "the oldest pull request must have ended"
    CREATED = "a consumer that is being created must be there"
    CREATE = "it is time to create a consumer again"
    DRAINED = "what a drained subscription has buffered must have been taken"
    SOURCE_ANSWER = "a claim, or a reset, of a sourced consumer must have been answered"
    SOURCE_READY = "a sourced consumer must have been claimed for the first time"
    SOURCE_CLAIM = "it is time to claim a sourced consumer again"
    LOCK_LOOK = "a lock that another one holds must have expired, or the wait for it has ended"
    LOCK_RENEW = "a lock that is kept alive has lived a third of its time"
    ASK_AGAIN = "there may be room again for a request that found none"


def earliest(times: Iterable[float | None]) -> float | None:
    """The earliest of these times. None among them is passed over. The result is None if all are.

    A loop: ``min`` over a generator takes twice as long, and a server asks each of its streams at each turn.
    """
    first = None
    for when in times:
        if when is not None and (first is None or when < first):
            first = when
    return first


class Timers:
    """The timers of one machine: at most one time for each ``Timer``."""

    __slots__ = ("_when",)

    def __init__(self) -> None:
        self._when: dict[Timer, float] = {}

    def set(self, timer: Timer, when: float) -> None:
        """Arm, or move, ``timer``."""
        self._when[timer] = when

    def bring_forward(self, timer: Timer, when: float) -> None:
        """Arm ``timer``, or move it, but never to a later time."""
        self._when[timer] = min(when, self._when.get(timer, when))

    def stop(self, *timers: Timer) -> None:
        """Disarm these. Timers at rest are passed over."""
        for timer in timers:
            self._when.pop(timer, None)

    def clear(self) -> None:
        """Disarm all."""
        self._when.clear()

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._when

    def next(self) -> float | None:
        """The earliest time, or None when all are at rest."""
        return min(self._when.values()) if self._when else None

    def expired(self, now: float) -> list[Timer]:
        """Disarm and return what is due at ``now``, earliest first."""
        due = sorted((when, timer.name) for timer, when in self._when.items() if when <= now)
        timers = [Timer[name] for _, name in due]
        self.stop(*timers)
        return timers


class Deadlines(Generic[K]):
    """The deadlines of many (hashable) things: the earliest in O(1), changes in O(log n)."""

    __slots__ = ("_count", "_heap", "_when")

    def __init__(self) -> None:
        self._when: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._when)

    def __iter__(self) -> Iterator[K]:
        return iter(self._when)

    def set(self, key: K, when: float | None) -> None:
        """The deadline of ``key`` is ``when``. None removes it."""
        if when is None:
            if self._when.pop(key, None) is None:
                return
        elif self._when.get(key) == when:
            return
        else:
            self._when[key] = when
            self._count += 1
            heappush(self._heap, (when, self._count, key))
        if len(self._heap) > _COMPACT_AT + 2 * len(self._when):
            self._heap = [entry for entry in self._heap if self._when.get(entry[2]) == entry[0]]
            heapify(self._heap)

    def next(self) -> float | None:
        """The earliest deadline, or None."""
        heap, live = self._heap, self._when
        while heap:
            when, _, key = heap[0]
            if live.get(key) == when:
                return when
            heappop(heap)
        return None

    def due(self, now: float) -> list[K]:
        """Remove and return what is due at ``now``, earliest first."""
        due: list[K] = []
        while (when := self.next()) is not None and when <= now:
            key = heappop(self._heap)[2]
            del self._when[key]
            due.append(key)
        return due
