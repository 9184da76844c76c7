"""Positions of a read prove themselves: streams that drop, come back shorter or are made anew, under planned ranges.

Readers are called as Spark calls them. Most streams are of a server in memory, which forgets what it is told to.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from jsproto.client.read.proof import prove
from jsproto.errors import ConnectionLostError
from jsproto.grammar.config import StreamInfo
from jsproto.rules import position as rules
from jsproto.server.access import Access, Permissions, User
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from jsproto_io.testing import MemoryServer, serve
from pyspark_jetstream import JetStreamDataSource, planning
from pyspark_jetstream.offsets import decode_offset
from pyspark_jetstream.planning import DataLossError
from tests.effort import examples
from tests.marks import promise
from tests.servers import recreate_stream
from tests.spark.test_tasks import COLUMNS, Faults, read

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::jsproto_io._state.connecting.DurabilityWarning"),
]
SET_BACK = "stream S was set back: sequence {} is not the message that was read"
SET_BACK_IN_TASK = "stream S was set back while it was read: it is not the same up to sequence {} any more"


class Stream:
    """A stream S in memory. Message n is ``b"n"``: numbers go on, and sequences may not."""

    def __init__(self, server: MemoryServer, js: JetStream, **config: Any) -> None:
        self.server, self.js, self.last = server, js, 0
        self.readers: list[Any] = []
        wanted = {"subjects": ["S.>"], "allow_direct": True, "persist_mode": "async"}
        js.create_stream("S", **{**wanted, **config})

    def fill(self, count: int) -> list[int]:
        """The numbers of that many new messages."""
        numbers = [*range(self.last + 1, self.last + count + 1)]
        for number in numbers:
            self.js.publish(f"S.{number % 5}", b"%d" % number)
        self.last += count
        return numbers

    def forget(self, count: int) -> None:
        """Come back without the newest messages."""

        def truncate(role: Any, now: float) -> None:
            stream = role.stream("S")
            arrived = sorted(stored.arrived for stored in stream)
            stream.truncate(arrived[-count], now)

        self.server.call(truncate)

    def make_anew(self, _: int = 0) -> None:
        """Be another stream of the same name."""
        recreate_stream(self.js, self.js.stream_info("S").config)

    def purge(self, seq: int) -> None:
        """Drop all before ``seq``."""
        self.js.purge_stream("S", seq=seq)

    def reader(self, stream: str = "S", **options: Any) -> Any:
        given = {"servers": self.server.url, "stream": stream, "startingOffsets": "earliest", "minPartitions": 2}
        options = {name: str(value) for name, value in {**given, **options}.items() if value is not None}
        self.readers.append(JetStreamDataSource(options).streamReader(COLUMNS))
        return self.readers[-1]

    def stop(self) -> None:
        """End what readers of it have open."""
        for reader in self.readers:
            reader.stop()


@pytest.fixture
def made() -> Iterator[Callable[..., Stream]]:
    """``made(**config)`` makes the stream."""
    with serve() as server, connect(server.url) as nc, ExitStack() as stack:

        def make(**config: Any) -> Stream:
            stream = Stream(server, nc.jetstream(), **config)
            stack.callback(stream.stop)
            return stream

        yield make


def planned(reader: Any) -> tuple[Any, Any]:
    """The offset with which a query begins, and the end of its first micro-batch, as they come back from a log."""
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    return json.loads(json.dumps(start)), json.loads(json.dumps(end))


def rest(reader: Any, end: Any, limit: Any = None) -> tuple[list[int], Any]:
    """What follows, in micro-batches, and where that ends."""
    found: list[int] = []
    while (following := reader.latestOffset(end, limit)) != end:
        found += read(reader, reader.partitions(end, following))
        end = following
    return found, end


def again(origin: Stream, end: Any, **options: Any) -> tuple[list[int], list[tuple[int, int]]]:
    """What the first micro-batch has after a restart of the query, and the ranges of its tasks."""
    origin.stop()
    reader = origin.reader(**options)
    partitions = reader.partitions(reader.initialOffset(), end)
    return read(reader, partitions), [(each.wanted.lo, each.wanted.hi) for each in partitions]


# -- where a query began -----------------------------------------------------------------------------------------------


@promise("An offset has the sequence to read next")
@pytest.mark.parametrize("begin", ["earliest", "latest", "time", "sequence"])
@pytest.mark.parametrize("has_limits", [True, False])
def test_the_first_micro_batch_comes_again(made: Any, begin: str, has_limits: bool) -> None:
    """It begins where it began, wherever a query without a checkpoint would begin by now."""
    stream = made()
    before = stream.fill(20)
    begins: dict[str, dict[str, Any]] = {
        "earliest": {},
        "latest": {"startingOffsets": "latest"},
        "time": {"startingOffsets": None, "startingTimestamp": time_ns() // 1_000_000 + 1},
        "sequence": {"startingOffsets": '{"S": 11}'},
    }
    options = begins[begin]
    while time_ns() < (int(options.get("startingTimestamp", 0)) + 1) * 1_000_000:
        pass
    wanted = {"earliest": before, "sequence": before[10:]}.get(begin, [])
    reader = stream.reader(**options)
    if has_limits:
        start = reader.initialOffset()
        wanted = wanted + stream.fill(30)
        end = reader.latestOffset(start, None)
    else:  # before Spark 4.2
        start = reader.initialOffset()
        wanted = wanted + stream.fill(30)
        end = reader.latestOffset()
        assert reader.initialOffset() == start
    assert read(reader, tasks := reader.partitions(start, end)) == wanted
    stream.fill(10)
    assert again(stream, end, **options) == (wanted, [(each.wanted.lo, each.wanted.hi) for each in tasks])
    dropped = wanted.index(wanted[-1]) // 2
    stream.purge(wanted[dropped])
    with pytest.raises(DataLossError, match=f"begins at sequence {wanted[dropped]}, but {wanted[0]} was to be read"):
        again(stream, end, **options)
    with pytest.warns(UserWarning, match=f"begins at sequence {wanted[dropped]}, but {wanted[0]} was to be read"):
        rows, ranges = again(stream, end, failOnDataLoss=False, **options)
    assert rows == wanted[dropped:]
    assert ranges == [(each.wanted.lo, each.wanted.hi) for each in tasks]  # sinks know a row by its task


@promise("An offset has the sequence to read next")
def test_a_first_micro_batch_without_messages_comes_again(made: Any) -> None:
    """Spark logs one. It stays empty, whatever has come since, and the next one has that."""
    stream = made()
    stream.fill(10)
    reader = stream.reader(startingOffsets="latest")
    start, end = planned(reader)
    assert start == end
    assert reader.partitions(start, end) == []
    wanted = stream.fill(10)
    assert again(stream, end, startingOffsets="latest") == ([], [])
    assert again(stream, end, startingOffsets="earliest") == ([], [])
    following = reader.latestOffset(end, None)
    assert read(reader, reader.partitions(end, following)) == wanted


@promise("An offset has the sequence to read next")
def test_several_streams_begin_where_they_began(made: Any) -> None:
    stream = made()
    stream.js.create_stream("T", subjects=["T.>"], allow_direct=True)
    stream.js.publish("T.x", b"-1")
    stream.fill(10)
    options = {"stream": "S,T", "startingOffsets": '{"S": -2, "T": -1}'}
    reader = stream.reader(**options)
    start = reader.initialOffset()
    stream.js.publish("T.x", b"-2")
    end = reader.latestOffset(start, None)
    stream.js.publish("T.x", b"-3")
    assert again(stream, end, **options)[0] == [*range(1, 11), -2]


@promise("An offset has the sequence to read next")
def test_a_stream_that_is_new_in_a_query_begins_where_it_began(made: Any) -> None:
    stream = made()
    wanted = stream.fill(10)
    stream.js.create_stream("T", subjects=["T.>"], allow_direct=True)
    first = stream.reader("T")
    _, end = planned(first)
    both = stream.reader("S,T")
    second = both.latestOffset(end, None)
    assert read(both, both.partitions(end, second)) == wanted
    stream.purge(6)
    with pytest.raises(DataLossError, match="stream S begins at sequence 6, but 1 was to be read next"):
        both.partitions(end, json.loads(json.dumps(second)))


def test_a_checkpoint_of_a_release_that_kept_no_begin(made: Any) -> None:
    """It is read as that release read it."""
    stream = made()
    wanted = stream.fill(10)
    reader = stream.reader()
    _, end = planned(reader)
    assert again(stream, {name: value for name, value in end.items() if name != "from"})[0] == wanted


# -- streams that come back shorter ------------------------------------------------------------------------------------


@promise("A stream that came back shorter also ends it: a restored backup")
@pytest.mark.parametrize("grown", [0, 3, 5, 20])
@pytest.mark.parametrize("limit", [None, 4])
def test_a_stream_comes_back_shorter_between_two_micro_batches(made: Any, grown: int, limit: int | None) -> None:
    """That is told, even if the sequences are there again. What is new is read when loss may be passed over."""
    stream = made()
    stream.fill(30)
    reader, lenient = stream.reader(), stream.reader(failOnDataLoss=False)
    _, end = planned(reader)
    stream.forget(5)
    wanted = stream.fill(grown)
    limits = type("Limit", (), {"max_rows": limit})
    text = "ends at sequence .*, but 31 was to be read next" if grown < 5 else SET_BACK.format(30)
    with pytest.raises(DataLossError, match=f"{text}; set failOnDataLoss to false"):
        reader.partitions(end, reader.latestOffset(end, limits))
    with pytest.warns(UserWarning, match=text):
        found, _ = rest(lenient, end, limits)
    assert found == wanted


@pytest.mark.parametrize("come_back", [Stream.forget, Stream.make_anew])
@pytest.mark.parametrize("grown", [3, 10, 40])
@pytest.mark.parametrize("limit", [None, 8, 10])
def test_what_follows_a_loss_comes_again_as_it_was(made: Any, come_back: Any, grown: int, limit: int | None) -> None:
    """Its tasks have the same ranges, though the front has moved since. What is gone by then is told."""
    stream = made()
    stream.fill(30)
    _, end = planned(stream.reader())
    come_back(stream, 10)
    wanted = stream.fill(grown)[:limit]
    options = {"failOnDataLoss": False, "minPartitions": 3}
    reader = stream.reader(**options)
    with pytest.warns(UserWarning, match="was made anew|was set back|ends at sequence"):
        following = json.loads(json.dumps(reader.latestOffset(end, type("Limit", (), {"max_rows": limit}))))
    tasks = reader.partitions(end, following)  # which has nothing more to tell
    assert read(reader, tasks) == wanted
    ranges = [(each.wanted.lo, each.wanted.hi) for each in tasks]
    stream.purge(tasks[0].wanted.lo + 2)
    reader = stream.reader(**options)
    with pytest.warns(UserWarning, match="but .* was to be read next"):
        tasks = reader.partitions(end, following)
    assert [(each.wanted.lo, each.wanted.hi) for each in tasks] == ranges
    assert read(reader, tasks) == wanted[2:]
    with pytest.raises(DataLossError, match="but .* was to be read next"):
        stream.reader().partitions(end, following)


@promise("A stream that came back shorter also ends it: a restored backup")
@pytest.mark.parametrize("grown", [0, 3, 5, 20])
def test_a_stream_comes_back_shorter_before_a_task_looks(made: Any, grown: int) -> None:
    """The range is refused. Or it has what is left of it, and the next one has what is new: each message once."""
    stream = made()
    wanted = stream.fill(30)[:25]
    strict, lenient = stream.reader(), stream.reader(failOnDataLoss=False)
    start, end = planned(strict)
    tasks = strict.partitions(start, end)
    stream.forget(5)
    new = stream.fill(grown)
    for task in tasks:
        with pytest.raises(DataLossError, match=f"{SET_BACK_IN_TASK.format(30)}; set failOnDataLoss to false"):
            read(strict, [task])
    with pytest.warns(UserWarning, match=SET_BACK_IN_TASK.format(30)):
        assert read(lenient, tasks) == wanted
    with pytest.warns(UserWarning, match="was to be read next" if grown < 5 else SET_BACK.format(30)):
        assert rest(lenient, end)[0] == new


@promise("A stream that came back shorter also ends it: a restored backup")
def test_a_stream_comes_back_shorter_under_a_task(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    """After each break the task looks again."""
    stream = made()
    stream.fill(30)
    reader = stream.reader(minPartitions=1, batchSize=10)
    (task,) = reader.partitions(*planned(reader))
    faults = Faults(monkeypatch, [ConnectionLostError("gone")])
    rows = reader.read(task)
    assert next(rows).num_rows == 10
    stream.forget(5)
    stream.fill(10)
    with pytest.raises(DataLossError, match=SET_BACK_IN_TASK.format(30)):
        list(rows)
    assert faults.left == []


@promise("A stream that came back shorter also ends it: a restored backup")
def test_a_stream_comes_back_shorter_under_a_batch_read(made: Any) -> None:
    """What ends before that is whole."""
    stream = made()
    wanted = stream.fill(30)
    options = {"servers": stream.server.url, "stream": "S", "minPartitions": "2"}
    early = JetStreamDataSource({**options, "endingOffsets": '{"S": 21}'}).reader(COLUMNS)
    whole = JetStreamDataSource(options).reader(COLUMNS)
    lenient = JetStreamDataSource({**options, "failOnDataLoss": "false"}).reader(COLUMNS)
    tasks, of_early = whole.partitions(), early.partitions()
    stream.forget(5)
    stream.fill(10)
    assert read(early, of_early) == wanted[:20]
    with pytest.raises(DataLossError, match=SET_BACK_IN_TASK.format(30)):
        read(whole, tasks[:1])
    with pytest.warns(UserWarning, match=SET_BACK_IN_TASK.format(30)):
        assert read(lenient, tasks) == wanted[:25]


@promise("A stream that came back shorter also ends it: a restored backup")
@pytest.mark.parametrize("come_back", [Stream.forget, Stream.make_anew])
@pytest.mark.parametrize("grown", [3, 7])
def test_a_run_with_an_end_loses_nothing_new(made: Any, come_back: Any, grown: int) -> None:
    """AvailableNow: what the end of the run leaves to the next one is read then."""
    stream = made()
    stream.fill(30)
    reader = stream.reader(failOnDataLoss=False)
    _, end = planned(reader)
    stream.fill(5)
    reader.prepareForTriggerAvailableNow()
    come_back(stream, 10)
    wanted = stream.fill(grown)
    told = "S (ends at sequence|was made anew|was set back)"
    with pytest.warns(UserWarning, match=told):
        found, end = rest(reader, end)
    reader.prepareForTriggerAvailableNow()
    with nullcontext() if found else pytest.warns(UserWarning, match=told):
        more, _ = rest(reader, end)
    assert found + more == wanted


@promise("A stream that came back shorter also ends it: a restored backup")
def test_a_stream_is_restored_from_a_backup(server_for: Any, tmp_path: Path) -> None:
    """Of a real server, which keeps its identity, and to the nanosecond what it has."""
    store, backup = tmp_path / "store", tmp_path / "backup"
    server: NatsServer = server_for(store=store)

    def fill(first: int, last: int) -> None:
        with connect(server.url) as nc:
            for number in range(first, last + 1):
                nc.jetstream().publish("S.x", b"%d" % number)

    def go_back() -> None:
        server.stop()
        (folder,) = [found for found in backup.rglob("S") if found.parent.name == "streams"]
        shutil.rmtree(store / folder.relative_to(backup))
        shutil.copytree(folder, store / folder.relative_to(backup))
        server.start()

    with connect(server.url) as nc:
        nc.jetstream().create_stream("S", subjects=["S.>"], allow_direct=True)
    fill(1, 20)
    server.stop()
    shutil.copytree(store, backup)
    server.start()
    fill(21, 30)
    given = {"servers": server.url, "stream": "S", "startingOffsets": "earliest", "minPartitions": "2"}
    strict: Any = JetStreamDataSource(given).streamReader(COLUMNS)
    lenient: Any = JetStreamDataSource({**given, "failOnDataLoss": "false"}).streamReader(COLUMNS)
    start, end = planned(strict)
    tasks = strict.partitions(start, end)
    assert read(strict, tasks) == [*range(1, 31)]
    server.stop()
    server.start()
    assert read(strict, tasks) == [*range(1, 31)]  # a restart alone changes nothing
    go_back()
    with pytest.raises(DataLossError, match=SET_BACK_IN_TASK.format(30)):
        read(strict, tasks)
    with pytest.raises(DataLossError, match="ends at sequence 20, but 31 was to be read next"):
        strict.latestOffset(end, None)
    fill(101, 115)
    with pytest.raises(DataLossError, match=SET_BACK_IN_TASK.format(30)):
        read(strict, tasks)
    with pytest.raises(DataLossError, match=SET_BACK.format(30)):
        strict.latestOffset(end, None)
    with pytest.warns(UserWarning, match=SET_BACK_IN_TASK.format(30)):
        assert read(lenient, lenient.partitions(start, end)) == [*range(1, 21)]
    with pytest.warns(UserWarning, match=SET_BACK.format(30)):
        assert read(lenient, lenient.partitions(end, lenient.latestOffset(end, None))) == [*range(101, 116)]
    for each in (strict, lenient):
        each.stop()


@promise("One that has acknowledged more than the checkpoint says ends the query with `DataLossError`.")
def test_a_work_queue_comes_back_shorter(made: Any) -> None:
    stream = made(retention="workqueue")
    stream.fill(30)
    options = {"readMode": "sourcing", "consumer": "C", "startingOffsets": None}
    reader = stream.reader(**options)
    start = end = reader.initialOffset()
    while end["streams"]["S"]["seq"] < 31:
        end = reader.latestOffset(start, None)
    (tasks, position) = reader.partitions(start, end), decode_offset(end, "C")["S"]
    assert position.witness == stream.js.get_msg("S", 30).timestamp
    assert read(reader, tasks) == [*range(1, 31)]
    stream.forget(5)
    stream.fill(10)
    with pytest.raises(DataLossError, match=SET_BACK_IN_TASK.format(30)):
        read(reader, tasks)
    later = stream.reader(**options)
    with pytest.raises(DataLossError, match=SET_BACK.format(30)):
        later.latestOffset(end, None)
    assert stream.js.stream_info("S").state.messages == 35  # nothing was acknowledged


@promise("**Only what Spark has committed is acknowledged.** A task")
@pytest.mark.parametrize("is_filtered", [False, True])
def test_the_first_micro_batch_of_a_work_queue_comes_again(made: Any, is_filtered: bool) -> None:
    """Its tasks are in its offset, so it has what it had, or what is gone is told."""
    stream = made(retention="workqueue", max_msgs=30)
    wanted = stream.fill(30)
    options = {"readMode": "sourcing", "consumer": "C", "startingOffsets": None}
    if is_filtered:
        options["subject"], wanted = "S.3", [number for number in wanted if number % 5 == 3]
    reader = stream.reader(**options)
    start = end = reader.initialOffset()
    while end["streams"]["S"]["seq"] <= wanted[-1]:
        end = reader.latestOffset(start, None)
    assert again(stream, json.loads(json.dumps(end)), **options)[0] == wanted
    stream.fill(5)  # which the oldest messages make room for
    with pytest.raises(DataLossError):
        again(stream, end, **options)


# -- what is asked, and what is believed -------------------------------------------------------------------------------


class Asked:
    """Counts what leaders are asked for, and may give an old answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.infos = self.messages = 0
        self.old: list[StreamInfo] = []
        readable, message = planning._readable, JetStream.get_msg

        def info(*arguments: Any) -> StreamInfo | None:
            self.infos += 1
            found = readable(*arguments)
            return self.old.pop() if self.old else found

        def proving(js: Any, *arguments: Any, **keywords: Any) -> Any:
            script = prove(js, *arguments, **keywords)
            answer = None
            while True:
                try:
                    wanted = script.send(answer)
                except StopIteration as end:
                    return end.value
                self.messages += 1
                answer = yield wanted

        def get_msg(*arguments: Any, **keywords: Any) -> Any:
            self.messages += 1
            return message(*arguments, **keywords)

        monkeypatch.setattr(planning, "_readable", info)
        monkeypatch.setattr(planning, "prove", proving)
        monkeypatch.setattr(JetStream, "get_msg", get_msg)

    def take(self) -> tuple[int, int]:
        """How many states and messages were asked for since the last time."""
        found = self.infos, self.messages
        self.infos = self.messages = 0
        return found


