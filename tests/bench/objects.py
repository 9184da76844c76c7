"""Objects beside nats-py: rates, client CPU and memory of putting and getting one, ``python -m tests.bench.objects``.

Each run is a process of its own, which puts one object of ``--size`` MiB from a file, or gets it. "get" drops the
content. Clients take turns, so that all see the same machine. CPU is that of the process. Memory is the peak above what
the process had before the verb. The digest is measured alone, because every client computes it.

Not here: the other jobs (``tests.bench``), the server's CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, Final

from jsproto_io.nats_server import NatsServer

CLIENTS: Final = ("jsproto", "jsproto async", "nats-py")
VERBS: Final = ("put", "get", "get to a file")
MB: Final = 1_000_000


class Nowhere:
    """A file that drops what is written."""

    def write(self, data: bytes) -> int:
        """Drop it."""
        return len(data)


def measured(work: Callable[[], None]) -> dict[str, float]:
    """Seconds, CPU seconds, and bytes of memory that ``work`` takes."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    usage, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    return {"seconds": took, "cpu": cpu, "memory": max(resident("VmHWM") - before, 0)}


def resident(name: str) -> int:
    """Bytes, of a line in ``/proc/self/status``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def by_jsproto(url: str, verb: str, path: str, chunk: int) -> dict[str, float]:
    """On threads."""
    from jsproto_io.sync import connect

    with connect(url) as nc:
        store = nc.jetstream().object_store("BENCH")
        if verb == "put":
            return measured(lambda: _done(store.put_file("x", path, chunk_size=chunk)))
        if verb == "get to a file":
            return measured(lambda: _done(store.get_file("x", f"{path}.copy")))
        with store.open("x") as reader:
            return measured(lambda: _done(deque(reader, 0)))


def _done(_: object) -> None:
    """A result that nobody wants."""


async def by_jsproto_async(url: str, verb: str, path: str, chunk: int) -> dict[str, float]:
    """On asyncio."""
    from jsproto_io.asyncio import connect

    async with connect(url) as nc:
        store = await nc.jetstream().object_store("BENCH")

        async def work() -> None:
            if verb == "put":
                await store.put_file("x", path, chunk_size=chunk)
            elif verb == "get to a file":
                await store.get_file("x", f"{path}.copy")
            else:
                async with await store.open("x") as reader:
                    async for _ in reader:
                        pass

        return await measured_async(work)


async def by_nats_py(url: str, verb: str, path: str, chunk: int) -> dict[str, float]:
    """As it is used where memory matters: from a file, and ``writeinto`` one."""
    import nats
    from nats.js.api import ObjectMeta, ObjectMetaOptions

    nc = await nats.connect(url)
    store: Any = await nc.jetstream().object_store("BENCH")
    meta = ObjectMeta(name="x", options=ObjectMetaOptions(max_chunk_size=chunk))

    async def work() -> None:
        if verb == "get":
            await store.get("x", writeinto=Nowhere())
            return
        with open(path if verb == "put" else f"{path}.copy", "rb" if verb == "put" else "wb") as file:
            await (store.put("x", file, meta) if verb == "put" else store.get("x", writeinto=file))

    found = await measured_async(work)
    await nc.close()
    return found


async def measured_async(work: Callable[[], Any]) -> dict[str, float]:
    """``measured`` in a loop."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    usage, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    await work()
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    return {"seconds": took, "cpu": cpu, "memory": max(resident("VmHWM") - before, 0)}


def worker(client: str, url: str, verb: str, path: str, chunk: int) -> dict[str, float]:
    """One run."""
    if client == "jsproto":
        return by_jsproto(url, verb, path, chunk)
    return asyncio.run((by_jsproto_async if client == "jsproto async" else by_nats_py)(url, verb, path, chunk))


def digest_cpu(path: str, chunk: int) -> float:
    """CPU seconds of the digest alone, by chunks."""
    digest, used = sha256(), 0.0
    with open(path, "rb") as file:
        while piece := file.read(chunk):
            began = time.process_time()
            digest.update(piece)
            used += time.process_time() - began
    return used


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=128, help="MiB of the object")
    parser.add_argument("--chunks", type=int, nargs="+", default=[128, 1024], help="KiB of a chunk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--storage", nargs="+", default=["file", "memory"])
    parser.add_argument("--worker", nargs=5)
    options = parser.parse_args()
    if options.worker:
        client, url, verb, path, chunk = options.worker
        print(json.dumps(worker(client, url, verb, path, int(chunk))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "object")
        with open(path, "wb") as file:
            for _ in range(options.size):
                file.write(os.urandom(1024 * 1024))
        for storage in options.storage:
            for size in options.chunks:
                compare(path, storage, min(size * 1024, 1024 * 1024 - 1024), options.rounds)


def compare(path: str, storage: str, chunk: int, rounds: int) -> None:
    """One table."""
    from jsproto_io.sync import connect

    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    with NatsServer() as server:
        with connect(server.url) as nc:
            nc.jetstream().create_object_store("BENCH", storage=storage)  # type: ignore[arg-type]
        for _ in range(rounds):
            for verb in VERBS:
                for client in CLIENTS:
                    arguments = [client, server.url, verb, path, str(chunk)]
                    command = [sys.executable, "-m", "tests.bench.objects", "--worker", *arguments]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    found.setdefault((verb, client), []).append(json.loads(done.stdout))
    size, digest = os.path.getsize(path), median(digest_cpu(path, chunk) for _ in range(rounds))
    print(f"\n{storage} storage, {size / MB:.0f} MB in chunks of {chunk} bytes; the digest takes {digest:.3f} s of CPU")
    for verb in VERBS:
        theirs = median(run["cpu"] for run in found[verb, "nats-py"]) - digest
        for client in CLIENTS:
            runs = found[verb, client]
            cpu = median(run["cpu"] for run in runs) - digest
            rate = median(size / run["seconds"] for run in runs) / MB
            memory = max(run["memory"] for run in runs) / MB
            print(
                f"  {verb:13} {client:14} {rate:6.0f} MB/s  CPU beyond the digest {cpu:6.3f} s ({cpu / theirs:4.2f} of"
                f" nats-py)  extra memory {memory:5.1f} MB"
            )


if __name__ == "__main__":
    main()
