"""Contexts of the NATS command line and environment variables: what is read of them, and what is told of bad ones."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

import jsproto_io
from jsproto.errors import ContextNotFoundError, LocalProtocolError, SettingsError
from jsproto_io import contexts, from_env
from jsproto_io._state.common import new_session
from jsproto_io.contexts import VARIABLES, load
from jsproto_io.nats_server import NatsServer
from tests.authority import Key, Operator, credentials, is_signed, tls_config
from tests.drivers.conftest import Connect
from tests.marks import promise

USER = Key("user")
CREDS = credentials("J.W.T", USER.seed)
SECRET = "se\u00e7ret"  # in no text of an error, and in no repr


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the contexts. No variable of the machine counts."""
    for name in ("XDG_CONFIG_HOME", "NATS_CONTEXT", *VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "nats" / "context"
    folder.mkdir(parents=True)
    return folder


def write(home: Path, name: str = "orders", /, **fields: Any) -> Path:
    path = home / f"{name}.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path


def select(home: Path, name: str) -> None:
    (home.parent / "context.txt").write_text(f"{name}\n", encoding="utf-8")


# -- which context -----------------------------------------------------------------------------------------------------


@promise("Fields that `nats` does not know are ignored.")
def test_a_context_by_its_name(home: Path) -> None:
    path = write(
        home, url="nats://a:1,nats://b:2", user="u", password=SECRET, inbox_prefix="_IN", jetstream_domain="hub",
        tls_first=True, description="x", color_scheme="blue", token="", nsc="", unknown={"a": 1}, socks_proxy="",
    )  # fmt: skip
    found = load("orders")
    assert found.connect == {
        "servers": "nats://a:1,nats://b:2", "user": "u", "password": SECRET, "inbox_prefix": "_IN",
        "tls_handshake_first": True,
    }  # fmt: skip
    assert found.jetstream == {"domain": "hub"}
    assert (found.context, found.path) == ("orders", str(path))
    assert SECRET not in repr(found)
    assert load(str(path)) == load(path) == found
    assert load(write(home, "api", jetstream_api_prefix="X.API")).jetstream == {"prefix": "X.API"}


def test_an_empty_context_is_the_default_server(home: Path) -> None:
    write(home)
    assert load("orders").connect == {}
    assert load("orders").jetstream == {}


def test_the_selected_context(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contexts.selected() is None
    with pytest.raises(ContextNotFoundError, match=r"context\.txt: no context is selected$"):
        load()
    write(home, token="t")
    write(home, "other", token="o")
    select(home, "orders")
    assert contexts.selected() == "orders"
    assert contexts.names() == ["orders", "other"]
    assert load().connect == {"token": "t"}
    assert from_env().connect == {}
    assert from_env(use_selected=True).connect == {"token": "t"}
    monkeypatch.setenv("NATS_CONTEXT", "other")
    assert from_env(use_selected=True).context == "other"
    assert from_env(context="orders").context == "orders"


def test_the_folder_is_that_of_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert contexts.names() == []
    folder = tmp_path / "xdg" / "nats" / "context"
    folder.mkdir(parents=True)
    write(folder, token="t")
    assert load("orders").connect == {"token": "t"}


@pytest.mark.parametrize("name", ["", "../orders", "a/b", "a\\b", "/no/such.json"])
def test_no_context_has_such_a_name(name: str) -> None:
    with pytest.raises(ContextNotFoundError, match="no context can have the name"):
        load(name)


def test_a_context_that_is_not_there(home: Path) -> None:
    with pytest.raises(ContextNotFoundError, match=r"none\.json: there is no such context; there are: none at all$"):
        load("none")
    write(home, "b")
    write(home, "a")
    with pytest.raises(ContextNotFoundError, match=r"none\.json: there is no such context; there are: a, b$") as caught:
        from_env(context="none")
    assert (caught.value.path, caught.value.field) == (str(home / "none.json"), None)


# -- what is wrong with a context --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is no JSON at line 1"),
        (b'{\n"url": "nats://x"\n"token": "' + SECRET.encode() + b'"}', "it is no JSON at line 3"),
        (b'\xff\xfe"', "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"[]", "it must be a JSON object, not list"),
        (b'"text"', "it must be a JSON object, not str"),
    ],
    ids=["empty", "comma", "bytes", "deep", "list", "text"],
)
def test_a_file_that_is_no_context(home: Path, content: bytes, words: str) -> None:
    path = home / "orders.json"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load("orders")
    assert str(caught.value).startswith(f"{path}: {words}")
    assert (caught.value.path, caught.value.field) == (str(path), None)
    assert SECRET not in str(caught.value)


def test_a_file_that_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "orders.json").mkdir()
    with pytest.raises(SettingsError, match=r"orders\.json: cannot read it: Is a directory$"):
        load("orders")
    path = write(home, "closed", token=SECRET)

    def refuse(*args: Any, **keywords: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root reads everything
    with pytest.raises(SettingsError, match=r"closed\.json: cannot read it: Permission denied$"):
        load(path)


def test_a_selection_that_cannot_be_read(home: Path) -> None:
    (home.parent / "context.txt").mkdir()
    with pytest.raises(SettingsError, match=r"context\.txt: cannot read it: Is a directory$"):
        contexts.selected()


def test_a_file_that_others_can_read_is_read_as_nats_does(home: Path) -> None:
    write(home, token="t").chmod(0o644)
    assert load("orders").connect == {"token": "t"}


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "kind": ({"url": 5}, "url", "it must be text, not int"),
    "flag": ({"tls_first": "yes"}, "tls_first", "it must be true or false, not str"),
    "url": ({"url": f"http://u:{SECRET}@h"}, "url", "the URL scheme 'http' is not supported"),
    "port": ({"url": f"nats://{SECRET}@h:x"}, "url", "not a server URL: 'h:x'"),
    "both": ({"user": "u", "creds": "x"}, "creds", "give one of these, not several: user, creds"),
    "token": ({"user": "u", "token": SECRET}, "token", "give one of these, not several: user, token"),
    "password": ({"password": SECRET}, "password", "it needs a user"),
    "seed": ({"user_seed": SECRET}, "user_seed", "it needs a user_jwt"),
    "creds": ({"creds": "/no/such.creds"}, "creds", "cannot read '/no/such.creds': No such file or directory"),
    "nkey": ({"nkey": "~/no.nk"}, "nkey", "No such file or directory"),
    "null": ({"creds": "a\0b"}, "creds", "it is no path"),
    "secret": ({"nkey": USER.seed}, "nkey", "it must be a path, but it looks like a secret itself"),
    "op": ({"creds": "op://vault/x"}, "creds", "op:// is not asked"),
    "nsc": ({"nsc": "nsc://o/a/u"}, "nsc", "nsc is not asked; give the file that it names as creds"),
    "proxy": ({"socks_proxy": "h:1"}, "socks_proxy", "there are no SOCKS proxies here"),
    "windows": ({"windows_cert_store": "user"}, "windows_cert_store", "certificates of Windows are not read"),
    "env": ({"token": "env://NO_SUCH"}, "token", "the variable 'NO_SUCH' is not set"),
    "data": ({"creds": "data:;base64,???"}, "creds", "after data: it needs ;base64, and text in Base64"),
    "plain": ({"creds": "data:,x"}, "creds", "after data: it needs ;base64, and text in Base64"),
    "empty": ({"creds": "data:;base64,"}, "creds", "it holds no credentials"),
    "cert": ({"cert": "c.pem"}, "cert", "it needs a key"),
    "key": ({"key": "k.pem"}, "key", "it needs a cert"),
    "ca": ({"ca": "/no/ca.pem"}, "ca", "cannot read '/no/ca.pem': No such file or directory"),
    "prefix": ({"jetstream_domain": "a", "jetstream_api_prefix": "b"}, "jetstream_api_prefix", "not both"),
}


