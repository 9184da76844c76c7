"""Any INFO and any CONNECT is taken, or ends its link with a typed error; nothing is raised out of either session.

The server's side is one that asks who the client is, and one that asks nobody.
"""

from __future__ import annotations

from jsproto.client.connection.connect_options import ConnectOptions, connect_options
from jsproto.client.connection.session import Session
from jsproto.errors import Error
from jsproto.server.access import Access, User
from jsproto.server.server import Server
from jsproto.wire.encoder import PONG, encode_connect, encode_info

TOKEN = bytes(range(16))
OPTIONS = (
    connect_options(max_reconnect_attempts=0),
    connect_options(max_reconnect_attempts=-1, user="u", password="p", dont_randomize=True),
)
ACCESS = (None, Access((User(name="u", password="p"),)))


def run(data: bytes) -> None:
    """One input: the JSON of INFO, and of CONNECT. A line ends it."""
    line = data.translate(None, b"\r\n")
    for options in OPTIONS:
        as_client(options, line)
    for access in ACCESS:
        session = Server(token=TOKEN, access=access).connect(0.0)
        session.receive_data(encode_connect(line) + b"PING\r\nSUB a 1\r\nPUB a 1\r\nx\r\n", 1.0)
        session.data_to_send()
        session.handle_timeout(500.0)
        assert session.wants_close or session.deadline() is not None


def as_client(options: ConnectOptions, line: bytes) -> None:
    """A server says it first, and again when the link is open."""
    session = Session(options, token=TOKEN)
    session.connection_made(0.0)
    session.receive_data(encode_info(line), 0.0)
    if session.wants_tls:
        session.tls_made(0.0)
    session.data_to_send()
    session.receive_data(PONG + encode_info(line), 0.0)
    if not session.closed:
        session.subscribe("a", session.requests)
    session.data_to_send()
    session.handle_timeout(1.0)
    assert session.server is None or repr(session.server)
    assert session.error is None or isinstance(session.error, Error)
    assert session.state
    session.close(2.0)
    assert session.connected.done
    assert session.deadline() is None
