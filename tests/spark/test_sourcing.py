"""A read that empties a work queue, as Spark calls it, without Spark: what is acknowledged, and when.

Not here: queries of a Spark (``test_sourcing_queries``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jsproto import ConsumerConfig, sourcing_consumer
from jsproto.errors import LocalProtocolError, SourceBusyError, SourcePositionError, SourceScheduleError
from pyspark_jetstream import JetStreamDataSource, work_queue
from pyspark_jetstream.offsets import SplitPlan, Task
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.planning import DataLossError
from pyspark_jetstream.source import HAS_LIMITS
from pyspark_jetstream.work_queue import StalledConsumerError, split_messages
from tests.marks import promise
from tests.servers import recreate_stream
from tests.spark.conftest import Made, fill
from tests.spark.test_tasks import COLUMNS, read

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import Connection, JetStream

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not HAS_LIMITS, reason="before 4.2 Spark does not say what it has committed"),
]
C = "C"
CRASHES = int(os.environ.get("CRASHES", "4"))
WINDOW = 50  # messages that a consumer of these tests delivers without an answer
Drained = Callable[..., Any]


@pytest.fixture
def draining(source: Any) -> Iterator[Drained]:
    """``draining(stream, **options)`` makes a reader, which ends with the test."""
    made: list[Any] = []

    def make(stream: str, **options: Any) -> Any:
        made.append(source(stream, readMode="sourcing", consumer=C, **options).streamReader(COLUMNS))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def queue_of(stream: Made, rows: int = 0, **config: Any) -> str:
    return stream(rows, **{"retention": "workqueue", **config})


def consume(js: JetStream, name: str, **options: Any) -> None:
    """Make the consumer, with a small window."""
    js.create_consumer(name, sourcing_consumer(C, f"to.{name}", **{"max_ack_pending": WINDOW, **options}))


def left_in(js: JetStream, name: str) -> int:
    return js.stream_info(name).state.messages


def delivered(reader: Any, start: Any, last: int = 1, limit: Any = None) -> Any:
    """The end of the next micro-batch, once it would have message ``last``."""
    while True:
        end = reader.latestOffset(start, limit)
        (position,) = end["streams"].values()
        if position["seq"] > last and end != start:
            return end


def micro_batch(reader: Any, start: Any, last: int = 1) -> tuple[list[int], Any]:
    """The rows of the next micro-batch, and its end."""
    end = delivered(reader, start, last)
    return read(reader, reader.partitions(start, end)), end


def go_on(reader: Any, start: Any) -> None:
    """Micro-batches, one after the other."""
    while True:
        end = reader.latestOffset(start, None)
        if end != start:
            reader.partitions(start, end)
            reader.commit(end)
            start = end


@promise("A message schedule is no row.")
def test_a_schedule_is_no_row(js: JetStream, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, 3, allow_msg_schedules=True)
    js.publish(f"{name}.later", b"x", delay=3_600, target=f"{name}.due")
    left = left_in(js, name)
    reader = draining(name)
    with pytest.raises(SourceScheduleError, match="filter_subjects"):
        go_on(reader, reader.initialOffset())
    assert left_in(js, name) == left


def test_a_stream_that_came_back_shorter_under_the_driver(stream: Made, draining: Drained) -> None:
    reader = draining(queue_of(stream, 3))
    start = reader.initialOffset()
    micro_batch(reader, start, 3)
    reader._end._source._core.fail(SourcePositionError("S", 3, 2))
    with pytest.raises(DataLossError, match="came back shorter"):
        reader.latestOffset(start, None)


def end_of_run(reader: Any, start: Any) -> tuple[list[int], Any]:
    """What a run with AvailableNow reads, and its end. The last call is the one that finds nothing more."""
    reader.prepareForTriggerAvailableNow()
    rows: list[int] = []
    while (end := reader.latestOffset(start, None)) != start:
        rows += read(reader, reader.partitions(start, end))
        start = end
    return rows, end


@promise("A query without a checkpoint makes it if it is not there")
@promise("**Only what Spark has committed is acknowledged.** A task")
def test_only_what_is_committed_goes(js: JetStream, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, 100)
    reader = draining(name)
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    rows, end = micro_batch(reader, start, 100)
    assert rows == read(reader, reader.partitions(start, end)) == [*range(1, 101)]  # exactly, again
    fill(js, name, 101, 150)
    assert left_in(js, name) == 150
    rows, last = micro_batch(reader, end, 150)  # by which Spark has committed the first one
    assert rows == [*range(101, 151)]
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(end, SimpleNamespace(max_rows=10))["streams"][name]["seq"] == 111
    while left_in(js, name) != 50:
        pass
    reader.commit(last)
    while left_in(js, name):
        reader.commit(last)
    config = js.consumer_info(name, C).config
    assert (config.headers_only, config.max_ack_pending) == (True, 100_000)


@pytest.mark.parametrize("subject", ["", "{}.x"])
def test_what_is_there_is_in_the_next_offset(js: JetStream, stream: Made, draining: Drained, subject: str) -> None:
    """Spark takes an offset that stands still for the end of what there is (``processAllAvailable``)."""
    name = queue_of(stream)
    reader = draining(name, subject=subject.format(name))
    start = reader.initialOffset()
    assert reader.latestOffset(start, None) == start
    for _ in range(30):
        if subject:
            js.publish(f"{name}.other", b"1")
            assert reader.latestOffset(start, None) == start
        last = js.publish(f"{name}.x", b"1").seq
        start = reader.latestOffset(start, None)
        assert start["streams"][name]["seq"] == last + 1


@promise("Into the sink `atomic` each message is stored once.")
@promise("A query begins after what its consumer has acknowledged")
@promise("A micro-batch has no more messages than the consumer may have under way")
def test_a_run_empties_the_queue(js: JetStream, stream: Made, draining: Drained) -> None:
    """In micro-batches as large as the consumer's window, however large they may be."""
    name = queue_of(stream, 120)
    consume(js, name)
    reader = draining(name, maxOffsetsPerTrigger=1_000)
    assert reader.getDefaultReadLimit().max_rows == 1_000
    start = reader.initialOffset()
    first = delivered(reader, start)
    assert first["streams"][name]["seq"] <= WINDOW + 1
    rows, end = end_of_run(reader, start)
    assert rows == [*range(1, 121)]
    assert left_in(js, name) == 0
    fill(js, name, 121, 130)
    while not reader._end._source.pending_msgs:
        pass
    assert reader.latestOffset(end, None) == end  # came after the run began
    assert end_of_run(reader, end)[0] == [*range(121, 131)]
    assert left_in(js, name) == 0


