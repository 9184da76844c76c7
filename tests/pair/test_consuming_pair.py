"""Both roles consume: fetches with acknowledgements, and an ordered consumer, in bad conditions."""

from __future__ import annotations

from typing import Literal

import pytest

from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.errors import Error
from jsproto.events import StreamRecreated
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.server import Server
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from tests.effort import first
from tests.marks import known_fault, promise
from tests.server.harness import config

STORMY = NetworkConditions(latency=0.001, jitter=0.003, loss=0.05, duplication=0.05, reordering=0.05)
MESSAGES = 200


def stormy_pair(seed: int, ack_version: Literal[1, 2]) -> Pair:
    """A server with 200 messages in stream S, and a client; the storm begins once they are linked."""
    network = Network(seed, NetworkConditions())
    server = Server(token=TOKEN, bus=network.cluster, ack_version=ack_version)
    pair = Pair(network=network, server=server)
    server.add_stream(config(), 0.0)
    for number in range(MESSAGES):
        server.publish("s.a", b"%d" % number)
    pair.connect()
    network.cluster.conditions = STORMY
    return pair


@promise("every message at least once, until it is acknowledged or `max_deliver` is reached")
@promise("every message at least once: again and again until it is acknowledged")
@pytest.mark.parametrize("ack_version", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_fetching_and_acknowledging_loses_nothing(seed: int, ack_version: Literal[1, 2]) -> None:
    pair = stormy_pair(seed, ack_version)
    wanted = ConsumerConfig.from_options(durable_name="C", ack_wait=2.0)
    info = pair.run_until(pair.js.create_consumer("S", wanted, now=pair.now))
    consumer = pair.js.pull_consumer(info, JSMsg)
    payloads: set[bytes] = set()
    found = pair.server.api.consumers.find("S", "C")
    for _ in range(300):
        fetch = consumer.fetch(20, now=pair.now, expires=1.0)
        try:
            pair.run_until(fetch.done)
        except Error:
            continue
        for message in consumer.take(fetch):
            payloads.add(message.data)
            message.ack()
        pair.advance(0.01)
        state = found.info(pair.now)
        if not state.num_pending + state.num_ack_pending:
            break
    assert payloads == {b"%d" % number for number in range(MESSAGES)}
    assert found.info(pair.now).ack_floor.stream_seq == MESSAGES


@promise("every message once and in order, as long as the stream holds it. What limits took is told")
@promise("every message once and in order, as long as the stream holds it until its turn")
@promise("Read what ``wanted`` names once and in order.")
@known_fault("version 2 of the ack subjects kills the ordered consumer, and the connection with it")
@pytest.mark.parametrize("ack_version", [1, 2])
@pytest.mark.parametrize("seed", first(range(3), 1))
def test_an_ordered_consumer_reads_each_message_once_and_in_order(seed: int, ack_version: Literal[1, 2]) -> None:
    pair = stormy_pair(seed, ack_version)
    wanted = SubscriptionSpec("s.a", stream="S", options={"idle_heartbeat": 0.5})
    ordered = pair.run_until(pair.js.subscribe_ordered(wanted, now=pair.now, message_class=JSMsg))
    read: list[bytes] = []
    for step in range(1_000):
        if step == 20:
            pair.lose_link()
        read += [message.data for message in ordered.pop_many(50, pair.now)]
        if len(read) == MESSAGES:
            break
        pair.advance(0.25)
    assert read == [b"%d" % number for number in range(MESSAGES)]
    assert pair.network.cluster.lost > 0


@promise("A stream that was deleted and created again is read from its first message (event `StreamRecreated`)")
@pytest.mark.parametrize("ack_version", [1, 2])
@pytest.mark.parametrize("count", first([MESSAGES + 50, 0, 5, MESSAGES], 2))
def test_an_ordered_consumer_reads_a_stream_that_is_made_again(count: int, ack_version: Literal[1, 2]) -> None:
    pair = stormy_pair(1, ack_version)
    wanted = SubscriptionSpec("s.a", stream="S", options={"idle_heartbeat": 0.5})
    pair.network.cluster.conditions = NetworkConditions()
    ordered = pair.run_until(pair.js.subscribe_ordered(wanted, now=pair.now, message_class=JSMsg))
    pair.run_until(pair.client.ping(pair.now))  # nothing is asked any more
    pair.network.cluster.conditions = STORMY
    read: list[bytes] = []
    for _ in range(1_000):
        read += [message.data for message in ordered.pop_many(50, pair.now)]
        if len(read) >= MESSAGES // 2:
            break
        pair.advance(0.25)
    assert read == [b"%d" % number for number in range(len(read))]
    pair.network.cluster.conditions = NetworkConditions()
    pair.run_until(pair.js.delete_stream("S", now=pair.now))
    pair.run_until(pair.js.create_stream(config(), now=pair.now))
    for number in range(count):
        pair.server.publish("s.a", b"again %d" % number)
    pair.network.cluster.conditions = STORMY
    again: list[bytes] = []
    for _ in range(1_000):
        taken = [message.data for message in ordered.pop_many(50, pair.now)]
        again += [data for data in taken if data.startswith(b"again")]
        if [event for event in pair.events if isinstance(event, StreamRecreated)] and len(again) >= count:
            break
        pair.advance(0.25)
    assert again == [b"again %d" % number for number in range(count)]
    assert ordered.error is None
