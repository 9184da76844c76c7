"""The streams that one stream copies: its sources, and its mirror where a consumer feeds it.

Rules, those of nats-server 2.15.1:

* Each begins ``SETUP_DELAY`` after it is configured, after its origin is made, and after an election. It goes on after
  its position, which outlives purges of the copies (FACTS.md F4.26).
* A source reads a stream that keeps its messages from the store.
* From 2.14 a stream that deletes acknowledged messages is read by a durable consumer. So is any by the ``consumer`` of
  the configuration.
* The consumer goes with what has made it, unless another source of the stream has the same one (FACTS.md F4.33).

Not here: origins with the retention ``workqueue`` or ``interest`` before 2.14, and those of other servers, which are
configured and never followed. Mirrors of streams that keep their messages (``replicas``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jsproto.grammar.config import StreamSource
from jsproto.grammar.sources import SOURCING_LEVEL
from jsproto.outbox import Outbox
from jsproto.server.replication.consumer_reader import ConsumerReader
from jsproto.server.replication.consumer_requests import ConsumerRequests
from jsproto.server.replication.progress import SETUP_DELAY, MirrorWriter, Progress, SourceWriter
from jsproto.server.replication.store_reader import StoreReader
from jsproto.server.store.context import ServerContext
from jsproto.server.store.origin import index_of
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Stream
from jsproto.timers import earliest


def is_read_by_consumer(block: StreamSource, origin: Stream, context: ServerContext) -> bool:
    """Whether the server reads ``origin`` by a durable consumer. ``block``: how it is configured."""
    is_kept = origin.config.retention == "limits"
    return bool(block.get("consumer")) or (not is_kept and context.api_level >= SOURCING_LEVEL)


class Source:
    """One source of a stream, or its mirror.

    Attributes: ``progress`` (how far it is), ``requests`` (how it is configured), ``consumer`` (reads by a consumer).
    """

    __slots__ = ("_context", "_store", "_stream", "consumer", "progress", "requests")

    def __init__(
        self,
        block: StreamSource,
        stream: Stream,
        context: ServerContext,
        outbox: Outbox,
        now: float,
        *,
        is_mirror: bool,
    ) -> None:
        """Copy into ``stream``, which has ``block`` in its configuration. ``now``: seconds, as everywhere here."""
        self.progress = Progress(due_at=now + SETUP_DELAY)
        self._stream = stream
        self._context = context
        writer = MirrorWriter(block, stream) if is_mirror else SourceWriter(block, stream, self.progress)
        self.requests = ConsumerRequests(block, stream, context, is_mirror=is_mirror)
        self.consumer = ConsumerReader(self.requests, self.progress, writer, context, outbox)
        self._store = None if is_mirror else StoreReader(block, self.progress, writer, context)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: nothing is due by time alone."""
        return self.consumer.deadline() if self.progress.due_at is None else self.progress.due_at

    def handle_timeout(self, find: Callable[[str], Stream | None], now: float) -> None:
        """Do what is due at ``now``. ``find``: returns the stream of a name, None if there is none."""
        if self.progress.due_at is None:
            self.consumer.handle_timeout(now)
        elif self.progress.due_at <= now:
            self._begin(find(self.requests.origin), now)

    def begin_later(self, now: float) -> None:
        """Begin, or begin again, after a moment."""
        self.progress.due_at = now + SETUP_DELAY

    def made(self, name: str, now: float) -> None:
        """A stream of that name was made. A consumer that is followed is missed later."""
        if name == self.requests.origin and self.consumer.is_idle and self.requests.deliver_subject is None:
            self.begin_later(now)

    def deleted(self, name: str, now: float) -> None:
        """The stream of that name was deleted. A consumer that is followed is missed later."""
        if name == self.requests.origin and self.consumer.is_idle and self.requests.deliver_subject is None:
            self.stop(now)

    def stop(self, now: float) -> None:
        """Follow nothing any more. The position stays."""
        self.progress.due_at = None
        self.consumer.stop()
        if self._store is not None:
            self._store.stop(now)

    @property
    def made_consumer(self) -> tuple[str, str] | None:
        """The stream and the name of the consumer that the server has made for it. None: it has made none."""
        name = self.consumer.consumer
        return None if name is None or self.requests.deliver_subject is not None else (self.requests.origin, name)

    def active(self, now: float) -> float | None:
        """The seconds since the origin was heard of. None: it was not yet."""
        if self._store is not None:
            return self._store.active(now)
        return None if self.progress.heard_at is None else now - self.progress.heard_at

    def _begin(self, origin: Stream | None, now: float) -> None:
        """Read ``origin``, the stream that has the name now. None: there is none."""
        self.stop(now)
        self.progress.error = None
        if self.requests.is_mirror:
            self.progress.position = self._stream.last_seq
        if self.requests.block.get("consumer"):
            self.consumer.begin(now)
        elif origin is None:
            self.progress.error = refusal(10059)
        elif is_read_by_consumer(self.requests.block, origin, self._context):
            self.consumer.begin(now)
        elif self._store is not None and origin.config.retention == "limits":
            self._store.begin(origin, now)


