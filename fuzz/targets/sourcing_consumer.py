"""Whatever comes between, a sourcing end raises nothing, hands out no sequence twice, and answers for what is stored.

Sequences rise above what the sink has, until the sink begins again or the stream is another one. See ``fuzz.play`` for
what else holds. Both roles: the consumer is that of the server role.
"""

from __future__ import annotations

from fuzz.play import Play
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.events import StreamRecreated
from jsproto.grammar.sourcing import sourcing_consumer

LIMIT = 40  # messages in the buffer


class Sourcing(Play):
    """One claim of a consumer that is created if it is not there."""

    def begin(self) -> None:
        """The claim."""
        self.reader: SourcingConsumer[JSMsg] = self.js.source(
            "S", "C", now=self.now, message_class=JSMsg, config=sourcing_consumer("C", "deliver.c"),
            pending_msgs_limit=LIMIT,
        )  # fmt: skip
        self.last = self.falls = 0
        self.tickets.append(self.reader.ready())
        self.verbs = (
            self.pop, self.pop, self.pop, self.confirm, self.confirm, lambda: self.reader.readable(),
            lambda: self.reader.news(), self.restart, lambda: self.reader.wake(), lambda: self.store(9),
        )  # fmt: skip

    def pop(self) -> None:
        """What is buffered."""
        for message in self.reader.pop_many(1 + self.tape.number(12), self.now):
            seq = message.metadata.sequence.stream
            self.falls += seq <= self.last
            assert self.falls <= self.changes(), f"sequence {seq} was handed out after {self.last}"
            self.last = seq

    def changes(self) -> int:
        """How often it has told that the stream is another one."""
        self.events += self.client.events()
        return sum(isinstance(event, StreamRecreated) for event in self.events)

    def confirm(self) -> None:
        """The sink has stored some, or all."""
        seq = self.last - self.tape.number(3)
        self.reader.confirm(seq, self.now)

    def restart(self) -> None:
        """The sink has lost what was not confirmed."""
        position = self.reader.position
        self.reader.restart(position, self.now)
        self.last = position

    def check(self) -> None:
        """The buffer has its bound, and nothing is confirmed that was not taken."""
        assert self.reader.pending_msgs <= LIMIT
        assert self.reader.position <= max(self.last, self.reader.received)


def run(data: bytes) -> None:
    """One input."""
    Sourcing(data).play()
