"""The facade for event loops, continued: the keys of a bucket, and sessions in which they are read and written.

Rules: those of ``_aio.connection``.

Not here: lists, watches and buckets as a whole (``_aio.buckets``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jsproto.client.bucket.bucket import Bucket as CoreBucket
from jsproto.client.bucket.bucket_session import BucketSession as CoreBucketSession
from jsproto.client.read.single import ReadLevel
from jsproto.grammar.bucket_keys import KeyValueEntry, key_list
from jsproto.grammar.times import seconds
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.sessions import ConsistentSession
from jsproto_io._state.buckets import BucketSessionBase
from jsproto_io._state.common import Timeout

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class KeyVerbs:
    """The verbs of one key or several."""

    _core: CoreBucket
    _connection: Connection
    _timeout: float

    async def get(
        self,
        key: str,
        revision: int | None = None,
        *,
        level: ReadLevel | None = None,
        timeout: Timeout | None = None,
    ) -> KeyValueEntry:
        """Read the value of a key.

        Args:
            key: the key.
            revision: read this revision of the key, not the last one.
            level: "direct", any replica, which may be behind. "leader", the leader. None: "direct" where the bucket
                allows it.
            timeout: seconds, or a timedelta. None: that of the bucket, or session.

        Raises:
            KeyNotFoundError: the key has no value, or the revision is of another key.
            KeyDeletedError: it was deleted, or has expired. The error is a KeyNotFoundError with the marker's revision.
        """
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(
            lambda now: self._core.get(key, now=now, revision=revision, level=level, timeout=limit), limit
        )

    async def get_many(self, keys: Iterable[str], *, timeout: Timeout | None = None) -> dict[str, KeyValueEntry]:
        """Read the values of many keys, as they were at one moment. Keys without a value are missing.

        Up to 1,024 keys take one request.

        Args:
            keys: the keys, without wildcards.
            timeout: of each step, in seconds or as a timedelta. None: that of the bucket, or session.

        Raises:
            DirectReadsDisabledError: the bucket allows no Direct Get (``direct``).
            UnsupportedByServerError: the server is older than 2.11.
        """
        limit, wanted = seconds(timeout, default=self._timeout), key_list(keys)
        return await self._connection._ask(lambda now: self._core.get_many(wanted, now=now, timeout=limit), limit)

    async def put(self, key: str, value: bytes, *, timeout: Timeout | None = None) -> int:
        """Store a value, whatever the key has. Returns its revision."""
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(lambda now: self._core.put(key, value, now=now, timeout=limit), limit)

    async def create(
        self, key: str, value: bytes, *, ttl: Timeout | None = None, timeout: Timeout | None = None
    ) -> int:
        """Store a value if the key has none. Returns its revision.

        Args:
            key: the key.
            value: its value.
            ttl: how long it lives, in seconds or as a timedelta, rounded up to whole seconds. A server lengthens it to
                ``marker_ttl`` where the bucket has a history.
            timeout: of each step, in seconds or as a timedelta. None: that of the bucket, or session.

        Raises:
            KeyExistsError: the key has a value.
            KeyWrongLastSequenceError: others create and delete it all the time. Or the bucket is a mirror that lags.
            MessageTTLDisabledError: the bucket allows no ``ttl``.
        """
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(
            lambda now: self._core.create(key, value, now=now, ttl=ttl, timeout=limit), limit
        )

    async def update(self, key: str, value: bytes, last: int, *, timeout: Timeout | None = None) -> int:
        """Store a value if the last revision of the key is ``last``, 0 for a key without any. Returns its revision.

        Raises:
            KeyWrongLastSequenceError: it is another one.
        """
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(
            lambda now: self._core.update(key, value, last, now=now, timeout=limit), limit
        )

    async def delete(self, key: str, *, last: int | None = None, timeout: Timeout | None = None) -> int:
        """Delete a key, and keep its history. Returns the revision of the marker.

        Args:
            key: the key.
            last: only if this is its last revision.
            timeout: seconds, or a timedelta. None: that of the bucket, or session.

        Raises:
            KeyWrongLastSequenceError: the last revision is another one.
        """
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(lambda now: self._core.delete(key, now=now, last=last, timeout=limit), limit)

    async def purge(
        self,
        key: str,
        *,
        last: int | None = None,
        ttl: Timeout | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Delete a key and its history. Returns the revision of the marker.

        Args:
            key: the key.
            last: only if this is its last revision.
            ttl: how long the marker stays, in seconds or as a timedelta. None: until ``purge_deletes()``.
            timeout: seconds, or a timedelta. None: that of the bucket, or session.

        Raises:
            KeyWrongLastSequenceError: the last revision is another one.
            MessageTTLDisabledError: the bucket allows no ``ttl``.
        """
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(
            lambda now: self._core.purge(key, now=now, last=last, ttl=ttl, timeout=limit), limit
        )


class BucketSession(KeyVerbs, BucketSessionBase, Managed):
    """Reads and writes of a bucket in one session. Made by ``Bucket.session()``.

    Example:

        async with bucket.session() as session:
            await session.put("tea", b"3.00")
            entry = await session.get("tea")
            print(entry.value)

    What it reads by key shows the bucket as it was at its ``token``, or later. The token rises with what it writes and
    reads. The verbs are those of the bucket, and ``get_many`` takes 1,024 keys at most. Lists and watches of the bucket
    are no part of it, and its snapshots show all writes anyhow. As a context manager it closes at the end.

    Its reads raise, besides what they list:
        StaleReadError: no answer was new enough in time.
        StreamRolledBackError, StreamRecreatedError: the bucket came back shorter, or was made anew.
            ``session.forget(bucket.stream)`` goes on.
    """

    _core: CoreBucketSession

    def __init__(self, core: CoreBucketSession, connection: Connection, timeout: float) -> None:
        super().__init__(core)
        self._connection = connection
        self._timeout = timeout  # of each verb
        self._session = ConsistentSession(core.session, connection, timeout)

    @property
    def session(self) -> ConsistentSession:
        """The session itself, which takes acknowledgements and tokens of others: ``record``, ``observe``, ``merge``."""
        return self._session

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Send no more requests. ``token`` can still be taken."""
        await self._session.close()
