"""One message at a time, by every client: what a service pays for each, where nothing can share a cost.

* One verb after the other: publish with its acknowledgement, fetch one and acknowledge it, request and reply.
* A core publish for each message, and a callback for each, without an answer.

Rules: both ends of a request, and of a callback, are in this process, on two connections. A row has the cost of both.
Not here: reading one message by its subject, which is ``kv-get`` (``keys``).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.bench.ours import Connect
from tests.bench.peers import connect_extra, count
from tests.bench.raw import Wire
from tests.bench.task import Run, Task

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Message as AsyncMessage
    from jsproto_io._blocking.connection import Message


def of_service(run: Run) -> str:
    """The subject of a run's service. No stream has it."""
    return f"service.{run.subject}"


# -- threads -----------------------------------------------------------------------------------------------------------


def sync_publish(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for _ in range(run.count):
                js.publish(run.subject, run.payload)


def sync_fetch(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                while run.received < run.count:
                    for message in sub.fetch(1):
                        count(message, run)
                        message.ack()
                nc.flush()


def sync_request(task: Task) -> None:
    from jsproto_io.sync import connect

    def answer(message: Message) -> None:
        message.respond(message.data)

    with connect(task.url) as nc, connect(task.url) as other:
        for run in task.runs():
            with other.subscribe(of_service(run), cb=answer):
                other.flush()
                for _ in range(run.count):
                    count(nc.request(of_service(run), run.payload), run)


def sync_core_publish(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        for run in task.runs():
            for _ in range(run.count):
                nc.publish(run.subject, run.payload)
            nc.flush()


def sync_callback(task: Task) -> None:
    import threading

    from jsproto_io.sync import connect

    with connect(task.url) as nc, connect(task.url) as other:
        for run in task.runs():
            complete = threading.Event()
            with other.subscribe(of_service(run), cb=counting(run, complete.set)):
                other.flush()
                for _ in range(run.count):
                    nc.publish(of_service(run), run.payload)
                complete.wait()


def counting(run: Run, complete: Callable[[], None]) -> Callable[[Any], None]:
    """A callback that counts the messages of a run, and calls ``complete`` with the last one."""

    def take(message: Any) -> None:
        count(message, run)
        if run.received == run.count:
            complete()

    return take


# -- event loops -------------------------------------------------------------------------------------------------------


async def publish(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for _ in range(run.count):
                await js.publish(run.subject, run.payload)


async def fetch(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with await js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                while run.received < run.count:
                    for message in await sub.fetch(1):
                        count(message, run)
                        await message.ack()
                await nc.flush()


async def request(connect: Connect, task: Task) -> None:
    async def answer(message: AsyncMessage) -> None:
        await message.respond(message.data)

    async with connect(task.url) as nc, connect(task.url) as other:
        for run in task.runs():
            async with await other.subscribe(of_service(run), cb=answer):
                await other.flush()
                for _ in range(run.count):
                    count(await nc.request(of_service(run), run.payload), run)


async def core_publish(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        for run in task.runs():
            for _ in range(run.count):
                await nc.publish(run.subject, run.payload)
            await nc.flush()


async def callback(connect: Connect, task: Task) -> None:
    import anyio

    async with connect(task.url) as nc, connect(task.url) as other:
        for run in task.runs():
            complete = anyio.Event()
            async with await other.subscribe(of_service(run), cb=counting(run, complete.set)):
                await other.flush()
                for _ in range(run.count):
                    await nc.publish(of_service(run), run.payload)
                await complete.wait()


# -- nats-py -----------------------------------------------------------------------------------------------------------


def nats_py_publish(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream()
        for run in task.runs():
            for _ in range(run.count):
                await js.publish(run.subject, run.payload)
        await nc.close()

    asyncio.run(main())


def nats_py_fetch(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream()
        config = import_module("nats.js.api").ConsumerConfig(max_ack_pending=-1)
        for run in task.runs():
            sub = await js.pull_subscribe(run.subject, stream=run.stream, config=config)
            while run.received < run.count:
                for message in await sub.fetch(1):
                    count(message, run)
                    await message.ack()
            await nc.flush()
            await sub.unsubscribe()
        await nc.close()

    asyncio.run(main())


def nats_py_request(task: Task) -> None:
    async def answer(message: Any) -> None:
        await message.respond(message.data)

    async def main() -> None:
        connect = import_module("nats").connect
        nc, other = await connect(task.url), await connect(task.url)
        for run in task.runs():
            sub = await other.subscribe(of_service(run), cb=answer)
            await other.flush()
            for _ in range(run.count):
                count(await nc.request(of_service(run), run.payload), run)
            await sub.unsubscribe()
        await nc.close()
        await other.close()

    asyncio.run(main())


def nats_py_core_publish(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        for run in task.runs():
            for _ in range(run.count):
                await nc.publish(run.subject, run.payload)
            await nc.flush()
        await nc.close()

    asyncio.run(main())


def nats_py_callback(task: Task) -> None:
    async def main() -> None:
        connect = import_module("nats").connect
        nc, other = await connect(task.url), await connect(task.url)
        for run in task.runs():
            complete = asyncio.Event()
            take = counting(run, complete.set)

            async def on_message(message: Any, take: Callable[[Any], None] = take) -> None:
                take(message)

            sub = await other.subscribe(of_service(run), cb=on_message)
            await other.flush()
            for _ in range(run.count):
                await nc.publish(of_service(run), run.payload)
            await nc.flush()
            await complete.wait()
            await sub.unsubscribe()
        await nc.close()
        await other.close()

    asyncio.run(main())


# -- nats-jetstream-extra, and the loop by hand ------------------------------------------------------------------------


def extra_publish(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        for run in task.runs():
            for _ in range(run.count):
                await js.publish(run.subject, run.payload)
        await nc.close()

    asyncio.run(main())


def raw_publish(task: Task) -> None:
    with Wire(task.url) as wire:
        for run in task.runs():
            head = b"PUB %b %b.a %d\r\n" % (run.subject.encode(), wire.inbox, len(run.payload))
            for _ in range(run.count):
                wire.send(b"%b%b\r\n" % (head, run.payload))
                if "seq" not in json.loads(wire.answer().split(b"\r\n")[1]):
                    raise ConnectionError("not stored")
