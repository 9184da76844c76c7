"""A TCP socket that never blocks, for the driver on threads.

Rules: only ``sleep`` waits, and another thread can end that. Nothing here takes a lock: the driver sees to it that one
thread at a time sends, and one sleeps and receives.

Not here: what the bytes mean, who may call when (``sync``).
"""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from typing import Final

from jsproto.client.options import Address
from jsproto_io._common import READ_SIZE, reason

_READ: Final = selectors.EVENT_READ
_READ_WRITE: Final = selectors.EVENT_READ | selectors.EVENT_WRITE


class Wire:
    """A connected socket that never blocks, and a sleep from which another thread can rouse."""

    def __init__(self, address: Address, timeout: float) -> None:
        """Dial. OSError when that fails."""
        self._socket = socket.create_connection((address.host, address.port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._rouser, self._roused = socket.socketpair()
        self._rouser.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, _READ)
        self._selector.register(self._roused, _READ)
        self._interest = _READ
        self._hung_up = False
        self.unsent = memoryview(b"")
        self.blocked = False  # the socket takes no more for now
        self.watching = False  # sleep() ends when it does again
        self.over = False  # nothing will be received any more
        self.why = "the server closed the connection"

    def sleep(self, timeout: float) -> bool:
        """Wait until there is something to receive (True), for ``timeout`` seconds, or until roused."""
        interest = _READ_WRITE if self.watching else _READ
        if interest != self._interest:
            self._selector.modify(self._socket, interest)
            self._interest = interest
        readable = False
        for key, events in self._selector.select(timeout):
            if key.fileobj is self._roused:
                self._roused.recv(READ_SIZE)
            else:
                readable = bool(events & _READ)
                if events & selectors.EVENT_WRITE:
                    self.blocked = False
        return readable

    def receive(self) -> bytes | None:
        """What has come; None when that is nothing, empty at the end, which ``why`` explains."""
        try:
            return self._socket.recv(READ_SIZE)
        except BlockingIOError:
            return None
        except OSError as error:
            self.why = reason(error)
            return b""

    def send(self) -> memoryview:
        """Write of ``unsent`` what the socket takes; returns the rest."""
        try:
            return self.unsent[self._socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.why = reason(error)  # what the server said before it went is still to be received
        self.blocked = True
        return self.unsent

    def rouse(self) -> None:
        """End the sleep of another thread."""
        with suppress(OSError):  # it sleeps no more, or is roused already
            self._rouser.send(b"\0")

    def hang_up(self, *, abruptly: bool) -> None:
        """Tell the peer that nothing more comes; it ends its side then. ``abruptly``: do not wait for that."""
        if abruptly or not self._hung_up:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR if abruptly else socket.SHUT_WR)
        self._hung_up = True

    def close(self) -> None:
        self.over = True
        self._selector.close()
        for end in (self._socket, self._rouser, self._roused):
            end.close()
