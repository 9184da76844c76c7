"""The options of the data source, read once from Spark's strings into checked values.

Rules: names are those of Spark's Kafka source where it has them, and count in any case. What starts with ``nats.`` is
the connection's. A value that cannot be is an OptionError of one line that names the option; Spark adds keys of its own
("path", "option.stream", "owner", ...), so other unknown names are passed over, unless they are a slip of a known one.
An option of a write is refused in a read, and the other way round.

Not here: whether the stream can do it (``planning``, ``delivery``), which takes a server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, TypeAlias, TypeVar

from jsproto.client.publish.fast import DEFAULT_FLOW
from jsproto.errors import LocalProtocolError
from jsproto.grammar.fast import MAX_FLOW
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.grammar.times import parse_timestamp
from pyspark_jetstream.security import FILES, SECRETS, checked, content_of

T = TypeVar("T")
Offsets: TypeAlias = str | dict[str, int]  # "earliest", "latest", or a sequence for each stream

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_DEFAULT: Final[Offsets] = ""  # what suits the kind of read
_LATEST: Final[Offsets] = LATEST
MARKER: Final = "$spark"
"""The token that tells the subjects of our own markers: ``markerSubject.$spark.QUERY.PARTITION``."""
DELIVERIES: Final = ("fast", "fastDedup", "atomic")
NANOSECONDS_PER_MILLISECOND: Final = 1_000_000

_CONNECTION: Final = {
    "servers": "servers",
    "user": "user",
    "password": "password",
    "token": "token",
    "nkeyseed": "nkeys_seed_str",
    "tls": "tls",
    "tls.hostname": "tls_hostname",
    "tls.handshakefirst": "tls_handshake_first",
    "name": "name",
    "inboxprefix": "inbox_prefix",
    "connecttimeout": "connect_timeout",
    "jsdomain": "domain",
    "apiprefix": "prefix",
}  # option behind "nats.", in lower case -> keyword of connect() and jetstream()
_CONTENTS: Final = {f"{name}.content": keyword for name, keyword in FILES.items()}
_SOURCE: Final = (
    "servers", "stream", "subject", "filterSubject", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "includeBookkeeping", "batchSize", "maxBytes",
    "requestTimeout", "fetch.numRetries", "pushFilters", "kvBucket", "kvKeys",
)  # fmt: skip
_SINK: Final = (
    "servers", "stream", "subject", "delivery", "msgIdPrefix", "flow", "maxOutstandingAcks", "markerSubject",
    "requestTimeout", "ignoreExtraColumns",
)  # fmt: skip
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)")
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600}
_TRUE: Final = {"true": True, "false": False}
_BUCKET: Final = re.compile(r"[-_A-Za-z0-9]+")
# What an option may be, for errors.
_SECONDS: Final = "seconds, or such as 500ms, 30s, 15m or 2h; a day at most"
_SEQUENCES: Final = 'earliest, latest, or JSON of the sequence for each stream, such as {"EVENTS": 123}'
_TIME: Final = "RFC 3339 with a time zone, such as 2026-11-21T12:00:00Z, or milliseconds since 1970"


class OptionError(ValueError):
    """An option that is missing or cannot be; the message is one line and names it."""


@dataclass(frozen=True)
class Connecting:
    """How to reach the servers. Its repr shows no secret, because plans and errors are printed."""

    servers: str
    keywords: dict[str, Any] = field(default_factory=dict)
    domain: str | None = None
    prefix: str | None = None
    timeout: float = 30.0

    def __repr__(self) -> str:
        shown = {name: "***" if name in SECRETS else value for name, value in self.keywords.items()}
        return f"Connecting({_without_password(self.servers)!r}, {shown!r})"


@dataclass(frozen=True)
class ReadOptions:
    """What to read. Sequences in ``starting`` and ``ending`` are those to begin with and to end before."""

    connecting: Connecting
    streams: tuple[str, ...]
    subject: str | None
    starting: Offsets
    ending: Offsets
    starting_time: int | None
    ending_time: int | None
    max_per_trigger: int | None
    min_per_trigger: int | None
    max_trigger_delay: float
    min_partitions: int | None
    max_per_partition: int
    fail_on_data_loss: bool
    include_headers: bool
    include_bookkeeping: bool
    rows: int
    page_bytes: int
    retries: int
    push_filters: bool
    bucket: str | None


@dataclass(frozen=True)
class WriteOptions:
    """Where to write, and with which promise."""

    connecting: Connecting
    stream: str
    subject: str | None
    delivery: str
    msg_id_prefix: str | None
    flow: int
    max_outstanding_acks: int
    marker_subject: str | None
    ignore_extra_columns: bool


class _Given:
    """The given options, by name in any case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...], others: tuple[str, ...], what: str) -> None:
        """``known`` are the options of ``what``, a read or a write, and ``others`` those of the other one."""
        self._given = {name.lower(): value for name, value in options.items()}
        lower = {name.lower(): name for name in known}
        for other in others:
            if other not in known and self.text(other) is not None:
                raise OptionError(f"option {other} is not for a {what}")
        for name in self._given:
            if name not in lower and not name.startswith("nats."):
                meant = get_close_matches(name, lower, n=1, cutoff=0.85)
                if meant:
                    raise OptionError(f"there is no option {name!r}; did you mean {lower[meant[0]]!r}?")

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        return value.strip() if value is not None and value.strip() else None

    def parsed(self, name: str, parse: Callable[[str], T], default: T, form: str) -> T:
        """``default`` if it is not given. OptionError with ``form``, which says what it may be."""
        value = self.text(name)
        if value is None:
            return default
        try:
            return parse(value)
        except (ValueError, KeyError, TypeError, AttributeError, LocalProtocolError) as error:
            reason = error if isinstance(error, LocalProtocolError) else form
            raise OptionError(f"option {name} cannot be {value!r}: {reason}") from None

    def count(self, name: str, default: int, most: int = 2**63 - 1) -> int:
        number = self.parsed(name, int, default, f"a number from 1 to {most}")
        if not 1 <= number <= most:
            raise OptionError(f"option {name} must be 1 to {most}, not {number}")
        return number

    def count_if_given(self, name: str, most: int = 2**63 - 1) -> int | None:
        return None if self.text(name) is None else self.count(name, 1, most)

    def flag(self, name: str, default: bool) -> bool:
        return self.parsed(name, lambda value: _TRUE[value.lower()], default, "true or false")

    def connecting(self) -> Connecting:
        servers = self.text("servers") or self.text("nats.servers")
        if servers is None:
            raise OptionError('option servers is missing, such as .option("servers", "nats://localhost:4222")')
        try:
            keywords = self._keywords()
            checked(servers, {name: value for name, value in keywords.items() if name not in ("domain", "prefix")})
        except ValueError as error:
            raise OptionError(str(error)) from None
        domain, prefix = keywords.pop("domain", None), keywords.pop("prefix", None)
        if domain is not None and prefix is not None:
            raise OptionError("options nats.jsDomain and nats.apiPrefix exclude each other")
        timeout = self.parsed("requestTimeout", _seconds, 30.0, _SECONDS)
        return Connecting(servers, keywords, domain, prefix, timeout)

    def _keywords(self) -> dict[str, Any]:
        """What starts with "nats.", by keyword. ValueError for what cannot be."""
        keywords: dict[str, Any] = {}
        for name, value in self._given.items():
            option = name.removeprefix("nats.")
            if option == name or option == "servers":
                continue
            keyword = _CONNECTION.get(option) or _CONTENTS.get(option) or FILES.get(option)
            if keyword is None:
                raise OptionError(f"there is no option {name!r} for the connection")
            if keyword in keywords:
                option = option.removesuffix(".content")
                raise OptionError(f"options nats.{option} and nats.{option}.content exclude each other")
            keywords[keyword] = content_of(name, value) if option in FILES else value
        if "connect_timeout" in keywords:
            keywords["connect_timeout"] = self.parsed("nats.connectTimeout", _seconds, 2.0, _SECONDS)
        for name, keyword in (("nats.tls", "tls"), ("nats.tls.handshakeFirst", "tls_handshake_first")):
            if keyword in keywords and self.text(name) is None:
                del keywords[keyword]
            elif keyword in keywords:
                keywords[keyword] = self.flag(name, False)
        return keywords


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read. OptionError for the first that is missing or cannot be."""
    given = _Given(options, _SOURCE, _SINK, "read")
    bucket = given.parsed("kvBucket", _bucket, None, "one bucket, whose name has letters, digits, - and _ alone")
    streams = given.text("stream") or given.text("path")
    if bucket is not None:
        if streams is not None:
            raise OptionError("options stream and kvBucket exclude each other")
        streams = f"KV_{bucket}"
    elif given.text("kvKeys") is not None:
        raise OptionError("option kvKeys needs kvBucket")
    if streams is None:
        raise OptionError('option stream is missing, such as .option("stream", "EVENTS") or .load("EVENTS")')
    names = _names(streams)
    starting = _of_streams(given.parsed("startingOffsets", _offsets, _DEFAULT, _SEQUENCES), bucket)
    ending = _of_streams(given.parsed("endingOffsets", _offsets, _LATEST, _SEQUENCES), bucket)
    starting_time = given.parsed("startingTimestamp", _timestamp, None, _TIME)
    ending_time = given.parsed("endingTimestamp", _timestamp, None, _TIME)
    if starting and starting_time is not None:
        raise OptionError("options startingOffsets and startingTimestamp exclude each other")
    if given.text("endingOffsets") is not None and ending_time is not None:
        raise OptionError("options endingOffsets and endingTimestamp exclude each other")
    for what, offsets in (("startingOffsets", starting), ("endingOffsets", ending)):
        unknown = offsets.keys() - set(names) if isinstance(offsets, dict) else None
        if unknown:
            raise OptionError(f"option {what} names {min(unknown)!r}, which is not read")
    if ending == EARLIEST:
        raise OptionError("option endingOffsets cannot be 'earliest'")
    include_headers = given.flag("includeHeaders", False)
    if include_headers and bucket is not None:
        raise OptionError("options includeHeaders and kvBucket exclude each other: a bucket has no column headers")
    return ReadOptions(
        connecting=given.connecting(),
        streams=names,
        subject=_wanted_subject(given, bucket),
        starting=starting,
        ending=ending,
        starting_time=starting_time,
        ending_time=ending_time,
        max_per_trigger=given.count_if_given("maxOffsetsPerTrigger"),
        min_per_trigger=given.count_if_given("minOffsetsPerTrigger"),
        max_trigger_delay=given.parsed("maxTriggerDelay", _seconds, 900.0, _SECONDS),
        min_partitions=given.count_if_given("minPartitions", 100_000),
        max_per_partition=given.count("maxRecordsPerPartition", 250_000),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=include_headers,
        include_bookkeeping=given.flag("includeBookkeeping", False),
        rows=given.count("batchSize", 10_000, 1_000_000),
        page_bytes=given.count("maxBytes", 8 * 1024 * 1024, 48 * 1024 * 1024),
        retries=given.parsed("fetch.numRetries", _natural, 3, "a number from 0 on"),
        push_filters=given.flag("pushFilters", False),
        bucket=bucket,
    )


def _wanted_subject(given: _Given, bucket: str | None) -> str | None:
    form = "one subject, or one pattern of subjects"
    subject = given.parsed("subject", _filter, None, form) or given.parsed("filterSubject", _filter, None, form)
    if bucket is None:
        return subject
    if subject is not None:
        raise OptionError("options subject and kvBucket exclude each other: kvKeys chooses keys")
    keys = given.parsed("kvKeys", _keys, None, "one key, or one pattern of keys such as orders.*.total")
    return None if keys is None else f"$KV.{bucket}.{keys}"


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a write. OptionError for the first that is missing or cannot be."""
    given = _Given(options, _SINK, _SOURCE, "write")
    stream = given.text("stream") or given.text("path")
    if stream is None:
        raise OptionError('option stream is missing, such as .option("stream", "EVENTS")')
    return WriteOptions(
        connecting=given.connecting(),
        stream=_one(stream),
        subject=given.parsed("subject", _subject, None, "a subject"),
        delivery=given.parsed("delivery", _delivery, "fast", "fast, fastDedup or atomic"),
        msg_id_prefix=given.text("msgIdPrefix"),
        flow=given.count("flow", DEFAULT_FLOW, MAX_FLOW),
        max_outstanding_acks=given.count("maxOutstandingAcks", 2, 3),  # ADR-50: 3 is no default
        marker_subject=given.parsed("markerSubject", _subject, None, "a subject"),
        ignore_extra_columns=given.flag("ignoreExtraColumns", False),
    )


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    try:
        for name in names:
            check_name(name)
    except LocalProtocolError as error:
        raise OptionError(f"option stream cannot be {value!r}: {error}") from None
    if len(set(names)) < len(names):
        raise OptionError(f"option stream names one stream twice: {value!r}")
    return names


