"""Message ids of rows, for ``fastDedup``: the same row has the same id when it comes again.

* An id is ``PREFIX.BATCH.PARTITION`` and what is the row's own: its name, or else a digest of its subject, data and
  headers. It never depends on what came before, so a row that has vanished shifts nothing.
* Names count in the order of the source alone. Rows of one message need its task as well, which keeps their order. A
  second row of the same name, or of the same content, has a number after it.
* A partition's digests are kept, 100 bytes for a row. Names cost nothing.

Not here: names (``origins``), digests (``digests``), sending (``delivery``).
"""

from __future__ import annotations

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
        self._rises = True  # names have come in order so far
        self._last: dict[
            int, tuple[int, int]
        ] = {}  # of each task of the source: the last sequence, and rows after its first
        self._known: set[bytes] = set()  # digests
        self._several = Counter[bytes]()  # how often those came that came again

    def of(self, chunk: Sequence[Row]) -> list[str]:
        """The ids of the rows that come next."""
        segments = chunk.segments if isinstance(chunk, RowMessages) else None
        if segments is None:
            self._rises = False
        elif self._rises:
            self._rises = all(each.seqs[0] >= self._last.get(each.task, (0, 0))[0] for each in segments)
        if self._rises and segments is not None and all(each.is_own or self._is_single(each) for each in segments):
            return [each for segment in segments for each in self._named(segment)]
        return [*self._by_content(chunk)]

    def _is_single(self, segment: Segment) -> bool:
        return segment.is_single and segment.seqs[0] > self._last.get(segment.task, (0, 0))[0]

    def _named(self, segment: Segment) -> list[str]:
        head = f"{self._head}s{segment.task & (2**64 - 1):x}."
        if self._is_single(segment):
            self._last[segment.task] = segment.seqs[-1], 0
            return [f"{head}{seq}" for seq in segment.seqs]
        found = []
        last, number = self._last.get(segment.task, (0, 0))
        for seq in segment.seqs:
            last, number = seq, number + 1 if seq == last else 0
            found.append(f"{head}{seq}.{number}" if number else f"{head}{seq}")
        self._last[segment.task] = last, number
        return found

    def _by_content(self, chunk: Sequence[Row]) -> Iterator[str]:
        for digest in row_digests(chunk):
            if digest in self._known:
                self._several[digest] += 1
                yield f"{self._head}{digest.hex()}.{self._several[digest]}"
            else:
                self._known.add(digest)
                yield f"{self._head}{digest.hex()}"


def _with_header(row: Row, name: str, value: str) -> Row:
    if len(row) == 2 or row[2] is None:
        return row[0], row[1], {name: value}
    others = (pair for pair in row[2].items() if pair[0] != name)  # a server takes the first one
    return row[0], row[1], Headers([*others, (name, value)])
