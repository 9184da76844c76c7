"""What every driver must do on a real nats-server: keep keys and values in buckets, and share them with nats-py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import anyio
import pytest

from jsproto.api_errors import MessageTTLDisabledError, StreamNameExistError
from jsproto.errors import (
    BadBucketError,
    BucketExistsError,
    BucketNotFoundError,
    ConnectionClosedError,
    DirectReadsDisabledError,
    Error,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    LocalProtocolError,
    TimeoutError,
    ValueTooLargeError,
)
from jsproto.grammar.key_codecs import Base64Keys, PathKeys, chained
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import unique
from tests.drivers.test_reprs import shown

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def new_bucket(server: Any, connect: Connect, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A bucket of its own, and the JetStream that has it."""
    async with connect(server.url) as nc:
        js = nc.jetstream()
        bucket = await js.create_bucket(unique("B"), **options)
        yield bucket, js
        await js.delete_stream(bucket.stream)


def seen(entry: Any) -> Any:
    if entry is None:
        return None
    return entry.key, entry.operation if entry.is_marker else entry.value


async def take(watcher: Any, count: int) -> list[Any]:
    return [seen(await watcher.next_update(timeout=30)) for _ in range(count)]


# -- buckets -----------------------------------------------------------------------------------------------------------


async def test_the_life_of_a_bucket(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, history=3, ttl=timedelta(hours=1), description="d") as (bucket, js):
        assert shown(bucket) == f"<Bucket {bucket.name}>"
        assert bucket.stream == f"KV_{bucket.name}"
        assert (bucket.config.history, bucket.config.ttl, bucket.config.description) == (3, 3600.0, "d")
        assert (await js.bucket(bucket.name)).config.history == 3
        with pytest.raises(BucketExistsError, match="update_bucket") as raised:
            await js.create_bucket(bucket.name, history=4)
        assert isinstance(raised.value.__cause__, StreamNameExistError)
        await bucket.put("k", b"1")
        status = await bucket.status()
        assert (status.bucket, status.values, status.last_revision) == (bucket.name, 1, 1)
        assert bucket.name in await js.bucket_names()
        assert [each.values for each in await js.buckets() if each.bucket == bucket.name] == [1]
        changed = await js.update_bucket(bucket.name, history=5, ttl=60)
        assert (changed.config.history, changed.config.ttl, changed.config.description) == (5, 60.0, "d")
        assert changed.info.config.duplicate_window == 60.0
        changed = await js.update_bucket(bucket.name, ttl=None)
        assert (changed.config.ttl, changed.info.config.duplicate_window) == (None, 120.0)
        other = await js.create_bucket(f"{bucket.name}_2")
        assert await js.delete_bucket(other.name) is True
        with pytest.raises(BucketNotFoundError):
            await js.delete_bucket(other.name)
        with pytest.raises(BucketNotFoundError):
            await js.bucket(other.name)


