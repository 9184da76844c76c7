"""Where the present entries of a watched bucket end, delivery by delivery."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.client.bucket.listing import key_names, purge_deletes
from jsproto.client.bucket.watch import Watch, WatchPlan
from jsproto.client.jetstream import JetStream
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry, Operation
from jsproto.grammar.config import StreamConfig, StreamInfo, StreamState
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.ticket import Ticket
from tests.client.ordering import Reading
from tests.client.test_ordered_idle import beat
from tests.harness import Harness

SPACE = KeySpace("B")


class Watched(Reading):
    """A watch of a stream that ends at 9, and whose consumer has some messages."""

    def __init__(self, pending: int = 3, end: int | None = None, at: int = 0, **options: Any) -> None:
        """``end``: what the leader says."""
        super().__init__(ConsumerConfig(filter_subject="s.a"), answer=False)
        self.last_seq = 9
        self.created(at=at, pending=pending)
        plan = WatchPlan.of(SPACE, (), **options)
        self.watch = Watch(self.h.js, self.ordered, SPACE, plan, end)  # type: ignore[arg-type]

    def pop(self, most: int = 100) -> list[int | None]:
        return [None if entry is None else entry.revision for entry in self.watch.pop_many(most, self.h.now)]


def test_the_end_is_where_the_consumer_had_no_more() -> None:
    watched = Watched()
    watched.push(2, pending=1)
    assert watched.pop() == [2]
    watched.push(5, pending=0)
    watched.push(10, pending=0)
    assert watched.pop() == [5, None, 10]


def test_the_end_is_where_the_stream_ended_though_more_comes_all_the_time() -> None:
    watched = Watched()
    watched.push(2, pending=7)
    watched.push(9, pending=7)
    assert watched.pop() == [2, 9, None]
    watched.push(10, pending=0)
    assert watched.pop() == [10]


def test_the_end_is_before_what_is_newer() -> None:
    watched = Watched()
    watched.push(2, pending=7)
    watched.push(10, pending=7)
    assert watched.pop() == [2, None, 10]


def test_a_heartbeat_ends_them_where_the_last_message_went_on_its_way() -> None:
    watched = Watched()
    watched.push(2, pending=1)
    watched.push(3, pending=1)
    watched.status(beat(b"9", 2))
    assert watched.pop(1) == [2]
    assert watched.watch.readable().done
    assert watched.pop(1) == [3, None]
    assert not watched.watch.readable().done


def test_there_may_be_none_at_all() -> None:
    watched = Watched(pending=0)
    assert watched.watch.readable().done
    assert watched.pop() == [None]
    assert Watched(pending=0, updates_only=True).pop() == []


def test_whoever_waits_learns_of_the_end_by_a_heartbeat() -> None:
    watched = Watched()
    assert watched.pop() == []
    waits = watched.watch.readable()
    watched.status(beat(b"9"))
    assert waits.done
    assert watched.pop() == [None]


def test_a_stream_whose_end_nobody_tells() -> None:
    """Without permission to ask for it, what the consumer has left tells."""
    watched = Watched()
    watched.watch._end = None
    watched.push(10, pending=1)
    watched.push(11, pending=0)
    assert watched.pop() == [10, 11, None]


# -- lists of what a watcher has seen ----------------------------------------------------------------------------------


def entry(key: str, revision: int, operation: Operation = "PUT", timestamp: int = 0) -> KeyValueEntry:
    return KeyValueEntry("B", key, b"", revision, timestamp, operation, 0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[KeyValueEntry]:
    """What a watcher sees."""
    entries: list[KeyValueEntry] = []

    def present(js: Any, keys: Any, plan: WatchPlan, now: float) -> Any:
        assert plan.config == {"headers_only": True, "deliver_policy": "last_per_subject", "idle_heartbeat": 5.0}
        assert not plan.ignores_deletes
        return entries
        yield

    monkeypatch.setattr("jsproto.client.bucket.listing.present", present)
    return entries


def test_a_key_that_is_deleted_or_written_while_it_is_listed(seen: list[KeyValueEntry]) -> None:
    seen += [entry("a", 1), entry("b", 2), entry("c", 3), entry("a", 4, "DEL"), entry("b", 5)]
    h = Harness()
    ticket = h.session.run(key_names(h.js, SPACE, WatchPlan.of(SPACE, (), meta_only=True), h.now))
    assert ticket.result() == ["c", "b"]


@pytest.mark.parametrize(
    ("history", "asked"),
    [(1, [("old", 8)]), (5, [("old", 8), ("young", 9)]), (64, [("old", 8), ("young", 9)])],
)
def test_which_markers_are_purged(
    seen: list[KeyValueEntry], monkeypatch: pytest.MonkeyPatch, history: int, asked: list[Any]
) -> None:
    """By the server's clock. A key that has a value again is none."""
    seen += [entry("again", 6, "DEL"), entry("old", 7, "DEL", 100), entry("young", 9, "PURGE", 101), entry("again", 10)]
    h, purged = Harness(), []

    def stream_info(js: JetStream, name: str, **keywords: Any) -> Ticket[StreamInfo]:
        return done(StreamInfo(StreamConfig("KV_B", max_msgs_per_subject=history), state=StreamState(), ts=130))

    def purge_stream(js: JetStream, name: str, *, subject: str, seq: int, **keywords: Any) -> Ticket[int]:
        purged.append((subject.removeprefix("$KV.B."), seq))
        return done(1)

    monkeypatch.setattr(JetStream, "stream_info", stream_info)
    monkeypatch.setattr(JetStream, "purge_stream", purge_stream)
    ticket = h.session.run(purge_deletes(h.js, SPACE, 30, h.now, None))
    assert purged == asked
    assert ticket.result() == len(asked)


def done(value: Any) -> Ticket[Any]:
    ticket: Ticket[Any] = Ticket()
    ticket.succeed(value)
    return ticket
