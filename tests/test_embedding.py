"""The conversations inside another client: the outbox that ``jsproto/EMBEDDING.md`` shows, on nats-py.

Fast-ingest batches and Direct Gets run on it, and its failure path is taken: a link that is lost and restored, a link
that is lost for good, a connection that is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import pytest

from jsproto import DirectBatch, FastPublisher, Ticket
from jsproto.errors import (
    BadSubjectError,
    BatchLostError,
    ConnectionClosedError,
    ConnectionLostError,
    IncompleteBatchError,
    MaxPayloadError,
)
from jsproto.grammar.api import ApiSubjects
from jsproto_io.nats_server import NatsServer
from tests.marks import promise
from tests.readmes import program_with

T = TypeVar("T")

NAMES: Final[dict[str, Any]] = {"__name__": "readme"}
exec(program_with("jsproto/EMBEDDING.md", "class NatsPyOutbox"), NAMES)


@asynccontextmanager
async def embedded(url: str, stream: str = "", **options: Any) -> AsyncIterator[Any]:
    """An outbox of the README, connected; ``stream`` is made and takes ``stream.*``."""
    outbox = NAMES["NatsPyOutbox"]()
    await outbox.connect(url, **options)
    try:
        if stream:
            js = outbox.nc.jetstream()
            await js.add_stream(name=stream, subjects=[f"{stream}.*"], allow_batched=True, allow_direct=True)
        yield outbox
    finally:
        await outbox.nc.close()


def batch_on(outbox: Any, name: str, **options: Any) -> FastPublisher:
    return FastPublisher(outbox, inbox=outbox.nc.new_inbox(), batch_id=name, **options)


async def wait(ticket: Ticket[T]) -> T:
    async with asyncio.timeout(20):
        value: T = await NAMES["wait"](ticket)
        return value


async def read_all(outbox: Any, stream: str) -> list[tuple[int, str, bytes]]:
    inbox = outbox.nc.new_inbox()
    direct = DirectBatch(outbox, stream, api=ApiSubjects(), inbox=inbox, now=outbox.now(), page_messages=300)
    read: list[tuple[int, str, bytes]] = []
    while not (direct.finished and not direct.readable().error and len(read) == direct.last_seq):
        await wait(direct.readable())
        read += [(msg.seq, msg.subject, msg.data) for msg in direct.pop_many(100, outbox.now())]
    return read


# -- what works --------------------------------------------------------------------------------------------------------


@promise("A conversation (`FastPublisher`, `DirectBatch` and others) sees no socket.")
def test_another_client_carries_the_conversations(server: NatsServer) -> None:
    async def scenario() -> None:
        async with embedded(server.url, "EMBED") as outbox:
            batch = batch_on(outbox, "b1", flow=50)
            messages = [("EMBED.a", b"%d" % n) for n in range(1_000)]
            while messages:
                taken = batch.publish_many(messages, outbox.now())
                del messages[:taken]
                if not taken:
                    await wait(batch.ready())
            assert (await wait(batch.commit(outbox.now()))).count == 1_000
            assert await read_all(outbox, "EMBED") == [(n + 1, "EMBED.a", b"%d" % n) for n in range(1_000)]

    asyncio.run(scenario())


@promise("A conversation (`FastPublisher`, `DirectBatch` and others) sees no socket.")
def test_two_batches_at_once(server: NatsServer) -> None:
    """In turns, so that both are under way all the time: neither gets what is meant for the other."""

    async def scenario() -> None:
        async with embedded(server.url, "TWO") as outbox:
            batches = [batch_on(outbox, name, flow=10) for name in "ab"]
            for n in range(100):
                for batch in batches:
                    await wait(batch.ready())
                    batch.publish(f"TWO.{batch.batch_id}", b"%d" % n, now=outbox.now())
            assert [(await wait(batch.commit(outbox.now()))).count for batch in batches] == [100, 100]
            read = await read_all(outbox, "TWO")
            expected = [b"%d" % n for n in range(100)]
            assert [data for _, subject, data in read if subject == "TWO.a"] == expected
            assert [data for _, subject, data in read if subject == "TWO.b"] == expected

    asyncio.run(scenario())


def test_headers_travel_both_ways(server: NatsServer) -> None:
    async def scenario() -> None:
        async with embedded(server.url, "HEADS") as outbox:
            batch = batch_on(outbox, "b1")
            batch.publish("HEADS.a", b"1", {"Color": "red"}, now=outbox.now())
            await wait(batch.ready())
            await wait(batch.commit(outbox.now()))
            direct = DirectBatch(outbox, "HEADS", api=ApiSubjects(), inbox=outbox.nc.new_inbox(), now=outbox.now())
            await wait(direct.readable())
            (message,) = direct.pop_many(10, outbox.now())
            assert message.headers is not None
            assert message.headers["Color"] == "red"

    asyncio.run(scenario())


# -- what fails --------------------------------------------------------------------------------------------------------


def test_mistakes_are_refused_before_the_carrier_sees_them(server: NatsServer) -> None:
    async def scenario() -> None:
        async with embedded(server.url) as outbox:
            batch = batch_on(outbox, "b1")
            with pytest.raises(BadSubjectError):
                batch.publish("no blanks", now=outbox.now())
            with pytest.raises(BadSubjectError):
                outbox.publish("no blanks", b"")
            with pytest.raises(MaxPayloadError):
                outbox.publish("a", bytes(outbox.nc.max_payload + 1))
            assert (batch.sequence, outbox.orders.qsize()) == (0, 0)

    asyncio.run(scenario())


def test_a_link_that_is_lost_and_restored(server_for: Any) -> None:
    """Gap mode ``fail`` ends with what it knows, gap mode ``ok`` and a Direct Get go on."""
    server = server_for()

    async def scenario() -> None:
        async with embedded(server.url, "LINK", reconnect_time_wait=0.1, max_reconnect_attempts=-1) as outbox:
            lossless, lossy = batch_on(outbox, "a"), batch_on(outbox, "b", gap="ok")
            for batch in (lossless, lossy):
                batch.publish("LINK.a", b"1", now=outbox.now())
                await wait(batch.ready())
            commit = lossless.commit(outbox.now())
            outbox.nc._transport.close()  # before the commit leaves
            with pytest.raises(BatchLostError, match="nats-py lost its link"):
                await wait(commit)
            await wait(lossy.ready())  # on the next link
            lossy.publish("LINK.a", b"2", now=outbox.now())
            assert (await wait(lossy.commit(outbox.now()))).count == 2
            assert [data for _, _, data in await read_all(outbox, "LINK")] == [b"1", b"1", b"2"]

    asyncio.run(scenario())


def test_a_connection_that_is_closed_ends_everything(server: NatsServer) -> None:
    async def scenario() -> None:
        async with embedded(server.url, "CLOSED") as outbox:
            lossy = batch_on(outbox, "a", gap="ok")
            lossy.publish("CLOSED.a", b"1", now=outbox.now())
            await wait(lossy.ready())
            commit = lossy.commit(outbox.now())
            inbox = outbox.nc.new_inbox()
            direct = DirectBatch(outbox, "CLOSED", api=ApiSubjects(), inbox=inbox, now=outbox.now())
            waiting = direct.readable()
            await outbox.nc.close()
            assert outbox.closed_error is not None
            with pytest.raises(BatchLostError):
                await wait(commit)
            with pytest.raises(IncompleteBatchError):
                await wait(waiting)
            with pytest.raises(ConnectionClosedError):
                outbox.publish("a", b"")
            with pytest.raises(ConnectionClosedError):
                outbox.subscribe("a", lossy)
            with pytest.raises(type(outbox.closed_error)):
                batch_on(outbox, "b").publish("CLOSED.a", b"2", now=outbox.now())

    asyncio.run(scenario())


def test_an_order_that_fails_ends_everything(server: NatsServer) -> None:
    async def scenario() -> None:
        async with embedded(server.url, "ORDER") as outbox:
            batch = batch_on(outbox, "a", gap="ok")
            batch.publish("ORDER.a", b"1", now=outbox.now())
            await wait(batch.ready())
            commit = batch.commit(outbox.now())

            async def fail() -> None:
                raise OSError("no")

            outbox.orders.put_nowait(fail)
            with pytest.raises(BatchLostError) as caught:
                await wait(commit)
            assert isinstance(caught.value.__cause__, ConnectionLostError)

    asyncio.run(scenario())
