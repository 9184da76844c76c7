"""A trio run in simulated time. All that its connections reach is one server in a ``World``.

How it works
 * The clock of the run is the world's. When no task can run, time moves to the next deadline, of a task or of the
   world. A turn while tasks can run takes ``TURN`` seconds.
 * What arrives wakes the task that receives. The order of the tasks of one turn is trio's own shuffling, by the seed.
 * Each task belongs to a host. When a host is killed its links are cut at once, and its tasks are cancelled, which is
   trio's one way to end them. What they send in ``finally`` reaches nobody any more.

Rules
 * What has no simulation is refused with NotSimulatedError: threads, sockets, name look-ups.
 * A program that nothing can wake up, and one that exceeds its bounds, ends with StuckError: all is cancelled then.
 * Names that are private to trio are used in the last three functions alone.

Not here: entropy, garbage collection, calls below the loop (``sandbox``), faults (``jsproto.testing``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from math import inf
from typing import Any, Final, NoReturn

import trio
import trio._core._run as internals
import trio._threads

from jsproto.testing.world import StuckError, World
from jsproto_io._aio.trio_link import Link
from jsproto_io.testing.pipes.trio import PipeLink
from jsproto_io.testing.simulation.ends import WorldEnd, dial
from jsproto_io.testing.simulation.engine import TURN, Engine, Host, Program, awaited, current_host, refuse

_SEED_SIZE: Final = 16  # bytes


class SimulatedRun(Engine, trio.abc.Clock, trio.abc.Instrument):
    """One run of trio: its clock, its instrument, and the dialer of its connections."""

    def __init__(self, world: World, entropy: Callable[[int], bytes], *, until: float, most_turns: int) -> None:
        super().__init__(world, entropy, until=until, most_turns=most_turns)
        self._grace = 0.0  # seconds
        self._ends = 0  # how often it was
        self._idle_at = -1  # the last turn in which there was nothing to wait for
        self._scope = trio.CancelScope()  # of all hosts
        self._nursery: trio.Nursery | None = None
        self._scopes: dict[Host, trio.CancelScope] = {}
        self._waiting: list[tuple[Host, Program]] = []  # hosts that start with the run

    # -- for ``simulate`` ----------------------------------------------------------------------------------------------

    def run(self, main: Program, at_end: Callable[[], None], grace: float) -> Any:
        """Run ``main``, and return what it returns. ``at_end`` is called then, and all that is left is cancelled.

        ``grace``: seconds that is given to end.

        Raises:
            Exception: that of ``main``.
            StuckError: there is no end.
        """
        self._grace = grace
        with _deterministic(self.entropy(_SEED_SIZE)):
            try:
                return trio.run(self._main, main, at_end, clock=self, instruments=[self])
            except trio.TrioInternalError as error:
                raise self._failure or error from None

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Let ``seconds`` pass."""
        return trio.sleep(seconds)

    def touched(self) -> None:
        """Something was put into the world: it is asked each turn."""

    def start_host(self, host: Host, run: Program) -> None:
        """Start a task that belongs to ``host``, with all that it starts."""
        if self._nursery is None:
            self._waiting.append((host, run))
        else:
            context = copy_context()
            context.run(current_host.set, host)
            context.run(self._nursery.start_soon, self._run_host, host, run)

    def kill(self, host: Host) -> None:
        """End a host at once, as far as anybody outside of it can see."""
        host.is_alive = False
        if host in self._scopes:
            self._scopes[host].cancel()

    # -- the run -------------------------------------------------------------------------------------------------------

    async def _main(self, main: Program, at_end: Callable[[], None]) -> Any:
        trio.socket.set_custom_socket_factory(_Refusing())
        trio.socket.set_custom_hostname_resolver(_Refusing())
        result: Any = None
        error: Exception | None = None
        async with trio.open_nursery() as self._nursery:
            with self._scope:
                for host, run in self._waiting:
                    self.start_host(host, run)
                try:
                    result = await awaited(main, "trio")
                except Exception as failure:
                    error = failure
            at_end()
            self._until, self._most_turns = self.world.now + self._grace, 2 * self._most_turns
            self._nursery.cancel_scope.cancel()
        if self._failure is not None or error is not None:
            raise self._failure or error or AssertionError
        return result

    async def _run_host(self, host: Host, run: Program) -> None:
        with trio.CancelScope() as self._scopes[host]:
            await run()

    def _end(self, failure: Exception) -> None:
        """Cancel all: the second time what is shielded, too. What does not end by that ends with the run."""
        self._ends += 1
        if self._ends == 2:
            _unshield()
        elif self._ends > 2:
            raise failure
        self._failure = self._failure or failure
        self._scope.cancel()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
        self._until = self.world.now + self._grace
        self._most_turns += self._most_turns

    def _is_bounded(self, when: float) -> bool:
        """Whether the run may go on until ``when``. Otherwise it ends."""
        if self.turns > self._most_turns:
            self._end(StuckError(f"no end after {self.turns} turns, at {self.world.now:g} s"))
        elif when == inf:
            self._end(StuckError(f"nothing will ever happen again, at {self.world.now:g} s"))
        elif when > self._until:
            self._end(StuckError(f"no end within {self._until:g} s"))
        else:
            return True
        return False

    def _run_world(self) -> None:
        try:
            self.world.run()
        except Exception as failure:  # the role's, or there is no end
            self._end(failure)

    # -- what trio asks of a clock and of an instrument ----------------------------------------------------------------

    def start_clock(self) -> None:
        """It begins where the world is."""

    def current_time(self) -> float:
        """The simulated time in seconds."""
        return self.world.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """No task can run: let time pass until ``deadline``, or until something is due in the world. No real sleep."""
        if _is_awaited_idle():
            return inf
        world = self.world
        due = world.deadline()
        when = deadline if due is None else min(due, deadline)
        if when == inf and self._idle_at != self.turns - 1:
            self._idle_at = self.turns  # trio may have woken itself up: the next turn tells
        elif self._is_bounded(when):
            world.now = max(world.now, when)
            if due is not None and due <= world.now:
                self._run_world()
        return 0.0

    def before_io_wait(self, timeout: float) -> None:
        """Each turn passes here. A task may be able to run, and time passes for those that only look at it."""
        self.turns += 1
        self.at_turn(self.turns)
        world = self.world
        world.now += TURN
        if self._is_bounded(world.now) and (due := world.deadline()) is not None and due <= world.now:
            self._run_world()

    # -- what a connection asks of a dialer ----------------------------------------------------------------------------

    async def open_link(self, host: str, port: int) -> Link:
        """Dial the server of the world, whatever the address. It takes a round trip."""
        await trio.sleep(2 * self.world.network.conditions.latency)
        dialing = current_host.get()
        if dialing is not None and not dialing.is_alive:
            await trio.sleep_forever()
        return PipeLink(WorldEnd(dial(self.world, "" if dialing is None else dialing.name), self.touched))


