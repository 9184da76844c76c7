"""The facade for event loops, continued: buckets of keys and values.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from jsproto.client.bucket.bucket import Bucket as CoreBucket
from jsproto.client.bucket.bucket_options import KeyOptions, NewBucketOptions, WatchOptions
from jsproto.client.bucket.bucket_session import open_session
from jsproto.client.bucket.bucket_snapshot import BucketSnapshot
from jsproto.client.bucket.listing import OLD_MARKER
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.client.read.single import ReadLevel
from jsproto.errors import TimeoutError
from jsproto.grammar.bucket_config import BucketOptions, BucketStatus
from jsproto.grammar.bucket_keys import KeyValueEntry
from jsproto.grammar.options import explained, named
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto_io._aio.bucket_keys import BucketSession, KeyVerbs
from jsproto_io._aio.coordination import Election, Lock
from jsproto_io._aio.transactions import HasTransactions
from jsproto_io._aio.watching import Watcher
from jsproto_io._state.buckets import BucketBase
from jsproto_io._state.common import Timeout

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

T = TypeVar("T")


class HasBuckets:
    """The verbs of ``JetStream`` that make and find buckets."""

    _core: CoreJetStream
    _connection: Connection

    @explained(BucketOptions, KeyOptions)
    async def create_bucket(
        self, name: str, *, timeout: Timeout | None = None, **options: Unpack[NewBucketOptions]
    ) -> Bucket:
        """Create a bucket of keys and values (ADR-8), or find it with the same configuration.

        An option that is None has its default.

        Args:
            name: letters, digits, ``_`` and ``-``.
            timeout: of each verb of the bucket, too, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            BucketExistsError: the bucket exists with another configuration. ``update_bucket()`` changes it.
            UnsupportedByServerError: the server is too old for an option that was given.
        """
        limit, asked = seconds(timeout, default=self._core.timeout), named(NewBucketOptions, options)
        core = await self._connection._ask(
            lambda now: self._core.create_bucket(name, now=now, timeout=limit, **asked), limit
        )
        return Bucket(core, self._connection, limit)

    @explained(KeyOptions)
    async def bucket(self, name: str, *, timeout: Timeout | None = None, **options: Unpack[KeyOptions]) -> Bucket:
        """Bind to a bucket that exists.

        Args:
            name: its name.
            timeout: of each verb of the bucket, too, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            BucketNotFoundError: it does not exist.
            BadBucketError: the stream of that name is no bucket.
        """
        limit, asked = seconds(timeout, default=self._core.timeout), named(KeyOptions, options)
        core = await self._connection._ask(lambda now: self._core.bucket(name, now=now, timeout=limit, **asked), limit)
        return Bucket(core, self._connection, limit)

    @explained(BucketOptions)
    async def update_bucket(
        self, name: str, *, timeout: Timeout | None = None, **options: Unpack[BucketOptions]
    ) -> BucketStatus:
        """Change those options of a bucket that are given.

        The configuration is fetched first. What has no option here stays as it is. Of two such changes at the same time
        the last one wins.

        Args:
            name: its name.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Raises:
            BucketNotFoundError: it does not exist.
            BadBucketError: the stream of that name is no bucket.
            APIError: an option cannot be changed.
        """
        limit, asked = seconds(timeout, default=self._core.timeout), named(BucketOptions, options)
        return await self._connection._ask(
            lambda now: self._core.update_bucket(name, now=now, timeout=limit, **asked), limit
        )

    async def delete_bucket(self, name: str, *, timeout: Timeout | None = None) -> bool:
        """Delete a bucket and all its keys. Returns the server's ``success``.

        Raises:
            BucketNotFoundError: it does not exist.
        """
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.delete_bucket(name, now=now, timeout=limit), limit)

    async def bucket_names(self, *, timeout: Timeout | None = None) -> list[str]:
        """The names of all buckets, sorted. Streams whose names are those of buckets count as such.

        Args:
            timeout: of each page of the list, in seconds or as a timedelta. None: that of ``jetstream()``.
        """
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.bucket_names(now=now, timeout=limit), limit)

    async def buckets(self, *, timeout: Timeout | None = None) -> list[BucketStatus]:
        """All buckets, sorted by name: what each is like, and how much it holds.

        Args:
            timeout: of each page of the list, in seconds or as a timedelta. None: that of ``jetstream()``.
        """
        limit = seconds(timeout, default=self._core.timeout)
        return await self._connection._ask(lambda now: self._core.buckets(now=now, timeout=limit), limit)


class Bucket(KeyVerbs, HasTransactions, BucketBase):
    """Keys and their values. Made by ``JetStream.bucket()`` and ``JetStream.create_bucket()``.

    Example:

        bucket = await js.create_bucket("MENU", history=5)
        revision = await bucket.put("tea", b"3.00")
        await bucket.update("tea", b"3.20", revision)
        entry = await bucket.get("tea")
        print(entry.value)

    A key is letters, digits and ``- / _ =``, with dots between its tokens. Those that begin with ``_kv`` are reserved.
    A value is bytes. Each write has a revision, a number that rises throughout the bucket. A deleted key leaves a
    marker with a revision of its own.

    Every verb raises, besides what it lists itself:
        BucketNotFoundError: the bucket does not exist any more.
        ValueTooLargeError: what was to be written has more bytes than ``max_value_size``, headers included.
        NoStreamResponseError: its stream has no leader just now.
        TimeoutError: no answer came in time. What was to be written may be stored, or be stored later.
        LocalProtocolError: a key or an argument cannot be. Nothing was sent.
    """

    def __init__(self, core: CoreBucket, connection: Connection, timeout: float) -> None:
        super().__init__(core)
        self._connection = connection
        self._timeout = timeout  # of each verb

    def session(
        self,
        *,
        token: SessionToken | bytes | None = None,
        level: ReadLevel = "direct",
        timeout: Timeout | None = None,
    ) -> BucketSession:
        """A session, whose reads by key show what it wrote and read before, whichever replica answers.

        Args:
            token: how far another session got, perhaps in another process: a SessionToken, or its bytes.
            level: "direct" or "leader": where reads are sent first. The leader is the last resort.
            timeout: of each verb of the session, in seconds or as a timedelta. None: that of the bucket.

        Raises:
            BadTokenError: the bytes are no token.
            LocalProtocolError: the bucket is a mirror.
        """
        limit = seconds(timeout, default=self._timeout)
        core = self._connection._call(lambda now: open_session(self._core, token=token, level=level, timeout=limit))
        return BucketSession(core, self._connection, limit)

    def lock(
        self,
        name: str,
        *,
        ttl: Timeout,
        wait: Timeout | None = None,
        owner: str = "",
        keep_alive: bool = False,
        timeout: Timeout | None = None,
    ) -> Lock:
        """A lock for clients of this bucket, to be acquired. See ``Lock``.

        Args:
            name: the key that stands for it.
            ttl: how long it is held without a renewal, in seconds or as a timedelta, 1 s or more.
            wait: how long to wait for other holders, in seconds or as a timedelta. None: for ever. 0: try once.
            owner: a text that tells others who has it.
            keep_alive: the connection renews it, each third of ``ttl``. False: ``renew()`` is yours to call.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Raises:
            LocalProtocolError: an argument cannot be, or the bucket is a mirror, which lags behind.
        """
        core = self._core.lock(name, ttl=ttl, owner=owner, keep_alive=keep_alive)
        return Lock(core, self._connection, seconds(timeout, default=self._timeout), seconds(wait, "wait"))

    def election(
        self, name: str, *, ttl: Timeout, id: str, keep_alive: bool = False, timeout: Timeout | None = None
    ) -> Election:
        """An election among clients of this bucket, for a campaign. See ``Election``.

        Args:
            name: the key that stands for it.
            ttl: how long a leader stays without a renewal, in seconds or as a timedelta, 1 s or more.
            id: what others know this candidate by.
            keep_alive: as in ``lock()``, and so is ``timeout``.

        Raises:
            LocalProtocolError: an argument cannot be, or the bucket is a mirror, which lags behind.
        """
        core = self._core.lock(name, ttl=ttl, owner=id, keep_alive=keep_alive, kind="election")
        return Election(core, self._connection, seconds(timeout, default=self._timeout))

    async def keys(self, *filters: str, timeout: Timeout | None = None) -> list[str]:
        """The keys that have a value, in the order of their last revisions.

        Args:
            filters: only keys that match one of them. ``*`` stands for a token, ``>`` at the end for all that follow.
            timeout: of the whole list, in seconds or as a timedelta. None: there is none.
        """
        return await self._listed(lambda now: self._core.keys(*filters, now=now), timeout)

    async def history(self, *filters: str, timeout: Timeout | None = None) -> list[KeyValueEntry]:
        """The revisions that the bucket keeps, oldest first, markers included.

        Args:
            filters: a key, or several, in which wildcards are allowed. None: all keys.
            timeout: of the whole list, in seconds or as a timedelta. None: there is none.
        """
        return await self._listed(lambda now: self._core.history(*filters, now=now), timeout)

    async def snapshot(self, *filters: str, timeout: Timeout | None = None) -> BucketSnapshot:
        """The keys that have a value, with their values, as they were at one revision: ``snapshot.revision``.

        It shows all writes that were acknowledged before. It is a Mapping of keys to entries.

        Args:
            filters: only keys that match one of them. ``*`` stands for a token, ``>`` at the end for all that follow.
            timeout: of the whole, in seconds or as a timedelta. None: there is none.

        Raises:
            DirectReadsDisabledError: the bucket allows no Direct Get (``direct``).
            SnapshotError: the bucket is written faster than it can be read.
            UnsupportedByServerError: the server is older than 2.11.
        """
        limit = self._timeout
        return await self._listed(lambda now: self._core.snapshot(*filters, now=now, timeout=limit), timeout)

    @explained(WatchOptions)
    async def watch(self, *filters: str, **options: Unpack[WatchOptions]) -> KeyWatcher:
        """Watch keys: their present entries, then None, and then what changes.

        Args:
            filters: only keys that match one of them. ``*`` stands for a token, ``>`` at the end for all that follow.
        """
        verb = partial(self._core.watch, *filters, **named(WatchOptions, options))
        core = await self._connection._ask(lambda now: verb(now=now), self._timeout)
        return KeyWatcher(core, self._connection)

    async def purge_deletes(self, *, older_than: Timeout = OLD_MARKER, timeout: Timeout | None = None) -> int:
        """Remove the markers of deleted keys. A value that is put meanwhile stays.

        Args:
            older_than: seconds, or a timedelta, by the server's clock. Of a younger marker the history is removed.
            timeout: of the whole, in seconds or as a timedelta. None: there is none.

        Returns:
            How many revisions were removed, history included.
        """
        limit = self._timeout
        return await self._listed(
            lambda now: self._core.purge_deletes(now=now, older_than=older_than, timeout=limit), timeout
        )

    async def status(self, *, timeout: Timeout | None = None) -> BucketStatus:
        """What the bucket is like now, and how much it holds."""
        limit = seconds(timeout, default=self._timeout)
        return await self._connection._ask(lambda now: self._core.status(now=now, timeout=limit), limit)

    async def _listed(self, verb: Callable[[float], Ticket[T]], timeout: Timeout | None) -> T:
        """Wait for what takes as long as there are keys. A watcher that is too slow is ended."""
        connection, limit = self._connection, seconds(timeout)
        ticket = await connection._call_with_room(verb)
        try:
            return await connection._wait(ticket, limit)
        except TimeoutError:
            connection._release(partial(connection._session.abandon, ticket))
            raise


class KeyWatcher(Watcher[KeyValueEntry]):
    """The entries of a bucket as they change. Made by ``Bucket.watch()``.

    Example:

        async with await bucket.watch("tea") as watcher:
            async for entry in watcher:
                if entry is None:
                    break
                print(entry.key, entry.value)

    Iterate over it: it gives entries, and None once, where the present entries end. It goes on over lost links and
    restarts of servers. Each entry comes once and in order. As a context manager it stops at the end.

    A slow reader of a bucket with little history sees the newest revisions only. So does one whose link was lost.

    What goes without a marker, or whose marker is removed before it came, is not seen. With ``track_keys`` keys that
    went while the watcher was away, or behind, are seen: as entries "PURGE" of revision 0.

    The iteration raises:
        ConnectionLostError: the connection has failed.
        BucketNotFoundError: the bucket was deleted, which three missed heartbeats show.
    """
