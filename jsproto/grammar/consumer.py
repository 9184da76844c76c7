"""Models of what servers say about consumers: configuration, state, sequences.

Rules: those of ``config``: names of the wire, unset stays unset, unknown fields are kept in ``extra`` and written back,
known ones have the right type. Durations are seconds, exact to the nanosecond. Moments are nanoseconds since the epoch.
A consumer with a ``deliver_subject`` pushes, others are pulled from.

Not here: whether a server will accept a configuration, and which ones the subscribe workflow refuses (ADR-15).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack, get_args

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import uint64
from jsproto.grammar.fields import (
    NEVER,
    Json,
    Reader,
    Writer,
    as_count,
    as_flag,
    as_integer,
    as_moment,
    as_record,
    as_records,
    as_seconds,
    as_text,
    check_words,
    cluster_of,
    list_of,
    nearest,
    read_fields,
    readers_of,
    taken,
    unknown_fields,
    word_of,
    write_fields,
)
from jsproto.grammar.times import Duration, Instant, as_stamp, nanoseconds

_WRITERS: Final[Mapping[str, Writer]] = {
    **dict.fromkeys(
        ("ack_wait", "max_expires", "idle_heartbeat", "inactive_threshold", "priority_timeout"), nanoseconds
    ),
    "backoff": list_of(nanoseconds),
    "opt_start_time": as_stamp,
    "pause_until": as_stamp,
}
_UNLIMITED: Final = frozenset({"max_ack_pending", "max_deliver"})  # any negative number: no limit
_OWN_METADATA: Final = "_nats."  # keys that servers add


DeliverPolicy: TypeAlias = Literal["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]
AckPolicy: TypeAlias = Literal["none", "all", "explicit", "flow_control"]
ReplayPolicy: TypeAlias = Literal["instant", "original"]
PriorityPolicy: TypeAlias = Literal["none", "overflow", "pinned_client", "prioritized"]

POLICIES: Final[Mapping[str, tuple[str, ...]]] = {
    "deliver_policy": get_args(DeliverPolicy),
    "ack_policy": get_args(AckPolicy),
    "replay_policy": get_args(ReplayPolicy),
    "priority_policy": get_args(PriorityPolicy),
}
"""The values of each policy."""

_WORDS: Final[Mapping[str, Writer]] = {name: word_of(allowed) for name, allowed in POLICIES.items()}


class ConsumerOptions(TypedDict, total=False):
    """The fields of ConsumerConfig as keyword arguments: durations in seconds, or as timedelta. None unsets a field."""

    durable_name: str | None
    name: str | None
    description: str | None
    deliver_policy: DeliverPolicy | None
    opt_start_seq: int | None
    opt_start_time: Instant | None
    ack_policy: AckPolicy | None
    ack_wait: Duration | None
    max_deliver: int | None
    backoff: Sequence[Duration] | None
    filter_subject: str | None
    filter_subjects: Sequence[str] | None
    replay_policy: ReplayPolicy | None
    rate_limit_bps: int | None
    sample_freq: str | None
    max_waiting: int | None
    max_ack_pending: int | None
    flow_control: bool | None
    headers_only: bool | None
    max_batch: int | None
    max_expires: Duration | None
    max_bytes: int | None
    deliver_subject: str | None
    deliver_group: str | None
    idle_heartbeat: Duration | None
    inactive_threshold: Duration | None
    num_replicas: int | None
    mem_storage: bool | None
    direct: bool | None
    sourcing: bool | None
    metadata: Mapping[str, str] | None
    pause_until: Instant | None
    priority_groups: Sequence[str] | None
    priority_policy: PriorityPolicy | None
    priority_timeout: Duration | None
    extra: Mapping[str, Any]
    """Fields that this library does not know, as the server names them."""


@dataclass(slots=True)
class ConsumerConfig:
    """The configuration of a consumer, every field of nats-server 2.15. None stands for the server's default.

    ``ack_policy`` is the exception: left out it would mean ``"none"`` to the server, so here it is ``"explicit"``.
    ``opt_start_time`` and ``pause_until`` are nanoseconds since the epoch. A datetime that knows its zone may be given.
    ``sourcing`` lets a consumer of a work queue
    overlap others: a message then goes only when all of them have it (FACTS.md F4.12).

    ``ack_wait``, ``backoff``, ``idle_heartbeat``, ``inactive_threshold``, ``max_expires`` and ``priority_timeout`` are
    seconds: a number or a timedelta may be given. They read back as ``Seconds``, a float. What was read is written back
    to the nanosecond. LocalProtocolError, with the name of the field, for a duration that is malformed, negative,
    infinite, or longer than 292 years.

    Fields with a few values. ``from_options`` and ``updated`` refuse others, ``from_json`` takes what a newer server
    says:

    * ``deliver_policy``: ``"all"`` (the default), ``"last"``, ``"new"``, ``"by_start_sequence"``, ``"by_start_time"``
      or ``"last_per_subject"``.
    * ``ack_policy``: ``"explicit"``, ``"all"``, ``"none"`` or ``"flow_control"``.
    * ``replay_policy``: ``"instant"`` (the default) or ``"original"``.
    * ``priority_policy``: ``"none"`` (the default), ``"overflow"``, ``"pinned_client"`` or ``"prioritized"``.
    """

    durable_name: str | None = None
    name: str | None = None
    description: str | None = None
    deliver_policy: str | None = None
    opt_start_seq: int | None = None
    opt_start_time: int | None = None
    ack_policy: str | None = "explicit"
    ack_wait: float | None = None
    max_deliver: int | None = None
    backoff: list[float] | None = None
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None
    replay_policy: str | None = None
    rate_limit_bps: int | None = None
    sample_freq: str | None = None
    max_waiting: int | None = None
    max_ack_pending: int | None = None
    flow_control: bool | None = None
    headers_only: bool | None = None
    max_batch: int | None = None
    max_expires: float | None = None
    max_bytes: int | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    idle_heartbeat: float | None = None
    inactive_threshold: float | None = None
    num_replicas: int | None = None
    mem_storage: bool | None = None
    direct: bool | None = None
    sourcing: bool | None = None
    metadata: dict[str, str] | None = None
    pause_until: int | None = None
    priority_groups: list[str] | None = None
    priority_policy: str | None = None
    priority_timeout: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:  # the fields in this order; their types as they are read are narrower than what may be given

        def __init__(self, **options: Unpack[ConsumerOptions]) -> None: ...

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, taken(name, value, _CONSUMER_CONFIG, _WRITERS) if name in _WRITERS else value)

    @property
    def consumer_name(self) -> str | None:
        """The name it has or will have. None lets the server choose."""
        return self.name or self.durable_name or None

    @property
    def filters(self) -> list[str]:
        """The subjects it filters, in either field, empty when it takes all of the stream."""
        return [self.filter_subject] if self.filter_subject else self.filter_subjects or []

    @classmethod
    def from_json(cls, document: bytes | Json) -> ConsumerConfig:
        """Read a configuration of the peer. RemoteProtocolError when a known field has the wrong type."""
        values = read_fields(document, _CONSUMER_CONFIG, "a consumer configuration")
        return UNSET.replaced(values)

    @classmethod
    def from_options(cls, **options: Unpack[ConsumerOptions]) -> ConsumerConfig:
        """A configuration from keyword arguments. LocalProtocolError as for ``updated``."""
        return _DEFAULT.updated(**options)

    def updated(self, **options: Unpack[ConsumerOptions]) -> ConsumerConfig:
        """This configuration with some fields changed. ``extra`` is merged.

        Raises:
            LocalProtocolError: a field is unknown or mistyped, a value is not among those listed above, a moment is
                outside the years 0 to 9999, a duration is negative or not finite.
        """
        values: dict[str, Any] = {**options}
        extra = values.pop("extra", {})
        try:
            changes: dict[str, Any] = {name: _option(name, value) for name, value in values.items()}
            changes["extra"] = self.extra | unknown_fields(extra, _CONSUMER_CONFIG)
        except (ValueError, LocalProtocolError) as error:
            raise LocalProtocolError(f"consumer option {error}") from None
        return self.replaced(changes)

    def replaced(self, changes: Mapping[str, Any]) -> ConsumerConfig:
        """A copy with some fields changed, for callers that have checked them: durations are ``Seconds``."""
        made, put = object.__new__(ConsumerConfig), object.__setattr__
        for name, value in {**dict(zip(_FIELDS, _values(self), strict=True)), **changes}.items():
            put(made, name, value)
        return made

    def check_words(self) -> None:
        """As ``StreamConfig.check_words``, for consumers that are created."""
        check_words(self, _WORDS, "consumer")

    def to_json(self) -> dict[str, Any]:
        """The JSON object: what is set, and what is unknown. Durations are nanoseconds.

        LocalProtocolError when ``backoff`` was changed to hold a malformed duration.
        """
        return write_fields(self, _CONSUMER_CONFIG, self.extra, _WRITERS)


_CONSUMER_CONFIG: Final = readers_of(
    ConsumerConfig, opt_start_seq=as_count, opt_start_time=as_moment, backoff=list_of(as_seconds),
    rate_limit_bps=as_count, pause_until=as_moment,
)  # fmt: skip
_FIELDS: Final = tuple(each.name for each in fields(ConsumerConfig))
_values: Final = attrgetter(*_FIELDS)
_DEFAULT: Final = ConsumerConfig()
UNSET: Final = ConsumerConfig(ack_policy=None)
"""A configuration that says nothing. It is never changed."""


def of_consumer_config(name: str, value: object) -> ConsumerConfig:
    """The configuration of a consumer. LocalProtocolError, with the name, for anything else."""
    if not isinstance(value, ConsumerConfig):
        raise LocalProtocolError(f"{name} is a ConsumerConfig, not {type(value).__name__}")
    return value


def differences(wanted: ConsumerConfig, found: ConsumerConfig) -> list[str]:
    """The fields that ``wanted`` sets and ``found`` has otherwise, in the order of the wire.

    Not compared are fields that ``wanted`` leaves unset, and the server's defaults: 0, and an ``ack_wait`` that
    ``backoff`` replaces. Nor are the metadata that servers add, ``name`` (it is how a consumer is found) and
    ``pause_until`` (it passes). One subject is the same filter in either field. Their order is free.
    """
    asked, has = wanted.to_json(), found.to_json()
    different = [
        name
        for name in asked
        if name not in ("name", "pause_until", "filter_subject", "filter_subjects") and _differs(name, asked, has)
    ]
    filters = [name for name in ("filter_subject", "filter_subjects") if name in asked]
    if filters and sorted(wanted.filters) != sorted(found.filters):
        different.append(filters[0])
    return different


def _differs(name: str, asked: Json, has: Json) -> bool:
    """Whether a field of the JSON that is asked for is another one in what there is."""
    value, other = asked[name], has.get(name)
    if name == "ack_wait" and asked.get("backoff"):
        return False
    if name == "metadata":
        value, other = _user_metadata(value), _user_metadata(other)
    if type(value) is int and not value:
        return False
    if name in _UNLIMITED and value < 0:
        return bool(other is not None and other > 0)
    return bool((value or None) != (other or None))


def _user_metadata(metadata: dict[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (metadata or {}).items() if not key.startswith(_OWN_METADATA)}


def _option(name: str, value: Any) -> Any:
    """One keyword argument as the value of a field."""
    reader = _CONSUMER_CONFIG.get(name)
    if reader is None:
        raise ValueError(f"{name} is unknown{nearest(name, _CONSUMER_CONFIG)} (a newer server's field goes into extra)")
    if name in _WRITERS:
        return taken(name, value, _CONSUMER_CONFIG, _WRITERS)
    reader = _WORDS.get(name, reader)
    return None if value is None else reader(value, name)


# -- what servers say --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SequencePair:
    """A place in a consumer and in its stream. ``last_active`` is when it was reached, in ns since the epoch."""

    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: bytes | Json) -> SequencePair:
        """Read a pair. RemoteProtocolError when a known field has the wrong type."""
        return cls(**read_fields(document, _SEQUENCE_PAIR, "a pair of sequences"))

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return write_fields(self, _SEQUENCE_PAIR, self.extra)


@dataclass(slots=True)
class PriorityGroup:
    """A priority group, and who is pinned: the id, and since when, in ns since the epoch. Both None when nobody is."""

    group: str
    pinned_client_id: str | None = None
    pinned_ts: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: bytes | Json) -> PriorityGroup:
        """Read a group. RemoteProtocolError when its name is missing, or a known field has the wrong type."""
        values = read_fields(document, _PRIORITY_GROUP, "a priority group")
        if "group" not in values:
            raise RemoteProtocolError("a priority group without group")
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The JSON object. Nobody pinned is Go's zero time, as servers write it."""
        body = write_fields(self, _PRIORITY_GROUP, self.extra)
        return body if self.pinned_ts is not None else body | {"pinned_ts": NEVER}


