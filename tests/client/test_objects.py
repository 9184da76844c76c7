"""Objects against a scripted server, and against chunks of any kind: what is asked, and what is told as damage."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from jsproto.client.connection.pause import Pause
from jsproto.client.objects.describing import Place
from jsproto.client.objects.get import Get, Span
from jsproto.client.objects.object_store import ObjectStore
from jsproto.client.objects.put import Put, PutPhase
from jsproto.errors import (
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    ObjectChangedError,
    ObjectChunksLeftError,
    ObjectDamagedError,
    RemoteProtocolError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.events import ObjectChunksLeft
from jsproto.grammar.object_info import ObjectInfo, ObjectSpace
from jsproto.grammar.object_store_config import ObjectStoreConfig
from jsproto.grammar.stored import StoredMsg, stored_header
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub
from tests.harness import Harness
from tests.marks import requirement

WRONG = {"error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 7"}}
IN_FLIGHT = {"error": {"code": 400, "err_code": 10164, "description": "wrong last sequence"}}
ABSENT = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
REFUSED = {"error": {"code": 400, "err_code": 10054, "description": "message size exceeds maximum allowed"}}
SPACE = ObjectSpace("B")


def described(seq: int, **fields: Any) -> dict[str, Any]:
    """The leader's answer: this description of the object x."""
    data = b64encode(json.dumps({"name": "x", **fields}).encode()).decode()
    return {"message": {"subject": SPACE.meta("x"), "seq": seq, "time": "2026-11-20T20:36:46Z", "data": data}}


class Scripted:
    """A put of the object x without fast ingest, step by step."""

    def __init__(self, found: dict[str, Any] = ABSENT, **options: Any) -> None:
        self.h = Harness(max_reconnect_attempts=-1, reconnect_time_wait=0.01, reconnect_jitter=0.0)
        config = ObjectStoreConfig.of("B", batched=False)
        self.store = ObjectStore(self.h.js, SPACE, config)
        self.put: Put = self.store.put("x", now=self.h.now, **options)
        self.asked("$JS.API.STREAM.MSG.GET.OBJ_B", found)

    def asked(self, subject: str, answer: dict[str, Any]) -> Pub:
        """The one request of this moment."""
        (pub,) = self.h.answer(lambda pub: answer)
        assert pub.subject.decode() == subject
        return pub

    def sent(self, *answers: dict[str, Any] | None) -> None:
        """Give a chunk for each of the answers."""
        for number, _ in enumerate(answers):
            self.h.drain()
            assert self.put.ready().done
            self.put.add(b"%d" % number, self.h.now)
        for pub, answer in zip(self.h.published(), answers, strict=True):
            assert pub.reply is not None
            if answer is not None:
                self.h.deliver(pub.reply, json.dumps(answer).encode())

    def counted(self, chunks: int) -> None:
        """The leader is asked how many chunks there are."""
        subjects = {SPACE.chunks(self.put.nuid): chunks} if chunks else {}
        config, state = {"name": "OBJ_B"}, {"messages": chunks, "bytes": 1, "first_seq": 1, "last_seq": 9}
        answer = {"config": config, "state": {**state, "num_subjects": 1, "subjects": subjects}, "total": len(subjects)}
        self.asked("$JS.API.STREAM.INFO.OBJ_B", answer)

    def described(self, answer: dict[str, Any]) -> Pub:
        """The description is published."""
        return self.asked(SPACE.meta("x"), answer)

    def purged(self, answer: dict[str, Any] | None = None) -> None:
        """Chunks are purged."""
        self.asked("$JS.API.STREAM.PURGE.OBJ_B", answer or {"success": True, "purged": 1})


def ok(seq: int) -> dict[str, Any]:
    return {"stream": "OBJ_B", "seq": seq}


def test_a_put_without_fast_ingest() -> None:
    put = Scripted(described(5, nuid="OLD", chunks=1))
    put.sent(ok(8), ok(9))
    ticket = put.put.finish(put.h.now)
    put.counted(2)
    pub = put.described(ok(10))
    assert pub.header is not None
    assert b"Nats-Expected-Last-Subject-Sequence: 5\r\n" in pub.header
    assert b"Nats-Rollup: sub\r\n" in pub.header
    purge = put.asked("$JS.API.STREAM.PURGE.OBJ_B", {"success": True, "purged": 1})
    assert json.loads(purge.payload) == {"filter": SPACE.chunks("OLD")}
    assert (ticket.result().revision, ticket.result().chunks) == (10, 2)


