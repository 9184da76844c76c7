"""Proof that a position still means what it meant: what the stream's leader says about it.

* A stream with another identity was deleted and made again. So was one that is younger than the message at the
  position, where the identity is unknown. A stream that was restored has messages that are older than itself.
* A stream that ends before the position came back shorter: it was restored, or its server lost messages.
* The message at the position with another time is another message: the stream came back shorter, and grew again.
* The message at the position may be gone. If the stream begins after it, retention or a purge took it.
  Otherwise it was deleted, overwritten or has expired by itself, and all later messages are there.
* Where age alone takes the front, messages younger than ``max_age`` were not taken. Those after a position are no older
  than its witness. So as long as that is young, they have gone by themselves.
* Where it is gone, the first message stored after its time decides: with a lower sequence, the stream came back
  shorter. Messages of one moment keep their order. A clock that was set back by a change of leaders looks the same.
* The state of a stream has the time of its last message, deleted or not (FACTS.md F6.20). So a position at the end is
  proved by the state alone.
* A refutation takes two answers: a leader that was replaced may tell its past. Two do, with ``ELECTION`` between.

Not here: who asks, and what a reader does after a verdict. A leader that is cut off from its cluster tells its past
until the network heals: nobody sees that.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final, Self

from jsproto._event import event
from jsproto.api_errors import NoMessageFoundError
from jsproto.enums import IdentityEnum
from jsproto.errors import RemoteProtocolError
from jsproto.grammar.api import decode_response
from jsproto.grammar.bodies import dumps, text, uint64
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.times import format_timestamp, parse_timestamp

ELECTION: Final = 4.0
"""Seconds: longer than a leader that was replaced goes on answering. A heartbeat of its successor comes within 1 s."""
CLOCKS: Final = 1.0
"""Seconds by which the clocks of two leaders of a stream may differ."""
GONE_AT: Final = -(2**63)
"""Stands for the time of a message that is not there. No time stamp is so early."""


class Verdict(IdentityEnum):
    """What a stream's answers say about a position."""

    SAME = "the message at the position is there, or was the last one"
    UNPROVEN = "nothing speaks against the position, and it has no witness"
    GONE = "the message at the position is gone by itself, and what came after it follows"
    DROPPED = "the stream begins later: retention or a purge took messages after the position"
    ROLLED_BACK = "the stream came back shorter than it was, and other messages have its sequences"
    RECREATED = "the stream was deleted and made again"
    LOOK = "ask for the message at the position"
    LOOK_BACK = "ask for the first message stored after the witness"
    ASK_AGAIN = "ask once more, after ``ELECTION``: one answer is not enough to believe this"


NEGATIVE: Final = frozenset({Verdict.ROLLED_BACK, Verdict.RECREATED})
"""The verdicts after which a sequence stands for another message."""
LOOKS: Final = frozenset({Verdict.LOOK, Verdict.LOOK_BACK})
"""The verdicts that ask for one message more."""


@event
class StreamFacts:
    """What a stream's leader says of the stream. Times are in nanoseconds since the epoch, and None is unknown.

    Attributes:
        ``identity``, ``first_seq``, ``last_seq``: as the state has them.
        ``last_time``: when its last message was stored, deleted or not. None: there never was one.
        ``drops_front``: whether a later beginning means that messages were lost.
        ``since``: a time before all of its messages.
        ``young``: where age alone drops the front, the time from which messages are too young for that.
    """

    identity: str | None
    first_seq: int
    last_seq: int
    last_time: int | None
    drops_front: bool = True
    since: int | None = None
    young: int | None = None

    @classmethod
    def of(cls, info: StreamInfo, identity: str | None = None) -> Self:
        """The facts in the answer to STREAM.INFO. ``identity``: where it differs from the time at which the stream was
        ``created``.
        """
        state, created = info.state, identity if identity is not None else identity_of(info)
        drops, since, young = drops_front(info.config), _since(info), _young(info)
        return cls(created, state.first_seq, state.last_seq, state.last_ts, drops, since, young)

    def position(self, stream: str) -> StreamPosition:
        """The position at the end of the stream."""
        return StreamPosition(stream, self.last_seq, self.identity, self.last_time)

    def missing(self, position: StreamPosition) -> int:
        """How many sequences after the position have gone from the stream's front."""
        return max(self.first_seq - position.seq - 1, 0)

    def spares(self, since: int | None) -> float:
        """For how many seconds the stream drops nothing from its front that was stored at ``since`` or later.

        ``inf``: never. 0: it may have. ``since``: in nanoseconds since the epoch. None: unknown.
        """
        if not self.drops_front:
            return inf
        since = self.since if since is None else since
        return 0.0 if since is None or self.young is None else max(since - self.young, 0) / 1e9


def identity_of(info: StreamInfo) -> str | None:
    """When a stream was created, as an identity. None: the server leaves it out."""
    return None if info.created is None else str(info.created)


def _since(info: StreamInfo) -> int | None:
    """When the stream was created, if all of its messages are younger: those of a mirror or a restored one may be
    older.
    """
    created, first = info.created, info.state.first_ts
    if created is None or info.config.mirror is not None or (first is not None and first < created):
        return None
    return created


def drops_front(config: StreamConfig) -> bool:
    """Whether a later first sequence means that messages were lost.

    It does not where each message goes by itself: by limits for each subject or a time to live alone. It does where age
    or size drop the oldest, where consumers or acknowledgements do, and where only a purge can.
    """
    return drops_oldest(config) or not (_is_set(config.max_msgs_per_subject) or config.allow_msg_ttl)


