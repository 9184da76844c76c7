"""The options of the data source, made once from Spark's texts.

Rules: the names are those of Spark's Kafka source where that has them. One quantity has one name: the option's, in
snake case, or the keyword of ``connect`` or ``jetstream`` that it becomes. An option of a write is refused in a read,
and the other way round. ``python -m tests.tools.generate_options`` makes the README's tables of these classes.

Not here: how texts become values (``option_fields``), and what takes a server, such as whether the stream can do it
(``planning``, ``sink``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

import attrs

from jsproto.client.publish.publish_options import DEFAULT_FLOW
from jsproto.errors import LocalProtocolError
from jsproto.grammar.bucket_keys import check_bucket, stream_of
from jsproto.grammar.fast import MAX_FLOW
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.grammar.times import instant, parse_timestamp
from pyspark_jetstream.option_fields import PATH, GivenOptions, OptionError, count, duration, flag, option, option_of
from pyspark_jetstream.security import checked

Times: TypeAlias = int | dict[str, int]  # nanoseconds since the epoch: of all streams, or of each
Offsets: TypeAlias = str | dict[str, int]  # "earliest", "latest", or a sequence for each stream

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
MARKER: Final = "$spark"
"""The token that tells the subjects of our own markers: ``markerSubject.$spark.QUERY.PARTITION``."""
NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
MAX_TRIGGER_DELAY: Final = 900.0  # seconds
SECONDS: Final = range(10**9, 10**10)
"""Numbers that are seconds of the years 2001 to 2286. As milliseconds they would be of early 1970."""


class Delivery(StrEnum):
    """What a sink promises: see ``delivery``."""

    FAST = "fast"
    FAST_DEDUP = "fastDedup"
    ATOMIC = "atomic"


class Strategy(StrEnum):
    """Where a read begins in a stream that has no message of the wanted time or later."""

    LATEST = "latest"
    ERROR = "error"


class ReadMode(StrEnum):
    """How a streaming read learns what there is: see ``source`` and ``sourcing``."""

    DIRECT = "direct"
    SOURCING = "sourcing"


# What an option may be, for errors.
_A_SUBJECT: Final = "a subject"
_SEQUENCES: Final = 'earliest, latest, or JSON of the sequence for each stream, such as {"EVENTS": 123}'
_TIME: Final = (
    "RFC 3339 with a time zone, such as 2026-11-21T12:00:00Z, or milliseconds since 1970, "
    "or JSON of one for each stream"
)


# -- from texts --------------------------------------------------------------------------------------------------------


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        raise OptionError(f"option stream names one stream twice: {text!r}")
    return names


def _one_name(text: str) -> str:
    names = _names(text)
    if len(names) > 1:
        raise OptionError(f"a sink writes to one stream, not to {text!r}")
    return names[0]


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error:
        raise ValueError from None
    return text


def _subject(text: str) -> str:
    check_subject(text)
    return text


def _filter(text: str) -> str:
    if "," in text:
        raise OptionError(
            f"option subject takes one subject or pattern, not {text!r}: take a pattern that matches all of them, and "
            "filter the DataFrame"
        )
    check_subject(text, wildcards=True)
    return text


def _keys(text: str) -> str:
    if "," in text:  # which no key has
        raise ValueError
    return _filter(text)


def _natural(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _strategy(text: str) -> Strategy:
    return Strategy(text.lower())


def _read_mode(text: str) -> ReadMode:
    return ReadMode(text.lower())


def _consumer(text: str) -> str:
    return check_name(text, "consumer")


def _job(text: str) -> str:
    return check_name(text, "job")


def _delivery(text: str) -> Delivery:
    return {each.lower(): each for each in Delivery}[text.lower()]


def _offsets(text: str) -> Offsets:
    """ "earliest", "latest", or JSON of a sequence for each stream (-2 and -1 as Kafka has them)."""
    if text in (EARLIEST, LATEST):
        return text
    offsets = json.loads(text)
    if not isinstance(offsets, dict) or not offsets:
        raise ValueError
    for sequence in offsets.values():
        if type(sequence) is not int or sequence < -2 or sequence == 0:
            raise ValueError
    return offsets


def _times(text: str) -> Times:
    """A time, or JSON of one for each stream, in nanoseconds since the epoch."""
    if not text.startswith("{"):
        return _timestamp(text)
    times = {name: _timestamp(str(time)) for name, time in json.loads(text).items()}
    if not times:
        raise ValueError
    return times


def _timestamp(text: str) -> int:
    """Nanoseconds since the epoch, of RFC 3339 or of milliseconds since the epoch."""
    number = int(text) if text.isdigit() else None
    if number is not None and number in SECONDS:
        raise LocalProtocolError(f"a number is milliseconds since 1970, and these are seconds: give {number}000")
    try:
        return instant(parse_timestamp(text) if number is None else number * NANOSECONDS_PER_MILLISECOND)
    except LocalProtocolError:
        raise LocalProtocolError("a number is milliseconds since 1970, and years are 1678 to 2261") from None


# -- the connection ----------------------------------------------------------------------------------------------------


def _hidden(value: object) -> str:
    return "None" if value is None else "'***'"


def _without_password(servers: str) -> str:
    return repr(",".join(server.rpartition("@")[2] for server in servers.split(",")))


def _text(name: str, text: str, **more: Any) -> Any:
    """A text for ``connect``, which counts as it was given."""
    return option(f"nats.{name}", text, exact=True, **more)


def _file(name: str, text: str) -> Any:
    """A file that the driver reads, for executors have none of its files."""
    return option(f"nats.{name}", text, file=True, show=_hidden)


@attrs.frozen
class ConnectionOptions:
    """How to reach the servers. The repr shows no secret, because plans and errors are printed.

    ``credentials_path``: the file of the credentials, which is read again for each link where it is.
    """

    servers: str = option(
        "servers", "URLs, separated by commas", aliases=("nats.servers",), show=_without_password,
        required='such as .option("servers", "nats://localhost:4222")',
    )  # fmt: skip
    user_credentials: str | None = _file(
        "creds",
        "a file that the driver reads, or with `.content` its text: executors get the content. Never shown",
    )
    user: str | None = _text("user", "user name")
    password: str | None = _text("password", "password. Never shown", show=_hidden)
    token: str | None = _text("token", "token. Never shown", show=_hidden)
    nkeys_seed_str: str | None = _text("nkeySeed", "seed of an nkey. Never shown", show=_hidden)
    tls: bool | None = flag("nats.tls", "TLS", shown="if the server requires it")
    tls_ca: str | None = _file("tls.ca", "certificates of authorities, in PEM")
    tls_cert: str | None = _file("tls.cert", "the client's certificate, in PEM")
    tls_key: str | None = _file("tls.key", "the key of that certificate, in PEM. Never shown")
    tls_hostname: str | None = _text("tls.hostname", "the name in the server's certificate")
    tls_handshake_first: bool | None = flag("nats.tls.handshakeFirst", "TLS before the server's INFO", shown="false")
    domain: str | None = _text("jsDomain", "JetStream domain")
    prefix: str | None = _text("apiPrefix", "prefix of the JetStream API", excludes={"nats.jsDomain": ""})
    inbox_prefix: str | None = _text("inboxPrefix", "what subjects of replies begin with")
    connect_timeout: float | None = duration("nats.connectTimeout", "for each server", shown="2 s")
    name: str | None = _text("name", "the connection's name in the server's reports", shown="pyspark_jetstream")
    request_timeout: float = duration("requestTimeout", "for each request", 30.0, shown="30 s")
    credentials_path: str | None = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of ``connect`` that were given, with certificates as texts."""
        others = ("servers", "domain", "prefix", "request_timeout", "credentials_path")
        return attrs.asdict(self, filter=lambda field, value: value is not None and field.name not in others)

    def __attrs_post_init__(self) -> None:
        try:
            checked(self.servers, self.keywords)
        except ValueError as error:
            raise OptionError(str(error)) from None


