"""What every driver must do on a real nats-server: keep objects, and carry them from and to files and iterators."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from jsproto.errors import (
    BucketNotFoundError,
    DigestMismatchError,
    LocalProtocolError,
    ObjectChangedError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectLinkError,
    ObjectNotFoundError,
    ObjectStoreSealedError,
    TimeoutError,
    WrongTypeError,
)
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import unique
from tests.drivers.test_reprs import shown
from tests.drivers.threaded import Awaitable
from tests.marks import promise

pytestmark = pytest.mark.anyio

DATA = bytes(range(251)) * 4_000  # 1,004,000 bytes


@asynccontextmanager
async def new_store(server: Any, connect: Connect, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A bucket of its own, and the JetStream that has it."""
    async with connect(server.url) as nc:
        js = nc.jetstream()
        store = await js.create_object_store(unique("F"), **options)
        yield store, js
        await js.delete_stream(store.stream)


async def test_the_life_of_a_bucket(server: Any, connect: Connect) -> None:
    async with new_store(server, connect, description="d", ttl=3600) as (store, js):
        assert shown(store) == f"<ObjectStore {store.name}>"
        assert store.stream == f"OBJ_{store.name}"
        assert (store.config.description, store.config.ttl, store.config.batched) == ("d", 3600.0, True)
        assert (await js.object_store(store.name)).config.ttl == 3600.0
        await store.put("x", DATA)
        status = await store.status()
        assert status.bucket == store.name
        assert status.size > len(DATA)
        assert store.name in [each.bucket for each in await js.object_stores()]
        changed = await js.update_object_store(store.name, description="e", batched=False)
        assert (changed.config.description, changed.config.batched, changed.config.ttl) == ("e", False, 3600.0)
        other = await js.create_object_store(f"{store.name}_2")
        assert await js.delete_object_store(other.name) is True
        with pytest.raises(BucketNotFoundError):
            await js.object_store(other.name)
        for verb in (other.list, other.gc, other.status):
            with pytest.raises(BucketNotFoundError):
                await verb()
        with pytest.raises(BucketNotFoundError):
            await other.put("x", b"")


@pytest.mark.parametrize("batched", [True, False])
async def test_sources(server: Any, connect: Connect, tmp_path: Path, batched: bool) -> None:
    async def from_loop() -> AsyncIterator[bytes]:
        for at in range(0, len(DATA), 100_000):
            yield DATA[at : at + 100_000]

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(DATA), 7_001):
            yield DATA[at : at + 7_001]

    class Short(io.RawIOBase):
        """A file that gives less than it is asked for."""

        def __init__(self) -> None:
            self.file = io.BytesIO(DATA)

        def read(self, size: int = -1) -> bytes:
            return self.file.read(min(size, 10_000))

    path = tmp_path / "data"
    path.write_bytes(DATA)
    async with new_store(server, connect, batched=batched) as (store, js):
        sources = [DATA, bytearray(DATA), memoryview(DATA), io.BytesIO(DATA), Short(), pieces(), list(pieces())]
        if not isinstance(js, Awaitable):
            sources.append(from_loop())
        for number, source in enumerate(sources):
            seen: list[int] = []
            info = await store.put(f"{number}", source, chunk_size=65_536, progress=seen.append)
            assert (info.size, info.chunks) == (len(DATA), 16)
            assert (len(seen), seen[-1]) == (16, len(DATA))
            assert await store.get(f"{number}") == DATA
        with path.open("rb") as file:
            file.seek(1_000_000)
            assert (await store.put("tail", file)).size == 4_000
        assert (await store.put_file("file", path)).size == len(DATA)
        assert await store.get("file") == DATA
        assert (await store.put("empty", b"")).chunks == 0
        assert await store.get("empty") == b""
        for wrong in ("text", 5, ["text"], None, io.StringIO("text")):
            with pytest.raises(WrongTypeError, match="an object is put from"):
                await store.put("wrong", wrong)
        with pytest.raises(ObjectNotFoundError):
            await store.get("wrong")
        assert await store.gc(older_than=0) == 0


