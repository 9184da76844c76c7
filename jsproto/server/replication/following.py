"""The sources of a stream: how it follows other streams of the same server.

Each source is a reader with a position of its own, the last sequence of the origin that it has read.

Rules, those of nats-server 2.15.1 (FACTS.md F4.24, F4.25, F4.26):

* A source begins ``SETUP_DELAY`` after it is configured, after its origin is made, and after an election. It goes on
  after its position, which outlives purges of the copies.
* A copy gets a sequence and a time of its own, and a header with its origin. What belongs to the publish goes.
* A copy with a message id that is known already is left out.
* A copy that the stream does not take stops the source, which tries again after ``RETRY_DELAY``.
* An origin that is made anew has another identity. From 2.15 it is copied from its start.

Not here: origins with the retention ``workqueue`` or ``interest``, sources with a ``consumer`` and those of other
servers, which are configured and never followed. Growing pauses. The later start of a source that an update adds.
"""

from __future__ import annotations

from collections.abc import Callable
from math import fmod
from typing import Final

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig, StreamSource
from jsproto.grammar.headers import appended
from jsproto.server.publish.checks import STREAM_SOURCE, check_copy
from jsproto.server.replication.sourcing import copied
from jsproto.server.store.context import ServerContext
from jsproto.server.store.origin import Taking
from jsproto.server.store.stream import Publication, Stored, Stream

SETUP_DELAY: Final = 0.1  # seconds
RETRY_DELAY: Final = 2.1  # seconds
_HEARTBEAT: Final = 1.0  # seconds
_IDENTITY_SINCE: Final = (2, 15, 0)


class Source:
    """One source of a stream.

    Attributes: ``position`` (the last sequence that it has read, 0 for none), ``lag`` (messages that it lacks, as
    servers count them), ``is_missing`` (its origin did not exist when it was last looked for).
    """

    __slots__ = (
        "_context",
        "_due_at",
        "_heard_at",
        "_identity",
        "_origin",
        "_parts",
        "_read",
        "_stream",
        "_taking",
        "is_missing",
        "lag",
        "position",
    )  # fmt: skip

    def __init__(self, source: StreamSource, stream: Stream, context: ServerContext, now: float) -> None:
        """Copy ``source`` into ``stream``, which has it in its configuration. ``now``: seconds, as everywhere here."""
        self.position = 0
        self.lag = 0
        self.is_missing = False
        self._stream = stream
        self._context = context
        self._taking = Taking(source, is_source=True)
        transforms = source.get("subject_transforms") or [{"src": source.get("filter_subject") or ">"}]
        filters = "\f".join(one.get("src") or ">" for one in transforms)
        destinations = "\f".join(one.get("dest") or ">" for one in transforms)
        self._parts = source["name"], f"{filters} {destinations}"
        self._origin: Stream | None = None
        self._identity = ""
        self._read = 0
        self._heard_at: float | None = None
        self._due_at: float | None = now + SETUP_DELAY

    def stored(self, message: Stored, now: float) -> None:
        """The origin stored ``message``."""
        if self._due_at is None:  # else it stopped at an earlier message
            self._context.in_turn(self._catch_up, now)

    def removed(self, message: Stored, now: float) -> None:
        """The origin removed ``message``. The copy stays."""

    def deadline(self) -> float | None:
        """When ``begin`` is due, in seconds. None: nothing is due by time alone."""
        return self._due_at

    def begin(self, origin: Stream | None, now: float) -> None:
        """Follow ``origin``, the stream that has the name of the source now. None: there is none."""
        self.stop(now)
        self.is_missing = origin is None
        if origin is None or origin.config.retention != "limits":
            return
        if self._identity not in ("", origin.identity) and self._context.release >= _IDENTITY_SINCE:
            self.position = 0
        self._identity = origin.identity
        self._read = self.position
        self._origin = origin
        self._heard_at = now
        origin.followers.append(self)
        self._context.in_turn(self._catch_up, now)

    def begin_later(self, now: float) -> None:
        """Begin, or begin again, after a moment."""
        self._due_at = now + SETUP_DELAY

    def stop(self, now: float) -> None:
        """Follow nothing any more. The position stays."""
        self._due_at = None
        if self._origin is not None:
            self._heard_at = now - (self.active(now) or 0.0)
            self._origin.followers.remove(self)
            self._origin = None

    def active(self, now: float) -> float | None:
        """The seconds since the origin was heard of, which sends a heartbeat every second. None: it was not yet."""
        if self._heard_at is None:
            return None
        silent = now - self._heard_at
        return silent if self._origin is None else fmod(silent, _HEARTBEAT)

    def is_of(self, name: str) -> bool:
        """Whether it copies the stream ``name``."""
        return self._parts[0] == name

    def _catch_up(self, now: float) -> None:
        """Copy what the origin has after the position."""
        new = [] if self._origin is None else self._origin.after(self._read)
        waiting = [(one, subject) for one in new if (subject := self._taking.subject_of(one))]
        for number, (stored, subject) in enumerate(waiting):
            self._heard_at = now
            copy = Publication(subject, self._header(stored), stored.payload)
            try:
                if check_copy(self._stream, copy, now):
                    self._stream.append(copy, now)
            except APIError:
                self.lag = max(0, len(waiting) - number - 2)
                self._due_at = now + RETRY_DELAY
                return
            self.position = self._read = stored.seq
        self.lag = 0
        if new:
            self._read = new[-1].seq

    def _header(self, stored: Stored) -> bytes:
        name, patterns = self._parts
        value = f"{name} {stored.seq} {patterns} ".encode() + stored.subject
        if self._context.release >= _IDENTITY_SINCE:
            value += b" " + self._identity.encode()
        return appended(copied(stored, of_source=True).header, STREAM_SOURCE.encode(), value)


