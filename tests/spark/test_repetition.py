"""Tasks that come again: whatever vanishes, moves or dies, each row is stored once, or there is an error.

The sink itself runs, into a stream in memory. No server, no JVM.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_jetstream import atomic_batches, connecting
from pyspark_jetstream.atomic_batches import BATCH_BYTES
from pyspark_jetstream.delivery import store
from pyspark_jetstream.markers import Marker, TaskId, WriteError
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import write_options
from tests.marks import promise
from tests.spark.memory import ATTEMPT, OPTIONS, DeadError, Memory, Row, chunks_in

pytestmark = pytest.mark.spark
TASK = TaskId("q", 0, 0)


@pytest.fixture(autouse=True, scope="module")
def small_batches() -> Any:
    """Four rows in a batch, and no pauses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic_batches, "BATCH_ROWS", 4)
        patch.setattr(connecting, "sleep", lambda seconds: None)
        yield


def rows_of(*tasks: tuple[int, int], per_message: int = 1) -> list[Row]:
    """Rows of tasks of the source one after the other. Each has a number, and so many messages."""
    return [
        Row(f"{task}.{seq}.{number}", task, seq)
        for task, count in tasks
        for seq in range(1, count + 1)
        for number in range(per_message)
    ]


def marker_of(stream: Memory, subject: str = "t.$spark.q.0") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stream.get_last_msg("T", subject, level="leader").data)
    return found


# -- sequences of tries ------------------------------------------------------------------------------------------------

cut_places = st.lists(st.integers(1, 40), max_size=4)
deaths = st.integers(0, 6)


@st.composite
def named_tries(draw: st.DrawFn) -> tuple[list[Row], list[tuple[set[int], list[int], int | None]]]:
    """Rows, and tries of them: what has vanished before each, how its chunks are cut, when it dies."""
    tasks = [(number, draw(st.integers(1, 9))) for number in draw(st.permutations([3, 1, 2]))]
    rows = rows_of(*tasks[: draw(st.integers(1, 3))], per_message=draw(st.integers(1, 3)))
    messages = sorted({(row.task, row.seq) for row in rows})
    tries = [
        (draw(st.sets(st.sampled_from(range(len(messages))), max_size=6)), draw(cut_places), draw(deaths))
        for _ in range(draw(st.integers(1, 4)))
    ]
    return rows, [*tries, (set[int](), draw(cut_places), None)]


@promise("A repeated task then knows its rows by name")
@given(named_tries())
def test_named_rows_heal(case: tuple[list[Row], list[tuple[set[int], list[int], int | None]]]) -> None:
    """Messages vanish between tries, and what is left is stored once."""
    rows, tries = case
    stream, gone = Memory(), set[tuple[int, int]]()
    messages = sorted({(row.task, row.seq) for row in rows})
    for vanished, cuts, dies_after in tries:
        gone |= {messages[place] for place in vanished}
        left = [row for row in rows if (row.task, row.seq) not in gone]
        is_part = {row.task for row in left} != {row.task for row in rows}
        try:
            stream.write(left, TASK, cuts=cuts, dies_after=dies_after)
        except DeadError:
            continue
        except WriteError:  # a whole task of the source has vanished: this might be another plan
            assert is_part
            return
        assert set(stream.history) >= {row.data for row in left}
        assert max(stream.history.values(), default=1) == 1
    assert max(stream.history.values(), default=1) == 1


@promise("A repeated `atomic` task without names has to bring the same rows in the same order.")
@given(st.integers(0, 30), st.lists(st.tuples(cut_places, deaths, st.booleans()), max_size=4), cut_places)
def test_the_same_rows_never_fail(count: int, tries: list[tuple[list[int], int, bool]], cuts: list[int]) -> None:
    """With names and without, in turns, in whatever chunks."""
    rows, stream = rows_of((1, count)), Memory()
    for others, dies_after, named in tries:
        with suppress(DeadError):
            stream.write(rows, TASK, named=named, cuts=others, dies_after=dies_after)
    for named in (True, False):
        stream.write(rows, TASK, named=named, cuts=cuts)
    assert stream.history == Counter(row.data for row in rows)


