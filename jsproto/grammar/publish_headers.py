"""The headers that a publish may carry, and the keywords that stand for them: names, forms and limits.

Rules

* A keyword that is left out, or None, leaves its header out. An unknown one raises WrongTypeError.
* A value that servers would refuse, or ignore, is refused here.
* So is a header that is given by its keyword and in ``headers`` as well: servers heed the first one alone.
* Servers that lack a header store the message as a plain one. So a server that is known to be too old is a reason to
  refuse.
* Parts that only read look at the first line of a name, as servers do.

Not here: when a schedule is due (``cron``), the headers of atomic batches (``batch``), what a stream checks
(``server.publish``), which headers an atomic batch cannot carry (``client.publish.atomic``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from jsproto.errors import BadSubjectError, LocalProtocolError, UnsupportedByServerError, WrongTypeError
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.cron import AT, EVERY, check_cron
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.durations import format_duration, parse_duration
from jsproto.grammar.fields import checked_word, nearest
from jsproto.grammar.headers import Headers, HeadersLike
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import SECOND, Duration, Instant, format_timestamp, instant, nanoseconds

REQUIRED_API_LEVEL: Final = "Nats-Required-Api-Level"
MSG_ID: Final = "Nats-Msg-Id"
EXPECTED_STREAM: Final = "Nats-Expected-Stream"
EXPECTED_LAST_MSG_ID: Final = "Nats-Expected-Last-Msg-Id"
EXPECTED_LAST_SEQUENCE: Final = "Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
TTL: Final = "Nats-TTL"
ROLLUP: Final = "Nats-Rollup"
INCREMENT: Final = "Nats-Incr"
SCHEDULE: Final = "Nats-Schedule"
TARGET: Final = "Nats-Schedule-Target"
SOURCE: Final = "Nats-Schedule-Source"
TIME_ZONE: Final = "Nats-Schedule-Time-Zone"
SCHEDULE_TTL: Final = "Nats-Schedule-TTL"
SCHEDULE_ROLLUP: Final = "Nats-Schedule-Rollup"
SCHEDULER: Final = "Nats-Scheduler"
SCHEDULE_NEXT: Final = "Nats-Schedule-Next"
TRACE_DEST: Final = "Nats-Trace-Dest"
TRACE_SINCE: Final = "2.11"

NEVER: Final = -1
"""What stands for a time to live without an end, where times to live are numbers of seconds."""

TimeToLive: TypeAlias = Duration | Literal["never"]
"""How long a message lives, as callers give it: seconds, a timedelta, or ``never``: it outlives ``max_age`` too."""

MAX_COUNT_DIGITS: Final = 1_000
"""Digits of what is added to a counter, and of its value. nats-server takes more."""

MAX_INCREMENT: Final = 10**MAX_COUNT_DIGITS - 1

_SCHEDULES: Final = frozenset({"at", "every", "cron"})
_OF_SCHEDULES: Final = frozenset({"target", "source", "time_zone", "schedule_ttl", "schedule_rollup"})
_NOT_WITH_INCR: Final = frozenset(
    {
        "rollup", "expected_stream", "expected_last_msg_id", "expected_last_seq", "expected_last_subject_seq",
        "expected_last_subject_seq_subject",
    }
)  # fmt: skip
_MAX_SEQUENCE: Final = 2**64 - 1


class PublishOptions(TypedDict, total=False):
    """What a message to a stream may carry, and what the stream checks before it stores the message.

    Attributes:
        msg_id: the ``Nats-Msg-Id``. The stream stores it once within its duplicate window.
        expected_stream: the name of the stream that must store it.
        expected_last_seq: the stream's last sequence, or else it is refused.
        expected_last_subject_seq: the last sequence of its subject, or else it is refused. 0: there is none.
        expected_last_subject_seq_subject: another subject whose last sequence that is. Wildcards are allowed.
        expected_last_msg_id: the message id of the stream's last message, or else it is refused.
        ttl: how long the message lives, in seconds or as a timedelta, rounded up to whole seconds, or ``"never"``.
            The stream needs ``allow_msg_ttl``.
        rollup: what it replaces: ``"sub"``, all messages of its subject before it, or ``"all"``, those of the
            stream. The stream needs ``allow_rollup_hdrs``.
        at: it is a schedule (ADR-51): the stream publishes it to ``target`` at this moment, a datetime with a time
            zone or nanoseconds since 1970. The stream needs ``allow_msg_schedules``.
        every: it is a schedule that is due again after so many seconds, or a timedelta, of 1 s or more.
        cron: it is a schedule of six fields, seconds first, or ``@hourly``, ``@daily``, ``@weekly`` and so on.
        target: of a schedule, the subject to which the stream publishes. It is another one of the same stream.
        source: of a schedule, the subject whose last message the stream publishes, if it has one.
        time_zone: of ``cron``, such as ``Europe/Berlin``. None: UTC.
        schedule_ttl: of a schedule, the ``ttl`` of what the stream publishes.
        schedule_rollup: of a schedule, the rollup of what the stream publishes: ``"sub"``.
        incr: what it adds to the counter of its subject (ADR-49). The stream needs ``allow_msg_counter``, and the
            acknowledgement has the new ``value``.
        trace: the subject at which servers report what becomes of the message (ADR-41).
    """

    msg_id: str | None
    expected_stream: str | None
    expected_last_seq: int | None
    expected_last_subject_seq: int | None
    expected_last_subject_seq_subject: str | None
    expected_last_msg_id: str | None
    ttl: TimeToLive | None
    rollup: Literal["sub", "all"] | None
    at: Instant | None
    every: Duration | None
    cron: str | None
    target: str | None
    source: str | None
    time_zone: str | None
    schedule_ttl: TimeToLive | None
    schedule_rollup: Literal["sub"] | None
    incr: int | None
    trace: str | None


def publish_headers(
    subject: str,
    payload: bytes = b"",
    server: ServerInfo | None = None,
    /,
    *,
    headers: HeadersLike | None = None,
    **options: Unpack[PublishOptions],
) -> HeadersLike | None:
    """The headers of a message: ``headers``, and after them those that the other keywords stand for.

    * ``server``: the one that is asked. None when unknown, which skips the check of its version.
    * ``headers``: a mapping of names to a value, or to several.
    * ``options``: see ``PublishOptions``.

    Raises:
        LocalProtocolError: a value is not what its keyword takes, or keywords contradict each other.
        BadHeaderError: a header cannot be sent.
        UnsupportedByServerError: the server is too old for a keyword.
    """
    added: list[tuple[str, str]] = []
    for name, value in options.items():
        keyword = _KEYWORDS.get(name)
        if keyword is None:
            raise WrongTypeError(f"a publish has no keyword {name!r:.100}{nearest(name, _KEYWORDS)}")
        if value is not None:
            _check_release(name, keyword, server)
            added.append((keyword.header, keyword.encode(name, value)))
    if not added:
        return headers
    _check_together(subject, payload, options)
    given = Headers.of(headers)
    for header, _ in added:
        if header in given:
            raise LocalProtocolError(f"{header} is given twice: in headers, and by its keyword")
    return Headers([*given.items(), *added])


def check_releases(names: Iterable[str], server: ServerInfo | None) -> None:
    """Whether ``server`` heeds the keywords ``names``. Other words are passed over.

    Raises:
        UnsupportedByServerError: it is too old for one.
    """
    for name in names:
        keyword = _KEYWORDS.get(name)
        if keyword is not None:
            _check_release(name, keyword, server)


def _check_release(name: str, keyword: _Keyword, server: ServerInfo | None) -> None:
    if keyword.since is not None and server is not None and server.is_before(keyword.since):
        raise UnsupportedByServerError(f"the keyword {name}", keyword.since, server.version)


def _check_together(subject: str, payload: bytes, options: Mapping[str, Any]) -> None:
    """Refuse keywords that contradict each other, or the message."""
    names = {name for name, value in options.items() if value is not None}
    if "expected_last_subject_seq_subject" in names and "expected_last_subject_seq" not in names:
        raise LocalProtocolError("expected_last_subject_seq_subject needs expected_last_subject_seq beside it")
    if "incr" in names:
        if payload:
            raise LocalProtocolError("a message with incr has no payload: the stream writes the value there")
        for name in sorted(names & _NOT_WITH_INCR):
            raise LocalProtocolError(f"a message with incr cannot have {name}: servers refuse it")
    schedules = sorted(names & _SCHEDULES)
    if not schedules:
        for name in sorted(names & _OF_SCHEDULES):
            raise LocalProtocolError(f"{name} is of a schedule: it needs at, delay, every or cron beside it")
        return
    target, source = options.get("target"), options.get("source")
    if len(schedules) > 1:
        raise LocalProtocolError(f"a message has one schedule, not {' and '.join(schedules)}")
    if target is None:
        raise LocalProtocolError(f"{schedules[0]} needs a target: the subject to which the stream publishes")
    if target == subject:
        raise LocalProtocolError("the target of a schedule must not be the subject of the schedule itself")
    if source in (target, subject):
        raise LocalProtocolError("the source of a schedule must not be its target, nor the subject of the schedule")
    if "time_zone" in names and "cron" not in names:
        raise LocalProtocolError(f"time_zone is of cron, and {schedules[0]} has none")
    if options.get("rollup") == "all":
        raise LocalProtocolError(
            "a schedule replaces the one before it under its subject: rollup is 'sub', or left out"
        )


def time_to_live(value: bytes | None) -> int | None:
    """The time to live in a header, in seconds. 0: it is missing. ``NEVER``: it is endless. None: it is malformed.

    It is whole seconds, a Go duration of a second or more, or ``never`` (FACTS.md F10.1).
    """
    if not value:
        return 0
    text = value.decode("utf-8", "replace")
    if text.lower() == "never":
        return NEVER
    if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and text != "0":
        return int(text)
    try:
        duration = parse_duration(text)
    except ValueError:
        duration = 0
    return None if duration < SECOND else duration // SECOND


def _text(name: str, value: object) -> str:
    """A text of one character or more: servers take an empty one for a missing one."""
    if not isinstance(value, str) or not value:
        raise LocalProtocolError(f"{name} must be a text of one character or more, not {value!r:.100}")
    return value


def _sequence(name: str, value: object) -> str:
    if type(value) is not int or not 0 <= value <= _MAX_SEQUENCE:
        raise LocalProtocolError(f"{name} must be a sequence, an int of 0 or more, not {value!r:.100}")
    return str(value)


def _subject(name: str, value: Any, wildcards: bool = False) -> str:
    try:
        check_subject(value, wildcards=wildcards)
    except BadSubjectError as error:
        raise BadSubjectError(f"{name}: {error}") from None
    return str(value)


def _pattern(name: str, value: Any) -> str:
    return _subject(name, value, wildcards=True)


def _time_to_live(name: str, value: Any) -> str:
    """Whole seconds, rounded up: servers cut fractions off, and a message would end before its time."""
    if isinstance(value, str):
        if value != "never":
            raise LocalProtocolError(f"{name} must be seconds, a timedelta or 'never', not {value!r:.100}")
        return value
    return str(-(-nanoseconds(value, name, SECOND) // SECOND))


def _moment(name: str, value: Any) -> str:
    return AT + format_timestamp(instant(value))


def _interval(name: str, value: Any) -> str:
    return EVERY + format_duration(nanoseconds(value, name, SECOND))


def _cron(name: str, value: object) -> str:
    pattern = _text(name, value)
    try:
        check_cron(pattern)
    except ValueError as error:
        raise LocalProtocolError(f"{name}: {error}") from None
    return pattern


def _increment(name: str, value: object) -> str:
    if type(value) is not int or not -MAX_INCREMENT <= value <= MAX_INCREMENT:
        raise LocalProtocolError(f"{name} must be an int of at most {MAX_COUNT_DIGITS} digits, not {_shown(value)}")
    return f"{value:+d}"


def _shown(value: object) -> str:
    """The value for an error. Python refuses to write large numbers."""
    return "one of more" if type(value) is int else f"{value!r:.100}"


def _sub_alone(name: str, value: object) -> str:
    if value != "sub":
        raise LocalProtocolError(f"{name} must be 'sub', not {value!r:.100}")
    return "sub"


def _rollup(name: str, value: Any) -> str:
    checked_word(name, value, ("sub", "all"))
    return str(value)


class _Keyword(NamedTuple):
    """The header of a keyword, how its value is written, and the first release that knows it (None: every release)."""

    header: str
    encode: Callable[[str, Any], str]
    since: str | None = None


_KEYWORDS: Final[dict[str, _Keyword]] = {
    "msg_id": _Keyword(MSG_ID, _text),
    "expected_stream": _Keyword(EXPECTED_STREAM, _text),
    "expected_last_seq": _Keyword(EXPECTED_LAST_SEQUENCE, _sequence),
    "expected_last_subject_seq": _Keyword(EXPECTED_LAST_SUBJECT_SEQUENCE, _sequence),
    "expected_last_subject_seq_subject": _Keyword(EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, _pattern, "2.11"),
    "expected_last_msg_id": _Keyword(EXPECTED_LAST_MSG_ID, _text),
    "ttl": _Keyword(TTL, _time_to_live, "2.11"),
    "rollup": _Keyword(ROLLUP, _rollup),
    "at": _Keyword(SCHEDULE, _moment, "2.12"),
    "every": _Keyword(SCHEDULE, _interval, "2.14"),
    "cron": _Keyword(SCHEDULE, _cron, "2.14"),
    "target": _Keyword(TARGET, _subject),
    "source": _Keyword(SOURCE, _subject, "2.14"),
    "time_zone": _Keyword(TIME_ZONE, _text, "2.14"),
    "schedule_ttl": _Keyword(SCHEDULE_TTL, _time_to_live),
    "schedule_rollup": _Keyword(SCHEDULE_ROLLUP, _sub_alone, "2.14"),
    "incr": _Keyword(INCREMENT, _increment, "2.12"),
    "trace": _Keyword(TRACE_DEST, _subject, TRACE_SINCE),
}
