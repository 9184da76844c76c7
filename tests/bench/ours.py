"""This library's drivers at work, as an application would write it.

Drivers are imported inside the functions: a process pays only for the one it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.bench.task import FLOW, WINDOW, Run, Runner, Task

if TYPE_CHECKING:
    from jsproto_io._async import Connection, JetStream

Connect: TypeAlias = "Callable[[str], AbstractAsyncContextManager[Connection]]"
AsyncRunner: TypeAlias = Callable[[Connect, Task], Coroutine[Any, Any, None]]


# -- threads -----------------------------------------------------------------------------------------------------------


def sync_fast_ingest(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.fast_publisher(flow=FLOW) as batch:
                batch.publish_many((run.subject, run.payload) for _ in range(run.count))
                batch.commit()


def sync_fast_ingest_single(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.fast_publisher(flow=FLOW) as batch:
                for _ in range(run.count):
                    batch.publish(run.subject, run.payload)
                batch.commit()


def sync_direct_get(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for message in js.get_batch(run.stream, batch=run.count):
                run.received += message.seq == run.received + 1
                run.received_bytes += len(message.data)


def sync_direct_get_fields(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for message in js.get_batch(run.stream, batch=run.count):
                if message.subject == run.subject and message.stream and message.timestamp and not message.headers:
                    run.received += message.seq == run.received + 1
                    run.received_bytes += len(message.data)


# -- event loops -------------------------------------------------------------------------------------------------------


def on_asyncio(run: AsyncRunner) -> Runner:
    """``run`` as a runner on asyncio."""

    def runner(task: Task) -> None:
        import asyncio

        from jsproto_io.asyncio import connect

        asyncio.run(run(connect, task))

    return runner


def on_trio(run: AsyncRunner) -> Runner:
    """``run`` as a runner on trio."""

    def runner(task: Task) -> None:
        import trio

        from jsproto_io.trio import connect

        trio.run(run, connect, task)

    return runner


async def fast_ingest(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with js.fast_publisher(flow=FLOW) as batch:
                await batch.publish_many((run.subject, run.payload) for _ in range(run.count))
                await batch.commit()


async def fast_ingest_single(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with js.fast_publisher(flow=FLOW) as batch:
                for _ in range(run.count):
                    await batch.publish(run.subject, run.payload)
                await batch.commit()


async def direct_get(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async for message in js.get_batch(run.stream, batch=run.count):
                run.received += message.seq == run.received + 1
                run.received_bytes += len(message.data)


def asyncio_async_publish(task: Task) -> None:
    import asyncio

    from jsproto_io.asyncio import connect

    async def main() -> None:
        async with connect(task.url) as nc:
            js = nc.jetstream()
            for run in task.runs():
                left = iter(range(run.count))
                async with asyncio.TaskGroup() as group:
                    for _ in range(WINDOW):
                        group.create_task(publish(js, run, left))

    asyncio.run(main())


def trio_async_publish(task: Task) -> None:
    import trio

    from jsproto_io.trio import connect

    async def main() -> None:
        async with connect(task.url) as nc:
            js = nc.jetstream()
            for run in task.runs():
                left = iter(range(run.count))
                async with trio.open_nursery() as nursery:
                    for _ in range(WINDOW):
                        nursery.start_soon(publish, js, run, left)

    trio.run(main)


async def publish(js: JetStream, run: Run, left: Iterator[int]) -> None:
    """One of those that share a run: publish, wait for the acknowledgement, and again."""
    for _ in left:
        await js.publish(run.subject, run.payload)
