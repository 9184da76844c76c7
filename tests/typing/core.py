"""What type checkers must say about the core. Checked by mypy, never run.

A line that must be an error carries an ignore with its code: mypy complains when it is no error (any more).
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from jsproto import (
    APIError,
    BatchAbandoned,
    ConsumerConfig,
    ConsumerInfo,
    DirectBatch,
    Error,
    FastPublisher,
    JetStream,
    JSAck,
    LastMessages,
    Msg,
    PubAck,
    Seconds,
    ServerInfo,
    Session,
    Snapshot,
    StoredMsg,
    StreamConfig,
    StreamInfo,
    Ticket,
    connect_options,
    parse_jsack,
)
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.subscribe import SubscriptionSpec


def session(token: bytes) -> Session:
    """Options are keywords of known names and types."""
    options = connect_options("nats://localhost:4222", name="app", ping_interval=30)
    connect_options("nats://localhost:4222", ping_intervall=30)  # type: ignore[call-arg]
    connect_options("nats://localhost:4222", name=1)  # type: ignore[arg-type]
    made = Session(options, token=token)
    assert_type(made.connected, Ticket[ServerInfo])
    assert_type(made.data_to_send(), list[bytes])
    assert_type(made.deadline(), float | None)
    assert_type(made.error, Error | None)
    made.receive_data("PONG", 0.0)  # type: ignore[arg-type]
    made.receive_data(bytearray(b"PONG"), 0.0)  # type: ignore[arg-type]
    return made


def tickets(js: JetStream, now: float) -> None:
    """A ticket knows what it will hold."""
    assert_type(js.stream_info("S", now=now).result(), StreamInfo)
    assert_type(js.delete_stream("S", now=now).result(), bool)
    assert_type(js.create_stream(StreamConfig("S"), now=now), Ticket[StreamInfo])
    assert_type(js.publish("a", b"", now=now), Ticket[PubAck])
    js.publish("a", "text", now=now)  # type: ignore[arg-type]
    js.publish("a", b"")  # type: ignore[call-arg]


def durations(info: StreamInfo, asked: ConsumerConfig) -> None:
    """Seconds are read; a number of them or a timedelta is given."""
    assert_type(info.config.max_age, float | None)
    assert_type(asked.backoff, list[float] | None)
    StreamConfig("S", max_age=timedelta(hours=1), consumer_limits=info.config.consumer_limits)
    StreamConfig("S", consumer_limits={"inactive_threshold": timedelta(hours=1)}, duplicate_window=5)
    ConsumerConfig(ack_wait=30, backoff=[1, 2.5, timedelta(seconds=5)], idle_heartbeat=Seconds.from_nanoseconds(5))
    StreamConfig("S", max_age="1h")  # type: ignore[arg-type]


def batches(js: JetStream, now: float) -> None:
    """Batches in, batches out."""
    batch = js.fast_publisher(gap="ok")
    assert_type(batch, FastPublisher)
    js.fast_publisher(gap="maybe")  # type: ignore[arg-type]
    assert_type(batch.publish("a", b"", now=now), int)
    assert_type(batch.publish_many([("a", b""), ("a", b"", {"K": "v"})], now), int)
    assert_type(batch.commit(now), Ticket[PubAck])
    publisher = js.async_publisher(max_pending=10)
    assert_type(publisher.publish("a", b"", now=now), Ticket[PubAck])
    assert_type(publisher.publish_many([("a", b""), ("a", b"", {"K": "v"})], now), int)
    assert_type([(message[1], error) for message, error in publisher.take_failures()], list[tuple[bytes, Error]])
    assert_type(js.batch_advisories("S", "b1").pop_many(10), list[BatchAbandoned])
    reader = js.get_batch("S", now=now, subject="a.>")
    assert_type(reader, DirectBatch)
    assert_type(reader.pop_many(10, now), list[StoredMsg])
    assert_type(js.get_msg("S", 1, now=now), Ticket[StoredMsg])
    assert_type(js.get_data("S", 1, now=now), Ticket[bytes])
    assert_type(js.get_last_msgs_for("S", "a", now=now), LastMessages | Snapshot)
    assert_type(js.snapshot("S", "a", now=now), Ticket[Snapshot])


def options(js: JetStream, wanted: SubscriptionSpec, info: ConsumerInfo, now: float) -> None:
    """Every verb with options refuses a name, and a type, that it does not have."""
    js.publish("a", now=now, nonsense=True)  # type: ignore[call-arg]
    js.async_publisher(nonsense=True)  # type: ignore[call-arg]
    js.fast_publisher(nonsense=True)  # type: ignore[call-arg]
    js.atomic_batch(nonsense=True)  # type: ignore[call-arg]
    js.publish_batch([], now=now, nonsense=True)  # type: ignore[call-arg]
    js.get_batch("S", now=now, nonsense=True)  # type: ignore[call-arg]
    js.get_batch("S", now=now, batch="9")  # type: ignore[arg-type]
    js.get_last_msgs_for("S", "a", now=now, nonsense=True)  # type: ignore[call-arg]
    js.snapshot("S", "a", now=now, nonsense=True)  # type: ignore[call-arg]
    js.subscribe(wanted, now=now, message_class=JSMsg, nonsense=True)  # type: ignore[call-arg]
    js.subscribe(wanted, now=now, message_class=JSMsg, raw=1)  # type: ignore[arg-type]
    js.subscribe_ordered(wanted, now=now, message_class=JSMsg, nonsense=True)  # type: ignore[call-arg]
    js.source("S", "C", now=now, message_class=JSMsg, nonsense=True)  # type: ignore[call-arg]
    pull = js.pull_consumer(info, JSMsg, heartbeats_missed=2)
    js.pull_consumer(info, JSMsg, nonsense=True)  # type: ignore[call-arg]
    pull.fetch(now=now, expires=1, nonsense=True)  # type: ignore[call-arg]
    pull.start(now=now, nonsense=True)  # type: ignore[call-arg]
    js.consume(pull, info.config, now=now, nonsense=True)  # type: ignore[call-arg]
    session = js.consistent_session()
    session.publish("a", now=now, retry_attempts=1)
    session.publish("a", now=now, nonsense=True)  # type: ignore[call-arg]


def values(message: Msg, reply: bytes, ack: PubAck, error: APIError) -> None:
    """Values are read-only, and ``bytes`` means bytes."""
    assert_type(message.payload, bytes)
    assert_type(message.reply, bytes | None)
    assert_type(parse_jsack(reply), JSAck)
    assert_type(parse_jsack(reply).sequence.stream, int)
    ack.seq = 1  # type: ignore[misc]
    assert_type((error.code, error.err_code, error.description), tuple[int, int, str])