def test_proofs_cost_little(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    """At the end of a stream nothing, elsewhere a message for each offset, micro-batch, stream and task."""
    stream = made()
    stream.fill(30)
    asked = Asked(monkeypatch)
    reader = stream.reader()
    start = reader.initialOffset()
    asked.take()
    end = reader.latestOffset(start, None)
    assert asked.take() == (1, 0)
    tasks = reader.partitions(start, end)
    assert asked.take() == (1, 0)
    read(reader, tasks)
    assert asked.take() == (2, 0)
    stream.fill(10)
    read(reader, tasks)
    assert asked.take() == (2, 2)
    following = reader.latestOffset(end, type("Limit", (), {"max_rows": 4}))
    assert asked.take() == (1, 2)  # the witness of its own end, too
    reader.partitions(end, following)
    assert asked.take() == (1, 1)
    last = reader.latestOffset(following, None)
    assert reader.latestOffset(last, None) == last
    assert asked.take() == (2, 1)


@promise("One answer proves no loss, because a leader that was replaced may tell its past.")
def test_an_old_answer_is_no_loss(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    """A leader that was replaced may tell its past for a while. Nothing goes back, and nothing fails."""
    stream = made()
    stream.fill(20)
    old = stream.js.stream_info("S")
    wanted = stream.fill(10)
    reader = stream.reader()
    start, end = planned(reader)
    asked = Asked(monkeypatch)
    asked.old = [old]
    assert reader.latestOffset(end, None) == end
    asked.old = [old]
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(end, None) == end  # never back
    asked.old = [old]
    tasks = reader.partitions(start, end)
    asked.old = [old]
    assert read(reader, tasks) == [*range(1, 21), *wanted]
    assert asked.old == []


@promise("One answer proves no loss, because a leader that was replaced may tell its past.")
def test_a_second_answer_comes_after_an_election(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    """What a leader says meanwhile counts."""
    stream = made()
    stream.fill(20)
    reader = stream.reader()
    _, end = planned(reader)
    stream.forget(5)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        stream.fill(1)

    monkeypatch.setattr(rules, "ELECTION", 0.04)
    monkeypatch.setattr(planning, "sleep", pause)
    with pytest.raises(DataLossError, match="ends at sequence|was set back"):
        reader.partitions(end, {**end, "streams": {"S": {**end["streams"]["S"], "seq": 30}}})
    assert pauses
    assert set(pauses) == {0.04}


@promise("A user without the right to `$JS.API.STREAM.MSG.GET` gets a warning instead of the proof.")
def test_offsets_without_a_witness(made: Any) -> None:
    """Of an older release: they are read, a warning says what they do not prove, and those after them prove it."""
    stream = made()
    stream.fill(30)
    reader = stream.reader()
    _, end = planned(reader)
    older = json.loads(json.dumps(end))
    del older["streams"]["S"]["witness"], older["from"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reader.latestOffset(older, None) == older  # an idle query has no micro-batch for it
    wanted = stream.fill(10)
    with pytest.warns(UserWarning, match="stream S: nothing proves that sequence 30 is"):
        following = reader.latestOffset(older, None)
    with pytest.warns(UserWarning, match="stream S: nothing proves that sequence 30 is still the message that the che"):
        assert read(reader, reader.partitions(older, following)) == wanted
    assert decode_offset(following)["S"].witness is not None
    stream.forget(15)
    with pytest.raises(DataLossError, match="ends at sequence 25, but 31 was to be read next"):
        reader.latestOffset(older, None)
    lenient = stream.reader(failOnDataLoss=False)
    with pytest.warns(UserWarning, match="ends at sequence 25, but 31 was to be read next"):
        assert decode_offset(lenient.latestOffset(older, None))["S"].seq == 25


@promise("A user without the right to `$JS.API.STREAM.MSG.GET` gets a warning instead of the proof.")
def test_a_user_who_may_not_ask_the_leader() -> None:
    """Without STREAM.MSG.GET a position within a stream proves nothing, and is read."""
    denied = Permissions(deny_publish=["$JS.API.STREAM.MSG.GET.>"])
    access = Access(users=[User("all", "x"), User("some", "x", permissions=denied)])
    with serve(access=access) as server, connect(server.url, user="all", password="x") as nc:
        stream = Stream(server, nc.jetstream())
        wanted = stream.fill(30)
        reader = stream.reader(**{"nats.user": "some", "nats.password": "x"})
        start = reader.initialOffset()
        end = reader.latestOffset(start, type("Limit", (), {"max_rows": 10}))
        assert decode_offset(end)["S"].witness is None
        assert read(reader, reader.partitions(start, end)) == wanted[:10]
        with pytest.warns(UserWarning, match="nothing proves that sequence 10"):
            assert read(reader, reader.partitions(end, reader.latestOffset(end, None))) == wanted[10:]
        reader.stop()


@promise("A stream that only `max_msgs_per_subject` or TTLs of messages limit")
@pytest.mark.parametrize("config", [{"max_msgs_per_subject": 1}, {"allow_msg_ttl": True}])
def test_messages_that_go_one_by_one_are_no_loss(made: Any, config: dict[str, Any]) -> None:
    """A key of a bucket is overwritten before planning, or before the task looks. What is left is read."""
    stream = made(**config)
    stream.fill(10)
    reader = stream.reader()
    _, end = planned(reader)
    stream.fill(10)
    following = reader.latestOffset(end, None)
    for seq in range(1, 14):
        if seq > 15 or not config.get("max_msgs_per_subject"):
            stream.js.delete_msg("S", seq)
    tasks = reader.partitions(end, following)
    left = read(reader, tasks)
    assert left == ([*range(16, 21)] if "max_msgs_per_subject" in config else [*range(14, 21)])
    for seq in (14, 15, 16):
        if seq == 16 or "max_msgs_per_subject" not in config:
            stream.js.delete_msg("S", seq)
    batch = JetStreamDataSource({"servers": stream.server.url, "stream": "S"}).reader(COLUMNS)
    of_batch = batch.partitions()
    stream.js.delete_msg("S", 17)
    assert read(reader, tasks) == read(batch, of_batch) == [18, 19, 20]


def test_a_witness_of_a_message_that_is_gone(made: Any) -> None:
    """Whatever takes its place later comes later. What came after it did not."""
    stream = made()
    stream.fill(10)
    for seq in (4, 5, 9, 10):
        stream.js.delete_msg("S", seq)
    info = stream.js.stream_info("S")
    places = [planning.position_at(stream.js, info, seq) for seq in range(11)]
    assert [place.seq for place in places] == [*range(11)]
    assert [place.identity for place in places] == [str(info.created)] * 11
    times = {message.seq: message.timestamp for message in stream.js.get_batch("S")}
    last, of_gone = info.state.last_ts, times[6] - 1
    assert [place.witness for place in places] == [
        times[1] - 1, times[1], times[2], times[3], of_gone, of_gone, *(times[seq] for seq in (6, 7, 8)), last, last
    ]  # fmt: skip
    assert all(planning.proved(stream.js, info, place)[0] not in rules.NEGATIVE for place in places)


# -- any history -------------------------------------------------------------------------------------------------------


class Histories(RuleBasedStateMachine):
    """A query and its stream, with anything that may happen to both.

    The query is started again at any moment, and its tasks may run and fail before that. What is in the stream at the
    end was read once, and nothing was read twice. What was not read was gone, and somebody was told.
    """

    is_strict = False

    def __init__(self) -> None:
        super().__init__()
        self.server = serve()
        self.server.start()
        self.nc = connect(self.server.url)
        self.stream = Stream(self.server, self.nc.jetstream())
        self.reader: Any = None
        self.offsets: list[str] = []
        self.rows: list[list[int]] = []
        self.harmed = self.told = self.is_set_back = False
        self.excused: set[int] = set()  # rows that nobody can miss

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            self.reader.stop()
            self.nc.close()
            self.server.close()

    @initialize(begin=st.sampled_from(["earliest", "latest"]), parts=st.integers(1, 3), count=st.integers(0, 6))
    def begin(self, begin: str, parts: int, count: int) -> None:
        numbers = self.stream.fill(count)
        if begin == "latest":
            self.excused |= set(numbers)
        self.options: dict[str, Any] = {
            "startingOffsets": begin,
            "minPartitions": parts,
            "failOnDataLoss": self.is_strict,
        }
        self.restart()
        self.plan(None)  # Spark has a micro-batch at once, or the beginning would be nowhere

    @rule(count=st.integers(1, 6))
    def store(self, count: int) -> None:
        self.stream.fill(count)

    @rule(which=st.integers(0, 30))
    def delete(self, which: int) -> None:
        if seqs := self.seqs():
            seq = seqs[which % len(seqs)]
            self.harmed |= seq == seqs[0]  # which moves the front
            self.excused |= self.numbers([seq])
            self.stream.js.delete_msg("S", seq)

    @rule(count=st.integers(1, 6))
    def forget(self, count: int) -> None:
        if seqs := self.seqs():
            self.harmed = True
            count = min(count, len(seqs))
            self.excused |= self.numbers(seqs[-count:])  # perhaps never seen
            self.stream.forget(count)
            self.is_set_back = True

    @rule(which=st.integers(0, 30))
    def purge(self, which: int) -> None:
        if seqs := self.seqs():
            self.harmed = True
            if self.is_set_back:  # a position before the front does not tell what its sequence was given to
                self.excused |= self.numbers(seqs[: which % len(seqs)])
            self.stream.purge(seqs[which % len(seqs)])

    @rule()
    def make_anew(self) -> None:
        self.harmed = True
        self.is_set_back = False
        self.stream.make_anew()

    @rule()
    def restart(self) -> None:
        if self.reader is not None:
            self.reader.stop()
        self.reader = self.stream.reader(**self.options)

    @precondition(lambda self: len(self.rows) == len(self.offsets) and not (self.is_strict and self.told))
    @rule(most=st.none() | st.integers(1, 8))
    def plan(self, most: int | None) -> None:
        start = self.offset(len(self.rows))
        with self.telling():
            end = self.reader.latestOffset(start, type("Limit", (), {"max_rows": most}))
            if end != start or not self.rows:
                self.offsets.append(json.dumps(end))

    @precondition(lambda self: len(self.rows) < len(self.offsets) and not (self.is_strict and self.told))
    @rule(is_committed=st.booleans())
    def run(self, is_committed: bool) -> None:
        batch = len(self.rows)
        with self.telling():
            found = read(self.reader, self.reader.partitions(self.offset(batch), json.loads(self.offsets[batch])))
            if is_committed:
                self.rows.append(found)

    def finish(self) -> None:
        for _ in range(4):
            if not (self.is_strict and self.told):
                if len(self.rows) < len(self.offsets):
                    self.run(True)
                else:
                    self.plan(None)
        read_once = Counter(row for rows in self.rows for row in rows)
        assert not read_once or max(read_once.values()) == 1
        assert self.harmed or not self.told
        if not self.told:
            assert {*range(1, self.stream.last + 1)} - read_once.keys() <= self.excused
        elif not self.is_strict:
            left = {int(message.data) for message in self.stream.js.get_batch("S")}
            assert left - read_once.keys() <= self.excused

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What is said of a loss, by an error or by warnings."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                yield
            except DataLossError:
                assert self.is_strict
                self.told = True
        if seen:
            assert not self.is_strict
            self.told = True

    def offset(self, batch: int) -> Any:
        return json.loads(self.offsets[batch - 1]) if batch else json.loads(json.dumps(self.reader.initialOffset()))

    def numbers(self, seqs: list[int]) -> set[int]:
        return {int(self.stream.js.get_msg("S", seq).data) for seq in seqs}

    def seqs(self) -> list[int]:
        return [message.seq for message in self.stream.js.get_batch("S")]


class StrictHistories(Histories):
    """With ``failOnDataLoss``, which ends it."""

    is_strict = True


@promise("A stream that came back shorter also ends it: a restored backup")
@pytest.mark.parametrize("machine", [Histories, StrictHistories])
def test_any_history(machine: type[Histories]) -> None:
    search = settings(max_examples=examples(100), stateful_step_count=25, deadline=None)
    run_state_machine_as_test(machine, settings=search)
