"""One connection for many at once, and a connection for one message: by every client.

* Sixteen threads share a connection, each with one call after the other. On an event loop they are tasks.
* A thousand pull consumers share one. Each has a thread or a task, which fetches and acknowledges.
* Connect, read one message, close: what a short program pays.

Rules: consumers are made before the stopwatch starts. The hand-written loop has no callers: it keeps as much on the way
as all of them together would.
Not here: a thousand consumers of nats-jetstream, which took more than two minutes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tests.bench.ours import Connect
from tests.bench.peers import connect_extra, count
from tests.bench.raw import Wire, ask, async_publish, read_fetch
from tests.bench.task import CONSUMERS, SHARING, Run, Task, shares, warm_up_of

if TYPE_CHECKING:
    from jsproto_io import sync
    from jsproto_io._aio.consuming import PullSubscription

FETCHED: Final = 10  # messages that each of many consumers asks for at once
INACTIVE: Final = 60  # seconds: longer than a consumer has to wait for its turn
IN_MEMORY: Final[Any] = {"max_ack_pending": -1, "inactive_threshold": INACTIVE, "mem_storage": True}
"""Of each of many consumers. On disk the server takes so long over their states that nothing else shows."""


def streams(task: Task) -> tuple[str, str]:
    """The stream of the warm-up and that of the run."""
    return warm_up_of(task.stream), task.stream


def count_stored(message: Any, run: Run) -> None:
    """Count a message of the right subject. Many callers at once get theirs in any order."""
    if message.subject == run.subject:
        count(message, run)


# -- threads -----------------------------------------------------------------------------------------------------------


def in_threads(work: Callable[[int, range], tuple[int, int]], parts: Sequence[range], run: Run) -> None:
    """Give each part to a thread. ``work`` takes its number too. It returns how many messages and bytes it has read."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(parts)) as pool:
        for received, received_bytes in pool.map(work, range(len(parts)), parts):
            run.received += received
            run.received_bytes += received_bytes


