"""Addresses and options: what a user may write, and what is refused without giving secrets away."""

from __future__ import annotations

import traceback
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.connection.connect_options import Address, ConnectOptions, connect_options
from jsproto.errors import LocalProtocolError
from tests.marks import promise

NKEY = "U" + 55 * "A"


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("nats://localhost:4222", [Address("localhost", 4222)]),
        ("localhost", [Address("localhost", 4222)]),
        ("10.0.0.1:5000", [Address("10.0.0.1", 5000)]),
        ("tcp://h/", [Address("h", 4222)]),
        ("nats://[::1]:1", [Address("::1", 1)]),
        ("nats://u:p%3A@h", [Address("h", 4222, "u", "p:")]),
        ("tls://u:p@h", [Address("h", 4222, "u", "p", tls=True)]),
        ("tls://tok@h:1", [Address("h", 1, token="tok", tls=True)]),
        ("nats://tok@h", [Address("h", 4222, token="tok")]),
        ("a:1,", [Address("a", 1)]),
        ("a:1, nats://b:2", [Address("a", 1), Address("b", 2)]),
        (["a", "b"], [Address("a", 4222), Address("b", 4222)]),
    ],
)
def test_what_a_user_may_write(servers: Any, expected: list[Address]) -> None:
    assert list(connect_options(servers).servers) == expected


@pytest.mark.parametrize(
    "servers",
    ["", "http://h", "ws://h", "nats://", "nats://h:x", "nats://h:99999", "nats://h/path", "nats://h?q", "nats://h#f",
     "nats://[::1", "nats://a..b", "nats:// h", "nats://h\ri", "nats://h:0", "nats://" + "h" * 64, ",", []],
)  # fmt: skip
def test_what_is_no_address(servers: Any) -> None:
    with pytest.raises(LocalProtocolError):
        connect_options(servers)


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"connect_timeout": -1.0}, {"ping_interval": float("nan")}, {"max_outstanding_pings": 0},
     {"flush_at": 0}, {"pending_size": 0}, {"linger": -0.1}, {"reconnect_time_wait": -1.0},
     {"max_reconnect_attempts": -2}, {"token": "t", "user": "u"}, {"inbox_prefix": "a..b"},
     {"no_such_option": 1}, {"signature_cb": str}, {"user_jwt_cb": str}, {"nkey": NKEY},
     {"signature_cb": str, "user_jwt_cb": str, "nkey": NKEY}, {"tls": False, "tls_handshake_first": True},
     {"reconnect_jitter": -1}, {"reconnect_jitter_tls": "x"}, {"dont_randomize": 1}, {"first_connect_timeout": 5},
     {"retry_on_first_connect": True, "max_reconnect_attempts": 0},
     {"retry_on_first_connect": True, "first_connect_timeout": 0},
     {"retry_on_first_connect": True, "first_connect_timeout": True},
     {"retry_on_first_connect": True, "first_connect_timeout": "5"}],
)  # fmt: skip
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        connect_options("h", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"no_such_option": 1}, "unknown connect option: no_such_option$"), ({"timeout": "5"}, "timeout must be a number"),
     ({"reconnect_wait": 1}, "unknown connect option: reconnect_wait: did you mean 'reconnect_time_wait'"),
     ({"no_such": 1, "nor_such": 2}, "unknown connect option: no_such, nor_such$"),
     ({"linger": None}, "linger must be a number of seconds or a timedelta, not NoneType"),
     ({"max_reconnect_attempts": "x"}, "max_reconnect_attempts must be an int, not str"),
     ({"max_reconnect_attempts": True}, "max_reconnect_attempts must be an int, not bool"),
     ({"pending_size": 1e6}, "pending_size must be an int, not float"), ({"name": 5}, "name must be a str or None"),
     ({"password": b"s3cret"}, "password must be a str or None, not bytes"), ({"echo": 1}, "echo must be True or"),
     ({"inbox_prefix": 5}, "inbox_prefix must be a str, not int"),
     ({"signature_cb": b"s3cret"}, "signature_cb must be a function or None, not bytes"),
     ({"tls_hostname": b"h"}, "tls_hostname must be a str or None"), ({"tls_handshake_first": 1}, "must be True or")],
)  # fmt: skip
def test_an_option_of_a_wrong_type_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        connect_options("h", **options)


def test_a_seed_in_the_place_of_a_public_key_is_not_shown() -> None:
    with pytest.raises(LocalProtocolError, match="nkey must be the public key of a user") as caught:
        connect_options("h", nkey="SUs3cret", signature_cb=str)
    assert "s3cret" not in str(caught.value)


