"""The ceiling of pure Python: each job as a loop on a blocking socket, written by hand for that job alone.

It checks what it must to do the job, and nothing else: no validation, no timers, no errors worth the name. What a
client costs above it is what the client does for its users.
"""

from __future__ import annotations

import json
import os
import socket
from itertools import islice
from typing import Final

from tests.bench.task import FETCH, FLOW, PAGE, WINDOW, Run, Task, batches

PING: Final = b"PING\r\n"
READ_SIZE: Final = 262_144
OUTSTANDING: Final = 2  # flow acknowledgements that may be missing
CONNECT: Final = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\nPING\r\n'


class Wire:
    """A connected socket with one inbox, subscribed as 1."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("nats://").partition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox = b"_INBOX.%b" % os.urandom(8).hex().encode()
        self.buffer = b""
        self.read_until(b"INFO ")
        self.send(CONNECT + b"SUB %b.> 1\r\n" % self.inbox)
        self.read_until(b"PONG\r\n")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        data = self.socket.recv(READ_SIZE)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def answer(self) -> bytes:
        """What comes in one piece, but for a PING before it."""
        while (data := self.receive()).startswith(PING):
            self.send(b"PONG\r\n")
            if len(data) > len(PING):
                return data[len(PING) :]
        return data

    def read_until(self, mark: bytes) -> None:
        """Skip what comes up to a line that begins with ``mark``."""
        data = b""
        while mark not in data or not data.endswith(b"\r\n"):
            data += self.receive()

    def payloads(self) -> list[bytes]:
        """Payloads of the messages without headers that were received, at least one."""
        found: list[bytes] = []
        while not found:
            data, at = self.buffer + self.receive(), 0
            while (line_end := data.find(b"\r\n", at)) >= 0:
                if data.startswith(b"PING", at):
                    self.send(b"PONG\r\n")
                    at = line_end + 2
                    continue
                start = line_end + 2
                stop = start + int(data[data.rfind(b" ", at, line_end) : line_end])
                if stop + 2 > len(data):
                    break
                found.append(data[start:stop])
                at = stop + 2
            self.buffer = data[at:]
        return found


def fast_ingest(task: Task, *, tuples: bool = False) -> None:
    """``tuples``: the messages come as a client gets them, each a subject and a payload from an iterator."""
    form = b"PUB %b %b%d.1.$FI %d\r\n%b\r\n"
    with Wire(task.url) as wire:
        for number, run in enumerate(task.runs()):
            messages = ((run.subject, run.payload) for _ in range(1, run.count))
            reply = b"%b.batch%d.%d.fail." % (wire.inbox, number, FLOW)
            head = b"PUB %b %b" % (run.subject.encode(), reply)
            tail = b".1.$FI %d\r\n%b\r\n" % (len(run.payload), run.payload)
            wire.send(b"%b1%b" % (head, tail.replace(b".1.", b".0.", 1)))
            sent, every, acked = 1, *first_ack(wire)
            while sent < run.count:
                limit = min(acked + every * OUTSTANDING, run.count)
                if sent < limit:
                    if tuples:
                        given = enumerate(islice(messages, limit - sent), sent + 1)
                        pieces = [form % (to.encode(), reply, n, len(data), data) for n, (to, data) in given]
                    else:
                        pieces = [b"%b%d%b" % (head, n, tail) for n in range(sent + 1, limit + 1)]
                    wire.send(b"".join(pieces))
                    sent = limit
                else:
                    for payload in wire.payloads():
                        ack = json.loads(payload)
                        acked, every = ack["seq"], min(ack["msgs"], FLOW)
            wire.send(b"%b%d.3.$FI 0\r\n\r\n" % (head, sent + 1))
            while not any(b'"count":%d' % run.count in payload for payload in wire.payloads()):
                pass


def first_ack(wire: Wire) -> tuple[int, int]:
    """Interval and sequence of the acknowledgement of the first message."""
    ack = json.loads(wire.payloads()[0])
    return ack["msgs"], ack["seq"]


def async_publish(task: Task, window: int = WINDOW, *, replies: bool = False) -> None:
    """``replies``: each message has a reply subject of its own. Clients need them, to tell acknowledgements apart."""
    with Wire(task.url) as wire:
        for run in task.runs():
            head = b"PUB %b %b." % (run.subject.encode(), wire.inbox)
            tail = b" %d\r\n%b\r\n" % (len(run.payload), run.payload)
            message = b"%back%b" % (head, tail)
            sent = acked = 0
            while acked < run.count:
                free = min(window - (sent - acked), run.count - sent)
                if free:
                    own = range(sent, sent + free)
                    wire.send(b"".join([b"%b%d%b" % (head, n, tail) for n in own]) if replies else message * free)
                    sent += free
                for payload in wire.payloads():
                    if b'"seq":' not in payload:
                        raise ConnectionError(f"not an acknowledgement: {payload!r}")
                    acked += 1


def atomic(task: Task) -> None:
    with Wire(task.url) as wire:
        for run in task.runs():
            for chunk in batches(run):
                batch(wire, run, b"%b-%d" % (run.stream.encode(), chunk.start), len(chunk))


def batch(wire: Wire, run: Run, batch_id: bytes, count: int) -> None:
    """One atomic batch: the first message and the last are answered."""
    head = b"NATS/1.0\r\nNats-Batch-Id: %b\r\nNats-Batch-Sequence: " % batch_id
    subject, size = run.subject.encode(), len(run.payload)

    def message(sequence: int, reply: bytes, tail: bytes) -> bytes:
        header = b"%b%d%b\r\n\r\n" % (head, sequence, tail)
        place = b"HPUB %b %b %d %d" % (subject, reply, len(header), len(header) + size)
        return b"%b\r\n%b%b\r\n" % (place, header, run.payload)

    wire.send(message(1, wire.inbox + b".first", b""))
    (accepted,) = wire.payloads()
    if accepted:
        raise ConnectionError(f"not accepted: {accepted!r}")
    wire.send(b"".join([message(sequence, b"", b"") for sequence in range(2, count)]))
    wire.send(message(count, wire.inbox + b".last", b"\r\nNats-Batch-Commit: 1"))
    (ack,) = wire.payloads()
    if b'"count":%d}' % count not in ack:
        raise ConnectionError(f"not committed: {ack!r}")


def direct_get(task: Task) -> None:
    with Wire(task.url) as wire:
        for run in task.runs():
            while run.received < run.count:
                page = min(run.count - run.received, PAGE)
                ask(wire, b"$JS.API.DIRECT.GET.%b" % run.stream.encode(), {"seq": run.received + 1, "batch": page})
                read_page(wire, run)


def read_page(wire: Wire, run: Run) -> None:
    """Read up to the status at the end of a page."""
    data = wire.buffer
    while True:
        at, end = 0, len(data)
        while (line_end := data.find(b"\r\n", at)) >= 0:
            if data.startswith(b"PING", at):
                wire.send(b"PONG\r\n")
                at = line_end + 2
                continue
            _, header_size, size = data[at:line_end].rsplit(b" ", 2)
            start = line_end + 2
            split, stop = start + int(header_size), start + int(size)
            if stop + 2 > end:
                break
            header = data[start:split]
            at = stop + 2
            if not header.startswith(b"NATS/1.0\r\n"):  # 204, the end of the page
                wire.buffer = data[at:]
                return
            value = header.rfind(b"Nats-Sequence: ") + 15
            run.received += int(header[value : header.find(b"\r", value)]) == run.received + 1
            run.received_bytes += len(data[split:stop])
        data = data[at:] + wire.receive()


def fetch_ack(task: Task) -> None:
    with Wire(task.url) as wire:
        for run in task.runs():
            stream = run.stream.encode()
            config = {"ack_policy": "explicit", "max_ack_pending": -1, "inactive_threshold": 60_000_000_000}
            ask(wire, b"$JS.API.CONSUMER.CREATE.%b" % stream, {"stream_name": run.stream, "config": config})
            (created,) = wire.payloads()
            consumer = json.loads(created)["name"].encode()
            while run.received < run.count:
                wanted = min(FETCH, run.count - run.received)
                ask(
                    wire,
                    b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % (stream, consumer),
                    {"batch": wanted, "expires": 5 * 10**9},
                )
                replies = read_fetch(wire, run, wanted)
                end = b" 4\r\n+ACK\r\n"
                wire.send(b"PUB " + (end + b"PUB ").join(replies) + end)
            wire.send(b"PING\r\n")
            wire.read_until(b"PONG\r\n")
            ask(wire, b"$JS.API.CONSUMER.DELETE.%b.%b" % (stream, consumer), {})
            wire.payloads()


def ask(wire: Wire, subject: bytes, body: dict[str, object]) -> None:
    """Send a request of the JetStream API."""
    request = json.dumps(body).encode()
    wire.send(b"PUB %b %b.ask %d\r\n%b\r\n" % (subject, wire.inbox, len(request), request))


def read_fetch(wire: Wire, run: Run, wanted: int) -> list[bytes]:
    """Read so many messages. Returns their reply subjects."""
    replies: list[bytes] = []
    data = wire.buffer
    while len(replies) < wanted:
        data += wire.receive()
        at, end = 0, len(data)
        while (line_end := data.find(b"\r\n", at)) >= 0:
            if data.startswith(b"PING", at):
                wire.send(b"PONG\r\n")
                at = line_end + 2
                continue
            _, _, reply, size = data[at:line_end].rsplit(b" ", 3)
            start = line_end + 2
            stop = start + int(size)
            if stop + 2 > end:
                break
            if not reply.startswith(b"$JS.ACK."):
                raise ConnectionError(f"not a message: {data[at:stop]!r}")
            replies.append(reply)
            run.received_bytes += len(data[start:stop])
            at = stop + 2
        data = data[at:]
    wire.buffer = data
    run.received += len(replies)
    return replies
