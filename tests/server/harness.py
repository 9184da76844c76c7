"""A stream, its inlet and an outbox that remembers the answers. Time moves when a test moves it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsproto.errors import Error
from jsproto.events import Event
from jsproto.grammar.acks import Dialect
from jsproto.grammar.config import ServerInfo, StreamConfig, StreamOptions
from jsproto.grammar.headers import encode_headers, status_line
from jsproto.grammar.stored import number
from jsproto.grammar.subjects import check_subject
from jsproto.outbox import Conversation
from jsproto.server.inlet import StreamInlet
from jsproto.server.server import Server
from jsproto.server.store.context import REFERENCE, BatchLimits, Release, ServerContext
from jsproto.server.store.stream import Stored, Stream
from jsproto.ticket import Ticket
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode_connect, encode_pub, encode_sub
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
        context: ServerContext | None = None,
        **options: Any,
    ) -> None:
        self.context = context or ServerContext(b"token", limits or BatchLimits(), dialect=dialect, release=release)
        self.now = 100.0
        self.outbox = Answered()
        wanted: Any = options
        self.stream = Stream(config(wanted), self.context, self.now)
        self.inlet = StreamInlet(self.stream, self.context, self.outbox)

    def publish(
        self,
        subject: str = "s.a",
        payload: bytes = b"x",
        headers: Mapping[str, str] | None = None,
        reply: str | bytes | None = "r",
    ) -> list[Any]:
        """Publish one message. Returns the answers to it."""
        block = encode_headers(headers) if headers else None
        raw = reply.encode() if isinstance(reply, str) else reply
        self.inlet.receive(Msg(subject.encode(), b"", raw, block, payload), self.now)
        return self.answers()

    def answers(self) -> list[Any]:
        """What was published since the last call, decoded. An advisory is its reason and batch."""
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


class Reader:
    """A server, and a link on which somebody asks it things. ``store`` publishes. The time is ``now``."""

    def __init__(self, **options: Any) -> None:
        self.server = Server(token=b"token", **options)
        self.now = 0.0
        self.link = self.server.connect(0.0)
        self.decoder = Decoder("client")
        self.say(encode_connect(b'{"headers":true,"no_responders":true}') + encode_sub(b"i", None, b"1"))

    def say(self, data: bytes) -> list[Msg]:
        self.link.receive_data(data, self.now)
        return [frame for frame in self.decoder.feed(b"".join(self.link.data_to_send())) if isinstance(frame, Msg)]

    def make(self, name: str = "S", /, **options: Any) -> Stream:
        """Create a stream in memory that is read directly, on subjects ``<name>.>``, unless ``options`` differ."""
        defaults: dict[str, Any] = {"storage": "memory", "allow_direct": True}
        if "mirror" not in options:
            defaults["subjects"] = [f"{name.lower()}.>"]
        return self.server.add_stream(StreamConfig(name, **(defaults | options)), self.now)

    def store(self, subject: str, payload: bytes = b"x", header: bytes | None = None) -> None:
        self.say(encode_pub(subject.encode(), None, header, payload))

    def ask(self, verb: str, body: Any = b"", header: bytes | None = None) -> list[tuple[bytes | None, bytes]]:
        """The answers to a request below ``$JS.API``: header blocks and payloads."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        answers = self.say(encode_pub(f"$JS.API.{verb}".encode(), b"i", header, payload))
        return [(answer.header, answer.payload) for answer in answers]

    def api(self, verb: str, body: Any = b"") -> Any:
        """The answer of the API, without its type."""
        ((_, payload),) = self.ask(verb, body)
        return {name: value for name, value in json.loads(payload).items() if name != "type"}

    def read(self, body: Any, stream: str = "S") -> list[Any]:
        """What Direct Get answers: sequences, or payloads where there are none, and the texts of statuses."""
        said: list[Any] = []
        for header, payload in self.ask(f"DIRECT.GET.{stream}", body):
            status = None if header is None else status_line(header)
            if status is not None:
                said.append(f"{status[0]} {status[1]}")
            else:
                said.append(payload if header is None else number(header, b"Nats-Sequence"))
        return said

    def last(self, subject: str = "s.a", stream: str = "S") -> Any:
        """The last message of a subject, as ``read`` says it."""
        (said,) = self.read({"last_by_subj": subject}, stream)
        return said
