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
from typing import TYPE_CHECKING, Any

from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.known_streams import KnownStreams, time_of
from jsproto.client.read.multi import checked_few
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import Error, StaleReadError
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import StoredMsg, check_seq
from jsproto.grammar.subjects import check_name
from jsproto.rules.position import NEGATIVE, Verdict
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.read.consistency import ConsistentReads


class SessionBatch(DirectBatch):
    """A stream from a sequence on, to its end, and not before the session's token. Verbs: ``DirectBatch``."""

    __slots__ = ("_is_proving", "_reads")

    def __init__(
        self, reads: ConsistentReads, stream: str, *, now: float, seq: int, subject: str | None, batch: int | None,
        max_bytes: int | None, timeout: float,
    ) -> None:  # fmt: skip
        """The keywords are those of ``ConsistentSession.get_batch``."""
        check_seq(seq)
        self._reads = reads
        self._is_proving = False
        js = reads.js
        super().__init__(
            js.session, check_name(stream), api=js.api, inbox=js.session.new_inbox(), draw=js.session.draw, now=now,
            seq=seq, subject=subject, batch=batch, max_bytes=max_bytes,
            timeout=timeout,
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

    @property
    def _known(self) -> KnownStreams:
        return self._reads.known

    def _ask(self, now: float) -> None:
        if self._is_proving or not self._known.owes(self.stream):
            self._waiting = self._is_proving
            if not self._is_proving:
                super()._ask(now)
            return
        self._is_proving = self._waiting = True
        self._timers.clear()
        self._reads.js.session.run(self._proved(self._reads.prove(self.stream, now, self._timeout)))

    def _proved(self, proof: Ticket[None]) -> Generator[Ticket[Any], Any, None]:
        """Go on once the position is proved."""
        try:
            yield proof
        except Error as error:
            if not self.finished and self.error is None:
                self._fail(error)
            return
        self._is_proving = False
        if not self.finished and self.error is None:
            self._ask(self._reads.js.session.now)

    def _judge(self, info: StreamInfo, now: float) -> tuple[Verdict, StreamPosition]:
        """What the leader says of the session's position counts, too."""
        verdict, position = super()._judge(info, now)
        if verdict in NEGATIVE or verdict is Verdict.ASK_AGAIN:
            return verdict, position
        return self._known.heard(self.stream, info, now), self._known.position(self.stream)

    def _must_reach(self) -> int:
        """The token counts too, which may rise while the batch is read."""
        return max(super()._must_reach(), self._known.token[self.stream].floor)

    def _stale_error(self, last_seq: int) -> Error:
        return StaleReadError(self.stream, self._must_reach(), last_seq)


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
        )  # fmt: skip

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` messages, in the order of the stream. The session has read what was taken."""
        messages = super().pop_many(most, now)
        if messages:
            self._reads.known.saw(self.stream, messages[-1].seq, time_of(messages[-1].raw_headers))
        return messages

    def _read_now(self) -> Generator[Ticket[Any], Any, None]:
        known = self._reads.known
        if known.owes(self.stream):
            yield self._reads.prove(self.stream, self._now, self._timeout)
        try:
            yield from super()._read_now()
        except StaleReadError:
            known.doubt(self.stream)  # the next read asks the leader why
            raise
