"""The two ends of a flow-controlled batch: how far its sender may run ahead, and when its receiver acknowledges.

The receiver acknowledges every ``every`` messages and may change that number with any acknowledgement; the sender may
have ``outstanding`` such acknowledgements missing (ADR-50, Flow Control). Acknowledgements are cumulative, so a lost
one costs nothing once the next arrives, and one that is older than what is known changes nothing. The whole question
"may I send?" is one comparison with ``limit``; "must I acknowledge?" is one with the last acknowledgement.

Not here: timers, phases, and what an acknowledgement looks like.
"""

from __future__ import annotations

from typing import Final

SHARED_RATE: Final = 500
"""Messages for each acknowledgement that all batches of a stream have between them (nats-server)."""


class AckWindow:
    """Sequences of one batch. ``acked`` and ``limit`` never move backwards by an acknowledgement that is older.

    Attributes: ``acked`` highest acknowledged sequence, ``every`` the acknowledgement interval in force, ``limit``
    the highest sequence that may be sent now.
    """

    __slots__ = ("acked", "every", "limit", "maximum", "outstanding")

    def __init__(self, maximum: int, outstanding: int) -> None:
        """``maximum`` is the interval asked for, an upper bound for the server; ``outstanding`` is 1 to 3."""
        self.maximum = maximum
        self.outstanding = outstanding
        self.acked = 0
        self.every = 1
        self.limit = 1

    def adopt(self, sequence: int, every: int, sent: int) -> bool:
        """Take an acknowledgement of ``sequence`` with the interval ``every``; False when it cannot be true.

        It cannot when it acknowledges more than was ``sent``, less than was acknowledged before, or no interval.
        """
        if not self.acked <= sequence <= sent or every < 1:
            return False
        self.acked = sequence
        self.every = min(every, self.maximum)
        self.limit = sequence + self.every * self.outstanding
        return True


class AckPace:
    """When the receiver of a batch acknowledges: often at first beside others, then less; more often with more of them.

    As nats-server 2.15.1 chooses (server facts, section 2). Attributes: ``acked`` the sequence last acknowledged,
    ``every`` the interval in force, ``maximum`` the interval the sender asked for.
    """

    __slots__ = ("acked", "every", "maximum")

    def __init__(self, maximum: int, batches: int, acked: int = 0) -> None:
        """``maximum`` is what the sender asks for; ``batches`` the open ones of the stream, this one among them."""
        self.maximum = maximum
        self.acked = acked
        self.every = min(SHARED_RATE, maximum) if batches == 1 else 1

    def due(self, sequence: int, batches: int) -> bool:
        """Whether an acknowledgement is due now that everything up to ``sequence`` is there.

        If so ``acked`` is what it acknowledges and ``every`` the interval from there on: of several that are due at
        once, only the last.
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
