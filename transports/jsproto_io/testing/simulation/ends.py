"""A link of a ``World`` as the drivers on trio and on threads use it.

Not here: the loop's own transport (``loop``), when time passes (``trio``, ``blocking``, ``realtime``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from jsproto.testing.world import Link, World
from jsproto_io.testing.pipes.end import ClientEnd

_NOBODY_ELSE: Final = nullcontext()


class WorldEnd(ClientEnd):
    """The client's end of a link in a world."""

    def __init__(
        self, link: Link, touched: Callable[[], None], guard: AbstractContextManager[Any] = _NOBODY_ELSE
    ) -> None:
        """``touched``: called when more may be due in the world. ``guard``: held while the world is used."""
        self._link = link
        self._touched = touched
        self._guard = guard
        self._has_ended = False
        link.on_receive = lambda: self.on_ready()

    def take(self) -> bytes | None:
        with self._guard:
            pieces = self._link.received()
            broken = self._link.error is not None
        if pieces and pieces[-1] is None:
            self._has_ended = True
        data = b"".join(piece for piece in pieces if piece is not None)
        if data:
            if self._has_ended or broken:
                self.on_ready()
            return data
        if broken:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return b"" if self._has_ended else None

    def send(self, data: bytes) -> None:
        with self._guard:
            self._link.send(data)
            self._touched()

    def end(self) -> None:
        with self._guard:
            self._link.end()
            self._touched()
            has_ended = self._has_ended or self._link.error is not None
        if has_ended:
            self.on_ready()

    def close(self) -> None:
        """As in ``ClientEnd``. What was sent still arrives, as the network has it already."""
        self._has_ended = True
        with self._guard:
            self._link.abort()
            self._touched()
        self.on_ready()

    def cut(self) -> None:
        """Let the client see the end of the stream: it has been cut off."""
        self._has_ended = True
        self.on_ready()


def dial(world: World, host: str) -> Link:
    """A new link from ``host``.

    Raises:
        ConnectionRefusedError: the server is down.
    """
    link = world.dial(host)
    if link is None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    return link
