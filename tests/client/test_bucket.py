"""Keys of a bucket against a scripted server: what is asked, and what races do."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.manage import space_of
from jsproto.client.bucket.writes import TRIES
from jsproto.client.jetstream import JetStream
from jsproto.errors import (
    BucketNotFoundError,
    KeyExistsError,
    KeyWrongLastSequenceError,
    LocalProtocolError,
    NoStreamResponseError,
    RemoteProtocolError,
    TimeoutError,
    UnsupportedByServerError,
    ValueTooLargeError,
)
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub
from tests.harness import Harness

WRONG = {"error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 7"}}
IN_FLIGHT = {"error": {"code": 400, "err_code": 10164, "description": "wrong last sequence"}}
ABSENT = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
NO_STREAM = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}


def stored(seq: int, data: bytes = b"", **headers: str) -> dict[str, Any]:
    """The leader's answer: this message."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = {"subject": "$KV.B.k", "seq": seq, "time": "2026-11-20T20:36:46Z", "data": b64encode(data).decode()}
    return {"message": message | ({"hdrs": b64encode(encode_headers(named)).decode()} if named else {})}


class Creating:
    """``create``, step by step."""

    def __init__(self, **options: Any) -> None:
        self.h = Harness()
        config = BucketConfig.of("B")
        self.bucket = Bucket(self.h.js, space_of(config, "$JS.API"), config)
        self.ticket: Ticket[int] = self.bucket.create("k", b"mine", now=self.h.now, **options)

    def refused(self, expected: int, answer: dict[str, Any] = WRONG) -> Creating:
        """The publish that expects this revision, refused."""
        assert self.publish(answer) == expected
        return self

    def publish(self, answer: dict[str, Any]) -> int:
        (pub,) = self.h.answer(lambda pub: answer)
        assert (pub.subject, pub.payload) == (b"$KV.B.k", b"mine")
        assert pub.header is not None
        return int(Headers.parse(pub.header)["Nats-Expected-Last-Subject-Sequence"])

    def found(self, answer: dict[str, Any]) -> Creating:
        """The look at the key, which the leader answers."""
        (pub,) = self.h.answer(lambda pub: answer)
        assert pub.subject == b"$JS.API.STREAM.MSG.GET.KV_B"
        assert json.loads(pub.payload) == {"last_by_subj": "$KV.B.k"}
        return self


def test_a_marker_is_followed_by_another_one() -> None:
    create = Creating()
    create.refused(0).found(stored(7, KV_Operation="DEL"))
    create.refused(7).found(stored(9, Nats_Marker_Reason="MaxAge"))
    create.refused(9, IN_FLIGHT).found(ABSENT)  # purged meanwhile
    assert create.publish({"stream": "KV_B", "seq": 12}) == 0
    assert create.ticket.result() == 12


def test_a_value_ends_it() -> None:
    create = Creating()
    create.refused(0).found(stored(7, KV_Operation="PURGE")).refused(7).found(stored(8, b"theirs"))
    with pytest.raises(KeyExistsError) as raised:
        create.ticket.result()
    assert raised.value.revision == 8
    assert create.h.published() == []


@pytest.mark.parametrize(("last", "present"), [(WRONG, 7), (IN_FLIGHT, None)])
def test_it_is_not_tried_for_ever(last: dict[str, Any], present: int | None) -> None:
    create = Creating()
    for _ in range(TRIES - 1):
        create.refused(0).found(ABSENT)
    create.refused(0, last)
    with pytest.raises(KeyWrongLastSequenceError) as raised:
        create.ticket.result()
    assert raised.value.revision == present
    assert not isinstance(raised.value, KeyExistsError)


def test_a_bucket_that_goes_meanwhile() -> None:
    create = Creating().refused(0).found(NO_STREAM)
    with pytest.raises(BucketNotFoundError):
        create.ticket.result()


def test_an_answer_that_does_not_come_ends_it() -> None:
    create = Creating(timeout=1.0)
    create.h.advance(1.5)
    with pytest.raises(TimeoutError):
        create.ticket.result()


@pytest.mark.parametrize("answer", [b"", b'{"config":{"name":"KV_B"},"created":"2026-11-20T21:06:13Z","state":{}}'])
def test_whether_a_bucket_is_there_may_stay_unknown(answer: bytes) -> None:
    """Nobody takes a write, and nobody answers the question about the stream. Or it is there, without Direct Get."""
    h = Harness()
    config = BucketConfig.of("B")
    bucket = Bucket(JetStream(h.session, retry_attempts=0), space_of(config, "$JS.API"), config)
    ticket = bucket.put("k", b"1", now=h.now)
    for subject in (b"$KV.B.k", b"$JS.API.STREAM.INFO.KV_B"):
        (pub,) = h.published()
        assert pub.subject == subject
        is_info = subject.endswith(b"KV_B")
        h.deliver(pub.reply or b"", answer if is_info else b"", None if answer and is_info else b"NATS/1.0 503\r\n\r\n")
    with pytest.raises(NoStreamResponseError):
        ticket.result()


