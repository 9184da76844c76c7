"""nats-core and nats-jetstream: streams, consumers, publishing, fetching, acknowledging, ordered reading."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


async def main(url: str) -> dict[str, Any]:
    from nats.client import connect  # type: ignore[import-not-found,unused-ignore]
    from nats.jetstream import new  # type: ignore[import-not-found,unused-ignore]

    saw: dict[str, Any] = {}
    client = await connect(url)
    subscription = await client.subscribe("question")
    await client.publish("question", b"hello", headers={"Color": "red"})
    message = await subscription.next(timeout=10)
    saw["core"] = [message.data.decode(), message.headers.get("Color")]
    js = new(client)
    stream = await js.create_stream(name="ORDERS", subjects=["orders.*"])
    acks = [await js.publish(f"orders.{number % 2}", b"%d" % number) for number in range(20)]
    saw["sequences"] = [ack.sequence for ack in acks]
    consumer = await stream.create_consumer(
        name="worker", durable_name="worker", ack_policy="explicit", filter_subject="orders.1"
    )
    batch = await consumer.fetch(max_messages=10, max_wait=10)
    saw["fetched"] = []
    async for message in batch:
        saw["fetched"].append([message.subject, message.data.decode()])
        await message.double_ack()
    info = await consumer.get_info()
    saw["consumer"] = [info.num_ack_pending, info.num_pending]
    stored = await stream.get_message(3)
    saw["stored"] = [stored.subject, stored.data.decode()]
    ordered = await stream.ordered_consumer(filter_subjects=["orders.0"])
    messages = await ordered.messages(max_wait=10)
    saw["ordered"] = []
    async for message in messages:
        saw["ordered"].append(message.data.decode())
        if len(saw["ordered"]) == 10:
            break
    await messages.stop()
    await stream.purge()
    saw["left"] = (await stream.get_info()).state.messages
    await js.delete_stream("ORDERS")
    await client.close()
    return saw


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
