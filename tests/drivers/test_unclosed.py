"""What becomes of a connection on threads that is dropped without being closed: a warning, and nothing that stays."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import jsproto_io.asyncio
from jsproto.errors import NoServersError
from jsproto_io.sync import Connection, connect
from tests.drivers.fake import FakeServer, Peer
from tests.drivers.test_sync import MODES, until

pytestmark = pytest.mark.usefixtures("quick_collections")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def unclosed(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in caught if "unclosed connection" in str(each.message)]


def use(nc: Connection) -> None:
    nc.subscribe("a").unsubscribe()
    nc.jetstream().account_info()  # and so there is a cycle that only the garbage collector ends
    nc.publish("a")
    nc.flush()
    until(lambda: nc._thread is None or nc._poller.asleep_until > 0)


def drop(url: str, then: Callable[[Connection], object], **options: Any) -> None:
    """Connect, do something, and forget the connection."""
    then(connect(url, **options))
    gc.collect()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="nothing tells of open descriptors here")
@MODES
@pytest.mark.parametrize("then", [id, use], ids=["unused", "used"])
def test_it_warns_and_leaves_nothing(server: Any, reader_thread: bool, then: Callable[[Connection], object]) -> None:
    gc.collect()
    before = descriptors(), threading.active_count()
    with pytest.warns(ResourceWarning, match="unclosed connection to nats://127.0.0.1"):
        drop(server.url, then, reader_thread=reader_thread)
    until(lambda: descriptors() <= before[0] and threading.active_count() <= before[1])


@MODES
def test_one_that_is_dialling_again(reader_thread: bool) -> None:
    with FakeServer(Peer.handshake) as server:
        threads = threading.active_count()
        with pytest.warns(ResourceWarning, match="unclosed"):
            drop(server.url, id, reader_thread=reader_thread, reconnect_time_wait=0.01, max_reconnect_attempts=-1)
        until(lambda: threading.active_count() <= threads)


@MODES
def test_what_was_closed_or_never_opened_warns_of_nothing(
    server: Any, closed_port: int, reader_thread: bool, recwarn: pytest.WarningsRecorder
) -> None:
    nc = connect(server.url, reader_thread=reader_thread)
    nc.close()
    del nc
    with pytest.raises(NoServersError):
        connect(f"nats://127.0.0.1:{closed_port}", reader_thread=reader_thread)
    with pytest.raises(Exception, match="callable"):
        connect(server.url, event_cb=5)  # type: ignore[arg-type]
    gc.collect()
    assert unclosed(recwarn.list) == []


def test_what_somebody_waits_with_lives(server: Any) -> None:
    """Only a wait of another thread knows the connection."""
    got: list[bytes] = []

    def wait(subscription: Any) -> None:
        with subscription._connection:
            got.append(subscription.next_msg(timeout=30).data)

    with connect(server.url) as other:
        thread = threading.Thread(target=wait, args=(connect(server.url).subscribe("a"),))
        thread.start()
        gc.collect()
        while thread.is_alive():
            other.publish("a", b"x")
            other.flush()
    assert got == [b"x"]


def test_one_on_asyncio_whose_loop_has_ended(server: Any) -> None:
    async def use() -> Any:
        connecting = jsproto_io.asyncio.connect(server.url)
        return connecting, await connecting.__aenter__()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # of Python 3.13. Kept, it would keep the connection
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use())
        loop.close()
        gc.collect()
    assert unclosed(caught) == [f"unclosed connection to {server.url}"]


def test_one_on_asyncio_that_was_awaited(server: Any) -> None:
    async def use() -> None:
        await jsproto_io.asyncio.connect(server.url)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(use())
        gc.collect()
    assert unclosed(caught) == [f"unclosed connection to {server.url}"]


def test_one_on_asyncio_whose_block_is_dropped_is_closed(server: Any, recwarn: pytest.WarningsRecorder) -> None:
    async def use() -> None:
        nc = await jsproto_io.asyncio.connect(server.url).__aenter__()
        while not nc.is_closed:  # the loop ends the block
            await asyncio.sleep(0)

    asyncio.run(use())
    gc.collect()
    assert unclosed(recwarn.list) == []
