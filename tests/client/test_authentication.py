"""Who we say we are, and when TLS begins: the machine alone, against a scripted server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.client.connection.connect_options import Address, connect_options
from jsproto.client.connection.session import Session
from jsproto.errors import (
    AuthorizationError,
    ConnectionLostError,
    CredentialsError,
    Error,
    LocalProtocolError,
    NoServersError,
    RemoteProtocolError,
    ServerError,
    TLSError,
    TLSRequiredError,
)
from jsproto.events import Connected, Disconnected
from jsproto.wire.encoder import PING, PONG, encode_err
from jsproto.wire.frames import Connect, Ping
from tests.client.test_session import dialled, info
from tests.harness import INFO, TOKEN, Harness
from tests.marks import promise

NKEY = "U" + 55 * "A"
REFUSED = encode_err(b"'Authorization Violation'")
SECRET = "s3cret"


def connect_fields(harness: Harness) -> dict[str, Any]:
    """What the last CONNECT said."""
    (connect,) = harness.sent(Connect)
    assert isinstance(connect, Connect)
    fields: dict[str, Any] = json.loads(connect.raw)
    return fields


# -- credentials -------------------------------------------------------------------------------------------------------


def test_a_nonce_is_signed() -> None:
    harness = dialled(nkey=NKEY, signature_cb=lambda nonce: f"signed {nonce}".encode())
    harness.feed(info(nonce="one"))
    fields = connect_fields(harness)
    assert (fields["nkey"], fields["sig"]) == (NKEY, "signed one")
    assert "jwt" not in fields


def test_a_jwt_goes_with_its_signature_and_with_a_token() -> None:
    harness = dialled(user_jwt_cb=lambda: "J.W.T", signature_cb=lambda nonce: bytearray(nonce.encode()), token="t")
    harness.feed(info(nonce="one"))
    fields = connect_fields(harness)
    assert (fields["jwt"], fields["sig"], fields["auth_token"]) == ("J.W.T", "one", "t")
    assert "nkey" not in fields


def test_nothing_is_signed_for_a_server_that_does_not_ask() -> None:
    harness = dialled(user_jwt_cb=lambda: 1 // 0, signature_cb=lambda nonce: 1 // 0)
    harness.feed(info())
    assert not connect_fields(harness).keys() & {"jwt", "nkey", "sig"}


@promise("Files are read again, and the server's nonce is signed, for each link.")
def test_each_link_signs_its_own_nonce() -> None:
    jwts = iter(["first", "second"])
    harness = Harness(connected=False, user_jwt_cb=lambda: next(jwts), signature_cb=str.upper, max_reconnect_attempts=5)
    for nonce, jwt in (("one", "first"), ("two", "second")):
        harness.session.connection_made(harness.now)
        harness.feed(info(nonce=nonce))
        fields = connect_fields(harness)
        assert (fields["jwt"], fields["sig"]) == (jwt, nonce.upper())
        harness.feed(PONG)
        harness.lose()


def test_an_error_of_the_callback_that_names_no_secret_is_told_as_it_is() -> None:
    def unreadable() -> str:
        raise CredentialsError("user_credentials: cannot read 'my.creds': No such file or directory")

    harness = dialled(user_jwt_cb=unreadable, signature_cb=str)
    harness.feed(info(nonce="one"))
    assert harness.sent(Connect) == []
    with pytest.raises(CredentialsError, match=r"cannot read 'my\.creds'"):
        harness.session.connected.result()


@promise("No error, repr or log shows a secret")
@pytest.mark.parametrize("result", [5, None, b"\xff", ValueError(SECRET)], ids=repr)
def test_a_callback_that_fails_ends_the_link_and_is_not_quoted(result: Any) -> None:
    def callback(nonce: str) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    harness = dialled(nkey=NKEY, signature_cb=callback)
    harness.feed(info(nonce="one"))
    error = harness.session.connected.error
    assert isinstance(error, CredentialsError)
    assert str(error).startswith("nats://localhost:4222: signature_cb failed: ")
    assert SECRET not in str(error)
    assert error.__context__ is None


# -- a server that refuses ---------------------------------------------------------------------------------------------


def refused(harness: Harness, text: bytes = REFUSED) -> None:
    """Dial, and be refused."""
    harness.session.connection_made(harness.now)
    harness.feed(info() + text)


@promise("A server that has refused the credentials twice is not asked a third time")
def test_who_is_refused_twice_does_not_ask_a_third_time() -> None:
    harness = Harness(password=SECRET, user="u", reconnect_time_wait=1.0, max_reconnect_attempts=-1)
    harness.lose()
    refused(harness)
    assert not harness.session.closed
    harness.advance(2.0)
    refused(harness)
    session = harness.session
    assert session.closed
    assert isinstance(session.closed_error, AuthorizationError)
    assert session.deadline() is None
    events = [event for event in harness.events() if isinstance(event, Connected | Disconnected)]
    assert [type(event) for event in events] == [Disconnected]
    assert SECRET not in repr(events) + str(session.closed_error)


@promise("A server that has refused the credentials twice is not asked a third time")
def test_each_server_may_refuse_once() -> None:
    harness = Harness(servers="nats://a,b", reconnect_time_wait=1.0, max_reconnect_attempts=-1)
    harness.lose()
    for host in ("b", "a"):
        assert harness.session.connect_to == Address(host, 4222)
        refused(harness)
    harness.advance(2.0)
    assert not harness.session.closed
    refused(harness)
    assert isinstance(harness.session.closed_error, AuthorizationError)


def test_a_connection_between_two_refusals_makes_good() -> None:
    harness = Harness(reconnect_time_wait=1.0, max_reconnect_attempts=-1)
    for _ in range(5):
        harness.lose()
        harness.advance(2.0)
        refused(harness)
        harness.advance(2.0)
        harness.connect()
    assert not harness.session.closed


@pytest.mark.parametrize("text", [b"'Authentication Timeout'", b"'Maximum Connections Exceeded'"])
def test_what_is_no_refusal_is_tried_again(text: bytes) -> None:
    harness = Harness(reconnect_time_wait=1.0, max_reconnect_attempts=-1)
    harness.lose()
    for _ in range(5):
        refused(harness, encode_err(text))
        harness.session.receive_eof(harness.now)
        harness.advance(2.0)
    assert not harness.session.closed


def test_who_has_said_nothing_yet_is_not_refused() -> None:
    """Anybody on the way can write so before TLS begins."""
    harness = Harness(reconnect_time_wait=1.0, max_reconnect_attempts=-1, tls=True, connected=False)
    harness.session.connection_made(harness.now)
    harness.feed(info(tls_required=True))
    harness.session.tls_made(harness.now)
    harness.feed(PONG + PONG)
    harness.lose()
    for _ in range(5):
        harness.session.connection_made(harness.now)
        harness.feed(info(tls_required=True) + REFUSED)
        harness.advance(2.0)
    assert not harness.session.closed


@pytest.mark.parametrize("what", [b"User", b"Account"])
def test_credentials_that_expire_may_have_been_renewed(what: bytes) -> None:
    harness = Harness(reconnect_time_wait=1.0, max_reconnect_attempts=-1)
    harness.feed(encode_err(b"'%b Authentication Expired'" % what))
    (lost,) = (event for event in harness.events() if isinstance(event, Disconnected))
    assert isinstance(lost.error, AuthorizationError)
    harness.connect()
    assert not harness.session.closed


def test_all_refuse_the_first_time() -> None:
    harness = Harness(connected=False, servers="nats://a,b")
    refused(harness)
    refused(harness)
    assert isinstance(harness.session.connected.error, AuthorizationError)


def test_one_refuses_and_one_is_away() -> None:
    harness = Harness(connected=False, servers="nats://a,b")
    refused(harness)
    harness.session.connection_failed("Connection refused", harness.now)
    error = harness.session.connected.error
    assert isinstance(error, NoServersError)
    assert [reason for _, reason in error.attempts] == ["Authorization Violation", "Connection refused"]


# -- TLS ---------------------------------------------------------------------------------------------------------------


@promise("with `tls=True` none is sent in the open")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, {"tls_required": True}),
        ({"tls": object()}, {"tls_required": True}),
        ({"tls": True}, {"tls_available": True}),
        ({"servers": "tls://localhost"}, {"tls_available": True}),
    ],
)
def test_tls_comes_before_connect(options: dict[str, Any], says: dict[str, Any]) -> None:
    harness = dialled(token=SECRET, **options)
    session = harness.session
    assert not session.wants_tls
    harness.feed(info(**says))
    assert session.wants_tls
    assert session.tls_hostname == "localhost"
    assert harness.sent() == []
    session.tls_made(harness.now)
    assert not session.wants_tls
    assert connect_fields(harness)["auth_token"] == SECRET
    harness.feed(PONG)
    assert not session.connected.done
    harness.feed(info(**says, connect_info=True) + PONG)
    assert session.connected.done
    with pytest.raises(LocalProtocolError, match="asked for no TLS"):
        session.tls_made(harness.now)


@promise("Servers without TLS never ask.")
@pytest.mark.parametrize("options", [{}, {"tls": False}])
def test_tls_that_nobody_requires(options: dict[str, Any]) -> None:
    harness = dialled(**options)
    harness.feed(info(tls_available=True))
    assert not harness.session.wants_tls
    assert len(harness.sent(Connect)) == 1


def test_tls_may_come_before_info() -> None:
    harness = dialled(tls_handshake_first=True)
    session = harness.session
    assert session.wants_tls
    assert session.tls_hostname == "localhost"
    session.tls_made(harness.now)
    assert not session.wants_tls
    assert harness.sent() == []
    harness.feed(info(tls_required=True))
    assert not session.wants_tls
    assert len(harness.sent(Connect)) == 1


@promise("Servers without TLS never ask.")
@promise("`True` requires TLS, `False` forbids it")
@promise("`tls=True` and the scheme `tls://` refuse a link without TLS.")
@promise("with `tls=True` none is sent in the open")
@pytest.mark.parametrize(
    ("options", "says", "error", "words"),
    [
        ({"tls": False}, {"tls_required": True}, TLSRequiredError, "which tls=False rules out"),
        ({"tls": True}, {}, TLSRequiredError, "the server has no TLS"),
        ({"servers": "tls://localhost"}, {}, TLSRequiredError, "the server has no TLS"),
    ],
)
def test_one_side_requires_what_the_other_has_not(
    options: dict[str, Any], says: dict[str, Any], error: type[Error], words: str
) -> None:
    harness = dialled(token=SECRET, **options)
    harness.feed(info(**says))
    assert harness.sent() == []  # the secret is not sent in the open
    assert not harness.session.wants_tls
    with pytest.raises(error, match=words):
        harness.session.connected.result()


@promise("Names that came before TLS had begun are ignored")
def test_what_is_smuggled_in_before_tls_does_not_count() -> None:
    harness = dialled(tls=True)
    harness.feed(info(tls_required=True) + PING)
    with pytest.raises(RemoteProtocolError, match="Ping does not fit: TLS comes next"):
        harness.session.connected.result()
    harness = dialled(tls=True)
    harness.feed(info(tls_required=True) + b"PI")
    harness.session.tls_made(harness.now)
    harness.feed(PONG + PONG)
    assert harness.session.connected.done


@promise("with `tls=True` none is sent in the open")
def test_what_the_server_is_said_to_be_before_tls_is_not_in_force_afterwards() -> None:
    harness = dialled(tls=True)
    harness.feed(info(tls_required=True, max_payload=1, version="2.0.0", headers=False, nonce="n"))
    assert harness.session.server is None
    harness.session.tls_made(harness.now)
    harness.feed(PONG)
    assert not harness.session.connected.done
    harness.feed(info(tls_required=True, connect_info=True, max_payload=100) + PONG)
    said = harness.session.connected.result()
    assert (said.max_payload, said.version, said.headers) == (100, INFO["version"], True)
    assert harness.session.server == said
    harness.session.publish_message("a", b"x" * 100)
    assert [event.server for event in harness.events() if isinstance(event, Connected)] == [said]


@promise("A server before 2.12 repeats them only when the cluster changes")
def test_an_old_server_says_nothing_inside_tls() -> None:
    harness = dialled(tls=True)
    harness.feed(info(tls_required=True, max_payload=100, version="2.11.0"))
    harness.session.tls_made(harness.now)
    assert len(harness.sent(Ping)) == 2
    harness.feed(PONG + PONG)
    assert harness.session.connected.result().version == "2.11.0"
    assert harness.session.max_payload == 100


@promise("Names that came before TLS had begun are ignored")
def test_what_servers_are_named_before_tls_does_not_count() -> None:
    """Who gets between could name one with a good certificate of its own, to be given the credentials."""
    harness = dialled(tls=True, password=SECRET, user="u", max_reconnect_attempts=5)
    harness.feed(info(tls_required=True, connect_urls=["evil.example:4222"]))
    harness.session.tls_made(harness.now)
    harness.feed(PONG + PONG)
    harness.lose()
    assert harness.session.connect_to is not None
    assert harness.session.connect_to.host == "localhost"
    harness = dialled(tls_handshake_first=True, max_reconnect_attempts=5)
    harness.session.tls_made(harness.now)
    harness.feed(info(tls_required=True, connect_urls=["other.example:4222"]) + PONG)
    harness.lose()
    assert harness.session.connect_to is not None
    assert harness.session.connect_to.host == "other.example"


def test_a_server_without_room_says_so_without_tls() -> None:
    harness = dialled(tls=True)
    harness.feed(info(tls_required=True) + encode_err(b"'maximum connections exceeded'"))
    assert harness.session.wants_tls
    harness.session.receive_eof(harness.now)
    with pytest.raises(ServerError, match="maximum connections exceeded"):
        harness.session.connected.result()


def test_tls_that_fails() -> None:
    harness = dialled()
    harness.feed(info(tls_required=True))
    harness.session.tls_failed("the server's certificate was refused: it is too old", harness.now)
    harness.session.tls_failed("once more", harness.now)
    with pytest.raises(TLSError, match="it is too old"):
        harness.session.connected.result()
    harness.session.tls_failed("too late", harness.now)


def test_tls_that_breaks_is_a_lost_link() -> None:
    harness = Harness(max_reconnect_attempts=5)
    harness.session.tls_failed("TLS failed: bad record mac", harness.now)
    (lost,) = harness.events()
    assert isinstance(lost, Disconnected)
    assert isinstance(lost.error, TLSError)
    assert harness.session.connect_to is not None


def test_tls_that_takes_too_long() -> None:
    harness = dialled(tls_handshake_first=True)
    harness.advance(3.0)
    with pytest.raises(ConnectionLostError, match="in time: TLS comes next"):
        harness.session.connected.result()


def test_what_is_beneath_may_have_something_to_send() -> None:
    session = Session(connect_options("h"), token=TOKEN)
    session.nudge()
    assert not session.wants_send(0.0)
    session.connection_made(0.0)
    session.nudge()
    assert session.wants_send(0.0)
    assert b"".join(session.data_to_send()) == b""
    assert not session.wants_send(0.0)


@pytest.mark.parametrize(
    ("servers", "told", "names"),
    [
        ("tls://a.example", ["10.0.0.1:4222", "b.example:4222", "[::1]:1"], ["a.example", "b.example", "a.example"]),
        ("10.0.0.9", ["10.0.0.1:4222", "b.example:4222"], ["10.0.0.1", "b.example"]),
    ],
)
def test_servers_of_a_cluster_have_its_name(servers: str, told: list[str], names: list[str]) -> None:
    harness = Harness(servers=servers, info={"connect_urls": told, "tls_available": True}, connected=False)
    harness.session = session = Session(
        connect_options(servers, max_reconnect_attempts=-1, dont_randomize=True), token=TOKEN
    )

    def dial() -> None:
        session.connection_made(harness.now)
        harness.feed(info(tls_required=True))

    dial()
    session.tls_made(harness.now)
    harness.feed(PONG + info(connect_urls=told, connect_info=True) + PONG)
    harness.lose()
    found = []
    for _ in told:
        dial()
        found.append(session.tls_hostname)
        address = session._address
        assert address is not None
        assert address.tls == servers.startswith("tls:")
        harness.lose()
    assert found == names


@pytest.mark.parametrize(("servers", "options"), [("nats.internal.", {}), ("h", {"tls_hostname": "nats.internal."})])
def test_certificates_have_names_without_the_last_dot(servers: str, options: dict[str, Any]) -> None:
    harness = dialled(servers=servers, tls=True, **options)
    assert harness.session.tls_hostname == "nats.internal"
    assert harness.session.url == f"nats://{servers}:4222"  # it is looked up as it is written


def test_the_name_may_be_given() -> None:
    harness = dialled(tls_hostname="nats.example", tls=True)
    assert harness.session.tls_hostname == "nats.example"
