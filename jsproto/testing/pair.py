"""A client and a server in one process: the client's session and the server role, with a network between them.

Time is ``pair.now``. It moves only forward, from deadline to deadline. ``step()`` goes to the next one and does
everything that is due. ``run_until(ticket)`` steps until the ticket has its answer. The same seed and the same calls
give the same bytes at the same times.

Rules: the client reconnects by its own options, and ``is_reachable`` decides whether it succeeds. Every wait is
bounded: a StuckError ends a test that would hang.

Not here: several clients of one server (connect them by hand: ``server.connect``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from jsproto.client.connection.options import ConnectOptions, connect_options
from jsproto.client.connection.session import Session
from jsproto.client.jetstream import JetStream
from jsproto.errors import Error
from jsproto.events import Event
from jsproto.server.server import Server
from jsproto.server.session import ServerSession
from jsproto.testing.network import Network, Pipe
from jsproto.ticket import Ticket

T = TypeVar("T")

TOKEN: Final = bytes(range(16))
MAX_STEPS: Final = 10_000
MAX_EXCHANGES: Final = 10_000  # in one moment: more means endless messages, or a deadline that does not move


class StuckError(Error):
    """What the caller waits for does not happen within the bounds of the simulation."""


class _Wire:
    """A link: the server's session and both directions. ``has_ended``: the server closed its end."""

    __slots__ = ("down", "has_ended", "session", "up")

    def __init__(self, session: ServerSession, up: Pipe, down: Pipe) -> None:
        self.session = session
        self.up = up
        self.down = down
        self.has_ended = False


class Pair:
    """A client and a server.

    Attributes: ``client`` (its session), ``server``, ``network``, ``now`` (seconds), ``is_reachable`` (whether dialing
    succeeds, may be set), ``events`` (of the client, oldest first).
    """

    def __init__(
        self,
        options: ConnectOptions | None = None,
        *,
        network: Network | None = None,
        server: Server | None = None,
        token: bytes = TOKEN,
        now: float = 0.0,
    ) -> None:
        """A client that is not connected yet, and a server.

        ``options``: the client's. ``token``: the client's entropy, and that of the server made here. ``now``: seconds.
        ``server``: one of the caller's, with the bus that it was made with. Without it, a server of the current release
        whose bus is the network's cluster.
        """
        self.network = network or Network()
        self.server = server or Server(token=token, bus=self.network.cluster)
        self.client = Session(options or connect_options(), token=token)
        self.now = now
        self.is_reachable = True
        self.events: list[Event] = []
        self._wire: _Wire | None = None  # the client's
        self._wires: list[_Wire] = []  # those on which something may be under way

    @property
    def js(self) -> JetStream:
        """JetStream on the client."""
        return JetStream(self.client)

    @property
    def is_linked(self) -> bool:
        """Whether the client has a link."""
        return self._wire is not None

    def connect(self) -> None:
        """Connect the client.

        Raises:
            Error: the connection fails, as the client reports it.
            StuckError: there is no result after ``MAX_STEPS`` steps.
        """
        self.run_until(self.client.connected)

    def exchange(self) -> None:
        """Do everything that is due at ``now``. Time does not move.

        Raises:
            StuckError: there is no end to it.
        """
        for _ in range(MAX_EXCHANGES):
            if not any([self._dial(), self._client(), self._server(), self._carry()]):
                return
        raise StuckError("there is no end to what happens in one moment")

    def step(self) -> bool:
        """Go to the next deadline, and do everything that is due. Returns False if there is none.

        Raises:
            StuckError: there is no end to what is due in one moment.
        """
        self.exchange()
        when = self.deadline()
        if when is None:
            return False
        self.now = max(self.now, when)
        self.exchange()
        return True

    def deadline(self) -> float | None:
        """The next moment at which anything is due, in seconds. None: there is none."""
        deadlines = [self.client.deadline(), self.server.deadline()]
        for wire in self._wires:
            deadlines += [wire.up.deadline(), wire.down.deadline()]
        return min((when for when in deadlines if when is not None), default=None)

    def run_until(self, ticket: Ticket[T], *, steps: int = MAX_STEPS) -> T:
        """Step until ``ticket`` has its answer, and return it.

        Raises:
            Error: the ticket's error.
            StuckError: there is no answer after ``steps`` steps, or when nothing is due any more.
        """
        self.run(lambda: ticket.done, steps=steps)
        return ticket.result()

    def run(self, until: Callable[[], bool], *, steps: int = MAX_STEPS) -> None:
        """Step until ``until()`` is true.

        Raises:
            StuckError: it is not true after ``steps`` steps, or when nothing is due any more.
        """
        self.exchange()
        for _ in range(steps):
            if until():
                return
            if not self.step():
                break
        if not until():
            raise StuckError(f"nothing came of it, at {self.now:g} s")

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass, with a step at each deadline on the way.

        Raises:
            StuckError: there is no end to what is due in one moment.
        """
        end = self.now + seconds
        self.exchange()
        while (when := self.deadline()) is not None and when <= end:
            self.step()
        self.now = end
        self.exchange()

    def lose_link(self, reason: str = "the link broke") -> None:
        """Break the link. What is under way on it is lost, and both sides see the end, the client with ``reason``."""
        wire, self._wire = self._wire, None
        if wire is None:
            return
        self._wires.remove(wire)
        wire.session.receive_eof()
        self.client.receive_eof(self.now, reason)
        self.exchange()

    # -- inside: each returns whether anything happened ----------------------------------------------------------------

    def _dial(self) -> bool:
        if self.client.connect_to is None:
            return False
        if not self.is_reachable:
            self.client.connection_failed("the server cannot be reached", self.now)
            return True
        self._wire = _Wire(self.server.connect(self.now), *self.network.link())
        self._wires.append(self._wire)
        self.client.connection_made(self.now)
        return True

    def _client(self) -> bool:
        client, wire = self.client, self._wire
        happened = False
        when = client.deadline()
        if when is not None and when <= self.now:
            client.handle_timeout(self.now)
            happened = True
        if wire is not None and (client.wants_send(self.now) or client.wants_close):
            wire.up.send(b"".join(client.data_to_send()), self.now)
            happened = True
            if client.wants_close:
                wire.up.end(self.now)
                self._wire = None
        for ticket in client.take_completed():
            ticket.wake()
            happened = True
        self.events += client.events()
        return happened

    def _server(self) -> bool:
        when = self.server.deadline()
        if when is None or when > self.now:
            return False
        self.server.handle_timeout(self.now)
        return True

    def _carry(self) -> bool:
        happened = False
        for wire in list(self._wires):
            session = wire.session
            for piece in wire.up.arrived(self.now):
                happened = True
                if piece is None:
                    session.receive_eof()
                else:
                    session.receive_data(piece, self.now)
            for data in session.data_to_send():
                happened = True
                wire.down.send(data, self.now)
            if session.wants_close and not wire.has_ended:
                wire.has_ended = True
                wire.down.end(self.now)
            for piece in wire.down.arrived(self.now):
                happened = True
                if piece is None:
                    self._wires.remove(wire)
                if wire is not self._wire:
                    continue  # the client has closed this link
                if piece is None:
                    self._wire = None
                    self.client.receive_eof(self.now)
                else:
                    self.client.receive_data(piece, self.now)
        return happened
