"""One link of the driver on trio, and the default one: a TCP connection, and how it is dialled.

Rules: only ``receive`` and ``wait_writable`` wait, and ``close`` ends that. Nothing here decides which task may send
when.

Not here: what the bytes mean, tasks, deadlines (``trio``), which address is dialled when (``_state.dialling``).
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress

import trio

from jsproto_io._state.common import READ_SIZE
from jsproto_io._state.dialling import AddressInfo, AddressRace, begin, finish


class Link(ABC):
    """One link that never blocks.

    Attributes:
        unsent: what the link did not take yet.
        due: set while the writer task has something to do. Nobody else sends then.
        ends: nothing follows after ``unsent``.
        burst: bytes that other tasks have sent since the writer task's last turn.
    """

    def __init__(self) -> None:
        self.unsent = memoryview(b"")
        self.due = trio.Event()
        self.ends = False
        self.burst = 0

    @abstractmethod
    async def receive(self) -> bytes:
        """Wait for bytes. None are left at the end of the stream: the result is empty then.

        Raises:
            OSError: the connection broke.
            ClosedResourceError: ``close`` was called.
        """

    @abstractmethod
    def send(self) -> None:
        """Send of ``unsent`` what the link takes. A failure sets ``ends``."""

    @abstractmethod
    async def wait_writable(self) -> None:
        """Wait until the link may take more. ClosedResourceError after ``close``."""

    @abstractmethod
    def end(self) -> None:
        """Nothing more is sent: the peer reads the end of the stream."""

    @abstractmethod
    def close(self) -> None:
        """Close the link and end the waits for it. No effect the second time."""


class TcpLink(Link):
    """A TCP connection: a socket that never blocks.

    trio's own sockets need twice the time for a read (benchmark row direct-get), and cannot send without waiting.
    """

    def __init__(self, connected: socket.socket) -> None:
        super().__init__()
        self._socket = connected

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._open_socket())
            try:
                return self._socket.recv(READ_SIZE)
            except BlockingIOError:
                pass  # there was nothing after all

    def send(self) -> None:
        try:
            self.unsent = self.unsent[self._socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            # Nothing may follow a cut message. The reader reports the error.
            self.unsent, self.ends = memoryview(b""), True

    async def wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self._open_socket())

    def end(self) -> None:
        """As in ``Link``, by FIN."""
        with suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _open_socket(self) -> socket.socket:
        if self._socket.fileno() < 0:
            raise trio.ClosedResourceError("the connection was closed")
        return self._socket


async def dial(host: str, port: int) -> socket.socket:
    """A connected socket, which never blocks.

    Raises:
        OSError: the name is not known, or none of its addresses can be reached.
    """
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    race = AddressRace(found, trio.current_time())
    won: list[socket.socket] = []
    pause = trio.CancelScope()

    async def attempt(address: AddressInfo) -> None:
        try:
            with ExitStack() as loser:
                sock = loser.enter_context(begin(address))
                await trio.lowlevel.wait_writable(sock)
                finish(sock)
                if not won:
                    won.append(sock)
                    loser.pop_all()
        except OSError as error:
            race.failed(error)
        pause.cancel()

    try:
        async with trio.open_nursery() as nursery:
            while not won and race.error is None:
                while (address := race.take(trio.current_time())) is not None:
                    nursery.start_soon(attempt, address)
                with trio.CancelScope(deadline=race.next_at) as pause:
                    await trio.sleep_forever()
            nursery.cancel_scope.cancel()
    except BaseException:
        for sock in won:
            sock.close()
        raise
    if race.error is not None:
        raise race.error
    return won[0]
