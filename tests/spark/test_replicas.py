"""A stream of three replicas, one of which stands still, or lags because it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from jsproto.errors import Error, MessageNotFoundError
from jsproto.grammar.position import StreamPosition
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from pyspark_jetstream import JetStreamDataSource, planning, ranges
from pyspark_jetstream.planning import Range
from pyspark_jetstream.source import RangePartition
from tests.integration.cluster import Cluster
from tests.marks import promise
from tests.servers import paused
from tests.spark.conftest import Made, fill
from tests.spark.test_tasks import COLUMNS, WRITTEN, read, rows

pytestmark = pytest.mark.spark

MISSED = 3_000  # messages that a stopped replica must catch up with
MOST_MISSED = 48_000
ROUNDS = 20
PAGE = 20  # messages that it has


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def source(servers: str, stream: str, **options: str) -> Any:
    return JetStreamDataSource({"servers": servers, "stream": stream, **options})


def made(cluster: Cluster, name: str) -> tuple[NatsServer, NatsServer]:
    """A stream of three replicas: its leader, and a follower."""
    with connect(cluster.urls, dont_randomize=True) as nc:
        js = nc.jetstream()
        config: dict[str, Any] = {"allow_direct": True, "allow_batched": True, "allow_atomic": True}
        while True:
            with suppress(Error):  # a new leader of the cluster, perhaps
                js.create_stream(name, subjects=[f"{name}.>"], num_replicas=3, **config)
                break
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


@promise("the same rows, except those deleted meanwhile")
@promise("An offset has the sequence to read next")
@promise("Any replica is read from. What a lagging replica does not have yet comes from the stream's leader.")
def test_a_page_that_a_replica_ends_early_is_not_the_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task reads what the leader has from a replica that does not have it yet."""
    leader, lagging = made(cluster, "LAG")
    of_leader: list[int] = []
    read_of_leader = ranges._of_leader

    def counted(*arguments: Any) -> Any:
        found = read_of_leader(*arguments)
        of_leader.append(len(found.seqs))
        return found

    monkeypatch.setattr(ranges, "_of_leader", counted)
    missed, last = MISSED, 0
    # Small pages: it is between two of them when the replica goes on.
    reader = source(lagging.url, "LAG", batchSize=str(PAGE // 2), maxBytes=str(PAGE * 80)).reader(COLUMNS)
    with connect(leader.url) as nc:
        js = nc.jetstream(timeout=20)
        for _ in range(ROUNDS):
            numbers = range(last + 1, last + PAGE + missed + 1)
            last = numbers[-1]
            fill(js, "LAG", numbers[0], numbers[PAGE - 1])
            task = reader.read(RangePartition(Range(numbers[0], last + 1, StreamPosition("LAG", numbers[PAGE - 1]))))
            found = next(task).column("data").to_pylist()
            with paused(lagging):
                fill(js, "LAG", numbers[PAGE], last)
            for batch in task:
                found += batch.column("data").to_pylist()
            assert [int(data) for data in found] == [*numbers]
            if any(of_leader):
                return
            missed = min(2 * missed, MOST_MISSED)  # a quick machine
    raise AssertionError("the replica did not lag: this test shows nothing")


@promise("Any replica is read from. What a lagging replica does not have yet comes from the stream's leader.")
def test_a_follower_stands_still(cluster: Cluster) -> None:
    """Two of three are enough to write and to read, though the third takes connections, and requests, and is silent."""
    _, follower = made(cluster, "STILL")
    options = {"nats.connectTimeout": "0.5", "requestTimeout": "3s"}
    servers = ",".join([follower.url, *cluster.urls])
    with paused(follower):
        writer = source(servers, "STILL", delivery="atomic", markerSubject="STILL", **options).writer(WRITTEN, False)
        assert writer.write(rows("STILL", 1, 2_500)).rows == 2_500
        reading = {"minPartitions": "2", "fetch.numRetries": "100"}
        reader = source(servers, "STILL", **options, **reading).reader(COLUMNS)
        assert read(reader, reader.partitions()) == [*range(1, 2_501)]


@promise("Any replica is read from. What a lagging replica does not have yet comes from the stream's leader.")
def test_a_time_that_a_replica_does_not_have_yet(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, server: NatsServer
) -> None:
    """Where a time is, is asked of the leader: a Direct Get may be answered by a replica that ends before it."""
    name = stream(100)
    wanted = js.get_msg(name, 50).timestamp
    get_msg = JetStream.get_msg

    def lagging(self: JetStream, *arguments: Any, level: str = "direct", **keywords: Any) -> Any:
        if level == "direct":
            raise MessageNotFoundError(404, "Message Not Found")
        return get_msg(self, *arguments, level="leader", **keywords)

    monkeypatch.setattr(JetStream, "get_msg", lagging)
    first = planning.first_at(js, js.stream_info(name), wanted)
    assert 1 <= first <= 50
    assert planning.first_at(js, js.stream_info(name), wanted + 3_600 * 10**9) == 101
