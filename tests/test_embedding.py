"""The conversations inside another client: nats-py carries a fast-ingest batch and a Direct Get.

``NatsPyOutbox`` is all it takes: publish and subscribe are nats-py's, time is the loop's, and whoever waits for a
ticket lends it an ``asyncio.Event``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg as NatsMsg

from jsproto import Conversation, DirectBatch, FastPublisher, Headers, Msg, ServerInfo, Ticket
from jsproto.errors import BadSubjectError, Error
from jsproto.events import Event
from jsproto.grammar.api import ApiSubjects
from jsproto_io.nats_server import NatsServer

T = TypeVar("T")


class NatsPyOutbox:
    """jsproto's conversations on a nats-py connection."""

    def __init__(self, nc: Client) -> None:
        self.nc = nc
        self.server: ServerInfo | None = None
        self.closed_error: Error | None = None
        self.events: list[Event] = []
        self.sids = 0
        self.orders: asyncio.Queue[Callable[[], Coroutine[Any, Any, object]]] = asyncio.Queue()
        self.subscriptions: dict[int, Any] = {}
        self.worker = asyncio.ensure_future(self.carry())

    async def carry(self) -> None:
        """What the conversations ordered, in their order."""
        while True:
            await (await self.orders.get())()

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        block = None if headers is None else dict(Headers.parse(headers).items())
        self.orders.put_nowait(lambda: self.nc.publish(subject, payload, (reply or b"").decode(), block))

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        self.sids += 1
        sid = self.sids

        async def receive(msg: NatsMsg) -> None:
            header = None if msg.headers is None else raw_block(msg)
            conversation.receive(Msg(msg.subject.encode(), b"", None, header, msg.data), self.now())

        async def subscribe() -> None:
            self.subscriptions[sid] = await self.nc.subscribe(subject, queue or "", cb=receive)

        self.orders.put_nowait(subscribe)
        return sid

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        self.orders.put_nowait(lambda: self.subscriptions[sid].unsubscribe(max_msgs or 0))

    def completed(self, ticket: Ticket[Any]) -> None:
        ticket.wake()

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def flush(self) -> None:
        self.orders.put_nowait(self.nc.flush)

    def rearm(self, conversation: Conversation) -> None:
        deadline = conversation.deadline()
        if deadline is not None:
            asyncio.get_running_loop().call_at(deadline, conversation.handle_timeout, deadline)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, ticket: Ticket[T]) -> T:
        if not ticket.done:
            event = ticket.event = asyncio.Event()
            await event.wait()
        return ticket.result()


def raw_block(msg: NatsMsg) -> bytes:
    """nats-py parses headers away and hides a status among them: put the block together again."""
    headers = dict(msg.headers or {})
    status, description = headers.pop("Status", None), headers.pop("Description", "")
    first = "NATS/1.0" if status is None else f"NATS/1.0 {status} {description}"
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


async def program(url: str) -> tuple[list[tuple[int, str, bytes]], int]:
    nc = await nats.connect(url)
    try:
        await nc.jetstream().add_stream(name="EMBED", subjects=["embed.>"], allow_direct=True, allow_batched=True)
        outbox = NatsPyOutbox(nc)
        inbox = nc.new_inbox()
        batch = FastPublisher(outbox, inbox=inbox, batch_id="b1", flow=50)
        messages = [("embed.a", b"%d" % n) for n in range(1_000)]
        while messages:
            taken = batch.publish_many(messages, outbox.now())
            del messages[:taken]
            if not taken:
                await outbox.wait(batch.ready())
        ack = await outbox.wait(batch.commit(outbox.now()))
        direct = DirectBatch(
            outbox, "EMBED", api=ApiSubjects(), inbox=nc.new_inbox(), now=outbox.now(), page_messages=300,
        )  # fmt: skip
        stored: list[tuple[int, str, bytes]] = []
        while not (direct.finished and not direct.readable().error and len(stored) == direct.last_seq):
            await outbox.wait(direct.readable())
            stored += [(msg.seq, msg.subject, msg.data) for msg in direct.pop_many(100, outbox.now())]
        outbox.worker.cancel()
        assert ack.count is not None
        return stored, ack.count
    finally:
        await nc.close()


def test_another_client_carries_the_conversations(server: NatsServer) -> None:
    stored, count = asyncio.run(program(server.url))
    assert count == 1_000
    assert stored == [(n + 1, "embed.a", b"%d" % n) for n in range(1_000)]


README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
(EXAMPLE,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "class NatsPyOutbox" in block]


async def two_batches(url: str, kind: Callable[[Client], Any]) -> list[tuple[str, bytes]]:
    """Two fast-ingest batches at once on one outbox of this kind; what is stored then."""
    nc = await nats.connect(url)
    try:
        name = f"TWO{nc.new_inbox()[-8:]}"
        await nc.jetstream().add_stream(name=name, subjects=[f"{name}.*"], allow_batched=True, allow_direct=True)
        outbox = kind(nc)
        now = asyncio.get_running_loop().time
        carrier = getattr(outbox, "worker", None) or asyncio.ensure_future(outbox.carry())
        batches = [FastPublisher(outbox, inbox=nc.new_inbox(), batch_id=each, flow=10) for each in "ab"]

        async def wait(ticket: Ticket[T]) -> T:
            if not ticket.done:
                event = ticket.event = asyncio.Event()
                async with asyncio.timeout(20):
                    await event.wait()
            return ticket.result()

        for n in range(100):  # in turns, so that both are under way all the time
            for batch in batches:
                await wait(batch.ready())
                batch.publish(f"{name}.{batch.batch_id}", b"%d" % n, now=now())
        acks = [await wait(batch.commit(now())) for batch in batches]
        assert [ack.count for ack in acks] == [100, 100]
        carrier.cancel()
        js = nc.jetstream()
        stored = [await js.get_msg(name, seq) for seq in range(1, 201)]
        await js.delete_stream(name)
        return [(msg.subject.rpartition(".")[2], msg.data) for msg in stored if msg.subject and msg.data]
    finally:
        await nc.close()


def readme_outbox() -> Callable[[Client], Any]:
    names: dict[str, Any] = {}
    exec(EXAMPLE, names)
    kind: Callable[[Client], Any] = names["NatsPyOutbox"]
    return kind


@pytest.mark.parametrize("kind", [NatsPyOutbox, readme_outbox()])
def test_two_batches_at_once(server: NatsServer, kind: Callable[[Client], Any]) -> None:
    stored = asyncio.run(two_batches(server.url, kind))
    for batch in "ab":
        assert [data for subject, data in stored if subject == batch] == [b"%d" % n for n in range(100)]


def test_mistakes_are_refused_before_the_carrier_sees_them() -> None:
    async def scenario() -> int:
        outbox = NatsPyOutbox(Client())
        outbox.worker.cancel()
        batch = FastPublisher(outbox, inbox="_INBOX.x", batch_id="b1")
        with pytest.raises(BadSubjectError):
            batch.publish("no blanks", now=0.0)
        return outbox.orders.qsize()

    assert asyncio.run(scenario()) == 0
