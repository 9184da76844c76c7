"""Other clients doing the same jobs, as an application would write it.

What they lack is written by hand:
 * nats-py has no fast ingest. Its atomic batches are made of headers.
 * nats-py has no Direct Get in batches: pages are requested by hand, on a subscription. That is iterated over, as with
   all other clients, or has a callback, which costs it less and has no back-pressure.
 * nats-py's ordered consumer is iterated over, or has a callback.
 * nats-py pulls without callbacks. Its callback is that of a push consumer, acknowledged as it returns.
   nats-jetstream has an iterator.
 * nats-jetstream-extra (with nats-jetstream and nats-core) has both. To publish ahead it needs many tasks.

Peers need not be installed, so they are imported by name and are untyped here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tests.bench.task import FETCH, FLOW, PAGE, WINDOW, Run, Task, batches

# -- nats-py -----------------------------------------------------------------------------------------------------------


def nats_py_async_publish(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream(publish_async_max_pending=WINDOW)
        for run in task.runs():
            futures = [await js.publish_async(run.subject, run.payload) for _ in range(run.count)]
            await js.publish_async_completed()
            for future in futures:
                future.result()
        await nc.close()

    asyncio.run(main())


def nats_py_atomic(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            for chunk in batches(run):
                await nats_py_batch(nc, run, f"{run.stream}-{chunk.start}", len(chunk))
        await nc.close()

    asyncio.run(main())


async def nats_py_batch(nc: Any, run: Run, batch_id: str, count: int) -> None:
    def headers(sequence: int) -> dict[str, str]:
        return {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(sequence)}

    first = await nc.request(run.subject, run.payload, timeout=5, headers=headers(1))
    if first.data:
        raise ConnectionError(f"not accepted: {first.data!r}")
    for sequence in range(2, count):
        await nc.publish(run.subject, run.payload, headers=headers(sequence))
    last = {**headers(count), "Nats-Batch-Commit": "1"}
    ack = json.loads((await nc.request(run.subject, run.payload, timeout=5, headers=last)).data)
    if (ack.get("batch"), ack.get("count")) != (batch_id, count):
        raise ConnectionError(f"not committed: {ack!r}")


def nats_py_ordered(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            subscription = await nc.jetstream().subscribe(run.subject, stream=run.stream, ordered_consumer=True)
            async for message in subscription.messages:
                count(message, run)
                if run.received == run.count:
                    break
            await subscription.unsubscribe()
        await nc.close()

    asyncio.run(main())


def nats_py_ordered_callback(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            complete = asyncio.Event()

            async def on_message(message: Any, run: Run = run, complete: asyncio.Event = complete) -> None:
                count(message, run)
                if run.received == run.count:
                    complete.set()

            subscription = await nc.jetstream().subscribe(
                run.subject, stream=run.stream, cb=on_message, ordered_consumer=True
            )
            await complete.wait()
            await subscription.unsubscribe()
        await nc.close()

    asyncio.run(main())


def nats_py_callback_ack(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            complete = asyncio.Event()

            async def on_message(message: Any, run: Run = run, complete: asyncio.Event = complete) -> None:
                count(message, run)
                if run.received == run.count:
                    complete.set()

            # A config of its own: nats-py writes the inbox into it, and leaves the consumer there when it unsubscribes.
            config = import_module("nats.js.api").ConsumerConfig(max_ack_pending=FETCH)
            subscription = await nc.jetstream().subscribe(run.subject, stream=run.stream, cb=on_message, config=config)
            await complete.wait()
            await nc.flush()
            await subscription.unsubscribe()
        await nc.close()

    asyncio.run(main())


def count(message: Any, run: Run) -> None:
    run.received += 1
    run.received_bytes += len(message.data)


def nats_py_direct_get(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        inbox = nc.new_inbox()
        subscription = await nc.subscribe(inbox)
        for run in task.runs():
            while run.received < run.count:
                await nc.publish(f"$JS.API.DIRECT.GET.{run.stream}", page_request(run), reply=inbox)
                async for message in subscription.messages:
                    if is_end(message):
                        break
                    take(message, run)
        await nc.close()

    asyncio.run(main())


def nats_py_direct_get_callback(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            await read_by_callback(nc, run)
        await nc.close()

    asyncio.run(main())


async def read_by_callback(nc: Any, run: Run) -> None:
    ended = asyncio.Event()

    async def on_message(message: Any) -> None:
        if is_end(message):
            ended.set()
        else:
            take(message, run)

    inbox = nc.new_inbox()
    subscription = await nc.subscribe(inbox, cb=on_message)
    while run.received < run.count:
        ended.clear()
        await nc.publish(f"$JS.API.DIRECT.GET.{run.stream}", page_request(run), reply=inbox)
        await ended.wait()
    await subscription.unsubscribe()


def nats_py_fetch_ack(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream()
        config = import_module("nats.js.api").ConsumerConfig(max_ack_pending=-1)
        for run in task.runs():
            sub = await js.pull_subscribe(run.subject, stream=run.stream, config=config)
            while run.received < run.count:
                for message in await sub.fetch(min(FETCH, run.count - run.received)):
                    run.received += 1
                    run.received_bytes += len(message.data)
                    await message.ack()
            await nc.flush()
            await sub.unsubscribe()
        await nc.close()

    asyncio.run(main())


def page_request(run: Run) -> bytes:
    """The next page. Sequences have no holes here."""
    return json.dumps({"seq": run.received + 1, "batch": min(run.count - run.received, PAGE)}).encode()


def is_end(message: Any) -> bool:
    """Whether it is the status at the end of a page."""
    return message.headers.get("Status") is not None


def take(message: Any, run: Run) -> None:
    if int(message.headers["Nats-Sequence"]) == run.received + 1:
        run.received += 1
        run.received_bytes += len(message.data)


# -- nats-jetstream-extra ----------------------------------------------------------------------------------------------


async def connect_extra(url: str) -> tuple[Any, Any]:
    """A connection and JetStream on it."""
    nc = await import_module("nats.client").connect(url)
    return nc, import_module("nats.jetstream").new(nc)


def extra_async_publish(task: Task) -> None:
    async def publish(js: Any, run: Run, left: Iterator[int]) -> None:
        for _ in left:
            await js.publish(run.subject, run.payload)

    async def main() -> None:
        nc, js = await connect_extra(task.url)
        for run in task.runs():
            left = iter(range(run.count))
            async with asyncio.TaskGroup() as group:
                for _ in range(WINDOW):
                    group.create_task(publish(js, run, left))
        await nc.close()

    asyncio.run(main())


def extra_fast_ingest(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        fast_publish = import_module("nats.jetstream_extra").fast_publish
        for run in task.runs():
            async with fast_publish(js, flow=FLOW) as batch:
                for _ in range(run.count):
                    await batch.add(run.subject, run.payload)
                await batch.close()
        await nc.close()

    asyncio.run(main())


def extra_atomic(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        batch_publish = import_module("nats.jetstream_extra").batch_publish
        for run in task.runs():
            for chunk in batches(run):
                batch = batch_publish(js)
                for _ in chunk[:-1]:
                    await batch.add(run.subject, run.payload)
                await batch.commit(run.subject, run.payload)
        await nc.close()

    asyncio.run(main())


def extra_iterator_ack(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        for run in task.runs():
            consumer = await js.create_consumer(
                run.stream, name="bench", ack_policy="explicit", max_ack_pending=-1, durable_name="bench"
            )
            async for message in await consumer.messages(max_messages=FETCH):
                count(message, run)
                await message.ack()
                if run.received == run.count:
                    break
            await nc.flush()
            await js.delete_consumer(run.stream, "bench")
        await nc.close()

    asyncio.run(main())


def extra_direct_get(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        get_batch = import_module("nats.jetstream_extra").get_batch
        for run in task.runs():
            while run.received < run.count:
                page = min(run.count - run.received, PAGE)
                async for message in get_batch(js, run.stream, page, seq=run.received + 1):
                    run.received += message.sequence == run.received + 1
                    run.received_bytes += len(message.data)
        await nc.close()

    asyncio.run(main())
