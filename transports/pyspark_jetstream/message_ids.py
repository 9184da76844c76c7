"""Message ids of rows, for ``fastDedup``: the same row has the same id when it comes again.

* An id is ``PREFIX.BATCH.PARTITION`` and a digest of the row's subject, data and headers. It is independent of other
  messages, of the order of rows, of their cut into chunks, and of their origin: a cache, say.
* A second row of the same content has a number after it.
* A partition's digests are kept, 100 bytes for a row.

Not here: digests (``digests``), sending (``delivery``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import Headers
from jsproto.grammar.publish_headers import MSG_ID
from pyspark_jetstream.digests import ROW_BYTES, row_digests
from pyspark_jetstream.markers import TaskId
from pyspark_jetstream.messages import Row


def identified(chunks: Iterable[Sequence[Row]], prefix: str, task: TaskId) -> Iterator[Sequence[Row]]:
    """The rows with message ids."""
    made = MessageIds(_head(prefix, task))
    for chunk in chunks:
        ids = [*made.of(chunk)]
        if isinstance(chunk, MessageColumns) and chunk.headers is None:
            yield MessageColumns(chunk.subjects, chunk.payloads, {MSG_ID: ids})
        else:
            yield [_with_header(row, MSG_ID, each) for row, each in zip(chunk, ids, strict=True)]


def longest_id(prefix: str, task: TaskId) -> str:
    """As long as an id gets, of a row that comes less than 100 million times."""
    return f"{_head(prefix, task)}{'0' * 2 * ROW_BYTES}.{'9' * 8}"


def _head(prefix: str, task: TaskId) -> str:
    return f"{prefix}.{task.batch}.{task.partition}."


class MessageIds:
    """The ids of the rows of one partition, chunk by chunk."""

    def __init__(self, head: str) -> None:
        """``head``: what they begin with."""
        self._head = head
        self._known: set[bytes] = set()  # digests
        self._several = Counter[bytes]()  # how often those came that came again

    def of(self, chunk: Sequence[Row]) -> Iterator[str]:
        """The ids of the rows that come next."""
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
