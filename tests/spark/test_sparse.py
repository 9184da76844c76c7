"""Filters that take few messages, and streams with holes: what is asked for, what counts, and what is passed over."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto_io.sync import JetStream
from pyspark_jetstream import sparse
from pyspark_jetstream.offsets import SplitPlan, decode_offset
from pyspark_jetstream.sparse import NOTHING, Ahead, reach
from tests.marks import promise
from tests.spark.conftest import Made, fill
from tests.spark.test_tasks import COLUMNS, read

pytestmark = pytest.mark.spark


class Asked:
    """How often a verb was called, and for how many messages Direct Gets of a task asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verbs = Counter[str]()
        self.batches: list[int] = []
        for kind, name in ((JetStream, "get_batch"), (JetStream, "get_msg"), (CoreJetStream, "stream_info")):
            monkeypatch.setattr(kind, name, self._counting(name, getattr(kind, name)))

    def _counting(self, name: str, verb: Any) -> Any:
        def counted(js: Any, *arguments: Any, **options: Any) -> Any:
            self.verbs[name] += 1
            if options.get("batch", 1) > 1:
                self.batches.append(options["batch"])
            return verb(js, *arguments, **options)

        return counted

    def since(self) -> dict[str, int]:
        found = dict(self.verbs)
        self.verbs.clear()
        return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


@pytest.fixture
def sparse_stream(js: JetStream, stream: Made) -> tuple[str, list[int]]:
    """Messages of which one in fifty is on ``NAME.wanted``: the data of those."""
    name = stream()
    with js.fast_publisher() as batch:
        batch.publish_many((f"{name}.{'wanted' if n % 50 == 0 else n % 7}", b"%d" % n) for n in range(1, 2_001))
        batch.commit()
    return name, [*range(50, 2_001, 50)]


def test_a_task_asks_for_no_more_than_it_has(sparse_stream: Any, source: Any, asked: Asked) -> None:
    """A question for each edge when it is planned, and one for the whole, which has no second edge."""
    name, wanted = sparse_stream
    reader = source(name, subject=f"{name}.wanted", minPartitions=8).reader(COLUMNS)
    partitions = reader.partitions()
    assert asked.since() == {"stream_info": 1, "get_batch": 1 + 8}
    assert [each.wanted.matches for each in partitions] == [5] * 8
    assert read(reader, partitions) == wanted
    assert asked.batches == [6] * 8
    assert asked.since() == {"stream_info": 8, "get_batch": 8}


def test_what_has_nothing_is_not_read(js: JetStream, stream: Made, source: Any, asked: Asked) -> None:
    name = stream(1_000)
    js.publish(f"{name}.wanted", b"1001")
    fill(js, name, 1_002, 2_000)
    reader = source(name, subject=f"{name}.wanted", minPartitions=20).reader(COLUMNS)
    asked.since()
    partitions = reader.partitions()
    assert asked.since() == {"stream_info": 1, "get_batch": 3, "get_msg": 2}  # the leader says what is nowhere
    assert [(each.wanted.lo, each.wanted.first, each.wanted.hi) for each in partitions if each.wanted.matches] == [
        (1_001, 1_001, 1_101)
    ]
    assert read(reader, partitions) == [1_001]
    assert asked.since() == {"stream_info": 1, "get_batch": 1, "get_msg": 1}  # and nothing after it


def test_a_stream_with_holes(js: JetStream, stream: Made, source: Any, asked: Asked) -> None:
    """Of the first message on, most have been overwritten, and many of the others deleted."""
    name = stream(max_msgs_per_subject=5)
    js.publish(f"{name}.first", b"1")
    fill(js, name, 2, 2_000)
    for seq in range(1_953, 1_990):
        js.delete_msg(name, seq)
    reader = source(name, minPartitions=40).reader(COLUMNS)
    partitions = reader.partitions()
    assert [each.wanted.matches for each in partitions if each.wanted.matches] == [1, 13]
    asked.batches.clear()
    assert read(reader, partitions) == [1, 1_951, 1_952, *range(1_990, 2_001)]
    assert asked.batches == [2, 14]


