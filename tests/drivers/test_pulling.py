"""What every driver must do on a real nats-server: consumers, pulling from them, acknowledging."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest

from jsproto.api_errors import ConsumerInvalidResetError, ConsumerNotFoundError, StreamNotFoundError
from jsproto.errors import (
    APIError,
    ConfigMismatchError,
    ConnectionClosedError,
    ConsumerDeletedError,
    LocalProtocolError,
    MessageSizeError,
    NoMatchingStreamError,
    NoRespondersError,
    PullLimitError,
    PushBasedError,
    PushConsumerError,
    TimeoutError,
)
from jsproto.grammar.consumer import ConsumerConfig
from tests import servers
from tests.drivers.conftest import LIMIT, PATIENCE, Connect
from tests.drivers.test_facade import make_stream, unique
from tests.marks import known_fault, promise, requirement

pytestmark = pytest.mark.anyio


async def filled(nc: Any, count: int, size: int = 0, **options: Any) -> tuple[Any, str]:
    """A stream with ``count`` messages, and a consumer C of it with these options."""
    js, name = await make_stream(nc)
    async with js.fast_publisher() as batch:
        await batch.publish_many((f"{name}.a", b"%d" % n + bytes(size)) for n in range(1, count + 1))
        if count:
            await batch.commit()
    await js.create_consumer(name, name="C", **options)
    return js, name


async def pulling(nc: Any, count: int, size: int = 0, **options: Any) -> tuple[Any, Any]:
    js, name = await filled(nc, count, size, **options)
    return js, await js.pull_subscribe_bind("C", name)


def payloads(messages: list[Any]) -> list[bytes]:
    return [message.data for message in messages]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last + 1)]


# -- consumers ---------------------------------------------------------------------------------------------------------


async def test_consumers_are_created_changed_listed_and_deleted(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        info = await js.create_consumer(name, durable_name="D", ack_wait=7, filter_subject=f"{name}.a")
        assert (info.stream_name, info.name, info.config.ack_wait) == (name, "D", 7)
        again = await js.create_consumer(name, info.config)
        assert again.created == info.created
        with pytest.raises(APIError):
            await js.create_consumer(name, durable_name="D", ack_wait=8)
        changed = await js.update_consumer(name, "D", ack_wait=8, description="eight")
        assert (changed.config.ack_wait, changed.config.filter_subject) == (8, f"{name}.a")
        replaced = await js.update_consumer(name, changed.config, ack_wait=timedelta(seconds=9))
        assert replaced.config.ack_wait == 9
        ephemeral = await js.create_consumer(name, ConsumerConfig(), inactive_threshold=60)
        assert sorted(await js.consumer_names(name)) == sorted(["D", ephemeral.name])
        assert {found.name for found in await js.consumers_info(name)} == {"D", ephemeral.name}
        assert (await js.consumer_info(name, "D")).config == replaced.config
        assert await js.delete_consumer(name, "D") is True
        with pytest.raises(ConsumerNotFoundError):
            await js.consumer_info(name, "D")
        with pytest.raises(StreamNotFoundError):
            await js.consumer_names(unique())


async def test_a_consumer_is_paused_and_resumed(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 1)
        until = 4_070_908_800_000_000_001  # in 2099
        paused = await js.pause_consumer(sub.stream, "C", until)
        assert (paused.paused, paused.pause_until) == (True, until)
        assert await sub.fetch(1, timeout=0.2) == []
        assert not (await js.resume_consumer(sub.stream, "C")).paused
        assert payloads(await sub.fetch(1)) == [b"1"]
        assert not (await js.pause_consumer(sub.stream, "C", 1)).paused  # long ago
        with pytest.raises(LocalProtocolError):
            await js.pause_consumer(sub.stream, "C", 10**30)


# -- fetch -------------------------------------------------------------------------------------------------------------


@known_fault("an empty fetch raises")
async def test_fetching_and_acknowledging(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 1_000)
        seen: list[bytes] = []
        while len(seen) < 1_000:
            messages = await sub.fetch(300, timeout=PATIENCE if len(seen) < 900 else 0.2)
            seen += payloads(messages)
            await sub.ack_many(messages)
        assert seen == numbers(1, 1_000)
        await nc.flush()
        while (info := await sub.consumer_info()).num_ack_pending:  # the server takes acknowledgements in its own time
            await anyio.sleep(0.01)
        assert (info.num_pending, info.ack_floor.stream_seq) == (0, 1_000)
        assert await sub.fetch(5, timeout=0.1) == []
        assert await sub.fetch_no_wait(5) == []


async def test_a_message_says_where_it_comes_from(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 1)
        await js.publish(f"{sub.stream}.b", b"2", headers={"Key": "Value"})
        first, second = await sub.fetch(2)
        assert (first.subject, second.headers["Key"]) == (f"{sub.stream}.a", "Value")
        metadata = second.metadata
        assert (metadata.stream, metadata.consumer, metadata.sequence.stream) == (sub.stream, "C", 2)
        assert (metadata.sequence.consumer, metadata.num_delivered, metadata.num_pending) == (2, 1, 0)
        assert second.reply.startswith("$JS.ACK.")
        assert (metadata.account_hash is not None) == servers.HAS_ACK_V2


@requirement(214, 215)
@promise("returns when the server has it")
@known_fault("a second acknowledgement raises")
async def test_every_kind_of_acknowledgement(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 5)
        acked, synced, naked, later, ended = await sub.fetch(5)
        await acked.ack()
        await synced.ack_sync()
        await naked.nak()
        await later.nak(0.2)
        await ended.term("no more")
        for message in (acked, synced, naked, later, ended):
            assert message.settled
            await message.ack()  # passed over
            await message.nak()
            await message.ack_sync()
        assert payloads(await sub.fetch(1)) == [b"3"]
        (again,) = await sub.fetch(1)
        assert (again.data, again.metadata.num_delivered) == (b"4", 2)
        await again.ack_sync()
        info = await sub.consumer_info()
        assert (info.num_ack_pending, info.num_redelivered) == (1, 1)


@requirement(220)
@promise("during this block it is not delivered again")
@known_fault("long work is delivered again")
async def test_work_in_progress_is_not_delivered_again(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 2, ack_wait=LIMIT)
        message, other = await sub.fetch(2)
        async with message.working():
            again = await sub.fetch(1, timeout=PATIENCE)
            assert payloads(again) == [b"2"]
            assert (await sub.consumer_info()).num_ack_pending == 2
            await message.ack()
        await again[0].ack()
        await other.in_progress()


@requirement(218)
async def test_acknowledging_when_the_consumer_is_gone(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 1)
        (message,) = await sub.fetch(1)
        await js.delete_consumer(sub.stream, "C")
        with pytest.raises(NoRespondersError):  # in an election, too, nobody answers, so that it is asked again
            await message.ack_sync(timeout=LIMIT)
        await message.ack()


@requirement(217)
async def test_no_acknowledgements_are_sent_where_none_are_wanted(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 1, ack_policy="none")
        (message,) = await sub.fetch(1)
        await message.ack()
        await message.ack_sync(timeout=0.1)


@requirement(238, 240)
@promise("It ends at once, with `ConsumerDeletedError` or another error of the server")
@known_fault("a fetch from a consumer that is deleted waits for all of its time")
@known_fault("a fetch from a consumer that is not there fails without saying why")
@pytest.mark.parametrize("what", ["consumer", "stream"])
async def test_what_is_deleted_while_fetching_is_told_at_once(server: Any, connect: Connect, what: str) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 0)

        async def delete() -> None:
            while not (await sub.consumer_info()).num_waiting:
                pass
            if what == "consumer":
                await js.delete_consumer(sub.stream, "C")
            else:
                await js.delete_stream(sub.stream)

        with anyio.fail_after(20):  # the fetch itself would wait longer
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(delete)
                with pytest.raises(ConsumerDeletedError):
                    await sub.fetch(1, timeout=60)
        with pytest.raises(ConsumerNotFoundError if what == "consumer" else StreamNotFoundError):  # it is asked for
            await sub.fetch(1, timeout=60)


@requirement(193)
async def test_what_a_consumer_does_not_allow(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 3, 500, max_batch=2, max_expires=1, max_bytes=10_000)
        with pytest.raises(PullLimitError):
            await sub.fetch(3, timeout=1)
        with pytest.raises(PullLimitError):
            await sub.fetch(1, timeout=9)
        with pytest.raises(PullLimitError):
            await sub.fetch(1, timeout=1, max_bytes=20_000)
        with pytest.raises(MessageSizeError):
            await sub.fetch(1, timeout=1, max_bytes=100)
        while not (messages := await sub.fetch(2, timeout=1, max_bytes=1_000)):
            pass
        assert len(messages) == 1
        for ask in ({"batch": 0}, {"timeout": 0}, {"max_bytes": 0}, {"timeout": 2, "heartbeat": 2}):
            with pytest.raises(LocalProtocolError):
                await sub.fetch(**ask)
        with pytest.raises(ConsumerNotFoundError):
            await js.pull_subscribe_bind("nobody", sub.stream)
        await js.create_consumer(sub.stream, name="P", deliver_subject=unique())
        with pytest.raises(PushBasedError):
            await js.pull_subscribe_bind("P", sub.stream)


@known_fault("a fetch hangs, or times out with messages waiting")
@pytest.mark.one_driver
async def test_a_full_max_ack_pending_does_not_hang(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 2, max_ack_pending=1)
        (first,) = await sub.fetch_no_wait(5, timeout=LIMIT)
        assert await sub.fetch_no_wait(1, timeout=0.3) == []
        assert await sub.fetch(1, timeout=0.2) == []
        await first.ack_sync()
        assert payloads(await sub.fetch_no_wait(1)) == [b"2"]


@known_fault("cancelling a fetch, or a wait for a message, loses messages")
async def test_a_fetch_that_is_cancelled_loses_nothing(server: Any, connect: Connect, driver: str) -> None:
    if driver.startswith("sync"):
        pytest.skip("threads cannot be cancelled")
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 0)
        with anyio.move_on_after(0.1):
            await sub.fetch(10, timeout=30)
        for n in range(1, 4):
            await js.publish(f"{sub.stream}.a", b"%d" % n)
        await nc.flush()
        assert payloads(await sub.fetch(3)) == numbers(1, 3)


async def test_fetches_at_the_same_time_share(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 100)
        found: list[bytes] = []

        async def some() -> None:
            found.extend(payloads(await sub.fetch(25, timeout=60)))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(some)
        assert sorted(found, key=int) == numbers(1, 100)


@requirement(223)
@pytest.mark.one_driver
async def test_a_long_fetch_lives_on_heartbeats(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 0)
        assert await sub.fetch(1, timeout=2.4, heartbeat=0.7) == []  # it gives up after 2.1 seconds of silence


# -- the stream of messages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [{}, {"max_msgs": 10}, {"max_msgs": 1}, {"max_bytes": 1_000}])
async def test_messages_as_they_come(server: Any, connect: Connect, bound: dict[str, int]) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 300)
        seen: list[bytes] = []
        async with sub.messages(**bound) as messages:
            async for message in messages:
                seen.append(message.data)
                await message.ack()
                if len(seen) == 300:
                    break
            with pytest.raises(TimeoutError):
                await messages.next_msg(timeout=0.1)
        assert seen == numbers(1, 300)


async def test_what_was_not_taken_of_the_stream_of_messages_is_for_the_next(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 20)
        async with sub.messages(max_msgs=10) as messages:
            assert (await messages.next_msg()).data == b"1"
            with pytest.raises(LocalProtocolError):
                await sub.fetch(1)
        assert [message async for message in messages] == []
        assert payloads(await sub.fetch(19)) == numbers(2, 20)
        async with sub.messages() as messages:
            await sub.unsubscribe()
            assert [message async for message in messages] == []
        with pytest.raises(ConnectionClosedError):
            await sub.fetch(1)


@known_fault("most conflicts end an iteration silently")
@known_fault("whoever waits for a consumer that is not there waits for ever, or for long")
async def test_a_consumer_that_is_deleted_ends_the_stream_of_messages(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 1)
        async with sub, sub.messages() as messages:
            assert (await messages.next_msg()).data == b"1"
            await js.delete_consumer(sub.stream, "C")
            with pytest.raises(ConsumerDeletedError):
                await messages.next_msg()
        _, gone = await pulling(nc, 0)
        await js.delete_consumer(gone.stream, "C")
        for heartbeat in (None, 0):
            async with gone.messages(heartbeat=heartbeat) as messages:  # nobody answers
                with pytest.raises(ConsumerNotFoundError):
                    await messages.next_msg(timeout=5)
        assert (sub.pending_msgs, sub.pending_bytes, sub.dropped, sub.consumer) == (0, 0, 0, "C")


@promise("A connection, and everything made from it, may be used by many threads at once")
@promise("Several workers, threads or tasks, share one subscription")
@promise("ends when the subscription does")
async def test_a_pool_of_workers_shares_a_stream_of_messages(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 400)
        got: dict[int, list[int]] = {}

        async def work(worker: int) -> None:
            got[worker] = []
            async for message in sub.messages(max_msgs=100):
                got[worker].append(int(message.data))
                await message.ack()
                if not sum(map(len, got.values())) % 50:
                    await anyio.sleep(0)

        async with anyio.create_task_group() as pool:
            for worker in range(5):
                pool.start_soon(work, worker)
            while sum(map(len, got.values())) < 400:
                await anyio.sleep(0.002)
            for n in range(401, 501):  # all of them wait by now, or soon will
                await js.publish(f"{sub.stream}.a", b"%d" % n)
            while sum(map(len, got.values())) < 500:
                await anyio.sleep(0.002)
            await sub.unsubscribe()
        assert sorted(number for each in got.values() for number in each) == list(range(1, 501))


@promise("Several workers, threads or tasks, share one subscription")
async def test_who_leaves_a_stream_of_messages_takes_nothing_from_the_others(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, sub = await pulling(nc, 100)
        first, second, third = [sub.messages(max_msgs=80) for _ in range(3)]
        got = [await first.next_msg(timeout=20)]
        await first.close()
        await first.close()
        with pytest.raises(ConnectionClosedError):
            await first.next_msg()
        assert [message async for message in first] == []
        got += [await second.next_msg(timeout=20) for _ in range(99)]
        assert payloads(got) == numbers(1, 100)
        ended: list[Any] = []

        async def wait(messages: Any) -> None:
            async for message in messages:
                got.append(message)
            ended.append(messages)

        async with anyio.create_task_group() as waiting:
            waiting.start_soon(wait, second)
            waiting.start_soon(wait, third)
            await nc.flush()
            await second.close()  # which ends the one, not the other
            while not ended:
                await anyio.sleep(0.002)
            assert ended == [second]
            await js.publish(f"{sub.stream}.a", b"101")
            while len(got) < 101:
                await anyio.sleep(0.002)
            await sub.drain()
        assert ended == [second, third]
        with pytest.raises(ConnectionClosedError):
            sub.messages(max_msgs=80)


async def test_who_shares_messages_wants_the_same_of_them(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 3)
        async with sub, sub.messages() as messages:
            for other in ({"max_msgs": 10}, {"max_bytes": 1000}, {"expires": 5}):
                with pytest.raises(LocalProtocolError, match="other bounds"):
                    sub.messages(**other)
            with pytest.raises(LocalProtocolError):
                await sub.fetch(1)
            assert (await messages.next_msg(timeout=20)).data == b"1"
        _, again = await pulling(nc, 3)
        async with again:
            for n in range(1, 4):  # the last one to leave gives back what nobody has looked at
                async with again.messages() as first, again.messages():
                    assert (await first.next_msg(timeout=20)).data == b"%d" % n


# -- priority groups ---------------------------------------------------------------------------------------------------


async def waiting(sub: Any, count: int) -> None:
    """Until the server holds so many pull requests."""
    while (await sub.consumer_info()).num_waiting != count:
        await anyio.sleep(0.01)


@promise('With `"pinned_client"` one client gets everything.')
async def test_a_pinned_client_gets_everything_until_it_is_unpinned(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await filled(nc, 0, priority_groups=["g"], priority_policy="pinned_client")
        first, second = [await js.pull_subscribe_bind("C", name, group="g") for _ in range(2)]
        async with first, second, first.messages() as mine, second.messages() as others:
            await waiting(first, 2)
            for n in range(1, 4):
                await js.publish(f"{name}.a", b"%d" % n)
                assert (await mine.next_msg(timeout=20)).data == b"%d" % n
            await js.publish(f"{name}.a", b"4")
            message = await mine.next_msg(timeout=20)
            (group,) = (await first.consumer_info()).priority_groups
            assert (group.group, group.pinned_client_id) == ("g", message.headers["Nats-Pin-Id"])
            await js.unpin_consumer(name, "C", "g")
            for n in range(5, 7):
                await js.publish(f"{name}.a", b"%d" % n)
                assert (await others.next_msg(timeout=20)).data == b"%d" % n
            assert first.pending_msgs == 0


@requirement(167, 176)
async def test_resetting(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await filled(nc, 5)
        sub = await js.pull_subscribe_bind("C", name)
        async with sub:
            assert [message.data for message in await sub.fetch(3, timeout=20)] == [b"1", b"2", b"3"]
            reset = await js.reset_consumer(name, "C")
            assert (reset.reset_seq, reset.info.num_pending) == (1, 5)
            assert reset.stream_identity
            assert [message.data for message in await sub.fetch(2, timeout=20)] == [b"1", b"2"]
            assert (await js.reset_consumer(name, "C", 4)).info.num_pending == 2
            assert [message.data for message in await sub.fetch(2, timeout=20)] == [b"4", b"5"]
        with pytest.raises(ConsumerNotFoundError):
            await js.reset_consumer(name, "NONE")
        with pytest.raises(StreamNotFoundError):
            await js.reset_consumer("NONE", "C")
        await js.create_consumer(name, ConsumerConfig(durable_name="L", deliver_policy="last"))
        with pytest.raises(ConsumerInvalidResetError):
            await js.reset_consumer(name, "L", 1)


@requirement(178)
async def test_subscriptions_go_on_after_a_reset(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await filled(nc, 3)
        async with await js.subscribe(f"{name}.a", durable="D") as push:
            assert [(await push.next_msg(timeout=20)).data for _ in range(3)] == [b"1", b"2", b"3"]
            await js.reset_consumer(name, "D", 2)
            assert [(await push.next_msg(timeout=20)).data for _ in range(2)] == [b"2", b"3"]
        async with await js.subscribe(f"{name}.a", ordered=True) as ordered:
            read = [await ordered.next_msg(timeout=20) for _ in range(3)]
            await js.reset_consumer(name, read[0].metadata.consumer, 1)
            await js.publish(f"{name}.a", b"4")
            assert (await ordered.next_msg(timeout=20)).data == b"4"


@promise('With `"overflow"` some clients get only what is too much for the rest')
@pytest.mark.one_driver
async def test_clients_of_a_priority_group(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await filled(nc, 2, priority_groups=["g"], priority_policy="overflow")
        async with await js.pull_subscribe(f"{name}.a", "C", group="g", min_pending=3) as helper:
            assert await helper.fetch(5, timeout=0.1) == []
            await js.publish(f"{name}.a", b"3")
            assert payloads(await helper.fetch(5, timeout=LIMIT)) == [b"1"]
        for wrong in ({}, {"group": "x"}, {"group": "g", "priority": 1}):
            with pytest.raises(ConfigMismatchError):
                await js.pull_subscribe_bind("C", name, **wrong)
        with pytest.raises(LocalProtocolError):
            await js.pull_subscribe_bind("C", name, min_pending=3)
        js, name = await filled(nc, 0, priority_groups=["g"], priority_policy="prioritized")
        spare, main = [await js.pull_subscribe_bind("C", name, group="g", priority=n) for n in (5, 1)]
        async with spare, main, spare.messages(), main.messages() as messages:
            await waiting(main, 2)
            for n in range(1, 4):
                await js.publish(f"{name}.a", b"%d" % n)
                assert (await messages.next_msg(timeout=20)).data == b"%d" % n
            assert spare.pending_msgs == 0


# -- the workflow ------------------------------------------------------------------------------------------------------


@requirement(186, 200)
@promise("The end of a subscription deletes the consumer that it created")
async def test_a_consumer_of_its_own(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await js.publish(f"{name}.a", b"1")
        await js.publish(f"{name}.b", b"2")
        async with await js.pull_subscribe(
            f"{name}.b", config=ConsumerConfig.from_options(ack_wait=9), max_waiting=7
        ) as sub:
            assert sub.stream == name
            assert payloads(await sub.fetch(1)) == [b"2"]
            assert (await sub.consumer_info()).config.ack_wait == 9
            assert await js.consumer_names(name) == [sub.consumer]
        assert await js.consumer_names(name) == []
        await sub.unsubscribe()


@requirement(183, 195, 201)
@promise("An existing consumer is never changed.")
@promise("The end of a subscription deletes the consumer that it created")
async def test_a_durable_consumer_stays_unless_it_is_to_go(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        for _ in range(2):
            async with await js.pull_subscribe(f"{name}.*", "D") as sub:
                assert sub.consumer == "D"
            assert await js.consumer_names(name) == ["D"]
        async with await js.pull_subscribe(f"{name}.*", "D", delete_consumer=True):
            pass  # somebody else's: it was there
        assert await js.consumer_names(name) == ["D"]
        async with await js.pull_subscribe(f"{name}.*", "E", stream=name, delete_consumer=True):
            assert await js.consumer_names(name) == ["D", "E"]
        assert await js.consumer_names(name) == ["D"]
        with pytest.raises(ConfigMismatchError) as caught:
            await js.pull_subscribe(f"{name}.*", "D", ack_wait=3)
        assert caught.value.fields == ("ack_wait",)
        await js.create_consumer(name, name="P", deliver_subject=unique())
        with pytest.raises(PushConsumerError):
            await js.pull_subscribe(f"{name}.*", "P")
        with pytest.raises(NoMatchingStreamError):
            await js.pull_subscribe(unique())
        with pytest.raises(LocalProtocolError):
            await js.pull_subscribe(f"{name}.*", ack_policy="none")


@requirement(204)
@promise("`drain` delivers what is buffered first")
@known_fault("a drain hangs, or loses what is buffered")
async def test_a_drained_subscription_gives_what_it_has(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        _, sub = await pulling(nc, 9)
        async with sub.messages() as messages:
            await messages.next_msg()
            await nc.flush()
        await sub.drain()
        assert payloads(await sub.fetch(20)) == numbers(2, 9)
        with pytest.raises(ConnectionClosedError):
            await sub.fetch(1)


async def test_a_loop_that_is_left_gives_its_messages_back(server: Any, connect: Connect, driver: str) -> None:
    if driver.startswith("sync"):
        pytest.skip("a worker thread may keep what it called last; see test_sync")
    async with connect(server.url) as nc:
        _, subscription = await pulling(nc, 20)
        got = []
        for _ in range(2):
            async for message in subscription.messages():
                got.append(message)
                if len(got) % 5 == 0:
                    break
        got += await subscription.fetch(10)
        assert payloads(got) == numbers(1, 20)
        assert not any(message.metadata.num_delivered > 1 for message in got)
        await subscription.unsubscribe()
