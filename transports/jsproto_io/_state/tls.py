"""A session inside TLS, when the options or the server want it: bytes in and bytes out, like the session itself.

Rules
 * The drivers leave TLS to it.
 * Nothing here waits or touches a socket: TLS reads from memory and writes to memory.
 * Until TLS is wanted, bytes pass as they are.
 * Errors show the reason that OpenSSL gives, and that alone.

Not here: when TLS begins (``jsproto.client.connection.link``).
"""

from __future__ import annotations

import ssl
from typing import Any, Final

from jsproto.client.connection.connect_options import ConnectOptions
from jsproto.client.connection.session import Session
from jsproto.errors import LocalProtocolError

READ: Final = 65_536  # bytes asked for at once; a record has at most 16384


class SecureSession(Session):
    """A session that begins TLS by itself."""

    def __init__(self, options: ConnectOptions, *, token: bytes) -> None:
        if not isinstance(options.tls, ssl.SSLContext | bool | None):
            raise LocalProtocolError(
                f"tls must be an ssl.SSLContext, True, False or None, not {type(options.tls).__name__}"
            )
        super().__init__(options, token=token)
        self._context: ssl.SSLContext | None = options.tls if isinstance(options.tls, ssl.SSLContext) else None
        self._tls: ssl.SSLObject | None = None
        self._may_begin = False  # the link has not got beyond the point where TLS begins
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()

    def connection_made(self, now: float) -> None:
        """As in ``Session``. Where both sides begin with TLS, this side begins."""
        super().connection_made(now)
        self._tls, self._may_begin = None, True
        self._begin(now)

    def receive_data(self, data: bytes, now: float) -> None:
        """As in ``Session``, for bytes inside TLS and outside."""
        if self._tls is None:
            Session.receive_data(self, data, now)  # super() takes longer, and most connections have no TLS
            if self._may_begin:
                self._begin(now)
        else:
            self._received.write(data)
            self._advance_tls(self._tls, now)

    def data_to_send(self) -> list[bytes]:
        """As in ``Session``."""
        tls = self._tls
        if tls is None:
            return Session.data_to_send(self)
        plain = b"".join(super().data_to_send())
        try:
            while plain:
                plain = plain[tls.write(plain) :]
            if self.closed:
                tls.unwrap()  # sends close_notify; what is received from now on is ignored
        except ssl.SSLError:  # the peer's close_notify is missing, or TLS is broken: the reader reports it
            pass
        return [self._to_send.read()] if self._to_send.pending else []

    def _begin(self, now: float) -> None:
        """Begin TLS, if it is time."""
        self._may_begin = self._link is not None and not self._link.is_open
        if not self.wants_tls:
            return
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            if self._context is None:
                self._context = ssl.create_default_context()
            self._tls = self._context.wrap_bio(self._received, self._to_send, server_hostname=self.tls_hostname)
        except (ssl.SSLError, ValueError) as error:  # ValueError: no certificate can have such a name
            self.tls_failed(_reason(error), now)
        else:
            self._advance_tls(self._tls, now)

    def _advance_tls(self, tls: ssl.SSLObject, now: float) -> None:
        """Continue the handshake, or decrypt, as far as the received bytes allow."""
        plain: list[bytes] = []
        failure: str | None = None
        ended = False
        try:
            if self.wants_tls:
                tls.do_handshake()
                self.tls_made(now)
            while data := tls.read(READ):
                plain.append(data)
            ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            ended = True
        except ssl.SSLError as error:
            failure = _reason(error)
        if plain:
            super().receive_data(b"".join(plain), now)
        if failure is not None:
            self.tls_failed(failure, now)
        elif ended:
            self.receive_eof(now)
        if self._to_send.pending:
            self.nudge()


def _reason(error: Any) -> str:
    """One line for why TLS failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate was refused: {error.verify_message.rstrip('.')}"
    words = getattr(error, "reason", None)
    return f"TLS failed: {words.lower().replace('_', ' ') if words else error}"
