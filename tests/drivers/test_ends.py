"""Every end has its deadline, whatever the server does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from jsproto.errors import Error
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import LIMIT, Connect
from tests.drivers.test_facade import make_stream
from tests.marks import promise
from tests.servers import paused

pytestmark = pytest.mark.anyio


ENDS: dict[str, Callable[[dict[str, Any]], Awaitable[object]]] = {
    "unsubscribe": lambda made: made["pushed"].unsubscribe(),
    "drain": lambda made: made["pushed"].drain(),
    "ordered.unsubscribe": lambda made: made["ordered"].unsubscribe(),
    "ordered.drain": lambda made: made["ordered"].drain(),
    "pulled.unsubscribe": lambda made: made["pulled"].unsubscribe(),
    "pulled.drain": lambda made: made["pulled"].drain(),
    "core.drain": lambda made: made["core"].drain(),
    "batch.commit": lambda made: made["batch"].commit(),
    "batch.abandon": lambda made: made["batch"].abandon(),
    "atomic.commit": lambda made: made["atomic"].commit(),
    "publisher.flush": lambda made: made["publisher"].flush(timeout=LIMIT),
}


@promise("every end has its deadline")
@promise("A server that takes no more bytes delays it by no more than twice the ``timeout`` of the connection.")
async def test_every_end_comes_in_time_when_the_server_stands_still(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, timeout=LIMIT) as nc:
        _, name = await make_stream(nc, allow_atomic=True)
        js = nc.jetstream(timeout=LIMIT)
        made: dict[str, Any] = {
            "pushed": await js.subscribe(f"{name}.a"),
            "ordered": await js.subscribe(f"{name}.a", ordered=True),
            "pulled": await js.pull_subscribe(f"{name}.a"),
            "core": await nc.subscribe("a"),
            "batch": js.fast_publisher(ack_timeout=LIMIT),
            "atomic": js.atomic_batch(),
            "publisher": js.async_publisher(),
        }
        await made["batch"].publish(f"{name}.a")
        await made["atomic"].add(f"{name}.a")
        await made["publisher"].publish(f"{name}.a")
        await nc.flush()
        came: set[str] = set()

        async def come(end: str) -> None:
            with suppress(Error):
                await ENDS[end](made)
            came.add(end)

        with paused(own_server):
            with anyio.move_on_after(15):
                async with anyio.create_task_group() as tasks:
                    for end in ENDS:
                        tasks.start_soon(come, end)
            assert came == {*ENDS}
            with anyio.fail_after(15), suppress(Error):
                await nc.close()
