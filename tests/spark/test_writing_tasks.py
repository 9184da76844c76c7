"""Writers as Spark calls them, without Spark: Arrow batches into ``write``."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from jsproto.errors import APIError, BatchLostError, BatchMessageError, NoStreamResponseError
from jsproto.grammar.columns import MessageColumns, StoredColumns
from jsproto.grammar.headers import Headers, encode_headers
from jsproto_io.sync import FastPublisher, JetStream
from pyspark_jetstream import connecting
from pyspark_jetstream.arrow import BatchBuilder
from pyspark_jetstream.delivery import store
from pyspark_jetstream.digests import row_digests
from pyspark_jetstream.markers import TaskId, WriteError
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import ConnectionOptions, read_options, write_options
from pyspark_jetstream.rows import CHUNK, CHUNK_BYTES, RowError, chunks_of
from pyspark_jetstream.schema import Target
from tests.marks import promise
from tests.spark.conftest import Made, data_of
from tests.spark.test_tasks import COLUMNS, WRITTEN, rows

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import Connection

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("delivery", ["fast", "fastDedup", "atomic"])
def test_batches_are_written(js: JetStream, stream: Made, source: Any, delivery: str) -> None:
    name = stream()
    writer = source(name, delivery=delivery, markerSubject=name).writer(WRITTEN, False)
    there = pickle.loads(pickle.dumps(writer))
    first = there.write(rows(name, 1, 2_500))
    assert (first.partition, first.rows, first.sent) == (0, 2_500, 2_500)
    again = there.write(rows(name, 1, 2_500))  # as Spark does with a task that it holds for dead
    assert again.rows == 2_500
    assert (again.sent == 0) == (delivery == "atomic")
    copies = 2 if delivery == "fast" else 1
    assert data_of(js, name) == Counter(dict.fromkeys(range(1, 2501), copies))
    if delivery == "atomic":
        with pytest.raises(WriteError, match="2500 rows are stored, and only 0 come"):
            there.write(iter(()))
    else:
        assert there.write(iter(())).rows == 0
    writer.commit([first])
    writer.abort([None])


def test_a_streaming_write_needs_its_micro_batch(js: JetStream, stream: Made, source: Any) -> None:
    name = stream()
    with pytest.raises(OptionError, match="delivery atomic needs to know its micro-batch, and Spark does not say"):
        source(name, delivery="atomic", markerSubject=name).streamWriter(WRITTEN, False).write(rows(name, 1, 2))
    assert source(name).streamWriter(WRITTEN, False).write(rows(name, 1, 2)).sent == 2


@promise("**Apache Spark** reads, streams and writes JetStream")
@promise("every row once, however late a task is repeated")
@promise("every row is stored, and stored **again** by each run that is repeated")
@promise("every row once, however late it is repeated")
def test_twins_and_zombies_store_nothing_twice(js: JetStream, stream: Made, nc: Connection, server: NatsServer) -> None:
    """Runs of the same partition that overtake each other in the middle, and one of a micro-batch that is over."""
    name = stream()
    given = {"servers": server.url, "stream": name, "delivery": "atomic", "markerSubject": name}
    options = write_options(given)
    chunk = [(f"{name}.{n}", b"%d" % n) for n in range(1, 2_501)]
    twins: list[Any] = []

    def overtaken(origin: TaskId) -> Iterator[list[Any]]:
        yield chunk[:1_200]
        twins.append(store(nc, js, [chunk[:2_000]], origin, options))  # a part of the second batch as well
        yield chunk[1_200:]

    js.publish(f"{name}.$spark.query.0", b'{"batch": 2, "rows": 1}')  # so nothing of the next one has gone
    origin = TaskId("query", 3, 1)
    assert store(nc, js, overtaken(origin), origin, options) == (2_500, 999 + 500)
    assert twins == [(2_000, 1_001)]
    assert data_of(js, name) == Counter(range(1, 2_501))
    with pytest.raises(WriteError, match="the stream has micro-batch 3 of this query, or a part of it"):
        store(nc, js, [chunk], TaskId("query", 2, 1), options)
    assert store(nc, js, [chunk[:10]], TaskId("query", 4, 1), options) == (10, 10)
    assert store(nc, js, [chunk[:10]], TaskId("query", 4, 2), options) == (10, 10)
    js.publish(f"{name}.$spark.query.1", b"not ours")
    with pytest.raises(WriteError, match=rf"on {name}.\$spark.query.1 is no marker: who else writes there"):
        store(nc, js, [chunk], TaskId("query", 5, 1), options)


@promise("every row once, however late a task is repeated")
@promise("every row once, however late it is repeated")
def test_markers_that_have_gone(js: JetStream, stream: Made, nc: Connection, server: NatsServer) -> None:
    name = stream()
    given = {"servers": server.url, "stream": name, "delivery": "atomic", "markerSubject": name}

    def purged() -> Iterator[list[Any]]:
        yield [(f"{name}.1", b"1")] * 999
        nc.request(f"$JS.API.STREAM.PURGE.{name}", b"")
        yield [(f"{name}.1", b"2")] * 999

    with pytest.raises(WriteError, match=rf"the marker of row 999 on {name}.\$spark.q.0 has gone"):
        store(nc, js, purged(), TaskId("q", 0, 0), write_options(given))


@promise("every row is stored, and stored **again** by each run that is repeated")
@promise("A lost connection, or a leader that is not there")
@promise("`ingest`, `mirror` and `replay` store every row")
def test_the_server_restarts_under_a_writing_task(server_for: Any) -> None:
    """Every row is stored by each delivery, and once by two of them, though the server is killed in the middle."""
    server = server_for()
    with connecting.opened(ConnectionOptions(server.url), reader_thread=True) as nc:
        js = nc.jetstream()
        for delivery in ("fast", "fastDedup", "atomic"):
            js.create_stream(
                delivery, subjects=[f"{delivery}.>"], allow_direct=True, allow_batched=True, allow_atomic=True
            )
            given = {"servers": server.url, "stream": delivery, "delivery": delivery, "markerSubject": delivery}
            chunk = [(f"{delivery}.1", b"%d" % n) for n in range(1, 5_001)]

            def killed(chunk: list[Any] = chunk) -> Iterator[list[Any]]:
                yield chunk[:2_500]
                server.kill()
                server.start()
                yield chunk[2_500:]

            assert store(nc, js, killed(), TaskId("q", 0, 0), write_options(given)).rows == 5_000
            stored = data_of(js, delivery)
            assert sorted(stored) == [*range(1, 5_001)]
            if delivery != "fast":
                assert stored.total() == 5_000


def breaks_off(monkeypatch: pytest.MonkeyPatch, number: int, sequence: int) -> list[int]:
    """Batch ``number``, from 1 on, is cut off after ``sequence`` messages. Returns how many each batch was given."""
    monkeypatch.setattr(connecting, "sleep", lambda seconds: None)
    publish_many = FastPublisher.publish_many
    begun: list[int] = []

    def broken(batch: FastPublisher, messages: Any) -> int:
        begun.append(len(messages))
        if len(begun) == number:
            publish_many(batch, messages[:sequence])
            batch._put_down(batch._take_in_hand(messages[sequence:]))  # as it does with what it has not published
            raise BatchLostError("cut off", batch_id="x", sequence=sequence, acked=0, ack=None)
        return publish_many(batch, messages)

    monkeypatch.setattr(FastPublisher, "publish_many", broken)
    return begun


@promise("A server allows 50 for a stream and 1,000 in all.")
@promise("What it refuses beyond that is tried again a few times")
def test_each_chunk_has_its_own_tries(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, nc: Connection, server: NatsServer
) -> None:
    """A connection that nobody reads while Spark computes may be lost before any chunk, however many there are."""
    monkeypatch.setattr(connecting, "sleep", lambda seconds: None)
    publish_many = FastPublisher.publish_many
    begun: list[FastPublisher] = []

    def broken(batch: FastPublisher, messages: Any) -> int:
        begun.append(batch)
        if len(begun) % 2:
            batch._put_down(batch._take_in_hand(messages))
            raise BatchLostError("stale", batch_id="x", sequence=0, acked=0, ack=None)
        return publish_many(batch, messages)

    monkeypatch.setattr(FastPublisher, "publish_many", broken)
    name = stream()
    chunks = [[(f"{name}.1", b"%d" % n)] for n in range(connecting.TRIES + 2)]
    options = write_options({"servers": server.url, "stream": name})
    assert store(nc, js, chunks, TaskId("q", 0, 0), options).rows == len(chunks)
    assert data_of(js, name) == Counter(range(len(chunks)))


@promise("every row once, as long as the repetition comes within the stream's")
@pytest.mark.parametrize("names", [WRITTEN.names, ["data"]])
def test_what_a_batch_left_is_sent_in_another(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, nc: Connection, server: NatsServer, names: list[str]
) -> None:
    begun = breaks_off(monkeypatch, 1, 1_234)
    name = stream()
    options = write_options({"servers": server.url, "stream": name, "flow": "100"})
    chunks = chunks_of(rows(name, 1, 3_000), names, f"{name}.1", Target(name, (f"{name}.*",), 2**63), 0)
    assert store(nc, js, chunks, TaskId("q", 0, 0), options).rows == 3_000
    assert begun[0] == 3_000
    assert 3_000 - 1_234 <= begun[1] < 3_000
    assert sorted(data_of(js, name)) == [*range(1, 3_001)]


@promise("every row once, however late a task is repeated")
@promise("every row once, however late it is repeated")
@pytest.mark.parametrize("delivery", ["fast", "fastDedup"])
def test_a_row_is_counted_over_batches(
    monkeypatch: pytest.MonkeyPatch, stream: Made, nc: Connection, js: JetStream, server: NatsServer, delivery: str
) -> None:
    """One that cannot be stored, in the second chunk, after a batch that broke off."""
    begun = breaks_off(monkeypatch, 2, 100)
    name = stream(max_msg_size=200)
    plain = (f"{name}.1", b"x")
    chunk = [plain] * 120 + [(f"{name}.1", bytes(150), Headers([("A", "1" * 100)]))] + [plain] * 9
    options = write_options({"servers": server.url, "stream": name, "delivery": delivery, "flow": "10"})
    with pytest.raises(WriteError, match="row 150 of partition 4 was not stored: .*maximum allowed"):
        store(nc, js, [[plain] * 30, chunk], TaskId("q", 0, 4), options)
    assert begun[:2] == [30, 130]
    assert 30 <= begun[2] < 130  # what was acknowledged is not sent again


@promise("A row with a message id of its own is dropped if the stream has seen that within its `duplicate_window`")
@promise("every row once, as long as the repetition comes within the stream's")
def test_ids_that_rows_have_already(js: JetStream, stream: Made, nc: Connection, server: NatsServer) -> None:
    """``fastDedup`` makes ids itself: two rows with one id, copied from another stream, are two rows."""
    name = stream()
    headers = Headers([("Nats-Msg-Id", "same"), ("A", "1")])
    chunk = [(f"{name}.1", b"%d" % n, headers) for n in range(3)]
    options = write_options({"servers": server.url, "stream": name, "delivery": "fastDedup"})
    for _ in range(2):
        store(nc, js, [chunk], TaskId("q", 7, 1), options)
    assert data_of(js, name) == Counter(range(3))
    found = [[*message.headers.items()] for message in js.get_batch(name)]
    ids = [f"q.7.1.{digest.hex()}" for digest in row_digests(chunk)]
    assert found == [[("A", "1"), ("Nats-Msg-Id", each)] for each in ids]


@promise("A lost connection, or a leader that is not there")
@pytest.mark.parametrize("delivery", ["fast", "fastDedup"])
def test_a_leader_that_is_not_there_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, nc: Connection, server: NatsServer, delivery: str
) -> None:
    """Nobody listens, or the first answer is 503, or that of another message. Six times in a row are too many."""
    monkeypatch.setattr(connecting, "sleep", lambda seconds: None)
    publish_many = FastPublisher.publish_many
    unavailable = APIError(503, 10008, "JetStream system temporarily unavailable")
    in_the_middle = BatchMessageError("refused", message_sequence=1, batch_id="x", sequence=0, acked=0, ack=None)
    in_the_middle.__cause__ = unavailable
    errors: list[Exception] = []

    def refused(batch: FastPublisher, messages: Any) -> int:
        if errors:
            batch._put_down(batch._take_in_hand(messages))
            raise errors.pop()
        return publish_many(batch, messages)

    monkeypatch.setattr(FastPublisher, "publish_many", refused)
    name = stream()
    options = write_options({"servers": server.url, "stream": name, "delivery": delivery})
    errors[:] = [NoStreamResponseError(name), unavailable, in_the_middle]
    rows_there = [(f"{name}.1", b"%d" % n) for n in range(9)]
    assert store(nc, js, [rows_there], TaskId("q", 0, 0), options) == (9, 9)
    assert data_of(js, name) == Counter(range(9))
    errors[:] = [unavailable] * (connecting.TRIES + 1)
    with pytest.raises(WriteError, match=r"row 0 of partition 0 was not stored|rows of q\.1\.0 were not stored"):
        store(nc, js, [rows_there], TaskId("q", 1, 0), options)


def test_a_row_that_the_server_refuses(js: JetStream, stream: Made, source: Any) -> None:
    name = stream(max_msgs=10, discard="new")
    for delivery in ("fast", "atomic"):
        writer = source(name, delivery=delivery, markerSubject=name).writer(WRITTEN, False)
        said = "row 10 of partition 0 was" if delivery == "fast" else "rows 0 to 49 of partition 0 were"
        with pytest.raises(WriteError, match=f"{said} not stored: .*maximum messages"):
            writer.write(rows(name, 1, 50))
    with pytest.raises(WriteError, match="row 0 of partition 0 was not stored: .*maximum messages"):
        source(name).writer(WRITTEN, False).write(rows(name, 1, 50))


def test_a_row_that_cannot_be_stored(stream: Made, source: Any) -> None:
    name = stream(max_msg_size=10)
    writer = source(name).writer(WRITTEN, False)
    batch = pa.RecordBatch.from_pydict({"subject": [f"{name}.1"] * 2, "data": ["x", "x" * 11]})
    with pytest.raises(RowError, match=f"row 3 of partition 0 has 11 bytes of data; stream {name} takes 10"):
        writer.write(iter([batch.slice(0, 1), batch.slice(0, 1), batch]))
    batch = pa.RecordBatch.from_pydict({"subject": [f"{name}.1", "x.y"], "data": [None, "x"]})
    with pytest.raises(
        RowError, match=f"row 1 of partition 0 cannot be stored: stream {name} does not take subject 'x.y'"
    ):
        writer.write(iter([batch]))


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("a b", "a subject must not contain ' '"),
        ("a\r\nPUB x", "a subject must not contain"),
        ("", "a subject must not have an empty token"),
        ("*", "wildcards are for subscribing"),
        ("x" * 2_032, "a subject has at most 2032 bytes"),
    ],
)
def test_a_subject_that_nats_does_not_take(js: JetStream, stream: Made, source: Any, token: str, message: str) -> None:
    """Nothing of its chunk is sent."""
    name = stream()
    writer = source(name).writer(WRITTEN, False)
    batch = pa.RecordBatch.from_pydict({"subject": [f"{name}.1"] * 6 + [f"{name}.{token}"] * 2, "data": ["x"] * 8})
    with pytest.raises(RowError, match=f"row 6 of partition 0 cannot be stored: {message}"):
        writer.write(iter([batch.slice(0, 4), batch.slice(4)]))
    assert js.stream_info(name).state.messages == 0


@promise("`Nats-Batch-...`, which is part of somebody's atomic batch, fails the task")
@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([("A", b"1"), None], "has a header that is null, or whose key is"),
        ([(None, b"1")], "has a header that is null, or whose key is"),
        ([("A", b"1\n2")], "cannot be stored: the value of header A must not contain"),
        ([("A:", b"1")], "cannot be stored: .*'A:'"),
        ([("A", b"1"), ("Nats-Batch-Sequence", b"1")], "cannot be stored: Nats-Batch-Sequence makes a message part of"),
    ],
)
def test_headers_that_cannot_be(headers: list[Any], message: str) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = [pa.array([b"x", b"x"]), pa.array([[("A", b"1")], headers], kind)]
    batch = pa.RecordBatch.from_arrays(columns, ["data", "headers"])
    with pytest.raises(RowError, match=f"row 3 of partition 5 {message}"):
        [*chunks_of([batch.slice(0, 1)] * 2 + [batch], batch.schema.names, "s.1", Target("S", ("s.*",), 2**63), 5)]


@pytest.mark.parametrize("added", [{}, {"Nats-Msg-Id": "x" * 20}])
@pytest.mark.parametrize(
    "headers", [None, {}, {"A": "1" * 60}, {"A": "\u00e9\u20ac\U0001f600" * 9}, {"A": "", "Nats-Msg-Id": "own"}]
)
def test_a_size_counts_all_headers(added: dict[str, str], headers: dict[str, str] | None) -> None:
    """To the byte. What the delivery adds takes the place of what a row has."""
    block = {**(headers or {}), **added}
    room = 200 - (len(encode_headers(block)) if block else 0)
    kind = pa.map_(pa.string(), pa.string())
    target = Target("S", ("s.*",), 200, added)

    def rows_of(*sizes: int) -> list[Any]:
        own = pa.array([None, *([headers] * len(sizes))], kind)
        columns = {"data": pa.array([None, *map(bytes, sizes)], pa.binary()), "headers": own}
        batch = pa.RecordBatch.from_pydict(columns if headers is not None else {"data": columns["data"]})
        return [row for chunk in chunks_of([batch], batch.schema.names, "s.1", target, 5) for row in chunk]

    assert [len(row[1]) for row in rows_of(room, 0)] == [0, room, 0]
    said = f"{room + 1} bytes of data{', 201 with its headers' if block else ''}; stream S takes 200 "
    with pytest.raises(RowError, match=f"row 2 of partition 5 has {said}"):
        rows_of(room, room + 1)


def test_columns_of_other_types() -> None:
    """Spark may be told to write large ones."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["s.1", None], pa.large_string()), pa.array([None, "é"], pa.large_string())], WRITTEN.names
    )
    (chunk,) = chunks_of([batch], WRITTEN.names, "s.2", Target("S", ("s.*",), 2**63), 0)
    assert isinstance(chunk, MessageColumns)
    assert [*chunk] == [("s.1", b""), ("s.2", "é".encode())]
    assert chunk.encoded((b"r.", b""), 9, 100, 1_000) == (
        2, b"PUB s.1 r.9 0\r\n\r\nPUB s.2 r.10 2\r\n\xc3\xa9\r\n"
    )  # fmt: skip


