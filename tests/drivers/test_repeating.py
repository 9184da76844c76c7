"""What may or may not be stored is published again, by its id: it is stored once."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import Error
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.test_outage import outage, outcome
from tests.drivers.test_reconnect import SOON, make_stream
from tests.marks import promise

pytestmark = pytest.mark.anyio


@promise("Only a `msg_id` makes it safe to publish it again")
@promise("Only a `msg_id` makes it safe to publish them again")
async def test_what_is_published_again_by_its_id_is_stored_once(own_server: NatsServer, connect: Connect) -> None:
    async with connect(own_server.url, reconnect_time_wait=SOON) as nc:
        _, name = await make_stream(nc)
        js = nc.jetstream(publish_async_max_pending=100)
        promised: list[Any] = []
        again: list[int] = []
        while not again:
            async with outage(own_server) as is_over:
                while not is_over():
                    payload = b"%d" % len(promised)
                    promised.append(await js.publish_async(f"{name}.a", payload, msg_id=payload.decode()))
            await js.publish_async_completed()
            again = [n for n, pending in enumerate(promised) if isinstance(await outcome(pending.result()), Error)]
        for number in again:
            promised[number] = await js.publish_async(f"{name}.a", b"%d" % number, msg_id=str(number))
        seqs = [(await pending.result()).seq for pending in promised]
        stored = {message.seq: message.data async for message in js.get_batch(name)}
        assert len(stored) == len(promised)
        assert [stored[seq] for seq in seqs] == [b"%d" % number for number in range(len(promised))]
