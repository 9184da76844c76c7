"""Reading a stream into a DataFrame: once, or as an endless one.

Rules:
* The driver plans, and tasks read. What Spark sends to tasks holds no connection.
* An offset is exact: the same range gives the same rows, however often and wherever it is read, as long as the stream
  keeps it.
* Spark reports the end of a read neither reliably nor in time, so nothing depends on it.

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
from jsproto.grammar.config import StreamInfo
from jsproto_io.sync import JetStream
from pyspark_jetstream.arrow import BatchBuilder
from pyspark_jetstream.buckets import COLUMNS as BUCKET_COLUMNS
from pyspark_jetstream.buckets import BucketBuilder
from pyspark_jetstream.connecting import ReconnectingClient, in_task
from pyspark_jetstream.offsets import (
    Position,
    SplitPlan,
    check_streams,
    decode_offset,
    decode_split_plan,
    encode_offset,
)
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import EARLIEST, LATEST, ReadMode, ReadOptions
from pyspark_jetstream.planning import (
    Range,
    check_loss,
    created,
    end_of,
    filtered,
    first_of,
    look_up,
    next_at_leader,
    resolve,
    split,
)
from pyspark_jetstream.ranges import check_count, matching, read_range, without_markers
from pyspark_jetstream.schema import check_columns, check_read_schema

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before 4.2 Spark admits everything, and so it is limited here
    ReadAllAvailable = ReadMaxRows = None  # type: ignore[assignment,misc]
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

HAS_LIMITS: Final = ReadMaxRows is not None
IDLE_OFFSET_MOVES: Final = 60.0  # seconds after which an offset moves without a match, or retention might pass it


@dataclass
class RangePartition(InputPartition):
    """One task of a read."""

    wanted: Range


class Reads:
    """What all readers have in common."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self.schema = schema
        self.options = options
        if options.kv_bucket is None:
            check_read_schema(schema)
        else:
            check_columns(schema, BUCKET_COLUMNS)

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, as Arrow batches. DataLossError, ReadError, or the error of the connection."""
        assert isinstance(partition, RangePartition)
        wanted, options = partition.wanted, self.options
        kind = BatchBuilder if options.kv_bucket is None else BucketBuilder
        builder = kind(self.schema, wanted.stream, options)
        what = f"stream {wanted.stream}, sequences {wanted.lo} to {wanted.hi - 1}"
        with in_task(options.connection, what) as (nc, js):
            yield from batches(read_range(nc, js, wanted, options), wanted, builder, options)

    def tasks(
        self, js: JetStream, info: StreamInfo, whole: Range, recorded: SplitPlan | None = None
    ) -> Sequence[RangePartition]:
        """The tasks of a range, split as it was before (``recorded``) or else as the options say."""
        if whole.hi <= whole.lo:
            return []
        filtered_range = filtered(js, info, self.options.subject, whole)
        return [RangePartition(wanted) for wanted in split(filtered_range, recorded or self.split_plan)]

    @property
    def split_plan(self) -> SplitPlan:
        """How ranges are split, as the options and this machine have it."""
        return SplitPlan(self.options.min_partitions or os.cpu_count() or 1, self.options.max_records_per_partition)


def batches(
    pieces: Iterator[StoredColumns], wanted: Range, builder: BatchBuilder, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of at least ``batchSize`` rows, but for the last, of what is to be seen of ``pieces``.

    Raises: DataLossError: there are not as many messages as the range should have.
    """
    found = 0
    for piece in pieces:
        seen = matching(piece, wanted)
        found += len(seen.seqs)
        if not options.include_bookkeeping:
            seen = without_markers(seen)
        if seen.seqs:
            builder.add(seen)
        if builder.rows >= options.batch_size:
            yield builder.batch()
    check_count(found, wanted, options)
    if builder.rows:
        yield builder.batch()


class JetStreamReader(Reads, DataSourceReader):
    """A batch read."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        if options.read_mode is ReadMode.SOURCING:
            raise OptionError("readMode=sourcing is for readStream: read has no commit that could be acknowledged")

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks. OptionError, DataLossError in the driver."""
        with ReconnectingClient(self.options.connection) as client:
            found = client.request(self._planned)
        return found or [RangePartition(Range(self.options.streams[0], 0, 1, 1))]  # Spark runs one task at least

    def _planned(self, js: JetStream) -> list[InputPartition]:
        options = self.options
        found: list[InputPartition] = []
        for stream in options.streams:
            info = look_up(js, stream)
            lo = resolve(js, info, options.starting_offsets, options.starting_timestamp, EARLIEST)
            hi = min(resolve(js, info, options.ending_offsets, options.ending_timestamp, LATEST), end_of(info))
            lo = check_loss(info, Position(created(info), lo), options).seq
            lo, hi = self.bounded(js, info, lo, hi)
            found += self.tasks(js, info, Range(stream, created(info), lo, hi))
        return found

    def bounded(self, js: JetStream, info: StreamInfo, lo: int, hi: int) -> tuple[int, int]:
        """The range, as far as filters that Spark pushed down can be true. Here there are none."""
        return lo, hi

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, RangePartition)
        return iter(()) if partition.wanted.hi <= partition.wanted.lo else self.rows(partition)


class StreamReads(Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What both kinds of streaming reader have in common."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        ends = (
            {options.ending_offsets} if isinstance(options.ending_offsets, str) else {*options.ending_offsets.values()}
        )
        if not ends <= {LATEST, -1} or options.ending_timestamp is not None:
            raise OptionError("options endingOffsets and endingTimestamp are for read: readStream has no end")
        self._client = ReconnectingClient(options.connection)

    def getDefaultReadLimit(self) -> Any:
        """``maxOffsetsPerTrigger`` as Spark has it."""
        most = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self.rows(partition)

    def stop(self) -> None:
        """End the connection. Spark does not always call this."""
        self._client.close()


