"""Names of rows, digests of rows, and the message ids that are made of them. No JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from jsproto.grammar.headers import Headers
from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.digests import RowsDigest, row_digests
from pyspark_jetstream.markers import TaskId, WriteError
from pyspark_jetstream.message_ids import MessageIds, identified
from pyspark_jetstream.messages import RowMessages
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.origins import attempt_number, segments_of, task_number
from pyspark_jetstream.repetition import pieces_of
from pyspark_jetstream.rows import chunks_of
from pyspark_jetstream.schema import MAX_RUNS
from tests.marks import promise
from tests.spark.conftest import Made, data_of
from tests.spark.memory import ATTEMPT, KIND, TARGET, Row, chunks_in

if TYPE_CHECKING:
    from jsproto_io.sync import JetStream

pytestmark = pytest.mark.spark
ORIGIN = StructType([StructField(name, LongType()) for name in ("task", "seq", "attempt")])
NAMED = StructType(
    [StructField("subject", StringType()), StructField("data", BinaryType()), StructField("origin", ORIGIN)]
)


def context_of(task: int, batch: int | None = None, app: str | None = "app-1") -> TaskContext:
    """What follows runs in this task of Spark."""
    context = TaskContext._getOrCreate()
    context._partitionId = 0
    context._taskAttemptId = task
    context._localProperties = {} if app is None else {"spark.app.id": app}
    if batch is not None:
        context._localProperties |= {"streaming.sql.batchId": str(batch), "sql.streaming.queryId": "q"}
    return context


@pytest.fixture(autouse=True)
def no_context_is_left() -> Any:
    yield
    TaskContext._setTaskContext(None)


# -- names -------------------------------------------------------------------------------------------------------------


def test_the_number_of_a_task_tells_it_from_all_others() -> None:
    """It has 64 bits, with a sign, as Spark's bigint."""
    wanted = ("S", "17", 1, 100, None)
    places = [("T", "17", 1, 100), ("S", "18", 1, 100), ("S", "17", 2, 100), ("S", "17", 1, 101)]
    others = [(*place, None) for place in places]
    numbers = {task_number(*each) for each in [wanted, *others, ("S", "17", 1, 100, "a.*")]}
    assert len(numbers) == 6
    assert task_number(*wanted) == task_number(*wanted)
    assert all(-(2**63) <= number < 2**63 for number in numbers)


def test_an_attempt_has_a_number_where_spark_tells_which_it_is() -> None:
    assert attempt_number(None) is None
    assert attempt_number(context_of(3, app=None)) is None
    numbers = [attempt_number(context_of(3)), attempt_number(context_of(4)), attempt_number(context_of(3, app="app-2"))]
    assert len(set(numbers)) == 3
    assert attempt_number(context_of(3)) == numbers[0]


def segments(*rows: tuple[int | None, int | None, int | None], attempt: int | None = ATTEMPT) -> Any:
    values = [None if row == (None, None, None) else row for row in rows]
    half = len(values) // 2
    column = pa.chunked_array([pa.array(values[:half], KIND), pa.array([None, *values[half:]], KIND).slice(1)])
    return [
        (each.task, [*each.seqs] if each.task is not None else len(each.seqs), each.rises)
        for each in segments_of(column, attempt)
    ]


@promise("Names hold where nothing lies between source and sink: no shuffle, cache or table.")
def test_rows_are_named_where_their_own_task_read_them() -> None:
    """Row by row: neighbours change nothing."""
    one = [(1, 3, ATTEMPT), (1, 5, ATTEMPT), (1, 5, ATTEMPT)]
    assert segments(*one) == [(1, [3, 5, 5], True)]
    assert segments(*one[:2], (-2, 1, ATTEMPT), (1, 6, ATTEMPT)) == [
        (1, [3, 5], True), (-2, [1], True), (1, [6], True),
    ]  # fmt: skip
    assert segments(*one, attempt=8) == segments(*one, attempt=None) == [(None, 3, True)]
    assert segments(*one[:2], (1, 7, None)) == [(1, [3, 5], True), (None, 1, True)]
    assert segments(*reversed(one)) == [(1, [5, 5, 3], False)]
    other = [(None, None, None), (1, None, ATTEMPT), (None, 9, ATTEMPT), (2, 9, 8)]
    assert segments(*one[:1], *other, *one[1:2]) == [(1, [3], True), (None, 4, True), (1, [5], True)]


