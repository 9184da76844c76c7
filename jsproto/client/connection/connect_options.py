"""How to reach a server and what to promise it: addresses and connect options, as values.

Rules: nothing here opens anything. Secrets are kept out of ``repr``, of ``Address.url`` and so out of every message.
Unknown or impossible options are refused here, before anything is dialled. Keys stay outside: who has one gives a
function that signs with it.

Not here: environment variables, context files and files of credentials (nothing in the core reads them), TLS itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypedDict, Unpack
from urllib.parse import SplitResult, unquote, urlsplit

from jsproto.errors import LocalProtocolError
from jsproto.grammar.fields import nearest
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Duration, unchecked_seconds

SignatureCallback: TypeAlias = Callable[[str], str | bytes | bytearray]
"""Given the server's nonce, the Base64 text of its Ed25519 signature."""
JWTCallback: TypeAlias = Callable[[], str | bytes | bytearray]
"""The user's JWT."""

DEFAULT_URL: Final = "nats://localhost:4222"
DEFAULT_PORT: Final = 4222
_PAUSES: Final = ("reconnect_time_wait", "reconnect_jitter", "reconnect_jitter_tls", "linger")
_TIMES: Final = frozenset({"connect_timeout", "timeout", "ping_interval", *_PAUSES})
_KINDS: Final[tuple[tuple[Any, str, Sequence[str]], ...]] = (
    ((str, type(None)), "a str or None", ("name", "user", "password", "token", "nkey", "tls_hostname")),
    ((Callable, type(None)), "a function or None", ("signature_cb", "user_jwt_cb")),
    (str, "a str", ("inbox_prefix",)),
    (
        bool,
        "True or False",
        ("echo", "tls_handshake_first", "retry_on_first_connect", "dont_randomize", "ignore_discovered_servers"),
    ),
    ((int, float), "a number of seconds or a timedelta", sorted(_TIMES)),
    (int, "an int", ("max_outstanding_pings", "max_reconnect_attempts", "flush_at", "pending_size")),
)
"""What the options must be, in code and in words, by name."""
_SCHEMES: Final = frozenset({"nats", "tcp", "tls"})
_WEBSOCKET: Final = frozenset({"ws", "wss"})
# Labels of a name, or an address: anything else would be refused later, and differently by every driver.
_LABEL: Final = r"[^\s.:/@\[\]]{1,63}"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+(?:%\w+)?", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")  # some of which urlsplit takes out, and makes another host of it
_NUMBERS: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_USER: Final = re.compile(r"U[A-Z2-7]{55}")


