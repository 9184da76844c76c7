"""Both roles: a client keeps keys and values in a bucket of the server role, without sockets."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import MessageTTLDisabledError
from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.bucket_session import open_session
from jsproto.client.bucket.manage import space_of
from jsproto.client.bucket.watch import Watch, WatchPlan
from jsproto.client.connection.session import Session
from jsproto.client.jetstream import JetStream
from jsproto.errors import (
    BadBucketError,
    BucketExistsError,
    BucketNotFoundError,
    DirectReadsDisabledError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    LocalProtocolError,
    NoRespondersError,
    NoStreamResponseError,
    ValueTooLargeError,
)
from jsproto.events import MessagesMissed
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.bucket_keys import KeyValueEntry
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.key_codecs import Base64Keys
from jsproto.testing.pair import Pair
from jsproto.wire.decoder import Decoder
from jsproto.wire.frames import Pub
from tests.marks import promise


class Side:
    """A client with the bucket B."""

    def __init__(self, **options: Any) -> None:
        self.pair = Pair()
        self.pair.connect()
        self.bucket: Bucket = self.ask("create_bucket", "B", **options)

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A verb of JetStream."""
        return self.pair.run_until(getattr(self.pair.js, verb)(*arguments, now=self.pair.now, **options))

    def do(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A verb of the bucket."""
        return self.pair.run_until(getattr(self.bucket, verb)(*arguments, now=self.pair.now, **options))

    def put_raw(self, subject: str, value: bytes = b"", **options: Any) -> int:
        seq: int = self.ask("publish", subject, value, **options).seq
        return seq

    def take(self, watch: Watch, count: int) -> list[Any]:
        """So many things of a watcher: the key with its operation or value, or None."""
        taken: list[Any] = []
        while len(taken) < count:
            self.pair.run_until(watch.readable())
            taken += [shown(each) for each in watch.pop_many(1, self.pair.now)]
        return taken


def shown(entry: KeyValueEntry | None) -> Any:
    if entry is None:
        return None
    return entry.key, entry.operation if entry.is_marker else entry.value


# -- buckets -----------------------------------------------------------------------------------------------------------


def test_a_bucket_is_a_stream() -> None:
    side = Side(history=3)
    config = side.ask("stream_info", "KV_B").config
    assert (config.subjects, config.max_msgs_per_subject, config.discard) == (["$KV.B.>"], 3, "new")
    assert side.bucket.config.history == 3
    again = side.ask("create_bucket", "B", history=3)
    assert again.config.history == 3
    with pytest.raises(BucketExistsError, match="bucket B: .* update_bucket"):
        side.ask("create_bucket", "B", history=4)


def test_what_is_bound_to() -> None:
    side = Side()
    side.ask("create_stream", StreamConfig("KV_X", subjects=["x"]))
    assert side.ask("bucket", "B").space.stream == "KV_B"
    with pytest.raises(BucketNotFoundError, match="bucket NONE: it does not exist"):
        side.ask("bucket", "NONE")
    with pytest.raises(BadBucketError, match="max_msgs_per_subject"):
        side.ask("bucket", "X")
    for verb in ("bucket", "create_bucket", "update_bucket", "delete_bucket"):
        with pytest.raises(LocalProtocolError, match="a bucket's name"):
            side.ask(verb, "a.b")


@promise("`update_bucket` reads the configuration first, and leaves what it is not told as it is.")
def test_an_update_keeps_the_rest() -> None:
    side = Side(history=3, ttl=60)
    side.ask("change_stream", "KV_B", {"description": "d"})
    status = side.ask("update_bucket", "B", history=5)
    assert (status.config.history, status.config.ttl, status.config.description) == (5, 60.0, "d")
    assert status.info.config.allow_atomic
    with pytest.raises(LocalProtocolError, match="history"):
        side.ask("update_bucket", "B", history=99)
    with pytest.raises(BucketNotFoundError):
        side.ask("update_bucket", "NONE", history=5)


def test_lists_and_deletion() -> None:
    side = Side()
    side.ask("create_stream", StreamConfig("ORDERS", subjects=["o"]))
    side.ask("create_bucket", "A")
    side.ask("create_bucket", "M", mirror="B")
    side.do("put", "k", b"1")
    assert side.ask("bucket_names") == ["A", "B", "M"]
    assert [(each.bucket, each.values) for each in side.ask("buckets")][:2] == [("A", 0), ("B", 1)]
    status = side.do("status")
    assert (status.bucket, status.values, status.last_revision, status.config.history) == ("B", 1, 1, 1)
    assert status.bytes > 0
    assert side.ask("delete_bucket", "A") is True
    with pytest.raises(BucketNotFoundError):
        side.ask("delete_bucket", "A")


def test_verbs_of_a_bucket_that_is_gone() -> None:
    side = Side()
    side.ask("delete_bucket", "B")
    for verb, arguments in (
        ("get", ("k",)), ("get_many", (["k"],)), ("status", ()), ("keys", ()), ("watch", ()), ("purge_deletes", ()),
        ("snapshot", ()), ("put", ("k", b"1")), ("create", ("k", b"1")), ("delete", ("k",)),
    ):  # fmt: skip
        with pytest.raises(BucketNotFoundError):
            side.do(verb, *arguments)
    with pytest.raises(BucketNotFoundError):
        side.do("get", "k", level="direct")


def test_verbs_of_a_bucket_that_has_no_leader_just_now() -> None:
    side = Side()
    side.pair.server.lose_leader("KV_B")
    for verb, arguments in (("put", ("k", b"1")), ("create", ("k", b"1"))):
        with pytest.raises(NoStreamResponseError, match="no leader"):
            side.do(verb, *arguments)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_put_and_get() -> None:
    side = Side(history=2)
    assert [side.do("put", "k", value) for value in (b"1", b"2", b"3")] == [1, 2, 3]
    entry = side.do("get", "k")
    assert (entry.bucket, entry.key, entry.value, entry.revision, entry.operation) == ("B", "k", b"3", 3, "PUT")
    assert side.do("get", "k", revision=2).value == b"2"
    assert side.do("get", "k", level="leader") == entry
    side.do("put", "other", b"")
    for key, revision, words in (
        ("k", 1, "no revision 1"),
        ("k", 9, "no revision 9"),
        ("k", 4, "revision 4 is of 'other'"),
    ):
        with pytest.raises(KeyNotFoundError, match=words) as raised:
            side.do("get", key, revision=revision)
        assert raised.value.revision == revision
    with pytest.raises(KeyNotFoundError, match="bucket B: key 'none': it has no value") as raised:
        side.do("get", "none")
    assert (raised.value.key, raised.value.revision, raised.value.bucket) == ("none", 0, "B")


def test_a_deleted_key() -> None:
    side = Side(history=5)
    side.do("put", "k", b"1")
    assert side.do("delete", "k") == 2
    with pytest.raises(KeyDeletedError, match=r"revision 2 deleted it \(DEL\)") as raised:
        side.do("get", "k")
    assert (raised.value.operation, raised.value.revision) == ("DEL", 2)
    assert side.do("get", "k", revision=1).value == b"1"
    with pytest.raises(KeyDeletedError):
        side.do("get", "k", revision=2)
    assert side.do("purge", "k") == 3
    with pytest.raises(KeyDeletedError, match="PURGE"):
        side.do("get", "k")
    with pytest.raises(KeyNotFoundError, match="no revision 1"):
        side.do("get", "k", revision=1)
    assert side.ask("stream_info", "KV_B").state.messages == 1


@promise("only if nobody has changed it since")
def test_expected_revisions() -> None:
    side = Side()
    assert side.do("update", "k", b"1", 0) == 1
    assert side.do("update", "k", b"2", 1) == 2
    for verb, arguments, last in (("update", (b"3", 1), {}), ("delete", (), {"last": 1}), ("purge", (), {"last": 1})):
        with pytest.raises(KeyWrongLastSequenceError, match="the last revision is 2") as raised:
            side.do(verb, "k", *arguments, **last)
        assert (raised.value.revision, raised.value.key) == (2, "k")
    assert side.do("delete", "k", last=2) == 3
    with pytest.raises(KeyWrongLastSequenceError):
        side.do("update", "k", b"4", 0)
    assert side.do("purge", "k", last=3) == 4
    assert side.do("update", "k", b"5", 4) == 5


def test_create() -> None:
    side = Side()
    assert side.do("create", "k", b"1") == 1
    with pytest.raises(KeyExistsError, match="it exists, with revision 1") as raised:
        side.do("create", "k", b"2")
    assert raised.value.revision == 1
    side.do("delete", "k")
    assert side.do("create", "k", b"3") == 3
    side.do("purge", "k")
    assert side.do("create", "k", b"4") == 5
    assert side.do("get", "k").value == b"4"


def test_times_to_live() -> None:
    side = Side(marker_ttl=5)
    side.do("create", "k", b"1", ttl=2)
    side.pair.advance(3)
    with pytest.raises(KeyDeletedError, match="PURGE"):
        side.do("get", "k")
    assert side.do("create", "k", b"2") == 3
    side.do("purge", "k", ttl=2)
    side.pair.advance(3)
    with pytest.raises(KeyNotFoundError):
        side.do("get", "k")
    side.ask("create_stream", StreamConfig("KV_O", subjects=["$KV.O.>"], max_msgs_per_subject=1))
    other = side.ask("bucket", "O")
    with pytest.raises(MessageTTLDisabledError):
        side.pair.run_until(other.create("k", b"1", ttl=2, now=side.pair.now))


def test_where_direct_get_is_off() -> None:
    side = Side(direct=False)
    side.do("put", "k", b"1")
    assert side.do("get", "k").value == b"1"
    assert side.do("get", "k", revision=1).value == b"1"
    assert side.do("keys") == ["k"]
    for verb, arguments in (("get_many", (["k"],)), ("snapshot", ())):
        with pytest.raises(DirectReadsDisabledError, match=r"^bucket B: .*update_bucket\('B', direct=True\)") as raised:
            side.do(verb, *arguments)
        assert isinstance(raised.value, NoRespondersError)
        assert (raised.value.bucket, raised.value.subject) == ("B", "$JS.API.DIRECT.GET.KV_B")
    with pytest.raises(DirectReadsDisabledError):
        side.do("get", "k", level="direct")


def test_values_with_headers_that_are_too_large() -> None:
    """The size that the error has is the least that the bucket must allow."""
    side = Side(max_value_size=10)
    assert side.do("put", "k", b"x" * 10) == 1
    refused: list[tuple[str, str, tuple[Any, ...]]] = [
        ("k", "put", (b"x" * 60,)), ("new", "create", (b"x" * 60,)), ("k", "update", (b"x", 2)), ("k", "purge", ()),
    ]  # fmt: skip
    for key, verb, arguments in refused:
        sizes = [11]
        for _ in range(2):
            limit = sizes[-1] - 1
            side.ask("update_bucket", "B", max_value_size=limit)
            with pytest.raises(ValueTooLargeError, match=f"key '{key}': .* is {limit}: raise it with up") as raised:
                side.do(verb, key, *arguments)
            assert (raised.value.bucket, raised.value.key, raised.value.limit) == ("B", key, limit)
            sizes.append(raised.value.size)
        side.ask("update_bucket", "B", max_value_size=sizes[-1])
        side.do(verb, key, *arguments)
    side.ask("update_bucket", "B", max_value_size=70)
    lock = side.bucket.lock("job", ttl=10)
    with pytest.raises(ValueTooLargeError, match="key 'job': the value has"):
        side.pair.run_until(lock.acquire(now=side.pair.now))
    side.ask("update_bucket", "B", max_value_size=1_000)
    side.pair.run_until(lock.acquire(now=side.pair.now))
    with pytest.raises(ValueTooLargeError, match="key 'k': the value has 1[0-9]{3} bytes"):
        side.pair.run_until(lock.put("k", b"x" * 990, now=side.pair.now))
    side.pair.run_until(lock.renew(now=side.pair.now))


def test_many_keys_in_one_request() -> None:
    side = Side()
    for number in range(5):
        side.do("put", f"k.{number}", b"%d" % number)
    side.do("delete", "k.3")
    found = side.do("get_many", ["k.0", "none", "k.3", "k.1", "k.0"])
    assert {key: entry.value for key, entry in found.items()} == {"k.0": b"0", "k.1": b"1"}
    assert side.do("get_many", []) == {}
    assert side.do("get_many", ["none"]) == {}
    with pytest.raises(LocalProtocolError):
        side.do("get_many", ["k.*"])


def test_more_keys_than_a_server_answers_for_at_once() -> None:
    side = Side()
    for number in (0, 1500):
        side.do("put", f"k{number}", b"%d" % number)
    found = side.do("get_many", [f"k{number}" for number in range(1600)])
    assert {key: entry.value for key, entry in found.items()} == {"k0": b"0", "k1500": b"1500"}


@pytest.mark.parametrize("count", [1, 1600])
def test_a_read_of_many_that_is_given_up(count: int) -> None:
    side = Side()
    ticket = side.bucket.get_many([f"k{number}" for number in range(count)], now=side.pair.now)
    side.pair.client.abandon(ticket, side.pair.now)
    side.pair.exchange()
    with pytest.raises(LocalProtocolError):
        ticket.result()


def test_keys_that_are_reserved() -> None:
    side = Side()
    side.put_raw("$KV.B._kv.guard", b"1")
    side.do("put", "k", b"2")
    for key in ("_kv", "_kv.guard", "_kvx"):
        with pytest.raises(LocalProtocolError, match="reserved"):
            side.do("put", key, b"3")
    side.do("put", "_k", b"3")
    assert side.do("keys") == ["k", "_k"]
    assert [*side.do("snapshot")] == ["k", "_k"]
    assert len(side.do("history")) == 2
    assert side.take(side.do("watch"), 3) == [("k", b"2"), ("_k", b"3"), None]
    side.bucket = side.ask("bucket", "B", validate_keys=False)
    assert side.do("keys") == ["_kv.guard", "k", "_k"]
    assert side.do("get", "_kv.guard").value == b"1"


# -- snapshots and sessions --------------------------------------------------------------------------------------------


def test_a_snapshot() -> None:
    side = Side(history=3)
    assert len(side.do("snapshot")) == 0
    for key, value in (("a.1", b"1"), ("b", b"2"), ("a.2", b"3"), ("a.1", b"4")):
        side.do("put", key, value)
    side.do("delete", "b")
    shot = side.do("snapshot")
    assert [(key, entry.value, entry.revision) for key, entry in shot.items()] == [("a.2", b"3", 3), ("a.1", b"4", 4)]
    assert (shot.bucket, shot.revision, shot.markers) == ("B", 5, {"b": 5})
    assert repr(shot) == "<BucketSnapshot of B at revision 5: 2 keys>"
    assert (shot["a.1"].value, "b" in shot) == (b"4", False)
    assert [*side.do("snapshot", "a.2", "b")] == ["a.2"]
    with pytest.raises(LocalProtocolError):
        side.do("snapshot", "a..b")


def test_a_session_with_a_bucket() -> None:
    side = Side(history=2)
    session = open_session(side.bucket)

    def do(verb: str, *arguments: Any, **options: Any) -> Any:
        return side.pair.run_until(getattr(session, verb)(*arguments, now=side.pair.now, **options))

    assert [do("put", "k", b"1"), do("update", "k", b"2", 1), do("create", "l", b"3")] == [1, 2, 3]
    assert session.session.token["KV_B"].floor == 3
    assert (do("get", "k").value, do("get", "k", revision=1).value) == (b"2", b"1")
    assert {key: entry.value for key, entry in do("get_many", ["k", "l", "m"]).items()} == {"k": b"2", "l": b"3"}
    with pytest.raises(LocalProtocolError, match="at most 1024"):
        do("get_many", map(str, range(1025)))
    later = open_session(side.bucket, token=session.session.token.to_bytes(), level="leader")
    assert later.session.token == session.session.token
    assert later.session.level == "leader"
    mirror = side.ask("create_bucket", "M", mirror="B")
    with pytest.raises(LocalProtocolError, match="bucket M is a mirror"):
        open_session(mirror)


# -- lists -------------------------------------------------------------------------------------------------------------


def test_keys() -> None:
    side = Side(history=3)
    assert side.do("keys") == []
    for key in ("b.1", "a.1", "a.2", "c", "b.1"):
        side.do("put", key, b"x")
    side.do("delete", "c")
    assert side.do("keys") == ["a.1", "a.2", "b.1"]
    assert side.do("keys", "a.*") == ["a.1", "a.2"]
    assert side.do("keys", "b.1", "a.1") == ["a.1", "b.1"]
    assert side.do("keys", "a.>", "a.1", "b.*") == ["a.1", "a.2", "b.1"]
    assert side.do("keys", "none") == []
    assert side.ask("stream_info", "KV_B").state.consumer_count == 0
    with pytest.raises(LocalProtocolError):
        side.do("keys", "a..b")


def test_keys_are_listed_without_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[WatchPlan] = []
    real = WatchPlan.subscription

    def subscription(plan: WatchPlan, stream: str) -> Any:
        plans.append(plan)
        return real(plan, stream)

    monkeypatch.setattr(WatchPlan, "subscription", subscription)
    side = Side()
    side.do("keys")
    side.do("purge_deletes")
    side.do("history")
    assert [each.config.get("headers_only") for each in plans] == [True, True, None]


def test_a_key_that_is_deleted_while_keys_are_listed() -> None:
    side = Side()
    for key in ("a", "b"):
        side.do("put", key, b"x")
    ticket = side.bucket.keys(now=side.pair.now)
    side.do("delete", "a")
    assert side.pair.run_until(ticket) in (["a", "b"], ["b"])


def test_history() -> None:
    side = Side(history=3)
    for value in (b"1", b"2", b"3", b"4"):
        side.do("put", "k", value)
    side.do("put", "other", b"x")
    side.do("delete", "k")
    assert [shown(each) for each in side.do("history", "k")] == [("k", b"3"), ("k", b"4"), ("k", "DEL")]
    assert [each.revision for each in side.do("history", ">")] == [3, 4, 5, 6]
    assert side.do("history", "none") == []


def test_old_markers_are_removed() -> None:
    side = Side(history=5)
    for key in ("old", "young", "kept"):
        side.do("put", key, b"1")
    side.do("delete", "old")
    side.pair.advance(100)
    side.do("delete", "young")
    assert side.do("purge_deletes", older_than=50) == 3
    assert [shown(each) for each in side.do("history")] == [("kept", b"1"), ("young", "DEL")]
    assert side.do("purge_deletes", older_than=0) == 1
    assert side.do("keys") == ["kept"]
    assert side.do("purge_deletes") == 0
    with pytest.raises(LocalProtocolError, match="older_than"):
        side.do("purge_deletes", older_than=-1)


def test_a_young_marker_without_history_stays() -> None:
    side = Side()
    side.do("delete", "k")
    assert side.do("purge_deletes") == 0
    assert [shown(each) for each in side.do("history")] == [("k", "DEL")]


@promise("A value that was put meanwhile stays.")
def test_a_value_that_is_put_meanwhile_is_not_purged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge is asked for up to the marker, so that a value after it stays."""
    side = Side(history=3)
    asked: list[Any] = []
    real = JetStream.purge_stream

    def purge(js: JetStream, name: str, **keywords: Any) -> Any:
        asked.append((keywords["subject"], keywords["seq"]))
        return real(js, name, **keywords)

    monkeypatch.setattr(JetStream, "purge_stream", purge)
    side.do("put", "k", b"1")
    side.do("delete", "k")
    side.do("purge_deletes", older_than=0)
    assert asked == [("$KV.B.k", 3)]
    side.do("delete", "k")
    side.do("put", "k", b"2")
    side.ask("purge_stream", "KV_B", subject="$KV.B.k", seq=4)
    assert [shown(each) for each in side.do("history")] == [("k", b"2")]


def test_keys_that_other_clients_have_made() -> None:
    side = Side(history=2)
    for key in ("ä", "a*", "x>y", "a:b"):
        side.put_raw(f"$KV.B.{key}", b"1")
    assert side.do("keys") == ["ä", "a*", "x>y", "a:b"]
    with pytest.raises(LocalProtocolError):
        side.do("get", "ä")
    wide = side.ask("bucket", "B", validate_keys=False)
    assert side.pair.run_until(wide.get("ä", now=side.pair.now)).value == b"1"
    side.pair.run_until(wide.delete("a*", now=side.pair.now))
    side.do("purge_deletes", older_than=0)
    assert side.do("keys") == ["ä", "x>y", "a:b"]


def test_codecs() -> None:
    side = Side(codec=Base64Keys())
    side.do("put", "Grüße.an alle", b"1")
    side.put_raw("$KV.B.no_code", b"2")
    assert side.do("get", "Grüße.an alle").key == "Grüße.an alle"
    assert side.do("keys") == ["Grüße.an alle", "no_code"]
    assert side.do("keys", "Grüße.*") == ["Grüße.an alle"]
    assert side.do("get_many", ["Grüße.an alle"]).keys() == {"Grüße.an alle"}
    assert side.ask("stream_subjects", "KV_B") == {"$KV.B.R3LDvMOfZQ.YW4gYWxsZQ": 1, "$KV.B.no_code": 1}


# -- watching ----------------------------------------------------------------------------------------------------------


def test_a_watch_of_an_empty_bucket() -> None:
    side = Side()
    watch = side.do("watch")
    assert watch.readable().done
    assert side.take(watch, 1) == [None]
    assert (watch.pending_msgs, watch.subject, watch.bucket) == (0, "$KV.B.>", "B")
    side.do("put", "k", b"1")
    assert side.take(watch, 1) == [("k", b"1")]
    assert not watch.readable().done


def test_a_watch() -> None:
    side = Side(history=3)
    for key, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        side.do("put", key, value)
    watch = side.do("watch")
    assert side.take(watch, 3) == [("b", b"2"), ("a", b"3"), None]
    side.do("delete", "b")
    side.do("put", "c", b"4")
    assert side.take(watch, 2) == [("b", "DEL"), ("c", b"4")]
    watch.unsubscribe(side.pair.now)
    assert watch.error is not None
    side.pair.exchange()
    assert side.ask("stream_info", "KV_B").state.consumer_count == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"history": True}, [("a", b"1"), ("b", b"22"), ("a", b"3"), ("b", "DEL"), None, ("c", b"5")]),
        ({"ignore_deletes": True}, [("a", b"3"), None, ("c", b"5")]),
        ({"updates_only": True}, [("c", b"5")]),
        ({"meta_only": True}, [("a", b""), ("b", "DEL"), None, ("c", b"")]),
        ({"since": 2}, [("b", b"22"), ("a", b"3"), ("b", "DEL"), None, ("c", b"5")]),
        ({"since": 2, "history": True}, [("b", b"22"), ("a", b"3"), ("b", "DEL"), None, ("c", b"5")]),
        ({"since": 5}, [None, ("c", b"5")]),
    ],
)
def test_what_a_watcher_sees(options: dict[str, Any], expected: list[Any]) -> None:
    side = Side(history=5)
    for key, value in (("a", b"1"), ("b", b"22"), ("a", b"3")):
        side.do("put", key, value)
    side.do("delete", "b")
    watch = side.do("watch", **options)
    before = expected[:-1]
    assert side.take(watch, len(before)) == before
    side.do("put", "c", b"5")
    assert side.take(watch, 1) == expected[-1:]


