"""Who knows the truth about a stream and compares answers with it: complete or a typed error, never in between.

A read is judged by the states of the stream in which it may have been answered (``Scene``). Each function raises
``WrongAnswerError`` for an answer that is none of them. Errors are answers too, as long as they are typed; where one
says something about the stream, that has to be true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jsproto.client.read.multi import checked_subjects
from jsproto.errors import Error, MessageNotFoundError, MessagesDroppedError
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import matches
from tests.worlds.truth import FOR_EVER, Life, Message


class WrongAnswerError(AssertionError):
    """An answer that is neither right nor a typed error."""


@dataclass(frozen=True)
class Span:
    """The states of one life in which a read may have been answered.

    ``low`` and ``last``: of the copy that was most behind when the read began, the state and the last sequence.
    ``began``: the leader's state then, and ``leader_last`` its last sequence. ``high``: the leader's state at the end.
    """

    life: Life
    low: int
    last: int
    began: int
    leader_last: int
    high: int


@dataclass(frozen=True)
class Scene:
    """What may answer a read of ``stream``: its lives while the read lasted, and mirrors by name.

    ``floor``: the last sequence that a session has written or read; 0 without one, and of a later life.
    """

    stream: str
    spans: Sequence[Span]
    mirrors: Mapping[str, Span] = field(default_factory=dict)
    floor: int = 0

    @property
    def lives_on(self) -> bool:
        """Whether it is one and the same stream from the beginning to the end."""
        return len(self.spans) == 1 and not self.spans[0].life.ended

    def span_of(self, messages: Sequence[StoredMsg]) -> Span | None:
        """The life that all messages are of, each having been there; None for no messages in a stream that changed."""
        if not messages:
            return self.spans[0] if self.lives_on else None
        fitting = [span for span in self.spans if all(_is_of(span, message) for message in messages)]
        if not fitting:
            known = [[_is_of(span, message) for span in self.spans] for message in messages]
            if all(any(one) for one in known):
                raise WrongAnswerError("messages of a deleted stream and of its successor, mixed")
            unknown = next(message for message, one in zip(messages, known, strict=True) if not any(one))
            raise WrongAnswerError(f"{unknown!r} of {unknown.stream} was never there, or not while it was read")
        return fitting[0]


def check_one(
    scene: Scene,
    answer: StoredMsg | Error,
    *,
    seq: int | None = None,
    subject: str | None = None,
    following: bool = False,
    start_time: int | None = None,
    level: str = "direct",
    is_session: bool = False,
) -> None:
    """``get_msg`` and ``get_last_msg``.

    ``is_session``: nobody but the stream itself is believed, and nothing older than the floor.
    """
    if isinstance(answer, MessageNotFoundError):
        spans = list(scene.spans) if is_session or level == "leader" else [*scene.spans, *scene.mirrors.values()]
        if not any(
            _may_lack(span, _low(scene, span, level, is_session), seq, subject, following, start_time) for span in spans
        ):
            raise WrongAnswerError(f"{answer}, but there is one all the time")
        return
    if isinstance(answer, Error):
        return
    if answer.stream in scene.mirrors and not is_session and level == "direct":
        spans = [scene.mirrors[answer.stream]]
    elif answer.stream == scene.stream:
        spans = list(scene.spans)
    else:
        raise WrongAnswerError(f"{answer!r} is of {answer.stream}, which nobody asked")
    unmoving = seq is not None or following or start_time is not None  # what is older is never more
    for span in spans:
        low = _low(scene, span, level, is_session and not unmoving)
        if _is_of(span, answer) and _fits(span, answer.seq, low, seq, subject, following, start_time):
            return
    raise WrongAnswerError(f"{answer!r} of {answer.stream} was not the answer at any time of the read")


def _low(scene: Scene, span: Span, level: str, is_session: bool) -> int:
    low = span.began if level == "leader" else span.low
    return max(low, span.life.since(scene.floor)) if is_session and span is scene.spans[0] else low


def _from(span: Span, start_time: int | None) -> int:
    """The sequence at which a time begins."""
    if start_time is None:
        return 1
    return next((m.seq for m in list(span.life.messages.values()) if (m.timestamp or 0) >= start_time), FOR_EVER)


def _fits(
    span: Span, found: int, low: int, seq: int | None, subject: str | None, following: bool, start: int | None
) -> bool:
    life, high = span.life, span.high
    if subject is not None and not following:
        return matches(subject, life.messages[found].subject) and life.is_last(found, subject, low, high)
    if not following and start is None:
        return found == seq
    first = seq or _from(span, start)
    is_match = subject is None or matches(subject, life.messages[found].subject)
    return found >= first and is_match and life.is_first(found, subject, first, low, high)


def _may_lack(span: Span, low: int, seq: int | None, subject: str | None, following: bool, start: int | None) -> bool:
    life = span.life
    if subject == ">" and not following:
        return True  # servers look at the last sequence alone, which may have been deleted
    if subject is not None and not following:
        wanted = life.matching(subject)
    elif not following and start is None:
        wanted = [seq] if seq in life.messages else []
    else:
        wanted = life.matching(subject, seq or _from(span, start))
    return life.lacks(wanted, low, span.high)


def check_batch(
    scene: Scene,
    messages: Sequence[StoredMsg],
    error: Error | None,
    *,
    seq: int = 1,
    start_time: int | None = None,
    subject: str | None = None,
    batch: int | None = None,
    if_dropped: str = "skip",
) -> None:
    """``get_batch``: what was taken, and why it ended: ``error``, None when it came to an end."""
    _check_streams(scene, messages)
    seqs = [message.seq for message in messages]
    if seqs != sorted(set(seqs)):
        raise WrongAnswerError(f"not in order, or twice: {seqs}")
    if batch is not None and len(seqs) > batch:
        raise WrongAnswerError(f"{len(seqs)} messages where {batch} were asked for")
    span = scene.span_of(messages)
    if span is None:
        return
    life, first = span.life, max(seq, _from(span, start_time))
    for message in messages:
        if message.seq < first or not (subject is None or matches(subject, message.subject)):
            raise WrongAnswerError(f"{message!r} was not asked for")
    end = max(seqs, default=0)
    if error is None and len(seqs) != batch and not life.ended:
        end = max(end, span.last, scene.floor if span is scene.spans[0] else 0)
    given = set(seqs)
    wanted = life.matching(subject, first, end)
    missing = [one for one in wanted if one not in given and life.stays(one, span.began, span.high)]
    if missing:
        raise WrongAnswerError(f"{_some(missing)} missing of {len(wanted)} up to {end}; error: {error!r}")
    if if_dropped == "error" and error is None and not life.ended:
        # A time begins where the first answer begins.
        since = first if start_time is None else min(seqs, default=FOR_EVER)
        dropped = [one for one in wanted if one >= since and one not in given and life.was_dropped(one)]
        if dropped:
            raise WrongAnswerError(f"{_some(dropped)} dropped without an error")
    has_lost = life.moved or any(life.was_dropped(one) for one in list(life.messages))
    if isinstance(error, MessagesDroppedError) and not has_lost:
        raise WrongAnswerError(f"{error!r}, but nothing was dropped")


def check_last_of_each(
    scene: Scene,
    messages: Sequence[StoredMsg],
    error: Error | None,
    *,
    subjects: str | Sequence[str],
    up_to: int | None,
    batch: int | None = None,
    is_snapshot: bool = False,
) -> None:
    """``get_last_msgs_for`` and ``snapshot``, as of now; ``up_to``: as of which sequence they say they are."""
    patterns = checked_subjects(subjects)
    span = _check_each_once(scene, messages, patterns, batch)
    if span is None:
        return
    life, low, floor = span.life, span.low, scene.floor if span is scene.spans[0] else 0
    if up_to is not None and error is None and not life.ended:
        least = span.leader_last if is_snapshot else span.last
        if up_to < max(least, floor):
            raise WrongAnswerError(f"as of {up_to}, but {max(least, floor)} was known before")
    low = max(low, life.since(floor))
    limit = FOR_EVER if up_to is None else up_to
    for message in messages:
        seq = message.seq
        if not (
            life.is_last(seq, message.subject, low, span.high)
            if up_to is None
            else life.is_last_as_of(seq, up_to, low, span.high)
            or (
                seq <= up_to
                and life.lost_one(message.subject, low, span.high)
                and life.is_last(seq, message.subject, low, span.high)
            )
        ):
            raise WrongAnswerError(
                f"{message!r} was not the last of its subject as of {up_to}, at any time of the read"
            )
    if error is not None or len(messages) == batch:
        return
    given = {message.subject for message in messages}
    for name in _subjects(life, patterns) - given:
        seqs, since = life.matching(name), low if up_to is None else max(low, life.since(up_to))
        is_right = life.lacks(seqs, since, span.high) or not any(
            seq <= limit and life.was_there(seq, since, span.high) for seq in seqs
        )
        if not is_right:
            raise WrongAnswerError(f"{name} is left out, as of {up_to}, but it is there all the time")


def check_as_of(
    scene: Scene, messages: Sequence[StoredMsg], error: Error | None, *, subjects: str | Sequence[str], at: int
) -> None:
    """``snapshot(at=...)``: the last messages as of the sequence ``at``, whatever was written since.

    What was purged or deleted, or expired, since then may count as there or as gone: nobody can tell when that was.
    Nor can anybody tell what had been overwritten of a subject that lost a message in this way.
    """
    patterns = checked_subjects(subjects)
    span = _check_each_once(scene, messages, patterns, None)
    if span is None or error is not None:
        return
    life = span.life
    for message in messages:
        if not life.is_last_as_of(message.seq, at, life.since(at), span.high):
            raise WrongAnswerError(f"{message!r} was not the last of its subject as of {at}")
    given = {message.subject for message in messages}
    for name in _subjects(life, patterns) - given:
        is_forgotten = life.lacks(life.matching(name), life.since(at), span.high)
        if not (is_forgotten or life.was_deleted(name) or life.may_lack_as_of(name, at, span.high)):
            raise WrongAnswerError(f"{name} is left out, but it was there at {at}")


def check_weak(scene: Scene, messages: Sequence[StoredMsg]) -> None:
    """What only says what somebody has: it is a message of whoever it names."""
    for message in messages:
        spans = [*scene.spans] if message.stream == scene.stream else [scene.mirrors.get(message.stream)]
        if not any(span is not None and _is(span.life, message) for span in spans):
            raise WrongAnswerError(f"{message!r} of {message.stream} was never there")


# -- inside ------------------------------------------------------------------------------------------------------------


def _is(life: Life, message: StoredMsg) -> bool:
    known = life.messages.get(message.seq)
    if known is None:
        return False
    return known == Message(message.seq, message.subject, message.data, known.timestamp and message.timestamp)


def _is_of(span: Span, message: StoredMsg) -> bool:
    return _is(span.life, message) and span.life.was_there(message.seq, span.low, span.high)


def _check_streams(scene: Scene, messages: Sequence[StoredMsg]) -> None:
    for message in messages:
        if message.stream != scene.stream:
            raise WrongAnswerError(f"{message!r} is of {message.stream}")


def _check_each_once(
    scene: Scene, messages: Sequence[StoredMsg], patterns: Sequence[str], batch: int | None
) -> Span | None:
    _check_streams(scene, messages)
    names = [message.subject for message in messages]
    if len(set(names)) < len(names):
        raise WrongAnswerError(f"a subject twice: {names}")
    if batch is not None and len(names) > batch:
        raise WrongAnswerError(f"{len(names)} messages where {batch} were asked for")
    literal = set(patterns)
    wild = [pattern for pattern in patterns if "*" in pattern or ">" in pattern]
    for name in names:
        if name not in literal and not any(matches(pattern, name) for pattern in wild):
            raise WrongAnswerError(f"{name} was not asked for")
    return scene.span_of(messages)


def _subjects(life: Life, patterns: Sequence[str]) -> set[str]:
    return {name for pattern in patterns for name in life.subjects(pattern)}


def _some(seqs: Sequence[int]) -> str:
    return f"{len(seqs)} messages ({', '.join(map(str, seqs[:5]))}{', ...' if len(seqs) > 5 else ''})"
