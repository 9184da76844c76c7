"""``python -m tests.testing_io.measure``: how fast the server in memory is. It prints numbers, and judges none.

* "a test": start the server in a thread, connect, create a stream, publish 1,000 messages, read them back, end both.
* "without sockets": the same with the server in memory without sockets, with a reader thread and without.
* "simulation": connect, create a stream, store 100 messages by fast ingest and read them back, in simulated time.
* "fast ingest": messages of 128 bytes into a server that another process runs, until the last one is acknowledged.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter, process_time

from jsproto_io.sync import connect
from jsproto_io.testing import InProcessServer, MemoryServer, in_process, serve
from jsproto_io.testing.simulation import simulate
from tests.simulation.scenes import hundred_messages

ROUNDS = 9
SCHEDULES = 300
COUNT = 50_000


def a_test(start: Callable[[], MemoryServer | InProcessServer], *, reader_thread: bool = True) -> None:
    """What a user's test does."""
    with (
        start() as server,
        connect(server.url, dialer=getattr(server, "dialer", None), reader_thread=reader_thread) as nc,
    ):
        js = nc.jetstream()
        js.create_stream("EVENTS", subjects=["events.>"], allow_batched=True, allow_direct=True)
        with js.fast_publisher() as batch:
            batch.publish_many([("events.a", b"%d" % number) for number in range(1_000)])
            batch.commit()
        assert sum(1 for _ in js.get_batch("EVENTS")) == 1_000


def fast_ingest(url: str, count: int) -> float:
    """Publish ``count`` messages. Returns the seconds that it takes."""
    with connect(url) as nc:
        js = nc.jetstream()
        js.create_stream("EVENTS", subjects=["events.>"], allow_batched=True)
        messages = [("events.a", bytes(128))] * count
        began = perf_counter()
        with js.fast_publisher() as batch:
            batch.publish_many(messages)
            batch.commit()
        took = perf_counter() - began
        js.delete_stream("EVENTS")
    return took


def main() -> None:
    tests: dict[str, Callable[[], None]] = {
        "a test": partial(a_test, serve),
        "without sockets": partial(a_test, in_process),
        "without sockets, without a reader thread": partial(a_test, in_process, reader_thread=False),
    }
    for name, run in tests.items():
        times = []
        for _ in range(ROUNDS):
            began = perf_counter()
            run()
            times.append(1000 * (perf_counter() - began))
        print(f"{name}: {min(times):.1f} ms, median {median(times):.1f} ms, first {times[0]:.1f} ms")
    began = process_time()
    for seed in range(SCHEDULES):
        assert simulate(hundred_messages, seed=seed, faults=()).result == 100
    print(f"simulation: {SCHEDULES / (process_time() - began):.0f} schedules per CPU second")
    command = [sys.executable, "-m", "jsproto_io.serve", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        place = next(found[1] for line in process.stderr if (found := re.search(r"connections on (\S+)", line)))
        rates = [COUNT / fast_ingest(f"nats://{place}", COUNT) for _ in range(3)]
        process.terminate()
    print(f"fast ingest: {max(rates):,.0f} messages/s, median {median(rates):,.0f}")


if __name__ == "__main__":
    main()