@dataclass(frozen=True, slots=True)
class Address:
    """One server: ``host`` and ``port`` to dial, the credentials its URL carried, and whether it is ``tls://``.

    ``tls_name`` is whose certificate it has, if that differs from the host: clusters tell of their servers by numbers.
    """

    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_name: str | None = None

    @property
    def url(self) -> str:
        """``nats://host:port``, or ``tls://``, freed of credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"

    @property
    def is_numeric(self) -> bool:
        """Whether ``host`` is an address in numbers."""
        return ":" in self.host or _NUMBERS.fullmatch(self.host) is not None


class ConnectKeywords(TypedDict, total=False):
    """The keyword arguments of ``connect()``. ``ConnectOptions`` says what they mean, and their defaults."""

    name: str | None
    user: str | None
    password: str | None
    token: str | None
    nkey: str | None
    signature_cb: SignatureCallback | None
    user_jwt_cb: JWTCallback | None
    tls: Any
    tls_hostname: str | None
    tls_handshake_first: bool
    connect_timeout: Duration
    timeout: Duration
    ping_interval: Duration
    max_outstanding_pings: int
    max_reconnect_attempts: int
    reconnect_time_wait: Duration
    reconnect_jitter: Duration
    reconnect_jitter_tls: Duration
    retry_on_first_connect: bool
    first_connect_timeout: Duration | None
    dont_randomize: bool
    ignore_discovered_servers: bool
    inbox_prefix: str
    echo: bool
    linger: Duration
    flush_at: int
    pending_size: int


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The options of ``connect()``. Times are seconds (given as a number or a timedelta), sizes bytes.

    ``name`` shows in the server's monitoring.

    Credentials. A URL that carries its own goes first. A server that refuses the credentials twice in a row is not
    asked a third time: the connection ends.

    * ``user`` and ``password``, or ``token``.
    * ``signature_cb`` signs the nonce of a server that sends one, together with the public ``nkey`` or with
      ``user_jwt_cb``, which gives the user's JWT. Both callbacks are called for each link, and must not use the
      connection.

    TLS:

    * ``tls``: None is for TLS where the server requires it, False forbids it. True, or the driver's own configuration
      (an ``ssl.SSLContext``), requires it. ``tls://`` in a URL means True.
    * ``tls_hostname``: the name in the server's certificate, if that differs from the host in its URL.
    * ``tls_handshake_first``: TLS begins before INFO, for servers that are configured so.

    Time:

    * ``connect_timeout`` bounds dialling and the handshake, each. ``timeout`` is the default for every request.
    * A PING goes out every ``ping_interval``. After ``max_outstanding_pings`` unanswered ones the link counts as dead.
    * After a lost link the servers are dialled again, each ``max_reconnect_attempts`` times in a row (-1: for ever, 0:
      not at all). A pause of ``reconnect_time_wait`` follows when all have been tried, or did not stay for so long.
    * Up to ``reconnect_jitter`` makes the pause longer at random, with TLS up to ``reconnect_jitter_tls``.
    * ``retry_on_first_connect``: the first connection is tried as often, with the same pauses.
      ``first_connect_timeout`` bounds all of it. None: the number of attempts does.
    * Servers are dialled in random order, with ``dont_randomize`` in the order in which they were given.
    * Those that the server in use names as its cluster's are dialled too, unless ``ignore_discovered_servers`` is set.

    Writing:

    * A small message leaves at once. Those that follow within 0.1 ms, and acknowledgements, wait up to ``linger`` for
      company.
    * They leave earlier when ``flush_at`` bytes have gathered, or when an answer is awaited.
    * ``pending_size``: the bytes that may wait to be written. Then publishing is refused.
    """

    servers: tuple[Address, ...]
    name: str | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    nkey: str | None = None
    signature_cb: SignatureCallback | None = field(default=None, repr=False)
    user_jwt_cb: JWTCallback | None = field(default=None, repr=False)
    tls: Any = None
    tls_hostname: str | None = None
    tls_handshake_first: bool = False
    connect_timeout: float = 2.0
    timeout: float = 5.0
    ping_interval: float = 120.0
    max_outstanding_pings: int = 2
    max_reconnect_attempts: int = 60
    reconnect_time_wait: float = 2.0
    reconnect_jitter: float = 0.1
    reconnect_jitter_tls: float = 1.0
    retry_on_first_connect: bool = False
    first_connect_timeout: float | None = None
    dont_randomize: bool = False
    ignore_discovered_servers: bool = False
    inbox_prefix: str = "_INBOX"
    echo: bool = True
    linger: float = 0.0005
    flush_at: int = 65_536
    pending_size: int = 2 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.servers:
            raise LocalProtocolError("no server to connect to")
        for name in _TIMES:
            object.__setattr__(self, name, unchecked_seconds(getattr(self, name)))
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
        for name in _PAUSES:
            if not getattr(self, name) >= 0:
                raise LocalProtocolError(f"{name} must not be negative, but it is {getattr(self, name)!r}")
        if self.max_reconnect_attempts < -1:
            raise LocalProtocolError(f"max_reconnect_attempts is -1 or more, not {self.max_reconnect_attempts!r}")
        self._check_first_connection()
        self._check_credentials()
        if self.tls is False and (self.tls_handshake_first or any(address.tls for address in self.servers)):
            raise LocalProtocolError("tls=False rules out tls_handshake_first and tls:// URLs")
        check_subject(self.inbox_prefix)

    def _check_credentials(self) -> None:
        if self.token is not None and self.user is not None:
            raise LocalProtocolError("give a token or a user, not both")
        if self.nkey is not None and self.user_jwt_cb is not None:
            raise LocalProtocolError("give an nkey or user_jwt_cb, not both")
        if (self.signature_cb is None) != (self.nkey is None and self.user_jwt_cb is None):
            raise LocalProtocolError("signature_cb goes with an nkey, or with user_jwt_cb")
        if self.nkey is not None and not _USER.fullmatch(self.nkey):
            raise LocalProtocolError("nkey must be the public key of a user: U and 55 characters more")  # not shown

    def _check_first_connection(self) -> None:
        limit: Any = self.first_connect_timeout
        if self.retry_on_first_connect and not self.max_reconnect_attempts:
            raise LocalProtocolError("retry_on_first_connect needs max_reconnect_attempts, which is 0")
        if limit is None:
            return
        if not self.retry_on_first_connect:
            raise LocalProtocolError("first_connect_timeout goes with retry_on_first_connect")
        object.__setattr__(self, "first_connect_timeout", limit := unchecked_seconds(limit))
        if not isinstance(limit, int | float) or isinstance(limit, bool) or not limit > 0:
            raise LocalProtocolError(f"first_connect_timeout must be seconds, more than 0, or None, not {limit!r:.100}")


