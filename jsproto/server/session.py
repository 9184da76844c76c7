"""The server's end of one connection: bytes in, bytes out, and the client's subscriptions.

Rules:

* INFO goes first.
* Receiving never raises. A breach of the protocol ends the link, after ``-ERR`` where servers say one (FACTS.md F7).
* A subscription to an invalid subject is answered with ``-ERR``.
* An invalid subject of a publish is reported to a pedantic client alone. The message is routed all the same.
* Until CONNECT says otherwise a client is verbose and pedantic. CONNECT may come late, and again.
* A server with users takes nothing before a CONNECT that says who the client is. What a user may not do is answered
  with ``-ERR``, and the link stays.
* Everything that a client can make grow is bounded: messages, lines, subscriptions, and bytes that it does not read.
* The driver writes ``data_to_send()`` after every input, then looks at ``wants_close``.

Not here: routing (``SessionHost``), reading bytes (``client_reader``), who is who (``access``), TLS, routes between
servers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import dumps, loads
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.subjects import matches
from jsproto.rules.link import LINK, LinkPhase, LinkStep
from jsproto.server.access import Access, Grants, User, quoted
from jsproto.server.client_reader import ClientReader
from jsproto.server.routing import Subscriptions
from jsproto.timers import Timer, Timers
from jsproto.wire.encoder import OK, PING, PONG, encode_err, encode_info, encode_msg
from jsproto.wire.frames import Connect, Frame, Ping, Pong, Pub, Sub, Unsub

MAX_SUBSCRIPTIONS: Final = 10_000
MAX_PENDING: Final = 64 * 1024 * 1024  # bytes that a client has not read: nats-server's max_pending
PING_INTERVAL: Final = 120.0  # seconds
MAX_OUTSTANDING_PINGS: Final = 2

_PROTOCOLS: Final = (0, 1)
_OPTIONS: Final = ("verbose", "pedantic", "echo", "headers", "no_responders", "tls_required", "new_account")
_TEXTS: Final = (
    "user", "pass", "auth_token", "nkey", "sig", "jwt", "name", "lang", "version", "account", "remote_account",
    "proxy_sig",
)  # fmt: skip
_VIOLATION: Final = b"Authorization Violation"
# Subjects and a queue group that servers keep for themselves.
_RESERVED: Final = (b"$NRG.", b"_GR_.")
_RESERVED_REPLIES: Final = (b"_R_.", b"$JS.ACK.", b"_GR_.")
_RESERVED_GROUP: Final = b"_sys_"
_NO_RESPONDERS: Final = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n"
_NO_RESPONDERS_BEFORE_2_12: Final = b"NATS/1.0 503\r\n\r\n"


class SessionHost(Protocol):
    """What a session calls: a server.

    ``subscriptions``: the table of all, in which each session keeps its own.
    """

    @property
    def subscriptions(self) -> Subscriptions[Any]:
        """The table."""

    def publish_from(self, session: ServerSession, message: Pub, now: float) -> None:
        """The client of ``session`` published ``message``, to whatever subject."""

    def left(self, session: ServerSession) -> None:
        """``session`` has ended."""

    def changed(self, session: ServerSession, now: float) -> None:
        """The subscriptions of ``session`` have changed."""


@dataclass(slots=True, eq=False)
class Interest:
    """One subscription of one client. ``limit``: it ends after so many ``delivered`` messages."""

    session: ServerSession
    sid: bytes
    pattern: str
    queue: bytes | None
    delivered: int = 0
    limit: int | None = None


class ServerSession:
    """The server's end of one connection.

    Attributes:

    * ``phase``: of the connection.
    * ``wants_close``: the driver writes what is left, then closes.
    * ``error``: why the server ended the connection, in the words of ``-ERR`` if it sent one, else None.
    * ``interests``: the client's subscriptions, by their ids.
    * ``echo``, ``headers``, ``no_responders``: what the client said in CONNECT.
    * ``user``: who the client is. None: the server has no users, or the client has yet to say.
    * ``said``: the texts in CONNECT, such as ``name`` and ``lang``.
    * ``outstanding_pings``: how many PINGs were sent since the client's last PONG.
    * ``since``: when the connection was accepted, in seconds. ``client_id``, ``client_ip``: what INFO says.
    """

    def __init__(
        self,
        host: SessionHost,
        info: ServerInfo,
        now: float,
        *,
        access: Access | None = None,
        max_subscriptions: int = MAX_SUBSCRIPTIONS,
        max_pending: int = MAX_PENDING,
        ping_interval: float = PING_INTERVAL,
    ) -> None:
        """The connection was accepted at ``now``, in seconds.

        ``info``: what INFO reports. ``access``: who may connect, None for all. ``max_subscriptions``: of the client.
        ``max_pending``: bytes that it has not read. ``ping_interval``: seconds.
        """
        self.phase = LinkPhase.EXPECT_CONNECT
        self.wants_close = False
        self.error: str | None = None
        self.interests: dict[bytes, Interest] = {}
        self.echo = True
        self.headers = False
        self.no_responders = False
        self.user: User | None = None
        self.said: dict[str, str] = {}
        self.since = now
        self.client_id = info.client_id or 0
        self.client_ip = info.client_ip or ""
        self._grants: Grants | None = None
        self._access = access
        self._has_connected = False
        self._nonce = (info.nonce or "").encode()
        self._verbose = True
        self._pedantic = True
        self._is_before_2_12 = info.version_tuple < (2, 12, 0)
        self._host = host
        self._max_subscriptions = max_subscriptions
        self._max_pending = max_pending
        self._ping_interval = ping_interval
        self.outstanding_pings = 0
        self._reader = ClientReader(self, info.max_payload)
        self._info = info
        self._writes: list[bytes] = [encode_info(dumps(info.to_json()))]
        self._pending = len(self._writes[0])
        self._timers = Timers()
        self._timers.set(Timer.KEEP_ALIVE, now + ping_interval)
        if access is not None:
            self._timers.set(Timer.HANDSHAKE, now + access.timeout)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes from the client, cut anywhere. ``now``: seconds."""
        if self.wants_close:
            return
        for frame in self._reader.feed(data):
            self._receive(frame, now)
            if self.phase is LinkPhase.CLOSED:
                return
        if self._reader.error is not None:
            is_stranger = self._is_unknown and self._reader.start not in (b"C", b"c") and not self._identify()
            self._refuse(_VIOLATION if is_stranger else self._reader.error)

    def receive_eof(self) -> None:
        """The client, or the network, ended the connection."""
        if not self.wants_close:
            self._end()

    def handle_timeout(self, now: float) -> None:
        """Send a PING that is due at ``now``, or end the connection of a client that is silent for too long."""
        for timer in self._timers.expired(now):
            if timer is Timer.HANDSHAKE:
                self._refuse(b"Authentication Timeout")
                return
            if self.outstanding_pings >= MAX_OUTSTANDING_PINGS:
                self._refuse(b"Stale Connection")
            else:
                self.outstanding_pings += 1
                self._timers.set(Timer.KEEP_ALIVE, now + self._ping_interval)
                self._send(PING)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: the connection has ended."""
        return self._timers.next()

    # -- outputs -------------------------------------------------------------------------------------------------------

    @property
    def wants_send(self) -> bool:
        """Whether ``data_to_send()`` would return anything."""
        return bool(self._writes)

    @property
    def pending(self) -> int:
        """Bytes that wait to be written."""
        return self._pending

    def data_to_send(self) -> list[bytes]:
        """Take everything that is to be written, in order. It counts as written."""
        data, self._writes = self._writes, []
        self._pending = 0
        return data

    # -- for the host --------------------------------------------------------------------------------------------------

    def may_get(self, interest: Interest, subject: bytes) -> bool:
        """Whether a message to ``subject`` may be delivered to one of the client's subscriptions."""
        return self._grants is None or self._grants.may_get(_text(subject), interest.queue)

    def say_lame_duck(self) -> None:
        """Send INFO again: the server is in lame-duck mode."""
        self._info.ldm = True
        self._send(encode_info(dumps(self._info.to_json())))

    def begins(self, subject: bytes) -> None:
        """Called by the reader: the client begins to publish to ``subject``."""
        if self._pedantic and not self._is_unknown:
            tokens = subject.split(b".")
            if not all(tokens) or b"*" in tokens or b">" in tokens:
                self._send_err(b"Invalid Publish Subject")

    def deliver(
        self, interest: Interest, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes, now: float
    ) -> None:
        """Send a message to one of the client's subscriptions, without headers if the client does not take them."""
        if self.wants_close:
            return
        if self._grants is not None and reply:
            self._grants.delivered(reply, now)
        interest.delivered += 1
        if interest.limit is not None and interest.delivered >= interest.limit:
            self._remove(interest)
        self._send(encode_msg(subject, interest.sid, reply, header if self.headers else None, payload))

    def tell_no_responders(self, subject: bytes, reply: bytes | None, now: float) -> None:
        """Send the status 503 to ``reply``, because what the client published to ``subject`` has no taker.

        Only a client that asked for it, and that subscribes to ``reply``, gets one.
        """
        if not self.no_responders or not reply:
            return
        wanted = _text(reply)
        for interest in self.interests.values():
            if matches(interest.pattern, wanted):
                header = _NO_RESPONDERS_BEFORE_2_12 if self._is_before_2_12 else _NO_RESPONDERS % subject
                self.deliver(interest, reply, None, header, b"", now)
                return

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _is_unknown(self) -> bool:
        """Whether the client still has to say who it is."""
        return self._access is not None and self.user is None

    def _receive(self, frame: Frame, now: float) -> None:
        if self._is_unknown and not isinstance(frame, Connect) and not self._identify():
            self._refuse(_VIOLATION)
            return
        self.phase = LINK[self.phase, type(frame)] or self.phase
        match frame:
            case Pub():
                self._publish(frame, now)
                return
            case Ping():
                self._send(PONG)
                if self.phase is LinkPhase.EXPECT_PONG:
                    self.phase = LINK[self.phase, Pong] or self.phase
                return
            case Sub():
                self._subscribe(frame, now)
                return
            case Unsub():
                self._unsubscribe(frame, now)
            case Connect():
                self._connect(frame, now)
            case _:  # PONG: a client writes nothing else
                self.outstanding_pings = 0
                return
        if not self.wants_close:
            self._confirm()

    def _confirm(self) -> None:
        if self._verbose:
            self._send(OK)

    def _connect(self, frame: Connect, now: float) -> None:
        try:
            wanted = {} if frame.raw.strip() == b"null" else loads(frame.raw)
        except RemoteProtocolError as error:
            self._close(str(error))
            return
        said, texts, protocol = _said(wanted, _OPTIONS), _said(wanted, _TEXTS), wanted.get("protocol") or 0
        if not (_are_all(said, bool) and _are_all(texts, str) and isinstance(protocol, int)):
            self._close("a CONNECT with a field of a wrong type")
            return
        self.said.update(texts)
        self._verbose = said.get("verbose", self._verbose)
        self._pedantic = said.get("pedantic", self._pedantic)
        self.echo = said.get("echo", self.echo)
        self.headers = said.get("headers", self.headers)
        self.no_responders = said.get("no_responders", self.no_responders)
        if self._has_connected and self.interests:
            self._remove_all()
            self._host.changed(self, now)
        self._has_connected = True
        if not self._identify() or said.get("new_account") or self.said.get("account"):
            self._refuse(_VIOLATION)
            return
        if protocol not in _PROTOCOLS:
            self._refuse(b"invalid client protocol")
        elif self.no_responders and not self.headers:
            self._refuse(b"no responders requires headers support")

    def _identify(self) -> bool:
        """Find out who the client is, by what it has said. Returns False if it may not connect."""
        self._timers.stop(Timer.HANDSHAKE)
        if self._access is None:
            return True
        self.user = self._access.user_of(self.said, self._nonce)
        permissions = None if self.user is None else self.user.permissions
        self._grants = None if permissions is None else Grants(permissions)
        return self.user is not None

    def _publish(self, frame: Pub, now: float) -> None:
        is_denied = self._grants is not None and not self._grants.may_publish(_text(frame.subject), now)
        if is_denied or frame.subject.startswith(_RESERVED):
            self._send_err(b"Permissions Violation for Publish to " + quoted(frame.subject))
            return
        if frame.reply is not None and frame.reply.startswith(_RESERVED_REPLIES):
            self._send_err(b"Permissions Violation for Publish with Reply of " + quoted(frame.reply))
            return
        self._confirm()
        self._host.publish_from(self, frame, now)

    def _subscribe(self, frame: Sub, now: float) -> None:
        pattern = _text(frame.subject)
        is_denied = self._grants is not None and not self._grants.may_subscribe(pattern, frame.queue)
        if is_denied or frame.queue == _RESERVED_GROUP:
            group = b"" if frame.queue is None else b" using queue " + quoted(frame.queue)
            self._send_err(b"Permissions Violation for Subscription to " + quoted(frame.subject) + group)
            return
        if frame.sid in self.interests:
            self._confirm()
            return  # as in nats-server, the first one stays
        tokens = pattern.split(".")
        if not all(tokens) or ">" in tokens[:-1]:
            self._send_err(b"Invalid Subject")
            return
        if len(self.interests) >= self._max_subscriptions:
            self._send_err(b"maximum subscriptions exceeded")
            return
        self._confirm()
        interest = Interest(self, frame.sid, pattern, frame.queue)
        self.interests[frame.sid] = interest
        self._host.subscriptions.add(interest)
        self._host.changed(self, now)

    def _unsubscribe(self, frame: Unsub, now: float) -> None:
        interest = self.interests.get(frame.sid)
        if interest is None:
            return
        if frame.max_msgs is not None and interest.delivered < frame.max_msgs:
            interest.limit = frame.max_msgs
        else:
            self._remove(interest)
            self._host.changed(self, now)

    def _remove(self, interest: Interest) -> None:
        del self.interests[interest.sid]
        self._host.subscriptions.remove(interest)

    def _remove_all(self) -> None:
        for interest in list(self.interests.values()):
            self._remove(interest)

    def _send(self, data: bytes) -> None:
        self._writes.append(data)
        self._pending += len(data)
        if self._pending > self._max_pending:
            self._writes.clear()
            self._refuse(b"Slow Consumer")

    def _send_err(self, words: bytes) -> None:
        self._send(encode_err(b"'%b'" % words))

    def _refuse(self, words: bytes) -> None:
        """End the connection, after ``-ERR`` with ``words`` if there are any."""
        if words:
            self._writes.append(encode_err(b"'%b'" % words))
        self._close(words.decode() or "bytes that cannot be read")

    def _close(self, why: str) -> None:
        """End the connection without a word."""
        self.error = why
        self._end()

    def _end(self) -> None:
        self.wants_close = True
        self.phase = LINK[self.phase, LinkStep.CLOSE] or self.phase
        self._remove_all()
        self._timers.clear()
        self._host.left(self)


def _said(wanted: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of ``names`` that a CONNECT gives a value."""
    return {name: wanted[name] for name in names if wanted.get(name) is not None}


def _are_all(fields: dict[str, Any], kind: type) -> bool:
    return all(isinstance(value, kind) for value in fields.values())


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")