_SEQUENCE_PAIR: Final = readers_of(SequencePair, as_count, last_active=as_moment)
_PRIORITY_GROUP: Final = readers_of(PriorityGroup, pinned_ts=as_moment)
_CONSUMER_INFO: Final[Mapping[str, Reader]] = {
    "stream_name": as_text,
    "name": as_text,
    "created": as_moment,
    "config": as_record,
    "delivered": as_record,
    "ack_floor": as_record,
    "num_ack_pending": as_integer,
    "num_redelivered": as_integer,
    "num_waiting": as_integer,
    "num_pending": as_count,
    "cluster": cluster_of(as_seconds),
    "push_bound": as_flag,
    "paused": as_flag,
    "pause_remaining": as_seconds,
    "ts": as_moment,
    "priority_groups": as_records,
}
_CONSUMER_INFO_WRITERS: Final[Mapping[str, Writer]] = {
    "cluster": cluster_of(nanoseconds),
    "pause_remaining": nanoseconds,
}


@dataclass(slots=True)
class ConsumerInfo:
    """A consumer: its configuration and state. Times are nanoseconds since the epoch. ``ts`` is when the server looked.

    ``delivered`` and ``ack_floor``: the last message delivered, and the last one below which all are acknowledged.
    ``num_pending``: messages still to be delivered for the first time. ``push_bound``: somebody subscribes to its
    deliver subject. ``pause_remaining``: for how long it is still paused, in seconds. ``cluster`` is the server's
    object, but for ``active`` of a replica: how long ago it was heard of, in seconds.
    """

    stream_name: str
    name: str
    config: ConsumerConfig
    created: int | None = None
    delivered: SequencePair = field(default_factory=SequencePair)
    ack_floor: SequencePair = field(default_factory=SequencePair)
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    cluster: dict[str, Any] | None = None
    push_bound: bool | None = None
    paused: bool | None = None
    pause_remaining: float | None = None
    ts: int | None = None
    priority_groups: list[PriorityGroup] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        kind = "push" if self.config.deliver_subject else "pull"
        paused = ", paused" if self.paused else ""
        return (
            f"<ConsumerInfo {self.name} of stream {self.stream_name} ({kind}{paused}): {self.num_pending} pending,"
            f" {self.num_ack_pending} without an acknowledgement, {self.num_redelivered} redelivered>"
        )

    @classmethod
    def from_json(cls, document: bytes | Json) -> ConsumerInfo:
        """Read the answer to a consumer request. RemoteProtocolError when a part is missing or has the wrong type."""
        values = read_fields(document, _CONSUMER_INFO, "a consumer's information")
        for name in ("stream_name", "name", "config"):
            if name not in values:
                raise RemoteProtocolError(f"a consumer's information without {name}")
        values["config"] = ConsumerConfig.from_json(values["config"])
        for name in ("delivered", "ack_floor"):
            values[name] = SequencePair.from_json(values.get(name, {}))
        if "priority_groups" in values:
            values["priority_groups"] = [PriorityGroup.from_json(group) for group in values["priority_groups"]]
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        body = write_fields(self, _CONSUMER_INFO, self.extra, _CONSUMER_INFO_WRITERS)
        if self.priority_groups is not None:
            body["priority_groups"] = [group.to_json() for group in self.priority_groups]
        return body | {
            "config": self.config.to_json(),
            "delivered": self.delivered.to_json(),
            "ack_floor": self.ack_floor.to_json(),
        }


