"""What the drivers on threads and on trio have below them: a listener, and links that never block.

Rules
 * Nothing here waits. What a socket does not take stays in the peer's ``unsent``, and then in the session.
 * Without a file descriptor for it a link stays unaccepted, and its listener readable. So its driver accepts none for
   ``ACCEPT_PAUSE``.

Not here: when a socket is ready (``threads``, ``trio``), the protocol (``jsproto.server``).
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM
from typing import Final

from jsproto.errors import LocalProtocolError
from jsproto_io._state.common import READ_SIZE
from jsproto_io.testing.host import BACKLOG, Peer

_log = logging.getLogger("jsproto")

MAX_PORT: Final = 65_535
ACCEPT_PAUSE: Final = 1.0  # seconds, as asyncio has it
_EXHAUSTED: Final = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM})


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on ``host``. ``port`` 0: a free one.

    Raises:
        LocalProtocolError: ``port`` is none.
        OSError: the address is in use, or is none of this machine.
    """
    if not 0 <= port <= MAX_PORT:
        raise LocalProtocolError(f"port is 0 to {MAX_PORT}, not {port}")
    family, kind, protocol, _, place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]  # fmt: skip
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # links of an earlier server may linger
        listener.bind(place)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def accept(listener: socket.socket) -> tuple[socket.socket | None, float]:
    """A link that has come, and for how many seconds to accept no other. None: it has ended, or cannot be had now."""
    try:
        return listener.accept()[0], 0.0
    except OSError as error:
        if error.errno not in _EXHAUSTED:
            return None, 0.0
        _log.warning("no link is accepted for %g s: %s", ACCEPT_PAUSE, error.strerror)
        return None, ACCEPT_PAUSE


class SocketLink:
    """One accepted link: the peer and its socket.

    Attributes:
        peer: the session, with TLS around it.
        socket: it never blocks.
        watched: a driver waits until the socket takes more.
    """

    __slots__ = ("peer", "socket", "watched")

    def __init__(self, accepted: socket.socket, peer: Peer) -> None:
        accepted.setblocking(False)
        with suppress(OSError):  # it has ended already
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = accepted
        self.peer = peer
        self.watched = False

    def receive(self) -> bytes | None:
        """What has come. Empty at the end of the stream, None when there is nothing after all."""
        try:
            return self.socket.recv(READ_SIZE)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def send(self) -> bool:
        """Send what the socket takes, and set ``peer.blocked``. Returns False when the link is to be closed."""
        return self.peer.send_by(self.socket.send)
