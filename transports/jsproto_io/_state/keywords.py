"""Keyword arguments that several verbs share.

Rules: a keyword that is left out has the default of the core. An unknown one raises WrongTypeError, also where the core
has one of that name (``named``). The clock is that of the machine, because schedules are due at a time of day.

Not here: the keywords of ``connect()`` (``connecting``), of a publish, of streams and of consumers
(``jsproto.grammar``).
"""

from __future__ import annotations

import time
from typing import Any, TypedDict, cast

from jsproto.client.connection.session import Session
from jsproto.errors import LocalProtocolError
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.options import named
from jsproto.grammar.publish_headers import PublishOptions, publish_headers
from jsproto.grammar.times import Instant, nanoseconds
from jsproto_io._state.common import Timeout


class ReadOptions(TypedDict, total=False):
    """Which message to read.

    Attributes:
        subject: the last message of this subject. Wildcards are allowed.
        next: the first message at or after ``seq`` or ``start_time`` (without both: of the stream), and of
            ``subject`` if given.
        start_time: the first message stored at this time or later: nanoseconds since the epoch, or a datetime with
            a time zone. It needs nats-server 2.11.
    """

    subject: str | None
    next: bool
    start_time: Instant | None


class PublishKeywords(PublishOptions, total=False):
    """``PublishOptions``, and the one that needs to know what time it is.

    Attributes:
        delay: as ``at``, so many seconds from now, or a timedelta, by the clock of this machine.
    """

    delay: Timeout | None


def publish_options(keywords: PublishKeywords) -> PublishOptions:
    """The same as the core has them: at a moment.

    Raises:
        WrongTypeError: a name is none of ``PublishKeywords``.
        LocalProtocolError: ``delay`` is no duration, or ``at`` is given as well.
    """
    if not keywords:
        return keywords
    options: Any = {**named(PublishKeywords, keywords)}
    delay = options.pop("delay", None)
    if delay is not None:
        if options.get("at") is not None:
            raise LocalProtocolError("a message has one schedule, not at and delay")
        options["at"] = time.time_ns() + nanoseconds(delay, "delay")
    return cast("PublishOptions", options)


def time_of_day() -> int:
    """Nanoseconds since the epoch, by the clock of this machine."""
    return time.time_ns()


def merged_headers(
    session: Session, subject: str | None, payload: bytes, headers: HeadersLike | None, keywords: PublishKeywords
) -> HeadersLike | None:
    """``headers`` with those that ``keywords`` stand for. ``subject``: None for no message at all.

    Errors as of ``publish_headers``, and LocalProtocolError for keywords that lack a message.
    """
    if not keywords:
        return headers
    if subject is None:
        raise LocalProtocolError(f"{next(iter(keywords))} goes with a message: give its subject")
    return publish_headers(subject, payload, session.server, headers=headers, **publish_options(keywords))
