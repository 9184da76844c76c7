"""Models of what servers say about themselves and about streams: configuration, state, INFO.

Rules: names are those of the wire. A field that a server (or a caller) left out is None and is left out again: unset
stays unset. Unknown fields are kept in ``extra`` and written back, so an update never loses what a newer server added.
Known fields have the right type, or the whole document is refused. JSON's null means unset. Objects inside a
configuration (placement, sources) stay dictionaries of the wire's shape, which is how their unknown fields survive.
Values stay as they were made.

Durations are seconds wherever they are read or written, as a number or a timedelta, and nanoseconds in JSON alone. What
was read is ``Seconds``, exact to the nanosecond.

Not here: whether a server will accept a configuration (the server judges, it knows its limits: ``check`` refuses only
what all of them do), consumers, accounts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack, get_args

from jsproto.errors import MAX_NAMED, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.fields import (
    NEVER,
    Json,
    Writer,
    as_count,
    as_flag,
    as_integer,
    as_moment,
    as_seconds,
    as_size,
    as_text,
    as_texts,
    check_words,
    cluster_of,
    list_of,
    map_of,
    nearest,
    read_fields,
    readers_of,
    record_of,
    taken,
    unknown_fields,
    word_of,
    write_fields,
)
from jsproto.grammar.sources import StreamSourceInfo, check_source
from jsproto.grammar.times import Duration, Instant, as_stamp, nanoseconds

_Bytes: TypeAlias = bytes  # for the class that has a field of that name


# -- objects inside a stream's configuration ---------------------------------------------------------------------------


class Placement(TypedDict, total=False):
    """Where the replicas of a stream may live."""

    cluster: str
    tags: list[str]
    preferred: str


class SubjectTransform(TypedDict, total=False):
    """Subjects that match ``src`` become ``dest``."""

    src: str
    dest: str


class Republish(TypedDict, total=False):
    """Stored messages that match ``src`` are published again to ``dest``."""

    src: str
    dest: str
    headers_only: bool


class ConsumerLimits(TypedDict, total=False):
    """Defaults and limits for a stream's consumers. ``inactive_threshold`` in seconds."""

    inactive_threshold: float
    max_ack_pending: int


class ConsumerLimitOptions(TypedDict, total=False):
    """``ConsumerLimits`` as callers may write it: ``inactive_threshold`` in seconds, or a timedelta."""

    inactive_threshold: Duration
    max_ack_pending: int


class ExternalStream(TypedDict, total=False):
    """The API prefix and the delivery prefix under which another account's or domain's stream is reached."""

    api: str
    deliver: str


class SourceConsumer(TypedDict, total=False):
    """A durable consumer made beforehand, for sourcing (servers from 2.14). See ``sourcing_consumer``.

    A source that gets one by an update is another source to servers, and copies again what the consumer delivers. A
    safe change takes three steps (FACTS.md F4.10).

    ``server_managed`` is of the proposal. Releases up to 2.15 refuse it (FACTS.md F4.11).
    """

    name: str
    deliver_subject: str
    server_managed: bool


class StreamSource(TypedDict, total=False):
    """The stream that a mirror or a source copies.

    ``opt_start_time`` reads as a time stamp in RFC 3339. Nanoseconds since the epoch may be given, or a datetime that
    knows its zone.
    """

    name: str
    opt_start_seq: int
    opt_start_time: str | Instant
    filter_subject: str
    subject_transforms: list[SubjectTransform]
    external: ExternalStream
    consumer: SourceConsumer


_TRANSFORM: Final = record_of({"src": as_text, "dest": as_text})
_SOURCE: Final = record_of(
    {
        "name": as_text,
        "opt_start_seq": as_count,
        "opt_start_time": as_text,
        "filter_subject": as_text,
        "subject_transforms": list_of(_TRANSFORM),
        "external": record_of({"api": as_text, "deliver": as_text}),
        "consumer": record_of({"name": as_text, "deliver_subject": as_text, "server_managed": as_flag}),
    }
)

# -- streams -----------------------------------------------------------------------------------------------------------


def _as_start(value: str | Instant, path: str) -> str:
    return value if isinstance(value, str) else as_stamp(value, path)