async def test_getting(server: Any, connect: Connect, tmp_path: Path) -> None:
    async with new_store(server, connect) as (store, _js):
        put = await store.put("ä b", DATA, chunk_size=10_000)
        spans = (0, None), (5, 15), (9_999, 30_001), (1_003_999, None), (1_003_999, 10**9), (7, 7), (10**9, None)
        for start, end in spans:
            assert await store.get("ä b", start=start, end=end) == DATA[start:end]
        seen: list[int] = []
        path = tmp_path / "copy"
        info = await store.get_file("ä b", path, progress=seen.append)
        assert (info.nuid, path.read_bytes() == DATA, seen[-1]) == (put.nuid, True, len(DATA))
        assert list(tmp_path.iterdir()) == [path]
        with pytest.raises(ObjectNotFoundError):
            await store.get_file("none", path)
        assert (path.read_bytes() == DATA, list(tmp_path.iterdir())) == (True, [path])
        reader = await store.open("ä b")
        assert shown(reader) == f"<ObjectReader of 'ä b': 0 of {len(DATA)} bytes>"
        async with reader:
            pieces = [piece async for piece in reader]
        assert (b"".join(pieces) == DATA, len(pieces), reader.received) == (True, 101, len(DATA))
        assert reader.info.nuid == put.nuid
        async with await store.open("ä b") as reader:
            async for _ in reader:
                break
        await reader.close()
        with pytest.raises(LocalProtocolError):
            await store.get("ä b", start=-1)


async def test_descriptions(server: Any, connect: Connect) -> None:
    async with new_store(server, connect) as (store, js):
        began = datetime.now(UTC)
        put = await store.put("x", b"1", description="d", headers={"A": "1"}, metadata={"m": "y"})
        info = await store.info("x")
        assert (info.description, info.headers, info.metadata, info.nuid) == ("d", {"A": ["1"]}, {"m": "y"}, put.nuid)
        assert abs((info.modified - began).total_seconds()) < 60
        assert abs((put.modified - began).total_seconds()) < 60
        assert (await store.update_meta("x", description=None, metadata={"m": "z"})).metadata == {"m": "z"}
        assert (await store.info("x", level="leader")).headers == {"A": ["1"]}
        assert (await store.rename("x", "y")).nuid == put.nuid
        assert await store.get("y") == b"1"
        link = await store.link("l", "y")
        assert (link.link.bucket, link.link.name) == (store.name, "y")
        assert await store.get("l") == b"1"
        await store.link_bucket("b", store.name)
        with pytest.raises(ObjectLinkError):
            await store.get("b")
        with pytest.raises(ObjectLinkError):
            await store.link("l2", "none", bucket=store.name)
        assert [each.name for each in await store.list()] == ["y", "l", "b"]
        assert (await store.delete("y")).deleted
        with pytest.raises(ObjectNotFoundError):
            await store.info("y")
        assert (await store.info("y", deleted=True)).deleted
        assert [each.name for each in await store.list(deleted=True)] == ["l", "b", "y"]
        await js.publish(f"$O.{store.name}.C.orphan", b"1")
        assert await store.gc() == 0
        assert await store.gc(older_than=0) == 1
        assert (await store.seal()).config.sealed
        with pytest.raises(ObjectStoreSealedError):
            await store.put("z", b"1")


@promise("only if there is no object of this name")
async def test_conditions(server: Any, connect: Connect) -> None:
    async with new_store(server, connect) as (store, _js):
        first = await store.put("x", b"1", create=True)
        with pytest.raises(ObjectExistsError):
            await store.put("x", b"2", create=True)
        with pytest.raises(ObjectChangedError):
            await store.put("x", b"2", if_revision=first.revision + 1)
        await store.put("x", b"2", if_revision=first.revision)
        assert await store.get("x") == b"2"


