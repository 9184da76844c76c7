"""The jobs, their clients, and what this library promises. A new job or client is one function and one line here."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

import attrs
from attrs.validators import gt, in_, min_len, optional

from tests.bench import core, keys, ours, peers, raw, sharing, single
from tests.bench.task import Runner

SIZE: Final = 128  # bytes in each message


@attrs.frozen
class Job:
    """One job and its runners by client. ``against``: the (job, client) to compare with, besides its own peers.

    ``keys``: the stream is a key-value bucket, and each message has a key of its own.
    ``headers``: the messages that are read have a header that varies.
    ``mixed``: the messages that are read have from half to one and a half times their size, and that on average.
    """

    title: str
    count: int = attrs.field(validator=gt(0))  # messages in a measured run
    clients: dict[str, Runner] = attrs.field(validator=min_len(1))
    reads: bool = False
    size: int | None = attrs.field(default=None, validator=optional(gt(0)))  # bytes in each message; None: SIZE
    mixed: bool = False
    headers: bool = False
    keys: bool = False
    against: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class Goal:
    """``ours`` is at least ``factor`` times better than ``theirs`` (both (job, client)) in ``measure``."""

    measure: str = attrs.field(validator=in_(("cpu", "rate")))
    factor: float = attrs.field(validator=gt(0))
    ours: tuple[str, str]
    theirs: tuple[str, str]


@attrs.frozen
class CostGoal:
    """``ours`` takes at most ``most`` times the CPU of ``theirs`` (both (job, client))."""

    most: float = attrs.field(validator=gt(0))
    ours: tuple[str, str]
    theirs: tuple[str, str]


@attrs.frozen
class SumGoal:
    """``ours`` takes at most as much CPU as ``parts`` together (all are (job, client))."""

    ours: tuple[str, str]
    parts: tuple[tuple[str, str], ...] = attrs.field(validator=min_len(1))


@attrs.frozen
class CoreGoal:
    """A job of the core alone takes less than ``limit`` microseconds for each message."""

    job: str
    limit: float = attrs.field(validator=gt(0))


DISTRIBUTIONS: Final = {
    "jsproto-trio": "trio",
    "nats-py": "nats-py",
    "nats-py-callback": "nats-py",
    "nats-jetstream-extra": "nats-jetstream-extra",
}
"""The package that a client needs. The other clients need none."""

PEERS: Final = ("nats-py", "nats-py-callback", "nats-jetstream-extra", "raw-socket")

DIRECT_GET: Final = {
    "jsproto-sync": ours.sync_direct_get,
    "jsproto-asyncio": ours.on_asyncio(ours.direct_get),
    "jsproto-trio": ours.on_trio(ours.direct_get),
    "nats-py": peers.nats_py_direct_get,
    "nats-py-callback": peers.nats_py_direct_get_callback,
    "nats-jetstream-extra": peers.extra_direct_get,
    "raw-socket": raw.direct_get,
}

ASYNC_PUBLISH: Final[dict[str, Runner]] = {
    "jsproto-sync": ours.sync_async_publish,
    "jsproto-asyncio": ours.on_asyncio(ours.async_publish),
    "jsproto-trio": ours.on_trio(ours.async_publish),
    "nats-py": peers.nats_py_async_publish,
    "nats-jetstream-extra": peers.extra_async_publish,
    "raw-socket": raw.async_publish,
    "raw-socket-replies": partial(raw.async_publish, replies=True),
}

FAST_INGEST: Final[dict[str, Runner]] = {
    "jsproto-sync": ours.sync_fast_ingest,
    "jsproto-asyncio": ours.on_asyncio(ours.fast_ingest),
    "jsproto-trio": ours.on_trio(ours.fast_ingest),
    "nats-jetstream-extra": peers.extra_fast_ingest,
    "raw-socket": raw.fast_ingest,
    "raw-socket-tuples": partial(raw.fast_ingest, tuples=True),
}

FETCH_ACK: Final = {
    "jsproto-sync": ours.sync_fetch_ack,
    "jsproto-asyncio": ours.on_asyncio(ours.fetch_ack),
    "jsproto-trio": ours.on_trio(ours.fetch_ack),
    "nats-py": peers.nats_py_fetch_ack,
    "raw-socket": raw.fetch_ack,
}

ORDERED: Final = {
    "jsproto-sync": ours.sync_ordered,
    "jsproto-asyncio": ours.on_asyncio(ours.ordered),
    "jsproto-trio": ours.on_trio(ours.ordered),
    "nats-py": peers.nats_py_ordered,
    "nats-py-callback": peers.nats_py_ordered_callback,
}

JOBS: Final = {
    "fast-ingest": Job(
        "fast ingest, flow 500",
        100_000,
        FAST_INGEST,
        against=(("async-publish", "nats-py"),),
    ),
    "fast-ingest-columns": Job(
        "the same, from columns instead of tuples",
        100_000,
        {
            "jsproto-sync": ours.sync_fast_ingest_columns,
            "jsproto-asyncio": ours.on_asyncio(ours.fast_ingest_columns),
            "jsproto-trio": ours.on_trio(ours.fast_ingest_columns),
        },
        against=(("fast-ingest", "raw-socket"),),
    ),
    "fast-ingest-headers": Job(
        "fast ingest, flow 500, with a header in each message that varies",
        100_000,
        {"jsproto-sync": ours.sync_fast_ingest_headers},
        against=(("fast-ingest", "nats-jetstream-extra"), ("fast-ingest", "raw-socket")),
    ),
    "fast-ingest-single": Job(
        "fast ingest, flow 500, one call for each message",
        100_000,
        {
            "jsproto-sync": ours.sync_fast_ingest_single,
            "jsproto-asyncio": ours.on_asyncio(ours.fast_ingest_single),
            "jsproto-trio": ours.on_trio(ours.fast_ingest_single),
        },
        against=(("async-publish", "nats-py"), ("fast-ingest", "nats-jetstream-extra"), ("fast-ingest", "raw-socket")),
    ),
    "atomic": Job(
        "atomic batches of 1000, one call for each batch",
        100_000,
        {
            "jsproto-sync": ours.sync_atomic,
            "jsproto-asyncio": ours.on_asyncio(ours.atomic),
            "jsproto-trio": ours.on_trio(ours.atomic),
            "nats-py": peers.nats_py_atomic,
            "nats-jetstream-extra": peers.extra_atomic,
            "raw-socket": raw.atomic,
        },
    ),
    "atomic-headers": Job(
        "the same, with a header in each message that varies",
        100_000,
        {"jsproto-sync": ours.sync_atomic_headers},
        against=(("atomic", "nats-py"), ("atomic", "nats-jetstream-extra"), ("atomic", "raw-socket")),
    ),
    "atomic-single": Job(
        "atomic batches of 1000, one call for each message",
        100_000,
        {
            "jsproto-sync": ours.sync_atomic_single,
            "jsproto-asyncio": ours.on_asyncio(ours.atomic_single),
            "jsproto-trio": ours.on_trio(ours.atomic_single),
        },
        against=(("atomic", "nats-py"), ("atomic", "nats-jetstream-extra"), ("atomic", "raw-socket")),
    ),
    "async-publish": Job(
        "publish with an acknowledgement each, 1000 on the way",
        30_000,
        ASYNC_PUBLISH,
    ),
    "async-publish-headers": Job(
        "the same, with a header in each message that varies",
        30_000,
        {"jsproto-sync": ours.sync_async_publish_headers},
        against=(
            ("async-publish", "nats-py"),
            ("async-publish", "nats-jetstream-extra"),
            ("async-publish", "raw-socket"),
        ),
    ),
    "async-publish-single": Job(
        "the same, one call and one acknowledgement to look at for each message",
        30_000,
        {
            "jsproto-sync": ours.sync_async_publish_single,
            "jsproto-asyncio": ours.on_asyncio(ours.async_publish_single),
            "jsproto-trio": ours.on_trio(ours.async_publish_single),
        },
        against=(
            ("async-publish", "nats-py"),
            ("async-publish", "nats-jetstream-extra"),
            ("async-publish", "raw-socket"),
        ),
    ),
    "direct-get": Job("Direct Get of a whole stream, payload and sequence", 60_000, DIRECT_GET, reads=True),
    "direct-get-1k": Job("the same with 1 KiB in each message", 60_000, DIRECT_GET, reads=True, size=1024),
    "direct-get-fields": Job(
        "Direct Get, and subject, time and headers of every message are looked at, too",
        60_000,
        {"jsproto-sync": ours.sync_direct_get_fields},
        reads=True,
        # Peers parse all headers whether they are looked at or not.
        against=(("direct-get", "nats-py"), ("direct-get", "nats-jetstream-extra"), ("direct-get", "raw-socket")),
    ),
    "direct-get-headers": Job(
        "the same as direct-get, of messages with a header, which is looked at",
        60_000,
        {"jsproto-sync": ours.sync_direct_get_headers},
        reads=True,
        headers=True,
        against=(("direct-get", "nats-py"), ("direct-get", "nats-jetstream-extra"), ("direct-get", "raw-socket")),
    ),
    "direct-get-headers-unread": Job(
        "the same messages, and the header is not looked at",
        60_000,
        {"jsproto-sync": ours.sync_direct_get},
        reads=True,
        headers=True,
    ),
    "fetch-ack": Job(
        "fetch 500 and acknowledge them, one call for each 500",
        50_000,
        FETCH_ACK,
        reads=True,
    ),
    "fetch-ack-mixed": Job("the same with messages of mixed sizes", 50_000, FETCH_ACK, reads=True, mixed=True),
    "fetch-ack-single": Job(
        "fetch 500 and acknowledge each",
        50_000,
        {
            "jsproto-sync": ours.sync_fetch_ack_single,
            "jsproto-asyncio": ours.on_asyncio(ours.fetch_ack_single),
            "jsproto-trio": ours.on_trio(ours.fetch_ack_single),
            "jsproto-sync-iterator": ours.sync_pull_messages,
        },
        reads=True,
        against=(("fetch-ack", "nats-py"),),
    ),
    "consume": Job(
        "consume with a callback, acknowledged as it returns",
        60_000,
        {
            "jsproto-sync": ours.sync_consume,
            "jsproto-asyncio": ours.on_asyncio(ours.consume),
            "jsproto-trio": ours.on_trio(ours.consume),
            "nats-py-callback": peers.nats_py_callback_ack,
            "nats-jetstream-extra": peers.extra_iterator_ack,
        },
        reads=True,
    ),
    "consume-keys": Job(
        "the same, eight callbacks at once, and an order for each of eight keys",
        60_000,
        {
            "jsproto-sync": ours.sync_consume_keys,
            "jsproto-asyncio": ours.on_asyncio(ours.consume_keys),
            "jsproto-trio": ours.on_trio(ours.consume_keys),
        },
        reads=True,
        against=(("consume", "nats-py-callback"), ("consume", "nats-jetstream-extra")),
    ),
    "ordered-push": Job(
        "ordered push consumer reads a whole stream",
        60_000,
        ORDERED,
        reads=True,
    ),
    "ordered-push-mixed": Job("the same with messages of mixed sizes", 60_000, ORDERED, reads=True, mixed=True),
    "ordered-push-callback": Job(
        "ordered push consumer with a callback",
        60_000,
        {
            "jsproto-sync": ours.sync_ordered_callback,
            "jsproto-asyncio": ours.on_asyncio(ours.ordered_callback),
            "jsproto-trio": ours.on_trio(ours.ordered_callback),
        },
        reads=True,
        against=(("ordered-push", "nats-py"), ("ordered-push", "nats-py-callback")),
    ),
    "copy": Job(
        "copy a whole stream into another one, with the origin and a fence in each message",
        60_000,
        {
            "jsproto-sync": ours.sync_copy,
            "jsproto-asyncio": ours.on_asyncio(ours.copy),
            "jsproto-trio": ours.on_trio(ours.copy),
        },
        reads=True,
        against=(("fetch-ack", "nats-py"),),
    ),
    "fast-ingest-16k": Job(
        "fast ingest with 16 KiB in each message",
        8_000,
        FAST_INGEST,
        size=16_384,
        against=(("async-publish-16k", "nats-py"),),
    ),
    "async-publish-16k": Job(
        "publish with an acknowledgement each, 16 KiB in each message", 8_000, ASYNC_PUBLISH, size=16_384
    ),
    "direct-get-16k": Job("Direct Get with 16 KiB in each message", 8_000, DIRECT_GET, reads=True, size=16_384),
    "fetch-ack-16k": Job(
        "fetch 500 and acknowledge them, 16 KiB in each message", 8_000, FETCH_ACK, reads=True, size=16_384
    ),
    "ordered-push-16k": Job("ordered push with 16 KiB in each message", 8_000, ORDERED, reads=True, size=16_384),
    "kv-put": Job(
        "put each value of a bucket under a key of its own, 1000 on the way",
        30_000,
        {
            "jsproto-sync": keys.sync_put,
            "jsproto-asyncio": ours.on_asyncio(keys.put),
            "jsproto-trio": ours.on_trio(keys.put),
            "nats-py": keys.nats_py_put,
            "nats-jetstream-extra": keys.extra_put,
            "raw-socket": keys.raw_put,
        },
        keys=True,
        size=16,
    ),
    "kv-get": Job(
        "get the value of each key of a bucket, one after the other",
        5_000,
        {
            "jsproto-sync": keys.sync_get,
            "jsproto-asyncio": ours.on_asyncio(keys.get),
            "jsproto-trio": ours.on_trio(keys.get),
            "nats-py": keys.nats_py_get,
            "nats-jetstream-extra": keys.extra_get,
            "raw-socket": keys.raw_get,
        },
        reads=True,
        keys=True,
        size=16,
    ),
    "kv-snapshot": Job(
        "the last value of every key of a bucket, at one moment",
        30_000,
        {
            "jsproto-sync": keys.sync_snapshot,
            "jsproto-asyncio": ours.on_asyncio(keys.snapshot),
            "jsproto-trio": ours.on_trio(keys.snapshot),
            "raw-socket": keys.raw_snapshot,
        },
        reads=True,
        keys=True,
        size=16,
        against=(("kv-watch", "nats-py"),),  # which has no such read
    ),
    "kv-update": Job(
        "put each key of a bucket, get it and update it, one after the other",
        2_000,
        {
            "jsproto-sync": keys.sync_update,
            "jsproto-asyncio": ours.on_asyncio(keys.update),
            "jsproto-trio": ours.on_trio(keys.update),
        },
        keys=True,
        size=16,
    ),
    "kv-transaction": Job(
        "put the keys of a bucket, ten in a transaction",
        2_000,
        {
            "jsproto-sync": keys.sync_transaction,
            "jsproto-asyncio": ours.on_asyncio(keys.transaction),
            "jsproto-trio": ours.on_trio(keys.transaction),
        },
        keys=True,
        size=16,
    ),
    "kv-watch": Job(
        "watch a bucket from its present state on, up to its last value",
        30_000,
        {
            "jsproto-sync": keys.sync_watch,
            "jsproto-asyncio": ours.on_asyncio(keys.watch),
            "jsproto-trio": ours.on_trio(keys.watch),
            "nats-py": keys.nats_py_watch,
        },
        reads=True,
        keys=True,
        size=16,
    ),
    "publish": Job(
        "publish one message after the other, and wait for the acknowledgement of each",
        10_000,
        {
            "jsproto-sync": single.sync_publish,
            "jsproto-asyncio": ours.on_asyncio(single.publish),
            "jsproto-trio": ours.on_trio(single.publish),
            "nats-py": single.nats_py_publish,
            "nats-jetstream-extra": single.extra_publish,
            "raw-socket": single.raw_publish,
        },
    ),
    "fetch-one": Job(
        "fetch one message after the other, and acknowledge each",
        5_000,
        {
            "jsproto-sync": single.sync_fetch,
            "jsproto-asyncio": ours.on_asyncio(single.fetch),
            "jsproto-trio": ours.on_trio(single.fetch),
            "nats-py": single.nats_py_fetch,
        },
        reads=True,
    ),
    "request": Job(
        "request one answer of a callback after the other, both ends together",
        5_000,
        {
            "jsproto-sync": single.sync_request,
            "jsproto-asyncio": ours.on_asyncio(single.request),
            "jsproto-trio": ours.on_trio(single.request),
            "nats-py": single.nats_py_request,
        },
        reads=True,
    ),
    "core-publish": Job(
        "core publish, one call for each message",
        50_000,
        {
            "jsproto-sync": single.sync_core_publish,
            "jsproto-asyncio": ours.on_asyncio(single.core_publish),
            "jsproto-trio": ours.on_trio(single.core_publish),
            "nats-py": single.nats_py_core_publish,
        },
    ),
    "callback": Job(
        "core publish, and a callback for each message, both ends together",
        30_000,
        {
            "jsproto-sync": single.sync_callback,
            "jsproto-asyncio": ours.on_asyncio(single.callback),
            "jsproto-trio": ours.on_trio(single.callback),
            "nats-py": single.nats_py_callback,
        },
        reads=True,
    ),
    "shared-publish": Job(
        "16 threads or tasks publish on one connection, each waits for its acknowledgement",
        20_000,
        {
            "jsproto-sync": sharing.sync_publish,
            "jsproto-asyncio": ours.on_asyncio(sharing.publish),
            "jsproto-trio": ours.on_trio(sharing.publish),
            "nats-py": sharing.nats_py_publish,
            "nats-jetstream-extra": sharing.extra_publish,
            "raw-socket": sharing.raw_publish,
        },
    ),
    "shared-get": Job(
        "16 threads or tasks read on one connection, one message after the other",
        20_000,
        {
            "jsproto-sync": sharing.sync_get,
            "jsproto-asyncio": ours.on_asyncio(sharing.get),
            "jsproto-trio": ours.on_trio(sharing.get),
            "nats-py": sharing.nats_py_get,
            "nats-jetstream-extra": sharing.extra_get,
        },
        reads=True,
    ),
    "consumers": Job(
        "1000 pull consumers on one connection, each fetches 10 and acknowledges them",
        50_000,
        {
            "jsproto-sync": sharing.sync_consumers,
            "jsproto-asyncio": ours.on_asyncio(sharing.consumers),
            "jsproto-trio": ours.on_trio(sharing.consumers),
            "nats-py": sharing.nats_py_consumers,
            "raw-socket": sharing.raw_consumers,
        },
        reads=True,
    ),
    "connect": Job(
        "connect, read one message, close: for each connection",
        500,
        {
            "jsproto-sync": sharing.sync_connect,
            "jsproto-asyncio": ours.on_asyncio(sharing.set_up),
            "jsproto-trio": ours.on_trio(sharing.set_up),
            "nats-py": sharing.nats_py_connect,
            "nats-jetstream-extra": sharing.extra_connect,
            "raw-socket": sharing.raw_connect,
        },
        reads=True,
    ),
}

CORE: Final = {
    "core-publish-many": core.publish_many,
    "core-parse-msg": core.parse_msg,
    "core-direct-get": core.direct_get,
    "core-deliver": core.deliver,
    "calibration": core.calibration,
}

GOALS: Final = (
    Goal("cpu", 20, ("fast-ingest", "jsproto-sync"), ("async-publish", "nats-py")),
    Goal("rate", 5, ("fast-ingest", "jsproto-sync"), ("async-publish", "nats-py")),
    Goal("cpu", 5, ("atomic", "jsproto-sync"), ("atomic", "nats-py")),
    *(
        Goal(measure, factor, (job, "jsproto-sync"), (job, client))
        for job in ("direct-get", "direct-get-1k")
        for client, measure, factor in (
            ("nats-py", "cpu", 8), ("nats-py", "rate", 5),
            ("nats-jetstream-extra", "cpu", 8), ("nats-jetstream-extra", "rate", 5),
            ("raw-socket", "cpu", 0.77),  # within 1.3 times of what the loop by hand needs
        )
    ),
    *(
        goal
        for driver in ("jsproto-sync", "jsproto-asyncio", "jsproto-trio")
        for goal in (
            Goal("cpu", 12, ("fetch-ack", driver), ("fetch-ack", "nats-py")),
            Goal("rate", 5, ("fetch-ack", driver), ("fetch-ack", "nats-py")),
            Goal("cpu", 10, ("ordered-push", driver), ("ordered-push", "nats-py")),
            Goal("cpu", 0.8, ("ordered-push-callback", driver), ("ordered-push", driver)),  # a callback and an
            Goal("cpu", 0.8, ("ordered-push", driver), ("ordered-push-callback", driver)),  # iterator cost the same
        )
    ),
)  # fmt: skip
COST_GOALS: Final = (
    *(
        CostGoal(most, ("async-publish", driver), ("async-publish", "raw-socket"))
        for driver, most in (("jsproto-sync", 1.75), ("jsproto-asyncio", 2.0), ("jsproto-trio", 2.0))
    ),
    *(
        CostGoal(1.75, (job, driver), ("fast-ingest", "raw-socket"))
        for job in ("fast-ingest", "fast-ingest-columns")
        for driver in ("jsproto-sync", "jsproto-asyncio", "jsproto-trio")
    ),
    *(  # one header for each message, every field of each message, and the headers of messages that have some
        CostGoal(2.0, (job, driver), (plain, driver))
        for job in JOBS
        for plain in (f"{job}-unread" if f"{job}-unread" in JOBS else re.sub("-headers$|-fields$", "", job),)
        if plain != job
        for driver in JOBS[job].clients
        if driver in JOBS[plain].clients and driver.startswith("jsproto-")
    ),
)
SUM_GOALS: Final = tuple(
    SumGoal(("copy", driver), (("fetch-ack", driver), ("fast-ingest", driver)))
    for driver in ("jsproto-sync", "jsproto-asyncio", "jsproto-trio")
)
CORE_GOALS: Final = (CoreGoal("core-publish-many", 0.8), CoreGoal("core-parse-msg", 1.3))
