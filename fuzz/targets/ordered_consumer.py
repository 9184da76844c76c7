"""Whatever comes between, an ordered consumer raises nothing, and hands out no sequence twice but of another stream.

Its sequences rise, until it tells that the stream came back shorter or was made again. See ``fuzz.play`` for what else
holds. Both roles: its consumers are those of the server role.
"""

from __future__ import annotations

from typing import Any

from fuzz.play import BUFFERED, Reading
from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.events import StreamRecreated, StreamRolledBack
from jsproto.grammar.consumer import ConsumerConfig


class Ordered(Reading):
    """One reading, and another one that is asked for by a subject."""

    restarts = (StreamRecreated, StreamRolledBack)

    def begin(self) -> None:
        """The reading."""
        kind = self.tape.number(8)
        self.reader: OrderedConsumer[JSMsg] = OrderedConsumer(
            self.client, Acker(self.client, self.client.requests, JSMsg, wants_acks=False), api=self.js.api,
            inbox=self.client.new_inbox(), config=ConsumerConfig(filter_subject="s.a" if kind & 1 else None),
            timeout=3.0, now=self.now, stream="S", subject="S", idle_heartbeat=1.0, pending_msgs_limit=BUFFERED,
            if_missed="error" if kind & 2 else "tell",
        )  # fmt: skip
        self.tickets.append(self.reader.ready())
        self.verbs = (
            self.pop, self.pop, self.pop, lambda: self.reader.readable(), lambda: self.reader.ready(),
            self.subscribe, lambda: self.store(9), self.leave,
        )  # fmt: skip

    def subscribe(self) -> Any:
        """Another reading, of a stream that is looked for."""
        wanted = SubscriptionSpec("s.*")
        return self.js.subscribe_ordered(wanted, now=self.now, message_class=JSMsg, pending_msgs_limit=BUFFERED)

    def leave(self) -> Any:
        """The end, now and then."""
        return self.reader.unsubscribe(self.now) if self.tape.number(8) == 7 else None

    def check(self) -> None:
        """The buffer has its bound."""
        super().check()
        assert self.reader.last_seq >= 0


def run(data: bytes) -> None:
    """One input."""
    Ordered(data).play()
