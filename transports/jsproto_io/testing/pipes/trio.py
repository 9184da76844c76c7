"""Links without sockets for ``jsproto_io.trio``.

Not here: what is at the other end (``jsproto_io.testing.pipes.server``).
"""

from __future__ import annotations

import threading
from contextlib import suppress

import trio

from jsproto_io._aio.trio_link import Link
from jsproto_io.testing.pipes.end import ClientEnd


class PipeLink(Link):
    """One link. It takes all that is sent."""

    def __init__(self, end: ClientEnd) -> None:
        super().__init__()
        self._end = end
        self._ready = trio.Event()
        self._closed = False
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        end.on_ready = self._on_ready

    def _on_ready(self) -> None:
        if threading.get_ident() == self._thread:
            self._ready.set()
        else:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._wake, idempotent=True)

    def _wake(self) -> None:
        self._ready.set()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            if self._closed:
                raise trio.ClosedResourceError("the connection was closed")
            self._ready = trio.Event()
            data = self._end.take()
            if data is not None:
                await trio.lowlevel.cancel_shielded_checkpoint()
                return data
            await self._ready.wait()

    def send(self) -> None:
        self._end.send(bytes(self.unsent))
        self.unsent = memoryview(b"")

    async def wait_writable(self) -> None:
        """As in ``Link``: at once."""
        await trio.lowlevel.checkpoint()

    def end(self) -> None:
        self._end.end()

    def close(self) -> None:
        self._closed = True
        self._end.close()
        self._ready.set()
