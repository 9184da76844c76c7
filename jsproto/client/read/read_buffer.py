"""Messages of a stream that have arrived and were not taken yet.

Rules:

* Messages that came together stay together, in a few long lists. A message adds no object of its own, and the garbage
  collector has little to look at.
* Columns that are known on arrival are kept.

Not here: which messages belong to a page (``direct``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from jsproto.grammar.columns import StoredColumns, joined, stored_columns
from jsproto.grammar.stored import FieldsAsked, StoredMsg, stored_messages

NONE: Final[tuple[bytes, ...]] = ()


class ReadBuffer:
    """Its length is the number of messages."""

    __slots__ = ("_at", "_blocks", "_count")

    def __init__(self) -> None:
        self._blocks: deque[StoredColumns] = deque()
        self._at = 0  # what was taken of the first one
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, columns: StoredColumns) -> None:
        """These came next. While their subjects and times are not parsed, these columns are ``NONE``."""
        self._blocks.append(columns)
        self._count += len(columns.seqs)

    def add_all(self, others: ReadBuffer) -> None:
        """All of ``others``, of which nothing was taken, came next."""
        self._blocks += others._blocks
        self._count += others._count

    def headers(self) -> list[bytes]:
        """The header blocks, of which none was taken."""
        return [header for block in self._blocks for header in block.raw_headers]

    def clear(self) -> None:
        """Drop them all."""
        self._blocks.clear()
        self._at = self._count = 0

    def pop_messages(self, most: int, asked: FieldsAsked | None = None) -> list[StoredMsg]:
        """Take up to ``most`` of them, in order. ``asked`` hears when a field is looked at that is not parsed."""
        messages: list[StoredMsg] = []
        for part in self._popped(most):
            subjects, seqs, times, data, headers = part
            messages += stored_messages(headers, data, seqs, subjects, times, asked)
        return messages

    def pop_columns(self, most: int) -> StoredColumns:
        """Take up to ``most`` of them, in order, as columns.

        Raises:
            RemoteProtocolError: a message has no subject or no time.
        """
        parts = [
            part if part.subjects else stored_columns([*zip(part.raw_headers, part.data, part.seqs, strict=True)])
            for part in self._popped(most)
        ]
        return joined(parts) if parts else stored_columns(())

    def _popped(self, most: int) -> Iterator[StoredColumns]:
        blocks = self._blocks
        while blocks and most > 0:
            at, block = self._at, blocks[0]
            if len(block.seqs) - at <= most:
                blocks.popleft()
                self._at = 0
            else:
                self._at = at + most
            if at or self._at:
                block = block.between(at, at + most)
            most -= len(block.seqs)
            self._count -= len(block.seqs)
            yield block
