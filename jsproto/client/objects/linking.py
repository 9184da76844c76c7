"""Links between objects: following one, and making one.

Rules:

* A link to a bucket has no content. A link to an object is followed, over further links up to ``MAX_LINKS``.
* A link is made to what exists, and to no link. It replaces a link, and no object.

Not here: what the description of a link says (``grammar.object_info``).
"""

from __future__ import annotations

from typing import Final

from jsproto.client.objects.describing import Place, Script, existing, present, store
from jsproto.client.read.single import ReadLevel
from jsproto.errors import (
    BucketNotFoundError,
    LocalProtocolError,
    ObjectExistsError,
    ObjectLinkError,
    ObjectNotFoundError,
)
from jsproto.grammar.object_info import ObjectInfo, ObjectLink, ObjectSpace

MAX_LINKS: Final = 8


def followed(place: Place, name: str, asked_at: float, level: ReadLevel | None) -> Script[tuple[Place, ObjectInfo]]:
    """The object of this name, or that to which links lead, and where it is.

    Raises:
        ObjectNotFoundError: there is no object ``name``.
        ObjectLinkError: a link leads to a bucket, to nothing, or too far.
    """
    info = yield from existing(place, name, asked_at, level=level)
    bucket, there = place.space.bucket, place
    for _ in range(MAX_LINKS):
        link = info.link
        if link is None:
            return there, info
        if link.name is None:
            raise ObjectLinkError(bucket, name, str(link), "it leads to a bucket, which has no content")
        there, info = yield from _target(there, bucket, name, link, level)
    raise ObjectLinkError(bucket, name, str(info.link), f"more than {MAX_LINKS} links follow each other")


def make_link(
    place: Place, name: str, link: ObjectLink, nuid: str, mtime: int | None, asked_at: float, patience: float
) -> Script[ObjectInfo]:
    """Store a link.

    Raises:
        ObjectLinkError: there is no such object, or it is a link.
        ObjectExistsError: ``name`` is that of an object.
    """
    bucket = place.space.bucket
    if link.name is not None:
        _, target = yield from _target(place, bucket, name, link, "leader")
        if target.link is not None:
            raise ObjectLinkError(bucket, name, str(link), "that is a link, too")
    found = yield from present(place, name, place.now)

    def judge(old: ObjectInfo | None) -> None:
        if old is not None and not old.deleted and old.link is None:
            raise ObjectExistsError(bucket, name, old.nuid, old.revision)

    old = None if found is None else found.info
    judge(old)
    info, _ = yield from store(place, ObjectInfo(bucket, name, nuid=nuid, link=link), old, mtime, judge, patience)
    return info


def _target(
    place: Place, bucket: str, name: str, link: ObjectLink, level: ReadLevel | None
) -> Script[tuple[Place, ObjectInfo]]:
    """What a link to an object leads to. ``bucket`` and ``name``: of the link."""
    try:
        there = place._replace(space=ObjectSpace(link.bucket))
        return there, (yield from existing(there, link.name or "", place.now, level=level))
    except (BucketNotFoundError, ObjectNotFoundError, LocalProtocolError) as error:
        raise ObjectLinkError(bucket, name, str(link), str(error)) from error
