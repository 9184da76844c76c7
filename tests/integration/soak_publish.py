"""Publish into a real cluster while it is being broken, then read everything back and judge.

``python -m tests.integration.soak_publish`` starts three nats-servers on loopback, publishes into one stream of three
replicas for each way to publish, all at once, and meanwhile breaks something twenty times or more (``--faults``):

``step-down``   the leader of one stream is asked to step down
``kill-leader`` the leader's server is killed (SIGKILL) and started again
``kill-mine``   the server that one publisher is connected to is killed and started again
``pause``       the leader's server is stopped (SIGSTOP) and goes on after a moment, before anybody misses it
``long-pause``  the same, until the others have elected another leader

One fault at a time, each after the one before has healed, so that two of three servers always live. The publishers:

``ids``     gap mode fail; a new batch begins with what is unacknowledged, and ``Nats-Msg-Id`` keeps second copies out
``counts``  gap mode fail without ids: published again is only what a terminal acknowledgement says is not stored; what
            is unknown without one (the link was lost, say) is given up
``ok``      gap mode ok: the batch goes on, what was lost is reported
``atomic``  atomic batches, none of them published again

The verdict: what was acknowledged is stored; what is stored was published; nothing is stored twice; what is stored is
in the order in which it was published. Besides, ``ids`` has everything stored, ``counts`` all but what was given up,
``ok`` all but what was reported as lost or given up; and each atomic batch is stored whole or not at all, in one piece,
and as its outcome said.

The exit status is 0 when all of that holds, 1 when not or when a publisher hangs, and then the output says what is
wrong. It takes about 6 seconds for each fault, and begins none after ``--seconds``. The same ``--seed`` makes the same
choices (not at the same moments). It ends only the servers that it has started.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Final

from jsproto.errors import BatchError, BatchMessageError, Error, NoRespondersError
from jsproto.events import Event as Told
from jsproto.events import GapReported
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream, connect
from tests.integration.cluster import Cluster, stored
from tests.servers import paused

FLOW: Final = 100
LARGEST: Final = 4_000  # messages of a fast-ingest batch, at most
SIZE: Final = 20  # messages of an atomic batch
SOON: Final = 0.05  # seconds until the next try, when there was nobody to take a message
HEALS_WITHIN: Final = 40.0  # seconds: an election takes 4 to 8
ENDS_WITHIN: Final = 60.0  # seconds from the last fault to the end of the last batch
ELECTED_WITHIN: Final = 20.0  # seconds
KINDS: Final = ("step-down", "kill-leader", "kill-mine", "pause", "long-pause")

Message = tuple[str, bytes, dict[str, str] | None]


# -- what happened, and what must be ---------------------------------------------------------------------------------


@dataclass
class History:
    """What one publisher did with its messages, which are numbered from 0 in the order of publishing."""

    attempted: int = 0
    acked: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)  # reported as lost
    unknown: set[int] = field(default_factory=set)  # given up: stored, or not
    absent: set[int] = field(default_factory=set)  # must be missing
    size: int = 1  # messages that belong together
    batches: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0  # seconds without an acknowledgement that got further, seen at the end of a batch

    def violations(self, stored: Sequence[int]) -> list[str]:
        """What is not as it must be when these numbers are stored, in this order."""
        found = set(stored)
        missing = set(range(self.attempted)) - found
        wrong = {
            "acknowledged but not stored": (self.acked - self.lost) & missing,
            "stored but never published": found - set(range(self.attempted)),
            "stored twice": {number for number, count in Counter(stored).items() if count > 1},
            "stored before one that was published before it": {b for a, b in pairwise(stored) if b < a},
            "missing without a report": missing - self.lost - self.unknown - self.absent,
            "stored though refused": found & self.absent,
            "stored without the rest of its batch": {
                number for number in found if not found.issuperset(self.batch_of(number))
            },
        }
        return [f"{len(numbers)} {what}, such as {min(numbers)}" for what, numbers in wrong.items() if numbers]

    def batch_of(self, number: int) -> range:
        """All that is stored with it, or not at all."""
        first = number - number % self.size
        return range(first, first + self.size)


# -- publishers ------------------------------------------------------------------------------------------------------


class Publisher:
    """Publishes into a stream of its own, in a thread of its own, until it is told to end."""

    options: Final[dict[str, Any]] = {}

    def __init__(self, name: str, urls: list[str], seed: int, rate: float) -> None:
        self.name = name
        self.stream = name.upper()
        self.history = History()
        self.error: BaseException | None = None
        self.told: list[GapReported] = []
        self.connection: Connection = connect(
            urls, event_cb=self._hear, reconnect_time_wait=0.1, max_reconnect_attempts=-1
        )
        self.js: JetStream = self.connection.jetstream()
        self.js.create_stream(
            self.stream, subjects=[f"{name}.>"], storage="file", num_replicas=3, allow_direct=True,
            allow_batched=name != "atomic", allow_atomic=name == "atomic", duplicate_window=3600,
        )  # fmt: skip
        self.ending = Event()
        self.random = random.Random(seed)
        self._pause = 1 / rate
        self._acked, self._progress = 0, monotonic()
        self.thread = Thread(target=self._run, name=name, daemon=True)

    def publish(self) -> None:
        """One batch, and what is to be done about its end."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not (self.ending.is_set() and self.done):
                self.publish()
        except BaseException as error:
            self.error = error
            raise

    @property
    def done(self) -> bool:
        """Nothing is left that must be published again."""
        return True

    def _hear(self, event: Told) -> None:
        if isinstance(event, GapReported):
            self.told.append(event)

    def _ended(self, error: Error | None) -> None:
        """Count an outcome; after a failure, wait for a link, and for a moment."""
        self.history.batches += 1
        self.history.outcomes["committed" if error is None else type(error).__name__] += 1
        if len(self.history.acked) > self._acked:
            self.history.longest = max(self.history.longest, monotonic() - self._progress)
            self._acked, self._progress = len(self.history.acked), monotonic()
        if error is not None:
            with suppress(Error):
                self.connection.flush()
            sleep(SOON)

    def _paced(self, messages: Sequence[Message]) -> Iterator[Message]:
        """No faster than the rate, ten at a time: a sleep for each would be too long."""
        for at, message in enumerate(messages, 1):
            yield message
            if at % 10 == 0:
                sleep(10 * self._pause)