class _Refusing(trio.abc.SocketFactory, trio.abc.HostnameResolver):
    """No sockets, and no names."""

    def socket(self, *args: object) -> NoReturn:
        refuse("a socket of the program's own has no simulation")

    async def getaddrinfo(self, *args: object, **options: object) -> NoReturn:
        refuse("looking up a name has no simulation")

    async def getnameinfo(self, *args: object) -> NoReturn:
        refuse("looking up a name has no simulation")


def _refuse_thread(*args: object, **options: object) -> NoReturn:
    refuse("a thread has no simulation")


@contextmanager
def _deterministic(seed: bytes) -> Iterator[None]:
    """Let trio's order of tasks depend on ``seed`` alone, and keep it from threads, idle ones too."""
    changed: Any = internals
    threads: Any = trio._threads
    kept = changed._ALLOW_DETERMINISTIC_SCHEDULING, changed._r.getstate(), threads.start_thread_soon
    changed._ALLOW_DETERMINISTIC_SCHEDULING = True
    changed._r.seed(seed)
    threads.start_thread_soon = _refuse_thread
    try:
        yield
    finally:
        changed._ALLOW_DETERMINISTIC_SCHEDULING = kept[0]
        changed._r.setstate(kept[1])
        threads.start_thread_soon = kept[2]


def _is_awaited_idle() -> bool:
    """Whether a task is in ``wait_all_tasks_blocked``, which comes before time passes."""
    return bool(internals.GLOBAL_RUN_CONTEXT.runner.waiting_for_idle)


def _unshield() -> None:
    """Let each cancellation reach all tasks."""
    tasks = [trio.lowlevel.current_root_task()]
    while tasks:
        task: Any = tasks.pop()
        if task is not None:
            status = task._cancel_status
            while status is not None:
                status._scope.shield = False
                status = status._parent
            tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
