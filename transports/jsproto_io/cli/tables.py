"""Streams, consumers, buckets and accounts as tables and lines for people.

Rules
 * Pure functions from what the server says to renderables. Nothing here prints.
 * A table of 60 columns is readable: wide cells fold, and minor columns are left out.

Not here: JSON, which is the server's own (``to_json``), and rates (``report``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rich import box
from rich.table import Table
from rich.text import Text

from jsproto.grammar.account import AccountInfo, AccountLimits, AccountTier
from jsproto.grammar.bucket_config import BucketConfig, BucketStatus
from jsproto.grammar.bucket_keys import STREAM_PREFIX, KeyValueEntry
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, SequencePair
from jsproto.grammar.object_info import ObjectInfo
from jsproto.grammar.object_store_config import ObjectStoreConfig, ObjectStoreStatus
from jsproto_io.cli.context_files import Listed
from jsproto_io.cli.messages import payload_text
from jsproto_io.cli.terminal import one_line
from jsproto_io.cli.values import counted, seconds_text, size_text, stamp

Config: TypeAlias = StreamConfig | ConsumerConfig | BucketConfig | ObjectStoreConfig
NO_LIMIT: Final = "no limit"
WIDE: Final = 76  # columns from which on a list shows everything
_SECONDS: Final = frozenset(
    {
        "max_age", "duplicate_window", "subject_delete_marker_ttl", "ack_wait", "max_expires", "idle_heartbeat",
        "inactive_threshold", "priority_timeout", "ttl", "marker_ttl",
    }
)  # fmt: skip
_BYTES: Final = frozenset({"max_bytes", "max_msg_size", "max_bucket_size", "max_value_size"})
_MOMENTS: Final = frozenset({"opt_start_time", "pause_until"})


def stream_list(streams: Iterable[StreamInfo], width: int) -> Table:
    """A line for each stream."""
    table = _list("stream", "messages", "size", *(["consumers"] if width >= WIDE else []), "last message")
    for info in streams:
        state = info.state
        consumers = [f"{state.consumer_count:,}"] if width >= WIDE else []
        table.add_row(
            _plain(info.config.name),
            f"{state.messages:,}",
            size_text(state.bytes),
            *consumers,
            stamp(state.last_ts)[:16],
        )
    return table


def consumer_list(consumers: Iterable[ConsumerInfo], width: int) -> Table:
    """A line for each consumer."""
    table = _list("consumer", *(["kind"] if width >= WIDE else []), "pending", "unacked", "redelivered", "ack floor")
    for info in consumers:
        kind = [kind_of(info.config)] if width >= WIDE else []
        table.add_row(
            _plain(info.name), *kind, f"{info.num_pending:,}", f"{info.num_ack_pending:,}",
            f"{info.num_redelivered:,}", f"{info.ack_floor.stream_seq:,}",
        )  # fmt: skip
    return table


def bucket_list(buckets: Iterable[BucketStatus], width: int) -> Table:
    """A line for each bucket."""
    table = _list("bucket", "revisions", "size", *(["history", "ttl"] if width >= WIDE else []), "last write")
    for status in buckets:
        config = status.config
        ttl = "-" if config.ttl is None else seconds_text(config.ttl)
        table.add_row(
            _plain(status.bucket),
            f"{status.values:,}",
            size_text(status.bytes),
            *([f"{config.history}", ttl] if width >= WIDE else []),
            stamp(status.info.state.last_ts)[:16],
        )
    return table


def key_list(entries: Iterable[KeyValueEntry], width: int, with_values: bool) -> Table:
    """A line for each key that has a value."""
    wide = width >= WIDE
    table = _list("key", "revision", *(["size"] if wide or not with_values else []), "written")
    if with_values:
        table.add_column("value", no_wrap=True)
    for entry in entries:
        size = [size_text(entry.size)] if wide or not with_values else []
        value = [_value_of(entry, (width - (50 if wide else 36)) // 2)] if with_values else []
        table.add_row(_plain(entry.key), f"{entry.revision:,}", *size, _written(entry, wide), *value)
    return table


def key_history(entries: Sequence[KeyValueEntry], width: int) -> Table:
    """A line for each revision. The key is shown where there are several."""
    wide, several = width >= WIDE, len({entry.key for entry in entries}) > 1
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("revision", justify="right", no_wrap=True)
    if several:
        table.add_column("key", overflow="fold", min_width=8)
    for column in ("what", "written", *(["size"] if wide else []), "value"):
        table.add_column(column, justify="right" if column == "size" else "left", no_wrap=True)
    room = (width - (56 if wide else 41)) // (2 if several else 1)
    for entry in entries:
        key = [_plain(entry.key)] if several else []
        size = ["" if entry.is_marker else size_text(entry.size)] if wide else []
        value = _value_of(entry, room)
        table.add_row(f"{entry.revision:,}", *key, entry.operation, _written(entry, wide), *size, value)
    return table


def _written(entry: KeyValueEntry, wide: bool) -> str:
    return stamp(entry.timestamp)[: None if wide else 16]


def _value_of(entry: KeyValueEntry, room: int) -> Text:
    """The value on one line, cut to ``room`` columns, 8 or more. Empty: a marker has none."""
    text = Text("" if entry.is_marker else one_line(payload_text(entry.value)))
    text.truncate(max(room, 8), overflow="ellipsis")
    return text


def object_store_list(stores: Iterable[ObjectStoreStatus], width: int) -> Table:
    """A line for each bucket of objects."""
    table = _list("bucket", "size", *(["ttl"] if width >= WIDE else []), "sealed", "last write")
    for status in stores:
        config = status.config
        ttl = ["-" if config.ttl is None else seconds_text(config.ttl)] if width >= WIDE else []
        sealed = "yes" if config.sealed else ""
        written = stamp(status.info.state.last_ts)[:16]
        table.add_row(_plain(status.bucket), size_text(status.size), *ttl, sealed, written)
    return table


def object_list(objects: Iterable[ObjectInfo], width: int) -> Table:
    """A line for each object, and for each link where it leads."""
    table = _list("object", "size", *(["chunks"] if width >= WIDE else []), "modified")
    for info in objects:
        size = "deleted" if info.deleted else "link" if info.link is not None else size_text(info.size)
        chunks = [f"{info.chunks:,}"] if width >= WIDE else []
        to = "" if info.link is None else f" -> {info.link}"
        table.add_row(_plain(f"{info.name}{to}"), size, *chunks, stamp(info.timestamp)[:16])
    return table


def object_store_table(status: ObjectStoreStatus) -> Table:
    """All of a bucket of objects."""
    info = status.info
    table = _pairs()
    _add(table, "bucket", f"{status.bucket}, stream {info.config.name}")
    _add(table, "created", stamp(info.created))
    _add(table, "size", size_text(status.size))
    if info.state.messages:
        _add(table, "last write", stamp(info.state.last_ts))
    _add_copies(table, info)
    _add_config(table, status.config)
    return table


def object_table(info: ObjectInfo) -> Table:
    """All of an object."""
    table = _pairs()
    _add(table, "object", f"{info.name} of bucket {info.bucket}")
    if info.link is not None:
        _add(table, "link to", str(info.link))
    if info.description:
        _add(table, "description", info.description)
    _add(table, "modified", stamp(info.timestamp))
    _add(table, "revision", f"{info.revision:,}")
    if info.link is None:
        chunk = f" of {size_text(info.max_chunk_size)} at most" if info.chunks else ""
        _add(table, "size", f"{info.size:,} bytes ({counted(info.chunks, 'chunk')}{chunk})")
        _add(table, "SHA-256", (info.sha256() or b"").hex() or info.digest or "-")
    for name, texts in info.headers.items():
        for text in texts:
            _add(table, f"header {one_line(name)}", text)
    for key, text in info.metadata.items():
        _add(table, f"metadata {one_line(key)}", text)
    return table


def stream_table(info: StreamInfo) -> Table:
    """All of a stream."""
    state = info.state
    table = _pairs()
    _add(table, "stream", info.config.name)
    _add(table, "created", stamp(info.created))
    _add(table, "messages", f"{state.messages:,} ({size_text(state.bytes)})")
    if state.messages:
        _add(table, "sequences", f"{state.first_seq:,} to {state.last_seq:,}")
        _add(table, "stored", f"{stamp(state.first_ts)} to {stamp(state.last_ts)}")
    elif state.last_seq:
        _add(table, "next sequence", f"{state.last_seq + 1:,}")
    if state.num_deleted:
        _add(table, "deleted between", f"{state.num_deleted:,}")
    if state.num_subjects is not None:
        _add(table, "subjects there", f"{state.num_subjects:,}")
    _add(table, "consumers", f"{state.consumer_count:,}")
    _add_copies(table, info)
    _add_config(table, info.config)
    return table


def bucket_table(status: BucketStatus) -> Table:
    """All of a bucket."""
    info = status.info
    table = _pairs()
    _add(table, "bucket", f"{status.bucket}, stream {info.config.name}")
    _add(table, "created", stamp(info.created))
    _add(table, "revisions", f"{status.values:,} ({size_text(status.bytes)})")
    if status.last_revision:
        _add(table, "last revision", f"{status.last_revision:,}, {stamp(info.state.last_ts)}")
    _add_copies(table, info)
    _add_config(table, status.config)
    return table


def consumer_table(info: ConsumerInfo) -> Table:
    """All of a consumer."""
    table = _pairs()
    _add(table, "consumer", f"{info.name} of stream {info.stream_name}")
    _add(table, "kind", kind_of(info.config))
    _add(table, "created", stamp(info.created))
    _add(table, "delivered", _place(info.delivered))
    _add(table, "acknowledged", _place(info.ack_floor))
    _add(table, "to deliver", f"{info.num_pending:,}")
    _add(table, "awaiting acks", f"{info.num_ack_pending:,}")
    _add(table, "redelivered", f"{info.num_redelivered:,}")
    _add(table, "waiting pulls", f"{info.num_waiting:,}")
    if info.paused:
        _add(table, "paused for", seconds_text(info.pause_remaining or 0))
    if info.cluster:
        _add_cluster(table, info.cluster)
    _add_config(table, info.config)
    return table


def account_table(info: AccountInfo, server: str) -> Table:
    """What an account uses, and of how much. ``server``: who says so."""
    table = _pairs()
    _add(table, "server", server)
    if info.domain:
        _add(table, "domain", info.domain)
    if info.api is not None:
        _add(table, "API requests", f"{info.api.total:,}, {info.api.errors:,} refused")
    tiers: Mapping[str, AccountInfo | AccountTier] = info.tiers or {"": info}
    for name, tier in tiers.items():
        limits = tier.limits or AccountLimits()
        within = f" of {name}" if name else ""
        uses: tuple[tuple[str, int, int | None, Callable[[int], str]], ...] = (
            ("streams", tier.streams, limits.max_streams, "{:,}".format),
            ("consumers", tier.consumers, limits.max_consumers, "{:,}".format),
            ("storage", tier.storage, limits.max_storage, size_text),
            ("memory", tier.memory, limits.max_memory, size_text),
        )
        for what, used, most, text in uses:
            limit = NO_LIMIT if most is None or most < 0 else f"of {text(most)}"
            _add(table, f"{what}{within}", f"{text(used)}, {limit}")
    return table


def subject_list(subjects: Iterable[tuple[str, int]]) -> Table:
    """A line for each subject."""
    table = _list("subject", "messages")
    for subject, count in subjects:
        table.add_row(_plain(subject), f"{count:,}")
    return table


def context_list(contexts: Iterable[Listed]) -> Table:
    """A line for each context."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for column in ("context", "servers", "description"):
        table.add_column(column, overflow="fold", min_width=8)
    for each in contexts:
        mark = "*" if each.selected else ""
        table.add_row(mark, *(_plain(str(text or "")) for text in (each.name, each.url, each.description)))
    return table


