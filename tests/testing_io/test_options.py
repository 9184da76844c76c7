"""Options that a server in memory cannot have: each complaint names the option, and says what it takes."""

from __future__ import annotations

from typing import Any

import pytest

import jsproto_io.testing.asyncio
import jsproto_io.testing.trio
from jsproto.errors import LocalProtocolError
from jsproto.server import Access, BatchLimits
from jsproto.testing import WrongGuards
from jsproto_io.testing import in_process, serve
from jsproto_io.testing.simulation import simulate

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"dialect": "x"}, "dialect is 'released' or 'draft', not 'x'"),
    ({"ack_version": 3}, "ack_version is 1 or 2, not 3"),
    ({"ack_version": True}, "ack_version is 1 or 2, not True"),
    ({"release": (2,)}, "release is three numbers, such as .2, 14, 0., not .2,."),
    ({"release": "2.14.0"}, "release is three numbers, such as .2, 14, 0., not '2.14.0'"),
    ({"limits": 5}, "limits is a jsproto.server.BatchLimits, not 5"),
    ({"account_limits": BatchLimits()}, "account_limits is a jsproto.server.AccountLimits, not BatchLimits"),
    ({"ping_interval": "x"}, "ping_interval is a number of seconds above 0, not 'x'"),
    ({"ping_interval": -1}, "ping_interval is a number of seconds above 0, not -1"),
    ({"ping_interval": True}, "ping_interval is a number of seconds above 0, not True"),
    ({"max_payload": "1"}, "max_payload is a number of bytes above 0, not '1'"),
    ({"max_payload": -1}, "max_payload is a number of bytes above 0, not -1"),
    ({"max_pending": 0}, "max_pending is a number of bytes above 0, not 0"),
    ({"access": []}, r"access is a jsproto.server.access.Access, not \[\]"),
    ({"domain": ""}, "domain is a name, not ''"),
    ({"lenient": 1}, "lenient is True or False, not 1"),
    ({"apply_delay": -1}, "apply_delay is a number of seconds, not -1"),
    ({"apply_delay": True}, "apply_delay is a number of seconds, not True"),
    ({"wrong_guards": 7}, "wrong_guards is a function, such as a WrongGuards, not 7"),
]


@pytest.mark.parametrize(("options", "complaint"), WRONG)
@pytest.mark.parametrize("make", [serve, in_process, lambda **options: simulate(lambda: None, **options)])
def test_a_value_that_an_option_cannot_have(make: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"^{complaint}"):
        make(**options)


@pytest.mark.parametrize("make", [serve, in_process])
def test_tls_is_a_context(make: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"^tls is an ssl.SSLContext of the server's side, not True"):
        make(tls=True)


@pytest.mark.parametrize("port", [-1, 65_536, "4222", None])
def test_a_port(port: Any) -> None:
    with pytest.raises(LocalProtocolError, match=f"^port is a number of 0 to 65535, not {port!r}"):
        serve(port=port)


def test_an_option_that_there_is_not() -> None:
    makes: list[Any] = [serve, in_process, lambda **options: simulate(lambda: None, **options)]
    for make in makes:
        with pytest.raises(TypeError, match="^this server has no option 'nothing', but limits, dialect, "):
            make(nothing=1)
    for name in ("port", "host", "now"):
        with pytest.raises(TypeError, match=f"^this server has no option '{name}', but limits, dialect, "):
            in_process(**{name: 1})  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_the_other_drivers(anyio_backend_name: str) -> None:
    make: Any = {"asyncio": jsproto_io.testing.asyncio.serve, "trio": jsproto_io.testing.trio.serve}[anyio_backend_name]
    with pytest.raises(LocalProtocolError, match="^dialect is "):
        make(dialect="x")


def test_values_that_they_can_have() -> None:
    serve(
        limits=BatchLimits(idle=1.0), dialect="draft", release=(2, 14, 0), domain="hub", ack_version=2, max_payload=1,
        max_pending=1, ping_interval=float("inf"), lenient=True, access=Access(token="x"),
        apply_delay=0.5, wrong_guards=WrongGuards(1),
    )  # fmt: skip
