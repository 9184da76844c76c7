"""Reading, through every driver, against a real server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jsproto.errors import LocalProtocolError, MessageNotFoundError, NoRespondersError
from jsproto.grammar.stored import StoredMsg
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream

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
            await js.get_msg(name, 1)
        assert (await js.get_msg(name, 1, level="leader")).data == b"x"
