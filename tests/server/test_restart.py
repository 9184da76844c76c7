"""What a restart of the server role takes, and what a crash takes from streams that are written late."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.server import Server


def store(server: Server, *payloads: bytes, now: float = 0.0) -> None:
    for payload in payloads:
        header = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % payload
        server.publish("s.a", payload, headers=header)
        server.handle_timeout(now)


def made(**options: Any) -> Server:
    server = Server(token=b"token")
    server.add_stream(StreamConfig("S", subjects=["s.>"], **({"storage": "file"} | options)), 0.0)
    return server


def payloads(server: Server) -> list[bytes]:
    return [stored.payload for stored in server.stream("S")]


def test_what_is_on_the_disk_stays() -> None:
    server = made()
    store(server, b"1", b"2")
    link = server.connect(0.0)
    before = server.server.server_id
    server.restart(1.0)
    assert link.wants_close
    assert server.sessions == []
    assert server.server.server_id != before
    assert payloads(server) == [b"1", b"2"]
    assert server.stream("S").duplicate_of(b"2", 1.0) == 2
    store(server, b"3", now=1.0)
    assert payloads(server) == [b"1", b"2", b"3"]


def test_what_is_in_memory_goes() -> None:
    server = made()
    server.add_stream(StreamConfig("M", subjects=["m"], storage="memory"), 0.0)
    create = server.api.consumers.create
    create("S", ConsumerConfig(durable_name="kept", name="kept"), 0.0)
    create("S", ConsumerConfig(durable_name="gone", name="gone", mem_storage=True), 0.0)
    store(server, b"1")
    server.publish("s.a", b"on its way")
    server.restart(1.0)
    server.handle_timeout(1.0)
    assert list(server.api.streams) == ["S"]
    assert list(server.api.streams["S"].consumers) == ["kept"]
    assert payloads(server) == [b"1"]
    assert server.leaderless == set()


@pytest.mark.parametrize(("delivered", "floor", "following"), [(3, 3, 2), (3, 0, 1), (1, 1, 2)])
def test_a_consumer_that_was_ahead_of_its_stream_takes_what_is_new(delivered: int, floor: int, following: int) -> None:
    server = made(persist_mode="async")
    options = ConsumerConfig(durable_name="C", deliver_subject="d", ack_policy="all")
    consumer = server.api.consumers.create("S", options, 0.0)
    store(server, b"1", now=1.0)
    store(server, b"2", b"3", now=2.0)
    for seq in range(1, delivered + 1):
        stored = server.stream("S").get(seq)
        assert stored is not None
        consumer._state.delivered(stored, 1, 2.0)
    if floor:
        consumer._state.acknowledge(floor, floor, 2.0)
    server.restart(3.0, unsynced_since=1.5)
    info = consumer.info(3.0)
    assert info.ack_floor.stream_seq == min(floor, 1)
    assert consumer._state.stream_seq + 1 == following


@pytest.mark.parametrize(("mode", "left"), [("async", [b"1"]), (None, [b"1", b"2", b"3"])])
def test_a_crash_takes_what_was_acknowledged_and_not_written(mode: Any, left: list[bytes]) -> None:
    server = made(persist_mode=mode)
    store(server, b"1", now=1.0)
    store(server, b"2", b"3", now=2.0)
    server.restart(3.0, unsynced_since=1.5)
    assert payloads(server) == left
    stream = server.stream("S")
    assert (stream.first_seq, stream.last_seq) == (1, len(left))
    last_ts = [stored.timestamp for stored in stream][-1]
    assert stream.state().last_ts == last_ts
    server.restart(3.0, unsynced_since=3.0)
    assert stream.state().last_ts == last_ts
    assert stream.duplicate_of(b"1", 3.0) == 1
    assert stream.duplicate_of(b"3", 3.0) == (None if mode else 3)
    store(server, b"3", now=3.0)
    assert [stored.seq for stored in stream] == ([1, 2] if mode else [1, 2, 3])
    assert payloads(server)[-1] == b"3"
    server.restart(4.0, unsynced_since=0.0)
    assert len(stream) == (0 if mode else 3)
    assert (stream.first_seq, stream.last_seq) == ((1, 0) if mode else (1, 3))
    assert (stream.state().last_ts is None) is (mode is not None)


def test_a_consumer_without_a_leader_subscribes_to_nothing() -> None:
    server = made()
    server.api.consumers.create("S", ConsumerConfig(durable_name="C", name="C"), 0.0)
    next_message = "$JS.API.CONSUMER.MSG.NEXT.S.C"
    assert server.is_subscribed(next_message)
    server.lose_leader("S")
    assert not server.is_subscribed(next_message)
    server.elect_leader("S", 1.0)
    assert server.is_subscribed(next_message)


@pytest.mark.parametrize("unsynced_since", [None, 5.0])
def test_the_id_of_a_message_that_was_overwritten_is_forgotten(unsynced_since: float | None) -> None:
    """Seen on a real server, after SIGTERM and after SIGKILL."""
    server = made(max_msgs_per_subject=1)
    store(server, b"1", b"2")
    assert (server.stream("S").duplicate_of(b"1", 1.0), server.stream("S").last_msg_id) == (1, b"2")
    server.restart(1.0, unsynced_since=unsynced_since)
    assert (server.stream("S").duplicate_of(b"1", 1.0), server.stream("S").duplicate_of(b"2", 1.0)) == (None, 2)
    assert server.stream("S").last_msg_id == b"2"
    store(server, b"1", now=1.0)
    assert payloads(server) == [b"1"]
    assert server.stream("S").last_seq == 3


def test_a_last_message_that_was_deleted_has_no_id_after_a_restart() -> None:
    server = made()
    store(server, b"1", b"2")
    server.stream("S").remove(2)
    assert server.stream("S").last_msg_id == b"2"
    server.restart(1.0)
    assert server.stream("S").last_msg_id == b""
    assert (server.stream("S").duplicate_of(b"1", 1.0), server.stream("S").duplicate_of(b"2", 1.0)) == (1, None)
    window = server.stream("S").config.duplicate_window or 0
    assert server.stream("S").duplicate_of(b"1", window + 0.1) is None