def test_a_chunk_is_offered() -> None:
    h = Harness()
    put = ObjectStore(h.js, SPACE, ObjectStoreConfig.of("B", batched=False)).put("x", now=h.now)
    waits = put.offer(b"1", h.now)
    assert waits is not None
    assert not waits.done
    h.answer(lambda pub: ABSENT)
    assert waits.done
    assert put.offer(b"1", h.now) is None
    assert put.size == 1


def test_chunks_out_of_order_are_no_object() -> None:
    put = Scripted()
    put.sent(ok(9), ok(8))
    ticket = put.put.finish(put.h.now)
    put.purged()
    put.counted(0)
    with pytest.raises(RemoteProtocolError, match="stored as 8"):
        ticket.result()
    assert put.put.phase is PutPhase.ABANDONED


@pytest.mark.parametrize(("stored", "left"), [(0, 0), (1, 1)])
def test_a_count_that_is_wrong(stored: int, left: int) -> None:
    put = Scripted()
    put.sent(ok(8), ok(9))
    ticket = put.put.finish(put.h.now)
    put.counted(3)
    put.purged(REFUSED if left else None)
    put.counted(stored)
    assert isinstance(ticket.error, ObjectChunksLeftError if left else ObjectDamagedError)
    assert "2 chunks were sent, and the stream has 3" in str(ticket.error)
    if isinstance(ticket.error, ObjectChunksLeftError):
        assert (ticket.error.chunks, str(ticket.error).endswith(f"chunks left of put {put.put.nuid}: 1")) == (1, True)


@pytest.mark.parametrize("stored", [0, 4])
def test_a_count_that_cannot_be_after_a_fault(stored: int) -> None:
    """Acknowledged chunks are gone, or there are more than were sent."""
    put = Scripted()
    put.sent(ok(8))
    put.sent(None, None)
    put.h.advance(6)  # the answers are missing
    ticket = put.put.finish(put.h.now)
    put.h.advance(0.1)
    assert put.put.phase is PutPhase.COUNTING
    put.counted(stored)
    put.purged()
    put.counted(0)
    with pytest.raises(ObjectDamagedError):
        ticket.result()


def test_a_server_that_stays_away() -> None:
    put = Scripted(resume_for=20)
    put.sent(None)
    ticket = put.put.finish(put.h.now)
    put.h.advance(100)
    with pytest.raises(ObjectChunksLeftError, match="chunks may be left") as raised:
        ticket.result()
    assert (raised.value.chunks, type(raised.value.__cause__)) == (None, TimeoutError)
    with pytest.raises(ObjectChunksLeftError):
        put.put.ready().result()


def test_a_chunk_that_is_refused() -> None:
    put = Scripted()
    put.sent(REFUSED)
    ticket = put.put.finish(put.h.now)
    put.purged()
    put.counted(0)
    with pytest.raises(Error, match="exceeds maximum"):
        ticket.result()


def test_chunks_under_way_are_waited_for_before_those_of_a_failed_put_are_removed() -> None:
    """A purge makes room, in which a later chunk would be stored."""
    put = Scripted()
    for _ in range(2):
        put.h.drain()
        put.put.add(b"x", put.h.now)
    first, second = put.h.published()
    assert first.reply is not None
    assert second.reply is not None
    put.h.deliver(first.reply, json.dumps(REFUSED).encode())
    ticket = put.put.finish(put.h.now)
    assert put.h.published() == []
    put.h.deliver(second.reply, json.dumps(ok(9)).encode())
    put.purged()
    put.counted(0)
    assert isinstance(ticket.error, Error)


def test_a_chunk_that_another_link_is_storing() -> None:
    put = Scripted()
    put.sent({"error": {"code": 409, "err_code": 10158, "description": "duplicate message id is in process"}})
    ticket = put.put.finish(put.h.now)
    put.h.advance(0.06)
    put.counted(0)
    (pub,) = put.h.answer(lambda pub: ok(8))
    assert (pub.subject.decode(), pub.payload) == (SPACE.chunks(put.put.nuid), b"0")
    put.counted(1)
    put.described(ok(9))
    assert ticket.result().chunks == 1


def test_a_description_whose_answer_is_lost() -> None:
    put = Scripted(resume_for=20)
    ticket = put.put.finish(put.h.now)
    first = put.h.published()[0]
    put.h.advance(5.2)
    second = put.described(WRONG)  # the server has forgotten the id
    assert (first.payload, first.header) == (second.payload, second.header)
    found = json.loads(first.payload)
    put.asked("$JS.API.STREAM.MSG.GET.OBJ_B", {
        "message": {"subject": SPACE.meta("x"), "seq": 8, "time": "2026-11-20T20:36:46Z",
                    "data": b64encode(first.payload).decode()},
    })  # fmt: skip
    assert (ticket.result().revision, ticket.result().nuid) == (8, found["nuid"])


