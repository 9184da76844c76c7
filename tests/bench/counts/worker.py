"""The process that counts: ``python -m tests.bench.counts.worker JOB CLIENT [JOB CLIENT ...]``. It prints JSON.

It is a process of its own, so that nothing else has been imported, cached or instrumented there. Each row is counted in
a fork of it, so that no row changes what others find in caches and free lists. Ctrl-C works there, even where a shell
has switched it off for what runs in the background: waits on threads differ.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any, Final, TypeVar
from unittest.mock import patch

from jsproto import StreamConfig
from jsproto.grammar.headers import encode_headers
from jsproto.server.session import ServerSession
from jsproto.testing.network import NetworkConditions
from jsproto.testing.world import World
from jsproto_io.testing.simulation import current, simulate
from tests.bench.counts.counter import Counter
from tests.bench.counts.rows import messages
from tests.bench.ours import LoopRunner
from tests.bench.series import Plan
from tests.bench.table import CORE, JOBS, SIZE, Job
from tests.bench.task import BUCKET, TRACE, TRACES, Run, Task, key_of, subject_of, warm_up_of

T = TypeVar("T")

NEARBY: Final = NetworkConditions(latency=0.001, piece=65_536)
DIGITS: Final = {"calls": 2, "c_calls": 2, "bytecodes": 1, "blocks": 2}
CLIENTS: Final[Any] = {"jsproto-sync": "blocking", "jsproto-asyncio": "asyncio", "jsproto-trio": "trio"}
"""How each driver runs in the simulation."""
IMPORTED: Final = (
    "anyio", "jsproto_io.sync", "jsproto_io.testing.simulation.loop", "jsproto_io.testing.simulation.trio",
)  # fmt: skip
"""Once for all forks."""


class CountedTask(Task):
    """A task whose run is counted. The stopwatch stays at rest."""

    counter: Counter

    def runs(self) -> Iterator[Run]:
        """As in ``Task``."""
        payload = bytes(self.size)
        for stream in (warm_up_of(self.stream), self.stream):
            run = Run(stream, subject_of(stream), self.count, payload)
            if stream == self.stream:
                with self.counter.counting():
                    yield run
            else:
                yield run


def counted(job: str, client: str) -> dict[str, float]:
    """What a client does for each message of a job, by measure."""
    count = messages(job)
    counter = Counter()
    gc.collect()
    if job in CORE:
        run = CORE[job](count, SIZE)
        with counter.counting():
            run()
    else:
        plan = Plan([job], [client], rounds=1, scale=1.0, size=SIZE, budget=0.0)
        task = CountedTask("nats://server", plan.stream_of(job), count, plan.bytes_of(job))
        task.counter = counter
        with (
            patch.object(World, "exchange", uncounted(World.exchange, counter)),
            patch.object(World, "deadline", uncounted(World.deadline, counter)),
            patch.object(ServerSession, "data_to_send", joined(ServerSession.data_to_send)),
        ):
            simulate(partial(program(job, client), task), clients=CLIENTS[client], conditions=NEARBY, faults=())
    return {measure: round(number / count, DIGITS[measure]) for measure, number in counter.counts.items()}


def uncounted(method: Callable[[World], T], counter: Counter) -> Callable[[World], T]:
    """A method of the world, with what the server and the network do left out."""

    def paused(world: World) -> T:
        with counter.paused():
            return method(world)

    return paused


def joined(pieces: Any) -> Any:
    """``ServerSession.data_to_send`` in one piece, as a socket would take it."""

    def data_to_send(session: ServerSession) -> list[bytes]:
        data = b"".join(pieces(session))
        return [data] if data else []

    return data_to_send


def program(job: str, client: str) -> Any:
    """What the simulation runs: it makes the streams, then does the job."""
    runner = JOBS[job].clients[client]
    if not isinstance(runner, LoopRunner):

        def threads(task: CountedTask) -> None:
            prepare(task, JOBS[job])
            runner(task)

        return threads
    connect = import_module(f"jsproto_io.{CLIENTS[client]}").connect

    async def loop(task: CountedTask) -> None:
        prepare(task, JOBS[job])
        await runner.run(connect, task)

    return loop


def prepare(task: CountedTask, job: Job) -> None:
    """Make the streams of a task on the server of the simulation."""
    server = current().server
    for stream in (warm_up_of(task.stream), task.stream):
        subject, is_bucket = subject_of(stream), stream.startswith(BUCKET)
        config = StreamConfig(
            stream, subjects=[f"{subject}.>" if is_bucket else subject], max_msgs_per_subject=1 if is_bucket else -1,
            allow_atomic=True, allow_batched=True, allow_direct=True,
        )  # fmt: skip
        server.add_stream(config, current().world.now)
        traces = cycle([encode_headers({TRACE: trace}) for trace in TRACES] if job.headers else [None])
        for number, headers in zip(range(task.count if job.reads else 0), traces, strict=False):
            named = f"{subject}.{key_of(number)}" if is_bucket else subject
            server.publish(named, bytes(task.size), headers=headers)


def in_fork(job: str, client: str) -> dict[str, float]:
    """``counted``, in a fork of this process. A failure has been told when it ends the program."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.write(writer, json.dumps(counted(job, client)).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit(1)
    measures: dict[str, float] = json.loads(text)
    return measures


def main(arguments: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for module in IMPORTED:
        import_module(module)
    rows = zip(arguments[::2], arguments[1::2], strict=True)
    print(json.dumps([[job, client, in_fork(job, client)] for job, client in rows]))


if __name__ == "__main__":
    main(sys.argv[1:])
