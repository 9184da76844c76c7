"""The network in memory: order, cuts, conditions, and the same again for the same seed."""

from __future__ import annotations

import pytest

from jsproto.errors import LocalProtocolError
from jsproto.server.server import RoutedMessage
from jsproto.testing.network import ClusterFaults, Network, NetworkConditions, Pipe, SplitMix64
from jsproto.wire.frames import Msg
from tests.marks import promise


def routed(number: int, to: str | None = "S") -> RoutedMessage:
    return RoutedMessage(to, Msg(b"s", b"", None, None, b"%d" % number))


def numbers(parcels: list[RoutedMessage]) -> list[int]:
    return [int(found.message.payload) for found in parcels]


@promise("Nothing sleeps: time is a number that moves from deadline to deadline")
@promise("The same seed gives the same bytes at the same times.")
def test_chance_is_spread_and_repeats_itself() -> None:
    one, another = SplitMix64(7), SplitMix64(7)
    fractions = [one.fraction() for _ in range(1000)]
    assert fractions == [another.fraction() for _ in range(1000)]
    assert fractions != [SplitMix64(8).fraction() for _ in range(1000)]
    assert 0 <= min(fractions) < 0.01 < 0.99 < max(fractions) < 1
    assert 0.45 < sum(fractions) / 1000 < 0.55
    assert sum(one.happens(0.25) for _ in range(1000)) in range(200, 300)


@pytest.mark.parametrize(
    "wrong", [{"latency": -1.0}, {"piece": -1}, {"delay": float("nan")}, {"loss": 1.5}, {"reordering": -0.1}]
)
def test_weather_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(LocalProtocolError):
        NetworkConditions(**wrong)  # type: ignore[arg-type]


def test_a_pipe_keeps_the_order_of_bytes_and_cuts_them() -> None:
    pipe = Pipe(NetworkConditions(latency=0.1, jitter=1.0, piece=7), SplitMix64(1))
    sent = bytes(range(250))
    for at in range(0, 250, 50):
        pipe.send(sent[at : at + 50], at / 100)
    pipe.send(b"", 2.5)
    pipe.end(2.5)
    assert (pipe.deadline() or 0) >= 0.1
    pieces: list[bytes | None] = []
    while (when := pipe.deadline()) is not None:
        pieces += pipe.arrived(when)
    assert pieces.pop() is None
    assert b"".join(piece or b"" for piece in pieces) == sent
    assert {len(piece or b"") for piece in pieces} == set(range(1, 8))


def test_a_pipe_that_does_not_cut() -> None:
    pipe = Pipe(NetworkConditions(), SplitMix64(1))
    pipe.send(b"x" * 10_000, 0.0)
    assert pipe.arrived(0.0) == [b"x" * 10_000]
    assert pipe.deadline() is None


def test_the_interior_in_good_weather_keeps_the_order() -> None:
    cluster = ClusterFaults(NetworkConditions(latency=0.1, jitter=0.5), SplitMix64(3))
    for number in range(50):
        cluster.carry(routed(number), 0.0)
    assert (cluster.deadline() or 0) >= 0.1
    assert numbers(cluster.arrived(0.6)) == list(range(50))
    assert (cluster.lost, cluster.doubled, cluster.overtaken, cluster.deadline()) == (0, 0, 0, None)


def test_the_interior_in_bad_weather() -> None:
    cluster = Network(3, NetworkConditions(loss=0.2, duplication=0.2, reordering=0.3)).cluster
    for number in range(200):
        cluster.carry(routed(number, None), number / 1000)
    arrived = numbers(cluster.arrived(1.0))
    assert len(set(arrived)) == 200 - cluster.lost < 200
    assert len(arrived) == 200 - cluster.lost + cluster.doubled > len(set(arrived))
    assert arrived != sorted(arrived)
    assert cluster.overtaken
    cluster.conditions = NetworkConditions()
    cluster.carry(routed(1), 1.0)
    assert numbers(cluster.arrived(1.0)) == [1]


def test_links_of_one_network_share_its_chance() -> None:
    up, down = Network(1, NetworkConditions(jitter=1.0)).link()
    up.send(b"x", 0.0)
    down.send(b"x", 0.0)
    assert up.deadline() != down.deadline()
