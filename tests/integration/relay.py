"""A TCP relay on loopback whose links can be cut: both ends see their connection reset.

Rules: each connection has two threads, one for each direction. A closed end closes the other one.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from threading import Lock, Thread
from typing import Final, Self

HOST: Final = "127.0.0.1"
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


class Relay:
    """Relays connections to a port of this machine.

    Attributes: ``port`` (its own), and ``is_open``, which may be set (whether new connections are taken).
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self.is_open = True
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: set[socket.socket] = set()
        self._lock = Lock()
        Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return f"nats://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> int:
        """Reset all links. Returns how many sockets that were."""
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            with suppress(OSError):
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                link.shutdown(socket.SHUT_RDWR)
        return len(links)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if not self.is_open:
                    raise ConnectionRefusedError
                server = socket.create_connection((HOST, self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._links |= {client, server}
            for one, other in ((client, server), (server, client)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(262_144):
                other.sendall(data)
        with self._lock:
            self._links -= {one, other}
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        one.close()
