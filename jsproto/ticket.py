"""A ticket is one outstanding answer.

Rules: a machine completes it exactly once, with a value or with an error. Whoever waits puts anything that has a
``set()`` method (``threading.Event``, ``asyncio.Event``, ``trio.Event``) into ``event``; whoever drains the
machine calls ``wake()``. Waiting has no effect on the protocol, so giving up a wait is always safe.

Left out on purpose: callbacks, cancellation, loops. A machine that needs an answer to go on is a script
(``jsproto.client.scripts``).
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, cast

from jsproto.errors import Error, LocalProtocolError

T = TypeVar("T")


class SupportsSet(Protocol):
    """Anything that can be told "now": the events of threading, asyncio and trio."""

    def set(self) -> object:
        """Wake whoever waits."""


class Ticket(Generic[T]):
    """One outstanding answer of type ``T``.

    Attributes: ``done`` (bool), ``error`` (the typed error it failed with, else None) and ``event`` (the slot for the
    waiter, see the module's text).
    """

    __slots__ = ("_value", "done", "error", "event")

    def __init__(self) -> None:
        self._value: T | None = None
        self.done = False
        self.error: Error | None = None
        self.event: SupportsSet | None = None

    def __repr__(self) -> str:
        state = "pending" if not self.done else f"failed: {self.error!r}" if self.error else f"done: {self._value!r}"
        return f"<Ticket {state}>"

    def succeed(self, value: T) -> None:
        """Complete with ``value``. For machines only; RuntimeError when it is complete already."""
        if self.done:
            raise RuntimeError("a ticket is completed exactly once")
        self._value = value
        self.done = True

    def fail(self, error: Error) -> None:
        """Complete with ``error``. For machines only; RuntimeError when it is complete already."""
        if self.done:
            raise RuntimeError("a ticket is completed exactly once")
        self.error = error
        self.done = True

    def result(self) -> T:
        """The value; raises the error it failed with, LocalProtocolError while there is no answer yet."""
        if not self.done:
            raise LocalProtocolError("this ticket has no answer yet")
        if self.error is not None:
            raise self.error.with_traceback(None)  # many may ask: each one's traceback is its own
        return cast("T", self._value)

    def wake(self) -> None:
        """Tell the waiter, if there is one. Called once by whoever took the ticket from ``take_completed()``."""
        if self.event is not None:
            self.event.set()