@promise("limits count the messages that match")
@pytest.mark.parametrize("subject", ["wanted", "*.wanted", "*"])
def test_a_limit_counts_what_matches(js: JetStream, stream: Made, source: Any, subject: str) -> None:
    name = stream()
    with js.fast_publisher() as batch:
        batch.publish_many((f"{name}.a.{'wanted' if n % 50 == 0 else n % 7}", b"%d" % n) for n in range(1, 2_001))
        batch.commit()
    pattern = f"{name}.a.wanted" if subject == "wanted" else f"{name}.{subject}"
    wanted = [*range(50, 2_001, 50)] if subject != "*" else []
    options = {"subject": pattern, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 10, "minPartitions": 2}
    reader = source(name, **options).streamReader(COLUMNS)
    offset = reader.initialOffset()
    found: list[int] = []
    sizes: list[int] = []
    while decode_offset(offset)[name].seq < 2_000 and len(sizes) < 50:
        end = reader.latestOffset(offset, SimpleNamespace(max_rows=10))
        if end == offset:
            break
        rows = read(reader, reader.partitions(offset, end))
        offset, found = end, found + rows
        sizes.append(len(rows))
    reader.stop()
    assert found == wanted
    if wanted:
        assert all(8 <= size <= 10 for size in sizes[:-1])
        assert len(sizes) <= 6


@promise("limits count the messages that match `subject`")
@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize(
    ("limit", "parts"),
    [({"maxOffsetsPerTrigger": 5}, 2), ({"maxBytesPerTrigger": 500}, 2), ({"minOffsetsPerTrigger": 12}, 0)],
)
def test_a_limit_counts_what_is_there(
    js: JetStream, stream: Made, source: Any, asked: Asked, limit: dict[str, int], parts: int, first: int
) -> None:
    """One old key (or none), one that was overwritten 3,000 times, nine others. A full stream asks for no counts."""
    name, full = stream(max_msgs_per_subject=1), stream(100)
    with js.fast_publisher() as batch:
        batch.publish_many((f"{name}.{first if n == 1 else 0 if n < 3_000 else n}", b"%d" % n) for n in range(1, 3_009))
        batch.commit()
    reader = source(name, startingOffsets="earliest", minPartitions=1, **limit).streamReader(COLUMNS)
    offset = reader.initialOffset()
    sizes: list[int] = []
    asked.since()
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        assert asked.since().get("get_batch", 0) <= 1 + sparse.PROBES
        sizes.append(len(read(reader, reader.partitions(offset, end))))
        offset = end
        asked.since()
    reader.stop()
    assert sum(sizes) == (10 + first if parts else 0)
    assert parts <= len(sizes) <= parts + 1
    reader = source(full, startingOffsets="earliest", **limit).streamReader(COLUMNS)
    offset = reader.initialOffset()
    asked.since()
    assert reader.latestOffset(offset, reader.getDefaultReadLimit()) != offset
    assert asked.since() == {"stream_info": 1, **({"get_msg": 1} if parts else {})}  # its witness
    reader.stop()