@promise("`True` requires TLS, `False` forbids it")
@promise("`tls=True` and the scheme `tls://` refuse a link without TLS.")
def test_no_tls_where_the_url_asks_for_it() -> None:
    with pytest.raises(LocalProtocolError, match="tls=False rules out"):
        connect_options("nats://a,tls://b", tls=False)


@pytest.mark.parametrize("servers", [None, 5, b"nats://h", bytearray(b"h"), [b"nats://u:s3cret@h"], [None]], ids=repr)
def test_servers_of_a_wrong_type_are_named(servers: Any) -> None:
    with pytest.raises(LocalProtocolError, match="servers must be") as caught:
        connect_options(servers)
    assert "s3cret" not in str(caught.value)


def test_times_are_seconds_or_timedelta() -> None:
    options = connect_options(
        "h", connect_timeout=timedelta(seconds=2.5), timeout=3, linger=timedelta(0), ping_interval=timedelta(minutes=1)
    )
    assert (options.connect_timeout, options.timeout, options.linger, options.ping_interval) == (2.5, 3, 0.0, 60.0)
    with pytest.raises(LocalProtocolError, match="timeout must be greater than 0"):
        connect_options("h", timeout=timedelta(seconds=-1))
    assert ConnectOptions(options.servers, timeout=timedelta(seconds=3), linger=0.5).timeout == 3.0  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="timeout must be a number of seconds or a timedelta, not bool"):
        connect_options("h", timeout=True)


@promise("No error, repr or log shows a secret")
@given(st.text("abcXYZ0189", min_size=1), st.text("abcXYZ0189", min_size=1))
def test_secrets_show_nowhere(user: str, password: str) -> None:
    secret = f"s3cr3t-{password}"
    options = connect_options(
        f"nats://{user}:{secret}@h:1", password=secret, user=user, user_jwt_cb=secret.encode, signature_cb=secret.join
    )
    assert secret not in repr(options)
    assert secret not in options.servers[0].url
    for url in (f"nats://{user}:{secret}@h/path", f"nats://{user}:{secret}/x@h", f"nats://{user}:{secret}@h:port"):
        with pytest.raises(LocalProtocolError) as caught:
            connect_options(url)
        assert secret not in str(caught.value)


@promise("No error, repr or log shows a secret")
@pytest.mark.parametrize("end", ["", ":x", "/", "?", "#", "[", "%zz", "@", " ", "\n", ","])
@pytest.mark.parametrize("host", ["h", "h:99999", "h:port", "", "[::1", "h h", "h/path", "h?x", "h:1,other"])
def test_no_traceback_shows_the_secret_of_a_url(host: str, end: str) -> None:
    for url in (f"nats://u:s3cr3t{end}@{host}", f"s3cr3t{end}@{host}", f"tls://u{end}:s3cr3t@{host}"):
        try:
            shown = repr(connect_options(url))
        except LocalProtocolError as error:
            shown = "".join(traceback.format_exception(error)) + repr(error.__context__)
        assert "s3cr3t" not in shown


@pytest.mark.parametrize(
    "url", ["nats://u:s3cr3t/x@h", "nats://u:x?s3cr3t@h:1", "u:s3cr3t#@h", "s3cr3t/@h", "u:1/s3@h"]
)
def test_who_writes_a_slash_in_a_password_hears_how_to_write_it(url: str) -> None:
    with pytest.raises(LocalProtocolError, match="not a server URL: 'h.*%2F %3F %23") as caught:
        connect_options(url)
    assert caught.value.__context__ is None
    assert connect_options("nats://u:a%2Fb%3F%23@h").servers[0].password == "a/b?#"


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_who_asks_for_websocket_hears_what_to_write(scheme: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"{scheme}.*no WebSocket here; write nats://host:port"):
        connect_options(f"{scheme}://h:8080")


@pytest.mark.parametrize("url", ["nats://u:s3cr3t,x@h", "u:s3cr3t,x@h:1", "nats://a,nats://u:1234,s3cr3t@h"])
def test_a_comma_in_a_password_is_refused_without_a_part_of_it(url: str) -> None:
    with pytest.raises(LocalProtocolError, match="is written %2C") as caught:
        connect_options(url)
    assert "s3cr3t" not in str(caught.value)
    assert connect_options(["nats://u:a,b@h"]).servers[0].password == "a,b"
    assert connect_options("nats://a:1,nats://u:a%2Cb@h").servers[1].password == "a,b"


def test_an_address_in_brackets() -> None:
    assert Address("::1", 4222).url == "nats://[::1]:4222"
    assert Address("h", 4222, tls=True).url == "tls://h:4222"
    assert ConnectOptions((Address("h", 1),)).timeout == 5.0
