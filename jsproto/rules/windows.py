"""The window of a flow-controlled batch: how far the sender may run ahead of the acknowledgements.

The server acknowledges every ``every`` messages and may change that number at any time; the sender may have
``outstanding`` such acknowledgements missing (ADR-50, Flow Control). Acknowledgements are cumulative, so a lost one
costs nothing once the next arrives, and one that is older than what is known changes nothing. The whole question
"may I send?" is one comparison with ``limit``.

Not here: timers, phases, and what an acknowledgement looks like.
"""

from __future__ import annotations


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
