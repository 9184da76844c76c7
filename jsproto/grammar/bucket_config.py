"""What a bucket is like (ADR-8, 48, 57): its options, and the configuration of the stream that has it.

Rules:

* A ``BucketConfig`` is a view of its stream's configuration. What it has no option for stays as it is.
* A new bucket allows Direct Get, a time to live of keys, and atomic batches, as far as the server knows them.
* An option that is None, or left out, has its default. In an update only what is left out stays.
* The window for message ids is 2 minutes, or ``ttl`` if that is shorter.
* A mirror has no subjects of its own, and neither times to live nor atomic batches.
* A source is a bucket. Its keys become keys here, unless it has transforms, or is a bucket of the same name elsewhere.

Not here: names and keys (``bucket_keys``), asking the server (``client.bucket``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypedDict, Unpack, cast

from jsproto._event import event
from jsproto.errors import BadBucketError, LocalProtocolError
from jsproto.grammar.bucket_keys import STREAM_PREFIX, bucket_of, check_bucket, stream_of, subjects_of
from jsproto.grammar.config import (
    Placement,
    Republish,
    ServerInfo,
    Storage,
    StreamConfig,
    StreamInfo,
    StreamOptions,
    StreamSource,
)
from jsproto.grammar.fields import nearest
from jsproto.grammar.times import SECOND, Duration, nanoseconds

MAX_HISTORY: Final = 64
DUPLICATE_WINDOW: Final = 120.0  # seconds
_NO_LIMIT: Final = -1
_TTL_SINCE: Final = "2.11"
_ATOMIC_SINCE: Final = "2.12"


class BucketOptions(TypedDict, total=False):
    """What a bucket is like. None is the default.

    Attributes:
        description: a text for people.
        history: revisions that a key keeps, 1 to 64. Default: 1.
        ttl: how long a revision lives, in seconds or as a timedelta. Default: for ever.
        marker_ttl: the server leaves a marker, which lives so long, where a key expires (2.11). 1 s or more. Default:
            it leaves none.
        max_bytes: of all revisions together, with names and headers. Default: no limit.
        max_value_size: bytes of a value, with its headers, which take up to 300 in a transaction. Default: no limit.
        storage: "file" (the default) or "memory".
        replicas: servers that have it. Default: 1.
        compression: whether the server compresses its files.
        placement: where the replicas are.
        republish: revisions are published again to other subjects.
        metadata: names and values for applications.
        direct: any replica answers reads, the default. False: its leader alone.
        atomic: several keys can be changed in one atomic batch (2.12), the default.
        mirror: the bucket that this one copies: its name, or a StreamSource.
        sources: buckets whose keys this one has too.
    """

    description: str | None
    history: int | None
    ttl: Duration | None
    marker_ttl: Duration | None
    max_bytes: int | None
    max_value_size: int | None
    storage: Storage | None
    replicas: int | None
    compression: bool | None
    placement: Placement | None
    republish: Republish | None
    metadata: Mapping[str, str] | None
    direct: bool | None
    atomic: bool | None
    mirror: str | StreamSource | None
    sources: Sequence[str | StreamSource] | None


@event
class AnyBucketConfig:
    """What buckets of keys, and of objects, have in common. ``stream`` is the configuration of its stream."""

    stream: StreamConfig

    @property
    def description(self) -> str | None:
        """A text for people."""
        return self.stream.description

    @property
    def ttl(self) -> float | None:
        """How long a revision, or an object, lives, in seconds. None: for ever."""
        return self.stream.max_age or None

    @property
    def max_bytes(self) -> int | None:
        """Bytes of all that it holds. None: there is no limit."""
        return limit_of(self.stream.max_bytes)

    @property
    def storage(self) -> str | None:
        """Where it is: "file" or "memory"."""
        return self.stream.storage

    @property
    def replicas(self) -> int:
        """How many servers have it."""
        return self.stream.num_replicas or 1

    @property
    def compression(self) -> bool:
        """Whether the server compresses its files."""
        return self.stream.compression not in (None, "none")

    @property
    def metadata(self) -> Mapping[str, str]:
        """Names and values for applications."""
        return self.stream.metadata or {}


@event
class BucketConfig(AnyBucketConfig):
    """What a bucket is like. ``stream`` is the configuration of its stream, which has fields beyond those here."""

    @classmethod
    def of(cls, bucket: str, server: ServerInfo | None = None, /, **options: Unpack[BucketOptions]) -> BucketConfig:
        """A new bucket. ``server``: the one that is asked. None: one of the present release.

        Raises:
            LocalProtocolError: the name, or an option, cannot be.
        """
        is_mirror = options.get("mirror") is not None
        given: dict[str, Any] = {
            **dict.fromkeys(("direct", "history", "ttl", "max_bytes", "max_value_size")),
            "atomic": not is_mirror and not is_before(server, _ATOMIC_SINCE),
            **{name: value for name, value in options.items() if value is not None},
        }
        fields: dict[str, Any] = {
            "max_consumers": -1, "max_msgs": -1, "discard": "new", "allow_rollup_hdrs": True, "deny_delete": True,
        }  # fmt: skip
        if is_mirror:
            fields["mirror_direct"] = True
        else:
            fields["subjects"] = [subjects_of(check_bucket(bucket))]
            if not is_before(server, _TTL_SINCE):
                fields["allow_msg_ttl"] = True
        fields |= _stream_fields(bucket, cast("BucketOptions", given))
        return cls(StreamConfig.from_options(stream_of(bucket), **cast("StreamOptions", fields)))

    @classmethod
    def read(cls, stream: StreamConfig) -> BucketConfig:
        """The bucket that a stream is.

        Raises:
            BadBucketError: it is none.
        """
        if bucket_of(stream.name) is None:
            raise BadBucketError(stream.name, "name", stream.name)
        history = stream.max_msgs_per_subject
        if history is None or history < 1:
            raise BadBucketError(stream.name.removeprefix(STREAM_PREFIX), "max_msgs_per_subject", history)
        return cls(stream)

    def changes(self, **options: Unpack[BucketOptions]) -> StreamOptions:
        """The fields of the stream that an update with ``options`` changes.

        Raises:
            LocalProtocolError: an option cannot be.
        """
        return changed_fields(self.stream, _stream_fields(self.bucket, options))

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self.stream.name.removeprefix(STREAM_PREFIX)

    @property
    def history(self) -> int:
        """How many revisions a key keeps."""
        return self.stream.max_msgs_per_subject or 1

    @property
    def marker_ttl(self) -> float | None:
        """How long the marker of an expired key lives, in seconds. None: there is none."""
        return self.stream.subject_delete_marker_ttl or None

    @property
    def max_value_size(self) -> int | None:
        """Bytes of a value with its headers. None: there is no limit."""
        return limit_of(self.stream.max_msg_size)

    @property
    def direct(self) -> bool:
        """Whether any replica answers reads."""
        return bool(self.stream.allow_direct)

    @property
    def atomic(self) -> bool:
        """Whether several keys can be changed in one atomic batch."""
        return bool(self.stream.allow_atomic)

    @property
    def mirror(self) -> StreamSource | None:
        """The stream of the bucket that it copies."""
        return self.stream.mirror

    @property
    def sources(self) -> Sequence[StreamSource]:
        """The streams of the buckets whose keys it has too."""
        return self.stream.sources or ()


@event
class BucketStatus:
    """A bucket: its configuration, and how much it holds. ``info`` is what the server says of its stream."""

    info: StreamInfo

    @property
    def config(self) -> BucketConfig:
        """What the bucket is like."""
        return BucketConfig(self.info.config)

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self.config.bucket

    @property
    def values(self) -> int:
        """How many revisions it holds, markers included."""
        return self.info.state.messages

    @property
    def bytes(self) -> int:
        """Bytes of all revisions, with names and headers."""
        return self.info.state.bytes

    @property
    def last_revision(self) -> int:
        """The newest revision of any key, 0 in a new bucket."""
        return self.info.state.last_seq


def changed_fields(stream: StreamConfig, fields: dict[str, Any]) -> StreamOptions:
    """``fields`` of an update. A window for message ids that is the stream's own stays as far as it can."""
    window = stream.duplicate_window
    if "duplicate_window" in fields and window not in (None, _window(stream.max_age)):
        fields["duplicate_window"] = min(window or 0, fields["max_age"] or window or 0)
    return cast("StreamOptions", fields)