def connect_options(servers: str | Sequence[str] = DEFAULT_URL, **keywords: Unpack[ConnectKeywords]) -> ConnectOptions:
    """Options from what a user writes: one URL, a comma-separated list, or a sequence of them.

    A URL is ``nats://[user[:password]@]host[:port]``, ``tls://...``, or bare ``host[:port]``. A user alone is a token.
    In a comma-separated list a comma in credentials is written ``%2C``.

    Raises:
        LocalProtocolError: a URL is none, which the text names without its credentials, or an option has a bad value.
    """
    given = _split(servers)
    unknown = keywords.keys() - ConnectKeywords.__annotations__.keys()
    if unknown:
        offered = nearest(min(unknown), ConnectKeywords.__annotations__) if len(unknown) == 1 else ""
        raise LocalProtocolError(f"unknown connect option: {', '.join(sorted(unknown))}{offered}")
    values: dict[str, Any] = dict(keywords)
    return ConnectOptions(tuple(parse_address(url.strip()) for url in given), **values)


def _split(servers: object) -> list[str]:
    """One URL each. A value of a wrong type stays hidden: it may hold a password."""
    given = servers.split(",") if isinstance(servers, str) else servers
    if not isinstance(given, Iterable) or isinstance(given, bytes | bytearray):
        raise LocalProtocolError(f"servers must be a URL, or several, as str, not {type(servers).__name__}")
    urls = list(given)
    for url in urls:
        if not isinstance(url, str):
            raise LocalProtocolError(f"servers must be URLs as str, not {type(url).__name__}")
    if not isinstance(servers, str):
        return urls
    if any("@" in url and "://" not in url for url in urls[1:]):  # else half a password is taken for a port, and shown
        raise LocalProtocolError(
            "a comma in credentials is written %2C; of several URLs, those with credentials need ://"
        )
    return [url for url in urls if url.strip()]


def parse_address(url: str) -> Address:
    """One server of ``connect_options``."""
    parts = None if _CONTROL.search(url) else _split_url(url if "://" in url else f"nats://{url}")
    if parts is not None and parts.scheme not in _SCHEMES:
        raise LocalProtocolError(
            f"the URL scheme {parts.scheme!r} is not supported"
            + (": there is no WebSocket here" if parts.scheme in _WEBSOCKET else "")
            + "; write nats://host:port, with the server's port for clients"
        )
    if parts is None or parts.path not in ("", "/") or parts.query or parts.fragment:
        hint = ", and / ? # in credentials as %2F %3F %23" if "@" in url else ""
        raise LocalProtocolError(f"not a server URL: {_without_credentials(url)!r}; write nats://host:port{hint}")
    host, port = parts.hostname or "", DEFAULT_PORT if parts.port is None else parts.port
    if not _HOST.fullmatch(host) or not port:
        raise LocalProtocolError(f"not a server URL: {_without_credentials(url)!r}; write nats://host:port")
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    if user is not None and password is None:
        return Address(host, port, token=user, tls=parts.scheme == "tls")
    return Address(host, port, user=user, password=password, tls=parts.scheme == "tls")


def _split_url(url: str) -> SplitResult | None:
    """The parts of a URL. None: it is malformed, and the reason, which may quote a password, is dropped."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _without_credentials(url: str) -> str:
    """What may be shown of a URL, however malformed it is: the part after an ``@``."""
    return url.rpartition("@")[2]
