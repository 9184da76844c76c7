"""What every driver must do with a batch that is left alone for longer than a real server keeps one.

The server's patience is cut short. Its end shows by the advisory about an atomic batch, which was begun later and
left alone as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from jsproto.api_errors import BatchPublishUnknownBatchIDError
from jsproto.errors import BatchExpiredError, BatchTruncatedError, BatchUnknownError
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, read_all, rows
from tests.marks import known_fault, requirement

pytestmark = [pytest.mark.anyio, pytest.mark.server]


@pytest.fixture(scope="module")
def hasty() -> Iterator[NatsServer]:
    """A server that forgets a batch after 2 s: long enough for what a busy machine does at once."""
    with NatsServer(jetstream='limits { batch { timeout: "2s" } }') as running:
        yield running


async def outwait(nc: Any, js: Any, name: str) -> None:
    """Wait until the server has given up what is as old as this call."""
    async with js.batch_advisories(name) as advisories:
        await nc.publish(f"{name}.a", headers={"Nats-Batch-Id": "left", "Nats-Batch-Sequence": "1"})
        assert (await advisories.next_advisory(timeout=20)).reason == "timeout"


@known_fault("after 11 s of silence add() goes on saying yes to messages that are never stored")
@known_fault("no ping unless the caller sends it")
async def test_a_batch_left_alone_is_kept_alive(hasty: NatsServer, connect: Connect) -> None:
    async with connect(hasty.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        batch = js.fast_publisher()
        batch._core._idle_limit = 1.0  # as the server's, with a margin
        await batch.publish_many(rows(name, 10))
        await outwait(nc, js, name)
        await batch.publish_many(rows(name, 10))
        assert (await batch.commit()).count == 20
        assert len(await read_all(js.get_batch(name))) == 20


@requirement(60)
@known_fault("after 11 s of silence add() goes on saying yes to messages that are never stored")
@known_fault("a batch that died, by a gap or by silence, takes nothing and says why")
@pytest.mark.one_driver
async def test_a_batch_that_the_server_must_have_forgotten_takes_nothing(hasty: NatsServer, connect: Connect) -> None:
    async with connect(hasty.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        batch = js.fast_publisher()
        await batch.publish_many(rows(name, 10))
        await outwait(nc, js, name)
        batch._core._idle_limit = 0.1  # nobody has pinged
        for verb in (
            lambda: batch.publish(f"{name}.a", b"late"),
            lambda: batch.publish_many(rows(name, 5)),
            batch.commit,
        ):
            with pytest.raises(BatchExpiredError):
                await verb()
        assert batch.sequence == 10
        assert len(await read_all(js.get_batch(name))) == 10


@known_fault("after 11 s of silence add() goes on saying yes to messages that are never stored")
@known_fault("after 10 s of silence one message is reported good before the error")
@pytest.mark.parametrize("verb", ["publish", "publish_many", "commit", "ping"])
@pytest.mark.one_driver
async def test_a_batch_that_the_server_forgets_too_early_acknowledges_nothing(
    hasty: NatsServer, connect: Connect, verb: str
) -> None:
    """The client trusts in 10 s: what it sends is not stored, is not acknowledged, and the next answer says so."""
    async with connect(hasty.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        batch = js.fast_publisher(flow=10)
        await batch.publish_many(rows(name, 10))
        await outwait(nc, js, name)
        if verb == "publish":
            assert await batch.publish(f"{name}.a", b"late") == 11
        elif verb == "ping":
            await batch.ping()
        # A server whose timer has run out, but which has not come to forgetting the batch, ends it as if committed.
        if verb == "commit":
            with suppress(BatchUnknownError, BatchTruncatedError):
                assert (await batch.commit()).count == 10
                return
        with pytest.raises((BatchUnknownError, BatchTruncatedError)) as caught:
            await (batch.commit() if verb == "commit" else batch.publish_many(rows(name, 1000)))
        if isinstance(caught.value, BatchUnknownError):
            assert isinstance(caught.value.__cause__, BatchPublishUnknownBatchIDError)
        assert batch.acked == caught.value.acked <= 10
        assert len(await read_all(js.get_batch(name))) == 10
        assert [payload for _, payload, *_ in batch.unacknowledged[10 - batch.acked :]][:1] == (
            [b"late"] if verb == "publish" else [b"row 0"] if batch.sequence > 10 else []
        )