def test_a_description_that_may_be_stored() -> None:
    put = Scripted(resume_for=1)
    put.sent(ok(8))
    ticket = put.put.finish(put.h.now)
    put.counted(1)
    put.h.advance(30)
    with pytest.raises(ObjectChunksLeftError, match="its description may be stored") as raised:
        ticket.result()
    assert raised.value.chunks is None


def test_another_description_on_its_way() -> None:
    """A cluster refuses for what it has not stored yet: the present one is as it was."""
    put = Scripted(described(5, nuid="OLD", deleted=True))
    ticket = put.put.finish(put.h.now)
    put.described(IN_FLIGHT)
    put.asked("$JS.API.STREAM.MSG.GET.OBJ_B", described(5, nuid="OLD", deleted=True))
    assert put.h.published() == []
    put.h.advance(0.06)
    put.described(WRONG)
    put.asked("$JS.API.STREAM.MSG.GET.OBJ_B", ABSENT)  # purged meanwhile
    pub = put.described(ok(9))
    assert pub.header is not None
    assert b"Nats-Expected-Last-Subject-Sequence: 0\r\n" in pub.header
    assert ticket.result().revision == 9


def test_what_was_replaced_and_cannot_be_removed() -> None:
    put = Scripted(described(5, nuid="OLD"))
    ticket = put.put.finish(put.h.now)
    put.described(ok(9))
    put.purged(REFUSED)
    assert ticket.result().revision == 9
    (event,) = [event for event in put.h.events() if isinstance(event, ObjectChunksLeft)]
    assert (event.bucket, event.name, event.nuid) == ("B", "x", "OLD")
    assert "exceeds" in str(event.error)


def test_a_put_that_is_given_up_tells_what_is_left() -> None:
    put = Scripted()
    put.sent(ok(8))
    left = put.put.give_up(put.h.now)
    put.purged(REFUSED)
    put.counted(1)
    assert left.result() == 1
    (event,) = [event for event in put.h.events() if isinstance(event, ObjectChunksLeft)]
    assert (event.nuid, event.error) == (put.put.nuid, None)
    put.put.abandon(put.h.now)
    assert put.h.published() == []


def test_a_put_that_is_given_up_while_an_answer_is_missing() -> None:
    put = Scripted()
    put.sent(None)
    left = put.put.give_up(put.h.now)
    assert put.h.published() == []  # what is under way comes first
    put.h.advance(6)
    put.purged()
    put.counted(0)
    assert left.result() == 0


def test_a_put_that_is_given_up_before_its_first_chunk_asks_for_nothing() -> None:
    put = Scripted()
    assert put.put.give_up(put.h.now).result() == 0
    assert put.h.published() == []


def test_a_connection_that_is_closed() -> None:
    put = Scripted()
    put.sent(ok(8))
    put.h.session.close(put.h.now)
    put.h.drain()
    ticket = put.put.finish(put.h.now)
    with pytest.raises(ObjectChunksLeftError) as raised:
        ticket.result()
    assert isinstance(raised.value.__cause__, ConnectionClosedError)


def test_a_link_that_is_full() -> None:
    """What is sent waits for room, and goes on."""
    put = Scripted(chunk_size=500_000)
    put.h.session.publish_message("other", bytes(1_000_000))
    put.h.session.publish_message("other", bytes(1_000_000))
    put.h.session.publish_message("other", bytes(900_000))
    assert put.h.session.congested
    put.put.add(b"x", put.h.now)
    ready = put.put.ready()
    assert not ready.done
    put.h.drain()
    assert ready.done
    put.put.add(b"y", put.h.now)
    assert put.put.size == 2


def test_a_chunk_that_waited_for_a_link_that_was_lost_waits_for_the_count() -> None:
    """What is written between two links comes first on the next one: such a chunk would overtake those before it."""
    put = Scripted()
    put.sent(None)
    for size in (1_000_000, 1_000_000, 900_000):
        put.h.session.publish_message("other", bytes(size))
    put.put.add(b"1", put.h.now)
    put.h.lose()
    put.h.now += 1
    put.h.session.handle_timeout(put.h.now)
    put.h.connect()
    put.counted(0)
    assert [pub.payload for pub in put.h.answer(lambda pub: ok(8 + int(pub.payload)))] == [b"0", b"1"]