class Crash(Exception):
    """The driver is gone."""


class Driver:
    """What Spark's driver does, and what survives it: two logs, and a sink that takes each micro-batch once."""

    def __init__(self, make: Callable[[], Any], random: Random) -> None:
        self._make = make
        self._random = random
        self.offsets: list[str] = []
        self.committed = 0
        self.sink: dict[int, list[int]] = {}
        self.crashes = 0

    def run(self, *, whole: bool) -> None:
        """One life. Unless it is ``whole`` it may end anywhere."""
        reader = self._make()
        die: Callable[[], None] = (lambda: None) if whole else self._may_die
        try:
            if len(self.offsets) > self.committed:
                self._do(reader, die)
            reader.prepareForTriggerAvailableNow()
            while True:
                start = self._end(reader, len(self.offsets))
                end = reader.latestOffset(start, None)
                die()
                if end == start:
                    return
                self.offsets.append(json.dumps(end))
                die()
                if self._random.random() < 0.5 and self.committed:
                    reader.commit(start)
                self._do(reader, die)
        except Crash:
            self.crashes += 1
        finally:
            reader._client.close()  # as when the process is killed: nothing is said to the server

    def _do(self, reader: Any, die: Callable[[], None]) -> None:
        batch = self.committed
        rows = read(reader, reader.partitions(self._end(reader, batch), json.loads(self.offsets[batch])))
        die()
        assert self.sink.setdefault(batch, rows) == rows
        die()
        self.committed += 1
        die()

    def _end(self, reader: Any, batch: int) -> Any:
        return json.loads(self.offsets[batch - 1]) if batch else reader.initialOffset()

    def _may_die(self) -> None:
        if self._random.random() < 0.15:
            raise Crash


