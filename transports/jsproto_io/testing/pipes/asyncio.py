"""Links without sockets for ``jsproto_io.asyncio``.

Rules: the protocol's callbacks come from the loop, never from within ``write``.

Not here: what is at the other end (``jsproto_io.testing.pipes.server``).
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from jsproto_io.testing.pipes.end import ClientEnd


class PipeTransport(asyncio.Transport):
    """One link, as asyncio's protocols see it. It takes all that is written, so it never asks for a pause."""

    def __init__(self, end: ClientEnd, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._end = end
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._scheduled = False  # the loop will call ``_deliver``
        self._aborted = False
        self._lost = False
        end.on_ready = self._on_ready
        protocol.connection_made(self)
        self._on_ready()  # in case something has come before

    def _on_ready(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            with suppress(RuntimeError):  # the loop is closed
                if threading.get_ident() == self._thread:
                    self._loop.call_soon(self._deliver)
                else:
                    self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        data = None if self._lost else self._end.take()
        if data and not self._aborted:
            self._protocol.data_received(data)
        elif data is not None:
            if not self._aborted:
                self._protocol.eof_received()
            self._lost = True
            self._end.close()
            self._protocol.connection_lost(None)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``."""
        if not self.is_closing():
            self._end.send(bytes(data))

    def can_write_eof(self) -> bool:
        """Whether ``write_eof`` works: it does."""
        return True

    def write_eof(self) -> None:
        """End this side. What is under way still comes."""
        self._end.end()

    def is_closing(self) -> bool:
        """Whether the link ends, or has ended."""
        return self._aborted or self._lost

    def get_write_buffer_size(self) -> int:
        """How many bytes wait to be sent: none."""
        return 0

    def close(self) -> None:
        """End the link. All was sent, so it is as ``abort``."""
        self.abort()

    def abort(self) -> None:
        """End the link at once. ``connection_lost`` follows."""
        self._aborted = True
        self._end.close()
        self._on_ready()