def test_sizes_and_deltas() -> None:
    side = Side()
    for key, value in (("a", b"1"), ("b", b"22")):
        side.do("put", key, value)
    watch = side.do("watch", meta_only=True)
    side.pair.run_until(watch.readable())
    entries = [each for each in watch.pop_many(9, side.pair.now) if each is not None]
    assert [(each.size, each.value, each.delta, each.revision) for each in entries] == [(1, b"", 1, 1), (2, b"", 0, 2)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [(["a.*"], ["a.1", "a.2"]), (["a.1", "b.>"], ["a.1", "b.1"]), (["a.>", "a.1"], ["a.1", "a.2"]), (["c"], [])],
)
def test_filters(filters: list[str], expected: list[str]) -> None:
    side = Side()
    for key in ("a.1", "a.2", "b.1"):
        side.do("put", key, b"1")
    watch = side.do("watch", *filters)
    assert side.take(watch, len(expected) + 1) == [*[(key, b"1") for key in expected], None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"updates_only": True, "history": True}, "updates_only"),
        ({"updates_only": True, "since": 1}, "updates_only"),
        ({"since": 0}, "since"),
        ({"track_keys": True, "ignore_deletes": True}, "ignore_deletes"),
        ({"heartbeat": 0.05}, "heartbeat"),
        ({"heartbeat": "1"}, "heartbeat"),
        ({"histroy": True}, "no option 'histroy': did you mean 'history'"),
    ],
)
def test_watches_that_cannot_be(options: dict[str, Any], words: str) -> None:
    side = Side()
    with pytest.raises(LocalProtocolError, match=words):
        side.bucket.watch(now=side.pair.now, **options)
    with pytest.raises(LocalProtocolError, match="a filter is"):
        side.bucket.watch("a..b", now=side.pair.now)
    wrong: Any = ["a.*"]
    with pytest.raises(LocalProtocolError, match="separate arguments"):
        side.bucket.watch(wrong, now=side.pair.now)


