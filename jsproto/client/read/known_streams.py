"""What a consistent session knows of streams, and whether it still holds: the token, and the proofs of its positions.

* A position from outside is proved before anything is read of its stream: one of another session's token, or one from
  before a lost link. That takes the leader's state, and the message at the position unless it is the last one.
* Meanwhile nothing is asked. What comes anyway is compared: a message at the position, and the leader's state.
* What speaks against a position is proved, too. The leader has to say so twice, with ``ELECTION`` between.
* After that all reads of the stream fail, until ``forget``.
* Where the leader may not be asked, or no API answers, the position stands as it is.
* A position without a witness, as those of writes, is only compared with the last sequence of the leader.

Not here: the rule (``rules.position``), the questions (``proof``), the reads (``consistency``, ``consistent_batch``).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jsproto.client.read.proof import prove
from jsproto.client.read.retry import TRY_FOR, consistent_backoff
from jsproto.client.read.single import is_without_leader
from jsproto.errors import (
    APIError,
    Error,
    JetStreamNotAvailableError,
    PermissionsViolationError,
    RemoteProtocolError,
    StaleReadError,
    StreamRecreatedError,
    StreamRolledBackError,
    TimeoutError,
)
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.stored import stored_at
from jsproto.outbox import Conversation
from jsproto.rules.position import NEGATIVE, PositionCheck, StreamFacts, Verdict, is_other
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream


class _Wait:
    """A read that waits for a proof."""

    __slots__ = ("stream", "ticket", "timeout")

    def __init__(self, stream: str, timeout: float) -> None:
        self.stream = stream
        self.timeout = timeout
        self.ticket: Ticket[None] = Ticket()


class KnownStreams(Conversation):
    """The token of one session, and the proofs of its positions that are owed or under way.

    Attribute: ``token`` (what the session has written and read, which each read may raise).
    """

    __slots__ = ("_asking", "_checks", "_deadlines", "_floors", "_js", "_links", "_owed", "_pauses", "_waits", "token")

    def __init__(self, js: JetStream, token: SessionToken) -> None:
        self.token = token
        self._js = js
        self._links = js.session.stats["reconnects"]
        self._checks: dict[str, PositionCheck] = {}  # of what was read, by proofs
        self._floors: dict[str, PositionCheck] = {}  # of what reads have to reach, by any state that comes
        self._owed = {name for name, _ in token.items() if token.seen(name)}  # to be proved before a read
        self._asking: dict[str, PositionCheck] = {}  # whose proof is under way
        self._waits: dict[_Wait, Error | None] = {}  # with why there is no proof yet
        self._pauses = consistent_backoff()
        self._deadlines: Deadlines[_Wait | str] = Deadlines()  # ends of waits, and when to ask about a stream again

    # -- what is known -------------------------------------------------------------------------------------------------

    def merge(self, token: SessionToken) -> None:
        """Add what another session knew. Positions that are news are owed a proof."""
        self._owed.update(name for name, _ in token.items() if token.seen(name) not in (None, self.token.seen(name)))
        self.token = self.token.merge(token)

    def forget(self, stream: str) -> None:
        """Nothing is known of ``stream`` any more, and nothing is owed."""
        self.token = self.token.without(stream)
        self._checks.pop(stream, None)
        self._floors.pop(stream, None)
        self._owed.discard(stream)
        self._settle(stream, None)

    def saw(self, stream: str, seq: int, time: int | None) -> bool:
        """Add message ``seq`` that was read, stored at ``time``. False, and not added: it speaks against the position.

        ``time``: nanoseconds since the epoch, None where it is not known.
        """
        seen = self.token.seen(stream)
        if seen is not None and seen.seq == seq and is_other(seen, time):
            self._owed.add(stream)
            return False
        check = self._floors.get(stream)
        identity = None if seen is None else seen.identity
        if check is not None and check.facts is not None and check.again_at is None:
            identity = check.facts.identity
        self.token = self.token.after_read(stream, seq, time, identity)
        return True

    def heard(self, stream: str, info: StreamInfo, now: float) -> Verdict:
        """The leader has told the stream's state, while a read asked for it.

        The verdict is of the position that reads have to reach. ``ASK_AGAIN``: this answer is not to be believed.
        """
        if stream in self._asking:
            return Verdict.ASK_AGAIN
        return self._reached(stream, StreamFacts.of(info), now)

    def position(self, stream: str) -> StreamPosition:
        """The position that reads have to reach, with its witness where it has one."""
        floor, seen = self.token[stream].floor, self.token.seen(stream)
        if seen is not None and seen.seq == floor:
            return seen
        return StreamPosition(stream, floor, None if seen is None else seen.identity)

    def is_doubted(self, stream: str) -> bool:
        """Whether the leader has spoken against the position, and a witness could show more."""
        return self._pending(stream) is not None and self.token.seen(stream) is not None

    # -- proofs --------------------------------------------------------------------------------------------------------

    def owes(self, stream: str) -> bool:
        """Whether the position is to be proved before anything is read of ``stream``."""
        if self._links != self._js.session.stats["reconnects"]:
            self._links = self._js.session.stats["reconnects"]
            self._owed.update(name for name, _ in self.token.items() if self.token.seen(name))
            for check in self._floors.values():
                check.facts = None  # what is read from now on may be of another stream
        return stream in self._owed or (stream in self._asking and stream in self._checks)

    def doubt(self, stream: str) -> None:
        """The position is owed a proof."""
        self._owed.add(stream)

    def prove(self, stream: str, now: float, timeout: float) -> Ticket[None]:
        """Wait for the proof of a position that ``owes`` one, for ``timeout`` seconds.

        The ticket fails with:
            StreamRecreatedError, StreamRolledBackError: the position is of what is not there any more.
            StaleReadError: the leader said so, and time was too short to hear it twice.
            TimeoutError, APIError: the leader did not answer, or refused.
            ConnectionClosedError: the session, or the connection, has ended.
        """
        wait = _Wait(stream, timeout)
        self._waits[wait] = None
        self._deadlines.set(wait, now + timeout)
        self._ask(stream, timeout, now)
        self._js.session.rearm(self)
        return wait.ticket

    def close(self, error: Error) -> None:
        """Reads that wait for a proof fail."""
        for wait in list(self._waits):
            self._end(wait, error)
        self._deadlines = Deadlines()
        self._js.session.rearm(self)

    def crashed(self, error: Error, now: float) -> None:
        """Reads that wait for a proof fail with ``error``."""
        self.close(error)

    def handle_timeout(self, now: float) -> None:
        """Time has passed: ask once more, or give up."""
        for due in self._deadlines.due(now):
            if isinstance(due, _Wait):
                self._end(due, self._late(due))
            else:
                wait = next((each for each in self._waits if each.stream == due), None)
                if wait is not None:
                    self._ask(due, wait.timeout, now)
        self._js.session.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        return self._deadlines.next()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _pending(self, stream: str) -> PositionCheck | None:
        """The check of which the leader has spoken against the position once."""
        for check in (self._checks.get(stream), self._floors.get(stream)):
            if check is not None and check.again_at is not None:
                return check
        return None

    def _reached(self, stream: str, facts: StreamFacts, now: float) -> Verdict:
        """What the leader's state says of the position that reads have to reach."""
        position = self.position(stream)
        if not position.seq:
            return Verdict.SAME
        check = self._floors.setdefault(stream, PositionCheck(position))
        check.position = position
        return check.state(facts, now)

    def _ask(self, stream: str, timeout: float, now: float) -> None:
        """Ask the leader about the position, unless that is under way, or it is too soon."""
        if stream in self._asking:
            return
        pending = self._pending(stream)
        if pending is not None and pending.again_at is not None and now < pending.again_at:
            self._deadlines.set(stream, pending.again_at)
            return
        position = self.token.seen(stream) or self.position(stream)
        check = self._checks.setdefault(stream, PositionCheck(position))
        check.position, check.facts = position, None
        self._owed.discard(stream)
        self._asking[stream] = check
        self._js.session.note(now)
        self._js.session.run(self._proved(stream, check, timeout * TRY_FOR, now))

    def _proved(
        self, stream: str, check: PositionCheck, timeout: float, now: float
    ) -> Generator[Ticket[Any], Any, None]:
        verdict: Verdict | None = None
        failed: Error | None = None
        try:
            verdict = yield from prove(self._js, check, now=now, timeout=timeout)
        except (PermissionsViolationError, JetStreamNotAvailableError):
            verdict = check.unanswered()
        except Error as error:
            failed = error
        seq = check.position.seq
        if check.facts is not None and verdict not in (None, Verdict.ASK_AGAIN, *NEGATIVE):
            if self.position(stream).seq == seq:
                self._floors.pop(stream, None)
            else:
                seq, verdict = self.position(stream).seq, self._reached(stream, check.facts, now)
        now = self._js.session.now
        del self._asking[stream]
        if check is not self._checks.get(stream):  # it was forgotten meanwhile
            self._ask_again(stream, now)
        elif verdict in NEGATIVE:
            self._owed.add(stream)
            self._settle(stream, lost(stream, verdict, seq))
        elif verdict is Verdict.ASK_AGAIN:
            self._owed.add(stream)
            self._ask_again(stream, now)
        elif verdict is not None:
            self._pauses.reset()
            self._learn(check)
            if stream in self._owed:  # another position came from outside
                self._ask_again(stream, now)
            else:
                self._settle(stream, None)
        else:
            assert failed is not None  # without a verdict there is an error
            self._owed.add(stream)
            self._failed(stream, failed, now)

    def _failed(self, stream: str, error: Error, now: float) -> None:
        """The leader could not be asked: again, while somebody waits, unless it has refused."""
        if self._js.session.closed_error is not None or (isinstance(error, APIError) and not is_without_leader(error)):
            self._settle(stream, error)
            return
        for wait in self._waits:
            if wait.stream == stream:
                self._waits[wait] = error
        pause = self._pauses.failed(now)
        assert pause is not None  # each wait gives up by its own time
        self._ask_again(stream, now + pause)

    def _ask_again(self, stream: str, when: float) -> None:
        self._deadlines.set(stream, when)
        self._js.session.rearm(self)

    def _learn(self, check: PositionCheck) -> None:
        """The position stands: the token has it with the identity of its stream."""
        position, facts = check.position, check.facts
        if position.witness is not None and facts is not None:
            seen = replace(position, identity=position.identity or facts.identity)
            self.token = self.token.after_read(seen.stream, seen.seq, seen.witness, seen.identity)

    def _late(self, wait: _Wait) -> Error:
        """The error of a read whose time is over before there is a proof."""
        check, stream = self._pending(wait.stream), wait.stream
        if check is None:
            return self._waits[wait] or TimeoutError(f"no answer about stream {stream} within {wait.timeout:g} s")
        floor, facts = self.token[stream].floor, check.facts
        return StaleReadError(stream, floor, facts.last_seq if facts is not None and facts.last_seq < floor else None)

    def _settle(self, stream: str, error: Error | None) -> None:
        """There is an answer for all reads of ``stream`` that wait."""
        for wait in [wait for wait in self._waits if wait.stream == stream]:
            self._end(wait, error)

    def _end(self, wait: _Wait, error: Error | None) -> None:
        del self._waits[wait]
        self._deadlines.set(wait, None)
        if error is None:
            wait.ticket.succeed(None)
        else:
            wait.ticket.fail(error)
        self._js.session.completed(wait.ticket)


def lost(stream: str, verdict: Verdict, seq: int) -> Error:
    """The error of reads of a stream with a negative verdict about the position ``seq``."""
    return StreamRecreatedError(stream) if verdict is Verdict.RECREATED else StreamRolledBackError(stream, seq)


def time_of(header: bytes) -> int | None:
    """When the message of a Direct Get reply was stored, in nanoseconds since the epoch. None: it does not say so."""
    try:
        time = stored_at(header)
    except RemoteProtocolError:
        return None
    return time if time > 0 else None
