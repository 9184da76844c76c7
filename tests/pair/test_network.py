"""The network in memory: order, cuts, weather, and the same again for the same seed."""

from __future__ import annotations

import pytest

from jsproto.errors import LocalProtocolError
from jsproto.server.server import Parcel
from jsproto.testing.network import Chance, Interior, Network, Pipe, Weather
from jsproto.wire.frames import Msg


def parcel(number: int, to: str | None = "S") -> Parcel:
    return Parcel(to, Msg(b"s", b"", None, None, b"%d" % number))


def numbers(parcels: list[Parcel]) -> list[int]:
    return [int(found.message.payload) for found in parcels]


def test_chance_is_spread_and_repeats_itself() -> None:
    one, another = Chance(7), Chance(7)
    fractions = [one.fraction() for _ in range(1000)]
    assert fractions == [another.fraction() for _ in range(1000)]
    assert fractions != [Chance(8).fraction() for _ in range(1000)]
    assert 0 <= min(fractions) < 0.01 < 0.99 < max(fractions) < 1
    assert 0.45 < sum(fractions) / 1000 < 0.55
    assert sum(one.happens(0.25) for _ in range(1000)) in range(200, 300)


@pytest.mark.parametrize(
    "wrong", [{"latency": -1.0}, {"piece": -1}, {"delay": float("nan")}, {"loss": 1.5}, {"reordering": -0.1}]
)
def test_weather_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(LocalProtocolError):
        Weather(**wrong)  # type: ignore[arg-type]


def test_a_pipe_keeps_the_order_of_bytes_and_cuts_them() -> None:
    pipe = Pipe(Weather(latency=0.1, jitter=1.0, piece=7), Chance(1))
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
    pipe = Pipe(Weather(), Chance(1))
    pipe.send(b"x" * 10_000, 0.0)
    assert pipe.arrived(0.0) == [b"x" * 10_000]
    assert pipe.deadline() is None


def test_the_interior_in_good_weather_keeps_the_order() -> None:
    interior = Interior(Weather(latency=0.1, jitter=0.5), Chance(3))
    for number in range(50):
        interior.carry(parcel(number), 0.0)
    assert (interior.deadline() or 0) >= 0.1
    assert numbers(interior.arrived(0.6)) == list(range(50))
    assert (interior.lost, interior.doubled, interior.overtaken, interior.deadline()) == (0, 0, 0, None)


def test_the_interior_in_bad_weather() -> None:
    interior = Network(3, Weather(loss=0.2, duplication=0.2, reordering=0.3)).interior
    for number in range(200):
        interior.carry(parcel(number, None), number / 1000)
    arrived = numbers(interior.arrived(1.0))
    assert len(set(arrived)) == 200 - interior.lost < 200
    assert len(arrived) == 200 - interior.lost + interior.doubled > len(set(arrived))
    assert arrived != sorted(arrived)
    assert interior.overtaken
    interior.weather = Weather()
    interior.carry(parcel(1), 1.0)
    assert numbers(interior.arrived(1.0)) == [1]


def test_links_of_one_network_share_its_chance() -> None:
    up, down = Network(1, Weather(jitter=1.0)).link()
    up.send(b"x", 0.0)
    down.send(b"x", 0.0)
    assert up.deadline() != down.deadline()