def test_a_watch_goes_on_over_a_new_link() -> None:
    side = Side()
    side.do("put", "a", b"1")
    watch = side.do("watch")
    assert side.take(watch, 2) == [("a", b"1"), None]
    side.pair.lose_link()
    side.do("put", "b", b"2")
    assert side.take(watch, 1) == [("b", b"2")]


@promise("It gives each entry once and in order, of each key at least the last one.")
@promise("Each entry comes once and in order.")
@promise("all present entries were here")
@given(
    st.lists(st.sampled_from(["put", "put", "delete", "lose", "take", "wait", "step"]), max_size=30),
    st.sampled_from([1, 64]),
    st.integers(0, 5),
)
def test_a_watch_over_any_number_of_links(steps: list[str], history: int, before: int) -> None:
    side = Side(history=history)
    last: dict[str, int] = {}

    def write(number: int, *, delete: bool = False) -> None:
        key = f"k.{number % 3}"
        last[key] = side.do("delete", key) if delete else side.do("put", key, b"%d" % number)

    for number in range(before):
        write(number)
    present = dict(last)
    watch = side.do("watch", history=history > 1)
    taken: list[KeyValueEntry | None] = []
    for number, step in enumerate(steps):
        if step in ("put", "delete"):
            write(number, delete=step == "delete")
        elif step == "lose":
            side.pair.lose_link()
        elif step == "take":
            taken += watch.pop_many(2, side.pair.now)
        elif step == "wait":
            side.pair.advance(7)
        else:
            side.pair.step()
    write(99)
    while not (seen := [each.revision for each in taken if each is not None]) or seen[-1] != last["k.0"]:
        side.pair.run_until(watch.readable())
        taken += watch.pop_many(9, side.pair.now)
    assert seen == sorted(set(seen))
    assert {each.key: each.revision for each in taken if each is not None} == last
    if history > 1:
        assert seen == [*range(1, last["k.0"] + 1)]
    assert taken.count(None) == 1
    at_end = {each.key: each.revision for each in taken[: taken.index(None)] if each is not None}
    for key, revision in present.items():
        assert at_end.get(key, 0) >= revision or (history == 1 and last[key] > revision)


