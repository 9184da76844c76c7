"""The dialling plan: who is next, and when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.connection.options import connect_options
from jsproto.client.connection.server_pool import JITTER, MAX_ADDRESSES, ServerPool


def plan(servers: str = "a,b,c", seed: int = 1, **options: Any) -> ServerPool:
    options.setdefault("max_reconnect_attempts", 60)
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
    assert abs(again_at - 108.0) <= 8.0 * JITTER
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
            assert abs(deadline - now - 8.0) <= 8.0 * JITTER
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
            assert abs(deadline - now - 2.0) <= 2.0 * JITTER
            now = deadline
            dialler.handle_timeout(now)
        dialler.failed("refused", now)
        attempts += 1
    assert attempts == 60
