"""Whatever comes between, a sourcing end raises nothing, hands out no sequence twice, and answers for what is stored.

Sequences rise above what the sink has, until the sink begins again or the stream is another one. See ``fuzz.play`` for
what else holds. Both roles: the consumer is that of the server role.
"""

from __future__ import annotations

from fuzz.play import BUFFERED, Reading
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.events import StreamRecreated
from jsproto.grammar.sourcing_consumer import sourcing_consumer


class Sourcing(Reading):
    """One claim of a consumer that is created if it is not there."""

    restarts = (StreamRecreated,)

    def begin(self) -> None:
        """The claim."""
        self.reader: SourcingConsumer[JSMsg] = self.js.source(
            "S", "C", now=self.now, message_class=JSMsg, config=sourcing_consumer("C", "deliver.c"),
            pending_msgs_limit=BUFFERED,
        )  # fmt: skip
        self.tickets.append(self.reader.ready())
        self.verbs = (
            self.pop, self.pop, self.pop, self.confirm, self.confirm, lambda: self.reader.readable(),
            lambda: self.reader.news(), self.restart, lambda: self.reader.wake(), lambda: self.store(9),
        )  # fmt: skip

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
        super().check()
        assert self.reader.position <= max(self.last, self.reader.received)


def run(data: bytes) -> None:
    """One input."""
    Sourcing(data).play()
