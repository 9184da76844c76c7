"""A stream of three replicas, one of which stands still, or has done so and lags behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from jsproto.errors import Error
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from pyspark_jetstream import JetStreamDataSource, ranges
from tests.integration.cluster import Cluster, paused
from tests.spark.test_tasks import COLUMNS, WRITTEN, read, rows

pytestmark = pytest.mark.spark

MISSED = 3_000  # messages that a stopped replica must catch up with
MOST_MISSED = 48_000
ROUNDS = 20
TAIL = 1_000  # of them that are read


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def source(servers: str, stream: str, **options: str) -> Any:
    return JetStreamDataSource({"servers": servers, "stream": stream, **options})


def made(cluster: Cluster, name: str) -> tuple[NatsServer, NatsServer]:
    """A stream of three replicas: its leader, and a follower."""
    with connect(cluster.urls) as nc:
        js = nc.jetstream()
        config: dict[str, Any] = {"allow_direct": True, "allow_batched": True, "allow_atomic": True}
        js.create_stream(name, subjects=[f"{name}.>"], num_replicas=3, **config)
        leader, follower = up_to_date(js, name)
        return cluster.node(leader), cluster.node(follower)


def up_to_date(js: JetStream, name: str) -> tuple[str, str]:
    """The leader of a stream and a follower, once all of them are up to date."""
    while True:
        with suppress(Error):
            group = js.stream_info(name).cluster or {}
            followers = [replica["name"] for replica in group.get("replicas") or () if replica.get("current")]
            if group.get("leader") and len(followers) == 2:
                return str(group["leader"]), str(followers[0])


def test_a_page_that_a_replica_ends_early_is_not_the_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver plans with what the leader has, and the task reads from a replica that does not have it yet."""
    leader, lagging = made(cluster, "LAG")
    of_leader: list[int] = []
    read_of_leader = ranges._of_leader

    def counted(*arguments: Any) -> Any:
        found = read_of_leader(*arguments)
        of_leader.append(len(found.seqs))
        return found

    monkeypatch.setattr(ranges, "_of_leader", counted)
    missed, last = MISSED, 0
    with connect(leader.url) as nc:
        js = nc.jetstream(timeout=20)
        for _ in range(ROUNDS):
            with paused(lagging):
                last += missed
                with js.fast_publisher() as batch:
                    batch.publish_many((f"LAG.{n % 10}", b"%d" % n) for n in range(last - missed + 1, last + 1))
                    batch.commit()
                start = f'{{"LAG": {last - TAIL + 1}}}'
                plan = source(leader.url, "LAG", startingOffsets=start, minPartitions="1").reader(COLUMNS).partitions()
            assert read(source(lagging.url, "LAG").reader(COLUMNS), plan) == [*range(last - TAIL + 1, last + 1)]
            if any(of_leader):
                return
            missed = min(2 * missed, MOST_MISSED)  # a quick machine
    raise AssertionError("the replica did not lag: this test shows nothing")


def test_a_follower_stands_still(cluster: Cluster) -> None:
    """Two of three are enough to write and to read, though the third takes connections, and requests, and is silent."""
    _, follower = made(cluster, "STILL")
    options = {"markerSubject": "STILL", "minPartitions": "2", "nats.connectTimeout": "0.5", "requestTimeout": "3s"}
    servers = ",".join([follower.url, *cluster.urls])
    with paused(follower):
        writer = source(servers, "STILL", delivery="atomic", **options).writer(WRITTEN, False)
        assert writer.write(rows("STILL", 1, 2_500)).rows == 2_500
        reader = source(servers, "STILL", **options, **{"fetch.numRetries": "100"}).reader(COLUMNS)
        assert read(reader, reader.partitions()) == [*range(1, 2_501)]
