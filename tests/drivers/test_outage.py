"""What every driver must do with what is published while its server is killed and started again.

Every publish that has an answer ends in exactly one of its acknowledgement or a typed error. What was acknowledged
is in the stream, once. A plain publish has no answer: it is kept for the next link while there is room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from jsproto.errors import (
    AsyncPublishError,
    BatchClosedError,
    BatchLostError,
    BatchStalledError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    NoStreamResponseError,
    TimeoutError,
)
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import read_all
from tests.drivers.test_reconnect import SOON, make_stream, run, until
from tests.marks import known_fault, promise

pytestmark = pytest.mark.anyio

# How a publish may end that has met the outage: its link broke; no link came in time, or the answer did not; or it was
# sent to the server that has come back before that had opened its streams.
OUTAGE = (ConnectionLostError, TimeoutError, NoStreamResponseError, BatchLostError, BatchStalledError)
SILENT = "silent"  # who listens there never answers, so that a message is under way whenever the server goes


@asynccontextmanager
async def outage(server: NatsServer) -> AsyncIterator[Callable[[], bool]]:
    """The server is killed and started again while the block runs. The block can ask whether that is done."""
    over: list[bool] = []

    async def kill_and_start() -> None:
        await run(server.kill)
        await run(server.start)
        over.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill_and_start)
        yield lambda: bool(over)


async def outcome(result: Awaitable[Any]) -> Any:
    """The answer, or the error, which must be one that an outage explains."""
    try:
        return await result
    except OUTAGE as error:
        return error


async def check_stored(js: Any, stream: str, outcomes: list[tuple[bytes, Any]]) -> None:
    """What was acknowledged is there, each where its acknowledgement says."""
    stored = {message.seq: message.data for message in await read_all(js.get_batch(stream))}
    acked = [(ack.seq, payload) for payload, ack in outcomes if not isinstance(ack, Error)]
    assert len({seq for seq, _ in acked}) == len(acked) > 0
    for seq, payload in acked:
        assert stored[seq] == payload


@promise("a message that was under way when the link was lost may be stored or not")
@promise("A connection outlives its links.")
@promise("Requests and publishes that were under way end with `ConnectionLostError` or `TimeoutError`.")
@promise("Wait until every message of ``publish_async()`` is acknowledged or has failed.")
@known_fault("a server's error never reaches the future of publish_async")
@known_fault("messages lost, or blocked, at a reconnect")
async def test_promises(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        _, name = await make_stream(nc)
        listener = await nc.subscribe(SILENT)
        js = nc.jetstream(publish_async_max_pending=100)
        silent = await js.publish_async(SILENT)
        await nc.flush()
        promised: list[tuple[bytes, Any]] = []
        async with outage(own_server) as is_over:
            while not is_over():
                payload = b"%d" % len(promised)
                promised.append((payload, await js.publish_async(f"{name}.a", payload)))
        assert isinstance(await outcome(silent.result()), ConnectionLostError)
        promised.append((b"last", await js.publish_async(f"{name}.a", b"last")))
        await js.publish_async_completed()
        assert all(pending.done for _, pending in promised)
        outcomes = [(payload, await outcome(pending.result())) for payload, pending in promised]
        assert outcomes == [(payload, await outcome(pending.result())) for payload, pending in promised]  # for good
        await check_stored(js, name, outcomes)
        assert (await js.publish(f"{name}.a")).stream == name
        assert listener.subject == SILENT


@promise("a message that was under way when the link was lost may be stored or not")
@promise("Requests and publishes that were under way end with `ConnectionLostError` or `TimeoutError`.")
@known_fault("messages lost, or blocked, at a reconnect")
async def test_publishes_that_are_waited_for(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        js, name = await make_stream(nc)
        listener = await nc.subscribe(SILENT)
        outcomes: list[tuple[bytes, Any]] = []
        ended: list[Any] = []

        async def publish(worker: int) -> None:
            while not is_over():
                payload = b"%d %d" % (worker, len(outcomes))
                outcomes.append((payload, await outcome(js.publish(f"{name}.a", payload))))

        async def publish_into_silence() -> None:
            ended.append(await outcome(js.publish(SILENT, timeout=25)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish_into_silence)
            await until(lambda: len(nc._session.requests) == 1)
            await nc.flush()
            async with outage(own_server) as is_over, anyio.create_task_group() as workers:
                for worker in range(4):
                    workers.start_soon(publish, worker)
        assert [type(error) for error in ended] == [ConnectionLostError]
        outcomes.append((b"last", await js.publish(f"{name}.a", b"last")))
        await check_stored(js, name, outcomes)
        assert listener.subject == SILENT


@promise("every workflow behaves the same on all of them")
@promise("a message that was under way when the link was lost may be stored or not")
@promise("Requests and publishes that were under way end with `ConnectionLostError` or `TimeoutError`.")
@promise("An `async_publisher()` has the same two.")
@promise("Wait until every message has its acknowledgement or has failed.")
@known_fault("errors of asynchronous publishes are lost")
@known_fault("messages lost, or blocked, at a reconnect")
async def test_many_messages(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        js, name = await make_stream(nc)
        listener = await nc.subscribe(SILENT)

        def messages(is_over: Callable[[], bool]) -> Iterator[tuple[str, bytes]]:
            number = 0
            while not is_over():
                yield f"{name}.a", b"%d" % number
                number += 1

        publisher = js.async_publisher(max_pending=100, timeout=60)  # longer than any outage here
        failures: list[Any] = []

        async def publish_all(messages: Iterator[tuple[str, bytes]]) -> None:
            """It stops each time that a window has failed."""
            left: list[Any] = []
            while True:
                try:
                    await publisher.publish_many(left)
                    await publisher.publish_many(messages)
                    break
                except AsyncPublishError as error:
                    failures.extend(error.failures)
                    left = publisher.take_unpublished()

        await publisher.publish_many([(SILENT, b"")])
        await nc.flush()
        async with outage(own_server) as is_over:
            await publish_all(messages(is_over))
        await publish_all(iter([(f"{name}.a", b"last")]))
        try:
            await publisher.flush()
        except AsyncPublishError as error:
            failures.extend(error.failures)
        assert publisher.pending == 0
        assert publisher.acked + publisher.failed == publisher.sequence
        assert len(failures) == publisher.failed > 0
        assert all(isinstance(error, OUTAGE) for _, error in failures)
        (silent,) = (error for message, error in failures if message[0] == SILENT)
        assert isinstance(silent, ConnectionLostError)
        stored = await read_all(js.get_batch(name))
        assert publisher.acked <= len(stored) < publisher.sequence
        assert len({message.data for message in stored}) == len(stored)
        assert listener.subject == SILENT


@promise('Atomic batches and lossless fast-ingest batches (`gap="fail"`) end with `BatchLostError`')
@known_fault("messages lost, or blocked, at a reconnect")
async def test_atomic_batches(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        js, name = await make_stream(nc)
        await js.update_stream(name, allow_atomic=True)
        opened = js.atomic_batch()
        for number in range(3):
            await opened.add(f"{name}.a", b"opened %d" % number)
        await nc.flush()
        outcomes: list[Any] = []
        async with outage(own_server) as is_over:
            while not is_over():
                messages = [(f"{name}.a", b"%d %d" % (len(outcomes), number)) for number in range(10)]
                outcomes.append(await outcome(js.publish_batch(messages)))
        for verb in (lambda: opened.add(f"{name}.a"), opened.commit):
            with pytest.raises(BatchLostError, match="nothing of the batch is stored"):
                await verb()
        await nc.flush(timeout=20)
        ack = await js.publish_batch([(f"{name}.a", b"%d %d" % (len(outcomes), number)) for number in range(10)])
        outcomes.append(ack)
        stored = {message.seq: message.data for message in await read_all(js.get_batch(name))}
        found: dict[int, list[int]] = {}
        for data in stored.values():
            batch, number = map(int, data.split())
            found.setdefault(batch, []).append(number)
        assert all(numbers == list(range(10)) for numbers in found.values())  # whole, or not at all
        for batch, ack in enumerate(outcomes):
            if not isinstance(ack, Error):
                assert [stored[seq] for seq in ack.sequences] == [b"%d %d" % (batch, number) for number in range(10)]


# -- without an answer -------------------------------------------------------------------------------------------------


async def lose(nc: Any, server: NatsServer) -> None:
    """Kill the server, and let the connection notice."""
    async with await nc.subscribe("nothing") as sub:
        await nc.flush()
        await run(server.kill)
        while nc._session._link is not None:
            with pytest.raises(TimeoutError):
                await sub.next_msg(timeout=0.01)


@promise("Plain publishes are kept and leave with the next link.")
@known_fault("what is published meanwhile grows without bound, or vanishes")
async def test_a_plain_publish_is_kept_while_there_is_room_and_then_waits(
    own_server: NatsServer, connect: Connect
) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON, pending_size=100_000) as nc:
        sub = await nc.subscribe("a")
        await lose(nc, own_server)
        published: list[int] = []

        async def publish() -> None:
            for number in range(30):
                await nc.publish("a", number.to_bytes(2) + bytes(9_998))
                published.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            await until(lambda: nc._session.congested)
            assert len(published) <= 6  # half of what may wait, and one more
            await run(own_server.start)
        assert [(await sub.next_msg()).data[:2] for _ in range(30)] == [number.to_bytes(2) for number in range(30)]


async def test_an_ended_batch_says_so_though_much_waits(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=60, pending_size=100_000) as nc:
        js, name = await make_stream(nc)
        subject = f"{name}.a"
        batches = [js.fast_publisher() for _ in range(2)]
        for batch in batches:
            await batch.publish(subject, b"1")
        await batches[0].abandon()
        await lose(nc, own_server)  # which ends the other one
        while not nc._session.congested:
            await nc.publish("a", bytes(10_000))
        for batch, error in zip(batches, (BatchClosedError, BatchLostError), strict=True):
            with pytest.raises(error):
                await batch.publish(subject, b"2")
            with pytest.raises(error):
                await batch.publish_many([(subject, b"2")])
            with pytest.raises(error):
                await batch.commit(subject, b"2")
        await nc.close()


@promise("Plain publishes are kept and leave with the next link.")
@known_fault("what is published meanwhile grows without bound, or vanishes")
@known_fault("closing hangs, or hangs who publishes")
async def test_a_plain_publish_that_waits_is_told_of_the_end(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=60, pending_size=100_000) as nc:
        await lose(nc, own_server)
        batch = nc.jetstream().fast_publisher()
        async with anyio.create_task_group() as tasks:

            async def publish_for_ever() -> None:
                while True:
                    await nc.publish("a", bytes(10_000))

            async def publish() -> None:
                with pytest.raises(ConnectionClosedError):
                    await publish_for_ever()

            tasks.start_soon(publish)
            await until(lambda: nc._session.congested)
            await nc.close()
        with pytest.raises((ConnectionClosedError, BatchClosedError)):
            await batch.publish("a")