_WRITERS: Final[Mapping[str, Writer]] = {
    **dict.fromkeys(("max_age", "duplicate_window", "subject_delete_marker_ttl"), nanoseconds),
    "consumer_limits": record_of({"inactive_threshold": nanoseconds}),
    "mirror": record_of({"opt_start_time": _as_start}),
    "sources": list_of(record_of({"opt_start_time": _as_start})),
}


Retention: TypeAlias = Literal["limits", "interest", "workqueue"]
Discard: TypeAlias = Literal["old", "new"]
Storage: TypeAlias = Literal["file", "memory"]
Compression: TypeAlias = Literal["none", "s2"]
PersistMode: TypeAlias = Literal["default", "async"]

_WORDS: Final[Mapping[str, Writer]] = {
    "retention": word_of(get_args(Retention)),
    "discard": word_of(get_args(Discard)),
    "storage": word_of(get_args(Storage)),
    "compression": word_of(get_args(Compression)),
    "persist_mode": word_of(get_args(PersistMode)),
}


class StreamOptions(TypedDict, total=False):
    """The fields of StreamConfig as keyword arguments: durations in seconds, or as timedelta. None unsets a field."""

    description: str | None
    subjects: Sequence[str] | None
    retention: Retention | None
    max_consumers: int | None
    max_msgs: int | None
    max_bytes: int | None
    max_age: Duration | None
    max_msgs_per_subject: int | None
    max_msg_size: int | None
    discard: Discard | None
    storage: Storage | None
    num_replicas: int | None
    no_ack: bool | None
    duplicate_window: Duration | None
    placement: Placement | None
    mirror: StreamSource | None
    sources: Sequence[StreamSource] | None
    compression: Compression | None
    first_seq: int | None
    subject_transform: SubjectTransform | None
    republish: Republish | None
    allow_direct: bool | None
    mirror_direct: bool | None
    discard_new_per_subject: bool | None
    sealed: bool | None
    deny_delete: bool | None
    deny_purge: bool | None
    allow_rollup_hdrs: bool | None
    consumer_limits: ConsumerLimits | ConsumerLimitOptions | None
    allow_msg_ttl: bool | None
    subject_delete_marker_ttl: Duration | None
    allow_msg_counter: bool | None
    allow_atomic: bool | None
    allow_msg_schedules: bool | None
    persist_mode: PersistMode | None
    allow_batched: bool | None
    metadata: Mapping[str, str] | None
    extra: Mapping[str, Any]
    """Fields that this library does not know, as the server names them."""


