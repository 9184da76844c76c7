"""Key-value buckets: small values, each under a key of its own, by every client.

A bucket is a stream that keeps one message for each subject. What its users do is measured: put many values, get one
value after the other, take the state of the whole bucket, watch it from its present state on. And the verbs of a bucket
of this library: put, get and update of a key, and transactions over ten keys that were not read.

Rules: the bucket is as wide as the run, so no cache of subjects helps. A client has its own calls for buckets, or the
calls for streams that those are made of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from tests.bench.ours import Connect
from tests.bench.peers import connect_extra, count
from tests.bench.raw import Wire, ask, read_page
from tests.bench.task import BUCKET, WINDOW, Run, Task

SUBJECTS: Final = 1_024  # for which a server answers at once
TOGETHER: Final = 10  # keys of a transaction


# -- this library ------------------------------------------------------------------------------------------------------


def sync_put(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.async_publisher(max_pending=WINDOW) as publisher:
                publisher.publish_many((f"{run.subject}.{key}", run.payload) for key in run.keys)


def sync_get(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for key in run.keys:
                message = js.get_last_msg(run.stream, f"{run.subject}.{key}")
                run.received += message.seq == run.received + 1
                run.received_bytes += len(message.data)


def sync_snapshot(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for message in js.snapshot(run.stream, f"{run.subject}.>"):
                run.received += message.seq == run.received + 1
                run.received_bytes += len(message.data)
                if run.received == run.count:
                    break


def sync_watch(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.subscribe(
                f"{run.subject}.>", stream=run.stream, ordered=True, deliver_policy="last_per_subject"
            ) as watcher:
                for message in watcher:
                    count(message, run)
                    if run.received == run.count:
                        break


def sync_update(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        for run in task.runs():
            bucket = nc.jetstream().bucket(run.stream.removeprefix(BUCKET))
            for key in run.keys:
                bucket.put(key, run.payload)
                bucket.update(key, run.payload, bucket.get(key).revision)


def sync_transaction(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        for run in task.runs():
            bucket = nc.jetstream().bucket(run.stream.removeprefix(BUCKET))
            for at in range(0, run.count, TOGETHER):
                with bucket.transaction() as tx:
                    for key in run.keys[at : at + TOGETHER]:
                        tx.put(key, run.payload)


async def update(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        for run in task.runs():
            bucket = await nc.jetstream().bucket(run.stream.removeprefix(BUCKET))
            for key in run.keys:
                await bucket.put(key, run.payload)
                await bucket.update(key, run.payload, (await bucket.get(key)).revision)


async def transaction(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        for run in task.runs():
            bucket = await nc.jetstream().bucket(run.stream.removeprefix(BUCKET))
            for at in range(0, run.count, TOGETHER):
                async with bucket.transaction() as tx:
                    for key in run.keys[at : at + TOGETHER]:
                        await tx.put(key, run.payload)


async def put(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with js.async_publisher(max_pending=WINDOW) as publisher:
                await publisher.publish_many((f"{run.subject}.{key}", run.payload) for key in run.keys)


async def get(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for key in run.keys:
                message = await js.get_last_msg(run.stream, f"{run.subject}.{key}")
                run.received += message.seq == run.received + 1
                run.received_bytes += len(message.data)


async def snapshot(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async for message in await js.snapshot(run.stream, f"{run.subject}.>"):
                run.received += message.seq == run.received + 1
                run.received_bytes += len(message.data)
                if run.received == run.count:
                    break


async def watch(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with await js.subscribe(
                f"{run.subject}.>", stream=run.stream, ordered=True, deliver_policy="last_per_subject"
            ) as watcher:
                async for message in watcher:
                    count(message, run)
                    if run.received == run.count:
                        break


# -- nats-py -----------------------------------------------------------------------------------------------------------


def nats_py_put(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream(publish_async_max_pending=WINDOW)
        for run in task.runs():
            futures = [await js.publish_async(f"{run.subject}.{key}", run.payload) for key in run.keys]
            await js.publish_async_completed()
            for future in futures:
                future.result()
        await nc.close()

    asyncio.run(main())


async def nats_py_bucket(nc: Any, run: Run) -> Any:
    return await nc.jetstream().key_value(run.subject.removeprefix("$KV."))


def nats_py_get(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            bucket = await nats_py_bucket(nc, run)
            for key in run.keys:
                entry = await bucket.get(key)
                run.received += entry.revision == run.received + 1
                run.received_bytes += len(entry.value)
        await nc.close()

    asyncio.run(main())


def nats_py_watch(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            watcher = await (await nats_py_bucket(nc, run)).watchall()
            async for entry in watcher:
                if entry is None:  # for a moment there was no more
                    continue
                run.received += 1
                run.received_bytes += len(entry.value)
                if run.received == run.count:
                    break
            await watcher.stop()
        await nc.close()

    asyncio.run(main())


# -- nats-jetstream ----------------------------------------------------------------------------------------------------


def extra_put(task: Task) -> None:
    async def publish(js: Any, run: Run, left: Iterator[str]) -> None:
        for key in left:
            await js.publish(f"{run.subject}.{key}", run.payload)

    async def main() -> None:
        nc, js = await connect_extra(task.url)
        for run in task.runs():
            left = iter(run.keys)
            async with asyncio.TaskGroup() as group:
                for _ in range(WINDOW):
                    group.create_task(publish(js, run, left))
        await nc.close()

    asyncio.run(main())


def extra_get(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        for run in task.runs():
            stream = await js.get_stream(run.stream)
            for key in run.keys:
                message = await stream.get_last_message_for_subject(f"{run.subject}.{key}")
                run.received += message.sequence == run.received + 1
                run.received_bytes += len(message.data)
        await nc.close()

    asyncio.run(main())


# -- a hand-written loop -----------------------------------------------------------------------------------------------


def raw_put(task: Task) -> None:
    with Wire(task.url) as wire:
        for run in task.runs():
            head = b"PUB %b." % run.subject.encode()
            tail = b" %b.ack %d\r\n%b\r\n" % (wire.inbox, len(run.payload), run.payload)
            sent = acked = 0
            while acked < run.count:
                if keys := run.keys[sent : acked + WINDOW]:
                    wire.send(b"".join([b"%b%b%b" % (head, key.encode(), tail) for key in keys]))
                    sent += len(keys)
                for payload in wire.payloads():
                    if b'"seq":' not in payload:
                        raise ConnectionError(f"not an acknowledgement: {payload!r}")
                    acked += 1


def raw_get(task: Task) -> None:
    with Wire(task.url) as wire:
        for run in task.runs():
            head = b"PUB $JS.API.DIRECT.GET.%b.%b." % (run.stream.encode(), run.subject.encode())
            tail = b" %b.get 0\r\n\r\n" % wire.inbox
            for key in run.keys:
                wire.send(b"%b%b%b" % (head, key.encode(), tail))
                data = wire.answer()
                line_end = data.index(b"\r\n")
                _, header_size, size = data[:line_end].rsplit(b" ", 2)
                start = line_end + 2
                split, stop = start + int(header_size), start + int(size)
                value = data.rindex(b"Nats-Sequence: ", start, split) + 15
                run.received += int(data[value : data.index(b"\r", value)]) == run.received + 1
                run.received_bytes += len(data[split:stop])


def raw_snapshot(task: Task) -> None:
    with Wire(task.url) as wire:
        for run in task.runs():
            subject = b"$JS.API.DIRECT.GET.%b" % run.stream.encode()
            for at in range(0, run.count, SUBJECTS):
                wanted = [f"{run.subject}.{key}" for key in run.keys[at : at + SUBJECTS]]
                ask(wire, subject, {"multi_last": wanted, "up_to_seq": run.count})
                read_page(wire, run)