@promise("**Only what Spark has committed is acknowledged.** A task")
@promise("What a query has committed last may stay in the stream when it is stopped.")
def test_a_driver_dies_anywhere(js: JetStream, stream: Made, draining: Drained) -> None:
    """Each row is in one micro-batch, a micro-batch that comes again is the same, and at the end nothing is left."""
    name = queue_of(stream)
    consume(js, name)
    random = Random(int(os.environ.get("SEED", "18")))
    driver = Driver(lambda: draining(name, minPartitions=random.randint(1, 3)), random)
    last = 0
    while driver.crashes < CRASHES:
        fill(js, name, last + 1, last := last + random.randint(1, 2 * WINDOW))
        driver.run(whole=False)
    driver.run(whole=True)
    assert [row for batch in sorted(driver.sink) for row in driver.sink[batch]] == [*range(1, last + 1)]
    assert left_in(js, name) == 0


@promise("**Only what Spark has committed is acknowledged.** A task")
def test_a_micro_batch_is_split_as_it_was(monkeypatch: pytest.MonkeyPatch, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, 100)
    first = draining(name, minPartitions=3)
    start = first.initialOffset()
    end = delivered(first, start, 100)
    planned = first.partitions(start, end)
    first.stop()
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    again = draining(name, maxRecordsPerPartition=10)
    assert again.partitions(start, json.loads(json.dumps(end))) == planned
    assert again.partitions(start, start) == []


@pytest.mark.parametrize(
    ("seqs", "parts", "most", "tasks"),
    [
        (range(5, 9), 2, 100, [(5, 7, 2), (7, 9, 2)]),
        ([1, 1_000_000, 1_000_001], 2, 100, [(1, 2, 1), (1_000_000, 1_000_002, 2)]),
        ([7], 4, 100, [(7, 8, 1)]),
        (range(1, 10), 1, 4, [(1, 4, 3), (4, 7, 3), (7, 10, 3)]),
    ],
)
def test_tasks_have_as_many_messages(seqs: Any, parts: int, most: int, tasks: list[Any]) -> None:
    assert split_messages(seqs, SplitPlan(parts, most)) == [Task(*task) for task in tasks]


# -- other consumers ---------------------------------------------------------------------------------------------------


@promise("A query begins after what its consumer has acknowledged")
@pytest.mark.parametrize("subject", ["{}.3", "{}.*.x", "{}.>"])
def test_a_filter_leaves_the_rest_to_others(js: JetStream, stream: Made, draining: Drained, subject: str) -> None:
    """Which work, and so leave holes, even before the first message."""
    name = queue_of(stream)
    js.create_consumer(name, ConsumerConfig(durable_name="others", ack_policy="explicit", filter_subject=f"{name}.1"))
    with js.fast_publisher() as batch:
        batch.publish_many((f"{name}.{end}", b"%d" % n) for n in range(40) for end in ("1", "3", "3.x"))
        batch.commit()
    pattern = subject.format(name)
    if pattern.endswith(">"):
        js.delete_consumer(name, "others")
    reader = draining(name, subject=pattern, minPartitions=3)
    start = reader.initialOffset()
    rows, end = micro_batch(reader, start)
    while js.consumer_info(name, C).num_pending:
        pass
    if not pattern.endswith(">"):
        with js.pull_subscribe(durable="others", stream=name) as others:
            for message in others.fetch(40, timeout=10):
                message.ack_sync()
    more, _ = end_of_run(reader, end)
    copies = 3 if pattern.endswith(">") else 1
    assert rows + more == [n for n in range(40) for _ in range(copies)]
    assert left_in(js, name) == (0 if copies == 3 else 40)


@promise("A message goes when both have acknowledged it.")
def test_a_queue_that_workers_share(js: JetStream, stream: Made, draining: Drained) -> None:
    """With ``sourcing`` both get every message, and it goes when both have acknowledged it."""
    name = queue_of(stream, 20)
    js.create_consumer(name, ConsumerConfig(durable_name="workers", ack_policy="explicit"))
    with pytest.raises(OptionError, match="has other consumers: make consumer C of it yourself, with sourcing=True"):
        draining(name).initialOffset()
    consume(js, name, sourcing=True)
    reader = draining(name)
    rows, _ = end_of_run(reader, reader.initialOffset())
    assert rows == [*range(1, 21)]
    assert left_in(js, name) == 20
    with js.pull_subscribe(durable="workers", stream=name) as workers:
        for message in workers.fetch(20, timeout=10):
            message.ack_sync()
    while left_in(js, name):
        pass


