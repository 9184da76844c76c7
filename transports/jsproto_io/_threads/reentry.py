"""Verbs in signal handlers and finalizers. These interrupt a thread anywhere, even while it holds the lock.

How it works
 * The lock is a token in a ``SimpleQueue``, which signal handlers and finalizers may use. A verb waits ``LATE`` seconds
   for it, and then looks at the stack of its thread. All else waits as long as it takes.
 * The methods of both locks are those of the queue: a call of Python for each would cost as much as a small verb
   (benchmark row fast-ingest-single).
 * ``Wakeup`` is an event that a thread may set while it is about to wait for it, or while it sets it.

Rules
 * A verb that interrupts a change of the state is refused, or begins later if it ends something.
 * A verb that ends something begins in a thread of its own, when it interrupts a verb of the same connection. The
   handler returns at once, and the verb that it has interrupted goes on.

Not here: what the verbs do, Ctrl-C (``interrupts``).
"""

from __future__ import annotations

import _thread
import logging
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, TypeAlias

from jsproto.errors import LocalProtocolError
from jsproto_io._state.common import EventDispatcher

LATE: Final = 0.005  # seconds
TEXT: Final = (
    "a signal handler or a finalizer has interrupted another verb of this connection in the same thread: only verbs"
    " that end something may be called there. Let it set a flag, or begin a thread"
)

Lock: TypeAlias = AbstractContextManager[Any]

_HERE: Final = Path(EventDispatcher._deliver.__code__.co_filename).parents[1]
_FILES: Final = {str(_HERE / name) for name in ("sync.py", "_threads/engine.py", "_threads/leadership.py")}
_CALLBACK: Final = EventDispatcher._deliver.__code__


class InterruptingVerbError(LocalProtocolError):
    """The verb was called by what has interrupted another verb of the connection in the same thread."""

    def __init__(self) -> None:
        super().__init__(TEXT)


def new_locks() -> tuple[Lock, Lock]:
    """Two views of one lock. The second one is for verbs: it raises ``queue.Empty`` when it is not had in time."""
    token: SimpleQueue[Any] = SimpleQueue()
    token.put(None)
    release = staticmethod(token.put)  # it takes the three arguments of __exit__
    views = (token.get, partial(token.get, timeout=LATE))
    lock, gate = (type("Lock", (), {"__enter__": staticmethod(get), "__exit__": release})() for get in views)
    return lock, gate


def is_of_gate(error: Empty) -> bool:
    """Whether ``error`` comes from the second view of a lock itself. Calls under the lock may raise the same class."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def interrupts(engine: Collection[object]) -> bool:
    """Whether the caller has interrupted a method of ``engine`` in this thread.

    What the engine calls by itself does not count, nor does a callback for events, which it calls when all is whole.
    """
    frame: FrameType | None = sys._getframe(1)
    between = False
    while frame is not None and frame.f_code is not _CALLBACK:
        own = frame.f_code.co_filename in _FILES and frame.f_locals.get("self") in engine
        if own and between:
            return True
        between = between or not own
        frame = frame.f_back
    return False


def begin_later(verb: Callable[[], object]) -> None:
    """Call ``verb`` in a thread of its own. Not by ``threading``, whose locks this thread may hold."""

    def run() -> None:
        try:
            verb()
        except Exception as error:
            logging.getLogger("jsproto_io").warning("an end that a signal handler began has failed: %r", error)

    _thread.start_new_thread(run, ())


class Wakeup:
    """What ``threading.Event`` is, without a lock of its own."""

    __slots__ = ("_gate", "_is_set")

    def __init__(self) -> None:
        self._gate = _thread.allocate_lock()
        self._gate.acquire()
        self._is_set = False

    def set(self) -> None:
        """Wake all threads that wait."""
        self._is_set = True
        self._open()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, or for ``timeout`` seconds. Whether it is set."""
        if not self._is_set and self._gate.acquire(timeout=timeout):
            self._open()  # for the next one that waits
        return self._is_set

    def _open(self) -> None:
        with suppress(RuntimeError):  # it is open
            self._gate.release()
