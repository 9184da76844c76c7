"""A stream in memory: stored messages, the limits that discard them, the window of message ids.

Rules:

* Sequences count up from ``first_seq``, and are never used again.
* ``append`` refuses a message only if the stream is full and discards new messages, or if no sequence is left.
* Sizes are counted as nats-server counts them, depending on the kind of storage.
* Time is an argument. Messages that are too old go when ``expire`` is called.
* Followers are informed of every message that is stored or removed, whatever the cause.

Not here: which messages may be stored (``publish.checks``), acknowledgements (``server.inlet``), consumers
(``server.consume``), what counters add up (``publish.counters``), what schedules make (``publish.schedules``).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Protocol

from jsproto._event import event
from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig, StreamState
from jsproto.grammar.headers import first_value
from jsproto.grammar.publish_headers import MSG_ID, ROLLUP, SCHEDULE_NEXT, SCHEDULER
from jsproto.grammar.subjects import matches
from jsproto.server.store.context import ServerContext
from jsproto.server.store.lifetime import Lifetimes, is_marker, lengthened, marker
from jsproto.server.store.refusals import refusal
from jsproto.server.store.settings import accept, change
from jsproto.server.store.transform import transform
from jsproto.timers import earliest

STREAM_SOURCE: Final = "Nats-Stream-Source"
"""The header in which a copy of a source says which stream and message it is of."""
PURGE: Final = b"purge"
"""What a message says that ends the schedule under the subject ``Nats-Scheduler``: it is deleted."""

MAX_SEQUENCE: Final = 2**64 - 1
"""The last sequence of a stream. nats-server goes on with 0."""
_ROLLUP_REPLACES_SINCE: Final = (2, 14, 0)


@event
class Publication:
    """A message on its way into a stream. ``header`` is the raw header block, or None."""

    subject: bytes
    header: bytes | None
    payload: bytes

    def value(self, name: str) -> bytes | None:
        """The first value of the header ``name``. None: it is absent."""
        return None if self.header is None else first_value(self.header, name.encode())

    @property
    def rollup(self) -> str:
        """The rollup that the message asks for: ``sub``, ``all``, another word, or nothing."""
        return (self.value(ROLLUP) or b"").decode("utf-8", "replace").lower()


@event
class Stored:
    """A message of a stream. ``timestamp`` is nanoseconds since 1970, ``arrived`` the same moment as ``now``."""

    seq: int
    subject: bytes
    header: bytes | None
    payload: bytes
    timestamp: int
    arrived: float


class StreamFollower(Protocol):
    """What a stream informs of its changes."""

    def stored(self, message: Stored, now: float) -> None:
        """The stream stored ``message``. ``now``: seconds."""

    def removed(self, message: Stored, now: float) -> None:
        """The stream removed ``message``. ``now``: seconds."""


class Watcher(StreamFollower, Protocol):
    """A follower that has a say in what is kept: a consumer."""

    def takes(self, subject: bytes) -> bool:
        """Whether its filters take messages under ``subject``."""

    @property
    def floor(self) -> int:
        """The sequence up to which it has acknowledged everything."""

    def wants(self, seq: int) -> bool:
        """Whether it still needs the message with the sequence ``seq``."""

    def purged(self, subject: str | None, gone: Sequence[int], counted_by: str | None, now: float) -> None:
        """The stream was purged: messages of ``subject``, or all of them. ``now``: seconds.

        ``gone``: the sequences of the messages that went. They are not reported to ``removed``. ``counted_by``: the
        subject, or the pattern, by which one that went alone is counted. None: what is left is counted anew.
        """


class Stream:
    """One stream. Iterating gives its messages, oldest first, and ``len`` their number.

    Attributes:

    * ``config``: as ``settings.accept`` returns it.
    * ``created``: nanoseconds since 1970.
    * ``identity``: 8 characters, of the server, the name and the creation time. A stream that is made anew has others.
    * ``first_seq``, ``last_seq``: the sequences of the first and the last message, or of where they would be.
    * ``last_msg_id``: the ``Nats-Msg-Id`` of the last message, empty if it has none.
    * ``is_led``: whether messages enter here. Only such a stream stores markers by itself.
    * ``followers``, ``watchers`` (its consumers): they are informed of what is stored and removed.
    """

    __slots__ = (
        "_by_subject",
        "_bytes",
        "_context",
        "_ids",
        "_ids_in_order",
        "_is_fresh",
        "_last_timestamp",
        "_lifetimes",
        "_messages",
        "_now",
        "_unused",
        "config",
        "created",
        "first_seq",
        "followers",
        "identity",
        "is_led",
        "last_msg_id",
        "last_seq",
        "watchers",
    )  # fmt: skip

    def __init__(self, config: StreamConfig, context: ServerContext, now: float) -> None:
        """An empty stream. ``now``: seconds, as in every method here.

        Raises:
            APIError: servers refuse ``config``.
        """
        self.config = accept(config, context)
        self.created = context.timestamp(now)
        self.identity = _identity(context, self.config.name, self.created)
        self.first_seq = max(1, config.first_seq or 1)
        self.last_seq = self.first_seq - 1
        self.last_msg_id = b""
        self.followers: list[StreamFollower] = []
        self.watchers: list[Watcher] = []
        self.is_led = False
        self._lifetimes = Lifetimes()
        self._context = context
        self._now = now
        self._messages: dict[int, Stored] = {}
        self._unused: list[range] = []
        self._is_fresh = not config.first_seq  # so that it has no first sequence
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
        """The message with the sequence ``seq``. None: there is none, or it was removed."""
        return self._messages.get(seq)

    def last_of(self, subject: bytes) -> int:
        """The sequence of the newest message of a subject without wildcards. 0: it has none."""
        seqs = self._by_subject.get(subject)
        return seqs[-1] if seqs else 0

    def before(self, message: Stored) -> int:
        """The sequence of the message before the newest one, ``message``, under the same subject. 0: there is none."""
        seqs = self._by_subject[message.subject]
        return seqs[-2] if len(seqs) > 1 else 0

    def renamed(self, subject: bytes) -> bytes:
        """The subject under which a message to ``subject`` is stored, by the transform of the configuration."""
        wanted = self.config.subject_transform
        if not wanted:
            return subject
        return transform(wanted.get("src") or ">", wanted.get("dest") or "").renamed(subject) or subject

    def count_of(self, subject: bytes) -> int:
        """How many messages a subject without wildcards has."""
        return len(self._by_subject.get(subject, ()))

    def counts(self, pattern: str) -> list[tuple[str, int]]:
        """The subjects that match ``pattern``, sorted, each with its number of messages."""
        named = ((_text(subject), len(seqs)) for subject, seqs in self._by_subject.items() if seqs)
        return sorted((subject, count) for subject, count in named if matches(pattern, subject))

    def after(self, seq: int) -> list[Stored]:
        """The messages with a sequence higher than ``seq``, oldest first."""
        newest: list[Stored] = []
        for stored in reversed(self._messages.values()):
            if stored.seq <= seq:
                break
            newest.append(stored)
        return newest[::-1]

    def matching(self, pattern: bytes, seq: int) -> Iterator[Stored]:
        """The messages from the sequence ``seq`` on whose subject matches ``pattern``, oldest first."""
        wanted, number = _text(pattern), max(seq, self.first_seq)
        while (number := self.used(number)) <= self.last_seq:
            stored = self._messages.get(number)
            if stored is not None and matches(wanted, _text(stored.subject)):
                yield stored
            number += 1

    def used(self, seq: int) -> int:
        """``seq``, or the first sequence after it that was used. A copy can have large ranges of unused ones."""
        return next((unused.stop for unused in self._unused if seq in unused), seq)

    def last_matching(self, pattern: bytes) -> int:
        """The sequence of the newest message whose subject matches ``pattern``. 0: there is none."""
        return self.last_of(pattern) or max(self.last_of_each([pattern], self.last_seq), default=0)

    def last_of_each(self, patterns: list[bytes], up_to: int) -> list[int]:
        """For each subject that matches any of ``patterns``, the sequence of its newest message up to ``up_to``.

        Ascending. A subject without such a message is left out.
        """
        literal = set(patterns)
        wild = [_text(pattern) for pattern in literal if b"*" in pattern or b">" in pattern]
        seqs: list[int] = []
        for subject, own in self._by_subject.items():
            if subject in literal or any(matches(pattern, _text(subject)) for pattern in wild):
                seqs.append(next((seq for seq in reversed(own) if seq <= up_to), 0))
        return sorted(seq for seq in seqs if seq)

    def sequence_at(self, timestamp: int) -> int:
        """The sequence of the first message at ``timestamp`` (nanoseconds since 1970) or later.

        Without one it is the sequence of the next message that is stored.
        """
        return next((stored.seq for stored in self if stored.timestamp >= timestamp), self.last_seq + 1)

    @property
    def context(self) -> ServerContext:
        """What it has in common with the other streams of its server."""
        return self._context

    def state(self) -> StreamState:
        """The stream's state, as STREAM.INFO reports it."""
        first = self._messages.get(self.first_seq)
        deleted = self.last_seq - self.first_seq + 1 - len(self._messages)
        return StreamState(
            messages=len(self._messages),
            bytes=self._bytes,
            first_seq=0 if self._is_untouched else self.first_seq,
            first_ts=None if first is None else first.timestamp,
            last_seq=self.last_seq,
            last_ts=self._last_timestamp,
            num_subjects=len(self._by_subject) or None,
            num_deleted=deleted or None,
            consumer_count=len(self.watchers),
        )

    @property
    def _is_untouched(self) -> bool:
        """Whether it is as it was created: writes and purges have yet to give it a first sequence."""
        return not self._messages and self.last_seq == 0 and self._is_fresh

    def deleted(self) -> list[int]:
        """The sequences between the first and the last one that have no message.

        A stream on disk that was never written to has the sequence 0, as in nats-server.
        """
        if self._is_untouched:
            return [0] if self.config.storage == "file" else []
        return [seq for seq in range(self.first_seq, self.last_seq + 1) if seq not in self._messages]

    def check(self, config: StreamConfig) -> None:
        """Check whether ``update`` may change the configuration.

        Raises:
            APIError: servers refuse ``config``, or the change.
        """
        change(self.config, config, self._context)

    def update(self, config: StreamConfig) -> None:
        """Change the configuration. New limits apply at once.

        Raises:
            APIError: servers refuse ``config``, or the change.
        """
        old, self.config = self.config, change(self.config, config, self._context)
        if old.retention != self.config.retention:
            floor = max((watcher.floor for watcher in self.watchers), default=self.last_seq)
            for seq in [seq for seq in self._messages if seq <= floor]:
                self.settled(seq)
        for subject in list(self._by_subject):
            self._limit_subject(subject)
        self._limit()

    # -- storing and removing ------------------------------------------------------------------------------------------

    def append(self, message: Publication, now: float, *, has_room: bool = False) -> int:
        """Store a message, remember its id, and discard what limits demand. Returns its sequence.

        ``has_room``: there was room when the message was accepted, and nobody asks again.

        Raises:
            APIError: ``no_room`` says that there is none (10077). Nothing is stored.
        """
        is_wanted = self.is_wanted(message.subject)
        full = self.no_room(message) if is_wanted and not has_room else None
        if full is not None:
            raise full
        seq, timestamp = self.last_seq + 1, self._context.timestamp(now)
        self._now = now
        if is_wanted:
            header = lengthened(message.header, self.config)
            self._put(Stored(seq, message.subject, header, message.payload, timestamp, now))
        else:
            self.skip(seq)
            self._last_timestamp = timestamp
        self._remember(message.value(MSG_ID), seq, now)
        self._limit_subject(message.subject)
        self._limit()
        if self.config.allow_rollup_hdrs:  # else it is a copy, which keeps the header
            if message.rollup == "sub":
                self.purge(_text(message.subject), keep=int(is_wanted))
            elif message.rollup == "all":
                self.purge(keep=int(is_wanted))
            if message.value(SCHEDULE_NEXT) == PURGE and (scheduler := message.value(SCHEDULER)):
                self.purge(_text(scheduler))
        return seq

    def is_wanted(self, subject: bytes) -> bool:
        """Whether a message under ``subject`` is stored. With retention ``interest`` a consumer has to take it.

        Else it only uses a sequence.
        """
        return self.config.retention != "interest" or any(watcher.takes(subject) for watcher in self.watchers)

    def copy(self, stored: Stored, now: float) -> None:
        """Store a message of another stream under its own sequence, which is higher than the last."""
        self._now = now
        self._put(stored)
        self._limit_subject(stored.subject)
        self._limit()

    def skip(self, seq: int) -> None:
        """Leave the sequences up to ``seq`` unused, so that the next message comes after them."""
        if not self._messages:
            self.first_seq = max(self.first_seq, seq + 1)
        elif seq > self.last_seq:
            start = (
                self._unused.pop().start
                if self._unused and self._unused[-1].stop > self.last_seq
                else self.last_seq + 1
            )
            self._unused.append(range(start, seq + 1))
        self.last_seq = max(self.last_seq, seq)

    def _put(self, stored: Stored) -> None:
        if not self._messages:
            self.first_seq = stored.seq
        elif stored.seq > self.last_seq + 1:
            self._unused.append(range(self.last_seq + 1, stored.seq))
        self._context.has_stored = True
        self.last_seq = stored.seq
        self._last_timestamp = stored.timestamp
        self._messages[stored.seq] = stored
        self._by_subject.setdefault(stored.subject, deque()).append(stored.seq)
        self._bytes += self.size(stored)
        if self.config.allow_msg_ttl:
            self._lifetimes.add(stored.seq, stored.header, stored.arrived)
        for follower in (*self.followers, *self.watchers):
            follower.stored(stored, self._now)

    def remove(self, seq: int) -> bool:
        """Delete the message with the sequence ``seq``. Returns False if there is none."""
        stored = self._messages.pop(seq, None)
        if stored is None:
            return False
        self._forget(stored)
        for follower in (*self.followers, *self.watchers):
            follower.removed(stored, self._now)
        return True

    def _forget(self, stored: Stored) -> None:
        """Count a message no longer, which is not among the messages any more."""
        seq, seqs = stored.seq, self._by_subject[stored.subject]
        seqs.remove(seq)  # fast when limits do it, because it is the first one
        if not seqs:
            del self._by_subject[stored.subject]
        self._bytes -= self.size(stored)
        self._lifetimes.forget(seq)
        while self.first_seq <= self.last_seq and self.first_seq not in self._messages:
            self.first_seq = self.used(self.first_seq + 1)

    def settled(self, seq: int) -> None:
        """A consumer acknowledged a message.

        Under the retentions ``workqueue`` and ``interest`` it is deleted if no other consumer wants it. Those of a work
        queue want the same message only if one of them has ``sourcing``.
        """
        if self.config.retention == "limits" or any(watcher.wants(seq) for watcher in self.watchers):
            return
        self.remove(seq)

    def unwatch(self, watcher: Watcher) -> None:
        """Inform ``watcher`` no longer: a consumer ended, and with it its interest in messages."""
        self.watchers.remove(watcher)
        if self.config.retention == "interest":
            for seq in list(self._messages):
                self.settled(seq)

    def purge(self, subject: str | None = None, *, keep: int = 0, before: int = 0) -> int:
        """Delete all messages, or those whose subject matches the pattern ``subject``. Returns how many.

        ``keep``: that many of the newest stay. ``before``: those from that sequence on stay. If that sequence is after
        the end of the stream, and there is no ``subject``, it becomes the sequence of the next message.
        """
        if before == 1:
            return 0
        pattern = None if subject == ">" else subject
        if pattern is None and not keep:
            self._is_fresh = False
        gone = self._to_purge(pattern, keep, before)
        for stored in gone:
            del self._messages[stored.seq]
            self._forget(stored)
            for follower in self.followers:
                follower.removed(stored, self._now)
        if pattern is None and not keep and before > self.last_seq:
            self.first_seq, self.last_seq = before, before - 1
        counted_by = None
        if gone and (pattern is not None or keep):  # on disk it is the pattern, whatever the message's subject is
            counted_by = _text(gone[0].subject) if self.config.storage == "memory" else pattern or ">"
        for watcher in self.watchers:
            watcher.purged(subject, [stored.seq for stored in gone], counted_by, self._now)
        return len(gone)

    def _to_purge(self, pattern: str | None, keep: int, before: int) -> list[Stored]:
        """The messages that ``purge`` deletes, oldest first. ``pattern``: None for all subjects."""
        found = [
            stored
            for stored in self._messages.values()
            if (pattern is None or matches(pattern, _text(stored.subject))) and not 0 < before <= stored.seq
        ]
        return found[:-keep] if keep else found

    def truncate(self, since: float, now: float) -> None:
        """Lose the messages that were stored from ``since`` on, in seconds. Other messages get their sequences."""
        self._now, before = now, self.last_seq
        while self._messages and (newest := self._messages[max(self._messages)]).arrived >= since:
            self.remove(newest.seq)
            self.last_seq = newest.seq - 1
            self.first_seq = min(self.first_seq, newest.seq)
        if self.last_seq < before:
            self._last_timestamp = max((stored.timestamp for stored in self), default=None)

    # -- limits --------------------------------------------------------------------------------------------------------

    def size(self, message: Publication | Stored) -> int:
        """The bytes of a message in storage, as nats-server counts them."""
        header = len(message.header or b"")
        size = len(message.subject) + header + len(message.payload)
        if self.config.storage == "memory":
            return size + 16
        return size + (34 if header else 30)

    @property
    def stored_bytes(self) -> int:
        """The bytes of all messages in storage."""
        return self._bytes

    def no_room(self, message: Publication) -> APIError | None:
        """Why the stream cannot take a message: it is full and discards new ones, or has no sequence left.

        None: it can take the message.
        """
        config = self.config
        if self.last_seq >= MAX_SEQUENCE:
            return refusal(10077, "no sequence is left")
        if config.discard != "new":
            return None
        at_most = config.max_msgs_per_subject or 0
        replaces = 0 < at_most <= self.count_of(message.subject)
        if replaces and config.discard_new_per_subject and not self.takes_its_place(message):
            return refusal(10077, "maximum messages per subject exceeded")
        if 0 < (config.max_msgs or 0) <= len(self._messages) and not replaces:
            return refusal(10077, "maximum messages exceeded")
        if 0 < (config.max_bytes or 0) < self._bytes + self.size(message):
            # One message of the subject makes room: is it enough?
            oldest = self._messages[self._by_subject[message.subject][0]] if replaces else None
            if oldest is None or self.size(oldest) < self.size(message):
                return refusal(10077, "maximum bytes exceeded")
        return None

    def takes_its_place(self, message: Publication) -> bool:
        """Whether a message is taken under a subject that is full: a rollup deletes the others, from 2.14."""
        return bool(message.rollup) and self._context.release >= _ROLLUP_REPLACES_SINCE

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
        """When the next message will be too old, in seconds. None: never."""
        ends = self._lifetimes.next()
        age = self.config.max_age
        return earliest((ends, oldest.arrived + age)) if age and (oldest := self._oldest()) is not None else ends

    def expire(self, now: float) -> None:
        """Delete messages that are too old. Later removals without a time happen at ``now`` as well."""
        self._now = now
        age = self.config.max_age
        while age and (oldest := self._oldest()) is not None and oldest.arrived + age <= now:
            self._end(oldest, now)
        for seq in self._lifetimes.due(now):
            if (stored := self._messages.get(seq)) is not None:
                self._end(stored, now)

    def _oldest(self) -> Stored | None:
        """The oldest message that has an end."""
        return next((stored for stored in self if not self._lifetimes.is_endless(stored.seq)), None)

    def _end(self, stored: Stored, now: float) -> None:
        """Delete a message that is too old. A marker takes the place of the last one of its subject."""
        is_last = self.count_of(stored.subject) == 1 and not is_marker(stored.header)
        if is_last and self.config.subject_delete_marker_ttl and self.is_led:
            self.append(Publication(stored.subject, marker(self.config), b""), now)
        self.remove(stored.seq)

    # -- over a restart ------------------------------------------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """All that it is, as JSON: moments in nanoseconds since 1970, bytes in base64."""
        return {
            "config": self.config.to_json(),
            "created": self.created,
            "identity": self.identity,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "last_timestamp": self._last_timestamp,
            "unused": [[unused.start, unused.stop] for unused in self._unused],
            "messages": [
                [one.seq, one.timestamp, *map(_encoded, (one.subject, one.header or b"", one.payload))] for one in self
            ],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Become what ``saved`` says. The stream is new, and nobody follows it yet."""
        seconds = self._context.seconds
        self.created, self.identity = saved["created"], saved["identity"]
        for seq, timestamp, subject, header, payload in saved["messages"]:
            block = _decoded(header) or None
            self._put(Stored(seq, _decoded(subject), block, _decoded(payload), timestamp, seconds(timestamp)))
        self.first_seq, self.last_seq = saved["first_seq"], saved["last_seq"]
        self._last_timestamp = saved["last_timestamp"]
        self._unused = [range(first, end) for first, end in saved["unused"]]
        self.rebuild_ids()

    # -- message ids ---------------------------------------------------------------------------------------------------

    def rebuild_ids(self) -> None:
        """Know the ids of the messages that are there, and no others, as after a restart (FACTS.md F6.12)."""
        self._ids.clear()
        self._ids_in_order.clear()
        self.last_msg_id = b""
        for stored in self:
            self._remember(first_value(stored.header or b"", MSG_ID.encode()), stored.seq, stored.arrived)
        if self.last_seq not in self._messages:
            self.last_msg_id = b""

    def _remember(self, msg_id: bytes | None, seq: int, now: float) -> None:
        """Remember the id of the newest message, if it has one."""
        self.last_msg_id = msg_id or b""
        if msg_id:
            self._ids[msg_id] = seq, now
            self._ids_in_order.append((msg_id, now))

    def duplicate_of(self, msg_id: bytes, now: float) -> int | None:
        """The sequence of the message that had this id within the duplicate window. None: there is none."""
        window = self.config.duplicate_window or 0
        while self._ids_in_order and self._ids_in_order[0][1] + window <= now:
            old, when = self._ids_in_order.popleft()
            if old in self._ids and self._ids[old][1] == when:
                del self._ids[old]
        found = self._ids.get(msg_id)
        return None if found is None else found[0]


def _identity(context: ServerContext, name: str, created: int) -> str:
    return sha256(context.token + f"{created} {name}".encode()).hexdigest()[:8]


def _encoded(data: bytes) -> str:
    return b64encode(data).decode()


def _decoded(text: str) -> bytes:
    return b64decode(text, validate=True)


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")
