"""Readers and writers as Spark calls them, without Spark: partitions into ``read``, Arrow batches into ``write``."""

from __future__ import annotations

import gc
import json
import pickle
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from jsproto.errors import (
    APIError,
    ConnectionLostError,
    IncompleteBatchError,
    NoRespondersError,
    NoServersError,
    RemoteProtocolError,
)
from jsproto.grammar.columns import StoredColumns
from jsproto_io.sync import JetStream
from pyspark_jetstream import JetStreamDataSource, connecting, ranges
from pyspark_jetstream.arrow import BatchBuilder
from pyspark_jetstream.offsets import decode_offset
from pyspark_jetstream.options import ConnectionOptions, read_options
from pyspark_jetstream.planning import DataLossError
from pyspark_jetstream.ranges import ReadError
from pyspark_jetstream.schema import HEADERS_TYPE
from tests.marks import promise
from tests.servers import paused, recreate_stream
from tests.spark.conftest import Made, fill
from tests.spark.test_options import HEADERS

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import Connection

pytestmark = pytest.mark.spark

PAUSES = [pytest.approx(5 ** (n / 2) / 5) for n in range(5)]  # seconds: 0.2 to 5
COLUMNS = StructType(
    [
        StructField("subject", StringType()),
        StructField("data", BinaryType()),
        StructField("stream", StringType()),
        StructField("seq", LongType()),
        StructField("timestamp", TimestampType()),
    ]
)
WRITTEN = StructType([StructField("subject", StringType()), StructField("data", StringType())])


def read(reader: Any, partitions: Any) -> list[int]:
    """The data of all partitions, by a reader that went through a pickle as it does on its way to a task."""
    there = pickle.loads(pickle.dumps(reader))
    found: list[int] = []
    for partition in pickle.loads(pickle.dumps(list(partitions))):
        for batch in there.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            found += [int(data) for data in batch.column("data").to_pylist()]
    return found


def rows(name: str, first: int, last: int) -> Iterator[pa.RecordBatch]:
    for at in range(first, last + 1, 700):
        numbers = range(at, min(at + 700, last + 1))
        columns = {"subject": [f"{name}.{n % 10}" for n in numbers], "data": [str(n) for n in numbers]}
        yield pa.RecordBatch.from_pydict(columns)


def test_a_hundred_thousand_subjects(stream: Made, source: Any) -> None:
    """Each is written once, and read alone or with all others."""
    name, count = stream(), 100_000
    subjects = [f"{name}.{n}" for n in range(count)]
    written = pa.RecordBatch.from_pydict({"subject": subjects, "data": [str(n) for n in range(count)]})
    batches = (written.slice(at, 10_000) for at in range(0, count, 10_000))
    assert source(name).writer(WRITTEN, False).write(batches).rows == count
    for wanted, numbers in ((None, range(count)), (f"{name}.*", range(count)), (f"{name}.77777", [77_777])):
        reader = source(name, minPartitions=2, **({} if wanted is None else {"subject": wanted})).reader(COLUMNS)
        parts = reader.partitions()
        found = pa.Table.from_batches([batch for part in parts for batch in reader.read(part)])
        assert len(parts) == 2
        assert found.column("subject").to_pylist() == [subjects[n] for n in numbers]
        assert found.column("data").to_pylist() == [b"%d" % n for n in numbers]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_partitions_are_read(stream: Made, source: Any) -> None:
    name = stream(1_000)
    reader = source(name, minPartitions=3, batchSize=70).reader(COLUMNS)
    partitions = reader.partitions()
    assert [(each.wanted.lo, each.wanted.hi) for each in partitions] == [(1, 334), (334, 667), (667, 1_001)]
    assert read(reader, partitions) == [*range(1, 1_001)]
    assert read(reader, partitions) == [*range(1, 1_001)]  # exactly, again
    assert read(reader, [partitions[1]]) == [*range(334, 667)]
    batch = next(iter(reader.read(partitions[0])))
    assert batch.schema == pa.schema(
        [("subject", pa.string()), ("data", pa.binary()), ("stream", pa.string()), ("seq", pa.int64()),
         ("timestamp", pa.timestamp("us", "UTC"))]
    )  # fmt: skip
    assert 70 <= batch.num_rows < 140


