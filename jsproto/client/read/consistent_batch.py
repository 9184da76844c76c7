"""Reads of many messages in a consistent session: they do not end before the session's token.

A replica that lags ends a batch at its own end and cannot tell. So where a batch ends before the session's token, the
leader is asked whether there is more. The leader itself has to have reached the token.

Rules:

* Messages that were taken count as read.
* Last messages are a snapshot, which takes no answer of a replica that lags behind the token (``snapshot``).

Not here: single reads and proofs of freshness (``consistency``), how a batch is read (``direct``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.multi import checked_few
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import Error, StaleReadError
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.stored import StoredMsg, check_seq
from jsproto.grammar.subjects import check_name

if TYPE_CHECKING:
    from jsproto.client.read.consistent_session import ConsistentSession


class SessionBatch(DirectBatch):
    """A stream from a sequence on, to its end, and not before the session's token. Verbs: ``DirectBatch``."""

    __slots__ = ("_owner",)

    def __init__(
        self, owner: ConsistentSession, stream: str, *, now: float, seq: int, subject: str | None, batch: int | None,
        max_bytes: int | None, timeout: float,
    ) -> None:  # fmt: skip
        """The keywords are those of ``ConsistentSession.get_batch``."""
        check_seq(seq)
        self._owner = owner
        js = owner.js
        super().__init__(
            js.session, check_name(stream), api=js.api, inbox=js.session.new_inbox(), draw=js.session.draw, now=now,
            seq=seq, subject=subject, batch=batch, max_bytes=max_bytes,
            timeout=timeout,
        )  # fmt: skip

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` received messages, in order. The session has read what was taken."""
        messages = super().pop_many(most, now)
        if messages:
            self._owner.observe(self.stream, messages[-1].seq)
        return messages

    def pop_columns(self, most: int, now: float) -> StoredColumns:
        """``pop_many`` as columns.

        Raises:
            RemoteProtocolError: a message has no subject or no time.
        """
        columns = super().pop_columns(most, now)
        if columns.seqs:
            self._owner.observe(self.stream, columns.seqs[-1])
        return columns

    def _must_reach(self) -> int:
        """The token counts too, which may rise while the batch is read."""
        return max(super()._must_reach(), self._owner.token[self.stream].floor)

    def _stale_error(self, last_seq: int) -> Error:
        return StaleReadError(self.stream, self._must_reach(), last_seq)


class SessionLastMsgs(Snapshot):
    """The last message of each of some subjects, at one sequence: the session's token, or later.

    The read fails with TooManyResultsError where more than ``MAX_SUBJECTS`` subjects match.
    """

    __slots__ = ("_owner",)

    def __init__(
        self, owner: ConsistentSession, stream: str, subjects: str | Iterable[str], *, now: float,
        max_bytes: int | None, timeout: float,
    ) -> None:  # fmt: skip
        """The keywords are those of ``ConsistentSession.get_last_msgs_for``."""
        self._owner = owner
        super().__init__(
            owner.js, check_name(stream), checked_few(subjects), now=now, at_once=True,
            least=owner.token[stream].floor, max_bytes=max_bytes, timeout=timeout,
        )  # fmt: skip

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` messages, in the order of the stream. The session has read what was taken."""
        messages = super().pop_many(most, now)
        if messages:
            self._owner.observe(self.stream, messages[-1].seq)
        return messages
