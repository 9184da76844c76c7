"""What a counter holds (ADR-49): its value in the payload of its last message, and what it has of others in a header.

Rules

* Values are whole numbers of any size, written as text: ``{"val":"7"}``.
* ``Nats-Counter-Sources`` has the last value of each counter that was copied, by its stream and subject.
* Whatever the bytes, only RemoteProtocolError is raised.

Not here: what is added (``publish_headers``), adding it up (``server.publish.counters``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from jsproto._event import event
from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import loads, shown, text
from jsproto.grammar.publish_headers import INCREMENT, MAX_COUNT_DIGITS
from jsproto.grammar.stored import StoredMsg

COUNTER_SOURCES: Final = "Nats-Counter-Sources"

_INTEGER: Final = re.compile(rf"[+-]?[0-9]{{1,{MAX_COUNT_DIGITS}}}", re.ASCII)


@event
class CounterEntry:
    """One counter, as the last message of its subject has it.

    * ``subject``: its name.
    * ``value``: what it stands at.
    * ``increment``: what the last message added to it.
    * ``sources``: the part of other counters in it: a value for each subject of each stream. Empty for a counter of its
      own.
    * ``seq``: the sequence of its last message.
    """

    subject: str
    value: int
    increment: int
    sources: Mapping[str, Mapping[str, int]]
    seq: int


def parse_counter(message: StoredMsg) -> CounterEntry:
    """The counter whose last message this is. RemoteProtocolError for another message."""
    sources: dict[str, dict[str, int]] = {}
    written = message.headers.get(COUNTER_SOURCES)
    if written:
        for stream, counters in loads(written.encode("utf-8", "replace")).items():
            if not isinstance(counters, dict):
                raise RemoteProtocolError(f"the sources of a counter must be an object, not {shown(counters)}")
            sources[stream] = {subject: counter_value(value) for subject, value in counters.items()}
    increment = counter_value(message.headers.get(INCREMENT))
    return CounterEntry(message.subject, parse_value(message.data), increment, sources, message.seq)


def parse_value(payload: bytes) -> int:
    """The value in the payload of a counter. RemoteProtocolError when it is missing."""
    return counter_value(text(loads(payload), "val"))


def counter_value(value: object) -> int:
    """A value of a counter, or what was added to it, from text. RemoteProtocolError for anything else."""
    if not isinstance(value, str) or _INTEGER.fullmatch(value) is None:
        raise RemoteProtocolError(f"the value of a counter must be a number as a string, not {shown(value)}")
    return int(value)
