"""The part of buckets that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.

Not here: the verbs that wait (``_blocking.buckets`` and ``_aio.buckets``).
"""

from __future__ import annotations

from collections import deque

from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.bucket_session import BucketSession
from jsproto.client.bucket.watch import Watch
from jsproto.errors import Error
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.bucket_keys import KeyValueEntry
from jsproto.grammar.session_token import SessionToken
from jsproto.ticket import Ticket
from jsproto_io._state.common import MAX_POP, ended, waiting, warn_unclosed
from jsproto_io._state.shared import ConnectionBase


class BucketBase:
    """The state of a bucket."""

    def __init__(self, core: Bucket) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<Bucket {self.name}>"

    @property
    def name(self) -> str:
        """The name of the bucket."""
        return self._core.space.bucket

    @property
    def stream(self) -> str:
        """The name of its stream."""
        return self._core.space.stream

    @property
    def config(self) -> BucketConfig:
        """What the bucket was like when it was bound. ``status()`` asks anew."""
        return self._core.config


class BucketSessionBase:
    """The state of a session with a bucket."""

    def __init__(self, core: BucketSession) -> None:
        self._core = core

    def __repr__(self) -> str:
        session = self._core.session
        return f"<BucketSession of {self._core.space.bucket} {'closed' if session.closed else 'open'}: {self.token!r}>"

    @property
    def token(self) -> SessionToken:
        """What the session has written and read so far. ``token.to_bytes()`` can be handed to another process."""
        return self._core.session.token


class KeyWatcherBase:
    """The state of a watcher."""

    _connection: ConnectionBase
    _stopped = False
    _ends_later = False  # a finalizer has begun to end it, while it is dropped

    def __init__(self, core: Watch) -> None:
        self._core = core
        self._taken: deque[KeyValueEntry | None] = deque()

    def __repr__(self) -> str:
        core = self._core
        return f"<KeyWatcher of bucket {core.bucket}: {waiting(self.pending)}{ended(core.error)}>"

    def __del__(self) -> None:
        # A dropped watcher would fill its buffer for ever. See BatchReaderBase.
        if self._ends_later:
            return
        if self._core.error is None and not self._stopped:
            warn_unclosed(f"watcher of bucket {self._core.bucket!r}", self)
        self._connection._pending_closes.append(self._core.unsubscribe)

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take what was received. Without anything, a ticket to wait for."""
        self._taken.extend(self._core.pop_many(MAX_POP, now))
        return None if self._taken else self._core.readable()

    @property
    def pending(self) -> int:
        """How many entries were received and not yet taken."""
        return self._core.pending_msgs + len(self._taken)

    @property
    def error(self) -> Error | None:
        """Why the watcher ended. None: it lives."""
        return self._core.error
