"""What a fork does to the connections of this process: in the child they are at an end, in the parent nothing happens.

Rules: a child shares its parent's sockets, and what the parent sleeps on. So nothing is sent, received, registered or
shut down there.

Not here: what each driver lets go of (``_disown``).
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from jsproto.errors import ForkedError


class Forkable(Protocol):
    """What exists once, and twice after a fork."""

    def _disown(self, error: ForkedError) -> None:
        """This is the child's copy."""


_connections: WeakSet[Forkable] = WeakSet()


def register(connection: Forkable) -> None:
    """Have ``connection`` told of forks, as long as it lives."""
    _connections.add(connection)


def _disown_all() -> None:
    error = ForkedError("this connection is the parent process's: connect again after a fork")
    for connection in list(_connections):
        connection._disown(error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