@pytest.mark.parametrize("seqs", [[range(5, 8), range(8, 10)], [range(5, 8), range(9, 11)], [[5, 7], [8]], [[9]]])
def test_a_batch_is_made_of_pieces(seqs: list[Sequence[int]]) -> None:
    """With holes between the numbers, or within, and nothing is left for the next batch."""
    builder = BatchBuilder(COLUMNS, "S", read_options({"servers": "nats://x", "stream": "S"}))
    for other in (0, 1_000):
        wanted = [[other + seq for seq in piece] for piece in seqs]
        for piece in wanted:
            texts = [b"%d" % seq for seq in piece]
            times = [b"2026-01-01T00:00:00.%09dZ" % (1_000 * seq + 999) for seq in piece]
            builder.add(StoredColumns([b"s.%b" % text for text in texts], piece, times, texts, texts))
        batch = builder.batch()
        found = batch.to_pydict()
        assert found["seq"] == [seq for piece in wanted for seq in piece]
        assert found["subject"] == [f"s.{seq}" for seq in found["seq"]]
        assert found["data"] == [b"%d" % seq for seq in found["seq"]]
        assert found["stream"] == ["S"] * len(found["seq"])
        assert [moment.microsecond for moment in found["timestamp"]] == found["seq"]
        assert builder.rows == 0


@pytest.mark.parametrize("shown", ["true", "false"])
def test_a_batch_is_made_of_pieces_with_headers(shown: str) -> None:
    """Plain lines, no lines at all, lines that are looked at one by one, and those of a batch, which are hidden."""
    options = read_options({"servers": "nats://x", "stream": "S", "includeBookkeeping": shown})
    builder = BatchBuilder(StructType([StructField("headers", HEADERS)]), "S", options)
    pieces = [
        [b"A: 1\r\nA: \xff\r\n", b"", b"B: 2\r\n"],
        [b"", b""],
        [b"A:  3 \r\n", b""],
        [b"Nats-Batch-Id: x\r\nA: 4\r\n"],
    ]
    for lines in pieces:
        blocks = [b"NATS/1.0\r\n" + each + b"Nats-Stream: S\r\n\r\n" for each in lines]
        builder.add(StoredColumns(blocks, range(1, len(blocks) + 1), blocks, blocks, blocks))
    of_batch = [("Nats-Batch-Id", b"x")] if shown == "true" else []
    expected = [
        [("A", b"1"), ("A", b"\xff")],
        None,
        [("B", b"2")],
        None,
        None,
        [("A", b"3")],
        None,
        [*of_batch, ("A", b"4")],
    ]
    found = builder.batch().column("headers").to_pylist()
    assert [each and [(pair["key"], pair["value"]) for pair in each] for each in found] == expected


def test_a_sequence_that_spark_has_no_number_for() -> None:
    """Never another one instead."""
    builder = BatchBuilder(COLUMNS, "S", read_options({"servers": "nats://x", "stream": "S"}))
    texts = [b"x", b"x"]
    builder.add(StoredColumns(texts, range(2**63 - 1, 2**63 + 1), [b"2026-01-01T00:00:00Z"] * 2, texts, texts))
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        builder.batch()


def test_nothing_to_read_is_one_empty_task(stream: Made, source: Any) -> None:
    reader = source(stream()).reader(COLUMNS)
    assert read(reader, reader.partitions()) == []


def test_a_reader_given_up_in_the_middle(nc: Connection, stream: Made, source: Any) -> None:
    name = stream(5_000)
    reader = source(name, batchSize=10, maxBytes=1_000).reader(COLUMNS)
    task = reader.read(reader.partitions()[0])
    assert next(task).num_rows >= 10
    task.close()


