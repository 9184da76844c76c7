"""What a bucket of objects is like (ADR-20): its options, and the configuration of the stream that has it.

Rules: those of ``bucket_config``. A new bucket allows Direct Get, and fast ingest as far as the server knows it.

Not here: names and descriptions (``object_info``), asking the server (``client.objects``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict, Unpack, cast

from jsproto._event import event
from jsproto.errors import BadBucketError
from jsproto.grammar.bucket_config import (
    COMMON,
    AnyBucketConfig,
    Written,
    changed_fields,
    flag_of,
    is_before,
    stream_fields,
)
from jsproto.grammar.config import Placement, ServerInfo, Storage, StreamConfig, StreamInfo, StreamOptions
from jsproto.grammar.object_info import STREAM_PREFIX, ObjectSpace, bucket_of, stream_of
from jsproto.grammar.times import Duration

BATCHED_SINCE: Final = "2.14"


class ObjectStoreOptions(TypedDict, total=False):
    """What a bucket of objects is like. None is the default.

    Attributes:
        description: a text for people.
        ttl: how long an object lives, in seconds or as a timedelta. Default: for ever.
        max_bytes: of all objects together, with their descriptions. Default: no limit.
        storage: "file" (the default) or "memory".
        replicas: servers that have it. Default: 1.
        compression: whether the server compresses its files.
        placement: where the replicas are.
        metadata: names and values for applications.
        batched: objects are put by fast ingest (2.14), the default.
    """

    description: str | None
    ttl: Duration | None
    max_bytes: int | None
    storage: Storage | None
    replicas: int | None
    compression: bool | None
    placement: Placement | None
    metadata: Mapping[str, str] | None
    batched: bool | None


_OPTIONS: Final[Mapping[str, Written]] = {
    **COMMON,
    "batched": flag_of("batched", "allow_batched", True, (False, True)),
}


@event
class ObjectStoreConfig(AnyBucketConfig):
    """What a bucket of objects is like. ``stream`` is the configuration of its stream, which has further fields."""

    @classmethod
    def of(
        cls, bucket: str, server: ServerInfo | None = None, /, **options: Unpack[ObjectStoreOptions]
    ) -> ObjectStoreConfig:
        """A new bucket. ``server``: the one that is asked. None: one of the present release.

        Raises:
            LocalProtocolError: the name, or an option, cannot be.
        """
        space = ObjectSpace(bucket)
        given: dict[str, Any] = {
            "ttl": None, "max_bytes": None, "batched": not is_before(server, BATCHED_SINCE),
            **{name: value for name, value in options.items() if value is not None},
        }  # fmt: skip
        fields = {
            "subjects": [space.all_chunks, space.all_meta], "discard": "new", "allow_rollup_hdrs": True,
            "allow_direct": True, **stream_fields(_OPTIONS, bucket, given),
        }  # fmt: skip
        return cls(StreamConfig.from_options(stream_of(bucket), **cast("StreamOptions", fields)))

    @classmethod
    def read(cls, stream: StreamConfig) -> ObjectStoreConfig:
        """The bucket that a stream is.

        Raises:
            BadBucketError: it is none.
        """
        if bucket_of(stream.name) is None:
            raise BadBucketError(stream.name, "name", stream.name)
        return cls(stream)

    def changes(self, **options: Unpack[ObjectStoreOptions]) -> StreamOptions:
        """The fields of the stream that an update with ``options`` changes.

        Raises:
            LocalProtocolError: an option cannot be.
        """
        return changed_fields(self.stream, stream_fields(_OPTIONS, self.bucket, options))

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self.stream.name.removeprefix(STREAM_PREFIX)

    @property
    def batched(self) -> bool:
        """Whether objects are put by fast ingest."""
        return bool(self.stream.allow_batched)

    @property
    def sealed(self) -> bool:
        """Whether nothing in it can change any more."""
        return bool(self.stream.sealed)


@event
class ObjectStoreStatus:
    """A bucket of objects: its configuration, and how much it holds. ``info`` is what the server says of its stream."""

    info: StreamInfo

    @property
    def config(self) -> ObjectStoreConfig:
        """What the bucket is like."""
        return ObjectStoreConfig(self.info.config)

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self.config.bucket

    @property
    def size(self) -> int:
        """Bytes of all objects, with their descriptions."""
        return self.info.state.bytes
