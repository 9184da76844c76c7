"""The client's end of a link without a socket, as the three drivers of the client use it.

Rules
 * What is sent is taken at once. The end's maker decides when the server gets it.
 * ``on_ready`` may be called from any thread, and more often than needed. It is called once more when the end of the
   stream follows what ``take`` returns.

Not here: who makes it (``jsproto_io.testing.pipes.server``), how a driver waits (``threads``, ``asyncio``, ``trio``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class ClientEnd(ABC):
    """The client's end of one link.

    Attributes:
        on_ready: called when ``take()`` has something new. Set by the driver.
    """

    on_ready: Callable[[], None] = staticmethod(lambda: None)

    @abstractmethod
    def take(self) -> bytes | None:
        """What has come, joined. Empty at the end of the stream, None when there is nothing yet.

        Raises:
            OSError: the link broke.
        """

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send bytes to the server. After the end of the link they are lost."""

    @abstractmethod
    def end(self) -> None:
        """Nothing more is sent. The server ends its side, and what is under way still comes.

        ``on_ready`` is called again if that has happened already.
        """

    @abstractmethod
    def close(self) -> None:
        """End both sides at once: the stream ends, and what was not taken is lost. No effect the second time."""