@promise("every row once, however late it is repeated")
@promise("A repeated `atomic` task without names has to bring the same rows in the same order.")
@given(st.data())
def test_other_rows_fail(data: st.DataObject) -> None:
    """Without names: each row of a try that ends well is stored once, and nothing else is."""
    rows = rows_of((1, data.draw(st.integers(1, 20))), (2, 3))
    stream = Memory()
    for number in range(4):
        tried = data.draw(st.one_of(st.just(rows), st.permutations(rows), st.lists(st.sampled_from(rows), unique=True)))
        dies_after = None if number == 3 else data.draw(deaths)
        try:
            stream.write(tried, TASK, named=False, cuts=data.draw(cut_places), dies_after=dies_after)
        except (DeadError, WriteError):
            assert max(stream.history.values(), default=1) == 1
            continue
        assert stream.history == Counter(row.data for row in tried)


@promise("Names hold where nothing lies between source and sink: no shuffle, cache or table.")
@given(st.data())
def test_a_shuffle_between_source_and_sink(data: st.DataObject) -> None:
    """Names of another attempt prove nothing: what ends well is whole, and nothing is there twice."""
    rows = rows_of((1, 12), (2, 6))
    stream = Memory()
    for number in range(4):
        tried = [row for row in rows if data.draw(st.booleans())] if number else rows
        dies_after = None if number == 3 else data.draw(deaths)
        with suppress(DeadError, WriteError):
            stream.write(tried, TASK, attempt=ATTEMPT + 1 + number, dies_after=dies_after)
            assert stream.history == Counter(row.data for row in tried)
        assert max(stream.history.values(), default=1) == 1


@promise("every row once, however late it is repeated")
@given(st.data())
def test_twins_overtake_each_other(data: st.DataObject) -> None:
    """Another run of the same task stores a part in the middle, perhaps with fewer rows."""
    rows = rows_of((1, 30))
    stream, named = Memory(), data.draw(st.booleans())
    gone = data.draw(st.sets(st.integers(1, 30), max_size=5)) if named else set()
    others = [row for row in rows if row.seq not in gone]
    meetings = iter(sorted(data.draw(st.sets(st.integers(0, 7), max_size=3))))
    due, batches = next(meetings, None), 0

    def meet() -> None:
        nonlocal due, batches
        batches += 1
        if due is not None and batches > due:
            due = next(meetings, None)
            own = stream.before_batch
            with suppress(DeadError):
                stream.write(others, TASK, named=named, dies_after=data.draw(st.integers(0, 8)))
            stream.before_batch = own

    chunks: Any = chunks_in(rows, named=named, cuts=data.draw(cut_places))
    stream.before_batch = meet
    anything: Any = stream
    store(anything, anything, chunks, TASK, OPTIONS, is_named=named)
    assert set(stream.history) >= {row.data for row in others}
    assert max(stream.history.values()) == 1


@promise("every row once, however late it is repeated")
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("try"), deaths),
            st.tuples(st.just("commit"), st.just(0)),
            st.tuples(st.just("drop"), st.integers(0, 40)),
            st.tuples(st.just("back"), st.integers(1, 3)),
            st.tuples(st.just("other"), deaths),
        ),
        max_size=25,
    )
)
def test_a_query_and_its_checkpoints(steps: Sequence[tuple[str, int]]) -> None:
    """Micro-batches die, checkpoints come back, ranges are planned anew, the stream drops what is oldest."""
    stream, batch, dropped, done = Memory(), 0, False, False
    for step, number in steps:
        task = TaskId("q", batch, 0)
        rows = [Row(f"{batch}.{n}", batch + 1, n + 1) for n in range(9)]
        try:
            if step == "try":
                done = False
                stream.write(rows, task, dies_after=number)
                done = True
            elif step == "other":  # the same messages in another range: others would be stored twice
                stream.write([Row(row.data, 50 + batch, row.seq) for row in rows[2:]], task, dies_after=number)
                done = True
            elif step == "commit" and done:
                stream.commit(task)
                batch, done = batch + 1, False
            elif step == "drop":
                stream.drop(number)
                dropped = dropped or number > 0
            elif step == "back":
                batch, done = max(batch - number, 0), False
        except (DeadError, WriteError):
            done = False
        if dropped and any(count > 1 for data, count in stream.history.items() if data.startswith("0.")):
            return  # the first micro-batch cannot be proved, and so all begins anew
        assert max(stream.history.values(), default=1) == 1


