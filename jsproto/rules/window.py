"""The two ends of a flow-controlled batch: how far its sender may run ahead, and when its receiver acknowledges.

* The receiver acknowledges every ``every`` messages and may change that number with any acknowledgement.
* The sender may have ``outstanding`` such acknowledgements missing (ADR-50, Flow Control).
* Acknowledgements are cumulative. The next one makes up for a lost one, and an older one is passed over.
* "May I send?" is one comparison with ``limit``. "Must I acknowledge?" is one with the last acknowledgement.
* A receiver that tolerates losses acknowledges only when it stores something. A message that it refused, or missed, has
  an answer of its own, and may stay unacknowledged. It is settled, and another one may be sent in its place.

Not here: timers, phases, and what an acknowledgement looks like.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final

SHARED_RATE: Final = 500
"""Messages for each acknowledgement that all batches of a stream have between them (nats-server)."""

_first, _last = itemgetter(0), itemgetter(1)


class AckWindow:
    """Sequences of one batch. ``acked`` and ``limit`` never move backwards by an acknowledgement that is older.

    At most ``size`` messages are out that wait to be acknowledged or settled.

    Attributes:
     * ``acked``: the highest acknowledged sequence.
     * ``every``: the acknowledgement interval in force, in messages.
     * ``limit``: the highest sequence that may be sent now.
     * ``maximum``, ``outstanding``: as they were given.
    """

    __slots__ = ("_floor", "_settled", "_spans", "acked", "every", "limit", "maximum", "outstanding")

    def __init__(self, maximum: int, outstanding: int) -> None:
        """``maximum``: the interval asked for, an upper bound for the server. ``outstanding``: 1 to 3."""
        self.maximum = maximum
        self.outstanding = outstanding
        self.acked = 0
        self.every = 1
        self.limit = 1
        self._floor = 0  # no answer of its own is waited for up to here: everything is acknowledged, or arrived
        self._spans: list[tuple[int, int]] = []  # what is settled beyond: first and last, in order, apart
        self._settled = 0  # how many that are

    @property
    def size(self) -> int:
        """How many messages may wait for an answer at a time."""
        return self.every * self.outstanding

    def adopt(self, sequence: int, every: int, sent: int) -> bool:
        """Take an acknowledgement of ``sequence`` with the interval ``every``. Returns whether it can be true.

        It is impossible when it acknowledges more than was ``sent``, or less than was acknowledged before. So it is
        when the interval is less than 1. Then all stays as it was.
        """
        if not self.acked <= sequence <= sent or every < 1:
            return False
        self.acked = sequence
        self.every = min(every, self.maximum)
        self.reach(sequence)
        return True

    def settle(self, first: int, last: int) -> None:
        """Messages ``first`` to ``last`` were refused, or are reported as lost. A repetition is passed over."""
        first = max(first, self._floor + 1)
        if first > last:
            return
        spans = self._spans
        start, stop = bisect_left(spans, first - 1, key=_last), bisect_right(spans, last + 1, key=_first)
        if start < stop:
            first, last = min(first, spans[start][0]), max(last, spans[stop - 1][1])
            self._settled -= _length(spans[start:stop])
        spans[start:stop] = [(first, last)]
        self._settled += last - first + 1
        self._move()

    def is_settled(self, sequence: int) -> bool:
        """Whether message ``sequence`` was settled, as far as that still counts."""
        at = bisect_left(self._spans, sequence, key=_last)
        return at < len(self._spans) and self._spans[at][0] <= sequence

    def reach(self, sequence: int) -> None:
        """Everything up to ``sequence`` has arrived: stop waiting for answers to it."""
        self._floor = floor = max(self._floor, sequence)
        spans = self._spans
        if spans:
            del spans[: bisect_right(spans, floor, key=_last)]
            if spans and spans[0][0] <= floor:
                spans[0] = (floor + 1, spans[0][1])
            self._settled = _length(spans)
        self._move()

    def _move(self) -> None:
        self.limit = self._floor + self._settled + self.every * self.outstanding


def _length(spans: list[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in spans)


class AckPace:
    """When the receiver of a batch acknowledges, as nats-server 2.15.1 chooses (FACTS.md F2.6, F2.7).

    A batch beside others begins with an acknowledgement for each message, and the interval doubles. More batches mean
    shorter intervals.

    Attributes:
     * ``acked``: the sequence last acknowledged.
     * ``every``: the interval in force, in messages.
     * ``maximum``: the interval that the sender asked for.
    """

    __slots__ = ("acked", "every", "maximum")

    def __init__(self, maximum: int, batches: int, acked: int = 0) -> None:
        """``maximum``: the interval that the sender asks for. ``acked``: the sequence that it goes on from.

        ``batches``: how many are open in the stream, this one among them.
        """
        self.maximum = maximum
        self.acked = acked
        self.every = min(SHARED_RATE, maximum) if batches == 1 else 1

    def due(self, sequence: int, batches: int) -> bool:
        """Whether an acknowledgement is due now that everything up to ``sequence`` is there.

        If so ``acked`` is what it acknowledges and ``every`` the interval from there on. Of several that are due at
        once only the last one is sent. ``batches``: how many are open in the stream.
        """
        passed = (sequence - self.acked) // self.every
        if passed < 1:
            return False
        self.acked += passed * self.every
        ceiling = min(max(1, SHARED_RATE // batches), self.maximum)
        if self.every < ceiling:
            self.every = min(self.every * 2, ceiling)
        else:
            self.every = max(self.every // 2, ceiling)
        return True
