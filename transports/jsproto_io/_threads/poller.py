"""What the driver on threads sleeps on, without the operating system: a link, and a sleep that threads can end.

Rules
 * Only ``Poller.sleep`` waits, and ``Poller.wakeup`` ends that. Besides, only ``look_up`` blocks.
 * Nothing here takes the connection's lock. The engine lets one thread at a time send, and one sleep, receive and
   close.
 * Whatever a signal handler raises, no received byte is lost, and the count of sent bytes is known.

Not here: TCP sockets (``sockets``), what the bytes mean, which thread may call when (``engine``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from threading import Thread
from typing import TYPE_CHECKING

from jsproto.client.connection.connect_options import Address
from jsproto.client.connection.session import Session
from jsproto_io._state.common import DIAL_ERRORS, reason
from jsproto_io._state.dialling import AddressInfo
from jsproto_io._threads.reader import start_reader

if TYPE_CHECKING:
    from jsproto_io._threads.leadership import Leadership
    from jsproto_io.sync import Connection


class Link(ABC):
    """One link that never blocks: first it is dialled, then it is connected.

    Attributes:
        dialling: whether it is not connected yet.
        dial_until: when ``dialled`` is to be asked at the latest, in monotonic seconds. ``inf`` once connected.
        received: what was received, in pieces. Empty bytes are the end of the stream.
        why: the reason of the end.
        unsent: what is still to be sent.
        blocked: the link takes no more for now.
        watching: the sleep ends when the link takes more.
    """

    def __init__(self) -> None:
        self.dialling = True
        self.dial_until = inf
        self.received: list[bytes] = []
        self.unsent = memoryview(b"")
        self.blocked = True
        self.watching = True
        self.why = "the server closed the connection"
        self._sent: list[int] = []

    @abstractmethod
    def dialled(self, now: float) -> bool:
        """Whether it is connected by now. OSError when no address can be reached, or the time is over."""

    @abstractmethod
    def watch(self) -> None:
        """The next sleep ends when there is something to receive or, if ``blocked``, when the link takes more."""

    @abstractmethod
    def send(self) -> None:
        """Send of ``unsent`` what the link takes. ``note_sent`` follows, whatever a signal handler raises."""

    @abstractmethod
    def hang_up(self, *, abruptly: bool) -> None:
        """End this side, for the peer to end its own. ``abruptly``: do not wait for that, and receive no more."""

    @abstractmethod
    def close(self) -> None:
        """Close the link. No effect the second time."""

    @abstractmethod
    def disown(self) -> None:
        """``close`` in a child process, while the parent goes on using the link."""

    def take_received(self) -> bytes | None:
        """Take all of ``received``, joined. None: it was empty."""
        data = b"".join(self.received) if self.received else None
        self.received.clear()
        return data

    def note_sent(self) -> None:
        """Remove from ``unsent`` what ``send`` has sent."""
        self.unsent = self.unsent[sum(self._sent) :]
        self._sent.clear()


class Poller(ABC):
    """A sleep that ends when something is received, or when another thread wakes it up.

    Attributes:
        link: the present link, or the one that is being dialled. None: neither.
        asleep_until: when the present sleep ends by itself, in monotonic seconds. Between sleeps it is ``-inf``.
        deadline: that of the session, when the sleep was planned.
        closed: whether ``close`` was called.
    """

    def __init__(self) -> None:
        self.link: Link | None = None
        self.asleep_until = -inf
        self.deadline = inf
        self.closed = False

    @abstractmethod
    def look_up(self, address: Address) -> list[AddressInfo] | Exception:
        """The addresses of a host, or the error of the look-up. It may take seconds: call it without a lock."""

    @abstractmethod
    def sleep(self) -> None:
        """Wait until something is received, until ``asleep_until``, or until woken up."""

    @abstractmethod
    def wakeup(self) -> None:
        """End the sleep of another thread."""

    @abstractmethod
    def _begin(self, addresses: list[AddressInfo], timeout: float, now: float) -> Link:
        """Begin to dial. OSError when that fails at once. All of it has ``timeout`` seconds."""

    @abstractmethod
    def _close_own(self) -> None:
        """Close what it sleeps in."""

    def start_reader(self, connection: Connection, leadership: Leadership) -> Thread | None:
        """Start the reader thread of a connection. None: it needs no thread."""
        return start_reader(connection, leadership, self)

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

    def dial(self, session: Session, addresses: list[AddressInfo] | Exception, now: float) -> None:
        """Begin to dial ``addresses``, or report the failed look-up to ``session``."""
        try:
            if isinstance(addresses, Exception):
                raise addresses
            if session.connect_to is not None:  # else it was closed meanwhile
                self.link = self._begin(addresses, session.options.connect_timeout, now)
        except DIAL_ERRORS as error:
            session.connection_failed(reason(error), now)

    def finish_dialling(self, link: Link, session: Session, now: float) -> None:
        """Report the end of dialling ``link``, the present one, to ``session``, if it has ended."""
        try:
            if link.dialled(now) and session.connect_to is not None:
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
        self.closed = True
        self._close_own()

    def disown(self) -> None:
        """Close a child process's copies. What the parent uses is not touched."""
        if self.link is not None:
            self.link.disown()
        self.closed = True
        self._close_own()
