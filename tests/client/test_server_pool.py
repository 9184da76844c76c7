"""The dialling plan: who is next, and when."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.server_pool import MAX_NAMED, ServerPool
from jsproto.wire.encoder import PONG, encode_info
from tests.harness import INFO, Harness
from tests.marks import promise


def plan(servers: str = "a,b,c", seed: int = 1, **options: Any) -> ServerPool:
    options.setdefault("max_reconnect_attempts", 60)
    options.setdefault("dont_randomize", True)
    return ServerPool(connect_options(servers, **options), seed)


def host(dialler: ServerPool) -> str | None:
    return None if dialler.address is None else dialler.address.host


def test_the_first_time_every_address_is_tried_once() -> None:
    dialler = plan()
    tried = []
    while not dialler.gave_up:
        tried.append(host(dialler))
        dialler.failed("refused", 0.0)
    assert tried == ["a", "b", "c"]
    assert [url for url, _ in dialler.attempts] == ["nats://a:4222", "nats://b:4222", "nats://c:4222"]


def test_after_a_loss_the_others_go_first_then_there_is_a_pause() -> None:
    dialler = plan(reconnect_time_wait=8.0)
    dialler.dialled()
    assert not dialler.address
    dialler.connected(0.0)
    dialler.lost(0.0)
    tried = []
    for _ in range(3):
        tried.append(host(dialler))
        dialler.failed("refused", 100.0)
    assert tried == ["b", "c", "a"]
    again_at = dialler.deadline()
    assert again_at is not None
    assert 108.0 <= again_at < 108.1
    dialler.handle_timeout(again_at - 0.1)
    assert dialler.address is None
    assert not dialler.gave_up
    dialler.handle_timeout(again_at)
    assert host(dialler) == "b"
    dialler.dialled()
    dialler.connected(0.0)
    assert list(dialler.attempts) == []


@promise("It makes 60 attempts in a row at each server.")
@promise("0 attempts mean none, -1 means for ever.")
@promise("After a lost link the servers are dialled again")
@given(st.integers(0, 20), st.integers(1, 5))
def test_attempts_in_a_row_are_limited(limit: int, servers: int) -> None:
    dialler = plan(",".join(f"h{n}" for n in range(servers)), max_reconnect_attempts=limit)
    dialler.connected(0.0)
    dialler.lost(0.0)
    failures = 0
    while not dialler.gave_up:
        deadline = dialler.deadline()
        if deadline is not None:
            dialler.handle_timeout(deadline)
        dialler.failed("refused", 0.0)
        failures += 1
    assert failures == limit * servers


@promise("It makes 60 attempts in a row at each server.")
@promise("A pause of ``reconnect_time_wait`` follows when all have been tried")
@pytest.mark.parametrize("servers", ["a", "a,b,c"])
def test_links_that_do_not_last_are_followed_by_pauses(servers: str) -> None:
    dialler = plan(servers, reconnect_time_wait=8.0, max_reconnect_attempts=2)
    now = 100.0
    paused = []
    for _ in range(10):
        dialler.connected(now)
        now += 7.9
        dialler.lost(now)
        assert not dialler.gave_up  # each of them was a link
        paused.append(dialler.address is None)
        deadline = dialler.deadline()
        if deadline is not None:
            assert 8.0 <= deadline - now < 8.1 + 1e-9
            now = deadline
            dialler.handle_timeout(now)
        assert dialler.address is not None
    at_once = len(servers.split(","))
    assert paused == [False] * at_once + [True] * (10 - at_once)
    dialler.connected(now)
    dialler.lost(now + 8.0)
    assert dialler.address is not None


@promise("0 attempts mean none, -1 means for ever.")
def test_for_ever() -> None:
    dialler = plan("a", max_reconnect_attempts=-1)
    dialler.connected(0.0)
    dialler.lost(0.0)
    for _ in range(500):
        dialler.failed("refused", 0.0)
        dialler.handle_timeout(1e9)
        assert host(dialler) == "a"
    assert len(dialler.attempts) < 100


def test_different_clients_pause_differently() -> None:
    pauses = set()
    for seed in range(20):
        dialler = plan("a", seed)
        dialler.connected(0.0)
        dialler.lost(0.0)
        dialler.failed("refused", 0.0)
        pauses.add(dialler.deadline())
    assert len(pauses) > 15


def test_servers_tell_of_others() -> None:
    dialler = plan("nats://user:pw@a:1")
    dialler.learn(
        ["b:2", "a:1", "not a server:x", "b:2", "[::1]:3", "c\r\nd:4", "c\td:4", "c\0d:4", "c:4\r\n", "\nc:4"],
        leaving=False,
    )
    assert [(address.host, address.port) for address in dialler._pool] == [("a", 1), ("b", 2), ("::1", 3)]
    dialler.connected(0.0)
    dialler.lost(0.0)
    assert dialler.address is not None
    assert (dialler.address.host, dialler.address.port, dialler.address.user) == ("b", 2, "user")


@promise("It makes 60 attempts in a row at each server.")
@promise("After a lost link the servers are dialled again")
@promise("A pause of ``reconnect_time_wait`` follows when all have been tried")
def test_by_default_sixty_attempts_and_two_seconds() -> None:
    dialler = ServerPool(connect_options("a"), 1)
    dialler.connected(0.0)
    dialler.lost(100.0)
    now, attempts = 100.0, 0
    while not dialler.gave_up:
        deadline = dialler.deadline()
        if deadline is not None:
            assert 2.0 <= deadline - now < 2.1 + 1e-9
            now = deadline
            dialler.handle_timeout(now)
        dialler.failed("refused", now)
        attempts += 1
    assert attempts == 60


# -- order and jitter --------------------------------------------------------------------------------------------------


def tried(dialler: ServerPool) -> str:
    """The hosts of the first round, in their order."""
    hosts = ""
    while not dialler.gave_up:
        hosts += str(host(dialler))
        dialler.failed("refused", 0.0)
    return hosts


def test_the_order_is_random_and_that_of_a_seed_always_the_same() -> None:
    seeds = [Random(number).getrandbits(64) for number in range(2_000)]
    orders = [tried(plan("a,b,c,d", seed, dont_randomize=False)) for seed in seeds]
    assert all(sorted(order) == list("abcd") for order in orders)
    assert len(set(orders)) == 24
    for at in range(4):
        counts = [sum(order[at] == letter for order in orders) for letter in "abcd"]
        assert min(counts) > 400, counts
    assert orders[:50] == [tried(plan("a,b,c,d", seed, dont_randomize=False)) for seed in seeds[:50]]
    assert {tried(plan("a,b,c,d", seed)) for seed in range(50)} == {"abcd"}


def test_servers_that_are_named_come_after_the_given_ones_in_random_order() -> None:
    orders = set()
    for number in range(100):
        dialler = plan("a,b", Random(number).getrandbits(64), dont_randomize=False)
        dialler.learn(["c", "d", "e"], leaving=False)
        hosts = [address.host for address in dialler._pool]
        assert sorted(hosts[:2]) == ["a", "b"]
        orders.add("".join(hosts[2:]))
    assert len(orders) == 6


@pytest.mark.parametrize(
    ("servers", "options", "most"),
    [
        ("a", {}, 0.1),
        ("a", {"tls": True}, 1.0),
        ("a,tls://b", {}, 1.0),
        ("a", {"tls": False}, 0.1),
        ("a", {"reconnect_jitter": 5}, 5.0),
        ("tls://a", {"reconnect_jitter_tls": 7}, 7.0),
    ],
)
def test_jitter_makes_pauses_longer(servers: str, options: dict[str, Any], most: float) -> None:
    pauses = []
    for number in range(200):
        dialler = plan(servers, Random(number).getrandbits(64), reconnect_time_wait=3.0, **options)
        dialler.connected(0.0)
        dialler.lost(100.0)
        while dialler.deadline() is None:
            dialler.failed("refused", 100.0)
        pauses.append((dialler.deadline() or 0.0) - 103.0)
        assert 0 <= dialler.spread() < 3.0 + most
    assert min(pauses) >= -1e-9
    assert 0.9 * most < max(pauses) < most + 1e-9


def test_without_jitter_pauses_are_as_long_as_they_should_be() -> None:
    dialler = plan("a", reconnect_jitter=0, reconnect_time_wait=3.0)
    dialler.connected(0.0)
    dialler.lost(100.0)
    dialler.failed("refused", 100.0)
    assert dialler.deadline() == 103.0


# -- the first connection ----------------------------------------------------------------------------------------------


@promise("`connect` waits for a server, with the same attempts and pauses")
@pytest.mark.parametrize(("attempts", "made"), [(1, 3), (3, 9), (7, 21)])
def test_the_first_connection_is_tried_again(attempts: int, made: int) -> None:
    dialler = plan(
        retry_on_first_connect=True, max_reconnect_attempts=attempts, reconnect_jitter=0, reconnect_time_wait=8.0
    )
    hosts, now = "", 100.0
    while not dialler.gave_up:
        hosts += str(host(dialler))
        dialler.failed("refused", now)
        if (deadline := dialler.deadline()) is not None:
            assert deadline == now + 8.0
            now = deadline
            assert not dialler.handle_timeout(now)
    assert hosts == ("abc" * 7)[:made]
    assert not dialler.refused


def test_the_time_for_the_first_connection_is_bounded() -> None:
    options: dict[str, Any] = {
        "retry_on_first_connect": True, "max_reconnect_attempts": -1, "first_connect_timeout": 30, "reconnect_jitter": 0
    }  # fmt: skip
    dialler = plan("a", **options)
    assert not dialler.handle_timeout(100.0)
    assert dialler.deadline() == 130.0
    dialler.failed("refused", 129.0)
    assert dialler.deadline() == 130.0
    assert dialler.handle_timeout(130.0)
    assert list(dialler.attempts)[-1] == ("nats://a:4222", "the time for the first connection is over")
    late = plan("a", **options)  # nobody said when it began
    late.failed("refused", 100.0)
    late.handle_timeout(102.0)
    assert late.deadline() == 130.0
    late.connected(129.0)
    assert late.deadline() is None
    assert not late.handle_timeout(200.0)
    late.lost(200.0)
    late.failed("refused", 200.0)
    assert late.deadline() == 202.0


def test_who_is_refused_twice_gives_up_the_first_connection() -> None:
    dialler = plan("a,b", retry_on_first_connect=True, max_reconnect_attempts=-1)
    dialler.failed("refused", 0.0, refused=True)
    dialler.failed("down", 0.0)
    dialler.handle_timeout(1e9)
    assert host(dialler) == "a"
    dialler.failed("refused", 0.0, refused=True)
    assert dialler.gave_up
    assert dialler.refused


# -- leaving a link ----------------------------------------------------------------------------------------------------


def test_a_link_that_is_left_is_followed_by_no_pause() -> None:
    dialler = plan("a,b", reconnect_time_wait=8.0)
    for _ in range(10):
        dialler.connected(0.0)
        dialler.lost(0.1, left=True)
        assert dialler.address is not None
    dialler.connected(0.0)
    dialler.lost(0.1)
    assert dialler.address is not None


def test_a_pause_can_be_ended() -> None:
    dialler = plan("a")
    dialler.hurry()
    assert host(dialler) == "a"
    dialler.connected(0.0)
    dialler.lost(100.0)
    dialler.failed("refused", 100.0)
    assert dialler.address is None
    dialler.hurry()
    assert host(dialler) == "a"
    assert dialler.deadline() is None


# -- servers that come and go ------------------------------------------------------------------------------------------


def hosts_of(dialler: ServerPool) -> str:
    return "".join(address.host for address in dialler._pool)


@promise("Servers that a cluster announces are dialled after the given ones")
def test_what_is_no_longer_named_is_forgotten_but_not_what_was_given_or_is_in_use() -> None:
    dialler = plan("a,b")
    dialler.dialled()
    dialler.learn(["c", "d"], leaving=False)
    dialler.connected(0.0)
    assert hosts_of(dialler) == "abcd"
    dialler.lost(0.0, left=True)
    dialler.failed("refused", 0.0)
    assert host(dialler) == "c"
    dialler.dialled()
    dialler.connected(0.0)
    dialler.learn(["e", "a"], leaving=False)
    assert hosts_of(dialler) == "cabe"  # c is in use
    dialler.learn([], leaving=False)  # a server that tells of no others
    dialler.learn(["not a server:x"], leaving=False)
    assert hosts_of(dialler) == "cabe"
    dialler.lost(0.0)
    assert host(dialler) == "a"
    dialler.dialled()
    dialler.learn(["e", "a"], leaving=False)
    assert hosts_of(dialler) == "abe"


def test_however_many_are_named_the_latest_are_known() -> None:
    dialler = plan("a,b")
    for round in range(3):
        dialler.learn([f"h{round}-{n}:1" for n in range(1_000)], leaving=False)
        assert len(dialler._pool) == 2 + MAX_NAMED
        assert {address.host.split("-")[0] for address in dialler._pool} == {"a", "b", f"h{round}"}


def test_named_servers_can_be_ignored() -> None:
    dialler = plan("a,b", ignore_discovered_servers=True)
    dialler.dialled()
    dialler.learn(["c"], leaving=False)
    assert hosts_of(dialler) == "ab"
    assert dialler.has_others


@pytest.mark.parametrize(
    ("servers", "named", "last", "others"),
    [
        ("a", [], [], False),
        ("a", ["a"], [], False),
        ("a", ["10.0.0.1"], [], False),  # which is a itself, by its number
        ("a", ["10.0.0.1", "10.0.0.2"], ["10.0.0.2"], True),
        ("a", [], ["b"], True),
        ("a,b", [], [], True),  # nobody knows: b may live
        ("a,b", ["a"], [], False),  # b is not in the cluster of a any more
        ("a,b", ["a", "b"], ["b"], True),
    ],
)
def test_whether_there_are_other_servers(servers: str, named: list[str], last: list[str], others: bool) -> None:
    dialler = plan(servers)
    dialler.dialled()
    dialler.learn(named, leaving=False)
    dialler.connected(0.0)
    dialler.learn(last, leaving=True)
    assert dialler.has_others is others


def test_what_the_last_server_said_does_not_hold_for_the_next() -> None:
    dialler = plan("a,b")
    dialler.dialled()
    dialler.learn(["a"], leaving=False)
    dialler.connected(0.0)
    assert not dialler.has_others
    dialler.lost(100.0)
    dialler.dialled()
    dialler.connected(100.0)
    assert dialler.has_others


INFOS = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=8)


@promise("Servers that a cluster announces are dialled after the given ones")
@promise("After a lost link the servers are dialled again")
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**32 - 1), st.booleans(), st.booleans(),
    st.lists(st.tuples(INFOS, st.sets(st.integers(0, 9))), max_size=12),
)  # fmt: skip
def test_whoever_lives_is_dialled_before_it_gives_up(
    given: int, most: int, seed: int, keeps_order: bool, ignores: bool, links: list[tuple[list[list[int]], set[int]]]
) -> None:
    """Any sequence of INFOs on each link, and any servers that live when it is lost."""
    dialler = plan(
        ",".join(f"h{n}" for n in range(given)), seed, max_reconnect_attempts=most, dont_randomize=keeps_order,
        ignore_discovered_servers=ignores,
    )  # fmt: skip
    now, known = 0.0, {*range(given)}
    for infos, alive in links:
        in_use = int((host(dialler) or "")[1:])
        dialler.dialled()
        for named in infos:
            dialler.learn([f"h{n}" for n in named], leaving=False)
        dialler.connected(now)
        said = [named for named in infos if named]
        if said and not ignores:
            known = {*range(given), in_use, *said[-1]}
        assert {address.host for address in dialler._pool} == {f"h{n}" for n in known}
        now += 1_000.0
        dialler.lost(now)
        tried: list[int] = []
        while not dialler.gave_up and int((host(dialler) or "h-1")[1:]) not in alive:
            if dialler.address is None:
                now = dialler.deadline() or now
                dialler.handle_timeout(now)
                continue
            tried.append(int(dialler.address.host[1:]))
            dialler.failed("down", now)
        assert len(set(tried)) <= len(known)
        if dialler.gave_up:
            assert not known & alive
            assert sorted(tried) == sorted(most * list(known))
            return
        assert len(tried) == len(set(tried))  # none twice, before one that lives


@promise("Servers that a cluster announces are dialled after the given ones")
def test_rolling_restarts() -> None:
    """Each round takes the three servers away, one after the other, and brings three with other addresses."""
    harness = Harness(servers="nats.internal", max_reconnect_attempts=60, dont_randomize=True, connected=False)
    session = harness.session
    alive = [f"10.0.0.{k}:4222" for k in range(3)]

    def announce() -> None:
        harness.feed(encode_info(json.dumps({**INFO, "connect_urls": alive}).encode()))

    def link() -> None:
        session.connection_made(harness.now)
        announce()
        harness.feed(PONG)

    link()
    for number in range(1, 30):
        for k in range(3):
            alive[k] = f"10.0.{number}.{k}:4222"
            announce()
        harness.now += 600.0
        session.receive_eof(harness.now)
        address = session.connect_to
        assert address is not None
        if address.host == "nats.internal":
            session.connection_failed("no such pod", harness.now)
            address = session.connect_to
        assert address is not None
        assert f"{address.host}:{address.port}" in alive
        link()
        assert len(session._server_pool._pool) <= 4
