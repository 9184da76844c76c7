"""Whatever comes between, a fast-ingest batch raises nothing, sends nothing beyond its window and ends once.

Both roles: the batch is that of the server role. See ``fuzz.play`` for what else holds.
"""

from __future__ import annotations

from typing import Any, Final

from fuzz.play import Play
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.publish.message import Message
from jsproto.rules.fast_batch import ENDED

FLOWS: Final = (1, 2, 3, 7)
MANY: Final[list[Message]] = [("s.a", b"1"), ("s.b", b"2", {"A": "b"}), ("s.c", b""), ("s.a", b"x" * 40)]


class Batch(Play):
    """One batch after the other."""

    batch: FastPublisher

    def begin(self) -> None:
        """The first batch."""
        self.open()
        self.verbs = (
            self.publish, self.publish_many, self.publish_many, lambda: self.batch.commit(self.now),
            lambda: self.batch.commit(self.now, "s.a", b"last"), lambda: self.batch.ready(),
            self.progress, lambda: self.batch.ping(self.now),
            lambda: self.batch.abandon(self.now), self.open,
        )  # fmt: skip

    def open(self) -> None:
        """A batch, unless there is one."""
        if not hasattr(self, "batch") or self.batch.phase in ENDED:
            kind = self.tape.number(24)
            self.acked = self.sequence = 0
            self.batch = self.js.fast_publisher(
                gap="ok" if kind & 1 else "fail", flow=FLOWS[kind // 2 % 4], max_outstanding_acks=1 + kind // 8,
                ack_timeout=5.0,
            )  # fmt: skip

    def publish(self) -> None:
        """One message. Half of them have headers."""
        kind = self.tape.number(4)
        self.batch.publish(f"s.{'abxc'[kind]}", b"m", {"Nats-Msg-Id": str(kind)} if kind & 1 else None, now=self.now)

    def publish_many(self) -> None:
        """Some."""
        self.batch.publish_many(MANY[: 1 + self.tape.number(4)] * (1 + self.tape.number(5)), self.now)

    def progress(self) -> Any:
        """Wait for an acknowledgement. Of a batch without a message none can come."""
        return self.batch.progress(self.batch.acked) if self.batch.sequence else None

    def check(self) -> None:
        """Acknowledgements never run backwards, or ahead."""
        batch = self.batch
        assert self.acked <= batch.acked <= batch.sequence, "an acknowledgement that cannot be"
        assert batch.sequence >= self.sequence
        self.acked, self.sequence = batch.acked, batch.sequence
        assert batch.error is None or batch.phase in ENDED or batch.phase.name == "DRAINING" or not batch.room
        assert len(batch.unacknowledged) <= batch.sequence

    def finish(self) -> None:
        """It has ended, unless it never began."""
        assert self.batch.phase in ENDED or not self.batch.sequence


def run(data: bytes) -> None:
    """One input."""
    Batch(data).play()
