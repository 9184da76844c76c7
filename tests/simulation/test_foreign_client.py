"""nats-py, another client on asyncio, in simulated time. Links break, the server restarts, and no message is lost."""

from __future__ import annotations

import asyncio
import logging

import nats
import pytest
from nats.aio.client import Client

from jsproto.testing import Fault, NetworkConditions
from jsproto.testing.invariants import check_acknowledged
from jsproto_io.testing.simulation import Report, current, search, simulate


async def quiet(error: Exception) -> None:
    """nats-py logs each lost connection as an error, unless it has a callback."""


async def connected() -> Client:
    """A connection, as soon as the server can be reached."""
    while True:
        try:
            return await nats.connect(
                "nats://localhost:4222", max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=quiet
            )
        except (OSError, nats.errors.Error):
            await asyncio.sleep(0.2)


async def publish() -> dict[int, bytes]:
    """Publish each message until it is acknowledged. Returns what was acknowledged, and reads a key."""
    nc = await connected()
    js = nc.jetstream(timeout=1)
    acknowledged: dict[int, bytes] = {}
    number = 0
    while number < 15:
        try:
            await js.add_stream(name="S", subjects=["s"])
            ack = await js.publish("s", b"%d" % number, headers={"Nats-Msg-Id": str(number)})
        except (OSError, nats.errors.Error):
            await asyncio.sleep(0.2)
        else:
            acknowledged[ack.seq] = b"%d" % number
            number += 1
    await current().healed()
    await asyncio.sleep(5)
    bucket = await js.create_key_value(bucket="KEYS")
    await bucket.put("key", b"value")
    assert (await bucket.get("key")).value == b"value"
    await nc.close()
    return acknowledged


def check(report: Report) -> None:
    stream = report.server.stream("S")
    check_acknowledged(stream, report.result)
    assert len(stream) == 15


@pytest.fixture(autouse=True)
def no_log() -> None:
    logging.getLogger("nats").setLevel(logging.CRITICAL)


@pytest.mark.slow
def test_it_keeps_what_was_acknowledged() -> None:
    search(publish, seeds=range(60), check=check)


def test_it_is_deterministic() -> None:
    faults = [Fault("cut", 0.1), Fault("restart", 0.4, 0.5)]
    once, again = (
        simulate(publish, seed=3, faults=faults, conditions=NetworkConditions(latency=0.01, jitter=0.02), check=check)
        for _ in range(2)
    )
    assert once.error is None, once
    assert (once.digest, once.turns, once.log) == (again.digest, again.turns, again.log)
