"""Positions of a read that cannot be told for sure: those that grow old, and those of users who may not ask the leader.

Readers are called as Spark calls them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from jsproto.errors import NoRespondersError
from jsproto.grammar.config import StreamInfo
from jsproto.rules import position as rules
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from jsproto_io.testing import serve
from pyspark_jetstream import JetStreamDataSource, planning, ranges
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.planning import DataLossError
from tests.marks import promise
from tests.servers import NEWEST, OLDER
from tests.spark.test_positions import Stream, planned
from tests.spark.test_tasks import COLUMNS, read

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::jsproto_io._state.connecting.DurabilityWarning"),
]


LAST_VALUES: Any = {"max_msgs_per_subject": 1, "max_age": 3_600.0}


@contextmanager
def in_memory(**config: Any) -> Iterator[Stream]:
    with serve() as server, connect(server.url) as nc:
        stream = Stream(server, nc.jetstream(), **config)
        yield stream
        stream.stop()


class Clock:
    """A stream's leader, and this machine, are ``ahead`` by so many seconds. The stream is a day old."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        readable = planning._readable

        def later(*arguments: Any) -> StreamInfo:
            info = readable(*arguments)
            assert info is not None
            assert info.ts is not None
            assert info.created is not None
            return replace(info, ts=info.ts + round(self.ahead * 1e9), created=info.created - 86_400 * 10**9)

        monkeypatch.setattr(planning, "_readable", later)
        monkeypatch.setattr(ranges, "monotonic", lambda: monotonic() + self.ahead)


@promise("Where `max_age`, which is a bucket's TTL, takes the front as well, what is younger was overwritten or purged")
def test_keys_of_a_bucket_with_a_ttl(monkeypatch: pytest.MonkeyPatch, server_for: Any) -> None:
    """They are overwritten before planning, and before a task looks, in its first micro-batch, too."""
    Clock(monkeypatch)
    server: Any = server_for()
    with connect(server.url) as nc:
        stream = Stream(server, nc.jetstream(), persist_mode=None, **LAST_VALUES)
        stream.fill(5)
        reader = stream.reader()
        start, end = planned(reader)
        stream.fill(1)
        tasks = reader.partitions(start, end)
        stream.fill(1)
        assert read(reader, tasks) == [3, 4, 5]
        stream.fill(5)
        following = reader.latestOffset(end, None)
        stream.fill(2)
        tasks = reader.partitions(end, following)
        batch = JetStreamDataSource({"servers": server.url, "stream": "S", "startingOffsets": '{"S": 11}'})
        of_batch = batch.reader(COLUMNS).partitions()
        stream.fill(2)
        assert read(reader, tasks) == [12]
        assert read(batch.reader(COLUMNS), of_batch) == [12, 13, 14]
        stream.stop()


@promise("After a pause longer than `max_age` that cannot be told, unless the query was looking.")
@pytest.mark.parametrize("is_seen", [False, True])
def test_an_offset_that_is_too_old_to_tell(monkeypatch: pytest.MonkeyPatch, is_seen: bool) -> None:
    clock = Clock(monkeypatch)
    with in_memory(**LAST_VALUES) as stream:
        stream.fill(5)
        reader = stream.reader()
        _, end = planned(reader)
        clock.ahead = 3_590.0
        stream.fill(7)
        following = reader.latestOffset(end, None)
        tasks = reader.partitions(end, following)
        assert read(reader, tasks) == [8, 9, 10, 11, 12]
        clock.ahead = 3_600.0
        with pytest.raises(DataLossError, match="begins at sequence 8, but 6 was to be read next"):
            reader.partitions(end, following)
        with pytest.raises(DataLossError, match="messages 6 to 7 are not in the stream any more"):
            read(reader, tasks)
        if is_seen:
            assert reader.latestOffset(following, None) == following
        stream.fill(7)
        end, following = following, reader.latestOffset(following, None)
        told = pytest.raises(DataLossError, match="begins at sequence 15, but 13 was to be read next")
        with nullcontext() if is_seen else told:
            assert read(reader, reader.partitions(end, following)) == [15, 16, 17, 18, 19]


def test_a_stream_is_looked_at_while_another_makes_the_query_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with in_memory(**LAST_VALUES) as stream:
        stream.js.create_stream("T", subjects=["T"], allow_direct=True)
        stream.js.publish("T", b"101")
        stream.fill(5)
        reader = stream.reader("S,T", minOffsetsPerTrigger=3)
        _, end = planned(reader)
        clock.ahead = 3_600.0
        stream.js.publish("T", b"102")
        assert reader.latestOffset(end, None) == end
        stream.fill(7)
        assert sorted(read(reader, reader.partitions(end, reader.latestOffset(end, None)))) == [*range(8, 13), 102]


