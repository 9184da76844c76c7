"""Counters (ADR-49): streams in which each message adds to the last one of its subject.

Rules (FACTS.md F11):

* The header ``Nats-Incr`` is a whole number. The stored payload is the new value, ``{"val":"7"}``.
* A message to a counter has that header, no payload, and expects nothing of the stream.
* A last message that holds no value breaks the counter.
* A copy of another counter adds what that one has grown by since its last copy. ``Nats-Counter-Sources`` has the last
  value of each counter that was copied, by its stream and subject.

Not here: what else is checked (``checks``), which configurations can count (``store.settings``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import escaped, loads
from jsproto.grammar.counters import COUNTER_SOURCES
from jsproto.grammar.headers import appended, first_value
from jsproto.grammar.publish_headers import (
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
    INCREMENT,
    MAX_COUNT_DIGITS,
    ROLLUP,
)
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import STREAM_SOURCE, Publication, Stream

_INTEGER: Final = re.compile(rb"[+-]?[0-9]{1,%d}" % MAX_COUNT_DIGITS)
_NOT_BESIDE: Final = (
    ROLLUP, EXPECTED_STREAM, EXPECTED_LAST_MSG_ID, EXPECTED_LAST_SEQUENCE, EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
)  # fmt: skip


Sources: TypeAlias = dict[str, dict[str, str]]
"""The last value of each copied counter, by its stream and subject."""


class Counter(NamedTuple):
    """What a counter has counted, and what of it is copied."""

    value: int
    sources: Sources


def check_increment(stream: Stream, message: Publication) -> None:
    """Check the increment of a message, if it has one.

    Raises:
        APIError: the message has a payload (10170), the increment is no number (10171), or the stream does not count
            (10168).
    """
    increment = message.value(INCREMENT)
    if not increment:
        return
    if _INTEGER.fullmatch(increment) is None:
        raise refusal(10171)
    if not stream.config.allow_msg_counter:
        raise refusal(10168)
    if message.payload:
        raise refusal(10170)
    if any(message.value(name) for name in _NOT_BESIDE):
        raise refusal(10171)


def counter_of(stream: Stream, subject: bytes) -> Counter:
    """The counter of a subject, as the last message has it.

    Raises:
        APIError: it is broken (10172).
    """
    last = stream.get(stream.last_of(subject))
    if last is None:
        return Counter(0, {})
    sources = first_value(last.header or b"", COUNTER_SOURCES.encode())
    return Counter(_value_in(last.payload), _read_sources(sources) if sources else {})


def counted(counter: Counter, message: Publication) -> tuple[Publication, Counter]:
    """The message as it is stored, and the counter after it.

    Raises:
        APIError: the message has no increment (10169), or the counter is broken (10172).
    """
    increment, origin = message.value(INCREMENT), message.value(STREAM_SOURCE)
    if not increment:
        raise refusal(10169)
    if _INTEGER.fullmatch(increment) is None:
        raise refusal(10171)
    header, by = message.header, int(increment)
    sources = {name: dict(counters) for name, counters in counter.sources.items()}
    if origin:
        fields = origin.decode("utf-8", "replace").split(" ")
        subject = fields[4] if len(fields) > 4 else message.subject.decode("utf-8", "replace")
        copied = _value_in(message.payload)
        known = sources.setdefault(fields[0], {})
        by = copied - _integer(known.get(subject, ""))
        known[subject] = str(copied)
        header = _with(header, INCREMENT, b"%d" % by)
    total = counter.value + by
    if len(str(total)) > MAX_COUNT_DIGITS:
        raise refusal(10172)
    if sources:
        header = _with(header, COUNTER_SOURCES, _written(sources))
    return Publication(message.subject, header, b'{"val":"%d"}' % total), Counter(total, sources)


def _value_in(payload: bytes) -> int:
    """The value in the payload of a counter, 0 if it has one that is no number."""
    return _integer(_object(payload).get("val", ""))


def _integer(value: object) -> int:
    if not isinstance(value, str):
        raise refusal(10172)
    return int(value) if _INTEGER.fullmatch(value.encode("utf-8", "replace")) else 0


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        return loads(body)
    except RemoteProtocolError:
        raise refusal(10172) from None


def _read_sources(header: bytes) -> Sources:
    sources = dict(_object(header))
    for counters in sources.values():
        if not isinstance(counters, dict) or not all(isinstance(value, str) for value in counters.values()):
            raise refusal(10172)
    return sources


def _written(sources: Sources) -> bytes:
    """The header of the copied counters, as servers write it: sorted."""
    streams: list[str] = []
    for name, counters in sorted(sources.items()):
        values = ",".join(f"{escaped(subject)}:{escaped(value)}" for subject, value in sorted(counters.items()))
        streams.append(f"{escaped(name)}:{{{values}}}")
    return f"{{{','.join(streams)}}}".encode("utf-8", "replace")


def _with(header: bytes | None, name: str, value: bytes) -> bytes:
    """The header block with another value in the line ``name``, or with that line at its end."""
    field = b"\r\n%b:" % name.encode()
    start = -1 if header is None else header.find(field)
    if header is None or start < 0:
        return appended(header, name.encode(), value)
    start += len(field)
    start += header[start : start + 1] == b" "
    return header[:start] + value + header[header.index(b"\r", start) :]
