"""The copies of a stream that answer Direct Get: leader, replicas and mirrors, with a lag that can be set.

A stream of three replicas has a leader, which takes what is published, and two replicas that follow it. All of them,
and mirrors with ``mirror_direct``, share one queue group. A choice that only looks random, the same each time, picks
the copy that answers. ``Replica.lag`` can be changed at any time, so that tests get stale reads at will.

Rules:

* A copy sees the changes of its origin in the same order, only later.
* A replica removes what its origin removes.
* A mirror keeps the origin's sequences and times, and has limits of its own.
* A mirror holds only what its filter, its start and its transforms take.
* A message that the origin removes before a mirror has it never gets there.
* A mirror has copied everything when it begins to answer. It goes on answering after its origin is deleted.
* A mirror answers for its origin, not for a stream that the origin mirrors in turn.

Not here: other servers, elections (a new leader has every message). What sources copy, and mirrors that a durable
consumer feeds (``following``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jsproto.errors import LocalProtocolError
from jsproto.grammar.config import StreamSource
from jsproto.outbox import Outbox
from jsproto.server.read.direct import DirectGet
from jsproto.server.replication.copied import copied
from jsproto.server.replication.following import Sources, is_read_by_consumer
from jsproto.server.store.context import ServerContext
from jsproto.server.store.origin import Taking
from jsproto.server.store.settings import origin_of
from jsproto.server.store.stream import Stored, Stream
from jsproto.timers import earliest

QUEUE: Final = "_sys_"
"""The queue group of all copies that answer Direct Get."""
_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a copy lags: it lacks the last ``messages``, and all changes that are younger than ``seconds``.

    With infinite ``seconds`` it has stopped.

    Raises:
        LocalProtocolError: a number is negative.
    """

    messages: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not (self.messages >= 0 and self.seconds >= 0):
            raise LocalProtocolError("a copy is never ahead: messages and seconds must not be negative")


class Replica:
    """A copy that follows its origin. Attributes: ``stream`` (the copy), ``lag`` (may be set), ``origin``."""

    __slots__ = ("_changes", "_context", "_taking", "lag", "origin", "stream")

    def __init__(
        self, origin: Stream, stream: Stream, context: ServerContext, now: float, taking: Taking | None = None
    ) -> None:
        """Copy ``origin`` into ``stream``: all that it has at once, later changes as ``lag`` says.

        ``taking``: what a mirror takes. None for a replica, which takes everything. ``now``: seconds.
        """
        self.origin = origin
        self.stream = stream
        self.lag = Lag(seconds=context.apply_delay if taking is None else 0.0)
        self._taking = taking
        self._context = context
        self._changes: deque[tuple[float, Stored | int]] = deque()  # a message that was stored, or removed
        for stored in list(origin):
            self._copy(stored, now)
        origin.followers.append(self)

    def stored(self, message: Stored, now: float) -> None:
        """The origin stored ``message``."""
        self._changed(message, now)

    def removed(self, message: Stored, now: float) -> None:
        """The origin removed ``message``."""
        if self._taking is None:
            self._changed(message.seq, now)
        elif any(change is message for _, change in self._changes):
            self._changes = deque(one for one in self._changes if one[1] is not message)

    def _changed(self, change: Stored | int, now: float) -> None:
        """Queue a change, and catch up."""
        self._changes.append((now, change))
        self._context.in_turn(self.catch_up, now)

    def catch_up(self, now: float) -> None:
        """Apply the changes that ``lag`` allows at ``now``."""
        while self._changes:
            when, change = self._changes[0]
            if now < when + self.lag.seconds or self._is_kept_back(change):
                return
            if isinstance(change, int):
                self.stream.remove(change)
            else:
                self._copy(change, now)
            self._changes.popleft()

    def deadline(self) -> float | None:
        """When ``catch_up`` has something to do, in seconds. None: time alone changes nothing."""
        if not self._changes or self.lag.seconds == _NEVER or self._is_kept_back(self._changes[0][1]):
            return None
        return self._changes[0][0] + self.lag.seconds

    def _is_kept_back(self, change: Stored | int) -> bool:
        """Whether the change is one of the last messages, which the copy lacks."""
        return not isinstance(change, int) and change.seq > self.origin.last_seq - self.lag.messages

    @property
    def behind(self) -> int:
        """How many messages of the origin it lacks still."""
        return sum(not isinstance(change, int) for _, change in self._changes)

    def stop(self) -> None:
        """Follow the origin no longer. The copy keeps what it has."""
        self.origin.followers.remove(self)

    def _copy(self, stored: Stored, now: float) -> None:
        if self._taking is None:
            self.stream.copy(stored, now)
            return
        subject = self._taking.subject_of(stored)
        if subject is not None and stored.seq > self.stream.last_seq:  # else of another origin that had the name before
            header = copied(stored).header
            copy = Stored(stored.seq, subject, header, stored.payload, stored.timestamp, stored.arrived)
            self.stream.copy(copy, now)


