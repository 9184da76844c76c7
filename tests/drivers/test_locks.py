"""What every driver must do on a real nats-server: locks and elections in buckets."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from jsproto.api_errors import MessageTTLDisabledError
from jsproto.errors import (
    Error,
    KeyNotFoundError,
    LocalProtocolError,
    LockLostError,
    LockTimeoutError,
)
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.test_buckets import new_bucket
from tests.drivers.test_facade import unique
from tests.drivers.test_reprs import shown
from tests.marks import promise

pytestmark = pytest.mark.anyio


async def test_a_block_holds_a_lock(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, marker_ttl=5) as (bucket, js):
        other = await js.bucket(bucket.name)
        lock = bucket.lock("job", ttl=60, owner="me")
        assert shown(lock) == f"<Lock job of bucket {bucket.name}: not held>"
        async with lock as held:
            assert held is lock
            assert (lock.name, lock.held, lock.token) == ("job", True, 1)
            assert shown(lock) == f"<Lock job of bucket {bucket.name}: held with token 1>"
            with pytest.raises(LockTimeoutError, match="another one's: 'me'"):
                await other.lock("job", ttl=60, wait=0).acquire()
            await lock.renew()
            assert (lock.held, lock.token) == (True, 1)
            assert await lock.put("k", b"1") == 3
            assert (await bucket.get("k")).value == b"1"
            await lock.delete("k")
            with pytest.raises(KeyNotFoundError):
                await bucket.get("k")
        assert not lock.held
        async with other.lock("job", ttl=60, wait=0) as second:
            assert second.token > lock.token
        with pytest.raises(ZeroDivisionError):
            async with lock:
                raise ZeroDivisionError
        assert not lock.held
        assert await other.lock("job", ttl=60, wait=1).acquire() > second.token


async def guarded(bucket: Any, *guard: Any) -> None:
    """A transaction that writes ``k`` under this guard."""
    async with bucket.transaction() as tx:
        await tx.guard(*guard)
        await tx.put("k", b"guarded")


@promise("the server refuses them when the lock is lost")
async def test_an_old_holder(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, marker_ttl=5) as (bucket, js):
        other = await js.bucket(bucket.name)
        old, new = bucket.lock("job", ttl=1), other.lock("job", ttl=60)
        await old.acquire()
        assert await new.acquire() > old.token  # when that of the other has expired
        assert (old.held, new.held) == (False, True)
        for verb, arguments in (("put", ("k", b"old")), ("delete", ("k",)), ("renew", ()), ("release", ())):
            with pytest.raises(LockLostError, match="token 1 holds it no longer"):
                await getattr(old, verb)(*arguments)
        with pytest.raises(LockLostError, match="token 1"):
            await guarded(bucket, old)
        await new.put("k", b"new")
        assert (await bucket.get("k")).value == b"new"
        await new.renew()
        await guarded(bucket, new)
        assert (await bucket.get("k")).value == b"guarded"
        for wrong in ((new, 1), (bucket.lock("job", ttl=60),)):
            with pytest.raises(LocalProtocolError):
                await guarded(bucket, *wrong)
        await new.release()
        await new.release()


@promise("So does the end of a block, even if the block has caught one.")
@pytest.mark.parametrize("caught", [False, True])
async def test_a_block_that_has_lost_its_lock(server: Any, connect: Connect, caught: bool) -> None:
    """Its end tells, even if the block has caught what a verb told."""
    async with new_bucket(server, connect, marker_ttl=5) as (bucket, _js):

        async def lose(lock: Any, verb: str) -> None:
            async with lock:
                await bucket.delete("job")
                if caught:
                    with pytest.raises(LockLostError):
                        await lock.renew()
                if verb:
                    await getattr(lock, verb)()

        lock = bucket.lock("job", ttl=60)
        with pytest.raises(LockLostError, match="lock 'job' was lost"):
            await lose(lock, "")
        if caught:
            await lose(lock, "acquire")
            assert not lock.held


async def test_one_that_is_kept_alive(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, marker_ttl=5) as (bucket, _js):
        lock = bucket.lock("job", ttl=1, keep_alive=True)
        async with lock:
            with pytest.raises(LockTimeoutError):
                await bucket.lock("job", ttl=1, wait=1.5).acquire()
            assert lock.held


async def test_a_caller_that_gives_up(server: Any, connect: Connect, driver: str) -> None:
    if driver.startswith("sync"):
        pytest.skip("a thread cannot be cancelled")
    async with new_bucket(server, connect, marker_ttl=5) as (bucket, js):
        first = bucket.lock("job", ttl=60)
        waiting = bucket.lock("job", ttl=60)
        async with first:
            with anyio.move_on_after(0.2) as scope:
                await waiting.acquire()
            assert scope.cancelled_caught
        async with first:  # nobody else has it
            with anyio.move_on_after(0) as scope:
                await bucket.lock("job", ttl=60).acquire()
        with anyio.move_on_after(0.1):
            async with first:
                await anyio.sleep(30)
        assert await (await js.bucket(bucket.name)).lock("job", ttl=60, wait=10).acquire()


async def test_an_election(server: Any, connect: Connect) -> None:
    async with new_bucket(server, connect, marker_ttl=5) as (bucket, _js):
        first = bucket.election("leader", ttl=60, id="a")
        async with first:
            assert (first.id, first.name, first.is_leader) == ("a", "leader", False)
            assert await first.leader() is None
            token = await first.campaign()
            assert first.is_leader
            await first.renew()
            await guarded(bucket, first)
            async with connect(server.url) as nc:
                rival = await nc.jetstream().bucket(bucket.name)
                second = rival.election("leader", ttl=60, id="b")
                with pytest.raises(LockTimeoutError, match="'a'"):
                    await second.campaign(wait=0)
                assert await second.leader() == "a"
                async with await rival.watch("leader") as watcher:
                    assert second.leader_of(await watcher.next_update()) == "a"
                    assert await watcher.next_update() is None
                    await first.resign()
                    assert second.leader_of(await watcher.next_update()) is None
                    assert not first.is_leader
                    assert await second.campaign() > token
                    with pytest.raises(LocalProtocolError, match="election 'leader' is not held: win a campaign first"):
                        await guarded(bucket, first)
                    assert second.leader_of(await watcher.next_update()) == "b"
                assert shown(second).startswith(f"<Election leader of bucket {bucket.name}: held with token")
                await second.resign()


async def test_what_a_lock_needs(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = nc.jetstream(), unique("B")
        await js.create_stream(f"KV_{name}", subjects=[f"$KV.{name}.>"], max_msgs_per_subject=1)
        bucket = await js.bucket(name)
        with pytest.raises(MessageTTLDisabledError, match="allow_msg_ttl=True"):
            await bucket.lock("job", ttl=5).acquire()
        await js.update_bucket(name, marker_ttl=1)
        async with bucket.lock("job", ttl=5) as lock:
            assert lock.held
        for bad in ({"ttl": 0.5}, {"ttl": 5, "wait": -1}, {"ttl": 5, "owner": 7}):
            with pytest.raises(LocalProtocolError):
                bucket.lock("job", **bad)
        with pytest.raises(LocalProtocolError, match="acquire it first"):
            await lock.renew()
        await js.delete_bucket(name)
        with pytest.raises(Error):
            await bucket.lock("job", ttl=5, timeout=0.5).acquire()


@promise("Waiting goes on over lost links, restarts and elections.")
async def test_a_lock_outlives_a_restart(own_server: NatsServer, connect: Connect) -> None:
    """Who waits goes on, and who holds it renews."""
    async with connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1, timeout=1.0) as nc:
        bucket = await nc.jetstream().create_bucket("B", marker_ttl=5)
        lock, other = bucket.lock("job", ttl=120), bucket.lock("job", ttl=120)
        await lock.acquire()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.acquire)
            own_server.stop()
            own_server.start()
            while True:  # the link is made again while somebody waits
                try:
                    await lock.renew()
                    break
                except LockLostError:
                    raise
                except Error:
                    pass
            assert lock.held
            assert not other.held
            await lock.release()
        assert other.token > lock.token


async def test_a_server_that_is_away(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1, timeout=0.5) as nc:
        bucket = await nc.jetstream().create_bucket("B", marker_ttl=5)
        own_server.stop()
        with pytest.raises(LockTimeoutError, match="no answer came") as raised:
            await bucket.lock("job", ttl=60, wait=0.2).acquire()
        assert raised.value.owner is None
        with pytest.raises(LockTimeoutError, match="election 'job' was not acquired"):
            await bucket.election("job", ttl=60, id="a").campaign(wait=0)
        own_server.start()
