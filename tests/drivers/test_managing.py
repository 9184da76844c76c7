"""What every driver must do on a real nats-server: manage streams, their messages and their consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jsproto.api_errors import (
    APIRequiredApiLevelError,
    ConsumerNotFoundError,
    PedanticError,
    StreamMsgDeleteFailedError,
    StreamNotFoundError,
)
from jsproto.errors import (
    APIError,
    BadSubjectError,
    LocalProtocolError,
    MessageNotFoundError,
    NoMatchingStreamError,
    NoRespondersError,
    UnsupportedByServerError,
)
from jsproto.grammar.config import StreamConfig
from jsproto_io.nats_server import NatsServer
from tests import servers
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, read_all, unique
from tests.drivers.test_reprs import shown
from tests.marks import promise

pytestmark = pytest.mark.anyio

MANY = 300  # streams or consumers: more than the 256 of one page


@asynccontextmanager
async def ten_messages(server: Any, connect: Connect) -> AsyncIterator[tuple[Any, str]]:
    """A stream with ten messages of two subjects."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            await batch.publish_many((f"{name}.{n % 2}", b"%d" % n) for n in range(1, 11))
            await batch.commit()
        yield js, name


async def left(js: Any, name: str) -> list[int]:
    return [message.seq for message in await read_all(js.get_batch(name))]


# -- lists -------------------------------------------------------------------------------------------------------------


