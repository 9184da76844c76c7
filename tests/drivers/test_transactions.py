"""What every driver must do on a real nats-server: change several keys of a bucket in one transaction, or none."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest

from jsproto.errors import (
    BucketNotFoundError,
    DirectReadsDisabledError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    LocalProtocolError,
    TransactionConflictError,
    TransactionsDisabledError,
    TransactionTooLargeError,
    WrongTypeError,
)
from jsproto.grammar.key_codecs import Base64Keys
from tests.drivers import threaded
from tests.drivers.conftest import Connect
from tests.drivers.test_buckets import new_bucket, seen
from tests.drivers.test_reprs import shown
from tests.marks import promise

pytestmark = pytest.mark.anyio


async def last_revision(bucket: Any) -> int:
    revision: int = (await bucket.status()).last_revision
    return revision


Step = tuple[Any, ...]
"""Whose verb, "tx" or "bucket", which one, and its arguments."""


async def play(bucket: Any, *steps: Step, tx: Any = None) -> Any:
    """A transaction that does these things. It is returned when it is stored."""
    async with tx or bucket.transaction() as tx:
        for who, verb, *arguments in steps:
            await getattr(tx if who == "tx" else bucket, verb)(*arguments)
    return tx


async def lose(bucket: Any, *steps: Step) -> TransactionConflictError:
    """The conflict that a transaction of these steps ends in."""
    tx: Any = bucket.transaction()
    with pytest.raises(TransactionConflictError) as raised:
        await play(bucket, *steps, tx=tx)
    assert raised.value is tx.error
    return raised.value  # type: ignore[no-any-return]


@promise("The end of the block stores all of it, or nothing.")
@promise("the end of its block stores all that was written, or nothing")
async def test_the_life_of_a_transaction(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, history=3) as (bucket, _js):
        for key in ("a", "b", "c"):
            await bucket.put(key, b"1")
        await bucket.delete("c")
        async with bucket.transaction() as tx:
            assert shown(tx) == f"<Transaction of bucket {bucket.name}: open>"
            assert ((await tx.get("a")).value, (await tx.get("a")).revision) == (b"1", 1)
            found = await tx.get_many(["a", "b", "c", "d"])
            assert {key: entry.value for key, entry in found.items()} == {"a": b"1", "b": b"1"}
            with pytest.raises(KeyDeletedError) as deleted:
                await tx.get("c")
            assert deleted.value.revision == 4
            with pytest.raises(KeyNotFoundError):
                await tx.get("d")
            with pytest.raises(KeyExistsError):
                await tx.create("a", b"2")
            await tx.put("a", b"2")
            await tx.delete("b")
            await tx.create("c", b"2")
            await tx.purge("d")
            await tx.put("e", b"")
            await tx.put("a", b"3")
            own = await tx.get("a")
            assert (own.value, own.revision) == (b"3", 0)
            assert sorted(await tx.get_many(["a", "b", "c", "e"])) == ["a", "c", "e"]
            with pytest.raises(KeyDeletedError):
                await tx.get("b")
            assert tx.revisions == {}
        assert tx.revisions == {"a": 5, "b": 6, "c": 7, "d": 8, "e": 9}
        assert tx.error is None
        assert [seen(each) for each in await bucket.history("*")] == [
            ("a", b"1"), ("b", b"1"), ("c", b"1"), ("c", "DEL"), ("a", b"3"), ("b", "DEL"), ("c", b"2"), ("d", "PURGE"),
            ("e", b""),
        ]  # fmt: skip
        with pytest.raises(LocalProtocolError, match="the transaction is committed"):
            await tx.get("a")


@promise("A block that is left with an error stores nothing.")
@promise("Nothing is stored before the end of the block.")
async def test_a_block_that_fails_stores_nothing(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, _js):
        tx = bucket.transaction()
        with pytest.raises(LocalProtocolError, match="a key is tokens"):
            await play(bucket, ("tx", "put", "a", b"1"), ("bucket", "get", ""), tx=tx)
        with pytest.raises(LocalProtocolError, match="the transaction is failed"):
            await tx.get("a")
        with pytest.raises(KeyNotFoundError):
            await play(bucket, ("tx", "put", "a", b"1"), ("tx", "get", "b"))
        async with bucket.transaction() as tx:
            assert await tx.get_many(["a"]) == {}
        assert tx.revisions == {}
        assert await last_revision(bucket) == 0


async def fails_on(bucket: Any, *steps: Step, verbs: tuple[str, ...]) -> None:
    """A transaction of these steps, after which each of ``verbs`` is refused for ``b``."""
    async with bucket.transaction() as tx:
        for who, verb, *arguments in steps:
            await getattr(tx if who == "tx" else bucket, verb)(*arguments)
        for verb in verbs:
            with pytest.raises(TransactionConflictError):
                await getattr(tx, verb)("b")


@promise("no update is lost")
@promise("A transaction that only reads shows one moment")
async def test_conflicts(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, _js):
        await bucket.put("a", b"1")
        await bucket.put("b", b"1")
        writes = (
            ("tx", "get_many", ["a", "b"]), ("bucket", "put", "a", b"2"), ("tx", "put", "a", b"3"),
            ("tx", "put", "b", b"3"),
        )  # fmt: skip
        error = await lose(bucket, *writes)
        assert error.keys == ("a",)
        error = await lose(bucket, *writes, ("tx", "guard", "c"))
        assert error.keys == ("a",)
        revision = await last_revision(bucket)
        assert error.revision == revision
        # a later read does not show the moment of the first one
        error = await lose(bucket, ("tx", "get", "a"), ("bucket", "put", "b", b"2"), ("tx", "get", "b"))
        assert error.keys == ("b",)
        # nor does a written key that is looked up at the end
        await lose(bucket, ("tx", "get", "a"), ("bucket", "put", "b", b"3"), ("tx", "put", "b", b"4"))
        again = ("get", "get", "delete")  # it ends as it began
        with pytest.raises(TransactionConflictError):
            await fails_on(bucket, ("tx", "get", "a"), ("bucket", "put", "b", b"4"), verbs=again)
        assert await last_revision(bucket) == revision + 3


@promise("Keys that were only read are checked as well, by exact names, on one server and on three.")
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
async def test_write_skew(server: Any, connect: Connect, isolation: str) -> None:
    """Two doctors may go off duty while the other one is on. Both go, unless what was read is checked."""
    async with new_bucket(server, connect) as (bucket, _js):
        await bucket.put("a", b"on")
        await bucket.put("b", b"on")
        first, second = bucket.transaction(isolation), bucket.transaction(isolation)

        async def skewed() -> None:
            async with first as tx:
                await tx.get_many(["a", "b"])
                await play(bucket, ("tx", "get_many", ["a", "b"]), ("tx", "put", "b", b"off"), tx=second)
                await tx.put("a", b"off")

        if isolation == "snapshot":
            await skewed()
        else:
            with pytest.raises(TransactionConflictError) as raised:
                await skewed()
            assert raised.value.keys == ("b",)
        assert second.revisions == {"b": 3}
        assert [entry.key for entry in await bucket.history() if entry.is_marker] == []  # that of the guard is hidden
        assert sorted(await bucket.keys()) == ["a", "b"]


def body_of(driver: str, fn: Callable[[Any], Coroutine[Any, Any, Any]]) -> Callable[[Any], Any]:
    """``fn`` as the driver calls it."""
    if driver.startswith("sync"):
        return lambda tx: anyio.from_thread.run(partial(fn, threaded.Awaitable(tx)))
    return fn


@promise("no update is lost")
@promise("calls `fn(tx)` again after a conflict, up to `tries=20` times")
async def test_transactions_that_are_tried_again(server: Any, connect: Connect, driver: str) -> None:
    async with new_bucket(server, connect) as (bucket, _js):
        await bucket.put("n", b"0")
        calls = []

        async def add(tx: Any) -> int:
            calls.append(tx)
            number = int((await tx.get("n")).value) + 1
            await tx.put("n", b"%d" % number)
            return number

        results = []

        async def run() -> None:
            for _ in range(5):
                results.append(await bucket.transact(body_of(driver, add), tries=100))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(run)
        assert sorted(results) == [*range(1, 21)]
        assert (await bucket.get("n")).value == b"20"
        assert len(calls) >= 20

        async def overtaken(tx: Any) -> None:
            await add(tx)
            await bucket.put("n", b"7")

        del calls[:]
        with pytest.raises(TransactionConflictError) as raised:
            await bucket.transact(body_of(driver, overtaken), tries=3)
        assert len(calls) == 3
        assert raised.value.keys == ("n",)

        async def fail(tx: Any) -> None:
            await tx.put("n", b"8")
            raise raised.value  # of another transaction

        with pytest.raises(TransactionConflictError):
            await bucket.transact(body_of(driver, fail))
        assert (await bucket.get("n")).value == b"7"
        with pytest.raises(LocalProtocolError):
            await bucket.transact(body_of(driver, add), tries=0)


async def test_functions_of_the_other_kind(server: Any, connect: Connect, driver: str) -> None:
    """A plain one on event loops, an async one on threads: it would store nothing, or in part."""

    def plain(tx: Any) -> Any:
        return None

    async def waits(tx: Any) -> Any:
        return None

    async with new_bucket(server, connect) as (bucket, _js):
        right, wrong = (plain, waits) if driver.startswith("sync") else (waits, plain)
        with pytest.raises(WrongTypeError, match="here a function is"):
            await bucket.transact(wrong)
        assert await bucket.transact(lambda tx: right(tx)) is None


@promise("checks a key that is not written, in either isolation")
async def test_a_write_behind_a_fence(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect) as (bucket, js):
        lock = await bucket.create("lock", b"me")
        async with bucket.transaction() as tx:
            await tx.guard("lock", lock)
            await tx.put("a", b"1")
        assert tx.revisions == {"a": 2}
        assert (await js.get_msg(bucket.stream, 2)).headers.get("Nats-Batch-Id") is None
        async with bucket.transaction() as tx:
            await tx.guard("lock", lock)
            await tx.put("a", b"2")
            await tx.put("b", b"2")
        assert tx.revisions == {"a": 3, "b": 4}
        await bucket.put("lock", b"you")
        for keys in (["a"], ["a", "b"]):
            error = await lose(bucket, ("tx", "guard", "lock", lock), *(("tx", "put", key, b"3") for key in keys))
            assert error.keys == ("lock",)
        await lose(bucket, ("tx", "get", "lock"), ("tx", "guard", "lock", lock))
        await lose(bucket, ("tx", "guard", "lock", lock), ("tx", "get", "lock"))
        await lose(bucket, ("tx", "guard", "lock", 1), ("tx", "guard", "lock", 2))
        async with bucket.transaction() as tx:
            await tx.guard("none", 0)
            await tx.put("a", b"3")
        assert (await bucket.get("b")).value == b"2"


async def test_what_a_bucket_does_not_allow(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, atomic=False, max_value_size=1_000) as (bucket, js):
        with pytest.raises(TransactionsDisabledError, match=r"update_bucket\('\w+', atomic=True\)"):
            await play(bucket, ("tx", "put", "a", b"1"), ("tx", "put", "b", b"1"))
        assert (await play(bucket, ("tx", "put", "a", b"1"))).revisions == {"a": 1}
        await js.update_bucket(bucket.name, atomic=True)
        await play(bucket, ("tx", "put", "a", b"1"), ("tx", "put", "b", b"1"))
        with pytest.raises(TransactionTooLargeError, match="key 'a' has 1[0-9]{3} bytes with its headers: max"):
            await play(bucket, ("tx", "put", "a", b"1" * 900))
        puts = [("tx", "put", f"k.{number}", b"") for number in range(1_001)]
        with pytest.raises(TransactionTooLargeError, match="1001 messages, 0 of them guards"):
            await play(bucket, *puts)
        tx = await play(bucket, *puts[:-1])
        assert tx.revisions["k.999"] == tx.revisions["k.0"] + 999
        await js.update_bucket(bucket.name, direct=False)
        with pytest.raises(DirectReadsDisabledError, match=r"update_bucket\('\w+', direct=True\)"):
            await play(bucket, ("tx", "get", "a"))
        await js.delete_bucket(bucket.name)
        with pytest.raises(BucketNotFoundError):
            await play(bucket, ("tx", "put", "a", b"1"))
        await js.create_bucket(bucket.name)


async def test_what_cannot_be(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, history=2) as (bucket, js):
        with pytest.raises(LocalProtocolError, match="isolation"):
            bucket.transaction("none")
        async with bucket.transaction() as tx:
            for bad in ("", "a b", 7):
                with pytest.raises(LocalProtocolError):
                    await tx.get(bad)
            with pytest.raises(WrongTypeError):
                await tx.put("a", "text")
            with pytest.raises(LocalProtocolError, match="history=1"):
                await tx.put("a", b"", ttl=5)
            with pytest.raises(LocalProtocolError):
                await tx.create("a", b"", ttl="soon")
            with pytest.raises(LocalProtocolError):
                await tx.guard("a", -1)
            with pytest.raises(WrongTypeError, match="keys are a list"):
                await tx.get_many("abc")
        for keys in ("abc", b"abc", 7):
            with pytest.raises(WrongTypeError, match="keys are a list"):
                await bucket.get_many(keys)
        outside = bucket.transaction()
        for verb, *arguments in (("put", "a", b""), ("get", "a"), ("get_many", ["a"]), ("guard", "a"), ("delete", "a")):
            with pytest.raises(LocalProtocolError, match=r"`with bucket\.transaction\(\) as tx:`"):
                await getattr(outside, verb)(*arguments)
        assert await last_revision(bucket) == 0
        mirror = await js.create_bucket(f"{bucket.name}_M", mirror=bucket.name)
        with pytest.raises(LocalProtocolError, match="mirror"):
            mirror.transaction()
        await js.delete_bucket(mirror.name)


async def test_keys_of_any_text_that_expire(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, codec=Base64Keys(), marker_ttl=1) as (bucket, _js):
        async with bucket.transaction("serializable") as tx:
            assert await tx.get_many(["ä b"]) == {}
            await tx.put("key one", b"1", ttl=60)
            await tx.create("key two", b"2", ttl=60)
            await tx.purge("key three", ttl=60)
        assert sorted(await bucket.keys()) == ["key one", "key two"]
        entry = await bucket.get("key one")
        assert (entry.value, entry.revision) == (b"1", tx.revisions["key one"])
        steps = [("tx", "get_many", ["ä b"]), ("tx", "put", "key one", b"1"), ("bucket", "put", "ä b", b"")]
        with pytest.raises(TransactionConflictError) as raised:
            await play(bucket, *steps, tx=bucket.transaction("serializable"))
        assert raised.value.keys == ("ä b",)