@dataclass(slots=True)
class StreamConfig:
    """The configuration of a stream, every field of nats-server 2.15. None stands for the server's default.

    ``max_age``, ``duplicate_window``, ``subject_delete_marker_ttl`` and the ``inactive_threshold`` of
    ``consumer_limits`` are seconds: a number or a timedelta may be given. They read back as ``Seconds``, a float. What
    was read is written back to the nanosecond. LocalProtocolError, with the name of the field, for a duration that is
    malformed, negative, infinite, or longer than 292 years.

    Fields with a few values, the server's default first. ``from_options`` and ``updated`` refuse others, ``from_json``
    takes what a newer server says:

    * ``retention``: ``"limits"``, ``"interest"`` or ``"workqueue"``.
    * ``discard``: ``"old"`` or ``"new"``.
    * ``storage``: ``"file"`` or ``"memory"``.
    * ``compression``: ``"none"`` or ``"s2"``.
    * ``persist_mode``: ``"default"`` or ``"async"``.

    ``persist_mode`` ``"async"`` acknowledges a message before it is on disk: what was acknowledged can be
    lost. For servers an unset ``persist_mode`` and ``"default"`` are the same. They never say ``"default"``
    back. An update must carry the whole configuration, because a field left out counts as changed: take what
    ``stream_info`` says and use ``updated``.
    """

    name: str
    description: str | None = None
    subjects: list[str] | None = None
    retention: str | None = None
    max_consumers: int | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    max_age: float | None = None
    max_msgs_per_subject: int | None = None
    max_msg_size: int | None = None
    discard: str | None = None
    storage: str | None = None
    num_replicas: int | None = None
    no_ack: bool | None = None
    duplicate_window: float | None = None
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] | None = None
    compression: str | None = None
    first_seq: int | None = None
    subject_transform: SubjectTransform | None = None
    republish: Republish | None = None
    allow_direct: bool | None = None
    mirror_direct: bool | None = None
    discard_new_per_subject: bool | None = None
    sealed: bool | None = None
    deny_delete: bool | None = None
    deny_purge: bool | None = None
    allow_rollup_hdrs: bool | None = None
    consumer_limits: ConsumerLimits | None = None
    allow_msg_ttl: bool | None = None
    subject_delete_marker_ttl: float | None = None
    allow_msg_counter: bool | None = None
    allow_atomic: bool | None = None
    allow_msg_schedules: bool | None = None
    persist_mode: str | None = None
    allow_batched: bool | None = None
    metadata: dict[str, str] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:  # the fields in this order; their types as they are read are narrower than what may be given

        def __init__(self, name: str, **options: Unpack[StreamOptions]) -> None: ...

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, taken(name, value, _STREAM_CONFIG, _WRITERS) if name in _WRITERS else value)

    @classmethod
    def from_json(cls, document: bytes | Json) -> StreamConfig:
        """Read a configuration of the peer. RemoteProtocolError when a known field has the wrong type."""
        values = read_fields(document, _STREAM_CONFIG, "a stream configuration")
        if "name" not in values:
            raise RemoteProtocolError("a stream configuration without a name")
        return cls(**values)

    @classmethod
    def from_options(cls, name: str, **options: Unpack[StreamOptions]) -> StreamConfig:
        """A configuration from keyword arguments. LocalProtocolError as for ``updated``."""
        return cls(name).updated(**options)

    def updated(self, **options: Unpack[StreamOptions]) -> StreamConfig:
        """This configuration with some fields changed. ``extra`` is merged.

        Raises:
            LocalProtocolError: a field is unknown or mistyped, a value is not among those listed above, a duration is
                negative or not finite, or ``check`` refuses the whole.
        """
        values: dict[str, Any] = {**options}
        extra = values.pop("extra", {})
        try:
            changes: dict[str, Any] = {name: _option(name, value) for name, value in values.items()}
            changes["extra"] = self.extra | unknown_fields(extra, _STREAM_CONFIG)
        except (ValueError, LocalProtocolError) as error:
            raise LocalProtocolError(f"stream option {error}") from None
        config = replace(self, **changes)
        config.check()
        return config

    def check(self) -> None:
        """LocalProtocolError, with what to change, for fields that every server refuses together.

        Only what is certain: batches need a stream that can be published to and, if atomic, messages on disk before
        they are acknowledged. Asynchronous persistence is for one replica on disk (FACTS.md F1.25, F6.1). The consumer
        of a source or a mirror has a name and a subject, and start and filter of its own (FACTS.md F4.9).
        """
        for source in self.sources or ():
            check_source(source, f"source {source.get('name')}")
        if self.mirror is not None:
            check_source(self.mirror, "the mirror")
        if self.persist_mode == "async":
            if self.allow_atomic:
                raise LocalProtocolError(
                    "a stream cannot have both allow_atomic and persist_mode 'async': leave one out"
                    " (allow_batched goes with 'async')"
                )
            if self.num_replicas is not None and self.num_replicas > 1:
                raise LocalProtocolError(
                    f"persist_mode 'async' is for streams of one replica, not of {self.num_replicas}:"
                    " set num_replicas to 1 or leave persist_mode out"
                )
            if self.storage == "memory":
                raise LocalProtocolError(
                    "persist_mode 'async' is for storage on disk: set storage to 'file' or leave persist_mode out"
                )
        if self.mirror is not None:
            refused = [name for name in ("allow_atomic", "allow_batched") if getattr(self, name)]
            if refused:
                raise LocalProtocolError(
                    f"a mirror cannot be published to, so it cannot have {' and '.join(refused)}:"
                    " set it on the stream that is mirrored"
                )

    def check_words(self) -> None:
        """LocalProtocolError, with the nearest valid word, for a field outside of the few values it may have.

        It is for streams that are created: what a newer server said of one may have words that this library lacks.
        """
        check_words(self, _WORDS, "stream")

    def to_json(self) -> dict[str, Any]:
        """The JSON object: what is set, and what is unknown. Durations are nanoseconds.

        LocalProtocolError when ``consumer_limits`` was changed to hold a malformed duration.
        """
        return write_fields(self, _STREAM_CONFIG, self.extra, _WRITERS)


