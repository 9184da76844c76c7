"""A busy machine's pauses, on a quiet one: ``STALLS=1 pytest tests/drivers``.

A test waits for events. This finds one that waits for a time instead: it fails here, and passes elsewhere until a
machine is slow at the wrong moment.

Rules

* A thread that comes back from a call that may wait, such as ``recv``, is held for up to ``LONGEST`` seconds now and
  then. The other threads go on.
* Each thread is free for ``FREE`` seconds after it was held, so that a test of many calls has an end.
* Each nats-server of this process stands still now and then, for as long.
* ``STALLS=2`` chooses other random moments. Without the variable ``tests/conftest.py`` leaves this plugin out.

Not here: pauses between a program's own instructions, other programs that tests start.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final, Self

import pytest

from tests.servers import PAUSED, SIGNALS

LONGEST: Final = 0.5  # seconds
FREE: Final = 1.0  # seconds
PART: Final = 0.05  # of the calls that may wait
WAITING: Final = frozenset(
    {
        "accept", "acquire", "connect", "epoll_wait", "join", "poll", "recv", "recv_into", "select", "send", "sendall",
        "sendmsg", "sleep", "start_joinable_thread", "start_new_thread",
    }
)  # fmt: skip
"""Names of functions written in C."""


class Stalls:
    """For a ``with`` block: holds its thread, and threads that begin in it.

    Attribute: ``active`` (whether it holds threads. The block sets it).
    """

    def __init__(
        self,
        random: Random,
        *,
        part: float = PART,
        free: float = FREE,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Holds nobody yet.

        Args:
            random: chooses the moments.
            part: the part of calls after which a thread is held.
            free: the seconds for which a thread is free after it was held.
            sleep: holds the thread that calls it for so many seconds.
            now: a clock, in seconds.
        """
        self.active = False
        self._random = random
        self._part = part
        self._free = free
        self._sleep = sleep
        self._now = now
        self._free_until: dict[int, float] = {}  # by thread, in seconds

    def __enter__(self) -> Self:
        self.active = True
        threading.setprofile(self.hook)
        sys.setprofile(self.hook)
        return self

    def __exit__(self, *_: object) -> None:
        self.active = False
        threading.setprofile(None)
        sys.setprofile(None)

    def hook(self, frame: FrameType, event: str, arg: Any) -> None:
        """A profile function: Python calls it when a function ends, among others."""
        if event != "c_return" or not self.active or arg.__name__ not in WAITING or self._random.random() >= self._part:
            return
        thread = threading.get_ident()
        if self._now() >= self._free_until.get(thread, 0.0):
            self.hold()
            self._free_until[thread] = self._now() + self._free

    def hold(self) -> None:
        """Hold this thread for a random time."""
        self._sleep(self._random.uniform(0.0, LONGEST))

    def stop_servers(self) -> None:
        """Stop one nats-server after the other, and let it go on. Without end."""
        while True:
            self._sleep(self._random.uniform(0.0, self._free))
            for server in _servers() if self.active else ():
                with SIGNALS, suppress(OSError):  # it has ended
                    if server not in PAUSED:
                        os.kill(server, signal.SIGSTOP)
                        self.hold()
                        os.kill(server, signal.SIGCONT)


def _servers() -> Iterator[int]:
    """The nats-servers that this process started."""
    for task in list(Path("/proc/self/task").iterdir()):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text() == "nats-server\n":
                    yield int(child)


_stalls: Final = Stalls(Random(f"{os.environ.get('STALLS', '')} {os.environ.get('PYTEST_XDIST_WORKER', '')}"))


def pytest_configure() -> None:
    """Begin to stop servers, while a test runs."""
    threading.Thread(target=_stalls.stop_servers, name="stalls", daemon=True).start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Hold threads while a test runs, and not while its servers start."""
    with _stalls:
        return (yield)
