"""Reading from real servers of every release, from mirrors, and while somebody writes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from jsproto.client.read.single import ReadLevel, direct_message
from jsproto.errors import (
    BadRequestError,
    IncompleteBatchError,
    MessageNotFoundError,
    NoRespondersError,
    SnapshotError,
    TooManyResultsError,
)
from jsproto.grammar.stored import StoredMsg
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream, connect
from tests import servers
from tests.effort import examples
from tests.marks import promise, requirement

ServerFor = Callable[..., NatsServer]
KEYS = 5_000
LEVELS: tuple[ReadLevel, ...] = ("direct", "leader")

pytestmark = pytest.mark.versions


def key_values(messages: Iterator[StoredMsg] | list[StoredMsg]) -> dict[str, tuple[int, bytes]]:
    return {message.subject: (message.seq, message.data) for message in messages}


def fill(js: JetStream, subjects: list[str]) -> None:
    with js.async_publisher() as publisher:
        publisher.publish_many((subject, b"%d" % n) for n, subject in enumerate(subjects, 1))


def replayed(js: JetStream, stream: str, up_to_seq: int) -> dict[str, tuple[int, bytes]]:
    """The state at a sequence, by reading all that led to it."""
    state = {}
    for message in js.get_batch(stream):
        if message.seq > up_to_seq:
            break
        state[message.subject] = (message.seq, message.data)
    return state


@contextmanager
def writing(url: str, subjects: list[str]) -> Iterator[threading.Event]:
    """Somebody writes to ``subjects`` at random, from the moment that the event is set."""
    begun, stop = threading.Event(), threading.Event()
    choose = random.Random(1)

    def write() -> None:
        with connect(url) as nc, nc.jetstream().async_publisher() as publisher:
            while not stop.is_set():
                publisher.publish_many((choose.choice(subjects), b"new") for _ in range(200))
                begun.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield begun
    finally:
        stop.set()
        thread.join()


@requirement(113, 119, 120, 131, 132, 145)
@pytest.mark.parametrize("version", servers.RELEASES)
def test_every_form(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("DG", subjects=["foo.>"], allow_direct=True, storage="memory")
        for n, letter in enumerate("ABCADB", 1):
            js.publish(f"foo.{letter}", b"%d" % n, headers={"X-Mine": "1", "Nats-Sequence": "9"} if n == 3 else None)
        third = js.get_msg("DG", 3)
        for level in LEVELS:
            third = js.get_msg("DG", 3, level=level)
            assert (third.seq, third.data, third.subject, third.stream) == (3, b"3", "foo.C", "DG")
            assert list(third.headers.items()) == [("X-Mine", "1"), ("Nats-Sequence", "9")]
            fourth = js.get_msg("DG", start_time=third.timestamp + 1, level=level)
            assert fourth.seq == 4
            assert js.get_msg("DG", 3, subject="foo.B", next=True, level=level).seq == 6
            assert js.get_last_msg("DG", "foo.A", level=level).seq == 4
            with pytest.raises(MessageNotFoundError):
                js.get_last_msg("DG", "foo.Z", level=level)
        assert js.get_data("DG", 3) == b"3"
        assert [m.seq for m in js.get_batch("DG", subject="foo.A")] == [1, 4]
        assert [m.seq for m in js.get_batch("DG", start_time=third.timestamp, batch=2)] == [3, 4]
        assert [m.seq for m in js.get_batch("DG", max_bytes=1)] == [1, 2, 3, 4, 5, 6]
        for most in (1, 10, 10_000):
            reader = js.get_last_msgs_for("DG", ["foo.*"], max_bytes=most)
            assert [m.seq for m in reader] == [3, 4, 5, 6]
            assert (reader.up_to_seq, reader.num_pending) == (6, 0)
        assert [m.seq for m in js.get_last_msgs_for("DG", ["foo.*"], batch=2)] == [3, 4]
        assert [m.seq for m in js.get_last_msgs_for("DG", ["foo.B", "foo.A"], up_to_seq=3)] == [1, 2]
        assert [m.seq for m in js.get_last_msgs_for("DG", "foo.*", up_to_time=third.timestamp)][-1:] <= [2]
        assert [m.seq for m in js.get_last_msgs_for("DG", "foo.*", up_to_time=0)] == []
        assert {m.seq for m in js.snapshot("DG", max_bytes=1)} == {3, 4, 5, 6}
        assert {m.seq for m in js.snapshot("DG", ["foo.A", "foo.D"], at=4)} == {4}
        js.update_stream("DG", allow_direct=False)
        with pytest.raises(NoRespondersError, match=r"update_stream\('DG', allow_direct=True\)"):
            js.get_msg("DG", 1, level="direct")
        for read in (js.get_batch, partial(js.get_last_msgs_for, subjects=">"), js.snapshot):
            with pytest.raises(NoRespondersError, match="allow_direct=True"):
                list(read("DG"))


@pytest.mark.parametrize("version", ["2.11.11", servers.NEWEST])
def test_an_empty_stream_is_empty_at_a_sequence(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("E", subjects=["e.>"], allow_direct=True)
        with js.consistent_session() as session:
            for last_seq in (0, 3):
                for reader in (
                    js.get_last_msgs_for("E", "e.*"),
                    js.snapshot("E", "e.*"),
                    session.get_last_msgs_for("E", "e.*"),
                ):
                    assert [*reader] == []
                    assert reader.up_to_seq == last_seq
                if not last_seq:
                    for n in range(3):
                        session.record(js.publish(f"e.{n}"))
                    js.purge_stream("E")


@requirement(122)
@promise("What was deleted inside the range is passed over.")
@promise("No message is left out that is there from beginning to end")
@pytest.mark.parametrize("version", ["2.11.11", servers.NEWEST])
def test_pages_of_any_size_over_deleted_messages(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_direct=True, storage="memory")
        fill(js, [f"s.{n % 50}" for n in range(1_500)])
        gone = {*range(100, 300), *range(7, 1_500, 13), 1_500}
        for seq in gone:
            nc.request("$JS.API.STREAM.MSG.DELETE.S", b'{"seq":%d}' % seq)
        left = [seq for seq in range(1, 1_501) if seq not in gone]
        for most in (1, 100, 1_000, None):
            assert [m.seq for m in js.get_batch("S", max_bytes=most)] == left
        last = key_values(list(js.get_batch("S")))
        for most in (1, 300, None):
            assert key_values(js.get_last_msgs_for("S", "s.*", max_bytes=most)) == last
            assert key_values(js.snapshot("S", max_bytes=most)) == last


@requirement(136)
@promise("It is exactly the state at its `up_to_seq`, while others overwrite.")
@promise("Exactly so, of what the stream still held when the read began")
@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.11.11", "2.14.6", servers.NEWEST])
def test_a_snapshot_while_somebody_writes_is_the_state_at_its_sequence(version: str, server_for: ServerFor) -> None:
    server = server_for(version)
    keys = [f"k.{n}" for n in range(KEYS)]
    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream("KV", subjects=["k.>"], allow_direct=True, storage="memory")
        fill(js, keys)
        with writing(server.url, [*keys, *(f"k.new.{n}" for n in range(500))]) as begun:
            assert begun.wait(30)
            for subjects in ([">"], keys):
                reader = js.snapshot("KV", subjects)
                got = list(reader)
                state = replayed(js, "KV", reader.up_to_seq or 0)
                if subjects is keys:
                    state = {key: state[key] for key in keys}
                assert len(got) == len(state) >= KEYS
                assert key_values(got) == state
                assert js.stream_info("KV").state.last_seq > (reader.up_to_seq or 0)
            with pytest.raises(TooManyResultsError):
                list(js.get_last_msgs_for("KV", "k.>"))
        at = KEYS + 1_000
        assert key_values(js.snapshot("KV", at=at)) == replayed(js, "KV", at)


@promise("what is in the stream all the time is not left out")
@promise("`get_batch`, `get_last_msgs_for` and `snapshot` read the stream itself.")
@promise("It is exactly the state at its `up_to_seq`, while others overwrite.")
@pytest.mark.slow
def test_a_stream_that_keeps_one_message_of_a_subject_is_read_whole_while_it_is_written(server_for: ServerFor) -> None:
    server = server_for()
    keys = [f"k.{n}" for n in range(1_500)]
    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream("KV", subjects=["k.>"], allow_direct=True, max_msgs_per_subject=1, storage="memory")
        fill(js, keys)
        with writing(server.url, keys) as begun:
            assert begun.wait(30)
            for subjects in (">", keys, ["k.1*", "k.*"], keys[:1]):
                for _ in range(examples(10)):
                    expected = set(keys) if len(subjects) != 1 or subjects == ">" else set(subjects)
                    assert {message.subject for message in js.snapshot("KV", subjects)} == expected
            with pytest.raises(SnapshotError, match="may have been overwritten since|is not shown"):
                js.snapshot("KV", at=js.stream_info("KV").state.last_seq - len(keys) // 2)
        assert set(key_values(js.snapshot("KV"))) == set(keys)


@requirement(108)
def test_a_mirror_answers_too(server_for: ServerFor) -> None:
    with connect(server_for().url) as nc:
        js = nc.jetstream()
        js.create_stream("DG", subjects=["foo.>"], allow_direct=True, storage="memory")
        js.create_stream("M", mirror={"name": "DG"}, allow_direct=True, mirror_direct=True, storage="memory")
        fill(js, [f"foo.{n % 5}" for n in range(200)])
        while js.stream_info("M").state.last_seq < 200:
            nc.flush()
        streams = {js.get_msg("DG", 7).stream for _ in range(100)}
        assert streams == {"DG", "M"}
        assert js.get_msg("M", 7).stream == "M"
        assert [m.seq for m in js.get_batch("DG", max_bytes=500)] == list(range(1, 201))
        assert {m.seq for m in js.snapshot("DG", max_bytes=100)} == {196, 197, 198, 199, 200}


@requirement(139)
def test_what_the_server_refuses_is_typed(server_for: ServerFor) -> None:
    with connect(server_for().url) as nc:
        js = nc.jetstream()
        js.create_stream("DG", subjects=["foo.>"], allow_direct=True, storage="memory")
        js.publish("foo.A", b"", headers={"X": "y" * 60_000})  # 64 KiB is all that a server takes
        assert len(js.get_msg("DG", 1).headers["X"]) == 60_000
        assert [len(m.headers["X"]) for m in js.get_batch("DG")] == [60_000]
        with pytest.raises(BadRequestError):
            direct_message(
                "DG", {"seq": 1}, nc.request("$JS.API.DIRECT.GET.DG", b'{"seq":1,"last_by_subj":"foo.A"}')._raw
            )


@promise("Subscriptions go on, and so do readers of Direct Get")
@promise("It asks for the next page only as messages are taken")
def test_a_server_that_dies_in_the_middle_of_a_page(server_for: ServerFor) -> None:
    server = server_for()
    with connect(server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_direct=True)
        fill(js, ["s.a"] * 20_000)
        got = []
        for message in js.get_batch("S", max_bytes=100_000):
            got.append(message.seq)
            if message.seq == 5_000:
                server.kill()
                server.start()
        assert got == list(range(1, 20_001))


def test_a_server_that_is_gone_for_good(server_for: ServerFor) -> None:
    server = server_for()
    with connect(server.url, max_reconnect_attempts=0) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_direct=True, storage="memory")
        fill(js, ["s.a"] * 20_000)
        with pytest.raises(IncompleteBatchError) as caught:
            read_and_kill(nc, server)
        assert 0 < caught.value.last_seq < 20_000


def read_and_kill(nc: Connection, server: NatsServer) -> None:
    for message in nc.jetstream().get_batch("S", max_bytes=100_000):
        if message.seq == 1:
            server.kill()