@promise("After a gap it shows keys that are gone")
@given(
    st.lists(st.sampled_from(["put", "put", "delete", "away", "purge", "take", "wait", "step"]), max_size=30),
    st.sampled_from([1, 64]),
)
def test_a_watch_that_tracks_keys(steps: list[str], history: int) -> None:
    """Keys that go without a trace while it is away, and what it has shown in the end."""
    side = Side(history=history)
    watch = side.do("watch", track_keys=True, history=history > 1)
    taken: list[KeyValueEntry | None] = []
    for number, step in enumerate(steps):
        pair, key = side.pair, f"k.{number % 3}"
        if step in ("put", "delete"):
            pair.is_reachable = True
            side.do("delete", key) if step == "delete" else side.do("put", key, b"%d" % number)
        elif step == "away":
            pair.is_reachable = False
            pair.lose_link()
        elif step == "purge" and not pair.is_reachable:
            pair.server.stream("KV_B").purge(f"$KV.B.{key}")
        elif step == "take":
            taken += watch.pop_many(2, pair.now)
        elif step == "wait":
            pair.advance(7)
        else:
            pair.step()
    side.pair.is_reachable = True
    side.do("put", "end", b"")
    for _ in range(4):
        side.pair.advance(10)
        taken += watch.pop_many(99, side.pair.now)
    known: dict[str, int] = {}
    for each in taken:
        if each is not None:
            known.pop(each.key, None)
            if not each.is_marker:
                known[each.key] = each.revision
    assert known == {key: each.revision for key, each in side.do("snapshot").items()}
    assert taken.count(None) == 1


