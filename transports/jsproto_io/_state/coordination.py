"""The part of locks and elections that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.

Not here: the verbs that wait (``_blocking.coordination`` and ``_aio.coordination``).
"""

from __future__ import annotations

from jsproto.client.bucket.lock import Lock
from jsproto_io._state.common import warn_unclosed
from jsproto_io._state.shared import ConnectionBase


class HeldBase:
    """The state of what one client holds at a time."""

    _connection: ConnectionBase

    def __init__(self, core: Lock, timeout: float) -> None:
        self._core = core
        self._timeout = timeout  # of each question

    def __repr__(self) -> str:
        held = f"held with token {self.token}" if self._is_held else "not held"
        return f"<{type(self).__name__} {self.name} of bucket {self._core.bucket}: {held}>"

    def __del__(self) -> None:
        # One that is kept alive would be renewed for ever. See BatchReaderBase.
        if self._core.deadline() is not None:
            warn_unclosed(f"{type(self).__name__.lower()} {self.name!r} of bucket {self._core.bucket!r}", self)
            self._connection._pending_closes.append(self._core.abandon)

    @property
    def name(self) -> str:
        """Its key in the bucket."""
        return self._core.name

    @property
    def token(self) -> int:
        """The fencing token: the revision that acquired it last. 0: none has. Each later holder has a greater one."""
        return self._core.token

    @property
    def _is_held(self) -> bool:
        return self._core.is_held(self._connection._now())
