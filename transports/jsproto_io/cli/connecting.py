"""Connecting, with errors that name the address, and notes of what becomes of a connection.

Not here: the options (``common``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from jsproto.client.connection.connect_options import DEFAULT_URL, connect_options
from jsproto.errors import Error, LocalProtocolError, NoServersError, RemoteProtocolError
from jsproto.events import Connected, Disconnected, Event, SlowConsumer, StreamRecreated
from jsproto_io import ConnectKeywords
from jsproto_io.cli.terminal import Screen
from jsproto_io.sync import Connection, connect


class CannotConnectError(Error):
    """The address answers, but not as a NATS server that accepts this client."""


class LinkNotes:
    """An ``event_cb`` that notes on standard error what a person who waits for messages wants to know."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._was_lost = False

    def __call__(self, event: Event) -> None:
        """Note it, if it is of interest."""
        match event:
            case Disconnected(error) if error is not None:
                self._was_lost = True
                self._screen.note(f"the connection is lost: {error}")
            case Connected(url) if self._was_lost:
                self._was_lost = False
                self._screen.note(f"connected again: {url}")
            case SlowConsumer(_, dropped):
                self._screen.note(f"{dropped:,} messages were lost so far: they came faster than they were printed")
            case StreamRecreated(stream):
                self._screen.note(f"stream {stream} was created again: its first message comes next")


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
