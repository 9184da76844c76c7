"""Which delivery brought which message: what an answer to flow control has to say of a message that is stored.

* An answer names the last stored message by both of its numbers, that of the delivery and that of the stream.
* Only deliveries since the consumer began to count are here. After a reset the same message has another number.
* Messages whose two numbers rise together are one run, so a long one costs as much as a single message.

Not here: when flow control is answered (``client.consume.sourcing``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from jsproto.grammar.jsack import jsack_sequences
from jsproto.rules.sequence_gaps import DeliverySequence, SequenceGap


class DeliveryLog(DeliverySequence):
    """``DeliverySequence`` that keeps what was delivered until it is known to be stored.

    Attribute: ``stored`` (consumer sequence and stream sequence of the last delivery that is stored, zeros at first).
    """

    __slots__ = ("_runs", "stored")

    def __init__(self) -> None:
        super().__init__()
        self.stored = (0, 0)
        self._runs: deque[tuple[int, int, int]] = deque()  # first stream sequence, first consumer sequence, how many

    def advance(self) -> None:
        """A message has come whose reply subject starts with ``expected_prefix``."""
        super().advance()
        self._note(self.stream_seq, self.consumer_seq, 1)

    def count_in_sequence(self, replies: Sequence[bytes]) -> int:
        """How many of these reply subjects, from the front, follow each other gapless."""
        before = self.stream_seq
        count = super().count_in_sequence(replies)
        if self.stream_seq - before == count:
            self._note(before + 1, self.consumer_seq - count + 1, count)
        else:
            for reply in replies[:count]:
                self._note(*jsack_sequences(reply), 1)
        return count

    def delivered(self, reply: bytes) -> SequenceGap | None:
        """Take a message. What is wrong with its number makes void what came before it.

        Raises: NotJSMessageError: it is another kind of subject. Nothing has changed.
        """
        broken = super().delivered(reply)
        if broken is not None:
            self._forget()
        self._note(self.stream_seq, self.consumer_seq, 1)
        return broken

    def heartbeat(self, last_consumer: int) -> SequenceGap | None:
        """Take a heartbeat. What is wrong with its number makes void what came before it."""
        broken = super().heartbeat(last_consumer)
        if broken is not None:
            self._forget()
        return broken

    @property
    def open_seq(self) -> int | None:
        """The stream sequence of the first delivery that waits to be stored. None: all are stored."""
        return self._runs[0][0] if self._runs else None

    def store(self, stream_seq: int) -> tuple[int, int]:
        """All up to ``stream_seq`` is stored. Returns ``stored``, which ends with what was delivered."""
        runs = self._runs
        while runs and runs[0][0] <= stream_seq:
            stream, consumer, length = runs.popleft()
            count = min(length, stream_seq - stream + 1)
            self.stored = consumer + count - 1, stream + count - 1
            if count < length:
                runs.appendleft((stream + count, consumer + count, length - count))
        return self.stored

    def _note(self, stream_seq: int, consumer_seq: int, count: int) -> None:
        runs = self._runs
        if runs:
            stream, consumer, length = runs[-1]
            if (stream + length, consumer + length) == (stream_seq, consumer_seq):
                runs[-1] = stream, consumer, length + count
                return
        runs.append((stream_seq, consumer_seq, count))

    def _forget(self) -> None:
        self._runs.clear()
        self.stored = 0, 0
