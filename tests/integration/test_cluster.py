"""Fast ingest without loss while the stream's leader changes: by a step-down, and by SIGKILL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from jsproto.errors import Error
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.integration.cluster import Cluster

COUNT = 30_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def leader_of(js: Any, name: str) -> str:
    while True:
        with suppress(Error):
            leader = (js.stream_info(name).cluster or {}).get("leader")
            if leader:
                return str(leader)


def test_no_acknowledged_message_is_lost_when_the_leader_goes(cluster: Cluster) -> None:
    with connect(cluster.urls, reconnect_time_wait=0.1) as nc:
        js = nc.jetstream()
        js.create_stream(
            "S", subjects=["s.>"], storage="file", num_replicas=3, allow_batched=True, allow_direct=True,
            duplicate_window=120,
        )  # fmt: skip
        killed: list[NatsServer] = []

        def step_down() -> None:
            nc.request("$JS.API.STREAM.LEADER.STEPDOWN.S")

        def kill() -> None:
            killed.append(cluster.node(leader_of(js, "S")))
            killed[0].kill()

        todo: list[Any] = [("s.a", b"%d" % number, {"Nats-Msg-Id": f"{number}"}) for number in range(COUNT)]
        faults = {COUNT // 3: step_down, 2 * COUNT // 3: kill}
        acknowledged = batches = 0

        def upcoming(queue: list[Any]) -> Iterator[Any]:
            for message in queue:
                fault = faults.pop(int(message[1]), None)
                if fault is not None:
                    fault()
                yield message

        while todo:
            batches += 1
            batch = js.fast_publisher(flow=100)
            try:
                batch.publish_many(upcoming(todo))
                batch.commit()
                todo = []
            except Error:
                todo = batch.unacknowledged + todo[batch.sequence :]
            acknowledged = COUNT - len(todo)
            if todo:
                with suppress(Error):
                    nc.flush()
        assert (acknowledged, faults) == (COUNT, {})
        assert batches > 1
        killed[0].start()
        cluster.wait_until_ready()
        assert leader_of(js, "S")
        stored = [int(message.data) for message in js.get_batch("S")]
        assert stored == list(range(COUNT))