_STREAM_CONFIG: Final = readers_of(
    StreamConfig, placement=record_of({"cluster": as_text, "tags": as_texts, "preferred": as_text}), mirror=_SOURCE,
    sources=list_of(_SOURCE), first_seq=as_count, subject_transform=_TRANSFORM,
    republish=record_of({"src": as_text, "dest": as_text, "headers_only": as_flag}),
    consumer_limits=record_of({"inactive_threshold": as_seconds, "max_ack_pending": as_integer}),
)  # fmt: skip


def of_stream_config(name: str, value: object) -> StreamConfig:
    """The configuration of a stream. LocalProtocolError, with the name, for anything else."""
    if not isinstance(value, StreamConfig):
        raise LocalProtocolError(f"{name} is a StreamConfig, not {type(value).__name__}")
    return value


def _option(name: str, value: Any) -> Any:
    """One keyword argument as the value of a field."""
    reader = _STREAM_CONFIG.get(name)
    if reader is None or name == "name":
        offered = nearest(name, [each for each in _STREAM_CONFIG if each != "name"])
        raise ValueError(f"{name} is unknown{offered} (a newer server's field goes into extra)")
    if name in _WRITERS:
        return taken(name, value, _STREAM_CONFIG, _WRITERS)
    reader = _WORDS.get(name, reader)
    return None if value is None else reader(value, name)


@dataclass(slots=True)
class StreamState:
    """What a stream holds. Times are nanoseconds since the epoch, or None before the first message."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    first_ts: int | None = None
    last_seq: int = 0
    last_ts: int | None = None
    num_subjects: int | None = None
    subjects: dict[str, int] | None = None
    num_deleted: int | None = None
    deleted: list[int] | None = None
    lost: dict[str, Any] | None = None
    consumer_count: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: _Bytes | Json) -> StreamState:
        """Read a state. RemoteProtocolError when a known field has the wrong type."""
        return cls(**read_fields(document, _STREAM_STATE, "a stream state"))

    def to_json(self) -> dict[str, Any]:
        """The JSON object. "never" is Go's zero time, as servers write it."""
        body = write_fields(self, _STREAM_STATE, self.extra)
        for name in ("first_ts", "last_ts"):
            body.setdefault(name, NEVER)
        return body


_STREAM_STATE: Final = readers_of(
    StreamState, as_count, first_ts=as_moment, last_ts=as_moment, subjects=map_of(as_count), deleted=list_of(as_count)
)
_STREAM_INFO_WRITERS: Final[Mapping[str, Writer]] = {"cluster": cluster_of(nanoseconds)}
_REQUIRED_LEVEL: Final = "_nats.req.level"


