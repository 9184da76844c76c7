"""Stored messages as columns: lists that are as long as there are messages, for whoever reads by the thousand.

Rules: one regular expression over all header blocks at once does what takes a dozen calls for each message. It has to
find the server's part at the end of each block, and nowhere else; where it does not (a stored header imitates the
server's, or breaks its block; a server writes it otherwise), every message is parsed by itself. Either way the result
is what ``StoredMsg`` has.

Not here: numbers and times as Arrow or NumPy have them; who receives the messages (``client.direct``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.headers import Headers, last_value
from jsproto.grammar.stored import StoredMsg

_END: Final = b"\r\n\r\n"
_SERVER_PART: Final = re.compile(
    rb"\r\nNats-Stream: [^\r\n]++\r\nNats-Subject: ([^ \t\r\n]++)\r\nNats-Sequence: [0-9]++"
    rb"\r\nNats-Time-Stamp: ([0-9TZ:.+-]++)\r\nNats-Num-Pending: [0-9]++\r\nNats-Last-Sequence: [0-9]++\r\n\r\n"
)


class StoredColumns(NamedTuple):
    """Messages of a stream in their order, column by column.

    ``subjects`` and ``timestamps`` are bytes as the server wrote them (RFC 3339, nanoseconds, trailing zeros cut);
    ``seqs`` are stream sequences; ``data`` the payloads; ``raw_headers`` the header blocks as they came, the server's
    part included.
    """

    subjects: Sequence[bytes]
    seqs: Sequence[int]
    timestamps: Sequence[bytes]
    data: Sequence[bytes]
    raw_headers: Sequence[bytes]

    def first(self, count: int) -> StoredColumns:
        """The first ``count`` messages alone."""
        subjects, seqs, timestamps, data, raw_headers = self
        return StoredColumns(subjects[:count], seqs[:count], timestamps[:count], data[:count], raw_headers[:count])

    def where(self, wanted: Sequence[bool]) -> StoredColumns:
        """The messages that are wanted."""
        return StoredColumns(
            [*compress(self.subjects, wanted)], [*compress(self.seqs, wanted)], [*compress(self.timestamps, wanted)],
            [*compress(self.data, wanted)], [*compress(self.raw_headers, wanted)],
        )  # fmt: skip

    def headers(self) -> list[Headers | None]:
        """The user's headers of each message; None where it has none. RemoteProtocolError when they are malformed."""
        return [
            StoredMsg(block, b"", seq).headers or None for block, seq in zip(self.raw_headers, self.seqs, strict=True)
        ]


def stored_columns(parts: Sequence[tuple[bytes, bytes, int]]) -> StoredColumns:
    """The columns of header blocks, payloads and sequences. RemoteProtocolError for a block without subject or time."""
    if not parts:
        return StoredColumns((), (), (), (), ())
    blocks, data, seqs = zip(*parts, strict=True)
    text = b"".join(blocks)
    found = _SERVER_PART.findall(text)
    # As many ends as blocks, each behind a server's part, and one at the end of each block: so each has one, its own.
    if len(found) == len(parts) == text.count(_END) and all(block.endswith(_END) for block in blocks):
        subjects, timestamps = zip(*found, strict=True)
    else:
        subjects = tuple([_value(block, b"Nats-Subject") for block in blocks])
        timestamps = tuple([_value(block, b"Nats-Time-Stamp") for block in blocks])
    return StoredColumns(subjects, seqs, timestamps, data, blocks)


def _value(block: bytes, name: bytes) -> bytes:
    value = last_value(block, name)
    if value is None:
        raise RemoteProtocolError(f"a Direct Get reply without {name.decode()}", block)
    return value
