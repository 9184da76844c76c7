"""A world: links that break, are held and come too late, a server that ends, and the same again for the same list."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import LocalProtocolError
from jsproto.grammar.config import StreamConfig
from jsproto.server.server import Server
from jsproto.testing import world as worlds
from jsproto.testing.faults import Fault, FaultKind, random_faults
from jsproto.testing.network import NetworkConditions, Pipe, SplitMix64
from jsproto.testing.world import Link, StuckError, World
from jsproto.wire.encoder import PING, encode_connect, encode_pub, encode_sub

HELLO = encode_connect(b'{"verbose":false,"headers":true,"no_responders":true}')
FAR = NetworkConditions(latency=0.1)
NEVER = float("inf")


def world(*faults: Fault, conditions: NetworkConditions = FAR, seed: int = 1, **options: Any) -> World:
    made = World(seed, conditions, faults, **options)
    made.server.add_stream(StreamConfig("S", subjects=["s.>"], storage="file", num_replicas=1), 0.0)
    return made


def dialed(where: World, host: str = "") -> Link:
    link = where.dial(host)
    assert link is not None
    link.send(HELLO)
    return link


def text(link: Link) -> bytes:
    """What arrived, without INFO."""
    arrived = b"".join(piece or b"<end>" for piece in link.received())
    return arrived.partition(b"\r\n")[2] if arrived.startswith(b"INFO") else arrived


def stored(where: World) -> list[bytes]:
    return [message.payload for message in where.server.stream("S")]


def test_several_clients_in_one_world() -> None:
    where = world()
    here, there = dialed(where), dialed(where)
    there.send(encode_sub(b"news", None, b"1") + PING)
    where.advance(0.5)
    assert text(there) == b"PONG\r\n"
    here.send(encode_pub(b"news", None, None, b"x"))
    where.advance(0.15)
    assert text(there) == b""
    where.advance(0.1)
    assert text(there) == b"MSG news 1 1\r\nx\r\n"
    assert [link.number for link in where.links] == [1, 2]


def test_what_a_server_has_to_say_is_due_at_once() -> None:
    where = world()
    link = dialed(where)
    assert (link.session, where.deadline()) == (None, where.now)  # it has not greeted
    where.run()
    assert where.deadline() != where.now


def test_the_ends_of_links() -> None:
    where = world()
    ended, aborted, refused = dialed(where), dialed(where), dialed(where)
    calls: list[str] = []
    ended.on_receive = lambda: calls.append("ended")
    aborted.on_receive = lambda: calls.append("aborted")
    where.advance(0.15)
    assert text(ended) == text(aborted) == b""
    ended.send(encode_pub(b"s.a", None, None, b"before the end"))
    ended.end()
    aborted.send(encode_pub(b"s.a", None, None, b"before"))
    aborted.abort()
    aborted.send(encode_pub(b"s.a", None, None, b"after"))
    aborted.end()
    refused.send(b"NONSENSE\r\n")
    where.advance(1.0)
    assert stored(where) == [b"before the end", b"before"]
    assert text(ended) == b"<end>"
    assert text(aborted) == b""
    assert text(refused).endswith(b"Unknown Protocol Operation'\r\n<end>")
    assert (where.links, where.server.sessions) == ([], [])
    assert calls == ["ended", "aborted", "ended"]
    where.break_link(ended)
    assert ended.error is None


def test_a_link_breaks_and_both_sides_see_it() -> None:
    where = world(Fault("cut", 1.0, link=2))
    here, there, third = dialed(where), dialed(where), dialed(where)
    woken: list[int] = []
    there.on_receive = lambda: woken.append(1)
    where.advance(0.95)
    there.send(encode_pub(b"s.a", None, None, b"under way"))
    here.send(encode_pub(b"s.a", None, None, b"arrives"))
    where.advance(0.2)
    assert (here.error, there.error, third.error) == (None, "the link broke", None)
    there.send(b"lost")
    there.end()
    assert stored(where) == [b"arrives"]
    assert len(where.server.sessions) == 2
    assert len(woken) == 2  # INFO, and the break


def test_a_link_that_breaks_before_the_server_accepted_it() -> None:
    where = world(Fault("pause", 0.0, 5.0))
    link = dialed(where)
    where.run()
    where.break_link(link)
    where.advance(6.0)
    assert where.server.sessions == []


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_link_breaks_after_a_byte_when_what_was_before_has_arrived(direction: Any) -> None:
    message = encode_pub(b"s.a", None, None, b"x")
    ping = len(HELLO + message + PING)
    limit = {"up": ping, "down": 10_000}[direction]
    where = world(
        Fault("cut_after", link=1, byte=limit, direction=direction), Fault("cut_after", byte=99_999, direction="up")
    )
    link = dialed(where)
    if direction == "down":
        where.links[0].down.breaks_after = 3
    link.send(message + PING + message)
    where.advance(0.05)
    assert link.error is None
    where.advance(0.2)
    assert link.error == "the link broke"
    assert stored(where) == ([b"x"] if direction == "up" else [b"x", b"x"])
    assert link.received() == ([] if direction == "up" else [b"INF"])


def test_a_pipe_that_breaks() -> None:
    pipe = Pipe(NetworkConditions(latency=1.0), SplitMix64(1))
    pipe.breaks_after = 3
    pipe.send(b"ab", 0.0)
    pipe.send(b"cd", 0.5)
    pipe.send(b"ef", 0.7)
    assert (pipe.sent, pipe.is_broken(1.5)) == (3, False)
    assert pipe.arrived(1.5) == [b"ab", b"c"]
    assert pipe.deadline() == 1.5
    assert pipe.is_broken(1.5)
    pipe.is_held = True
    assert not pipe.is_broken(1.5)
    assert pipe.deadline() is None
    nothing = Pipe(NetworkConditions(), SplitMix64(1))
    nothing.breaks_after = 0
    nothing.send(b"x", 2.0)
    assert nothing.is_broken(2.0)


@pytest.mark.parametrize(
    ("direction", "held"), [("up", [False, True]), ("down", [True, False]), ("both", [False, False])]
)
def test_a_partition_holds_what_was_written(direction: Any, held: list[bool]) -> None:
    where = world(
        Fault("partition", 1.0, 2.0, direction=direction), Fault("partition", 1.5, 0.5, direction="up", link=7)
    )
    link = dialed(where)
    link.send(encode_sub(b"news", None, b"1"))
    where.advance(1.0)
    text(link)
    late = dialed(where)
    where.server.publish("news", b"x")
    link.send(encode_pub(b"s.a", None, None, b"x"))
    where.advance(1.0)
    assert [stored(where) == [b"x"], text(link) != b""] == held
    where.advance(1.5)
    assert stored(where) == [b"x"]
    assert late.session is not None
    assert b"INFO" in b"".join(piece or b"" for piece in late.received())


def test_a_server_that_pauses_does_nothing_and_takes_everything_later() -> None:
    where = world(Fault("pause", 1.0, 2.0))
    link = dialed(where)
    where.advance(1.0)
    text(link)
    link.send(PING)
    late = dialed(where)
    where.advance(1.9)
    assert (text(link), late.received(), late.session) == (b"", [], None)
    where.advance(0.4)
    assert text(link) == b"PONG\r\n"
    assert late.session is not None


def test_a_restart_refuses_dials_and_loses_what_was_in_memory() -> None:
    where = world(Fault("restart", 1.0, 1.0), Fault("crash", 1.5, 1.0))
    where.server.add_stream(StreamConfig("M", subjects=["m"], storage="memory"), 0.0)
    link = dialed(where)
    link.send(encode_pub(b"s.a", None, None, b"x"))
    where.advance(1.2)
    assert link.error
    assert where.dial("app") is None
    where.advance(1.0)
    assert where.dial() is None  # the other fault lasts
    where.advance(1.0)
    assert dialed(where, "app").number == 2
    assert stored(where) == [b"x"]
    assert list(where.server.api.streams) == ["S"]
    assert "app dials, and is refused" in where.timeline()


def test_a_crash_takes_what_was_not_written() -> None:
    where = World(faults=[Fault("crash", 2.0, amount=0.5)])
    where.server.add_stream(StreamConfig("S", subjects=["s.>"], storage="file", persist_mode="async"), 0.0)
    link = dialed(where)
    for payload in (b"1", b"2"):
        link.send(encode_pub(b"s.a", None, None, payload))
        where.advance(1.6)
    assert stored(where) == [b"1"]


def test_a_stream_without_a_leader() -> None:
    where = world(
        Fault("leaderless", 1.0, 1.0), Fault("leaderless", 1.0, 1.0, stream="GONE"), Fault("leaderless", 3.0, 2.0)
    )
    link = dialed(where)
    where.advance(1.5)
    assert where.server.leaderless == {"S"}
    link.send(encode_pub(b"s.a", None, None, b"x"))
    where.advance(1.0)
    assert where.server.leaderless == set()
    assert stored(where) == []
    where.advance(1.0)
    where.server.api.delete("S", where.now)
    where.advance(2.0)


def test_replicas_that_lag() -> None:
    where = World(
        faults=[Fault("lag", 1.0, 1.0, amount=9.0), Fault("lag", 1.5, 1.0, stream="S", amount=2.0), Fault("pause", 3.0)]
    )
    where.server.add_stream(StreamConfig("S", subjects=["s.>"], num_replicas=2, storage="file"), 0.0)
    (replica,) = where.server.replicas("S")
    seen: list[float] = []
    for _ in range(3):
        where.advance(0.7 if not seen else 1.0)
        where.advance(0.4)
        seen.append(replica.lag.seconds)
    assert seen == [9.0, 0.0, 0.0]
    again = World(faults=[Fault("lag", 1.0, 3.0, amount=9.0), Fault("lag", 1.5, 1.0, stream="S", amount=2.0)])
    again.server.add_stream(StreamConfig("S", subjects=["s.>"], num_replicas=2, storage="file"), 0.0)
    (replica,) = again.server.replicas("S")
    again.advance(2.0)
    assert replica.lag.seconds == 2.0
    again.advance(1.0)
    assert replica.lag.seconds == 9.0


def test_messages_are_lost_and_doubled_inside_the_cluster() -> None:
    faults = [
        Fault("loss", 0.0, 1.0, amount=1.0),
        Fault("duplication", 2.0, 1.0, amount=1.0),
        Fault("reordering", 9.0, 1.0),
    ]
    where = world(*faults, conditions=NetworkConditions())
    link = dialed(where)
    where.advance(0.5)
    for payload in (b"lost", b"doubled", b"once"):
        link.send(encode_pub(b"s.a", None, None, payload))
        where.advance(2.0)
    assert stored(where) == [b"doubled", b"doubled", b"once"]
    lossy = world(conditions=NetworkConditions(loss=0.5), seed=3)
    assert lossy.server._bus is lossy.network.cluster
    assert world().server._bus is None


def test_a_host_that_is_killed() -> None:
    where = world(Fault("kill", 1.0, 1.0, host="worker"), Fault("kill", 4.0, host="worker"))
    seen: list[tuple[str, bool]] = []
    worker, other = dialed(where, "worker"), dialed(where, "other")
    where.advance(0.5)
    worker.send(encode_pub(b"s.a", None, None, b"last words"))
    where.on_host = lambda host, is_up: seen.append((host, is_up))
    where.advance(1.0)
    assert seen == [("worker", False)]
    worker.send(encode_pub(b"s.a", None, None, b"of a ghost"))
    where.advance(3.0)
    assert seen == [("worker", False), ("worker", True), ("worker", False), ("worker", True)]
    assert stored(where) == [b"last words"]
    assert where.links == [other]
    where.on_host = None
    world(Fault("kill", 0.0, 1.0)).advance(2.0)


def test_a_host_that_is_killed_twice_starts_when_both_faults_have_ended() -> None:
    where = world(
        Fault("kill", 1.0, 1.0, host="worker"),
        Fault("kill", 1.5, 2.0, host="worker"),
        Fault("kill", 1, 9, host="other"),
    )
    seen: list[tuple[float, bool]] = []
    where.on_host = lambda host, is_up: seen.append((where.now, is_up)) if host == "worker" else None
    where.advance(5.0)
    assert seen == [(1.0, False), (1.5, False), (3.5, True)]


def test_healing_ends_everything() -> None:
    where = world(
        Fault("pause", 1.0, NEVER), Fault("cut_after", byte=9_000, direction="up"), Fault("restart", 5.0, 2.0),
        Fault("kill", 0.5, NEVER, host="a"),
    )  # fmt: skip
    assert where.healed_at == 7.0
    link = dialed(where)
    where.advance(2.0)
    assert link.received() != []
    link.send(PING)
    where.heal()
    where.advance(10.0)
    assert text(link) == b"PONG\r\n"
    assert link.up.breaks_after is None
    assert where.healed_at == where.now
    assert where.deadline() is not None


def test_nothing_is_due_in_a_world_without_links() -> None:
    where = World(faults=[Fault("pause", 1.0, NEVER)])
    assert where.deadline() == 1.0
    where.advance(3.0)
    assert where.deadline() is None


def test_the_same_list_gives_the_same_bytes_at_the_same_times() -> None:
    def digest(seed: int, *faults: Fault) -> str:
        where = world(*faults, seed=seed, conditions=NetworkConditions(latency=0.01, jitter=0.05, piece=40))
        links = [dialed(where), dialed(where)]
        for number in range(20):
            links[number % 2].send(encode_pub(b"s.a", None, None, b"%d" % number))
            where.advance(0.01)
        where.advance(10.0)
        return where.digest

    assert digest(1) == digest(1) != digest(2)
    assert digest(1, Fault("cut", 0.1)) == digest(1, Fault("cut", 0.1)) != digest(1)


def test_leaving_out_a_fault_moves_nothing_on_other_links() -> None:
    def arrivals(*faults: Fault) -> list[tuple[float, bytes]]:
        where = world(*faults, conditions=NetworkConditions(jitter=0.5, piece=10))
        links = [dialed(where), dialed(where)]
        for number in range(20):
            for link in links:
                link.send(encode_pub(b"s.a", None, None, b"%d" % number))
            where.advance(0.1)
        return [(entry.when, entry.data) for entry in where.log if (entry.link, entry.what) == (2, "up")]

    assert arrivals() == arrivals(Fault("cut", 0.5, link=1)) == arrivals(Fault("partition", 0.3, 0.5, link=1))


def test_the_log_says_what_happened() -> None:
    where = world(Fault("pause", 0.5, 0.5), Fault("cut", 1.5))
    dialed(where, "app")
    where.advance(2.0)
    lines = where.timeline().splitlines()
    assert lines[0] == "    0.000000  link 1 is dialed by app"
    assert any("link 1 -> " in line and "bytes: CONNECT" in line for line in lines)
    assert any("link 1 <- " in line and line.endswith("...") for line in lines)
    assert "    0.500000  Fault(kind='pause', at=0.5, lasts=0.5) begins" in lines
    assert lines[-2:] == ["    1.500000  Fault(kind='cut', at=1.5)", "    1.500000  link 1 breaks"]
    assert where.timeline(1) == lines[-1]
    dialed(where).end()
    where.advance(1.0)
    assert where.timeline().endswith("link 2 <- the end")


def test_a_moment_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "MAX_EXCHANGES", 3)
    where = world()
    where.server.deadline = lambda: 0.0  # type: ignore[method-assign]
    with pytest.raises(StuckError):
        where.run()


def test_a_server_of_the_callers() -> None:
    server = Server(token=b"t")
    assert World(server=server).server is server


# -- faults as data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "flood"}, {"kind": "cut", "at": -1.0}, {"kind": "pause", "lasts": float("nan")},
        {"kind": "cut_after", "byte": 3}, {"kind": "partition", "direction": "left"}, {"kind": "loss", "amount": 1.5},
    ],
)  # fmt: skip
def test_faults_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Fault(**wrong)


def test_a_fault_prints_as_what_makes_it() -> None:
    fault = Fault("cut_after", link=1, byte=1094, direction="up")
    assert repr(fault) == "Fault(kind='cut_after', link=1, byte=1094, direction='up')"
    assert eval(repr(fault)) == fault
    assert repr(NetworkConditions(latency=0.5)) == "NetworkConditions(latency=0.5)"


def test_random_faults_are_the_same_for_the_same_seed() -> None:
    few = [random_faults(seed) for seed in range(300)]
    assert few == [random_faults(seed) for seed in range(300)]
    assert {len(faults) for faults in few} == set(range(6))
    kinds = {fault.kind for faults in few for fault in faults}
    assert kinds == {"cut", "cut_after", "partition", "pause", "restart"}
    every = {
        fault.kind
        for seed in range(600)
        for fault in random_faults(
            seed, streams=["S"], replicated=["S"], hosts=["worker"], cluster=True, crashes=True, most=8
        )
    }
    assert every == set(FaultKind.__args__)  # type: ignore[attr-defined]
    for faults in few:
        assert faults == sorted(faults, key=lambda fault: fault.at)
        assert all(fault.at <= 2.0 and fault.lasts <= 4.0 and 1 <= fault.link <= 4 for fault in faults if fault.link)
