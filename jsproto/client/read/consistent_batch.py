"""Reads of many messages in a consistent session: they do not end before the session's token.

A replica that lags ends a batch at its own end and cannot tell. So where a batch ends before the session's token, the
leader is asked whether there is more. The leader itself has to have reached the token.

Rules:

* Messages that were taken count as read.
* A position that is owed a proof is proved before a page, or an answer, is asked for (``known_streams``).
* Last messages are a snapshot, which takes no answer of a replica that lags behind the token (``snapshot``).

Not here: single reads and proofs of freshness (``consistency``), how a batch is read (``direct``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.known_streams import time_of
from jsproto.client.read.multi import checked_few
from jsproto.client.read.read_options import BatchOptions
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import Error, StaleReadError
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import check_name
from jsproto.rules.position import Verdict
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.read.consistency import ConsistentReads
    from jsproto.client.read.leader import Provable


class SessionGuard:
    """What a session demands of its batches (``leader.Guard``), and of its snapshots (``SnapshotGuard``)."""

    __slots__ = ("_proof", "_reads", "_stream", "_timeout")

    def __init__(self, reads: ConsistentReads, stream: str, timeout: float) -> None:
        """``timeout``: seconds for a proof."""
        self._reads = reads
        self._stream = stream
        self._timeout = timeout
        self._proof: Ticket[None] | None = None  # the one that the batch waits for

    def floor(self) -> int:
        """The token, which may rise while the batch is read."""
        return self._reads.known.token[self._stream].floor

    def owes(self) -> bool:
        """As in ``KnownStreams``."""
        return self._reads.known.owes(self._stream)

    def prove(self, read: Provable, now: float) -> None:
        """Have the position proved, and tell ``read``."""
        self._proof = proof = self._reads.prove(self._stream, now, self._timeout)
        self._reads.js.session.run(self._proved(read, proof))

    def _proved(self, read: Provable, proof: Ticket[None]) -> Generator[Ticket[Any], Any, None]:
        error: Error | None = None
        try:
            yield proof
        except Error as failed:
            error = failed
        if proof is self._proof:  # else the link was lost meanwhile, and another one is awaited
            read.proved(error, self._reads.js.session.now)

    def heard(self, info: StreamInfo, now: float) -> tuple[Verdict, StreamPosition]:
        """What the leader says of the session's position."""
        known = self._reads.known
        return known.heard(self._stream, info, now), known.position(self._stream)

    def proof(self, now: float) -> Ticket[None] | None:
        """As in ``SnapshotGuard``."""
        return self._reads.prove(self._stream, now, self._timeout) if self.owes() else None

    def doubt(self) -> None:
        """As in ``SnapshotGuard``."""
        self._reads.known.doubt(self._stream)

    def stale(self, least: int, come_to: int) -> Error:
        """The servers have not come to the token."""
        return StaleReadError(self._stream, least, come_to)


class SessionBatch(DirectBatch):
    """A stream from a sequence on, to its end, and not before the session's token. Verbs: ``DirectBatch``."""

    __slots__ = ("_known",)

    def __init__(
        self, reads: ConsistentReads, stream: str, *, now: float, timeout: float, **options: Unpack[BatchOptions]
    ) -> None:
        """The keywords are those of ``ConsistentSession.get_batch``."""
        self._known = reads.known
        js = reads.js
        super().__init__(
            js.session, check_name(stream), api=js.api, inbox=js.session.new_inbox(), draw=js.session.draw, now=now,
            timeout=timeout, guard=SessionGuard(reads, stream, timeout), **options,
        )  # fmt: skip

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` received messages, in order. The session has read what was taken."""
        messages = super().pop_many(most, now)
        if messages:
            self._known.saw(self.stream, messages[-1].seq, time_of(messages[-1].raw_headers))
        return messages

    def pop_columns(self, most: int, now: float) -> StoredColumns:
        """``pop_many`` as columns.

        Raises:
            RemoteProtocolError: a message has no subject or no time.
        """
        columns = super().pop_columns(most, now)
        if columns.seqs:
            self._known.saw(self.stream, columns.seqs[-1], time_of(columns.raw_headers[-1]))
        return columns


class SessionLastMsgs(Snapshot):
    """The last message of each of some subjects, at one sequence: the session's token, or later.

    The read fails with TooManyResultsError where more than ``MAX_SUBJECTS`` subjects match.
    """

    __slots__ = ("_reads",)

    def __init__(
        self, reads: ConsistentReads, stream: str, subjects: str | Iterable[str], *, now: float,
        max_bytes: int | None, timeout: float,
    ) -> None:  # fmt: skip
        """The keywords are those of ``ConsistentSession.get_last_msgs_for``."""
        self._reads = reads
        super().__init__(
            reads.js, check_name(stream), checked_few(subjects), now=now, at_once=True,
            least=reads.known.token[stream].floor, max_bytes=max_bytes, timeout=timeout,
            guard=SessionGuard(reads, stream, timeout),
        )  # fmt: skip

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` messages, in the order of the stream. The session has read what was taken."""
        messages = super().pop_many(most, now)
        if messages:
            self._reads.known.saw(self.stream, messages[-1].seq, time_of(messages[-1].raw_headers))
        return messages
