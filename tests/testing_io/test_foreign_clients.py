"""nats-py, another client, against the server in memory.

Not here: clients that need fields of INFO which the role does not send yet.
"""

from __future__ import annotations

import asyncio
from typing import Any

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def nc(jetstream_server: Any) -> Any:
    connection = await nats.connect(jetstream_server.url)
    yield connection
    await connection.close()


async def test_core_nats(nc: Any) -> None:
    async def answer(message: Any) -> None:
        await message.respond(message.data.upper())

    await nc.subscribe("question", cb=answer)
    assert (await nc.request("question", b"hello", timeout=5)).data == b"HELLO"
    with pytest.raises(nats.errors.NoRespondersError):
        await nc.request("nobody", b"")


async def test_publish_fetch_and_acknowledge(nc: Any) -> None:
    js = nc.jetstream()
    await js.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    acks = await asyncio.gather(*(js.publish(f"orders.{n % 2}", b"%d" % n) for n in range(100)))
    assert {ack.seq for ack in acks} == set(range(1, 101))
    sub = await js.pull_subscribe("orders.1", durable="billing")
    messages = await sub.fetch(50, timeout=5)
    assert len(messages) == 50
    for message in messages:
        await message.ack_sync(timeout=5)
    info = await js.consumer_info("ORDERS", "billing")
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    assert (await js.get_msg("ORDERS", 3)).data == b"2"
    assert (await js.account_info()).streams == 1


async def test_push_and_ordered_consumers(nc: Any) -> None:
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s.*"])
    for number in range(10):
        await js.publish("s.a", b"%d" % number)
    pushed = await js.subscribe("s.*", config=ConsumerConfig(ack_wait=30), manual_ack=True)
    ordered = await js.subscribe("s.a", ordered_consumer=True)
    for number in range(10):
        message = await pushed.next_msg(timeout=5)
        assert message.data == b"%d" % number
        await message.ack()
        assert (await ordered.next_msg(timeout=5)).data == b"%d" % number


async def test_a_key_value_bucket(nc: Any) -> None:
    js = nc.jetstream()
    bucket = await js.create_key_value(bucket="CONFIG", history=3)
    assert await bucket.create("port", b"80") == 1
    with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
        await bucket.create("port", b"81")
    assert await bucket.update("port", b"8080", last=1) == 2
    assert (await bucket.get("port")).value == b"8080"
    assert [entry.value for entry in await bucket.history("port")] == [b"80", b"8080"]
    await bucket.put("host", b"here")
    assert sorted(await bucket.keys()) == ["host", "port"]
    watcher = await bucket.watch("port")
    assert (await watcher.updates(timeout=5)).value == b"8080"
    await bucket.delete("port")
    with pytest.raises(nats.js.errors.KeyNotFoundError):
        await bucket.get("port")
    assert [await js.delete_key_value("CONFIG")] == [True]


async def test_an_object_store(nc: Any) -> None:
    js = nc.jetstream()
    store = await js.create_object_store("FILES")
    content = bytes(range(256)) * 2_000
    await store.put("big", content)
    assert (await store.get("big")).data == content
    assert [info.name for info in await store.list()] == ["big"]
    await store.delete("big")
    with pytest.raises(nats.js.errors.ObjectNotFoundError):
        await store.get("big")
    assert await js.delete_object_store("FILES") is True
