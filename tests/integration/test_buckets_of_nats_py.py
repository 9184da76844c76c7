"""Buckets that nats-py and this library share on a real server: what one writes the other reads, verb by verb."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import nats
import nats.js.errors
import pytest
from nats.js.api import KeyValueConfig

from jsproto.errors import KeyDeletedError, KeyExistsError, KeyNotFoundError, KeyWrongLastSequenceError
from jsproto_io.asyncio import Bucket, connect
from jsproto_io.nats_server import NatsServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["theirs", "theirs, direct", "ours"])
def creator(request: pytest.FixtureRequest) -> str:
    """Who has created the bucket."""
    name: str = request.param
    return name


@asynccontextmanager
async def shared(server: NatsServer, creator: str) -> AsyncIterator[tuple[Any, Bucket]]:
    """One bucket with a history of 5: what nats-py has of it, and what we have."""
    name = f"B{uuid4().hex[:12]}"
    client = await nats.connect(server.url)
    try:
        async with connect(server.url) as nc:
            js = nc.jetstream()
            if creator == "ours":
                ours = await js.create_bucket(name, history=5, ttl=3600)
                theirs = await client.jetstream().key_value(name)
            else:
                config = KeyValueConfig(name, history=5, ttl=3600, direct=creator != "theirs")
                theirs = await client.jetstream().create_key_value(config)
                ours = await js.bucket(name)
                assert ours.config.direct is (creator != "theirs")
            yield theirs, ours
            await js.delete_bucket(name)
    finally:
        await client.close()


async def until_none(watcher: Any) -> list[Any]:
    """The entries of a watcher of nats-py up to the end of the present ones."""
    entries = []
    while (entry := await watcher.updates(timeout=30)) is not None:
        entries.append((entry.key, entry.operation or entry.value, entry.revision))
    return entries


def seen(entry: Any) -> tuple[Any, ...] | None:
    return entry and (entry.key, entry.operation if entry.is_marker else entry.value, entry.revision)


async def test_the_bucket_itself(server: NatsServer, creator: str) -> None:
    async with shared(server, creator) as (theirs, ours):
        status, mine = await theirs.status(), await ours.status()
        assert (status.bucket, status.history, status.ttl) == (mine.bucket, mine.config.history, mine.config.ttl)
        assert (mine.config.history, mine.config.ttl, mine.config.marker_ttl) == (5, 3600.0, None)
        await ours.put("k", b"1")
        assert (await theirs.status()).values == (await ours.status()).values == 1


async def test_what_they_write_we_read(server: NatsServer, creator: str) -> None:
    async with shared(server, creator) as (theirs, ours):
        assert await theirs.create("k.a", b"1") == 1
        assert seen(await ours.get("k.a")) == ("k.a", b"1", 1)
        with pytest.raises(KeyExistsError):
            await ours.create("k.a", b"x")
        await theirs.update("k.a", b"2", last=1)
        await theirs.put("k.b", b"")
        assert seen(await ours.get("k.a", 1)) == ("k.a", b"1", 1)
        assert await ours.keys() == ["k.a", "k.b"]
        await theirs.delete("k.a")
        with pytest.raises(KeyDeletedError, match="DEL"):
            await ours.get("k.a")
        assert [seen(each) for each in await ours.history("k.a")] == [
            ("k.a", b"1", 1), ("k.a", b"2", 2), ("k.a", "DEL", 4),
        ]  # fmt: skip
        assert await ours.create("k.a", b"3") == 5
        await theirs.purge("k.a")
        with pytest.raises(KeyDeletedError, match="PURGE"):
            await ours.get("k.a")
        async with await ours.watch() as watcher:
            found = [seen(await watcher.next_update(timeout=30)) for _ in range(3)]
            assert found == [("k.b", b"", 3), ("k.a", "PURGE", 6), None]
            await theirs.put("k.c", b"4")
            assert seen(await watcher.next_update(timeout=30)) == ("k.c", b"4", 7)
            await theirs.delete("k.c")
            assert seen(await watcher.next_update(timeout=30)) == ("k.c", "DEL", 8)
        assert await ours.keys() == ["k.b"]
        await theirs.purge_deletes(olderthan=-1)
        with pytest.raises(KeyNotFoundError, match="no value"):
            await ours.get("k.c")
        if creator != "theirs":
            assert list(await ours.get_many(["k.a", "k.b"])) == ["k.b"]


async def test_what_we_write_they_read(server: NatsServer, creator: str) -> None:
    async with shared(server, creator) as (theirs, ours):
        assert await ours.create("k.a", b"1") == 1
        entry = await theirs.get("k.a")
        assert (entry.value, entry.revision) == (b"1", 1)
        with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
            await theirs.create("k.a", b"x")
        await ours.update("k.a", b"2", 1)
        with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
            await theirs.update("k.a", b"x", last=1)
        await ours.put("k.b", b"b")
        assert (await theirs.get("k.a", revision=1)).value == b"1"
        assert await theirs.keys() == ["k.a", "k.b"]
        await ours.delete("k.a", last=2)
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await theirs.get("k.a")
        history = await theirs.history("k.a")
        assert [(each.operation, each.value) for each in history] == [(None, b"1"), (None, b"2"), ("DEL", b"")]
        assert await theirs.create("k.a", b"3") == 5
        with pytest.raises(KeyWrongLastSequenceError):
            await ours.update("k.a", b"x", 4)
        await ours.purge("k.a")
        watcher = await theirs.watchall()
        assert await until_none(watcher) == [("k.b", b"b", 3), ("k.a", "PURGE", 6)]
        await ours.put("k.c", b"4")
        await ours.delete("k.c")
        found = [await watcher.updates(timeout=30) for _ in range(2)]
        assert [(each.key, each.operation) for each in found] == [("k.c", None), ("k.c", "DEL")]
        await watcher.stop()
        assert await ours.purge_deletes(older_than=0) >= 2
        assert await theirs.keys() == ["k.b"]
        assert [each.key for each in await theirs.history(">")] == ["k.b"]


async def test_times_to_live(server: NatsServer) -> None:
    """The markers that the server leaves, and times to live of either side."""
    name = f"B{uuid4().hex[:12]}"
    client = await nats.connect(server.url)
    try:
        async with connect(server.url) as nc:
            js = nc.jetstream()
            ours = await js.create_bucket(name, marker_ttl=60)
            theirs = await client.jetstream().key_value(name)
            assert (await theirs.status()).marker_ttl == 60.0
            async with await ours.watch(updates_only=True) as watcher:
                watching: Any = await theirs.watchall()
                await theirs.create("theirs", b"1", msg_ttl=1)
                await ours.create("ours", b"2", ttl=1)
                found = [seen(await watcher.next_update(timeout=30)) for _ in range(4)]
                assert {each and each[:2] for each in found} == {
                    ("theirs", b"1"), ("ours", b"2"), ("theirs", "PURGE"), ("ours", "PURGE"),
                }  # fmt: skip
                there = [await watching.updates(timeout=30) for _ in range(5)]
                assert {each and (each.key, each.operation) for each in there} == {
                    None, ("theirs", None), ("ours", None), ("theirs", "PURGE"), ("ours", "PURGE"),
                }  # fmt: skip
                await watching.stop()
            assert await ours.create("theirs", b"3") > 4  # nats-py cannot: it takes the marker for a value
            await theirs.purge("theirs", msg_ttl=60)
            with pytest.raises(KeyDeletedError):
                await ours.get("theirs")
            await js.delete_bucket(name)
    finally:
        await client.close()


async def test_an_update_of_ours_leaves_their_bucket_as_it_is(server: NatsServer) -> None:
    async with shared(server, "theirs") as (theirs, ours), connect(server.url) as nc:
        before = (await ours.status()).info.config
        status = await nc.jetstream().update_bucket(ours.name, history=7)
        assert status.info.config == before.updated(max_msgs_per_subject=7)
        assert (await theirs.status()).history == 7