# -- one by one --------------------------------------------------------------------------------------------------------


def test_what_a_marker_holds() -> None:
    stream = Memory()
    with pytest.raises(DeadError):
        stream.write(rows_of((5, 6), per_message=3), TASK, dies_after=2)
    found = marker_of(stream)
    assert found == {"v": 2, "batch": 0, "rows": 8, "digest": found["digest"], "runs": [[5, 3, 2]]}
    stream.write(rows_of((5, 6), per_message=3), TASK)
    assert marker_of(stream)["runs"] == [[5, 6, 3]]
    assert set(stream.history.values()) == {1}


def test_a_run_that_was_not_passed_yet_is_kept() -> None:
    """A filter lets more in, between two ranges that ``coalesce`` put into one partition. Then only names tell."""
    first, second = rows_of((1, 6)), rows_of((2, 6))
    stream = Memory()
    with pytest.raises(DeadError):
        stream.write([*first[::2], *second], TASK, dies_after=2)
    with pytest.raises(DeadError):
        stream.write([*first, *second], TASK, dies_after=0)
    with pytest.raises(DeadError):
        stream.write([*first, Row("1.9.0", 1, 9), *second], TASK, dies_after=1)
    assert "digest" not in marker_of(stream)
    with pytest.raises(WriteError, match="rows are stored, which others can tell by their names"):
        stream.write([*first, Row("1.9.0", 1, 9), *second], TASK, named=False)
    stream.write([*first, Row("1.9.0", 1, 9), *second], TASK)
    assert set(stream.history.values()) == {1}


@promise("With `atomic` a checkpoint that is older than the target fails before a row is stored.")
def test_a_range_that_was_planned_anew_half_way() -> None:
    stream = Memory()
    with pytest.raises(DeadError):
        stream.write(rows_of((1, 10)), TASK, dies_after=1)
    before = stream.last_seq
    with pytest.raises(WriteError, match="row 0 comes from another range of the source .* planned anew"):
        stream.write([Row(row.data, 2, row.seq) for row in rows_of((1, 12))], TASK)
    assert stream.last_seq == before


@promise("With `atomic` a checkpoint that is older than the target fails before a row is stored.")
@pytest.mark.parametrize("named", [True, False])
def test_a_whole_micro_batch_takes_no_other_row(named: bool) -> None:
    """Another partition stored nothing, so only the marker of the whole can tell."""
    stream, rows = Memory(), rows_of((1, 10))
    stream.write(rows, TASK, named=named)
    stream.commit(TASK)
    assert stream.write(rows, TASK, named=named) == (10, 0)
    assert stream.write([], TaskId("q", 0, 1), named=named) == (0, 0)
    with pytest.raises(WriteError, match="is stored as a whole, and row 0 is not among its rows"):
        stream.write(rows_of((2, 3)), TaskId("q", 0, 1), named=named)
    with pytest.raises(WriteError, match="is stored as a whole, and row 10 is not among its rows"):
        stream.write([*rows, Row("more", 1, 99)], TASK, named=named)
    assert stream.history == Counter(row.data for row in rows)


@promise("A repeated `atomic` task without names has to bring the same rows in the same order.")
def test_fewer_rows_than_are_stored() -> None:
    stream, rows = Memory(), rows_of((1, 10))
    stream.write(rows, TASK)
    assert stream.write(rows[:3], TASK) == (3, 0)  # the others have vanished
    assert stream.write([], TASK) == (0, 0)
    with pytest.raises(WriteError, match="10 rows are stored, and only 9 come.*includeOrigin"):
        stream.write(rows[:9], TASK, named=False)
    with pytest.raises(WriteError, match="10 rows are stored, and only 0 come"):
        stream.write([], TASK, named=False)


def test_a_commit_that_comes_again_and_one_of_a_driver_left_over() -> None:
    stream = Memory()
    for _ in range(2):
        stream.commit(TaskId("q", 3, 0))
    assert [message.subject for message in stream.messages] == ["t.$spark.q.all"]
    with pytest.raises(WriteError, match="the stream has micro-batch 3 of this query"):
        stream.commit(TaskId("q", 2, 0))


