"""The server role, its clients' links and its clock: what the three drivers of the role share.

Rules
 * A driver puts one input in, then serves ``_unwritten()`` until there is none, then reads ``role.deadline()``.
 * While a socket takes no more, bytes stay in the session, which counts them. A client that leaves more than
   ``max_pending`` bytes unread is cut off without another word, as nats-server does.
 * TLS begins after INFO. It reads from memory and writes to memory, as on the client's side.
 * Nothing here waits or touches a socket.

Not here: the protocol (``jsproto.server``), sockets, threads and tasks (``threads``, ``asyncio``, ``trio``).
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import time_ns
from typing import Any, Final, Literal, NamedTuple, Self, TypedDict, TypeVar, Unpack, get_args

from jsproto.errors import LocalProtocolError
from jsproto.grammar.acks import Dialect
from jsproto.server.access import Access
from jsproto.server.server import Server
from jsproto.server.session import ServerSession
from jsproto.server.store.context import AccountLimits, BatchLimits, Release
from jsproto_io._state.signatures import signature_check
from jsproto_io._state.zones import time_zone

_log = logging.getLogger("jsproto")

T = TypeVar("T")

HOST: Final = "127.0.0.1"
BACKLOG: Final = 1024  # links that wait to be accepted
SLOW: Final = "Slow Consumer"  # what a session says of a client that does not read
READ: Final = 65_536  # bytes asked of TLS at once; a record has at most 16384


class RoleKeywords(TypedDict, total=False):
    """The keyword arguments of each ``serve()`` that the server role takes. One that is left out has its default.

    Attributes:
        limits: of batches: how many, how large, and how many seconds silent.
        dialect: ``released``, or ``draft`` for the text of the specifications.
        release: the release of nats-server to answer as, such as (2, 14, 0).
        domain: the JetStream domain.
        ack_version: 1 or 2, of the subjects on which messages are acknowledged.
        max_payload: the bytes that a message may have.
        max_pending: the bytes that a client may leave unread before it is cut off.
        ping_interval: the seconds between PINGs to a client. One that leaves two unanswered is cut off.
        lenient: accept a configuration that asks for what the role does not do, and do not do it.
        apply_delay: the seconds after which a stream with replicas stores what its leader has accepted.
        wrong_guards: lets releases before 2.14.4 check guards of batches wrongly: a ``jsproto.testing.WrongGuards``.
        account_limits: what all streams may have together, and each of them.
        access: who may connect, and do what. None: anybody, and anything. Users with an nkey need the extra ``nkeys``.
    """

    limits: BatchLimits | None
    dialect: Dialect
    release: Release
    domain: str | None
    ack_version: Literal[1, 2]
    max_payload: int
    max_pending: int
    ping_interval: float
    access: Access | None
    account_limits: AccountLimits | None
    lenient: bool
    apply_delay: float
    wrong_guards: Callable[[int], int | None] | None


class _Option(NamedTuple):
    """What an option of the server role may be, and how that is said."""

    fits: Callable[[Any], bool]
    text: str


def _is_number(value: Any) -> bool:
    return type(value) is int


def _is_release(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(_is_number(each) and each >= 0 for each in value)


_OPTIONS: Final[dict[str, _Option]] = {
    "limits": _Option(lambda value: value is None or isinstance(value, BatchLimits), "a jsproto.server.BatchLimits"),
    "dialect": _Option(lambda value: value in get_args(Dialect), "'released' or 'draft'"),
    "release": _Option(_is_release, "three numbers, such as (2, 14, 0)"),
    "domain": _Option(lambda value: value is None or (isinstance(value, str) and value != ""), "a name"),
    "ack_version": _Option(lambda value: _is_number(value) and value in (1, 2), "1 or 2"),
    "max_payload": _Option(lambda value: _is_number(value) and value > 0, "a number of bytes above 0"),
    "max_pending": _Option(lambda value: _is_number(value) and value > 0, "a number of bytes above 0"),
    "ping_interval": _Option(
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value > 0,
        "a number of seconds above 0",
    ),
    "access": _Option(lambda value: value is None or isinstance(value, Access), "a jsproto.server.access.Access"),
    "account_limits": _Option(
        lambda value: value is None or isinstance(value, AccountLimits), "a jsproto.server.AccountLimits",
    ),
    "lenient": _Option(lambda value: isinstance(value, bool), "True or False"),
    "apply_delay": _Option(
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= 0,
        "a number of seconds",
    ),
    "wrong_guards": _Option(lambda value: value is None or callable(value), "a function, such as a WrongGuards"),
}  # fmt: skip


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options of a server role, which are those of ``RoleKeywords``.

    Raises:
        LocalProtocolError: one has a value that it cannot have.
        TypeError: there is no option of a name.
    """
    for name, value in options.items():
        option = _OPTIONS.get(name)
        if option is None:
            raise TypeError(f"this server has no option {name!r}, but {', '.join(_OPTIONS)}")
        if not option.fits(value):
            raise LocalProtocolError(f"{name} is {option.text}, not {value!r:.100}")


