"""A stream, its inlet and an outbox that remembers what was answered; time moves when a test moves it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsproto.errors import Error
from jsproto.events import Event
from jsproto.grammar.acks import Dialect
from jsproto.grammar.config import ServerInfo, StreamConfig, StreamOptions
from jsproto.grammar.headers import encode_headers
from jsproto.grammar.subjects import check_subject
from jsproto.outbox import Conversation
from jsproto.server.node import REFERENCE, BatchLimits, Node, Release
from jsproto.server.publish import StreamInlet
from jsproto.server.stream import Stored, Stream
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg

ADVISORY = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"


class Answered:
    """An outbox that only publishes."""

    server: ServerInfo | None = None
    closed_error: Error | None = None

    def __init__(self) -> None:
        self.answers: list[tuple[str, bytes]] = []

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        check_subject(subject)
        assert reply is None
        assert headers is None
        self.answers.append((subject, payload))

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        raise NotImplementedError

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        raise NotImplementedError

    def completed(self, ticket: Ticket[Any]) -> None:
        raise NotImplementedError

    def emit(self, event: Event) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        raise NotImplementedError

    def rearm(self, conversation: Conversation) -> None:
        raise NotImplementedError


def config(options: StreamOptions | None = None) -> StreamConfig:
    """The configuration of stream S: in memory, on ``s.>``, with batches of both kinds, unless ``options`` differ."""
    defaults: StreamOptions = {
        "subjects": ["s.>"], "storage": "memory", "allow_atomic": True, "allow_batched": True,
    }  # fmt: skip
    defaults.update(options or StreamOptions())
    return StreamConfig.from_options("S", **defaults)


class Inlet:
    """Stream S and what goes in and out."""

    def __init__(
        self,
        *,
        limits: BatchLimits | None = None,
        dialect: Dialect = "released",
        release: Release = REFERENCE,
        node: Node | None = None,
        **options: Any,
    ) -> None:
        self.node = node or Node(b"token", limits or BatchLimits(), dialect=dialect, release=release)
        self.now = 100.0
        self.outbox = Answered()
        wanted: Any = options
        self.stream = Stream(config(wanted), self.node, self.now)
        self.inlet = StreamInlet(self.stream, self.node, self.outbox)

    def publish(
        self,
        subject: str = "s.a",
        payload: bytes = b"x",
        headers: Mapping[str, str] | None = None,
        reply: str | bytes | None = "r",
    ) -> list[Any]:
        """Publish one message; returns the answers to it."""
        block = encode_headers(headers) if headers else None
        raw = reply.encode() if isinstance(reply, str) else reply
        self.inlet.receive(Msg(subject.encode(), b"", raw, block, payload), self.now)
        return self.answers()

    def answers(self) -> list[Any]:
        """What was published since the last call, decoded; advisories as their reason and batch."""
        said, self.outbox.answers = self.outbox.answers, []
        answers: list[Any] = []
        for subject, payload in said:
            body: Any = json.loads(payload) if payload else None
            answers.append(f"{body['reason']} {body['batch']}" if subject == ADVISORY else brief(body))
        return answers

    def advance(self, seconds: float) -> list[Any]:
        """Let time pass, with a call at each deadline on the way."""
        end = self.now + seconds
        while (when := self.inlet.deadline()) is not None and when <= end:
            self.now = when
            self.inlet.handle_timeout(when)
            assert self.inlet.deadline() != when
        self.now = end
        return self.answers()

    @property
    def payloads(self) -> list[bytes]:
        return [stored.payload for stored in self.stream]

    def stored(self, seq: int) -> Stored:
        stored = self.stream.get(seq)
        assert stored is not None
        return stored


def brief(body: Any) -> Any:
    """An error as its code, a flow message of the released dialect as a tuple, the rest as it is."""
    if body is None or not isinstance(body, dict):
        return body
    if body.get("type") == "ack":
        return ("ack", body["seq"], body["msgs"])
    if body.get("type") == "gap":
        return ("gap", body["last_seq"], body["seq"])
    if body.get("type") == "err":
        return ("err", body["seq"], body["error"]["err_code"])
    if "error" in body and "batch" not in body and "stream" in body:
        return body["error"]["err_code"]
    if "stream" in body:
        return {name: value for name, value in body.items() if name != "stream"}
    return body