def _one(value: str) -> str:
    names = _names(value)
    if len(names) > 1:
        raise OptionError(f"a sink writes to one stream, not to {value!r}")
    return names[0]


def _subject(value: str) -> str:
    check_subject(value)
    return value


def _filter(value: str) -> str | None:
    check_subject(value, wildcards=True)
    return value


def _bucket(value: str) -> str | None:
    if not _BUCKET.fullmatch(value):
        raise ValueError
    return value


def _keys(value: str) -> str | None:
    if "," in value:  # which no key has
        raise ValueError
    return _filter(value)


def _natural(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError
    return number


def _seconds(value: str) -> float:
    number, unit = _DURATION.fullmatch(value).groups()  # type: ignore[union-attr]  # AttributeError: it is none
    seconds = float(number) * _UNITS[unit or "s"]
    if not 0 < seconds <= 86_400:
        raise ValueError
    return seconds


def _delivery(value: str) -> str:
    return {name.lower(): name for name in DELIVERIES}[value.lower()]


def _offsets(value: str) -> Offsets:
    """ "earliest", "latest", or JSON of a sequence for each stream (-2 and -1 as Kafka has them)."""
    if value in (EARLIEST, LATEST):
        return value
    offsets = json.loads(value)
    if not isinstance(offsets, dict) or not offsets:
        raise ValueError
    for sequence in offsets.values():
        if type(sequence) is not int or sequence < -2 or sequence == 0:
            raise ValueError
    return offsets


def _of_streams(offsets: Offsets, bucket: str | None) -> Offsets:
    """The same, of the stream behind a bucket, which may be named as either."""
    if bucket is None or isinstance(offsets, str):
        return offsets
    found = {f"KV_{bucket}" if name == bucket else name: sequence for name, sequence in offsets.items()}
    if len(found) < len(offsets):
        raise OptionError(f"bucket {bucket} has two offsets")
    return found


def _timestamp(value: str) -> int | None:
    """Nanoseconds since the epoch, of RFC 3339 or of milliseconds since the epoch."""
    if value.isdigit():
        return int(value) * NANOSECONDS_PER_MILLISECOND
    return parse_timestamp(value)


def _without_password(servers: str) -> str:
    return ",".join(server.rpartition("@")[2] for server in servers.split(","))