@promise("A message goes when both have acknowledged it.")
def test_an_interest_stream_waits_for_all(js: JetStream, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, retention="interest")
    js.create_consumer(name, ConsumerConfig(durable_name="other", ack_policy="explicit"))
    fill(js, name, 1, 10)
    reader = draining(name)
    start = reader.initialOffset()
    fill(js, name, 11, 20)
    assert end_of_run(reader, start)[0] == [*range(1, 21)]
    assert left_in(js, name) == 20
    js.delete_consumer(name, "other")
    while left_in(js, name):
        pass


@promise("A consumer has one query at a time.")
def test_one_query_at_a_time(js: JetStream, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, 10)
    first, second = draining(name), draining(name, requestTimeout="300ms")
    start = first.initialOffset()
    end = delivered(first, start, 10)
    for ask in (second.initialOffset, lambda: second.latestOffset(start, None), lambda: second.partitions(start, end)):
        with pytest.raises(SourceBusyError, match=f"consumer C of stream {name} is sourced from by another program"):
            ask()
    assert read(first, first.partitions(start, end)) == [*range(1, 11)]
    first.stop()
    third = draining(name)
    assert read(third, third.partitions(start, end)) == [*range(1, 11)]
    assert end_of_run(third, end) == ([], end)
    assert left_in(js, name) == 0


# -- loss --------------------------------------------------------------------------------------------------------------


@promise("Messages are counted: a task that finds fewer than the consumer delivered fails with `DataLossError`.")
def test_a_message_that_goes_before_it_is_read(nc: Connection, stream: Made, draining: Drained) -> None:
    """Of what was delivered each one counts, wherever it was. Here workers keep the others."""
    name = queue_of(stream, 100)
    consume(nc.jetstream(), name, sourcing=True, max_ack_pending=100)
    nc.jetstream().create_consumer(name, ConsumerConfig(durable_name="workers", ack_policy="explicit"))
    reader, lenient = draining(name, minPartitions=4), draining(name, failOnDataLoss=False)
    start = reader.initialOffset()
    planned = reader.partitions(start, delivered(reader, start, 100))
    nc.request(f"$JS.API.STREAM.MSG.DELETE.{name}", b'{"seq": 60}')
    text = f"stream {name}, sequences 51 to 75: 25 messages were delivered to the driver, and 24 are there"
    with pytest.raises(DataLossError, match=f"{text}; set failOnDataLoss to false"):
        read(reader, planned)
    with pytest.warns(UserWarning, match=text):
        assert read(lenient, planned) == [n for n in range(1, 101) if n != 60]


@promise("Messages are counted: a task that finds fewer than the consumer delivered fails with `DataLossError`.")
@promise("A server that drops a delivered message takes that for an acknowledgement")
def test_a_server_takes_a_deleted_message_for_all_before_it(nc: Connection, stream: Made, draining: Drained) -> None:
    """They go unread, and the query says so."""
    name = queue_of(stream, 100)
    reader = draining(name)
    start = reader.initialOffset()
    planned = reader.partitions(start, delivered(reader, start, 100))
    nc.request(f"$JS.API.STREAM.MSG.DELETE.{name}", b'{"seq": 60}')
    while left_in(nc.jetstream(), name) != 40:
        pass
    with pytest.raises(DataLossError, match=f"stream {name}: messages 1 to 60 are not in the stream any more; set"):
        read(reader, planned)


@promise("One that has acknowledged more than the checkpoint says ends the query with `DataLossError`.")
def test_a_purge_before_anything_was_delivered(nc: Connection, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, 10)
    js = nc.jetstream()
    reader = draining(name)
    rows, end = end_of_run(reader, reader.initialOffset())
    reader.stop()
    fill(js, name, 11, 30)
    nc.request(f"$JS.API.STREAM.PURGE.{name}", b'{"seq": 21}')
    with pytest.raises(DataLossError, match=f"stream {name} begins at sequence 21, but 11 was to be read next; set"):
        draining(name).latestOffset(end, None)
    lenient = draining(name, failOnDataLoss=False)
    with pytest.warns(UserWarning, match="but 11 was to be read next"):
        assert end_of_run(lenient, end)[0] == [*range(21, 31)]
    assert rows == [*range(1, 11)]