@promise("Readers have the old object until then.")
@promise("A put that fails removes its chunks, or says in an `ObjectChunksLeftError` that some are left.")
async def test_a_source_that_fails(server: Any, connect: Connect) -> None:
    def failing() -> Iterator[bytes]:
        yield DATA
        raise ZeroDivisionError

    async with new_store(server, connect) as (store, js):
        await store.put("x", b"old")
        with pytest.raises(ZeroDivisionError):
            await store.put("x", failing())
        with pytest.raises(ZeroDivisionError):
            await store.put("x", DATA, progress=lambda size: 1 // 0)
        assert await store.get("x") == b"old"
        assert len(await js.stream_subjects(store.stream, f"$O.{store.name}.C.>")) == 1


@promise("`get` and `get_file` check number, size and digest.")
@promise("`get_file` writes beside the file, and replaces it once all is there.")
async def test_damage(server: Any, connect: Connect, tmp_path: Path) -> None:
    async with new_store(server, connect) as (store, js):
        info = await store.put("x", DATA)
        subject = f"$O.{store.name}.C.{info.nuid}"
        third = await js.get_msg(store.stream, 3, next=True, subject=subject)
        await js.delete_msg(store.stream, third.seq)
        with pytest.raises(ObjectDamagedError, match="chunk 2 is missing"):
            await store.get("x")
        with pytest.raises(ObjectDamagedError):
            await store.get_file("x", tmp_path / "x")
        assert list(tmp_path.iterdir()) == []
        info = await store.put("y", b"1")
        await js.purge_stream(store.stream, subject=f"$O.{store.name}.C.{info.nuid}")
        await js.publish(f"$O.{store.name}.C.{info.nuid}", b"2")
        with pytest.raises(DigestMismatchError):
            await store.get("y")


async def test_an_object_that_is_replaced_while_it_is_read(server: Any, connect: Connect) -> None:
    async with new_store(server, connect, storage="memory") as (store, _js):
        await store.put("x", DATA * 15)
        async with await store.open("x") as reader:
            with pytest.raises(ObjectChangedError):
                await read_while(reader, store)
        assert await store.get("x") == b"new"


async def read_while(reader: Any, store: Any) -> None:
    """Replace the object after its first piece, and read on."""
    is_first = True
    async for _ in reader:
        if is_first:
            await store.put("x", b"new")
            is_first = False


@promise("`watch()` gives the present descriptions, then None, then what changes.")
async def test_watching(server: Any, connect: Connect) -> None:
    async with new_store(server, connect) as (store, js):
        async with await store.watch() as watcher:
            assert await watcher.next_update(timeout=30) is None
        await store.put("a", b"1")
        await store.put("b", b"2")
        await store.delete("a")
        await js.publish(f"$O.{store.name}.M.eA==", b"[")
        async with await store.watch() as watcher:
            assert shown(watcher).startswith(f"<ObjectWatcher of bucket {store.name}: ")
            assert await take(watcher, 3) == [("b", 1), ("a", "deleted"), None]
            await store.put("c", b"123")
            assert await take(watcher, 1) == [("c", 3)]
            with pytest.raises(TimeoutError):
                await watcher.next_update(timeout=0.01)
            await store.put("d", b"1")
            async for info in watcher:
                assert info.name == "d"
                break
            await watcher.stop()
            assert [info async for info in watcher] == []
        async with await store.watch(ignore_deletes=True) as watcher:
            assert await take(watcher, 4) == [("b", 1), ("c", 3), ("d", 1), None]
        async with await store.watch(updates_only=True) as watcher:
            await store.delete("c")
            assert await take(watcher, 1) == [("c", "deleted")]
            assert (watcher.pending, watcher.error) == (0, None)
        with pytest.raises(WrongTypeError):
            await store.watch(history=True)
        await js.delete_object_store(store.name)
        with pytest.raises(BucketNotFoundError):
            await store.watch()
        await js.create_object_store(store.name)


async def take(watcher: Any, count: int) -> list[Any]:
    infos = [await watcher.next_update(timeout=30) for _ in range(count)]
    return [info and (info.name, "deleted" if info.deleted else info.size) for info in infos]


async def test_a_put_that_is_cancelled_leaves_nothing(server: Any, connect: Connect) -> None:
    """On event loops. A thread cannot be cancelled."""

    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(100_000)

    async with new_store(server, connect, storage="memory") as (store, js):
        if isinstance(js, Awaitable):
            return
        with anyio.move_on_after(0.5) as scope:
            await store.put("x", endless())
        assert scope.cancelled_caught
        while await js.stream_subjects(store.stream):
            await anyio.sleep(0.01)
        assert await store.list() == []
