"""Put objects into a real server while it is killed, or while links are cut and it lives on. Then judge the buckets.

    python -m tests.integration.soak_objects [--puts N] [--size BYTES] [--seed N] [--kinds KIND ...]

Each put meets one to three faults, at random moments from its begin to its end. Each kind of fault has an equal part of
the puts, and a server of its own:

``kill``  the server is killed (SIGKILL) and started again
``stop``  the server is stopped in order, and started again (not by default)
``cut``   the client leaves its link for a new one. The server goes on to store what the old one has brought.

Half of each go by fast ingest, the others with an acknowledgement for each chunk. A few names are put again and again,
so that each put replaces an object.

The verdict: each put ends well. Each object has the bytes that were put last, its digest and its number of chunks. The
bucket has no other chunks, and ``gc(older_than=0)`` finds nothing. One thing is not ours: a server that is killed may
bring back messages that it had purged, and had said so (2.15.1, file storage). So after ``kill`` chunks of objects that
were replaced may be there again. They are counted, and ``gc`` has to remove them.

The exit status is 0 when that holds, else 1. 200 puts of 4 MB take two minutes. The same ``--seed`` makes the same
choices, not at the same moments.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Final

from jsproto.errors import Error
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream, ObjectStore, connect

CHUNK: Final = 64 * 1024
NAMES: Final = 5  # objects of a bucket
KINDS: Final = ("kill", "stop", "cut")


@dataclass
class Outcome:
    """What a run saw. ``violations`` is empty when all is well."""

    puts: Counter[str] = field(default_factory=Counter)  # by kind of fault
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    brought_back: int = 0  # chunks that were purged, and were there again after a kill
    seconds: float = 0.0


class Faults:
    """The faults of one put. Each begins in a thread of its own, when so many bytes were given."""

    def __init__(self, places: list[int], fault: Callable[[], None], delay: Callable[[], float]) -> None:
        self._places = sorted(places)
        self._fault = fault
        self._delay = delay
        self._threads: list[Thread] = []

    def given(self, size: int) -> None:
        """So many bytes were given. Those that are due begin, a moment later."""
        while self._places and self._places[0] <= size:
            self._places.pop(0)
            thread = Thread(target=self._begin, args=(self._delay(),))
            self._threads.append(thread)
            thread.start()

    def join(self) -> int:
        """Wait for their end. Returns how many there were."""
        for thread in self._threads:
            thread.join()
        return len(self._threads)

    def _begin(self, delay: float) -> None:
        sleep(delay)
        self._fault()


def soak(puts: int, size: int, seed: int, kinds: Sequence[str] = ("kill", "cut")) -> Outcome:
    """Put so many objects of about ``size`` bytes."""
    choose, outcome, began = random.Random(seed), Outcome(), monotonic()
    for kind in kinds:
        soak_kind(kind, puts // len(kinds), size, choose, outcome)
    outcome.seconds = monotonic() - began
    return outcome


def soak_kind(kind: str, puts: int, size: int, choose: random.Random, outcome: Outcome) -> None:
    """The puts that meet one kind of fault."""
    with NatsServer() as server, connect(server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        stores = [js.create_object_store(name, batched=name == "FAST") for name in ("FAST", "ACKED")]
        expected: list[dict[str, bytes]] = [{}, {}]
        nuids: set[str] = set()
        for number in range(puts):
            store = stores[number % 2]
            name, data = f"object {choose.randrange(NAMES)}", choose.randbytes(size // 2 + choose.randrange(size))
            places = [choose.randrange(len(data) + CHUNK) for _ in range(choose.randint(1, 3))]
            faults = Faults(places, fault_of(kind, server, nc), lambda: choose.random() * 0.05)
            nuids.add(put_one(store, name, data, faults, outcome))
            outcome.faults[kind] += faults.join()
            outcome.puts[kind] += 1
            expected[number % 2][name] = data
        for store, objects in zip(stores, expected, strict=True):
            judge(js, store, objects, nuids if kind == "kill" else set(), outcome)


def fault_of(kind: str, server: NatsServer, nc: Connection) -> Callable[[], None]:
    """What makes a fault. Of the one kind, one at a time."""
    one = Lock()

    def restart() -> None:
        with one:
            if kind == "kill":
                server.kill()
            server.restart()

    return nc.force_reconnect if kind == "cut" else restart


def put_one(store: ObjectStore, name: str, data: bytes, faults: Faults, outcome: Outcome) -> str:
    """Put an object, and get it. Returns the name of the put, empty if it failed."""

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(data), CHUNK):
            faults.given(at)
            yield data[at : at + CHUNK]
        faults.given(len(data) + CHUNK)

    try:
        info = store.put(name, pieces(), chunk_size=CHUNK)
        faults.join()
        if store.get(name, level="leader") != data or info.chunks != -(-len(data) // CHUNK):
            outcome.violations.append(f"{store.name}/{name} is another object")
        return info.nuid
    except Error as error:
        faults.join()
        outcome.violations.append(f"{store.name}/{name}: {type(error).__name__}: {error}")
        return ""


def judge(js: JetStream, store: ObjectStore, expected: dict[str, bytes], gone: set[str], outcome: Outcome) -> None:
    """What the bucket has at the end. ``gone``: puts whose chunks may be there again."""
    found = {info.name: info for info in store.list()}
    if found.keys() != expected.keys():
        outcome.violations.append(f"{store.name} has {sorted(found)}")
    for name, data in expected.items():
        if store.get(name) != data:
            outcome.violations.append(f"{store.name}/{name} is another object at the end")
    prefix = f"$O.{store.name}.C."
    stored = {subject.removeprefix(prefix): n for subject, n in js.stream_subjects(store.stream, f"{prefix}>").items()}
    wanted = {info.nuid: info.chunks for info in found.values()}
    garbage = {nuid: chunks for nuid, chunks in stored.items() if nuid not in wanted}
    back = sum(chunks for nuid, chunks in garbage.items() if nuid in gone)
    outcome.brought_back += back
    if {nuid: chunks for nuid, chunks in stored.items() if nuid in wanted} != wanted:
        outcome.violations.append(f"{store.name} has {stored} chunks, where its objects have {wanted}")
    removed = store.gc(older_than=0)
    if removed != back or removed != sum(garbage.values()):
        outcome.violations.append(f"{store.name} had chunks without an object: {garbage}, and {removed} were removed")
    if store.gc(older_than=0):
        outcome.violations.append(f"{store.name} had chunks without an object after they were removed")


def main() -> int:
    """Run it, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--puts", type=int, default=200)
    parser.add_argument("--size", type=int, default=4_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["kill", "cut"])
    options = parser.parse_args()
    outcome = soak(options.puts, options.size, options.seed, options.kinds)
    print(f"puts {dict(outcome.puts)}, faults {dict(outcome.faults)}, in {outcome.seconds:.0f} s")
    print(f"{outcome.brought_back} purged chunks were brought back by servers that were killed, and removed by gc")
    print("\n".join(outcome.violations) or "each object is whole, and nothing is left besides")
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