class Fast(Publisher):
    """What the fast-ingest publishers have in common: batches of random size, with either commit."""

    gap: Any = "fail"
    with_ids = False

    def __init__(self, name: str, urls: list[str], seed: int, rate: float) -> None:
        super().__init__(name, urls, seed, rate)
        self.backlog: list[Message] = []

    @property
    def done(self) -> bool:
        return not self.backlog

    def publish(self) -> None:
        history, rng = self.history, self.random
        size = rng.choice((1, 2, rng.randrange(1, LARGEST)))
        fresh = 0 if self.ending.is_set() else max(size - len(self.backlog), 0)
        numbers = range(history.attempted, history.attempted + fresh)
        messages = self.backlog + [self._message(number) for number in numbers]
        history.attempted += fresh
        batch = self.js.fast_publisher(gap=self.gap, flow=FLOW)
        self.told.clear()
        error: Error | None = None
        try:
            if rng.random() < 0.5:
                batch.publish_many(self._paced(messages))
                batch.commit()
            else:
                batch.publish_many(self._paced(messages[:-1]))
                subject, payload, headers = messages[-1]
                batch.commit(subject, payload, headers=headers)
        except Error as caught:
            error = caught
        batch.take_unpublished()  # the backlog has them
        unknown = [] if error is None else batch.unacknowledged
        history.acked.update(map(number_of, messages[: batch.sequence - len(unknown)]))
        if self.gap == "ok":
            for gap in self.told:
                history.lost.update(map(number_of, messages[gap.first_missing - 1 : gap.last_missing]))
        self.backlog = self._again(unknown, error) + messages[batch.sequence :]
        self._ended(error)

    def _message(self, number: int) -> Message:
        headers = {"Nats-Msg-Id": f"{number}"} if self.with_ids else None
        return (f"{self.name}.{number % 7}", b"%d" % number, headers)

    def _again(self, unknown: list[Any], error: Error | None) -> list[Message]:
        """What another batch begins with; the rest is given up."""
        raise NotImplementedError


class WithIds(Fast):
    """``ids``."""

    with_ids = True

    def _again(self, unknown: list[Any], error: Error | None) -> list[Message]:
        return unknown


class WithCounts(Fast):
    """``counts``."""

    def _again(self, unknown: list[Any], error: Error | None) -> list[Message]:
        if (isinstance(error, BatchError) and error.ack is not None) or isinstance(error, NoRespondersError):
            return unknown
        self.history.unknown.update(map(number_of, unknown))
        return []


class Lossy(Fast):
    """``ok``."""

    gap = "ok"

    def _again(self, unknown: list[Any], error: Error | None) -> list[Message]:
        self.history.unknown.update(map(number_of, unknown))
        return []


