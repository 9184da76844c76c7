"""Digests of rows: of all rows of a partition so far, and of one row.

* Only the rows and their order count, however they are cut into chunks, and whatever types Arrow has for them.
* A digest of rows is five running ones: of subjects and their lengths, payloads and theirs, and headers. Whole buffers
  of Arrow go into them, so a row costs no object.
* SHA-256, because processors have instructions for it, cut to 128 bits, and to 96 for one row.

Not here: what digests are compared with (``repetition``).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import repeat
from struct import pack
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jsproto.grammar.columns import message_columns
from jsproto.grammar.headers import encode_headers
from pyspark_jetstream.messages import Row, RowMessages

DIGITS: Final = 32
ROW_BYTES: Final = 12


class RowsDigest:
    """A running digest of rows."""

    __slots__ = ("_headers", "_payload_sizes", "_payloads", "_rows", "_subject_sizes", "_subjects")

    def __init__(self) -> None:
        self._rows = 0
        self._subjects, self._subject_sizes, self._payloads, self._payload_sizes, self._headers = (
            sha256(usedforsecurity=False) for _ in range(5)
        )

    def copy(self) -> RowsDigest:
        """The same, which goes on by itself."""
        found = RowsDigest.__new__(RowsDigest)
        found._rows = self._rows
        found._subjects = self._subjects.copy()
        found._subject_sizes = self._subject_sizes.copy()
        found._payloads = self._payloads.copy()
        found._payload_sizes = self._payload_sizes.copy()
        found._headers = self._headers.copy()
        return found

    def add(self, rows: Sequence[Row]) -> None:
        """These rows come next."""
        if not rows:
            return
        headers: Any
        if isinstance(rows, RowMessages):
            subjects, payloads = rows.columns
            if isinstance(subjects, str):
                _feed(self._subjects, self._subject_sizes, [subjects.encode()] * len(rows))
            else:
                _feed_column(self._subjects, self._subject_sizes, subjects)
            _feed_column(self._payloads, self._payload_sizes, payloads)
            headers = rows.headers
        else:
            texts, datas, headers = message_columns(rows)
            _feed(self._subjects, self._subject_sizes, [text.encode() for text in texts])
            _feed(self._payloads, self._payload_sizes, datas)
        for number, each in enumerate(headers or (), self._rows):
            if each:
                block = encode_headers(each)
                self._headers.update(pack("<qi", number, len(block)) + block)
        self._rows += len(rows)

    @property
    def text(self) -> str:
        """The digest of all rows so far."""
        found = sha256(usedforsecurity=False)
        for each in (self._subjects, self._subject_sizes, self._payloads, self._payload_sizes, self._headers):
            found.update(each.digest())
        return found.hexdigest()[:DIGITS]


def _feed(texts: Any, sizes: Any, values: Sequence[bytes]) -> None:
    texts.update(b"".join(values))
    sizes.update(array("i", map(len, values)))


def _feed_column(texts: Any, sizes: Any, column: pa.ChunkedArray) -> None:
    """As ``_feed``, of strings or bytes without nulls, whose offsets have 32 bits."""
    for part in column.chunks:
        if not len(part):
            continue
        _, offsets, data = part.buffers()
        edges = memoryview(offsets).cast("i")
        begin, end = edges[part.offset], edges[part.offset + len(part)]
        if begin != end:  # else there may be no buffer
            texts.update(memoryview(data)[begin:end])
        lengths = pc.binary_length(part)
        sizes.update(memoryview(lengths.buffers()[1]).cast("i")[lengths.offset : lengths.offset + len(lengths)])


def row_digests(rows: Sequence[Row]) -> Iterator[bytes]:
    """The digest of each row."""
    subjects, payloads, headers = message_columns(rows)
    for subject, payload, each in zip(subjects, payloads, headers or repeat(None), strict=False):
        block = encode_headers(each) if each else b""
        head = b"%b %d " % (subject.encode(), len(block))  # a subject has no blanks
        yield sha256(head + block + payload, usedforsecurity=False).digest()[:ROW_BYTES]
