"""The facade for event loops, continued: transactions over keys of a bucket.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from jsproto.client.bucket.attempts import TRIES
from jsproto.client.bucket.bucket import Bucket as CoreBucket
from jsproto.client.bucket.transaction import Isolation
from jsproto.client.bucket.transaction import Transaction as CoreTransaction
from jsproto.client.connection.pause import Pause
from jsproto.errors import LocalProtocolError, TransactionConflictError
from jsproto.grammar.bucket_keys import KeyValueEntry, key_list
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.coordination import Held
from jsproto_io._aio.extras import call_function
from jsproto_io._state.common import Timeout
from jsproto_io._state.transactions import TransactionBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

T = TypeVar("T")


class HasTransactions:
    """The verbs of ``Bucket`` that change several keys at once."""

    _core: CoreBucket
    _connection: Connection
    _timeout: float

    def transaction(self, isolation: Isolation = "snapshot", *, timeout: Timeout | None = None) -> Transaction:
        """Begin a transaction, as a context manager: the end of its block stores all that was written, or nothing.

        A block that is left with an error stores nothing. See ``Transaction`` for what the block may raise at its end.

        Args:
            isolation: "snapshot", written keys have not changed since they were read: no update is lost.
                "serializable", keys that were only read have not either: no write skew.
            timeout: of each step, in seconds or as a timedelta. None: that of the bucket.

        Raises:
            UnsupportedByServerError: the server is older than 2.11.
            LocalProtocolError: the bucket is a mirror, or ``isolation`` is no level.
        """
        limit = seconds(timeout, default=self._timeout)
        return Transaction(self._core.transaction(isolation, timeout=limit), self._connection)

    async def transact(
        self,
        fn: Callable[[Transaction], Awaitable[T]],
        *,
        isolation: Isolation = "snapshot",
        tries: int = TRIES,
        timeout: Timeout | None = None,
    ) -> T:
        """Call ``fn`` with a transaction and store what it has written. After a conflict all that is done again.

        ``fn`` may be called several times, each time with a new transaction. Its other effects are not undone.

        Args:
            fn: reads and writes keys by the transaction that it is given.
            isolation: as in ``transaction()``.
            tries: how often it is called, at most. Random pauses of up to 50 ms lie between.
            timeout: of each step, in seconds or as a timedelta. None: that of the bucket.

        Returns:
            What ``fn`` has returned.

        Raises:
            TransactionConflictError: each try met a conflict, or two of them guarded the same revision, which is past.
            WrongTypeError: ``fn`` is of the other kind: it has to be a function that awaits under asyncio and trio.
            Error: as the block of ``transaction()``, and what ``fn`` raises. Then nothing is tried again.
        """
        connection, limit = self._connection, seconds(timeout, default=self._timeout)
        attempts = self._core.attempts(isolation, tries=tries, timeout=limit)
        while True:
            try:
                async with Transaction(attempts.begin(), connection) as transaction:
                    return await call_function(fn, transaction)
            except TransactionConflictError as error:
                pause = attempts.failed(error)
            await connection._ask(partial(self._pause, pause))

    def _pause(self, length: float, now: float) -> Ticket[None]:
        return Pause(self._connection._session, now + length).over


class Transaction(TransactionBase, Managed):
    """What is read and written in one transaction. Made by ``Bucket.transaction()`` and ``Bucket.transact()``.

    Example:

        async with bucket.transaction() as tx:
            tea = await tx.get("tea")
            await tx.put("tea", b"%.2f" % (float(tea.value) + 0.1))

    Reads show one moment of the bucket: that of the first read, and what the transaction itself writes. Nothing is
    stored before the end of the block. One verb at a time.

    The reads, and the end of the block, raise:
        TransactionConflictError: others have changed a key since. Nothing is stored.
        BucketNotFoundError: the bucket does not exist any more. One that was made anew is not told from the old one.
        DirectReadsDisabledError: the bucket allows no Direct Get (``direct``).
        NoRespondersError: nobody leads the bucket's stream.
        StaleReadError: no replica had come to what is to be read in time.
        TimeoutError: no answer to a read came in time.

    The end of the block raises as well:
        LockLostError: a lock that it guards was lost. Nothing is stored.
        TransactionUnknownError: the answer was lost, and what became of the transaction cannot be found out.
        TransactionsDisabledError: the bucket allows no transactions over several keys (``atomic``).
        TransactionTooLargeError: it has more than 1,000 messages, guards included, or ``keys`` whose messages are too
            large for the server, or for ``max_value_size``.
        UnsupportedByServerError: several keys need a server of 2.12.1. Checks of several keys that are not written need
            2.14.4.
        APIError: the server refuses, for example because the bucket is full.
    """

    def __init__(self, core: CoreTransaction, connection: Connection) -> None:
        super().__init__(core)
        self._connection = connection

    async def __aenter__(self) -> Self:
        self._is_entered = True
        return self

    async def _leave_block(self, error: BaseException | None) -> None:
        if error is None:
            await self._connection._ask(lambda now: self._core.commit(now=now))
        else:
            self._core.discard()

    async def get(self, key: str) -> KeyValueEntry:
        """Read the value of a key. A value that the transaction itself writes has the revision 0.

        Raises:
            KeyNotFoundError: the key has no value.
            KeyDeletedError: it was deleted, or has expired. The error is a KeyNotFoundError with the marker's revision.
        """
        return await self._connection._ask(lambda now: self._entered.get(key, now=now))

    async def get_many(self, keys: Iterable[str]) -> dict[str, KeyValueEntry]:
        """Read the values of many keys, at the price of one round trip. Keys without a value are missing."""
        wanted = key_list(keys)
        return await self._connection._ask(lambda now: self._entered.get_many(wanted, now=now))

    async def put(self, key: str, value: bytes, *, ttl: Timeout | None = None) -> None:
        """Give a key a value. One that was not read is looked up at the end of the block, and checked as well.

        Args:
            key: the key.
            value: its value.
            ttl: how long it lives, in seconds or as a timedelta, in a bucket with ``history=1``.

        Raises:
            LocalProtocolError: a ``ttl`` in a bucket with history, where the value before would come back.
        """
        self._entered.put(key, value, ttl=ttl)

    async def create(self, key: str, value: bytes, *, ttl: Timeout | None = None) -> None:
        """Give a key a value, which must have none.

        Args:
            key: the key.
            value: its value.
            ttl: how long it lives, in seconds or as a timedelta.

        Raises:
            KeyExistsError: the key has a value.
        """
        return await self._connection._ask(lambda now: self._entered.create(key, value, now=now, ttl=ttl))

    async def delete(self, key: str) -> None:
        """Delete a key, and keep its history."""
        self._entered.delete(key)

    async def purge(self, key: str, *, ttl: Timeout | None = None) -> None:
        """Delete a key and its history.

        Args:
            key: the key.
            ttl: how long the marker stays, in seconds or as a timedelta. None: until ``purge_deletes()``.
        """
        self._entered.purge(key, ttl=ttl)

    async def guard(self, key: str | Held, revision: int | None = None) -> None:
        """Store nothing unless a key that is not written keeps its revision, or a lock is held, until the end.

        A lock or an election may be renewed meanwhile: the end of the block checks its newest revision.

        Args:
            key: the key, or a lock or an election of this bucket that is held.
            revision: the revision that the key must have, 0 for a key without any. None: that of the first read.

        Raises:
            LocalProtocolError: the lock is not acquired, is of another bucket, or has a ``revision`` beside it.
        """
        if not isinstance(key, Held):
            await self._connection._ask(lambda now: self._entered.guard(key, revision, now=now))
        elif revision is None:
            self._entered.guard_lock(key._core)
        else:
            raise LocalProtocolError("a lock knows its revision: guard it without one")