@promise("`stream_names`, `consumer_names` and `stream_subjects` return all pages at once.")
@pytest.mark.one_driver
async def test_more_streams_than_fit_a_page(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, top = nc.jetstream(), unique("L")
        names = [f"{top}-{number:03d}" for number in range(MANY)]
        for name in names:
            await js.create_stream(name, subjects=[f"{top}.{name}"], storage="memory")
        listed = js.streams(f"{top}.>")
        assert (listed.total, shown(listed)) == (None, "<InfoLister 0 of an unknown number>")
        found = [info.config.name for info in await read_all(listed)]
        assert found == names
        assert (listed.total, listed.missing, shown(listed)) == (MANY, [], f"<InfoLister {MANY} of {MANY}>")
        assert await read_all(listed) == []
        assert await js.stream_names(f"{top}.>") == names
        assert await js.stream_names(f"{top}.{names[5]}") == [names[5]]
        assert {*names} <= {*await js.stream_names()}
        assert {*names} <= {info.config.name for info in await read_all(js.streams())}
        assert await js.stream_names(unique()) == []
        assert await read_all(js.streams(unique())) == []
        for name in names:
            await js.delete_stream(name)


@promise("`streams` and `consumers` are iterators, which fetch the next page as it is taken.")
async def test_a_list_that_is_left_asks_for_no_more(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        for number in range(MANY):
            await js.create_consumer(name, durable_name=f"C{number:03d}")
        before = (await js.account_info()).api.total
        listed = js.consumers(name)
        async for info in listed:
            assert info.name == "C000"
            break
        assert (await js.account_info()).api.total == before + 1 + (listed.total is not None)
        assert [info.name for info in await read_all(listed)] == [f"C{number:03d}" for number in range(1, MANY)]
        assert len(await js.consumer_names(name)) == MANY
        assert len(await js.consumers_info(name)) == MANY
        for number in range(MANY):
            await js.delete_consumer(name, f"C{number:03d}")
        assert await read_all(js.consumers(name)) == []
        with pytest.raises(StreamNotFoundError, match="stream NONE"):
            await read_all(js.consumers("NONE"))


async def test_finding_the_stream_of_a_subject(server: Any, connect: Connect) -> None:
    async with ten_messages(server, connect) as (js, name):
        assert await js.find_stream(f"{name}.a") == name
        assert await js.find_stream(f"{name}.*") == name
        nowhere = unique()
        with pytest.raises(NoMatchingStreamError, match=f"no single stream for '{nowhere}': no stream has it"):
            await js.find_stream(nowhere)
        for bad in ("", "a b", "a..b"):
            with pytest.raises(BadSubjectError):
                await js.find_stream(bad)


async def test_subjects_with_counts(server: Any, connect: Connect) -> None:
    async with ten_messages(server, connect) as (js, name):
        assert await js.stream_subjects(name) == {f"{name}.0": 5, f"{name}.1": 5}
        assert await js.stream_subjects(name, f"{name}.1") == {f"{name}.1": 5}
        assert await js.stream_subjects(name, "nowhere") == {}
        with pytest.raises(StreamNotFoundError, match="stream NONE"):
            await js.stream_subjects("NONE")


@promise("`stream_names`, `consumer_names` and `stream_subjects` return all pages at once.")
@pytest.mark.slow
@pytest.mark.one_driver
async def test_more_subjects_than_fit_a_page(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            await batch.publish_many((f"{name}.{n:06d}", b"") for n in range(100_001))
            await batch.commit()
        counts = await js.stream_subjects(name)
        assert [*counts] == [f"{name}.{n:06d}" for n in range(100_001)]
        assert {*counts.values()} == {1}
        await js.delete_stream(name)


# -- messages ----------------------------------------------------------------------------------------------------------


async def test_purging(server: Any, connect: Connect) -> None:
    async with ten_messages(server, connect) as (js, name):
        assert await js.purge_stream(name, seq=3) == 2
        assert await left(js, name) == [*range(3, 11)]
        assert await js.purge_stream(name, subject=f"{name}.1", keep=2) == 2
        assert await left(js, name) == [4, 6, 7, 8, 9, 10]
        assert await js.purge_stream(name, subject=f"{name}.0", seq=7) == 2
        assert await js.purge_stream(name, keep=3) == 1
        assert await left(js, name) == [8, 9, 10]
        assert await js.purge_stream(name, subject=f"{name}.*", keep=0) == 3
        assert await left(js, name) == []
        assert await js.purge_stream(name) == 0
        with pytest.raises(LocalProtocolError, match="keep or seq"):
            await js.purge_stream(name, keep=1, seq=1)
        with pytest.raises(StreamNotFoundError, match="stream NONE"):
            await js.purge_stream("NONE")
        await js.update_stream(name, deny_purge=True)
        with pytest.raises(APIError, match=f"not permitted: stream {name}"):
            await js.purge_stream(name)


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_deleting_messages(server: Any, connect: Connect, storage: Any) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, storage=storage)
        for _ in range(5):
            await js.publish(f"{name}.a", b"x")
        assert await js.delete_msg(name, 2) is True
        assert await js.secure_delete_msg(name, 3) is True
        assert await left(js, name) == [1, 4, 5]
        for seq in (2, 3, 6):  # between messages, and after them
            for verb in (js.delete_msg, js.secure_delete_msg):
                with pytest.raises(MessageNotFoundError, match=f"message {seq} of stream {name}"):
                    await verb(name, seq)
        await js.purge_stream(name, seq=5)
        with pytest.raises(MessageNotFoundError, match=f"message 1 of stream {name}"):
            await js.delete_msg(name, 1)
        with pytest.raises(LocalProtocolError, match="start at 1"):
            await js.delete_msg(name, 0)
        with pytest.raises(StreamNotFoundError, match="message 1 of stream NONE"):
            await js.delete_msg("NONE", 1)
        await js.update_stream(name, deny_delete=True)
        with pytest.raises(StreamMsgDeleteFailedError, match="not permitted"):
            await js.delete_msg(name, 5)
        await js.delete_stream(name)


# -- configurations ----------------------------------------------------------------------------------------------------


@promise("and nothing else: max_msgs stays")
async def test_an_update_changes_only_what_is_named(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, max_msgs=100, metadata={"k": "v"}, duplicate_window=7.000000001, discard="new")
        before = (await js.stream_info(name)).config.to_json()
        changed = await js.update_stream(name, max_age=timedelta(hours=1), description="d")
        assert changed.config.to_json() == before | {"max_age": 3_600_000_000_000, "description": "d"}
        back = (await js.stream_info(name)).config.updated(max_age=None, description=None)
        assert (await js.update_stream(back)).config.to_json() == before
        assert (await js.update_stream(name)).config.to_json() == before
        made = await js.create_consumer(name, durable_name="D", ack_wait=7.000000001, metadata={"k": "v"})
        consumer = made.config.to_json()
        changed = await js.update_consumer(name, "D", max_deliver=5)
        assert changed.config.to_json() == consumer | {"max_deliver": 5}


async def test_what_the_server_would_replace_is_refused_if_it_is_to_be_pedantic(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        with pytest.raises(PedanticError):
            await js.update_stream(name, max_msgs=-5, pedantic=True)
        other = unique("S")
        with pytest.raises(PedanticError):
            await js.create_stream(other, subjects=[other], max_age=1, pedantic=True)
        with pytest.raises(StreamNotFoundError):
            await js.stream_info(other)
        limits = {"max_ack_pending": 5}
        await js.update_stream(name, consumer_limits=limits)
        with pytest.raises(PedanticError):
            await js.create_consumer(name, durable_name="D", pedantic=True)
        assert (await js.create_consumer(name, durable_name="D")).config.max_ack_pending == 5
        with pytest.raises(PedanticError):
            await js.update_consumer(name, "D", max_ack_pending=None, pedantic=True)
        assert (await js.update_stream(name, description="d", pedantic=True)).config.description == "d"


async def test_a_required_api_level(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        level = (await js.account_info()).api.level
        await js.update_stream(name, description="d", required_api_level=level)
        await js.create_consumer(name, durable_name="D", filter_subject=f"{name}.*", required_api_level=level)
        other = unique("S")
        too_high: dict[str, Any] = {"required_api_level": level + 1}
        verbs: list[Any] = [
            lambda: js.create_stream(other, **too_high),
            lambda: js.update_stream(name, description="e", **too_high),
            lambda: js.update_stream(StreamConfig(name), **too_high),
            lambda: js.create_consumer(name, durable_name="E", filter_subject=f"{name}.*", **too_high),
            lambda: js.update_consumer(name, "D", description="e", **too_high),
        ]
        for refused in verbs:
            with pytest.raises(APIRequiredApiLevelError):
                await refused()
        assert (await js.stream_info(name)).config.description == "d"
        assert await js.consumer_names(name) == ["D"]


@promise("A server that is too old for these options is an `UnsupportedByServerError`.")
@pytest.mark.server
@pytest.mark.versions
async def test_a_release_that_would_pass_over_a_required_level(connect: Connect) -> None:
    try:
        program = servers.binary("2.11.11")
    except servers.NoSuchServerError as error:
        pytest.skip(str(error))
    with NatsServer(binary=program) as old:
        async with connect(old.url) as nc:
            js = nc.jetstream()
            with pytest.raises(UnsupportedByServerError, match="required_api_level needs nats-server 2.12"):
                await js.create_stream("S", subjects=["s"], required_api_level=1)
            assert await js.stream_names() == []
            await js.create_stream("S", subjects=["s"])
            await js.create_consumer("S", durable_name="C")
            assert (await js.pause_consumer("S", "C", timedelta(hours=1))).paused


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"retention": "limit"}, "'limits', 'interest' or 'workqueue', not 'limit': did you mean 'limits'"),
        ({"retention": "work-queue"}, "did you mean 'workqueue'"),
        ({"storage": "File"}, "did you mean 'file'"),
        ({"storage": "disk"}, "storage is 'file' or 'memory', not 'disk'$"),
        ({"discard": "newest"}, "did you mean 'new'"),
        ({"compression": "s3"}, "compression is 'none' or 's2', not 's3'$"),
        ({"compression": "S2"}, "did you mean 's2'"),
        ({"persist_mode": "asyn"}, "did you mean 'async'"),
    ],
)
async def test_a_word_that_is_none_of_a_stream(server: Any, connect: Connect, options: Any, complaint: str) -> None:
    async with connect(server.url) as nc:
        js, name = nc.jetstream(), unique("S")
        config = StreamConfig(name, **options)
        verbs: list[Any] = [lambda: js.create_stream(name, **options), lambda: js.create_stream(config)]
        for refused in verbs:
            with pytest.raises(LocalProtocolError, match=complaint):
                await refused()
        with pytest.raises(StreamNotFoundError):
            await js.stream_info(name)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"deliver_policy": "last_per_subjects"}, "did you mean 'last_per_subject'"),
        ({"deliver_policy": "by-start-time"}, "did you mean 'by_start_time'"),
        ({"ack_policy": "explicitly"}, "did you mean 'explicit'"),
        ({"replay_policy": "orignal"}, "did you mean 'original'"),
        ({"priority_policy": "pinned"}, "did you mean 'pinned_client'"),
    ],
)
async def test_a_word_that_is_none_of_a_consumer(server: Any, connect: Connect, options: Any, complaint: str) -> None:
    async with ten_messages(server, connect) as (js, name):
        verbs: list[Any] = [
            lambda: js.create_consumer(name, durable_name="D", **options),
            lambda: js.pull_subscribe(f"{name}.a", "D", **options),
            lambda: js.subscribe(f"{name}.a", durable="D", **options),
        ]
        for refused in verbs:
            with pytest.raises(LocalProtocolError, match=complaint):
                await refused()
        assert await js.consumer_names(name) == []


