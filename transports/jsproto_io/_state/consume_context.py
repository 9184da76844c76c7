"""The part of ``consume`` that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.work import ConsumerWork
from jsproto.errors import Error
from jsproto.events import CallbackFailed
from jsproto.ticket import Ticket
from jsproto_io._state.common import ended
from jsproto_io._state.consuming import PullSubscriptionBase
from jsproto_io._state.shared import ConnectionBase

D = TypeVar("D", bound=ConsumerMsg)


class ConsumeContextBase(Generic[D]):
    """The state of one call of ``consume``."""

    _connection: ConnectionBase
    _subscription: PullSubscriptionBase[D]

    def __init__(self, core: ConsumerWork[D]) -> None:
        self._core = core
        self._at_end: Callable[[float], None] | None = None  # the end of a subscription that nobody else has
        self._last_failure: BaseException | None = None

    def __repr__(self) -> str:
        core, sub = self._core, self._subscription
        state = f"{core.running} running, {core.pending_msgs} waiting, {core.finished} finished, {core.failed} failed"
        end = ended(core.error) or (", ended" if core.closed.done else "")
        return f"<ConsumeContext consumer {sub.consumer} of stream {sub.stream}: {state}{end}>"

    @property
    def running(self) -> int:
        """How many callbacks run now."""
        return self._core.running

    @property
    def pending_msgs(self) -> int:
        """How many messages were received, and wait for a callback."""
        return self._core.pending_msgs

    @property
    def finished(self) -> int:
        """How many callbacks have returned."""
        return self._core.finished

    @property
    def failed(self) -> int:
        """How many callbacks have raised."""
        return self._core.failed

    @property
    def given_back(self) -> int:
        """How many messages ``stop`` or ``drain`` has given back by a nak."""
        return self._core.given_back

    @property
    def last_failure(self) -> BaseException | None:
        """What the last callback that raised has raised."""
        return self._last_failure

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._core.closed.done

    @property
    def error(self) -> Error | None:
        """Why it has ended by itself. None: it works, or was ended."""
        return self._core.error

    def _drain_outputs(self) -> None:
        """Wake whom the last input has woken, and send what it wants to be sent."""
        self._connection._release(lambda now: None)

    def _report(self, message: D, error: BaseException) -> None:
        self._last_failure = error
        event = CallbackFailed(message.subject, error)
        self._connection._release(lambda now: self._connection._session.emit(event))

    def _leave(self, ticket: Ticket[None] | None) -> bool:
        """A worker ends. ``ticket``: what it waited for.

        Returns whether the connection is to be closed now, because a callback has drained it.
        """
        connection = self._connection
        connection._release(lambda now: self._core.leave(ticket, now))
        if not self._core.closed.done or self not in connection._serving:
            return False
        connection._serving.discard(self)
        if self._at_end is not None:
            connection._release(self._at_end)
        return connection._closes_when_served and not connection._serving