@promise("What the stream has dropped before it was read ends the query with `DataLossError`.")
def test_a_purge_after_the_plan(nc: Connection, stream: Made, source: Any) -> None:
    name = stream(100)
    for options in ({}, {"subject": f"{name}.*"}, {"subject": f"{name}.5"}):
        reader = source(name, minPartitions=4, **options).reader(COLUMNS)
        lenient = source(name, minPartitions=4, failOnDataLoss=False, **options).reader(COLUMNS)
        partitions = reader.partitions()
        first = min(each.wanted.lo for each in partitions)
        nc.request(f"$JS.API.STREAM.PURGE.{name}", b'{"seq": %d}' % (first + 10))
        with pytest.raises(DataLossError, match=f"messages {first} to {first + 9} are not in the stream any more; set"):
            read(reader, partitions)
        wanted = range(first + 10, 101) if options.get("subject") != f"{name}.5" else range(first + 14, 101, 10)
        assert read(lenient, partitions) == [*wanted]
        assert read(reader, partitions[1:]) == [n for n in wanted if n >= partitions[1].wanted.lo]


@promise("What the stream has dropped before it was read ends the query with `DataLossError`.")
def test_a_stream_made_anew_after_the_plan(js: JetStream, stream: Made, source: Any) -> None:
    name = stream(100)
    reader = source(name).reader(COLUMNS)
    partitions = reader.partitions()
    config = js.stream_info(name).config
    recreate_stream(js, config)
    fill(js, name, 1, 100)
    with pytest.raises(DataLossError, match=f"stream {name} was made anew while it was read"):
        read(reader, partitions)


