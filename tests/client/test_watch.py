"""Where the present entries of a watched bucket end, delivery by delivery."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.listing import key_names, purge_deletes
from jsproto.client.bucket.watch import LAG, Watch, WatchPlan
from jsproto.client.jetstream import JetStream
from jsproto.errors import BucketNotFoundError, ConnectionClosedError, PermissionsViolationError
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry, Operation
from jsproto.grammar.config import StreamConfig, StreamInfo, StreamState
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.ticket import Ticket
from tests.client.ordering import NOBODY, Reading, silence
from tests.client.pushing import ack_subject, info, refusal
from tests.client.test_ordered_idle import beat
from tests.harness import Harness, Pub

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


def test_how_often_a_heartbeat_comes() -> None:
    assert WatchPlan.of(SPACE, ()).config["idle_heartbeat"] == 5.0
    assert WatchPlan.of(SPACE, (), heartbeat=timedelta(seconds=0.5)).config["idle_heartbeat"] == 0.5


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


# -- the end of the present entries, as the leader says ----------------------------------------------------------------


def test_the_end_is_what_the_leader_says_and_no_count() -> None:
    """The consumer's server lags: it counts what it has."""
    watched = Watched(pending=0, end=5)
    assert watched.pop() == []
    assert not watched.watch.readable().done
    watched.push(2, pending=0)
    assert watched.pop() == [2]
    watched.push(5, pending=3)
    assert watched.pop() == [5, None]


def test_where_the_last_one_is_purged_meanwhile_a_heartbeat_ends_them() -> None:
    watched = Watched(pending=0, end=9)
    watched.push(2, pending=0)
    assert watched.pop() == [2]
    watched.status(beat(b"8", 1))
    assert watched.pop() == []
    waits = watched.watch.readable()
    watched.status(beat(b"9", 1))
    assert waits.done
    assert watched.pop() == [None]


def test_where_the_leader_has_none_there_is_none() -> None:
    assert Watched(pending=3, end=0).pop() == [None]
    assert Watched(pending=0, end=7, at=7).pop() == [None]  # the consumer itself has come so far
    assert Watched(pending=0, end=7, at=7, updates_only=True).pop() == []


class Opened:
    """``open_watch`` of a bucket with replicas, up to the questions to its leader."""

    def __init__(self, *filters: str, **options: Any) -> None:
        self.h = Harness()
        config = BucketConfig.of("B", replicas=3)
        self.ticket = Bucket(self.h.js, SPACE, config).watch(*filters, now=self.h.now, **options)
        self.answer({"config": {"name": "KV_B"}, "created": "2026-11-20T21:06:01Z", "state": {"last_seq": 9}})
        (pub,) = self.answer(lambda body: info(body["config"]["name"], body["config"], num_pending=0))
        self.config = json.loads(pub.payload)["config"]
        self.answer({"config": {"name": "KV_B"}, "created": "2026-11-20T21:06:01Z", "state": {"last_seq": 9}})

    def answer(self, body: Any) -> list[Pub]:
        return self.h.answer(lambda pub: body(json.loads(pub.payload)) if callable(body) else body)

    def last(self, *seqs: int) -> list[str]:
        """The leader's last message of each pattern, 0 for none. Returns the patterns."""
        answers = iter(seqs)
        pubs = self.answer(lambda body: last_message(next(answers)))
        return [json.loads(pub.payload)["last_by_subj"] for pub in pubs]


def last_message(seq: int) -> dict[str, Any]:
    if not seq:
        return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
    return {"message": {"subject": "$KV.B.k", "seq": seq, "time": "2026-11-20T20:36:46Z"}}


def test_the_leader_is_asked_about_each_filter() -> None:
    opened = Opened("a.*", "b")
    assert opened.last(4, 0) == ["$KV.B.a.*", "$KV.B.b"]
    assert opened.ticket.result()._end == 4
    opened = Opened()
    assert opened.last(12) == ["$KV.B.>"]
    assert opened.ticket.result()._end == 9  # what came after the consumer is no present entry
    opened = Opened("a", since=5)
    opened.last(4)
    assert opened.ticket.result().pop_many(9, opened.h.now) == [None]


def test_nobody_is_asked_where_there_is_no_end() -> None:
    opened = Opened(updates_only=True)
    assert opened.ticket.done
    assert opened.h.published() == []


