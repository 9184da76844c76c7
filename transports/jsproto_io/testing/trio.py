"""A JetStream server in memory, in a trio run.

    async with serve() as server:
        async with connect(server.url) as nc: ...

How it works
 * The block holds a nursery. One task accepts, one keeps the deadline, and each link has one that receives.
 * A task that causes output sends what the sockets take at once. A task of the link sends the rest.
 * The application's own exceptions leave the block as they are, not in a group.

Not here: what the server answers (``jsproto.server``).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Self, TypeVar, Unpack

import trio

from jsproto.server.server import Server
from jsproto_io.testing.host import HOST, Host, Peer, RoleKeywords
from jsproto_io.testing.sockets import SocketLink, accept, listen

__all__ = ["MemoryServer", "serve"]

T = TypeVar("T")


def serve(
    *, host: str = HOST, port: int = 0, tls: ssl.SSLContext | None = None, **options: Unpack[RoleKeywords]
) -> MemoryServer:
    """A server in memory for an ``async with`` block. It listens from the beginning of the block to its end.

    Args:
        host: the address to listen on.
        port: the TCP port. 0: a free one.
        tls: a context for the server's side. Clients have to speak TLS then.
        options: see ``jsproto_io.testing.host.RoleKeywords``.
    """
    return MemoryServer(host, port, tls, **options)


class MemoryServer(Host):
    """A server in memory. Made by ``serve()``. Its streams outlive the block, and are there in the next one."""

    _listener: socket.socket
    _nursery: trio.Nursery

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, **options: Unpack[RoleKeywords]) -> None:
        super().__init__(trio.current_time, host, port, tls, **options)
        self._links: dict[Peer, SocketLink] = {}
        self._sleep_scope = trio.CancelScope()  # the present sleep: its deadline is when it ends by itself

    def call(self, verb: Callable[[Server, float], T]) -> T:
        """Call ``verb(role, now)`` between two inputs, and return its result. So a test may change the server.

        ``now``: the server's time in seconds.
        """
        try:
            return verb(self.role, self._now())
        finally:
            self._drain()

    def disconnect(self) -> None:
        """Cut the links of all clients. They may connect again."""
        for link in list(self._links.values()):
            self._drop(link)

    async def __aenter__(self) -> Self:
        self._listener = listen(self.host, self.port)
        self.port = self._listener.getsockname()[1]
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self._nursery.start_soon(self._accept, name="jsproto server")
        self._nursery.start_soon(self._tick, name="jsproto server's deadline")
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for link in list(self._links.values()):
            link.send()  # what can be sent at once still is
            self._drop(link)
        self._nursery.cancel_scope.cancel()
        try:
            # The nursery does not see the exception that leaves the block, so it does not wrap it in a group.
            await self._manager.__aexit__(None, None, None)
        finally:
            self._listener.close()
        self._raise_defect()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _put(self, verb: Callable[[float], None]) -> None:
        """Put one input in, and send what it caused."""
        if self._defect is not None:
            return
        try:
            verb(self._now())
            self._drain()
        except Exception as defect:  # the role's: the server ends, and the block raises it
            self._fail(defect)
            self._nursery.cancel_scope.cancel()
            self.disconnect()

    def _drain(self) -> None:
        while peers := self._unwritten():  # the end of a link may cause more
            for peer in peers:
                link = self._links[peer]
                if not link.send():
                    self._drop(link)
                elif peer.blocked and not link.watched:
                    link.watched = True
                    self._nursery.start_soon(self._unblock, link)
        deadline = self.role.deadline()
        if deadline is not None and deadline < self._sleep_scope.deadline:
            self._sleep_scope.deadline = deadline

    def _drop(self, link: SocketLink) -> None:
        if self._links.pop(link.peer, None) is not None:
            trio.lowlevel.notify_closing(link.socket)
            link.socket.close()
            self._forget(link.peer)

    async def _accept(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._listener)
            accepted, pause = accept(self._listener)
            if accepted is None:
                await trio.sleep(pause)
                continue
            link = SocketLink(accepted, self._new_peer())
            self._links[link.peer] = link
            self._nursery.start_soon(self._receive, link)
            self._put(lambda now: None)

    async def _receive(self, link: SocketLink) -> None:
        with suppress(trio.ClosedResourceError):
            while link.peer in self._links:
                await trio.lowlevel.wait_readable(link.socket)
                data = link.receive()
                if data:
                    self._put(lambda now, data=data: link.peer.receive(data, now))  # type: ignore[misc]
                elif data is not None:
                    self._put(lambda now: self._drop(link))

    async def _unblock(self, link: SocketLink) -> None:
        with suppress(trio.ClosedResourceError):
            if link.peer in self._links:  # else it has ended before this task began
                await trio.lowlevel.wait_writable(link.socket)
            link.watched = link.peer.blocked = False
            self._put(lambda now: None)

    async def _tick(self) -> None:
        while True:
            deadline = self.role.deadline()
            with trio.CancelScope(deadline=inf if deadline is None else deadline) as self._sleep_scope:
                await trio.sleep_forever()
            due = self._sleep_scope.deadline
            self._put(lambda now, due=due: self.role.handle_timeout(max(now, due)))  # type: ignore[misc]
