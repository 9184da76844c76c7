"""A JetStream server in memory, in an asyncio loop.

    async with serve() as server:
        async with connect(server.url) as nc: ...

How it works
 * A protocol callback puts what was received straight into the role, and writes what that caused.
 * One timer handle serves all deadlines. It only moves to an earlier time.
 * While a transport is full, bytes stay in the session, which counts them.

Not here: what the server answers (``jsproto.server``).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Self, TypeVar, Unpack, cast

from jsproto.server.server import Server
from jsproto_io._aio.asyncio_timer import Timer, clock_of
from jsproto_io.testing.host import HOST, Host, Peer, RoleKeywords
from jsproto_io.testing.sockets import listen

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

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, **options: Unpack[RoleKeywords]) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(clock_of(self._loop), host, port, tls, **options)
        self._links: dict[Peer, _Link] = {}
        self._listener: asyncio.Server | None = None
        self._timer = Timer(self._loop, self._time_out)

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
        for link in self._links.values():
            link.transport.abort()

    async def __aenter__(self) -> Self:
        listener = listen(self.host, self.port)
        self.port = listener.getsockname()[1]
        self._listener = await self._loop.create_server(lambda: _Link(self), sock=listener)
        self._drain()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        links = list(self._links.values())
        for link in links:
            link.end()
        for link in links:
            await link.lost.wait()
        self._timer.cancel()
        self._raise_defect()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _put(self, verb: Callable[[float], None]) -> None:
        """Put one input in, and write what it caused."""
        if self._defect is not None:
            return
        try:
            verb(self._now())
            self._drain()
        except Exception as defect:  # the role's: the server ends, and the block raises it
            self._fail(defect)
            if self._listener is not None:
                self._listener.close()
            self.disconnect()

    def _drain(self) -> None:
        while peers := self._unwritten():  # the end of a link may cause more
            for peer in peers:
                self._links[peer].write()
        self._timer.bring_forward(self.role.deadline())

    def _time_out(self, deadline: float) -> None:
        self._put(lambda now: self.role.handle_timeout(max(now, deadline)))  # the loop's clock may be coarse


class _Link(asyncio.Protocol):
    """One accepted link, by the loop's protocol callbacks."""

    transport: asyncio.Transport
    _peer: Peer

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self.lost = asyncio.Event()

    def write(self) -> None:
        """Write what the peer has, and end the link if it is to end."""
        peer = self._peer
        if peer.wants_abort:
            self._leave()
            self.transport.abort()
            return
        if peer.wants_send:
            self.transport.write(peer.take())
        if peer.wants_close:
            self._leave()
            self.transport.close()

    def end(self) -> None:
        """End the link. What the socket took already still arrives."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # the client may never read it
        else:
            self.transport.close()

    def _leave(self) -> None:
        self._server._forget(self._peer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        own = transport.get_extra_info("socket")
        if own is not None:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peer = self._server._new_peer()
        self._server._links[self._peer] = self
        self._server._put(lambda now: None)
        if self._server._listener is None:  # it was being accepted while the block ended
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._server._put(lambda now: self._peer.receive(data, now))

    def connection_lost(self, error: Exception | None) -> None:
        self._server._links.pop(self._peer, None)
        self._server._put(lambda now: self._leave())
        self.lost.set()

    def pause_writing(self) -> None:
        self._peer.blocked = True

    def resume_writing(self) -> None:
        self._peer.blocked = False
        self._server._put(lambda now: None)
