"""The core alone: no socket, no server, one process. And a fixed loop to compare machines by.

Each function prepares a job over ``count`` messages of ``size`` bytes and returns it, to be done once: the caller keeps
the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from jsproto import ConsumerConfig, JetStream, JSMsg, OrderedConsumer, Session, connect_options
from jsproto.client.consume.message import Acker
from jsproto.grammar.api import ApiSubjects
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PONG, encode_info, encode_msg
from jsproto.wire.frames import Frame, Pub, Sub
from tests.bench.task import FLOW

CHUNK: Final = 256  # messages in one call, as the drivers do
READ: Final = 65_536  # bytes in one call
INFO: Final = b'{"server_id":"ID","version":"2.15.1","proto":1,"headers":true,"max_payload":1048576,"jetstream":true}'
STORED: Final = (
    b"NATS/1.0\r\nNats-Stream: DATA\r\nNats-Subject: bench.data\r\nNats-Sequence: %d\r\n"
    b"Nats-Time-Stamp: 2025-06-01T12:00:00.123456789Z\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n"
)
END_OF_PAGE: Final = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: %d\r\n\r\n"

Job: TypeAlias = Callable[[], None]


class Connected:
    """A session whose server is played by the caller."""

    def __init__(self) -> None:
        self.session = Session(connect_options("nats://localhost:4222"), token=bytes(16))
        self.session.connection_made(0.0)
        self.session.receive_data(encode_info(INFO) + PONG, 0.0)
        self.written()

    def written(self) -> list[Frame]:
        """What the session has written since the last call."""
        return Decoder("server").feed(b"".join(self.session.data_to_send()))

    def subscription(self) -> tuple[bytes, bytes]:
        """Subject without its wildcard, and id, of the last subscription."""
        sub = next(frame for frame in reversed(self.written()) if isinstance(frame, Sub))
        return sub.subject.rstrip(b">*"), sub.sid

    def answer(self, request: Frame, payload: bytes, sid: bytes) -> None:
        """Answer a request to the subscription ``sid``."""
        assert isinstance(request, Pub)
        assert request.reply is not None
        self.session.receive_data(encode_msg(request.reply, sid, None, None, payload), 0.0)


def cut(data: bytes) -> list[bytes]:
    """Chunks as a socket gives them."""
    return [data[at : at + READ] for at in range(0, len(data), READ)]


def publish_many(count: int, size: int) -> Job:
    """Fast ingest through the session: encoded, joined for a socket, acknowledged every FLOW messages."""
    peer = Connected()
    session = peer.session
    batch = JetStream(session).fast_publisher(flow=FLOW)
    chunk = [("bench.data", bytes(size))] * CHUNK
    batch.publish("bench.data", b"", now=0.0)
    inbox, sid = peer.subscription()

    def acknowledge(sequence: int) -> None:
        ack = b'{"type":"ack","seq":%d,"msgs":%d}' % (sequence, FLOW)
        session.receive_data(encode_msg(inbox + b"ack", sid, None, None, ack), 0.0)

    def job() -> None:
        left = count
        while left:
            taken = batch.publish_many(chunk if left >= CHUNK else chunk[:left], 0.0)
            left -= taken
            if session.wants_send(0.0):
                b"".join(session.data_to_send())
            if not taken:
                acknowledge(batch.sequence)

    acknowledge(1)
    return job


def parse_msg(count: int, size: int) -> Job:
    """A delivered MSG with a reply subject, from chunks as a socket gives them to a list of frames."""
    reply = b"$JS.ACK.DATA.consumer.1.%d.%d.1750000000123456789.%d"
    data = b"".join(
        encode_msg(b"bench.data", b"7", reply % (n, n, count - n), None, bytes(size)) for n in range(1, count + 1)
    )
    chunks = cut(data)
    decoder = Decoder("client")

    def job() -> None:
        if sum(len(decoder.feed(chunk)) for chunk in chunks) != count:
            raise AssertionError("messages were lost in the decoder")

    return job


def direct_get(count: int, size: int) -> Job:
    """One page of stored messages through the session to the reader: parsed, checked for holes, taken."""
    peer = Connected()
    session = peer.session
    batch = JetStream(session).get_batch("DATA", now=0.0, batch=count)
    frames = peer.written()
    sid = next(frame.sid for frame in frames if isinstance(frame, Sub))
    page = next(frame.reply for frame in frames if isinstance(frame, Pub))
    assert page is not None
    messages = [encode_msg(page, sid, None, STORED % (n, count - n, n - 1), bytes(size)) for n in range(1, count + 1)]
    messages.append(encode_msg(page, sid, None, END_OF_PAGE % count, b""))
    chunks = cut(b"".join(messages))

    def job() -> None:
        taken = 0
        for chunk in chunks:
            session.receive_data(chunk, 0.0)
            taken += len(batch.pop_many(READ, 0.0))
        if taken != count or not batch.finished:
            raise AssertionError(f"{taken} of {count} messages came through the core")

    return job


def deliver(count: int, size: int) -> Job:
    """What an ordered consumer delivers, through the session to the reader: parsed, checked for holes, taken."""
    peer = Connected()
    session = peer.session
    acker = Acker(session, session.requests, JSMsg, wants_acks=False)
    consumer = OrderedConsumer(
        session, acker, api=ApiSubjects(), inbox="_INBOX.bench", config=ConsumerConfig(), timeout=5.0, now=0.0,
        stream="DATA", subject="DATA",
    )  # fmt: skip
    anchor, asked = peer.written()
    assert isinstance(anchor, Sub)
    stream = b'{"config":{"name":"DATA"},"created":"2025-06-01T12:00:00Z"}'
    peer.answer(asked, stream, anchor.sid)
    for answer in (b'{"stream_name":"DATA","name":"C","config":{}}', stream):
        (asked,) = peer.written()
        peer.answer(asked, answer, anchor.sid)
    _, sid = peer.subscription()
    reply = b"$JS.ACK.DATA.%b.1.%%d.%%d.1750000000123456789.%%d" % consumer.consumer.encode()
    messages = [
        encode_msg(b"bench.data", sid, reply % (n, n, count - n), None, bytes(size)) for n in range(1, count + 1)
    ]
    chunks = cut(b"".join(messages))

    def job() -> None:
        taken = 0
        for chunk in chunks:
            session.receive_data(chunk, 0.0)
            taken += len(consumer.pop_many(READ, 0.0))
        if taken != count:
            raise AssertionError(f"{taken} of {count} messages came through the core")

    return job


def calibration(count: int, size: int) -> Job:
    """The fixed loop: a dictionary, a format of bytes, a slice and an append, as hot paths are made of."""
    heads = {n: b"PUB bench.%d " % n for n in range(8)}
    payload = bytes(size)

    def job() -> None:
        kept: list[bytes] = []
        for n in range(count):
            line = b"%b%d\r\n%b\r\n" % (heads[n & 7], n, payload)
            kept.append(line[4:])
            if len(kept) == CHUNK:
                kept.clear()

    return job
