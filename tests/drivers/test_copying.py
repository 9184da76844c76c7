"""A stream is copied into another one on real servers, each message once, whatever the target or others do."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest

from jsproto.api_errors import (
    ConsumerNotFoundError,
    StreamMessageExceedsMaximumError,
    StreamNotFoundError,
    StreamStoreFailedError,
)
from jsproto.errors import (
    BatchLostError,
    BatchMessageError,
    ConnectionClosedError,
    ConnectionLostError,
    CopyFencedError,
    CopyTargetError,
    LocalProtocolError,
    NoServersError,
    SourceBusyError,
    SourcePositionError,
    SourceScheduleError,
    TimeoutError,
)
from jsproto.events import CopyRestarted, Event, SchedulePassedOver, StreamRecreated
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.copies import parse_origin
from jsproto.grammar.position import StreamPosition, parse_position
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import LIMIT, Connect
from tests.drivers.test_facade import make_stream, unique
from tests.drivers.test_subscribing import PATIENCE, fill, until
from tests.effort import examples
from tests.marks import promise

pytestmark = pytest.mark.anyio

FLOW = ConsumerConfig(ack_policy="flow_control", max_ack_pending=100)


def copy_of(js: Any, stream: str, target: str, to: Any = None, **options: Any) -> Any:
    """``js.copy`` by a consumer that is made, with subjects that begin with ``copies.``."""
    there = {} if to is None else {"to": getattr(to, "_target", to)}
    return js.copy(stream, "C", target, config=FLOW, prefix="copies.", timeout=PATIENCE, **there, **options)


async def make_target(js: Any, stream: str, **options: Any) -> str:
    name = unique("T")
    wanted = {"allow_batched": True, "allow_atomic": True, "allow_direct": True, "storage": "memory", **options}
    await js.create_stream(name, **{"subjects": [f"copies.{stream}.>", f"{name}.pos"], **wanted})
    return name


async def copies(js: Any, target: str) -> list[int]:
    """The payloads of the copies, in their order."""
    last = (await js.stream_info(target)).state.last_seq
    found = []
    for seq in range(1, last + 1):
        message = await js.get_msg(target, seq, level="leader")
        if message.subject.startswith("copies."):
            found.append(int(message.data))
    return found


@promise("Headers that begin with `Nats-` are not, except `Nats-TTL`")
async def test_a_work_queue_is_copied_and_emptied(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc, connect(server.url) as other:
        js, to = nc.jetstream(), other.jetstream()
        _, name = await make_stream(nc, retention="workqueue", allow_msg_ttl=True)
        target = await make_target(to, name, allow_msg_ttl=True)
        await fill(js, name, 250)
        headers = {"A": "b", "Nats-Expected-Stream": name, "Nats-TTL": "1h"}
        await js.publish(f"{name}.b", b"250", headers=headers, msg_id="1")
        originals = [await js.get_last_msg(name, f"{name}.b", level="leader")]
        copy = copy_of(js, name, target, to)
        assert (copy.position, copy.identity, copy.lag, copy.copied) == (0, None, None, 0)
        assert await copy.run(until_caught_up=True) == 251
        assert (copy.position, copy.copied, copy.restarts, copy.lag) == (251, 251, 0, None)
        assert copy.identity
        assert (await js.stream_info(name)).state.messages == 0
        assert await copies(to, target) == [*range(251)]
        last = await to.get_msg(target, 251, level="leader")
        assert last.subject == f"copies.{name}.b"
        stored_at = originals[0].timestamp
        assert dict(last.headers.items()) == {
            "A": "b", "Nats-TTL": "1h", "Nats-Expected-Last-Sequence": "250",
            "Jsproto-Copy-Source": f"{name} 251 {copy.identity} {stored_at} >",
        }  # fmt: skip
        assert await copy.run(until_caught_up=True) == 0
        await fill(js, name, 5, first=251)
        again = copy_of(js, name, target, to)
        assert await again.run(until_caught_up=True) == 5
        assert await copies(to, target) == [*range(256)]


@promise("it may have other writers.")
@pytest.mark.one_driver
async def test_atomic_batches_beside_other_writers(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        marker = f"{target}.pos"
        await fill(js, name, 30)
        copy = copy_of(js, name, target, delivery="atomic", marker=marker)
        for first in (0, 30, 60):
            if first == 30:
                copy = copy_of(js, name, target, delivery="atomic", marker=marker)
            assert await copy.run(until_caught_up=True) == 30
            await js.publish(f"copies.{name}.z", b"%d" % -first)  # somebody else
            await fill(js, name, 30, first=first + 30)
        found = [number for number in await copies(js, target) if number > 0]
        assert found == [*range(1, 90)]
        origin = parse_origin((await js.get_last_msg(target, marker)).data)
        assert origin is not None
        assert origin.position.witness
        assert replace(origin.position, witness=None) == StreamPosition(name, 90, copy.identity)
        with pytest.raises(CopyTargetError, match="is not from a copy"):
            await copy_of(js, name, target).run()


async def test_it_goes_on_until_it_is_stopped(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc, connect(server.url) as other:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        copy = copy_of(js, name, target, other.jetstream())
        results: list[int] = []

        async def run() -> None:
            results.append(await copy.run())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for first in (0, 7):
                await fill(js, name, 7, first=first)
                await until(lambda first=first: copy.copied == first + 7)
            assert copy.lag == 0
            copy.stop()
        assert results == [14]
        assert await copies(js, target) == [*range(14)]
        async with await js.source(name, "C") as source:  # it is free
            assert source.position == 0


@promise("One program at a time copies from a consumer.")
async def test_one_program_at_a_time(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc, connect(server.url) as other:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        async with await js.source(name, "C", config=FLOW):
            second = other.jetstream().copy(name, "C", target, prefix="copies.", timeout=LIMIT)
            with pytest.raises(SourceBusyError):
                await second.run()


@promise("What the target refuses ends the copy")
async def test_what_the_target_refuses_is_not_lost(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name, max_msgs=20, discard="new", max_msg_size=200)
        await fill(js, name, 30)
        with pytest.raises(BatchMessageError) as full:
            await copy_of(js, name, target).run(until_caught_up=True)
        assert isinstance(full.value.__cause__, StreamStoreFailedError)
        assert await copies(js, target) == [*range(20)]
        await js.update_stream(target, max_msgs=100)
        assert await copy_of(js, name, target).run(until_caught_up=True) == 10
        assert await copies(js, target) == [*range(30)]
        await js.publish(f"{name}.a", b"%0300d" % 30)
        with pytest.raises(StreamMessageExceedsMaximumError):  # as the first of a batch
            await copy_of(js, name, target).run(until_caught_up=True)
        assert (await js.stream_info(name)).state.messages == 1
        await js.update_stream(target, max_msg_size=1_000)
        assert await copy_of(js, name, target).run(until_caught_up=True) == 1
        assert await copies(js, target) == [*range(31)]


async def test_subjects_that_the_target_does_not_take(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        await fill(js, name, 3)
        with pytest.raises(CopyTargetError, match=f"it does not take the subject {name}.a"):
            await js.copy(name, "C", target, config=FLOW, timeout=PATIENCE).run()  # without the prefix
        assert (await js.stream_info(name)).state.messages == 3  # a copy of a copy would be in there
        await js.update_stream(name, subjects=[f"{name}.>", "elsewhere." + name])
        await js.publish("elsewhere." + name, b"3")
        with pytest.raises(CopyTargetError, match=f"it does not take the subject copies.elsewhere.{name}"):
            await copy_of(js, name, target).run()
        assert (await js.stream_info(name)).state.messages == 4


@promise('With `delivery="fast"` the target has no other writer.')
@promise("it may have other writers.")
@pytest.mark.parametrize("delivery", ["fast", "atomic"])
async def test_another_writer(server: Any, connect: Connect, delivery: str) -> None:
    async with connect(server.url) as nc, connect(server.url) as other:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        options = {"delivery": "atomic", "marker": f"{target}.pos"} if delivery == "atomic" else {}
        copy = copy_of(js, name, target, **options)
        there, ended = other.jetstream(), False
        seen = [0]

        async def write() -> None:
            """Somebody who does not know of the copy."""
            while not ended:
                await there.publish(f"copies.{name}.z", b"-1")
                await there.publish(f"{name}.a", b"%d" % seen[0])
                seen[0] += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            if delivery == "fast":
                with pytest.raises((CopyFencedError, CopyTargetError)) as raised:
                    await copy.run()
                assert target in str(raised.value)
            else:
                tasks.start_soon(copy.run)
                await until(lambda: copy.copied >= 30)
                copy.stop()
            ended = True
        found = [number for number in await copies(js, target) if number >= 0]
        assert found == [*range(len(found))]
        assert len(found) >= copy.copied


@promise("Each message is in the target once and in order")
async def test_a_target_that_goes_and_comes_back(server: Any, own_server: NatsServer, connect: Connect) -> None:
    events: list[Event] = []
    patient = {"reconnect_time_wait": 0.02, "max_reconnect_attempts": -1}
    async with connect(server.url, event_cb=events.append) as nc, connect(own_server.url, **patient) as other:
        js, name = await make_stream(nc, retention="workqueue")
        to = other.jetstream()
        target = await make_target(to, name, storage="file")
        copy = copy_of(js, name, target, to)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(copy.run)
            await fill(js, name, 40)
            await until(lambda: copy.copied)
            await anyio.to_thread.run_sync(own_server.kill)
            await fill(js, name, 40, first=40)
            await anyio.to_thread.run_sync(own_server.start)
            await until(lambda: copy.position == 80)
            copy.stop()
        assert await copies(to, target) == [*range(80)]
        restarted = [event for event in events if isinstance(event, CopyRestarted)]
        assert len(restarted) == copy.restarts
        assert all((event.stream, event.target) == (name, target) for event in restarted)


@pytest.mark.parametrize("end", ["source", "target"])
async def test_a_server_that_stays_away(server: Any, own_server: NatsServer, connect: Connect, end: str) -> None:
    impatient = {"reconnect_time_wait": 0.01, "max_reconnect_attempts": 2}
    async with connect(server.url) as nc, connect(own_server.url, **impatient) as other:
        near, far = nc.jetstream(), other.jetstream()
        js, to = (far, near) if end == "source" else (near, far)
        _, name = await make_stream(other if end == "source" else nc, retention="workqueue")
        target = await make_target(to, name)
        copy = copy_of(js, name, target, to)

        async def run() -> None:
            with pytest.raises((BatchLostError, ConnectionClosedError, ConnectionLostError, NoServersError)):
                await copy.run()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await fill(js, name, 10)
            await until(lambda: copy.copied == 10)
            await anyio.to_thread.run_sync(own_server.kill)
            if end == "target":  # it is missed when something is to be stored
                await fill(js, name, 1)
        assert copy.position == 10


@promise("From nats-server 2.15 a stream that was deleted and created again is copied from its beginning.")
@pytest.mark.one_driver
async def test_a_source_that_is_made_anew(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc, connect(server.url) as other:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        copy = copy_of(js, name, target, other.jetstream())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(copy.run)
            await fill(js, name, 10)
            await until(lambda: copy.copied == 10)
            await js.delete_stream(name)
            await js.create_stream(name, subjects=[f"{name}.>"], retention="workqueue", storage="memory")
            await fill(js, name, 4, first=10)
            await until(lambda: copy.copied == 14)
            copy.stop()
        assert copy.position == 4
        assert await copies(js, target) == [*range(14)]
        assert [event.stream for event in events if isinstance(event, StreamRecreated)] == [name]
        again = copy_of(js, name, target)
        assert await again.run(until_caught_up=True) == 0
        assert (again.position, again.identity) == (4, copy.identity)


@pytest.mark.parametrize("retention", ["limits", "interest"])
async def test_other_retentions_and_messages_that_are_gone(server: Any, connect: Connect, retention: str) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention=retention)
        target = await make_target(js, name)
        await copy_of(js, name, target).run(until_caught_up=True)  # makes the consumer, without which nothing stays
        while (await js.consumer_info(name, "C")).push_bound:  # what is delivered now would go with a deletion
            pass
        await fill(js, name, 30)
        for seq in (1, 7, 8, 30):
            await nc.request(f"$JS.API.STREAM.MSG.DELETE.{name}", b'{"seq":%d}' % seq)
        assert await copy_of(js, name, target).run(until_caught_up=True) == 26
        assert await copies(js, target) == [n for n in range(30) if n + 1 not in (1, 7, 8, 30)]
        assert (await js.stream_info(name)).state.messages == (0 if retention == "interest" else 26)


@promise("Where the last copies are deleted before the consumer has heard that they are stored")
async def test_copies_that_are_deleted_too_early(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        await fill(js, name, 30)
        async with await js.source(name, "C", config=FLOW) as source:  # which stores all, and confirms nothing
            identity = source.identity
            for seq in range(1, 31):
                headers = {"Jsproto-Copy-Source": f"{name} {seq} > {identity}"}
                message = await source.next_msg(timeout=PATIENCE)
                await js.publish(f"copies.{name}.a", message.data, headers=headers)
        await nc.request(f"$JS.API.STREAM.MSG.DELETE.{target}", b'{"seq":30}')
        assert await copy_of(js, name, target).run(until_caught_up=True) == 1
        found = [await js.get_msg(target, seq, level="leader") for seq in (29, 31)]
        assert [int(message.data) for message in found] == [28, 29]
        assert (await js.stream_info(target)).state.messages == 30
        await nc.request(f"$JS.API.STREAM.PURGE.{target}")
        assert await copy_of(js, name, target).run(until_caught_up=True) == 0  # the consumer has heard of all


@promise("**Then a message goes when all of them have acknowledged it**")
async def test_a_queue_that_is_shared_with_workers(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        worker = await js.pull_subscribe(f"{name}.>", durable="WORKER")
        await fill(js, name, 20)
        shared = FLOW.updated(sourcing=True)
        copy = js.copy(name, "C", target, config=shared, prefix="copies.", timeout=PATIENCE)
        assert await copy.run(until_caught_up=True) == 20
        assert (await js.stream_info(name)).state.messages == 20
        jobs = await worker.fetch(20, timeout=PATIENCE)
        await worker.ack_many(jobs)
        await until_empty(js, name)
        assert await copies(js, target) == [*range(20)]


async def until_empty(js: Any, stream: str) -> None:
    while (await js.stream_info(stream)).state.messages:
        pass


@promise("One target, or one marker, is for one filter.")
@pytest.mark.one_driver
async def test_one_target_is_for_one_filter(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        marker = f"{target}.pos"
        for number in range(20):
            await js.publish(f"{name}.{'ab'[number % 2]}", b"%d" % number)
        for options in ({}, {"delivery": "atomic", "marker": marker}):
            for kind in "ab":
                config = FLOW.updated(filter_subject=f"{name}.{kind}")
                copy = js.copy(name, f"C{kind}", target, config=config, prefix="copies.", timeout=PATIENCE, **options)
                if kind == "a" and not options:
                    assert await copy.run(until_caught_up=True) == 10
                elif kind == "b":
                    with pytest.raises(CopyTargetError, match="one target is for one filter"):
                        await copy.run(until_caught_up=True)
                else:
                    assert await copy.run(until_caught_up=True) == 0
                    await js.publish(f"{name}.a", b"20")
                    assert await copy.run(until_caught_up=True) == 1
        assert (await js.stream_info(name)).state.messages == 10  # what nobody has copied


@promise("Before, a `SourcePositionError` ends the copy.")
@promise("A stream that is not the one of the position ends this with `SourcePositionError`")
@pytest.mark.one_driver
async def test_a_position_beyond_the_stream(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        await fill(js, name, 10)
        with pytest.raises(SourcePositionError):
            await js.source(name, "C", config=FLOW, position=1_000_000)
        async with await js.source(name, "C", config=FLOW) as source:
            kept = bytes(source.position_of((await source.next_msgs(5, timeout=PATIENCE))[-1]))
        async with await js.source(name, "C", position=parse_position(kept)) as source:
            assert (source.position, source.identity) == (5, kept.split()[2].decode())
            assert (await source.next_msg(timeout=PATIENCE)).data == b"5"
        other = StreamPosition(name, 5, source.identity, int(kept.split()[3]) + 1)
        with pytest.raises(SourcePositionError, match="has another message there"):
            await js.source(name, "C", position=other, timeout=1)
        for wrong in ({"position": "10"}, {"identity": b"id"}):
            with pytest.raises(LocalProtocolError):
                await js.source(name, "C", config=FLOW, **wrong)
        assert (await js.stream_info(name)).state.messages == 10


@promise("`run(until_caught_up=True)` returns when all is stored that the source had")
@pytest.mark.parametrize("kind", ["fast", "atomic", "filtered"])
@pytest.mark.one_driver
async def test_a_run_ends_with_what_the_source_had_at_its_beginning(server: Any, connect: Connect, kind: str) -> None:
    async with connect(server.url) as nc, connect(server.url) as other:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        await fill(js, name, 30)
        options: dict[str, Any] = {"delivery": "atomic", "marker": f"{target}.pos"} if kind == "atomic" else {}
        config = FLOW.updated(filter_subject=f"{name}.a") if kind == "filtered" else FLOW
        copy = js.copy(name, "C", target, config=config, prefix="copies.", timeout=PATIENCE, **options)
        traffic = other.jetstream()

        async def publish() -> None:
            while True:
                await traffic.publish(f"{name}.a", b"30")
                await traffic.publish(f"{name}.b", b"31")
                await anyio.sleep(0.05)

        if kind == "filtered":
            await js.publish(f"{name}.b", b"31")  # the last one at the beginning is none of the consumer's
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            assert await copy.run(until_caught_up=True) >= 30
            tasks.cancel_scope.cancel()
        assert (await copies(js, target))[:30] == [*range(30)]


@promise("A message schedule is no job. It is passed over and stays (event `SchedulePassedOver`)")
@promise("Until it is gone nothing that comes after it is acknowledged")
@pytest.mark.one_driver
async def test_a_schedule_is_no_job(server: Any, connect: Connect) -> None:
    events: list[Event] = []
    async with connect(server.url, event_cb=events.append) as nc:
        js, name = await make_stream(nc, retention="workqueue", allow_msg_schedules=True)
        target = await make_target(js, name)
        await js.publish(f"{name}.a", b"0")
        await js.publish(f"{name}.later.x", b"1", delay=3_600, target=f"{name}.a")
        await js.publish(f"{name}.a", b"1")
        assert await copy_of(js, name, target).run(until_caught_up=True) == 2
        assert SchedulePassedOver(name, "C", 2, f"{name}.later.x") in events
        assert (await js.stream_info(name)).state.messages == 2  # the schedule, and what comes after it
        await js.publish(f"{name}.soon.x", b"2", delay=1, target=f"{name}.a")
        while await copies(js, target) != [0, 1, 2]:  # passed over twice, and published meanwhile
            await copy_of(js, name, target).run(until_caught_up=True)
        async with await js.source(name, "C", timeout=PATIENCE) as source:
            assert [(await source.next_msg(timeout=PATIENCE)).data for _ in range(2)] == [b"1", b"2"]
        await js.delete_msg(name, 2)
        assert await copy_of(js, name, target).run(until_caught_up=True) == 0
        assert (await js.stream_info(name)).state.messages == 0
        await js.delete_consumer(name, "C")


@pytest.mark.one_driver
async def test_a_schedule_that_stalls_the_consumer_ends_the_copy(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue", allow_msg_schedules=True)
        target = await make_target(js, name)
        await js.publish(f"{name}.later.x", b"1", delay=3_600, target=f"{name}.a")
        await fill(js, name, 20)
        config = FLOW.updated(max_ack_pending=10)
        with pytest.raises(SourceScheduleError, match=r"message 1 .* is a schedule.*filter_subjects"):
            await js.copy(name, "C", target, config=config, prefix="copies.").run()
        assert (await js.stream_info(name)).state.messages == 21
        await js.delete_consumer(name, "C")  # without schedules among its messages
        await js.delete_stream(target)
        target = await make_target(js, f"{name}.a", subjects=[f"copies.{name}.a"])
        copy = js.copy(name, "D", target, config=FLOW.updated(filter_subject=f"{name}.a"), prefix="copies.")
        assert await copy.run(until_caught_up=True) == 20
        assert (await js.stream_info(name)).state.messages == 1


@promise("Headers that begin with `Nats-` are not, except `Nats-TTL`")
async def test_a_key_that_has_expired_is_removed_in_the_copy_too(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        bucket = {"allow_msg_ttl": True, "subject_delete_marker_ttl": 60, "allow_rollup_hdrs": True}
        js, name = await make_stream(nc, max_msgs_per_subject=1, **bucket)
        target = await make_target(js, name, max_msgs_per_subject=1, **bucket)
        await js.publish(f"{name}.a", b"0", ttl=1)
        while "Nats-Marker-Reason" not in (await js.get_last_msg(name, f"{name}.a", level="leader")).headers:
            await anyio.sleep(0.1)
        assert await copy_of(js, name, target).run(until_caught_up=True) >= 1
        found = await js.get_last_msg(target, f"copies.{name}.a", level="leader")
        assert (found.data, found.headers["Nats-Marker-Reason"], "Nats-TTL" in found.headers) == (b"", "MaxAge", True)


@pytest.mark.one_driver
async def test_one_run_at_a_time_and_what_stops_it(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        copy = copy_of(js, name, target)
        copy.stop()  # which is for a run at work
        await fill(js, name, 3)
        assert await copy.run(until_caught_up=True) == 3
        rounds = examples(40)
        for number in range(rounds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(copy.run)
                await until(lambda: copy._source is not None)
                with pytest.raises(LocalProtocolError, match="is run already"):
                    await copy.run(until_caught_up=True)
                if number % 2:
                    await fill(js, name, 1, first=3 + number // 2)
                copy.stop()
        assert await copy.run(until_caught_up=True) <= rounds // 2
        assert await copies(js, target) == [*range(3 + rounds // 2)]


async def test_impossible_arguments(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js = nc.jetstream()
        wrong: list[dict[str, Any]] = [
            {"to": nc}, {"to": "nats://there"}, {"config": {}}, {"prefix": b"x"}, {"prefix": None}, {"timeout": 0},
            {"timeout": -1}, {"delivery": "both"}, {"marker": "m"},
        ]  # fmt: skip
        for options in wrong:
            with pytest.raises(LocalProtocolError):
                js.copy("S", "C", "T", **options)


async def test_what_is_not_there(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        target = await make_target(js, name)
        with pytest.raises(StreamNotFoundError):
            await copy_of(js, name, "MISSING").run()
        with pytest.raises(ConsumerNotFoundError):
            await js.copy(name, "C", target, prefix="copies.").run()
        with pytest.raises(LocalProtocolError):
            copy_of(js, name, target, delivery="atomic")
    copy = copy_of(js, name, target)
    with pytest.raises(ConnectionClosedError):
        await copy.run()
    copy.stop()


@promise("What it returns from is confirmed.")
@promise("What it raises from is handed out again.")
async def test_a_callback_confirms_what_it_returns_from(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, retention="workqueue")
        await fill(js, name, 20)
        stored: list[int] = []

        def store(messages: list[Any]) -> None:
            if len(stored) == 8:
                raise ZeroDivisionError
            stored.extend(int(message.data) for message in messages)

        async with await js.source(name, "C", config=FLOW) as source:
            for _ in range(2):  # what it raises from is handed out again
                with pytest.raises(ZeroDivisionError):
                    await source.consume(store, most=4)
                assert source.position == len(stored) == 8
            with pytest.raises(LocalProtocolError):
                await source.consume(store, most=0)
            again = await source.next_msgs(4, timeout=PATIENCE)
            assert int(again[0].data) == 8
        async with await js.source(name, "C", position=8) as source, anyio.create_task_group() as tasks:
            tasks.start_soon(source.consume, lambda messages: stored.append(len(messages)))
            await until(lambda: source.position == 20)
            await source.unsubscribe()
        assert sum(stored[8:]) == 12
        async with await js.source(name, "C", position=20) as source:
            with suppress(TimeoutError):
                assert await source.next_msg(timeout=0.01) is None
