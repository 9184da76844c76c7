"""Subscribing on every release of nats-server, with both versions of ack subjects, and while leaders change."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from jsproto.errors import DuplicateSubscriptionError
from jsproto.events import Event, OrderedConsumerRecreated
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, PushSubscription, connect
from tests import servers
from tests.integration.cluster import Cluster
from tests.integration.soak_ordered import run
from tests.marks import known_fault, promise, requirement

pytestmark = pytest.mark.versions

VERSIONS = ["2.11.11", "2.12.0", "2.12.8", "2.14.0", "2.14.6", "2.15.1"]
PATIENCE = 20.0


def fill(js: JetStream, name: str, first: int, count: int, size: int = 0) -> None:
    with js.async_publisher() as publisher:
        publisher.publish_many((f"{name}.a", b"%-*d" % (size, n)) for n in range(first, first + count))


def take(subscription: PushSubscription, count: int) -> list[int]:
    return [int(subscription.next_msg(timeout=PATIENCE).data) for _ in range(count)]


def workflow(url: str, *, v2: bool) -> None:
    """The whole of it once: a durable, a queue group, flow control, an ordered consumer that is harmed."""
    name = f"S{uuid4().hex[:12]}"
    events: list[Event] = []
    with connect(url, event_cb=events.append) as nc:
        js = nc.jetstream()
        js.create_stream(name, subjects=[f"{name}.>"], storage="memory")
        fill(js, name, 0, 100)
        with js.subscribe(f"{name}.*", durable="D") as durable:
            for n in range(100):
                message = durable.next_msg(timeout=PATIENCE)
                assert int(message.data) == n
                said = message.metadata
                assert (said.stream, said.consumer, said.sequence.stream) == (name, "D", n + 1)
                assert (said.account_hash is not None) == v2
                message.ack()
            with pytest.raises(DuplicateSubscriptionError):
                js.subscribe(f"{name}.*", durable="D")
        assert js.consumer_names(name) == []
        with js.subscribe(f"{name}.a", queue="Q") as one, js.subscribe(f"{name}.a", queue="Q") as other:
            assert one.consumer == other.consumer == "Q"
        large = {"ack_policy": "none", "flow_control": True, "idle_heartbeat": 1.0}
        fill(js, name, 100, 100, 60_000)
        with js.subscribe(f"{name}.a", deliver_policy="by_start_sequence", opt_start_seq=101, **large) as flowing:  # type: ignore[arg-type]
            assert take(flowing, 100) == list(range(100, 200))
        with js.subscribe(f"{name}.a", ordered=True, idle_heartbeat=0.2) as ordered:
            assert take(ordered, 200) == list(range(200))
            js.delete_consumer(name, ordered.consumer)
            fill(js, name, 200, 100)
            assert take(ordered, 100) == list(range(200, 300))
    assert 1 <= sum(isinstance(event, OrderedConsumerRecreated) for event in events) <= 3


@requirement(199, 207)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_workflow_on_a_release(server_for: Callable[..., NatsServer], version: str) -> None:
    workflow(server_for(version, config="").url, v2=False)


@requirement(208)
@promise("An application that consumes works the same with both versions.")
@known_fault("version 2 of the ack subjects kills the ordered consumer, and the connection with it")
@pytest.mark.parametrize("version", ["2.14.0", "2.15.1"])
def test_the_workflow_with_ack_subjects_of_version_2(server_for: Callable[..., NatsServer], version: str) -> None:
    workflow(server_for(version, config=servers.ACK_V2).url, v2=True)


@pytest.mark.slow
def test_a_durable_consumer_goes_on_when_its_leader_changes() -> None:
    with Cluster() as cluster, connect(cluster.urls, dont_randomize=True, timeout=PATIENCE) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["S.>"], num_replicas=3)
        fill(js, "S", 0, 50)
        with js.subscribe("S.a", durable="D", idle_heartbeat=0.5, ack_policy="all") as subscription:
            assert take(subscription, 50) == list(range(50))
            nc.request("$JS.API.CONSUMER.LEADER.STEPDOWN.S.D", timeout=PATIENCE)
            fill(js, "S", 50, 50)
            seen: list[int] = []
            while 99 not in seen:
                seen.append(int(subscription.next_msg(timeout=PATIENCE).data))
            assert sorted(set(seen) | set(range(50))) == list(range(100))


@promise("every message once and in order, as long as the stream holds it. What limits took is told")
@promise("every message once and in order, as long as the stream holds it until its turn")
@promise("each sequence must come once and in order")
@promise("ordered: every message once and in order")
@known_fault("an ordered consumer stalls, or makes one consumer after the other without end")
@pytest.mark.slow
def test_an_ordered_subscription_through_leader_changes_and_reconnects() -> None:
    outcome = run(3_000, leader_changes=3, reconnects=1)
    assert (outcome.messages, outcome.leader_changes) == (3_000, 3)
    assert outcome.recreated >= 1