@pytest.mark.parametrize(("fields", "field", "words"), BAD.values(), ids=BAD)
def test_a_field_that_cannot_be_used(home: Path, fields: dict[str, Any], field: str, words: str) -> None:
    path = write(home, **fields)
    with pytest.raises(SettingsError) as caught:
        load("orders")
    assert str(caught.value).startswith(f"{path}: {field}: ")
    assert words in str(caught.value)
    assert (caught.value.path, caught.value.field) == (str(path), field)
    assert isinstance(caught.value, LocalProtocolError)
    shown = f"{caught.value!r} {caught.value}"
    assert SECRET not in shown
    assert USER.seed not in shown


# -- variables and arguments -------------------------------------------------------------------------------------------


def test_the_variables_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "nats://h:1")
    assert from_env().connect == {"servers": "nats://h:1"}
    monkeypatch.setenv("NATS_USER", "u")
    assert from_env().connect == {"servers": "nats://h:1", "token": "u"}  # as nats does
    monkeypatch.setenv("NATS_PASSWORD", "p")
    assert from_env().connect == {"servers": "nats://h:1", "user": "u", "password": "p"}
    monkeypatch.setenv("NATS_TOKEN", "t")
    with pytest.raises(SettingsError, match=r"^NATS_TOKEN: give one of these, not several: user, token$"):
        from_env()
    for name in ("NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN"):
        monkeypatch.setenv(name, "")  # counts as not set
    monkeypatch.setenv("NATS_CREDS", str(tmp_path / "no.creds"))
    with pytest.raises(
        SettingsError, match=r"^NATS_CREDS: cannot read .*no\.creds': No such file or directory$"
    ) as caught:
        from_env()
    assert (caught.value.path, caught.value.field) == (None, "NATS_CREDS")
    monkeypatch.setenv("NATS_CREDS", "")
    monkeypatch.setenv("NATS_SOCKS_PROXY", "h:1")
    with pytest.raises(SettingsError, match=r"^NATS_SOCKS_PROXY: there are no SOCKS proxies here$"):
        from_env()


