"""A scripted server on loopback sockets, for what a real one does not do on request.

A test hands over one script for each connection it expects. A script runs in a thread of its own and says what the
server does: ``peer.handshake()``, ``peer.expect(Pub)``, ``peer.send(...)``. What goes wrong in a script fails the
test.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PONG, encode_info, encode_msg
from jsproto.wire.frames import Connect, Frame, Ping, Pub, Sub
from tests.harness import INFO

F = TypeVar("F")

PATIENCE = 60.0  # seconds after which a script that waits for the client fails the test


class Hangup(Exception):
    """The client closed the connection."""


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.subs: dict[bytes, bytes] = {}  # sid by subject
        self._decoder = Decoder("server")
        self._frames: deque[Frame] = deque()

    def info(self, **fields: Any) -> None:
        """Send INFO."""
        self.send(encode_info(json.dumps({**INFO, **fields}).encode()))

    def handshake(self, **fields: Any) -> None:
        """INFO, CONNECT, PING, PONG."""
        self.info(**fields)
        self.expect(Connect)
        self.expect(Ping)
        self.send(PONG)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def deliver(self, subject: bytes, payload: bytes = b"", *, sid: bytes | None = None) -> None:
        """A message to whoever subscribed to exactly ``subject``, or to ``sid``."""
        self.send(encode_msg(subject, self.subs[subject] if sid is None else sid, None, None, payload))

    def next(self) -> Frame:
        """The client's next frame. Hangup at the end of its stream."""
        while not self._frames:
            data = self.socket.recv(65536)
            if not data:
                raise Hangup
            self._frames += self._decoder.feed(data)
            assert self._decoder.error is None, self._decoder.error
        frame = self._frames.popleft()
        if isinstance(frame, Sub):
            self.subs[frame.subject] = frame.sid
        return frame

    def expect(self, kind: type[F]) -> F:
        """The next frame of this kind. Others before it are ignored."""
        while True:
            frame = self.next()
            if isinstance(frame, kind):
                return frame

    def serve(self, *, answer_pings: bool = True) -> None:
        """Answer PINGs, and nothing else, until the client goes."""
        try:
            while True:
                self.expect(Ping)
                if answer_pings:
                    self.send(PONG)
        except (Hangup, ConnectionError):
            pass

    def reset(self) -> None:
        """Close so that the client sees a reset, not an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


Script = Callable[[Peer], object]


def until_the_end(script: Script) -> Script:
    """The script, which ends when the client hangs up."""

    def run(peer: Peer) -> None:
        with suppress(Hangup):
            script(peer)

    return run


class FakeServer:
    """Accepts one connection after the other and runs a script on each."""

    def __init__(self, *scripts: Script, receive_buffer: int | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        if receive_buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.settimeout(PATIENCE)
        self._scripts = scripts
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def _run(self) -> None:
        try:
            for script in self._scripts:
                connection, _ = self._listener.accept()
                with connection:
                    connection.settimeout(PATIENCE)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    script(Peer(connection))
        except BaseException as error:
            self._error = error
        finally:
            self._listener.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._thread.join(2 * PATIENCE)
            assert not self._thread.is_alive(), "the script of the server did not end"
            if self._error is not None:
                raise self._error
        self._listener.close()


def ack(publish: Pub, seq: int, msgs: int) -> bytes:
    """A flow acknowledgement's payload, of the released servers."""
    return json.dumps({"type": "ack", "seq": seq, "msgs": msgs}).encode()
