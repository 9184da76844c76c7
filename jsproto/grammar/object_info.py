"""Objects in a stream (ADR-20): names, subjects, and the description of an object as JSON.

Rules:

* A bucket of objects ``B`` is the stream ``OBJ_B``. The chunks of one put have the subject ``$O.B.C.<nuid>``. The
  description of the object ``N`` is the last message of ``$O.B.M.<N>``, with the name in padded base64url.
* The reader takes what any client writes. A field that is missing, empty or of a wrong type has its default. Unknown
  fields are kept, and written back.
* The name of an object is that of its subject, by which it is found.
* The time of an object is that of its message. Go's clients write none into the JSON, and others read that one alone.
* The writer leaves out what is empty: Go's clients fail on an empty ``mtime``.
* Names are checked where callers give them: text that is not empty and can be UTF-8.

Not here: configurations (``object_store_config``), what is asked of servers (``client.objects``).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from jsproto._event import event
from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import MAX_UINT64, dumps, loads
from jsproto.grammar.bucket_keys import check_bucket, is_bucket
from jsproto.grammar.fields import NEVER
from jsproto.grammar.times import Moment, as_datetime, format_timestamp

STREAM_PREFIX: Final = "OBJ_"
DEFAULT_CHUNK: Final = 128 * 1024
"""Bytes of a chunk where the description does not say it."""
_DIGEST: Final = "SHA-256="
_SHA256: Final = re.compile(r"(?i:sha-256=)([A-Za-z0-9_-]{43}=?)")


class ObjectSpace:
    """Where the objects of one bucket are. Attributes: ``bucket`` and ``stream``, their names."""

    __slots__ = ("_prefix", "bucket", "stream")

    def __init__(self, bucket: str) -> None:
        """``bucket``: LocalProtocolError if that is the name of none."""
        self.bucket = check_bucket(bucket)
        self.stream = STREAM_PREFIX + bucket
        self._prefix = f"$O.{bucket}."

    @property
    def all_chunks(self) -> str:
        """The subjects of all chunks."""
        return f"{self._prefix}C.>"

    @property
    def all_meta(self) -> str:
        """The subjects of all descriptions."""
        return f"{self._prefix}M.>"

    def chunks(self, nuid: str) -> str:
        """The subject of the chunks of one put."""
        return f"{self._prefix}C.{nuid}"

    def nuid(self, subject: str) -> str:
        """The put that a chunk is of."""
        return subject.removeprefix(f"{self._prefix}C.")

    def meta(self, name: str) -> str:
        """The subject of the description of an object. LocalProtocolError if ``name`` can be that of none."""
        given: object = name
        if not isinstance(given, str) or not given:
            raise LocalProtocolError(f"the name of an object is a text that is not empty, not {name!r:.200}")
        try:
            return f"{self._prefix}M.{urlsafe_b64encode(name.encode()).decode()}"
        except UnicodeEncodeError:
            raise LocalProtocolError(f"the name of an object is Unicode, not {name!r:.200}") from None

    def name(self, subject: str) -> str:
        """The object that a description is of. Empty: no name has this subject."""
        try:
            return urlsafe_b64decode(subject.removeprefix(f"{self._prefix}M.")).decode()
        except ValueError:  # no base64, or no UTF-8
            return ""


def stream_of(bucket: str) -> str:
    """The name of the stream of a bucket. LocalProtocolError if ``bucket`` is the name of none."""
    return STREAM_PREFIX + check_bucket(bucket)


def bucket_of(stream: str) -> str | None:
    """The name of a stream's bucket. None: it is the stream of none."""
    name = stream.removeprefix(STREAM_PREFIX)
    return name if name != stream and is_bucket(name) else None


@event
class ObjectLink:
    """What a link leads to: the object ``name`` of a ``bucket``, or the bucket itself if ``name`` is None."""

    bucket: str
    name: str | None = None

    def __str__(self) -> str:
        return self.bucket if self.name is None else f"{self.bucket}/{self.name}"


