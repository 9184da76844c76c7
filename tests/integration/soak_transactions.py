"""Many clients change a few hot keys of one bucket in transactions, then their history is judged exactly.

``python -m tests.integration.soak_transactions`` runs 8 clients of 10,000 serializable transactions each, on one server
with storage in memory. Each transaction reads 3 of 10 keys and writes 1 or 2 of them, in ``bucket.transact()``.

With ``--kills N`` the bucket has three replicas on three servers, and the server that leads it is killed (SIGKILL) N
times and started again.

The verdict:

* The history has no cycle (``tests.serializability``): it could have come from running one after the other.
* No revision was written twice, and none was read that nobody wrote.
* The bucket's last revision is what the acknowledged transactions add up to, and those unknown ones that are stored.
* The last revision of each key is the last one that the history has. So nothing that was acknowledged is lost.

A transaction of unknown outcome counts as stored when somebody has read what it wrote, or it is there at the end.
``--isolation snapshot`` checks the written keys alone, and must show cycles: that is what the judge is worth.

The exit status is 0 when all of that holds. It ends only the servers that it has started.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic, process_time, sleep
from typing import Any, Final

from jsproto.client.bucket.transaction import Isolation
from jsproto.errors import (
    BatchError,
    Error,
    NoRespondersError,
    TransactionConflictError,
    TransactionUnknownError,
)
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Bucket, Transaction, connect
from tests import servers
from tests.integration.cluster import Cluster
from tests.serializability import Done, cycles, violations

KEYS: Final = tuple(f"key.{number}" for number in range(10))
TRIES: Final = 1_000
SOON: Final = 0.2  # seconds until the next try where nobody leads
BETWEEN: Final = (8.0, 12.0)  # seconds between two kills: an election and a catch-up take that
READY_WITHIN: Final = 60.0  # seconds


@dataclass
class Client:
    """One client, its part of the history, and what became of its tries."""

    name: str
    random: random.Random
    done: list[Done] = field(default_factory=list)
    unknown: dict[str, tuple[dict[str, int], list[str]]] = field(default_factory=dict)  # reads, and keys in their order
    tries: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    seen: dict[tuple[str, int], str] = field(default_factory=dict)  # who wrote the value of a revision, as it was read

    def run(self, bucket: Bucket, count: int, isolation: Isolation) -> None:
        """So many transactions that are stored."""
        number = 0
        while len(self.done) < count:
            number += 1
            self.transact(bucket, f"{self.name}.{number}", isolation)

    def transact(self, bucket: Bucket, name: str, isolation: Isolation) -> None:
        """One transaction."""
        read = self.random.sample(KEYS, 3)
        written = read[: self.random.choice((1, 2))]
        kept: list[tuple[Transaction, dict[str, int]]] = []

        def change(tx: Transaction) -> None:
            found = tx.get_many(read)
            kept.append((tx, {key: found[key].revision if key in found else 0 for key in read}))
            for key, entry in found.items():
                self.seen[key, entry.revision] = entry.value.decode()
            for key in written:
                tx.put(key, name.encode())

        try:
            bucket.transact(change, isolation=isolation, tries=TRIES)
        except TransactionUnknownError as error:
            self.errors[f"unknown, applied: {error.applied}"] += 1
            self.unknown[name] = kept[-1][1], written
        except (Error, TransactionConflictError) as error:  # nothing is stored
            self.errors[type(error).__name__] += 1
            if not isinstance(error, NoRespondersError | BatchError | TimeoutError | ConnectionError):
                raise
            sleep(SOON)
        else:
            tx, reads = kept[-1]
            self.done.append(Done(name, reads, tx.revisions))
            self.tries[len(kept)] += 1


def resolve(clients: Sequence[Client], last: dict[str, tuple[int, str]]) -> list[Done]:
    """The transactions of unknown outcome that are stored: somebody has read what they wrote, or it is there still.

    ``last``: the last revision of each key, and who wrote it.
    """
    places: dict[str, tuple[str, int]] = {}
    for seen in [*(client.seen for client in clients), {(key, at): name for key, (at, name) in last.items()}]:
        for (key, revision), name in seen.items():
            places[name] = key, revision
    found: list[Done] = []
    for client in clients:
        for name, (reads, written) in client.unknown.items():
            if name in places:
                key, revision = places[name]
                first = revision - written.index(key)
                found.append(Done(name, reads, {each: first + place for place, each in enumerate(written)}))
    return found


def judge(
    clients: Sequence[Client], before: dict[str, int], last: dict[str, tuple[int, str]], last_revision: int, guards: int
) -> tuple[list[str], list[Done]]:
    """What is wrong. ``guards``: markers for each transaction and key that it has only read."""
    stored = [done for client in clients for done in client.done]
    resolved = resolve(clients, last)
    history = [*stored, *resolved]
    wrong = violations(history, before)
    sizes = {name: _size(reads, written, guards) for each in clients for name, (reads, written) in each.unknown.items()}
    least = max(before.values()) + sum(_size(done.reads, done.writes, guards) for done in stored)
    least += sum(sizes[done.name] for done in resolved)
    most = least + sum(size for name, size in sizes.items() if name not in {done.name for done in resolved})
    if not least <= last_revision <= most:
        wrong.append(f"the last revision is {last_revision}, and {least} to {most} were stored")
    for key in KEYS:
        newest = max([before[key], *(done.writes[key] for done in history if key in done.writes)])
        if last[key][0] < newest or (last[key][0] > newest and last_revision == least):
            wrong.append(f"the last revision of {key} is {last[key][0]}, and {newest} was acknowledged")
    return wrong, resolved


def _size(reads: Any, written: Any, guards: int) -> int:
    """The messages of a transaction."""
    return len(written) + guards * len(set(reads) - set(written))


class Saboteur(Thread):
    """Kills the server that leads the bucket, again and again, until there is nobody left to disturb."""

    def __init__(self, cluster: Cluster, stream: str, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.killed = 0
        self.over = Event()
        self._cluster = cluster
        self._stream = stream
        self._kills = kills
        self._random = random.Random(seed)

    def run(self) -> None:
        while self.killed < self._kills and not self.over.wait(self._random.uniform(*BETWEEN)):
            leader = self._leader()
            if leader is not None:
                leader.kill()
                self.killed += 1
                sleep(self._random.uniform(0, 2))
                leader.start()

    def _leader(self) -> NatsServer | None:
        """The server that leads the stream while all of its replicas are there and up to date."""
        with suppress(Error), connect(self._cluster.urls, max_reconnect_attempts=0) as nc:
            state = nc.jetstream(timeout=1).stream_info(self._stream).cluster or {}
            replicas = state.get("replicas", [])
            if all(each.get("current") and not each.get("offline") for each in replicas) and state.get("leader"):
                return self._cluster.node(state["leader"])
        return None


def run(options: argparse.Namespace) -> int:
    """Run it and say what was seen. Returns the exit status."""
    with ExitStack() as stack:
        cluster: Cluster | None = None
        if options.kills:
            cluster = stack.enter_context(Cluster())
            urls = cluster.urls
        else:
            urls = [stack.enter_context(NatsServer(config=servers.config())).url]
        clients = [Client(f"c{number}", random.Random(options.seed + number)) for number in range(options.clients)]
        links = [
            stack.enter_context(connect(urls, reconnect_time_wait=0.1, max_reconnect_attempts=-1))
            for _ in range(len(clients) + 1)
        ]
        js = links[-1].jetstream()
        js.create_bucket(
            "T", replicas=3 if cluster else 1, storage=options.storage or ("file" if cluster else "memory")
        )
        before = {key: js.bucket("T").put(key, b"") for key in KEYS}
        failed: list[BaseException] = []

        def work(client: Client, link: Any) -> None:
            try:
                client.run(link.jetstream().bucket("T"), options.transactions, options.isolation)
            except BaseException as error:
                failed.append(error)
                raise

        saboteur = None if cluster is None else Saboteur(cluster, "KV_T", options.kills, options.seed)
        began, cpu = monotonic(), process_time()
        threads = [Thread(target=work, args=pair, daemon=True) for pair in zip(clients, links, strict=False)]
        for thread in threads:
            thread.start()
        if saboteur is not None:
            saboteur.start()
        for thread in threads:
            thread.join()
        seconds, cpu = monotonic() - began, process_time() - cpu
        if saboteur is not None:
            saboteur.over.set()
            saboteur.join()
        if cluster is not None:
            cluster.heal()
        last, last_revision = _end_of(js)
    if failed:
        raise failed[0]
    guards = 1 if options.isolation == "serializable" else 0
    wrong, resolved = judge(clients, before, last, last_revision, guards)
    count = sum(len(client.done) for client in clients)
    tries = sum((client.tries for client in clients), Counter[int]())
    errors = sum((client.errors for client in clients), Counter[str]())
    total = sum(number * times for number, times in tries.items())
    found = cycles([done for client in clients for done in client.done] + resolved)
    print(
        f"{count} transactions of {len(clients)} clients in {seconds:.0f} s: {count / seconds:.0f} a second, "
        f"{1000 * cpu / count:.2f} ms of CPU each\n"
        f"tries: {total}, {1 - count / total:.0%} of them conflicts, {max(tries)} at most\n"
        f"kills: {0 if saboteur is None else saboteur.killed}; unknown outcomes: "
        f"{sum(len(client.unknown) for client in clients)}, {len(resolved)} of them stored; errors: {dict(errors)}\n"
        f"cycles: {len(found)}, of {sum(map(len, found))} transactions\n"
        f"last revision: {last_revision}",
        flush=True,
    )
    for text in wrong[:20]:
        print(f"VIOLATION {text}")
    print("passed" if not wrong else "failed")
    return 1 if wrong else 0


def _end_of(js: Any) -> tuple[dict[str, tuple[int, str]], int]:
    """The last revision of each key with its value, and the bucket's last revision, from its leader."""
    until = monotonic() + READY_WITHIN
    while True:
        try:
            bucket = js.bucket("T")
            entries = [bucket.get(key, level="leader") for key in KEYS]
            return {each.key: (each.revision, each.value.decode()) for each in entries}, bucket.status().last_revision
        except Error:
            if monotonic() > until:
                raise
            sleep(SOON)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.soak_transactions")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--transactions", type=int, default=10_000, help="of each client")
    parser.add_argument("--kills", type=int, default=0, help="of the leader, in a cluster of three")
    parser.add_argument("--isolation", choices=("snapshot", "serializable"), default="serializable")
    parser.add_argument(
        "--storage", choices=("memory", "file"), help="memory on one server, file on three, if not given"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