class Sources:
    """All that one stream copies and that is followed here, in the order of its configuration."""

    __slots__ = ("_context", "_find", "_is_stopped", "_outbox", "_sources", "_stream")

    def __init__(
        self, stream: Stream, context: ServerContext, outbox: Outbox, find: Callable[[str], Stream | None]
    ) -> None:
        """``find``: returns the stream of a name, None if there is none."""
        self._stream = stream
        self._context = context
        self._outbox = outbox
        self._find = find
        self._is_stopped = False
        self._sources: list[Source] = []

    def configure(self, mirrors: Sequence[StreamSource], sources: Sequence[StreamSource], now: float) -> None:
        """Follow the ``mirrors``, one or none, and the ``sources``. What stays goes on, apart from its start."""
        known = {index_of(source.requests.block): source for source in self._sources}
        before, self._sources = self._sources, []
        for number, block in enumerate((*mirrors, *sources)):
            if block.get("external"):
                continue
            source = known.pop(index_of(block), None)
            if source is None:
                is_mirror = number < len(mirrors)
                source = Source(block, self._stream, self._context, self._outbox, now, is_mirror=is_mirror)
            source.requests.block = block
            self._sources.append(source)
        for source in known.values():
            source.stop(now)
        self._delete_consumers(before)

    def of(self, configured: StreamSource) -> Source | None:
        """The source, or the mirror, that follows ``configured``. None: it is not followed."""
        return next((source for source in self._sources if source.requests.block == configured), None)

    def made(self, name: str, now: float) -> None:
        """A stream of that name was made."""
        for source in self._sources:
            source.made(name, now)

    def deleted(self, name: str, now: float) -> None:
        """The stream of that name was deleted."""
        for source in self._sources:
            source.deleted(name, now)

    def saved(self) -> dict[str, Any]:
        """How far each is, as JSON, by what tells it from the others."""
        return {
            index_of(one.requests.block): [one.progress.position, one.progress.copied, one.progress.identity]
            for one in self._sources
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on where ``saved`` says, when they begin."""
        for source in self._sources:
            position, copied, identity = saved.get(index_of(source.requests.block), (0, 0, ""))
            source.progress.position, source.progress.copied, source.progress.identity = position, copied, identity

    def start(self, now: float) -> None:
        """The stream has a leader again."""
        self._is_stopped = False
        for source in self._sources:
            source.begin_later(now)

    def stop(self, now: float) -> None:
        """The stream has no leader any more."""
        self._is_stopped = True
        for source in self._sources:
            source.stop(now)

    def close(self, now: float) -> None:
        """The stream is deleted, and with it the consumers that it has made."""
        self.stop(now)
        before, self._sources = self._sources, []
        self._delete_consumers(before)

    def handle_timeout(self, now: float) -> None:
        """Begin what is due at ``now``."""
        if not self._is_stopped:
            for source in self._sources:
                source.handle_timeout(self._find, now)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: nothing is due by time alone."""
        return None if self._is_stopped else earliest([source.deadline() for source in self._sources])

    def _delete_consumers(self, before: list[Source]) -> None:
        """Delete the consumers that the sources ``before`` have made, and that no source uses any more."""
        made = {source.made_consumer: source for source in before if source.made_consumer is not None}
        used = {(source.requests.origin, source.requests.name) for source in self._sources if made}
        for consumer, source in made.items():
            if consumer not in used:
                reply = f"$JSC.R.{self._context.next_id()[:8]}"  # without it there would be no request
                self._outbox.publish(source.requests.delete(consumer[1]), b"", reply.encode())
