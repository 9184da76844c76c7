"""Rows of Arrow's, without headers, as messages to publish.

Rules:
* Arrow joins its columns to the bytes that publish a block of rows, without a Python object for each row.
* That is cheap only for thousands of rows at once, more than a window admits. So a block is encoded for the sequence of
  its first row in the batch, and sent in slices.
* Objects are made where rows are wanted one by one: after a batch broke off, with headers, in atomic batches.

Not here: whether rows can be stored (``rows``), the same bytes from objects (``jsproto.wire.bulk_encoder``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.subjects import check_subject
from jsproto.wire.bulk_encoder import pub_head

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
        subjects = self._chunk.subjects
        return [subjects] * len(self._rows) if isinstance(subjects, str) else self._objects(subjects)

    @property
    def payloads(self) -> Sequence[bytes]:
        """The data of each row."""
        return self._objects(self._chunk.payloads)

    @property
    def headers(self) -> None:
        """Rows have none."""

    def _objects(self, column: pa.ChunkedArray) -> list[Any]:
        found: list[Any] = column.slice(self._rows.start, len(self._rows)).to_pylist()
        return found

    def encoded(self, reply: tuple[bytes, bytes], first: int, largest: int, most: int) -> tuple[int, bytes]:
        """The rows at the front as PUBs: none if a row of the chunk is too large."""
        chunk, rows = self._chunk, self._rows
        at, pieces = rows.start, []
        while at < rows.stop and most >= 0 and chunk.longest <= largest:
            piece, at = chunk.encoded(at, rows.stop, most, reply, first + at - rows.start)
            pieces.append(piece)
            most -= len(piece)
        return at - rows.start, b"".join(pieces)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Few objects are made at first: a sender of single messages stops where there is no room, and comes again."""
        start, count = 0, 1
        while start < len(self):
            some = self[start : start + count]
            yield from zip(some.subjects, some.payloads, strict=True)
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
    ``longest`` is the most bytes of a payload.
    """

    def __init__(self, subjects: pa.ChunkedArray | str, payloads: pa.ChunkedArray, longest: int) -> None:
        self.subjects = subjects
        self.payloads = payloads
        self.longest = longest
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
