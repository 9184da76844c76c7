"""Rows of Arrow's as messages to publish.

Rules:
* Arrow joins its columns to the bytes that publish a block of rows, without a Python object for each row.
* That is cheap only for thousands of rows at once, more than a window admits. So a block is encoded for the sequence of
  its first row in the batch, and sent in slices.
* Objects are made where rows are wanted one by one: after a batch broke off, with headers, in atomic batches.

Not here: whether rows can be stored (``rows``), the same bytes from objects (``jsproto.wire.bulk_encoder``), what names
are (``origins``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import Headers
from jsproto.grammar.subjects import check_subject
from jsproto.wire.bulk_encoder import pub_head
from pyspark_jetstream.origins import Segment

Row = tuple[Any, ...]  # (subject, payload) or (subject, payload, Headers or None)

BLOCK_ROWS: Final = 4_096
BLOCK_BYTES: Final = 1024 * 1024  # of payloads, unless a row has more


class RowMessages(MessageColumns):
    """Rows of a chunk. Slices are cheap and share the block that is being sent."""

    __slots__ = ("_chunk", "_rows")

    def __init__(self, chunk: Chunk, rows: range) -> None:
        self._chunk = chunk
        self._rows = rows

    @property
    def subjects(self) -> Sequence[str]:
        """Where each row goes."""
        chunk = self._chunk
        if chunk.objects is not None:
            return chunk.objects.subjects[self._rows.start : self._rows.stop]
        subjects, _ = self.columns
        return [subjects] * len(self) if isinstance(subjects, str) else self._objects(subjects)

    @property
    def payloads(self) -> Sequence[bytes]:
        """The data of each row."""
        chunk = self._chunk
        if chunk.objects is not None:
            return chunk.objects.payloads[self._rows.start : self._rows.stop]
        return self._objects(self.columns[1])

    def _objects(self, column: pa.ChunkedArray) -> list[Any]:
        found: list[Any] = column.to_pylist()
        return found

    @property
    def headers(self) -> Sequence[Headers | None] | None:
        """The headers of each row. None: no row of the chunk has any."""
        headers = self._chunk.headers
        return None if headers is None else headers[self._rows.start : self._rows.stop]

    @property
    def columns(self) -> tuple[pa.ChunkedArray | str, pa.ChunkedArray]:
        """Subjects, or the one that all rows have, and payloads."""
        subjects, payloads = self._chunk.subjects, self._chunk.payloads
        start, count = self._rows.start, len(self._rows)
        return subjects if isinstance(subjects, str) else subjects.slice(start, count), payloads.slice(start, count)

    @property
    def segments(self) -> Sequence[Segment] | None:
        """The names of all rows of the chunk. None: they have none."""
        return self._chunk.segments

    @property
    def payload_sizes(self) -> Sequence[int]:
        """Bytes of the data of each row."""
        found: list[int] = pc.binary_length(self.columns[1]).to_pylist()
        return found

    @property
    def longest(self) -> int:
        """Bytes of a payload, at most."""
        return self._chunk.longest

    def encoded(self, reply: tuple[bytes, bytes], first: int, largest: int, most: int) -> tuple[int, bytes]:
        """The rows at the front as PUBs: none if a row of the chunk is too large, or has headers."""
        chunk, rows = self._chunk, self._rows
        at, pieces = rows.start, []
        while at < rows.stop and most >= 0 and chunk.longest <= largest and chunk.headers is None:
            piece, at = chunk.encoded(at, rows.stop, most, reply, first + at - rows.start)
            pieces.append(piece)
            most -= len(piece)
        return at - rows.start, b"".join(pieces)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        """Few objects are made at first: a sender of single messages stops where there is no room, and comes again."""
        start, count = 0, 1
        while start < len(self):
            some = self[start : start + count]
            columns = (
                (some.subjects, some.payloads) if some.headers is None else (some.subjects, some.payloads, some.headers)
            )
            yield from zip(*columns, strict=True)
            start += count
            count *= 2

    def __getitem__(self, place: int | slice) -> Any:
        rows = self._rows[place]
        if isinstance(rows, int):
            (row,) = RowMessages(self._chunk, range(rows, rows + 1))
            return row
        return RowMessages(self._chunk, rows) if rows.step == 1 else super().__getitem__(place)


class Chunk:
    """The columns of rows that are sent together, and the block of them that is encoded.

    ``subjects`` are checked strings, or the one that all rows have. ``payloads`` are binary. Neither has nulls.
    ``longest`` is the most bytes of a payload. ``headers`` are those of each row, ``segments`` the rows' names.
    ``objects``: the rows as objects. They are made at once where rows have headers.
    """

    def __init__(
        self,
        subjects: pa.ChunkedArray | str,
        payloads: pa.ChunkedArray,
        longest: int,
        segments: Sequence[Segment] | None = None,
    ) -> None:
        self.subjects = subjects
        self.payloads = payloads
        self.longest = longest
        self.segments = segments
        self.headers: Sequence[Headers | None] | None = None
        self.objects: MessageColumns | None = None
        self._rows = range(0)  # of the block
        self._key: object = None  # what it was encoded for
        self._offsets = self._bytes = memoryview(b"")

    @property
    def messages(self) -> RowMessages:
        """All rows."""
        return RowMessages(self, range(len(self.payloads)))

    def encoded(self, start: int, stop: int, most: int, reply: tuple[bytes, bytes], first: int) -> tuple[bytes, int]:
        """The PUBs of rows from ``start`` on, and the row after them, which is at most ``stop``.

        No PUB begins after ``most`` bytes. ``first`` is the batch sequence of ``start``. ``reply`` is the reply subject
        before and after the sequence.

        A block of rows is encoded once, by Arrow, and the parts that a window admits are sliced from it. It is encoded
        again for another reply subject or another sequence. The writes of ``python -m tests.bench.spark`` pay for it.
        """
        if start not in self._rows or self._key != (reply, first - start):
            self._encode(start, reply, first)
        offsets, block = self._offsets, self._rows
        at = start - block.start
        begin = offsets[at]
        end = bisect_right(offsets, begin + most, at, min(stop, block.stop) - block.start)
        return self._bytes[begin : offsets[end]].tobytes(), block.start + end

    def _encode(self, start: int, reply: tuple[bytes, bytes], first: int) -> None:
        """The block that begins with the row ``start``."""
        payloads = self.payloads.slice(start, BLOCK_ROWS)
        while payloads.nbytes > BLOCK_BYTES and len(payloads) > 1:
            payloads = payloads.slice(0, len(payloads) // 2)
        count = len(payloads)
        before, behind = reply
        if isinstance(self.subjects, str):
            heads = [pub_head(check_subject(self.subjects)) + before]
        else:
            heads = [b"PUB ", self.subjects.slice(start, count).cast(pa.binary()), b" " + before]
        sizes = pc.binary_length(payloads)
        least, largest = pc.min_max(sizes).as_py().values()
        ends = [behind + b" %d\r\n" % least] if least == largest else [behind + b" ", _texts(sizes), b"\r\n"]
        joined = pc.binary_join_element_wise(*heads, _numbers(first, count), *ends, payloads, b"\r\n", b"")
        joined = joined.chunk(0) if joined.num_chunks == 1 else joined.combine_chunks()  # which copies
        _, offsets, data = joined.buffers()
        self._offsets = memoryview(offsets).cast("i")[joined.offset :]
        self._bytes = memoryview(data)
        self._rows = range(start, start + count)
        self._key = reply, first - start


@lru_cache(maxsize=16)  # the same ones in each chunk
def _numbers(first: int, count: int) -> pa.Array:
    return _texts(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1))


def _texts(numbers: Any) -> Any:
    return numbers.cast(pa.string()).cast(pa.binary())