def test_a_chunk_is_several_arrow_batches() -> None:
    """As many as there are, up to a number or a size. A row's number counts those of all chunks."""

    def chunks(*batches: pa.RecordBatch) -> list[list[Any]]:
        return [[*chunk] for chunk in chunks_of(batches, WRITTEN.names, None, Target("S", ("s.*",), 2**63), 7)]

    found = [*rows("s", 1, 700 * (CHUNK + 1))]
    empty = found[0].slice(0, 0)
    expected = [(f"s.{n % 10}", b"%d" % n) for n in range(1, 700 * (CHUNK + 1) + 1)]
    assert chunks(*found) == [expected[: 700 * CHUNK], expected[700 * CHUNK :]]
    assert chunks(*found[:2], empty) == [expected[:1_400]]
    assert chunks() == chunks(*[empty] * (CHUNK + 1)) == []
    large = pa.RecordBatch.from_pydict({"subject": ["s.1", "s.2"], "data": ["x" * (CHUNK_BYTES // 2), ""]})
    assert [[len(data) for _, data in chunk] for chunk in chunks(large, large, found[0].slice(0, 1))] == [
        [CHUNK_BYTES // 2, 0] * 2,
        [1],
    ]
    (chunk,) = chunks_of(found[:2], WRITTEN.names, None, Target("S", ("s.*",), 2**63), 7)
    assert [*chunk[690:710]] == expected[690:710]
    assert [chunk[0], chunk[699], chunk[700], chunk[-1]] == [expected[0], expected[699], expected[700], expected[1_399]]
    wrong = pa.RecordBatch.from_pydict({"subject": ["s.1", "x"], "data": ["", ""]})
    with pytest.raises(
        RowError, match=f"row {700 * (CHUNK + 1) + 1} of partition 7 cannot be stored: stream S does not take"
    ):
        chunks(*found, wrong)


@promise("`atomic` refuses a target with retention `workqueue` or `interest`")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mirror": {"name": "other"}, "subjects": None}, "is a mirror, which only copies its origin"),
        ({"sealed": True}, "is sealed"),
        ({"retention": "interest"}, r"keeps only what consumers wait for \(retention interest\), so it would lose the"),
        (
            {"retention": "workqueue"},
            r"keeps only what consumers wait for \(retention workqueue\), so it would lose the",
        ),
    ],
)
def test_a_stream_that_takes_nothing(
    js: JetStream, stream: Made, source: Any, config: dict[str, Any], message: str
) -> None:
    if "sealed" in config:
        name = stream()
        js.update_stream(name, sealed=True)
    else:
        atomic = "retention" in config
        name = stream(**config, allow_batched=False, allow_atomic=atomic)
    with pytest.raises(OptionError, match=f"stream {name} {message}"):
        source(name, delivery="atomic", markerSubject=name).writer(WRITTEN, False)


@promise("For a batch write the promise holds within one `save()`.")
@promise("A number is stored once. With `atomic` a lower one fails.")
@pytest.mark.parametrize("delivery", ["atomic", "fastDedup"])
def test_a_job_with_a_name_is_stored_once(js: JetStream, stream: Made, source: Any, delivery: str) -> None:
    """However often it is run. Its next version is another one, and by ``atomic`` an older one is refused."""
    name = stream()

    def run(version: int, last: int) -> int:
        options = {"delivery": delivery, "markerSubject": name, "txnAppId": "job", "txnVersion": version}
        writer = source(name, **options).writer(WRITTEN, False)
        written = pickle.loads(pickle.dumps(writer)).write(rows(name, 1, last))
        pickle.loads(pickle.dumps(writer)).commit([written])
        return int(written.rows)

    for _ in range(2):
        assert run(4, 1_500) == 1_500
    assert data_of(js, name) == Counter(range(1, 1_501))
    assert run(7, 20) == 20
    assert data_of(js, name).total() == 1_520
    if delivery == "atomic":
        with pytest.raises(WriteError, match="version 7 of job is stored, or a part of it: give a higher txnVersion"):
            run(4, 1_500)
        with pytest.raises(WriteError, match="is stored as a whole, and row 20 is not among its rows"):
            run(7, 30)
    assert data_of(js, name).total() == 1_520


def test_a_job_without_a_name_leaves_no_marker_of_the_whole(js: JetStream, stream: Made, source: Any) -> None:
    name = stream()
    writer = source(name, delivery="atomic", markerSubject=name).writer(WRITTEN, False)
    writer.commit([writer.write(rows(name, 1, 3)), None])
    assert js.stream_info(name).state.messages == 4


def test_batches_may_be_longer_or_shorter_than_the_one_before() -> None:
    """What they share does not change."""
    builder = BatchBuilder(COLUMNS, "S", read_options({"servers": "nats://x", "stream": "S"}))
    runs = [range(1, 3), range(3, 8), range(8, 9), range(9, 13)]
    batches = []
    for run in runs:
        texts = [b"x"] * len(run)
        builder.add(StoredColumns(texts, run, [b"2026-01-01T00:00:00Z"] * len(run), texts, texts))
        batches.append(builder.batch())
    for run, batch in zip(runs, batches, strict=True):
        assert batch.column("seq").to_pylist() == [*run]
        assert batch.column("stream").to_pylist() == ["S"] * len(run)
