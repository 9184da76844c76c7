"""What a connection makes is used by many at once: threads, or tasks of a loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream
from tests.marks import promise

pytestmark = pytest.mark.anyio

MANY = 8
EACH = 50


async def at_once(work: Callable[[int], Awaitable[Any]]) -> list[Any]:
    """What ``work`` gives for each of many, all of which do it at the same time."""
    results: list[Any] = [None] * MANY

    async def one(number: int) -> None:
        results[number] = await work(number)

    async with anyio.create_task_group() as tasks:
        for number in range(MANY):
            tasks.start_soon(one, number)
    return results


async def read_all(reader: Any) -> list[int]:
    return [message.seq async for message in reader]


@promise("A connection, and everything made from it, may be used by many threads at once")
@promise("Wait until every message has its acknowledgement or has failed.")
async def test_many_publish_by_one_publisher(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.async_publisher(max_pending=7) as publisher:

            async def publish(number: int) -> list[int]:
                if number % 2:
                    await publisher.publish_many([(f"{name}.many", b"%d" % number)] * EACH)
                    await publisher.flush()
                    return []
                acks = [await publisher.publish(f"{name}.{number}") for _ in range(EACH)]
                return [(await ack.result(timeout=10)).seq for ack in acks]

            seqs = [seq for part in await at_once(publish) for seq in part]
        stored = await read_all(js.get_batch(name))
        assert stored == [*range(1, MANY * EACH + 1)]
        assert len(set(seqs)) == MANY * EACH // 2
        assert set(seqs) < set(stored)


async def test_many_wait_for_one_acknowledgement(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        for number in range(10):
            ack = await js.publish_async(f"{name}.a")
            waited = await at_once(lambda _, ack=ack: ack.result(timeout=10))  # type: ignore[misc]
            assert {found.seq for found in waited} == {number + 1}


async def test_many_take_what_is_pushed(server: Any, connect: Connect) -> None:
    """Each message goes to one of them, and is acknowledged by it."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        subscription = await js.subscribe(f"{name}.>", durable="D", delete_consumer=False)

        async def take(number: int) -> list[int]:
            taken = []
            for _ in range(EACH):
                await js.publish(f"{name}.{number}")
                message = await subscription.next_msg(timeout=10)
                await message.ack()
                taken.append(message.metadata.sequence.stream)
            return taken

        taken = [seq for part in await at_once(take) for seq in part]
        assert sorted(taken) == [*range(1, MANY * EACH + 1)]
        await nc.flush()
        while (await subscription.consumer_info()).num_ack_pending:
            pass
        await subscription.unsubscribe()


async def test_many_read_what_they_wrote_in_one_session(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.consistent_session() as session:

            async def write_and_read(number: int) -> None:
                for _ in range(EACH):
                    ack = await session.publish(f"{name}.{number}")
                    assert (await session.get_last_msg(name, f"{name}.{number}")).seq == ack.seq

            await at_once(write_and_read)
            assert session.token[name].floor == MANY * EACH
            assert await read_all(session.get_batch(name)) == [*range(1, MANY * EACH + 1)]


@promise("The stream sequences of what it acknowledges, in order")
async def test_many_make_snapshots_and_batches(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)

        async def work(number: int) -> None:
            for _ in range(5):
                ack = await js.publish_batch([(f"{name}.{number}.{n}", b"") for n in range(10)])
                found = {message.seq async for message in await js.snapshot(name, [f"{name}.{number}.*"])}
                assert found == set(ack.sequences)

        await at_once(work)


@promise("The first `ack`, `nak` or `term` settles a message, and the rest are ignored.")
@promise("The first of ``ack``, ``nak`` and ``term`` settles it: later acknowledgements are ignored silently.")
async def test_one_of_many_settles_a_message(server: Any, connect: Connect) -> None:
    """The first who does settles it: it is acknowledged, wanted again, or given up, and one of these alone."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with await js.pull_subscribe(f"{name}.>", "D", ack_wait=60) as subscription:
            for _ in range(10):
                await js.publish(f"{name}.a")
                (message,) = await subscription.fetch(1, timeout=10)

                async def settle(number: int, message: Any = message) -> None:
                    await (message.ack, message.term, partial(message.nak, 60.0))[number % 3]()

                await at_once(settle)
                assert message.settled
            info = await subscription.consumer_info()
            assert info.num_redelivered == 0
            assert info.delivered.consumer_seq == 10


@promise("asking again (after a wait that was given up) gives the same answer")
@promise("None: nothing more is stored, and asking again (after a wait that was given up) gives the same answer")
async def test_many_end_what_one_has_ended(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        for _ in range(5):
            subscription = await js.subscribe(f"{name}.>")
            pulled = await js.pull_subscribe(f"{name}.>")
            batch = js.fast_publisher()
            await batch.publish(f"{name}.a")

            async def end(number: int, subscription: Any = subscription, pulled: Any = pulled) -> None:
                await (subscription.unsubscribe, subscription.drain, pulled.unsubscribe, pulled.drain)[number % 4]()

            await at_once(end)
            acks = await at_once(lambda _, batch=batch: batch.commit())  # type: ignore[misc]
            assert {ack.count for ack in acks} == {1}
        assert await js.consumer_names(name) == []
