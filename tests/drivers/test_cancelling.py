"""A task is cancelled, or a thread's block ends by an error, in the middle of a batch: nothing is committed for it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from jsproto.errors import BatchClosedError
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream
from tests.marks import promise

pytestmark = pytest.mark.anyio


@promise("leaving the `with` block without a commit commits nothing silently")
@promise("Leaving a batch's `with` block without a commit abandons it, by an error or a cancelled task too.")
@promise("An abandoned atomic batch stores nothing.")
@promise("it discards the batch when the block is left without a commit: nothing is stored")
@pytest.mark.parametrize("kind", ["atomic", "fast"])
async def test_a_batch_whose_task_is_cancelled_commits_nothing(server: Any, connect: Connect, kind: str) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        opened: list[Any] = []

        async def publish(started: anyio.Event) -> None:
            async with js.atomic_batch() if kind == "atomic" else js.fast_publisher() as batch:
                opened.append(batch)
                for number in range(10):
                    await (batch.add if kind == "atomic" else batch.publish)(f"{name}.a", b"%d" % number)
                started.set()
                await anyio.sleep_forever()

        for _ in range(5):
            async with anyio.create_task_group() as tasks:
                started = anyio.Event()
                tasks.start_soon(publish, started)
                await started.wait()
                tasks.cancel_scope.cancel()
        for batch in opened:
            with pytest.raises(BatchClosedError):
                await batch.commit()
            assert batch.ack is None
        await nc.flush()
        stored = 0 if kind == "atomic" else 50  # fast ingest stores as it goes
        while (found := (await js.stream_info(name)).state.messages) < stored:
            await anyio.sleep(0.002)  # the server has the messages, and stores them when it comes to it
        assert found == stored