# -- reading -----------------------------------------------------------------------------------------------------------


def _streams_without_names(options: ReadOptions) -> tuple[str, ...] | None:
    if options.kv_bucket is not None:
        return (stream_of(options.kv_bucket),)
    return None if options.stream_pattern is None else ()


def _subject_of_keys(options: ReadOptions) -> str | None:
    return None if options.kv_keys is None else f"$KV.{options.kv_bucket}.{options.kv_keys}"


def _by_stream(offsets: Any, options: ReadOptions) -> Any:
    """The same offsets, or times. A bucket may go by its own name."""
    bucket = options.kv_bucket
    if bucket is None or not isinstance(offsets, dict):
        return offsets
    found = {f"KV_{bucket}" if name == bucket else name: sequence for name, sequence in offsets.items()}
    if len(found) < len(offsets):
        raise OptionError(f"bucket {bucket} has two offsets")
    return found


def _check_streams(options: ReadOptions, field: attrs.Attribute[Any], offsets: Offsets | Times | None) -> None:
    unknown = offsets.keys() - set(options.streams) if isinstance(offsets, dict) and options.streams else None
    if unknown:
        raise OptionError(f"option {option_of(field).name} names {min(unknown)!r}, which is not read")


def _check_end(options: ReadOptions, field: attrs.Attribute[Any], offsets: Offsets) -> None:
    if offsets == EARLIEST:
        raise OptionError("option endingOffsets cannot be 'earliest'")


