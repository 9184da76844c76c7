"""The unacknowledged messages of a fast-ingest batch, by sequence.

* Messages are kept in runs, as they were published, so a run of 500 messages costs one entry. Runs of columns cost
  least: they save the tuples that would be freed when the acknowledgement comes.
* An acknowledgement drops whole runs. A run that it reaches in part is kept until it is acknowledged to its end.
* A settled message was reported as refused or lost. ``since`` leaves it out, and ``compact`` drops it.

Not here: which messages are settled (``rules.window``), and what a caller does with those that are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from jsproto.client.publish.message import Message


class SentLog:
    """The log of one batch.

    Attribute: ``add``, which takes ``(last, run)``: the messages ``run`` were published, and the last one has the
    sequence ``last``. It is the deque's own ``append``, because every publish calls it.
    """

    __slots__ = ("_is_settled", "_runs", "add")

    def __init__(self, is_settled: Callable[[int], bool]) -> None:
        """``is_settled``: whether the message with this sequence was reported as refused or lost."""
        self._is_settled = is_settled
        self._runs: deque[tuple[int, Sequence[Message]]] = deque()
        self.add: Callable[[tuple[int, Sequence[Message]]], None] = self._runs.append

    def since(self, first: int) -> Iterator[tuple[int, Message]]:
        """The unsettled messages from sequence ``first`` on, each with its sequence."""
        is_settled = self._is_settled
        for last, run in self._runs:
            for sequence, message in enumerate(run, last - len(run) + 1):
                if sequence >= first and not is_settled(sequence):
                    yield sequence, message

    def forget(self, acked: int) -> None:
        """Drop the runs that end at sequence ``acked`` or before."""
        runs = self._runs
        while runs and runs[0][0] <= acked:
            runs.popleft()

    def compact(self, acked: int) -> None:
        """Drop what is settled, and everything up to sequence ``acked``. It looks at every message that is kept."""
        left = [(sequence, (message,)) for sequence, message in self.since(acked + 1)]
        self._runs.clear()
        self._runs.extend(left)
