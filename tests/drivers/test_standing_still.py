"""What every driver must do after its program stood still: what came meanwhile counts, and then the time does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

import jsproto_io.sync
from jsproto.errors import TimeoutError
from jsproto.ticket import Ticket
from jsproto_io._aio.trio_link import TcpLink
from tests.drivers import standing_still
from tests.drivers.conftest import LIMIT, PATIENCE, Connect, limited
from tests.marks import promise

THREADED = ("sync", "sync-no-reader")
FLOOD, SIZE = 3, 16_384  # messages, and bytes of each: a socket holds that much, before its window has grown


@promise("A program that was stopped, as by Ctrl-Z")
@pytest.mark.parametrize("after", [0.01, 0.5])
def test_what_came_meanwhile_is_in_time(server: Any, driver: str, after: float) -> None:
    """It goes on so many seconds ``after`` its limit. Before the answer other messages wait in the socket."""
    name = f"STILL-{driver}-{after}".replace(".", "-")
    with jsproto_io.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name, subjects=[f"{name}.stored"], storage="memory")
        js.create_consumer(name, durable_name="C")
        asked = nc.subscribe(f"{name}.ask")
        nc.flush()

        def flood() -> None:
            for _ in range(FLOOD):
                nc.publish(f"{name}.flood", bytes(SIZE))

        def answer() -> None:
            flood()
            question.respond(b"answered")
            nc.flush()

        def push() -> None:
            flood()
            nc.publish(f"{name}.pushed", b"pushed")
            nc.flush()

        command = [sys.executable, str(Path(standing_still.__file__)), driver, server.url, name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            begun = said(program)
            question = asked.next_msg(timeout=PATIENCE)
            stop(program, float(begun) + LIMIT + after, answer)
            assert said(program) == "answered"
            stop(program, float(said(program)) + LIMIT + after, push)
            assert said(program) == "pushed"
            begun = said(program)
            while not js.consumer_info(name, "C").num_waiting:
                time.sleep(0.01)
            stop(program, float(begun) + 1.5 * LIMIT + after, lambda: None)  # the server sends heartbeats
            js.publish(f"{name}.stored", b"fetched")
            assert said(program) == f"fetched {2 * FLOOD}"


@promise("A program that was stopped, as by Ctrl-Z")
@pytest.mark.anyio
async def test_what_came_before_the_wait_is_in_time(
    server: Any, connect: Connect, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program stands still once its limit has begun, and until that is over: nothing is left to wait for.

    Another wait is under way, so that on threads another one reads.
    """
    name = f"STILL-{driver}-before"
    with jsproto_io.sync.connect(server.url) as other:
        async with connect(server.url) as nc, anyio.create_task_group() as tasks:
            elsewhere, sub = await nc.subscribe(f"{name}.elsewhere"), await nc.subscribe(f"{name}.pushed")
            await nc.flush()
            tasks.start_soon(elsewhere.next_msg)
            while driver in THREADED and inner(nc)._leadership.leader is None:
                await anyio.sleep(0.01)
            take_ready = inner(sub)._take_ready

            def stand_still(now: float) -> Ticket[None] | None:
                monkeypatch.setattr(inner(sub), "_take_ready", take_ready)
                readable: Ticket[None] | None = take_ready(now)
                other.publish(f"{name}.pushed", b"pushed")
                other.flush()
                time.sleep(LIMIT)  # what is measured
                return readable

            monkeypatch.setattr(inner(sub), "_take_ready", stand_still)
            assert (await sub.next_msg(timeout=LIMIT)).data == b"pushed"
            other.publish(f"{name}.elsewhere")


@pytest.mark.anyio
async def test_a_limit_ends_though_others_take_all_that_comes(
    server: Any, connect: Connect, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, until = f"STILL-{driver}-stolen", time.monotonic() + PATIENCE
    with jsproto_io.sync.connect(server.url) as other:
        async with connect(server.url) as nc:
            sub, others = await nc.subscribe(f"{name}.none"), await nc.subscribe(f"{name}.others")
            await nc.flush()

            def stolen(now: float) -> Ticket[None]:  # it waits for what the other subscription has by then
                assert time.monotonic() < until
                readable: Ticket[None] | None = None
                while readable is None:
                    inner(others)._taken.clear()
                    readable = inner(others)._take_ready(now)
                other.publish(f"{name}.others")
                other.flush()
                return readable

            monkeypatch.setattr(inner(sub), "_take_ready", stolen)
            with pytest.raises(TimeoutError, match=r"nothing came within 0\.05 s"):
                await sub.next_msg(timeout=0.05)


@pytest.mark.anyio
async def test_two_who_wait_have_what_came_meanwhile(
    server: Any, connect: Connect, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first message ends both waits."""
    name = f"STILL-{driver}-two"
    with jsproto_io.sync.connect(server.url) as other:
        async with connect(server.url) as nc:
            sub, _flood = await nc.subscribe(f"{name}.sub"), await nc.subscribe(f"{name}.flood")
            await nc.flush()
            got: list[bytes] = []
            asked: list[float] = []
            take_ready = inner(sub)._take_ready

            def stand_still(now: float) -> Ticket[None] | None:
                asked.append(now)
                readable: Ticket[None] | None = take_ready(now)
                if len(asked) == 2:  # both have begun
                    other.publish(f"{name}.sub", b"first")
                    for _ in range(FLOOD):
                        other.publish(f"{name}.flood", bytes(SIZE))
                    other.publish(f"{name}.sub", b"second")
                    other.flush()
                    time.sleep(LIMIT)  # what is measured
                return readable

            async def take() -> None:
                got.append((await sub.next_msg(timeout=LIMIT)).data)

            monkeypatch.setattr(inner(sub), "_take_ready", stand_still)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                tasks.start_soon(take)
            assert sorted(got) == [b"first", b"second"]


def test_a_look_that_begins_too_late_is_a_look(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """trio. The system has found nothing, and takes the processor away when the driver looks again."""
    real, deaf = TcpLink.receive, False

    async def receive(link: TcpLink) -> bytes:
        nonlocal deaf
        if deaf:
            deaf = False
            await trio.sleep_forever()
        return await real(link)

    async def use() -> None:
        nonlocal deaf
        async with limited("trio")(server.url) as nc:
            deaf = True
            await nc.flush()
            assert (await nc.request("STILL.ask", timeout=LIMIT)).data == b"answered"

    monkeypatch.setattr(TcpLink, "receive", receive)
    with jsproto_io.sync.connect(server.url) as other:
        other.subscribe("STILL.ask", cb=lambda message: message.respond(b"answered"))
        other.flush()
        trio.run(use)


def inner(wrapped: Any) -> Any:
    """The object of a facade itself, on threads too."""
    return getattr(wrapped, "_target", wrapped)


def said(program: subprocess.Popen[str]) -> str:
    """The next line that the program prints."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


def stop(program: subprocess.Popen[str], until: float, meanwhile: Callable[[], object]) -> None:
    """Stop the program until that time of the monotonic clock."""
    os.kill(program.pid, signal.SIGSTOP)
    try:
        meanwhile()
        time.sleep(max(0.0, until - time.monotonic()))  # what is measured
    finally:
        os.kill(program.pid, signal.SIGCONT)
