"""A blocking program in simulated time: one thread, in which time passes while it waits or sleeps.

How it works
 * A wait of ``jsproto_io.sync`` ends in ``Poller.sleep``. That moves time to the next deadline, of a connection or of
   the world, until something has arrived.
 * ``time.sleep``, and the waits of ``threading`` and ``queue``, let time pass too.
 * The reader thread of a connection is played by those: while they let time pass, they serve all connections that have
   one. It takes no time, and is never late.

Rules
 * NotSimulatedError refuses threads, and so callbacks of subscriptions.
 * A program that nothing can wake up, and one that exceeds its bounds, ends with StuckError. No ``except Exception``
   of the program catches it.

Not here: programs with threads (``realtime``), entropy, calls below (``sandbox``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutine
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import ref

from jsproto.errors import LocalProtocolError
from jsproto.testing.world import StuckError, World
from jsproto_io._state.dialling import AddressInfo
from jsproto_io._threads.poller import Link, Poller
from jsproto_io.testing.pipes.threads import PipePoller
from jsproto_io.testing.simulation.ends import WorldEnd, dial
from jsproto_io.testing.simulation.engine import TURN, Engine, Host, refuse

if TYPE_CHECKING:
    from jsproto_io._threads.leadership import Leadership
    from jsproto_io.sync import Connection


class _Over(BaseException):
    """The simulation has ended. No ``except Exception`` of the program catches it."""


class SimulatedThread(Engine):
    """The one thread of a blocking program: its time, and the dialer of its connections."""

    def __init__(self, world: World, entropy: Callable[[int], bytes], *, until: float, most_turns: int) -> None:
        super().__init__(world, entropy, until=until, most_turns=most_turns)
        self._connections: list[ref[Connection]] = []  # those with a reader thread, in the order of their beginning
        self._pollers: list[ref[WorldPoller]] = []

    # -- for ``simulate`` ----------------------------------------------------------------------------------------------

    def run(self, main: Callable[[], Any], at_end: Callable[[], None], grace: float) -> Any:
        """Run ``main``, and return what it returns. ``at_end`` is called then, when nothing is left.

        Raises:
            LocalProtocolError: it is asynchronous.
            Exception: that of ``main``, or of the server.
            StuckError: there is no end.
        """
        with _replaced(threading.Condition, "wait", lambda condition, timeout=None: self._block(condition, timeout)):
            try:
                result = main()
                if iscoroutine(result):
                    result.close()
                    raise LocalProtocolError("main is asynchronous: say clients='asyncio' or 'trio'")
                return result
            except _Over:
                for found in self._pollers:
                    if (poller := found()) is not None:
                        poller.close()  # its connection could not close it
                raise self._failure or AssertionError from None
            finally:
                at_end()

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass.

        Raises:
            ValueError: they are negative.
        """
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.wait(self.world.now + seconds, lambda: False)

    def touched(self) -> None:
        """Something was put into the world: it is asked each turn."""

    def start_host(self, host: Host, run: Callable[[], Any]) -> None:
        """It cannot.

        Raises:
            NotSimulatedError: always.
        """
        refuse("a blocking program has one thread, so there are no hosts beside it")

    def kill(self, host: Host) -> None:
        """There is none."""

    # -- time ----------------------------------------------------------------------------------------------------------

    def wait(self, until: float, is_ready: Callable[[], bool]) -> None:
        """Let time pass until ``until``, in seconds, or until ``is_ready()``."""
        world = self.world
        world.now += TURN
        while True:
            self.turns += 1
            self.at_turn(self.turns)
            if self._failure is not None or self.turns > self._most_turns:
                self._end(StuckError(f"no end after {self.turns} turns, at {world.now:g} s"))
            try:
                world.run()
            except Exception as failure:  # the role's, or there is no end
                self._end(failure)
            due = min(until, self._serve())
            if is_ready() or world.now >= until:
                return
            if (when := world.deadline()) is not None:
                due = min(due, when)
            if due == inf:
                self._end(StuckError(f"nothing will ever happen again, at {world.now:g} s"))
            if due > self._until:
                self._end(StuckError(f"no end within {self._until:g} s"))
            world.now = max(world.now, due)

    def _end(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        raise _Over

    def _block(self, condition: Any, timeout: float | None) -> bool:
        """``Condition.wait``, below which are those of ``Event`` and ``Queue``. Callbacks of events may notify it."""
        notified = threading.Lock()
        notified.acquire()
        condition._waiters.append(notified)
        saved = condition._release_save()
        try:
            until = inf if timeout is None else self.world.now + timeout
            self.wait(until, lambda: not notified.locked())
        finally:
            condition._acquire_restore(saved)
            if notified in condition._waiters:
                condition._waiters.remove(notified)
        return not notified.locked()

    # -- the reader threads --------------------------------------------------------------------------------------------

    def start_reader(self, connection: Connection) -> None:
        """Play the reader thread of ``connection`` from now on, as long as it is in use."""
        self._connections.append(ref(connection))

    def _serve(self) -> float:
        """Let each reader thread do what is due. Returns when the next one is due, in seconds."""
        due = inf
        for found in tuple(self._connections):
            connection = found()
            if connection is None or connection._ended.done:
                self._connections.remove(found)
            elif connection._leadership.leader is None:
                due = min(due, self._lead(connection))
        return due

    def _lead(self, connection: Connection) -> float:
        """One turn of a reader thread, without the sleep. Returns when it would have ended."""
        poller, leadership = connection._poller, connection._leadership
        assert isinstance(poller, WorldPoller)
        leadership.leader = threading.get_ident()
        try:
            connection._plan()
            due = poller.asleep_until
            if poller.is_ready or due <= self.world.now:
                poller.take()
                connection._process_input()
                due = self.world.now  # there may be more to do
        except Exception as bug:
            with connection._lock:
                connection._crash(bug)
            due = inf
        finally:
            leadership.leader = None
            poller.asleep_until = -inf
        return due

    # -- what a connection asks of a dialer ----------------------------------------------------------------------------

    def now(self) -> float:
        """The simulated time in seconds."""
        return self.world.now

    def poller(self) -> Poller:
        """As in ``jsproto_io.dialer.SyncDialer``."""
        poller = WorldPoller(self)
        self._pollers.append(ref(poller))
        return poller


class WorldPoller(PipePoller):
    """A sleep in which simulated time passes. ``is_ready``: something has come, or somebody has ended the sleep."""

    def __init__(self, thread: SimulatedThread) -> None:
        super().__init__(lambda host, port: WorldEnd(dial(thread.world, ""), thread.touched), thread.now)
        self.is_ready = False
        self._thread = thread

    def sleep(self) -> None:
        self._thread.wait(self.asleep_until, lambda: self.is_ready)
        self.take()

    def wakeup(self) -> None:
        self.is_ready = True

    def start_reader(self, connection: Connection, leadership: Leadership) -> None:
        """As in ``Poller``, without a thread."""
        self._thread.start_reader(connection)

    def take(self) -> None:
        """Take what has come."""
        self.is_ready = False
        self._receive()

    def _begin(self, addresses: list[AddressInfo], timeout: float, now: float) -> Link:
        link = super()._begin(addresses, timeout, now)
        link.dial_until = now + 2 * self._thread.world.network.conditions.latency
        return link


@contextmanager
def _replaced(owner: Any, name: str, simulated: Callable[..., Any]) -> Iterator[None]:
    """A method of a class, replaced in this thread alone."""
    real, here = getattr(owner, name), threading.get_ident()

    def either(*args: Any, **keywords: Any) -> Any:
        return (simulated if threading.get_ident() == here else real)(*args, **keywords)

    setattr(owner, name, either)
    try:
        yield
    finally:
        setattr(owner, name, real)
