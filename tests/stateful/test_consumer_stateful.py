"""One consumer of the server role, alone, with whatever clients, publishers and the clock may do.

Whatever happens:

* Consumer sequences have no hole, and messages come for the first time in the order of the stream.
* At most ``max_ack_pending`` messages are outstanding, and each is delivered at most ``max_deliver`` times.
* What is acknowledged or removed does not come again.
* The number of pending messages is true.
* With time each message of the filter is delivered, until it is acknowledged or given up.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsproto.grammar.jsack import parse_jsack
from jsproto.wire.frames import Msg
from tests.effort import examples
from tests.server.consuming import ADVISORY, Shop

WAIT = 5.0


class ConsumerMachine(RuleBasedStateMachine):
    """A model that sees only what clients and publishers see."""

    shop: Shop

    @initialize(
        is_push=st.booleans(), at_most=st.sampled_from([-1, 1, 2, 5]), max_deliver=st.sampled_from([-1, 1, 3]),
        filtered=st.booleans(), before=st.integers(0, 4), policy=st.sampled_from(["explicit", "explicit", "all"]),
        backoff=st.booleans(),
    )  # fmt: skip
    def begin(
        self, is_push: bool, at_most: int, max_deliver: int, filtered: bool, before: int, policy: str, backoff: bool
    ) -> None:
        options: dict[str, Any] = {"max_ack_pending": at_most, "ack_policy": policy, "ack_wait": WAIT}
        if is_push:
            options["deliver_subject"] = "dlv"
        if max_deliver > 0:
            options["max_deliver"] = max_deliver
        if filtered:
            options["filter_subject"] = "s.a"
        if backoff and max_deliver != 1:
            options["backoff"] = [1.0, WAIT]
        self.shop = Shop(messages=before, **options)
        self.is_push, self.at_most, self.max_deliver, self.filtered = is_push, at_most, max_deliver, filtered
        self.acks_all = policy == "all"
        self.seq = 0
        self.newest = 0
        self.deliveries: dict[int, int] = {}
        self.places: dict[int, int] = {}  # the consumer sequence of each message's last delivery
        self.first: dict[int, int] = {}  # and of its first
        self.open: set[int] = set()
        self.given_up: set[int] = set()
        self.stuck: set[int] = set()  # removed, and outstanding as before
        self.done: set[int] = set()
        self.floor = 0, 0  # of acknowledgements of all

    def matching(self) -> list[int]:
        return [stored.seq for stored in self.shop.stream if not self.filtered or stored.subject == b"s.a"]

    def look(self) -> None:
        """Take in what was sent."""
        self.shop.settle()
        sent, self.shop.post.sent = self.shop.post.sent, []
        undelivered = [seq for seq in self.matching() if seq > self.newest]
        for inbox, message in sent:
            if inbox.startswith(f"{ADVISORY}MAX_DELIVERIES"):
                seq = int(message.payload.partition(b'"stream_seq":')[2].partition(b",")[0])
                assert self.deliveries[seq] == self.max_deliver
                self.open.discard(seq)
                self.given_up.add(seq)
            if message.reply is None:
                continue
            found = parse_jsack(message.reply)
            seq = found.sequence.stream
            self.seq += 1
            assert found.sequence.consumer == self.seq
            assert seq not in self.done | self.given_up
            assert found.num_delivered == self.deliveries.get(seq, 0) + 1
            assert self.max_deliver < 0 or found.num_delivered <= self.max_deliver
            if found.num_delivered == 1:
                assert seq == undelivered.pop(0)
                self.newest = seq
                self.first[seq] = self.seq
            else:
                assert seq in self.open
            assert found.num_pending == len(undelivered)
            self.deliveries[seq], self.places[seq] = found.num_delivered, self.seq
            self.open.add(seq)
            assert inbox == "dlv" if self.is_push else inbox in ("in", "r")  # a request, or +NXT by its reply

    def chosen(self, number: int) -> int:
        return sorted(self.open)[number % len(self.open)]

    def say(self, seq: int, word: bytes) -> None:
        self.shop.consumer.receive(
            self.message(b"$JS.ACK.S.C.%d.%d.%d.0.0" % (self.deliveries[seq], seq, self.places[seq]), word),
            self.shop.now,
        )

    @staticmethod
    def message(subject: bytes, payload: bytes, reply: bytes = b"r") -> Msg:
        return Msg(subject, b"", reply, None, payload)

    def finish(self, seq: int, place: int) -> None:
        """The message is acknowledged at that place, and with it what an acknowledgement of all means.

        An older place than that of the last one acknowledges nothing: such a message comes again.
        """
        if not self.acks_all:
            self.done.add(seq)
        elif place > self.floor[0] and seq > self.floor[1]:
            self.floor = place, seq
            self.done |= {one for one in self.open if one <= seq}
        self.open -= self.done

    # -- what can happen -----------------------------------------------------------------------------------------------

    @rule(subject=st.sampled_from(["s.a", "s.a", "s.b"]), count=st.integers(1, 3))
    def publish(self, subject: str, count: int) -> None:
        self.shop.store(*[subject] * count)
        self.look()

    @rule(batch=st.integers(1, 4), no_wait=st.booleans(), expires=st.sampled_from([0, 2_000_000_000]))
    def pull(self, batch: int, no_wait: bool, expires: int) -> None:
        body = b'{"batch": %d, "no_wait": %b, "expires": %d}' % (batch, b"true" if no_wait else b"false", expires)
        subject = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
        self.shop.consumer.receive(self.message(subject, body, b"in"), self.shop.now)
        self.look()

    @rule(listens=st.booleans())
    def change_interest(self, listens: bool) -> None:
        change = self.shop.post.listening.add if listens else self.shop.post.listening.discard
        change(("dlv", None))
        self.shop.consumer.interest_changed()
        self.look()

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 9), word=st.sampled_from([b"+ACK", b"", b"+TERM", b"+NXT"]))
    def acknowledge(self, number: int, word: bytes) -> None:
        seq = self.chosen(number)
        self.finish(seq, self.places[seq])
        self.say(seq, word)
        self.look()

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 9), word=st.sampled_from([b"-NAK", b'-NAK {"delay": 3000000000}', b"+WPI", b"junk"]))
    def answer(self, number: int, word: bytes) -> None:
        self.say(self.chosen(number), word)
        self.look()

    @precondition(lambda self: self.done)
    @rule(number=st.integers(0, 9), word=st.sampled_from([b"+ACK", b"-NAK", b"+WPI", b"+TERM"]))
    def answer_again(self, number: int, word: bytes) -> None:
        seq = sorted(self.done)[number % len(self.done)]
        if word in (b"+ACK", b"+TERM") and self.acks_all:
            return  # which may acknowledge others by its place
        self.say(seq, word)
        self.look()

    @precondition(lambda self: len(self.shop.stream) > 0)
    @rule(number=st.integers(0, 9))
    def remove(self, number: int) -> None:
        seq = [stored.seq for stored in self.shop.stream][number % len(self.shop.stream)]
        self.shop.stream.remove(seq)
        if seq in self.open:
            self.finish(seq, self.first[seq])  # FACTS.md F5.30
            self.stuck |= self.open & {seq}
        self.look()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.5, WAIT]))
    def advance(self, seconds: float) -> None:
        end = self.shop.now + seconds
        while (when := self.shop.consumer.deadline()) is not None and when <= end:
            self.shop.now = max(when, self.shop.now)
            self.shop.consumer.handle_timeout(self.shop.now)
            self.look()
        self.shop.now = end

    @rule()
    def elect(self) -> None:
        self.shop.consumer.lead(self.shop.now)
        self.look()

    # -- what holds ----------------------------------------------------------------------------------------------------

    @invariant()
    def never_too_many(self) -> None:
        info = self.shop.consumer.info(self.shop.now)
        assert info.num_ack_pending == len(self.open)
        assert self.at_most < 0 or len(self.open) <= self.at_most
        assert info.num_pending == sum(seq > self.newest for seq in self.matching())
        assert info.delivered.consumer_seq == self.seq
        assert info.ack_floor.stream_seq < min(self.open, default=self.seq + 10**9)

    def teardown(self) -> None:
        """With time, and somebody who takes and acknowledges, everything was delivered."""
        if not hasattr(self, "shop"):
            return
        self.change_interest(listens=True)
        for _ in range(3 * (len(self.shop.stream) + 2)):
            if not self.is_push:
                self.pull(4, True, 0)
            for seq in sorted(self.open):
                self.finish(seq, self.places[seq])
                self.say(seq, b"+ACK")
                self.look()
            self.advance(WAIT)
        assert self.open <= self.stuck
        assert set(self.matching()) <= self.deliveries.keys()
        assert self.shop.consumer.info(self.shop.now).num_pending == 0


ConsumerMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestConsumer = ConsumerMachine.TestCase
