"""Buckets on every release, on three replicas, in the domain of a leaf, and behind the back of who has bound to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Final

import pytest

from jsproto.errors import (
    BucketNotFoundError,
    Error,
    KeyDeletedError,
    KeyExistsError,
    KeyWrongLastSequenceError,
    NoRespondersError,
    UnsupportedByServerError,
)
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Bucket, connect
from tests import servers
from tests.drivers.test_facade import unique
from tests.integration.cluster import Cluster, free_ports
from tests.marks import requirement

ServerFor = Callable[..., NatsServer]

PATIENCE: Final = 30.0  # seconds


def every_verb(bucket: Bucket, *, atomic: bool) -> None:
    """What the verbs do, from an empty bucket with a history of 3 on."""
    assert bucket.config.atomic is atomic
    assert bucket.create("a", b"1") == 1
    with pytest.raises(KeyExistsError):
        bucket.create("a", b"2")
    assert bucket.update("a", b"2", 1) == 2
    with pytest.raises(KeyWrongLastSequenceError) as wrong:
        bucket.update("a", b"3", 1)
    assert wrong.value.revision == 2
    assert bucket.put("b", b"3") == 3
    with bucket.session() as session:
        assert session.put("c", b"4") == 4
        assert session.get("c").value == b"4"
        assert [*session.get_many(["a", "c", "none"])] == ["a", "c"]
    assert bucket.get("a", 1).value == b"1"
    assert bucket.delete("b", last=3) == 5
    with pytest.raises(KeyDeletedError):
        bucket.get("b", level="leader")
    assert bucket.create("b", b"6") == 6
    assert bucket.purge("c") == 7
    assert bucket.keys() == ["a", "b"]
    assert [entry.revision for entry in bucket.history("a")] == [1, 2]
    shot = bucket.snapshot()
    assert ([*shot], shot.revision, shot.markers) == (["a", "b"], 7, {"c": 7})
    with bucket.watch("a", "b", track_keys=True) as watcher:
        entries = [watcher.next_update(timeout=30) for _ in range(3)]
        assert [entry and entry.key for entry in entries] == ["a", "b", None]
        bucket.put("a", b"8")
        last = watcher.next_update(timeout=30)
        assert last is not None
        assert (last.key, last.revision) == ("a", 8)
    assert bucket.purge_deletes(older_than=0) == 1
    assert bucket.status().last_revision == 8


@pytest.mark.versions
@pytest.mark.parametrize("version", servers.RELEASES)
def test_every_verb(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        bucket = js.create_bucket(unique("B"), history=3, storage="memory")
        every_verb(bucket, atomic=version >= "2.12")
        if version >= "2.12":
            assert bucket.create("ttl", b"", ttl=100) == 9
        else:
            with pytest.raises(UnsupportedByServerError, match=r"2\.12"):
                js.create_bucket(unique("B"), atomic=True)
        js.delete_bucket(bucket.name)


# -- three replicas ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def test_every_verb_on_three_replicas(cluster: Cluster) -> None:
    with connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=10)
        bucket = js.create_bucket(unique("B"), history=3, replicas=3)
        every_verb(bucket, atomic=True)
        js.delete_bucket(bucket.name)


@requirement(258)
def test_what_was_written_is_listed_and_read(cluster: Cluster) -> None:
    """Right after a write, whichever replica has the consumer and answers."""
    with connect(cluster.urls[0]) as nc, connect(cluster.urls[1]) as other:
        js = nc.jetstream(timeout=10)
        bucket = js.create_bucket(unique("B"), replicas=3, storage="memory")
        there = other.jetstream(timeout=10).bucket(bucket.name)
        token = b""
        for number in range(40):
            with bucket.session(token=token or None) as session:
                revision = session.put(f"k.{number}", b"%d" % number)
                assert session.get(f"k.{number}").revision == revision
                token = session.token.to_bytes()
            assert f"k.{number}" in there.keys(f"k.{number}", "none")
            with there.session(token=token) as later:
                assert later.get(f"k.{number}").revision == revision
            assert there.snapshot()[f"k.{number}"].revision == revision
        js.delete_bucket(bucket.name)


# -- another domain ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def leaf() -> Iterator[NatsServer]:
    """A server of the domain "leaf", which is a leaf of one of the domain "hub"."""
    (port,) = free_ports(1)
    listen = f'server_name: hub\nleafnodes {{ listen: "127.0.0.1:{port}" }}'
    remote = f'server_name: leaf\nleafnodes {{ remotes: [{{ url: "nats-leaf://127.0.0.1:{port}" }}] }}'
    with NatsServer(config=listen, jetstream="domain: hub"), NatsServer(config=remote, jetstream="domain: leaf") as own:
        with connect(own.url) as nc:
            until = monotonic() + PATIENCE
            while True:
                try:
                    nc.jetstream(domain="hub", timeout=1.0).account_info()
                    break
                except Error:
                    assert monotonic() < until
                    sleep(0.05)
        yield own


def test_a_bucket_in_the_domain_of_the_hub(leaf: NatsServer) -> None:
    """Keys are written under the prefix of the domain, and stored without it."""
    with connect(leaf.url) as nc:
        there = nc.jetstream(domain="hub")
        bucket = there.create_bucket("B", history=3)
        every_verb(bucket, atomic=True)
        assert sorted(there.stream_subjects("KV_B")) == ["$KV.B.a", "$KV.B.b"]
        assert "B" not in nc.jetstream().bucket_names()
        with pytest.raises(BucketNotFoundError):
            nc.jetstream().bucket("B")
        there.delete_bucket("B")


def test_a_mirror_in_another_domain(leaf: NatsServer) -> None:
    """It is read where it is, and written to its origin."""
    with connect(leaf.url) as nc:
        origin = nc.jetstream(domain="hub").create_bucket("O")
        origin.put("k", b"1")
        mirror = nc.jetstream().create_bucket("M", mirror={"name": "O", "external": {"api": "$JS.hub.API"}})
        assert mirror.put("k", b"2") == 2
        until = monotonic() + PATIENCE
        while not (entries := mirror.history("k")) or entries[-1].revision < 2:
            assert monotonic() < until
            sleep(0.05)
        assert (mirror.get("k").value, origin.get("k").value) == (b"2", b"2")
        assert mirror.keys() == ["k"]
        assert mirror.delete("k", last=2) == 3
        with pytest.raises(KeyDeletedError):
            origin.get("k")


# -- behind the back ---------------------------------------------------------------------------------------------------


def test_a_bucket_that_others_change(server: NatsServer) -> None:
    with connect(server.url) as nc:
        js = nc.jetstream()
        bucket = js.create_bucket(unique("B"), history=3)
        for number in range(3):
            bucket.put("k", b"%d" % number)
        js.update_stream(bucket.stream, max_msgs_per_subject=1)
        assert [entry.value for entry in bucket.history()] == [b"2"]
        assert (bucket.config.history, bucket.status().config.history) == (3, 1)
        js.update_stream(bucket.stream, allow_direct=False)
        assert bucket.get("k").value == b"2"
        assert bucket.keys() == ["k"]
        for verb in (lambda: bucket.get_many(["k"]), bucket.snapshot, lambda: bucket.get("k", level="direct")):
            with pytest.raises(NoRespondersError, match="direct=True"):
                verb()
        with bucket.session(level="leader") as session:
            assert session.put("k", b"3") == session.get("k").revision
        js.update_stream(bucket.stream, allow_atomic=False)
        status = js.update_bucket(bucket.name, direct=True, atomic=True, history=3)
        assert (status.config.direct, status.config.atomic, status.config.history) == (True, True, 3)
        assert bucket.snapshot()["k"].value == b"3"
        js.delete_bucket(bucket.name)
