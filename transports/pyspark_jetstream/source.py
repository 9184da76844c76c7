"""Reading a stream into a DataFrame: once, or as an endless one.

Rules:
* The driver plans, and tasks read. What Spark sends to tasks holds no connection.
* An offset is exact: the same range gives the same rows, however often and wherever it is read, as long as the stream
  keeps it.
* Spark reports the end of a read late, or forgets to, so reads end without it.

Not here: options (``options``), which ranges (``planning``), the reading itself (``ranges``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.rules.position import drops_oldest
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.arrow import BatchBuilder
from pyspark_jetstream.buckets import COLUMNS as BUCKET_COLUMNS
from pyspark_jetstream.buckets import BucketBuilder
from pyspark_jetstream.connecting import ReconnectingClient, in_task
from pyspark_jetstream.offsets import (
    SplitPlan,
    check_streams,
    decode_begins,
    decode_offset,
    decode_split_plan,
    encode_offset,
    is_at,
    is_initial,
    is_same,
)
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import (
    EARLIEST,
    LATEST,
    MAX_TRIGGER_DELAY,
    ReadMode,
    ReadOptions,
    check_read_at_once,
)
from pyspark_jetstream.origins import attempt_number, task_number
from pyspark_jetstream.planning import (
    Range,
    begin_at,
    begin_of,
    end_before,
    end_of,
    end_position,
    ended_at,
    first_of,
    grouped,
    later,
    look_up_all,
    next_at_leader,
    position_at,
    report_gone,
    split,
    takes_all,
    wanted_streams,
)
from pyspark_jetstream.ranges import check_count, matching, read_range, without_markers
from pyspark_jetstream.schema import check_columns, check_read_schema
from pyspark_jetstream.security import renewed
from pyspark_jetstream.sparse import Ahead, count_between, filtered, has_holes, look_ahead, measured, reach

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before 4.2 Spark admits everything, and so it is limited here
    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = None  # type: ignore[assignment,misc]
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

HAS_LIMITS: Final = ReadMaxRows is not None
FIRST_PAUSE: Final = 0.02  # seconds after a look that found nothing new, doubled each time
LAST_PAUSE: Final = 1.0
IDLE_OFFSET_MOVES: Final = 60.0  # seconds after which an offset moves without a match, or retention might pass it


@dataclass
class RangePartition(InputPartition):
    """One task of a read.

    ``others``: what it reads after ``wanted``, of other streams. ``credentials``: those that have been renewed.
    """

    wanted: Range
    others: tuple[Range, ...] = ()
    credentials: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """For errors."""
        more = f", and {len(self.others)} more" if self.others else ""
        return f"{self.wanted}{more}"


class Planned(NamedTuple):
    """A stream as it is now, its range of a read, and the sequence with which reading begins."""

    info: StreamInfo
    whole: Range
    begin: int


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
        ranges = [each for each in (partition.wanted, *partition.others) if each.first < each.hi]
        if not ranges:
            return
        attempt, connection = attempt_number(TaskContext.get()), self.options.connection
        if partition.credentials is not None:
            connection = attrs.evolve(connection, user_credentials=partition.credentials)
        with in_task(connection, str(partition)) as (nc, js):
            for wanted in ranges:
                yield from self._batches(nc, js, wanted, attempt)

    def _batches(self, nc: Connection, js: JetStream, wanted: Range, attempt: int | None) -> Iterator[pa.RecordBatch]:
        kind = BatchBuilder if self.options.kv_bucket is None else BucketBuilder
        task = task_number(wanted.stream, wanted.end.identity, wanted.lo, wanted.hi, wanted.subject)
        builder = kind(self.schema, wanted.stream, self.options, (task, attempt))
        yield from batches(read_range(nc, js, wanted, self.options), wanted, builder, self.options)

    def tasks(
        self, js: JetStream, planned: Sequence[Planned], recorded: SplitPlan | None = None
    ) -> Sequence[RangePartition]:
        """The tasks of a read, split as it was before (``recorded``) or else as the options say."""
        wanted = [filtered(js, info, self.options.subject, whole) for info, whole, _ in planned]
        plan = recorded or self.split_plan.among(*self._work_of(js, planned, wanted))
        pieces: list[Range] = []
        for (info, _, begin), parts in zip(planned, split(wanted, plan), strict=True):
            pieces += measured(js, info, [later(part, begin) for part in parts])
        return [self.partition(first, *others) for first, *others in grouped(pieces, plan)]

    def partition(self, *ranges: Range) -> RangePartition:
        """A task that reads these, with the credentials of now."""
        connection = self.options.connection
        return RangePartition(ranges[0], ranges[1:], renewed(connection.credentials_path, connection.user_credentials))

    def _work_of(self, js: JetStream, planned: Sequence[Planned], wanted: Sequence[Range]) -> tuple[int, int]:
        """How many sequences ranges have in all, and how many messages of them match."""
        spans = matches = 0
        for (info, whole, _), each in zip(planned, wanted, strict=True):
            span = whole.hi - whole.lo
            spans += span
            if each.subject is None or each.local:
                matches += span
            elif each.matches is not None:
                matches += each.matches
            else:
                matches += count_between(js, info, each.subject, whole.lo, whole.hi)
        return spans, matches

    @property
    def split_plan(self) -> SplitPlan:
        """How ranges are split, as the options and this machine have it."""
        options = self.options
        return SplitPlan(options.min_partitions or options.parallelism, options.max_records_per_partition, in_all=True)


def batches(
    pieces: Iterator[StoredColumns], wanted: Range, builder: BatchBuilder, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of what is to be seen of ``pieces``, of ``batchSize`` rows or ``maxBytes`` and a piece, at most.

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
        if builder.rows >= options.batch_size or builder.bytes >= options.max_bytes:
            yield builder.batch()
    check_count(found, wanted, options)
    if builder.rows:
        yield builder.batch()


class JetStreamReader(Reads, DataSourceReader):
    """A batch read."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        check_read_at_once(options)
        if options.read_mode is ReadMode.SOURCING:
            raise OptionError("readMode=sourcing is for readStream: read has no commit that could be acknowledged")

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks. OptionError, DataLossError in the driver."""
        with ReconnectingClient(self.options.connection) as client:
            found = client.request(self._planned)
        nothing = Range(1, 1, StreamPosition("", 0))
        return found or [RangePartition(nothing)]  # Spark runs one task at least

    def _planned(self, js: JetStream) -> Sequence[InputPartition]:
        options = self.options
        planned = []
        for stream, info in wanted_streams(js, options).items():
            wanted = begin_of(js, info, options, EARLIEST)
            begin, info = begin_at(js, info, StreamPosition(stream, wanted - 1), options)
            hi = min(end_before(js, info, options), end_of(info))
            lo, hi = self.bounded(js, info, begin.seq + 1, hi)
            if lo < hi:
                since = position_at(js, info, lo - 1).witness
                planned.append(Planned(info, Range(lo, hi, position_at(js, info, hi - 1), since=since), lo))
        return self.tasks(js, planned)

    def bounded(self, js: JetStream, info: StreamInfo, lo: int, hi: int) -> tuple[int, int]:
        """The range, as far as filters that Spark pushed down can be true. Here there are none."""
        return lo, hi

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self.rows(partition)


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
        """``maxOffsetsPerTrigger`` or ``maxBytesPerTrigger`` as Spark has it, which takes one of them."""
        most, most_bytes = self.options.max_offsets_per_trigger, self.options.max_bytes_per_trigger
        if most is None:
            return ReadAllAvailable() if most_bytes is None else ReadMaxBytes(most_bytes)
        return ReadMaxRows(most)

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
        self._initial: dict[str, Any] | None = None
        self._until: dict[str, StreamPosition] | None = None  # AvailableNow: where this run ends
        self._begun: dict[str, Any] | None = None  # the offset with which the next micro-batch begins, if it is known
        self._moved_at = monotonic()  # when a micro-batch was planned
        self._nothing_before: dict[str, StreamPosition] = {}  # no message from the offset to there matches
        self._ended: dict[str, tuple[StreamPosition, int | None]] = {}  # where a stream was seen to end, and when
        self._infos: dict[str, StreamInfo] = {}  # as last seen
        self._gone: set[str] = set()  # streams of the offset that were not there then, and loss may be passed over
        self._is_begin = True  # the streams have not been seen yet
        self._seen_at = monotonic()  # when that was
        self._pause = 0.0  # seconds until they are looked at again

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        if self._initial is None:
            self._initial = encode_offset(self._client.request(self._begins), self.split_plan, is_initial=True)
        return self._initial

    def _begins(self, js: JetStream) -> dict[str, StreamPosition]:
        options = self.options
        positions = {}
        for stream, info in wanted_streams(js, options).items():
            wanted = begin_of(js, info, options, LATEST)
            begin, info = begin_at(js, info, StreamPosition(stream, wanted - 1), options)
            positions[stream] = position_at(js, info, begin.seq)
        return positions

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Where the next micro-batch ends: the end of the streams, or as far as a limit allows.

        Spark asks a hundred times a second where nothing is new. So then it waits for the answer, longer each time, up
        to a second. What it is told is always of the present.

        Before 4.2 Spark gives neither argument. Then the limit is the option's, and counts from the end of the last
        micro-batch. As long as that is unknown there is no limit, because an offset must never go back.
        """
        sleep(max(self._seen_at + self._pause - monotonic(), 0))
        end = self._latest(start, limit)
        is_idle = end == (self._begun if start is None else start)
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LAST_PAUSE) if is_idle else 0
        return end

    def _latest(self, start: dict[str, Any] | None, limit: Any) -> dict[str, Any]:
        begin = self._begun if start is None else start
        if begin is None:  # before 4.2, of the first micro-batch
            begin = self.initialOffset()
            self._refresh_infos(decode_offset(begin))
            return self._encoded(self._ends(), decode_offset(begin))
        since = decode_offset(begin)
        self._refresh_infos(since)
        if self.options.stream_pattern is None:
            check_streams(since, self.options.streams)
        gone = since.keys() - self._infos.keys()
        report_gone(self.options, gone - self._gone)
        self._gone = gone
        for name, info in self._infos.items():
            if name in since and is_at(since[name], end_position(info)):
                self._ended[name] = since[name], ended_at(info)
        if self._until is None and self._is_too_early(since, self._ends()):
            return begin
        limits = self._limits(start is None, limit)
        begins, end, plan = self._client.request(lambda js: self._next(js, since, limits))
        if is_same(since, end):  # split as it was, or Spark would take it for a new one
            return begin
        begun = {name: begins[name] for name in end if is_initial(begin) or name not in since}
        moved = {name: begins[name] for name in end.keys() - begun.keys() if not is_at(begins[name], since[name])}
        return encode_offset(end, plan, begins=begun, moved=moved)

    def _limits(self, is_default: bool, limit: Any) -> Limits:
        """The limits of a micro-batch, when Spark names one of them, or (``is_default``) those of the options."""
        rows, of_bytes = (getattr(limit, name, None) for name in ("max_rows", "max_bytes"))
        if is_default or rows is not None or of_bytes is not None:
            of_bytes = self.options.max_bytes_per_trigger
        return Limits(self.options.max_offsets_per_trigger if is_default else rows, of_bytes)

    def _next(
        self, js: JetStream, since: Mapping[str, StreamPosition], limits: Limits
    ) -> tuple[dict[str, StreamPosition], dict[str, StreamPosition], SplitPlan]:
        """Where the next micro-batch begins, where it ends, and how it is split. DataLossError.

        A stream that is gone keeps its place: it may come back.
        """
        begins = self._next_begins(js, since)
        latest = self._ends() if self._until is None else {**since, **self._until}  # one may have been overlooked
        latest = {name: place for name, place in latest.items() if name in begins}
        is_limited = limits != (None, None)
        works = {
            name: self._work(js, self._infos[name], begins[name], place, is_limited) for name, place in latest.items()
        }
        shares = share({name: work.matches for name, work in works.items()}, limits.messages(works.values()))
        ends = {}
        for name, count in shares.items():
            work = works[name]
            seq = begins[name].seq + count
            if count == work.matches:
                ends[name] = latest[name] if latest[name].seq >= begins[name].seq else begins[name]
            elif work.ahead is None or not count:
                ends[name] = position_at(js, self._infos[name], seq) if count else begins[name]
            else:
                info = self._infos[name]
                end = reach(js, info, self._filter(info), latest[name].seq + 1, work.ahead, count)
                ends[name] = position_at(js, info, end - 1)
        plan = self.split_plan
        if any(work.ahead is not None for work in works.values()):
            plan = plan.among(sum(ends[name].seq - begins[name].seq for name in ends), sum(shares.values()))
        left = {name: since[name] for name in self._gone}
        return begins | left, ends | left, plan

    def _next_begins(self, js: JetStream, since: Mapping[str, StreamPosition]) -> dict[str, StreamPosition]:
        """Where the next micro-batch begins in the streams that are there. DataLossError.

        A stream that came back shorter, or was made anew, begins elsewhere from here on, however often the micro-batch
        is planned. What its front has dropped is looked at when it is planned.
        """
        begins: dict[str, StreamPosition] = {}
        for name, info in self._infos.items():
            if name not in since:
                begins[name] = position_at(js, info, first_of(info) - 1)
            elif is_at(since[name], end_position(info)):  # idle: there is nothing to prove it for
                begins[name] = since[name]
            else:
                begins[name], self._infos[name] = begin_at(js, info, since[name], self.options, front=False)
                if self._until is not None and not is_at(begins[name], since[name]):
                    self._until[name] = end_position(self._infos[name])
        return begins

    def _filter(self, info: StreamInfo) -> str | None:
        """The subject, if it leaves anything of the stream out."""
        return None if takes_all(info, self.options.subject) else self.options.subject

    def _work(
        self, js: JetStream, info: StreamInfo, begin: StreamPosition, end: StreamPosition, is_limited: bool
    ) -> Work:
        """What a stream has after ``begin``, up to ``end``. Where all is wanted, holes matter to limits alone."""
        span, subject, size = max(end.seq - begin.seq, 0), self._filter(info), mean_size(info)
        is_whole = begin.seq + 1 >= first_of(info) and not has_holes(info)
        if not span or (subject is None and (is_whole or not is_limited)):
            return Work(span, span, size * span)
        ahead = look_ahead(js, info, subject, begin.seq + 1)
        count = ahead.matches - look_ahead(js, info, subject, end.seq + 1).matches
        found = None if count > 0 else next_at_leader(js, info.config.name, subject, begin.seq + 1)
        if found is not None and found.seq <= end.seq:
            return Work(span, span, size * span)  # of a replica that lags
        return Work(span, max(count, 0), size * max(count, 0), ahead)

    def _ends(self) -> dict[str, StreamPosition]:
        return {name: end_position(info) for name, info in self._infos.items()}

    def _encoded(
        self, positions: Mapping[str, StreamPosition], begins: Mapping[str, StreamPosition] | None = None
    ) -> dict[str, Any]:
        return encode_offset(positions, self.split_plan, begins=begins)

    def prepareForTriggerAvailableNow(self) -> None:
        """This run ends where the streams end now."""
        self._refresh_infos()
        self._until = self._ends()

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the streams as last seen, for the query's progress."""
        return self._encoded(self._ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch. OptionError, DataLossError in the driver."""
        since, until = decode_begins(start, end), decode_offset(end)
        if self.options.stream_pattern is None:
            check_streams(until, self.options.streams)
        self._begun = end
        if since == until:  # a query that begins again, before 4.2
            return []
        report_gone(self.options, since.keys() - until.keys())  # one that was gone then
        self._moved_at = monotonic()
        return self._client.request(lambda js: self._planned(js, since, until, decode_split_plan(end)))

    def _planned(
        self,
        js: JetStream,
        since: Mapping[str, StreamPosition],
        until: Mapping[str, StreamPosition],
        recorded: SplitPlan | None,
    ) -> Sequence[InputPartition]:
        planned = []
        moved = [name for name, end in until.items() if name not in since or not is_at(since[name], end)]
        infos = look_up_all(js, moved, moved)
        report_gone(self.options, {*moved} - infos.keys())
        for stream, info in infos.items():
            end = until[stream]
            logged = since.get(stream) or StreamPosition(stream, first_of(info) - 1)
            place, time = self._ended.get(stream, (None, None))
            time = time if place == logged else None
            begin, info = begin_at(js, info, logged, self.options, ended_at=time)
            if end.identity != begin.identity:  # planned before the stream was made anew: nothing of that is there
                continue
            lo = begin.seq if logged.identity != end.identity else min(begin.seq, logged.seq)
            after = max(filter(None, (begin.witness, time)), default=None)
            planned.append(Planned(info, Range(lo + 1, end.seq + 1, end, since=after), begin.seq + 1))
        return self.tasks(js, planned, recorded)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the stream keeps its messages, and Spark its offsets."""

    def _refresh_infos(self, known: Collection[str] = ()) -> None:
        """Ask for the state of the streams, of all at once. The query has ``known`` some of them."""
        here = {*known} - self._gone
        self._infos = self._client.request(lambda js: wanted_streams(js, self.options, here, is_begin=self._is_begin))
        self._is_begin = False
        self._seen_at = monotonic()

    def _is_too_early(self, since: Mapping[str, StreamPosition], latest: Mapping[str, StreamPosition]) -> bool:
        """Whether there is too little for a micro-batch, or nothing that matches.

        Where nothing matches an offset moves all the same, now and then, so that retention does not pass it.
        """
        if latest.keys() - since.keys():
            return False
        waited = monotonic() - self._moved_at
        behind = {name: place for name, place in latest.items() if not is_at(since[name], place)}
        if any(place.identity != since[name].identity for name, place in behind.items()):
            return False
        spans = [place.seq - since[name].seq for name, place in behind.items()]
        if not spans or min(spans) <= 0:
            return False
        least, subject = self.options.min_offsets_per_trigger, self.options.subject
        if subject is not None and not any(
            self._has_match(each, subject, since[each], behind[each]) for each in behind
        ):
            return waited < IDLE_OFFSET_MOVES and not any(is_ageing(self._infos[name], since[name]) for name in behind)
        if least is None or waited >= (self.options.max_trigger_delay or MAX_TRIGGER_DELAY):
            return False
        return sum(spans) < least or self._client.request(lambda js: self._matches(js, since, behind)) < least

    def _matches(self, js: JetStream, since: Mapping[str, StreamPosition], until: Mapping[str, StreamPosition]) -> int:
        """How many messages match, in all streams."""
        return sum(self._work(js, self._infos[name], since[name], place, True).matches for name, place in until.items())

    def _has_match(self, stream: str, subject: str, since: StreamPosition, until: StreamPosition) -> bool:
        known = self._nothing_before.get(stream, since)
        at = max(known.seq, since.seq) if known.identity == since.identity else since.seq
        if at < until.seq:
            found = self._client.request(lambda js: next_at_leader(js, stream, subject, at + 1))
            if found is not None and found.seq <= until.seq:
                return True
            self._nothing_before[stream] = until
        return False


def is_ageing(info: StreamInfo, since: StreamPosition) -> bool:
    """Whether retention may pass a position soon: more than half of what the stream holds came after it."""
    return drops_oldest(info.config) and 2 * (info.state.last_seq - since.seq) > end_of(info) - first_of(info)


class Work(NamedTuple):
    """What a stream has for a micro-batch: so many sequences, so many messages that match, and their bytes, about.

    ``ahead``: what matches from its begin on. None: nobody asked, and all sequences count.
    """

    span: int
    matches: int
    size: float
    ahead: Ahead | None = None


class Limits(NamedTuple):
    """How much a micro-batch has, at most: messages, and bytes. None: all that there is."""

    most: int | None
    most_bytes: int | None

    def messages(self, works: Collection[Work]) -> int | None:
        """How many messages of ``works`` that is, at least one."""
        if self.most_bytes is None:
            return self.most
        whole = sum(work.size for work in works)
        fitting = max(int(sum(work.matches for work in works) * self.most_bytes / whole), 1) if whole else None
        return min((each for each in (self.most, fitting) if each is not None), default=None)


def mean_size(info: StreamInfo) -> float:
    """Bytes in a stream, with subjects and headers, for each of its messages."""
    return info.state.bytes / max(info.state.messages, 1)


def share(waiting: Mapping[str, int], most: int | None) -> dict[str, int]:
    """How many of what is waiting in each stream a micro-batch of about ``most`` has, in proportion."""
    total = sum(waiting.values())
    if most is None or most >= total:
        return dict(waiting)
    return {name: min(-(-most * count // total), count) for name, count in waiting.items()}