async def test_a_word_that_is_none_of_a_verb(server: Any, connect: Connect) -> None:
    async with ten_messages(server, connect) as (js, name):
        wrong: Any
        for wrong, complaint in (
            (lambda: js.get_msg(name, 1, level="lead"), "'direct' or 'leader', not 'lead': did you mean 'leader'"),
            (lambda: js.get_last_msg(name, f"{name}.0", level="Direct"), "did you mean 'direct'"),
            (lambda: js.get_msg(name, 1, level=5), "level is 'direct' or 'leader', not 5$"),
        ):
            with pytest.raises(LocalProtocolError, match=complaint):
                await wrong()
        for wrong, complaint in (
            (lambda: js.fast_publisher(gap="okay"), "did you mean 'ok'"),
            (lambda: js.get_batch(name, if_dropped="skipped"), "did you mean 'skip'"),
            (lambda: js.consistent_session(level="mirrors"), "did you mean 'mirror'"),
            (lambda: js.copy(name, "C", "T", delivery="atomics", marker="m"), "did you mean 'atomic'"),
        ):
            with pytest.raises(LocalProtocolError, match=complaint):
                wrong()


# -- consumers ---------------------------------------------------------------------------------------------------------


async def test_pausing_until_a_moment_or_for_a_while(server: Any, connect: Connect) -> None:
    async with ten_messages(server, connect) as (js, name):
        await js.create_consumer(name, durable_name="D")
        moment = datetime(2099, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
        paused = await js.pause_consumer(name, "D", moment)
        assert (paused.paused, paused.pause_until) == (True, 4_070_908_800_000_005_000)
        paused = await js.pause_consumer(name, "D", until=timedelta(hours=2))
        assert paused.paused
        assert 7_100 < paused.pause_remaining <= 7_200
        assert (await js.consumer_info(name, "D")).paused is True
        assert not (await js.resume_consumer(name, "D")).paused
        wrong: Any
        for wrong in (timedelta(), timedelta(-1), datetime(2099, 1, 1), "tomorrow", 1.5):
            with pytest.raises(LocalProtocolError):
                await js.pause_consumer(name, "D", wrong)
        verbs: list[Any] = [
            lambda: js.pause_consumer(name, "X", moment),
            lambda: js.pause_consumer(name, "X", timedelta(1)),
            lambda: js.resume_consumer(name, "X"),
        ]
        for verb in verbs:
            with pytest.raises(ConsumerNotFoundError, match=f"consumer X of stream {name}"):
                await verb()


# -- what was not found ------------------------------------------------------------------------------------------------


@promise("An error names the stream, consumer, subject or message that was not found.")
async def test_an_error_names_what_was_not_found(server: Any, connect: Connect) -> None:
    async with ten_messages(server, connect) as (js, name):
        subject = f"{name}.none"
        session = js.consistent_session()
        not_found: Any
        for not_found, kind, text in (
            (lambda: js.stream_info("NONE"), StreamNotFoundError, "stream NONE"),
            (lambda: js.update_stream("NONE", max_msgs=1), StreamNotFoundError, "stream NONE"),
            (lambda: js.delete_stream("NONE"), StreamNotFoundError, "stream NONE"),
            (lambda: js.consumer_info("NONE", "C"), StreamNotFoundError, "consumer C of stream NONE"),
            (lambda: js.consumer_info(name, "X"), ConsumerNotFoundError, f"consumer X of stream {name}"),
            (lambda: js.delete_consumer(name, "X"), ConsumerNotFoundError, f"consumer X of stream {name}"),
            (lambda: js.update_consumer(name, "X", max_deliver=1), ConsumerNotFoundError, f"X of stream {name}"),
            (lambda: js.reset_consumer(name, "X"), ConsumerNotFoundError, f"consumer X of stream {name}"),
            (lambda: js.pull_subscribe_bind("X", name), ConsumerNotFoundError, f"consumer X of stream {name}"),
            (lambda: js.consumer_names("NONE"), StreamNotFoundError, "stream NONE"),
            (lambda: js.get_msg(name, 99), MessageNotFoundError, f"message 99 of stream {name}"),
            (lambda: js.get_msg(name, 99, level="leader"), MessageNotFoundError, f"message 99 of stream {name}"),
            (lambda: js.get_data(name, 99), MessageNotFoundError, f"message 99 of stream {name}"),
            (lambda: js.get_msg(name, 99, next=True), MessageNotFoundError, f"from sequence 99 on in stream {name}"),
            (lambda: js.get_last_msg(name, subject), MessageNotFoundError, f"of '{subject}' in stream {name}"),
            (lambda: js.get_msg("NONE", 1, level="leader"), StreamNotFoundError, "stream NONE"),
            (lambda: js.get_last_msg("NONE", "a"), StreamNotFoundError, "stream NONE"),
            (lambda: js.get_msg("NONE", 1), StreamNotFoundError, "stream NONE"),
            (lambda: js.get_msg("NONE", 1, level="direct"), NoRespondersError, "stream NONE does not exist"),
            (lambda: session.get_last_msg(name, subject), MessageNotFoundError, f"'{subject}' in stream {name}"),
            (lambda: js.pull_subscribe("nowhere.a"), NoMatchingStreamError, "'nowhere.a'"),
        ):
            with pytest.raises(kind) as caught:
                await not_found()
            assert text in str(caught.value)
            assert "\n" not in str(caught.value)


async def test_the_last_message_of_a_stream_without_direct_gets(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_direct=False)
        await js.publish(f"{name}.a", b"1", headers={"K": "v"})
        ack = await js.publish(f"{name}.a", b"2", headers={"K": "v"})
        last = await js.get_last_msg(name, f"{name}.*")
        assert (last.seq, last.data, last.headers["K"], last.stream) == (ack.seq, b"2", "v", name)
        with pytest.raises(NoRespondersError, match="allow_direct"):
            await js.get_last_msg(name, f"{name}.a", level="direct")
        with pytest.raises(MessageNotFoundError, match=f"'{name}.b' in stream {name}"):
            await js.get_last_msg(name, f"{name}.b")


# -- the account -------------------------------------------------------------------------------------------------------


async def test_limits_of_an_account(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        info = await nc.jetstream().account_info()
        assert (info.limits.max_streams, info.limits.max_bytes_required) == (-1, False)
        assert info.api.level == info.api_level == 5
        assert info.api.total > 0
        assert info.tiers is None


TIERED = """
accounts {
  A {
    users: [{user: a, password: a}]
    jetstream { max_mem: 1M, max_store: 1G, max_streams: 5, max_consumers: 7, max_ack_pending: 9 }
  }
}
"""


@pytest.mark.server
async def test_limits_that_an_account_has(connect: Connect) -> None:
    with NatsServer(config=TIERED) as limited:
        async with connect(limited.url, user="a", password="a") as nc:
            js = nc.jetstream()
            limits = (await js.account_info()).limits
            assert (limits.max_memory, limits.max_storage) == (1_000_000, 1_000_000_000) or limits.max_memory == 2**20
            assert (limits.max_streams, limits.max_consumers, limits.max_ack_pending) == (5, 7, 9)