def test_nothing_is_sent_of_what_cannot_be() -> None:
    create = Creating()
    create.h.published()
    for verb, arguments, options in (
        ("create", ("k", b"v"), {"ttl": 0.5}),
        ("create", ("k..k", b"v"), {}),
        ("put", ("k ", b"v"), {}),
        ("update", ("k", b"v", -1), {}),
        ("update", ("k", b"v", "1"), {}),
        ("purge", ("k",), {"ttl": "soon"}),
        ("get", ("k",), {"revision": 0}),
        ("get", ("k",), {"level": "mirror"}),
        ("get_many", (["k", ""],), {}),
        ("purge_deletes", (), {"older_than": "1"}),
        ("history", ("a..b",), {}),
        ("watch", (), {"meta_only": 1}),
        ("watch", (), {"since": "1"}),
    ):
        with pytest.raises(LocalProtocolError):
            getattr(create.bucket, verb)(*arguments, now=create.h.now, **options)
        assert create.h.published() == [], verb
    js = create.h.js
    for bad in ({"history": 65}, {"ttl": "soon"}, {"mirror": 7}, {"replicas": "3"}, {"nonsense": 1}):
        for of_js in (js.create_bucket, js.update_bucket):
            with pytest.raises(LocalProtocolError):
                of_js("B", now=create.h.now, **bad)
    for keys in ({"codec": 7}, {"validate_keys": 1}, {"nonsense": 1}):
        with pytest.raises(LocalProtocolError):
            js.bucket("B", now=create.h.now, **keys)  # type: ignore[arg-type]
    assert create.h.published() == []


def test_older_servers() -> None:
    h = Harness(info={"version": "2.10.29"})
    asked = h.js.create_bucket("B", now=h.now)
    (pub,) = h.answer(lambda pub: {"config": json.loads(pub.payload)})
    body = json.loads(pub.payload)
    assert (body.get("allow_msg_ttl"), body["allow_atomic"]) == (None, False)
    bucket = asked.result()
    with pytest.raises(UnsupportedByServerError):
        bucket.get_many(["k"], now=h.now)
    for options in ({"marker_ttl": 5}, {"atomic": True}):
        with pytest.raises(UnsupportedByServerError):
            h.js.create_bucket("B", now=h.now, **options)
    assert h.published() == []


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"seq":"1"}'])
def test_answers_that_are_none(answer: bytes) -> None:
    create = Creating()
    create.h.answer(lambda pub: answer)
    with pytest.raises(RemoteProtocolError):
        create.ticket.result()


def test_where_direct_get_is_off_the_leader_alone_is_asked() -> None:
    h = Harness()
    config = BucketConfig.of("B", direct=False)
    bucket = Bucket(h.js, space_of(config, "$JS.API"), config)
    bucket.get("k", now=h.now)
    bucket.get("k", now=h.now, level="direct")
    assert [pub.subject for pub in h.published()] == [
        b"$JS.API.STREAM.MSG.GET.KV_B", b"$JS.API.DIRECT.GET.KV_B.$KV.B.k",
    ]  # fmt: skip


def test_requests_of_each_verb() -> None:
    """One request each."""
    create = Creating()
    create.h.published()
    for verb, arguments in (
        ("get", ("k",)), ("put", ("k", b"")), ("update", ("k", b"", 1)), ("delete", ("k",)), ("purge", ("k",)),
        ("get_many", (["a", "b"],)), ("status", ()),
    ):  # fmt: skip
        getattr(create.bucket, verb)(*arguments, now=create.h.now)
        asked: list[Pub] = [each for each in create.h.published() if each.reply is not None]
        assert len(asked) == 1, verb


def test_another_api_has_its_prefix_before_what_is_written() -> None:
    h = Harness()
    js = JetStream(h.session, domain="hub")
    config = BucketConfig.of("B")
    bucket = Bucket(js, space_of(config, js.api.prefix), config)
    bucket.put("k", b"1", now=h.now)
    bucket.get("k", now=h.now)
    written, read = h.published()
    assert written.subject == b"$JS.hub.API.$KV.B.k"
    assert read.subject == b"$JS.hub.API.DIRECT.GET.KV_B.$KV.B.k"


def test_a_value_that_is_too_large_where_the_limit_is_unknown() -> None:
    create = Creating()
    create.refused(
        0, {"error": {"code": 400, "err_code": 10054, "description": "message size exceeds maximum allowed"}}
    )
    (pub,) = create.h.answer(lambda pub: {"error": {"code": 503, "err_code": 10008, "description": "unavailable"}})
    assert pub.subject == b"$JS.API.STREAM.INFO.KV_B"
    with pytest.raises(ValueTooLargeError, match="key 'k': the value has 56 bytes .* is unknown") as raised:
        create.ticket.result()
    assert (raised.value.size, raised.value.limit) == (56, None)