def config_changes(before: Config, after: Config) -> list[str]:
    """The fields that differ, each as ``max_age: 1h, was unset``."""
    old, new = (_fields(config) for config in (before, after))
    return [
        f"{name}: {new.get(name, 'unset')}, was {old.get(name, 'unset')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _list(name: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column(name, overflow="fold", min_width=8)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _pairs() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    return table


def _add(table: Table, name: str, value: str) -> None:
    table.add_row(name, _plain(value))


def _plain(text: str) -> Text:
    return Text(one_line(text))


def kind_of(config: ConsumerConfig) -> str:
    how = "push" if config.deliver_subject else "pull"
    return f"{how}, {'durable' if config.durable_name else 'ephemeral'}"


def _place(pair: SequencePair) -> str:
    if not pair.stream_seq:
        return "nothing yet"
    active = f", {stamp(pair.last_active)}" if pair.last_active is not None else ""
    deliveries = f"{pair.consumer_seq:,} {'delivery' if pair.consumer_seq == 1 else 'deliveries'}"
    return f"up to {pair.stream_seq:,} of the stream ({deliveries}){active}"


def _add_copies(table: Table, info: StreamInfo) -> None:
    """Which servers have it, and what it copies."""
    if info.cluster:
        _add_cluster(table, info.cluster)
    for role, copies in (("mirror of", [info.mirror] if info.mirror else []), ("source", info.sources or [])):
        for each in copies:
            _add(table, role, f"{each.name}, {each.lag:,} to go")


def _add_cluster(table: Table, cluster: dict[str, Any]) -> None:
    if cluster.get("leader"):
        _add(table, "leader", str(cluster["leader"]))
    for each in cluster.get("replicas") or ():
        state = "current" if each.get("current") else f"{each.get('lag', 0):,} to go"
        _add(table, "replica", f"{each.get('name')}, {'offline' if each.get('offline') else state}")


def _add_config(table: Table, config: Config) -> None:
    table.add_row()
    for name, value in _fields(config).items():
        if value != NO_LIMIT:
            _add(table, name, value)


def _fields(config: Config) -> dict[str, str]:
    """The fields that are set, in the words of ``jsproto``, with values for people. Flags that are off are left out."""
    found: dict[str, str] = {}
    if isinstance(config, BucketConfig):
        fields = _bucket_fields(config)
    elif isinstance(config, ObjectStoreConfig):
        fields = _store_fields(config)
    else:
        fields = {name: getattr(config, name, config.extra.get(name)) for name in config.to_json()}
    for name, value in fields.items():
        if name not in ("name", "metadata") and value not in (None, False, [], {}, ""):
            found[name] = _value(name, value)
    for key, value in (config.metadata or {}).items():
        if not key.startswith("_nats."):  # the server's own
            found[f"metadata {key}"] = value
    return found


def _bucket_fields(config: BucketConfig) -> dict[str, Any]:
    """What a bucket is like, in the words of the options."""
    sources = [config.mirror] if config.mirror else config.sources
    copied = [source["name"].removeprefix(STREAM_PREFIX) for source in sources]
    return {
        "description": config.description, "history": config.history, "ttl": config.ttl,
        "marker_ttl": config.marker_ttl, "max_value_size": config.max_value_size,
        "max_bucket_size": config.max_bytes, "storage": config.storage, "replicas": config.replicas,
        "compress": config.compression, "direct": config.direct, "atomic": config.atomic,
        "mirror" if config.mirror else "source": copied, "placement": config.stream.placement,
        "republish": config.stream.republish,
    }  # fmt: skip


def _store_fields(config: ObjectStoreConfig) -> dict[str, Any]:
    """What a bucket of objects is like, in the words of the options."""
    return {
        "description": config.description, "ttl": config.ttl, "max_bucket_size": config.max_bytes,
        "storage": config.storage, "replicas": config.replicas, "compress": config.compression,
        "batched": config.batched, "sealed": config.sealed, "placement": config.stream.placement,
    }  # fmt: skip


def _value(name: str, value: Any) -> str:
    if value is True:
        return "on"
    if name in _SECONDS:
        return seconds_text(value) if value else NO_LIMIT
    if name in _BYTES:
        return size_text(value) if value >= 0 else NO_LIMIT
    if name in _MOMENTS:
        return stamp(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return NO_LIMIT if value < 0 else f"{value:,}"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def rate_table(rows: Iterable[tuple[str, str, int, float]]) -> Table:
    """Who did what, how many messages a second, and in how many seconds."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("client", no_wrap=True)
    table.add_column("what")
    for column in ("messages/s", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for client, what, rate, seconds in rows:
        table.add_row(client, what, f"{rate:,}", f"{seconds:.3f} s")
    return table
