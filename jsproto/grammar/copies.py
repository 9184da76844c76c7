"""What a copy of a message says of its original, and which headers of the original it keeps.

The origin of a copy is the position of its original, and the filters of the consumer. It is one line of text, in a
header of each copy, or in the payload of a marker that is stored with the copies.

Rules:

* Headers whose names begin with ``Nats-`` are instructions to servers, or their answers. Of the original's a copy has
  two.
* The time to live is kept where the target takes one.
* ``Nats-Marker-Reason`` is content: a server has removed what the subject had. Servers store it (FACTS.md F4.42).
* All other headers are kept, in their order.
* Malformed lines of a header block are dropped.
* An origin of any other form is passed over. Those of older releases lack a witness.

Not here: who copies (``client.copy``), and the header by which servers do the same (``Nats-Stream-Source``), which no
client may send (FACTS.md F4.20).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from jsproto._event import event
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import FIRST_LINE, LINE_END, last_value
from jsproto.grammar.position import UNKNOWN, StreamPosition, parse_position
from jsproto.grammar.publish_headers import SCHEDULE
from jsproto.grammar.subjects import MAX_NAME

COPY_SOURCE: Final = "Jsproto-Copy-Source"
"""The header of a copy: ``<stream> <sequence> <identity> <witness> <filters>``, where "-" is not known."""
UNFILTERED: Final = ">"
SCHEDULE_LINE: Final = b"\n%b:" % SCHEDULE.encode()
"""In the header block of a schedule: a message that stands for others, which the server will publish."""

_NAME: Final = COPY_SOURCE.encode()
_FILTERS: Final = re.compile(rb"[^ \r\n]{1,%d}" % MAX_NAME)
_WITHOUT_WITNESS: Final = re.compile(
    rb"([^ \r\n]{1,%d}) ([0-9]{1,%d}) ([^ \r\n]{1,%d})(?: ([!-~]{1,%d}))?" % (MAX_NAME, MAX_DIGITS, MAX_NAME, MAX_NAME)
)
_END: Final = 2 * LINE_END
_LINES: Final = re.compile(rb"(?:[!-9;-~]++:[^\r\n\0]*+\r\n)*+")
_INSTRUCTIONS: Final = re.compile(rb"(?<=\n)(?:Nats-(?!Marker-Reason:)|%b:)[^\n]*\n" % _NAME)
_BUT_TTL: Final = re.compile(rb"(?<=\n)(?:Nats-(?!Marker-Reason:|TTL:)|%b:)[^\n]*\n" % _NAME)


@event
class CopyOrigin:
    """Of which message something is the copy.

    ``filters`` is the ``filter_text`` of the consumer that delivered it. The position's identity is None where the
    server lacks one (before 2.15).
    """

    position: StreamPosition
    filters: str

    def __bytes__(self) -> bytes:
        """As a header or a marker has it."""
        return b"%b %b" % (bytes(self.position), self.filters.encode())


def origin_parts(stream: str, filters: str, identity: str | None) -> tuple[bytes, bytes, bytes]:
    """What stands before, between and after the sequence and the witness, in the origins of one consumer's messages."""
    known = UNKNOWN if identity is None else identity.encode()
    return b"%b " % stream.encode(), b" %b " % known, b" %b" % filters.encode()


def filter_text(filters: Iterable[str]) -> str:
    """What a consumer is filtered by, as an origin has it: its subjects in order, or a hash of many."""
    text = ",".join(sorted(filters)) or UNFILTERED
    return text if len(text.encode()) <= MAX_NAME else sha256(text.encode()).hexdigest()


def parse_origin(text: bytes) -> CopyOrigin | None:
    """The origin that ``text`` names. None: it is of another form."""
    line, _, last = text.rpartition(b" ")
    position = parse_position(line)
    found = _WITHOUT_WITNESS.fullmatch(text)
    try:
        if position is not None and _FILTERS.fullmatch(last):
            return CopyOrigin(position, last.decode())
        if found is None:
            return None
        stream, seq, filters, identity = found.groups()
        known = None if identity is None else identity.decode()
        return CopyOrigin(StreamPosition(stream.decode(), int(seq), known), filters.decode())
    except UnicodeDecodeError:
        return None


def origin_of(header: bytes | None) -> CopyOrigin | None:
    """The origin that a header block names. None: it is not that of a copy."""
    text = None if header is None else last_value(header, _NAME)
    return None if text is None else parse_origin(text)


def kept_lines(header: bytes, *, keep_ttl: bool) -> bytes:
    """The lines of a header block that a copy keeps, each with its end. The first line and the empty last one are left
    out.
    """
    lines = header[(header.find(LINE_END) + len(LINE_END)) or len(header) :].removesuffix(LINE_END)
    if _LINES.fullmatch(lines) is None:
        kept = (line + LINE_END for line in lines.split(LINE_END))
        lines = b"".join([line for line in kept if len(line) > len(LINE_END) and _LINES.fullmatch(line)])
    if b"Nats-" not in lines and _NAME not in lines:
        return lines
    return (_BUT_TTL if keep_ttl else _INSTRUCTIONS).sub(b"", b"\n" + lines)[1:]


def kept_lines_of_all(headers: Sequence[bytes | None], *, keep_ttl: bool) -> list[bytes]:
    """``kept_lines`` of each header block, b"" for a message that lacks one. Plain blocks are looked at as one text."""
    given = [header for header in headers if header is not None]
    text = b"".join([header[len(FIRST_LINE) : -len(LINE_END)] for header in given])
    ends = {(header[: len(FIRST_LINE)], header[-len(_END) :]) for header in given}
    is_plain = ends <= {(FIRST_LINE, _END)} and _LINES.fullmatch(text) is not None
    if is_plain and b"Nats-" not in text and _NAME not in text:
        return [b"" if header is None else header[len(FIRST_LINE) : -len(LINE_END)] for header in headers]
    return [b"" if header is None else kept_lines(header, keep_ttl=keep_ttl) for header in headers]
