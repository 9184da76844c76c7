"""What a fork does to the connections of this process: those of the child end, those of the parent go on.

Rules: a child shares its parent's sockets and selectors. So the child leaves sockets, selectors and TLS as they are. An
object is registered when it is whole, since a fork may come at any moment, from any thread.

Not here: what each driver lets go of (``_disown``).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from jsproto.errors import ForkedError


class Forkable(Protocol):
    """An object of which a forked child has a copy."""

    def _disown(self, error: ForkedError) -> None:
        """End this copy: this is the child process. What makes its verbs fail comes first."""


_connections: WeakSet[Forkable] = WeakSet()


def register(connection: Forkable) -> None:
    """Call ``_disown`` of ``connection``, which is whole, after a fork, as long as it lives."""
    _connections.add(connection)


def _disown_all() -> None:
    error = ForkedError("this connection is the parent process's: connect again after a fork")
    for connection in list(_connections):
        with suppress(Exception):  # a thread that is not in this process was changing it; no verb works any more
            connection._disown(error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
