"""What can happen to a machine, whichever it is: the inputs of ``test_product``.

A ``World`` is a session with one machine on it and a subscription beside it. An input is a function of the world. The
server's side knows nothing of the machine: it answers, denies and goes silent on every subject that it has seen.

Not here: the machines, their verbs and their phases (``test_product``).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Final, TypeAlias

from jsproto.client.connection.subscription import Subscription
from jsproto.errors import Error, LocalProtocolError, OutboundBufferLimitError
from jsproto.grammar.subjects import matches
from jsproto.ticket import Ticket
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PONG, encode_err, encode_info, encode_msg
from jsproto.wire.frames import Pub, Sub
from tests.client.pushing import ack_subject, heartbeat
from tests.harness import INFO, Harness, check_no_fault

Input: TypeAlias = Callable[["World"], None]

TOO_LARGE: Final = b"x" * 1_048_577
WAITING: Final = 100_000  # bytes that the outbox takes
CREATED: Final = "2026-11-20T21:06:13Z"
CONSUMER: Final = {
    "stream_name": "S", "name": "C", "created": CREATED, "num_pending": 3, "delivered": {"consumer_seq": 0},
    "config": {"name": "C", "deliver_subject": "dlv", "ack_policy": "explicit", "durable_name": "C"},
}  # fmt: skip
STREAM: Final = {
    "config": {"name": "S", "subjects": ["e.>"]}, "created": CREATED,
    "state": {"messages": 3, "first_seq": 1, "last_seq": 3, "bytes": 9, "consumer_count": 0, "subjects": {"e.a": 3}},
}  # fmt: skip


class World(Harness):
    """A session with a machine, a subscription that must stay alive, and all that the server has seen of them.

    ``may_end``: the session may give up, because the machine is its link.
    """

    def __init__(self, *, may_end: bool = False, **options: Any) -> None:
        self.may_end = may_end
        self.is_stuck = False
        self.seen: dict[bytes, bytes] = {}
        self.replies: list[bytes] = []
        self.published_to: list[bytes] = []
        self.tickets: list[Ticket[Any]] = []
        super().__init__(max_reconnect_attempts=-1, pending_size=WAITING, **options)
        self.beside = Subscription(self.session, "beside.>")
        self.look()

    def connect(self) -> None:
        """Dial, and answer the handshake, with TLS where it is wanted."""
        self.decoder = Decoder("server")
        self.session.connection_made(self.now)
        self.feed(encode_info(json.dumps(self.info).encode()))
        if self.session.wants_tls:
            self.session.tls_made(self.now)
        self.sent()
        self.feed(PONG * 2)

    def drain(self) -> None:
        """As a driver does, unless the network takes no bytes."""
        if self.is_stuck:
            self.session.take_completed()
            check_no_fault(self.session.events())
        else:
            super().drain()

    def look(self) -> None:
        """Let the server see what was sent."""
        for frame in self.sent(Pub, Sub):
            if isinstance(frame, Sub):
                self.seen[frame.sid] = frame.subject
            elif isinstance(frame, Pub):
                self.published_to.append(frame.subject)
                if frame.reply is not None:
                    self.replies.append(frame.reply)

    @property
    def is_linked(self) -> bool:
        """The link lives, as far as the network knows."""
        return self.session.is_connected

    def send(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A message for every subscription that there ever was to ``subject``: some have ended meanwhile."""
        for sid, pattern in self.seen.items():
            if matches(pattern.decode(), subject.decode()) and self.is_linked:
                self.feed(encode_msg(subject, sid, reply, header, payload))

    def deliver_to_all(self, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A delivery for each subscription, by its id: what a consumer does."""
        for sid in list(self.seen):
            if self.seen[sid] != b"beside.>" and self.is_linked:
                self.feed(encode_msg(b"e.a", sid, reply, header, payload))

    def keep(self, found: object) -> None:
        """A ticket must have an answer at the end."""
        if isinstance(found, Ticket):
            self.tickets.append(found)

    def restore(self) -> None:
        """A new link, once the session dials one."""
        self.is_stuck = False
        for _ in range(50):
            if self.is_linked or self.session.closed or self.session.connect_to is not None:
                break
            self.advance(1.0)
        if not (self.is_linked or self.session.closed):
            self.connect()

    def check(self) -> None:
        """The session lives, and what is beside the machine hears as ever."""
        assert self.may_end or not self.session.closed
        self.is_stuck = False
        if self.may_end and self.is_linked:
            self.lose()  # it may be in the middle of a message
        if not self.is_linked:
            self.restore()
        if self.session.closed:
            return
        self.look()
        self.beside.pop_many(9)
        self.send(b"beside.x", None, None, b"hello")
        assert [message.payload for message in self.beside.pop_many(9)] == [b"hello"]

    def end(self) -> None:
        """The session ends: every wait ends with it."""
        self.session.close(self.now)
        self.drain()
        assert self.session.deadline() is None
        for ticket in self.tickets:
            assert ticket.done, "a ticket without an answer"


def verb(call: Callable[[Any, World], object], *documented: type[Error]) -> Callable[[World, Any], None]:
    """A verb of a machine: it raises a LocalProtocolError, one of ``documented``, or why the machine has ended."""

    def happens(world: World, machine: Any) -> None:
        try:
            found = call(machine, world)
        except Error as error:
            if not isinstance(error, (LocalProtocolError, *documented)) and error is not machine.error:
                raise
            return
        world.keep(found)

    return happens


def bodies(number: int) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Name, payload and header of what servers say; ``number`` stands wherever there is a sequence."""
    said: dict[str, dict[str, Any]] = {
        "flow ack": {"type": "ack", "seq": number, "msgs": 10},
        "flow gap": {"type": "gap", "last_seq": number, "seq": number + 1},
        "flow refusal": {"type": "err", "seq": number, "error": error(400, 10071)},
        "batch ack": {"stream": "S", "seq": number, "batch": "b1", "count": number},
        "ack of another batch": {"stream": "S", "seq": number, "batch": "b2", "count": number},
        "publish ack": {"stream": "S", "seq": number},
    }
    if number == 1:
        said |= {
            "wrong sequence": {"error": error(400, 10071), "stream": "S", "seq": 0},
            "unknown batch": {"error": error(400, 10208), "stream": "S", "seq": 0},
            "too large": {"error": error(400, 10054), "stream": "S", "seq": 0},
            "switched off": {"error": error(400, 10205), "stream": "S", "seq": 0},
            "incomplete batch": {"error": error(400, 10176), "stream": "S", "seq": 0},
            "not found": {"error": error(404, 10014)},
            "unavailable": {"error": error(503, 10008)},
            "stream gone": {"error": error(404, 10059)},
            "consumer": CONSUMER,
            "stream": STREAM,
            "stream made anew": STREAM | {"created": "2026-11-21T00:00:00Z"},
            "leader's message": {
                "message": {"subject": "e.a", "seq": 3, "data": b64encode(b"3").decode(), "time": CREATED}
            },
            "success": {"success": True},
            "not what was asked": {"seq": "x", "batch": 7, "error": [], "config": 1, "state": None, "message": []},
            "empty object": {},
        }
    for name, body in said.items():
        yield name, json.dumps(body).encode(), None
    yield (
        "stored message", b"x",
        f"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: e.a\r\nNats-Sequence: {number}\r\nNats-Time-Stamp: {CREATED}\r\n"
        f"Nats-Num-Pending: 2\r\nNats-Last-Sequence: {number - 1}\r\n\r\n".encode(),
    )  # fmt: skip
    yield (
        "end of batch", b"",
        f"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: {number}\r\nNats-UpTo-Sequence: 9\r\n\r\n"
        .encode(),
    )  # fmt: skip
    if number == 1:
        for text in STATUSES:
            yield text, b"", f"NATS/1.0 {text}\r\n\r\n".encode()
        yield "empty", b"", None
        yield "junk", b"\xff{", None
        yield "a list", b"[1]", None
        yield "a deep one", b'{"a":' * 500, None
        yield "junk in a header", b"x", b"NATS/1.0 \xff\r\n:\r\n\r\n"
        yield "junk in numbers", b"x", b"NATS/1.0\r\nNats-Sequence: -1\r\nNats-Num-Pending: x\r\n\r\n"


STATUSES: Final = (
    "503", "404 No Messages", "404 Message Not Found", "408 Request Timeout", "408 Requests Pending",
    "409 Consumer Deleted", "409 Leadership Change", "409 Message Size Exceeds MaxBytes", "409 Batch Completed",
    "409 Exceeded MaxWaiting", "413 Too Many Results", "400 Bad Request", "412 Required Api Level", "423 Nats-Pin-Id",
    "100 Idle Heartbeat", "100 FlowControl Request", "499 New", "204 EOB", "204",
)  # fmt: skip


def error(code: int, err_code: int) -> dict[str, Any]:
    """An error, as the API writes it."""
    return {"code": code, "err_code": err_code, "description": "no"}


def answered(where: str, payload: bytes, header: bytes | None) -> Input:
    """An answer to the newest request or the oldest, on a subject made up, or as a delivery."""

    def happens(world: World) -> None:
        world.look()
        if where == "delivered":
            world.deliver_to_all(None, header, payload)
        elif where == "forged":
            for pattern in list(world.seen.values()):
                subject = pattern.replace(b"*", b"9").replace(b">", b"9.x")
                if not pattern.startswith(b"beside"):
                    world.send(subject, None, header, payload)
        elif world.replies:
            world.send(world.replies[-1 if where == "newest" else 0], None, header, payload)

    return happens


def delivered(consumer_seq: int, stream_seq: int, consumer: str) -> Input:
    """A message of a consumer."""

    def happens(world: World) -> None:
        world.look()
        world.deliver_to_all(ack_subject(consumer, consumer_seq, stream_seq), None, b"m")

    return happens


def beaten(last: int | str, stalled: str | None) -> Input:
    """A heartbeat of a consumer."""

    def happens(world: World) -> None:
        world.look()
        world.deliver_to_all(None, heartbeat(last, 0, stalled), b"")

    return happens


def marked(world: World) -> None:
    """A demand of flow control."""
    world.look()
    world.deliver_to_all(b"$JS.FC.S.C.1", b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"")


def denied(operation: str, which: int) -> Input:
    """The server permits it no more: the newest subject, the oldest, or one that is not ours."""

    def happens(world: World) -> None:
        world.look()
        ours = world.published_to if operation == "Publish" else list(world.seen.values())
        subjects = [each for each in ours if not each.startswith(b"beside")] if which < 2 else []
        subject = subjects[-which] if subjects else b"elsewhere"
        if world.is_linked:
            world.feed(encode_err(b"'Permissions Violation for %b to \"%b\"'" % (operation.encode(), subject)))

    return happens


def late(seconds: float) -> Input:
    """Time passes, and the driver slept through all of it."""

    def happens(world: World) -> None:
        world.now += seconds
        world.session.handle_timeout(world.now)
        world.drain()

    return happens


def punctual(seconds: float) -> Input:
    """Time passes, deadline by deadline."""
    return lambda world: world.advance(seconds)


def lost(world: World) -> None:
    """The link breaks."""
    world.is_stuck = False
    if world.is_linked:
        world.look()
        world.lose()


def lost_and_restored(world: World) -> None:
    """The link breaks, and there is another one."""
    lost(world)
    world.restore()


def stuck(world: World) -> None:
    """The network takes no bytes any more, and the outbox is full."""
    world.look()
    world.is_stuck = True
    try:
        while True:
            world.session.publish("fill", b"x" * 1_000)
    except OutboundBufferLimitError:
        return


def unstuck(world: World) -> None:
    """The network takes bytes again."""
    world.is_stuck = False
    world.drain()


def inputs() -> Iterator[tuple[str, Input]]:
    """Everything that is not a verb."""
    for number in (1, 2, 3, 11):
        places = ("newest", "oldest", "forged", "delivered") if number == 1 else ("newest", "delivered")
        for (name, payload, header), where in product(bodies(number), places):
            yield f"{name} {number} ({where})", answered(where, payload, header)
    for consumer, (consumer_seq, stream_seq) in product(("C", "o_1"), ((1, 1), (2, 2), (3, 3), (4, 9))):
        yield f"delivery {consumer_seq} of {consumer}", delivered(consumer_seq, stream_seq, consumer)
    for last, stalled in ((0, None), (1, None), (7, "$JS.FC.S.C.2"), ("x", None)):
        yield f"heartbeat {last}", beaten(last, stalled)
    yield "flow control", marked
    for operation, which in product(("Publish", "Subscription"), (1, 0, 2)):
        yield f"{operation} {which} denied", denied(operation, which)
    for seconds in (0.0, 0.3, 1.1, 5.1, 11.0, 1e5):
        yield f"{seconds} s", late(seconds)
    yield "5 s, deadline by deadline", punctual(5.0)
    yield "link lost", lost
    yield "link restored", World.restore
    yield "link lost and restored", lost_and_restored
    yield "outbox full", stuck
    yield "outbox empty", unstuck


def spoken(data: bytes) -> Input:
    """Bytes from the server, on whatever link there is."""
    return lambda world: world.feed(data)


def dialled(world: World) -> None:
    """A server accepts the connection, and has not said anything."""
    for _ in range(50):
        if world.session.closed or world.is_linked or world.session.connect_to is not None:
            break
        world.advance(1.0)
    if world.session.connect_to is not None:
        world.decoder = Decoder("server")
        world.session.connection_made(world.now)


def unreachable(world: World) -> None:
    """No server accepts the connection."""
    if world.session.connect_to is not None:
        world.session.connection_failed("refused", world.now)
    world.drain()


def secured(world: World) -> None:
    """TLS begins, if it is to begin."""
    if world.session.wants_tls:
        world.session.tls_made(world.now)
    world.drain()


def insecure(world: World) -> None:
    """TLS fails."""
    world.session.tls_failed("no", world.now)
    world.drain()


def links() -> Iterator[tuple[str, Input]]:
    """What can happen to a link, and to nothing above it."""
    texts = ("Stale Connection", "Authorization Violation", "Invalid Subject", "Maximum Payload Violation", "")
    yield from ((f"-ERR {text}", spoken(encode_err(b"'%b'" % text.encode()))) for text in texts)
    for fields in ({}, {"tls_available": True}, {"tls_required": True}, {"headers": False, "max_payload": 9}):
        yield f"INFO {fields}", spoken(encode_info(json.dumps(INFO | fields).encode()))
    for data in (
        b"INFO {}\r\n", b"INFO [1]\r\n", b"PING\r\n", b"PONG\r\n", b"PONG\r\nPONG\r\n", b"+OK\r\n",
        b"MSG e.a 1 1\r\nx\r\n", b"HMSG e.a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n", b"MSG e.a 999 1\r\nx\r\n",
        b"CONNECT {}\r\n", b"PUB e.a 1\r\nx\r\n", b"junk\r\n", b"MSG e.a 1 -1\r\n", b"MSG e.a 1 99999999999\r\n",
        b"MSG e.a 1 5\r\nx", b"\xff" * 9_000, b"",
    ):  # fmt: skip
        yield f"{data[:30]!r}", spoken(data)
    yield "dialled", dialled
    yield "unreachable", unreachable
    yield "TLS begins", secured
    yield "TLS fails", insecure


INPUTS: Final[dict[str, Input]] = dict(inputs())
LINKS: Final[dict[str, Input]] = dict(links())
ANSWERS: Final = frozenset(name for name in INPUTS if name.endswith(")"))
