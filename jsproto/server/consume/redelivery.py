"""The messages of one consumer that wait for their acknowledgement, and when they are delivered again.

Rules:

* A message waits for ``ack_wait``, or for the entry of ``backoff`` that its delivery has. The last entry is repeated.
* It waits at least a millisecond. Then it is queued for redelivery, oldest first.
* It keeps the consumer sequence of its first delivery.
* After ``max_deliver`` deliveries it is given up, and is no longer outstanding.

Not here: reading acknowledgements (``acks``), applying them, and the ack floor (``delivery_state``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import Any, Final

from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Stored

SHORTEST_WAIT: Final = 0.001
"""Seconds between two deliveries of a message that is not acknowledged, so that time passes."""


@dataclass(slots=True)
class Outstanding:
    """A delivered message. ``consumer_seq`` is its first delivery's, ``due`` the next one's time in seconds.

    ``delivered_at``: when it was delivered last, in seconds.
    """

    stored: Stored
    consumer_seq: int
    due: float
    delivered_at: float


class PendingAcks:
    """The outstanding messages, by stream sequence.

    ``check_at`` is when ``expire`` is due, in seconds, or None.
    """

    __slots__ = ("_backoff", "_deliveries", "_max_deliver", "_pending", "_redeliver", "_wait", "check_at")

    def __init__(self, ack_wait: float, backoff: Sequence[float], max_deliver: int) -> None:
        """As ``change``."""
        self.check_at: float | None = None
        self._pending: OrderedDict[int, Outstanding] = OrderedDict()
        self._redeliver: OrderedDict[int, None] = OrderedDict()
        self._deliveries: dict[int, int] = {}
        self.change(ack_wait, backoff, max_deliver)

    def change(self, ack_wait: float, backoff: Sequence[float], max_deliver: int) -> None:
        """Rules from the next delivery on.

        ``ack_wait`` and ``backoff``: seconds. 0 waits for ever. ``max_deliver``: how often, or 0 for no limit.
        """
        self._wait = ack_wait
        self._backoff = tuple(backoff)
        self._max_deliver = max_deliver

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, seq: int) -> bool:
        return seq in self._pending

    def get(self, seq: int) -> Outstanding | None:
        """The outstanding message with that stream sequence. None: it is not outstanding."""
        return self._pending.get(seq)

    def all(self) -> list[tuple[int, Outstanding]]:
        """The outstanding messages, the one that was delivered first comes first."""
        return list(self._pending.items())

    def after(self, seq: int) -> Outstanding | None:
        """The outstanding message with the lowest stream sequence above ``seq``. None: there is none."""
        later = min((other for other in self._pending if other > seq), default=None)
        return None if later is None else self._pending[later]

    def was_repeated(self, seq: int) -> bool:
        """Whether a message was delivered more than once, or given up."""
        return seq in self._deliveries

    def forget_repeated(self, before: int) -> None:
        """Forget that messages before a stream sequence were delivered again, or given up."""
        for seq in [seq for seq in self._deliveries if seq < before]:
            del self._deliveries[seq]
            self._redeliver.pop(seq, None)

    def leave_queue(self, now: float) -> None:
        """Let nothing wait in the queue for redelivery. It comes again after its time."""
        for seq in list(self._redeliver):
            self.put_off(seq, now)

    def put_off(self, seq: int, now: float) -> None:
        """Take a message out of the queue for redelivery. It comes again after its time, or one that begins now.

        One without a time waits for ever.
        """
        del self._redeliver[seq]
        due = self._pending[seq].due
        if due <= now:
            self._wait_for(seq, self.deliveries(seq), now)
        elif not isinf(due):
            self._check_by(due)

    @property
    def redelivered(self) -> int:
        """How many messages were delivered more than once, those that were given up included."""
        return len(self._deliveries)

    @property
    def queued(self) -> int:
        """How many messages wait in the queue for redelivery."""
        return len(self._redeliver)

    def deliveries(self, seq: int) -> int:
        """How often a delivered message was delivered."""
        return self._deliveries.get(seq, 1)

    def delivered(self, stored: Stored, consumer_seq: int, now: float) -> None:
        """``stored`` was delivered for the first time, under ``consumer_seq``."""
        self._pending[stored.seq] = Outstanding(stored, consumer_seq, 0.0, now)
        self._wait_for(stored.seq, 1, now)

    def delivered_again(self, seq: int, now: float) -> None:
        """The message that ``next_again`` named was delivered."""
        del self._redeliver[seq]
        self._pending[seq].delivered_at = now
        count = self._deliveries[seq] = self.deliveries(seq) + 1
        self._wait_for(seq, count, now)

    def next_again(self) -> Outstanding | None:
        """The first message of the queue for redelivery. None: the queue is empty."""
        for seq in self._redeliver:
            return self._pending[seq]
        return None

    def is_exhausted(self, seq: int) -> bool:
        """Whether a message was delivered ``max_deliver`` times."""
        return 0 < self._max_deliver <= self.deliveries(seq)

    def queue(self, seq: int) -> None:
        """Queue an outstanding message for redelivery."""
        self._redeliver.setdefault(seq)

    def postpone(self, seq: int, due: float) -> None:
        """Deliver an outstanding message again at ``due``, in seconds."""
        self._redeliver.pop(seq, None)
        self._pending[seq].due = due
        self._check_by(due)

    def in_progress(self, seq: int, now: float) -> None:
        """A client works on an outstanding message, whose wait starts anew."""
        self._wait_for(seq, self.deliveries(seq), now)

    def remove(self, seq: int) -> Outstanding | None:
        """Forget an acknowledged message, and return it. None: it was not outstanding."""
        self._deliveries.pop(seq, None)
        self._redeliver.pop(seq, None)
        return self._pending.pop(seq, None)

    def remove_up_to(self, seq: int) -> list[Outstanding]:
        """Forget the outstanding messages up to that stream sequence, and return them, oldest first."""
        removed = []
        while self._pending and (oldest := next(iter(self._pending))) <= seq:
            removed.append(self._pending[oldest])
            self.remove(oldest)
        return removed

    def give_up(self, seq: int) -> None:
        """Stop delivering a message. It still counts in ``redelivered``."""
        self._deliveries[seq] = self.deliveries(seq)
        self._redeliver.pop(seq, None)
        del self._pending[seq]

    def clear(self) -> None:
        """Forget all messages, and how often they were delivered."""
        self._pending.clear()
        self._redeliver.clear()
        self._deliveries.clear()
        self.check_at = None

    def saved(self, context: ServerContext) -> dict[str, Any]:
        """The messages, as JSON. ``due`` is nanoseconds since 1970, None for never."""
        return {
            "pending": [
                [seq, one.consumer_seq, None if isinf(one.due) else context.timestamp(one.due)]
                for seq, one in self._pending.items()
            ],
            "redeliver": list(self._redeliver),
            "deliveries": list(self._deliveries.items()),
        }

    def restore(self, saved: Mapping[str, Any], context: ServerContext, find: Callable[[int], Stored | None]) -> None:
        """Wait for what ``saved`` says. ``find``: returns the message of a stream sequence, None if it is gone."""
        for seq, consumer_seq, due in saved["pending"]:
            stored = find(seq) or Stored(seq, b"", None, b"", 0, 0.0)  # one that is gone is never delivered again
            when = inf if due is None else context.seconds(due)
            self._pending[seq] = Outstanding(stored, consumer_seq, when, stored.arrived)
            if due is not None:
                self._check_by(when)
        self._redeliver.update((seq, None) for seq in saved["redeliver"] if seq in self._pending)
        self._deliveries.update(saved["deliveries"])

    def expire(self, now: float) -> list[int]:
        """Queue the messages that were not acknowledged in time, oldest first.

        Returns the sequences of those that are exhausted, which are not queued.
        """
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
