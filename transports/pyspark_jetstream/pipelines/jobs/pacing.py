"""Publishing rows at the pace at which they were stored once, or a multiple of it: the one task of a paced replay.

Rules: a row is due when as much time has passed since the first one as it was then, divided by the speed. What is due
leaves together; rows due within a few milliseconds wait for each other, so that a dense stretch is not published one by
one. Time is monotonic.

Not here: how rows are stored (``delivery``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Final

import pyarrow as pa

from pyspark_jetstream.connecting import in_task
from pyspark_jetstream.delivery import Origin, store
from pyspark_jetstream.options import WriteOptions
from pyspark_jetstream.rows import Target, lots_of

TOGETHER: Final = 0.002  # seconds within which rows leave together
LONGEST: Final = 1.0  # seconds of sleep at a time
SCHEMA: Final = "rows bigint, bytes bigint"


def paced(
    batches: Iterable[pa.RecordBatch],
    speed: float,
    now: Callable[[], float] = monotonic,
    rest: Callable[[float], None] = sleep,
) -> Iterator[pa.RecordBatch]:
    """Pieces of ``batches``, each when it is due by its column ``timestamp`` (microseconds)."""
    first: int | None = None
    began = 0.0
    for batch in batches:
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        at = 0
        while at < len(times):
            if first is None:
                first, began = times[0], now()
            since = now() - began
            upto = bisect_right(times, first + (since + TOGETHER) * speed * 1e6, lo=at)
            if upto > at:
                yield batch.slice(at, upto - at)
                at = upto
            else:
                rest(min((times[at] - first) / speed / 1e6 - since, LONGEST))


@dataclass
class PacedTask:
    """What Spark runs: it takes Arrow batches in their order, and gives one row, which counts them."""

    options: WriteOptions
    target: Target
    names: list[str]
    speed: float
    run: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        size = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal size
            for piece in paced(batches, self.speed):
                size += piece.column("data").nbytes
                yield piece

        with in_task(self.options.connecting, reader_thread=True) as (nc, js):
            target = replace(self.target, max_size=min(self.target.max_size, nc.max_payload))
            lots = lots_of(counted(), self.names, None, target)
            stored = store(nc, js, lots, Origin(self.run, 0, 0), self.options)
        yield pa.RecordBatch.from_pylist([{"rows": stored.rows, "bytes": size}])
