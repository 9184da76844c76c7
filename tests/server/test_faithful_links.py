"""Links: the role answers bytes as a real server does, errors of the protocol included."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from jsproto.server.server import Server
from jsproto_io.nats_server import NatsServer
from tests import servers

OPTIONS: Final[dict[str, Any]] = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
SUBJECTS: Final = (b"a..b", b".a", b"a.", b"a", b"a.*b", b"a*.b", b"a.>.b", b">a", b"\x80\xff", b"a.\x01", b"a.>", b"*")
ENDS: Final = b"<closed>"
LINES: Final = (
    b"FOO\r\n", b"PUB a\r\n", b"PUB a -1\r\n", b"PUB a x\r\n\r\n", b"PUB a 1\r\nxyz\r\n", b"SUB\r\n", b"SUB a\r\n",
    b"SUB a b c d\r\n", b"SUB a b 1\r\n", b"UNSUB\r\n", b"UNSUB 9\r\n", b"UNSUB 8 1 2\r\n", b"HPUB a 10 5\r\nhello\r\n",
    b"HPUB a 5 6\r\nhello1\r\n", b"PUB a 2000000\r\n", b"PUB  a   1\r\nx\r\n", b"ping\r\n", b"PONG\r\n", b"\r\n",
    b"MSG a 1 1\r\nx\r\n", b"CONNECT {}\r\n", b"CONNECT {\r\n", b"PUB " + b"a" * 5000 + b" 1\r\nx\r\n",
    b"PUB a 1\r\nx\nPING\r\n", b"PUB a 1\nx\r\n", b"RS+ a\r\n", b"PUBB a 1\r\n", b"PUB a 5000000000000\r\n",
    b"UNSUB 8 0\r\nPUB a 1\r\nx\r\n", b"UNSUB 8 1\r\nPUB a 1\r\nx\r\nPUB a 1\r\nx\r\n", b"PUB a b c 1\r\nx\r\n",
    b"PUB\r\n", b"PUB \r\n", b"SUB a 1\r\nSUB b 1\r\nPUB b 1\r\nx\r\nPUB a 1\r\ny\r\n",
)  # fmt: skip
CONNECTS: Final = (
    b"", b"CONNECT {\r\n", b'CONNECT {"verbose":"x"}\r\n', b'CONNECT {"no_responders":true}\r\n', b"CONNECT {}\r\n",
    b'CONNECT {"headers":false,"verbose":false}\r\n', b'CONNECT {"protocol":7}\r\n', b'CONNECT {"protocol":"x"}\r\n',
    b'CONNECT {"headers":null}\r\n', b'CONNECT {"pedantic":true}\r\nCONNECT {"verbose":false}\r\n',
)  # fmt: skip
UNKNOWN: Final = (
    "$JS.API", "$JS.API.", "$JS.API.FOO", "$JS.API.STREAM", "$JS.API.STREAM.INFO", "$JS.API.STREAM.INFO.X.Y",
    "$JS.API.STREAM.FOO.X", "$JS.API.INFO.x", "$JS.API.STREAM.NAMES.X", "$JS.API.CONSUMER.FOO.S.C",
    "$JS.API.CONSUMER.RESET.S.C", "$JS.API.CONSUMER.MSG.NEXT.S.C", "$JS.API.CONSUMER.MSG.NEXT",
    "$JS.API.CONSUMER.CREATE",
    "$JS.API.DIRECT.GET.S", "$JS.API.DIRECT.GET.S.a", "$JS.API.DIRECT.GET", "$JS.API.DIRECT.FOO",
    "$JS.API.META.LEADER.STEPDOWN", "$JS.API.ACCOUNT.PURGE.x", "$JS.ACK.S.C.1.1.1.1.1", "$JS.FOO", "$JS.FC.S.C.x",
    "$JS.API.CONSUMER.DURABLE.CREATE.S", "$JS.API.STREAM.*.X",
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    """One that nobody else uses: some of these tests hear all that is sent there."""
    with NatsServer(config=servers.config()) as running:
        yield running


def connect(**options: Any) -> bytes:
    return b"CONNECT " + json.dumps(OPTIONS | options).encode() + b"\r\n"


def on_the_role(data: bytes) -> bytes:
    """What the role answers to ``data``, without INFO."""
    session = Server(token=b"t").connect(0.0)
    session.data_to_send()
    session.receive_data(data, 0.0)
    return b"".join(session.data_to_send()) + (ENDS if session.wants_close else b"")


def on_a_server(data: bytes, like: bytes, server: NatsServer) -> bytes:
    """What a real server answers, up to the length of ``like`` or to where it differs."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as link:
        answer = b""
        while b"\r\n" not in answer:
            answer += link.recv(65536)
        link.sendall(data)
        answer = answer.partition(b"\r\n")[2]
        while len(answer) < len(like) and like.startswith(answer):
            try:
                got = link.recv(65536)
            except ConnectionResetError:
                got = b""
            answer += got or ENDS
    return answer