@promise("messages for which a micro-batch waits")
@pytest.mark.parametrize("subject", ["3", "*"])
def test_a_micro_batch_waits_for_what_matches(
    js: JetStream, stream: Made, source: Any, monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    """A tenth of the sequences do, or all of them."""
    name = stream(100)
    reader = source(
        name, subject=f"{name}.{subject}", startingOffsets="earliest", minOffsetsPerTrigger=12
    ).streamReader(COLUMNS)
    start = reader.initialOffset()
    assert (reader.latestOffset(start, None) == start) == (subject == "3")
    fill(js, name, 101, 120)
    assert decode_offset(reader.latestOffset(start, None))[name].seq == 120
    reader.stop()


@promise("It moves its offset once a minute")
@pytest.mark.parametrize("options", [{}, {"minOffsetsPerTrigger": 10}])
def test_an_offset_is_ahead_of_retention(js: JetStream, stream: Made, source: Any, options: dict[str, int]) -> None:
    """A stream that turns over keeps 100 messages, and the first one that matches comes after 400."""
    name = stream(max_msgs=100)
    reader = source(name, subject=f"{name}.rare", startingOffsets="earliest", **options).streamReader(COLUMNS)
    offset = reader.initialOffset()
    moves = []
    for first in range(1, 400, 40):
        fill(js, name, first, first + 39)
        end = reader.latestOffset(offset, None)
        if end != offset:
            (only,) = reader.partitions(offset, end)
            assert only.wanted.first == only.wanted.hi
            moves.append(first + 39)
        offset = end
    assert moves == [40, 120, 200, 280, 360]
    js.publish_batch([(f"{name}.rare", b"%d" % n) for n in range(401, 411)])
    end = reader.latestOffset(offset, None)
    assert read(reader, reader.partitions(offset, end)) == [*range(401, 411)]
    reader.stop()


def test_nothing_that_matches_is_one_task(js: JetStream, stream: Made, source: Any, monkeypatch: Any) -> None:
    """As an idle query moves, once a minute, however small its limit."""
    name = stream(300)
    monkeypatch.setattr("pyspark_jetstream.source.IDLE_OFFSET_MOVES", 0.0)
    reader = source(name, subject="none", startingOffsets="earliest", maxOffsetsPerTrigger=10).streamReader(COLUMNS)
    start = reader.initialOffset()
    end = reader.latestOffset(start, SimpleNamespace(max_rows=10))
    assert decode_offset(end)[name].seq == 300
    (only,) = reader.partitions(start, end)
    assert only.wanted.first == only.wanted.hi
    reader.stop()


@pytest.mark.parametrize("told", [NOTHING, Ahead(1, 1), Ahead(1, 10**6)])
def test_a_replica_that_miscounts(
    sparse_stream: Any, source: Any, monkeypatch: pytest.MonkeyPatch, told: Ahead
) -> None:
    """What is read follows from the range alone."""
    name, wanted = sparse_stream
    monkeypatch.setattr(sparse, "look_ahead", lambda *_: told)
    monkeypatch.setattr("pyspark_jetstream.source.look_ahead", lambda *_: told)
    options = {"subject": f"{name}.wanted", "minPartitions": 4, "startingOffsets": "earliest"}
    reader = source(name, **options).reader(COLUMNS)
    assert read(reader, reader.partitions()) == wanted
    stream = source(name, **options, maxOffsetsPerTrigger=7).streamReader(COLUMNS)
    offset = stream.initialOffset()
    found: list[int] = []
    for _ in range(400):
        end = stream.latestOffset(offset, SimpleNamespace(max_rows=7))
        if end == offset:
            break
        found += read(stream, stream.partitions(offset, end))
        offset = end
    stream.stop()
    assert found == wanted


@given(st.sets(st.integers(1, 3_000), min_size=1), st.integers(1, 3_000), st.integers(1, 400))
def test_where_so_many_match(seqs: set[int], begin: int, most: int) -> None:
    """One at least, and never more than there may be. Nearly as many, where that is found by a few questions."""
    matching = sorted(seqs)
    questions: list[int] = []

    def look(_: Any, __: Any, ___: str, seq: int) -> Ahead:
        questions.append(seq)
        at = bisect_left(matching, seq)
        return Ahead(matching[at], len(matching) - at) if at < len(matching) else NOTHING

    first = look(None, None, "", begin)
    if first.matches <= most:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "look_ahead", look)
        end = reach(None, None, "s", 3_001, first, most)  # type: ignore[arg-type]
    inside = len([seq for seq in matching if begin <= seq < end])
    assert 1 <= inside <= most
    assert len(questions) <= 1 + sparse.PROBES


def test_an_end_is_within_what_was_asked_for() -> None:
    """Though the replica that counted had a message after it alone."""
    nothing_asked: Any = None
    assert reach(nothing_asked, nothing_asked, None, 10, Ahead(20, 5), 1) == 10


def test_tasks_by_what_matches() -> None:
    plan = SplitPlan(4, 100)
    assert plan.among(1_000, 1_000) == plan
    assert plan.among(100_000, 1_000) == SplitPlan(4, 10_000)
    assert plan.among(100_000, 0) == SplitPlan(1, 100_000)
