"""Watch a bucket of a real server while it is killed, then judge what the watchers have.

    python -m tests.integration.soak_watch [--kills N] [--keys N] [--writes N] [--seed N]

Each round the server is killed (SIGKILL) and started again. The watchers come through a relay, which stays closed while
keys are written and deleted, their markers are removed (``purge_deletes``), and other keys are removed without one.
Then the relay opens. Half of the rounds wait until the watchers agree with the bucket, and the others go on at once.

The watchers have a connection each. One watches as it comes, one with history, one headers alone, and one is slower
than the writer.

A killed server may bring back what was purged before: older revisions of a key, which nobody delivers again. Such keys
are counted, and left out.

The verdict: each watcher has the keys of the bucket with their revisions, and has seen each revision once and in order.
The exit status is 0 when that holds, else 1. 20 kills take about half a minute. The same ``--seed`` makes the same
choices. It ends only the processes that it has started.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic, sleep
from typing import Any, Final

from jsproto.errors import ConnectionClosedError, Error
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Bucket, JetStream, connect
from tests.integration.relay import Relay

BUCKET: Final = "WATCHED"
PATIENCE: Final = 30.0  # seconds until a watcher must agree
POLL: Final = 0.02  # seconds
HEARTBEAT: Final = 0.5  # seconds
KINDS: Final[dict[str, dict[str, Any]]] = {
    "plain": {}, "history": {"history": True}, "headers": {"meta_only": True}, "slow": {},
}  # fmt: skip
SLOWNESS: Final = 0.001  # seconds for an entry
RECONNECT: Final[dict[str, Any]] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.05}


@dataclass
class Outcome:
    """What a run saw. ``violations`` is empty when all is well."""

    entries: int = 0
    gone: int = 0  # entries of keys that went unseen
    removed: dict[str, int] = field(default_factory=dict)  # keys that were purged: up to which revision
    came_back: set[tuple[str, int]] = field(default_factory=set)  # what a killed server had again
    violations: list[str] = field(default_factory=list)


class Watcher:
    """What one watcher has. Attributes: ``keys`` (revisions), ``violations``, ``entries`` and ``gone`` (counted)."""

    def __init__(self, kind: str, url: str, stack: ExitStack) -> None:
        self.kind = kind
        self.keys: dict[str, int] = {}
        self.violations: list[str] = []
        self.entries = self.gone = 0
        self._last = 0
        nc = stack.enter_context(connect(url, **RECONNECT))
        bucket = nc.jetstream().bucket(BUCKET)
        self._watcher = bucket.watch(track_keys=True, heartbeat=HEARTBEAT, **KINDS[kind])
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()
        stack.callback(self._thread.join, PATIENCE)
        stack.callback(self._watcher.stop)

    def _watch(self) -> None:
        try:
            for entry in self._watcher:
                if entry is None:
                    continue
                self.entries += 1
                self.gone += not entry.revision
                if entry.revision and entry.revision <= self._last:
                    self.violations.append(f"{self.kind}: revision {entry.revision} after {self._last}")
                self._last = max(self._last, entry.revision)
                if entry.is_marker:
                    self.keys.pop(entry.key, None)
                else:
                    self.keys[entry.key] = entry.revision
                if self.kind == "slow":
                    sleep(SLOWNESS)
        except ConnectionClosedError:
            pass
        except Error as error:
            self.violations.append(f"{self.kind}: it ended with {error!r}")

    def agrees(self, bucket: Bucket, outcome: Outcome) -> str:
        """What it lacks or has too much, once it had time. Empty when it agrees."""
        until = monotonic() + PATIENCE
        while True:
            found = {(key, entry.revision) for key, entry in _insist(bucket.snapshot).items()}
            came_back = {each for each in found if each[1] <= outcome.removed.get(each[0], 0)}
            outcome.came_back |= came_back
            there = dict(found - came_back)
            here = {key: seq for key, seq in self.keys.copy().items() if key not in dict(came_back)}
            if here == there:
                return ""
            if monotonic() > until:
                missing, extra = sorted(there.keys() - here.keys()), sorted(here.keys() - there.keys())
                other = sorted(key for key in here.keys() & there.keys() if here[key] != there[key])
                return (
                    f"{self.kind}: it lacks {missing[:5]}, has {extra[:5]} beyond, and another revision of {other[:5]}"
                )
            sleep(POLL)


def _insist(verb: Any, *arguments: Any, **options: Any) -> Any:
    """The verb's answer, though the server is down for a while."""
    until = monotonic() + PATIENCE
    while True:
        try:
            return verb(*arguments, **options)
        except Error:
            if monotonic() > until:
                raise
            sleep(POLL)


def run(kills: int, keys: int, writes: int, seed: int) -> Outcome:
    """Kill the server so often, with so many writes in each round."""
    chance, outcome = random.Random(seed), Outcome()

    def write(bucket: Bucket, count: int) -> None:
        for number in range(count):
            key = f"k.{chance.randrange(keys)}"
            what = chance.choice(("put", "put", "put", "delete", "purge"))
            _insist(getattr(bucket, what), key, *([b"%d" % number] if what == "put" else []))

    with ExitStack() as stack:
        server = stack.enter_context(NatsServer())
        relay = stack.enter_context(Relay(server.port))
        nc = stack.enter_context(connect(server.url, timeout=1.0, **RECONNECT))
        js = nc.jetstream()
        bucket = js.create_bucket(BUCKET, history=3)
        write(bucket, writes)
        watchers = [Watcher(kind, relay.url, stack) for kind in KINDS]
        for _ in range(kills):
            write(bucket, writes)
            relay.is_open = False
            relay.cut()
            server.kill()
            server.start()
            write(bucket, writes)
            _remove(js, bucket, chance, outcome)
            write(bucket, writes // 4)
            relay.is_open = True
            if chance.random() < 0.5:
                _judge(watchers, bucket, outcome)
            if outcome.violations:  # it would be found again and again
                break
        else:
            _judge(watchers, bucket, outcome)
    for watcher in watchers:
        outcome.violations += watcher.violations
        outcome.entries += watcher.entries
        outcome.gone += watcher.gone
    return outcome


def _remove(js: JetStream, bucket: Bucket, chance: random.Random, outcome: Outcome) -> None:
    """Remove all markers, and a few keys without one."""
    shot = _insist(bucket.snapshot)
    _insist(bucket.purge_deletes, older_than=0)
    outcome.removed |= shot.markers
    for key in chance.sample(sorted(shot), min(3, len(shot))):
        _insist(js.purge_stream, bucket.stream, subject=f"$KV.{BUCKET}.{key}")
        outcome.removed[key] = shot[key].revision


def _judge(watchers: Sequence[Watcher], bucket: Bucket, outcome: Outcome) -> None:
    outcome.violations += [found for watcher in watchers if (found := watcher.agrees(bucket, outcome))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.soak_watch")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--writes", type=int, default=300, help="before each kill, and after it")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    begun = monotonic()
    outcome = run(options.kills, options.keys, options.writes, seed)
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    print(
        f"{options.kills} kills, {outcome.entries:,} entries, {outcome.gone:,} of keys that went unseen,"
        f" {len(outcome.came_back)} revisions came back; {monotonic() - begun:.0f} s"
    )
    print("FAILED" if outcome.violations else "each watcher has the keys of the bucket: passed")
    return bool(outcome.violations)


if __name__ == "__main__":
    sys.exit(main())
