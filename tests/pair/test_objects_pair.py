"""Both roles: a client keeps objects in a bucket of the server role, without sockets."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import StreamStoreFailedError
from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.client.objects import get
from jsproto.client.objects.describing import named
from jsproto.client.objects.put import PutPhase
from jsproto.client.objects.watching import ObjectWatch
from jsproto.errors import (
    BucketExistsError,
    BucketNotFoundError,
    DigestMismatchError,
    LocalProtocolError,
    NoRespondersError,
    ObjectChangedError,
    ObjectChunksLeftError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectLinkError,
    ObjectNotFoundError,
    ObjectStoreFullError,
    ObjectStoreSealedError,
)
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.object_info import ObjectLink
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.ticket import Ticket
from tests.marks import promise
from tests.pair.objects import LossyPair, Side

DATA = bytes(range(250)) * 4  # 1000 bytes


@pytest.fixture(params=[True, False], ids=["fast", "acknowledged"])
def side(request: pytest.FixtureRequest) -> Side:
    return Side(batched=request.param)


# -- buckets -----------------------------------------------------------------------------------------------------------


def test_a_bucket_is_a_stream() -> None:
    side = Side(description="d", ttl=60)
    config = side.ask("stream_info", "OBJ_B").config
    assert (config.subjects, config.discard, config.allow_batched) == (["$O.B.C.>", "$O.B.M.>"], "new", True)
    assert side.ask("create_object_store", "B", description="d", ttl=60).config.ttl == 60.0
    with pytest.raises(BucketExistsError, match="update_object_store"):
        side.ask("create_object_store", "B", ttl=61)
    side.ask("create_stream", StreamConfig("ORDERS", subjects=["o"]))
    assert side.ask("object_store", "B").space.stream == "OBJ_B"
    status = side.ask("update_object_store", "B", description="e")
    assert (status.config.description, status.config.ttl) == ("e", 60.0)
    assert [each.bucket for each in side.ask("object_stores")] == ["B"]
    assert side.do("status").size == 0
    for verb in ("object_store", "update_object_store", "delete_object_store"):
        with pytest.raises(BucketNotFoundError):
            side.ask(verb, "NONE")
        with pytest.raises(LocalProtocolError):
            side.ask(verb, "a.b")
    assert side.ask("delete_object_store", "B") is True
    for verb, arguments in (("info", ("x",)), ("list", ()), ("delete", ("x",)), ("gc", ()), ("status", ())):
        with pytest.raises(BucketNotFoundError):
            side.do(verb, *arguments)
    with pytest.raises(BucketNotFoundError):
        side.put("x", DATA)


# -- putting and getting -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
def test_what_is_put_can_be_read(side: Side, size: int) -> None:
    put = side.put(
        "ä b", DATA[:size], chunk_size=100, description="d", headers={"A": "1", "B": ["2", "3"]}, metadata={"m": "x"},
        mtime=5,
    )  # fmt: skip
    assert (put.size, put.chunks, put.timestamp) == (size, -(-size // 100), 5)
    assert side.get("ä b") == DATA[:size]
    info = side.do("info", "ä b")
    assert (info.name, info.bucket, info.nuid, info.revision) == ("ä b", "B", put.nuid, put.revision)
    assert (info.description, info.headers, info.metadata) == ("d", {"A": ["1"], "B": ["2", "3"]}, {"m": "x"})
    assert info.digest == put.digest
    assert side.subjects() == ({put.nuid: put.chunks} if size else {})


def test_a_put_replaces_the_object(side: Side) -> None:
    first = side.put("x", DATA, chunk_size=100)
    second = side.put("x", b"new")
    assert side.get("x") == b"new"
    assert side.subjects() == {second.nuid: 1}
    assert second.nuid != first.nuid
    side.do("delete", "x")
    side.put("x", b"again")
    assert side.get("x") == b"again"


@given(
    st.integers(0, 1100), st.none() | st.integers(0, 1100), st.sampled_from([1, 7, 100, 999, 1000, 5000]), st.booleans()
)
def test_parts(start: int, end: int | None, chunk: int, interleaved: bool) -> None:
    side = Side(batched=False)
    if interleaved:
        one, two = side.begin("x", chunk_size=chunk), side.begin("y", chunk_size=1)
        for at in range(0, len(DATA), chunk):
            side.feed(one, DATA[at : at + chunk])
            side.feed(two, b"2" * (1 + at % 3))
            side.pair.advance(0.01)
        for put in (one, two):
            side.pair.run_until(put.finish(side.pair.now))
    else:
        side.put("x", DATA, chunk_size=chunk)
    get = side.open("x", start=start, end=end)
    assert side.take(get) == DATA[start:end]
    assert get.received == len(DATA[start:end])


def test_pages_of_large_chunks_do_not_wait_for_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest tells what is wrong. The leader is asked about the end alone."""
    side = Side()
    monkeypatch.setattr(get, "PAGE", 20_000)
    side.put("o", data := DATA * 100, chunk_size=9_000)
    asked: list[str] = []
    publish = Session.publish

    def note(session: Session, subject: str, *arguments: Any) -> None:
        asked.append(subject)
        publish(session, subject, *arguments)

    monkeypatch.setattr(Session, "publish", note)
    assert side.get("o") == data
    assert asked.count("$JS.API.DIRECT.GET.OBJ_B") == 4
    assert asked.count("$JS.API.STREAM.INFO.OBJ_B") <= 1


