"""The options of the verbs that read many messages: what each means, its default and its check (``grammar.options``).

Not here: which options go together, and ``timeout`` (the verbs), the choice of one message (``single``).
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from jsproto.client.read.plans import IF_DROPPED, IfDropped
from jsproto.errors import LocalProtocolError
from jsproto.grammar.options import Option, of_count, of_words
from jsproto.grammar.stored import check_seq
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Instant, Point, instant


def _of_seq(name: str, value: int) -> int:
    check_seq(value, name)
    return value


def _of_pattern(name: str, value: str) -> str:
    check_subject(value, wildcards=True)
    return value


def _of_instant(name: str, value: Instant) -> Instant:
    try:
        instant(value)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"{name}: {error}") from None
    return value


def _of_point(name: str, value: Any) -> Point:
    return _of_seq(name, value) if isinstance(value, int) else _of_instant(name, value)


class PageOptions(TypedDict, total=False):
    """How much is asked for at once.

    Attributes:
        max_bytes: bytes to request at once. None: 8 MiB.
    """

    max_bytes: Annotated[int | None, Option(None, of_count)]


class BatchOptions(PageOptions, total=False):
    """What to read of a stream.

    Attributes:
        seq: the first sequence to read. None: the first of the stream.
        start_time: read what was stored at this time or later: nanoseconds since the epoch, or a datetime with a
            time zone.
        subject: only messages that match it. Wildcards are allowed.
        batch: the most messages to read. None: all.
        if_dropped: "error" raises MessagesDroppedError when limits or a purge removed the next messages. "skip"
            continues with the rest.
    """

    seq: Annotated[int | None, Option(None, _of_seq)]
    start_time: Annotated[Instant | None, Option(None, _of_instant)]
    subject: Annotated[str | None, Option(None, _of_pattern)]
    batch: Annotated[int | None, Option(None, of_count)]
    if_dropped: Annotated[IfDropped, Option("skip", of_words(*IF_DROPPED))]


class LastOptions(PageOptions, total=False):
    """Which last messages of subjects to read.

    Attributes:
        batch: the most messages to read. None: all.
        up_to_seq: read the state at this sequence, as far as the replica has reached it and still has its messages.
            ``snapshot`` proves both.
        up_to_time: the same for the moment just before this time: nanoseconds since the epoch, or a datetime with a
            time zone.
    """

    batch: Annotated[int | None, Option(None, of_count)]
    up_to_seq: Annotated[int | None, Option(None, _of_seq)]
    up_to_time: Annotated[Instant | None, Option(None, _of_instant)]


class SnapshotOptions(PageOptions, total=False):
    """Which state of a stream to read.

    Attributes:
        at: the state at this sequence (an int), or just before this time (a datetime with a time zone). Exactly so,
            of what the stream still held when the read began: what had been purged, deleted or dropped by then is
            left out.
    """

    at: Annotated[Point | None, Option(None, _of_point)]


class AnswerOptions(TypedDict, total=False):
    """What one answer about last messages has to be like: the keywords of ``LastAnswer``."""

    batch: int | None
    up_to_seq: int | None
    least: int
    shows: tuple[str, int] | None
    created: int | None
    max_bytes: int | None
