"""Durations on a real nats-server: what is read and written back is the same, whichever way it was given."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from jsproto.errors import ConfigMismatchError, LocalProtocolError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, unique
from tests.marks import promise

pytestmark = pytest.mark.anyio

SECOND = 10**9


async def asked(nc: Any, subject: str, body: Any = None) -> dict[str, Any]:
    """The server's own words."""
    answer = await nc.request(f"$JS.API.{subject}", b"" if body is None else json.dumps(body).encode())
    found: dict[str, Any] = json.loads(answer.data)
    assert "error" not in found
    return found


async def config_of(nc: Any, *names: str) -> dict[str, Any]:
    kind = "CONSUMER" if len(names) > 1 else "STREAM"
    config: dict[str, Any] = (await asked(nc, f"{kind}.INFO.{'.'.join(names)}"))["config"]
    return config


@promise("Replace the stream's configuration by ``config``, whole")
async def test_a_stream_that_is_read_and_written_back_stays_as_it_is(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = nc.jetstream(), unique("S")
        limits: Any = {"inactive_threshold": timedelta(minutes=5), "max_ack_pending": 7}
        config = StreamConfig(
            name, subjects=[f"{name}.>"], storage="memory", max_age=3600, duplicate_window=timedelta(seconds=1.5),
            subject_delete_marker_ttl=2.0, allow_msg_ttl=True, allow_rollup_hdrs=True, consumer_limits=limits,
        )  # fmt: skip
        await js.create_stream(config)
        there = await config_of(nc, name)
        assert (there["max_age"], there["duplicate_window"]) == (3_600 * SECOND, 1_500_000_000)
        assert there["subject_delete_marker_ttl"] == 2 * SECOND
        assert there["consumer_limits"] == {"inactive_threshold": 300 * SECOND, "max_ack_pending": 7}
        info = await js.stream_info(name)
        assert (info.config.max_age, info.config.duplicate_window) == (3600.0, 1.5)
        for written in (info.config, info.config.updated(max_age=info.config.max_age)):
            await js.update_stream(written)
            assert await config_of(nc, name) == there
        await js.update_stream(name, max_age=timedelta(hours=2))
        assert await config_of(nc, name) == there | {"max_age": 7_200 * SECOND}


async def test_a_stream_of_one_second_stays_one(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, max_age=1)
        info = await js.stream_info(name)
        assert info.config.max_age == 1.0
        await js.update_stream(name, max_age=info.config.max_age)
        assert (await config_of(nc, name))["max_age"] == SECOND


async def test_nanoseconds_that_no_float_holds_stay_as_they_are(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = nc.jetstream(), unique("S")
        age, window = 2**63 - 1, 31_536_000_000_000_001
        body = {
            "name": name,
            "subjects": [f"{name}.>"],
            "storage": "memory",
            "max_age": age,
            "duplicate_window": window,
        }
        there = (await asked(nc, f"STREAM.CREATE.{name}", body))["config"]
        assert (there["max_age"], there["duplicate_window"]) == (age, window)
        await js.update_stream((await js.stream_info(name)).config)
        assert await config_of(nc, name) == there
        await js.update_stream(name, description="d")
        assert await config_of(nc, name) == there | {"description": "d"}
        own = {"durable_name": "C", "ack_policy": "explicit", "backoff": [SECOND + 1, window], "max_deliver": 3}
        await asked(nc, f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": own})
        consumer = await config_of(nc, name, "C")
        assert consumer["backoff"] == own["backoff"]
        await js.update_consumer(name, (await js.consumer_info(name, "C")).config)
        assert await config_of(nc, name, "C") == consumer


async def test_a_consumer_that_is_read_and_written_back_stays_as_it_is(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        config = ConsumerConfig(
            durable_name="C", backoff=[1, timedelta(seconds=2.5)], max_deliver=3, max_expires=0.25,
            inactive_threshold=timedelta(days=365), priority_groups=["g"], priority_policy="pinned_client",
            priority_timeout=timedelta(seconds=4),
        )  # fmt: skip
        await js.create_consumer(name, config)
        there = await config_of(nc, name, "C")
        assert (there["ack_wait"], there["backoff"]) == (SECOND, [SECOND, 2_500_000_000])
        assert (there["max_expires"], there["priority_timeout"]) == (SECOND // 4, 4 * SECOND)
        assert there["inactive_threshold"] == 365 * 86_400 * SECOND
        info = await js.consumer_info(name, "C")
        assert (info.config.ack_wait, info.config.backoff) == (1.0, [1.0, 2.5])
        for written in (info.config, info.config.updated(max_expires=info.config.max_expires)):
            await js.update_consumer(name, written)
            assert await config_of(nc, name, "C") == there
        inbox = nc.new_inbox()
        await js.create_consumer(name, ConsumerConfig(name="P", deliver_subject=inbox, idle_heartbeat=0.5))
        assert (await config_of(nc, name, "P"))["idle_heartbeat"] == SECOND // 2


async def test_thirty_seconds_to_acknowledge_are_thirty_seconds(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        for number in range(3):
            await js.publish(f"{name}.a", b"%d" % number)
        wanted = ConsumerConfig(ack_wait=30)
        sub = await js.pull_subscribe(f"{name}.a", durable="C", config=wanted)
        assert (await config_of(nc, name, "C"))["ack_wait"] == 30 * SECOND
        assert len(await sub.fetch(3)) == 3
        assert await sub.fetch(3, timeout=0.3) == []
        assert (await sub.consumer_info()).num_redelivered == 0
        for same in ({"config": wanted}, {"ack_wait": 30}, {"ack_wait": timedelta(seconds=30)}):
            async with await js.pull_subscribe(f"{name}.a", durable="C", **same):
                pass
        with pytest.raises(ConfigMismatchError, match="ack_wait"):
            await js.pull_subscribe(f"{name}.a", durable="C", ack_wait=31)
        push = await js.subscribe(f"{name}.a", durable="P", config=ConsumerConfig(ack_wait=30, idle_heartbeat=0.5))
        there = await config_of(nc, name, "P")
        assert (there["ack_wait"], there["idle_heartbeat"]) == (30 * SECOND, SECOND // 2)
        await push.unsubscribe()


async def test_a_pause_is_counted_in_seconds(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await js.create_consumer(name, durable_name="C")
        paused = await js.pause_consumer(name, "C", 4_070_908_800 * SECOND)  # in 2099
        assert 10**9 < paused.pause_remaining < 3 * 10**9
        assert 10**9 < (await js.consumer_info(name, "C")).pause_remaining < 3 * 10**9


@pytest.mark.parametrize("bad", [True, -1, float("nan"), float("inf"), 1e10, "5s"])
async def test_what_is_no_duration_is_refused_before_anything_is_sent(server: Any, connect: Connect, bad: Any) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        with pytest.raises(LocalProtocolError, match="max_age must be"):
            await js.create_stream(unique("S"), max_age=bad)
        with pytest.raises(LocalProtocolError, match="max_age must be"):
            await js.update_stream(name, max_age=bad)
        for verb in (js.pull_subscribe, js.subscribe):
            with pytest.raises(LocalProtocolError, match="ack_wait must be"):
                await verb(f"{name}.a", ack_wait=bad)
        with pytest.raises(LocalProtocolError, match=r"backoff\[1\] must be"):
            await js.create_consumer(name, backoff=[1, bad])
        assert await js.consumer_names(name) == []
