"""What a copy of a message says of its original, and which headers of the original it keeps.

The origin of a copy is the stream, the sequence, the filters of the consumer, and the identity of the stream. It is one
line of text, in a header of each copy, or in the payload of a marker that is stored with the copies.

Rules:

* Headers whose names begin with ``Nats-`` are instructions to servers. A copy has none of the original's, except the
  time to live where the target takes one.
* All other headers are kept, in their order.
* Lines of a malformed header block that are no headers are not kept.
* An origin of any other form is none.

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
from jsproto.grammar.subjects import MAX_NAME

COPY_SOURCE: Final = "Jsproto-Copy-Source"
"""The header of a copy: ``<stream> <sequence> <filters>``, and from nats-server 2.15 the identity of the stream."""
UNFILTERED: Final = ">"

_NAME: Final = COPY_SOURCE.encode()
_ORIGIN: Final = re.compile(
    rb"([^ ]{1,%d}) ([0-9]{1,%d}) ([^ \r\n]{1,%d})(?: ([!-~]{1,%d}))?" % (MAX_NAME, MAX_DIGITS, MAX_NAME, MAX_NAME)
)
_END: Final = 2 * LINE_END
_LINES: Final = re.compile(rb"(?:[!-9;-~]++:[^\r\n\0]*+\r\n)*+")
_INSTRUCTIONS: Final = re.compile(rb"(?<=\n)(?:Nats-|%b:)[^\n]*\n" % _NAME)
_BUT_TTL: Final = re.compile(rb"(?<=\n)(?:Nats-(?!TTL:)|%b:)[^\n]*\n" % _NAME)


@event
class CopyOrigin:
    """Of which message something is the copy: the stream, its identity, and the sequence in it.

    ``filters`` is the ``filter_text`` of the consumer that delivered it. ``identity`` is None where the server has none
    (before 2.15).
    """

    stream: str
    seq: int
    filters: str
    identity: str | None

    def __bytes__(self) -> bytes:
        """As a header or a marker has it."""
        before, after = origin_parts(self.stream, self.filters, self.identity)
        return b"%b%d%b" % (before, self.seq, after)


def origin_parts(stream: str, filters: str, identity: str | None) -> tuple[bytes, bytes]:
    """What stands before and after the sequence, in the origins of all messages of one consumer."""
    end = b"" if identity is None else b" %b" % identity.encode()
    return b"%b " % stream.encode(), b" %b%b" % (filters.encode(), end)


def filter_text(filters: Iterable[str]) -> str:
    """What a consumer is filtered by, as an origin has it: its subjects in order, or a hash of many."""
    text = ",".join(sorted(filters)) or UNFILTERED
    return text if len(text.encode()) <= MAX_NAME else sha256(text.encode()).hexdigest()


def parse_origin(text: bytes) -> CopyOrigin | None:
    """The origin that ``text`` names. None: it is of another form."""
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return None
    stream, seq, filters, identity = found.groups()
    try:
        known = None if identity is None else identity.decode()
        return CopyOrigin(stream.decode(), int(seq), filters.decode(), known)
    except UnicodeDecodeError:
        return None


def origin_of(header: bytes | None) -> CopyOrigin | None:
    """The origin that a header block names. None: it is not that of a copy."""
    text = None if header is None else last_value(header, _NAME)
    return None if text is None else parse_origin(text)


def kept_lines(header: bytes, *, keep_ttl: bool) -> bytes:
    """The lines of a header block that a copy keeps, each with its end. Neither the first nor the empty last line."""
    lines = header[(header.find(LINE_END) + len(LINE_END)) or len(header) :].removesuffix(LINE_END)
    if _LINES.fullmatch(lines) is None:
        kept = (line + LINE_END for line in lines.split(LINE_END))
        lines = b"".join([line for line in kept if len(line) > len(LINE_END) and _LINES.fullmatch(line)])
    if b"Nats-" not in lines and _NAME not in lines:
        return lines
    return (_BUT_TTL if keep_ttl else _INSTRUCTIONS).sub(b"", b"\n" + lines)[1:]


def kept_lines_of_all(headers: Sequence[bytes | None], *, keep_ttl: bool) -> list[bytes]:
    """``kept_lines`` of each header block, b"" where there is none. Plain blocks are looked at as one text."""
    given = [header for header in headers if header is not None]
    text = b"".join([header[len(FIRST_LINE) : -len(LINE_END)] for header in given])
    ends = {(header[: len(FIRST_LINE)], header[-len(_END) :]) for header in given}
    is_plain = ends <= {(FIRST_LINE, _END)} and _LINES.fullmatch(text) is not None
    if is_plain and b"Nats-" not in text and _NAME not in text:
        return [b"" if header is None else header[len(FIRST_LINE) : -len(LINE_END)] for header in headers]
    return [b"" if header is None else kept_lines(header, keep_ttl=keep_ttl) for header in headers]
