"""What every driver must do with batches that nobody holds any more."""

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
