"""Prints digests of several simulations and of the orders that tasks saw.

``python -m tests.simulation.digests JUNK CLIENTS...``: JUNK is a seed for what is on the heap before. Addresses differ
then, and with them everything that goes by them. CLIENTS are as in ``simulate``, with a line for each.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
import time
import uuid
from functools import partial
from hashlib import sha256
from typing import Any

from jsproto_io.testing.simulation import simulate
from jsproto_io.testing.simulation.search import plan
from tests.effort import examples
from tests.simulation import scenes, shop_blocking
from tests.simulation.both import report_of


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


def blocking_orders() -> list[object]:
    """The entropy and the clocks of a blocking program."""
    time.sleep(1)
    return [random.random(), uuid.uuid4().hex, secrets.token_hex(8), time.time(), time.monotonic()]


def programs(clients: str) -> tuple[Any, Any, dict[str, Any]]:
    """What shows orders, the shop, and the options of its simulation. trio may not be installed."""
    if clients == "trio":
        from tests.simulation import orders_trio, shop_trio

        hosts = {name: partial(shop_trio.worker, acks_first=False) for name in ("one", "two")}
        return orders_trio.orders, shop_trio.shop, {"hosts": hosts, "check": shop_trio.check_progress}
    if clients == "blocking":
        return blocking_orders, partial(shop_blocking.shop, acks_first=False), {"check": shop_blocking.check_progress}
    return orders, scenes.main, {"hosts": scenes.right, "check": scenes.check_progress}


def digest(clients: Any) -> str:
    """One digest of everything."""
    order, program, options = programs(clients)
    found = sha256()
    for seed in range(3):
        found.update(repr(simulate(order, clients=clients, seed=seed, faults=[]).result).encode())
    faults = plan(program, clients=clients, hosts=options.get("hosts"))
    for seed in range(examples(10)):
        report = report_of(program, clients=clients, seed=seed, faults=faults, **options)
        found.update(f"{report.digest} {report.error!r} {report.now!r} {report.turns}".encode())
        found.update("\n".join(map(str, report.log)).encode())
    return found.hexdigest()


def main() -> None:
    """Print a digest for each kind of clients."""
    noise = random.Random(int(sys.argv[1]))
    junk = [bytearray(noise.randrange(5000)) for _ in range(noise.randrange(20_000))]
    for _ in range(len(junk) // 2):
        junk.pop(noise.randrange(len(junk)))
    for clients in sys.argv[2:]:
        print(clients, digest(clients))


if __name__ == "__main__":
    main()
