"""The threads that call the callbacks of ``consume``. Each facade has this module written by hand.

Rules
 * A worker is a daemon thread. It calls one callback after the other.

Not here: what a worker does, which both facades do in the same way (``consume_context``).
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jsproto_io._blocking.connection import Connection

_WORKS_FOR: Final = threading.local()


class Workers:
    """Begins the workers of one call of ``consume``."""

    _connection: Connection

    @abstractmethod
    def _work(self) -> None:
        """What one worker does."""

    @property
    def _is_calling(self) -> bool:
        """Whether the present thread runs one of the callbacks."""
        return getattr(_WORKS_FOR, "context", None) is self

    def _start_worker(self) -> None:
        threading.Thread(target=self._work_in_thread, name="jsproto-worker", daemon=True).start()

    def _work_in_thread(self) -> None:
        _WORKS_FOR.context = self
        self._work()

    def _ends_worker(self, error: BaseException) -> bool:
        """Whether ``error``, which a callback raised, ends the worker too. Threading is silent about SystemExit."""
        return False

    def _call_callback(self, callback: Callable[..., object], *arguments: Any) -> None:
        callback(*arguments)
