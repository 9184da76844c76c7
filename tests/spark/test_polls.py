"""How often an idle query asks for its streams, and what a micro-batch of many streams costs. Time is an argument."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.grammar.position import StreamPosition
from jsproto.rules import position as rules
from jsproto_io.sync import JetStream
from pyspark_jetstream import JetStreamDataSource, _for_session, planning
from pyspark_jetstream import source as reading
from pyspark_jetstream.offsets import SplitPlan, decode_offset
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.planning import DataLossError, Range, grouped, split
from tests.marks import promise
from tests.spark.conftest import Made, fill
from tests.spark.test_tasks import COLUMNS, read

pytestmark = pytest.mark.spark


class Clock:
    """Seconds that pass when somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.asked: list[tuple[float, str]] = []
        stream_info = CoreJetStream.stream_info

        def counted(core: CoreJetStream, stream: str, **options: Any) -> Any:
            self.asked.append((self.now, stream))
            return stream_info(core, stream, **options)

        monkeypatch.setattr(reading, "monotonic", lambda: self.now)
        monkeypatch.setattr(reading, "sleep", self.wait)
        monkeypatch.setattr(CoreJetStream, "stream_info", counted)
        monkeypatch.setattr(reading, "LAST_PAUSE", 1.0)

    def wait(self, seconds: float) -> None:
        self.now += seconds


