"""What a stream's leader says to a read: its answers, and what of them is known.

Rules:

* *Without a leader just now*: a 503, or a stream that is offline, is a reason to ask again. So is an API that does not
  answer any more. One that never answered is not there.
* *Still the same stream*: it was created when it was before, and ends no earlier than what was given out. The second
  time, ``ELECTION`` later, it came back shorter.
* *The end* is believed of a leader that has come at least as far as it was before, as the read, and as the session.

Not here: the questions (``direct``, ``consistency``), the position rule (``rules.position``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.connection.requests import is_no_responders
from jsproto.client.read.facts import Finding
from jsproto.client.read.single import is_without_leader, leader_message
from jsproto.enums import IdentityEnum
from jsproto.errors import (
    Error,
    JetStreamNotAvailableError,
    MessageNotFoundError,
    MessagesDroppedError,
    StreamRecreatedError,
    StreamRolledBackError,
)
from jsproto.grammar.api import decode_response
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.rules.belief import Fact, Phase
from jsproto.rules.position import NEGATIVE, PositionCheck, StreamFacts, Verdict, judge

if TYPE_CHECKING:
    from jsproto.client.read.feed import Feed
    from jsproto.client.read.plans import Plan
    from jsproto.client.read.single import Asked
    from jsproto.grammar.api import ApiSubjects
    from jsproto.grammar.stored import StoredMsg
    from jsproto.wire.frames import Msg


class Said(IdentityEnum):
    """What an answer of the leader's API is."""

    STATE = "the stream's state"
    MESSAGE = "the message that was asked for"
    NOTHING = "the stream has no such message"
    NO_API = "no API answers"
    NO_LEADER = "the stream has no leader just now, or is offline"
    GONE = "there is no such stream"
    REFUSED = "another error, or no answer as the protocol has it"


class Answer(NamedTuple):
    """An answer of the leader's API. ``info``, ``message`` and ``error`` as ``said`` says."""

    said: Said
    info: StreamInfo | None = None
    message: StoredMsg | None = None
    error: Error | None = None


def heard(answer: Msg, stream: str, asked: Asked | None = None) -> Answer:
    """What ``stream``'s leader says. ``asked``: what it was asked for, None for its state."""
    if is_no_responders(answer):
        return Answer(Said.NO_API)
    try:
        if asked is not None:
            return Answer(Said.MESSAGE, message=leader_message(stream, asked, answer))
        return Answer(Said.STATE, StreamInfo.from_json(decode_response(answer.payload, about=f"stream {stream}")))
    except MessageNotFoundError as error:
        return Answer(Said.NOTHING, error=error)
    except StreamNotFoundError as error:
        return Answer(Said.GONE, error=error)
    except Error as error:
        return Answer(Said.NO_LEADER if is_without_leader(error) else Said.REFUSED, error=error)


class Guard(Protocol):
    """What a session demands of a read."""

    def floor(self) -> int:
        """The sequence before which the end is believed of the leader alone."""

    def owes(self) -> bool:
        """Whether the session's position is to be proved before a page is asked for."""

    def prove(self, read: Provable, now: float) -> None:
        """Have the position proved. ``read`` hears how that ended."""

    def heard(self, info: StreamInfo, now: float) -> tuple[Verdict, StreamPosition]:
        """What the leader's state says of the session's position."""

    def stale(self, least: int, come_to: int) -> Error:
        """The error of a read whose servers have not come to ``least``."""


class Provable(Protocol):
    """A read that waits for a proof."""

    def proved(self, error: Error | None, now: float) -> None:
        """The position is proved, or could not be."""


