"""Connecting, with errors that name the address.

Not here: the options (``common``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from jsproto.client.connection.options import DEFAULT_URL, connect_options
from jsproto.errors import Error, LocalProtocolError, NoServersError, RemoteProtocolError
from jsproto.events import Event
from jsproto_io import ConnectKeywords
from jsproto_io.sync import Connection, connect


class CannotConnectError(Error):
    """The address answers, but not as a NATS server that accepts this client."""


def _ignore(event: Event) -> None:
    """Do nothing."""


def open_connection(
    servers: str = DEFAULT_URL,
    *,
    event_cb: Callable[[Event], object] = _ignore,
    **options: Unpack[ConnectKeywords],
) -> Connection:
    """Connect, with errors that name the address.

    Raises:
        CannotConnectError: the handshake failed.
        Error: otherwise as in ``jsproto_io.sync.connect``.
    """
    try:
        return connect(servers, event_cb=event_cb, **options)
    except (LocalProtocolError, NoServersError):
        raise  # they name it already
    except Error as error:
        what = "no NATS server answers there: " if isinstance(error, RemoteProtocolError) else ""
        text, urls = str(error), [address.url for address in connect_options(servers).servers]
        where = "" if any(url in text for url in urls) else f"{', '.join(urls)}: "
        raise CannotConnectError(f"cannot connect: {where}{what}{text}") from error
