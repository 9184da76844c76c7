"""Whatever comes between, a read by Direct Get raises nothing, and hands out no sequence twice.

Reads of single messages, of pages, of the last of each subject, and of subjects. See ``fuzz.play`` for what else holds.
Both roles: the server role answers.
"""

from __future__ import annotations

from typing import Any

from fuzz.play import Play
from jsproto.client.read.direct import DirectBatch


class Read(Play):
    """One read of pages after the other, and other reads beside them."""

    batch: DirectBatch

    def begin(self) -> None:
        """The first read."""
        self.store(20)
        self.open()
        self.session = self.js.consistent_session(timeout=3.0)
        js = self.js
        self.verbs = (
            self.pop, self.pop, self.pop, self.columns, lambda: self.batch.readable(), self.open, self.single,
            lambda: js.get_last_msg("S", "s.a", now=self.now, timeout=2.0),
            lambda: js.get_data("S", 2, now=self.now, timeout=2.0),
            lambda: js.snapshot("S", ["s.*"], now=self.now, timeout=2.0),
            self.last_messages, lambda: js.stream_subjects("S", now=self.now, timeout=2.0),
            lambda: self.session.publish("s.a", b"x", now=self.now, timeout=2.0),
            lambda: self.session.get_last_msg("S", "s.a", now=self.now),
            lambda: self.session.get_msg("S", 2, now=self.now),
            lambda: js.stream_info("S", now=self.now),
        )  # fmt: skip

    def open(self) -> None:
        """A read, unless there is one."""
        if hasattr(self, "batch") and not self.batch.finished and self.batch.error is None:
            return
        kind = self.tape.number(16)
        self.last = 0
        self.batch = self.js.get_batch(
            "S", now=self.now, seq=2 if kind & 1 else None, subject="s.*" if kind & 2 else None,
            max_bytes=200 if kind & 4 else None, if_dropped="error" if kind & 8 else "skip", timeout=2.0,
        )  # fmt: skip

    def pop(self) -> None:
        """Messages of the pages."""
        for message in self.batch.pop_many(1 + self.tape.number(9), self.now):
            self.handed(message.seq)
            for name in ("subject", "stream", "timestamp", "headers"):
                self.call(lambda message=message, name=name: getattr(message, name) and None)  # type: ignore[misc]

    def columns(self) -> None:
        """Columns of the pages."""
        for seq in self.batch.pop_columns(1 + self.tape.number(9), self.now).seqs:
            self.handed(seq)

    def handed(self, seq: int) -> None:
        """A message of the read."""
        assert seq > self.last, f"sequence {seq} was handed out after {self.last}"
        self.last = seq

    def single(self) -> Any:
        """One message."""
        kind = self.tape.number(8)
        return self.js.get_msg(
            "S", 1 + kind, now=self.now, subject="s.>" if kind & 1 else None, next=kind & 1 == 1,
            level="leader" if kind & 2 else "direct", timeout=2.0,
        )  # fmt: skip

    def last_messages(self) -> None:
        """The last message of each subject, as a read of its own that is left at once now and then."""
        read = self.js.get_last_msgs_for("S", ["s.a", "s.b"], now=self.now, timeout=2.0)
        self.settle()
        for message in read.pop_many(9, self.now):
            self.call(lambda message=message: message.subject and None)  # type: ignore[misc]
        if self.tape.number(2):
            read.close(self.now)


def run(data: bytes) -> None:
    """One input."""
    Read(data).play()
