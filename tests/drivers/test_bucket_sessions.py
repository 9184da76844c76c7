"""What every driver must do on a real nats-server: snapshots of buckets, sessions with them, and keys that are gone."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from jsproto.errors import (
    BadTokenError,
    ConnectionClosedError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    LocalProtocolError,
    NoRespondersError,
)
from tests.drivers.conftest import Connect
from tests.drivers.test_buckets import new_bucket, take
from tests.drivers.test_facade import unique
from tests.drivers.test_reprs import shown
from tests.integration.relay import Relay
from tests.marks import promise, requirement

pytestmark = pytest.mark.anyio


# -- snapshots ---------------------------------------------------------------------------------------------------------


@promise("It shows what was acknowledged before.")
async def test_a_snapshot(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, history=3) as (bucket, _js):
        empty = await bucket.snapshot()
        assert (dict(empty), empty.revision, dict(empty.markers)) == ({}, 0, {})
        for key, value in (("a.1", b"1"), ("b", b"2"), ("a.2", b"3"), ("a.1", b"4")):
            await bucket.put(key, value)
        await bucket.delete("b")
        shot = await bucket.snapshot()
        assert {key: (entry.value, entry.revision) for key, entry in shot.items()} == {
            "a.2": (b"3", 3), "a.1": (b"4", 4),
        }  # fmt: skip
        assert [*shot] == ["a.2", "a.1"]
        assert (shot.bucket, shot.revision, shot.markers, "b" in shot) == (bucket.name, 5, {"b": 5}, False)
        assert shown(shot) == f"<BucketSnapshot of {bucket.name} at revision 5: 2 keys>"
        assert [*await bucket.snapshot("a.1", "a.*", timeout=30)] == ["a.2", "a.1"]
        assert [*await bucket.snapshot("none")] == []
        async with await bucket.watch(since=shot.revision + 1) as watcher:
            await bucket.put("b", b"6")
            assert ("b", b"6") in await take(watcher, 2)
        with pytest.raises(LocalProtocolError):
            await bucket.snapshot("a..b")


async def test_a_snapshot_needs_direct_get(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, direct=False) as (bucket, _js):
        await bucket.put("a", b"1")
        with pytest.raises(NoRespondersError, match="direct=True"):
            await bucket.snapshot()


@promise("the bucket at one revision")
async def test_many_keys_at_one_revision(server: Any, connect: Connect) -> None:
    """More keys than one answer shows, while others write them in their order, again and again."""
    count, rounds = 1200, 3
    async with new_bucket(server, connect, storage="memory") as (bucket, js):
        subjects = [f"$KV.{bucket.name}.k.{number}" for number in range(count)]

        async def write() -> None:
            async with js.async_publisher() as publisher:
                for each in range(rounds):
                    for subject in subjects:
                        await publisher.publish(subject, b"%d" % each)

        await write()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            for _ in range(3):
                shot = await bucket.snapshot()
                assert len(shot) == count
                revisions = [entry.revision for entry in shot.values()]
                assert revisions == [*range(shot.revision - count + 1, shot.revision + 1)]


# -- sessions ----------------------------------------------------------------------------------------------------------


@requirement(258)
@promise("whose reads show what the session wrote and read before")
async def test_a_session(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, history=2) as (bucket, _js):
        async with bucket.session() as session:
            assert await session.put("k", b"1") == 1
            assert (await session.get("k")).value == b"1"
            assert session.token[bucket.stream].floor == 1
            assert await session.update("k", b"2", 1) == 2
            with pytest.raises(KeyExistsError):
                await session.create("k", b"3")
            assert await session.create("l", b"3") == 3
            assert {key: entry.value for key, entry in (await session.get_many(["k", "l", "m"])).items()} == {
                "k": b"2", "l": b"3",
            }  # fmt: skip
            assert (await session.get("k", 1)).value == b"1"
            assert await session.delete("k", last=2) == 4
            with pytest.raises(KeyDeletedError):
                await session.get("k")
            assert await session.purge("l") == 5
            with pytest.raises(KeyNotFoundError):
                await session.get("m", level="leader")
            assert session.token[bucket.stream].floor == 5
            with pytest.raises(LocalProtocolError, match="at most 1024"):
                await session.get_many(map(str, range(1025)))
            text = shown(session)
            assert text.startswith(f"<BucketSession of {bucket.name} open: ")
        assert " closed: " in shown(session)
        with pytest.raises(ConnectionClosedError):
            await session.get("k")
        async with connect(server.url) as other:
            there = await other.jetstream().bucket(bucket.name)
            async with there.session(token=session.token.to_bytes(), timeout=30) as later:
                assert later.token == session.token
                assert later.session.level == "direct"
                await later.put("k", b"6")
                ack = await other.jetstream().publish(f"$KV.{bucket.name}.k", b"7")
                later.session.record(ack)
                assert (await later.get("k")).revision == 7
        with pytest.raises(BadTokenError):
            bucket.session(token=b"junk")


@requirement(258)
async def test_a_session_of_another_kind(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, direct=False) as (bucket, js):
        async with bucket.session(level="leader") as session:
            await session.put("k", b"1")
            assert (await session.get("k")).value == b"1"
        mirror = await js.create_bucket(unique("M"), mirror=bucket.name)
        with pytest.raises(LocalProtocolError, match="mirror"):
            mirror.session()
        await js.delete_bucket(mirror.name)


# -- keys that are gone ------------------------------------------------------------------------------------------------


@promise("After a gap it shows keys that are gone")
async def test_a_watcher_that_was_away_learns_of_keys_that_are_gone(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, js):
        for key in ("a", "b", "c", "d"):
            await bucket.put(key, b"1")
        with Relay(server.port) as relay:
            async with connect(relay.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1) as nc:
                there = await nc.jetstream().bucket(bucket.name)
                async with await there.watch(track_keys=True, heartbeat=0.2) as watcher:
                    assert len(await take(watcher, 5)) == 5
                    relay.is_open = False
                    relay.cut()
                    await bucket.delete("a")
                    assert await bucket.purge_deletes(older_than=0) == 1
                    await js.purge_stream(bucket.stream, subject=f"$KV.{bucket.name}.b")
                    await bucket.delete("c")
                    relay.is_open = True
                    found = [await watcher.next_update(timeout=30) for _ in range(3)]
                    assert {entry.key: (entry.operation, entry.revision) for entry in found} == {
                        "a": ("PURGE", 0), "b": ("PURGE", 0), "c": ("DEL", 6),
                    }  # fmt: skip
                    assert all(entry.timestamp > 10**18 for entry in found)
                    await bucket.put("d", b"2")
                    assert await take(watcher, 1) == [("d", b"2")]
                    assert watcher.pending == 0
        with pytest.raises(LocalProtocolError):
            await bucket.watch(track_keys=True, ignore_deletes=True)
        with pytest.raises(LocalProtocolError, match="heartbeat"):
            await bucket.watch(heartbeat=0.05)
