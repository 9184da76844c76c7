"""Message ids of rows, for ``fastDedup``: the same row has the same id when it comes again.

* An id is ``PREFIX.BATCH.PARTITION`` and what is the row's own: its name where that holds, or else a digest of its
  subject, data and headers. Neither depends on other messages, on the order of rows, or on how they are cut in chunks.
* A second row of the same name, or of the same content, has a number after it. Only rows of one message, of the task
  that reads it, are numbered by name: their order is its own.
* A partition's digests are kept, 100 bytes for a row. Of names in the source's order, 8 bytes are kept.

Not here: names (``origins``), digests (``digests``), sending (``delivery``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import Headers
from jsproto.grammar.publish_headers import MSG_ID
from pyspark_jetstream.digests import row_digests
from pyspark_jetstream.markers import TaskId
from pyspark_jetstream.messages import Row, RowMessages
from pyspark_jetstream.origins import Segment


def identified(chunks: Iterable[Sequence[Row]], prefix: str, task: TaskId) -> Iterator[Sequence[Row]]:
    """The rows with message ids."""
    made = MessageIds(f"{prefix}.{task.batch}.{task.partition}.")
    for chunk in chunks:
        ids = made.of(chunk)
        if isinstance(chunk, MessageColumns) and chunk.headers is None:
            yield MessageColumns(chunk.subjects, chunk.payloads, {MSG_ID: ids})
        else:
            yield [_with_header(row, MSG_ID, each) for row, each in zip(chunk, ids, strict=True)]


class MessageIds:
    """The ids of the rows of one partition, chunk by chunk."""

    def __init__(self, head: str) -> None:
        """``head``: what they begin with."""
        self._head = head
        self._names: dict[int, _Names] = {}  # of each task of the source
        self._known: set[bytes] = set()  # digests
        self._several = Counter[bytes]()  # how often those came that came again

    def of(self, chunk: Sequence[Row]) -> list[str]:
        """The ids of the rows that come next."""
        segments = chunk.segments if isinstance(chunk, RowMessages) else None
        if segments is None:
            return [*self._by_content(chunk)]
        found: list[str] = []
        for segment in segments:
            start = len(found)
            if segment.task is None:
                found += self._by_content(chunk[start : start + len(segment.seqs)])
            else:
                names = self._names.setdefault(segment.task, _Names())
                head = f"{self._head}s{segment.task & (2**64 - 1):x}."
                found += [head + name for name in names.of(segment)]
        return found

    def _by_content(self, chunk: Sequence[Row]) -> Iterator[str]:
        for digest in row_digests(chunk):
            if digest in self._known:
                self._several[digest] += 1
                yield f"{self._head}{digest.hex()}.{self._several[digest]}"
            else:
                self._known.add(digest)
                yield f"{self._head}{digest.hex()}"


class _Names:
    """Names of rows of one task of the source, that have come."""

    def __init__(self) -> None:
        self._risen = array("q")  # sequences, each above all before it
        self._fallen: set[int] = set()  # the others
        self._several = Counter[int]()  # how often those came that came again

    def of(self, segment: Segment) -> Iterator[str]:
        seqs = segment.seqs
        if segment.is_single and (not self._risen or seqs[0] > self._risen[-1]):
            self._risen.extend(seqs)
            return map(str, seqs)
        return map(self._next, seqs)

    def _next(self, seq: int) -> str:
        if not self._risen or seq > self._risen[-1]:
            self._risen.append(seq)
        elif self._risen[bisect_left(self._risen, seq)] != seq and seq not in self._fallen:
            self._fallen.add(seq)
        else:
            self._several[seq] += 1
            return f"{seq}.{self._several[seq]}"
        return str(seq)


def _with_header(row: Row, name: str, value: str) -> Row:
    if len(row) == 2 or row[2] is None:
        return row[0], row[1], {name: value}
    others = (pair for pair in row[2].items() if pair[0] != name)  # a server takes the first one
    return row[0], row[1], Headers([*others, (name, value)])
