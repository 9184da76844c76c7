"""A client and a server of this library in one process, with an input that decides what happens between them.

Each byte of the input is a decision: the application's next verb, which messages pass, which are lost, doubled, changed
or forged, how much time passes, when the link breaks, what becomes of the stream. What holds whatever happens:

* Receiving and ``handle_timeout`` raise nothing, on both sides. Verbs raise an ``Error``.
* Each ticket is completed once. All are done when the session has ended.
* Deadlines move: a side that did what was due wants nothing more at once.
* What one side writes is what the other can read.
* What a peer can make grow stays bounded.

Not here: what holds for one machine (the targets).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from fuzz.tape import Tape
from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.client.jetstream import JetStream
from jsproto.errors import Error
from jsproto.events import Event
from jsproto.grammar.config import StreamConfig
from jsproto.server.server import Server
from jsproto.server.session import ServerSession
from jsproto.ticket import Ticket
from jsproto.timers import earliest
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Frame, Msg, Pub

TOKEN: Final = bytes(range(16))
STEPS: Final = 120  # decisions of one input
ROUNDS: Final = 200  # of what is due at one moment
HELD: Final = 400  # messages that wait in one direction
BUFFERED: Final = 40  # messages of a reader
PAUSES: Final = (0.01, 0.3, 1.1, 2.5, 4.0, 6.0, 11.0, 35.0)  # seconds
PIECES: Final = (
    b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 3\r\n\r\n",
    b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\n\r\n",
    b"NATS/1.0 409 Consumer Deleted\r\n\r\n", b"NATS/1.0 409 Leadership Change\r\n\r\n",
    b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 3\r\n\r\n", b"NATS/1.0 404 No Messages\r\n\r\n",
    b"NATS/1.0 423 Nats-Wrong-Pin-Id\r\n\r\n", b"NATS/1.0\r\nNats-Sequence: 3\r\n\r\n",
)  # fmt: skip
CONFIG: Final = {
    "name": "S", "subjects": ["s.>"], "allow_direct": True, "allow_atomic": True, "allow_batched": True,
    "allow_rollup_hdrs": True, "allow_msg_ttl": True,
}  # fmt: skip
Verb = Callable[[], Any]


class Play:
    """One input. A target makes a subclass: its verbs, and what must hold.

    Attributes: ``tape``, ``server``, ``client``, ``js``, ``now`` (seconds), ``verbs``, ``tickets`` (that verbs
    returned), ``events``.
    """

    def __init__(self, data: bytes) -> None:
        self.tape = tape = Tape(data)
        kind = tape.number(8)
        self.now = 100.0
        self.server = Server(
            token=TOKEN, dialect="draft" if kind & 1 else "released", ack_version=2 if kind & 2 else 1,
            domain="hub" if kind & 4 else None,
        )  # fmt: skip
        self.client = Session(
            connect_options(max_reconnect_attempts=-1, reconnect_time_wait=0.01, dont_randomize=True), token=TOKEN
        )
        self.js = JetStream(self.client)
        self.verbs: Sequence[Verb] = ()
        self.tickets: list[Ticket[Any]] = []
        self.completed: set[Ticket[Any]] = set()
        self.events: list[Event] = []
        self.to_server: list[Pub] = []
        self.to_client: list[Msg] = []
        self.far: ServerSession | None = None
        self.up, self.down = Decoder("server"), Decoder("client")
        self.stored = 0
        self.make_stream()
        self.settle()
        self.begin()

    def begin(self) -> None:
        """Start the machine under test, and set ``verbs``."""

    def check(self) -> None:
        """What must hold after each decision, besides what holds for all."""

    def finish(self) -> None:
        """What must hold when the session has ended."""

    # -- the input -----------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """All of it."""
        for _ in range(STEPS):
            if self.tape.ended:
                break
            self.decide(self.tape.number(16))
            self.exchange()
            self.check()
        self.pass_time(12.0)
        self.check()
        self.client.close(self.now)
        self.exchange()
        assert self.client.deadline() is None
        assert all(ticket.done for ticket in self.tickets), "a ticket outlives its session"
        self.finish()

    def decide(self, what: int) -> None:
        """One decision."""
        tape = self.tape
        if what < 5:
            self.call(self.verbs[tape.number(len(self.verbs))])
        elif what < 8:
            self.settle()
        elif what == 8:
            self.deliver(1 + tape.number(4), tape.number(2) == 0)
        elif what == 9:
            self.pass_time(PAUSES[tape.number(len(PAUSES))])
        elif what == 10:
            self.store(1 + tape.number(5))
        elif what < 13:
            self.meddle_down()
        elif what == 13:
            self.meddle_up()
        elif what == 14:
            self.change_the_world(tape.number(6))
        else:
            self.raw()

    def call(self, verb: Verb) -> None:
        """One verb. What it returns may be a ticket."""
        try:
            made = verb()
        except Error:
            return
        if isinstance(made, Ticket):
            self.tickets.append(made)

    def settle(self) -> None:
        """Everything passes, as often as it causes something more."""
        for _ in range(ROUNDS):
            self.client.flush()
            self.exchange()
            if not self.to_server and not self.to_client:
                return
            self.deliver(HELD, up=True)
            self.deliver(HELD, up=False)
        raise AssertionError("there is no end to it")

    def deliver(self, count: int, up: bool) -> None:
        """The oldest messages arrive, as one piece."""
        if up:
            frames, self.to_server = self.to_server[:count], self.to_server[count:]
            self.to_far(b"".join(map(encode, frames)))
        else:
            messages, self.to_client = self.to_client[:count], self.to_client[count:]
            if messages:
                self.client.receive_data(b"".join(map(encode, messages)), self.now)
        self.exchange()

    def meddle_down(self) -> None:
        """Something becomes of a message to the client."""
        tape, held = self.tape, self.to_client
        if not held:
            self.client.flush()
            self.exchange()
            self.deliver(HELD, up=True)
        held = self.to_client
        if not held:
            return
        place = tape.number(len(held)) if len(held) < 256 else tape.number(256)
        message, kind = held[place], tape.number(8)
        if kind == 0:
            del held[place]
        elif kind == 1:
            held.append(message)
        elif kind == 2:
            held.insert(0, held.pop(place))
        elif kind == 3:
            held[place] = Msg(
                message.subject, message.sid, message.reply, message.header, tape.spliced(message.payload)
            )
        elif kind == 4:
            header = PIECES[tape.number(len(PIECES))] if message.header is None else tape.spliced(message.header)
            held[place] = Msg(message.subject, message.sid, message.reply, header, message.payload)
        elif kind == 5:
            reply = tape.spliced(message.reply or b"$JS.ACK.S.C.1.3.3.1.0").translate(None, b" \t\r\n") or None
            held[place] = Msg(message.subject, message.sid, reply, message.header, message.payload)
        elif kind == 6:
            subject = tape.spliced(message.subject).translate(None, b" \t\r\n") or b"s"
            held[place] = Msg(subject, message.sid, message.reply, message.header, message.payload)
        else:
            header = PIECES[tape.number(len(PIECES))]
            held.insert(place, Msg(message.subject, message.sid, message.reply, header, tape.piece(tape.number(6))))

    def meddle_up(self) -> None:
        """Something becomes of a message to the server."""
        tape = self.tape
        self.client.flush()
        self.exchange()
        held = self.to_server
        if not held:
            return
        place = tape.number(min(len(held), 256))
        message, kind = held[place], tape.number(6)
        if kind == 0:
            del held[place]
        elif kind == 1:
            held.append(message)
        elif kind == 2:
            held.insert(0, held.pop(place))
        elif kind == 3:
            held[place] = Pub(message.subject, message.reply, message.header, tape.spliced(message.payload))
        elif kind == 4:
            header = tape.spliced(message.header or b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n\r\n")
            held[place] = Pub(message.subject, message.reply, header, message.payload)
        else:
            subject = tape.spliced(message.subject).translate(None, b" \t\r\n") or b"s"
            reply = message.reply and (tape.spliced(message.reply).translate(None, b" \t\r\n") or None)
            held[place] = Pub(subject, reply, message.header, message.payload)

    def change_the_world(self, what: int) -> None:
        """The link breaks, the leader goes or comes, the stream is made again, or its consumers are gone."""
        if what < 2:
            self.lose_link()
        elif what == 2:
            if "S" in self.server.leaderless:
                self.server.elect_leader("S", self.now)
            elif "S" in self.server.api.streams:
                self.server.lose_leader("S")
        elif what == 3 and "S" in self.server.api.streams and "S" not in self.server.leaderless:
            self.server.api.delete("S", self.now)
            self.make_stream()
        elif what == 4 and "S" in self.server.api.streams:
            self.server.stream("S").purge()
        else:
            self.server.lame_duck()

    def raw(self) -> None:
        """Any bytes, to one of the sides. Mostly they end the link."""
        data = self.tape.piece(self.tape.number(16))
        if self.tape.number(2):
            self.client.receive_data(data, self.now)
        else:
            self.to_far(data)

    # -- both sides ----------------------------------------------------------------------------------------------------

    def make_stream(self) -> None:
        """The stream, with a few messages."""
        self.server.add_stream(StreamConfig.from_json(CONFIG), self.now)
        self.store(3)

    def store(self, count: int) -> None:
        """Somebody else publishes."""
        for _ in range(count):
            self.stored += 1
            self.server.publish(f"s.{'abc'[self.stored % 3]}", b"%d" % self.stored)
        self.server.handle_timeout(self.now)

    def to_far(self, data: bytes) -> None:
        """Bytes for the server."""
        if self.far is not None and data:
            self.far.receive_data(data, self.now)
            self.server.handle_timeout(self.now)

    def lose_link(self) -> None:
        """The link breaks, with all that is under way."""
        far, self.far = self.far, None
        if far is not None:
            far.receive_eof()
            self.client.receive_eof(self.now)
        self.to_client.clear()
        self.to_server.clear()

    def exchange(self) -> None:
        """What both sides have written goes on its way. Messages wait there, all else arrives."""
        for _ in range(ROUNDS):
            if not any([self.dial(), self.from_client(), self.from_server()]):
                break
        else:
            raise AssertionError("there is no end to what happens in one moment")
        for ticket in self.client.take_completed():
            assert ticket.done, "a ticket that is not done was handed out"
            assert ticket not in self.completed, "a ticket was handed out twice"
            self.completed.add(ticket)
        self.events += self.client.events()
        assert len(self.client.requests) <= STEPS

    def dial(self) -> bool:
        """Connect where the client wants to."""
        if self.client.connect_to is None:
            return False
        self.lose_link()
        self.client.connection_made(self.now)
        self.far = self.server.connect(self.now)
        self.up, self.down = Decoder("server"), Decoder("client")
        return True

    def from_client(self) -> bool:
        """What the client writes."""
        if self.client.wants_tls:
            self.client.tls_failed("there is none", self.now)
            return True
        if self.client.wants_close and self.far is not None:
            self.far.receive_eof()
            self.far = None
            self.to_client.clear()
            self.to_server.clear()
            return True
        if self.far is None or not self.client.wants_send(self.now):
            return False
        frames = self.up.feed(b"".join(self.client.data_to_send()))
        assert self.up.error is None, f"the client wrote what no server can read: {self.up.error}"
        others: list[Frame] = []
        for frame in frames:
            if isinstance(frame, Pub):
                self.to_server.append(frame)
            else:
                others.append(frame)
        del self.to_server[HELD:]
        self.to_far(b"".join(map(encode, others)))
        return True

    def from_server(self) -> bool:
        """What the server writes."""
        far = self.far
        if far is None:
            return False
        data = b"".join(far.data_to_send())
        ends = far.wants_close
        if not data and not ends:
            return False
        frames = self.down.feed(data)
        assert self.down.error is None, f"the server wrote what no client can read: {self.down.error}"
        for frame in frames:
            if isinstance(frame, Msg):
                self.to_client.append(frame)
            else:
                self.client.receive_data(encode(frame), self.now)
        del self.to_client[HELD:]
        if ends and self.far is not None:
            self.lose_link()
        return True

    def pass_time(self, seconds: float) -> None:
        """Time passes, from deadline to deadline. Nothing stays due."""
        end = self.now + seconds
        for _ in range(20 * ROUNDS):
            when = earliest((self.client.deadline(), self.server.deadline()))
            if when is None or when > end:
                break
            self.now = max(self.now, when)
            self.client.handle_timeout(self.now)
            self.server.handle_timeout(self.now)
            self.exchange()
            if len(self.to_client) > HELD // 2:
                self.deliver(HELD, up=False)
        else:
            raise AssertionError("the deadline does not move")
        self.now = end
        self.client.handle_timeout(end)
        self.server.handle_timeout(end)
        self.exchange()


class Reading(Play):
    """One input of a target with a ``reader``, which hands out each sequence once, in order.

    Attributes: ``reader`` (its subclass makes it in ``begin``), ``last`` (the sequence that was handed out last).
    """

    reader: Any
    restarts: tuple[type[Event], ...]
    """The events after which sequences begin again."""

    def __init__(self, data: bytes) -> None:
        self.last = self._falls = 0
        super().__init__(data)

    def pop(self) -> None:
        """What is buffered."""
        for message in self.reader.pop_many(1 + self.tape.number(12), self.now):
            seq = message.metadata.sequence.stream
            self._falls += seq <= self.last
            self.events += self.client.events()
            told = sum(isinstance(event, self.restarts) for event in self.events)
            assert self._falls <= told, f"sequence {seq} was handed out after {self.last}"
            self.last = seq

    def check(self) -> None:
        """The buffer has its bound."""
        assert self.reader.pending_msgs <= BUFFERED
