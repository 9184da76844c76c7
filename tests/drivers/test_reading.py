"""Reading, through every driver, against a real server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import (
    LocalProtocolError,
    MessageNotFoundError,
    MessagesDroppedError,
    NoRespondersError,
    TooManyResultsError,
)
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import parse_timestamp
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, read_all
from tests.marks import promise, requirement

pytestmark = pytest.mark.anyio


def fields(message: StoredMsg) -> tuple[Any, ...]:
    return (
        message.seq,
        message.subject,
        message.stream,
        message.data,
        message.timestamp,
        list(message.headers.items()),
    )


@requirement(113, 114, 115, 116, 146, 147, 251)
async def test_one_message(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        for n in range(1, 7):
            await js.publish(f"{name}.{n % 2}", b"%d" % n, headers={"Nats-Sequence": "99", "N": str(n)})
        for level in ("direct", "leader"):
            third = await js.get_msg(name, 3, level=level)
            assert fields(third) == (
                3, f"{name}.1", name, b"3", third.timestamp, [("Nats-Sequence", "99"), ("N", "3")],
            )  # fmt: skip
            assert third.num_pending is None
            assert fields(await js.get_msg(name, start_time=third.timestamp, level=level)) == fields(third)
            assert (await js.get_last_msg(name, f"{name}.1", level=level)).seq == 5
            assert (await js.get_msg(name, subject=f"{name}.*", level=level)).seq == 6
            assert (await js.get_msg(name, 4, subject=f"{name}.1", next=True, level=level)).seq == 5
            assert (await js.get_msg(name, next=True, level=level)).seq == 1
            later = {"start_time": third.timestamp + 1, "subject": f"{name}.1", "next": True}
            assert (await js.get_msg(name, level=level, **later)).seq == 5
            with pytest.raises(MessageNotFoundError):
                await js.get_msg(name, 7, level=level)
            with pytest.raises(MessageNotFoundError):
                await js.get_msg(name, start_time=datetime(2261, 1, 1, tzinfo=UTC), level=level)
        assert await js.get_data(name, 2) == b"2"
        assert await js.get_data(name, subject=f"{name}.1") == b"5"
        with pytest.raises(MessageNotFoundError):
            await js.get_data(name, subject=f"{name}.7")
        for bad in ({}, {"seq": 0}, {"seq": 1, "subject": name}, {"start_time": datetime(2026, 1, 1)}):
            with pytest.raises(LocalProtocolError):
                await js.get_msg(name, **bad)


async def test_one_message_of_a_stream_without_direct_get(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_direct=False)
        await js.publish(f"{name}.0", b"x")
        with pytest.raises(NoRespondersError, match="allow_direct=True"):
            await js.get_msg(name, 1, level="direct")
        for level in (None, "leader"):
            assert (await js.get_msg(name, 1, level=level)).data == b"x"
            with pytest.raises(MessageNotFoundError):
                await js.get_msg(name, 2, level=level)
        with pytest.raises(StreamNotFoundError):
            await js.get_msg("NONE", 1)


async def fill(js: Any, subjects: list[str]) -> None:
    async with js.fast_publisher() as batch:
        await batch.publish_many((subject, b"%d" % n) for n, subject in enumerate(subjects, 1))
        await batch.commit()


@requirement(121, 127)
async def test_from_a_time_on(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, [f"{name}.{n % 3}" for n in range(300)])
        middle = await js.get_msg(name, 200)
        reader = js.get_batch(name, start_time=middle.timestamp, subject=f"{name}.1", max_bytes=100)
        got = [message.seq async for message in reader]
        assert set(range(200, 301, 3)) <= set(got) <= set(range(2, 301, 3))
        assert got == sorted(got)
        assert (reader.last_seq, reader.num_pending, reader.up_to_seq) == (299, 0, None)


@promise("What was deleted inside the range is passed over.")
async def test_what_limits_dropped(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, max_msgs=50)
        await fill(js, [f"{name}.{n % 3}" for n in range(80)])
        assert [message.seq async for message in js.get_batch(name, seq=5)] == list(range(31, 81))
        with pytest.raises(MessagesDroppedError, match="5 to 30") as caught:
            await read_all(js.get_batch(name, seq=5, if_dropped="error"))
        assert (caught.value.wanted, caught.value.first_seq) == (5, 31)
        rest = await read_all(js.get_batch(name, seq=31, subject=f"{name}.2", if_dropped="error"))
        assert [message.seq for message in rest] == list(range(33, 81, 3))
        assert await read_all(js.get_batch(name, seq=81, if_dropped="error")) == []


@requirement(130, 133, 135)
async def test_the_last_messages_of_many_subjects(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, [f"{name}.{n % 20}" for n in range(100)])
        reader = js.get_last_msgs_for(name, [f"{name}.*", f"{name}.7"], max_bytes=50)
        assert [message.seq async for message in reader] == list(range(81, 101))
        assert (reader.up_to_seq, reader.last_seq, reader.num_pending) == (100, 100, 0)
        earlier = await read_all(js.get_last_msgs_for(name, f"{name}.*", up_to_seq=50, batch=5))
        assert [message.seq for message in earlier] == [31, 32, 33, 34, 35]
        moment = (await js.get_msg(name, 50)).timestamp
        by_time = await read_all(js.get_last_msgs_for(name, iter([f"{name}.*"]), up_to_time=moment))
        assert [message.seq for message in by_time][-1] <= 49  # just before it
        assert await read_all(js.get_last_msgs_for(name, "nowhere")) == []
        for bad in ([], ["a b"], [f"a.{n}" for n in range(1025)]):
            with pytest.raises(LocalProtocolError):
                js.get_last_msgs_for(name, bad)


@requirement(134)
@promise("all subjects, however many, at one sequence")
@pytest.mark.one_driver
async def test_more_subjects_than_a_server_answers_for(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        await fill(js, [f"{name}.{n}" for n in range(2_500)] + [f"{name}.{n}" for n in range(0, 2_500, 2)])
        with pytest.raises(TooManyResultsError):
            await read_all(js.get_last_msgs_for(name, f"{name}.>"))
        reader = await js.snapshot(name, max_bytes=10_000)
        await js.publish(f"{name}.0", b"later")
        expected = {*range(2, 2_501, 2), *range(2_501, 3_751)}
        assert {message.seq async for message in reader} == expected
        assert reader.up_to_seq == 3_750
        before = await js.snapshot(name, [f"{name}.0", f"{name}.2498", f"{name}.none"], at=2_501)
        assert [message.seq async for message in before] == [2_499, 2_501]
        start = datetime.fromtimestamp((await js.get_msg(name, 1)).timestamp / 1e9 - 1, UTC)
        assert await read_all(await js.snapshot(name, at=start)) == []
        wrong: list[dict[str, Any]] = [{"at": 10**6}, {"at": 0}, {"subjects": []}]
        for bad in wrong:
            with pytest.raises(LocalProtocolError):
                await js.snapshot(name, **bad)


@promise("The messages as columns instead, up to ``most`` at a time")
async def test_columns(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with js.fast_publisher() as batch:
            await batch.publish_many((f"{name}.{n % 3}", b"%d" % n, {"N": str(n)}) for n in range(1, 301))
            await batch.publish_many((f"{name}.x", b"%d" % n) for n in range(301, 1_001))
            await batch.commit()
        messages = await read_all(js.get_batch(name, seq=11))
        async with js.get_batch(name, seq=11, max_bytes=20_000) as reader:
            pieces = [columns async for columns in reader.columns(most=64)]
        assert {len(columns.seqs) for columns in pieces} <= set(range(1, 65))
        found = [row for columns in pieces for row in zip(*columns[:4], columns.headers(), strict=True)]
        assert [(subject.decode(), seq, parse_timestamp(time), data) for subject, seq, time, data, _ in found] == [
            (message.subject, message.seq, message.timestamp, message.data) for message in messages
        ]
        assert [headers or {} for *_, headers in found] == [message.headers or {} for message in messages]
        assert len(found) == 990
        assert reader.last_seq == 1_000
        assert [columns async for columns in js.get_batch(name, subject="nowhere").columns()] == []
        async with js.consistent_session() as session:
            session_pieces = [columns async for columns in session.get_batch(name, seq=11).columns(most=64)]
        assert [seq for columns in session_pieces for seq in columns.seqs] == [message.seq for message in messages]


async def test_columns_of_a_read_that_cannot_be(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_direct=False)
        with pytest.raises(NoRespondersError, match="allow_direct=True"):
            [columns async for columns in js.get_batch(name).columns()]