def test_what_expires_unseen_is_no_loss() -> None:
    side = Side(ttl=10, history=64)
    watch = side.do("watch", history=True)
    for number in range(5):
        side.do("put", "k", b"%d" % number)
    side.pair.advance(60)
    side.do("put", "k", b"new")
    assert side.take(watch, 7) == [None, *[("k", b"%d" % number) for number in range(5)], ("k", b"new")]
    assert [each for each in side.pair.events if isinstance(each, MessagesMissed)] == []


def test_revisions_that_are_gone_are_no_loss() -> None:
    side = Side(ttl=10, history=64)
    for number in range(3):
        side.do("put", "k", b"%d" % number)
    side.pair.advance(60)
    side.do("put", "k", b"new")
    watch = side.do("watch", since=2)
    assert side.take(watch, 2) == [("k", b"new"), None]
    assert [each for each in side.pair.events if isinstance(each, MessagesMissed)] == []


def test_a_watch_that_is_given_up() -> None:
    side = Side()
    for verb in ("watch", "keys", "history", "purge_deletes"):
        ticket = getattr(side.bucket, verb)(now=side.pair.now)
        side.pair.client.abandon(ticket, side.pair.now)
    side.pair.advance(1)
    watch = side.do("watch")
    side.pair.client.abandon(watch, side.pair.now)
    assert watch.error is not None
    side.pair.advance(400)
    assert side.ask("stream_info", "KV_B").state.consumer_count == 0


