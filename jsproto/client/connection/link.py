"""One link of a client session, from the first byte to the last: handshake, keep-alive, ``-ERR``, the end.

Rules:

* The phases are those of ``jsproto.rules.link``.
* Receiving never raises: a fault of the peer becomes ``error``, which is final.
* The link writes only its own frames (CONNECT, PING, PONG). Messages are the session's business, and so is what happens
  after the end.
* Each link asks for its credentials anew.
* INFO that came before TLS serves to begin TLS and to log in. Servers from 2.12 on send it again inside TLS.
* The other addresses of the cluster are taken from INFO inside TLS alone.

Not here: TLS itself (``secured`` and ``insecure`` report how it went), signing, dialling another address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from jsproto._version import __version__
from jsproto.client.connection.connect_options import Address, ConnectOptions
from jsproto.errors import (
    AuthorizationError,
    ConnectionLostError,
    CredentialsError,
    Error,
    PermissionsViolationError,
    RemoteProtocolError,
    ServerError,
    StaleConnectionError,
    TLSError,
    TLSRequiredError,
)
from jsproto.events import Connected, Event, LameDuckMode, ServerInfoChanged, ServerReportedError
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import ServerInfo
from jsproto.rules.link import LINK, LinkInput, LinkPhase, LinkStep
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PING, PONG, encode_connect
from jsproto.wire.frames import Connect, Err, Frame, Info, Ping, Pong

MAX_PONGS: Final = 1_000  # written at once: of those that are owed only the number is kept

# Texts of nats-server's -ERR, lower case. Everything that is not harmless is followed by the end of the connection.
_HARMLESS: Final = (
    "permissions violation", "invalid subject", "invalid publish subject", "maximum subscriptions exceeded",
)  # fmt: skip
_AUTHORIZATION: Final = (
    "authorization violation", "authentication", "authorization timeout", "user authentication",
    "account authentication",
)  # fmt: skip


class Link:
    """The client's end of one TCP connection.

    Attributes:

    * ``phase``: a ``LinkPhase``.
    * ``is_open``: messages flow.
    * ``server``: the last ``ServerInfo``, or None before INFO.
    * ``error``: why the link ended, None while it lives.
    * ``was_open``: the handshake was complete once.
    * ``decoder``: of the bytes that arrive.
    * ``to_send``: frames that leave before those that wait in the session.
    * ``pongs_owed``: how many PONGs are to be sent.
    * ``deadline``: gives when ``handle_timeout`` wants to be called.
    * ``events``, ``ponged`` and ``violations``: events, tickets that a PONG completed, and what the server forbade. The
      session takes them.
    * ``refused``: the server refuses the credentials.
    """

    def __init__(self, options: ConnectOptions, address: Address, now: float) -> None:
        self.phase = LinkPhase.EXPECT_TLS if options.tls_handshake_first else LinkPhase.EXPECT_INFO
        self.is_open = False
        self.server: ServerInfo | None = None
        self.error: Error | None = None
        self.was_open = False  # the handshake was complete once
        self.decoder = Decoder("client")
        self.to_send: list[bytes] = []
        self.events: list[Event] = []
        self.ponged: list[Ticket[float]] = []
        self.violations: list[PermissionsViolationError] = []
        self.refused = False
        self._secure = False
        self._options = options
        self._address = address
        self._reported: str | None = None
        self._pings: deque[tuple[Ticket[float] | None, float]] = deque()
        self._unanswered = 0  # PINGs of the keep-alive since the last PONG
        self.pongs_owed = 0
        self._timers = Timers()
        self.deadline = self._timers.next
        self._timers.set(Timer.HANDSHAKE, now + options.connect_timeout)

    def receive(self, frame: Frame, now: float) -> None:
        """Any frame but a message that arrives while the link is open."""
        kind = type(frame)
        previous = self.phase
        self._step(LinkStep.EARLY_PONG if kind is Pong and len(self._pings) > 1 else kind)
        if self.phase is LinkPhase.CLOSED:
            self._end(RemoteProtocolError(f"{kind.__name__} does not fit: {previous.value}"))
            return
        self._reported = None  # it goes on speaking: what it complained of before is not what will end the link
        if kind is Ping:
            self.pongs_owed += 1
        elif kind is Pong:
            self._receive_pong(previous, now)
        elif isinstance(frame, Info):
            self._receive_info(frame, previous, now)
        elif isinstance(frame, Err):
            self._receive_err(frame.text.decode("utf-8", "replace").strip("'"))

    def receive_eof(self, reason: str) -> None:
        """The peer, or the network, ended the link. ``reason`` is the driver's text for it."""
        if self._reported is not None:
            self._end(ServerError(self._reported))
        elif self.phase is not LinkPhase.OPEN:
            self._end(ConnectionLostError(f"{reason} during the handshake"))
        else:
            self._end(ConnectionLostError(reason))

    def secured(self, now: float) -> None:
        """TLS has begun. Bytes that came before it and were not read yet do not count."""
        self._secure = True
        self.decoder = Decoder("client")
        self._step(LinkStep.SECURED)
        if self.server is not None:
            self._step(Info)
            # An INFO that was forged before TLS must not choose the next address. From 2.12 on servers repeat it.
            self.server = replace(self.server, connect_urls=None)
            self._connect(self.server, now)
            self.ping(None, now)  # such servers say it between the two PONGs

    def insecure(self, reason: str) -> None:
        """TLS failed, or broke."""
        self._end(TLSError(reason))

    def ping(self, ticket: Ticket[float] | None, now: float) -> None:
        """Send a PING. ``ticket`` takes the round trip in seconds."""
        self._pings.append((ticket, now))
        self.to_send.append(PING)

    def data_to_send(self) -> list[bytes]:
        """The link's own frames, which count as written. Of more than ``MAX_PONGS`` PONGs the rest leave next time."""
        data, self.to_send = self.to_send, []
        if self.pongs_owed:
            count = min(self.pongs_owed, MAX_PONGS)
            self.pongs_owed -= count
            data.append(PONG * count)
        return data

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            if timer is Timer.HANDSHAKE:
                self._end(ConnectionLostError(f"the server did not finish the handshake in time: {self.phase.value}"))
            elif self._unanswered >= self._options.max_outstanding_pings:
                self._end(StaleConnectionError(f"{self._unanswered} PINGs in a row without an answer"))
            else:
                self._unanswered += 1
                self.ping(None, now)
                self._timers.set(Timer.KEEP_ALIVE, now + self._options.ping_interval)

    def close(self) -> None:
        """This side ends the link: its timers and steps end."""
        self._step(LinkStep.CLOSE)
        self.pongs_owed = 0
        self._timers.clear()

    def open_tickets(self) -> list[Ticket[float]]:
        """Round-trip tickets whose PONG is lost."""
        tickets = [ticket for ticket, _ in self._pings if ticket is not None]
        self._pings.clear()
        return tickets

    def _receive_pong(self, previous: LinkPhase, now: float) -> None:
        self._unanswered = 0
        if not self._pings:
            return  # unsolicited: harmless
        ticket, sent_at = self._pings.popleft()
        if ticket is not None:
            ticket.succeed(now - sent_at)
            self.ponged.append(ticket)
        if previous is LinkPhase.EXPECT_PONG and self.phase is LinkPhase.OPEN and self.server is not None:
            self.was_open = True
            self._timers.stop(Timer.HANDSHAKE)
            self._timers.set(Timer.KEEP_ALIVE, now + self._options.ping_interval)
            self.events.append(Connected(self._address.url, self.server))

    def _receive_info(self, frame: Info, previous: LinkPhase, now: float) -> None:
        try:
            server = ServerInfo.from_json(frame.raw)
        except RemoteProtocolError as error:
            self._end(error)
            return
        known, self.server = self.server, server
        if previous is not LinkPhase.EXPECT_INFO:
            if server.ldm and not (known and known.ldm):
                self.events.append(LameDuckMode(self._address.url))
            if not server.extra.get("connect_info"):  # else it only answers our CONNECT
                self.events.append(ServerInfoChanged(server))
        elif self._secure or not self._wants_tls(server):
            self._connect(server, now)
        elif self._options.tls is False:
            self._end(TLSRequiredError("the server requires TLS, which tls=False rules out"))
        elif not (server.tls_required or server.tls_available):
            self._end(TLSRequiredError("the server has no TLS, which the options, or the URL, require"))
        else:
            self._step(LinkStep.START_TLS)

    def _wants_tls(self, server: ServerInfo) -> bool:
        """Whether this side or the other wants it."""
        wanted = self._options.tls is not None and self._options.tls is not False
        return wanted or self._address.tls or server.tls_required

    def _connect(self, server: ServerInfo, now: float) -> None:
        options, address = self._options, self._address
        # What the URL says goes before what the options say, as a whole.
        credentials = address if address.user or address.token else options
        try:
            signed = _signed(options, server.nonce)
        except CredentialsError as error:
            self._end(error)
            return
        fields: dict[str, object] = {
            "verbose": False, "pedantic": False, "lang": "python-jsproto", "version": __version__, "protocol": 1,
            "echo": options.echo, "headers": True, "no_responders": True, "name": options.name,
            "user": credentials.user, "pass": credentials.password, "auth_token": credentials.token,
            **signed,
        }  # fmt: skip
        present = {key: value for key, value in fields.items() if value is not None}
        self.to_send.append(encode_connect(dumps(present)))
        self._step(Connect)
        self.ping(None, now)

    def _receive_err(self, text: str) -> None:
        lowered = text.lower()
        fatal = not lowered.startswith(_HARMLESS)
        self.events.append(ServerReportedError(text, fatal))
        violation = PermissionsViolationError.from_text(text)
        if violation is not None:
            self.violations.append(violation)
        if lowered.startswith(_AUTHORIZATION):
            # Before CONNECT there is nothing to refuse, and before TLS an attacker may have said so.
            self.refused = self.phase in (LinkPhase.EXPECT_PONG, LinkPhase.OPEN) and not lowered.endswith("timeout")
            self._end(AuthorizationError(text))
        elif fatal:
            self._reported = text  # the end of the stream follows and says so

    def _step(self, given: LinkInput) -> None:
        self.phase = LINK[self.phase, given] or self.phase
        self.is_open = self.phase is LinkPhase.OPEN

    def _end(self, error: Error) -> None:
        if self.error is None:
            self.error = error
        self.close()


def _signed(options: ConnectOptions, nonce: str | None) -> dict[str, object]:
    """The fields of CONNECT that identify the client, with the server's nonce signed. Empty where signing is off.

    Raises:
        CredentialsError: a callback failed.
    """
    if options.signature_cb is None or nonce is None:
        return {}
    jwt = None if options.user_jwt_cb is None else _called("user_jwt_cb", options.user_jwt_cb)
    return {"jwt": jwt, "nkey": options.nkey, "sig": _called("signature_cb", options.signature_cb, nonce)}


def _called(name: str, callback: Callable[..., str | bytes | bytearray], *args: str) -> str:
    """The text that ``callback`` gives."""
    try:
        text = callback(*args)
        return text if isinstance(text, str) else bytes(memoryview(text)).decode()
    except CredentialsError:
        raise
    except Exception as error:  # whose words may hold a secret: they are no context of ours
        kind = type(error).__name__
    raise CredentialsError(f"{name} failed: {kind}")
