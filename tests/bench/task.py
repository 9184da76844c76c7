"""What a client is asked to do, and the stopwatch around it.

A runner is a function that takes a ``Task``, connects, does the job once for each ``Run`` of ``task.runs()`` and
disconnects. The first run is the warm-up, long enough for caches and memory to be as they will stay. The second run is
measured, from the moment it is handed out to the moment the runner asks for the next.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

WARM_UP_STREAM: Final = "WARM"
BUCKET: Final = "KV_"  # how the name of a key-value bucket's stream begins
WARM_UP: Final = 5  # the measured run is so many times as long as the warm-up
FLOW: Final = 500  # messages for each acknowledgement of a fast-ingest batch
WINDOW: Final = 1_000  # publishes without an acknowledgement yet
BATCH: Final = 1_000  # messages of an atomic batch; no server takes more unless it is configured to
FETCH: Final = 500  # messages asked for by one fetch
CALLBACKS: Final = 8  # that may run at once, and keys of their messages
MAX_ACK_PENDING: Final = 10_000  # messages that a flow-control consumer delivers without an answer
SHARING: Final = 16  # threads or tasks that share one connection
CONSUMERS: Final = 1_000  # pull consumers that share one connection
TRACE: Final = "Trace"  # the header of messages that have one
TRACES: Final = tuple(f"{number:032}" for number in range(1_000))  # its values
PAGE: Final = 32_768  # messages asked for by one Direct Get; what the library itself asks for


@dataclass
class Run:
    """Do the job once: ``count`` messages to ``subject``, or from ``stream``.

    A reader counts in ``received`` the messages whose sequence is the next one, and sums up their bytes.
    ``keys``: in a key-value bucket each message has a key of its own. Its subject is ``subject``, a dot and the key.
    """

    stream: str
    subject: str
    count: int
    payload: bytes
    received: int = 0
    received_bytes: int = 0

    def __post_init__(self) -> None:
        self.keys = [key_of(number) for number in range(self.count)] if self.stream.startswith(BUCKET) else []


@dataclass(frozen=True)
class Sample:
    """What one measured run took."""

    cpu: float  # seconds
    elapsed: float  # seconds
    received: int
    received_bytes: int


@dataclass
class Task:
    """One process's work. ``sample`` is there when the runner has returned."""

    url: str
    stream: str
    count: int
    size: int
    sample: Sample | None = None

    def runs(self) -> Iterator[Run]:
        """The warm-up, then the measured run."""
        payload = bytes(self.size)
        warm_up = warm_up_of(self.stream)
        yield Run(warm_up, subject_of(warm_up), warm_up_count(self.count), payload)
        run = Run(self.stream, subject_of(self.stream), self.count, payload)
        gc.collect()
        started, cpu = time.perf_counter(), cpu_seconds()
        yield run
        cpu, elapsed = cpu_seconds() - cpu, time.perf_counter() - started
        self.sample = Sample(cpu, elapsed, run.received, run.received_bytes)


def batches(run: Run) -> Iterator[range]:
    """The messages of a run in batches of BATCH."""
    for start in range(0, run.count, BATCH):
        yield range(start, min(start + BATCH, run.count))


Runner: TypeAlias = Callable[[Task], None]


def subject_of(stream: str) -> str:
    """The one subject of a benchmark's stream, or of a bucket how the subjects of its keys begin."""
    if stream.startswith(BUCKET):
        return f"$KV.{stream.removeprefix(BUCKET)}"
    return f"bench.{stream.lower()}"


def key_of(number: int) -> str:
    """The key of a message in a bucket, the first one being 0."""
    return f"orders.{number}"


def warm_up_of(stream: str) -> str:
    """The stream of the warm-up before a run on ``stream``. A bucket has one of its own."""
    return f"{stream}_WARM" if stream.startswith(BUCKET) else WARM_UP_STREAM


def warm_up_count(count: int) -> int:
    """Messages of the warm-up before a run of ``count``."""
    return max(count // WARM_UP, FLOW)


def shares(count: int, parts: int) -> list[range]:
    """The numbers below ``count`` in so many parts in a row, about as long as each other. No part is empty."""
    bounds = [count * part // parts for part in range(parts + 1)]
    return [range(low, high) for low, high in pairwise(bounds) if low < high]


def cpu_seconds() -> float:
    """User and system time of this process so far, all its threads together."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