def _check_sourcing(options: ReadOptions, field: attrs.Attribute[Any], mode: ReadMode) -> None:
    """What goes with ``readMode=sourcing``, where the consumer says where a query begins, and what waits."""
    if mode is not ReadMode.SOURCING:
        return
    unfit = {
        "kvBucket": options.kv_bucket,
        "streamPattern": options.stream_pattern,
        "startingOffsets": options.starting_offsets,
        "startingTimestamp": options.starting_timestamp,
        "maxBytesPerTrigger": options.max_bytes_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
    }
    for name, value in unfit.items():
        if value is not None:
            raise OptionError(f"options {name} and readMode=sourcing exclude each other")
    if len(options.streams) > 1:
        raise OptionError("readMode=sourcing reads one stream, whose consumer it acknowledges")


def _check_consumer(options: ReadOptions, field: attrs.Attribute[Any], consumer: str | None) -> None:
    if (consumer is None) is (options.read_mode is ReadMode.SOURCING):
        raise OptionError("options consumer and readMode=sourcing go together")


def _check_headers(options: ReadOptions, field: attrs.Attribute[Any], wanted: bool) -> None:
    if wanted and options.kv_bucket is not None:
        raise OptionError("options includeHeaders and kvBucket exclude each other: a bucket has no column headers")