async def test_a_bucket_that_is_not_there(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js = nc.jetstream(retry_attempts=0)
        bucket = await js.create_bucket(unique("B"))
        await js.delete_bucket(bucket.name)
        for verb, arguments, options in (
            ("get", ("k",), {}), ("get", ("k",), {"level": "direct"}), ("get", ("k",), {"level": "leader"}),
            ("get_many", (["k"],), {}), ("put", ("k", b""), {}), ("create", ("k", b""), {}),
            ("update", ("k", b"", 1), {}), ("delete", ("k",), {}), ("purge", ("k",), {}), ("keys", (), {}),
            ("history", (), {}), ("watch", (), {}), ("snapshot", (), {}), ("purge_deletes", (), {}), ("status", (), {}),
        ):  # fmt: skip
            with pytest.raises(BucketNotFoundError):
                await getattr(bucket, verb)(*arguments, **options)
        with pytest.raises(BucketNotFoundError):
            await js.update_bucket(bucket.name, history=2)


async def test_every_option(server: Any, connect: Connect) -> None:
    options: dict[str, Any] = {
        "description": "d", "history": 64, "ttl": 90, "marker_ttl": 5, "max_bytes": 10_000, "max_value_size": 1_000,
        "storage": "memory", "replicas": 1, "compression": False, "metadata": {"a": "b"}, "direct": False,
        "atomic": False, "republish": {"src": ">", "dest": "copies.>"},
    }  # fmt: skip
    async with new_bucket(server, connect, **options) as (bucket, _js):
        config = bucket.config
        assert (config.history, config.ttl, config.marker_ttl, config.max_bytes) == (64, 90.0, 5.0, 10_000)
        assert (config.max_value_size, config.storage, config.replicas) == (1_000, "memory", 1)
        assert (config.compression, config.direct, config.atomic) == (False, False, False)
        assert config.metadata["a"] == "b"
    async with new_bucket(server, connect, compression=True) as (bucket, _js):
        assert (bucket.config.compression, bucket.config.direct, bucket.config.atomic) == (True, True, True)


async def test_streams_that_are_no_buckets(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = nc.jetstream(), unique("KV_")
        await js.create_stream(name, subjects=[name])
        with pytest.raises(BadBucketError, match="max_msgs_per_subject"):
            await js.bucket(name.removeprefix("KV_"))
        await js.delete_stream(name)
        for bad in ("", "a.b", "a\n", "a b"):
            with pytest.raises(LocalProtocolError):
                await js.bucket(bad)
        with pytest.raises(LocalProtocolError, match="did you mean 'history'"):
            await js.create_bucket("B", histroy=1)


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_the_life_of_a_key(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, history=5) as (bucket, _js):
        assert await bucket.create("k.a", b"1") == 1
        with pytest.raises(KeyExistsError):
            await bucket.create("k.a", b"2")
        assert await bucket.update("k.a", b"2", 1) == 2
        with pytest.raises(KeyWrongLastSequenceError) as raised:
            await bucket.update("k.a", b"3", 1)
        assert raised.value.revision == 2
        for verb, arguments in (
            (bucket.update, ("k.a", b"3", "1")),
            (bucket.delete, ("k.a",)),
            (bucket.purge, ("k.a",)),
        ):
            with pytest.raises(LocalProtocolError, match="^last is a whole number"):
                await verb(*arguments, **({} if arguments[1:] else {"last": "1"}))
        assert await bucket.put("k.a", b"3") == 3
        entry = await bucket.get("k.a")
        assert (entry.bucket, entry.key, entry.value, entry.revision) == (bucket.name, "k.a", b"3", 3)
        assert (entry.operation, entry.size, entry.delta) == ("PUT", 1, None)
        assert entry.created.utcoffset() == timedelta(0)
        assert (await bucket.get("k.a", 2)).value == b"2"
        assert (await bucket.get("k.a", level="leader")).value == b"3"
        with pytest.raises(KeyWrongLastSequenceError):
            await bucket.delete("k.a", last=1)
        assert await bucket.delete("k.a", last=3) == 4
        with pytest.raises(KeyDeletedError) as deleted:
            await bucket.get("k.a")
        assert (deleted.value.operation, deleted.value.revision) == ("DEL", 4)
        assert [seen(each) for each in await bucket.history("k.a")] == [
            ("k.a", b"1"), ("k.a", b"2"), ("k.a", b"3"), ("k.a", "DEL"),
        ]  # fmt: skip
        assert await bucket.create("k.a", b"4") == 5
        assert await bucket.purge("k.a", last=5) == 6
        assert [seen(each) for each in await bucket.history()] == [("k.a", "PURGE")]
        with pytest.raises(KeyNotFoundError, match="no revision 1") as missing:
            await bucket.get("k.a", 1)
        assert missing.value.revision == 1
        await bucket.put("other", b"")
        with pytest.raises(KeyNotFoundError, match="is of 'other'") as missing:
            await bucket.get("k.a", 7)
        assert missing.value.revision == 7
        with pytest.raises(KeyNotFoundError, match="has no value") as missing:
            await bucket.get("k.b")
        assert missing.value.revision == 0
        assert await bucket.purge_deletes() == 0
        assert await bucket.purge_deletes(older_than=timedelta(0)) == 1
        assert await bucket.create("k.a", b"5") == 8  # after a purge of the stream there is no marker
        for key in ("", ".a", "a.", "a..b", "a b", "*", "ä", "a\n"):
            with pytest.raises(LocalProtocolError):
                await bucket.put(key, b"")


async def test_keys_that_expire(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, marker_ttl=60) as (bucket, _js):
        async with await bucket.watch(updates_only=True) as watcher:
            await bucket.create("k", b"1", ttl=1)
            assert await take(watcher, 2) == [("k", b"1"), ("k", "PURGE")]
        with pytest.raises(KeyDeletedError):
            await bucket.get("k")
        assert await bucket.keys() == []
        assert await bucket.create("k", b"2") == 3
        await bucket.purge("k", ttl=timedelta(seconds=1))
        with anyio.fail_after(30):
            while await bucket.history("k"):
                await anyio.sleep(0.1)


async def test_a_bucket_without_times_to_live(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = nc.jetstream(), unique("B")
        await js.create_stream(f"KV_{name}", subjects=[f"$KV.{name}.>"], max_msgs_per_subject=1)
        bucket = await js.bucket(name)
        assert (bucket.config.direct, bucket.config.atomic) == (False, False)
        with pytest.raises(MessageTTLDisabledError, match="allow_msg_ttl"):
            await bucket.create("k", b"1", ttl=5)
        await bucket.put("k", b"1")
        assert (await bucket.get("k")).value == b"1"
        assert (await bucket.get("k", 1)).value == b"1"
        with pytest.raises(DirectReadsDisabledError, match=rf"update_bucket\('{name}', direct=True\)"):
            await bucket.get_many(["k"])
        await js.update_bucket(name, direct=True)
        assert list(await bucket.get_many(["k"])) == ["k"]
        await js.delete_bucket(name)


async def test_many_keys(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, _js):
        for number in range(10):
            await bucket.put(f"k.{number}", b"%d" % number)
        await bucket.delete("k.3")
        found = await bucket.get_many(f"k.{number}" for number in (1, 3, 5, 99))
        assert {key: entry.value for key, entry in found.items()} == {"k.1": b"1", "k.5": b"5"}
        assert await bucket.get_many([]) == {}
        found = await bucket.get_many([f"k.{number}" for number in range(2000)])
        assert len(found) == 9
        assert await bucket.keys() == [f"k.{number}" for number in range(10) if number != 3]
        assert await bucket.keys("k.1", "k.2", "none") == ["k.1", "k.2"]
        assert await bucket.keys("k.>", "k.*", timeout=30) == await bucket.keys()
        with pytest.raises(LocalProtocolError):
            await bucket.keys("a..b")
        with pytest.raises(LocalProtocolError, match="separate arguments"):
            await bucket.keys(["k.1"])
        with pytest.raises(TimeoutError):
            await bucket.keys(timeout=0)


async def test_keys_that_are_reserved(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, js):
        everything = await js.bucket(bucket.name, validate_keys=False)
        assert await everything.put("_kv.guard", b"1") == 1
        assert await bucket.put("k", b"2") == 2
        for verb in (bucket.put, bucket.create):
            with pytest.raises(LocalProtocolError, match="reserved"):
                await verb("_kv.guard", b"")
        with pytest.raises(LocalProtocolError):
            await bucket.keys("_kv.>")
        assert (await bucket.keys(), await everything.keys()) == (["k"], ["_kv.guard", "k"])
        assert ([*await bucket.snapshot()], [*await everything.snapshot()]) == (["k"], ["_kv.guard", "k"])
        async with await bucket.watch() as watcher:
            assert await take(watcher, 2) == [("k", b"2"), None]
            await everything.delete("_kv.guard")
            await bucket.put("k", b"3")
            assert await take(watcher, 1) == [("k", b"3")]
        assert await bucket.purge_deletes(older_than=0) == 1


async def test_other_spellings(server: Any, connect: Connect) -> None:
    codec = chained(PathKeys(), Base64Keys())
    async with new_bucket(server, connect, codec=codec) as (bucket, js):
        await bucket.put("/etc/größe", b"1")
        assert (await bucket.get("/etc/größe")).key == "/etc/größe"
        assert await bucket.keys("/etc/*") == ["/etc/größe"]
        assert (await (await js.bucket(bucket.name)).keys())[0].isascii()
        await js.publish(f"$KV.{bucket.name}.ä:*", b"2")
        plain = await js.bucket(bucket.name, validate_keys=False)
        assert (await plain.get("ä:*")).value == b"2"
        await bucket.delete("/etc/größe")
        await plain.delete("ä:*")
        assert await bucket.purge_deletes(older_than=0) == 2


# -- watching ----------------------------------------------------------------------------------------------------------


async def test_a_watch(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, history=3) as (bucket, _js):
        async with await bucket.watch() as watcher:
            assert await take(watcher, 1) == [None]
            await bucket.put("a", b"1")
            assert await take(watcher, 1) == [("a", b"1")]
            with pytest.raises(TimeoutError):
                await watcher.next_update(timeout=0.01)
        with pytest.raises(LocalProtocolError):
            await bucket.watch(updates_only=True, history=True)


@pytest.mark.parametrize(
    ("options", "before"),
    [
        ({"history": True}, [("a", b"1"), ("b", b"22"), ("a", b"3"), ("b", "DEL"), None]),
        ({"ignore_deletes": True}, [("a", b"3"), None]),
        ({"updates_only": True}, []),
        ({"meta_only": True}, [("a", b""), ("b", "DEL"), None]),
        ({"since": 3}, [("a", b"3"), ("b", "DEL"), None]),
        ({"since": 99}, [None]),
    ],
)
async def test_what_a_watcher_sees(server: Any, connect: Connect, options: dict[str, Any], before: list[Any]) -> None:
    async with new_bucket(server, connect, history=3) as (bucket, _js):
        for key, value in (("a", b"1"), ("b", b"22"), ("a", b"3")):
            await bucket.put(key, value)
        await bucket.delete("b")
        async with await bucket.watch(**options) as watcher:
            assert await take(watcher, len(before)) == before
            if options != {"since": 99}:
                await bucket.put("c", b"5")
                assert [key for key, _ in await take(watcher, 1)] == ["c"]


async def test_filters_and_the_end_of_a_watch(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, js):
        for key in ("a.1", "a.2", "b.1"):
            await bucket.put(key, b"1")
        watcher = await bucket.watch("a.2", "b.*", "b.1")
        assert await take(watcher, 3) == [("a.2", b"1"), ("b.1", b"1"), None]
        assert shown(watcher) == f"<KeyWatcher of bucket {bucket.name}: 0 waiting>"
        await watcher.stop()
        await watcher.stop()
        assert [entry async for entry in watcher] == []
        with pytest.raises(ConnectionClosedError):
            await watcher.next_update()
        assert isinstance(watcher.error, ConnectionClosedError)
        assert watcher.pending == 0
        with anyio.fail_after(30):
            while (await js.stream_info(bucket.stream)).state.consumer_count:
                await anyio.sleep(0.01)
        async with await bucket.watch("none") as watcher:
            async for entry in watcher:
                assert entry is None
                break


async def test_a_bucket_that_is_deleted_ends_its_watchers(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js = nc.jetstream()
        bucket = await js.create_bucket(unique("B"))
        async with await bucket.watch(heartbeat=0.1) as watcher:
            assert await take(watcher, 1) == [None]
            await js.delete_bucket(bucket.name)
            with pytest.raises(BucketNotFoundError):
                await watcher.next_update(timeout=60)
            assert isinstance(watcher.error, BucketNotFoundError)


async def test_a_watch_goes_on_after_a_restart(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1, timeout=1.0) as nc:
        bucket = await nc.jetstream().create_bucket("B", ttl=3600)
        await bucket.put("a", b"1")
        async with await bucket.watch() as watcher:
            assert await take(watcher, 2) == [("a", b"1"), None]
            own_server.stop()
            own_server.start()
            while True:  # the link is made again while somebody waits
                with suppress(Error):
                    await bucket.put("b", b"2")
                    break
            assert await take(watcher, 1) == [("b", b"2")]


# -- mirrors -----------------------------------------------------------------------------------------------------------


async def test_mirrors_and_sources(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, js):
        await bucket.put("k", b"1")
        mirror = await js.create_bucket(f"{bucket.name}_M", mirror=bucket.name)
        source = await js.create_bucket(f"{bucket.name}_S", sources=[bucket.name])
        assert {mirror.name, source.name} <= set(await js.bucket_names())
        with anyio.fail_after(30):
            for copy in (mirror, source):
                while await copy.keys() != ["k"]:
                    await anyio.sleep(0.05)
        entry = await mirror.get("k")
        assert (entry.bucket, entry.key, entry.value) == (mirror.name, "k", b"1")
        assert (await source.get("k")).value == b"1"
        await mirror.put("k", b"2")
        assert (await bucket.get("k")).value == b"2"
        async with await mirror.watch() as watcher:
            while seen(await watcher.next_update(timeout=30)) != ("k", b"2"):
                pass
        await source.put("own", b"3")
        assert (await source.get("own")).value == b"3"
        for copy in (mirror, source):
            await js.delete_bucket(copy.name)


async def test_headers_count_in_the_size_of_a_value(server: Any, connect: Connect) -> None:
    """The size that the error has is the least that the bucket must allow."""
    async with new_bucket(server, connect, max_value_size=10) as (bucket, js):
        await bucket.put("k", b"x" * 10)
        for key, verb, *arguments in (("new", "create", b"x"), ("k", "update", b"x", 1), ("k", "purge")):
            for shorter in (1, 0):
                with pytest.raises(ValueTooLargeError, match=f"key '{key}'") as raised:
                    await getattr(bucket, verb)(key, *arguments)
                await js.update_bucket(bucket.name, max_value_size=raised.value.size - shorter)
            await getattr(bucket, verb)(key, *arguments)
            await js.update_bucket(bucket.name, max_value_size=10)
        with pytest.raises(ValueTooLargeError, match="key 'job'"):
            await bucket.lock("job", ttl=5).acquire()
