"""Names of rows: the column ``origin``, which a read gives with ``includeOrigin`` and a write takes.

* ``origin.task`` is a number for the range that a task of the source reads, ``origin.seq`` the message's sequence. They
  name a row, whatever is deleted or overwritten before it.
* ``origin.attempt`` is a number for the task that reads it. Only where it is that of the task that writes, there is
  nothing between both: no shuffle, no cache, no table. So sequences come in order, and "up to here" means all of them.
* Where rows come in another order, or without names, ``segments_of`` gives none.

Not here: what follows from names (``repetition`` for ``atomic``, ``message_ids`` for ``fastDedup``).
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
MAX_RUNS: Final = 64
"""Tasks of the source in a chunk, and in a marker. A shuffle has more."""


class Segment(NamedTuple):
    """Rows one after the other that come from one task of the source, with sequences that never fall.

    ``is_own``: that task writes them, too. ``is_single``: no two have the same sequence.
    """

    task: int
    seqs: Sequence[int]
    is_own: bool = True
    is_single: bool = True

    def between(self, start: int, stop: int) -> Segment:
        """Some of them."""
        return Segment(self.task, self.seqs[start:stop], self.is_own, self.is_single)


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


def segments_of(origins: pa.ChunkedArray, attempt: int | None) -> Sequence[Segment] | None:
    """The names of rows, of their column. ``attempt``: the number of the task that writes them.

    None: some have no name, or their order is another one, or they come from more tasks than ``MAX_RUNS``.
    """
    array = origins.combine_chunks()
    tasks, seqs, attempts = array.flatten()
    if tasks.null_count or seqs.null_count:
        return None
    encoded = pc.run_end_encode(tasks)
    ends = encoded.run_ends.to_pylist()
    if len(ends) > MAX_RUNS:
        return None
    is_own = attempt is not None and not attempts.null_count and pc.all(pc.equal(attempts, attempt)).as_py()
    numbers = memoryview(seqs.buffers()[1]).cast("q")[seqs.offset : seqs.offset + len(seqs)]
    found: list[Segment] = []
    last: dict[int, int] = {}
    for task, (start, stop) in zip(encoded.values.to_pylist(), pairwise([0, *ends]), strict=True):
        step = pc.min(pc.pairwise_diff(seqs.slice(start, stop - start))).as_py()
        if step is not None and step < 0:
            return None
        found.append(Segment(task, numbers[start:stop], is_own, step is None or step > 0))
    for segment in found:
        if segment.task in last and segment.seqs[0] < last[segment.task]:
            return None
        last[segment.task] = segment.seqs[-1]
    return found