@promise("A query with nothing new looks at its streams once a second")
def test_an_idle_query_asks_once_a_second(
    js: JetStream, stream: Made, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all of its streams at once. What it answers is of the moment at which it does."""
    names = [stream(3) for _ in range(3)]
    reader = source(",".join(names), startingOffsets="earliest").streamReader(COLUMNS)
    start = reader.initialOffset()
    offset = reader.latestOffset(start, None)
    clock = Clock(monkeypatch)
    polls = 0
    while clock.now < 1_020:
        assert reader.latestOffset(offset, None) == offset
        clock.now += 0.01  # as Spark does
        polls += 1
    rounds = sorted({now for now, _ in clock.asked})
    assert len(clock.asked) == 3 * len(rounds)
    assert polls == len(rounds) <= 20 + 7
    assert all(later - before >= 1 for before, later in pairwise(rounds[7:]))
    fill(js, names[1], 4, 4)
    end = reader.latestOffset(offset, None)
    assert end != offset
    clock.asked.clear()
    assert read(reader, reader.partitions(offset, end)) == [4]
    assert {name for _, name in clock.asked} == {names[1]}  # the others have nothing to plan
    before = clock.now
    assert reader.latestOffset(end, None) == end
    assert clock.now == before
    reader.stop()


@promise("tasks of all streams together, at least")
def test_many_short_streams_are_few_tasks(js: JetStream, stream: Made, source: Any) -> None:
    """Ten rows of each of 200 streams: as many tasks as 64 ranges of one allow, and each row is read once."""
    names = [stream(storage="memory") for _ in range(200)]
    for name in names:
        js.publish_batch([(f"{name}.x", b"%d" % n) for n in range(10)])
    options = {"minPartitions": 2, "startingOffsets": "earliest"}
    reader = source(",".join(names), **options).reader(COLUMNS)
    partitions = reader.partitions()
    assert [1 + len(each.others) for each in partitions] == [64, 64, 64, 8]
    assert read(reader, partitions) == [*range(10)] * 200
    query = source(",".join(names), **options, maxOffsetsPerTrigger=1_000).streamReader(COLUMNS)
    start = query.initialOffset()
    end = query.latestOffset(start, SimpleNamespace(max_rows=1_000))
    tasks = query.partitions(start, end)
    assert [1 + len(each.others) for each in tasks] == [64, 64, 64, 8]
    assert sorted(read(query, tasks)) == sorted([*range(5)] * 200)
    del end["all"]  # as a checkpoint of an older release, whose micro-batch comes again
    assert len(query.partitions(start, end)) == 400
    query.stop()


def test_streams_of_unequal_length() -> None:
    def spans(tasks: list[list[Range]]) -> list[list[int]]:
        return [[each.hi - each.lo for each in task] for task in tasks]

    def tasks(lengths: list[int], least: int, most: int, in_all: bool = True) -> list[list[int]]:
        wholes = [Range(5, 5 + length, StreamPosition(f"S{n}", 9)) for n, length in enumerate(lengths)]
        whole = SplitPlan(least, most, in_all)
        return spans(grouped([piece for pieces in split(wholes, whole) for piece in pieces], whole))

    assert tasks([100, 1, 1, 98], 2, 1_000) == [[100], [1, 1, 98]]
    assert tasks([100, 0, 1, 1], 2, 30) == [[25], [25], [25], [25, 1, 1]]
    assert tasks([10, 10, 10], 1, 20) == [[10, 10], [10]]
    assert tasks([10, 10, 10], 6, 1_000) == [[5], [5], [5], [5], [5], [5]]
    assert tasks([7, 6], 2, 1_000) == [[3], [4], [6]]
    assert tasks([1, 1, 1, 1], 3, 1_000) == [[1], [1], [1], [1]]
    assert tasks([1, 1, 1, 1], 2, 1_000) == [[1, 1], [1, 1]]
    assert tasks([2, 2], 2, 1_000, in_all=False) == [[1], [1], [1], [1]]
    assert tasks([0], 2, 9) == []


def test_tasks_for_the_cores_of_a_session(source: Any) -> None:
    """As ``register`` has seen them, wherever a read is planned."""
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=48))
    for_session: Any = _for_session
    pickle: Any = cloudpickle
    kind = pickle.loads(pickle.dumps(for_session(session)))
    registered = pickle.loads(pickle.dumps(kind({"servers": "nats://x", "stream": "S"})))
    assert isinstance(registered, JetStreamDataSource)
    assert registered.name() == "jetstream"
    reader: Any = registered.reader(COLUMNS)
    assert reader.split_plan.min_partitions == 48

    class Remote:
        @property
        def sparkContext(self) -> Any:
            raise PySparkException("no")

    assert for_session(Remote()) is JetStreamDataSource


@promise("A query looks for new ones while it runs")
def test_streams_are_found_while_a_query_runs(js: JetStream, stream: Made, source: Any) -> None:
    """A new one is read from its first message on. One that is gone is a loss."""
    first = stream(5)
    pattern = first.removesuffix("0") + "[0-9]"
    options = {"streamPattern": pattern, "startingOffsets": "earliest", "minPartitions": 1}
    reader = source("", **options).streamReader(COLUMNS)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert read(reader, reader.partitions(start, end)) == [1, 2, 3, 4, 5]
    other = stream(3)
    js.create_stream(f"{first}x", subjects=["unmatched"], allow_direct=True)
    try:
        following = reader.latestOffset(end, None)
        assert decode_offset(following).keys() == {first, other}
        js.create_stream(f"{first[:-1]}9", subjects=["unread"])
        with pytest.raises(OptionError, match=f"stream {first[:-1]}9 does not answer Direct Gets"):
            reader.latestOffset(end, None)
    finally:
        js.delete_stream(f"{first}x")
        js.delete_stream(f"{first[:-1]}9")
    assert read(reader, reader.partitions(end, following)) == [1, 2, 3]
    assert read(reader, reader.partitions(end, following)) == [1, 2, 3]
    batch = source("", streamPattern=pattern).reader(COLUMNS)
    assert sorted(read(batch, batch.partitions())) == [1, 1, 2, 2, 3, 3, 4, 5]
    config = js.stream_info(other).config
    js.delete_stream(other)
    with pytest.raises(DataLossError, match=f"stream {other} is gone, or does not match streamPattern any more; set"):
        reader.latestOffset(following, None)
    lenient = source("", failOnDataLoss=False, **options).streamReader(COLUMNS)
    fill(js, first, 6, 6)
    with pytest.warns(UserWarning, match=f"stream {other} is gone"):
        last = lenient.latestOffset(following, None)
    assert read(lenient, lenient.partitions(following, last)) == [6]
    js.create_stream(config.name, subjects=config.subjects, allow_direct=True)
    nothing = source("", streamPattern="none").reader(COLUMNS)
    assert read(nothing, nothing.partitions()) == []
    idle = source("", streamPattern="none").streamReader(COLUMNS)
    none = idle.initialOffset()
    assert idle.latestOffset(none, None) == none
    for each in (reader, lenient, idle):
        each.stop()


@pytest.fixture
def two_streams(js: JetStream, stream: Made) -> tuple[str, str]:
    return stream(5), stream(5)


def options_for(kind: str, streams: tuple[str, str], **options: Any) -> tuple[str, dict[str, Any]]:
    options |= {"startingOffsets": "earliest", "minPartitions": 1}
    if kind == "named":
        return ",".join(streams), options
    return "", {"streamPattern": streams[0].removesuffix("0") + "[0-9]", **options}


@promise("One answer proves no loss, because a leader that was replaced may tell its past.")
@pytest.mark.parametrize("kind", ["named", "pattern"])
def test_one_answer_does_not_end_a_query(
    js: JetStream, two_streams: tuple[str, str], source: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A list lacks a stream, or a state is missing once. A stream that is gone stays so."""
    one, other = two_streams
    name, options = options_for(kind, two_streams)
    readable, missing = planning._readable, list[str]()

    def forgetful(stream: str, *arguments: Any) -> Any:
        found = readable(stream, *arguments)
        if stream not in missing:
            return found
        missing.remove(stream)
        return None

    monkeypatch.setattr(planning, "_readable", forgetful)
    reader = source(name, **options).streamReader(COLUMNS)
    start = reader.initialOffset()
    missing.append(other)
    end = reader.latestOffset(start, None)
    missing.append(other)
    tasks = reader.partitions(start, end)
    missing.append(other)
    assert read(reader, tasks) == [1, 2, 3, 4, 5] * 2
    assert not missing
    with monkeypatch.context() as patch:
        patch.setattr(JetStream, "stream_names", lambda _: [one])
        assert reader.latestOffset(end, None) == end
        reader.prepareForTriggerAvailableNow()
        fill(js, one, 6, 6)
        assert reader.latestOffset(end, None) == end
    pauses: list[float] = []
    monkeypatch.setattr(planning, "sleep", pauses.append)
    js.delete_stream(other)
    with pytest.raises(DataLossError, match=f"stream {other} is gone"):
        reader.latestOffset(end, None)
    with pytest.raises(DataLossError, match=f"stream {other} is gone"):
        reader.partitions(start, end)
    with pytest.raises(DataLossError, match=f"stream {other} is gone"):
        read(reader, tasks)
    assert pauses == [rules.ELECTION] * 3
    reader.stop()
    js.create_stream(other)


def test_a_stream_that_has_left_the_offset_is_told(two_streams: tuple[str, str], source: Any) -> None:
    """As before Spark 4.2, where a query that begins again says its end without its offset."""
    one, other = two_streams
    name, options = options_for("pattern", two_streams)
    reader = source(name, **options).streamReader(COLUMNS)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    shorter = {**end, "streams": {one: end["streams"][one]}}
    with pytest.raises(DataLossError, match=f"stream {other} is gone"):
        reader.partitions(end, shorter)
    reader.stop()


@promise("`failOnDataLoss=false` goes on with what is there.")
@pytest.mark.parametrize("kind", ["named", "pattern"])
def test_a_query_goes_on_without_a_stream(
    js: JetStream, two_streams: tuple[str, str], source: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It says so once. One that is made anew is a new one. At its start a stream that it names must be there."""
    one, other = two_streams
    name, options = options_for(kind, two_streams, failOnDataLoss=False, subject="*.1")
    reader = source(name, **options).streamReader(COLUMNS)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    tasks = reader.partitions(start, end)
    config = js.stream_info(other).config
    js.delete_stream(other)
    with pytest.warns(UserWarning, match=f"stream {other} is gone"):
        assert read(reader, reader.partitions(start, end)) == [1]
    with pytest.warns(UserWarning, match=f"stream {other} is gone"):
        assert read(reader, tasks) == [1]
    fill(js, one, 6, 6)
    with pytest.warns(UserWarning, match=f"stream {other} is gone"):
        following = reader.latestOffset(end, None)
    assert decode_offset(following)[other] == decode_offset(end)[other]
    assert read(reader, reader.partitions(end, following)) == []
    pauses: list[float] = []
    monkeypatch.setattr(planning, "sleep", pauses.append)
    assert reader.latestOffset(following, None) == following
    assert pauses == []
    if kind == "named":
        later = source(name, **options).streamReader(COLUMNS)
        with pytest.raises(OptionError, match=f"there is no stream {other}"):
            later.prepareForTriggerAvailableNow()
        with pytest.raises(OptionError, match=f"there is no stream {other}"):
            later.latestOffset(following, None)
        later.stop()
    js.create_stream(config.name, subjects=config.subjects, allow_direct=True, allow_batched=True)
    fill(js, other, 1, 2)
    with pytest.warns(UserWarning, match=f"stream {other} was made anew"):
        last = reader.latestOffset(following, None)
    assert read(reader, reader.partitions(following, last)) == [1]
    reader.stop()


@pytest.mark.parametrize("kind", ["named", "pattern", "alone"])
def test_a_stream_that_was_away_goes_on_where_it_was(
    js: JetStream, two_streams: tuple[str, str], source: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It is restored, or its disk came later. No row comes twice, and none of it is left out."""
    one, other = two_streams
    name, options = options_for("named" if kind == "alone" else kind, two_streams, failOnDataLoss=False)
    reader = source(other if kind == "alone" else name, **options).streamReader(COLUMNS)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    readable = planning._readable
    pauses: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(planning, "sleep", pauses.append)
        patch.setattr(planning, "_readable", lambda stream, *more: None if stream == other else readable(stream, *more))
        fill(js, one, 6, 6)
        fill(js, other, 6, 6)
        with pytest.warns(UserWarning, match=f"stream {other} is gone"):
            away = reader.latestOffset(end, None)
        assert read(reader, reader.partitions(end, away)) == ([] if kind == "alone" else [6])
        assert reader.latestOffset(away, None) == away
    assert pauses == [rules.ELECTION]
    back = reader.latestOffset(away, None)
    assert read(reader, reader.partitions(away, back)) == [6]
    reader.stop()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 12), st.integers(1, 60))
def test_tasks_are_neither_few_nor_long(lengths: list[int], least: int, most: int) -> None:
    plan = SplitPlan(least, most, in_all=True)
    wholes = [Range(1, 1 + length, StreamPosition(f"S{n}", 9)) for n, length in enumerate(lengths)]
    found = grouped([piece for pieces in split(wholes, plan) for piece in pieces], plan)
    assert len(found) >= min(least, sum(lengths))
    for task in found:
        assert sum(each.hi - each.lo for each in task) <= most
        assert len({each.stream for each in task}) == len(task)