class Leader:
    """What is known of a stream's leader.

    Attributes:

    * ``created``: when the stream was created, in nanoseconds since the epoch. None: it has not said.
    * ``last_seq``: how far it was, or has to be.
    * ``parts``: answers of any server that showed something, since it said how far it is.
    """

    __slots__ = ("_api", "_check", "_furthest", "_guard", "_stream", "created", "last_seq", "parts")

    def __init__(
        self, stream: str, api: ApiSubjects, at_least: int, guard: Guard | None, created: int | None = None
    ) -> None:
        """``at_least``: ``last_seq`` at first."""
        self._stream = stream
        self._api = api
        self.created = created
        self.last_seq = at_least
        self.parts = 0
        self._guard = guard
        self._furthest = 0
        self._check: PositionCheck | None = None  # of what was given out

    @property
    def must_reach(self) -> int:
        """The sequence before which the end is believed of the leader alone. A session's token may rise meanwhile."""
        return self.last_seq if self._guard is None else max(self.last_seq, self._guard.floor())

    def answered(self, message: Msg, phase: Phase, feed: Feed, plan: Plan, lags: int, now: float) -> Finding:
        """What the leader's answer says to a read in ``phase``. ``lags``: how often in a row somebody lagged."""
        stream = self._stream
        said, info, found, error = heard(message, stream, {} if phase is Phase.NEXT else None)
        try:
            if info is not None:
                return self._judge_state(info, phase, feed, plan, now)
            if found is not None:
                return plan.judge_message(found, feed, lags)
        except Error as wrong:
            return Finding(Fact.WRONG, error=wrong)
        if said is Said.NOTHING:
            return plan.judge_end()
        if said is Said.NO_LEADER:
            return Finding(Fact.NO_LEADER, str(error))
        if said is Said.NO_API:
            error = JetStreamNotAvailableError(self._api.stream_info(stream))
            was_there = feed.has_begun or self.created is not None
            return Finding(Fact.NO_LEADER if was_there else Fact.WRONG, str(error), error)
        return Finding(Fact.GONE if said is Said.GONE else Fact.WRONG, error=error)

    def _judge_state(self, info: StreamInfo, phase: Phase, feed: Feed, plan: Plan, now: float) -> Finding:
        """The leader has told its state. Where ``feed`` holds messages, they have not been given out."""
        stream = self._stream
        verdict, position = self._judge_position(info, feed, now)
        if verdict is Verdict.RECREATED:
            return Finding(Fact.WRONG, error=StreamRecreatedError(stream))
        if verdict is Verdict.ROLLED_BACK or phase is Phase.OTHER:
            return Finding(Fact.WRONG, error=StreamRolledBackError(stream, position.seq))
        self.created = info.created
        if phase is Phase.WHY:
            return Finding(Fact.ALLOWED if info.config.allow_direct else Fact.FORBIDDEN)
        state, wanted = info.state, plan.dropped(info.state.first_seq, feed)
        if wanted:
            return Finding(Fact.WRONG, error=MessagesDroppedError(wanted, state.first_seq))
        least = max(self.must_reach, position.seq)
        if state.last_seq < least or verdict is Verdict.ASK_AGAIN:
            text = f"the leader is at sequence {state.last_seq}, and the read has to come to {least}"
            return self.lags(state.last_seq, text, feed.start[0] if feed.has_begun else 0)
        self.last_seq, self.parts = state.last_seq, 0
        return plan.judge_state(state, phase, feed)

    def lags(self, last_seq: int, text: str, received: int) -> Finding:
        """Whoever answered has come to ``last_seq`` only. ``received``: the last sequence that the read has."""
        self._furthest = furthest = max(last_seq, self._furthest, received)
        error = None if self._guard is None else self._guard.stale(self.must_reach, furthest)
        return Finding(Fact.LAGS, text, error, come_to=furthest)

    def _judge_position(self, info: StreamInfo, feed: Feed, now: float) -> tuple[Verdict, StreamPosition]:
        """What the state says about a position: that of what was given out, else the session's.

        A stream that was made anew is none to wait for: one answer is enough.
        """
        facts = StreamFacts.of(info)
        identity = None if self.created is None else str(self.created)
        position = feed.given_out(self._stream, identity)
        if self._check is None:
            self._check = PositionCheck(position)
        self._check.position = position
        verdict = self._check.state(facts, now)
        if judge(position, facts) is Verdict.RECREATED:
            return Verdict.RECREATED, position
        if self._guard is None or verdict in NEGATIVE or verdict is Verdict.ASK_AGAIN:
            return verdict, position
        return self._guard.heard(info, now)
