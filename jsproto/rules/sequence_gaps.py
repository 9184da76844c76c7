"""Whether a consumer's deliveries arrived gapless. It is the same in both roles.

* A consumer numbers what it delivers, redeliveries included, from 1 on: the consumer sequence.
* Each message carries its number in the ack reply subject. Each idle heartbeat carries the last number that was sent.
* A lost message shows as soon as anything follows it.
* A consumer that was reset, or made anew under its old name, shows as a number that comes again.
* The stream sequence is useless for both: filters leave holes in it and redeliveries go back.
* Only the one subscriber of a consumer can see it: in a queue group every member sees holes.

Not here: what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jsproto._event import event
from jsproto.errors import NotJSMessageError
from jsproto.grammar.consecutive import count_up
from jsproto.grammar.jsack import jsack_sequences

UNKNOWN: Final = -1
"""The number of a consumer that was not followed from its beginning, until its first message or heartbeat."""
NO_PREFIX: Final = b"\n"
"""No reply subject starts like this: look at all of it."""
MANY: Final = 16
"""From so many reply subjects on it is faster to compare all at once."""


@event
class SequenceGap:
    """The next delivery should have been number ``expected``, and it is ``found``.

    A higher one: those in between were lost. A lower one: the consumer numbers anew.
    """

    expected: int
    found: int

    @property
    def restarted(self) -> bool:
        """Whether the consumer numbers anew."""
        return self.found < self.expected

    @property
    def missing(self) -> int:
        """How many deliveries were lost on the way to this one. 0 after a restart, when it is unknown."""
        return max(self.found - self.expected, 0)


class DeliverySequence:
    """How far one consumer's deliveries have come.

    Attributes:
     * ``consumer_seq``: the number of the last delivery, 0 before the first. ``UNKNOWN``: any number may come next.
     * ``stream_seq``: the stream sequence of the last delivery, 0 before the first.
     * ``expected_prefix``: how the reply subject of the next message starts if that is the next of the stream, too, and
       delivered for the first time. Nearly all are. Then ``advance`` is all that is to be done.
    """

    __slots__ = ("_form", "_head", "consumer_seq", "expected_prefix", "stream_seq")

    def __init__(self, consumer_seq: int = 0) -> None:
        self.consumer_seq = consumer_seq
        self.stream_seq = 0
        self.expected_prefix = NO_PREFIX
        self._head = b""
        self._form = b""

    def advance(self) -> None:
        """A message has come whose reply subject starts with ``expected_prefix``."""
        self.consumer_seq = consumer_seq = self.consumer_seq + 1
        self.stream_seq = stream_seq = self.stream_seq + 1
        self.expected_prefix = self._form % (stream_seq + 1, consumer_seq + 1)

    def count_in_sequence(self, replies: Sequence[bytes]) -> int:
        """How many of these reply subjects, from the front, are of deliveries that follow each other gapless.

        They have the numbers that were next, rising sequences in the stream, and are delivered for the first time.
        Afterwards the last of them is the last delivery.
        """
        if len(replies) >= MANY and self._are_next(replies):
            self.stream_seq += len(replies)
            self.consumer_seq += len(replies)
            self.expected_prefix = self._form % (self.stream_seq + 1, self.consumer_seq + 1)
            return len(replies)
        expected_prefix, form, first_time = self.expected_prefix, self._form, self._head + b"1."
        stream_seq, consumer_seq = self.stream_seq, self.consumer_seq
        try:
            for reply in replies:
                if reply.startswith(expected_prefix):
                    stream_seq += 1
                else:  # a filter leaves holes
                    found, number = jsack_sequences(reply)
                    if found <= stream_seq or number != consumer_seq + 1 or not reply.startswith(first_time):
                        break
                    stream_seq = found
                consumer_seq += 1
                expected_prefix = form % (stream_seq + 1, consumer_seq + 1)
        except NotJSMessageError:  # ``delivered`` says why
            pass
        count = consumer_seq - self.consumer_seq
        self.expected_prefix, self.stream_seq, self.consumer_seq = expected_prefix, stream_seq, consumer_seq
        return count

    def _are_next(self, replies: Sequence[bytes]) -> bool:
        """Whether each of these starts as the next one does, with numbers of as many digits.

        How it works: the expected starts of all of them are written into one buffer, by copying the first one and
        counting its two numbers up. One comparison with the joined starts of ``replies`` decides. The benchmark row
        ``deliver`` of ``tests.bench.core`` pays for it.
        """
        start, count = self.expected_prefix, len(replies)
        if start == NO_PREFIX:
            return False
        last = self._form % (self.stream_seq + count, self.consumer_seq + count)
        length = len(start)
        if len(last) != length or not replies[-1].startswith(last):
            return False
        starts = bytearray(start * count)
        end = length - len(b".")
        count_up(starts, end, length, self.consumer_seq + 1, count)
        count_up(starts, start.rindex(b".", 0, end), length, self.stream_seq + 1, count)
        return b"".join([reply[:length] for reply in replies]) == starts

    def delivered(self, reply: bytes) -> SequenceGap | None:
        """Take a message with the reply subject ``reply``. Returns what is wrong with its number, or None.

        Afterwards it is the last one.

        Raises: NotJSMessageError: it is another kind of subject. Nothing has changed.
        """
        stream_seq, consumer_seq = jsack_sequences(reply)
        broken = self._compare(consumer_seq)
        self.consumer_seq = consumer_seq
        self.stream_seq = stream_seq
        if not self._head or not reply.startswith(self._head):
            tokens = reply.split(b".")
            self._head = b".".join(tokens[: 4 if len(tokens) == 9 else 6]) + b"."
            self._form = self._head.replace(b"%", b"%%") + b"1.%d.%d."
        self.expected_prefix = self._form % (stream_seq + 1, consumer_seq + 1)
        return broken

    def heartbeat(self, last_consumer: int) -> SequenceGap | None:
        """Take a heartbeat with the number of the last delivery. Returns what is wrong with it, or None.

        Afterwards it is the last one, so that a loss is reported once.
        """
        broken = self._compare(last_consumer + 1)
        if broken is not None or self.consumer_seq == UNKNOWN:
            self.consumer_seq = last_consumer
            self.expected_prefix = NO_PREFIX
        return broken

    def _compare(self, next_one: int) -> SequenceGap | None:
        expected = self.consumer_seq + 1
        if next_one == expected or self.consumer_seq == UNKNOWN:
            return None
        return SequenceGap(expected, next_one)
