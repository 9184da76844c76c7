"""A JetStream server in memory, in a thread of its own. ``jsproto_io.testing.serve`` is this one.

    with serve() as server:
        connect(server.url)

How it works
 * One thread accepts, receives, sends and keeps the deadline. It sleeps in ``select``.
 * One lock guards the role. The thread holds it while it works, and ``call`` holds it for its caller.
 * A defect of the role ends the server. ``close`` raises it.

Not here: what the server answers (``jsproto.server``).
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from math import inf
from time import monotonic
from typing import TypeVar, Unpack

from jsproto_io._state.common import clamp_sleep
from jsproto_io._threads.sockets import WAKEUP_SIZE
from jsproto_io.testing.host import HOST, BlockingHost, Peer, RoleKeywords
from jsproto_io.testing.sockets import SocketLink, accept, listen

__all__ = ["MemoryServer", "serve"]

T = TypeVar("T")

_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


def serve(
    *, host: str = HOST, port: int = 0, tls: ssl.SSLContext | None = None, **options: Unpack[RoleKeywords]
) -> MemoryServer:
    """A server in memory for a ``with`` block. It listens from the beginning of the block to its end.

    Args:
        host: the address to listen on.
        port: the TCP port. 0: a free one.
        tls: a context for the server's side. Clients have to speak TLS then.
        options: see ``jsproto_io.testing.host.RoleKeywords``.
    """
    return MemoryServer(host, port, tls, **options)


class MemoryServer(BlockingHost):
    """A server in memory. Made by ``serve()``. Its streams outlive ``close``, and are there after ``start``."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, **options: Unpack[RoleKeywords]) -> None:
        super().__init__(monotonic, host, port, tls, **options)
        self._links: dict[Peer, SocketLink] = {}
        self._ended = threading.Event()
        self._closing = False

    def start(self) -> None:
        """Listen, and return. No effect while it runs.

        Raises:
            OSError: the address is in use, or is none of this machine. Or there are too many files open.
        """
        if self._thread is not None:
            return
        with ExitStack() as opened:
            self._listener = opened.enter_context(listen(self.host, self.port))
            self._wakeup_send, self._wakeup_receive = map(opened.enter_context, socket.socketpair())
            self._selector = opened.enter_context(selectors.DefaultSelector())
            opened.pop_all()
        self.port = self._listener.getsockname()[1]
        for each in (self._wakeup_send, self._wakeup_receive):
            each.setblocking(False)
        self._accepts_at = inf  # inf: whenever a link comes
        self._selector.register(self._listener, _READ)
        self._selector.register(self._wakeup_receive, _READ)
        self._closing = False
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="jsproto-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all links, stop listening, and end the thread. No effect while it does not run.

        Raises:
            BaseException: the defect that ended the server before.
        """
        if self._thread is None:
            return
        with self._lock:
            self._closing = True
            self._wakeup()
        self._thread.join()
        self._thread = None
        self._raise_defect()

    def wait(self) -> None:
        """Wait until the server has ended: another thread closed it, or it has a defect."""
        if self._thread is not None:
            self._ended.wait()  # a join() that a signal interrupts counts the thread as ended

    def disconnect(self) -> None:
        """Cut the links of all clients. They may connect again."""
        with self._lock:
            for link in self._links.values():
                with suppress(OSError):  # it has ended already
                    link.socket.shutdown(socket.SHUT_RDWR)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _called(self) -> None:
        self._wakeup()

    def _wakeup(self) -> None:
        if self._thread is not None:
            with suppress(OSError):  # it is awake then, or has ended
                self._wakeup_send.send(b"\0")

    def _run(self) -> None:
        try:
            while True:
                with self._lock:
                    if self._closing:
                        break
                    deadline = self.role.deadline()
                due = inf if deadline is None else deadline
                ready = self._selector.select(clamp_sleep(min(due, self._accepts_at) - self._now()))
                with self._lock:
                    self._turn(ready, due)
        except BaseException as defect:
            self._fail(defect)
        finally:
            with self._lock:
                self._end()
            self._ended.set()

    def _turn(self, ready: list[tuple[selectors.SelectorKey, int]], due: float) -> None:
        """Put in all that is ready, and the time if it is ``due``. Then send all that it caused."""
        for key, events in ready:
            link = key.data
            if link is not None:
                if events & _WRITE:
                    link.peer.blocked = False
                if events & _READ:
                    self._receive(link)
            elif key.fileobj is self._listener:
                self._accept()
            else:
                self._wakeup_receive.recv(WAKEUP_SIZE)
        now = self._now()
        if now >= due:
            self.role.handle_timeout(now)
        if now >= self._accepts_at:
            self._accepts_at = inf
            self._selector.register(self._listener, _READ)
        self._drain()

    def _accept(self) -> None:
        accepted, pause = accept(self._listener)
        if accepted is not None:
            link = SocketLink(accepted, self._new_peer())
            self._links[link.peer] = link
            self._selector.register(accepted, _READ, link)
        elif pause:
            self._selector.unregister(self._listener)
            self._accepts_at = self._now() + pause

    def _receive(self, link: SocketLink) -> None:
        data = link.receive()
        if data:
            link.peer.receive(data, self._now())
        elif data is not None:
            self._drop(link)

    def _drain(self) -> None:
        while peers := self._unwritten():  # the end of a link may cause more
            for peer in peers:
                link = self._links[peer]
                if not link.send():
                    self._drop(link)
                elif link.watched != peer.blocked:
                    link.watched = peer.blocked
                    self._selector.modify(link.socket, _READ | _WRITE if peer.blocked else _READ, link)

    def _drop(self, link: SocketLink) -> None:
        self._selector.unregister(link.socket)
        del self._links[link.peer]
        link.socket.close()
        self._forget(link.peer)

    def _end(self) -> None:
        for link in list(self._links.values()):
            with suppress(Exception):  # what can be sent at once still is
                link.send()
            self._drop(link)
        self._selector.close()
        for each in (self._listener, self._wakeup_send, self._wakeup_receive):
            each.close()