class Atomic(Publisher):
    """``atomic``."""

    def __init__(self, name: str, urls: list[str], seed: int, rate: float) -> None:
        super().__init__(name, urls, seed, rate)
        self.history.size = SIZE

    def publish(self) -> None:
        history = self.history
        numbers = range(history.attempted, history.attempted + SIZE)
        history.attempted += SIZE
        committing = False
        error: Error | None = None
        messages = [(f"atomic.{number % 7}", b"%d" % number, None) for number in numbers]
        with self.js.atomic_batch() as batch:
            try:
                for subject, payload, _ in self._paced(messages[:-1]):
                    batch.add(subject, payload)
                committing = True
                self._commit(lambda: batch.commit(messages[-1][0], messages[-1][1]))
            except Error as caught:
                error = caught
        if error is None:
            history.acked.update(numbers)
        elif committing and isinstance(error, BatchError) and not isinstance(error, BatchMessageError):
            history.unknown.update(numbers)  # there was no answer: it is stored or it is not
        else:
            history.absent.update(numbers)
        self._ended(error)

    def _commit(self, commit: Callable[[], object]) -> None:
        """A commit that nobody took leaves the batch open: try again."""
        try:
            commit()
        except BatchMessageError:
            self.history.outcomes["(commit refused, tried again)"] += 1
            sleep(SOON)
            commit()


PUBLISHERS: Final[dict[str, type[Publisher]]] = {
    "ids": WithIds, "counts": WithCounts, "ok": Lossy, "atomic": Atomic,
}  # fmt: skip


def number_of(message: Any) -> int:
    """The number that the message carries."""
    return int(message[1])


# -- faults ----------------------------------------------------------------------------------------------------------