def agree(data: bytes, server: NatsServer) -> None:
    """Compare the answers to ``data``, and to a PING after it, so that nothing more is said."""
    told = on_the_role(data + b"PING\r\n")
    assert on_a_server(data + b"PING\r\n", told, server) == told


@pytest.mark.parametrize(
    "how", [{}, {"pedantic": True}, {"verbose": True}, {"pedantic": True, "verbose": True}], ids=str
)
def test_subjects(how: dict[str, Any], server: NatsServer) -> None:
    for subject in SUBJECTS:
        for lines in (
            b"SUB > 1\r\nPUB %b 1\r\nx\r\nPUB z 1\r\ny\r\n",
            b"SUB %b 1\r\nPUB a.b 1\r\nx\r\n",
            b"SUB z 1\r\nPUB z %b 1\r\ny\r\n",
            b"SUB i 1\r\nPUB %b i 1\r\nx\r\n",
            b"SUB a.b %b 1\r\nPUB a.b 1\r\nx\r\n",
        ):
            agree(connect(**how) + lines % subject, server)


def test_lines_that_break_the_protocol_and_some_that_do_not(server: NatsServer) -> None:
    for lines in LINES:
        agree(connect() + b"SUB > 8\r\n" + lines, server)


def test_connect_in_all_forms(server: NatsServer) -> None:
    for line in CONNECTS:
        agree(line + b"SUB a.* 1\r\nPUB a.* 1\r\nx\r\n", server)
        agree(line + b"SUB a 1\r\nHPUB a 12 13\r\nNATS/1.0\r\n\r\nx\r\n", server)


def test_subjects_that_nobody_answers(server: NatsServer) -> None:
    """Silence where servers listen themselves, 503 elsewhere."""
    for subject in UNKNOWN:
        agree(connect() + b"SUB i 1\r\nPUB %b i 0\r\n\r\n" % subject.encode(), server)


def test_info_has_what_a_server_says(server: NatsServer) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as link:
        told = b""
        while b"\r\n" not in told:
            told += link.recv(65536)
    real = json.loads(told.removeprefix(b"INFO ").partition(b"\r\n")[0])
    role = Server(token=b"t", host="127.0.0.1", port=address.port or 0).connect(0.0, client_ip="127.0.0.1")
    said = json.loads(b"".join(role.data_to_send()).removeprefix(b"INFO "))
    assert list(said) == list(real)
    assert {name: type(value) for name, value in said.items()} == {name: type(value) for name, value in real.items()}
    for name in ("version", "proto", "host", "port", "max_payload", "client_ip", "api_lvl", "headers", "jetstream"):
        assert said[name] == real[name]
    assert [(len(said[name]), said[name][0]) for name in ("server_id", "xkey")] == [(56, "N"), (56, "X")]