def test_a_task_whose_proof_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes meanwhile may have been old enough."""
    clock = Clock(monkeypatch)
    with in_memory(**LAST_VALUES) as stream:
        stream.fill(5)
        reader = stream.reader()
        tasks = reader.partitions(*planned(reader))
        proved_end = ranges._proved_end

        def slow(*arguments: Any) -> Any:
            found = proved_end(*arguments)
            clock.ahead = 3_600.0
            return found

        monkeypatch.setattr(ranges, "_proved_end", slow)
        stream.fill(2)
        with pytest.raises(DataLossError, match="messages 1 to 2 are not in the stream any more"):
            read(reader, tasks)


@promise("Where `max_age`, which is a bucket's TTL, takes the front as well, what is younger was overwritten or purged")
@pytest.mark.parametrize("pause", [0.0, 3_600.0])
def test_a_task_during_which_its_messages_grow_old(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    """What goes after that may be lost, and so it is told."""
    clock = Clock(monkeypatch)
    with in_memory(max_msgs_per_subject=7, max_age=3_600.0) as stream:
        stream.fill(30)
        reader = stream.reader(minPartitions=1, batchSize=10, maxBytes=700)
        (task,) = reader.partitions(*planned(reader))
        rows = reader.read(task)
        found = [int(data) for data in next(rows).column("data").to_pylist()]
        assert found == [*range(1, found[-1] + 1)]
        stream.fill(25)
        clock.ahead = pause
        if pause:
            with pytest.raises(DataLossError, match=f"messages {found[-1] + 1} to 20 are not in the stream any more"):
                list(rows)
        else:
            left = [int(data) for batch in rows for data in batch.column("data").to_pylist()]
            assert left[-10:] == [*range(21, 31)]


DENIED = """authorization { users: [
    {user: all, password: x}
    {user: some, password: x, permissions: {publish: {deny: ["$JS.API.STREAM.MSG.GET.>"]}}}
    {user: less, password: x, permissions: {publish: {deny: ["$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"]}}}
]}"""


@pytest.fixture(scope="module")
def denying() -> Iterator[NatsServer]:
    with NatsServer(config=DENIED) as server:
        yield server


@promise("such as one with a `subject`, that user reads streams of one replica, with a warning.")
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": "earliest"}, [*range(1, 29)]),
        ({"startingOffsets": "earliest", "subject": "S.3"}, [3, 8, 13, 18, 23, 28]),
        ({"startingOffsets": "earliest", "subject": "S.*"}, [*range(1, 29)]),
        ({"startingOffsets": "earliest", "subject": "S.none"}, []),
        ({"startingTimestamp": "1970-01-01T00:00:00Z"}, [*range(1, 29)]),
        ({"startingTimestamp": "2200-01-01T00:00:00Z"}, []),
    ],
)
def test_reads_of_a_user_who_may_not_ask_the_leader(
    denying: Any, options: dict[str, Any], wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are whole where one server has the stream. One line tells that several have it, or that Direct Gets fail."""
    stream_info = JetStream.stream_info

    def replicated(*arguments: Any, **more: Any) -> Any:
        info = stream_info(*arguments, **more)
        return replace(info, config=replace(info.config, num_replicas=3))

    with connect(denying.url, user="all", password="x") as nc:
        stream = Stream(denying, nc.jetstream(), persist_mode=None)
        stream.fill(30)
        for seq in (29, 30):
            stream.js.delete_msg("S", seq)

        def first_rows(user: str) -> list[int]:
            reader = stream.reader(**{"nats.user": user, "nats.password": "x", "startingOffsets": None, **options})
            start = reader.initialOffset()
            return read(reader, reader.partitions(start, reader.latestOffset(start, None)))

        given = {"servers": denying.url, "stream": "S", "minPartitions": "2", "nats.user": "some", "nats.password": "x"}
        batch = JetStreamDataSource({**given, **options}).reader(COLUMNS)
        of_leader = r"stream S: without the right to publish to \$JS.API.STREAM.MSG.GET.S a mirror of it that answers"
        with pytest.warns(UserWarning, match=of_leader):
            assert first_rows("some") == wanted
        with pytest.warns(UserWarning, match=of_leader):
            assert read(batch, batch.partitions()) == wanted
        text = r'stream S cannot be read: Permissions Violation for Publish to "\$JS.API.DIRECT.GET.S"$'
        with pytest.raises(OptionError, match=text), warnings.catch_warnings(action="ignore"):
            first_rows("less")
        with monkeypatch.context() as patch:
            patch.setattr(JetStream, "stream_info", replicated)
            text = "stream S has 3 replicas, .*: give the user the right to publish to .*STREAM.MSG.GET.S$"
            with pytest.raises(OptionError, match=text):
                first_rows("some")
        stream.stop()
        stream.js.delete_stream("S")


@pytest.mark.parametrize("version", [OLDER[0], NEWEST])
def test_a_mirror_that_answers_for_its_origin_alone(server_for: Any, version: str) -> None:
    """``mirror_direct`` without ``allow_direct``: no server answers under the mirror's name."""
    server: Any = server_for(version)
    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream("O", subjects=["O.>"], allow_direct=True)
        js.create_stream("S", mirror={"name": "O"}, mirror_direct=True)
        for number in range(1, 11):
            js.publish("O.x", b"%d" % number)
        while js.stream_info("S").state.messages < 10:
            pass
        with pytest.raises(NoRespondersError):
            js.get_msg("S", 1, level="direct")
        reader = JetStreamDataSource({"servers": server.url, "stream": "S"}).reader(COLUMNS)
        with pytest.raises(OptionError, match="stream S does not answer Direct Gets: update it with allow_direct=True"):
            reader.partitions()
        js.update_stream("S", allow_direct=True)
        assert read(reader, reader.partitions()) == [*range(1, 11)]
        assert planning.ended_at(js.stream_info("S")) is None
        info = js.stream_info("O")
        assert info.ts is not None
        assert planning.ended_at(info) == info.ts - round(rules.ELECTION * 1e9)