class Saboteur:
    """Breaks one thing at a time."""

    def __init__(self, cluster: Cluster, publishers: list[Publisher], seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self.elections = 0
        self._cluster = cluster
        self._publishers = publishers
        self._random = random.Random(seed)
        self._connections = {
            node: connect(node.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1) for node in cluster.nodes
        }

    def act(self, kind: str) -> None:
        """One fault, and its end. TimeoutError of Python's own when the cluster does not heal."""
        leaders = self._heal()
        victim = self._random.choice(self._publishers)
        leader = self._cluster.node(leaders[victim.stream])
        began = monotonic()
        match kind:
            case "step-down":
                with suppress(Error):
                    self._connections[leader].request(f"$JS.API.STREAM.LEADER.STEPDOWN.{victim.stream}", timeout=5)
            case "kill-leader":
                self._kill(leader)
            case "kill-mine":
                mine = [node for node in self._cluster.nodes if node.url == victim.connection.connected_url]
                self._kill(mine[0] if mine else leader)
            case "pause":
                with paused(leader):
                    sleep(self._random.uniform(0.2, 2.0))
            case "long-pause":
                with paused(leader):
                    self._wait_for_another(victim.stream, leader)
                    sleep(self._random.uniform(0, 5))
        self.faults[kind] += 1
        after = self._heal()
        changed = [stream for stream, name in after.items() if name != leaders[stream]]
        self.elections += len(changed)
        print(
            f"{sum(self.faults.values()):3d}. {kind:<11} {victim.stream:<6} healed in {monotonic() - began:4.1f} s;"
            f" new leaders: {', '.join(f'{stream} on {after[stream]}' for stream in changed) or 'none'}",
            flush=True,
        )
        sleep(self._random.uniform(0.2, 1.0))

    def close(self) -> None:
        """End the connections."""
        for connection in self._connections.values():
            connection.close()

    def _kill(self, node: NatsServer) -> None:
        node.kill()
        sleep(self._random.uniform(0, 2))
        node.start()

    def _heal(self) -> dict[str, str]:
        """Wait until every stream has a leader and two replicas that are up to date; returns the leaders."""
        until = monotonic() + HEALS_WITHIN
        while True:
            leaders = {publisher.stream: self._whole(publisher.stream) for publisher in self._publishers}
            found = {stream: leader for stream, leader in leaders.items() if leader is not None}
            if len(found) == len(leaders):
                return found
            if monotonic() > until:
                raise TimeoutError(f"the cluster did not heal within {HEALS_WITHIN:g} s: {leaders}")
            sleep(0.1)

    def _wait_for_another(self, stream: str, leader: NatsServer) -> None:
        """Until the others have elected one of them."""
        others = [node for node in self._cluster.nodes if node is not leader]
        until = monotonic() + ELECTED_WITHIN
        while monotonic() < until:
            name = self._cluster_of(stream, others).get("leader")
            if name is not None and self._cluster.node(name) is not leader:
                return
            sleep(0.1)

    def _whole(self, stream: str) -> str | None:
        state = self._cluster_of(stream, self._cluster.nodes)
        replicas = state.get("replicas", [])
        up = [replica for replica in replicas if replica.get("current") and not replica.get("offline")]
        return state.get("leader") if len(up) == len(self._cluster.nodes) - 1 else None

    def _cluster_of(self, stream: str, nodes: list[NatsServer]) -> dict[str, Any]:
        """What the first of the nodes that answers says about the stream's leader and replicas."""
        for node in nodes:
            with suppress(Error):
                return self._connections[node].jetstream(timeout=1).stream_info(stream).cluster or {}
        return {}


# -- the run ---------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> list[str]:
    """Publish, break, read back; returns what is wrong."""
    rng = random.Random(options.seed)
    until = monotonic() + options.seconds
    wrong: list[str] = []
    with Cluster() as cluster:
        seeds = {name: rng.randrange(2**32) for name in PUBLISHERS}
        publishers = [PUBLISHERS[name](name, cluster.urls, seeds[name], options.rate) for name in options.publishers]
        saboteur = Saboteur(cluster, publishers, rng.randrange(2**32))
        for publisher in publishers:
            publisher.thread.start()
        kinds = [options.kinds[number % len(options.kinds)] for number in range(options.faults)]
        rng.shuffle(kinds)
        try:
            for kind in kinds:
                if monotonic() > until or any(publisher.error for publisher in publishers):
                    break
                saboteur.act(kind)
        except TimeoutError as error:
            wrong.append(str(error))
        if len(kinds) > saboteur.faults.total():
            wrong.append(f"only {saboteur.faults.total()} of {len(kinds)} faults were made")
        print(f"faults: {told(saboteur.faults)}; {saboteur.elections} changes of a stream's leader")
        saboteur.close()
        for publisher in publishers:
            publisher.ending.set()
        ends = monotonic() + ENDS_WITHIN
        for publisher in publishers:
            publisher.thread.join(max(ends - monotonic(), 0))
            if publisher.thread.is_alive() or publisher.error is not None:
                wrong.append(f"{publisher.name}: {publisher.error or 'hangs'}")
                faulthandler.dump_traceback()
            else:
                wrong += [f"{publisher.name}: {text}" for text in judge(publisher)]
                publisher.connection.close()
    return wrong


def judge(publisher: Publisher) -> list[str]:
    """Read the stream back, and compare; prints a line."""
    history = publisher.history
    found = stored(publisher.js, publisher.stream)
    wrong = history.violations(found)
    numbers = {
        "published": history.attempted,
        "batches": history.batches,
        "acknowledged": len(history.acked),
        "stored": len(found),
        "reported as lost": len(history.lost),
        "of them stored": len(history.lost.intersection(found)),
        "given up": len(history.unknown),
        "of these stored": len(history.unknown.intersection(found)),
    }
    print(f"{publisher.name}: {', '.join(f'{number} {what}' for what, number in numbers.items())}")
    print(f"    {told(history.outcomes)}; at most {history.longest:.1f} s without progress")
    print(f"    {'; '.join(wrong) or 'no violation'}", flush=True)
    return wrong


def told(counts: Counter[str]) -> str:
    """``3 this, 1 that``."""
    return ", ".join(f"{count} {what}" for what, count in counts.most_common())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.integration.soak_publish", description="Publish into a cluster while it is being broken."
    )
    parser.add_argument("--faults", type=int, default=20, metavar="N", help="how many (default 20)")
    parser.add_argument("--seconds", type=float, default=600.0, help="begin no fault after this time (default 600)")
    parser.add_argument("--seed", type=int, default=None, help="of all choices (default: a new one, which is printed)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument(
        "--publishers", nargs="+", choices=list(PUBLISHERS), default=list(PUBLISHERS), metavar="WAY",
        help=", ".join(PUBLISHERS),
    )  # fmt: skip
    parser.add_argument("--rate", type=float, default=1_000.0, help="messages a second, at most, of each publisher")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = random.randrange(2**32)
    print(f"seed {options.seed}", flush=True)
    wrong = run(options)
    for text in wrong:
        print(f"VIOLATION {text}")
    print("FAILED" if wrong else "passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
