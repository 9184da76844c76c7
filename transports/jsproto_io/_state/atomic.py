"""The part of the atomic batch that never waits, for threads and for event loops.

Rules: those of ``_state.shared``. The input that adds a message also returns the ticket of its answer. So an answer
that comes in between is noticed.

Not here: the verbs that wait (``_blocking.atomic`` and ``_aio.atomic``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jsproto.client.publish.atomic import AtomicBatch
from jsproto.errors import LocalProtocolError, OutboundBufferLimitError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.headers import HeadersLike
from jsproto.rules.atomic_batch import AtomicPhase
from jsproto.ticket import Ticket
from jsproto_io._state.batch import BatchBase
from jsproto_io._state.common import warn_unclosed


class AtomicBatchBase(BatchBase):
    """The state of an atomic batch."""

    _core: AtomicBatch

    def __init__(self, core: AtomicBatch, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes

    def __del__(self) -> None:
        # A batch that was left in the middle would keep its inbox until it expires. See BatchReaderBase.
        if self._core.phase in (AtomicPhase.STARTING, AtomicPhase.OPEN):
            warn_unclosed(f"atomic batch {self.batch_id!r}", self)
        self._pending_closes.append(self._core.discard)

    def _add_one(
        self, subject: str, payload: bytes, headers: HeadersLike | None, now: float
    ) -> tuple[int, Ticket[None] | None] | None:
        """Add a message. Returns its sequence, and a ticket if it asks for an answer. None: there is no room yet."""
        try:
            sequence = self._core.add(subject, payload, headers, now=now)
        except OutboundBufferLimitError:
            return None
        except LocalProtocolError:
            if self._core.waiting:
                return None
            raise
        return sequence, self._core.ready() if self._core.waiting else None

    def _commit_now(
        self, subject: str | None, payload: bytes, headers: HeadersLike | None, now: float
    ) -> Ticket[PubAck] | None:
        """Commit. None: there is no room yet."""
        if subject is None and (payload or headers is not None):
            raise LocalProtocolError("a last message needs a subject")
        if self._core.waiting:
            return None
        try:
            return self._core.commit_eob(now) if subject is None else self._core.commit(now, subject, payload, headers)
        except OutboundBufferLimitError:
            return None

    @property
    def acked(self) -> int:
        """The highest batch sequence that the server has answered. Up to it messages are staged, not yet stored."""
        return self._core.acked

    @property
    def sequences(self) -> range:
        """The stream sequences of the messages, in the order of ``add``, once they are stored. Empty before."""
        return self._core.sequences
