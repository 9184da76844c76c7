"""What type checkers must say about the three drivers. Checked by mypy, never run.

A line that must be an error carries an ignore with its code: mypy complains when it is no error (any more).
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import jsproto_io.asyncio
import jsproto_io.sync
import jsproto_io.trio
from jsproto import BatchAbandoned, PubAck, StoredMsg, StreamConfig, StreamInfo
from jsproto_io.nats_server import NatsServer


def threads() -> None:
    """jsproto_io.sync"""
    with jsproto_io.sync.connect("nats://localhost:4222", name="app", reader_thread=False) as nc:
        assert_type(nc, jsproto_io.sync.Connection)
        assert_type(nc.request("a", b"", timeout=timedelta(seconds=1)).data, bytes)
        assert_type(nc.flush(), float)
        nc.publish("a", "text")  # type: ignore[arg-type]
        with nc.subscribe("a", queue="q") as sub:
            for message in sub:
                assert_type(message.subject, str)
                assert_type(message.reply, str | None)
                message.respond(b"", headers={"One": "1", "Many": ["1", "2"]})
        js = nc.jetstream(timeout=1)
        assert_type(js.create_stream("S", subjects=["a"], max_age=timedelta(days=1), allow_batched=True), StreamInfo)
        assert_type(js.create_stream(StreamConfig("S")), StreamInfo)
        js.create_stream("S", subject=["a"])  # type: ignore[call-arg]
        js.create_stream("S", subjects="a", retention="forever")  # type: ignore[arg-type]
        with js.fast_publisher(gap="fail") as batch:
            assert_type(batch.publish_many(("a", b"") for _ in range(3)), int)
            assert_type(batch.commit(), PubAck)
        with js.atomic_batch(ack_every=100) as atomic:
            assert_type(atomic.add("a", b"", headers={"K": "v"}), int)
            assert_type(atomic.commit("a", b"").sequences, range)
        assert_type(js.publish_batch(("a", b"") for _ in range(3)), PubAck)
        js.publish_batch(["a", "b"])  # type: ignore[list-item]
        assert_type(list(js.get_batch("S", seq=1)), list[StoredMsg])
        assert_type(js.get_msg("S", 1, level="leader"), StoredMsg)
        js.get_msg("S", 1, level="any")  # type: ignore[arg-type]
        assert_type(list(js.get_last_msgs_for("S", ["a", "b"])), list[StoredMsg])
        assert_type(js.snapshot("S", at=7).up_to_seq, int | None)
        with js.consistent_session(token=b"", level="mirror", mirrors={"S": "M"}) as session:
            assert_type(session, jsproto_io.sync.ConsistentSession)
            assert_type(session.publish("a", b""), PubAck)
            assert_type(session.get_last_msg("S", "a", level="leader"), StoredMsg)
            assert_type(list(session.get_batch("S")), list[StoredMsg])
            assert_type(session.token.to_bytes(), bytes)
        js.consistent_session(level="follower")  # type: ignore[arg-type]


def options(nc: jsproto_io.sync.Connection, js: jsproto_io.sync.JetStream) -> None:
    """Every verb with options refuses a name, and a type, that it does not have. The other facades have the same."""
    nc.subscribe("a", nonsense=True)  # type: ignore[call-arg]
    js.publish("a", nonsense=True)  # type: ignore[call-arg]
    js.publish_async("a", nonsense=True)  # type: ignore[call-arg]
    js.async_publisher(nonsense=True)  # type: ignore[call-arg]
    js.fast_publisher(nonsense=True)  # type: ignore[call-arg]
    js.atomic_batch(nonsense=True)  # type: ignore[call-arg]
    js.publish_batch([], nonsense=True)  # type: ignore[call-arg]
    js.create_stream("S", nonsense=True)  # type: ignore[call-arg]
    js.update_stream("S", nonsense=True)  # type: ignore[call-arg]
    js.create_consumer("S", nonsense=True)  # type: ignore[call-arg]
    js.update_consumer("S", "C", nonsense=True)  # type: ignore[call-arg]
    js.get_msg("S", nonsense=True)  # type: ignore[call-arg]
    js.get_data("S", nonsense=True)  # type: ignore[call-arg]
    js.get_batch("S", nonsense=True)  # type: ignore[call-arg]
    js.get_last_msgs_for("S", "a", nonsense=True)  # type: ignore[call-arg]
    js.snapshot("S", nonsense=True)  # type: ignore[call-arg]
    js.subscribe("a", nonsense=True)  # type: ignore[call-arg]
    js.subscribe("a", ordered=True, if_missed="ask")  # type: ignore[arg-type]
    js.source("S", "C", nonsense=True)  # type: ignore[call-arg]
    pull = js.pull_subscribe("a", min_pending=1, ack_wait=timedelta(seconds=1))
    js.pull_subscribe("a", nonsense=True)  # type: ignore[call-arg]
    js.pull_subscribe_bind("C", "S", nonsense=True)  # type: ignore[call-arg]
    pull.fetch(max_bytes=1, heartbeat=timedelta(seconds=1))
    pull.fetch(nonsense=True)  # type: ignore[call-arg]
    pull.messages(max_msgs="9")  # type: ignore[arg-type]
    pull.messages(nonsense=True)  # type: ignore[call-arg]
    pull.consume(print, nonsense=True)  # type: ignore[call-arg]


async def asyncio() -> None:
    """jsproto_io.asyncio"""
    async with jsproto_io.asyncio.connect(user_credentials="user.creds", tls=True) as nc:
        assert_type(nc, jsproto_io.asyncio.Connection)
        assert_type((await nc.request("a")).data, bytes)
        nc.publish("a")  # type: ignore[unused-coroutine]
        js = nc.jetstream()
        assert_type(await js.create_stream("S", subjects=["a"]), StreamInfo)
        async with js.fast_publisher() as batch:
            assert_type(await batch.publish("a", b""), int)
            assert_type(await batch.commit(), PubAck)
        async with js.atomic_batch() as atomic:
            assert_type(await atomic.add("a", b""), int)
            assert_type(await atomic.commit_eob(), PubAck)
        assert_type([message async for message in js.get_batch("S")], list[StoredMsg])
        assert_type(await js.get_last_msg("S", "a"), StoredMsg)
        assert_type([message async for message in await js.snapshot("S")], list[StoredMsg])
        async with js.consistent_session() as session:
            assert_type(await session.get_msg("S", 1), StoredMsg)
            assert_type([m async for m in session.get_last_msgs_for("S", ["a"])], list[StoredMsg])


async def trio() -> None:
    """jsproto_io.trio"""
    async with jsproto_io.trio.connect(["nats://a", "nats://b"]) as nc:
        assert_type(nc, jsproto_io.trio.Connection)
        assert_type(await nc.flush(timeout=1), float)
        sub = await nc.subscribe("a")
        assert_type((await sub.next_msg()).data, bytes)
        js = nc.jetstream(publish_async_max_pending=100)
        assert_type(await js.publish("a", b"", msg_id="1"), PubAck)
        pending = await js.publish_async("a", b"")
        assert_type(await pending, PubAck)
        assert_type(await pending.result(timeout=1), PubAck)
        async with js.async_publisher() as publisher:
            assert_type(await publisher.publish_many([("a", b"")]), int)
        async with js.batch_advisories("S") as advisories:
            assert_type([advisory async for advisory in advisories], list[BatchAbandoned])


def server() -> None:
    """jsproto_io.nats_server"""
    with NatsServer(jetstream=False) as running:
        assert_type(running, NatsServer)
        assert_type(running.url, str)
