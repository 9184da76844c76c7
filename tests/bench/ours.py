"""This library's drivers at work, as an application would write it.

Drivers are imported inside the functions: a process pays only for the one it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.bench.task import CALLBACKS, FETCH, FLOW, MAX_ACK_PENDING, TRACE, TRACES, WINDOW, Run, Runner, Task, batches

if TYPE_CHECKING:
    from jsproto.client.consume.message import ConsumerMsg
    from jsproto_io._aio.connection import Connection

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


def sync_fast_ingest_columns(task: Task) -> None:
    from jsproto import MessageColumns
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.fast_publisher(flow=FLOW) as batch:
                batch.publish_many(MessageColumns([run.subject] * run.count, [run.payload] * run.count))
                batch.commit()


def sync_fast_ingest_headers(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.fast_publisher(flow=FLOW) as batch:
                traces = islice(cycle(TRACES), run.count)
                batch.publish_many((run.subject, run.payload, {TRACE: trace}) for trace in traces)
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


def sync_async_publish_headers(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.async_publisher(max_pending=WINDOW) as publisher:
                traces = islice(cycle(TRACES), run.count)
                publisher.publish_many((run.subject, run.payload, {TRACE: trace}) for trace in traces)


def sync_async_publish(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.async_publisher(max_pending=WINDOW) as publisher:
                publisher.publish_many((run.subject, run.payload) for _ in range(run.count))


def sync_async_publish_single(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream(publish_async_max_pending=WINDOW)
        for run in task.runs():
            pending = [js.publish_async(run.subject, run.payload) for _ in range(run.count)]
            js.publish_async_completed()
            for promised in pending:
                promised.result()


def sync_atomic(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for chunk in batches(run):
                js.publish_batch((run.subject, run.payload) for _ in chunk)


def sync_atomic_headers(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for chunk in batches(run):
                traces = islice(TRACES, len(chunk))
                js.publish_batch((run.subject, run.payload, {TRACE: trace}) for trace in traces)


def sync_atomic_single(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for chunk in batches(run):
                with js.atomic_batch() as batch:
                    for _ in chunk[:-1]:
                        batch.add(run.subject, run.payload)
                    batch.commit(run.subject, run.payload)


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
                if message.subject == run.subject and message.timestamp and not message.headers:
                    run.received += message.seq == run.received + 1
                    run.received_bytes += len(message.data)


def sync_direct_get_headers(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for message in js.get_batch(run.stream, batch=run.count):
                if message.headers.get(TRACE):
                    run.received += message.seq == run.received + 1
                    run.received_bytes += len(message.data)


def sync_fetch_ack(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                while run.received < run.count:
                    messages = sub.fetch(min(FETCH, run.count - run.received))
                    for message in messages:
                        run.received_bytes += len(message.data)
                    run.received += len(messages)
                    sub.ack_many(messages)
                nc.flush()


def sync_fetch_ack_single(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                while run.received < run.count:
                    for message in sub.fetch(min(FETCH, run.count - run.received)):
                        run.received += 1
                        run.received_bytes += len(message.data)
                        message.ack()
                nc.flush()


def sync_pull_messages(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub, sub.messages() as messages:
                for message in messages:
                    run.received += 1
                    run.received_bytes += len(message.data)
                    message.ack()
                    if run.received == run.count:
                        break
                nc.flush()


def sync_consume(task: Task) -> None:
    sync_callbacks(task)


def sync_consume_keys(task: Task) -> None:
    sync_callbacks(task, concurrency=CALLBACKS, key=key_of)


def sync_callbacks(task: Task, **how: Any) -> None:
    import threading

    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            complete, lock = threading.Event(), threading.Lock()

            def take(
                message: ConsumerMsg, run: Run = run, complete: threading.Event = complete, lock: Any = lock
            ) -> None:
                with lock:
                    run.received += 1
                    run.received_bytes += len(message.data)
                if run.received == run.count:
                    complete.set()

            with js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                with sub.consume(take, max_msgs=FETCH, **how):
                    complete.wait()
                nc.flush()


def key_of(message: ConsumerMsg) -> int:
    """One of CALLBACKS keys."""
    return message.metadata.sequence.stream % CALLBACKS


def sync_ordered(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            with js.subscribe(stream=run.stream, ordered=True) as subscription:
                for message in subscription:
                    run.received += 1
                    run.received_bytes += len(message.data)
                    if run.received == run.count:
                        break


def sync_ordered_callback(task: Task) -> None:
    import threading

    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            complete = threading.Event()

            def take(message: ConsumerMsg, run: Run = run, complete: threading.Event = complete) -> None:
                run.received += 1
                run.received_bytes += len(message.data)
                if run.received == run.count:
                    complete.set()

            with js.subscribe(stream=run.stream, ordered=True, cb=take):
                complete.wait()


def sync_copy(task: Task) -> None:
    from jsproto import ConsumerConfig
    from jsproto_io.sync import connect

    with connect(task.url) as nc, connect(task.url) as other:
        js, to = nc.jetstream(), other.jetstream()
        config = ConsumerConfig(ack_policy="flow_control", max_ack_pending=MAX_ACK_PENDING)
        for run in task.runs():
            target = f"{run.stream}_COPY"
            to.create_stream(target, subjects=[f"copies.{run.subject}"], allow_batched=True)
            js.copy(run.stream, "COPY", target, to=to, config=config, prefix="copies.").run(until_caught_up=True)
            run.received = to.stream_info(target).state.messages
            run.received_bytes = run.received * len(run.payload)
            to.delete_stream(target)
            js.delete_consumer(run.stream, "COPY")


# -- event loops -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoopRunner:
    """A runner that starts an event loop for ``run``."""

    run: AsyncRunner
    start: Callable[[AsyncRunner, Task], None]

    def __call__(self, task: Task) -> None:
        self.start(self.run, task)


def on_asyncio(run: AsyncRunner) -> Runner:
    """``run`` as a runner on asyncio."""
    return LoopRunner(run, start_asyncio)


def start_asyncio(run: AsyncRunner, task: Task) -> None:
    import asyncio

    from jsproto_io.asyncio import connect

    asyncio.run(run(connect, task))


def on_trio(run: AsyncRunner) -> Runner:
    """``run`` as a runner on trio."""
    return LoopRunner(run, start_trio)


def start_trio(run: AsyncRunner, task: Task) -> None:
    import trio

    from jsproto_io.trio import connect

    trio.run(run, connect, task)


async def fast_ingest(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with js.fast_publisher(flow=FLOW) as batch:
                await batch.publish_many((run.subject, run.payload) for _ in range(run.count))
                await batch.commit()


async def fast_ingest_columns(connect: Connect, task: Task) -> None:
    from jsproto import MessageColumns

    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with js.fast_publisher(flow=FLOW) as batch:
                await batch.publish_many(MessageColumns([run.subject] * run.count, [run.payload] * run.count))
                await batch.commit()


async def fast_ingest_single(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with js.fast_publisher(flow=FLOW) as batch:
                for _ in range(run.count):
                    await batch.publish(run.subject, run.payload)
                await batch.commit()


async def atomic(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for chunk in batches(run):
                await js.publish_batch((run.subject, run.payload) for _ in chunk)


async def atomic_single(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            for chunk in batches(run):
                async with js.atomic_batch() as batch:
                    for _ in chunk[:-1]:
                        await batch.add(run.subject, run.payload)
                    await batch.commit(run.subject, run.payload)


async def direct_get(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async for message in js.get_batch(run.stream, batch=run.count):
                run.received += message.seq == run.received + 1
                run.received_bytes += len(message.data)


async def fetch_ack(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with await js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                while run.received < run.count:
                    messages = await sub.fetch(min(FETCH, run.count - run.received))
                    for message in messages:
                        run.received_bytes += len(message.data)
                    run.received += len(messages)
                    await sub.ack_many(messages)
                await nc.flush()


async def fetch_ack_single(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with await js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                while run.received < run.count:
                    for message in await sub.fetch(min(FETCH, run.count - run.received)):
                        run.received += 1
                        run.received_bytes += len(message.data)
                        await message.ack()
                await nc.flush()


async def ordered(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with await js.subscribe(stream=run.stream, ordered=True) as subscription:
                async for message in subscription:
                    run.received += 1
                    run.received_bytes += len(message.data)
                    if run.received == run.count:
                        break


def counting(run: Run, complete: Callable[[], None]) -> Callable[[ConsumerMsg], None]:
    """A callback that counts the messages of a run, and calls ``complete`` with the last one."""

    def take(message: ConsumerMsg) -> None:
        run.received += 1
        run.received_bytes += len(message.data)
        if run.received == run.count:
            complete()

    return take


async def ordered_callback(connect: Connect, task: Task) -> None:
    import anyio

    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            complete = anyio.Event()
            take = counting(run, complete.set)
            async with await js.subscribe(stream=run.stream, ordered=True, cb=take):
                await complete.wait()


async def consume(connect: Connect, task: Task) -> None:
    await callbacks(connect, task)


async def consume_keys(connect: Connect, task: Task) -> None:
    await callbacks(connect, task, concurrency=CALLBACKS, key=key_of)


async def callbacks(connect: Connect, task: Task, **how: Any) -> None:
    import anyio

    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            complete = anyio.Event()
            take = counting(run, complete.set)
            async with await js.pull_subscribe(stream=run.stream, max_ack_pending=-1) as sub:
                async with sub.consume(take, max_msgs=FETCH, **how):
                    await complete.wait()
                await nc.flush()


async def copy(connect: Connect, task: Task) -> None:
    from jsproto import ConsumerConfig

    async with connect(task.url) as nc, connect(task.url) as other:
        js, to = nc.jetstream(), other.jetstream()
        config = ConsumerConfig(ack_policy="flow_control", max_ack_pending=MAX_ACK_PENDING)
        for run in task.runs():
            target = f"{run.stream}_COPY"
            await to.create_stream(target, subjects=[f"copies.{run.subject}"], allow_batched=True)
            await js.copy(run.stream, "COPY", target, to=to, config=config, prefix="copies.").run(until_caught_up=True)
            run.received = (await to.stream_info(target)).state.messages
            run.received_bytes = run.received * len(run.payload)
            await to.delete_stream(target)
            await js.delete_consumer(run.stream, "COPY")


async def async_publish(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():
            async with js.async_publisher(max_pending=WINDOW) as publisher:
                await publisher.publish_many((run.subject, run.payload) for _ in range(run.count))


async def async_publish_single(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream(publish_async_max_pending=WINDOW)
        for run in task.runs():
            pending = [await js.publish_async(run.subject, run.payload) for _ in range(run.count)]
            await js.publish_async_completed()
            for promised in pending:
                await promised.result()
