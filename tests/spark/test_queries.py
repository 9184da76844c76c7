"""Helpers for programs around queries: micro-batches that are stored once, and the lag."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jsproto.grammar.position import StreamPosition
from jsproto.grammar.times import format_timestamp
from jsproto_io.sync import JetStream
from pyspark_jetstream.offsets import decode_offset, encode_offset
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import read_options
from pyspark_jetstream.queries import Lag, LagListener, lag_of, store_once
from pyspark_jetstream.source import HAS_LIMITS
from tests.marks import promise
from tests.spark.conftest import Made, data_of, started
from tests.spark.test_tasks import COLUMNS, read

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer

pytestmark = pytest.mark.spark


def offset(**seqs: int) -> dict[str, Any]:
    return encode_offset({name: StreamPosition(name, seq) for name, seq in seqs.items()})


def test_the_lag_of_a_progress() -> None:
    both = {"latestOffset": offset(A=100, B=50, NEW=7), "endOffset": json.dumps(offset(A=90, B=60))}
    others = [{"latestOffset": '{"topic": {"0": 5}}', "endOffset": None}, {"latestOffset": "x"}, {}]
    assert lag_of({"sources": [*others, both]}) == Lag(0, 10, 17 / 3, {"A": 10, "B": 0, "NEW": 7})
    behind = {"latestOffset": offset(A=100), "endOffset": offset(A=20)}
    for sources in ([behind, both], [both, behind]):
        lag = lag_of({"sources": sources})
        assert lag is not None
        assert lag.streams == {"A": 80, "B": 0, "NEW": 7}
    assert lag_of({"sources": others}) is None
    assert lag_of({}) is None


def test_a_listener_tells() -> None:
    told: list[Any] = []
    listener = LagListener(lambda name, lag: told.append((name, lag.most)))
    text = json.dumps({"sources": [{"latestOffset": offset(A=9), "endOffset": offset(A=4)}]})
    for name, expected in (("q", "q"), (None, "id")):
        listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=text, name=name, id="id")))
        assert told.pop() == (expected, 5)
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json="{}", name="q", id="id")))
    for silent in (listener.onQueryStarted, listener.onQueryIdle, listener.onQueryTerminated):
        silent(None)
    assert told == []


@promise("stores each micro-batch once, however often it comes again")
def test_micro_batches_are_stored_once(
    spark: SparkSession, server: NatsServer, js: JetStream, stream: Made, tmp_path: Path
) -> None:
    """As after a driver that died before Spark had noted that it was done."""
    origin, target = stream(100), stream()
    options = {"servers": server.url, "stream": target, "markerSubject": target}

    def transform(rows: DataFrame) -> DataFrame:
        return rows.selectExpr(f"concat('{target}.', seq % 3) subject", "data", "origin")

    store = store_once("orders", transform, **options)

    def twice(rows: DataFrame, batch: int) -> None:
        store(rows, batch)
        store(rows, batch)

    source = spark.readStream.format("jetstream").options(servers=server.url, startingOffsets="earliest")
    rows = source.options(includeOrigin="true", maxOffsetsPerTrigger="60").load(origin)
    writer = rows.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path))
    query = started(writer.trigger(availableNow=True))
    query.awaitTermination()
    assert query.exception() is None
    assert data_of(js, target) == Counter(range(1, 101))
    lags = [lag_of(progress) for progress in query.recentProgress]
    if HAS_LIMITS:
        assert [lag and lag.streams for lag in lags[:2]] == [{origin: 40}, {origin: 0}]


@promise("where a stream has no message from that time on")
def test_a_time_for_each_stream(js: JetStream, stream: Made, source: Any) -> None:
    """A stream without one begins as by default. A time that is to come is the end, or an error."""
    old, new = stream(10), stream(10)
    since = js.get_msg(old, 6).timestamp
    times = json.dumps({old: format_timestamp(since)})
    reader = source(f"{old},{new}", startingTimestamp=times, minPartitions=1).reader(COLUMNS)
    assert sorted(read(reader, reader.partitions())) == sorted([*range(6, 11), *range(1, 11)])
    millis = json.dumps({old: since // 10**6, new: 4_102_444_800_000})
    reader = source(f"{old},{new}", endingTimestamp=json.dumps({old: format_timestamp(since)})).reader(COLUMNS)
    assert sorted(read(reader, reader.partitions())) == sorted([*range(1, 6), *range(1, 11)])
    query = source(f"{old},{new}", startingTimestamp=millis).streamReader(COLUMNS)
    assert decode_offset(query.initialOffset())[new].seq == 10
    query.stop()
    for kind in ("reader", "streamReader"):
        strict = getattr(source(f"{old},{new}", startingTimestamp=millis, startingTimestampStrategy="error"), kind)(
            COLUMNS
        )
        begin = strict.partitions if kind == "reader" else strict.initialOffset
        with pytest.raises(OptionError, match=f"stream {new} has no message from 2100-01-01T00:00:00Z on, which is st"):
            begin()
        if kind == "streamReader":
            strict.stop()


@pytest.mark.parametrize("times", ['{"T": 1}', "{}", '{"S": "noon"}', "{", '{"S": -1}', '{"S": [1]}'])
def test_times_that_cannot_be(times: str) -> None:
    with pytest.raises(OptionError, match="option startingTimestamp (cannot be|names 'T', which is not read)"):
        read_options({"servers": "nats://a", "stream": "S", "startingTimestamp": times})
