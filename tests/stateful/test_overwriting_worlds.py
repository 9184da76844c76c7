"""Worlds in which each subject keeps one message, and every request may go to another of three replicas.

How it works. Whatever is overwritten leaves a hole in a replica that has come so far, and none in one that lags. So
answers that were put together of two replicas can lack both a message and what overwrote it. Nothing is deleted here:
the log of all writes says exactly what each read has to show. A world is drawn from its seed.

``WORLDS=10000`` in the environment tries so many of each instead of a few hundred.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import Error
from jsproto.grammar.acks import PubAck
from jsproto.grammar.stored import StoredMsg
from jsproto.server.replication.replicas import Lag
from jsproto.ticket import Ticket
from tests.effort import examples
from tests.marks import promise
from tests.worlds.memory import TIMEOUT, Event, Plan, World, small_pages

WORLDS: Final = int(os.environ.get("WORLDS") or examples(300))
MOST_STEPS: Final = 3_000
MOST_WRITTEN: Final = 40
LAGS: Final = (Lag(), Lag(seconds=float("inf")), Lag(messages=1), Lag(messages=2))
STALE: Final = {"IncompleteBatchError", "StaleReadError", "SnapshotError"}
"""How a read may end when replicas stay behind for longer than its timeout, or what it is about is gone."""


class Overwriting:
    """A world that was drawn: its log of writes, and what happens between any two steps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        stream = {"max_msgs_per_subject": 1, "num_replicas": 3}
        self.world = World(Plan(stream=stream, before=[Event("write", 1, 4)]))
        self.world.server.choose = self.random.randrange
        assert self.world.stream is not None
        self.stream = self.world.stream
        self.log = {message.seq: message.subject.decode() for message in self.stream}
        for _ in range(30):
            self.happen(0.4)

    def subject(self) -> str:
        return f"s.{self.random.randrange(1, 7)}"

    def write(self, subject: str) -> int:
        seq = self.world.write(self.stream, subject)
        self.log[seq] = subject
        return seq

    def happen(self, chance: float) -> None:
        """Perhaps a write, perhaps a replica that lags from now on, or no longer."""
        drawn = self.random.random()
        if drawn < chance and self.stream.last_seq < MOST_WRITTEN:
            self.write(self.subject())
        elif drawn < 2 * chance:
            replica = self.random.choice(list(self.world.server.replicas("S")))
            replica.lag = self.random.choice(LAGS)
            replica.catch_up(self.world.now)

    def last_of_each(self, up_to: int) -> dict[str, int]:
        """The truth, as of a sequence."""
        return {subject: seq for seq, subject in sorted(self.log.items()) if seq <= up_to}

    def wait(self, ticket: Ticket[Snapshot]) -> Snapshot:
        """What is asked for, in a world that goes on; raises as it does."""
        self.world.settle()
        for _ in range(MOST_STEPS):
            if ticket.done:
                return ticket.result()
            self.happen(0.05)
            self.world.step()
        raise AssertionError("the read does not end")

    def take(self, batch: DirectBatch | Snapshot, chance: float) -> list[StoredMsg]:
        """Everything that a read gives, in a world that goes on; raises as it does."""
        messages: list[StoredMsg] = []
        self.world.settle()
        for _ in range(MOST_STEPS):
            messages += batch.pop_many(99, self.world.now)
            ready = batch.readable()
            if not ready.done:
                self.happen(chance)
                self.world.step()
            elif ready.error is not None:
                raise ready.error
            elif batch.finished and not (more := batch.pop_many(99, self.world.now)):
                return messages
            elif batch.finished:
                messages += more
        raise AssertionError("the read does not end")


def shown(messages: Sequence[StoredMsg]) -> dict[str, int]:
    return {message.subject: message.seq for message in messages}


def snapshot(it: Overwriting) -> None:
    room = it.random.choice([1, 40, 200, 10_000])
    ticket = it.world.js.snapshot("S", "s.*", now=it.world.now, timeout=TIMEOUT, max_bytes=room)
    read = it.wait(ticket)
    assert read.up_to_seq is not None
    assert shown(it.take(read, 0)) == it.last_of_each(read.up_to_seq)


def snapshot_at(it: Overwriting) -> None:
    at = it.random.randrange(max(1, it.stream.last_seq - 4), it.stream.last_seq + 1)
    ticket = it.world.js.snapshot("S", "s.*", now=it.world.now, timeout=TIMEOUT, at=at)
    assert shown(it.take(it.wait(ticket), 0)) == it.last_of_each(at)


def whole_stream(it: Overwriting) -> None:
    """Each key that was there when the read began, no older than it was then."""
    before = it.last_of_each(it.stream.last_seq if it.random.random() < 0.5 else 0)
    room = it.random.choice([1, 40, 200, 10_000])
    batch = it.world.js.get_batch(
        "S", seq=1, at_least=max(before.values(), default=0), max_bytes=room, now=it.world.now, timeout=TIMEOUT
    )
    got = shown(it.take(batch, 0.1))
    assert all(got.get(subject, 0) >= seq for subject, seq in before.items()), (got, before)


def own_write(it: Overwriting) -> None:
    """A session reads what it wrote, or what overwrote that."""
    own = it.subject()
    seq = it.write(own)
    it.world.session.record(PubAck("S", seq))
    it.happen(0.4)
    batch = it.world.session.get_batch("S", now=it.world.now, timeout=TIMEOUT)
    assert shown(it.take(batch, 0.1)).get(own, 0) >= seq


@promise("what is in the stream all the time is not left out")
@promise("`get_batch`, `get_last_msgs_for` and `snapshot` read the stream itself.")
@promise("It is exactly the state at its `up_to_seq`, while others overwrite.")
@pytest.mark.parametrize("read", [snapshot, snapshot_at, whole_stream, own_write])
def test_what_was_overwritten_and_what_overwrote_it_are_not_both_missing(read: Callable[[Overwriting], None]) -> None:
    endings: dict[str, int] = {}
    with small_pages():
        for seed in range(WORLDS):
            ending = "right"
            try:
                read(Overwriting(seed))
            except Error as error:
                ending = type(error).__name__
            except AssertionError as wrong:
                raise AssertionError(f"seed {seed}: {wrong}") from wrong
            endings[ending] = endings.get(ending, 0) + 1
    assert endings.keys() <= {"right", *STALE}
    assert endings["right"] > WORLDS // 10