class Sources:
    """All sources of a stream that can be followed, in the order of its configuration."""

    __slots__ = ("_context", "_find", "_is_stopped", "_sources", "_stream")

    def __init__(self, stream: Stream, context: ServerContext, find: Callable[[str], Stream | None]) -> None:
        """``find``: returns the stream of a name, None if there is none."""
        self._stream = stream
        self._context = context
        self._find = find
        self._is_stopped = False
        self._sources: list[tuple[StreamSource, Source]] = []

    def configure(self, config: StreamConfig, now: float) -> None:
        """Follow the sources in ``config``: those that stay go on, apart from their start."""
        known = [(_identity_of(configured), source) for configured, source in self._sources]
        wanted = [one for one in config.sources or () if not one.get("external") and not one.get("consumer")]
        sources: list[tuple[StreamSource, Source]] = []
        for one in wanted:
            there = next((source for identity, source in known if identity == _identity_of(one)), None)
            sources.append((one, there or Source(one, self._stream, self._context, now)))
        kept = [source for _, source in sources]
        for _, source in self._sources:
            if source not in kept:
                source.stop(now)
        self._sources = sources

    def of(self, configured: StreamSource) -> Source | None:
        """The source that follows ``configured``. None: it is not followed."""
        return next((source for one, source in self._sources if one == configured), None)

    def made(self, name: str, now: float) -> None:
        """A stream of that name was made."""
        for _, source in self._sources:
            if source.is_of(name):
                source.begin_later(now)

    def deleted(self, name: str, now: float) -> None:
        """The stream of that name was deleted."""
        for _, source in self._sources:
            if source.is_of(name):
                source.stop(now)

    def start(self, now: float) -> None:
        """The stream has a leader again."""
        self._is_stopped = False
        for _, source in self._sources:
            source.begin_later(now)

    def stop(self, now: float) -> None:
        """The stream has no leader any more, or is deleted."""
        self._is_stopped = True
        for _, source in self._sources:
            source.stop(now)

    def handle_timeout(self, now: float) -> None:
        """Begin what is due at ``now``."""
        for configured, source in self._sources:
            when = source.deadline()
            if when is not None and when <= now and not self._is_stopped:
                source.begin(self._find(configured["name"]), now)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: nothing is due by time alone."""
        deadlines = (source.deadline() for _, source in self._sources if not self._is_stopped)
        return min((when for when in deadlines if when is not None), default=None)


def _identity_of(source: StreamSource) -> dict[str, object]:
    """What makes it another source when it changes."""
    return {name: value for name, value in source.items() if name not in ("opt_start_seq", "opt_start_time")}
