"""Sessions, through every driver: against a real server, and against one that lags as it is told."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jsproto.errors import (
    BadTokenError,
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
    MessageNotFoundError,
    NoStreamResponseError,
    StaleReadError,
    StreamRolledBackError,
    UnsupportedByServerError,
)
from jsproto.grammar.session_token import SessionToken
from jsproto.rules import position
from jsproto.wire.frames import Pub
from jsproto_io import DurabilityWarning
from jsproto_io.nats_server import NatsServer
from tests.client.lagging import Replicas
from tests.drivers.conftest import LIMIT, Connect
from tests.drivers.fake import FakeServer, Peer, until_the_end
from tests.drivers.replicated import replicated
from tests.drivers.test_facade import make_stream, read_all
from tests.marks import promise, requirement

pytestmark = pytest.mark.anyio


async def test_a_publish_of_a_session_that_no_stream_takes_is_sent_again(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.consistent_session() as session:
            with pytest.raises(NoStreamResponseError):
                await session.publish(f"no.{name}", retry_attempts=1, retry_wait=timedelta(milliseconds=10))
            with pytest.raises(LocalProtocolError, match="retry_attempts"):
                await session.publish(f"no.{name}", retry_attempts=-2)
            with pytest.raises(LocalProtocolError, match="retry_wait"):
                await session.publish(f"no.{name}", retry_wait=timedelta())
            assert (await session.publish(f"{name}.0")).seq == 1


@requirement(255, 256)
@pytest.mark.one_driver
async def test_a_session_on_a_real_server(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.consistent_session(timeout=timedelta(seconds=5)) as session:
            for number in range(2):
                await session.publish(f"{name}.{number}", b"%d" % number, msg_id=str(number))
            ack = await session.publish(f"{name}.2", b"2", msg_id="2")
            assert (session.token, session.level) == (SessionToken({name: (3, 0)}), "direct")
            assert (await session.get_last_msg(name, f"{name}.0")).seq == 1
            assert (await session.get_msg(name, 2)).data == b"1"
            assert (await session.get_msg(name, subject=f"{name}.*", level="leader")).seq == 3
            assert (await session.get_msg(name, 2, subject=f"{name}.>", next=True)).seq == 2
            for missing in ({"seq": 4}, {"subject": f"{name}.9"}):
                with pytest.raises(MessageNotFoundError):
                    await session.get_msg(name, **missing)
            assert [m.seq for m in await read_all(session.get_batch(name))] == [1, 2, 3]
            assert [m.seq for m in await read_all(session.get_batch(name, subject=f"{name}.1", batch=5))] == [2]
            assert await read_all(session.get_batch(name, subject=f"{name}.9")) == []
            since = (await js.get_msg(name, 2)).timestamp
            later = session.get_batch(name, start_time=since, if_dropped="error")
            assert [m.seq for m in await read_all(later)] == [2, 3]
            last = session.get_last_msgs_for(name, [f"{name}.0", f"{name}.2"], max_bytes=1)
            assert [m.seq for m in await read_all(last)] == [1, 3]
            assert dict(session.token.items()) == {name: (3, 3)}
            seen = session.token.seen(name)
            assert seen is not None
            assert (seen.seq, seen.witness) == (3, (await js.get_msg(name, 3)).timestamp)
            session.record(ack)
            session.observe("T", 9)
            session.merge(SessionToken({"U": (1, 0)}))
            session.forget("T")
            token = session.token.to_bytes()
        with pytest.raises(ConnectionClosedError):
            await session.get_msg(name, 1)
        async with js.consistent_session(token=token, timeout=LIMIT) as other:  # as another process would
            assert dict(other.token.items()) == {name: (3, 3), "U": (1, 0)}
            other.observe(name, 4)
            with pytest.raises(StaleReadError) as found:
                await other.get_last_msg(name, f"{name}.0")
            assert (found.value.stream, found.value.wanted, found.value.found) == (name, 4, 3)
            with pytest.raises((StaleReadError, StreamRolledBackError)):  # the leader said so twice, far enough apart
                await read_all(other.get_batch(name))
            with pytest.raises((StaleReadError, StreamRolledBackError)):
                await read_all(other.get_last_msgs_for(name, [f"{name}.>"]))


async def test_batches_are_recorded_by_their_acknowledgements(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True, allow_batched=True)
        async with js.consistent_session() as session:
            session.record(await js.publish_batch([(f"{name}.a", b"1"), (f"{name}.a", b"2")]))
            assert session.token[name].written == 2
            async with js.fast_publisher() as batch:
                await batch.publish(f"{name}.a", b"3")
                session.record(await batch.commit())
            assert session.token[name].written == 3
            assert (await session.get_last_msg(name, f"{name}.a")).data == b"3"


async def test_what_a_session_refuses(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js = nc.jetstream()
        with pytest.raises(BadTokenError):
            js.consistent_session(token=b"junk")
        with pytest.raises(LocalProtocolError):
            js.consistent_session(level="follower")
        async with js.consistent_session() as session:
            for bad in ({"seq": 0}, {}, {"seq": 1, "level": "mirror"}):
                with pytest.raises(LocalProtocolError):
                    await session.get_msg("S", **bad)
            with pytest.raises(LocalProtocolError):
                session.get_last_msgs_for("S", [])
            with pytest.raises(BadTokenError):
                session.merge(b"{}")


@requirement(257)
@promise("Outside this guarantee are the newest value of any writer")
async def test_what_no_server_promises_is_not_pretended(server: Any, connect: Connect) -> None:
    """There are no linearizable reads: who asks for them is told which levels there are."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await js.publish(f"{name}.a", b"1")
        level = {"level": "linearizable"}
        with pytest.raises(LocalProtocolError, match="'direct' or 'leader', not 'linearizable'"):
            await js.get_msg(name, 1, **level)
        with pytest.raises(LocalProtocolError, match="'direct' or 'leader', not 'linearizable'"):
            await js.get_last_msg(name, f"{name}.a", **level)
        of_a_session = "'direct', 'leader' or 'mirror', not 'linearizable'"
        with pytest.raises(LocalProtocolError, match=of_a_session):
            js.consistent_session(**level)
        async with js.consistent_session() as session:
            with pytest.raises(LocalProtocolError, match=of_a_session):
                await session.get_msg(name, 1, **level)
            with pytest.raises(LocalProtocolError, match=of_a_session):
                await session.get_last_msg(name, f"{name}.a", **level)
            with pytest.raises(LocalProtocolError, match=of_a_session):
                session.get_batch(name, **level)
            with pytest.raises(LocalProtocolError, match=of_a_session):
                session.get_last_msgs_for(name, [f"{name}.a"], **level)


