"""One bucket of objects (ADR-20): the verbs.

Rules:

* A verb either sends its request or raises LocalProtocolError with nothing sent.
* None of these verbs keeps anything: every call asks the server.
* ``mtime`` is what the description says to clients that read no other time, in nanoseconds since the epoch. None: it
  says nothing, as those of Go's clients.

Not here: the scripts (``describing``, ``linking``, ``listing``), the machines (``put``, ``get``).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from jsproto.api_errors import StreamNameExistError
from jsproto.client.objects.describing import Judge, Place, Script, existing, of_store, present, purge_chunks, store
from jsproto.client.objects.get import Get, open_get
from jsproto.client.objects.linking import followed, make_link
from jsproto.client.objects.listing import GRACE, collect, list_objects
from jsproto.client.objects.object_options import RESUME_FOR, GetOptions, MetaOptions, ObjectWatchOptions, PutOptions
from jsproto.client.objects.put import Put
from jsproto.client.objects.watching import ObjectWatch, open_watch
from jsproto.client.read.single import ReadLevel
from jsproto.errors import BucketExistsError, ObjectChangedError, ObjectExistsError
from jsproto.grammar.object_info import ObjectInfo, ObjectLink, ObjectSpace
from jsproto.grammar.object_store_config import ObjectStoreConfig, ObjectStoreStatus
from jsproto.grammar.options import checked, explained
from jsproto.grammar.times import Duration, nanoseconds
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.config import StreamInfo


class ObjectStore:
    """The objects of one bucket. Made by ``JetStream.object_store`` and ``JetStream.create_object_store``.

    Attributes: ``space`` (where its objects are) and ``config`` (what the bucket was like when it was bound).

    In each verb ``now`` is monotonic seconds, and ``timeout`` seconds for each question, that of the JetStream if None.

    The tickets fail with:
        BucketNotFoundError: there is no bucket.
        ObjectStoreSealedError: something was to change in a sealed one.
        TimeoutError: no answer came in time.
    """

    __slots__ = ("_js", "config", "space")

    def __init__(self, js: JetStream, space: ObjectSpace, config: ObjectStoreConfig) -> None:
        """``space`` and ``config`` are of one bucket."""
        self._js = js
        self.space = space
        self.config = config

    @explained(PutOptions)
    def put(
        self,
        name: str,
        *,
        now: float,
        mtime: int | None = None,
        timeout: float | None = None,
        **options: Unpack[PutOptions],
    ) -> Put:
        """Put an object, chunk by chunk. See ``Put``.

        The ticket of ``Put.finish`` fails, and the chunks are removed, with:
            ObjectExistsError: with ``create``, there is an object of this name.
            ObjectChangedError: with ``if_revision``, the revision is another one.
            ObjectDamagedError: the stream has lost chunks, or has some twice.
            ObjectStoreFullError: the bucket is full.
            APIError, BatchError: the server refused a chunk or the description.
            ObjectChunksLeftError: it failed, and chunks are left, or may be.

        Raises:
            LocalProtocolError: the name, or an option, cannot be.
        """
        return Put(self._place(timeout, now), self.config, name, mtime, now, **options)

    @explained(GetOptions)
    def open(
        self,
        name: str,
        *,
        now: float,
        level: ReadLevel | None = None,
        timeout: float | None = None,
        **options: Unpack[GetOptions],
    ) -> Ticket[Get]:
        """Read an object, or a part of it. Links are followed. ``level``: who is asked about the object.

        The ticket fails with:
            ObjectNotFoundError: there is none.
            ObjectLinkError: a link leads to a bucket, or nowhere.
            ObjectChangedError, ObjectDamagedError: a part was asked for, and the chunks are not there.

        Raises:
            LocalProtocolError: the name, or an option, cannot be.
            UnsupportedByServerError: the server is older than 2.11.
        """
        asked = checked(GetOptions, options)
        self.space.meta(name)
        self._js.need_batches()
        script = self._open(self._place(timeout, now), name, now, level, asked)
        return self._js.session.scripts.bring(script)

    def info(
        self,
        name: str,
        *,
        now: float,
        deleted: bool = False,
        level: ReadLevel | None = None,
        timeout: float | None = None,
    ) -> Ticket[ObjectInfo]:
        """The description of an object, or of a link. ``deleted``: that of a deleted one, too.

        The ticket fails with:
            ObjectNotFoundError: there is none.
            ObjectDamagedError: it cannot be read.
        """
        self.space.meta(name)
        return self._js.session.run(_info(self._place(timeout, now), name, now, level, deleted))

    def list(self, *, now: float, deleted: bool = False, timeout: float | None = None) -> Ticket[list[ObjectInfo]]:
        """The descriptions of all objects, in the order of their revisions. ``deleted``: of deleted ones, too.

        Raises:
            UnsupportedByServerError: the server is older than 2.11.
        """
        self._js.need_batches()
        return self._js.session.scripts.bring(list_objects(self._place(timeout, now), now, deleted=deleted))

    @explained(ObjectWatchOptions)
    def watch(self, *, now: float, **options: Unpack[ObjectWatchOptions]) -> Ticket[ObjectWatch]:
        """Watch the descriptions of all objects. See ``ObjectWatch``.

        Raises:
            LocalProtocolError: an option cannot be.
        """
        asked = checked(ObjectWatchOptions, options)
        return self._js.session.scripts.bring(open_watch(self._place(None, now), asked, now))

    def delete(
        self, name: str, *, now: float, mtime: int | None = None, timeout: float | None = None
    ) -> Ticket[ObjectInfo]:
        """Delete an object: a marker replaces its description, and its chunks go. The ticket takes the marker.

        The ticket fails with:
            ObjectNotFoundError: there is none.
            ObjectChangedError: it was replaced meanwhile.
        """
        self.space.meta(name)
        return self._js.session.run(_delete(self._place(timeout, now), name, mtime, now))

    @explained(MetaOptions)
    def update_meta(
        self,
        name: str,
        *,
        now: float,
        mtime: int | None = None,
        timeout: float | None = None,
        **options: Unpack[MetaOptions],
    ) -> Ticket[ObjectInfo]:
        """Change what is given of the description of an object. None removes it. The ticket takes the new one.

        The ticket fails with:
            ObjectNotFoundError: there is none.
            ObjectChangedError: it was replaced meanwhile.
        """
        self.space.meta(name)
        changes = {key: value for key, value in checked(MetaOptions, options).items() if key in options}
        return self._js.session.run(_update(self._place(timeout, now), name, changes, mtime, now))

    def rename(
        self, name: str, new: str, *, now: float, mtime: int | None = None, timeout: float | None = None
    ) -> Ticket[ObjectInfo]:
        """Give an object another name. The ticket takes the description under the new one.

        These are two steps. In between the object has both names. Who puts or deletes the old one at that moment
        removes the content of the new one.

        The ticket fails with:
            ObjectNotFoundError: there is none.
            ObjectExistsError: there is an object of the new name.
        """
        self.space.meta(name)
        self.space.meta(new)
        return self._js.session.run(_rename(self._place(timeout, now), name, new, mtime, now))

    def link(
        self,
        name: str,
        target: str | None,
        bucket: str | None = None,
        *,
        now: float,
        mtime: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[ObjectInfo]:
        """Make a link to the object ``target`` of a ``bucket``, this one if None. No target: to the bucket itself.

        The ticket fails with:
            ObjectLinkError: there is no such object, or it is a link.
            ObjectExistsError: ``name`` is that of an object. A link, or a deleted object, is replaced.
        """
        space = self.space if bucket is None else ObjectSpace(bucket)
        self.space.meta(name)
        if target is not None:
            space.meta(target)
        script = make_link(
            self._place(timeout, now), name, ObjectLink(space.bucket, target), self._js.session.draw().decode(), mtime,
            now, RESUME_FOR,
        )  # fmt: skip
        return self._js.session.run(script)

    def seal(self, *, now: float, timeout: float | None = None) -> Ticket[ObjectStoreStatus]:
        """Seal the bucket: nothing in it can change any more. This cannot be undone."""
        asked = self._js.change_stream(self.space.stream, {"sealed": True}, now=now, timeout=timeout)
        return self._js.session.run(_status(self.space.bucket, asked))

    def gc(
        self,
        *,
        now: float,
        older_than: Duration = GRACE,
        mtime: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[int]:
        """Remove chunks that no object owns: of puts that were cut off. The ticket takes how many.

        * ``older_than``: seconds, or a timedelta, by the server's clock, since the last chunk of a put was stored. A
          put that runs must not be that slow.

        The ticket fails with:
            ObjectDamagedError: a description cannot be read. Nothing is removed.
        """
        age = nanoseconds(older_than, "older_than")
        self._js.need_batches()
        return self._js.session.scripts.bring(collect(self._place(timeout, now), age, mtime, now, RESUME_FOR))

    def status(self, *, now: float, timeout: float | None = None) -> Ticket[ObjectStoreStatus]:
        """What the bucket is like now, and how much it holds."""
        asked = self._js.stream_info(self.space.stream, now=now, timeout=timeout)
        return self._js.session.run(_status(self.space.bucket, asked))

    def _place(self, timeout: float | None, now: float) -> Place:
        self._js.session.note(now)
        return Place(self._js, self.space, timeout)

    def _open(self, place: Place, name: str, now: float, level: ReadLevel | None, asked: GetOptions) -> Script[Get]:
        there, info = yield from followed(place, name, now, level)
        return (yield from open_get(there, info, asked["start"], asked["end"]))


def new_store(js: JetStream, name: str, asked: Ticket[StreamInfo]) -> Generator[Ticket[Any], Any, ObjectStore]:
    """A script: ``bind_store`` to the stream that is to be created. BucketExistsError where another one is there."""
    try:
        return (yield from bind_store(js, name, asked))
    except StreamNameExistError as error:
        raise BucketExistsError(name, "update_object_store") from error


def bind_store(js: JetStream, name: str, asked: Ticket[StreamInfo]) -> Generator[Ticket[Any], Any, ObjectStore]:
    """A script: the bucket of the stream that was ``asked`` about, or created.

    Raises:
        BucketNotFoundError: there is none.
        BadBucketError: its stream is none.
    """
    info = yield from of_store(name, asked)
    return ObjectStore(js, ObjectSpace(name), ObjectStoreConfig.read(info.config))


def _status(bucket: str, asked: Ticket[StreamInfo]) -> Script[ObjectStoreStatus]:
    return ObjectStoreStatus((yield from of_store(bucket, asked)))


def _info(place: Place, name: str, now: float, level: ReadLevel | None, deleted: bool) -> Script[ObjectInfo]:
    if not deleted:
        return (yield from existing(place, name, now, level=level))
    found = yield from present(place, name, now, level=level)
    return found.info if found is not None else (yield from existing(place, name, place.now, level=level))


def _delete(place: Place, name: str, mtime: int | None, now: float) -> Script[ObjectInfo]:
    info = yield from existing(place, name, now)
    marker, _ = yield from store(place, info.as_deleted(), info, mtime, _unchanged(info), RESUME_FOR)
    if info.nuid and info.link is None:
        yield from purge_chunks(place, info.nuid, RESUME_FOR)
    return marker


def _update(place: Place, name: str, changes: dict[str, Any], mtime: int | None, now: float) -> Script[ObjectInfo]:
    info = yield from existing(place, name, now)
    new = replace(info, **{key: _EMPTY[key] if value is None else value for key, value in changes.items()})
    stored, _ = yield from store(place, new, info, mtime, _unchanged(info), RESUME_FOR)
    return stored


def _rename(place: Place, name: str, new: str, mtime: int | None, now: float) -> Script[ObjectInfo]:
    js, space, timeout = place
    info = yield from existing(place, name, now)
    if new == name:
        return info
    found = yield from present(place, new, place.now)

    def judge(there: ObjectInfo | None) -> None:
        if there is not None and not there.deleted:
            raise ObjectExistsError(space.bucket, new, there.nuid, there.revision)

    there = None if found is None else found.info
    judge(there)
    stored, _ = yield from store(place, replace(info, name=new), there, mtime, judge, RESUME_FOR)
    purged = js.purge_stream(
        space.stream, subject=space.meta(name), seq=info.revision + 1, now=place.now, timeout=timeout
    )
    yield from of_store(space.bucket, purged)
    return stored


def _unchanged(info: ObjectInfo) -> Judge:
    """What stores a description over ``info`` alone."""

    def judge(found: ObjectInfo | None) -> None:
        nuid, revision = ("", 0) if found is None else ("" if found.deleted else found.nuid, found.revision)
        raise ObjectChangedError(info.bucket, info.name, info.nuid, nuid, revision)

    return judge


_EMPTY: Any = {"description": "", "headers": {}, "metadata": {}}
