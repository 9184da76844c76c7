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
from contextlib import ExitStack, suppress
from math import inf
from time import monotonic
from typing import Final

from jsproto.client.connection.connect_options import Address
from jsproto_io._state.common import DIAL_ERRORS, READ_SIZE, clamp_sleep, reason
from jsproto_io._state.dialling import AddressInfo, AddressRace, begin, finish
from jsproto_io._threads.poller import Link, Poller
from jsproto_io.dialer import SystemEntropy

WAKEUP_SIZE: Final = 4_096

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE


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
        with ExitStack() as opened:
            self._wakeup_send, self._wakeup_receive = map(opened.enter_context, socket.socketpair())
            self.selector = opened.enter_context(selectors.DefaultSelector())
            opened.pop_all()
        self._wakeup_send.setblocking(False)
        self._wakeup_receive.setblocking(False)
        self.selector.register(self._wakeup_receive, _READ)

    def look_up(self, address: Address) -> list[AddressInfo] | Exception:
        """As in ``Poller``: the resolver of the system."""
        return look_up(address)

    def sleep(self) -> None:
        for key, events in self.selector.select(clamp_sleep(self.asleep_until - monotonic())):
            if key.data is None:
                with suppress(BlockingIOError):  # a wait of a signal handler was quicker
                    self._wakeup_receive.recv(WAKEUP_SIZE)
            else:
                if events & _WRITE:
                    key.data.blocked = False
                if events & _READ and not key.data.received:
                    key.data.receive()

    def wakeup(self) -> None:
        with suppress(OSError):  # it is closed, or was woken up already
            self._wakeup_send.send(b"\0")

    def _begin(self, addresses: list[AddressInfo], timeout: float, now: float) -> Link:
        return TcpSocket(self.selector, addresses, timeout, now)

    def _close_own(self) -> None:
        self.selector.close()
        self._wakeup_send.close()
        self._wakeup_receive.close()


class _Attempt:
    """A socket that is being connected, as the selector knows it."""

    __slots__ = ("blocked", "received", "socket")

    def __init__(self, address: AddressInfo) -> None:
        """Begin to dial. OSError when that fails at once."""
        self.socket = begin(address)
        self.blocked = True
        self.received = ()


class TcpSocket(Link):
    """A socket that never blocks: first the addresses of the host race, then one is connected."""

    def __init__(
        self, selector: selectors.BaseSelector, addresses: list[AddressInfo], timeout: float, now: float
    ) -> None:
        """Begin to dial. OSError when that fails at once. All of it has ``timeout`` seconds."""
        super().__init__()
        self._selector = selector
        self._hung_up = False
        self._race = AddressRace(addresses, now)
        self._until = now + timeout
        self._attempts: list[_Attempt] = []  # those that are open; once connected the winner alone
        self._begin_due(now)

    def _begin_due(self, now: float) -> None:
        """Dial the addresses that are due. OSError when all have failed."""
        race = self._race
        while (address := race.take(now)) is not None:
            try:
                attempt = _Attempt(address)
            except OSError as error:
                race.failed(error)
            else:
                self._attempts.append(attempt)
                self._selector.register(attempt.socket, _WRITE, attempt)
        if race.error is not None:
            raise race.error
        self.dial_until = min(race.next_at, self._until)

    def dialled(self, now: float) -> bool:
        for attempt in [attempt for attempt in self._attempts if not attempt.blocked]:
            try:
                finish(attempt.socket)
            except OSError as error:
                self._give_up(attempt)
                self._race.failed(error)
                continue
            for loser in [loser for loser in self._attempts if loser is not attempt]:
                self._give_up(loser)
            self._socket = attempt.socket
            self.dialling, self.blocked, self.dial_until = False, False, inf
            self.watch()
            return True
        if now >= self._until:
            raise TimeoutError
        self._begin_due(now)
        return False

    def _give_up(self, attempt: _Attempt) -> None:
        self._attempts.remove(attempt)
        with suppress(KeyError):  # a signal handler has raised in ``watch``
            self._selector.unregister(attempt.socket)
        attempt.socket.close()

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
            for attempt in self._attempts:
                with suppress(OSError):  # it has ended already
                    attempt.socket.shutdown(socket.SHUT_RDWR if abruptly else socket.SHUT_WR)
        self._hung_up = True

    def close(self) -> None:
        """Close the socket. No effect the second time."""
        while self._attempts:
            self._give_up(self._attempts[0])

    def disown(self) -> None:
        """``close`` in a child process, while the parent goes on using the socket and the selector."""
        while self._attempts:
            self._attempts.pop().socket.close()
