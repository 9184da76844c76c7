"""What surrounds one simulation: entropy from the seed, garbage collection on command, and a ban on all that is real.

Rules
 * ``os.urandom``, ``random``, ``uuid`` and ``secrets`` give the same numbers for the same seed. The clocks of the
   module ``time`` say the simulated time.
 * The garbage collector runs at fixed turns, so that what it ends is ended at the same place in each run.
 * An audit hook refuses sockets, processes, threads and ``time.sleep`` in the thread that simulates. Python cannot
   remove such a hook, so there is one, which is idle between simulations.
 * Other threads notice nothing.

Not here: what the loop itself refuses (``loop``). ``datetime.now()`` and the order in sets of strings stay real: see
``PYTHONHASHSEED``.
"""

from __future__ import annotations

import _thread
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from jsproto.testing.network import SplitMix64
from jsproto_io.testing.simulation.engine import refuse

COLLECT_EVERY: Final = 20_000  # turns of the loop
EPOCH: Final = 1_795_608_000  # seconds since 1970 at which a simulation begins
_REFUSED: Final = frozenset(
    {
        "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
        "socket.gethostbyname", "subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec",
        "os.spawn", "_thread.start_new_thread", "_thread.start_joinable_thread",
    }
)  # fmt: skip

_NOT_THE_PROGRAM: Final = frozenset(
    {
        "_pytest", "anyio", "asyncio", "jsproto", "jsproto_io", "os", "pluggy", "posix", "pytest", "random", "time",
        "trio", "xdist",
    }
)  # fmt: skip

_simulating: set[int] = set()  # idents of threads
_is_installed = False


class Entropy:
    """Bytes that look random and are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = SplitMix64(SplitMix64(seed).number() ^ 0xE27)

    def __call__(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        words = (size + 7) // 8
        return b"".join(self._random.number().to_bytes(8, "big") for _ in range(words))[:size]


def refuse_sleep(seconds: float) -> None:
    """What ``time.sleep`` does in an event loop.

    Raises:
        NotSimulatedError: always.
    """
    refuse("time.sleep() blocks the loop: await the sleep of asyncio or trio")


@contextmanager
def sandbox(
    entropy: Entropy, now: Callable[[], float], sleep: Callable[[float], None] = refuse_sleep
) -> Iterator[None]:
    """Surround a simulation in this thread. ``now``: its clock, in seconds. ``sleep``: of the module ``time``."""
    _install()
    here = threading.get_ident()
    state, was_enabled = random.getstate(), gc.isenabled()
    undo: list[tuple[Any, str, Any]] = []
    replaced: dict[int, Any] = {}  # by the id of the real function
    for module, name, simulated in _replacements(entropy, now, sleep):
        real = getattr(module, name)
        undo.append((module, name, real))
        replaced[id(real)] = _only_in(here, simulated, real)
        setattr(module, name, replaced[id(real)])
    for module, name, real in _taken(tuple(replaced), len(sys.modules)):
        if getattr(module, name, None) is real:
            undo.append((module, name, real))
            setattr(module, name, replaced[id(real)])
    random.seed(int.from_bytes(entropy(8), "big"))
    gc.disable()
    _simulating.add(here)
    try:
        yield
    finally:
        _simulating.discard(here)
        for module, name, real in reversed(undo):
            setattr(module, name, real)
        random.setstate(state)
        if was_enabled:
            gc.enable()


def collect_at(turn: int) -> None:
    """Collect garbage, if ``turn`` is one of those at which it is collected."""
    if turn % COLLECT_EVERY == 0:
        gc.collect()


def collect_from(turn: int) -> None:
    """Collect the garbage of a simulation that has come to ``turn``. It is young if there was no collection yet."""
    gc.collect(0 if turn < COLLECT_EVERY else 2)


@lru_cache(maxsize=1)
def _taken(reals: tuple[int, ...], modules: int) -> list[tuple[Any, str, Any]]:
    """Where modules of the program have taken real functions by name: ``from time import sleep``.

    ``reals``: their ids. ``modules``: how many there are, so that new ones are looked into.
    """
    wanted = frozenset(reals)
    return [
        (module, name, value)
        for title, module in list(sys.modules.items())
        if title.partition(".")[0] not in _NOT_THE_PROGRAM
        for name, value in list(getattr(module, "__dict__", {}).items())
        if id(value) in wanted
    ]


def _replacements(
    entropy: Entropy, now: Callable[[], float], sleep: Callable[[float], None]
) -> list[tuple[Any, str, Callable[..., Any]]]:
    def nanoseconds() -> int:
        return round(now() * 1_000_000_000)

    unheard: list[tuple[Any, str, Callable[..., Any]]] = []
    if sys.version_info < (3, 12):  # it does not tell audit hooks of threads
        unheard = [(_thread, "start_new_thread", _refuse_thread), (threading, "_start_new_thread", _refuse_thread)]
    return [
        *unheard,
        (os, "urandom", entropy),
        (random, "_urandom", entropy),  # of SystemRandom, and so of secrets
        (time, "time", lambda: EPOCH + now()),
        (time, "time_ns", lambda: EPOCH * 1_000_000_000 + nanoseconds()),
        (time, "monotonic", now),
        (time, "monotonic_ns", nanoseconds),
        (time, "perf_counter", now),
        (time, "perf_counter_ns", nanoseconds),
        (time, "sleep", sleep),
    ]


def _refuse_thread(*args: object) -> None:
    refuse("a thread has no simulation: the program may reach nothing real")


def _only_in(here: int, simulated: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    def either(*args: Any) -> Any:
        return (simulated if threading.get_ident() == here else real)(*args)

    return either


def _install() -> None:
    global _is_installed
    if not _is_installed:
        _is_installed = True
        sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _simulating and event in _REFUSED and threading.get_ident() in _simulating:
        refuse(f"{event} has no simulation: the program may reach nothing real")
