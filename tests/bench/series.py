"""A series: rounds of runs against one server, each run in a process of its own, and what comes of them.

Rules: a run counts only when nothing was lost: what was published is in the stream, what was to be read was read.
Anything else is a BenchError. Slowness never is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import cycle
from statistics import median
from typing import Final

import attrs
from attrs.validators import and_, deep_iterable, ge, gt, in_, le

from jsproto_io import sync
from jsproto_io.nats_server import NatsServer
from tests.bench.table import CORE, DISTRIBUTIONS, JOBS
from tests.bench.task import BUCKET, TRACE, TRACES, Sample, cpu_seconds, key_of, subject_of, warm_up_count, warm_up_of

RUN_WITHIN: Final = 120.0  # seconds
CORE_CLIENTS: Final = {"calibration": "python"}  # the others are the library's


class BenchError(Exception):
    """A run failed, or lost messages."""


def _to_nanoseconds(microseconds: float) -> float:
    return round(microseconds, 3)


def _whole(rate: float) -> int:
    return round(rate)


@attrs.frozen
class ResultRow:
    """Medians of one client at one job, rounded to what can be measured."""

    job: str
    client: str
    size: int
    cpu_us_per_msg: float = attrs.field(converter=_to_nanoseconds)
    msgs_per_s: int = attrs.field(converter=_whole)
    rounds: int = 1


@attrs.frozen
class Plan:
    """What to run. ValueError for a plan that cannot be run.

    ``scale``: the share of each job's messages. ``budget``: seconds after which no round is begun.
    """

    jobs: Sequence[str] = attrs.field(validator=deep_iterable(in_(JOBS)))
    clients: Sequence[str]
    rounds: int = attrs.field(validator=ge(1))
    scale: float = attrs.field(validator=and_(gt(0), le(1)))
    size: int = attrs.field(validator=ge(1))
    budget: float = attrs.field(validator=ge(0))

    def count(self, job: str) -> int:
        return int(JOBS[job].count * self.scale) // 2 * 2  # that messages of mixed sizes come in pairs

    def bytes_of(self, job: str) -> int:
        """Bytes in each message of a job."""
        return JOBS[job].size or self.size

    def stream_of(self, job: str) -> str:
        """The stream that a job reads, or writes."""
        bucket = BUCKET if JOBS[job].keys else ""
        if not JOBS[job].reads:
            return f"{bucket}DATA"
        kind = "MIXED" if JOBS[job].mixed else "HEADED" if JOBS[job].headers else "STORED"
        return f"{bucket}{kind}{self.bytes_of(job)}"

    def runs(self, number: int) -> Iterator[tuple[str, str]]:
        """(job, client) of a round. Each round begins with another client."""
        for job in self.jobs:
            clients = [client for client in JOBS[job].clients if client in self.clients]
            yield from ((job, client) for client in rotated(clients, number))


def rotated(clients: Sequence[str], number: int) -> list[str]:
    """``clients``, beginning ``number`` places further on."""
    at = number % len(clients) if clients else 0
    return [*clients[at:], *clients[:at]]


def installed(client: str) -> bool:
    """Whether what ``client`` needs is installed."""
    try:
        return client not in DISTRIBUTIONS or bool(version(DISTRIBUTIONS[client]))
    except PackageNotFoundError:
        return False


def row(job: str, client: str, size: int, count: int, samples: Sequence[Sample]) -> ResultRow:
    """The medians of ``samples``, each of ``count`` messages."""
    cpu = median(sample.cpu for sample in samples)
    elapsed = median(sample.elapsed for sample in samples)
    return ResultRow(job, client, size, cpu / count * 1e6, count / elapsed, len(samples))


def rows_of(plan: Plan, log: Callable[[str], None]) -> list[ResultRow]:
    """Run the plan against a server of its own."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    until = time.monotonic() + plan.budget
    with NatsServer() as server, sync.connect(server.url) as nc:
        js = nc.jetstream()
        prepare(js, plan)
        for number in range(plan.rounds):
            if number and time.monotonic() > until:
                log(f"no time for more rounds: {number} of {plan.rounds}")
                break
            log(f"round {number + 1} of {plan.rounds}")
            for job, client in plan.runs(number):
                sample = measure(server.url, js, job, client, plan)
                samples.setdefault((job, client), []).append(sample)
    return [row(job, client, plan.bytes_of(job), plan.count(job), taken) for (job, client), taken in samples.items()]


