"""Random verbs of the asyncio driver under random faults: nothing hangs, nothing crashes, and only the library's errors
reach the application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest

from jsproto.errors import Error
from jsproto.testing import Fault, NetworkConditions, random_faults
from jsproto_io.asyncio import Connection, JetStream, connect
from jsproto_io.testing.simulation import simulate
from tests.effort import examples, first

SEEDS: Final = examples(100)
PARTS: Final = 5  # which several processes may take
UNTIL: Final = 2000.0


class Verbs:
    """One application: some connections, one after the other, and some verbs on each."""

    def __init__(self, random: Random, name: str) -> None:
        self.random = random
        self.name = name

    async def run(self) -> None:
        """Do it all. Errors of the library and of the operating system are part of life."""
        random = self.random
        for _ in range(3):
            with suppress(Error, OSError):
                async with connect(
                    "nats://localhost:4222", timeout=random.choice([0.5, 2]), reconnect_time_wait=0.1,
                    max_reconnect_attempts=random.choice([-1, 3]), ping_interval=random.choice([1, 120]),
                ) as nc:  # fmt: skip
                    js = nc.jetstream()
                    await js.create_stream(
                        "S", subjects=["s.*"], storage="file", allow_batched=True, allow_atomic=True, allow_direct=True,
                        num_replicas=3,
                    )  # fmt: skip
                    for _ in range(random.randrange(3, 10)):
                        verb = random.choice(VERBS)
                        with suppress(Error, OSError, TimeoutError):
                            async with asyncio.timeout(random.choice([0.05, 1, 30])):
                                await verb(self, nc, js)

    async def publish(self, nc: Connection, js: JetStream) -> None:
        await js.publish("s.a", bytes(self.random.randrange(2000)))

    async def fast(self, nc: Connection, js: JetStream) -> None:
        random = self.random
        async with js.fast_publisher(gap=random.choice(["ok", "fail"]), flow=random.randrange(1, 20)) as batch:
            for _ in range(random.randrange(60)):
                await batch.publish("s.b", bytes(random.randrange(300)))
            await batch.commit()

    async def atomic(self, nc: Connection, js: JetStream) -> None:
        async with js.atomic_batch() as batch:
            for _ in range(self.random.randrange(1, 20)):
                await batch.add("s.c", b"x")
            await batch.commit()

    async def read(self, nc: Connection, js: JetStream) -> None:
        async for _ in js.get_batch("S", seq=1, batch=self.random.randrange(1, 50)):
            pass
        async for _ in js.get_last_msgs_for("S", ["s.*"]):
            pass
        await js.get_last_msg("S", "s.a")
        await js.snapshot("S", "s.*")

    async def ordered(self, nc: Connection, js: JetStream) -> None:
        async with await js.subscribe("s.*", ordered=True, idle_heartbeat=0.5) as subscription:
            for _ in range(self.random.randrange(20)):
                await subscription.next_msg(timeout=1)

    async def fetch(self, nc: Connection, js: JetStream) -> None:
        durable = f"d{self.random.randrange(2)}"
        async with await js.pull_subscribe("s.*", durable=durable, ack_wait=1) as subscription:
            for _ in range(3):
                for message in await subscription.fetch(10, timeout=0.5):
                    settle: Callable[[], Awaitable[Any]] = self.random.choice(
                        [message.ack, message.nak, message.ack_sync, message.term, message.in_progress]
                    )
                    await settle()

    async def stream(self, nc: Connection, js: JetStream) -> None:
        async with await js.pull_subscribe("s.*") as subscription, subscription.messages() as messages:
            for _ in range(15):
                await (await messages.next_msg(timeout=1)).ack()

    async def push(self, nc: Connection, js: JetStream) -> None:
        options: Any = {"durable": f"p-{self.name}", "idle_heartbeat": 0.5, "flow_control": True}
        async with await js.subscribe("s.a", **options) as subscription:
            for _ in range(10):
                await (await subscription.next_msg(timeout=1)).ack()

    async def callback(self, nc: Connection, js: JetStream) -> None:
        got: list[object] = []
        async with await js.subscribe("s.*", cb=got.append):
            await asyncio.sleep(1)

    async def session(self, nc: Connection, js: JetStream) -> None:
        async with js.consistent_session() as session:
            await session.publish("s.a", b"x")
            await session.get_last_msg("S", "s.a")

    async def pipelined(self, nc: Connection, js: JetStream) -> None:
        for _ in range(30):
            await js.publish_async("s.a", b"x")
        await js.publish_async_completed()

    async def core(self, nc: Connection, js: JetStream) -> None:
        async with await nc.subscribe("news.*") as subscription:
            await nc.publish("news.1", b"x")
            await subscription.next_msg(timeout=1)
            await subscription.drain()
        await nc.flush()
        await nc.request("nobody", b"", timeout=1)


VERBS: Final = [value for name, value in vars(Verbs).items() if name[0] != "_" and name != "run"]


def schedule(seed: int) -> tuple[NetworkConditions, list[Fault]]:
    """The network of a seed, and what goes wrong in it: everything that can."""
    random = Random(seed)
    conditions = NetworkConditions(
        latency=random.choice([0.0, 0.002, 0.02]), jitter=random.choice([0.0, 0.01]), piece=random.choice([0, 0, 50]),
        loss=random.choice([0.0, 0.0, 0.02]), duplication=random.choice([0.0, 0.0, 0.02]),
        reordering=random.choice([0.0, 0.0, 0.02]),
    )  # fmt: skip
    faults = random_faults(
        seed, seconds=8.0, links=6, size=20_000, streams=("S",), replicated=("S",), cluster=True, crashes=True, most=8
    )
    return conditions, faults


@pytest.mark.parametrize("part", first(range(PARTS), 2))
def test_whatever_goes_wrong_only_errors_of_the_library_come_of_it(part: int, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(part, SEEDS, PARTS):

        async def main(seed: int = seed) -> None:
            async with asyncio.TaskGroup() as group:
                for name in ("one", "two", "three")[: 1 + seed % 3]:
                    group.create_task(Verbs(Random(f"{seed} {name}"), name).run())

        conditions, faults = schedule(seed)
        report = simulate(main, seed=seed, conditions=conditions, faults=faults, until=UNTIL)
        assert report.error is None, report
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == [], report.replay
        caplog.clear()
