"""What every driver must do where servers want to know who is there, and talk TLS only."""

from __future__ import annotations

import json
import logging
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest
import trustme

from jsproto.errors import (
    AuthorizationError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    LocalProtocolError,
    NoServersError,
    TLSError,
    TLSRequiredError,
)
from jsproto.events import Event, ServerReportedError
from jsproto.wire.encoder import PONG, encode_err
from jsproto.wire.frames import Connect, Ping
from jsproto_io.nats_server import NatsServer
from tests.authority import Key, Operator, is_signed, tls_config
from tests.drivers.conftest import Connect as Connecting
from tests.drivers.fake import FakeServer, Peer
from tests.marks import promise

pytestmark = [pytest.mark.anyio, pytest.mark.server]

PATIENT = 30.0  # seconds for a handshake on a machine that is busy
PASSWORD = "pa$$-w0rd"
TOKEN = "t0k3n"
NKEY = Key("user")
MEMBER = Key("user")
OPERATOR = Operator()


def sign(nonce: str) -> bytes:
    return b64encode(NKEY.sign(nonce.encode()))


# -- servers and what they want ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def users() -> Iterator[NatsServer]:
    """A server that knows its users by password or nkey."""
    config = f'authorization {{ timeout: 60, users: [ {{user: u, password: "{PASSWORD}"}}, {{nkey: {NKEY.public}}} ] }}'
    with NatsServer(jetstream=False, config=config) as running:
        yield running


@pytest.fixture(scope="module")
def operated() -> Iterator[NatsServer]:
    """A server that believes an operator."""
    with NatsServer(jetstream=False, config=OPERATOR.config()) as running:
        yield running


