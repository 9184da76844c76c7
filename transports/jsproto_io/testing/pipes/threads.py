"""Links without sockets for ``jsproto_io.sync``.

Rules: a lock is the alarm that ends the sleep, so that a signal handler can ring it too.

Not here: what is at the other end (``jsproto_io.testing.pipes.server``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic

from jsproto.client.connection.connect_options import Address
from jsproto_io._state.common import clamp_sleep, reason
from jsproto_io._state.dialling import AddressInfo
from jsproto_io._threads.poller import Link, Poller
from jsproto_io.testing.pipes.end import ClientEnd


class PipeLink(Link):
    """One link. It is made when ``dial_until`` has come, which is at once by default."""

    def __init__(self, dial: Callable[[], ClientEnd], on_ready: Callable[[], None], now: float) -> None:
        """``dial`` makes the end, or raises OSError. ``on_ready``: see ``ClientEnd``."""
        super().__init__()
        self.dial_until = now
        self._dial = dial
        self._on_ready = on_ready
        self._end: ClientEnd | None = None

    def dialled(self, now: float) -> bool:
        if now < self.dial_until:
            return False
        self._end = self._dial()
        self._end.on_ready = self._on_ready
        self._on_ready()  # something may have come already
        self.dialling, self.dial_until, self.blocked = False, inf, False
        return True

    def watch(self) -> None:
        """As in ``Link``: it always takes more."""

    def receive(self) -> None:
        """Add what has come to ``received``. An exception of a signal handler ends the link: bytes may be lost."""
        if self._end is None:
            return
        try:
            data = self._end.take()
        except OSError as error:
            self.why, data = reason(error), b""
        except BaseException:
            self._end.close()
            raise
        if data is not None:
            self.received.append(data)

    def send(self) -> None:
        """As in ``Link``: it takes all."""
        if self._end is not None:
            self._sent.append(len(self.unsent))
            self._end.send(bytes(self.unsent))

    def hang_up(self, *, abruptly: bool) -> None:
        if abruptly:
            self.close()
        elif self._end is not None:
            self._end.end()

    def close(self) -> None:
        if self._end is not None:
            self._end.close()

    def disown(self) -> None:
        """As in ``Link``: the other end is the parent's."""


class PipePoller(Poller):
    """A sleep that ends when the link has something, or when another thread wakes it up."""

    def __init__(self, dial: Callable[[str, int], ClientEnd], now: Callable[[], float] = monotonic) -> None:
        """``dial(host, port)`` makes a link, or raises OSError. ``now``: the connection's clock, in seconds."""
        super().__init__()
        self._dial = dial
        self._now = now
        self._alarm = threading.Lock()  # the sleep acquires it, and it is released to end the sleep
        self._alarm.acquire()
        self._pipe: PipeLink | None = None  # as ``link``

    def look_up(self, address: Address) -> list[AddressInfo] | Exception:
        """As in ``Poller``: every host is known."""
        return [("", "", 0, "", (address.host, address.port))]

    def sleep(self) -> None:
        self._alarm.acquire(timeout=clamp_sleep(self.asleep_until - self._now()))
        self._receive()

    def wakeup(self) -> None:
        if self._alarm.locked():
            with suppress(RuntimeError):  # another thread was faster
                self._alarm.release()

    def _receive(self) -> None:
        if self._pipe is not None and self._pipe is self.link:
            self._pipe.receive()

    def _begin(self, addresses: list[AddressInfo], timeout: float, now: float) -> Link:
        self._pipe = PipeLink(partial(self._dial, *addresses[0][4]), self.wakeup, now)
        return self._pipe

    def _close_own(self) -> None:
        self.wakeup()
