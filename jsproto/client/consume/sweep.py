"""The sweep for dead letters: messages that a consumer gave up although no advisory came. Servers lose advisories.

It looks at the stream twice, buries what both looks prove, and looks again after a pause.

Rules:

* Up to its ack floor a consumer has nothing outstanding. If nothing is, that holds for all that it delivered.
* What is still there, in a stream that deletes acknowledged messages, was never acknowledged (FACTS.md F5.37).
* That proves nothing where another consumer may want the message, or where the consumer began later than the stream.
* Consumers are swept that can give up: with ``max_deliver``, and with the ack policy ``explicit``.
* ``ELECTION`` seconds lie between both looks: an old leader may tell its past, and an advisory may be on its way.
* While advisories wait, nothing is swept: an advisory says more.
* A letter is missing only where letters have subjects of their own and stay (``DeadLetterPlan.is_kept_apart``).
* A message is looked at once. The position up to which each consumer was swept is kept, and written into the metadata
  of the consumer of the advisories once something was found. So a letter that is deleted later does not come back.

Not here: how a letter is stored, and stored once (``dead_letters``). A message that is terminated leaves such a stream.
In streams with retention ``limits`` acknowledged messages stay, so nothing tells them from others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jsproto.client.consume.dead_letters import SWEPT, DeadLetter, DeadLetterPlan, store_letter
from jsproto.errors import Error, MessageNotFoundError
from jsproto.events import SweepFailed
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.consumer import ConsumerInfo
from jsproto.grammar.position import StreamPosition, parse_position
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import overlaps
from jsproto.outbox import Conversation
from jsproto.rules.position import ELECTION, NEGATIVE, StreamFacts, judge
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream

DELETING: Final = frozenset({"workqueue", "interest"})
"""The retentions that delete acknowledged messages."""

Look: TypeAlias = dict[str, ConsumerInfo]
"""By name: the consumers that can be swept."""


def settled(info: ConsumerInfo) -> int:
    """Up to which sequence nothing is outstanding.

    The ack floor alone does not do: it stays before a message that was given up (FACTS.md F5.24).
    """
    return info.ack_floor.stream_seq if info.num_ack_pending else info.delivered.stream_seq


def is_sweepable(info: ConsumerInfo, consumers: Iterable[ConsumerInfo]) -> bool:
    """Whether a message that this consumer has passed is its own, and was given up. ``consumers``: of its stream."""
    config = info.config
    others = [pattern for other in consumers if other.name != info.name for pattern in _filters(other)]
    return (
        (config.max_deliver or 0) > 0
        and config.ack_policy == "explicit"
        and config.deliver_policy in (None, "all")
        and not any(overlaps(mine, theirs) for mine in _filters(info) for theirs in others)
    )


class Sweep(Conversation):
    """Looks for lost dead letters again and again, until it is closed.

    A look that fails is told by the event ``SweepFailed``, and repeated.
    """

    __slots__ = ("_before", "_due", "_every", "_is_open", "_js", "_plan", "_swept", "_timeout")

    def __init__(
        self, js: JetStream, plan: DeadLetterPlan, *, every: float | None, now: float, timeout: float | None
    ) -> None:
        """``every``: seconds from the end of a sweep to the next one. The first begins at once. None: never."""
        self._js = js
        self._plan = plan
        self._every = every or 0.0
        self._timeout = timeout
        self._is_open = every is not None and plan.is_kept_apart
        self._before: Look | None = None
        self._swept = _positions(plan.info.config.metadata or {})
        self._due = now if self._is_open else None
        js.session.rearm(self)

    def close(self, now: float) -> None:
        """Look no more. What is under way ends with the present message."""
        self._is_open = False
        self._due = None
        self._js.session.rearm(self)

    def handle_timeout(self, now: float) -> None:
        """It is time for the next look."""
        if self._due is not None and now >= self._due:
            self._due = None
            self._js.session.run(self._look_again())

    def deadline(self) -> float | None:
        """When the next look is due, in monotonic seconds. None: one is under way, or it is closed."""
        return self._due

    # -- one look ------------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return self._js.session.now

    def _look_again(self) -> Generator[Ticket[Any], Any, None]:
        """The first look is kept for the second one, which sweeps."""
        session, stream = self._js.session, self._plan.spec.stream
        before, self._before, pause = self._before, None, self._every
        try:
            info: StreamInfo = yield self._js.stream_info(stream, now=self._now, timeout=self._timeout)
            look = yield from self._look(info)
            if look and before is None:
                self._before, pause = look, ELECTION
            elif look and before is not None:
                yield from self._sweep(StreamFacts.of(info), before, look)
        except Error as error:
            if self._is_open and not session.closed:
                session.emit(SweepFailed(stream, error))
        if self._is_open:
            self._due = self._now + pause
            session.rearm(self)

    def _look(self, info: StreamInfo) -> Generator[Ticket[Any], Any, Look]:
        """The consumers that can be swept now."""
        plan, timeout = self._plan, self._timeout
        if info.config.retention not in DELETING:
            return {}
        kept: ConsumerInfo = yield self._js.consumer_info(
            plan.info.stream_name, plan.info.name, now=self._now, timeout=timeout
        )
        if kept.num_pending:
            return {}
        pages = self._js.consumers(plan.spec.stream, timeout=timeout)
        consumers = yield from pages.whole(self._now)
        if pages.missing:
            return {}
        wanted = [each for each in consumers if plan.spec.consumer in (None, each.name)]
        return {each.name: each for each in wanted if is_sweepable(each, consumers)}

    def _sweep(self, facts: StreamFacts, before: Look, look: Look) -> Generator[Ticket[Any], Any, None]:
        """Bury what both looks found settled, and what was not swept yet."""
        stream, found, positions = self._plan.spec.stream, 0, {}
        for name in before.keys() & look.keys():
            bound, swept = min(settled(before[name]), settled(look[name])), self._swept.get(name)
            start = 0 if swept is None or judge(swept, facts) in NEGATIVE else min(swept.seq, bound)
            for pattern in _filters(look[name]):
                found += yield from self._bury(name, pattern, start, bound, str(facts.identity))
            if not self._is_open:
                return  # the rest is for the next program
            positions[name] = StreamPosition(stream, bound, facts.identity)
        self._swept = positions
        if found:
            marks = {SWEPT + name: bytes(position).decode() for name, position in positions.items()}
            info = self._plan.info
            yield self._js.change_consumer(
                info.stream_name, info.name, {"metadata": marks}, now=self._now, timeout=self._timeout
            )

    def _bury(
        self, consumer: str, pattern: str, start: int, bound: int, origin: str
    ) -> Generator[Ticket[Any], Any, int]:
        """Store a letter for each message of ``pattern`` after ``start`` and up to ``bound``, unless it is there.

        Returns how many messages there are.
        """
        stream, found = self._plan.spec.stream, 0
        while start < bound and self._is_open:
            try:
                message: StoredMsg = yield self._js.get_msg(
                    stream, start + 1, subject=pattern, next=True, level="leader", now=self._now, timeout=self._timeout
                )
            except MessageNotFoundError:
                break
            start = message.seq
            if start <= bound:
                letter = DeadLetter(stream, consumer, start, origin, message, None)
                yield from store_letter(self._js, self._plan, letter, self._now, self._timeout)
                found += 1
        return found


def _positions(metadata: Mapping[str, str]) -> dict[str, StreamPosition]:
    """How far each consumer was swept."""
    read = {key.removeprefix(SWEPT): parse_position(line.encode()) for key, line in metadata.items()}
    return {name: position for name, position in read.items() if position is not None}


def _filters(info: ConsumerInfo) -> list[str]:
    return info.config.filters or [">"]
