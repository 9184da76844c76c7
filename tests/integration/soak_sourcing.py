"""Copy a work queue from one real server to another while everything is being broken, then judge the copy.

    python -m tests.integration.soak_sourcing [--messages N] [--kills N] [--seed N] [--delivery fast|atomic]

The copier is the command ``jsproto mirror --follow`` in a process of its own. It reaches both servers by relays. While
messages are fed, one of these happens at a time:

``source``  the server of the queue is killed (SIGKILL) and started again
``target``  the same with the server of the copy
``copier``  the copier is killed, and another one is started
``link``    all links to one of the servers are reset
``second``  a second copier is started, which the first one keeps out

A copier that ends by itself is started again. At the end a quarter of the messages is copied undisturbed, for the rate.

The verdict: each message is in the target once, in order, and the queue is empty. The exit status is 0 when that holds,
else 1. 200,000 messages and 7 kills of each take about two minutes. The same ``--seed`` makes the same choices, not at
the same moments. It ends only the processes that it has started.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import IO, Final

from jsproto.errors import ConnectionLostError, Error
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream, connect
from tests.integration.relay import Relay

SOURCE: Final = "QUEUE"
TARGET: Final = "COPY"
CONSUMER: Final = "MOVE"
MARKER: Final = "copied"
PAYLOAD: Final = b"%0128d"
PATIENCE: Final = 120.0  # seconds for the rest of the messages
POLL: Final = 0.01  # seconds
KINDS: Final = ("source", "target", "copier", "link", "second")


@dataclass
class Outcome:
    """What a run saw. ``violations`` is empty when all is well. ``rate``: messages a second, undisturbed."""

    faults: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)  # copiers by how they ended
    said: Counter[str] = field(default_factory=Counter)  # why copiers ended
    violations: list[str] = field(default_factory=list)
    rate: float = 0.0


class Copier:
    """``jsproto mirror`` in a process, started again whenever it ends by itself."""

    def __init__(self, arguments: Sequence[str], log: IO[bytes], ended: Counter[str]) -> None:
        self._arguments = arguments
        self._log = log
        self._ended = ended
        self._over = Event()
        self.process = self._start()
        self._watcher = Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def kill(self) -> None:
        """Kill it (SIGKILL). Another one follows."""
        self.process.kill()

    def close(self) -> None:
        """End it for good."""
        self._over.set()
        self.process.terminate()
        self._watcher.join()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "jsproto_io.cli", "mirror", *self._arguments, "--follow"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def _watch(self) -> None:
        while True:
            code = self.process.wait()
            if self._over.is_set():
                return
            self._ended["killed" if code == -signal.SIGKILL else f"exit {code}"] += 1
            self.process = self._start()


def run(messages: int, kills: int, seed: int, delivery: str = "fast", tell: IO[str] | None = None) -> Outcome:
    """Copy ``messages`` while each of both servers and the copier is killed ``kills`` times."""
    choice, outcome = random.Random(seed), Outcome()
    with ExitStack() as stack:
        log = stack.enter_context(tempfile.NamedTemporaryFile())
        source, target = stack.enter_context(NatsServer()), stack.enter_context(NatsServer())
        to_source, to_target = stack.enter_context(Relay(source.port)), stack.enter_context(Relay(target.port))
        nc, other = stack.enter_context(_connected(source)), stack.enter_context(_connected(target))
        js, copies = nc.jetstream(timeout=PATIENCE), other.jetstream(timeout=PATIENCE)
        js.create_stream(SOURCE, subjects=["queue"], retention="workqueue", allow_batched=True)
        copies.create_stream(
            TARGET, subjects=["queue", MARKER], allow_batched=True, allow_atomic=True, allow_direct=True
        )
        arguments = [
            SOURCE, TARGET, "--consumer", CONSUMER, "--servers", to_source.url, "--to-servers", to_target.url,
            *(["--marker", MARKER] if delivery == "atomic" else []),
        ]  # fmt: skip
        copier = Copier(arguments, log, outcome.ended)
        stack.callback(copier.close)
        faults = [kind for kind in KINDS for _ in range(kills)]
        choice.shuffle(faults)
        disturbed, fed = messages - messages // 4, 0
        for number, kind in enumerate(faults, 1):
            lot = disturbed * number // len(faults) - fed
            _feed(js, fed, lot)
            fed += lot
            sleep(choice.uniform(0, 0.1))  # so that faults come at all moments of the copy
            if tell is not None:
                print(f"{number:3} {kind:7} of {len(faults)}, {fed:,} fed", file=tell, flush=True)
            outcome.faults[kind] += 1
            if kind in ("source", "target"):
                server = source if kind == "source" else target
                server.kill()
                server.start()
                _notice(nc if kind == "source" else other)
            elif kind == "copier":
                copier.kill()
            elif kind == "link":
                choice.choice((to_source, to_target)).cut()
            else:
                _second(arguments, log, outcome.ended)
        _await(copies, fed, delivery, outcome)
        if not outcome.violations:
            copier.close()
            _feed(js, fed, messages - fed)
            stack.callback(Copier(arguments, log, outcome.ended).close)
            outcome.rate = _await(copies, messages, delivery, outcome, since=fed)
        _judge(js, copies, messages, outcome)
        lines = Path(log.name).read_text(errors="replace").splitlines()
        outcome.said = Counter(line.partition(";")[0] for line in lines if line.startswith("jsproto: "))
    return outcome


@contextmanager
def _connected(server: NatsServer) -> Iterator[Connection]:
    with connect(server.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1, timeout=PATIENCE) as nc:
        yield nc


def _notice(nc: Connection) -> None:
    """Wait until the connection has seen that its server was killed, and has another link."""
    while True:
        try:
            nc.flush(timeout=PATIENCE)
        except ConnectionLostError:
            continue
        return


def _feed(js: JetStream, first: int, count: int) -> None:
    """Messages ``first`` to ``first + count - 1``. The server of the queue lives meanwhile."""
    with js.fast_publisher(ack_timeout=PATIENCE) as batch:
        batch.publish_many(("queue", PAYLOAD % n) for n in range(first, first + count))
        batch.commit()


def _second(arguments: Sequence[str], log: IO[bytes], ended: Counter[str]) -> None:
    """A second copier, which waits for a moment and gives up, or takes over where the first one was just killed."""
    command = [sys.executable, "-m", "jsproto_io.cli", "mirror", *arguments, "--wait", "1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=PATIENCE)
    ended[f"second: exit {done.returncode}"] += 1


def _await(copies: JetStream, count: int, delivery: str, outcome: Outcome, since: int | None = None) -> float:
    """Wait until so many are copied. Returns the rate from the first of them on, counted from ``since``."""
    until, begun, at_first = monotonic() + PATIENCE, None, 0
    while True:
        found = _copied(copies, delivery)
        if since is not None and begun is None and found > since:
            begun, at_first = monotonic(), found
        if found >= count:
            break
        if monotonic() > until:
            outcome.violations.append(f"{found:,} of {count:,} messages were copied, and no more came")
            return 0.0
        sleep(POLL)
    seconds = 0.0 if begun is None else monotonic() - begun
    return (count - at_first) / seconds if seconds else 0.0


def _copied(copies: JetStream, delivery: str) -> int:
    """How many copies there are."""
    state = copies.stream_info(TARGET).state
    if delivery == "fast":
        return state.messages
    try:
        return int(copies.get_last_msg(TARGET, "queue").data) + 1
    except Error:
        return 0


def _judge(js: JetStream, copies: JetStream, count: int, outcome: Outcome) -> None:
    numbers = [int(message.data) for message in copies.get_batch(TARGET, subject="queue")]
    missing, twice = set(range(count)).difference(numbers), [n for n, often in Counter(numbers).items() if often > 1]
    if missing:
        outcome.violations.append(f"{len(missing):,} are missing, such as {min(missing)}")
    if twice:
        outcome.violations.append(f"{len(twice):,} are there twice or more, such as {min(twice)}")
    if not missing and not twice and numbers != [*range(count)]:
        outcome.violations.append("they are out of order")
    until = monotonic() + PATIENCE
    while left := js.stream_info(SOURCE).state.messages:
        if monotonic() > until:
            outcome.violations.append(f"{left:,} messages are left in the queue")
            break
        sleep(POLL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.soak_sourcing")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=7, help="of each server and of the copier")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--delivery", choices=("fast", "atomic"), default="fast")
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    begun = monotonic()
    outcome = run(options.messages, options.kills, seed, options.delivery, sys.stdout)
    print("faults:", ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.faults.items())))
    print("copiers:", ", ".join(f"{how} {count}" for how, count in sorted(outcome.ended.items())))
    for line, count in outcome.said.most_common():
        print(f"  {count} x {line}")
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    print(
        f"{options.messages:,} messages, {outcome.rate:,.0f} a second undisturbed; {monotonic() - begun:.0f} s in all"
    )
    print("FAILED" if outcome.violations else "each message once and in order, the queue empty: passed")
    return bool(outcome.violations)


if __name__ == "__main__":
    sys.exit(main())
