"""How to reach a server and what to promise it: addresses and connect options, as values.

Rules: nothing here opens anything. Secrets are kept out of ``repr``, of ``Address.url`` and so out of every message.
Unknown or impossible options are refused here, before anything is dialled.

Not here: environment variables and context files (nothing in the core reads them), nkeys and JWT, TLS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import unquote, urlsplit

from jsproto.errors import LocalProtocolError
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Duration, seconds

DEFAULT_URL: Final = "nats://localhost:4222"
DEFAULT_PORT: Final = 4222
_TIMES: Final = frozenset({"connect_timeout", "timeout", "ping_interval", "reconnect_time_wait", "linger"})
_KINDS: Final = (
    ((str, type(None)), "a str or None", ("name", "user", "password", "token")),
    (str, "a str", ("inbox_prefix",)),
    (bool, "True or False", ("echo",)),
    ((int, float), "a number of seconds or a timedelta", sorted(_TIMES)),
    (int, "an int", ("max_outstanding_pings", "max_reconnect_attempts", "flush_at", "pending_size")),
)
"""What the options must be, in code and in words, by name."""
_SCHEMES: Final = frozenset({"nats", "tcp"})
# Labels of a name, or an address: anything else would be refused later, and differently by every driver.
_LABEL: Final = r"[^\s.:/@\[\]]{1,63}"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+(?:%\w+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """One server: ``host`` and ``port`` to dial, and the credentials its URL carried."""

    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """``nats://host:port``, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"nats://{host}:{self.port}"


class ConnectKeywords(TypedDict, total=False):
    """The keyword arguments of ``connect()``; see ``ConnectOptions`` for what they mean and their defaults."""

    name: str | None
    user: str | None
    password: str | None
    token: str | None
    connect_timeout: Duration
    timeout: Duration
    ping_interval: Duration
    max_outstanding_pings: int
    max_reconnect_attempts: int
    reconnect_time_wait: Duration
    inbox_prefix: str
    echo: bool
    linger: Duration
    flush_at: int
    pending_size: int


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """What ``connect()`` was asked for. Times are seconds (``connect()`` takes a timedelta as well), sizes bytes.

    ``name`` shows in the server's monitoring. ``user`` and ``password``, or ``token``, authenticate; a URL that carries
    its own goes first. ``connect_timeout`` bounds dialling and the handshake, each. ``timeout`` is the default for
    every request. A PING goes out every ``ping_interval``; ``max_outstanding_pings`` unanswered ones mean the link is
    dead. After a lost link the servers are dialled again, ``max_reconnect_attempts`` times in a row (-1: for ever, 0:
    not at all), with a pause of ``reconnect_time_wait`` whenever all have been tried, or were dialled but did not stay
    for so long. Small writes wait up to
    ``linger`` for company, unless ``flush_at`` bytes have gathered or somebody waits for an answer. ``pending_size`` is
    how many bytes may wait to be written before publishing is refused.
    """

    servers: tuple[Address, ...]
    name: str | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    connect_timeout: float = 2.0
    timeout: float = 5.0
    ping_interval: float = 120.0
    max_outstanding_pings: int = 2
    max_reconnect_attempts: int = 60
    reconnect_time_wait: float = 2.0
    inbox_prefix: str = "_INBOX"
    echo: bool = True
    linger: float = 0.0005
    flush_at: int = 65_536
    pending_size: int = 2 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.servers:
            raise LocalProtocolError("no server to connect to")
        for kinds, described, names in _KINDS:
            for name in names:
                value = getattr(self, name)
                if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
                    raise LocalProtocolError(f"{name} must be {described}, not {type(value).__name__}")
        for name in (
            "connect_timeout",
            "timeout",
            "ping_interval",
            "max_outstanding_pings",
            "flush_at",
            "pending_size",
        ):
            if not getattr(self, name) > 0:
                raise LocalProtocolError(f"{name} must be greater than 0, not {getattr(self, name)!r}")
        if not self.reconnect_time_wait >= 0:
            raise LocalProtocolError(
                f"reconnect_time_wait must not be negative, but it is {self.reconnect_time_wait!r}"
            )
        if self.max_reconnect_attempts < -1:
            raise LocalProtocolError(f"max_reconnect_attempts is -1 or more, not {self.max_reconnect_attempts!r}")
        if not self.linger >= 0:
            raise LocalProtocolError(f"linger must not be negative, but it is {self.linger!r}")
        if self.token is not None and self.user is not None:
            raise LocalProtocolError("give a token or a user, not both")
        check_subject(self.inbox_prefix)


def connect_options(servers: str | Sequence[str] = DEFAULT_URL, **keywords: Unpack[ConnectKeywords]) -> ConnectOptions:
    """Options from what a user writes: one URL, a comma-separated list, or a sequence of them.

    A URL is ``nats://[user[:password]@]host[:port]``, or bare ``host[:port]``; a user without a password is a token.
    LocalProtocolError, naming the URL without its credentials, when it is none.
    """
    given = _split(servers)
    unknown = keywords.keys() - ConnectKeywords.__annotations__.keys()
    if unknown:
        raise LocalProtocolError(f"unknown connect option: {', '.join(sorted(unknown))}")
    values: dict[str, Any] = dict(keywords)
    values.update((name, seconds(values[name])) for name in _TIMES & values.keys())
    return ConnectOptions(tuple(parse_address(url.strip()) for url in given), **values)


def _split(servers: object) -> list[str]:
    """One URL each. What is of a wrong type is not shown: it may hold a password."""
    given = servers.split(",") if isinstance(servers, str) else servers
    if not isinstance(given, Iterable) or isinstance(given, bytes | bytearray):
        raise LocalProtocolError(f"servers must be a URL, or several, as str, not {type(servers).__name__}")
    urls = list(given)
    for url in urls:
        if not isinstance(url, str):
            raise LocalProtocolError(f"servers must be URLs as str, not {type(url).__name__}")
    return [url for url in urls if url.strip()] if isinstance(servers, str) else urls


def parse_address(url: str) -> Address:
    """One server of ``connect_options``."""
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        raise LocalProtocolError(f"not a server URL: {_without_credentials(url)!r}; write nats://host:port") from None
    if parts.scheme not in _SCHEMES:
        raise LocalProtocolError(f"the URL scheme {parts.scheme!r} is not supported; write nats://host:port")
    host = parts.hostname or ""
    if not _HOST.fullmatch(host) or not port or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise LocalProtocolError(f"not a server URL: {_without_credentials(url)!r}; write nats://host:port")
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    if user is not None and password is None:
        return Address(host, port, token=user)
    return Address(host, port, user=user, password=password)


def _without_credentials(url: str) -> str:
    """What may be shown of a URL, however malformed it is: nothing in front of an ``@``."""
    return url.rpartition("@")[2]