@promise("One that has acknowledged more than the checkpoint says ends the query with `DataLossError`.")
def test_another_checkpoint_of_the_same_consumer(js: JetStream, stream: Made, draining: Drained) -> None:
    """What one has acknowledged the other cannot read, where a filter lets the stream begin anywhere, too."""
    name = queue_of(stream, 100)
    subject = f"{name}.*"
    first = draining(name, subject=subject)
    start = first.initialOffset()
    end = delivered(first, start, 10, SimpleNamespace(max_rows=10))
    first.stop()
    second = draining(name, subject=subject)
    assert end_of_run(second, second.initialOffset())[0] == [*range(1, 101)]
    second.stop()
    fill(js, name, 101, 110)
    with pytest.raises(DataLossError, match=f"consumer C of stream {name} has acknowledged 100, but 11 was to be read"):
        draining(name, subject=subject).latestOffset(end, None)
    lenient = draining(name, subject=subject, failOnDataLoss=False)
    with pytest.warns(UserWarning, match="has acknowledged 100"):
        assert end_of_run(lenient, end)[0] == [*range(101, 111)]


@promise("A query without a checkpoint makes it if it is not there")
@promise("One that has acknowledged more than the checkpoint says ends the query with `DataLossError`.")
def test_a_consumer_that_is_gone(js: JetStream, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, retention="interest")
    subject = f"{name}.*"
    reader = draining(name, subject=subject)
    start = reader.initialOffset()
    fill(js, name, 1, 10)
    end = delivered(reader, start, 10)
    js.delete_consumer(name, C)
    fill(js, name, 11, 20)  # of which the stream keeps none
    with pytest.raises(DataLossError, match=f"consumer C of stream {name} is gone, and its stream may have dropped"):
        delivered(reader, end)
    reader.stop()
    lenient = draining(name, subject=subject, failOnDataLoss=False)
    with pytest.warns(UserWarning, match="consumer C of stream .* is gone"):
        assert lenient.latestOffset(end, None) == end
    fill(js, name, 21, 30)
    assert micro_batch(lenient, end, 30)[0] == [*range(21, 31)]


@promise("One that has acknowledged more than the checkpoint says ends the query with `DataLossError`.")
@pytest.mark.parametrize("is_made", [False, True], ids=["without its consumer", "with a consumer of that name"])
def test_a_stream_made_anew(js: JetStream, stream: Made, draining: Drained, *, is_made: bool) -> None:
    """While a query runs. Nothing of the new one is acknowledged before it is read."""
    name = queue_of(stream, 10)
    consume(js, name)
    reader, lenient = draining(name), draining(name, failOnDataLoss=False)
    start = reader.initialOffset()
    _, end = micro_batch(reader, start, 10)
    assert reader.latestOffset(end, None) == end
    recreate_stream(js, js.stream_info(name).config)
    if is_made:
        consume(js, name)
    fill(js, name, 101, 130)
    claimed = reader._end._source
    while is_made and not claimed.pending_msgs:  # of the new one
        pass
    with pytest.raises(DataLossError, match=f"stream {name} was made anew: the offset is of 2"):
        delivered(reader, end)
    assert claimed.position == (0 if is_made else 10)
    reader.stop()
    assert left_in(js, name) == 30
    with pytest.warns(UserWarning, match="was made anew"):
        assert read(lenient, lenient.partitions(start, end)) == []
    rows, last = micro_batch(lenient, end, 30)
    assert rows == [*range(101, 131)]
    assert end_of_run(lenient, last) == ([], last)
    assert left_in(js, name) == 0


@promise("One that has acknowledged more than the checkpoint says ends the query with `DataLossError`.")
def test_a_stream_made_anew_while_its_consumer_is_claimed(
    monkeypatch: pytest.MonkeyPatch, js: JetStream, stream: Made, draining: Drained
) -> None:
    name = queue_of(stream, 10)
    consume(js, name)
    first, second = draining(name), draining(name)
    _, end = micro_batch(first, first.initialOffset(), 10)
    first.stop()
    source, claims = type(js).source, []

    def late(self: Any, *arguments: Any, **keywords: Any) -> Any:
        recreate_stream(js, js.stream_info(name).config)
        consume(js, name)
        fill(js, name, 101, 130)
        claims.append(source(self, *arguments, **keywords))
        while not claims[0].pending_msgs:
            pass
        return claims[0]

    monkeypatch.setattr(type(js), "source", late)
    with pytest.raises(DataLossError, match=f"stream {name} was made anew: the offset is of 2"):
        second.latestOffset(end, None)
    assert claims[0].position == 0  # nothing of the new one is confirmed