@requirement(93)
def test_a_batch_that_breaks_before_the_next_chunk() -> None:
    h = Harness()
    store = ObjectStore(h.js, SPACE, ObjectStoreConfig.of("B"))
    put = store.put("x", now=h.now)
    h.answer(lambda pub: ABSENT)
    put.add(b"0", h.now)
    h.answer(lambda pub: {"type": "ack", "seq": 1, "msgs": 16})
    put.add(b"1", h.now)
    assert put.ready().done
    (second,) = h.published()
    assert second.reply is not None
    h.deliver(second.reply, json.dumps({"type": "gap", "last_seq": 2, "seq": 3}).encode())
    put.add(b"2", h.now)  # it is kept, and sent by the next batch
    assert h.published() == []  # what is stored will be counted
    h.advance(0.06)
    assert put.phase is PutPhase.COUNTING


def test_options() -> None:
    put = Scripted(headers={"A": ("1", "2")}, metadata={"m": "x"})
    wrong: list[Any] = [
        {"headers": []},
        {"headers": {1: "x"}},
        {"metadata": []},
        {"metadata": {"m": 1}},
        {"create": None},
    ]
    for options in wrong:
        with pytest.raises(LocalProtocolError):
            put.store.put("x", now=put.h.now, **options)


def test_an_old_server() -> None:
    h = Harness(info={"version": "2.10.0"})
    store = ObjectStore(h.js, SPACE, ObjectStoreConfig.of("B"))
    with pytest.raises(UnsupportedByServerError):
        store.open("x", now=h.now)
    h.published()
    put = store.put("x", now=h.now)
    h.answer(lambda pub: ABSENT)
    put.add(b"1", h.now)
    assert b"$FI" not in (h.published()[0].reply or b"")


# -- reading -----------------------------------------------------------------------------------------------------------


WHOLE = Span(0, 6)


class Chunks:
    """A read that gives these chunks."""

    def __init__(self, *chunks: StoredMsg) -> None:
        self.chunks = list(chunks)
        self.finished = True
        self.is_closed = False

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        taken, self.chunks = self.chunks[:most], self.chunks[most:]
        return taken

    def close(self, now: float) -> None:
        self.is_closed = True


def chunk(data: bytes, number: int | None = None, subject: str = "$O.B.C.N") -> StoredMsg:
    user = b"NATS/1.0\r\n\r\n" if number is None else b"NATS/1.0\r\nNats-Msg-Id: N.%d\r\n\r\n" % number
    return StoredMsg(stored_header(user, "OBJ_B", subject, 7, "2026-11-20T20:36:46Z"), data, 7)


def reading(h: Harness, *chunks: StoredMsg, span: Span = WHOLE, at: int = 0) -> Get:
    info = ObjectInfo("B", "x", size=6, chunks=3, nuid="N", max_chunk_size=2)
    batch: Any = Chunks(*chunks)
    return Get(Place(h.js, SPACE, None), info, span, batch, at)


GOOD = [chunk(b"ab", 0), chunk(b"cd", 1), chunk(b"ef", 2)]


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([GOOD[1]], "chunk 0 is missing"),
        ([GOOD[2]], "chunks 0 to 1 are missing"),
        ([GOOD[0], GOOD[1], GOOD[1]], "chunk 1 is there twice, or too late"),
        ([GOOD[0], chunk(b"cd", subject="$O.B.C.M")], "chunk 1 is of '\\$O.B.C.M'"),
        ([*GOOD, chunk(b"x")], "more than 3 chunks, or 6 bytes"),
        ([chunk(b"abcdefg")], "more than 3 chunks, or 6 bytes"),
        ([chunk(b"ab"), chunk(b"cd")], "1 of 3 chunks are missing"),
        ([chunk(b"ab"), chunk(b"cd"), chunk(b"e")], "its chunks have 5 bytes, and it has 6"),
    ],
)
def test_what_is_wrong_with_chunks(chunks: list[StoredMsg], text: str) -> None:
    h = Harness()
    get = reading(h, *chunks)
    while get.pop_many(1, h.now):
        pass
    waits = get.readable()
    h.answer(lambda pub: described(9, nuid="N"))
    with pytest.raises(ObjectDamagedError, match=text):
        waits.result()
    assert (get.pop_many(1, h.now), get.finished) == ([], False)


def test_who_cannot_be_asked_whether_it_was_changed() -> None:
    h = Harness()
    get = reading(h, GOOD[1])
    get.pop_many(1, h.now)
    h.advance(6)
    with pytest.raises(ObjectDamagedError):
        get.readable().result()


@pytest.mark.parametrize("answer", [described(9, nuid="M"), described(9, nuid="N", deleted=True), ABSENT])
def test_an_object_that_was_changed_is_not_damaged(answer: dict[str, Any]) -> None:
    h = Harness()
    get = reading(h, GOOD[1])
    get.pop_many(1, h.now)
    h.answer(lambda pub: answer)
    with pytest.raises(ObjectChangedError):
        get.readable().result()


