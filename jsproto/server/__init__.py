"""The server role: streams in memory, and their answers to publishers, readers and consumers.

* ``Server``: one server, a state machine without I/O. ``server.connect(now)`` returns a ``ServerSession`` for a link.
* ``Stream``: what ``server.add_stream`` creates, a sequence of ``Stored`` messages. ``Lag`` delays its copies.
* ``Access``, ``User``, ``Permissions`` and ``Responses``: who may connect, and do what.
* ``AccountLimits``: what all streams may have together.
* ``BatchLimits`` and ``Release``: options of ``Server``. ``REFERENCE`` is the release that it answers as by default.
* ``save`` and ``restore``: what a server keeps over a restart, as bytes.
* ``MessageBus``: carries each ``RoutedMessage`` between links and streams, if there is one.

What the server role copies from released servers is in ``FACTS.md``, beside this file.
"""

from __future__ import annotations

from jsproto.server.access import Access, Permissions, Responses, User
from jsproto.server.replication.replicas import Lag
from jsproto.server.saved import restore, save
from jsproto.server.server import MessageBus, RoutedMessage, Server
from jsproto.server.session import ServerSession
from jsproto.server.store.context import REFERENCE, AccountLimits, BatchLimits, Release
from jsproto.server.store.stream import Stored, Stream

__all__ = [
           "REFERENCE",
           "Access",
           "AccountLimits",
           "BatchLimits",
           "Lag",
           "MessageBus",
           "Permissions",
           "Release",
           "Responses",
           "RoutedMessage",
           "Server",
           "ServerSession",
           "Stored",
           "Stream",
           "User",
           "restore",
           "save",
]  # fmt: skip
