"""Reading through a replica that lags because its process was stopped: plain reads go back in time, sessions do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from jsproto.errors import Error, MessageNotFoundError
from jsproto_io.sync import connect
from tests.effort import examples
from tests.integration.cluster import Cluster
from tests.marks import promise, requirement
from tests.servers import paused

pytestmark = pytest.mark.slow
PAIRS = examples(2_000)
ROUND = 50  # pairs, of which the first follows the resumption of the replica
MISSED = 3_000  # messages that a stopped replica must catch up with
MOST_MISSED = 24_000
ENOUGH = 40  # stale reads: then the replica needs to lag no more
FILL = ("s.fill", bytes(1_000))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def members(js: Any, name: str) -> tuple[str, list[str]]:
    """The leader of a stream and its followers, once all of them are up to date."""
    while True:
        with suppress(Error):
            group = js.stream_info(name).cluster or {}
            followers = [replica["name"] for replica in group.get("replicas") or () if replica.get("current")]
            if group.get("leader") and len(followers) == 2:
                return str(group["leader"]), followers


def seq_of(read: Any) -> int:
    try:
        return int(read().seq)
    except MessageNotFoundError:
        return 0


@requirement(252, 256)
@promise("**consistent sessions** that read their own writes and never read backwards")
@promise("a last message, a next message", of="Guarantees")
@promise("a last message, a next message", of="Reading what was written")
@promise("never an older price, from any server")
def test_a_session_reads_what_it_wrote_through_a_replica_that_lags(cluster: Cluster) -> None:
    with connect(cluster.urls, dont_randomize=True) as nc:
        js = nc.jetstream()
        js.create_stream(
            "S", subjects=["s.>"], storage="file", num_replicas=3, allow_direct=True, allow_batched=True,
            max_bytes=64_000_000,
        )  # fmt: skip
        leader, followers = members(js, "S")
    lagging = cluster.node(followers[0])
    with connect(cluster.node(leader).url) as near, connect(lagging.url) as far:
        writer, plain = near.jetstream(timeout=20), far.jetstream(timeout=20)
        stale = 0
        missed = MISSED
        with writer.consistent_session() as writes, plain.consistent_session() as reads:
            for number in range(PAIRS):
                subject = f"s.key.{number % 7}"
                if number % ROUND == 0 and stale < ENOUGH:
                    if number and not stale:
                        missed = min(2 * missed, MOST_MISSED)  # a quick machine
                    with paused(lagging):
                        with writer.fast_publisher() as batch:
                            batch.publish_many([FILL] * missed)
                            batch.commit()
                        ack = writes.publish(subject, b"%d" % number)
                else:
                    ack = writes.publish(subject, b"%d" % number)
                stale += seq_of(lambda asked=subject: plain.get_last_msg("S", asked)) < ack.seq
                reads.merge(writes.token.to_bytes())
                message = reads.get_last_msg("S", subject)
                assert (message.seq, message.data) == (ack.seq, b"%d" % number)
        assert 0 < stale < PAIRS, "the replica did not lag: this test shows nothing"


@requirement(256)
@promise("a last message, a next message", of="Guarantees")
@promise("a last message, a next message", of="Reading what was written")
@promise("does not end before sequence 1")
def test_batches_of_a_session_do_not_end_early(cluster: Cluster) -> None:
    with connect(cluster.urls, dont_randomize=True) as nc:
        js = nc.jetstream()
        js.create_stream("B", subjects=["b.>"], storage="file", num_replicas=3, allow_direct=True, allow_batched=True)
        leader, followers = members(js, "B")
    lagging = cluster.node(followers[0])
    with connect(cluster.node(leader).url) as near, connect(lagging.url) as far:
        writer, reader = near.jetstream(timeout=20), far.jetstream(timeout=20)
        short = 0
        for number in range(100):
            with paused(lagging), writer.fast_publisher() as batch:
                batch.publish_many([("b.fill", bytes(1_000))] * MISSED)
                ack = batch.commit(f"b.key.{number}", b"last")
            with suppress(MessageNotFoundError):
                reader.get_msg("B", ack.seq)
                short -= 1
            short += 1
            with reader.consistent_session() as session:
                session.record(ack)
                assert [m.seq for m in session.get_batch("B", seq=ack.seq - 5)] == [*range(ack.seq - 5, ack.seq + 1)]
                keys = {m.subject: m.seq for m in session.get_last_msgs_for("B", ["b.key.*"])}
                assert len(keys) == number + 1
                assert keys[f"b.key.{number}"] == ack.seq
            if number >= 10 and short:
                break
        assert short, "the replica did not lag: this test shows nothing"