def sync_publish(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():

            def work(number: int, part: range, run: Run = run) -> tuple[int, int]:
                for _ in part:
                    js.publish(run.subject, run.payload)
                return 0, 0

            in_threads(work, shares(run.count, SHARING), run)


def sync_get(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():

            def work(number: int, part: range, run: Run = run) -> tuple[int, int]:
                found = [js.get_msg(run.stream, seq + 1) for seq in part]
                return sum(message.subject == run.subject for message in found), sum(
                    len(message.data) for message in found
                )

            in_threads(work, shares(run.count, SHARING), run)


def sync_consumers(task: Task) -> None:
    from jsproto_io.sync import connect

    with connect(task.url) as nc, ExitStack() as stack:
        js = nc.jetstream(timeout=INACTIVE)
        made = {
            stream: [stack.enter_context(js.pull_subscribe(stream=stream, **IN_MEMORY)) for _ in range(CONSUMERS)]
            for stream in streams(task)
        }
        for run in task.runs():

            def work(number: int, part: range, subs: list[sync.PullSubscription] = made[run.stream]) -> tuple[int, int]:
                sub, received, received_bytes = subs[number], 0, 0
                while received < len(part):
                    messages = sub.fetch(min(FETCHED, len(part) - received))
                    received += len(messages)
                    received_bytes += sum(len(message.data) for message in messages)
                    sub.ack_many(messages)
                return received, received_bytes

            in_threads(work, shares(run.count, CONSUMERS), run)
            nc.flush()


def sync_connect(task: Task) -> None:
    from jsproto_io.sync import connect

    for run in task.runs():
        for _ in range(run.count):
            with connect(task.url) as nc:
                count_stored(nc.jetstream().get_msg(run.stream, 1), run)


# -- event loops -------------------------------------------------------------------------------------------------------


async def in_tasks(work: Callable[[int, range], Coroutine[Any, Any, None]], parts: Sequence[range]) -> None:
    """Give each part to a task. ``work`` takes its number too."""
    import anyio

    async with anyio.create_task_group() as group:
        for number, part in enumerate(parts):
            group.start_soon(work, number, part)


async def publish(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():

            async def work(number: int, part: range, run: Run = run) -> None:
                for _ in part:
                    await js.publish(run.subject, run.payload)

            await in_tasks(work, shares(run.count, SHARING))


async def get(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc:
        js = nc.jetstream()
        for run in task.runs():

            async def work(number: int, part: range, run: Run = run) -> None:
                for seq in part:
                    count_stored(await js.get_msg(run.stream, seq + 1), run)

            await in_tasks(work, shares(run.count, SHARING))


async def consumers(connect: Connect, task: Task) -> None:
    async with connect(task.url) as nc, AsyncExitStack() as stack:
        js = nc.jetstream(timeout=INACTIVE)
        made: dict[str, list[PullSubscription]] = {stream: [] for stream in streams(task)}
        for stream, subs in made.items():
            for _ in range(CONSUMERS):
                sub = await js.pull_subscribe(stream=stream, **IN_MEMORY)
                subs.append(await stack.enter_async_context(sub))
        for run in task.runs():

            async def work(number: int, part: range, run: Run = run) -> None:
                sub, left = made[run.stream][number], len(part)
                while left:
                    messages = await sub.fetch(min(FETCHED, left))
                    left -= len(messages)
                    run.received += len(messages)
                    run.received_bytes += sum(len(message.data) for message in messages)
                    await sub.ack_many(messages)

            await in_tasks(work, shares(run.count, CONSUMERS))
            await nc.flush()


async def set_up(connect: Connect, task: Task) -> None:
    for run in task.runs():
        for _ in range(run.count):
            async with connect(task.url) as nc:
                count_stored(await nc.jetstream().get_msg(run.stream, 1), run)


# -- nats-py -----------------------------------------------------------------------------------------------------------


def nats_py_publish(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream()
        for run in task.runs():

            async def work(number: int, part: range, run: Run = run) -> None:
                for _ in part:
                    await js.publish(run.subject, run.payload)

            await in_tasks(work, shares(run.count, SHARING))
        await nc.close()

    asyncio.run(main())


def nats_py_get(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream()
        for run in task.runs():

            async def work(number: int, part: range, run: Run = run) -> None:
                for seq in part:
                    count_stored(await js.get_msg(run.stream, seq + 1, direct=True), run)

            await in_tasks(work, shares(run.count, SHARING))
        await nc.close()

    asyncio.run(main())


def nats_py_consumers(task: Task) -> None:
    async def main() -> None:
        nc = await import_module("nats").connect(task.url)
        js = nc.jetstream()
        config = import_module("nats.js.api").ConsumerConfig(**IN_MEMORY)
        made = {
            stream: [await js.pull_subscribe("", stream=stream, config=config) for _ in range(CONSUMERS)]
            for stream in streams(task)
        }
        for run in task.runs():

            async def work(number: int, part: range, run: Run = run) -> None:
                sub, left = made[run.stream][number], len(part)
                while left:
                    messages = await sub.fetch(min(FETCHED, left), timeout=INACTIVE)
                    left -= len(messages)
                    for message in messages:
                        count(message, run)
                        await message.ack()

            await in_tasks(work, shares(run.count, CONSUMERS))
            await nc.flush()
        for subs in made.values():
            for sub in subs:
                await js.delete_consumer(sub._stream, sub._consumer)  # no call of its own does it
        await nc.close()

    asyncio.run(main())


def nats_py_connect(task: Task) -> None:
    async def main() -> None:
        connect = import_module("nats").connect
        for run in task.runs():
            for _ in range(run.count):
                nc = await connect(task.url)
                count_stored(await nc.jetstream().get_msg(run.stream, 1, direct=True), run)
                await nc.close()

    asyncio.run(main())


# -- nats-jetstream ----------------------------------------------------------------------------------------------------


def extra_publish(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        for run in task.runs():

            async def work(number: int, part: range, run: Run = run) -> None:
                for _ in part:
                    await js.publish(run.subject, run.payload)

            await in_tasks(work, shares(run.count, SHARING))
        await nc.close()

    asyncio.run(main())


def extra_get(task: Task) -> None:
    async def main() -> None:
        nc, js = await connect_extra(task.url)
        for run in task.runs():
            stream = await js.get_stream(run.stream)

            async def work(number: int, part: range, run: Run = run, stream: Any = stream) -> None:
                for seq in part:
                    count_stored(await stream.get_message(seq + 1), run)

            await in_tasks(work, shares(run.count, SHARING))
        await nc.close()

    asyncio.run(main())


def extra_connect(task: Task) -> None:
    async def main() -> None:
        for run in task.runs():
            for _ in range(run.count):
                nc, js = await connect_extra(task.url)
                count_stored(await js.get_message(run.stream, 1), run)
                await nc.close()

    asyncio.run(main())


# -- a hand-written loop -----------------------------------------------------------------------------------------------


def raw_publish(task: Task) -> None:
    async_publish(task, SHARING)


def raw_consumers(task: Task) -> None:
    with Wire(task.url) as wire:
        config = {"ack_policy": "explicit", **IN_MEMORY, "inactive_threshold": INACTIVE * 10**9}
        made: dict[str, list[bytes]] = {stream: [] for stream in streams(task)}
        for stream, names in made.items():
            for _ in range(CONSUMERS):
                ask(wire, b"$JS.API.CONSUMER.CREATE.%b" % stream.encode(), {"stream_name": stream, "config": config})
                (created,) = wire.payloads()
                names.append(json.loads(created)["name"].encode())
        for run in task.runs():
            fetch_all(wire, run, made[run.stream])
            wire.send(b"PING\r\n")
            wire.read_until(b"PONG\r\n")
        for stream, names in made.items():
            for name in names:
                ask(wire, b"$JS.API.CONSUMER.DELETE.%b.%b" % (stream.encode(), name), {})
                wire.payloads()


def fetch_all(wire: Wire, run: Run, names: Sequence[bytes]) -> None:
    """Each consumer fetches its share: the requests of all in one write, and the acknowledgements of all in another."""
    lengths = [len(part) for part in shares(run.count, CONSUMERS)]
    end = b" 4\r\n+ACK\r\n"
    for at in range(0, max(lengths), FETCHED):
        requests = []
        wanted = 0
        for name, length in zip(names, lengths, strict=False):
            batch = min(FETCHED, length - at)
            body = b'{"batch":%d,"expires":%d}' % (batch, INACTIVE * 10**9)
            requests.append(
                b"PUB $JS.API.CONSUMER.MSG.NEXT.%b.%b %b.next %d\r\n%b\r\n"
                % (run.stream.encode(), name, wire.inbox, len(body), body)
            )
            wanted += batch
        wire.send(b"".join(requests))
        replies = read_fetch(wire, run, wanted)
        wire.send(b"PUB " + (end + b"PUB ").join(replies) + end)


def raw_connect(task: Task) -> None:
    for run in task.runs():
        for _ in range(run.count):
            with Wire(task.url) as wire:
                ask(wire, b"$JS.API.DIRECT.GET.%b" % run.stream.encode(), {"seq": 1})
                data = wire.answer()
                _, header_size, size = data[: data.index(b"\r\n")].rsplit(b" ", 2)
                run.received += 1
                run.received_bytes += int(size) - int(header_size)