@attrs.frozen(kw_only=True)
class ReadOptions:
    """What to read.

    Attributes, as in the README of this package, but for:
        ``streams``, ``subject``: of a bucket, its stream and the subjects of its keys. With ``stream_pattern`` no
            streams are named: they are looked for.
        ``starting_offsets``: the sequences to begin with. None: what suits the kind of read.
        ``ending_offsets``: the sequences to end before.
        ``starting_timestamp``, ``ending_timestamp``: nanoseconds since the epoch, of all streams or of each.
        ``max_trigger_delay``: seconds. None: ``MAX_TRIGGER_DELAY``.
        ``parallelism``: how many tasks run side by side.
    """

    connection: ConnectionOptions
    parallelism: int = attrs.field(factory=lambda: os.cpu_count() or 1)
    kv_bucket: str | None = option(
        "kvBucket", "a key-value bucket instead of a stream", parse=check_bucket,
        excludes={"stream": "", "subject": ": kvKeys chooses keys"},
    )  # fmt: skip
    kv_keys: str | None = option(
        "kvKeys", "the keys of the bucket: one key or pattern", parse=_keys, needs="kvBucket",
        form="one key, or one pattern of keys such as orders.*.total",
    )  # fmt: skip
    stream_pattern: str | None = option(
        "streamPattern", "instead: a regular expression for whole names of streams. A query looks for new ones while "
        "it runs", parse=_expression, form="a regular expression", excludes={"stream": "", "kvBucket": ""},
    )  # fmt: skip
    streams: tuple[str, ...] = option(
        "stream", 'streams, separated by commas, or `load("S")`', parse=_names, aliases=(PATH,),
        otherwise=_streams_without_names, required='such as .option("stream", "EVENTS") or .load("EVENTS")',
    )  # fmt: skip
    subject: str | None = option(
        "subject", "only what matches this one subject or pattern", parse=_filter, shown="all",
        form="one subject, or one pattern of subjects", aliases=("filterSubject",), otherwise=_subject_of_keys,
    )  # fmt: skip
    starting_offsets: Offsets | None = option(
        "startingOffsets", "or `{\"S\": 123}`, where -2 is the earliest and -1 the latest. A checkpoint goes first",
        parse=_offsets, form=_SEQUENCES, complete=_by_stream, check=[_check_streams],
        shown="`earliest`, of a stream `latest`",
    )  # fmt: skip
    ending_offsets: Offsets = option(
        "endingOffsets", "`read` only, exclusive. What is not there yet is not waited for. A bucket has its own name",
        parse=_offsets, form=_SEQUENCES, default=LATEST, complete=_by_stream, check=[_check_streams, _check_end],
        shown="`latest`",
    )  # fmt: skip
    starting_timestamp: Times | None = option(
        "startingTimestamp", "instead: RFC 3339 with a time zone, or milliseconds since 1970, or JSON of one for each "
        "stream", parse=_times, form=_TIME, complete=_by_stream, check=[_check_streams],
        excludes={"startingOffsets": ""},
    )  # fmt: skip
    starting_timestamp_strategy: Strategy = option(
        "startingTimestampStrategy", "or `error`: where a stream has no message from that time on", parse=_strategy,
        default=Strategy.LATEST, form="latest or error", shown="`latest`", needs="startingTimestamp",
    )  # fmt: skip
    ending_timestamp: Times | None = option(
        "endingTimestamp", "instead, in the same forms. The end is for `read` only, and exclusive", parse=_times,
        form=_TIME, complete=_by_stream, check=[_check_streams], excludes={"endingOffsets": ""},
    )  # fmt: skip
    max_offsets_per_trigger: int | None = count(
        "maxOffsetsPerTrigger", "`readStream` only, messages in a micro-batch: limits count the messages that match "
        "`subject`. Of each stream that has any it is one at least. On Spark 4.1 the first micro-batch of a query, "
        "and `availableNow`, take everything", shown="all",
    )  # fmt: skip
    max_bytes_per_trigger: int | None = count(
        "maxBytesPerTrigger", "`readStream` only, bytes in a micro-batch, about: by the mean size of all messages of a "
        "stream. Where later ones are larger it may be several times as large", shown="all",
    )  # fmt: skip
    min_offsets_per_trigger: int | None = count(
        "minOffsetsPerTrigger",
        "`readStream` only, messages for which a micro-batch waits, of those that match `subject`",
        shown="none",
    )
    max_trigger_delay: float | None = duration("maxTriggerDelay", "how long it waits for them", shown="`15m`")
    read_mode: ReadMode = option(
        "readMode", "or `sourcing`: `readStream` empties a work queue, see above", parse=_read_mode,
        default=ReadMode.DIRECT, form="direct or sourcing", check=[_check_sourcing], shown="`direct`",
    )  # fmt: skip
    consumer: str | None = option(
        "consumer", "`sourcing`: the consumer of the stream that the query acknowledges", parse=_consumer,
        form="a name", check=[_check_consumer],
    )  # fmt: skip
    min_partitions: int | None = count(
        "minPartitions", "tasks of all streams together, at least, where there is so much. A micro-batch that "
        "comes again is split as it was", most=100_000,
        shown="the cluster's cores, as `register(spark)` saw them, or the driver's",
    )  # fmt: skip
    max_records_per_partition: int = count(
        "maxRecordsPerPartition", "sequences of a task, or with a `subject` messages that match, about", 250_000
    )
    fail_on_data_loss: bool = flag("failOnDataLoss", "false: go on with what is there", True)
    include_headers: bool = flag("includeHeaders", "of streams, not of a bucket", False, check=[_check_headers])
    include_origin: bool = flag("includeOrigin", "a column `origin`, which names each row to the sink `atomic`", False)
    include_bookkeeping: bool = flag(
        "includeBookkeeping", "show what the sink `atomic` leaves: markers (`*.$spark.*.*`) and headers "
        "`Nats-Batch-*`", False,
    )  # fmt: skip
    batch_size: int = count("batchSize", "rows of an Arrow batch", 10_000, 1_000_000)
    max_bytes: int = count(
        "maxBytes", "bytes asked for at once, and of an Arrow batch", 8 * 1024**2, 48 * 1024**2, shown="8 MiB"
    )
    num_retries: int = option(
        "fetch.numRetries", "tries in a row, after a failed one, before a task fails", parse=_natural, default=3,
        form="a number from 0 on", shown="3",
    )  # fmt: skip
    push_filters: bool = flag(
        "pushFilters", "narrow `read` by filters on `seq`, `timestamp` and `subject`. Needs "
        "`spark.sql.python.filterPushdown.enabled`", False,
    )  # fmt: skip


def check_read_at_once(options: ReadOptions) -> None:
    """OptionError for an option that only a streaming read heeds."""
    limits = {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "maxBytesPerTrigger": options.max_bytes_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
        "maxTriggerDelay": options.max_trigger_delay,
    }
    for name, value in limits.items():
        if value is not None:
            raise OptionError(
                f"option {name} is for readStream: give endingOffsets or endingTimestamp to read less, or call limit() "
                "of the DataFrame"
            )


# -- writing -----------------------------------------------------------------------------------------------------------


