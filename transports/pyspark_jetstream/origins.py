"""Names of rows: the column ``origin``, which a read gives with ``includeOrigin`` and a write takes.

* ``origin.task`` is a number for the range that a task of the source reads, ``origin.seq`` the message's sequence. They
  name a row, whatever is deleted or overwritten before it.
* ``origin.attempt`` is a number for the task that reads it. A name holds only while that is the task that writes: a
  shuffle, a cache or a table in between makes another one.

Not here: what follows from names (``repetition``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark import TaskContext

APP_ID: Final = "spark.app.id"


class Segment(NamedTuple):
    """Rows one after the other whose names hold, of one task of the source, or whose names do not.

    ``task`` is None where they do not. ``rises``: no sequence is below the one before it.
    """

    task: int | None
    seqs: Sequence[int]
    rises: bool = True

    def between(self, start: int, stop: int) -> Segment:
        """Some of them."""
        return Segment(self.task, self.seqs[start:stop], self.rises)


def task_number(stream: str, identity: str | None, lo: int, hi: int, subject: str | None) -> int:
    """The number of a task of the source. ``identity``: of the stream. The range is ``[lo, hi)``."""
    return _number(stream, identity, lo, hi, subject)


def attempt_number(context: TaskContext | None) -> int | None:
    """The number of a run of a task of Spark. None: Spark does not say which it is."""
    if context is None:
        return None
    app, attempt = context.getLocalProperty(APP_ID), context.taskAttemptId()
    return None if app is None or attempt is None else _number(app, attempt)


def _number(*parts: object) -> int:
    digest = sha256(json.dumps(parts).encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def segments_of(origins: pa.ChunkedArray, attempt: int | None) -> Sequence[Segment]:
    """The names of all rows, of their column. ``attempt``: the number of the task that writes them."""
    tasks, seqs, attempts = origins.combine_chunks().flatten()
    is_named = pc.and_(tasks.is_valid(), seqs.is_valid())
    is_own = pc.and_(pc.fill_null(pc.equal(attempts, pa.scalar(attempt, pa.int64())), False), is_named)
    tasks = pc.if_else(is_own, tasks, 0)
    changes = pc.or_(pc.not_equal(tasks[1:], tasks[:-1]), pc.xor(is_own[1:], is_own[:-1]))
    starts = [0, *pc.add(pc.indices_nonzero(changes), 1).to_pylist()]
    seqs = seqs.fill_null(0)
    numbers = memoryview(seqs.buffers()[1]).cast("q")[seqs.offset : seqs.offset + len(seqs)]
    found: list[Segment] = []
    for start, stop in pairwise([*starts, len(seqs)]):
        task = tasks[start].as_py() if is_own[start].as_py() else None
        step = None if task is None else pc.min(pc.pairwise_diff(seqs.slice(start, stop - start))).as_py()
        found.append(Segment(task, numbers[start:stop], step is None or step >= 0))
    return found
