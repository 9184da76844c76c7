"""A relay between clients and a server: bytes pass unchanged and in order, and somebody reads along.

Rules

* Two threads carry a link, one for each direction. What one has read it shows first, then writes.
* What is shown waits in a queue of ``WAITING`` pieces. Where nobody takes it, the links wait: memory is bounded.
* The end of one direction is passed on, and the other one goes on. A broken link ends both.
* All links end with the block.

Not here: what the bytes mean (``tapping``).
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial
from queue import Empty, Queue
from time import monotonic
from types import TracebackType
from typing import Final, NamedTuple, Self

from jsproto_io.cli.tapping import Direction

WAITING: Final = 64
PIECE: Final = 65_536  # bytes
DIAL_WITHIN: Final = 5.0  # seconds


class Piece(NamedTuple):
    """What went by on a link at ``when`` (monotonic seconds), in one direction.

    ``data``: the bytes, empty at their end. ``why``: why they ended, if not in an orderly way. ``client``: who has
    dialed. Only the first piece of a link says that, and it says nothing else.
    """

    when: float
    link: int
    direction: Direction
    data: bytes = b""
    why: str = ""
    client: str = ""


class Relay:
    """Listens, as a block, and connects each client to the server. Attribute: ``port``, where it listens.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(self, listen: tuple[str, int], server: tuple[str, int]) -> None:
        self._listener = socket.create_server(listen)
        self.port: int = self._listener.getsockname()[1]
        self._server = server
        self._pieces: Queue[Piece] = Queue(WAITING)
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._closed = True
            ending = [*self._sockets, self._listener]
        for each in ending:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def take(self, patience: float) -> Piece | None:
        """What goes by next, in the order in which it is passed on. None: nothing does within ``patience`` seconds."""
        try:
            return self._pieces.get(timeout=patience) if patience else self._pieces.get_nowait()
        except Empty:
            return None

    def _start(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                client, address = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                continue  # the client has gone already
            number += 1
            self._start(self._dial, number, client, f"{address[0]}:{address[1]}")

    def _dial(self, link: int, client: socket.socket, name: str) -> None:
        put = partial(self._put, link)
        put("c2s", client=name)
        try:
            server = socket.create_connection(self._server, DIAL_WITHIN)
            server.settimeout(None)
        except OSError as error:
            put("s2c", why=f"cannot be reached: {error.strerror or error}")
            put("c2s", why="is sent away")
            client.close()
            return
        for each in (client, server):
            with suppress(OSError):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            is_late = self._closed  # all others have been shut down
            self._sockets |= {client, server}
        if not is_late:
            back = threading.Thread(target=self._carry, args=(put, "s2c", server, client), daemon=True)
            back.start()
            self._carry(put, "c2s", client, server)
            back.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()

    def _carry(self, put: partial[None], direction: Direction, source: socket.socket, target: socket.socket) -> None:
        why = ""
        try:
            while data := source.recv(PIECE):
                put(direction, data)
                target.sendall(data)
        except OSError as error:
            why = f"loses its link: {error.strerror or error}"
        put(direction, why=why)
        for each in (source, target) if why else (target,):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR if why else socket.SHUT_WR)

    def _put(self, link: int, direction: Direction, data: bytes = b"", why: str = "", client: str = "") -> None:
        self._pieces.put(Piece(monotonic(), link, direction, data, why, client))
