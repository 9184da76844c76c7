"""The part of transactions over keys that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.

Not here: the verbs that wait (``_blocking.transactions`` and ``_aio.transactions``).
"""

from __future__ import annotations

from jsproto.client.bucket.transaction import Transaction
from jsproto.errors import Error, LocalProtocolError


class TransactionBase:
    """The state of a transaction."""

    def __init__(self, core: Transaction) -> None:
        self._core = core
        self._is_entered = False

    def __repr__(self) -> str:
        return f"<Transaction of bucket {self._core.bucket}: {self._core.phase.name.lower()}>"

    @property
    def _entered(self) -> Transaction:
        """What its verbs are of. LocalProtocolError before its block: nothing would store what they do."""
        if not self._is_entered:
            raise LocalProtocolError(
                "a transaction is a block: `with bucket.transaction() as tx:`, or `async with` on event loops"
            )
        return self._core

    @property
    def revisions(self) -> dict[str, int]:
        """Once it is stored, the revision of each key that it has written. Empty before."""
        return dict(self._core.revisions)

    @property
    def error(self) -> Error | None:
        """Why it has ended without being stored, as far as that is known. None before, and after a success."""
        return self._core.error
