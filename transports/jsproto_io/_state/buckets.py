"""The part of buckets that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.

Not here: the verbs that wait (``_blocking.buckets`` and ``_aio.buckets``).
"""

from __future__ import annotations

from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.bucket_session import BucketSession
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.session_token import SessionToken


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
