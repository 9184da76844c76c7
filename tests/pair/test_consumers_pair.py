"""Consumers of the server role over a network: in bad conditions, without a leader; the client sends plain messages."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.jsack import jsack_sequences
from jsproto.outbox import Conversation
from jsproto.server.server import Server
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from jsproto.wire.frames import Msg
from tests.marks import promise
from tests.server.harness import config

STORMY = NetworkConditions(latency=0.001, jitter=0.003, loss=0.1, duplication=0.05, reordering=0.1)


class Reader(Conversation):
    """Pulls, and acknowledges all that comes."""

    def __init__(self, pair: Pair, batch: int) -> None:
        self.pair = pair
        self.batch = batch
        self.seqs: list[int] = []
        self.statuses: list[bytes] = []
        pair.client.subscribe("in", self)

    def pull(self) -> None:
        body = json.dumps({"batch": self.batch, "expires": 1_000_000_000}).encode()
        self.pair.client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", body, b"in")
        self.pair.client.flush()

    def receive(self, message: Msg, now: float) -> None:
        if message.header is not None:
            self.statuses.append(message.header.partition(b"\r\n")[0])
        else:
            assert message.reply is not None
            self.seqs.append(jsack_sequences(message.reply)[0])
            self.pair.client.publish(message.reply.decode(), b"+ACK")
            self.pair.client.flush()


def pair_with(
    conditions: NetworkConditions,
    *,
    seed: int = 1,
    messages: int = 0,
    ack_version: Literal[1, 2] = 1,
    domain: str | None = None,
) -> Pair:
    network = Network(seed, NetworkConditions())
    server = Server(token=TOKEN, bus=network.cluster, domain=domain, ack_version=ack_version)
    pair = Pair(network=network, server=server)
    server.add_stream(config(), 0.0)
    for number in range(messages):
        server.publish("s.a", b"%d" % number)
    server.api.consumers.create("S", ConsumerConfig.from_options(durable_name="C", ack_wait=2.0), 0.0)
    pair.connect()
    network.cluster.conditions = conditions
    return pair


@promise("every message at least once, until it is acknowledged or `max_deliver` is reached")
@promise("every message at least once: again and again until it is acknowledged")
@pytest.mark.parametrize(("ack_version", "domain"), [(1, None), (2, None), (2, "hub")])
@pytest.mark.parametrize("seed", range(3))
def test_every_message_arrives_until_it_is_acknowledged(
    seed: int, ack_version: Literal[1, 2], domain: str | None
) -> None:
    pair = pair_with(STORMY, seed=seed, messages=100, ack_version=ack_version, domain=domain)
    reader = Reader(pair, 10)
    consumer = pair.server.api.consumers.find("S", "C")
    for _ in range(200):
        reader.pull()
        pair.advance(1.1)
        info = consumer.info(pair.now)
        if not info.num_pending + info.num_ack_pending:
            break
    assert set(reader.seqs) == set(range(1, 101))
    assert (consumer.info(pair.now).num_pending, consumer.info(pair.now).ack_floor.stream_seq) == (0, 100)
    assert pair.network.cluster.lost > 0


def test_a_consumer_without_a_leader_is_not_there() -> None:
    pair = pair_with(NetworkConditions(), messages=3)
    reader = Reader(pair, 9)
    reader.pull()
    pair.advance(0.5)
    assert reader.seqs == [1, 2, 3]
    pair.server.lose_leader("S")
    pair.advance(3.0)  # neither the request's end nor a redelivery
    reader.pull()
    pair.advance(0.5)
    assert reader.statuses == [b"NATS/1.0 503"]
    pair.server.elect_leader("S", pair.now)
    pair.advance(0.5)
    assert reader.statuses == [b"NATS/1.0 503", b"NATS/1.0 409 Leadership Change"]
    reader.pull()
    pair.advance(0.5)
    assert reader.seqs == [1, 2, 3]
    pair.server.publish("s.a", b"x")
    pair.advance(0.5)
    assert reader.seqs == [1, 2, 3, 4]


def test_what_is_under_way_to_a_consumer_that_is_gone_is_lost() -> None:
    pair = pair_with(NetworkConditions(latency=0.1), messages=1)
    reader = Reader(pair, 1)
    reader.pull()
    pair.exchange()
    assert pair.network.cluster.deadline() is not None
    pair.server.api.consumers.delete("S", "C", pair.now)
    pair.advance(1.0)
    assert (reader.seqs, reader.statuses) == ([], [])


def test_a_push_consumer_follows_who_listens() -> None:
    pair = pair_with(NetworkConditions(), messages=2)
    options = ConsumerConfig.from_options(durable_name="P", deliver_subject="in", ack_policy="none")
    consumer = pair.server.api.consumers.create("S", options, pair.now)
    pair.advance(1.0)
    assert not consumer.is_bound()
    reader = Reader(pair, 1)
    pair.advance(1.0)
    assert reader.seqs == [1, 2]
    pair.lose_link()
    pair.server.publish("s.a", b"x")
    pair.advance(10.0)
    assert reader.seqs == [1, 2, 3]
    pair.server.lose_leader("S")
    sid = pair.server.subscribe("elsewhere", reader)
    pair.server.unsubscribe(sid)
    pair.advance(1.0)
    assert consumer.info(pair.now).delivered.consumer_seq == 3
