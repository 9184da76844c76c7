"""A consumer's place in its stream: which messages are still to be delivered for the first time.

Rules:

* The deliver policy decides where the cursor begins, the filters which messages it takes.
* ``last_per_subject`` begins with the newest message of each subject, oldest first. Newly stored messages follow.
* A message that is removed from the stream is never delivered.
* The cursor is informed of each stored and removed message, and counts from that how many messages are left.
* As in nats-server the count is wrong for a while where the cursor is ahead of the stream (FACTS.md F5.32).

Not here: whether they may be delivered now (``consumer``), what was delivered (``redelivery``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.subjects import contains, matches
from jsproto.server.store.stream import Stored, Stream


class Cursor:
    """The place in the stream.

    Attributes: ``next_seq`` (the stream sequence where it goes on), ``pending`` (how many messages are left, which may
    be too high or below 0, as in nats-server).
    """

    __slots__ = ("_filters", "_is_by_subject", "_resume", "_skip", "_stream", "next_seq", "pending")

    def __init__(self, stream: Stream, config: ConsumerConfig) -> None:
        """Begin where the deliver policy of ``config`` says."""
        self._stream = stream
        self._filters = config.filters
        self._is_by_subject = config.deliver_policy == "last_per_subject"
        self._skip: deque[int] = deque()  # the newest of each subject, as long as they are what counts
        self._resume = 0  # where it goes on after them
        self.next_seq = self._start(config)
        self.pending = self._count()

    def filter(self, filters: list[str]) -> None:
        """Take messages of other subjects from now on."""
        if filters != self._filters:
            self._filters = filters
            self.pending = self._count()

    def __contains__(self, message: Stored) -> bool:
        """Whether a message is still to be delivered for the first time."""
        if self._skip and message.seq < self._resume:
            return message.seq in self._skip
        return message.seq >= self.next_seq and self.takes(message.subject)

    def saved(self) -> dict[str, Any]:
        """The place, as JSON."""
        return {
            "next_seq": self.next_seq, "skip": list(self._skip), "resume": self._resume, "pending": self.pending,
        }  # fmt: skip

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on at the place that ``saved`` says."""
        self.next_seq, self._resume = saved["next_seq"], saved["resume"]
        self._skip = deque(saved["skip"])
        self.pending = saved["pending"]

    def next(self) -> Stored | None:
        """The next message that the consumer takes. None: there is none yet. Others are skipped for good."""
        while self._skip:
            stored = self._stream.get(self._skip[0])
            if stored is not None:
                return stored
            self._pass(self._skip[0])
        self.next_seq = max(self.next_seq, self._stream.first_seq)
        while self.next_seq <= self._stream.last_seq:
            stored = self._stream.get(self.next_seq)
            if stored is not None and self.takes(stored.subject):
                return stored
            self.next_seq = self._stream.used(self.next_seq + 1)
        self.pending = 0
        return None

    def reset(self, seq: int, *, is_new: bool) -> None:
        """Go on at the stream sequence ``seq``. ``is_new``: what is left has to be counted again."""
        self._skip.clear()
        self.next_seq = seq
        if is_new:
            self.pending = self._count()

    def delivered(self, message: Stored) -> None:
        """``message``, which ``next`` returned, was delivered."""
        self._pass(message.seq)
        self.pending -= 1

    def stored(self, message: Stored) -> bool:
        """The stream stored ``message``. Returns whether the consumer will deliver it."""
        is_taken = self.takes(message.subject)
        self.pending += is_taken
        return is_taken and message.seq >= self.next_seq

    def removed(self, message: Stored) -> None:
        """The stream removed ``message``."""
        self.pending -= message.seq >= self.next_seq and self.takes(message.subject)

    def purged(self, gone: Sequence[int], counted_by: str | None) -> None:
        """A purge removed the messages with the sequences ``gone``.

        ``counted_by``: the subject, or the pattern, by which one alone is left out of the count. None: count anew.
        """
        if not gone:
            return
        if counted_by is None:
            self.pending = self._count()
        elif gone[0] >= self.next_seq:
            self.pending -= not self._filters or any(contains(one, counted_by) for one in self._filters)

    def reported(self) -> int:
        """How many messages are left, as a server reports it, which then counts with that number."""
        if self.next_seq > self._stream.last_seq:
            self.pending = 0
        elif self.pending > 0:
            self.pending = min(self.pending, len(self._stream), self._stream.last_seq - self.next_seq + 1)
        return max(0, self.pending)

    def _pass(self, seq: int) -> None:
        if self._skip:
            self._skip.popleft()
            self.next_seq = seq + 1 if self._skip else self._resume
        else:
            self.next_seq = seq + 1

    def _start(self, config: ConsumerConfig) -> int:
        stream = self._stream
        match config.deliver_policy:
            case "new":
                return stream.last_seq + 1
            case "last":
                return max((stored.seq for stored in stream if self.takes(stored.subject)), default=stream.first_seq)
            case "last_per_subject":
                newest = {stored.subject: stored.seq for stored in stream if self.takes(stored.subject)}
                self._skip.extend(sorted(newest.values()))
                self._resume = stream.last_seq + 1
                return self._skip[0] if self._skip else self._resume
            case "by_start_sequence":
                return max(config.opt_start_seq or 0, stream.first_seq)
            case "by_start_time":
                since = config.opt_start_time or 0
                return next((stored.seq for stored in stream if stored.timestamp >= since), stream.last_seq + 1)
            case _:
                return stream.first_seq

    def _count(self) -> int:
        """How many messages are left. Under ``last_per_subject`` servers always count subjects."""
        left = [one.subject for one in self._stream if one.seq >= self.next_seq and self.takes(one.subject)]
        return len(set(left) if self._is_by_subject else left)

    def takes(self, subject: bytes) -> bool:
        """Whether the filters take messages under ``subject``."""
        if not self._filters:
            return True
        text = subject.decode("utf-8", "surrogateescape")
        return any(matches(pattern, text) for pattern in self._filters)
