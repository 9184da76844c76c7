"""The facade for event loops, continued: buckets of objects.

Rules: those of ``_aio.connection``. Files are read and written in between, a chunk at a time.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from jsproto.client.objects.get import Get
from jsproto.client.objects.listing import GRACE
from jsproto.client.objects.object_options import GetOptions, MetaOptions, ObjectWatchOptions, PutOptions
from jsproto.client.objects.object_store import ObjectStore as CoreObjectStore
from jsproto.client.objects.put import Put
from jsproto.client.read.single import ReadLevel
from jsproto.errors import ObjectChangedError, ObjectChunksLeftError, TimeoutError
from jsproto.grammar.object_info import ObjectInfo
from jsproto.grammar.object_store_config import ObjectStoreOptions, ObjectStoreStatus
from jsproto.grammar.options import explained, named
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto_io._aio.asking import Asks
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.engine import ends
from jsproto_io._aio.watching import Watcher
from jsproto_io._state.common import Timeout
from jsproto_io._state.keywords import time_of_day
from jsproto_io._state.objects import (
    STARTS,
    Bytes,
    Cutter,
    FileSink,
    MemorySink,
    ObjectReaderBase,
    ObjectStoreBase,
    Progress,
    SupportsRead,
    pieces_of,
)

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

T = TypeVar("T")


class HasObjectStores(Asks):
    """The verbs of ``JetStream`` that make and find buckets of objects."""

    @explained(ObjectStoreOptions)
    async def create_object_store(
        self, name: str, *, timeout: Timeout | None = None, **options: Unpack[ObjectStoreOptions]
    ) -> ObjectStore:
        """Create a bucket of objects (ADR-20), or find it with the same configuration.

        An option that is None has its default.

        Args:
            name: letters, digits, ``_`` and ``-``.
            timeout: of each question of the bucket, too, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            BucketExistsError: the bucket exists with another configuration. ``update_object_store()`` changes it.
            UnsupportedByServerError: the server is too old for an option that was given.
        """
        asked = named(ObjectStoreOptions, options)
        core = await self._asked(self._core.create_object_store, name, timeout=timeout, **asked)
        return ObjectStore(core, self._connection, seconds(timeout, default=self._core.timeout))

    async def object_store(self, name: str, *, timeout: Timeout | None = None) -> ObjectStore:
        """Bind to a bucket of objects that exists.

        Args:
            name: its name.
            timeout: of each question of the bucket, too, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            BucketNotFoundError: it does not exist.
        """
        core = await self._asked(self._core.object_store, name, timeout=timeout)
        return ObjectStore(core, self._connection, seconds(timeout, default=self._core.timeout))

    @explained(ObjectStoreOptions)
    async def update_object_store(
        self, name: str, *, timeout: Timeout | None = None, **options: Unpack[ObjectStoreOptions]
    ) -> ObjectStoreStatus:
        """Change those options of a bucket that are given.

        The configuration is fetched first. What has no option here stays as it is. Of two such changes at the same time
        the last one wins.

        Args:
            name: its name.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Raises:
            BucketNotFoundError: it does not exist.
            APIError: an option cannot be changed.
        """
        asked = named(ObjectStoreOptions, options)
        return await self._asked(self._core.update_object_store, name, timeout=timeout, **asked)

    async def delete_object_store(self, name: str, *, timeout: Timeout | None = None) -> bool:
        """Delete a bucket and all its objects. Returns the server's ``success``.

        Raises:
            BucketNotFoundError: it does not exist.
        """
        return await self._asked(self._core.delete_object_store, name, timeout=timeout)

    async def object_stores(self, *, timeout: Timeout | None = None) -> list[ObjectStoreStatus]:
        """All buckets of objects, sorted by name: what each is like, and how much it holds.

        Args:
            timeout: of each page of the list, in seconds or as a timedelta. None: that of ``jetstream()``.
        """
        return await self._asked(self._core.object_stores, timeout=timeout)


class ObjectStore(ObjectStoreBase):
    """Objects: bytes of any size under a name. Made by ``JetStream.object_store()`` and ``create_object_store()``.

    Example:

        store = await js.create_object_store("ALBUM")
        info = await store.put("menu.txt", b"tea " * 1_000)
        print(info.size, len(await store.get("menu.txt")))

    An object is stored in chunks, and then described. Its name is any text that is not empty.

    Every verb raises, besides what it lists itself:
        BucketNotFoundError: the bucket does not exist any more.
        ObjectStoreSealedError: something was to change in a sealed bucket.
        TimeoutError: an answer did not come in time. What was to be written may be stored.
        LocalProtocolError: a name or an argument cannot be. Nothing was sent.
    """

    def __init__(self, core: CoreObjectStore, connection: Connection, timeout: float) -> None:
        super().__init__(core)
        self._connection = connection
        self._timeout = timeout  # of each question

    # -- putting -------------------------------------------------------------------------------------------------------

    @explained(PutOptions)
    async def put(
        self,
        name: str,
        source: Bytes | SupportsRead | Iterable[Bytes] | AsyncIterable[Bytes],
        *,
        progress: Progress | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[PutOptions],
    ) -> ObjectInfo:
        """Put an object, in the place of the one that has the name.

        Readers see the old object until the new one is whole. Then the content of the old one is removed. Of several
        puts at the same time the last one wins. A put goes on after lost links and restarts of servers.

        Args:
            name: of the object.
            source: bytes, a file that was opened for bytes, or an iterable of bytes. A file is read from where it is.
            progress: called with the number of bytes that were taken from the source so far.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Returns:
            The description.

        Raises, with the chunks removed:
            ObjectExistsError: with ``create``, there is an object of this name.
            ObjectChangedError: with ``if_revision``, the revision is another one.
            ObjectDamagedError: the stream has lost chunks, or has some twice.
            ObjectStoreFullError: the bucket is full.
            APIError, BatchError: the server refuses.
            Exception: what the source raises.

        Raises:
            ObjectChunksLeftError: it failed, and chunks are left, or may be. The cause says why.
        """
        limit, asked = seconds(timeout, default=self._timeout), named(PutOptions, options)
        connection, began = self._connection, time_of_day()
        core: Put = await connection._call_with_room(
            lambda now: self._core.put(name, now=now, mtime=began, timeout=limit, **asked), limit=limit
        )
        try:
            await self._feed(core, source, progress)
            return await connection._wait(connection._call(core.finish))
        except Exception as error:
            left = await connection._wait(connection._call(core.give_up))
            if left != 0:
                raise ObjectChunksLeftError(self.name, name, core.nuid, left, str(error)) from error
            raise
        except BaseException:  # the caller goes
            connection._release(core.abandon)
            raise

    async def put_file(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[PutOptions],
    ) -> ObjectInfo:
        """Put the content of a file. As ``put``, which has the keywords.

        Args:
            name: of the object.
            path: of the file.
            progress: called with the number of bytes that were read so far.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.
        """
        with open(path, "rb") as file:
            return await self.put(name, file, progress=progress, timeout=timeout, **options)

    async def _feed(
        self,
        core: Put,
        source: Bytes | SupportsRead | Iterable[Bytes] | AsyncIterable[Bytes],
        progress: Progress | None,
    ) -> None:
        """Give all of ``source``, as the put asks for it."""
        cutter = Cutter(core.chunk_size)
        # -- for event loops alone
        if isinstance(source, AsyncIterable):
            async for piece in source:
                for chunk in cutter.cut(piece):
                    await self._give(core, chunk, progress)
            source = b""
        # -- for threads as well
        for piece in pieces_of(source, core.chunk_size):
            for chunk in cutter.cut(piece):
                await self._give(core, chunk, progress)
        rest = cutter.rest()
        if rest:
            await self._give(core, rest, progress)

    async def _give(self, core: Put, chunk: bytes, progress: Progress | None) -> None:
        connection, offer = self._connection, partial(core.offer, chunk)
        while (wait := connection._call(offer, coalesce=True)) is not None:
            await connection._wait(wait)
        if progress is not None:
            progress(core.size)

    # -- getting -------------------------------------------------------------------------------------------------------

    @explained(GetOptions)
    async def get(
        self,
        name: str,
        *,
        progress: Progress | None = None,
        level: ReadLevel | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[GetOptions],
    ) -> bytes:
        """The content of an object. Links are followed.

        One that is replaced meanwhile is read anew, up to five times.

        Args:
            name: of the object.
            progress: called with the number of bytes so far.
            level: who is asked for the description. "direct", any replica, which may be behind. "leader", the leader.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectLinkError: a link leads to a bucket, or nowhere.
            ObjectChangedError: it was replaced again and again.
            ObjectDamagedError: chunks are missing, doubled or altered. DigestMismatchError: altered ones.
            UnsupportedByServerError: the server is older than 2.11.
        """
        sink = MemorySink()
        await self._read_whole(name, sink, progress, level, timeout, options)
        return b"".join(sink.pieces)

    @explained(GetOptions)
    async def get_file(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
        level: ReadLevel | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[GetOptions],
    ) -> ObjectInfo:
        """Write the content of an object to a file. As ``get``.

        It is written beside ``path``, with ``.part`` at its end, and replaces what is at ``path`` once it is whole.

        Args:
            name: of the object.
            path: of the file.
            progress: called with the number of bytes so far.
            level: as in ``get``.
            timeout: as in ``get``.

        Returns:
            The description of the object.
        """
        sink = FileSink(path, self._connection.new_inbox().rpartition(".")[2])
        try:
            info = await self._read_whole(name, sink, progress, level, timeout, options)
            sink.keep()
        finally:
            sink.drop()
        return info

    @explained(GetOptions)
    async def open(
        self,
        name: str,
        *,
        level: ReadLevel | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[GetOptions],
    ) -> ObjectReader:
        """Read an object piece by piece. See ``ObjectReader``. Links are followed.

        Args:
            name: of the object.
            level: as in ``get``.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectLinkError: a link leads to a bucket, or nowhere.
            ObjectChangedError, ObjectDamagedError: of a part, as the iteration raises them.
        """
        asked = named(GetOptions, options)
        core = await self._asked(self._core.open, name, level=level, timeout=timeout, **asked)
        return ObjectReader(core, self._connection)

    async def _read_whole(
        self,
        name: str,
        sink: MemorySink | FileSink,
        progress: Progress | None,
        level: ReadLevel | None,
        timeout: Timeout | None,
        options: GetOptions,
    ) -> ObjectInfo:
        """Read an object, from its beginning again where it was replaced meanwhile."""
        starts = STARTS
        while True:
            starts -= 1
            sink.begin()
            try:
                async with await self.open(name, level=level, timeout=timeout, **options) as reader:
                    async for piece in reader:
                        sink.write(piece)
                        if progress is not None:
                            progress(reader.received)
                return reader.info
            except ObjectChangedError:
                if not starts:
                    raise
                level = "leader"  # another replica may be behind

    # -- descriptions --------------------------------------------------------------------------------------------------

    async def info(
        self,
        name: str,
        *,
        deleted: bool = False,
        level: ReadLevel | None = None,
        timeout: Timeout | None = None,
    ) -> ObjectInfo:
        """The description of an object, or of a link.

        Args:
            name: of the object.
            deleted: that of a deleted one, too.
            level: as in ``get``.
            timeout: seconds, or a timedelta. None: that of the bucket.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectDamagedError: the description cannot be read.
        """
        return await self._asked(self._core.info, name, deleted=deleted, level=level, timeout=timeout)

    @explained(MetaOptions)
    async def update_meta(
        self, name: str, *, timeout: Timeout | None = None, **options: Unpack[MetaOptions]
    ) -> ObjectInfo:
        """Change what is given of the description of an object, or of a link. None removes it.

        Args:
            name: of the object.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Returns:
            The new description.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it was replaced meanwhile.
        """
        asked = named(MetaOptions, options)
        return await self._asked(self._core.update_meta, name, mtime=time_of_day(), timeout=timeout, **asked)

    async def rename(self, name: str, new: str, *, timeout: Timeout | None = None) -> ObjectInfo:
        """Give an object another name. Links to the old one lead nowhere then.

        In between it has both names. Who puts or deletes the old one at that moment removes its content.

        Args:
            name: of the object.
            new: its name from now on.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Returns:
            The description under the new name.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectExistsError: there is an object of the new name.
        """
        return await self._asked(self._core.rename, name, new, mtime=time_of_day(), timeout=timeout)

    async def link(
        self, name: str, target: str, *, bucket: str | None = None, timeout: Timeout | None = None
    ) -> ObjectInfo:
        """Make a link to an object. It replaces a link, and no object.

        Args:
            name: of the link.
            target: the object that it leads to.
            bucket: the bucket of that. None: this one.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Returns:
            The description of the link.

        Raises:
            ObjectLinkError: there is no such object, or it is a link.
            ObjectExistsError: ``name`` is that of an object.
        """
        return await self._asked(self._core.link, name, target, bucket, mtime=time_of_day(), timeout=timeout)

    async def link_bucket(self, name: str, bucket: str, *, timeout: Timeout | None = None) -> ObjectInfo:
        """Make a link to a bucket of objects. It has no content, and is found by ``info``.

        Args:
            name: of the link.
            bucket: the name of the bucket.
            timeout: of each question, in seconds or as a timedelta. None: that of this bucket.

        Returns:
            The description of the link.

        Raises:
            ObjectExistsError: ``name`` is that of an object.
        """
        return await self._asked(self._core.link, name, None, bucket, mtime=time_of_day(), timeout=timeout)

    async def delete(self, name: str, *, timeout: Timeout | None = None) -> ObjectInfo:
        """Delete an object, or a link.

        Args:
            name: of the object.
            timeout: of each question, in seconds or as a timedelta. None: that of the bucket.

        Returns:
            The marker that is left.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: it was replaced meanwhile.
        """
        return await self._asked(self._core.delete, name, mtime=time_of_day(), timeout=timeout)

    # -- the bucket ----------------------------------------------------------------------------------------------------

    async def seal(self, *, timeout: Timeout | None = None) -> ObjectStoreStatus:
        """Seal the bucket: nothing in it can change any more. This cannot be undone."""
        return await self._asked(self._core.seal, timeout=timeout)

    async def gc(self, *, older_than: Timeout = GRACE, timeout: Timeout | None = None) -> int:
        """Remove chunks that no object owns: of puts that were cut off, by any client.

        Args:
            older_than: seconds, or a timedelta, by the server's clock, since the last chunk of a put was stored. What
                is younger may be of a put that runs.
            timeout: of the whole, in seconds or as a timedelta. None: there is none.

        Returns:
            How many chunks were removed.

        Raises:
            ObjectDamagedError: a description cannot be read. Nothing is removed.
        """
        limit = self._timeout
        return await self._listed(
            lambda now: self._core.gc(now=now, older_than=older_than, mtime=time_of_day(), timeout=limit), timeout
        )

    async def status(self, *, timeout: Timeout | None = None) -> ObjectStoreStatus:
        """What the bucket is like now, and how much it holds."""
        return await self._asked(self._core.status, timeout=timeout)

    @explained(ObjectWatchOptions)
    async def watch(self, **options: Unpack[ObjectWatchOptions]) -> ObjectWatcher:
        """Watch all objects: the present descriptions, then None, and then what changes."""
        asked = named(ObjectWatchOptions, options)
        core = await self._connection._ask(lambda now: self._core.watch(now=now, **asked), self._timeout)
        return ObjectWatcher(core, self._connection)

    async def list(self, *, deleted: bool = False, timeout: Timeout | None = None) -> builtins.list[ObjectInfo]:
        """The descriptions of all objects, links included, in the order of their revisions.

        Args:
            deleted: those of deleted ones, too.
            timeout: of the whole list, in seconds or as a timedelta. None: there is none.
        """
        limit = self._timeout
        return await self._listed(lambda now: self._core.list(now=now, deleted=deleted, timeout=limit), timeout)

    async def _asked(
        self, verb: Callable[..., Ticket[T]], *arguments: object, timeout: Timeout | None, **keywords: Any
    ) -> T:
        """The answer to a verb of the core. ``timeout``: None is that of the bucket."""
        limit = seconds(timeout, default=self._timeout)
        asked = partial(verb, *arguments, timeout=limit, **keywords)
        return await self._connection._ask(lambda now: asked(now=now), limit)

    async def _listed(self, verb: Callable[[float], Ticket[T]], timeout: Timeout | None) -> T:
        """Wait for what takes as long as there are objects."""
        connection, limit = self._connection, seconds(timeout)
        ticket = await connection._call_with_room(verb)
        try:
            return await connection._wait(ticket, limit)
        except TimeoutError:
            connection._release(partial(connection._session.abandon, ticket))
            raise


class ObjectReader(ObjectReaderBase, Managed):
    """The content of an object, as it comes. Made by ``ObjectStore.open()``.

    Example:

        async with await store.open("menu.txt") as reader:
            async for piece in reader:
                print(len(piece))

    Iterate over it once: it gives bytes. The end of the iteration says that they were the object: number, size and
    digest are checked there. Of a part the chunks are checked, by their number and lengths. As a context manager it
    stops reading at the end.

    The iteration raises:
        ObjectChangedError: the object was replaced or deleted meanwhile.
        ObjectDamagedError: chunks are missing, doubled or altered. DigestMismatchError: altered ones.
        IncompleteBatchError: the read broke off.
        NoRespondersError: the bucket allows no Direct Get.
    """

    _connection: Connection

    def __init__(self, core: Get, connection: Connection) -> None:
        super().__init__(core)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                if self._core.finished or self._closed:
                    raise StopAsyncIteration from None
                readable = self._connection._call(self._take_ready)
            if readable is not None:
                await self._connection._wait(readable)

    @ends
    async def close(self) -> None:
        """Stop reading, and drop what was not taken. No effect the second time."""
        self._closed = True
        self._connection._release(self._core.close)


class ObjectWatcher(Watcher[ObjectInfo]):
    """The descriptions of a bucket as they change. Made by ``ObjectStore.watch()``.

    Iterate over it: it gives descriptions, and None once, where the present ones end. It goes on over lost links and
    restarts of servers. Each description comes once and in order. As a context manager it stops at the end.

    A slow reader sees the newest description of an object only. So does one whose link was lost.
    """
