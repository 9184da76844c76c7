"""Objects that nats-py and this library share on a real server: what one writes the other reads, verb by verb."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import nats
import nats.js.errors
import pytest
from nats.js.api import ObjectMeta, ObjectStoreConfig

from jsproto.errors import ObjectExistsError, ObjectNotFoundError, ObjectStoreSealedError
from jsproto_io.asyncio import ObjectStore, connect
from jsproto_io.nats_server import NatsServer

pytestmark = pytest.mark.anyio

DATA = bytes(range(251)) * 2_000  # 502,000 bytes: four chunks


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["theirs", "ours"])
def creator(request: pytest.FixtureRequest) -> str:
    """Who has created the bucket."""
    name: str = request.param
    return name


@asynccontextmanager
async def shared(server: NatsServer, creator: str) -> AsyncIterator[tuple[Any, ObjectStore, Any]]:
    """One bucket: what nats-py has of it, what we have, and our JetStream."""
    name = f"F{uuid4().hex[:12]}"
    client = await nats.connect(server.url)
    try:
        async with connect(server.url) as nc:
            js = nc.jetstream()
            if creator == "ours":
                ours = await js.create_object_store(name, description="d", ttl=3600)
                theirs = await client.jetstream().object_store(name)
            else:
                theirs = await client.jetstream().create_object_store(
                    name, config=ObjectStoreConfig(description="d", ttl=3600)
                )
                ours = await js.object_store(name)
                assert not ours.config.batched
            yield theirs, ours, js
            await js.delete_object_store(name)
    finally:
        await client.close()


async def test_the_bucket_itself(server: NatsServer, creator: str) -> None:
    async with shared(server, creator) as (theirs, ours, js):
        status, mine = await theirs.status(), await ours.status()
        assert (status.bucket, status.description, status.sealed) == (mine.bucket, "d", False)
        assert (mine.config.description, mine.config.ttl, mine.config.sealed) == ("d", 3600.0, False)
        await ours.put("x", DATA)
        assert (await theirs.status()).size == (await ours.status()).size > len(DATA)
        await theirs.seal()
        assert (await ours.status()).config.sealed
        with pytest.raises(ObjectStoreSealedError):
            await ours.put("y", b"1")
        assert await ours.get("x") == DATA
        other = await js.create_object_store(f"{ours.name}_2")
        their_other = await theirs._js.object_store(other.name)
        await other.put("x", b"1")
        await other.seal()
        assert (await their_other.status()).sealed
        await theirs._js.delete_object_store(other.name)


async def test_what_they_write_we_read(server: NatsServer, creator: str) -> None:
    async with shared(server, creator) as (theirs, ours, js):
        meta = ObjectMeta(description="d", headers={"A": "1"})
        put = await theirs.put("ä b", DATA, meta)
        info = await ours.info("ä b")
        assert (info.name, info.description, info.headers) == ("ä b", "d", {"A": ["1"]})
        assert (info.nuid, info.size, info.chunks, info.digest) == (put.nuid, len(DATA), 4, put.digest)
        assert await ours.get("ä b") == DATA
        assert await ours.get("ä b", start=400_000, end=400_100) == DATA[400_000:400_100]
        await theirs.put("ä b", b"new")
        assert await ours.get("ä b") == b"new"
        await theirs.put("empty", b"")
        assert await ours.get("empty") == b""
        await theirs.update_meta("ä b", ObjectMeta(name="ä b", description="e"))
        assert (await ours.info("ä b")).description == "e"
        assert [each.name for each in await ours.list()] == ["empty", "ä b"]
        async with await ours.watch() as watcher:
            names = [info and info.name for info in [await watcher.next_update(timeout=30) for _ in range(3)]]
            assert names == ["empty", "ä b", None]
            await theirs.delete("empty")
            marker = await watcher.next_update(timeout=30)
            assert marker is not None
            assert (marker.name, marker.deleted) == ("empty", True)
        with pytest.raises(ObjectNotFoundError):
            await ours.get("empty")
        stored = json.loads((await js.get_msg(ours.stream, subject=f"$O.{ours.name}.M.ZW1wdHk=")).data)
        assert stored["mtime"] == ""  # with which clients in Go fail
        assert await ours.gc(older_than=0) == 0
        stored = json.loads((await js.get_msg(ours.stream, subject=f"$O.{ours.name}.M.ZW1wdHk=")).data)
        assert stored["mtime"].startswith("0001") or stored["mtime"].startswith("2")
        with pytest.raises(nats.js.errors.ObjectNotFoundError):
            await theirs.get("empty")
        await theirs.delete("ä b")
        await ours.put("ä b", b"again", create=True)
        assert (await theirs.get("ä b")).data == b"again"


async def test_what_we_write_they_read(server: NatsServer, creator: str) -> None:
    async with shared(server, creator) as (theirs, ours, _js):
        put = await ours.put("ä b", DATA, description="d", headers={"A": "1"}, metadata={"m": "x"}, chunk_size=100_000)
        info = await theirs.get_info("ä b")
        assert (info.name, info.description, info.nuid, info.size, info.chunks) == ("ä b", "d", put.nuid, len(DATA), 6)
        assert (info.digest, info.bucket, info.is_link()) == (put.digest, ours.name, False)
        assert (await theirs.get("ä b")).data == DATA
        file = io.BytesIO()
        await theirs.get("ä b", writeinto=file)
        assert file.getvalue() == DATA
        await ours.put("empty", b"")
        assert not (await theirs.get("empty")).data
        await ours.update_meta("ä b", description="e")
        assert (await theirs.get_info("ä b")).description == "e"
        await ours.link("link", "ä b")
        assert (await theirs.get("link")).data == DATA
        await ours.link_bucket("bucket", ours.name)
        with pytest.raises(nats.js.errors.LinkIsABucketError):
            await theirs.get("bucket")
        assert [each.name for each in await theirs.list()] == ["empty", "ä b", "link", "bucket"]
        watcher = await theirs.watch()
        assert [(await watcher.updates(timeout=30)).name for _ in range(4)] == ["empty", "ä b", "link", "bucket"]
        assert await watcher.updates(timeout=30) is None
        await ours.rename("ä b", "c")
        assert (await theirs.get("c")).data == DATA
        with pytest.raises(nats.js.errors.ObjectNotFoundError):
            await theirs.get_info("ä b")
        await ours.delete("c")
        with pytest.raises(nats.js.errors.ObjectNotFoundError):
            await theirs.get("c")
        assert (await theirs.get_info("c", show_deleted=True)).deleted
        await watcher.stop()
        await theirs.put("c", b"over our marker")
        assert await ours.get("c") == b"over our marker"
        with pytest.raises(ObjectExistsError):
            await ours.put("c", b"", create=True)
        assert await ours.gc(older_than=0) == 0
