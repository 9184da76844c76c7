"""The headers of message schedules (ADR-51): what they may say, and what servers add to them.

Rules, those of nats-server 2.15.1 (FACTS.md F13):

* A schedule has a target, which is another subject of the stream. It rolls up its own subject.
* What a schedule makes has ``Nats-Scheduler`` and ``Nats-Schedule-Next``. Clients may only say ``purge`` there, which
  ends the schedule.
* A stream that does not allow schedules says so before anything else that is wrong with one.

Not here: when a schedule is due (``grammar.cron``), what it makes (``schedules``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jsproto.errors import APIError, BadSubjectError
from jsproto.grammar.cron import Zone, next_due
from jsproto.grammar.headers import appended, first_value
from jsproto.grammar.publish_headers import (
    ROLLUP,
    SCHEDULE,
    SCHEDULE_NEXT,
    SCHEDULE_ROLLUP,
    SCHEDULE_TTL,
    SCHEDULER,
    SOURCE,
    TARGET,
    TIME_ZONE,
    time_to_live,
)
from jsproto.grammar.subjects import check_subject, overlaps
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import PURGE, Publication, Stream

_SUBJECT: Final = b"sub"


def check_schedule(
    stream: Stream, message: Publication, now: float, staged: Mapping[bytes, bool] | None = None
) -> Publication:
    """The message with what servers add to a schedule. ``now``: seconds.

    ``staged``: of each subject of the batch whether its last message is a schedule.

    Raises:
        APIError: it is a schedule that servers refuse, or it pretends to be made by one.
    """
    if message.header is None:
        return message
    pattern, moment = message.value(SCHEDULE) or b"", stream.context.timestamp(now)
    is_disabled = not stream.config.allow_msg_schedules
    try:
        zone = zone_of(message.header, stream.context)
        _ = pattern and next_due(_text(pattern), zone, moment, moment)
    except ValueError:
        raise refusal(10188 if is_disabled else 10189) from None
    except APIError as error:
        raise refusal(10188) if is_disabled else error from None
    if pattern:
        if is_disabled:
            raise refusal(10188)
        message = _checked(stream, message)
    _check_scheduler(stream, message, staged or {})
    return message


def _checked(stream: Stream, message: Publication) -> Publication:
    """A message with a schedule, after all that goes with it was checked."""
    ttl, target, source = message.value(SCHEDULE_TTL), message.value(TARGET) or b"", message.value(SOURCE) or b""
    if time_to_live(ttl) is None:
        raise refusal(10191)
    if message.value(SCHEDULE_ROLLUP) not in (None, b"", _SUBJECT):
        raise refusal(10192)
    if ttl and not stream.config.allow_msg_ttl:
        raise refusal(10166)
    if target == message.subject or not _is_literal(target):
        raise refusal(10190)
    if source and (source in (target, message.subject) or not _is_literal(source)):
        raise refusal(10203)
    for subject, code in ((target, 10190), (source, 10203)):
        if subject and not any(overlaps(own, _text(subject)) for own in stream.config.subjects or ()):
            raise refusal(code)
    if not message.rollup:
        return Publication(message.subject, appended(message.header, ROLLUP.encode(), _SUBJECT), message.payload)
    if message.rollup != "sub":
        raise refusal(10192)
    return message


def _check_scheduler(stream: Stream, message: Publication, staged: Mapping[bytes, bool]) -> None:
    """Check the headers of a message that ends a schedule. Only a stream writes them otherwise."""
    following, scheduler = message.value(SCHEDULE_NEXT), message.value(SCHEDULER) or b""
    if not following:
        if scheduler:
            raise refusal(10212)
        return
    if following != PURGE or scheduler == message.subject or not _is_literal(scheduler):
        raise refusal(10212)
    if not stream.config.allow_msg_schedules:
        raise refusal(10188)
    last = stream.get(stream.last_of(scheduler))
    is_schedule = last is None or bool(first_value(last.header or b"", SCHEDULE.encode()))
    if not staged.get(scheduler, is_schedule):
        raise refusal(10212)


def zone_of(header: bytes, context: ServerContext) -> Zone | None:
    """The time zone that a header names. None: it names none.

    Raises:
        APIError: it is not known (10223).
    """
    name = first_value(header, TIME_ZONE.encode())
    if name is None:
        return None
    zone = context.zone(_text(name)) if name else None
    if zone is None:
        raise refusal(10223)
    return zone


def _is_literal(subject: bytes) -> bool:
    try:
        check_subject(_text(subject))
    except BadSubjectError:
        return False
    return True


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
