"""Counters: streams in which each message adds to the last one of its subject.

Rules (FACTS.md F11):

* The header ``Nats-Incr`` is a whole number. The stored payload is the new value, ``{"val":"7"}``.
* A message to a counter has that header, no payload, and expects nothing of the stream.
* A last message that holds no value breaks the counter.

Not here: counters that copy others, and counters in batches. Their configuration is refused (``store.settings``).
"""

from __future__ import annotations

import re
from typing import Final

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.batch import (
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
)
from jsproto.grammar.bodies import loads
from jsproto.server.publish.checks import check_size
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Publication, Stream

INCREMENT: Final = "Nats-Incr"
MAX_COUNT_DIGITS: Final = 1_000
"""Digits of an increment, and of a value. nats-server takes more."""
_INTEGER: Final = re.compile(rb"[+-]?[0-9]{1,%d}" % MAX_COUNT_DIGITS)
_NOT_BESIDE: Final = (
    "Nats-Rollup", EXPECTED_STREAM, EXPECTED_LAST_MSG_ID, EXPECTED_LAST_SEQUENCE, EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
)  # fmt: skip


def check_increment(stream: Stream, message: Publication) -> None:
    """Check the increment of a message, if it has one. Other checks come later.

    Raises:
        APIError: the message is too large (10054) or has a payload (10170), the increment is no number (10171), or the
            stream does not count (10168).
    """
    increment = message.value(INCREMENT)
    if not increment:
        return
    check_size(stream, message)
    if _INTEGER.fullmatch(increment) is None:
        raise refusal(10171)
    if not stream.config.allow_msg_counter:
        raise refusal(10168)
    if message.payload:
        raise refusal(10170)
    if any(message.value(name) for name in _NOT_BESIDE):
        raise refusal(10171)


def counted(stream: Stream, message: Publication) -> tuple[Publication, str | None]:
    """The message as it is stored, and the new value of the counter. None: the stream does not count.

    Raises:
        APIError: the message has no increment (10169), or the counter is broken (10172).
    """
    if not stream.config.allow_msg_counter:
        return message, None
    increment = message.value(INCREMENT)
    if not increment:
        raise refusal(10169)
    total = str(_value_of(stream, message.subject) + int(increment))
    if len(total) > MAX_COUNT_DIGITS:
        raise refusal(10172)
    return Publication(message.subject, message.header, b'{"val":"%b"}' % total.encode()), total


def _value_of(stream: Stream, subject: bytes) -> int:
    """The value of a counter, 0 for one that is new."""
    last = stream.get(stream.last_of(subject))
    if last is None:
        return 0
    try:
        value = loads(last.payload).get("val", "")
    except RemoteProtocolError:
        raise refusal(10172) from None
    if not isinstance(value, str):
        raise refusal(10172)
    return int(value) if _INTEGER.fullmatch(value.encode("utf-8", "replace")) else 0
