"""Whatever comes between, a pull consumer raises nothing, each fetch ends, and what is buffered stays within bounds.

Both roles: the consumer is that of the server role. See ``fuzz.play`` for what else holds.
"""

from __future__ import annotations

from typing import Any

from fuzz.play import Play
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo


class Pull(Play):
    """Fetches and the stream of messages of one consumer, and what becomes of its messages."""

    def begin(self) -> None:
        """The consumer, and a subscription that finds another."""
        config = ConsumerConfig(name="C", durable_name="C", ack_policy="explicit", ack_wait=5.0, max_deliver=3)
        self.tickets.append(self.js.create_consumer("S", config, now=self.now))
        self.settle()
        self.pull: PullConsumer[JSMsg] = self.js.pull_consumer(ConsumerInfo("S", "C", config), JSMsg)
        self.fetches: list[Fetch] = []
        self.messages: list[JSMsg] = []
        self.asked = 0
        self.verbs = (
            self.fetch, self.fetch, self.fetch_no_wait, self.take, self.take, self.give_back, self.start,
            lambda: self.pull.stop(self.now) and None, self.pop, self.pop, lambda: self.pull.readable(),
            self.settle_one, self.settle_one, self.bind, lambda: self.js.consumer_info("S", "C", now=self.now),
            lambda: self.js.pause_consumer("S", "C", 1 << 61, now=self.now),
            lambda: self.js.resume_consumer("S", "C", now=self.now),
            lambda: self.js.reset_consumer("S", "C", now=self.now),
        )  # fmt: skip

    def fetch(self) -> None:
        """A fetch that waits."""
        batch = 1 + self.tape.number(6)
        self.fetches.append(self.pull.fetch(batch, now=self.now, expires=1.0 + 4 * self.tape.number(4)))
        self.asked += batch

    def fetch_no_wait(self) -> None:
        """A fetch of what is there."""
        batch = 1 + self.tape.number(6)
        self.fetches.append(self.pull.fetch_no_wait(batch, now=self.now, patience=2.0))
        self.asked += batch

    def take(self) -> None:
        """The messages of the fetches that are done."""
        for fetch in [fetch for fetch in self.fetches if fetch.done.done]:
            self.fetches.remove(fetch)
            taken = self.pull.take(fetch)
            assert len(taken) <= fetch.batch
            self.hold(taken)

    def give_back(self) -> None:
        """A fetch is given up."""
        if self.fetches:
            self.pull.give_back(self.fetches.pop(), self.now)

    def start(self) -> None:
        """The stream of messages."""
        self.pull.start(now=self.now, max_msgs=1 + self.tape.number(9))

    def pop(self) -> None:
        """What is buffered."""
        self.hold(self.pull.pop_many(1 + self.tape.number(9), self.now))

    def hold(self, messages: list[JSMsg]) -> None:
        """The application has them, the last few."""
        for message in messages:
            assert repr(message)
            self.call(lambda message=message: message.metadata and None)  # type: ignore[misc]
            self.call(lambda message=message: message.headers and None)  # type: ignore[misc]
        self.messages = (self.messages + messages)[-20:]

    def settle_one(self) -> Any:
        """One message is acknowledged, or not."""
        if not self.messages:
            return None
        message = self.messages.pop()
        kind = self.tape.number(5)
        if kind == 0:
            return message.ack_sync(now=self.now, timeout=2.0)
        (message.ack, message.nak, message.term, message.in_progress)[kind - 1]()
        return None

    def bind(self) -> Any:
        """Find a consumer, or create it."""
        return self.js.bind_pull(SubscriptionSpec("s.>", durable="D", pull=True), now=self.now)

    def check(self) -> None:
        """What is buffered was asked for, or is little more."""
        assert self.pull.pending_msgs <= max(self.asked, 0) + 10 * 60 + 400
        assert self.pull.pending_bytes >= 0
        assert self.pull.under_way >= 0

    def finish(self) -> None:
        """Every fetch has ended."""
        assert all(fetch.done.done for fetch in self.fetches), "a fetch outlives its session"


def run(data: bytes) -> None:
    """One input."""
    Pull(data).play()