@promise("Credentials that come first replace all of the rest")
def test_what_goes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, url="nats://context", user="u", password="c", inbox_prefix="_C")
    monkeypatch.setenv("NATS_CONTEXT", "orders")
    assert from_env().connect == {
        "servers": "nats://context", "user": "u", "password": "c", "inbox_prefix": "_C"
    }  # fmt: skip
    monkeypatch.setenv("NATS_PASSWORD", "v")
    assert from_env().connect["password"] == "v"  # of the context's user
    monkeypatch.setenv("NATS_URL", "nats://variable")
    assert from_env().connect["servers"] == "nats://variable"
    assert from_env(url="nats://argument").connect["servers"] == "nats://argument"
    monkeypatch.delenv("NATS_PASSWORD")
    monkeypatch.setenv("NATS_TOKEN", "t")  # in the place of all credentials of the context
    assert from_env(inbox_prefix="_A").connect == {"servers": "nats://variable", "token": "t", "inbox_prefix": "_A"}
    assert from_env(user="me", password="p", token=None).connect == {
        "servers": "nats://variable", "user": "me", "password": "p", "inbox_prefix": "_C"
    }  # fmt: skip
    assert load("orders", token="x", url="nats://a", password="").connect == {
        "servers": "nats://a", "token": "x", "inbox_prefix": "_C"
    }  # fmt: skip


def test_an_argument_that_cannot_be_used() -> None:
    with pytest.raises(LocalProtocolError, match=r"^no field of a context: servers$"):
        from_env(servers="nats://x")  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match=r"^ca: cannot read '/no/ca.pem': No such file or directory$"):
        from_env(ca=Path("/no/ca.pem"))


# -- credentials and TLS -----------------------------------------------------------------------------------------------


def signed(options: Any) -> tuple[str | None, bool]:
    """The JWT, and whether the nonce is signed by USER, after all that ``connect()`` does with the options."""
    made = new_session("nats://h", options).options
    assert made.signature_cb is not None
    signature: Any = made.signature_cb("nonce")
    jwt = None if made.user_jwt_cb is None else made.user_jwt_cb()
    return (None if jwt is None else str(jwt)), is_signed(USER.public, "nonce", str(bytes(signature), "ascii"))


def data(content: str) -> str:
    return f"data:;base64,{base64.b64encode(content.encode()).decode()}"


