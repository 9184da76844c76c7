"""Sessions over a stream that comes back shorter, grows again, or is made anew: none takes one message for another."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from jsproto.client.read.consistent_session import ConsistentSession
from jsproto.errors import (
    Error,
    MessageNotFoundError,
    StaleReadError,
    StreamRecreatedError,
    StreamRolledBackError,
)
from jsproto.grammar.acks import PubAck
from jsproto.grammar.times import parse_timestamp
from jsproto.ticket import Ticket
from tests.client.lagging import Replicas, Stored
from tests.harness import Harness
from tests.marks import promise

STEP = 0.25  # seconds
VERBS = ("last", "next", "seq", "leader", "batch", "lasts")


class Known:
    """What the model has of one session: the last message read, with its time, and the last sequence written."""

    def __init__(self) -> None:
        self.read: tuple[int, int] | None = None
        self.written = 0


@promise("A token from outside, or a session over a new link")
@promise("`StreamRolledBackError` reports a stream that came back shorter, also one that has grown again.")
class RolledBack(RuleBasedStateMachine):
    """Two sessions of one client, and a server that may lose its last messages whenever it starts anew.

    The model: which message each sequence has stood for since the stream was made. It says whether a session's position
    holds, and a read fails if it does not, and only then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replicas = Replicas()
        self.history: list[int] = []  # when each message was stored, deleted ones too
        self.ticks = 0
        self.h = Harness(max_reconnect_attempts=-1)
        self.sessions = [self.open(), self.open()]
        self.known = [Known(), Known()]

    def open(self, token: bytes | None = None) -> ConsistentSession:
        return self.h.js.consistent_session(token=token, timeout=20.0)

    # -- the server ----------------------------------------------------------------------------------------------------

    def tick(self) -> str:
        self.ticks += 1
        return f"2026-11-20T20:36:47.{self.ticks:09d}Z"

    def store(self, count: int) -> int:
        for _ in range(count):
            time = self.tick()
            self.history.append(parse_timestamp(time.encode()))
            self.replicas.log.append(Stored(len(self.history), "a", time))
        self.replicas.leader = len(self.history)
        self.replicas.catch_up()
        return len(self.history)

    @rule(which=st.integers(0, 1))
    def write(self, which: int) -> None:
        known = self.known[which]
        known.written = max(known.written, self.store(1))
        self.sessions[which].record(PubAck("S", len(self.history)))

    @rule(count=st.integers(1, 4))
    def somebody_else_writes(self, count: int) -> None:
        self.store(count)

    @precondition(lambda self: self.replicas.log)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.replicas.delete(data.draw(st.sampled_from(self.replicas.log)).seq)

    @rule(data=st.data(), again=st.integers(0, 6))
    def crash(self, data: st.DataObject, again: int) -> None:
        """The server starts anew, perhaps with fewer messages, and others follow."""
        kept = data.draw(st.integers(0, len(self.history)))
        self.replicas.log = [message for message in self.replicas.log if message.seq <= kept]
        del self.history[kept:]
        self.store(again)
        self.cut()

    @rule(again=st.integers(0, 6))
    def make_anew(self, again: int) -> None:
        self.replicas.log, self.history = [], []
        self.replicas.created = self.tick()
        self.store(again)
        self.cut()

    @rule()
    def cut(self) -> None:
        self.h.lose()
        while self.h.session.connect_to is None:
            self.h.advance(1.0)
        self.h.connect()

    # -- the sessions --------------------------------------------------------------------------------------------------

    @rule(one=st.integers(0, 1))
    def move_to_another_process(self, one: int) -> None:
        token = self.sessions[one].token.to_bytes()
        self.sessions[one].close()
        self.sessions[one] = self.open(token)

    @rule(which=st.integers(0, 1), verb=st.sampled_from(VERBS))
    def read(self, which: int, verb: str) -> None:
        known, session = self.known[which], self.sessions[which]
        holds, is_certain = self.judged(known, verb)
        answer = self.ask(session, verb)
        if verb == "lasts" and isinstance(answer, StaleReadError):
            assert not holds  # no replica came so far: the next read asks the leader why
            answer = self.ask(session, verb)
        if isinstance(answer, StreamRolledBackError | StreamRecreatedError):
            assert not holds, answer
            session.forget("S")
            self.known[which] = Known()
            answer = self.ask(session, verb)
            assert not isinstance(answer, StreamRolledBackError | StreamRecreatedError)
            known = self.known[which]
        else:
            assert holds or not is_certain, f"{verb} gave {answer!r}"
        assert isinstance(answer, int | MessageNotFoundError)
        if isinstance(answer, int) and answer and (known.read is None or answer >= known.read[0]):
            known.read = answer, self.history[answer - 1]

    def judged(self, known: Known, verb: str) -> tuple[bool, bool]:
        """Whether the session's position is what it was, and whether anybody can know it if it is not.

        A write alone has no witness, and a read by sequence asks for none. A message that was deleted since has none,
        either, if all before it that are newer were deleted, too.
        """
        end = len(self.history)
        if known.read is None:
            return known.written <= end, verb != "seq"
        seq, time = known.read
        if seq > end:
            return False, True
        newer = [m.seq for m in self.replicas.log if parse_timestamp(m.time.encode()) > time]
        there = seq in [m.seq for m in self.replicas.log] or seq == end or any(each < seq for each in newer)
        if self.history[seq - 1] == time:
            return known.written <= end, verb != "seq"
        return False, there or (known.written > end and verb != "seq")

    def ask(self, session: ConsistentSession, verb: str) -> Any:
        """The last sequence that was read, 0 if there is none, or the error."""
        now = self.h.now
        if verb in ("batch", "lasts"):
            batch: Any = session.get_batch("S", now=now)
            if verb == "lasts":
                batch = session.get_last_msgs_for("S", ["a"], now=now)
            last = 0
            while (messages := batch.pop_many(3, self.h.now)) or not batch.finished:
                last = messages[-1].seq if messages else last
                if not messages and not batch.finished and isinstance(error := self.wait(batch.readable()), Error):
                    return error
            return last
        if verb == "seq":
            ticket = session.get_msg("S", max(len(self.history), 1), now=now)
        elif verb == "next":
            ticket = session.get_msg("S", 1, next=True, now=now)
        else:
            ticket = session.get_last_msg("S", "a", now=now, level="leader" if verb == "leader" else "direct")
        answer = self.wait(ticket)
        return answer if isinstance(answer, Error) else answer.seq

    def wait(self, ticket: Ticket[Any]) -> Any:
        for _ in range(int(60 / STEP)):
            self.replicas.serve(self.h)
            if ticket.done:
                return ticket.error or ticket.result()
            self.h.advance(STEP)
        raise AssertionError("a read does not end")


TestRolledBack = RolledBack.TestCase