# -- mirrors and domains -----------------------------------------------------------------------------------------------


def test_a_mirror_is_read_itself_and_written_through_its_origin() -> None:
    side = Side()
    side.do("put", "k", b"1")
    mirror = side.ask("create_bucket", "M", mirror="B")
    side.pair.advance(1)
    assert side.pair.run_until(mirror.get("k", now=side.pair.now)).value == b"1"
    assert side.pair.run_until(mirror.put("k", b"2", now=side.pair.now)) == 2
    assert side.do("get", "k").value == b"2"
    side.pair.advance(1)
    entry = side.pair.run_until(mirror.get("k", now=side.pair.now))
    assert (entry.bucket, entry.key, entry.value) == ("M", "k", b"2")
    assert side.pair.run_until(mirror.keys(now=side.pair.now)) == ["k"]


def test_a_source() -> None:
    side = Side()
    side.do("put", "k", b"1")
    other = side.ask("create_bucket", "O", sources=["B"])
    side.pair.advance(1)
    assert side.pair.run_until(other.get("k", now=side.pair.now)).value == b"1"
    assert side.pair.run_until(other.put("own", b"2", now=side.pair.now)) == 2


def test_a_mirror_of_another_domain() -> None:
    mirror: Any = {"name": "KV_B", "external": {"api": "$JS.hub.API"}}
    space = space_of(BucketConfig(StreamConfig("KV_M", max_msgs_per_subject=1, mirror=mirror)), "$JS.leaf.API")
    assert (space.subject("k"), space.target("k")) == ("$KV.B.k", "$JS.hub.API.$KV.B.k")


