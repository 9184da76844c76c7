"""The JetStream verbs: what they ask, and what becomes of the answers."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from jsproto.api_errors import StreamNotFoundError, StreamWrongLastSequenceError
from jsproto.client.jetstream import JetStream
from jsproto.errors import (
    JetStreamNotAvailableError,
    LocalProtocolError,
    NoStreamResponseError,
    RemoteProtocolError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.grammar.config import StreamConfig
from jsproto.wire.frames import Pub
from tests.harness import Harness
from tests.marks import known_fault, promise, requirement

NOT_FOUND = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}


def stream(pub: Pub) -> dict[str, Any]:
    config = json.loads(pub.payload) if pub.payload else {"name": "S", "subjects": ["s.>"], "new_field": 1}
    state = {"messages": 3, "bytes": 100, "first_seq": 1, "last_seq": 3, "consumer_count": 0}
    return {"type": "io.nats.jetstream.api.v1.stream_info_response", "config": config, "state": state,
            "created": "2026-11-20T20:36:46.910548879Z"}  # fmt: skip


@requirement(99)
def test_stream_verbs() -> None:
    harness = Harness()
    js = harness.js
    config = StreamConfig.from_options("S", subjects=["s.>"], max_age=timedelta(hours=1), allow_batched=True)
    created = js.create_stream(config, now=harness.now)
    asked = js.stream_info("S", now=harness.now)
    updated = js.update_stream(config, now=harness.now)
    requests = harness.answer(stream)
    assert [pub.subject for pub in requests] == [
        b"$JS.API.STREAM.CREATE.S", b"$JS.API.STREAM.INFO.S", b"$JS.API.STREAM.UPDATE.S",
    ]  # fmt: skip
    assert json.loads(requests[0].payload)["max_age"] == 3_600_000_000_000
    assert created.result().config == config
    assert updated.result().state.last_seq == 3
    assert asked.result().config.extra == {"new_field": 1}
    deleted = js.delete_stream("S", now=harness.now)
    (request,) = harness.answer(lambda pub: {"success": True})
    assert request.subject == b"$JS.API.STREAM.DELETE.S"
    assert deleted.result() is True


@requirement(102)
def test_what_every_server_refuses_is_not_asked() -> None:
    harness = Harness()
    config = StreamConfig("S", mirror={"name": "T"}, allow_batched=True)
    for verb in (harness.js.create_stream, harness.js.update_stream):
        with pytest.raises(LocalProtocolError, match="mirror cannot be published to"):
            verb(config, now=harness.now)
    assert harness.published() == []
    ticket = harness.js.change_stream("S", {"mirror": {"name": "T"}, "allow_atomic": True}, now=harness.now)
    assert [pub.subject for pub in harness.answer(stream)] == [b"$JS.API.STREAM.INFO.S"]
    assert isinstance(ticket.error, LocalProtocolError)
    assert harness.published() == []


@promise("Replace the stream's configuration by ``config``, whole")
def test_changing_a_stream_sends_all_of_it_back() -> None:
    harness = Harness()
    ticket = harness.js.change_stream("S", {"max_msgs": 7}, now=harness.now)
    harness.answer(stream)
    (update,) = harness.answer(stream)
    assert json.loads(update.payload) == {"name": "S", "subjects": ["s.>"], "new_field": 1, "max_msgs": 7}
    assert ticket.result().config.max_msgs == 7


@requirement(248)
@pytest.mark.parametrize(("before", "after"), [(None, "async"), ("async", None), ("async", "default")])
def test_the_persist_mode_cannot_be_changed(before: str | None, after: str | None) -> None:
    harness = Harness()
    ticket = harness.js.change_stream("S", {"persist_mode": after}, now=harness.now)
    harness.answer(lambda pub: {**stream(pub), "config": {"name": "S", "persist_mode": before}})
    assert isinstance(ticket.error, LocalProtocolError)
    assert f"it is '{before or 'default'}'" in str(ticket.error)
    assert harness.published() == []


@requirement(248, 249)
@promise('They never say ``"default"`` back')
def test_an_update_keeps_the_persist_mode() -> None:
    harness = Harness()
    changes: list[tuple[str | None, dict[str, Any]]] = [("async", {}), (None, {"persist_mode": "default"})]
    for mode, change in changes:
        harness.js.change_stream("S", {"max_msgs": 7, **change}, now=harness.now)
        config = {"name": "S"} if mode is None else {"name": "S", "persist_mode": mode}
        (asked,) = harness.published()
        harness.deliver(asked.reply or b"", json.dumps({**stream(asked), "config": config}).encode())
        (update,) = harness.published()
        assert json.loads(update.payload) == {**config, **change, "max_msgs": 7}


@requirement(243)
@promise("it would refuse the field, or drop it silently")
@pytest.mark.parametrize(
    ("version", "field", "value", "needed"),
    [
        ("2.12.8", "allow_batched", True, "2.14"), ("2.11.11", "allow_batched", True, "2.14"),
        ("2.10.29", "allow_msg_ttl", True, "2.11"), ("2.11.11", "allow_msg_counter", True, "2.12"),
        ("2.11.11", "allow_msg_schedules", True, "2.12"), ("2.11.11", "allow_atomic", True, "2.12"),
        ("2.11.11", "persist_mode", "async", "2.12"),
    ],
)  # fmt: skip
def test_features_that_the_server_is_too_old_for(version: str, field: str, value: Any, needed: str) -> None:
    harness = Harness(info={"version": version})
    switched_on: dict[str, Any] = {field: value}
    config = StreamConfig("S", **switched_on)
    for verb in (harness.js.create_stream, harness.js.update_stream):
        with pytest.raises(UnsupportedByServerError, match=field) as caught:
            verb(config, now=harness.now)
        assert (caught.value.needed, caught.value.found) == (needed, version)
    if field != "persist_mode":  # which cannot be changed anyway
        ticket = harness.js.change_stream("S", switched_on, now=harness.now)
        harness.answer(stream)
        assert isinstance(ticket.error, UnsupportedByServerError)
    assert harness.published() == []
    harness.js.create_stream(StreamConfig("S"), now=harness.now)
    assert len(harness.published()) == 1


def test_domain_and_prefix() -> None:
    harness = Harness()
    JetStream(harness.session, domain="hub").stream_info("S", now=harness.now)
    JetStream(harness.session, prefix="my.api").stream_info("S", now=harness.now)
    assert [pub.subject for pub in harness.published()] == [b"$JS.hub.API.STREAM.INFO.S", b"my.api.STREAM.INFO.S"]
    with pytest.raises(LocalProtocolError, match="not both"):
        JetStream(harness.session, domain="hub", prefix="my.api")


@promise("Every verb raises, besides what it lists itself")
def test_errors_of_the_api() -> None:
    harness = Harness()
    ticket = harness.js.stream_info("S", now=harness.now)
    harness.answer(lambda pub: NOT_FOUND)
    assert isinstance(ticket.error, StreamNotFoundError)
    ticket = harness.js.stream_info("S", now=harness.now)
    harness.answer(lambda pub: b"junk")
    assert isinstance(ticket.error, RemoteProtocolError)
    ticket = JetStream(harness.session, timeout=1.0).stream_info("S", now=harness.now)
    harness.advance(1.0)
    assert isinstance(ticket.error, TimeoutError)
    ticket = harness.js.stream_info("S", now=harness.now)
    (pub,) = [pub for pub in harness.published() if pub.subject.endswith(b"INFO.S")][-1:]
    assert pub.reply is not None
    harness.deliver(pub.reply, b"", b"NATS/1.0 503\r\n\r\n")
    assert isinstance(ticket.error, JetStreamNotAvailableError)


def test_account_info() -> None:
    harness = Harness()
    ticket = harness.js.account_info(now=harness.now)
    (request,) = harness.answer(
        lambda pub: {"memory": 0, "storage": 5, "streams": 1, "consumers": 2, "api": {"total": 3}}
    )
    assert request.subject == b"$JS.API.INFO"
    assert ticket.result().streams == 1


def test_publish() -> None:
    harness = Harness()
    ticket = harness.js.publish(
        "s.a", b"x", now=harness.now, headers={"K": "v"}, msg_id="m1", expected_stream="S", expected_last_seq=4,
        expected_last_subject_seq=0,
    )  # fmt: skip
    (pub,) = harness.answer(lambda pub: {"stream": "S", "seq": 5, "duplicate": True})
    assert pub.header == (
        b"NATS/1.0\r\nK: v\r\nNats-Msg-Id: m1\r\nNats-Expected-Stream: S\r\nNats-Expected-Last-Sequence: 4\r\n"
        b"Nats-Expected-Last-Subject-Sequence: 0\r\n\r\n"
    )
    assert (ticket.result().seq, ticket.result().duplicate) == (5, True)


@promise("Raises, with nothing sent: LocalProtocolError")
@known_fault('the server\'s text is lost in "invalid ack"')
def test_publish_refused() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", b"x", now=harness.now)
    error = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 4"}
    harness.answer(lambda pub: {"error": error, "stream": "S", "seq": 0})
    assert isinstance(ticket.error, StreamWrongLastSequenceError)
    ticket = harness.js.publish("s.a", b"x", now=harness.now, headers={"K": "v"})
    (pub,) = harness.published()
    assert pub.reply is not None
    harness.deliver(pub.reply, b"not this", b"NATS/1.0 503\r\n\r\n")  # with a payload it is somebody's answer
    assert isinstance(ticket.error, RemoteProtocolError)
    ticket = harness.js.publish("s.a", b"x", now=harness.now, retry_attempts=0)
    (pub,) = harness.published()
    assert pub.reply is not None
    harness.deliver(pub.reply, b"", b"NATS/1.0 503\r\n\r\n")
    assert isinstance(ticket.error, NoStreamResponseError)
    ticket = harness.js.publish("s.a", b"x", now=harness.now)
    (pub,) = harness.published()
    assert pub.reply is not None
    harness.deliver(pub.reply, b"", b"broken")
    assert isinstance(ticket.error, RemoteProtocolError)


def test_conversations_get_inboxes_of_their_own() -> None:
    harness = Harness()
    first, second = harness.js.fast_publisher(), harness.js.fast_publisher()
    assert first.batch_id != second.batch_id
    read = harness.js.get_batch("S", now=harness.now, seq=3, subject="s.a", batch=7, max_bytes=100)
    (request,) = harness.published()
    assert request.subject == b"$JS.API.DIRECT.GET.S"
    assert json.loads(request.payload) == {"seq": 3, "batch": 7, "max_bytes": 100, "next_by_subj": "s.a"}
    assert read.stream == "S"


@pytest.mark.parametrize("field", ["sealed", "deny_delete", "deny_purge", "allow_msg_ttl"])
def test_what_cannot_be_taken_back_is_not_written_because_of_one_answer(field: str) -> None:
    known = {"config": {"name": "S", "subjects": ["s.>"]}, "created": "2026-11-20T21:06:13Z", "state": {}}
    said = {**known, "config": {**known["config"], field: True}}  # type: ignore[dict-item]
    for answers, is_sent in (([said, known], False), ([said, said], True), ([known], True)):
        harness = Harness()
        ticket = harness.js.change_stream("S", {"max_msgs": 7}, now=harness.now)
        for answer in answers:
            harness.answer(lambda pub, answer=answer: answer)  # type: ignore[misc]
        updates = harness.published()
        assert [pub.subject for pub in updates] == ([b"$JS.API.STREAM.UPDATE.S"] if is_sent else [])
        if is_sent:
            assert json.loads(updates[0].payload).get(field, False) is (len(answers) == 2)
        else:
            assert isinstance(ticket.error, RemoteProtocolError)
            assert field in str(ticket.error)
    harness = Harness()
    harness.js.change_stream("S", {field: True}, now=harness.now)  # the caller wants it
    harness.answer(lambda pub: said)
    (update,) = harness.published()
    assert update.subject == b"$JS.API.STREAM.UPDATE.S"
