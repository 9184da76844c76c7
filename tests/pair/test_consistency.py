"""Sessions against the server role, with replicas and mirrors that lag: stale reads at will, and none in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.consume.message import JSMsg
from jsproto.client.read.consistent_session import ConsistentSession
from jsproto.errors import (
    MessageNotFoundError,
    StaleReadError,
    StreamRecreatedError,
    StreamRolledBackError,
)
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.replication.replicas import Lag
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from tests.effort import first
from tests.marks import promise, requirement

ROUGH = NetworkConditions(latency=0.01, jitter=0.02, piece=50)
NEVER = float("inf")


def paired(seed: int = 1, **options: Any) -> Pair:
    pair = Pair(connect_options(), network=Network(seed, ROUGH))
    config = {"subjects": ["s.>"], "storage": "memory", "num_replicas": 3, "allow_direct": True, **options}
    pair.server.add_stream(StreamConfig("S", **config), 0.0)
    pair.connect()
    return pair


def read_all(pair: Pair, batch: Any) -> list[int]:
    found: list[int] = []
    while (messages := batch.pop_many(10, pair.now)) or not batch.finished:
        found += [message.seq for message in messages]
        if not messages and not batch.finished:
            pair.run_until(batch.readable())
    return found


@requirement(256)
@pytest.mark.parametrize("seed", first(range(5), 1))
@pytest.mark.parametrize(
    "lag", [Lag(messages=1), Lag(seconds=0.3), Lag(seconds=NEVER)], ids=["last", "late", "stopped"]
)
def test_write_then_read(seed: int, lag: Lag) -> None:
    pair = paired(seed)
    js, run = pair.js, pair.run_until
    run(js.publish("s.key", b"0", now=pair.now))
    for replica in pair.server.replicas("S"):
        replica.lag = lag
    session = js.consistent_session()
    stale = 0
    for number in range(1, 30):
        ack = run(session.publish("s.key", b"%d" % number, now=pair.now))
        stale += run(js.get_last_msg("S", "s.key", now=pair.now)).seq < ack.seq
        message = run(session.get_last_msg("S", "s.key", now=pair.now))
        assert (message.seq, message.data) == (ack.seq, b"%d" % number)
    assert stale


@requirement(256)
def test_what_a_lagging_replica_lacks() -> None:
    pair = paired()
    js, run = pair.js, pair.run_until
    for replica in pair.server.replicas("S"):
        replica.lag = Lag(seconds=NEVER)
    session = js.consistent_session()
    for number in range(10):
        run(session.publish(f"s.{number % 4}", b"x", now=pair.now))
    for _ in range(5):
        assert read_all(pair, session.get_batch("S", now=pair.now)) == [*range(1, 11)]
        assert read_all(pair, session.get_batch("S", subject="s.1", now=pair.now)) == [2, 6, 10]
        assert read_all(pair, session.get_last_msgs_for("S", ["s.*"], now=pair.now)) == [7, 8, 9, 10]
        assert run(session.get_msg("S", 10, now=pair.now)).seq == 10
        with pytest.raises(MessageNotFoundError):
            run(session.get_last_msg("S", "s.9", now=pair.now))


MIRROR = StreamConfig("M", storage="memory", allow_direct=True, mirror={"name": "S"})


@requirement(253)
@promise("another process goes on from there")
def test_a_token_goes_to_another_client_of_a_mirror() -> None:
    pair = paired(num_replicas=1)
    js, run = pair.js, pair.run_until
    run(js.create_stream(MIRROR, now=pair.now))
    pair.server.mirror("M").lag = Lag(seconds=NEVER)
    writer = js.consistent_session()
    ack = run(writer.publish("s.a", b"1", now=pair.now))
    reader = js.consistent_session(token=writer.token.to_bytes(), level="mirror", mirrors={"S": "M"})
    with pytest.raises(MessageNotFoundError):
        run(js.get_last_msg("M", "s.a", now=pair.now))
    assert run(reader.get_last_msg("S", "s.a", now=pair.now)).seq == ack.seq  # the origin's leader knows
    pair.server.mirror("M").lag = Lag()
    assert run(reader.get_last_msg("S", "s.a", now=pair.now)).seq == 1
    assert read_all(pair, reader.get_batch("S", level="direct", now=pair.now)) == [1]


def test_a_sequence_that_the_stream_never_had() -> None:
    pair = paired()
    session = pair.js.consistent_session(timeout=1.0)
    session.observe("S", 5)
    started = pair.now
    with pytest.raises(StaleReadError) as found:
        pair.run_until(session.get_last_msg("S", "s.a", now=pair.now))
    assert (found.value.wanted, found.value.found) == (5, 0)
    assert pair.now - started >= 1.0


def crashed(kept: int, lost: int, again: int) -> tuple[Pair, ConsistentSession]:
    """A session that read what a server lost in a crash. It gave the sequences out again."""
    pair = Pair(connect_options(reconnect_time_wait=0.1))
    config = StreamConfig("S", subjects=["s.>"], persist_mode="async", allow_direct=True)
    pair.server.add_stream(config, 0.0)
    pair.connect()
    session = pair.js.consistent_session(timeout=10.0)
    since = pair.now
    for number in range(kept + lost):
        pair.advance(0.01)
        since = pair.now + 0.005 if number < kept else since
        pair.run_until(session.publish("s.a", b"old", now=pair.now))
    assert read_all(pair, session.get_batch("S", now=pair.now)) == [*range(1, kept + lost + 1)]
    pair.server.restart(pair.now, unsynced_since=since)
    pair.advance(1.0)
    for _ in range(again):
        pair.advance(0.01)
        pair.run_until(pair.js.publish("s.a", b"new", now=pair.now))
    return pair, session


READS: dict[str, Callable[[Pair, ConsistentSession], Any]] = {
    "one": lambda pair, session: pair.run_until(session.get_last_msg("S", "s.a", now=pair.now)),
    "next": lambda pair, session: pair.run_until(session.get_msg("S", 1, next=True, now=pair.now)),
    "batch": lambda pair, session: read_all(pair, session.get_batch("S", now=pair.now)),
    "last": lambda pair, session: read_all(pair, session.get_last_msgs_for("S", ["s.a"], now=pair.now)),
}


@promise("`StreamRolledBackError` reports a stream that came back shorter, also one that has grown again.")
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("again", [0, 3, 5, 9])
@pytest.mark.parametrize("is_another", [False, True], ids=["over a new link", "of another process"])
def test_a_server_that_lost_what_was_read(read: str, again: int, is_another: bool) -> None:
    pair, session = crashed(5, 5, again)
    if is_another:
        session = pair.js.consistent_session(token=session.token.to_bytes(), timeout=10.0)
    with pytest.raises(StreamRolledBackError) as found:
        READS[read](pair, session)
    assert (found.value.stream, found.value.seq) == ("S", 10)
    session.forget("S")
    assert READS[read](pair, session)


@promise("A token from outside, or a session over a new link")
def test_a_restart_that_loses_nothing_costs_a_look() -> None:
    pair, session = crashed(5, 0, 3)
    before = pair.client.stats["out_msgs"]
    assert pair.run_until(session.get_last_msg("S", "s.a", now=pair.now)).seq == 8
    assert pair.client.stats["out_msgs"] - before == 3  # the state, the message at the position, and the read
    assert pair.run_until(session.get_last_msg("S", "s.a", now=pair.now)).seq == 8
    assert pair.client.stats["out_msgs"] - before == 4


def test_a_stream_that_was_made_anew() -> None:
    pair, session = crashed(5, 0, 0)
    pair.run_until(pair.js.delete_stream("S", now=pair.now))
    pair.advance(1.0)
    pair.server.add_stream(StreamConfig("S", subjects=["s.>"], allow_direct=True), pair.now)
    for _ in range(8):
        pair.run_until(pair.js.publish("s.a", b"new", now=pair.now))
    other = pair.js.consistent_session(token=session.token.to_bytes(), timeout=10.0)
    for read in READS.values():
        with pytest.raises(StreamRecreatedError):
            read(pair, other)
    other.forget("S")
    assert all(read(pair, other) for read in READS.values())


@promise("`StreamRolledBackError` reports a stream that came back shorter between two pages")
@pytest.mark.parametrize("again", [0, 2, 80])
def test_a_batch_ends_where_a_server_lost_what_it_gave(again: int) -> None:
    """Of no session: the page after the crash begins with the message before it, and the leader says the rest."""
    pair, _ = crashed(5, 0, 0)
    since = pair.now
    for _ in range(90):
        pair.advance(0.01)
        pair.run_until(pair.js.publish("s.a", b"old", now=pair.now))
    batch = pair.js.get_batch("S", now=pair.now, max_bytes=30)
    while batch.last_seq <= 10:
        pair.run_until(batch.readable())
        batch.pop_many(1, pair.now)
    pair.server.restart(pair.now, unsynced_since=since)
    pair.advance(0.5)
    for _ in range(again):
        pair.advance(0.01)
        pair.run_until(pair.js.publish("s.a", b"new", now=pair.now))
    found: list[bytes] = []

    def read_on() -> None:
        while True:
            messages = batch.pop_many(10, pair.now)
            assert messages or not batch.finished
            found.extend(message.data for message in messages)
            if not messages:
                pair.run_until(batch.readable())

    with pytest.raises(StreamRolledBackError):
        read_on()
    assert b"new" not in found


@requirement(254)
@promise("It will see all messages, but perhaps not at once.")
def test_a_fresh_consumer_of_a_copy_that_lags_sees_all_messages_but_not_at_once() -> None:
    pair = paired(num_replicas=1)
    js, run = pair.js, pair.run_until
    run(js.create_stream(MIRROR, now=pair.now))
    mirror = pair.server.mirror("M")
    for number in range(10):
        mirror.lag = Lag(seconds=0.0 if number < 4 else 5.0)
        run(js.publish("s.a", b"%d" % number, now=pair.now))
    written = pair.now
    info = run(js.create_consumer("M", ConsumerConfig.from_options(durable_name="C"), now=pair.now))
    assert info.num_pending == 4  # of ten that were acknowledged before it was created
    consumer = js.pull_consumer(info, JSMsg)
    seen: dict[int, float] = {}
    while len(seen) < 10:
        fetch = consumer.fetch(20, now=pair.now, expires=1.0)
        run(fetch.done)
        for message in consumer.take(fetch):
            seq = message.metadata.sequence.stream
            assert seq == len(seen) + 1  # each once, and in order
            seen[seq] = pair.now - written
    assert seen[4] < 2.0
    assert seen[5] > 4.0
