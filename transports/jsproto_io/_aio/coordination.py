"""The facade for event loops, continued: locks and elections on a key of a bucket.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from jsproto.client.bucket.lock import Lock as CoreLock
from jsproto.errors import Error, LockLostError
from jsproto.grammar.bucket_keys import KeyValueEntry
from jsproto.grammar.lock_holder import parse_holder
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto_io._aio.contexts import Managed
from jsproto_io._state.common import Timeout
from jsproto_io._state.coordination import HeldBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class Held(HeldBase, Managed):
    """What a lock and an election have in common."""

    _connection: Connection

    def __init__(self, core: CoreLock, connection: Connection, timeout: float) -> None:
        super().__init__(core, timeout)
        self._connection = connection

    async def renew(self) -> None:
        """Begin its time anew.

        Raises:
            LockLostError: it has expired, or another one has it. It stays lost until it is acquired again.
            TimeoutError, ConnectionLostError: no answer came. It is held for the rest of its time: renew it again.
            LocalProtocolError: it is not acquired.
        """
        await self._connection._ask(lambda now: self._core.renew(now=now, timeout=self._timeout))

    async def put(self, key: str, value: bytes) -> int:
        """Store a value in the same bucket only while this is held, by the server's judgement. Returns its revision.

        Whatever the key had is replaced: one message has one condition, and here that is the lock.

        Raises:
            LockLostError: it was lost. The server has refused the value.
            TimeoutError, ConnectionLostError: no answer came. The value may be stored.
            LocalProtocolError: it is not acquired, or ``key`` cannot be.
        """
        return await self._connection._ask(lambda now: self._core.put(key, value, now=now, timeout=self._timeout))

    async def delete(self, key: str) -> int:
        """Delete a key of the same bucket only while this is held. Otherwise as ``put``."""
        return await self._connection._ask(lambda now: self._core.delete(key, now=now, timeout=self._timeout))

    async def _acquire(self, wait: float | None) -> int:
        def verb(now: float) -> Ticket[CoreLock]:
            ends_at = None if wait is None else now + wait
            return self._core.acquire(now=now, ends_at=ends_at, timeout=self._timeout)

        await self._connection._ask(verb)
        return self.token

    async def _release(self) -> None:
        await self._connection._ask(lambda now: self._core.release(now=now, timeout=self._timeout))

    async def _leave_block(self, error: BaseException | None) -> None:
        if error is not None:  # it may be a cancellation, so nothing is waited for
            self._connection._release(self._core.abandon)
            return
        try:
            await self._release()
        except LockLostError:
            raise
        except Error:
            pass  # it expires


class Lock(Held):
    """A lock that one client holds at a time, until its ``ttl`` has passed. Made by ``Bucket.lock()``.

    Example:

        async with bucket.lock("nightly", ttl=30) as lock:
            await lock.put("nightly.page", b"1")
            await lock.renew()

    As a context manager it is acquired at the beginning of the block, and released at its end. A block that has lost
    it ends with LockLostError, even if the block has caught one already. Only ``acquire()`` makes up for a loss.

    A program that stands still may go on after another one has the lock. So let what the lock protects refuse the past:
    write to the same bucket by ``put()`` of the lock, or in a transaction with ``tx.guard(lock)``. Elsewhere compare
    ``token``.

    Every verb raises, besides what it lists itself:
        BucketNotFoundError: the bucket does not exist any more.
        ValueTooLargeError: its key, or what was to be written, has more bytes than ``max_value_size``.
    """

    def __init__(self, core: CoreLock, connection: Connection, timeout: float, wait: float | None) -> None:
        super().__init__(core, connection, timeout)
        self._wait = wait

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    @property
    def held(self) -> bool:
        """Whether it is held for sure: by this clock, counted from before the last request that succeeded."""
        return self._is_held

    async def acquire(self) -> int:
        """Wait until it is free, and acquire it. Returns the token.

        Raises:
            LockTimeoutError: another client had it for as long as ``wait``, or no answer came: its ``owner`` is None.
                Then it may be held by nobody until ``ttl`` has passed.
            MessageTTLDisabledError: the bucket allows no time to live. ``update_bucket(name, marker_ttl=...)`` does.
            UnsupportedByServerError: the server is older than 2.11.
            LocalProtocolError: it is held, or is being acquired.
        """
        return await self._acquire(self._wait)

    async def release(self) -> None:
        """Let another client have it. No effect on one that is not held.

        Raises:
            LockLostError: it was lost before, and was not acquired again.
            TimeoutError, ConnectionLostError: no answer came. It expires.
        """
        await self._release()


class Election(Held):
    """One leader at a time among the candidates of one name. Made by ``Bucket.election()``.

    Example:

        async with bucket.election("leader", ttl=30, id="host-1") as election:
            await election.campaign()
            print(election.is_leader)

    A leader stays leader as long as it renews. As a context manager it resigns at the end of the block. The errors, and
    what a candidate that stands still has to take care of, are those of ``Lock``.
    """

    @property
    def id(self) -> str:
        """What others know this candidate by."""
        return self._core.owner

    @property
    def is_leader(self) -> bool:
        """Whether this candidate is the leader for sure, as ``Lock.held`` says."""
        return self._is_held

    async def campaign(self, *, wait: Timeout | None = None) -> int:
        """Wait until this candidate is the leader. Returns its token, which is greater than that of any leader before.

        Args:
            wait: how long to wait for other leaders, in seconds or as a timedelta. None: for ever. 0: try once.

        Raises:
            LockTimeoutError: another candidate was the leader for so long, or no answer came.
            LocalProtocolError: this candidate is the leader, or has a campaign.
        """
        return await self._acquire(seconds(wait, "wait"))

    async def resign(self) -> None:
        """Let another candidate lead. No effect on one that is not the leader. Errors as of ``Lock.release``."""
        await self._release()

    async def leader(self) -> str | None:
        """Ask who leads: its id. None: nobody does."""
        holder = await self._connection._ask(lambda now: self._core.holder(now=now, timeout=self._timeout))
        return None if holder is None else holder.owner

    @staticmethod
    def leader_of(entry: KeyValueEntry) -> str | None:
        """Who leads by an entry of a watcher of its key, ``Bucket.watch(election.name)``. None: nobody does."""
        return None if entry.is_marker else parse_holder(entry.value).owner
