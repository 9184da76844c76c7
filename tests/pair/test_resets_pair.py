"""Both roles: consumers at work go on after a reset by somebody else."""

from __future__ import annotations

from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.server import Server
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from tests.marks import requirement
from tests.server.harness import config


def pair_with_messages() -> Pair:
    network = Network(1, NetworkConditions())
    pair = Pair(network=network, server=Server(token=TOKEN, bus=network.cluster))
    pair.server.add_stream(config(), 0.0)
    for number in range(1, 6):
        pair.server.publish("s.a", b"%d" % number)
    pair.connect()
    return pair


@requirement(178)
def test_a_pull_consumer_goes_on_after_a_reset() -> None:
    pair = pair_with_messages()
    info = pair.run_until(pair.js.create_consumer("S", ConsumerConfig(durable_name="C"), now=pair.now))
    consumer = pair.js.pull_consumer(info, JSMsg)

    def fetched(count: int) -> list[tuple[bytes, int]]:
        fetch = consumer.fetch(count, now=pair.now, expires=1.0)
        pair.run_until(fetch.done)
        return [(message.data, message.metadata.sequence.consumer) for message in consumer.take(fetch)]

    assert fetched(3) == [(b"1", 1), (b"2", 2), (b"3", 3)]
    reset = pair.run_until(pair.js.reset_consumer("S", "C", now=pair.now))
    assert (reset.reset_seq, reset.info.num_pending) == (1, 5)
    assert reset.stream_identity == pair.server.stream("S").identity
    assert fetched(2) == [(b"1", 1), (b"2", 2)]
    pair.run_until(pair.js.reset_consumer("S", "C", 4, now=pair.now))
    assert fetched(2) == [(b"4", 1), (b"5", 2)]


@requirement(178)
def test_a_push_consumer_goes_on_after_a_reset() -> None:
    pair = pair_with_messages()
    wanted = SubscriptionSpec("s.a", stream="S", durable="C")
    push = pair.run_until(pair.js.subscribe(wanted, now=pair.now, message_class=JSMsg))
    pair.advance(0.1)
    assert [message.data for message in push.pop_many(50, pair.now)] == [b"1", b"2", b"3", b"4", b"5"]
    pair.run_until(pair.js.reset_consumer("S", "C", 4, now=pair.now))
    pair.advance(0.1)
    assert [message.data for message in push.pop_many(50, pair.now)] == [b"4", b"5"]


@requirement(179)
def test_an_ordered_consumer_repeats_nothing_after_a_reset() -> None:
    pair = pair_with_messages()
    wanted = SubscriptionSpec("s.a", stream="S", options={"idle_heartbeat": 0.5})
    ordered = pair.run_until(pair.js.subscribe_ordered(wanted, now=pair.now, message_class=JSMsg))
    pair.advance(0.1)
    first = ordered.pop_many(50, pair.now)
    assert [message.data for message in first] == [b"1", b"2", b"3", b"4", b"5"]
    pair.run_until(pair.js.reset_consumer("S", first[0].metadata.consumer, 1, now=pair.now))
    pair.server.publish("s.a", b"6")
    pair.advance(5.0)
    assert [message.data for message in ordered.pop_many(50, pair.now)] == [b"6"]
