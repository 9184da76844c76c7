"""How far a mirror or a source is, and what stores its copies.

Rules, those of nats-server (FACTS.md F1.24, F4.24, F4.39):

* A source appends: a copy gets a sequence and a time of its own, and a header with its origin.
* A copy with a message id that is known already is left out.
* A mirror keeps the sequence and the time of its origin. Sequences that its origin does not have stay unused.

Not here: where messages come from (``store_reader``, ``consumer_reader``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from jsproto.errors import APIError
from jsproto.grammar.config import StreamSource
from jsproto.grammar.headers import appended
from jsproto.server.publish.checks import check_copy
from jsproto.server.replication.copied import copied
from jsproto.server.store.origin import Taking, index_of
from jsproto.server.store.stream import STREAM_SOURCE, Publication, Stored, Stream

SETUP_DELAY: Final = 0.1
"""Seconds before reading begins."""
RETRY_DELAY: Final = 2.0
"""Seconds between two beginnings, at least."""


@dataclass(slots=True)
class Progress:
    """How far one mirror or source is. Moments are the caller's seconds.

    * ``position``: reading goes on after this sequence of the origin.
    * ``copied``: the last sequence of the origin that was copied, 0 for none.
    * ``lag``: messages that are still to come, as servers count them.
    * ``error``: why the copying stands still, None when all is well.
    * ``heard_at``: when the origin was heard of last, None for never.
    * ``due_at``: when reading begins, or begins again, None when it is not due.
    * ``identity``: that of the origin, empty when it is not known, and before 2.15.
    """

    position: int = 0
    copied: int = 0
    lag: int = 0
    error: APIError | None = None
    heard_at: float | None = None
    due_at: float | None = None
    identity: str = ""


class Writer(Protocol):
    """What stores copies."""

    def prepare(self, position: int) -> int:
        """Copies come from after ``position`` on. Returns after which sequence they are new."""

    def write(self, message: Stored, now: float) -> bool:
        """Store a copy of ``message``, as its origin has it. Returns False if the stream does not take it now."""


class SourceWriter:
    """Appends what a source copies."""

    __slots__ = ("_parts", "_progress", "_stream", "_taking")

    def __init__(self, source: StreamSource, stream: Stream, progress: Progress) -> None:
        """Store copies of ``source`` in ``stream``, which has it in its configuration."""
        self._stream = stream
        self._progress = progress
        self._taking = Taking(source, is_source=True)
        self._parts = index_of(source).split(" ", 1)

    def prepare(self, position: int) -> int:
        """Nothing is to be done."""
        return position

    def write(self, message: Stored, now: float) -> bool:
        """Append a copy, unless its message id is known already."""
        copy = Publication(self._stream.renamed(self._taking.renamed(message)), self._header(message), message.payload)
        try:
            accepted = check_copy(self._stream, copy, now)
            if accepted is not None:
                self._stream.append(accepted, now)
        except APIError:
            return False
        return True

    def _header(self, stored: Stored) -> bytes:
        name, patterns = self._parts
        value = f"{name} {stored.seq} {patterns} ".encode() + stored.subject
        if self._progress.identity:
            value += b" " + self._progress.identity.encode()
        return appended(copied(stored, of_source=True).header, STREAM_SOURCE.encode(), value)


class MirrorWriter:
    """Stores what a mirror copies."""

    __slots__ = ("_stream", "_taking")

    def __init__(self, mirror: StreamSource, stream: Stream) -> None:
        """Store copies of ``mirror`` in ``stream``, which has it in its configuration."""
        self._stream = stream
        self._taking = Taking(mirror)

    def prepare(self, position: int) -> int:
        """Leave the sequences up to ``position`` unused."""
        self._stream.skip(position)
        return self._stream.last_seq

    def write(self, message: Stored, now: float) -> bool:
        """Store a copy under its own sequence."""
        subject, header = self._taking.renamed(message), copied(message).header
        self._stream.copy(
            Stored(message.seq, subject, header, message.payload, message.timestamp, message.arrived), now
        )
        return True
