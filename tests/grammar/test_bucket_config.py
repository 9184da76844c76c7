"""What a bucket is like: its options, and the fields of its stream."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jsproto.errors import BadBucketError, LocalProtocolError
from jsproto.grammar.bucket_config import BucketConfig, BucketStatus
from jsproto.grammar.config import ServerInfo, StreamConfig, StreamInfo

BASE = {
    "name": "KV_B",
    "subjects": ["$KV.B.>"],
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_msgs_per_subject": 1,
    "max_msg_size": -1,
    "discard": "new",
    "duplicate_window": 120_000_000_000,
    "allow_direct": True,
    "deny_delete": True,
    "allow_rollup_hdrs": True,
    "allow_msg_ttl": True,
    "allow_atomic": True,
}


def stream_of(*server: Any, **options: Any) -> dict[str, Any]:
    return BucketConfig.of("B", *server, **options).stream.to_json()


def test_a_bucket_without_options() -> None:
    assert stream_of() == BASE
    assert stream_of(history=None, ttl=None, max_bytes=None, max_value_size=None, direct=None, atomic=None) == BASE


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"history": 64}, {"max_msgs_per_subject": 64}),
        ({"ttl": 600}, {"max_age": 600_000_000_000}),
        ({"ttl": timedelta(seconds=30)}, {"max_age": 30_000_000_000, "duplicate_window": 30_000_000_000}),
        ({"marker_ttl": 5}, {"subject_delete_marker_ttl": 5_000_000_000}),
        ({"max_bytes": 1000, "max_value_size": 10}, {"max_bytes": 1000, "max_msg_size": 10}),
        ({"storage": "memory", "replicas": 3}, {"storage": "memory", "num_replicas": 3}),
        ({"compression": True}, {"compression": "s2"}),
        ({"compression": False}, {"compression": "none"}),
        ({"direct": False, "atomic": False}, {"allow_direct": False, "allow_atomic": False}),
        (
            {"description": "d", "metadata": {"a": "b"}, "placement": {"tags": ["x"]}, "republish": {"src": ">"}},
            {"description": "d", "metadata": {"a": "b"}, "placement": {"tags": ["x"]}, "republish": {"src": ">"}},
        ),
    ],
)
def test_options(options: dict[str, Any], fields: dict[str, Any]) -> None:
    assert stream_of(**options) == {**BASE, **fields}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"history": 0}, "history is a whole number from 1 to 64, not 0"),
        ({"history": 65}, "from 1 to 64"),
        ({"history": True}, "from 1 to 64"),
        ({"histroy": 1}, "no option 'histroy': did you mean 'history'"),
        ({"ttl": -1}, "ttl"),
        ({"ttl": "1"}, "ttl"),
        ({"marker_ttl": 0.5}, "marker_ttl must be 1 second to"),
        ({"max_bytes": 0}, "max_bytes is a whole number"),
        ({"max_value_size": "1"}, "max_value_size is a whole number"),
        ({"compression": "s2"}, "compression is True or False"),
        ({"direct": "yes"}, "direct is True or False"),
        ({"storage": "disk"}, "storage"),
        ({"replicas": "3"}, "num_replicas"),
        ({"mirror": 7}, "a bucket to copy"),
        ({"mirror": {"nom": "A"}}, "a bucket to copy"),
        ({"mirror": "a.b"}, "a bucket's name"),
        ({"mirror": "A", "atomic": True}, "a mirror cannot"),
        ({"sources": "A"}, "a list of buckets"),
        ({"sources": 7}, "a list of buckets"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        stream_of(**options)


def test_older_servers() -> None:
    old, older = ServerInfo(version="2.11.9"), ServerInfo(version="2.10.29")
    assert stream_of(old) == {**BASE, "allow_atomic": False}
    assert stream_of(older) == {name: value for name, value in BASE.items() if name != "allow_msg_ttl"} | {
        "allow_atomic": False
    }
    assert stream_of(old, atomic=True) == BASE  # the verb says that this server cannot
    assert stream_of(ServerInfo(version="2.15.1")) == BASE


def test_mirrors() -> None:
    mirror = stream_of(mirror="A")
    assert mirror["mirror"] == {"name": "KV_A"}
    assert mirror["mirror_direct"] is True
    assert "subjects" not in mirror
    assert "allow_msg_ttl" not in mirror
    assert mirror["allow_atomic"] is False
    external = {"name": "KV_A", "external": {"api": "$JS.hub.API"}}
    assert stream_of(mirror=external)["mirror"] == external


def test_sources() -> None:
    elsewhere: dict[str, Any] = {"name": "B", "external": {"api": "$JS.hub.API"}}
    own: dict[str, Any] = {"name": "KV_C", "subject_transforms": [{"src": "$KV.C.x", "dest": "$KV.B.y"}]}
    found = stream_of(sources=["A", elsewhere, own, {**elsewhere, "name": "D"}])
    assert found["subjects"] == ["$KV.B.>"]
    assert found["sources"] == [
        {"name": "KV_A", "subject_transforms": [{"src": "$KV.A.>", "dest": "$KV.B.>"}]},
        {**elsewhere, "name": "KV_B"},
        own,
        {
            "name": "KV_D", "external": {"api": "$JS.hub.API"},
            "subject_transforms": [{"src": "$KV.D.>", "dest": "$KV.B.>"}],
        },
    ]  # fmt: skip
    assert elsewhere == {"name": "B", "external": {"api": "$JS.hub.API"}}  # as the caller has it


# -- a bucket that is there --------------------------------------------------------------------------------------------


def test_what_is_read() -> None:
    stream = StreamConfig.from_json(
        {**BASE, "max_age": 60_000_000_000, "subject_delete_marker_ttl": 5_000_000_000, "of_later": 7,
         "num_replicas": 3, "storage": "file", "compression": "s2", "description": "d", "metadata": {"a": "b"},
         "max_bytes": 99, "sources": [{"name": "KV_A"}]}
    )  # fmt: skip
    config = BucketConfig.read(stream)
    assert (config.bucket, config.history, config.ttl, config.marker_ttl) == ("B", 1, 60.0, 5.0)
    assert (config.replicas, config.storage, config.compression, config.description) == (3, "file", True, "d")
    assert (config.max_bytes, config.max_value_size, config.metadata) == (99, None, {"a": "b"})
    assert (config.direct, config.atomic, config.mirror, config.sources) == (True, True, None, [{"name": "KV_A"}])
    assert config.stream.updated(**config.changes(history=5)).to_json() == {
        **stream.to_json(), "max_msgs_per_subject": 5,
    }  # fmt: skip
    bare = BucketConfig.read(StreamConfig("KV_B", max_msgs_per_subject=1))
    assert (bare.ttl, bare.replicas, bare.compression, bare.direct, bare.sources) == (None, 1, False, False, ())
    assert (bare.metadata, bare.marker_ttl) == ({}, None)
    status = BucketStatus(StreamInfo(stream))
    assert (status.bucket, status.values, status.bytes, status.last_revision) == ("B", 0, 0, 0)


@pytest.mark.parametrize(
    ("stream", "field"),
    [
        (StreamConfig("ORDERS", max_msgs_per_subject=1), "name"),
        (StreamConfig("KV_B"), "max_msgs_per_subject"),
        (StreamConfig("KV_B", max_msgs_per_subject=-1), "max_msgs_per_subject"),
    ],
)
def test_streams_of_no_bucket(stream: StreamConfig, field: str) -> None:
    with pytest.raises(BadBucketError, match=field) as raised:
        BucketConfig.read(stream)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("before", "window", "after", "expected"),
    [
        (None, 120, 60, 60.0),
        (60, 60, None, 120.0),
        (60, 60, 600, 120.0),
        (600, 120, 30, 30.0),
        (None, 7, 60, 7.0),  # somebody has chosen it
        (None, 7, None, 7.0),
        (60, 7, 5, 5.0),
        (None, 0, 60, 0.0),
        (None, None, 60, 60.0),
    ],
)
def test_the_window_for_message_ids(before: Any, window: Any, after: Any, expected: float) -> None:
    stream = StreamConfig("KV_B", max_msgs_per_subject=1, max_age=before, duplicate_window=window)
    changed = stream.updated(**BucketConfig.read(stream).changes(ttl=after))
    assert (changed.max_age, changed.duplicate_window) == (after, expected)


def test_none_is_the_default_in_an_update() -> None:
    config = BucketConfig.of("B", history=7, ttl=9, marker_ttl=5, max_bytes=3, direct=False, atomic=False)
    everything = dict.fromkeys(("history", "ttl", "marker_ttl", "max_bytes", "direct", "atomic"))
    assert config.stream.updated(**config.changes(**everything)).to_json() == BASE