def test_two_drivers_commit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Memory()
    read = stream.get_last_msg

    def overtaken(*arguments: Any, level: str) -> Any:
        monkeypatch.undo()
        stream.commit(TaskId("q", 3, 0))
        return read("T", "t.other", level=level)

    monkeypatch.setattr(stream, "get_last_msg", overtaken)
    stream.commit(TaskId("q", 3, 0))
    assert len(stream.messages) == 1


def test_a_query_of_an_older_release_goes_on() -> None:
    """It counted rows, and stored no marker of the whole."""
    stream, rows = Memory(), rows_of((1, 10))
    for row in rows[:4]:
        stream.publish("t.1", row.data.encode())
    stream.publish("t.$spark.q.0", b'{"batch": 7, "rows": 4}')
    with pytest.warns(UserWarning, match="of an older release, which counted rows"):
        stream.write(rows, TaskId("q", 7, 0))
    assert sorted(stream.history) == sorted(row.data for row in rows[4:])
    stream.drop(4)  # any marker that is older proves that none of this one has gone
    assert stream.write(rows_of((2, 3)), TaskId("q", 8, 1)) == (3, 3)
    assert stream.write(rows_of((3, 3)), TaskId("q", 8, 0)) == (3, 3)


@promise("A query whose markers have all gone fails before a row is stored")
def test_markers_that_were_dropped() -> None:
    stream, rows = Memory(), rows_of((1, 10))
    stream.commit(TaskId("q", 4, 0))
    with pytest.raises(DeadError):
        stream.write(rows, TaskId("q", 5, 0), dies_after=1)
    stream.drop(100)
    with pytest.raises(WriteError, match="no marker of this query .* a part of micro-batch 5 may have been stored"):
        stream.write(rows, TaskId("q", 5, 0))
    stream.publish("t.$spark.q.all", bytes(Marker(4)))  # what the error says, by somebody who knows
    assert stream.write(rows, TaskId("q", 5, 0)) == (10, 10)


@promise("A query whose markers have all gone fails before a row is stored")
@pytest.mark.parametrize("before", ["nothing", "first micro-batch", "another marker subject"])
def test_a_target_that_knows_nothing_of_a_query(before: str) -> None:
    """It was made anew, or the query had another delivery or marker subject: then half of the rows may be there."""
    stream, rows, task = Memory(), rows_of((1, 10)), TaskId("q", 3, 0)
    if before == "another marker subject":
        stream.commit(TaskId("q", 2, 0))
        with pytest.raises(DeadError):
            stream.write(rows, task, dies_after=1)
    options = write_options({"servers": "nats://x", "stream": "T", "delivery": "atomic", "markerSubject": "t.other"})
    count = len(stream.messages)
    if before == "first micro-batch":
        assert stream.write(rows, TaskId("q", 0, 0), options=options) == (10, 10)
        return
    with pytest.raises(
        WriteError, match=r'no marker of this query \(t.other.\$spark.q.\*\).*publish \{"v": 2, "batch": 2\}'
    ):
        stream.write(rows, task, options=options)
    assert len(stream.messages) == count
    assert stream.write(rows[4:], replace(task, query="job", in_turn=False), options=options).sent == 6


@promise("A query whose markers have all gone fails before a row is stored")
def test_a_server_marks_that_it_removed_markers() -> None:
    """A partition had no rows for longer than the stream keeps messages."""
    stream = Memory()
    for batch in range(2):
        for partition in range(2):
            stream.write([Row(f"{batch}.{partition}", 1 + partition, 1)], TaskId("q", batch, partition))
        stream.commit(TaskId("q", batch, 0))
    stream.mark_removed("t.$spark.q.1")
    assert stream.write([Row("2.1", 1, 9)], TaskId("q", 2, 1)) == (1, 1)
    for subject in ("t.$spark.q.1", "t.$spark.q.all"):
        stream.mark_removed(subject)
    stream.messages.sort(key=lambda message: not message.headers)  # the marker of partition 0 is not the first
    stream.messages[:] = [message._replace(seq=seq) for seq, message in enumerate(stream.messages, 1)]
    assert stream.write([Row("3.1", 1, 9)], TaskId("q", 3, 1)) == (1, 1)
    stream.mark_removed("t.$spark.q.0")
    stream.mark_removed("t.$spark.q.1")
    with pytest.raises(WriteError, match="no marker of this query"):
        stream.write([Row("4.1", 1, 9)], TaskId("q", 4, 1))
    stream.commit(TaskId("q", 3, 0))
    assert set(stream.history.values()) == {1}


