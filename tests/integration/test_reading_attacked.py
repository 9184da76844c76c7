"""Reads of real servers that once broke a promise: replaced messages, moving limits, rollups, and servers that die."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jsproto.errors import SnapshotError
from jsproto.grammar.stored import StoredMsg
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests.integration.cluster import Cluster
from tests.marks import promise

ServerFor = Callable[..., NatsServer]

pytestmark = pytest.mark.versions


@pytest.fixture
def js(server_for: ServerFor) -> Iterator[JetStream]:
    """A context on a server of its own."""
    with connect(server_for().url) as nc:
        yield nc.jetstream()


def wait_until_at(js: JetStream, stream: str, seq: int) -> None:
    while js.stream_info(stream).state.last_seq < seq:
        pass  # a mirror takes what comes in its own time


@promise("a last message, a next message", of="Guarantees")
@promise("a last message, a next message", of="Reading what was written")
@promise("A message that is read by its sequence")
def test_a_session_is_not_shown_what_it_has_replaced(js: JetStream) -> None:
    js.create_stream("KV", subjects=["kv.>"], allow_direct=True, max_msgs_per_subject=1)
    js.create_stream("M", mirror={"name": "KV"}, allow_direct=True)
    js.publish("kv.a", b"old")
    wait_until_at(js, "M", 1)
    with js.consistent_session(mirrors={"KV": "M"}) as session:
        session.publish("kv.a", b"new")
        for seq in (1, None):
            assert session.get_msg("KV", seq, next=True, subject="kv.a", level="mirror").data == b"new"
        assert js.get_msg("M", 1).data == b"old"


@promise("`StreamRecreatedError` reports a stream that was deleted and created again between two pages.")
def test_a_mirror_whose_limit_moves_is_the_same_mirror(js: JetStream) -> None:
    js.create_stream("S", subjects=["s.>"], allow_direct=True)
    for n in range(40):
        js.publish(f"s.{n}", bytes(1_000))
    js.create_stream("M", mirror={"name": "S"}, allow_direct=True, max_msgs=30)
    wait_until_at(js, "M", 40)
    seqs: list[int] = []
    for message in js.get_batch("M", max_bytes=3_000):
        if not seqs:
            for _ in range(40):
                js.publish("s.new", b"z")
            wait_until_at(js, "M", 80)
        seqs.append(message.seq)
    assert seqs[0] == 11
    assert seqs == sorted(seqs)
    assert seqs[-1] == 80


def test_last_messages_are_whole_beside_many_mirrors(js: JetStream) -> None:
    js.create_stream("S", subjects=["s.>"], allow_direct=True)
    for n in range(8):
        js.publish(f"s.{n}", b"x")
    for n in range(5):
        js.create_stream(f"M{n}", mirror={"name": "S"}, mirror_direct=True)
        wait_until_at(js, f"M{n}", 8)
    for _ in range(20):
        assert [m.seq for m in js.get_last_msgs_for("S", "s.3", up_to_seq=6, timeout=20)] == [4]


@promise("A rollup of the whole stream is followed during the read.")
def test_a_rollup_of_all_is_no_snapshot_of_before(js: JetStream) -> None:
    js.create_stream("R", subjects=["data.*", "ctl.*"], allow_direct=True, allow_rollup_hdrs=True)
    for n in range(5):
        js.publish(f"data.{n}", b"old")
    assert len(list(js.snapshot("R", "data.*", at=5))) == 5
    js.publish("ctl.reset", headers={"Nats-Rollup": "all"})
    with pytest.raises(SnapshotError, match="message 6 has replaced all messages before it"):
        list(js.snapshot("R", "data.*", at=5))
    js.publish("data.1", b"new")
    assert [m.seq for m in js.snapshot("R", "data.*")] == [7]


@promise("Servers do not index a subject with the byte 0x7f, so a snapshot leaves it out.")
def test_a_subject_that_servers_do_not_index(js: JetStream) -> None:
    js.create_stream("O", subjects=["o.*"], allow_direct=True)
    js.publish("o.\x7f")
    js.publish("o.a")
    assert [m.subject for m in js.get_batch("O")] == ["o.\x7f", "o.a"]
    assert [m.subject for m in js.snapshot("O")] == ["o.a"]


@promise("It asks for the next page only as messages are taken")
@pytest.mark.slow
def test_a_stream_whose_only_server_dies_and_comes_back() -> None:
    """The connection stays, to another server: only nobody answers for a while."""
    with Cluster() as cluster, connect(cluster.urls, dont_randomize=True) as nc:
        js = nc.jetstream(timeout=30)
        js.create_stream("S", subjects=["s.>"], num_replicas=1, allow_direct=True)
        with js.async_publisher() as publisher:
            publisher.publish_many((f"s.{n}", bytes(50)) for n in range(3_000))
        home = (js.stream_info("S").cluster or {})["leader"]
        other = next(node for node in cluster.nodes if node is not cluster.node(home))
        with connect(other.url) as far:
            read: Iterator[StoredMsg] = iter(far.jetstream().get_batch("S", max_bytes=5_000, timeout=15))
            first = next(read).seq
            cluster.node(home).kill()
            cluster.node(home).start()
            assert [first, *(message.seq for message in read)] == [*range(1, 3_001)]
