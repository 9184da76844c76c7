"""Whatever comes between, an atomic batch raises nothing, ends once, and is stored as a whole or not at all.

Both roles: the batch is that of the server role. See ``fuzz.play`` for what else holds.
"""

from __future__ import annotations

from typing import Final

from fuzz.play import Play
from jsproto.client.publish.atomic import AtomicBatch
from jsproto.client.publish.message import Message
from jsproto.rules.atomic_batch import ENDED

MANY: Final[list[Message]] = [("s.a", b"1"), ("s.b", b"2", {"A": "b"}), ("s.c", b""), ("s.d", b"x" * 40)]


class Batch(Play):
    """One batch after the other, and an asynchronous publisher beside them."""

    batch: AtomicBatch

    def begin(self) -> None:
        """The first batch."""
        self.open()
        self.publisher = self.js.async_publisher(timeout=3.0, max_pending=8)
        self.verbs = (
            self.add, self.add_many, self.add_many, lambda: self.batch.commit_eob(self.now),
            lambda: self.batch.commit(self.now, "s.a", b"last"), lambda: self.batch.ready(),
            lambda: self.batch.discard(self.now), self.open, self.publish, lambda: self.publisher.ready(),
            lambda: self.publisher.answered(), lambda: self.publisher.take_failures() and None,
            lambda: self.js.publish("s.a", b"p", now=self.now, timeout=2.0),
            lambda: self.js.publish_batch(MANY, now=self.now, ack_timeout=2.0),
        )  # fmt: skip

    def open(self) -> None:
        """A batch, unless there is one."""
        if not hasattr(self, "batch") or self.batch.phase in ENDED:
            kind = self.tape.number(12)
            self.batch = self.js.atomic_batch(ack_first=kind & 1 == 1, ack_every=kind // 2, ack_timeout=3.0)

    def add(self) -> None:
        """One message. Half of them have headers."""
        kind = self.tape.number(4)
        self.batch.add(f"s.{'abxc'[kind]}", b"m", {"Nats-Msg-Id": str(kind)} if kind & 1 else None, now=self.now)

    def add_many(self) -> None:
        """Some."""
        self.batch.add_many(MANY[: 1 + self.tape.number(4)] * (1 + self.tape.number(5)), self.now)

    def publish(self) -> None:
        """Some, outside of batches. It returns a ticket for one."""
        kind = self.tape.number(3)
        if kind:
            self.publisher.publish_many(MANY[:kind] * 2, self.now)
        else:
            self.tickets.append(self.publisher.publish("s.a", b"x", now=self.now))

    def check(self) -> None:
        """What is known of the batch is not more than there is."""
        batch = self.batch
        assert batch.ack is None or batch.phase in ENDED
        assert batch.error is None or batch.phase in ENDED
        assert 0 <= self.publisher.pending <= 8 + len(MANY) * 2
        assert self.publisher.pending_bytes >= 0

    def finish(self) -> None:
        """Nothing waits any more."""
        assert self.batch.phase in ENDED or not self.batch.sequence
        assert not self.publisher.pending


def run(data: bytes) -> None:
    """One input."""
    Batch(data).play()