class ReplicaSet:
    """All copies of one stream.

    Attributes: ``replicas`` (those besides the leader), ``mirror`` (copies the store of an origin into this stream, or
    None), ``sources`` (what copies others into this stream, and mirrors by a consumer).
    """

    __slots__ = ("_context", "_outbox", "_prefixes", "_sids", "_stream", "mirror", "replicas", "sources")

    def __init__(
        self,
        stream: Stream,
        context: ServerContext,
        outbox: Outbox,
        prefixes: Sequence[str],
        now: float,
        find: Callable[[str], Stream | None],
    ) -> None:
        """Answer below ``prefixes``, as the configuration says. ``now``: seconds.

        ``find``: returns the stream of a name, None if there is none.
        """
        self.replicas: list[Replica] = []
        self.mirror: Replica | None = None
        self.sources = Sources(stream, context, outbox, find)
        self._stream = stream
        self._context = context
        self._outbox = outbox
        self._prefixes = prefixes
        self._sids: list[int] = []
        self.configure(now)

    def configure(self, now: float) -> None:
        """Follow a change of the configuration: the number of replicas, and the streams to answer for."""
        config = self._stream.config
        others = (config.num_replicas or 1) - 1
        while len(self.replicas) > others:
            self.replicas.pop().stop()
        for replica in self.replicas:
            replica.stream.config = config
        while len(self.replicas) < others:
            copy = Stream(replace(config, persist_mode=None), self._context, now)  # replicas have none
            copy.config = config
            self.replicas.append(Replica(self._stream, copy, self._context, now))
        if config.mirror is None:
            self.follow(None, now)
        self._configure_sources(now)
        names = [config.name] if config.allow_direct else []
        if config.mirror is not None and config.mirror_direct:
            names.append(origin_of(config))
        self._unsubscribe()
        for stream in (self._stream, *(replica.stream for replica in self.replicas)):
            machine = DirectGet(stream, self._context, self._outbox, self.catch_up)
            for name in names:
                for prefix in self._prefixes:
                    for form in (f"{prefix}DIRECT.GET.{name}", f"{prefix}DIRECT.GET.{name}.>"):
                        self._sids.append(self._outbox.subscribe(form, machine, QUEUE))

    def follow(self, origin: Stream | None, now: float) -> None:
        """Mirror ``origin`` from now on, if no consumer of it does. None: mirror nothing any more."""
        if self.mirror is not None:
            self.mirror.stop()
            self.mirror = None
        block = self._stream.config.mirror or StreamSource()
        if origin is not None and not is_read_by_consumer(block, origin, self._context):
            self.mirror = Replica(origin, self._stream, self._context, now, Taking(block))
        self._configure_sources(now)

    def catch_up(self, now: float) -> None:
        """Let every copy apply the changes that its lag allows, and begin the sources that are due."""
        self.sources.handle_timeout(now)
        if self.mirror is not None:
            self.mirror.catch_up(now)
        for replica in self.replicas:
            replica.catch_up(now)

    def deadline(self) -> float | None:
        """When ``catch_up`` has something to do, in seconds. None: time alone changes nothing."""
        followers = self.replicas if self.mirror is None else [self.mirror, *self.replicas]
        return earliest([self.sources.deadline(), *[follower.deadline() for follower in followers]])

    def close(self, now: float) -> None:
        """End all answers, because the stream is deleted. Mirrors of it go on."""
        self._unsubscribe()
        self.follow(None, now)
        self.sources.close(now)

    def _configure_sources(self, now: float) -> None:
        """Follow by consumers what no copy of a store follows."""
        config = self._stream.config
        mirrors = [] if config.mirror is None or self.mirror is not None else [config.mirror]
        self.sources.configure(mirrors, config.sources or (), now)

    def _unsubscribe(self) -> None:
        for sid in self._sids:
            self._outbox.unsubscribe(sid)
        self._sids.clear()