def test_a_part_has_chunks_of_one_size() -> None:
    h = Harness()
    get = reading(h, chunk(b"cd", 1), chunk(b"e", 2), span=Span(3, 6), at=1)
    assert get.pop_many(1, h.now) == [b"d"]
    assert get.pop_many(1, h.now) == []
    h.answer(lambda pub: described(9, nuid="N"))
    with pytest.raises(ObjectDamagedError, match="chunk 2 has 1 bytes"):
        get.readable().result()


def test_a_read_that_is_given_up() -> None:
    h = Harness()
    for verb in ("close", "abandon"):
        get = reading(h, *GOOD)
        assert get.pop_many(2, h.now) == [b"ab", b"cd"]
        getattr(get, verb)(h.now)
        batch: Any = get._batch
        assert batch.is_closed
    empty = Get(Place(h.js, SPACE, None), ObjectInfo("B", "x"), Span(0, 0), None, 0)
    empty.close(h.now)
    assert (empty.finished, empty.pop_many(1, h.now), empty.readable().done) == (True, [], True)


def test_a_server_whose_counts_are_wrong_is_read_from_the_beginning() -> None:
    h = Harness(info={"version": "2.11.4"})
    store = ObjectStore(h.js, SPACE, ObjectStoreConfig.of("B"))
    ticket = store.open("x", start=250, now=h.now)
    fields = {"nuid": "N", "size": 300, "chunks": 3, "options": {"max_chunk_size": 100}}
    body = json.dumps(fields).encode()
    answer_directly(h, SPACE.meta("x"), body)
    state = {"messages": 3, "bytes": 1, "first_seq": 1, "last_seq": 9, "num_subjects": 1, "subjects": {"$O.B.C.N": 3}}
    h.answer(lambda pub: {"config": {"name": "OBJ_B"}, "state": state, "total": 1})
    answer_directly(h, "$O.B.C.N", bytes(100))
    (pub,) = h.published()
    assert json.loads(pub.payload) | {"max_bytes": 0} == {
        "seq": 1, "next_by_subj": "$O.B.C.N", "batch": json.loads(pub.payload)["batch"], "max_bytes": 0,
    }  # fmt: skip
    h.session.abandon(ticket, h.now)


def answer_directly(h: Harness, subject: str, data: bytes) -> None:
    """The answer to a Direct Get of the last message of ``subject``."""
    (pub,) = h.published()
    assert (pub.subject.decode(), pub.payload) == (f"$JS.API.DIRECT.GET.OBJ_B.{subject}", b"")
    assert pub.reply is not None
    h.deliver(pub.reply, data, stored_header(b"NATS/1.0\r\n\r\n", "OBJ_B", subject, 7, "2026-11-20T20:36:46Z"))


# -- races with other clients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [ABSENT, described(6, nuid="M"), described(6, nuid="N", deleted=True)])
def test_what_is_deleted_was_changed(found: dict[str, Any]) -> None:
    put = Scripted()
    ticket = put.store.delete("x", now=put.h.now)
    put.h.session.abandon(put.put, put.h.now)
    put.asked("$JS.API.STREAM.MSG.GET.OBJ_B", described(5, nuid="N"))
    put.described(WRONG)
    put.asked("$JS.API.STREAM.MSG.GET.OBJ_B", found)
    with pytest.raises(ObjectChangedError) as raised:
        ticket.result()
    assert raised.value.found == ("M" if found is not ABSENT and "deleted" not in str(raised.value) else "")


# -- pauses ------------------------------------------------------------------------------------------------------------


def test_a_pause() -> None:
    h = Harness()
    pause = Pause(h.session, h.now + 1)
    pause.handle_timeout(h.now)
    h.advance(0.9)
    assert not pause.over.done
    h.advance(0.2)
    assert pause.over.result() is None
    assert pause.deadline() is None
    pause.handle_timeout(h.now)
    pause.link_lost(ConnectionClosedError("x"), h.now)


def test_a_pause_ends_with_the_session() -> None:
    h = Harness()
    pause = Pause(h.session, h.now + 1)
    woken: list[Ticket[None]] = []

    def script() -> Any:
        try:
            yield pause.over
        except ConnectionClosedError:
            woken.append(pause.over)

    h.session.run(script())
    h.session.close(h.now)
    assert woken == [pause.over]
    with pytest.raises(ConnectionClosedError):
        Pause(h.session, h.now + 1).over.result()
