"""Reading a stream into a DataFrame: once, or as an endless one.

Rules: the driver plans, tasks read; nothing of a connection is kept in what Spark sends to tasks. An offset is exact:
the same range gives the same rows, however often and wherever it is read, as long as the stream keeps it. Spark tells
the end of a read neither reliably nor in time, so nothing depends on it.

Not here: options (``options``), which ranges (``planning``), the reading itself (``ranges``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.subjects import matches
from pyspark_jetstream.connecting import jetstream
from pyspark_jetstream.offsets import Position, decode_offset, encode_offset
from pyspark_jetstream.options import EARLIEST, LATEST, ReadOptions
from pyspark_jetstream.planning import (
    Range,
    check_loss,
    created,
    cut,
    end_of,
    filtered,
    look_up,
    resolve,
)
from pyspark_jetstream.ranges import read_range
from pyspark_jetstream.schema import BatchBuilder, check_read_schema

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before 4.2 there is no admission control
    ReadAllAvailable = ReadLimit = ReadMaxRows = None  # type: ignore[assignment,misc]
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

ROWS: Final = 10_000  # in an Arrow batch, about
LOOK_EVERY: Final = 0.1  # seconds; an idle query asks for the latest offset a hundred times a second


@dataclass
class RangePartition(InputPartition):
    """One task of a read."""

    wanted: Range


class _Reads:
    """What both kinds of reader do in a task."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self.schema = schema
        self.options = options
        check_read_schema(schema)

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, as Arrow batches. DataLossError, ReadError, or the error of the connection."""
        assert isinstance(partition, RangePartition)
        wanted, options = partition.wanted, self.options
        builder = BatchBuilder(self.schema, wanted.stream)
        with jetstream(options.connecting) as js:
            yield from batches(read_range(js, wanted, options), wanted, builder, options)


def batches(
    pieces: Iterator[StoredColumns], wanted: Range, builder: BatchBuilder, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of about ``ROWS`` rows, of what is to be seen of ``pieces``."""
    collected: list[StoredColumns] = []
    rows = 0
    for piece in pieces:
        seen = piece if wanted.subject is None or not wanted.local else kept(piece, wanted.subject)
        if seen.seqs:
            collected.append(seen)
            rows += len(seen.seqs)
        if rows >= ROWS:
            yield builder.build(collected)
            collected, rows = [], 0
    if collected:
        yield builder.build(collected)


def kept(columns: StoredColumns, pattern: str) -> StoredColumns:
    """The rows whose subject matches."""
    known = {subject: matches(pattern, subject.decode("utf-8", "surrogateescape")) for subject in set(columns.subjects)}
    wanted = [known[subject] for subject in columns.subjects]
    return columns if all(wanted) else columns.where(wanted)


class JetStreamReader(_Reads, DataSourceReader):
    """A batch read."""

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks. OptionError, DataLossError in the driver."""
        options = self.options
        found: list[Range] = []
        with jetstream(options.connecting) as js:
            for stream in options.streams:
                info = look_up(js, stream)
                lo = resolve(js, info, options.starting, options.starting_time, EARLIEST)
                hi = resolve(js, info, options.ending, options.ending_time, LATEST)
                lo = check_loss(info, Position(created(info), lo), options).seq
                whole = self.bounded(js, Range(stream, created(info), lo, min(hi, end_of(info))))
                found += cut(filtered(js, info, options.subject, whole), options, parallelism())
        return [RangePartition(wanted) for wanted in found] or [RangePartition(Range(options.streams[0], 0, 1, 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self.rows(partition)

    def bounded(self, js: Any, whole: Range) -> Range:
        """Narrowed by filters that Spark has pushed down; here there are none."""
        return whole


class JetStreamStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        self._until: dict[str, int] | None = None  # AvailableNow: where this run ends
        self._planned: dict[str, Any] | None = None
        self._looked_at = float("-inf")
        self._latest: dict[str, Position] = {}

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        options = self.options
        with jetstream(options.connecting) as js:
            positions = {}
            for stream in options.streams:
                info = look_up(js, stream)
                lo = resolve(js, info, options.starting, options.starting_time, LATEST)
                positions[stream] = check_loss(info, Position(created(info), lo), options)
        return encode_offset(positions)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Where the next micro-batch ends: the end of the streams, or as far as ``limit`` allows."""
        latest = self._look()
        if start is None:
            return encode_offset(latest)
        since = decode_offset(start)
        if self._until is not None:
            latest = {
                name: Position(place.created, min(place.seq, self._until.get(name, place.seq)))
                for name, place in latest.items()
            }
        most = getattr(limit, "max_rows", None)
        ends = share(since, latest, most)
        return encode_offset(ends)

    def getDefaultReadLimit(self) -> Any:
        """``maxOffsetsPerTrigger`` as Spark has it."""
        most = self.options.max_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """This run ends where the streams end now."""
        self._until = {name: place.seq for name, place in self._look(again=True).items()}

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the streams, for the query's progress."""
        return encode_offset(self._look())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        if start == end:
            return []
        since, until = decode_offset(start), decode_offset(end)
        found: list[Range] = []
        with jetstream(self.options.connecting) as js:
            for stream, place in until.items():
                info = look_up(js, stream)
                begin = check_loss(info, since.get(stream, Position(place.created, 1)), self.options)
                whole = Range(stream, begin.created, begin.seq, place.seq)
                found += cut(filtered(js, info, self.options.subject, whole), self.options, parallelism())
        return [RangePartition(wanted) for wanted in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self.rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the stream keeps its messages, and Spark its offsets."""

    def _look(self, *, again: bool = False) -> dict[str, Position]:
        now = monotonic()
        if again or now - self._looked_at >= LOOK_EVERY:
            with jetstream(self.options.connecting) as js:
                infos = [look_up(js, stream) for stream in self.options.streams]
            self._latest = {info.config.name: Position(created(info), end_of(info)) for info in infos}
            self._looked_at = now
        return self._latest


def share(since: Mapping[str, Position], latest: Mapping[str, Position], most: int | None) -> dict[str, Position]:
    """Where a micro-batch of at most ``most`` sequences ends, with each stream in proportion to what it has."""
    waiting = {name: max(place.seq - since[name].seq, 0) if name in since else 0 for name, place in latest.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(latest)
    ends = {}
    for name, place in latest.items():
        begin = since.get(name, place)
        ends[name] = Position(place.created, begin.seq + -(-most * waiting[name] // total))
    return ends


def parallelism() -> int:
    """How many tasks a read has at least, when ``minPartitions`` does not say."""
    return max(os.cpu_count() or 1, 2)
