"""Sessions over replicas that lag as they please: no read is ever older than what its session knew before."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jsproto.client.read.consistent_session import ConsistentSession
from jsproto.errors import Error, MessageNotFoundError, StaleReadError
from jsproto.grammar.acks import PubAck
from jsproto.ticket import Ticket
from tests.client.lagging import Replicas
from tests.harness import Harness
from tests.marks import promise, requirement

SUBJECTS = ("a", "b", "c.1", "c.2")
REPLICAS = 3
STEP = 0.05  # seconds


@requirement(256)
@promise("**consistent sessions** that read their own writes and never read backwards")
@promise("a last message, a next message", of="Guarantees")
@promise("a last message, a next message", of="Reading what was written")
@promise("never an older price, from any server")
@promise("Reads that are never older than what this session has written and read.")
@promise("Reads that are never older than what was written and read.")
class Sessions(RuleBasedStateMachine):
    """Two sessions of one client and three replicas, whose positions, turns and deaths are arbitrary.

    The model: for each session the highest sequence that it wrote, read or was told of. What a read may return then
    follows from the log alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replicas = Replicas(positions=(0,) * REPLICAS)
        self.replicas.turns = iter(self._leadership, None)
        self.turn = 0
        self.h = Harness(max_reconnect_attempts=-1)
        self.sessions = [self.open() for _ in range(2)]
        self.floors = [0, 0]

    def _leadership(self) -> int:
        self.turn = (self.turn * 5 + 3) % 16
        return self.turn % REPLICAS

    def open(self, token: bytes | None = None) -> ConsistentSession:
        return self.h.js.consistent_session(token=token, timeout=2.0)

    @property
    def end(self) -> int:
        return self.replicas.log[-1].seq if self.replicas.log else 0

    # -- the servers ---------------------------------------------------------------------------------------------------

    @rule(which=st.integers(0, 1), subject=st.sampled_from(SUBJECTS))
    def write(self, which: int, subject: str) -> None:
        seq = self.replicas.write(subject)
        self.sessions[which].record(PubAck("S", seq))
        self.floors[which] = seq

    @rule(subject=st.sampled_from(SUBJECTS))
    def somebody_else_writes(self, subject: str) -> None:
        self.replicas.write(subject)

    @rule(replica=st.integers(0, REPLICAS - 1), data=st.data())
    def move(self, replica: int, data: st.DataObject) -> None:
        """Forward, or to the beginning again: a replica that starts over."""
        self.replicas.positions[replica] = data.draw(st.integers(0, self.end))

    @rule(replica=st.integers(0, REPLICAS - 1))
    def stop(self, replica: int) -> None:
        self.replicas.silent = {replica}

    @rule()
    def resume(self) -> None:
        self.replicas.silent = set()

    @rule(data=st.data())
    def depose(self, data: st.DataObject) -> None:
        """One that is behind takes itself for the leader."""
        self.replicas.leader = data.draw(st.integers(0, self.end))

    @rule()
    def elect(self) -> None:
        self.replicas.leader = self.end

    @rule(turn=st.integers(0, 15))
    def shuffle(self, turn: int) -> None:
        self.turn = turn

    @rule()
    def cut(self) -> None:
        self.h.lose()
        while self.h.session.connect_to is None:
            self.h.advance(1.0)
        self.h.connect()

    # -- the sessions --------------------------------------------------------------------------------------------------

    @rule(one=st.integers(0, 1))
    def hand_over(self, one: int) -> None:
        """The token of one, as bytes, to the other."""
        self.sessions[1 - one].merge(self.sessions[one].token.to_bytes())
        self.floors[1 - one] = max(self.floors)

    @rule(which=st.integers(0, 1))
    def move_to_another_process(self, which: int) -> None:
        token = self.sessions[which].token.to_bytes()
        self.sessions[which].close()
        self.sessions[which] = self.open(token)

    @precondition(lambda self: self.end)
    @rule(which=st.integers(0, 1), subject=st.sampled_from((*SUBJECTS, "c.*", ">")))
    def read_last(self, which: int, subject: str) -> None:
        before = self.floors[which]
        answer = self._wait(self.sessions[which].get_last_msg("S", subject, now=self.h.now))
        of_subject = [
            m.seq for m in self.replicas.log if subject in (m.subject, ">") or m.subject[:2] == subject[:2] == "c."
        ]
        if subject in SUBJECTS:
            of_subject = [m.seq for m in self.replicas.log if m.subject == subject]
        known = [seq for seq in of_subject if seq <= before]
        if isinstance(answer, MessageNotFoundError):
            assert not known
        elif isinstance(answer, StaleReadError):
            assert answer.wanted == before
        elif not isinstance(answer, Error):
            assert answer.seq in of_subject
            assert not known or answer.seq >= known[-1]
            self.floors[which] = max(before, answer.seq)

    @precondition(lambda self: self.end)
    @rule(which=st.integers(0, 1), data=st.data())
    def read_by_sequence(self, which: int, data: st.DataObject) -> None:
        seq = data.draw(st.integers(1, self.end))
        answer = self._wait(self.sessions[which].get_msg("S", seq, now=self.h.now))
        if isinstance(answer, MessageNotFoundError):
            assert seq > self.floors[which]
        elif not isinstance(answer, Error):
            assert answer.seq == seq
            self.floors[which] = max(self.floors[which], seq)

    @precondition(lambda self: self.end)
    @rule(which=st.integers(0, 1), many=st.sampled_from(["get_batch", "get_last_msgs_for"]))
    def read_many(self, which: int, many: str) -> None:
        before = self.floors[which]
        arguments: tuple[Any, ...] = () if many == "get_batch" else ([">"],)
        batch = getattr(self.sessions[which], many)("S", *arguments, now=self.h.now, timeout=2.0)
        found: list[int] = []
        while (messages := batch.pop_many(3, self.h.now)) or not batch.finished:
            found += [message.seq for message in messages]
            if not messages and not batch.finished and isinstance(self._wait(batch.readable()), Error):
                self.floors[which] = max(before, *found, 0)
                batch.close(self.h.now)
                return
        self.floors[which] = max(before, *found, 0)
        wanted = {m.seq for m in self.replicas.log if m.seq <= before}
        if many == "get_batch":
            assert found == sorted(set(found))
            assert wanted <= set(found)
        else:
            last = {m.subject: m.seq for m in self.replicas.log if m.seq <= before}
            got = {m.subject: m.seq for m in self.replicas.log if m.seq in found}
            assert all(got[subject] >= seq for subject, seq in last.items())

    def _wait(self, ticket: Ticket[Any]) -> Any:
        for _ in range(int(10 / STEP)):
            self.replicas.serve(self.h)
            if ticket.done:
                return ticket.error or ticket.result()
            self.h.advance(STEP)
        raise AssertionError("a read does not end")

    @invariant()
    def the_token_knows_what_the_model_knows(self) -> None:
        for session, floor in zip(self.sessions, self.floors, strict=True):
            assert session.token["S"].floor >= floor


TestSessions = Sessions.TestCase
