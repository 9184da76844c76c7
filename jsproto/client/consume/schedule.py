"""Which message is worked on next: at most so many at once, and those of one key one after the other.

Rules:

* No more than ``concurrency`` jobs are under way.
* Jobs of one key follow each other in the order of their stream sequences.
* A job that comes again, for example after a nak, keeps its key waiting until it is there or its time is over.
* Keys that can go on take turns. A job without a key (``NO_KEY``) waits for no other one.
* A message is one job. Another delivery of it takes the place of the one that waits, and is dropped beside the one that
  is under way.

Not here: where messages come from, and what becomes of them (``work``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from jsproto.timers import Deadlines

M = TypeVar("M")

NO_KEY: Final = object()
"""The key of jobs without an order."""


class Job(Generic[M]):
    """One message to be worked on.

    Attributes:

    * ``message``: its latest delivery, before it was started.
    * ``seq``: its stream sequence.
    * ``started``: whether it is, or was, under way.
    * ``brings_worker``: whether another worker is to begin before it is worked on (``ConsumerWork.take``).
    """

    __slots__ = ("_lane", "brings_worker", "message", "seq", "started")

    def __init__(self, message: M, seq: int, lane: _Lane[M] | None) -> None:
        self.message = message
        self.seq = seq
        self.started = False
        self.brings_worker = False
        self._lane = lane


class _Lane(Generic[M]):
    """The jobs of one key.

    Attributes:

    * ``waiting``: a heap of sequences.
    * ``awaited``: the sequences of jobs that come again.
    * ``busy``: whether one of its jobs is under way.
    * ``listed``: whether it is listed as one that can go on.
    """

    __slots__ = ("awaited", "busy", "key", "listed", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.waiting: list[int] = []
        self.awaited: set[int] = set()
        self.busy = False
        self.listed = False

    @property
    def can_go_on(self) -> bool:
        """Whether its first job may be started, as far as the key is concerned."""
        return not self.busy and bool(self.waiting) and self.waiting[0] <= min(self.awaited, default=self.waiting[0])


class WorkSchedule(Generic[M]):
    """Jobs that wait or are under way. Attribute: ``running`` (how many are under way)."""

    __slots__ = ("_again_by", "_concurrency", "_jobs", "_lanes", "_ready", "running")

    def __init__(self, concurrency: int) -> None:
        """``concurrency``: how many jobs may be under way."""
        self.running = 0
        self._concurrency = concurrency
        self._jobs: dict[int, Job[M]] = {}  # by sequence: all of them
        self._lanes: dict[Hashable, _Lane[M]] = {}
        self._ready: deque[_Lane[M] | Job[M]] = deque()  # lanes, and jobs without one
        self._again_by: Deadlines[tuple[_Lane[M], int]] = Deadlines()

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._jobs) - self.running

    @property
    def has_slot(self) -> bool:
        """Whether another job may be under way."""
        return self.running < self._concurrency

    @property
    def can_start(self) -> bool:
        """Whether ``start`` returns a job."""
        return bool(self._ready) and self.has_slot

    def has_room(self, limit: int) -> bool:
        """Whether another job may be added: a slot is free, nothing can start, and fewer than ``limit`` wait."""
        return self.running < self._concurrency and not self._ready and len(self._jobs) - self.running < limit

    def add(self, message: M, seq: int, key: Hashable) -> None:
        """``message``, with this stream sequence and key, was delivered."""
        job = self._jobs.get(seq)
        if job is not None:
            if not job.started:
                job.message = message
            return
        if key is NO_KEY:
            job = self._jobs[seq] = Job(message, seq, None)
            self._ready.append(job)
            return
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        self._jobs[seq] = Job(message, seq, lane)
        heappush(lane.waiting, seq)
        self._go_on(lane)

    def start(self) -> Job[M] | None:
        """The next job, which is under way from now on. None: all slots are taken, or all jobs wait."""
        if not self.can_start:
            return None
        found = self._ready.popleft()
        job = found if isinstance(found, Job) else self._first(found)
        job.started = True
        self.running += 1
        return job

    def end(self, job: Job[M], again_by: float | None = None) -> None:
        """``job`` is not under way any more.

        ``again_by``: its message comes again, by this time if at all (monotonic seconds). None: the key need not wait.
        """
        lane = job._lane
        del self._jobs[job.seq]
        self.running -= 1
        if lane is None:
            return
        lane.busy = False
        if again_by is not None:
            lane.awaited.add(job.seq)
            self._again_by.set((lane, job.seq), again_by)
        self._go_on(lane)

    def deadline(self) -> float | None:
        """When ``expire`` wants to be called, in monotonic seconds. None: no key waits for a message."""
        return self._again_by.next()

    def expire(self, now: float) -> None:
        """Keys wait no longer for messages that had to come again before ``now``."""
        for lane, seq in self._again_by.due(now):
            lane.awaited.discard(seq)
            self._go_on(lane)

    def take_waiting(self) -> list[M]:
        """Take all jobs that wait, in the order of their sequences. They are jobs no longer, and no key waits."""
        waiting = sorted((job.seq, job) for job in self._jobs.values() if not job.started)
        for seq, job in waiting:
            if job._lane is not None:
                job._lane.waiting.clear()
                job._lane.listed = False
            del self._jobs[seq]
        self._ready.clear()
        for lane in [*self._lanes.values()]:
            for seq in [*lane.awaited]:
                self._arrived(lane, seq)
            self._forget_if_empty(lane)
        return [job.message for _, job in waiting]

    def _first(self, lane: _Lane[M]) -> Job[M]:
        """The first job of a lane that can go on, which is busy from now on."""
        lane.listed = False
        lane.busy = True
        job = self._jobs[heappop(lane.waiting)]
        if job.seq in lane.awaited:
            self._arrived(lane, job.seq)
        return job

    def _arrived(self, lane: _Lane[M], seq: int) -> None:
        lane.awaited.discard(seq)
        self._again_by.set((lane, seq), None)

    def _go_on(self, lane: _Lane[M]) -> None:
        """List ``lane`` if it can go on, forget it if it has nothing."""
        if lane.listed:
            return
        if lane.can_go_on:
            lane.listed = True
            self._ready.append(lane)
        else:
            self._forget_if_empty(lane)

    def _forget_if_empty(self, lane: _Lane[M]) -> None:
        if not (lane.busy or lane.waiting or lane.awaited):
            del self._lanes[lane.key]