# -- how many requests -------------------------------------------------------------------------------------------------

WATCHED = ["STREAM.INFO.KV_B", "CONSUMER.CREATE.KV_B", "STREAM.INFO.KV_B"]
"""What opens a watch. The stream is looked at before and after, so that no other one is mistaken for it."""


class Counted(Side):
    """A side whose requests are seen, without the names of consumers and filters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(history=2)
        decoder, send = Decoder("server"), Session.data_to_send
        self.requests: list[str] = []

        def data_to_send(session: Session) -> Any:
            data = send(session)
            for frame in decoder.feed(b"".join(data)):
                if isinstance(frame, Pub) and frame.reply is not None:
                    subject = frame.subject.decode().removeprefix("$JS.API.")
                    self.requests.append(re.sub(r"(CONSUMER\.\w+\.KV_B).*", r"\1", subject))
            return data

        monkeypatch.setattr(Session, "data_to_send", data_to_send)

    def of(self, verb: str, *arguments: Any, **options: Any) -> list[str]:
        self.requests.clear()
        self.do(verb, *arguments, **options)
        self.pair.advance(0.1)  # a list tells the server that its consumer can go
        return self.requests


def test_requests_of_each_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Counted(monkeypatch)
    listing = [*WATCHED, "CONSUMER.DELETE.KV_B"]
    assert side.of("put", "k", b"1") == ["$KV.B.k"]
    assert side.of("update", "k", b"2", 1) == ["$KV.B.k"]
    assert side.of("create", "new", b"1") == ["$KV.B.new"]
    assert side.of("get", "k") == ["DIRECT.GET.KV_B.$KV.B.k"]
    assert side.of("get", "k", level="leader") == ["STREAM.MSG.GET.KV_B"]
    assert side.of("get", "k", revision=1) == ["DIRECT.GET.KV_B"]
    assert side.of("get_many", ["k", "new", "none"]) == ["DIRECT.GET.KV_B"]
    assert side.of("snapshot") == ["STREAM.INFO.KV_B", "DIRECT.GET.KV_B"]
    assert side.of("delete", "k") == ["$KV.B.k"]
    assert side.of("create", "k", b"3") == ["$KV.B.k", "STREAM.MSG.GET.KV_B", "$KV.B.k"]
    assert side.of("purge", "k") == ["$KV.B.k"]
    assert side.of("keys") == listing
    assert side.of("keys", "a.*", "b") == listing
    assert side.of("history", "k") == listing
    assert side.of("purge_deletes", older_than=0) == ["STREAM.INFO.KV_B", *listing, "STREAM.PURGE.KV_B"]
    assert side.of("watch") == WATCHED
    assert side.of("status") == ["STREAM.INFO.KV_B"]
    side.bucket = open_session(side.bucket)
    for verb, arguments, asked in (
        ("put", ("s", b"1"), "$KV.B.s"), ("get", ("s",), "DIRECT.GET.KV_B"), ("get_many", (["s"],), "DIRECT.GET.KV_B"),
    ):  # fmt: skip
        assert side.of(verb, *arguments) == [asked]


def test_requests_about_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Counted(monkeypatch)
    for verb, arguments, asked in (
        ("create_bucket", ("C",), ["STREAM.CREATE.KV_C"]), ("bucket", ("C",), ["STREAM.INFO.KV_C"]),
        ("update_bucket", ("C",), [*["STREAM.INFO.KV_C"] * 3, "STREAM.UPDATE.KV_C"]),
        ("bucket_names", (), ["STREAM.NAMES"]), ("buckets", (), ["STREAM.LIST"]),
        ("delete_bucket", ("C",), ["STREAM.DELETE.KV_C"]),
    ):  # fmt: skip
        side.requests.clear()
        side.ask(verb, *arguments, **({"history": 2} if verb == "update_bucket" else {}))
        assert side.requests == asked
