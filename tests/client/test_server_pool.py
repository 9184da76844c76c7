"""The dialling plan: who is next, and when."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.connection.options import connect_options
from jsproto.client.connection.server_pool import MAX_ADDRESSES, ServerPool


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
    assert failures == limit


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
        ["b:2", "a:1", "not a server:x", "b:2", "[::1]:3", "c\r\nd:4", "c\td:4", "c\0d:4", "c:4\r\n", "\nc:4"]
    )
    assert [(address.host, address.port) for address in dialler._pool] == [("a", 1), ("b", 2), ("::1", 3)]
    dialler.connected(0.0)
    dialler.lost(0.0)
    assert dialler.address is not None
    assert (dialler.address.host, dialler.address.port, dialler.address.user) == ("b", 2, "user")
    dialler.learn([f"h{n}:1" for n in range(1_000)])
    assert len(dialler._pool) == MAX_ADDRESSES


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
        dialler.learn(["c", "d", "e"])
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


@pytest.mark.parametrize(("attempts", "made"), [(1, 3), (3, 3), (7, 7)])
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
    assert hosts == ("abc" * 3)[:made]  # each server once, at least
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


def test_whether_there_are_other_servers() -> None:
    dialler = plan("a")
    assert not dialler.has_others
    dialler.learn(["a:4222"])
    assert not dialler.has_others
    dialler.learn(["b:4222"])
    assert dialler.has_others
