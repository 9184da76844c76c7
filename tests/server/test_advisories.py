"""Advisories, audits and metrics: the role publishes them as a real server does."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from jsproto.server import Access, Server, User
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode_connect, encode_pub, encode_sub
from jsproto.wire.frames import Msg
from jsproto_io.nats_server import NatsServer
from tests.server.harness import Reader
from tests.server.sides import without_times

HELLO: Final = (
    encode_connect(b'{"verbose":false,"headers":true,"name":"me","lang":"python","version":"1.2","user":"u","pass":"p"}')
    + encode_sub(b"i", None, b"1") + encode_sub(b"$JS.EVENT.>", None, b"2") + encode_sub(b"d", None, b"3")
)  # fmt: skip
BODY: Final[dict[str, Any]] = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
CONSUMER: Final[dict[str, Any]] = {
    "stream_name": "S",
    "config": {"name": "C", "durable_name": "C", "ack_policy": "explicit", "sample_freq": "100%"},
}  # fmt: skip
UNSTABLE: Final = frozenset({"id", "timestamp", "start", "rtt", "server", "ack_time", "pause_remaining"})
API: Final = "$JS.API."
# Requests, each with a reply subject or without one.
REQUESTS: Final[tuple[tuple[str, Any, bool], ...]] = (
    ("STREAM.CREATE.S", BODY, True), ("STREAM.CREATE.S", BODY, True), ("STREAM.CREATE.S", b"{}", True),
    ("STREAM.UPDATE.S", BODY | {"max_msgs": 50}, True), ("STREAM.UPDATE.S", BODY | {"storage": "file"}, True),
    ("STREAM.INFO.S", b"", True), ("STREAM.INFO.X", b"", True), ("STREAM.NAMES", b"", True),
    ("STREAM.LIST", b"", True), ("STREAM.MSG.GET.S", {"seq": 1}, True), ("STREAM.MSG.DELETE.S", {"seq": 1}, True),
    ("STREAM.PURGE.S", b"", True), ("STREAM.LEADER.STEPDOWN.S", b"", True), ("STREAM.FOO.S", b"", True),
    ("CONSUMER.CREATE.S.C", CONSUMER, True), ("CONSUMER.CREATE.S.C", CONSUMER, True),
    ("CONSUMER.INFO.S.C", b"", True), ("CONSUMER.NAMES.S", b"", True), ("CONSUMER.LIST.S", b"", True),
    ("CONSUMER.PAUSE.S.C", {"pause_until": "2200-01-01T00:00:00Z"}, True), ("CONSUMER.DELETE.S.C", b"", True),
    ("CONSUMER.DELETE.S.C", b"", True), ("CONSUMER.RESET.S.C", b"", True), ("STREAM.DELETE.S", b"", False),
    ("STREAM.CREATE.S", BODY, False), ("CONSUMER.CREATE.S.C", CONSUMER, False), ("STREAM.MSG.GET.S", {"seq": 1}, False),
    ("STREAM.UPDATE.S", BODY | {"max_msgs": 50}, False), ("CONSUMER.DELETE.S.C", b"", False),
    ("CONSUMER.CREATE.S.C", CONSUMER, True), ("STREAM.DELETE.S", b"", True), ("STREAM.DELETE.S", b"", True),
)  # fmt: skip
Say = Callable[[bytes, int], list[Msg]]
"""Sends bytes, and returns so many messages. On the role: all of them."""


def on_the_role() -> tuple[Server, Say]:
    server = Server(token=b"t", access=Access([User("u", "p")]))
    link, decoder = server.connect(0.0), Decoder("client")

    def say(data: bytes, expected: int) -> list[Msg]:
        link.receive_data(data, 0.0)
        return [frame for frame in decoder.feed(b"".join(link.data_to_send())) if isinstance(frame, Msg)]

    say(HELLO, 0)
    return server, say


def request(subject: str, body: Any, *, answered: bool = True) -> bytes:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    return encode_pub(subject.encode(), b"i" if answered else None, None, payload)


def shown(messages: list[Msg]) -> list[Any]:
    """Subjects and bodies, sorted, as servers may change places, and without what differs between any two servers."""
    said: list[Any] = []
    for message in messages:
        body = json.loads(message.payload) if message.payload.startswith(b"{") else message.payload.decode()
        said.append((message.subject.decode(), stable(body)))
    return sorted(said, key=str)


def stable(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    kept = {name: stable(value) for name, value in without_times(body).items() if name not in UNSTABLE}
    if "response" in kept:
        kept["response"] = stable(json.loads(kept["response"]))
        if kept["response"].get("error", {}).get("err_code") == 10025:
            del kept["response"]["error"]["description"]
    kept.pop("cluster", None)
    if body.get("error", {}).get("err_code") == 10025:
        del kept["error"]["description"]
    return kept


def acknowledging(say: Say, then: Callable[[list[Msg], list[Msg]], None]) -> None:
    """Publish six messages, pull them, and say something about each."""
    for verb, body in (("STREAM.CREATE.S", BODY), ("CONSUMER.CREATE.S.C", CONSUMER)):
        say(request(API + verb, body), 3)
    for _ in range(6):
        say(request("s.a", b"x"), 1)
    pulled = say(encode_pub(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"d", None, b'{"batch":6,"no_wait":true}'), 6)
    acks = [message.reply or b"" for message in pulled]
    for subject, (word, answered, count) in zip(
        acks,
        (
            (b"-NAK", True, 2),
            (b"+TERM why", True, 2),
            (b"+TERM", True, 2),
            (b"", False, 1),
            (b"+ACK", True, 2),
            (b"+WPI", True, 1),
        ),
        strict=True,
    ):
        then(say(encode_pub(subject, b"d" if answered else None, None, word), count), pulled)


@pytest.fixture
def real() -> Any:
    with NatsServer(config="authorization { users=[{user:u,password:p}] }") as running:
        address = urlsplit(running.url)
        with socket.create_connection((address.hostname, address.port), timeout=20) as link:
            decoder = Decoder("client")

            def say(data: bytes, expected: int) -> list[Msg]:
                found: list[Msg] = []
                link.sendall(data)
                with suppress(TimeoutError):  # perhaps one was lost: FACTS.md F15.7
                    while len(found) < expected:
                        found += [frame for frame in decoder.feed(link.recv(65536)) if isinstance(frame, Msg)]
                return found

            say(HELLO, 0)
            yield say


@pytest.mark.server
def test_requests_are_told_the_same_way(real: Say) -> None:
    _, role = on_the_role()
    lost: list[Any] = []
    for verb, body, answered in REQUESTS:
        data = request(API + verb, body, answered=answered)
        told = role(data, 0)
        here, there = shown(told), shown(real(data, len(told)))
        missing = [each for each in here if each not in there]
        assert (verb, there) == (verb, [each for each in here if each not in missing])
        lost += missing
    assert len(lost) <= 1
    assert all(".DELETED." in subject for subject, _ in lost)


@pytest.mark.server
def test_acknowledgements_are_told_the_same_way(real: Say) -> None:
    _, role = on_the_role()
    here: list[Any] = []
    there: list[Any] = []
    acknowledging(role, lambda said, _: here.append(shown(said)))
    acknowledging(real, lambda said, _: there.append(shown(said)))
    assert here == there


def subjects(messages: list[Msg]) -> list[str]:
    return [message.subject.decode().removeprefix("$JS.EVENT.") for message in messages]


def test_what_a_request_is_followed_by() -> None:
    _, say = on_the_role()
    told = [subjects(say(request(API + verb, body, answered=answered), 0)) for verb, body, answered in REQUESTS]
    stream, consumer, api = "ADVISORY.STREAM.{}.S", "ADVISORY.CONSUMER.{}.S.C", "ADVISORY.API"
    created, updated, deleted = (stream.format(kind) for kind in ("CREATED", "UPDATED", "DELETED"))
    made, paused, gone = (consumer.format(kind) for kind in ("CREATED", "PAUSE", "DELETED"))
    plain = ["i", api]
    assert told == [
        [created, *plain], plain, plain, [updated, *plain], plain, plain, plain, plain, plain, plain, plain, plain,
        plain, [], [made, *plain], plain, plain, plain, plain, [paused, *plain], [gone, *plain], plain, [],
        [deleted, api], [created, api], [made, api], [api], [updated, api], [gone, api], [made, *plain],
        [gone, deleted, *plain], plain,
    ]  # fmt: skip


def test_an_audit() -> None:
    server, say = on_the_role()
    server.connect(0.0)
    _, answer, audit = say(request("$JS.API.STREAM.CREATE.S", BODY), 0)
    assert json.loads(audit.payload) == {
        "type": "io.nats.jetstream.advisory.v1.api_audit", "id": json.loads(audit.payload)["id"],
        "timestamp": "1970-01-01T00:00:00Z", "server": "jsproto",
        "client": {
            "start": "1970-01-01T00:00:00Z", "host": "127.0.0.1", "id": 1, "acc": "$G", "user": "u", "name": "me",
            "lang": "python", "ver": "1.2", "server": "jsproto", "kind": "Client", "client_type": "nats",
        },
        "subject": "$JS.API.STREAM.CREATE.S", "request": json.dumps(BODY), "response": answer.payload.decode(),
    }  # fmt: skip
    assert rb'"s.\u003e\"]' in audit.payload  # as Go writes it


def test_what_nobody_reads_is_not_written() -> None:
    reader = Reader(domain="hub")
    before = reader.server.context._ids
    reader.api("STREAM.CREATE.S", BODY)
    assert reader.server.context._ids == before
    reader.make("E", subjects=["$JS.EVENT.>"])
    reader.api("STREAM.DELETE.S")
    events = [stored.subject for stored in reader.server.stream("E")]
    assert events == [
        b"$JS.EVENT.ADVISORY.STREAM.CREATED.E", b"$JS.EVENT.ADVISORY.STREAM.DELETED.S", b"$JS.EVENT.ADVISORY.API",
    ]  # fmt: skip
    assert json.loads(next(iter(reader.server.stream("E"))).payload)["domain"] == "hub"


def test_what_a_server_asks_itself_is_told_without_a_client() -> None:
    reader = Reader()
    reader.make("E", subjects=["$JS.EVENT.>"])
    reader.server.publish("$JS.API.STREAM.NAMES", b"", b"x")
    reader.server.handle_timeout(0.0)
    assert json.loads(list(reader.server.stream("E"))[-1].payload)["client"] == {}


def test_acknowledgements_are_told() -> None:
    told: list[list[str]] = []
    _, say = on_the_role()
    acknowledging(say, lambda said, _: told.append(subjects(said)))
    end = "CONSUMER.{}.S.C"
    naked, terminated = "ADVISORY." + end.format("MSG_NAKED"), "ADVISORY." + end.format("MSG_TERMINATED")
    metric = "METRIC." + end.format("ACK")
    assert told == [[naked, "d"], ["d", terminated], ["d", terminated], [metric], [metric, "d"], ["d"]]


def test_some_acknowledgements_are_sampled() -> None:
    reader = Reader(domain="hub")
    reader.make()
    config = CONSUMER["config"] | {"sample_freq": "20", "max_ack_pending": -1}
    reader.api("CONSUMER.CREATE.S.C", CONSUMER | {"config": config})
    reader.say(encode_sub(b"$JS.EVENT.METRIC.>", None, b"m"))
    for _ in range(200):
        reader.store("s.a")
    pulled = reader.say(encode_pub(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"i", None, b'{"batch":200}'))
    reader.now = 1.5
    sampled = [metric for message in pulled for metric in reader.say(encode_pub(message.reply or b"", None, None, b""))]
    assert 30 <= len(sampled) <= 50
    body = json.loads(sampled[0].payload)
    assert (body["ack_time"], body["deliveries"], body["domain"]) == (1_500_000_000, 1, "hub")