def test_a_leader_that_may_not_be_asked() -> None:
    opened = Opened()
    opened.h.session.flush()
    opened.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.MSG.GET.KV_B\"'\r\n")
    assert opened.ticket.result().pop_many(9, opened.h.now) == [None]


def test_a_bucket_that_goes_while_it_is_asked_about() -> None:
    opened = Opened()
    opened.answer({"error": {"code": 404, "err_code": 10059, "description": "stream not found"}})
    with pytest.raises(BucketNotFoundError):
        opened.ticket.result()


# -- keys that are gone ------------------------------------------------------------------------------------------------


class Tracked(Watched):
    """A watch with ``track_keys``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(track_keys=True, **options)

    def key(self, seq: int, key: str, *, deleted: bool = False, pending: int = 0) -> None:
        """The next delivery."""
        self.count += 1
        self.last_seq = max(self.last_seq, seq)
        reply = ack_subject(self.config["name"], self.count, seq, pending=pending)
        header = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n" if deleted else None
        self.h.push(self.config["deliver_subject"], reply, b"", header, b"$KV.B." + key.encode())

    def gap(self) -> None:
        """Another consumer is followed, which has nothing more."""
        silence(self)
        self.created()
        self.beat()

    def beat(self) -> None:
        self.status(beat(b"%d" % self.last_seq, self.count))

    def seen(self, most: int = 99) -> list[Any]:
        taken = self.watch.pop_many(most, self.h.now)
        return [each and (each.key, each.operation, each.revision) for each in taken]

    def list_keys(self, *keys: str, last_seq: int | None = None, pub: Pub | None = None) -> None:
        """The subjects that the stream has are asked for, and told."""
        pub = pub or self.asked_for_keys()
        state = {"last_seq": last_seq or self.last_seq, "subjects": {f"$KV.B.{key}": 1 for key in keys}}
        body = {"config": {"name": "KV_B"}, "created": "2026-11-20T21:06:01Z", "state": state, "total": len(keys)}
        self.h.reply_to(pub, body | {"ts": "2026-11-20T21:06:13Z"})

    def asked_for_keys(self) -> Pub:
        ((what, body, pub),) = self.h.asked()
        assert (what, body) == ("STREAM.INFO.KV_B", {"subjects_filter": "$KV.B.>", "offset": 0})
        return pub


def tracked(*keys: str, **options: Any) -> Tracked:
    """A watch that has shown these keys, of revisions from 1 on."""
    watched = Tracked(**options)
    for seq, key in enumerate(keys, 1):
        watched.key(seq, key)
    watched.pop()
    watched.h.asked()
    return watched


def test_keys_that_are_gone_after_a_gap() -> None:
    watched = tracked("a", "b", "c")
    watched.key(4, "c", deleted=True)
    watched.beat()
    assert watched.seen() == [("c", "DEL", 4)]
    assert watched.h.asked() == []  # there was no gap
    watched.gap()
    waits = watched.watch.readable()
    watched.list_keys("b")
    assert (waits.done, watched.watch.pending_msgs, watched.watch.readable().done) == (True, 1, True)
    (gone,) = watched.watch.pop_many(9, watched.h.now)
    assert gone == KeyValueEntry("B", "a", b"", 0, 1795208773000000000, "PURGE", 0)
    watched.beat()
    assert (watched.h.asked(), watched.watch.readable().done) == ([], False)


def test_nothing_is_gone() -> None:
    watched = tracked("a")
    watched.gap()
    waits = watched.watch.readable()
    watched.list_keys("a")
    assert (waits.done, watched.seen()) == (False, [])


def test_nobody_asks_where_keys_are_not_tracked() -> None:
    watched = Watched()
    watched.push(3, pending=0)
    watched.pop()
    silence(watched)
    watched.created()
    watched.status(beat(b"9"))
    assert watched.h.asked() == []


def test_keys_are_compared_once_all_has_come_that_there_was() -> None:
    watched = tracked("a")
    silence(watched)
    watched.last_seq = 12
    watched.created(at=1)
    watched.key(11, "b", pending=1)
    assert watched.seen() == [("b", "PUT", 11)]
    assert watched.h.asked() == []
    watched.key(12, "c", pending=0)
    assert watched.seen() == [("c", "PUT", 12)]
    watched.list_keys("b", "c")
    assert watched.seen() == [("a", "PURGE", 0)]


def test_what_is_newer_than_the_list_is_no_loss() -> None:
    watched = tracked("a", "b")
    watched.gap()
    pub = watched.asked_for_keys()
    watched.key(20, "a")
    assert watched.seen() == [("a", "PUT", 20)]
    watched.list_keys("x", last_seq=19, pub=pub)
    assert watched.seen() == [("b", "PURGE", 0)]


def test_what_was_received_before_the_list_came_is_not_shown_after_it() -> None:
    """A key that was put, and is gone, in what the application has yet to take."""
    watched = tracked("a", "b")
    watched.gap()
    pub = watched.asked_for_keys()
    watched.key(10, "a")
    watched.key(11, "c")
    watched.key(12, "b")
    watched.key(21, "a")
    watched.key(22, "c")
    watched.list_keys("b", last_seq=20, pub=pub)
    assert watched.seen() == [("a", "PURGE", 0), ("b", "PUT", 12), ("a", "PUT", 21), ("c", "PUT", 22)]


def test_a_list_that_fails_is_asked_for_again() -> None:
    watched = tracked("a")
    watched.gap()
    watched.h.reply_to(watched.asked_for_keys(), None, NOBODY)
    assert watched.h.asked() == []
    watched.beat()
    watched.list_keys()
    assert watched.seen() == [("a", "PURGE", 0)]


def test_whoever_may_not_ask_for_the_list_cannot_watch() -> None:
    watched = tracked("a")
    watched.gap()
    watched.asked_for_keys()
    watched.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.KV_B\"'\r\n")
    assert isinstance(watched.watch.error, PermissionsViolationError)


@pytest.mark.parametrize(("seconds", "is_asked"), [(LAG - 1, False), (LAG, True)])
def test_a_watcher_that_was_behind_compares_too(seconds: float, is_asked: bool) -> None:
    watched = tracked("a")
    watched.key(5, "b", pending=1)
    watched.pop()
    watched.h.now += seconds / 2
    watched.key(6, "b", pending=1)
    watched.pop()
    watched.h.now += seconds / 2
    watched.key(7, "b", pending=0)
    watched.pop()
    assert bool(watched.h.asked()) is is_asked
    watched.h.now += LAG
    watched.key(8, "b", pending=0)
    watched.pop()
    assert watched.h.asked() == []


def test_a_bucket_that_was_made_anew() -> None:
    """Its revisions are lower than those that are known."""
    watched = tracked("a", "b")
    watched.key(30, "c")
    watched.pop()
    silence(watched)
    watched.created(at=30, second=2)
    watched.doubt()
    watched.created(at=30, second=2)
    _, body, watched.request = watched.h.asked()[-1]
    watched.config, watched.count, watched.last_seq = body["config"], 0, 1
    watched.created(at=0, second=2)
    watched.key(1, "c")
    assert watched.seen() == [("c", "PUT", 1)]
    watched.list_keys("c")
    assert watched.seen() == [("a", "PURGE", 0), ("b", "PURGE", 0)]


def test_keys_that_were_compared_before_the_bucket_was_known_to_be_another_one() -> None:
    watched = tracked("x", "a", "b")
    silence(watched)
    watched.created(at=3, pending=0, second=None)
    asked = {what: pub for what, _, pub in watched.h.asked()}
    watched.list_keys("x", last_seq=1, pub=asked["STREAM.INFO.KV_B"])
    assert watched.seen() == []  # revisions 2 and 3 may be newer
    watched.identify(asked["STREAM.INFO.S"], 2)
    watched.doubt()
    watched.created(at=3, second=2)
    _, body, watched.request = watched.h.asked()[-1]
    watched.config, watched.count, watched.last_seq = body["config"], 0, 1
    watched.created(at=1, second=2)
    watched.beat()
    watched.list_keys("x")
    assert watched.seen() == [("a", "PURGE", 0), ("b", "PURGE", 0)]


def test_a_deleted_bucket_ends_the_watch() -> None:
    watched = Watched()
    silence(watched)
    watched.h.reply_to(watched.request, refusal(404, 10059))
    assert isinstance(watched.watch.error, BucketNotFoundError)
    assert isinstance(watched.watch.error.__cause__, StreamNotFoundError)
    with pytest.raises(BucketNotFoundError):
        watched.watch.readable().result()
    watched = Watched()
    watched.watch.unsubscribe(watched.h.now)
    assert isinstance(watched.watch.error, ConnectionClosedError)