@event
class ObjectInfo:
    """The description of an object.

    * ``bucket`` and ``name``: their names.
    * ``description``: a text for people. ``headers``: by name, the values. ``metadata``: by name, the value.
    * ``size``: bytes. ``chunks``: how many there are.
    * ``nuid``: the put that stored it. Each put has another one.
    * ``digest``: ``SHA-256=`` and the digest in base64url. Empty where there is none.
    * ``max_chunk_size``: bytes of a chunk, at most.
    * ``link``: what it leads to. Then it has no content.
    * ``deleted``: it has gone, and this is its marker.
    * ``revision``: the sequence of the description in the stream, 0 before it is stored.
    * ``timestamp``: when it was stored, in nanoseconds since the epoch.
    * ``extra``: fields that other clients have written.
    """

    bucket: str
    name: str
    description: str = ""
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    chunks: int = 0
    nuid: str = ""
    digest: str = ""
    max_chunk_size: int = DEFAULT_CHUNK
    link: ObjectLink | None = None
    deleted: bool = False
    revision: int = 0
    timestamp: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def modified(self) -> Moment:
        """When it was stored: a datetime, in UTC and to the microsecond."""
        return as_datetime(self.timestamp)

    def sha256(self) -> bytes | None:
        """The digest, 32 bytes. None where it has another kind, or is missing."""
        found = _SHA256.fullmatch(self.digest)
        return None if found is None else urlsafe_b64decode(f"{found[1]:=<44}")

    def as_deleted(self) -> ObjectInfo:
        """What is left of it when it is deleted."""
        return replace(self, size=0, chunks=0, digest="", link=None, deleted=True)


def digest_text(sha256: bytes) -> str:
    """A digest as descriptions have it."""
    return _DIGEST + urlsafe_b64encode(sha256).decode()


def read_info(space: ObjectSpace, subject: str, data: bytes, seq: int, timestamp: int) -> ObjectInfo:
    """The description in a stored message.

    Raises:
        RemoteProtocolError: it is no JSON object.
    """
    body = loads(data)
    extra = {name: value for name, value in body.items() if name not in _FIELDS}
    options = body["options"] if isinstance(body.get("options"), dict) else {}
    size = _count(options, "max_chunk_size")
    extra_options = {name: value for name, value in options.items() if name not in ("link", "max_chunk_size")}
    if extra_options:
        extra["options"] = extra_options
    return ObjectInfo(
        space.bucket, space.name(subject) or _text(body, "name"), _text(body, "description"),
        {name: _texts(values) for name, values in _object(body, "headers").items()},
        {name: value for name, value in _object(body, "metadata").items() if isinstance(value, str)},
        _count(body, "size"), _count(body, "chunks"), _text(body, "nuid"), _text(body, "digest"),
        size or DEFAULT_CHUNK, _link(options), body.get("deleted") is True, seq, timestamp, extra,
    )  # fmt: skip


def info_json(info: ObjectInfo, mtime: int | None) -> bytes:
    """The description as it is stored. ``mtime``: nanoseconds since the epoch, None where nobody knows the time.

    Raises:
        LocalProtocolError: a value cannot be written.
    """
    link = info.link
    options: dict[str, Any] = {**info.extra.get("options", {}), "max_chunk_size": info.max_chunk_size}
    if link is not None:
        options["link"] = {"bucket": link.bucket} if link.name is None else {"bucket": link.bucket, "name": link.name}
    optional = {
        "description": info.description, "headers": {name: list(values) for name, values in info.headers.items()},
        "metadata": dict(info.metadata), "digest": info.digest, "deleted": info.deleted,
    }  # fmt: skip
    return dumps(
        {
            **info.extra, "name": info.name, "bucket": info.bucket, "nuid": info.nuid, "size": info.size,
            "chunks": info.chunks, "mtime": NEVER if mtime is None else format_timestamp(mtime), "options": options,
            **{name: value for name, value in optional.items() if value},
        }
    )  # fmt: skip


def is_readable_by_all(data: bytes) -> bool:
    """Whether Go's clients can read a description: an empty ``mtime`` makes them fail, and their lists hang."""
    try:
        return loads(data).get("mtime") != ""
    except RemoteProtocolError:
        return False


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def _texts(values: Any) -> list[str]:
    return [value for value in (values if isinstance(values, list) else [values]) if isinstance(value, str)]


def _count(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    return value if type(value) is int and 0 <= value <= MAX_UINT64 else 0


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _link(options: Mapping[str, Any]) -> ObjectLink | None:
    link = _object(options, "link")
    bucket = _text(link, "bucket")
    return ObjectLink(bucket, _text(link, "name") or None) if bucket else None


_FIELDS: Final = frozenset(
    {
        "name", "description", "headers", "metadata", "options", "bucket", "nuid", "size", "mtime", "chunks", "digest",
        "deleted",
    }
)  # fmt: skip
