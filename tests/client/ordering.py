"""An ordered reading, and the server's side of its present consumer."""

from __future__ import annotations

import json
from typing import Any

from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.events import (
    OrderedConsumerRecreated,
)
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.times import format_timestamp
from jsproto.rules.ordered import OrderedPhase
from jsproto.rules.position import ELECTION
from jsproto.wire.frames import Pub
from tests.client.pushing import CREATED, Pushing, ack_subject, info

NOBODY = b"NATS/1.0 503\r\n\r\n"


class Reading:
    """An ordered reading, and the server's side of its present consumer."""

    def __init__(self, config: ConsumerConfig | None = None, *, answer: bool | None = True, **options: Any) -> None:
        """``answer``: the first consumer is there. None: not even its stream is known."""
        self.h = Pushing(**options.pop("session", {}))
        session = self.h.session
        self.ordered = OrderedConsumer(
            session, Acker(session, session.requests, JSMsg, wants_acks=False), api=self.h.js.api,
            inbox="_INBOX.o", config=config or ConsumerConfig(filter_subject="s.a"), timeout=60.0, now=self.h.now,
            stream="S", subject="s.a", idle_heartbeat=1.0, **options,
        )  # fmt: skip
        self.count = 0
        self.last_seq = 0  # of the stream
        self.config: dict[str, Any] = {}
        self.request: Pub
        if answer is not None:
            self.identify(self.asked_for_identity(), 1)
            self.expect_creation()
        if answer:
            self.created()

    def expect_creation(self) -> None:
        """A consumer was asked for, once."""
        creations = [each for each in self.h.asked() if ".DELETE." not in each[0]]
        assert len(creations) == 1, creations
        ((subject, body, self.request),) = creations
        self.config = body["config"]
        assert subject == f"CONSUMER.CREATE.S.{self.config['name']}.s.a"
        assert (body["stream_name"], body["action"]) == ("S", "create")
        assert self.config["deliver_subject"].encode() not in self.h.subs.values()
        self.count = 0

    def created(self, *, at: int | None = None, pending: int = 9, second: int | None = 1) -> None:
        """The consumer is there, of a stream that was created at this ``second``. None: who asks for it has to wait."""
        start = self.config.get("opt_start_seq", 1) - 1 if at is None else at
        delivered = {"consumer_seq": 0, "stream_seq": start}
        self.last_seq = max(self.last_seq, start)
        self.h.reply_to(self.request, info(self.config["name"], self.config, delivered=delivered, num_pending=pending))
        if second is not None:
            self.identify(self.asked_for_identity(), second)
            if (look := self.look()) is not None:
                self.found(look, json.loads(look.payload)["seq"], CREATED)

    def look(self) -> Pub | None:
        """The question for one message of the stream, if there is one."""
        self.h.session.flush()
        self.h.drain()
        looks = [each for each in self.h.frames if isinstance(each, Pub) and each.subject.endswith(b".MSG.GET.S")]
        for each in looks:
            self.h.frames.remove(each)
        return looks[0] if looks else None

    def found(self, pub: Pub, seq: int, time: int) -> None:
        """The message at this sequence was stored at this time."""
        message = {"subject": "s.a", "seq": seq, "data": "", "time": format_timestamp(time)}
        self.h.reply_to(pub, {"message": message})

    def identify(self, pub: Pub, second: int, *, config: dict[str, Any] | None = None, **state: Any) -> None:
        """The stream was created at this second, and ends with what was pushed, or as ``state`` says."""
        state = {"first_seq": 1, "last_seq": self.last_seq, "last_ts": format_timestamp(CREATED), **state}
        created = f"2026-11-20T21:06:{second:02}Z"
        self.h.reply_to(pub, {"config": {"name": "S", **(config or {})}, "created": created, "state": state})

    def doubt(self) -> None:
        """One answer is not believed: the consumer is left, and another one asked for when an election is over."""
        left = self.config["name"]
        assert self.ordered.phase is OrderedPhase.PAUSED
        assert [what for what, _, _ in self.h.asked()] == [f"CONSUMER.DELETE.S.{left}"]
        self.h.advance(ELECTION - 0.1)
        assert self.h.asked() == []
        self.h.advance(0.1)
        self.expect_creation()

    def asked_for_identity(self) -> Pub:
        """The question when the stream was created, asked alone."""
        ((what, _, pub),) = self.h.asked()
        assert what == "STREAM.INFO.S"
        return pub

    def push(self, stream_seq: int, *, skip: int = 0, **keywords: Any) -> None:
        """The next delivery, after ``skip`` that were lost."""
        self.count += 1 + skip
        self.last_seq = max(self.last_seq, stream_seq)
        reply = ack_subject(self.config["name"], self.count, stream_seq, **keywords)
        self.h.push(self.config["deliver_subject"], reply, b"%d" % stream_seq)

    def status(self, header: bytes, reply: bytes | None = None) -> None:
        self.h.push(self.config["deliver_subject"], reply, b"", header)

    def take(self, most: int = 1000) -> list[int]:
        return [int(message.data) for message in self.ordered.pop_many(most, self.h.now)]

    def recreated(self) -> list[str]:
        """Why other consumers were needed since the last call."""
        return [event.reason for event in self.h.events() if isinstance(event, OrderedConsumerRecreated)]


def known(config: ConsumerConfig | None = None, *, count: int = 3, **options: Any) -> Reading:
    """A reading of a stream whose identity is known, which has given ``count`` messages."""
    reading = Reading(config, **options)
    for seq in range(1, count + 1):
        reading.push(seq)
    return reading


def silence(reading: Reading) -> None:
    """The consumer is silent, and another one is asked for."""
    reading.h.advance(3.0)
    reading.expect_creation()


def told(reading: Reading, kind: type[Any]) -> list[Any]:
    return [event for event in reading.h.events() if isinstance(event, kind)]