# -- one option after the other ----------------------------------------------------------------------------------------


def _stream_fields(bucket: str, options: BucketOptions) -> dict[str, Any]:
    return stream_fields(_OPTIONS, bucket, options)


def stream_fields(known: Mapping[str, Written], bucket: str, options: Mapping[str, object]) -> dict[str, Any]:
    """The fields of the stream that stand for ``options``. ``known``: how each is written."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        write = known.get(name)
        if write is None:
            raise LocalProtocolError(f"a bucket has no option {name!r:.100}{nearest(name, known)}")
        if isinstance(write, str):
            fields[write] = value
        else:
            fields |= write(bucket, value)
    return fields


def _history(_: str, value: Any) -> dict[str, Any]:
    revisions = 1 if value is None else value
    if type(revisions) is not int or not 1 <= revisions <= MAX_HISTORY:
        raise LocalProtocolError(f"history is a whole number from 1 to {MAX_HISTORY}, not {value!r:.100}")
    return {"max_msgs_per_subject": revisions}


def _ttl(_: str, value: Any) -> dict[str, Any]:
    seconds = None if value is None else nanoseconds(value, "ttl") / SECOND
    return {"max_age": value, "duplicate_window": _window(seconds)}


def _window(ttl: float | None) -> float:
    return min(DUPLICATE_WINDOW, ttl or DUPLICATE_WINDOW)


def _marker_ttl(_: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {"subject_delete_marker_ttl": None}
    nanoseconds(value, "marker_ttl", SECOND)
    return {"subject_delete_marker_ttl": value, "allow_msg_ttl": True}


def _bytes_of(option: str, field: str) -> Callable[[str, Any], dict[str, Any]]:
    def write(_: str, value: Any) -> dict[str, Any]:
        if value is not None and (type(value) is not int or value < 1):
            raise LocalProtocolError(f"{option} is a whole number of 1 or more, not {value!r:.100}")
        return {field: _NO_LIMIT if value is None else value}

    return write


def flag_of(option: str, field: str, default: bool, words: tuple[Any, Any]) -> Callable[[str, Any], dict[str, Any]]:
    """An option that is True or False. ``words``: what the field says for False and for True."""

    def write(_: str, value: Any) -> dict[str, Any]:
        if value not in (None, False, True):
            raise LocalProtocolError(f"{option} is True or False, not {value!r:.100}")
        return {field: words[default if value is None else value]}

    return write


def _mirror(_: str, value: Any) -> dict[str, Any]:
    return {"mirror": None if value is None else _source(value)}


def _sources(bucket: str, value: Any) -> dict[str, Any]:
    if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise LocalProtocolError(f"sources are a list of buckets, not {value!r:.100}")
    sources = [_source(each) for each in value or ()]
    for source in sources:
        origin = source["name"].removeprefix(STREAM_PREFIX)
        if "subject_transforms" not in source and ("external" not in source or origin != bucket):
            source["subject_transforms"] = [{"src": subjects_of(origin), "dest": subjects_of(bucket)}]
    return {"sources": sources or None}


def _source(value: str | StreamSource) -> StreamSource:
    """The stream of a bucket, as a mirror or a source has it."""
    source: Any = {"name": value} if isinstance(value, str) else value
    if not isinstance(source, Mapping) or not isinstance(source.get("name"), str):
        raise LocalProtocolError(f"a bucket to copy is its name, or a StreamSource, not {value!r:.100}")
    return cast("StreamSource", {**source, "name": stream_of(source["name"].removeprefix(STREAM_PREFIX))})


def limit_of(value: int | None) -> int | None:
    """A limit of the stream. None: there is none."""
    return value if value is not None and value > 0 else None


def is_before(server: ServerInfo | None, release: str) -> bool:
    """Whether the server is older. None is of the present release."""
    return server is not None and server.is_before(release)


Written: TypeAlias = str | Callable[[str, Any], dict[str, Any]]
"""How an option is written: the field that has its value, or what makes fields of the bucket's name and the value."""

COMMON: Final[Mapping[str, Written]] = {
    "description": "description",
    "ttl": _ttl,
    "max_bytes": _bytes_of("max_bytes", "max_bytes"),
    "storage": "storage",
    "replicas": "num_replicas",
    "compression": flag_of("compression", "compression", False, ("none", "s2")),
    "placement": "placement",
    "metadata": "metadata",
}
"""The options that buckets of objects have as well."""

_OPTIONS: Final[Mapping[str, Written]] = {
    **COMMON,
    "history": _history,
    "marker_ttl": _marker_ttl,
    "max_value_size": _bytes_of("max_value_size", "max_msg_size"),
    "republish": "republish",
    "direct": flag_of("direct", "allow_direct", True, (False, True)),
    "atomic": flag_of("atomic", "allow_atomic", True, (False, True)),
    "mirror": _mirror,
    "sources": _sources,
}
