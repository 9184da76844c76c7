"""A stream in memory: stored messages, the limits that discard them, the window of message ids.

Rules: sequences count up from ``first_seq`` and are never used again. ``append`` stores what it is given; it refuses
only what would not fit a stream that discards new messages, and what has no sequence left. Sizes are counted as
nats-server counts them on the stream's kind of storage. Time is an argument; what is too old goes when ``expire`` is
called.

Followers are told what is stored and removed, whoever did it.

Not here: which messages may be stored (``publish.checks``), acknowledgements (``server.inlet``), consumers
(``server.consume``), counters, schedules, the age of single messages (``Nats-TTL`` is stored, never acted on).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from jsproto._event import event
from jsproto.errors import APIError
from jsproto.grammar.batch import MSG_ID
from jsproto.grammar.config import StreamConfig, StreamState
from jsproto.grammar.headers import first_value
from jsproto.grammar.subjects import matches
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.settings import accept, change

MAX_SEQUENCE: Final = 2**64 - 1
"""The last sequence of a stream; nats-server goes on with 0."""


@event
class Publication:
    """A message on its way into a stream; ``header`` is the raw block, None when there is none."""

    subject: bytes
    header: bytes | None
    payload: bytes

    def value(self, name: str) -> bytes | None:
        """The first value of a header; None when it is absent."""
        return None if self.header is None else first_value(self.header, name.encode())

    @property
    def rollup(self) -> str:
        """What the message replaces: ``sub``, ``all``, a word that is neither, or nothing."""
        return (self.value("Nats-Rollup") or b"").decode("utf-8", "replace").lower()


@event
class Stored:
    """A message of a stream. ``timestamp`` is nanoseconds since 1970, ``arrived`` the same moment as ``now`` was."""

    seq: int
    subject: bytes
    header: bytes | None
    payload: bytes
    timestamp: int
    arrived: float


class StreamFollower(Protocol):
    """Who wants to know what happens to a stream."""

    def stored(self, message: Stored, now: float) -> None:
        """It stored this."""

    def removed(self, message: Stored, now: float) -> None:
        """It removed this."""


class Watcher(StreamFollower, Protocol):
    """A follower that has a say in what is kept: a consumer."""

    def wants(self, seq: int) -> bool:
        """Whether it still needs that message."""


class Stream:
    """The messages of one stream, oldest first. ``created`` is nanoseconds since 1970.

    ``followers`` and ``watchers`` (its consumers) are told what happens.
    """

    __slots__ = (
        "_by_subject",
        "_bytes",
        "_context",
        "_ids",
        "_ids_in_order",
        "_last_timestamp",
        "_messages",
        "_now",
        "_unused",
        "config",
        "created",
        "first_seq",
        "followers",
        "last_msg_id",
        "last_seq",
        "watchers",
    )  # fmt: skip

    def __init__(self, config: StreamConfig, context: ServerContext, now: float) -> None:
        """APIError when the server refuses ``config``; what it accepts is ``self.config``."""
        self.config = accept(config, context)
        self.created = context.timestamp(now)
        self.first_seq = max(1, config.first_seq or 1)
        self.last_seq = self.first_seq - 1
        self.last_msg_id = b""
        self.followers: list[StreamFollower] = []
        self.watchers: list[Watcher] = []
        self._context = context
        self._now = now
        self._messages: dict[int, Stored] = {}
        self._unused: list[range] = []
        self._by_subject: dict[bytes, deque[int]] = {}
        self._bytes = 0
        self._last_timestamp: int | None = None
        self._ids: dict[bytes, tuple[int, float]] = {}
        self._ids_in_order: deque[tuple[bytes, float]] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Stored]:
        """The messages, oldest first."""
        return iter(self._messages.values())

    def get(self, seq: int) -> Stored | None:
        """The message with that sequence; None when there is none (any more)."""
        return self._messages.get(seq)

    def last_of(self, subject: bytes) -> int:
        """The sequence of the newest message on a subject (no pattern); 0 when there is none."""
        seqs = self._by_subject.get(subject)
        return seqs[-1] if seqs else 0

    def count_of(self, subject: bytes) -> int:
        """How many messages a subject (no pattern) has."""
        return len(self._by_subject.get(subject, ()))

    def counts(self, pattern: str) -> list[tuple[str, int]]:
        """The subjects that match, in their order, and how many messages each has."""
        named = ((_text(subject), len(seqs)) for subject, seqs in self._by_subject.items() if seqs)
        return sorted((subject, count) for subject, count in named if matches(pattern, subject))

    def matching(self, pattern: bytes, seq: int) -> Iterator[Stored]:
        """The messages from a sequence on whose subject matches, oldest first."""
        wanted, number = _text(pattern), max(seq, self.first_seq)
        while (number := self.used(number)) <= self.last_seq:
            stored = self._messages.get(number)
            if stored is not None and matches(wanted, _text(stored.subject)):
                yield stored
            number += 1

    def used(self, seq: int) -> int:
        """``seq``, or the next one after it that was used: a copy may lack sequences without end."""
        return next((unused.stop for unused in self._unused if seq in unused), seq)

    def last_matching(self, pattern: bytes) -> int:
        """The sequence of the newest message whose subject matches; 0 when there is none."""
        return self.last_of(pattern) or max(self.last_of_each([pattern], self.last_seq), default=0)

    def last_of_each(self, patterns: list[bytes], up_to: int) -> list[int]:
        """The sequence of the newest message of each subject that matches any pattern, up to a sequence; ascending."""
        literal = set(patterns)
        wild = [_text(pattern) for pattern in literal if b"*" in pattern or b">" in pattern]
        seqs: list[int] = []
        for subject, own in self._by_subject.items():
            if subject in literal or any(matches(pattern, _text(subject)) for pattern in wild):
                seqs.append(next((seq for seq in reversed(own) if seq <= up_to), 0))
        return sorted(seq for seq in seqs if seq)

    def sequence_at(self, timestamp: int) -> int:
        """The sequence of the first message at that time (nanoseconds since 1970) or later; the next one if none is."""
        return next((stored.seq for stored in self if stored.timestamp >= timestamp), self.last_seq + 1)

    def listens(self, subject: str) -> bool:
        """Whether the stream takes messages that are published to ``subject``."""
        return any(matches(pattern, subject) for pattern in self.config.subjects or ())

    def state(self) -> StreamState:
        """What the stream holds, as servers say it."""
        first = self._messages.get(self.first_seq)
        fresh = not self._messages and self.last_seq == 0
        deleted = self.last_seq - self.first_seq + 1 - len(self._messages)
        return StreamState(
            messages=len(self._messages),
            bytes=self._bytes,
            first_seq=0 if fresh else self.first_seq,
            first_ts=None if first is None else first.timestamp,
            last_seq=self.last_seq,
            last_ts=self._last_timestamp,
            num_subjects=len(self._by_subject) or None,
            num_deleted=deleted or None,
            consumer_count=len(self.watchers),
        )

    def update(self, config: StreamConfig) -> None:
        """Change the configuration; APIError when the server refuses it. New limits apply at once."""
        self.config = change(self.config, config, self._context)
        for subject in list(self._by_subject):
            self._limit_subject(subject)
        self._limit()

    # -- storing and removing ------------------------------------------------------------------------------------------

    def append(self, message: Publication, now: float) -> int:
        """Store a message, remember its id, discard what limits demand. Returns its sequence.

        APIError (10077), with nothing stored, as of ``no_room``.
        """
        full = self.no_room(message)
        if full is not None:
            raise full
        seq = self.last_seq + 1
        self._now = now
        self._put(Stored(seq, message.subject, message.header, message.payload, self._context.timestamp(now), now))
        self.last_msg_id = message.value(MSG_ID) or b""
        if self.last_msg_id:
            self._ids[self.last_msg_id] = seq, now
            self._ids_in_order.append((self.last_msg_id, now))
        self._limit_subject(message.subject)
        self._limit()
        if message.rollup == "sub":
            self.purge(_text(message.subject), keep=1)
        elif message.rollup == "all":
            self.purge(keep=1)
        if self.config.retention == "interest":
            self.settled(seq)
        return seq

    def copy(self, stored: Stored, now: float) -> None:
        """Store a message of another stream under its own sequence, which must be higher than the last."""
        self._now = now
        self._put(stored)
        self._limit_subject(stored.subject)
        self._limit()

    def _put(self, stored: Stored) -> None:
        if not self._messages:
            self.first_seq = stored.seq
        elif stored.seq > self.last_seq + 1:
            self._unused.append(range(self.last_seq + 1, stored.seq))
        self.last_seq = stored.seq
        self._last_timestamp = stored.timestamp
        self._messages[stored.seq] = stored
        self._by_subject.setdefault(stored.subject, deque()).append(stored.seq)
        self._bytes += self.size(stored)
        for follower in (*self.followers, *self.watchers):
            follower.stored(stored, self._now)

    def remove(self, seq: int) -> bool:
        """Delete one message; False when there is none with that sequence."""
        stored = self._messages.pop(seq, None)
        if stored is None:
            return False
        seqs = self._by_subject[stored.subject]
        seqs.remove(seq)  # quick where limits do it: the first of them
        if not seqs:
            del self._by_subject[stored.subject]
        self._bytes -= self.size(stored)
        while self.first_seq <= self.last_seq and self.first_seq not in self._messages:
            self.first_seq = self.used(self.first_seq + 1)
        for follower in (*self.followers, *self.watchers):
            follower.removed(stored, self._now)
        return True

    def settled(self, seq: int) -> None:
        """A consumer is done with a message, which goes where that is what messages are kept for."""
        retention = self.config.retention
        if retention == "workqueue" or (
            retention == "interest" and not any(watcher.wants(seq) for watcher in self.watchers)
        ):
            self.remove(seq)

    def unwatch(self, watcher: Watcher) -> None:
        """A consumer is gone, and with it its interest in messages."""
        self.watchers.remove(watcher)
        if self.config.retention == "interest":
            for seq in list(self._messages):
                self.settled(seq)

    def purge(self, subject: str | None = None, *, keep: int = 0, before: int = 0) -> int:
        """Delete the messages, or those whose subject matches a pattern; returns how many.

        The newest ``keep`` of them stay, and with ``before`` those from that sequence on. Where that is after the end
        of the stream, and no ``subject`` is given, the next message has this sequence.
        """
        seqs = [
            stored.seq
            for stored in self._messages.values()
            if (subject is None or matches(subject, _text(stored.subject))) and not 0 < before <= stored.seq
        ]
        if keep:
            del seqs[-keep:]
        for seq in seqs:
            self.remove(seq)
        if subject is None and before > self.last_seq:
            self.first_seq, self.last_seq = before, before - 1
        return len(seqs)

    # -- limits --------------------------------------------------------------------------------------------------------

    def size(self, message: Publication | Stored) -> int:
        """Bytes that a message takes in storage, as nats-server counts them."""
        header = len(message.header or b"")
        size = len(message.subject) + header + len(message.payload)
        if self.config.storage == "memory":
            return size + 16
        return size + (34 if header else 30)

    @property
    def stored_bytes(self) -> int:
        """Bytes that all messages take in storage."""
        return self._bytes

    def no_room(self, message: Publication) -> APIError | None:
        """Why the stream cannot take a message: it discards new ones, or is at its end; None when it can."""
        config = self.config
        if self.last_seq >= MAX_SEQUENCE:
            return refusal(10077, "no sequence is left")
        if config.discard != "new":
            return None
        at_most = config.max_msgs_per_subject or 0
        replaces = 0 < at_most <= self.count_of(message.subject)
        if replaces and config.discard_new_per_subject and not message.rollup:
            return refusal(10077, "maximum messages per subject exceeded")
        if 0 < (config.max_msgs or 0) <= len(self._messages) and not replaces:
            return refusal(10077, "maximum messages exceeded")
        if 0 < (config.max_bytes or 0) < self._bytes + self.size(message):
            # One message of the subject makes room: is it enough?
            oldest = self._messages[self._by_subject[message.subject][0]] if replaces else None
            if oldest is None or self.size(oldest) < self.size(message):
                return refusal(10077, "maximum bytes exceeded")
        return None

    def _limit_subject(self, subject: bytes) -> None:
        at_most = self.config.max_msgs_per_subject or 0
        while 0 < at_most < self.count_of(subject):
            self.remove(self._by_subject[subject][0])

    def _limit(self) -> None:
        if self.config.discard == "new":
            return
        at_most, most_bytes = self.config.max_msgs or 0, self.config.max_bytes or 0
        while 0 < at_most < len(self._messages) or (0 < most_bytes < self._bytes and self._messages):
            self.remove(self.first_seq)

    def deadline(self) -> float | None:
        """When the oldest message will be too old; None when it will not."""
        oldest = self._messages.get(self.first_seq)
        if oldest is None or not self.config.max_age:
            return None
        return oldest.arrived + self.config.max_age

    def expire(self, now: float) -> None:
        """Discard what is too old; ``now`` is also the time of what is removed after this."""
        self._now = now
        while (when := self.deadline()) is not None and when <= now:
            self.remove(self.first_seq)

    # -- message ids ---------------------------------------------------------------------------------------------------

    def duplicate_of(self, msg_id: bytes, now: float) -> int | None:
        """The sequence of the message that had this id within the window; None when there is none."""
        window = self.config.duplicate_window or 0
        while self._ids_in_order and self._ids_in_order[0][1] + window <= now:
            old, when = self._ids_in_order.popleft()
            if old in self._ids and self._ids[old][1] == when:
                del self._ids[old]
        found = self._ids.get(msg_id)
        return None if found is None else found[0]


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")