class Faults:
    """Pages of a read that break off, or end too early (None), after the first one, or before that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, faults: list[Exception | None], *, behind: int = 1) -> None:
        self.left = faults
        self._behind = behind
        self._pages = ranges._pages
        monkeypatch.setattr(ranges, "_pages", self)
        monkeypatch.setattr(connecting, "sleep", lambda seconds: None)

    def __call__(self, *arguments: Any) -> Iterator[StoredColumns]:
        pages: Any = self._pages(*arguments)
        if not self.left:
            yield from pages
            return
        fault = self.left.pop(0)
        yield from islice(pages, self._behind)
        pages.close()
        if fault is not None:
            raise fault


UNAVAILABLE = APIError(503, 10008, "JetStream system temporarily unavailable")


@promise("the same rows, except those deleted meanwhile")
@promise("An offset has the sequence to read next")
@promise("`export` and `audit` read each message of their range once, whatever is run again.")
def test_a_read_that_breaks_off_goes_on(monkeypatch: pytest.MonkeyPatch, stream: Made, source: Any) -> None:
    name = stream(400)
    for subject in ("", f"{name}.*", f"{name}.3"):
        reader = source(name, batchSize=7, minPartitions=2, subject=subject).reader(COLUMNS)
        faults = Faults(
            monkeypatch, [IncompleteBatchError("cut off", 1), None, ConnectionLostError("gone"), UNAVAILABLE]
        )
        wanted = range(3, 400, 10) if subject.endswith("3") else range(1, 401)
        assert read(reader, reader.partitions()) == [*wanted]
        assert faults.left == []
        monkeypatch.undo()


def test_a_read_that_does_not_get_on_fails(monkeypatch: pytest.MonkeyPatch, stream: Made, source: Any) -> None:
    name = stream(400)
    reader = source(name, minPartitions=1, **{"fetch.numRetries": 3}).reader(COLUMNS)
    Faults(monkeypatch, [IncompleteBatchError("cut off", 1)] * 4, behind=0)
    with pytest.raises(ReadError, match=f"stream {name}, sequences 1 to 400: cut off"):
        read(reader, reader.partitions())
    monkeypatch.undo()
    Faults(monkeypatch, [APIError(400, 10003, "bad request")], behind=0)
    with pytest.raises(ReadError, match=f"stream {name}, sequences 1 to 400: .*bad request"):
        read(reader, reader.partitions())


@promise("Any replica is read from. What a lagging replica does not have yet comes from the stream's leader.")
def test_a_replica_that_lags_all_the_time(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, source: Any
) -> None:
    """Its leader gives what it does not have, with all columns alike."""
    name = stream(250)
    js.publish(f"{name}.é", b"251", headers={"A": "1"})
    columns = StructType([*COLUMNS.fields, StructField("headers", HEADERS)])
    reader = source(name, minPartitions=1).reader(columns)
    (partition,) = reader.partitions()
    (whole,) = reader.read(partition)
    faults = Faults(monkeypatch, [None] * 4, behind=0)
    (again,) = reader.read(partition)
    assert faults.left == [None]  # a page of the leader is of 100 messages
    assert again == whole
    monkeypatch.undo()
    for subject, numbers in ((f"{name}.3", range(3, 250, 10)), (f"{name}.*", range(1, 252)), ("nothing", ())):
        Faults(monkeypatch, [None] * 9, behind=0)
        reader = source(name, subject=subject).reader(COLUMNS)
        assert read(reader, reader.partitions()) == [*numbers]
        monkeypatch.undo()


@promise("Any replica is read from. What a lagging replica does not have yet comes from the stream's leader.")
@promise("Single messages that were deleted")
def test_a_replica_that_lags_while_messages_go(
    monkeypatch: pytest.MonkeyPatch, nc: Connection, stream: Made, source: Any
) -> None:
    name = stream(100)
    reader = source(name, minPartitions=1).reader(COLUMNS)
    partitions = reader.partitions()
    nc.request(f"$JS.API.STREAM.PURGE.{name}", b'{"seq": 11}')
    Faults(monkeypatch, [None], behind=0)
    with pytest.raises(DataLossError, match=f"stream {name}: messages 1 to 10 are not in the stream any more; set"):
        read(reader, partitions)
    Faults(monkeypatch, [None], behind=0)
    lenient = source(name, failOnDataLoss=False).reader(COLUMNS)
    assert read(lenient, partitions) == [*range(11, 101)]


def test_headers_that_cannot_be_read(nc: Connection, stream: Made, source: Any) -> None:
    name = stream()
    nc._call(lambda now: nc._session.publish(f"{name}.a", b"1", None, b"NATS/1.0\r\nno header\r\n\r\n"))
    nc.flush()
    headers = StructType([StructField("headers", HEADERS)])
    assert HEADERS.simpleString() == HEADERS_TYPE
    reader = source(name).reader(COLUMNS)
    assert read(reader, reader.partitions()) == [1]
    reader = source(name).reader(headers)
    with pytest.raises(
        RemoteProtocolError, match=f"stream {name}: a message of 1 to 1 has headers that cannot be read"
    ):
        list(reader.read(reader.partitions()[0]))


def test_a_subject_that_is_no_text(nc: Connection, stream: Made, source: Any) -> None:
    name = stream()
    nc.publish(f"{name}.\udcff", b"1")
    nc.flush()
    reader = source(name).reader(COLUMNS)
    (batch,) = reader.read(reader.partitions()[0])
    assert batch.column("subject").to_pylist() == [f"{name}.\ufffd"]


# -- streaming reads ---------------------------------------------------------------------------------------------------


def test_a_streaming_read(js: JetStream, stream: Made, source: Any) -> None:
    name = stream(100)
    reader = source(name, startingOffsets="earliest", maxOffsetsPerTrigger=60).streamReader(COLUMNS)
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    if find_spec("pyspark.sql.streaming.datasource") is not None:  # before 4.2 Spark has no limits
        assert reader.getDefaultReadLimit().max_rows == 60
    end = reader.latestOffset(start, SimpleNamespace(max_rows=60))
    assert read(reader, reader.partitions(start, end)) == [*range(1, 61)]
    assert reader.partitions(end, end) == []
    assert decode_offset(reader.reportLatestOffset())[name].seq == 100
    fill(js, name, 101, 110)
    last = reader.latestOffset(end, None)
    reader.commit(end)
    assert read(reader, reader.partitions(end, last)) == [*range(61, 111)]
    assert reader.latestOffset(last, None) == last
    latest = source(name).streamReader(COLUMNS)
    assert decode_offset(latest.initialOffset()) == decode_offset(last)
    for each in (reader, latest):
        each.stop()


@promise("On Spark 4.1 the first micro-batch of a query, and `availableNow`, take everything")
def test_a_limit_where_spark_has_none(js: JetStream, stream: Made, source: Any) -> None:
    """Before 4.2 it asks for the latest offset without saying from where, and plans an empty batch when it restarts."""
    name = stream(100)
    reader = source(name, startingOffsets="earliest", maxOffsetsPerTrigger=60).streamReader(COLUMNS)
    first = reader.latestOffset()
    start = reader.initialOffset()
    assert read(reader, reader.partitions(start, first)) == [*range(1, 101)]
    fill(js, name, 101, 200)
    second = reader.latestOffset()
    assert read(reader, reader.partitions(first, second)) == [*range(101, 161)]
    reader.stop()
    again = source(name, maxOffsetsPerTrigger=10).streamReader(COLUMNS)
    assert again.partitions(second, second) == []
    assert read(again, again.partitions(second, again.latestOffset())) == [*range(161, 171)]
    again.stop()


@promise("the same rows, except those deleted meanwhile")
@promise("An offset has the sequence to read next")
@promise("A micro-batch that comes again is split as it was")
def test_a_micro_batch_is_cut_as_it_was(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, source: Any
) -> None:
    """Sinks know a row by its task and its number: it must have both again, with other CPUs or options."""
    name = stream(100)
    first = source(name, startingOffsets="earliest", minPartitions=2).streamReader(COLUMNS)
    start = first.initialOffset()
    end = first.latestOffset(start, None)
    planned = first.partitions(start, end)
    assert len(planned) == 2
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    fewer = source(name, maxRecordsPerPartition=10).streamReader(COLUMNS)
    again = source(name).streamReader(COLUMNS)
    for each in (again, fewer):
        assert each.partitions(start, json.loads(json.dumps(end))) == planned
        assert each.latestOffset(end, None) == each.latestOffset() == end  # nothing is new
    fill(js, name, 101, 200)
    assert len(again.partitions(end, again.latestOffset(end, None))) == 7
    assert len(fewer.partitions(end, fewer.latestOffset(end, None))) == 10
    for each in (first, again, fewer):
        each.stop()


@promise("exclusive. What is not there yet is not waited for")
def test_available_now_ends_where_the_stream_ended(js: JetStream, stream: Made, source: Any) -> None:
    name = stream(100)
    reader = source(name, startingOffsets="earliest", subject="nothing", minOffsetsPerTrigger=10**6).streamReader(
        COLUMNS
    )
    start = reader.initialOffset()
    assert reader.latestOffset(start, None) == start  # it waits for more
    reader.prepareForTriggerAvailableNow()
    fill(js, name, 101, 150)
    assert decode_offset(reader.latestOffset(start, None))[name].seq == 100
    reader.stop()


@promise("A query whose `subject` matches nothing new makes no micro-batches.")
def test_an_offset_stands_still_for_a_while(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, source: Any
) -> None:
    from pyspark_jetstream import source as module

    name = stream(100)
    reader = source(name, startingOffsets="earliest", subject=f"{name}.rare").streamReader(COLUMNS)
    start = reader.initialOffset()
    assert reader.latestOffset(start, None) == reader.latestOffset(start, None) == start
    monkeypatch.setattr(module, "IDLE_OFFSET_MOVES", 0.0)
    assert decode_offset(reader.latestOffset(start, None))[name].seq == 100
    reader.stop()


def test_a_stream_that_lost_its_end(stream: Made, source: Any) -> None:
    """An offset after the end is never taken for a wait."""
    name = stream(10)
    reader = source(name).streamReader(COLUMNS)
    end = reader.latestOffset()
    behind = {**end, "streams": {name: {**end["streams"][name], "seq": 16}}}
    with pytest.raises(DataLossError, match="ends at sequence 10, but 16 was to be read next"):
        reader.latestOffset(behind, None)
    with pytest.raises(DataLossError, match="ends at sequence 10, but 16 was to be read next"):
        reader.partitions(behind, end)
    reader.stop()


def test_a_micro_batch_of_a_stream_that_was_made_anew(js: JetStream, stream: Made, source: Any) -> None:
    """It was planned before, and is planned again after a restart: nothing of it is there, and what is comes once."""
    name = stream(100)
    strict = source(name, startingOffsets="earliest").streamReader(COLUMNS)
    start = strict.initialOffset()
    planned = strict.latestOffset(start, None)
    config = js.stream_info(name).config
    recreate_stream(js, config)
    fill(js, name, 1, 50)
    with pytest.raises(DataLossError, match=f"stream {name} was made anew"):
        strict.partitions(start, planned)
    reader = source(name, failOnDataLoss=False).streamReader(COLUMNS)
    with pytest.warns(UserWarning, match="was made anew"):
        assert read(reader, reader.partitions(start, planned)) == []
    with pytest.warns(UserWarning, match="was made anew"):
        assert read(reader, reader.partitions(planned, reader.latestOffset(planned, None))) == [*range(1, 51)]
    for each in (strict, reader):
        each.stop()


def test_the_server_restarts_under_a_streaming_read(server_for: Any) -> None:
    server = server_for()
    with connecting.opened(ConnectionOptions(server.url), reader_thread=True) as nc:
        nc.jetstream().create_stream("S", subjects=["S.>"], allow_direct=True, allow_batched=True)
        fill(nc.jetstream(), "S", 1, 10)
    reader: Any = JetStreamDataSource({"servers": server.url, "stream": "S"}).streamReader(COLUMNS)
    end = reader.latestOffset(None, None)
    server.kill()
    server.start()
    assert reader.latestOffset(None, None) == end
    reader.stop()
    assert reader.latestOffset(None, None) == end  # and on a new connection
    reader.stop()


@promise("`export` and `audit` read each message of their range once, whatever is run again.")
def test_the_server_restarts_under_a_reading_task(server_for: Any) -> None:
    server = server_for()
    with connecting.opened(ConnectionOptions(server.url), reader_thread=True) as nc:
        nc.jetstream().create_stream("S", subjects=["S.>"], allow_direct=True, allow_batched=True)
        fill(nc.jetstream(), "S", 1, 5_000)
    given = {"servers": server.url, "stream": "S", "minPartitions": "1", "batchSize": "10", "maxBytes": "2000"}
    reader: Any = JetStreamDataSource(given).reader(COLUMNS)
    task = reader.read(reader.partitions()[0])
    found = next(task).column("data").to_pylist()
    server.kill()
    server.start()
    for batch in task:
        found += batch.column("data").to_pylist()
    assert [int(data) for data in found] == [*range(1, 5_001)]


def test_a_task_waits_for_servers_and_a_driver_does_not(monkeypatch: pytest.MonkeyPatch, server: NatsServer) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(connecting, "sleep", pauses.append)
    nowhere = ConnectionOptions("nats://127.0.0.1:1")
    where = "stream S, sequences 1 to 9"
    with (
        pytest.raises(connecting.UnreachableError, match=f"^{where}: .*127.0.0.1:1") as caught,
        connecting.in_task(nowhere, where),
    ):
        pass
    assert isinstance(caught.value.__cause__, NoServersError)
    assert pauses == PAUSES
    with pytest.raises(NoServersError), connecting.ReconnectingClient(nowhere) as client:
        client.request(lambda js: js)
    assert len(pauses) == 5


def test_a_server_that_stands_still_is_left(
    monkeypatch: pytest.MonkeyPatch, server: NatsServer, server_for: Any
) -> None:
    monkeypatch.setattr(connecting, "PING_INTERVAL", 0.5)
    first = server_for()
    options = ConnectionOptions(f"{first.url},{server.url}", connect_timeout=1.0, request_timeout=1.0)
    with connecting.ReconnectingClient(options) as client:
        info = client.request(lambda js: js.account_info())
        with paused(first):
            assert client.request(lambda js: js.account_info()) is not info


@pytest.mark.parametrize(
    ("main", "frozen"),
    [
        ({}, False),  # of a debugger
        ({"__spec__": None}, False),
        ({"__spec__": SimpleNamespace(name="pytest")}, False),
        ({"__spec__": SimpleNamespace(name=connecting.DAEMON)}, True),
    ],
)
def test_imports_are_frozen_in_workers_alone(
    monkeypatch: pytest.MonkeyPatch, main: dict[str, Any], frozen: bool
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(**main))
    connecting.freeze_imports.cache_clear()
    before = gc.get_freeze_count()
    try:
        connecting.freeze_imports()
        assert (gc.get_freeze_count() > before) is frozen
    finally:
        gc.unfreeze()


def test_few_messages_of_a_task_wait_for_those_after_them(server: NatsServer) -> None:
    """Long enough for the next chunk. What is left at the end a task sends itself, because it waits for the answer."""
    with connecting.opened(ConnectionOptions(server.url)) as nc:
        session = nc._session
        nc.flush()
        session.publish_message("a", b"x")  # a burst begins
        assert session.wants_send(0.0)
        session.data_to_send()
        session.publish_message("a", b"y")
        assert not session.wants_send(0.0)
        assert session.wants_send(connecting.LINGER)


@promise("A lost connection, or a leader that is not there")
@pytest.mark.parametrize(
    ("most", "expected"), [(1, PAUSES[4:]), (3, PAUSES[2:]), (5, PAUSES), (7, [*PAUSES, PAUSES[4], PAUSES[4]])]
)
def test_the_last_pause_is_the_longest(monkeypatch: pytest.MonkeyPatch, most: int, expected: list[float]) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(connecting, "sleep", pauses.append)
    retries = connecting.Retries(most)
    for _ in range(2):
        while retries.left:
            retries.pause()
        assert pauses == expected
        pauses.clear()
        retries.reset()
    assert connecting.Retries(0).left == 0


def test_a_question_is_asked_a_few_times(monkeypatch: pytest.MonkeyPatch, server: NatsServer) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(connecting, "sleep", pauses.append)
    asked: list[Any] = []

    def question(*_: Any) -> int:
        if asked:
            raise asked.pop()
        return 7

    def never(*_: Any) -> None:
        raise UNAVAILABLE

    def wrong(*_: Any) -> None:
        raise APIError(400, 10003, "bad request")

    with (
        connecting.ReconnectingClient(ConnectionOptions(server.url)) as client,
        connecting.opened(ConnectionOptions(server.url)) as nc,
    ):
        again = partial(connecting.retry_transient, nc)
        for ask in (client.request, again):
            asked[:] = [ConnectionLostError("gone"), UNAVAILABLE, NoRespondersError("x")]
            pauses.clear()
            assert ask(question) == 7
            assert pauses == PAUSES[:3]
            pauses.clear()
            with pytest.raises(APIError, match="temporarily unavailable"):
                ask(never)
            assert pauses == PAUSES
            with pytest.raises(APIError, match="bad request"):
                ask(wrong)
            assert len(pauses) == 5
