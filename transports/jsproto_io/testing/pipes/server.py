"""A JetStream server in memory, without sockets: for clients of ``jsproto_io`` in the same process.

    with in_process() as server:
        connect(server.url, dialer=server.dialer)

How it works
 * The thread that sends puts its bytes into the role, and the role's answers into the links of all clients.
 * One lock guards the role. Who finds it locked waits. The end of a link does not: it leaves that to the thread.
 * A thread of the server keeps the deadline, and does what is left to it. It sleeps until then.
 * A link holds ``CAPACITY`` bytes that the client has not taken. The rest stays in the session, which counts it.
 * A defect of the role ends the server. ``close`` raises it.

Not here: what the server answers (``jsproto.server``), how a client waits (the modules beside this), sockets
(``jsproto_io.testing.threads``).
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from errno import ECONNREFUSED
from math import inf
from os import strerror
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from jsproto_io._state.common import clamp_sleep
from jsproto_io._threads.poller import Poller
from jsproto_io.dialer import SystemEntropy
from jsproto_io.testing.host import BlockingHost, Peer, RoleKeywords
from jsproto_io.testing.pipes.asyncio import PipeTransport
from jsproto_io.testing.pipes.end import ClientEnd
from jsproto_io.testing.pipes.threads import PipePoller

if TYPE_CHECKING:
    from jsproto_io._aio.trio_link import Link

__all__ = ["InProcessServer", "in_process"]

T = TypeVar("T")

NAME: Final = "in-process"  # the host in the server's URL
PORT: Final = 4222
CAPACITY: Final = 1_048_576  # bytes that a link holds for its client, about as many as sockets do


def in_process(*, tls: ssl.SSLContext | None = None, **options: Unpack[RoleKeywords]) -> InProcessServer:
    """A server in memory for a ``with`` block, without sockets. Clients need its ``dialer``.

    Args:
        tls: a context for the server's side. Clients have to speak TLS then.
        options: see ``jsproto_io.testing.host.RoleKeywords``.
    """
    return InProcessServer(tls, **options)


class InProcessServer(BlockingHost):
    """A server in memory. Made by ``in_process()``. Its streams outlive ``close``, and are there after ``start``.

    Attributes:
        dialer: for ``connect(..., dialer=...)`` of each driver, and for ``use_dialer``. It ignores the address.
    """

    def __init__(self, tls: ssl.SSLContext | None, **options: Unpack[RoleKeywords]) -> None:
        super().__init__(monotonic, NAME, PORT, tls, **options)
        self.dialer = PipeDialer(self._connect)
        self._inputs: deque[Callable[[float], None]] = deque()
        self._pipes: dict[Peer, _Pipe] = {}
        self._alarm = threading.Lock()  # the thread acquires it to sleep, and it is released to wake it up
        self._alarm.acquire()
        self._armed = inf  # when that sleep ends by itself

    def start(self) -> None:
        """Take links from now on. No effect while it does."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_time, name="jsproto-server", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End all links, and take no more. No effect while it does not run.

        Raises:
            BaseException: the defect that ended the server before.
        """
        thread = self._thread
        if thread is None:
            return
        with self._lock:
            self._thread = None
            for pipe in list(self._pipes.values()):
                self._drop(pipe)
        self._wake()
        thread.join()
        self._raise_defect()

    def disconnect(self) -> None:
        """Cut the links of all clients. They may connect again."""
        with self._lock:
            for pipe in list(self._pipes.values()):
                pipe.cut()
                self._drop(pipe)
            self._work()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _called(self) -> None:
        self._work()

    def _connect(self) -> ClientEnd:
        with self._lock:
            if self._thread is None or self._defect is not None:
                raise ConnectionRefusedError(ECONNREFUSED, strerror(ECONNREFUSED))
            pipe = _Pipe(self, self._new_peer())
            self._pipes[pipe.peer] = pipe
            self._work()
        return pipe

    def _put(self, verb: Callable[[float], None], *, wait: bool = True) -> None:
        """Put one input in, and write what it caused. Without ``wait`` a held lock leaves it to the thread."""
        self._inputs.append(verb)
        while self._inputs:
            if not self._lock.acquire(blocking=wait):
                self._wake()
                return
            try:
                self._work()
            finally:
                self._lock.release()

    def _work(self) -> None:
        """Put in all that waits, and write what it caused. The lock is held."""
        try:
            while self._inputs:
                verb = self._inputs.popleft()
                if self._defect is None:
                    verb(self._now())
            if self._defect is None:
                self._drain()
        except BaseException as defect:  # the role's: the server ends, and the block raises it
            self._fail(defect)
            for pipe in list(self._pipes.values()):
                self._drop(pipe)
            if not isinstance(defect, Exception):  # it is Ctrl-C or the like, which reaches the caller
                raise

    def _drain(self) -> None:
        while peers := self._unwritten():  # the end of a link may cause more
            for peer in peers:
                pipe = self._pipes[peer]
                if not peer.send_by(pipe.offer):
                    self._drop(pipe)
                elif peer.blocked and pipe.unread < CAPACITY:
                    peer.blocked = False  # the client has taken it meanwhile
        deadline = self.role.deadline()
        if deadline is not None and deadline < self._armed:
            self._armed = deadline
            self._wake()

    def _drop(self, pipe: _Pipe) -> None:
        """The link has ended. No effect the second time. The lock is held."""
        if self._pipes.pop(pipe.peer, None) is not None:
            self._forget(pipe.peer)
            pipe.ended = True
            pipe.on_ready()

    def _keep_time(self) -> None:
        while self._thread is not None:
            with self._lock:
                self._work()
                deadline = None if self._defect is not None else self.role.deadline()
                self._armed = inf if deadline is None else deadline
            if not self._alarm.acquire(timeout=clamp_sleep(self._armed - self._now())):
                self._put(self.role.handle_timeout)

    def _wake(self) -> None:
        if self._alarm.locked():
            with suppress(RuntimeError):  # another thread was faster
                self._alarm.release()


class _Pipe(ClientEnd):
    """One link: the server's session, and the bytes that the client has not taken.

    Attributes:
        peer: the server's end.
        ended: nothing follows.
    """

    def __init__(self, server: InProcessServer, peer: Peer) -> None:
        self.peer = peer
        self.ended = False
        self._server = server
        self._pieces: deque[bytes] = deque()
        self._offered = 0  # bytes, written by who holds the lock
        self._taken = 0  # bytes, written by the client

    @property
    def unread(self) -> int:
        """The bytes that the client has not taken."""
        return self._offered - self._taken

    def offer(self, data: memoryview) -> int:
        """Take of ``data`` what there is room for, and return how many bytes that is.

        Raises:
            BlockingIOError: there is no room.
        """
        room = CAPACITY - self.unread
        if room <= 0:
            raise BlockingIOError
        piece = bytes(data[:room])
        self._offered += len(piece)
        self._pieces.append(piece)
        self.on_ready()
        return len(piece)

    def cut(self) -> None:
        """What is under way is lost."""
        self._pieces.clear()

    def take(self) -> bytes | None:
        ended = self.ended  # before the pieces, so that none is missed
        pieces: list[bytes] = []
        with suppress(IndexError):  # it is empty
            while True:
                pieces.append(self._pieces.popleft())
        if not pieces:
            return b"" if ended else None
        data = b"".join(pieces)
        self._taken += len(data)
        if self.peer.blocked:
            self._server._put(self._unblock)
        if self.ended:
            self.on_ready()
        return data

    def _unblock(self, now: float) -> None:
        self.peer.blocked = False

    def send(self, data: bytes) -> None:
        self._server._put(lambda now: None if self.ended else self.peer.receive(data, now))

    def end(self) -> None:
        if self.ended:
            self.on_ready()
        self._server._put(lambda now: self._server._drop(self), wait=False)

    def close(self) -> None:
        self.ended = True
        self.cut()
        self.end()


class PipeDialer(SystemEntropy):
    """Makes links to one server, for the drivers of clients."""

    now = staticmethod(monotonic)

    def __init__(self, connect: Callable[[], ClientEnd]) -> None:
        """``connect`` makes a link, or raises OSError."""
        self._connect = connect

    def poller(self) -> Poller:
        """As in ``jsproto_io.dialer.SyncDialer``."""
        return PipePoller(lambda host, port: self._connect())

    async def create_connection(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> object:
        """As in ``jsproto_io.dialer.AsyncioDialer``."""
        return PipeTransport(self._connect(), factory())

    async def open_link(self, host: str, port: int) -> Link:
        """As in ``jsproto_io.dialer.TrioDialer``."""
        from jsproto_io.testing.pipes.trio import PipeLink

        return PipeLink(self._connect())
