"""Message schedules (ADR-51): stored messages that a stream publishes to another of its subjects, once or often.

Rules, those of nats-server 2.15.1 (FACTS.md F13):

* The last message of a subject is its schedule, if it has ``Nats-Schedule``.
* What it makes has its payload and headers, or those of the last message under ``Nats-Schedule-Source``. It also has
  ``Nats-Scheduler``, the subject of the schedule, and ``Nats-Schedule-Next``: when it is due again, or ``purge``.
* What is due at once is made in the order of the schedules, before any of it is stored.

Not here: when a schedule is due (``grammar.cron``), what its headers may say (``schedule_headers``). Servers are up to
a second late, and the role is not.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from jsproto.errors import APIError
from jsproto.grammar.cron import next_due
from jsproto.grammar.headers import appended, first_value, without
from jsproto.grammar.publish_headers import (
    MSG_ID,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_NEXT,
    SCHEDULE_ROLLUP,
    SCHEDULE_TTL,
    SCHEDULER,
    SOURCE,
    TARGET,
    TTL,
)
from jsproto.grammar.times import format_timestamp
from jsproto.server.publish.checks import check_open, check_size
from jsproto.server.publish.schedule_headers import zone_of
from jsproto.server.store.stream import PURGE, Publication, Stored, Stream
from jsproto.timers import earliest

_OF_THE_SCHEDULE: Final = re.compile(rb"(?<=\r\n)(?:Nats-Schedule|Nats-Expected-)[^\r\n]*+\r\n")
_NOTHING: Final = b"NATS/1.0\r\n\r\n"
_SECOND: Final = 1_000_000_000


class _Schedule(NamedTuple):
    """A stored schedule: its sequence, when it is due (nanoseconds since 1970), and its subject."""

    seq: int
    when: int
    subject: bytes


class Schedules:
    """The schedules of one stream, which they follow."""

    __slots__ = ("_active", "_is_allowed", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._active: dict[bytes, _Schedule] = {}
        self._is_allowed = False
        self.configure()

    def configure(self) -> None:
        """Follow a change of the configuration: schedules that are stored begin when they are allowed."""
        was_allowed, self._is_allowed = self._is_allowed, bool(self._stream.config.allow_msg_schedules)
        if self._is_allowed and not was_allowed:
            for stored in self._stream:
                self._begin(stored)

    def stored(self, message: Stored, now: float) -> None:
        """The stream stored ``message``: a schedule, or what one has made, or something else in its place."""
        if not self._is_allowed:
            return
        header = message.header or b""
        scheduler = first_value(header, SCHEDULER.encode()) or b""
        if not self._begin(message) and not scheduler:
            self._active.pop(message.subject, None)
        following = first_value(header, SCHEDULE_NEXT.encode()) or PURGE
        if following != PURGE and scheduler in self._active:
            when = next_due(f"@at {_text(following)}", None, 0, 0).when
            self._active[scheduler] = self._active[scheduler]._replace(when=when)

    def removed(self, message: Stored, now: float) -> None:
        """The stream removed ``message``."""
        active = self._active.get(message.subject)
        if active is not None and active.seq == message.seq:
            del self._active[message.subject]

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: no schedule is."""
        return earliest([self._stream.context.seconds(each.when) for each in self._active.values()])

    def handle_timeout(self, now: float) -> None:
        """Store what schedules make that are due at ``now``. One that the stream does not take has ended."""
        due = sorted(each for each in self._active.values() if self._stream.context.seconds(each.when) <= now)
        made = [self._made(each, now) for each in due]
        for schedule, publication in zip(due, made, strict=True):
            try:
                check_open(self._stream)
                check_size(self._stream, publication)
                self._stream.append(publication, now)
            except APIError:
                self._active.pop(schedule.subject, None)

    def _begin(self, stored: Stored) -> bool:
        """Begin the schedule that a stored message is. Returns False if it is none."""
        pattern = first_value(stored.header or b"", SCHEDULE.encode())
        if not pattern:
            return False
        try:
            zone = zone_of(stored.header or b"", self._stream.context)
            due = next_due(_text(pattern), zone, stored.timestamp, stored.timestamp)
        except (ValueError, APIError):
            return False
        self._active[stored.subject] = _Schedule(stored.seq, due.when, stored.subject)
        return True

    def _made(self, schedule: _Schedule, now: float) -> Publication:
        """What a schedule makes that is due."""
        stream, context = self._stream, self._stream.context
        stored = stream.get(schedule.seq)
        assert stored is not None, "a schedule ends with its message"
        own = stored.header or b""
        zone = zone_of(own, context)
        due = next_due(_text(first_value(own, SCHEDULE.encode()) or b""), zone, schedule.when, context.timestamp(now))
        source = stream.get(stream.last_of(first_value(own, SOURCE.encode()) or b"")) or stored
        header: bytes | None = _OF_THE_SCHEDULE.sub(b"", source.header or _NOTHING)
        for name in (MSG_ID, TTL, ROLLUP):
            header = without(header or _NOTHING, name.encode())
        header = appended(header, SCHEDULER.encode(), stored.subject)
        ahead = 0 if zone is None else zone(due.when // _SECOND)
        following = format_timestamp(due.when, ahead).encode() if due.repeats else PURGE
        header = appended(header, SCHEDULE_NEXT.encode(), following)
        for name, wanted in ((TTL, SCHEDULE_TTL), (ROLLUP, SCHEDULE_ROLLUP)):
            value = first_value(own, wanted.encode())
            header = appended(header, name.encode(), value) if value else header
        return Publication(first_value(own, TARGET.encode()) or b"", header, source.payload)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