def test_a_damaged_marker_is_told_with_its_subject() -> None:
    stream = Memory()
    stream.publish("t.$spark.q.0", b"")
    with pytest.raises(WriteError, match=r"message 1 on t\.\$spark\.q\.0 is no marker: .* Delete it"):
        stream.write(rows_of((1, 3)), TASK)
    stream.drop(1)
    assert stream.write(rows_of((1, 3)), TASK) == (3, 3)


@promise("With `atomic` a checkpoint that is older than the target fails before a row is stored.")
def test_a_stream_that_lost_its_end() -> None:
    """Micro-batches that were stored as a whole are not there any more."""
    stream = Memory()
    for batch in range(5):
        stream.write(rows_of((batch + 1, 3)), TaskId("q", batch, 0))
        stream.commit(TaskId("q", batch, 0))
    del stream.messages[-8:]
    with pytest.raises(WriteError, match="that the stream has as a whole is 2, and not 4"):
        stream.write(rows_of((9, 3)), TaskId("q", 5, 0))


@promise("`atomic` refuses a target with retention `workqueue` or `interest`")
def test_a_target_that_became_another_while_the_query_runs() -> None:
    stream = Memory()
    stream.write(rows_of((1, 3)), TASK)
    stream.config.retention = "interest"
    with pytest.raises(OptionError, match="retention interest"):
        stream.write(rows_of((1, 3)), TASK)


@promise("For a batch write the promise holds within one `save()`.")
@promise("A number is stored once. With `atomic` a lower one fails.")
def test_a_job_that_is_run_again() -> None:
    stream, rows = Memory(), rows_of((1, 10))
    job = TaskId("job", 3, 0, in_turn=False)
    with pytest.raises(DeadError):
        stream.write(rows, job, named=False, dies_after=1)
    stream.write(rows, job, named=False)
    stream.commit(job)
    assert stream.write(rows, job, named=False) == (10, 0)
    with pytest.raises(WriteError, match="this version is stored as a whole, and row 0 is not among its rows"):
        stream.write(rows, TaskId("job", 3, 1, in_turn=False), named=False)
    with pytest.raises(WriteError, match="version 3 of job is stored, or a part of it: give a higher txnVersion"):
        stream.write(rows, TaskId("job", 2, 0, in_turn=False), named=False)
    more = rows_of((2, 3))
    assert stream.write(more, TaskId("job", 9, 0, in_turn=False), named=False) == (3, 3)


@promise("`atomic` takes names in the source's order alone")
def test_rows_from_many_tasks_have_no_names_in_markers() -> None:
    stream = Memory()
    rows = rows_of(*((task, 1) for task in range(1, 80)))
    stream.write(rows, TASK, cuts=[30, 60])
    assert "runs" not in marker_of(stream)
    assert stream.write(rows, TASK, cuts=[30, 60]) == (79, 0)
    with pytest.raises(WriteError, match="79 rows are stored, and only 78 come|first 79 rows are not those"):
        stream.write(rows[1:], TASK, cuts=[30, 60])


@promise("An atomic batch has at most 999 rows, and 8 MiB of data unless one row has more.")
def test_batches_have_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of payloads, unless one row has more. Where they are cut does not matter when they come again."""
    monkeypatch.setattr(atomic_batches, "BATCH_ROWS", 999)
    large = [Row(f"{n}." + "x" * (BATCH_BYTES // 3), 1, n + 1) for n in range(7)]
    rows = [*large, Row("y" * (BATCH_BYTES + 9), 1, 90), *rows_of((2, 3))]
    stream, sizes = Memory(), []
    publish = stream.publish_batch

    def counted(messages: Sequence[Any]) -> Any:
        sizes.append([len(message[1]) for message in messages[:-1]])
        return publish(messages)

    monkeypatch.setattr(stream, "publish_batch", counted)
    stream.write(rows, TASK, cuts=[2, 9])
    assert [len(each) for each in sizes] == [2, 2, 2, 1, 1, 3]
    assert all(sum(each) <= BATCH_BYTES or len(each) == 1 for each in sizes)
    monkeypatch.setattr(atomic_batches, "BATCH_BYTES", 4 * BATCH_BYTES)
    assert stream.write(rows, TASK, named=False) == (11, 0)
