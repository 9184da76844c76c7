"""An asyncio event loop in simulated time. All that its connections reach is one server in a ``World``.

How it works
 * Between two turns time moves to the next timer, or to what is due in the world. A turn while tasks are ready takes
   ``TURN`` seconds, so that a task that polls sees the time pass.
 * Bytes that arrive enter the protocol by ``call_soon``, as on a real loop, instead of between two turns.
 * Tasks and futures are hashed by the order of their creation: sets of them have the same order in each run.
 * Each task belongs to a host. When a host is killed, all of it stops: handlers and ``finally``, too.

Rules
 * What has no simulation is refused with NotSimulatedError: threads, files to watch, servers, processes, name look-ups.
 * A program that nothing can wake up, and one that exceeds its bounds, ends with StuckError.

Not here: entropy, garbage collection, calls below the loop (``sandbox``), faults (``jsproto.testing``).
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from itertools import count
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple, Unpack

from jsproto.testing.world import Link, StuckError, World
from jsproto_io.testing.simulation.engine import TURN, Engine, Host, Program, awaited, current_host, refuse
from jsproto_io.testing.simulation.sandbox import collect_from

T = TypeVar("T")
H = TypeVar("H", bound=asyncio.Handle)
Ts = TypeVarTuple("Ts")

RESOLUTION: Final = 1e-6  # seconds: with less, timers far in the future would never be due
_MOST_AWAITS: Final = 100  # of a coroutine that is closed and awaits all the same
_NEVER: Final = float("inf")
_NOT_SIMULATED: Final = (
    "run_in_executor", "set_default_executor", "getaddrinfo", "getnameinfo", "create_server", "create_unix_server",
    "create_unix_connection", "create_datagram_endpoint", "connect_accepted_socket", "connect_read_pipe",
    "connect_write_pipe", "subprocess_exec", "subprocess_shell", "add_reader", "remove_reader", "add_writer",
    "remove_writer", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall",
    "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile", "sendfile", "start_tls", "add_signal_handler",
    "remove_signal_handler",
)  # fmt: skip


class _Task(asyncio.Task[T]):
    """A task that is hashed by its number."""

    numbers = count()
    context: Context
    host: Host | None = None
    _number: int

    def __new__(cls, *args: Any, **options: Any) -> _Task[T]:
        made = super().__new__(cls, *args, **options)
        made._number = next(_Task.numbers)  # before __init__, which puts the task into a set
        return made

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[T]):
    """A future that is hashed by its number."""

    _number: int

    def __new__(cls, *args: Any, **options: Any) -> _Future[T]:
        made = super().__new__(cls, *args, **options)
        made._number = next(_Task.numbers)
        return made

    def __hash__(self) -> int:
        return self._number


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None, **options: Any
) -> asyncio.Task[Any]:
    context = copy_context() if context is None else context
    task: _Task[Any] = _Task(coro, loop=loop, context=context, **options)
    task.context, task.host = context, context.get(current_host)
    return task


class SimulatedLoop(asyncio.BaseEventLoop, Engine):
    """The loop of one simulation."""

    _ready: deque[asyncio.Handle]  # of BaseEventLoop, as are the next two
    _scheduled: list[asyncio.TimerHandle]
    _thread_id: int | None

    def __init__(self, world: World, entropy: Callable[[int], bytes], *, until: float, most_turns: int) -> None:
        asyncio.BaseEventLoop.__init__(self)
        Engine.__init__(self, world, entropy, until=until, most_turns=most_turns)
        _Task.numbers = count()
        self._due: float = -1.0  # when the world is due; earlier than now: ask it
        self._has_dead = False
        self._buried: list[asyncio.Task[Any]] = []  # those of killed hosts, which never run again
        self._selector = self
        self._clock_resolution = RESOLUTION
        self.set_task_factory(_make_task)

    # -- time: what BaseEventLoop asks of a selector -------------------------------------------------------------------

    def time(self) -> float:
        """The simulated time in seconds."""
        return self.world.now

    def select(self, timeout: float | None) -> list[object]:
        """Between two turns: let time pass, and the world do what is due."""
        world = self.world
        self.turns += 1
        if self.turns > self._most_turns:
            raise StuckError(f"no end after {self._most_turns} turns of the loop, at {world.now:g} s")
        self.at_turn(self.turns)
        if timeout == 0:
            world.now += TURN
            if self._due < 0:
                self._due = _or_never(world.deadline())
        else:
            timer = self._scheduled[0].when() if self._scheduled else _NEVER
            self._due = _or_never(world.deadline())
            when = min(timer, self._due)
            if when == _NEVER:
                raise StuckError(f"nothing will ever happen again, at {world.now:g} s")
            if when > self._until:
                raise StuckError(f"no end within {self._until:g} s")
            world.now = max(world.now, when)
        if self._due <= world.now:
            world.run()
            self._due = -1.0
        return []

    def touched(self) -> None:
        """Something was put into the world, which may be due earlier now."""
        self._due = -1.0

    def _process_events(self, event_list: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # -- what tasks ask ------------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        """A future that is hashed by its number."""
        return _Future(loop=self)

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio. Of a host that was killed nothing is called."""
        if self._has_dead and _is_dead(context):
            return _cancelled(asyncio.Handle(callback, args, self, context))
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in asyncio. Of a host that was killed nothing is called."""
        if self._has_dead and _is_dead(context):
            return _cancelled(asyncio.TimerHandle(when, callback, args, self, context))
        return super().call_at(when, callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio, from the loop's own thread.

        Raises:
            NotSimulatedError: another thread calls.
        """
        if self._thread_id not in (None, threading.get_ident()):
            refuse("a thread calls the simulated loop: threads have no simulation")
        return self.call_soon(callback, *args, context=context)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    async def create_connection(
        self, protocol_factory: Callable[[], T], host: str | None = None, port: int | None = None, **options: Any
    ) -> tuple[asyncio.Transport, T]:
        """Dial the server of the world, whatever the address. It takes a round trip.

        Raises:
            NotSimulatedError: of TLS, or with a socket.
            ConnectionRefusedError: the server is down.
        """
        if options.get("ssl") or options.get("sock"):
            refuse("TLS and sockets have no simulation")
        await asyncio.sleep(2 * self.world.network.conditions.latency)
        dialing = current_host.get()
        link = self.world.dial("" if dialing is None else dialing.name)
        self.touched()
        if link is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        protocol = protocol_factory()
        transport = SimulatedTransport(self, link, protocol, (host, port))
        connected = self.create_future()
        self.call_soon(protocol.connection_made, transport)  # type: ignore[attr-defined]
        self.call_soon(transport.begin)
        self.call_soon(connected.set_result, None)
        await connected
        return transport, protocol

    # -- hosts ---------------------------------------------------------------------------------------------------------

    def start_host(self, host: Host, run: Callable[[], Any]) -> asyncio.Task[Any]:
        """Start a task that belongs to ``host``, with all that it starts."""
        context = copy_context()
        context.run(current_host.set, host)
        return self.create_task(run(), context=context)

    def kill(self, host: Host) -> None:
        """End a host at once: nothing of it runs any more."""
        host.is_alive = False
        self._has_dead = True
        self._buried += [task for task in asyncio.all_tasks(self) if isinstance(task, _Task) and task.host is host]
        for handle in (*self._ready, *self._scheduled):
            if _is_dead(handle._context):  # type: ignore[attr-defined]
                handle.cancel()

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Let ``seconds`` pass."""
        return asyncio.sleep(seconds)

    # -- the beginning and the end -------------------------------------------------------------------------------------

    def run(self, main: Program, at_end: Callable[[], None], grace: float) -> Any:
        try:
            return self.run_until_complete(awaited(main, "asyncio"))
        finally:
            at_end()
            self.finish(grace)

    def finish(self, grace: float) -> None:
        """Cancel the tasks that are left and wait for them, at most ``grace`` seconds, then close the loop."""
        try:
            self._until = self.world.now + grace
            self._most_turns += self._most_turns
            self._bury()
            left = list(asyncio.all_tasks(self))
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(_all(left))
            self.run_until_complete(self.shutdown_asyncgens())
        except StuckError:
            self._buried += asyncio.all_tasks(self)
            self._bury()
        finally:
            self.close()

    def _bury(self) -> None:
        """Close the coroutines that never run again. What they complain, and what they left open, is told to nobody."""
        if self._buried:
            hook, sys.unraisablehook = sys.unraisablehook, lambda complaint: None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                while self._buried:
                    _close(self._buried.pop())
                collect_from(self.turns)
            sys.unraisablehook = hook


class SimulatedTransport(asyncio.Transport):
    """The application's end of a link. Nothing it writes has to wait."""

    def __init__(self, loop: SimulatedLoop, link: Link, protocol: Any, peer: tuple[str | None, int | None]) -> None:
        super().__init__({"peername": peer, "sockname": ("127.0.0.1", 50_000 + link.number), "socket": None})
        self._loop = loop
        self._link = link
        self._protocol = protocol
        self._is_closing = False
        self._is_reading = True
        self._is_scheduled = False
        self._context = copy_context()  # of the host that dialed
        if isinstance(protocol, asyncio.BufferedProtocol):
            refuse("a BufferedProtocol has no simulation")

    def begin(self) -> None:
        """The protocol has been told of the connection: give it what arrives."""
        self._link.on_receive = self._schedule
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._receive, context=self._context)

    def _receive(self) -> None:
        self._is_scheduled = False
        if not self._is_reading or self._is_closing:
            return
        for piece in self._link.received():
            if piece is not None:
                self._protocol.data_received(piece)
            elif not self._protocol.eof_received():
                self.close()
            if self.is_closing():
                return
        if self._link.error is not None:
            self._end(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def _end(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._link.abort()
            self._loop.touched()
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    # -- what protocols ask --------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``."""
        if not self._is_closing:
            self._link.send(bytes(data))
            self._loop.touched()

    def write_eof(self) -> None:
        """Send the end of the stream."""
        if not self._is_closing:
            self._link.end()
            self._loop.touched()

    def can_write_eof(self) -> bool:
        """Whether ``write_eof`` works: yes."""
        return True

    def close(self) -> None:
        """End the link. What was written still arrives."""
        self._end(None)

    def abort(self) -> None:
        """End the link. What was written still arrives, as the network has it already."""
        self._end(None)

    def is_closing(self) -> bool:
        """Whether the link has ended, or ends."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Give the protocol nothing until ``resume_reading``."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Give the protocol again what arrives."""
        self._is_reading = True
        self._schedule()

    def is_reading(self) -> bool:
        """Whether the protocol gets what arrives."""
        return self._is_reading and not self._is_closing

    def get_write_buffer_size(self) -> int:
        """Bytes that wait: none."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """No effect: nothing waits."""

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Give what arrives to another protocol."""
        self._protocol = protocol


async def _all(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)


def _or_never(when: float | None) -> float:
    return _NEVER if when is None else when


def _host_of(context: Context | None) -> Host | None:
    return current_host.get() if context is None else context.get(current_host)


def _is_dead(context: Context | None) -> bool:
    host = _host_of(context)
    return host is not None and not host.is_alive


def _cancelled(handle: H) -> H:
    handle.cancel()
    return handle


def _close(task: asyncio.Task[Any]) -> None:
    """Close the coroutine of a task that never runs again. Whatever it raises then has nobody to hear of it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    asyncio.tasks._unregister_task(task)
    coroutine, context = task.get_coro(), getattr(task, "context", copy_context())
    for _ in range(_MOST_AWAITS):
        try:
            context.run(coroutine.close)
        except RuntimeError:
            continue  # it awaits something in a finally
        except BaseException:
            return
        return


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refused(self: SimulatedLoop, *args: object, **options: object) -> NoReturn:
        refuse(f"{name}() has no simulation")

    return refused


for _name in _NOT_SIMULATED:
    setattr(SimulatedLoop, _name, _refuse(_name))
