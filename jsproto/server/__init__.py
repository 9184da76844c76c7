"""The server role: streams in memory, and what they answer to those who publish to them, read them and consume them.

``Server`` is one server, driven like everything here (``jsproto.server.server``); ``server.connect(now)`` gives a
``ServerSession`` for each link: bytes in, bytes out. A ``Stream`` is what ``server.add_stream`` makes, a sequence of
``Stored`` messages; ``Lag`` makes its copies late. ``BatchLimits``, ``Release`` and ``REFERENCE`` (the release that it
answers as, unless told otherwise) are for ``Server``; a ``MessageBus`` carries each ``RoutedMessage`` between links and
streams.
"""

from __future__ import annotations

from jsproto.server.replication.replicas import Lag
from jsproto.server.server import MessageBus, RoutedMessage, Server
from jsproto.server.session import ServerSession
from jsproto.server.store.context import REFERENCE, BatchLimits, Release
from jsproto.server.store.stream import Stored, Stream

__all__ = [
           "REFERENCE",
           "BatchLimits",
           "Lag",
           "MessageBus",
           "Release",
           "RoutedMessage",
           "Server",
           "ServerSession",
           "Stored",
           "Stream",
]  # fmt: skip
