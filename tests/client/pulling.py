"""A pull consumer with a scripted server at the other end: what tests of pulling and acknowledging have in common."""

from __future__ import annotations

import json
from typing import Any, Final

from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.pull import PullConsumer
from jsproto.errors import Error
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
from jsproto.grammar.jsack import JSAck, Sequences, build_jsack
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Pub
from tests.harness import Harness

NEXT: Final = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
TIMED_OUT: Final = "408 Request Timeout\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d"


class Pulling(Harness):
    """A session that pulls from consumer C of stream S."""

    def __init__(self, *, priority: Priority | None = None, v2: bool = False, **config: Any) -> None:
        super().__init__(max_reconnect_attempts=-1)
        self.info_of_consumer = ConsumerInfo("S", "C", ConsumerConfig(name="C", **config))
        self.consumer: PullConsumer[JSMsg] = self.js.pull_consumer(self.info_of_consumer, JSMsg, priority=priority)
        self.v2 = v2
        self.sequence = 0
        self.published()

    def requests(self) -> list[dict[str, Any]]:
        """The pull requests sent since the last call, their reply subject as ``reply``."""
        pulls = [pub for pub in self.published() if pub.subject == NEXT]
        return [json.loads(pub.payload) | {"reply": pub.reply} for pub in pulls]

    def request(self) -> dict[str, Any]:
        """The one request sent since the last call."""
        (request,) = self.requests()
        return request

    def acks(self) -> list[tuple[bytes, bytes]]:
        """The acknowledgements sent since the last call: consumer sequence and payload."""
        acks = [pub for pub in self.published() if pub.subject.startswith(b"$JS.ACK.")]
        return [(pub.subject.split(b".")[-3], pub.payload) for pub in acks]

    def reply(self) -> bytes:
        """The ack reply subject of the next message."""
        self.sequence += 1
        hash_ = "abcdefgh" if self.v2 else None
        return build_jsack(JSAck(None, hash_, "S", "C", 1, Sequences(self.sequence, self.sequence), 1_000, 0))

    def messages(self, *payloads: bytes, header: bytes | None = None, reply: bytes | None = None) -> None:
        """The consumer delivers these, one by one."""
        for payload in payloads:
            self.at_once(payload, header=header, reply=reply)

    def at_once(self, *payloads: bytes, header: bytes | None = None, reply: bytes | None = None) -> None:
        """The consumer delivers these, and one read brings them all."""
        sid = str(self.consumer.sid).encode()
        self.feed(b"".join(encode_msg(b"s.a", sid, reply or self.reply(), header, payload) for payload in payloads))

    def numbered(self, count: int) -> None:
        """The consumer delivers so many."""
        self.messages(*(b"%d" % (self.sequence + 1 + number) for number in range(count)))

    def status(self, to: bytes | dict[str, Any], text: str) -> None:
        """The server ends a request."""
        subject = to if isinstance(to, bytes) else to["reply"]
        sid = str(self.consumer.sid).encode()
        self.feed(encode_msg(subject, sid, None, f"NATS/1.0 {text}\r\n\r\n".encode(), b""))

    def fetch(self, batch: int = 1, expires: float = 5.0, **keywords: Any) -> Fetch:
        return self.consumer.fetch(batch, now=self.now, expires=expires, **keywords)

    def no_wait(self, batch: int = 1, patience: float = 2.0) -> Fetch:
        return self.consumer.fetch_no_wait(batch, now=self.now, patience=patience)

    def taken(self, fetch: Fetch) -> list[bytes]:
        """The payloads of a fetch that is done."""
        fetch.done.result()
        return [message.data for message in self.consumer.take(fetch)]

    def popped(self, most: int = 1_000) -> list[bytes]:
        """The payloads of what the stream of messages has buffered."""
        return [message.data for message in self.consumer.pop_many(most, self.now)]

    def some(self, count: int = 1, **keywords: Any) -> list[JSMsg]:
        """Messages, fetched."""
        fetch = self.fetch(count)
        self.messages(*[b"x"] * count, **keywords)
        self.published()
        return self.consumer.take(fetch)


def failed(fetch: Fetch) -> Error | None:
    """Why a fetch failed; None when it has not ended, or well."""
    return fetch.done.error


__all__ = ["NEXT", "TIMED_OUT", "Pub", "Pulling", "failed"]
