"""Whether a consumer's deliveries arrived without a hole. This file does not know our role.

A consumer numbers what it delivers, redeliveries included, from 1 on: the consumer sequence. Each message says its own
in the ack reply subject, and each idle heartbeat says the last one that was sent. So a message that was lost shows as
soon as anything follows it, and a consumer that was reset, or made anew under its old name, shows as a number that
comes again. The stream sequence shows neither: filters leave holes in it and redeliveries go back.

Only the one subscriber of a consumer can tell: in a queue group every member sees holes.

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
"""Where a consumer stands that was not followed from its beginning, before it says so."""
NO_PREFIX: Final = b"\n"
"""No reply subject starts like this: look at all of it."""
MANY: Final = 16
"""So many are worth being compared at once."""


@event
class SequenceGap:
    """The next delivery should have been number ``expected``; it is ``found``.

    Higher: those in between were lost. Lower: the consumer numbers anew.
    """

    expected: int
    found: int

    @property
    def restarted(self) -> bool:
        """Whether the consumer numbers anew."""
        return self.found < self.expected

    @property
    def missing(self) -> int:
        """How many deliveries were lost on the way to this one; 0 when nobody can tell."""
        return max(self.found - self.expected, 0)


class DeliverySequence:
    """How far one consumer's deliveries have come.

    Attributes: ``consumer_seq`` and ``stream_seq`` of the last one, 0 before the first; ``UNKNOWN`` as the consumer
    sequence as long as any number may come next. ``expected_prefix`` is how the reply subject of the next message
    starts if it is the next of the stream, too, and delivered for the first time: a cheap comparison for what is nearly
    always so, after which ``advance`` is all there is to do.
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
        """Messages have come with these reply subjects: how many of them, from the front, follow each other.

        They have the numbers that were next, are of rising sequences in the stream, and delivered for the first time.
        The last of them is the last one then.
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
        except NotJSMessageError:  # who looks at it alone says why
            pass
        count = consumer_seq - self.consumer_seq
        self.expected_prefix, self.stream_seq, self.consumer_seq = expected_prefix, stream_seq, consumer_seq
        return count

    def _are_next(self, replies: Sequence[bytes]) -> bool:
        """Whether each of these starts as the next one does, with numbers of as many digits: nearly always so.

        What they must start with is written for all of them, and compared, at once: that takes a third of the time.
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
        """A message has come with the reply subject ``reply``; says what is wrong with its number, if anything.

        Afterwards it is the last one. NotJSMessageError, with nothing changed, for another kind of subject.
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
        """A heartbeat says that ``last_consumer`` was the last delivery; says what is wrong with that, if anything.

        Afterwards it is the last one: what is missing is told once.
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
