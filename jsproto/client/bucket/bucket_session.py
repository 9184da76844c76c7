"""A session with a bucket: what it reads by key is never older than what it has written and read.

How it works: the verbs of the bucket, which ask a consistent session (``client.read.consistent_session``) instead of
the JetStream. Its token can be handed to another process.

Rules:

* Reads and writes by key count as seen. ``create`` looks at a key through the leader.
* A mirror has no session: what is written goes to its origin, whose sequences are others.

Not here: lists, watches and snapshots, which are those of the bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jsproto.client.bucket.bucket import Bucket
from jsproto.errors import LocalProtocolError

if TYPE_CHECKING:
    from jsproto.client.read.consistent_session import ConsistentSession
    from jsproto.client.read.single import ReadLevel
    from jsproto.grammar.session_token import SessionToken


class BucketSession(Bucket):
    """The keys of a bucket, as a session sees them. Made by ``open_session``.

    Attribute: ``session``, a ``ConsistentSession``.

    Its reads fail, besides, with:
        StaleReadError: no answer was new enough in time.
        StreamRolledBackError, StreamRecreatedError: sequences of the session mean other messages now.
    """

    __slots__ = ("session",)

    def __init__(self, bucket: Bucket, session: ConsistentSession) -> None:
        super().__init__(bucket._js, bucket.space, bucket.config)
        self.session = self._asks = session


def open_session(
    bucket: Bucket,
    *,
    token: SessionToken | bytes | None = None,
    level: ReadLevel = "direct",
    timeout: float | None = None,
) -> BucketSession:
    """A session that knows ``token``, of another session. The arguments are those of ``ConsistentSession``.

    Raises:
        BadTokenError: the bytes are no token.
        LocalProtocolError: the bucket is a mirror, or ``level`` is no level.
    """
    if bucket.config.mirror is not None:
        raise LocalProtocolError(f"bucket {bucket.space.bucket} is a mirror: open the session on its origin")
    session = bucket._js.consistent_session(token=token, level=level, timeout=timeout)
    return BucketSession(bucket, session)
