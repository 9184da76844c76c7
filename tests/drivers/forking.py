"""A program that forks with an open connection: run as ``forking.py DRIVER URL``. It prints what both sides saw.

The child tries every verb, reports and goes. Then the parent shows that its connection is as good as before.

``forking.py DRIVER URL connecting`` forks at each step of a ``connect`` in another thread, which is each call and each
return of the drivers' own code. It prints the number of forks, and of children whose verbs did not raise ForkedError.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import trio

import jsproto_io.asyncio
import jsproto_io.sync
import jsproto_io.trio
from tests.drivers.conftest import LOOPS

ROUNDS = 200
HELD = 8  # connections that are there before
LIMIT = 60.0  # seconds for a connect that is forked at each of its steps
DRIVERS = str(Path(jsproto_io.sync.__file__).parent)


def verbs(nc: Any, js: Any, sub: Any, batch: Any) -> dict[str, Callable[[], Any]]:
    """What the child tries."""
    return {
        "publish": lambda: nc.publish("a", b"1"),
        "request": lambda: nc.request("a", timeout=5),
        "subscribe": lambda: nc.subscribe("b"),
        "flush": nc.flush,
        "drain": nc.drain,
        "new_inbox": nc.new_inbox,
        "jetstream": nc.jetstream,
        "next_msg": lambda: sub.next_msg(timeout=5),
        "sub.drain": sub.drain,
        "js.publish": lambda: js.publish("a", b"1", timeout=5),
        "js.publish_async": lambda: js.publish_async("a", b"1"),
        "stream_info": lambda: js.stream_info("S", timeout=5),
        "get_batch": lambda: js.get_batch("S"),
        "pull_subscribe": lambda: js.pull_subscribe("a"),
        "batch.publish": lambda: batch.publish("a", b"1"),
        "batch.ping": batch.ping,
        "batch.commit": batch.commit,
    }


def attempt(verb: Callable[[], Any]) -> str:
    """What comes of a verb, if it does not wait."""
    try:
        result = verb()
        if hasattr(result, "send"):
            result.send(None)
            return "waits"
    except BaseException as error:
        return type(error).__name__
    return "passed"


def fork(nc: Any, js: Any, sub: Any, batch: Any) -> tuple[int, int]:
    """Fork. The child does not return. Returns its id, and where its report comes."""
    reports, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            seen: dict[str, Any] = {name: attempt(verb) for name, verb in verbs(nc, js, sub, batch).items()}
            seen["state"] = [nc.is_closed, nc.is_connected]
            seen["given up"] = [attempt(verb) for verb in (sub.unsubscribe, batch.abandon, nc.close)]
            os.write(report, json.dumps(seen).encode())
        finally:
            os._exit(0)
    os.close(report)
    return child, reports


def collect(child: int, reports: int) -> None:
    """Print the report, when the child has gone."""
    with os.fdopen(reports, "rb") as stream:
        print(stream.read().decode())
    os.waitpid(child, 0)


def threads(url: str, *, reader_thread: bool) -> None:
    with jsproto_io.sync.connect(url, reader_thread=reader_thread) as nc:
        sub, js = nc.subscribe("forked"), nc.jetstream()
        nc.flush()
        collect(*fork(nc, js, sub, js.fast_publisher()))
        for number in range(ROUNDS):
            nc.publish("forked", b"%d" % number)
            assert sub.next_msg(timeout=10).data == b"%d" % number
            assert nc.flush(timeout=10) >= 0


async def loops(url: str, connect: Any, in_thread: Any) -> None:
    async with connect(url) as nc:
        sub, js = await nc.subscribe("forked"), nc.jetstream()
        await nc.flush()
        await in_thread(collect, *fork(nc, js, sub, js.fast_publisher()))
        for number in range(ROUNDS):
            await nc.publish("forked", b"%d" % number)
            assert (await sub.next_msg(timeout=10)).data == b"%d" % number
            assert await nc.flush(timeout=10) >= 0


def while_connecting(driver: str, url: str) -> None:
    stopped, go_on = threading.Semaphore(0), threading.Semaphore(0)
    ended = False

    def step(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.startswith(DRIVERS) and event in ("call", "return"):
            stopped.release()
            go_on.acquire()

    def other_thread() -> None:
        nonlocal ended
        sys.setprofile(step)
        connect_once(driver, url)
        sys.setprofile(None)
        ended = True
        stopped.release()

    with ExitStack() as stack:
        held = [stack.enter_context(jsproto_io.sync.connect(url, reader_thread=False)) for _ in range(HELD)]
        thread = threading.Thread(target=other_thread)
        thread.start()
        forks = usable = 0
        while stopped.acquire(timeout=60) and not ended:
            child = os.fork()
            if child == 0:
                raised = [attempt(lambda nc=nc: nc.publish("a")) for nc in held]  # type: ignore[misc]
                os._exit(raised != ["ForkedError"] * HELD)
            forks, usable = forks + 1, usable + os.waitpid(child, 0)[1]
            go_on.release()
        thread.join()
    print(json.dumps([forks, usable]))


def connect_once(driver: str, url: str) -> None:
    """Connect, and leave again."""

    async def leave(connect: Any) -> None:
        async with connect(url, connect_timeout=LIMIT):
            pass

    if driver == "asyncio":
        asyncio.run(leave(jsproto_io.asyncio.connect))
    elif driver == "trio":
        trio.run(leave, jsproto_io.trio.connect)
    else:
        jsproto_io.sync.connect(url, reader_thread=driver == "sync", connect_timeout=LIMIT).close()


if __name__ == "__main__":
    driver, url, *connecting = sys.argv[1:]
    if connecting:
        while_connecting(driver, url)
        sys.exit()
    if driver.startswith("asyncio"):
        with asyncio.Runner(loop_factory=LOOPS.get(driver)) as runner:
            runner.run(loops(url, jsproto_io.asyncio.connect, asyncio.to_thread))
    elif driver == "trio":
        trio.run(loops, url, jsproto_io.trio.connect, trio.to_thread.run_sync)
    else:
        threads(url, reader_thread=driver == "sync")
    print("the parent went on")