@promise("One that has acknowledged more than the checkpoint says ends the query with `DataLossError`.")
def test_a_stream_made_anew_within_a_run(js: JetStream, stream: Made, draining: Drained) -> None:
    name = queue_of(stream, 30)
    lenient = draining(name, failOnDataLoss=False)
    start = lenient.initialOffset()
    lenient.prepareForTriggerAvailableNow()
    recreate_stream(js, js.stream_info(name).config)
    fill(js, name, 101, 110)
    with pytest.warns(UserWarning, match="was made anew"):
        end = delivered(lenient, start, 10)
    assert read(lenient, lenient.partitions(start, end)) == [*range(101, 111)]
    assert lenient.latestOffset(end, None) == end
    assert left_in(js, name) == 0


# -- what cannot be ----------------------------------------------------------------------------------------------------


@promise("A query begins after what its consumer has acknowledged")
def test_streams_and_consumers_that_do_not_fit(js: JetStream, stream: Made, draining: Drained) -> None:
    for config, text in (
        (
            {"retention": "limits"},
            "readMode=sourcing is for streams with retention workqueue or interest, and .* has lim",
        ),
        ({"allow_direct": False}, "does not answer Direct Gets: update it with allow_direct=True"),
    ):
        with pytest.raises(OptionError, match=text):
            draining(queue_of(stream, **config)).initialOffset()
    name = queue_of(stream, retention="interest")
    for options, text in (
        ({"ack_policy": "explicit"}, "consumer C of stream .* cannot be sourced from: its ack_policy must be another"),
        (
            {"filter_subject": f"{name}.1"},
            f"consumer C of stream .* delivers {name}.1, and option subject says >: they",
        ),
        ({"filter_subjects": [f"{name}.1", f"{name}.2"]}, f"delivers {name}.1, {name}.2, and option subject says >"),
        ({"filter_subject": ">", "deliver_policy": "last_per_subject"}, "delivers the last message of each subject"),
    ):
        wanted = sourcing_consumer(C, f"to.{name}") if "ack_policy" not in options else ConsumerConfig(durable_name=C)
        js.create_consumer(name, wanted.updated(**options))
        with pytest.raises(OptionError, match=text):
            draining(name).initialOffset()
        js.delete_consumer(name, C)
    consume(js, name)
    with pytest.raises(OptionError, match=f"delivers >, and option subject says {name}.1: they must be the same"):
        draining(name, subject=f"{name}.1").initialOffset()


@promise("A query begins after what its consumer has acknowledged")
@promise("`spark.read` is refused, because it has no commit.")
def test_options_that_do_not_fit(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"consumer": ""}, "options consumer and readMode=sourcing go together"),
        ({"readMode": "direct"}, "options consumer and readMode=sourcing go together"),
        ({"readMode": "drain"}, "option readMode cannot be 'drain': direct or sourcing"),
        ({"consumer": "a.b"}, "option consumer cannot be 'a.b': a consumer name must not contain"),
        ({"startingOffsets": "earliest"}, "options startingOffsets and readMode=sourcing exclude each other"),
        ({"startingTimestamp": "1"}, "options startingTimestamp and readMode=sourcing exclude each other"),
        ({"minOffsetsPerTrigger": 3}, "options minOffsetsPerTrigger and readMode=sourcing exclude each other"),
        ({"stream": "S,T"}, "readMode=sourcing reads one stream, whose consumer it acknowledges"),
        ({"endingOffsets": '{"S": 3}'}, "are for read: readStream has no end"),
    ]
    for options, text in wrong:
        with pytest.raises(OptionError, match=text):
            source(**{"stream": "S", "readMode": "sourcing", "consumer": C, **options}).streamReader(COLUMNS)
    bucket = JetStreamDataSource({"servers": "nats://a", "kvBucket": "B", "readMode": "sourcing", "consumer": C})
    with pytest.raises(OptionError, match="options kvBucket and readMode=sourcing exclude each other"):
        bucket.schema()
    with pytest.raises(OptionError, match="readMode=sourcing is for readStream: read has no commit that could be"):
        source("S", readMode="sourcing", consumer=C).reader(COLUMNS)
    monkeypatch.setattr(work_queue, "HAS_LIMITS", False)
    with pytest.raises(
        OptionError, match="readMode=sourcing needs Spark 4.2 or later, which says what it has committed"
    ):
        source("S", readMode="Sourcing", consumer=C).streamReader(COLUMNS)


