"""Stored messages as columns: lists that are as long as there are messages, for whoever reads by the thousand.

Rules: one regular expression over all header blocks at once does what takes a dozen calls for each message. It has to
find one server's block for each message, with the sequence that the message is known to have; where it does not (a
stored header imitates the server's, a server writes them otherwise), every message is parsed by itself, with the same
result as ``StoredMsg`` has.

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

_BARE: Final = b"NATS/1.0\r\nNats-Stream: "  # how a block begins that has the server's part alone
_BLOCK: Final = re.compile(
    rb"\r\nNats-Stream: [^\r\n]++\r\nNats-Subject: ([^\r\n]++)\r\nNats-Sequence: ([0-9]{1,20}+)"
    rb"\r\nNats-Time-Stamp: ([^\r\n]++)\r\nNats-Num-Pending: [0-9]{1,20}+\r\nNats-Last-Sequence: [0-9]{1,20}+\r\n\r\n"
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
        """The user's headers of each message; None where it has none."""
        return [
            None if block.startswith(_BARE) else StoredMsg(block, b"", seq).headers
            for block, seq in zip(self.raw_headers, self.seqs, strict=True)
        ]


def stored_columns(parts: Sequence[tuple[bytes, bytes, int]]) -> StoredColumns:
    """The columns of header blocks, payloads and sequences. RemoteProtocolError when a block has not what it must."""
    if not parts:
        return StoredColumns((), (), (), (), ())
    blocks, data, seqs = zip(*parts, strict=True)
    found = _BLOCK.findall(b"".join(blocks))
    if len(found) == len(parts):
        subjects, numbers, timestamps = zip(*found, strict=True)
        if tuple(map(int, numbers)) == seqs:
            return StoredColumns(subjects, seqs, timestamps, data, blocks)
    subjects = tuple(_value(block, b"Nats-Subject") for block in blocks)
    timestamps = tuple(_value(block, b"Nats-Time-Stamp") for block in blocks)
    return StoredColumns(subjects, seqs, timestamps, data, blocks)


def _value(block: bytes, name: bytes) -> bytes:
    value = last_value(block, name)
    if value is None:
        raise RemoteProtocolError(f"a Direct Get reply without {name.decode()}", block)
    return value