@dataclass(slots=True)
class StreamInfo:
    """A stream: its configuration and state. Times are nanoseconds since the epoch. ``ts`` is when the server looked.

    ``mirror`` and ``sources``: how far each copy is. ``cluster`` and ``alternates`` are the server's objects. In
    ``cluster`` the ``active`` of a replica is how long ago it was heard of, in seconds. In ``extra``: the ``type`` of
    the answer, and ``did_create`` after a creation.
    """

    config: StreamConfig
    created: int | None = None
    state: StreamState = field(default_factory=StreamState)
    domain: str | None = None
    cluster: dict[str, Any] | None = None
    mirror: StreamSourceInfo | None = None
    sources: list[StreamSourceInfo] | None = None
    alternates: list[dict[str, Any]] | None = None
    ts: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        config, state = self.config, self.state
        subjects = ", ".join((config.subjects or [])[:MAX_NAMED])
        more = f" and {len(config.subjects or []) - MAX_NAMED} more" if len(config.subjects or []) > MAX_NAMED else ""
        return (
            f"<StreamInfo {config.name} [{subjects}{more}]: {state.messages} messages, {state.bytes} bytes,"
            f" sequences {state.first_seq} to {state.last_seq}, {state.consumer_count} consumers>"
        )

    @property
    def required_api_level(self) -> int | None:
        """The API level that the configuration needs, as the server noted in its metadata, else None."""
        return _digits((self.config.metadata or {}).get(_REQUIRED_LEVEL, ""))

    @classmethod
    def from_json(cls, document: bytes | Json) -> StreamInfo:
        """Read the answer to a stream request. RemoteProtocolError for a missing configuration or a wrong type."""
        values = read_fields(document, _STREAM_INFO, "a stream's information")
        if "config" not in values:
            raise RemoteProtocolError("a stream's information without its configuration")
        config = values["config"] = StreamConfig.from_json(values["config"])
        if "mirror" in values:
            values["mirror"] = StreamSourceInfo.from_json(values["mirror"], [config.mirror or {}])
        if "sources" in values:
            values["sources"] = [StreamSourceInfo.from_json(each, config.sources or []) for each in values["sources"]]
        values["state"] = StreamState.from_json(values.get("state", {}))
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        body = write_fields(self, _STREAM_INFO, self.extra, _STREAM_INFO_WRITERS)
        if self.mirror is not None:
            body["mirror"] = self.mirror.to_json()
        if self.sources is not None:
            body["sources"] = [each.to_json() for each in self.sources]
        return body | {"config": self.config.to_json(), "state": self.state.to_json()}


_STREAM_INFO: Final = readers_of(StreamInfo, created=as_moment, cluster=cluster_of(as_seconds), ts=as_moment)

# -- servers -----------------------------------------------------------------------------------------------------------

_VERSION: Final = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?![0-9])")
_DIGITS: Final = re.compile(r"[0-9]{1,9}")


@lru_cache(maxsize=16)
def _numbers(version: str) -> tuple[int, int, int]:
    """A server's version as numbers. (0, 0, 0): it has none. Servers are few, and are asked about often."""
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


@dataclass(slots=True)
class ServerInfo:
    """What a server says of itself in INFO. ``ldm``: lame-duck mode, it is about to go.

    ``max_payload`` is nats-server's default where a server leaves it out. Fields for routes, gateways and leaf nodes
    are in ``extra``.
    """

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    git_commit: str | None = None
    go: str | None = None
    host: str | None = None
    port: int | None = None
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int = 1024 * 1024
    jetstream: bool = False
    client_id: int | None = None
    client_ip: str | None = None
    nonce: str | None = None
    cluster: str | None = None
    domain: str | None = None
    connect_urls: list[str] | None = None
    ws_connect_urls: list[str] | None = None
    ldm: bool = False
    api_lvl: int | None = None
    xkey: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def version_tuple(self) -> tuple[int, int, int]:
        """The version as numbers. What follows them is cut: ``2.15.1-RC.1`` is (2, 15, 1). (0, 0, 0): unreadable."""
        return _numbers(self.version)

    def is_before(self, version: str) -> bool:
        """Whether it is known to be older than ``version``, such as ``2.14``. An unreadable version counts as new."""
        wanted = tuple(map(int, version.split(".")))
        return (0, 0, 0) < _numbers(self.version) < wanted

    @property
    def api_level(self) -> int | None:
        """The JetStream API level. Servers before 2.12 leave it out: None."""
        return self.api_lvl

    @classmethod
    def from_json(cls, document: bytes | Json) -> ServerInfo:
        """Read INFO. RemoteProtocolError when it is something other than an object, or a known field has the wrong
        type.
        """
        return cls(**read_fields(document, _SERVER_INFO, "INFO"))

    def to_json(self) -> dict[str, Any]:
        """The JSON object. Of the optional flags only those that are true, as servers do."""
        body = write_fields(self, _SERVER_INFO, self.extra)
        optional = ("auth_required", "tls_required", "tls_verify", "tls_available", "jetstream", "ldm")
        return {name: value for name, value in body.items() if value is not False or name not in optional}


_SERVER_INFO: Final = readers_of(ServerInfo, max_payload=as_size, client_id=as_count)


def _digits(text: str) -> int | None:
    return int(text) if _DIGITS.fullmatch(text) else None
