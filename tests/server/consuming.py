"""A consumer of a stream, with subscribers, pulls and acknowledgements. Time moves when a test moves it."""

from __future__ import annotations

import json
from typing import Any

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import status_line
from jsproto.grammar.jsack import parse_jsack
from jsproto.grammar.subjects import check_subject, matches
from jsproto.outbox import Conversation
from jsproto.server.consume.consumer import Consumer
from jsproto.server.consume.settings import accept
from jsproto.server.routing import Removals
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication, Stream
from jsproto.wire.frames import Msg
from tests.server.harness import Answered, config

ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER."


class Post(Answered):
    """An outbox: what was sent, by inbox, and which subjects have a subscriber."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, Msg]] = []
        self.listening: set[tuple[str, str | None]] = {("in", None), ("r", None)}
        self.removals = Removals()
        self.asked: list[str] = []  # whether which subjects have interest
        self.subscribed: dict[int, str] = {}
        self.scheduled: list[Conversation] = []

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        self.sent.append((subject, Msg(check_subject(subject), b"", reply, headers, payload)))

    def deliver(self, inbox: str, message: Msg) -> None:
        check_subject(inbox)
        self.sent.append((inbox, message))

    def has_interest(self, subject: str) -> bool:
        self.asked.append(subject)
        return any(matches(one, subject) for one, _ in self.listening)

    def is_subscribed(self, subject: str, queue: str | None = None) -> bool:
        return (subject, queue) in self.listening

    def schedule(self, conversation: Conversation) -> None:
        self.scheduled.append(conversation)

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        self.subscribed[len(self.subscribed)] = subject
        return len(self.subscribed) - 1

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        del self.subscribed[sid]

    def rearm(self, conversation: Conversation) -> None:
        """Nothing here keeps deadlines."""


class Shop:
    """Stream S with consumer C. Messages arrive as ``stream seq:deliveries:consumer seq:pending``."""

    def __init__(
        self,
        *,
        messages: int = 0,
        stream: dict[str, Any] | None = None,
        context: ServerContext | None = None,
        subject: str = "s.a",
        **options: Any,
    ) -> None:
        self.context = context or ServerContext(b"token")
        self.now = 100.0
        self.post = Post()
        wanted: Any = stream or {}
        self.stream = Stream(config(wanted), self.context, self.now)
        self.gone: list[Consumer] = []
        self.store(*[subject] * messages)
        self.consumer = self.another("C", **options)

    def another(self, name: str, **options: Any) -> Consumer:
        """A consumer of the same stream."""
        accepted = accept(
            ConsumerConfig.from_options(durable_name=name, **options), self.stream.config, self.context
        )  # fmt: skip
        consumer = Consumer(
            name, accepted, self.stream, self.context, self.post, self.now, prefixes=["$JS.API."],
            forget=self.gone.append,
        )  # fmt: skip
        self.settle()
        return consumer

    def store(self, *subjects: str, payload: bytes = b"x", header: bytes | None = None) -> None:
        for subject in subjects:
            self.stream.append(Publication(subject.encode(), header, payload), self.now)
        self.settle()

    def settle(self) -> None:
        """Call the conversations that were scheduled."""
        while self.post.scheduled:
            self.post.scheduled.pop(0).handle_timeout(self.now)

    def listen(self, subject: str = "dlv", queue: str | None = None) -> list[str]:
        """Subscribe."""
        self.post.listening.add((subject, queue))
        self.consumer.interest_changed()
        return self.heard()

    def leave(self, subject: str = "dlv", queue: str | None = None) -> list[str]:
        self.post.listening.discard((subject, queue))
        self.post.removals.add(subject)
        self.consumer.interest_changed()
        return self.heard()

    def pull(self, body: Any = b"", inbox: str = "in", headers: bytes | None = None) -> list[str]:
        """Send a pull request. Returns what arrived."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        message = Msg(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"", inbox.encode(), headers, payload)
        self.consumer.receive(message, self.now)
        return self.heard()

    def ack(self, seq: int, consumer_seq: int, word: bytes = b"+ACK", reply: bytes | None = b"r") -> list[str]:
        """Acknowledge, by the subject of version 1."""
        return self.send(b"$JS.ACK.S.C.1.%d.%d.0.0" % (seq, consumer_seq), word, reply)

    def send(
        self, subject: bytes, payload: bytes = b"", reply: bytes | None = None, header: bytes | None = None
    ) -> list[str]:
        self.consumer.receive(Msg(subject, b"", reply, header, payload), self.now)
        return self.heard()

    def advance(self, seconds: float) -> list[str]:
        """Let time pass, with a call at each deadline on the way."""
        end = self.now + seconds
        while (when := self.consumer.deadline()) is not None and when <= end:
            self.now = max(when, self.now)
            self.consumer.handle_timeout(self.now)
            self.settle()
            after = self.consumer.deadline()
            assert after is None or after > self.now
        self.now = end
        return self.heard()

    def heard(self) -> list[str]:
        """What was sent since the last call, in short."""
        self.settle()
        sent, self.post.sent = self.post.sent, []
        return [self.brief(inbox, message) for inbox, message in sent]

    def brief(self, inbox: str, message: Msg) -> str:
        if inbox.startswith(ADVISORY):
            kind = inbox.removeprefix(ADVISORY).removesuffix(".S.C")
            body = json.loads(message.payload)
            told = [body[name] for name in ("stream_seq", "deliveries", "reason", "paused") if name in body]
            return " ".join(map(str, [kind, *told]))
        if message.reply is not None and message.reply.startswith(b"$JS.ACK."):
            found = parse_jsack(message.reply)
            return f"{found.sequence.stream}:{found.num_delivered}:{found.sequence.consumer}:{found.num_pending}"
        if message.header is None:
            return "ok"
        status = status_line(message.header)
        assert status is not None
        lines = message.header.decode().split("\r\n")[1:-2]
        return " ".join([str(status[0]), status[1], *(line.partition(": ")[2] for line in lines)])

    def floor(self) -> tuple[int, int]:
        pair = self.consumer.info(self.now).ack_floor
        return pair.consumer_seq, pair.stream_seq

    @property
    def outstanding(self) -> int:
        return self.consumer.info(self.now).num_ack_pending