def test_parts_of_chunks_that_differ_in_size() -> None:
    side = Side()
    for at, size in ((0, 10), (10, 100), (110, 790), (900, 100)):
        side.raw("$O.B.C.N", DATA[at : at + size])
    body = {"name": "x", "nuid": "N", "size": 1000, "chunks": 4, "options": {"max_chunk_size": 800}}
    side.raw(side.store.space.meta("x"), json.dumps(body).encode())
    assert side.get("x") == DATA
    for start, end in ((0, 5), (5, 15), (850, 950), (999, 1000), (950, None)):
        assert side.get("x", start=start, end=end) == DATA[start:end]


@pytest.mark.parametrize(
    "options", [{"chunk_size": 0}, {"chunk_size": 10**9}, {"create": 1}, {"if_revision": -1}, {"x": 1}]
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    side = Side()
    with pytest.raises(LocalProtocolError):
        side.begin("x", **options)
    with pytest.raises(LocalProtocolError):
        side.begin("")


def test_chunks_are_given_one_at_a_time(side: Side) -> None:
    put = side.begin("x", chunk_size=10)
    with pytest.raises(LocalProtocolError, match="wait for ready"):
        put.add(b"1", side.pair.now)
    side.pair.run_until(put.ready())
    for wrong in (b"", bytes(11)):
        with pytest.raises(LocalProtocolError, match="1 to 10 bytes"):
            put.add(wrong, side.pair.now)
    put.add(b"1", side.pair.now)
    assert side.pair.run_until(put.finish(side.pair.now)).size == 1
    assert put.phase is PutPhase.DONE


def test_a_put_with_a_condition(side: Side) -> None:
    first = side.put("x", DATA, create=True)
    with pytest.raises(ObjectExistsError):
        side.put("x", DATA, create=True)
    with pytest.raises(ObjectChangedError, match="revision"):
        side.put("x", DATA, if_revision=first.revision + 1)
    with pytest.raises(ObjectChangedError):
        side.put("new", DATA, if_revision=1)
    second = side.put("x", b"2", if_revision=first.revision)
    side.do("delete", "x")
    third = side.put("x", b"3", create=True)
    assert side.put("new", b"4", if_revision=0).chunks == 1
    assert first.revision < second.revision < third.revision
    assert side.do("gc", older_than=0) == 0


def test_a_condition_that_fails_at_the_end_leaves_nothing(side: Side) -> None:
    """Somebody else has put the object while the chunks were sent."""
    put = side.begin("x", chunk_size=100, create=True)
    side.feed(put, DATA)
    other = side.put("x", b"other")
    with pytest.raises(ObjectExistsError):
        side.pair.run_until(put.finish(side.pair.now))
    assert side.subjects() == {other.nuid: 1}
    assert side.get("x") == b"other"


@promise("Of two puts of one name the last one wins.")
def test_the_last_of_several_puts_wins(side: Side) -> None:
    side.put("x", b"old")
    puts = [side.begin("x", chunk_size=100) for _ in range(6)]
    for put in puts:
        side.feed(put, DATA[: 100 + puts.index(put)])
    tickets = [put.finish(side.pair.now) for put in puts]
    infos = [side.pair.run_until(ticket) for ticket in tickets]
    last = max(infos, key=lambda info: info.revision)
    assert side.subjects() == {last.nuid: last.chunks}
    assert len(side.get("x")) == last.size
    assert side.do("info", "x").nuid == last.nuid


# -- giving up, and failing --------------------------------------------------------------------------------------------


def test_a_put_that_is_given_up_leaves_nothing(side: Side) -> None:
    old = side.put("x", b"old")
    put = side.begin("x", chunk_size=10)
    side.feed(put, DATA)
    assert side.pair.run_until(put.give_up(side.pair.now)) == 0
    assert side.pair.run_until(put.give_up(side.pair.now)) == 0
    assert put.phase is PutPhase.ABANDONED
    assert side.subjects() == {old.nuid: 1}
    assert side.get("x") == b"old"
    with pytest.raises(LocalProtocolError):
        side.pair.run_until(put.finish(side.pair.now))


def test_a_put_whose_description_was_sent_goes_on() -> None:
    side = Side(Pair(network=Network(conditions=NetworkConditions(latency=0.01))))
    put = side.begin("x")
    side.feed(put, DATA)
    ticket = put.finish(side.pair.now)
    side.pair.run(lambda: put.phase is PutPhase.PUBLISHING)
    put.abandon(side.pair.now)
    assert side.pair.run_until(ticket).size == 1000
    assert side.get("x") == DATA


def test_a_bucket_that_is_full(side: Side) -> None:
    side.ask("update_object_store", "B", max_bytes=3_000)
    side.store = side.ask("object_store", "B")
    with pytest.raises(
        ObjectStoreFullError, match=r"B: object 'x': .* full \(max_bytes=3000\): maximum bytes"
    ) as found:
        side.put("x", DATA * 20, chunk_size=100)
    assert (found.value.bucket, found.value.name, found.value.max_bytes) == ("B", "x", 3_000)
    assert side.subjects() == {}
    side.put("y", DATA)
    with pytest.raises(ObjectStoreFullError, match="object 'y': it does not fit"):
        side.do("update_meta", "y", description="d" * 2_000)


def test_a_server_that_cannot_store_has_no_full_bucket() -> None:
    broken = StreamStoreFailedError(503, 10077, "no space left on device")
    assert named("B", broken, "x") is broken


def test_a_bucket_that_is_deleted_during_a_put(side: Side) -> None:
    put = side.begin("x", chunk_size=100)
    side.feed(put, DATA)
    side.ask("delete_object_store", "B")
    began = side.pair.now
    ticket = put.finish(began)
    with pytest.raises(BucketNotFoundError, match="bucket B: it does not exist"):
        side.pair.run_until(ticket)
    assert side.pair.now - began < 6.0  # of the chunks whose answers went with it


def test_a_sealed_bucket(side: Side) -> None:
    side.put("x", DATA)
    assert side.do("seal").config.sealed
    for verb, arguments in (("delete", ("x",)), ("update_meta", ("x",)), ("rename", ("x", "y")), ("link", ("l", "x"))):
        with pytest.raises(ObjectStoreSealedError):
            side.do(verb, *arguments)
    with pytest.raises(ObjectStoreSealedError):
        side.put("y", DATA)
    assert side.get("x") == DATA


@promise("A put that fails removes its chunks, or says in an `ObjectChunksLeftError` that some are left.")
def test_a_put_that_cannot_clean_up_says_so() -> None:
    pair = LossyPair()
    side = Side(pair)
    put = side.begin("x", chunk_size=100, resume_for=1)
    side.feed(put, DATA)
    pair.advance(0.1)
    pair.is_reachable = False
    pair.lose_link()
    with pytest.raises(ObjectChunksLeftError, match="may be left") as raised:
        side.pair.run_until(put.finish(pair.now))
    assert (raised.value.nuid, raised.value.chunks) == (put.nuid, None)
    pair.is_reachable = True
    pair.advance(1)
    assert side.subjects() == {}  # what it had asked for waited for a link


@given(st.lists(st.integers(1, 60), max_size=4), st.booleans())
@promise("A put goes on after lost links and restarts for `resume_for` seconds")
def test_a_put_goes_on_after_lost_links(cuts: list[int], batched: bool) -> None:
    """Whatever is lost, and when: the object is there once, and nothing besides."""
    pair = LossyPair()
    side = Side(pair, batched=batched)
    old = side.put("x", b"old")
    pair.cuts, pair.moments = frozenset(cuts), 0
    info = side.put("x", DATA, chunk_size=100)
    pair.cuts = frozenset()
    assert side.get("x") == DATA
    assert side.subjects() == {info.nuid: 10}
    assert side.do("info", "x", level="leader").revision == info.revision > old.revision
    assert side.do("gc", older_than=0) == 0


@given(st.lists(st.integers(0, 30), min_size=1, max_size=3), st.booleans(), st.integers(0, 1000))
def test_bytes_of_a_link_that_was_left_are_stored_once(steps: list[int], batched: bool, seed: int) -> None:
    """The server goes on to read the old link while the new one brings the same chunks."""
    options = connect_options(reconnect_time_wait=0.001, reconnect_jitter=0.0)
    conditions = NetworkConditions(latency=0.01, jitter=0.05, piece=150)
    pair = Pair(options, network=Network(seed, conditions))
    side = Side(pair, batched=batched)
    put = side.begin("x", chunk_size=100)
    for at in range(10):
        pair.run_until(put.ready())
        put.add(DATA[100 * at : 100 * at + 100], pair.now)
        for _ in range(steps.count(at)):
            pair.exchange()
            pair.client.force_reconnect(pair.now)
    ticket = put.finish(pair.now)
    for step in steps:
        for _ in range(step):
            pair.step()
        if not ticket.done:
            pair.client.force_reconnect(pair.now)
    info = pair.run_until(ticket)
    pair.advance(1)
    assert side.subjects() == {info.nuid: 10}
    assert side.get("x") == DATA
    assert side.do("gc", older_than=0) == 0


# -- damage ------------------------------------------------------------------------------------------------------------


def damage(side: Side, verb: str) -> None:
    """Put an object and remove, double, or alter its third chunk."""
    info = side.put("x", DATA, chunk_size=100)
    subject = side.store.space.chunks(info.nuid)
    third = side.ask("get_msg", "OBJ_B", subject=subject, next=True, seq=3)
    if verb == "missing":
        side.ask("delete_msg", "OBJ_B", third.seq)
    elif verb == "doubled":
        side.raw(subject, third.data, headers={"Nats-Msg-Id": f"{info.nuid}.2"}, expected_stream="OBJ_B")
    else:
        side.ask("purge_stream", "OBJ_B", subject=subject)
        for number in range(10):
            data = DATA[100 * number : 100 * number + 100]
            side.raw(subject, data.replace(b"\x05", b"\x06") if verb == "altered" else data[: 100 - (number == 3)])


@pytest.mark.parametrize(
    ("verb", "error", "text"),
    [
        ("missing", ObjectDamagedError, "chunk 2 is missing"),
        ("altered", DigestMismatchError, "SHA-256"),
        ("shorter", ObjectDamagedError, "its chunks have 999 bytes, and it has 1000"),
    ],
)
def test_damage_is_told(verb: str, error: type[ObjectDamagedError], text: str) -> None:
    side = Side()
    damage(side, verb)
    with pytest.raises(error, match=text):
        side.get("x")


def test_a_part_of_a_damaged_object() -> None:
    side = Side()
    damage(side, "missing")
    with pytest.raises(ObjectDamagedError, match="10 chunks were put, and 9 are stored"):
        side.open("x", start=500)
    with pytest.raises(ObjectDamagedError, match="chunk 2 is missing"):
        side.get("x", start=50, end=500)
    assert side.get("x", start=50, end=150) == DATA[50:150]


def test_an_object_whose_chunks_have_all_gone() -> None:
    side = Side()
    info = side.put("x", DATA, chunk_size=100)
    side.ask("purge_stream", "OBJ_B", subject=side.store.space.chunks(info.nuid))
    with pytest.raises(ObjectDamagedError, match="10 of 10 chunks are missing"):
        side.get("x")


@pytest.mark.parametrize("start", [0, 500])
def test_an_object_that_is_replaced_while_it_is_read(start: int) -> None:
    side = Side()
    first = side.put("x", DATA * 10_000, chunk_size=1000)  # 10 MB, more than is read ahead
    get = side.open("x", start=start)
    side.pair.run_until(get.readable())
    second = side.put("x", b"new")
    with pytest.raises(ObjectChangedError) as raised:
        side.take(get)
    assert (raised.value.expected, raised.value.found, raised.value.revision) == (
        first.nuid, second.nuid, second.revision,
    )  # fmt: skip
    assert side.get("x") == b"new"


def test_an_object_that_is_deleted_while_it_is_read() -> None:
    side = Side()
    side.put("x", DATA * 10_000, chunk_size=1000)
    get = side.open("x")
    side.pair.run_until(get.readable())
    side.do("delete", "x")
    with pytest.raises(ObjectChangedError, match="deleted") as raised:
        side.take(get)
    assert raised.value.found == ""
    with pytest.raises(ObjectNotFoundError):
        side.get("x")


def test_a_description_that_is_no_json() -> None:
    side = Side()
    side.put("x", DATA)
    side.raw(side.store.space.meta("y"), b"[")
    with pytest.raises(ObjectDamagedError, match="its description is no JSON"):
        side.do("info", "y")
    assert [info.name for info in side.do("list")] == ["x"]
    with pytest.raises(ObjectDamagedError):
        side.do("gc", older_than=0)
    side.raw("$O.B.C.orphan")
    assert side.subjects()["orphan"] == 1


@pytest.mark.parametrize("step", range(24))
def test_an_object_that_is_replaced_while_a_part_is_sought(step: int) -> None:
    pair = Pair(network=Network(conditions=NetworkConditions(latency=0.01)))
    side = Side(pair)
    one, two = side.begin("x", chunk_size=100), side.begin("y", chunk_size=1)
    for at in range(10):  # interleaved, so that some chunks are looked at
        side.feed(one, DATA[100 * at : 100 * at + 100])
        side.feed(two, bytes(1 + at % 3))
        pair.advance(0.05)
    for put in (one, two):
        pair.run_until(put.finish(pair.now))
    ticket = side.store.open("x", start=350, now=pair.now)
    for _ in range(step):
        pair.step()
    side.put("x", DATA[::-1], chunk_size=50)
    try:
        found = side.take(pair.run_until(ticket))
    except ObjectChangedError:
        found = side.get("x", start=350)
    assert found in (DATA[350:], DATA[::-1][350:])


@pytest.mark.parametrize("step", range(16))
def test_chunks_that_go_while_a_part_is_sought(step: int) -> None:
    pair = Pair(network=Network(conditions=NetworkConditions(latency=0.01)))
    side = Side(pair)
    one = side.begin("x", chunk_size=100)
    for at in range(10):
        side.feed(one, DATA[100 * at : 100 * at + 100])
        pair.advance(0.05)
        for _ in range(at):
            side.raw("$O.B.C.other")
    info = pair.run_until(one.finish(pair.now))
    ticket = side.store.open("x", start=350, now=pair.now)
    for _ in range(step):
        pair.step()
    side.ask("purge_stream", "OBJ_B", subject=side.store.space.chunks(info.nuid))
    with suppress(ObjectDamagedError):
        assert side.take(pair.run_until(ticket)) == DATA[350:]


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("probes", [0, 1, 2, 8])
def test_a_part_that_is_hard_to_find_is_read_from_before(
    probes: int, is_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get, "PROBES", probes)
    side = Side(batched=False)
    one = side.begin("x", chunk_size=100)
    for at in range(10):
        side.feed(one, DATA[100 * at : 100 * at + 100])
        side.pair.exchange()
        for _ in range((9 - at) ** 2 if is_early else at**2):
            side.raw("$O.B.C.other")
    side.pair.run_until(one.finish(side.pair.now))
    for start in range(0, 1000, 75):
        assert side.get("x", start=start, end=start + 100) == DATA[start : start + 100]


# -- descriptions ------------------------------------------------------------------------------------------------------


def test_deletion() -> None:
    side = Side()
    info = side.put("x", DATA)
    marker = side.do("delete", "x", mtime=9)
    assert (marker.deleted, marker.size, marker.chunks, marker.digest, marker.timestamp) == (True, 0, 0, "", 9)
    assert side.subjects() == {}
    for verb in ("info", "delete", "update_meta", "open"):
        with pytest.raises(ObjectNotFoundError) as raised:
            side.do(verb, "x")
        assert raised.value.revision == marker.revision > info.revision
    assert side.do("info", "x", deleted=True).revision == marker.revision
    assert side.do("list") == []
    assert [each.name for each in side.do("list", deleted=True)] == ["x"]
    with pytest.raises(ObjectNotFoundError) as raised:
        side.do("info", "never", deleted=True)
    assert raised.value.revision == 0


def test_update_meta() -> None:
    side = Side()
    info = side.put("x", DATA, description="d", headers={"A": "1"}, metadata={"m": "x"})
    new = side.do("update_meta", "x", description="e", metadata=None)
    assert (new.description, new.headers, new.metadata, new.nuid) == ("e", {"A": ["1"]}, {}, info.nuid)
    assert side.get("x") == DATA
    with pytest.raises(LocalProtocolError):
        side.do("update_meta", "x", headers={"A": 1})


def test_rename() -> None:
    side = Side()
    info = side.put("x", DATA)
    side.put("z", b"z")
    with pytest.raises(ObjectExistsError):
        side.do("rename", "x", "z")
    assert side.do("rename", "x", "x").revision == info.revision
    side.put("gone", b"1")
    side.do("delete", "gone")
    renamed = side.do("rename", "x", "gone")
    assert (renamed.name, renamed.nuid) == ("gone", info.nuid)
    assert side.get("gone") == DATA
    with pytest.raises(ObjectNotFoundError) as raised:
        side.do("info", "x")
    assert raised.value.revision == 0


def test_links() -> None:
    side = Side()
    side.ask("create_object_store", "C")
    side.put("x", DATA)
    side.do("link", "a", "x")
    side.do("link", "b", "x", "B")
    side.do("link", "c", None, "C")
    assert side.do("info", "c").link == ObjectLink("C")
    assert [side.get(name) for name in ("a", "b")] == [DATA, DATA]
    assert side.open("a").info.name == "x"
    assert side.get("a", start=990) == DATA[990:]
    with pytest.raises(ObjectLinkError, match="leads to a bucket"):
        side.open("c")
    for target, bucket, text in (("none", None, "does not exist"), ("a", None, "a link, too"), ("x", "NONE", "exist")):
        with pytest.raises(ObjectLinkError, match=text):
            side.do("link", "d", target, bucket)
    with pytest.raises(ObjectExistsError):
        side.do("link", "x", "x")
    side.do("link", "a", None, "C")
    side.put("c", b"an object")
    assert side.get("c") == b"an object"
    side.do("delete", "x")
    side.do("link", "x", "c")
    for name, target in (("1", "2"), ("2", "1")):
        body = {"name": name, "nuid": name, "options": {"link": {"bucket": "B", "name": target}}}
        side.raw(side.store.space.meta(name), json.dumps(body).encode())
    with pytest.raises(ObjectLinkError, match="links follow"):
        side.open("1")
    body = {"name": "w", "options": {"link": {"bucket": "a.b", "name": "x"}}}
    side.raw(side.store.space.meta("w"), json.dumps(body).encode())
    with pytest.raises(ObjectLinkError, match="a bucket's name"):
        side.open("w")
    side.do("delete", "b")
    assert side.get("c") == b"an object"


# -- garbage -----------------------------------------------------------------------------------------------------------


@promise("It leaves those younger than an hour")
def test_garbage_is_what_no_object_owns() -> None:
    side = Side()
    info = side.put("x", DATA, chunk_size=100)
    side.put("y", DATA)
    side.do("delete", "y")
    side.do("link", "l", "x")
    side.raw("$O.B.C.orphan", b"1")
    side.raw("$O.B.C.orphan", b"2")
    assert side.do("gc") == 0
    side.pair.advance(3599)
    side.raw("$O.B.C.young", b"1")
    assert side.do("gc") == 0
    side.pair.advance(2)
    assert side.do("gc") == 2
    assert side.subjects() == {info.nuid: 10, "young": 1}
    assert side.do("gc", older_than=0) == 1
    assert side.get("x") == DATA


def test_markers_that_some_clients_cannot_read_are_written_anew() -> None:
    side = Side()
    meta = side.store.space.meta("x")
    body = {"name": "x", "nuid": "N", "size": 0, "mtime": "", "chunks": 0, "digest": "", "deleted": True}
    side.raw(meta, json.dumps(body).encode())
    with pytest.raises(ObjectNotFoundError):
        side.get("x")
    assert side.do("gc") == 0
    new = json.loads(side.ask("get_msg", "OBJ_B", subject=meta).data)
    assert (new["mtime"], new["deleted"], new["nuid"]) == ("0001-01-01T00:00:00Z", True, "N")
    side.raw(meta, json.dumps(body).encode())
    side.put("x", DATA)
    assert side.get("x") == DATA


# -- others at the same time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(0, 16, 2))
@pytest.mark.parametrize("verb", ["delete", "update_meta", "gc", "put", "link"])
def test_a_put_while_another_verb_is_at_work(verb: str, step: int) -> None:
    """Whoever is first: the bucket has whole objects, and nothing besides."""
    pair = Pair(network=Network(step, NetworkConditions(latency=0.01, jitter=0.01)))
    side = Side(pair)
    if verb == "gc":
        body = {"name": "x", "nuid": "N", "mtime": "", "deleted": True}
        side.raw(side.store.space.meta("x"), json.dumps(body).encode())
        ticket: Ticket[Any] = side.store.gc(older_than=0, now=pair.now)
    else:
        side.put("x", b"old")
        side.put("y", b"1")
        arguments = ("x", "y") if verb == "link" else ("x",)
        if verb == "put":
            other = side.begin("x")
            side.feed(other, b"another")
            ticket = other.finish(pair.now)
        else:
            ticket = getattr(side.store, verb)(*arguments, now=pair.now)
    for _ in range(step):
        pair.step()
    side.put("x", b"new")
    with suppress(ObjectChangedError, ObjectNotFoundError):
        pair.run_until(ticket)
    found = {info.name: info for info in side.do("list")}
    assert side.subjects() == {info.nuid: 1 for info in found.values()}
    assert side.do("gc", older_than=0) == 0
    if "x" in found:
        assert side.get("x") in (b"new", b"another")


@pytest.mark.parametrize("step", range(16))
def test_garbage_that_goes_meanwhile(step: int) -> None:
    """By another collection, and with a marker that is written anew by a put."""
    pair = Pair(network=Network(conditions=NetworkConditions(latency=0.01)))
    side = Side(pair)
    body = {"name": "x", "nuid": "N", "mtime": "", "deleted": True}
    side.raw(side.store.space.meta("x"), json.dumps(body).encode())
    side.raw("$O.B.C.orphan")
    side.raw("$O.B.C.orphan")
    ticket = side.store.gc(older_than=0, now=pair.now)
    for _ in range(step):
        pair.step()
    purged = pair.js.purge_stream("OBJ_B", subject="$O.B.C.orphan", now=pair.now)
    side.put("x", DATA, chunk_size=1000)
    assert pair.run_until(ticket) + pair.run_until(purged) == 2
    assert side.get("x") == DATA


# -- watching ----------------------------------------------------------------------------------------------------------


def take(side: Side, watch: ObjectWatch, count: int) -> list[Any]:
    """So many things of a watcher: the object with its size or its end, or None."""
    taken: list[Any] = []
    while len(taken) < count:
        side.pair.run_until(watch.readable())
        infos = watch.pop_many(1, side.pair.now)
        taken += [info and (info.name, "deleted" if info.deleted else info.size) for info in infos]
    return taken


def test_a_watcher_of_an_empty_bucket() -> None:
    side = Side()
    watch = side.do("watch")
    assert take(side, watch, 1) == [None]
    side.put("x", b"1")
    assert take(side, watch, 1) == [("x", 1)]
    assert (watch.pending_msgs, watch.error) == (0, None)
    watch.abandon(side.pair.now)
    assert watch.error is not None


@promise("Each description comes once and in order.")
def test_a_watcher_sees_the_present_and_then_what_changes() -> None:
    side = Side()
    side.put("a", b"1")
    side.put("b", b"22")
    side.do("delete", "a")
    watch = side.do("watch")
    assert take(side, watch, 3) == [("b", 2), ("a", "deleted"), None]
    side.pair.lose_link()
    side.put("c", b"333")
    assert take(side, watch, 1) == [("c", 3)]
    values = side.do("watch", ignore_deletes=True)
    assert take(side, values, 3) == [("b", 2), ("c", 3), None]
    new = side.do("watch", updates_only=True)
    side.do("delete", "b")
    assert take(side, new, 1) == [("b", "deleted")]


def test_the_end_of_what_is_present() -> None:
    """A description that cannot be read, and chunks behind the last one, are no obstacle."""
    side = Side()
    side.raw(side.store.space.meta("x"), b"[")
    assert take(side, side.do("watch"), 1) == [None]
    side.put("y", b"1")
    side.raw("$O.B.C.orphan")
    watch = side.do("watch")
    assert take(side, watch, 2) == [("y", 1), None]
    side.ask("delete_object_store", "B")
    with pytest.raises(BucketNotFoundError):
        side.do("watch")


def test_an_update_during_the_present_ones() -> None:
    side = Side()
    side.put("x", b"1")
    side.put("y", b"1")
    watch = side.do("watch")
    side.put("x", b"22")
    side.put("z", b"333")
    assert take(side, watch, 4) in ([("y", 1), None, ("x", 2), ("z", 3)], [("x", 1), ("y", 1), None, ("x", 2)])


# -- other servers -----------------------------------------------------------------------------------------------------


def test_a_bucket_without_direct_get() -> None:
    side = Side()
    side.put("x", DATA)
    side.ask("change_stream", "OBJ_B", {"allow_direct": False})
    assert side.do("info", "x").size == 1000
    with pytest.raises(NoRespondersError):
        side.do("list")
    with pytest.raises(NoRespondersError):
        side.get("x")