def test_credentials(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user.creds").write_text(CREDS, encoding="utf-8")
    (tmp_path / "user.nk").write_text(USER.seed + "\n", encoding="utf-8")
    monkeypatch.setenv("KEYS", str(tmp_path))
    monkeypatch.setenv("CREDS", CREDS)
    monkeypatch.setenv("SEED", USER.seed)
    for reference in ("~/user.creds", "$KEYS/user.creds", "${KEYS}/user.creds", f"file://{tmp_path}/user.creds",
                      "env://CREDS", data(CREDS)):  # fmt: skip
        write(home, creds=reference)
        assert signed(load("orders").connect) == ("J.W.T", True), reference
    for reference in ("~/user.nk", "file://$KEYS/user.nk", "env://SEED", data(USER.seed + "\n")):
        write(home, nkey=reference)
        assert signed(load("orders").connect) == (None, True), reference
    for seed in (USER.seed, "env://SEED", data(USER.seed), f"file://{tmp_path}/user.nk"):
        assert signed(from_env(user_jwt="J.W.T", user_seed=seed).connect) == ("J.W.T", True)
    assert signed(from_env(creds=tmp_path / "user.creds").connect) == ("J.W.T", True)
    monkeypatch.setenv("NATS_JWT", "B.E.A")
    bearer: Any = from_env().connect
    assert (bearer["user_jwt_cb"](), bearer["signature_cb"]("nonce")) == ("B.E.A", "")
    assert from_env(token="env://SEED").connect == {"token": USER.seed}
    assert from_env(user="u", password="file:is not a reference").connect["password"] == "file:is not a reference"


def test_certificates(authority: trustme.CA, tmp_path: Path) -> None:
    tls_config(authority, tmp_path)
    other = trustme.CA().issue_cert("localhost")
    other.private_key_pem.write_to_path(str(tmp_path / "other.pem"))
    (tmp_path / "text.pem").write_text("no certificate\n", encoding="utf-8")
    (tmp_path / "locked.pem").write_text(encrypted(), encoding="utf-8")
    ca, cert, key = (str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key"))
    made = from_env(ca=ca, cert=cert, key=key, tls_first=True).connect
    assert isinstance(made["tls"], ssl.SSLContext)
    assert made["tls"].verify_mode is ssl.CERT_REQUIRED
    assert made["tls"].check_hostname
    assert len(made["tls"].get_ca_certs()) == 1  # those of the system are not trusted
    assert made["tls_handshake_first"]
    assert isinstance(from_env(cert=cert, key=key).connect["tls"], ssl.SSLContext)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"ca": tmp_path / "text.pem"}, r"^ca: the file holds no certificates in PEM$"),
        ({"cert": cert, "key": tmp_path / "other.pem"}, r"^key: it does not belong to the certificate$"),
        ({"cert": tmp_path / "text.pem", "key": key}, r"^cert: this file and that of the key hold no certificate and"),
        ({"cert": cert, "key": tmp_path / "locked.pem"}, r"^key: it is encrypted, and there is nobody to ask"),
    ]
    for fields, words in bad:
        with pytest.raises(SettingsError, match=words):
            from_env(**fields)


def encrypted() -> str:
    """A private key in PEM that has a password."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")).decode()


# -- with a real server ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.server
async def test_connecting_by_a_context(connect: Connect, home: Path, tmp_path: Path) -> None:
    operator, user = Operator(), Key("user")
    (tmp_path / "user.creds").write_text(operator.credentials(user), encoding="utf-8")
    with NatsServer(config=operator.config()) as server:
        write(home, url=server.url, creds="~/user.creds", inbox_prefix="_MINE")
        settings = load("orders")
        async with connect(**settings.connect) as nc:
            js = nc.jetstream(**settings.jetstream)
            await js.create_stream("S", subjects=["s"])
            assert (await js.publish("s")).seq == 1
            assert nc.new_inbox().startswith("_MINE.")


@pytest.mark.anyio
@pytest.mark.server
async def test_connecting_by_variables(
    connect: Connect, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tls_config(authority, tmp_path, "verify: true") + "authorization { user: u, password: p }\n"
    with NatsServer(config=config) as server:
        files = {name.upper(): str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
        for name, value in {"URL": server.url, "USER": "u", "PASSWORD": "p", **files}.items():
            monkeypatch.setenv(f"NATS_{name}", value)
        async with connect(**jsproto_io.from_env().connect) as nc:
            assert await nc.flush() > 0
