"""Prints a digest of several simulations and of the orders that tasks saw: ``python -m tests.simulation.digests JUNK``.

JUNK is a seed for what is on the heap before: addresses differ then, and with them everything that goes by them.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
import time
import uuid
from hashlib import sha256

from jsproto_io.testing.simulation import simulate
from jsproto_io.testing.simulation.search import plan
from tests.simulation import scenes


async def orders() -> list[object]:
    """The order in which tasks of sets run and are cancelled, entropy, and the clocks."""
    seen: list[object] = []

    async def one(number: int) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append(number)
            raise

    tasks = {asyncio.create_task(one(number)) for number in range(20)}
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(one(100 + number))
            await asyncio.sleep(0)
            raise LookupError
    except* LookupError:
        pass
    seen += [random.random(), uuid.uuid4().hex, secrets.token_hex(8), time.time(), time.monotonic()]
    return seen


def main() -> None:
    """Print one digest of everything."""
    noise = random.Random(int(sys.argv[1]))
    junk = [bytearray(noise.randrange(5000)) for _ in range(noise.randrange(20_000))]
    for _ in range(len(junk) // 2):
        junk.pop(noise.randrange(len(junk)))
    found = sha256()
    for seed in range(3):
        found.update(repr(simulate(orders, seed=seed, faults=[]).result).encode())
    faults = plan(scenes.main, hosts=scenes.right)
    for seed in range(10):
        report = simulate(scenes.main, seed=seed, faults=faults, hosts=scenes.right, check=scenes.check_progress)
        found.update(f"{report.digest} {report.error!r} {report.now!r} {report.turns}".encode())
        found.update("\n".join(map(str, report.log)).encode())
    print(found.hexdigest())


if __name__ == "__main__":
    main()