class Peer:
    """The server's end of one link: its session, and TLS around it.

    Attributes:
        session: the role's session.
        blocked: the socket takes no more for now. Set by the driver.
        unsent: what the driver has taken, and the socket did not take.
    """

    __slots__ = ("_begins_tls", "_broken", "_context", "_received", "_tls", "_to_send", "blocked", "session", "unsent")

    def __init__(self, session: ServerSession, context: ssl.SSLContext | None) -> None:
        """A link was accepted. ``context``: for TLS, or None."""
        self.session = session
        self.blocked = False
        self.unsent = memoryview(b"")
        self._context = context
        self._tls: ssl.SSLObject | None = None
        self._begins_tls = False  # the handshake has not ended
        self._broken = False
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()

    @property
    def wants_send(self) -> bool:
        """Whether ``take()`` would return anything."""
        return bool(self._to_send.pending) or (self.session.wants_send and not self._begins_tls and not self._broken)

    @property
    def wants_close(self) -> bool:
        """Whether the link ends when everything of ``take()`` is written."""
        return self.session.wants_close

    @property
    def wants_abort(self) -> bool:
        """Whether the link ends at once: the client does not read."""
        return self.session.error == SLOW

    def take(self) -> bytes:
        """What is to be written next."""
        if self._tls is None:
            data = b"".join(self.session.data_to_send())
            if self._context is not None:
                self._tls = self._context.wrap_bio(self._received, self._to_send, server_side=True)
                self._begins_tls = True
            return data
        if not self._begins_tls and not self._broken:
            plain = b"".join(self.session.data_to_send())
            while plain:
                plain = plain[self._tls.write(plain) :]
        return self._to_send.read()

    def send_by(self, send: Callable[[memoryview], int]) -> bool:
        """Send what ``send`` takes, and set ``blocked``. Returns False when the link is to be closed.

        ``send``: as that of a socket that never blocks.
        """
        self.blocked = False
        while not self.wants_abort and (self.unsent or self.wants_send):
            if not self.unsent:
                self.unsent = memoryview(self.take())
            try:
                self.unsent = self.unsent[send(self.unsent) :]
            except BlockingIOError:
                self.blocked = True
                return True
            except OSError:
                return False
        return not self.wants_close

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes from the client. ``now``: seconds."""
        if self._tls is None:
            self.session.receive_data(data, now)
        elif not self._broken:
            self._received.write(data)
            self._advance_tls(self._tls, now)

    def _advance_tls(self, tls: ssl.SSLObject, now: float) -> None:
        try:
            if self._begins_tls:
                tls.do_handshake()
                self._begins_tls = False
            while data := tls.read(READ):
                self.session.receive_data(data, now)
            self.session.receive_eof()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:  # the client refuses TLS, breaks it, or has ended it
            self._broken = True
            self.session.receive_eof()


class Host:
    """The server role with the links of its clients.

    Attributes:
        role: the state machine. Its streams and messages may be looked at.
        peers: the open links, by their sessions.
        host: the address that it listens on.
        port: the TCP port. 0 before the start. A restart keeps it.
    """

    def __init__(
        self,
        now: Callable[[], float],
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        /,
        **options: Unpack[RoleKeywords],
    ) -> None:
        """A server without links. ``now``: the driver's clock, in seconds. ``tls``: for all links.

        Raises:
            CredentialsError: a user has an nkey, and the extra ``nkeys`` is missing.
            LocalProtocolError: an option has a value that it cannot have.
            TypeError: there is no option of a name.
        """
        check_options(options)
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise LocalProtocolError(f"tls is an ssl.SSLContext of the server's side, not {tls!r:.100}")
        if not (_is_number(port) and 0 <= port < 65_536):
            raise LocalProtocolError(f"port is a number of 0 to 65535, not {port!r:.100}")
        access = options.get("access")
        if access is not None and access.needs_nonce and access.verify is None:
            options["access"] = replace(access, verify=signature_check())
        self.host = host
        self.port = port
        self.peers: dict[ServerSession, Peer] = {}
        self._now = now
        self._context = tls
        self._defect: BaseException | None = None
        self.role = Server(
            token=os.urandom(16),
            epoch=time_ns() - round(now() * 1_000_000_000),
            tls_required=tls is not None,
            zones=time_zone,
            **options,
        )

    @property
    def url(self) -> str:
        """What a client connects to, such as ``nats://127.0.0.1:4222``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'nats' if self._context is None else 'tls'}://{host}:{self.port}"

    def _fail(self, defect: BaseException) -> None:
        """There is a defect. It is logged at once, because clients only see that the server is gone."""
        self._defect = defect
        _log.error("the server in memory failed: %s", type(defect).__name__, exc_info=defect)

    def _raise_defect(self) -> None:
        defect, self._defect = self._defect, None
        if defect is not None:
            raise defect

    def _new_peer(self) -> Peer:
        """A link was accepted."""
        session = self.role.connect(self._now())
        peer = self.peers[session] = Peer(session, self._context)
        return peer

    def _forget(self, peer: Peer) -> None:
        """The link of ``peer`` has ended. No effect the second time."""
        if self.peers.pop(peer.session, None) is not None:
            peer.session.receive_eof()

    def _unwritten(self) -> list[Peer]:
        """The links for which the driver has something to do now: to write, or to end the link."""
        return [
            peer
            for peer in self.peers.values()
            if peer.wants_abort or (not peer.blocked and (peer.unsent or peer.wants_send or peer.wants_close))
        ]


class BlockingHost(Host, ABC):
    """A server for a ``with`` block, whose role a lock guards."""

    def __init__(
        self,
        now: Callable[[], float],
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        /,
        **options: Unpack[RoleKeywords],
    ) -> None:
        """As ``Host``."""
        super().__init__(now, host, port, tls, **options)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def start(self) -> None:
        """Take links from now on. No effect while it does."""

    @abstractmethod
    def close(self) -> None:
        """End all links, and take no more. No effect while it does not run.

        Raises:
            BaseException: the defect that ended the server before.
        """

    @abstractmethod
    def _called(self) -> None:
        """The role may have something to do, because it was called. The lock is held."""

    def call(self, verb: Callable[[Server, float], T]) -> T:
        """Call ``verb(role, now)`` between two inputs, and return its result. So a test may change the server.

        ``now``: the server's time in seconds. The verb may not use a client of this server.
        """
        with self._lock:
            try:
                return verb(self.role, self._now())
            finally:
                self._called()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close()
