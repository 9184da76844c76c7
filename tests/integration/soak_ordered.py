"""Read a replicated stream with an ordered subscription while its leaders change and links break.

    python -m tests.integration.soak_ordered [MESSAGES [LEADER_CHANGES [RECONNECTS]]]

A cluster of three nodes on loopback, a stream with three replicas. Messages are stored in as many lots as there are
disturbances. When half of a lot has been read comes one of them: the stream's leader steps down, or it is killed and
started again, or the node that the reader is connected to is. Then the rest of the lot is read. Every sequence
must come exactly once and in order, with the payload that was stored under it. The defaults are 1,000,000 messages, 10
leader changes and 5 reconnects; that takes minutes and some 300 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, sleep
from typing import Final, NamedTuple

from jsproto.errors import Error
from jsproto.events import Connected, Event, OrderedConsumerRecreated
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, PushSubscription, connect
from tests.integration.cluster import Cluster

STREAM: Final = "SOAK"
PATIENCE: Final = 60.0  # seconds for one message, or for a cluster to settle
PAYLOAD: Final = b"%d".ljust(60)


class Outcome(NamedTuple):
    """What a run saw."""

    messages: int
    leader_changes: int
    reconnects: int
    recreated: int
    seconds: float
    reading: float
    """Seconds of these in which messages were read."""


def run(messages: int = 1_000_000, leader_changes: int = 10, reconnects: int = 5) -> Outcome:
    """One run; AssertionError when a sequence is missing, comes twice, or out of order."""
    started, reading, done = monotonic(), 0.0, 0
    events: list[Event] = []
    with (
        Cluster() as cluster,
        connect(cluster.urls, dont_randomize=True, timeout=PATIENCE, reconnect_time_wait=0.1) as writer,
    ):
        js = writer.jetstream()
        js.create_stream(
            STREAM, subjects=[f"{STREAM}.>"], storage="file", num_replicas=3, allow_batched=True, allow_direct=True
        )
        with connect(
            cluster.urls, dont_randomize=True, event_cb=events.append, timeout=PATIENCE, reconnect_time_wait=0.1
        ) as reader:
            subscription = reader.jetstream().subscribe(f"{STREAM}.>", ordered=True, idle_heartbeat=0.5)
            disturbances = list(_disturbances(leader_changes, reconnects))
            for number, disturbance in enumerate(disturbances, 1):
                lot = messages * number // len(disturbances) - done
                _settle(writer)
                _store(writer, done, lot)
                reading += _read(subscription, done, lot // 2)
                _disturb(cluster, writer, reader, disturbance)
                reading += _read(subscription, done + lot // 2, lot - lot // 2)
                done += lot
            assert subscription.pending_msgs == 0
            recreated = sum(isinstance(event, OrderedConsumerRecreated) for event in events)
            connected = sum(isinstance(event, Connected) for event in events) - 1
            assert connected >= reconnects, f"{connected} reconnects"
    return Outcome(done, leader_changes, connected, recreated, monotonic() - started, reading)


def _disturbances(leader_changes: int, reconnects: int) -> Iterator[str]:
    """Leader changes, every third one by force, and between them what cuts the reader off."""
    changes = ["kill" if number % 3 == 2 else "step down" for number in range(leader_changes)]
    cuts = ["cut"] * reconnects
    while changes or cuts:
        take = -(-len(changes) // (len(cuts) + 1))
        yield from changes[:take]
        changes = changes[take:]
        if cuts:
            yield cuts.pop()


def _disturb(cluster: Cluster, writer: Connection, reader: Connection, what: str) -> None:
    leader = _settle(writer)
    if what == "step down":
        writer.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{STREAM}", timeout=PATIENCE)
    else:
        node = cluster.node(leader) if what == "kill" else _node_of(cluster, reader)
        node.kill()
        node.start()
    until = monotonic() + PATIENCE
    while _settle(writer) == leader and what == "step down":
        assert monotonic() < until, "the leader does not change"


def _node_of(cluster: Cluster, connection: Connection) -> NatsServer:
    """The node that ``connection`` is connected to."""
    info = connection.server_info
    assert info is not None
    assert info.server_name is not None
    return cluster.node(info.server_name)


def _settle(writer: Connection) -> str:
    """Wait until the stream has a leader and all replicas follow it; returns its name."""
    until = monotonic() + PATIENCE
    while True:
        try:
            cluster = writer.jetstream(timeout=2.0).stream_info(STREAM).cluster or {}
            replicas = cluster.get("replicas", [])
            if cluster.get("leader") and all(replica.get("current") for replica in replicas):
                return str(cluster["leader"])
        except Error:
            if monotonic() > until:
                raise
        assert monotonic() < until, "the cluster does not settle"
        sleep(0.05)


def _store(writer: Connection, first: int, count: int) -> None:
    """Messages ``first`` to ``first + count - 1``, counted from 0, so that number n has sequence n + 1."""
    js, end = writer.jetstream(), first + count
    while first < end:
        with suppress(Error), js.fast_publisher() as batch:  # a leader may go of itself, too
            batch.publish_many((f"{STREAM}.a", PAYLOAD % n) for n in range(first, end))
            batch.commit()
        _settle(writer)
        first = js.stream_info(STREAM).state.last_seq
    assert first == end


def _read(subscription: PushSubscription, first: int, count: int) -> float:
    """Read these; returns the seconds it took."""
    started = monotonic()
    for n in range(first, first + count):
        message = subscription.next_msg(timeout=PATIENCE)
        assert message.data == PAYLOAD % n, f"{message.data!r} where {n} was next"
        if not n % 1_000:
            assert message.metadata.sequence.stream == n + 1
    return monotonic() - started


def main(*numbers: str) -> None:
    """Run, and say how it went."""
    outcome = run(*map(int, numbers))
    print(
        f"{outcome.messages:,} messages, each once and in order, through {outcome.leader_changes} leader changes and "
        f"{outcome.reconnects} reconnects; {outcome.recreated} times another consumer was needed; "
        f"{outcome.seconds:.0f} s, {outcome.reading:.0f} s of them reading"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
