"""What a bucket of objects is like: its options, and the fields of its stream."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import BadBucketError, LocalProtocolError
from jsproto.grammar.config import ServerInfo, StreamConfig, StreamInfo
from jsproto.grammar.object_store_config import ObjectStoreConfig, ObjectStoreStatus

BASE = {
    "name": "OBJ_B", "subjects": ["$O.B.C.>", "$O.B.M.>"], "max_bytes": -1, "discard": "new",
    "duplicate_window": 120_000_000_000, "allow_direct": True, "allow_rollup_hdrs": True, "allow_batched": True,
}  # fmt: skip


def stream_of(*server: Any, **options: Any) -> dict[str, Any]:
    return ObjectStoreConfig.of("B", *server, **options).stream.to_json()


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, {}),
        ({"ttl": None, "max_bytes": None, "batched": None}, {}),
        ({"ttl": 30}, {"max_age": 30_000_000_000, "duplicate_window": 30_000_000_000}),
        ({"max_bytes": 1000}, {"max_bytes": 1000}),
        ({"storage": "memory", "replicas": 3}, {"storage": "memory", "num_replicas": 3}),
        ({"compression": True}, {"compression": "s2"}),
        ({"batched": False}, {"allow_batched": False}),
        (
            {"description": "d", "metadata": {"a": "b"}, "placement": {"tags": ["x"]}},
            {"description": "d", "metadata": {"a": "b"}, "placement": {"tags": ["x"]}},
        ),
    ],
)
def test_options(options: dict[str, Any], fields: dict[str, Any]) -> None:
    assert stream_of(**options) == {**BASE, **fields}


def test_an_older_server_has_no_fast_ingest() -> None:
    assert stream_of(ServerInfo(version="2.13.0"))["allow_batched"] is False
    assert stream_of(ServerInfo(version="2.14.0"))["allow_batched"] is True


@pytest.mark.parametrize("options", [{"batched": "x"}, {"max_bytes": 0}, {"history": 1}, {"ttl": "x"}])
def test_what_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        stream_of(**options)


def test_what_is_read() -> None:
    config = ObjectStoreConfig.of(
        "B", description="d", ttl=9, max_bytes=7, storage="memory", replicas=3, compression=True, metadata={"a": "b"}
    )
    read = ObjectStoreConfig.read(config.stream)
    assert (read.bucket, read.description, read.ttl, read.max_bytes) == ("B", "d", 9.0, 7)
    assert (read.storage, read.replicas, read.compression, read.metadata) == ("memory", 3, True, {"a": "b"})
    assert (read.batched, read.sealed) == (True, False)
    bare = ObjectStoreConfig(StreamConfig("OBJ_B"))
    assert (bare.ttl, bare.max_bytes, bare.replicas, bare.metadata, bare.batched) == (None, None, 1, {}, False)
    with pytest.raises(BadBucketError, match="name"):
        ObjectStoreConfig.read(StreamConfig("KV_B"))


def test_changes() -> None:
    config = ObjectStoreConfig(StreamConfig("OBJ_B", duplicate_window=20.0))
    assert config.changes(ttl=10, batched=True) == {"max_age": 10, "duplicate_window": 10, "allow_batched": True}
    assert config.changes(description="d") == {"description": "d"}


def test_status() -> None:
    info = StreamInfo.from_json(
        {
            "config": {"name": "OBJ_B", "sealed": True},
            "state": {"messages": 1, "bytes": 99, "first_seq": 1, "last_seq": 1},
        }
    )
    status = ObjectStoreStatus(info)
    assert (status.bucket, status.size, status.config.sealed) == ("B", 99, True)
