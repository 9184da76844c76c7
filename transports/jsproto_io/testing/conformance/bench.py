"""What a case of conformance works with: an adapter around the driver, a server, and a conversation that listens.

Not here: the cases (``outbox_cases``, ``driver_cases``), and who runs them (the package).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from jsproto.client.connection.session import Session
from jsproto.errors import Error, TimeoutError
from jsproto.events import Event
from jsproto.outbox import Conversation, Outbox
from jsproto.ticket import Readable, Ticket
from jsproto.wire.frames import Msg
from jsproto_io.testing.threads import MemoryServer, serve

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that a case waits for what should come at once."""
A_MOMENT: Final = 0.2
"""Seconds that a case lets pass on purpose."""

Body: TypeAlias = Generator[Any, Any, None]


class Client(Protocol):
    """A connection of the driver, as the adapter shows it.

    Attributes:
        outbox: the ``jsproto.Session`` that is driven. For the cases of an outbox: any ``jsproto.Outbox``.
    """

    @property
    def outbox(self) -> Outbox: ...

    def call(self, verb: Callable[[float], T]) -> T:
        """Call ``verb(now)`` as one input, and see to what it caused. Never waits. ``now``: the driver's seconds."""

    def wait(self, ticket: Ticket[Any], timeout: float | None) -> Any:
        """Wait until ``ticket`` is done, and return its result. May return an awaitable of that.

        Raises:
            jsproto.errors.TimeoutError: it was not done after ``timeout`` seconds. The ticket may still be later.
            jsproto.errors.Error: the ticket's.
        """

    def close(self) -> Any:
        """Close the connection, and wait until its link has ended. A second call has no effect. May be awaitable."""


class Adapter(Protocol):
    """What is written for a driver that is to prove itself."""

    def connect(self, servers: str, event_cb: Callable[[Event], object], **options: Any) -> Any:
        """Connect, and return a ``Client``, or an awaitable of it. ``options``: those of ``jsproto.connect_options``.

        ``event_cb``: to be called with each event. An outbox that has no events never calls it.

        Raises:
            jsproto.errors.Error: why there is no connection. A driver raises the error of ``Session.connected``.
        """

    def cancel(self, client: Any, ticket: Ticket[Any]) -> Any:
        """Begin to wait for ``ticket``, cancel that wait, and return True. May return an awaitable.

        Where nobody can cancel a wait, as on threads: return False.
        """


class Bench:
    """The adapter under test, and a server of its own. For a ``with`` block.

    Attributes:
        server: it runs.
        events: of all connections, in their order.
    """

    def __init__(self, adapter: Adapter, options: Mapping[str, Any]) -> None:
        """``options``: of ``jsproto_io.testing.serve``."""
        self.server: MemoryServer = serve(**options)
        self.events: list[Event] = []
        self._adapter = adapter
        self._clients: list[Client] = []

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.server.close()

    def connect(self, **options: Any) -> Generator[Any, Any, Client]:
        """A connection to the server, with short pauses between the attempts to dial it again."""
        wanted = {"reconnect_time_wait": 0.05, "max_reconnect_attempts": -1, "connect_timeout": PATIENCE} | options
        url = wanted.pop("servers", self.server.url)
        client: Client = yield self._adapter.connect(url, self.events.append, **wanted)
        return client

    def cancel(self, client: Client, ticket: Ticket[Any]) -> Any:
        """See ``Adapter.cancel``."""
        return self._adapter.cancel(client, ticket)


@dataclass(frozen=True)
class Case:
    """One test. ``options``: of its server. As text it is its name."""

    body: Callable[[Bench], Body]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.body.__name__

    @property
    def about(self) -> str:
        """What it tests, in a sentence."""
        return (self.body.__doc__ or "").strip()


class Listener(Conversation):
    """A conversation that keeps what it hears.

    Attributes:
        received: the messages.
        links: ``lost`` and ``restored``, in their order.
        errors: why links were lost.
        times: when ``handle_timeout`` was called, in seconds.
        due: the deadline. To be set before ``rearm``.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.received: list[Msg] = []
        self.links: list[str] = []
        self.errors: list[Error] = []
        self.times: list[float] = []
        self.due: float | None = None
        self._news = Readable(outbox.completed)

    def news(self) -> Ticket[None]:
        """Completed when it hears anything more."""
        return self._news.ticket(False)

    def receive(self, message: Msg, now: float) -> None:
        self.received.append(message)
        self._news.notify()

    def deadline(self) -> float | None:
        return self.due

    def handle_timeout(self, now: float) -> None:
        self.times.append(now)
        if self.due is not None and self.due <= now:
            self.due = None
        self._news.notify()

    def link_lost(self, error: Error, now: float) -> None:
        self.errors.append(error)
        self.links.append("lost")
        self._news.notify()

    def link_restored(self, now: float) -> None:
        self.links.append("restored")
        self._news.notify()


def until(client: Client, listener: Listener, condition: Callable[[], object]) -> Body:
    """Wait until ``condition`` holds, which is asked whenever ``listener`` hears something.

    It is asked after ``news()``: what another thread lets it hear meanwhile completes that ticket.
    """
    while True:
        news = client.call(lambda now: listener.news())
        if condition():
            return
        yield client.wait(news, PATIENCE)


def heard(client: Client, listener: Listener, count: int) -> Body:
    """Wait until ``listener`` has so many messages. It must not have more."""
    yield from until(client, listener, lambda: len(listener.received) >= count)
    same(len(listener.received), count, "messages")


def a_moment(client: Client) -> Body:
    """Let time pass: the driver waits in vain."""
    yield from raises(TimeoutError, lambda: client.wait(Ticket(), A_MOMENT))


def raises(kind: type[Exception], act: Callable[[], Any]) -> Generator[Any, Any, Exception]:
    """``act`` raises an error of this ``kind``, at once or when its result is awaited. Returns it."""
    try:
        yield act()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def same(found: object, expected: object, what: str) -> None:
    """Raises: AssertionError: ``found`` is something else than ``expected``."""
    if found != expected:
        raise AssertionError(f"{what}: {found!r:.500}, and not {expected!r:.500}")


def session_of(client: Client) -> Session:
    """The session that a driver drives."""
    if not isinstance(client.outbox, Session):
        raise AssertionError("these cases are for drivers of a jsproto.Session")
    return client.outbox
