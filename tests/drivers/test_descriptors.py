"""A process has no file descriptors left: an attempt to connect fails, a pause follows, and the error says why."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from errno import EMFILE
from typing import Any

import anyio
import pytest

from jsproto.errors import ConnectionClosedError, ConnectionLostError, Error, NoServersError
from jsproto.events import Connected, Disconnected, Event
from jsproto_io import sync
from jsproto_io._threads import reader
from jsproto_io.testing import serve
from tests.descriptors import next_descriptors, no_descriptors, open_descriptors
from tests.drivers.conftest import LIMIT, Connect

pytestmark = pytest.mark.anyio

WHY = os.strerror(EMFILE)
PAUSE = 0.02  # seconds between two attempts to connect again


async def test_a_connect_fails_and_says_why(connect: Connect) -> None:
    with serve() as server:
        with no_descriptors(), pytest.raises(NoServersError) as caught:
            async with connect(server.url):
                raise AssertionError("connected")
        assert caught.value.attempts == ((server.url, WHY),)
        async with connect(server.url) as nc:
            await nc.flush()


async def test_a_lost_connection_ends_after_so_many_attempts(connect: Connect) -> None:
    """There is a pause before each but the first."""
    options: dict[str, Any] = {"reconnect_time_wait": PAUSE, "reconnect_jitter": 0.0, "max_reconnect_attempts": 4}
    with serve() as server:
        async with connect(server.url, **options) as nc:
            await nc.flush()
            await anyio.sleep(PAUSE)  # a link that was shorter counts as a failed attempt
            with no_descriptors():
                began = anyio.current_time()
                server.disconnect()
                while not nc.is_closed:
                    with suppress(Error):
                        await nc.flush()
            assert anyio.current_time() - began >= 3 * PAUSE
            with pytest.raises(ConnectionClosedError, match=f"{WHY} \\(4 times\\)"):
                await nc.flush()


async def test_it_connects_once_there_are_descriptors_again(connect: Connect) -> None:
    events: list[Event] = []
    with serve() as server:
        async with connect(
            server.url, event_cb=events.append, reconnect_time_wait=PAUSE, max_reconnect_attempts=-1
        ) as nc:  # fmt: skip
            await nc.flush()
            with no_descriptors():
                server.disconnect()
                for _ in range(10):
                    with suppress(Error):
                        await nc.flush(timeout=PAUSE)
                assert [type(event) for event in events] == [Connected, Disconnected]
            await nc.flush()
            assert [type(event) for event in events] == [Connected, Disconnected, Connected]


def test_a_reader_that_gives_up_while_it_dials_sleeps_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits has its error then, and closes what the reader would sleep on."""
    plan = reader._plan

    def plan_slowly(found: Any) -> bool:
        planned = plan(found)
        if found()._session.closed:
            time.sleep(LIMIT)
        return planned

    monkeypatch.setattr(reader, "_plan", plan_slowly)
    with serve() as server:
        nc = sync.connect(server.url, reconnect_time_wait=LIMIT, reconnect_jitter=0.0, max_reconnect_attempts=2)
        with no_descriptors():
            server.disconnect()
            with pytest.raises(ConnectionLostError):
                nc.flush()
            with pytest.raises(NoServersError, match=WHY):
                nc.flush()
            assert nc._thread is not None
            nc._thread.join()
        with pytest.raises(ConnectionClosedError, match=WHY):
            nc.flush()


@pytest.mark.parametrize("reader_thread", [True, False], ids=["reader", "no reader"])
def test_a_connect_that_lacks_some_keeps_none(server: Any, reader_thread: bool) -> None:
    before, free = open_descriptors(), next_descriptors(4)
    for first_missing in free:
        with no_descriptors(first_missing), pytest.raises(NoServersError, match=WHY):
            sync.connect(server.url, reader_thread=reader_thread)
        assert open_descriptors() == before
    with no_descriptors(free[-1] + 1), sync.connect(server.url, reader_thread=reader_thread) as nc:
        nc.flush()
    assert open_descriptors() == before