@promise("`atomic` takes names in the source's order alone")
def test_names_that_do_not_tell_how_far_a_task_has_come() -> None:
    """They come out of order, or not all rows have one, or they are too many for a marker."""

    def are_named(rows: Sequence[Row], attempt: int = ATTEMPT) -> bool:
        (chunk,) = chunks_in(rows, attempt=attempt)
        return all(piece.segment is not None for piece in pieces_of(chunk))

    many = [Row("x", task, 1) for task in range(MAX_RUNS + 1)]
    assert are_named(many[1:])
    assert not are_named(many)
    assert are_named([Row("x", 1, 3), Row("x", 2, 1), Row("x", 1, 3)])
    assert not are_named([Row("x", 1, 3), Row("x", 2, 1), Row("x", 1, 2)])
    assert not are_named([Row("x", 1, 3), Row("x", 1, 2)])
    assert not are_named(many[1:], attempt=ATTEMPT + 1)


def test_a_read_names_its_rows(js: JetStream, stream: Made, source: Any) -> None:
    """In a schema of its own too, and only where it was asked for."""
    name = stream(1_000)
    assert "origin" not in source(name).schema()
    assert source(name, includeOrigin="true").schema().endswith("origin struct<task:bigint,seq:bigint,attempt:bigint>")
    reader = source(name, minPartitions=2).reader(NAMED)
    context_of(9)
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    origins = [row for batch in found for row in batch.column("origin").to_pylist()]
    assert [row["seq"] for row in origins] == [*range(1, 1_001)]
    assert len({row["task"] for row in origins}) == 2
    assert {row["attempt"] for row in origins} == {attempt_number(context_of(9))}
    again = source(name, minPartitions=2).reader(NAMED)
    context_of(10, app=None)
    others = [batch for part in again.partitions() for batch in again.read(part)]
    assert [row["task"] for batch in others for row in batch.column("origin").to_pylist()] == [
        row["task"] for row in origins
    ]
    assert {row["attempt"] for batch in others for row in batch.column("origin").to_pylist()} == {None}


def test_changes_of_a_bucket_are_named(js: JetStream, source: Any) -> None:
    """What is read at once has another order, and so no names."""
    js.create_stream("KV_names", subjects=["$KV.names.>"], max_msgs_per_subject=1, allow_direct=True)
    for number in range(5):
        js.publish(f"$KV.names.{number % 3}", b"%d" % number)
    bucket = JetStreamDataSource(
        {**source("x").options, "kvBucket": "names", "includeOrigin": "true", "startingOffsets": "earliest"}
    )
    del bucket.options["stream"]
    assert bucket.schema().endswith(", operation string, origin struct<task:bigint,seq:bigint,attempt:bigint>")
    schema = StructType([StructField("key", StringType()), StructField("origin", ORIGIN)])
    reader: Any = bucket.streamReader(schema)
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    found = [row for part in parts for batch in reader.read(part) for row in batch.column("origin").to_pylist()]
    assert [row["seq"] for row in found] == [3, 4, 5]
    with pytest.raises(OptionError, match="a bucket that is read at once has no column origin"):
        bucket.reader(schema)
    reader.stop()
    js.delete_stream("KV_names")


# -- digests -----------------------------------------------------------------------------------------------------------

texts = st.lists(
    st.tuples(st.sampled_from(["a", "a.b", "é"]), st.binary(max_size=4), st.sampled_from([None, "1", "2"])), max_size=12
)


def digest_of(*parts: Any) -> str:
    found = RowsDigest()
    for part in parts:
        found.add(part)
    return found.text


def tuples(rows: Sequence[tuple[str, bytes, str | None]]) -> list[Any]:
    return [
        (f"t.{subject}", data) if header is None else (f"t.{subject}", data, Headers([("A", header)]))
        for subject, data, header in rows
    ]


