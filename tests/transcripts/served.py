"""The command's server on a real socket, for a test that has the time in its own hands.

Rules:

* The options are flags of ``jsproto_io.serve``, and its thread, listener and sockets are those of the command.
* The test's thread holds the server's lock whenever it does not wait, so it may look at the role and change it.
* ``Link`` has the verbs of a session in memory. After each of them nothing is under way, by a PING and its answer.

Not here: the records, and what must be answered (``test_served.py``).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from jsproto.server.server import Server
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PING, encode
from jsproto.wire.frames import Connect, Ping, Pong
from jsproto_io.serve import asked_for

PATIENCE: Final = 60.0  # seconds after which a test that hangs is failed


class Served:
    """A server that listens, for a ``with`` block.

    Attributes:
        role: the state machine. To be touched by the test's thread only.
        now: the test's clock, in seconds.
    """

    def __init__(self, flags: list[str], now: Callable[[], float]) -> None:
        """``flags``: of the command."""
        self.now = now
        self._server = asked_for(["--port", "0", *flags]).server
        self._server._now = now
        self.role: Server = self._server.role
        self._stack = ExitStack()

    def __enter__(self) -> Served:
        self._server.start()
        self._stack.callback(self._server.close)
        self._server._lock.acquire()
        self._stack.callback(self._server._lock.release)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self) -> Link:
        """A client's end of a new link."""
        link = Link(self, socket.create_connection((self._server.host, self._server.port), PATIENCE))
        self._stack.callback(link.socket.close)
        return link

    def run(self, wait: Callable[[], object]) -> None:
        """Let the server run while the test waits. After it, nothing is due by the test's clock."""
        while True:
            self._server._wakeup()
            self._server._lock.release()
            try:
                wait()
            finally:
                self._server._lock.acquire()
            due = self.role.deadline()
            if due is None or due > self.now():
                return


class Link:
    """A client's end of a link, with the verbs of the server's session."""

    def __init__(self, served: Served, connected: socket.socket) -> None:
        self.socket = connected
        self.is_open = True
        self._served = served
        self._decoder = Decoder("client")
        self._sent = Decoder("server")
        self._unanswered = 0
        self._has_greeted = False
        self._received: list[bytes] = []
        served.run(self._read)  # INFO

    def receive_data(self, data: bytes, now: float) -> None:
        """The client writes ``data``."""
        frames = self._sent.feed(data)
        self._unanswered += sum(isinstance(frame, Ping) for frame in frames)
        self._has_greeted |= any(isinstance(frame, Connect) for frame in frames)
        self._served.run(lambda: self._exchange(data))

    def data_to_send(self) -> list[bytes]:
        """What the server wrote since the last call, without the answers to this class's own PINGs."""
        for _ in range(2):  # what became due during the first is written by then
            self._served.run(lambda: self._exchange(b""))
        received, self._received = self._received, []
        return received

    def _exchange(self, data: bytes) -> None:
        if not self.is_open or not self._has_greeted:
            return
        with suppress(OSError):  # the server ended the link. What it wrote is still to be read
            self.socket.sendall(data + PING)
        is_answered = False
        while not is_answered:
            is_answered = self._read()

    def _read(self) -> bool:
        """Read once. Returns whether the answer to the last PING has come, or the end of the link."""
        data = self.socket.recv(1 << 20)
        if not data:
            self.is_open = False
            return True
        own = False
        for frame in self._decoder.feed(data):
            if isinstance(frame, Pong):
                if not self._unanswered:
                    own = True
                    continue
                self._unanswered -= 1
            self._received.append(encode(frame))
        return own
