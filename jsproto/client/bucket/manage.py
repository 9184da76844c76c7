"""Buckets as a whole: create, bind, change, delete, list. The scripts.

Rules:

* A stream that is no bucket is a BadBucketError, not a bucket with odd keys.
* An update fetches the configuration first. What it has no option for goes back as it came.
* The list is made of the names of streams: a mirror has no subjects by which it could be found.
* Publishes of another domain, or API, have its prefix before the subject. So does a mirror's origin elsewhere.

Not here: what the options mean (``grammar.bucket_config``), the verbs of one bucket (``bucket``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from jsproto.client.bucket.bucket_options import KeyOptions
from jsproto.client.bucket.entries import of_bucket
from jsproto.grammar.api import DEFAULT_PREFIX
from jsproto.grammar.bucket_config import BucketConfig, BucketOptions, BucketStatus
from jsproto.grammar.bucket_keys import STREAM_PREFIX, KeySpace, bucket_of, stream_of
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.config import StreamInfo


def space_of(config: BucketConfig, prefix: str, keys: KeyOptions | None = None) -> KeySpace:
    """Where the keys of a bucket are. ``prefix``: of the JetStream API that has it. ``keys``: None for the defaults."""
    mirror = config.mirror
    origin = None if mirror is None else mirror.get("name", "").removeprefix(STREAM_PREFIX)
    elsewhere = "" if mirror is None else mirror.get("external", {}).get("api", "")
    write_prefix = elsewhere or ("" if prefix == DEFAULT_PREFIX else prefix)
    return KeySpace(config.bucket, origin=origin, write_prefix=write_prefix, **(keys or {}))


def read_config(bucket: str, asked: Ticket[StreamInfo]) -> Generator[Ticket[Any], Any, BucketConfig]:
    """What a bucket is like, from the answer about its stream.

    Raises:
        BucketNotFoundError: there is none.
        BadBucketError: its stream is none.
    """
    info = yield from of_bucket(bucket, asked)
    return BucketConfig.read(info.config)


def status(bucket: str, asked: Ticket[StreamInfo]) -> Generator[Ticket[Any], Any, BucketStatus]:
    """A bucket as the answer about its stream shows it. BucketNotFoundError without one."""
    return BucketStatus((yield from of_bucket(bucket, asked)))


def update(
    js: JetStream, bucket: str, options: BucketOptions, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, BucketStatus]:
    """Change what ``options`` name, and nothing else.

    Raises:
        BucketNotFoundError, BadBucketError: there is no such bucket.
        LocalProtocolError: an option cannot be.
    """
    stream = stream_of(bucket)
    config = yield from read_config(bucket, js.stream_info(stream, now=now, timeout=timeout))
    changes: Any = config.changes(**options)
    return (yield from status(bucket, js.change_stream(stream, changes, now=js.session.now, timeout=timeout)))


def names(asked: Ticket[list[str]]) -> Generator[Ticket[Any], Any, list[str]]:
    """The buckets among the streams that were ``asked`` for."""
    streams: list[str] = yield asked
    return [bucket for bucket in map(bucket_of, streams) if bucket is not None]


def statuses(js: JetStream, now: float, timeout: float | None) -> Generator[Ticket[Any], Any, list[BucketStatus]]:
    """All buckets, by name."""
    infos = yield from js.streams(timeout=timeout).whole(now)
    return [BucketStatus(info) for info in infos if bucket_of(info.config.name) is not None]
