"""A session inside TLS, in memory: no sockets, and a server at the other end that sees every byte."""

from __future__ import annotations

import json
import ssl
from contextlib import suppress
from typing import Any

import pytest
import trustme

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.subscription import Subscription
from jsproto.errors import ConnectionLostError, Error, LocalProtocolError, TLSError
from jsproto.events import Disconnected
from jsproto.wire.encoder import PONG, encode_info, encode_msg
from jsproto_io._state.tls import SecureSession
from tests.harness import INFO, TOKEN
from tests.marks import promise

SECRET = "s3cret"
BIG = b"big" * 100_000


class Peer:
    """The server's end. It is the session's driver, too: it carries bytes back and forth until there are none."""

    def __init__(self, session: SecureSession, context: ssl.SSLContext, step: int = 1_000_000) -> None:
        self.raw = b""  # what came
        self.inside = b""  # what came inside TLS
        self.ended = False  # inside TLS
        self._session = session
        self._step = step  # how many bytes at a time
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)

    def greet(self, **fields: Any) -> None:
        """Send INFO in the open, then begin TLS."""
        self.send(encode_info(json.dumps({**INFO, "tls_required": True, **fields}).encode()))
        self.carry()

    def say(self, data: bytes) -> None:
        """Send inside TLS."""
        self._tls.write(data)
        self.carry()

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), self._step):
            self._session.receive_data(data[start : start + self._step], 0.0)

    def end(self) -> None:
        """Say inside TLS that nothing follows."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.send(self._to_send.read())

    def carry(self) -> None:
        session = self._session
        while True:
            data = b"".join(session.data_to_send()) if session.wants_send(0.0) or session.wants_close else b""
            self.raw += data
            self._received.write(data)
            self._read()
            answer = self._to_send.read()
            if not data and not answer:
                return
            self.send(answer)

    def _read(self) -> None:
        try:
            while data := self._tls.read(1_000_000):
                self.inside += data
            self.ended = True
        except ssl.SSLWantReadError:
            pass


@pytest.fixture(scope="module")
def served(authority: trustme.CA) -> ssl.SSLContext:
    """A server's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


def dialled(**options: Any) -> SecureSession:
    session = SecureSession(connect_options("localhost", token=SECRET, **options), token=TOKEN)
    session.connection_made(0.0)
    return session


def error_of(session: SecureSession) -> Error:
    assert session.connected.error is not None
    return session.connected.error


@pytest.mark.parametrize("step", [5, 1_000_000])
@pytest.mark.parametrize("first", [False, True])
def test_everything_is_inside_tls(trusting: ssl.SSLContext, served: ssl.SSLContext, first: bool, step: int) -> None:
    session = dialled(tls=trusting, tls_handshake_first=first)
    peer = Peer(session, served, step)
    if first:
        peer.carry()
        assert peer.inside == b""
        peer.say(encode_info(json.dumps(INFO).encode()))
    else:
        peer.greet()
    assert peer.raw[:1] == b"\x16"  # ClientHello
    assert peer.inside.startswith(b"CONNECT {")
    peer.say(PONG + PONG)
    assert session.connected.done
    sub = Subscription(session, "a")
    session.publish_message("b", BIG)
    session.flush()
    peer.carry()
    assert BIG in peer.inside
    peer.say(encode_msg(b"a", b"1", None, None, BIG) * 2)
    assert [message.payload for message in sub.pop_many(9)] == [BIG, BIG]
    session.publish_message("b", b"the last one")
    session.close(0.0)
    peer.carry()
    assert b"the last one" in peer.inside
    assert peer.ended
    for secret in (SECRET, "the last one", "CONNECT"):
        assert secret in peer.inside.decode()
        assert secret.encode() not in peer.raw


@promise("A server that requires TLS gets it. Its certificate must be one that the system trusts")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls": True}, "the server's certificate was refused: unable to get local issuer certificate"),
        ({}, "the server's certificate was refused: unable to get local issuer certificate"),
        ({"tls_hostname": "else.where"}, "Hostname mismatch, certificate is not valid for 'else.where'"),
        ({"tls_hostname": ".localhost"}, "TLS failed: "),
    ],
)
def test_a_server_that_is_not_who_it_should_be(
    trusting: ssl.SSLContext, served: ssl.SSLContext, options: dict[str, Any], words: str
) -> None:
    session = dialled(**{"tls": trusting} if "tls_hostname" in options else {}, **options)
    peer = Peer(session, served)
    with suppress(ssl.SSLError):  # it is told why
        peer.greet()
    assert isinstance(error_of(session), TLSError)
    assert words in str(error_of(session))
    assert peer.inside == b""
    assert SECRET.encode() not in peer.raw


def test_a_server_that_talks_no_tls(trusting: ssl.SSLContext, served: ssl.SSLContext) -> None:
    session = dialled(tls=trusting, tls_handshake_first=True)
    Peer(session, served).send(b"INFO {}\r\n")
    assert str(error_of(session)) == "nats://localhost:4222: TLS failed: wrong version number"
    session = dialled(tls=trusting, tls_handshake_first=True)
    session.receive_eof(0.0)
    assert isinstance(error_of(session), ConnectionLostError)


@promise("A server that requires TLS gets it. Its certificate must be one that the system trusts")
def test_each_link_has_its_own_tls(trusting: ssl.SSLContext, served: ssl.SSLContext) -> None:
    session = dialled(tls=trusting, max_reconnect_attempts=5)
    for _ in range(2):
        peer = Peer(session, served)
        peer.greet()
        peer.say(PONG + PONG)
        assert session.server is not None
        assert session.connect_to is None
        peer.end()
        assert session.wants_close
        assert not session.closed
        peer.carry()
        session.handle_timeout(10.0)
        session.connection_made(10.0)
    peer = Peer(session, served)
    peer.greet(tls_required=False, tls_available=True)
    assert peer.inside.startswith(b"CONNECT {")


def test_what_came_before_tls_broke_counts(trusting: ssl.SSLContext, served: ssl.SSLContext) -> None:
    session = dialled(tls=trusting)
    peer = Peer(session, served)
    peer.greet()
    peer.say(PONG + PONG)
    sub = Subscription(session, "a")
    peer._tls.write(encode_msg(b"a", b"1", None, None, b"whole"))
    peer.send(peer._to_send.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
    assert [message.payload for message in sub.pop_many(9)] == [b"whole"]
    (lost,) = (event for event in session.events() if isinstance(event, Disconnected))
    assert isinstance(lost.error, TLSError)
    assert str(lost.error).startswith("TLS failed: ")


def test_closing_before_tls_has_begun(trusting: ssl.SSLContext) -> None:
    session = dialled(tls=trusting, tls_handshake_first=True)
    session.data_to_send()
    session.close(0.0)
    assert SECRET.encode() not in b"".join(session.data_to_send())


def test_a_session_without_tls_is_as_any_other() -> None:
    session = dialled()
    session.receive_data(encode_info(json.dumps(INFO).encode()) + PONG, 0.0)
    assert session.connected.done
    assert b"".join(session.data_to_send()).startswith(b"CONNECT {")


@pytest.mark.parametrize("tls", [5, "cert.pem", {}], ids=repr)
def test_what_is_no_configuration(tls: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"tls must be an ssl\.SSLContext, True, False or None, not"):
        dialled(tls=tls)