def prepare(js: sync.JetStream, plan: Plan) -> None:
    """Make the streams that are read, and those of the warm-up."""
    for stream in {plan.stream_of(job) for job in plan.jobs}:
        jobs = [job for job in plan.jobs if plan.stream_of(job) == stream]
        count, first = max(plan.count(job) for job in jobs), jobs[0]
        if JOBS[first].reads:
            create(js, stream)
            fill(js, stream, count, plan.bytes_of(first), mixed=JOBS[first].mixed, headers=JOBS[first].headers)
    for stream in {warm_up_of(plan.stream_of(job)) for job in plan.jobs}:
        jobs = [job for job in plan.jobs if warm_up_of(plan.stream_of(job)) == stream]
        create(js, stream)
        fill(js, stream, max(warm_up_count(plan.count(job)) for job in jobs), plan.size)


def create(js: sync.JetStream, stream: str) -> None:
    """A stream of one subject, or one that is a key-value bucket."""
    subject = subject_of(stream)
    if stream.startswith(BUCKET):
        js.create_stream(stream, subjects=[f"{subject}.>"], max_msgs_per_subject=1, allow_atomic=True,
                         allow_batched=True, allow_direct=True)  # fmt: skip
    else:
        js.create_stream(stream, subjects=[subject], allow_atomic=True, allow_batched=True, allow_direct=True)


def fill(js: sync.JetStream, stream: str, count: int, size: int, *, mixed: bool = False, headers: bool = False) -> None:
    subject, keys = subject_of(stream), stream.startswith(BUCKET)
    traces = cycle([{TRACE: trace} for trace in TRACES] if headers else [None])
    if count:
        with js.fast_publisher() as batch:
            batch.publish_many(
                (f"{subject}.{key_of(number)}" if keys else subject, bytes(size_of(number, size, mixed)), next(traces))
                for number in range(count)
            )
            batch.commit()


def size_of(number: int, size: int, mixed: bool) -> int:
    """Bytes in the message of that number. Of mixed ones two in a row have twice ``size`` together."""
    away = number // 2 % (size // 2 + 1) if mixed else 0
    return size - away if number % 2 else size + away


def measure(url: str, js: sync.JetStream, job: str, client: str, plan: Plan) -> Sample:
    """One run, checked."""
    reads, count, size = JOBS[job].reads, plan.count(job), plan.bytes_of(job)
    stream = plan.stream_of(job)
    if not reads:
        create(js, stream)
    sample = run_worker(job, client, url, stream, count, size)
    if reads:
        if (sample.received, sample.received_bytes) != (count, count * size):
            raise BenchError(f"{client} at {job}: {sample.received} of {count} messages were read")
    else:
        state = js.stream_info(stream).state
        js.delete_stream(stream)
        if state.messages != count:
            raise BenchError(f"{client} at {job}: {state.messages} of {count} messages are stored")
    return sample


def run_worker(job: str, client: str, url: str, stream: str, count: int, size: int) -> Sample:
    command = [sys.executable, "-m", "tests.bench.worker", job, client, url, stream, str(count), str(size)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RUN_WITHIN, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{client} at {job} took more than {RUN_WITHIN:g} s") from None
    if done.returncode:
        raise BenchError(f"{client} at {job} failed:\n{done.stderr}")
    return Sample(**json.loads(done.stdout))


def core_rows(count: int, size: int, repeats: int) -> list[ResultRow]:
    """The core alone, in this process, jobs interleaved."""
    samples: dict[str, list[Sample]] = {name: [] for name in CORE}
    for _ in range(repeats):
        for name, prepare in CORE.items():
            job = prepare(count, size)
            started, cpu = time.perf_counter(), cpu_seconds()
            job()
            samples[name].append(Sample(cpu_seconds() - cpu, time.perf_counter() - started, count, count * size))
    return [row(name, CORE_CLIENTS.get(name, "jsproto-core"), size, count, taken) for name, taken in samples.items()]
