"""Links without sockets for ``jsproto_io.sync``.

Rules: a lock is the alarm that ends the sleep, so that a signal handler can ring it too.

Not here: what is at the other end (``jsproto_io.testing.pipes.server``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from jsproto.client.connection.options import Address
from jsproto_io._state.common import clamp_sleep
from jsproto_io._threads.poller import AddressInfo, Link, Poller
from jsproto_io.testing.pipes.end import ClientEnd


class PipeLink(Link):
    """One link."""

    def __init__(self, end: ClientEnd) -> None:
        super().__init__()
        self._end = end
        self.blocked = self.watching = False

    def dialled(self, now: float) -> bool:
        """As in ``Link``: at once."""
        self.dialling = False
        return True

    def watch(self) -> None:
        """As in ``Link``: it always takes more."""

    def receive(self) -> None:
        """Add what has come to ``received``. An exception of a signal handler ends the link: bytes may be lost."""
        try:
            data = self._end.take()
            if data is not None:
                self.received.append(data)
        except BaseException:
            self._end.close()
            raise

    def send(self) -> None:
        """As in ``Link``: it takes all."""
        self._sent.append(len(self.unsent))
        self._end.send(bytes(self.unsent))

    def hang_up(self, *, abruptly: bool) -> None:
        """As in ``Link``."""
        if abruptly:
            self._end.close()
        else:
            self._end.end()

    def close(self) -> None:
        """As in ``Link``."""
        self._end.close()

    def disown(self) -> None:
        """As in ``Link``: the other end is the parent's."""


class PipePoller(Poller):
    """A sleep that ends when the link has something, or when another thread wakes it up."""

    def __init__(self, dial: Callable[[str, int], ClientEnd]) -> None:
        """``dial(host, port)`` makes a link, or raises OSError."""
        super().__init__()
        self._dial = dial
        self._alarm = threading.Lock()  # the sleep acquires it, and it is released to end the sleep
        self._alarm.acquire()
        self._pipe: PipeLink | None = None

    def look_up(self, address: Address) -> list[AddressInfo] | Exception:
        """As in ``Poller``: every host is known."""
        return [("", "", 0, "", (address.host, address.port))]

    def sleep(self) -> None:
        """As in ``Poller``."""
        self._alarm.acquire(timeout=clamp_sleep(self.asleep_until - monotonic()))
        if self._pipe is not None and self._pipe is self.link:
            self._pipe.receive()

    def wakeup(self) -> None:
        """As in ``Poller``."""
        if self._alarm.locked():
            with suppress(RuntimeError):  # another thread was faster
                self._alarm.release()

    def _begin(self, addresses: list[AddressInfo], timeout: float, now: float) -> Link:
        end = self._dial(*addresses[0][4])
        end.on_ready = self.wakeup
        self.wakeup()  # it is connected
        self._pipe = PipeLink(end)
        return self._pipe

    def _close_own(self) -> None:
        self.wakeup()