class JetStreamStreamReader(StreamReads):
    """A streaming read."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        self._until: dict[str, Position] | None = None  # AvailableNow: where this run ends
        self._begun: dict[str, Any] | None = None  # the offset with which the next micro-batch begins, if it is known
        self._moved_at = monotonic()  # when a micro-batch was planned
        self._nothing_before: dict[str, Position] = {}  # no message from the offset to there matches
        self._infos: dict[str, StreamInfo] = {}  # as last seen

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        return self._encoded(self._client.request(self._initial))

    def _initial(self, js: JetStream) -> dict[str, Position]:
        options = self.options
        positions = {}
        for stream in options.streams:
            info = look_up(js, stream)
            lo = resolve(js, info, options.starting_offsets, options.starting_timestamp, LATEST)
            positions[stream] = check_loss(info, Position(created(info), lo), options)
        return positions

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Where the next micro-batch ends: the end of the streams, or as far as a limit allows.

        Before 4.2 Spark gives neither argument. Then the limit is the option's, and counts from the end of the last
        micro-batch. As long as that is unknown there is no limit, because an offset must never go back.
        """
        self._refresh_infos()
        latest = self._until or {name: Position(created(info), end_of(info)) for name, info in self._infos.items()}
        begin = self._begun if start is None else start
        if begin is None:
            return self._encoded(latest)
        since = decode_offset(begin)
        check_streams(since, self.options.streams)
        most = self.options.max_offsets_per_trigger if start is None else getattr(limit, "max_rows", None)
        firsts = {name: first_of(info) for name, info in self._infos.items()}
        if self._until is None and self._is_too_early(since, latest):
            return begin
        end = share(since, latest, firsts, most)
        return begin if end == since else self._encoded(end)  # split as it was, or Spark would take it for a new one

    def _encoded(self, positions: Mapping[str, Position]) -> dict[str, Any]:
        return encode_offset(positions, self.split_plan)

    def prepareForTriggerAvailableNow(self) -> None:
        """This run ends where the streams end now."""
        self._refresh_infos()
        self._until = {name: Position(created(info), end_of(info)) for name, info in self._infos.items()}

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the streams as last seen, for the query's progress."""
        return self._encoded({name: Position(created(info), end_of(info)) for name, info in self._infos.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch. OptionError, DataLossError in the driver."""
        since, until = decode_offset(start), decode_offset(end)
        check_streams(until, self.options.streams)
        self._begun = end
        if since == until:  # a query that begins again, before 4.2
            return []
        self._moved_at = monotonic()
        return self._client.request(lambda js: self._planned(js, since, until, decode_split_plan(end)))

    def _planned(
        self, js: JetStream, since: Mapping[str, Position], until: Mapping[str, Position], recorded: SplitPlan | None
    ) -> list[Any]:
        found: list[InputPartition] = []
        for stream, end in until.items():
            info = look_up(js, stream)
            begin = check_loss(info, since.get(stream, Position(end.created, first_of(info))), self.options)
            if end.created != begin.created:  # planned before the stream was made anew: nothing of that is there
                continue
            found += self.tasks(js, info, Range(stream, begin.created, begin.seq, end.seq), recorded)
        return found

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the stream keeps its messages, and Spark its offsets."""

    def _refresh_infos(self) -> None:
        """Ask for the state of the streams. An idle query does so a hundred times a second, which is cheap."""
        self._infos = self._client.request(lambda js: {name: look_up(js, name) for name in self.options.streams})

    def _is_too_early(self, since: Mapping[str, Position], latest: Mapping[str, Position]) -> bool:
        """Whether there is too little for a micro-batch, or nothing that matches."""
        waited = monotonic() - self._moved_at
        behind = {name: place for name, place in latest.items() if name not in since or place != since[name]}
        if any(name not in since or place.created != since[name].created for name, place in behind.items()):
            return False
        spans = [place.seq - since[name].seq for name, place in behind.items()]
        if not spans or min(spans) < 0:
            return False
        least = self.options.min_offsets_per_trigger
        if least is not None and sum(spans) < least and waited < self.options.max_trigger_delay:
            return True
        subject = self.options.subject
        if subject is None or waited >= IDLE_OFFSET_MOVES:
            return False
        return not any(self._has_match(name, subject, since[name], place) for name, place in behind.items())

    def _has_match(self, stream: str, subject: str, since: Position, until: Position) -> bool:
        known = self._nothing_before.get(stream, since)
        at = max(known.seq, since.seq) if known.created == since.created else since.seq
        if at < until.seq:
            found = self._client.request(lambda js: next_at_leader(js, stream, subject, at))
            if found is not None and found.seq < until.seq:
                return True
            self._nothing_before[stream] = until
        return False


def share(
    since: Mapping[str, Position], latest: Mapping[str, Position], firsts: Mapping[str, int], most: int | None
) -> dict[str, Position]:
    """Where a micro-batch of about ``most`` sequences ends, with each stream in proportion to what it has.

    A stream that is new, or was made anew, begins with its first message.
    """
    begins = {}
    for name, place in latest.items():
        known = since.get(name)
        begins[name] = known.seq if known is not None and known.created == place.created else firsts[name]
    waiting = {name: max(place.seq - begins[name], 0) for name, place in latest.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(latest)
    return {
        name: Position(place.created, min(begins[name] + -(-most * waiting[name] // total), place.seq))
        for name, place in latest.items()
    }
