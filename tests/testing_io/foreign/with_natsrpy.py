"""natsrpy, a client in Rust: publishing, fetching, acknowledging, a key-value bucket."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


async def main(url: str) -> dict[str, Any]:
    from natsrpy import Nats  # type: ignore[import-not-found,unused-ignore]
    from natsrpy.js import (  # type: ignore[import-not-found,unused-ignore]
        AckPolicy,
        KVConfig,
        PullConsumerConfig,
        StreamConfig,
    )

    saw: dict[str, Any] = {}
    nats = Nats([url])
    await nats.startup()
    js = await nats.jetstream()
    stream = await js.streams.create(StreamConfig("ORDERS", ["orders.*"]))
    acks = [await js.publish(f"orders.{number % 2}", b"%d" % number, wait=True) for number in range(20)]
    saw["sequences"] = [ack.sequence for ack in acks]
    config = PullConsumerConfig(
        name="worker", durable_name="worker", ack_policy=AckPolicy.EXPLICIT, filter_subject="orders.1"
    )
    consumer = await stream.consumers.create(config)
    messages = await consumer.fetch(max_messages=10, timeout=10)
    saw["fetched"] = [[message.subject, bytes(message.payload).decode()] for message in messages]
    for message in messages:
        await message.ack(double=True)
    saw["again"] = len(await consumer.fetch(max_messages=1, timeout=0.2))
    info = await stream.get_info()
    saw["stored"] = [info.state.messages, info.state.first_sequence, info.state.last_sequence]
    bucket = await js.kv.create(KVConfig("CONFIG", history=3))
    await bucket.put("port", b"80")
    await bucket.put("port", b"8080")
    saw["value"] = bytes((await bucket.get("port")) or b"").decode()
    await bucket.delete("port")
    saw["deleted"] = await bucket.get("port") is None
    saw["bucket"] = await js.kv.delete("CONFIG")
    await nats.shutdown()
    return saw


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
