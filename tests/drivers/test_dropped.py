"""What every driver must do with batches and publishers that nobody holds any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["fast_publisher", "atomic_batch"])
async def test_a_batch_that_is_dropped_is_given_up(server: Any, connect: Connect, kind: str) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        routes = nc._session._routes
        before = len(routes)
        batch = getattr(js, kind)()
        core = batch._core
        await (batch.publish if kind == "fast_publisher" else batch.add)(f"{name}.a", b"1")
        assert len(routes) == before + 1
        del batch
        await nc.flush()
        assert len(routes) == before
        assert core.phase.name in ("ABANDONED", "DISCARDED")
        assert core.deadline() is None
        batch = getattr(js, kind)()  # one that has come to its end leaves nothing to do
        assert (await batch.commit(f"{name}.a", b"2")).count == 1
        core = batch._core
        del batch
        await nc.flush()
        assert core.phase.name == "COMMITTED"


async def test_publish_async_takes_one_inbox_however_many_ask(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, name = await make_stream(nc)
        routes = nc._session._routes
        before = len(routes)
        promised = [await nc.jetstream().publish_async(f"{name}.a", b"%d" % number) for number in range(20)]
        assert len(routes) == before + 1
        assert [(await one.result()).seq for one in promised] == list(range(1, 21))
        await nc.jetstream(timeout=1, publish_async_max_pending=5).publish_async(f"{name}.a")
        other = nc.jetstream(timeout=1, publish_async_max_pending=5)
        await other.publish_async_completed(timeout=30)
        assert (await other.stream_info(name)).state.messages == 21
        assert len(routes) == before + 2


async def test_a_publisher_that_is_dropped_is_closed(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        routes = nc._session._routes
        before = len(routes)
        promised = await js.async_publisher().publish(f"{name}.a", b"1")
        await nc.flush()
        assert (await promised.result()).seq == 1  # it lives as long as somebody waits
        assert len(routes) == before + 1
        del promised
        await nc.flush()
        assert len(routes) == before


async def test_advisories_that_nobody_reads_are_dropped(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        routes = nc._session._routes
        before = len(routes)
        watch = js.batch_advisories(name)
        await nc.flush()
        assert len(routes) == before + 1
        del watch
        await nc.flush()
        assert len(routes) == before
