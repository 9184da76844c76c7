"""What the driver on threads sleeps on by default: a TCP socket that never blocks, and a selector.

Rules
 * Nothing here takes a lock.
 * Results of ``recv`` and ``send`` go into lists through ``map``, with no bytecode in between. So a signal handler
   that raises loses none of them.

Not here: the parts that need no operating system, and who may call when (``poller``).
"""

from __future__ import annotations

import selectors
import socket
from collections import deque
from contextlib import suppress
from errno import EINPROGRESS, EWOULDBLOCK
from math import inf
from os import strerror
from time import monotonic
from typing import Final

from jsproto.client.connection.options import Address
from jsproto_io._state.common import DIAL_ERRORS, clamp_sleep, reason
from jsproto_io._threads.poller import AddressInfo, Link, Poller
from jsproto_io.dialer import SystemEntropy

READ_SIZE: Final = 524_288  # bytes of one recv(): large, so that its fixed cost is small (benchmark row direct-get)
WAKEUP_SIZE: Final = 4_096

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE

_UNDER_WAY: Final = frozenset({0, EINPROGRESS, EWOULDBLOCK})


def look_up(address: Address) -> list[AddressInfo] | Exception:
    """The addresses of a host, or the error of the look-up. It may take seconds: call it without a lock."""
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except DIAL_ERRORS as error:
        return error


class SystemDialer(SystemEntropy):
    """The operating system: its sockets and its clock."""

    now = staticmethod(monotonic)

    def poller(self) -> Poller:
        """A selector of its own."""
        return SocketPoller()


class SocketPoller(Poller):
    """A sleep in ``select``, which a byte from another thread ends."""

    def __init__(self) -> None:
        super().__init__()
        self._wakeup_send, self._wakeup_receive = socket.socketpair()
        self._wakeup_send.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self._wakeup_receive, _READ)

    def look_up(self, address: Address) -> list[AddressInfo] | Exception:
        """As in ``Poller``: the resolver of the system."""
        return look_up(address)

    def sleep(self) -> None:
        """As in ``Poller``."""
        for key, events in self.selector.select(clamp_sleep(self.asleep_until - monotonic())):
            if key.data is None:
                self._wakeup_receive.recv(WAKEUP_SIZE)
            else:
                if events & _WRITE:
                    key.data.blocked = False
                if events & _READ and not key.data.received:
                    key.data.receive()

    def wakeup(self) -> None:
        """As in ``Poller``."""
        with suppress(OSError):  # it is closed, or was woken up already
            self._wakeup_send.send(b"\0")

    def _begin(self, addresses: list[AddressInfo], timeout: float, now: float) -> Link:
        return TcpSocket(self.selector, addresses, timeout, now)

    def _close_own(self) -> None:
        self.selector.close()
        self._wakeup_send.close()
        self._wakeup_receive.close()


class TcpSocket(Link):
    """A socket that never blocks: first it dials one address of the host after the other, then it is connected."""

    def __init__(
        self, selector: selectors.BaseSelector, addresses: list[AddressInfo], timeout: float, now: float
    ) -> None:
        """Begin to dial. OSError when that fails at once. Each of ``addresses`` has ``timeout`` seconds."""
        super().__init__()
        self._selector = selector
        self._timeout = timeout
        self._hung_up = False
        self._addresses = deque(addresses)
        self._socket = self._dial_next(now)

    def _dial_next(self, now: float) -> socket.socket:
        while True:
            family, kind, protocol, _, place = self._addresses.popleft()
            attempt = socket.socket(family, kind, protocol)
            attempt.setblocking(False)
            failure = attempt.connect_ex(place)
            if failure in _UNDER_WAY:
                break
            attempt.close()
            if not self._addresses:
                raise OSError(failure, strerror(failure))
        self._selector.register(attempt, _WRITE, self)
        self.blocked = True
        self.dial_until = now + self._timeout
        return attempt

    def dialled(self, now: float) -> bool:
        """Whether it is connected by now. OSError when the last address has failed."""
        failure = 0 if self.blocked else self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not self.blocked and not failure:
            self.dialling, self.dial_until = False, inf
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.watch()
            return True
        if failure or now >= self.dial_until:
            if not self._addresses:
                raise OSError(failure, strerror(failure)) if failure else TimeoutError
            self.close()
            self._socket = self._dial_next(now)
        return False

    def watch(self) -> None:
        """The next sleep ends when there is something to receive or, if ``blocked``, when the socket takes more."""
        wanted = self.blocked
        if wanted != self.watching:
            self._selector.modify(self._socket, _READ | _WRITE if wanted else _READ, self)
            self.watching = wanted

    def receive(self) -> None:
        """Add what the socket has to ``received``, whatever a signal handler raises."""
        pieces = map(self._socket.recv, (READ_SIZE,))
        try:
            self.received.extend(pieces)  # no handler runs before it is kept
        except BlockingIOError:
            pass
        except OSError as error:
            if self.received:
                raise  # it is the signal handler's
            self.why = reason(error)
            self.received.append(b"")

    def send(self) -> None:
        """Send of ``unsent`` what the socket takes. ``note_sent`` follows, whatever a signal handler raises."""
        counts = map(self._socket.send, (self.unsent,))
        try:
            self._sent.extend(counts)  # no handler runs before the count is kept
        except OSError as error:
            if self._sent:
                raise  # it is the signal handler's
            if not isinstance(error, BlockingIOError):
                self.why = reason(error)  # the server's last bytes are still to be received
            self.blocked = True

    def hang_up(self, *, abruptly: bool) -> None:
        """Send FIN, for the peer to end its side. ``abruptly``: do not wait for that, and receive no more."""
        if abruptly or not self._hung_up:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR if abruptly else socket.SHUT_WR)
        self._hung_up = True

    def close(self) -> None:
        """Close the socket. No effect the second time."""
        if self._socket.fileno() >= 0:
            with suppress(KeyError):  # a signal handler has raised in ``watch``
                self._selector.unregister(self._socket)
            self._socket.close()

    def disown(self) -> None:
        """``close`` in a child process, while the parent goes on using the socket and the selector."""
        self._socket.close()
