"""What a stream held, and when: the life of a stream from its creation to its deletion, operation by operation.

A state has a number: how many operations led to it. What a replica holds is the state of some number, so whatever an
answer may be follows from the numbers between which it was given.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from jsproto.grammar.subjects import matches
from jsproto.server.store.stream import Stored, Stream

FOR_EVER = 1 << 60


class Message(NamedTuple):
    """A message of a stream. ``payload`` tells it from all others, of other lives too. ``timestamp``: if known."""

    seq: int
    subject: str
    payload: bytes
    timestamp: int | None


class Life:
    """A stream from its creation to its deletion. Attributes: ``messages`` (all it ever had), ``count`` (operations).

    ``last_seq`` of the last operation; ``ended``: it was deleted. ``moved``: it lost sequences that had no message.
    """

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.count = 0
        self.last_seq = 0
        self.ended = False
        self.moved = False
        self._seqs: list[int] = []
        self._by_subject: dict[str, list[int]] = {}
        self._stored: dict[int, int] = {}  # in which state it came
        self._removed: dict[int, int] = {}  # in which state it was gone
        self._dropped: set[int] = set()
        self._displaced: dict[int, int] = {}  # by which message of its subject

    def store(self, message: Message) -> None:
        self.count += 1
        self.messages[message.seq] = message
        self._seqs.append(message.seq)
        self._by_subject.setdefault(message.subject, []).append(message.seq)
        self._stored[message.seq] = self.count
        self.last_seq = message.seq

    def remove(self, seq: int, *, first: bool, displaced: bool = False) -> None:
        """``first``: nothing older was left. ``displaced``: by the last message, which is of the same subject."""
        self.count += 1
        self._removed[seq] = self.count
        if first:
            self._dropped.add(seq)
        if displaced:
            self._displaced[seq] = self.last_seq

    def end(self) -> None:
        """The stream is deleted."""
        self.count += 1
        self.ended = True
        for seq in self.messages:
            self._removed.setdefault(seq, self.count)

    # -- what was when -------------------------------------------------------------------------------------------------

    def since(self, seq: int) -> int:
        """The first state that has everything up to a sequence."""
        place = bisect_right(self._seqs, seq)
        return self._stored[self._seqs[place - 1]] if place else 0

    def is_known(self, seq: int, state: int) -> bool:
        """Whether a message had come by some state."""
        return self._stored[seq] <= state

    def until(self, seq: int) -> int:
        """The last state in which a message is there."""
        return self._removed.get(seq, FOR_EVER) - 1

    def was_dropped(self, seq: int) -> bool:
        """Whether it went from the front of the stream."""
        return seq in self._dropped

    def was_deleted(self, subject: str) -> bool:
        """Whether a message of a subject went without being overwritten."""
        return any(seq in self._removed and seq not in self._displaced for seq in self.matching(subject))

    def lost_one(self, subject: str, low: int, high: int) -> bool:
        """Whether a message of a subject went, between some states, without being overwritten."""
        return any(
            low < self._removed.get(seq, 0) <= high and seq not in self._displaced for seq in self.matching(subject)
        )

    def was_there(self, seq: int, low: int, high: int) -> bool:
        """Whether a message was there in some state of these."""
        return max(self._stored[seq], low) <= min(self.until(seq), high)

    def stays(self, seq: int, low: int, high: int) -> bool:
        """Whether a message was there in all states of these."""
        return self._stored[seq] <= low and self.until(seq) >= high

    def lacks(self, seqs: Iterable[int], low: int, high: int) -> bool:
        """Whether none of some messages was there in some state of these."""
        state = low  # everything before it had one
        for came, gone in sorted((self._stored[seq], self._removed.get(seq, FOR_EVER)) for seq in seqs):
            if came > state:
                break
            state = max(state, gone)
        return state <= high

    def subjects(self, pattern: str = ">") -> list[str]:
        """The subjects of all messages that ever were, as far as they match."""
        if "*" not in pattern and ">" not in pattern:
            return [pattern] if pattern in self._by_subject else []
        return [subject for subject in self._by_subject if matches(pattern, subject)]

    def matching(self, pattern: str | None, first: int = 0, last: int = FOR_EVER) -> list[int]:
        """The sequences of all messages that ever were whose subject matches, in order."""
        if pattern is None:
            return _between(self._seqs, first, last)
        found = [_between(self._by_subject[subject], first, last) for subject in self.subjects(pattern)]
        return found[0] if len(found) == 1 else sorted(chain.from_iterable(found))

    def is_first(self, seq: int, pattern: str | None, at: int, low: int, high: int) -> bool:
        """Whether it was the first from a sequence on that matches, in some state of these."""
        low, high = max(low, self._stored[seq]), min(high, self.until(seq))
        return low <= high and self.lacks(self.matching(pattern, at, seq - 1), low, high)

    def is_last(self, seq: int, pattern: str, low: int, high: int) -> bool:
        """Whether it was the last that matches in some state of these."""
        low, high = max(low, self._stored[seq]), min(high, self.until(seq))
        return low <= high and self.lacks(self.matching(pattern, seq + 1), low, high)

    def is_last_as_of(self, seq: int, up_to: int, low: int, high: int) -> bool:
        """Whether it was the last of its subject as of a sequence, and there in some state of these.

        Whatever was deleted until ``high`` may count as gone, or as never written.
        """
        newer = self.matching(self.messages[seq].subject, seq + 1, up_to)
        return seq <= up_to and self.was_there(seq, low, high) and not self._has_to_count(newer, up_to, high)

    def may_lack_as_of(self, subject: str, up_to: int, high: int) -> bool:
        """Whether a subject may be without any message as of a sequence; ``high`` as above."""
        return not self._has_to_count(self.matching(subject, 0, up_to), up_to, high)

    def _is_displaced(self, seq: int, up_to: int) -> bool:
        return self._displaced.get(seq, FOR_EVER) <= up_to

    def _has_to_count(self, seqs: list[int], up_to: int, high: int) -> bool:
        """Whether one of them was there as of a sequence and not deleted until ``high``."""
        return any(
            not self._is_displaced(seq, up_to) and (seq in self._displaced or self.until(seq) >= high) for seq in seqs
        )


def _between(seqs: list[int], first: int, last: int) -> list[int]:
    return seqs[bisect_left(seqs, first) : bisect_right(seqs, last)]


class Witness:
    """Follows a stream of the server role and writes its life down."""

    def __init__(self, stream: Stream) -> None:
        """``stream``: a new one, or one from which nothing was removed yet."""
        self.life = Life()
        self.deletes = False  # whoever deletes says so: then no limit is at work
        self._last = b""
        self._stream = stream
        for stored in stream:
            self.stored(stored, 0.0)
        stream.followers.append(self)

    def stored(self, message: Stored, now: float) -> None:
        self._last = message.subject
        self.life.store(Message(message.seq, message.subject.decode(), message.payload, message.timestamp))

    def removed(self, message: Stored, now: float) -> None:
        stream = self._stream
        is_displaced = (
            not self.deletes
            and message.subject == self._last
            and stream.count_of(self._last) == stream.config.max_msgs_per_subject
        )
        self.life.remove(message.seq, first=stream.first_seq > message.seq, displaced=is_displaced)
