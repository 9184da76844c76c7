"""Lists of a bucket: its objects, and the chunks that no object owns. The scripts.

Rules:

* A list has the descriptions in the order of their revisions, all that the leader has when it is asked first. One that
  cannot be read is left out.
* Garbage is chunks whose put no description names. Deleted objects and links own none.
* The chunks are listed before the descriptions. So a put that ends in between is no garbage.
* A put that runs has chunks and no description. So only what was stored last before a time of grace goes.
* While a description cannot be read nothing is removed: it may own the chunks.
* Markers that Go's clients cannot read are written anew.

Not here: watching (``watching``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jsproto.client.objects.describing import Described, Place, Script, describe, named, of_store, store
from jsproto.errors import Error, MessageNotFoundError, ObjectChangedError, ObjectDamagedError
from jsproto.grammar.object_info import ObjectInfo, is_readable_by_all

if TYPE_CHECKING:
    from jsproto.grammar.config import StreamInfo
    from jsproto.grammar.stored import StoredMsg

GRACE: Final = 3600.0  # seconds
_AT_ONCE: Final = 512  # descriptions taken at once


def list_objects(place: Place, asked_at: float, *, deleted: bool) -> Script[list[ObjectInfo]]:
    """The descriptions of all objects, with those of ``deleted`` ones if asked for."""
    found = []
    _, messages = yield from _descriptions(place, asked_at)
    for message in messages:
        try:
            info = describe(place.space, message).info
        except ObjectDamagedError:
            continue
        if deleted or not info.deleted:
            found.append(info)
    return found


def collect(place: Place, older_than: int, mtime: int | None, asked_at: float, patience: float) -> Script[int]:
    """Remove chunks that no object owns. Returns how many. ``older_than``: nanoseconds.

    Raises:
        ObjectDamagedError: a description cannot be read. Nothing is removed.
    """
    js, space, timeout = place
    counts = yield from of_store(
        space.bucket, js.stream_subjects(space.stream, space.all_chunks, now=asked_at, timeout=timeout)
    )
    stream, messages = yield from _descriptions(place, place.now)
    described = [describe(space, message) for message in messages]
    owned = {info.nuid for info, _ in described if not info.deleted and info.link is None}
    begin = (stream.ts or stream.state.last_ts or 0) - older_than
    removed = 0
    for subject in counts:
        if space.nuid(subject) not in owned:
            removed += yield from _remove(place, subject, begin)
    for each in described:
        if each.info.deleted and not is_readable_by_all(each.data):
            yield from _rewrite(place, each, mtime, patience)
    return removed


def _descriptions(place: Place, asked_at: float) -> Script[tuple[StreamInfo, list[StoredMsg]]]:
    """The stream as its leader has it, and all descriptions that it has."""
    js, space, timeout = place
    info = yield from of_store(space.bucket, js.stream_info(space.stream, now=asked_at, timeout=timeout))
    read = js.get_batch(
        space.stream, subject=space.all_meta, at_least=info.state.last_seq, now=place.now, timeout=timeout
    )
    found: list[StoredMsg] = []
    try:
        while (messages := read.pop_many(_AT_ONCE, place.now)) or not read.finished:
            found += messages
            if not messages:
                yield read.readable()
    except Error as error:
        raise named(space.bucket, error) from error.__cause__
    finally:
        read.close(place.now)
    return info, found


def _remove(place: Place, subject: str, begin: int) -> Script[int]:
    """Remove the chunks of a subject if the last one was stored up to ``begin``."""
    js, space, timeout = place
    asked = js.get_msg(space.stream, subject=subject, level="leader", now=place.now, timeout=timeout)
    try:
        last: StoredMsg = yield from of_store(space.bucket, asked)
    except MessageNotFoundError:
        return 0
    if last.timestamp > begin:
        return 0
    purged = js.purge_stream(space.stream, subject=subject, seq=last.seq + 1, now=place.now, timeout=timeout)
    return (yield from of_store(space.bucket, purged))


def _rewrite(place: Place, each: Described, mtime: int | None, patience: float) -> Script[None]:
    """Write a marker anew, unless somebody has put an object since."""

    def judge(found: ObjectInfo | None) -> None:
        raise ObjectChangedError(place.space.bucket, each.info.name, each.info.nuid, "", 0)

    try:  # noqa: SIM105 (contextlib is not for the core)
        yield from store(place, each.info.as_deleted(), each.info, mtime, judge, patience)
    except ObjectChangedError:
        pass  # that one is readable, or the next collection looks at it