def drops_oldest(config: StreamConfig) -> bool:
    """Whether age, size, consumers or acknowledgements take messages from the front, without anybody's purge."""
    if config.retention not in (None, "limits") or _is_set(config.max_age):
        return True
    return config.discard != "new" and (_is_set(config.max_msgs) or _is_set(config.max_bytes))


def _young(info: StreamInfo) -> int | None:
    """From when on messages are too young to be dropped, where nothing else but age drops the front."""
    config, age = info.config, info.config.max_age
    if info.ts is None or not age or drops_front(replace(config, max_age=None)):
        return None
    return info.ts - round((age - CLOCKS) * 1e9)


def _is_set(limit: float | None) -> bool:
    return limit is not None and limit > 0


def is_other(position: StreamPosition, at: int | None) -> bool:
    """Whether a message with the position's sequence, stored ``at``, is another one. False while that is unknown."""
    return None not in (position.witness, at) and position.witness != at


def judge(
    position: StreamPosition, facts: StreamFacts, at: int | None = None, first_since: int | None = None
) -> Verdict:
    """What these answers say about the position. ``ASK_AGAIN`` is for ``PositionCheck`` alone.

    ``at``: when the message at the position was stored, or ``GONE_AT``. None: unasked. ``first_since``: the sequence of
    the first message stored after the witness, or 0. None: unasked.
    """
    if None not in (position.identity, facts.identity) and position.identity != facts.identity:
        return Verdict.RECREATED
    if position.identity is None and position.witness is not None and position.witness < (facts.since or 0):
        return Verdict.RECREATED
    if facts.last_seq < position.seq:
        return Verdict.ROLLED_BACK
    if position.seq and position.witness is not None:
        verdict = _judge_witness(position, facts, at, first_since)
        if verdict is not None:
            return verdict
    if facts.missing(position) and not facts.spares(position.witness):
        return Verdict.DROPPED
    if position.seq and position.witness is None:
        return Verdict.UNPROVEN
    return Verdict.GONE if position.seq else Verdict.SAME


def _judge_witness(
    position: StreamPosition, facts: StreamFacts, at: int | None, first_since: int | None
) -> Verdict | None:
    """What the message at the position says, and those after it. None: it is gone, and nothing tells where to."""
    if position.seq == facts.last_seq and facts.last_time is not None:
        at = facts.last_time
    elif position.seq < facts.first_seq:
        at, first_since = GONE_AT, 0
    if at is None:
        return Verdict.LOOK
    if at != GONE_AT:
        return Verdict.ROLLED_BACK if is_other(position, at) else Verdict.SAME
    if first_since is None:
        return Verdict.LOOK_BACK
    return Verdict.ROLLED_BACK if 0 < first_since < position.seq else None


class PositionCheck:
    """The questions about one position, one after the other, until there is a verdict.

    Begin with the stream's state. ``LOOK`` asks for the message at the position, ``LOOK_BACK`` for the first one
    from ``since`` on. ``ASK_AGAIN`` begins anew at ``again_at``.

    Attributes: ``position``, ``facts`` (the last ones heard), ``again_at`` (when to begin anew, None: no doubt).
    """

    __slots__ = ("_at", "again_at", "facts", "position")

    def __init__(self, position: StreamPosition) -> None:
        self.position = position
        self.facts: StreamFacts | None = None
        self.again_at: float | None = None
        self._at: int | None = None

    def state(self, facts: StreamFacts, now: float) -> Verdict:
        """The stream's leader has told its state."""
        self.facts, self._at = facts, None
        return self._settle(judge(self.position, facts), now)

    @property
    def since(self) -> int:
        """The moment after the witness, in nanoseconds since the epoch."""
        return (self.position.witness or 0) + 1

    def question(self) -> bytes:
        """The body of the request to STREAM.MSG.GET that ``LOOK`` or ``LOOK_BACK`` asks for."""
        if self._at is None:
            return dumps({"seq": self.position.seq})
        return dumps({"start_time": format_timestamp(self.since), "next_by_subj": ">"})

    def answer(self, payload: bytes, now: float) -> Verdict:
        """STREAM.MSG.GET has answered ``question``.

        Raises:
            APIError: the leader refused it.
            RemoteProtocolError: the answer is no message.
        """
        try:
            body = decode_response(payload, about=f"stream {self.position.stream}")
        except NoMessageFoundError:
            return self.message(None, now)
        message = body.get("message")
        if not isinstance(message, dict):
            raise RemoteProtocolError("a stored message is an object", payload)
        try:
            place = uint64(message, "seq"), parse_timestamp(text(message, "time"))
        except ValueError as error:
            raise RemoteProtocolError(f"the time of a stored message: {error}", payload) from None
        return self.message(place, now)

    def message(self, found: tuple[int, int] | None, now: float) -> Verdict:
        """The leader has told a message that was asked for: its sequence and its time. None: there is none."""
        assert self.facts is not None  # its state comes first
        if self._at is None:
            self._at = GONE_AT if found is None else found[1]
            verdict = judge(self.position, self.facts, self._at)
        else:
            verdict = judge(self.position, self.facts, self._at, 0 if found is None else found[0])
        return self._settle(verdict, now)

    def unanswered(self) -> Verdict:
        """The message is forbidden to this user, or the question went unanswered."""
        return Verdict.UNPROVEN

    def _settle(self, verdict: Verdict, now: float) -> Verdict:
        if verdict not in NEGATIVE:
            if verdict not in LOOKS:
                self.again_at = None
            return verdict
        if self.again_at is None:
            self.again_at = now + ELECTION
        return verdict if now >= self.again_at else Verdict.ASK_AGAIN
