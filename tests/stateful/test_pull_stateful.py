"""A pull consumer against a model server: whatever happens, what was delivered is taken exactly once, and fetches end.

The model serves requests in turn, as servers do, ends them with every status there is, and loses links. Messages that
were under way on a lost link are not delivered: the model gives them out again, as the ack wait would.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.pull_requests import ANSWER_GRACE
from jsproto.errors import Error
from jsproto.timers import Timer
from tests.client.pulling import Pulling
from tests.effort import examples
from tests.marks import known_fault, promise, requirement

RETRIED = ["409 Leadership Change", "409 Server Shutdown", "409 Exceeded MaxWaiting"]
ENDED = ["408 Request Timeout", "404 No Messages", "409 Batch Completed", "409 Consumer Deleted", "503", "499 New"]


@requirement(221, 242)
@promise("A subscriber that pulls gets no more than it asked for.")
@known_fault("a fetch hangs, or times out with messages waiting")
class Pulls(RuleBasedStateMachine):
    """The application, the network and the server take turns."""

    @initialize(v2=st.booleans())
    def begin(self, v2: bool) -> None:
        self.pulling = Pulling(v2=v2)
        self.waiting: list[dict[str, Any]] = []  # requests at the server, each with what is left of it
        self.fetches: list[Fetch] = []
        self.delivered: list[bytes] = []
        self.taken: list[bytes] = []
        self.linked = True
        self.streams = False

    def collect(self) -> None:
        """What the client has sent reaches the server."""
        if self.linked:
            self.waiting += [request | {"left": request["batch"]} for request in self.pulling.requests()]

    # -- the application -----------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.streams)
    @rule(batch=st.integers(1, 5), expires=st.sampled_from([0.5, 5.0, 20.0]), no_wait=st.booleans())
    def fetch(self, batch: int, expires: float, no_wait: bool) -> None:
        fetch = self.pulling.no_wait(batch, expires) if no_wait else self.pulling.fetch(batch, expires)
        self.fetches.append(fetch)

    @precondition(lambda self: self.fetches)
    @rule(which=st.integers(0, 9))
    def give_up(self, which: int) -> None:
        fetch = self.fetches.pop(which % len(self.fetches))
        self.take_what_is_done()
        self.pulling.consumer.give_back(fetch, self.pulling.now)

    @precondition(lambda self: not self.streams and not self.fetches)
    @rule(most=st.integers(1, 6))
    def start(self, most: int) -> None:
        self.pulling.consumer.start(now=self.pulling.now, max_msgs=most)
        self.streams = True

    @precondition(lambda self: self.streams)
    @rule(most=st.integers(1, 9))
    def pop(self, most: int) -> None:
        self.taken += self.pulling.popped(most)

    @precondition(lambda self: self.streams)
    @rule()
    def stop(self) -> None:
        self.pulling.consumer.stop(self.pulling.now)
        self.streams = False

    # -- the server ----------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 12))
    def deliver(self, count: int) -> None:
        self.collect()
        while count and self.waiting:
            request = self.waiting.pop(0)
            payload = b"%d" % len(self.delivered)
            self.delivered.append(payload)
            self.pulling.messages(payload)
            request["left"] -= 1
            if request["left"]:
                self.waiting.append(request)
            count -= 1
            self.collect()

    @rule(text=st.sampled_from(RETRIED + ENDED), which=st.integers(0, 9), counted=st.booleans())
    def end(self, text: str, which: int, counted: bool) -> None:
        self.collect()
        if self.waiting:
            request = self.waiting.pop(which % len(self.waiting))
            pending = f"\r\nNats-Pending-Messages: {request['left']}\r\nNats-Pending-Bytes: 0" if counted else ""
            self.pulling.status(request, text + pending)

    @rule(which=st.integers(0, 9))
    def heartbeat(self, which: int) -> None:
        self.collect()
        if self.waiting:
            self.pulling.status(self.waiting[which % len(self.waiting)], "100 Idle Heartbeat")

    # -- the network, and time -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.linked)
    @rule()
    def lose(self) -> None:
        self.collect()
        self.pulling.lose()
        self.linked = False
        self.waiting.clear()

    @precondition(lambda self: not self.linked)
    @rule()
    def restore(self) -> None:
        self.pulling.advance(3)
        self.pulling.connect()
        self.linked = True

    @rule(seconds=st.sampled_from([0.05, 0.6, 3.0, 16.0]))
    def wait(self, seconds: float) -> None:
        self.pulling.advance(seconds)

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def take_what_is_done(self) -> None:
        for fetch in [fetch for fetch in self.fetches if fetch.done.done]:
            self.fetches.remove(fetch)
            try:
                messages = self.pulling.taken(fetch)
                assert len(messages) <= fetch.batch
                self.taken += messages
            except Error:
                assert self.pulling.consumer.take(fetch) == []
        assert len(set(self.taken)) == len(self.taken)
        assert set(self.taken) <= set(self.delivered)
        consumer = self.pulling.consumer
        if self.linked and consumer._stream.prefetch is not None and not consumer.pending_msgs:
            self.collect()
            assert self.waiting or Timer.PULL_AGAIN in consumer._timers  # or it would wait for ever

    def teardown(self) -> None:
        if not hasattr(self, "pulling"):
            return
        self.pulling.advance(20.0 + ANSWER_GRACE + 15.0)
        self.take_what_is_done()
        assert self.fetches == []  # every fetch ends
        if self.streams:
            self.pulling.consumer.stop(self.pulling.now)
        self.taken += self.pulling.popped()
        assert sorted(self.taken) == sorted(self.delivered)  # nothing lost, nothing twice


TestPulls = Pulls.TestCase
TestPulls.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
