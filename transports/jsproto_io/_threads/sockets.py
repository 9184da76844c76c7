"""What the driver on threads sleeps on: a TCP socket that never blocks, and a sleep that other threads can end.

Rules
 * Only ``Poller.sleep`` waits, and ``Poller.wakeup`` ends that. Besides, only ``look_up`` blocks.
 * Nothing here takes a lock. The engine lets one thread at a time send, and one sleep, receive and close.
 * Whatever a signal handler raises, no received byte is lost, and the count of sent bytes is known. So results of
   ``recv`` and ``send`` go into lists through ``map``, with no bytecode in between.

Not here: what the bytes mean, which thread may call when (``engine``).
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
from typing import Any, Final, TypeAlias

from jsproto.client.connection.options import Address
from jsproto.client.connection.session import Session
from jsproto_io._state.common import DIAL_ERRORS, clamp_sleep, reason

READ_SIZE: Final = 524_288  # bytes of one recv(): large, so that its fixed cost is small (benchmark row direct-get)
WAKEUP_SIZE: Final = 4_096

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE
AddressInfo: TypeAlias = tuple[Any, Any, int, str, Any]  # as ``socket.getaddrinfo`` has it

_UNDER_WAY: Final = frozenset({0, EINPROGRESS, EWOULDBLOCK})


def look_up(address: Address) -> list[AddressInfo] | Exception:
    """The addresses of a host, or the error of the look-up. It may take seconds: call it without a lock."""
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except DIAL_ERRORS as error:
        return error


class Poller:
    """A sleep that ends when something is received, or when another thread wakes it up.

    Attributes:
        link: the present link, or the one that is being dialled. None: neither.
        asleep_until: when the present sleep ends by itself, in monotonic seconds. Between sleeps it is ``-inf``.
        deadline: that of the session, when the sleep was planned.
        closed: whether ``close`` was called.
    """

    def __init__(self) -> None:
        self.link: TcpSocket | None = None
        self.asleep_until = -inf
        self.deadline = inf
        self.closed = False
        self._wakeup_send, self._wakeup_receive = socket.socketpair()
        self._wakeup_send.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self._wakeup_receive, _READ)

    def has_link(self, session: Session) -> bool:
        """Whether there is a link that is neither being dialled nor lost."""
        return self.link is not None and not self.link.dialling and (session.closed or not session.wants_close)

    def plan(self, session: Session, until: float, *, ended: bool) -> None:
        """Prepare the next sleep: when it ends by itself (``until`` at the latest), and by which events."""
        link, deadline = self.link, session.deadline()
        self.deadline = inf if deadline is None else deadline
        until = min(until, self.deadline)
        if link is not None:
            until = min(until, link.dial_until)
            link.watch()
            if link.received:
                until = 0.0  # a signal handler has raised before they were put in
        if ended or (session.connect_to is not None and (link is None or not link.dialling)):
            until = 0.0  # do not sleep: the next turn may dial, once no thread sends
        self.asleep_until = until

    def sleep(self) -> None:
        """Wait until something is received, until ``asleep_until``, or until woken up."""
        for key, events in self.selector.select(clamp_sleep(self.asleep_until - monotonic())):
            if key.data is None:
                self._wakeup_receive.recv(WAKEUP_SIZE)
            else:
                if events & _WRITE:
                    key.data.blocked = False
                if events & _READ and not key.data.received:
                    key.data.receive()

    def wakeup(self) -> None:
        """End the sleep of another thread."""
        with suppress(OSError):  # it is closed, or was woken up already
            self._wakeup_send.send(b"\0")

    def dial(self, session: Session, addresses: list[AddressInfo] | Exception, now: float) -> None:
        """Begin to dial ``addresses``, or report the failed look-up to ``session``."""
        try:
            if isinstance(addresses, Exception):
                raise addresses
            if session.connect_to is not None:  # else it was closed meanwhile
                self.link = TcpSocket(self.selector, addresses, session.options.connect_timeout, now)
        except DIAL_ERRORS as error:
            session.connection_failed(reason(error), now)

    def finish_dialling(self, session: Session, now: float) -> None:
        """Report the end of dialling to ``session``, if it has ended."""
        link = self.link
        try:
            if link is not None and link.dialling and link.dialled(now) and session.connect_to is not None:
                session.connection_made(now)
        except DIAL_ERRORS as error:
            self.drop()
            session.connection_failed(reason(error), now)

    def hang_up(self) -> None:
        """Shut the link down abruptly, and end the sleep."""
        if self.link is not None:
            self.link.hang_up(abruptly=True)
        self.wakeup()

    def drop(self) -> None:
        """Close the link, if there is one."""
        if self.link is not None:
            self.link.close()
        self.link = None

    def close(self) -> None:
        """Close all. No thread sleeps here any more. No effect the second time."""
        self.drop()
        self._close_own()

    def disown(self) -> None:
        """Close a child process's copies. The parent's sockets and selector are not touched."""
        if self.link is not None:
            self.link.disown()
        self._close_own()

    def _close_own(self) -> None:
        self.closed = True
        self.selector.close()
        self._wakeup_send.close()
        self._wakeup_receive.close()


class TcpSocket:
    """A socket that never blocks: first it dials one address of the host after the other, then it is connected.

    Attributes:
        dialling: whether it is not connected yet.
        dial_until: when the present attempt times out, in monotonic seconds. ``inf`` once connected.
        received: what was received, in pieces. Empty bytes are the end of the stream.
        why: the reason of the end.
        unsent: what is still to be sent.
        blocked: the socket takes no more for now.
        watching: the sleep ends when the socket takes more.
    """

    def __init__(
        self, selector: selectors.BaseSelector, addresses: list[AddressInfo], timeout: float, now: float
    ) -> None:
        """Begin to dial. OSError when that fails at once. Each of ``addresses`` has ``timeout`` seconds."""
        self._selector = selector
        self._timeout = timeout
        self._hung_up = False
        self.dialling = True
        self.dial_until = inf
        self.received: list[bytes] = []
        self.unsent = memoryview(b"")
        self._sent: list[int] = []
        self.blocked = True
        self.watching = True
        self.why = "the server closed the connection"
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

    def take_received(self) -> bytes | None:
        """Take all of ``received``, joined. None: it was empty."""
        data = b"".join(self.received) if self.received else None
        self.received.clear()
        return data

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

    def note_sent(self) -> None:
        """Remove from ``unsent`` what ``send`` has sent."""
        self.unsent = self.unsent[sum(self._sent) :]
        self._sent.clear()

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
