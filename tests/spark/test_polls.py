"""How often an idle query asks for its streams, and what a micro-batch of many streams costs. Time is an argument."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto_io.sync import JetStream
from pyspark_jetstream import source as reading
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