def _check_prefix(options: WriteOptions, field: attrs.Attribute[Any], prefix: str | None) -> None:
    if prefix is not None and options.delivery is not Delivery.FAST_DEDUP:
        way = "to run a job again, give txnAppId and txnVersion" if options.delivery is Delivery.ATOMIC else "take it"
        raise OptionError(f"option msgIdPrefix is for delivery fastDedup: {way}")


def _check_job(options: WriteOptions, field: attrs.Attribute[Any], version: int | None) -> None:
    if (version is None) is not (options.txn_app_id is None):
        raise OptionError("options txnAppId and txnVersion go together")
    if version is not None and options.delivery is Delivery.FAST:
        raise OptionError("options txnAppId and txnVersion need delivery fastDedup or atomic")


_OF_STREAMS: Final = (
    "stream", "delivery", "subject", "markerSubject", "msgIdPrefix", "txnAppId", "txnVersion", "flow",
    "maxOutstandingAcks", "deadLetterSubject",
)  # fmt: skip
"""Options of a write that a bucket has no use for."""


def _stream_that_is_bucket(options: WriteOptions) -> str | None:
    return None if options.kv_bucket is None else stream_of(options.kv_bucket)


@attrs.frozen(kw_only=True)
class WriteOptions:
    """Where to write, and with which promise."""

    connection: ConnectionOptions
    kv_bucket: str | None = option(
        "kvBucket", "a key-value bucket instead of a stream, see below", parse=check_bucket,
        excludes=dict.fromkeys(_OF_STREAMS, ": a bucket takes keys and values, each on its own"),
    )  # fmt: skip
    stream: str = option(
        "stream", 'one stream, or `save("S")`', parse=_one_name, aliases=(PATH,), otherwise=_stream_that_is_bucket,
        required='such as .option("stream", "EVENTS")',
    )  # fmt: skip
    delivery: Delivery = option(
        "delivery",
        "see above",
        parse=_delivery,
        default=Delivery.FAST,
        form="fast, fastDedup or atomic",
        shown="`fast`",
    )
    subject: str | None = option("subject", "of rows that have none", parse=_subject, form=_A_SUBJECT)
    marker_subject: str | None = option(
        "markerSubject", "`atomic`: markers go to `markerSubject.$spark.QUERY.*`",
        parse=_subject, form=_A_SUBJECT,
    )  # fmt: skip
    dead_letter_subject: str | None = option(
        "deadLetterSubject", "dead letters: rows that fail the task otherwise, see above", parse=_subject,
        form=_A_SUBJECT,
    )  # fmt: skip
    msg_id_prefix: str | None = option(
        "msgIdPrefix", "`fastDedup`: what message ids begin with", shown="id of the query or job",
        check=[_check_prefix],
    )  # fmt: skip
    txn_app_id: str | None = option(
        "txnAppId", "`save` with `fastDedup` or `atomic`: the name of the job, which makes a repetition of it known",
        parse=_job, form="one token of a subject", excludes={"msgIdPrefix": ": it takes its place"},
    )  # fmt: skip
    txn_version: int | None = option(
        "txnVersion", "a number of the job, which rises: in `foreachBatch` that of the micro-batch", parse=_natural,
        form="a number from 0 on", check=[_check_job],
    )  # fmt: skip
    flow: int = count("flow", "fast ingest: messages between acknowledgements", DEFAULT_FLOW, MAX_FLOW)
    max_outstanding_acks: int = count(
        "maxOutstandingAcks", "fast ingest: acknowledgements that may be open", 2, 3
    )  # ADR-50: 3 is no default
    ignore_extra_columns: bool = flag("ignoreExtraColumns", "drop columns that cannot be written", False)


def _connection(given: GivenOptions) -> ConnectionOptions:
    made: ConnectionOptions = given.made(ConnectionOptions, credentials_path=given.text("nats.creds"))
    return made


def read_options(options: Mapping[str, str], parallelism: int | None = None) -> ReadOptions:
    """The options of a read. OptionError for the first that is missing or cannot be.

    ``parallelism``: None: that of this machine.
    """
    given = GivenOptions(options, [ConnectionOptions, ReadOptions], WriteOptions, "read")
    more = {} if parallelism is None else {"parallelism": parallelism}
    return given.made(ReadOptions, connection=_connection(given), **more)


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a write. OptionError for the first that is missing or cannot be."""
    given = GivenOptions(options, [ConnectionOptions, WriteOptions], ReadOptions, "write")
    return given.made(WriteOptions, connection=_connection(given))