def arrow(rows: Sequence[tuple[str, bytes, str | None]], large: bool = False) -> list[RowMessages]:
    string, binary = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    columns = [
        pa.array([f"t.{subject}" for subject, _, _ in rows], string),
        pa.array([data for _, data, _ in rows], binary),
        pa.array([None if header is None else [("A", header)] for _, _, header in rows], pa.map_(string, string)),
    ]
    batch = pa.RecordBatch.from_arrays(columns, ["subject", "data", "headers"])
    return [*chunks_of([batch], batch.schema.names, None, TARGET, 0)]


@promise("A repeated `atomic` task without names has to bring the same rows in the same order.")
@given(texts, st.integers(0, 12), st.booleans())
def test_a_digest_knows_rows_and_their_order_alone(
    rows: list[tuple[str, bytes, str | None]], cut: int, large: bool
) -> None:
    """Not the chunks, nor slices of them, nor the types of Arrow."""
    wanted = digest_of(tuples(rows))
    assert digest_of(*arrow(rows, large)) == wanted
    assert digest_of(*arrow(rows[:cut]), *arrow(rows[cut:], large)) == wanted
    assert digest_of(*(chunk[at : at + 1] for chunk in arrow(rows) for at in range(len(chunk)))) == wanted
    running = RowsDigest()
    running.add(tuples(rows[:cut]))
    other = running.copy()
    other.add([("x", b"")])
    running.add(tuples(rows[cut:]))
    assert running.text == wanted
    if rows[::-1] != rows:
        assert digest_of(tuples(rows[::-1])) != wanted


@given(texts, texts)
def test_other_rows_have_another_digest(one: Any, another: Any) -> None:
    assert (digest_of(tuples(one)) == digest_of(tuples(another))) is (one == another)
    for left, right in zip(one, another, strict=False):
        assert ([*row_digests(tuples([left]))] == [*row_digests(tuples([right]))]) is (left == right)


def test_a_subject_that_all_rows_have() -> None:
    (chunk,) = chunks_of([pa.RecordBatch.from_pydict({"data": [b"1", b"2"]})], ["data"], "t.x", TARGET, 0)
    assert digest_of(chunk) == digest_of([("t.x", b"1"), ("t.x", b"2")])


# -- message ids -------------------------------------------------------------------------------------------------------


def ids_of(rows: Sequence[Row], **more: Any) -> dict[str, list[str]]:
    """The ids of the rows with each data."""
    made = MessageIds("p.")
    found: dict[str, list[str]] = {}
    for chunk in chunks_in(rows, **more):
        for (_, data), each in zip(chunk, made.of(chunk), strict=True):
            found.setdefault(data.decode(), []).append(each)
    return found


cut_places = st.lists(st.integers(1, 20), max_size=4)


@promise("every row once, as long as the repetition comes within the stream's")
@given(st.data(), st.booleans())
def test_ids_do_not_depend_on_what_came_before(data: st.DataObject, named: bool) -> None:
    """Rows vanish, and others come in other chunks: the rest has the ids that it had. No two rows have the same."""
    messages = st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(1, 9), st.integers(1, 3)), unique=True)
    rows = [
        Row(f"{task}.{seq}.{number}", task, seq)
        for task, seq, count in sorted(data.draw(messages), key=lambda each: each[:2])
        for number in range(count)
    ]
    rows = [*dict.fromkeys(rows)]
    gone = data.draw(st.sets(st.tuples(st.sampled_from([1, 2]), st.integers(1, 9))))
    left = [row for row in rows if (row.task, row.seq) not in gone]
    before = ids_of(rows, named=named, cuts=data.draw(cut_places))
    after = ids_of(left, named=named, cuts=data.draw(cut_places))
    assert after == {data: each for data, each in before.items() if data in after}
    assert max(Counter(each for ids in before.values() for each in ids).values(), default=1) == 1
    if not named or all(count == 1 for count in Counter((row.task, row.seq) for row in left).values()):
        assert ids_of(data.draw(st.permutations(left)), named=named, cuts=data.draw(cut_places)) == after


