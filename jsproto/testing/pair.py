"""A client and a server in one process: the client's session in a ``World``, with a network between them.

Time is ``pair.now``. It moves only forward, from deadline to deadline. ``step()`` goes to the next one and does
everything that is due. ``run_until(ticket)`` steps until the ticket has its answer. The same seed and the same calls
give the same bytes at the same times.

Rules: the client reconnects by its own options, and ``is_reachable`` decides whether it succeeds. Every wait is
bounded: a StuckError ends a test that would hang.

Not here: the server's side, several clients and faults (``World``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from jsproto.client.connection.connect_options import ConnectOptions, connect_options
from jsproto.client.connection.session import Session
from jsproto.client.jetstream import JetStream
from jsproto.events import Event
from jsproto.server.server import Server
from jsproto.testing.network import Network
from jsproto.testing.world import BROKEN, MAX_EXCHANGES, TOKEN, Link, StuckError, World
from jsproto.ticket import Ticket
from jsproto.timers import earliest

T = TypeVar("T")

MAX_STEPS: Final = 10_000


class Pair:
    """A client and a server.

    Attributes: ``client`` (its session), ``world`` (where the two are), ``is_reachable`` (whether dialing succeeds, may
    be set), ``events`` (of the client, oldest first).
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
        self.world = World(network=network or Network(), server=server, token=token, now=now)
        self.client = Session(options or connect_options(), token=token)
        self.is_reachable = True
        self.events: list[Event] = []
        self._link: Link | None = None  # the client's

    @property
    def server(self) -> Server:
        """The server."""
        return self.world.server

    @property
    def network(self) -> Network:
        """The network between them."""
        return self.world.network

    @property
    def now(self) -> float:
        """The simulated time in seconds."""
        return self.world.now

    @property
    def js(self) -> JetStream:
        """JetStream on the client."""
        return JetStream(self.client)

    @property
    def is_linked(self) -> bool:
        """Whether the client has a link."""
        return self._link is not None

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
            if not any([self._dial(), self._client(), self.world.exchange(), self._receive()]):
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
        self.world.now = max(self.now, when)
        self.exchange()
        return True

    def deadline(self) -> float | None:
        """The next moment at which anything is due, in seconds. None: there is none."""
        return earliest((self.client.deadline(), self.world.deadline()))

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
        self.world.now = end
        self.exchange()

    def lose_link(self, reason: str = BROKEN) -> None:
        """Break the link. What is under way on it is lost, and both sides see the end, the client with ``reason``."""
        if self._link is not None:
            self.world.break_link(self._link, reason)
            self.exchange()

    def lose_answer(self, name: str) -> int:
        """Step until the stream ``name`` has stored something. Then the link is lost, and with it the answer.

        Returns the last sequence of the stream. No effect on what the client does next: it reconnects as always.

        Raises:
            KeyError: there is no such stream.
            StuckError: nothing is stored after ``MAX_STEPS`` steps, or there is no link.
        """
        link = self._link
        if link is None:
            raise StuckError("there is no link that could be lost")
        self.world.lose_answer(link, name)
        self.run(lambda: link.error is not None)
        return self.server.stream(name).last_seq

    # -- inside: each returns whether anything happened ----------------------------------------------------------------

    def _dial(self) -> bool:
        if self.client.connect_to is None:
            return False
        link = self.world.dial() if self.is_reachable else None
        if link is None:
            self.client.connection_failed("the server cannot be reached", self.now)
        else:
            self._link = link
            self.client.connection_made(self.now)
        return True

    def _client(self) -> bool:
        client, link = self.client, self._link
        happened = False
        when = client.deadline()
        if when is not None and when <= self.now:
            client.handle_timeout(self.now)
            happened = True
        if link is not None and (client.wants_send(self.now) or client.wants_close):
            link.send(b"".join(client.data_to_send()))
            happened = True
            if client.wants_close:
                link.abort()
                self._link = None
        for ticket in client.take_completed():
            ticket.wake()
            happened = True
        self.events += client.events()
        return happened

    def _receive(self) -> bool:
        link = self._link
        if link is None:
            return False
        pieces = link.received()
        for piece in pieces:
            if piece is None:
                self._link = None
                self.client.receive_eof(self.now)
            else:
                self.client.receive_data(piece, self.now)
        if link.error is not None:
            self._link = None
            self.client.receive_eof(self.now, link.error)
        return bool(pieces) or link.error is not None