@pytest.fixture(scope="module")
def known(authority: trustme.CA) -> ssl.SSLContext:
    """As ``trusting``, of a client that has a certificate."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert("client").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def tls(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """``tls(more)``: the configuration of a server that requires TLS."""
    return lambda more: tls_config(authority, tmp_path_factory.mktemp("tls"), more)


@pytest.fixture(scope="module")
def secure(tls: Callable[[str], str]) -> Iterator[NatsServer]:
    """A server that requires TLS and a token."""
    with NatsServer(config=f'{tls("")}authorization {{ token: "{TOKEN}", timeout: 60 }}') as running:
        yield running


@pytest.fixture(scope="module")
def mutual(tls: Callable[[str], str]) -> Iterator[NatsServer]:
    """A server that wants certificates from its clients."""
    with NatsServer(jetstream=False, config=tls("verify: true")) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tls: Callable[[str], str]) -> Iterator[NatsServer]:
    """A server that says nothing before TLS has begun."""
    with NatsServer(jetstream=False, config=tls("handshake_first: true"), tls_first=True) as running:
        yield running


async def name_of(nc: Any) -> str:
    """Who the server thinks we are."""
    answer = json.loads((await nc.request("$SYS.REQ.USER.INFO", timeout=PATIENT)).data)
    return str(answer["data"]["user"])


# -- credentials -------------------------------------------------------------------------------------------------------


async def test_users_are_known(users: NatsServer, connect: Connecting, tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    seed.write_text(NKEY.seed)
    url = users.url.replace("//", f"//u:{PASSWORD.replace('$', '%24')}@")
    cases: list[tuple[str, dict[str, Any], str]] = [
        (users.url, {"user": "u", "password": PASSWORD}, "u"),
        (url, {}, "u"),
        (users.url, {"nkeys_seed_str": NKEY.seed}, NKEY.public),
        (users.url, {"nkeys_seed": seed}, NKEY.public),
        (users.url, {"nkey": NKEY.public, "signature_cb": sign}, NKEY.public),
    ]
    for servers, options, name in cases:
        async with connect(servers, connect_timeout=PATIENT, **options) as nc:
            assert await name_of(nc) == name


async def test_users_of_an_operator_are_known(operated: NatsServer, connect: Connecting, tmp_path: Path) -> None:
    content = OPERATOR.credentials(MEMBER)
    path = tmp_path / "user.creds"
    path.write_text(content)
    for given in (content, path):
        async with connect(operated.url, user_credentials=given, connect_timeout=PATIENT) as nc:
            assert await name_of(nc) == MEMBER.public


@promise("Failures are an `AuthorizationError`, a `TLSError` or a `CredentialsError`.")
async def test_strangers_are_refused(
    users: NatsServer, operated: NatsServer, connect: Connecting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "jsproto_io")
    stranger, forged = Key("user"), Operator().credentials(MEMBER)
    cases: list[tuple[NatsServer, dict[str, Any]]] = [
        (users, {}),
        (users, {"user": "u", "password": "wr0ng"}),
        (users, {"token": "wr0ng"}),
        (users, {"nkeys_seed_str": stranger.seed}),
        (operated, {"user_credentials": forged}),
    ]
    for server, options in cases:
        events: list[Event] = []
        with pytest.raises(AuthorizationError, match=f"^{server.url}: Authorization Violation$") as caught:
            async with connect(server.url, event_cb=events.append, connect_timeout=PATIENT, **options):
                pass
        assert ServerReportedError("Authorization Violation", True) in events
        shown = f"{caught.value!r} {events!r} {caplog.text}"
        for secret in ("wr0ng", stranger.seed, forged.split()[4], MEMBER.seed):
            assert secret not in shown


@promise("Failures are an `AuthorizationError`, a `TLSError` or a `CredentialsError`.")
async def test_what_cannot_be_read_is_told_at_once(connect: Connecting, closed_port: int) -> None:
    for options in ({"user_credentials": "no/such.creds"}, {"nkeys_seed_str": "SU"}, {"tls": "cert.pem"}):
        with pytest.raises(LocalProtocolError):
            async with connect(f"nats://127.0.0.1:{closed_port}", **options):
                pass


@promise("Files are read again, and the server's nonce is signed, for each link.")
async def test_a_new_link_signs_again(connect: Connecting) -> None:
    signed: list[tuple[str, dict[str, Any]]] = []

    def greet(nonce: str) -> Callable[[Peer], None]:
        def script(peer: Peer) -> None:
            peer.info(nonce=nonce)
            signed.append((nonce, json.loads(peer.expect(Connect).raw)))
            peer.expect(Ping)
            peer.send(PONG)
            if nonce == "one":
                peer.expect(Ping)  # a flush
            else:
                peer.serve()

        return script

    with FakeServer(greet("one"), greet("two")) as server:
        async with connect(server.url, nkeys_seed_str=NKEY.seed, reconnect_time_wait=0.01) as nc:
            with pytest.raises(ConnectionLostError):
                await nc.flush(timeout=PATIENT)
            await nc.flush(timeout=PATIENT)
    assert [nonce for nonce, _ in signed] == ["one", "two"]
    for nonce, fields in signed:
        assert fields["nkey"] == NKEY.public
        assert is_signed(NKEY.public, nonce, fields["sig"])


@promise("A server that has refused the credentials twice is not asked a third time")
async def test_who_is_refused_twice_gives_up(connect: Connecting) -> None:
    def refuse(peer: Peer) -> None:
        peer.info()
        peer.expect(Connect)
        peer.send(encode_err(b"'Authorization Violation'"))

    def expire(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        peer.send(encode_err(b"'User Authentication Expired'"))

    events: list[Event] = []
    with FakeServer(expire, refuse, refuse) as server:
        async with connect(
            server.url, token=TOKEN, reconnect_time_wait=0.01, max_reconnect_attempts=-1, event_cb=events.append
        ) as nc:
            with pytest.raises(AuthorizationError, match="Expired"):
                await nc.flush(timeout=PATIENT)
            with pytest.raises((AuthorizationError, ConnectionClosedError), match="Violation"):
                await nc.flush(timeout=PATIENT)
            assert nc.is_closed
    reported = [event.text for event in events if isinstance(event, ServerReportedError)]
    assert reported == ["User Authentication Expired", "Authorization Violation", "Authorization Violation"]


# -- TLS ---------------------------------------------------------------------------------------------------------------


@promise("A server that requires TLS gets it. Its certificate must be one that the system trusts")
async def test_jetstream_inside_tls(secure: NatsServer, connect: Connecting, trusting: ssl.SSLContext) -> None:
    url = secure.url.replace("nats://", f"tls://{TOKEN}@")
    async with connect(url, tls=trusting, connect_timeout=PATIENT, timeout=PATIENT) as nc:
        assert nc.connected_url == secure.url.replace("nats", "tls")
        js, name = nc.jetstream(), f"S{uuid4().hex[:12]}"
        await js.create_stream(name, subjects=[f"{name}.>"], allow_batched=True, allow_direct=True)
        await js.publish(f"{name}.a", bytes(900_000))
        async with js.fast_publisher() as batch:
            await batch.publish_many((f"{name}.a", b"%d" % number) for number in range(1_000))
            await batch.commit()
        read = [message.data async for message in js.get_batch(name)]
        assert read[0] == bytes(900_000)
        assert read[1:] == [b"%d" % number for number in range(1_000)]


async def test_other_ways_into_tls(
    secure: NatsServer, mutual: NatsServer, hasty: NatsServer, connect: Connecting, trusting: ssl.SSLContext,
    known: ssl.SSLContext,
) -> None:  # fmt: skip
    cases: list[tuple[str, dict[str, Any]]] = [
        (secure.url, {"tls": trusting, "token": TOKEN}),
        (secure.url, {"tls": trusting, "token": TOKEN, "tls_hostname": "localhost"}),
        (secure.url, {"tls": trusting, "token": TOKEN, "tls_hostname": "localhost."}),
        (mutual.url, {"tls": known}),
        (hasty.url, {"tls": trusting, "tls_handshake_first": True}),
    ]
    for url, options in cases:
        async with connect(url, connect_timeout=PATIENT, **options) as nc:
            await nc.flush(timeout=PATIENT)


@promise("`True` requires TLS, `False` forbids it")
@promise("A server that requires TLS gets it. Its certificate must be one that the system trusts")
@promise("`tls=True` and the scheme `tls://` refuse a link without TLS.")
@promise("Failures are an `AuthorizationError`, a `TLSError` or a `CredentialsError`.")
async def test_tls_that_will_not_do(
    users: NatsServer, secure: NatsServer, mutual: NatsServer, connect: Connecting, trusting: ssl.SSLContext
) -> None:
    refused = "the server's certificate was refused: "
    cases: list[tuple[NatsServer, dict[str, Any], type[Error], str]] = [
        (secure, {}, TLSError, f"{refused}unable to get local issuer certificate"),
        (secure, {"tls": True}, TLSError, f"{refused}unable to get local issuer certificate"),
        (secure, {"tls": trusting, "tls_hostname": "else.where"}, TLSError, f"{refused}Hostname mismatch"),
        (secure, {"tls": trusting}, AuthorizationError, "Authorization Violation"),
        (secure, {"tls": False}, TLSRequiredError, "the server requires TLS"),
        (users, {"tls": trusting}, TLSRequiredError, "the server has no TLS"),
        (users, {"tls": trusting, "tls_handshake_first": True}, TLSError, "wrong version number"),
        (mutual, {"tls": trusting}, ConnectionLostError, "."),  # the alert, or what the network made of it
    ]
    for server, options, error, words in cases:
        with pytest.raises(error, match=words):
            async with connect(server.url, connect_timeout=PATIENT, **options):
                pass
    ordered: dict[str, Any] = {"connect_timeout": PATIENT, "dont_randomize": True}
    with pytest.raises(NoServersError, match="Hostname mismatch.*the server has no TLS"):
        async with connect([secure.url, users.url], tls=trusting, tls_hostname="else.where", **ordered):
            pass


async def test_a_lost_link_inside_tls_comes_back(
    tls: Callable[[str], str], connect: Connecting, trusting: ssl.SSLContext
) -> None:
    user = f"{tls('')}authorization {{ users: [ {{nkey: {NKEY.public}}} ] }}"
    with NatsServer(jetstream=False, config=user) as server:
        options: dict[str, Any] = {"nkeys_seed_str": NKEY.seed, "tls": trusting, "reconnect_time_wait": 0.02}
        async with connect(server.url, connect_timeout=PATIENT, max_reconnect_attempts=-1, **options) as nc:
            sub = await nc.subscribe("a")
            await nc.flush(timeout=PATIENT)
            await anyio.to_thread.run_sync(server.kill)
            await anyio.to_thread.run_sync(server.start)
            with suppress(ConnectionLostError):  # who has no reader notices it now
                await nc.flush(timeout=PATIENT)
            await nc.flush(timeout=PATIENT)
            await nc.publish("a", b"still here")
            assert (await sub.next_msg()).data == b"still here"
            assert await name_of(nc) == NKEY.public