@dataclass(slots=True)
class ConsumerReset:
    """The answer to a reset: where the consumer goes on, and what it is after that.

    ``reset_seq``: the first stream sequence that it may deliver next. ``info``: its configuration and state.
    ``stream_identity``: the server's mark of this stream alone. A later stream of the same name has another one. It is
    None before nats-server 2.15.
    """

    reset_seq: int
    info: ConsumerInfo
    stream_identity: str | None = None

    @classmethod
    def from_json(cls, document: Json, stream_identity: str | None = None) -> ConsumerReset:
        """Read the answer. RemoteProtocolError when a part is missing or has the wrong type."""
        body = dict(document)
        reset_seq = uint64(body, "reset_seq", 0)
        if not body.pop("reset_seq", None):
            raise RemoteProtocolError("the answer to a reset without reset_seq")
        return cls(reset_seq, ConsumerInfo.from_json(body), stream_identity)


_CONSUMER_PAUSE_WRITERS: Final[Mapping[str, Writer]] = {"pause_remaining": nanoseconds}


@dataclass(slots=True)
class ConsumerPause:
    """The answer to a pause or resume: ``pause_until`` in ns since the epoch, ``pause_remaining`` in seconds."""

    paused: bool = False
    pause_until: int | None = None
    pause_remaining: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: bytes | Json) -> ConsumerPause:
        """Read the answer. RemoteProtocolError when a known field has the wrong type."""
        return cls(**read_fields(document, _CONSUMER_PAUSE, "the answer to a pause"))

    def to_json(self) -> dict[str, Any]:
        """The JSON object. Not paused is Go's zero time, as servers write it."""
        return {"paused": self.paused, "pause_until": NEVER} | write_fields(
            self, _CONSUMER_PAUSE, self.extra, _CONSUMER_PAUSE_WRITERS
        )


_CONSUMER_PAUSE: Final = readers_of(ConsumerPause, pause_until=as_moment)
