"""A position in a stream, with what proves it later: which stream, up to which sequence, and a witness.

* A position means "up to here": its sequence is that of the last message that was read, copied or stored. 0 is the
  beginning.
* The identity tells a stream from another one of the same name. It is text that is compared, and never read:
  ``created`` in nanoseconds, or from nats-server 2.15 the text of ``Nats-Stream-Identity``. One program uses one kind.
* The witness is the time stamp of the message at the sequence, in nanoseconds since the epoch. A stream that comes back
  shorter keeps its identity, and gives its sequences out again (FACTS.md F6.19). The time of the new message differs.
* A position of an older release lacks a witness. It is read, and proved by sequence and identity alone.
* As bytes it is one line, ``ORDERS 15 1795000000000000000 1795000001000000000``: stream, sequence, identity, witness.
  ``-`` stands for what is unknown.

Not here: what a stream says about a position (``rules.position``), the tokens of sessions (``session_token``).
"""

from __future__ import annotations

import re
from typing import Final

from jsproto._event import event
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.subjects import MAX_NAME

UNKNOWN: Final = b"-"
"""What stands for an identity or a witness that is not known."""

_LINE: Final = re.compile(
    rb"([^ \r\n]{1,%d}) ([0-9]{1,%d}) ([!-~]{1,%d}) (-|[0-9]{1,%d})" % (MAX_NAME, MAX_DIGITS, MAX_NAME, MAX_DIGITS)
)


@event
class StreamPosition:
    """Up to which message of a stream something is done.

    Attributes:
     * ``stream``: its name.
     * ``seq``: the sequence of the last message, 0 before the first.
     * ``identity``: of the stream. None: unknown.
     * ``witness``: when the message ``seq`` was stored, in nanoseconds since the epoch. None: unknown.
    """

    stream: str
    seq: int
    identity: str | None = None
    witness: int | None = None

    def __bytes__(self) -> bytes:
        """The line that ``parse_position`` reads."""
        identity = UNKNOWN if self.identity is None else self.identity.encode()
        return b"%b %d %b %b" % (self.stream.encode(), self.seq, identity, witness_text(self.witness))


def witness_text(witness: int | None) -> bytes:
    """A witness as a line has it."""
    return UNKNOWN if witness is None else b"%d" % witness


def parse_witness(text: bytes) -> int | None:
    """The witness that ``witness_text`` wrote."""
    return None if text == UNKNOWN else int(text)


def parse_position(line: bytes) -> StreamPosition | None:
    """The position that ``line`` names. None: it is of another form."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    stream, seq, identity, witness = found.groups()
    try:
        name = stream.decode()
    except UnicodeDecodeError:
        return None
    return StreamPosition(name, int(seq), None if identity == UNKNOWN else identity.decode(), parse_witness(witness))
