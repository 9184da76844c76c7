"""The script runner: generators that yield tickets, and are sent each ticket's value or have its error thrown in.

Rules:

* A script runs inside the call that completed the ticket it waits for. Several scripts may wait for one ticket.
* A script that returns completes its ticket with the value. A script that raises an ``Error`` fails its ticket.
* Any other exception is a fault of this library: it fails the ticket with InternalError, and is an event.
* A script that makes something ``Live`` gets ``Abandoned`` when its caller has gone. It ends what it has made, and
  waits for nothing more.

Not here: the scripts themselves (``client.scripts``, ``drain``, ``read.snapshot``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from jsproto.errors import Error, InternalError, LocalProtocolError
from jsproto.events import ConversationFailed
from jsproto.ticket import Live, Ticket

T = TypeVar("T")
Script: TypeAlias = Generator[Ticket[Any], Any, T]


class Abandoned(BaseException):
    """The caller that a script works for has gone. It passes each ``except Error`` of the script."""


class ScriptRunner:
    """The scripts of one session.

    Attribute: ``waiting`` (by ticket: the scripts that wait for it, each with the ticket of its own end).
    """

    __slots__ = ("_bringing", "_completed", "_emit", "waiting")

    def __init__(self, completed: Callable[[Ticket[Any]], None], emit: Callable[[ConversationFailed], None]) -> None:
        """``completed`` is called with the ticket of each script that has ended, ``emit`` with what is to be told."""
        self._completed = completed
        self._emit = emit
        self._bringing: dict[Ticket[Any], Script[Any]] = {}  # by the ticket of its end: what makes something live
        self.waiting: dict[Ticket[Any], list[tuple[Script[Any], Ticket[Any]]]] = {}

    def run(self, script: Script[T], ticket: Ticket[T] | None = None) -> Ticket[T]:
        """Start ``script``. ``ticket``, else a new one, takes what it returns, or the ``Error`` that it raises."""
        if ticket is None:
            ticket = Ticket()
        self._advance(script, ticket, None)
        return ticket

    def bring(self, script: Script[T]) -> Ticket[T]:
        """``run`` for a script that makes something ``Live``. ``abandon`` ends it with what it has made."""
        ticket = self.run(script)
        if not ticket.done:
            self._bringing[ticket] = script
        return ticket

    def abandon(self, brought: object, now: float) -> None:
        """The caller that was to get ``brought`` has gone: end it if it is ``Live``, or a ticket that brings it."""
        if isinstance(brought, Ticket):
            script = self._bringing.pop(brought, None)
            if script is not None:
                for waiting in self.waiting.values():
                    if (script, brought) in waiting:
                        waiting.remove((script, brought))
                try:
                    script.throw(Abandoned())
                except Abandoned:
                    script.close()
                brought.fail(LocalProtocolError("the caller that waited for this has gone"))
                self._completed(brought)
            elif brought.done and brought.error is None:
                self.abandon(brought.result(), now)
        elif isinstance(brought, Live):
            brought.abandon(now)

    def go_on(self, answered: Ticket[Any]) -> None:
        """Continue the scripts that wait for ``answered``, which is done."""
        for script, ticket in self.waiting.pop(answered, ()):
            self._advance(script, ticket, answered)

    def _advance(self, script: Script[Any], ticket: Ticket[Any], answered: Ticket[Any] | None) -> None:
        """Run ``script`` until it waits for an answer, or ends and completes ``ticket``."""
        try:
            while True:
                if answered is None:
                    answered = next(script)
                elif answered.error is not None:
                    answered = script.throw(answered.error)
                else:
                    answered = script.send(answered.result())
                if not answered.done:
                    self.waiting.setdefault(answered, []).append((script, ticket))
                    return
        except StopIteration as stop:
            ticket.succeed(stop.value)
        except Error as error:
            ticket.fail(error)
        except Exception as bug:
            name: str = getattr(script, "__name__", "a script")
            failed = InternalError(name, bug)
            self._emit(ConversationFailed(name, failed))
            ticket.fail(failed)
        if self._bringing:
            self._bringing.pop(ticket, None)
        self._completed(ticket)
