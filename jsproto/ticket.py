"""A ticket is one outstanding answer.

Rules

* A machine completes a ticket exactly once, with a value or with an error.
* A waiter puts an object with a ``set()`` method (``threading.Event``, ``asyncio.Event``, ``trio.Event``) into
  ``event``. The driver that takes the completed tickets calls ``wake()`` on each.
* Waiting has no effect on the protocol. A wait that is given up loses an answer alone.
* An answer may be ``Live``: a subscription, for example. Whoever gives up the wait calls ``Session.abandon``. That
  ends what the ticket brings, or has brought.

Left out on purpose: callbacks, cancellation, loops. A machine that needs an answer to go on is a script
(``jsproto.client.scripts``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast

from jsproto.errors import Error, LocalProtocolError

T = TypeVar("T")


class SupportsSet(Protocol):
    """What a waiter waits for: the events of threading, asyncio and trio."""

    def set(self) -> object:
        """Wake the waiter."""


class Live:
    """What somebody has to end: a subscription, a read, a consumer that was created for one caller."""

    __slots__ = ()

    def abandon(self, now: float) -> None:
        """The caller that it was made for has gone without it: end it. ``now``: monotonic seconds."""
        raise NotImplementedError


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
        """Complete with ``value``. For machines only. RuntimeError when it is complete already."""
        if self.done:
            raise RuntimeError("a ticket is completed exactly once")
        self._value = value
        self.done = True

    def fail(self, error: Error) -> None:
        """Complete with ``error``. For machines only. RuntimeError when it is complete already."""
        if self.done:
            raise RuntimeError("a ticket is completed exactly once")
        self.error = error
        self.done = True

    def result(self) -> T:
        """The value. Raises the error that it failed with, and LocalProtocolError while there is no answer yet."""
        if not self.done:
            raise LocalProtocolError("this ticket has no answer yet")
        if self.error is not None:
            raise self.error.with_traceback(None)  # many may ask: each one's traceback is its own
        return cast("T", self._value)

    def wake(self) -> None:
        """Wake the waiter, if there is one. The driver that took the ticket from ``take_completed()`` calls it once."""
        if self.event is not None:
            self.event.set()


class Readable:
    """What a machine has to say "now there is something": one ticket, shared by all callers that wait meanwhile.

    Attribute: ``pending`` (the ticket that somebody waits for, or None).
    """

    __slots__ = ("_completed", "pending")

    def __init__(self, completed: Callable[[Ticket[None]], None]) -> None:
        """``completed`` takes each ticket that was pending and is complete now: ``Outbox.completed``."""
        self._completed = completed
        self.pending: Ticket[None] | None = None

    def ticket(self, is_ready: bool, error: Error | None = None) -> Ticket[None]:
        """The pending ticket, else a new one: complete if ``is_ready``, failed if there is an ``error``, else pending.

        A ticket that is complete at once skips ``completed``: its caller has yet to wait.
        """
        if self.pending is not None:
            return self.pending
        ticket: Ticket[None] = Ticket()
        if is_ready:
            ticket.succeed(None)
        elif error is not None:
            ticket.fail(error)
        else:
            self.pending = ticket
        return ticket

    def notify(self) -> None:
        """There is something now: complete the pending ticket, if there is one."""
        ticket = self.pending
        if ticket is not None:
            self.pending = None  # the caller that it wakes may ask for the next one at once
            ticket.succeed(None)
            self._completed(ticket)

    def fail(self, error: Error) -> None:
        """The end: fail the pending ticket, if there is one."""
        ticket = self.pending
        if ticket is not None:
            self.pending = None
            ticket.fail(error)
            self._completed(ticket)