@requirement(258)
async def test_the_revisions_of_a_bucket(server: Any, connect: Connect) -> None:
    """A key-value bucket is a stream: a session reads its own puts, and deletions, which are messages."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        bucket, key = f"KV_{name}", f"$KV.{name}.color"
        await js.create_stream(
            bucket, subjects=[f"$KV.{name}.>"], storage="memory", allow_direct=True, max_msgs_per_subject=1
        )
        async with js.consistent_session() as session:
            for number in range(3):
                ack = await session.publish(key, b"%d" % number)
                for level in ("direct", "leader"):
                    assert (await session.get_last_msg(bucket, key, level=level)).seq == ack.seq
            await session.publish(key, headers={"KV-Operation": "DEL"})
            assert (await session.get_last_msg(bucket, key)).headers["KV-Operation"] == "DEL"


@requirement(253)
async def test_a_mirror_can_be_asked(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await js.create_stream(f"{name}M", mirror={"name": name}, storage="memory", allow_direct=True)
        async with js.consistent_session(level="mirror", mirrors={name: f"{name}M"}) as session:
            for number in range(20):
                ack = await session.publish(f"{name}.a", b"%d" % number)
                assert (await session.get_last_msg(name, f"{name}.a")).seq == ack.seq
            assert len(await read_all(session.get_batch(name, level="direct"))) == 20


@requirement(252)
async def test_a_lagging_replica_shows_in_plain_reads_only(connect: Connect) -> None:
    replicas = Replicas("s.a", "s.a", positions=(1,))

    with FakeServer(replicated(replicas)) as server:
        async with connect(server.url, max_reconnect_attempts=0) as nc:
            js = nc.jetstream()
            assert (await js.get_last_msg("S", "s.a")).seq == 1
            async with js.consistent_session(token=SessionToken({"S": (2, 0)})) as session:
                assert (await session.get_last_msg("S", "s.a")).seq == 2
                assert [m.seq for m in await read_all(session.get_batch("S"))] == [1, 2]
            assert "leader" in replicas.asked


def restore(server: NatsServer, store: Path, backup: Path) -> None:
    """The server stops, and starts again with the files of the backup."""
    server.stop()
    shutil.rmtree(store)
    shutil.copytree(backup, store)
    server.start()


async def reach(nc: Any) -> None:
    """Wait until the new link is up."""
    while True:
        with suppress(ConnectionLostError):
            await nc.flush()
            return


@promise("`StreamRolledBackError` reports a stream that came back shorter, also one that has grown again.")
@pytest.mark.server
async def test_a_token_of_a_store_that_was_restored(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream comes back as it was, and gives sequences out again. No read of the session takes them for its own."""
    monkeypatch.setattr(position, "ELECTION", 0.3)
    options = {"reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}
    store, backup = tmp_path / "store", tmp_path / "backup"
    with NatsServer(store=store) as server:
        async with connect(server.url, **options) as nc:
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s.>"], storage="file", allow_direct=True)
            for number in range(3):
                await js.publish("s.a", b"old %d" % number)
            server.stop()
            shutil.copytree(store, backup)
            server.start()
            await reach(nc)
            running = js.consistent_session(timeout=LIMIT)
            for number in range(3, 6):
                await running.publish("s.a", b"old %d" % number)
            assert (await running.get_last_msg("S", "s.a")).seq == 6
            token = running.token.to_bytes()
            restore(server, store, backup)
            await reach(nc)
            async with js.consistent_session(token=token, timeout=LIMIT) as session:
                with pytest.raises(StreamRolledBackError, match="forget"):  # it ends before
                    await session.get_last_msg("S", "s.a")
            for number in range(3, 8):
                await js.publish("s.a", b"new %d" % number)
            elsewhere = js.consistent_session(token=token, timeout=LIMIT)
            for session in (elsewhere, running):  # of another process, and over a new link
                with pytest.raises(StreamRolledBackError) as found:
                    await session.get_last_msg("S", "s.a")
                assert (found.value.stream, found.value.seq) == ("S", 6)
                with pytest.raises(StreamRolledBackError):
                    await read_all(session.get_batch("S"))
                with pytest.raises(StreamRolledBackError):
                    await read_all(session.get_last_msgs_for("S", ["s.a"]))
                session.forget("S")
                assert (await session.get_last_msg("S", "s.a")).data == b"new 7"
                assert [m.data for m in await read_all(session.get_batch("S", seq=3))][:2] == [b"old 2", b"new 3"]
                await session.close()


@requirement(243, 244, 247, 248)
@promise("The mode cannot be switched on or off later")
async def test_asynchronous_persistence_is_warned_of(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        with pytest.warns(DurabilityWarning, match=f"{name}P acknowledges messages before they are on disk") as seen:
            made = await js.create_stream(f"{name}P", subjects=["p.>"], storage="file", persist_mode="async")
        assert made.config.persist_mode == "async"
        assert len(seen) == 1
        assert "jsproto_io" not in seen[0].filename  # it points to whoever creates the stream
        changed = await js.update_stream(f"{name}P", max_msgs=5)  # keeps what is not named
        assert (changed.config.persist_mode, changed.config.max_msgs) == ("async", 5)
        for change in (
            {"persist_mode": "default"},
            {"persist_mode": None},
            {"num_replicas": 3},
            {"allow_atomic": True},
        ):
            with pytest.raises(LocalProtocolError, match="persist_mode"):
                await js.update_stream(f"{name}P", **change)
        with pytest.raises(LocalProtocolError, match="cannot be changed: it is 'default'"):
            await js.update_stream(name, persist_mode="async", storage="file")
        await js.delete_stream(f"{name}P")


@requirement(243)
@promise("it would refuse the field, or drop it silently")
async def test_older_servers_would_drop_the_persist_mode(connect: Connect) -> None:
    @until_the_end
    def script(peer: Peer) -> None:
        peer.handshake(version="2.11.11")
        while True:
            assert not isinstance(peer.next(), Pub)

    with FakeServer(script) as server:
        async with connect(server.url, max_reconnect_attempts=0) as nc:
            with pytest.warns(DurabilityWarning), pytest.raises(UnsupportedByServerError, match=r"2\.12"):
                await nc.jetstream().create_stream("P", persist_mode="async")