def test_checkpoints_of_another_read(stream: Made, draining: Drained, source: Any) -> None:
    name = queue_of(stream, 10)
    reader, direct = draining(name), source(name, startingOffsets="earliest").streamReader(COLUMNS)
    start, other = reader.initialOffset(), direct.initialOffset()
    end = delivered(reader, start)
    with pytest.raises(OptionError, match="the checkpoint is of consumer C, and the query of readMode=direct: take"):
        direct.partitions(start, end)
    with pytest.raises(OptionError, match="the checkpoint is of readMode=direct, and the query of consumer C: take"):
        reader.latestOffset(other, None)
    with pytest.raises(OptionError, match="the checkpoint is of consumer D, and the query of consumer C: take another"):
        reader.latestOffset({**end, "consumer": "D"}, None)
    for tasks in ({}, {"tasks": [[1]]}, {"tasks": "x"}):
        broken = {name: value for name, value in end.items() if name != "tasks"} | tasks
        with pytest.raises(OptionError, match="the checkpoint has offsets of another source"):
            reader.partitions(start, broken)
    direct.stop()


# -- servers and consumers that stand still ----------------------------------------------------------------------------


@contextmanager
def paused_consumer(js: JetStream, name: str) -> Iterator[None]:
    js.pause_consumer(name, C, 4_070_908_800_000_000_000)
    try:
        yield
    finally:
        js.resume_consumer(name, C)


@promise("Into the sink `atomic` each message is stored once.")
def test_a_consumer_that_is_paused(js: JetStream, stream: Made, draining: Drained) -> None:
    name = queue_of(stream)
    reader = draining(name, requestTimeout="300ms")
    start = reader.initialOffset()
    with paused_consumer(js, name):
        fill(js, name, 1, 10)
        assert reader.latestOffset(start, None) == start
        reader.prepareForTriggerAvailableNow()
        with pytest.raises(StalledConsumerError, match=f"consumer C of stream {name} has delivered nothing for 0.3 s"):
            reader.latestOffset(start, None)
    reader.stop()
    assert end_of_run(draining(name), start)[0] == [*range(1, 11)]


@promise("**Only what Spark has committed is acknowledged.** A task")
def test_the_server_restarts_under_it(server_for: Any) -> None:
    """Between delivery, planning, reading and the commit."""
    server: NatsServer = server_for()
    from jsproto_io.sync import connect

    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["S.>"], retention="workqueue", allow_direct=True, allow_batched=True)
        consume(js, "S")
        fill(js, "S", 1, 2 * WINDOW)
    given = {"servers": server.url, "stream": "S", "readMode": "sourcing", "consumer": C}
    reader: Any = JetStreamDataSource(given).streamReader(COLUMNS)

    def restart() -> None:
        server.kill()
        server.start()

    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, None)
    restart()
    planned = reader.partitions(start, end)
    restart()
    rows = read(reader, planned)
    restart()
    more, end = end_of_run(reader, end)
    assert rows + more == [*range(1, 2 * WINDOW + 1)]
    reader.stop()
    with connect(server.url) as nc:
        assert left_in(nc.jetstream(), "S") == 0


@promise("**Only what Spark has committed is acknowledged.** A task")
def test_a_confirmation_goes_no_further_than_deliveries(stream: Made, draining: Drained) -> None:
    """Nothing beyond what was delivered can be confirmed, whatever Spark has committed."""
    name = queue_of(stream, 10)
    reader = draining(name)
    start = reader.initialOffset()
    end = delivered(reader, start, 10)
    end["streams"][name]["seq"] += 5
    reader.commit(end)
    assert reader._end._source.position == 10
    with pytest.raises(LocalProtocolError, match="cannot be confirmed"):
        reader._end._source.confirm(11)