def test_equal_rows_are_as_many_ids() -> None:
    same = Row("x")
    assert len(set(ids_of([same, Row("y"), same, same], named=False)["x"])) == 3
    named = [Row("x", 1, 5), Row("x", 1, 5), Row("x", 2, 5)]  # names count for nothing
    assert len({*ids_of(named)["x"]}) == 3


@promise("every row once, as long as the repetition comes within the stream's")
@given(st.data())
def test_shuffled_rows_have_their_ids_in_whatever_order(data: st.DataObject) -> None:
    """Another task has read them, so content counts, of several rows of a message too."""
    rows = [Row(f"{task}.{seq}.{number}", task, seq) for task in (1, 2) for seq in (1, 2, 3) for number in (0, 1)]
    first = ids_of(rows, attempt=ATTEMPT + 1, cuts=data.draw(cut_places))
    again = ids_of(data.draw(st.permutations(rows)), attempt=ATTEMPT + 2, cuts=data.draw(cut_places))
    assert first == again == ids_of(rows, named=False)


@promise("every row once, as long as the repetition comes within the stream's")
@promise("Names hold where nothing lies between source and sink: no shuffle, cache or table.")
def test_ids_do_not_depend_on_how_many_tasks_a_chunk_has() -> None:
    """``coalesce`` puts many ranges into a partition. The less rows they have left, the more come in a chunk."""
    rows = [Row(f"{task}.{seq}", task, seq) for task in range(3 * MAX_RUNS) for seq in (1, 2, 3)]
    left = [row for row in rows if row.seq == 2]
    whole = ids_of(rows, cuts=[*range(0, len(rows), 20)])
    assert ids_of(left) == {row.data: whole[row.data] for row in left}


@promise("every row once, as long as the repetition comes within the stream's")
def test_partitions_and_micro_batches_have_ids_of_their_own() -> None:
    """Equal rows in two of them are two rows, with names too: a union puts a range into several."""
    for named in (True, False):
        found = [
            headers["Nats-Msg-Id"]
            for task in (TaskId("q", 1, 0), TaskId("q", 1, 1), TaskId("q", 2, 0))
            for chunk in identified(chunks_in([Row("x", 1, 1)], named=named), "q", task)
            for _, _, headers in chunk
        ]
        assert len(set(found)) == 3


# -- from a stream into another one ------------------------------------------------------------------------------------


@promise("every row once, as long as the repetition comes within the stream's")
@promise("A repeated task then knows its rows by name")
@pytest.mark.parametrize("delivery", ["atomic", "fastDedup"])
@pytest.mark.parametrize("named", [True, False])
def test_keys_are_overwritten_between_two_tries(
    js: JetStream, stream: Made, source: Any, delivery: str, named: bool
) -> None:
    """A full target ends the first try. With names the second one heals, without them ``atomic`` refuses it."""
    origin, target = stream(max_msgs_per_subject=1), stream(max_msgs=2_000, discard="new")
    with js.fast_publisher() as batch:
        batch.publish_many((f"{origin}.{n}", b"%d" % n) for n in range(3_000))
        batch.commit()
    schema = NAMED if named else StructType(NAMED.fields[:2])
    reader = source(origin, startingOffsets="earliest", minPartitions=1).streamReader(schema)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())

    def run(attempt: int) -> Any:
        context_of(attempt, batch=0)
        (part,) = reader.partitions(start, end)
        writer = source(target, delivery=delivery, markerSubject=target, subject=f"{target}.x").streamWriter(
            schema, False
        )
        batches = (each.set_column(0, "subject", pa.array([f"{target}.x"] * len(each))) for each in reader.read(part))
        return writer.write(batches)

    with pytest.raises(WriteError, match="maximum messages"):
        run(1)
    js.update_stream(target, max_msgs=-1)
    for n in range(100, 600):
        js.publish(f"{origin}.{n}", b"9999")
    if delivery == "atomic" and not named:
        with pytest.raises(WriteError, match="the first 1998 rows are not those that are stored"):
            run(2)
    else:
        assert run(2).rows == 2_500
        stored = data_of(js, target)
        assert set(stored) >= {*range(100), *range(600, 3_000)}
        assert max(stored.values()) == 1
    reader.stop()
