"""The script runner: generators that yield tickets, and are sent each ticket's value or have its error thrown in.

Rules:

* A script runs inside the call that completed the ticket it waits for. Several scripts may wait for one ticket.
* A script that returns completes its ticket with the value. A script that raises an ``Error`` fails its ticket.
* Any other exception is a fault of this library: it fails the ticket with InternalError, and is an event.

Not here: the scripts themselves (``client.scripts``, ``drain``, ``read.snapshot``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from jsproto.errors import Error, InternalError
from jsproto.events import ConversationFailed
from jsproto.ticket import Ticket

T = TypeVar("T")
Script: TypeAlias = Generator[Ticket[Any], Any, T]


class ScriptRunner:
    """The scripts of one session.

    Attribute: ``waiting`` (by ticket: the scripts that wait for it, each with the ticket of its own end).
    """

    __slots__ = ("_completed", "_emit", "waiting")

    def __init__(self, completed: Callable[[Ticket[Any]], None], emit: Callable[[ConversationFailed], None]) -> None:
        """``completed`` is called with the ticket of each script that has ended, ``emit`` with what is to be told."""
        self._completed = completed
        self._emit = emit
        self.waiting: dict[Ticket[Any], list[tuple[Script[Any], Ticket[Any]]]] = {}

    def run(self, script: Script[T]) -> Ticket[T]:
        """Start ``script``. The ticket takes what it returns, or the ``Error`` that it raises."""
        ticket: Ticket[T] = Ticket()
        self._advance(script, ticket, None)
        return ticket

    def go_on(self, answered: Ticket[Any]) -> None:
        """Continue the scripts that wait for ``answered``, which is done."""
        for script, ticket in self.waiting.pop(answered, ()):
            self._advance(script, ticket, answered)

    def _advance(self, script: Script[Any], ticket: Ticket[Any], answered: Ticket[Any] | None) -> None:
        """Run ``script`` until it waits for an answer that is not there, or ends and completes ``ticket``."""
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
        self._completed(ticket)
