"""A scripted server for consumers that push: it sees what is asked of it, and delivers what a test tells it to."""

from __future__ import annotations

import json
from typing import Any

from jsproto.grammar.jsack import JSAck, Sequences, build_jsack
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Pub
from tests.harness import Harness

CREATED = 1795268256024729669


def ack_subject(
    consumer: str, consumer_seq: int, stream_seq: int | None = None, *, pending: int = 0, delivered: int = 1,
    v2: bool = False, time: int = CREATED,
) -> bytes:  # fmt: skip
    """The reply subject of a delivery."""
    domain, account = ("hub", "szMpdrwD") if v2 else (None, None)
    sequence = Sequences(consumer_seq if stream_seq is None else stream_seq, consumer_seq)
    return build_jsack(JSAck(domain, account, "S", consumer, delivered, sequence, time, pending))


def heartbeat(last_consumer: int | str, last_stream: int = 0, stalled: str | None = None) -> bytes:
    text = f"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {last_consumer}\r\nNats-Last-Stream: {last_stream}\r\n"
    return (text + (f"Nats-Consumer-Stalled: {stalled}\r\n" if stalled else "") + "\r\n").encode()


def info(name: str, config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A consumer, as the server describes it."""
    return {"stream_name": "S", "name": name, "config": config, "created": "2026-11-20T21:06:13Z", **fields}


class Pushing(Harness):
    """``Harness`` with deliveries to a subscription by the subject it was made for."""

    def sid(self, subject: str) -> bytes:
        """The id of the one subscription to ``subject``."""
        self.session.flush()
        self.drain()
        (sid,) = [sid for sid, pattern in self.subs.items() if pattern == subject.encode()]
        return sid

    def push(
        self, deliver: str, reply: bytes | None, payload: bytes = b"x", header: bytes | None = None,
        subject: bytes | None = None,
    ) -> None:  # fmt: skip
        """A message of the stream, or a status, for the subscription to ``deliver``."""
        if subject is None:
            subject = b"s.a" if header is None or header.startswith(b"NATS/1.0\r\n") else deliver.encode()
        self.feed(encode_msg(subject, self.sid(deliver), reply, header, payload))

    def asked(self) -> list[tuple[str, dict[str, Any], Pub]]:
        """The API requests since the last call: what of, the body, the message."""
        return [
            (pub.subject.decode().removeprefix("$JS.API."), json.loads(pub.payload or b"{}"), pub)
            for pub in self.published()
            if pub.subject.startswith(b"$JS.API.")
        ]

    def reply_to(self, pub: Pub, body: dict[str, Any] | None, header: bytes | None = None) -> None:
        """Answer a request."""
        assert pub.reply is not None
        self.deliver(pub.reply, b"" if body is None else json.dumps(body).encode(), header)


def refusal(code: int, err_code: int, text: str = "no") -> dict[str, Any]:
    return {"error": {"code": code, "err_code": err_code, "description": text}}
