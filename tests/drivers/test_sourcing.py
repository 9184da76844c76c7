"""Durable sourcing on a real nats-server: the configurations of both ends, and who may not subscribe."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto import sourcing_consumer
from jsproto.api_errors import ConsumerNotFoundError, SourceConsumerRequiresAckFCError
from jsproto.errors import (
    ConfigMismatchError,
    ConnectionClosedError,
    FlowControlAckError,
    LocalProtocolError,
    PushConsumerError,
    SourceBusyError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.grammar.consumer import ConsumerConfig
from tests.drivers.conftest import LIMIT, Connect
from tests.drivers.test_facade import make_stream, unique
from tests.drivers.test_subscribing import PATIENCE, create, fill
from tests.grammar.test_sources import INCOMPLETE
from tests.grammar.test_sourcing import REFUSED
from tests.marks import promise, requirement

pytestmark = pytest.mark.anyio

IN_2099 = 4_070_908_800_000_000_000


async def asked(nc: Any, subject: str, body: Any) -> Any:
    return json.loads((await nc.request(f"$JS.API.{subject}", json.dumps(body).encode())).data)


async def copies(js: Any, name: str, to: str) -> dict[str, Any]:
    """A durable consumer ``D`` of ``name``, as a source in the configuration of another stream."""
    stream = (await js.stream_info(name)).config
    await js.create_consumer(name, sourcing_consumer("D", to, stream=stream, filter_subject=f"{name}.a"))
    return {"name": name, "consumer": {"name": "D", "deliver_subject": to}}


@requirement(158, 165)
async def test_a_work_queue_moves_by_a_durable_source(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        copy = unique("COPY")
        source = await copies(js, name, unique("to"))
        await fill(js, name, 5)
        await js.create_stream(copy, sources=[source])
        async with await js.subscribe(stream=copy, ordered=True) as subscription:
            assert [int((await subscription.next_msg(timeout=PATIENCE)).data) for _ in range(5)] == [*range(5)]
            (found,) = (await js.stream_info(copy)).sources
            assert (found.name, found.seq, found.consumer, found.failure) == (name, 5, "D", None)
            assert found.active >= 0
            paused = await js.pause_consumer(name, "D", IN_2099)
            assert paused.paused
            await fill(js, name, 2, first=5)
            while (info := await js.consumer_info(name, "D")).num_pending < 2:  # FACTS.md F5.40
                pass
            assert (info.num_pending, info.paused) == (2, True)
            assert 2 <= info.num_pending + info.num_ack_pending <= 7  # the first ones may still be acknowledged
            (found,) = (await js.stream_info(copy)).sources
            assert (found.seq, found.lag) == (5, 0)
            await js.resume_consumer(name, "D")
            assert [int((await subscription.next_msg(timeout=PATIENCE)).data) for _ in range(2)] == [5, 6]
        await js.delete_stream(copy)


@requirement(164, 166)
async def test_a_source_whose_consumer_acknowledges_otherwise_says_so(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        copy, to = unique("COPY"), unique("to")
        await js.create_consumer(name, ConsumerConfig(durable_name="D", deliver_subject=to, ack_policy="all"))
        async with await nc.subscribe(to):
            await js.create_stream(copy, sources=[{"name": name, "consumer": {"name": "D", "deliver_subject": to}}])
            while (failure := (await js.stream_info(copy)).sources[0].failure) is None:
                pass
        assert type(failure) is SourceConsumerRequiresAckFCError
        await js.delete_stream(copy)


@requirement(157, 160)
async def test_servers_refuse_what_is_refused_before(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        config = sourcing_consumer("D", unique("to"))
        for options, code, _ in REFUSED:
            with pytest.raises(LocalProtocolError):
                await js.create_consumer(name, config.updated(**options))
            body = {"stream_name": name, "config": config.updated(**options).to_json()}
            answer = await asked(nc, f"CONSUMER.CREATE.{name}.D", body)
            assert answer["error"]["err_code"] == code, options
        inside = config.updated(deliver_subject=f"{name}.a")
        with pytest.raises(LocalProtocolError, match="inside"):
            sourcing_consumer("D", f"{name}.a", stream=(await js.stream_info(name)).config)
        answer = await asked(nc, f"CONSUMER.CREATE.{name}.D", {"stream_name": name, "config": inside.to_json()})
        assert answer["error"]["err_code"] == 10081
        for changes, _ in INCOMPLETE:
            block = {"name": name, "consumer": {"name": "D", "deliver_subject": "to.d"}, **changes}
            for source, code in (({"sources": [block]}, 10215), ({"mirror": block}, 10213)):
                with pytest.raises(LocalProtocolError):
                    await js.create_stream("COPY", **source)
                answer = await asked(nc, "STREAM.CREATE.COPY", {"name": "COPY", **source})
                assert answer["error"]["err_code"] == code, changes
        assert await js.consumer_names(name) == []


@requirement(159)
async def test_server_managed_is_refused_with_what_to_do(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        copy = unique("COPY")
        with pytest.raises(UnsupportedByServerError, match="sourcing_consumer"):
            await js.create_stream(copy, sources=[{"name": name, "consumer": {"name": "D", "server_managed": True}}])


@requirement(161)
async def test_what_a_sourcing_consumer_may_have(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        choices: list[Any] = [
            {}, {"deliver_policy": "last_per_subject", "filter_subject": ">"}, {"replay_policy": "original"},
            {"opt_start_seq": 1}, {"opt_start_time": 0}, {"deliver_policy": "new"}, {"max_ack_pending": 10_000},
        ]  # fmt: skip
        for number, options in enumerate(choices):
            wanted = sourcing_consumer(f"D{number}", unique("to"), sourcing=True, **options)
            info = await js.create_consumer(name, wanted)
            assert info.config.ack_policy == "flow_control"
            assert info.config.sourcing is True
            assert (await js.update_consumer(name, info.config.updated(description="d"))).config.description == "d"


async def test_nobody_subscribes_to_a_sourcing_consumer(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await js.create_consumer(name, sourcing_consumer("FC", unique("to"), max_ack_pending=10))
        await create(nc, name, "GROUP", deliver_subject=unique("to"), deliver_group="g", ack_policy="flow_control")
        there = sorted(await js.consumer_names(name))
        await fill(js, name, 20)
        for bound in ({"durable": "FC"}, {"consumer": "FC"}, {"consumer": "FC", "raw": True}):
            with pytest.raises(FlowControlAckError, match="streams that source"):
                await js.subscribe(f"{name}.a", **bound)
            with pytest.raises(FlowControlAckError):
                await js.subscribe(stream=name, **bound)
        for shared in ({"consumer": "GROUP"}, {"durable": "GROUP"}):
            with pytest.raises(FlowControlAckError):
                await js.subscribe(f"{name}.a", queue="g", **shared)
            with pytest.raises(PushConsumerError):
                await js.pull_subscribe(f"{name}.a", durable="GROUP")
        others: list[Any] = [{}, {"durable": "NEW"}, {"queue": "NEW"}, {"consumer": "FC"}, {"ordered": True}]
        for keywords in others:
            with pytest.raises(LocalProtocolError):
                await js.subscribe(f"{name}.a", ack_policy="flow_control", **keywords)
            config = ConsumerConfig(ack_policy="flow_control")
            with pytest.raises(LocalProtocolError):
                await js.subscribe(f"{name}.a", config=config, **keywords)
        with pytest.raises(LocalProtocolError):
            await js.pull_subscribe(f"{name}.a", ack_policy="flow_control", durable="NEW")
        assert sorted(await js.consumer_names(name)) == there
        info = await js.consumer_info(name, "FC")
        assert (info.push_bound, info.delivered.consumer_seq) == (None, 0)


FLOW = ConsumerConfig(ack_policy="flow_control", max_ack_pending=10)


async def take(source: Any, stored: list[int], until: int) -> None:
    """Store what comes, and confirm it, until there are so many."""
    while len(stored) < until:
        messages = await source.next_msgs(min(7, until - len(stored)), timeout=PATIENCE)
        stored += [int(message.data) for message in messages]
        await source.confirm(messages[-1].metadata.sequence.stream)


@promise("Unconfirmed messages come again the next time")
@pytest.mark.one_driver
async def test_a_work_queue_is_copied_by_one_program_after_another(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        await fill(js, name, 60)
        stored: list[int] = []
        position, identity = 0, None
        for until in (25, 40, 60):
            async with await js.source(name, "C", config=FLOW, position=position, identity=identity) as source:
                assert (source.stream, source.consumer, source.error) == (name, "C", None)
                await take(source, stored, until)
                position, identity = source.position, source.identity
                if until == 60:
                    while (await js.stream_info(name)).state.messages:
                        pass
            async for message in source:  # what was buffered at the end
                assert int(message.data) >= until
            with pytest.raises(ConnectionClosedError):
                await source.next_msg(timeout=PATIENCE)
            assert source.info.config.max_ack_pending == 10
        assert stored == [*range(60)]
        assert position == 60
        assert identity


@promise("Unconfirmed messages come again the next time")
async def test_what_was_not_confirmed_comes_again(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        await fill(js, name, 20)
        for begin in (0, 4, 12):
            async with await js.source(name, "C", config=FLOW, position=begin) as source:
                taken = [await source.next_msg(timeout=PATIENCE) for _ in range(8)]
                assert [int(message.data) for message in taken] == [*range(begin, begin + 8)]
                await source.confirm(min(begin + 4 if begin == 0 else begin + 8, 20))


async def test_a_sink_is_told_that_the_server_waits(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        await fill(js, name, 15)
        async with await js.source(name, "C", config=FLOW) as source:
            taken = [await source.next_msg(timeout=PATIENCE) for _ in range(10)]
            while not source.awaits_confirm:
                await nc.flush()
            assert source.pending_msgs == 0
            with pytest.raises(TimeoutError):
                await source.next_msg(timeout=0.01)
            with pytest.raises(LocalProtocolError):
                await source.confirm(11)
            await source.confirm(taken[-1].metadata.sequence.stream)
            assert not source.awaits_confirm
            assert int((await source.next_msg(timeout=PATIENCE)).data) == 10
            if source.pending_msgs:
                with pytest.raises(LocalProtocolError):
                    await source.confirm(15)
            await source.restart(10)
            async for message in source:
                assert int(message.data) == 10
                break


async def test_a_second_program_waits_for_the_first(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc, connect(server.url) as other:
        js, name = await make_stream(nc, retention="workqueue")
        await fill(js, name, 20)
        stored: list[int] = []
        async with await js.source(name, "C", config=FLOW) as source:
            await take(source, stored, 10)
            with pytest.raises(SourceBusyError, match=f"consumer C of stream {name}") as busy:
                await other.jetstream().source(name, "C", timeout=LIMIT)
            assert (busy.value.stream, busy.value.consumer) == (name, "C")
            await take(source, stored, 15)
        async with await other.jetstream().source(name, "C", position=15, timeout=PATIENCE) as heir:
            await take(heir, stored, 20)
        assert stored == [*range(20)]


async def test_what_cannot_be_sourced_from(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        with pytest.raises(ConsumerNotFoundError):
            await js.source(name, "MISSING")
        await js.create_consumer(name, ConsumerConfig(durable_name="PULL"))
        with pytest.raises(ConfigMismatchError):
            await js.source(name, "PULL")
        with pytest.raises(LocalProtocolError):
            await js.source(name, "C", config=ConsumerConfig())
        with pytest.raises(LocalProtocolError):
            await js.source(name, "C", config=FLOW, position=-1)
        assert await js.consumer_names(name) == ["PULL"]
