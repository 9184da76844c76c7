"""Publishing rows at the pace at which they were stored once, or a multiple of it: the one task of a paced replay.

Rules:
* A row is due when as much time has passed since the first row as it was then, divided by the speed.
* What is due leaves together. Rows due within a few milliseconds wait for each other, so that a dense stretch is
  published in blocks.
* Time is monotonic.

Not here: how rows are stored (``sink``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from time import monotonic, sleep
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceWriter
from pyspark.sql.types import StructType

from pyspark_jetstream.options import WriteOptions, write_options
from pyspark_jetstream.sink import JetStreamWriter, Written

FORMAT: Final = "jetstream_paced"
SPEED: Final = "speed"
TOGETHER: Final = 0.002  # seconds within which rows leave together
LONGEST: Final = 1.0  # seconds of sleep at a time


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


class PacedWriter(JetStreamWriter):
    """A batch write that takes its time."""

    def __init__(self, schema: StructType, options: WriteOptions, overwrite: bool, speed: float) -> None:
        super().__init__(schema, options, overwrite)
        self._speed = speed

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Store the rows of the task, each when it is due."""
        return super().write(paced(iterator, self._speed))


class PacedDataSource(DataSource):
    """The sink ``jetstream`` with one option more, ``speed``, and one more column, ``timestamp``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = {name: value for name, value in self.options.items() if name != SPEED}
        options["ignoreExtraColumns"] = "true"  # the time is for us
        return PacedWriter(schema, write_options(options), overwrite, float(self.options[SPEED]))
