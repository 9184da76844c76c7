"""A program with threads against a ``World`` in real time: with the faults of a list, but not reproducible.

How it works
 * A thread runs what is due in the world by the real clock. One lock guards the world.
 * The connections of all threads of the process are captured, and those of a host by its name.

Rules
 * Nothing but the connections is simulated. Who runs when is the operating system's choice.
 * The same seed gives the same faults at the same times, but not the same bytes: ``digest`` proves nothing here.
 * A thread cannot be killed. Of a host that is killed all links are cut, and none can be dialled until the fault ends.
 * At the end all hosts are killed. Threads of the program that never give up are left behind.
 * After ``until`` seconds the server is gone for good: a program that waits for it gets an error.

Not here: programs that can be simulated (``loop``, ``trio``, ``blocking``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from errno import ECONNREFUSED
from math import inf
from os import strerror
from time import monotonic, sleep
from typing import Any
from weakref import ref

from jsproto.testing.world import StuckError, World
from jsproto_io._state.common import clamp_sleep
from jsproto_io._threads.poller import Poller
from jsproto_io.testing.pipes.end import ClientEnd
from jsproto_io.testing.pipes.threads import PipePoller
from jsproto_io.testing.simulation.ends import WorldEnd, dial
from jsproto_io.testing.simulation.engine import Engine, Host, current_host


class RealTime(Engine):
    """The threads of a program: their time, and the dialer of their connections."""

    def __init__(self, world: World, entropy: Callable[[int], bytes], *, until: float, most_turns: int) -> None:
        """``until``: seconds after which the server is gone. ``most_turns`` is no bound here."""
        super().__init__(world, entropy, until=until, most_turns=most_turns)
        self._began = monotonic()
        self.guard = threading.RLock()  # the garbage collector may end a link while it is held
        self._alarm = threading.Lock()  # the thread acquires it to sleep, and it is released to wake it up
        self._alarm.acquire()
        self._is_over = False
        self._hosts: list[Host] = []
        self._ends: dict[Host, list[ref[WorldEnd]]] = {}

    # -- for ``simulate`` ----------------------------------------------------------------------------------------------

    def run(self, main: Callable[[], Any], at_end: Callable[[], None], grace: float) -> Any:
        """Run ``main``, and return what it returns. ``at_end`` is called then, and the server is gone.

        Raises:
            Exception: that of ``main``, or of the server.
            StuckError: it has not ended within its bounds.
        """
        thread = threading.Thread(target=self._keep_time, name="jsproto-world", daemon=True)
        thread.start()
        try:
            result = main()
        except Exception:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            with self.guard:
                at_end()
                self._is_over = True
                for host in self._hosts:
                    self.kill(host)
                self._shut()
            self.touched()
            thread.join()
        if self._failure is not None:
            raise self._failure
        return result

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass, as they do."""
        sleep(seconds)

    def touched(self) -> None:
        """Something was put into the world: wake its thread up."""
        if self._alarm.locked():
            with suppress(RuntimeError):  # another thread was faster
                self._alarm.release()

    def start_host(self, host: Host, run: Callable[[], Any]) -> None:
        """Start a thread that belongs to ``host``. Threads that it starts do not."""
        self._hosts.append(host)
        context = copy_context()
        context.run(current_host.set, host)
        threading.Thread(target=context.run, args=(run,), name=f"jsproto-{host.name}", daemon=True).start()

    def kill(self, host: Host) -> None:
        """Its links are cut, and it can dial no more."""
        host.is_alive = False
        for found in self._ends.pop(host, []):
            if (end := found()) is not None:
                end.cut()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        while not self._is_over:
            with self.guard:
                self.turns += 1
                due = self._run_world()
            self._alarm.acquire(timeout=clamp_sleep(due - self.now()))

    def _run_world(self) -> float:
        """Do what is due, and return when more is, in seconds."""
        world = self.world
        world.now = max(world.now, self.now())
        try:
            if world.now > self._until:
                raise StuckError(f"no end within {self._until:g} s")
            world.run()
        except Exception as failure:  # the role's, or there is no end
            self._failure = self._failure or failure
            self._is_over = True
            self._shut()
        due = world.deadline()
        return min(self._until, inf if due is None else due)

    def _shut(self) -> None:
        self.world.is_up = False
        for link in list(self.world.links):
            self.world.break_link(link)

    def _dial(self, host: str, port: int) -> ClientEnd:
        dialing = current_host.get()
        if dialing is not None and not dialing.is_alive:
            raise ConnectionRefusedError(ECONNREFUSED, strerror(ECONNREFUSED))
        with self.guard:
            end = WorldEnd(dial(self.world, "" if dialing is None else dialing.name), self.touched, self.guard)
            if dialing is not None:
                self._ends.setdefault(dialing, []).append(ref(end))
            self.touched()
        return end

    # -- what a connection asks of a dialer ----------------------------------------------------------------------------

    def now(self) -> float:
        """The seconds since the beginning."""
        return monotonic() - self._began

    def poller(self) -> Poller:
        """As in ``jsproto_io.dialer.SyncDialer``."""
        return PipePoller(self._dial, self.now)
