"""What one consumer delivered and nobody acknowledged yet, and when it is delivered again.

Rules: a message waits for its acknowledgement as long as ``ack_wait`` says, or its turn in ``backoff`` (the last one
for all further turns), but never less than a millisecond; then it is queued, oldest first, for the next delivery. Its
place in the consumer stays that of its first delivery. After the last delivery that is allowed it is given up: it is no
longer outstanding.

Not here: acknowledgements and floors (``consumer``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jsproto.server.store.stream import Stored

SHORTEST_WAIT: Final = 0.001
"""Seconds between two deliveries of a message that nobody answers: time has to pass."""


@dataclass(slots=True)
class Outstanding:
    """A message that was delivered. ``consumer_seq`` is that of its first delivery, ``due`` when it comes again."""

    stored: Stored
    consumer_seq: int
    due: float


class PendingAcks:
    """The outstanding messages, by stream sequence. ``ack_wait`` and ``backoff`` in seconds; 0 waits for ever."""

    __slots__ = ("_backoff", "_deliveries", "_max_deliver", "_pending", "_redeliver", "_wait", "check_at")

    def __init__(self, ack_wait: float, backoff: Sequence[float], max_deliver: int) -> None:
        self.check_at: float | None = None
        self._pending: OrderedDict[int, Outstanding] = OrderedDict()
        self._redeliver: OrderedDict[int, None] = OrderedDict()
        self._deliveries: dict[int, int] = {}
        self.change(ack_wait, backoff, max_deliver)

    def change(self, ack_wait: float, backoff: Sequence[float], max_deliver: int) -> None:
        """Other rules from the next delivery on."""
        self._wait = ack_wait
        self._backoff = tuple(backoff)
        self._max_deliver = max_deliver

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, seq: int) -> bool:
        return seq in self._pending

    def get(self, seq: int) -> Outstanding | None:
        """The outstanding message with that sequence."""
        return self._pending.get(seq)

    def oldest(self) -> Outstanding:
        """The one that was delivered first; there must be one."""
        return next(iter(self._pending.values()))

    @property
    def redelivered(self) -> int:
        """How many messages were delivered more than once, given up ones included."""
        return len(self._deliveries)

    @property
    def queued(self) -> int:
        """How many are to be delivered again at once."""
        return len(self._redeliver)

    def deliveries(self, seq: int) -> int:
        """How often a message that was delivered was delivered."""
        return self._deliveries.get(seq, 1)

    def delivered(self, stored: Stored, consumer_seq: int, now: float) -> None:
        """A message was delivered for the first time."""
        self._pending[stored.seq] = Outstanding(stored, consumer_seq, 0.0)
        self._wait_for(stored.seq, 1, now)

    def delivered_again(self, seq: int, now: float) -> None:
        """The message that ``next_again`` named was delivered."""
        del self._redeliver[seq]
        count = self._deliveries[seq] = self.deliveries(seq) + 1
        self._wait_for(seq, count, now)

    def next_again(self) -> Outstanding | None:
        """The message that is to be delivered again, before any other."""
        for seq in self._redeliver:
            return self._pending[seq]
        return None

    def is_exhausted(self, seq: int) -> bool:
        """Whether a message was delivered as often as is allowed."""
        return 0 < self._max_deliver <= self.deliveries(seq)

    def queue(self, seq: int) -> None:
        """Deliver an outstanding message again as soon as possible."""
        self._redeliver.setdefault(seq)

    def postpone(self, seq: int, due: float) -> None:
        """Deliver an outstanding message again at that time."""
        self._redeliver.pop(seq, None)
        self._pending[seq].due = due
        self._check_by(due)

    def in_progress(self, seq: int, now: float) -> None:
        """Somebody works on an outstanding message: wait anew."""
        self._wait_for(seq, self.deliveries(seq), now)

    def remove(self, seq: int) -> Outstanding | None:
        """The message is done with; None when it was not outstanding."""
        self._deliveries.pop(seq, None)
        self._redeliver.pop(seq, None)
        return self._pending.pop(seq, None)

    def remove_up_to(self, seq: int) -> list[Outstanding]:
        """All messages up to that one are done with."""
        removed = []
        while self._pending and (oldest := next(iter(self._pending))) <= seq:
            removed.append(self._pending[oldest])
            self.remove(oldest)
        return removed

    def give_up(self, seq: int) -> None:
        """The message was delivered often enough; that it was redelivered stays known."""
        self._deliveries[seq] = self.deliveries(seq)
        self._redeliver.pop(seq, None)
        del self._pending[seq]

    def expire(self, now: float) -> list[int]:
        """Queue what was not acknowledged in time, oldest first; returns what is exhausted instead."""
        if self.check_at is None or self.check_at > now:
            return []
        self.check_at = None
        exhausted = []
        for seq, outstanding in self._pending.items():
            if seq in self._redeliver:
                continue
            if outstanding.due > now:
                self._check_by(outstanding.due)
            elif self.is_exhausted(seq):
                exhausted.append(seq)
            else:
                self.queue(seq)
        return exhausted

    def _wait_for(self, seq: int, deliveries: int, now: float) -> None:
        wait = self._backoff[min(deliveries, len(self._backoff)) - 1] if self._backoff else self._wait
        if wait > 0:
            self._pending[seq].due = now + max(wait, SHORTEST_WAIT)
            self._check_by(self._pending[seq].due)
        else:
            self._pending[seq].due = float("inf")

    def _check_by(self, when: float) -> None:
        self.check_at = when if self.check_at is None else min(self.check_at, when)
