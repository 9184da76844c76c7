"""What each way to run a program gives to a simulation: its time, its hosts, and the dialer of its connections.

There are four: asyncio (``loop``), trio (``trio``), one blocking thread (``blocking``), and threads in real time
(``realtime``).

Not here: what a simulation is (``run``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Final, Literal, NoReturn, TypeAlias

from jsproto.errors import Error, LocalProtocolError
from jsproto.testing.world import World

Clients: TypeAlias = Literal["asyncio", "trio", "blocking", "threads"]
Program: TypeAlias = Callable[[], Any]
"""An asynchronous function without arguments. For blocking programs, a function that blocks."""

TURN: Final = 1e-6  # seconds that pass while something can run


class NotSimulatedError(Error):
    """The program uses something that has no simulation, such as a thread or a socket of its own."""


noted: Final[ContextVar[list[NotSimulatedError] | None]] = ContextVar("jsproto_refusals", default=None)
"""Where refusals are kept, because the program may catch them. None: no simulation runs here."""


def refuse(text: str) -> NoReturn:
    """Keep a refusal, and raise it.

    Raises:
        NotSimulatedError: always.
    """
    error = NotSimulatedError(text)
    refusals = noted.get()
    if refusals is not None:
        refusals.append(error)
    raise error


async def awaited(main: Program, clients: Clients) -> Any:
    """Run an asynchronous ``main``, and return what it returns. ``clients``: how it runs.

    Raises:
        LocalProtocolError: it is not asynchronous, or is for another kind of loop.
    """
    begun: Awaitable[Any] | Any = main()
    if not isawaitable(begun):
        raise LocalProtocolError("main is not asynchronous: say clients='blocking' or 'threads'")
    try:
        return await begun
    except RuntimeError as error:
        if clients == "trio" and str(error) == "no running event loop":
            raise LocalProtocolError("main is a program for asyncio: say clients='asyncio'") from error
        raise


class Host:
    """One run of one host of the application. Attributes: ``name``, ``is_alive``."""

    __slots__ = ("is_alive", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True


current_host: Final[ContextVar[Host | None]] = ContextVar("jsproto_host", default=None)


class Engine(ABC):
    """One way to run a program. It is the dialer of its connections, too: see ``jsproto_io.dialer``.

    Attributes:
        world: what its connections reach.
        turns: how many there were.
        at_turn: called before each turn, with its number.
        guard: held while the world is used from outside.
        entropy: gives as many bytes as it is asked for.
    """

    guard: AbstractContextManager[Any] = nullcontext()

    def __init__(self, world: World, entropy: Callable[[int], bytes], *, until: float, most_turns: int) -> None:
        """``until``: seconds, and ``most_turns``: how many turns, after which it ends with StuckError."""
        self.world = world
        self.entropy = entropy
        self.turns = 0
        self.at_turn: Callable[[int], object] = lambda turn: None
        self._until = until
        self._most_turns = most_turns
        self._failure: Exception | None = None  # why it ends before its time

    @abstractmethod
    def run(self, main: Program, at_end: Callable[[], None], grace: float) -> Any:
        """Run ``main``, and return what it returns. ``at_end`` is called then, and all that is left is cancelled.

        ``grace``: the seconds that it has to end.

        Raises:
            Exception: that of ``main``, or of the server.
            StuckError: there is no end.
        """

    @abstractmethod
    def sleep(self, seconds: float) -> Any:
        """Let ``seconds`` pass. What is returned is to be awaited. None: they have passed."""

    @abstractmethod
    def touched(self) -> None:
        """Something was put into the world, which may be due earlier now."""

    @abstractmethod
    def start_host(self, host: Host, run: Program) -> object:
        """Start a program that belongs to ``host``, with all that it starts."""

    @abstractmethod
    def kill(self, host: Host) -> None:
        """End a host at once, as far as it can be done."""
